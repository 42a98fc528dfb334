/* cmd-layouts.c: weftctl array layouts and losing: what could be, and what
 * could be lost.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "output.h"

/* Hours as people say them: until data is lost, by an estimate. */
static const char *
mttdl_text (const json_t *layout, char text[32])
{
  const json_t *value = json_object_get (layout, "mttdl_hours");
  double years = json_number_value (value) / 8766;

  if (!json_is_number (value))
    return strcpy (text, "-");
  /* Beyond that, other things than disks decide. */
  if (years > 1e6)
    return strcpy (text, "over 1000000 years");
  snprintf (text, 32, years < 10 ? "%.1f years" : "%.0f years", years);
  return text;
}

static void
print_layouts (const json_t *reply)
{
  struct table *t = table_new ("LAYOUT|>CAPACITY|>COPIES|>WRITE COST|"
                               ">DATA LOSS IN|SURVIVES");
  json_t *l;
  size_t i;

  json_array_foreach (json_object_get (reply, "layouts"), i, l) {
    const json_t *capacity = json_object_get (l, "capacity");
    char size[SIZE_TEXT_BYTES], mttdl[32];

    table_cell (t, "%s", json_text (l, "layout"));
    if (json_is_string (json_object_get (l, "problem"))) {
      for (unsigned k = 0; k < 4; k++)
        table_cell (t, "-");
      table_cell (t, "not with these: %s", json_text (l, "problem"));
      continue;
    }
    table_cell (t, "%s", size_text (json_number (capacity, "usable"), size));
    table_cell (t, "%" PRIu64, json_number (l, "copies"));
    table_cell (t, "%.4g",
                json_number_value (json_object_get (l, "write_cost")));
    table_cell (t, "%s", mttdl_text (l, mttdl));
    table_cell (t, "%s", json_text (l, "survives"));
  }
  table_print (t, 0);
}

int
cmd_array_layouts (struct ctl *ctl, const struct args *args)
{
  const char *text, *unit = args_value (args, "unit");
  uint64_t groups = 1, bytes = UNIT_BYTES_DEFAULT;
  json_t *disks = json_array (), *body, *reply = NULL;
  char uuid[37];
  int r = args_number (args, "groups", 1, ARRAY_GROUPS_MAX, &groups);

  if (r == EXIT_OK && unit && size_parse (unit, &bytes) == -1) {
    ctl_error ("--unit %s: not a size; write 65536, 64K or 1M", unit);
    r = EXIT_USAGE;
  }
  for (unsigned i = 0; r == EXIT_OK && (text = args_plain (args, i)) != NULL;
       i++) {
    r = ctl_find_disk (ctl, text, uuid);
    if (r == EXIT_OK)
      json_array_append_new (disks, json_string (uuid));
  }
  body = json_pack ("{s:o, s:I, s:I}", "disks", disks, "groups",
                    (json_int_t) groups, "unit", (json_int_t) bytes);
  if (r == EXIT_OK)
    r = ctl_call (ctl, "POST", "/api/v1/layouts", body, &reply);
  json_decref (body);
  return r == EXIT_OK ? ctl_show (ctl, reply, print_layouts) : r;
}

int
cmd_array_losing (struct ctl *ctl, const struct args *args)
{
  const char *name = args_plain (args, 0), *what = args_plain (args, 1);
  bool member = what[strspn (what, "0123456789")] == '\0';
  char path[2 * NAME_BYTES_MAX + 64];
  json_t *reply;
  int r = ctl_check_name ("an array", name);

  if (r == EXIT_OK)
    r = ctl_check_name (member ? "a member" : "a node", what);
  if (r != EXIT_OK)
    return r;
  snprintf (path, sizeof path, "/api/v1/arrays/%s/losing?%s=%s", name,
            member ? "member" : "node", what);
  r = ctl_call (ctl, "GET", path, NULL, &reply);
  if (r != EXIT_OK)
    return r;
  if (ctl->json)
    output_json (reply);
  else
    output_lines (json_object_get (reply, "lines"), false);
  json_decref (reply);
  return EXIT_OK;
}
