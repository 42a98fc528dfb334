/* metrics.h: GET /metrics, in Prometheus' text format.
 *
 * Names: weft_ first, the unit last (seconds, bytes, ratio), _total for
 * counters.  A state is a series for each possible value, 1 for the present
 * one.  Counters start at 0 with the process that counts: a session's with its
 * session (a label), a disk's with its member process.
 *
 * docs/monitoring has alert rules and a dashboard over these.
 */

#ifndef WEFT_METRICS_H
#define WEFT_METRICS_H

#include "cluster/cluster.h"

#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* For the caller to free. */
char *metrics_text (const struct cluster *c);

#endif /* WEFT_METRICS_H */
