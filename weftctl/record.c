/* record.c: the record of an attach (record.h). */

#include <config.h>

#include <dirent.h>
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
#include "common/folder.h"
#include "common/uri.h"
#include "output.h"
#include "record.h"

#define RUN_DIR_DEFAULT "/run/weftctl"
/* The folder of the user "arrays": it has the sockets of systemd, and the
 * records of an earlier weftctl.
 */
#define ARRAYS_DIR "/run/weft"
#define RECORD_FILE "attach.json"
#define RECORD_BYTES_MAX 65536
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
  return (struct process) { .pid = (pid_t) output_json_number (json, "pid"),
                            .start = output_json_number (json, "start") };
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

/* The record as JSON; NULL with a reason in why, which is "" where there is none. */
static json_t *
read_json (const struct record *r, char *why, size_t size)
{
  int fd = folder_read (r->lock, RECORD_FILE);
  char text[RECORD_BYTES_MAX];
  json_error_t e;
  json_t *json;
  ssize_t n;

  why[0] = '\0';
  if (fd == -1 && errno == ENOENT)
    return NULL;
  n = fd == -1 ? -1 : read (fd, text, sizeof text);
  if (n == -1) {
    snprintf (why, size, "%s",
              errno == EPERM ? "it is no file of this user" : strerror (errno));
    json = NULL;
  }
  else {
    json = json_loadb (text, (size_t) n, 0, &e);
    if (json == NULL)
      snprintf (why, size, "%s", e.text);
    else if (strcmp (output_json_text (json, "array"), r->name) != 0) {
      snprintf (why, size, "it is the record of another array");
      json_decref (json);
      json = NULL;
    }
  }
  if (fd != -1)
    close (fd);
  return json;
}

/* The socket of an array process that an earlier weftctl started is in the new folder: the
 * link to it at its old path is in another user's folder, and is not relied on.
 */
static void
renew_uri (struct record *r)
{
  char path[RECORD_PATH_BYTES], old[sizeof r->uri];

  snprintf (path, sizeof path, ARRAYS_DIR "/%s/nbd.sock", r->name);
  uri_of_socket (path, old, sizeof old);
  if (r->server.pid && strcmp (r->uri, old) == 0)
    uri_of_socket (record_path (r, "nbd.sock", path), r->uri, sizeof r->uri);
}

static int
record_load (struct record *r)
{
  char boot[64], then[64], kind[16], why[256];
  const json_t *part;
  json_t *json = read_json (r, why, sizeof why);

  if (json == NULL && why[0] == '\0')
    return EXIT_OK;
  if (json == NULL) {
    ctl_error ("%s/" RECORD_FILE
               ": cannot be read (%s); undo by hand what is attached "
               "(losetup, mount), then remove it",
               r->dir, why);
    return EXIT_FAILED;
  }
  boot_id (boot);
  copy_text (then, sizeof then, json, "boot");
  if (strcmp (boot, then) == 0) {
    r->found = true;
    r->readonly = output_json_yes (json, "read_only");
    r->service = output_json_yes (json, "service");
    r->leases = output_json_yes (json, "leases");
    part = json_object_get (json, "part");
    r->part.given = json_is_object (part);
    r->part.offset = output_json_number (part, "offset");
    r->part.length = output_json_number (part, "length");
    r->unseen = output_json_yes (json, "unseen");
    r->mounted = output_json_yes (json, "mounted");
    r->server = process_of (json_object_get (json, "server"));
    r->fuse = process_of (json_object_get (json, "fuse"));
    r->nbd_pid = output_json_number (json, "nbd_pid");
    copy_text (r->uri, sizeof r->uri, json, "uri");
    renew_uri (r);
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
  int fd = folder_create (r->lock, RECORD_FILE ".new", 0600);
  json_t *json = record_json (r);
  bool saved = json && fd != -1 && json_dumpfd (json, fd, JSON_INDENT (2)) == 0;

  if (fd != -1 && close (fd) == -1)
    saved = false;
  saved = saved &&
          renameat (r->lock, RECORD_FILE ".new", r->lock, RECORD_FILE) == 0;
  json_decref (json);
  if (saved)
    return EXIT_OK;
  ctl_error ("%s/" RECORD_FILE
             ": cannot be written: %s; make room there, or set WEFT_RUN_DIR",
             r->dir, strerror (errno));
  return EXIT_FAILED;
}

/* --- The directory ------------------------------------------------------- */

/* Lock the directory that has the name now: a directory that was removed while
 * we waited for its lock has lost the name.
 */
static int
lock_dir (struct ctl *ctl, struct record *r, bool *missing)
{
  uint64_t end = clock_ms () + ctl->timeout_ms;
  struct stat mine, named;
  char why[512];

  for (;;) {
    r->lock = folder_enter (r->run, r->folder, false, why, sizeof why);
    *missing = r->lock == -1 && errno == ENOENT;
    if (*missing)
      return EXIT_OK;
    if (r->lock == -1) {
      ctl_error ("%s: %s; run as the user who attached it", r->dir, why);
      return EXIT_FAILED;
    }
    if (flock (r->lock, LOCK_EX | LOCK_NB) == 0 &&
        fstat (r->lock, &mine) == 0 &&
        fstatat (r->run, r->folder, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
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

/* Open the run directory: no other user may replace what is in it. */
static int
open_run (struct record *r, const char *run, bool create)
{
  char base[FOLDER_NAME_BYTES], why[512];
  int at = create ? folder_find (run, base, why, sizeof why) : -1;
  bool made = at != -1 && (mkdirat (at, base, 0700) == 0 || errno == EEXIST);

  if (at != -1 && !made)
    snprintf (why, sizeof why, "%s", strerror (errno));
  if (at != -1)
    close (at);
  if (made || !create)
    r->run = folder_find (r->dir, base, why, sizeof why);
  if (r->run != -1 && strcmp (base, r->folder) == 0)
    return EXIT_OK;
  if (r->run != -1)
    ctl_error ("%s: is a link; remove it", r->dir);
  else if (create)
    ctl_error ("%s: cannot be made: %s; run as root, or set WEFT_RUN_DIR to "
               "a directory of yours",
               r->dir, why);
  else if (errno == ENOENT)
    return EXIT_OK;
  else
    ctl_error ("%s: %s; run as the user who attached it", r->dir, why);
  return EXIT_FAILED;
}

static int
open_arrays (void)
{
  return open (ARRAYS_DIR, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

#define LINK_BYTES (sizeof RUN_DIR_DEFAULT + NAME_BYTES_MAX + 8)

static void
link_target (const struct record *r, char target[LINK_BYTES])
{
  snprintf (target, LINK_BYTES, RUN_DIR_DEFAULT "/%s", r->name);
}

/* Move the folder of an earlier weftctl, which `fd` has open, from `arrays`.  While it
 * can't be moved the array is neither attached a second time nor said not to be attached.
 */
static int
move_earlier (struct record *r, int arrays, int fd)
{
  char target[LINK_BYTES];

  if (flock (fd, LOCK_EX | LOCK_NB) == -1) {
    ctl_error ("array %s: " ARRAYS_DIR "/%s is locked (%s): an earlier weftctl "
               "is attaching or detaching it; try again when it is done",
               r->name, r->name, strerror (errno));
    return EXIT_FAILED;
  }
  if (renameat (arrays, r->name, r->run, r->name) == -1) {
    ctl_error (
      "array %s: an earlier weftctl attached it, and its record " ARRAYS_DIR
      "/%s can't be moved to %s: %s; undo by hand what is attached "
      "(losetup, mount), then remove it",
      r->name, r->name, r->dir, strerror (errno));
    return EXIT_FAILED;
  }
  link_target (r, target);
  if (symlinkat (target, arrays, r->name) == -1)
    fprintf (stderr,
             "weftctl: the link " ARRAYS_DIR "/%s, by which programs that run "
             "find their files, can't be made: %s\n",
             r->name, strerror (errno));
  return EXIT_OK;
}

/* An earlier weftctl kept the record in the folder of arrays, which is another
 * user's.  It is moved from there if it is ours.  Running programs know the
 * path from before, where a link leads to the new one.
 */
static int
take_earlier (struct record *r)
{
  char why[512];
  int arrays = open_arrays (), status = EXIT_OK;
  int fd = arrays == -1
             ? -1
             : folder_enter (arrays, r->name, false, why, sizeof why);

  if (fd != -1 && faccessat (fd, RECORD_FILE, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
    status = move_earlier (r, arrays, fd);
  if (fd != -1)
    close (fd);
  if (arrays != -1)
    close (arrays);
  return status;
}

/* The link that take_earlier made. */
static void
remove_link (const struct record *r)
{
  char target[LINK_BYTES], found[LINK_BYTES];
  int arrays = open_arrays ();
  ssize_t n = arrays == -1 ? -1
                           : readlinkat (arrays, r->name, found, sizeof found);

  link_target (r, target);
  if (n == (ssize_t) strlen (target) && memcmp (found, target, n) == 0 &&
      strcmp (r->dir, target) == 0)
    unlinkat (arrays, r->name, 0);
  if (arrays != -1)
    close (arrays);
}

/* Where what is attached is recorded, and where systemd listens for the array. */
static int
name_paths (struct record *r, const char *run, const char *arrays)
{
  int n;

  snprintf (r->folder, sizeof r->folder, "%s", r->name);
  if (strchr (r->folder, '/'))
    *strchr (r->folder, '/') = RECORD_VOLUME;
  n = snprintf (r->dir, sizeof r->dir, "%s/%s", run, r->folder);
  if (run[0] != '/') {
    ctl_error ("WEFT_RUN_DIR=%s: must be an absolute path", run);
    return EXIT_USAGE;
  }
  if (n < 0 || (size_t) n >= sizeof r->dir) {
    ctl_error ("%s/%s: too long for a socket's address; set WEFT_RUN_DIR to a "
               "shorter path",
               run, r->folder);
    return EXIT_FAILED;
  }
  snprintf (r->socket, sizeof r->socket, "%s/%s.sock", arrays, r->name);
  return EXIT_OK;
}

int
record_open (struct ctl *ctl, struct record *r, const char *name, bool create)
{
  const char *given = getenv ("WEFT_RUN_DIR");
  bool is_default = given == NULL || *given == '\0', missing = true;
  const char *run = is_default ? RUN_DIR_DEFAULT : given;
  char why[512];
  int status, fd;

  memset (r, 0, sizeof *r);
  r->lock = r->run = -1;
  r->name = name;
  status = name_paths (r, run, is_default ? ARRAYS_DIR : run);
  /* For what an earlier weftctl has attached it is made to be detached, too. */
  if (status == EXIT_OK)
    status = open_run (r, run, create || (is_default && geteuid () == 0));
  /* An earlier weftctl knew no volumes. */
  if (status == EXIT_OK && is_default && r->run != -1 && !strchr (name, '/'))
    status = take_earlier (r);
  do {
    if (status == EXIT_OK && create) {
      fd = folder_enter (r->run, r->folder, true, why, sizeof why);
      if (fd == -1) {
        ctl_error ("%s: cannot be made: %s; run as root, or set WEFT_RUN_DIR "
                   "to a directory of yours",
                   r->dir, why);
        status = EXIT_FAILED;
      }
      else
        close (fd);
    }
    if (status == EXIT_OK && r->run != -1)
      status = lock_dir (ctl, r, &missing);
  } while (status == EXIT_OK && create && missing);
  if (status == EXIT_OK && !missing)
    status = record_load (r);
  return status;
}

bool
record_volumes (const struct record *r)
{
  int fd = r->run == -1
             ? -1
             : openat (r->run, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *dir = fd == -1 ? NULL : fdopendir (fd);
  size_t n = strlen (r->name);
  const struct dirent *e;
  bool any = false;

  if (dir == NULL) {
    if (fd != -1)
      close (fd);
    return false;
  }
  while ((e = readdir (dir)))
    any |= strncmp (e->d_name, r->name, n) == 0 &&
           e->d_name[n] == RECORD_VOLUME;
  closedir (dir);
  return any;
}

void
record_remove (struct record *r)
{
  if (!strchr (r->name, '/'))
    remove_link (r);
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
    unlinkat (r->lock, files[i], 0);
  unlinkat (r->lock, "mnt", AT_REMOVEDIR);
  unlinkat (r->run, r->folder, AT_REMOVEDIR);
  r->found = false;
}

void
record_close (struct record *r)
{
  if (r->lock != -1)
    close (r->lock);
  if (r->run != -1)
    close (r->run);
  r->lock = r->run = -1;
}
