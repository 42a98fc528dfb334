/* cmd-history.c: weftctl history: rates and latencies over time. */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "ctl.h"
#include "output.h"

#define LAST_S_DEFAULT 900
#define LAST_S_MAX (30u * 86400)
#define POINTS_DEFAULT 30
#define POINTS_MAX 600

static const struct {
  const char *key, *heading;
  bool bytes; /* a size a second */
} columns[] = {
  { "read_bytes", ">READ", true },       { "write_bytes", ">WRITTEN", true },
  { "reads", ">READS", false },          { "writes", ">WRITES", false },
  { "read_us", ">READ US", false },      { "write_us", ">WRITE US", false },
  { "rebuild_bytes", ">REBUILT", true }, { "image_bytes", ">IMAGES", true },
};
#define COLUMNS (sizeof columns / sizeof columns[0])

static void
cell (struct table *t, const json_t *value, bool bytes)
{
  double v = json_number_value (value);
  char size[SIZE_TEXT_BYTES];

  if (!json_is_number (value))
    output_table_cell (t, "-");
  else if (bytes)
    output_table_cell (t, "%s", output_size (v > 0 ? (uint64_t) v : 0, size));
  else
    output_table_cell (t, "%.1f", v);
}

static void
print_history (const json_t *history)
{
  const json_t *series = json_object_get (history, "series");
  uint64_t from = output_json_number (history, "from");
  uint64_t step = output_json_number (history, "step_ms");
  char headings[160] = "FROM";
  struct table *t;
  size_t points = 0;

  for (size_t c = 0; c < COLUMNS; c++) {
    const json_t *list = json_object_get (series, columns[c].key);

    if (list == NULL)
      continue;
    output_text_add (headings, sizeof headings, "|%s", columns[c].heading);
    points = json_array_size (list);
  }
  t = output_table_new (headings);
  for (size_t i = 0; i < points; i++) {
    time_t at = (time_t) ((from + i * step) / 1000);
    struct tm tm;
    char when[32] = "";

    if (gmtime_r (&at, &tm))
      strftime (when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &tm);
    output_table_cell (t, "%s", when);
    for (size_t c = 0; c < COLUMNS; c++) {
      const json_t *list = json_object_get (series, columns[c].key);

      if (list)
        cell (t, json_array_get (list, i), columns[c].bytes);
    }
  }
  output_table_print (t, 0);
}

int
cmd_history (struct ctl *ctl, const struct args *args)
{
  const char *subject = args_plain (args, 0);
  uint64_t last = LAST_S_DEFAULT, points = POINTS_DEFAULT;
  uint64_t now;
  json_t *history = NULL;
  char *path, *value;
  int r = args_time (args, "last", 1, LAST_S_MAX, &last);

  if (r == EXIT_OK)
    r = args_number (args, "points", 1, POINTS_MAX, &points);
  if (r != EXIT_OK)
    return r;
  now = clock_wall_ms () / 1000;
  value = ctl_escape_url (subject ? subject : "cluster");
  if (asprintf (&path,
                "/api/v1/history?subject=%s&from=%" PRIu64 "&to=%" PRIu64
                "&points=%" PRIu64,
                value ? value : "", (now - last) * 1000, now * 1000,
                points) == -1)
    path = NULL;
  free (value);
  r = path ? ctl_call (ctl, "GET", path, NULL, &history) : EXIT_FAILED;
  free (path);
  return ctl_show (ctl, r, history, print_history);
}
