/* name.h: the valid names of an array, a node, a user or a token. */

#ifndef WEFT_NAME_H
#define WEFT_NAME_H

#include <stdbool.h>
#include <string.h>

#include "bounds.h"

/* [a-z0-9][a-z0-9-]{0,62}: it may become part of a path or of a URL. */
static inline bool
name_valid (const char *text)
{
  size_t n = strspn (text, "abcdefghijklmnopqrstuvwxyz0123456789-");

  return n > 0 && n <= NAME_BYTES_MAX && text[n] == '\0' && text[0] != '-';
}

#endif /* WEFT_NAME_H */
