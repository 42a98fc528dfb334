/* addresses.h: the IP addresses that an administrator gives to a node, and those that
 * callers have.
 */

#ifndef WEFT_ADDRESSES_H
#define WEFT_ADDRESSES_H

#include <stdbool.h>

#include "fields.h"

#define ADDRESSES_MAX 8
#define ADDRESSES_BYTES (ADDRESSES_MAX * 46)
#define ADDRESSES_ORIGIN_BYTES 64

/* Only an address is, and no name. */
bool addresses_is_loopback (const char *address);
/* The key by which callers are counted: for IPv6 the network, "2001:db8::/64",
 * because a host has as many addresses out of it as it likes; else the address.
 */
void addresses_origin (const char *address,
                       char origin[ADDRESSES_ORIGIN_BYTES]);
/* Can it be the address of one host, as it is written? */
bool addresses_is_of_a_host (const char *address);

/* Take a field that is a list of them, none twice, with a blank between each two; with
 * `some`, not of none.
 */
void addresses_take (struct fields *f, const char *name, bool some,
                     char text[ADDRESSES_BYTES]);
/* Such a text, as a list. */
json_t *addresses_list (const char *text);

#endif /* WEFT_ADDRESSES_H */
