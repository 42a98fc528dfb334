/* cluster-pool-state.h: the state of a pool in the cluster engine (cluster.h): whose each
 * segment is, and its volumes.
 */

#ifndef WEFT_CLUSTER_POOL_STATE_H
#define WEFT_CLUSTER_POOL_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include <bsd/sys/queue.h>

#include "base/bounds.h"
#include "cluster-records.h"
#include "format/pool.h"

/* The volume as the process says that has the pool. */
struct cluster_volume_said {
  bool made;                      /* its root is durable */
  uint64_t size;                  /* as the durable root has it */
  uint64_t mapped, log, spare;    /* segments */
  uint64_t blocks;                /* present */
  uint64_t clients;               /* that are connected to it */
  uint64_t waiting;               /* requests that wait for space */
  char why[CLUSTER_REASON_BYTES]; /* why it failed; "": it did not */
};

enum cluster_volume_what { CLUSTER_VOLUME_RESIZE, CLUSTER_VOLUME_DELETE };

/* An order for the process that has the pool.  Not stored: a volume that is being deleted
 * is ordered to be so again.
 */
struct cluster_volume_order {
  uint64_t number; /* greater than that of any earlier one; 0: there is none */
  enum cluster_volume_what what;
  uint64_t size; /* RESIZE */
};

struct cluster_volume {
  TAILQ_ENTRY (cluster_volume) link;
  struct cluster_volume_record rec;
  uint32_t segments; /* that are granted to it */
  bool heard;        /* `said` is what the present session has said */
  struct cluster_volume_said said;
  uint64_t waits_live_ms; /* since when requests wait for space; 0: none does */
  struct cluster_volume_order order;
};

/* A volume that a scan has found. */
struct cluster_found {
  bool there;
  bool renewed; /* its UUID is another volume's, so it gets another one */
  uint8_t uuid[16];
  char name[NAME_BYTES_MAX + 1];
  uint64_t size;
  uint32_t kept;                  /* spare segments that it needs for its log */
  char why[CLUSTER_REASON_BYTES]; /* why it can't be read; "": it can */
};

/* A scan under way. */
struct cluster_scan {
  uint64_t session; /* that does it */
  uint32_t *owner;  /* of each segment: the root + 1 that names it; 0: none */
  struct cluster_found *found; /* of each root */
};

struct cluster_pool {
  struct pool_header geometry;
  uint32_t first; /* the first segment that can be granted */
  uint32_t free;
  uint32_t *owner;     /* of each segment: its root + 1; 0: nobody */
  uint32_t *page_free; /* free segments of each page */
  bool *page_changed;  /* since it was stored */
  uint32_t pages;
  TAILQ_HEAD (, cluster_volume) volumes; /* by name */
  unsigned volumes_count;
  uint64_t newest_order;
  struct cluster_scan *scan; /* NULL: none is under way */
};

#endif /* WEFT_CLUSTER_POOL_STATE_H */
