/* pull.h: a joining member fetches from the others what it lacks: the one engine of
 * rebuild and catch-up.
 *
 * A pure state machine above the member engine (member.h), which says what is to be
 * copied and when that is done; weftd says from whom and how fast.  The caller
 * (plugin/puller.c, the simulator) has a director, who does one task after the other,
 * and some workers, each of whom copies one extent after the other (copy.h):
 *
 *   weftd ───► pull_obey ──────┐            ┌─ pull_next_task: of the director
 *   director ► pull_task_done ─┼─► pull ────┤
 *   workers ─► pull_copied ────┘            └─ pull_next: an extent for a worker
 *
 * What holds:
 *
 *   F1  No extent is given out before the intent maps of all sources are known in
 *       this run of the joining, nor while there is no order for its epoch.
 *   F2  An extent counts as stable when every source that it came from was flushed
 *       after it was read, by a connection that was there before it was read, and
 *       our own disk after that.  A source that lost its power meanwhile has lost
 *       such a connection: everything that is not stable is then copied again.
 *   F3  Of three copies, the peers' intent maps are read once more between the two
 *       flushes (member_join_unequal).
 *   F4  Work of one run has ended before that of the next begins.
 *
 * The rate holds back whole extents, never a part of one: a client's write to an
 * extent that is being copied waits.  So an extent is copied as fast as it goes, or
 * not at all; likewise a connection is opened while no extent is held.
 *
 * The caller serialises all calls, and those to the member engine, by one lock; only
 * what is marked [any thread] needs none.  Times are milliseconds of a clock that
 * never goes back.
 */

#ifndef WEFT_MEMBER_PULL_H
#define WEFT_MEMBER_PULL_H

#include <stdbool.h>
#include <stdint.h>

#include "copy.h"
#include "format/format.h"
#include "layout/layout.h"
#include "member.h"

/* A source that does not answer a PULL_FLUSH for so long has failed.  That may take
 * long, and holds nothing up.
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
  uint64_t epoch; /* of the joining that it is for */
  bool paused;
  uint64_t rate; /* bytes a second; 0: as fast as it goes */
  struct layout layout;
  unsigned member;                /* we */
  bool source[ARRAY_MEMBERS_MAX]; /* in-sync */
};

/* The newest order; NULL: there is none any more, and nothing new is begun.  Say it
 * after each member_desire, under the same hold of the lock.
 */
void pull_obey (struct pull *p, const struct pull_order *o);

/* Is what was begun in this run of no use any more?  [any thread] */
bool pull_cancelled (const struct pull *p, uint64_t run);

/* Is there anything to copy now, or to flush? */
bool pull_copies (struct pull *p);

/* ---- The director ---- */

enum pull_task_kind {
  PULL_CONNECT, /* to the data door of each of members[], for PULL_FLUSH alone;
                   then linked[] says of which there is a connection */
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

/* What is to be done now, if anything; linked[m]: there is the connection of
 * PULL_CONNECT.  The task is given back by pull_task_done before another is asked
 * for, whatever happens meanwhile.  With false, ask again after PULL_TICK_MS at the
 * latest.
 */
#define PULL_TICK_MS 250
bool pull_next_task (struct pull *p, const bool linked[], uint64_t now_ms,
                     struct pull_task *t);

/* Of a PULL_INTENTS: a member's map, as member_map_read gives it.  [any thread] */
void pull_task_map (struct pull_task *t, unsigned member, const uint8_t *map,
                    uint64_t bytes);

/* COPY_DONE (PULL_CONNECT: always), COPY_CANCELLED, COPY_FAULT with *fault, or COPY_BROKEN when our own
 * disk can't be flushed: then the member has failed (member_fail).
 */
void pull_task_done (struct pull *p, struct pull_task *t, enum copy_result r,
                     const struct copy_fault *fault, uint64_t now_ms);

/* ---- Workers ---- */

/* Begins as zeroes, ends by copy_free (&w->copying). */
struct pull_worker {
  struct copying copying;
  uint64_t run; /* that the extent was given in */

  /* pull.c's own. */
  unsigned lives[ARRAY_MEMBERS_MAX];
  uint64_t retry_ms; /* it wants no extent before; 0: at any time */
};

/* An extent for the worker: w->copying has begun.  linked[m]: he has a connection to
 * m's data door.  It is given back by pull_copied exactly once; before each write to
 * our disk it is asked whether the run is cancelled.  False: none now; *wait_ms says
 * when to ask again.
 */
bool pull_next (struct pull *p, struct pull_worker *w, const bool linked[],
                uint64_t now_ms, uint64_t *wait_ms);

/* Returns whether what was copied counts.  After COPY_CONNECT the worker connects
 * to w->copying.fault.member, or says pull_unreachable.
 */
bool pull_copied (struct pull *p, struct pull_worker *w, uint64_t now_ms);
void pull_unreachable (struct pull *p, struct pull_worker *w,
                       const struct copy_fault *fault, uint64_t now_ms);

/* Nobody copies any more: no write is held for an extent that would come next. */
void pull_rest (struct pull *p);

/* ---- What is to be known ---- */

/* Has something changed for which requests, workers or the director may wait?  Says
 * so once.
 */
bool pull_wakes (struct pull *p);

/* A fault that was not there before; says so once. */
bool pull_news (struct pull *p, struct copy_fault *fault);

struct pull_progress {
  uint64_t copied_bytes;     /* that came from others since the joining began */
  uint64_t unreadable_bytes; /* that could not be read from any */
  uint64_t rate;             /* bytes a second, just now */
  bool waits;                /* for fault.member */
  struct copy_fault fault;
};
void pull_progress (const struct pull *p, struct pull_progress *progress);

#endif /* WEFT_MEMBER_PULL_H */
