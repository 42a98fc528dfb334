/* trust.h: which CA the cluster trusts; two, while one takes the other's place.
 *
 *   TRUST_ONE     there is one, by which all is signed
 *   TRUST_SPREAD  nodes learn of the next one, and to trust both; all is signed by the
 *                 first still
 *   TRUST_RENEW   nodes get certificates of the next one; weftd shows one of the first
 *                 still, which every node and everybody else trusts
 *
 * and then the next one is the only one.  The loop's thread alone changes it; the state
 * between is a record, the end of it is that ca-key.pem is replaced.
 */

#ifndef WEFT_TRUST_H
#define WEFT_TRUST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>
#include <openssl/ssl.h>

#include "ca-list.h"

#define TRUST_KIND "ca"
#define TRUST_TAG_BYTES 65

struct store_txn;
struct trust;

enum trust_phase { TRUST_ONE, TRUST_SPREAD, TRUST_RENEW };

/* Takes the CA over; it is in `dir`, which stays the caller's, and so do the networks for
 * which the next one is made (none: for the same).
 */
struct trust *trust_new (struct ca *ca, const char *dir,
                         const struct ca_networks *networks);
void trust_free (struct trust *t);
/* The record, at the start.  False: it makes no sense. */
bool trust_load (struct trust *t, json_t *object);

/* ---- From any thread. ---- */

/* Another number, whenever it is another CA, or two. */
unsigned trust_version (struct trust *t);
/* To verify by; the caller's.  NULL: OpenSSL can't. */
X509_STORE *trust_store (struct trust *t);
/* Their names, for clients with several certificates; the caller's. */
STACK_OF (X509_NAME) * trust_names (struct trust *t);
/* Sign weftd's own certificate. */
void trust_sign_own (struct trust *t, EVP_PKEY *key,
                     const struct ca_names *names, uint64_t seconds,
                     struct ca_certificate *certificate);

/* ---- On the loop's thread. ---- */

enum trust_phase trust_phase (const struct trust *t);
const char *trust_phase_word (enum trust_phase phase);
uint64_t trust_since (const struct trust *t); /* ms since 1970; 0: TRUST_ONE */
/* The first one, and the next one (NULL: there is none). */
const struct ca *trust_ca (const struct trust *t);
const struct ca *trust_next (const struct trust *t);
/* All trusted CAs, as PEM, the first one first; it stays ours. */
const char *trust_pem (const struct trust *t);
/* The tag of that text: its SHA-256, in hex. */
const char *trust_tag (const struct trust *t);
/* The lists of what is revoked, one by each CA, as PEM (malloc'ed). */
char *trust_crl (const struct trust *t, const struct ca_revoked *list,
                 size_t count, uint64_t number);
/* Read the list that the one or the next one has signed; returns that CA, NULL: none. */
const struct ca *trust_list_read (const struct trust *t, const char *pem,
                                  struct ca_list *list);

/* May it be in a certificate: do all that are trusted permit it? */
bool trust_permits (const struct trust *t, const char *address);
/* The next one, not trusted yet: of trust_begin, which takes it over, or ca_free. */
struct ca *trust_successor (const struct trust *t);
void trust_begin (struct trust *t, struct ca *next, struct store_txn *txn,
                  uint64_t wall_ms);
/* Was a record found of what is over: weftd died just then?  It goes. */
bool trust_settle (struct trust *t, struct store_txn *txn);
/* Every node that matters trusts both. */
void trust_renew (struct trust *t, struct store_txn *txn);
/* Stop trusting the first one.  -1: it is as before; -2: as ca_write says; a
 * sentence in why.
 */
int trust_retire (struct trust *t, struct store_txn *txn, char *why,
                  size_t why_size);

#endif /* WEFT_TRUST_H */
