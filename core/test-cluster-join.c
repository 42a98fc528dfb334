/* test-cluster-join.c: what a member that joins may count on, and what is taken
 * of what it says.
 */

#include <config.h>

#undef NDEBUG
#include <assert.h>

#include "test-cluster-rig.h"

/* Member 1 copies, and never ends. */
static void
begin (struct rig *r, enum layout_kind layout, unsigned members)
{
  rig_init (r, 0);
  make_array_of (r, "a", layout, 0, members);
  attach (r, true);
  r->disk[1].stuck = true;
  lose (r, 1);
  UNTIL (r, r->disk[1].join.phase == CLUSTER_JOIN_COPYING);
}

/* A writer that is over, and that a member in-sync does not know of, may write
 * there still: nobody copies from it before it is fenced.
 */
static void
test_source_to_fence (void)
{
  struct rig r;
  struct fake_disk *d = &r.disk[1], *source = &r.disk[0];
  unsigned orders;

  begin (&r, LAYOUT_RAIDX, 4);
  source->dead = true;
  source->op = 0; /* and it hears nothing */
  detach (&r);
  orders = d->orders;
  UNTIL (&r, array (&r)->rec.change.epoch == 0); /* it is given up */
  assert (state (&r, 0) == MEMBER_IN_SYNC && state (&r, 1) == MEMBER_JOINING);
  assert (array (&r)->rec.member[0].fence > source->min_epoch);
  rounds (&r, 8);
  assert (d->orders == orders && d->join.phase == CLUSTER_JOIN_WAITING);
  source->dead = false;
  UNTIL (&r, d->orders > orders);
  assert (source->min_epoch >= array (&r)->rec.member[0].fence);
  d->stuck = false;
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  cluster_free (r.c);
}

/* It says that it is done, but with what it was to do before. */
static void
test_done_before (void)
{
  struct rig r;
  struct fake_disk *d = &r.disk[1];

  begin (&r, LAYOUT_RAIDX, 4);
  for (unsigned i = 0; i < 8; i++) {
    d->join.phase = CLUSTER_JOIN_SYNCED;
    d->join.epoch = array (&r)->rec.member[1].fence - 1;
    round_of (&r);
    assert (array (&r)->rec.change.epoch == 0);
    assert (state (&r, 1) == MEMBER_JOINING);
  }
  d->join.phase = CLUSTER_JOIN_SYNCED;
  d->join.epoch = array (&r)->rec.member[1].fence;
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  cluster_free (r.c);
}

/* It is started again, and takes no order of before: with nobody attached, or a
 * reader only, who would report nothing.
 */
static void
test_started_again (bool reader)
{
  struct rig r;
  struct fake_disk *d = &r.disk[1];

  begin (&r, LAYOUT_RAIDX, 4);
  detach (&r);
  if (reader)
    attach (&r, false);
  UNTIL (&r, d->join.phase == CLUSTER_JOIN_COPYING);
  snprintf (d->instance, 16, "1 again");
  d->min_epoch = array (&r)->rec.epoch + 1;
  memset (&d->join, 0, sizeof d->join);
  d->join.phase = CLUSTER_JOIN_WAITING;
  d->stuck = false;
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  cluster_free (r.c);
}

/* Of three copies one goes that it may have copied from, and that alone had a
 * write: all that it has is copied again.
 */
static void
test_source_went (void)
{
  struct rig r;
  struct fake_disk *d = &r.disk[1];

  begin (&r, LAYOUT_RAID1, 3);
  assert (!d->full);
  lose (&r, 2);
  assert (state (&r, 1) == MEMBER_OUT);
  UNTIL (&r, state (&r, 1) == MEMBER_JOINING);
  UNTIL (&r, d->join.phase == CLUSTER_JOIN_COPYING);
  assert (d->full && !d->order.source[2]);
  d->stuck = false;
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  cluster_free (r.c);
}

int
main (void)
{
  test_source_to_fence ();
  test_done_before ();
  test_started_again (false);
  test_started_again (true);
  test_source_went ();
  return 0;
}
