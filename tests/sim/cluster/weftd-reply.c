/* weftd-reply.c: the content of weftd's answers, as in server/views.c. */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

static int
status (enum cluster_problem_kind kind)
{
  switch (kind) {
  case CLUSTER_INVALID:
    return 400;
  case CLUSTER_FORBIDDEN:
    return 403;
  case CLUSTER_NOT_FOUND:
    return 404;
  case CLUSTER_CONFLICT:
    return 409;
  case CLUSTER_GONE:
    return 410;
  case CLUSTER_UNAVAILABLE:
    return 503;
  default:
    return 200;
  }
}

static void
mint (const struct cluster_array *a, unsigned member, const char *text,
      struct peer_address *p)
{
  p->process = process_at (a->disk[member]->rec.uri);
  p->fence = a->rec.member[member].fence;
  p->lapse = a->rec.member[member].lapse;
  p->life = cluster_member_life (a, member);
  snprintf (p->data, sizeof p->data, "data/%s", text);
  snprintf (p->batch, sizeof p->batch, "batch/%s", text);
  snprintf (p->intents, sizeof p->intents, "intents/%s", text);
}

static void
fill_disk (struct answer *a, const struct cluster_disk *d, bool no_news)
{
  struct member_desire *desire = &a->desire;
  struct cluster_disk_told r;
  char token[TOKEN_BYTES_MAX + 1];

  cluster_disk_told (w.weftd.engine, d, no_news, &r);
  desire->generation = r.generation;
  memcpy (desire->cluster, r.cluster, 16);
  memcpy (desire->release, r.release, 16);
  desire->min_epoch = r.min_epoch;
  a->same_place = r.same;
  memcpy (a->key, r.key, sizeof r.key);
  if (r.place && !r.same) {
    const struct cluster_array_record *rec = &r.place->rec;

    desire->assigned = true;
    memcpy (desire->array, rec->uuid, 16);
    desire->position = r.position;
    desire->layout = rec->layout;
    desire->n = rec->n;
    desire->groups = rec->groups;
    desire->unit = rec->unit;
    desire->member_bytes = rec->member_bytes;
    desire->dup = rec->dup;
    desire->epoch = rec->epoch;
    for (unsigned m = 0; m < r.place->layout.members; m++)
      desire->states[m] = rec->member[m].state;
  }
  a->has_order = r.joins;
  a->order = r.order;
  desire->join_epoch = r.order.epoch;
  desire->join_round = r.order.round;
  for (unsigned m = 0; r.joins && m < r.place->layout.members; m++)
    if (r.order.source[m]) {
      cluster_source_token (w.weftd.engine, r.place, m, r.position,
                            cluster_shut_source (r.place, r.position), token);
      mint (r.place, m, token, &a->peer[m]);
    }
  a->over_count = r.over_count;
  for (unsigned i = 0; i < r.over_count; i++)
    a->over[i] = (struct member_over) { r.over[i].number, r.over[i].session,
                                        r.over[i].epoch };
}

static struct array_range
range (const struct cluster_part *p)
{
  return (struct array_range) { p->offset, p->length };
}

static void
fill_leases (struct call *c, const struct cluster_output *o)
{
  struct cluster_lease_told told;

  cluster_lease_told (w.weftd.engine, o->array, o->session, &told);
  c->answer.declare = !o->session->lessee.declared;
  /* An attaching session hears only of an order that it begins with. */
  if (o->reply == CLUSTER_REPLY_SESSION ||
      (told.count == 1 && told.ranges[0].length == o->array->layout.size))
    c->answer.order_number = told.recover;
  c->revokes = told.revokes;
  c->revoke = make ((told.revokes + 1) * sizeof c->revoke[0]);
  for (unsigned i = 0; i < told.revokes; i++)
    c->revoke[i] = (struct lease_wish) { range (&told.revoke[i].must),
                                         range (&told.revoke[i].wish) };
  c->ranges_count = told.count;
  c->ranges = make ((told.count + 1) * sizeof c->ranges[0]);
  for (unsigned i = 0; i < told.count; i++)
    c->ranges[i] = range (&told.ranges[i]);
  free (told.revoke);
  free (told.ranges);
}

static void
fill_session (struct call *c, const struct cluster_output *o)
{
  struct answer *a = &c->answer;
  const struct cluster_array *array = o->array;
  const struct cluster_session *s = o->session;
  struct cluster_session_told r;

  cluster_session_told (w.weftd.engine, array, s,
                        c->kind == CALL_SESSION ? c->session.epoch : 0, false,
                        &r);
  a->session = s->rec.id;
  a->generation = r.generation;
  if (s->rec.part.length > 0)
    fill_leases (c, o);
  a->epoch = r.epoch;
  a->hold = r.hold;
  memcpy (a->array, array->rec.uuid, 16);
  for (unsigned m = 0; m < array->layout.members; m++) {
    a->states[m] = array->rec.member[m].state;
    a->change_states[m] = array->rec.change.states[m];
  }
  a->change_epoch = r.change ? r.change->epoch : 0;
  a->has_map = r.has_map;
  a->round = array->rec.round;
  for (unsigned m = 0; a->has_map && m < array->layout.members; m++) {
    struct peer_address *p = &a->peer[m];
    char token[TOKEN_BYTES_MAX + 1];

    cluster_member_token (w.weftd.engine, array, m, s, token);
    mint (array, m, token, p);
    p->round = p->reach = cluster_member_round (array, m);
    p->life_round = cluster_member_life_round (array, m);
    if (cluster_member_known (array, m, s))
      p->reach = s->rec.part.length > 0 ? UINT64_MAX
                 : a->round > p->reach  ? a->round
                                        : p->reach;
  }
}

void
weftd_fill (struct call *c, const struct cluster_output *o)
{
  struct answer *a = &c->answer;

  memset (a, 0, sizeof *a);
  a->status = 200;
  switch (o->reply) {
  case CLUSTER_REPLY_PROBLEM:
    a->status = status (o->problem->kind);
    a->code = o->problem->code;
    a->retry = o->problem->retry;
    a->retry_after_ms = o->problem->retry_after_ms;
    a->held = o->problem->holder_node[0] != '\0';
    a->holder = o->problem->holder;
    a->holder_heard_ms = o->problem->holder_silent_ms;
    memcpy (a->holder_process, o->problem->holder_process,
            sizeof a->holder_process);
    if (c->kind != CALL_DISK && strcmp (a->code, "held") != 0)
      TRACE (&w.weftd.proc, "refuses %s %u: %s", c->from->kind, c->from->number,
             o->problem->detail);
    break;
  case CLUSTER_REPLY_DISK:
    fill_disk (a, o->disk, c->disk.same);
    break;
  case CLUSTER_REPLY_GRANT:
  case CLUSTER_REPLY_SESSION:
    fill_session (c, o);
    break;
  case CLUSTER_REPLY_LEASES:
    c->grants = o->granted_count;
    for (unsigned i = 0; i < c->grants; i++)
      c->granted[i] = range (&o->granted[i]);
    break;
  case CLUSTER_REPLY_ARRAY:
  case CLUSTER_REPLY_NODE:
  case CLUSTER_REPLY_JOB:
  case CLUSTER_REPLY_DONE:
  case CLUSTER_REPLY_VOLUME: /* it has no pools */
  case CLUSTER_REPLY_OPENED:
  case CLUSTER_REPLY_VOLUMES:
  case CLUSTER_REPLY_SCANNED:
    break;
  }
}
