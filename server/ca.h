/* ca.h: the cluster's certificate authority, in weftd's state directory:
 * ca-key.pem and ca-cert.pem.  From any thread, once it is open.
 */

#ifndef WEFT_CA_H
#define WEFT_CA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openssl/x509.h>

#define CA_NAMES_MAX 32
#define CA_FINGERPRINT_BYTES 72 /* "sha256:" and 64 hex digits */
#define CA_SERIAL_BYTES 48

struct ca;

/* Whom a certificate is for. */
struct ca_names {
  char dns[CA_NAMES_MAX][254];
  char address[CA_NAMES_MAX][46];
  unsigned dns_count, address_count;
};

struct ca_certificate {
  X509 *x509;
  char serial[CA_SERIAL_BYTES]; /* hex, as ca_serial gives it */
  uint64_t created, expires;    /* ms since 1970 */
};

/* Read it, or make it.  NULL: a sentence in why. */
struct ca *ca_open (const char *dir, char *why, size_t why_size);
void ca_free (struct ca *ca);

X509 *ca_x509 (const struct ca *ca);
const char *ca_pem (const struct ca *ca);
void ca_fingerprint (const struct ca *ca, char text[CA_FINGERPRINT_BYTES]);

/* Sign.  `client`: it may also be shown by a client. */
void ca_sign (const struct ca *ca, EVP_PKEY *key, const char *cn,
              const struct ca_names *names, bool client, uint64_t seconds,
              struct ca_certificate *certificate);

/* Read a request for a certificate: PEM from outside.  Its names are those it
 * asks for.  NULL: a sentence in why.
 */
EVP_PKEY *ca_read_request (const char *pem, struct ca_names *names, char *why,
                           size_t why_size);

/* How long a certificate is to last: as usual, or as
 * $WEFT_CERTIFICATE_SECONDS says.
 */
uint64_t ca_seconds (uint64_t usual);
/* malloc'ed. */
char *ca_print (X509 *x509);
void ca_serial (X509 *x509, char text[CA_SERIAL_BYTES]);
/* The common name; false: it has none, or one too long. */
bool ca_common_name (X509 *x509, char *text, size_t size);

#endif /* WEFT_CA_H */
