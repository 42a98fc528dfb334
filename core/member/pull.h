/* pull.h: a joining member copies missing data from the others: the one engine
 * of rebuild and catch-up.
 *
 * A pure state machine above the member engine (member.h). The member engine
 * names the extents to copy, and says when all are done; weftd sets the sources
 * and the speed.  The caller (plugin/puller.c, the simulator) has a director,
 * which does one task after the other, and some workers, each of which copies
 * one extent after the other (copy.h):
 *
 *   weftd ───► pull_obey ──────┐            ┌─ pull_next_task: of the director
 *   director ► pull_task_done ─┼─► pull ────┤
 *   workers ─► pull_copied ────┘            └─ pull_next: an extent for a worker
 *
 * These rules hold:
 *
 *   F1  No extent is given out before the intent maps of all sources are known in
 *       this run of the joining, nor while there is no order for its epoch.
 *   F2  An extent counts as stable when every source that it came from was flushed
 *       after it was read, and our own disk after that.  The source is flushed by a
 *       connection that was there before the extent was read: a source whose power
 *       fails in between breaks that connection, and then everything that is not
 *       stable is copied again.
 *   F3  Where there are three copies of the data, the peers' intent maps are read
 *       once more between the two flushes (member_join_unequal).
 *   F4  Work of one run has ended before that of the next begins.
 *
 * A client's write to an extent waits while the extent is being copied.  So the
 * rate only decides when an extent is begun; the copying of it is never slowed
 * down, and a worker that has to connect first gives its extent back.
 *
 * The caller serialises all calls, and those to the member engine, by one lock;
 * only functions marked [any thread] need none.  Times are milliseconds of a
 * clock that never goes back.
 */

#ifndef WEFT_PULL_H
#define WEFT_PULL_H

#include <stdbool.h>
#include <stdint.h>

#include "copy.h"
#include "format/format.h"
#include "layout/layout.h"
#include "member.h"

/* A source that does not answer a PULL_FLUSH for so long has failed.  The time is
 * long because a flush may take long, and no client waits for this one.
 */
#define PULL_FLUSH_SILENT_MS 30000
/* So many copied extents are worth a flush. */
#define PULL_STABLE_EXTENTS 256

struct pull;

/* NULL: out of memory. */
struct pull *pull_new (struct member *m, unsigned stable_extents);
void pull_free (struct pull *p);

/* ---- weftd's order ---- */

struct pull_order {
  uint64_t epoch; /* the joining that it is for: member_join_epoch */
  bool paused;
  uint64_t rate; /* bytes a second; 0: as fast as it goes */
  struct layout layout;
  unsigned member; /* the joining member, on whose host this is */
  bool source[ARRAY_MEMBERS_MAX]; /* in-sync */
};

/* Give the newest order; NULL: there is none any more, and nothing new is begun.
 * Called after each member_desire, without releasing the lock in between.
 */
void pull_obey (struct pull *p, const struct pull_order *o);

/* Is work of this run no longer needed?  [any thread] */
bool pull_cancelled (const struct pull *p, uint64_t run);

/* Is there anything to copy now, or to flush? */
bool pull_copies (struct pull *p);

/* ---- The director ---- */

enum pull_task_kind {
  PULL_CONNECT, /* connect to the data door of each of members[], for PULL_FLUSH
                   alone; linked[] of the task then says to which there is one */
  PULL_INTENTS, /* read the intent map of each of members[]: pull_task_map */
  PULL_FLUSH,   /* flush each of members[]; may be cancelled */
  PULL_SYNC,    /* flush our own disk */
};

struct pull_task {
  enum pull_task_kind kind;
  uint64_t run;
  bool members[ARRAY_MEMBERS_MAX];
  bool linked[ARRAY_MEMBERS_MAX];

  /* pull.c's own. */
  struct layout layout;
  unsigned member;
  struct intents peers; /* their bits, as those of our own extents */
};

/* Take the next task; false: there is none now, ask again after PULL_TICK_MS at the
 * latest.  linked[m]: the connection that PULL_CONNECT has made to m still lives.
 * The task is given back by pull_task_done before another is asked for, whatever
 * happens meanwhile.
 */
#define PULL_TICK_MS 250
bool pull_next_task (struct pull *p, const bool linked[], uint64_t now_ms,
                     struct pull_task *t);

/* During PULL_INTENTS: hand over the map of one member, as member_map_read gives
 * it.  [any thread]
 */
void pull_task_map (struct pull_task *t, unsigned member, const uint8_t *map,
                    uint64_t bytes);

/* Give the task back.  r: COPY_DONE (PULL_CONNECT: always), COPY_CANCELLED,
 * COPY_FAULT with *fault, or COPY_BROKEN when our own disk can't be flushed: then
 * the caller has called member_fail.
 */
void pull_task_done (struct pull *p, struct pull_task *t, enum copy_result r,
                     const struct copy_fault *fault, uint64_t now_ms);

/* ---- Workers ---- */

/* Begins as zeroes, ends by copy_free (&w->copying). */
struct pull_worker {
  struct copying copying;
  uint64_t run; /* in which the extent was given */

  /* pull.c's own. */
  unsigned lives[ARRAY_MEMBERS_MAX];
  uint64_t retry_ms; /* it wants no extent before; 0: at any time */
};

/* Take an extent for the worker: w->copying has begun.  linked[m]: the worker has a
 * connection to m's data door.  The extent is given back by pull_copied exactly
 * once; before each write to our disk the worker asks pull_cancelled.  False: there
 * is no extent now; *wait_ms says when to ask again.
 */
bool pull_next (struct pull *p, struct pull_worker *w, const bool linked[],
                uint64_t now_ms, uint64_t *wait_ms);

/* Give the extent back.  Returns whether what was copied counts.  After
 * COPY_CONNECT the worker connects to w->copying.fault.member, or calls
 * pull_unreachable when it can't.
 */
bool pull_copied (struct pull *p, struct pull_worker *w, uint64_t now_ms);
void pull_unreachable (struct pull *p, struct pull_worker *w,
                       const struct copy_fault *fault, uint64_t now_ms);

/* No worker copies for a while: clients' writes no longer wait for the extent that
 * would be copied next.
 */
void pull_rest (struct pull *p);

/* ---- Facts ---- */

/* Has something changed for which requests, workers or the director may wait?  True
 * once for each change.
 */
bool pull_wakes (struct pull *p);

/* Take a fault that is new; false: there is none.  Each is given once. */
bool pull_news (struct pull *p, struct copy_fault *fault);

struct pull_progress {
  uint64_t copied_bytes;     /* that came from others since the joining began */
  uint64_t unreadable_bytes; /* that could not be read from any */
  uint64_t rate;             /* bytes a second, just now */
  bool waits;                /* for fault.member */
  struct copy_fault fault;
};
void pull_progress (const struct pull *p, struct pull_progress *progress);

#endif /* WEFT_PULL_H */
