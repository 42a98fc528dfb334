/* volume.h: the volume engine (docs/DESIGN.md 12.1): one thin volume in a pool.
 *
 * A pure state machine above the array engine (array.h): its inputs are requests of the
 * volume's clients, answers of the array, grants of segments and the time; its outputs
 * are requests to the array, which may go to array_submit in the same turn, answers, and
 * segments that it wants or gives back.  It never blocks, takes no lock, opens nothing.
 * The caller serialises all calls.
 *
 *   requests ── volume_submit ───┐              ┌─ volume_next_io ─── to the array
 *   answers ─── volume_io_done ──┼► the engine ─┼─ volume_next_done ─ to clients
 *   segments ── volume_granted ──┤              ├─ volume_wants ───── to weftd
 *   the clock ─ volume_tick ─────┘              └─ volume_gives ───── to weftd
 *
 * After every input the caller takes all outputs.
 *
 * The pool is cut into segments, a segment into POOL_BLOCKS blocks (core/format/pool.h).
 * The volume's map says in which segment of the pool a segment of the volume is, and
 * which of its blocks are there; all others read as zeroes.  The map is in memory as a
 * whole, and on disk as a log.  A FLUSH is, in this order: take the changed entries of
 * the map, FLUSH the array, append these entries to the log, answer.  So the log never
 * names a block whose data is not stable.  A segment that has left the map is used again
 * only after the log records that it is free, and when no request to it is left.
 *
 * Placement by demand, in windows that grow, is that of Redbud (Yi and others, Design
 * and Implementation of an Asymmetric Block-Based Parallel File System, section 4.2,
 * Algorithm 1), without its streams.  The log is that of LFS (Rosenblum and Ousterhout,
 * sections 3 and 4), a log of metadata alone.
 */

#ifndef WEFT_VOLUME_H
#define WEFT_VOLUME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <bsd/sys/queue.h>

#include "array/array.h"
#include "base/bounds.h"
#include "format/pool.h"

struct volume_config {
  struct pool_header pool;
  unsigned number; /* of the root */
  uint8_t uuid[16];
  /* If the volume has no root, it is new, and gets one with this name and this size in
   * bytes, a multiple of 512.  NULL: it is not new.
   */
  const char *name;
  uint64_t size;
  struct array_client *array; /* used only for the log and the root */
  unsigned full_wait_ms; /* a write waits so long for a segment, then ENOSPC */
  bool
    scan; /* the root and the log are read, nothing is written, no request runs */
  unsigned window; /* the smallest one, in segments; 0: VOLUME_WINDOW_MIN.  Less
                      only in tests. */
  unsigned
    log_entries;  /* in a block of the log; 0: POOL_LOG_ENTRIES.  Less only in
                           tests. */
  unsigned parts; /* of a request at a time; 0: VOLUME_PARTS_MAX.  Less only in
                     tests. */
};

/* A client of the volume: a connection. */
struct volume_client;

/* Owned by the caller, who keeps it and its buffer until it comes out of
 * volume_next_done.
 */
struct volume_request {
  enum array_op
    op; /* READ, WRITE, ZERO, TRIM, FLUSH or EXTENTS; else ENOTSUP */
  struct volume_client *client;
  unsigned flags;          /* ARRAY_FUA, ARRAY_MAY_TRIM */
  uint64_t offset, length; /* bytes of the volume; the engine checks */
  void *buf;               /* READ: filled; WRITE: read */
  void *owner;             /* the caller's own */

  /* Out: */
  int error;                    /* 0 or an errno; ENOSPC: the pool is full */
  struct array_extent *extents; /* EXTENTS: freed by the caller with free() */
  size_t extents_count;

  /* The engine's own: */
  struct volume_request *next;
  uint64_t sequence; /* in the order of submission */
  uint64_t begun;    /* FLUSH: the event at which it began */
  uint64_t losses;   /* of the array, when it began */
  unsigned left;     /* parts that were made and have not ended */
  uint64_t made;     /* the offset up to which its parts were made */
  bool to_end;       /* it ended where the volume did, when it began */
  TAILQ_ENTRY (volume_request) making; /* not all of its parts are made */
  bool failed;                         /* FLUSH: it is to fail */
  bool loose;                          /* some of it is not stable yet */
};

/* Segments of the pool that follow each other. */
struct volume_run {
  uint32_t first, count;
};

enum volume_state {
  VOLUME_OPENING, /* its root and log are read; requests wait */
  VOLUME_OPEN,
  VOLUME_SCANNED, /* with config.scan: the end */
  VOLUME_CLOSING,
  VOLUME_CLOSED,  /* the root says that it is clean */
  VOLUME_DELETED, /* the root is zeroes */
  VOLUME_FAILED,  /* volume_why says why; requests fail with EIO */
};

struct volume;

/* NULL: out of memory.  volume_free: nothing may be in flight, and all answers taken. */
struct volume *volume_new (const struct volume_config *config);
void volume_free (struct volume *v);

/* Segments of the pool belong to this volume from now on.  Before volume_open: all that
 * it was granted in earlier lives; with config.scan each segment of the pool that is not
 * known to belong to another volume.
 */
void volume_granted (struct volume *v, const struct volume_run *runs,
                     unsigned count, uint64_t now_ns);
void volume_open (struct volume *v, uint64_t now_ns);

enum volume_state volume_state (const struct volume *v);
/* A sentence: why the volume failed, or cannot write its log any more; NULL: neither. */
const char *volume_why (const struct volume *v);
uint64_t volume_size (const struct volume *v);
/* The root as it is durable. */
const struct pool_root *volume_root (const struct volume *v);

/* `array` is the client of the array engine that stands for this client alone.
 * A client may be closed when no request of it is left.
 */
struct volume_client *volume_client_open (struct volume *v,
                                          struct array_client *array);
void volume_client_close (struct volume *v, struct volume_client *c);

/* Inputs.  now_ns is a monotonic clock's. */
void volume_submit (struct volume *v, struct volume_request *r,
                    uint64_t now_ns);
void volume_io_done (struct volume *v, struct array_request *io,
                     uint64_t now_ns);
void volume_tick (struct volume *v, uint64_t now_ns);
/* The array may have lost writes that it has acknowledged and not flushed.  The caller
 * says so before it hands on any later answer of the array: a block whose data is lost is
 * not read, because another volume's data may stand there.
 */
void volume_lost (struct volume *v, uint64_t now_ns);
/* Requests that wait for a segment fail with `error`, and so do all that come later. */
void volume_stop (struct volume *v, int error, uint64_t now_ns);

/* The volume gets larger: when volume_root has the size, it is durable.  Clients see it
 * at once.  Returns 0, EINVAL (no multiple of 512, smaller than it is, or too large),
 * EBUSY (it is not open), ENOMEM.
 */
int volume_resize (struct volume *v, uint64_t size, uint64_t now_ns);
/* When all requests are answered: a FLUSH, and a root that says clean (VOLUME_CLOSED).
 * Requests that come later fail with ESHUTDOWN.
 */
void volume_close (struct volume *v, uint64_t now_ns);
/* When all requests are answered the root becomes zeroes (VOLUME_DELETED); then all its
 * segments may be granted to others.  The volume is open, or volume_open is the next
 * call: then the log is not read, and the root may be missing or unreadable.
 */
void volume_delete (struct volume *v, uint64_t now_ns);

/* Outputs: NULL or false at the end. */
struct array_request *volume_next_io (struct volume *v);
struct volume_request *volume_next_done (struct volume *v);

/* How many segments the volume wants to be granted now; 0: none.  *near: best from this
 * one on.  waits: requests wait for them.
 */
unsigned volume_wants (const struct volume *v, uint32_t *near, bool *waits);
/* Segments that the volume gives back, and does not touch from now on: it has more than
 * twice as many spare ones as its window, which gets smaller while the volume takes none
 * (VOLUME_WINDOW_MS).  A closed one gives back all but those that are kept for its log.
 * Returns how many runs; ask until it is 0.  If the caller ends before weftd knows, they are still granted
 * to this volume, and spare in its next life.
 */
unsigned volume_gives (struct volume *v, struct volume_run *runs, unsigned max);

/* When volume_tick wants to be called at the latest; UINT64_MAX: no need. */
uint64_t volume_deadline (const struct volume *v);
/* No request is left, and nothing is in flight. */
bool volume_idle (const struct volume *v);

/* All segments that the map, the log or the root name, ascending: of a scan, for weftd,
 * which may grant only others.  Returns how many of at most `max` runs; *after: 0 at
 * first.
 */
unsigned volume_uses (const struct volume *v, uint32_t *after,
                      struct volume_run *runs, unsigned max);

struct volume_stats {
  uint64_t mapped; /* segments with data */
  uint64_t spare; /* granted and unused, including segments that the durable log
                       still names */
  uint64_t log;   /* segments of the log */
  uint64_t kept;  /* spare segments that it must have for its log: after a scan
                       weftd grants them before it grants anything for data */
  uint64_t waiting; /* requests that wait for a segment */
};
void volume_stats (const struct volume *v, struct volume_stats *stats);

/* Asserts every invariant of the engine; for tests. */
void volume_check (const struct volume *v);

#endif /* WEFT_VOLUME_H */
