/* cmd-volume.c: weftctl volume: the volumes of a pool.  A volume is named POOL/NAME. */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctl.h"
#include "output.h"

int
volume_split (const char *text, struct volume_name *v)
{
  const char *slash = strchr (text, '/');

  if (slash == NULL) {
    ctl_error ("%s: not the name of a volume, which is POOL/NAME, such as "
               "data/vm1",
               text);
    return EXIT_USAGE;
  }
  if (strchr (slash, '@')) {
    ctl_error ("%s: not the name of a volume: @ stands before the name of a "
               "snapshot, and this version of Weft has no snapshots",
               text);
    return EXIT_USAGE;
  }
  snprintf (v->pool, sizeof v->pool, "%.*s", (int) (slash - text), text);
  snprintf (v->name, sizeof v->name, "%s", slash + 1);
  return ctl_check_name ("a pool", v->pool) != EXIT_OK ||
             ctl_check_name ("a volume", v->name) != EXIT_OK
           ? EXIT_USAGE
           : EXIT_OK;
}

/* The volume that the first argument names, and its path in the API. */
static int
volume_of (const struct args *args, struct volume_name *v,
           char path[CTL_PATH_BYTES])
{
  int r = volume_split (args_plain (args, 0), v);

  snprintf (path, CTL_PATH_BYTES, "/api/v1/arrays/%s/volumes/%s", v->pool,
            v->name);
  return r;
}

static int
size_of (const char *text, uint64_t *size)
{
  if (ctl_parse_size (text, size) == 0 && *size <= INT64_MAX)
    return EXIT_OK;
  ctl_error ("%s: not a size, such as 100G or 1.5T", text);
  return EXIT_USAGE;
}

static void
size_or_dash (struct table *t, const json_t *object, const char *key)
{
  char text[SIZE_TEXT_BYTES];

  output_table_cell (t, "%s",
                     json_is_integer (json_object_get (object, key))
                       ? output_size (output_json_number (object, key), text)
                       : "-");
}

static void
volume_row (struct table *t, const json_t *volume)
{
  size_or_dash (t, volume, "mapped_bytes");
  size_or_dash (t, volume, "granted_bytes");
  if (json_is_integer (json_object_get (volume, "clients")))
    output_table_cell (t, "%" PRIu64, output_json_number (volume, "clients"));
  else
    output_table_cell (t, "-");
  output_table_cell (
    t, "%s",
    output_json_has (volume, "problem") ? output_json_text (volume, "problem")
    : output_json_number (volume, "waiting") > 0 ? "waits for space"
                                                 : "");
}

static void
print_line (const json_t *object, const char *label, const char *key,
            const char *help)
{
  char size[SIZE_TEXT_EXACT_BYTES];

  if (json_is_integer (json_object_get (object, key)))
    printf ("  %-9s %-28s %s\n", label,
            output_size_exact (output_json_number (object, key), size), help);
}

void
volume_print_pool (const json_t *pool)
{
  uint64_t total = output_json_number (pool, "total_bytes");
  uint64_t granted = output_json_number (pool, "granted_bytes");
  const char *state = output_json_text (pool, "state");

  printf ("  %-9s %s: %" PRIu64 " of %" PRIu64 " volumes, %" PRIu64
          " %% full\n",
          "pool", strcmp (state, "scanning") == 0 ? "to be scanned" : state,
          output_json_number (pool, "volumes"),
          output_json_number (pool, "volumes_max"),
          total ? granted * 100 / total : 0);
  print_line (pool, "total", "total_bytes", "for volumes and their logs");
  print_line (pool, "granted", "granted_bytes", "to volumes");
  print_line (pool, "data", "mapped_bytes", "segments with data, as reported");
  print_line (pool, "free", "free_bytes", "for all volumes");
  print_line (pool, "promised", "promised_bytes", "the sizes of all volumes");
}

static void
print_volume (const json_t *volume)
{
  const char *state = output_json_text (volume, "state");

  printf ("volume %s/%s: %s%s%s\n", output_json_text (volume, "array"),
          output_json_text (volume, "name"), output_color_start (state), state,
          output_color_end (state));
  if (output_json_has (volume, "problem"))
    printf ("  %-9s %s\n", "problem", output_json_text (volume, "problem"));
  printf ("  %-9s %s\n", "uuid", output_json_text (volume, "uuid"));
  print_line (volume, "size", "size", "for its clients");
  print_line (volume, "granted", "granted_bytes", "of the pool");
  print_line (volume, "data", "mapped_bytes", "segments with data");
  print_line (volume, "present", "present_bytes", "blocks with data");
  print_line (volume, "log", "log_bytes", "its log");
  print_line (volume, "spare", "spare_bytes", "granted, and not used yet");
  if (json_is_integer (json_object_get (volume, "clients")))
    printf ("  %-9s %" PRIu64 "\n", "clients",
            output_json_number (volume, "clients"));
  if (output_json_number (volume, "waiting") > 0)
    printf ("  %-9s %" PRIu64 " requests wait for space in the pool\n",
            "waiting", output_json_number (volume, "waiting"));
}

int
cmd_volume_ls (struct ctl *ctl, const struct args *args)
{
  const char *pool = args_plain (args, 0);
  char path[CTL_PATH_BYTES];
  int r = ctl_path ("an array", pool, "/volumes", path);

  return r != EXIT_OK ? r
                      : ctl_ls (ctl, path, "volumes",
                                "VOLUME|!STATE|>SIZE|>DATA|>GRANTED|>CLIENTS|",
                                "name|state|size:size", volume_row);
}

int
cmd_volume_show (struct ctl *ctl, const struct args *args)
{
  char path[CTL_PATH_BYTES];
  struct volume_name v;
  json_t *volume = NULL;
  int r = volume_of (args, &v, path);

  if (r == EXIT_OK)
    r = ctl_call (ctl, "GET", path, NULL, &volume);
  return ctl_show (ctl, r, volume, print_volume);
}

/* Creating and resizing hurt nothing: weftd's sentences are printed, and no question is
 * asked.
 */
static int
change (struct ctl *ctl, const char *method, const char *path, json_t *body,
        json_t **reply)
{
  json_t *preflight;
  int r = ctl_preflight (ctl, method, path, body, &preflight);

  *reply = NULL;
  if (r == EXIT_OK)
    json_decref (preflight);
  if (r == EXIT_OK && !ctl->dry_run)
    return ctl_call (ctl, method, path, body, reply);
  json_decref (body);
  return r;
}

int
cmd_volume_create (struct ctl *ctl, const struct args *args)
{
  char path[CTL_PATH_BYTES], text[SIZE_TEXT_BYTES];
  json_t *reply = NULL;
  struct volume_name v;
  uint64_t size = 0;
  int r = volume_split (args_plain (args, 0), &v);

  if (r == EXIT_OK)
    r = size_of (args_plain (args, 1), &size);
  if (r == EXIT_OK)
    r = ctl_path ("an array", v.pool, "/volumes", path);
  if (r == EXIT_OK)
    r = change (
      ctl, "POST", path,
      json_pack ("{s:s, s:I}", "name", v.name, "size", (json_int_t) size),
      &reply);
  return ctl_say (ctl, r, reply, "volume %s/%s: made, with %s", v.pool, v.name,
                  output_size (size, text));
}

int
cmd_volume_resize (struct ctl *ctl, const struct args *args)
{
  char path[CTL_PATH_BYTES], text[SIZE_TEXT_BYTES];
  json_t *reply = NULL;
  struct volume_name v;
  uint64_t size = 0;
  int r = volume_of (args, &v, path);

  if (r == EXIT_OK)
    r = size_of (args_plain (args, 1), &size);
  if (r == EXIT_OK)
    r = change (ctl, "PATCH", path,
                json_pack ("{s:I}", "size", (json_int_t) size), &reply);
  return ctl_say (ctl, r, reply, "volume %s/%s: has %s now", v.pool, v.name,
                  output_size (size, text));
}

int
cmd_volume_rm (struct ctl *ctl, const struct args *args)
{
  char path[CTL_PATH_BYTES];
  json_t *reply = NULL;
  struct volume_name v;
  int r = volume_of (args, &v, path);

  if (r == EXIT_OK)
    r = ctl_change (ctl, "DELETE", path, NULL, &reply);
  if (r == EXIT_OK && reply && !output_json_yes (reply, "deleted"))
    return ctl_say (ctl, r, reply,
                    "volume %s/%s: is being deleted; its space is free when a "
                    "process next attaches pool %s",
                    v.pool, v.name, v.pool);
  return ctl_say (ctl, r, reply, "volume %s/%s: deleted", v.pool, v.name);
}
