/* cluster-lost.c: decides about a member that a session reports as lost.
 *
 * The member goes out by a change of epoch, and the report is answered with the
 * COMMIT: from then on the session works without it.  Some members stay:
 *
 * - a member with the only copy that is left of some data (it may be whole, and
 *   would miss writes): requests that need it wait, and it is fenced and given
 *   back when it is well again (cluster_commit_tick). The same holds for a
 *   member that can go out only when sessions have prepared themselves, while
 *   the writer can't do so because it has lost another member;
 * - a member that only a reader has lost: a reader's bad line must not take a
 *   member from the writer;
 * - a member that is well, if at most as many writers have lost it as still
 *   have it: it is fenced and given back to the writers that lost it, whose
 *   sessions end if that goes on (cluster_session_end_tick). But a member that
 *   answers with errors goes out: the other writers are about to get the same
 *   errors;
 * - a member that has been taken back meanwhile: the report is about an earlier
 *   loss.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cluster-inputs.h"

/* The size of a host's reason (struct array_notice has some more). */
#define REASON_SAID_BYTES 151

/* The change under way, to which the loss is added.  But where there is a writer, a
 * change that waits only for members to confirm is left: it is begun again after the
 * loss, so that neither waits for the other.
 */
static void
base (const struct cluster *c, const struct cluster_array *a,
      struct cluster_change *change)
{
  *change = a->rec.change;
  if (change->epoch && !change->sessions && cluster_array_writer (a))
    memset (change, 0, sizeof *change);
  if (change->epoch == 0)
    cluster_copies_states (a, change->states);
}

/* The states with this member out, and what else goes with it. */
static void
without (const struct cluster *c, const struct cluster_array *a,
         unsigned member, uint8_t states[])
{
  const struct layout_group group = layout_group (&a->layout, member);
  struct cluster_change change;

  base (c, a, &change);
  memcpy (states, change.states, sizeof change.states);
  /* A member that the change would make in-sync is still joining, and may have
   * copied from this one.
   */
  if (a->rec.member[member].state == MEMBER_IN_SYNC && a->layout.copies > 2)
    for (unsigned m = group.first; m < group.end; m++)
      if (a->rec.member[m].state == MEMBER_JOINING &&
          states[m] == MEMBER_IN_SYNC)
        states[m] = MEMBER_JOINING;
  cluster_copies_leave_out (a, member, states);
}

/* The writer waits for a member that stays.  A change that waits for the writer would do
 * so for ever: it is begun again when the writer can prepare itself.
 */
static void
keep_waiting (struct cluster *c, struct cluster_session *s,
              struct cluster_array *a, unsigned member)
{
  s->path[member].lost = true;
  cluster_step_changed_array (c, a);
  if (a->rec.change.sessions &&
      cluster_change_stalls (c, a, a->rec.change.states))
    cluster_change_stay (c, a, CHANGE_CALLED_OFF, NULL);
}

/* A member with a last copy stays, and the writer waits for it. */
static bool
refuse_last_copy (struct cluster *c, uint64_t op, struct cluster_session *s,
                  struct cluster_array *a, unsigned member)
{
  uint8_t states[ARRAY_MEMBERS_MAX];
  char words[320];

  without (c, a, member, states);
  if (a->rec.member[member].state != MEMBER_IN_SYNC ||
      cluster_copies_kept (a, states))
    return false;
  if (s->rec.writable) {
    if (!s->stopped[0])
      cluster_step_log (
        c, CLUSTER_ERROR, "array", a->rec.name,
        "Array %s waits on node %s: member %u cannot be left out, because it "
        "has the only copy that is left of some data.",
        a->rec.name, s->rec.node, member);
    snprintf (s->stopped, sizeof s->stopped,
              "node %.63s lost member %u, which has the only copy that is left "
              "of some data",
              s->rec.node, member);
    keep_waiting (c, s, a, member);
  }
  cluster_step_defer (c, op, CLUSTER_CONFLICT, "last-copy", HEARTBEAT_MS,
                      "member %u (%s) has the only copy that is left of some "
                      "of array %s, so it cannot be left out: bring the member "
                      "back; requests for that data wait until then",
                      member,
                      cluster_words_disk (a->disk[member], words, sizeof words),
                      a->rec.name);
  return true;
}

/* One of several that write has lost a member that another reaches: one bad line must not
 * take a member from all.
 */
static bool
refuse_apart (struct cluster *c, uint64_t op, struct cluster_session *s,
              struct cluster_array *a, unsigned member)
{
  char words[320];

  if (!cluster_process_apart (a, s, member))
    return false;
  keep_waiting (c, s, a, member);
  cluster_step_defer (
    c, op, CLUSTER_CONFLICT, "in-use", HEARTBEAT_MS,
    "member %u (%s) of array %s is well, and others who write reach "
    "it: check the connection from here to it; it is tried again "
    "for %d s, then this session ends",
    member, cluster_words_disk (a->disk[member], words, sizeof words),
    a->rec.name, APART_MS / 1000);
  return true;
}

/* A session that is alone and is answered at once need not prepare itself. */
static bool
needs_sessions (const struct cluster *c, const struct cluster_session *s,
                const struct cluster_array *a, const uint8_t states[])
{
  struct cluster_change change;

  base (c, a, &change);
  return cluster_change_needs_sessions (c, a, states, change.epoch ? NULL : s);
}

/* The member goes out only when the writer has prepared itself, which can't do that
 * yet.
 */
static bool
refuse_stalled (struct cluster *c, uint64_t op, struct cluster_session *s,
                const struct cluster_array *a, unsigned member)
{
  uint8_t states[ARRAY_MEMBERS_MAX];

  without (c, a, member, states);
  if (!needs_sessions (c, s, a, states) ||
      !cluster_change_stalls (c, a, states))
    return false;
  if (s->rec.writable && a->rec.member[member].state == MEMBER_IN_SYNC)
    s->path[member].lost = true;
  cluster_step_defer (
    c, op, CLUSTER_CONFLICT, "last-copy", HEARTBEAT_MS,
    "member %u of array %s cannot be left out now: another "
    "member, which has the only copy that is left of some data, "
    "is lost to the node that writes; bring that one back first",
    member, a->rec.name);
  return true;
}

static bool
refuse_reader (struct cluster *c, uint64_t op, const struct cluster_session *s,
               const struct cluster_array *a, unsigned member)
{
  const struct cluster_disk *d = a->disk[member];
  const char *why;

  if (s->rec.writable || cluster_process_reborn (c, a, member) ||
      cluster_copies_disk_doubtful (d) ||
      !(cluster_member_well (a, member, &why) ||
        (a->rec.member[member].state == MEMBER_JOINING && d->alive)))
    return false;
  cluster_step_defer (c, op, CLUSTER_CONFLICT, "in-use", HEARTBEAT_MS,
                      "member %u of array %s is well: check the connection "
                      "from here to it",
                      member, a->rec.name);
  return true;
}

/* A host's reason, as the end of a sentence: without a full stop of its own,
 * and cut where it still makes sense, if there is no room for all of it (it may
 * have been cut before).
 */
static void
take_reason (const char *said, char reason[REASON_SAID_BYTES])
{
  char *end;

  snprintf (reason, REASON_SAID_BYTES, "%s", said);
  if (strlen (said) >= REASON_SAID_BYTES - 1 &&
      ((end = strrchr (reason, ';')) || (end = strrchr (reason, ' '))))
    *end = '\0';
  for (end = reason + strlen (reason); end > reason && end[-1] == '.'; end--)
    end[-1] = '\0';
}

/* Is the member just being fenced for the sake of another session, so that one of several
 * that write is cut off from it for a moment?
 */
static bool
is_cut (const struct cluster *c, const struct cluster_array *a,
        const struct cluster_session *s, unsigned member)
{
  const struct cluster_change *change = &a->rec.change;
  const struct cluster_disk *d = a->disk[member];

  return s->rec.part.length > 0 && !s->path[member].lost &&
         cluster_disk_heard (d) && d->alive && !cluster_disk_failed (d) &&
         !d->old_copy && d->took_place && !cluster_process_unmet (d) &&
         (change->epoch && change->confirm[member]
            ? c->live_ms < a->prepared_live_ms + ATTACH_MS
            : c->live_ms < d->fenced_live_ms + HEARTBEAT_MS) &&
         s->epoch < cluster_disk_min_epoch_wanted (d);
}

static void
lost (struct cluster *c, uint64_t op, struct cluster_session *s,
      struct cluster_array *a, unsigned member, bool answers,
      uint64_t waited_ms, const char *said)
{
  struct cluster_member *r = &a->rec.member[member];
  struct cluster_session *writer = NULL;
  struct cluster_change next;
  char reason[REASON_SAID_BYTES];
  bool sessions, rekeyed;
  struct waiting *w;

  /* First a heartbeat is to say in which epoch the session works: weftd may have
   * been started since the last one, or a change may have passed over a reader.
   */
  if (!s->heard || (!s->rec.writable && !s->alive)) {
    cluster_step_defer (c, op, CLUSTER_CONFLICT, "starting", HEARTBEAT_MS / 2,
                        "weftd was just started, or has had no heartbeat of "
                        "session %016" PRIx64 " of array %s for long: send "
                        "one, and report again",
                        s->rec.id, a->rec.name);
    return;
  }
  /* The session does not know yet that the member is out, or has been back since. */
  if (r->state == MEMBER_OUT ||
      (r->fence > s->epoch && r->fence > s->told.epoch)) {
    cluster_tell_reply_session (c, op, a, s);
    return;
  }
  rekeyed = cluster_rekey_cuts (c, a, s, member);
  if (rekeyed || is_cut (c, a, s, member)) {
    cluster_step_defer (
      c, op, CLUSTER_CONFLICT, "changing", HEARTBEAT_MS / 2,
      "member %u of array %s %s, and is given back then: report it "
      "again",
      member, a->rec.name,
      rekeyed ? "gets another key"
              : "is fenced for the sake of another session");
    return;
  }
  s->path[member].reported = true;
  s->path[member].waits_live_ms = c->live_ms - (waited_ms < c->live_ms
                                                  ? waited_ms
                                                  : c->live_ms);
  /* It has had no connection since the member was given back. */
  if (r->fence > s->epoch &&
      s->path[member].waits_live_ms > a->disk[member]->fenced_live_ms)
    s->path[member].waits_live_ms = a->disk[member]->fenced_live_ms;
  if (!answers) {
    if (s->path[member].unreached_live_ms == 0)
      cluster_step_changed_array (c, a); /* people see who reaches the member */
    s->path[member].unreached_live_ms = c->live_ms + !c->live_ms;
  }
  if (a->rec.change.epoch == 0 || a->rec.change.states[member] != MEMBER_OUT) {
    if (refuse_reader (c, op, s, a, member) ||
        (!answers && refuse_apart (c, op, s, a, member)) ||
        refuse_last_copy (c, op, s, a, member) ||
        refuse_stalled (c, op, s, a, member))
      return;
    base (c, a, &next);
    without (c, a, member, next.states);
    sessions = needs_sessions (c, s, a, next.states);
    for (unsigned m = 0; m < a->layout.members; m++) {
      if (next.states[m] == MEMBER_OUT)
        next.confirm[m] = false;
      if (next.states[m] == MEMBER_OUT &&
          a->rec.member[m].state == MEMBER_JOINING)
        snprintf (a->rec.member[m].reason, sizeof a->rec.member[m].reason,
                  "member %u went out, which it may have copied from", member);
      /* A member that was not given back yet is tried again at once. */
      while (a->rec.change.confirm[m] && !next.confirm[m] &&
             (writer = cluster_writer_next (a, writer)))
        writer->path[m].retry_live_ms = 0;
    }
    take_reason (said, reason);
    snprintf (r->reason, sizeof r->reason, "node %s lost it: %s", s->rec.node,
              reason);
    cluster_change_prepare (c, a, sessions ? CHANGE_LOST : CHANGE_LOST_ALONE,
                            next.states, next.confirm);
  }
  w = cluster_wait (c, WAIT_LOST, op, LOST_MS);
  w->array = a;
  cluster_wait_session (w, s);
  w->member = member;
}

void
cluster_session_lost (struct cluster *c, const struct cluster_input *in,
                      uint64_t id, unsigned member, uint64_t round,
                      bool answers, uint64_t waited_ms, const char *reason)
{
  struct cluster_session *s;
  struct cluster_array *a;

  cluster_step_begin (c, in);
  s = cluster_session_end_find_live (c, in->op, id);
  if (s && !cluster_step_refuse_read_only (c, in->op)) {
    cluster_session_speaks (c, s);
    a = s->array;
    if (s->rec.writable && round <= cluster_rounds_said (c, a) + AHEAD_MAX)
      cluster_rounds_begun (c, a, round);
    /* The remaining copies must not be old ones. */
    if (a->rec.change.epoch == 0)
      cluster_stale_judge (c, a);
    if (cluster_doubt_refuse (c, in->op, a))
      ;
    else if (member < a->layout.members)
      lost (c, in->op, s, a, member, answers, waited_ms, reason);
    else
      cluster_step_refuse (c, in->op, CLUSTER_INVALID, "member",
                           "array %s has no member %u: its members are 0 to %u",
                           a->rec.name, member, a->layout.members - 1)
        ->field = "member";
  }
  cluster_pump_end (c);
}
