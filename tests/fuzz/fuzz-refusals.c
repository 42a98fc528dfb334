/* fuzz-refusals.c: weftd's list of refusals, which is forgotten with weftd. */

#include <config.h>

#include "fuzz-forget.h"
#include "server/refusals.c"

/* The first ones are used first. */
void
fuzz_refusals_forget (void)
{
  for (unsigned i = 0; i < ORIGINS_MAX && entries[i].key[0]; i++)
    entries[i].key[0] = '\0';
  for (unsigned i = ORIGINS_MAX; i < ENTRIES_MAX && entries[i].key[0]; i++)
    entries[i].key[0] = '\0';
}
