/* array.h: the array engine (docs/DESIGN.md 6): a host's side of the protocol.
 *
 * A pure state machine: its inputs are requests, answers and the time; its
 * outputs are the next actions.  It never blocks, takes no lock, opens nothing.
 * The caller (the nbdkit plugin, or the simulator) serialises all calls.
 *
 *   requests ─ array_submit ──┐               ┌─ array_next_io ──── to members
 *   answers ── array_io_done ─┼─► the engine ─┼─ array_next_done ── to clients
 *   the clock ─ array_tick ───┘               └─ array_next_notice ─ to weftd
 *
 * After every input the caller takes all three outputs until each is NULL.
 *
 * A write is split by the layout, and waits while an earlier request overlaps it.
 * Its data goes to the data member straight from the request's buffer.  A small
 * write is *buffered*: its image is copied into the image buffer (images.h), and the
 * request is done when the data is written.  A write goes *through* when it has to
 * wait for its images anyway (with FUA, with dup = sync, and when the data member is
 * out), or when a copy of it would cost more than it helps (it is large, or half as
 * large while the buffer is more than half full): then data and images are sent side by
 * side from the request's buffer, and it is done when all are written.
 *
 * When a member fails, the engine sends it nothing more, reports it by a
 * notice, and holds all requests that need it until array_commit says that the
 * failure is recorded.  Then they are planned again with the copies that are
 * left.  A failure must be recorded before writes are acknowledged without the
 * member (docs/DESIGN.md 1); a client sees no error from a single failure.
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
  /* Others write at the same time, each session within its leases
   * (array-lease.c).  lease_all: we begin with a lease of the whole array.
   */
  bool leases, lease_all;
  /* With leases, part_length > 0: we hold a lease of these bytes from the
   * beginning to the end, and no other lease, except for ranges that we recover
   * (lease_all: all of the array, until array_lease_recovered).  Whole stripe
   * units, but for the end of the array.  A write outside of the part is refused
   * with EPERM; a read elsewhere is a reader's.
   */
  uint64_t part_offset, part_length;
  bool batches; /* members have a batch door */
  bool pulses;  /* ... and say there for how long their disks have been stuck */
  /* Its one member is the process that serves the array to several hosts: a
   * FLUSH is sent to it even if we have written nothing, and a failed FLUSH
   * means that writes may be lost.
   */
  bool service;
  uint64_t epoch;
  enum member_state states[ARRAY_MEMBERS_MAX];
  uint64_t image_buffer_bytes;
  unsigned image_age_ms;
  unsigned io_timeout_ms;
  bool rounds;    /* members keep rounds (array-round.c): they have batch doors,
                     and weftd manages the array */
  uint64_t round; /* the highest round that any member has, and ... */
  uint64_t member_round[ARRAY_MEMBERS_MAX]; /* ... each in-sync member's */
  uint64_t through_bytes; /* a write of so many bytes goes through; 0:
                             THROUGH_BYTES.  Less only in tests. */
  uint64_t extent_bytes;  /* how much of a member an intent bit stands for; 0:
                            EXTENT_BYTES.  Less only in tests. */
};

/* A client's requests. */

enum array_op {
  ARRAY_READ,
  ARRAY_WRITE,
  ARRAY_ZERO,
  ARRAY_TRIM,
  ARRAY_FLUSH,
  ARRAY_EXTENTS,
  ARRAY_ACCEPT, /* accept the loss of a bad range: if no copy can be read it
                   becomes zeroes, stably; else it is read as by a READ, which
                   mends the copies that it finds bad */
};

enum array_flags {
  ARRAY_FUA = 1,
  ARRAY_MAY_TRIM = 2, /* a zero may give storage back */
  ARRAY_COVER = 4,    /* FLUSH: wait as well until all that it stands for is
                         covered by rounds (array-round.c), so that all intent
                         bits may be cleared */
  ARRAY_RECOVER =
    8, /* READ, WRITE, ZERO of a resync, within what array_lease_recover
                         has named: it need not wait until that is recovered */
};

/* Bytes of the array. */
struct array_range {
  uint64_t offset, length;
};

struct array_extent {
  uint64_t length;
  bool hole, zero; /* as NBD's base:allocation */
};

/* A client that writes.  If its writes may be lost, one of its FLUSHes fails.
 * A client is a connection of nbdkit's, or a resync.
 */
struct array_client;

/* Owned by the caller, who keeps it and its buffer until it comes out of
 * array_next_done.
 */
struct array_request {
  enum array_op op;
  struct array_client *client; /* the client; never NULL for a write */
  unsigned flags;
  uint64_t offset, length; /* within the array; the engine checks */
  void *buf;               /* READ, ACCEPT: filled; WRITE: read */
  void *owner;             /* the caller's own */
  unsigned copy;  /* READ within one stripe unit: 1 + the only copy that may be
                    read; ACCEPT: 1 + the copy to be tried first; 0: any copy */
  uint64_t epoch; /* ACCEPT: the array's when the loss was accepted; in another
                     epoch nothing becomes zeroes */

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

/* The engine's requests to a member. */

enum array_io_kind {
  IO_READ,
  IO_WRITE,
  IO_ZERO,
  IO_TRIM,
  IO_FLUSH,
  IO_EXTENTS,
  IO_BATCH, /* an NBD write of `length` bytes at 0 of the batch door */
  IO_ROUND, /* an NBD read of ROUND_BYTES at 0 of the batch door (format/batch.h) */
  IO_PULSE, /* the same of PULSE_BYTES at PULSE_OFFSET */
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
  void *owner;      /* the caller's own */
  uint64_t sent_ns; /* the engine's own */
};

/* The engine's notices. */

enum array_notice_kind {
  /* Tell weftd that this member is lost; array_commit brings weftd's answer.  The
   * caller also breaks its connections to the member, so that what is in flight
   * comes back with an error.
   */
  NOTICE_LOST,
  /* Bytes of the array are gone: no copy is left.  Said once. */
  NOTICE_DATA_LOST,
  /* Tell weftd that we are prepared for `epoch`. */
  NOTICE_PREPARED,
  /* Requests wait for leases: array_lease_wants says for which. */
  NOTICE_LEASE,
  /* Ranges were left: array_lease_left takes them, and weftd is to have them back. */
  NOTICE_LEFT,
};

struct array_notice {
  enum array_notice_kind kind;
  unsigned member;
  uint64_t epoch;
  bool answers;       /* LOST: it answers, but with errors: the line is good */
  uint64_t waited_ms; /* LOST: the wait of the oldest request that needs it */
  char reason[160];   /* a sentence for people */
};

struct array;

/* NULL: out of memory, or a bad configuration with a sentence in why. */
struct array *array_new (const struct array_config *config, uint64_t now_ns,
                         char *why, size_t why_size);
void array_free (struct array *a); /* nothing may be in flight */

/* A client (a connection). If a member had writes in its cache that may be
 * lost, and no other copy is known to have them, one FLUSH fails with EIO for
 * each client that has written any of them.  A FLUSH covers the writes of all
 * clients: so until a FLUSH of one of these clients has failed, a FLUSH of any
 * other client fails as well.  (FLUSHes that are under way at the same time all
 * fail.) A client is closed when no request of it is left; array_free closes
 * the others.
 */
struct array_client *array_client_open (struct array *a);
void array_client_close (struct array *a, struct array_client *c);

/* Inputs.  now_ns is a monotonic clock's. */
void array_submit (struct array *a, struct array_request *r, uint64_t now_ns);
void array_io_done (struct array *a, struct array_io *io, int error,
                    uint64_t now_ns);
void array_tick (struct array *a, uint64_t now_ns);

/* Bytes came from the member at heard_ns, even if only a part of an answer: it
 * is alive.  Call it before array_tick, which finds silent members; a repeated
 * time changes nothing.
 */
void array_heard (struct array *a, unsigned member, uint64_t heard_ns);

/* A member's connection broke: take the member for lost. */
void array_lost (struct array *a, unsigned member, const char *reason,
                 uint64_t now_ns);

/* There is a connection to the member again, opened in an epoch in which no
 * earlier request to the member runs any more.  The member gets no request
 * before the next array_commit, which has the member's present state (of the
 * same epoch if there is no new one). The joining of a joining member has begun
 * again by then, because it has missed writes.  For a member that was not lost
 * the call does nothing.  kept: the member still has all writes that it has
 * acknowledged, flushed or not: it is the same process, or a new one with the
 * same page cache.  reach: it also has all requests from before this round
 * began, or is no copy of the member's disk that was made then; UINT64_MAX: it
 * is no copy, because it is the same process.
 */
void array_back (struct array *a, unsigned member, bool kept, uint64_t reach,
                 uint64_t now_ns);

/* weftd has PREPARED this epoch; a second call for it changes nothing.  From now on
 * a member that becomes in-sync in it counts for every write and FLUSH (but is not
 * read yet), and a member that goes out in it is asked nothing more.
 * NOTICE_PREPARED follows when all that was acknowledged before is stable on the
 * copies of both epochs: no other member is lost, images are drained, and all is
 * flushed.  A reader holds its reads from the notice on, and so does one of several
 * writers what it reads without a lease.  A newer epoch, prepared or committed, takes
 * the place of this one.
 */
void array_prepare (struct array *a, uint64_t epoch,
                    const enum member_state states[], uint64_t now_ns);

/* weftd was heard: before this time it has not replaced this writer, nor changed the
 * epoch without this reader.  From then on a reader answers no reads, and a writer's
 * reads need witnesses (array-witness.c); one of several writers answers none outside
 * its part.  Before the first call the time is without end, as where there is no weftd.
 */
void array_trust (struct array *a, uint64_t until_ns, uint64_t now_ns);

/* All writes that other sessions began before this epoch have reached the
 * copies that are read in it.  While it is older than the committed one, a
 * reader answers no reads, and a writer of a part answers none outside of its
 * part.  Before the first call it counts as newest, as without weftd.
 */
void array_all_arrived (struct array *a, uint64_t epoch, uint64_t now_ns);

/* A resync has brought all copies on in-sync members in sync before the first
 * write, in the ranges that we may write: from now on a read there may take any
 * copy, and intent bits are cleared even if another session has set them
 * (BATCH_SETTLE), of extents that have nothing else.  The bits of these bytes
 * of the member are cleared as well.  Called once for each dirty range, or once
 * with a length of 0 when there was none.
 */
void array_settled (struct array *a, unsigned member, uint64_t offset,
                    uint64_t length, uint64_t now_ns);

/* weftd has recorded these states, durably: go on in this epoch. */
void array_commit (struct array *a, uint64_t epoch,
                   const enum member_state states[], uint64_t now_ns);

/* The epoch to report to weftd as the one in which this host works (`epoch` of
 * the heartbeat): the last committed one.  But if members join in that epoch,
 * it is the one before, or 0, until all images are written that were accepted
 * before the joining members were connected: these members get no images of
 * such writes, and would copy from copies that lack them, too.  The epoch does
 * not say whether these members are connected.
 */
uint64_t array_epoch (const struct array *a);

/* All writes begun before this epoch have reached the copies that other
 * sessions read in it: the last committed epoch, or else the one of an earlier
 * call.
 */
uint64_t array_arrived (struct array *a, uint64_t now_ns);

/* ---- Leases by range (config.leases; array-lease.c, docs/PROTOCOL.md "Leases") ----
 *
 * A write, zero, trim or accept outside of the ranges that we hold waits.  A read
 * waits only where it has to mend a copy; otherwise it is a reader's read outside of
 * these ranges.  They are multiples of LEASE_BYTES, but for the array's end.
 */

/* The ranges that requests wait for, in the order of the requests: at most
 * `max` ranges, each of one request, rounded out.  Returns how many.
 */
unsigned array_lease_wants (const struct array *a, struct array_range *wants,
                            unsigned max);
/* These ranges are ours from now on.  Requests that waited for them begin before any
 * can be left again; and our next FLUSH makes stable whatever any member has.
 */
void array_lease_grant (struct array *a, const struct array_range *granted,
                        unsigned count, uint64_t now_ns);
/* These as well; but copies may differ there, so requests wait, but for those of
 * ARRAY_RECOVER, until array_lease_recovered.
 */
void array_lease_recover (struct array *a, const struct array_range *ranges,
                          unsigned count, uint64_t now_ns);
/* With a part they are left then: that is over when array_lease_leaves is false. */
void array_lease_recovered (struct array *a, uint64_t now_ns);
/* Give back all of `must`, and around it the parts of `wish` that are ours and
 * were not written for LEASE_COLD_MS. No request begins there from now on.
 * When the running requests are done, and all their copies are written, for
 * joining members too, the ranges have left: NOTICE_LEFT. Ranges that were not
 * ours are in the notice, too.
 */
void array_lease_leave (struct array *a, const struct array_range *must,
                        const struct array_range *wish, uint64_t now_ns);
/* Is there anything that is being left?  Then another host may wait for that. */
bool array_lease_leaves (const struct array *a);
/* Take up to `max` ranges that were left; returns how many.  Ask until it is 0. */
unsigned array_lease_left (struct array *a, struct array_range *left,
                           unsigned max);
/* All ranges that are ours, or are still leaving; ascending, from malloc.
 * Returns how many; 0: *list is NULL.
 */
size_t array_lease_all (const struct array *a, struct array_range **list);

/* Fail all requests that wait, and all that come later, with `error` (ESHUTDOWN:
 * the session is over, or the process ends).  A request that is in flight ends when
 * its answers have come.
 */
void array_stop (struct array *a, int error, uint64_t now_ns);

/* Outputs: NULL or false at the end. */
struct array_io *array_next_io (struct array *a);
struct array_request *array_next_done (struct array *a);
bool array_next_notice (struct array *a, struct array_notice *notice);

/* The last round that we know to be complete; 0: none. */
uint64_t array_round (const struct array *a);
/* The last round that was complete when the array took in its epoch: no member that went
 * out with that epoch has noted a later one that became complete (where several write,
 * a later one that became complete by us).  0: the array began with the epoch.
 */
uint64_t array_round_entered (const struct array *a);

/* When array_tick wants to be called at the latest; UINT64_MAX: no need. */
uint64_t array_deadline (const struct array *a);

/* May copies differ where intent bits are set?  Then a resync must come before
 * any bit is cleared.
 */
bool array_differs (const struct array *a);

/* How often data may have been lost that neither FUA nor a FLUSH had made stable: writes
 * that were acknowledged, or what a former session had written and a read has returned.
 * From that moment on reads may return older data in its place.  The number rises in the
 * input by which the engine hears of it, before any later answer.  Writes that are not
 * answered by then lose nothing: they are carried out again.
 */
uint64_t array_losses (const struct array *a);

/* Nothing in flight, no image buffered, no request held. */
bool array_idle (const struct array *a);

void array_stats (const struct array *a, uint64_t now_ns,
                  struct array_stats *stats);

/* Asserts every invariant of the engine; for tests. */
void array_check (const struct array *a);

#endif /* WEFT_ARRAY_H */
