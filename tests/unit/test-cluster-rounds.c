/* test-cluster-rounds.c: an old copy of a member's disk is told by rounds, whatever
 * weftd has heard of the disk itself; and nobody is taken for one who is none.
 */

#include <config.h>

#undef NDEBUG
#include <assert.h>

#include "test-cluster-rig.h"

/* What is on the disk is read by another process. */
static void
start_again (struct rig *r, unsigned m, uint64_t round)
{
  static unsigned starts;
  struct fake_disk *d = &r->disk[m];

  d->round = round;
  d->dead = false;
  d->op = 0;
  if (d->min_epoch <= d->states_epoch)
    d->min_epoch = d->states_epoch + 1;
  snprintf (d->instance, sizeof d->instance, "%u-%u", m, ++starts);
}

/* All members and the array process have this one. */
static void
round_is (struct rig *r, uint64_t round)
{
  for (unsigned m = 0; m < MEMBERS; m++)
    if (state (r, m) == MEMBER_IN_SYNC)
      r->disk[m].round = round;
  r->round = round;
}

/* The array is written, and weftd has heard of a round. */
static void
begin_rounds (struct rig *r)
{
  begin_writing (r, 0);
  round_is (r, 10);
  rounds (r, 20);
}

/* Made, written, and left: nobody writes, and nobody lives. */
static void
left (struct rig *r)
{
  begin_rounds (r);
  detach (r);
  rounds (r, 20);
  for (unsigned m = 0; m < MEMBERS; m++)
    r->disk[m].dead = true;
  rounds (r, 60);
}

/* Two behind at its first word: as a copy that is known by its sequence. */
static void
test_heard_before (void)
{
  struct rig r;

  left (&r);
  start_again (&r, 3, 8);
  for (unsigned m = 0; m < 3; m++)
    start_again (&r, m, 10);
  UNTIL (&r, state (&r, 3) == MEMBER_OUT);
  UNTIL (&r, state (&r, 3) == MEMBER_JOINING);
  assert (r.disk[3].full);
  UNTIL (&r, state (&r, 3) == MEMBER_IN_SYNC);
  cluster_free (r.c);
}

/* Beside a writer it is told nothing before it is out. */
static void
test_beside_writer (void)
{
  struct rig r;

  begin_rounds (&r);
  r.lags = true;
  start_again (&r, 3, 8);
  rounds (&r, 20);
  assert (state (&r, 3) == MEMBER_IN_SYNC);
  assert (r.disk[3].refused && strcmp (r.disk[3].refused, "old-copy") == 0);
  r.lags = false;
  UNTIL (&r, state (&r, 3) == MEMBER_JOINING);
  assert (r.disk[3].full);
  cluster_free (r.c);
}

/* Its peers say how far they are when they confirm the epoch of the next writer. */
static void
test_confirmed_behind (void)
{
  struct rig r;

  begin_rounds (&r);
  for (unsigned m = 0; m < 3; m++)
    r.disk[m].round = 12;
  start_again (&r, 3, 10);
  detach (&r);
  attach (&r, true);
  assert (state (&r, 3) == MEMBER_OUT);
  cluster_free (r.c);
}

/* weftd knows nothing of rounds when the copy speaks: its peers do, whoever comes
 * first.  Nobody is granted the array with it.
 */
static void
test_peers_tell (bool writable)
{
  struct rig r;

  rig_init (&r, 0);
  make_array (&r);
  for (unsigned m = 0; m < MEMBERS; m++)
    r.disk[m].dead = true;
  rounds (&r, 60);
  assert (array (&r)->rec.round == 0);
  start_again (&r, 3, 8);
  rounds (&r, 8);
  assert (!array (&r)->disk[3]->old_copy);
  for (unsigned m = 0; m < 3; m++)
    start_again (&r, m, 10);
  attach (&r, writable);
  assert (array (&r)->rec.round == 10);
  assert (!writable || state (&r, 3) == MEMBER_OUT);
  UNTIL (&r, state (&r, 3) == MEMBER_OUT);
  UNTIL (&r, state (&r, 3) == MEMBER_JOINING);
  assert (r.disk[3].full);
  cluster_free (r.c);
}

/* What was heard outlives weftd. */
static void
test_stored (void)
{
  struct rig r;

  begin_writing (&r, 0);
  round_is (&r, 10);
  rounds (&r, 60);
  restart (&r);
  assert (array (&r)->rec.round == 10);
  cluster_free (r.c);

  left (&r);
  restart (&r);
  for (unsigned m = 0; m < MEMBERS; m++)
    start_again (&r, m, m == 0 ? 8 : 9);
  UNTIL (&r, state (&r, 0) == MEMBER_OUT);
  rounds (&r, 20);
  for (unsigned m = 1; m < MEMBERS; m++)
    assert (state (&r, m) == MEMBER_IN_SYNC);
  cluster_free (r.c);
}

/* One behind is what a crash leaves.  A resync is told: it is no process that was
 * there before, as the others are.
 */
static void
test_one_behind (void)
{
  struct rig r;

  begin_rounds (&r);
  r.disk[3].dead = true;
  r.attached = false;
  r.beat_op = r.attach_op = 0;
  snprintf (r.instance, sizeof r.instance, "another");
  start_again (&r, 3, 9);
  rounds (&r, 60); /* the writer is silent */
  attach (&r, true);
  for (unsigned m = 0; m < MEMBERS; m++) {
    assert (state (&r, m) == MEMBER_IN_SYNC);
    assert (array (&r)->known[m] == (m != 3));
  }
  cluster_free (r.c);
}

/* A writer that is silent knows no process of a member that was started since: what
 * peers say later shows that this one has an old copy, before anybody reads it.
 */
static void
test_beside_silent_writer (void)
{
  struct rig r;

  begin_rounds (&r);
  r.disk[3].dead = true;
  r.attached = false;
  r.beat_op = r.attach_op = 0;
  rounds (&r, 60);
  start_again (&r, 3, 10);
  rounds (&r, 8);
  assert (!array (&r)->disk[3]->old_copy && state (&r, 3) == MEMBER_IN_SYNC);
  for (unsigned m = 0; m < 3; m++)
    r.disk[m].round = 12;
  UNTIL (&r, array (&r)->disk[3]->old_copy);
  UNTIL (&r, r.disk[3].refused && strcmp (r.disk[3].refused, "old-copy") == 0);
  cluster_free (r.c);
}

/* One that is out has what the array had when it went, however far that is now.  If
 * it has less it is no copy of what it was then, and is rebuilt in full.
 */
static void
test_out (uint64_t returns_with, bool full)
{
  struct rig r;

  begin_rounds (&r);
  r.disk[3].dead = true;
  r.round = 12; /* not heard before the loss is told */
  lose (&r, 3);
  assert (array (&r)->rec.member[3].round == 12);
  round_is (&r, 1000);
  rounds (&r, 60);
  start_again (&r, 3, returns_with);
  UNTIL (&r, r.disk[3].join.phase == CLUSTER_JOIN_COPYING);
  assert (r.disk[3].full == full);
  UNTIL (&r, state (&r, 3) == MEMBER_IN_SYNC);
  assert (array (&r)->rec.member[3].round == 0);
  cluster_free (r.c);
}

/* What its writer has written beyond that is heard of when it is out. */
static void
test_out_late (void)
{
  struct rig r;

  begin_rounds (&r);
  start_again (&r, 3, 10);
  round_of (&r);
  assert (!array (&r)->disk[3]->old_copy && state (&r, 3) == MEMBER_IN_SYNC);
  r.round = 12;
  UNTIL (&r, state (&r, 3) == MEMBER_OUT);
  assert (array (&r)->rec.member[3].round == 12);
  UNTIL (&r, state (&r, 3) == MEMBER_JOINING);
  assert (r.disk[3].full);
  cluster_free (r.c);
}

/* weftd was started again, and what members said last is not of one moment: whoever
 * is written to is no old copy.
 */
static void
test_writer_goes_on (void)
{
  struct rig r;

  begin_rounds (&r);
  restart (&r);
  r.disk[0].round = r.round = 13; /* the others speak later */
  rounds (&r, 60);
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (state (&r, m) == MEMBER_IN_SYNC && !array (&r)->disk[m]->old_copy);
  cluster_free (r.c);
}

/* Where nobody writes, a joiner has one more than those that it may have copied from,
 * if all of them have the last.
 */
static void
test_join_alone (void)
{
  struct rig r;

  left (&r);
  for (unsigned m = 0; m < 3; m++)
    start_again (&r, m, 10);
  attach (&r, true);
  UNTIL (&r, state (&r, 3) == MEMBER_OUT);
  detach (&r);
  rounds (&r, 8);
  start_again (&r, 3, 10);
  UNTIL (&r, state (&r, 3) == MEMBER_IN_SYNC);
  assert (r.disk[3].round == 11 && array (&r)->rec.round == 11);
  cluster_free (r.c);
}

/* Nobody is served what is old, and the right disk is itself again. */
static void
test_last_copy (void)
{
  struct cluster_attach at = { .node = "host",
                               .instance = "x",
                               .writable = true };
  struct rig r;

  begin_writing (&r, 0);
  r.disk[0].dead = true;
  lose (&r, 0);
  round_is (&r, 10);
  rounds (&r, 60);
  detach (&r);
  rounds (&r, 20);
  for (unsigned m = 1; m < MEMBERS; m++)
    r.disk[m].dead = true;
  rounds (&r, 60);
  for (unsigned m = 1; m < MEMBERS; m++)
    start_again (&r, m, m == 3 ? 8 : 10);
  rounds (&r, 60);
  for (unsigned i = 0; i < 4; i++) {
    ASK (&r, cluster_attach (r.c, in, "a", &at));
    assert (r.code && strcmp (r.code, "member-missing") == 0);
    rounds (&r, 60);
    restart (&r);
    rounds (&r, 60);
  }
  assert (state (&r, 3) == MEMBER_IN_SYNC);
  start_again (&r, 3, 10);
  attach (&r, true);
  assert (state (&r, 3) == MEMBER_IN_SYNC);
  cluster_free (r.c);
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
  test_out (12, false);
  test_out (11, false);
  test_out (10, true);
  test_out_late ();
  test_writer_goes_on ();
  test_join_alone ();
  test_last_copy ();
  return 0;
}
