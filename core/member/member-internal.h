/* member-internal.h: shared by the files of the member engine.
 *
 * member.c life, weftd's desires, header writes member-map.c the header's
 * content; the other files build on it member-drain.c waiting for requests that
 * began before a fence member-doors.c doors, sessions, requests, intent bits
 * member-bad.c the list of bad ranges member-source.c reads by other members
 * that join member-join.c joining: extents to copy, and what foreground writes
 * may
 *                do meanwhile
 */

#ifndef WEFT_MEMBER_INTERNAL_H
#define WEFT_MEMBER_INTERNAL_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include <bsd/sys/queue.h>

#include "layout/layout.h"
#include "member.h"

/* A writing session, kept as long as it has passes or intent bits of its own. */
struct session {
  struct session *next;
  uint64_t id;
  uint64_t epoch;  /* of its newest pass */
  unsigned passes; /* open */
  uint64_t shut;  /* it is over, and nothing of it runs when `drains_done` is so
                      much; 0: it is not over */
  bool forgotten; /* it is in no list and has no bits: it is kept only because
                      passes still point to it */
  struct intents held;
};

struct member_pass {
  LIST_ENTRY (member_pass) link;
  enum member_door door;
  bool writable;
  uint64_t id;             /* of its session */
  _Atomic uint64_t epoch;  /* 0: it is shut, and below every gate */
  struct session *session; /* NULL when not writable */
  /* Of another member, at `place`, that joins; `own`: our place. */
  bool joins;
  unsigned place, own;
  struct layout layout;
};

/* A block of the intent map. */
struct block {
  bool urgent; /* it has a bit that is wanted, but not on the disk */
  bool lazy;   /* it has a bit on the disk that is not wanted any more */
  bool flying; /* it is being written */
};

/* Writers are counted by extent modulo this number. */
#define JOIN_SLOTS 1024

struct joining {
  enum member_join_phase phase;
  _Atomic uint64_t run;
  uint64_t order; /* join_epoch; 0: none yet, or not for this run */
  /* the round that the disk notes once all is copied; 0: none */
  uint64_t round;
  bool gathered; /* the peers' bits are in `todo`, but not all are durable */

  /* Extents, of this run: those not copied yet; those copied since the last mark;
   * those copied before it and not stable yet.  Their bits in `orphans` are set.
   */
  struct intents todo, copied, marked;
  uint64_t todo_count, copied_count, marked_count, total, mark;
  /* Where there are three copies: extents with a bit at a peer.  The two peers may
   * differ there, and our copy is that of one of them.
   */
  struct intents unequal;
  uint64_t next; /* extent to look at */

  struct copy {
    bool used;
    uint64_t extent, run;
    unsigned turn;
  } copies[JOIN_COPIES_MAX]; /* extents given out, and not given back */
  unsigned copies_count;

  /* How many requests were admitted, or wait for a copy, in each slot of the
   * extents that they write to.  An extent is given out for copying only when
   * its slot is empty.  While an extent is reserved for copying, no new request
   * takes its slot.
   */
  _Atomic unsigned writers[JOIN_SLOTS];
  _Atomic bool reserving;
  uint64_t reserved;
};

struct member {
  /* Superblock.  A change of `next` is written to both slots before it counts
   * as confirmed; a slot's write is one at a time.
   */
  struct superblock confirmed, next;
  /* the superblock that was written last, or is being written */
  struct superblock written;
  bool slot_flying;
  unsigned slots_wanted; /* writes to begin; 0: `written` will be confirmed */
  uint64_t sequence;     /* of the last write that was begun */

  /* The fence.  Each request belongs to a turn.  Raising the gate begins a new
   * turn, and so does the begin of joining; when the last request of the old
   * turn has left, no request that was admitted by a lower gate runs any more.
   * One turn is drained at a time.
   */
  _Atomic uint64_t gate; /* epochs below it are refused */
  _Atomic unsigned turn; /* 0 or 1: the turn of requests that come now */
  _Atomic unsigned running[2];
  _Atomic bool draining; /* the other turn is not empty yet */
  uint64_t drains_asked, drains_done, draining_for; /* counted */

  /* Intents.  `wanted` is the union of `orphans` (bits that no session holds)
   * and the bits that sessions hold.  `durable` has a bit set only if a crash
   * now would find it set on the disk: it loses a bit when a write without it
   * begins, and gains one when a write with it is done.  A bit that a session
   * holds is wanted, so every write has it: once durable it stays so while it
   * is held.
   */
  struct intents orphans, wanted, durable;
  struct block *blocks;
  unsigned blocks_count;
  bool dirty_first; /* no superblock before all that is wanted is durable */

  struct bad_list bad; /* its number: of the last write that was begun */
  _Atomic unsigned bad_ranges; /* as many as it has */
  unsigned bad_wanted;         /* writes to begin; 2: under the next number */
  bool bad_flying;

  _Atomic bool joining; /* this member is joining, as weftd has said */
  struct joining join;

  struct session *sessions;
  unsigned sessions_count;
  LIST_HEAD (, member_pass) passes;

  /* Sessions that are over, whose tokens could still open a door. */
  struct member_over over[MEMBER_OVER_MAX];
  unsigned over_count;
  uint64_t doors;                /* tokens of lower epochs open no door */
  uint64_t over_told, over_done; /* numbers */
  uint64_t
    over_drain; /* over_done is over_told when `drains_done` is so much */

  bool has_key;
  uint8_t key[KEY_BYTES];
  _Atomic uint64_t
    heard_ms; /* when weftd was asked what it has answered last */

  _Atomic bool failed, gone; /* gone: by the removal of its disk */
  char reason[256];
  int short_of; /* the errno with which something was refused last; 0: none */
  bool header_short; /* a header write was, and none has been made since */
};

/* Words of the map's bits. */
static inline uint64_t
map_words (const struct intents *map)
{
  return (map->extents + 63) / 64;
}

/* The extents that a record changes: from *first to before *end; maybe none. */
static inline void
record_extents (const struct batch_record *b, uint64_t *first, uint64_t *end)
{
  *first = *end = b->offset / EXTENT_BYTES;
  if (batch_changes_data (b->kind) && b->length > 0)
    *end = (b->offset + b->length - 1) / EXTENT_BYTES + 1;
}

/* member-map.c */

#define BLOCK_WORDS (INTENT_BLOCK_EXTENTS / 64)
/* The words of a block: from *first to before *end. */
void member_map_block_words (const struct member *m, unsigned block,
                             uint64_t *first, uint64_t *end);
/* Set a block's `urgent` and `lazy` from all its bits. */
void member_map_block_update (struct member *m, unsigned block);
/* A bit of `wanted` was set: bring its block's `urgent` and `lazy` up to date. */
void member_map_block_raised (struct member *m, uint64_t extent);
/* The session holds this extent's bit: make the bit wanted. */
void member_map_want (struct member *m, struct session *s, uint64_t extent);
/* Take the bit out of `wanted` if no session holds it and it is no orphan. */
void member_map_unwant (struct member *m, uint64_t extent);
/* Have this round written to the disk. */
void member_map_set_round (struct member *m, uint64_t round);

/* Does what waits for a header write wait for room?  Then it is refused. */
bool member_map_header_short (const struct member *m,
                              struct member_refusal *refusal);

/* member-bad.c */

void member_bad_clear (struct member *m);
/* A write of the list was refused: see member_action_refused. */
void member_bad_refused (struct member *m, const struct member_action *a);
/* Take a write of the list, if one is due. */
bool member_bad_action (struct member *m, struct member_action *a);
void member_bad_done (struct member *m);

/* The lowest gate is 1, which a pass that is shut does not pass. */
static inline uint64_t
gate_of (uint64_t min_epoch)
{
  return min_epoch > 0 ? min_epoch : 1;
}

/* member-drain.c */

/* See whether the requests of the old turn have left. */
void member_drain_poll (struct member *m);

/* member-doors.c */

/* All open doors become invalid. */
void member_doors_shut_all (struct member *m);

/* Fill the refusal; REFUSE. */
static inline enum member_verdict __attribute__ ((format (printf, 3, 4)))
member_refuse (struct member_refusal *r, int error, const char *fs, ...)
{
  va_list args;

  va_start (args, fs);
  vsnprintf (r->why, sizeof r->why, fs, args);
  va_end (args);
  r->error = error;
  return MEMBER_REFUSE;
}

/* member-source.c */

/* Bind the pass to what the token is bound to; GO or REFUSE. */
enum member_verdict member_source_open (const struct member *m,
                                        const struct token *t,
                                        const struct member_client *client,
                                        struct member_pass *pass,
                                        struct member_refusal *refusal);
/* The same, for a request of a pass that joins.  [any thread] */
enum member_verdict member_source_check (const struct member *m,
                                         const struct member_pass *pass,
                                         const struct member_request *r,
                                         struct member_refusal *refusal);

/* member-join.c */

/* weftd's desire was taken in; raised: min_epoch is higher than before. */
void member_join_desire (struct member *m, bool raised, uint64_t join_epoch);
/* See whether the requests of the old turn have left, and go on to the next phase if its
 * time has come.
 */
void member_join_poll (struct member *m);
/* As member_retry, for a request whose pass lets it run. */
enum member_verdict member_join_retry (struct member *m, struct session *s,
                                       struct member_request *r);
/* A counted request leaves.  Returns true when others may wait for that. */
bool member_join_leave (struct member *m, const struct member_request *r);
/* The session is gone, and its bits have become orphans: their extents are no
 * longer on any list of what was copied.
 */
void member_join_forget (struct member *m, const struct session *s);
void member_join_check (const struct member *m);

#endif /* WEFT_MEMBER_INTERNAL_H */
