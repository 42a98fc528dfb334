/* routes-internal.h: the tables of routes, one of each file that answers
 * requests; each ends with an empty line.
 */

#ifndef WEFT_ROUTES_INTERNAL_H
#define WEFT_ROUTES_INTERNAL_H

#include "etag.h"
#include "routes.h"
#include "views.h"

#define V1 "/api/v1"

extern const struct route routes_array[];
extern const struct route routes_backup[];
extern const struct route routes_ca[];
extern const struct route routes_cluster[];
extern const struct route routes_disk[];
extern const struct route routes_enroll[];
extern const struct route routes_node[];
extern const struct route routes_node_token[];
extern const struct route routes_layouts[];
extern const struct route routes_leases[];
extern const struct route routes_login[];
extern const struct route routes_rebuild[];
extern const struct route routes_session[];
extern const struct route routes_users[];
extern const struct route routes_volumes[];

/* The functions of a route whose answer comes from the engine: `call` is one of
 * its functions, and the rest are its arguments from the request r.
 */
#define ROUTE_CALL(handle, call, ...)                                          \
  static void handle (struct loop *l, struct request *r)                       \
  {                                                                            \
    call (loop_cluster (l), loop_input (l, r), __VA_ARGS__);                   \
  }
#define ROUTE_PREFLIGHT(preflight, call, ...)                                  \
  static void preflight (struct loop *l, struct request *r)                    \
  {                                                                            \
    struct cluster_preflight f;                                                \
                                                                               \
    call (loop_cluster (l), loop_input (l, r), __VA_ARGS__, &f);               \
    loop_answer (l, r, 200, view_preflight (&f, NULL));                        \
  }

/* ---- routes-disk.c ---- */

/* The field of that name, which must not be empty. */
void route_disk_parse_instance (struct fields *f,
                                char instance[CLUSTER_INSTANCE_BYTES]);
/* The field `uri`: where others reach the caller's export.  A node with a
 * certificate may give only its own addresses, and with TLS; `local`: also
 * addresses that no other host can connect to.
 */
void route_disk_parse_own_uri (struct fields *f, const struct request *r,
                               bool local, char *uri, size_t size);
/* How long may the answer to a heartbeat be held, and does it say anything that must
 * be known now?
 */
void route_disk_parse_patience (struct fields *f, struct request *r,
                                uint64_t *wait_ms);

/* ---- routes-array.c ---- */

/* The field `disks`. */
void route_array_parse_disks (struct fields *f, struct cluster_create *create);
/* The array in the path; NULL: refused. */
const struct cluster_array *route_array_of_path (struct loop *l,
                                                 struct request *r);

/* ---- routes-enroll.c: true: it is answered. ---- */

/* Is it the node r->name itself, if its certificate has expired? */
bool enroll_refuse_late (struct loop *l, struct request *r);
/* Has the node r->name a certificate at all? */
bool enroll_refuse_stranger (struct loop *l, struct request *r);

#endif /* WEFT_ROUTES_INTERNAL_H */
