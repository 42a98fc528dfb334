/* test-cluster-rounds.c: rounds reveal an old copy of a member's disk, whatever weftd has
 * heard of the disk itself; and no current disk is taken for an old copy.
 */

#include <config.h>

#include "test-cluster-rig.h"

/* Another process reads what is on the disk. */
static void
start_with (unsigned m, uint64_t round)
{
  struct fake_disk *d = &rig.disk[m];

  d->round = round;
  if (d->min_epoch <= d->states_epoch)
    d->min_epoch = d->states_epoch + 1;
  start_again (m);
}

/* All members and the array process have this one. */
static void
round_is (uint64_t round)
{
  for (unsigned m = 0; m < MEMBERS; m++)
    if (state (m) == MEMBER_IN_SYNC)
      rig.disk[m].round = round;
  rig.round = round;
}

/* The array is written, and weftd has heard of a round. */
static void
begin_rounds (void)
{
  begin_writing ();
  round_is (10);
  live_on (20);
}

/* Made, written, and left: nobody writes, and nobody lives. */
static void
left (void)
{
  begin_rounds ();
  detach ();
  live_on (20);
  stop_members ();
}

/* Two behind at its first word: as a copy that is known by its sequence. */
static void
test_heard_before (void)
{
  left ();
  start_with (3, 8);
  for (unsigned m = 0; m < 3; m++)
    start_with (m, 10);
  UNTIL (state (3) == MEMBER_OUT);
  rebuilt_in_full (3);
}

/* Beside a writer the member hears nothing before it is out. */
static void
test_beside_writer (void)
{
  begin_rounds ();
  rig.lags = true;
  start_with (3, 8);
  live_on (20);
  assert (state (3) == MEMBER_IN_SYNC);
  assert (rig.disk[3].refused && strcmp (rig.disk[3].refused, "old-copy") == 0);
  rig.lags = false;
  rebuilt_in_full (3);
}

/* Its peers say how far they are when they confirm the epoch of the next writer. */
static void
test_confirmed_behind (void)
{
  begin_rounds ();
  for (unsigned m = 0; m < 3; m++)
    rig.disk[m].round = 12;
  start_with (3, 10);
  detach ();
  attach (true);
  assert (state (3) == MEMBER_OUT);
}

/* weftd knows nothing of rounds when the copy speaks: its peers do, whoever comes
 * first.  Nobody is granted the array with it.
 */
static void
test_peers_tell (bool writable)
{
  begin_array ();
  stop_members ();
  assert (array ()->rec.round == 0);
  start_with (3, 8);
  live_on (8);
  assert (!array ()->disk[3]->old_copy);
  for (unsigned m = 0; m < 3; m++)
    start_with (m, 10);
  attach (writable);
  assert (array ()->rec.round == 10);
  assert (!writable || state (3) == MEMBER_OUT);
  UNTIL (state (3) == MEMBER_OUT);
  UNTIL (state (3) == MEMBER_JOINING);
  assert (rig.disk[3].full);
}

/* A reported round survives a restart of weftd. */
static void
test_stored (void)
{
  begin_rounds ();
  live_on (40);
  restart ();
  assert (array ()->rec.round == 10);

  left ();
  restart ();
  for (unsigned m = 0; m < MEMBERS; m++)
    start_with (m, m == 0 ? 8 : 9);
  UNTIL (state (0) == MEMBER_OUT);
  live_on (20);
  for (unsigned m = 1; m < MEMBERS; m++)
    assert (state (m) == MEMBER_IN_SYNC);
}

/* A crash leaves a disk one round behind.  The resync is announced, because this process
 * is new, unlike the others.
 */
static void
test_one_behind (void)
{
  begin_rounds ();
  rig.disk[3].dead = true;
  rig.attached = false;
  rig.beat_op = rig.attach_op = 0;
  snprintf (rig.instance, sizeof rig.instance, "another");
  start_with (3, 9);
  live_on (60); /* the writer is silent */
  attach (true);
  for (unsigned m = 0; m < MEMBERS; m++) {
    assert (state (m) == MEMBER_IN_SYNC);
    assert (array ()->known[m] == (m != 3));
  }
}

/* A silent writer does not know processes of members that were started since.  Later
 * reports of peers show that this member has an old copy, before any client reads it.
 */
static void
test_beside_silent_writer (void)
{
  char known[sizeof rig.disk[3].instance];
  uint64_t lapse;

  begin_rounds ();
  memcpy (known, rig.disk[3].instance, sizeof known);
  lapse = member (3)->lapse;
  rig.disk[3].dead = true;
  rig.attached = false;
  rig.beat_op = rig.attach_op = 0;
  live_on (60);
  start_with (3, 10);
  live_on (8);
  assert (!array ()->disk[3]->old_copy && state (3) == MEMBER_IN_SYNC);
  for (unsigned m = 0; m < 3; m++)
    rig.disk[m].round = 12;
  UNTIL (array ()->disk[3]->old_copy);
  UNTIL (rig.disk[3].refused && strcmp (rig.disk[3].refused, "old-copy") == 0);
  /* The process that the writer knows was cut off, and may be behind in what weftd
   * has heard: the writer writes to it still.
   */
  memcpy (rig.disk[3].instance, known, sizeof known);
  UNTIL (cluster_disk_heard (array ()->disk[3]) &&
         !array ()->disk[3]->old_copy);
  live_on (20);
  assert (!array ()->disk[3]->old_copy && state (3) == MEMBER_IN_SYNC);
  assert (member (3)->lapse == lapse);
}

/* A member that joins meanwhile may have copied from the old copy, so it is rebuilt in
 * full. */
static void
test_joiner_beside_old_copy (void)
{
  begin_copying (LAYOUT_RAIDX, MEMBERS);
  round_is (10);
  live_on (20);
  rig.attached = false;
  rig.beat_op = rig.attach_op = 0;
  rig.disk[3].dead = true;
  live_on (60);
  assert (state (1) == MEMBER_JOINING && !rig.disk[1].full);
  start_with (3, 10);
  live_on (8);
  assert (state (1) == MEMBER_JOINING && !array ()->disk[3]->old_copy);
  rig.disk[0].round = rig.disk[2].round = 12;
  UNTIL (array ()->disk[3]->old_copy);
  assert (member (1)->reset);
  UNTIL (state (1) == MEMBER_OUT);
  assert (strcmp (member (1)->reason,
                  "it may have copied from an old copy of a disk") == 0);
  start_with (3, 12); /* the right disk */
  rig.disk[1].stuck = false;
  snprintf (rig.instance, sizeof rig.instance, "another");
  attach (true);
  rebuilt_in_full (1);
}

/* A member that is out keeps the round that the array had when it went, however far the
 * array is now.  If it has less, it is not the disk that went out, and is rebuilt in
 * full.
 */
static void
test_out (uint64_t returns_with, bool full)
{
  begin_rounds ();
  rig.disk[3].dead = true;
  rig.round = 12; /* not heard before the loss is reported */
  lose (3);
  assert (member (3)->round == 12);
  round_is (1000);
  live_on (60);
  start_with (3, returns_with);
  UNTIL (rig.disk[3].join.phase == CLUSTER_JOIN_COPYING);
  assert (rig.disk[3].full == full);
  UNTIL (state (3) == MEMBER_IN_SYNC);
  assert (member (3)->round == 0);
}

/* weftd hears of the writer's further writes when the member is out. */
static void
test_out_late (void)
{
  begin_rounds ();
  start_with (3, 10);
  live ();
  assert (!array ()->disk[3]->old_copy && state (3) == MEMBER_IN_SYNC);
  rig.round = 12;
  UNTIL (state (3) == MEMBER_OUT);
  assert (member (3)->round == 12);
  rebuilt_in_full (3);
}

/* weftd was started again, and the members' last reports are from different times: a
 * member that gets writes is no old copy.
 */
static void
test_writer_goes_on (void)
{
  begin_rounds ();
  restart ();
  rig.disk[0].round = rig.round = 13; /* the others speak later */
  live_on (60);
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (state (m) == MEMBER_IN_SYNC && !array ()->disk[m]->old_copy);
}

/* Where nobody writes, a joiner has one more than those that it may have copied from,
 * if all of them have the last.
 */
static void
test_join_alone (void)
{
  left ();
  for (unsigned m = 0; m < 3; m++)
    start_with (m, 10);
  attach (true);
  UNTIL (state (3) == MEMBER_OUT);
  detach ();
  live_on (8);
  start_with (3, 10);
  UNTIL (state (3) == MEMBER_IN_SYNC);
  assert (rig.disk[3].round == 11 && array ()->rec.round == 11);
}

/* Nobody is served what is old, and the right disk is itself again. */
static void
test_last_copy (void)
{
  begin_writing ();
  die (0);
  round_is (10);
  live_on (60);
  detach ();
  live_on (20);
  stop_members ();
  for (unsigned m = 1; m < MEMBERS; m++)
    start_with (m, m == 3 ? 8 : 10);
  live_on (60);
  for (unsigned i = 0; i < 4; i++) {
    attach_refused ("member-missing");
    live_on (60);
    restart ();
    live_on (60);
  }
  assert (state (3) == MEMBER_IN_SYNC);
  start_with (3, 10);
  attach (true);
  assert (state (3) == MEMBER_IN_SYNC);
}

int
main (void)
{
  test_heard_before ();
  test_beside_writer ();
  test_confirmed_behind ();
  test_peers_tell (true);
  test_peers_tell (false);
  test_stored ();
  test_one_behind ();
  test_beside_silent_writer ();
  test_joiner_beside_old_copy ();
  test_out (12, false);
  test_out (11, false);
  test_out (10, true);
  test_out_late ();
  test_writer_goes_on ();
  test_join_alone ();
  test_last_copy ();
  return 0;
}
