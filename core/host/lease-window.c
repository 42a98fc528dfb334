/* lease-window.c: see lease-window.h. */

#include <config.h>

#include "base/bounds.h"
#include "lease-window.h"

#define WEIGHT_BASE 0.8 /* the paper's n */

static uint64_t
end_of (const struct array_range *r)
{
  return r->offset + r->length;
}

static unsigned
kept (const struct lease_window *w)
{
  return w->count < LEASE_EVENTS ? w->count : LEASE_EVENTS;
}

void
lease_window_note (struct lease_window *w, const struct array_range *range,
                   bool revoke, uint64_t now_ms)
{
  w->event[w->count++ % LEASE_EVENTS] = (struct lease_event) {
    .at_ms = now_ms, .range = *range, .revoke = revoke
  };
}

void
lease_window_got (struct lease_window *w, const struct lease_wish *ask,
                  const struct array_range *granted)
{
  const struct array_range *must = &ask->must, *wish = &ask->wish;
  uint64_t start = wish->offset, end = end_of (wish);

  if (must->offset < granted->offset || end_of (must) > end_of (granted))
    return;
  if (start < granted->offset)
    start = granted->offset;
  if (end > end_of (granted))
    end = end_of (granted);
  for (unsigned i = 0; i < kept (w); i++) {
    struct lease_event *e = &w->event[i];

    if (!e->revoke && e->range.offset == must->offset &&
        e->range.length == must->length)
      e->range = (struct array_range) { start, end - start };
  }
}

/* The logarithm of x to the base n, for x up to 1; straight between powers of n. */
static double
logarithm (double x)
{
  double power = 0;

  for (; x <= WEIGHT_BASE; x /= WEIGHT_BASE)
    power++;
  return power + (1 - x) / (1 - WEIGHT_BASE);
}

static double
weight (uint64_t age_ms)
{
  double t = (double) (age_ms > 0 ? age_ms : 1) / 1000;

  return t <= WEIGHT_BASE      ? logarithm (t)
         : t < 1 / WEIGHT_BASE ? 1
                               : 1 / logarithm (1 / t);
}

/* The gets that form a run with the request, as bits; their range is in *run.
 */
static uint64_t
run_of (const struct lease_window *w, const struct array_range *request,
        struct array_range *run)
{
  uint64_t start = request->offset, end = end_of (request), in = 0, before;

  do {
    before = in;
    for (unsigned i = 0; i < kept (w); i++) {
      const struct array_range *r = &w->event[i].range;

      if (w->event[i].revoke || in >> i & 1 ||
          r->offset > end + LEASE_RUN_GAP || end_of (r) + LEASE_RUN_GAP < start)
        continue;
      in |= UINT64_C (1) << i;
      if (start > r->offset)
        start = r->offset;
      if (end < end_of (r))
        end = end_of (r);
    }
  } while (in != before);
  *run = (struct array_range) { start, end - start };
  return in;
}

uint64_t
lease_window_bytes (const struct lease_window *w,
                    const struct array_range *request, uint64_t now_ms)
{
  struct array_range run;
  uint64_t gets = run_of (w, request, &run);
  double sum = 0;

  for (unsigned i = 0; i < kept (w); i++) {
    const struct lease_event *e = &w->event[i];

    if (gets >> i & 1)
      sum += weight (now_ms - e->at_ms);
    else if (e->revoke && e->range.offset < end_of (&run) &&
             run.offset < end_of (&e->range))
      sum -= weight (now_ms - e->at_ms);
  }
  sum *= LEASE_WINDOW_INIT;
  return sum <= 0                  ? 0
         : sum >= LEASE_WINDOW_MAX ? LEASE_WINDOW_MAX
                                   : (uint64_t) sum;
}

struct array_range
lease_window_wish (const struct lease_window *w,
                   const struct array_range *request, uint64_t size,
                   uint64_t now_ms)
{
  uint64_t bytes = lease_window_bytes (w, request, now_ms), down = bytes / 2;
  uint64_t start = request->offset, end = end_of (request);
  uint64_t newest = 0, oldest = 0;
  struct array_range run;
  uint64_t gets = run_of (w, request, &run);

  if (bytes == 0)
    return *request;
  /* Gets that wait at the same time, as requests may, have come in no order: a
   * single one means nothing.
   */
  for (unsigned n = 0, seen = 0; n < kept (w) && seen <= LEASE_ASKS_MAX; n++) {
    unsigned i = (w->count - 1 - n) % LEASE_EVENTS;

    if (!(gets >> i & 1))
      continue;
    oldest = w->event[i].range.offset;
    if (seen++ == 0)
      newest = oldest;
  }
  if (newest != oldest)
    down = newest < oldest ? bytes : 0;
  start -= down < start ? down : start;
  end = bytes - down < size - end ? end + bytes - down : size;
  start -= start % LEASE_REGION_BYTES;
  end += -end % LEASE_REGION_BYTES;
  if (end > size)
    end = size;
  return (struct array_range) { start, end - start };
}
