/* spans.h: the owner of each byte: ranges that do not overlap, each with an
 * owner.
 *
 * Pure.  Offsets are bytes; a span is [start, end), never empty.  Neighbours of
 * the same owner are one span.  An owner is a number of the caller's, never 0:
 * bytes outside of all spans have no owner.
 */

#ifndef WEFT_SPANS_H
#define WEFT_SPANS_H

#include <stdbool.h>
#include <stdint.h>

struct span {
  uint64_t start, end, owner;
};

struct spans {       /* begins as zeros */
  struct span *span; /* ascending */
  unsigned count, room;
};

void spans_free (struct spans *s);

/* The range is this owner's from now on, whosever it was; 0: nobody's. */
void spans_set (struct spans *s, uint64_t start, uint64_t end, uint64_t owner);

/* The first span that ends beyond `at`; s->count: there is none. */
unsigned spans_find (const struct spans *s, uint64_t at);

/* Is all of the range this owner's?  (0: is all of it nobody's?) */
bool spans_has (const struct spans *s, uint64_t start, uint64_t end,
                uint64_t owner);

/* Is any of the range anybody's? */
bool spans_meet (const struct spans *s, uint64_t start, uint64_t end);

/* How far from `at` on, and no further than `end`, is all this owner's, or nobody's
 * for 0?  Returns where that ends; `at`: nothing is.
 */
uint64_t spans_reach (const struct spans *s, uint64_t at, uint64_t end,
                      uint64_t owner);
/* The same downwards, from `at` (exclusive) to no lower than `start`. */
uint64_t spans_reach_down (const struct spans *s, uint64_t at, uint64_t start,
                           uint64_t owner);

/* Asserts every invariant; for tests. */
void spans_check (const struct spans *s);

#endif /* WEFT_SPANS_H */
