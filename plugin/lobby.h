/* lobby.h: clients that have connected and have not opened an export yet.
 *
 * Any host that reaches the port may connect and be silent: nbdkit keeps a
 * thread and some descriptors for it, for ever.  So a client must open an
 * export within a time, as for qemu-nbd, and the number of waiting clients is
 * bounded.  If more come, the oldest connection of the address with most of
 * them is closed, so one address cannot keep others out.  Connections with an
 * open export are bounded, too: in all, by node (its certificate, else its
 * address), by session, and for readers, so that writers always find a place.
 *
 * A client of a Unix socket is admitted by the socket's permissions: it has no
 * time limit, and counts only towards the bound on all connections.
 */

#ifndef WEFT_LOBBY_H
#define WEFT_LOBBY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/shares.h"

/* So long it may take to open an export, with all attempts that are refused. */
#define LOBBY_OPEN_MS 10000

/* At most so many wait, of one address half of them; and so many have one open, of one
 * node half of them.  Readers have half of these places at most; one session, and the
 * readers of one node, have an eighth.
 */
#define LOBBY_WAITING_MAX 256
#define LOBBY_INSIDE_MAX 512

/* Where descriptors are few, one session still has so many: twice what an array process
 * opens at a member (peer.h), because it connects again before the former connections
 * have ended.
 */
#define LOBBY_SESSION_MIN 24

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

/* It opens an export; node: of its certificate, NULL: it shows none.  -1: there
 * are too many, and an error was logged.
 */
int lobby_leave (const char *node);

/* The export is open: it belongs to this session (0: to none), and may be read
 * only.  -1: too many such are open, and an error was logged; close it again.
 */
int lobby_settle (uint64_t session, bool reads);

/* It has closed it again, or was refused, and may open another one, in the time that is
 * left.
 */
void lobby_return (void);

/* The connection of this thread, until it ends; NULL: it is not known. */
struct caller *lobby_caller (void);
/* Its share of the places.  By a thread of it. */
struct share lobby_share (const struct caller *c);
/* Hang up on it, if it has an export open still; by any thread. */
void lobby_hang_up (const struct caller *c);

/* Hang up on those whose time is over. */
void lobby_sweep (uint64_t now_ms);

#endif /* WEFT_LOBBY_H */
