/* history-sample.c: the samples that are taken of the engine: see history.h.
 *
 *   cluster       all arrays together
 *   array:NAME    what its sessions say, and its members' rebuilds
 *   disk:UUID     the disk itself
 */

#include <config.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "history.h"

/* Sums over its sessions; latencies weighted by how many requests had them. */
static void
add_array (double v[HISTORY_SERIES], const struct cluster *c,
           const struct cluster_array *a)
{
  const struct cluster_session *s;
  uint64_t exposed;

  TAILQ_FOREACH (s, cluster_sessions (c), link) {
    const struct cluster_session_rates *r = &s->load.rates;

    if (s->rec.ended || !s->alive ||
        memcmp (s->rec.array, a->rec.uuid, 16) != 0)
      continue;
    v[HISTORY_READ_BYTES] += r->read_bytes;
    v[HISTORY_WRITE_BYTES] += r->write_bytes;
    v[HISTORY_READS] += r->reads;
    v[HISTORY_WRITES] += r->writes;
    v[HISTORY_READ_US] += r->read_us * r->reads;
    v[HISTORY_WRITE_US] += r->write_us * r->writes;
    v[HISTORY_IMAGE_BYTES] += (double) s->load.stats.image_bytes;
  }
  for (unsigned m = 0; m < a->layout.members; m++)
    if (a->rec.member[m].state == MEMBER_JOINING && a->disk[m]->alive)
      v[HISTORY_REBUILD_BYTES] += (double) a->disk[m]->join.rate;
  cluster_array_exposure (a, &exposed, NULL, NULL);
  v[HISTORY_EXPOSED_BYTES] += (double) exposed;
}

/* Weighted sums into means. */
static void
finish (double v[HISTORY_SERIES])
{
  v[HISTORY_READ_US] = v[HISTORY_READS] > 0
                         ? v[HISTORY_READ_US] / v[HISTORY_READS]
                         : NAN;
  v[HISTORY_WRITE_US] = v[HISTORY_WRITES] > 0
                          ? v[HISTORY_WRITE_US] / v[HISTORY_WRITES]
                          : NAN;
}

void
history_sample (struct history *h, const struct cluster *c, uint64_t wall_ms)
{
  double all[HISTORY_SERIES] = { 0 };
  const struct cluster_array *a;
  const struct cluster_disk *d;
  char subject[HISTORY_SUBJECT_BYTES];

  history_begin (h, wall_ms);
  TAILQ_FOREACH (a, cluster_arrays (c), link) {
    double v[HISTORY_SERIES] = { 0 };

    add_array (v, c, a);
    for (unsigned i = 0; i < HISTORY_SERIES; i++)
      all[i] += v[i];
    finish (v);
    snprintf (subject, sizeof subject, "array:%s", a->rec.name);
    history_add (h, subject, v);
  }
  finish (all);
  history_add (h, "cluster", all);
  TAILQ_FOREACH (d, cluster_disks (c), link) {
    double v[HISTORY_SERIES];

    if (!d->alive || d->load_ms == 0)
      continue;
    for (unsigned i = 0; i < HISTORY_SERIES; i++)
      v[i] = NAN;
    v[HISTORY_READ_BYTES] = d->rates.disk_read_bytes;
    v[HISTORY_WRITE_BYTES] = d->rates.disk_write_bytes;
    v[HISTORY_READS] = d->rates.disk_reads;
    v[HISTORY_WRITES] = d->rates.disk_writes;
    format_uuid (d->rec.uuid, stpcpy (subject, "disk:"));
    history_add (h, subject, v);
  }
}
