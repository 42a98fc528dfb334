/* cluster-attach.c: how a host gets a session.
 *
 * One session at a time holds an array for writing; any number read.  To grant
 * the right to write, weftd changes the epoch with a fence of all members: so
 * whoever held it before can write nothing more, however late it wakes up.  The
 * old session is over as soon as the change is PREPARED, the new one begins
 * with its COMMIT.
 *
 * A holder is replaced only after it has been silent for SESSION_TTL_MS.
 * Whoever asks while it is not is told at once that it lives, where it does:
 * the holder's long poll is answered, so that it speaks.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-internal.h"

static void
refuse_held (struct cluster *c, uint64_t op, const struct cluster_array *a,
             const struct cluster_session_record *holder, uint64_t silent_ms,
             bool quiet)
{
  struct cluster_problem *p;
  const char *way = "detach it there, or attach read-only";

  if (quiet)
    way = "it may be replaced when it has been silent for long enough";
  p = cluster_refuse (c, op, CLUSTER_CONFLICT, "held",
                      "array %s is attached for writing by node %s, process "
                      "%" PRIu64 ", last heard of %" PRIu64 " ms ago: %s",
                      a->rec.name, holder->node, holder->pid, silent_ms, way);
  p->holder = holder->id;
  snprintf (p->holder_node, sizeof p->holder_node, "%s", holder->node);
  p->holder_pid = holder->pid;
  p->holder_silent_ms = silent_ms;
  if (quiet) {
    p->retry = true;
    p->retry_after_ms
      = silent_ms < SESSION_TTL_MS ? SESSION_TTL_MS - silent_ms : 0;
  }
}

/* Every member must be there: today an array starts whole or not at all. */
static bool
refuse_members (struct cluster *c, uint64_t op, const struct cluster_array *a)
{
  char text[1500], words[320];
  const char *why;
  struct cluster_problem *p;

  if (!a->rec.ready) {
    if (!cluster_array_waits_for (c, a, c->wall_ms, text, sizeof text))
      snprintf (text, sizeof text, "its members");
    p = cluster_refuse (c, op, CLUSTER_CONFLICT, "not-ready",
                        "array %s is not ready: it waits for %.500s",
                        a->rec.name, text);
    p->retry = true;
    p->retry_after_ms = HEARTBEAT_MS;
    return true;
  }
  for (unsigned m = 0; m < a->layout.members; m++)
    if (a->rec.member[m].state != MEMBER_IN_SYNC) {
      cluster_refuse (c, op, CLUSTER_CONFLICT, "member-out",
                      "array %s cannot be attached: member %u (%s) is out "
                      "(%.200s), and taking it back is not possible yet; "
                      "what is on the other members stays as it is",
                      a->rec.name, m,
                      cluster_disk_words (a->disk[m], words, sizeof words),
                      a->rec.member[m].reason);
      return true;
    }
  for (unsigned m = 0; m < a->layout.members; m++)
    if (!cluster_member_well (a, m, &why)) {
      p = cluster_refuse (c, op, CLUSTER_CONFLICT, "member-missing",
                          "array %s cannot be attached: member %u (%s) %s; "
                          "start its member process and see its log",
                          a->rec.name, m,
                          cluster_disk_words (a->disk[m], words, sizeof words),
                          why);
      p->retry = true;
      p->retry_after_ms = HEARTBEAT_MS;
      return true;
    }
  return false;
}

/* Ask the holder to speak, and let the attach wait for that. */
static void
challenge (struct cluster *c, const struct cluster_input *in,
           struct cluster_array *a, struct cluster_session *holder,
           const struct cluster_attach *attach)
{
  struct waiting *w, *next;

  for (w = TAILQ_FIRST (&c->waitings); w != NULL; w = next) {
    next = TAILQ_NEXT (w, link);
    if (w->kind == WAIT_SESSION && w->session == holder)
      cluster_session_answer (c, w);
  }
  w = cluster_wait (c, WAIT_HOLDER, in->op, CHALLENGE_MS);
  w->array = a;
  w->session = holder;
  w->challenge = cluster_alloc (sizeof *w->challenge);
  w->challenge->in = *in;
  w->challenge->attach = *attach;
}

void
cluster_session_refuse_challengers (struct cluster *c,
                                    struct cluster_session *holder)
{
  struct waiting *w, *next;

  for (w = TAILQ_FIRST (&c->waitings); w != NULL; w = next) {
    next = TAILQ_NEXT (w, link);
    if (w->kind != WAIT_HOLDER || w->session != holder)
      continue;
    refuse_held (c, w->op, w->array, &holder->rec, 0, false);
    cluster_wait_end (c, w);
  }
}

/* Somebody else writes, or is about to.  True: refused, or `last` is false and
 * the attach waits for the holder's word.
 */
static bool
refuse_writer (struct cluster *c, const struct cluster_input *in,
               struct cluster_array *a, const struct cluster_attach *attach,
               bool last)
{
  struct cluster_session *s = cluster_array_writer (c, a);
  struct waiting *w;
  uint64_t silent_ms;

  if (s && s->alive) {
    silent_ms = cluster_session_silent_ms (c, s);
    if (last || silent_ms >= QUIET_MS)
      refuse_held (c, in->op, a, &s->rec, silent_ms, true);
    else
      challenge (c, in, a, s, attach);
    return true;
  }
  TAILQ_FOREACH (w, &c->waitings, link)
    if (w->kind == WAIT_ATTACH && w->array == a && w->grant.writable) {
      refuse_held (c, in->op, a, &w->grant, 0, false);
      return true;
    }
  return false;
}

/* A host that did not hear the answer asks again: it gets the same one. */
static bool
attach_again (struct cluster *c, uint64_t op, const struct cluster_array *a,
              const struct cluster_attach *attach)
{
  struct cluster_session *s;
  struct waiting *w;

  TAILQ_FOREACH (s, &c->sessions, link)
    if (!s->rec.ended && s->rec.writable == attach->writable &&
        cluster_uuid_equal (s->rec.array, a->rec.uuid) &&
        strcmp (s->rec.instance, attach->instance) == 0) {
      s->last_live_ms = c->live_ms;
      s->alive = s->heard = true;
      cluster_reply_session (c, op, CLUSTER_REPLY_GRANT, a, s);
      return true;
    }
  TAILQ_FOREACH (w, &c->waitings, link)
    if (w->kind == WAIT_ATTACH && w->array == a &&
        w->grant.writable == attach->writable &&
        strcmp (w->grant.instance, attach->instance) == 0) {
      cluster_refuse (c, w->op, CLUSTER_CONFLICT, "superseded",
                      "the same process has asked again");
      w->op = op;
      w->deadline_ms = c->now_ms + ATTACH_MS;
      return true;
    }
  return false;
}

static void
grant (struct cluster *c, uint64_t op, const struct cluster_array *a,
       const struct cluster_session_record *rec)
{
  struct cluster_session *s = cluster_alloc (sizeof *s);

  s->rec = *rec;
  s->rec.epoch = s->epoch = s->told_epoch = a->rec.epoch;
  s->rec.since_wall_ms = c->wall_ms;
  s->heard = s->alive = true;
  s->last_live_ms = c->live_ms;
  TAILQ_INSERT_TAIL (&c->sessions, s, link);
  cluster_put_session (c, s);
  cluster_changed_session (c, s);
  cluster_changed_array (c, a);
  cluster_log (c, CLUSTER_INFO, "array", a->rec.name,
               "Node %s, process %" PRIu64 ", has attached array %s %s.",
               rec->node, rec->pid, a->rec.name,
               rec->writable ? "for writing" : "read-only");
  cluster_reply_session (c, op, CLUSTER_REPLY_GRANT, a, s);
}

void
cluster_session_committed (struct cluster *c, struct cluster_array *a)
{
  struct waiting *w, *next;

  cluster_session_wake (c, a);
  for (w = TAILQ_FIRST (&c->waitings); w != NULL; w = next) {
    next = TAILQ_NEXT (w, link);
    if (w->kind == WAIT_ATTACH && w->array == a) {
      grant (c, w->op, a, &w->grant);
      cluster_wait_end (c, w);
    }
  }
}

void
cluster_session_attach_late (struct cluster *c, struct waiting *w)
{
  char text[1500];
  struct cluster_problem *p;

  if (!cluster_array_waits_for (c, w->array, c->wall_ms, text, sizeof text))
    snprintf (text, sizeof text, "its members");
  p = cluster_refuse (c, w->op, CLUSTER_CONFLICT, "member-missing",
                      "array %s cannot be attached: it waits for %.400s; see "
                      "that member's log, and try again",
                      w->array->rec.name, text);
  p->retry = true;
  p->retry_after_ms = HEARTBEAT_MS;
  cluster_wait_end (c, w);
}

static void
attach_write (struct cluster *c, struct cluster_array *a,
              const struct cluster_session_record *rec)
{
  struct cluster_session *old = cluster_array_writer (c, a);
  uint8_t states[ARRAY_MEMBERS_MAX];

  if (old) {
    cluster_log (c, CLUSTER_WARNING, "array", a->rec.name,
                 "Node %s, process %" PRIu64 ", takes array %s over from node "
                 "%s, process %" PRIu64 ", which has been silent for %" PRIu64
                 " s.",
                 rec->node, rec->pid, a->rec.name, old->rec.node, old->rec.pid,
                 cluster_session_silent_ms (c, old) / 1000);
    cluster_session_end (c, old,
                         "node %s, process %" PRIu64 ", took it over, because "
                         "this host had been silent for %" PRIu64 " s",
                         rec->node, rec->pid,
                         cluster_session_silent_ms (c, old) / 1000);
    cluster_session_prune (c);
  }
  /* A fence that an earlier attach left behind serves this one as well. */
  if (a->rec.change.epoch)
    return;
  for (unsigned m = 0; m < a->layout.members; m++)
    states[m] = (uint8_t) a->rec.member[m].state;
  cluster_epoch_prepare (c, a, states, true);
}

/* Tokens must be of an epoch that every member takes; a member that was started
 * again takes none of before.
 */
static bool
epoch_too_low (const struct cluster_array *a)
{
  for (unsigned m = 0; m < a->layout.members; m++)
    if (a->disk[m]->min_epoch > a->rec.epoch)
      return true;
  return false;
}

static void
attach_begin (struct cluster *c, const struct cluster_input *in,
              struct cluster_array *a, const struct cluster_attach *attach)
{
  struct cluster_session_record rec = { .pid = attach->pid };
  uint8_t states[ARRAY_MEMBERS_MAX];
  struct waiting *w;

  memcpy (&rec.id, in->random, sizeof rec.id);
  while (rec.id == 0 || cluster_session_find (c, rec.id))
    rec.id++;
  memcpy (rec.array, a->rec.uuid, 16);
  snprintf (rec.array_name, sizeof rec.array_name, "%s", a->rec.name);
  snprintf (rec.node, sizeof rec.node, "%s", attach->node);
  snprintf (rec.instance, sizeof rec.instance, "%s", attach->instance);
  snprintf (rec.uri, sizeof rec.uri, "%s", attach->uri);
  rec.writable = attach->writable;

  if (rec.writable)
    attach_write (c, a, &rec);
  else if (a->rec.change.epoch == 0) {
    if (epoch_too_low (a)) {
      for (unsigned m = 0; m < a->layout.members; m++)
        states[m] = (uint8_t) a->rec.member[m].state;
      cluster_epoch_prepare (c, a, states, false);
      cluster_epoch_advance (c, a);
    }
    grant (c, in->op, a, &rec);
    return;
  }
  w = cluster_wait (c, WAIT_ATTACH, in->op, ATTACH_MS);
  w->array = a;
  w->grant = rec;
  cluster_epoch_advance (c, a);
}

static void
attach_try (struct cluster *c, const struct cluster_input *in,
            struct cluster_array *a, const struct cluster_attach *attach,
            bool last)
{
  struct cluster_session *s;
  unsigned count = 0;

  TAILQ_FOREACH (s, &c->sessions, link)
    count += !s->rec.ended;
  if (count >= SESSIONS_MAX)
    cluster_refuse (c, in->op, CLUSTER_CONFLICT, "too-many",
                    "there are %d sessions already: detach one first",
                    SESSIONS_MAX);
  else if (!cluster_refuse_read_only (c, in->op) &&
           !attach_again (c, in->op, a, attach) &&
           !(attach->writable && refuse_writer (c, in, a, attach, last)) &&
           !refuse_members (c, in->op, a))
    attach_begin (c, in, a, attach);
}

/* The holder has said nothing, or is over. */
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
                const char *name, const struct cluster_attach *attach)
{
  struct cluster_array *a = cluster_array_find (c, name);

  cluster_begin (c, in);
  if (a == NULL)
    cluster_refuse (c, in->op, CLUSTER_NOT_FOUND, "unknown-array",
                    "there is no array %s: GET /api/v1/arrays lists them",
                    name);
  else
    attach_try (c, in, a, attach, false);
  cluster_end (c);
}
