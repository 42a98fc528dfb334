/* cluster-lease.h: leases: the ranges that each lessee has, and the grant of free ranges.
 */

#ifndef WEFT_CLUSTER_LEASE_H
#define WEFT_CLUSTER_LEASE_H

#include "cluster/epoch/cluster-epoch.h"
#include "cluster/ground/cluster-ground.h"
#include "cluster/trust/cluster-trust.h"

/* cluster-lease.c */
/* At weftd's start: sessions share the array, and nobody knows yet what they have. */
void cluster_lease_start (struct cluster_array *a);
void cluster_leases_free (struct cluster_array *a);
/* The session is admitted: by a fence, if it is the only writer. */
void cluster_lease_begin (struct cluster *c, struct cluster_array *a,
                          struct cluster_session *s);
/* Is this a range of the array that begins and ends at multiples of the granule, or at the
 * array's end?
 */
bool cluster_lease_fits (const struct cluster_array *a,
                         const struct cluster_part *p, uint64_t granule);
/* Take in its heartbeat's report of recovery orders. */
void cluster_lease_heard (struct cluster *c, struct cluster_session *s,
                          const struct cluster_session_heartbeat *hb);
/* Can all of this range be granted: nobody holds any of it, and all of it is equal? */
bool cluster_lease_free (const struct cluster_array *a,
                         const struct cluster_part *range);
/* The session has these leases, and no others.  False: another one has some of that. */
bool cluster_lease_declare (struct cluster *c, struct cluster_array *a,
                            struct cluster_session *s,
                            const struct cluster_part *declared,
                            unsigned count);
/* It has left what it had of this range. */
void cluster_lease_give (struct cluster *c, struct cluster_array *a,
                         struct cluster_session *s,
                         const struct cluster_part *given);
/* It has carried out this order. */
void cluster_lease_recovered (struct cluster *c, struct cluster_array *a,
                              struct cluster_session *s, uint64_t order);
/* It detaches by itself: it has left all that it had. */
void cluster_lease_detached (struct cluster_array *a,
                             struct cluster_session *s);
/* It has ended. */
void cluster_lease_end (struct cluster *c, struct cluster_array *a,
                        struct cluster_session *s);
/* The first span in the range that somebody else has; NULL: nobody else has any. */
const struct span *cluster_lease_other (const struct spans *spans,
                                        const struct cluster_part *p,
                                        uint64_t id);
/* Has every lessee declared its leases?  Then the ranges without an owner, of
 * an array that must be recovered, are orphans.
 */
bool cluster_lease_begun (const struct cluster *c, struct cluster_array *a);
/* Are there orphans, and no order is under way?  Without orphans, nothing must
 * be recovered.
 */
bool cluster_lease_orphans (struct cluster *c, struct cluster_array *a);
/* There is something about leases for it to hear. */
void cluster_lease_news (struct cluster *c, struct cluster_session *s);
/* The session is to recover all orphans. */
void cluster_lease_order (struct cluster *c, struct cluster_array *a,
                          struct cluster_session *s);

/* cluster-lease-map.c */
/* Somebody needs this range, and others have it; one of them is asked to give it back. */
void cluster_lease_map_met (const struct cluster *c, struct cluster_array *a,
                            uint64_t start, uint64_t end);
void cluster_lease_map_asked_back (const struct cluster *c,
                                   struct cluster_array *a, uint64_t start,
                                   uint64_t end);
/* How far from `at` on, up to `end`, is nothing hot?  And from `at` down to `start`? */
uint64_t cluster_lease_map_cool (const struct cluster *c,
                                 struct cluster_array *a, uint64_t at,
                                 uint64_t end);
uint64_t cluster_lease_map_cool_down (const struct cluster *c,
                                      struct cluster_array *a, uint64_t at,
                                      uint64_t start);

/* cluster-lease-grant.c */
/* Order recoveries, and grant free ranges. */
/* still: nothing can be granted now, nor ordered. */
void cluster_lease_grant_settle (struct cluster *c, struct cluster_array *a,
                                 bool still);
/* An ask has waited for long enough: refuse it. */
void cluster_lease_grant_late (struct cluster *c, struct waiting *w);
/* Has the session a range that it is to give back for another? */
bool cluster_lease_grant_owed (const struct cluster_array *a,
                               const struct cluster_session *s);

#endif /* WEFT_CLUSTER_LEASE_H */
