/* device.c: see device.h. */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/nbd-netlink.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/netlink.h>

#include "common/file.h"
#include "device.h"

/* Seconds; the kernel counts in jiffies, in 64 bits. */
#define DEAD_CONNECTION_S (100ULL * 365 * 24 * 3600)
/* The logical block of every device of an array, however it is attached (weft-attach(8)
 * "BLOCK SIZE"): the numbers in a partition table count such blocks.
 */
#define BLOCK_BYTES 512
/* After so long without an answer the kernel looks whether the connection of a
 * request has been replaced, and sends it again if so; else it says so in its
 * log, and waits on.
 */
#define LOOK_MS "10000"
#define LOOK_MS_DEFAULT "30000"

static int
fail (const char *what, int error)
{
  fprintf (stderr, "weft-attach: %s: %s\n", what, nl_geterror (error));
  return -1;
}

int
device_init (struct device *d, const char *owner)
{
  int r;

  snprintf (d->owner, sizeof d->owner, "%s", owner);
  d->netlink = nl_socket_alloc ();
  if (d->netlink == NULL)
    return fail ("netlink", NLE_NOMEM);
  r = genl_connect (d->netlink);
  if (r < 0)
    return fail ("netlink", r);
  d->family = genl_ctrl_resolve (d->netlink, NBD_GENL_FAMILY_NAME);
  if (d->family < 0) {
    fprintf (stderr, "weft-attach: this kernel has no nbd, or its module is "
                     "not loaded: modprobe nbd\n");
    return -1;
  }
  return 0;
}

bool
device_find (struct device *d)
{
  for (unsigned n = 0;; n++) {
    char path[64], owner[80];

    snprintf (path, sizeof path, "/sys/block/nbd%u", n);
    if (access (path, F_OK) == -1)
      return false;
    /* The file is there only while the device is connected. */
    snprintf (path, sizeof path, "/sys/block/nbd%u/backend", n);
    if (file_line (path, owner, sizeof owner) &&
        strcmp (owner, d->owner) == 0) {
      d->number = n;
      return true;
    }
  }
}

/* A step that is not necessary: a failure is logged, and nothing else. */
static void
sysfs_write (const struct device *d, const char *file, const char *text)
{
  char path[64];
  FILE *f;

  snprintf (path, sizeof path, "/sys/block/nbd%u/%s", d->number, file);
  f = fopen (path, "we");
  if (f == NULL || fputs (text, f) == EOF || fflush (f) == EOF)
    fprintf (stderr, "weft-attach: %s: %s\n", path, strerror (errno));
  if (f)
    fclose (f);
}

void
device_announce (const struct device *d)
{
  sysfs_write (d, "uevent", "change");
}

/* ---- Messages ---- */

static struct nl_msg *
message_new (const struct device *d, uint8_t command)
{
  struct nl_msg *m = nlmsg_alloc ();

  if (m == NULL ||
      !genlmsg_put (m, NL_AUTO_PORT, NL_AUTO_SEQ, d->family, 0, 0, command, 0))
    abort ();
  return m;
}

static void
put_socket (struct nl_msg *m, int socket)
{
  struct nlattr *all = nla_nest_start (m, NBD_ATTR_SOCKETS);
  struct nlattr *one = nla_nest_start (m, NBD_SOCK_ITEM);

  if (all == NULL || one == NULL ||
      nla_put_u32 (m, NBD_SOCK_FD, (uint32_t) socket) < 0)
    abort ();
  nla_nest_end (m, one);
  nla_nest_end (m, all);
}

/* Its reply says which device the kernel has chosen. */
static int
take_index (struct nl_msg *m, void *opaque)
{
  struct device *d = opaque;
  struct nlattr *attrs[NBD_ATTR_MAX + 1];

  if (genlmsg_parse (nlmsg_hdr (m), 0, attrs, NBD_ATTR_MAX, NULL) == 0 &&
      attrs[NBD_ATTR_INDEX])
    d->number = nla_get_u32 (attrs[NBD_ATTR_INDEX]);
  return NL_OK;
}

/* Send it, free it, and wait for the kernel's word. */
static int
message_send (struct device *d, struct nl_msg *m, const char *what)
{
  int r;

  nl_socket_modify_cb (d->netlink, NL_CB_VALID, NL_CB_CUSTOM, take_index, d);
  r = nl_send_sync (d->netlink, m);
  return r < 0 ? fail (what, r) : 0;
}

int
device_connect (struct device *d, int socket, uint64_t size, uint64_t flags)
{
  struct nl_msg *m = message_new (d, NBD_CMD_CONNECT);

  if (nla_put_u64 (m, NBD_ATTR_SIZE_BYTES, size) < 0 ||
      nla_put_u64 (m, NBD_ATTR_BLOCK_SIZE_BYTES, BLOCK_BYTES) < 0 ||
      nla_put_u64 (m, NBD_ATTR_SERVER_FLAGS, flags) < 0 ||
      nla_put_u64 (m, NBD_ATTR_DEAD_CONN_TIMEOUT, DEAD_CONNECTION_S) < 0 ||
      nla_put_string (m, NBD_ATTR_BACKEND_IDENTIFIER, d->owner) < 0)
    abort ();
  put_socket (m, socket);
  if (message_send (d, m, "making a block device") == -1)
    return -1;
  sysfs_write (d, "queue/io_timeout", LOOK_MS);
  return 0;
}

static struct nl_msg *
message_about (const struct device *d, uint8_t command)
{
  struct nl_msg *m = message_new (d, command);

  if (nla_put_u32 (m, NBD_ATTR_INDEX, d->number) < 0 ||
      nla_put_string (m, NBD_ATTR_BACKEND_IDENTIFIER, d->owner) < 0)
    abort ();
  return m;
}

int
device_reconnect (struct device *d, int socket)
{
  struct nl_msg *m = message_about (d, NBD_CMD_RECONFIGURE);

  put_socket (m, socket);
  return message_send (d, m, "a new connection for the block device");
}

int
device_disconnect (struct device *d)
{
  if (message_send (d, message_about (d, NBD_CMD_DISCONNECT),
                    "disconnecting the block device") == -1)
    return -1;
  sysfs_write (d, "queue/io_timeout", LOOK_MS_DEFAULT);
  device_announce (d);
  return 0;
}

bool
device_in_use (const struct device *d)
{
  char path[32];
  int fd;

  snprintf (path, sizeof path, "/dev/nbd%u", d->number);
  fd = open (path, O_RDONLY | O_EXCL | O_CLOEXEC);
  if (fd == -1)
    return errno == EBUSY;
  close (fd);
  return false;
}
