/* copy.h: copies one extent of a joining member from the other members: the
 * requests to the sources, and the writes to the member's own disk.
 *
 * A pure state machine, one for each extent that is being copied.  It shares
 * nothing, so it needs no lock: the worker that has the extent (pull.h) makes all
 * calls, one after the other, and carries out what they say.
 *
 *   copy_begin
 *   copy_ask    gives requests to the sources; called again when each of them is
 *               answered, until it gives NULL
 *   copy_write  gives a change of our disk; called again when that is made, until
 *               it gives false: `result` says how the copying has ended
 *   copy_stop   instead, at any time, when something can't be carried out
 *
 * Each stripe unit of the extent is read from a source that has a copy of it; where
 * several have, from the data copy.  Holes stay holes.  Where a source can't read,
 * single blocks (BAD_BLOCK_BYTES) are tried, each at every source; a block that
 * none can read is passed over: it is not written, and becomes a bad range.
 * Nothing is written before everything has arrived, so a source that hangs leaves
 * the extent as it was.
 *
 * All offsets and lengths are bytes; `offset` counts from the start of a source's
 * data area, `local` from that of ours.
 */

#ifndef WEFT_COPY_H
#define WEFT_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/bad.h"
#include "format/batch.h"
#include "base/bounds.h"
#include "layout/layout.h"

/* A source that answers nothing for so long has failed.  A client's write to the
 * extent waits meanwhile, so this is well below the time after which a host gives
 * the joining member up (IO_TIMEOUT_MS_DEFAULT).
 */
#define COPY_SILENT_MS 5000

/* An error, and the member of the array that caused it. */
struct copy_fault {
  unsigned member;
  char why[200];
};
void copy_blame (struct copy_fault *fault, unsigned member, const char *fs, ...)
  __attribute__ ((format (printf, 3, 4)));

/* A source's description of its data area: parts, ascending, each of which ends
 * at `end` and is a hole, zeroes or data.  After the last part all is data.
 */
struct copy_span {
  uint64_t end;
  bool hole, zero;
};
struct copy_map {
  struct copy_span *span;
  size_t count, room;
};
/* Add the next part, which ends at `end`.  Returns false when out of memory: the
 * rest then counts as data.
 */
bool copy_map_add (struct copy_map *map, uint64_t end, bool hole, bool zero);

enum copy_request_kind {
  COPY_READ,
  COPY_STATUS, /* what is there?  The answer is in *map. */
  COPY_FLUSH,
};

/* A request to a source.  `error` is 0 until it is answered with an errno. */
struct copy_request {
  struct copy_request *next;
  enum copy_request_kind kind;
  unsigned member;
  uint64_t offset, local;
  uint32_t length;
  struct copy_map *map;
  int error;

  /* The caller's own. */
  void *buf;
  int64_t cookie;
};

/* Does the answer say that the source as a whole has failed?  Then stop the
 * copying with COPY_FAULT, and close the connection.  (EIO is about one place
 * on the source's disk, and a source that does not know its holes does no
 * harm.)
 */
bool copy_refused (const struct copy_request *r);

enum copy_result {
  COPY_DONE, /* or still under way */
  COPY_CANCELLED,
  COPY_CONNECT, /* connect fault.member first */
  COPY_FAULT,   /* close fault.member's connection */
  COPY_BROKEN,  /* our own disk can't be written */
};

struct copy_part; /* a piece of the extent that is read in one request */

/* The copying of an extent.  Begins as zeroes, is used for one extent after the
 * other, ends by copy_free.
 */
struct copying {
  enum copy_result result;
  struct copy_fault fault;
  uint64_t extent;
  uint64_t start;               /* its first byte in our data area */
  bool used[ARRAY_MEMBERS_MAX]; /* members from which it came */
  uint64_t bytes;               /* that were read */
  /* A bit for each block of the extent that no source could read; complete when
   * copy_write has returned false.
   */
  uint64_t passed[EXTENT_BYTES / BAD_BLOCK_BYTES / 64];

  /* copy.c's own. */
  unsigned stage;
  struct layout layout;
  unsigned member;
  bool source[ARRAY_MEMBERS_MAX], linked[ARRAY_MEMBERS_MAX];
  bool suspect[ARRAY_MEMBERS_MAX]; /* could not read something */
  struct copy_plan {
    struct copy_part *part;
    size_t count, room;
  } plan, next;   /* a new one is made from the one that there is */
  size_t written; /* parts that copy_write has been through */
  struct copy_map map[ARRAY_MEMBERS_MAX];
  struct copy_request ask[ARRAY_MEMBERS_MAX];
};

/* Copy this extent of `member`.  source[m]: m is in-sync; linked[m]: the caller has
 * a connection to its data door.
 */
void copy_begin (struct copying *c, const struct layout *layout,
                 unsigned member, const bool source[], const bool linked[],
                 uint64_t extent);
void copy_free (struct copying *c);

/* The next requests to the sources, as a list that lives until the next call. */
struct copy_request *copy_ask (struct copying *c);

/* A change of our disk: write what was read, or zeroes.  passed: write nothing, but
 * log that no source can read this (member, offset: where it was tried last).
 */
struct copy_change {
  enum batch_kind kind; /* WRITE, ZERO or TRIM */
  uint64_t local;
  uint32_t length;
  bool passed;
  unsigned member;
  uint64_t offset;
};
bool copy_write (struct copying *c, struct copy_change *change);

/* With COPY_FAULT the caller fills c->fault. */
void copy_stop (struct copying *c, enum copy_result result);

#endif /* WEFT_COPY_H */
