/* routes-users.c: users, tokens and the audit trail. */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "alloc.h"
#include "common/clock.h"
#include "auth-request.h"
#include "fields.h"
#include "routes-internal.h"
#include "text.h"

#define AUDIT_LIMIT_DEFAULT 100
#define TOKEN_SECONDS_MAX (UINT64_C (10) * 366 * 24 * 3600)

/* ---- Reading bodies. ---- */

static void
take_role (struct fields *f, struct auth_request *a)
{
  int role = ROLE_NOBODY;

  fields_word (f, "role", auth_role_parse, "viewer, admin", &role);
  a->role = (enum auth_role) role;
}

static void
parse_user_add (struct fields *f, struct request *r)
{
  struct auth_request *a = r->input;

  fields_name (f, "name", a->name, sizeof a->name);
  strcpy (r->subject, a->name);
  take_role (f, a);
  auth_request_password (f, a);
  fields_end (f);
}

static void
parse_user_set (struct fields *f, struct request *r)
{
  struct auth_request *a = r->input;

  if (fields_has (f, "role"))
    take_role (f, a);
  if (fields_has (f, "password"))
    auth_request_password (f, a);
  if (fields_has (f, "current"))
    fields_text (f, "current", a->current, sizeof a->current);
  fields_end (f);
  if (!f->failed && a->role == ROLE_NOBODY && a->password[0] == '\0')
    fields_fail (
      f, "password",
      "fields password and role are missing: give at least one of them");
}

static void
parse_token_add (struct fields *f, struct request *r)
{
  struct auth_request *a = r->input;

  fields_name (f, "name", a->name, sizeof a->name);
  strcpy (r->subject, a->name);
  take_role (f, a);
  if (fields_has (f, "expires_s"))
    fields_u64 (f, "expires_s", 1, TOKEN_SECONDS_MAX, &a->seconds);
  if (fields_has (f, "login"))
    fields_bool (f, "login", &a->login);
  fields_end (f);
}

/* ---- Passwords, on the HTTP thread. ---- */

/* A user changes the own password only with the present one. */
static bool
is_own (const struct request *r)
{
  return r->caller.via == VIA_LOGIN && strcmp (r->caller.name, r->name) == 0;
}

static bool
prepare_user_set (struct loop *l, struct request *r)
{
  struct auth_request *q = r->input;

  if (q->password[0] == '\0' || (r->caller.role != ROLE_ADMIN && !is_own (r)))
    return true; /* the loop refuses that */
  if (is_own (r) &&
      !auth_request_try (l, r, r->name, q->current, AUTH_PASSWORD))
    return false;
  return auth_request_make_password (l, r);
}

/* ---- Users. ---- */

static json_t *
view_user (struct loop *l, const struct user *u)
{
  const struct auth *a = loop_auth (l);
  const struct secret *s;
  int logins = 0, tokens = 0;

  TAILQ_FOREACH (s, &a->secrets, link) {
    logins += s->kind == SECRET_LOGIN && strcmp (s->name, u->name) == 0;
    tokens += s->kind == SECRET_TOKEN && strcmp (s->by, u->name) == 0;
  }
  return fields_object ((const struct field_value[]) {
    { "name", text_string (u->name) },
    { "role", text_string (auth_role_word (u->role)) },
    { "created_at", text_time (u->created) },
    { "logins", json_integer (logins) },
    { "tokens", json_integer (tokens) },
    { "totp", json_boolean (u->totp.on) },
    { NULL } });
}

static void
handle_users (struct loop *l, struct request *r)
{
  const struct user *u;
  json_t *list = json_array ();

  TAILQ_FOREACH (u, &loop_auth (l)->users, link)
    json_array_append_new (list, view_user (l, u));
  loop_answer (l, r, 200, list);
}

/* NULL: refused. */
static struct user *
user_of_path (struct loop *l, struct request *r)
{
  struct user *u = auth_user (loop_auth (l), r->name);

  if (u == NULL)
    loop_refuse (l, r, 404, NULL, "unknown-user",
                 "there is no user %s: GET /api/v1/users lists them", r->name);
  return u;
}

static void
handle_user (struct loop *l, struct request *r)
{
  const struct user *u = user_of_path (l, r);

  if (u)
    loop_answer (l, r, 200, view_user (l, u));
}

static json_t *
etag_user (struct loop *l, const struct request *r)
{
  const struct user *u = auth_user (loop_auth (l), r->name);

  /* A caller without the right to see a user must not learn that the user
   * exists.
   */
  if (r->caller.role != ROLE_ADMIN && !is_own (r))
    return NULL;
  return u ? json_pack ("{ss so}", "role", auth_role_word (u->role), "salt",
                        text_hex (u->password.salt, sizeof u->password.salt))
           : NULL;
}

static void
handle_user_add (struct loop *l, struct request *r)
{
  const struct auth_request *q = r->input;
  struct auth *a = loop_auth (l);
  struct store_txn *t;
  struct user *u;
  size_t count = 0;

  TAILQ_FOREACH (u, &a->users, link)
    count++;
  if (auth_user (a, q->name)) {
    loop_refuse (l, r, 409, "name", "exists",
                 "there is a user %s already: give another name", q->name);
    return;
  }
  if (count >= AUTH_USERS_MAX) {
    loop_refuse (l, r, 409, NULL, "too-many",
                 "there are %d users already: delete one first",
                 AUTH_USERS_MAX);
    return;
  }
  t = store_txn_new ();
  u = auth_request_new_user (l, q);
  auth_store_put_user (a, t, u);
  loop_answer_stored (l, r, 201, view_user (l, u), t);
}

/* Would nobody be left who may do everything? */
static bool
refuse_last_admin (struct loop *l, struct request *r, const struct user *u)
{
  const struct user *other;

  if (u->role != ROLE_ADMIN)
    return false;
  TAILQ_FOREACH (other, &loop_auth (l)->users, link)
    if (other != u && other->role == ROLE_ADMIN)
      return false;
  loop_refuse (l, r, 409, NULL, "last-admin",
               "%s is the only administrator: make another first", u->name);
  return true;
}

static void
handle_user_set (struct loop *l, struct request *r)
{
  struct auth *a = loop_auth (l);
  struct auth_request *q = r->input;
  bool admin = r->caller.role == ROLE_ADMIN, password = q->password[0] != '\0';
  struct store_txn *t;
  struct user *u;

  if (!admin && (!is_own (r) || q->role != ROLE_NOBODY)) {
    loop_refuse (
      l, r, 403, NULL, "forbidden",
      "only an administrator may do this; anybody may change the own password, "
      "with the one that it is: on the page, or by weftctl user password");
    return;
  }
  u = user_of_path (l, r);
  if (u == NULL)
    return;
  if (password && is_own (r) &&
      (!q->verified ||
       memcmp (&u->password, &q->old, sizeof u->password) != 0)) {
    loop_refuse (l, r, 403, "current", "login-failed",
                 "field current must be the password as it is now");
    return;
  }
  if (q->role == ROLE_VIEWER && refuse_last_admin (l, r, u))
    return;
  t = store_txn_new ();
  if (password || (q->role != ROLE_NOBODY && q->role < u->role))
    auth_store_revoked (a, t);
  auth_request_set_user (a, u, q->role, password ? &q->new : NULL);
  auth_store_put_user (a, t, u);
  if (password) /* end logins by the old one */
    auth_store_drop_logins (a, t, u->name, is_own (r) ? r->caller.hash : NULL);
  /* Set by another: drop tokens, because they may have been made with the old
   * password.
   */
  if (password && strcmp (r->caller.owner, u->name) != 0)
    auth_store_drop_tokens (a, t, u->name);
  loop_answer_stored (l, r, 200, view_user (l, u), t);
}

static void
handle_user_delete (struct loop *l, struct request *r)
{
  struct user *u = user_of_path (l, r);
  struct store_txn *t;

  if (u == NULL || refuse_last_admin (l, r, u))
    return;
  t = store_txn_new ();
  auth_store_revoked (loop_auth (l), t);
  auth_store_drop_user (loop_auth (l), t, u);
  loop_answer_stored (l, r, 200,
                      json_pack ("{ss sb}", "name", r->name, "deleted", 1), t);
}

/* ---- The second factor. ---- */

static void
parse_totp (struct fields *f, struct request *r)
{
  struct auth_request *a = r->input;

  fields_bool (f, "on", &a->on);
  auth_request_code (f, a);
  snprintf (r->subject, sizeof r->subject, "%s %s", r->name,
            a->on ? "on" : "off");
  fields_end (f);
}

/* Is it the user in person, by a login of the page's or of weftctl's? */
static bool
is_in_person (struct loop *l, const struct request *r)
{
  return strcmp (r->caller.owner, r->name) == 0 &&
         !auth_is_script (loop_auth (l), &r->caller);
}

/* Users who turn off their own show that they have it, so that a login that was left open
 * does not do.
 */
static bool
prepare_totp (struct loop *l, struct request *r)
{
  const struct auth_request *q = r->input;

  return q->on || strcmp (r->caller.owner, r->name) != 0 ||
         auth_request_try (l, r, r->name, NULL, AUTH_CODE_ALONE);
}

/* Turn it on; the answer alone has the secret. */
static void
begin_totp (struct loop *l, struct request *r, struct user *u)
{
  struct auth *a = loop_auth (l);
  struct store_txn *t = store_txn_new ();
  uint8_t key[TOTP_KEY_BYTES];
  char text[TOTP_BASE32_BYTES], uri[160];
  json_t *body;

  if (RAND_bytes (key, sizeof key) != 1)
    abort ();
  auth_store_revoked (a, t); /* an older database would not ask for it */
  auth_request_set_totp (a, u, key);
  auth_store_put_user (a, t, u);
  totp_base32 (key, text);
  snprintf (uri, sizeof uri, "otpauth://totp/Weft:%s?secret=%s&issuer=Weft",
            u->name, text);
  body = fields_object (
    (const struct field_value[]) { { "name", text_string (u->name) },
                                   { "on", json_boolean (1) },
                                   { "secret", text_string (text) },
                                   { "uri", text_string (uri) },
                                   { NULL } });
  OPENSSL_cleanse (key, sizeof key);
  OPENSSL_cleanse (text, sizeof text);
  OPENSSL_cleanse (uri, sizeof uri);
  loop_answer_stored (l, r, 200, body, t);
}

static void
handle_totp (struct loop *l, struct request *r)
{
  const struct auth_request *q = r->input;
  struct auth *a = loop_auth (l);
  struct store_txn *t;
  struct user *u;

  if (r->caller.role != ROLE_ADMIN && !is_in_person (l, r)) {
    loop_refuse (l, r, 403, NULL, "forbidden",
                 "only an administrator may do this for somebody else; log in "
                 "to do it for yourself");
    return;
  }
  u = user_of_path (l, r);
  if (u == NULL)
    return;
  if (q->on == u->totp.on) {
    loop_refuse (l, r, 409, "on", "unchanged",
                 "the second factor of %s is %s already%s", u->name,
                 q->on ? "on" : "off",
                 q->on ? ": turn it off first to get another secret" : "");
    return;
  }
  if (q->on) {
    begin_totp (l, r, u);
    return;
  }
  if (strcmp (r->caller.owner, u->name) == 0 &&
      auth_request_refuse_code (l, r, u, 403))
    return;
  t = store_txn_new ();
  auth_request_set_totp (a, u, NULL);
  auth_store_put_user (a, t, u);
  loop_answer_stored (l, r, 200,
                      fields_object ((const struct field_value[]) {
                        { "name", text_string (u->name) },
                        { "on", json_boolean (0) },
                        { "secret", json_null () },
                        { "uri", json_null () },
                        { NULL } }),
                      t);
}

/* ---- Tokens. ---- */

/* An administrator may see all tokens, anybody else the own; and a script none that
 * may do more than it, though it be of the same user.
 */
static bool
may_see (const struct auth *a, const struct caller *caller,
         const struct secret *s)
{
  if (caller->role == ROLE_ADMIN)
    return true;
  return caller->owner[0] && strcmp (s->by, caller->owner) == 0 &&
         (s->role <= caller->role || !auth_is_script (a, caller));
}

static void
handle_tokens (struct loop *l, struct request *r)
{
  struct auth *a = loop_auth (l);
  const struct secret *s;
  json_t *list = json_array ();

  pthread_mutex_lock (&a->lock); /* HTTP threads write `used` */
  TAILQ_FOREACH (s, &a->secrets, link)
    if (s->kind == SECRET_TOKEN && may_see (a, &r->caller, s))
      json_array_append_new (
        list, fields_object ((const struct field_value[]) {
                { "name", text_string (s->name) },
                { "role", text_string (auth_role_word (s->role)) },
                { "login", json_boolean (s->login) },
                { "created_at", text_time (s->created) },
                { "created_by", text_or_null (s->by) },
                { "used_at", text_time (s->used) },
                { "expires_at", text_time (s->expires) },
                { NULL } }));
  pthread_mutex_unlock (&a->lock);
  loop_answer (l, r, 200, list);
}

/* Has the user, or have all but administrators, as many tokens as there may be? */
static bool
refuse_many_tokens (struct loop *l, struct request *r)
{
  const struct auth *a = loop_auth (l);
  const char *owner = r->caller.owner;
  unsigned own = 0, all = 0;
  const struct secret *s;
  const struct user *u;

  TAILQ_FOREACH (s, &a->secrets, link) {
    if (s->kind != SECRET_TOKEN)
      continue;
    u = auth_user (a, s->by);
    own += strcmp (s->by, owner) == 0;
    all += u == NULL || u->role != ROLE_ADMIN;
  }
  if (own >= AUTH_TOKENS_OF_USER_MAX)
    loop_refuse (l, r, 409, NULL, "too-many",
                 "user %s has %u tokens already, and %d is the most for one "
                 "user: delete one first (on the page, or by weftctl token rm)",
                 owner, own, AUTH_TOKENS_OF_USER_MAX);
  else if (r->caller.role != ROLE_ADMIN && all >= AUTH_TOKENS_MAX)
    loop_refuse (l, r, 409, NULL, "too-many",
                 "users who are no administrators have %u tokens already, and "
                 "%d is the most for all of them: delete one of yours first, "
                 "or ask an administrator to delete some",
                 all, AUTH_TOKENS_MAX);
  else
    return false;
  return true;
}

static void
handle_token_add (struct loop *l, struct request *r)
{
  struct auth *a = loop_auth (l);
  const struct auth_request *q = r->input;
  char text[AUTH_SECRET_BYTES];
  uint64_t now = clock_wall_ms (), last = auth_script_end (a, &r->caller),
           expires;
  struct store_txn *t;
  struct secret *s;
  json_t *body;

  if (r->caller.role < q->role) {
    loop_refuse (l, r, 403, "role", "forbidden",
                 "only an administrator may make a token for administrators, "
                 "and a node none at all");
    return;
  }
  expires = q->seconds ? now + q->seconds * 1000 : last;
  if (expires > last) {
    loop_refuse (l, r, 403, "expires_s", "forbidden",
                 "a token may make none that is valid for longer than itself: "
                 "log in to make one");
    return;
  }
  if (q->login && r->caller.via == VIA_TOKEN) {
    loop_refuse (l, r, 403, "login", "forbidden",
                 "a token cannot make the token of a login: give the password");
    return;
  }
  if (auth_token (a, q->name)) {
    loop_refuse (
      l, r, 409, "name", "exists",
      "there is a token %s already: give another name, or delete it first",
      q->name);
    return;
  }
  if (refuse_many_tokens (l, r))
    return;
  t = store_txn_new ();
  s = alloc_zeroed (sizeof *s);
  s->kind = SECRET_TOKEN;
  strcpy (s->name, q->name);
  strcpy (s->by, r->caller.owner);
  s->role = q->role;
  s->login = q->login;
  s->created = now;
  s->expires = expires == UINT64_MAX ? 0 : expires;
  auth_words_secret_make (text, s->hash);
  auth_store_put_secret (a, t, s);
  body = fields_object ((const struct field_value[]) {
    { "name", text_string (s->name) },
    { "role", text_string (auth_role_word (s->role)) },
    { "token", text_string (text) },
    { "expires_at", text_time (s->expires) },
    { NULL } });
  OPENSSL_cleanse (text, sizeof text);
  loop_answer_stored (l, r, 201, body, t);
}

static void
handle_token_delete (struct loop *l, struct request *r)
{
  struct auth *a = loop_auth (l);
  struct secret *s = auth_token (a, r->name);
  struct store_txn *t;

  if (s == NULL || !may_see (a, &r->caller, s)) {
    loop_refuse (l, r, 404, NULL, "unknown-token",
                 "there is no token %s: GET /api/v1/tokens lists them",
                 r->name);
    return;
  }
  if ((s->expires ? s->expires : UINT64_MAX) >
      auth_script_end (a, &r->caller)) {
    loop_refuse (l, r, 403, NULL, "forbidden",
                 "a token may delete none that is valid for longer than "
                 "itself: log in to delete it");
    return;
  }
  t = store_txn_new ();
  auth_store_revoked (a, t);
  auth_store_drop_secret (a, t, s);
  loop_answer_stored (l, r, 200,
                      json_pack ("{ss sb}", "name", r->name, "deleted", 1), t);
}

/* ---- The audit trail. ---- */

static void
handle_audit (struct loop *l, struct request *r)
{
  const struct query *q = &r->query;

  loop_answer (l, r, 200,
               auth_audit_view (loop_auth (l), strtoull (q->cursor, NULL, 10),
                                q->limit ? q->limit : AUDIT_LIMIT_DEFAULT));
}

static void
handle_audit_log (struct loop *l, struct request *r)
{
  loop_answer (l, r, 200, audit_log_view (auth_audit_log (loop_auth (l))));
}

const struct route routes_users[] = {
  { "GET", V1 "/users", .who = WHO_ADMIN, .query = QUERY_PAGE, .list = "users",
    .key = "name", .handle = handle_users },
  { "POST", V1 "/users", .makes = true, .secret = true, AUTH_INPUT,
    .parse = parse_user_add, .prepare = auth_request_make_password,
    .handle = handle_user_add },
  { "GET", V1 "/users/{name}", .who = WHO_ADMIN, .configuration = etag_user,
    .handle = handle_user },
  { "PATCH", V1 "/users/{name}", .who = WHO_VIEWER, .secret = true,
    .configuration = etag_user, AUTH_INPUT, .parse = parse_user_set,
    .prepare = prepare_user_set, .handle = handle_user_set },
  { "DELETE", V1 "/users/{name}", .configuration = etag_user,
    .handle = handle_user_delete },
  { "PUT", V1 "/users/{name}/totp", .who = WHO_VIEWER, .secret = true,
    AUTH_INPUT, .parse = parse_totp, .prepare = prepare_totp,
    .handle = handle_totp },
  { "GET", V1 "/tokens", .query = QUERY_PAGE, .list = "tokens", .key = "name",
    .handle = handle_tokens },
  { "POST", V1 "/tokens", .who = WHO_VIEWER, .makes = true, .secret = true,
    AUTH_INPUT, .parse = parse_token_add, .handle = handle_token_add },
  { "DELETE", V1 "/tokens/{name}", .who = WHO_VIEWER,
    .handle = handle_token_delete },
  { "GET", V1 "/audit", .who = WHO_ADMIN, .query = QUERY_PAGE,
    .handle = handle_audit },
  { "GET", V1 "/audit/log", .who = WHO_ADMIN, .handle = handle_audit_log },
  { NULL },
};
