/* enrollment.h: the names and addresses for which a node may have a certificate.
 *
 * weftd knows which other node has a certificate for an address, and which addresses are its
 * own.  Nodes take a process with a certificate for such an address for that node, or for
 * weftd, so nobody else gets one.
 */

#ifndef WEFT_ENROLLMENT_H
#define WEFT_ENROLLMENT_H

#include <stdbool.h>

#include "certificates.h"
#include "server/text.h"
#include "trust.h"

struct enrollment {
  const struct certificates *certificates;
  const struct trust *trust;
  const struct ca_names *own; /* of weftd's host */
};

struct enrollment_ask {
  const char *node;
  const struct ca_names *names; /* that it asks for */
  const char *
    given; /* the addresses that its token is for, with blanks; "": the one that it
                        calls from */
  const char *from; /* the address that it calls from */
};

/* May a node that enrolls have a certificate for these names?  False: p says why not. */
bool enrollment_permits (const struct enrollment *e,
                         const struct enrollment_ask *ask, struct refusal *p);
/* May a node that is enrolled, and has these addresses, have those of this list in their
 * place?  False: p says why not.
 */
bool enrollment_permits_addresses (const struct enrollment *e, const char *node,
                                   const json_t *present, const json_t *list,
                                   struct refusal *p);

#endif /* WEFT_ENROLLMENT_H */
