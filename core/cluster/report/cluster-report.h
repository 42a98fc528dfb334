/* cluster-report.h: reports for people: the verdict, the check of invariants, and the preflight
 * of an order.
 */

#ifndef WEFT_CLUSTER_REPORT_H
#define WEFT_CLUSTER_REPORT_H

#include "cluster/epoch/cluster-epoch.h"
#include "cluster/ground/cluster-ground.h"
#include "cluster/inputs/cluster-inputs.h"
#include "cluster/lease/cluster-lease.h"
#include "cluster/repair/cluster-repair.h"
#include "cluster/session/cluster-session.h"
#include "cluster/trust/cluster-trust.h"

#endif /* WEFT_CLUSTER_REPORT_H */
