/* alloc.h: memory.  There is always some: a weftd that gets none is at its end. */

#ifndef WEFT_ALLOC_H
#define WEFT_ALLOC_H

#include <stddef.h>

#include <jansson.h>

#include "base/spares.h"

/* All of these are for the caller to free. */
void *alloc_bytes (size_t bytes);
/* A list with room for so many elements: a new one, or as realloc. */
void *alloc_list (void *list, size_t count, size_t bytes_each);
char *alloc_copy (const char *text);
char *alloc_print (const char *fmt, ...)
  __attribute__ ((format (printf, 1, 2)));
/* On one line. */
char *alloc_json (const json_t *json);

#endif /* WEFT_ALLOC_H */
