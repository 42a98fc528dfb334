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
#include "role.h"
#include "common/strike.h"

#define ENDING_CHECK_MS 100

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

/* The reason for CONNECT_DESCRIPTORS. */
static _Thread_local const char *descriptors;

static enum connect_failure
nbd_failure (void)
{
  descriptors = descriptors_short ();
  return descriptors ? CONNECT_DESCRIPTORS : CONNECT_NBD;
}

enum connect_failure
connect_nbd (struct nbd_handle *nbd, const char *uri, unsigned wait_ms,
             bool until_end)
{
  uint64_t deadline_ms = clock_ms () + wait_ms, now;
  enum connect_failure failure = prepare_tls (nbd, uri);

  if (failure)
    return failure;
  if (nbd_aio_connect_uri (nbd, uri) == -1)
    return nbd_failure ();
  while (nbd_aio_is_connecting (nbd) > 0) {
    now = clock_ms ();
    if (now >= deadline_ms || (until_end && hangup_ending ()))
      return CONNECT_NO_ANSWER;
    wait_ms = deadline_ms - now;
    if (wait_ms > ENDING_CHECK_MS)
      wait_ms = ENDING_CHECK_MS;
    if (nbd_poll (nbd, (int) wait_ms) == -1)
      return nbd_failure ();
  }
  return nbd_aio_is_ready (nbd) == 1 ? 0 : nbd_failure ();
}

const char *
connect_error (void)
{
  static _Thread_local char said[1024];
  const char *text = nbd_get_error (), *colon;

  if (text == NULL)
    return NULL;
  /* libnbd's errors say which of its functions failed; people don't care. */
  colon = strncmp (text, "nbd_", 4) == 0 ? strstr (text, ": ") : NULL;
  snprintf (said, sizeof said, "%s", colon ? colon + 2 : text);
  strike_secrets (said);
  return said;
}

const char *
connect_reason (enum connect_failure failure)
{
  const char *text;

  switch (failure) {
  case CONNECT_NO_ANSWER:
    return "no answer in time";
  case CONNECT_PLAIN:
    return "it is on another host, and its URI is not nbds://";
  case CONNECT_UNCERTIFIED:
    return "its URI is not nbds://, and this host connects to certified "
           "members "
           "only, for it has a certificate of the cluster (tls=)";
  case CONNECT_NO_CA:
    return "it speaks TLS; give tls=FOLDER, by whose CA it is verified";
  case CONNECT_DESCRIPTORS:
    return descriptors;
  case CONNECT_NBD:
    break;
  }
  text = connect_error ();
  return text ? text : "unknown error";
}
