/* replies.c: see replies.h. */

#include <config.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allow.h"
#include "fields.h"
#include "replies.h"
#include "text.h"
#include "views.h"

/* ---- Disks. ---- */

/* Every reply has many of them, so each is made once.  (Who sends the reply, on
 * another thread, just counts its uses: jansson does that atomically.)
 */
static json_t *
state_word (enum member_state state)
{
  static json_t *words[8];

  assert (state < sizeof words / sizeof words[0]);
  if (words[state] == NULL)
    words[state] = json_string (member_state_name (state));
  return json_incref (words[state]);
}

/* The states of this change; NULL: only committed ones, because a member acts
 * on nothing else.
 */
static json_t *
states_list (const struct cluster_array *a, const struct cluster_change *change)
{
  json_t *list = json_array ();

  for (unsigned m = 0; m < a->layout.members; m++)
    json_array_append_new (
      list, state_word (change ? (enum member_state) change->states[m]
                               : a->rec.member[m].state));
  return list;
}

static json_t *
assignment (const struct cluster_array *a, unsigned position)
{
  return fields_object ((const struct field_value[]) {
    { "array", text_uuid (a->rec.uuid) },
    { "name", text_string (a->rec.name) },
    { "position", json_integer (position) },
    { "layout", text_string (layout_name (a->rec.layout)) },
    { "n", json_integer (a->rec.n) },
    { "groups", json_integer (a->rec.groups) },
    { "unit", text_number (a->rec.unit) },
    { "member_bytes", text_number (a->rec.member_bytes) },
    { "dup", text_string (array_dup_name (a->rec.dup)) },
    { "epoch", text_number (a->rec.epoch) },
    { "states", states_list (a, NULL) },
    { NULL } });
}

static json_t *
join_order (const struct cluster *c, const struct cluster_array *a,
            unsigned position, const struct cluster_join_order *order)
{
  uint64_t session = cluster_shut_source (a, position);
  json_t *sources = json_array ();
  char token[TOKEN_BYTES_MAX + 1];

  for (unsigned m = 0; m < a->layout.members; m++) {
    if (!order->source[m])
      continue;
    cluster_source_token (c, a, m, position, session, token);
    json_array_append_new (
      sources, json_pack ("{sI so s{ss ss}}", "member", (json_int_t) m, "uri",
                          text_string (a->disk[m]->rec.uri), "tokens", "data",
                          token, "intents", token));
  }
  return fields_object (
    (const struct field_value[]) { { "epoch", text_number (order->epoch) },
                                   { "paused", json_boolean (order->paused) },
                                   { "rate", text_number (order->rate) },
                                   { "round", text_number (order->round) },
                                   { "sources", sources },
                                   { NULL } });
}

json_t *
reply_disk (const struct cluster *c, const struct cluster_disk *d, bool no_news)
{
  struct cluster_disk_told r;
  json_t *view;

  cluster_disk_told (c, d, no_news, &r);
  view = fields_object ((const struct field_value[]) {
    { "generation", text_number (r.generation) },
    { "cluster", text_uuid (r.cluster) },
    { "min_epoch", text_number (r.min_epoch) },
    { "assignment", r.same    ? json_true ()
                    : r.place ? assignment (r.place, r.position)
                              : json_null () },
    { "join",
      r.joins ? join_order (c, r.place, r.position, &r.order) : json_null () },
    { "ttl_ms", json_integer (MEMBER_TTL_MS) },
    { NULL } });
  if (!r.same)
    json_object_set_new (view, "key", text_hex (r.key, KEY_BYTES));
  if (r.releases)
    json_object_set_new (view, "release", text_uuid (r.release));
  if (r.over_count)
    json_object_set_new (view, "over", view_over (r.over, r.over_count));
  return view;
}

/* ---- Sessions. ---- */

static json_t *
map_member (const struct cluster *c, const struct cluster_array *a, unsigned m,
            const struct cluster_session *s)
{
  const struct cluster_disk *d = a->disk[m];
  char name[16], token[TOKEN_BYTES_MAX + 1];

  snprintf (name, sizeof name, "m%u", m);
  cluster_member_token (c, a, m, s, token);
  return json_pack ("{so ss ss so so so so so so sb s{ss ss ss}}", "uri",
                    text_string (d->rec.uri), "name", name, "state",
                    member_state_name (a->rec.member[m].state), "fence",
                    text_number (a->rec.member[m].fence), "lapse",
                    text_number (a->rec.member[m].lapse), "life",
                    text_number (cluster_member_life (a, m)), "life_round",
                    text_number (cluster_member_life_round (a, m)), "disk",
                    text_uuid (d->rec.uuid), "round",
                    text_number (cluster_member_round (a, m)), "known",
                    cluster_member_known (a, m, s), "tokens", "data", token,
                    "batch", token, "intents", token);
}

static json_t *
map (const struct cluster *c, const struct cluster_array *a,
     const struct cluster_session *s)
{
  json_t *members = json_array ();

  for (unsigned m = 0; m < a->layout.members; m++)
    json_array_append_new (members, map_member (c, a, m, s));
  return fields_object ((const struct field_value[]) {
    { "name", text_string (a->rec.name) },
    { "layout", text_string (layout_name (a->rec.layout)) },
    { "n", json_integer (a->rec.n) },
    { "groups", json_integer (a->rec.groups) },
    { "unit", text_number (a->rec.unit) },
    { "dup", text_string (array_dup_name (a->rec.dup)) },
    { "epoch", text_number (a->rec.epoch) },
    { "round", text_number (a->rec.round) },
    { "session", text_session (s->rec.id) },
    { "member_bytes", text_number (a->rec.member_bytes) },
    { "members", members },
    { NULL } });
}

/* The nodes whose clients must be refused.  A process that an administrator has
 * attached, as always with --no-login, serves all nodes.
 */
static void
add_fences (const struct cluster *c, const struct cluster_array *a,
            const struct cluster_session *s, json_t *view)
{
  json_object_set_new (view, "fences", text_number (cluster_fence_number (c)));
  json_object_set_new (view, "fenced", view_fenced (c));
  json_object_set_new (view, "allow",
                       s->rec.by_admin ? json_null ()
                                       : allow_modes_json (&a->rec.allow));
}

/* The first session that shares the array begins with all of it, and must
 * recover that.
 */
static json_t *
first_leases (const struct cluster *c, const struct cluster_array *a,
              const struct cluster_session *s)
{
  struct cluster_lease_told told;
  bool all;

  cluster_lease_told (c, a, s, &told);
  all = told.count == 1 && told.ranges[0].length == a->layout.size;
  free (told.revoke);
  free (told.ranges);
  return json_pack ("{so sb}", "order", text_number (all ? told.recover : 0),
                    "declare", !s->lessee.declared);
}

json_t *
reply_pool (const struct cluster_array *a, const struct cluster_session *s)
{
  const struct pool_header *g;

  if (a->pool == NULL && a->rec.pool != CLUSTER_POOL_UNKNOWN)
    return json_null ();
  if (a->pool == NULL)
    return json_pack ("{sb so so}", "unknown", 1, "uuid",
                      text_uuid (a->rec.uuid), "volumes",
                      text_number (s->rec.volumes));
  g = &a->pool->geometry;
  return fields_object ((const struct field_value[]) {
    { "uuid", text_uuid (a->rec.uuid) },
    { "segment_bytes", text_number (g->segment_bytes) },
    { "segments", json_integer (g->segments) },
    { "roots", json_integer (g->roots) },
    { "formatted", json_boolean (a->rec.pool != CLUSTER_POOL_BLANK) },
    { "scan", json_boolean (a->rec.pool == CLUSTER_POOL_UNSCANNED) },
    { "volumes", text_number (s->rec.volumes) },
    { NULL } });
}

json_t *
reply_grant (const struct cluster *c, const struct cluster_array *a,
             const struct cluster_session *s)
{
  json_t *view = fields_object ((const struct field_value[]) {
    { "session", text_session (s->rec.id) },
    { "ttl_ms", json_integer (SESSION_TTL_MS) },
    { "generation", text_number (cluster_identity (c)->generation) },
    { "map", map (c, a, s) },
    { "bad", json_boolean (cluster_array_bad_any (a)) },
    { NULL } });

  if (cluster_session_guarded (s))
    add_fences (c, a, s, view);
  if (s->rec.part.length > 0)
    json_object_set_new (view, "leases", first_leases (c, a, s));
  if (a->pool || (a->rec.pool == CLUSTER_POOL_UNKNOWN && s->rec.scans &&
                  s->rec.part.length == 0))
    json_object_set_new (view, "pool", reply_pool (a, s));
  if (a->moved)
    json_object_set_new (view, "hold", json_true ());
  return view;
}

/* The ranges that others wait for, and those to recover. */
static void
add_leases (const struct cluster *c, const struct cluster_array *a,
            const struct cluster_session *s, json_t *view)
{
  struct cluster_lease_told told;
  json_t *revoke = json_array (), *ranges = json_array ();

  cluster_lease_told (c, a, s, &told);
  for (unsigned i = 0; i < told.revokes; i++)
    json_array_append_new (
      revoke, json_pack ("{so so}", "must", view_range (&told.revoke[i].must),
                         "wish", view_range (&told.revoke[i].wish)));
  for (unsigned i = 0; i < told.count; i++)
    json_array_append_new (ranges, view_range (&told.ranges[i]));
  if (told.revokes)
    json_object_set (view, "revoke", revoke);
  if (told.recover)
    json_object_set_new (view, "recover",
                         json_pack ("{so sO}", "order",
                                    text_number (told.recover), "ranges",
                                    ranges));
  json_decref (revoke);
  json_decref (ranges);
  free (told.revoke);
  free (told.ranges);
}

static void
add_orders (const struct cluster_array *a, json_t *view)
{
  json_t *orders = view_orders (a);

  if (json_array_size (orders) > 0)
    json_object_set (view, "volumes", orders);
  json_decref (orders);
}

/* NULL: none. */
static json_t *
loss (const struct cluster *c, const struct cluster_session *s)
{
  const struct cluster_loss *loss = cluster_session_loss (c, s);
  json_t *ranges;

  if (loss == NULL)
    return NULL;
  ranges = json_array ();
  for (unsigned i = 0; i < loss->count; i++)
    json_array_append_new (
      ranges, json_pack ("[oo]", text_number (loss->range[i].offset),
                         text_number (loss->range[i].length)));
  return json_pack ("{so so so}", "number", text_number (loss->number), "epoch",
                    text_number (loss->epoch), "ranges", ranges);
}

json_t *
reply_session (const struct cluster *c, const struct cluster_array *a,
               const struct cluster_session *s, uint64_t epoch, bool no_news)
{
  struct cluster_session_told r;
  json_t *view;

  cluster_session_told (c, a, s, epoch, no_news, &r);
  view = json_pack (
    "{so so so sI so sb so*}", "generation", text_number (r.generation),
    "epoch", text_number (r.epoch), "states",
    r.same ? json_true () : states_list (a, NULL), "ttl_ms",
    (json_int_t) SESSION_TTL_MS, "change",
    r.change ? json_pack ("{so so}", "epoch", text_number (r.change->epoch),
                          "states", states_list (a, r.change))
             : json_null (),
    "bad", cluster_array_bad_any (a), "accept_loss", loss (c, s));
  if (r.hold)
    json_object_set_new (view, "hold", json_true ());
  if (r.leave)
    json_object_set_new (view, "leave", json_true ());
  if (r.fences)
    add_fences (c, a, s, view);
  if (s->rec.part.length > 0)
    add_leases (c, a, s, view);
  if (r.has_map)
    json_object_set_new (view, "map", map (c, a, s));
  if (a->pool && s->rec.writable)
    add_orders (a, view);
  return view;
}
