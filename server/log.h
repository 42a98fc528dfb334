/* log.h: lines to stderr, one for each fact. */

#ifndef WEFT_LOG_H
#define WEFT_LOG_H

#include "cluster/cluster.h"

void log_line (enum cluster_severity severity, const char *fmt, ...)
  __attribute__ ((format (printf, 2, 3)));

#endif /* WEFT_LOG_H */
