/* latency.h: how many requests took how long: a histogram of fixed buckets, each
 * twice as wide as the one before.
 */

#ifndef WEFT_LATENCY_H
#define WEFT_LATENCY_H

#include <stdint.h>

/* Bucket i counts requests that took at most LATENCY_FIRST_US << i, and more than
 * the bucket before allows; the last one, with index LATENCY_BUCKETS, counts all
 * that took longer (than 33 s).
 */
#define LATENCY_BUCKETS 20
#define LATENCY_FIRST_US 64

struct latency {
  uint64_t count[LATENCY_BUCKETS + 1];
  uint64_t sum_ns;
};

static inline void
latency_add (struct latency *l, uint64_t ns)
{
  uint64_t us = (ns + 999) / 1000;
  unsigned i = us <= LATENCY_FIRST_US
                 ? 0
                 : 64 -
                     (unsigned) __builtin_clzll ((us - 1) / LATENCY_FIRST_US);

  l->count[i < LATENCY_BUCKETS ? i : LATENCY_BUCKETS]++;
  l->sum_ns += ns;
}

#endif /* WEFT_LATENCY_H */
