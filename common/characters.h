/* characters.h: how many characters a text has. */

#ifndef WEFT_CHARACTERS_H
#define WEFT_CHARACTERS_H

#include <stddef.h>

/* Of UTF-8: all bytes but those that continue a character. */
static inline size_t
characters_count (const char *text)
{
  size_t n = 0;

  for (; *text; text++)
    n += ((unsigned char) *text & 0xc0) != 0x80;
  return n;
}

#endif /* WEFT_CHARACTERS_H */
