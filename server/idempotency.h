/* idempotency.h: answers to be given again.
 *
 * A client that does not know whether its POST was done sends it again with the
 * same Idempotency-Key.  The first good answer is kept, for a day, in the same
 * transaction as what was done: so whenever weftd dies, either both are there or
 * neither, and the request is never done twice.  A refusal changed nothing; the
 * same key may then be used again.
 *
 * Keys are of their caller: nobody is given another's answer.  All on the loop's
 * thread.
 */

#ifndef WEFT_IDEMPOTENCY_H
#define WEFT_IDEMPOTENCY_H

#include <stdint.h>

#include <jansson.h>

#include "loop.h"
#include "store/store.h"

#define IDEMPOTENCY_MAX 1000
#define IDEMPOTENCY_MS (UINT64_C (24) * 3600 * 1000)
#define IDEMPOTENCY_KIND "idempotency"

struct idempotency *idempotency_new (void);
void idempotency_free (struct idempotency *i);

/* A stored record. */
int idempotency_load (struct idempotency *i, const char *key, const char *json,
                      char *why, size_t why_size);

/* A request has come.  False: carry it out.  True: do not, and this is the
 * answer.
 */
bool idempotency_begin (struct idempotency *i, struct request *r, int *status,
                        json_t **body);
/* The request is answered: if the answer must be kept, add it to the
 * transaction.
 */
void idempotency_answer (struct idempotency *i, const struct request *r,
                         uint64_t wall_ms, int status, const json_t *body,
                         struct store_txn *t);

#endif /* WEFT_IDEMPOTENCY_H */
