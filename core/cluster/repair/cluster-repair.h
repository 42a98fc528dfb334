/* cluster-repair.h: repair: the placement of members, rebuilds, drains, and
 * members that join again.
 */

#ifndef WEFT_CLUSTER_REPAIR_H
#define WEFT_CLUSTER_REPAIR_H

#include "cluster/epoch/cluster-epoch.h"
#include "cluster/ground/cluster-ground.h"
#include "cluster/session/cluster-session.h"
#include "cluster/trust/cluster-trust.h"

/* cluster-place.c */
/* Could the disk be given a place in an array?  False: *p says why not (it was not
 * heard, is not well, or has not yet forgotten another array).
 */
bool cluster_place_usable (const struct cluster *c,
                           const struct cluster_disk *d,
                           struct cluster_problem *p);
/* Fill in the problem that the disk is a spare of another array. */
void cluster_place_is_spare (const struct cluster *c,
                             const struct cluster_disk *d,
                             struct cluster_problem *p);
/* Is another member of its group on this node? */
bool cluster_place_beside (const struct cluster_array *a, unsigned member,
                           const char *node);
/* How many bytes more would be lost with this node, if the member were on it?  The same
 * where it is now.
 */
uint64_t cluster_place_harm (const struct cluster_array *a, unsigned member,
                             const char *node);
uint64_t cluster_place_harm_now (const struct cluster_array *a,
                                 unsigned member);
/* Could the disk become a member, or is it a spare of the array that could? */
bool cluster_place_fits (const struct cluster *c, const struct cluster_array *a,
                         const struct cluster_disk *d);
/* Is d the better place for the member (than: NULL: of none)?  Better: where the loss of
 * its host costs less; where no member of the group is; a spare of the array; no larger
 * than it must be.
 */
bool cluster_place_better (const struct cluster_array *a, unsigned member,
                           const struct cluster_disk *d,
                           const struct cluster_disk *than);
/* Are all of the array's disks on one host, and all that could be members, too?  So it is
 * where somebody tries Weft on one host.
 */
bool cluster_place_one_host (const struct cluster *c,
                             const struct cluster_array *a);
/* Are copies on one host that need not be?  The disk to move *member to; NULL: none would
 * make it better.
 */
struct cluster_disk *cluster_place_mends (const struct cluster *c,
                                          const struct cluster_array *a,
                                          unsigned *member);
/* Would this disk make the loss of a host cost more than it does?  Then *p says so. */
bool cluster_place_refused (const struct cluster *c,
                            const struct cluster_array *a, unsigned member,
                            const struct cluster_disk *d,
                            struct cluster_problem *p);
void cluster_place_link (struct cluster *c, struct cluster_array *a);
/* The disk of this member is no member any more, and is to forget the array. */
void cluster_place_unlink (struct cluster *c, struct cluster_array *a,
                           unsigned member);
/* Give the place of this member, which is out, to another disk. */
void cluster_place_give (struct cluster *c, struct cluster_array *a,
                         unsigned member, struct cluster_disk *d);
/* Put the member out.  A change that is under way is replaced by one in which the
 * member is out as well.
 */
void cluster_place_put_out (struct cluster *c, struct cluster_array *a,
                            unsigned member, const char *reason);

/* cluster-rebuild.c */
/* Rules that cluster-pump.c applies; true: something was done. */
bool cluster_rebuild_leave_out (struct cluster *c, struct cluster_array *a);
bool cluster_rebuild_notice (struct cluster *c, struct cluster_array *a);
bool cluster_rebuild_renew (struct cluster *c, struct cluster_array *a);
bool cluster_rebuild_anew (struct cluster *c, struct cluster_array *a);
bool cluster_rebuild_finish (struct cluster *c, struct cluster_array *a);
bool cluster_rebuild_take_back (struct cluster *c, struct cluster_array *a);
/* Decide, once a second, how fast the joining members copy. */
void cluster_rebuild_pace (struct cluster *c, struct cluster_array *a);
/* Can all who write take part in a change of epoch?  *ill: one who can't, or NULL.
 * Where nobody writes: are all in-sync members fenced against the last who did?
 */
bool cluster_rebuild_writers_well (const struct cluster *c,
                                   const struct cluster_array *a,
                                   const struct cluster_session **ill);
/* A COMMIT puts this member out.  (Its record still has its former state, and since
 * when it had that.)
 */
void cluster_rebuild_out (struct cluster *c, struct cluster_array *a,
                          unsigned member);
/* A COMMIT makes this member joining. */
void cluster_rebuild_begin (struct cluster *c, struct cluster_array *a,
                            unsigned member);
/* When this member, which is out, will have been away for as long as its array
 * allows before a spare takes its place; 0: it is not away, or may be so for
 * ever.  A member that goes out repeatedly soon after it is back counts as away
 * all that time.
 */
uint64_t cluster_rebuild_gone_live_ms (const struct cluster *c,
                                       const struct cluster_array *a,
                                       unsigned member);

/* cluster-drain.c */
/* A rule that cluster-pump.c applies: members move away from nodes that are
 * drained, and to disks that were ordered for them, a step at a time.
 */
bool cluster_drain_move (struct cluster *c, struct cluster_array *a);
/* This member is in-sync (its record says so): its move is over. */
void cluster_drain_arrived (struct cluster *c, struct cluster_member *member);
/* Another member of its group that is needed while this one is out, and that is not well;
 * if there is none, a->layout.members.
 */
unsigned cluster_drain_needs (const struct cluster *c,
                              const struct cluster_array *a, unsigned member,
                              const char **why);
/* Can the member not leave its place now?  Then text says what is waited for.  passes: it
 * goes by, and nobody need do anything.
 */
bool cluster_drain_hinders (const struct cluster *c,
                            const struct cluster_array *a, unsigned member,
                            char *text, size_t size, bool *passes);
/* The disk to which this member moves.  promised: disks that are promised to
 * other members (a NULL ends the list). NULL: there is none, and `why` has the
 * reason.
 */
struct cluster_disk *cluster_drain_pick (
  const struct cluster *c, const struct cluster_array *a, unsigned member,
  const struct cluster_disk *const promised[], char *why, size_t why_size);
/* Bytes that are still to move away from the node, how many a second, and how
 * long that will take (0: not known).
 */
uint64_t cluster_drain_bytes (const struct cluster *c, const char *node);
uint64_t cluster_drain_rate (const struct cluster *c, const char *node,
                             uint64_t *eta_ms);

/* cluster-jobs.c */
/* Record the job that has ended: a member's rebuild, whose state goes from joining
 * to this one; the making of an array.
 */
void cluster_job_rebuilt (struct cluster *c, const struct cluster_array *a,
                          unsigned member, enum member_state state);
void cluster_job_created (struct cluster *c, const struct cluster_array *a);
/* Take in a stored job, before the start. */
void cluster_job_load (struct cluster *c, const struct cluster_job *job);
/* Drop the jobs that ended long ago. */
void cluster_jobs_prune (struct cluster *c);

/* cluster-rejoin.c */
/* A rule that cluster-pump.c applies: a member that may differ from others
 * joins again.
 */
bool cluster_rejoin (struct cluster *c, struct cluster_array *a);
/* Does such a member wait before it can?  Then text says for which event. */
bool cluster_rejoin_waits (const struct cluster *c,
                           const struct cluster_array *a, char *text,
                           size_t size);

/* cluster-eta.c */
/* Take in what a member says of its joining. */
void cluster_eta_note (struct cluster_eta *e, uint64_t live_ms,
                       const struct cluster_join *join);
/* The bytes a second by which the rest of this member's rebuild shrinks; 0: not
 * known (yet), or the rebuild makes no progress.
 */
double cluster_eta_rate (const struct cluster *c, const struct cluster_array *a,
                         unsigned member);

#endif /* WEFT_CLUSTER_REPAIR_H */
