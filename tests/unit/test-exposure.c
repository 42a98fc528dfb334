/* test-exposure.c: which peers and listening addresses belong to this host.
 *
 * Each address family that Linux knows is tried.  Only Unix sockets and loopback
 * addresses may belong to this host; a family that Weft does not know is far.
 */

#include <config.h>

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/vm_sockets.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "plugin/exposure.h"
#include "plugin/reach.h"
#include "plugin/listeners.h"
#include "plugin/nbdkit-options.h"
#include "plugin/nbdkit-tls.h"

/* ---- nbdkit's part. ---- */

struct options options;
static struct sockaddr_storage peer;
static bool peer_known, client_tls;

void
nbdkit_error (const char *fmt, ...)
{
}

int
nbdkit_is_tls (void)
{
  return client_tls;
}

int
nbdkit_peer_name (struct sockaddr *sa, socklen_t *bytes)
{
  memcpy (sa, &peer, sizeof peer);
  return peer_known ? 0 : -1;
}

bool
listeners_any (struct sockaddr_storage *exposed)
{
  exposed->ss_family = AF_UNSPEC;
  return false;
}

bool
tls_works (void)
{
  return true;
}

/* ---- Tests. ---- */

static struct sockaddr_storage
address (int family, const char *text)
{
  struct sockaddr_storage sa = { .ss_family = (sa_family_t) family };

  if (family == AF_INET)
    assert (inet_pton (family, text, &((struct sockaddr_in *) &sa)->sin_addr) ==
            1);
  else
    assert (
      inet_pton (family, text, &((struct sockaddr_in6 *) &sa)->sin6_addr) == 1);
  return sa;
}

static struct sockaddr_storage
machine (unsigned cid)
{
  struct sockaddr_storage sa = { .ss_family = AF_VSOCK };

  ((struct sockaddr_vm *) &sa)->svm_cid = cid;
  return sa;
}

/* Is a client with this address taken for one of another host, by each function that
 * decides it?
 */
static bool
is_far (struct sockaddr_storage sa)
{
  bool far;

  peer = sa;
  peer_known = true;
  far = exposure_far_client ();
  assert (reach_outside (&sa) == far);
  client_tls = false;
  assert (exposure_check_client (&sa) == (far ? -1 : 0));
  client_tls = true;
  assert (exposure_check_client (&sa) == 0);
  return far;
}

static void
test_families (void)
{
  for (int family = 0; family < AF_MAX; family++) {
    struct sockaddr_storage sa = { .ss_family = (sa_family_t) family };

    /* Zeroes are no loopback address of any family. */
    assert (is_far (sa) == (family != AF_UNSPEC && family != AF_UNIX));
  }
}

static void
test_addresses (void)
{
  assert (!is_far (address (AF_INET, "127.0.0.1")));
  assert (!is_far (address (AF_INET, "127.9.9.9")));
  assert (is_far (address (AF_INET, "128.0.0.1")));
  assert (!is_far (address (AF_INET6, "::1")));
  assert (!is_far (address (AF_INET6, "::ffff:127.0.0.1")));
  assert (is_far (address (AF_INET6, "::ffff:10.0.0.1")));
  assert (is_far (address (AF_INET6, "fe80::1")));
  assert (!is_far (machine (VMADDR_CID_LOCAL)));
  assert (is_far (machine (VMADDR_CID_HYPERVISOR)));
  assert (is_far (machine (VMADDR_CID_HOST)));
  assert (is_far (machine (3)));
}

static void
test_uris (void)
{
  static const struct {
    const char *uri;
    bool plain;
  } uris[] = {
    { "nbd://127.0.0.1:10809", false },
    { "nbd://localhost", false },
    { "nbd://[::1]/a", false },
    { "nbd://10.0.0.1", true },
    { "nbd://1", true },
    { "nbds://10.0.0.1", false },
    { "http://10.0.0.1:7380", true },
    { "https://10.0.0.1:7380", false },
    { "nbd+unix:///?socket=/run/a", false },
    { "nbds+unix:///?socket=/run/a", false },
    { "nbd+vsock://1:10809/a", false },
    { "nbd+vsock://2", true },
    { "NBD+VSOCK://3/", true },
    { "nbd+vsock:///", true },
    { "nbd+vsock://localhost", true },
    { "nbds+vsock://3", false },
  };

  for (unsigned i = 0; i < sizeof uris / sizeof uris[0]; i++)
    assert (exposure_uri_plain (uris[i].uri) == uris[i].plain);
}

/* `nbdkit --vsock` lets guests and their host in: not without their certificates. */
static void
test_vsock_listener (void)
{
  options = (struct options) { .vsock = true };
  assert (exposure_check_start () == -1);
  options.tls_required = true;
  assert (exposure_check_start () == -1);
  options.verify_peer = options.psk = true;
  assert (exposure_check_start () == -1);
  options.psk = false;
  assert (exposure_check_start () == 0 && exposure_listens ());
  /* If others are admitted, a client without an address counts as far. */
  peer_known = false;
  assert (exposure_far_client ());
}

int
main (void)
{
  options.verify_peer = true;
  test_families ();
  test_addresses ();
  test_uris ();
  test_vsock_listener ();
  return 0;
}
