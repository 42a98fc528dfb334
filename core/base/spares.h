/* spares.h: memory without which nothing can go on, and spares: objects that come and
 * go all the time are kept for the next one.
 */

#ifndef WEFT_SPARES_H
#define WEFT_SPARES_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Zeroed; never NULL.  It is for what is small: where that is not to be had, the
 * process is at its end, and its next start loads what is durable.
 */
static inline void *
alloc_zeroed (size_t bytes)
{
  void *p = calloc (1, bytes);

  if (!p)
    abort ();
  return p;
}

#define SPARES_MAX 4096

/* Objects of one size; the first word of each points to the next one. */
struct spares {
  void *first;
  unsigned count;
};

static inline void *
spares_take (struct spares *s, size_t bytes)
{
  void *p = s->first;

  if (!p)
    return alloc_zeroed (bytes);
  s->first = *(void **) p;
  s->count--;
  return memset (p, 0, bytes);
}

static inline void
spares_give (struct spares *s, void *p)
{
  if (s->count == SPARES_MAX) {
    free (p);
    return;
  }
  *(void **) p = s->first;
  s->first = p;
  s->count++;
}

static inline void
spares_free (struct spares *s)
{
  void *p;

  while ((p = s->first)) {
    s->first = *(void **) p;
    free (p);
  }
}

#endif /* WEFT_SPARES_H */
