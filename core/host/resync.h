/* resync.h: the resync, an engine of an array process that will write: it brings
 * copies in sync that may differ, before the first client is admitted, and clears
 * all intent bits at a clean end.
 *
 * Source: docs/PROTOCOL.md, "Rounds" (the choice of a copy), "Lives and copies"
 * (reports of lost data to clients) and "Blocks that no copy can be read
 * of".
 *
 * A pure state machine: it returns the next action, one at a time, and gets its
 * result.  It never blocks, opens nothing, and has no clock.
 * One thread calls it: resync_next, with the states of the members that weftd has
 * recorded by now, returns the action; the caller carries it out; resync_done takes 0
 * or an errno; and so on, until resync_next says RESYNC_OVER.
 *
 * All offsets and lengths are bytes.
 */

#ifndef WEFT_RESYNC_H
#define WEFT_RESYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "array/array.h"
#include "format/batch.h"
#include "format/format.h"
#include "layout/layout.h"

#define RESYNC_PAUSE_MS 1000

enum resync_kind {
  /* Read the intent map of a member, and hand it over by resync_map.  Any error
   * means that it could not be read.
   */
  RESYNC_MAP,
  /* Call array_lost: the member could not be read.  It is reported then, and goes
   * out or comes back.
   */
  RESYNC_LOST,
  /* Wait for RESYNC_PAUSE_MS.  With an error the resync ends: there is no time.
   */
  RESYNC_PAUSE,
  /* Read this range, which lies in one stripe unit, from this copy and no other
   * (array_request.copy).  EIO: it can't be read there.
   */
  RESYNC_READ,
  /* Have weftd know, durably, that an older copy than the newest is taken somewhere
   * (host_older), before that is written.  An error ends the resync.
   */
  RESYNC_OLDER,
  /* Write what was read last to the same range, by an array_client of the
   * resync's.  Zeroes become holes.
   */
  RESYNC_WRITE,
  /* FLUSH, by the same array_client.  EIO: copied data may be lost. */
  RESYNC_FLUSH,
  /* Open the batch door of a member, and keep it open. */
  RESYNC_OPEN,
  /* Send these records by that door.  0: they are carried out, and durable. */
  RESYNC_SEND,
  /* The door is not needed any more. */
  RESYNC_CLOSE,
  /* Tell the array engine that intent bits may be cleared (array_settled).  The
   * first of these has a length of 0.
   */
  RESYNC_SETTLED,
  /* The resync is over; resync_done is not called. */
  RESYNC_OVER,
};

struct resync_action {
  enum resync_kind kind;
  unsigned member; /* MAP, LOST, OPEN, SEND, CLOSE, SETTLED */
  unsigned copy;   /* READ: its number in the layout */
  uint64_t offset; /* of the array; SETTLED: of the member's data */
  uint64_t length;
  const struct batch_record *records; /* SEND: valid until resync_done */
  unsigned count;                     /* at most BATCH_RECORDS_MAX */
  /* OVER: */
  int error; /* not 0: copies may differ, so no client may be admitted */
  /* without error: copies are in sync and stable, or known as bad, and the
   * array engine knows it (except for orphans). If false, intent bits stay set
   * until the next attach, but clients may be admitted
   */
  bool settled;
};

struct resync;

/* The purpose of a resync.  At a clean end all writes are stable on all copies,
 * and no client is left: no data is copied, only intent bits are cleared at the
 * members.
 */
enum resync_mode {
  RESYNC_AT_ATTACH,
  RESYNC_AT_END,
  /* The end of one who shares by leases: only its own bits are cleared (BATCH_CLEAR). */
  RESYNC_AT_LEASES_END,
  /* The ranges of a dead session that shared by leases.  Others go on
   * meanwhile, so no bit is cleared.  READ, WRITE and FLUSH are with
   * ARRAY_RECOVER.
   */
  RESYNC_OF_ORPHANS,
};

/* ranges, orphans or a part at its attach: only these are resynced, and all bits
 * stay set, because others write elsewhere.  count 0: all of the array.  The
 * caller may free them after the call.  NULL: out of memory.
 */
struct resync *resync_new (const struct layout *l,
                           const struct array_range *ranges, unsigned count,
                           enum resync_mode mode);
void resync_free (struct resync *r);

void resync_next (struct resync *r, const enum member_state states[],
                  struct resync_action *a);
void resync_done (struct resync *r, int error);

/* The answer to RESYNC_MAP, before resync_done.  `reach` is the round up to
 * which the member's disk has what was written.  `data_bytes` are those of its
 * data area; 0: they are not known, and its bits stay.  `bits` is from malloc,
 * and is the engine's from now on.
 */
void resync_map (struct resync *r, uint64_t reach, uint64_t data_bytes,
                 uint8_t *bits, size_t bytes);

/* Extents of 4 MiB to copy, of all members together, and how many of them were
 * begun.
 */
uint64_t resync_extents (const struct resync *r, uint64_t *begun);

/* Places of which no copy could be read, as far as is known. */
struct resync_place {
  uint64_t offset; /* in the array; within one stripe unit */
  uint32_t length;
};
const struct resync_place *resync_bad (const struct resync *r, size_t *count);

#endif /* WEFT_RESYNC_H */
