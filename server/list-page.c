/* list-page.c: see list-page.h. */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "list-page.h"

struct element {
  char key[160];
  json_t *json;
};

/* A number sorts by its value. */
static void
print_key (const struct route *route, const json_t *json, char key[160])
{
  const json_t *first = json_object_get (json, route->key);
  const json_t *second = route->key2 ? json_object_get (json, route->key2)
                                     : NULL;
  char text[80];

  if (json_is_integer (first))
    snprintf (text, sizeof text, "%020lld",
              (long long) json_integer_value (first));
  else
    snprintf (text, sizeof text, "%s", json_string_value (first));
  if (second)
    snprintf (key, 160, "%s/%020lld", text,
              (long long) json_integer_value (second));
  else
    snprintf (key, 160, "%s", text);
}

static int
compare (const void *a, const void *b)
{
  const struct element *x = a, *y = b;

  return strcmp (x->key, y->key);
}

json_t *
list_page_cut (const struct route *route, const struct query *q, json_t *list)
{
  json_t *page = json_array (), *next = json_null ();
  size_t count = json_array_size (list), i = 0, end;
  struct element *elements = alloc_list (NULL, count + 1, sizeof *elements);

  for (i = 0; i < count; i++) {
    elements[i].json = json_array_get (list, i);
    print_key (route, elements[i].json, elements[i].key);
  }
  qsort (elements, count, sizeof *elements, compare);
  for (i = 0; i < count && strcmp (elements[i].key, q->cursor) <= 0; i++)
    ;
  end = q->limit && count - i > q->limit ? i + q->limit : count;
  for (; i < end; i++)
    json_array_append (page, elements[i].json);
  if (end < count)
    next = json_string (elements[end - 1].key);
  free (elements);
  json_decref (list);
  return json_pack ("{so so}", route->list, page, "next", next);
}
