/* record.c: what attach did on this host.  See record.h. */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "output.h"
#include "record.h"

#define RUN_DIR_DEFAULT "/run/weft"
#define RECORD_FILE "attach.json"
#define POLL_MS 50

static const char *const kind_names[] = { "none", "loop", "nbd" };

/* All the files that may lie in an array's directory. */
static const char *const files[] = {
  RECORD_FILE,   RECORD_FILE ".new", "nbd.sock", "nbdkit.pid", "nbdkit.log",
  "nbdfuse.pid", "nbdfuse.log",      "client",   "client.new"
};

const char *
record_path (const struct record *r, const char *file,
             char path[RECORD_PATH_BYTES])
{
  snprintf (path, RECORD_PATH_BYTES, "%s/%s", r->dir, file);
  return path;
}

/* After a restart of the host nothing of what was attached is left. */
static void
boot_id (char id[64])
{
  FILE *f = fopen ("/proc/sys/kernel/random/boot_id", "re");

  if (f == NULL || fgets (id, 64, f) == NULL)
    id[0] = '\0';
  id[strcspn (id, "\n")] = '\0';
  if (f)
    fclose (f);
}

/* --- JSON ---------------------------------------------------------------- */

static json_t *
process_json (const struct process *p)
{
  if (p->pid == 0)
    return json_null ();
  return json_pack ("{s:i, s:I}", "pid", (int) p->pid, "start",
                    (json_int_t) p->start);
}

static struct process
process_of (const json_t *json)
{
  return (struct process) { .pid = (pid_t) json_number (json, "pid"),
                            .start = json_number (json, "start") };
}

static json_t *
part_json (const struct part *part)
{
  return part->given
           ? json_pack ("{s:I, s:I}", "offset", (json_int_t) part->offset,
                        "length", (json_int_t) part->length)
           : json_null ();
}

json_t *
record_json (const struct record *r)
{
  char boot[64];

  boot_id (boot);
  return json_pack (
    "{s:s, s:s?, s:s, s:s, s:b, s:b, s:b, s:o, s:b, s:o, s:o, s:b, s:I, s:s}",
    "array", r->name, "device", r->kind == DEVICE_NONE ? NULL : r->device,
    "kind", kind_names[r->kind], "uri", r->uri, "read_only", r->readonly,
    "service", r->service, "leases", r->leases, "part", part_json (&r->part),
    "unseen", r->unseen, "server", process_json (&r->server), "fuse",
    process_json (&r->fuse), "mounted", r->mounted, "nbd_pid",
    (json_int_t) r->nbd_pid, "boot", boot);
}

static void
copy_text (char *to, size_t size, const json_t *json, const char *key)
{
  const char *text = json_string_value (json_object_get (json, key));

  snprintf (to, size, "%s", text ? text : "");
}

static int
record_load (struct record *r)
{
  char path[RECORD_PATH_BYTES], boot[64], then[64], kind[16];
  const json_t *part;
  json_error_t e;
  json_t *json;

  record_path (r, RECORD_FILE, path);
  if (access (path, F_OK) == -1 && errno == ENOENT)
    return EXIT_OK;
  json = json_load_file (path, 0, &e);
  if (json == NULL) {
    ctl_error ("%s: cannot be read (%s); undo by hand what is attached "
               "(losetup, mount), then remove it",
               path, e.text);
    return EXIT_FAILED;
  }
  boot_id (boot);
  copy_text (then, sizeof then, json, "boot");
  if (strcmp (boot, then) == 0) {
    r->found = true;
    r->readonly = json_yes (json, "read_only");
    r->service = json_yes (json, "service");
    r->leases = json_yes (json, "leases");
    part = json_object_get (json, "part");
    r->part.given = json_is_object (part);
    r->part.offset = json_number (part, "offset");
    r->part.length = json_number (part, "length");
    r->unseen = json_yes (json, "unseen");
    r->mounted = json_yes (json, "mounted");
    r->server = process_of (json_object_get (json, "server"));
    r->fuse = process_of (json_object_get (json, "fuse"));
    r->nbd_pid = json_number (json, "nbd_pid");
    copy_text (r->uri, sizeof r->uri, json, "uri");
    copy_text (r->device, sizeof r->device, json, "device");
    copy_text (kind, sizeof kind, json, "kind");
    r->kind = strcmp (kind, "loop") == 0  ? DEVICE_LOOP
              : strcmp (kind, "nbd") == 0 ? DEVICE_NBD
                                          : DEVICE_NONE;
  }
  json_decref (json);
  return EXIT_OK;
}

int
record_save (const struct record *r)
{
  char path[RECORD_PATH_BYTES], new[RECORD_PATH_BYTES];
  json_t *json = record_json (r);
  int failed;

  record_path (r, RECORD_FILE, path);
  record_path (r, RECORD_FILE ".new", new);
  failed = json == NULL || json_dump_file (json, new, JSON_INDENT (2)) == -1 ||
           rename (new, path) == -1;
  json_decref (json);
  if (failed) {
    ctl_error ("%s: cannot be written: %s; make room there, or set "
               "WEFT_RUN_DIR",
               path, strerror (errno));
    return EXIT_FAILED;
  }
  return EXIT_OK;
}

/* --- The directory ------------------------------------------------------- */

/* Lock the directory that bears the name now: one that was removed while we
 * waited for its lock is not it any more.
 */
static int
lock_dir (struct ctl *ctl, struct record *r, bool *missing)
{
  uint64_t end = clock_ms () + ctl->timeout_ms;
  struct stat mine, named;

  for (;;) {
    r->lock = open (r->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *missing = r->lock == -1 && errno == ENOENT;
    if (*missing)
      return EXIT_OK;
    if (r->lock == -1) {
      ctl_error ("%s: %s; run as the user who attached it", r->dir,
                 strerror (errno));
      return EXIT_FAILED;
    }
    if (flock (r->lock, LOCK_EX | LOCK_NB) == 0 &&
        fstat (r->lock, &mine) == 0 && stat (r->dir, &named) == 0 &&
        mine.st_ino == named.st_ino && mine.st_dev == named.st_dev)
      return EXIT_OK;
    close (r->lock);
    r->lock = -1;
    if (clock_ms () >= end) {
      ctl_error ("array %s: another weftctl is attaching or detaching it; try "
                 "again when it is done",
                 r->name);
      return EXIT_FAILED;
    }
    clock_sleep_ms (POLL_MS);
  }
}

int
record_open (struct ctl *ctl, struct record *r, const char *name, bool create)
{
  const char *run = getenv ("WEFT_RUN_DIR");
  bool missing;
  int n, status;

  memset (r, 0, sizeof *r);
  r->lock = -1;
  r->name = name;
  if (run == NULL || *run == '\0')
    run = RUN_DIR_DEFAULT;
  if (run[0] != '/') {
    ctl_error ("WEFT_RUN_DIR=%s: must be an absolute path", run);
    return EXIT_USAGE;
  }
  n = snprintf (r->dir, sizeof r->dir, "%s/%s", run, name);
  if (n < 0 || (size_t) n >= sizeof r->dir) {
    ctl_error ("%s/%s: too long for a socket's address; set WEFT_RUN_DIR to a "
               "shorter path",
               run, name);
    return EXIT_FAILED;
  }
  do {
    if (create && ((mkdir (run, 0755) == -1 && errno != EEXIST) ||
                   (mkdir (r->dir, 0700) == -1 && errno != EEXIST))) {
      ctl_error ("%s: cannot be made: %s; run as root, or set WEFT_RUN_DIR to "
                 "a directory of yours",
                 r->dir, strerror (errno));
      return EXIT_FAILED;
    }
    status = lock_dir (ctl, r, &missing);
  } while (status == EXIT_OK && create && missing);
  if (status == EXIT_OK && !missing)
    status = record_load (r);
  return status;
}

void
record_remove (struct record *r)
{
  char path[RECORD_PATH_BYTES];

  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
    unlink (record_path (r, files[i], path));
  rmdir (record_path (r, "mnt", path));
  rmdir (r->dir);
  r->found = false;
}

void
record_close (struct record *r)
{
  if (r->lock != -1)
    close (r->lock);
  r->lock = -1;
}
