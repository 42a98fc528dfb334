/* door.h: one NBD connection to a member, and I/O as NBD commands.
 *
 * This file knows how an array_io becomes NBD commands and what a foreign NBD server
 * can't do; peer.c which door is taken.
 */

#ifndef WEFT_DOOR_H
#define WEFT_DOOR_H

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libnbd.h>

struct peer;
struct peer_io;
struct wire;

struct door {
  struct nbd_handle *nbd;
  struct wire *wire; /* NULL: libnbd carries the commands */
  /* Where libnbd does, our own duplicate of the handle's socket: libnbd closes its
   * own whenever a thread finds the connection broken, and the number may be another
   * file's by the time that the poller uses it.
   */
  int fd;
  atomic_bool dead; /* nothing will come back from it any more */
  uint64_t io_max;  /* bytes of the largest read or write */
  bool fua, zero, extents;
  atomic_uint busy;  /* I/O under way */
  atomic_uint syncs; /* FLUSHes and writes with FUA among it */
  /* peer.answers, when this door answered last or was idle. */
  atomic_uint answered;
};

/* Connect, and learn the server's abilities.  -1 with a sentence in why;
 * door_close must follow in any case.
 */
int door_open (struct door *d, const char *label, const char *uri,
               uint64_t deadline_ms, char *why, size_t why_size);
void door_close (struct door *d);

/* For doors that can't write zeroes by themselves; false: no memory. */
bool door_zeroes (void);

/* The peer is broken, for this reason, unless another thread has said so before.  True: none
 * had.
 */
bool door_break_peer (struct peer *p, const char *fmt, ...)
  __attribute__ ((format (printf, 2, 3)));

/* As peer_send. */
bool door_send (struct door *d, struct peer_io *pio);

/* For the poller: the events that a door waits for (0: leave it out), and
 * what to do when they have come.  True: the door is dead now.
 */
short door_events (const struct door *d);
bool door_notify (struct peer *p, struct door *d, short revents);

#endif /* WEFT_DOOR_H */
