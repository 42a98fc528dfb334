/* blackhole.c: TCP connections on which what is sent does not arrive. */

#include <config.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "blackhole.h"

/* The first comes after 0.2 s at the earliest, each after twice as long. */
#define RETRIES 4

bool
blackhole_swallows (int fd)
{
  struct tcp_info info = { .tcpi_retransmits = 0 };
  socklen_t bytes = sizeof info;

  /* If the route is gone here, nothing was sent yet, and the kernel probes in vain. */
  return getsockopt (fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 &&
         ((info.tcpi_unacked > 0 && info.tcpi_retransmits >= RETRIES) ||
          info.tcpi_probes >= RETRIES);
}

void
blackhole_reset (int fd)
{
  const struct sockaddr none = { .sa_family = AF_UNSPEC };

  if (connect (fd, &none, sizeof none) == -1)
    shutdown (fd, SHUT_RDWR);
}
