/* cmd-array-disks.c: weftctl array replace, spare, set and import: which disks
 * an array has, and may take.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "output.h"

int
ctl_member_path (const struct args *args, const char *more, unsigned *member,
                 char *path, size_t size)
{
  const char *name = args_plain (args, 0), *text = args_plain (args, 1);
  uint64_t m;
  int r = ctl_check_name ("an array", name);

  if (r != EXIT_OK)
    return r;
  if (size_parse (text, &m) == -1 || m >= ARRAY_MEMBERS_MAX) {
    ctl_error ("%s: no member; give its position in the array, 0 to %d "
               "(weftctl array show %s has them)",
               text, ARRAY_MEMBERS_MAX - 1, name);
    return EXIT_USAGE;
  }
  *member = (unsigned) m;
  snprintf (path, size, "/api/v1/arrays/%s/members/%u%s", name, *member, more);
  return EXIT_OK;
}

int
ctl_find_disk (struct ctl *ctl, const char *text, char uuid[37])
{
  const char *found;
  json_t *reply;
  int r = ctl_call (ctl, "GET", "/api/v1/disks", NULL, &reply);

  if (r != EXIT_OK)
    return r;
  r = disk_resolve (json_object_get (reply, "disks"), text, &found);
  if (r == EXIT_OK)
    snprintf (uuid, 37, "%s", found);
  json_decref (reply);
  return r;
}

/* Call weftd with {"disk": uuid}, or no body; says `said`. */
static int
call (struct ctl *ctl, const char *method, const char *path, const char *disk,
      const char *said, bool ask)
{
  json_t *body = disk ? json_pack ("{s:s}", "disk", disk) : NULL, *array;
  int r = (ask ? ctl_change : ctl_call) (ctl, method, path, body, &array);

  json_decref (body);
  if (r != EXIT_OK || ctl->dry_run)
    return r;
  if (ctl->json)
    output_json (array);
  else
    printf ("%s\n", said);
  json_decref (array);
  return EXIT_OK;
}

int
cmd_array_replace (struct ctl *ctl, const struct args *args)
{
  const char *name = args_plain (args, 0);
  char path[160], uuid[37], said[300];
  unsigned member;
  int r = ctl_member_path (args, "/replace", &member, path, sizeof path);

  if (r == EXIT_OK)
    r = ctl_find_disk (ctl, args_plain (args, 2), uuid);
  if (r != EXIT_OK)
    return r;
  snprintf (said, sizeof said,
            "array %s: disk %s is member %u now, and is "
            "rebuilt; weftctl rebuild wait %s %u waits for it",
            name, uuid, member, name, member);
  return call (ctl, "POST", path, uuid, said, true);
}

int
cmd_array_spare (struct ctl *ctl, const struct args *args)
{
  const char *verb = args_plain (args, 0), *name = args_plain (args, 1);
  bool add = strcmp (verb, "add") == 0;
  char path[200], uuid[37], said[300];
  int r;

  if (!add && strcmp (verb, "rm") != 0) {
    ctl_error ("array spare %s: there are array spare add and array spare rm",
               verb);
    return EXIT_USAGE;
  }
  r = ctl_check_name ("an array", name);
  if (r == EXIT_OK)
    r = ctl_find_disk (ctl, args_plain (args, 2), uuid);
  if (r != EXIT_OK)
    return r;
  snprintf (path, sizeof path, "/api/v1/arrays/%s/spares%s%s", name,
            add ? "" : "/", add ? "" : uuid);
  snprintf (said, sizeof said, "array %s: disk %s is %s", name, uuid,
            add ? "a spare of it" : "no spare of it any more");
  return call (ctl, add ? "POST" : "DELETE", path, add ? uuid : NULL, said,
               false);
}

int
cmd_array_set (struct ctl *ctl, const struct args *args)
{
  const char *name = args_plain (args, 0);
  uint64_t seconds = UINT64_MAX;
  json_t *body, *array;
  char path[128];
  int r = ctl_check_name ("an array", name);

  if (r == EXIT_OK)
    r = args_number (args, "spare-after", 0, SPARE_AFTER_MS_MAX / 1000,
                     &seconds);
  if (r != EXIT_OK)
    return r;
  if (seconds == UINT64_MAX) {
    ctl_error ("array set %s: give --spare-after SECONDS (0: never)", name);
    return EXIT_USAGE;
  }
  body = json_pack ("{s:I}", "spare_after_s", (json_int_t) seconds);
  snprintf (path, sizeof path, "/api/v1/arrays/%s", name);
  r = ctl_call (ctl, "PATCH", path, body, &array);
  json_decref (body);
  if (r != EXIT_OK)
    return r;
  if (ctl->json)
    output_json (array);
  else if (seconds == 0)
    printf ("array %s: no spare takes a member's place by itself\n", name);
  else
    printf ("array %s: a spare takes the place of a member that has been out "
            "for %" PRIu64 " s\n",
            name, seconds);
  json_decref (array);
  return EXIT_OK;
}

/* --- import -------------------------------------------------------------- */

static void
print_candidate (const json_t *import)
{
  json_t *m;
  size_t i;
  struct table *t = table_new (">POS|!STATE|NODE|PATH|DISK|>SEQUENCE");

  printf ("array %s: %s, %" PRIu64 " members in %" PRIu64 " group%s",
          json_text (import, "array"), json_text (import, "layout"),
          json_number (import, "n") * json_number (import, "groups"),
          json_number (import, "groups"),
          json_number (import, "groups") == 1 ? "" : "s");
  if (json_array_size (json_object_get (import, "missing"))) {
    printf (", not heard of:");
    json_array_foreach (json_object_get (import, "missing"), i, m)
      printf (" %" JSON_INTEGER_FORMAT, json_integer_value (m));
  }
  printf ("\n");
  json_array_foreach (json_object_get (import, "members"), i, m) {
    table_cell (t, "%" PRIu64, json_number (m, "position"));
    table_cell (t, "%s", json_text (m, "state"));
    table_cell (t, "%s", json_text (m, "node"));
    table_cell (t, "%s", json_text (m, "path"));
    table_cell (t, "%s", json_text (m, "disk"));
    table_cell (t, "%" PRIu64, json_number (m, "sequence"));
  }
  table_print (t, 2);
}

static int
list_candidates (struct ctl *ctl)
{
  json_t *reply, *import;
  size_t i;
  int r = ctl_call (ctl, "GET", "/api/v1/imports", NULL, &reply);

  if (r != EXIT_OK)
    return r;
  if (ctl->json)
    output_json (reply);
  else if (json_array_size (json_object_get (reply, "imports")) == 0)
    printf ("nothing to import: no disk of another cluster has asked this "
            "weftd for its place\n");
  else
    json_array_foreach (json_object_get (reply, "imports"), i, import)
      print_candidate (import);
  json_decref (reply);
  return EXIT_OK;
}

static int
add_without (const struct args *args, json_t *list)
{
  uint64_t m = 0;

  for (size_t i = 0; i < args->count; i++) {
    struct args just = { &args->arg[i], 1 };
    int r;

    if (args->arg[i].name == NULL || strcmp (args->arg[i].name, "without") != 0)
      continue;
    r = args_number (&just, "without", 0, ARRAY_MEMBERS_MAX - 1, &m);
    if (r != EXIT_OK)
      return r;
    json_array_append_new (list, json_integer ((json_int_t) m));
  }
  return EXIT_OK;
}

int
cmd_array_import (struct ctl *ctl, const struct args *args)
{
  const char *name = args_plain (args, 0), *uuid = args_plain (args, 1);
  json_t *body, *without, *array = NULL;
  int r;

  if (name == NULL)
    return list_candidates (ctl);
  if (uuid == NULL) {
    ctl_error ("array import %s: give the UUID of the array, too; weftctl "
               "array import shows what there is",
               name);
    return EXIT_USAGE;
  }
  without = json_array ();
  r = ctl_check_name ("an array", name);
  if (r == EXIT_OK)
    r = add_without (args, without);
  body = json_pack ("{s:s, s:s, s:o}", "name", name, "array", uuid, "without",
                    without);
  if (r == EXIT_OK)
    r = ctl_call (ctl, "POST", "/api/v1/imports", body, &array);
  if (r == EXIT_OK && ctl->json)
    output_json (array);
  else if (r == EXIT_OK)
    printf ("array %s is imported; weftctl array show %s says how it is\n",
            name, name);
  json_decref (array);
  json_decref (body);
  return r;
}
