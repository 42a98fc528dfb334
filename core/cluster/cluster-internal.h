/* cluster-internal.h: what the files of the cluster engine share.
 *
 * Each input of the engine begins with cluster_begin and ends with cluster_end.  In
 * between, objects are changed; each change is followed by cluster_put_* (the
 * record is copied as it then is), by outputs, and by cluster_due for an array
 * about which something has changed.  cluster_end does what is due
 * (cluster-settle.c) and queues the step.  A record that changes twice in a step is
 * stored as it is last.
 */

#ifndef WEFT_CLUSTER_INTERNAL_H
#define WEFT_CLUSTER_INTERNAL_H

#include "base/alloc.h"
#include "base/spans.h"
#include "cluster.h"

/* When another process asks for a disk's place, the one that has it is asked to
 * speak at once; if it says nothing for so long, the other one gets the place.
 */
#define TAKEOVER_MS 1500
/* An attach waits so long for members to confirm, or to speak. */
#define ATTACH_MS 10000
/* A session's report of a lost member waits so long for the member to be out. */
#define LOST_MS 5000
/* A silent member may just be starting.  After so long it is left out of an attach,
 * and a change that waits for it goes on without it.
 */
#define MISSING_MS 10000
/* A lost member that can't be left out is fenced and given back to the writer: the
 * first time at once, and if the writer loses it again, after a wait that grows
 * from MIN to MAX; after CALM without a loss it is short again.
 */
#define RECONNECT_MS_MIN 1000
#define RECONNECT_MS_MAX 10000
#define RECONNECT_CALM_MS 30000
/* One of several that write, which has lost a member that others reach, has so long to
 * get it back.
 */
#define APART_MS 10000
/* A long poll is held no longer, so that a dead peer is missed in time. */
#define HOLD_MS_MAX REST_MS
/* A session that holds an array, is asked to speak and says nothing for so long may
 * be dead.
 */
#define CHALLENGE_MS 1500
/* So may one that has missed two heartbeats. */
#define QUIET_MS (2 * HEARTBEAT_MS)
/* Where nobody who writes, or stands by, was heard for so long, what they all lacked is
 * back.
 */
#define LULL_MS (SESSION_TTL_MS / 2)
/* A reader's session that has been silent for so long is ended. */
#define READER_DROP_MS (10 * 60 * 1000)
/* A process that asks to serve an array, while another does, is answered after so
 * long, and asks again; and whoever has not asked for so long does not stand by.
 */
#define SERVICE_WAIT_MS 2000
#define STANDBY_MS 5000
/* Where nobody serves, a candidate waits so long for one that is better placed. */
#define SERVICE_SETTLE_MS 2000
/* An order to move the service holds for so long. */
#define SERVICE_MOVE_MS 10000
/* A fence of a node waits so long for all to have confirmed it. */
#define FENCE_MS 20000
/* An order to shut a node out waits so long for members to have confirmed it. */
#define SHUT_OUT_MS 5000
/* A member that has not confirmed for so long that it refuses who was shut out or
 * evicted is named.
 */
#define UNCONFIRMED_MS 3000
#define ENDED_SESSIONS_MAX 128
#define DISKS_MAX 4096
#define NODE_DISKS_MAX 256 /* of these, of one node */
#define ARRAYS_MAX 1024
#define SESSIONS_MAX 4096
#define SESSION_BUCKETS 1024 /* lists by which they are found */
#define NODES_MAX 4096
#define FOREIGNS_MAX 256
/* A disk's sequence number and an array's round change all the time; each is stored
 * so often at most.
 */
#define SEQUENCE_MS 10000
/* What two nodes say within so long is said by both. */
#define DOUBT_MS 60000
/* A disk that was refused asks again every few seconds. */
#define FOREIGN_LIVE_MS 15000

enum waiting_kind {
  WAIT_DISK,      /* a disk's long poll */
  WAIT_CONTENDER, /* a heartbeat of another process that asks for a disk's place:
                     waits for the known one to speak, or to be silent */
  WAIT_SESSION,   /* a session's long poll */
  WAIT_ATTACH,    /* an attach: waits for members of `array` to confirm */
  WAIT_HOLDER,    /* an attach: waits for `session`, which holds it, to speak */
  WAIT_MEMBERS,   /* an attach: waits for members of `array` to speak */
  WAIT_SERVICE,   /* an attach: waits for its turn to serve `array` */
  WAIT_FENCE,     /* a fence of a node: waits for members and servers */
  WAIT_SHUT_OUT,  /* an order to shut a node out: waits for members */
  WAIT_LOST,      /* a report of `session`: waits for `member` to be out */
  WAIT_LEASES,    /* `session` asks for leases that it can't have yet */
  WAIT_KINDS
};

/* An attach that waits for the holder to speak, or to go, or for members to speak, and is
 * then tried again.  Of a fence, and of an order to shut out, attach.node is the node.
 */
struct challenge {
  struct cluster_input in;
  struct cluster_attach attach;
  uint64_t asked; /* the step in which members were, to speak; 0: not yet */
};

struct waiting {
  TAILQ_ENTRY (waiting) link;
  TAILQ_ENTRY (waiting) ask_link;  /* WAIT_LEASES: in its array's asks */
  TAILQ_ENTRY (waiting) poll_link; /* WAIT_SESSION: in its array's polls */
  TAILQ_ENTRY (waiting) session_link;
  enum waiting_kind kind;
  uint64_t op;
  uint64_t deadline_ms;
  struct cluster_disk *disk;
  struct cluster_array *array;
  struct cluster_session *session;
  unsigned member;                      /* WAIT_LOST */
  struct cluster_session_record *grant; /* WAIT_ATTACH: what is to be granted;
                                           owned */
  bool fences;                          /* WAIT_ATTACH: to write, where nobody
                                           does: all members confirm first */
  struct cluster_disk_heartbeat *heartbeat; /* WAIT_CONTENDER; owned */
  struct challenge *challenge; /* WAIT_HOLDER, WAIT_MEMBERS, WAIT_SERVICE,
                                  WAIT_FENCE, WAIT_SHUT_OUT; owned */
  struct cluster_lease_ask ask[LEASE_ASKS_MAX]; /* WAIT_LEASES */
  unsigned asks;
  unsigned
    asked_back; /* WAIT_LEASES: bit i: it is the turn of the i-th, and those
                          who have some of it are to give that back */
};
TAILQ_HEAD (waitings, waiting);

/* Owners of leases that are no sessions. */
#define LEASE_ORPHAN                                                           \
  UINT64_MAX /* one had it that has ended, and copies may differ */
#define LEASE_ORDERED (UINT64_MAX - 1) /* the same, and it is being recovered */

/* Where lessees meet: counted for regions that are hot, and for people. */
#define LEASE_REGIONS_MAX 4096
struct lease_meetings {
  struct lease_region {
    uint64_t number; /* from LEASE_REGION_BYTES times that on */
    unsigned heat;
  } region[LEASE_REGIONS_MAX]; /* ascending */
  unsigned regions;
  uint64_t cooled_ms;          /* when heat was halved last */
  uint64_t conflicts, revokes; /* all */
  struct lease_minute {
    uint64_t minute; /* since when weftd's clock began */
    unsigned conflicts[LEASE_CELLS], revokes[LEASE_CELLS];
  } minute[LEASE_MINUTES];
};

/* Who has leases of what, of an array that sessions share so.  It is in memory alone, and
 * goes with the last of them.
 */
struct cluster_leases {
  struct spans spans;   /* owners: sessions, LEASE_ORPHAN, LEASE_ORDERED */
  struct waitings asks; /* as they came */
  bool
    starting; /* weftd was, and not all have declared yet: nobody knows what is free */
  bool still; /* nothing is granted, for weftd does not know yet what is true */
  uint64_t order; /* to recover what is LEASE_ORDERED; 0: none is under way */
  struct cluster_session *recoverer; /* who has that order */
  struct lease_meetings met;
};

/* What is to be looked at, of an array, at the end of an input (cluster-settle.c).
 */
enum due {
  DUE_CHANGE = 1,  /* is anything still missing for the change under way? */
  DUE_TIME = 2,    /* has that change waited for too long? */
  DUE_MEMBERS = 4, /* does a member go out, come back, or move? */
  DUE_LEASES = 8,  /* can what is asked for be granted, or recovered? */
};

struct cluster {
  struct cluster_identity identity;
  bool has_identity, started;
  char read_only[512]; /* why weftd takes no changes; "": it takes them */
  char room
    [256]; /* that there is little room for its state; "": there is enough */
  struct cluster_disks disks;
  void *disks_by_uuid; /* a tree (tsearch) of pointers to their UUIDs */
  struct cluster_arrays arrays;
  struct cluster_sessions sessions;
  LIST_HEAD (, cluster_session) sessions_by_id[SESSION_BUCKETS];
  struct cluster_nodes nodes;
  struct cluster_foreigns foreigns;
  char doubt_node[NAME_BYTES_MAX + 1]; /* the last node that has said more than
                                          the database knows, ... */
  uint64_t doubt_live_ms;              /* ... and when */
  char doubt_claim
    [200]; /* what a disk that is not known has said so; "": none has */
  struct waitings waitings;
  unsigned waiting[WAIT_KINDS]; /* how many of them there are of each kind */
  struct cluster_jobs ended;    /* the newest first */
  STAILQ_HEAD (, cluster_step) steps;

  TAILQ_HEAD (, cluster_array) due;      /* of which something is */
  TAILQ_HEAD (, cluster_array) changing; /* whose epoch changes, or just has */
  bool hurry;                /* since the last tick: cluster_hurry */
  struct cluster_step *step; /* that is being made */
  size_t records_room, outputs_room;
  uint64_t now_ms, wall_ms;
  uint64_t live_ms; /* the clock of silence: weftd's own pauses do not count */
  uint64_t step_number; /* of the last step */
  uint64_t unsaid;      /* as of the last tick's input */
  uint32_t
    life; /* of weftd: what numbers begin with that must not come again */
  uint32_t over_count;  /* of those in cluster-over.c */
  uint32_t loss_count;  /* of orders to make zeroes of what is lost */
  uint32_t order_count; /* the same, of orders to recover */
};

static inline uint64_t
cluster_part_end (const struct cluster_part *p)
{
  return p->offset + p->length;
}

static inline struct cluster_part
cluster_part_of (uint64_t start, uint64_t end)
{
  return (struct cluster_part) { .offset = start, .length = end - start };
}

/* The files stand here from the ground up: each calls only those that stand before
 * it here.
 */

/* ---- Foundations. ---- */

/* cluster-objects.c */
bool cluster_uuid_is_zero (const uint8_t uuid[16]);
bool cluster_uuid_equal (const uint8_t a[16], const uint8_t b[16]);
void cluster_uuid_make (const uint8_t random[16], uint8_t uuid[16]);
bool cluster_text_copy (char *to, size_t size, const char *from); /* changed? */
/* By how much a counter grows in a second. */
double cluster_rate (uint64_t now, uint64_t before, uint64_t ms);
/* Put a disk into the engine's list; take it out, and free it. */
void cluster_disk_insert (struct cluster *c, struct cluster_disk *d);
void cluster_disk_free (struct cluster *c, struct cluster_disk *d);
/* Does the disk only stand for a member that an import did not find? */
bool cluster_disk_is_name (const struct cluster_disk *d);
/* Is it known to be on this node? */
bool cluster_disk_beside (const struct cluster_disk *d, const char *node);
void cluster_array_insert (struct cluster *c, struct cluster_array *a);
void cluster_array_free (struct cluster *c, struct cluster_array *a);
void cluster_session_insert (struct cluster *c, struct cluster_session *s);
/* It is a session of this array; if it has not ended, it is put into the array's list. */
void cluster_session_join (struct cluster_session *s, struct cluster_array *a);
/* It ends: take it out of that. */
void cluster_session_leave (struct cluster_session *s);
void cluster_session_free (struct cluster *c, struct cluster_session *s);
/* It has called, whatever it says. */
void cluster_session_speaks (const struct cluster *c,
                             struct cluster_session *s);
struct cluster_array *cluster_array_by_uuid (const struct cluster *c,
                                             const uint8_t uuid[16]);
/* Has this session the array?  Has any? */
bool cluster_session_of (const struct cluster_session *s,
                         const struct cluster_array *a);
bool cluster_array_attached (const struct cluster_array *a);
/* One that writes the array, or stands by to serve it, is heard; before that is noted. */
void cluster_array_heard (const struct cluster *c, struct cluster_array *a);
/* Has it been silent for its TTL, and has not weftd been cut off meanwhile? */
bool cluster_session_missed (const struct cluster *c,
                             const struct cluster_session *s);
/* A session that writes the array and is not silent, or NULL. */
struct cluster_session *cluster_writer_alive (const struct cluster_array *a);
/* The newest epoch: of the change under way, or else of the array.  A PREPARED
 * epoch is never taken back, so members may be told of it.
 */
uint64_t cluster_array_wanted_epoch (const struct cluster_array *a);
/* The member has got its state just now. */
void cluster_member_since (const struct cluster *c, struct cluster_array *a,
                           unsigned member);
/* Is this node in maintenance?  Is it being drained? */
bool cluster_node_in_maintenance (const struct cluster *c, const char *name);
bool cluster_node_is_draining (const struct cluster *c, const char *name);
bool cluster_node_is_fenced (const struct cluster *c, const char *name);
/* The number of the next fence.  It is not below the time in seconds: a weftd that has
 * lost its database must not begin anew.
 */
uint64_t cluster_fence_next (struct cluster *c);
/* At the start, where the database does not have these numbers: one from before weftd
 * stored them, or a new one.
 */
void cluster_fences_begin (struct cluster *c);
struct waiting *cluster_wait (struct cluster *c, enum waiting_kind kind,
                              uint64_t op, uint64_t wait_ms);
/* It waits for this session, or is a call of this one; NULL: not any more. */
void cluster_wait_session (struct waiting *w, struct cluster_session *s);
void cluster_wait_end (struct cluster *c, struct waiting *w);
/* The node whose call waits; "" of an administrator's order. */
const char *cluster_wait_node (const struct waiting *w);
/* Refuse what calls of the node wait for; attaches: of these those alone that attach. */
void cluster_wait_refuse (struct cluster *c, const char *node, bool attaches,
                          const char *code, const char *why);
void cluster_due (struct cluster *c, struct cluster_array *a, unsigned what);
/* A change of its epoch is under way. */
void cluster_changes (struct cluster *c, struct cluster_array *a);

/* cluster-step.c */
void cluster_begin (struct cluster *c, const struct cluster_input *in);
void cluster_step_end (struct cluster *c);
/* Have replies of this step not left yet? */
bool cluster_step_unsaid (const struct cluster *c, uint64_t number);

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
/* n: its record; NULL: it has none.  An event tells that it is gone in any case. */
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
/* These ranges are the session's. */
void cluster_reply_leases (struct cluster *c, uint64_t op,
                           const struct cluster_session *s,
                           const struct cluster_part *granted, unsigned count);
void cluster_reply_node (struct cluster *c, uint64_t op,
                         enum cluster_reply_kind kind,
                         const struct cluster_node *n);
void cluster_reply_done (struct cluster *c, uint64_t op,
                         enum cluster_object object, const uint8_t uuid[16],
                         uint64_t id, const char *name);
/* The caller may add to the problem that is returned, before it calls another of
 * these functions.
 */
struct cluster_problem *cluster_refuse (struct cluster *c, uint64_t op,
                                        enum cluster_problem_kind kind,
                                        const char *code, const char *fmt, ...)
  __attribute__ ((format (printf, 5, 6)));
/* Refuse for now: asking again after so long may help. */
struct cluster_problem *
cluster_defer (struct cluster *c, uint64_t op, enum cluster_problem_kind kind,
               const char *code, uint64_t retry_ms, const char *fmt, ...)
  __attribute__ ((format (printf, 6, 7)));
/* Returns p. */
struct cluster_problem *
cluster_problem_set (struct cluster_problem *p, enum cluster_problem_kind kind,
                     const char *code, const char *fmt, ...)
  __attribute__ ((format (printf, 4, 5)));
void cluster_problem_send (struct cluster *c, uint64_t op,
                           const struct cluster_problem *p);
/* This session has the array. */
void cluster_problem_holder (struct cluster_problem *p,
                             const struct cluster_session_record *holder,
                             uint64_t silent_ms);
/* The array of this name; NULL: there is none, which refuses. */
struct cluster_array *
cluster_array_find_or_refuse (struct cluster *c, uint64_t op, const char *name);
/* Refuse for now, if the array is not restored from a backup yet.  True: refused. */
bool cluster_refuse_restoring (struct cluster *c, uint64_t op,
                               const struct cluster_array *a);
/* Is any array not restored yet? */
bool cluster_restoring (const struct cluster *c);
/* Refuse, if weftd takes no changes.  NULL: it does. */
struct cluster_problem *cluster_refuse_read_only (struct cluster *c,
                                                  uint64_t op);
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
/* Fill in the problem that there is no such disk. */
void cluster_disk_unknown (const uint8_t uuid[16], struct cluster_problem *p);

/* ---- What is so: these functions answer questions.  They change nothing but
 * records of what was heard.
 */

/* cluster-copies.c */
/* The states of the members, as committed. */
void cluster_array_states (const struct cluster_array *a, uint8_t states[]);
/* After weftd's start: the first member that lives and has not spoken yet; if there
 * is none, a->layout.members.
 */
unsigned cluster_array_unheard (const struct cluster_array *a);
/* Does the disk serve nothing just now: silent, failed, or an old copy? */
bool cluster_disk_away (const struct cluster_disk *d);
/* Its process lives, and its disk has answered nothing for HUNG_MS.  Or for
 * DOUBTFUL_MS: then nothing new is to rely on it.
 */
bool cluster_disk_hangs (const struct cluster_disk *d);
bool cluster_disk_doubtful (const struct cluster_disk *d);
/* Has the joining member said, since weftd was started and for its present joining,
 * that nothing is left to copy?
 */
bool cluster_member_synced (const struct cluster_array *a, unsigned member);
/* Is the member out, and also in the change that is under way? */
bool cluster_member_stays_out (const struct cluster_array *a, unsigned member);
/* Has the member said that it refuses epochs below its fence? */
bool cluster_member_fenced (const struct cluster_array *a, unsigned member);
/* Members of no use now.  out[]: they are not in-sync; gone[]: not in-sync, or
 * their disk is away.
 */
void cluster_array_missing (const struct cluster_array *a, bool out[],
                            bool gone[]);
/* If these members were gone, how many bytes more would have no copy
 * (*unreachable), or fewer copies than they should (*exposed)?  Members on nodes in
 * maintenance count as gone already.  Either may be NULL.
 */
void cluster_array_without (const struct cluster *c,
                            const struct cluster_array *a, const bool which[],
                            uint64_t *exposed, uint64_t *unreachable);
/* host[m]: the first member that is on the same host as member m.  A disk that only
 * stands for a member's counts as on a host of its own.
 */
void cluster_array_hosts (const struct cluster_array *a, unsigned host[]);
/* Change the states so that this member goes out.  Where there are more than two
 * copies, joining members of its group go out as well: they may have copied from it
 * what the third copy lacks.
 */
void cluster_array_leave_out (const struct cluster_array *a, unsigned member,
                              uint8_t states[]);
/* Does every byte that has a copy now have one in these states?  A copy counts only
 * on a member that is in-sync already and stays so, and whose disk neither has
 * failed nor is an old copy.
 */
bool cluster_array_keeps (const struct cluster_array *a,
                          const uint8_t states[]);
/* The same question, for the states with this member out. */
bool cluster_array_can_leave_out (const struct cluster_array *a,
                                  unsigned member);
/* Is there a live writer, and is a member not in-sync?  Then what the writer has
 * acknowledged may not yet be where a reader would look for it.
 */
bool cluster_array_behind (const struct cluster *c,
                           const struct cluster_array *a);

/* cluster-slow.c */
/* See since when members are slow.  Has this one been so for so long? */
void cluster_slow_look (struct cluster *c, struct cluster_array *a);
bool cluster_slow_for (const struct cluster *c, const struct cluster_array *a,
                       unsigned member, uint64_t ms);

/* cluster-life.c */
/* Record that the writer knows the process which serves the disk now. */
void cluster_life_meet (struct cluster *c, struct cluster_disk *d);
/* Is it the process that the writer knows which serves the disk? */
bool cluster_life_met (const struct cluster_disk *d);
/* Does the process that serves the disk now have all that the writer's requests to
 * the disk were answered for, as far as is known?  It does if it is the process
 * that the writer knows, or has that process's cache.
 */
bool cluster_life_kept (const struct cluster_disk *d);
/* Is the disk served by another process than the one that the writer knows?  (Where
 * nobody writes, that is so until the next change of epoch, at most.)
 */
bool cluster_life_unmet (const struct cluster_disk *d);
/* Is a writer attached that knows a process of this disk?  Then only a change of
 * epoch tells it of the next one.
 */
bool cluster_life_known (const struct cluster *c, const struct cluster_disk *d);
/* Would it be this one of several that write whose line is bad, if it has lost this
 * member?  The member is well, and no fewer of the others reach it than lack it; or some
 * do, and nobody can do without it.
 */
bool cluster_life_apart (const struct cluster_array *a,
                         const struct cluster_session *s, unsigned member);
/* Up to when have this member, and another one that writes and reaches it, shown that they
 * live?
 */
uint64_t cluster_life_shown (const struct cluster_array *a,
                             const struct cluster_session *s, unsigned member);
/* Was an in-sync member started again under a live writer that has not been given
 * the new process yet?  What the member had not flushed may be gone, so nobody else
 * is to read it.
 */
bool cluster_life_reborn (const struct cluster *c,
                          const struct cluster_array *a, unsigned member);

/* cluster-allowed.c */
/* May the session's node have it (still)? */
bool cluster_allowed_session (const struct cluster_array *a,
                              const struct cluster_session_record *s);
/* Put this line into the list, or in the place of the node's line.  False: there is no
 * room.
 */
bool cluster_allowed_put (struct cluster_allow_list *list,
                          const struct cluster_allow *allow);
void cluster_allowed_remove (struct cluster_allow_list *list, const char *node);
/* The list that an array begins with: the nodes of its disks. */
void cluster_allowed_begin (const struct cluster_array *a,
                            struct cluster_allow_list *list);
/* Refuse: the node may not attach the array. */
void cluster_allowed_refuse (struct cluster *c, uint64_t op,
                             const struct cluster_array *a, const char *node,
                             bool writable);

/* cluster-candidates.c */
/* Which candidate of the array's service is this node?  a->rec.service_nodes: it is
 * none.
 */
unsigned cluster_service_find (const struct cluster_array *a, const char *node);
/* This process of that candidate asks to serve. */
void cluster_service_asked (struct cluster *c, struct cluster_array *a,
                            unsigned i, const char *instance);
/* Is whoever holds the array gone, as far as this attach may count on that?  Silent
 * for its TTL; or its own node, which attaches, says that its process has ended.
 * holder: NULL: nobody holds it.
 */
bool cluster_service_gone (const struct cluster *c,
                           const struct cluster_session *holder,
                           const struct cluster_attach *attach);
/* Is it the turn of this process to serve? */
bool cluster_service_turn (const struct cluster *c,
                           const struct cluster_array *a,
                           const struct cluster_attach *attach);
/* Is this session to leave off serving, for another? */
bool cluster_service_leaves (const struct cluster *c,
                             const struct cluster_array *a,
                             const struct cluster_session *s);
/* Tell by an event who stands by, where that has changed. */
void cluster_service_tick (struct cluster *c, struct cluster_array *a);

/* cluster-kept.c */
/* A change of epoch is being COMMITted (the records still have the former states).
 * prepared: all sessions had prepared themselves.
 */
void cluster_kept_commit (const struct cluster *c, struct cluster_array *a,
                          bool prepared);
/* A writer is let in: after the COMMIT. */
void cluster_kept_writer (struct cluster *c, struct cluster_array *a);
/* The writer's resync takes an older copy where the newest can't be read. */
void cluster_kept_older (struct cluster *c, struct cluster_array *a);
/* The writer says that its resync is over: copies are equal, and stable. */
void cluster_kept_equal (struct cluster *c, struct cluster_array *a);
/* The writer has detached, in its own words. */
void cluster_kept_detached (struct cluster *c, struct cluster_array *a);

/* cluster-key.c */
/* Note for which process of each member the tokens of the new epoch are made. */
void cluster_key_minted (const struct cluster *c, struct cluster_array *a);
/* Is there an in-sync member that refuses the tokens that were given out: because
 * it refuses the array's epoch, or because they were made for a former process?
 */
bool cluster_key_too_low (const struct cluster *c,
                          const struct cluster_array *a);

/* cluster-old.c */
/* A writer or an in-sync member says that this round of the array's writing has
 * been begun: keep the highest.
 */
void cluster_array_heard_round (struct cluster *c, struct cluster_array *a,
                                uint64_t round);
/* Would a disk that has noted only this round be an old copy of the member's disk?
 */
bool cluster_old_behind (const struct cluster_disk *d, uint64_t round);
/* Does this heartbeat come from an old copy of the member's disk, or from a blank
 * disk in its place, in a process that was not taken in yet?  An old copy shows by
 * a lower sequence number, min_epoch or round than the disk had.
 */
bool cluster_old_copy (const struct cluster_disk *d,
                       const struct cluster_disk_heartbeat *hb);
/* Find old copies among the disks that were taken in already: the array's round is
 * known for certain only when all members have spoken.  True: there was one, and
 * its process counts as not heard.  It looks at those whose process no writer knows;
 * where nobody writes, at all; and while a change is under way at those that are to
 * confirm it, which have all done so when it is called.
 */
bool cluster_old_judge (struct cluster *c, struct cluster_array *a);
/* The disk of this member, which is out, is an old copy or another disk: it is to
 * forget the array, and is then rebuilt in full.
 */
void cluster_old_reset (struct cluster *c, struct cluster_array *a,
                        unsigned member);
/* What people can do when the last copy of something is on an old copy of a disk.
 */
#define OLD_COPY_WAY                                                           \
  "put the right disk back; if that is gone for good, delete the array, or "   \
  "import it from its members as they are, into a weftd with a new database"

/* cluster-room.c */
/* A session that waits for so long for what a member refuses is worth a word. */
#define ROOM_REFUSED_MS 2000
/* Is there too little room for its member to be taken back? */
bool cluster_room_lacks (const struct cluster_disk *d);
/* Is there soon none, if the member is written on? */
bool cluster_room_low (const struct cluster_disk *d);
/* For how long what the session has asked of this member waits, as that refuses it; 0:
 * nothing does, or not for long.
 */
uint64_t cluster_room_refused_ms (const struct cluster_session *s,
                                  unsigned member);

/* cluster-rounds.c */
/* A member has said its round, or has gone out: keep what several nodes bear out. */
void cluster_rounds_weigh (struct cluster *c, struct cluster_array *a);
/* Where one node's disk is alone ahead: does this disk, of which another process
 * serves an older copy, bear it out?  Then that process is known for what it is.
 */
void cluster_rounds_hear (struct cluster *c, struct cluster_disk *d,
                          const struct cluster_disk_heartbeat *hb);
/* The highest round that anybody says, be it true or not. */
uint64_t cluster_rounds_said (const struct cluster *c,
                              const struct cluster_array *a);
/* The same of a member that goes out: not beyond what the writer says who has lost it. */
uint64_t cluster_rounds_of_lost (const struct cluster *c,
                                 const struct cluster_array *a,
                                 unsigned member);
/* The writer has said its round in the present epoch, and which one was complete when it
 * took that in (0: it does not say): no member that went out before has a higher one.
 */
void cluster_rounds_settle (struct cluster *c, struct cluster_array *a,
                            const struct cluster_session *writer,
                            uint64_t entered);
/* Can it not be true that this in-sync member's disk has noted this round? */
bool cluster_rounds_refute (const struct cluster *c,
                            const struct cluster_array *a, unsigned member,
                            uint64_t round);
/* Has one node's disk alone noted rounds that all others lack, though they live, and
 * the array could not do without them?  *member: the one; *others: their highest.
 */
bool cluster_rounds_alone (const struct cluster *c,
                           const struct cluster_array *a, unsigned *member,
                           uint64_t *others);

/* cluster-doubt.c */
/* Refuse what no disk can have been told, by whatever weftd; what can't be true, or
 * shows that the database is old.  True: refused.
 */
bool cluster_doubt_nonsense (struct cluster *c, uint64_t op,
                             const struct cluster_disk_heartbeat *hb);
bool cluster_doubt_disk (struct cluster *c, uint64_t op, struct cluster_disk *d,
                         const struct cluster_disk_heartbeat *hb);
bool cluster_doubt_session (struct cluster *c, uint64_t op,
                            struct cluster_session *s, struct cluster_array *a,
                            const struct cluster_session_heartbeat *hb);
/* Refuse what would change an array that stands still.  True: refused. */
bool cluster_doubt_refuse (struct cluster *c, uint64_t op,
                           const struct cluster_array *a);

/* cluster-change.c */
/* Kinds of changes of epoch; each has a row in the table of cluster-change.c. */
enum change_kind {
  CHANGE_WRITER,
  CHANGE_END,
  CHANGE_LEFT,
  CHANGE_READER,
  CHANGE_LOST_ALONE,
  CHANGE_LOST,
  CHANGE_PUT_OUT,
  CHANGE_JOINER_OUT,
  CHANGE_JOIN,
  CHANGE_IN_SYNC,
  CHANGE_BACK,
  CHANGE_KEY,
  CHANGE_INSTEAD,
  CHANGE_CALLED_OFF,
  CHANGE_TOKENS,
  CHANGE_NUMBER,
};
/* Prepare a change: a new epoch with these states, which replaces a change that is
 * under way.  Its number is above all that any member has seen.  which: the members
 * that are to confirm, where the row of its kind says that they are named; NULL:
 * none.
 */
void cluster_change_prepare (struct cluster *c, struct cluster_array *a,
                             enum change_kind kind, const uint8_t states[],
                             const bool which[]);
/* Prepare a change in which members go out that no session has lost. */
void cluster_change_put_out (struct cluster *c, struct cluster_array *a,
                             const uint8_t states[]);
/* Prepare a change in which all members stay what they are. */
void cluster_change_stay (struct cluster *c, struct cluster_array *a,
                          enum change_kind kind, const bool which[]);
/* Must sessions be prepared before these states are committed?  They must when a
 * joining member becomes in-sync, or when an in-sync member goes out and others
 * than `except` are attached (the session that asks for the change; NULL: none
 * does).
 */
bool cluster_change_needs_sessions (const struct cluster *c,
                                    const struct cluster_array *a,
                                    const uint8_t states[],
                                    const struct cluster_session *except);
/* Has somebody who writes lost a member that is not out in these states?  Then he can't
 * prepare himself for them.
 */
bool cluster_change_stalls (const struct cluster *c,
                            const struct cluster_array *a,
                            const uint8_t states[]);
/* The same of this one. */
bool cluster_change_stalls_by (const struct cluster_array *a,
                               const struct cluster_session *s,
                               const uint8_t states[]);
/* Would these states leave some data without a copy?  Only members that are in-sync
 * now, and stay so, count as copies.
 */
bool cluster_change_loses (const struct cluster_array *a,
                           const uint8_t states[]);
/* The states of the change that is under way, or the array's. */
void cluster_change_states (const struct cluster_array *a, uint8_t states[]);
/* Does the change under way wait for this member, to confirm or to say that nothing
 * is left to copy?  Does it wait for this session to prepare itself?
 */
bool cluster_change_waits_for (const struct cluster_array *a, unsigned member);
bool cluster_change_waits_for_session (const struct cluster_array *a,
                                       const struct cluster_session *s);

/* cluster-over.c */
/* Give it the next number. */
void cluster_over_number (struct cluster *c, struct cluster_over *o);
/* This session is over, or, by its number in the list alone, that of a joining member:
 * members are to be told.  ordered: by an administrator.
 */
void cluster_over_add (struct cluster *c, struct cluster_array *a,
                       uint64_t session, bool ordered);
/* Has a member that is not out not confirmed yet that this session is over?  session 0:
 * that any is.
 */
bool cluster_over_waits (const struct cluster_array *a, uint64_t session);
/* The same of this member. */
bool cluster_over_waits_for (const struct cluster_array *a, unsigned member,
                             uint64_t session);
/* May something still run that one of several that write has asked for?  It has ended. */
bool cluster_over_runs (const struct cluster *c,
                        const struct cluster_session *s);
/* Is it in the list, so that members refuse it? */
bool cluster_over_has (const struct cluster_array *a, uint64_t session);
/* Is there room for the end of one more session? */
bool cluster_over_room (const struct cluster *c, const struct cluster_array *a);
/* Take out what is of no use any more.  True: something was. */
bool cluster_over_prune (struct cluster *c, struct cluster_array *a);
/* A rule that cluster-settle.c applies: where many sessions are in the list, old tokens
 * become of no use.
 */
bool cluster_over_renew (struct cluster *c, struct cluster_array *a);
/* Is there a session of which the disk neither knows nor was just told?  The sessions
 * that it is to be told of; their count.
 */
bool cluster_over_news (const struct cluster_disk *d);
unsigned cluster_over_told (const struct cluster_disk *d,
                            struct cluster_over over[OVER_TOLD_MAX]);

/* cluster-unequal.c */
/* Of what nobody has who writes, copies may differ; or they are equal. */
void cluster_unequal_set (struct cluster *c, struct cluster_array *a,
                          bool to_recover);
enum cluster_unequal {
  UNEQUAL_NONE,  /* but for what a session writes just now */
  UNEQUAL_FIXED, /* a session makes the copies equal */
  UNEQUAL_LEFT,  /* nobody does */
};
/* May copies differ, of up to so many bytes, that a session has left which has ended, or
 * is silent?  *by: the session that is at it.
 */
enum cluster_unequal cluster_array_unequal (const struct cluster_array *a,
                                            uint64_t *bytes,
                                            const struct cluster_session **by);

/* cluster-lease-map.c */
/* Somebody needs this range, and others have it; one of them is asked to give it back. */
void cluster_lease_met (const struct cluster *c, struct cluster_array *a,
                        uint64_t start, uint64_t end);
void cluster_lease_asked_back (const struct cluster *c, struct cluster_array *a,
                               uint64_t start, uint64_t end);
/* How far from `at` on, up to `end`, is nothing hot?  And from `at` down to `start`? */
uint64_t cluster_lease_cool (const struct cluster *c, struct cluster_array *a,
                             uint64_t at, uint64_t end);
uint64_t cluster_lease_cool_down (const struct cluster *c,
                                  struct cluster_array *a, uint64_t at,
                                  uint64_t start);

/* cluster-lease.c */
/* At weftd's start: sessions share the array, and nobody knows yet what they have. */
void cluster_lease_start (struct cluster_array *a);
void cluster_leases_free (struct cluster_array *a);
/* The session is let in: by a fence, if it is the only one that writes. */
void cluster_lease_begin (struct cluster *c, struct cluster_array *a,
                          struct cluster_session *s);
/* Is this a range of the array that may be leased? */
bool cluster_lease_fits (const struct cluster_array *a,
                         const struct cluster_part *p, uint64_t granule);
/* What its heartbeat says of orders to recover. */
void cluster_lease_heard (struct cluster *c, struct cluster_session *s,
                          const struct cluster_session_heartbeat *hb);
/* May another session write in this part now, as it recovers that? */
bool cluster_lease_busy (const struct cluster_array *a,
                         const struct cluster_part *part);
/* The session has these leases, and no others.  False: another one has some of that. */
bool cluster_lease_declare (struct cluster *c, struct cluster_array *a,
                            struct cluster_session *s,
                            const struct cluster_part *declared,
                            unsigned count);
/* It has left what it had of this range. */
void cluster_lease_give (struct cluster *c, struct cluster_array *a,
                         struct cluster_session *s,
                         const struct cluster_part *given);
/* It has carried out this order. */
void cluster_lease_recovered (struct cluster *c, struct cluster_array *a,
                              struct cluster_session *s, uint64_t order);
/* It detaches by itself: it has left all that it had. */
void cluster_lease_detached (struct cluster_array *a,
                             struct cluster_session *s);
/* It has ended. */
void cluster_lease_end (struct cluster *c, struct cluster_array *a,
                        struct cluster_session *s);
/* The first span in the range that somebody else has; NULL: nobody else has any. */
const struct span *cluster_lease_other (const struct spans *spans,
                                        const struct cluster_part *p,
                                        uint64_t id);
/* Has every lessee declared what it holds?  What nobody holds of an array that is to be
 * recovered are orphans then.
 */
bool cluster_lease_begun (const struct cluster *c, struct cluster_array *a);
/* Are there orphans, and no order is under way?  Where there are none, nothing is to be
 * recovered.
 */
bool cluster_lease_orphans (struct cluster *c, struct cluster_array *a);
/* There is something about leases for it to hear. */
void cluster_lease_news (struct cluster *c, struct cluster_session *s);
/* The session is to recover all orphans. */
void cluster_lease_order (struct cluster *c, struct cluster_array *a,
                          struct cluster_session *s);

/* cluster-join.c */
/* Does the joining member get every write?  So it is when the writer works in the
 * epoch in which the joining began, or when there is no writer.
 */
bool cluster_join_sends (const struct cluster *c, const struct cluster_array *a,
                         unsigned member);
/* The round that a joining member's disk is to note at the end; 0: the writer tells
 * it the round.
 */
uint64_t cluster_join_round (const struct cluster *c,
                             const struct cluster_array *a);
/* It becomes in-sync.  Nobody held its word about rounds against the others' so far:
 * until it speaks again it counts as one that said what it was told, at most.
 */
void cluster_join_end (const struct cluster *c, const struct cluster_array *a,
                       unsigned member);

/* cluster-pace.c */
/* Decide, once a second, how fast an array's rebuild goes beside clients (automatic
 * mode).  ops and us: requests a second, and their mean latency, in the last
 * report; actual: bytes a second that the rebuild does.  Returns the rate for the
 * next second; 0: as fast as it can.
 */
uint64_t cluster_pace (struct cluster_pace *p, double ops, double us,
                       uint64_t actual, uint64_t floor, uint64_t ceiling);

/* cluster-eta.c */
/* Take in what a member says of its joining. */
void cluster_eta_note (struct cluster_eta *e, uint64_t live_ms,
                       const struct cluster_join *join);
/* By how many bytes a second the rest of this member's rebuild gets less; 0: that
 * is not known (yet), or the rebuild stands still.
 */
double cluster_eta_rate (const struct cluster *c, const struct cluster_array *a,
                         unsigned member);

/* ---- What is done: changes of epoch are PREPARED here, not COMMITted. ---- */

/* cluster-tell.c */
/* Answer the disk's long poll.  True: there was one. */
bool cluster_disk_wake (struct cluster *c, struct cluster_disk *d);
/* Reply to a session's heartbeat or report. */
void cluster_session_tell (struct cluster *c, uint64_t op,
                           const struct cluster_array *a,
                           struct cluster_session *s);
/* Answer the long poll where there is news, or (at_once) in any case. */
void cluster_tell_disk (struct cluster *c, struct cluster_disk *d,
                        bool at_once);
void cluster_tell_session (struct cluster *c, struct cluster_session *s,
                           bool at_once);
/* Answer the long polls of all its disks and sessions where there is news. */
void cluster_tell_array (struct cluster *c, const struct cluster_array *a);
/* Refuse: another change of epoch is under way; ask again. */
void cluster_tell_changing (struct cluster *c, uint64_t op,
                            const struct cluster_array *a);
void cluster_session_grant (struct cluster *c, uint64_t op,
                            struct cluster_array *a,
                            const struct cluster_session_record *rec);
/* Answer a report of a lost member: more can't be done about it now. */
void cluster_session_lost_end (struct cluster *c, struct waiting *w);
/* The array's change of epoch is COMMITted: grant the attaches that waited for it.
 * prepared: all sessions had prepared themselves for it.
 */
void cluster_session_committed (struct cluster *c, struct cluster_array *a,
                                bool prepared);

/* cluster-lease-grant.c */
/* Order what is to be recovered, and grant what can be granted. */
/* still: nothing can be granted now, nor ordered. */
void cluster_lease_settle (struct cluster *c, struct cluster_array *a,
                           bool still);
/* An ask has waited for long enough: refuse it. */
void cluster_lease_late (struct cluster *c, struct waiting *w);

/* cluster-rekey.c */
/* At weftd's start. */
void cluster_rekey_begin (struct cluster *c);
/* Fence the next member that is to get another key, and give it that.  True: one is. */
bool cluster_rekey_member (struct cluster *c, struct cluster_array *a);
/* Give it to a disk that is no member. */
void cluster_rekey_free (struct cluster *c, struct cluster_disk *d);
/* Does the change under way wait for this member, which is well, to be fenced for its
 * key?  Then it is not given up yet.
 */
bool cluster_rekey_confirms (const struct cluster *c,
                             const struct cluster_array *a, unsigned member);
/* Has the session lost the member because that was fenced for its key, perhaps?  Then
 * it gets it back, and the loss counts for nothing.
 */
bool cluster_rekey_cuts (const struct cluster *c, const struct cluster_array *a,
                         const struct cluster_session *s, unsigned member);
/* The disk's process has taken in the last answer. */
void cluster_rekey_heard (struct cluster *c, struct cluster_disk *d);

/* cluster-place.c */
/* Could the disk be given a place in an array?  False: *p says why not (it was not
 * heard, is not well, or has not yet forgotten another array).
 */
bool cluster_disk_usable (const struct cluster *c, const struct cluster_disk *d,
                          struct cluster_problem *p);
/* Fill in the problem that the disk is a spare of another array. */
void cluster_disk_is_spare (const struct cluster *c,
                            const struct cluster_disk *d,
                            struct cluster_problem *p);
/* Is another member of its group on this node? */
bool cluster_place_beside (const struct cluster_array *a, unsigned member,
                           const char *node);
/* How many bytes more would be lost with this node, if the member were on it?  The same
 * where it is now.
 */
uint64_t cluster_place_harm (const struct cluster_array *a, unsigned member,
                             const char *node);
uint64_t cluster_place_harm_now (const struct cluster_array *a,
                                 unsigned member);
/* Could the disk become a member, or is it a spare of the array that could? */
bool cluster_place_fits (const struct cluster *c, const struct cluster_array *a,
                         const struct cluster_disk *d);
/* Is d the better place for the member (than: NULL: of none)?  Better: where the loss of
 * its host costs less; where no member of the group is; a spare of the array; no larger
 * than it must be.
 */
bool cluster_place_better (const struct cluster_array *a, unsigned member,
                           const struct cluster_disk *d,
                           const struct cluster_disk *than);
/* Are all of the array's disks on one host, and all that could be members, too?  So it is
 * where somebody tries Weft on one host.
 */
bool cluster_place_one_host (const struct cluster *c,
                             const struct cluster_array *a);
/* Are copies on one host that need not be?  The disk to move *member to; NULL: none would
 * make it better.
 */
struct cluster_disk *cluster_place_mends (const struct cluster *c,
                                          const struct cluster_array *a,
                                          unsigned *member);
/* Would this disk make the loss of a host cost more than it does?  Then *p says so. */
bool cluster_place_refused (const struct cluster *c,
                            const struct cluster_array *a, unsigned member,
                            const struct cluster_disk *d,
                            struct cluster_problem *p);
void cluster_array_link (struct cluster *c, struct cluster_array *a);
/* The disk of this member is no member any more, and is to forget the array. */
void cluster_array_unlink (struct cluster *c, struct cluster_array *a,
                           unsigned member);
/* Give the place of this member, which is out, to another disk. */
void cluster_member_give (struct cluster *c, struct cluster_array *a,
                          unsigned member, struct cluster_disk *d);
/* Put the member out.  A change that is under way is replaced by one in which the
 * member is out as well.
 */
void cluster_member_put_out (struct cluster *c, struct cluster_array *a,
                             unsigned member, const char *reason);

/* cluster-rebuild.c */
/* Rules that cluster-settle.c applies; true: something was done. */
bool cluster_rebuild_leave_out (struct cluster *c, struct cluster_array *a);
bool cluster_rebuild_notice (struct cluster *c, struct cluster_array *a);
bool cluster_rebuild_renew (struct cluster *c, struct cluster_array *a);
bool cluster_rebuild_anew (struct cluster *c, struct cluster_array *a);
bool cluster_rebuild_finish (struct cluster *c, struct cluster_array *a);
bool cluster_rebuild_take_back (struct cluster *c, struct cluster_array *a);
/* Decide, once a second, how fast the joining members copy. */
void cluster_rebuild_pace (struct cluster *c, struct cluster_array *a);
/* Can all who write take part in a change of epoch?  *ill: one who can't, or NULL.
 * Where nobody writes: are all in-sync members fenced against the last who did?
 */
bool cluster_rebuild_writers_well (const struct cluster *c,
                                   const struct cluster_array *a,
                                   const struct cluster_session **ill);
/* A COMMIT puts this member out.  (Its record still has its former state, and since
 * when it had that.)
 */
void cluster_rebuild_out (struct cluster *c, struct cluster_array *a,
                          unsigned member);
/* A COMMIT makes this member joining. */
void cluster_rebuild_begin (struct cluster *c, struct cluster_array *a,
                            unsigned member);
/* When this member, which is out, will have been away for as long as its array
 * allows before a spare takes its place; 0: it is not away, or may be so for ever.  One
 * that goes out again and again soon after it is back is away all that time.
 */
uint64_t cluster_rebuild_gone_live_ms (const struct cluster *c,
                                       const struct cluster_array *a,
                                       unsigned member);

/* cluster-drain.c */
/* A rule that cluster-settle.c applies: members move away from nodes that are
 * drained, and to disks that were ordered for them, a step at a time.
 */
bool cluster_drain_move (struct cluster *c, struct cluster_array *a);
/* This member is in-sync (its record says so): its move is over. */
void cluster_drain_arrived (struct cluster *c, struct cluster_member *member);
/* Can the member not leave its place now?  Then text says what is waited for.  passes: it
 * goes by, and nobody need do anything.
 */
bool cluster_drain_hinders (const struct cluster *c,
                            const struct cluster_array *a, unsigned member,
                            char *text, size_t size, bool *passes);
/* The disk that this member is to move to.  promised: disks that it can't be, for
 * they are other members' (a NULL ends the list).  NULL: there is none, and `why`
 * says what is waited for.
 */
struct cluster_disk *cluster_drain_pick (
  const struct cluster *c, const struct cluster_array *a, unsigned member,
  const struct cluster_disk *const promised[], char *why, size_t why_size);
/* Bytes that are still to move away from the node, how many a second, and how
 * long that will take (0: not known).
 */
uint64_t cluster_drain_bytes (const struct cluster *c, const char *node);
uint64_t cluster_drain_rate (const struct cluster *c, const char *node,
                             uint64_t *eta_ms);

/* cluster-jobs.c */
/* Record the job that has ended: a member's rebuild, whose state goes from joining
 * to this one; the making of an array.
 */
void cluster_job_rebuilt (struct cluster *c, const struct cluster_array *a,
                          unsigned member, enum member_state state);
void cluster_job_created (struct cluster *c, const struct cluster_array *a);
/* Take in a stored job, before the start. */
void cluster_job_load (struct cluster *c, const struct cluster_job *job);
/* Drop the jobs that ended long ago. */
void cluster_jobs_prune (struct cluster *c);

/* ---- What is due: COMMIT, and the pump. ---- */

/* cluster-epoch.c */
/* COMMIT the change of epoch that is under way, if nothing is missing. */
void cluster_epoch_advance (struct cluster *c, struct cluster_array *a);
/* Do what time brings: a change that waits for members that are gone goes on
 * without them; a lost member that is back is fenced and given to the writer again;
 * tokens that a member refuses are replaced.  True: something was done.
 */
bool cluster_epoch_tick (struct cluster *c, struct cluster_array *a);

/* cluster-settle.c */
/* Do what is due, until nothing is. */
void cluster_settle (struct cluster *c);
/* Do what is due, and queue the step. */
void cluster_end (struct cluster *c);
/* A member took its place, came, went or changed: see what follows. */
void cluster_moved (struct cluster *c, struct cluster_array *a);

/* ---- Inputs. ---- */

/* cluster-end.c */
void cluster_session_end (struct cluster *c, struct cluster_session *s,
                          const char *fmt, ...)
  __attribute__ ((format (printf, 3, 4)));
/* End a session that detaches (by NULL) or is evicted, and do what follows. */
void cluster_session_cut (struct cluster *c, struct cluster_session *s,
                          const char *by);
/* A session that wrote has ended: fence what it may still ask, and have members that it
 * has sent its writes to in the background begin anew.
 */
void cluster_session_left (struct cluster *c, struct cluster_array *a);
/* Drop the oldest ended sessions beyond ENDED_SESSIONS_MAX, but for those that members
 * have not confirmed the end of.
 */
void cluster_session_prune (struct cluster *c);
void cluster_session_tick (struct cluster *c, struct cluster_session *s);
/* The session with this number, if it is not over; else refuses. */
struct cluster_session *
cluster_session_find_or_refuse (struct cluster *c, uint64_t op, uint64_t id);
/* The same, if it is this process's. */
struct cluster_session *cluster_session_own_or_refuse (struct cluster *c,
                                                       uint64_t op, uint64_t id,
                                                       const char *instance);
/* Refuse, if there is no such session.  True: refused. */
bool cluster_session_end_refused (struct cluster *c, uint64_t op, uint64_t id);

/* cluster-import-plan.c: see cluster-import.h, and: */
/* Was it heard lately, and not imported since? */
bool cluster_foreign_is_heard (const struct cluster *c,
                               const struct cluster_foreign *f);

/* cluster-import.c */
/* Refuse what cluster_array_import would; plan: as for cluster_import_refused. */
struct cluster_import_plan;
bool cluster_array_import_refused (struct cluster *c, uint64_t op,
                                   const struct cluster_import *import,
                                   struct cluster_import_plan *plan);
/* Keep what a disk that is not ours says of itself. */
void cluster_import_note (struct cluster *c,
                          const struct cluster_disk_heartbeat *hb);
/* Drop what was said long ago; what disks of this array have said. */
void cluster_import_tick (struct cluster *c);
void cluster_import_forget (struct cluster *c, const uint8_t array[16]);
/* As good as fresh random bytes for each disk, or for each member of an array. */
void cluster_import_key (const uint8_t random[KEY_BYTES],
                         const uint8_t uuid[16], unsigned m,
                         uint8_t key[KEY_BYTES]);
/* Make the record of a member's disk, as the disk says; hb NULL: one that stands for a
 * disk that is not there.
 */
void cluster_import_disk (struct cluster *c, const struct cluster_input *in,
                          const struct cluster_disk_heartbeat *hb, unsigned m,
                          struct cluster_array *a);
/* Does this disk, which says that it is a member of the array, describe the array
 * as the disks did from which it was imported?
 */
bool cluster_import_agrees (const struct cluster *c,
                            const struct cluster_array *a,
                            const struct cluster_disk_heartbeat *hb);
/* A member that an import did not find has sent its first heartbeat: it gets its
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
/* The known process of the disk has spoken: others that ask for its place are
 * refused.
 */
void cluster_admit_others (struct cluster *c, struct cluster_disk *d);

/* cluster-disk.c */
void cluster_disk_take_over (struct cluster *c, struct waiting *w);
void cluster_disk_tick (struct cluster *c, struct cluster_disk *d);

/* cluster-disk-orders.c */
/* Refuse, if the disk can't be forgotten.  True: refused. */
bool cluster_disk_forget_refused (struct cluster *c, uint64_t op,
                                  const uint8_t uuid[16]);
/* Forget the disk; cluster_disk_drop: without a word in the log. */
void cluster_disk_remove (struct cluster *c, struct cluster_disk *d);
void cluster_disk_drop (struct cluster *c, struct cluster_disk *d);

/* cluster-restore.c */
/* At the start: the database is a backup that was put in place. */
void cluster_restore_begin (struct cluster *c, const struct cluster_input *in);
/* Restore each array of which enough members were heard. */
void cluster_restore_tick (struct cluster *c, const struct cluster_input *in);

/* cluster-array.c */
/* Refuse, if the array can't be made, its loss not accepted, or it not be deleted.
 * True: refused.  plan: as for cluster_array_plan.
 */
bool cluster_array_create_refused (struct cluster *c, uint64_t op,
                                   const struct cluster_create *create,
                                   struct cluster_array *plan);
bool cluster_array_loss_refused (struct cluster *c, uint64_t op,
                                 const char *name,
                                 const struct cluster_loss *loss);
bool cluster_array_delete_refused (struct cluster *c, uint64_t op,
                                   const char *name);

/* cluster-attachable.c */
/* Is what is to be granted so in the way of the attach?  Is this session?  Who is silent
 * is, whatever it writes: it would hold up the next change of epoch.
 */
bool cluster_attach_conflicts (const struct cluster_session_record *rec,
                               const struct cluster_attach *attach);
bool cluster_attach_in_the_way (const struct cluster_session *s,
                                const struct cluster_attach *attach);
/* The session that is in the way of one that is to write, one that is not silent before
 * others; NULL: none is.
 */
struct cluster_session *
cluster_attach_holder (const struct cluster_array *a,
                       const struct cluster_attach *attach);
/* Does this one write where nobody else does, when all have gone that are in its way?
 * Then all members are fenced for it.
 */
bool cluster_attach_alone (const struct cluster_array *a,
                           const struct cluster_attach *attach);
/* Is the member missing?  late: it is as well if it has not confirmed in time. */
bool cluster_attach_missing (const struct cluster_array *a, unsigned member,
                             bool late, const char **why);
/* Refuse: this one holds the array.  quiet: it may be replaced when it has been silent
 * for long enough.
 */
struct cluster_problem *cluster_attach_refuse_held (
  struct cluster *c, uint64_t op, const struct cluster_array *a,
  const struct cluster_session_record *holder, uint64_t silent_ms, bool quiet);
/* Refuse an attach for who asks (*takes_over: he may take the array from a holder that
 * is heard); for what he asks for; for the array as it is now.  True: refused.  fences:
 * as of cluster_attach_alone.  states: in which the array starts.
 */
bool cluster_attach_refuse_asker (struct cluster *c, uint64_t op,
                                  const struct cluster_array *a,
                                  const struct cluster_attach *attach,
                                  bool *takes_over);
bool cluster_attach_refuse_wish (struct cluster *c, uint64_t op,
                                 const struct cluster_array *a,
                                 const struct cluster_attach *attach,
                                 bool fences);
bool cluster_attach_refuse_now (struct cluster *c, uint64_t op,
                                struct cluster_array *a, bool fences,
                                uint8_t states[]);
/* Two reasons of the last kind.  One of the others that write has lost a member, or does
 * not know yet that one was started again.  A member is missing (late: as above) that
 * can't be left out, for that would lose something, or it is just being started.
 */
bool cluster_attach_refuse_beside (struct cluster *c, uint64_t op,
                                   const struct cluster_array *a);
bool cluster_attach_refuse_members (struct cluster *c, uint64_t op,
                                    struct cluster_array *a, bool late,
                                    uint8_t states[]);

/* cluster-attach.c */
/* An attach has waited too long for members to confirm: go on without them, or
 * refuse it.
 */
void cluster_session_attach_late (struct cluster *c, struct waiting *w);
/* The session that holds the array was asked to speak, and has said nothing or is
 * over; or members were, and have spoken; or it is the turn of a process that stood by; or
 * the attach has waited for long enough: try it again.
 */
void cluster_session_unchallenged (struct cluster *c, struct waiting *w);
/* Have all members spoken, or are missing, for which this attach waits? */
bool cluster_attach_heard (const struct waiting *w);
/* Refuse a heartbeat of a reader that a change of epoch did not wait for when a
 * member went out (`epoch`: in which the reader works).  It is told of the newer
 * epoch only when the writer has prepared itself.  True: refused.
 */
bool cluster_session_refuse_late (struct cluster *c, uint64_t op,
                                  struct cluster_array *a,
                                  struct cluster_session *s, uint64_t epoch);
/* The holder has spoken: refuse the attaches that waited to see whether it does. */
void cluster_session_refuse_challengers (struct cluster *c,
                                         struct cluster_session *holder);

/* cluster-allow.c */
/* Refuse, if the array's list can't be changed so (drop: its line goes).  True: refused.
 * next: the list as it would be; may be NULL.
 */
bool cluster_allow_refused (struct cluster *c, uint64_t op, const char *array,
                            const struct cluster_allow *allow, bool drop,
                            struct cluster_allow_list *next);
/* The node is gone: it may attach nothing, and serve nothing. */
void cluster_allow_forget (struct cluster *c, const char *node);

/* cluster-service.c */
/* Refuse, if the service can't be ended.  True: refused. */
bool cluster_service_drop_refused (struct cluster *c, uint64_t op,
                                   const char *array);

/* cluster-member.c */
/* Refuse what an administrator asks for, if it can't be done.  True: refused. */
bool cluster_member_replace_refused (struct cluster *c, uint64_t op,
                                     const char *array, unsigned member,
                                     const uint8_t disk[16], bool force);
bool cluster_member_cancel_refused (struct cluster *c, uint64_t op,
                                    const char *array, unsigned member);

/* cluster-node.c */
/* Refuse, if the node can't be put in maintenance, drained, removed.  True:
 * refused.
 */
bool cluster_node_maintain_refused (struct cluster *c, uint64_t op,
                                    const char *name, bool on, bool force);
bool cluster_node_drain_refused (struct cluster *c, uint64_t op,
                                 const char *name);
/* The same as far as the node itself matters: there is none of this name, there is no
 * room for a record, or weftd takes no changes.
 */
bool cluster_node_refused (struct cluster *c, uint64_t op, const char *name);
/* Have all members confirmed what was ordered?  Answer an order to shut out. */
bool cluster_node_shut_out_done (const struct cluster *c);
void cluster_node_shut_out_end (struct cluster *c, struct waiting *w);
/* Nodes were shut out while no changes were taken: end their sessions. */
void cluster_node_tick (struct cluster *c);
/* Its record, which there is from now on. */
struct cluster_node *cluster_node_keep (struct cluster *c, const char *name);

/* cluster-fence.c */
/* Is nothing of this waiting fence left to be confirmed? */
bool cluster_fence_done (const struct cluster *c, const struct waiting *w);
/* It is done, or has waited for too long: answer it. */
void cluster_fence_end (struct cluster *c, struct waiting *w);
bool cluster_node_remove_refused (struct cluster *c, uint64_t op,
                                  const char *name);

#endif /* WEFT_CLUSTER_INTERNAL_H */
