/* routes-node-token.c: tokens by which new hosts enroll (routes-enroll.c).
 *
 * Only the hash of a token is kept.  Its beginning is what a token is called, so
 * that it can be taken back: it tells nothing of the token.
 */

#include <config.h>

#include <string.h>

#include <openssl/crypto.h>

#include "alloc.h"
#include "common/clock.h"
#include "auth-request.h"
#include "fields.h"
#include "routes-internal.h"
#include "text.h"

#define TOKEN_SECONDS_DEFAULT 900
#define TOKEN_SECONDS_MAX (24 * 3600)

static void
parse_node_token (struct fields *f, struct request *r)
{
  struct auth_request *q = r->input;

  if (fields_has (f, "node"))
    fields_name (f, "node", q->name, sizeof q->name);
  strcpy (r->subject, q->name);
  q->seconds = TOKEN_SECONDS_DEFAULT;
  if (fields_has (f, "ttl_s"))
    fields_u64 (f, "ttl_s", 1, TOKEN_SECONDS_MAX, &q->seconds);
  if (fields_has (f, "addresses"))
    addresses_take (f, "addresses", false, q->addresses);
  fields_end (f);
}

static void
handle_node_token (struct loop *l, struct request *r)
{
  const struct auth_request *q = r->input;
  struct auth *a = loop_auth (l);
  char text[AUTH_SECRET_BYTES];
  struct store_txn *t;
  struct secret *s;
  uint64_t last = auth_script_end (a, &r->caller);
  size_t count = 0;
  json_t *body;

  TAILQ_FOREACH (s, &a->secrets, link)
    count += s->kind == SECRET_NODE_TOKEN;
  if (count >= AUTH_TOKENS_MAX) {
    loop_refuse (
      l, r, 409, NULL, "too-many",
      "too many tokens for nodes were made within a day: try again later");
    return;
  }
  s = alloc_zeroed (sizeof *s);
  t = store_txn_new ();
  s->kind = SECRET_NODE_TOKEN;
  strcpy (s->name, q->name);
  strcpy (s->addresses, q->addresses);
  strcpy (s->by, r->caller.owner);
  s->created = clock_wall_ms ();
  s->expires = s->created + q->seconds * 1000;
  if (s->expires > last)
    s->expires = last;
  auth_words_secret_make (text, s->hash);
  auth_store_put_secret (a, t, s);
  body = fields_object ((const struct field_value[]) {
    { "token", text_string (text) },
    { "node", text_or_null (s->name) },
    { "addresses", addresses_list (s->addresses) },
    { "ca_fingerprint", text_string (ca_fingerprint (trust_ca (a->trust))) },
    { "expires_at", text_time (s->expires) },
    { NULL } });
  OPENSSL_cleanse (text, sizeof text);
  loop_answer_stored (l, r, 201, body, t);
}

static uint64_t
id_of (const struct secret *s)
{
  uint64_t id = 0;

  for (unsigned i = 0; i < 8; i++)
    id = id << 8 | s->hash[i];
  return id;
}

/* Could somebody enroll by it now? */
static bool
is_open (const struct secret *s, uint64_t wall_ms)
{
  return s->kind == SECRET_NODE_TOKEN && !s->spent &&
         !auth_secret_expired (s, wall_ms);
}

static void
handle_node_tokens (struct loop *l, struct request *r)
{
  const struct secret *s;
  json_t *list = json_array ();

  TAILQ_FOREACH (s, &loop_auth (l)->secrets, link)
    if (is_open (s, clock_wall_ms ()))
      json_array_append_new (list,
                             fields_object ((const struct field_value[]) {
                               { "id", text_session (id_of (s)) },
                               { "node", text_or_null (s->name) },
                               { "addresses", addresses_list (s->addresses) },
                               { "created_at", text_time (s->created) },
                               { "created_by", text_or_null (s->by) },
                               { "expires_at", text_time (s->expires) },
                               { NULL } }));
  loop_answer (l, r, 200, list);
}

static void
handle_node_token_delete (struct loop *l, struct request *r)
{
  struct auth *a = loop_auth (l);
  struct store_txn *t;
  struct secret *s;

  TAILQ_FOREACH (s, &a->secrets, link)
    if (is_open (s, clock_wall_ms ()) && id_of (s) == r->id)
      break;
  if (s == NULL) {
    loop_refuse (l, r, 404, NULL, "unknown-token",
                 "there is no such token for a node (any more): GET "
                 "/api/v1/node-tokens lists them");
    return;
  }
  t = store_txn_new ();
  auth_store_drop_secret (a, t, s);
  loop_answer_stored (
    l, r, 200, json_pack ("{so sb}", "id", text_session (r->id), "deleted", 1),
    t);
}

const struct route routes_node_token[] = {
  { "GET", V1 "/node-tokens", .who = WHO_ADMIN, .query = QUERY_PAGE,
    .list = "node_tokens", .key = "id", .handle = handle_node_tokens },
  { "POST", V1 "/node-tokens", .secret = true, AUTH_INPUT,
    .parse = parse_node_token, .handle = handle_node_token },
  { "DELETE", V1 "/node-tokens/{id}", .handle = handle_node_token_delete },
  { NULL },
};
