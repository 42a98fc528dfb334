/* cluster-attach.c: how a host gets a session.
 *
 * One session at a time holds an array for writing, or several do that have a
 * part of it each, or that share it by leases; any number read.  To grant the
 * right to write where nobody else writes, weftd changes the epoch with a fence
 * of all members: so the former holder can write nothing more, however late it
 * wakes up.  The old session is over as soon as the change is PREPARED, the new
 * one begins with its COMMIT. A member that is missing, or does not confirm in
 * time, is left out in the same change, if all data has a copy elsewhere.
 *
 * A further writer beside others is admitted like a reader, because it reads
 * their writes: when each in-sync member has spoken, because it must be found
 * there.  But it is not admitted before all members have confirmed the end of
 * each session that is over (cluster-shut.c), because one of these may have had
 * the same part.
 *
 * Why an attach is refused: cluster-attach-check.c.
 *
 * The session that holds the array is replaced only when it has been silent for
 * SESSION_TTL_MS, when an administrator orders a takeover or a node that may do
 * so asks for it, or when its own node says that its process has ended.  If
 * another host asks before that, the holder's long poll is answered, so that it
 * speaks: then weftd answers the other host at once that the holder lives.  The
 * report of the holder's node, too, counts only when the holder was asked to
 * speak and said nothing.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-inputs.h"

/* Did a change of epoch pass this reader over, by which a member went out?  The
 * reader was silent then, and so has read nothing since.
 */
static bool
passed_over (const struct cluster *c, const struct cluster_array *a,
             const struct cluster_session *s, uint64_t epoch)
{
  return !s->rec.writable && epoch < a->rec.unprepared &&
         cluster_copies_behind (c, a);
}

bool
cluster_attach_refuse_late (struct cluster *c, uint64_t op,
                            struct cluster_array *a, struct cluster_session *s,
                            uint64_t epoch)
{
  if (!passed_over (c, a, s, epoch))
    return false;
  s->alive = false; /* no change waits for it */
  s->last_live_ms = c->live_ms;
  cluster_array_due (c, a, DUE_CHANGE);
  cluster_pump_settle (c);
  if (!passed_over (c, a, s, epoch))
    return false;
  if (cluster_attach_check_refuse_beside (c, op, a))
    return true;
  if (a->rec.change.epoch == 0)
    cluster_change_stay (c, a, CHANGE_READER, NULL);
  cluster_tell_changing (c, op, a);
  return true;
}

void
cluster_attach_refuse_challengers (struct cluster *c,
                                   struct cluster_session *holder)
{
  struct waiting *w, *next;

  TAILQ_FOREACH_SAFE (w, &holder->waitings, session_link, next) {
    if (w->kind != WAIT_HOLDER)
      continue;
    cluster_attach_check_refuse_held (c, w->op, w->array, &holder->rec, 0,
                                      false);
    cluster_wait_end (c, w);
  }
}

/* Try this attach again some time. */
static struct waiting *
put_off (struct cluster *c, enum waiting_kind kind, uint64_t wait_ms,
         const struct cluster_input *in, struct cluster_array *a,
         const struct cluster_attach *attach)
{
  struct waiting *w = cluster_wait (c, kind, in->op, wait_ms);

  w->array = a;
  w->challenge = alloc_zeroed (sizeof *w->challenge);
  w->challenge->in = *in;
  w->challenge->attach = *attach;
  return w;
}

/* A candidate stands by until it is its turn to serve.  True: it waits, or `last` is
 * true and it is refused.
 */
static bool
stand_by (struct cluster *c, const struct cluster_input *in,
          struct cluster_array *a, const struct cluster_attach *attach,
          bool last)
{
  struct cluster_session *s = cluster_array_writer (a);
  struct cluster_problem *p;

  cluster_candidate_asked (c, a, cluster_candidate_find (a, attach->node),
                           attach->instance);
  if (cluster_candidate_turn (c, a, attach))
    return false;
  if (!last) {
    /* If it has ended it does not speak when it is asked to. */
    if (s && attach->ended == s->rec.id)
      cluster_tell_session (c, s, true);
    put_off (c, WAIT_SERVICE, SERVICE_WAIT_MS, in, a, attach);
    return true;
  }
  if (s == NULL) {
    cluster_step_defer (
      c, in->op, CLUSTER_CONFLICT, "standby", 0,
      "another process is to serve array %s: this one stands by", a->rec.name);
    return true;
  }
  p = cluster_step_defer (
    c, in->op, CLUSTER_CONFLICT, "standby", 0,
    "node %s, process %" PRIu64 ", %s array %s: this process "
    "stands by",
    s->rec.node, s->rec.pid, s->rec.service ? "serves" : "holds", a->rec.name);
  cluster_step_problem_holder (p, &s->rec, cluster_session_silent_ms (c, s));
  memcpy (p->holder_process, s->process, sizeof s->process);
  return true;
}

/* Somebody else writes, or is about to.  True: refused, or `last` is false and
 * the attach waits until the holder, which is asked to speak, has spoken.
 */
static bool
refuse_writer (struct cluster *c, const struct cluster_input *in,
               struct cluster_array *a, const struct cluster_attach *attach,
               bool last)
{
  struct cluster_session *s = NULL;
  struct cluster_problem *p;
  const struct waiting *w;
  uint64_t silent_ms;

  if (attach->takeover)
    return false;
  while ((s = cluster_writer_next (a, s)))
    if (cluster_attach_check_in_the_way (s, attach) &&
        !cluster_candidate_holder_gone (c, s, attach))
      break;
  if (s) {
    silent_ms = cluster_session_silent_ms (c, s);
    if (last || silent_ms >= QUIET_MS) {
      p = cluster_attach_check_refuse_held (c, in->op, a, &s->rec, silent_ms,
                                            true);
      memcpy (p->holder_process, s->process, sizeof s->process);
      return true;
    }
    cluster_tell_session (c, s, true);
    cluster_wait_session (put_off (c, WAIT_HOLDER, CHALLENGE_MS, in, a, attach),
                          s);
    return true;
  }
  TAILQ_FOREACH (w, &c->waitings, link)
    if (w->kind == WAIT_ATTACH && w->array == a && w->grant->writable) {
      if (cluster_attach_check_conflicts (w->grant, attach))
        cluster_attach_check_refuse_held (c, in->op, a, w->grant, 0, false);
      else if (w->fences) /* it is the first of several */
        cluster_tell_changing (c, in->op, a);
      else
        continue;
      return true;
    }
  return false;
}

/* Has the process that attaches this session, or waits for it?  Its instance alone proves
 * nothing: any node may name it.
 */
static bool
is_own (const struct cluster_session_record *rec,
        const struct cluster_attach *attach)
{
  return rec->writable == attach->writable &&
         strcmp (rec->node, attach->node) == 0 &&
         strcmp (rec->instance, attach->instance) == 0;
}

/* A host that did not hear the answer asks again: it gets the same one. */
static bool
attach_again (struct cluster *c, uint64_t op, struct cluster_array *a,
              const struct cluster_attach *attach)
{
  struct cluster_session *s, *next;
  struct waiting *w;

  TAILQ_FOREACH_SAFE (s, &a->sessions, array_link, next)
    if (is_own (&s->rec, attach)) {
      if (passed_over (c, a, s, s->epoch)) {
        cluster_session_end (c, s, "its process has attached again");
        continue;
      }
      s->last_live_ms = c->live_ms;
      s->answer = c->step->number;
      s->alive = s->heard = true;
      s->told.hold = a->moved > 0;
      s->lessee.heard_live_ms = c->live_ms;
      cluster_step_reply_session (c, op, CLUSTER_REPLY_GRANT, a, s);
      return true;
    }
  TAILQ_FOREACH (w, &c->waitings, link)
    if (w->kind == WAIT_ATTACH && w->array == a && is_own (w->grant, attach)) {
      cluster_step_refuse (c, w->op, CLUSTER_CONFLICT, "superseded",
                           "the same process has asked again");
      w->op = op;
      return true;
    }
  return false;
}

/* PREPARE the epoch of a new writer: every member that stays refuses what came
 * before.
 */
static void
prepare (struct cluster *c, struct cluster_array *a, const uint8_t states[])
{
  const struct cluster_change *change = &a->rec.change;
  bool sessions = cluster_change_needs_sessions (c, a, states, NULL);
  bool same = a->renumbered && change->epoch && (change->sessions || !sessions);
  const char *why;

  for (unsigned m = 0; m < a->layout.members; m++)
    same = same && change->states[m] == states[m] &&
           change->confirm[m] == (states[m] != MEMBER_OUT);
  /* A change that an earlier attach left behind serves this one as well.  (But not
   * one that was stored: another weftd may have granted something by it.)
   */
  if (same)
    return;
  for (unsigned m = 0; m < a->layout.members; m++) {
    if (states[m] != MEMBER_OUT || a->rec.member[m].state == MEMBER_OUT)
      continue;
    if (cluster_attach_check_missing (a, m, true, &why))
      snprintf (a->rec.member[m].reason, sizeof a->rec.member[m].reason,
                "the array was started without it: it %s",
                a->rec.member[m].state == MEMBER_IN_SYNC ? why : "is missing");
    else
      snprintf (a->rec.member[m].reason, sizeof a->rec.member[m].reason,
                "another member went out, which it may have copied from");
  }
  cluster_change_prepare (c, a, CHANGE_WRITER, states, NULL);
}

void
cluster_attach_late (struct cluster *c, struct waiting *w)
{
  struct cluster_array *a = w->array;
  uint8_t states[ARRAY_MEMBERS_MAX];
  char text[1500];

  if (w->fences) {
    if (cluster_attach_check_refuse_members (c, w->op, a, true, states)) {
      cluster_wait_end (c, w);
      return;
    }
    if (memcmp (states, a->rec.change.states, a->layout.members) != 0) {
      w->deadline_ms = c->now_ms + ATTACH_MS;
      prepare (c, a, states);
      cluster_array_due (c, a, DUE_CHANGE);
      return;
    }
  }
  if (!cluster_array_waits_for (c, a, text, sizeof text))
    snprintf (text, sizeof text, "its members");
  cluster_step_defer (c, w->op, CLUSTER_CONFLICT, "changing", HEARTBEAT_MS,
                      "array %s cannot be attached: it waits for %.400s; see "
                      "the log there, and try again",
                      a->rec.name, text);
  cluster_wait_end (c, w);
}

/* End the sessions that are in the way of this one, and the attaches that wait and would
 * be.
 */
static void
end_holders (struct cluster *c, struct cluster_array *a,
             const struct cluster_attach *attach,
             const struct cluster_session_record *rec)
{
  struct cluster_session *old;
  struct waiting *w, *next;
  bool any = false;
  char why[64];

  TAILQ_FOREACH_SAFE (w, &c->waitings, link, next)
    if (w->kind == WAIT_ATTACH && w->array == a &&
        cluster_attach_check_conflicts (w->grant, attach)) {
      cluster_attach_check_refuse_held (c, w->op, a, rec, 0, false);
      cluster_wait_end (c, w);
    }
  while ((old = cluster_attach_check_holder (a, attach))) {
    any = true;
    if (attach->takeover)
      snprintf (why, sizeof why, "was told to");
    else if (old->overdue)
      snprintf (why, sizeof why, "found that its word is overdue");
    else if (old->alive)
      snprintf (why, sizeof why, "knows that this process has ended");
    else
      snprintf (why, sizeof why, "found it silent for %" PRIu64 " s",
                cluster_session_silent_ms (c, old) / 1000);
    cluster_step_log (
      c, CLUSTER_WARNING, "array", a->rec.name,
      "Node %s, process %" PRIu64 ", takes array %s over from node "
      "%s, process %" PRIu64 ": it %s.",
      rec->node, rec->pid, a->rec.name, old->rec.node, old->rec.pid, why);
    cluster_session_end (c, old,
                         "node %s, process %" PRIu64 ", took it over: it %s",
                         rec->node, rec->pid, why);
  }
  if (any && cluster_array_writer (a))
    cluster_session_end_left (c, a, false);
  cluster_session_end_prune (c);
}

/* The first member that has not spoken since this step, and that who attaches is to find;
 * or how many there are.
 */
static unsigned
unheard_since (const struct cluster_array *a, uint64_t step)
{
  const char *why;
  unsigned m = 0;

  while (m < a->layout.members &&
         (a->rec.member[m].state != MEMBER_IN_SYNC ||
          a->disk[m]->spoke_step > step ||
          cluster_attach_check_missing (a, m, false, &why)))
    m++;
  return m;
}

bool
cluster_attach_heard (const struct waiting *w)
{
  return unheard_since (w->array, w->challenge->asked) ==
         w->array->layout.members;
}

/* Where no member confirms anything for an attach, one may have died a moment ago that is
 * not missed yet: each is asked to speak.  True: the attach waits for that, or has done so
 * for too long.
 */
static bool
ask_members (struct cluster *c, const struct challenge *try,
             struct cluster_array *a, const struct cluster_attach *attach)
{
  uint64_t step = try->asked ? try->asked : c->step->number;
  unsigned m = unheard_since (a, step);
  char words[320];

  if (m == a->layout.members)
    return false;
  if (try->asked) {
    cluster_step_defer (
      c, try->in.op, CLUSTER_CONFLICT, "member-missing", HEARTBEAT_MS,
      "array %s cannot be attached: member %u (%s) was asked to "
      "speak, and does not; ask again, and see its log",
      a->rec.name, m, cluster_words_disk (a->disk[m], words, sizeof words));
    return true;
  }
  for (; m < a->layout.members; m++)
    cluster_tell_wake_disk (c, a->disk[m]);
  put_off (c, WAIT_MEMBERS, ATTACH_MS, &try->in, a, attach)->challenge->asked =
    step;
  return true;
}

/* A further writer beside others can't be admitted yet: a member is missing,
 * which goes out first; or a member has not confirmed yet that a session is
 * over.
 */
static bool
refuse_early (struct cluster *c, uint64_t op, struct cluster_array *a,
              const uint8_t states[])
{
  uint8_t now[ARRAY_MEMBERS_MAX];
  char what[400] = "a member is missing, and goes out first", words[320];
  const char *why;

  cluster_copies_states (a, now);
  if (a->rec.change.epoch == 0 &&
      memcmp (now, states, a->layout.members) != 0) {
    for (unsigned m = 0; m < a->layout.members; m++)
      if (states[m] != now[m] &&
          cluster_attach_check_missing (a, m, false, &why))
        snprintf (a->rec.member[m].reason, sizeof a->rec.member[m].reason,
                  "one more host attached the array, and it %s", why);
    cluster_change_put_out (c, a, states);
  }
  else if (!cluster_shut_waits (a, 0) &&
           memcmp (now, states, a->layout.members) == 0)
    return false;
  for (unsigned m = 0; m < a->layout.members; m++)
    if (cluster_shut_waits_for (a, m, 0))
      snprintf (what, sizeof what,
                "member %u (%s) has not confirmed that a session is over", m,
                cluster_words_disk (a->disk[m], words, sizeof words));
  cluster_step_defer (c, op, CLUSTER_CONFLICT, "changing", CLUSTER_TICK_MS,
                      "array %s cannot be attached just now: %s; ask again",
                      a->rec.name, what);
  return true;
}

/* A part is granted whole: so all of it must be nobody's, and equal. */
static bool
refuse_orphans (struct cluster *c, uint64_t op, const struct cluster_array *a,
                const struct cluster_attach *attach)
{
  if (attach->leases || cluster_lease_free (a, &attach->part))
    return false;
  cluster_step_defer (
    c, op, CLUSTER_CONFLICT, "changing", HEARTBEAT_MS,
    "array %s cannot be attached just now: another host may still be "
    "resynchronizing the last writes of an ended session; ask again",
    a->rec.name);
  return true;
}

static void
attach_begin (struct cluster *c, const struct cluster_input *in,
              struct cluster_array *a, const struct cluster_attach *attach,
              bool fences, const uint8_t states[])
{
  struct cluster_session_record rec = { .pid = attach->pid,
                                        .writable = attach->writable,
                                        .part = attach->part,
                                        .leases = attach->leases,
                                        .service = attach->service,
                                        .by_admin = attach->by_admin,
                                        .exports = attach->exports,
                                        .scans = attach->scans };
  struct cluster_change next;
  struct waiting *w;

  memcpy (&rec.id, in->random, sizeof rec.id);
  while (rec.id == 0 || rec.id >= LEASE_ORDERED ||
         cluster_session_find (c, rec.id))
    rec.id++;
  memcpy (rec.array, a->rec.uuid, 16);
  snprintf (rec.array_name, sizeof rec.array_name, "%s", a->rec.name);
  snprintf (rec.node, sizeof rec.node, "%s", attach->node);
  snprintf (rec.instance, sizeof rec.instance, "%s", attach->instance);
  snprintf (rec.uri, sizeof rec.uri, "%s", attach->uri);
  if (rec.service)
    a->service_to[0] = '\0'; /* the order is carried out */

  if (rec.writable)
    end_holders (c, a, attach, &rec);
  if (fences)
    prepare (c, a, states);
  else {
    if (rec.writable && (refuse_early (c, in->op, a, states) ||
                         refuse_orphans (c, in->op, a, attach)))
      return;
    next = a->rec.change;
    if (next.epoch == 0 && cluster_copies_behind (c, a))
      cluster_change_stay (c, a, CHANGE_READER, NULL);
    else if (next.epoch == 0 && (!a->renumbered || cluster_key_too_low (c, a)))
      cluster_change_stay (c, a, CHANGE_TOKENS, NULL);
    else if (!a->renumbered)
      cluster_change_prepare (c, a, CHANGE_NUMBER, next.states, NULL);
    if (a->rec.change.epoch == 0) {
      cluster_tell_grant (c, in->op, a, &rec);
      return;
    }
  }
  w = cluster_wait (c, WAIT_ATTACH, in->op, ATTACH_MS);
  w->array = a;
  w->fences = fences;
  w->grant = alloc_zeroed (sizeof rec);
  *w->grant = rec;
  cluster_array_due (c, a, DUE_CHANGE);
}

static void
attach_try (struct cluster *c, const struct challenge *try,
            struct cluster_array *a, bool last)
{
  const struct cluster_input *in = &try->in;
  const struct cluster_attach *asked = &try->attach;
  struct cluster_attach allowed = *asked, *attach = &allowed;
  uint8_t states[ARRAY_MEMBERS_MAX];
  bool fences = cluster_attach_check_alone (a, asked);

  if (a->rec.change.epoch == 0)
    cluster_stale_judge (c, a);
  if (!cluster_attach_check_refuse_asker (c, in->op, a, asked,
                                          &attach->takeover) &&
      !attach_again (c, in->op, a, attach) &&
      !cluster_attach_check_refuse_wish (c, in->op, a, attach, fences) &&
      !(attach->service    ? stand_by (c, in, a, attach, last)
        : attach->writable ? refuse_writer (c, in, a, attach, last)
                           : false) &&
      !cluster_attach_check_refuse_now (c, in->op, a, fences, states) &&
      (fences || !ask_members (c, try, a, attach)))
    attach_begin (c, in, a, attach, fences, states);
}

void
cluster_attach_unchallenged (struct cluster *c, struct waiting *w)
{
  struct challenge again = *w->challenge;
  struct cluster_array *a = w->array;
  bool last = w->kind != WAIT_MEMBERS;

  again.in.op = w->op;
  cluster_wait_end (c, w);
  attach_try (c, &again, a, last);
}

void
cluster_attach (struct cluster *c, const struct cluster_input *in,
                const char *name, const struct cluster_attach *asked)
{
  struct challenge first = { .in = *in, .attach = *asked };
  struct cluster_array *a;

  cluster_step_begin (c, in);
  a = cluster_step_array_or_refuse (c, in->op, name);
  if (a) {
    if (asked->leases)
      first.attach.part = (struct cluster_part) { .length = a->layout.size };
    attach_try (c, &first, a, false);
  }
  cluster_pump_end (c);
}
