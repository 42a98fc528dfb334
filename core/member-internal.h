/* member-internal.h: what the files of the member engine share.
 *
 * member.c       life, weftd's desires, header writes
 * member-doors.c doors, sessions, requests, intent bits
 */

#ifndef WEFT_MEMBER_INTERNAL_H
#define WEFT_MEMBER_INTERNAL_H

#include <stdatomic.h>

#include "member.h"

/* A writing session, as long as some of its intents are told apart. */
struct session {
  struct session *next;
  uint64_t id;
  uint64_t epoch; /* of its newest pass */
  unsigned passes; /* open */
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
   * by a lower gate runs any more.  One turn is drained at a time.
   */
  _Atomic uint64_t gate; /* epochs below it are refused */
  _Atomic unsigned turn; /* 0 or 1: that of requests that come now */
  _Atomic unsigned running[2];
  _Atomic bool draining; /* the turn that is not `turn` */
  uint64_t draining_to, drained; /* gates */

  /* Intents.  wanted = orphans + what the sessions hold.  `durable` has a bit
   * set only if a crash now finds it set on the disk: it loses bits when a
   * write without them begins, and gains bits when a write with them is done.
   * A bit that a session holds is wanted, so no write that begins takes it
   * away: once durable it stays so while it is held.
   */
  struct intents orphans, wanted, durable;
  struct block *blocks;
  unsigned blocks_count;

  struct session *sessions;
  unsigned sessions_count;

  bool has_key;
  uint8_t key[KEY_BYTES];

  _Atomic bool failed;
  int error;
  char reason[256];
};

/* Every bit of a block as it stands: sets urgent and lazy. */
void member_block_update (struct member *m, unsigned block);

#endif /* WEFT_MEMBER_INTERNAL_H */
