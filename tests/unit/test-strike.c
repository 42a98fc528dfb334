/* test-strike.c: each code point, and each byte that is no UTF-8, as strike_controls shows
 * it.
 */

#include <config.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/strike.h"

/* Characters that a terminal takes as orders, and those that turn the direction of
 * writing (Bidi_Control of Unicode).
 */
static const unsigned struck[][2] = {
  { 0x01, 0x1f },     { 0x7f, 0x9f },     { 0x061c, 0x061c },
  { 0x200e, 0x200f }, { 0x202a, 0x202e }, { 0x2066, 0x2069 },
};

static int
is_struck (unsigned c)
{
  for (size_t i = 0; i < sizeof struck / sizeof struck[0]; i++)
    if (c >= struck[i][0] && c <= struck[i][1])
      return 1;
  return 0;
}

static size_t
encode (unsigned c, char *p)
{
  if (c < 0x80)
    return (size_t) sprintf (p, "%c", (int) c);
  if (c < 0x800)
    return (size_t) sprintf (p, "%c%c", (int) (0xc0 | c >> 6),
                             (int) (0x80 | (c & 0x3f)));
  if (c < 0x10000)
    return (size_t) sprintf (p, "%c%c%c", (int) (0xe0 | c >> 12),
                             (int) (0x80 | (c >> 6 & 0x3f)),
                             (int) (0x80 | (c & 0x3f)));
  return (size_t) sprintf (
    p, "%c%c%c%c", (int) (0xf0 | c >> 18), (int) (0x80 | (c >> 12 & 0x3f)),
    (int) (0x80 | (c >> 6 & 0x3f)), (int) (0x80 | (c & 0x3f)));
}

static void
shows (const char *text, const char *as)
{
  char *copy = strdup (text);

  assert (copy);
  strike_controls (copy);
  if (strcmp (copy, as) != 0) {
    fprintf (stderr, "test-strike: <%s> is shown as <%s>, not <%s>\n", text,
             copy, as);
    abort ();
  }
  free (copy);
}

int
main (void)
{
  char text[16], bytes[5];

  for (unsigned c = 1; c <= 0x10ffff; c++) {
    size_t n = encode (c, bytes);

    sprintf (text, "a%.*sb", (int) n, bytes);
    shows (text, c >= 0xd800 && c <= 0xdfff ? "a???b"
                 : is_struck (c)            ? "a?b"
                                            : text);
  }
  /* Each byte that begins or continues no character; truncated characters; overlong
   * forms. */
  for (int c = 0x80; c < 0x100; c++) {
    sprintf (text, "a%cb", c);
    shows (text, "a?b");
    sprintf (text, "%c", c);
    shows (text, "?");
  }
  shows ("\xe2\x80", "??");
  shows ("\xe0\x82\x9b", "???");
  shows ("\xe0\x80\xaf", "???");
  shows ("\xe0\x9f\xbf", "???");
  shows ("\xf0\x80\x82\x9b", "????");
  shows ("\xf0\x8f\xbf\xbf", "????");
  shows ("\xf4\x90\x80\x80", "????");
  shows ("", "");
  return 0;
}
