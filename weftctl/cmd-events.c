/* cmd-events.c: weftctl events: the log of weftd, and new events.
 *
 * The stored lines come from GET /log.  Later events come from the stream of
 * events, which goes on behind the last line by its number (Last-Event-ID). If
 * weftd no longer has that event, the stream begins with a snapshot instead;
 * then weftctl fetches the lines between.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/admin.h"
#include "common/clock.h"
#include "common/strike.h"
#include "ctl.h"
#include "output.h"

#define LIMIT_DEFAULT 50
#define LIMIT_MAX 5000
/* weftd sends something every 10 s at least. */
#define SILENT_S 30
#define RETRY_MS 1000
#define PART_BYTES_MAX (16u << 20)

struct follow {
  struct ctl *ctl;
  const struct args *args;
  uint64_t last; /* the newest line that was printed, or passed over */
  bool behind;   /* lines between have to be fetched */
  /* The stream, line by line: the event that is being read. */
  char *part;
  size_t used, room;
  uint64_t id;
  char event[32];
  json_t *data;
};

static int
severity_rank (const char *severity)
{
  return strcmp (severity, "error") == 0     ? 2
         : strcmp (severity, "warning") == 0 ? 1
         : strcmp (severity, "info") == 0    ? 0
                                             : -1;
}

static void
print_line (const struct ctl *ctl, const json_t *line)
{
  const char *severity, *color;
  char *text;

  if (ctl->json)
    output_json_as (line, JSON_COMPACT);
  else if (asprintf (&text, "%s: %s", output_json_text (line, "subject"),
                     output_json_text (line, "text")) != -1) {
    severity = output_json_text (line, "severity");
    color = strcmp (severity, "info") == 0 ? "ok" : severity;
    strike_controls (text);
    printf ("%s  %s%-7s%s  %s\n", output_json_text (line, "at"),
            output_color_start (color), severity, output_color_end (color),
            text);
    free (text);
  }
  fflush (stdout);
}

/* --- What is kept --------------------------------------------------------- */

/* The newest lines, up to `limit`, that weftd keeps and that were asked for. */
static int
fetch (struct ctl *ctl, const struct args *args, uint64_t limit, json_t **reply)
{
  static const char *const filters[] = { "severity", "subject", "text" };
  char *path = strdup ("/api/v1/log"), *longer, *value;
  int r;

  for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
    const char *text = args_value (args, filters[i]);

    if (text == NULL || path == NULL)
      continue;
    value = ctl_escape_url (text);
    if (asprintf (&longer, "%s%c%s=%s", path, strchr (path, '?') ? '&' : '?',
                  filters[i], value ? value : "") == -1)
      longer = NULL;
    free (value);
    free (path);
    path = longer;
  }
  r = path ? ctl_pages (ctl, path, "log", limit, reply) : EXIT_FAILED;
  free (path);
  return r;
}

/* Print what is newer than f->last, the oldest first. */
static int
catch_up (struct follow *f, uint64_t limit)
{
  json_t *reply, *lines;
  int r = fetch (f->ctl, f->args, limit, &reply);

  if (r != EXIT_OK)
    return r;
  lines = json_object_get (reply, "log");
  for (size_t i = json_array_size (lines); i-- > 0;) {
    const json_t *line = json_array_get (lines, i);
    uint64_t id = output_json_number (line, "id");

    if (id <= f->last)
      continue;
    print_line (f->ctl, line);
    f->last = id;
  }
  json_decref (reply);
  f->behind = false;
  return EXIT_OK;
}

/* --- What comes ----------------------------------------------------------- */

/* As weftd sent it: output_json_text would change what --json shows. */
static const char *
sent (const json_t *line, const char *key)
{
  const char *text = json_string_value (json_object_get (line, key));

  return text ? text : "";
}

/* Is it a line that was asked for?  As weftd filters its log. */
static bool
wanted (const struct args *args, const json_t *line)
{
  const char *severity = args_value (args, "severity");
  const char *subject = args_value (args, "subject");
  const char *text = args_value (args, "text");

  return (severity == NULL || severity_rank (sent (line, "severity")) >=
                                severity_rank (severity)) &&
         (subject == NULL || strcmp (subject, sent (line, "subject")) == 0) &&
         (text == NULL || strcasestr (sent (line, "text"), text) ||
          strcasestr (sent (line, "subject"), text));
}

static void
end_event (struct follow *f)
{
  if (strcmp (f->event, "snapshot") == 0)
    f->behind = true;
  else if (strcmp (f->event, "log") == 0 && f->id > f->last && f->data) {
    json_object_set_new (f->data, "id", json_integer ((json_int_t) f->id));
    if (wanted (f->args, f->data))
      print_line (f->ctl, f->data);
  }
  if (!f->behind && f->id > f->last)
    f->last = f->id;
  json_decref (f->data);
  f->data = NULL;
  f->event[0] = '\0';
}

static void
take_line (struct follow *f, const char *line)
{
  if (*line == '\0')
    end_event (f);
  else if (strncmp (line, "id: ", 4) == 0)
    f->id = strtoull (line + 4, NULL, 10);
  else if (strncmp (line, "event: ", 7) == 0)
    snprintf (f->event, sizeof f->event, "%s", line + 7);
  else if (strncmp (line, "data: ", 6) == 0) {
    json_decref (f->data);
    f->data = json_loads (line + 6, 0, NULL);
  }
}

/* A part of the stream: whole lines are taken out of it.  Ends the stream when
 * lines have to be fetched.
 */
static bool
take (void *opaque, const char *data, size_t n)
{
  struct follow *f = opaque;
  char *line, *end;

  if (n > PART_BYTES_MAX - f->used)
    return false;
  if (f->used + n + 1 > f->room) {
    size_t room = 2 * (f->used + n + 1);
    char *p = realloc (f->part, room);

    if (p == NULL)
      return false;
    f->part = p;
    f->room = room;
  }
  memcpy (f->part + f->used, data, n);
  f->used += n;
  f->part[f->used] = '\0';
  for (line = f->part; (end = strchr (line, '\n')) != NULL; line = end + 1) {
    *end = '\0';
    take_line (f, line);
  }
  f->used = strlen (line);
  memmove (f->part, line, f->used + 1);
  return !f->behind;
}

static int
follow (struct follow *f)
{
  char id[32];
  int status, r = EXIT_OK;
  bool said = false;

  for (;;) {
    if (f->behind && (r = catch_up (f, LIMIT_MAX)) != EXIT_OK &&
        r != EXIT_UNREACHABLE)
      return r;
    snprintf (id, sizeof id, "%" PRIu64, f->last);
    admin_header (f->ctl->admin, "Last-Event-ID", id);
    f->used = 0;
    status = admin_stream (f->ctl->admin, "/api/v1/events", take, f, SILENT_S);
    if (status >= 400) {
      ctl_error ("%s", admin_error (f->ctl->admin));
      return EXIT_REFUSED;
    }
    if (f->behind)
      continue;
    /* weftd was stopped or can't be reached; the stream goes on when it is back. */
    if (status == -1 && !said)
      ctl_error ("%s; waiting for it", admin_error (f->ctl->admin));
    said = status == -1;
    clock_sleep_ms (RETRY_MS);
  }
}

int
cmd_events (struct ctl *ctl, const struct args *args)
{
  struct follow f = { .ctl = ctl, .args = args };
  const char *severity = args_value (args, "severity");
  uint64_t limit = LIMIT_DEFAULT;
  json_t *reply;
  int r;

  if (severity && severity_rank (severity) == -1) {
    ctl_error ("--severity %s: there are info, warning and error; each shows "
               "those that are worse, too",
               severity);
    return EXIT_USAGE;
  }
  r = args_number (args, "limit", 1, LIMIT_MAX, &limit);
  if (r != EXIT_OK)
    return r;
  if (ctl->json && !args_switch (args, "follow")) {
    r = fetch (ctl, args, limit, &reply);
    if (r == EXIT_OK) {
      output_json (reply);
      json_decref (reply);
    }
    return r;
  }
  r = catch_up (&f, limit);
  if (r == EXIT_OK && args_switch (args, "follow"))
    r = follow (&f);
  json_decref (f.data);
  free (f.part);
  return r;
}
