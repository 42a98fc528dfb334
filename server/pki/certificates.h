/* certificates.h: the certificates of nodes and of their processes that weftd knows.  auth.c
 * has the list, and stores it.
 */

#ifndef WEFT_CERTIFICATES_H
#define WEFT_CERTIFICATES_H

#include <stdint.h>

#include <bsd/sys/queue.h>
#include <jansson.h>

#include "ca.h"

struct certificate {
  TAILQ_ENTRY (certificate) link;
  char serial[CA_SERIAL_BYTES];
  char node
    [64]; /* "": it is on a list that was shown, and no more is known of it */
  uint64_t created, expires;
  uint64_t revoked;  /* since then it is worth nothing; 0: it is good */
  json_t *addresses; /* the node's: a list of text */
  char ca
    [CA_FINGERPRINT_BYTES]; /* by which it is signed; "": the one that was there
                                    before there could be two */
  char process[CA_PROCESS_BYTES]; /* as of struct ca_names */
};
/* Revoked ones, too. */
TAILQ_HEAD (certificates, certificate);

/* The node's certificate that has this serial number, unless it was revoked. */
struct certificate *certificates_find (const struct certificates *list,
                                       const char *node, const char *serial);
/* A certificate of the node that was not revoked; NULL: there is none. */
const struct certificate *certificates_of_node (const struct certificates *list,
                                                const char *node);
/* How many certificates the node has that expire after this, and were not revoked: for this
 * process ("": for the node itself; NULL: in all).
 */
unsigned certificates_count (const struct certificates *list, const char *node,
                             const char *process, uint64_t wall_ms);
/* The node that has a certificate for this address, but for `but`; NULL: none. */
const char *certificates_node_at (const struct certificates *list,
                                  const char *address, const char *but);

/* Sign one for the key of this node, or of this process of it, that is valid for so long.
 * It takes over the addresses.  *pem: the certificate; malloc'ed.
 */
struct certificate *certificate_sign (const struct ca *ca, EVP_PKEY *key,
                                      const char *node, const char *process,
                                      json_t *addresses, uint64_t seconds,
                                      char **pem);

#endif /* WEFT_CERTIFICATES_H */
