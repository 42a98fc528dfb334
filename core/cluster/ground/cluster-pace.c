/* cluster-pace.c: how fast members are rebuilt while clients work.
 *
 * Clients first: the rate goes up slowly, and down fast when clients' requests
 * take longer than they would with hardly any rebuild.  That time is measured,
 * not assumed: in two of every sixteen seconds (a probe) only the floor is
 * copied.  A host reports once a second, about the second before.  So the
 * report that comes in the second half of a probe covers only the probe, and is
 * used; reports at its begin or just after its end cover a mixture, and are not
 * used.
 */

#include <config.h>

#include "cluster-ground.h"

#define CYCLE 16
#define PROBE 14 /* the first second of the probe, of CYCLE */
#define STEP_BYTES MiB (4)
/* Not far beyond what it does anyway: it would take long to come down. */
#define SLACK_BYTES MiB (64)

static uint64_t
within (uint64_t rate, uint64_t floor, uint64_t ceiling)
{
  if (ceiling && rate > ceiling)
    return ceiling;
  return rate < floor ? floor : rate;
}

uint64_t
cluster_pace (struct cluster_pace *p, double ops, double us, uint64_t actual,
              uint64_t floor, uint64_t ceiling)
{
  unsigned over = p->second; /* the second that ends now */

  if (ops <= 0) {
    p->baseline_us = p->second = 0; /* the next load may be of another kind */
    return ceiling;
  }
  if (p->baseline_us <= 0 && over < PROBE) { /* load has just begun */
    p->second = PROBE;
    p->rate = within (p->rate, floor, ceiling);
    return within (floor, floor, ceiling);
  }
  p->second = (over + 1) % CYCLE;
  if (over == CYCLE - 1)
    p->baseline_us = p->baseline_us > 0 ? (p->baseline_us + us) / 2 : us;
  else if (over > 0 && over < PROBE) {
    if (us > 1.5 * p->baseline_us)
      p->rate = (uint64_t) ((double) p->rate * 0.6);
    else if (p->rate <= 2 * actual + SLACK_BYTES)
      p->rate += (uint64_t) ((double) p->rate * 0.15) + STEP_BYTES;
  }
  p->rate = within (p->rate, floor, ceiling);
  return within (p->second >= PROBE ? floor : p->rate, floor, ceiling);
}
