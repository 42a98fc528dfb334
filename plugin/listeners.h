/* listeners.h: the sockets that nbdkit listens on, and what it accepted. */

#ifndef WEFT_LISTENERS_H
#define WEFT_LISTENERS_H

#include <stdbool.h>
#include <sys/socket.h>

/* Remember what nbdkit listens on.  0, or -1 with errno set. */
int listeners_find (void);

/* Let nobody in any more: clients find nobody, or systemd keeps them for the next
 * process.  nbdkit goes on as if nobody came.  For a signal's handler, too.
 */
void listeners_close (void);

/* shutdown () each connection that was accepted there; returns how many there are. */
unsigned listeners_hang_up (int how);

/* Reset those on which answers do not arrive (blackhole.h); returns how many. */
unsigned listeners_reset_swallowed (void);

/* Are there any listening sockets yet?  *exposed: the address of one that other
 * hosts reach, if there is one; else its family is 0.
 */
bool listeners_any (struct sockaddr_storage *exposed);

#endif /* WEFT_LISTENERS_H */
