/* member.h: the member engine (docs/DESIGN.md 5): which requests one disk of an
 * array may carry out, and what must be durable there first.
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
 * These rules hold at every moment, whatever crashes:
 *
 *   I1  A write runs only while the intent bit of each extent that it touches
 *       is set on the disk.
 *   I2  No request of an epoch below the confirmed min_epoch runs, now or
 *       after any restart; member_confirmed () never goes back.
 *   I3  A bit that a session has set is cleared by that session alone.  A bit
 *       that was set when the engine started, or was left by a session that is
 *       gone, stays set until a resync settles it.  While the member is
 *       joining, a bit is cleared when its extent was copied, and only then.
 *   I4  After a failed write or flush nothing runs any more.
 *   I5  While the member is joining, an extent whose copy is missing has its
 *       bit set; nothing is written there but by the copying of it, and it is
 *       not read.
 *   I6  Where an intent bit is clear on the disk, and the member is in-sync, every
 *       bad block of that extent is in the list of bad ranges on the disk.
 *   I7  When member_over_done () has reached a session's number, nothing that the
 *       session has asked runs, and nothing that it asks will, in this life.
 *
 * A change counts as confirmed when both superblock slots have it, so a slot that
 * goes bad later takes nothing back.
 *
 * Calls are serialised by the caller, who holds one lock for all of them.
 * Only the functions marked [any thread] need no lock.  Every request passes
 * through them; when its bits are set already, that costs some atomic loads.
 *
 * While the member is joining, a write may be held (WAIT), or may go with some of
 * its parts dropped (member_applies): they are answered without being carried out,
 * because the copying will bring their data.
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

/* Make an engine for a disk whose header was read: its superblock, of which both
 * slots say the same, and the intent map, whose words the engine takes over.
 * min_epoch is raised at once past every epoch that the process before has heard of
 * or opened a door in.  There is no action before weftd has given a key; then the
 * caller does all actions before it listens.
 * NULL: out of memory.
 */
struct member *member_new (const struct superblock *sb, struct intents *map);
void member_free (struct member *m); /* no pass is open any more */

/* The superblock as it is durable; only this one may be reported to weftd. */
const struct superblock *member_confirmed (const struct member *m);

/* Is everything that was asked for durable? */
bool member_settled (const struct member *m);

/* The key with which weftd makes the tokens for this member; it is not stored.
 * Connections by tokens of another key are closed, like those of a session that
 * is over.
 */
void member_set_key (struct member *m, const uint8_t key[KEY_BYTES]);

/* A write or flush of the data or of the header has failed.  The first reason
 * stays.  [the lock is needed for member_fail]
 */
void member_fail (struct member *m, int error, const char *reason);
bool member_failed (const struct member *m);        /* [any thread] */
const char *member_reason (const struct member *m); /* NULL: not failed */
/* The disk was removed from its host: the member has failed, and refuses as one that
 * ends (ESHUTDOWN), for its next process may serve what is asked.
 */
void member_gone (struct member *m);

/* A write of the data was refused for the moment (ERRORS_AGAIN): the member is
 * *short* of something, and reports that until there is room again, as far as
 * it can find out.  The same holds while a header write is refused
 * (member_action_refused).
 */
void member_refused (struct member *m, int error);
void member_relieved (struct member *m);
const char *member_short (const struct member *m); /* NULL: it is not */

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

/* The names in the certificate of a client. */
struct member_client {
  const char *node; /* NULL: none that a node may have */
  /* "disk:UUID" or "array:NAME" in a process certificate; "": it is the node's own. */
  const char *process;
};

/* Open the door that an export name "DOOR/TOKEN" asks for.  client: NULL: it shows no
 * certificate.  WAIT: the token's epoch must first be durable on the disk.  GO gives a
 * pass.
 */
enum member_verdict member_open (struct member *m, const char *export_name,
                                 const struct member_client *client,
                                 struct member_pass **pass,
                                 struct member_refusal *refusal);
void member_close (struct member *m, struct member_pass *pass);

enum member_door member_pass_door (const struct member_pass *pass);
bool member_pass_writable (const struct member_pass *pass);
/* The session of its token; does that write?  (The intents door is read by writers, too.) */
uint64_t member_pass_session (const struct member_pass *pass);
bool member_pass_writes (const struct member_pass *pass);

/* ---- Requests ---- */

/* One request, from member_admit to member_leave.  The caller fills the first
 * fields: the ranges that it will write (CLEAR records are skipped; a read
 * or a flush has none), and whether it reads data or asks where there is any.
 * Records must lie within the data area, and stay as they are until member_leave.
 * A joining member's request (member_pass_joins) also says which data it reads, length 0
 * if it reads none, and the time.
 */
struct member_request {
  const struct batch_record *records;
  unsigned count;
  bool reads;
  uint64_t offset, length, now_ms;

  /* The engine's own. */
  unsigned turn;
  bool wake;
  bool counted; /* among the writers of its extents */
  uint64_t run; /* member_join_run when it was admitted; 0: not joining */
};

/* May the request run?  GO: run it.  REFUSE: it may not; *refusal is filled.  WAIT:
 * take the lock, and ask member_retry until it says GO or REFUSE, with actions or
 * waiting in between.  In each case the caller ends with member_leave.
 * [any thread]
 */
enum member_verdict member_admit (struct member *m, struct member_pass *pass,
                                  struct member_request *r,
                                  struct member_refusal *refusal);
enum member_verdict member_retry (struct member *m, struct member_pass *pass,
                                  struct member_request *r,
                                  struct member_refusal *refusal);

/* The request was answered or is about to be; nothing of it runs any more.
 * Returns true when others may wait for it to leave: then wake them.
 * [any thread]
 */
bool member_leave (struct member *m, struct member_request *r);

/* The session no longer needs the intent bits of the extents within this range:
 * all copies of its writes there are on stable storage, and it has no write to
 * these extents under way (docs/DESIGN.md 5.3). (The last extent ends where the
 * data area does, or the part of it that the array uses.) Bits are cleared only
 * while all members of the group are in-sync.  settled: the session has
 * resynced the copies, so bits that no session holds any more are cleared as
 * well: bits of sessions that are fenced or have no door open, and bits that
 * were set before the engine started.
 */
void member_clear (struct member *m, struct member_pass *pass, uint64_t offset,
                   uint64_t length, bool settled);

/* Note on the disk that it has seen this round of the array's writing, so that an
 * old copy of the disk can be recognised.  GO: that is durable.  WAIT: do actions,
 * and ask again.  Called while a request of the pass is under way.
 */
enum member_verdict member_round (struct member *m,
                                  const struct member_pass *pass,
                                  uint64_t round,
                                  struct member_refusal *refusal);

/* Which round has the disk noted, durably?  GO: *round says it, and no copy of the disk
 * that was made before the first call has a later one.  WAIT: do actions, and ask
 * again; *round is UINT64_MAX at first, and the engine's own from then on.  Called
 * while a request of the pass is under way.
 */
enum member_verdict member_noted (struct member *m,
                                  const struct member_pass *pass,
                                  uint64_t *round,
                                  struct member_refusal *refusal);

/* ---- What weftd wants ---- */

struct member_desire {
  uint64_t generation;
  uint8_t cluster[16];
  uint8_t release[16]; /* the array to forget; zero: none */
  uint64_t min_epoch;
  bool assigned; /* the disk has a place in an array: the fields below count */
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
                          this member its writes; 0: not every one does yet */
  /* joining without a writer: the round that the disk notes when all is copied;
   * 0: none
   */
  uint64_t join_round;
};

/* Do what weftd wants.  Epochs below a raised min_epoch are refused from now on;
 * the new min_epoch is confirmed when requests of older epochs have left and it is
 * durable.  Returns false, having changed nothing, with a sentence in why, when
 * the desire is not to be obeyed: it is of an older generation, of another array,
 * of another cluster (and the member has a place in an array), or makes no sense.
 */
bool member_desire (struct member *m, const struct member_desire *d, char *why,
                    size_t why_size);
/* Fill in the place in the array as the superblock has it: weftd has said that
 * nothing of it has changed.
 */
void member_desire_place (struct member_desire *d, const struct superblock *sb);

/* ---- Sessions that are over ----
 *
 * weftd names them, each with a number that grows; their passes are shut, and their
 * tokens open no door any more.  Nothing of that is stored: a token opens one life of
 * a member only.  Session 0 stands for all: no door opens for a token of this epoch or
 * an older one, and what is open stays so.
 */
struct member_over {
  uint64_t number, session;
  uint64_t epoch; /* of its newest tokens */
};

/* Take in weftd's list of sessions that are over; it may repeat entries.  The
 * list only grows, so that an older weftd takes nothing back; entries that are
 * no longer needed are dropped.
 */
void member_shut (struct member *m, const struct member_over *over,
                  unsigned count);
/* All sessions up to this number are closed, and nothing of them runs. */
uint64_t member_over_done (const struct member *m);

/* ---- For others that join (member-source.c) ----
 *
 * The token of a joining member names its place in the array.  That member reads here
 * what has a copy at that place, by the layout, and nothing else; and only while this
 * member hears weftd, which says when the joining is over.
 */
bool member_pass_joins (const struct member_pass *pass); /* [any thread] */
/* May this pass read what lies at `offset`?  The answer holds for *length bytes, which is
 * lowered where needed.  [any thread]
 */
bool member_pass_reads (const struct member_pass *pass, uint64_t offset,
                        uint64_t *length);
/* Clear what this pass is not to see in bytes of member_map_read.  [any thread] */
void member_pass_mask (const struct member_pass *pass, uint64_t offset,
                       size_t bytes, uint8_t *map);
/* weftd has answered what it was asked at this time.  [any thread] */
void member_heard (struct member *m, uint64_t asked_ms);

/* ---- Joining (member-join.c; docs/DESIGN.md 8.1) ----
 *
 * The to-do list is the intent map.  An extent that is not copied yet has its
 * bit set on the disk, and no session holds that bit; it is cleared when the extent was
 * copied and is stable on both source and target.  After a restart every extent with a bit
 * is copied again.
 *
 *   WAITING    for desire.join_epoch, and until requests that were admitted before
 *              the joining began have left.  Every write is dropped, and its extent
 *              is put on the list.
 *   GATHERING  the caller reads the peers' intent maps, and hands their union,
 *              in our own extents, to member_join_gathered.  Writes are still
 *              dropped and put on the list, until all its bits are durable.
 *   COPYING    member_join_next, copy, member_join_copied; from time to time
 *              member_join_mark, flush the peers and the disk, then
 *              member_join_stable.  A write to an extent that is on the list is
 *              dropped; a write to an extent that is being copied waits; any other
 *              is carried out.
 *   SYNCED     the list is empty, and all copied data is stable.
 *
 * A raised min_epoch, or a new join_epoch, begins a new run at WAITING: sessions
 * have changed, and a dead one's writes may be missing here.  Data is read only in SYNCED.
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
/* The join_epoch that the joining works for; 0: none. */
uint64_t member_join_epoch (const struct member *m);
/* The number of the run: it grows whenever the joining begins again.  The calls
 * below take the run in which their work was begun, and do nothing if that is
 * not the present one any more (an extent is given back anyway).
 */
uint64_t member_join_run (const struct member *m);

void member_join_gathered (struct member *m, uint64_t run,
                           const struct intents *peers);

/* Where there are three copies of the data: the peers' bits as they are now.  This
 * member keeps its own bit wherever a peer has one.
 */
void member_join_unequal (struct member *m, uint64_t run,
                          const struct intents *peers);

/* Take an extent to copy, to which no write runs; false: there is none just now.
 * It is given back by member_join_copied exactly once, whatever happens meanwhile,
 * and the copying writes nothing to it after that.  No fence is confirmed before
 * that: so when the run has grown, or the phase is not COPYING any more,
 * an extent whose source is still being read is given back at once.
 * After false, writes may be held for the extent that comes next: the caller
 * asks again whenever it is woken, or calls member_join_rest when it wants none
 * for a while (it is paused, or has no source).
 */
bool member_join_next (struct member *m, uint64_t run, uint64_t *extent);
/* Hold no write for the extent that comes next.  True: wake those that were held.
 */
bool member_join_rest (struct member *m);
/* ok: the whole extent was written.  Otherwise it must be copied again. */
void member_join_copied (struct member *m, uint64_t run, uint64_t extent,
                         bool ok);

/* Set a mark.  When the sources and this disk were flushed after it,
 * member_join_stable says that what was copied before the mark is stable; with an
 * older mark than the newest it does nothing.
 * Of three copies, what we have copied may be a write that the third copy never
 * gets: its writer is gone, and the source may be, soon.  So where there are three
 * copies the caller calls member_join_unequal before member_join_stable.
 */
uint64_t member_join_mark (struct member *m);
void member_join_stable (struct member *m, uint64_t run, uint64_t mark);
/* A source may have lost data that we have read from it, because it was started
 * again before it was flushed: unstable copies must be made again.
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
 * The answer holds for *length bytes, which is lowered where needed.
 * False: the part is dropped, for the copying will bring it.  [any thread]
 */
bool member_applies (const struct member *m, const struct member_request *r,
                     uint64_t offset, uint64_t *length);

/* ---- Bad blocks (member-bad.c, bad.h) ----
 *
 * Before a read the caller looks at the list, and answers EIO where a block is bad.
 * After a write to a bad block the caller flushes the data, calls member_bad_good,
 * and does not answer before member_bad_settled.
 */

/* The disk's list as it was read; `mend` is bad_decode's.  Called once, after
 * member_new; otherwise the list is empty.
 */
void member_bad_begin (struct member *m, const struct bad_list *list,
                       bool mend);
const struct bad_list *member_bad (const struct member *m);
bool member_bad_any (const struct member *m); /* [any thread] */
/* Is every change of the list durable? */
bool member_bad_settled (const struct member *m);
/* The same, of a request that is not to be answered before. */
enum member_verdict member_bad_settle (const struct member *m,
                                       struct member_refusal *refusal);

/* As bad_add and bad_good.  While the member is joining, they are called for an
 * extent that is being copied, before it is given back.  False: the list is full.
 */
bool member_bad_add (struct member *m, uint64_t offset, uint64_t length,
                     enum bad_reason reason);
void member_bad_good (struct member *m, uint64_t offset, uint64_t length);

/* This block can't be read, and a request writes a part of it (BAD_WRITE). GO:
 * the bad range is durable, so the rest of the block may be overwritten.  WAIT:
 * do actions, and ask again.  Called while a request is under way.
 */
enum member_verdict member_bad_part (struct member *m, uint64_t offset,
                                     struct member_refusal *refusal);

/* A session says that no copy of this range can be read (BATCH_BAD).  REFUSE, or
 * GO: then the session is answered after member_bad_settled.
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

/* Take the next action that something waits for; with `lazy` also one that nothing
 * waits for (it clears intent bits).  False: there is none.  Several may be under
 * way; each is given back by member_action_done exactly once, `error` 0 or an
 * errno.  An error fails the member, and so does a superblock or a list of which no
 * other writing can be counted; a failed member has no actions.
 */
bool member_next_action (struct member *m, bool lazy, struct member_action *a);
void member_action_done (struct member *m, const struct member_action *a,
                         int error);
/* Instead: the disk has refused it for the moment, so that no byte of it is
 * stable.  One of the next actions writes the same place again, after a while.
 * Requests that wait for header writes are refused with ENOSPC or ENOMEM
 * meanwhile.
 */
void member_action_refused (struct member *m, const struct member_action *a,
                            int error);

/* Asserts every invariant of the engine; for tests. */
void member_check (const struct member *m);

#endif /* WEFT_MEMBER_H */
