/* test-lease-window.c: the window: the figures that its design names. */

#include <config.h>

#include "base/bounds.h"
#include "host/lease-window.h"
#include "test-random.h"

#define START UINT64_C (1000000) /* ms */
#define SIZE GiB (4)

static struct lease_window w;

static struct array_range
at (uint64_t kib, uint64_t length_kib)
{
  return (struct array_range) { KiB (kib), KiB (length_kib) };
}

static void
note (uint64_t kib, bool revoke, uint64_t ms)
{
  struct array_range r = at (kib, 4);

  lease_window_note (&w, &r, revoke, ms);
}

static uint64_t
window (uint64_t kib, uint64_t ms)
{
  struct array_range r = at (kib, 4);

  return lease_window_bytes (&w, &r, ms);
}

static struct array_range
wish (uint64_t kib, uint64_t size)
{
  struct array_range r = at (kib, 4);

  return lease_window_wish (&w, &r, size, START);
}

/* But for what is lost by rounding. */
static bool
about (uint64_t x, uint64_t y)
{
  return x + 2 > y && y + 2 > x;
}

static void
begin (void)
{
  w = (struct lease_window) { 0 };
}

static void
test_figures (void)
{
  begin ();
  CHECK (window (0, START) == 0);
  for (unsigned i = 0; i < 10; i++)
    note (i * 4, false, START - 9 + i);
  CHECK (window (36, START) > MiB (3));
  CHECK (window (36, START) < MiB (5));

  begin ();
  note (0, false, START - 10000);
  CHECK (window (0, START) > 1500 && window (0, START) < 1700);
  note (0, true, START);
  CHECK (window (0, START) == 0);

  /* A range that was recalled just now is not granted in advance. */
  begin ();
  note (0, false, START);
  CHECK (window (0, START) > KiB (450) && window (0, START) < KiB (520));
  note (0, true, START);
  CHECK (window (0, START) == 0);
  begin ();
  for (unsigned i = 0; i < LEASE_EVENTS; i++)
    note (i * 4, false, START);
  CHECK (window (0, START) < MiB (64) && window (0, START) > MiB (16));
}

static void
test_monotone (void)
{
  uint64_t before = UINT64_MAX;

  begin ();
  note (0, false, START);
  for (unsigned age = 0; age < 20000; age++) {
    uint64_t now = window (0, START + age);

    CHECK (now <= before && now > 0);
    CHECK (age < 800 || age > 1250 || now == LEASE_WINDOW_INIT);
    before = now;
  }
}

static void
test_run (void)
{
  uint64_t one, run;

  begin ();
  note (0, false, START);
  one = window (0, START);
  note (4 + 64, false, START); /* as wide a gap as may be */
  run = window (4 + 64, START);
  CHECK (about (run, 2 * one) && window (0, START) == run);
  note (8 + 64 + 65, false, START); /* too wide */
  CHECK (window (0, START) == run);
  note (36, true, START); /* meets the run in a gap of it */
  CHECK (about (window (0, START), one));
  note (1024, true, START); /* does not */
  CHECK (about (window (0, START), one));

  /* The oldest are forgotten. */
  for (unsigned i = 0; i < LEASE_EVENTS; i++)
    note (4096, true, START);
  CHECK (window (0, START) == 0);
}

static void
test_got (void)
{
  struct array_range must = at (64, 4), all = at (0, 4096);
  struct lease_wish ask = { must, at (64, 1024) };
  uint64_t one;

  begin ();
  note (64, false, START);
  one = window (64, START);
  note (64 + 1024, false, START);
  CHECK (about (window (64 + 1024, START), one)); /* as yet it is another run */
  lease_window_got (&w, &ask, &must);
  CHECK (about (window (64 + 1024, START), one));
  lease_window_got (&w, &ask, &all); /* no more than was wished for */
  CHECK (about (window (64 + 1024, START), 2 * one));
  CHECK (window (2048, START) == 0);
  /* And not what others kept. */
  begin ();
  note (64, false, START);
  note (64 + 1024, false, START);
  all = at (0, 512);
  lease_window_got (&w, &ask, &all);
  CHECK (about (window (64 + 1024, START), one));
  CHECK (about (window (512 + 32, START), one));
}

static void
test_wish (void)
{
  struct array_range r;

  /* Nothing is known of where it goes: half on either side. */
  begin ();
  note (1028, false, START);
  r = wish (1028, SIZE);
  CHECK (r.offset < KiB (900) && r.offset + r.length > KiB (1200));
  CHECK (r.offset % LEASE_REGION_BYTES == 0 &&
         r.length % LEASE_REGION_BYTES == 0);
  /* Upwards. */
  note (1032, false, START);
  r = wish (1032, SIZE);
  CHECK (r.offset == KiB (1024) && r.offset + r.length > KiB (1900));
  CHECK (wish (1032, KiB (1500)).length == KiB (1500 - 1024));
  /* Downwards. */
  note (1016, false, START);
  r = wish (1016, SIZE);
  CHECK (r.offset == 0 && r.offset + r.length == KiB (1024));
  /* Requests that wait at once have come in any order, and still count as rising. */
  begin ();
  for (unsigned i = 0; i < LEASE_ASKS_MAX; i++)
    note (2048 + 4 * i, false, START);
  for (unsigned i = 0; i < LEASE_ASKS_MAX; i++)
    note (2048 + 4 * (LEASE_ASKS_MAX + (7 * i + 8) % LEASE_ASKS_MAX), false,
          START);
  for (unsigned i = 0; i < LEASE_ASKS_MAX; i++) {
    r = wish (2048 + 4 * (LEASE_ASKS_MAX + i), SIZE);
    CHECK (r.offset >= KiB (2048) && r.offset + r.length > KiB (8192));
  }
  /* Just what is needed. */
  r = wish (8192, SIZE);
  CHECK (r.offset == KiB (8192) && r.length == KiB (4));
}

int
main (void)
{
  test_random_start ();
  test_figures ();
  test_monotone ();
  test_run ();
  test_got ();
  test_wish ();
  return 0;
}
