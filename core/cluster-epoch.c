/* cluster-epoch.c: the epoch change, the one mechanism for every change of an
 * array (DESIGN section 6).
 *
 *   PREPARED  the array's record gets `change`: a new number, and the members'
 *             states in it.  Never taken back: if whoever asked for it is gone,
 *             it is carried through all the same, and a number never gets
 *             another set of members.
 *   confirm   members report a min_epoch of at least the new number: they have
 *             drained and now refuse everything older, durably.  Only asked for
 *             where the change is a fence.
 *   COMMIT    states and number become the array's; what waited for that (an
 *             attach) is granted in the same transaction.
 *
 * A change that is no fence is prepared and committed in one transaction.
 *
 * A member that is started again raises its min_epoch by itself.  If it thereby
 * passes the number that is being prepared, that number is spent, and the
 * change goes on under a higher one.
 */

#include <config.h>

#include <assert.h>
#include <string.h>

#include "cluster-internal.h"

void
cluster_epoch_prepare (struct cluster *c, struct cluster_array *a,
                       const uint8_t states[], bool fence)
{
  struct cluster_change *change = &a->rec.change;
  uint64_t epoch = cluster_array_wanted_epoch (a);

  for (unsigned m = 0; m < a->layout.members; m++)
    if (a->disk[m]->min_epoch > epoch)
      epoch = a->disk[m]->min_epoch;
  if (change->epoch == 0)
    change->since_wall_ms = c->wall_ms;
  change->epoch = epoch + 1;
  change->fence = fence;
  memcpy (change->states, states, a->layout.members);
  cluster_put_array (c, a);
  cluster_changed_array (c, a);
  if (fence)
    for (unsigned m = 0; m < a->layout.members; m++)
      cluster_disk_wake (c, a->disk[m]);
}

bool
cluster_epoch_waits_for (const struct cluster_array *a, unsigned member)
{
  const struct cluster_change *change = &a->rec.change;
  const struct cluster_disk *d = a->disk[member];

  return change->epoch && change->fence &&
         change->states[member] != MEMBER_OUT &&
         (!d->heard || !d->took_place || d->min_epoch < change->epoch);
}

static void
commit (struct cluster *c, struct cluster_array *a)
{
  struct cluster_change *change = &a->rec.change;

  a->rec.epoch = change->epoch;
  if (change->fence)
    a->rec.fence = change->epoch;
  for (unsigned m = 0; m < a->layout.members; m++) {
    struct cluster_member *member = &a->rec.member[m];

    if (member->state == change->states[m])
      continue;
    member->state = change->states[m];
    member->since_wall_ms = c->wall_ms;
    if (member->state == MEMBER_IN_SYNC)
      member->reason[0] = '\0';
  }
  memset (change, 0, sizeof *change);
  cluster_put_array (c, a);
  cluster_changed_array (c, a);
  cluster_session_committed (c, a);
  for (unsigned m = 0; m < a->layout.members; m++)
    cluster_disk_wake (c, a->disk[m]);
}

void
cluster_epoch_advance (struct cluster *c, struct cluster_array *a)
{
  struct cluster_change *change = &a->rec.change;
  uint8_t states[ARRAY_MEMBERS_MAX];

  if (change->epoch == 0)
    return;
  for (unsigned m = 0; m < a->layout.members; m++)
    if (change->fence && a->disk[m]->heard &&
        a->disk[m]->min_epoch > change->epoch) {
      memcpy (states, change->states, sizeof states);
      cluster_epoch_prepare (c, a, states, true);
      return;
    }
  for (unsigned m = 0; m < a->layout.members; m++)
    if (cluster_epoch_waits_for (a, m))
      return;
  commit (c, a);
}
