/* cluster-change.c: the changes of an array's epoch: their kinds, the members
 * and sessions that each waits for, and how one is PREPARED.
 *
 *   PREPARED  the array's record gets `change`: a new number, and the members'
 *             states in it.  It is never taken back: if the session that asked
 *             for it is gone, it is carried through anyway, and a number never
 *             gets another set of states.  A change that is no longer wanted is
 *             replaced by one with a higher number.
 *   confirm   members report a min_epoch of at least the new number: requests of
 *             older epochs have ended there, and are refused from now on, durably.
 *   prepared  sessions say so in their heartbeats.
 *   COMMIT    states and number become the array's (cluster-commit.c).
 *
 * Only members that must be fenced are asked to confirm, and sessions only
 * where that is needed: a change that waits for no confirmation is COMMITted in
 * the transaction in which it is PREPARED.
 *
 * A change waits for a silent writer, since it may still write; where others
 * write as well, or where readers hold their reads until a lost member is out,
 * its session ends (cluster_session_end_tick). It does not wait for a silent
 * reader, which stops answering by itself; if such a reader is heard again
 * before the change is over, the change waits for it, too, and if it is heard
 * afterwards it is admitted like a new one (cluster_attach_refuse_late). A
 * writer that has lost a member that stays can't prepare itself, because it
 * can't write its images to the member: so no change asks it to before the
 * member has been given back.
 */

#include <config.h>

#include <string.h>

#include "cluster-epoch.h"

/* Which members confirm a change. */
enum change_members {
  MEMBERS_NONE,
  MEMBERS_ALL,          /* all that are not out in it */
  MEMBERS_THESE,        /* those in the caller's `which` */
  MEMBERS_THESE_OR_ALL, /* those in `which`; without a writer, all */
  MEMBERS_GO_ON,        /* those of the change that it replaces, if they stay */
};

/* Whether sessions prepare themselves for a change. */
enum change_sessions {
  SESSIONS_NONE,
  SESSIONS_ALL,
  SESSIONS_IF_OUT, /* all, if cluster_change_needs_sessions says so */
  SESSIONS_GO_ON,  /* as in the change that it replaces */
};

/* The table in docs/PROTOCOL.md, "What a change waits for", says also what begins each
 * change and what its COMMIT sets.
 */
static const struct {
  enum change_members members;
  enum change_sessions sessions;
} rules[] = {
  /* A writer attaches or takes over. */
  [CHANGE_WRITER] = { MEMBERS_ALL, SESSIONS_IF_OUT },
  /* A writer's session ends. */
  [CHANGE_END] = { MEMBERS_ALL, SESSIONS_IF_OUT },
  /* The session of one of several writers ends, while a member joins or is going out. */
  [CHANGE_LEFT] = { MEMBERS_THESE, SESSIONS_IF_OUT },
  /* A reader, or a further writer, attaches beside several writers while a member is not
   * in-sync.
   */
  [CHANGE_READER] = { MEMBERS_NONE, SESSIONS_ALL },
  /* A member that a session has lost goes out: the member was joining, or no other
   * session is attached, or the session is the writer's and all others are readers that
   * have been silent for their TTL.
   */
  [CHANGE_LOST_ALONE] = { MEMBERS_THESE, SESSIONS_NONE },
  /* A member that a session has lost goes out, and other sessions are attached. */
  [CHANGE_LOST] = { MEMBERS_THESE, SESSIONS_ALL },
  /* An in-sync member that no session has lost goes out: its disk has failed or hangs,
   * it is too slow, its node is drained or shut out, it moves to another disk, or it was
   * given back without its unflushed data.
   */
  [CHANGE_PUT_OUT] = { MEMBERS_GO_ON, SESSIONS_ALL },
  /* A joining member goes out. */
  [CHANGE_JOINER_OUT] = { MEMBERS_GO_ON, SESSIONS_NONE },
  /* A member that is out begins to join. */
  [CHANGE_JOIN] = { MEMBERS_THESE_OR_ALL, SESSIONS_NONE },
  /* A joining member becomes in-sync. */
  [CHANGE_IN_SYNC] = { MEMBERS_NONE, SESSIONS_ALL },
  /* A member with a last copy, which the writer has lost, is back. */
  [CHANGE_BACK] = { MEMBERS_THESE, SESSIONS_NONE },
  /* A member gets another key. */
  [CHANGE_KEY] = { MEMBERS_THESE, SESSIONS_NONE },
  /* An outgoing member stays. */
  [CHANGE_INSTEAD] = { MEMBERS_THESE_OR_ALL, SESSIONS_NONE },
  /* A change for which the writer can't prepare is called off. */
  [CHANGE_CALLED_OFF] = { MEMBERS_THESE, SESSIONS_NONE },
  /* Tokens are renewed. */
  [CHANGE_TOKENS] = { MEMBERS_NONE, SESSIONS_NONE },
  /* A change gets a higher number. */
  [CHANGE_NUMBER] = { MEMBERS_GO_ON, SESSIONS_GO_ON },
};

void
cluster_change_states (const struct cluster_array *a, uint8_t states[])
{
  if (a->rec.change.epoch)
    memcpy (states, a->rec.change.states, a->layout.members);
  else
    cluster_copies_states (a, states);
}

bool
cluster_change_needs_sessions (const struct cluster *c,
                               const struct cluster_array *a,
                               const uint8_t states[],
                               const struct cluster_session *except)
{
  const struct cluster_session *s;
  bool others = false, written = cluster_array_writer (a) != NULL;

  /* A writer takes its time to prepare itself, and need not do so for a silent
   * reader: the reader is admitted again when it is heard.  Without a writer, a
   * silent reader counts, because that costs nothing.
   */
  TAILQ_FOREACH (s, &a->sessions, array_link)
    others |= s != except && (s->rec.writable || s->alive || !written);
  for (unsigned m = 0; m < a->layout.members; m++) {
    enum member_state is = a->rec.member[m].state;

    if ((is == MEMBER_IN_SYNC && states[m] == MEMBER_OUT && others) ||
        (is == MEMBER_JOINING && states[m] == MEMBER_IN_SYNC))
      return true;
  }
  return false;
}

bool
cluster_change_stalls_by (const struct cluster_array *a,
                          const struct cluster_session *s,
                          const uint8_t states[])
{
  for (unsigned m = 0; m < a->layout.members; m++)
    if (s->path[m].lost && states[m] != MEMBER_OUT)
      return true;
  return false;
}

bool
cluster_change_stalls (const struct cluster *c, const struct cluster_array *a,
                       const uint8_t states[])
{
  const struct cluster_session *s = NULL;

  while ((s = cluster_writer_next (a, s)))
    if (cluster_change_stalls_by (a, s, states))
      return true;
  return false;
}

bool
cluster_change_can_put_out (const struct cluster *c,
                            const struct cluster_array *a, unsigned member)
{
  uint8_t states[ARRAY_MEMBERS_MAX];

  cluster_copies_states (a, states);
  cluster_copies_leave_out (a, member, states);
  return cluster_copies_kept (a, states) &&
         !cluster_change_stalls (c, a, states);
}

bool
cluster_change_loses_member (const struct cluster_array *a)
{
  const char *why;

  for (unsigned m = 0; m < a->layout.members && a->rec.change.epoch; m++)
    if (a->rec.member[m].state == MEMBER_IN_SYNC &&
        a->rec.change.states[m] == MEMBER_OUT &&
        !cluster_member_well (a, m, &why))
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
                        enum change_kind kind, const uint8_t states[],
                        const bool which[])
{
  enum change_members members = rules[kind].members;
  enum change_sessions sessions = rules[kind].sessions;
  struct cluster_change *change = &a->rec.change;
  bool all = members == MEMBERS_ALL || (members == MEMBERS_THESE_OR_ALL &&
                                        cluster_array_writer (a) == NULL);
  uint64_t epoch = cluster_array_wanted_epoch (a);

  for (unsigned m = 0; m < a->layout.members; m++) {
    if (a->disk[m]->min_epoch > epoch)
      epoch = a->disk[m]->min_epoch;
    /* Only the disk that joins now is to have this number as its min_epoch: a disk
     * that was in its place before may have raised its own by one.
     */
    if (a->rec.member[m].state == MEMBER_OUT && states[m] != MEMBER_OUT &&
        epoch == a->rec.epoch)
      epoch++;
  }
  if (change->epoch == 0) {
    change->since_wall_ms = c->wall_ms;
    a->begun_live_ms = c->live_ms;
  }
  change->epoch = epoch + 1;
  cluster_array_changing (c, a);
  if (sessions != SESSIONS_GO_ON)
    change->sessions = sessions == SESSIONS_ALL ||
                       (sessions == SESSIONS_IF_OUT &&
                        cluster_change_needs_sessions (c, a, states, NULL));
  a->renumbered = true;
  a->prepared_live_ms = c->live_ms;
  for (unsigned m = 0; m < a->layout.members; m++) {
    change->states[m] = states[m];
    if (members != MEMBERS_GO_ON)
      change->confirm[m] = all ||
                           (members != MEMBERS_NONE && which && which[m]);
    change->confirm[m] &= states[m] != MEMBER_OUT;
    if (states[m] != MEMBER_OUT)
      a->rec.member[m].planned = false;
    if (states[m] == MEMBER_OUT && a->disk[m]->old_copy)
      a->rec.member[m].reset = true; /* now it is known to be an old copy */
    else if (states[m] == MEMBER_IN_SYNC)
      a->rec.member[m].reset = false; /* it does not go after all */
  }
  cluster_step_put_array (c, a);
  cluster_step_changed_array (c, a);
  cluster_array_due (c, a, DUE_CHANGE);
}

void
cluster_change_put_out (struct cluster *c, struct cluster_array *a,
                        const uint8_t states[])
{
  const struct cluster_change *change = &a->rec.change;
  bool counts = false;

  /* Sessions count on the in-sync members. */
  for (unsigned m = 0; m < a->layout.members; m++)
    counts |= (a->rec.member[m].state == MEMBER_IN_SYNC) !=
              (states[m] == MEMBER_IN_SYNC);
  counts &= change->epoch == 0 || change->sessions;
  cluster_change_prepare (c, a, counts ? CHANGE_PUT_OUT : CHANGE_JOINER_OUT,
                          states, NULL);
}

void
cluster_change_stay (struct cluster *c, struct cluster_array *a,
                     enum change_kind kind, const bool which[])
{
  uint8_t states[ARRAY_MEMBERS_MAX];

  cluster_copies_states (a, states);
  cluster_change_prepare (c, a, kind, states, which);
}

bool
cluster_change_waits_for (const struct cluster_array *a, unsigned member)
{
  const struct cluster_change *change = &a->rec.change;
  const struct cluster_disk *d = a->disk[member];

  if (change->epoch == 0)
    return false;
  /* A joining member that was started again since has lost some of its copies. */
  if (a->rec.member[member].state == MEMBER_JOINING &&
      change->states[member] == MEMBER_IN_SYNC &&
      !cluster_copies_synced (a, member))
    return true;
  /* Sessions connect to the member as soon as they learn of the COMMIT.  A process that is
   * starting takes no connections yet.
   */
  return change->confirm[member] &&
         (!cluster_disk_heard (d) || !d->took_place ||
          d->state == DISK_STARTING || d->min_epoch < change->epoch);
}

bool
cluster_change_waits_for_session (const struct cluster_array *a,
                                  const struct cluster_session *s)
{
  const struct cluster_change *change = &a->rec.change;

  return change->epoch && change->sessions && cluster_session_of (s, a) &&
         (s->rec.writable || s->alive) && s->prepared != change->epoch;
}
