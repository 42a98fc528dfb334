/* cluster-preflight.h: what would come of an action?  The cluster engine
 * (cluster.h) says whether it would allow the action and what that would lead to,
 * and changes nothing.
 */

#ifndef WEFT_CLUSTER_PREFLIGHT_H
#define WEFT_CLUSTER_PREFLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster.h"

#define CLUSTER_LINES_MAX 24
struct cluster_preflight {
  bool allowed;
  struct cluster_problem why;       /* when it is not */
  char confirm[CLUSTER_PATH_BYTES]; /* the name that people are to type */
  unsigned lines_count;             /* sentences: losses, and so on */
  char line[CLUSTER_LINES_MAX][480];
  uint64_t lost_bytes;        /* for good */
  uint64_t unreachable_bytes; /* more than now, for a while */
  uint64_t exposed_bytes;     /* that have fewer copies than they should, more
                                 than now */
  uint64_t rebuild_bytes;     /* to be copied */
  uint64_t
    unequal_bytes; /* of which an older copy may be the one that is left */
};

/* plan: as for cluster_array_plan. */
void cluster_preflight_create (struct cluster *c,
                               const struct cluster_input *in,
                               const struct cluster_create *create,
                               struct cluster_array *plan,
                               struct cluster_preflight *f);
void cluster_preflight_delete (struct cluster *c,
                               const struct cluster_input *in,
                               const char *array, struct cluster_preflight *f);
void cluster_preflight_volume_create (struct cluster *c,
                                      const struct cluster_input *in,
                                      const char *array, const char *name,
                                      uint64_t size,
                                      struct cluster_preflight *f);
void cluster_preflight_volume_resize (struct cluster *c,
                                      const struct cluster_input *in,
                                      const char *array, const char *name,
                                      uint64_t size,
                                      struct cluster_preflight *f);
void cluster_preflight_volume_delete (struct cluster *c,
                                      const struct cluster_input *in,
                                      const char *array, const char *name,
                                      struct cluster_preflight *f);
void cluster_preflight_service_drop (struct cluster *c,
                                     const struct cluster_input *in,
                                     const char *array,
                                     struct cluster_preflight *f);
/* drop: forbid the node to attach it. */
void cluster_preflight_allow (struct cluster *c, const struct cluster_input *in,
                              const char *array,
                              const struct cluster_allow *allow, bool drop,
                              struct cluster_preflight *f);
void cluster_preflight_replace (struct cluster *c,
                                const struct cluster_input *in,
                                const char *array, unsigned member,
                                const uint8_t disk[16], bool force,
                                struct cluster_preflight *f);
void cluster_preflight_cancel (struct cluster *c,
                               const struct cluster_input *in,
                               const char *array, unsigned member,
                               struct cluster_preflight *f);
void cluster_preflight_maintain (struct cluster *c,
                                 const struct cluster_input *in,
                                 const char *node, bool on, bool force,
                                 struct cluster_preflight *f);
void cluster_preflight_fence (struct cluster *c, const struct cluster_input *in,
                              const char *node, struct cluster_preflight *f);
void cluster_preflight_drain (struct cluster *c, const struct cluster_input *in,
                              const char *node, struct cluster_preflight *f);
void cluster_preflight_remove (struct cluster *c,
                               const struct cluster_input *in, const char *node,
                               struct cluster_preflight *f);
void cluster_preflight_evict (struct cluster *c, const struct cluster_input *in,
                              uint64_t session, struct cluster_preflight *f);
void cluster_preflight_forget (struct cluster *c,
                               const struct cluster_input *in,
                               const uint8_t disk[16],
                               struct cluster_preflight *f);
void cluster_preflight_accept_loss (struct cluster *c,
                                    const struct cluster_input *in,
                                    const char *array,
                                    const struct cluster_loss *loss,
                                    struct cluster_preflight *f);
/* The lines say what each member would be, and what is doubtful, also where the import is
 * refused.
 */
void cluster_preflight_import (struct cluster *c,
                               const struct cluster_input *in,
                               const struct cluster_import *import,
                               struct cluster_preflight *f);
/* The effects of stopping this node at once.  allowed: all data stays
 * reachable.
 */
void cluster_preflight_ok_to_stop (const struct cluster *c, const char *node,
                                   struct cluster_preflight *f);
/* The effects of losing these members of an array. */
void cluster_preflight_losing (const struct cluster *c,
                               const struct cluster_array *a,
                               const bool which[], struct cluster_preflight *f);
/* Which members of the array are on this node? */
void cluster_copies_on_node (const struct cluster_array *a, const char *node,
                             bool which[]);

#endif /* WEFT_CLUSTER_PREFLIGHT_H */
