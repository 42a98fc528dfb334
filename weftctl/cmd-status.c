/* cmd-status.c: weftctl status, the whole on one page. */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/admin.h"
#include "common/strike.h"
#include "ctl.h"
#include "output.h"

/* One line for each member that is not as it should be. */
static void
print_troubles (const json_t *array)
{
  const char *name = output_json_text (array, "name");
  json_t *m;
  size_t i;

  if (output_json_has (array, "waits_for"))
    printf ("  array %s waits for %s\n", name,
            output_json_text (array, "waits_for"));
  json_array_foreach (json_object_get (array, "members"), i, m) {
    const char *state = output_json_text (m, "state");
    bool silent = json_is_false (json_object_get (m, "alive"));
    const json_t *rebuild = json_object_get (m, "rebuild");
    bool out = strcmp (state, "in-sync") != 0;
    char text[REBUILD_TEXT_BYTES];

    if (!silent && !out)
      continue;
    if (!out)
      state = "silent";
    printf ("  array %s, member %" PRIu64 " (%s:%s): %s%s%s%s%s\n", name,
            output_json_number (m, "position"), output_json_text (m, "node"),
            output_json_text (m, "path"), output_color_start (state), state,
            output_color_end (state), output_json_has (m, "reason") ? ": " : "",
            output_json_has (m, "reason") ? output_json_text (m, "reason")
                                          : "");
    if (json_is_object (rebuild))
      printf ("    rebuild: %s\n", rebuild_text (rebuild, text));
    if (output_json_yes (m, "paused"))
      printf ("    paused: weftctl rebuild resume %s %" PRIu64 " lets its "
              "rebuild go on\n",
              name, output_json_number (m, "position"));
    if (output_json_has (m, "spare_at"))
      printf ("    a spare takes its place at %s\n",
              output_json_text (m, "spare_at"));
  }
}

/* --- For monitoring ------------------------------------------------------ */

/* The exit statuses and first words of monitoring plugins. */
static const struct {
  const char *health, *word;
} checks[] = {
  { "ok", "OK" },
  { "warning", "WARNING" },
  { "error", "CRITICAL" },
  { NULL, "UNKNOWN" },
};
#define CHECK_UNKNOWN 3

static void
print_check (unsigned check, const char *text)
{
  char *clean = strdup (text ? text : "out of memory");

  if (clean) {
    strike_controls (clean);
    for (char *p = clean; (p = strchr (p, '|')) != NULL;) /* ends the text */
      *p = '/';
    printf ("WEFT %s - %s", checks[check].word, clean);
  }
  free (clean);
}

/* Behind the text, what can be drawn as curves. */
static void
print_perfdata (const json_t *status)
{
  uint64_t arrays = 0, members = 0, out = 0, silent = 0, rebuilds = 0;
  uint64_t exposed = 0, lost = 0;
  json_t *a, *m;
  size_t i, k;

  json_array_foreach (json_object_get (status, "arrays"), i, a) {
    arrays++;
    exposed += output_json_number (a, "exposed_bytes");
    lost += output_json_number (a, "lost_bytes");
    json_array_foreach (json_object_get (a, "members"), k, m) {
      members++;
      out += strcmp (output_json_text (m, "state"), "in-sync") != 0;
      silent += json_is_false (json_object_get (m, "alive"));
      rebuilds += json_is_object (json_object_get (m, "rebuild"));
    }
  }
  printf (" | arrays=%" PRIu64 " members=%" PRIu64 " not_in_sync=%" PRIu64
          " silent=%" PRIu64 " rebuilds=%" PRIu64 " exposed=%" PRIu64
          "B lost=%" PRIu64 "B\n",
          arrays, members, out, silent, rebuilds, exposed, lost);
}

static int
check_status (struct ctl *ctl)
{
  const char *health;
  unsigned check = 0;
  json_t *s;
  int r = ctl_try (ctl, "GET", "/api/v1/status", NULL, &s);

  if (r != EXIT_OK) {
    print_check (CHECK_UNKNOWN, ctl->admin ? admin_error (ctl->admin)
                                           : "weftd can't be asked");
    putchar ('\n');
    return CHECK_UNKNOWN;
  }
  health = output_json_text (s, "health");
  while (checks[check].health && strcmp (checks[check].health, health) != 0)
    check++;
  print_check (check, output_json_text (s, "verdict"));
  print_perfdata (s);
  json_decref (s);
  return (int) check;
}

int
cmd_status (struct ctl *ctl, const struct args *args)
{
  const json_t *arrays;
  const char *health;
  json_t *s, *a;
  size_t i;
  int r;

  if (args_switch (args, "check"))
    return check_status (ctl);
  if (!ctl_list (ctl, "/api/v1/status", &s, &r))
    return r;
  health = output_json_text (s, "health");
  printf ("%s%s%s: %s\n", output_color_start (health), health,
          output_color_end (health), output_json_text (s, "verdict"));
  printf ("weftd %s at %s, cluster %s\n\n", output_json_text (s, "version"),
          ctl->admin_url, output_json_text (s, "cluster"));
  arrays = json_object_get (s, "arrays");
  if (json_array_size (arrays) == 0)
    printf ("no arrays yet; make one by: weftctl array create\n");
  else
    output_table_of (
      arrays, "ARRAY|!STATE|LAYOUT|>MEMBERS|>SIZE|ATTACHED BY",
      "name|state|layout|members:count|size:size|sessions:writers", NULL, 0);
  json_array_foreach (arrays, i, a)
    print_troubles (a);
  json_decref (s);
  return EXIT_OK;
}
