/* journal.h: the sentences of the log, the last of them (ring.h), durable.
 * All on the loop's thread.
 */

#ifndef WEFT_JOURNAL_H
#define WEFT_JOURNAL_H

#include <stdint.h>

#include <jansson.h>

#include "cluster/cluster.h"
#include "query.h"
#include "ring.h"

#define JOURNAL_KIND "log"

/* A stored event, before all records: weftd's first version kept no others. */
void journal_load_event (struct ring *log, uint64_t id, const json_t *line);
/* A stored record. */
int journal_load (struct ring *log, const char *key, const char *json,
                  char *why, size_t why_size);

/* {"at", "severity", "subject", "text"}, which is taken over, is the event
 * `id`; ids grow.
 */
void journal_add (struct ring *log, uint64_t id, json_t *line,
                  struct store_txn *t);

/* The newest first: those from before the cursor that fit the query. */
json_t *journal_view (const struct ring *log, const struct query *q);

#endif /* WEFT_JOURNAL_H */
