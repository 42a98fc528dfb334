/* cluster-change.c: PREPARE a change of epoch. */

#include <config.h>

#include <stdio.h>
#include <string.h>

#include "cluster-internal.h"

void
cluster_change_states (const struct cluster_array *a, uint8_t states[])
{
  for (unsigned m = 0; m < a->layout.members; m++)
    states[m] = a->rec.change.epoch ? a->rec.change.states[m]
                                    : (uint8_t) a->rec.member[m].state;
}

bool
cluster_change_needs_sessions (const struct cluster *c,
                              const struct cluster_array *a,
                              const uint8_t states[],
                              const struct cluster_session *except)
{
  const struct cluster_session *s;
  bool others = false, written = cluster_array_writer (c, a) != NULL;

  /* The writer takes its time to prepare itself: not for a silent reader, which is
   * let in anew when it is heard of again.  Without a writer that costs nothing.
   */
  TAILQ_FOREACH (s, &c->sessions, link)
    others |= s != except && !s->rec.ended &&
              (s->rec.writable || s->alive || !written) &&
              cluster_uuid_equal (s->rec.array, a->rec.uuid);
  for (unsigned m = 0; m < a->layout.members; m++) {
    enum member_state is = a->rec.member[m].state;

    if ((is == MEMBER_IN_SYNC && states[m] == MEMBER_OUT && others) ||
        (is == MEMBER_JOINING && states[m] == MEMBER_IN_SYNC))
      return true;
  }
  return false;
}

bool
cluster_change_stalls (const struct cluster *c, const struct cluster_array *a,
                      const uint8_t states[])
{
  const struct cluster_session *writer = cluster_array_writer (c, a);

  for (unsigned m = 0; writer && m < a->layout.members; m++)
    if (writer->lost[m] && states[m] != MEMBER_OUT)
      return true;
  return false;
}

bool
cluster_change_loses (const struct cluster_array *a, const uint8_t states[])
{
  bool lost[ARRAY_MEMBERS_MAX];

  for (unsigned m = 0; m < a->layout.members; m++)
    lost[m] = states[m] != MEMBER_IN_SYNC ||
              a->rec.member[m].state != MEMBER_IN_SYNC;
  return layout_loss (&a->layout, lost, NULL) > 0;
}

void
cluster_change_prepare (struct cluster *c, struct cluster_array *a,
                       const uint8_t states[], const bool confirm[],
                       bool sessions)
{
  struct cluster_change *change = &a->rec.change;
  uint64_t epoch = cluster_array_wanted_epoch (a);

  for (unsigned m = 0; m < a->layout.members; m++) {
    if (a->disk[m]->min_epoch > epoch)
      epoch = a->disk[m]->min_epoch;
    /* No disk has this number but the one that joins now: not one that was in its
     * place before, and has raised its min_epoch by itself.
     */
    if (a->rec.member[m].state == MEMBER_OUT && states[m] != MEMBER_OUT &&
        epoch == a->rec.epoch)
      epoch++;
  }
  if (change->epoch == 0)
    change->since_wall_ms = c->wall_ms;
  change->epoch = epoch + 1;
  change->sessions = sessions;
  a->renumbered = true;
  a->prepared_live_ms = c->live_ms;
  for (unsigned m = 0; m < a->layout.members; m++) {
    change->states[m] = states[m];
    change->confirm[m] = confirm && confirm[m];
    if (states[m] != MEMBER_OUT)
      a->rec.member[m].planned = false;
    if (states[m] == MEMBER_OUT && a->disk[m]->old_copy)
      a->rec.member[m].reset = true; /* while it is known to be one */
    else if (states[m] == MEMBER_IN_SYNC)
      a->rec.member[m].reset = false; /* it does not go after all */
  }
  cluster_put_array (c, a);
  cluster_changed_array (c, a);
  cluster_due (c, a, DUE_CHANGE);
}

void
cluster_change_stay (struct cluster *c, struct cluster_array *a,
                    const bool confirm[])
{
  uint8_t states[ARRAY_MEMBERS_MAX];

  for (unsigned m = 0; m < a->layout.members; m++)
    states[m] = (uint8_t) a->rec.member[m].state;
  cluster_change_prepare (c, a, states, confirm, false);
}

bool
cluster_change_waits_for (const struct cluster_array *a, unsigned member)
{
  const struct cluster_change *change = &a->rec.change;
  const struct cluster_disk *d = a->disk[member];

  if (change->epoch == 0)
    return false;
  /* It may have been started again since, and then has lost some of it. */
  if (a->rec.member[member].state == MEMBER_JOINING &&
      change->states[member] == MEMBER_IN_SYNC &&
      !cluster_member_synced (a, member))
    return true;
  return change->confirm[member] &&
         (!d->heard || !d->took_place || d->min_epoch < change->epoch);
}

bool
cluster_change_waits_for_session (const struct cluster_array *a,
                                 const struct cluster_session *s)
{
  const struct cluster_change *change = &a->rec.change;

  return change->epoch && change->sessions && !s->rec.ended &&
         (s->rec.writable || s->alive) &&
         cluster_uuid_equal (s->rec.array, a->rec.uuid) &&
         s->prepared != change->epoch;
}
