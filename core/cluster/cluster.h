/* cluster.h: the cluster engine (docs/DESIGN.md 3.3 and 7): weftd's state and
 * decisions.
 *
 * A pure state machine: its inputs are the messages of disks, hosts and
 * administrators, the time and randomness; its outputs are steps.  It opens
 * nothing, knows no JSON, and never waits.  The caller (weftd's loop, or the
 * simulator) serialises all calls.
 *
 *   heartbeats, requests ─┐                ┌─ records ── to the store
 *   the clock ────────────┴─► the engine ──┴─ outputs ── replies, events, log
 *
 * Every call makes at most one step.  A step's records are one transaction.
 * Its outputs may be sent when its own records *and those of every step before
 * it* are durable, in the order of the steps: so the engine's memory may be
 * ahead of the store, but no answer ever is.  A caller that cannot store must
 * die; the engine is then started again from the stored records.
 *
 * A call either answers at once or keeps the operation waiting (a long poll; an
 * attach that waits for members' confirmations) and answers it in a later step.
 * An operation is a number of the caller's choice, answered exactly once.
 *
 * The epoch change is one mechanism (cluster-change.c): PREPARED is recorded,
 * members confirm by their heartbeats, COMMIT is recorded.  Members get no
 * commands: a heartbeat's reply has the wanted state, and the next heartbeat
 * has the actual state.
 *
 * Silence is measured on a clock that stops while weftd itself is stopped
 * (suspended, or waiting for its disk): see cluster_tick.
 *
 * All times are in ms: now_ms of a monotonic clock, wall_ms since 1970.
 */

#ifndef WEFT_CLUSTER_H
#define WEFT_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <bsd/sys/queue.h>

#include "format/bad.h"
#include "base/bounds.h"
#include "base/stats.h"
#include "cluster-array-state.h"
#include "cluster-disk-state.h"
#include "cluster-pool-state.h"
#include "cluster-records.h"
#include "cluster-session-state.h"
#include "format/format.h"
#include "format/token.h"
#include "layout/layout.h"

/* ---- What the engine holds: for reading.  Valid until the next call.  Disks, arrays and
 * sessions have headers of their own: cluster-disk-state.h and so on. ----
 */

struct cluster_node {
  TAILQ_ENTRY (cluster_node) link;
  struct cluster_node_record rec;
  uint64_t
    maintenance_live_ms; /* when that last changed; 0: before weftd's start */
};

/* ---- Outputs. ---- */

enum cluster_problem_kind {
  CLUSTER_OK,
  CLUSTER_INVALID, /* the request makes no sense; `field` says where */
  CLUSTER_NOT_FOUND,
  CLUSTER_FORBIDDEN,   /* the caller has no right to it */
  CLUSTER_CONFLICT,    /* the state of things forbids it; `code` says why */
  CLUSTER_GONE,        /* the session is over */
  CLUSTER_UNAVAILABLE, /* ask again later; or weftd takes no changes */
};

struct cluster_problem {
  enum cluster_problem_kind kind;
  const char *code;  /* "held", "member-out", ...; a constant */
  const char *field; /* of the request; NULL: none.  A constant */
  char detail[768];  /* the thing, the reason, the way out */
  /* code "held": */
  uint64_t holder; /* the session of the holder; 0: it is just being granted */
  char holder_node[NAME_BYTES_MAX + 1];
  uint64_t holder_pid, holder_silent_ms;
  char holder_process[CLUSTER_PROCESS_BYTES]; /* "": unknown */
  bool retry;
  uint64_t retry_after_ms;
  /* code "read-only", to a disk: the sessions that are over. */
  unsigned over_count;
  struct cluster_over over[OVER_TOLD_MAX];
};

enum cluster_reply_kind {
  CLUSTER_REPLY_PROBLEM,
  CLUSTER_REPLY_DISK,    /* to a disk's heartbeat: the wanted state of `disk` */
  CLUSTER_REPLY_ARRAY,   /* created */
  CLUSTER_REPLY_GRANT,   /* attached: `session` with its map */
  CLUSTER_REPLY_SESSION, /* to a session's heartbeat or `lost` */
  CLUSTER_REPLY_NODE,    /* changed */
  CLUSTER_REPLY_JOB,     /* begun: the drain of `node` */
  /* the ranges that were given back are free, and `granted` is the session's */
  CLUSTER_REPLY_LEASES,
  CLUSTER_REPLY_VOLUME, /* created, changed; or it is being deleted */
  CLUSTER_REPLY_OPENED, /* a process may open the volume, which has these segments */
  CLUSTER_REPLY_VOLUMES, /* to a session's message about its volumes */
  CLUSTER_REPLY_SCANNED, /* to a session's message of a scan */
  CLUSTER_REPLY_DONE,    /* deleted, detached, forgotten */
};

enum cluster_output_kind {
  CLUSTER_OUTPUT_REPLY,
  CLUSTER_OUTPUT_CHANGED, /* an object changed, or is gone: an event */
  CLUSTER_OUTPUT_LOG,     /* a sentence for people */
};

enum cluster_severity { CLUSTER_INFO, CLUSTER_WARNING, CLUSTER_ERROR };

enum cluster_object {
  CLUSTER_DISK,
  CLUSTER_ARRAY,
  CLUSTER_SESSION,
  CLUSTER_NODE,
  CLUSTER_VOLUME /* in replies alone: a change is an event of its array */
};

struct cluster_output {
  enum cluster_output_kind kind;

  /* REPLY */
  uint64_t op;
  enum cluster_reply_kind reply;
  struct cluster_problem *problem; /* freed with the step */
  struct cluster_part *granted;    /* LEASES: freed with the step */
  unsigned granted_count;

  /* CHANGED: `object` says which.  REPLY: its object.  Pointers into the
   * engine, NULL if the object is gone; key and name are always there.
   */
  enum cluster_object object;
  const struct cluster_disk *disk;
  const struct cluster_array *array;
  const struct cluster_session *session;
  const struct cluster_node *node;
  const struct cluster_volume *volume;
  uint8_t uuid[16];
  uint64_t id;
  char name[NAME_BYTES_MAX + 1];

  /* LOG */
  enum cluster_severity severity;
  char subject[80]; /* "array a" */
  char text[768];
};

struct cluster_step {
  STAILQ_ENTRY (cluster_step) link;
  uint64_t number;                 /* greater than that of any before */
  struct cluster_record **records; /* cluster_record_bytes each */
  size_t records_count;
  struct cluster_output *outputs;
  size_t outputs_count;
};

/* ---- Inputs. ---- */

/* The common arguments of each input.  `random` must be fresh. */
struct cluster_input {
  uint64_t op; /* the operation to answer */
  uint64_t now_ms, wall_ms;
  /* The oldest step whose replies have not left yet; 0: all have.  (cluster_tick) */
  uint64_t unsaid;
  uint8_t random[KEY_BYTES];
};

/* A heartbeat that says everything is a report, and has a number.  With `same` it
 * gives only the fields above `uri`: all others are as in the report of that
 * number.
 */
struct cluster_disk_heartbeat {
  uint8_t uuid[16];
  char instance[CLUSTER_INSTANCE_BYTES];
  char node[NAME_BYTES_MAX + 1];
  bool same;
  uint64_t report; /* its own number, or with `same` that of the report meant;
                      each instance counts its own; 0: it gives no numbers */
  uint64_t dirty_extents;
  uint64_t disk_stuck_ms;   /* member/pulse.h */
  uint64_t sequence, round; /* sequence 0: both are as in the report, too */
  bool has_load;
  struct cluster_load load;
  struct cluster_room room;
  uint64_t wait_ms;
  bool proven; /* a certificate shows that it speaks for its node */
  char uri[CLUSTER_URI_BYTES];
  char path[CLUSTER_PATH_BYTES];
  /* Names the memory that holds what was written and not flushed (the host's page
   * cache).  A new process that names the same cache as the one before still has
   * all that the one before was sent.  "": not known.
   */
  char cache[CLUSTER_CACHE_BYTES];
  uint64_t size, data_bytes;
  uint8_t cluster[16], array[16]; /* zero: none */
  unsigned position;              /* when array is not zero */
  uint64_t min_epoch, generation;
  uint64_t states_epoch; /* of the member states it holds; 0: it does not say */
  uint64_t over;         /* see struct cluster_disk */
  /* The rest of what its superblock says of its array, for an import.
   * has_place: it says so.
   */
  bool has_place;
  enum layout_kind layout;
  enum array_dup dup;
  unsigned n, groups;
  uint64_t unit, member_bytes; /* member_bytes 0: an old superblock */
  uint8_t states[ARRAY_MEMBERS_MAX];
  struct cluster_join join; /* phase NONE: it is not joining */
  enum cluster_disk_state state;
  char reason[CLUSTER_REASON_BYTES];
  char
    shortage[64]; /* for want of what it refuses writes for now; "": nothing */
  struct bad_list bad; /* all of it */
};

struct cluster_create {
  char name[NAME_BYTES_MAX + 1];
  enum layout_kind layout;
  enum array_dup dup;
  unsigned groups, members; /* members: all disks; n = members / groups */
  uint64_t unit;
  uint8_t disk[ARRAY_MEMBERS_MAX][16];
  struct cluster_allow_list allow; /* not listed: the nodes of these disks */
  bool force;             /* also where the loss of one host then loses data */
  bool pool;              /* of volumes, ... */
  uint64_t segment_bytes; /* ... of such segments; 0: as its size suggests */
};

struct cluster_attach {
  char instance[CLUSTER_INSTANCE_BYTES];
  char node[NAME_BYTES_MAX + 1];
  char uri[CLUSTER_URI_BYTES];
  uint64_t pid;
  bool writable;
  struct cluster_part part; /* writable: length 0: all, alone */
  bool
    leases; /* writable: beside others, by leases; part is the whole array then */
  bool service;  /* to serve the array; it stands by while another does */
  bool takeover; /* from a holder that lives, too */
  bool by_admin; /* an administrator asks, and no node for itself */
  bool exports;  /* it listens for clients on other hosts */
  bool pools;    /* it can serve volumes of a pool */
  bool scans;    /* it can scan one */
  /* a session of this node whose process is known to have ended; 0: none */
  uint64_t ended;
};

struct cluster_session_heartbeat {
  char instance[CLUSTER_INSTANCE_BYTES];
  uint64_t epoch;
  uint64_t arrived;  /* see struct cluster_session; 0: it does not say */
  uint64_t prepared; /* see struct cluster_session */
  char process[CLUSTER_PROCESS_BYTES]; /* see struct cluster_session */
  uint64_t round; /* the last complete one (array_round); 0: it does not say */
  uint64_t round_entered; /* array_round_entered; 0: it does not say */
  bool older; /* its resync takes an older copy: the newest can't be read */
  bool equal; /* its resync is over: copies are equal, and stable */
  uint64_t fences; /* see struct cluster_session */
  bool has_uri;
  char uri[CLUSTER_URI_BYTES];
  bool same_stats; /* as in the heartbeat before */
  bool has_stats;
  struct array_stats stats;
  bool draining;
  uint64_t order; /* see struct cluster_lessee */
  uint64_t
    volumes; /* the last number of cluster_session_volumes that was answered */
  uint64_t wait_ms;
};

/* The leases that a session reports.  All of it may be empty.  The lists are
 * the caller's.
 */
struct cluster_lease_ask {
  struct cluster_part must, wish; /* wish contains must */
};
struct cluster_lease_message {
  char instance[CLUSTER_INSTANCE_BYTES];
  uint64_t
    number; /* of what is given back, declared and recovered; 0: nothing is */
  bool declare;
  struct cluster_part *declared, *given;
  unsigned declared_count, given_count;
  uint64_t recovered; /* the order that is carried out; 0: none */
  uint64_t
    ended; /* a session, of which its node knows that the process has ended; 0:
                     none */
  struct cluster_lease_ask ask[LEASE_ASKS_MAX];
  unsigned asks;
  uint64_t wait_ms; /* how long it may wait for what it asks */
};

/* A session's message about the volumes of its pool.  The lists are the caller's. */
struct cluster_volume_report {
  uint8_t uuid[16];
  uint32_t want, log, near; /* segments; `log` of them are for its log */
  struct cluster_run *give;
  unsigned give_count;
  bool says;
  struct cluster_volume_said said;
};
struct cluster_order_done {
  uint64_t number;
  char error[CLUSTER_REASON_BYTES]; /* why it was not carried out; "": it was */
};
struct cluster_volumes_message {
  char instance[CLUSTER_INSTANCE_BYTES];
  uint64_t
    number;       /* one more than that of the last message that was answered */
  bool formatted; /* the pool has its header */
  struct cluster_volume_report *volume;
  unsigned volumes;
  struct cluster_order_done *done;
  unsigned dones;
};
#define VOLUMES_TOLD_MAX 64 /* in one message; and orders that are done */

/* A message of a scan (cluster-scan.c).  The lists are the caller's. */
struct cluster_found_volume {
  unsigned root;
  struct cluster_found found;
  struct cluster_run *run;
  unsigned runs;
};
struct cluster_scan_message {
  char instance[CLUSTER_INSTANCE_BYTES];
  bool begin, end;
  uint64_t
    segment_bytes; /* of the header; 0: it does not say, or there is none */
  struct cluster_found_volume *volume;
  unsigned volumes;
};

struct cluster;

/* NULL: out of memory. */
struct cluster *cluster_new (void);
void cluster_free (struct cluster *c);

/* Hand in every stored record, in any order, then start once.  Each returns 0,
 * or -1 with a sentence in why.  A cluster without an identity record is new
 * and takes in->random as its UUID.
 */
int cluster_load (struct cluster *c, const struct cluster_record *r, char *why,
                  size_t why_size);
int cluster_start (struct cluster *c, const struct cluster_input *in, char *why,
                   size_t why_size);

void cluster_disk_heartbeat (struct cluster *c, const struct cluster_input *in,
                             const struct cluster_disk_heartbeat *hb);
void cluster_disk_forget (struct cluster *c, const struct cluster_input *in,
                          const uint8_t uuid[16]);
/* A silent disk may be served by this node from now on: it was carried there. */
void cluster_disk_move (struct cluster *c, const struct cluster_input *in,
                        const uint8_t uuid[16], const char *node);
/* Give a disk another key, from `in`: at once, or as soon as that disturbs no
 * session.  Connections by the present key are closed then.
 */
void cluster_disk_rekey (struct cluster *c, const struct cluster_input *in,
                         const uint8_t uuid[16]);

void cluster_array_create (struct cluster *c, const struct cluster_input *in,
                           const struct cluster_create *create);
void cluster_array_delete (struct cluster *c, const struct cluster_input *in,
                           const char *name);
/* Would cluster_array_create accept this?  Changes nothing.  Returns 0 and fills
 * *array (its record, disks and layout; there is nothing to free), or -1 with
 * *problem filled.
 */
int cluster_array_plan (struct cluster *c, const struct cluster_create *create,
                        struct cluster_array *array,
                        struct cluster_problem *problem);

void cluster_attach (struct cluster *c, const struct cluster_input *in,
                     const char *name, const struct cluster_attach *attach);
void cluster_session_heartbeat (struct cluster *c,
                                const struct cluster_input *in, uint64_t id,
                                const struct cluster_session_heartbeat *hb);
/* Answered with CLUSTER_REPLY_LEASES; 409 "declare": the session is to say all of its
 * leases first; 409 "leases-wait": others have what it asks for, ask again.
 */
void cluster_session_leases (struct cluster *c, const struct cluster_input *in,
                             uint64_t id,
                             const struct cluster_lease_message *message);
/* answers: the session reaches the member, which answers with errors.  waited_ms: the wait
 * of the session's oldest request that needs the member.
 */
void cluster_session_lost (struct cluster *c, const struct cluster_input *in,
                           uint64_t id, unsigned member, uint64_t round,
                           bool answers, uint64_t waited_ms,
                           const char *reason);
void cluster_session_detach (struct cluster *c, const struct cluster_input *in,
                             uint64_t id);
/* End a session against its host's will.  by: the one who orders it, for people
 * ("administrator kim").
 */
void cluster_session_evict (struct cluster *c, const struct cluster_input *in,
                            uint64_t id, const char *by);

/* ---- Who may attach (cluster-access.c). ---- */

/* The node's line in the list; NULL: it has none. */
const struct cluster_allow *
cluster_allowed_find (const struct cluster_allow_list *list, const char *node);
/* May the node attach the array?  May it take it from a holder that is heard? */
bool cluster_allowed (const struct cluster_array *a, const char *node,
                      bool writable);
bool cluster_allowed_failover (const struct cluster_array *a, const char *node);
/* Why it may not attach it, and the way out. */
void cluster_allowed_why (const struct cluster_array *a, const char *node,
                          bool writable, char *text, size_t size);

/* Let a node attach the array, as this line says; or forbid it, and end its
 * sessions.  by: as for cluster_session_evict.  Each is answered with
 * CLUSTER_REPLY_ARRAY.
 */
void cluster_allow_set (struct cluster *c, const struct cluster_input *in,
                        const char *array, const struct cluster_allow *allow,
                        const char *by);
void cluster_allow_drop (struct cluster *c, const struct cluster_input *in,
                         const char *array, const char *node, const char *by);

/* ---- Pools and their volumes (docs/DESIGN.md 12.1).  The process that has attached a pool
 * serves its volumes.  weftd grants segments for them to the process, and gives it orders
 * for them.
 */

/* Answered with CLUSTER_REPLY_VOLUME. */
void cluster_volume_create (struct cluster *c, const struct cluster_input *in,
                            const char *array, const char *name, uint64_t size);
/* Answered when the process that has the pool has carried it out. */
void cluster_volume_resize (struct cluster *c, const struct cluster_input *in,
                            const char *array, const char *name, uint64_t size);
/* Answered with CLUSTER_REPLY_DONE when the volume is gone; or with CLUSTER_REPLY_VOLUME
 * if no process has the pool, and the next one is to delete it.
 */
void cluster_volume_delete (struct cluster *c, const struct cluster_input *in,
                            const char *array, const char *name);
/* A process is to open it: answered with CLUSTER_REPLY_OPENED. */
void cluster_volume_open (struct cluster *c, const struct cluster_input *in,
                          uint64_t session, const char *instance,
                          const char *name);
/* A report of a process about its volumes, with requests for segments: answered with
 * CLUSTER_REPLY_VOLUMES.
 */
void cluster_session_volumes (struct cluster *c, const struct cluster_input *in,
                              uint64_t id,
                              const struct cluster_volumes_message *message);

/* Volumes that it has found in the pool: answered with CLUSTER_REPLY_SCANNED. */
void cluster_session_scan (struct cluster *c, const struct cluster_input *in,
                           uint64_t id,
                           const struct cluster_scan_message *message);

/* NULL: there is none, or the array is no pool. */
struct cluster_volume *cluster_volume_find (const struct cluster_array *a,
                                            const char *name);
/* All segments of the volume; the caller frees the list. */
struct cluster_run *cluster_volume_runs (const struct cluster_array *a,
                                         const struct cluster_volume *v,
                                         unsigned *count);
/* The volumes for which there are orders, by the orders' numbers; the caller frees the list. */
const struct cluster_volume **
cluster_volume_orders (const struct cluster_array *a, unsigned *count);
/* The answer to the message of this number: the next volume that was granted something,
 * or NULL.
 */
const struct cluster_volume *
cluster_volume_granted (const struct cluster_session *s, uint64_t number,
                        const struct cluster_volume *before);
const char *cluster_volume_state_word (enum cluster_volume_state state);
int cluster_volume_state_parse (const char *word); /* -1: none */
const char *cluster_pool_state_word (enum cluster_pool_state state);
int cluster_pool_state_parse (const char *word);

/* Figures of a pool, in bytes.  total: all that can be granted; promised: the sizes of
 * its volumes; mapped, log, spare: of what is granted, as processes say (the rest of it
 * is not known to be any of these).
 */
struct cluster_pool_figures {
  uint64_t total, free, granted, mapped, log, spare, promised;
};
void cluster_pool_figures (const struct cluster_array *a,
                           struct cluster_pool_figures *f);

/* ---- The array service: one process of the candidates' serves an array to all who
 * want it, and the others stand by (cluster-candidates.c).  Each of these is answered
 * with CLUSTER_REPLY_ARRAY.
 */

struct cluster_service {
  unsigned nodes;
  char node[SERVICE_NODES_MAX][NAME_BYTES_MAX + 1];
};
void cluster_service_set (struct cluster *c, const struct cluster_input *in,
                          const char *array,
                          const struct cluster_service *service);
/* The serving process must stop, and no other process serves then. */
void cluster_service_drop (struct cluster *c, const struct cluster_input *in,
                           const char *array);
/* Let this node serve, as soon as the serving process has detached. */
void cluster_service_move (struct cluster *c, const struct cluster_input *in,
                           const char *array, const char *node);
/* This client says whether it reaches this session, which serves. */
void cluster_service_heard (struct cluster *c, const struct cluster_input *in,
                            const char *array, const char *client,
                            uint64_t session, bool reached);
/* A sentence: which client does not reach the process that serves, and what is waited
 * for.  False: there is no such client.
 */
bool cluster_reach_words (const struct cluster *c,
                          const struct cluster_array *a, char *text,
                          size_t size);
/* Sentences: the sessions that have lost this member, and those that reach it,
 * so that people see whether the member or the line to it is at fault.  False:
 * no session has lost it, it is not clear yet, or its disk is known to be at
 * fault.
 */
bool cluster_member_line (const struct cluster *c,
                          const struct cluster_array *a, unsigned member,
                          char *text, size_t size);
/* Does a process of this candidate stand by? */
bool cluster_service_stands_by (const struct cluster *c,
                                const struct cluster_array *a, unsigned i);
/* Has this node an in-sync member of the array? */
bool cluster_service_beside (const struct cluster_array *a, const char *node);

/* ---- Nodes: see cluster-node.c and cluster-drain.c. ---- */

/* Make a record of a node that has just enrolled. */
void cluster_node_add (struct cluster *c, const struct cluster_input *in,
                       const char *name);
/* It has asked for a service, of which it is a client: make a record of it, if there is
 * none, and room for one.  Where nodes enroll they have one.
 */
void cluster_node_asks (struct cluster *c, const struct cluster_input *in,
                        const char *name);
/* force: also where that makes data unreachable as soon as the node stops. */
void cluster_node_maintain (struct cluster *c, const struct cluster_input *in,
                            const char *name, bool on, bool force);
/* Begin (on) or stop moving all members of the node elsewhere.  Beginning is
 * answered with CLUSTER_REPLY_JOB.
 */
void cluster_node_drain (struct cluster *c, const struct cluster_input *in,
                         const char *name, bool on);
/* Fence the node (on): its sessions end, and after the answer no member and no
 * serving process carries out a request of the node; or admit it again, with
 * processes that are started there from then on.  by: as for
 * cluster_session_evict.
 */
void cluster_node_fence (struct cluster *c, const struct cluster_input *in,
                         const char *name, bool on, const char *by);
/* The number of the newest fence, or of the newest change of an array's list of
 * nodes.
 */
uint64_t cluster_fence_number (const struct cluster *c);
/* Does its process serve other hosts, and is it told of fences and of changes of the list? */
bool cluster_session_guarded (const struct cluster_session *s);
/* Processes that were started on the node before this number are refused; 0:
 * none.
 */
uint64_t cluster_node_fenced_below (const struct cluster_node *n);
/* Forget the node and its disks. */
void cluster_node_remove (struct cluster *c, const struct cluster_input *in,
                          const char *name);
/* The node is no longer trusted: its sessions end, heartbeats of its disks are
 * refused, and their members go out where no data is lost by that.  by: as for
 * cluster_session_evict.  Answered when all members have confirmed that they
 * refuse it, or after some seconds.  While weftd takes no changes, it informs
 * members, and does the rest when it takes changes again.
 */
void cluster_node_shut_out (struct cluster *c, const struct cluster_input *in,
                            const char *name, const char *by);
/* Has the member not confirmed yet that it refuses all sessions that an administrator
 * has ended?
 */
bool cluster_shut_unconfirmed (const struct cluster_array *a, unsigned member);
/* The number of the session by which a joining member reads from the others. */
uint64_t cluster_shut_source (const struct cluster_array *a, unsigned member);
/* Is there a record, a disk or a session of the node? */
bool cluster_node_known (const struct cluster *c, const char *name);
/* Has every member left the node, and is each in-sync elsewhere? */
bool cluster_node_drained (const struct cluster *c, const char *name);
/* The reason for which the node's drain waits; false: it does not wait, or
 * there is no drain.  *passes (may be NULL): the reason will pass by itself.
 */
bool cluster_node_waits (const struct cluster *c, const char *name, char *text,
                         size_t size, bool *passes);
/* The members that are to leave the node, and that don't move now; free the list.
 * *moving: others do move.
 */
struct cluster_stay {
  const struct cluster_array *array;
  unsigned member;
  bool moved;      /* it has left, and its rebuild elsewhere does not go on */
  bool passes;     /* the reason to wait passes by itself */
  char waits[768]; /* the reason to wait */
};
struct cluster_stay *cluster_node_stays (const struct cluster *c,
                                         const char *name, size_t *count,
                                         bool *moving);

/* ---- Members: each is answered with CLUSTER_REPLY_ARRAY. ---- */

/* Give the place of a member to another disk: at once, if it is out or joining; if it is
 * in-sync, as soon as all others of its group are (cluster-drain.c).  Its own disk: call
 * such a move off.  force: also a disk of a host whose loss then loses data.
 */
void cluster_member_replace (struct cluster *c, const struct cluster_input *in,
                             const char *array, unsigned member,
                             const uint8_t disk[16], bool force);
/* End a member's rebuild: it is out, and stays so until cluster_member_join. */
void cluster_member_cancel (struct cluster *c, const struct cluster_input *in,
                            const char *array, unsigned member);
/* Take a member back that an administrator has kept out. */
void cluster_member_join (struct cluster *c, const struct cluster_input *in,
                          const char *array, unsigned member);
/* Pause a member's rebuild and set its limits, for now or for later. */
struct cluster_member_tune {
  bool has_paused, paused;
  bool has_floor, has_ceiling;
  uint64_t floor, ceiling;
};
void cluster_member_tune (struct cluster *c, const struct cluster_input *in,
                          const char *array, unsigned member,
                          const struct cluster_member_tune *tune);

void cluster_spare_add (struct cluster *c, const struct cluster_input *in,
                        const char *array, const uint8_t disk[16]);
void cluster_spare_drop (struct cluster *c, const struct cluster_input *in,
                         const char *array, const uint8_t disk[16]);
struct cluster_array_tune {
  bool has_spare_after, has_slow_out;
  uint64_t spare_after_ms, slow_out_ms;
};
void cluster_array_tune (struct cluster *c, const struct cluster_input *in,
                         const char *array,
                         const struct cluster_array_tune *tune);

/* The loss of bad ranges is accepted: they become zeroes.  The session that
 * writes there gets the order once; it writes zeroes block by block, only where
 * no copy can be read.  When it is done, the ranges are in no member's list any
 * more.
 */
struct cluster_loss {
  uint64_t number; /* greater than that of any other */
  uint64_t epoch; /* the array's when it was accepted; in others nothing becomes
                       zeroes, but copies that can be read mend others */
  uint64_t live_ms; /* when it was accepted */
  unsigned count;
  struct {
    uint64_t offset, length; /* whole blocks, of the array */
  } range[LOSS_RANGES_MAX];
};
void cluster_array_accept_loss (struct cluster *c,
                                const struct cluster_input *in,
                                const char *array,
                                const struct cluster_loss *loss);
/* The next order for this session; NULL: none. */
const struct cluster_loss *
cluster_session_loss (const struct cluster *c, const struct cluster_session *s);

/* Import an array from its members, when the database is lost.  Only a weftd
 * without arrays of its own does that; it takes the identity of the members'
 * cluster.  Refused heartbeats show which arrays can be imported: each disk
 * that sent one is a cluster_foreign.
 */
struct cluster_foreign {
  TAILQ_ENTRY (cluster_foreign) link;
  struct cluster_disk_heartbeat hb; /* its last */
  uint64_t first_live_ms, last_live_ms;
  uint64_t
    ahead; /* the highest round that another in-sync member of the same array
                     had said before its last heartbeat */
};
TAILQ_HEAD (cluster_foreigns, cluster_foreign);
const struct cluster_foreigns *cluster_foreigns (const struct cluster *c);
struct cluster_import {
  char name[NAME_BYTES_MAX + 1];
  uint8_t array[16];
  bool without[ARRAY_MEMBERS_MAX]; /* members that are given up */
  bool accept_loss; /* of what disks may have that are not there */
};
void cluster_array_import (struct cluster *c, const struct cluster_input *in,
                           const struct cluster_import *import);
/* weftd was restored from a backup, and this array waits for members, or for a word about
 * which disk is the right one: go on with what is there (cluster-restore.c).
 */
void cluster_array_restore (struct cluster *c, const struct cluster_input *in,
                            const struct cluster_import *order);
/* Certificates that were revoked since the backup was made are revoked again.
 */
void cluster_restore_confirm (struct cluster *c,
                              const struct cluster_input *in);

/* ---- Jobs: long-running work, derived from all the rest.  ---- */

TAILQ_HEAD (cluster_jobs, cluster_job);
const char *cluster_job_kind_word (enum cluster_job_kind kind);
const char *cluster_job_state_word (enum cluster_job_state state);
int cluster_job_kind_parse (const char *word); /* -1: none */
int cluster_job_state_parse (const char *word);

/* All jobs under way, and those that ended within a day; the caller frees the
 * list.
 */
struct cluster_job *cluster_jobs (const struct cluster *c, size_t *count);
/* Fill in the job that is the drain of this node. */
void cluster_job_drain (const struct cluster *c, const struct cluster_node *n,
                        struct cluster_job *job);
/* The reason for which the rebuild of a joining member waits; false: none. */
bool cluster_join_waits (const struct cluster *c, const struct cluster_array *a,
                         unsigned member, char *text, size_t size);
/* How long the rebuild will still take, as measured; 0: not known (yet). */
uint64_t cluster_join_eta_ms (const struct cluster *c,
                              const struct cluster_array *a, unsigned member);

/* When a spare will replace a member that is out, by the wall clock; or 0. */
uint64_t cluster_member_spare_wall_ms (const struct cluster *c,
                                       const struct cluster_array *a,
                                       unsigned member);

/* The order to a joining member, for the reply to its heartbeat; false: not
 * yet.
 */
bool cluster_join_order (const struct cluster *c, const struct cluster_array *a,
                         unsigned member, struct cluster_join_order *order);

/* Did the disk get tokens of new sources in this joining since the last call?
 * *text: which member reads which data, and why.
 */
bool cluster_join_granted (struct cluster *c, const uint8_t disk[16],
                           char *text, size_t size);

/* The time has gone on.  Called about four times a second (CLUSTER_TICK_MS),
 * after all waiting input was handled: silence is counted in ticks, and a tick
 * counts for at most 2 * CLUSTER_TICK_MS however long ago the last one was.  A
 * node or session whose last answer has not left yet, because the store is
 * behind, does not count as silent.
 */
#define CLUSTER_TICK_MS 250
void cluster_tick (struct cluster *c, const struct cluster_input *in);

/* Does somebody wait for a session to learn something from the answer to its heartbeat?
 * Then heartbeats are answered at once, and not at the next tick.
 */
bool cluster_hurry (const struct cluster *c);

/* The next step, or NULL.  Free it with cluster_step_free. */
struct cluster_step *cluster_next_step (struct cluster *c);
void cluster_step_free (struct cluster_step *s);

/* Sets the warning about little room for the store; "" clears it. */
void cluster_note_room (struct cluster *c, const char *text);
/* Sets the warning that weftd's database may be older than a revocation; "" clears it. */
#define CLUSTER_DOUBT_BYTES 1024
void cluster_note_doubt (struct cluster *c, const char *text);
/* Sets the warning about the audit log; "" clears it. */
void cluster_note_audit (struct cluster *c, const char *text);
bool cluster_revoked_doubted (const struct cluster *c);

/* ---- For reading. ---- */

TAILQ_HEAD (cluster_disks, cluster_disk);
TAILQ_HEAD (cluster_arrays, cluster_array);
TAILQ_HEAD (cluster_sessions, cluster_session);
TAILQ_HEAD (cluster_nodes, cluster_node);
const struct cluster_identity *cluster_identity (const struct cluster *c);
const struct cluster_disks *cluster_disks (const struct cluster *c);
const struct cluster_arrays *cluster_arrays (const struct cluster *c);
const struct cluster_sessions *cluster_sessions (const struct cluster *c);
/* The nodes that have a record. */
const struct cluster_nodes *cluster_nodes (const struct cluster *c);
/* NULL: there is no record of that node. */
struct cluster_node *cluster_node_find (const struct cluster *c,
                                        const char *name);
struct cluster_disk *cluster_disk_find (const struct cluster *c,
                                        const uint8_t uuid[16]);
struct cluster_array *cluster_array_find (const struct cluster *c,
                                          const char *name);
struct cluster_session *cluster_session_find (const struct cluster *c,
                                              uint64_t id);

/* The resource for lack of which the disk refuses writes (cluster-room.c); NULL: none. */
const char *cluster_room_short (const struct cluster_disk *d);

enum cluster_unequal {
  UNEQUAL_NONE,       /* but for what a session writes just now */
  UNEQUAL_FIXED,      /* a session is resynchronizing the copies */
  UNEQUAL_LEFT,       /* nobody does */
  UNEQUAL_GIVEN_BACK, /* a member was given back, and joins again */
};
/* Up to how many bytes may differ between copies, because a session has ended or is silent,
 * or a member was given back?  *by: the session that resynchronizes them.
 */
enum cluster_unequal cluster_array_unequal (const struct cluster_array *a,
                                            uint64_t *bytes,
                                            const struct cluster_session **by);

/* Ms since the disk (the session) was last heard, or since weftd started. */
uint64_t cluster_disk_silent_ms (const struct cluster *c,
                                 const struct cluster_disk *d);
uint64_t cluster_session_silent_ms (const struct cluster *c,
                                    const struct cluster_session *s);

/* Does this member (session) send heartbeats, and has not said for some seconds what the
 * array waits for?  Then a sentence: who, what, for how long, and what follows.
 */
bool cluster_member_owes (const struct cluster_array *a, unsigned member,
                          char *text, size_t size);
bool cluster_session_owes (const struct cluster_session *s, char *text,
                           size_t size);

/* The epoch below which the disk is to refuse requests; 0: no member. */
uint64_t cluster_disk_min_epoch_wanted (const struct cluster_disk *d);

/* The key that weftd sends to the process that serves the disk now. */
void cluster_disk_key (const struct cluster_disk *d, uint8_t key[KEY_BYTES]);
/* Is it to get another key, or has its process not shown yet that it has it? */
bool cluster_disk_rekeys (const struct cluster_disk *d);
/* The key with which tokens for a member are made.  If the member was started again
 * and the writer does not know that yet, it is still the former process's key:
 * writable, for the writer itself; else, for others, while the writer lives.
 */
void cluster_member_key (const struct cluster *c, const struct cluster_array *a,
                         unsigned member, bool writable,
                         uint8_t key[KEY_BYTES]);

/* The session's token for a member, of the committed epoch: for the certificate of its
 * node alone, unless an administrator has attached it.
 */
void cluster_member_token (const struct cluster *c,
                           const struct cluster_array *a, unsigned member,
                           const struct cluster_session *s,
                           char text[TOKEN_BYTES_MAX + 1]);
/* The same, of another member that joins: for what it needs there, and for the
 * certificate of its node, if it has spoken by that.  session: cluster_shut_source.
 */
void cluster_source_token (const struct cluster *c,
                           const struct cluster_array *a, unsigned member,
                           unsigned joining, uint64_t session,
                           char text[TOKEN_BYTES_MAX + 1]);

/* The content of an answer to a disk's heartbeat.  no_news: the heartbeat had
 * `same` set.
 */
struct cluster_disk_told {
  uint64_t generation;
  uint8_t cluster[16];
  uint64_t min_epoch; /* below which it is to refuse requests; 0: no member */
  bool releases;
  uint8_t release[16]; /* the array that it is to forget */
  const struct cluster_array
    *place; /* of which it is a member; NULL: of none */
  unsigned position;
  bool same; /* it knows its place, the states there and its key: the answer
                leaves them out */
  uint8_t key[KEY_BYTES];
  unsigned over_count; /* sessions that are over */
  struct cluster_over over[OVER_TOLD_MAX];
  bool joins; /* there is an order for it */
  struct cluster_join_order order;
};
void cluster_disk_told (const struct cluster *c, const struct cluster_disk *d,
                        bool no_news, struct cluster_disk_told *r);

/* The content of an answer to a session's heartbeat or report.  epoch: in which
 * the session works, as the heartbeat says; 0: it does not say.  no_news: as
 * for cluster_disk_told.
 */
struct cluster_session_told {
  uint64_t generation;
  uint64_t epoch; /* of the array */
  bool same;      /* the session knows the states: the answer leaves them out */
  bool has_map;   /* the answer has the map of the members, with tokens */
  const struct cluster_change *change; /* the session is to prepare itself for
                                          this one; NULL: for none */
  bool leave;  /* another is to serve the array: detach */
  bool hold;   /* it is to read nothing that others may write */
  bool fences; /* it is to refuse clients of nodes that are fenced */
};
void cluster_session_told (const struct cluster *c,
                           const struct cluster_array *a,
                           const struct cluster_session *s, uint64_t epoch,
                           bool no_news, struct cluster_session_told *r);

/* The leases' part of the answer to a session's heartbeat; the caller frees
 * both lists.  recover: the number of an order that the session does not know
 * yet.
 */
struct cluster_lease_told {
  struct cluster_lease_ask *revoke;
  unsigned revokes;
  uint64_t recover;
  struct cluster_part *ranges;
  unsigned count;
};
void cluster_lease_told (const struct cluster *c, const struct cluster_array *a,
                         const struct cluster_session *s,
                         struct cluster_lease_told *told);

/* The holders of leases, for people: the array in LEASE_CELLS cells of
 * `cell_bytes` each.  False: no session shares the array by leases.
 */
#define LEASE_CELLS 256
#define LEASE_MINUTES 5
struct cluster_lease_cell {
  uint64_t holder; /* the session that has the most of it; 0: nobody has any */
  uint64_t held_bytes;   /* by that one */
  uint64_t other_bytes;  /* by all others */
  uint64_t orphan_bytes; /* to be recovered */
  /* In the last LEASE_MINUTES minutes: asks that met others' leases, and leases that
   * were asked back.
   */
  unsigned conflicts, revokes;
};
struct cluster_lease_map {
  uint64_t cell_bytes;
  unsigned leases, waiting; /* spans; asks that wait */
  uint64_t held_bytes, orphan_bytes;
  uint64_t conflicts, revokes; /* since weftd's start */
  uint64_t recoverer;          /* the session that recovers; 0: none does */
  unsigned undeclared;         /* sessions that have not said what they hold */
  struct cluster_lease_cell cell[LEASE_CELLS];
};
bool cluster_lease_map (const struct cluster *c, const struct cluster_array *a,
                        struct cluster_lease_map *map);

/* Does all of this range lie in the part?  Have two parts bytes in common? */
bool cluster_part_has (const struct cluster_part *part, uint64_t offset,
                       uint64_t length);
bool cluster_parts_meet (const struct cluster_part *a,
                         const struct cluster_part *b);
/* The sessions that write the array, one after the other; s: the last one, or NULL for
 * the first.  There are several where each has a part of the array.
 */
struct cluster_session *cluster_writer_next (const struct cluster_array *a,
                                             const struct cluster_session *s);
/* The first of them, or NULL: does anybody write? */
struct cluster_session *cluster_array_writer (const struct cluster_array *a);

/* Is the member far slower than its peers, as writers report?  *us: its time
 * for a request, *peers_us: the peers' time.
 */
bool cluster_member_slow (const struct cluster_array *a, unsigned member,
                          uint64_t *us, uint64_t *peers_us);
/* The same of any member of which a writer has said it; *peers_us is 0 where nothing is
 * known of its peers.
 */
bool cluster_member_latency (const struct cluster_array *a, unsigned member,
                             uint64_t *us, uint64_t *peers_us);
/* Is this member of use: in-sync, heard since weftd's start, and well?  Otherwise
 * *why gets a constant phrase ("is out", "is silent").
 */
bool cluster_member_well (const struct cluster_array *a, unsigned member,
                          const char **why);

/* One word: "creating", "ready", "rebuilding", "degraded", "failed". */
const char *cluster_array_state (const struct cluster_array *a);

/* *exposed: bytes with fewer copies than the layout makes, because members are
 * out or silent, or have not copied them yet; *unreachable: bytes with none just
 * now; *lost: bytes with none even if every silent member comes back.  Any may be
 * NULL.
 */
void cluster_array_exposure (const struct cluster_array *a, uint64_t *exposed,
                             uint64_t *unreachable, uint64_t *lost);

/* The failures that the array survives now, for people; as layout_survives
 * while no member is missing.
 */
void cluster_array_survives (const struct cluster_array *a, char *text,
                             size_t size);

/* The loss of how many hosts, whichever they are, does the array survive while its members
 * are in-sync?  *together (may be NULL) gets the bytes that have all of their copies on
 * one host; 0 where there is one copy of each.
 */
unsigned cluster_array_hosts_survived (const struct cluster_array *a,
                                       uint64_t *together);

/* A range of the array that some member has in its list of bad ranges.  copy_left:
 * an in-sync member has a copy that is in no list (though it could not be read when
 * the range was put in the others' lists).  copy_out: a member that is out, or
 * joining, may have a copy.
 */
struct cluster_bad {
  uint64_t offset, length;
  unsigned reason; /* enum bad_reason */
  unsigned members, member[COPIES_MAX];
  bool copy_left, copy_out;
};
/* The bad ranges of an array, ascending, none twice; the caller frees *list.
 * Returns how many there are.
 */
size_t cluster_array_bad (const struct cluster_array *a,
                          struct cluster_bad **list);
uint64_t cluster_array_bad_bytes (const struct cluster_array *a);
bool cluster_array_bad_any (const struct cluster_array *a);
/* Could it not be read on a member alone, so that the writer copies it from another? */
bool cluster_bad_mended (const struct cluster_bad *bad);

/* The reason for which the array waits, as a sentence; false: none. */
bool cluster_array_waits_for (const struct cluster *c,
                              const struct cluster_array *a, char *text,
                              size_t size);

/* The ask for leases that waits longest, if it waits for seconds: its session,
 * its range, for how long, and why.  False: there is none.
 */
bool cluster_lease_waits (const struct cluster *c,
                          const struct cluster_array *a, char *text,
                          size_t size);

/* The state of the cluster in a few sentences: problems, possible losses,
 * advice.
 */
enum cluster_severity cluster_verdict (const struct cluster *c, char *text,
                                       size_t size);

/* The round of a member's disk, as weftd sends it to a writer. */
uint64_t cluster_member_round (const struct cluster_array *a, unsigned member);
/* Requests to the member in this epoch and later ones went to the process that
 * serves it now.
 */
uint64_t cluster_member_life (const struct cluster_array *a, unsigned member);
/* The round that its disk had noted when that process was met. */
uint64_t cluster_member_life_round (const struct cluster_array *a,
                                    unsigned member);
/* Was its process in-sync while the last writer wrote, so that its disk is as it was?  For
 * one of several that write: has it been so while any of them wrote?
 */
bool cluster_member_known (const struct cluster_array *a, unsigned member,
                           const struct cluster_session *s);

/* Is the array frozen, because it is not known whether a node lies or weftd's
 * database is old? Then text (which may be NULL) names the node and its report.
 */
bool cluster_array_doubted (const struct cluster *c,
                            const struct cluster_array *a, char *text,
                            size_t size);

/* Why weftd takes no changes (its database is an old one), or NULL. */
const char *cluster_read_only (const struct cluster *c);

/* Asserts every invariant; for tests. */
void cluster_check (const struct cluster *c);

#endif /* WEFT_CLUSTER_H */
