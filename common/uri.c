/* uri.c: NBD URIs.  See uri.h. */

#include <config.h>

#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "uri.h"

#define NBD_PORT "10809"

static int
hex_digit (char c)
{
  if (c >= '0' && c <= '9')
    return c - '0';
  c = (char) tolower ((unsigned char) c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Take n characters with %XX decoded.  -1: does not fit, or %00. */
static int
decode (const char *text, size_t n, char *to, size_t size)
{
  size_t used = 0;

  for (size_t i = 0; i < n; i++) {
    char c = text[i];

    if (c == '%') {
      int high = i + 2 < n ? hex_digit (text[i + 1]) : -1;
      int low = high == -1 ? -1 : hex_digit (text[i + 2]);

      if (low == -1)
        return -1;
      c = (char) (16 * high + low);
      i += 2;
    }
    if (c == '\0' || used + 1 >= size)
      return -1;
    to[used++] = c;
  }
  to[used] = '\0';
  return 0;
}

static int
parse_unix (const char *p, struct uri *uri)
{
  const char *query = strchr (p, '?'), *socket;
  const char *export = *p == '/' ? p + 1 : p;

  socket = query ? strstr (query, "socket=") : NULL;
  if (socket == NULL || (socket[-1] != '?' && socket[-1] != '&'))
    return -1;
  socket += strlen ("socket=");
  if (decode (export, (size_t) (query - export), uri->export,
              sizeof uri->export) == -1 ||
      decode (socket, strcspn (socket, "&"), uri->socket, sizeof uri->socket) ==
        -1 ||
      uri->socket[0] == '\0')
    return -1;
  return 0;
}

static int
parse_tcp (const char *p, struct uri *uri)
{
  size_t authority = strcspn (p, "/?#");
  const char *end = p + authority, *host = p, *port;
  size_t host_length;

  if (*p == '[') {
    const char *close = memchr (p, ']', authority);

    if (close == NULL)
      return -1;
    host = p + 1;
    host_length = (size_t) (close - host);
    port = close + 1;
  }
  else {
    port = memchr (p, ':', authority);
    port = port ? port : end;
    host_length = (size_t) (port - p);
  }
  if (port != end && *port != ':')
    return -1;
  snprintf (uri->port, sizeof uri->port, "%s", NBD_PORT);
  if (port < end && ((size_t) (end - port - 1) >= sizeof uri->port ||
                     decode (port + 1, (size_t) (end - port - 1), uri->port,
                             sizeof uri->port) == -1))
    return -1;
  if (*end == '/' && decode (end + 1, strcspn (end + 1, "?#"), uri->export,
                             sizeof uri->export) == -1)
    return -1;
  if (host_length == 0 ||
      decode (host, host_length, uri->host, sizeof uri->host) == -1)
    return -1;
  /* A client that is given it as a word would take it for an option. */
  return uri->host[0] == '-' || uri->port[0] == '-' ? -1 : 0;
}

/* "nbd" is skipped, and an "s" behind it noted. */
int
uri_parse (const char *text, struct uri *uri)
{
  memset (uri, 0, sizeof *uri);
  if (strncmp (text, "nbd", 3) != 0)
    return -1;
  text += 3;
  uri->tls = *text == 's';
  text += uri->tls;
  if (strncmp (text, "+unix://", 8) == 0)
    return parse_unix (text + 8, uri);
  if (strncmp (text, "://", 3) == 0)
    return parse_tcp (text + 3, uri);
  return -1;
}

/* The greeting that every NBD server sends first, before any TLS: NBDMAGIC,
 * IHAVEOPT, flags.  A process that hangs accepts connections, for its kernel
 * does that.
 */
static bool
greets (int fd, int timeout_ms)
{
  struct pollfd p = { .fd = fd, .events = POLLIN };
  char greeting[18];
  size_t n = 0;
  ssize_t r;

  while (n < sizeof greeting) {
    if (poll (&p, 1, timeout_ms) != 1)
      return false;
    r = recv (fd, greeting + n, sizeof greeting - n, 0);
    if (r <= 0)
      return false;
    n += (size_t) r;
  }
  return memcmp (greeting, "NBDMAGIC", 8) == 0;
}

static bool
answers_at (int family, const struct sockaddr *address, socklen_t length,
            int timeout_ms)
{
  struct pollfd p = { .events = POLLOUT };
  int error = 0;
  socklen_t error_length = sizeof error;
  bool answers;

  p.fd = socket (family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (p.fd == -1)
    return false;
  if (connect (p.fd, address, length) == -1) {
    error = errno;
    if (error == EINPROGRESS && poll (&p, 1, timeout_ms) == 1 &&
        getsockopt (p.fd, SOL_SOCKET, SO_ERROR, &error, &error_length) == -1)
      error = errno;
  }
  answers = error == 0 && greets (p.fd, timeout_ms);
  close (p.fd);
  return answers;
}

bool
uri_answers (const char *text, unsigned timeout_ms)
{
  struct uri uri;
  struct sockaddr_un un = { .sun_family = AF_UNIX };
  struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list;
  bool answers = false;

  if (uri_parse (text, &uri) == -1)
    return false;
  if (uri.socket[0]) {
    memcpy (un.sun_path, uri.socket, sizeof un.sun_path);
    return answers_at (AF_UNIX, (struct sockaddr *) &un, sizeof un,
                       (int) timeout_ms);
  }
  if (getaddrinfo (uri.host, uri.port, &hints, &list) != 0)
    return false;
  for (struct addrinfo *a = list; a && !answers; a = a->ai_next)
    answers = answers_at (a->ai_family, a->ai_addr, a->ai_addrlen,
                          (int) timeout_ms);
  freeaddrinfo (list);
  return answers;
}

void
uri_of_socket (const char *socket, char *text, size_t size)
{
  size_t used = (size_t) snprintf (text, size, "nbd+unix:///?socket=");

  for (const unsigned char *p = (const unsigned char *) socket;
       *p && used + 4 < size; p++)
    used += (size_t) snprintf (
      text + used, size - used,
      isalnum (*p) || strchr ("/._-", *p) ? "%c" : "%%%02X", *p);
}
