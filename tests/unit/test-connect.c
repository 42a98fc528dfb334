/* test-connect.c: a URI from weftd makes no connection but by TCP, Unix socket or vsock.
 *
 * From version 1.22 on, libnbd starts ssh for nbd+ssh: and nbds+ssh:, with the host as a
 * word of its command line, which may be an option.  connect.c tells libnbd which transports
 * are permitted before it hands over a URI.
 */

#include <config.h>

#include <assert.h>

#include "plugin/connect.c"

/* ---- What connect.c calls. ---- */

struct params params;

const char *
tls_server_process (void)
{
  return "";
}

bool
exposure_uri_plain (const char *uri)
{
  return false;
}

bool
hangup_ending (void)
{
  return false;
}

/* ---- In libnbd's place. ---- */

static uint32_t permitted;
static unsigned given;

int
nbd_set_uri_allow_transports (struct nbd_handle *nbd, uint32_t mask)
{
  permitted = mask;
  return 0;
}

int
nbd_aio_connect_uri (struct nbd_handle *nbd, const char *uri)
{
  assert (permitted ==
          (LIBNBD_ALLOW_TRANSPORT_TCP | LIBNBD_ALLOW_TRANSPORT_UNIX |
           LIBNBD_ALLOW_TRANSPORT_VSOCK));
  given++;
  return -1;
}

int
main (void)
{
  static const char *const uris[] = { "nbd://127.0.0.1",
                                      "nbd+unix:///?socket=s",
                                      "nbd+ssh://host/", "nbds+ssh://-oA=b/" };
  static char folder[] = "/nowhere";

  for (size_t i = 0; i < 2 * sizeof uris / sizeof uris[0]; i++) {
    struct nbd_handle *nbd = nbd_create ();

    assert (nbd);
    permitted = ~0u;
    params.tls = i % 2 ? folder : NULL;
    connect_nbd (nbd, uris[i / 2], 0);
    nbd_close (nbd);
  }
  assert (given == sizeof uris / sizeof uris[0]);
  return 0;
}
