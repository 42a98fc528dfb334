/* fuzz-quota.c: how much each caller may ask of weftd; the counts start again with
 * weftd. */

#include <config.h>

#include "fuzz-forget.h"
#include "server/quota.c"

/* The first ones are used first. */
void
fuzz_quota_forget (void)
{
  for (unsigned i = 0; i < ATTACHES_MAX && attaches[i].key[0]; i++)
    memset (&attaches[i], 0, sizeof attaches[i]);
  refused = 0;
}
