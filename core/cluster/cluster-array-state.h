/* cluster-array-state.h: the state of an array in the cluster engine (cluster.h): its record, its
 * disks, its sessions, and the candidates of its service.
 */

#ifndef WEFT_CLUSTER_ARRAY_STATE_H
#define WEFT_CLUSTER_ARRAY_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include <bsd/sys/queue.h>

#include "base/bounds.h"
#include "cluster-records.h"
#include "layout/layout.h"

struct cluster_disk;
struct cluster_leases;
struct cluster_pool; /* cluster-pool-state.h */
struct cluster_session;
struct waiting; /* cluster-ground.h */

/* How fast members are rebuilt beside clients (cluster-pace.c). */
struct cluster_pace {
  uint64_t live_ms;   /* of the last decision; 0: none yet */
  unsigned second;    /* that is under way, of the cycle of probes */
  uint64_t rate;      /* outside of probes */
  double baseline_us; /* latency when nearly nothing is copied; 0: unknown */
};

struct cluster_array {
  TAILQ_ENTRY (cluster_array) link;
  TAILQ_HEAD (, cluster_session)
  sessions;                     /* that have not ended, in the order of all */
  unsigned writers;             /* how many of these write */
  TAILQ_HEAD (, waiting) polls; /* of theirs, as they came */
  struct cluster_array_record rec;
  struct layout layout;
  struct cluster_disk *disk[ARRAY_MEMBERS_MAX]; /* of each member */
  bool known[ARRAY_MEMBERS_MAX]; /* `served` of its disk, when the member last
                                    confirmed an epoch */
  uint64_t stored_round, stored_live_ms; /* its round as last stored, and when
                                            that was */
  bool renumbered; /* a change of epoch was PREPARED since weftd's start */
  uint64_t prepared_live_ms; /* when the last change was */
  uint64_t begun_live_ms;    /* when the change under way began, and ... */
  uint64_t
    since_live_ms[ARRAY_MEMBERS_MAX]; /* ... when each member got its state;
                                                0: before weftd's start */
  /* When one that writes, or stands by to serve it, was heard again after all of them had
   * been silent; 0: never.
   */
  uint64_t again_live_ms;
  /* Since when each is slow, but for moments; 0: it is not.  And when it was seen last. */
  uint64_t slow_live_ms[ARRAY_MEMBERS_MAX],
    slow_seen_live_ms[ARRAY_MEMBERS_MAX];
  /* the epoch with which the readers' copies changed; 0: earlier writes have
   * reached them (cluster-pump.c)
   */
  uint64_t moved;
  struct cluster_pace pace;
  bool progressed; /* a rebuild has, since an event last told so */
  /* Of each candidate of its service, when it first asked to serve, without a pause
   * since, and when it asked last; 0: never; and by which process.  shown: an event
   * has told that it stands by.
   */
  struct {
    uint64_t since_live_ms, asked_live_ms;
    char instance[CLUSTER_INSTANCE_BYTES];
    bool shown;
  } stands[SERVICE_NODES_MAX];
  char
    service_to[NAME_BYTES_MAX + 1]; /* the node that the service moves to; "":
                                          to none ... */
  uint64_t service_to_live_ms;      /* ... and until when that is tried */
  /* Clients of its service that did not reach a serving node (cluster-reach.c);
   * client: "": none.  The times of the first report in a row, and of the last
   * one.
   */
  struct cluster_unreached {
    char client[NAME_BYTES_MAX + 1], server[NAME_BYTES_MAX + 1];
    uint64_t session, since_live_ms, heard_live_ms;
  } unreached[SERVICE_UNREACHED_MAX];
  uint64_t reach_live_ms; /* when the service last moved for that, and ... */
  uint64_t reach_rest_ms; /* ... for how long it then stays; 0: it never did */
  unsigned reach_shown;   /* an event has told of so many clients */
  uint64_t ordered_live_ms; /* when an administrator last ended a session */
  unsigned due; /* enum due: the work that is due (cluster-pump.c) */
  bool is_due, is_changing; /* it is in the list of these (struct cluster) */
  TAILQ_ENTRY (cluster_array) due_link, changing_link;
  bool deferred; /* its change waits for the end of the array's freeze */
  uint64_t owed_live_ms; /* up to when words that are owed are counted */
  char
    /* the reason to wait before it is restored from a backup; "": none */
    waits[768];
  struct cluster_leases
    *leases; /* the leases; NULL: no session shares it by leases */
  struct cluster_pool *pool; /* NULL: it is none */
};

#endif /* WEFT_CLUSTER_ARRAY_STATE_H */
