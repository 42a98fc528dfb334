/* fuzz-random.c: see fuzz-random.h. */

#include <config.h>

#include <openssl/rand.h>

#include "fuzz.h"
#include "fuzz-random.h"

static uint64_t state;

void
fuzz_random_begin (uint64_t seed)
{
  state = seed;
}

/* In place of OpenSSL's. */
int
RAND_bytes (unsigned char *bytes, int count)
{
  for (int i = 0; i < count; i++) {
    state = state * 6364136223846793005 + 1442695040888963407;
    bytes[i] = (unsigned char) (state >> 33);
  }
  return 1;
}
