/* cluster-kept.c: does what a writer has answered outlive the writer?
 *
 * Whoever writes by way of an array process (a service's client) has writes that were
 * answered and not flushed.  If the process ends without a detach, and another takes
 * its place, these writes are there still if
 *
 * - every member that is in-sync afterwards is served by the process that had the
 *   requests.  (Any of them may be the copy that a resync takes for the newer one.)
 * - no member went out meanwhile of which the writer alone may have had the second
 *   copies, in its image buffer.  With dup=sync-client it answers when all copies are
 *   written, so there are no such members; else a member that went out may have had
 *   the only copies until the writer says that it is prepared for a later change.
 *
 * That goes on when the next process has been let in: what was in the image buffer of
 * the one before is made anew by the resync alone, and is not flushed before the end of
 * that.  So the array is *unequal* until the session says that its resync is over; until
 * then nobody prepares himself for the loss of a member, for nobody else has what it has,
 * and a detach is no word that all is stable.
 *
 * Otherwise something may be gone, and the epoch is stored as the array's *lapse*:
 * as a member's lapse says it of what was asked of that member in older epochs.  So it
 * is where a member that stays has lapsed while the writer lived: the writer has its
 * clients' FLUSHes fail, but may die before it has told them all.  So it is, too, where
 * the next writer's resync can't read the newest copy of something: then the lapse is the
 * epoch in which that writer was let in, stored before it takes an older copy.
 */

#include <config.h>

#include "cluster-internal.h"

void
cluster_kept_commit (const struct cluster *c, struct cluster_array *a,
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
    else if (change->confirm[m] && !cluster_life_kept (a->disk[m]))
      a->rec.lapse = change->epoch;
  }
}

void
cluster_kept_writer (struct cluster *c, struct cluster_array *a)
{
  bool kept = !a->rec.risky;

  for (unsigned m = 0; m < a->layout.members; m++)
    kept = kept && (a->rec.member[m].state != MEMBER_IN_SYNC || a->known[m]);
  if (a->rec.writer_epoch && !kept)
    a->rec.lapse = a->rec.epoch;
  a->rec.unequal = a->rec.writer_epoch != 0;
  a->rec.writer_epoch = a->rec.epoch;
  a->rec.risky = false;
  cluster_put_array (c, a);
}

void
cluster_kept_older (struct cluster *c, struct cluster_array *a)
{
  if (a->rec.lapse >= a->rec.writer_epoch)
    return;
  a->rec.lapse = a->rec.writer_epoch;
  cluster_put_array (c, a);
}

void
cluster_kept_equal (struct cluster *c, struct cluster_array *a)
{
  if (!a->rec.unequal)
    return;
  a->rec.unequal = false;
  cluster_put_array (c, a);
}

void
cluster_kept_detached (struct cluster *c, struct cluster_array *a)
{
  if (a->rec.unequal)
    return;
  a->rec.writer_epoch = 0;
  a->rec.risky = false;
  cluster_put_array (c, a);
}
