/* ctl-device.c: block devices over an NBD URI.  See device.h. */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/mount.h"
#include "ctl-device.h"
#include "common/uri.h"

#define LOOP_MAJOR 7
/* As weft-attach has it: the numbers in a partition table count such blocks. */
#define BLOCK_BYTES "512"
#define TRIES_MAX 100
#define SETTLE_MS 5000
#define POLL_MS 20

/* A line of a file in sysfs about the device: "" when there is none. */
static void
sysfs_read (const char *device, const char *file, char *text, size_t size)
{
  char path[160];
  FILE *f;

  snprintf (path, sizeof path, "/sys/block/%s/%s", strrchr (device, '/') + 1,
            file);
  f = fopen (path, "re");
  if (f == NULL || fgets (text, (int) size, f) == NULL)
    text[0] = '\0';
  text[strcspn (text, "\n")] = '\0';
  if (f)
    fclose (f);
}

/* nbdfuse's file. */
static const char *
fuse_file (const struct record *r, char path[RECORD_PATH_BYTES])
{
  snprintf (path, RECORD_PATH_BYTES, "%s/mnt/%s", r->dir, r->folder);
  return path;
}

bool
device_present (const struct record *r)
{
  char text[RECORD_PATH_BYTES + 32], path[RECORD_PATH_BYTES];

  switch (r->kind) {
  case DEVICE_LOOP:
    sysfs_read (r->device, "loop/backing_file", text, sizeof text);
    return strcmp (text, fuse_file (r, path)) == 0;
  case DEVICE_NBD:
    sysfs_read (r->device, "pid", text, sizeof text);
    return text[0] && strtoull (text, NULL, 10) == r->nbd_pid;
  default:
    return false;
  }
}

bool
device_kept (const char *array, char device[64])
{
  char link[NAME_BYTES_MAX + 16], target[48], owner[NAME_BYTES_MAX + 16];
  const char *base;
  ssize_t n;

  snprintf (link, sizeof link, "/dev/weft/%s", array);
  n = readlink (link, target, sizeof target - 1);
  if (n <= 0)
    return false;
  target[n] = '\0';
  base = strrchr (target, '/');
  if (base == NULL)
    return false;
  snprintf (device, 64, "/dev%s", base);
  sysfs_read (device, "backend", owner, sizeof owner);
  return strcmp (owner, link + strlen ("/dev/")) == 0;
}

/* Read here and there, for a single place may have lost all its copies; past the
 * page cache, or that would answer.
 */
static int
read_error (const char *device)
{
  static _Alignas (4096) char block[4096];
  int fd = open (device, O_RDONLY | O_DIRECT | O_CLOEXEC);
  uint64_t size;

  if (fd == -1 || ioctl (fd, BLKGETSIZE64, &size) == -1)
    return errno;
  for (unsigned i = 0; i < 4; i++)
    if (pread (fd, block, sizeof block, (off_t) (size / 16384 * i * 4096)) !=
        -1)
      return 0;
  return errno;
}

/* In a process of its own: a read that waits can't be ended.  Returns what f does, or 0
 * where it takes longer than a moment.
 */
static int
in_child (int (*f) (const char *device), const char *device)
{
  uint64_t end = clock_ms () + URI_ANSWER_MS;
  pid_t pid = fork (), ended = 0;
  int status;

  if (pid == 0)
    _exit (f (device));
  while (pid > 0 && ended == 0 && clock_ms () < end) {
    ended = waitpid (pid, &status, WNOHANG);
    if (ended == 0)
      clock_sleep_ms (POLL_MS);
  }
  if (pid > 0 && ended == 0)
    kill (pid, SIGKILL);
  return ended == pid && WIFEXITED (status) ? WEXITSTATUS (status) : 0;
}

int
device_dead (const char *device)
{
  return in_child (read_error, device);
}

/* A loop device may have partitions if that is switched on.  The kernel looks
 * for them then; if the kernel knows no partition tables, partx adds them.
 */
static int
find_partitions (const char *device)
{
  const char *argv[] = { "partx", "--update", device, NULL };
  int fd = open (device, O_RDONLY | O_CLOEXEC);
  struct loop_info64 info;
  char said[256];

  if (fd != -1 && ioctl (fd, LOOP_GET_STATUS64, &info) == 0) {
    info.lo_flags |= LO_FLAGS_PARTSCAN;
    ioctl (fd, LOOP_SET_STATUS64, &info);
  }
  if (fd != -1)
    close (fd);
  process_run (argv, said, sizeof said);
  return 0;
}

void
device_find_partitions (const struct record *r)
{
  in_child (find_partitions, r->device);
}

/* --- The kernel's NBD client --------------------------------------------- */

bool
device_kernel_nbd (void)
{
  static const char *const modprobe[] = { "modprobe", "-q", "nbd", NULL };
  char said[256];

  if (access ("/sys/block/nbd0", F_OK) == 0)
    return true;
  process_run (modprobe, said, sizeof said);
  return access ("/sys/block/nbd0", F_OK) == 0;
}

/* A device without a connection, from number *i on. */
static bool
free_nbd (unsigned *i, char device[64])
{
  char path[64];

  for (;; ++*i) {
    snprintf (path, sizeof path, "/sys/block/nbd%u", *i);
    if (access (path, F_OK) == -1)
      return false;
    snprintf (path, sizeof path, "/sys/block/nbd%u/pid", *i);
    if (access (path, F_OK) == 0)
      continue;
    snprintf (device, 64, "/dev/nbd%u", *i);
    return true;
  }
}

/* Run nbd-client for r->device.  With one connection and no time-out: with
 * several connections, the kernel sends a request without an answer for 30 s
 * again, over another one, and the two would overtake writes between them.
 */
static int
run_nbd_client (const struct ctl *ctl, const struct record *r,
                const struct uri *uri, char *said, size_t size)
{
  static const char *const tls[][2] = { { "-certfile", "client-cert.pem" },
                                        { "-keyfile", "client-key.pem" },
                                        { "-cacertfile", "ca-cert.pem" } };
  char files[3][4096];
  const char *argv[24];
  unsigned n = 0;

  argv[n++] = "nbd-client";
  if (uri->socket[0]) {
    argv[n++] = "-unix";
    argv[n++] = uri->socket;
  }
  else {
    argv[n++] = uri->host;
    argv[n++] = uri->port;
  }
  argv[n++] = r->device;
  argv[n++] = "-connections";
  argv[n++] = "1";
  argv[n++] = "-block-size";
  argv[n++] = BLOCK_BYTES;
  argv[n++] = "-name";
  argv[n++] = uri->export;
  if (r->readonly)
    argv[n++] = "-readonly";
  for (unsigned i = 0; uri->tls && i < 3; i++) {
    snprintf (files[i], sizeof files[i], "%s/%s", ctl->tls_dir, tls[i][1]);
    argv[n++] = tls[i][0];
    argv[n++] = files[i];
  }
  if (uri->tls && uri->host[0]) {
    argv[n++] = "-tlshostname";
    argv[n++] = uri->host;
  }
  argv[n] = NULL;
  return process_run (argv, said, size);
}

/* nbd-client may return a moment before the device has its size. */
static bool
nbd_settled (struct record *r)
{
  uint64_t end = clock_ms () + SETTLE_MS;
  char size[32], pid[32];

  do {
    sysfs_read (r->device, "size", size, sizeof size);
    sysfs_read (r->device, "pid", pid, sizeof pid);
    if (pid[0] && size[0] && strcmp (size, "0") != 0) {
      r->nbd_pid = strtoull (pid, NULL, 10);
      return true;
    }
    clock_sleep_ms (POLL_MS);
  } while (clock_ms () < end);
  return false;
}

/* No program of ours is given such a text. */
static int
refuse_uri (const struct record *r)
{
  ctl_error ("array %s: %s is no NBD URI such as nbd://HOST:PORT or "
             "nbd+unix:///?socket=PATH; look for its session in weftctl "
             "session ls, and end that",
             r->name, r->uri);
  return EXIT_FAILED;
}

int
device_open_nbd (struct ctl *ctl, struct record *r)
{
  struct uri uri;
  char said[512] = "all of /dev/nbd0, /dev/nbd1... are in use";
  int status;

  if (uri_parse (r->uri, &uri) == -1)
    return refuse_uri (r);
  /* A client of TLS shows a certificate, and checks the server's. */
  if (uri.tls && ctl->tls_dir == NULL) {
    ctl_error ("array %s: its array process at %s wants TLS; name the folder "
               "of this host's certificate by --tls or WEFT_TLS",
               r->name, r->uri);
    return EXIT_USAGE;
  }
  for (unsigned i = 0; free_nbd (&i, r->device); i++) {
    r->kind = DEVICE_NBD;
    status = record_save (r);
    if (status != EXIT_OK)
      return status;
    status = run_nbd_client (ctl, r, &uri, said, sizeof said);
    if (status == 0 && nbd_settled (r))
      return record_save (r);
    r->kind = DEVICE_NONE;
    if (status == 0)
      snprintf (said, sizeof said, "%s did not get a size", r->device);
    /* Where somebody else has taken this device just now, the next one is tried. */
    else if (status != -1 && strcasestr (said, "busy"))
      continue;
    break;
  }
  ctl_error ("array %s: nbd-client: %s; where this can't be helped, add "
             "--fuse",
             r->name, said);
  return EXIT_FAILED;
}

/* --- nbdfuse and a loop device ------------------------------------------- */

static int
start_nbdfuse (struct ctl *ctl, struct record *r, unsigned connections)
{
  char mount[RECORD_PATH_BYTES], file[RECORD_PATH_BYTES];
  char pid_file[RECORD_PATH_BYTES];
  char number[16], said[400];
  const char *argv[9] = { "nbdfuse", "-P", pid_file, "-C", number };
  unsigned n = 5;
  struct uri uri;
  int e, status;

  if (r->readonly)
    argv[n++] = "-r";
  argv[n++] = file;
  argv[n++] = r->uri;
  if (uri_parse (r->uri, &uri) == -1)
    return refuse_uri (r);
  if (uri.tls) {
    ctl_error ("array %s: its array process at %s wants TLS, and nbdfuse can "
               "show no certificate: attach it where the kernel has nbd, or "
               "end that process, and this host starts its own",
               r->name, r->uri);
    return EXIT_FAILED;
  }
  snprintf (number, sizeof number, "%u", connections);
  record_path (r, "mnt", mount);
  record_path (r, "nbdfuse.pid", pid_file);
  fuse_file (r, file);
  unlinkat (r->lock, "nbdfuse.pid", 0);
  if (mkdirat (r->lock, "mnt", 0700) == -1 && errno != EEXIST) {
    ctl_error ("%s: cannot be made: %s; set WEFT_RUN_DIR to another place",
               mount, strerror (errno));
    return EXIT_FAILED;
  }
  r->mounted = true;
  status = record_save (r);
  if (status != EXIT_OK)
    return status;
  e = process_start (argv, r->lock, "nbdfuse.log", &r->fuse);
  if (e) {
    ctl_error ("nbdfuse: %s; install it (Debian: libnbd-bin)", strerror (e));
    return EXIT_FAILED;
  }
  status = record_save (r);
  if (status != EXIT_OK)
    return status;
  e = process_wait_ready (&r->fuse, pid_file, ctl->timeout_ms);
  if (e == 0)
    return EXIT_OK;
  process_last_words (r->lock, "nbdfuse.log", said, sizeof said);
  ctl_error ("array %s: nbdfuse %s: %s; it needs /dev/fuse and an array "
             "process that answers at %s",
             r->name, e == -1 ? "ended" : "is not ready in time", said, r->uri);
  return EXIT_FAILED;
}

/* A loop device that is free right now; its node is made where no udev does. */
static int
free_loop (char device[64])
{
  int fd = open ("/dev/loop-control", O_RDWR | O_CLOEXEC), n;

  if (fd == -1)
    return -1;
  n = ioctl (fd, LOOP_CTL_GET_FREE);
  close (fd);
  if (n < 0)
    return -1;
  snprintf (device, 64, "/dev/loop%d", n);
  if (access (device, F_OK) == -1 &&
      mknod (device, S_IFBLK | 0600, makedev (LOOP_MAJOR, (unsigned) n)) ==
        -1 &&
      errno != EEXIST)
    return -1;
  return 0;
}

/* Direct I/O: so that nothing is cached twice, and the loop device has more
 * than one request under way.
 */
static int
run_losetup (const struct record *r, const char *direct, char *said,
             size_t size)
{
  char file[RECORD_PATH_BYTES];
  const char *argv[8] = { "losetup", direct, "--sector-size", BLOCK_BYTES };
  unsigned n = 4;

  if (r->readonly)
    argv[n++] = "--read-only";
  argv[n++] = r->device;
  argv[n++] = fuse_file (r, file);
  return process_run (argv, said, size);
}

int
device_open_loop (struct ctl *ctl, struct record *r, unsigned connections)
{
  char said[400] = "";
  int status = start_nbdfuse (ctl, r, connections);

  if (status != EXIT_OK)
    return status;
  for (unsigned i = 0; i < TRIES_MAX; i++) {
    if (free_loop (r->device) == -1) {
      ctl_error ("array %s: no free loop device: /dev/loop-control: %s; load "
                 "the module loop, and run as root",
                 r->name, strerror (errno));
      return EXIT_FAILED;
    }
    r->kind = DEVICE_LOOP;
    status = record_save (r);
    if (status != EXIT_OK)
      return status;
    if (run_losetup (r, "--direct-io=on", said, sizeof said) == 0 &&
        device_present (r))
      return EXIT_OK;
    if (!device_present (r) &&
        run_losetup (r, "--direct-io=off", said, sizeof said) == 0 &&
        device_present (r))
      return EXIT_OK;
    r->kind = DEVICE_NONE;
    /* Where somebody else has taken this device just now, the next one is tried. */
    if (strcasestr (said, "busy") == NULL)
      break;
  }
  ctl_error ("array %s: losetup: %s", r->name, said);
  return EXIT_FAILED;
}

/* --- Leaving it ---------------------------------------------------------- */

int
device_check_unused (const struct record *r)
{
  char mounted[400];
  int fd;

  if (!device_present (r))
    return EXIT_OK;
  if (mount_find (r->device, mounted, sizeof mounted)) {
    ctl_error ("array %s: %s; umount that first", r->name, mounted);
    return EXIT_FAILED;
  }
  fd = open (r->device, O_RDONLY | O_EXCL | O_CLOEXEC);
  if (fd == -1 && errno == EBUSY) {
    ctl_error ("array %s: %s is still in use (as swap, by LVM, md or "
               "device-mapper, or mounted in another mount namespace); stop "
               "that first: lsblk %s shows it",
               r->name, r->device, r->device);
    return EXIT_FAILED;
  }
  if (fd != -1)
    close (fd);
  return EXIT_OK;
}

int
device_flush (const struct record *r)
{
  int fd, e = 0;

  if (r->readonly || !device_present (r))
    return EXIT_OK;
  fd = open (r->device, O_RDWR | O_CLOEXEC);
  if (fd == -1 || fsync (fd) == -1)
    e = errno;
  if (fd != -1) {
    ioctl (fd, BLKFLSBUF, 0);
    close (fd);
  }
  if (e) {
    ctl_error ("array %s: %s: the last writes could not be flushed: %s; check "
               "the file system when it is attached again",
               r->name, r->device, strerror (e));
    return EXIT_FAILED;
  }
  return EXIT_OK;
}

static int
close_block (struct record *r)
{
  const char *program = r->kind == DEVICE_LOOP ? "losetup" : "nbd-client";
  const char *argv[] = { program, "-d", r->device, NULL };
  const char *partx[] = { "partx", "--delete", r->device, NULL };
  char said[400] = "";
  uint64_t end;

  if (device_present (r)) {
    process_run (partx, said, sizeof said); /* where it has any */
    process_run (argv, said, sizeof said);
    end = clock_ms () + SETTLE_MS;
    /* Other programs, such as udev, may hold it open for a moment. */
    while (device_present (r) && clock_ms () < end)
      clock_sleep_ms (POLL_MS);
    if (device_present (r)) {
      ctl_error ("array %s: %s -d %s: it stays%s%s; end who has it open "
                 "(fuser %s), then detach again",
                 r->name, program, r->device, *said ? ": " : "", said,
                 r->device);
      return EXIT_FAILED;
    }
  }
  r->kind = DEVICE_NONE;
  return EXIT_OK;
}

static int
close_fuse (struct ctl *ctl, struct record *r)
{
  char mount[RECORD_PATH_BYTES], said[400] = "";
  const char *argv[] = { "fusermount3", "-u", mount, NULL };
  struct stat inside, outside;

  record_path (r, "mnt", mount);
  /* A mount whose nbdfuse has died can't even be looked at. */
  if ((stat (mount, &inside) == -1 && errno != ENOENT) ||
      (stat (mount, &inside) == 0 && fstat (r->lock, &outside) == 0 &&
       inside.st_dev != outside.st_dev)) {
    if (process_run (argv, said, sizeof said) != 0 &&
        umount2 (mount, 0) == -1 && errno != EINVAL) {
      ctl_error ("array %s: %s: cannot be unmounted: %s; end who uses it "
                 "(fuser -m %s), then detach again",
                 r->name, mount, *said ? said : strerror (errno), mount);
      return EXIT_FAILED;
    }
  }
  /* Its file may still be mounted in copies that others have of all mounts, as a
   * container may.  It would not end by itself before they have gone, though the device
   * that used it has.
   */
  process_end (&r->fuse);
  if (!process_wait_end (&r->fuse, ctl->timeout_ms)) {
    ctl_error (
      "array %s: nbdfuse, process %d, was asked to end and does not, "
      "although its file is unmounted; its array process at %s may not answer",
      r->name, (int) r->fuse.pid, r->uri);
    return EXIT_FAILED;
  }
  r->fuse.pid = 0;
  r->mounted = false;
  return EXIT_OK;
}

int
device_close (struct ctl *ctl, struct record *r)
{
  int status = EXIT_OK;

  if (r->kind != DEVICE_NONE)
    status = close_block (r);
  if (status == EXIT_OK && r->mounted)
    status = close_fuse (ctl, r);
  return status;
}
