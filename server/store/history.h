/* history.h: how much was read and written when, for the charts.
 *
 * Once a second the loop hands in what is now; every ten seconds the means of
 * that become a sample, which a thread of its own keeps in STATE/history.db (an
 * SQLite database): samples of 10 s for 2 hours, of a minute for 2 days, of 10
 * minutes for 30 days, each made of the finer ones.
 *
 * Nothing depends on it: a history that cannot be read is set aside
 * (history.db.broken), and a new one begins; samples that cannot be stored are
 * missing later.
 */

#ifndef WEFT_HISTORY_H
#define WEFT_HISTORY_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "cluster/cluster.h"
#include "server/query.h"

/* Rates are per second.  NAN: unknown. */
enum history_series {
  HISTORY_READ_BYTES,
  HISTORY_WRITE_BYTES,
  HISTORY_READS,
  HISTORY_WRITES,
  HISTORY_READ_US, /* mean latencies: meaningless without reads or writes */
  HISTORY_WRITE_US,
  HISTORY_REBUILD_BYTES,
  HISTORY_IMAGE_BYTES,   /* waiting in memory */
  HISTORY_EXPOSED_BYTES, /* with too few copies */
  HISTORY_SERIES
};

#define HISTORY_SUBJECT_BYTES 80

struct store;

/* Its database lies beside the store's. */
struct history *history_new (const struct store *store);
/* Stores what is complete. */
void history_free (struct history *h);

/* On the loop's thread, once a second: the cluster, its arrays, its disks. */
void history_sample (struct history *h, const struct cluster *c,
                     uint64_t wall_ms);
/* In two steps, for history-sample.c: a new second, which hands samples that
 * are complete to the thread; and each subject in it.
 */
void history_begin (struct history *h, uint64_t wall_ms);
void history_add (struct history *h, const char *subject,
                  const double value[HISTORY_SERIES]);

/* From any thread: the answer to the query, or a problem, with its status.
 * live: the thing exists now, so it may have no past yet.
 */
json_t *history_view (const struct history *h, const struct query *q, bool live,
                      uint64_t wall_ms, int *status);

#endif /* WEFT_HISTORY_H */
