/* ring.h: the last RING_MAX lines of something, durable: each is a JSON object, in
 * memory and as a record of the store, whose key is the line's number.  All on the
 * loop's thread.
 */

#ifndef WEFT_RING_H
#define WEFT_RING_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "store/store.h"

#define RING_MAX 5000
#define RINGS_MAX 3

struct ring {
  struct {
    uint64_t id;
    json_t *json;
  } lines[RING_MAX];
  size_t first, count; /* the oldest is at `first` */
};

void ring_clear (struct ring *r);
/* Take a line over; ids grow.  t NULL: it is stored already. */
void ring_add (struct ring *r, uint64_t id, json_t *line, const char *kind,
               struct store_txn *t);
/* Forget this line, and those after it. */
void ring_forget_from (struct ring *r, uint64_t id);
/* The line of this number; NULL: it is not (or no longer) here. */
json_t *ring_line (const struct ring *r, uint64_t id);
/* {KIND: [...], "next": ...}: the newest first, of the lines of all these rings before
 * the number `before` that fit (fits NULL: all of them), at most `limit`, each with
 * its number.
 */
json_t *ring_view (const struct ring *rings, unsigned count, const char *kind,
                   uint64_t before, size_t limit,
                   bool (*fits) (const json_t *line, const void *sought),
                   const void *sought);

#endif /* WEFT_RING_H */
