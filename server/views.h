/* views.h: the engine's objects as the JSON of the API (docs/API). */

#ifndef WEFT_VIEWS_H
#define WEFT_VIEWS_H

#include <jansson.h>

#include "cluster/cluster-preflight.h"

struct auth;

json_t *view_disk (const struct cluster *c, const struct cluster_disk *d);
/* At most so many.  An array's own view has the first. */
#define BAD_RANGES_SHOWN 16
json_t *view_bad_ranges (const struct cluster_array *a, size_t max);
json_t *view_array (const struct cluster *c, const struct cluster_array *a);
/* The nodes that are fenced, or were, and what is refused of each. */
json_t *view_fenced (const struct cluster *c);
json_t *view_service (const struct cluster *c, const struct cluster_array *a);
json_t *view_session (const struct cluster *c, const struct cluster_session *s);
/* views-leases.c: the map of leases; and a range. */
json_t *view_leases (const struct cluster *c, const struct cluster_array *a);
json_t *view_range (const struct cluster_part *part);
/* views-volumes.c: a volume; a pool, or null; and for the process that has the pool: a
 * volume that it opens, what its last message was granted, and its orders.
 */
json_t *view_volume (const struct cluster *c, const struct cluster_array *a,
                     const struct cluster_volume *v);
json_t *view_volumes (const struct cluster *c, const struct cluster_array *a);
json_t *view_pool (const struct cluster_array *a);
json_t *view_held_volume (const struct cluster_volume *v);
json_t *view_opened (const struct cluster_volume *v,
                     const struct cluster_run *list, unsigned count);
json_t *view_granted (const struct cluster_session *s);
json_t *view_orders (const struct cluster_array *a);
/* views-node.c.  NULL: there is no node of this name (any more). */
json_t *view_node (const struct cluster *c, struct auth *auth,
                   const char *name);
json_t *view_job (const struct cluster_job *job);
json_t *view_job_of_id (const struct cluster *c, const char *id); /* or NULL */
/* plan: the array as it would be; NULL: none. */
json_t *view_preflight (const struct cluster_preflight *f, json_t *plan);
json_t *view_ok_to_stop (const char *node, const struct cluster_preflight *f);
json_t *view_losing (const struct cluster_preflight *f);
json_t *view_disk_load (const struct cluster_disk *d);
json_t *view_session_load (const struct cluster_session *s);

/* Lists. */
json_t *view_jobs (const struct cluster *c);
json_t *view_disks (const struct cluster *c);
json_t *view_arrays (const struct cluster *c);
json_t *view_sessions (const struct cluster *c);
json_t *view_nodes (const struct cluster *c, struct auth *auth);
/* The disks that are spares of the array. */
json_t *view_spares (const struct cluster *c, const struct cluster_array *a);
json_t *view_capacity (const struct layout_capacity *c);
/* For a joining member; null for another. */
json_t *view_rebuild (const struct cluster *c, const struct cluster_array *a,
                      unsigned member);
json_t *view_rebuilds (const struct cluster *c);
/* Arrays that could be taken over from their members alone. */
json_t *view_imports (const struct cluster *c);
json_t *view_status (const struct cluster *c, struct auth *auth,
                     uint64_t wall_ms);
/* Rates: values that change every second and are not stored. */
json_t *view_load (const struct cluster *c, uint64_t wall_ms);

/* An error, as problem+json. */
json_t *view_problem (const struct cluster_problem *p, int *status);
/* Sessions that are over, as sent to members: [number, session, epoch] each. */
json_t *view_over (const struct cluster_over over[], unsigned count);
/* The members that have not confirmed yet that they refuse the sessions that an
 * administrator has ended, for people.
 */
json_t *view_unconfirmed (const struct cluster *c);
json_t *view_error (int status, const char *field, const char *code,
                    const char *detail);

#endif /* WEFT_VIEWS_H */
