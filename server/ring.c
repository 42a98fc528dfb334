/* ring.c: see ring.h. */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>

#include "ring.h"
#include "text.h"

void
ring_clear (struct ring *r)
{
  ring_forget_from (r, 0);
}

void
ring_add (struct ring *r, uint64_t id, json_t *line, const char *kind,
          struct store_txn *t)
{
  size_t end = (r->first + r->count) % RING_MAX;
  char key[STORE_KEY_BYTES];

  if (t) {
    snprintf (key, sizeof key, STORE_NUMBER, id);
    store_txn_put (t, kind, key, json_incref (line));
  }
  if (r->count < RING_MAX)
    r->count++;
  else {
    if (t) {
      snprintf (key, sizeof key, STORE_NUMBER, r->lines[end].id);
      store_txn_put (t, kind, key, NULL);
    }
    json_decref (r->lines[end].json);
    r->first = (r->first + 1) % RING_MAX;
  }
  r->lines[end].id = id;
  r->lines[end].json = line;
}

void
ring_forget_from (struct ring *r, uint64_t id)
{
  for (; r->count > 0; r->count--) {
    size_t last = (r->first + r->count - 1) % RING_MAX;

    if (r->lines[last].id < id)
      return;
    json_decref (r->lines[last].json);
  }
}

json_t *
ring_view (const struct ring *r, const char *kind, uint64_t before,
           size_t limit, bool (*fits) (const json_t *line, const void *sought),
           const void *sought)
{
  json_t *list = json_array (), *next = json_null (), *copy;
  char cursor[24];

  for (size_t i = r->count; i-- > 0;) {
    size_t at = (r->first + i) % RING_MAX;
    uint64_t id = r->lines[at].id;

    if (id >= before || (fits && !fits (r->lines[at].json, sought)))
      continue;
    if (json_array_size (list) == limit) {
      next = json_string (cursor);
      break;
    }
    copy = json_copy (r->lines[at].json);
    json_object_set_new (copy, "id", text_number (id));
    json_array_append_new (list, copy);
    snprintf (cursor, sizeof cursor, "%" PRIu64, id);
  }
  return json_pack ("{so so}", kind, list, "next", next);
}
