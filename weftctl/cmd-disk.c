/* cmd-disk.c: weftctl disk.
 *
 * `format` and `probe` work on this host's disks alone and need no weftd; `ls`,
 * `forget`, `move` and `rekey` are about what weftd knows.
 */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "common/disk.h"
#include "output.h"
#include "wait.h"

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

int
cmd_disk_format (struct ctl *ctl, const struct args *args)
{
  bool force = args_switch (args, "force");
  json_t *disks = json_array (), *all;
  const char *path;
  int r = check_paths (args, force);

  for (unsigned i = 0; r == EXIT_OK && (path = args_plain (args, i)) != NULL;
       i++) {
    char why[512], uuid[FORMAT_UUID_TEXT_BYTES], size[SIZE_TEXT_BYTES];
    struct disk_formatted f;
    const char *held;

    if (disk_format (path, force, &f, why, sizeof why) == -1) {
      ctl_error ("%s", why);
      r = EXIT_FAILED;
      break;
    }
    format_uuid (f.sb.disk, uuid);
    held = f.replaced.kind == DISK_BLANK ? NULL : f.replaced.text;
    if (!ctl->json)
      printf ("%s: formatted, %s for data, disk %s%s%s\n", path,
              output_size (f.sb.data_bytes, size), uuid,
              held ? "; it held " : "", held ? held : "");
    json_array_append_new (
      disks, json_pack ("{s:s, s:s, s:I, s:I, s:I, s:b, s:s?}", "path", path,
                        "uuid", uuid, "size", (json_int_t) f.size, "data_bytes",
                        (json_int_t) f.sb.data_bytes, "unused_bytes",
                        (json_int_t) f.unused_bytes, "dirty", f.dirty,
                        "replaced", held));
  }
  /* After a failure it is worth knowing which disks are formatted already. */
  if (ctl->json && (r == EXIT_OK || json_array_size (disks) > 0)) {
    all = json_pack ("{s:O}", "disks", disks);
    output_json (all);
    json_decref (all);
  }
  json_decref (disks);
  return r;
}

/* --- probe --------------------------------------------------------------- */

static void
probed_row (struct table *t, const json_t *disk)
{
  output_table_cell (t, "%s",
                     strcmp (output_json_text (disk, "kind"), "blank") == 0
                       ? "nothing"
                       : output_json_text (disk, "text"));
}

static void
print_probed (const json_t *reply)
{
  output_table_of (json_object_get (reply, "disks"), "PATH|>SIZE|HOLDS",
                   "path|size:size", probed_row, 0);
}

int
cmd_disk_probe (struct ctl *ctl, const struct args *args)
{
  static const char *const kinds[] = { [DISK_BLANK] = "blank",
                                       [DISK_WEFT] = "weft",
                                       [DISK_DAMAGED] = "damaged",
                                       [DISK_FOREIGN] = "foreign" };
  static const uint8_t none[16];
  json_t *all = json_pack ("{s:[]}", "disks");
  const char *path;

  for (unsigned k = 0; (path = args_plain (args, k)) != NULL; k++) {
    char disk[FORMAT_UUID_TEXT_BYTES], array[FORMAT_UUID_TEXT_BYTES];
    struct disk_content content;
    char why[512];
    bool weft;

    memset (&content, 0, sizeof content);
    if (disk_probe (path, &content, why, sizeof why) == -1) {
      ctl_error ("%s", why);
      json_decref (all);
      return EXIT_FAILED;
    }
    weft = content.kind == DISK_WEFT;
    format_uuid (content.sb.disk, disk);
    format_uuid (content.sb.array, array);
    json_array_append_new (
      json_object_get (all, "disks"),
      json_pack ("{s:s, s:s, s:s, s:I, s:s?, s:s?}", "path", path, "kind",
                 kinds[content.kind], "text", content.text, "size",
                 (json_int_t) content.size, "uuid", weft ? disk : NULL, "array",
                 weft && memcmp (content.sb.array, none, sizeof none) != 0
                   ? array
                   : NULL));
  }
  return ctl_show (ctl, EXIT_OK, all, print_probed);
}

/* --- ls ------------------------------------------------------------------ */

static void
disk_row (struct table *t, const json_t *disk)
{
  bool member = output_json_has (disk, "array");

  output_table_cell (t, "%s",
                     output_json_yes (disk, "alive")
                       ? output_json_text (disk, "state")
                       : "silent");
  if (member)
    output_table_cells (t, disk, "array|position:number");
  else {
    output_table_cells (t, disk, "spare_of");
    output_table_cell (t, "%s",
                       output_json_has (disk, "spare_of") ? "spare" : "-");
  }
  output_table_cells (t, disk, "last_heard_ms:age|reason");
}

int
cmd_disk_ls (struct ctl *ctl, const struct args *args)
{
  return ctl_ls (ctl, DISKS, "disks",
                 "DISK|NODE|PATH|>DATA|!STATE|ARRAY|>POS|>HEARD|REASON",
                 "uuid|node|path|data_bytes:size", disk_row);
}

/* --- Naming a disk ------------------------------------------------------- */

int
disk_resolve (const json_t *disks, const char *text, const char **uuid)
{
  const json_t *found[2] = { NULL, NULL };
  size_t i, n = strlen (text);
  json_t *d;

  json_array_foreach (disks, i, d) {
    const char *node = output_json_text (d, "node"),
               *path = output_json_text (d, "path");
    size_t node_bytes = strlen (node);

    *uuid = output_json_text (d, "uuid");
    /* A whole UUID can mean no other disk. */
    if (strcasecmp (*uuid, text) == 0)
      return EXIT_OK;
    if ((n >= UUID_PREFIX_MIN && strncasecmp (*uuid, text, n) == 0) ||
        (text[0] == '/' && strcmp (path, text) == 0) ||
        (strncmp (text, node, node_bytes) == 0 && text[node_bytes] == ':' &&
         strcmp (text + node_bytes + 1, path) == 0))
      found[found[0] != NULL] = d;
  }
  if (found[1]) {
    ctl_error (
      "%s: means more than one disk: %s (%s:%s) and %s (%s:%s); give "
      "more of the UUID, or NODE:PATH",
      text, output_json_text (found[0], "uuid"),
      output_json_text (found[0], "node"), output_json_text (found[0], "path"),
      output_json_text (found[1], "uuid"), output_json_text (found[1], "node"),
      output_json_text (found[1], "path"));
    return EXIT_USAGE;
  }
  if (found[0] == NULL) {
    ctl_error ("%s: weftd knows no such disk; weftctl disk ls shows those it "
               "knows; a disk appears once nbdkit weft disk=PATH serves it",
               text);
    return EXIT_REFUSED;
  }
  *uuid = output_json_text (found[0], "uuid");
  return EXIT_OK;
}

int
ctl_find_disk (struct ctl *ctl, const char *text,
               char uuid[FORMAT_UUID_TEXT_BYTES])
{
  const char *found;
  uint8_t bytes[16];
  json_t *reply;
  int r = ctl_call (ctl, "GET", DISKS, NULL, &reply);

  if (r != EXIT_OK)
    return r;
  r = disk_resolve (json_object_get (reply, "disks"), text, &found);
  /* weftd's word becomes part of a URL only if it is a UUID. */
  if (r == EXIT_OK && format_uuid_parse (found, bytes) == -1) {
    ctl_error ("%s: weftd gives its UUID as %s, which is none", text, found);
    r = EXIT_FAILED;
  }
  if (r == EXIT_OK)
    snprintf (uuid, FORMAT_UUID_TEXT_BYTES, "%s", found);
  json_decref (reply);
  return r;
}

int
cmd_disk_forget (struct ctl *ctl, const struct args *args)
{
  char uuid[FORMAT_UUID_TEXT_BYTES], path[DISK_PATH_BYTES];
  int r = ctl_find_disk (ctl, args_plain (args, 0), uuid);

  if (r != EXIT_OK)
    return r;
  snprintf (path, sizeof path, DISKS "/%s", uuid);
  r = ctl_change (ctl, "DELETE", path, NULL, NULL);
  return ctl_say (
    ctl, r,
    ctl->dry_run ? NULL : json_pack ("{s:s, s:b}", "uuid", uuid, "deleted", 1),
    "disk %s: forgotten", uuid);
}

int
cmd_disk_move (struct ctl *ctl, const struct args *args)
{
  char uuid[FORMAT_UUID_TEXT_BYTES], path[DISK_PATH_BYTES];
  const char *node = args_plain (args, 1);
  json_t *disk;
  int r = ctl_check_name ("a node", node);

  if (r == EXIT_OK)
    r = ctl_find_disk (ctl, args_plain (args, 0), uuid);
  if (r != EXIT_OK)
    return r;
  snprintf (path, sizeof path, DISKS "/%s", uuid);
  r = ctl_call (ctl, "PATCH", path, json_pack ("{s:s}", "node", node), &disk);
  if (output_json_has (disk, "moves_to"))
    return ctl_say (ctl, r, disk,
                    "disk %s: node %s may serve it; start its member process "
                    "there",
                    uuid, node);
  return ctl_say (ctl, r, disk, "disk %s: stays on node %s", uuid, node);
}

/* --- rekey --------------------------------------------------------------- */

/* A disk that is silent gets it when it is back. */
static int
look_rekeyed (struct wait *w, const json_t *disk, bool *done)
{
  *done = !output_json_yes (disk, "rekeys") || !output_json_yes (disk, "alive");
  snprintf (w->now, sizeof w->now,
            "its member is not in-sync, or a session has no connection to all "
            "members; it gets it after that");
  return EXIT_OK;
}

static int
wait_rekeyed (struct ctl *ctl, const char *uuid, json_t **disk)
{
  char path[DISK_PATH_BYTES];
  struct wait w;

  wait_init (ctl, &w, true);
  w.what = "of another key";
  w.quiet = true;
  w.look = look_rekeyed;
  snprintf (w.subject, sizeof w.subject, "disk %s", uuid);
  snprintf (path, sizeof path, DISKS "/%s", uuid);
  return wait_done (ctl, &w, path, disk);
}

static int
rekey_all (struct ctl *ctl, const json_t *uuids)
{
  json_t *done = json_array (), *all, *disk;
  char path[DISK_PATH_BYTES];
  int r = EXIT_OK;

  /* weftd takes them in turn: so all are asked for before one is waited for. */
  for (size_t i = 0; r == EXIT_OK && i < json_array_size (uuids); i++) {
    snprintf (path, sizeof path, DISKS "/%s/key",
              json_string_value (json_array_get (uuids, i)));
    r = ctl_call (ctl, "POST", path, NULL, NULL);
  }
  for (size_t i = 0; r == EXIT_OK && i < json_array_size (uuids); i++) {
    const char *uuid = json_string_value (json_array_get (uuids, i));

    r = wait_rekeyed (ctl, uuid, &disk);
    if (r != EXIT_OK)
      break;
    if (!ctl->json)
      printf ("disk %s: %s\n", uuid,
              output_json_yes (disk, "rekeys")
                ? "is silent, and gets another key when it is back"
                : "has another key");
    json_array_append_new (done, disk);
  }
  if (ctl->json && r == EXIT_OK) {
    all = json_pack ("{s:O}", "disks", done);
    output_json (all);
    json_decref (all);
  }
  json_decref (done);
  return r;
}

int
cmd_disk_rekey (struct ctl *ctl, const struct args *args)
{
  bool all = args_switch (args, "all");
  char uuid[FORMAT_UUID_TEXT_BYTES];
  json_t *uuids = json_array (), *reply = NULL, *disk;
  const char *text;
  int r = EXIT_OK;
  size_t i;

  if (all == (args_plain (args, 0) != NULL)) {
    ctl_error ("disk rekey: name disks, or give --all");
    r = EXIT_USAGE;
  }
  else if (all) {
    r = ctl_call (ctl, "GET", DISKS, NULL, &reply);
    json_array_foreach (json_object_get (reply, "disks"), i, disk)
      json_array_append (uuids, json_object_get (disk, "uuid"));
  }
  for (unsigned k = 0; r == EXIT_OK && (text = args_plain (args, k)); k++) {
    r = ctl_find_disk (ctl, text, uuid);
    if (r == EXIT_OK)
      json_array_append_new (uuids, json_string (uuid));
  }
  if (r == EXIT_OK)
    r = rekey_all (ctl, uuids);
  json_decref (reply);
  json_decref (uuids);
  return r;
}
