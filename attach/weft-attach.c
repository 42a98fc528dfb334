/* weft-attach.c: keeps an array attached as a block device of this kernel.
 *
 *   look ─► attach ─► serve: wait ─┬─ the array process has ended ─► reconnect ─► wait
 *                                  └─ SIGTERM ─► detach
 *
 * An array process that is a client of the array's service may end while its
 * last requests are still on their way to the serving node.  The serving node
 * drops these when the next process connects.  It recognizes the next process
 * as the same client by a file (plugin/identity.h), which belongs to the device
 * and is removed with it.
 *
 * If other hosts use the array, too, weft-attach first checks the data on it
 * for a file system that only one host may mount.  It does so by a read-only
 * device of its own, so that nobody uses the array meanwhile.
 *
 * The device belongs to the kernel: if this program ends in any other way, the
 * device stays, and the next weft-attach of the same array takes it over.  A
 * new connection is made only when the process at the other end of the old one
 * has ended: until then, requests on the old connection may still be carried
 * out, and a request that the kernel sends again could be overtaken by its own
 * first copy.
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/blkpg.h>
#include <linux/fs.h>
#include <linux/nbd.h>

#include "device.h"
#include "base/name.h"
#include "common/disk.h"
#include "common/file.h"
#include "common/mount.h"
#include "common/notify.h"
#include "server.h"

#define RETRY_MS 250
/* The kernel has a moment to find its old connection dead.  It does not replace
 * a connection that it still takes for alive, and does not report that: so try
 * more than once.
 */
#define SETTLE_MS 1000
#define SETTLE_TIMES 3
/* For a detach while a file system on it is just being unmounted. */
#define IN_USE_MS 10000
#define LINKS "/dev/weft"
#define PARTITIONS_MAX 255
/* The array has data that is destroyed when two hosts use it. */
#define EXIT_REFUSED 3

struct options {
  const char *name, *socket, *pid_file, *client_file;
  char socket_path[160], pid_path[160], client_path[160];
  bool service, force;
};

static const char usage[] =
  "Usage: weft-attach [OPTION]... ARRAY\n"
  "Keep an array attached as the block device /dev/weft/ARRAY.\n"
  "\n"
  "  --socket PATH    socket of the array process\n"
  "                   (/run/weft/ARRAY.sock)\n"
  "  --pid-file PATH  pid file of the array process (/run/weft/ARRAY.pid)\n"
  "  --client-file PATH  file of its option client=\n"
  "                   (/run/weft/ARRAY.client)\n"
  "  --as WORD        array, or service: the array process is a client of the\n"
  "                   array's service, like those of other hosts (array)\n"
  "  --force          as service: even a file system for only one host\n"
  "  --help           print this, and end\n"
  "  --version        print the version, and end\n";

/* Returns -1 to go on, or the exit status. */
static int
parse_options (int argc, char **argv, struct options *o)
{
  enum { SOCKET = 256, PID_FILE, CLIENT_FILE, AS, FORCE, HELP, VERSION_ };
  static const struct option longs[] = {
    { "socket", required_argument, NULL, SOCKET },
    { "pid-file", required_argument, NULL, PID_FILE },
    { "client-file", required_argument, NULL, CLIENT_FILE },
    { "as", required_argument, NULL, AS },
    { "force", no_argument, NULL, FORCE },
    { "help", no_argument, NULL, HELP },
    { "version", no_argument, NULL, VERSION_ },
    { NULL, 0, NULL, 0 }
  };
  int option;

  while ((option = getopt_long (argc, argv, "", longs, NULL)) != -1)
    switch (option) {
    case SOCKET:
      o->socket = optarg;
      break;
    case PID_FILE:
      o->pid_file = optarg;
      break;
    case CLIENT_FILE:
      o->client_file = optarg;
      break;
    case AS:
      o->service = strcmp (optarg, "service") == 0;
      if (o->service || strcmp (optarg, "array") == 0)
        break;
      fprintf (stderr, "weft-attach: --as %s: give array or service\n", optarg);
      return 2;
    case FORCE:
      o->force = true;
      break;
    case HELP:
      fputs (usage, stdout);
      return EXIT_SUCCESS;
    case VERSION_:
      puts ("weft-attach " PACKAGE_VERSION);
      return EXIT_SUCCESS;
    default: /* getopt has said what is wrong */
      return 2;
    }
  o->name = optind + 1 == argc ? argv[optind] : NULL;
  if (o->name == NULL || !name_valid (o->name)) {
    fputs ("weft-attach: give the name of one array\n", stderr);
    return 2;
  }
  snprintf (o->socket_path, sizeof o->socket_path, "/run/weft/%s.sock",
            o->name);
  snprintf (o->pid_path, sizeof o->pid_path, "/run/weft/%s.pid", o->name);
  if (o->socket == NULL)
    o->socket = o->socket_path;
  if (o->pid_file == NULL)
    o->pid_file = o->pid_path;
  snprintf (o->client_path, sizeof o->client_path, "/run/weft/%s.client",
            o->name);
  if (o->client_file == NULL)
    o->client_file = o->client_path;
  return -1;
}

/* Until a signal comes (true) or so much time has passed. */
static bool
told_to_end (int signals, int timeout_ms)
{
  struct pollfd p = { .fd = signals, .events = POLLIN };

  return poll (&p, 1, timeout_ms) > 0;
}

/* Until it succeeds: an array process is on its way.  False: told to end. */
static bool
connect_patiently (const struct options *o, int signals, struct server *s)
{
  char why[600], said[600] = "";

  while (server_connect (o->socket, o->pid_file, o->name, signals, s, why,
                         sizeof why) == -1) {
    if (told_to_end (signals, 0))
      return false;
    if (strcmp (why, said) != 0)
      fprintf (stderr,
               "weft-attach: array %s: waiting for its array process: "
               "%s\n",
               o->name, why);
    strcpy (said, why);
    if (told_to_end (signals, RETRY_MS))
      return false;
  }
  return true;
}

/* In a process of its own: a read from a device whose array process ends waits
 * until that device goes.  Returns the exit status.
 */
static int
look_at (const struct options *o, const struct device *d)
{
  char path[32], text[256], why[512];

  snprintf (path, sizeof path, "/dev/nbd%u", d->number);
  switch (disk_of_one_host (path, text, why, sizeof why)) {
  case 0:
    return EXIT_SUCCESS;
  case 1:
    fprintf (
      stderr,
      "weft-attach: array %s: there is %s on it, which is destroyed when two "
      "hosts use it; put a cluster file system there (man weft-shared), or set "
      "WEFT_ATTACH_OPTIONS=--force in /etc/weft/arrays/%s.conf if something "
      "ensures that only one host at a time uses it\n",
      o->name, text, o->name);
    return EXIT_REFUSED;
  default:
    fprintf (stderr, "weft-attach: array %s: %s\n", o->name, why);
    return EXIT_FAILURE;
  }
}

/* May other hosts use what is on the array at the same time?  The connection is used
 * up.  Returns EXIT_SUCCESS or the exit status.
 */
static int
look (const struct options *o, int signals, const struct server *s)
{
  struct pollfd p[3] = { { .fd = signals, .events = POLLIN },
                         { .fd = s->process, .events = POLLIN },
                         { .events = POLLIN } };
  int status = EXIT_FAILURE;
  struct device d;
  char owner[80];
  pid_t child;

  snprintf (owner, sizeof owner, "weft-look/%s", o->name);
  if (device_init (&d, owner) == -1)
    return EXIT_FAILURE;
  /* The device of an array process that was killed. */
  if (device_find (&d))
    device_disconnect (&d);
  if (device_connect (&d, s->socket, s->size, s->flags | NBD_FLAG_READ_ONLY) ==
      -1)
    return EXIT_FAILURE;
  child = fork ();
  if (child == 0)
    _exit (look_at (o, &d));
  p[2].fd = child == -1 ? -1 : pidfd_open (child, 0);
  if (p[2].fd != -1)
    poll (p, 3, -1);
  device_disconnect (&d);
  if (child != -1 && waitpid (child, &status, 0) == child)
    status = WIFEXITED (status) ? WEXITSTATUS (status) : EXIT_FAILURE;
  close (p[2].fd);
  close (s->socket);
  close (s->process);
  return status;
}

static int
link_make (const struct options *o, const struct device *d)
{
  char link[160], temporary[180], target[32];

  snprintf (link, sizeof link, LINKS "/%s", o->name);
  snprintf (temporary, sizeof temporary, "%s.new", link);
  snprintf (target, sizeof target, "../nbd%u", d->number);
  if ((mkdir (LINKS, 0755) == -1 && errno != EEXIST) ||
      (unlink (temporary) == -1 && errno != ENOENT) ||
      symlink (target, temporary) == -1 || rename (temporary, link) == -1) {
    fprintf (stderr, "weft-attach: %s: %s\n", link, strerror (errno));
    return -1;
  }
  fprintf (stderr, "weft-attach: array %s is /dev/nbd%u\n", o->name, d->number);
  return 0;
}

/* A file system may just be being unmounted beside us. */
static bool
becomes_unused (const struct device *d)
{
  for (unsigned ms = 0; device_in_use (d); ms += RETRY_MS) {
    if (ms >= IN_USE_MS)
      return false;
    poll (NULL, 0, RETRY_MS);
  }
  return true;
}

static bool
host_goes_down (void)
{
  char state[32] = "";
  FILE *f = popen ("systemctl is-system-running", "re");

  if (f == NULL)
    return false;
  if (fgets (state, sizeof state, f) == NULL)
    state[0] = '\0';
  pclose (f);
  return strcmp (state, "stopping\n") == 0;
}

/* May the device go?  While a program uses it, it stays, and waits for the next
 * array process.  But a host that goes down could not end then, because its
 * last writes would get no answer: it makes them now, and later ones fail.
 */
static bool
may_go (const struct options *o, const struct device *d, bool connected)
{
  char path[32], mounted[400];

  if (becomes_unused (d))
    return true;
  snprintf (path, sizeof path, "/dev/nbd%u", d->number);
  if (mount_find (path, mounted, sizeof mounted))
    fprintf (stderr, "weft-attach: array %s: %s; umount that first\n", o->name,
             mounted);
  else
    fprintf (stderr,
             "weft-attach: array %s: %s is in use; lsblk %s shows by whom\n",
             o->name, path, path);
  if (!host_goes_down ())
    return false;
  if (connected)
    sync ();
  if (!becomes_unused (d))
    fprintf (stderr,
             "weft-attach: array %s: /dev/nbd%u is still in use and "
             "goes, as this host goes down\n",
             o->name, d->number);
  return true;
}

/* The kernel would keep them until somebody opens the device again. */
static void
drop_partitions (int fd)
{
  for (int i = 1; i <= PARTITIONS_MAX; i++) {
    struct blkpg_partition one = { .pno = i };
    struct blkpg_ioctl_arg arg = { .op = BLKPG_DEL_PARTITION,
                                   .datalen = sizeof one,
                                   .data = &one };

    ioctl (fd, BLKPG, &arg);
  }
}

/* Without a connection nothing can be flushed any more. */
static int
detach (const struct options *o, struct device *d, bool connected)
{
  char link[160], path[32];
  int fd;

  notify_stopping ();
  if (!may_go (o, d, connected))
    return EXIT_FAILURE;
  snprintf (path, sizeof path, "/dev/nbd%u", d->number);
  /* The page cache is written to the array, as far as possible.  The device is
   * opened for reading, because udev takes the close of a writable descriptor
   * for a write.
   */
  fd = connected ? open (path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd != -1) {
    if (fsync (fd) == -1)
      fprintf (stderr,
               "weft-attach: %s: the last writes could not be flushed: %s\n",
               path, strerror (errno));
    ioctl (fd, BLKFLSBUF, 0);
    drop_partitions (fd);
    close (fd);
  }
  if (!connected)
    fprintf (stderr,
             "weft-attach: array %s: detached without its array process: "
             "unflushed writes are lost\n",
             o->name);
  snprintf (link, sizeof link, LINKS "/%s", o->name);
  unlink (link);
  if (device_disconnect (d) == -1)
    return EXIT_FAILURE;
  unlink (o->client_file);
  return EXIT_SUCCESS;
}

/* The array process has ended: another one takes its place. */
static bool
reconnect (const struct options *o, int signals, struct device *d,
           uint64_t size, struct server *s)
{
  fprintf (stderr,
           "weft-attach: array %s: its array process has ended; "
           "requests wait for the next\n",
           o->name);
  if (!connect_patiently (o, signals, s))
    return false;
  if (s->size != size)
    fprintf (stderr,
             "weft-attach: array %s: had %llu bytes and has %llu now; "
             "not connected again\n",
             o->name, (unsigned long long) size, (unsigned long long) s->size);
  else {
    for (unsigned i = 0; i < SETTLE_TIMES; i++) {
      poll (NULL, 0, SETTLE_MS);
      device_reconnect (d, s->socket);
    }
    fprintf (stderr, "weft-attach: array %s: process %d serves it now\n",
             o->name, s->pid);
  }
  return true;
}

static int
serve (const struct options *o, int signals, struct device *d, int process)
{
  char path[48], sectors[24];
  uint64_t size = 0;

  snprintf (path, sizeof path, "/sys/block/nbd%u/size", d->number);
  if (file_line (path, sectors, sizeof sectors))
    size = strtoull (sectors, NULL, 10) * 512;
  notify_ready ();
  for (;;) {
    struct pollfd p[2] = { { .fd = signals, .events = POLLIN },
                           { .fd = process, .events = POLLIN } };
    struct server s;

    if (poll (p, 2, -1) == -1 && errno != EINTR)
      return EXIT_FAILURE;
    if (p[0].revents)
      return detach (o, d, true);
    if (p[1].revents == 0)
      continue;
    close (process);
    if (!reconnect (o, signals, d, size, &s))
      return detach (o, d, false);
    close (s.socket);
    process = s.process;
  }
}

int
main (int argc, char **argv)
{
  struct options o = { NULL };
  struct device d;
  struct server s;
  char owner[80];
  sigset_t set;
  int signals, r = parse_options (argc, argv, &o);

  if (r != -1)
    return r;
  sigemptyset (&set);
  sigaddset (&set, SIGTERM);
  sigaddset (&set, SIGINT);
  sigprocmask (SIG_BLOCK, &set, NULL);
  signal (SIGPIPE, SIG_IGN);
  signals = signalfd (-1, &set, SFD_CLOEXEC);
  if (signals == -1) {
    perror ("weft-attach: signalfd");
    return EXIT_FAILURE;
  }
  snprintf (owner, sizeof owner, "weft/%s", o.name);
  if (device_init (&d, owner) == -1)
    return EXIT_FAILURE;
  /* That of a device that is gone would be refused if the node was fenced since. */
  if (!device_find (&d))
    unlink (o.client_file);
  if (!connect_patiently (&o, signals, &s))
    return EXIT_SUCCESS;
  if (o.service && !o.force && !device_find (&d)) {
    r = look (&o, signals, &s);
    if (r != EXIT_SUCCESS)
      return told_to_end (signals, 0) ? EXIT_SUCCESS : r;
    if (!connect_patiently (&o, signals, &s))
      return EXIT_SUCCESS;
  }
  /* A device that an earlier weft-attach has left: its connection is that of the
   * array process of today, and then it stays, or of one that has ended.
   */
  if (device_find (&d))
    r = device_reconnect (&d, s.socket);
  else
    r = device_connect (&d, s.socket, s.size, s.flags);
  if (r == -1 || link_make (&o, &d) == -1)
    return EXIT_FAILURE;
  device_announce (&d);
  close (s.socket);
  return serve (&o, signals, &d, s.process);
}
