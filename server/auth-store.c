/* auth-store.c: the data of auth, in memory and as records. */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "alloc.h"
#include "auth-internal.h"
#include "common/clock.h"
#include "fields.h"
#include "base/name.h"
#include "common/refuse.h"
#include "text.h"

static const char *const secret_kinds[] = { "login", "token", "node-token",
                                            "device" };
#define SECRET_KINDS (sizeof secret_kinds / sizeof secret_kinds[0])

bool
auth_is_kind (const char *kind)
{
  for (size_t i = 0; i < SECRET_KINDS; i++)
    if (strcmp (kind, secret_kinds[i]) == 0)
      return true;
  return strcmp (kind, "user") == 0 || strcmp (kind, "certificate") == 0 ||
         strcmp (kind, "audit") == 0 || strcmp (kind, AUDIT_LOG_KIND) == 0 ||
         strcmp (kind, "trust") == 0 || strcmp (kind, TRUST_KIND) == 0 ||
         strcmp (kind, REVOKED_KIND) == 0;
}

/* ---- Fields. ---- */

#define AT(member) FIELD_AT (user, member)
static const struct field user_fields[] = {
  { "role", FIELD_WORD, AT (role), .parse = auth_role_parse,
    .words = "viewer, admin", .print = auth_role_word },
  { "salt", FIELD_HEX, AT (password.salt) },
  { "key", FIELD_HEX, AT (password.key) },
  { "log_n", FIELD_NUMBER, AT (password.log_n), .min = 1, .max = 20 },
  { "r", FIELD_NUMBER, AT (password.r), .min = 1, .max = 32 },
  { "p", FIELD_NUMBER, AT (password.p), .min = 1, .max = 16 },
  { "created", FIELD_NUMBER, AT (created) },
  { "totp", FIELD_BOOL, AT (totp.on), .optional = true },
  { "totp_key", FIELD_HEX, AT (totp.key), .optional = true },
  { "totp_used", FIELD_NUMBER, AT (totp.used), .optional = true },
  { "doubted", FIELD_BOOL, AT (doubted), .optional = true },
  { NULL },
};
#undef AT

#define AT(member) FIELD_AT (secret, member)
static const struct field secret_fields[] = {
  { "name", FIELD_TEXT, AT (name) },
  { "by", FIELD_TEXT, AT (by) },
  { "created", FIELD_NUMBER, AT (created) },
  { "used", FIELD_NUMBER, AT (used) },
  { "expires", FIELD_NUMBER, AT (expires) },
  { "spent", FIELD_BOOL, AT (spent) },
  { "addresses", FIELD_TEXT, AT (addresses), .optional = true },
  { "login", FIELD_BOOL, AT (login), .optional = true },
  { "origin", FIELD_HEX, AT (origin_hash), .optional = true },
  { "doubted", FIELD_BOOL, AT (doubted), .optional = true },
  { NULL },
};
#undef AT

#define AT(member) FIELD_AT (certificate, member)
static const struct field certificate_fields[] = {
  { "node", FIELD_TEXT, AT (node) },
  { "created", FIELD_NUMBER, AT (created) },
  { "expires", FIELD_NUMBER, AT (expires) },
  { "revoked", FIELD_NUMBER, AT (revoked), .optional = true },
  { "ca", FIELD_TEXT, AT (ca), .optional = true },
  { "process", FIELD_TEXT, AT (process), .optional = true },
  { NULL },
};
#undef AT

#define AT(member) FIELD_AT (auth_doubt, member)
static const struct field doubt_fields[] = {
  { "number", FIELD_NUMBER, AT (number) },
  { "since", FIELD_NUMBER, AT (since) },
  { "list", FIELD_NUMBER, AT (list) },
  { "shown_by", FIELD_TEXT, AT (shown_by) },
  { "file", FIELD_TEXT, AT (file), .optional = true },
  { "copied", FIELD_BOOL, AT (copied), .optional = true },
  { NULL },
};
#undef AT

/* The order in which they were revoked does not matter, nor what was forgotten since:
 * so that the name of the list is the same after a restart.
 */
void
auth_store_note_revoked (struct auth *a, const struct certificate *c)
{
  uint64_t hash[4];

  if (c->revoked == 0)
    return;
  EVP_Digest (c->serial, strlen (c->serial), (uint8_t *) hash, NULL,
              EVP_sha256 (), NULL);
  a->revoked_tag ^= hash[0];
}

/* ---- From records: any field that is missing or odd fails. ---- */

static void
load_user (struct auth *a, struct fields *f, const char *key)
{
  struct user *u = alloc_zeroed (sizeof *u);

  if (!name_valid (key))
    fields_fail (f, "name", "its key is no name");
  snprintf (u->name, sizeof u->name, "%.63s", key);
  fields_take (f, user_fields, u);
  TAILQ_INSERT_TAIL (&a->users, u, link);
}

static void
load_secret (struct auth *a, struct fields *f, const char *kind,
             const char *key)
{
  struct secret *s = alloc_zeroed (sizeof *s);
  int role = ROLE_NOBODY;

  while (strcmp (kind, secret_kinds[s->kind]) != 0)
    s->kind++;
  if (!fields_parse_hex (key, s->hash, sizeof s->hash))
    fields_fail (f, "hash", "its key is no hash");
  fields_take (f, secret_fields, s);
  if (s->kind == SECRET_TOKEN)
    fields_word (f, "role", auth_role_parse, "viewer, admin", &role);
  s->role = (enum auth_role) role;
  s->stored_used = s->used;
  TAILQ_INSERT_TAIL (&a->secrets, s, link);
}

static void
load_certificate (struct auth *a, struct fields *f, const char *key)
{
  struct certificate *c = alloc_zeroed (sizeof *c);

  if (strlen (key) >= sizeof c->serial)
    fields_fail (f, "serial", "its key is no serial number");
  snprintf (c->serial, sizeof c->serial, "%.47s", key);
  fields_take (f, certificate_fields, c);
  if (!name_valid (c->node) && (c->node[0] || c->revoked == 0))
    fields_fail (f, "node", "node is no name");
  c->addresses = json_incref (json_object_get (f->object, "addresses"));
  if (!json_is_array (c->addresses))
    fields_fail (f, "addresses", "addresses is no list");
  auth_store_note_revoked (a, c);
  TAILQ_INSERT_TAIL (&a->certificates, c, link);
}

int
auth_load (struct auth *a, const char *kind, const char *key, const char *json,
           char *why, size_t why_size)
{
  struct fields f;
  json_t *object;
  int r;

  if (strcmp (kind, "audit") == 0)
    return audit_load (a, key, json, why, why_size);
  object = json_loads (json, JSON_REJECT_DUPLICATES, NULL);
  if (strcmp (kind, AUDIT_LOG_KIND) == 0) {
    r = audit_log_load (a->log, key, object, why, why_size);
    json_decref (object);
    return r;
  }
  fields_begin (&f, object);
  if (strcmp (kind, "user") == 0)
    load_user (a, &f, key);
  else if (strcmp (kind, "certificate") == 0)
    load_certificate (a, &f, key);
  else if (strcmp (kind, REVOKED_KIND) == 0)
    fields_take (&f, doubt_fields, &a->doubt);
  else if (strcmp (kind, TRUST_KIND) == 0 || strcmp (kind, "trust") == 0) {
    bool fine = strcmp (kind, TRUST_KIND) == 0
                  ? trust_load (a->trust, object)
                  : auth_truster_load (a, key, object);

    json_decref (object);
    return fine ? 0 : refuse (why, why_size, "it makes no sense");
  }
  else
    load_secret (a, &f, kind, key);
  json_decref (object);
  return fields_result (&f, why, why_size);
}

/* ---- Changes. ---- */

/* Put it in, unless it is in the list already. */
#define LIST(a, list, thing)                                                   \
  do {                                                                         \
    pthread_mutex_lock (&(a)->lock);                                           \
    if ((thing)->link.tqe_prev == NULL)                                        \
      TAILQ_INSERT_TAIL (&(a)->list, thing, link);                             \
    pthread_mutex_unlock (&(a)->lock);                                         \
  } while (0)

#define DROP(a, list, thing)                                                   \
  do {                                                                         \
    pthread_mutex_lock (&(a)->lock);                                           \
    TAILQ_REMOVE (&(a)->list, thing, link);                                    \
    pthread_mutex_unlock (&(a)->lock);                                         \
  } while (0)

void
auth_store_put_user (struct auth *a, struct store_txn *t, struct user *u)
{
  store_txn_put (t, "user", u->name, fields_json (user_fields, u));
  LIST (a, users, u);
}

void
auth_store_put_secret (struct auth *a, struct store_txn *t, struct secret *s)
{
  char key[STORE_KEY_BYTES];
  json_t *json;

  text_hex_print (s->hash, sizeof s->hash, key);
  pthread_mutex_lock (&a->lock); /* HTTP threads write `used` */
  s->stored_used = s->used;
  json = fields_json (secret_fields, s);
  pthread_mutex_unlock (&a->lock);
  json_object_set_new (json, "role",
                       json_string (s->role ? auth_role_word (s->role) : ""));
  store_txn_put (t, secret_kinds[s->kind], key, json);
  LIST (a, secrets, s);
}

void
auth_store_put_revoked (const struct auth *a, struct store_txn *t)
{
  store_txn_put (t, REVOKED_KIND, "list",
                 fields_json (doubt_fields, &a->doubt));
}

void
auth_store_revoked (struct auth *a, struct store_txn *t)
{
  pthread_mutex_lock (&a->lock);
  a->doubt.number++;
  pthread_mutex_unlock (&a->lock);
  auth_store_put_revoked (a, t);
}

void
auth_store_put_certificate (struct auth *a, struct store_txn *t,
                            struct certificate *c)
{
  json_t *json = fields_json (certificate_fields, c);

  json_object_set (json, "addresses", c->addresses);
  store_txn_put (t, "certificate", c->serial, json);
  LIST (a, certificates, c);
}

void
auth_store_drop_secret (struct auth *a, struct store_txn *t, struct secret *s)
{
  char key[STORE_KEY_BYTES];

  text_hex_print (s->hash, sizeof s->hash, key);
  store_txn_put (t, secret_kinds[s->kind], key, NULL);
  DROP (a, secrets, s);
  free (s);
}

void
auth_store_drop_certificate (struct auth *a, struct store_txn *t,
                             struct certificate *c)
{
  const struct certificate *other;

  store_txn_put (t, "certificate", c->serial, NULL);
  DROP (a, certificates, c);
  TAILQ_FOREACH (other, &a->certificates, link)
    if (strcmp (other->node, c->node) == 0)
      break;
  if (other == NULL)
    auth_truster_forget (a, t, c->node);
  pthread_mutex_lock (&a->lock);
  auth_store_note_revoked (a, c);
  pthread_mutex_unlock (&a->lock);
  json_decref (c->addresses);
  free (c);
}

/* Those of which the name or, for a token, the maker is the user. */
static void
drop_secrets (struct auth *a, struct store_txn *t, enum secret_kind kind,
              const char *user, const uint8_t *but)
{
  struct secret *s, *next;

  TAILQ_FOREACH_SAFE (s, &a->secrets, link, next)
    if (s->kind == kind &&
        strcmp (kind == SECRET_LOGIN ? s->name : s->by, user) == 0 &&
        (but == NULL || memcmp (s->hash, but, sizeof s->hash) != 0))
      auth_store_drop_secret (a, t, s);
}

void
auth_store_drop_logins (struct auth *a, struct store_txn *t, const char *user,
                        const uint8_t *but)
{
  drop_secrets (a, t, SECRET_LOGIN, user, but);
}

void
auth_store_drop_tokens (struct auth *a, struct store_txn *t, const char *user)
{
  drop_secrets (a, t, SECRET_TOKEN, user, NULL);
  drop_secrets (a, t, SECRET_NODE_TOKEN, user, NULL);
  drop_secrets (a, t, SECRET_DEVICE, user, NULL);
}

void
auth_store_drop_user (struct auth *a, struct store_txn *t, struct user *u)
{
  auth_store_drop_logins (a, t, u->name, NULL);
  auth_store_drop_tokens (a, t, u->name);
  store_txn_put (t, "user", u->name, NULL);
  DROP (a, users, u);
  OPENSSL_cleanse (u, sizeof *u);
  free (u);
}

void
auth_forget_node (struct auth *a, struct store_txn *t, const char *node)
{
  struct certificate *c;
  struct secret *s, *next;
  bool any = false;

  auth_truster_forget (a, t, node);
  TAILQ_FOREACH_SAFE (s, &a->secrets, link, next)
    if (s->kind == SECRET_NODE_TOKEN && !s->spent &&
        strcmp (s->name, node) == 0)
      auth_store_drop_secret (a, t, s);
  TAILQ_FOREACH (c, &a->certificates, link)
    if (c->revoked == 0 && strcmp (c->node, node) == 0) {
      pthread_mutex_lock (&a->lock);
      c->revoked = clock_wall_ms ();
      auth_store_note_revoked (a, c);
      pthread_mutex_unlock (&a->lock);
      auth_store_put_certificate (a, t, c);
      any = true;
    }
  if (any)
    auth_store_revoked (a, t);
}

void
auth_store_set_addresses (struct auth *a, struct store_txn *t, const char *node,
                          json_t *addresses)
{
  struct certificate *c;
  json_t *old;

  TAILQ_FOREACH (c, &a->certificates, link)
    if (c->revoked == 0 && strcmp (c->node, node) == 0) {
      pthread_mutex_lock (&a->lock);
      old = c->addresses;
      c->addresses = json_deep_copy (addresses);
      pthread_mutex_unlock (&a->lock);
      json_decref (old);
      auth_store_put_certificate (a, t, c);
    }
}

const char *
auth_store_crl (struct auth *a)
{
  const struct certificate *c;
  struct ca_revoked *list;
  size_t count = 0, i = 0;

  if (a->crl && a->crl_tag == a->revoked_tag &&
      a->crl_number == a->doubt.number &&
      a->crl_version == trust_version (a->trust))
    return a->crl;
  TAILQ_FOREACH (c, &a->certificates, link)
    count += c->revoked > 0;
  list = alloc_zeroed ((count + 1) * sizeof *list);
  TAILQ_FOREACH (c, &a->certificates, link)
    if (c->revoked > 0)
      list[i++] = (struct ca_revoked) { c->serial, c->revoked };
  free (a->crl);
  a->crl = trust_crl (a->trust, list, count, a->doubt.number);
  a->crl_version = trust_version (a->trust);
  a->crl_tag = a->revoked_tag;
  a->crl_number = a->doubt.number;
  free (list);
  return a->crl;
}

/* ---- Time. ---- */

/* Has the node, or that process of it, one that expires later? */
static bool
is_followed (const struct auth *a, const struct certificate *than)
{
  const struct certificate *c;

  TAILQ_FOREACH (c, &a->certificates, link)
    if (c->revoked == 0 && c->expires > than->expires &&
        strcmp (c->node, than->node) == 0 &&
        strcmp (c->process, than->process) == 0)
      return true;
  return false;
}

/* Is it of no use any more?  The clock may be ahead, and what was forgotten would be
 * missed when it is right again: so a node and each process keep the last one, and what is revoked stays on
 * the list for as long as the CA is trusted that has signed it.
 */
static bool
is_useless (const struct auth *a, const struct certificate *c, uint64_t wall_ms)
{
  if (wall_ms < c->expires + AUTH_RETURN_MS)
    return false;
  return c->revoked ? !auth_truster_has (a, c->ca) : is_followed (a, c);
}

void
auth_tick (struct auth *a, struct store_txn *t, uint64_t wall_ms)
{
  struct secret *s, *next;
  struct certificate *c, *next_c;
  uint64_t used;

  TAILQ_FOREACH_SAFE (s, &a->secrets, link, next) {
    pthread_mutex_lock (&a->lock);
    if (s->used > wall_ms) /* the clock was ahead */
      s->used = s->stored_used = wall_ms;
    used = s->used;
    pthread_mutex_unlock (&a->lock);
    if (auth_secret_is_over (s, wall_ms))
      auth_store_drop_secret (a, t, s);
    else if (used > s->stored_used + AUTH_USED_MS)
      auth_store_put_secret (a, t, s);
  }
  audit_tick (a, t);
  TAILQ_FOREACH_SAFE (c, &a->certificates, link, next_c)
    if (is_useless (a, c, wall_ms))
      auth_store_drop_certificate (a, t, c);
}
