/* history-internal.h: shared by history.c and history-view.c. */

#ifndef WEFT_HISTORY_INTERNAL_H
#define WEFT_HISTORY_INTERNAL_H

#include "history.h"

struct history_tier {
  int64_t step_s, keep_s;
};
#define HISTORY_TIERS 3
extern const struct history_tier history_tiers[HISTORY_TIERS];

/* The columns of the table `sample`, in the order of enum history_series. */
extern const char *const history_names[HISTORY_SERIES];

/* Means of many samples; of latencies, weighted by the requests. */
#define HISTORY_MEANS                                                          \
  "avg(read_bytes), avg(write_bytes), avg(reads), avg(writes), "               \
  "sum(read_us * reads) / sum(iif(read_us IS NULL, 0, reads)), "               \
  "sum(write_us * writes) / sum(iif(write_us IS NULL, 0, writes)), "           \
  "avg(rebuild_bytes), avg(image_bytes), avg(exposed_bytes)"

const char *history_path (const struct history *h);

#endif /* WEFT_HISTORY_INTERNAL_H */
