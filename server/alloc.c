/* alloc.c: see alloc.h. */

#include <config.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"

static void *
given (void *memory)
{
  if (memory == NULL)
    abort ();
  return memory;
}

void *
alloc_bytes (size_t bytes)
{
  return given (malloc (bytes));
}

void *
alloc_list (void *list, size_t count, size_t bytes_each)
{
  return given (reallocarray (list, count, bytes_each));
}

char *
alloc_copy (const char *text)
{
  return given (strdup (text));
}

char *
alloc_print (const char *fmt, ...)
{
  char *text;
  va_list ap;
  int n;

  va_start (ap, fmt);
  n = vasprintf (&text, fmt, ap);
  va_end (ap);
  return given (n == -1 ? NULL : text);
}

char *
alloc_json (const json_t *json)
{
  return given (json_dumps (json, JSON_COMPACT));
}
