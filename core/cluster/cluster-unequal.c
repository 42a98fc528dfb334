/* cluster-unequal.c: ranges of which the copies may differ, as a session has left them
 * that has ended without a detach, or that is silent: who makes them equal?
 *
 * What a session has acknowledged is on the readers' copy, and may not be on the others.
 * It brings it there by itself; when it has ended somebody else must, or whoever reads
 * another copy after the loss of a member reads something older.  Stored is one word,
 * to_recover: it is set when such a session ends, and cleared when a session says that
 * all is equal: one that writes alone when its resync is over; of several that write,
 * when what was nobody's is recovered by one of them (cluster-lease.c), and what each has
 * attached since is equal.  Members' intent bits say how much it can be.
 */

#include <config.h>

#include "cluster-internal.h"

void
cluster_unequal_set (struct cluster *c, struct cluster_array *a,
                     bool to_recover)
{
  if (a->rec.to_recover == to_recover)
    return;
  a->rec.to_recover = to_recover;
  cluster_put_array (c, a);
  cluster_changed_array (c, a);
}

/* Of how much may copies differ, at most?  Of a member that was not heard yet nobody knows
 * that there is nothing.
 */
static uint64_t
marked_bytes (const struct cluster_array *a)
{
  uint64_t bytes = 0;

  for (unsigned m = 0; m < a->layout.members; m++) {
    const struct cluster_disk *d = a->disk[m];

    if (a->rec.member[m].state == MEMBER_IN_SYNC)
      bytes += (d->dirty_extents + (d->heard ? 0 : 1)) * EXTENT_BYTES;
  }
  return bytes < a->layout.size ? bytes : a->layout.size;
}

enum cluster_unequal
cluster_array_unequal (const struct cluster_array *a, uint64_t *bytes,
                       const struct cluster_session **by)
{
  const struct cluster_leases *l = a->leases;
  const struct cluster_session *s = NULL;
  bool silent = false;

  *by = l ? l->recoverer : NULL;
  *bytes = a->rec.ready && a->layout.copies > 1 ? marked_bytes (a) : 0;
  while ((s = cluster_writer_next (a, s))) {
    silent |= !s->alive;
    if (*by == NULL && (s->rec.part.length == 0 || s->lessee.unequal))
      *by = s;
  }
  if (*bytes == 0 || !(silent || a->rec.to_recover)) {
    *bytes = 0;
    return UNEQUAL_NONE;
  }
  return *by && !silent ? UNEQUAL_FIXED : UNEQUAL_LEFT;
}
