/* cluster-lapse.c: do a writer's acknowledged writes outlive the writer?
 *
 * Clients of an array process (a service's clients) have writes that were
 * acknowledged and not flushed.  If the process ends without a detach, and
 * another replaces it, these writes are still there if
 *
 * - every member that is in-sync afterwards is served by the process that had
 *   the requests.  (A resync may take the copy of any of them for the newer
 *   one.)
 * - no member went out meanwhile whose second copies may have been only in the
 *   writer's image buffer.  With dup=sync-client a write is acknowledged when
 *   all copies are written, so there are no such members; otherwise a member
 *   that went out may have had the only copies until the writer says that it is
 *   prepared for a later change.
 *
 * This goes on when the next process has been admitted: only its resync
 * recreates the images that were in the former process's buffer, and they are
 * not flushed before its end.  So the array is *unequal* until the session says
 * that its resync is over.  Until then no session prepares itself for the loss
 * of a member, because only that member may have the data, and a detach does
 * not mean that all is stable.
 *
 * Otherwise writes may be lost, and the epoch is stored as the array's *lapse*,
 * as a member's lapse is stored for requests to that member in older epochs.
 * The same holds where a member that stays has lapsed while the writer lived:
 * the writer has its clients' FLUSHes fail, but may die before each has failed.
 * It holds, too, where the next writer's resync can't read the newest copy of a
 * range: then the lapse is the epoch in which that writer was admitted, stored
 * before it reads an older copy.
 */

#include <config.h>

#include "cluster-epoch.h"

void
cluster_lapse_commit (const struct cluster *c, struct cluster_array *a,
                      bool prepared)
{
  const struct cluster_change *change = &a->rec.change;
  bool async = a->rec.dup != DUP_SYNC_CLIENT;
  /* Without a writer there was nobody to prepare himself. */
  bool written_out = prepared && cluster_array_writer (a);

  if (a->rec.writer_epoch == 0)
    return;
  if (written_out)
    a->rec.risky = false;
  for (unsigned m = 0; m < a->layout.members; m++) {
    if (a->rec.member[m].state != MEMBER_IN_SYNC)
      continue;
    if (change->states[m] == MEMBER_OUT) {
      a->rec.risky |= !written_out && async;
      if (a->rec.unequal && async)
        a->rec.lapse = change->epoch;
    }
    else if (change->confirm[m] && !cluster_process_kept (a->disk[m]))
      a->rec.lapse = change->epoch;
  }
}

void
cluster_lapse_writer (struct cluster *c, struct cluster_array *a)
{
  bool kept = !a->rec.risky;

  for (unsigned m = 0; m < a->layout.members; m++)
    kept = kept && (a->rec.member[m].state != MEMBER_IN_SYNC || a->known[m]);
  if (a->rec.writer_epoch && !kept)
    a->rec.lapse = a->rec.epoch;
  a->rec.unequal = a->rec.writer_epoch != 0;
  a->rec.writer_epoch = a->rec.epoch;
  a->rec.risky = false;
  cluster_step_put_array (c, a);
}

void
cluster_lapse_older (struct cluster *c, struct cluster_array *a)
{
  if (a->rec.lapse >= a->rec.writer_epoch)
    return;
  a->rec.lapse = a->rec.writer_epoch;
  cluster_step_put_array (c, a);
}

void
cluster_lapse_equal (struct cluster *c, struct cluster_array *a)
{
  if (!a->rec.unequal)
    return;
  a->rec.unequal = false;
  cluster_step_put_array (c, a);
}

void
cluster_lapse_detached (struct cluster *c, struct cluster_array *a)
{
  if (a->rec.unequal)
    return;
  a->rec.writer_epoch = 0;
  a->rec.risky = false;
  cluster_step_put_array (c, a);
}
