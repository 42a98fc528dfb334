/* ca-networks.h: the networks that a CA signs addresses of. */

#ifndef WEFT_CA_NETWORKS_H
#define WEFT_CA_NETWORKS_H

#include <stdbool.h>
#include <stdint.h>

#define CA_NETWORKS_MAX 64
#define CA_NETWORK_BYTES 96

struct ca_network {
  unsigned size; /* of an address of it, and of its mask: 4 bytes, or 16 */
  uint8_t address[16], mask[16];
};

struct ca_networks {
  struct ca_network network[CA_NETWORKS_MAX];
  unsigned count;
};

/* Take "10.0.0.0/8".  False: it is no network, or one too many. */
bool ca_network (struct ca_networks *n, const char *text);
/* "10.0.0.0/255.0.0.0" */
void ca_network_print (const struct ca_network *n, char text[CA_NETWORK_BYTES]);
/* The address may be any text. */
bool ca_network_has (const struct ca_network *n, const char *address);
/* Add the usual networks: the private ones, and those of this host's
 * interfaces, as far as there is room.
 */
void ca_networks_usual (struct ca_networks *n);
bool ca_networks_have (const struct ca_networks *n, const char *address);

#endif /* WEFT_CA_NETWORKS_H */
