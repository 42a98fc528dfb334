/* lobby.h: who has connected and has opened no export yet.
 *
 * Whoever reaches the port may connect and be silent: nbdkit keeps a thread and some
 * descriptors for it, for ever.  So there is a time in which an export is to be opened,
 * as qemu-nbd has it, and a bound on how many wait at once: where more come, the oldest
 * of the address that has most of them goes, so nobody keeps others out.  How many
 * connections may have an export open is bounded, too, for each address and in all.
 *
 * Clients of a Unix socket, whose addresses are all the same, count towards the last of
 * these only: they are let in by the right to open it.
 */

#ifndef WEFT_LOBBY_H
#define WEFT_LOBBY_H

#include <stdint.h>
#include <sys/socket.h>

/* So long it may take to open an export. */
#define LOBBY_OPEN_MS 10000

/* At most so many wait, and so many have one open; of one address half of them. */
#define LOBBY_WAITING_MAX 256
#define LOBBY_INSIDE_MAX 512

/* At most so many come in a second, so that who is in goes on meanwhile; the others wait in
 * the kernel's queue.  While so many are there, those are refused whose address has more
 * than half of the last ones.
 */
#define LOBBY_ACCEPTS_S 2000
#define LOBBY_QUEUE_MAX 256

/* Raise the limit of descriptors as far as it goes, and share them out.  Once, before
 * the others.
 */
void lobby_begin (void);

/* The following three are called by the thread of the connection that it is about,
 * which takes it out again by its end.
 */

/* Somebody has connected; peer: its address, or of no family. */
void lobby_enter (const struct sockaddr_storage *peer, socklen_t bytes);

/* It opens an export.  -1: too many have, and an error was said. */
int lobby_leave (void);

/* It has closed it again, and may open another one. */
void lobby_return (void);

/* The connection of this thread, until it ends; NULL: it is not known. */
struct caller *lobby_caller (void);
/* Hang up on it, if it has an export open still; by any thread. */
void lobby_hang_up (const struct caller *c);

/* Hang up on those whose time is over. */
void lobby_sweep (uint64_t now_ms);

#endif /* WEFT_LOBBY_H */
