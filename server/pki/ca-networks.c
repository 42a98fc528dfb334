/* ca-networks.c: the networks that a CA signs addresses of; see ca-networks.h. */

#include <config.h>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ca-networks.h"

/* An address or a mask, as the bytes of a packet.  How many there are. */
static unsigned
bytes_of (const struct sockaddr *a, uint8_t bytes[16])
{
  if (a->sa_family == AF_INET6) {
    memcpy (bytes, &((const struct sockaddr_in6 *) a)->sin6_addr, 16);
    return 16;
  }
  memcpy (bytes, &((const struct sockaddr_in *) a)->sin_addr, 4);
  return 4;
}

static bool
add (struct ca_networks *n, const uint8_t *address, unsigned size,
     unsigned bits)
{
  struct ca_network *to = &n->network[n->count];

  if (n->count == CA_NETWORKS_MAX)
    return false;
  n->count++;
  to->size = size;
  for (unsigned i = 0; i < size; i++) {
    unsigned left = bits > 8 * i ? bits - 8 * i : 0;

    to->mask[i] = left >= 8 ? 0xff : (uint8_t) (0xff00 >> left);
    to->address[i] = address[i] & to->mask[i];
  }
  return true;
}

bool
ca_network (struct ca_networks *n, const char *text)
{
  const char *slash = strchr (text, '/');
  int family = strchr (text, ':') ? AF_INET6 : AF_INET;
  unsigned size = family == AF_INET6 ? 16 : 4;
  char address[46], *end;
  uint8_t bytes[16];
  unsigned long bits;

  if (slash == NULL || slash[1] < '0' || slash[1] > '9' ||
      (size_t) (slash - text) >= sizeof address)
    return false;
  memcpy (address, text, (size_t) (slash - text));
  address[slash - text] = '\0';
  bits = strtoul (slash + 1, &end, 10);
  return *end == '\0' && bits <= 8 * size &&
         inet_pton (family, address, bytes) == 1 &&
         add (n, bytes, size, (unsigned) bits);
}

void
ca_network_print (const struct ca_network *n, char text[CA_NETWORK_BYTES])
{
  int family = n->size == 16 ? AF_INET6 : AF_INET;
  char address[46], mask[46];

  inet_ntop (family, n->address, address, sizeof address);
  inet_ntop (family, n->mask, mask, sizeof mask);
  snprintf (text, CA_NETWORK_BYTES, "%s/%s", address, mask);
}

bool
ca_network_has (const struct ca_network *n, const char *address)
{
  bool six = strchr (address, ':') != NULL;
  uint8_t bytes[16];
  unsigned i = 0;

  if (six != (n->size == 16) ||
      inet_pton (six ? AF_INET6 : AF_INET, address, bytes) != 1)
    return false;
  while (i < n->size && (bytes[i] & n->mask[i]) == n->address[i])
    i++;
  return i == n->size;
}

bool
ca_networks_have (const struct ca_networks *n, const char *address)
{
  for (unsigned i = 0; i < n->count; i++)
    if (ca_network_has (&n->network[i], address))
      return true;
  return false;
}

void
ca_networks_usual (struct ca_networks *n)
{
  /* RFC 1918, RFC 6598, and of one link; RFC 4193, and of one link. */
  static const char *const private[] = {
    "10.0.0.0/8",     "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10",
    "169.254.0.0/16", "fc00::/7",      "fe80::/10",
  };
  struct ifaddrs *list, *i;

  for (size_t k = 0; k < sizeof private / sizeof private[0]; k++)
    ca_network (n, private[k]);
  if (getifaddrs (&list) == -1)
    return;
  for (i = list; i != NULL; i = i->ifa_next) {
    int family = i->ifa_addr && i->ifa_netmask ? i->ifa_addr->sa_family
                                               : AF_UNSPEC;
    uint8_t address[16], mask[16];
    unsigned size, bits = 0;
    char text[46];

    if ((family != AF_INET && family != AF_INET6) ||
        i->ifa_flags & IFF_LOOPBACK)
      continue;
    size = bytes_of (i->ifa_addr, address);
    bytes_of (i->ifa_netmask, mask);
    while (bits < 8 * size && mask[bits / 8] & 0x80 >> bits % 8)
      bits++;
    inet_ntop (family, address, text, sizeof text);
    /* For a link without a network of its own: that address. */
    if (!ca_networks_have (n, text))
      add (n, address, size, bits ? bits : 8 * size);
  }
  freeifaddrs (list);
}
