/* ca.h: a certificate authority of the cluster, in weftd's state directory:
 * ca-key.pem and ca-cert.pem.  From any thread, once it is open; trust.h has which one,
 * or which two, the cluster trusts.
 *
 * pki/ knows keys and certificates, and for which names a node may have one; of logins,
 * requests and the engine it knows nothing.  Its interface is ca.h, ca-list.h,
 * ca-networks.h, certificates.h, enrollment.h and trust.h.
 */

#ifndef WEFT_CA_H
#define WEFT_CA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openssl/x509.h>

#include "ca-networks.h"

#define CA_NAMES_MAX 32
#define CA_FINGERPRINT_BYTES 72 /* "sha256:" and 64 hex digits */
#define CA_SERIAL_BYTES 48
#define CA_SUBJECT_BYTES 64
#define CA_PROCESS_BYTES 72 /* "disk:" and a UUID, or "array:" and a name */

struct ca;

/* Whom a certificate is for. */
struct ca_names {
  char dns[CA_NAMES_MAX][254];
  char address[CA_NAMES_MAX][46];
  unsigned dns_count, address_count;
  /* One process of a node, as "disk:UUID" or "array:NAME"; "": the node itself.  In the
   * certificate it is the URI weft:disk:UUID or weft:array:NAME.
   */
  char process[CA_PROCESS_BYTES];
};

struct ca_certificate {
  X509 *x509;
  char serial[CA_SERIAL_BYTES]; /* hex, as ca_serial gives it */
  uint64_t created, expires;    /* ms since 1970 */
};

bool ca_names_have_address (const struct ca_names *names, const char *address);

/* Read it, or make it: for these networks, and this host's loopback; none: for any.
 * NULL: a sentence in why.
 */
struct ca *ca_open (const char *dir, const struct ca_networks *networks,
                    char *why, size_t why_size);
/* A new CA with another name, by which a certificate's CA is found.  networks: its
 * networks; none: those of the old one.
 */
struct ca *ca_successor (const struct ca *old,
                         const struct ca_networks *networks);
/* From its key and certificate, as PEM; NULL: they are damaged, or do not belong
 * together.
 */
struct ca *ca_read (const char *key, const char *certificate);
/* Put it into the place of the one in `dir`: wholly or not at all, whenever weftd dies.
 * -1: it is not; -2: nobody knows which of them is there after a crash, so weftd has to
 * end; a sentence in why.
 */
int ca_write (const struct ca *ca, const char *dir, char *why, size_t why_size);

/* Does what it was made for allow this address? */
bool ca_permits (const struct ca *ca, const char *address);
/* Was it made for networks? */
bool ca_is_constrained (const struct ca *ca);
/* For these, and no others? */
bool ca_is_bound_to (const struct ca *ca, const struct ca_networks *networks);
void ca_free (struct ca *ca);

X509 *ca_x509 (const struct ca *ca);
const char *ca_pem (const struct ca *ca);
/* malloc'ed, and secret. */
char *ca_print_key (const struct ca *ca);
const char *ca_fingerprint (const struct ca *ca);
/* Its common name. */
void ca_subject (const struct ca *ca, char text[CA_SUBJECT_BYTES]);
/* ms since 1970. */
void ca_times (const struct ca *ca, uint64_t *since, uint64_t *until);

/* Sign.  `client`: it may also be shown by a client. */
void ca_sign (const struct ca *ca, EVP_PKEY *key, const char *cn,
              const struct ca_names *names, bool client, uint64_t seconds,
              struct ca_certificate *certificate);

/* A certificate that is worth nothing any more: its serial number, as above, and
 * since when (ms since 1970).
 */
struct ca_revoked {
  const char *serial;
  uint64_t since;
};

/* The list of these, as PEM (malloc'ed): a CRL of this number, made now. */
char *ca_crl (const struct ca *ca, const struct ca_revoked *list, size_t count,
              uint64_t number);

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
/* Until when a certificate is valid (ms since 1970), and the common name of its
 * CA; "": it has none.
 */
void ca_signed (X509 *x509, uint64_t *until, char issuer[CA_SUBJECT_BYTES]);
void ca_serial (X509 *x509, char text[CA_SERIAL_BYTES]);
/* The process that it is for; "": it is for a node.  "?" is a URI that names no process:
 * nobody may do anything by it.
 */
void ca_process (X509 *x509, char text[CA_PROCESS_BYTES]);
/* The common name; false: it has none, or one too long. */
bool ca_common_name (X509 *x509, char *text, size_t size);

#endif /* WEFT_CA_H */
