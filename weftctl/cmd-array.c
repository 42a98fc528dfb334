/* cmd-array.c: weftctl array.
 *
 * `create` first asks weftd for the plan (dry_run), and shows that plan to the
 * user for confirmation.
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
#include "output.h"
#include "wait.h"

#define ARRAYS "/api/v1/arrays"
#define POLL_MS 200

/* --- Showing ------------------------------------------------------------- */

static void
member_row (struct table *t, const json_t *member)
{
  const char *state = output_json_text (member, "state");
  bool silent = json_is_false (json_object_get (member, "alive"));

  /* The state in-sync says what is on the disk, not whether a process serves it. */
  output_table_cell (
    t, "%s", silent && strcmp (state, "in-sync") == 0 ? "silent" : state);
  output_table_cells (t, member, "node|path|data_bytes:size|disk|uri|reason");
}

static void
print_members (const json_t *array)
{
  output_table_of (json_object_get (array, "members"),
                   ">POS|!STATE|NODE|PATH|>DATA|DISK|URI|REASON",
                   "position:number", member_row, 2);
}

/* How members come back, and what would replace them. */
static void
print_rebuilds (const json_t *array)
{
  uint64_t after = output_json_number (array, "spare_after_s");
  json_t *v;
  size_t i;

  json_array_foreach (json_object_get (array, "members"), i, v) {
    const json_t *rebuild = json_object_get (v, "rebuild");
    char text[REBUILD_TEXT_BYTES];

    if (json_is_object (rebuild))
      printf ("  rebuild of %zu: %s\n", i, rebuild_text (rebuild, text));
    if (output_json_yes (v, "suspect"))
      printf ("  %zu is slow: its answers take %" PRIu64
              " us, and those of its "
              "peers %" PRIu64
              " us; data is read from its peers where they have a copy\n",
              i, output_json_number (v, "service_us"),
              output_json_number (v, "peers_us"));
    if (output_json_yes (v, "paused"))
      printf ("  %zu is paused: weftctl rebuild resume %s %zu lets its rebuild "
              "go on\n",
              i, output_json_text (array, "name"), i);
    if (output_json_yes (v, "held"))
      printf ("  %zu is held out: weftctl rebuild join %s %zu takes it back\n",
              i, output_json_text (array, "name"), i);
    if (output_json_has (v, "next_disk"))
      printf ("  %zu is to move to disk %s\n", i,
              output_json_text (v, "next_disk"));
    if (output_json_has (v, "spare_at"))
      printf ("  a spare takes the place of %zu at %s\n", i,
              output_json_text (v, "spare_at"));
  }
  json_array_foreach (json_object_get (array, "spares"), i, v) {
    printf ("  %-9s disk %s", "spare", output_json_shown (v));
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
    { "usable", "size of the array" },
    { "images", "second copies" },
    { "wasted", "unequal disks, and the rest of a period" },
  };
  const json_t *c = json_object_get (array, "capacity");

  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char size[SIZE_TEXT_EXACT_BYTES];

    printf ("  %-9s %-28s %s\n", rows[i].key,
            output_size_exact (output_json_number (c, rows[i].key), size),
            rows[i].help);
  }
}

/* The layout in a line: also for the question of `create`. */
static void
print_layout (const json_t *array)
{
  char unit[SIZE_TEXT_BYTES];
  uint64_t groups = output_json_number (array, "groups");
  int kind = layout_parse (output_json_text (array, "layout"));

  printf ("  %-9s %s, %" PRIu64 " member%s", "layout",
          output_json_text (array, "layout"), output_json_number (array, "n"),
          output_json_number (array, "n") == 1 ? "" : "s");
  if (groups > 1)
    printf (" in each of %" PRIu64 " groups", groups);
  printf (", stripe unit %s, %s\n",
          output_size (output_json_number (array, "unit"), unit),
          output_json_text (array, "dup"));
  printf ("  %-9s %s\n", "survives",
          *output_json_text (array, "survives") == '-'
            ? "no failure at all"
            : output_json_text (array, "survives"));
  if (kind != -1 && layout_copies (kind, output_json_number (array, "n")) == 1)
    printf (
      "  WARNING   %s keeps no second copy: the loss of any one disk loses "
      "the whole array\n",
      layout_name (kind));
}

static void
print_array (const json_t *array)
{
  const json_t *sessions = json_object_get (array, "sessions");
  const char *state = output_json_text (array, "state");
  char size[SIZE_TEXT_EXACT_BYTES];
  uint64_t lost = output_json_number (array, "lost_bytes");
  uint64_t exposed = output_json_number (array, "exposed_bytes");
  uint64_t bad = output_json_number (array, "bad_bytes");

  printf ("array %s: %s%s%s\n", output_json_text (array, "name"),
          output_color_start (state), state, output_color_end (state));
  if (output_json_has (array, "waits_for"))
    printf ("  %-9s %s\n", "waits for", output_json_text (array, "waits_for"));
  if (lost)
    printf ("  %-9s %s\n", "LOST", output_size_exact (lost, size));
  if (exposed)
    printf ("  %-9s %s have fewer copies than they should\n", "exposed",
            output_size_exact (exposed, size));
  if (bad)
    printf ("  %-9s %s can't be read: weftctl array bad-ranges %s\n", "BAD",
            output_size_exact (bad, size), output_json_text (array, "name"));
  printf ("  %-9s %s\n", "uuid", output_json_text (array, "uuid"));
  printf ("  %-9s %s\n", "size",
          output_size_exact (output_json_number (array, "size"), size));
  print_layout (array);
  printf ("  %-9s %" PRIu64 "\n", "epoch", output_json_number (array, "epoch"));
  array_allow_print (array);
  if (json_is_object (json_object_get (array, "pool"))) {
    printf ("\n");
    volume_print_pool (json_object_get (array, "pool"));
  }
  printf ("\n");
  print_capacity (array);
  printf ("\n");
  print_members (array);
  print_rebuilds (array);
  if (json_array_size (sessions) == 0)
    printf ("  sessions  none\n");
  else {
    printf ("\n");
    output_table_of (
      sessions, "SESSION|MODE|NODE|>PID|>HEARD|PART|URI",
      "session|mode|node|pid:number|last_heard_ms:age|part:part|uri", NULL, 2);
  }
}

int
cmd_array_ls (struct ctl *ctl, const struct args *args)
{
  return ctl_ls (ctl, ARRAYS, "arrays",
                 "ARRAY|!STATE|LAYOUT|>MEMBERS|>SIZE|SURVIVES|ATTACHED BY",
                 "name|state|layout|members:count|size:size|survives|"
                 "sessions:writers",
                 NULL);
}

int
cmd_array_show (struct ctl *ctl, const struct args *args)
{
  json_t *array;
  int r = ctl_get (ctl, "an array", args_plain (args, 0), "", &array);

  return ctl_show (ctl, r, array, print_array);
}

/* --- create -------------------------------------------------------------- */

/* The UUIDs of all named disks, in the order of the command line: --disk D, and
 * the words after the name.
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

/* The request to weftd, from the command line. */
static int
create_request (struct ctl *ctl, const struct args *args, json_t **request)
{
  const char *name = args_plain (args, 0);
  const char *layout = args_value (args, "layout");
  const char *dup = args_value (args, "dup");
  const char *allow = args_value (args, "allow");
  json_t *uuids = json_array ();
  uint64_t groups, unit;
  int r = ctl_check_name ("an array", name);

  if (r == EXIT_OK)
    r = args_stripes (args, &groups, &unit);
  if (r == EXIT_OK && layout && layout_parse (layout) == -1) {
    ctl_error ("--layout %s: no such layout; the layouts are " LAYOUT_NAMES,
               layout);
    r = EXIT_USAGE;
  }
  if (r == EXIT_OK)
    r = resolve_disks (ctl, args, uuids);
  if (r == EXIT_OK)
    *request = json_pack (
      "{s:s, s:s, s:I, s:I, s:s*, s:O}", "name", name, "layout",
      layout ? layout : layout_name (LAYOUT_DEFAULT), "unit", (json_int_t) unit,
      "groups", (json_int_t) groups, "dup", dup, "disks", uuids);
  json_decref (uuids);
  if (r == EXIT_OK && *request == NULL) {
    ctl_error ("the array's name and --dup must be UTF-8");
    r = EXIT_USAGE;
  }
  if (r == EXIT_OK && args_switch (args, "pool"))
    json_object_set_new (*request, "pool", json_true ());
  if (r == EXIT_OK && args_switch (args, "force"))
    json_object_set_new (*request, "force", json_true ());
  if (r == EXIT_OK && allow)
    r = array_allow_request (allow, *request);
  return r;
}

static void
print_plan (const json_t *plan)
{
  char size[SIZE_TEXT_EXACT_BYTES];

  printf ("array %s, to be made:\n", output_json_text (plan, "name"));
  printf ("  %-9s %s\n", "size",
          output_size_exact (output_json_number (plan, "size"), size));
  print_layout (plan);
  array_allow_print (plan);
  printf ("\n");
  print_capacity (plan);
  printf ("\n");
  print_members (plan);
}

static int
look_ready (struct wait *w, const json_t *array, bool *done)
{
  const char *state = output_json_text (array, "state");

  *done = strcmp (state, "ready") == 0;
  if (!*done && strcmp (state, "creating") != 0) {
    ctl_error ("array %s: made, but it is %s: %s; weftctl array show %s says "
               "more",
               w->name, state, output_json_text (array, "waits_for"), w->name);
    return EXIT_FAILED;
  }
  snprintf (w->now, sizeof w->now,
            "it waits for %s; weftctl array show %s "
            "says when it is",
            output_json_text (array, "waits_for"), w->name);
  return EXIT_OK;
}

int
cmd_array_create (struct ctl *ctl, const struct args *args)
{
  const char *name = args_plain (args, 0);
  json_t *request = NULL, *preflight = NULL, *array;
  char question[160], path[CTL_PATH_BYTES], size[SIZE_TEXT_BYTES];
  struct wait w;
  int r = create_request (ctl, args, &request);

  if (r == EXIT_OK)
    r = ctl_preflight (ctl, "POST", ARRAYS, request, &preflight);
  if (r == EXIT_OK && !ctl->json)
    print_plan (json_object_get (preflight, "plan"));
  json_decref (preflight);
  if (r == EXIT_OK && !ctl->dry_run) {
    snprintf (question, sizeof question,
              "Make array %s of these %zu disks? [y/N]", name,
              json_array_size (json_object_get (request, "disks")));
    r = ctl_confirm_yes (ctl, name, question, "made",
                         "make it, or --dry-run to see the plan");
  }
  if (r == EXIT_OK && !ctl->dry_run)
    r = ctl_call (ctl, "POST", ARRAYS, json_incref (request), NULL);
  json_decref (request);
  if (r != EXIT_OK || ctl->dry_run)
    return r;
  /* weftd has made it, but each disk has yet to take its place. */
  wait_init (ctl, &w, true);
  w.name = name;
  w.what = "ready";
  w.quiet = true;
  w.look = look_ready;
  snprintf (w.subject, sizeof w.subject, "array %s: made, but", name);
  ctl_path ("an array", name, "", path);
  r = wait_done (ctl, &w, path, &array);
  return ctl_say (
    ctl, r, array, "\narray %s is ready: %s; attach it by: weftctl attach %s",
    name, output_size (output_json_number (array, "size"), size), name);
}

/* --- rm ------------------------------------------------------------------ */

/* Wait until its disks have let go of the array.  *silent: how many could not be
 * waited for; they will when they come back.
 */
static int
wait_free (struct ctl *ctl, const char *name, const char *uuid,
           unsigned *silent)
{
  uint64_t end = clock_ms () + ctl->timeout_ms;
  unsigned left;
  json_t *reply, *d;
  size_t i;

  for (;;) {
    int r = ctl_call (ctl, "GET", "/api/v1/disks", NULL, &reply);

    left = *silent = 0;
    json_array_foreach (json_object_get (reply, "disks"), i, d)
      if (strcmp (output_json_text (d, "releasing"), uuid) == 0)
        ++*(output_json_yes (d, "alive") ? &left : silent);
    json_decref (reply);
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
  char path[CTL_PATH_BYTES];
  int r = ctl_get (ctl, "an array", name, "", &array);

  if (r != EXIT_OK)
    return r;
  ctl_path ("an array", name, "", path);
  r = ctl_change (ctl, "DELETE", path, NULL, NULL);
  if (r == EXIT_OK && !ctl->dry_run)
    r = wait_free (ctl, name, output_json_text (array, "uuid"), &silent);
  json_decref (array);
  if (r != EXIT_OK || ctl->dry_run)
    return r;
  done = json_pack ("{s:s, s:b, s:i}", "name", name, "deleted", 1,
                    "silent_disks", (int) silent);
  if (silent)
    return ctl_say (ctl, r, done,
                    "array %s is removed; %u of its disks are silent, and let "
                    "go of it when they come back",
                    name, silent);
  return ctl_say (ctl, r, done, "array %s is removed; its disks are free",
                  name);
}
