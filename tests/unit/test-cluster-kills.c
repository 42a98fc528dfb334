/* test-cluster-kills.c: weftd is killed at each step of what members go through,
 * and derives the rest from what is stored.  Replacing, spares and imports:
 * test-cluster-member.c and test-cluster-import.c; attaching: test-cluster.c.
 */

#include <config.h>

#undef NDEBUG
#include <assert.h>

#include "test-cluster-rig.h"

static bool
whole (struct rig *r)
{
  for (unsigned m = 0; m < MEMBERS; m++)
    if (state (r, m) != MEMBER_IN_SYNC)
      return false;
  return array (r)->rec.change.epoch == 0;
}

static bool
end (struct rig *r)
{
  UNTIL (r, whole (r));
  assert (cluster_read_only (r->c) == NULL);
  cluster_free (r->c);
  return r->killed;
}

/* Taken back; then again as an old copy, which forgets and is rebuilt in full. */
static bool
scenario_back (unsigned kill_at)
{
  struct rig r;
  struct fake_disk *d = &r.disk[3], copy;

  begin_writing (&r, kill_at);
  lose (&r, 3);
  UNTIL (&r, whole (&r));
  copy = *d;
  d->sequence += 50;
  rounds (&r, 60);
  *d = copy;
  snprintf (d->instance, 16, "copy");
  d->op = 0;
  UNTIL (&r, d->full);
  return end (&r);
}

/* The last copy is lost, and given back. */
static bool
scenario_reconnect (unsigned kill_at)
{
  struct rig r;
  uint64_t fence;

  begin_writing (&r, kill_at);
  r.disk[0].dead = true;
  lose (&r, 0);
  fence = array (&r)->rec.member[2].fence;
  while (array (&r)->rec.member[2].fence == fence) {
    report (&r, 2); /* it says so until it has it back */
    round_of (&r);
  }
  assert (r.disk[2].min_epoch > fence);
  rounds (&r, 8);
  r.disk[0].dead = false;
  return end (&r);
}

/* A rebuild is cancelled, and begun again; then who writes leaves. */
static bool
scenario_cancel (unsigned kill_at)
{
  struct rig r;
  struct fake_disk *d = &r.disk[1];
  uint64_t fence;

  begin_writing (&r, kill_at);
  d->stuck = true;
  lose (&r, 1);
  UNTIL (&r, d->join.phase == CLUSTER_JOIN_COPYING);
  DONE (&r, cluster_member_cancel (r.c, in, "a", 1));
  rounds (&r, 40);
  assert (state (&r, 1) == MEMBER_OUT && array (&r)->rec.member[1].held);
  DONE (&r, cluster_member_join (r.c, in, "a", 1));
  UNTIL (&r, d->join.phase == CLUSTER_JOIN_COPYING);
  fence = array (&r)->rec.epoch;
  r.attached = false;
  r.beat_op = 0;
  DONE (&r, cluster_session_detach (r.c, in, r.session));
  UNTIL (&r, array (&r)->rec.change.epoch == 0);
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (array (&r)->rec.member[m].fence > fence);
  d->stuck = false;
  return end (&r);
}

int
main (void)
{
  test_kills ("taken back", scenario_back);
  test_kills ("reconnected", scenario_reconnect);
  test_kills ("cancelled", scenario_cancel);
  return 0;
}
