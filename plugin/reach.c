/* reach.c: see reach.h. */

#include <config.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <linux/vm_sockets.h>

#include "reach.h"

bool
reach_outside (const struct sockaddr_storage *sa)
{
  const struct in6_addr *a6;
  uint32_t a4;

  switch (sa->ss_family) {
  case AF_INET:
    a4 = ntohl (((const struct sockaddr_in *) sa)->sin_addr.s_addr);
    return a4 >> 24 != 127;
  case AF_INET6:
    a6 = &((const struct sockaddr_in6 *) sa)->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED (a6))
      return a6->s6_addr[12] != 127;
    return !IN6_IS_ADDR_LOOPBACK (a6);
  case AF_VSOCK: /* a guest is another machine, and so is a guest's host */
    return ((const struct sockaddr_vm *) sa)->svm_cid != VMADDR_CID_LOCAL;
  case AF_UNSPEC: /* no address, or a socket pair */
  case AF_UNIX:
    return false;
  }
  return true;
}
