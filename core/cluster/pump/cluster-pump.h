/* cluster-pump.h: the pump: it does the things that are due at the end of each input, and
 * COMMITs changes of epoch.
 */

#ifndef WEFT_CLUSTER_PUMP_H
#define WEFT_CLUSTER_PUMP_H

#include "cluster/epoch/cluster-epoch.h"
#include "cluster/ground/cluster-ground.h"
#include "cluster/lease/cluster-lease.h"
#include "cluster/repair/cluster-repair.h"
#include "cluster/session/cluster-session.h"
#include "cluster/trust/cluster-trust.h"

/* cluster-pump.c */
/* Do what is due, until nothing is. */
void cluster_pump_settle (struct cluster *c);
/* Do what is due, and queue the step. */
void cluster_pump_end (struct cluster *c);

/* cluster-commit.c */
/* COMMIT the change of epoch that is under way, if nothing is missing. */
void cluster_commit_advance (struct cluster *c, struct cluster_array *a);
/* Do what time brings: a change that waits for members that are gone goes on
 * without them; a lost member that is back is fenced and given to the writer again;
 * tokens that a member refuses are replaced.  True: something was done.
 */
bool cluster_commit_tick (struct cluster *c, struct cluster_array *a);

#endif /* WEFT_CLUSTER_PUMP_H */
