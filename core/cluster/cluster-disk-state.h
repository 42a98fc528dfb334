/* cluster-disk-state.h: the state of a disk in the cluster engine (cluster.h): its record, its
 * process, its last heartbeat, doubts of that, and words that the process owes.
 */

#ifndef WEFT_CLUSTER_DISK_STATE_H
#define WEFT_CLUSTER_DISK_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include <bsd/sys/queue.h>

#include "base/bounds.h"
#include "cluster-records.h"

struct cluster_array;
struct cluster_disk_heartbeat;
struct waiting; /* cluster-ground.h */

/* Load of a member's host and disk, as the member says in its heartbeats. */
struct cluster_load {
  double cpu; /* 0..1 */
  double loadavg;
  uint64_t mem_free;
  /* Counters since the member's process was started. */
  uint64_t disk_read_bytes, disk_write_bytes, disk_reads, disk_writes, flushes;
  uint64_t net_rx_bytes, net_tx_bytes;
};
struct cluster_load_rates { /* a second */
  double disk_read_bytes, disk_write_bytes, disk_reads, disk_writes, flushes;
  double net_rx_bytes, net_tx_bytes;
};

/* How far a joining member is, as it says itself. */
enum cluster_join_phase {
  CLUSTER_JOIN_NONE,
  CLUSTER_JOIN_WAITING,   /* for weftd's order to begin */
  CLUSTER_JOIN_GATHERING, /* it reads its peers' intent maps */
  CLUSTER_JOIN_COPYING,
  CLUSTER_JOIN_SYNCED, /* nothing is left to do, and all is stable */
};
struct cluster_join {
  enum cluster_join_phase phase;
  uint64_t epoch;                   /* the `join.epoch` that it works for */
  uint64_t todo_bytes, total_bytes; /* whole extents; total: of the gathering */
  uint64_t copied_bytes;            /* read from peers since it began */
  uint64_t unreadable_bytes;        /* that no source could read: left out */
  uint64_t rate;                    /* bytes a second, lately */
  char waits[CLUSTER_REASON_BYTES]; /* the reason to wait; "": none */
};

/* How fast a joining member has less to do (cluster-eta.c). */
struct cluster_eta {
  uint64_t epoch;                 /* of the joining that this is about */
  uint64_t todo_bytes;            /* as the member has said last */
  uint64_t since_ms, since_bytes; /* when this measurement began, and what was
                                     to do then; 0: none has begun */
  double rate;                    /* bytes a second, as measured; 0: not yet */
  bool known;                     /* two measurements have agreed */
};

/* The order to a joining member. */
struct cluster_join_order {
  uint64_t epoch; /* 0: nothing yet */
  bool paused;
  uint64_t rate;  /* bytes a second; 0: as fast as it can */
  uint64_t round; /* that its disk is to note at the end; 0: the writer tells it
                     the round */
  /* The in-sync members that have a copy of anything that lies at its place. */
  bool source[ARRAY_MEMBERS_MAX];
};

/* A report of a disk or a session that this weftd cannot have caused
 * (cluster-doubt.c).
 */
enum cluster_doubt_kind {
  CLUSTER_DOUBT_NONE,
  CLUSTER_DOUBT_OPEN, /* it is the first that it says to this weftd: either it is
                         not true, or the database is an old one */
  CLUSTER_DOUBT_LIE,  /* it can't be true */
};
struct cluster_doubt {
  enum cluster_doubt_kind kind;
  uint64_t
    live_ms;       /* when it said so last, on the clock of silence; 0: never */
  char claim[200]; /* "it has seen epoch 9 of array a, which is here at 7" */
};

/* Words that an array waits for (cluster-overdue.c). */
enum cluster_word {
  WORD_NONE,
  /* A member's: */
  WORD_PLACE,  /* it has taken its place */
  WORD_FENCED, /* it refuses requests of epochs below the ordered one */
  WORD_SHUT,   /* it has shut a session that is over */
  /* a session's: */
  WORD_PREPARED, /* it is prepared for a change of epoch */
  WORD_EPOCH,    /* it works in the array's epoch */
  /* its writes have reached the copies that other sessions read */
  WORD_ARRIVED,
  WORD_DECLARED, /* which leases it has */
  WORD_GIVEN,    /* it has left a range that another one needs */
  WORD_ORDER,    /* it has heard of its order to recover */
  WORD_FENCES,   /* it refuses clients of nodes that were fenced */
  WORD_LEFT,     /* it does not serve any more */
  CLUSTER_WORDS
};
/* How long a word is owed; not stored. */
struct cluster_owed {
  uint64_t asked; /* the number that the word must reach; 0: nothing is owed */
  uint64_t ms;    /* for so long its debtor has sent heartbeats without it */
  uint64_t patience_ms; /* the same, as far as it counts */
};

/* For a disk that is a file, in bytes. */
struct cluster_room {
  uint64_t size, free; /* of its file system; size 0: nothing is known */
  uint64_t
    wanted; /* of the disk, for which the file has no room of its own yet */
};

/* The state that a disk's process reports. */
enum cluster_disk_state {
  DISK_SERVING,
  DISK_STARTING, /* nobody can connect to it yet, and perhaps never */
  DISK_FAILED,   /* its requests fail */
  DISK_REMOVED,  /* the same, because the device was removed from its host */
};

static inline bool
cluster_disk_state_failed (enum cluster_disk_state state)
{
  return state == DISK_FAILED || state == DISK_REMOVED;
}

/* Whose heartbeats weftd has heard since it started. */
enum cluster_presence {
  DISK_UNHEARD, /* of no process of this disk */
  DISK_FORMER,  /* of an earlier process, but not of the present one */
  DISK_HEARD,   /* of the present process */
};

/* The last reply to a disk's present process. */
struct cluster_told {
  bool reply; /* there was one: the numbers and the order count */
  bool key;   /* and it had the key of the disk's record */
  bool
    known; /* a heartbeat has shown, before that reply, that the process has its key, its
                 place and the states of its array */
  uint64_t over, epoch, min_epoch;
  struct cluster_join_order order;
  uint64_t key_live_ms; /* since when it has that key; 0: for long */
};

/* The sources whose tokens a joining disk was given (cluster_shut_source). */
struct cluster_grants {
  bool source[ARRAY_MEMBERS_MAX];
  uint64_t joining; /* in this joining */
  bool any;         /* some of them since cluster_join_granted */
};

/* When a member that was out is taken back. */
struct cluster_return {
  uint64_t due_live_ms;  /* no earlier */
  uint64_t last_live_ms; /* when it was, last, */
  uint64_t
    backoff_ms; /* after so long: longer each time that it goes out again soon */
  uint64_t flaps_live_ms; /* since when it does so; 0: it does not */
};

/* Another process asks for a disk's place. */
struct cluster_rival {
  uint64_t since_live_ms;               /* 0: none does */
  char refused[CLUSTER_INSTANCE_BYTES]; /* the last one that was refused */
  uint64_t refused_live_ms;             /* when it was; 0: never */
};

struct cluster_disk {
  TAILQ_ENTRY (cluster_disk) link;
  struct cluster_disk_record rec;
  uint64_t stored_sequence,
    stored_live_ms;            /* its sequence as last stored, and when that
                                               was */
  struct waiting *poll;        /* its long poll; NULL: none now */
  struct cluster_array *array; /* of which it is a member; NULL: of none */
  unsigned position;

  /* Is its process there?  Not stored, as all that follows. */
  enum cluster_presence presence;
  bool alive; /* not silent for MEMBER_TTL_MS; true at weftd's start */
  bool spoke; /* it has sent a heartbeat since it last went out */
  char instance[CLUSTER_INSTANCE_BYTES];
  uint64_t last_live_ms;  /* on the clock of silence */
  uint64_t spoke_live_ms; /* when its last heartbeat came */
  uint64_t spoke_step;    /* the step in which it last said that it listens */
  uint64_t answer;        /* the step of its last answer; 0: none yet */
  struct cluster_rival rival;

  /* As of its last heartbeat. */
  struct cluster_disk_heartbeat *said; /* the whole; NULL: none yet */
  enum cluster_disk_state state;
  char reason[CLUSTER_REASON_BYTES]; /* why it failed, or why it was refused */
  bool proven;     /* the heartbeat came with its node's certificate */
  bool blank;      /* it says that it belongs to no array */
  bool took_place; /* it reports the array and position that it is to have */
  char cache[CLUSTER_CACHE_BYTES]; /* "": not known, or it has failed */
  uint64_t min_epoch, states_epoch, sequence, dirty_extents;
  uint64_t round; /* of the array's writing, that it has noted */
  uint64_t over;  /* the sessions that are over it has shut up to this number */
  uint64_t raise_max; /* its process raises min_epoch by itself no further */
  uint64_t
    disk_stuck_ms; /* its process lives, and waits so long for the disk */
  struct cluster_join join; /* while it is joining */
  struct cluster_eta eta;
  uint64_t load_ms; /* when `load` came; 0: never */
  struct cluster_load load;
  struct cluster_load_rates rates;
  struct cluster_room room;

  /* Is it what it says, and has it the newest data? */
  struct cluster_doubt doubt; /* of what it said last */
  uint64_t refuted; /* a round that it said, and that can't be; 0: none */
  bool old_copy;    /* the disk that asks for its place is an old copy of it */
  bool served;      /* its present process was an in-sync member in an epoch in
                       which a writer works: its disk is no old copy */
  /* When it last said that it is not in the array in which the backup has it, and which is
   * not restored yet; 0: never.
   */
  uint64_t moved_live_ms;

  /* Orders to the disk, and answers that it owes. */
  struct cluster_told told;
  struct cluster_grants grants;
  /* The process for which the tokens of the array's epoch were made. */
  char minted[CLUSTER_INSTANCE_BYTES];
  uint64_t
    fenced_live_ms; /* when a change was COMMITted that it had confirmed */
  struct cluster_owed owed[CLUSTER_WORDS];
  enum cluster_word overdue; /* that it has owed for too long, or WORD_NONE */

  struct cluster_return back;
  uint64_t rate; /* of its rebuild, as last decided; bytes a second */
};

static inline bool
cluster_disk_heard (const struct cluster_disk *d)
{
  return d->presence == DISK_HEARD;
}

static inline bool
cluster_disk_failed (const struct cluster_disk *d)
{
  return cluster_disk_state_failed (d->state);
}

#endif /* WEFT_CLUSTER_DISK_STATE_H */
