/* cluster-session.c: a session's life: heartbeats and its end.  Its begin:
 * cluster-attach.c; members that it loses: cluster-lost.c.
 */

#include <config.h>

#include <inttypes.h>
#include <string.h>

#include "cluster-inputs.h"

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
  const struct array_stats *o = &s->load.stats;
  struct cluster_session_rates *r = &s->load.rates;
  uint64_t ms = c->now_ms - s->load.ms;
  /* A wait for memory begins or ends; a member is slow, or as its peers again. */
  bool turned = (o->memory_wait_ns == 0) != (n->memory_wait_ns == 0);

  if (s->load.ms != 0 && ms >= 200) { /* else it is too short for a rate */
    r->reads = cluster_object_rate (n->reads, o->reads, ms);
    r->writes = cluster_object_rate (n->writes, o->writes, ms);
    r->flushes = cluster_object_rate (n->flushes, o->flushes, ms);
    r->read_bytes = cluster_object_rate (n->read_bytes, o->read_bytes, ms);
    r->write_bytes = cluster_object_rate (n->write_bytes, o->write_bytes, ms);
    r->read_us = mean_us (n->read_ns, o->read_ns, n->reads, o->reads);
    r->write_us = mean_us (n->write_ns, o->write_ns, n->writes, o->writes);
    r->flush_us = mean_us (n->flush_ns, o->flush_ns, n->flushes, o->flushes);
  }
  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++)
    turned = turned || o->member[m].suspect != n->member[m].suspect ||
             (o->member[m].refused_ns == 0) != (n->member[m].refused_ns == 0);
  if (turned && s->rec.writable)
    cluster_step_changed_array (c, s->array);
  s->load.ms = c->now_ms;
  if (n != o)
    s->load.stats = *n;
}

static void
heartbeat (struct cluster *c, uint64_t op, struct cluster_session *s,
           struct cluster_array *a, const struct cluster_session_heartbeat *hb)
{
  uint64_t wait_ms = hb->wait_ms < HOLD_MS_MAX ? hb->wait_ms : HOLD_MS_MAX;
  /* An older version does not say it: it is not waited for. */
  uint64_t arrived = hb->arrived ? hb->arrived : hb->epoch;
  bool moved = s->epoch != hb->epoch || s->prepared != hb->prepared ||
               s->arrived != arrived;
  bool told;

  if (cluster_attach_refuse_late (c, op, a, s, hb->epoch))
    return;
  cluster_tell_session (c, s, true); /* it has given an older poll up */
  told = moved || !s->alive || s->draining != hb->draining;
  if (s->heard && !s->alive)
    cluster_step_log (c, CLUSTER_INFO, "session", s->rec.array_name,
                      "Node %s, process %" PRIu64 ", is heard of again.",
                      s->rec.node, s->rec.pid);
  if (!s->heard)
    s->lessee.heard_live_ms = c->live_ms;
  cluster_session_speaks (c, s);
  s->heard = s->alive = true;
  s->spoke_live_ms = c->live_ms;
  s->draining = hb->draining;
  /* It can't have heard of more: such a number confirms nothing. */
  s->fences = hb->fences <= cluster_fence_number (c) ? hb->fences : 0;
  memcpy (s->process, hb->process, sizeof s->process);
  s->epoch = hb->epoch;
  s->arrived = arrived;
  s->prepared = hb->prepared;
  cluster_lease_heard (c, s, hb);
  if (a->pool && hb->volumes > s->rec.volumes)
    cluster_volume_unscanned (c, a);
  if (hb->has_uri &&
      cluster_object_text_copy (s->rec.uri, sizeof s->rec.uri, hb->uri)) {
    cluster_step_put_session (c, s);
    told = true;
  }
  if (hb->has_stats)
    take_stats (c, s, &hb->stats);
  else if (hb->same_stats && s->load.ms != 0)
    take_stats (c, s, &s->load.stats);
  if (s->rec.writable) {
    if (hb->round <= cluster_rounds_said (c, a) + AHEAD_MAX)
      cluster_rounds_begun (c, a, hb->round);
    if (hb->older)
      cluster_lapse_older (c, a);
    if (hb->epoch == a->rec.epoch)
      cluster_rounds_settle (c, a, s, hb->round_entered);
    if (hb->equal && s->rec.part.length == 0) {
      cluster_lapse_equal (c, a);
      cluster_unequal_set (c, a, false);
    }
  }
  /* A process that serves a member of this epoch gets what is written now. */
  if (s->rec.writable && hb->epoch == a->rec.epoch)
    for (unsigned m = 0; m < a->layout.members; m++)
      a->disk[m]->served |= a->rec.member[m].state == MEMBER_IN_SYNC &&
                            cluster_disk_heard (a->disk[m]) &&
                            !cluster_process_unmet (a->disk[m]);
  if (told) {
    cluster_step_changed_session (c, s);
    cluster_array_due (c, a, DUE_LEASES);
  }
  cluster_attach_refuse_challengers (c, s);
  cluster_bad_mend (c, a, s);
  if (moved)
    cluster_array_due (c, a, DUE_CHANGE | DUE_MEMBERS);
  s->poll = cluster_wait (c, WAIT_SESSION, op, wait_ms);
  cluster_wait_session (s->poll, s);
  s->poll->array = a;
  TAILQ_INSERT_TAIL (&a->polls, s->poll, poll_link);
  cluster_pump_settle (c);
  cluster_tell_session (c, s, wait_ms == 0);
}

void
cluster_session_heartbeat (struct cluster *c, const struct cluster_input *in,
                           uint64_t id,
                           const struct cluster_session_heartbeat *hb)
{
  struct cluster_session *s;
  struct cluster_array *a;

  cluster_step_begin (c, in);
  s = cluster_session_end_find_own (c, in->op, id, hb->instance);
  if (s) {
    a = s->array;
    if (!cluster_doubt_session (c, in->op, s, a, hb))
      heartbeat (c, in->op, s, a, hb);
  }
  cluster_pump_end (c);
}

/* by: the one who ends it, if not the host itself. */
static void
end (struct cluster *c, const struct cluster_input *in, uint64_t id,
     const char *by)
{
  struct cluster_session *s = cluster_session_find (c, id);

  cluster_step_begin (c, in);
  if (!cluster_session_end_refused (c, in->op, id)) {
    /* A session that is over already was ended by this request, perhaps, whose
     * answer was lost: so that is a success.
     */
    cluster_step_reply_done (c, in->op, CLUSTER_SESSION, NULL, id,
                             s->rec.array_name);
    if (!s->rec.ended) {
      cluster_session_end_cut (c, s, by);
      cluster_session_end_prune (c);
    }
  }
  cluster_pump_end (c);
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
