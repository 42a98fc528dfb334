/* cluster-unequal.c: ranges whose copies may differ, because a session has
 * ended without a detach, or is silent: which session resynchronizes them?
 *
 * A session's acknowledged writes are on the readers' copy, and may be missing
 * on the others.  The session brings them there by itself; when it has ended
 * another session must, or a read of another copy after the loss of a member
 * returns older data.  One flag is stored, to_recover: it is set when such a
 * session ends, and cleared when a session says that all copies are in sync: a
 * single writer when its resync is over; one of several writers when it has
 * recovered the ranges without an owner (cluster-lease.c).  Members' intent bits
 * bound the size.
 *
 * A member that was started again, and that the array can't do without, is
 * given back to the sessions without its unflushed writes.  Its clients get an
 * error, but its copies differ from the others.  So this is stored with the
 * member, when that is COMMITted.  It ends when the member goes out, because it
 * joins then: cluster-rejoin.c orders that as soon as the array can do without
 * it.  When the last writing session has ended before, it becomes to_recover.
 */

#include <config.h>

#include "cluster-trust.h"

void
cluster_unequal_set (struct cluster *c, struct cluster_array *a,
                     bool to_recover)
{
  if (a->rec.to_recover == to_recover)
    return;
  a->rec.to_recover = to_recover;
  cluster_step_put_array (c, a);
  cluster_step_changed_array (c, a);
}

/* The bytes whose copies may differ, at most.  A member that was not heard yet
 * may have any.
 */
static uint64_t
marked_bytes (const struct cluster_array *a)
{
  uint64_t bytes = 0;

  for (unsigned m = 0; m < a->layout.members; m++) {
    const struct cluster_disk *d = a->disk[m];

    if (a->rec.member[m].state == MEMBER_IN_SYNC)
      bytes += (d->dirty_extents + (cluster_disk_heard (d) ? 0 : 1)) *
               EXTENT_BYTES;
  }
  return bytes < a->layout.size ? bytes : a->layout.size;
}

void
cluster_unequal_end (struct cluster *c, struct cluster_array *a)
{
  for (unsigned m = 0; m < a->layout.members && !cluster_array_writer (a); m++)
    if (a->rec.member[m].differs) {
      a->rec.member[m].differs = false;
      a->rec.to_recover = true;
      cluster_step_put_array (c, a);
      cluster_step_changed_array (c, a);
    }
}

enum cluster_unequal
cluster_array_unequal (const struct cluster_array *a, uint64_t *bytes,
                       const struct cluster_session **by)
{
  const struct cluster_leases *l = a->leases;
  const struct cluster_session *s = NULL;
  bool silent = false, given_back = false;

  for (unsigned m = 0; m < a->layout.members; m++)
    given_back |= a->rec.member[m].differs;
  *by = l ? l->recoverer : NULL;
  *bytes = a->rec.ready && a->layout.copies > 1 ? marked_bytes (a) : 0;
  while ((s = cluster_writer_next (a, s))) {
    silent |= !s->alive;
    if (*by == NULL && (s->rec.part.length == 0 || s->lessee.unequal))
      *by = s;
  }
  if (*bytes == 0 || !(silent || given_back || a->rec.to_recover)) {
    *bytes = 0;
    return UNEQUAL_NONE;
  }
  if (given_back) {
    *by = NULL;
    return UNEQUAL_GIVEN_BACK;
  }
  return *by && !silent ? UNEQUAL_FIXED : UNEQUAL_LEFT;
}
