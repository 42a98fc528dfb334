/* auth-store.c: what auth keeps, in memory and as records. */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "auth-internal.h"
#include "fields.h"
#include "base/name.h"
#include "text.h"

static const char *const secret_kinds[] = { "login", "token", "node-token" };

bool
auth_is_kind (const char *kind)
{
  for (size_t i = 0; i < 3; i++)
    if (strcmp (kind, secret_kinds[i]) == 0)
      return true;
  return strcmp (kind, "user") == 0 || strcmp (kind, "certificate") == 0 ||
         strcmp (kind, "audit") == 0;
}

/* ---- As JSON. ---- */

static void
put (struct store_txn *t, const char *kind, const char *key, json_t *json)
{
  char *text = json ? json_dumps (json, JSON_COMPACT) : NULL;

  if (json && text == NULL)
    abort ();
  json_decref (json);
  store_txn_add (t, kind, key, text);
}

static void
secret_key (const struct secret *s, char key[STORE_KEY_BYTES])
{
  for (unsigned i = 0; i < AUTH_HASH_BYTES; i++)
    sprintf (key + 2 * i, "%02x", s->hash[i]);
}

static json_t *
user_json (const struct user *u)
{
  const struct auth_password *p = &u->password;

  return json_pack ("{ss so so si si si sI}", "role", auth_role_word (u->role),
                    "salt", text_hex (p->salt, sizeof p->salt), "key",
                    text_hex (p->key, sizeof p->key), "log_n", p->log_n, "r",
                    p->r, "p", p->p, "created", (json_int_t) u->created);
}

static json_t *
secret_json (const struct secret *s)
{
  return json_pack ("{ss ss ss sI sI sI sb}", "name", s->name, "by", s->by,
                    "role", s->role ? auth_role_word (s->role) : "", "created",
                    (json_int_t) s->created, "used", (json_int_t) s->used,
                    "expires", (json_int_t) s->expires, "spent", s->spent);
}

static json_t *
certificate_json (const struct certificate *c)
{
  return json_pack ("{ss sI sI sO}", "node", c->node, "created",
                    (json_int_t) c->created, "expires", (json_int_t) c->expires,
                    "addresses", c->addresses);
}

/* ---- From JSON: any field that is missing or odd fails. ---- */

static void
take_time (struct fields *f, const char *name, uint64_t *ms)
{
  fields_u64 (f, name, 0, INT64_MAX, ms);
}

static struct user *
parse_user (struct fields *f, const char *key)
{
  struct user *u = calloc (1, sizeof *u);
  uint64_t log_n = 0, r = 0, p = 0;
  int role = ROLE_NOBODY;

  if (u == NULL)
    abort ();
  if (!name_valid (key))
    fields_fail (f, "name", "its key is no name");
  snprintf (u->name, sizeof u->name, "%.63s", key);
  fields_word (f, "role", auth_role_parse, "viewer, admin", &role);
  fields_hex (f, "salt", u->password.salt, sizeof u->password.salt);
  fields_hex (f, "key", u->password.key, sizeof u->password.key);
  fields_u64 (f, "log_n", 1, 20, &log_n);
  fields_u64 (f, "r", 1, 32, &r);
  fields_u64 (f, "p", 1, 16, &p);
  take_time (f, "created", &u->created);
  u->role = (enum auth_role) role;
  u->password.log_n = (unsigned) log_n;
  u->password.r = (unsigned) r;
  u->password.p = (unsigned) p;
  return u;
}

static struct secret *
parse_secret (struct fields *f, enum secret_kind kind, const char *key)
{
  struct secret *s = calloc (1, sizeof *s);
  int role = ROLE_NOBODY;

  if (s == NULL)
    abort ();
  s->kind = kind;
  if (!fields_parse_hex (key, s->hash, sizeof s->hash))
    fields_fail (f, "hash", "its key is no hash");
  fields_text (f, "name", s->name, sizeof s->name);
  fields_text (f, "by", s->by, sizeof s->by);
  if (kind == SECRET_TOKEN)
    fields_word (f, "role", auth_role_parse, "viewer, admin", &role);
  take_time (f, "created", &s->created);
  take_time (f, "used", &s->used);
  take_time (f, "expires", &s->expires);
  fields_bool (f, "spent", &s->spent);
  s->role = (enum auth_role) role;
  s->stored_used = s->used;
  return s;
}

static struct certificate *
parse_certificate (struct fields *f, const char *key)
{
  struct certificate *c = calloc (1, sizeof *c);
  json_t *addresses = json_object_get (f->object, "addresses");

  if (c == NULL)
    abort ();
  if (strlen (key) >= sizeof c->serial)
    fields_fail (f, "serial", "its key is no serial number");
  snprintf (c->serial, sizeof c->serial, "%.47s", key);
  fields_name (f, "node", c->node, sizeof c->node);
  take_time (f, "created", &c->created);
  take_time (f, "expires", &c->expires);
  if (!json_is_array (addresses))
    fields_fail (f, "addresses", "addresses is no list");
  c->addresses = json_incref (addresses);
  return c;
}

int
auth_load (struct auth *a, const char *kind, const char *key, const char *json,
           char *why, size_t why_size)
{
  json_t *object = json_loads (json, JSON_REJECT_DUPLICATES, NULL);
  struct fields f;
  struct user *u;
  struct secret *s;
  struct certificate *c;

  if (strcmp (kind, "audit") == 0) {
    json_decref (object);
    return audit_load (a, key, json, why, why_size);
  }
  fields_begin (&f, object);
  if (strcmp (kind, "user") == 0) {
    u = parse_user (&f, key);
    TAILQ_INSERT_TAIL (&a->users, u, link);
  }
  else if (strcmp (kind, "certificate") == 0) {
    c = parse_certificate (&f, key);
    TAILQ_INSERT_TAIL (&a->certificates, c, link);
  }
  else {
    enum secret_kind k = SECRET_LOGIN;

    while (strcmp (kind, secret_kinds[k]) != 0)
      k++;
    s = parse_secret (&f, k, key);
    TAILQ_INSERT_TAIL (&a->secrets, s, link);
  }
  json_decref (object);
  if (f.failed)
    snprintf (why, why_size, "%s", f.why);
  return f.failed ? -1 : 0;
}

/* ---- Changes. ---- */

/* Is it in a list already? */
#define LISTED(thing) ((thing)->link.tqe_prev != NULL)

#define DROP(a, list, thing)                                                   \
  do {                                                                         \
    pthread_mutex_lock (&(a)->lock);                                           \
    TAILQ_REMOVE (&(a)->list, thing, link);                                    \
    pthread_mutex_unlock (&(a)->lock);                                         \
  } while (0)

void
auth_put_user (struct auth *a, struct store_txn *t, struct user *u)
{
  put (t, "user", u->name, user_json (u));
  pthread_mutex_lock (&a->lock);
  if (!LISTED (u))
    TAILQ_INSERT_TAIL (&a->users, u, link);
  pthread_mutex_unlock (&a->lock);
}

void
auth_put_secret (struct auth *a, struct store_txn *t, struct secret *s)
{
  char key[STORE_KEY_BYTES];

  secret_key (s, key);
  pthread_mutex_lock (&a->lock); /* HTTP threads write `used` */
  s->stored_used = s->used;
  put (t, secret_kinds[s->kind], key, secret_json (s));
  if (!LISTED (s))
    TAILQ_INSERT_TAIL (&a->secrets, s, link);
  pthread_mutex_unlock (&a->lock);
}

void
auth_put_certificate (struct auth *a, struct store_txn *t,
                      struct certificate *c)
{
  put (t, "certificate", c->serial, certificate_json (c));
  pthread_mutex_lock (&a->lock);
  if (!LISTED (c))
    TAILQ_INSERT_TAIL (&a->certificates, c, link);
  pthread_mutex_unlock (&a->lock);
}

void
auth_drop_secret (struct auth *a, struct store_txn *t, struct secret *s)
{
  char key[STORE_KEY_BYTES];

  secret_key (s, key);
  put (t, secret_kinds[s->kind], key, NULL);
  DROP (a, secrets, s);
  free (s);
}

void
auth_drop_certificate (struct auth *a, struct store_txn *t,
                       struct certificate *c)
{
  put (t, "certificate", c->serial, NULL);
  DROP (a, certificates, c);
  json_decref (c->addresses);
  free (c);
}

/* Those of which the name or, for a token, the maker is the user. */
static void
drop_secrets (struct auth *a, struct store_txn *t, enum secret_kind kind,
              const char *user, const uint8_t *but)
{
  struct secret *s, *next;

  for (s = TAILQ_FIRST (&a->secrets); s != NULL; s = next) {
    next = TAILQ_NEXT (s, link);
    if (s->kind == kind &&
        strcmp (kind == SECRET_LOGIN ? s->name : s->by, user) == 0 &&
        (but == NULL || memcmp (s->hash, but, sizeof s->hash) != 0))
      auth_drop_secret (a, t, s);
  }
}

void
auth_drop_logins (struct auth *a, struct store_txn *t, const char *user,
                  const uint8_t *but)
{
  drop_secrets (a, t, SECRET_LOGIN, user, but);
}

void
auth_drop_tokens (struct auth *a, struct store_txn *t, const char *user)
{
  drop_secrets (a, t, SECRET_TOKEN, user, NULL);
  drop_secrets (a, t, SECRET_NODE_TOKEN, user, NULL);
}

void
auth_drop_user (struct auth *a, struct store_txn *t, struct user *u)
{
  auth_drop_logins (a, t, u->name, NULL);
  auth_drop_tokens (a, t, u->name);
  put (t, "user", u->name, NULL);
  DROP (a, users, u);
  OPENSSL_cleanse (u, sizeof *u);
  free (u);
}

void
auth_forget_node (struct auth *a, struct store_txn *t, const char *node)
{
  struct certificate *c, *next;

  for (c = TAILQ_FIRST (&a->certificates); c != NULL; c = next) {
    next = TAILQ_NEXT (c, link);
    if (strcmp (c->node, node) == 0)
      auth_drop_certificate (a, t, c);
  }
}

void
auth_setup_begin (struct auth *a, char secret[AUTH_SECRET_BYTES],
                  const char *file)
{
  pthread_mutex_lock (&a->lock);
  auth_secret_make (secret, a->setup_hash);
  a->setup_file = file;
  a->setup = true;
  pthread_mutex_unlock (&a->lock);
}

void
auth_setup_end (struct auth *a)
{
  pthread_mutex_lock (&a->lock);
  a->setup = false;
  unlink (a->setup_file);
  pthread_mutex_unlock (&a->lock);
}

/* ---- Time. ---- */

/* Is it known no longer? */
static bool
is_over (const struct secret *s, uint64_t wall_ms)
{
  switch (s->kind) {
  case SECRET_LOGIN:
    return wall_ms >= s->expires || wall_ms >= s->used + AUTH_LOGIN_IDLE_MS;
  case SECRET_TOKEN: /* shown as expired, until somebody deletes it */
    return false;
  case SECRET_NODE_TOKEN:
    return wall_ms >= s->expires + AUTH_EXPIRED_MS;
  }
  abort ();
}

void
auth_tick (struct auth *a, struct store_txn *t, uint64_t wall_ms)
{
  struct secret *s, *next;
  struct certificate *c, *next_c;
  uint64_t used;

  for (s = TAILQ_FIRST (&a->secrets); s != NULL; s = next) {
    next = TAILQ_NEXT (s, link);
    pthread_mutex_lock (&a->lock);
    used = s->used;
    pthread_mutex_unlock (&a->lock);
    if (is_over (s, wall_ms))
      auth_drop_secret (a, t, s);
    else if (used > s->stored_used + AUTH_USED_MS)
      auth_put_secret (a, t, s);
  }
  for (c = TAILQ_FIRST (&a->certificates); c != NULL; c = next_c) {
    next_c = TAILQ_NEXT (c, link);
    if (wall_ms >= c->expires)
      auth_drop_certificate (a, t, c);
  }
}
