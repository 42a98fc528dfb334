/* test-cluster-kills.c: weftd is killed at each step of what members go through,
 * and derives the rest from what is stored.  Replacing, spares and imports:
 * test-cluster-member.c and test-cluster-import.c; attaching: test-cluster.c.
 */

#include <config.h>

#include "test-cluster-rig.h"

static void
end (void)
{
  UNTIL (whole ());
  assert (cluster_read_only (rig.c) == NULL);
}

/* Taken back; then again as an old copy, which forgets and is rebuilt in full. */
static void
scenario_back (void)
{
  struct fake_disk *d = &rig.disk[3], copy;

  begin_writing ();
  lose (3);
  UNTIL (whole ());
  copy = *d;
  d->sequence += 50;
  rounds (60);
  *d = copy;
  snprintf (d->instance, 16, "copy");
  d->op = 0;
  UNTIL (d->full);
  end ();
}

/* The last copy is lost, and given back. */
static void
scenario_reconnect (void)
{
  uint64_t fence;

  begin_writing ();
  die (0);
  fence = member (2)->fence;
  while (member (2)->fence == fence) {
    report (2); /* it says so until it has it back */
    round_of ();
  }
  assert (rig.disk[2].min_epoch > fence);
  rounds (8);
  rig.disk[0].dead = false;
  end ();
}

/* A rebuild is cancelled, and begun again; then who writes leaves. */
static void
scenario_cancel (void)
{
  struct fake_disk *d = &rig.disk[1];
  uint64_t fence;

  begin_writing ();
  copy_on (1);
  DONE (cluster_member_cancel (rig.c, in, "a", 1));
  rounds (40);
  assert (state (1) == MEMBER_OUT && member (1)->held);
  DONE (cluster_member_join (rig.c, in, "a", 1));
  UNTIL (d->join.phase == CLUSTER_JOIN_COPYING);
  fence = array ()->rec.epoch;
  rig.attached = false;
  rig.beat_op = 0;
  DONE (cluster_session_detach (rig.c, in, rig.session));
  UNTIL (array ()->rec.change.epoch == 0);
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (member (m)->fence > fence);
  d->stuck = false;
  end ();
}

int
main (void)
{
  test_kills ("taken back", scenario_back);
  test_kills ("reconnected", scenario_reconnect);
  test_kills ("cancelled", scenario_cancel);
  return 0;
}
