/* cmd-array.c: weftctl array.
 *
 * `create` asks weftd for the plan first (dry_run) and shows it: what weftd
 * would do is what the user is asked about.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "ctl.h"
#include "layout/layout.h"
#include "format/bad.h"
#include "output.h"
#include "wait.h"

#define ARRAYS "/api/v1/arrays"
#define POLL_MS 200

/* --- Showing ------------------------------------------------------------- */

static void
print_members (const json_t *array)
{
  struct table *t = table_new (">POS|!STATE|NODE|PATH|>DATA|DISK|URI|REASON");
  json_t *m;
  size_t i;

  json_array_foreach (json_object_get (array, "members"), i, m) {
    const json_t *alive = json_object_get (m, "alive");
    const char *state = json_text (m, "state");
    char size[SIZE_TEXT_BYTES];

    table_cell (t, "%" PRIu64, json_number (m, "position"));
    /* In-sync says what is on the disk, not whether somebody serves it. */
    table_cell (t, "%s",
                json_is_false (alive) && !strcmp (state, "in-sync") ? "silent"
                                                                    : state);
    table_cell (t, "%s", json_text (m, "node"));
    table_cell (t, "%s", json_text (m, "path"));
    table_cell (t, "%s", size_text (json_number (m, "data_bytes"), size));
    table_cell (t, "%s", json_text (m, "disk"));
    table_cell (t, "%s", json_text (m, "uri"));
    table_cell (t, "%s", json_text (m, "reason"));
  }
  table_print (t, 2);
}

/* How members come back, and what would replace them. */
static void
print_rebuilds (const json_t *array)
{
  uint64_t after = json_number (array, "spare_after_s");
  json_t *v;
  size_t i;

  json_array_foreach (json_object_get (array, "members"), i, v) {
    const json_t *rebuild = json_object_get (v, "rebuild");
    char text[REBUILD_TEXT_BYTES];

    if (json_is_object (rebuild))
      printf ("  rebuild of %zu: %s\n", i, rebuild_text (rebuild, text));
    if (json_is_true (json_object_get (v, "suspect")))
      printf ("  %zu is slow: its answers take %" PRIu64 " us, and what others "
              "have is read from them\n",
              i, json_number (v, "service_us"));
    if (json_is_true (json_object_get (v, "paused")))
      printf ("  %zu is paused: weftctl rebuild resume %s %zu lets its rebuild "
              "go on\n",
              i, json_text (array, "name"), i);
    if (json_is_true (json_object_get (v, "held")))
      printf ("  %zu is held out: weftctl rebuild join %s %zu takes it back\n",
              i, json_text (array, "name"), i);
    if (json_is_string (json_object_get (v, "spare_at")))
      printf ("  a spare takes the place of %zu at %s\n", i,
              json_text (v, "spare_at"));
  }
  json_array_foreach (json_object_get (array, "spares"), i, v) {
    printf ("  %-9s disk %s", "spare", json_string_value (v));
    if (after)
      printf (", for a member that has been out for %" PRIu64 " s\n", after);
    else
      printf (", when it is asked for\n");
  }
}

static void
print_capacity (const json_t *array)
{
  static const struct {
    const char *key, *help;
  } rows[] = {
    { "total", "all the disks' data areas together" },
    { "usable", "what the array offers" },
    { "images", "second copies" },
    { "wasted", "disks of unequal size, and what fills no whole period" },
  };
  const json_t *c = json_object_get (array, "capacity");

  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char size[SIZE_TEXT_EXACT_BYTES];

    printf ("  %-9s %-28s %s\n", rows[i].key,
            size_text_exact (json_number (c, rows[i].key), size), rows[i].help);
  }
}

/* The layout in a line: also what `create` asks about. */
static void
print_layout (const json_t *array)
{
  char unit[SIZE_TEXT_BYTES];
  uint64_t groups = json_number (array, "groups");

  printf ("  %-9s %s, %" PRIu64 " member%s", "layout",
          json_text (array, "layout"), json_number (array, "n"),
          json_number (array, "n") == 1 ? "" : "s");
  if (groups > 1)
    printf (" in each of %" PRIu64 " groups", groups);
  printf (", stripe unit %s, %s\n",
          size_text (json_number (array, "unit"), unit),
          json_text (array, "dup"));
  printf ("  %-9s %s\n", "survives",
          *json_text (array, "survives") == '-'
            ? "no failure at all"
            : json_text (array, "survives"));
  if (strcmp (json_text (array, "layout"), layout_name (LAYOUT_RAID0)) == 0)
    printf ("  WARNING   raid-0 keeps no second copy: the loss of any one "
            "disk loses the whole array\n");
}

static void
print_sessions (const json_t *array)
{
  json_t *s;
  size_t i;
  struct table *t;

  if (json_array_size (json_object_get (array, "sessions")) == 0) {
    printf ("  sessions  none\n");
    return;
  }
  printf ("\n");
  t = table_new ("SESSION|MODE|NODE|>PID|>HEARD|URI");
  json_array_foreach (json_object_get (array, "sessions"), i, s) {
    char age[AGE_TEXT_BYTES];

    table_cell (t, "%s", json_text (s, "session"));
    table_cell (t, "%s", json_text (s, "mode"));
    table_cell (t, "%s", json_text (s, "node"));
    table_cell (t, "%" PRIu64, json_number (s, "pid"));
    table_cell (t, "%s", age_text (json_number (s, "last_heard_ms"), age));
    table_cell (t, "%s", json_text (s, "uri"));
  }
  table_print (t, 2);
}

static void
print_array (const json_t *array)
{
  const char *state = json_text (array, "state");
  char size[SIZE_TEXT_EXACT_BYTES];
  uint64_t lost = json_number (array, "lost_bytes");
  uint64_t exposed = json_number (array, "exposed_bytes");
  uint64_t bad = json_number (array, "bad_bytes");

  printf ("array %s: %s%s%s\n", json_text (array, "name"), color_start (state),
          state, color_end (state));
  if (json_is_string (json_object_get (array, "waits_for")))
    printf ("  %-9s %s\n", "waits for", json_text (array, "waits_for"));
  if (lost)
    printf ("  %-9s %s\n", "LOST", size_text_exact (lost, size));
  if (exposed)
    printf ("  %-9s %s have fewer copies than they should\n", "exposed",
            size_text_exact (exposed, size));
  if (bad)
    printf ("  %-9s %s can't be read: weftctl array bad-ranges %s\n", "BAD",
            size_text_exact (bad, size), json_text (array, "name"));
  printf ("  %-9s %s\n", "uuid", json_text (array, "uuid"));
  printf ("  %-9s %s\n", "size",
          size_text_exact (json_number (array, "size"), size));
  print_layout (array);
  printf ("  %-9s %" PRIu64 "\n\n", "epoch", json_number (array, "epoch"));
  print_capacity (array);
  printf ("\n");
  print_members (array);
  print_rebuilds (array);
  print_sessions (array);
}

int
cmd_array_ls (struct ctl *ctl, const struct args *args)
{
  json_t *reply, *a;
  struct table *t;
  size_t i;
  int r;

  if (!ctl_list (ctl, ARRAYS, &reply, &r))
    return r;
  t = table_new ("ARRAY|!STATE|LAYOUT|>MEMBERS|>SIZE|SURVIVES|ATTACHED BY");
  json_array_foreach (json_object_get (reply, "arrays"), i, a) {
    const json_t *s = json_object_get (a, "session");
    char size[SIZE_TEXT_BYTES];

    table_cell (t, "%s", json_text (a, "name"));
    table_cell (t, "%s", json_text (a, "state"));
    table_cell (t, "%s", json_text (a, "layout"));
    table_cell (t, "%zu", json_array_size (json_object_get (a, "members")));
    table_cell (t, "%s", size_text (json_number (a, "size"), size));
    table_cell (t, "%s", json_text (a, "survives"));
    table_cell (t, "%s", json_is_object (s) ? json_text (s, "node") : "-");
  }
  table_print (t, 0);
  json_decref (reply);
  return EXIT_OK;
}

int
cmd_array_show (struct ctl *ctl, const struct args *args)
{
  json_t *array;
  int r = ctl_get_array (ctl, args_plain (args, 0), &array);

  return r == EXIT_OK ? ctl_show (ctl, array, print_array) : r;
}

int
cmd_array_bad_ranges (struct ctl *ctl, const struct args *args)
{
  const char *name = args_plain (args, 0);
  char path[NAME_BYTES_MAX + 64], size[SIZE_TEXT_BYTES];
  json_t *reply, *b;
  uint64_t bytes = 0;
  struct table *t;
  size_t i;
  int r = ctl_check_name ("an array", name);

  if (r != EXIT_OK)
    return r;
  snprintf (path, sizeof path, ARRAYS "/%s/bad-ranges", name);
  if (!ctl_list (ctl, path, &reply, &r))
    return r;
  t = table_new (">OFFSET|>LENGTH|FOUND BY|LISTED BY MEMBER|OTHER COPY");
  json_array_foreach (json_object_get (reply, "bad_ranges"), i, b) {
    const json_t *members = json_object_get (b, "members");
    char list[COPIES_MAX * 5] = "";

    for (size_t m = 0; m < json_array_size (members); m++)
      snprintf (list + strlen (list), sizeof list - strlen (list), "%s%" PRIu64,
                m ? " " : "",
                (uint64_t) json_integer_value (json_array_get (members, m)));
    table_cell (t, "%" PRIu64, json_number (b, "offset"));
    table_cell (t, "%" PRIu64, json_number (b, "length"));
    table_cell (t, "%s", json_text (b, "reason"));
    table_cell (t, "%s", list);
    table_cell (t, "%s",
                json_is_true (json_object_get (b, "copy_left"))
                  ? "was unreadable then"
                : json_is_true (json_object_get (b, "copy_out"))
                  ? "on a member that is not in-sync"
                  : "none");
    bytes += json_number (b, "length");
  }
  if (bytes == 0)
    printf ("nothing of array %s is known to be bad\n", name);
  else {
    table_print (t, 0);
    printf ("%s in all; \"man 7 weft\" says how to find the files\n",
            size_text (bytes, size));
  }
  json_decref (reply);
  return EXIT_OK;
}

/* --- accept-loss --------------------------------------------------------- */

static bool
overlap (const json_t *x, const json_t *y)
{
  uint64_t at = json_number (x, "offset"), other = json_number (y, "offset");

  return at < other + json_number (y, "length") &&
         other < at + json_number (x, "length");
}

/* Of what is listed: the ranges that lie in `asked`, cut to it, and that nobody can
 * have a good copy of.  *later: bytes that somebody may have one of; *more: those that
 * are too many for once.
 */
static json_t *
lost_ranges (const json_t *listed, const json_t *asked, uint64_t *later,
             uint64_t *more)
{
  uint64_t first = json_number (asked, "offset");
  uint64_t end = first + json_number (asked, "length");
  json_t *ranges = json_array (), *b;
  size_t i;

  *later = *more = 0;
  json_array_foreach (listed, i, b) {
    uint64_t at = json_number (b, "offset");
    uint64_t stop = at + json_number (b, "length");

    at = at > first ? at : first;
    stop = stop < end ? stop : end;
    if (at >= stop)
      continue;
    if (json_is_true (json_object_get (b, "copy_out")))
      *later += stop - at;
    else if (json_array_size (ranges) == LOSS_RANGES_MAX)
      *more += stop - at;
    else
      json_array_append_new (ranges,
                             json_pack ("{sI sI}", "offset", (json_int_t) at,
                                        "length", (json_int_t) (stop - at)));
  }
  return ranges;
}

/* [OFFSET [LENGTH]], in whole blocks. */
static int
asked_range (const struct args *args, json_t **asked)
{
  const char *from = args_plain (args, 1), *much = args_plain (args, 2);
  uint64_t offset = 0, length = INT64_MAX / BAD_BLOCK_BYTES * BAD_BLOCK_BYTES;

  if ((from && size_parse (from, &offset) == -1) ||
      (much && size_parse (much, &length) == -1) || length == 0 ||
      offset % BAD_BLOCK_BYTES || length % BAD_BLOCK_BYTES ||
      offset > INT64_MAX) {
    ctl_error ("array accept-loss: %s%s%s: no range of whole blocks of %d "
               "bytes; weftctl array bad-ranges %s has them",
               from ? from : "", much ? " " : "", much ? much : "",
               BAD_BLOCK_BYTES, args_plain (args, 0));
    return EXIT_USAGE;
  }
  if (length > INT64_MAX - offset)
    length = INT64_MAX - offset;
  *asked = json_pack ("{sI sI}", "offset", (json_int_t) offset, "length",
                      (json_int_t) length);
  return EXIT_OK;
}

static int
look_not_bad (struct wait *w, const json_t *reply, bool *done)
{
  const json_t *listed = json_object_get (reply, "bad_ranges"), *b, *r;
  uint64_t bytes = 0;
  char size[SIZE_TEXT_BYTES];
  size_t i, k;

  json_array_foreach (listed, i, b)
    json_array_foreach (w->ranges, k, r)
      if (overlap (b, r)) {
        bytes += json_number (r, "length");
        break;
      }
  *done = bytes == 0;
  snprintf (w->now, sizeof w->now,
            "about %s of it are still bad; the array "
            "process says why, and this can be asked for again",
            size_text (bytes, size));
  return EXIT_OK;
}

/* Ask for it, and wait until the members' lists do not have it any more. */
static int
accept_loss (struct ctl *ctl, const char *name, const char *path,
             json_t *ranges)
{
  char to[NAME_BYTES_MAX + 64];
  json_t *body = json_pack ("{sO}", "ranges", ranges), *reply;
  struct wait w;
  int r;

  snprintf (to, sizeof to, ARRAYS "/%s/accept-loss", name);
  r = ctl_change (ctl, "POST", to, body, &reply);
  json_decref (body);
  if (r != EXIT_OK || ctl->dry_run)
    return r;
  json_decref (reply);
  ctl_wait_init (ctl, &w, true);
  w.name = name;
  w.what = "good";
  w.quiet = true;
  w.look = look_not_bad;
  w.ranges = ranges;
  snprintf (w.subject, sizeof w.subject, "array %s: accepted, but", name);
  r = ctl_wait (ctl, &w, path, &reply);
  if (r != EXIT_OK)
    return r;
  if (ctl->json)
    output_json (reply);
  json_decref (reply);
  return EXIT_OK;
}

int
cmd_array_accept_loss (struct ctl *ctl, const struct args *args)
{
  const char *name = args_plain (args, 0);
  char path[NAME_BYTES_MAX + 64], size[SIZE_TEXT_BYTES];
  json_t *reply, *asked, *ranges;
  uint64_t bytes = 0, later, more;
  int r = ctl_check_name ("an array", name);

  if (r == EXIT_OK)
    r = asked_range (args, &asked);
  if (r != EXIT_OK)
    return r;
  snprintf (path, sizeof path, ARRAYS "/%s/bad-ranges", name);
  r = ctl_call (ctl, "GET", path, NULL, &reply);
  if (r != EXIT_OK) {
    json_decref (asked);
    return r;
  }
  ranges = lost_ranges (json_object_get (reply, "bad_ranges"), asked, &later,
                        &more);
  for (size_t i = 0; i < json_array_size (ranges); i++)
    bytes += json_number (json_array_get (ranges, i), "length");
  if (later > 0)
    ctl_error (
      "array %s: %s are left as they are: a member that is not in-sync "
      "may have a good copy; wait until it is, or replace it",
      name, size_text (later, size));
  if (bytes > 0)
    r = accept_loss (ctl, name, path, ranges);
  else if (later > 0)
    r = EXIT_REFUSED;
  else if (!ctl->json)
    printf ("nothing of array %s in this range is known to be bad\n", name);
  else
    output_json (reply);
  if (bytes > 0 && r == EXIT_OK && !ctl->dry_run && !ctl->json)
    printf ("array %s: %s are good again: zeroes, but where a copy could be "
            "read after all\n",
            name, size_text (bytes, size));
  if (more > 0 && r == EXIT_OK)
    ctl_error ("array %s: %s more are bad: they are too many for once; ask "
               "again for them",
               name, size_text (more, size));
  json_decref (ranges);
  json_decref (asked);
  json_decref (reply);
  return r;
}

/* --- create -------------------------------------------------------------- */

/* The UUIDs of all disks that were named, in the order of the command line:
 * --disk D, and whatever follows the name.
 */
static int
resolve_disks (struct ctl *ctl, const struct args *args, json_t *uuids)
{
  const char *name = args_plain (args, 0), *uuid;
  json_t *reply, *u;
  size_t k;
  int r = ctl_call (ctl, "GET", "/api/v1/disks", NULL, &reply);

  if (r != EXIT_OK)
    return r;
  for (size_t i = 0; i < args->count && r == EXIT_OK; i++) {
    const struct arg *a = &args->arg[i];

    if (a->name ? strcmp (a->name, "disk") != 0 : a->value == name)
      continue;
    r = disk_resolve (json_object_get (reply, "disks"), a->value, &uuid);
    if (r != EXIT_OK)
      break;
    json_array_foreach (uuids, k, u)
      if (strcmp (json_string_value (u), uuid) == 0) {
        ctl_error ("%s: this disk is named twice (as position %zu already); "
                   "every member needs a disk of its own",
                   a->value, k);
        r = EXIT_USAGE;
      }
    json_array_append_new (uuids, json_string (uuid));
  }
  json_decref (reply);
  if (r == EXIT_OK && json_array_size (uuids) == 0) {
    ctl_error ("array create %s: no disk is named; add --disk DISK for each "
               "member (weftctl disk ls shows them)",
               name);
    r = EXIT_USAGE;
  }
  return r;
}

/* What to send to weftd, out of the command line. */
static int
create_request (struct ctl *ctl, const struct args *args, json_t *request)
{
  const char *layout = args_value (args, "layout");
  const char *unit = args_value (args, "unit");
  const char *dup = args_value (args, "dup");
  uint64_t groups = 1, bytes = UNIT_BYTES_DEFAULT;
  json_t *uuids = json_array ();
  int r = ctl_check_name ("an array", args_plain (args, 0));

  if (r == EXIT_OK)
    r = args_number (args, "groups", 1, ARRAY_GROUPS_MAX, &groups);
  if (r == EXIT_OK && layout && layout_parse (layout) == -1) {
    ctl_error ("--layout %s: no such layout; there are raid-x, raid-10, "
               "chained, rotated, raid-1 and raid-0",
               layout);
    r = EXIT_USAGE;
  }
  if (r == EXIT_OK && unit && size_parse (unit, &bytes) == -1) {
    ctl_error ("--unit %s: not a size; write 65536, 64K or 1M", unit);
    r = EXIT_USAGE;
  }
  if (r == EXIT_OK)
    r = resolve_disks (ctl, args, uuids);
  json_object_set_new (request, "name", json_string (args_plain (args, 0)));
  json_object_set_new (
    request, "layout",
    json_string (layout ? layout : layout_name (LAYOUT_RAIDX)));
  json_object_set_new (request, "unit", json_integer ((json_int_t) bytes));
  json_object_set_new (request, "groups", json_integer ((json_int_t) groups));
  if (dup)
    json_object_set_new (request, "dup", json_string (dup));
  json_object_set_new (request, "disks", uuids);
  return r;
}

static void
print_plan (const json_t *plan)
{
  char size[SIZE_TEXT_EXACT_BYTES];

  printf ("array %s, to be made:\n", json_text (plan, "name"));
  printf ("  %-9s %s\n", "size",
          size_text_exact (json_number (plan, "size"), size));
  print_layout (plan);
  printf ("\n");
  print_capacity (plan);
  printf ("\n");
  print_members (plan);
}

static int
look_ready (struct wait *w, const json_t *array, bool *done)
{
  const char *state = json_text (array, "state");

  *done = strcmp (state, "ready") == 0;
  if (!*done && strcmp (state, "creating") != 0) {
    ctl_error ("array %s: made, but it is %s: %s; weftctl array show %s says "
               "more",
               w->name, state, json_text (array, "waits_for"), w->name);
    return EXIT_FAILED;
  }
  snprintf (w->now, sizeof w->now,
            "it waits for %s; weftctl array show %s "
            "says when it is",
            json_text (array, "waits_for"), w->name);
  return EXIT_OK;
}

/* Wait until every disk has taken its place. */
static int
wait_ready (struct ctl *ctl, const char *name, json_t **array)
{
  char path[128];
  struct wait w;

  ctl_wait_init (ctl, &w, true);
  w.name = name;
  w.what = "ready";
  w.quiet = true;
  w.look = look_ready;
  snprintf (w.subject, sizeof w.subject, "array %s: made, but", name);
  snprintf (path, sizeof path, ARRAYS "/%s", name);
  return ctl_wait (ctl, &w, path, array);
}

static int
confirm_create (struct ctl *ctl, const char *name, size_t members)
{
  char question[160];

  if (ctl->yes)
    return EXIT_OK;
  snprintf (question, sizeof question,
            "Make array %s of these %zu disks? "
            "[y/N]",
            name, members);
  switch (ask_yes (question)) {
  case 1:
    return EXIT_OK;
  case 0:
    ctl_error ("array %s: not made, as you did not say yes; nothing was "
               "changed",
               name);
    return EXIT_FAILED;
  default:
    ctl_error ("array %s: there is no terminal to ask on, so nothing was "
               "done; add --yes to make it, or --dry-run to see the plan",
               name);
    return EXIT_USAGE;
  }
}

static int
create_planned (struct ctl *ctl, const json_t *request)
{
  const char *name = json_text (request, "name");
  size_t members = json_array_size (json_object_get (request, "disks"));
  char size[SIZE_TEXT_BYTES];
  json_t *array = NULL;
  int r = confirm_create (ctl, name, members);

  if (r == EXIT_OK)
    r = ctl_call (ctl, "POST", ARRAYS, request, NULL);
  if (r == EXIT_OK)
    r = wait_ready (ctl, name, &array);
  if (r == EXIT_OK && ctl->json)
    output_json (array);
  else if (r == EXIT_OK)
    printf ("\narray %s is ready: %s; attach it by: weftctl attach %s\n", name,
            size_text (json_number (array, "size"), size), name);
  json_decref (array);
  return r;
}

int
cmd_array_create (struct ctl *ctl, const struct args *args)
{
  json_t *request = json_object (), *preflight = NULL;
  int r = create_request (ctl, args, request);

  if (r == EXIT_OK)
    r = ctl_preflight (ctl, "POST", ARRAYS, request, &preflight);
  if (r == EXIT_OK && !ctl->json)
    print_plan (json_object_get (preflight, "plan"));
  if (r == EXIT_OK && !ctl->dry_run)
    r = create_planned (ctl, request);
  json_decref (preflight);
  json_decref (request);
  return r;
}

/* --- rm ------------------------------------------------------------------ */

/* Disks that have yet to let go of the array: those that can be waited for, and
 * those that are silent, which will when they come back.
 */
static int
disks_left (struct ctl *ctl, const char *uuid, unsigned *left, unsigned *silent)
{
  json_t *reply, *d;
  size_t i;
  int r = ctl_call (ctl, "GET", "/api/v1/disks", NULL, &reply);

  *left = *silent = 0;
  if (r != EXIT_OK)
    return r;
  json_array_foreach (json_object_get (reply, "disks"), i, d)
    if (strcmp (json_text (d, "releasing"), uuid) == 0) {
      if (json_is_true (json_object_get (d, "alive")))
        ++*left;
      else
        ++*silent;
    }
  json_decref (reply);
  return EXIT_OK;
}

static int
wait_free (struct ctl *ctl, const char *name, const char *uuid,
           unsigned *silent)
{
  uint64_t end = clock_ms () + ctl->timeout_ms;
  unsigned left;

  for (;;) {
    int r = disks_left (ctl, uuid, &left, silent);

    if (r != EXIT_OK || left == 0)
      return r;
    if (clock_ms () >= end) {
      ctl_error ("array %s: removed, but %u of its disks have not let go of "
                 "it after %u s; they can be used again once they have",
                 name, left, ctl->timeout_ms / 1000);
      return EXIT_FAILED;
    }
    clock_sleep_ms (POLL_MS);
  }
}

int
cmd_array_rm (struct ctl *ctl, const struct args *args)
{
  const char *name = args_plain (args, 0);
  unsigned silent = 0;
  json_t *array, *done;
  char path[128];
  int r = ctl_get_array (ctl, name, &array);

  if (r != EXIT_OK)
    return r;
  snprintf (path, sizeof path, ARRAYS "/%s", name);
  r = ctl_change (ctl, "DELETE", path, NULL, NULL);
  if (r == EXIT_OK && !ctl->dry_run)
    r = wait_free (ctl, name, json_text (array, "uuid"), &silent);
  json_decref (array);
  if (r != EXIT_OK || ctl->dry_run)
    return r;
  if (ctl->json) {
    done = json_pack ("{s:s, s:b, s:i}", "name", name, "deleted", 1,
                      "silent_disks", (int) silent);
    output_json (done);
    json_decref (done);
  }
  else if (silent)
    printf ("array %s is removed; %u of its disks are silent, and let go of "
            "it when they come back\n",
            name, silent);
  else
    printf ("array %s is removed; its disks are free\n", name);
  return EXIT_OK;
}
