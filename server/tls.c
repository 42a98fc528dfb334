/* tls.c: see tls.h.
 *
 * weftd's certificate and its key are in memory alone, made when weftd is started, again
 * when a third of its time is left, when the CAs are others, and when the clock was set
 * back: hosts trust the CA, not this certificate.
 */

#include <config.h>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <ifaddrs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

#include "alloc.h"
#include "common/clock.h"
#include "doorman.h"
#include "stack.h"
#include "tls.h"
#include "common/refuse.h"

#define CERTIFICATE_SECONDS (30 * 24 * 3600)
/* A clock is set back by less than this where it was about right. */
#define AHEAD_MS (3600 * 1000)

struct tls {
  struct trust *trust;
  const struct http_options *options;
  SSL_CTX *context;

  pthread_mutex_t lock; /* of the following */
  EVP_PKEY *key;
  X509 *x509;
  uint64_t made_ms,
    /* wall clock: when it was made, and when it must be made again */
    renew_ms;
  unsigned version; /* of what is trusted: ... */
  X509_STORE *store;
  STACK_OF (X509_NAME) * names;
};

/* ---- Libraries. ---- */

/* Debian 12's civetweb opens libssl.so and libcrypto.so, which only a package
 * for developers has, and looks for a name that OpenSSL 3 has changed.  Two
 * libraries of ours are found under these names once they are loaded, bring in
 * the right ones, and have the name: shim/ssl.c.
 */
int
tls_load_libraries (char *why, size_t why_size)
{
#ifdef WITH_SSL_SHIM
  static const char *const names[] = { "libcrypto.so", "libssl.so" };
  const char *build = getenv ("WEFT_BUILDDIR");
  char path[4096];

  for (size_t i = 0; i < 2; i++) {
    if (build)
      snprintf (path, sizeof path, "%s/server/shim/.libs/%s", build, names[i]);
    else
      snprintf (path, sizeof path, "%s/%s", PKGLIBDIR, names[i]);
    if (dlopen (path, RTLD_NOW | RTLD_GLOBAL) == NULL)
      return refuse (why, why_size,
                     "cannot load what TLS needs: %s; install Weft again, or "
                     "listen on loopback addresses only",
                     dlerror ());
  }
#endif
  return 0;
}

/* ---- Names. ---- */

static void
add_address (struct ca_names *names, const char *address)
{
  for (unsigned i = 0; i < names->address_count; i++)
    if (strcmp (names->address[i], address) == 0)
      return;
  if (names->address_count < CA_NAMES_MAX)
    snprintf (names->address[names->address_count++], 46, "%s", address);
}

static void
add_all_addresses (struct ca_names *names)
{
  struct ifaddrs *list, *i;
  char text[46];

  if (getifaddrs (&list) == -1)
    return;
  for (i = list; i != NULL; i = i->ifa_next) {
    int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;

    if (family == AF_INET)
      inet_ntop (family, &((struct sockaddr_in *) i->ifa_addr)->sin_addr, text,
                 sizeof text);
    else if (family == AF_INET6)
      inet_ntop (family, &((struct sockaddr_in6 *) i->ifa_addr)->sin6_addr,
                 text, sizeof text);
    else
      continue;
    add_address (names, text);
  }
  freeifaddrs (list);
}

void
tls_names (const struct http_options *o, struct ca_names *names)
{
  memset (names, 0, sizeof *names);
  for (unsigned i = 0; i < o->host_names_count; i++)
    snprintf (names->dns[names->dns_count++], sizeof names->dns[0], "%s",
              o->host_names[i]);
  for (unsigned i = 0; i < o->listeners_count; i++)
    if (!o->listeners[i].any)
      add_address (names, o->listeners[i].address);
  for (unsigned i = 0; i < o->listeners_count; i++)
    if (o->listeners[i].any) {
      add_all_addresses (names);
      break;
    }
}

int
tls_check (const struct ca *ca, const struct ca_networks *networks,
           const struct http_options *o, char *why, size_t why_size)
{
  for (unsigned i = 0; i < o->listeners_count; i++) {
    const struct listener *l = &o->listeners[i];

    if (l->any || !l->tls)
      continue;
    if (!ca_permits (ca, l->address))
      return refuse (
        why, why_size,
        "--listen %s: the cluster's CA was made for other networks, and nobody "
        "would believe a certificate for that address: listen at another one, "
        "give --ca-network for each network of the cluster, and run weftctl ca "
        "rotate",
        l->address);
    if (networks->count > 0 && !ca_networks_have (networks, l->address))
      return refuse (why, why_size,
                     "--listen %s: it is in none of the networks of "
                     "--ca-network: give its network, too",
                     l->address);
  }
  return 0;
}

/* ---- The certificate. ---- */

static void
renew (struct tls *tls)
{
  uint64_t seconds = ca_seconds (CERTIFICATE_SECONDS);
  struct ca_certificate made;
  struct ca_names names;

  EVP_PKEY_free (tls->key);
  X509_free (tls->x509);
  tls->key = EVP_EC_gen ("P-256");
  if (tls->key == NULL)
    abort ();
  tls_names (tls->options, &names);
  trust_sign_own (tls->trust, tls->key, &names, seconds, &made);
  tls->x509 = made.x509;
  tls->made_ms = clock_wall_ms ();
  tls->renew_ms = made.created + seconds * 1000 / 3 * 2;
}

/* Is a third of its time left, or was it made while the clock was ahead? */
static bool
is_due (const struct tls *tls)
{
  uint64_t now_ms = clock_wall_ms ();

  return now_ms >= tls->renew_ms || now_ms < tls->made_ms - AHEAD_MS;
}

/* False: OpenSSL can't. */
static bool
take_trust (struct tls *tls)
{
  /* Should it change again meanwhile, the next handshake sees that. */
  unsigned version = trust_version (tls->trust);

  X509_STORE_free (tls->store);
  sk_X509_NAME_pop_free (tls->names, X509_NAME_free);
  tls->store = trust_store (tls->trust);
  if (tls->store)
    tls->version = version;
  tls->names = trust_names (tls->trust);
  renew (tls);
  return tls->store != NULL;
}

/* Call with the lock held. */
static bool
give (struct tls *tls, SSL *ssl)
{
  STACK_OF (X509_NAME) * names;

  if (tls->store == NULL || SSL_set1_verify_cert_store (ssl, tls->store) != 1 ||
      SSL_use_certificate (ssl, tls->x509) != 1 ||
      SSL_use_PrivateKey (ssl, tls->key) != 1)
    return false;
  names = SSL_dup_CA_list (tls->names);
  if (names)
    SSL_set_client_CA_list (ssl, names); /* takes it over */
  return names != NULL;
}

/* At each handshake; the connection keeps what it gets here. */
static int
choose_certificate (SSL *ssl, void *opaque)
{
  struct tls *tls = opaque;
  int r;

  pthread_mutex_lock (&tls->lock);
  if (tls->version != trust_version (tls->trust))
    take_trust (tls);
  else if (is_due (tls))
    renew (tls);
  r = give (tls, ssl);
  pthread_mutex_unlock (&tls->lock);
  return r;
}

/* A node's certificate that is of another time shows who it is: auth.c knows for how little
 * one is good that has expired.
 */
static int
take_untimely (int fine, X509_STORE_CTX *context)
{
  int error = X509_STORE_CTX_get_error (context);

  if (fine || X509_STORE_CTX_get_error_depth (context) > 0 ||
      (error != X509_V_ERR_CERT_HAS_EXPIRED &&
       error != X509_V_ERR_CERT_NOT_YET_VALID))
    return fine;
  X509_STORE_CTX_set_error (context, X509_V_OK);
  return 1;
}

/* Before its socket is closed.  OpenSSL makes new generators of random numbers
 * for the thread's next connection, and would keep them for each of the many
 * threads.
 */
static void
on_free (void *ssl, void *data, CRYPTO_EX_DATA *ex, int index, long argl,
         void *argp)
{
  doorman_end_fd (SSL_get_fd (ssl));
  OPENSSL_thread_stop ();
  stack_give_back (); /* a handshake needs much of it */
}

static int
set_up (struct tls *tls)
{
  SSL_CTX *context = SSL_CTX_new (TLS_server_method ());

  if (context == NULL)
    return -1;
  tls->context = context;
  SSL_get_ex_new_index (0, NULL, NULL, NULL, on_free);
  SSL_CTX_set_cert_cb (context, choose_certificate, tls);
  /* A client's certificate must be from a trusted CA; the rest is checked at
   * each request.  Sessions are not kept, so that nothing outlives that.
   */
  SSL_CTX_set_verify (context, SSL_VERIFY_PEER, take_untimely);
  SSL_CTX_set_verify_depth (context, 1);
  SSL_CTX_set_session_cache_mode (context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options (context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION |
                                  SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_mode (context, SSL_MODE_ENABLE_PARTIAL_WRITE |
                               SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (SSL_CTX_set_min_proto_version (context, TLS1_2_VERSION) != 1 ||
      SSL_CTX_set_num_tickets (context, 0) != 1 ||
      SSL_CTX_set_cipher_list (context, "ECDHE+AESGCM:ECDHE+CHACHA20") != 1)
    return -1;
  return 0;
}

struct tls *
tls_new (struct trust *trust, const struct http_options *o, char *why,
         size_t why_size)
{
  struct tls *tls = alloc_zeroed (sizeof *tls);

  tls->trust = trust;
  tls->options = o;
  pthread_mutex_init (&tls->lock, NULL);
  if (take_trust (tls) && set_up (tls) == 0)
    return tls;
  snprintf (why, why_size,
            "OpenSSL cannot serve TLS on this host: is its configuration "
            "(openssl.cnf) too strict or damaged?");
  tls_free (tls);
  return NULL;
}

SSL_CTX *
tls_context (struct tls *tls)
{
  return tls->context;
}

void
tls_free (struct tls *tls)
{
  if (tls == NULL)
    return;
  SSL_CTX_free (tls->context);
  EVP_PKEY_free (tls->key);
  X509_free (tls->x509);
  X509_STORE_free (tls->store);
  sk_X509_NAME_pop_free (tls->names, X509_NAME_free);
  pthread_mutex_destroy (&tls->lock);
  free (tls);
}
