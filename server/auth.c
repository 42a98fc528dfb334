/* auth.c: see auth.h: identifies callers and checks their rights. */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

#include "alloc.h"
#include "auth-internal.h"
#include "routes.h"
#include "text.h"

struct auth *
auth_new (bool no_login, struct trust *trust, const struct ca_names *own,
          uint64_t seconds)
{
  struct auth *a = alloc_zeroed (sizeof *a);

  a->no_login = no_login;
  a->trust = trust;
  a->own = *own;
  a->certificate_seconds = seconds;
  a->log = audit_log_new ();
  pthread_mutex_init (&a->lock, NULL);
  TAILQ_INIT (&a->users);
  TAILQ_INIT (&a->secrets);
  TAILQ_INIT (&a->certificates);
  TAILQ_INIT (&a->trusters);
  return a;
}

void
auth_free (struct auth *a)
{
  struct user *u;
  struct secret *s;
  struct certificate *c;
  struct truster *r;

  if (a == NULL)
    return;
  while ((r = TAILQ_FIRST (&a->trusters)) != NULL) {
    TAILQ_REMOVE (&a->trusters, r, link);
    free (r);
  }
  while ((u = TAILQ_FIRST (&a->users)) != NULL) {
    TAILQ_REMOVE (&a->users, u, link);
    free (u);
  }
  while ((s = TAILQ_FIRST (&a->secrets)) != NULL) {
    TAILQ_REMOVE (&a->secrets, s, link);
    free (s);
  }
  while ((c = TAILQ_FIRST (&a->certificates)) != NULL) {
    TAILQ_REMOVE (&a->certificates, c, link);
    json_decref (c->addresses);
    free (c);
  }
  for (int i = 0; i < AUDIT_RINGS; i++)
    ring_clear (&a->audit[i]);
  audit_log_free (a->log);
  free (a->crl);
  pthread_mutex_destroy (&a->lock);
  free (a);
}

/* ---- Finding. ---- */

bool
auth_secret_expired (const struct secret *s, uint64_t wall_ms)
{
  bool brief = s->kind != SECRET_TOKEN || s->login;

  return (s->expires > 0 && wall_ms >= s->expires) ||
         (brief && s->created > wall_ms + AUTH_AHEAD_MS);
}

bool
auth_secret_is_over (const struct secret *s, uint64_t wall_ms)
{
  switch (s->kind) {
  case SECRET_LOGIN:
    return auth_secret_expired (s, wall_ms) ||
           wall_ms >= s->used + AUTH_LOGIN_IDLE_MS;
  case SECRET_TOKEN: /* shown as expired, until somebody deletes it */
    return false;
  case SECRET_DEVICE:
    return auth_secret_expired (s, wall_ms);
  case SECRET_NODE_TOKEN:
    return wall_ms >= s->expires + AUTH_EXPIRED_MS;
  }
  abort ();
}

struct user *
auth_user (const struct auth *a, const char *name)
{
  struct user *u;

  TAILQ_FOREACH (u, &a->users, link)
    if (strcmp (u->name, name) == 0)
      return u;
  return NULL;
}

struct secret *
auth_secret (const struct auth *a, enum secret_kind kind,
             const uint8_t hash[AUTH_HASH_BYTES])
{
  struct secret *s;

  TAILQ_FOREACH (s, &a->secrets, link)
    if (s->kind == kind && CRYPTO_memcmp (s->hash, hash, AUTH_HASH_BYTES) == 0)
      return s;
  return NULL;
}

struct secret *
auth_token (const struct auth *a, const char *name)
{
  struct secret *s;

  TAILQ_FOREACH (s, &a->secrets, link)
    if (s->kind == SECRET_TOKEN && strcmp (s->name, name) == 0)
      return s;
  return NULL;
}

struct secret *
auth_device (const struct auth *a, const char *user, const char *secret,
             uint64_t wall_ms)
{
  uint8_t hash[AUTH_HASH_BYTES];
  struct secret *s;

  auth_words_secret_hash (secret, hash);
  s = auth_secret (a, SECRET_DEVICE, hash);
  return s && strcmp (s->by, user) == 0 && !auth_secret_is_over (s, wall_ms)
           ? s
           : NULL;
}

bool
auth_is_script (const struct auth *a, const struct caller *caller)
{
  const struct secret *s = caller->via == VIA_TOKEN
                             ? auth_secret (a, SECRET_TOKEN, caller->hash)
                             : NULL;

  return s && !s->login;
}

uint64_t
auth_script_end (const struct auth *a, const struct caller *caller)
{
  uint64_t expires = auth_is_script (a, caller)
                       ? auth_secret (a, SECRET_TOKEN, caller->hash)->expires
                       : 0;

  return expires ? expires : UINT64_MAX;
}

bool
auth_certificate_returns (const struct certificate *c, uint64_t wall_ms)
{
  return c->revoked == 0 && wall_ms < c->expires + AUTH_RETURN_MS;
}

/* ---- Who is it? ---- */

/* With the lock held: the present rights of the caller's secret or certificate.
 */
static enum auth_role
role_now (const struct auth *a, const struct caller *caller, uint64_t wall_ms)
{
  const struct certificate *c;
  const struct secret *s;
  const struct user *u;

  switch (caller->via) {
  case VIA_NONE:
    return a->no_login ? ROLE_ADMIN : ROLE_NOBODY;
  case VIA_LOGIN:
    s = auth_secret (a, SECRET_LOGIN, caller->hash);
    u = s && !auth_secret_is_over (s, wall_ms) ? auth_user (a, s->name) : NULL;
    return u && !u->doubted ? u->role : ROLE_NOBODY;
  case VIA_TOKEN:
    s = auth_secret (a, SECRET_TOKEN, caller->hash);
    if (s == NULL || s->doubted || auth_secret_expired (s, wall_ms))
      return ROLE_NOBODY;
    /* It may not do more than the user whose it is. */
    u = auth_user (a, s->by);
    if (u && u->doubted)
      return ROLE_NOBODY;
    return u && u->role < s->role ? u->role : s->role;
  case VIA_CERTIFICATE:
    c = certificates_find (&a->certificates, caller->name, caller->serial);
    return c && wall_ms < c->expires ? ROLE_NODE : ROLE_NOBODY;
  }
  abort ();
}

static bool
by_token (struct auth *a, const char *authorization, uint64_t wall_ms,
          struct caller *caller, struct refusal *refusal)
{
  struct secret *s;

  if (strncasecmp (authorization, "Bearer ", 7) != 0)
    return text_refuse (
      refusal, 401, NULL, "login-required",
      "the header Authorization must be: Bearer, a blank, and a "
      "token of weftd's");
  caller->via = VIA_TOKEN;
  auth_words_secret_hash (authorization + 7, caller->hash);
  caller->role = role_now (a, caller, wall_ms);
  if (caller->role == ROLE_NOBODY && a->doubt.since > 0)
    return text_refuse (refusal, 401, NULL, "unconfirmed", AUTH_UNCONFIRMED);
  if (caller->role == ROLE_NOBODY)
    return text_refuse (
      refusal, 401, NULL, "login-required",
      "the token in the header Authorization is not known, or has "
      "expired: an administrator can make another");
  s = auth_secret (a, SECRET_TOKEN, caller->hash);
  s->used = wall_ms;
  strcpy (caller->name, s->name);
  strcpy (caller->owner, s->by);
  return true;
}

/* A caller with only the cookie is nobody, too: browsers send it to programs on
 * other ports of the host.
 */
static void
by_cookie (struct auth *a, const struct auth_credentials *given,
           uint64_t wall_ms, struct caller *caller)
{
  uint8_t hash[AUTH_HASH_BYTES];
  struct secret *s;

  caller->via = VIA_LOGIN;
  auth_words_secret_hash (given->cookie, caller->hash);
  auth_words_secret_hash (given->origin_secret, hash);
  s = auth_secret (a, SECRET_LOGIN, caller->hash);
  if (s == NULL || CRYPTO_memcmp (s->origin_hash, hash, sizeof hash) != 0)
    return;
  caller->role = role_now (a, caller, wall_ms);
  if (caller->role == ROLE_NOBODY)
    return;
  strcpy (caller->name, s->name);
  strcpy (caller->owner, s->name);
  s->used = wall_ms;
}

bool
auth_is_later (const struct auth *a, const struct auth_credentials *given)
{
  const struct certificate *c;

  if (a->doubt.since == 0 ||
      certificates_of_node (&a->certificates, given->node) == NULL)
    return false;
  /* Each one is valid for longer than those before. */
  TAILQ_FOREACH (c, &a->certificates, link)
    if (strcmp (c->serial, given->serial) == 0 ||
        (strcmp (c->node, given->node) == 0 &&
         strcmp (c->process, given->process) == 0 &&
         c->expires >= given->until))
      return false;
  return true;
}

static bool
by_certificate (struct auth *a, const struct auth_credentials *given,
                uint64_t wall_ms, struct caller *caller,
                struct refusal *refusal)
{
  const struct certificate *c = certificates_find (&a->certificates,
                                                   given->node, given->serial);

  caller->via = VIA_CERTIFICATE;
  snprintf (caller->name, sizeof caller->name, "%s", given->node);
  snprintf (caller->serial, sizeof caller->serial, "%s", given->serial);
  snprintf (caller->process, sizeof caller->process, "%s", given->process);
  caller->role = role_now (a, caller, wall_ms);
  if (caller->role != ROLE_NOBODY)
    return true;
  if (wall_ms < given->until && auth_is_later (a, given)) {
    caller->role = ROLE_NODE;
    caller->until = given->until;
    snprintf (caller->issuer, sizeof caller->issuer, "%s", given->issuer);
    return true;
  }
  caller->late = c && auth_certificate_returns (c, wall_ms);
  /* An expired one may be unknown because the node has got the next. */
  return caller->late ||
         text_refuse (refusal, 401, NULL, "login-required",
                      wall_ms < given->until ? AUTH_REVOKED : AUTH_EXPIRED);
}

bool
auth_recognise (struct auth *a, const struct auth_credentials *given,
                uint64_t wall_ms, struct caller *caller,
                struct refusal *refusal)
{
  bool fine = true;

  caller->via = VIA_NONE;
  caller->role = ROLE_NOBODY;
  if (a->no_login) {
    caller->role = ROLE_ADMIN;
    return true;
  }
  pthread_mutex_lock (&a->lock);
  if (given->authorization)
    fine = by_token (a, given->authorization, wall_ms, caller, refusal);
  else if (given->cookie && given->origin_secret)
    by_cookie (a, given, wall_ms, caller);
  if (fine && caller->role == ROLE_NOBODY && given->serial)
    fine = by_certificate (a, given, wall_ms, caller, refusal);
  pthread_mutex_unlock (&a->lock);
  if (caller->role == ROLE_NOBODY)
    caller->via = VIA_NONE;
  return fine;
}

/* Does this kind of process call it?  Whether it is that process is seen when the body is. */
static bool
is_for_process (const struct route *route, const char *process)
{
  size_t n = strcspn (process, ":");

  return route->process && strlen (route->process) == n &&
         strncmp (route->process, process, n) == 0;
}

bool
auth_may (struct auth *a, const struct caller *caller,
          const struct route *route, struct refusal *refusal)
{
  enum auth_who who = route->who;

  if (who == WHO_DEFAULT)
    who = strcmp (route->method, "GET") == 0 ? WHO_VIEWER : WHO_ADMIN;
  if (who == WHO_ANYBODY || caller->role == ROLE_ADMIN)
    return true;
  if (caller->process[0] && !is_for_process (route, caller->process))
    return text_refuse (refusal, 403, NULL, "forbidden", AUTH_OF_PROCESS);
  if (caller->late)
    return route->late ||
           text_refuse (refusal, 401, NULL, "login-required", AUTH_EXPIRED);
  if (caller->role == ROLE_NOBODY && auth_setup_required (a))
    return text_refuse (
      refusal, 401, NULL, "login-required",
      "this needs a login, and there is no user yet: the one-time "
      "URL in the file setup-url of weftd's state directory makes "
      "the first, in a browser or by weftctl setup");
  if (caller->role == ROLE_NOBODY)
    return text_refuse (
      refusal, 401, NULL, "login-required",
      "this needs a login: in the browser at /login.html, with "
      "weftctl login, by a token in the header Authorization, or "
      "by the certificate of a node (weft-enroll)");
  /* Which node it speaks for is seen when the body is. */
  if (who == WHO_VIEWER || (who == WHO_NODE && caller->role == ROLE_NODE))
    return true;
  return text_refuse (refusal, 403, NULL, "forbidden",
                      "only an administrator may do this");
}

bool
auth_still (struct auth *a, const struct caller *caller, uint64_t wall_ms)
{
  bool r;

  if (caller->role == ROLE_NOBODY || a->no_login)
    return true;
  pthread_mutex_lock (&a->lock);
  r = role_now (a, caller, wall_ms) == caller->role;
  pthread_mutex_unlock (&a->lock);
  return r;
}

bool
auth_still_answered (struct auth *a, const struct caller *caller,
                     uint64_t wall_ms)
{
  const struct certificate *c;
  bool r;

  if (caller->via != VIA_CERTIFICATE)
    return auth_still (a, caller, wall_ms);
  pthread_mutex_lock (&a->lock);
  c = certificates_find (&a->certificates, caller->name, caller->serial);
  r = c && auth_certificate_returns (c, wall_ms);
  pthread_mutex_unlock (&a->lock);
  return r;
}

bool
auth_setup_required (struct auth *a)
{
  bool r;

  pthread_mutex_lock (&a->lock);
  r = TAILQ_EMPTY (&a->users);
  pthread_mutex_unlock (&a->lock);
  return r;
}

bool
auth_login_required (const struct auth *a)
{
  return !a->no_login;
}

bool
auth_node_certificate (struct auth *a, const char *node,
                       uint64_t *expires_wall_ms)
{
  const struct certificate *c;
  uint64_t latest = 0;

  pthread_mutex_lock (&a->lock);
  TAILQ_FOREACH (c, &a->certificates, link)
    if (c->revoked == 0 && strcmp (c->node, node) == 0 &&
        c->process[0] == '\0' && c->expires > latest)
      latest = c->expires;
  pthread_mutex_unlock (&a->lock);
  *expires_wall_ms = latest;
  return latest > 0;
}

/* All certificates of the node: they are equivalent. */
json_t *
auth_node_addresses (struct auth *a, const char *node)
{
  json_t *list = json_array (), *seen = json_object (), *v;
  const struct certificate *c;
  size_t i;

  pthread_mutex_lock (&a->lock);
  TAILQ_FOREACH (c, &a->certificates, link)
    if (c->revoked == 0 && strcmp (c->node, node) == 0)
      json_array_foreach (c->addresses, i, v)
        if (json_object_get (seen, json_string_value (v)) == NULL) {
          json_object_set_new (seen, json_string_value (v), json_true ());
          json_array_append_new (list, json_string (json_string_value (v)));
        }
  pthread_mutex_unlock (&a->lock);
  json_decref (seen);
  return list;
}
