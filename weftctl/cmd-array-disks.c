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
ctl_member_path (const struct args *args, const char *verb, unsigned *member,
                 char path[CTL_PATH_BYTES])
{
  const char *name = args_plain (args, 0), *text = args_plain (args, 1);
  char more[64];
  uint64_t m;
  int r = ctl_check_name ("an array", name);

  if (r != EXIT_OK)
    return r;
  if (ctl_parse_size (text, &m) == -1 || m >= ARRAY_MEMBERS_MAX) {
    ctl_error ("%s: no member; give its position in the array, 0 to %d "
               "(weftctl array show %s has them)",
               text, ARRAY_MEMBERS_MAX - 1, name);
    return EXIT_USAGE;
  }
  *member = (unsigned) m;
  snprintf (more, sizeof more, "/members/%u%s", *member, verb);
  return ctl_path ("an array", name, more, path);
}

int
cmd_array_replace (struct ctl *ctl, const struct args *args)
{
  const char *name = args_plain (args, 0);
  char path[CTL_PATH_BYTES], uuid[FORMAT_UUID_TEXT_BYTES];
  json_t *request, *array = NULL;
  unsigned member;
  bool moves;
  int r = ctl_member_path (args, "/replace", &member, path);

  if (r == EXIT_OK)
    r = ctl_find_disk (ctl, args_plain (args, 2), uuid);
  if (r != EXIT_OK)
    return r;
  request = json_pack ("{s:s}", "disk", uuid);
  if (args_switch (args, "force"))
    json_object_set_new (request, "force", json_true ());
  r = ctl_change (ctl, "POST", path, request, &array);
  moves = output_json_has (
    json_array_get (json_object_get (array, "members"), member), "next_disk");
  return ctl_say (
    ctl, r, array,
    "array %s: disk %s %s member %u%s; weftctl rebuild wait %s %u "
    "waits for it",
    name, uuid, moves ? "is to be" : "is", member,
    moves ? ", which moves to it" : " now, and is rebuilt", name, member);
}

int
cmd_array_spare (struct ctl *ctl, const struct args *args)
{
  const char *verb = args_plain (args, 0), *name = args_plain (args, 1);
  bool add = strcmp (verb, "add") == 0;
  char path[CTL_PATH_BYTES], more[64] = "/spares", uuid[FORMAT_UUID_TEXT_BYTES];
  json_t *array;
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
  if (!add)
    output_text_add (more, sizeof more, "/%s", uuid);
  ctl_path ("an array", name, more, path);
  r = ctl_call (ctl, add ? "POST" : "DELETE", path,
                add ? json_pack ("{s:s}", "disk", uuid) : NULL, &array);
  return ctl_say (ctl, r, array, "array %s: disk %s is %s", name, uuid,
                  add ? "a spare of it" : "no spare of it any more");
}

/* "" where it was not set. */
static const char *
spare_after_words (uint64_t seconds, char *text, size_t size)
{
  if (seconds == UINT64_MAX)
    text[0] = '\0';
  else if (seconds == 0)
    snprintf (text, size, "no spare takes a member's place by itself");
  else
    snprintf (text, size,
              "a spare takes the place of a member that has been out for "
              "%" PRIu64 " s",
              seconds);
  return text;
}

static const char *
slow_out_words (uint64_t seconds, char *text, size_t size)
{
  if (seconds == UINT64_MAX)
    text[0] = '\0';
  else if (seconds == 0)
    snprintf (text, size, "no member goes out because it is slow");
  else
    snprintf (text, size,
              "a member that has been far slower than its peers for %" PRIu64
              " s goes out, unless it has a last copy",
              seconds);
  return text;
}

int
cmd_array_set (struct ctl *ctl, const struct args *args)
{
  const char *name = args_plain (args, 0);
  uint64_t spare = UINT64_MAX, slow = UINT64_MAX;
  json_t *array = NULL, *body = json_object ();
  char path[CTL_PATH_BYTES], spares[120], slows[160];
  int r = ctl_path ("an array", name, "", path);

  if (r == EXIT_OK)
    r = args_number (args, "spare-after", 0, SPARE_AFTER_MS_MAX / 1000, &spare);
  if (r == EXIT_OK)
    r = args_number (args, "slow-out", 0, SPARE_AFTER_MS_MAX / 1000, &slow);
  if (r == EXIT_OK && spare == UINT64_MAX && slow == UINT64_MAX) {
    ctl_error ("array set %s: give --spare-after or --slow-out SECONDS (0: "
               "never)",
               name);
    r = EXIT_USAGE;
  }
  if (r != EXIT_OK) {
    json_decref (body);
    return r;
  }
  if (spare != UINT64_MAX)
    json_object_set_new (body, "spare_after_s", json_integer (spare));
  if (slow != UINT64_MAX)
    json_object_set_new (body, "slow_out_s", json_integer (slow));
  r = ctl_call (ctl, "PATCH", path, body, &array);
  return ctl_say (ctl, r, array, "array %s: %s%s%s", name,
                  spare_after_words (spare, spares, sizeof spares),
                  spare != UINT64_MAX && slow != UINT64_MAX ? "; " : "",
                  slow_out_words (slow, slows, sizeof slows));
}

/* --- import -------------------------------------------------------------- */

static void
print_candidates (const json_t *reply)
{
  const json_t *imports = json_object_get (reply, "imports");
  json_t *import, *m;
  size_t i, k;

  if (json_array_size (imports) == 0)
    printf ("nothing to import: no disk of another cluster has asked this "
            "weftd for its place\n");
  json_array_foreach (imports, i, import) {
    printf (
      "array %s: %s, %" PRIu64 " members in %" PRIu64 " group%s",
      output_json_text (import, "array"), output_json_text (import, "layout"),
      output_json_number (import, "n") * output_json_number (import, "groups"),
      output_json_number (import, "groups"),
      output_json_number (import, "groups") == 1 ? "" : "s");
    json_array_foreach (json_object_get (import, "missing"), k, m)
      printf ("%s %" JSON_INTEGER_FORMAT,
              k ? "" : ", not heard of:", json_integer_value (m));
    printf ("\n");
    output_table_of (
      json_object_get (import, "members"),
      ">POS|!STATE|>EPOCH|>ROUND|NODE|PATH|DISK",
      "position:number|state|states_epoch:number|round:number|node|path|"
      "disk",
      NULL, 2);
    json_array_foreach (json_object_get (import, "doubts"), k, m)
      printf ("  %s\n", output_json_shown (m));
  }
}

int
cmd_array_import (struct ctl *ctl, const struct args *args)
{
  const char *name = args_plain (args, 0), *uuid = args_plain (args, 1);
  bool accept = args_switch (args, "accept-loss");
  json_t *without, *body, *reply = NULL;
  uint64_t member = 0;
  int r;

  if (name == NULL) {
    r = ctl_call (ctl, "GET", "/api/v1/imports", NULL, &reply);
    return ctl_show (ctl, r, reply, print_candidates);
  }
  if (uuid == NULL) {
    ctl_error ("array import %s: give the UUID of the array, too; weftctl "
               "array import shows what there is",
               name);
    return EXIT_USAGE;
  }
  without = json_array ();
  r = ctl_check_name ("an array", name);
  for (size_t i = 0; i < args->count && r == EXIT_OK; i++) {
    struct args just = { &args->arg[i], 1 };

    if (!args_switch (&just, "without"))
      continue;
    r = args_number (&just, "without", 0, ARRAY_MEMBERS_MAX - 1, &member);
    json_array_append_new (without, json_integer ((json_int_t) member));
  }
  body = json_pack ("{s:s, s:s, s:o, s:b}", "name", name, "array", uuid,
                    "without", without, "accept_loss", accept);
  if (r != EXIT_OK)
    json_decref (body);
  else if (accept ||
           ctl->dry_run) /* possible losses are shown, with a question */
    r = ctl_change (ctl, "POST", "/api/v1/imports", body, &reply);
  else
    r = ctl_call (ctl, "POST", "/api/v1/imports", body, &reply);
  if (ctl->dry_run)
    return r;
  return ctl_say (ctl, r, reply,
                  "array %s is imported; weftctl array show %s says how it is",
                  name, name);
}
