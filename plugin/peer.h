/* peer.h: a host's NBD connections to one member.
 *
 * A member does one thing at a time for each connection.  So a peer has several
 * doors for data, and two for batches (one for data to a server that is no
 * member of Weft). This file knows which door is taken; engine.c decides which
 * thread sends and polls.
 *
 * Threads: any thread may call any function at any time, but peer_close, which
 * must be the last call for its peer.
 */

#ifndef WEFT_PEER_H
#define WEFT_PEER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "array/array.h"
#include "common/map.h"
#include "door.h"

struct engine;
struct peer;

/* An array_io on its way to a member and back. */
struct peer_io {
  struct array_io *io;
  struct peer *peer;
  struct door *door;     /* it was sent there */
  struct peer_io *next;  /* in the list of its holder */
  atomic_int error;      /* of the first command that failed */
  atomic_uint parts;     /* commands not answered yet; + 1 while sending */
  bool flush_after;      /* send it again, now as the FLUSH that stands in
                             for the member's missing FUA */
  struct engine *engine; /* to which `done` gives it back */
};

#define PEER_DATA_DOORS 8
/* One of the doors for batches is for signs of life. */
enum { BATCH_REST, BATCH_SIGNS, PEER_BATCH_DOORS };
#define PEER_DOORS_MAX (PEER_DATA_DOORS + PEER_BATCH_DOORS)

/* The connection to the member, which is all doors together.  The first thread that finds a
 * door dead gives the reason.
 */
enum peer_state {
  PEER_CONNECTED,
  PEER_BREAKING, /* a thread is writing the reason */
  PEER_BROKEN,   /* the reason is there */
};

struct peer {
  unsigned member;
  char *label;                       /* "member m0 (nbd://...)", for people */
  struct door doors[PEER_DOORS_MAX]; /* data first */
  unsigned doors_count, data_count;
  atomic_uint answers;       /* of all doors so far */
  uint64_t size;             /* bytes of the data door */
  _Atomic uint64_t heard_ns; /* when bytes have come last, by any door */
  _Atomic (enum peer_state) state;
  char reason[120];    /* PEER_BROKEN: why */
  int64_t flushing;    /* the FLUSH of peer_flush; 0: none */
  bool reported;       /* the array engine knows; under the engine's lock */
  unsigned ios;        /* that are not back yet; under the engine's lock */
  atomic_uint senders; /* I/O that threads are about to send */
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

/* Has it a door for batches? */
bool peer_takes_batches (const struct peer *p);

/* Before the peer is used: send a FLUSH, and wait for its end, so long at most.  0: it
 * is done; EINPROGRESS: it is still under way, and the next call waits on; else why it
 * has failed.
 */
int peer_flush (struct peer *p, unsigned wait_ms);

/* Are both connected to the same export of the same server, as far as can be seen?
 */
bool peer_same (const struct peer *a, const struct peer *b);

/* Say goodbye and close.  Nothing may be in flight. */
void peer_close (struct peer *p);

/* Send; pio->done comes exactly once, perhaps before this returns.  True: the
 * socket is full, so the polling thread must look at the directions again.
 */
bool peer_send (struct peer_io *pio);

/* Does what is sent to it not arrive (blackhole.h)?  Then it is broken, with a reason. */
bool peer_swallowed (struct peer *p);

/* Break all connections: all that is in flight comes back with ENOTCONN, by
 * way of the poller.
 */
void peer_break (struct peer *p);

#endif /* WEFT_PEER_H */
