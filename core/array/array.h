/* array.h: the array engine (docs/DESIGN.md 6): a host's side of the protocol.
 *
 * A pure state machine: it is handed requests, answers and the time, and is
 * asked for what to do next.  It never blocks, takes no lock, opens nothing.
 * The caller (the nbdkit plugin, or the simulator) serialises all calls.
 *
 *   requests ─ array_submit ──┐               ┌─ array_next_io ──── to members
 *   answers ── array_io_done ─┼─► the engine ─┼─ array_next_done ── to clients
 *   the clock ─ array_tick ───┘               └─ array_next_notice ─ to weftd
 *
 * After every input the caller takes all three outputs until each is NULL.
 *
 * A write's life: split by layout; wait while an earlier request overlaps;
 * its data goes to the data member straight from the request's buffer, its
 * image is copied into the image buffer (images.h); the request is done when
 * the data is written.  With FUA, with dup = sync, and when the data member
 * is out, it also waits for its images.
 *
 * A member's failure: the engine sends the member nothing more, reports it by
 * a notice, and holds everything that touches it until array_commit says that
 * the failure is recorded.  Then the work is planned again with the copies
 * that are left.  Nothing is acknowledged on the strength of a failure that is
 * not recorded (docs/DESIGN.md 1); a client sees no error from a single failure.
 */

#ifndef WEFT_ARRAY_H
#define WEFT_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bounds.h"
#include "format/format.h"
#include "base/stats.h"
#include "layout/layout.h"

struct array_config {
  struct layout layout;
  enum array_dup dup;
  bool readonly; /* writes are refused with EROFS */
  bool batches;  /* members have a batch door */
  bool balance;  /* raid-10, raid-1: a read may take either copy.
                                 Only for the one writer, after a resync: the
                                 copies must be known to be the same. */
  uint64_t epoch;
  enum member_state states[ARRAY_MEMBERS_MAX];
  uint64_t image_buffer_bytes;
  unsigned image_age_ms;
  unsigned io_timeout_ms;
  bool rounds;    /* members keep rounds: they have batch doors, and
                                are weftd's */
  uint64_t round; /* the highest that is known, ... */
  uint64_t member_round[ARRAY_MEMBERS_MAX]; /* ... and each in-sync member's */
  uint64_t extent_bytes; /* of a member, for an intent bit; 0: EXTENT_BYTES.
                            Less only in tests. */
};

/* What a client asks. */

enum array_op {
  ARRAY_READ,
  ARRAY_WRITE,
  ARRAY_ZERO,
  ARRAY_TRIM,
  ARRAY_FLUSH,
  ARRAY_EXTENTS,
  ARRAY_ACCEPT, /* the loss of a bad range: what no copy can be read of becomes
                   zeroes, stably; else it is as a READ, which mends the copies
                   that it finds bad */
};

enum array_flags {
  ARRAY_FUA = 1,
  ARRAY_MAY_TRIM = 2, /* a zero may give storage back */
  ARRAY_COVER = 4,    /* FLUSH: and what it stands for is covered by rounds, so
                         that all intent bits may fall */
};

struct array_extent {
  uint64_t length;
  bool hole, zero; /* as NBD's base:allocation */
};

/* Who writes, and is to be told when that may be gone: a connection, or whoever
 * copies for himself.
 */
struct array_client;

/* Owned by the caller, who keeps it and its buffer until it comes out of
 * array_next_done.
 */
struct array_request {
  enum array_op op;
  struct array_client *client; /* who asks; every write is somebody's */
  unsigned flags;
  uint64_t offset, length; /* within the array; the engine checks */
  void *buf;               /* READ, ACCEPT: filled; WRITE: read */
  void *owner;             /* the caller's own */
  unsigned
    copy; /* READ within one stripe unit: 1 + the copy that is to be read, and
                    no other; ACCEPT: that is to be read if it can be; 0: any */
  uint64_t epoch; /* ACCEPT: in another one nothing is lost */

  /* Out: */
  int error;                    /* 0 or an errno */
  bool lost;                    /* ACCEPT: it is zeroes now */
  struct array_extent *extents; /* EXTENTS: from `offset` on, a prefix of the
                                   range; freed by the caller with free() */
  size_t extents_count;

  /* The engine's own: */
  struct array_request *next; /* in the queue that it waits in, or is done in */
  void *state;
};

/* What the engine asks of a member. */

enum array_io_kind {
  IO_READ,
  IO_WRITE,
  IO_ZERO,
  IO_TRIM,
  IO_FLUSH,
  IO_EXTENTS,
  IO_BATCH, /* an NBD write of `length` bytes at 0 of the batch door */
};

/* Owned by the engine.  The caller sends it, keeps the pointer, and gives it
 * back by array_io_done exactly once.  `buf` stays valid until then.
 */
struct array_io {
  enum array_io_kind kind;
  unsigned member;
  unsigned flags;          /* enum array_flags */
  uint64_t offset, length; /* in the member's data area; length <=
                              REQUEST_BYTES_MAX except for IO_ZERO, IO_TRIM and
                              IO_EXTENTS, which stay below 2 GiB */
  void *buf;
  struct array_extent *extents; /* IO_EXTENTS: allocated by the caller with
                                   malloc(), a prefix of the range; the
                                   engine frees it */
  size_t extents_count;
  void *owner; /* the caller's own */

  /* The engine's own: */
  struct array_io *next;
  void *state;
  uint64_t sent_ns;
};

/* What the engine wants told. */

enum array_notice_kind {
  /* Tell weftd that this member is out; answer with array_commit.  The caller
   * also breaks its connections to the member, so that what is in flight
   * comes back with an error.
   */
  NOTICE_LOST,
  /* Bytes of the array are gone: no copy is left.  Said once. */
  NOTICE_DATA_LOST,
  /* Tell weftd that we are prepared for `epoch`. */
  NOTICE_PREPARED,
};

struct array_notice {
  enum array_notice_kind kind;
  unsigned member;
  uint64_t epoch;
  char reason[160]; /* a sentence for people */
};

struct array;

/* NULL: out of memory, or a bad configuration with a sentence in why. */
struct array *array_new (const struct array_config *config, uint64_t now_ns,
                         char *why, size_t why_size);
void array_free (struct array *a); /* nothing may be in flight */

/* What a member had in its cache may be gone, and no copy that counts is known to
 * have it.  Then one FLUSH fails with EIO of each client that has written any of
 * it; and of anybody, if that is asked for before one of these was told: a FLUSH
 * speaks for the writes of all.  (Several fail that are under way at once.)
 * Closed when no request of its is left; those that are open end with the array.
 */
struct array_client *array_client_open (struct array *a);
void array_client_close (struct array *a, struct array_client *c);

/* Inputs.  now_ns is a monotonic clock's. */
void array_submit (struct array *a, struct array_request *r, uint64_t now_ns);
void array_io_done (struct array *a, struct array_io *io, int error,
                    uint64_t now_ns);
void array_tick (struct array *a, uint64_t now_ns);

/* A member's connection broke. */
void array_lost (struct array *a, unsigned member, const char *reason,
                 uint64_t now_ns);

/* There is a connection to the member again, of an epoch in which all that was
 * asked of it before is over.  The next array_commit, of the same epoch if there
 * is no new one, says what the member is now: nothing is asked of it before.  A
 * joining member has begun to join anew by then, for writes have passed it by.
 * Of a member that was not lost it means nothing.
 * kept: all that it has answered is there, be it stable or not: it is the same
 * process, or the memory of its host that the last one wrote to.
 */
void array_back (struct array *a, unsigned member, bool kept, uint64_t now_ns);

/* weftd has PREPARED this epoch; to say it again changes nothing.  From now on a
 * member that is in-sync in it counts for every write and FLUSH as if it were
 * (but is not read), and what is asked of one that is out in it is over;
 * NOTICE_PREPARED says when all that was acknowledged before is stable on the
 * copies of both epochs: no other member is lost, images are drained, and all
 * is flushed.  A reader holds its reads from the notice on.  A newer epoch,
 * prepared or committed, takes its place.
 */
void array_prepare (struct array *a, uint64_t epoch,
                    const enum member_state states[], uint64_t now_ns);

/* A reader that has not heard of weftd for its TTL answers nothing more until
 * it has.
 */
void array_hold (struct array *a, bool hold, uint64_t now_ns);

/* Before the first write all copies were made equal (or are of no member that
 * is in-sync): from now on intent bits fall whoever has set them
 * (BATCH_SETTLE), those of these bytes of a member too.  Once for each place
 * that was dirty; with a length of 0 when none was.
 */
void array_settled (struct array *a, unsigned member, uint64_t offset,
                    uint64_t length, uint64_t now_ns);

/* weftd has recorded these states, durably: go on in this epoch. */
void array_commit (struct array *a, uint64_t epoch,
                   const enum member_state states[], uint64_t now_ns);

/* The epoch that weftd may be told we work in (`epoch` of the heartbeat): the
 * last committed one, but where members join not before the images are written
 * that were accepted until then, and until they were connected: they copy from
 * copies that lack these, else.  Meanwhile the one before, or 0.  Of a member
 * that joins in it and is not connected it says nothing.
 */
uint64_t array_epoch (const struct array *a);

/* Fail whatever waits, and everything to come, with `error` (ESHUTDOWN: fenced
 * or ending).  What is in flight is answered when its answers come.
 */
void array_stop (struct array *a, int error, uint64_t now_ns);

/* Outputs: NULL or false when there are no more. */
struct array_io *array_next_io (struct array *a);
struct array_request *array_next_done (struct array *a);
bool array_next_notice (struct array *a, struct array_notice *notice);

/* The last round that is complete; 0: none. */
uint64_t array_round (const struct array *a);

/* When array_tick wants to be called at the latest; UINT64_MAX: no need. */
uint64_t array_deadline (const struct array *a);

/* The copies may differ where intent bits stand: none may be lowered before all
 * is copied anew.
 */
bool array_differs (const struct array *a);

/* Nothing in flight, no image buffered, no request held. */
bool array_idle (const struct array *a);

void array_stats (const struct array *a, uint64_t now_ns,
                  struct array_stats *stats);

/* Asserts every invariant of the engine; for tests. */
void array_check (const struct array *a);

#endif /* WEFT_ARRAY_H */
