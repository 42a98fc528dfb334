/* replies.c: see replies.h. */

#include <config.h>

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "replies.h"
#include "text.h"
#include "format/token.h"

/* A token of the committed epoch for a member. */
static json_t *
mint (const struct cluster *c, const struct cluster_array *a, unsigned member,
      uint64_t session, bool writable)
{
  struct token t
    = { .session = session, .writable = writable, .epoch = a->rec.epoch };
  uint8_t key[KEY_BYTES];
  char text[TOKEN_BYTES_MAX + 1];

  memcpy (t.array, a->rec.uuid, 16);
  memcpy (t.member, a->disk[member]->rec.uuid, 16);
  cluster_member_key (c, a, member, key);
  token_mint (&t, key, text);
  return json_string (text);
}

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

/* Only what is committed: a member acts on nothing else. */
static json_t *
states_list (const struct cluster_array *a)
{
  json_t *list = json_array ();

  for (unsigned m = 0; m < a->layout.members; m++)
    json_array_append_new (list, state_word (a->rec.member[m].state));
  return list;
}

static json_t *
assignment (const struct cluster_disk *d)
{
  const struct cluster_array *a = d->array;

  return json_pack ("{so ss sI ss sI sI so so ss so so}", "array",
                    text_uuid (a->rec.uuid), "name", a->rec.name, "position",
                    (json_int_t) d->position, "layout",
                    layout_name (a->rec.layout), "n", (json_int_t) a->rec.n,
                    "groups", (json_int_t) a->rec.groups, "unit",
                    text_number (a->rec.unit), "member_bytes",
                    text_number (a->rec.member_bytes), "dup",
                    array_dup_name (a->rec.dup), "epoch",
                    text_number (a->rec.epoch), "states", states_list (a));
}

static json_t *
join_source (const struct cluster *c, const struct cluster_array *a, unsigned m)
{
  return json_pack ("{sI so s{so so}}", "member", (json_int_t) m, "uri",
                    text_string (a->disk[m]->rec.uri), "tokens", "data",
                    mint (c, a, m, 0, false), "intents",
                    mint (c, a, m, 0, false));
}

/* What a joining member is to do; null: nothing yet. */
static json_t *
join_order (const struct cluster *c, const struct cluster_disk *d)
{
  const struct cluster_array *a = d->array;
  struct cluster_join_order order;
  json_t *sources;

  if (!cluster_join_order (c, a, d->position, &order))
    return json_null ();
  sources = json_array ();
  for (unsigned m = 0; m < a->layout.members; m++)
    if (order.source[m])
      json_array_append_new (sources, join_source (c, a, m));
  return json_pack ("{so sb so so so}", "epoch", text_number (order.epoch),
                    "paused", order.paused, "rate", text_number (order.rate),
                    "round", text_number (order.round), "sources", sources);
}

json_t *
reply_disk (const struct cluster *c, const struct cluster_disk *d,
            bool no_news)
{
  static const uint8_t zero[16];
  const struct cluster_identity *i = cluster_identity (c);
  bool releases = memcmp (d->rec.release, zero, 16) != 0;
  /* A disk that is to forget a place is given none in the same breath. */
  bool has_place = d->array && !releases;
  bool same = has_place && d->knows && no_news;
  uint8_t key[KEY_BYTES];
  json_t *view;

  view = json_pack (
    "{so so so so so sI}", "generation", text_number (i->generation),
    "cluster", text_uuid (i->uuid), "min_epoch",
    text_number (cluster_disk_min_epoch_wanted (d)), "assignment",
    same ? json_true () : has_place ? assignment (d) : json_null (), "join",
    has_place ? join_order (c, d) : json_null (), "ttl_ms",
    (json_int_t) MEMBER_TTL_MS);

  if (!same) {
    cluster_disk_key (d, key);
    json_object_set_new (view, "key", text_hex (key, KEY_BYTES));
  }
  if (releases)
    json_object_set_new (view, "release", text_uuid (d->rec.release));
  return view;
}

/* ---- Sessions. ---- */

static json_t *
map_member (const struct cluster *c, const struct cluster_array *a, unsigned m,
            const struct cluster_session *s)
{
  const struct cluster_disk *d = a->disk[m];
  bool writable = s->rec.writable;
  char name[16];

  snprintf (name, sizeof name, "m%u", m);
  return json_pack (
    "{so ss ss so so so so sb s{so so so}}", "uri", text_string (d->rec.uri),
    "name", name, "state", member_state_name (a->rec.member[m].state), "fence",
    text_number (a->rec.member[m].fence), "lapse",
    text_number (a->rec.member[m].lapse), "disk", text_uuid (d->rec.uuid),
    "round", text_number (d->round), "known", a->known[m],
    "tokens", "data", mint (c, a, m, s->rec.id, writable), "batch",
    mint (c, a, m, s->rec.id, writable), "intents",
    mint (c, a, m, s->rec.id, writable));
}

static json_t *
map (const struct cluster *c, const struct cluster_array *a,
     const struct cluster_session *s)
{
  json_t *members = json_array ();

  for (unsigned m = 0; m < a->layout.members; m++)
    json_array_append_new (members, map_member (c, a, m, s));
  return json_pack ("{ss ss sI sI so ss so so so so so}", "name", a->rec.name,
                    "layout", layout_name (a->rec.layout), "n",
                    (json_int_t) a->rec.n, "groups", (json_int_t) a->rec.groups,
                    "unit", text_number (a->rec.unit), "dup",
                    array_dup_name (a->rec.dup), "epoch",
                    text_number (a->rec.epoch), "round",
                    text_number (a->rec.round), "session",
                    text_session (s->rec.id), "member_bytes",
                    text_number (a->rec.member_bytes), "members", members);
}

json_t *
reply_grant (const struct cluster *c, const struct cluster_array *a,
             const struct cluster_session *s)
{
  return json_pack ("{so sI so so sb}", "session", text_session (s->rec.id),
                    "ttl_ms", (json_int_t) SESSION_TTL_MS, "generation",
                    text_number (cluster_identity (c)->generation), "map",
                    map (c, a, s), "bad", cluster_array_bad_any (a));
}

/* The change that every session is to prepare itself for, if there is one. */
static json_t *
change (const struct cluster_array *a)
{
  const struct cluster_change *change = &a->rec.change;
  json_t *states;

  if (change->epoch == 0 || !change->sessions)
    return json_null ();
  states = json_array ();
  for (unsigned m = 0; m < a->layout.members; m++)
    json_array_append_new (
      states, state_word ((enum member_state) change->states[m]));
  return json_pack ("{so so}", "epoch", text_number (change->epoch), "states",
                    states);
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
    json_array_append_new (ranges,
                           json_pack ("[oo]",
                                      text_number (loss->range[i].offset),
                                      text_number (loss->range[i].length)));
  return json_pack ("{so so so}", "number", text_number (loss->number),
                    "epoch", text_number (loss->epoch), "ranges", ranges);
}

json_t *
reply_session (const struct cluster *c, const struct cluster_array *a,
               const struct cluster_session *s, uint64_t epoch, bool no_news)
{
  bool same = no_news && epoch == a->rec.epoch;
  json_t *view
    = json_pack ("{so so so sI so sb so*}", "generation",
                 text_number (cluster_identity (c)->generation), "epoch",
                 text_number (a->rec.epoch), "states",
                 same ? json_true () : states_list (a), "ttl_ms",
                 (json_int_t) SESSION_TTL_MS, "change", change (a), "bad",
                 cluster_array_bad_any (a), "accept_loss", loss (c, s));

  if (epoch != a->rec.epoch)
    json_object_set_new (view, "map", map (c, a, s));
  return view;
}
