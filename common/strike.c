/* strike.c: see strike.h. */

#include <config.h>

#include <string.h>

#include "strike.h"

#define HEX_DIGITS_MIN 48

void
strike_secrets (char *text)
{
  for (char *p = text; *p; p++) {
    size_t n = strspn (p, "0123456789abcdefABCDEF");

    if (n >= HEX_DIGITS_MIN)
      memset (p, '*', n);
    if (n > 0)
      p += n - 1;
  }
}
