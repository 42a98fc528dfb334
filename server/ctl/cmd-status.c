/* cmd-status.c: weftctl status, the whole on one page. */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctl.h"
#include "output.h"

/* One line for each member that is not as it should be. */
static void
print_troubles (const json_t *array)
{
  const char *name = json_text (array, "name");
  json_t *m;
  size_t i;

  if (json_is_string (json_object_get (array, "waits_for")))
    printf ("  array %s waits for %s\n", name, json_text (array, "waits_for"));
  json_array_foreach (json_object_get (array, "members"), i, m) {
    const char *state = json_text (m, "state");
    bool silent = json_is_false (json_object_get (m, "alive"));
    const json_t *rebuild = json_object_get (m, "rebuild");
    bool out = strcmp (state, "in-sync") != 0;
    char text[REBUILD_TEXT_BYTES];

    if (!silent && !out)
      continue;
    if (!out)
      state = "silent";
    printf ("  array %s, member %" PRIu64 " (%s:%s): %s%s%s%s%s\n", name,
            json_number (m, "position"), json_text (m, "node"),
            json_text (m, "path"), color_start (state), state,
            color_end (state),
            json_is_string (json_object_get (m, "reason")) ? ": " : "",
            json_is_string (json_object_get (m, "reason"))
                ? json_text (m, "reason") : "");
    if (json_is_object (rebuild))
      printf ("    rebuild: %s\n", rebuild_text (rebuild, text));
    if (json_is_string (json_object_get (m, "spare_at")))
      printf ("    a spare takes its place at %s\n", json_text (m, "spare_at"));
  }
}

static void
print_arrays (const json_t *status)
{
  struct table *t;
  json_t *a;
  size_t i;

  if (json_array_size (json_object_get (status, "arrays")) == 0) {
    printf ("\nno arrays yet; make one by: weftctl array create\n");
    return;
  }
  printf ("\n");
  t = table_new ("ARRAY|!STATE|LAYOUT|>MEMBERS|>SIZE|ATTACHED BY");
  json_array_foreach (json_object_get (status, "arrays"), i, a) {
    const json_t *s = json_object_get (a, "session");
    char size[SIZE_TEXT_BYTES];

    table_cell (t, "%s", json_text (a, "name"));
    table_cell (t, "%s", json_text (a, "state"));
    table_cell (t, "%s", json_text (a, "layout"));
    table_cell (t, "%zu", json_array_size (json_object_get (a, "members")));
    table_cell (t, "%s", size_text (json_number (a, "size"), size));
    table_cell (t, "%s", json_is_object (s) ? json_text (s, "node") : "-");
  }
  table_print (t, 0);
  json_array_foreach (json_object_get (status, "arrays"), i, a)
    print_troubles (a);
}

int
cmd_status (struct ctl *ctl, const struct args *args)
{
  json_t *s;
  const char *health;
  int r = ctl_call (ctl, "GET", "/api/v1/status", NULL, &s);

  if (r != EXIT_OK)
    return r;
  if (ctl->json) {
    output_json (s);
    json_decref (s);
    return EXIT_OK;
  }
  health = json_text (s, "health");
  printf ("%s%s%s: %s\n", color_start (health), health, color_end (health),
          json_text (s, "verdict"));
  printf ("weftd %s at %s, cluster %s\n", json_text (s, "version"),
          ctl->admin_url, json_text (s, "cluster"));
  print_arrays (s);
  json_decref (s);
  return EXIT_OK;
}
