/* test-cluster-copies.c: an old copy of a member's disk is never taken for the current
 * one, and no other copy goes out because of it.
 */

#include <config.h>

#include "test-cluster-rig.h"

static bool
failed (void)
{
  return strcmp (cluster_array_state (array ()), "failed") == 0;
}

static void
test_old_copy (void)
{
  struct fake_disk *d = &rig.disk[3], yesterday;

  begin_array ();
  yesterday = yesterday_of (3);
  assert (cluster_disk_find (engine, d->uuid)->rec.sequence == d->sequence);
  stop (3);
  restart ();
  put (3, &yesterday);
  UNTIL (state (3) == MEMBER_OUT);
  rebuilt_in_full (3); /* for it has forgotten */

  /* While it goes out beside a writer it is given nothing. */
  begin_writing ();
  yesterday = yesterday_of (3);
  stop (3);
  put (3, &yesterday);
  rig.lags = true;
  UNTIL (array ()->rec.change.epoch);
  for (unsigned i = 0; i < 4; i++) {
    live_on (30);
    assert (state (3) == MEMBER_IN_SYNC);
    assert (d->sequence == yesterday.sequence);
    restart ();
  }
  rig.lags = false;
  UNTIL (state (3) == MEMBER_OUT);
  rebuilt_in_full (3);

  /* As a joiner, and as one that is out. */
  begin_writing ();
  yesterday = yesterday_of (3);
  copy_on (3);
  assert (!d->full);
  stop (3);
  UNTIL (state (3) == MEMBER_OUT);
  put (3, &yesterday);
  rebuilt_in_full (3);
}

/* An old copy of the disk with the last copy is refused, even if it is only one step old,
 * however often it and weftd are started and whatever weftd sends to them.
 */
static void
test_last_copy (unsigned lag)
{
  struct fake_disk *d = &rig.disk[3], yesterday, right;
  uint64_t epoch;

  begin_array ();
  stop (0);
  attach (true); /* after 10 s, without it */
  assert (state (0) == MEMBER_OUT);
  live_on (60);
  yesterday = *d;
  d->sequence += lag; /* heard, but not stored */
  live_on (8);
  detach ();
  live_on (8);
  yesterday.min_epoch = d->min_epoch; /* known by its sequence alone */
  yesterday.sequence = d->sequence - lag;
  right = *d;
  stop (3);
  for (unsigned i = 0; i < 20; i++) {
    put (3, i % 2 ? d : &yesterday);
    if (i % 3 == 2)
      restart ();
    live_on (i % 3 == 2 || i % 5 == 0 ? 60 : 6);
    assert (failed () && state (3) == MEMBER_IN_SYNC);
    assert (d->sequence == yesterday.sequence);
    if (i % 4 == 0)
      DONE (cluster_member_cancel (engine, in, "a", 0)); /* a new epoch */
    attach_refused ("member-missing");
    assert (strstr (rig.detail, "old copy") && strstr (rig.detail, "delete"));
  }
  assert (verdict () == CLUSTER_ERROR && says ("put the right disk back"));

  /* The right one is itself, whatever was in its place. */
  epoch = array ()->rec.epoch;
  put (3, &right);
  live_on (4);
  assert (!failed ());
  attach (true);
  assert (state (3) == MEMBER_IN_SYNC && array ()->rec.epoch > epoch);
}

/* It can't be put in the place of itself, and can be let go with the array. */
static void
test_last_copy_let_go (void)
{
  struct fake_disk *d = &rig.disk[3], yesterday;

  begin_array ();
  stop (0);
  attach (true);
  yesterday = yesterday_of (3);
  rig.attached = false;
  for (unsigned m = 1; m < MEMBERS; m++)
    stop (m);
  put (3, &yesterday);
  UNTIL (array ()->disk[3]->old_copy);
  REFUSED ("last-copy", cluster_member_replace (engine, in, "a", 3,
                                                rig.disk[4].uuid, false));
  DONE (cluster_array_delete (engine, in, "a"));
  UNTIL (cluster_uuid_is_zero (d->array));
}

/* Both copies of something are old: neither is given up for the other. */
static void
test_all_old (void)
{
  struct fake_disk yesterday[2];

  begin_array_of (LAYOUT_RAID1, 2);
  live_on (60);
  memcpy (yesterday, rig.disk, sizeof yesterday);
  for (unsigned m = 0; m < 2; m++)
    rig.disk[m].sequence += 9;
  live_on (60);
  for (unsigned m = 0; m < 2; m++)
    stop (m);
  restart ();
  for (unsigned m = 0; m < 2; m++)
    put (m, &yesterday[m]);
  live_on (80);
  for (unsigned m = 0; m < 2; m++) {
    assert (state (m) == MEMBER_IN_SYNC);
    assert (!cluster_uuid_is_zero (rig.disk[m].array));
  }
  assert (failed ());
}

/* After an old copy was taken in and rebuilt, the disk that was in its place is
 * the old one, though it had written more; and though it has raised its min_epoch
 * as high as its start may, which this weftd has not heard.
 */
static void
test_right_disk_too_late (bool blank)
{
  struct fake_disk *d = &rig.disk[3], yesterday, right;

  begin_array ();
  yesterday = yesterday_of (3);
  if (blank) {
    memset (yesterday.array, 0, 16);
    yesterday.min_epoch = yesterday.states_epoch = 0;
  }
  d->sequence += 1000;
  attach (true);
  lose (3);
  live_on (1);
  d->dead = true;
  right = *d;
  UNTIL (state (3) == MEMBER_OUT && !array ()->disk[3]->alive);
  right.states_epoch = array ()->rec.epoch;
  right.min_epoch = right.states_epoch + 1;
  restart ();
  put (3, &yesterday);
  UNTIL (state (3) == MEMBER_IN_SYNC);
  assert (d->sequence < right.sequence);
  live_on (60);
  stop (3);
  restart ();
  put (3, &right);
  UNTIL (state (3) == MEMBER_OUT);
  rebuilt_in_full (3);
}

/* Heartbeats of one process may come out of order, and weftd may be started in
 * between: that makes no old copy of its disk.
 */
static void
test_out_of_order (void)
{
  struct fake_disk *d = &rig.disk[3];
  uint64_t epoch, min_epoch;

  begin_writing ();
  live_on (50);
  epoch = array ()->rec.epoch;
  min_epoch = d->min_epoch;
  d->sequence += 5;
  live_on (50);
  d->sequence -= 5;
  d->min_epoch--;
  restart ();
  live_on (8);
  assert (!array ()->disk[3]->old_copy);
  d->sequence += 5;
  d->min_epoch = min_epoch;
  live_on (30);
  assert (array ()->rec.epoch == epoch);
  assert (state (3) == MEMBER_IN_SYNC);
}

/* A copy that is put back in a moment is an old one, too. */
static void
test_copy_at_once (void)
{
  struct fake_disk *d = &rig.disk[3], copy;

  begin_array ();
  live_on (50);
  copy = *d;
  d->sequence += 5;
  live_on (8);
  put (3, &copy);
  UNTIL (state (3) == MEMBER_OUT);
  rebuilt_in_full (3);

  /* Everything was off for a while, and one comes back as of yesterday: an
   * attach does not wait for it.
   */
  attach (true);
  copy = yesterday_of (3);
  rig.attached = false; /* it dies with them */
  snprintf (rig.instance, sizeof rig.instance, "h again");
  stop_members ();
  restart ();
  for (unsigned i = 0; i < MEMBERS; i++)
    put (i, i == 3 ? &copy : &rig.disk[i]);
  live_on (40);
  attach (true);
  UNTIL (d->full || d->join.phase != CLUSTER_JOIN_NONE);
  UNTIL (state (3) == MEMBER_IN_SYNC);
}

/* An older copy returns after the current copy was made blank, or has even joined again:
 * nothing is known any longer of how far the disk was.
 */
static void
test_older_after_blank (bool placed)
{
  struct fake_disk *d = &rig.disk[3], older, yesterday;

  begin_array ();
  older = yesterday_of (3);
  yesterday = yesterday_of (3);
  stop (3);
  put (3, &yesterday);
  UNTIL (array ()->disk[3]->blank);
  UNTIL (!placed || !cluster_uuid_is_zero (d->array));
  assert (state (3) == MEMBER_OUT);
  put (3, &older);
  rebuilt_in_full (3);
  assert (member (3)->confirmed == member (3)->fence);
}

/* It goes out, and its place to another disk at once, for its node is drained. */
static void
test_old_copy_moves (void)
{
  struct fake_disk *d = &rig.disk[3], yesterday;

  begin_array ();
  yesterday = yesterday_of (3);
  stop (2);
  stop (3);
  DONE (cluster_node_drain (engine, in, "n4", true));
  live_on (8);
  assert (state (3) == MEMBER_IN_SYNC);
  put (3, &yesterday);
  UNTIL (memcmp (member (3)->disk, d->uuid, 16) != 0);
  UNTIL (cluster_uuid_is_zero (d->array)); /* it is free again */
}

/* An old copy is served beside a disk whose process is stopped for a moment. */
static void
test_old_clone (void)
{
  struct fake_disk *d = &rig.disk[3], yesterday;
  uint64_t epoch;

  begin_writing ();
  yesterday = yesterday_of (3);
  epoch = array ()->rec.epoch;
  put (4, &yesterday);
  d->dead = true;
  live_on (14);
  d->dead = false;
  live_on (40);
  assert (state (3) == MEMBER_IN_SYNC && array ()->rec.epoch == epoch);
  assert (array ()->disk[3]->alive && !array ()->disk[3]->old_copy);
}

/* A running clone keeps asking; one warning is logged. */
static void
test_clone (void)
{
  begin_array ();
  live_on (8);
  rig.warnings = 0;
  put (4, &rig.disk[3]);
  live_on (80);
  assert (rig.warnings == 1 && array ()->disk[3]->alive);
  put (4, &rig.disk[3]);
  live_on (80);
  assert (rig.warnings == 2);
  assert (state (3) == MEMBER_IN_SYNC);
}

/* A member that the writer reports stays where weftd knows that the other one is an
 * old copy, or has failed, though that can't go out itself, for the writer waits for a
 * third one.
 */
static void
test_beside_old_copy (bool failed)
{
  unsigned last = attach_without_first (), old = last == 1 ? 2 : 1;
  unsigned good = 1 + 2 + 3 - last - old;
  struct fake_disk yesterday = yesterday_of (old);

  stop (last);
  report (last);
  assert (cluster_array_writer (array ())->path[last].lost);
  if (failed)
    rig.disk[old].failed = true;
  else {
    stop (old);
    put (old, &yesterday);
  }
  UNTIL (array ()->disk[old]->old_copy ||
         cluster_disk_failed (array ()->disk[old]));
  assert (state (old) == MEMBER_IN_SYNC);
  report (good);
  assert (state (good) == MEMBER_IN_SYNC);
  assert (cluster_array_writer (array ())->path[good].lost);
}

/* The same beside a failed disk.  The idle writer does not know yet that the disk failed,
 * and hears so when it has the other member.
 */
static void
test_beside_failed (void)
{
  begin_writing_to (LAYOUT_RAID1, 2);
  rig.disk[1].failed = true;
  UNTIL (cluster_disk_failed (array ()->disk[1]));
  assert (state (1) == MEMBER_IN_SYNC);
  report (0); /* a connection that broke */
  assert (state (0) == MEMBER_IN_SYNC);
  UNTIL (!cluster_array_writer (array ())->path[0].lost); /* given back */
  UNTIL (state (1) == MEMBER_OUT);
  assert (state (0) == MEMBER_IN_SYNC);
  assert (strcmp (member (1)->reason, "it has failed") == 0);
}

/* The node of disk 0 is drained, so the disk is about to go out, and the writer prepares
 * slowly.  Meanwhile an old copy takes the place of another member.
 */
static void
old_copy_beside_change (unsigned members)
{
  struct fake_disk yesterday;

  begin_writing_to (LAYOUT_RAID1, members);
  yesterday = yesterday_of (1);
  rig.lags = true;
  DONE (cluster_node_drain (engine, in, "n1", true));
  UNTIL (array ()->rec.change.states[0] == MEMBER_OUT &&
         array ()->rec.change.epoch);
  put (1, &yesterday);
  UNTIL (array ()->disk[1]->old_copy);
  assert (state (0) == MEMBER_IN_SYNC);
}

/* Then it stays: first the other one is rebuilt. */
static void
test_old_copy_beside_change (void)
{
  old_copy_beside_change (2);
  rig.lags = false;
  for (unsigned i = 0; array ()->disk[1]->old_copy; i++) {
    assert (i < 4000 && state (0) == MEMBER_IN_SYNC);
    live ();
  }
  UNTIL (state (1) == MEMBER_IN_SYNC);
  assert (state (0) == MEMBER_IN_SYNC);
  UNTIL (cluster_node_drained (engine, "n1"));
}

/* Of three copies it may go; but not two of them, and the old one stays. */
static void
test_old_copy_beside_two (void)
{
  old_copy_beside_change (3);
  assert (array ()->rec.change.states[0] == MEMBER_OUT);
  report (2);
  assert (array ()->rec.change.states[2] != MEMBER_OUT);
  assert (cluster_array_writer (array ())->path[2].lost);
  rig.lags = false;
  live_on (4);
  assert (state (0) == MEMBER_IN_SYNC || state (2) == MEMBER_IN_SYNC);
  UNTIL (state (1) == MEMBER_IN_SYNC && cluster_node_drained (engine, "n1"));
}

/* A last copy is an old one, and a member of the other pair was started again.  The
 * latter goes out to be resynchronized, and nothing of it is reported as lost.
 */
static void
test_old_copy_elsewhere (void)
{
  unsigned last = attach_without_first (), other = last == 1 ? 2 : 1;
  struct fake_disk yesterday = yesterday_of (last);
  uint64_t fence;

  put (last, &yesterday);
  UNTIL (array ()->disk[last]->old_copy);
  fence = member (other)->fence;
  put (other, &rig.disk[other]);
  UNTIL (state (other) == MEMBER_OUT);
  assert (member (other)->fence == fence);
}

/* An old copy was to go out, and does not, for the other one is lost just then; the
 * disk itself comes back.  When it goes out one day it is not rebuilt in full.
 */
static void
test_not_out_after_all (void)
{
  struct fake_disk yesterday, right;

  begin_writing_to (LAYOUT_RAID1, 2);
  yesterday = yesterday_of (1);
  right = rig.disk[1];
  rig.lags = true;
  put (1, &yesterday);
  UNTIL (array ()->rec.change.epoch);
  assert (array ()->rec.change.states[1] == MEMBER_OUT);
  report (0);
  rig.disk[1] = right; /* the process that was */
  rig.disk[1].op = 0;
  live_on (8);
  assert (!array ()->disk[1]->old_copy && state (1) == MEMBER_IN_SYNC);
  rig.lags = false;
  UNTIL (rig.epoch == array ()->rec.epoch && !array ()->rec.change.epoch);
  live_on (80);
  lose (1);
  UNTIL (rig.disk[1].join.phase == CLUSTER_JOIN_COPYING);
  assert (!rig.disk[1].full);
}

int
main (void)
{
  test_old_copy ();
  test_last_copy (1);
  test_last_copy (2);
  test_last_copy (50);
  test_last_copy_let_go ();
  test_all_old ();
  test_right_disk_too_late (false);
  test_right_disk_too_late (true);
  test_out_of_order ();
  test_copy_at_once ();
  test_older_after_blank (false);
  test_older_after_blank (true);
  test_old_copy_moves ();
  test_old_clone ();
  test_clone ();
  test_beside_old_copy (false);
  test_beside_old_copy (true);
  test_beside_failed ();
  test_old_copy_beside_change ();
  test_old_copy_beside_two ();
  test_old_copy_elsewhere ();
  test_not_out_after_all ();
  return 0;
}
