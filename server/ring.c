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
ring_line (const struct ring *r, uint64_t id)
{
  size_t from = 0, to = r->count;

  while (from < to) {
    size_t middle = (from + to) / 2, at = (r->first + middle) % RING_MAX;

    if (r->lines[at].id == id)
      return r->lines[at].json;
    if (r->lines[at].id < id)
      from = middle + 1;
    else
      to = middle;
  }
  return NULL;
}

json_t *
ring_view (const struct ring *rings, unsigned count, const char *kind,
           uint64_t before, size_t limit,
           bool (*fits) (const json_t *line, const void *sought),
           const void *sought)
{
  json_t *list = json_array (), *next = json_null (), *copy;
  size_t left[RINGS_MAX]; /* lines that were not looked at */
  char cursor[24];

  for (unsigned i = 0; i < count; i++)
    left[i] = rings[i].count;
  for (;;) {
    const struct ring *newest = NULL;
    size_t at = 0, of = 0;

    for (unsigned i = 0; i < count; i++) {
      size_t here = (rings[i].first + left[i] - 1) % RING_MAX;

      if (left[i] > 0 &&
          (newest == NULL || rings[i].lines[here].id > newest->lines[at].id)) {
        newest = &rings[i];
        at = here;
        of = i;
      }
    }
    if (newest == NULL)
      break;
    left[of]--;
    if (newest->lines[at].id >= before ||
        (fits && !fits (newest->lines[at].json, sought)))
      continue;
    if (json_array_size (list) == limit) {
      next = json_string (cursor);
      break;
    }
    copy = json_copy (newest->lines[at].json);
    json_object_set_new (copy, "id", text_number (newest->lines[at].id));
    json_array_append_new (list, copy);
    snprintf (cursor, sizeof cursor, "%" PRIu64, newest->lines[at].id);
  }
  return json_pack ("{so so}", kind, list, "next", next);
}
