/* cmd-layouts.c: weftctl array layouts (the layouts that disks could have) and
 * losing (the cost of a loss).
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "output.h"

static void
layout_row (struct table *t, const json_t *layout)
{
  const json_t *hours = json_object_get (layout, "mttdl_hours");
  double years = json_number_value (hours) / 8766;

  if (output_json_has (layout, "problem")) {
    for (unsigned k = 0; k < 4; k++)
      output_table_cell (t, "-");
    output_table_cell (t, "not with these: %s",
                       output_json_text (layout, "problem"));
    return;
  }
  output_table_cells (t, layout, "capacity.usable:size|copies:number");
  output_table_cell (
    t, "%.4g", json_number_value (json_object_get (layout, "write_cost")));
  if (!json_is_number (hours))
    output_table_cell (t, "-");
  /* Beyond a million years other things than disks decide. */
  else if (years > 1e6)
    output_table_cell (t, "over 1000000 years");
  else
    output_table_cell (t, "%.*f years", years < 10, years);
  output_table_cells (t, layout, "survives");
}

static void
print_layouts (const json_t *reply)
{
  output_table_of (
    json_object_get (reply, "layouts"),
    "LAYOUT|>CAPACITY|>COPIES|>WRITE COST|>DATA LOSS IN|SURVIVES", "layout",
    layout_row, 0);
}

static void
print_lines (const json_t *reply)
{
  output_lines (json_object_get (reply, "lines"), false);
}

int
cmd_array_layouts (struct ctl *ctl, const struct args *args)
{
  const char *text;
  uint64_t groups, bytes;
  json_t *disks = json_array (), *reply = NULL;
  char uuid[FORMAT_UUID_TEXT_BYTES];
  int r = args_stripes (args, &groups, &bytes);

  for (unsigned i = 0; r == EXIT_OK && (text = args_plain (args, i)) != NULL;
       i++) {
    r = ctl_find_disk (ctl, text, uuid);
    if (r == EXIT_OK)
      json_array_append_new (disks, json_string (uuid));
  }
  if (r == EXIT_OK)
    r = ctl_call (ctl, "POST", "/api/v1/layouts",
                  json_pack ("{s:O, s:I, s:I}", "disks", disks, "groups",
                             (json_int_t) groups, "unit", (json_int_t) bytes),
                  &reply);
  json_decref (disks);
  return ctl_show (ctl, r, reply, print_layouts);
}

int
cmd_array_losing (struct ctl *ctl, const struct args *args)
{
  const char *name = args_plain (args, 0), *what = args_plain (args, 1);
  bool member = what[strspn (what, "0123456789")] == '\0';
  char more[NAME_BYTES_MAX + 32];
  json_t *reply = NULL;
  int r = ctl_check_name ("an array", name);

  if (r == EXIT_OK)
    r = ctl_check_name (member ? "a member" : "a node", what);
  snprintf (more, sizeof more, "/losing?%s=%s", member ? "member" : "node",
            what);
  if (r == EXIT_OK)
    r = ctl_get (ctl, "an array", name, more, &reply);
  return ctl_show (ctl, r, reply, print_lines);
}
