/* wire.h: NBD commands and their replies on a plain socket.
 *
 * libnbd connects, negotiates and hangs up.  If the connection is not
 * encrypted, this file does the rest.  libnbd receives each reply in three or
 * four calls and sends each command in one or two.  Here one call receives all
 * bytes that have arrived, and one call sends all waiting commands, of all
 * threads.
 *
 * Threads: any may queue and push; one at a time receives, and it alone ends a
 * wire.
 */

#ifndef WEFT_WIRE_H
#define WEFT_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NBD's numbers. */
enum wire_type {
  WIRE_READ = 0,
  WIRE_WRITE = 1,
  WIRE_FLUSH = 3,
  WIRE_ZERO = 6,
  WIRE_STATUS = 7,
};
#define WIRE_FUA 1
#define WIRE_NO_HOLE 2

struct wire_command {
  enum wire_type type;
  uint16_t flags;
  uint32_t length;
  uint64_t offset;
  void *buf;    /* of `length` bytes: READ: filled; WRITE: sent */
  void *opaque; /* for the callbacks */
};

struct wire_calls {
  /* A command is answered, or never will be (ENOTCONN).  For each that was queued it
   * comes once, in any thread that is in a call of this file, without a lock.
   */
  void (*done) (void *opaque, int error);
  /* STATUS: `count` pairs of a length and its flags, from the command's offset on. */
  void (*status) (void *opaque, uint32_t *pairs, size_t count);
};

struct wire;

/* The socket is non-blocking and stays the caller's.  `structured`: whether
 * structured replies were negotiated.  NULL: out of memory.
 */
struct wire *wire_new (int fd, bool structured, const struct wire_calls *calls);

/* Nothing is queued any more. */
void wire_free (struct wire *w);

/* Queue a command, to be sent by the next push.  Returns 0, or an errno: the wire is
 * over (ENOTCONN), or there is no memory.
 */
int wire_queue (struct wire *w, const struct wire_command *c);

/* Send what is queued.  True: the socket is full; push again when it is not. */
bool wire_push (struct wire *w);

/* Did the last push find the socket full? */
bool wire_full (const struct wire *w);

/* Take in what has come.  NULL, or why the wire is over: all that was queued has been
 * given back by then.
 */
const char *wire_receive (struct wire *w);

#endif /* WEFT_WIRE_H */
