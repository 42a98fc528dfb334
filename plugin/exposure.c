/* exposure.c: ensures that data leaves this host only by TLS.
 *
 * nbdkit listens after get_ready, and by then it may already have reported
 * success to its parent; so this file reads from nbdkit's options where it will
 * listen.  Sockets that nbdkit inherits (LISTEN_FDS) are there at get_ready.
 */

#include <config.h>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include <linux/vm_sockets.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "exposure.h"
#include "listeners.h"
#include "nbdkit-options.h"
#include "reach.h"
#include "nbdkit-tls.h"

#define VSOCK_LOCAL "1" /* VMADDR_CID_LOCAL, as a URI has it */

/* A name is not looked up: only "localhost" is known to be this host. */
static bool
host_exposed (const char *host)
{
  struct sockaddr_storage sa = { .ss_family = AF_INET };

  if (inet_pton (AF_INET, host, &((struct sockaddr_in *) &sa)->sin_addr) == 1)
    return reach_outside (&sa);
  sa.ss_family = AF_INET6;
  if (inet_pton (AF_INET6, host, &((struct sockaddr_in6 *) &sa)->sin6_addr) ==
      1)
    return reach_outside (&sa);
  return host[0] != '\0' && strcasecmp (host, "localhost") != 0;
}

bool
exposure_uri_plain (const char *uri)
{
  static const char *const safe[] = { "https://", "nbds://", "nbd+unix:",
                                      "nbds+unix:", "nbds+vsock:" };
  const char *p = strstr (uri, "://"), *at;
  char host[256];
  size_t n;

  for (unsigned i = 0; i < sizeof safe / sizeof safe[0]; i++)
    if (strncasecmp (uri, safe[i], strlen (safe[i])) == 0)
      return false;
  p = p ? p + 3 : uri;
  at = p + strcspn (p, "@/?#");
  if (*at == '@') /* user@host */
    p = at + 1;
  if (*p == '[')
    n = strcspn (++p, "]");
  else
    n = strcspn (p, ":/?#");
  snprintf (host, sizeof host, "%.*s", n < sizeof host ? (int) n : 0, p);
  if (strncasecmp (uri, "nbd+vsock:", strlen ("nbd+vsock:")) == 0)
    return strcmp (host, VSOCK_LOCAL) != 0;
  return n >= sizeof host || host_exposed (host);
}

/* The first address off this host of those that nbdkit is about to listen on;
 * its family is 0 where there is none, or it can't be looked up: then nbdkit
 * can't listen there either.
 */
static void
will_listen (struct sockaddr_storage *exposed)
{
  const struct addrinfo hints = { .ai_flags = AI_PASSIVE,
                                  .ai_socktype = SOCK_STREAM };
  struct addrinfo *list = NULL;

  exposed->ss_family = AF_UNSPEC;
  if (options.vsock) {
    *(struct sockaddr_vm *) exposed = (struct sockaddr_vm) {
      .svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_ANY
    };
    return;
  }
  if (getaddrinfo (options.address[0] ? options.address : NULL, "10809", &hints,
                   &list) != 0)
    return;
  for (struct addrinfo *a = list; a; a = a->ai_next) {
    struct sockaddr_storage sa = { .ss_family = AF_UNSPEC };

    memcpy (&sa, a->ai_addr, a->ai_addrlen);
    if (reach_outside (&sa))
      *exposed = sa;
  }
  freeaddrinfo (list);
}

static int
refuse_start (const struct sockaddr_storage *sa, const char *missing)
{
  char where[NI_MAXHOST];

  if (getnameinfo ((struct sockaddr *) sa, sizeof *sa, where, sizeof where,
                   NULL, 0, NI_NUMERICHOST) != 0)
    strcpy (where,
            sa->ss_family == AF_VSOCK ? "vsock" : "an address of this host");
  nbdkit_error ("it would listen on %s, which other hosts reach, without %s: "
                "give nbdkit that and --tls-certificates=FOLDER, or let it "
                "listen on this host only, by -i 127.0.0.1 or -U SOCKET",
                where, missing);
  return -1;
}

static bool listens;

bool
exposure_listens (void)
{
  return listens;
}

int
exposure_check_start (void)
{
  struct sockaddr_storage sa;

  if (!listeners_any (&sa)) {
    if (!options.ip && !options.vsock)
      return 0;
    will_listen (&sa);
  }
  if (sa.ss_family == AF_UNSPEC)
    return 0;
  listens = true;
  if (!options.tls_required)
    return refuse_start (&sa, "--tls=require --tls-verify-peer");
  if (!options.verify_peer)
    return refuse_start (&sa, "--tls-verify-peer");
  if (options.psk) {
    nbdkit_error (
      "--tls-psk cannot be used where other hosts reach this process: "
      "its clients would show no certificate; give nbdkit "
      "--tls-certificates=FOLDER instead");
    return -1;
  }
  if (tls_works ())
    return 0;
  nbdkit_error ("Weft does not know the TLS code of this nbdkit or libnbd: "
                "other hosts might connect by TLS 1.0 or with revoked "
                "certificates; use nbdkit and libnbd of Debian 12 or 13");
  return -1;
}

socklen_t
exposure_peer (struct sockaddr_storage *sa)
{
  socklen_t bytes = sizeof *sa;

  sa->ss_family = AF_UNSPEC;
  if (nbdkit_peer_name ((struct sockaddr *) sa, &bytes) == -1)
    sa->ss_family = AF_UNSPEC;
  return bytes;
}

bool
exposure_far_client (void)
{
  struct sockaddr_storage sa;

  exposure_peer (&sa);
  return reach_outside (&sa) || (listens && sa.ss_family == AF_UNSPEC);
}

int
exposure_check_client (const struct sockaddr_storage *peer)
{
  if (!reach_outside (peer) ||
      (nbdkit_is_tls () == 1 && options.verify_peer && !options.psk))
    return 0;
  nbdkit_error ("a client on another host came without TLS and is refused: "
                "start nbdkit with --tls=require --tls-verify-peer");
  return -1;
}
