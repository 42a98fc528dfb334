/* cluster-slow.c: members that are far slower than their peers, as those say who write
 * (core/array/array-overdue.c).
 *
 * Reads go around a slow member, and writes wait for it.  An array may have a time after
 * which such a member is put out (slow_out_ms), unless it has the last copy of something.
 * It stays out until an administrator takes it back, or another disk gets its place: it
 * would be as slow again.
 */

#include <config.h>

#include "cluster-ground.h"

/* The median of the other in-sync members, as this session reports it. */
static uint64_t
peers_us (const struct cluster_array *a, const struct cluster_session *s,
          unsigned member)
{
  uint64_t v[ARRAY_MEMBERS_MAX];
  unsigned n = 0, at;

  for (unsigned m = 0; m < a->layout.members; m++) {
    uint64_t us = s->load.stats.member[m].service_ns / 1000;

    if (m == member || us == 0 || a->rec.member[m].state != MEMBER_IN_SYNC)
      continue;
    for (at = n++; at > 0 && v[at - 1] > us; at--)
      v[at] = v[at - 1];
    v[at] = us;
  }
  return n > 0 ? v[n / 2] : 0;
}

/* As the session says that finds the member the slowest; suspect: of those that read
 * around it.
 */
static bool
latency (const struct cluster_array *a, unsigned member, bool suspect,
         uint64_t *us, uint64_t *others_us)
{
  const struct cluster_session *s = NULL;

  *us = *others_us = 0;
  while ((s = cluster_writer_next (a, s)))
    if (s->alive && s->load.ms &&
        (s->load.stats.member[member].suspect || !suspect) &&
        s->load.stats.member[member].service_ns / 1000 > *us) {
      *us = s->load.stats.member[member].service_ns / 1000;
      *others_us = peers_us (a, s, member);
    }
  return *us > 0;
}

bool
cluster_member_slow (const struct cluster_array *a, unsigned member,
                     uint64_t *us, uint64_t *others_us)
{
  return latency (a, member, true, us, others_us);
}

bool
cluster_member_latency (const struct cluster_array *a, unsigned member,
                        uint64_t *us, uint64_t *others_us)
{
  return latency (a, member, false, us, others_us);
}

void
cluster_slow_look (struct cluster *c, struct cluster_array *a)
{
  uint64_t us, others_us;

  for (unsigned m = 0; m < a->layout.members; m++)
    if (a->rec.member[m].state != MEMBER_IN_SYNC)
      a->slow_live_ms[m] = 0;
    else if (cluster_member_slow (a, m, &us, &others_us)) {
      a->slow_seen_live_ms[m] = c->live_ms;
      if (a->slow_live_ms[m] == 0)
        a->slow_live_ms[m] = c->live_ms;
    }
    /* Of two writers one may cease to say so a moment before the other one begins. */
    else if (c->live_ms >= a->slow_seen_live_ms[m] + QUIET_MS)
      a->slow_live_ms[m] = 0;
}

bool
cluster_slow_for (const struct cluster *c, const struct cluster_array *a,
                  unsigned member, uint64_t ms, uint64_t *us,
                  uint64_t *others_us)
{
  return a->slow_live_ms[member] &&
         c->live_ms - a->slow_live_ms[member] >= ms &&
         cluster_member_slow (a, member, us, others_us);
}
