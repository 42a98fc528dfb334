/* trust.c: see trust.h. */

#include <config.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "server/alloc.h"
#include "server/fields.h"
#include "server/store/store.h"
#include "server/text.h"
#include "trust.h"

#define KEY "next"

struct trust {
  const char *dir;
  const struct ca_networks *networks;

  pthread_mutex_t lock; /* of the following: the loop's thread writes */
  struct ca *ca, *next;
  unsigned version;

  /* The loop's alone. */
  enum trust_phase phase;
  uint64_t since;
  bool settles; /* its record is no longer needed */
  char *pem;
  char tag[TRUST_TAG_BYTES];
};

/* With the lock held, or before there are threads. */
static void
set (struct trust *t, struct ca *ca, struct ca *next)
{
  uint8_t hash[32];

  t->ca = ca;
  t->next = next;
  t->version++;
  free (t->pem);
  t->pem = alloc_print ("%s%s", ca_pem (ca), next ? ca_pem (next) : "");
  EVP_Digest (t->pem, strlen (t->pem), hash, NULL, EVP_sha256 (), NULL);
  text_hex_print (hash, sizeof hash, t->tag);
}

struct trust *
trust_new (struct ca *ca, const char *dir, const struct ca_networks *networks)
{
  struct trust *t = alloc_zeroed (sizeof *t);

  t->dir = dir;
  t->networks = networks;
  pthread_mutex_init (&t->lock, NULL);
  set (t, ca, NULL);
  return t;
}

void
trust_free (struct trust *t)
{
  if (t == NULL)
    return;
  ca_free (t->ca);
  ca_free (t->next);
  free (t->pem);
  pthread_mutex_destroy (&t->lock);
  free (t);
}

/* ---- The record. ---- */

static const char *const phases[] = { "none", "spread", "renew" };

const char *
trust_phase_word (enum trust_phase phase)
{
  return phases[phase];
}

static void
put (const struct trust *t, struct store_txn *txn)
{
  char *key = ca_print_key (t->next);

  store_txn_put (txn, TRUST_KIND, KEY,
                 fields_object ((const struct field_value[]) {
                   { "phase", text_string (phases[t->phase]) },
                   { "since", json_integer (t->since) },
                   { "replaces", text_string (ca_fingerprint (t->ca)) },
                   { "certificate", text_string (ca_pem (t->next)) },
                   { "key", text_string (key) },
                   { NULL } }));
  OPENSSL_cleanse (key, strlen (key));
  free (key);
}

bool
trust_load (struct trust *t, json_t *object)
{
  const char *phase, *replaces, *certificate, *key;
  json_int_t since;
  struct ca *next;

  if (json_unpack (object, "{ss sI ss ss ss}", "phase", &phase, "since", &since,
                   "replaces", &replaces, "certificate", &certificate, "key",
                   &key) == -1)
    return false;
  /* It is over, and weftd died before the record was gone; or the database is older
   * than the CA.
   */
  if (strcmp (replaces, ca_fingerprint (t->ca)) != 0) {
    t->settles = true;
    return true;
  }
  next = ca_read (key, certificate);
  if (next == NULL)
    return false;
  t->phase = strcmp (phase, phases[TRUST_RENEW]) == 0 ? TRUST_RENEW
                                                      : TRUST_SPREAD;
  t->since = (uint64_t) since;
  set (t, t->ca, next);
  return true;
}

bool
trust_settle (struct trust *t, struct store_txn *txn)
{
  bool settles = t->settles;

  if (settles)
    store_txn_put (txn, TRUST_KIND, KEY, NULL);
  t->settles = false;
  return settles;
}

/* ---- From any thread. ---- */

unsigned
trust_version (struct trust *t)
{
  unsigned version;

  pthread_mutex_lock (&t->lock);
  version = t->version;
  pthread_mutex_unlock (&t->lock);
  return version;
}

X509_STORE *
trust_store (struct trust *t)
{
  X509_STORE *store = X509_STORE_new ();
  bool fine = store != NULL;

  pthread_mutex_lock (&t->lock);
  fine = fine && X509_STORE_add_cert (store, ca_x509 (t->ca)) == 1;
  if (t->next)
    fine = fine && X509_STORE_add_cert (store, ca_x509 (t->next)) == 1;
  pthread_mutex_unlock (&t->lock);
  if (fine)
    return store;
  X509_STORE_free (store);
  return NULL;
}

static void
add_name (STACK_OF (X509_NAME) * names, const struct ca *ca)
{
  X509_NAME *name = X509_NAME_dup (X509_get_subject_name (ca_x509 (ca)));

  if (name == NULL || sk_X509_NAME_push (names, name) == 0)
    abort ();
}

STACK_OF (X509_NAME) * trust_names (struct trust *t)
{
  STACK_OF (X509_NAME) *names = sk_X509_NAME_new_null ();

  if (names == NULL)
    abort ();
  pthread_mutex_lock (&t->lock);
  add_name (names, t->ca);
  if (t->next)
    add_name (names, t->next);
  pthread_mutex_unlock (&t->lock);
  return names;
}

void
trust_sign_own (struct trust *t, EVP_PKEY *key, const struct ca_names *names,
                uint64_t seconds, struct ca_certificate *certificate)
{
  struct ca_names some = *names;

  pthread_mutex_lock (&t->lock);
  /* The addresses of this host that the CA may sign. */
  for (unsigned i = 0; i < some.address_count;)
    if (ca_permits (t->ca, some.address[i]))
      i++;
    else
      memmove (some.address[i], some.address[--some.address_count],
               sizeof some.address[0]);
  ca_sign (t->ca, key, "weftd", &some, false, seconds, certificate);
  pthread_mutex_unlock (&t->lock);
}

/* ---- On the loop's thread. ---- */

enum trust_phase
trust_phase (const struct trust *t)
{
  return t->phase;
}

uint64_t
trust_since (const struct trust *t)
{
  return t->since;
}

const struct ca *
trust_ca (const struct trust *t)
{
  return t->ca;
}

const struct ca *
trust_next (const struct trust *t)
{
  return t->next;
}

const char *
trust_pem (const struct trust *t)
{
  return t->pem;
}

const char *
trust_tag (const struct trust *t)
{
  return t->tag;
}

/* A certificate is on all of them, whose ever it is: by its serial number it is one
 * certificate.
 */
char *
trust_crl (const struct trust *t, const struct ca_revoked *list, size_t count,
           uint64_t number)
{
  char *first = ca_crl (t->ca, list, count, number), *next, *both;

  if (t->next == NULL)
    return first;
  next = ca_crl (t->next, list, count, number);
  both = alloc_print ("%s%s", first, next);
  free (first);
  free (next);
  return both;
}

const struct ca *
trust_list_read (const struct trust *t, const char *pem, struct ca_list *list)
{
  if (ca_list_read (t->ca, pem, list))
    return t->ca;
  return t->next && ca_list_read (t->next, pem, list) ? t->next : NULL;
}

bool
trust_permits (const struct trust *t, const char *address)
{
  return ca_permits (t->ca, address) &&
         (t->next == NULL || ca_permits (t->next, address));
}

struct ca *
trust_successor (const struct trust *t)
{
  return ca_successor (t->ca, t->networks);
}

void
trust_begin (struct trust *t, struct ca *next, struct store_txn *txn,
             uint64_t wall_ms)
{
  pthread_mutex_lock (&t->lock);
  set (t, t->ca, next);
  pthread_mutex_unlock (&t->lock);
  t->phase = TRUST_SPREAD;
  t->since = wall_ms;
  put (t, txn);
}

void
trust_renew (struct trust *t, struct store_txn *txn)
{
  t->phase = TRUST_RENEW;
  put (t, txn);
}

int
trust_retire (struct trust *t, struct store_txn *txn, char *why,
              size_t why_size)
{
  struct ca *old = t->ca;
  int r = ca_write (t->next, t->dir, why, why_size);

  if (r != 0)
    return r;
  pthread_mutex_lock (&t->lock);
  set (t, t->next, NULL);
  pthread_mutex_unlock (&t->lock);
  t->phase = TRUST_ONE;
  t->since = 0;
  store_txn_put (txn, TRUST_KIND, KEY, NULL);
  ca_free (old);
  return 0;
}
