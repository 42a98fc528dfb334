/* world.h: the simulator of the whole: weftd, members and array processes, with
 * the four engines of core/ unmodified, in one process.
 *
 *   world.c    a run's parts, the clock's events, processes
 *   net.c      which parties reach each other; calls to weftd; connections to members
 *   disk.c     a virtual disk: data in grains behind a volatile cache, a header
 *   weftd.c    the cluster engine with a store     weftd-reply.c its answers
 *   disk-role.c  a member process: header, heartbeats   doors.c its doors
 *   puller.c   the rebuild, in a member process that is joining
 *   host.c     an array process   peers.c  its connections to members
 *   resync.c   its resync before it admits clients   parts.c  where it may write
 *   leases.c   its leases
 *   clients.c  the workload      oracle.c the answers that clients may get
 *   oracle-shared.c, zones.c     the same, where leases come and go
 *   oracle-ends.c  checks that only a faulty session is ended
 *   check.c    invariants
 *   faults.c, admins.c, databases.c, copies.c, hangs.c, sick.c, readers.c  faults:
 *     see faults.h
 *
 * The shells (weftd, disk-role, doors, puller, host, peers, resync) do in the small
 * what server/ and plugin/ do.
 *
 * Only some grains of the array are ever used, the hot ones: a few areas, most
 * of them across the border of two stripe units.  A disk holds nothing else.
 */

#ifndef WEFT_WORLD_H
#define WEFT_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "array/array.h"
#include "format/batch.h"
#include "cluster/cluster.h"
#include "format/format.h"
#include "host/host.h"
#include "host/lessee.h"
#include "host/seats.h"
#include "layout/layout.h"
#include "member/member.h"
#include "member/pulse.h"
#include "sim.h"
#include "format/token.h"

#define US UINT64_C (1000)
#define MS UINT64_C (1000000)
#define SECOND (1000 * MS)

#define HOSTS_MAX 5
#define PLACES_MAX 8            /* members of the array */
#define DISKS_MAX 13            /* copies of disks included, and nobody's */
#define TWINS 2                 /* room for copies of disks */
#define PARTIES (1 + HOSTS_MAX) /* weftd's machine, then the hosts */
#define AREAS_MAX 10
#define OUTSTANDING_MAX 12
#define PIECES_MAX 6          /* of the array, for parts */
#define CLIENTS JUDGE_CLIENTS /* of an array process */
#define LEASES_GRANTED_MAX LEASE_ASKS_MAX

#define ARRAY_NAME "a"

/* ---- Events and processes (world.c) ---- */

struct event {
  void (*happen) (struct event *e); /* frees it, or pushes it again */
};
void event_push (struct event *e, uint64_t delay);

struct process {
  const char *kind;
  unsigned number;
  unsigned party;
  uint64_t life;         /* of each start another; 0: it does not run */
  uint64_t frozen_until; /* SIGSTOP */
};
uint64_t process_start (struct process *p);
#define TRACE(p, ...) process_trace (p, __VA_ARGS__)
void process_trace (const struct process *p, const char *fmt, ...)
  __attribute__ ((format (printf, 2, 3)));

/* Call fn (owner) later, if the process still runs then. */
void process_after (struct process *p, uint64_t delay, void (*fn) (void *),
                    void *owner);
/* Did this life end?  If it is frozen, the event is pushed again. */
enum life { LIFE_GONE, LIFE_FROZEN, LIFE_RUNS };
enum life process_life (const struct process *p, uint64_t life,
                        struct event *e);

void *make (size_t size); /* zeroed */
uint64_t between (uint64_t a, uint64_t b);

/* ---- The hot grains (areas.c) ---- */

struct area {
  uint64_t offset; /* in the array */
  unsigned grains;
  unsigned first; /* the number of its first grain among the hot ones */
};
struct run { /* of a member's data area */
  uint64_t offset, length;
  unsigned slot;  /* of its first grain */
  unsigned grain; /* its first, among the hot ones */
};
struct place { /* a member of the array */
  struct run run[AREAS_MAX * 2 * COPIES_MAX];
  unsigned runs, slots;
  unsigned *grain; /* of each slot */
};
struct copy {
  unsigned member, slot;
};
void areas_choose (void);
void areas_free (void);
/* The slot of a place on a member: it is hot.  place_find: -1 when not. */
unsigned place_slot (unsigned member, uint64_t offset);
int place_find (unsigned member, uint64_t offset);
uint64_t slot_offset (unsigned member, unsigned slot);
uint64_t grain_offset (unsigned grain); /* in the array */
unsigned offset_grain (uint64_t offset);

/* ---- Disks (disk.c) ---- */

#define PENDING_MAX 6
#define GARBAGE UINT64_MAX /* the version of what nobody has written */

struct slot {
  uint64_t now, durable;
  uint64_t
    pending[PENDING_MAX]; /* written, and not stable; the last is `now` */
  unsigned count;
  bool spot;       /* it can't be read before it is written again ... */
  bool spot_stays; /* ... and so it is when its cache is lost */
  bool good;       /* of a copy of a disk: it had what it was to have */
  bool cut;        /* its cache was lost since it was last made whole */
};
struct disk {
  unsigned number;
  uint8_t uuid[16];
  uint64_t data_bytes;
  uint8_t header[INTENT_BLOCKS_OFFSET + INTENT_BLOCK_BYTES];
  uint8_t bad[2 * BAD_SLOT_BYTES]; /* the rest of it */
  uint64_t bits;      /* of the intent map, as it stands in the header */
  int place;          /* -1: never had one */
  struct slot *slots; /* of the place */
  unsigned slots_count;
  bool dead;
  uint64_t slow_from, slow_until, slow_ns; /* each request takes so long */
  uint64_t answered_at;                    /* it completed one */
  /* sick.c */
  unsigned slow_syncs; /* how many times as long as other requests these take */
  uint64_t slow_state, slow_calm, owed_at, found_at, known_at, known_losses,
    waited_at, kept_at;
  unsigned write_errors;          /* the next so many writes or flushes fail */
  unsigned read_errors;           /* reads */
  uint64_t hung_from, hung_until; /* it answers nothing; 0: it never hung */
  uint64_t hang_state, hang_calm; /* hangs.c */
  /* Until then the disk refuses this percentage of writes for want of room; or a layer in
   * front of the member does, of which the member knows nothing.
   */
  uint64_t full_until;
  unsigned full_percent;
  bool full_before;
  uint64_t told_min_epoch; /* the highest in a report to weftd */
  /* Of each host a bit: it has not connected the disk again, to write, since that lost
   * its cache; or since a write or flush failed, or a copy of it was refused.
   */
  unsigned unseen, erred;
#define EVERY_HOST (~0u)
  unsigned boots;  /* how often it lost its power */
  uint64_t copied; /* since then it is not the disk itself; 0: it is */
};
void disk_format (struct disk *d, unsigned number);
void disk_take_place (struct disk *d, unsigned place);
/* A copy holds what a loss of power would leave, or what a program reads. */
void disk_copy (struct disk *copy, const struct disk *d, bool power);
void disk_nobody (struct disk *d, unsigned number); /* there is none */
void disk_free (struct disk *d);
void disk_write (struct disk *d, unsigned slot, uint64_t version, bool fua);
void disk_flush (struct disk *d);
/* It hangs: look again after so many ns, 0 if it does not.  For so long it has, as its
 * process says.
 */
uint64_t disk_hangs (const struct disk *d);
uint64_t disk_stuck_ms (const struct disk *d);
/* sick.c: is it slow, how much longer takes this request, and for how long is its process
 * without an answer of it by that?
 */
bool disk_slow (const struct disk *d);
uint64_t disk_slow_ns (const struct disk *d);
uint64_t disk_slow_stuck_ms (const struct disk *d);
bool disk_fails (struct disk *d);         /* to write or to flush, this time */
bool disk_refuses (const struct disk *d); /* to write, this time */
void disk_header_write (struct disk *d, const struct member_action *a);
/* The power goes; `a` (or NULL) is a header write under way. */
void disk_power_cut (struct disk *d);
void disk_header_torn (struct disk *d, const struct member_action *a);
/* 0 when a superblock is there. */
int disk_load (struct disk *d, struct superblock *sb, bool *mend,
               struct intents *map);
void disk_load_bad (const struct disk *d, struct bad_list *list, bool *mend);
/* Is it in the list of bad ranges, as the process that serves it knows, or the next
 * one will?
 */
bool disk_bad (const struct disk *d, unsigned slot);
/* Lists are about blocks: only where a grain is one, there are bad spots. */
bool disk_spots (void);

/* ---- The network (net.c) ---- */

/* A call to weftd and its answer. */
enum call_kind {
  CALL_DISK,
  CALL_ATTACH,
  CALL_SESSION,
  CALL_LOST,
  CALL_DETACH,
  CALL_CREATE,
  CALL_REPLACE,
  CALL_JOIN,
  CALL_CANCEL,
  CALL_SPARE,
  CALL_TUNE,
  CALL_DRAIN,
  CALL_MAINTAIN,
  CALL_EVICT,
  CALL_REKEY,
  CALL_LEASES,
  CALL_IMPORT,
  CALL_RESTORE,
  CALL_ALLOW,
};
struct answer {
  int status; /* 200, 409 ...; 0: no answer came */
  const char *code;
  bool retry;
  uint64_t retry_after_ms;
  uint64_t epoch;
  enum member_state states[PLACES_MAX];
  /* to a disk */
  struct member_desire desire;
  bool same_place; /* as the report said, and the same key */
  uint8_t key[KEY_BYTES];
  struct cluster_join_order order;
  bool has_order;
  unsigned over_count; /* sessions that are over */
  struct member_over over[OVER_TOLD_MAX];
  /* to an attach that is refused */
  bool held; /* by this session: */
  uint64_t holder, holder_heard_ms;
  char holder_process[CLUSTER_PROCESS_BYTES];
  /* to a session */
  uint64_t session;
  uint64_t change_epoch; /* 0: none that sessions prepare for */
  enum member_state change_states[PLACES_MAX];
  bool has_map, hold;
  uint8_t array[16];
  uint64_t generation;   /* weftd's */
  uint64_t order_number; /* to recover the ranges of the call; 0: none */
  bool declare; /* of a grant: a session that shares by leases must declare its
                 * ranges */
  uint64_t round;       /* the highest of the array that is known */
  struct peer_address { /* for a host, or a joining member */
    unsigned process;   /* the process to ask */
    uint64_t fence;     /* nothing asked in an earlier epoch runs there */
    uint64_t lapse;     /* data not flushed in an earlier one may be gone */
    uint64_t life;      /* since this one the same process serves it */
    uint64_t round, life_round, reach; /* as in common/map.h */
    char data[TOKEN_BYTES_MAX + 9], batch[TOKEN_BYTES_MAX + 9],
      intents[TOKEN_BYTES_MAX + 9]; /* export names */
  } peer[PLACES_MAX];
};
struct call {
  struct event event; /* its arrival, or the answer's */
  enum call_kind kind;
  uint64_t op;
  struct process *from;
  uint64_t life;
  unsigned refs;
  bool over;     /* the caller has its answer, or has given up */
  bool beside;   /* it is for a part, and came to weftd while others wrote */
  uint64_t sent; /* when */
  uint64_t
    met; /* the life of the weftd that was stopped when it came; 0: none */
  void *owner;
  void (*answered) (struct call *c); /* c->answer */
  union {
    struct cluster_disk_heartbeat disk;
    struct cluster_attach attach;
    struct cluster_session_heartbeat session;
    struct cluster_create create;
    struct cluster_import import;
    struct {
      unsigned member;
      uint64_t round;
      bool answers;
      uint64_t waited_ms;
      char reason[160];
      uint8_t disk[16];
    } member;
  };
  struct cluster_array_tune tune;
  uint64_t session_id;
  char node[16]; /* the order: on or off */
  bool on;
  struct cluster_lease_message leases; /* its lists are the call's */
  struct answer answer;
  /* With an answer to a session: ranges to give back, to recover, and granted ones. */
  struct lease_wish *revoke;
  unsigned revokes;
  struct array_range *ranges;
  unsigned ranges_count;
  struct array_range granted[LEASES_GRANTED_MAX];
  unsigned grants;
  struct call *next; /* weftd's */
};
struct call *call_new (struct process *from, enum call_kind kind, void *owner,
                       void (*answered) (struct call *));
void call_send (struct call *c, uint64_t timeout_ms);
void call_answer (struct call *c); /* weftd's side: c->answer is filled */
void call_unref (struct call *c);
void call_refuse (struct call *c); /* weftd is dead, or has died */

/* An NBD connection. */
enum nbd_kind {
  NBD_OPEN,
  NBD_READ,
  NBD_STATUS,
  NBD_CHANGE,
  NBD_FLUSH,
  NBD_INTENTS,
  NBD_ROUND, /* which round has the disk noted? */
  NBD_PULSE  /* for how long has the disk been silent? */
};
struct nbd {
  struct event event; /* the server carries it out */
  struct nbd *next;   /* in a queue of the connection, or of the server */
  struct conn *conn;
  enum nbd_kind kind;
  unsigned refs;
  bool fua;
  uint64_t offset, length;      /* READ */
  struct batch_record *records; /* CHANGE */
  unsigned count;
  /* READ: the answer; STATUS: the same, of every slot of the place; CHANGE: of the
   * WRITE records
   */
  uint64_t *versions;
  unsigned versions_count;
  int error;           /* the answer */
  uint64_t bits;       /* INTENTS: the answer */
  uint64_t round;      /* ROUND: the answer */
  struct array_io *io; /* the client's */
  void *asked;         /* a rebuild's struct copy_request */
  uint64_t sent;
  struct nbd *client_next; /* in the client's list of those in flight */
  /* the server's */
  struct member_request request;
  uint64_t life;
  bool
    rounds; /* it was carried out, but for the round that it brings or wants */
};
struct conn {
  struct process *proc[2]; /* client, server */
  uint64_t life[2];
  struct nbd *queue[2], **tail[2]; /* on the way to that end */
  bool broken;                     /* nothing new gets through */
  bool closed[2];                  /* that end has done with it */
  /* Since then a line has swallowed what is on the way to that end; 0: none has. */
  uint64_t swallowed[2];
  unsigned refs;
  const char *name;
  uint64_t epoch;   /* of its token, */
  uint64_t session; /* and its session, of a host */
  void *owner;      /* the client's */
  void (*answered) (struct conn *c, struct nbd *n);
  void (*broke) (struct conn *c);
  struct door *door; /* the server's */
  struct member_role *server;
  struct nbd *in_flight;     /* the client's */
  struct conn *next, **prev; /* of all */
};
struct conn *conn_new (struct process *from, struct member_role *to,
                       const char *export_name);
/* Which of these it is: it is one of them. */
unsigned conn_place (struct conn *const of[], const struct conn *c);
struct nbd *nbd_new (enum nbd_kind kind);
void nbd_send (struct conn *c, struct nbd *n); /* client: a request */
void nbd_reply (struct nbd *n);                /* server: its answer */
void nbd_unref (struct nbd *n);
void conn_unref (struct conn *c);
void conn_close (struct conn *c, unsigned end); /* by that end */
void conn_break (struct conn *c);               /* by the network */
/* The connections between two parties; PARTIES: any. */
void conn_break_some (unsigned a, unsigned b, unsigned percent);
bool net_cut (unsigned from, unsigned to);
/* A line on which what one party sends to another does not arrive: all, or what has more
 * bytes of data.
 */
struct hole {
  unsigned from, to;          /* parties; 0: there is none */
  const struct process *only; /* only messages that this member sends or gets */
  bool all;
  uint64_t bytes;
};
#define HOLES_MAX 2
bool net_holes (void);
void net_holes_heal (void);
/* Is it a member with anything to send or get by such a line?  A host at the end of one?  Is
 * there one between these two?
 */
bool net_behind (const struct process *member);
bool net_beside (const struct process *host);
bool net_holed (const struct process *host, const struct process *member);
void net_check_empty (void);

/* ---- The roles ---- */

struct join;      /* puller.c */
struct withheld { /* withheld.c */
  uint64_t life;  /* of the process that withholds it; 0: none does */
  bool epochs;    /* that it refuses former epochs, or else ended sessions */
  uint64_t over;  /* the last end of a session that it goes on to confirm */
  uint64_t until, asked_at, calm_at;
};
struct member_role {
  struct withheld withheld;
  struct process proc;
  struct disk *disk;
  struct member *engine; /* NULL: not running */
  char instance[CLUSTER_INSTANCE_BYTES];
  bool listening;
  unsigned actions_in_flight;
  struct action *action; /* header writes under way */
  uint64_t act_at;       /* none is begun before: the last was refused */
  struct nbd *waiting, **waiting_tail; /* to be asked again */
  struct nbd *running;                 /* admitted */
  struct nbd *settling; /* done, but for the list of bad ranges */
  struct door *doors;
  struct call *beat;
  bool beat_due;
  uint64_t beat_at;
  struct cluster_disk_heartbeat said; /* its last report */
  bool taken;                         /* weftd has that */
  struct superblock told;             /* as of the last heartbeat */
  struct answer last;                 /* of weftd's words */
  bool has_last;
  struct join *join;
  unsigned slow; /* times */
  bool pulled;   /* its disk is not in the host: it is not started */
  bool refused;  /* for it has an old copy */
};
void member_start (struct member_role *m);
/* The words and answers of a member that withholds a word (withheld.c). */
void withheld_words (const struct member_role *m,
                     struct cluster_disk_heartbeat *hb);
void withheld_told (struct member_role *m, const struct answer *a);
void member_stop (struct member_role *m, bool power);
void member_unplug (
  struct member_role *m); /* the power goes, whether it runs or not */
void member_act (struct member_role *m); /* the engine's present wishes */
/* doors.c */
void door_request (struct conn *c, struct nbd *n);
void door_hangup (struct conn *c);
void doors_retry (struct member_role *m);
void doors_stop (struct member_role *m, bool power);
/* Its disk fails to write or to flush: then the engine knows. */
bool door_fails (struct member_role *m, const char *what);
/* puller.c */
void puller_obey (struct member_role *m);
void puller_stop (struct member_role *m);
void puller_words (struct member_role *m, struct cluster_join *j);

enum host_stage {
  HOST_DOWN,
  HOST_ATTACHING,
  HOST_CONNECTING,
  HOST_RESYNC,
  HOST_SERVING,
  HOST_ENDING,
  HOST_OVER
};
#define NOTED 64
#define TIMED 16
struct peer {
  struct host_role *host;
  unsigned member;
  bool seated; /* the array engine has this connection, or had it last */
  uint64_t connection; /* its number */
  bool kept;
  uint64_t reach;
  uint64_t round;       /* as the map says, that its disk had when it was met */
  uint64_t life, seats; /* of the process there, and of that of the last seat */
  uint64_t wrote_at;    /* when it answered a write last */
  uint64_t asked_at;    /* when it was asked last what it has noted */
  /* Its disk had no more than this round at that moment; the next one is put at
   * [noted_count % NOTED].
   */
  struct {
    uint64_t round, at;
  } noted[NOTED];
  unsigned noted_count;
  /* When it answered a request for data, and after how long; the next one is put at
   * [timed_count % TIMED].
   */
  struct {
    uint64_t at, took;
  } timed[TIMED];
  unsigned timed_count;
  uint64_t lost; /* the number of the last one reported as lost, and why */
  bool answers;
  uint64_t waited_ms;
  char reason[160];
  struct conn *data, *batch;
  unsigned opening; /* doors that have not answered */
  uint64_t late_at;
};
struct host_role {
  struct process proc;
  bool writable;
  uint64_t part_offset, part_length; /* that it is to write; length 0: all */
  uint64_t next_offset, next_length; /* when it starts again; 0: any part */
  bool leases; /* it shares the array by leases; its part is all of it then */
  bool begins_with_all;
  enum host_stage stage;
  struct host *core;    /* the host engine */
  struct array *engine; /* the array engine, with: */
  struct seats seats;
  char instance[CLUSTER_INSTANCE_BYTES];
  struct call *attach, *beat, *tell, *report;
  struct host_attach attaching;
  uint64_t session;
  uint64_t heard_ms; /* when the newest call was sent that weftd has answered */
  struct answer map; /* the newest with a map */
  const enum member_state *states; /* the newest that are known */
  struct peer peer[PLACES_MAX];
  uint64_t round; /* the newest that it has begun, or that was begun before */
  uint64_t heard_round; /* where several write: the highest that is noted */
  bool taking;          /* the engines' outputs */
  uint64_t timer_at;
  struct copier *copier;
  bool resynced; /* the copies were equal at the start */
  bool wants_detach, takeover;
  struct array_client *client[CLIENTS];
  struct request *requests;
  unsigned outstanding;
  uint64_t start_at;
  /* It is cut off, or soon will be: its clients only read, from reads_at on, what has
   * a copy on a member that it reaches.
   */
  uint64_t exiled_until, reads_at;
  uint64_t rests_until; /* its clients do */
  /* Until then it says no more of epochs than in this heartbeat of this session. */
  uint64_t withheld_until, withheld_session;
  struct cluster_session_heartbeat withheld_said;
  unsigned streams; /* how far its clients are, who go from grain to grain */
  /* leases.c: */
  struct lessee *lessee; /* NULL: it has no leases */
  struct call *asking, *giving;
  unsigned leases_busy;  /* kinds of actions that are under way */
  uint64_t lease_holder; /* of what it asked for last, and has ended; 0: none */
  struct lease_wish leave;
  unsigned give_timeout_ms;
  struct array_range granted[LEASES_GRANTED_MAX];
  unsigned grants;
  bool holds[AREAS_MAX * 64]; /* grains */
};
void host_start (struct host_role *h);
/* The same of a host. */
void withheld_session (struct host_role *h,
                       struct cluster_session_heartbeat *hb);
/* Does it withhold its word, or did it in the last ns? */
bool withheld_lately (const struct host_role *h, uint64_t ns);
void host_kill (struct host_role *h);
void host_detach (struct host_role *h);
void host_stop (struct host_role *h, int error); /* the session is over */
void host_take (struct host_role *h);            /* the engines' outputs */
void host_submit (struct host_role *h, struct array_request *r);
void host_serve (struct host_role *h);
void host_give_way (void *host); /* it detaches, for others to write parts */
void
host_started (struct host_role *h); /* the first connections are made, or not */
uint64_t now_ms (void);
/* peers.c */
void peers_begin (struct host_role *h);
void peers_commit (struct host_role *h, const struct host_action *a);
void peers_forget (struct host_role *h); /* nothing comes back from them */
void peer_begin (struct peer *p, uint64_t connection); /* connect it again */
void peer_lost (struct peer *p, const struct array_notice *n);
void peer_send (struct peer *p, struct array_io *io);
/* Has this process of its node ended? */
bool host_knows_ended (const struct host_role *h, const char *process);
/* leases.c */
void leases_begin (struct host_role *h);
void leases_end (struct host_role *h);
bool leases_take (struct host_role *h); /* false: nothing is due */
uint64_t leases_due_ms (const struct host_role *h);
void leases_notice (struct host_role *h, const struct array_notice *n);
/* An answer with news of leases.  Is weftd to be heard again at once? */
bool leases_heard (struct host_role *h, const struct call *c);
/* The array is recovered at the attach; it was. */
void leases_recover_all (struct host_role *h);
void leases_recovered_all (struct host_role *h);
void leases_recovered (struct host_role *h, const struct array_range *ranges,
                       unsigned count, bool ok);
/* parts.c */
void parts_choose (void);
void part_take (struct host_role *h);
/* Is all of this within what it may write? */
bool host_owns (const struct host_role *h, uint64_t offset, uint64_t length);
bool parts_settled (void);
/* resync.c */
void host_resync (struct host_role *h);
void host_resync_answered (struct host_role *h, struct array_request *r);
void host_resync_end (struct host_role *h); /* then it detaches */
void host_resync_orphans (struct host_role *h, const struct array_range *ranges,
                          unsigned count); /* then leases_recovered */
void host_resync_free (struct host_role *h);
/* clients.c */
void clients_poll (struct host_role *h);
void clients_done (struct host_role *h, struct array_request *r);
void clients_killed (struct host_role *h);
/* For how long its oldest request has waited. */
uint64_t clients_wait_ns (const struct host_role *h);
void clients_send (struct host_role *h, enum array_op op, unsigned flags,
                   uint64_t offset, uint64_t length);

struct weftd {
  struct process proc;
  uint64_t deaf_at; /* since then it has heard all at once */
  struct cluster *engine;
  struct call *calls; /* unanswered */
  struct pending *pending, **pending_tail;
  bool storing;
  uint64_t
    slow_ns; /* that its slow writes to its database have taken, in all */
  unsigned steps_waiting;
  uint64_t next_op;
};
/* So long a write to its database takes at most. */
#define STORED (600 * MS)
void weftd_start (void);
void weftd_kill (void);
void weftd_call (struct call *c);
/* weftd-reply.c */
void weftd_fill (struct call *c, const struct cluster_output *o);
/* store.c */
#define STORE_MAX 400
struct store {
  struct cluster_record *record[STORE_MAX]; /* shared, counted */
  unsigned count;
};
void store_put (const struct cluster_record *r);
const struct cluster_array_record *store_array (void);
const struct cluster_session_record *store_session (uint64_t id);
/* NULL: nothing was ever said of it. */
const struct cluster_node_record *store_node (const char *name);
const struct cluster_disk_record *store_disk (const uint8_t uuid[16]);
/* The process that serves at this URI. */
unsigned process_at (const char *uri);
/* The process that is known as the disk's: copies of the disk have processes of
 * their own.
 */
unsigned disk_holder (const uint8_t uuid[16]);
struct disk *place_disk (const struct cluster_array_record *a, unsigned member);
void store_backup (void);
bool store_restore (void); /* the backup in place of the store */
void store_unrestore (void);
void
store_lose (void); /* all of it; the former state is true until the array is
                    * imported */
bool store_begin_restore (void); /* as weftd --restore puts the backup back */
void store_forget (void);

/* ---- The judge (oracle.c) ---- */

void oracle_begin (void);
void oracle_end (void);
struct asked;
struct asked *oracle_submit (struct host_role *h, struct array_request *r,
                             unsigned client);
/* The client's connection is closed; from now on it is another. */
void oracle_closed (const struct host_role *h, unsigned client);
void oracle_done (struct host_role *h, struct asked *j,
                  struct array_request *r);
void oracle_forget (struct asked *j);
void oracle_serving (struct host_role *h); /* a new writer admits clients */
void oracle_writer_gone (uint64_t session);
/* Durably; beside: others write as well. */
void oracle_granted (const struct cluster_session_record *s, bool beside);
/* A member carries out what a session has asked for, on its disk. */
void oracle_changes (uint64_t session, unsigned grain, unsigned member);
/* A member answers that it can't read this grain. */
void oracle_unread (unsigned grain, unsigned member);
void oracle_power_cut (struct disk *d);
void oracle_copied (struct disk *copy);
/* weftd takes this copy for the disk itself, which was another before. */
void oracle_taken (struct disk *d, const struct disk *before);
bool oracle_rolled_back (void); /* something of that is not over */
void oracle_committed (const struct cluster_array_record *before,
                       const struct cluster_array_record *now);
/* It has a member, for the first time, or back. */
void oracle_linked (const struct host_role *h, unsigned member);
void oracle_relinked (const struct host_role *h, unsigned member, bool aged);
bool oracle_reconnected (void);
/* A lease has come to it: its FLUSHes cover the data there on any member, and its
 * loss. */
void oracle_came (const struct host_role *h);
void oracle_quiet (void);
void oracle_bits_fell (void);
/* oracle-shared.c: the host has a lease of the grain; nobody else writes there from now
 * on, and copies are equal; they are since it has made them so.
 */
void shared_holds (struct host_role *h, unsigned g);
void shared_came (struct host_role *h, unsigned g);
void shared_recovered (struct host_role *h, unsigned g);
/* It begins to resynchronize, with this map. */
void shared_recovers (const struct host_role *h);

/* oracle-ends.c */
void ends_begin (void);
void ends_broke (const struct conn *c); /* by the network alone */
/* weftd is about to store this. */
void ends_judge (const struct cluster_session_record *s);

/* ---- Checks (check.c) ---- */

void check_begin (void);
void check_array (const struct cluster_array_record *before,
                  const struct cluster_array_record *now);
/* weftd has been called.  replaced: to replace a member. */
void check_places (const struct cluster *c, bool replaced);
void check_session (const struct cluster_session_record *s);
/* Does any session write, but for this one? */
bool check_written (uint64_t but_for);
void check_session_end (const struct cluster_session_record *s);
void check_grant (const struct call *c);
struct host_role *check_writer (void); /* that admits clients; or NULL */
/* parts: they are written, and bits may be left. */
bool check_converged (bool parts, char *why, size_t size);

/* ---- What goes wrong (faults.c) ---- */

void faults_begin (void);
/* One fault, by hand, of the host or member with this number; a stopped process comes
 * back after `outage` ns.
 */
enum victim { VICTIM_HOST, VICTIM_WEFTD, VICTIM_ALL, VICTIM_KILL, VICTIM_CUT };
void faults_crash (enum victim v, unsigned number, uint64_t outage);
void faults_heal (void);

/* ---- A run ---- */

struct config {
  enum layout_kind kind;
  unsigned n, groups, hosts, areas, readers, spares;
  uint32_t unit;
  uint64_t member_bytes;
  enum array_dup dup;
  unsigned image_age_ms;
  uint64_t image_buffer_bytes, through_bytes;
  unsigned io_timeout_ms, connect_ms;
  unsigned faults_ms;  /* the mean time between two; 0: none */
  bool copies;         /* many of them are about copies of disks */
  bool spots;          /* many of them are places of disks that can't be read */
  bool rollbacks;      /* ... that are put back at any moment */
  unsigned flaky;      /* per mille of messages whose connection breaks */
  unsigned slow_store; /* percent */
  uint64_t work_ns;    /* how long clients and faults go on */
  bool sick;           /* disks are slow, lines swallow what is sent */
  uint64_t slow_out_ms;
  bool syncs;     /* most requests are writes, and FLUSHes */
  bool withholds; /* a member withholds a word for most of that time */
  unsigned lone;  /* only so many hosts attach the array; 0: all */
  bool shared;    /* several write it, each a part */
  bool leases;    /* several share it by leases */
  enum lessee_kind lessee;
  /* Percent of requests to a few grains, and to one after the other. */
  unsigned hot, hot_grains, stream;
  unsigned client_us; /* between two requests, in the mean */
};

/* sick.c: is it a world with slow disks and lines that swallow?  By a stream of its own. */
void sick_choose (struct config *c, uint64_t seed);
/* A member changes its state. */
void sick_check_out (const struct cluster_array_record *before,
                     const struct cluster_array_record *now, unsigned member);

struct world {
  struct config config;
  struct layout layout;
  struct area area[AREAS_MAX];
  unsigned grains;                 /* hot ones */
  uint64_t border[PIECES_MAX + 1]; /* of the pieces that parts are made of */
  unsigned pieces;
  bool united; /* no host writes a part any more, but one all */
  struct copy copy[AREAS_MAX * 64][COPIES_MAX];
  struct place place[PLACES_MAX];
  struct disk disk[DISKS_MAX];
  struct member_role member[DISKS_MAX];
  unsigned disks; /* at first; each has its number, less one, in its UUID */
  /* And room for copies.  The next one never runs: it has the places for which a record
   * only stands for a disk.
   */
  unsigned roles;
  unsigned holder[DISKS_MAX]; /* of each disk: see disk_holder */
  struct host_role host[HOSTS_MAX];
  struct weftd weftd;
  bool cut[PARTIES][PARTIES]; /* from, to */
  struct hole hole[HOLES_MAX];
  bool healing;         /* nothing goes wrong any more */
  bool working;         /* clients have something to do */
  uint64_t quiet_until; /* but nothing until then */
  uint64_t calm_until;  /* but no fault until then */
  uint64_t watch_until; /* for a fault that waits for its moment */
  bool exiled[PARTIES]; /* are cut off from all others together */
  unsigned area_only;   /* less one, is all that they use; 0: they use all */
  struct store store;
  bool old_database;
  bool restoring;       /* it is about to be restored: not all members have
                      * reported yet */
  bool no_database;     /* it is lost, and the array was not imported yet */
  uint64_t lost_at;     /* when */
  unsigned requests;    /* so far */
  uint64_t hash;        /* of what has happened */
  unsigned read_errors; /* that members have answered */
  struct process admin; /* creates and replaces */
  bool created;
};
extern struct world w;
/* The engines' own invariants are looked at every so many steps. */
#define CHECK_STEPS 16
extern unsigned long long steps;    /* inputs to any engine, ever */
extern unsigned long long io_steps; /* of them, those about data and headers */
extern struct counters {
  unsigned long long requests, errors, faults, joins, losses, grants, commits,
    reads_judged, flushes, no_room;
  /* Where several write: */
  unsigned long long first, beside, beside_behind,
    taken_up; /* grants: see check.c */
  unsigned long long ended_beside, ended_beside_joiner, silenced, apart;
  unsigned long long refused;           /* writes outside a part */
  unsigned long long elsewhere;         /* reads outside a part, judged */
  unsigned long long orphans;           /* resyncs that copied something */
  unsigned long long settles, clears;   /* of resyncs, of extents */
  unsigned long long asks, jumps;       /* rounds */
  unsigned long long given_back, waits; /* lost members; attaches put off */
  /* Where leases come and go: */
  unsigned long long leases, gives, declares, recoveries;
  unsigned long long restores; /* from a backup of the database */
  uint64_t hangs;              /* of disks */
  uint64_t withheld;           /* words of members and hosts */
  unsigned long long alone;    /* see world_alone */
  /* Imports of the array after the loss of the database: done, refused, with the loss
   * accepted. */
  unsigned long long imports, import_refusals, imports_forced, imports_never;
  unsigned long long slows,
    slow_found;                        /* disks; looks that found one accused */
  unsigned long long holes, swallowed; /* lines; connections ended for one */
  unsigned long long imports_without;  /* members that were given up */
} counters;

void world_begin (uint64_t seed);
extern bool world_sick;      /* disks are slow, lines swallow what is sent */
extern bool world_rollbacks; /* in every world */
extern bool world_rekeys;    /* disks get other keys */
extern bool
  world_imports; /* weftd's database is lost, and the array imported */
extern bool world_restores; /* weftd is restored from backups */
/* A disk that replaced another one has gone on alone then. */
extern bool world_alone;
extern bool world_hard;   /* thrice the usual rate of faults, for longer */
extern bool world_shared; /* several hosts write, each a part of the array */
extern bool world_leases; /* several hosts share it by leases */
/* The same, chosen by hand. */
void world_configure (const struct config *c, uint64_t seed);
void world_create (void);   /* the array; the hosts begin to attach */
void world_run (void);      /* all of it, until the work's end */
void world_finish (void);   /* heal, converge, judge */
void world_converge (void); /* the latter two */
void world_unite (void);    /* instead of several one host is to write all */
/* Returns a number that two runs only have in common when all that happened was
 * the same.
 */
uint64_t world_end (void);
/* Lets time pass until then, or until `until` says so; false: time is up. */
bool world_live (uint64_t ns, bool (*until) (void));
void world_step (void); /* the next event */

#endif /* WEFT_WORLD_H */
