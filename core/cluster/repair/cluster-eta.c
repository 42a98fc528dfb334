/* cluster-eta.c: estimates how long a rebuild will still take.
 *
 * The estimate uses the speed at which the rest shrinks, because the copying
 * rate says little: a hole is done without copying a byte.  A rebuild begins
 * slowly, because clients come first (cluster-pace.c), and its progress is
 * reported in steps, when copied data is stable.  So the speed is measured from
 * step to step over a few seconds, and there is no estimate before two
 * measurements agree.
 */

#include <config.h>

#include <string.h>

#include "cluster-repair.h"

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
