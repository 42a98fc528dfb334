/* routes-login.c: who is it, logins, and the first one.
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
#include "common/clock.h"
#include "auth-limit.h"
#include "auth-request.h"
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

/* One that is to be used from now on. */
void
auth_take_password (struct fields *f, struct auth_request *a)
{
  fields_text (f, "password", a->password, sizeof a->password);
  if (!f->failed && strlen (a->password) < PASSWORD_BYTES_MIN)
    fields_fail (f, "password",
                 "field password must have at least %d characters",
                 PASSWORD_BYTES_MIN);
}

static void
parse_setup (struct fields *f, struct request *r)
{
  struct auth_request *a = r->input;

  fields_text (f, "token", a->secret, sizeof a->secret);
  fields_name (f, "user", a->name, sizeof a->name);
  strcpy (r->subject, a->name);
  auth_take_password (f, a);
  fields_end (f);
}

static void
parse_login (struct fields *f, struct request *r)
{
  struct auth_request *a = r->input;

  fields_name (f, "user", a->name, sizeof a->name);
  strcpy (r->subject, a->name);
  fields_text (f, "password", a->password, sizeof a->password);
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

/* Is `given` the password of `user`?  False: the answer is in r. */
bool
auth_try_password (struct loop *l, struct request *r, const char *user,
                   const char *given)
{
  struct auth *a = loop_auth (l);
  struct auth_request *q = r->input;
  unsigned wait_s = limit_take (r->caller.address, user, clock_boot_ms ());
  const struct user *u;

  if (wait_s > 0)
    return too_many (r, wait_s);
  pthread_mutex_lock (&a->lock);
  u = auth_user (a, user);
  if (u)
    q->old = u->password;
  pthread_mutex_unlock (&a->lock);
  if (!password_begin (
        r->caller.role != ROLE_NOBODY ||
        limit_is_known (r->caller.address, user, clock_boot_ms ()))) {
    limit_give_back (r->caller.address, user,
                     clock_boot_ms ()); /* it was no try */
    return too_many (r, 2);
  }
  q->verified = password_is (given, u ? &q->old : NULL);
  password_end ();
  if (q->verified)
    limit_known (r->caller.address, user, clock_boot_ms ());
  return true;
}

bool
auth_make_password (struct loop *l, struct request *r)
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

  return auth_try_password (l, r, q->name, q->password);
}

/* The secret is compared before anything expensive is done for it. */
static bool
prepare_setup (struct loop *l, struct request *r)
{
  struct auth_request *q = r->input;
  struct auth *a = loop_auth (l);
  uint8_t hash[AUTH_HASH_BYTES];

  auth_secret_hash (q->secret, hash);
  pthread_mutex_lock (&a->lock);
  q->verified = a->setup &&
                CRYPTO_memcmp (hash, a->setup_hash, sizeof hash) == 0;
  pthread_mutex_unlock (&a->lock);
  return !q->verified || auth_make_password (l, r);
}

/* ---- Answers. ---- */

static json_t *
view_me (struct loop *l, const struct caller *c)
{
  struct auth *a = loop_auth (l);

  return json_pack ("{so ss? ss so sb sb}", "user", text_or_null (c->name),
                    "role", auth_role_word (c->role), "via",
                    auth_via_word (c->via), "csrf", text_or_null (c->csrf),
                    "login_required", auth_login_required (a), "setup_required",
                    auth_setup_required (a));
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

/* Make a login for the user, and a good answer. */
static void
log_in (struct loop *l, struct request *r, const struct user *u, int status,
        struct store_txn *t)
{
  struct auth *a = loop_auth (l);
  uint64_t wall_ms = clock_wall_ms ();
  struct secret *s, *oldest = NULL, *new = alloc_zeroed (sizeof *new);
  char secret[AUTH_SECRET_BYTES];
  unsigned count = 0;

  TAILQ_FOREACH (s, &a->secrets, link)
    if (s->kind == SECRET_LOGIN && strcmp (s->name, u->name) == 0) {
      count++;
      if (oldest == NULL)
        oldest = s;
    }
  if (count >= AUTH_LOGINS_OF_USER_MAX)
    auth_drop_secret (a, t, oldest);
  auth_secret_make (secret, new->hash);
  strcpy (new->name, u->name);
  new->created = new->used = wall_ms;
  new->expires = wall_ms + AUTH_LOGIN_MS;
  auth_put_secret (a, t, new);
  if (auth_login_required (a)) {
    r->caller.via = VIA_LOGIN;
    r->caller.role = u->role;
    strcpy (r->caller.name, u->name);
    memcpy (r->caller.hash, new->hash, sizeof new->hash);
    auth_csrf (secret, r->caller.csrf);
  }
  set_cookie (r, secret, AUTH_LOGIN_MS / 1000);
  OPENSSL_cleanse (secret, sizeof secret);
  loop_answer_stored (l, r, status, view_me (l, &r->caller), t);
}

static void
handle_me (struct loop *l, struct request *r)
{
  loop_answer (l, r, 200, view_me (l, &r->caller));
}

static void
handle_login (struct loop *l, struct request *r)
{
  const struct auth_request *q = r->input;
  const struct user *u = auth_user (loop_auth (l), q->name);

  if (u == NULL) /* it may be a password: not for the audit trail */
    OPENSSL_cleanse (r->subject, sizeof r->subject);
  /* Nor was it changed since it was compared. */
  if (u == NULL || !q->verified ||
      memcmp (&u->password, &q->old, sizeof u->password) != 0)
    loop_refuse (l, r, 401, NULL, "login-failed",
                 "the name or the password is wrong; an administrator can set "
                 "another password");
  else
    log_in (l, r, u, 200, store_txn_new ());
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
    auth_drop_secret (a, t, s);
  set_cookie (r, "", 0);
  loop_answer_stored (l, r, 200, view_me (l, &nobody), t);
}

/* ---- The first login. ---- */

void
auth_set_user (struct auth *a, struct user *u, enum auth_role role,
               const struct auth_password *password)
{
  pthread_mutex_lock (&a->lock); /* HTTP threads look at it */
  if (role != ROLE_NOBODY)
    u->role = role;
  if (password)
    u->password = *password;
  pthread_mutex_unlock (&a->lock);
}

struct user *
auth_new_user (struct loop *l, const struct auth_request *q)
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
  if (u)
    auth_set_user (a, u, ROLE_ADMIN, &q->new);
  else
    u = auth_new_user (l, q);
  auth_drop_logins (a, t, u->name, NULL);
  auth_drop_tokens (a, t, u->name);
  auth_put_user (a, t, u);
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
