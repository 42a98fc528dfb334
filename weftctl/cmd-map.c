/* cmd-map.c: weftctl map: where an array's bytes lie.
 *
 * The layout is pure maths (core/layout/layout.h), so it is worked out here from the
 * few numbers that weftd has about the array.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "layout/layout.h"
#include "output.h"

/* More pieces than this are no answer for anybody. */
#define PIECES_MAX 100000

static int
layout_of (const json_t *array, struct layout *l)
{
  const char *name = output_json_text (array, "name");
  int kind = layout_parse (output_json_text (array, "layout"));
  char why[256];

  if (kind == -1) {
    ctl_error ("array %s: its layout %s is unknown to this weftctl; use the "
               "one that came with weftd",
               name, output_json_text (array, "layout"));
    return EXIT_FAILED;
  }
  if (layout_init (l, kind, (unsigned) output_json_number (array, "n"),
                   (unsigned) output_json_number (array, "groups"),
                   output_json_number (array, "unit"),
                   output_json_number (array, "member_bytes"), why,
                   sizeof why) == -1) {
    ctl_error ("array %s: weftd reported an impossible layout: %s", name, why);
    return EXIT_FAILED;
  }
  if (l->size != output_json_number (array, "size")) {
    ctl_error ("array %s: weftd gives its size as %" PRIu64 ", this weftctl "
               "works out %" PRIu64 "; use the weftctl that came with weftd",
               name, output_json_number (array, "size"), l->size);
    return EXIT_FAILED;
  }
  return EXIT_OK;
}

/* --- A range ------------------------------------------------------------- */

static json_t *
piece_json (const json_t *array, const struct layout_piece *p)
{
  const json_t *members = json_object_get (array, "members");
  json_t *copies = json_array ();

  for (unsigned c = 0; c < p->copies; c++) {
    const json_t *m = json_array_get (members, p->copy[c].member);

    json_array_append_new (copies,
                           json_pack ("{s:s, s:i, s:I, s:s, s:s, s:s}", "copy",
                                      c ? "image" : "data", "member",
                                      (int) p->copy[c].member, "offset",
                                      (json_int_t) p->copy[c].offset, "state",
                                      output_json_text (m, "state"), "node",
                                      output_json_text (m, "node"), "disk",
                                      output_json_text (m, "disk")));
  }
  return json_pack ("{s:I, s:I, s:o}", "offset", (json_int_t) p->offset,
                    "length", (json_int_t) p->length, "copies", copies);
}

static void
piece_rows (struct table *t, const json_t *piece)
{
  json_t *copy;
  size_t c;

  json_array_foreach (json_object_get (piece, "copies"), c, copy) {
    if (c == 0)
      output_table_cells (t, piece, "offset:number|length:number");
    else
      for (unsigned i = 0; i < 2; i++)
        output_table_cell (t, "%s", "");
    output_table_cells (t, copy,
                        "copy|member:number|offset:number|state|node|disk");
  }
}

static void
print_range (const json_t *range)
{
  output_table_of (json_object_get (range, "pieces"),
                   ">OFFSET|>LENGTH|COPY|>MEMBER|>AT|!STATE|NODE|DISK", "",
                   piece_rows, 0);
}

static int
map_range (struct ctl *ctl, const json_t *array, const struct layout *l,
           uint64_t offset, uint64_t length)
{
  json_t *pieces = json_array ();
  uint64_t done = 0;

  while (done < length) {
    struct layout_piece p;

    layout_map (l, offset + done, length - done, &p);
    json_array_append_new (pieces, piece_json (array, &p));
    done += p.length;
  }
  return ctl_show (ctl, EXIT_OK,
                   json_pack ("{s:s, s:I, s:I, s:o}", "name",
                              output_json_text (array, "name"), "offset",
                              (json_int_t) offset, "length",
                              (json_int_t) length, "pieces", pieces),
                   print_range);
}

/* OFFSET and LENGTH of the command line; the length defaults to the rest of
 * the stripe unit.
 */
static int
parse_range (const struct args *args, const json_t *array,
             const struct layout *l, uint64_t *offset, uint64_t *length)
{
  const char *o = args_plain (args, 1), *n = args_plain (args, 2);
  char size[SIZE_TEXT_EXACT_BYTES];

  if (ctl_parse_size (o, offset) == -1 ||
      (n && ctl_parse_size (n, length) == -1)) {
    ctl_error ("%s: not an offset or length; write bytes as 65536, 64K or 1M",
               ctl_parse_size (o, offset) == -1 ? o : n);
    return EXIT_USAGE;
  }
  if (*offset >= l->size) {
    ctl_error ("offset %s: lies behind the end of array %s, which has %s", o,
               output_json_text (array, "name"),
               output_size_exact (l->size, size));
    return EXIT_USAGE;
  }
  if (n == NULL)
    *length = l->unit - *offset % l->unit;
  if (*length == 0 || *length > l->size - *offset) {
    ctl_error ("length %s: the range must have at least one byte and end "
               "within array %s, which has %s",
               n, output_json_text (array, "name"),
               output_size_exact (l->size, size));
    return EXIT_USAGE;
  }
  if (*length / l->unit >= PIECES_MAX) {
    ctl_error ("length %s: that is more than %d stripe units; ask for less", n,
               PIECES_MAX);
    return EXIT_USAGE;
  }
  return EXIT_OK;
}

/* --- The picture --------------------------------------------------------- */

/* The stripes of a group that the picture has: the first period, two at least. */
static uint64_t
period_stripes (const struct layout *l)
{
  uint64_t s = layout_period (l);

  if (s < 2)
    s = 2;
  return s < l->stripes ? s : l->stripes;
}

static int
compare_rows (const void *a, const void *b)
{
  uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

  return x < y ? -1 : x > y;
}

/* The rows of units of the members in which the first period lies, ascending;
 * the same rows in every group.
 */
static uint64_t *
period_rows (const struct layout *l, size_t *count)
{
  uint64_t units = period_stripes (l) * l->groups * l->width;
  uint64_t *row = calloc (units * l->copies, sizeof *row);
  size_t n = 0, k = 0;

  if (row == NULL)
    return NULL;
  for (uint64_t u = 0; u < units; u++) {
    struct layout_piece p;

    layout_map (l, u * l->unit, l->unit, &p);
    for (unsigned c = 0; c < p.copies; c++)
      row[n++] = p.copy[c].offset / l->unit;
  }
  qsort (row, n, sizeof *row, compare_rows);
  for (size_t i = 0; i < n; i++)
    if (i == 0 || row[i] != row[k - 1])
      row[k++] = row[i];
  *count = k;
  return row;
}

/* D7 is unit 7 of the array; D7' its image, D7'' a third copy. */
static void
unit_label (const struct layout *l, unsigned member, uint64_t row, char *text,
            size_t size)
{
  static const char marks[] = "'''";
  uint64_t offset;
  uint32_t length;
  int copy = layout_unmap (l, member, row * l->unit, &offset, &length);

  if (copy == -1)
    snprintf (text, size, ".");
  else
    snprintf (text, size, "D%" PRIu64 "%.*s", offset / l->unit, copy, marks);
}

static void
picture_group (const struct layout *l, unsigned group, const uint64_t *row,
               size_t rows)
{
  char headings[GROUP_MEMBERS_MAX * 12 + 16] = ">AT", text[48];
  struct table *t;

  for (unsigned i = 0; i < l->n; i++)
    output_text_add (headings, sizeof headings, "|%u", group * l->n + i);
  t = output_table_new (headings);
  for (size_t k = 0; k < rows; k++) {
    for (unsigned i = 0; k && row[k] != row[k - 1] + 1 && i <= l->n; i++)
      output_table_cell (t, "%s", i ? ":" : "");
    output_table_cell (t, "%s", output_size (row[k] * l->unit, text));
    for (unsigned i = 0; i < l->n; i++) {
      unit_label (l, group * l->n + i, row[k], text, sizeof text);
      output_table_cell (t, "%s", text);
    }
  }
  output_table_print (t, 2);
}

static json_t *
picture_json (const struct layout *l, const uint64_t *row, size_t rows)
{
  json_t *members = json_array ();

  for (unsigned m = 0; m < l->members; m++) {
    json_t *units = json_array ();

    for (size_t k = 0; k < rows; k++) {
      char text[48];

      unit_label (l, m, row[k], text, sizeof text);
      json_array_append_new (units, json_pack ("{s:I, s:s}", "offset",
                                               (json_int_t) (row[k] * l->unit),
                                               "unit", text));
    }
    json_array_append_new (
      members, json_pack ("{s:i, s:o}", "member", (int) m, "units", units));
  }
  return members;
}

static int
map_picture (struct ctl *ctl, const json_t *array, const struct layout *l)
{
  size_t rows;
  uint64_t *row = period_rows (l, &rows);
  char unit[SIZE_TEXT_BYTES];
  json_t *all;

  if (row == NULL) {
    ctl_error ("out of memory");
    return EXIT_FAILED;
  }
  if (ctl->json) {
    all = json_pack ("{s:s, s:s, s:I, s:o}", "name",
                     output_json_text (array, "name"), "layout",
                     layout_name (l->kind), "unit", (json_int_t) l->unit,
                     "members", picture_json (l, row, rows));
    output_json (all);
    json_decref (all);
  }
  else {
    printf ("array %s, %s: its first period.  D0, D1... are the stripe units "
            "of %s,\nD0', D1'... their images; a column is a member, AT the "
            "offset in its data area.\n",
            output_json_text (array, "name"), layout_name (l->kind),
            output_size (l->unit, unit));
    for (unsigned g = 0; g < l->groups; g++) {
      putchar ('\n');
      picture_group (l, g, row, rows);
    }
  }
  free (row);
  return EXIT_OK;
}

int
cmd_map (struct ctl *ctl, const struct args *args)
{
  json_t *array;
  struct layout l;
  uint64_t offset = 0, length = 0;
  int r = ctl_get (ctl, "an array", args_plain (args, 0), "", &array);

  if (r != EXIT_OK)
    return r;
  r = layout_of (array, &l);
  if (r == EXIT_OK && args_plain (args, 1) == NULL)
    r = map_picture (ctl, array, &l);
  else if (r == EXIT_OK) {
    r = parse_range (args, array, &l, &offset, &length);
    if (r == EXIT_OK)
      r = map_range (ctl, array, &l, offset, length);
  }
  json_decref (array);
  return r;
}
