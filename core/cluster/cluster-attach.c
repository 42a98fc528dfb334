/* cluster-attach.c: how a host gets a session.
 *
 * One session at a time holds an array for writing, or several do that have a part of
 * it each, or that share it by leases; any number read.  To grant the right to write where nobody else writes, weftd
 * changes the epoch with a fence of all members: so whoever held it before can write
 * nothing more, however late it wakes up.  The old session is over as soon as the change
 * is PREPARED, the new one begins with its COMMIT.  A member that is missing, or does not
 * confirm in time, is left out in the same change, if no data is lost without it.
 *
 * One more that writes beside others is let in as one that reads, for it reads what they
 * write; but not before all members have confirmed the end of each session that is over
 * (cluster-over.c), for one of these may have had the same part.
 *
 * A node attaches what it is allowed to (cluster-allowed.c); an administrator who
 * attaches an array in no node's name may attach any.
 *
 * The session that holds the array is replaced only when it has been silent for
 * SESSION_TTL_MS, when an administrator orders a takeover or a node that may do so
 * asks for it, or when its own node says that its process has ended.  If another host asks before that, the holder's
 * long poll is answered, so that it speaks: then the other host is told at once
 * that the holder lives.  The word of the holder's node, too, counts only when the
 * holder was asked to speak and said nothing.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-internal.h"

/* Is what is to be granted so in the way of the attach? */
static bool
conflicts (const struct cluster_session_record *rec,
           const struct cluster_attach *attach)
{
  return rec->writable && !(rec->leases && attach->leases) &&
         cluster_parts_meet (&rec->part, &attach->part);
}

/* Is this session?  Who is silent is, whatever it writes: it would hold up the next
 * change of epoch.
 */
static bool
in_the_way (const struct cluster_session *s,
            const struct cluster_attach *attach)
{
  return !s->alive || conflicts (&s->rec, attach);
}

/* The session that is in the way of one that is to write, one that is not silent before
 * others; NULL: none is.
 */
static struct cluster_session *
holder_of (const struct cluster_array *a, const struct cluster_attach *attach)
{
  struct cluster_session *s = NULL, *silent = NULL;

  while ((s = cluster_writer_next (a, s)))
    if (!in_the_way (s, attach))
      continue;
    else if (s->alive)
      return s;
    else
      silent = s;
  return silent;
}

/* Does this one write where nobody else does, when all have gone that are in its way? */
static bool
writes_alone (const struct cluster_array *a,
              const struct cluster_attach *attach)
{
  const struct cluster_session *s = NULL;

  while ((s = cluster_writer_next (a, s)))
    if (!in_the_way (s, attach))
      return false;
  return attach->writable;
}

/* quiet: the holder may be replaced when it has been silent for long enough. */
static struct cluster_problem *
refuse_held (struct cluster *c, uint64_t op, const struct cluster_array *a,
             const struct cluster_session_record *holder, uint64_t silent_ms,
             bool quiet)
{
  struct cluster_problem *p;
  char part[96] = "";

  if (holder->leases)
    snprintf (part, sizeof part, " (shared by leases)");
  else if (holder->part.length > 0)
    snprintf (part, sizeof part,
              " (%" PRIu64 " bytes from %" PRIu64 " on, as part of it)",
              holder->part.length, holder->part.offset);
  p = cluster_refuse (
    c, op, CLUSTER_CONFLICT, "held",
    "array %s is attached for writing%s by node %s, process %" PRIu64
    ", last heard of %" PRIu64 " ms ago: %s",
    a->rec.name, part, holder->node, holder->pid, silent_ms,
    quiet ? "it may be replaced when it has been silent for long enough"
    : holder->leases
      ? "detach it there, take it over, or share it by leases as well"
    : *part ? "detach it there, take it over, or attach another part"
            : "detach it there, take it over, or attach read-only");
  cluster_problem_holder (p, holder, silent_ms);
  p->retry = quiet;
  if (quiet && silent_ms < SESSION_TTL_MS)
    p->retry_after_ms = SESSION_TTL_MS - silent_ms;
  return p;
}

static bool
refuse_creating (struct cluster *c, uint64_t op, const struct cluster_array *a)
{
  char text[1500];

  if (a->rec.ready)
    return false;
  if (!cluster_array_waits_for (c, a, c->wall_ms, text, sizeof text))
    snprintf (text, sizeof text, "its members");
  cluster_defer (c, op, CLUSTER_CONFLICT, "not-ready", HEARTBEAT_MS,
                 "array %s is not ready: it waits for %.500s", a->rec.name,
                 text);
  return true;
}

/* Is this member not there?  late: one that has not confirmed in time is not,
 * either.
 */
static bool
missing (const struct cluster_array *a, unsigned m, bool late, const char **why)
{
  const struct cluster_disk *d = a->disk[m];

  *why = "does not confirm";
  if (a->rec.member[m].state == MEMBER_OUT)
    return false;
  if (late && cluster_change_waits_for (a, m))
    return true;
  if (a->rec.member[m].state == MEMBER_JOINING)
    return !d->heard || !d->alive || d->failed || !d->took_place;
  return !cluster_member_well (a, m, why);
}

/* The states in which the array starts: members that are missing are left out,
 * where that loses nothing, and where they are not just being started.  True:
 * refused.
 */
static bool
refuse_members (struct cluster *c, uint64_t op, struct cluster_array *a,
                bool late, uint8_t states[])
{
  char words[320];
  const char *why;
  bool starting;

  cluster_array_states (a, states);
  for (unsigned m = 0; m < a->layout.members; m++)
    if (missing (a, m, late, &why))
      cluster_array_leave_out (a, m, states);
  for (unsigned m = 0; m < a->layout.members; m++) {
    if (a->rec.member[m].state != MEMBER_IN_SYNC || !missing (a, m, late, &why))
      continue;
    starting = !late && !a->disk[m]->failed && !a->disk[m]->old_copy &&
               cluster_disk_silent_ms (c, a->disk[m]) < MISSING_MS;
    if (!starting && !cluster_change_loses (a, states))
      continue;
    cluster_defer (
      c, op, CLUSTER_CONFLICT, "member-missing", HEARTBEAT_MS,
      "array %s cannot be attached: member %u (%s) %s, and %s; %s", a->rec.name,
      m, cluster_disk_words (a->disk[m], words, sizeof words), why,
      cluster_change_loses (a, states)
        ? "without it some data has no copy"
        : "unless it comes soon, the array starts without it",
      a->disk[m]->old_copy ? OLD_COPY_WAY
                           : "start its member process and see its log");
    return true;
  }
  return false;
}

/* A database that was restored from a backup is known by what members have seen:
 * after weftd's start nothing is granted before all that live have spoken.
 */
static bool
refuse_unheard (struct cluster *c, uint64_t op, const struct cluster_array *a)
{
  char words[320];
  unsigned m = cluster_array_unheard (a);

  if (m == a->layout.members)
    return false;
  cluster_defer (c, op, CLUSTER_CONFLICT, "member-missing", HEARTBEAT_MS,
                 "array %s cannot be attached yet: weftd was just "
                 "started and has not heard of member %u (%s); ask "
                 "again, or start its member process",
                 a->rec.name, m,
                 cluster_disk_words (a->disk[m], words, sizeof words));
  return true;
}

/* Nobody is let in beside others that write while one of these has lost a member, or
 * does not know yet that one was started again.
 */
static bool
refuse_beside (struct cluster *c, uint64_t op, const struct cluster_array *a)
{
  const struct cluster_session *s = NULL;
  const struct cluster_change *change = &a->rec.change;
  bool lost[ARRAY_MEMBERS_MAX] = { false };
  char words[320];
  unsigned m = 0;

  while ((s = cluster_writer_next (a, s)))
    for (m = 0; m < a->layout.members && s->alive; m++)
      lost[m] |= s->lost[m];
  for (m = 0; m < a->layout.members; m++)
    if (lost[m] || cluster_life_reborn (c, a, m))
      break;
  if (m < a->layout.members) {
    cluster_defer (
      c, op, CLUSTER_CONFLICT, "member-missing", HEARTBEAT_MS,
      "array %s cannot be attached just now: member %u (%s) was started again "
      "or lost, and whoever writes does not have it back yet; ask again",
      a->rec.name, m, cluster_disk_words (a->disk[m], words, sizeof words));
    return true;
  }
  if (change->epoch == 0 || change->sessions || !cluster_array_behind (c, a))
    return false;
  cluster_tell_changing (c, op, a);
  return true;
}

/* Did a change of epoch pass this reader over, by which a member went out?  The
 * reader was silent then, and so has read nothing since.
 */
static bool
passed_over (const struct cluster *c, const struct cluster_array *a,
             const struct cluster_session *s, uint64_t epoch)
{
  return !s->rec.writable && epoch < a->rec.unprepared &&
         cluster_array_behind (c, a);
}

bool
cluster_session_refuse_late (struct cluster *c, uint64_t op,
                             struct cluster_array *a, struct cluster_session *s,
                             uint64_t epoch)
{
  if (!passed_over (c, a, s, epoch))
    return false;
  s->alive = false; /* no change waits for it */
  s->last_live_ms = c->live_ms;
  cluster_due (c, a, DUE_CHANGE);
  cluster_settle (c);
  if (!passed_over (c, a, s, epoch))
    return false;
  if (refuse_beside (c, op, a))
    return true;
  if (a->rec.change.epoch == 0)
    cluster_change_stay (c, a, CHANGE_READER, NULL);
  cluster_tell_changing (c, op, a);
  return true;
}

void
cluster_session_refuse_challengers (struct cluster *c,
                                    struct cluster_session *holder)
{
  struct waiting *w, *next;

  TAILQ_FOREACH_SAFE (w, &holder->waitings, session_link, next) {
    if (w->kind != WAIT_HOLDER)
      continue;
    refuse_held (c, w->op, w->array, &holder->rec, 0, false);
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

/* An array that has a service is written by way of that, unless an administrator
 * orders otherwise; and only a candidate serves it.
 */
static bool
refuse_service (struct cluster *c, uint64_t op, const struct cluster_array *a,
                const struct cluster_attach *attach)
{
  const char *name = a->rec.name;

  if (attach->service && a->rec.service_nodes == 0)
    cluster_refuse (c, op, CLUSTER_CONFLICT, "no-service",
                    "array %s has no service: name the nodes that may serve it "
                    "(weftctl array service %s --on NODE,...)",
                    name, name);
  else if (attach->service &&
           cluster_service_find (a, attach->node) == a->rec.service_nodes)
    cluster_refuse (c, op, CLUSTER_CONFLICT, "no-candidate",
                    "node %s is no candidate of the service of array %s: name "
                    "it among the nodes that may serve it",
                    attach->node, name);
  else if (!attach->service && attach->writable && a->rec.service_nodes > 0 &&
           (!attach->takeover || attach->part.length > 0))
    cluster_refuse (c, op, CLUSTER_CONFLICT, "served",
                    "array %s is served to all hosts: attach it by way of its "
                    "service (nbdkit weft service=%s, weftctl attach %s "
                    "--shared), or end that (weftctl array service %s --off)",
                    name, name, name, name);
  else
    return false;
  return true;
}

static bool
refuse_fenced (struct cluster *c, uint64_t op, const struct cluster_array *a,
               const struct cluster_attach *attach)
{
  if (!cluster_node_is_fenced (c, attach->node))
    return false;
  cluster_refuse (c, op, CLUSTER_CONFLICT, "fenced",
                  "node %s is fenced, and array %s can't be attached there: "
                  "weftctl node fence off %s lets it in again",
                  attach->node, a->rec.name, attach->node);
  return true;
}

/* Is this attach nobody's right?  *takes_over: it may take the array from a holder that
 * is heard.
 */
static bool
refuse_right (struct cluster *c, uint64_t op, const struct cluster_array *a,
              const struct cluster_attach *attach, bool *takes_over)
{
  const struct cluster_session *s = holder_of (a, attach);
  const char *name = a->rec.name, *node = attach->node;

  *takes_over = attach->takeover &&
                (attach->by_admin || cluster_allowed_failover (a, node));
  if (!attach->by_admin && !cluster_allowed (a, node, attach->writable)) {
    cluster_allowed_refuse (c, op, a, node, attach->writable);
    return true;
  }
  /* From one that is silent it may, and without being told to. */
  if (!attach->takeover || *takes_over || s == NULL || !s->alive ||
      cluster_session_silent_ms (c, s) >= QUIET_MS)
    return false;
  cluster_refuse (c, op, CLUSTER_FORBIDDEN, "no-failover",
                  "node %s may not take array %s from node %s, process %" PRIu64
                  ", which is heard: an administrator evicts that (weftctl "
                  "session evict %016" PRIx64 "), or gives the right to do it "
                  "(weftctl array allow %s %s rw --failover)",
                  node, name, s->rec.node, s->rec.pid, s->rec.id, name, node);
  return true;
}

/* Members are told which sessions are over, and the list has an end.  (A writer fences
 * all members, which empties it.)
 */
static bool
refuse_full (struct cluster *c, uint64_t op, const struct cluster_array *a)
{
  if (cluster_over_room (c, a))
    return false;
  cluster_defer (c, op, CLUSTER_CONFLICT, "too-many", HEARTBEAT_MS,
                 "array %s has too many sessions, with those that are over and "
                 "that members were not told of yet: detach some, or ask again",
                 a->rec.name);
  return true;
}

/* Is what the attach is to write no part of the array? */
static bool
refuse_part (struct cluster *c, uint64_t op, const struct cluster_array *a,
             const struct cluster_attach *attach)
{
  const struct cluster_part *part = &attach->part;
  uint64_t size = a->layout.size, end = part->offset + part->length;

  if (part->length == 0 ||
      (part->offset < size && part->length <= size - part->offset &&
       part->offset % a->layout.unit == 0 &&
       (end % a->layout.unit == 0 || end == size)))
    return false;
  cluster_refuse (c, op, CLUSTER_INVALID, "part",
                  "%" PRIu64 " bytes from %" PRIu64 " on are no part of "
                  "array %s, which has %" PRIu64 " bytes: a part begins and "
                  "ends at a multiple of %u (the stripe unit), or ends where "
                  "the array ends",
                  part->length, part->offset, a->rec.name, size, a->layout.unit)
    ->field = "part";
  return true;
}

/* Would it be one too many that writes beside others? */
static bool
refuse_many (struct cluster *c, uint64_t op, const struct cluster_array *a,
             const struct cluster_attach *attach)
{
  const struct cluster_session *s = NULL;
  const struct waiting *w;
  unsigned count = 0;

  if (attach->part.length == 0)
    return false;
  while ((s = cluster_writer_next (a, s)))
    count += !in_the_way (s, attach);
  TAILQ_FOREACH (w, &c->waitings, link)
    count += w->kind == WAIT_ATTACH && w->array == a && w->grant->writable &&
             !conflicts (w->grant, attach);
  if (count < WRITERS_MAX)
    return false;
  cluster_refuse (c, op, CLUSTER_CONFLICT, "too-many",
                  "%u sessions write array %s already, each a part of it or by "
                  "leases, and no more can: detach one",
                  count, a->rec.name);
  return true;
}

/* A candidate stands by until it is its turn to serve.  True: it waits, or `last` is
 * true and it is refused.
 */
static bool
stand_by (struct cluster *c, const struct cluster_input *in,
          struct cluster_array *a, const struct cluster_attach *attach,
          bool last)
{
  struct cluster_session *s = cluster_array_writer (c, a);
  struct cluster_problem *p;

  cluster_service_asked (c, a, cluster_service_find (a, attach->node));
  if (cluster_service_turn (c, a, attach))
    return false;
  if (!last) {
    /* If it has ended it does not speak when it is asked to. */
    if (s && attach->ended == s->rec.id)
      cluster_tell_session (c, s, true);
    put_off (c, WAIT_SERVICE, SERVICE_WAIT_MS, in, a, attach);
    return true;
  }
  if (s == NULL) {
    cluster_defer (c, in->op, CLUSTER_CONFLICT, "standby", 0,
                   "another process is to serve array %s: this one stands by",
                   a->rec.name);
    return true;
  }
  p = cluster_defer (c, in->op, CLUSTER_CONFLICT, "standby", 0,
                     "node %s, process %" PRIu64 ", %s array %s: this process "
                     "stands by",
                     s->rec.node, s->rec.pid,
                     s->rec.service ? "serves" : "holds", a->rec.name);
  cluster_problem_holder (p, &s->rec, cluster_session_silent_ms (c, s));
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
    if (in_the_way (s, attach) && !cluster_service_gone (c, s, attach))
      break;
  if (s) {
    silent_ms = cluster_session_silent_ms (c, s);
    if (last || silent_ms >= QUIET_MS) {
      p = refuse_held (c, in->op, a, &s->rec, silent_ms, true);
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
      if (conflicts (w->grant, attach))
        refuse_held (c, in->op, a, w->grant, 0, false);
      else if (w->fences) /* it is the first of several */
        cluster_tell_changing (c, in->op, a);
      else
        continue;
      return true;
    }
  return false;
}

/* A host that did not hear the answer asks again: it gets the same one. */
static bool
attach_again (struct cluster *c, uint64_t op, struct cluster_array *a,
              const struct cluster_attach *attach)
{
  struct cluster_session *s, *next;
  struct waiting *w;

  TAILQ_FOREACH_SAFE (s, &a->sessions, array_link, next)
    if (s->rec.writable == attach->writable &&
        strcmp (s->rec.instance, attach->instance) == 0) {
      if (passed_over (c, a, s, s->epoch)) {
        cluster_session_end (c, s, "its process has attached anew");
        continue;
      }
      s->last_live_ms = c->live_ms;
      s->answer = c->step->number;
      s->alive = s->heard = true;
      s->lessee.heard_live_ms = c->live_ms;
      cluster_reply_session (c, op, CLUSTER_REPLY_GRANT, a, s);
      return true;
    }
  TAILQ_FOREACH (w, &c->waitings, link)
    if (w->kind == WAIT_ATTACH && w->array == a &&
        w->grant->writable == attach->writable &&
        strcmp (w->grant->instance, attach->instance) == 0) {
      cluster_refuse (c, w->op, CLUSTER_CONFLICT, "superseded",
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
    if (missing (a, m, true, &why))
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
cluster_session_attach_late (struct cluster *c, struct waiting *w)
{
  struct cluster_array *a = w->array;
  uint8_t states[ARRAY_MEMBERS_MAX];
  char text[1500];

  if (w->fences) {
    if (refuse_members (c, w->op, a, true, states)) {
      cluster_wait_end (c, w);
      return;
    }
    if (memcmp (states, a->rec.change.states, a->layout.members) != 0) {
      w->deadline_ms = c->now_ms + ATTACH_MS;
      prepare (c, a, states);
      cluster_due (c, a, DUE_CHANGE);
      return;
    }
  }
  if (!cluster_array_waits_for (c, a, c->wall_ms, text, sizeof text))
    snprintf (text, sizeof text, "its members");
  cluster_defer (c, w->op, CLUSTER_CONFLICT, "changing", HEARTBEAT_MS,
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
        conflicts (w->grant, attach)) {
      refuse_held (c, w->op, a, rec, 0, false);
      cluster_wait_end (c, w);
    }
  while ((old = holder_of (a, attach))) {
    any = true;
    if (attach->takeover)
      snprintf (why, sizeof why, "was told to");
    else if (old->alive)
      snprintf (why, sizeof why, "knows that this process has ended");
    else
      snprintf (why, sizeof why, "found it silent for %" PRIu64 " s",
                cluster_session_silent_ms (c, old) / 1000);
    cluster_log (c, CLUSTER_WARNING, "array", a->rec.name,
                 "Node %s, process %" PRIu64 ", takes array %s over from node "
                 "%s, process %" PRIu64 ": it %s.",
                 rec->node, rec->pid, a->rec.name, old->rec.node, old->rec.pid,
                 why);
    cluster_session_end (c, old,
                         "node %s, process %" PRIu64 ", took it over: it %s",
                         rec->node, rec->pid, why);
  }
  if (any && cluster_array_writer (c, a))
    cluster_session_left (c, a);
  cluster_session_prune (c);
}

/* One that is to write beside others can't be let in yet: a member is missing, which goes
 * out first; or a member has not confirmed yet that a session is over.
 */
static bool
refuse_early (struct cluster *c, uint64_t op, struct cluster_array *a,
              const uint8_t states[])
{
  uint8_t now[ARRAY_MEMBERS_MAX];
  const char *why;

  cluster_array_states (a, now);
  if (a->rec.change.epoch == 0 &&
      memcmp (now, states, a->layout.members) != 0) {
    for (unsigned m = 0; m < a->layout.members; m++)
      if (states[m] != now[m] && missing (a, m, false, &why))
        snprintf (a->rec.member[m].reason, sizeof a->rec.member[m].reason,
                  "one more host attached the array, and it %s", why);
    cluster_change_put_out (c, a, states);
  }
  else if (!cluster_over_waits (a, 0) &&
           memcmp (now, states, a->layout.members) == 0)
    return false;
  cluster_defer (c, op, CLUSTER_CONFLICT, "changing", CLUSTER_TICK_MS,
                 "array %s cannot be attached just now: not all of its members "
                 "have confirmed that a session is over, or one is missing; "
                 "ask again",
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
                                        .exports = attach->exports };
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
    if (rec.writable && refuse_early (c, in->op, a, states))
      return;
    next = a->rec.change;
    if (next.epoch == 0 && cluster_array_behind (c, a))
      cluster_change_stay (c, a, CHANGE_READER, NULL);
    else if (next.epoch == 0 && (!a->renumbered || cluster_key_too_low (c, a)))
      cluster_change_stay (c, a, CHANGE_TOKENS, NULL);
    else if (!a->renumbered)
      cluster_change_prepare (c, a, CHANGE_NUMBER, next.states, NULL);
    if (a->rec.change.epoch == 0) {
      cluster_session_grant (c, in->op, a, &rec);
      return;
    }
  }
  w = cluster_wait (c, WAIT_ATTACH, in->op, ATTACH_MS);
  w->array = a;
  w->fences = fences;
  w->grant = alloc_zeroed (sizeof rec);
  *w->grant = rec;
  cluster_due (c, a, DUE_CHANGE);
}

static void
attach_try (struct cluster *c, const struct cluster_input *in,
            struct cluster_array *a, const struct cluster_attach *asked,
            bool last)
{
  struct cluster_attach allowed = *asked, *attach = &allowed;
  struct cluster_session *s;
  uint8_t states[ARRAY_MEMBERS_MAX];
  unsigned count = 0;
  bool fences = writes_alone (a, asked);

  if (a->rec.change.epoch == 0)
    cluster_old_judge (c, a);
  TAILQ_FOREACH (s, &c->sessions, link)
    count += !s->rec.ended;
  if (count >= SESSIONS_MAX)
    cluster_refuse (c, in->op, CLUSTER_CONFLICT, "too-many",
                    "there are %d sessions already: detach one first",
                    SESSIONS_MAX);
  else if (!cluster_refuse_read_only (c, in->op) &&
           !refuse_fenced (c, in->op, a, attach) &&
           !refuse_right (c, in->op, a, asked, &attach->takeover) &&
           !cluster_doubt_refuse (c, in->op, a) &&
           !refuse_unheard (c, in->op, a) &&
           !attach_again (c, in->op, a, attach) &&
           !refuse_part (c, in->op, a, attach) &&
           !refuse_many (c, in->op, a, attach) &&
           !(!fences && refuse_full (c, in->op, a)) &&
           !refuse_service (c, in->op, a, attach) &&
           !(attach->service    ? stand_by (c, in, a, attach, last)
             : attach->writable ? refuse_writer (c, in, a, attach, last)
                                : false) &&
           !(!fences && refuse_beside (c, in->op, a)) &&
           !refuse_creating (c, in->op, a) &&
           !refuse_members (c, in->op, a, false, states))
    attach_begin (c, in, a, attach, fences, states);
}

void
cluster_session_unchallenged (struct cluster *c, struct waiting *w)
{
  struct cluster_input in = w->challenge->in;
  struct cluster_attach attach = w->challenge->attach;
  struct cluster_array *a = w->array;

  in.op = w->op;
  cluster_wait_end (c, w);
  attach_try (c, &in, a, &attach, true);
}

void
cluster_attach (struct cluster *c, const struct cluster_input *in,
                const char *name, const struct cluster_attach *asked)
{
  struct cluster_attach attach = *asked;
  struct cluster_array *a;

  cluster_begin (c, in);
  a = cluster_array_find_or_refuse (c, in->op, name);
  if (a) {
    if (attach.leases)
      attach.part = (struct cluster_part) { .length = a->layout.size };
    attach_try (c, in, a, &attach, false);
  }
  cluster_end (c);
}
