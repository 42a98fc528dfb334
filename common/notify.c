/* notify.c: see notify.h. */

#include <config.h>

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "notify.h"

/* A service manager that does not listen is no reason to stop: it will notice
 * itself what it did not hear.
 */
static void
notify (const char *text)
{
  const char *path = getenv ("NOTIFY_SOCKET");
  struct sockaddr_un to = { .sun_family = AF_UNIX };
  size_t n = path ? strlen (path) : 0;
  int fd;

  if (n < 2 || n >= sizeof to.sun_path || (path[0] != '/' && path[0] != '@'))
    return;
  memcpy (to.sun_path, path, n);
  if (path[0] == '@') /* an abstract socket's name begins with a zero */
    to.sun_path[0] = '\0';
  fd = socket (AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd == -1)
    return;
  sendto (fd, text, strlen (text), MSG_NOSIGNAL, (struct sockaddr *) &to,
          (socklen_t) (offsetof (struct sockaddr_un, sun_path) + n));
  close (fd);
}

void
notify_ready (void)
{
  notify ("READY=1");
}

void
notify_watchdog (void)
{
  notify ("WATCHDOG=1");
}

void
notify_stopping (void)
{
  notify ("STOPPING=1");
}
