/* fuzz-audit.c: weftd's audit trail, whose counts begin anew with weftd. */

#include <config.h>

#include "fuzz-forget.h"
#include "server/auth-audit.c"

void
fuzz_audit_forget (void)
{
  for (struct count *c = counts; c < counts + COUNTS_MAX; c++)
    if (c->key[0])
      memset (c, 0, sizeof *c);
}
