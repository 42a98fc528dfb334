/* strike.c: see strike.h. */

#include <config.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
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

/* The code point that begins here; returns its bytes, 0: it is no UTF-8. */
static size_t
decode (const unsigned char *p, uint32_t *c)
{
  size_t n = *p < 0x80                  ? 1
             : *p >= 0xc2 && *p <= 0xdf ? 2
             : *p >= 0xe0 && *p <= 0xef ? 3
             : *p >= 0xf0 && *p <= 0xf4 ? 4
                                        : 0;

  *c = n == 1 ? *p : *p & (0x7fu >> n);
  for (size_t i = 1; i < n; i++) {
    if ((p[i] & 0xc0) != 0x80)
      return 0;
    *c = *c << 6 | (p[i] & 0x3f);
  }
  /* Overlong forms, surrogates, and what is above Unicode's last code point. */
  if ((n == 3 && *c < 0x800) || (n == 4 && *c < 0x10000) || *c > 0x10ffff ||
      (*c >= 0xd800 && *c < 0xe000))
    return 0;
  return n;
}

static bool
is_order (uint32_t c)
{
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x061c || c == 0x200e ||
         c == 0x200f || (c >= 0x202a && c <= 0x202e) ||
         (c >= 0x2066 && c <= 0x2069);
}

void
strike_controls (char *text)
{
  char *to = text;
  uint32_t c;

  for (size_t n; *text; text += n) {
    n = decode ((const unsigned char *) text, &c);
    if (n == 0 || is_order (c)) {
      *to++ = '?';
      n = n ? n : 1;
    }
    else {
      memmove (to, text, n);
      to += n;
    }
  }
  *to = '\0';
}
