/* cluster-end.c: how sessions end: by themselves, by an administrator, by silence.
 */

#include <config.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cluster-internal.h"

static void
refuse_gone (struct cluster *c, uint64_t op, const struct cluster_session *s)
{
  cluster_refuse (c, op, CLUSTER_GONE, "over",
                  "session %016" PRIx64 " of array %s is over: %s", s->rec.id,
                  s->rec.array_name, s->rec.reason);
}

struct cluster_session *
cluster_session_find_or_refuse (struct cluster *c, uint64_t op, uint64_t id)
{
  struct cluster_session *s = cluster_session_find (c, id);

  /* One that loses its right ends then; so this is of a database that was changed by
   * others.
   */
  if (s && !s->rec.ended && c->read_only[0] == '\0' &&
      !cluster_allowed_session (s->array, &s->rec))
    cluster_session_cut (c, s, "weftd, as its node has no right to it");
  if (s && !s->rec.ended)
    return s;
  if (s)
    refuse_gone (c, op, s);
  else if (cluster_refuse_read_only (c, op))
    ;
  else if (c->live_ms < MEMBER_TTL_MS || cluster_restoring (c))
    /* The session may be a good one which an old database does not have.  If so,
     * members will soon show that the database is old.
     */
    cluster_refuse (c, op, CLUSTER_UNAVAILABLE, "starting",
                    "weftd was just started, or restored from a backup, and "
                    "has not heard of its members yet: ask again");
  else
    cluster_refuse (c, op, CLUSTER_GONE, "over",
                    "there is no session %016" PRIx64 ": it ended long ago, or "
                    "was another weftd's; attach again",
                    id);
  return NULL;
}

struct cluster_session *
cluster_session_own_or_refuse (struct cluster *c, uint64_t op, uint64_t id,
                               const char *instance)
{
  struct cluster_session *s = cluster_session_find_or_refuse (c, op, id);

  if (s == NULL || strcmp (s->rec.instance, instance) == 0)
    return s;
  cluster_refuse (c, op, CLUSTER_CONFLICT, "other-instance",
                  "session %016" PRIx64 " belongs to another process, %" PRIu64
                  " of node %s: attach for a session of your own",
                  id, s->rec.pid, s->rec.node);
  return NULL;
}

void
cluster_session_end (struct cluster *c, struct cluster_session *s,
                     const char *fmt, ...)
{
  struct cluster_array *a = s->array;
  struct waiting *w, *next;
  va_list ap;

  va_start (ap, fmt);
  vsnprintf (s->rec.reason, sizeof s->rec.reason, fmt, ap);
  va_end (ap);
  cluster_session_leave (s);
  s->rec.ended = true;
  s->rec.ended_wall_ms = c->wall_ms;
  s->ended_live_ms = c->live_ms;
  s->alive = false;
  cluster_put_session (c, s);
  cluster_over_add (c, a, s->rec.id, false);
  cluster_changed_session (c, s);
  TAILQ_FOREACH_SAFE (w, &s->waitings, session_link, next) {
    if (w->kind == WAIT_HOLDER) {
      /* The attach is tried again with the next tick. */
      cluster_wait_session (w, NULL);
      w->deadline_ms = c->now_ms;
    }
    else {
      refuse_gone (c, w->op, s);
      cluster_wait_end (c, w);
    }
  }
  if (s->rec.part.length > 0)
    cluster_lease_end (c, a, s);
  else if (s->rec.writable && !s->detaches)
    cluster_unequal_set (c, a, true);
}

/* Have members not confirmed yet that they refuse what it asks?  Who fences its node
 * waits for that, and must still find it.
 */
static bool
is_waited_for (const struct cluster *c, const struct cluster_session *s)
{
  const struct cluster_array *a = s->rec.writable ? s->array : NULL;

  for (unsigned m = 0; a && m < a->layout.members; m++)
    if (cluster_change_waits_for (a, m))
      return true;
  return cluster_over_runs (c, s);
}

/* By the clock of this weftd, which does not jump, and only before its start by the other. */
static bool
ended_before (const struct cluster_session *a, const struct cluster_session *b)
{
  return a->ended_live_ms != b->ended_live_ms
           ? a->ended_live_ms < b->ended_live_ms
           : a->rec.ended_wall_ms < b->rec.ended_wall_ms;
}

void
cluster_session_prune (struct cluster *c)
{
  struct cluster_session *s, *oldest;
  unsigned ended;

  for (;;) {
    ended = 0;
    oldest = NULL;
    TAILQ_FOREACH (s, &c->sessions, link) {
      ended += s->rec.ended;
      if (s->rec.ended && (!oldest || ended_before (s, oldest)) &&
          !is_waited_for (c, s))
        oldest = s;
    }
    if (ended <= ENDED_SESSIONS_MAX || oldest == NULL)
      return;
    cluster_drop_session (c, oldest);
  }
}

bool
cluster_session_end_refused (struct cluster *c, uint64_t op, uint64_t id)
{
  if (cluster_session_find (c, id))
    return cluster_refuse_read_only (c, op);
  cluster_refuse (
    c, op, CLUSTER_NOT_FOUND, "unknown-session",
    "there is no session %016" PRIx64 ": GET /api/v1/sessions lists them", id);
  return true;
}

void
cluster_session_left (struct cluster *c, struct cluster_array *a)
{
  bool written = cluster_array_writer (a) != NULL, counts = false;
  uint8_t states[ARRAY_MEMBERS_MAX];

  /* An evicted writer may go on writing, so members are fenced; where others write, by
   * its session alone (cluster-over.c).  And what a writer sent to a joining member in
   * the background may not have come: that member begins again.
   */
  cluster_change_states (a, states);
  for (unsigned m = 0; m < a->layout.members; m++) {
    if (a->rec.member[m].state != MEMBER_JOINING)
      continue;
    a->rec.member[m].anew = written;
    counts |= states[m] == MEMBER_IN_SYNC;
    if (states[m] != MEMBER_OUT)
      states[m] = MEMBER_JOINING;
  }
  if (!written)
    cluster_change_prepare (c, a, CHANGE_END, states, NULL);
  else if (counts)
    cluster_change_prepare (c, a, CHANGE_LEFT, states, a->rec.change.confirm);
  else
    cluster_put_array (c, a);
  cluster_due (c, a, DUE_CHANGE | DUE_MEMBERS);
}

void
cluster_session_cut (struct cluster *c, struct cluster_session *s,
                     const char *by)
{
  struct cluster_array *a = s->array;

  if (by)
    cluster_log (c, CLUSTER_WARNING, "array", s->rec.array_name,
                 "Node %s, process %" PRIu64 ", was evicted from array %s "
                 "by %s.",
                 s->rec.node, s->rec.pid, s->rec.array_name, by);
  else
    cluster_log (c, CLUSTER_INFO, "array", s->rec.array_name,
                 "Node %s, process %" PRIu64 ", has detached array %s.",
                 s->rec.node, s->rec.pid, s->rec.array_name);
  s->detaches = by == NULL;
  if (s->rec.part.length > 0 && by == NULL)
    cluster_lease_detached (a, s);
  cluster_session_end (c, s, "it was %s%s", by ? "evicted by " : "detached",
                       by ? by : "");
  if (by)
    cluster_over_add (c, a, s->rec.id, true);
  if (s->rec.writable && s->rec.part.length == 0 && by == NULL)
    cluster_kept_detached (c, a);
  if (s->rec.writable)
    cluster_session_left (c, a);
  cluster_due (c, a, DUE_CHANGE);
  cluster_changed_array (c, a);
}

/* by: who ends it, where that is not the host itself. */
static void
end (struct cluster *c, const struct cluster_input *in, uint64_t id,
     const char *by)
{
  struct cluster_session *s = cluster_session_find (c, id);

  cluster_begin (c, in);
  if (!cluster_session_end_refused (c, in->op, id)) {
    /* A session that is over already was ended by this request, perhaps, whose
     * answer was lost: so that is a success.
     */
    cluster_reply_done (c, in->op, CLUSTER_SESSION, NULL, id,
                        s->rec.array_name);
    if (!s->rec.ended) {
      cluster_session_cut (c, s, by);
      cluster_session_prune (c);
    }
  }
  cluster_end (c);
}

void
cluster_session_detach (struct cluster *c, const struct cluster_input *in,
                        uint64_t id)
{
  end (c, in, id, NULL);
}

void
cluster_session_evict (struct cluster *c, const struct cluster_input *in,
                       uint64_t id, const char *by)
{
  end (c, in, id, by);
}

/* Has one of several that write, without members that others reach, been so for too long?
 * Who has lost a member that dies, perhaps with another who writes, says so before anybody
 * else knows.  So it is only counted up to the last words that the member and one who
 * reaches it have said since.
 */
static bool
is_apart (const struct cluster *c, struct cluster_session *s)
{
  const struct cluster_array *a = s->array;
  uint64_t from, shown;
  bool apart = false;

  for (unsigned m = 0; m < a->layout.members; m++) {
    /* A member that was given back to it is its own again when it has come back to it. */
    if (!s->lost[m] && (a->rec.member[m].state != MEMBER_IN_SYNC ||
                        s->epoch >= a->rec.member[m].fence))
      s->away_live_ms[m] = 0;
    else if (s->lost[m] && s->away_live_ms[m] == 0)
      s->away_live_ms[m] = c->live_ms;
    if (s->away_live_ms[m] == 0 || !cluster_life_apart (a, s, m))
      continue;
    apart = true;
    from = s->away_live_ms[m] > s->apart_live_ms ? s->away_live_ms[m]
                                                 : s->apart_live_ms;
    shown = cluster_life_shown (a, s, m);
    if (shown <= from)
      continue;
    /* Between words that are so far from each other somebody was away. */
    if (shown - from <= REST_MS + HEARTBEAT_MS)
      s->apart_ms += shown - from;
    s->apart_live_ms = shown;
  }
  if (!apart && c->live_ms >= s->apart_live_ms + RECONNECT_CALM_MS)
    s->apart_ms = 0;
  return apart && s->apart_ms >= APART_MS;
}

/* One of several that write holds up every change of epoch for the others, while it can
 * take no part in it: it is silent, or a member that others reach is lost to it.  Nothing
 * is held up where nobody is heard, for it may be weftd that is cut off; so who is the
 * first that is heard again has waited for nobody yet.
 */
static void
end_hindrance (struct cluster *c, struct cluster_session *s)
{
  struct cluster_array *a = s->array;
  const struct cluster_session *other = NULL;
  bool others = false, apart = is_apart (c, s);

  while ((other = cluster_writer_next (a, other)))
    others |= other != s && other->alive &&
              cluster_session_silent_ms (c, other) < QUIET_MS;
  if (!others || c->read_only[0] || cluster_array_doubted (c, a, NULL, 0))
    return;
  if (cluster_session_missed (c, s))
    cluster_session_cut (c, s, "weftd: it was silent, and others write");
  else if (!s->lessee.declared && s->heard && s->lessee.order == 0 &&
           !s->draining &&
           c->live_ms >= s->lessee.heard_live_ms + SESSION_TTL_MS)
    cluster_session_cut (
      c, s, "weftd: it does not say which leases it has, and others wait");
  else if (apart)
    cluster_session_cut (
      c, s, "weftd: it has lost a member that others who write can reach");
}

void
cluster_session_tick (struct cluster *c, struct cluster_session *s)
{
  uint64_t silent_ms;
  bool silent;

  if (s->rec.ended)
    return;
  if (cluster_step_unsaid (c, s->answer))
    s->last_live_ms = c->live_ms;
  silent_ms = cluster_session_silent_ms (c, s);
  /* Where the session has a poll, it is weftd that is silent. */
  silent = silent_ms >= SESSION_TTL_MS && s->poll == NULL;
  if (silent && s->alive) {
    s->alive = false;
    cluster_changed_session (c, s);
    cluster_log (c, CLUSTER_WARNING, "array", s->rec.array_name,
                 "Node %s, process %" PRIu64 ", which has attached array %s, "
                 "is silent.",
                 s->rec.node, s->rec.pid, s->rec.array_name);
  }
  if (silent && !s->rec.writable && silent_ms >= READER_DROP_MS)
    cluster_session_end (c, s, "it only read, and was silent for %d min",
                         READER_DROP_MS / 60000);
  if (s->rec.part.length > 0)
    end_hindrance (c, s);
  /* A silent reader answers nobody by now, and is not waited for. */
  if (silent)
    cluster_due (c, s->array, DUE_CHANGE);
}
