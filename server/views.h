/* views.h: the engine's objects as the JSON of the API (docs/API). */

#ifndef WEFT_VIEWS_H
#define WEFT_VIEWS_H

#include <jansson.h>

#include "cluster.h"

json_t *view_disk (const struct cluster *c, const struct cluster_disk *d);
json_t *view_array (const struct cluster *c, const struct cluster_array *a,
                    uint64_t wall_ms);
json_t *view_session (const struct cluster *c, const struct cluster_session *s);
/* NULL: there is no node of this name (any more). */
json_t *view_node (const struct cluster *c, const char *name);

/* {"disks": [...]} and so on. */
json_t *view_disks (const struct cluster *c);
json_t *view_arrays (const struct cluster *c, uint64_t wall_ms);
json_t *view_sessions (const struct cluster *c);
json_t *view_nodes (const struct cluster *c);
/* Of a joining member; null of another. */
json_t *view_rebuild (const struct cluster *c, const struct cluster_array *a,
                      unsigned member);
json_t *view_rebuilds (const struct cluster *c);
/* Arrays that could be taken over from their members alone. */
json_t *view_imports (const struct cluster *c);
json_t *view_status (const struct cluster *c, uint64_t wall_ms);
/* Rates: what changes every second and is not stored. */
json_t *view_load (const struct cluster *c, uint64_t wall_ms);

/* An error, as problem+json. */
json_t *view_problem (const struct cluster_problem *p, int *status);
json_t *view_error (int status, const char *field, const char *code,
                    const char *detail);

#endif /* WEFT_VIEWS_H */
