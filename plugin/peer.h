/* peer.h: a host's NBD connections to one member.
 *
 * A peer has two doors, each one libnbd handle: `data`, and `batch` where the
 * member has one.  This file knows how an array_io becomes NBD commands and
 * what a foreign NBD server can't do; who sends and who polls when is the
 * matter of engine.c.
 *
 * Threads: any thread may call any function at any time, but peer_close, which
 * must be the last call for its peer.
 */

#ifndef WEFT_PEER_H
#define WEFT_PEER_H

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <libnbd.h>

#include "array/array.h"
#include "common/map.h"

struct peer;

/* An array_io on its way to a member and back. */
struct peer_io {
  struct array_io *io;
  struct peer *peer;
  struct peer_io *next; /* in the list of whoever holds it */
  atomic_int error;     /* of the first command that failed */
  atomic_uint parts;    /* commands not answered yet; + 1 while sending */
  bool flush_after;     /* send it again, now as the FLUSH that stands in
                             for the member's missing FUA */
};

struct door {
  struct nbd_handle *nbd; /* NULL: there is no such door */
  /* Our own duplicate of the handle's socket: libnbd closes its own whenever
   * a thread finds the connection broken, and the number may be another
   * file's by the time that the poller uses it.
   */
  int fd;
  atomic_bool dead; /* nothing will come back from it any more */
  uint64_t io_max;  /* bytes of the largest read or write */
  bool fua, zero, extents;
};

struct peer {
  unsigned member;
  char *label; /* "member m0 (nbd://...)", for people */
  struct door data, batch;
  uint64_t size;      /* bytes of the data door */
  atomic_bool broken; /* a door is dead; reason is set before */
  atomic_flag reason_taken;
  bool reported;       /* the array engine knows; under the engine's lock */
  unsigned ios;        /* that are not back yet; under the engine's lock */
  atomic_uint senders; /* I/O that threads are about to send */
  char reason[120];
  /* Takes an I/O that is finished.  Called with the handle locked: it must
   * not call anything of this file.
   */
  void (*done) (struct peer_io *);
};

/* Connect to a member, and check that it can be one: for reading alone with nbdkit's
 * -r.  `wait_ms` bounds it.  NULL with a sentence in why.
 */
struct peer *peer_open (unsigned member, const struct map_member *mm,
                        unsigned wait_ms, void (*done) (struct peer_io *),
                        char *why, size_t why_size);

/* Are both connected to the same export of the same server, as far as can be seen?
 */
bool peer_same (const struct peer *a, const struct peer *b);

/* Say goodbye and close.  Nothing may be in flight. */
void peer_close (struct peer *p);

/* Send; pio->done comes exactly once, perhaps before this returns.  True:
 * the socket is full, so whoever polls must look at the directions again.
 */
bool peer_send (struct peer_io *pio);

/* For the poller: the events that a door waits for (0: leave it out), and
 * what to do when they have come.  True: the door is dead now.
 */
short peer_door_events (const struct door *d);
bool peer_door_notify (struct peer *p, struct door *d, short revents);

/* Break both connections: all that is in flight comes back with ENOTCONN, by
 * way of the poller.
 */
void peer_break (struct peer *p);

#endif /* WEFT_PEER_H */
