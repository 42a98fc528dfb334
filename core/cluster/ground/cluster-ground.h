/* cluster-ground.h: the ground of the cluster engine: its state, its objects and their lists,
 * waiting calls, the step that is being made (records, outputs, answers), and words for
 * people.
 *
 * Each input of the engine begins with cluster_step_begin and ends with cluster_pump_end.  In
 * between, objects are changed; each change is followed by cluster_put_* (the
 * record is copied as it then is), by outputs, and by cluster_array_due for an array
 * about which something has changed.  cluster_pump_end does the things that are due
 * (cluster-pump.c) and queues the step.  A record that changes twice in a step is
 * stored as it is last.
 */

#ifndef WEFT_CLUSTER_GROUND_H
#define WEFT_CLUSTER_GROUND_H

#include "base/spares.h"
#include "base/spans.h"
#include "cluster/cluster.h"

/* When another process asks for a disk's place, the one that has it is asked to
 * speak at once; if it says nothing for so long, the other one gets the place.
 */
#define TAKEOVER_MS 1500
/* An attach waits so long for members to confirm, or to speak. */
#define ATTACH_MS 10000
/* A session's report of a lost member waits so long for the member to be out.  The session
 * sends one report at a time, and the change may wait for it, while it has lost another
 * member: so this is short.
 */
#define LOST_MS 500
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
/* A process that has missed two heartbeats may be dead. */
#define QUIET_MS (2 * HEARTBEAT_MS)
/* Where nobody who writes, or stands by, was heard for so long, what they all lacked is
 * back.
 */
#define LULL_MS (SESSION_TTL_MS / 2)
/* A reader's session that has been silent for so long is ended. */
#define READER_DROP_MS (10 * 60 * 1000)
/* A process that asks to serve an array, while another does, is answered after
 * this time, and asks again; a process that has not asked for this time does
 * not stand by.
 */
#define SERVICE_WAIT_MS 2000
#define STANDBY_MS 5000
/* Where nobody serves, a candidate waits so long for one that is better placed. */
#define SERVICE_SETTLE_MS 2000
/* An order to move the service holds for so long. */
#define SERVICE_MOVE_MS 10000
/* If a client says for so long that it does not reach the process that serves, the service
 * moves.  The node that was not reached counts as such for so long; and after such a move
 * the next one waits: at first for MIN, then for twice as long each time, up to MAX.
 */
#define SERVICE_UNREACHED_MS 2500
#define SERVICE_MISSED_MS (10 * 60 * 1000)
#define SERVICE_REST_MS_MIN (60 * 1000)
#define SERVICE_REST_MS_MAX (60 * 60 * 1000)
/* A fence of a node waits so long for all to have confirmed it. */
#define FENCE_MS 20000
/* An order to shut a node out waits so long for members to have confirmed it. */
#define SHUT_OUT_MS 5000
/* A member that has not confirmed for so long that it refuses who was shut out or
 * evicted is named.
 */
#define UNCONFIRMED_MS 3000
/* An order for a volume is answered after this time, if the process that has the pool has not
 * carried it out.
 */
#define ORDER_MS 10000
#define ENDED_SESSIONS_MAX 128
/* Disks, and as many that were refused and may be imported; of these, of one node. */
#define DISKS_MAX 4096
#define NODE_DISKS_MAX 256
#define ARRAYS_MAX 1024
#define SESSIONS_MAX 4096
#define SESSION_BUCKETS 1024 /* lists by which they are found */
#define NODES_MAX 4096
/* A disk's sequence number and an array's round change all the time; each is stored
 * so often at most.
 */
#define SEQUENCE_MS 10000
/* If two nodes report the same within this time, it counts as reported by both.
 */
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
  WAIT_ORDER,     /* an administrator's order for a volume of `array`, which the
                     process that has the pool is to carry out */
  WAIT_KINDS
};

/* An attach that waits for the holder to speak, or to go, or for members to
 * speak, and is then tried again.  For a fence, and for an order to revoke a
 * node, attach.node is the node.
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
  unsigned member; /* WAIT_LOST */
  /* WAIT_ATTACH: the session to grant; owned */
  struct cluster_session_record *grant;
  bool fences; /* WAIT_ATTACH: to write, where nobody
                                           does: all members confirm first */
  struct cluster_disk_heartbeat *heartbeat; /* WAIT_CONTENDER; owned */
  struct challenge *challenge; /* WAIT_HOLDER, WAIT_MEMBERS, WAIT_SERVICE,
                                  WAIT_FENCE, WAIT_SHUT_OUT; owned */
  struct cluster_lease_ask ask[LEASE_ASKS_MAX]; /* WAIT_LEASES */
  unsigned asks;
  unsigned
    asked_back;   /* WAIT_LEASES: bit i: it is the turn of the i-th, and those
                          who have some of it are to give that back */
  uint64_t order; /* WAIT_ORDER: its number */
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

/* The leases of an array that sessions share so.  In memory alone; freed with
 * the last of these sessions.
 */
struct cluster_leases {
  struct spans spans;   /* owners: sessions, LEASE_ORPHAN, LEASE_ORDERED */
  struct waitings asks; /* as they came */
  bool
    starting; /* weftd was, and not all have declared yet: nobody knows what is free */
  bool still; /* nothing is granted, for weftd does not know yet what is true */
  uint64_t order; /* to recover what is LEASE_ORDERED; 0: none is under way */
  struct cluster_session *recoverer; /* the session that has that order */
  struct lease_meetings met;
};

/* The work that is due for an array at the end of an input (cluster-pump.c). */
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
  char revoked_doubt[CLUSTER_DOUBT_BYTES]; /* cluster_note_doubt */
  char audit[CLUSTER_DOUBT_BYTES];         /* cluster_note_audit */
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
  char
    doubt_claim[200]; /* a report of an unknown disk that says so; "": none */
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
    /* a number of weftd's life: other numbers that must not repeat begin with
     * it
     */
    life;
  uint32_t over_count;    /* of those in cluster-shut.c */
  uint32_t loss_count;    /* of orders to make zeroes of what is lost */
  uint32_t order_count;   /* the same, of orders to recover */
  uint32_t volume_orders; /* the same, of orders for volumes */
  /* Records of volumes and of their space that were loaded, before cluster_start. */
  TAILQ_HEAD (, cluster_volume) loaded_volumes;
  STAILQ_HEAD (, loaded_space) loaded_space;
};

struct loaded_space {
  STAILQ_ENTRY (loaded_space) link;
  struct cluster_space_record rec;
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

/* cluster-objects.c */
bool cluster_uuid_is_zero (const uint8_t uuid[16]);
bool cluster_uuid_equal (const uint8_t a[16], const uint8_t b[16]);
void cluster_uuid_make (const uint8_t random[16], uint8_t uuid[16]);
bool cluster_object_text_copy (char *to, size_t size,
                               const char *from); /* changed? */
/* By how much a counter grows in a second. */
double cluster_object_rate (uint64_t now, uint64_t before, uint64_t ms);
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
/* Note that a session that writes the array, or stands by to serve it, is
 * heard; before the session's own fields change.
 */
void cluster_array_heard (const struct cluster *c, struct cluster_array *a);
/* Has it been silent for its TTL, and has not weftd been cut off meanwhile? */
bool cluster_session_missed (const struct cluster *c,
                             const struct cluster_session *s);
/* A session that writes the array and is not silent, or NULL. */
struct cluster_session *
cluster_array_writer_alive (const struct cluster_array *a);
/* The newest epoch: of the change under way, or else of the array.  A PREPARED
 * epoch is never taken back, so members may know it.
 */
uint64_t cluster_array_wanted_epoch (const struct cluster_array *a);
/* The member has got its state just now. */
void cluster_array_member_since (const struct cluster *c,
                                 struct cluster_array *a, unsigned member);
/* Is this node in maintenance?  Is it being drained? */
bool cluster_node_in_maintenance (const struct cluster *c, const char *name);
bool cluster_node_is_draining (const struct cluster *c, const char *name);
bool cluster_node_is_fenced (const struct cluster *c, const char *name);
struct waiting *cluster_wait (struct cluster *c, enum waiting_kind kind,
                              uint64_t op, uint64_t wait_ms);
/* It waits for this session, or is a call of this one; NULL: not any more. */
void cluster_wait_session (struct waiting *w, struct cluster_session *s);
void cluster_wait_end (struct cluster *c, struct waiting *w);
/* The node whose call waits; "" of an administrator's order. */
const char *cluster_wait_node (const struct waiting *w);
/* Refuse what calls of the node wait for; attaches: of these those alone that attach. */
void cluster_node_refuse_waiting (struct cluster *c, const char *node,
                                  bool attaches, const char *code,
                                  const char *why);
void cluster_array_due (struct cluster *c, struct cluster_array *a,
                        unsigned what);
/* A change of its epoch is under way. */
void cluster_array_changing (struct cluster *c, struct cluster_array *a);

/* cluster-step.c */
void cluster_step_begin (struct cluster *c, const struct cluster_input *in);
void cluster_step_end (struct cluster *c);
/* Have replies of this step not left yet? */
bool cluster_step_unsaid (const struct cluster *c, uint64_t number);

void cluster_step_put_identity (struct cluster *c);
void cluster_step_put_disk (struct cluster *c, const struct cluster_disk *d);
void cluster_step_put_array (struct cluster *c, const struct cluster_array *a);
void cluster_step_put_session (struct cluster *c,
                               const struct cluster_session *s);
void cluster_step_put_node (struct cluster *c, const struct cluster_node *n);
void cluster_step_put_job (struct cluster *c, const struct cluster_job *job);
void cluster_step_put_volume (struct cluster *c,
                              const struct cluster_volume *v);
void cluster_step_put_space (struct cluster *c,
                             const struct cluster_space_record *r,
                             bool deleted);
/* The volume's record goes; the caller frees the volume. */
void cluster_step_drop_volume (struct cluster *c, struct cluster_volume *v);
void cluster_step_drop_disk (struct cluster *c, struct cluster_disk *d);
void cluster_step_drop_array (struct cluster *c, struct cluster_array *a);
void cluster_step_drop_session (struct cluster *c, struct cluster_session *s);
void cluster_step_drop_job (struct cluster *c, struct cluster_job *job);
/* n: its record; NULL: it has none.  An event tells that it is gone in any case. */
void cluster_step_drop_node (struct cluster *c, struct cluster_node *n,
                             const char *name);

void cluster_step_changed_disk (struct cluster *c,
                                const struct cluster_disk *d);
void cluster_step_changed_array (struct cluster *c,
                                 const struct cluster_array *a);
/* A member took its place, came, went or changed: see what follows. */
void cluster_step_member_moved (struct cluster *c, struct cluster_array *a);
void cluster_step_changed_session (struct cluster *c,
                                   const struct cluster_session *s);
void cluster_step_changed_node (struct cluster *c,
                                const struct cluster_node *n);
void cluster_step_log (struct cluster *c, enum cluster_severity severity,
                       const char *what, const char *name, const char *fmt, ...)
  __attribute__ ((format (printf, 5, 6)));

void cluster_step_reply_disk (struct cluster *c, uint64_t op,
                              const struct cluster_disk *d);
void cluster_step_reply_array (struct cluster *c, uint64_t op,
                               const struct cluster_array *a);
void cluster_step_reply_session (struct cluster *c, uint64_t op,
                                 enum cluster_reply_kind kind,
                                 const struct cluster_array *a,
                                 const struct cluster_session *s);
/* These ranges are the session's. */
void cluster_step_reply_leases (struct cluster *c, uint64_t op,
                                const struct cluster_session *s,
                                const struct cluster_part *granted,
                                unsigned count);
void cluster_step_reply_volume (struct cluster *c, uint64_t op,
                                enum cluster_reply_kind kind,
                                const struct cluster_array *a,
                                const struct cluster_volume *v);
void cluster_step_reply_node (struct cluster *c, uint64_t op,
                              enum cluster_reply_kind kind,
                              const struct cluster_node *n);
void cluster_step_reply_done (struct cluster *c, uint64_t op,
                              enum cluster_object object,
                              const uint8_t uuid[16], uint64_t id,
                              const char *name);
/* The caller may add to the problem that is returned, before it calls another of
 * these functions.
 */
struct cluster_problem *cluster_step_refuse (struct cluster *c, uint64_t op,
                                             enum cluster_problem_kind kind,
                                             const char *code, const char *fmt,
                                             ...)
  __attribute__ ((format (printf, 5, 6)));
/* Refuse for now: asking again after so long may help. */
struct cluster_problem *cluster_step_defer (struct cluster *c, uint64_t op,
                                            enum cluster_problem_kind kind,
                                            const char *code, uint64_t retry_ms,
                                            const char *fmt, ...)
  __attribute__ ((format (printf, 6, 7)));
/* Returns p. */
struct cluster_problem *cluster_step_problem_set (
  struct cluster_problem *p, enum cluster_problem_kind kind, const char *code,
  const char *fmt, ...) __attribute__ ((format (printf, 4, 5)));
void cluster_step_problem_send (struct cluster *c, uint64_t op,
                                const struct cluster_problem *p);
/* This session has the array. */
void cluster_step_problem_holder (struct cluster_problem *p,
                                  const struct cluster_session_record *holder,
                                  uint64_t silent_ms);
/* The array of this name; NULL: there is none, which refuses. */
struct cluster_array *
cluster_step_array_or_refuse (struct cluster *c, uint64_t op, const char *name);
/* Refuse for now, if the array is not restored from a backup yet.  True: refused. */
bool cluster_step_refuse_restoring (struct cluster *c, uint64_t op,
                                    const struct cluster_array *a);
/* Is any array not restored yet? */
bool cluster_step_restoring (const struct cluster *c);
/* Refuse, if weftd takes no changes.  NULL: it does. */
struct cluster_problem *cluster_step_refuse_read_only (struct cluster *c,
                                                       uint64_t op);
void cluster_step_set_read_only (struct cluster *c, const char *fmt, ...)
  __attribute__ ((format (printf, 2, 3)));

/* cluster-words.c */
#define CLUSTER_UUID_TEXT_BYTES 37
void cluster_words_uuid (const uint8_t uuid[16],
                         char text[CLUSTER_UUID_TEXT_BYTES]);
/* "12.5 GiB" */
const char *cluster_words_bytes (uint64_t bytes, char *text, size_t size);
/* The name of a disk for people: "disk /dev/sdb of node n1". */
const char *cluster_words_disk (const struct cluster_disk *d, char *text,
                                size_t size);
/* A word in the verdict's language, to follow "has not" (cluster-overdue.c). */
const char *cluster_word_owed (enum cluster_word word);
/* Fill in the problem that there is no such disk. */
void cluster_words_disk_unknown (const uint8_t uuid[16],
                                 struct cluster_problem *p);

/* ---- What is so: these functions answer questions.  They change nothing but
 * records of what was heard.
 */

/* cluster-room.c */
/* A session that waits for so long for what a member refuses, or for memory of its host, is
 * worth a word.
 */
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

/* cluster-pace.c */
/* Decide, once a second, how fast an array's rebuild goes beside clients (automatic
 * mode).  ops and us: requests a second, and their mean latency, in the last
 * report; actual: bytes a second that the rebuild does.  Returns the rate for the
 * next second; 0: as fast as it can.
 */
uint64_t cluster_pace (struct cluster_pace *p, double ops, double us,
                       uint64_t actual, uint64_t floor, uint64_t ceiling);

/* cluster-fence-number.c */
/* The number of the next fence.  It is not below the time in seconds, so that
 * it does not begin again after a loss of weftd's database.
 */
uint64_t cluster_fence_number_next (struct cluster *c);
/* At the start, where the database does not have these numbers: one from before weftd
 * stored them, or a new one.
 */
void cluster_fence_number_begin (struct cluster *c);

/* cluster-slow.c */
/* See since when members are slow.  Is this one slow, and has been for so long (but for
 * moments)?  As cluster_member_slow.
 */
void cluster_slow_look (struct cluster *c, struct cluster_array *a);
bool cluster_slow_for (const struct cluster *c, const struct cluster_array *a,
                       unsigned member, uint64_t ms, uint64_t *us,
                       uint64_t *others_us);

#endif /* WEFT_CLUSTER_GROUND_H */
