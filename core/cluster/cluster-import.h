/* cluster-import.h: what an import would make of an array's members, from what their
 * disks say of themselves (cluster-import-plan.c).
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
    unknown; /* in-sync, and not known to be current, be it given up or not */
  enum member_state state; /* what the member is to be */
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
  uint64_t round;             /* the highest of those that are to be in-sync */
  /* Members that are in-sync, and not there as such, have a copy of everything: they
   * may have gone on without all others.
   */
  bool gone_on;
  uint64_t old_bytes; /* of which no copy is on a current disk */
  uint64_t
    lost_bytes; /* of which no copy is on any disk that is to be in-sync */
  struct layout layout;
  struct cluster_import_place place[ARRAY_MEMBERS_MAX];
};

/* Refuses (true) what can't be imported: no disk was heard, they are not of one array,
 * a copy of some data is missing, or, unless import->accept_loss, some disk shows that
 * another one may know more.  plan: what was found, as far as it got; its pointers are
 * to the engine's list of foreign disks.
 */
bool cluster_import_refused (struct cluster *c, uint64_t op,
                             const struct cluster_import *import,
                             struct cluster_import_plan *plan);
/* The same plan, whatever speaks against it.  newest NULL: no disk was heard. */
void cluster_import_look (const struct cluster *c,
                          const struct cluster_import *import,
                          struct cluster_import_plan *plan);
/* What is doubtful about it, one sentence after the other: *next counts them, from 0 on;
 * false: there is no more.
 */
bool cluster_import_doubts (const struct cluster_import_plan *plan,
                            unsigned *next, char *text, size_t size);

#endif /* WEFT_CLUSTER_IMPORT_H */
