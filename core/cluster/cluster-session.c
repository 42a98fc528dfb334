/* cluster-session.c: a session's life: heartbeats and its end.  How it begins:
 * cluster-attach.c; what it loses: cluster-lost.c.
 */

#include <config.h>

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-internal.h"

uint64_t
cluster_session_silent_ms (const struct cluster *c,
                           const struct cluster_session *s)
{
  return c->live_ms - s->last_live_ms;
}

struct cluster_session *
cluster_session_find (const struct cluster *c, uint64_t id)
{
  struct cluster_session *s;

  TAILQ_FOREACH (s, &c->sessions, link)
    if (s->rec.id == id)
      return s;
  return NULL;
}

struct cluster_session *
cluster_array_writer (const struct cluster *c, const struct cluster_array *a)
{
  struct cluster_session *s;

  TAILQ_FOREACH (s, &c->sessions, link)
    if (!s->rec.ended && s->rec.writable &&
        cluster_uuid_equal (s->rec.array, a->rec.uuid))
      return s;
  return NULL;
}

/* ---- Ends. ---- */

static void
refuse_gone (struct cluster *c, uint64_t op, const struct cluster_session *s)
{
  cluster_refuse (c, op, CLUSTER_GONE, "over",
                  "session %016" PRIx64 " of array %s is over: %s",
                  s->rec.id, s->rec.array_name, s->rec.reason);
}

void
cluster_session_end (struct cluster *c, struct cluster_session *s,
                     const char *fmt, ...)
{
  struct waiting *w, *next;
  va_list ap;

  va_start (ap, fmt);
  vsnprintf (s->rec.reason, sizeof s->rec.reason, fmt, ap);
  va_end (ap);
  s->rec.ended = true;
  s->rec.ended_wall_ms = c->wall_ms;
  s->alive = false;
  cluster_put_session (c, s);
  cluster_changed_session (c, s);
  for (w = TAILQ_FIRST (&c->waitings); w != NULL; w = next) {
    next = TAILQ_NEXT (w, link);
    if (w->session != s)
      continue;
    if (w->kind != WAIT_HOLDER) {
      refuse_gone (c, w->op, s);
      cluster_wait_end (c, w);
    }
    else { /* try again with the next tick */
      w->session = NULL;
      w->deadline_ms = c->now_ms;
    }
  }
}

void
cluster_session_prune (struct cluster *c)
{
  struct cluster_session *s, *oldest;
  unsigned ended;

  do {
    ended = 0;
    oldest = NULL;
    TAILQ_FOREACH (s, &c->sessions, link) {
      if (!s->rec.ended)
        continue;
      ended++;
      if (!oldest || s->rec.ended_wall_ms < oldest->rec.ended_wall_ms)
        oldest = s;
    }
    if (ended > ENDED_SESSIONS_MAX)
      cluster_drop_session (c, oldest);
  } while (ended > ENDED_SESSIONS_MAX);
}

/* ---- Heartbeats. ---- */

static double
rate (uint64_t now, uint64_t before, uint64_t ms)
{
  return now >= before && ms > 0 ? (double) (now - before) * 1000 / ms : 0;
}

/* Mean latency in us of the requests between two samples. */
static double
mean_us (uint64_t ns, uint64_t ns_before, uint64_t count, uint64_t count_before)
{
  if (ns < ns_before || count <= count_before)
    return 0;
  return (double) (ns - ns_before) / (count - count_before) / 1000;
}

static void
take_stats (struct cluster *c, struct cluster_session *s,
            const struct array_stats *n)
{
  const struct array_stats *o = &s->stats;
  struct cluster_session_rates *r = &s->rates;
  uint64_t ms = c->now_ms - s->stats_ms;
  bool turned = false; /* slow, or as its peers again */

  if (s->stats_ms != 0 && ms >= 200) { /* else it is too short for a rate */
    r->reads = rate (n->reads, o->reads, ms);
    r->writes = rate (n->writes, o->writes, ms);
    r->flushes = rate (n->flushes, o->flushes, ms);
    r->read_bytes = rate (n->read_bytes, o->read_bytes, ms);
    r->write_bytes = rate (n->write_bytes, o->write_bytes, ms);
    r->read_us = mean_us (n->read_ns, o->read_ns, n->reads, o->reads);
    r->write_us = mean_us (n->write_ns, o->write_ns, n->writes, o->writes);
    r->flush_us = mean_us (n->flush_ns, o->flush_ns, n->flushes, o->flushes);
  }
  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++)
    turned = turned || o->member[m].suspect != n->member[m].suspect;
  if (turned && s->rec.writable)
    cluster_changed_array (c, cluster_array_by_uuid (c, s->rec.array));
  s->stats_ms = c->now_ms;
  if (n != o)
    s->stats = *n;
}

void
cluster_session_wake (struct cluster *c, const struct cluster_array *a)
{
  struct waiting *w, *next;

  for (w = TAILQ_FIRST (&c->waitings); w != NULL; w = next) {
    next = TAILQ_NEXT (w, link);
    if (w->kind == WAIT_SESSION && w->array == a)
      cluster_session_answer (c, w);
  }
}

void
cluster_session_tell (struct cluster *c, uint64_t op,
                      const struct cluster_array *a, struct cluster_session *s)
{
  s->last_live_ms = c->live_ms;
  s->told_epoch = a->rec.epoch;
  s->told_change = a->rec.change.sessions ? a->rec.change.epoch : 0;
  s->told_loss = s->loss ? s->loss->number : 0;
  cluster_reply_session (c, op, CLUSTER_REPLY_SESSION, a, s);
}

void
cluster_session_answer (struct cluster *c, struct waiting *w)
{
  cluster_session_tell (c, w->op, w->array, w->session);
  cluster_wait_end (c, w);
}

/* Is there anything that it has neither done nor been told of? */
static bool
news (const struct cluster_array *a, const struct cluster_session *s)
{
  const struct cluster_change *change = &a->rec.change;

  return (s->epoch != a->rec.epoch && s->told_epoch != a->rec.epoch) ||
         (change->sessions && s->prepared != change->epoch &&
          s->told_change != change->epoch) ||
         (s->loss && s->told_loss != s->loss->number);
}

struct cluster_session *
cluster_session_find_or_refuse (struct cluster *c, uint64_t op, uint64_t id)
{
  struct cluster_session *s = cluster_session_find (c, id);

  if (s && !s->rec.ended)
    return s;
  if (s)
    refuse_gone (c, op, s);
  else if (cluster_refuse_read_only (c, op))
    ;
  else if (c->live_ms < MEMBER_TTL_MS)
    /* If the database is an old one, its members will soon say so; the session
     * may be a good one.
     */
    cluster_refuse (c, op, CLUSTER_UNAVAILABLE, "starting",
                    "weftd was just started and has not heard of its members "
                    "yet: ask again");
  else
    cluster_refuse (c, op, CLUSTER_GONE, "over",
                    "there is no session %016" PRIx64 ": it ended long ago, or "
                    "was another weftd's; attach again",
                    id);
  return NULL;
}

/* What is written now, its members' processes have. */
static void
take_rounds (struct cluster *c, struct cluster_array *a,
             const struct cluster_session_heartbeat *hb)
{
  cluster_array_heard_round (c, a, hb->round);
  for (unsigned m = 0; m < a->layout.members && hb->epoch == a->rec.epoch; m++)
    if (a->rec.member[m].state == MEMBER_IN_SYNC && a->disk[m]->heard &&
        !cluster_disk_unmet (a->disk[m]))
      a->disk[m]->served = true;
}

static void
take_heartbeat (struct cluster *c, struct cluster_session *s,
                const struct cluster_session_heartbeat *hb)
{
  bool told = !s->alive || s->draining != hb->draining ||
              s->epoch != hb->epoch || s->prepared != hb->prepared;

  if (s->heard && !s->alive)
    cluster_log (c, CLUSTER_INFO, "session", s->rec.array_name,
                 "Node %s, process %" PRIu64 ", is heard of again.",
                 s->rec.node, s->rec.pid);
  s->heard = s->alive = true;
  s->last_live_ms = c->live_ms;
  s->draining = hb->draining;
  memcpy (s->process, hb->process, sizeof s->process);
  s->epoch = hb->epoch;
  s->prepared = hb->prepared;
  if (hb->has_uri &&
      cluster_text_copy (s->rec.uri, sizeof s->rec.uri, hb->uri)) {
    cluster_put_session (c, s);
    told = true;
  }
  if (hb->has_stats)
    take_stats (c, s, &hb->stats);
  else if (hb->same_stats && s->stats_ms != 0)
    take_stats (c, s, &s->stats);
  if (s->rec.writable)
    take_rounds (c, cluster_array_by_uuid (c, s->rec.array), hb);
  if (told)
    cluster_changed_session (c, s);
}

static void
heartbeat (struct cluster *c, uint64_t op, struct cluster_session *s,
           const struct cluster_session_heartbeat *hb)
{
  struct cluster_array *a = cluster_array_by_uuid (c, s->rec.array);
  struct waiting *w;
  uint64_t wait_ms = hb->wait_ms;
  bool moved = s->epoch != hb->epoch || s->prepared != hb->prepared;

  if (cluster_session_refuse_late (c, op, a, s, hb->epoch))
    return;
  if (s->poll)
    cluster_session_answer (c, s->poll); /* it has given an older one up */
  take_heartbeat (c, s, hb);
  cluster_session_refuse_challengers (c, s);
  if (moved) {
    cluster_epoch_advance (c, a);
    cluster_rebuild_tick (c, a);
  }
  w = cluster_wait (c, WAIT_SESSION, op,
                    wait_ms < HOLD_MS_MAX ? wait_ms : HOLD_MS_MAX);
  w->session = s;
  w->array = a;
  s->poll = w;
  if (wait_ms == 0 || news (a, s))
    cluster_session_answer (c, w);
}

void
cluster_session_heartbeat (struct cluster *c, const struct cluster_input *in,
                           uint64_t id,
                           const struct cluster_session_heartbeat *hb)
{
  struct cluster_session *s;
  struct cluster_array *a;

  cluster_begin (c, in);
  s = cluster_session_find_or_refuse (c, in->op, id);
  if (s && strcmp (s->rec.instance, hb->instance) != 0)
    cluster_refuse (c, in->op, CLUSTER_CONFLICT, "other-instance",
                    "session %016" PRIx64 " belongs to another process, %"
                    PRIu64 " of node %s: attach for a session of your own",
                    id, s->rec.pid, s->rec.node);
  else if (s) {
    a = cluster_array_by_uuid (c, s->rec.array);
    if (hb->epoch > a->rec.epoch ||
        hb->prepared > cluster_array_wanted_epoch (a))
      cluster_set_read_only (c,
                             "node %s has seen epoch %" PRIu64
                             " of array %s, which is here at %" PRIu64,
                             s->rec.node,
                             hb->epoch > hb->prepared ? hb->epoch
                                                      : hb->prepared,
                             a->rec.name,
                             cluster_array_wanted_epoch (a));
    if (!cluster_refuse_read_only (c, in->op))
      heartbeat (c, in->op, s, hb);
  }
  cluster_end (c);
}

/* ---- Detach, and silence. ---- */

/* Whoever wrote may do so still, if it was not itself that said that it is over:
 * members are fenced.  And what it sent to a joining one in the background may not
 * have come: that one begins again.
 */
static void
writer_left (struct cluster *c, struct cluster_array *a)
{
  struct cluster_change next;

  cluster_epoch_states (a, next.states);
  for (unsigned m = 0; m < a->layout.members; m++) {
    if (a->rec.member[m].state == MEMBER_JOINING &&
        next.states[m] != MEMBER_OUT)
      next.states[m] = MEMBER_JOINING;
    next.confirm[m] = next.states[m] != MEMBER_OUT;
  }
  cluster_epoch_prepare (c, a, next.states, next.confirm,
                         cluster_epoch_needs_sessions (c, a, next.states,
                                                       NULL));
}

bool
cluster_session_end_refused (struct cluster *c, uint64_t op, uint64_t id)
{
  if (cluster_session_find (c, id))
    return cluster_refuse_read_only (c, op);
  cluster_refuse (c, op, CLUSTER_NOT_FOUND, "unknown-session",
                  "there is no session %016" PRIx64
                  ": GET /api/v1/sessions lists them",
                  id);
  return true;
}

void
cluster_session_cut (struct cluster *c, struct cluster_session *s,
                     const char *by)
{
  struct cluster_array *a = cluster_array_by_uuid (c, s->rec.array);

  if (by)
    cluster_log (c, CLUSTER_WARNING, "array", s->rec.array_name,
                 "Node %s, process %" PRIu64 ", was evicted from array %s "
                 "by %s.",
                 s->rec.node, s->rec.pid, s->rec.array_name, by);
  else
    cluster_log (c, CLUSTER_INFO, "array", s->rec.array_name,
                 "Node %s, process %" PRIu64 ", has detached array %s.",
                 s->rec.node, s->rec.pid, s->rec.array_name);
  cluster_session_end (c, s, "it was %s%s", by ? "evicted by " : "detached",
                       by ? by : "");
  if (s->rec.writable)
    writer_left (c, a);
  cluster_epoch_advance (c, a);
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
    /* Asked again after the answer was lost: it is done. */
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

void
cluster_session_tick (struct cluster *c, struct cluster_session *s)
{
  uint64_t silent_ms = cluster_session_silent_ms (c, s);

  if (s->rec.ended || silent_ms < SESSION_TTL_MS)
    return;
  if (s->poll)
    return; /* it is we who are silent */
  if (s->alive) {
    s->alive = false;
    cluster_changed_session (c, s);
    cluster_log (c, CLUSTER_WARNING, "array", s->rec.array_name,
                 "Node %s, process %" PRIu64 ", which has attached array %s, "
                 "is silent.",
                 s->rec.node, s->rec.pid, s->rec.array_name);
  }
  if (!s->rec.writable && silent_ms >= READER_DROP_MS)
    cluster_session_end (c, s, "it only read, and was silent for %d min",
                         READER_DROP_MS / 60000);
  /* A silent reader answers nobody by now, and is not waited for. */
  cluster_epoch_advance (c, cluster_array_by_uuid (c, s->rec.array));
}
