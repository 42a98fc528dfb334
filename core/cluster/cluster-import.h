/* cluster-import.h: the plan of an import: the members' states, derived from
 * the reports of their disks (cluster-import-plan.c).
 */

#ifndef WEFT_CLUSTER_IMPORT_H
#define WEFT_CLUSTER_IMPORT_H

#include "cluster.h"

struct cluster_import_place {
  /* The disk that says that it is this member: of several, the one that knows the
   * newest epoch.  NULL: none was heard, or the place is given up.
   */
  const struct cluster_disk_heartbeat *disk;
  const struct cluster_disk_heartbeat *former;   /* another one; NULL: none */
  const struct cluster_disk_heartbeat *given_up; /* NULL: none was heard */
  bool without;                                  /* it is given up */
  bool in_sync;                                  /* by the newest states */
  /* In-sync, and the disk knows the newest epoch and is no more than one round behind:
   * so it is the member's disk, and has what was flushed.
   */
  bool current;
  bool
    unknown; /* in-sync, but not known to be current, whether given up or not */
  enum member_state state; /* the member's state after the import */
};

struct cluster_import_plan {
  const struct cluster_disk_heartbeat *newest; /* whose states count */
  const struct cluster_disk_heartbeat *ahead;  /* has noted the highest round */
  /* A disk that is given up and knows a later epoch or round than all that are not;
   * NULL: none does.
   */
  const struct cluster_disk_heartbeat *given_up;
  /* Two disks that are copies of each other, the older one first; NULL: none are. */
  const struct cluster_disk_heartbeat *twin[2];
  uint64_t epoch, generation; /* the highest that any disk has seen */
  /* the highest of the members that will be in-sync */
  uint64_t round;
  /* Members that are in-sync, and not there as such, have a copy of everything: they
   * may have gone on without all others.
   */
  bool gone_on;
  uint64_t old_bytes; /* of which no copy is on a current disk */
  uint64_t
    lost_bytes; /* bytes without a copy on any disk that will be in-sync */
  struct layout layout;
  struct cluster_import_place place[ARRAY_MEMBERS_MAX];
};

/* Refuses (true) an import that is not possible: no disk was heard, they are
 * not of one array, a copy of some data is missing, or, unless
 * import->accept_loss, some disk shows that another one may know more.  plan:
 * the findings so far; its pointers are to the engine's list of foreign disks.
 */
bool cluster_import_refused (struct cluster *c, uint64_t op,
                             const struct cluster_import *import,
                             struct cluster_import_plan *plan);
/* The same plan, whatever speaks against it.  newest NULL: no disk was heard. */
void cluster_import_look (const struct cluster *c,
                          const struct cluster_import *import,
                          struct cluster_import_plan *plan);
/* The doubts about it, one sentence after the other: *next counts them, from 0
 * on; false at the end.
 */
bool cluster_import_doubts (const struct cluster_import_plan *plan,
                            unsigned *next, char *text, size_t size);

#endif /* WEFT_CLUSTER_IMPORT_H */
