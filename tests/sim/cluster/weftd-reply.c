/* weftd-reply.c: what weftd's answers say, as server/views.c does. */

#include <config.h>

#include <stdio.h>
#include <string.h>

#include "world.h"

static int
status (enum cluster_problem_kind kind)
{
  switch (kind) {
  case CLUSTER_INVALID:
    return 400;
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
mint (const struct cluster_array *a, unsigned member, uint64_t session,
      bool writable, struct peer_address *p)
{
  const struct cluster_disk *d = a->disk[member];
  struct token t = { .session = session, .writable = writable,
                     .epoch = a->rec.epoch };
  uint8_t key[KEY_BYTES];
  char text[TOKEN_BYTES_MAX + 1];

  memcpy (t.array, a->rec.uuid, 16);
  memcpy (t.member, d->rec.uuid, 16);
  cluster_member_key (w.weftd.engine, a, member, key);
  token_mint (&t, key, text);
  p->process = process_at (d->rec.uri);
  p->fence = a->rec.member[member].fence;
  p->lapse = a->rec.member[member].lapse;
  snprintf (p->data, sizeof p->data, "data/%s", text);
  snprintf (p->batch, sizeof p->batch, "batch/%s", text);
  snprintf (p->intents, sizeof p->intents, "intents/%s", text);
}

static void
fill_place (struct member_desire *desire, const struct cluster_array *array,
            unsigned position)
{
  desire->assigned = true;
  memcpy (desire->array, array->rec.uuid, 16);
  desire->position = position;
  desire->layout = array->rec.layout;
  desire->n = array->rec.n;
  desire->groups = array->rec.groups;
  desire->unit = array->rec.unit;
  desire->member_bytes = array->rec.member_bytes;
  desire->dup = array->rec.dup;
  desire->epoch = array->rec.epoch;
  for (unsigned m = 0; m < array->layout.members; m++)
    desire->states[m] = array->rec.member[m].state;
}

static void
fill_disk (struct answer *a, const struct cluster_disk *d, bool no_news)
{
  const struct cluster_array *array = d->array;
  struct member_desire *desire = &a->desire;

  desire->generation = cluster_identity (w.weftd.engine)->generation;
  memcpy (desire->cluster, cluster_identity (w.weftd.engine)->uuid, 16);
  memcpy (desire->release, d->rec.release, 16);
  desire->min_epoch = cluster_disk_min_epoch_wanted (d);
  a->same_place = array && d->knows && no_news;
  if (!a->same_place)
    cluster_disk_key (d, a->key);
  if (array && !a->same_place)
    fill_place (desire, array, d->position);
  if (array == NULL)
    return;
  a->has_order = cluster_join_order (w.weftd.engine, array, d->position,
                                     &a->order);
  if (!a->has_order)
    return;
  desire->join_epoch = a->order.epoch;
  desire->join_round = a->order.round;
  for (unsigned m = 0; m < array->layout.members; m++)
    if (a->order.source[m])
      mint (array, m, 0, false, &a->peer[m]);
}

static void
fill_session (struct call *c, const struct cluster_output *o)
{
  struct answer *a = &c->answer;
  const struct cluster_array *array = o->array;
  const struct cluster_session *s = o->session;
  const struct cluster_change *change = &array->rec.change;

  a->session = s->rec.id;
  a->epoch = array->rec.epoch;
  memcpy (a->array, array->rec.uuid, 16);
  for (unsigned m = 0; m < array->layout.members; m++) {
    a->states[m] = array->rec.member[m].state;
    a->change_states[m] = change->states[m];
  }
  if (change->epoch && change->sessions)
    a->change_epoch = change->epoch;
  a->has_map = o->reply == CLUSTER_REPLY_GRANT || c->kind == CALL_LOST ||
               s->epoch != array->rec.epoch;
  a->round = array->rec.round;
  for (unsigned m = 0; a->has_map && m < array->layout.members; m++) {
    struct peer_address *p = &a->peer[m];

    mint (array, m, s->rec.id, s->rec.writable, p);
    p->round = p->reach = array->disk[m]->round;
    if (array->known[m] && a->round > p->reach)
      p->reach = a->round;
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
    if (c->kind != CALL_DISK && strcmp (a->code, "held") != 0)
      TRACE (&w.weftd.proc, "refuses %s %u: %s", c->from->kind,
             c->from->number, o->problem->detail);
    break;
  case CLUSTER_REPLY_DISK:
    fill_disk (a, o->disk, c->disk.same);
    break;
  case CLUSTER_REPLY_GRANT:
  case CLUSTER_REPLY_SESSION:
    fill_session (c, o);
    break;
  case CLUSTER_REPLY_ARRAY:
  case CLUSTER_REPLY_NODE:
  case CLUSTER_REPLY_JOB:
  case CLUSTER_REPLY_DONE:
    break;
  }
}
