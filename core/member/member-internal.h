/* member-internal.h: what the files of the member engine share.
 *
 * member.c       life, weftd's desires, header writes
 * member-map.c   what the header is to hold: on this stand the others
 * member-doors.c doors, sessions, requests, intent bits
 * member-bad.c   the list of bad ranges
 * member-join.c  joining: what is to be copied, and what foreground writes may
 *                do meanwhile
 */

#ifndef WEFT_MEMBER_INTERNAL_H
#define WEFT_MEMBER_INTERNAL_H

#include <stdatomic.h>

#include "member.h"

/* A writing session, as long as some of its intents are told apart. */
struct session {
  struct session *next;
  uint64_t id;
  uint64_t epoch;  /* of its newest pass */
  unsigned passes; /* open */
  bool forgotten;  /* in no list, with no bits: there for its passes only */
  struct intents held;
};

struct member_pass {
  enum member_door door;
  bool writable;
  uint64_t epoch;
  struct session *session; /* NULL when not writable */
};

/* A block of the intent map. */
struct block {
  bool urgent; /* has a bit that is wanted, but not on the disk */
  bool lazy;   /* has a bit on the disk that is not wanted any more */
  bool flying; /* is being written */
};

/* Writers are counted by extent modulo this number. */
#define JOIN_SLOTS 1024

struct joining {
  enum member_join_phase phase;
  _Atomic uint64_t run;
  uint64_t order; /* join_epoch; 0: none yet, or not for this run */
  uint64_t round; /* to be said once nothing is to do; 0: none */
  bool gathered;  /* the peers' bits are in `todo`, but not all are durable */

  /* In this run: not copied; copied since the last mark; copied before it.
   * Their orphan bits are set.
   */
  struct intents todo, copied, marked;
  uint64_t todo_count, copied_count, marked_count, total, mark;
  /* Of three copies: what had a bit at a peer.  They may differ there, and ours is
   * that of one of them.
   */
  struct intents unequal;
  uint64_t next; /* extent to look at */

  struct copy {
    bool used;
    uint64_t extent, run;
    unsigned turn;
  } copies[JOIN_COPIES_MAX]; /* given, and not given back */
  unsigned copies_count;

  /* Requests that were let in, or wait for a copy, by the slots of the extents
   * that they write to.  No extent whose slot is taken is given.  While one is
   * reserved, nobody else takes its slot.
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
  struct superblock written; /* last, or being so */
  bool slot_flying;
  unsigned slots_wanted; /* writes to begin; 0: `written` will be confirmed */
  uint64_t sequence;     /* of the last write that was begun */

  /* The fence.  Requests run in turns: raising the gate begins a new turn, and
   * when the last request of the old one has left, no request that was let in
   * by a lower gate runs any more.  So does beginning to join.  One turn is
   * drained at a time.
   */
  _Atomic uint64_t gate; /* epochs below it are refused */
  _Atomic unsigned turn; /* 0 or 1: that of requests that come now */
  _Atomic unsigned running[2];
  _Atomic bool draining; /* the turn that is not `turn` */
  uint64_t drains_asked, drains_done, draining_for; /* counted */

  /* Intents.  wanted = orphans + what the sessions hold.  `durable` has a bit
   * set only if a crash now finds it set on the disk: it loses bits when a
   * write without them begins, and gains bits when a write with them is done.
   * A bit that a session holds is wanted, so no write that begins takes it
   * away: once durable it stays so while it is held.
   */
  struct intents orphans, wanted, durable;
  struct block *blocks;
  unsigned blocks_count;
  bool dirty_first; /* no superblock before all that is wanted is durable */

  struct bad_list bad;
  _Atomic unsigned bad_ranges; /* as many as it has */
  unsigned bad_wanted;         /* writes to begin */
  bool bad_flying;

  _Atomic bool joining; /* our own state, as soon as weftd has said so */
  struct joining join;

  struct session *sessions;
  unsigned sessions_count;

  bool has_key;
  uint8_t key[KEY_BYTES];

  _Atomic bool failed;
  int error;
  char reason[256];
};

/* Words of the map's bits. */
static inline uint64_t
map_words (const struct intents *map)
{
  return (map->extents + 63) / 64;
}

/* member-map.c */

#define BLOCK_WORDS (INTENT_BLOCK_EXTENTS / 64)
/* The words of a block: from *first to before *end. */
void member_block_words (const struct member *m, unsigned block,
                         uint64_t *first, uint64_t *end);
/* Every bit of a block as it stands: sets urgent and lazy. */
void member_block_update (struct member *m, unsigned block);
/* A bit of `wanted` was raised. */
void member_block_raised (struct member *m, uint64_t extent);
/* The disk is to say this round. */
void member_set_round (struct member *m, uint64_t round);

/* member-bad.c */

void member_bad_clear (struct member *m);
/* A write of the list, if one is due. */
bool member_bad_action (struct member *m, struct member_action *a);
void member_bad_done (struct member *m);

/* member-doors.c */

/* Make the bit wanted, for the session. */
void member_want (struct member *m, struct session *s, uint64_t extent);
/* Lower the bit if nobody wants it any more. */
void member_unwant (struct member *m, uint64_t extent);
/* Have the requests of older epochs left?  See what waits for that. */
void member_drain_poll (struct member *m);

/* member-join.c */

/* `next`, or its gate, is new, or weftd has given a join order. */
void member_join_desire (struct member *m, bool raised, uint64_t join_epoch);
/* Go on to the next phase if its time has come. */
void member_join_poll (struct member *m);
/* As member_retry, of a request that may run as far as its pass goes. */
enum member_verdict member_join_retry (struct member *m, struct session *s,
                                       struct member_request *r);
/* A counted request leaves.  Returns true when somebody waits for that. */
bool member_join_leave (struct member *m, const struct member_request *r);
/* The session's bits are nobody's now, whether they were copied or not. */
void member_join_forget (struct member *m, const struct session *s);
void member_join_check (const struct member *m);

#endif /* WEFT_MEMBER_INTERNAL_H */
