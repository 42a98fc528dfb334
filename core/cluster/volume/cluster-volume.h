/* cluster-volume.h: pools: whose each segment is, the volumes, and the orders for them.
 */

#ifndef WEFT_CLUSTER_VOLUME_H
#define WEFT_CLUSTER_VOLUME_H

#include "cluster/ground/cluster-ground.h"

/* cluster-space.c */
/* Begin with the table of a pool of this geometry, in which nobody has anything. */
void cluster_space_begin (struct cluster_pool *p);
void cluster_space_end (struct cluster_pool *p);
/* Take in a stored page.  False: it makes no sense. */
bool cluster_space_load (struct cluster_pool *p,
                         const struct cluster_space_record *r);
/* Is this run one of segments that can be granted? */
bool cluster_space_fits (const struct cluster_pool *p,
                         const struct cluster_run *run);
/* Grant the volume at most `want` free segments, best from `near` on, in at most `max`
 * runs.  Returns how many segments; *runs: how many runs there are in all then.
 */
uint32_t cluster_space_take (struct cluster_pool *p, struct cluster_volume *v,
                             uint32_t near, uint32_t want,
                             struct cluster_run *run, unsigned *runs,
                             unsigned max);
/* Segments of this run that are the volume's are free. */
void cluster_space_give (struct cluster_pool *p, struct cluster_volume *v,
                         const struct cluster_run *run);
/* The volume loses all its segments. */
void cluster_space_drop (struct cluster_pool *p, struct cluster_volume *v);
/* All volumes lose all. */
void cluster_space_clear (struct cluster_pool *p);
/* The volume gets so many free segments from `from` on, as far as there are some.  Returns the
 * segment after the last one.
 */
uint32_t cluster_space_keep (struct cluster_pool *p, struct cluster_volume *v,
                             uint32_t from, uint32_t want);
/* The owners of all segments, of which nobody has any: root + 1, or 0. */
void cluster_space_adopt (struct cluster_pool *p, const uint32_t owner[]);
/* Of so many free segments, how many may be granted for data? */
uint32_t cluster_space_for_data (const struct cluster_pool *p);
/* Store the pages that have changed. */
void cluster_space_store (struct cluster *c, const struct cluster_array *a);
/* The records of all pages go. */
void cluster_space_forget (struct cluster *c, const struct cluster_array *a);

/* cluster-volume.c */
/* The array is a pool: make its table.  False: its record makes no sense. */
bool cluster_volume_pool (struct cluster_array *a);
void cluster_volume_pool_free (struct cluster_array *a);
/* At weftd's start: each volume and page that was loaded finds its pool.  Returns 0, or -1
 * with a sentence in why.
 */
int cluster_volume_link (struct cluster *c, char *why, size_t why_size);
/* The array goes: all records of its volumes and their space, too. */
void cluster_volume_forget (struct cluster *c, struct cluster_array *a);
void cluster_volume_insert (struct cluster_array *a, struct cluster_volume *v);
struct cluster_volume *cluster_volume_by_uuid (const struct cluster_array *a,
                                               const uint8_t uuid[16]);
/* NULL: there is none. */
struct cluster_volume *cluster_volume_by_root (const struct cluster_array *a,
                                               unsigned root);
/* Has the pool a volume that can't be read?  Nobody knows all of its segments. */
bool cluster_volume_any_broken (const struct cluster_array *a);
void cluster_volume_scan_free (struct cluster_pool *p);
/* A place for a root; UINT_MAX: there is none. */
unsigned cluster_volume_root (const struct cluster_array *a);
/* It is gone: its record, its space. */
void cluster_volume_drop (struct cluster *c, struct cluster_array *a,
                          struct cluster_volume *v);
/* Order the process that has the pool to do this.  Returns the order's number. */
uint64_t cluster_volume_order (struct cluster *c, struct cluster_array *a,
                               struct cluster_volume *v,
                               enum cluster_volume_what what, uint64_t size);
/* The pool may be an older one than weftd's database, or a newer one: nothing is granted
 * before it is scanned.
 */
void cluster_volume_unscanned (struct cluster *c, struct cluster_array *a);
/* A session has attached the pool: it gets the orders that are not carried out. */
void cluster_volume_begin (struct cluster *c, struct cluster_array *a);
/* A session of the array has ended: nobody carries out orders any more. */
void cluster_volume_session_over (struct cluster *c, struct cluster_array *a,
                                  const struct cluster_session *s);
/* The call that waits for this order; NULL: none does any more. */
struct waiting *cluster_volume_waiting (const struct cluster *c,
                                        uint64_t order);
/* It has waited for too long. */
void cluster_volume_late (struct cluster *c, struct waiting *w);

#endif /* WEFT_CLUSTER_VOLUME_H */
