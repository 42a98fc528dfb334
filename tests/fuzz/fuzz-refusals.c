/* fuzz-refusals.c: what weftd has refused, which is forgotten with weftd. */

#include <config.h>

#include "fuzz-forget.h"
#include "server/refusals.c"

void
fuzz_refusals_forget (void)
{
  for (unsigned i = 0; i < ENTRIES_MAX; i++)
    entries[i].key[0] = '\0';
}
