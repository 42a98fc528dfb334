/* connect.c: the making of an NBD connection to a member. */

#include <config.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/clock.h"
#include "connect.h"
#include "common/descriptors.h"
#include "exposure.h"
#include "hangup.h"
#include "nbdkit-tls.h"
#include "role.h"
#include "common/strike.h"

#define ENDING_CHECK_MS 100
#define TRANSPORTS                                                             \
  (LIBNBD_ALLOW_TRANSPORT_TCP | LIBNBD_ALLOW_TRANSPORT_UNIX |                  \
   LIBNBD_ALLOW_TRANSPORT_VSOCK)

char *
connect_door_uri (const char *uri, const char *door, const char *token)
{
  const char *path = strstr (uri, "://") + 3, *query;
  char *r;

  path += strcspn (path, "/?#");
  query = path + strcspn (path, "?#");
  if (asprintf (&r, "%.*s/%s/%s%s", (int) (path - uri), uri, door, token,
                query) == -1)
    return NULL;
  return r;
}

bool
connect_is_tls (const char *uri)
{
  return strncasecmp (uri, "nbds", 4) == 0;
}

static enum connect_failure
prepare_tls (struct nbd_handle *nbd, const char *uri)
{
  if (!connect_is_tls (uri))
    return params.map                 ? 0
           : exposure_uri_plain (uri) ? CONNECT_PLAIN
           : params.tls               ? CONNECT_UNCERTIFIED
                                      : 0;
  /* Without a CA libnbd would speak to anybody. */
  if (params.tls == NULL)
    return CONNECT_NO_CA;
  return nbd_set_tls (nbd, LIBNBD_TLS_REQUIRE) == -1 ||
             nbd_set_tls_certificates (nbd, params.tls) == -1 ||
             nbd_set_tls_verify_peer (nbd, true) == -1
           ? CONNECT_NBD
           : 0;
}

static enum connect_failure
nbd_failure (void)
{
  char why[DESCRIPTORS_WHY_BYTES];

  return descriptors_short (why) ? CONNECT_DESCRIPTORS : CONNECT_NBD;
}

/* A process certificate of the server is a disk's, as we connect to members; or, for a
 * client of a service, that array's.
 */
static bool
is_expected (const char *process)
{
  if (process[0] == '\0')
    return true;
  if (params.service)
    return strncmp (process, "array:", 6) == 0 &&
           strcmp (process + 6, params.service) == 0;
  return strncmp (process, "disk:", 5) == 0;
}

enum connect_failure
connect_nbd (struct nbd_handle *nbd, const char *uri, unsigned wait_ms)
{
  uint64_t deadline_ms = clock_ms () + wait_ms, now;
  bool ending = false;
  enum connect_failure failure = prepare_tls (nbd, uri);

  if (failure)
    return failure;
  /* libnbd starts a program for a URI of any other kind (nbd+ssh). */
  if (nbd_set_uri_allow_transports (nbd, TRANSPORTS) == -1 ||
      nbd_aio_connect_uri (nbd, uri) == -1)
    return nbd_failure ();
  while (nbd_aio_is_connecting (nbd) > 0) {
    now = clock_ms ();
    if (!ending && hangup_ending ()) {
      ending = true;
      if (deadline_ms > now + CONNECT_ENDING_MS)
        deadline_ms = now + CONNECT_ENDING_MS;
    }
    if (now >= deadline_ms)
      return CONNECT_NO_ANSWER;
    wait_ms = deadline_ms - now;
    if (wait_ms > ENDING_CHECK_MS)
      wait_ms = ENDING_CHECK_MS;
    if (nbd_poll (nbd, (int) wait_ms) == -1)
      return nbd_failure ();
  }
  if (nbd_aio_is_ready (nbd) != 1)
    return nbd_failure ();
  return connect_is_tls (uri) && !is_expected (tls_server_process ())
           ? CONNECT_PROCESS
           : 0;
}

const char *
connect_error (char said[CONNECT_REASON_BYTES])
{
  const char *text = nbd_get_error (), *colon;

  if (text == NULL)
    return NULL;
  /* libnbd's errors say which of its functions failed; people don't care. */
  colon = strncmp (text, "nbd_", 4) == 0 ? strstr (text, ": ") : NULL;
  snprintf (said, CONNECT_REASON_BYTES, "%s", colon ? colon + 2 : text);
  strike_secrets (said);
  strike_controls (said);
  return said;
}

const char *
connect_reason (enum connect_failure failure, char said[CONNECT_REASON_BYTES])
{
  const char *text;

  switch (failure) {
  case CONNECT_NO_ANSWER:
    return "no answer in time";
  case CONNECT_PLAIN:
    return "it is on another host, and its URI is not nbds://";
  case CONNECT_UNCERTIFIED:
    return "its URI is not nbds://; this host has a certificate of the cluster "
           "(tls=) and connects only to members with TLS";
  case CONNECT_NO_CA:
    return "it speaks TLS; give tls=FOLDER, by whose CA it is verified";
  case CONNECT_PROCESS:
    return params.service ? "its certificate is not of a process of this array"
                          : "its certificate is not of a disk's process";
  case CONNECT_DESCRIPTORS:
    text = descriptors_short (said);
    return text ? text : "too many open files";
  case CONNECT_NBD:
    break;
  }
  text = connect_error (said);
  return text ? text : "unknown error";
}
