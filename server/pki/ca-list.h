/* ca-list.h: read a list of revoked certificates (a CRL) that a CA has signed. */

#ifndef WEFT_CA_LIST_H
#define WEFT_CA_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ca.h"

struct ca_list {
  uint64_t number;
  char (*serial)[CA_SERIAL_BYTES]; /* malloc'ed */
  size_t count;
};

/* Read the list that this CA has signed, of those in the text, which comes from outside.
 * False: none is, or it has no number.
 */
bool ca_list_read (const struct ca *ca, const char *pem, struct ca_list *list);
void ca_list_free (struct ca_list *list);

#endif /* WEFT_CA_LIST_H */
