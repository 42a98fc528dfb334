/* cluster-internal.h: what the files of the cluster engine share.
 *
 * One call of the engine: cluster_begin, then what is said is taken in: changes to
 * the objects, each followed by cluster_put_* (the record is copied as it then is)
 * and by outputs, and cluster_due for the arrays about which something has changed;
 * then cluster_end, which does what is due (cluster-settle.c) and queues the step.
 * A record that changes twice in a step is stored as it is last.
 */

#ifndef WEFT_CLUSTER_INTERNAL_H
#define WEFT_CLUSTER_INTERNAL_H

#include "cluster.h"

/* Another process asks for a disk's place: it gets it when the one that we know
 * has not been heard for so long.  (Every live one is asked to speak at once.)
 */
#define TAKEOVER_MS 1500
/* An attach waits so long for members to confirm. */
#define ATTACH_MS 10000
/* Whoever has lost a member waits so long for it to be out. */
#define LOST_MS 5000
/* A member that is missing may just be starting; after so long it is left out
 * of an attach, or of a change that waits for it.
 */
#define MISSING_MS 10000
/* A member is fenced and given back to a writer that has lost it at once; to one
 * that loses it again and again, less and less often.
 */
#define RECONNECT_MS_MIN 1000
#define RECONNECT_MS_MAX 10000
#define RECONNECT_CALM_MS 30000
/* A long poll is held no longer, so that a dead peer is missed in time. */
#define HOLD_MS_MAX REST_MS
/* A holder that says nothing for so long, when it is asked, may be dead. */
#define CHALLENGE_MS 1500
/* And so may one that has missed two heartbeats. */
#define QUIET_MS (2 * HEARTBEAT_MS)
/* A silent reader is forgotten after this, in ms. */
#define READER_DROP_MS (10 * 60 * 1000)
#define ENDED_SESSIONS_MAX 128
#define DISKS_MAX 4096
#define ARRAYS_MAX 1024
#define SESSIONS_MAX 4096
#define NODES_MAX 4096
#define FOREIGNS_MAX 256
/* How far a disk's superblock is, or an array's rounds, is stored so often at most. */
#define SEQUENCE_MS 10000

enum waiting_kind {
  WAIT_DISK,      /* a disk's long poll */
  WAIT_CONTENDER, /* a heartbeat of another instance for a disk */
  WAIT_SESSION,   /* a session's long poll */
  WAIT_ATTACH,    /* for the members of `array` to confirm its change */
  WAIT_HOLDER,    /* an attach: for the holder, `session`, to speak */
  WAIT_LOST,      /* a report of `session`: for `member` to be out */
  WAIT_KINDS
};

/* An attach that is to be tried again. */
struct challenge {
  struct cluster_input in;
  struct cluster_attach attach;
};

struct waiting {
  TAILQ_ENTRY (waiting) link;
  enum waiting_kind kind;
  uint64_t op;
  uint64_t deadline_ms;
  struct cluster_disk *disk;
  struct cluster_array *array;
  struct cluster_session *session;
  unsigned member;                      /* WAIT_LOST */
  struct cluster_session_record *grant; /* WAIT_ATTACH: what is to be granted;
                                           owned */
  struct cluster_disk_heartbeat *heartbeat; /* WAIT_CONTENDER; owned */
  struct challenge *challenge;              /* WAIT_HOLDER; owned */
};
TAILQ_HEAD (waitings, waiting);

/* What is to be looked at when an input has been taken in (cluster-settle.c). */
enum due {
  DUE_CHANGE = 1,  /* is anything still missing for the change under way? */
  DUE_TIME = 2,    /* has it waited for too long? */
  DUE_MEMBERS = 4, /* does a member go out, come back, or move? */
};

struct cluster {
  struct cluster_identity identity;
  bool has_identity, started;
  char read_only[512]; /* "": no */
  struct cluster_disks disks;
  void *disks_by_uuid; /* a tree (tsearch) of pointers to their UUIDs */
  struct cluster_arrays arrays;
  struct cluster_sessions sessions;
  struct cluster_nodes nodes;
  struct cluster_foreigns foreigns;
  struct waitings waitings;
  unsigned waiting[WAIT_KINDS]; /* how many of them there are of each kind */
  struct cluster_jobs ended;    /* the newest first */
  STAILQ_HEAD (, cluster_step) steps;

  bool due;                  /* of some array */
  struct cluster_step *step; /* being made */
  size_t records_room, outputs_room;
  uint64_t now_ms, wall_ms;
  uint64_t live_ms; /* the clock of silence: weftd's own pauses do not count */
};

/* The files stand here from the ground up: each calls those above it in this list
 * alone.
 */

/* ---- Foundations. ---- */

/* cluster-objects.c */
void *cluster_alloc (size_t size); /* zeroed; never NULL: aborts */
bool cluster_uuid_is_zero (const uint8_t uuid[16]);
bool cluster_uuid_equal (const uint8_t a[16], const uint8_t b[16]);
void cluster_uuid_make (const uint8_t random[16], uint8_t uuid[16]);
bool cluster_text_copy (char *to, size_t size, const char *from); /* changed? */
/* Into the engine, and out of it. */
void cluster_disk_insert (struct cluster *c, struct cluster_disk *d);
void cluster_disk_free (struct cluster *c, struct cluster_disk *d);
/* It only stands for a member that an import did not find. */
bool cluster_disk_is_name (const struct cluster_disk *d);
struct cluster_array *cluster_array_by_uuid (const struct cluster *c,
                                             const uint8_t uuid[16]);
/* The epoch that members are to know: a PREPARED one is never taken back. */
uint64_t cluster_array_wanted_epoch (const struct cluster_array *a);
/* The node of this disk is in maintenance; is being drained. */
bool cluster_node_in_maintenance (const struct cluster *c, const char *name);
bool cluster_node_is_draining (const struct cluster *c, const char *name);
struct waiting *cluster_wait (struct cluster *c, enum waiting_kind kind,
                              uint64_t op, uint64_t wait_ms);
void cluster_wait_end (struct cluster *c, struct waiting *w);
void cluster_due (struct cluster *c, struct cluster_array *a, unsigned what);

/* cluster-step.c */
void cluster_begin (struct cluster *c, const struct cluster_input *in);
void cluster_step_end (struct cluster *c);

void cluster_put_identity (struct cluster *c);
void cluster_put_disk (struct cluster *c, const struct cluster_disk *d);
void cluster_put_array (struct cluster *c, const struct cluster_array *a);
void cluster_put_session (struct cluster *c, const struct cluster_session *s);
void cluster_put_node (struct cluster *c, const struct cluster_node *n);
void cluster_put_job (struct cluster *c, const struct cluster_job *job);
void cluster_drop_disk (struct cluster *c, struct cluster_disk *d);
void cluster_drop_array (struct cluster *c, struct cluster_array *a);
void cluster_drop_session (struct cluster *c, struct cluster_session *s);
void cluster_drop_job (struct cluster *c, struct cluster_job *job);
/* n: its record; NULL: it has none.  Told of in any case. */
void cluster_drop_node (struct cluster *c, struct cluster_node *n,
                        const char *name);

void cluster_changed_disk (struct cluster *c, const struct cluster_disk *d);
void cluster_changed_array (struct cluster *c, const struct cluster_array *a);
void cluster_changed_session (struct cluster *c,
                              const struct cluster_session *s);
void cluster_changed_node (struct cluster *c, const struct cluster_node *n);
void cluster_log (struct cluster *c, enum cluster_severity severity,
                  const char *what, const char *name, const char *fmt, ...)
  __attribute__ ((format (printf, 5, 6)));

void cluster_reply_disk (struct cluster *c, uint64_t op,
                         const struct cluster_disk *d);
void cluster_reply_array (struct cluster *c, uint64_t op,
                          const struct cluster_array *a);
void cluster_reply_session (struct cluster *c, uint64_t op,
                            enum cluster_reply_kind kind,
                            const struct cluster_array *a,
                            const struct cluster_session *s);
void cluster_reply_node (struct cluster *c, uint64_t op,
                         enum cluster_reply_kind kind,
                         const struct cluster_node *n);
void cluster_reply_done (struct cluster *c, uint64_t op,
                         enum cluster_object object, const uint8_t uuid[16],
                         uint64_t id, const char *name);
/* The problem is for the caller to complete, before the next call of these. */
struct cluster_problem *cluster_refuse (struct cluster *c, uint64_t op,
                                        enum cluster_problem_kind kind,
                                        const char *code, const char *fmt, ...)
  __attribute__ ((format (printf, 5, 6)));
/* It is for now only: asking again after so long may help. */
void cluster_retry (struct cluster_problem *p, uint64_t after_ms);
void cluster_problem_set (struct cluster_problem *p,
                          enum cluster_problem_kind kind, const char *code,
                          const char *fmt, ...)
  __attribute__ ((format (printf, 4, 5)));
void cluster_problem_send (struct cluster *c, uint64_t op,
                           const struct cluster_problem *p);
/* Refuse, if weftd takes no changes.  True: refused. */
bool cluster_refuse_read_only (struct cluster *c, uint64_t op);
void cluster_set_read_only (struct cluster *c, const char *fmt, ...)
  __attribute__ ((format (printf, 2, 3)));

/* cluster-words.c */
#define CLUSTER_UUID_TEXT_BYTES 37
void cluster_uuid_text (const uint8_t uuid[16],
                        char text[CLUSTER_UUID_TEXT_BYTES]);
/* "12.5 GiB" */
const char *cluster_bytes_words (uint64_t bytes, char *text, size_t size);
/* What people call a disk: "disk /dev/sdb of node n1". */
const char *cluster_disk_words (const struct cluster_disk *d, char *text,
                                size_t size);
/* There is no such disk: says so. */
void cluster_disk_unknown (const uint8_t uuid[16], struct cluster_problem *p);

/* ---- What is so: nothing of this changes anything but records of what was
 * heard.
 */

/* cluster-copies.c */
/* Its disk serves nothing just now. */
bool cluster_disk_away (const struct cluster_disk *d);
/* Has it said, since weftd was started and in its present life, that it has all
 * that it is to have in-sync?
 */
bool cluster_member_synced (const struct cluster_array *a, unsigned member);
/* Has a member that is to refuse old epochs said so? */
bool cluster_member_fenced (const struct cluster_array *a, unsigned member);
/* Members of no use now: not in-sync (out[]), or that and away (gone[]). */
void cluster_array_missing (const struct cluster_array *a, bool out[],
                            bool gone[]);
/* How many bytes more than now would have no copy, or fewer than they should,
 * were these members gone, and those of nodes in maintenance?  Either may be
 * NULL.
 */
void cluster_array_without (const struct cluster *c,
                            const struct cluster_array *a, const bool which[],
                            uint64_t *exposed, uint64_t *unreachable);
/* What becomes of the states when this member goes out: joining members of its
 * group go as well where they may have copied from it.
 */
void cluster_array_leave_out (const struct cluster_array *a, unsigned member,
                              uint8_t states[]);
/* Must sessions be prepared before these states are the array's? */
bool cluster_array_concerns_sessions (const struct cluster_array *a,
                                      const uint8_t states[]);
/* Has every byte a copy in these states that has one now?  One that stays, and is
 * old or has failed, is none; nor is one that is not yet in-sync.
 */
bool cluster_array_keeps (const struct cluster_array *a,
                          const uint8_t states[]);
/* Without this member? */
bool cluster_array_can_leave_out (const struct cluster_array *a,
                                  unsigned member);
/* Is there one who writes, and may some data have fewer copies than it should?
 * Then what he has acknowledged may not be where a reader would look for it.
 */
bool cluster_array_behind (const struct cluster *c,
                           const struct cluster_array *a);

/* cluster-life.c */
/* Whoever writes is to know of the process that serves the disk now. */
void cluster_life_meet (struct cluster *c, struct cluster_disk *d);
/* Has it all that he was answered for, as far as is known? */
bool cluster_life_kept (const struct cluster_disk *d);
/* He does not yet: another one serves it than the one to which he may be sending.
 * (Where nobody writes, that is so until a change of epoch ends, at most.)
 */
bool cluster_life_unmet (const struct cluster_disk *d);
/* Somebody writes to it who knows of the process that was: of its next one he is
 * told by a change of epoch only.
 */
bool cluster_life_known (const struct cluster *c, const struct cluster_disk *d);
/* An in-sync member whose process was started again while somebody wrote, and
 * that was not given back to that one: what it had not flushed may be gone, so
 * nobody else is to read it.
 */
bool cluster_life_reborn (const struct cluster *c,
                          const struct cluster_array *a, unsigned member);

/* cluster-key.c */
/* Tokens of a new epoch are given out to everybody. */
void cluster_key_minted (const struct cluster *c, struct cluster_array *a);
/* Does an in-sync member take no tokens of the array's epoch any more, or none of
 * those that there are?
 */
bool cluster_key_too_low (const struct cluster *c,
                          const struct cluster_array *a);

/* cluster-old.c */
/* Somebody who is to know says that a round of its writing has been begun. */
void cluster_array_heard_round (struct cluster *c, struct cluster_array *a,
                                uint64_t round);
/* Has its disk missed more rounds than a member can? */
bool cluster_old_behind (const struct cluster_disk *d, uint64_t round);
/* Is this what a member's disk was once (or nothing of it), in a process that was
 * not taken in yet?  It has not heard, or not written, what the disk has.
 */
bool cluster_old_copy (const struct cluster_disk *d,
                       const struct cluster_disk_heartbeat *hb);
/* Nobody can say how far the array was before all have spoken: find old copies that
 * were taken in before.  True: there was one, and its process is unknown again.
 * all: also of members that confirm nothing in the change under way.
 */
bool cluster_old_judge (struct cluster *c, struct cluster_array *a, bool all);
/* The disk of this member, which is out, is not its own old self: it is to forget
 * the array, and is rebuilt in full.
 */
void cluster_old_reset (struct cluster *c, struct cluster_array *a,
                        unsigned member);
/* What there is to do about the last copy's. */
#define OLD_COPY_WAY                                                           \
  "put the right disk back; if that is gone for good, delete the array, or "   \
  "import it from its members as they are, into a weftd with a new database"

/* cluster-change.c */
/* Each has a row in the table there. */
enum change_kind {
  CHANGE_WRITER,
  CHANGE_END,
  CHANGE_READER,
  CHANGE_LOST_ALONE,
  CHANGE_LOST,
  CHANGE_PUT_OUT,
  CHANGE_JOINER_OUT,
  CHANGE_JOIN,
  CHANGE_IN_SYNC,
  CHANGE_BACK,
  CHANGE_INSTEAD,
  CHANGE_CALLED_OFF,
  CHANGE_TOKENS,
  CHANGE_NUMBER,
};
/* PREPARED: a new epoch with these states; it replaces a change that is under
 * way.  Its number is above all that any member has seen.  which: the members that
 * are to confirm, where its row says that they are named; NULL: none.
 */
void cluster_change_prepare (struct cluster *c, struct cluster_array *a,
                             enum change_kind kind, const uint8_t states[],
                             const bool which[]);
/* One in which members go out that no session has lost. */
void cluster_change_put_out (struct cluster *c, struct cluster_array *a,
                             const uint8_t states[]);
/* One in which all members stay what they are. */
void cluster_change_stay (struct cluster *c, struct cluster_array *a,
                          enum change_kind kind, const bool which[]);
/* Do these states, next, take all sessions to be prepared?  `except`: but one
 * that asks for them, and gets them at once if nobody else minds; NULL: none.
 */
bool cluster_change_needs_sessions (const struct cluster *c,
                                    const struct cluster_array *a,
                                    const uint8_t states[],
                                    const struct cluster_session *except);
/* Could the writer not prepare itself for these states, for it has lost a member
 * that stays?
 */
bool cluster_change_stalls (const struct cluster *c,
                            const struct cluster_array *a,
                            const uint8_t states[]);
/* Would these states leave some data without a copy?  What is not yet in-sync
 * does not count.
 */
bool cluster_change_loses (const struct cluster_array *a,
                           const uint8_t states[]);
/* The states of the change that is under way, or the array's. */
void cluster_change_states (const struct cluster_array *a, uint8_t states[]);
/* Does the change under way wait for this member: to confirm, or to say that it has
 * all that it is to have in-sync?  For this session to prepare itself?
 */
bool cluster_change_waits_for (const struct cluster_array *a, unsigned member);
bool cluster_change_waits_for_session (const struct cluster_array *a,
                                       const struct cluster_session *s);

/* cluster-join.c */
/* Whoever writes sends the member every write. */
bool cluster_join_sends (const struct cluster *c, const struct cluster_array *a,
                         unsigned member);
/* The round that it is to have at the end; 0: whoever writes says it. */
uint64_t cluster_join_round (const struct cluster *c,
                             const struct cluster_array *a);

/* cluster-waits.c */
/* What the writer waits for before a member that it has lost is given back to
 * it; false: nothing.
 */
bool cluster_lost_words (const struct cluster *c, const struct cluster_array *a,
                         char *text, size_t size);

/* cluster-pace.c */
/* How fast an array's rebuild goes beside clients (automatic mode), decided
 * once a second.  ops and us: requests a second, and their mean latency, in the
 * last report; actual: bytes a second that the rebuild does.  Returns the rate
 * for the next second; 0: as fast as it can.
 */
uint64_t cluster_pace (struct cluster_pace *p, double ops, double us,
                       uint64_t actual, uint64_t floor, uint64_t ceiling);

/* cluster-eta.c */
/* What a member says of its joining. */
void cluster_eta_note (struct cluster_eta *e, uint64_t live_ms,
                       const struct cluster_join *join);
/* Bytes a second by which what is to do for this member gets less; 0: that is
 * not known (yet), or it does not go on.
 */
double cluster_eta_rate (const struct cluster *c, const struct cluster_array *a,
                         unsigned member);

/* ---- What is done: changes of epoch are PREPARED here, not COMMITted. ---- */

/* cluster-tell.c */
/* Answer its long poll.  True: there was one. */
bool cluster_disk_wake (struct cluster *c, struct cluster_disk *d);
/* Reply to a session's heartbeat or report. */
void cluster_session_tell (struct cluster *c, uint64_t op,
                           const struct cluster_array *a,
                           struct cluster_session *s);
/* Answer its long poll. */
void cluster_session_answer (struct cluster *c, struct waiting *w);
/* Answer long polls: where there is news, or (at_once) anyway. */
void cluster_tell_disk (struct cluster *c, struct cluster_disk *d,
                        bool at_once);
void cluster_tell_session (struct cluster *c, struct cluster_session *s,
                           bool at_once);
/* Of all its disks and sessions. */
void cluster_tell_array (struct cluster *c, const struct cluster_array *a);
void cluster_tell_changing (struct cluster *c, uint64_t op,
                            const struct cluster_array *a);
void cluster_session_grant (struct cluster *c, uint64_t op,
                            const struct cluster_array *a,
                            const struct cluster_session_record *rec);
/* A report has led to what it can for now: answer it. */
void cluster_session_lost_end (struct cluster *c, struct waiting *w);
/* The array's change of epoch is COMMITted: grant what waited for it.  prepared:
 * all sessions were for it.
 */
void cluster_session_committed (struct cluster *c, struct cluster_array *a,
                                bool prepared);

/* cluster-place.c */
/* Could it be given a place?  Heard, well, and released; else says why not. */
bool cluster_disk_usable (const struct cluster *c, const struct cluster_disk *d,
                          struct cluster_problem *p);
void cluster_array_link (struct cluster *c, struct cluster_array *a);
/* The disk of this member is no member any more, and is to forget the array. */
void cluster_array_unlink (struct cluster *c, struct cluster_array *a,
                           unsigned member);
/* The place of this member, which is out, is now that disk's. */
void cluster_member_give (struct cluster *c, struct cluster_array *a,
                          unsigned member, struct cluster_disk *d);
/* It is out, or will be when the change that is under way is done: that one goes
 * on without it.
 */
void cluster_member_put_out (struct cluster *c, struct cluster_array *a,
                             unsigned member, const char *reason);

/* cluster-rebuild.c */
/* Rules of cluster-settle.c; true: something was done. */
bool cluster_rebuild_leave_out (struct cluster *c, struct cluster_array *a);
bool cluster_rebuild_notice (struct cluster *c, struct cluster_array *a);
bool cluster_rebuild_renew (struct cluster *c, struct cluster_array *a);
bool cluster_rebuild_finish (struct cluster *c, struct cluster_array *a);
bool cluster_rebuild_take_back (struct cluster *c, struct cluster_array *a);
/* Once a second: how fast those who join copy. */
void cluster_rebuild_pace (struct cluster *c, struct cluster_array *a);
/* The writer, if there is one, can take part in a change; if there is none,
 * members have all been fenced against the last one.
 */
bool cluster_rebuild_writer_well (const struct cluster *c,
                                  const struct cluster_array *a);
/* For COMMIT: this member is now out, and was not before (its record still says
 * what it was, and since when).
 */
void cluster_rebuild_out (struct cluster *c, struct cluster_array *a,
                          unsigned member);
/* And this one is joining. */
void cluster_rebuild_begin (struct cluster *c, struct cluster_array *a,
                            unsigned member);
/* When this member, which is out, has been away for as long as its array allows;
 * 0: it is not away, or may be so for ever.
 */
uint64_t cluster_rebuild_gone_wall_ms (const struct cluster *c,
                                       const struct cluster_array *a,
                                       unsigned member);

/* cluster-drain.c */
/* A rule of cluster-settle.c: members move away from nodes that are drained, a step
 * at a time.
 */
bool cluster_drain_move (struct cluster *c, struct cluster_array *a);
/* This member is in-sync (its record says so): its move is over. */
void cluster_drain_arrived (struct cluster *c, struct cluster_member *member);
/* The disk that this member moves to, if not one of these (NULL ends them);
 * NULL: none, and what is waited for.
 */
struct cluster_disk *cluster_drain_pick (
  const struct cluster *c, const struct cluster_array *a, unsigned member,
  const struct cluster_disk *const promised[], char *why, size_t why_size);
/* Bytes that are still to move away from the node, how many a second, and how
 * long that will take (0: not known).
 */
uint64_t cluster_drain_bytes (const struct cluster *c, const char *node);
uint64_t cluster_drain_rate (const struct cluster *c, const char *node);
uint64_t cluster_drain_eta_ms (const struct cluster *c, const char *node);

/* cluster-jobs.c */
/* A member's state changes from joining to this one; an array is made. */
void cluster_job_rebuilt (struct cluster *c, const struct cluster_array *a,
                          unsigned member, enum member_state state);
void cluster_job_created (struct cluster *c, const struct cluster_array *a);
/* A stored one, before the start; at the start: those of long ago go. */
void cluster_job_load (struct cluster *c, const struct cluster_job *job);
void cluster_jobs_prune (struct cluster *c);

/* ---- What is due: COMMIT, and the pump. ---- */

/* cluster-epoch.c */
/* COMMIT the change of epoch that is under way, if nothing is missing. */
void cluster_epoch_advance (struct cluster *c, struct cluster_array *a);
/* A change that waits for members who are gone does without them; a member that
 * a session had lost, and that is back, is fenced and given to it again; tokens
 * that a member takes no more are replaced.  True: something was done.
 */
bool cluster_epoch_tick (struct cluster *c, struct cluster_array *a);

/* cluster-settle.c */
/* Do what is due, until nothing is. */
void cluster_settle (struct cluster *c);
/* The same, and queue the step. */
void cluster_end (struct cluster *c);
/* A member took its place, came, went or changed: see what follows. */
void cluster_moved (struct cluster *c, struct cluster_array *a);

/* ---- Inputs. ---- */

/* cluster-end.c */
void cluster_session_end (struct cluster *c, struct cluster_session *s,
                          const char *fmt, ...)
  __attribute__ ((format (printf, 3, 4)));
/* The same, when it detaches (by NULL) or is evicted, and what follows from it. */
void cluster_session_cut (struct cluster *c, struct cluster_session *s,
                          const char *by);
/* Of those that ended, the oldest go. */
void cluster_session_prune (struct cluster *c);
void cluster_session_tick (struct cluster *c, struct cluster_session *s);
/* The session with this number, if it is not over; else refuses. */
struct cluster_session *
cluster_session_find_or_refuse (struct cluster *c, uint64_t op, uint64_t id);
/* There is no such session: refuses. */
bool cluster_session_end_refused (struct cluster *c, uint64_t op, uint64_t id);

/* cluster-import.c */
/* Keep what a disk that is not ours says of itself. */
void cluster_import_note (struct cluster *c,
                          const struct cluster_disk_heartbeat *hb);
/* Drop what was said long ago. */
void cluster_import_tick (struct cluster *c);
/* Does this disk, which says that it is a member of the array, say the same of the
 * array as those that it was imported from?
 */
bool cluster_import_agrees (const struct cluster *c,
                            const struct cluster_array *a,
                            const struct cluster_disk_heartbeat *hb);
/* A member that an import did not find has asked, and is new here: it gets its
 * place.
 */
void cluster_import_return (struct cluster *c, struct cluster_disk *d,
                            const struct cluster_disk_heartbeat *hb);

/* cluster-admit.c */
/* Is this heartbeat to be taken in?  d: the disk that it names; NULL: unknown.
 * False: it was refused, or waits until the process that is known has spoken.
 */
bool cluster_admit (struct cluster *c, uint64_t op, struct cluster_disk *d,
                    const struct cluster_disk_heartbeat *hb);
/* The known process has spoken: the others are refused. */
void cluster_admit_others (struct cluster *c, struct cluster_disk *d);

/* cluster-disk.c */
void cluster_disk_take_over (struct cluster *c, struct waiting *w);
void cluster_disk_tick (struct cluster *c, struct cluster_disk *d);

/* cluster-disk-orders.c */
/* It can't be forgotten: refuses, and answers true. */
bool cluster_disk_forget_refused (struct cluster *c, uint64_t op,
                                  const uint8_t uuid[16]);
/* Forget it. */
void cluster_disk_remove (struct cluster *c, struct cluster_disk *d);

/* cluster-array.c */
/* Can't it be made, or deleted?  Then refuses.  plan: cluster_array_plan's. */
bool cluster_array_create_refused (struct cluster *c, uint64_t op,
                                   const struct cluster_create *create,
                                   struct cluster_array *plan);
bool cluster_array_loss_refused (struct cluster *c, uint64_t op,
                                 const char *name,
                                 const struct cluster_loss *loss);
bool cluster_array_delete_refused (struct cluster *c, uint64_t op,
                                   const char *name);

/* cluster-attach.c */
/* The members have not confirmed in time. */
void cluster_session_attach_late (struct cluster *c, struct waiting *w);
/* The holder has said nothing, or is over. */
void cluster_session_unchallenged (struct cluster *c, struct waiting *w);
/* A reader that was passed over when a member went out, and says that it knows this
 * epoch, is to hear of no later one before the writer has prepared itself: refuses.
 */
bool cluster_session_refuse_late (struct cluster *c, uint64_t op,
                                  struct cluster_array *a,
                                  struct cluster_session *s, uint64_t epoch);
/* The holder has spoken. */
void cluster_session_refuse_challengers (struct cluster *c,
                                         struct cluster_session *holder);

/* cluster-member.c */
/* What an administrator asks for can't be done: refuses. */
bool cluster_member_replace_refused (struct cluster *c, uint64_t op,
                                     const char *array, unsigned member,
                                     const uint8_t disk[16]);
bool cluster_member_cancel_refused (struct cluster *c, uint64_t op,
                                    const char *array, unsigned member);

/* cluster-node.c */
/* Can't it be put in maintenance, drained, removed?  Then refuses. */
bool cluster_node_maintain_refused (struct cluster *c, uint64_t op,
                                    const char *name, bool on, bool force);
bool cluster_node_drain_refused (struct cluster *c, uint64_t op,
                                 const char *name);
bool cluster_node_remove_refused (struct cluster *c, uint64_t op,
                                  const char *name);

#endif /* WEFT_CLUSTER_INTERNAL_H */
