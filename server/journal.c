/* journal.c: see journal.h.  Record and line in memory are the same JSON; a
 * line's key is the number of its event.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "journal.h"
#include "text.h"

#define LIMIT_DEFAULT 100
#define KEY_FORMAT "%020" PRIu64

struct line {
  uint64_t id;
  json_t *json;
};

struct journal {
  struct line lines[JOURNAL_MAX]; /* a ring: the oldest is at `first` */
  size_t first, count;
};

static const char *const severities[] = { "info", "warning", "error" };

struct journal *
journal_new (void)
{
  struct journal *j = calloc (1, sizeof *j);

  if (j == NULL)
    abort ();
  return j;
}

void
journal_free (struct journal *j)
{
  if (j == NULL)
    return;
  for (size_t i = 0; i < JOURNAL_MAX; i++)
    json_decref (j->lines[i].json);
  free (j);
}

/* Returns the id of the line that had to go, or 0. */
static uint64_t
append (struct journal *j, uint64_t id, json_t *json)
{
  struct line *line = &j->lines[(j->first + j->count) % JOURNAL_MAX];
  uint64_t gone = 0;

  if (j->count < JOURNAL_MAX)
    j->count++;
  else {
    gone = line->id;
    json_decref (line->json);
    j->first = (j->first + 1) % JOURNAL_MAX;
  }
  line->id = id;
  line->json = json;
  return gone;
}

static int
severity_of (const char *word)
{
  for (int i = 0; word && i < 3; i++)
    if (strcmp (severities[i], word) == 0)
      return i;
  return -1;
}

static const char *
text_of (const json_t *json, const char *field)
{
  return json_string_value (json_object_get (json, field));
}

static bool
is_line (const json_t *json)
{
  return text_of (json, "at") && text_of (json, "text") &&
         text_of (json, "subject") &&
         severity_of (text_of (json, "severity")) != -1;
}

void
journal_load_event (struct journal *j, uint64_t id, const json_t *line)
{
  json_t *copy = is_line (line) ? json_deep_copy (line) : NULL;

  if (copy)
    append (j, id, copy);
}

/* What a record says, its event need not say as well. */
static void
forget_from (struct journal *j, uint64_t id)
{
  struct line *last;

  for (; j->count > 0; j->count--) {
    last = &j->lines[(j->first + j->count - 1) % JOURNAL_MAX];
    if (last->id < id)
      break;
    json_decref (last->json);
    last->json = NULL;
  }
}

int
journal_load (struct journal *j, const char *key, const char *json, char *why,
              size_t why_size)
{
  json_t *object = json_loads (json, JSON_REJECT_DUPLICATES, NULL);
  uint64_t id = strtoull (key, NULL, 10);

  if (id == 0 || !is_line (object)) {
    json_decref (object);
    snprintf (why, why_size, "it is no line of the log");
    return -1;
  }
  forget_from (j, id);
  append (j, id, object);
  return 0;
}

void
journal_add (struct journal *j, uint64_t id, json_t *line, struct store_txn *t)
{
  char *text = json_dumps (line, JSON_COMPACT);
  char key[STORE_KEY_BYTES];
  uint64_t gone;

  if (text == NULL)
    abort ();
  snprintf (key, sizeof key, KEY_FORMAT, id);
  store_txn_add (t, JOURNAL_KIND, key, text);
  gone = append (j, id, line);
  if (gone == 0)
    return;
  snprintf (key, sizeof key, KEY_FORMAT, gone);
  store_txn_add (t, JOURNAL_KIND, key, NULL);
}

static bool
fits (const json_t *json, const struct query *q)
{
  if (q->severity[0] &&
      severity_of (text_of (json, "severity")) < severity_of (q->severity))
    return false;
  if (q->subject[0] && strcmp (text_of (json, "subject"), q->subject) != 0)
    return false;
  return q->text[0] == '\0' || strcasestr (text_of (json, "text"), q->text) ||
         strcasestr (text_of (json, "subject"), q->text);
}

json_t *
journal_view (const struct journal *j, const struct query *q)
{
  uint64_t before = q->cursor[0] ? strtoull (q->cursor, NULL, 10) : UINT64_MAX;
  size_t limit = q->limit ? q->limit : LIMIT_DEFAULT;
  json_t *list = json_array (), *next = json_null (), *copy;
  char cursor[24];

  for (size_t i = j->count; i-- > 0;) {
    const struct line *line = &j->lines[(j->first + i) % JOURNAL_MAX];

    if (line->id >= before || !fits (line->json, q))
      continue;
    if (json_array_size (list) == limit) {
      next = json_string (cursor);
      break;
    }
    copy = json_copy (line->json);
    json_object_set_new (copy, "id", text_number (line->id));
    json_array_append_new (list, copy);
    snprintf (cursor, sizeof cursor, "%" PRIu64, line->id);
  }
  return json_pack ("{so so}", "log", list, "next", next);
}
