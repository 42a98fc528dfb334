/* test-cluster-room.c: members that have no room, or soon none: which members stay, when
 * a member is taken back, and the messages; and hosts without memory.
 */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "test-cluster-world.h"

/* The member stays until the writer reports it; then it is out until there is room. */
static void
test_full (void)
{
  healthy ();
  world.disk[1].shortage = strerror (ENOSPC);
  live_on (30);
  assert (state (1) == MEMBER_IN_SYNC && verdict () == CLUSTER_WARNING);
  assert (says ("refuses some writes") && says (strerror (ENOSPC)));
  report_lost (writer, 1);
  live_on (200);
  assert (state (1) == MEMBER_OUT);
  assert (says ("has no room, and is out") && says ("comes back by itself"));
  world.disk[1].shortage = NULL;
  UNTIL (whole ());
  assert (verdict () == CLUSTER_INFO && says ("All is well"));
}

/* A restarted process has refused nothing yet. */
static void
test_no_room (uint64_t free, uint64_t wanted, bool back)
{
  healthy ();
  die (1);
  world.disk[1].room = (struct cluster_room) { GiB (1), free, wanted };
  start_again (1);
  if (back)
    UNTIL (whole ());
  live_on (100);
  assert ((state (1) == MEMBER_IN_SYNC) == back);
  world.disk[1].room.free = wanted;
  UNTIL (whole ());
}

/* Said before it happens: a tenth is left, and more may be wanted. */
static void
test_low (void)
{
  static const struct {
    uint64_t size, free, wanted;
    bool low;
  } rooms[] = {
    { MiB (1000), MiB (101), MiB (900), false },
    { MiB (1000), MiB (100), MiB (900), true },
    { MiB (1000), MiB (100), MiB (101), true },
    { MiB (1000), MiB (100), MiB (100), false }, /* it can't be used up */
    { MiB (1000), MiB (10), 0, false },
    { MiB (1000), 0, 4096, true },
    { 0, 0, 0, false }, /* a block device */
  };

  healthy ();
  for (unsigned i = 0; i < sizeof rooms / sizeof rooms[0]; i++) {
    world.disk[2].room = (struct cluster_room) { rooms[i].size, rooms[i].free,
                                                 rooms[i].wanted };
    live_on (30);
    assert ((verdict () == CLUSTER_WARNING) == rooms[i].low);
    assert (says ("has little room") == rooms[i].low);
    assert (whole ());
  }
}

/* The verdict names the member that an array process waits for, whether or not the member
 * reports the same. */
static void
test_waits (void)
{
  healthy ();
  writer->refused_ns[2] = UINT64_C (1900000000);
  live_on (20);
  assert (verdict () == CLUSTER_INFO);
  writer->refused_ns[2] = UINT64_C (12000000000);
  live_on (20);
  assert (verdict () == CLUSTER_ERROR);
  assert (says ("for 12 s member 2") && says ("refused what is written."));
  world.disk[2].shortage = strerror (ENOSPC);
  live_on (20);
  assert (says ("refused what is written: No space left on device."));
  writer->refused_ns[2] = 0;
  world.disk[2].shortage = NULL;
  live_on (20);
  assert (verdict () == CLUSTER_INFO && whole ());
}

/* The verdict also reports a wait for memory on the array process's own host. */
static void
test_memory (void)
{
  healthy ();
  writer->memory_wait_ns = UINT64_C (1900000000);
  live_on (20);
  assert (verdict () == CLUSTER_INFO && says ("All is well"));
  writer->memory_wait_ns = UINT64_C (12000000000);
  live_on (20);
  assert (verdict () == CLUSTER_ERROR && !says ("All is well"));
  assert (says ("waits on node host0: for 12 s that host has had no memory"));
  writer->memory_wait_ns = 0;
  live_on (20);
  assert (verdict () == CLUSTER_INFO && whole ());
}

int
main (void)
{
  test_full ();
  test_no_room (MiB (3), MiB (500), false);
  test_no_room (MiB (3), MiB (3), true);
  test_no_room (MiB (4), MiB (500), true);
  test_low ();
  test_waits ();
  test_memory ();
  return 0;
}
