/* cluster-records.h: the durable records of the cluster engine (cluster.h): its
 * steps put them into the store, and it starts from them.
 */

#ifndef WEFT_CLUSTER_RECORDS_H
#define WEFT_CLUSTER_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <bsd/sys/queue.h>

#include "base/bounds.h"
#include "format/format.h"
#include "layout/layout.h"

#define CLUSTER_URI_BYTES 512
#define CLUSTER_PATH_BYTES 512
#define CLUSTER_REASON_BYTES 256
#define CLUSTER_INSTANCE_BYTES 65
#define CLUSTER_PROCESS_BYTES 160
#define CLUSTER_WAITS_BYTES                                                    \
  960 /* the reason for which a job or a drain waits */
#define CLUSTER_CACHE_BYTES 128

struct cluster_identity {
  uint8_t uuid[16];
  uint64_t generation; /* of weftd: grows with each of its starts */
  /* The number of the newest fence of a node, or of the newest change of an
   * array's list.  It stays when either is gone: a new fence or change has a
   * greater number.
   */
  uint64_t fences;
  bool restore; /* this database is a backup that was just put in its place
                   (cluster-restore.c) */
  uint64_t
    backup_wall_ms; /* when that backup was made; 0: there was none, or an
                              administrator has revoked again what was revoked since */
};

struct cluster_disk_record {
  uint8_t uuid[16];
  uint8_t key[KEY_BYTES]; /* tokens for it are made with this: cluster-key.c */
  uint8_t
    /* the key that follows as soon as possible; zero: none (cluster-rekey.c) */
    next_key[KEY_BYTES];
  bool untold;          /* its process has not shown yet that it has this key */
  uint8_t release[16];  /* the array that it is to forget; zero: none */
  uint8_t spare_of[16]; /* the array that it is a spare of; zero: none */
  uint64_t sequence;    /* of its superblock: the highest that was heard while
                             it was a member; an old copy of the disk has less */
  char node[NAME_BYTES_MAX + 1];
  char uri[CLUSTER_URI_BYTES];
  char path[CLUSTER_PATH_BYTES];
  char instance[CLUSTER_INSTANCE_BYTES]; /* the process that a writer knows */
  char cache[CLUSTER_CACHE_BYTES];       /* that process's cache, as in struct
                                            cluster_disk_heartbeat; "": it is not
                                            known, or the disk has failed */
  char moves_to[NAME_BYTES_MAX + 1]; /* the node that may serve it from now on,
                                        as an administrator says; "": none */
  bool shut_out; /* its node was shut out, and it was not heard of since */
  uint64_t size; /* bytes of the whole disk; 0: this record only stands for a
                    member's disk that an import did not find */
  uint64_t data_bytes; /* of its data area */
  uint64_t
    imported; /* in records of an older weftd: as in struct cluster_member */
};

#define CONFIRMED_BY_NONE EPOCH_MAX

/* The nodes that may attach an array (cluster-access.c). */
#define ALLOW_NODES_MAX 256
struct cluster_allow {
  char node[NAME_BYTES_MAX + 1];
  bool writable;
  bool failover; /* it may also take the array from a holder that is heard */
};
struct cluster_allow_list {
  bool listed; /* false: any node may, as in all arrays of older weftds */
  unsigned nodes;
  struct cluster_allow node[ALLOW_NODES_MAX];
};

/* Nodes that may serve an array to others (cluster-candidates.c). */
#define SERVICE_NODES_MAX 16
#define SERVICE_UNREACHED_MAX 32 /* clients, and whom they do not reach */

struct cluster_member {
  uint8_t disk[16];
  enum member_state state; /* in-sync, out or joining */
  uint64_t fence;          /* it is to refuse epochs below this one */
  uint64_t lapse;          /* writes of epochs before this one that it had not
                              flushed may be gone; later ones it has kept */
  /* requests of this epoch and later ones went to the process that served it
   * when it last confirmed one
   */
  uint64_t life;
  uint64_t
    /* the round on its disk when that process began to serve it for this
     * array's sessions; 0: not known
     */
    life_round;
  uint64_t confirmed; /* the last epoch that its disk confirmed: a disk with a
                              lower min_epoch is an old copy of it.
                              CONFIRMED_BY_NONE: the disk is blank, or was, and
                              has not joined yet */
  uint64_t round;     /* out: the array's round when it went out; a disk that
                              is two or more behind that is an old copy of it */
  uint64_t since_wall_ms;            /* when it got this state */
  char reason[CLUSTER_REASON_BYTES]; /* why it is out; "" otherwise */
  bool planned; /* it was put out on purpose; else it was lost */

  /* How it comes back (cluster-rebuild.c). */
  bool held; /* it stays out until an administrator takes it back */
  /* the same, because it was too slow; or a spare takes its place */
  bool slow;
  bool reset;  /* its disk is an old copy or another disk: it is to forget its
                 place, and is then rebuilt in full */
  bool partly; /* it was joining when it went out: if a source of it goes out
                  after it, what it has copied is not to be trusted */
  bool
    /* it was joining when one of several writers ended: writes from that one
     * may not have arrived, so its joining must begin again
     */
    anew;
  bool
    /* it was given back to sessions without its unflushed writes: it may differ
     * from other copies until it joins again (cluster-rejoin.c), or the array
     * is attached again
     */
    differs;
  bool paused;             /* its rebuild is */
  uint64_t floor, ceiling; /* of its rebuild's rate, bytes a second; 0: the
                              default floor, no ceiling */
  uint64_t imported; /* the epoch of the disk from which an import took what the
                        array has of this place; 0: there was no import */
  /* The highest round of a disk that knows no more than the disks from which the import
   * took the data of this member's group; 0: not known, as in records of an older weftd.
   */
  uint64_t imported_round;
  uint8_t
    next_disk[16]; /* the disk that an administrator has ordered for it, and
                              that gets its place when the group is whole; zero:
                              none */
  char moved_from[NAME_BYTES_MAX + 1]; /* the node whose drain made it move,
                                          until it is in-sync elsewhere */
};

/* A change of epoch that is PREPARED and not yet COMMITted. */
struct cluster_change {
  uint64_t epoch; /* the new one; 0: no change under way */
  bool sessions;  /* every session must first have prepared itself */
  uint64_t since_wall_ms;
  uint8_t states[ARRAY_MEMBERS_MAX]; /* enum member_state, in the new epoch */
  bool confirm[ARRAY_MEMBERS_MAX];   /* members that must first refuse older
                                      epochs, durably */
};

/* A session that is over, and whose tokens members may still take (cluster-shut.c). */
struct cluster_over {
  uint64_t session; /* 0: all, but only to open doors */
  uint64_t epoch;   /* of its newest tokens */
  bool ordered;     /* an administrator has ended it */
  uint64_t number;  /* grows; for this weftd's life alone, and not stored */
  char node[NAME_BYTES_MAX + 1]; /* whose it was; "": of a weftd of before */
};

/* Is the array a pool of volumes (core/format/pool.h)? */
enum cluster_pool_state {
  CLUSTER_POOL_NONE,
  CLUSTER_POOL_UNKNOWN, /* it was imported: a process finds out */
  CLUSTER_POOL_BLANK, /* it is, and no process has said that it has a header */
  CLUSTER_POOL_READY, /* it is, and whose each segment is, is known */
  CLUSTER_POOL_UNSCANNED, /* it is, and the database may be old: nothing is granted before a
                             process has said what its volumes have */
};
#define CLUSTER_POOL_STATES (CLUSTER_POOL_UNSCANNED + 1)

struct cluster_array_record {
  uint8_t uuid[16];
  char name[NAME_BYTES_MAX + 1];
  enum cluster_pool_state pool;
  uint64_t segment_bytes; /* of a pool; else 0 */
  enum layout_kind layout;
  enum array_dup dup;
  unsigned n, groups;
  uint64_t unit;
  uint64_t member_bytes; /* in use of each member's data area */
  bool ready;            /* every member has taken its place once */
  /* weftd was restored from a backup, and members have not reported the array's
   * newer state yet
   */
  bool restoring;
  uint64_t epoch;
  uint64_t unprepared; /* the last epoch in which a member went out without
                          sessions being prepared: a reader that works in an older
                          one was not waited for.  0: they were prepared since */
  uint64_t round;      /* of its writing (core/array/array-round.c): the highest
                          that was heard of */
  uint64_t spare_after_ms; /* a spare replaces a member that has been out for so
                              long; 0: never */
  uint64_t
    slow_out_ms; /* a member that has been far slower than its peers for so
                           long is put out; 0: never */
  struct cluster_allow_list allow;
  uint64_t allow_fence;   /* the number of the last change of that list, as a
                           fence of a node has one; 0: there was none */
  unsigned service_nodes; /* candidates of its service; 0: it has none */
  char service_node[SERVICE_NODES_MAX][NAME_BYTES_MAX + 1];

  /* The fate of a writer's acknowledged writes after its end
   * (cluster-lapse.c).
   */
  /* in which the last writer was admitted; 0: it has detached, so all writes
   * that it acknowledged are stable
   */
  uint64_t writer_epoch;
  bool risky; /* since then a member went out that may have had what else was in
                 the writer's image buffer alone */
  bool
    /* an earlier writer has not detached, and the copies have not been in sync
     * since
     */
    unequal;
  uint64_t
    /* unflushed writes that a writer of an older epoch has acknowledged may be
     * lost
     */
    lapse;
  bool
    /* a session that shared the array by leases has ended without saying that
     * its ranges are in sync: ranges without an owner are recovered before they
     * are granted (cluster-lease.c)
     */
    to_recover;
  unsigned over_count;
  struct cluster_over over[OVER_MAX]; /* by number */
  struct cluster_change change;
  struct cluster_member member[ARRAY_MEMBERS_MAX]; /* n * groups */
};

/* The bytes of an array that one of several writers may write, alone; the others write
 * elsewhere, and all read everything.  Whole stripe units, but for the end of the array.
 * length 0: there is no such part, for the session writes all, or nothing.
 */
struct cluster_part {
  uint64_t offset, length;
};

/* Ended sessions are kept for a while, so that a host that comes back learns
 * which administrator or host took over, and why.
 */
struct cluster_session_record {
  uint64_t id; /* never 0 */
  uint8_t array[16];
  char array_name[NAME_BYTES_MAX + 1];
  char node[NAME_BYTES_MAX + 1];
  char instance[CLUSTER_INSTANCE_BYTES];
  char uri[CLUSTER_URI_BYTES];
  uint64_t pid;
  bool writable;
  /* the part that it writes, if there are several writers */
  struct cluster_part part;
  bool
    /* it writes by leases, which come and go; its part is the whole array */
    leases;
  bool service;   /* it serves the array to others, as one of the candidates */
  bool by_admin;  /* an administrator has attached it: no list binds it */
  bool exports;   /* its process listens for clients on other hosts */
  bool scans;     /* its process can scan a pool */
  uint64_t epoch; /* of its tokens */
  uint64_t volumes; /* the number of its last message about volumes */
  uint64_t since_wall_ms;
  bool ended;
  uint64_t ended_wall_ms;
  char reason[CLUSTER_REASON_BYTES]; /* why it ended */
};

/* A volume of a pool.  Its map is in the pool, and weftd knows nothing of it. */
enum cluster_volume_state {
  CLUSTER_VOLUME_NEW,  /* no process has opened it: it has no root */
  CLUSTER_VOLUME_TOLD, /* a process may have written its root */
  CLUSTER_VOLUME_MADE, /* its root is durable */
  CLUSTER_VOLUME_DELETING,
  CLUSTER_VOLUME_BROKEN, /* its root or log can't be read, a scan has found */
};
#define CLUSTER_VOLUME_STATES (CLUSTER_VOLUME_BROKEN + 1)

/* Segments of a pool that follow each other. */
struct cluster_run {
  uint32_t first, count;
};

struct cluster_volume_record {
  uint8_t uuid[16];
  uint8_t array[16];
  unsigned root; /* the number of its place in the pool */
  char name[NAME_BYTES_MAX + 1];
  uint64_t size;
  enum cluster_volume_state state;
  uint64_t since_wall_ms;            /* when it was created */
  char reason[CLUSTER_REASON_BYTES]; /* BROKEN: why */
  /* The last message of a session by which it was granted segments, and these. */
  uint64_t session, number;
  unsigned granted;
  struct cluster_run grant[VOLUME_RUNS_MAX];
};

/* The owners of POOL_PAGE_SEGMENTS segments of a pool.  A page without an owner has no
 * record.
 */
struct cluster_space_record {
  uint8_t array[16];
  unsigned page;
  uint32_t owner[POOL_PAGE_SEGMENTS]; /* the volume's root + 1; 0: nobody */
};

/* An administrator's settings for a node.  A node without settings has no
 * record.
 */
struct cluster_node_record {
  char name[NAME_BYTES_MAX + 1];
  bool maintenance; /* its silence is expected: no spare takes its places */
  bool draining;    /* its members move away, and it gets no new ones */
  uint64_t maintenance_wall_ms, draining_wall_ms; /* when that last changed */
  uint64_t drain_bytes; /* of its members when the drain began */
  bool fenced; /* nothing it asks for is carried out (cluster-fence.c) */
  /* The number of its last fence, or of the end of that; 0: there was none.
   * Processes on the node from before are refused for ever.
   */
  uint64_t fence;
  uint64_t fenced_wall_ms;
  bool removed;  /* nothing else counts of it any more: it is not listed */
  bool shut_out; /* its sessions end; nothing was heard of it since */
};

/* Long-running work (cluster-jobs.c). Ended jobs are kept for a day. */
enum cluster_job_kind {
  CLUSTER_JOB_REBUILD,
  CLUSTER_JOB_DRAIN,
  CLUSTER_JOB_CREATE
};
enum cluster_job_state {
  CLUSTER_JOB_RUNNING,
  CLUSTER_JOB_PAUSED,
  CLUSTER_JOB_WAITING,
  CLUSTER_JOB_DONE,
  CLUSTER_JOB_FAILED
};
struct cluster_job {
  char id[NAME_BYTES_MAX + 16];      /* "rebuild-a-1", "drain-n1", "create-a" */
  char subject[NAME_BYTES_MAX + 32]; /* "member 1 of array a" */
  enum cluster_job_kind kind;
  enum cluster_job_state state;
  /* the reason to wait; "": none.  FAILED: the reason of the failure */
  char waits[CLUSTER_WAITS_BYTES];
  uint64_t done_bytes, total_bytes, rate;
  uint64_t eta_ms; /* how long it will still take; 0: not known.  Not stored */
  uint64_t since_wall_ms;
  uint64_t ended_wall_ms;         /* 0: not yet */
  TAILQ_ENTRY (cluster_job) link; /* of those that have ended */
};

enum cluster_record_kind {
  CLUSTER_RECORD_IDENTITY,
  CLUSTER_RECORD_DISK,
  CLUSTER_RECORD_ARRAY,
  CLUSTER_RECORD_SESSION,
  CLUSTER_RECORD_NODE,
  CLUSTER_RECORD_JOB,
  CLUSTER_RECORD_VOLUME,
  CLUSTER_RECORD_SPACE,
  CLUSTER_RECORD_KINDS
};

struct cluster_record {
  enum cluster_record_kind kind;
  bool deleted; /* the record goes: only its key (uuid, id, name) counts */
  union {
    struct cluster_identity identity;
    struct cluster_disk_record disk;
    struct cluster_array_record array;
    struct cluster_session_record session;
    struct cluster_node_record node;
    struct cluster_job job; /* its link means nothing */
    struct cluster_volume_record volume;
    struct cluster_space_record space;
  };
};

/* How long a record of this kind is: an array's is fifty times a disk's. */
size_t cluster_record_bytes (enum cluster_record_kind kind);

/* Do they have the same key, so that the later one takes the place of the other? */
bool cluster_record_same (const struct cluster_record *a,
                          const struct cluster_record *b);

#endif /* WEFT_CLUSTER_RECORDS_H */
