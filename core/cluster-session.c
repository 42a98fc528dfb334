/* cluster-session.c: a session's life: heartbeats, lost members, its end.  How
 * it begins: cluster-attach.c.
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
    if (w->kind == WAIT_SESSION) {
      refuse_gone (c, w->op, s);
      cluster_wait_end (c, w);
    }
    else { /* WAIT_HOLDER: try again with the next tick */
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

  if (s->stats_ms != 0 && ms < 200)
    return; /* too short to be a rate */
  if (s->stats_ms != 0) {
    r->reads = rate (n->reads, o->reads, ms);
    r->writes = rate (n->writes, o->writes, ms);
    r->flushes = rate (n->flushes, o->flushes, ms);
    r->read_bytes = rate (n->read_bytes, o->read_bytes, ms);
    r->write_bytes = rate (n->write_bytes, o->write_bytes, ms);
    r->read_us = mean_us (n->read_ns, o->read_ns, n->reads, o->reads);
    r->write_us = mean_us (n->write_ns, o->write_ns, n->writes, o->writes);
    r->flush_us = mean_us (n->flush_ns, o->flush_ns, n->flushes, o->flushes);
  }
  s->stats_ms = c->now_ms;
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
cluster_session_answer (struct cluster *c, struct waiting *w)
{
  w->session->last_live_ms = c->live_ms;
  w->session->told_epoch = w->array->rec.epoch;
  cluster_reply_session (c, w->op, CLUSTER_REPLY_SESSION, w->array, w->session);
  cluster_wait_end (c, w);
}

/* The session with this number, if it is not over; else refuses. */
static struct cluster_session *
find_or_refuse (struct cluster *c, uint64_t op, uint64_t id)
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

static void
take_heartbeat (struct cluster *c, struct cluster_session *s,
                const struct cluster_session_heartbeat *hb)
{
  bool told = !s->alive || s->draining != hb->draining;

  if (s->heard && !s->alive)
    cluster_log (c, CLUSTER_INFO, "session", s->rec.array_name,
                 "Node %s, process %" PRIu64 ", is heard of again.",
                 s->rec.node, s->rec.pid);
  s->heard = s->alive = true;
  s->last_live_ms = c->live_ms;
  s->draining = hb->draining;
  s->epoch = hb->epoch;
  if (hb->has_uri &&
      cluster_text_copy (s->rec.uri, sizeof s->rec.uri, hb->uri)) {
    cluster_put_session (c, s);
    told = true;
  }
  if (hb->has_stats)
    take_stats (c, s, &hb->stats);
  if (told)
    cluster_changed_session (c, s);
}

static void
heartbeat (struct cluster *c, uint64_t op, struct cluster_session *s,
           const struct cluster_session_heartbeat *hb)
{
  struct cluster_array *a = cluster_array_by_uuid (c, s->rec.array);
  struct waiting *w, *next;
  uint64_t wait_ms = hb->wait_ms;

  for (w = TAILQ_FIRST (&c->waitings); w != NULL; w = next) {
    next = TAILQ_NEXT (w, link);
    if (w->kind == WAIT_SESSION && w->session == s)
      cluster_session_answer (c, w); /* it has given an older one up */
  }
  take_heartbeat (c, s, hb);
  cluster_session_refuse_challengers (c, s);
  w = cluster_wait (c, WAIT_SESSION, op,
                    wait_ms < HOLD_MS_MAX ? wait_ms : HOLD_MS_MAX);
  w->session = s;
  w->array = a;
  if (wait_ms == 0 ||
      (hb->epoch != a->rec.epoch && s->told_epoch != a->rec.epoch))
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
  s = find_or_refuse (c, in->op, id);
  if (s && strcmp (s->rec.instance, hb->instance) != 0)
    cluster_refuse (c, in->op, CLUSTER_CONFLICT, "other-instance",
                    "session %016" PRIx64 " belongs to another process, %"
                    PRIu64 " of node %s: attach for a session of your own",
                    id, s->rec.pid, s->rec.node);
  else if (s) {
    a = cluster_array_by_uuid (c, s->rec.array);
    if (hb->epoch > cluster_array_wanted_epoch (a))
      cluster_set_read_only (c,
                             "node %s has seen epoch %" PRIu64
                             " of array %s, which is here at %" PRIu64,
                             s->rec.node, hb->epoch, a->rec.name,
                             cluster_array_wanted_epoch (a));
    if (!cluster_refuse_read_only (c, in->op))
      heartbeat (c, in->op, s, hb);
  }
  cluster_end (c);
}

/* ---- Lost members. ---- */

/* What has no other copy is never left out: it may be whole, and would be
 * written past.  The array stops instead, and goes on when the member is back
 * (DESIGN section 6, step 2).
 */
static bool
refuse_last_copy (struct cluster *c, uint64_t op, struct cluster_session *s,
                  const struct cluster_array *a, unsigned member)
{
  bool lost[ARRAY_MEMBERS_MAX];
  char words[320];

  for (unsigned i = 0; i < a->layout.members; i++)
    lost[i] = i == member || a->rec.member[i].state != MEMBER_IN_SYNC;
  if (layout_loss (&a->layout, lost, NULL) == 0)
    return false;
  if (!s->stopped[0])
    cluster_log (c, CLUSTER_ERROR, "array", a->rec.name,
                 "Array %s stops on node %s: member %u cannot be left out, for "
                 "it has the only copy that is left of some data.",
                 a->rec.name, s->rec.node, member);
  cluster_disk_words (a->disk[member], words, sizeof words);
  snprintf (s->stopped, sizeof s->stopped,
            "node %.63s lost member %u, which has the only copy that is left "
            "of some data", s->rec.node, member);
  cluster_changed_array (c, a);
  cluster_refuse (c, op, CLUSTER_CONFLICT, "last-copy",
                  "member %u (%s) has the only copy that is left of some of "
                  "array %s, so it cannot be left out: bring the member back, "
                  "then end the array process and start it again",
                  member, words, a->rec.name);
  return true;
}

static bool
refuse_lost (struct cluster *c, uint64_t op, struct cluster_session *s,
             const struct cluster_array *a, unsigned member)
{
  struct cluster_problem *p;
  const char *why;

  if (a->rec.change.epoch) {
    p = cluster_refuse (c, op, CLUSTER_CONFLICT, "changing",
                        "array %s is just changing to epoch %" PRIu64
                        ": report the member again when that is done",
                        a->rec.name, a->rec.change.epoch);
    p->retry = true;
    p->retry_after_ms = HEARTBEAT_MS / 2;
    return true;
  }
  /* A reader's bad line must not take a member from those who write. */
  if (!s->rec.writable && cluster_member_well (a, member, &why)) {
    p = cluster_refuse (c, op, CLUSTER_CONFLICT, "in-use",
                        "member %u of array %s is well: see to the connection "
                        "from here to it",
                        member, a->rec.name);
    p->retry = true;
    p->retry_after_ms = HEARTBEAT_MS;
    return true;
  }
  return refuse_last_copy (c, op, s, a, member);
}

static void
lose (struct cluster *c, const struct cluster_session *s,
      struct cluster_array *a, unsigned member, const char *reason)
{
  struct cluster_member *m = &a->rec.member[member];
  uint8_t states[ARRAY_MEMBERS_MAX];
  char words[320];

  for (unsigned i = 0; i < a->layout.members; i++)
    states[i] = (uint8_t) a->rec.member[i].state;
  states[member] = MEMBER_OUT;
  snprintf (m->reason, sizeof m->reason, "node %s lost it: %.150s", s->rec.node,
            reason);
  cluster_epoch_prepare (c, a, states, false);
  cluster_epoch_advance (c, a);
  assert (m->state == MEMBER_OUT);

  cluster_log (c, CLUSTER_ERROR, "array", a->rec.name,
               "Member %u of array %s (%s) is out: %s.", member, a->rec.name,
               cluster_disk_words (a->disk[member], words, sizeof words),
               m->reason);
  cluster_changed_disk (c, a->disk[member]);
}

void
cluster_session_lost (struct cluster *c, const struct cluster_input *in,
                      uint64_t id, unsigned member, const char *reason)
{
  struct cluster_session *s;
  struct cluster_array *a;
  struct cluster_problem *p;

  cluster_begin (c, in);
  s = find_or_refuse (c, in->op, id);
  if (s == NULL || cluster_refuse_read_only (c, in->op)) {
    cluster_end (c);
    return;
  }
  s->last_live_ms = c->live_ms;
  a = cluster_array_by_uuid (c, s->rec.array);
  if (member >= a->layout.members) {
    p = cluster_refuse (c, in->op, CLUSTER_INVALID, "member",
                        "array %s has no member %u: its members are 0 to %u",
                        a->rec.name, member, a->layout.members - 1);
    p->field = "member";
  }
  else if (a->rec.member[member].state == MEMBER_OUT ||
           !refuse_lost (c, in->op, s, a, member)) {
    if (a->rec.member[member].state != MEMBER_OUT)
      lose (c, s, a, member, reason);
    s->told_epoch = a->rec.epoch;
    cluster_reply_session (c, in->op, CLUSTER_REPLY_SESSION, a, s);
  }
  cluster_end (c);
}

/* ---- Detach, and silence. ---- */

void
cluster_session_detach (struct cluster *c, const struct cluster_input *in,
                        uint64_t id)
{
  struct cluster_session *s = cluster_session_find (c, id);
  struct cluster_array *a;

  cluster_begin (c, in);
  if (s == NULL)
    cluster_refuse (c, in->op, CLUSTER_NOT_FOUND, "unknown-session",
                    "there is no session %016" PRIx64
                    ": GET /api/v1/sessions lists them",
                    id);
  else if (!cluster_refuse_read_only (c, in->op)) {
    /* Asked again after the answer was lost: it is done. */
    cluster_reply_done (c, in->op, CLUSTER_SESSION, NULL, id,
                        s->rec.array_name);
    if (!s->rec.ended) {
      a = cluster_array_by_uuid (c, s->rec.array);
      cluster_log (c, CLUSTER_INFO, "array", s->rec.array_name,
                   "Node %s, process %" PRIu64 ", has detached array %s.",
                   s->rec.node, s->rec.pid, s->rec.array_name);
      cluster_session_end (c, s, "it was detached");
      cluster_changed_array (c, a);
      cluster_session_prune (c);
    }
  }
  cluster_end (c);
}

void
cluster_session_tick (struct cluster *c, struct cluster_session *s)
{
  struct waiting *w;
  uint64_t silent_ms = cluster_session_silent_ms (c, s);

  if (s->rec.ended || silent_ms < SESSION_TTL_MS)
    return;
  TAILQ_FOREACH (w, &c->waitings, link)
    if (w->kind == WAIT_SESSION && w->session == s)
      return; /* it is we who are silent */
  if (s->alive) {
    s->alive = false;
    cluster_changed_session (c, s);
    cluster_log (c, CLUSTER_WARNING, "array", s->rec.array_name,
                 "Node %s, process %" PRIu64 ", which has attached array %s, "
                 "is silent.",
                 s->rec.node, s->rec.pid, s->rec.array_name);
  }
  if (!s->rec.writable && silent_ms >= READER_DROP_MS) {
    cluster_session_end (c, s, "it only read, and was silent for %d min",
                         READER_DROP_MS / 60000);
  }
}
