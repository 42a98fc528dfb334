/* test-array-lease.c: what is ours comes and goes: array-lease.c. */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "test-array-rig.h"

/* raid-10 of four: unit u of the array is unit u / 2 of member u % 2, its image of
 * member u % 2 + 2.  raid-x of four: see IMAGE0.
 */
#define FIRST 0, UNIT

static void
start_as (enum layout_kind kind, bool all)
{
  config.batches = config.leases = true;
  config.lease_all = all;
  config.extent_bytes = 4 * UNIT;
  begin (kind, 4);
  array_settled (a, 0, 0, 0, now);
  rig_take ();
}

static void
start (enum layout_kind kind)
{
  start_as (kind, false);
}

static void
grant (uint64_t offset, uint64_t length)
{
  struct array_range r = { offset, length };

  array_lease_grant (a, &r, 1, now);
  rig_take ();
}

static void
leave_with (uint64_t offset, uint64_t length, uint64_t wish, uint64_t bytes)
{
  struct array_range must = { offset, length }, around = { wish, bytes };

  array_lease_leave (a, &must, &around, now);
  rig_take ();
}

static void
leave (uint64_t offset, uint64_t length)
{
  leave_with (offset, length, offset, length);
}

/* This alone was left, and is told once. */
static bool
left (uint64_t offset, uint64_t length)
{
  struct array_range r[2];

  return array_lease_left (a, r, 2) == 1 && r[0].offset == offset &&
         r[0].length == length && array_lease_left (a, r, 2) == 0;
}

static bool
nothing_left (void)
{
  struct array_range r;

  return array_lease_left (a, &r, 1) == 0;
}

/* This alone is wanted. */
static bool
wanted (uint64_t offset, uint64_t length)
{
  struct array_range r[2];

  return array_lease_wants (a, r, 2) == 1 && r[0].offset == offset &&
         r[0].length == length;
}

static bool
nothing_wanted (void)
{
  struct array_range r;

  return array_lease_wants (a, &r, 1) == 0;
}

/* A write without a lease waits, sends nothing, and is wanted; with one it goes. */
static void
test_flow (void)
{
  static const enum layout_kind kinds[] = { LAYOUT_RAIDX, LAYOUT_RAID10 };

  for (unsigned k = 0; k < 2; k++) {
    struct array_request w = WRITE (0, 4096, ones);
    struct array_request later = WRITE (512, 512, twos);

    start (kinds[k]);
    submit (&w);
    assert (ios_count == 0 && !done (&w) && wanted (0, 4096));
    assert (notices_lease == 1 && !array_idle (a));
    grant (0, 4096);
    assert (ios_count == 1 && nothing_wanted ());
    leave (0, 4096);
    assert (nothing_left ());
    submit (&later);
    assert (ios_count == 1 && wanted (512, 512));
    answer_only (IO_WRITE, 0, 0, 4096, 0);
    /* It is answered, and its image leaves the buffer at once. */
    assert (done (&w) && w.error == 0 && nothing_left ());
    assert (notices_left == 0 && ios_count == 1);
    answer_all ();
    assert (notices_left == 1 && left (0, 4096));
    assert (!done (&later) && wanted (512, 512));
    grant (512, 512);
    assert (finish (&later) == 0);
    end ();
  }
}

int
main (void)
{
  rig_init ();
  test_flow ();
  return 0;
}
