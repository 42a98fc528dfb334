/* routes-internal.h: the tables of routes, one of each file that answers
 * requests; each ends with an empty line.
 */

#ifndef WEFT_ROUTES_INTERNAL_H
#define WEFT_ROUTES_INTERNAL_H

#include "etag.h"
#include "routes.h"

#define V1 "/api/v1"

extern const struct route routes_array[];
extern const struct route routes_cluster[];
extern const struct route routes_disk[];
extern const struct route routes_enroll[];
extern const struct route routes_node[];
extern const struct route routes_node_token[];
extern const struct route routes_preflight[];
extern const struct route routes_layouts[];
extern const struct route routes_login[];
extern const struct route routes_rebuild[];
extern const struct route routes_session[];
extern const struct route routes_users[];

/* Of PATCH /nodes/{name}. */
struct maintain_input {
  bool on, force;
};

/* routes-preflight.c: `preflight` of the routes. */
void preflight_create (struct loop *l, struct request *r);
void preflight_delete (struct loop *l, struct request *r);
void preflight_accept_loss (struct loop *l, struct request *r);
void preflight_replace (struct loop *l, struct request *r);
void preflight_cancel (struct loop *l, struct request *r);
void preflight_maintain (struct loop *l, struct request *r);
void preflight_drain (struct loop *l, struct request *r);
void preflight_remove (struct loop *l, struct request *r);
void preflight_evict (struct loop *l, struct request *r);
void preflight_forget (struct loop *l, struct request *r);

/* routes-disk.c: how long the answer to a heartbeat may be held, and does it say
 * anything that must be known now?
 */
void parse_patience (struct fields *f, struct request *r, uint64_t *wait_ms);

/* routes-array.c: the field `disks`. */
void parse_disks (struct fields *f, struct cluster_create *create);

#endif /* WEFT_ROUTES_INTERNAL_H */
