/* bucket.c: see bucket.h. */

#include <config.h>

#include <stdio.h>
#include <string.h>

#include "bucket.h"

struct bucket *
bucket_find (struct bucket buckets[], size_t count, const char *key,
             uint64_t now_ms)
{
  struct bucket *best = &buckets[0];

  for (size_t i = 0; i < count; i++) {
    struct bucket *b = &buckets[i];
    uint64_t gone = now_ms > b->at_ms ? now_ms - b->at_ms : 0;

    b->used_ms = b->used_ms > gone ? b->used_ms - gone : 0;
    b->at_ms += gone;
    if (strcmp (b->key, key) == 0)
      return b;
    if (b->used_ms < best->used_ms)
      best = b;
  }
  snprintf (best->key, sizeof best->key, "%s", key);
  best->used_ms = 0;
  return best;
}
