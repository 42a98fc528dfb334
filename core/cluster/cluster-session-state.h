/* cluster-session-state.h: the state of a session in the cluster engine (cluster.h): its record,
 * its process, its leases, and its path to each member.
 */

#ifndef WEFT_CLUSTER_SESSION_STATE_H
#define WEFT_CLUSTER_SESSION_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include <bsd/sys/queue.h>

#include "base/bounds.h"
#include "base/stats.h"
#include "cluster-disk-state.h"
#include "cluster-records.h"

struct cluster_array;
struct cluster_loss;
struct waiting; /* cluster-ground.h */

/* An array process's report about itself: array_stats, in the same units. */
struct cluster_session_rates { /* a second; latencies are means */
  double reads, writes, flushes, read_bytes, write_bytes;
  double read_us, write_us, flush_us;
};

/* A session that shares its array, by leases or with a part of it (cluster-lease.c). */
struct cluster_lessee {
  uint64_t
    heard_live_ms; /* since when it could say to this weftd what it has */
  bool
    equal; /* its resync is over: before that it says nothing of its leases */
  bool declared;   /* this weftd knows all of its leases */
  bool unequal;    /* its declared ranges are not recovered yet */
  uint64_t number; /* of the last GIVE that was carried out */
  uint64_t
    order; /* the order to recover that it knows of, as it says; 0: none */
  unsigned news, told_news; /* counts news for it; as of the last reply */
  uint64_t gets, revokes;   /* ever: ranges granted, and asked back */
  uint64_t gave;            /* ever: given back of what another had asked for */
  /* The ranges of its last call that are not granted yet, and since when it
   * asks for them.
   */
  struct {
    struct cluster_part must; /* of no length: it has got it */
    uint64_t since_ms;
  } asked[LEASE_ASKS_MAX];
  uint64_t asked_ms; /* when that call came */
};

/* The last reply to a session's process. */
struct cluster_session_reply {
  uint64_t epoch;  /* of the array */
  uint64_t change; /* of epoch, for which it is to prepare; 0: none */
  uint64_t loss;   /* the number of the order to accept a loss; 0: none */
  uint64_t fences; /* the fence up to which it is to refuse clients */
  bool leave;      /* another is to serve */
  bool hold;       /* it is to hold its reads */
  uint64_t order;  /* the newest one for a volume */
};

/* With several writers: the time that a session was without members that other
 * writers reach.  After a calm time this begins again.
 */
struct cluster_apart {
  uint64_t ms;      /* in all */
  uint64_t live_ms; /* up to when it was so last */
};

/* The path of a session to a member of its array. */
struct cluster_path {
  /* The session has lost the member, which is in-sync and can't be left out (now). */
  bool lost;
  /* The session has reported a loss of the member: until that is out, or back, no round of
   * the session's writing is complete.
   */
  bool reported;
  /* The session reached the member when that last went out; false since the member was
   * given back.
   */
  bool reached;
  /* When the session last said that it does not reach the member; 0: never since the member
   * was given back.
   */
  uint64_t unreached_live_ms;
  /* Since when a request had waited for the member when the session reported it last; only
   * where `reported` is set.
   */
  uint64_t waits_live_ms;
  /* Since when the session is without the member, and when it got the member back; 0: it is
   * not, and did not.  It may lose the member again, for the same requests, for
   * RECONNECT_CALM_MS.
   */
  uint64_t away_live_ms, back_live_ms;
  /* With back_live_ms: the value of `apart`, if the member's return has helped nothing. */
  struct cluster_apart perhaps;
  uint64_t retry_live_ms; /* the lost member is given back no earlier */
  uint64_t backoff_ms;    /* for so long that was put off last */
  /* The member did not confirm in time when weftd tried to give it back. */
  bool unconfirmed;
};

/* The load of a session, as its process reports. */
struct cluster_session_load {
  uint64_t ms; /* when `stats` came; 0: never */
  struct array_stats stats;
  struct cluster_session_rates rates;
};

/* Fields that are read for all of an array's sessions stand together, for the
 * cache.
 */
struct cluster_session {
  TAILQ_ENTRY (cluster_session) link;
  TAILQ_ENTRY (cluster_session) array_link;
  LIST_ENTRY (cluster_session) id_link;
  struct cluster_array *array; /* NULL: it has ended, and the array is gone */
  struct cluster_session_record rec;
  uint64_t ended_live_ms;          /* 0: not yet, or before weftd's start */
  struct waiting *poll;            /* its long poll; NULL: none now */
  TAILQ_HEAD (, waiting) waitings; /* calls that wait for it, or are its own */

  /* Is its process there?  Not stored, as all that follows. */
  bool heard, alive; /* as for a disk, with SESSION_TTL_MS */
  bool detaches;     /* it is just detaching */
  uint64_t last_live_ms, spoke_live_ms, answer; /* as of a disk */
  uint64_t steady_live_ms; /* since then it was never silent for LULL_MS */

  /* Orders to the session, and answers that it owes. */
  struct cluster_session_reply told;
  struct cluster_loss *loss; /* the last order that it got to accept a loss;
                                NULL: none yet */
  enum cluster_word overdue; /* that it has owed for too long, or WORD_NONE */
  struct cluster_owed owed[CLUSTER_WORDS];

  /* As of its last heartbeat. */
  bool draining;  /* it is about to detach */
  uint64_t epoch; /* in which it works, as it says: it has a connection to
                        each member that is in-sync or joining in that epoch, or
                        has reported the member as lost */
  /* Its writes from before this epoch have reached the copies that other
   * sessions read, as it reports.
   */
  uint64_t arrived;
  uint64_t prepared; /* the change of epoch that it is prepared for; 0: none */
  uint64_t fences;   /* the fence up to which it refuses clients */
  char process[CLUSTER_PROCESS_BYTES]; /* its process, in words of its node
                                          (plugin/process.h); "": unknown */
  struct cluster_lessee lessee;        /* where it shares by leases */
  struct cluster_doubt doubt;          /* of what it said last */
  struct cluster_session_load load;

  /* The members of its array. */
  struct cluster_path path[ARRAY_MEMBERS_MAX];
  struct cluster_apart apart;
  char stopped[CLUSTER_REASON_BYTES]; /* why it serves nobody; "": it does */
};

#endif /* WEFT_CLUSTER_SESSION_STATE_H */
