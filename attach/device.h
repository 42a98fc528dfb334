/* device.h: a device of the kernel's NBD client, made and kept by netlink.
 *
 * One connection and no request time-out: with several connections the kernel
 * sends what is not answered within 30 s again on another one, while the first
 * may still be carried out; with one it waits.  When the connection is dead,
 * requests wait for a new one without limit, and those that were under way are
 * sent again on it.
 *
 * Functions return 0, or -1 with the reason on stderr.
 */

#ifndef WEFT_DEVICE_H
#define WEFT_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

struct device {
  struct nl_sock *netlink;
  int family;
  char owner[80];  /* how it is found again, also by udev */
  unsigned number; /* of /dev/nbdN */
};

/* A device for `owner` that is not made yet. */
int device_init (struct device *d, const char *owner);
/* One that an earlier process has made for this owner? */
bool device_find (struct device *d);
/* Make one. */
int device_connect (struct device *d, int socket, uint64_t size,
                    uint64_t flags);
/* Give it a new connection in place of its dead one. */
int device_reconnect (struct device *d, int socket);
int device_disconnect (struct device *d);
/* Let udev look at it: the kernel told it of the device before it was whole. */
void device_announce (const struct device *d);
/* Somebody has it open: a file system, say. */
bool device_in_use (const struct device *d);

#endif /* WEFT_DEVICE_H */
