/* test-networks.c: the networks that a CA signs addresses of (server/pki/ca-networks.c); the
 * host's interfaces are made up here.
 */

#include <config.h>

#include <arpa/inet.h>
#include <assert.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "server/pki/ca-networks.h"

/* ---- Interfaces. ---- */

struct interface {
  const char *address, *mask; /* mask NULL: unknown */
  unsigned flags;
};

static struct interface interfaces[200];
static struct ifaddrs list[200];
static struct sockaddr_storage addresses[200], masks[200];

static struct sockaddr *
fill (struct sockaddr_storage *s, const char *text)
{
  struct sockaddr_in *four = (struct sockaddr_in *) s;
  struct sockaddr_in6 *six = (struct sockaddr_in6 *) s;

  s->ss_family = strchr (text, ':') ? AF_INET6 : AF_INET;
  assert (inet_pton (s->ss_family, text,
                     s->ss_family == AF_INET ? (void *) &four->sin_addr
                                             : (void *) &six->sin6_addr) == 1);
  return (struct sockaddr *) s;
}

int
getifaddrs (struct ifaddrs **to)
{
  *to = NULL;
  for (unsigned i = 0; interfaces[i].address; i++) {
    list[i].ifa_addr = fill (&addresses[i], interfaces[i].address);
    list[i].ifa_netmask = interfaces[i].mask
                            ? fill (&masks[i], interfaces[i].mask)
                            : NULL;
    list[i].ifa_flags = interfaces[i].flags;
    list[i].ifa_next = *to;
    *to = &list[i];
  }
  return 0;
}

void
freeifaddrs (struct ifaddrs *l)
{
  (void) l;
}

/* ---- Tests. ---- */

static void
test_words (void)
{
  static const char *const pairs[][2] = {
    { "10.1.2.3/8", "10.0.0.0/255.0.0.0" },
    { "192.168.255.1/17", "192.168.128.0/255.255.128.0" },
    { "192.0.2.7/32", "192.0.2.7/255.255.255.255" },
    { "0.0.0.0/0", "0.0.0.0/0.0.0.0" },
    { "fdff::1/7", "fc00::/fe00::" },
    { "2001:db8::1/128",
      "2001:db8::1/ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" },
  };
  static const char *const bad[] = { "10.0.0.0", "10.0.0.0/33",  "10.0.0.0/",
                                     "x/8",      "10.0.0.0/8x",  "10.0.0.0/-1",
                                     "/8",       "fd00::/129",   "fd00:/8",
                                     "",         "10.0.0.0/0x8", "10.0.0/8" };
  struct ca_networks n = { .count = 0 };
  char text[CA_NETWORK_BYTES];

  for (unsigned i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    assert (ca_network (&n, pairs[i][0]) && n.count == i + 1);
    ca_network_print (&n.network[i], text);
    assert (strcmp (text, pairs[i][1]) == 0);
  }
  for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
    assert (!ca_network (&n, bad[i]));
  while (n.count < CA_NETWORKS_MAX)
    assert (ca_network (&n, "10.0.0.0/8"));
  assert (!ca_network (&n, "10.0.0.0/8"));
}

static void
check (const struct ca_networks *n, const char *in, const char *out)
{
  if (in)
    assert (ca_networks_have (n, in));
  if (out)
    assert (!ca_networks_have (n, out));
}

/* The first and the last address of each, and the ones beside these. */
static void
test_private (void)
{
  static const char *const ends[][2] = {
    { "10.0.0.0", "9.255.255.255" },
    { "10.255.255.255", "11.0.0.0" },
    { "172.16.0.0", "172.15.255.255" },
    { "172.31.255.255", "172.32.0.0" },
    { "192.168.0.0", "192.167.255.255" },
    { "192.168.255.255", "192.169.0.0" },
    { "100.64.0.0", "100.63.255.255" },
    { "100.127.255.255", "100.128.0.0" },
    { "169.254.0.0", "169.253.255.255" },
    { "169.254.255.255", "169.255.0.0" },
    { "fc00::", "fbff:ffff::" },
    { "fdff:ffff::1", "fe00::" },
    { "fe80::1", "fe7f::1" },
    { "febf::1", "fec0::1" },
    { NULL, "8.8.8.8" },
    { NULL, "2001:db8::1" },
    { NULL, "::" },
    { NULL, "no address" },
  };
  struct ca_networks n = { .count = 0 };

  interfaces[0].address = NULL;
  ca_networks_usual (&n);
  for (unsigned i = 0; i < sizeof ends / sizeof ends[0]; i++)
    check (&n, ends[i][0], ends[i][1]);
}

static void
test_interfaces (void)
{
  static const struct interface some[] = {
    { "127.0.0.1", "255.0.0.0", IFF_LOOPBACK },
    { "198.51.100.99", "255.255.255.0", IFF_LOOPBACK },
    { "10.1.1.1", "255.255.255.0", 0 },
    { "203.0.113.77", "255.255.255.192", 0 },
    { "203.0.113.78", "255.255.255.192", 0 },
    { "192.0.2.1", "0.0.0.0", 0 },
    { "192.0.2.9", NULL, 0 },
    { "2001:db8:1:2::1", "ffff:ffff:ffff:ffff::", 0 },
    { "fe80::1", "ffff:ffff:ffff:ffff::", 0 },
  };
  struct ca_networks none = { .count = 0 }, n = none;

  ca_networks_usual (&none);
  memcpy (interfaces, some, sizeof some);
  ca_networks_usual (&n);
  /* A network that is there already is not added twice, and loopback is in any CA. */
  assert (n.count == none.count + 3);
  check (&n, "203.0.113.64", "203.0.113.63");
  check (&n, "203.0.113.127", "203.0.113.128");
  check (&n, "192.0.2.1", "192.0.2.2");
  check (&n, "2001:db8:1:2:ffff::1", "2001:db8:1:3::1");
  check (&n, NULL, "192.0.2.9");
  check (&n, NULL, "198.51.100.99");
}

/* A host of very many. */
static void
test_full (void)
{
  struct ca_networks n = { .count = 0 };
  char text[199][20];

  for (unsigned i = 0; i < 199; i++) {
    snprintf (text[i], sizeof text[i], "11.%u.0.1", i);
    interfaces[i] = (struct interface) { text[i], "255.255.0.0", 0 };
  }
  ca_networks_usual (&n);
  assert (n.count == CA_NETWORKS_MAX);
}

int
main (void)
{
  test_words ();
  test_private ();
  test_interfaces ();
  test_full ();
  return 0;
}
