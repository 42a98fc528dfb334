/* fuzz-limit.c: how often passwords may be tried; the counts start again with weftd. */

#include <config.h>

#include "fuzz-forget.h"
#include "server/auth-limit.c"

/* The first ones are used first. */
void
fuzz_limit_forget (void)
{
  for (unsigned i = 0; i < BUCKETS_MAX && buckets[i].key[0]; i++)
    memset (&buckets[i], 0, sizeof buckets[i]);
}
