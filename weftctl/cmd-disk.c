/* cmd-disk.c: weftctl disk.
 *
 * `format` and `probe` work on this host's disks alone and need no weftd; `ls`,
 * `forget` and `move` are about what weftd knows.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "common/disk.h"
#include "output.h"

#define DISKS "/api/v1/disks"
#define DISK_PATH_BYTES 128
#define UUID_PREFIX_MIN 4

/* --- format -------------------------------------------------------------- */

/* May all of them be formatted?  Looked at before the first one is touched. */
static int
check_paths (const struct args *args, bool force)
{
  const char *path, *other;

  for (unsigned i = 0; (path = args_plain (args, i)) != NULL; i++) {
    struct disk_content content;
    char why[512];

    for (unsigned k = 0; k < i; k++)
      if ((other = args_plain (args, k)) && strcmp (other, path) == 0) {
        ctl_error ("%s: named twice; nothing was formatted", path);
        return EXIT_USAGE;
      }
    if (disk_probe (path, &content, why, sizeof why) == -1) {
      ctl_error ("%s; nothing was formatted", why);
      return EXIT_FAILED;
    }
    if (content.kind != DISK_BLANK && !force) {
      ctl_error ("%s: holds %s; nothing was formatted; if it may be lost, add "
                 "--force",
                 path, content.text);
      return EXIT_FAILED;
    }
  }
  return EXIT_OK;
}

static json_t *
formatted_json (const char *path, const struct disk_formatted *f)
{
  char uuid[FORMAT_UUID_TEXT_BYTES];

  format_uuid (f->sb.disk, uuid);
  return json_pack ("{s:s, s:s, s:I, s:I, s:I, s:b, s:s?}", "path", path,
                    "uuid", uuid, "size", (json_int_t) f->size, "data_bytes",
                    (json_int_t) f->sb.data_bytes, "unused_bytes",
                    (json_int_t) f->unused_bytes, "dirty", f->dirty, "replaced",
                    f->replaced.kind == DISK_BLANK ? NULL : f->replaced.text);
}

static void
print_formatted (const json_t *disk)
{
  char size[SIZE_TEXT_BYTES];
  const char *replaced = json_text (disk, "replaced");

  printf ("%s: formatted, %s for data, disk %s%s%s\n", json_text (disk, "path"),
          size_text (json_number (disk, "data_bytes"), size),
          json_text (disk, "uuid"), strcmp (replaced, "-") ? "; it held " : "",
          strcmp (replaced, "-") ? replaced : "");
}

int
cmd_disk_format (struct ctl *ctl, const struct args *args)
{
  bool force = args_switch (args, "force");
  json_t *disks = json_array (), *all;
  const char *path;
  int r = check_paths (args, force);

  for (unsigned i = 0; r == EXIT_OK && (path = args_plain (args, i)) != NULL;
       i++) {
    struct disk_formatted f;
    json_t *disk;
    char why[512];

    if (disk_format (path, force, &f, why, sizeof why) == -1) {
      ctl_error ("%s", why);
      r = EXIT_FAILED;
      break;
    }
    disk = formatted_json (path, &f);
    if (!ctl->json)
      print_formatted (disk);
    json_array_append_new (disks, disk);
  }
  /* Also after a failure: which ones are formatted is worth knowing then. */
  if (ctl->json && (r == EXIT_OK || json_array_size (disks) > 0)) {
    all = json_pack ("{s:O}", "disks", disks);
    output_json (all);
    json_decref (all);
  }
  json_decref (disks);
  return r;
}

/* --- probe --------------------------------------------------------------- */

static json_t *
probed_json (const char *path, const struct disk_content *content)
{
  static const char *const kinds[] = { [DISK_BLANK] = "blank",
                                       [DISK_WEFT] = "weft",
                                       [DISK_DAMAGED] = "damaged",
                                       [DISK_FOREIGN] = "foreign" };
  static const uint8_t none[16];
  char disk[FORMAT_UUID_TEXT_BYTES], array[FORMAT_UUID_TEXT_BYTES];
  bool weft = content->kind == DISK_WEFT;

  format_uuid (content->sb.disk, disk);
  format_uuid (content->sb.array, array);
  return json_pack (
    "{s:s, s:s, s:s, s:I, s:s?, s:s?}", "path", path, "kind",
    kinds[content->kind], "text", content->text, "size",
    (json_int_t) content->size, "uuid", weft ? disk : NULL, "array",
    weft && memcmp (content->sb.array, none, sizeof none) != 0 ? array : NULL);
}

int
cmd_disk_probe (struct ctl *ctl, const struct args *args)
{
  json_t *all = json_pack ("{s:[]}", "disks"), *d;
  struct table *t;
  const char *path;
  size_t i;

  for (unsigned k = 0; (path = args_plain (args, k)) != NULL; k++) {
    struct disk_content content;
    char why[512];

    memset (&content, 0, sizeof content);
    if (disk_probe (path, &content, why, sizeof why) == -1) {
      ctl_error ("%s", why);
      json_decref (all);
      return EXIT_FAILED;
    }
    json_array_append_new (json_object_get (all, "disks"),
                           probed_json (path, &content));
  }
  if (ctl->json)
    output_json (all);
  else {
    t = table_new ("PATH|>SIZE|HOLDS");
    json_array_foreach (json_object_get (all, "disks"), i, d) {
      char size[SIZE_TEXT_BYTES];

      table_cell (t, "%s", json_text (d, "path"));
      table_cell (t, "%s", size_text (json_number (d, "size"), size));
      table_cell (t, "%s",
                  strcmp (json_text (d, "kind"), "blank") == 0
                    ? "nothing"
                    : json_text (d, "text"));
    }
    table_print (t, 0);
  }
  json_decref (all);
  return EXIT_OK;
}

/* --- ls ------------------------------------------------------------------ */

int
cmd_disk_ls (struct ctl *ctl, const struct args *args)
{
  json_t *reply, *d;
  struct table *t;
  size_t i;
  int r;

  if (!ctl_list (ctl, DISKS, &reply, &r))
    return r;
  t = table_new ("DISK|NODE|PATH|>DATA|!STATE|ARRAY|>POS|>HEARD|REASON");
  json_array_foreach (json_object_get (reply, "disks"), i, d) {
    bool alive = json_is_true (json_object_get (d, "alive"));
    bool member = json_is_string (json_object_get (d, "array"));
    bool spare = json_is_string (json_object_get (d, "spare_of"));
    char size[SIZE_TEXT_BYTES], age[AGE_TEXT_BYTES];

    table_cell (t, "%s", json_text (d, "uuid"));
    table_cell (t, "%s", json_text (d, "node"));
    table_cell (t, "%s", json_text (d, "path"));
    table_cell (t, "%s", size_text (json_number (d, "data_bytes"), size));
    table_cell (t, "%s", alive ? json_text (d, "state") : "silent");
    table_cell (t, "%s", json_text (d, member ? "array" : "spare_of"));
    if (member)
      table_cell (t, "%" PRIu64, json_number (d, "position"));
    else
      table_cell (t, "%s", spare ? "spare" : "-");
    table_cell (t, "%s", age_text (json_number (d, "last_heard_ms"), age));
    table_cell (t, "%s", json_text (d, "reason"));
  }
  table_print (t, 0);
  json_decref (reply);
  return EXIT_OK;
}

/* --- Naming a disk ------------------------------------------------------- */

/* Does `text` mean this disk?  2: it is its whole name, so no other can be
 * meant; 1: it may be.
 */
static int
disk_matches (const json_t *disk, const char *text)
{
  const char *uuid = json_text (disk, "uuid");
  const char *node = json_text (disk, "node");
  const char *path = json_text (disk, "path");
  size_t n = strlen (text);

  if (strcasecmp (uuid, text) == 0)
    return 2;
  if (n >= UUID_PREFIX_MIN && strncasecmp (uuid, text, n) == 0)
    return 1;
  if (text[0] == '/')
    return strcmp (path, text) == 0;
  return strncmp (text, node, strlen (node)) == 0 &&
         text[strlen (node)] == ':' &&
         strcmp (text + strlen (node) + 1, path) == 0;
}

int
disk_resolve (const json_t *disks, const char *text, const char **uuid)
{
  const json_t *found[2] = { NULL, NULL };
  json_t *d;
  size_t i;

  json_array_foreach (disks, i, d) {
    int match = disk_matches (d, text);

    if (match == 2) {
      *uuid = json_text (d, "uuid");
      return EXIT_OK;
    }
    if (match)
      found[found[0] != NULL] = d;
  }
  if (found[1]) {
    ctl_error ("%s: means more than one disk: %s (%s:%s) and %s (%s:%s); give "
               "more of the UUID, or NODE:PATH",
               text, json_text (found[0], "uuid"), json_text (found[0], "node"),
               json_text (found[0], "path"), json_text (found[1], "uuid"),
               json_text (found[1], "node"), json_text (found[1], "path"));
    return EXIT_USAGE;
  }
  if (found[0] == NULL) {
    ctl_error ("%s: weftd knows no such disk; weftctl disk ls shows those it "
               "knows; a disk appears once nbdkit weft disk=PATH serves it",
               text);
    return EXIT_REFUSED;
  }
  *uuid = json_text (found[0], "uuid");
  return EXIT_OK;
}

/* The disk that `text` means: its UUID, and its place at weftd. */
static int
find (struct ctl *ctl, const char *text, char uuid[FORMAT_UUID_TEXT_BYTES],
      char path[DISK_PATH_BYTES])
{
  const char *found;
  uint8_t bytes[16];
  json_t *reply;
  int r = ctl_call (ctl, "GET", DISKS, NULL, &reply);

  if (r != EXIT_OK)
    return r;
  r = disk_resolve (json_object_get (reply, "disks"), text, &found);
  /* What weftd says becomes part of a URL only if it is a UUID. */
  if (r == EXIT_OK && format_uuid_parse (found, bytes) == -1) {
    ctl_error ("%s: weftd gives its UUID as %s, which is none", text, found);
    r = EXIT_FAILED;
  }
  if (r == EXIT_OK) {
    snprintf (uuid, FORMAT_UUID_TEXT_BYTES, "%s", found);
    snprintf (path, DISK_PATH_BYTES, DISKS "/%s", found);
  }
  json_decref (reply);
  return r;
}

int
cmd_disk_forget (struct ctl *ctl, const struct args *args)
{
  char uuid[FORMAT_UUID_TEXT_BYTES], path[DISK_PATH_BYTES];
  json_t *done;
  int r = find (ctl, args_plain (args, 0), uuid, path);

  if (r == EXIT_OK)
    r = ctl_change (ctl, "DELETE", path, NULL, NULL);
  if (ctl->dry_run)
    ;
  else if (r == EXIT_OK && ctl->json) {
    done = json_pack ("{s:s, s:b}", "uuid", uuid, "deleted", 1);
    output_json (done);
    json_decref (done);
  }
  else if (r == EXIT_OK)
    printf ("disk %s: forgotten\n", uuid);
  return r;
}

int
cmd_disk_move (struct ctl *ctl, const struct args *args)
{
  char uuid[FORMAT_UUID_TEXT_BYTES], path[DISK_PATH_BYTES];
  const char *node = args_plain (args, 1);
  json_t *body, *disk = NULL;
  int r = ctl_check_name ("a node", node);

  if (r == EXIT_OK)
    r = find (ctl, args_plain (args, 0), uuid, path);
  if (r != EXIT_OK)
    return r;
  body = json_pack ("{s:s}", "node", node);
  r = ctl_call (ctl, "PATCH", path, body, &disk);
  json_decref (body);
  if (r != EXIT_OK)
    return r;
  if (ctl->json)
    output_json (disk);
  else if (json_is_string (json_object_get (disk, "moves_to")))
    printf ("disk %s: node %s may serve it; start its member process there\n",
            uuid, node);
  else
    printf ("disk %s: stays on node %s\n", uuid, node);
  json_decref (disk);
  return EXIT_OK;
}
