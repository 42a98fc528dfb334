/* fuzz-limit.c: how often passwords may be tried, which is forgotten between inputs. */

#include <config.h>

#include "fuzz-loop.h"
#include "server/auth-limit.c"

void
fuzz_limit_forget (void)
{
  memset (buckets, 0, sizeof buckets);
  memset (known, 0, sizeof known);
}
