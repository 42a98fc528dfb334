/* test-cluster-join.c: what is taken of what a joining member says. */

#include <config.h>

#undef NDEBUG
#include <assert.h>

#include "test-cluster-rig.h"

/* It says that it is done, but with what it was to do before. */
static void
test_done_before (void)
{
  struct rig r;
  struct fake_disk *d = &r.disk[1];

  begin_copying (&r, LAYOUT_RAIDX, MEMBERS);
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

int
main (void)
{
  test_done_before ();
  return 0;
}
