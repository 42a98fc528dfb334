/* bucket.h: how often something may be done: leaky buckets, each of which fills up
 * again with time.  The caller has the lock.
 */

#ifndef WEFT_BUCKET_H
#define WEFT_BUCKET_H

#include <stddef.h>
#include <stdint.h>

struct bucket {
  char key[128];    /* "": free */
  uint64_t used_ms; /* how much of it is used up, in time */
  uint64_t at_ms;   /* as of then */
};

/* The bucket of this key, of `count` in all, as of now.  A bucket that is full
 * again is free; if all are in use the fullest must go.
 */
struct bucket *bucket_find (struct bucket buckets[], size_t count,
                            const char *key, uint64_t now_ms);

#endif /* WEFT_BUCKET_H */
