/* test-cluster-join.c: what is taken of what a joining member says. */

#include <config.h>

#include "test-cluster-rig.h"

/* It says that it is done, but with what it was to do before. */
static void
test_done_before (void)
{
  struct fake_disk *d = &rig.disk[1];

  begin_copying (LAYOUT_RAIDX, MEMBERS);
  for (unsigned i = 0; i < 8; i++) {
    d->join.phase = CLUSTER_JOIN_SYNCED;
    d->join.epoch = array ()->rec.member[1].fence - 1;
    round_of ();
    assert (array ()->rec.change.epoch == 0);
    assert (state (1) == MEMBER_JOINING);
  }
  d->join.phase = CLUSTER_JOIN_SYNCED;
  d->join.epoch = array ()->rec.member[1].fence;
  UNTIL (state (1) == MEMBER_IN_SYNC);
}

int
main (void)
{
  test_done_before ();
  return 0;
}
