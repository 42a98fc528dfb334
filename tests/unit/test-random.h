/* test-random.h: randomness that can be replayed, and a CHECK that says how. */

#ifndef WEFT_TEST_RANDOM_H
#define WEFT_TEST_RANDOM_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t test_seed, test_state;

/* From the environment's WEFT_SEED, else from the clock. */
static inline void
test_random_start (void)
{
  const char *s = getenv ("WEFT_SEED");
  struct timespec t;

  clock_gettime (CLOCK_REALTIME, &t);
  test_seed = s ? strtoull (s, NULL, 0)
                : (uint64_t) t.tv_sec * 1000000007 + t.tv_nsec;
  test_state = test_seed;
  printf ("WEFT_SEED=%" PRIu64 "\n", test_seed);
  fflush (stdout); /* an abort would lose it */
}

/* Less than `below`; splitmix64. */
static inline uint64_t
test_random (uint64_t below)
{
  uint64_t z = (test_state += UINT64_C (0x9e3779b97f4a7c15));

  z = (z ^ (z >> 30)) * UINT64_C (0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C (0x94d049bb133111eb);
  return (z ^ (z >> 31)) % below;
}

static inline void
test_random_bytes (void *p, size_t n)
{
  for (uint8_t *b = p; n > 0; n--)
    *b++ = test_random (256);
}

/* A walk's steps, and how often of a hundred times each is taken. */
struct test_step {
  unsigned often;
  void (*take) (void);
};

static inline void
test_random_step (const struct test_step steps[])
{
  unsigned i = 0;

  for (unsigned n = test_random (100); n >= steps[i].often; i++)
    n -= steps[i].often;
  steps[i].take ();
}

#define CHECK(e)                                                               \
  do {                                                                         \
    if (!(e)) {                                                                \
      fprintf (stderr,                                                         \
               "%s:%d: not so: %s\nrun again with WEFT_SEED=%" PRIu64 "\n",    \
               __FILE__, __LINE__, #e, test_seed);                             \
      exit (1);                                                                \
    }                                                                          \
  } while (0)

#endif /* WEFT_TEST_RANDOM_H */
