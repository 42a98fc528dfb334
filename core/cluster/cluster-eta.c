/* cluster-eta.c: how long a rebuild will still take, as soon as that is known.
 *
 * What counts is how fast what is to do gets less: a hole is done and has cost no
 * byte, so the rate of the copying says little.  A rebuild begins slowly, for
 * clients come first (cluster-pace.c), and is said to be further in steps, when
 * what was copied is stable.  So it is measured from step to step over a few
 * seconds, and nothing is said of it before two measurements agree.
 */

#include <config.h>

#include <string.h>

#include "cluster-internal.h"

#define MEASURE_MS 3000
#define AGREE 1.5

void
cluster_eta_note (struct cluster_eta *e, uint64_t live_ms,
                  const struct cluster_join *join)
{
  double rate;
  bool step;

  if (join->phase != CLUSTER_JOIN_COPYING || join->epoch != e->epoch) {
    memset (e, 0, sizeof *e);
    e->epoch = join->epoch;
  }
  step = join->todo_bytes < e->todo_bytes;
  e->todo_bytes = join->todo_bytes;
  if (!step || (e->since_bytes && live_ms < e->since_ms + MEASURE_MS))
    return;
  if (e->since_bytes > e->todo_bytes) {
    rate = (double) (e->since_bytes - e->todo_bytes) * 1000 /
           (double) (live_ms - e->since_ms);
    e->known = e->known || (rate <= AGREE * e->rate && e->rate <= AGREE * rate);
    e->rate = e->known ? (e->rate + rate) / 2 : rate;
  }
  e->since_ms = live_ms;
  e->since_bytes = e->todo_bytes;
}

double
cluster_eta_rate (const struct cluster *c, const struct cluster_array *a,
                  unsigned member)
{
  const struct cluster_disk *d = a->disk[member];
  char waits[CLUSTER_REASON_BYTES + 144];

  return a->rec.member[member].state == MEMBER_JOINING &&
             d->join.phase == CLUSTER_JOIN_COPYING &&
             d->join.epoch == a->rec.member[member].fence && d->eta.known &&
             !cluster_join_waits (c, a, member, waits, sizeof waits)
           ? d->eta.rate
           : 0;
}

uint64_t
cluster_join_eta_ms (const struct cluster *c, const struct cluster_array *a,
                     unsigned member)
{
  double rate = cluster_eta_rate (c, a, member);

  return rate > 0 ? (uint64_t) ((double) a->disk[member]->join.todo_bytes *
                                1000 / rate)
                  : 0;
}
