/* member.h: the member engine (docs/DESIGN.md 5): what one disk of an
 * array
 * promises, and when it may.
 *
 * A pure state machine.  It never reads or writes a disk: it says which header
 * bytes must be durable first (actions), and which requests may run.  The
 * caller (the nbdkit plugin, or the simulator) does the rest.
 *
 *   doors ──── member_open ──────┐              ┌─ GO, WAIT or REFUSE
 *   requests ─ member_admit ─────┼─► the engine ┤
 *   weftd ──── member_desire ────┘              └─ member_next_action ─► header
 *                                                   member_action_done ◄─┘
 *
 * What holds at every moment, whatever crashes:
 *
 *   I1  A write runs only while the intent bit of each extent that it touches
 *       is set on the disk.
 *   I2  No request of an epoch below the confirmed min_epoch runs, now or
 *       after any restart; member_confirmed () never goes back.
 *   I3  A bit that a session has set is cleared by that session alone.  What
 *       was dirty when the engine started, or was left by a session that is
 *       gone, stays dirty until a resync settles it.  While the member is
 *       joining, a bit falls when its extent was copied, and only then.
 *   I4  After a failed write or flush nothing runs any more.
 *   I5  While the member is joining, an extent whose copy is missing has its
 *       bit set; nothing is written there but by the copying of it, and it is
 *       not read.
 *   I6  Where an intent bit is clear on the disk, and the member is in-sync, what is
 *       bad in that extent stands in the list of bad ranges on the disk.
 *
 * A change that is confirmed stands in both superblock slots, so a slot that
 * goes bad later takes nothing back.
 *
 * Calls are serialised by the caller, who holds one lock for all of them.
 * Only the functions marked [any thread] need no lock; they make the way of
 * every request: when its bits are set already, it costs some atomic loads.
 *
 * A member that is joining holds a write (WAIT), or lets it go but has parts of
 * it dropped (member_applies): answered without being carried out.
 */

#ifndef WEFT_MEMBER_H
#define WEFT_MEMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/bad.h"
#include "format/batch.h"
#include "base/bounds.h"
#include "format/format.h"
#include "format/token.h"

struct member;

enum member_verdict {
  MEMBER_GO,
  MEMBER_WAIT, /* do actions, or wait until others have done some; ask again */
  MEMBER_REFUSE, /* *refusal says why */
};

struct member_refusal {
  int error; /* errno */
  char why[320];
};

/* ---- Life ---- */

/* An engine for a disk whose header was read: its superblock, of which both slots
 * say the same, and the intent map, whose words the engine takes over.  min_epoch
 * is raised at once past every epoch that the last life has heard of, or opened a
 * door in.  There is no action before weftd has given a key; then the caller does
 * all actions before it listens.
 * NULL: out of memory.
 */
struct member *member_new (const struct superblock *sb, struct intents *map);
void member_free (struct member *m); /* no pass is open any more */

/* What is durable: as far as weftd may be told. */
const struct superblock *member_confirmed (const struct member *m);

/* Is everything that was asked for durable? */
bool member_settled (const struct member *m);

/* The key with which weftd makes the tokens for this member; it is not stored.
 */
void member_set_key (struct member *m, const uint8_t key[KEY_BYTES]);

/* A write or flush of the data failed, or the header's.  The first reason
 * stays.  [any thread may look; the lock is needed to say so]
 */
void member_fail (struct member *m, int error, const char *reason);
bool member_failed (const struct member *m);        /* [any thread] */
const char *member_reason (const struct member *m); /* NULL: not failed */

uint64_t member_dirty_extents (const struct member *m);

/* Copy bytes of the intent map: bit e is bit e % 8 of byte e / 8.  The view
 * has member_map_bytes () bytes, the last bits of which mean nothing and are
 * zero.
 */
uint64_t member_map_bytes (const struct member *m);
void member_map_read (const struct member *m, uint64_t offset, size_t bytes,
                      uint8_t *buf);

/* ---- Doors ---- */

enum member_door { DOOR_DATA, DOOR_BATCH, DOOR_INTENTS };

/* "data", "batch", "intents". */
const char *member_door_name (enum member_door door);

struct member_pass; /* an open door */

/* Open the door that an export name "DOOR/TOKEN" asks for.  WAIT: the epoch
 * must first be noted on the disk.  GO gives a pass.
 */
enum member_verdict member_open (struct member *m, const char *export_name,
                                 struct member_pass **pass,
                                 struct member_refusal *refusal);
void member_close (struct member *m, struct member_pass *pass);

enum member_door member_pass_door (const struct member_pass *pass);
bool member_pass_writable (const struct member_pass *pass);

/* ---- Requests ---- */

/* One request, from admit to leave.  The caller fills the first three fields:
 * the ranges that it will write (CLEAR records are skipped), none for a read
 * or a flush, and whether it reads data, or asks where there is any.  Records
 * must lie within the data area, and stay as they are until member_leave.
 */
struct member_request {
  const struct batch_record *records;
  unsigned count;
  bool reads;

  /* The engine's own. */
  unsigned turn;
  bool wake;
  bool counted; /* among the writers of its extents */
  uint64_t run; /* of the joining that let it in; 0: none */
};

/* May it run?  GO: run it.  REFUSE: it may not; *refusal is filled.  WAIT: take
 * the lock, and ask member_retry until it says GO or REFUSE, with actions or
 * waiting in between.  Whatever was said, member_leave follows at last.
 * [any thread]
 */
enum member_verdict member_admit (struct member *m, struct member_pass *pass,
                                  struct member_request *r,
                                  struct member_refusal *refusal);
enum member_verdict member_retry (struct member *m, struct member_pass *pass,
                                  struct member_request *r,
                                  struct member_refusal *refusal);

/* The request was answered or is about to be; nothing of it runs any more.
 * Returns true when somebody waits for just that: then wake them.
 * [any thread]
 */
bool member_leave (struct member *m, struct member_request *r);

/* The session needs the intent bits of the extents that lie within this range
 * no more: both copies of what it wrote there are on stable storage.  (The last
 * extent ends where the data area does, or what the array uses of it.)  Nothing
 * is cleared while a member of the group is not in-sync.  The session has no
 * write to these extents under way (docs/DESIGN.md 5.3).
 * With `settled` the bits fall as well that were left by those who are gone:
 * sessions that are fenced or have no door open, and whoever wrote before the
 * engine started.  The session has made the copies equal (a resync).
 */
void member_clear (struct member *m, struct member_pass *pass, uint64_t offset,
                   uint64_t length, bool settled);

/* The disk is to say that it has seen this round of the array's writing, so that
 * an old copy of it can be told.  GO: it does, durably.  WAIT: do actions, and ask
 * again.  A request of the pass is under way.
 */
enum member_verdict member_round (struct member *m,
                                  const struct member_pass *pass,
                                  uint64_t round,
                                  struct member_refusal *refusal);

/* ---- What weftd wants ---- */

struct member_desire {
  uint64_t generation;
  uint8_t cluster[16];
  uint8_t release[16]; /* the array to forget; zero: none */
  uint64_t min_epoch;
  bool assigned; /* the rest counts */
  uint8_t array[16];
  unsigned position;
  enum layout_kind layout;
  unsigned n, groups;
  uint32_t unit;
  uint64_t member_bytes; /* in use of each member's data area */
  uint8_t dup;           /* enum array_dup; only noted */
  uint64_t epoch;        /* of the states */
  uint8_t states[ARRAY_MEMBERS_MAX];
  uint64_t join_epoch; /* joining: the epoch since which every session sends
                            us its writes; 0: not yet */
  uint64_t join_round; /* where nobody writes: to be said when all is copied */
};

/* Make it so.  Epochs below a raised min_epoch are refused from now on; it is
 * confirmed when their requests have left and it is durable.  Returns false,
 * having changed nothing, with a sentence when the desire is not to be obeyed:
 * an older generation, another array, another cluster (of a member that has a
 * place in an array), nonsense.
 */
bool member_desire (struct member *m, const struct member_desire *d, char *why,
                    size_t why_size);
/* Where weftd says that the place is to stay as the superblock has it. */
void member_desire_place (struct member_desire *d, const struct superblock *sb);

/* ---- Joining (member-join.c; docs/DESIGN.md 8.1) ----
 *
 * The to-do list is the intent map.  What is to be done has its bit set on the
 * disk, held by nobody; it falls when the extent was copied and both source and
 * target are stable.  Whatever restarts, every set bit is to do again.
 *
 *   WAITING    for desire.join_epoch, and for the requests of the time before
 *              to leave.  Every write is dropped, and noted.
 *   GATHERING  the caller reads the peers' intent maps, and hands their union,
 *              in our own extents, to member_join_gathered.  Still every write
 *              is dropped and noted, until all bits are durable.
 *   COPYING    member_join_next, copy, member_join_copied; from time to time
 *              member_join_mark, flush the peers and the disk, then
 *              member_join_stable.  A write to an extent that is to do is
 *              dropped, to one that is being copied it waits; else it is
 *              carried out.
 *   SYNCED     nothing is to be done.
 *
 * A raised min_epoch, or a new join_epoch, begins again at WAITING: sessions
 * have changed, and a dead one's writes may be missing here.  Data is read in
 * SYNCED alone.
 */
enum member_join_phase {
  MEMBER_JOIN_NONE,
  MEMBER_JOIN_WAITING,
  MEMBER_JOIN_GATHERING,
  MEMBER_JOIN_COPYING,
  MEMBER_JOIN_SYNCED,
};
const char *member_join_phase_name (enum member_join_phase phase);

enum member_join_phase member_join_phase (struct member *m);
uint64_t member_join_epoch (const struct member *m); /* works for; 0: none */
/* Grows whenever the joining begins again; goes with the next calls, which do
 * nothing when it has grown since (but for giving an extent back).
 */
uint64_t member_join_run (const struct member *m);

void member_join_gathered (struct member *m, uint64_t run,
                           const struct intents *peers);

/* Of a third copy: it keeps its bits where its peers have some by now. */
void member_join_unequal (struct member *m, uint64_t run,
                          const struct intents *peers);

/* An extent to copy, as soon as nothing runs there; false: none just now.  It
 * is given back by member_join_copied exactly once, whatever happens meanwhile,
 * and nothing is written to it for the copy after that.  A fence waits for it:
 * when the run has grown, or the phase is not COPYING any more, an extent whose
 * source is still being read is given back at once.
 * After false, writes may be held for the extent that comes next: the caller
 * asks again whenever it is woken, or says member_join_rest when it wants none
 * for a while (paused, no source).
 */
bool member_join_next (struct member *m, uint64_t run, uint64_t *extent);
bool member_join_rest (struct member *m); /* true: wake those whom it held */
/* ok: all of it was written.  Else it is to do again. */
void member_join_copied (struct member *m, uint64_t run, uint64_t extent,
                         bool ok);

/* What was copied before the newest mark is stable: the sources and this disk
 * were flushed since.  (Of an older mark it says nothing.)  What is copied may be of a
 * write that no other copy gets, for who writes is gone, and whoever we have it of is
 * soon: so a third copy asks its peers once more before that, member_join_unequal.
 */
uint64_t member_join_mark (struct member *m);
void member_join_stable (struct member *m, uint64_t run, uint64_t mark);
/* A source can't be flushed any more, as the one that it was: what was copied
 * and is not stable is to do again.
 */
void member_join_redo (struct member *m, uint64_t run);

struct member_join_progress {
  uint64_t todo;     /* extents not copied yet */
  uint64_t unstable; /* copied, and not stable yet */
  uint64_t total;    /* to do when the copying began */
};
void member_join_progress (const struct member *m,
                           struct member_join_progress *p);

/* Of a request that may GO: is the part of it at `offset` to be carried out?
 * *length is at most the length asked for: the answer holds for so many bytes.
 * False: it is dropped, for the copy will bring it.  [any thread]
 */
bool member_applies (const struct member *m, const struct member_request *r,
                     uint64_t offset, uint64_t *length);

/* ---- Bad blocks (member-bad.c, bad.h) ----
 *
 * Whoever reads asks first, and answers EIO where a block is bad.  Whoever writes to
 * one has the data stable, says member_bad_good, and does not answer before
 * member_bad_settled.
 */

/* The list of the disk as it was read; `mend` as of bad_decode.  Once, after
 * member_new; else it is empty.
 */
void member_bad_begin (struct member *m, const struct bad_list *list,
                       bool mend);
const struct bad_list *member_bad (const struct member *m);
bool member_bad_any (const struct member *m); /* [any thread] */
/* Is all that was changed durable? */
bool member_bad_settled (const struct member *m);

/* As bad_add and bad_good.  While the member is joining: of an extent that is being
 * copied, before it is given back.  False: there is no room for one more.
 */
bool member_bad_add (struct member *m, uint64_t offset, uint64_t length,
                     enum bad_reason reason);
void member_bad_good (struct member *m, uint64_t offset, uint64_t length);

/* A session says that no copy of this can be read (BATCH_BAD): REFUSE, or GO; then
 * it is answered after member_bad_settled.
 */
enum member_verdict member_bad_report (struct member *m,
                                       struct member_pass *pass,
                                       uint64_t offset, uint64_t length,
                                       struct member_refusal *refusal);

/* ---- Actions ---- */

enum member_action_kind {
  MEMBER_WRITE_SLOT,
  MEMBER_WRITE_INTENTS,
  MEMBER_WRITE_BAD,
};

/* Write `length` of the bytes at `offset` of the disk, durably. */
struct member_action {
  enum member_action_kind kind;
  uint64_t offset;
  unsigned length;
  uint8_t bytes[BAD_SLOT_BYTES];

  unsigned block; /* the engine's own */
};

/* Take the next action, if there is one that somebody waits for; with `lazy`
 * also those that nobody does (clears of intent bits).  Several may be under
 * way; each is given back by member_action_done exactly once, `error` 0 or an
 * errno.  An error fails the member; a failed member has no actions.
 */
bool member_next_action (struct member *m, bool lazy, struct member_action *a);
void member_action_done (struct member *m, const struct member_action *a,
                         int error);

/* Asserts every invariant of the engine; for tests. */
void member_check (const struct member *m);

#endif /* WEFT_MEMBER_H */
