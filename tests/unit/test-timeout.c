/* test-timeout.c: time-outs follow the load. */

#include <config.h>

#include "test-random.h"
#include "base/timeout.h"

#define MS UINT64_C (1000000)
#define S (1000 * MS)

static void
test_nothing_known (void)
{
  struct timeout t = { 0 };
  uint64_t count;

  CHECK (timeout_predict (&t, 100 * S) == 0);
  CHECK (timeout_answers (&t, 100 * S) == 0);
  CHECK (timeout_allowed (&t, 100 * S, 2 * S, 15 * S) == 2 * S);
  CHECK (timeout_recent (&t, 100 * S, &count) == 0 && count == 0);
}

/* A load that stays as it is: the prediction is its service time. */
static void
test_steady (void)
{
  struct timeout t = { 0 };
  uint64_t now = 7 * S, count, p;

  for (; now < 200 * S; now += 10 * MS)
    timeout_note (&t, now, 40 * MS);
  p = timeout_predict (&t, now);
  CHECK (p >= 39 * MS && p <= 41 * MS);
  CHECK (timeout_recent (&t, now, &count) == 40 * MS && count >= 500);
  CHECK (timeout_allowed (&t, now, 2 * S, 15 * S) == 2 * S);
  CHECK (timeout_allowed (&t, now, 100 * MS, 15 * S) >= 300 * MS);
  CHECK (timeout_allowed (&t, now, 100 * MS, 200 * MS) == 200 * MS);
  CHECK (timeout_answers (&t, now) >= 4500 &&
         timeout_answers (&t, now) <= 5000);
  /* Observations older than all windows are forgotten. */
  now += (TIMEOUT_WINDOWS + 1) * TIMEOUT_WINDOW_NS;
  CHECK (timeout_predict (&t, now) == 0 && timeout_answers (&t, now) == 0);
  timeout_note (&t, now, 5 * MS);
  CHECK (timeout_predict (&t, now) == 5 * MS);
}

/* Service time grows tenfold over a minute: a fixed time-out of five times the
 * first accuses, this one never does, and is never far above either.
 */
static void
test_growing (void)
{
  struct timeout t = { 0 };
  uint64_t begin = 1000 * S, now, fixed_accuses = 0;
  const uint64_t first = 100 * MS;

  for (now = begin - 50 * S; now < begin; now += 20 * MS)
    timeout_note (&t, now, first);
  for (now = begin; now < begin + 60 * S; now += 20 * MS) {
    uint64_t service = first + 9 * first * ((now - begin) / MS) / 60000;
    uint64_t noisy = service / 2 + test_random (service + 1);
    uint64_t allowed = timeout_allowed (&t, now, first, 60 * S);

    CHECK (noisy < allowed);
    CHECK (allowed < 3 * TIMEOUT_MARGIN * service);
    fixed_accuses += noisy > 5 * first;
    timeout_note (&t, now, noisy);
  }
  CHECK (fixed_accuses > 100);
}

/* When the load falls, the line would predict nothing at all; when it has just risen,
 * a third of it.
 */
static void
test_turns (void)
{
  struct timeout t = { 0 };
  uint64_t now;

  for (now = 0; now < 50 * S; now += 10 * MS)
    timeout_note (&t, now, 1000 * MS - 19 * now / 1000);
  CHECK (timeout_predict (&t, now) >= 90 * MS);
  for (; now < 54 * S; now += 10 * MS)
    timeout_note (&t, now, 800 * MS);
  CHECK (timeout_predict (&t, now) >= 800 * MS);
}

/* Gaps, and times that never were in order: nothing breaks. */
static void
test_random_times (void)
{
  struct timeout t = { 0 };
  uint64_t now = 0, count;

  for (unsigned i = 0; i < 200000; i++) {
    now += test_random (10) ? test_random (100 * MS) : test_random (30 * S);
    timeout_note (&t, now, test_random (20 * S));
    CHECK (timeout_predict (&t, now + test_random (60 * S)) < 1000 * S);
    CHECK (timeout_recent (&t, now, &count) <= 20 * S && count > 0);
  }
}

int
main (void)
{
  test_random_start ();
  test_nothing_known ();
  test_steady ();
  test_growing ();
  test_turns ();
  test_random_times ();
  return 0;
}
