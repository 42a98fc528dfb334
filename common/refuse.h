/* refuse.h: to fail with a sentence for people. */

#ifndef WEFT_REFUSE_H
#define WEFT_REFUSE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/* Puts the sentence into why, and returns -1. */
__attribute__ ((format (printf, 3, 4))) static inline int
refuse (char *why, size_t why_size, const char *format, ...)
{
  va_list args;

  va_start (args, format);
  vsnprintf (why, why_size, format, args);
  va_end (args);
  return -1;
}

#endif /* WEFT_REFUSE_H */
