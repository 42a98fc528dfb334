/* listeners.h: the sockets that nbdkit listens on, and what it accepted. */

#ifndef WEFT_LISTENERS_H
#define WEFT_LISTENERS_H

#include <stdbool.h>
#include <sys/socket.h>

/* shutdown () each accepted connection. */
void listeners_hang_up (int how);

/* Are there any listening sockets yet?  *exposed: the address of one that other
 * hosts reach, if there is one; else its family is 0.
 */
bool listeners_any (struct sockaddr_storage *exposed);

#endif /* WEFT_LISTENERS_H */
