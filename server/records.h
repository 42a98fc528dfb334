/* records.h: the cluster engine's records as stored: kind, key and JSON. */

#ifndef WEFT_RECORDS_H
#define WEFT_RECORDS_H

#include "cluster/cluster.h"
#include "store/store.h"

/* Add the put or delete of a record. */
void records_add (struct store_txn *t, const struct cluster_record *r);

/* Returns 0, or -1 with a sentence in why: nothing is guessed, nothing is
 * passed over.
 */
int records_parse (const char *kind, const char *key, const char *json,
                   struct cluster_record *r, char *why, size_t why_size);

#endif /* WEFT_RECORDS_H */
