/* cmd-array-leases.c: weftctl array leases: which host has which leases of an
 * array, and where hosts meet.
 *
 * The array's cells are printed in lines; a cell's letter stands for the host
 * with most of its leases.  The rows below a line show where hosts met in the
 * last minutes, how often, and how often a lease was asked back there.
 */

#include <config.h>

#include <stdio.h>
#include <string.h>

#include "ctl.h"
#include "output.h"

#define LINE_CELLS 64
#define HEATS '4'

static const char letters[] =
  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

static char
letter_of (const json_t *map, const char *session)
{
  json_t *s;
  size_t i;

  json_array_foreach (json_object_get (map, "sessions"), i, s)
    if (i < sizeof letters - 1 &&
        strcmp (output_json_text (s, "session"), session) == 0)
      return letters[i];
  return '?'; /* it has just ended */
}

static char
cell_letter (const json_t *map, const json_t *cell)
{
  if (output_json_number (cell, "orphan_bytes") > 0)
    return '!';
  return output_json_has (cell, "session")
           ? letter_of (map, output_json_text (cell, "session"))
           : '.';
}

/* 1 for one, and one more for each time that it is four times as much: as on the page
 * (admin-ui/view-leases.js).
 */
static char
heat_digit (uint64_t count)
{
  char digit = '0';

  for (; count > 0 && digit < HEATS; count /= 4)
    digit++;
  return digit == '0' ? ' ' : digit;
}

/* Nothing, where it is 0 in all of the line's cells. */
static void
print_heat (const json_t *cells, size_t first, const char *label,
            const char *key)
{
  char heat[LINE_CELLS + 1] = "";
  int last = 0;

  for (int n = 0; n < LINE_CELLS && first + n < json_array_size (cells); n++) {
    heat[n] = heat_digit (
      output_json_number (json_array_get (cells, first + n), key));
    if (heat[n] != ' ')
      last = n + 1;
  }
  if (last > 0)
    printf ("%10s  %.*s\n", label, last, heat);
}

static void
print_line (const json_t *map, const json_t *cells, size_t first)
{
  char who[LINE_CELLS + 1] = "", offset[SIZE_TEXT_BYTES];

  for (size_t n = 0; n < LINE_CELLS && first + n < json_array_size (cells); n++)
    who[n] = cell_letter (map, json_array_get (cells, first + n));
  printf ("%10s  %s\n",
          output_size (first * output_json_number (map, "cell_bytes"), offset),
          who);
  print_heat (cells, first, "met", "conflicts");
  print_heat (cells, first, "asked back", "revokes");
}

static void
print_sessions (const json_t *map)
{
  struct table *t = output_table_new (" |NODE|>PID|SESSION|>GOT|>ASKED BACK|");
  json_t *s;
  size_t i;

  json_array_foreach (json_object_get (map, "sessions"), i, s) {
    output_table_cell (t, "%c", i < sizeof letters - 1 ? letters[i] : '?');
    output_table_cells (t, s,
                        "node|pid:number|session|gets:number|revokes:number");
    output_table_cell (t, "%s",
                       !output_json_yes (s, "declared")
                         ? "has not said what it has"
                       : !output_json_yes (s, "alive") ? "is silent"
                                                       : "");
  }
  output_table_print (t, 0);
}

/* Why hosts wait. */
static void
print_waits (const json_t *map)
{
  uint64_t orphans = output_json_number (map, "orphan_bytes");
  char size[SIZE_TEXT_BYTES];
  const char *node = NULL;
  json_t *s;
  size_t i;

  json_array_foreach (json_object_get (map, "sessions"), i, s)
    if (strcmp (output_json_text (s, "session"),
                output_json_text (map, "recoverer")) == 0)
      node = output_json_text (s, "node");
  if (orphans > 0)
    printf ("! %s of ended sessions must be resynchronized before a host gets "
            "a lease of them%s%s\n",
            output_size (orphans, size), node ? ": by node " : "",
            node ? node : "");
  if (output_json_number (map, "undeclared") > 0)
    printf ("weftd was started again: it grants no lease until all hosts have "
            "reported theirs\n");
  if (output_json_has (map, "waits_for"))
    printf ("! waits for %s\n", output_json_text (map, "waits_for"));
}

static void
print_map (const json_t *map)
{
  const json_t *cells = json_object_get (map, "cells");
  const char *name = output_json_text (map, "array");
  char size[SIZE_TEXT_BYTES];

  if (!output_json_yes (map, "shared")) {
    printf ("array %s is not shared by leases; to share it, give it no service "
            "and use weftctl attach %s --shared\n",
            name, name);
    return;
  }
  printf ("array %s; each letter is %s and stands for the host with most of "
          "it\nmet, asked back: how often in the last %" JSON_INTEGER_FORMAT
          " minutes hosts met there, and\nleases were asked back "
          "(1 once, 2 from 4 times on, 3 from 16, 4 from 64)\n\n",
          name, output_size (output_json_number (map, "cell_bytes"), size),
          (json_int_t) output_json_number (map, "minutes"));
  for (size_t i = 0; i < json_array_size (cells); i += LINE_CELLS)
    print_line (map, cells, i);
  putchar ('\n');
  print_sessions (map);
  printf ("\n%s in %" JSON_INTEGER_FORMAT " leases; %" JSON_INTEGER_FORMAT
          " asks wait\n",
          output_size (output_json_number (map, "held_bytes"), size),
          (json_int_t) output_json_number (map, "leases"),
          (json_int_t) output_json_number (map, "waiting"));
  print_waits (map);
}

int
cmd_array_leases (struct ctl *ctl, const struct args *args)
{
  json_t *map;
  int r = ctl_get (ctl, "an array", args_plain (args, 0), "/leases", &map);

  return r == EXIT_OK ? ctl_show (ctl, r, map, print_map) : r;
}
