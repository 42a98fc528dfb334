/* block.h: the interface of a block device that an engine serves.
 *
 * The engine (engine.h) has threads, connections and a clock; a block has none of them.  An
 * engine has one block: the array (array-block.h); or a block of volumes
 * (volumes-block.h), which has the array's block below it.
 *
 * The engine calls all functions but size and limits with its lock held: one at a time, from
 * any thread.  None of them may wait, or call the engine.  now_ns is of a monotonic clock, and
 * never less than in the call before.  After a call that may change something, the engine
 * takes the outputs: next_done until it is NULL; next_io until it is NULL, or memory is short;
 * some notices.  Soon it takes the rest.
 *
 * The array's members, epochs and leases are no part of this interface: engine-member.c tells
 * the array itself of them, and then, too, takes the outputs of the block.  So a block above
 * the array gets in next_done what the array has done meanwhile.
 */

#ifndef WEFT_BLOCK_H
#define WEFT_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "array/array.h"

struct block;

struct block_ops {
  /* In bytes. */
  uint64_t (*size) (const struct block *b);
  /* NBD's block size constraints, in bytes.  A client gets them when it connects, and may
   * ignore them: submit takes requests of any size.
   */
  void (*limits) (const struct block *b, uint32_t *minimum, uint32_t *preferred,
                  uint32_t *maximum);

  /* A client; never NULL.  Each write belongs to a client: if the write may be lost, a FLUSH
   * of that client fails (core/array/array.h).  A client is closed when no request of it is
   * left; free closes the others.
   */
  struct array_client *(*client_open) (struct block *b);
  void (*client_close) (struct block *b, struct array_client *c);

  /* Begin a request (core/array/array.h), at an offset in bytes of this block; the block
   * checks it.  Request and buffer are the block's until next_done returns the request, once,
   * with 0 or an errno in r->error.  r->owner is the engine's.
   *
   * Clients send READ, WRITE, ZERO, TRIM, FLUSH and EXTENTS.  Requests with `copy`, ACCEPT and
   * ARRAY_RECOVER come from this process (array-resync.c, loss.c), and their offsets are the
   * array's.  engine_cover sends a FLUSH with ARRAY_COVER and without a client: when it is
   * done, all acknowledged writes of all clients are stable on all copies.
   */
  void (*submit) (struct block *b, struct array_request *r, uint64_t now_ns);
  struct array_request *(*next_done) (struct block *b, uint64_t now_ns);

  /* Requests to members, and their answers: once for each, 0 or an errno.  The I/O is the
   * engine's from next_io to io_done.
   */
  struct array_io *(*next_io) (struct block *b);
  void (*io_done) (struct block *b, struct array_io *io, int error,
                   uint64_t now_ns);
  /* The member's last bytes came at heard_ns.  Called before each tick. */
  void (*heard) (struct block *b, unsigned member, uint64_t heard_ns);
  /* The connection to the member broke, for this reason (a sentence). */
  void (*lost) (struct block *b, unsigned member, const char *reason,
                uint64_t now_ns);
  /* Notices for weftd and the log.  False: there is none. */
  bool (*next_notice) (struct block *b, struct array_notice *n);

  /* The latest time for the next tick; UINT64_MAX: none is needed. */
  uint64_t (*deadline) (const struct block *b);
  void (*tick) (struct block *b, uint64_t now_ns);
  /* Does another host wait for I/O of ours, and no client of ours?  Then the engine polls for
   * that I/O, too, while requests keep coming.
   */
  bool (*awaited) (const struct block *b);

  /* Fail the requests that wait, and all later ones, with this errno.  A request with I/O in
   * flight ends when that is back.  `free` is the last call, with nothing in flight.
   */
  void (*stop) (struct block *b, int error, uint64_t now_ns);
  void (*free) (struct block *b);
};

/* Embedded at the beginning of the implementation's own struct. */
struct block {
  const struct block_ops *ops;
};

#endif /* WEFT_BLOCK_H */
