/* cmd-rebuild.c: weftctl rebuild: members on their way back. */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "output.h"
#include "wait.h"

/* --- How far it is ------------------------------------------------------- */

/* Thousandths that are done. */
static int
permille (const json_t *rebuild)
{
  uint64_t total = output_json_number (rebuild, "total_bytes");
  uint64_t todo = output_json_number (rebuild, "todo_bytes");

  if (strcmp (output_json_text (rebuild, "phase"), "synced") == 0)
    return 1000;
  return total == 0 || todo > total ? 0
                                    : output_permille_of (total - todo, total);
}

static const char *
eta_text (const json_t *rebuild, char text[AGE_TEXT_BYTES])
{
  if (!json_is_integer (json_object_get (rebuild, "eta_s")))
    return strcpy (text, "-");
  return output_age (output_json_number (rebuild, "eta_s") * 1000, text);
}

const char *
rebuild_text (const json_t *rebuild, char text[REBUILD_TEXT_BYTES])
{
  char done[SIZE_TEXT_BYTES], total[SIZE_TEXT_BYTES], eta[AGE_TEXT_BYTES];
  uint64_t all = output_json_number (rebuild, "total_bytes");
  uint64_t todo = output_json_number (rebuild, "todo_bytes");
  uint64_t unreadable = output_json_number (rebuild, "unreadable_bytes");
  int n = permille (rebuild);

  /* At its beginning a rebuild does not know yet how much there is to do. */
  if (all == 0)
    snprintf (text, REBUILD_TEXT_BYTES, "%s",
              output_json_text (rebuild, "phase"));
  else
    snprintf (text, REBUILD_TEXT_BYTES, "%s of %s (%d.%d %%)",
              output_size (todo < all ? all - todo : 0, done),
              output_size (all, total), n / 10, n % 10);
  if (output_json_number (rebuild, "rate"))
    output_text_add (text, REBUILD_TEXT_BYTES, ", %s",
                     output_rate (output_json_number (rebuild, "rate"), done));
  if (json_is_integer (json_object_get (rebuild, "eta_s")))
    output_text_add (text, REBUILD_TEXT_BYTES, ", %s left",
                     eta_text (rebuild, eta));
  if (unreadable)
    output_text_add (text, REBUILD_TEXT_BYTES, ", %s UNREADABLE at the sources",
                     output_size (unreadable, done));
  if (output_json_has (rebuild, "waits"))
    output_text_add (text, REBUILD_TEXT_BYTES, "; waits for %s",
                     output_json_text (rebuild, "waits"));
  return text;
}

static void
rebuild_row (struct table *t, const json_t *rebuild)
{
  const json_t *list = json_object_get (rebuild, "sources");
  char eta[AGE_TEXT_BYTES], sources[400] = "";
  int n = permille (rebuild);
  json_t *m;
  size_t i;

  output_table_cell (t, "%d.%d %%", n / 10, n % 10);
  output_table_cells (t, rebuild, "todo_bytes:size|total_bytes:size|rate:rate");
  output_table_cell (t, "%s", eta_text (rebuild, eta));
  json_array_foreach (list, i, m)
    output_text_add (sources, sizeof sources, "%s%" JSON_INTEGER_FORMAT,
                     i ? "," : "", json_integer_value (m));
  output_table_cell (t, "%s", *sources ? sources : "-");
  output_table_cells (t, rebuild, "waits");
}

int
cmd_rebuild_ls (struct ctl *ctl, const struct args *args)
{
  return ctl_ls (ctl, "/api/v1/rebuilds", "rebuilds",
                 "ARRAY|>MEMBER|PHASE|>DONE|>TO DO|>OF|>RATE|>ETA|SOURCES|"
                 "WAITS FOR",
                 "array|member:number|phase", rebuild_row);
}

/* --- Steering it --------------------------------------------------------- */

/* Ask weftd something of the member that the first two words name, and print
 * `said` of it.  The body is taken over.
 */
static int
steer (struct ctl *ctl, const struct args *args, const char *method,
       const char *verb, json_t *body, const char *said, bool ask)
{
  const char *name = args_plain (args, 0);
  char path[CTL_PATH_BYTES];
  unsigned member = 0;
  json_t *array = NULL;
  int r = ctl_member_path (args, verb, &member, path);

  if (r == EXIT_OK)
    r = (ask ? ctl_change : ctl_call) (ctl, method, path, body, &array);
  else
    json_decref (body);
  return ctl_say (ctl, r, array, "array %s, member %u: %s", name, member, said);
}

static int
set_paused (struct ctl *ctl, const struct args *args, bool paused)
{
  return steer (ctl, args, "PATCH", "", json_pack ("{s:b}", "paused", paused),
                paused ? "its rebuild is paused" : "its rebuild goes on",
                false);
}

int
cmd_rebuild_pause (struct ctl *ctl, const struct args *args)
{
  return set_paused (ctl, args, true);
}

int
cmd_rebuild_resume (struct ctl *ctl, const struct args *args)
{
  return set_paused (ctl, args, false);
}

int
cmd_rebuild_cancel (struct ctl *ctl, const struct args *args)
{
  return steer (ctl, args, "POST", "/cancel", NULL,
                "it is out, and stays so until weftctl rebuild join", true);
}

int
cmd_rebuild_join (struct ctl *ctl, const struct args *args)
{
  return steer (ctl, args, "POST", "/join", NULL,
                "it is taken back as soon as it can be", false);
}

static int
add_rate (const struct args *args, const char *option, json_t *body)
{
  const char *text = args_value (args, option);
  uint64_t bytes;

  if (text == NULL)
    return EXIT_OK;
  if (ctl_parse_size (text, &bytes) == -1 || bytes > INT64_MAX) {
    ctl_error ("--%s %s: no size; write 10M for 10 MiB a second, or 0 to leave "
               "it to weftd",
               option, text);
    return EXIT_USAGE;
  }
  json_object_set_new (body, option, json_integer ((json_int_t) bytes));
  return EXIT_OK;
}

int
cmd_rebuild_rate (struct ctl *ctl, const struct args *args)
{
  json_t *body = json_object ();
  int r = add_rate (args, "floor", body);

  if (r == EXIT_OK)
    r = add_rate (args, "ceiling", body);
  if (r == EXIT_OK && json_object_size (body) == 0) {
    ctl_error ("rebuild rate: give --floor SIZE, --ceiling SIZE or both, in "
               "bytes a second (0: left to weftd)");
    r = EXIT_USAGE;
  }
  if (r == EXIT_OK)
    return steer (ctl, args, "PATCH", "", body,
                  "the rate of its rebuild is set", false);
  json_decref (body);
  return r;
}

/* --- wait ---------------------------------------------------------------- */

static int
look (struct wait *w, const json_t *array, bool *done)
{
  const json_t *member = json_array_get (json_object_get (array, "members"),
                                         w->member);
  const json_t *rebuild = json_object_get (member, "rebuild");
  char about[300];

  if (member == NULL) {
    ctl_error ("array %s: it has no member %u, only 0 to %zu", w->name,
               w->member,
               json_array_size (json_object_get (array, "members")) - 1);
    return EXIT_USAGE;
  }
  *done = strcmp (output_json_text (member, "state"), "in-sync") == 0 &&
          !output_json_has (member, "next_disk");
  if (*done)
    return EXIT_OK;
  if (output_json_yes (member, "held")) {
    ctl_error ("array %s, member %u: its rebuild was cancelled, and it stays "
               "out; weftctl rebuild join %s %u takes it back",
               w->name, w->member, w->name, w->member);
    return EXIT_FAILED;
  }
  if (json_is_object (rebuild))
    rebuild_text (rebuild, w->now);
  else
    snprintf (w->now, sizeof w->now, "%s, %s",
              output_json_text (member, "state"),
              output_json_text (member, "reason"));
  snprintf (about, sizeof about, "%s %s", output_json_text (rebuild, "phase"),
            output_json_text (rebuild, "waits"));
  progress_show (&w->progress, w->subject, permille (rebuild), about, w->now);
  return EXIT_OK;
}

int
cmd_rebuild_wait (struct ctl *ctl, const struct args *args)
{
  char path[CTL_PATH_BYTES];
  struct wait w;
  int r;

  wait_init (ctl, &w, false);
  w.name = args_plain (args, 0);
  w.what = "in-sync";
  w.look = look;
  r = ctl_member_path (args, "", &w.member, path);
  if (r != EXIT_OK)
    return r;
  snprintf (w.subject, sizeof w.subject, "array %s, member %u", w.name,
            w.member);
  ctl_path ("an array", w.name, "", path);
  return wait_and_say (ctl, &w, path);
}
