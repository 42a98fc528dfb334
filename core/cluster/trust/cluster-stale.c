/* cluster-stale.c: old copies of members' disks (a snapshot or a clone of the disk
 * that is put back): how they are recognised, and what becomes of them.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cluster-trust.h"

/* In-sync members are never more than one round apart.  A member that is out
 * has at least the round that the array had when it went out; a joining member
 * has none.
 */
bool
cluster_stale_behind (const struct cluster_disk *d, uint64_t round)
{
  const struct cluster_array *a = d->array;
  const struct cluster_member *m = &a->rec.member[d->position];

  switch (m->state) {
  case MEMBER_IN_SYNC:
    return round + 2 <= a->rec.round;
  case MEMBER_OUT:
    return round + 2 <= m->round;
  default:
    return false;
  }
}

bool
cluster_stale_copy (const struct cluster_disk *d,
                    const struct cluster_disk_heartbeat *hb)
{
  const struct cluster_member *m;

  /* A process that was taken in is no old copy, but its heartbeats may come out of
   * order.
   */
  if (d->array == NULL || !d->array->rec.ready ||
      strcmp (hb->instance, d->instance) == 0 ||
      strcmp (hb->instance, d->rec.instance) == 0)
    return false;
  m = &d->array->rec.member[d->position];
  if (cluster_uuid_is_zero (hb->array))
    return m->state == MEMBER_IN_SYNC;
  return cluster_uuid_equal (hb->array, d->array->rec.uuid) &&
         (hb->sequence < d->rec.sequence || hb->min_epoch < m->confirmed ||
          cluster_stale_behind (d, hb->round));
}

bool
cluster_stale_judge (struct cluster *c, struct cluster_array *a)
{
  bool changing = a->rec.change.epoch > 0, any = false;
  bool writer = cluster_array_writer (a) != NULL;

  for (unsigned m = 0; m < a->layout.members; m++) {
    struct cluster_disk *d = a->disk[m];
    bool unmet = cluster_process_unmet (d);

    if (a->rec.member[m].state != MEMBER_IN_SYNC || !cluster_disk_heard (d) ||
        d->served || d->old_copy || !d->took_place ||
        !(unmet || (changing ? a->rec.change.confirm[m] : !writer)) ||
        !cluster_stale_behind (d, d->round))
      continue;
    if (d->poll) {
      cluster_step_refuse (
        c, d->poll->op, CLUSTER_UNAVAILABLE, "old-copy",
        "disk %.200s of node %s is an old copy of member %u of "
        "array %s",
        d->rec.path, d->rec.node, m, a->rec.name);
      cluster_wait_end (c, d->poll);
    }
    d->old_copy = any = true;
    /* The process counts as not heard, so that its next heartbeat is judged like that
     * of a new one.
     */
    cluster_process_replaced (d);
    d->told.reply = d->took_place = false;
    d->instance[0] = '\0';
    /* If the writer knew this process, it knows none of this disk from now on.  The
     * next one may not have what was written, so only a change of epoch tells the
     * writer of it.
     */
    if (!unmet)
      snprintf (d->rec.instance, sizeof d->rec.instance, "none");
    d->rec.cache[0] = '\0';
    /* The old copy's own numbers were taken for the disk's.  They can't tell the right
     * disk any more; its rounds still do.
     */
    d->rec.sequence = d->stored_sequence = 0;
    a->rec.member[m].confirmed = 0;
    cluster_step_put_array (c, a);
    cluster_step_log (
      c, CLUSTER_WARNING, "array", a->rec.name,
      "Disk %.200s of node %s, served as member %u of array %s, is an old copy "
      "of the disk: it has seen round %" PRIu64 " of the "
      "array's writing, and others have seen round %" PRIu64 ".",
      d->rec.path, d->rec.node, m, a->rec.name, d->round, a->rec.round);
    cluster_step_put_disk (c, d);
    cluster_step_changed_disk (c, d);
  }
  /* A joining member may have copied from it. */
  for (unsigned m = 0; any && m < a->layout.members; m++)
    if (a->rec.member[m].state == MEMBER_JOINING)
      cluster_stale_reset (c, a, m);
  return any;
}

void
cluster_stale_reset (struct cluster *c, struct cluster_array *a,
                     unsigned member)
{
  if (a->rec.member[member].reset)
    return;
  a->rec.member[member].reset = true;
  cluster_step_put_array (c, a);
}
