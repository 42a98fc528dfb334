/* cluster-lessee.c: reports of a session that shares an array by leases: the
 * ranges that it gives back, all its ranges, the ranges that it has recovered,
 * and the ranges that it asks for.
 *
 * Source: the range leases of the Redbud paper, section 4.1.
 */

#include <config.h>

#include <inttypes.h>
#include <string.h>

#include "cluster-inputs.h"

static bool
refuse_range (struct cluster *c, uint64_t op, const struct cluster_array *a,
              const char *field, const struct cluster_part *p)
{
  if (cluster_lease_fits (a, p, LEASE_BYTES))
    return false;
  cluster_step_refuse (
    c, op, CLUSTER_INVALID, "lease",
    "%" PRIu64 " bytes from %" PRIu64 " on are no lease of array "
    "%s, which has %" PRIu64 " bytes: a lease begins and ends at "
    "a multiple of %d, or ends where the array ends",
    p->length, p->offset, a->rec.name, a->layout.size, LEASE_BYTES)
    ->field = field;
  return true;
}

/* Is something of this not in the array, or no lease? */
static bool
refuse_ranges (struct cluster *c, uint64_t op, const struct cluster_array *a,
               const struct cluster_lease_message *message)
{
  for (unsigned i = 0; i < message->given_count; i++)
    if (refuse_range (c, op, a, "give", &message->given[i]))
      return true;
  for (unsigned i = 0; i < message->declared_count; i++)
    if (refuse_range (c, op, a, "declare", &message->declared[i]))
      return true;
  for (unsigned i = 0; i < message->asks; i++) {
    const struct cluster_lease_ask *ask = &message->ask[i];

    if (refuse_range (c, op, a, "ask", &ask->must) ||
        refuse_range (c, op, a, "ask", &ask->wish))
      return true;
    if (!cluster_part_has (&ask->wish, ask->must.offset, ask->must.length)) {
      cluster_step_refuse (
        c, op, CLUSTER_INVALID, "lease",
        "the wished range of array %s, %" PRIu64 " bytes from %" PRIu64
        " on, does not contain the required range, %" PRIu64
        " bytes from %" PRIu64 " on: send a wish that contains it",
        a->rec.name, ask->wish.length, ask->wish.offset, ask->must.length,
        ask->must.offset)
        ->field = "ask";
      return true;
    }
  }
  return false;
}

/* Take in what has a number, if it is a new one.  False: it was refused, and the session
 * is over.
 */
static bool
take_in (struct cluster *c, uint64_t op, struct cluster_array *a,
         struct cluster_session *s, const struct cluster_lease_message *message)
{
  if (message->number <= s->lessee.number)
    return true;
  s->lessee.number = message->number;
  /* Ranges that it has again by an order, after it gave them back, stay its
   * own.
   */
  for (unsigned i = 0; i < message->given_count; i++)
    cluster_lease_give (c, a, s, &message->given[i]);
  if (message->declare && !cluster_lease_declare (c, a, s, message->declared,
                                                  message->declared_count)) {
    cluster_step_refuse (c, op, CLUSTER_CONFLICT, "lease-overlap",
                         "session %016" PRIx64
                         " says that it has leases of array "
                         "%s that another has: it is over; attach again",
                         s->rec.id, a->rec.name);
    cluster_session_end_cut (c, s,
                             "weftd: it says that it has what another has");
    return false;
  }
  if (message->recovered)
    cluster_lease_recovered (c, a, s, message->recovered);
  return true;
}

/* Its node knows that the process of that session, which was one of its own, has ended:
 * nobody waits until it has been silent for its TTL.
 */
static void
end_other (struct cluster *c, struct cluster_array *a,
           const struct cluster_session *s, uint64_t id)
{
  struct cluster_session *other = cluster_session_find (c, id);
  struct cluster_attach word = { .ended = id };

  memcpy (word.node, s->rec.node, sizeof word.node);
  if (id == 0 || other == NULL || other == s || !other->rec.leases ||
      !cluster_session_of (other, a) ||
      !cluster_candidate_holder_gone (c, other, &word))
    return;
  cluster_step_log (c, CLUSTER_WARNING, "array", a->rec.name,
                    "Node %s, process %" PRIu64
                    ", which shared array %s, has ended: "
                    "process %" PRIu64 " of the same node knows so.",
                    other->rec.node, other->rec.pid, a->rec.name, s->rec.pid);
  cluster_session_end (c, other, "its node knows that its process has ended");
  cluster_session_end_left (c, a, false);
}

/* Since when does it wait?  It asks again when it was answered in vain. */
static void
note_asked (const struct cluster *c, struct cluster_lessee *l,
            const struct cluster_lease_message *message)
{
  const struct cluster_lessee before = *l;
  bool again = c->now_ms < l->asked_ms + HOLD_MS_MAX + HEARTBEAT_MS;

  memset (l->asked, 0, sizeof l->asked);
  l->asked_ms = c->now_ms;
  for (unsigned i = 0; i < message->asks; i++) {
    const struct cluster_part *must = &message->ask[i].must;

    l->asked[i].must = *must;
    l->asked[i].since_ms = c->now_ms;
    for (unsigned k = 0; again && k < LEASE_ASKS_MAX; k++)
      if (before.asked[k].must.offset == must->offset &&
          before.asked[k].must.length == must->length)
        l->asked[i].since_ms = before.asked[k].since_ms;
  }
}

static void
ask (struct cluster *c, uint64_t op, struct cluster_array *a,
     struct cluster_session *s, const struct cluster_lease_message *message)
{
  struct waiting *w, *next;

  /* It has given an older call up. */
  TAILQ_FOREACH_SAFE (w, &s->waitings, session_link, next)
    if (w->kind == WAIT_LEASES) {
      cluster_step_refuse (c, w->op, CLUSTER_CONFLICT, "superseded",
                           "the same process has asked again");
      cluster_wait_end (c, w);
    }
  w = cluster_wait (c, WAIT_LEASES, op,
                    message->wait_ms < HOLD_MS_MAX ? message->wait_ms
                                                   : HOLD_MS_MAX);
  w->array = a;
  TAILQ_INSERT_TAIL (&a->leases->asks, w, ask_link);
  cluster_wait_session (w, s);
  w->asks = message->asks;
  for (unsigned i = 0; i < message->asks; i++)
    w->ask[i] = message->ask[i];
  note_asked (c, &s->lessee, message);
  cluster_array_due (c, a, DUE_LEASES);
  if (message->wait_ms > 0)
    return;
  cluster_pump_settle (c);
  TAILQ_FOREACH (w, &a->leases->asks, ask_link)
    if (w->op == op) {
      cluster_lease_grant_late (c, w);
      return;
    }
}

static void
leases (struct cluster *c, uint64_t op, struct cluster_array *a,
        struct cluster_session *s, const struct cluster_lease_message *message)
{
  if (cluster_step_refuse_read_only (c, op))
    ;
  else if (s->rec.part.length == 0 ||
           (!s->rec.leases && message->given_count + message->asks > 0))
    cluster_step_refuse (c, op, CLUSTER_CONFLICT, "no-leases",
                         "session %016" PRIx64
                         " does not share array %s by leases: "
                         "attach it so (mode shared, without a part)",
                         s->rec.id, a->rec.name);
  else if (refuse_ranges (c, op, a, message))
    ;
  else if (message->declare ? message->number >> 32 !=
                                LEASE_NUMBERS (c->identity.generation) >> 32
                            : !s->lessee.declared)
    cluster_step_refuse (c, op, CLUSTER_CONFLICT, "declare",
                         "weftd was started, and does not know which leases of "
                         "array %s session %016" PRIx64 " has: declare them",
                         a->rec.name, s->rec.id);
  else if (!take_in (c, op, a, s, message))
    ;
  else if (message->asks > 0) {
    end_other (c, a, s, message->ended);
    ask (c, op, a, s, message);
  }
  else
    cluster_step_reply_leases (c, op, s, NULL, 0);
}

void
cluster_session_leases (struct cluster *c, const struct cluster_input *in,
                        uint64_t id,
                        const struct cluster_lease_message *message)
{
  struct cluster_session *s;

  cluster_step_begin (c, in);
  s = cluster_session_end_find_own (c, in->op, id, message->instance);
  if (s)
    leases (c, in->op, s->array, s, message);
  cluster_pump_end (c);
}
