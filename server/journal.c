/* journal.c: see journal.h.  The number of a line is that of its event. */

#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "journal.h"
#include "ring.h"
#include "common/refuse.h"
#include "text.h"

#define LIMIT_DEFAULT 100

static const char *const severities[] = { "info", "warning", "error" };

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
journal_load_event (struct ring *log, uint64_t id, const json_t *line)
{
  json_t *copy = is_line (line) ? json_deep_copy (line) : NULL;

  if (copy)
    ring_add (log, id, copy, NULL, NULL);
}

int
journal_load (struct ring *log, const char *key, const char *json, char *why,
              size_t why_size)
{
  json_t *object = json_loads (json, JSON_REJECT_DUPLICATES, NULL);
  uint64_t id = strtoull (key, NULL, 10);

  if (id == 0 || !is_line (object)) {
    json_decref (object);
    return refuse (why, why_size, "it is no line of the log");
  }
  /* A fact in a record need not be in its event as well. */
  ring_forget_from (log, id);
  ring_add (log, id, object, NULL, NULL);
  return 0;
}

void
journal_add (struct ring *log, uint64_t id, json_t *line, struct store_txn *t)
{
  ring_add (log, id, line, JOURNAL_KIND, t);
}

static bool
fits (const json_t *json, const void *sought)
{
  const struct query *q = sought;

  if (q->severity[0] &&
      severity_of (text_of (json, "severity")) < severity_of (q->severity))
    return false;
  if (q->subject[0] && strcmp (text_of (json, "subject"), q->subject) != 0)
    return false;
  return q->text[0] == '\0' || strcasestr (text_of (json, "text"), q->text) ||
         strcasestr (text_of (json, "subject"), q->text);
}

json_t *
journal_view (const struct ring *log, const struct query *q)
{
  uint64_t before = q->cursor[0] ? strtoull (q->cursor, NULL, 10) : UINT64_MAX;

  return ring_view (log, 1, JOURNAL_KIND, before,
                    q->limit ? q->limit : LIMIT_DEFAULT, fits, q);
}
