/* test-cluster-copies.c: what a member's disk was once is never taken for what it
 * is, and no other copy goes out beside it.
 */

#include <config.h>

#undef NDEBUG
#include <assert.h>

#include "test-cluster-rig.h"

/* The disk stops, and what is in its place is started. */
static void
put (struct rig *r, unsigned m, const struct fake_disk *what)
{
  static unsigned starts;

  r->disk[m] = *what;
  r->disk[m].dead = false;
  r->disk[m].op = 0;
  snprintf (r->disk[m].instance, 16, "%u-%u", m, ++starts);
}

static void
stop (struct rig *r, unsigned m)
{
  r->disk[m].dead = true;
  UNTIL (r, !array (r)->disk[m]->alive);
}

/* As it is now, before more is written to it. */
static struct fake_disk
yesterday_of (struct rig *r, unsigned m)
{
  struct fake_disk yesterday;

  rounds (r, 60);
  yesterday = r->disk[m];
  r->disk[m].sequence += 5;
  rounds (r, 60);
  return yesterday;
}

static bool
failed (struct rig *r)
{
  return strcmp (cluster_array_state (array (r)), "failed") == 0;
}

static void
test_old_copy (void)
{
  struct rig r;
  struct fake_disk *d = &r.disk[3], yesterday;

  rig_init (&r, 0);
  make_array (&r);
  yesterday = *d;
  d->sequence += 50;
  rounds (&r, 60);
  assert (cluster_disk_find (r.c, d->uuid)->rec.sequence == d->sequence);
  d->dead = true;
  rounds (&r, 40);
  restart (&r);
  put (&r, 3, &yesterday);
  UNTIL (&r, state (&r, 3) == MEMBER_OUT);
  UNTIL (&r, state (&r, 3) == MEMBER_JOINING);
  assert (d->full); /* it has forgotten, and is rebuilt in full */
  UNTIL (&r, state (&r, 3) == MEMBER_IN_SYNC);
  cluster_free (r.c);

  /* While it goes out beside a writer it is given nothing. */
  begin_writing (&r, 0);
  rounds (&r, 60);
  yesterday = *d;
  d->sequence++;
  rounds (&r, 60);
  stop (&r, 3);
  put (&r, 3, &yesterday);
  r.lags = true;
  UNTIL (&r, array (&r)->rec.change.epoch);
  for (unsigned i = 0; i < 4; i++) {
    rounds (&r, 30);
    assert (state (&r, 3) == MEMBER_IN_SYNC);
    assert (d->sequence == yesterday.sequence);
    restart (&r);
  }
  r.lags = false;
  UNTIL (&r, state (&r, 3) == MEMBER_OUT);
  UNTIL (&r, state (&r, 3) == MEMBER_JOINING);
  assert (d->full);
  cluster_free (r.c);

  /* As a joiner, and as one that is out. */
  begin_writing (&r, 0);
  yesterday = *d;
  d->sequence++;
  d->stuck = true;
  rounds (&r, 60);
  lose (&r, 3);
  UNTIL (&r, d->join.phase == CLUSTER_JOIN_COPYING);
  assert (!d->full);
  stop (&r, 3);
  UNTIL (&r, state (&r, 3) == MEMBER_OUT);
  put (&r, 3, &yesterday);
  UNTIL (&r, state (&r, 3) == MEMBER_JOINING);
  assert (d->full);
  UNTIL (&r, state (&r, 3) == MEMBER_IN_SYNC);
  cluster_free (r.c);
}

/* Of a disk with the only copy that is left: however often it and weftd are
 * started, whatever they are told, and be it older by one step alone.
 */
static void
test_last_copy (unsigned lag)
{
  struct rig r;
  struct fake_disk *d = &r.disk[3], yesterday, right;
  struct cluster_attach at = { .node = "host",
                               .instance = "x",
                               .writable = true };
  uint64_t epoch;
  char verdict[2048];

  rig_init (&r, 0);
  make_array (&r);
  stop (&r, 0);
  attach (&r, true); /* after 10 s, without it */
  assert (state (&r, 0) == MEMBER_OUT);
  rounds (&r, 60);
  yesterday = *d;
  d->sequence += lag; /* heard, but not stored */
  rounds (&r, 8);
  detach (&r);
  rounds (&r, 8);
  yesterday.min_epoch = d->min_epoch; /* known by its sequence alone */
  yesterday.sequence = d->sequence - lag;
  right = *d;
  stop (&r, 3);
  for (unsigned i = 0; i < 20; i++) {
    put (&r, 3, i % 2 ? d : &yesterday);
    if (i % 3 == 2)
      restart (&r);
    rounds (&r, i % 3 == 2 || i % 5 == 0 ? 60 : 6);
    assert (failed (&r) && state (&r, 3) == MEMBER_IN_SYNC);
    assert (d->sequence == yesterday.sequence);
    if (i % 4 == 0)
      DONE (&r, cluster_member_cancel (r.c, in, "a", 0)); /* a new epoch */
    ASK (&r, cluster_attach (r.c, in, "a", &at));
    assert (strcmp (r.code, "member-missing") == 0);
    assert (strstr (r.detail, "old copy") && strstr (r.detail, "delete"));
  }
  assert (cluster_verdict (r.c, verdict, sizeof verdict) == CLUSTER_ERROR);
  assert (strstr (verdict, "put the right disk back"));

  /* The right one is itself, whatever was in its place. */
  epoch = array (&r)->rec.epoch;
  put (&r, 3, &right);
  rounds (&r, 4);
  assert (!failed (&r));
  attach (&r, true);
  assert (state (&r, 3) == MEMBER_IN_SYNC && array (&r)->rec.epoch > epoch);
  cluster_free (r.c);
}

/* It can't be put in the place of itself, and can be let go with the array. */
static void
test_last_copy_let_go (void)
{
  struct rig r;
  struct fake_disk *d = &r.disk[3], yesterday;

  rig_init (&r, 0);
  make_array (&r);
  stop (&r, 0);
  attach (&r, true);
  yesterday = *d;
  d->sequence++;
  rounds (&r, 8);
  r.attached = false;
  for (unsigned m = 1; m < MEMBERS; m++)
    stop (&r, m);
  put (&r, 3, &yesterday);
  UNTIL (&r, array (&r)->disk[3]->old_copy);
  REFUSED (&r, "last-copy",
           cluster_member_replace (r.c, in, "a", 3, r.disk[4].uuid));
  DONE (&r, cluster_array_delete (r.c, in, "a"));
  UNTIL (&r, cluster_uuid_is_zero (d->array));
  cluster_free (r.c);
}

/* Both copies of something are old: neither is given up for the other. */
static void
test_all_old (void)
{
  struct rig r;
  struct fake_disk yesterday[2];

  rig_init (&r, 0);
  make_array_of (&r, "a", LAYOUT_RAID1, 0, 2);
  rounds (&r, 60);
  memcpy (yesterday, r.disk, sizeof yesterday);
  for (unsigned m = 0; m < 2; m++)
    r.disk[m].sequence += 9;
  rounds (&r, 60);
  for (unsigned m = 0; m < 2; m++)
    stop (&r, m);
  restart (&r);
  for (unsigned m = 0; m < 2; m++)
    put (&r, m, &yesterday[m]);
  rounds (&r, 80);
  for (unsigned m = 0; m < 2; m++) {
    assert (state (&r, m) == MEMBER_IN_SYNC);
    assert (!cluster_uuid_is_zero (r.disk[m].array));
  }
  assert (failed (&r));
  cluster_free (r.c);
}

/* After an old copy was taken in and rebuilt, the disk that was in its place is
 * the old one, though it had written more; and though it has raised its min_epoch
 * as high as its start may, which this weftd has not heard.
 */
static void
test_right_disk_too_late (bool blank)
{
  struct rig r;
  struct fake_disk *d = &r.disk[3], yesterday, right;

  rig_init (&r, 0);
  make_array (&r);
  rounds (&r, 60);
  yesterday = *d;
  d->sequence += 1000;
  rounds (&r, 60);
  if (blank) {
    memset (yesterday.array, 0, 16);
    yesterday.min_epoch = yesterday.states_epoch = 0;
  }
  attach (&r, true);
  lose (&r, 3);
  rounds (&r, 1);
  r.disk[3].dead = true;
  right = *d;
  right.states_epoch = array (&r)->rec.epoch;
  right.min_epoch = right.states_epoch + 1;
  UNTIL (&r, state (&r, 3) == MEMBER_OUT && !array (&r)->disk[3]->alive);
  right.states_epoch = array (&r)->rec.epoch;
  right.min_epoch = right.states_epoch + 1;
  restart (&r);
  put (&r, 3, &yesterday);
  UNTIL (&r, state (&r, 3) == MEMBER_IN_SYNC);
  assert (d->sequence < right.sequence);
  rounds (&r, 60);
  stop (&r, 3);
  restart (&r);
  put (&r, 3, &right);
  UNTIL (&r, state (&r, 3) == MEMBER_OUT);
  UNTIL (&r, state (&r, 3) == MEMBER_JOINING);
  assert (d->full);
  cluster_free (r.c);
}

/* Heartbeats of one process may come out of order, and weftd may be started in
 * between: that makes no old copy of its disk.
 */
static void
test_out_of_order (void)
{
  struct rig r;
  struct fake_disk *d = &r.disk[3];
  uint64_t epoch, min_epoch;

  begin_writing (&r, 0);
  rounds (&r, 50);
  epoch = array (&r)->rec.epoch;
  min_epoch = d->min_epoch;
  d->sequence += 5;
  rounds (&r, 50);
  d->sequence -= 5;
  d->min_epoch--;
  restart (&r);
  rounds (&r, 8);
  assert (!array (&r)->disk[3]->old_copy);
  d->sequence += 5;
  d->min_epoch = min_epoch;
  rounds (&r, 30);
  assert (array (&r)->rec.epoch == epoch);
  assert (state (&r, 3) == MEMBER_IN_SYNC);
  cluster_free (r.c);
}

/* A copy that is put back in a moment is an old one, too. */
static void
test_copy_at_once (void)
{
  struct rig r;
  struct fake_disk *d = &r.disk[3], copy;

  rig_init (&r, 0);
  make_array (&r);
  rounds (&r, 50);
  copy = *d;
  d->sequence += 5;
  rounds (&r, 8);
  put (&r, 3, &copy);
  UNTIL (&r, state (&r, 3) == MEMBER_OUT);
  UNTIL (&r, state (&r, 3) == MEMBER_JOINING);
  assert (d->full);
  UNTIL (&r, state (&r, 3) == MEMBER_IN_SYNC);

  /* Everything was off for a while, and one comes back as of yesterday: an
   * attach does not wait for it.
   */
  attach (&r, true);
  copy = *d;
  d->sequence += 50;
  rounds (&r, 60);
  r.attached = false; /* it dies with them */
  snprintf (r.instance, sizeof r.instance, "h again");
  for (unsigned i = 0; i < MEMBERS; i++)
    r.disk[i].dead = true;
  rounds (&r, 80);
  restart (&r);
  for (unsigned i = 0; i < MEMBERS; i++)
    put (&r, i, i == 3 ? &copy : &r.disk[i]);
  rounds (&r, 40);
  attach (&r, true);
  UNTIL (&r, d->full || d->join.phase != CLUSTER_JOIN_NONE);
  UNTIL (&r, state (&r, 3) == MEMBER_IN_SYNC);
  cluster_free (r.c);
}

/* One that is older still comes when the copy has been made blank, or has even got
 * its place again: nothing is known any more of how far the disk was.
 */
static void
test_older_after_blank (bool placed)
{
  struct rig r;
  struct fake_disk *d = &r.disk[3], older, yesterday;

  rig_init (&r, 0);
  make_array (&r);
  rounds (&r, 60);
  older = *d;
  d->sequence += 50;
  rounds (&r, 60);
  yesterday = *d;
  d->sequence += 50;
  rounds (&r, 60);
  stop (&r, 3);
  put (&r, 3, &yesterday);
  UNTIL (&r, array (&r)->disk[3]->blank);
  UNTIL (&r, !placed || !cluster_uuid_is_zero (d->array));
  assert (state (&r, 3) == MEMBER_OUT);
  put (&r, 3, &older);
  UNTIL (&r, state (&r, 3) == MEMBER_JOINING);
  assert (d->full);
  UNTIL (&r, state (&r, 3) == MEMBER_IN_SYNC);
  assert (array (&r)->rec.member[3].confirmed ==
          array (&r)->rec.member[3].fence);
  cluster_free (r.c);
}

/* It goes out, and its place to another disk at once, for its node is drained. */
static void
test_old_copy_moves (void)
{
  struct rig r;
  struct fake_disk *d = &r.disk[3], yesterday;

  rig_init (&r, 0);
  make_array (&r);
  yesterday = *d;
  d->sequence += 5;
  rounds (&r, 60);
  stop (&r, 2);
  stop (&r, 3);
  ASK (&r, cluster_node_drain (r.c, in, "n4", true));
  assert (r.code == NULL);
  rounds (&r, 8);
  assert (state (&r, 3) == MEMBER_IN_SYNC);
  put (&r, 3, &yesterday);
  UNTIL (&r, memcmp (array (&r)->rec.member[3].disk, d->uuid, 16) != 0);
  UNTIL (&r, cluster_uuid_is_zero (d->array)); /* it is free again */
  cluster_free (r.c);
}

/* An old copy is served beside a disk whose process is stopped for a moment. */
static void
test_old_clone (void)
{
  struct rig r;
  struct fake_disk *d = &r.disk[3], yesterday;
  uint64_t epoch;

  begin_writing (&r, 0);
  yesterday = *d;
  d->sequence += 5;
  rounds (&r, 60);
  epoch = array (&r)->rec.epoch;
  put (&r, 4, &yesterday);
  d->dead = true;
  rounds (&r, 14);
  d->dead = false;
  rounds (&r, 40);
  assert (state (&r, 3) == MEMBER_IN_SYNC && array (&r)->rec.epoch == epoch);
  assert (array (&r)->disk[3]->alive && !array (&r)->disk[3]->old_copy);
  cluster_free (r.c);
}

/* A running clone goes on asking: that is said once. */
static void
test_clone (void)
{
  struct rig r;

  rig_init (&r, 0);
  make_array (&r);
  rounds (&r, 8);
  r.warnings = 0;
  put (&r, 4, &r.disk[3]);
  rounds (&r, 80);
  assert (r.warnings == 1 && array (&r)->disk[3]->alive);
  put (&r, 4, &r.disk[3]);
  rounds (&r, 80);
  assert (r.warnings == 2);
  assert (state (&r, 3) == MEMBER_IN_SYNC);
  cluster_free (r.c);
}

/* A member that the writer reports stays where weftd knows that the other one is an
 * old copy, or has failed, though that can't go out itself, for the writer waits for a
 * third one.
 */
static void
test_beside_old_copy (bool failed)
{
  struct rig r;
  unsigned last = attach_without_first (&r), old = last == 1 ? 2 : 1;
  unsigned good = 1 + 2 + 3 - last - old;
  struct fake_disk yesterday = yesterday_of (&r, old);

  stop (&r, last);
  report (&r, last);
  assert (cluster_array_writer (r.c, array (&r))->lost[last]);
  if (failed)
    r.disk[old].failed = true;
  else {
    stop (&r, old);
    put (&r, old, &yesterday);
  }
  UNTIL (&r, array (&r)->disk[old]->old_copy || array (&r)->disk[old]->failed);
  assert (state (&r, old) == MEMBER_IN_SYNC);
  report (&r, good);
  assert (state (&r, good) == MEMBER_IN_SYNC);
  assert (cluster_array_writer (r.c, array (&r))->lost[good]);
  cluster_free (r.c);
}

/* The same where it has failed: the writer, who is idle, does not know that yet; he
 * is told, when he has the other one.
 */
static void
test_beside_failed (void)
{
  struct rig r;

  rig_init (&r, 0);
  make_array_of (&r, "a", LAYOUT_RAID1, 0, 2);
  attach (&r, true);
  r.disk[1].failed = true;
  UNTIL (&r, array (&r)->disk[1]->failed);
  assert (state (&r, 1) == MEMBER_IN_SYNC);
  report (&r, 0); /* a connection that broke */
  assert (state (&r, 0) == MEMBER_IN_SYNC);
  UNTIL (&r, !cluster_array_writer (r.c, array (&r))->lost[0]); /* given back */
  UNTIL (&r, state (&r, 1) == MEMBER_OUT);
  assert (state (&r, 0) == MEMBER_IN_SYNC);
  assert (strcmp (array (&r)->rec.member[1].reason, "it has failed") == 0);
  cluster_free (r.c);
}

/* Disk 0 is to go out, for its node is drained, and whoever writes prepares slowly:
 * meanwhile an old copy is put in the place of another member.
 */
static void
old_copy_beside_change (struct rig *r, unsigned members)
{
  struct fake_disk yesterday;

  rig_init (r, 0);
  make_array_of (r, "a", LAYOUT_RAID1, 0, members);
  attach (r, true);
  yesterday = yesterday_of (r, 1);
  r->lags = true;
  DONE (r, cluster_node_drain (r->c, in, "n1", true));
  UNTIL (r, array (r)->rec.change.states[0] == MEMBER_OUT &&
              array (r)->rec.change.epoch);
  put (r, 1, &yesterday);
  UNTIL (r, array (r)->disk[1]->old_copy);
  assert (state (r, 0) == MEMBER_IN_SYNC);
}

/* Then it stays: first the other one is rebuilt. */
static void
test_old_copy_beside_change (void)
{
  struct rig r;

  old_copy_beside_change (&r, 2);
  r.lags = false;
  for (unsigned i = 0; array (&r)->disk[1]->old_copy; i++) {
    assert (i < 4000 && state (&r, 0) == MEMBER_IN_SYNC);
    round_of (&r);
  }
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  assert (state (&r, 0) == MEMBER_IN_SYNC);
  UNTIL (&r, cluster_node_drained (r.c, "n1"));
  cluster_free (r.c);
}

/* Of three copies it may go; but not two of them, and the old one stays. */
static void
test_old_copy_beside_two (void)
{
  struct rig r;

  old_copy_beside_change (&r, 3);
  assert (array (&r)->rec.change.states[0] == MEMBER_OUT);
  report (&r, 2);
  assert (array (&r)->rec.change.states[2] != MEMBER_OUT);
  assert (cluster_array_writer (r.c, array (&r))->lost[2]);
  r.lags = false;
  rounds (&r, 4);
  assert (state (&r, 0) == MEMBER_IN_SYNC || state (&r, 2) == MEMBER_IN_SYNC);
  UNTIL (&r,
         state (&r, 1) == MEMBER_IN_SYNC && cluster_node_drained (r.c, "n1"));
  cluster_free (r.c);
}

/* A last copy is an old one, and a member of the other pair was started again: that
 * one goes out to be caught up, and nothing of it is told as lost.
 */
static void
test_old_copy_elsewhere (void)
{
  struct rig r;
  unsigned last = attach_without_first (&r), other = last == 1 ? 2 : 1;
  struct fake_disk yesterday = yesterday_of (&r, last);
  uint64_t fence;

  put (&r, last, &yesterday);
  UNTIL (&r, array (&r)->disk[last]->old_copy);
  fence = array (&r)->rec.member[other].fence;
  put (&r, other, &r.disk[other]);
  UNTIL (&r, state (&r, other) == MEMBER_OUT);
  assert (array (&r)->rec.member[other].fence == fence);
  cluster_free (r.c);
}

/* An old copy was to go out, and does not, for the other one is lost just then; the
 * disk itself comes back.  When it goes out one day it is not rebuilt in full.
 */
static void
test_not_out_after_all (void)
{
  struct rig r;
  struct fake_disk yesterday, right;

  rig_init (&r, 0);
  make_array_of (&r, "a", LAYOUT_RAID1, 0, 2);
  attach (&r, true);
  yesterday = yesterday_of (&r, 1);
  right = r.disk[1];
  r.lags = true;
  put (&r, 1, &yesterday);
  UNTIL (&r, array (&r)->rec.change.epoch);
  assert (array (&r)->rec.change.states[1] == MEMBER_OUT);
  report (&r, 0);
  r.disk[1] = right; /* the process that was */
  r.disk[1].op = 0;
  rounds (&r, 8);
  assert (!array (&r)->disk[1]->old_copy && state (&r, 1) == MEMBER_IN_SYNC);
  r.lags = false;
  UNTIL (&r, r.epoch == array (&r)->rec.epoch && !array (&r)->rec.change.epoch);
  rounds (&r, 80);
  lose (&r, 1);
  UNTIL (&r, r.disk[1].join.phase == CLUSTER_JOIN_COPYING);
  assert (!r.disk[1].full);
  cluster_free (r.c);
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
