/* test-pulse.c: how long a disk has been silent. */

#include <config.h>

#include <assert.h>

#include "base/bounds.h"
#include "member/pulse.h"

/* It answers all the time. */
static void
test_answers (void)
{
  struct pulse p = { .asked = false };

  for (uint64_t ms = 1000; ms < 10000; ms += 500) {
    assert (pulse_look (&p, ms, 0) == 0);
    pulse_ask (&p, ms);
    assert (pulse_look (&p, ms + 100, 0) == 100);
    pulse_answered (&p);
  }
  assert (pulse_look (&p, 20000, 0) == 0);
}

static void
test_hangs (void)
{
  struct pulse p = { .asked = false };

  pulse_ask (&p, 1000);
  for (uint64_t ms = 1250; ms <= 10000; ms += 250)
    assert (pulse_look (&p, ms, 7) == (ms == 1250 ? 0 : ms - 1250));
  pulse_answered (&p);
  assert (pulse_look (&p, 10100, 8) == 0);
}

/* It is so busy that the read waits, and completes others. */
static void
test_busy (void)
{
  struct pulse p = { .asked = false };

  pulse_ask (&p, 1000);
  for (uint64_t ms = 1250; ms <= 60000; ms += 250)
    assert (pulse_look (&p, ms, ms / 2000) < HUNG_MS);
}

/* The process was stopped: that is not the disk's silence. */
static void
test_stood_still (void)
{
  struct pulse p = { .asked = false };

  pulse_ask (&p, 1000);
  assert (pulse_look (&p, 1500, 0) == 500);
  assert (pulse_look (&p, 90000, 0) == 500 + PULSE_LOOK_MS);
  pulse_answered (&p);
  pulse_ask (&p, 90500);
  assert (pulse_look (&p, 90600, 0) == 100);
}

int
main (void)
{
  test_answers ();
  test_hangs ();
  test_busy ();
  test_stood_still ();
  return 0;
}
