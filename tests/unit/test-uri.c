/* test-uri.c: which texts are NBD URIs that a program may be given.
 *
 * weftctl attach runs as root, and has its URIs from weftd.  It refuses other texts than
 * URIs of these kinds.  A client gets a host and a port as words, so neither may look like
 * an option.
 */

#include <config.h>

#include <assert.h>
#include <string.h>

#include "common/uri.h"

static const struct {
  const char *text, *host, *port, *socket;
} good[] = {
  { "nbd://127.0.0.1", "127.0.0.1", "10809", "" },
  { "nbds://10.0.0.1:10810/a", "10.0.0.1", "10810", "" },
  { "nbds://[fd00::1]:7/", "fd00::1", "7", "" },
  { "nbd://h-1.example", "h-1.example", "10809", "" },
  { "nbd+unix:///?socket=/run/a.sock", "", "", "/run/a.sock" },
  { "nbds+unix:///a?x=y&socket=s", "", "", "s" },
};

static const char *const bad[] = {
  "",
  "--command",
  "-u",
  "http://127.0.0.1",
  "nbd",
  "nbd:",
  "nbd://",
  "nbd://:10809",
  "nbd://-u",
  "nbd://%2du:10809/",
  "nbds://-certfile:10809",
  "nbd://[-u]:1",
  "nbd://host:-1",
  "nbd://host:%2d1",
  "nbd://host%00",
  "nbd+ssh://host/",
  "nbds+ssh://-oProxyCommand=reboot/",
  "nbd+vsock://1",
  "nbd+unix://",
  "nbd+unix:///?socket=",
  "NBD+SSH://host",
};

int
main (void)
{
  struct uri uri;

  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
    assert (uri_parse (good[i].text, &uri) == 0 &&
            strcmp (uri.host, good[i].host) == 0 &&
            strcmp (uri.port, good[i].port) == 0 &&
            strcmp (uri.socket, good[i].socket) == 0);
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    assert (uri_parse (bad[i], &uri) == -1 && !uri_answers (bad[i], 0));
  return 0;
}
