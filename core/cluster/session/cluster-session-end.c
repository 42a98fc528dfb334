/* cluster-session-end.c: how sessions end: by themselves, by an administrator, by silence.
 */

#include <config.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cluster-session.h"

static void
refuse_gone (struct cluster *c, uint64_t op, const struct cluster_session *s)
{
  cluster_step_refuse (c, op, CLUSTER_GONE, "over",
                       "session %016" PRIx64 " of array %s is over: %s",
                       s->rec.id, s->rec.array_name, s->rec.reason);
}

struct cluster_session *
cluster_session_end_find_live (struct cluster *c, uint64_t op, uint64_t id)
{
  struct cluster_session *s = cluster_session_find (c, id);

  /* A session that loses its right ends at once; so this is a database that was
   * changed by other means.
   */
  if (s && !s->rec.ended && c->read_only[0] == '\0' &&
      !cluster_access_session (s->array, &s->rec))
    cluster_session_end_cut (c, s, "weftd, as its node has no right to it");
  if (s && !s->rec.ended)
    return s;
  if (s)
    refuse_gone (c, op, s);
  else if (cluster_step_refuse_read_only (c, op))
    ;
  else if (c->live_ms < MEMBER_TTL_MS || cluster_step_restoring (c))
    /* The session may be a good one which an old database does not have.  If so,
     * members will soon show that the database is old.
     */
    cluster_step_refuse (
      c, op, CLUSTER_UNAVAILABLE, "starting",
      "weftd was just started, or restored from a backup, and "
      "has not heard of its members yet: ask again");
  else
    cluster_step_refuse (c, op, CLUSTER_GONE, "over",
                         "there is no session %016" PRIx64
                         ": it ended long ago, or "
                         "was another weftd's; attach again",
                         id);
  return NULL;
}

struct cluster_session *
cluster_session_end_find_own (struct cluster *c, uint64_t op, uint64_t id,
                              const char *instance)
{
  struct cluster_session *s = cluster_session_end_find_live (c, op, id);

  if (s == NULL || strcmp (s->rec.instance, instance) == 0)
    return s;
  cluster_step_refuse (c, op, CLUSTER_CONFLICT, "other-instance",
                       "session %016" PRIx64
                       " belongs to another process, %" PRIu64
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
  cluster_step_put_session (c, s);
  cluster_shut_add (c, a, s->rec.id, s->rec.node, false);
  cluster_step_changed_session (c, s);
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
  cluster_unequal_end (c, a);
  cluster_volume_session_over (c, a, s);
}

/* Have members not confirmed yet that they refuse its requests?  The fence of
 * its node waits for that, and must still find it.
 */
static bool
is_waited_for (const struct cluster *c, const struct cluster_session *s)
{
  const struct cluster_array *a = s->rec.writable ? s->array : NULL;

  for (unsigned m = 0; a && m < a->layout.members; m++)
    if (cluster_change_waits_for (a, m))
      return true;
  return cluster_shut_runs (c, s);
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
cluster_session_end_prune (struct cluster *c)
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
    cluster_step_drop_session (c, oldest);
  }
}

bool
cluster_session_end_refused (struct cluster *c, uint64_t op, uint64_t id)
{
  if (cluster_session_find (c, id))
    return cluster_step_refuse_read_only (c, op);
  cluster_step_refuse (
    c, op, CLUSTER_NOT_FOUND, "unknown-session",
    "there is no session %016" PRIx64 ": GET /api/v1/sessions lists them", id);
  return true;
}

/* A member is to go out that is well, and reached by all who go on.  It may be the only one
 * that has what the session had acknowledged and not flushed.
 */
static bool
is_needed (const struct cluster_array *a, unsigned member)
{
  const struct cluster_disk *d = a->disk[member];
  const struct cluster_session *s;
  const char *why;

  if (a->rec.member[member].state != MEMBER_IN_SYNC ||
      a->rec.change.states[member] != MEMBER_OUT ||
      !cluster_member_well (a, member, &why) || !cluster_process_met (d) ||
      d->rec.shut_out || d->overdue)
    return false;
  TAILQ_FOREACH (s, &a->sessions, array_link)
    if (s->path[member].reported)
      return false;
  return true;
}

void
cluster_session_end_left (struct cluster *c, struct cluster_array *a,
                          bool detached)
{
  bool written = cluster_array_writer (a) != NULL, counts = false;
  uint8_t states[ARRAY_MEMBERS_MAX];

  /* An evicted writer may go on writing, so members are fenced; if there are
   * other writers, only against its session (cluster-shut.c). And writes that
   * it sent to a joining member in the background may not have arrived: that
   * member begins again.  A member that was about to go out stays while copies
   * may differ.
   */
  cluster_change_states (a, states);
  for (unsigned m = 0; m < a->layout.members; m++) {
    if (a->rec.change.epoch && !detached && is_needed (a, m)) {
      states[m] = MEMBER_IN_SYNC;
      counts = true;
    }
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
    cluster_step_put_array (c, a);
  cluster_array_due (c, a, DUE_CHANGE | DUE_MEMBERS);
}

void
cluster_session_end_cut (struct cluster *c, struct cluster_session *s,
                         const char *by)
{
  struct cluster_array *a = s->array;

  if (by)
    cluster_step_log (c, CLUSTER_WARNING, "array", s->rec.array_name,
                      "Node %s, process %" PRIu64 ", was evicted from array %s "
                      "by %s.",
                      s->rec.node, s->rec.pid, s->rec.array_name, by);
  else
    cluster_step_log (c, CLUSTER_INFO, "array", s->rec.array_name,
                      "Node %s, process %" PRIu64 ", has detached array %s.",
                      s->rec.node, s->rec.pid, s->rec.array_name);
  s->detaches = by == NULL;
  if (s->rec.part.length > 0 && by == NULL)
    cluster_lease_detached (a, s);
  cluster_session_end (c, s, "it was %s%s", by ? "evicted by " : "detached",
                       by ? by : "");
  if (by)
    cluster_shut_add (c, a, s->rec.id, s->rec.node, true);
  if (s->rec.writable && s->rec.part.length == 0 && by == NULL)
    cluster_lapse_detached (c, a);
  if (s->rec.writable)
    cluster_session_end_left (c, a, by == NULL);
  cluster_array_due (c, a, DUE_CHANGE);
  cluster_step_changed_array (c, a);
}

/* Since when one of several that write is without the member.  If it has lost it again, and
 * a request has waited since before it got the member back, it was without the member all
 * the time: a line that drops large packets lets connections be made, and no data through.
 * True: that is so.
 */
static bool
note_away (const struct cluster *c, struct cluster_session *s, unsigned m)
{
  const struct cluster_member *r = &s->array->rec.member[m];
  uint64_t *away = &s->path[m].away_live_ms, *back = &s->path[m].back_live_ms;
  bool all = false;

  if (s->path[m].lost) {
    all = cluster_process_awaited (s, m, *back);
    if (*away == 0 || (*back && !all))
      *away = c->live_ms;
    *back = 0;
  }
  else if (r->state != MEMBER_IN_SYNC ||
           (*back && c->live_ms >= *back + RECONNECT_CALM_MS))
    *away = *back = 0;
  /* A member that was given back to it is its own again when it has come back to it. */
  else if (*away && *back == 0 && s->epoch >= r->fence)
    *back = c->live_ms;
  return all;
}

/* Count the time in which others have shown that they reach the member.  A
 * writer that loses a dying member, perhaps together with another writer,
 * reports that before weftd knows.  So the time is counted only up to the last
 * reports that the member and a writer that reaches it have sent since.
 */
static void
count_apart (const struct cluster_session *s, unsigned m,
             struct cluster_apart *t)
{
  uint64_t from = s->path[m].away_live_ms > t->live_ms ? s->path[m].away_live_ms
                                                       : t->live_ms;
  uint64_t shown = cluster_process_shown (s->array, s, m);

  if (shown <= from)
    return;
  /* Between words that are so far from each other somebody was away. */
  if (shown - from <= REST_MS + HEARTBEAT_MS)
    t->ms += shown - from;
  t->live_ms = shown;
}

/* Is the session without the member, which others reach? */
static bool
lacks (const struct cluster_session *s, unsigned m)
{
  return s->path[m].away_live_ms && cluster_process_apart (s->array, s, m);
}

/* Has one of several that write, without members that others reach, been so for too long?
 * The time since it got a member back counts only if that did not help.
 */
static bool
is_apart (const struct cluster *c, struct cluster_session *s)
{
  unsigned members = s->array->layout.members;
  bool apart = false;

  for (unsigned m = 0; m < members; m++) {
    struct cluster_path *p = &s->path[m];
    bool had = p->back_live_ms > 0;

    if (note_away (c, s, m) && p->perhaps.ms > s->apart.ms)
      s->apart = p->perhaps;
    if (!had)
      p->perhaps = s->apart;
  }
  for (unsigned m = 0; m < members; m++)
    if (lacks (s, m) && s->path[m].back_live_ms == 0) {
      apart = true;
      count_apart (s, m, &s->apart);
    }
  for (unsigned m = 0; m < members; m++)
    for (unsigned k = 0; s->path[m].back_live_ms && k < members; k++)
      if (lacks (s, k) && (k == m || s->path[k].back_live_ms == 0))
        count_apart (s, k, &s->path[m].perhaps);
  if (!apart && c->live_ms >= s->apart.live_ms + RECONNECT_CALM_MS)
    s->apart.ms = 0;
  return apart && s->apart.ms >= APART_MS;
}

/* One of several writers delays every change of epoch for the others, while it
 * can take no part in it: it is silent, or has lost a member that others reach.
 * While no other writer is heard it delays no change, because weftd itself may
 * be cut off; so the first writer that is heard again starts to wait then.  A new session
 * counts from its first heartbeat: its process may have died while the attach waited.
 */
static void
end_hindrance (struct cluster *c, struct cluster_session *s)
{
  struct cluster_array *a = s->array;
  const struct cluster_session *other = NULL;
  bool others = false, apart = is_apart (c, s);

  while ((other = cluster_writer_next (a, other)))
    others |= other != s && other->alive && other->spoke_live_ms > 0 &&
              cluster_session_silent_ms (c, other) < QUIET_MS;
  if (!others || c->read_only[0] || cluster_array_doubted (c, a, NULL, 0))
    return;
  if (cluster_session_missed (c, s))
    cluster_session_end_cut (c, s, "weftd: it was silent, and others write");
  else if (!s->lessee.declared && s->heard && s->lessee.equal &&
           s->lessee.order == 0 && !s->draining &&
           c->live_ms >= s->lessee.heard_live_ms + SESSION_TTL_MS)
    cluster_session_end_cut (
      c, s, "weftd: it does not say which leases it has, and others wait");
  else if (apart)
    cluster_session_end_cut (
      c, s, "weftd: it has lost a member that others who write can reach");
}

/* A change waits for a writer that is silent for its TTL, and readers hold all
 * their reads until it is COMMITted.  If a lost member goes out by it, the
 * writer's session ends, with a fence.  (Other changes are called off:
 * cluster_commit_tick.) No report about another process is needed for that:
 * weftd itself misses the writer and the member, or the member says that it has
 * failed.  And weftd was not cut off meanwhile, because it has heard a reader
 * all the time.
 */
static void
end_held_up (struct cluster *c, struct cluster_session *s)
{
  const struct cluster_array *a = s->array;
  const struct cluster_session *reader;

  if (c->read_only[0] || cluster_array_doubted (c, a, NULL, 0) ||
      !cluster_session_missed (c, s) ||
      !cluster_change_waits_for_session (a, s) ||
      !cluster_change_loses_member (a))
    return;
  TAILQ_FOREACH (reader, &a->sessions, array_link)
    if (!reader->rec.writable && reader->heard &&
        cluster_session_silent_ms (c, reader) < QUIET_MS &&
        c->live_ms >= reader->steady_live_ms + SESSION_TTL_MS) {
      cluster_session_end_cut (
        c, s,
        "weftd: it was silent, and readers wait for a lost member to go out");
      return;
    }
}

/* A session sends heartbeats, and does not confirm what others wait for
 * (cluster-overdue.c). It ends, unless it is the only writer: then it goes on
 * until another process attaches the array in its place.  But it always ends if
 * it does not confirm a fence, or the order to leave.
 */
static void
end_overdue (struct cluster *c, struct cluster_session *s)
{
  const struct cluster_session *other = NULL;
  bool goes = !s->rec.writable || s->overdue == WORD_FENCES ||
              s->overdue == WORD_LEFT;
  char by[200];

  while (!goes && (other = cluster_writer_next (s->array, other)))
    goes = other != s && other->alive && !other->overdue;
  if (!goes || c->read_only[0] || cluster_array_doubted (c, s->array, NULL, 0))
    return;
  snprintf (by, sizeof by, "weftd: it sent heartbeats, but has not %s",
            cluster_word_owed (s->overdue));
  cluster_session_end_cut (c, s, by);
}

void
cluster_session_end_tick (struct cluster *c, struct cluster_session *s)
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
    cluster_step_changed_session (c, s);
    cluster_step_log (c, CLUSTER_WARNING, "array", s->rec.array_name,
                      "Node %s, process %" PRIu64
                      ", which has attached array %s, "
                      "is silent.",
                      s->rec.node, s->rec.pid, s->rec.array_name);
  }
  if (silent && !s->rec.writable && silent_ms >= READER_DROP_MS)
    cluster_session_end (c, s, "it only read, and was silent for %d min",
                         READER_DROP_MS / 60000);
  if (s->rec.part.length > 0)
    end_hindrance (c, s);
  if (silent && s->rec.writable && !s->rec.ended)
    end_held_up (c, s);
  if (s->overdue && !s->rec.ended)
    end_overdue (c, s);
  /* A silent reader answers nobody by now, and is not waited for. */
  if (silent)
    cluster_array_due (c, s->array, DUE_CHANGE);
}
