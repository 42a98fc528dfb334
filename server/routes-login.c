/* routes-login.c: logins, the first login, and whoami.
 *
 * Passwords are hashed and compared on the HTTP thread (.prepare).  The loop's
 * thread then looks again at what may have changed meanwhile, and decides.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

#include "alloc.h"
#include "common/characters.h"
#include "common/clock.h"
#include "auth-limit.h"
#include "auth-request.h"
#include "fields.h"
#include "routes-internal.h"
#include "text.h"

void
auth_request_forget (void *input)
{
  struct auth_request *q = input;

  free (q->csr);
  EVP_PKEY_free (q->key);
  OPENSSL_cleanse (q, sizeof *q);
}

/* ---- Reading bodies. ---- */

/* One for the next login. */
void
auth_request_password (struct fields *f, struct auth_request *a)
{
  fields_text (f, "password", a->password, sizeof a->password);
  if (!f->failed && characters_count (a->password) < PASSWORD_CHARACTERS_MIN)
    fields_fail (f, "password",
                 "field password must have at least %d characters",
                 PASSWORD_CHARACTERS_MIN);
}

void
auth_request_code (struct fields *f, struct auth_request *a)
{
  if (!fields_has (f, "code"))
    return;
  fields_text (f, "code", a->code, sizeof a->code);
  if (!f->failed && strspn (a->code, "0123456789") != TOTP_CODE_BYTES - 1)
    fields_fail (f, "code", "field code must have %d digits",
                 TOTP_CODE_BYTES - 1);
}

static void
parse_setup (struct fields *f, struct request *r)
{
  struct auth_request *a = r->input;

  fields_text (f, "token", a->secret, sizeof a->secret);
  fields_name (f, "user", a->name, sizeof a->name);
  strcpy (r->subject, a->name);
  auth_request_password (f, a);
  fields_end (f);
}

static void
parse_login (struct fields *f, struct request *r)
{
  struct auth_request *a = r->input;

  fields_name (f, "user", a->name, sizeof a->name);
  strcpy (r->subject, a->name);
  fields_text (f, "password", a->password, sizeof a->password);
  if (fields_has (f, "device"))
    fields_text (f, "device", a->device, sizeof a->device);
  auth_request_code (f, a);
  fields_end (f);
}

/* ---- Passwords, on the HTTP thread. ---- */

static bool
too_many (struct request *r, unsigned seconds)
{
  char why[160];

  snprintf (r->headers, sizeof r->headers, "Retry-After: %u\r\n", seconds);
  snprintf (why, sizeof why, "too many tries: try again in %u seconds",
            seconds);
  r->status = 429;
  r->body = view_error (429, NULL, "too-many-tries", why);
  return false;
}

/* With the lock held: by which login or device the caller is known as this user; false: by
 * none.
 */
static bool
known_by (const struct auth *a, const struct request *r, const char *user,
          char device[AUTH_SECRET_BYTES])
{
  const struct auth_request *q = r->input;
  const struct secret *s = auth_device (a, user, q->device, clock_wall_ms ());
  const uint8_t *hash = s ? s->hash : NULL;

  if (r->caller.via == VIA_LOGIN && strcmp (r->caller.name, user) == 0)
    hash = r->caller.hash;
  if (hash)
    text_hex_print (hash, AUTH_HASH_BYTES, device);
  return hash;
}

/* Each code that is not right costs a try, as a password does. */
static bool
try_code (struct auth_request *q)
{
  if (!q->totp.on)
    return true;
  q->answer = totp_check (q->totp.key, q->code, clock_wall_ms (), q->totp.used,
                          &q->totp.used);
  return q->answer == TOTP_RIGHT;
}

bool
auth_request_try (struct loop *l, struct request *r, const char *user,
                  const char *given, enum auth_factors factors)
{
  struct auth *a = loop_auth (l);
  struct auth_request *q = r->input;
  struct limit_caller by = { r->caller.address, user, NULL };
  char device[AUTH_SECRET_BYTES];
  const struct user *u;
  bool fine;
  unsigned wait_s;

  pthread_mutex_lock (&a->lock);
  u = auth_user (a, user);
  if (u) {
    q->old = u->password;
    q->totp = u->totp;
  }
  if (known_by (a, r, user, device))
    by.device = device;
  pthread_mutex_unlock (&a->lock);
  wait_s = limit_take (&by, clock_boot_ms ());
  if (wait_s > 0)
    return too_many (r, wait_s);
  if (!password_begin (r->caller.role != ROLE_NOBODY || by.device)) {
    limit_give_back (&by, clock_boot_ms ()); /* it was no try */
    return too_many (r, 2);
  }
  q->verified = given == NULL || password_is (given, u ? &q->old : NULL);
  password_end ();
  fine = q->verified && (factors == AUTH_PASSWORD || try_code (q));
  if (fine)
    limit_give_back (&by, clock_boot_ms ());
  return true;
}

bool
auth_request_make_password (struct loop *l, struct request *r)
{
  struct auth_request *q = r->input;

  if (!password_begin (true)) /* nobody else gets here */
    return too_many (r, 2);
  password_make (q->password, &q->new);
  password_end ();
  return true;
}

static bool
prepare_login (struct loop *l, struct request *r)
{
  struct auth_request *q = r->input;

  return auth_request_try (l, r, q->name, q->password, AUTH_CODE);
}

/* The secret is compared before anything expensive is done for it. */
static bool
prepare_setup (struct loop *l, struct request *r)
{
  struct auth_request *q = r->input;
  struct auth *a = loop_auth (l);
  uint8_t hash[AUTH_HASH_BYTES];

  auth_words_secret_hash (q->secret, hash);
  pthread_mutex_lock (&a->lock);
  q->verified = a->setup &&
                CRYPTO_memcmp (hash, a->setup_hash, sizeof hash) == 0;
  pthread_mutex_unlock (&a->lock);
  return !q->verified || auth_request_make_password (l, r);
}

/* ---- Answers. ---- */

static json_t *
view_me (struct loop *l, const struct caller *c)
{
  struct auth *a = loop_auth (l);

  return fields_object ((const struct field_value[]) {
    { "user", text_or_null (c->name) },
    { "role", text_or_null (auth_role_word (c->role)) },
    { "via", text_string (auth_via_word (c->via)) },
    { "login_required", json_boolean (auth_login_required (a)) },
    { "setup_required", json_boolean (auth_setup_required (a)) },
    { NULL } });
}

/* ---- Logins. ---- */

static void
set_cookie (struct request *r, const char *secret, uint64_t seconds)
{
  snprintf (
    r->headers, sizeof r->headers,
    "Set-Cookie: %s=%s; Path=/; HttpOnly; SameSite=Strict; Max-Age=%" PRIu64
    "%s\r\n",
    auth_cookie_name (r->caller.tls), secret, seconds,
    r->caller.tls ? "; Secure" : "");
}

/* Room for one more of this kind, of `max` that a user has. */
static void
drop_oldest (struct auth *a, struct store_txn *t, enum secret_kind kind,
             const char *user, unsigned max)
{
  struct secret *s, *oldest = NULL;
  unsigned count = 0;

  pthread_mutex_lock (&a->lock); /* HTTP threads write `used` */
  TAILQ_FOREACH (s, &a->secrets, link)
    if (s->kind == kind && strcmp (s->name, user) == 0) {
      count++;
      if (oldest == NULL || s->used < oldest->used)
        oldest = s;
    }
  pthread_mutex_unlock (&a->lock);
  if (count >= max)
    auth_store_drop_secret (a, t, oldest);
}

/* The device from which the user has just logged in is known from now on: its secret goes
 * into `text`.
 */
static void
know_device (struct auth *a, struct store_txn *t, const char *user,
             const char *given, char text[AUTH_SECRET_BYTES])
{
  uint64_t wall_ms = clock_wall_ms ();
  struct secret *s = auth_device (a, user, given, wall_ms);

  if (s)
    strcpy (text, given);
  else {
    drop_oldest (a, t, SECRET_DEVICE, user, AUTH_DEVICES_OF_USER_MAX);
    s = alloc_zeroed (sizeof *s);
    s->kind = SECRET_DEVICE;
    strcpy (s->name, user);
    strcpy (s->by, user);
    s->created = wall_ms;
    auth_words_secret_make (text, s->hash);
  }
  pthread_mutex_lock (&a->lock); /* HTTP threads look at it */
  s->used = wall_ms;
  s->expires = wall_ms + AUTH_DEVICE_MS;
  pthread_mutex_unlock (&a->lock);
  auth_store_put_secret (a, t, s);
}

/* Make a login for the user, and a good answer. */
static void
log_in (struct loop *l, struct request *r, const struct user *u, int status,
        struct store_txn *t)
{
  struct auth *a = loop_auth (l);
  uint64_t wall_ms = clock_wall_ms ();
  const struct auth_request *q = r->input;
  struct secret *new = alloc_zeroed (sizeof *new);
  char cookie[AUTH_SECRET_BYTES], origin_secret[AUTH_SECRET_BYTES];
  char device[AUTH_SECRET_BYTES];
  json_t *body;

  drop_oldest (a, t, SECRET_LOGIN, u->name, AUTH_LOGINS_OF_USER_MAX);
  know_device (a, t, u->name, q->device, device);
  auth_words_secret_make (cookie, new->hash);
  auth_words_secret_make (origin_secret, new->origin_hash);
  strcpy (new->name, u->name);
  new->created = new->used = wall_ms;
  new->expires = wall_ms + AUTH_LOGIN_MS;
  auth_store_put_secret (a, t, new);
  if (auth_login_required (a)) {
    r->caller.via = VIA_LOGIN;
    r->caller.role = u->role;
    strcpy (r->caller.name, u->name);
    memcpy (r->caller.hash, new->hash, sizeof new->hash);
  }
  set_cookie (r, cookie, AUTH_LOGIN_MS / 1000);
  body = view_me (l, &r->caller);
  json_object_set_new (body, "origin_secret", json_string (origin_secret));
  json_object_set_new (body, "device", json_string (device));
  OPENSSL_cleanse (cookie, sizeof cookie);
  OPENSSL_cleanse (origin_secret, sizeof origin_secret);
  OPENSSL_cleanse (device, sizeof device);
  loop_answer_stored (l, r, status, body, t);
}

static void
handle_me (struct loop *l, struct request *r)
{
  loop_answer (l, r, 200, view_me (l, &r->caller));
}

/* The code was compared with what the user had then. */
static bool
refuse_clock (struct loop *l, struct request *r, const struct user *u,
              int status)
{
  const struct auth_request *q = r->input;
  uint64_t now = clock_wall_ms () / 1000 / TOTP_STEP_S;
  bool later = q->totp.used > now;
  unsigned seconds = (unsigned) (later ? q->totp.used - now
                                       : now - q->totp.used) *
                     TOTP_STEP_S;

  if (q->totp.used == u->totp.used)
    loop_refuse (l, r, status, "code", "clock-wrong",
                 "weftd's clock was %u s ahead when a code was used last, and "
                 "until then no other counts: another administrator can turn "
                 "the second factor off",
                 seconds);
  else
    loop_refuse (l, r, status, "code", "clock-wrong",
                 "the code is of a time %u s %s weftd's: set the clock of the "
                 "device that shows it, or that of weftd's host",
                 seconds, later ? "after" : "before");
  return true;
}

bool
auth_request_refuse_code (struct loop *l, struct request *r, struct user *u,
                          int status)
{
  struct auth *a = loop_auth (l);
  const struct auth_request *q = r->input;
  bool same = memcmp (q->totp.key, u->totp.key, sizeof u->totp.key) == 0;

  if (!u->totp.on)
    return false;
  if (q->code[0] == '\0') {
    loop_refuse (l, r, status, "code", "code-required",
                 "user %s has a second factor: give its present code, too",
                 u->name);
    return true;
  }
  if (q->verified && same && q->answer == TOTP_CLOCK)
    return refuse_clock (l, r, u, status);
  if (!q->verified || !same || q->answer != TOTP_RIGHT ||
      q->totp.used <= u->totp.used) {
    loop_refuse (l, r, status, NULL, "login-failed",
                 "the password or the code is wrong, or the code was used "
                 "already: each is good for one login");
    return true;
  }
  pthread_mutex_lock (&a->lock); /* HTTP threads look at it */
  u->totp.used = q->totp.used;
  pthread_mutex_unlock (&a->lock);
  return false;
}

static void
handle_login (struct loop *l, struct request *r)
{
  const struct auth_request *q = r->input;
  struct user *u = auth_user (loop_auth (l), q->name);
  struct store_txn *t;

  if (u == NULL) /* it may be a password: not for the audit trail */
    OPENSSL_cleanse (r->subject, sizeof r->subject);
  if (u && auth_request_refuse_code (l, r, u, 401))
    return;
  /* It must not have changed since it was compared. */
  if (u == NULL || !q->verified ||
      memcmp (&u->password, &q->old, sizeof u->password) != 0)
    loop_refuse (l, r, 401, NULL, "login-failed",
                 "the name or the password is wrong; an administrator can set "
                 "another password");
  else if (u->doubted)
    loop_refuse (l, r, 401, NULL, "unconfirmed", "%s", AUTH_UNCONFIRMED);
  else {
    t = store_txn_new ();
    if (u->totp.on)
      auth_store_put_user (loop_auth (l), t, u);
    log_in (l, r, u, 200, t);
  }
}

static void
handle_logout (struct loop *l, struct request *r)
{
  struct auth *a = loop_auth (l);
  struct store_txn *t = store_txn_new ();
  struct secret *s = r->caller.via == VIA_LOGIN
                       ? auth_secret (a, SECRET_LOGIN, r->caller.hash)
                       : NULL;
  const struct caller nobody = { .role = auth_login_required (a) ? ROLE_NOBODY
                                                                 : ROLE_ADMIN };

  if (s)
    auth_store_drop_secret (a, t, s);
  set_cookie (r, "", 0);
  loop_answer_stored (l, r, 200, view_me (l, &nobody), t);
}

/* ---- The first login. ---- */

void
auth_request_set_user (struct auth *a, struct user *u, enum auth_role role,
                       const struct auth_password *password)
{
  pthread_mutex_lock (&a->lock); /* HTTP threads look at it */
  if (role != ROLE_NOBODY)
    u->role = role;
  if (password) {
    u->password = *password;
    u->doubted = false;
  }
  pthread_mutex_unlock (&a->lock);
}

void
auth_request_set_totp (struct auth *a, struct user *u, const uint8_t *key)
{
  pthread_mutex_lock (&a->lock);
  memset (&u->totp, 0, sizeof u->totp);
  u->totp.on = key;
  if (key)
    memcpy (u->totp.key, key, sizeof u->totp.key);
  pthread_mutex_unlock (&a->lock);
}

struct user *
auth_request_new_user (struct loop *l, const struct auth_request *q)
{
  struct user *u = alloc_zeroed (sizeof *u);

  strcpy (u->name, q->name);
  u->role = q->role;
  u->password = q->new;
  u->created = clock_wall_ms ();
  return u;
}

static void
handle_setup (struct loop *l, struct request *r)
{
  struct auth *a = loop_auth (l);
  struct auth_request *q = r->input;
  struct store_txn *t;
  struct user *u;

  if (!q->verified || !a->setup) {
    loop_refuse (l, r, 403, "token", "setup-wrong",
                 "this is not the one-time URL that weftd made when it was "
                 "started, or it has been used: weftd --setup makes another");
    return;
  }
  auth_setup_end (a);
  t = store_txn_new ();
  q->role = ROLE_ADMIN;
  u = auth_user (a, q->name); /* whose password was lost */
  if (u) {
    auth_store_revoked (a, t);
    auth_request_set_user (a, u, ROLE_ADMIN, &q->new);
    auth_request_set_totp (a, u, NULL); /* it may be lost, too */
  }
  else
    u = auth_request_new_user (l, q);
  auth_store_drop_logins (a, t, u->name, NULL);
  auth_store_drop_tokens (a, t, u->name);
  auth_store_put_user (a, t, u);
  log_in (l, r, u, 201, t);
}

const struct route routes_login[] = {
  { "GET", V1 "/me", .who = WHO_ANYBODY, .handle = handle_me },
  { "POST", V1 "/setup", .who = WHO_ANYBODY, .secret = true, AUTH_INPUT,
    .parse = parse_setup, .prepare = prepare_setup, .handle = handle_setup },
  { "POST", V1 "/login", .who = WHO_ANYBODY, .secret = true, AUTH_INPUT,
    .parse = parse_login, .prepare = prepare_login, .handle = handle_login },
  { "POST", V1 "/logout", .who = WHO_ANYBODY, .secret = true,
    .handle = handle_logout },
  { NULL },
};
