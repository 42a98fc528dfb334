/* fuzz-audit.c: weftd's audit trail, whose counts start again with weftd. */

#include <config.h>

#include "fuzz-forget.h"
#include "server/auth-audit.c"

/* The first counts of each kind are used first. */
void
fuzz_audit_forget (void)
{
  static const unsigned most[] = { STRANGERS_MAX, KNOWN_MAX, WORK_MAX,
                                   FURTHER_MAX };
  struct count *first = counts;

  for (unsigned i = 0; i < sizeof most / sizeof most[0]; i++) {
    for (struct count *c = first; c < first + most[i] && c->key[0]; c++)
      memset (c, 0, sizeof *c);
    first += most[i];
  }
}
