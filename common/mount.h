/* mount.h: the mounts of a block device. */

#ifndef WEFT_MOUNT_H
#define WEFT_MOUNT_H

#include <stdbool.h>
#include <stddef.h>

/* Is the device, such as /dev/nbd0, or a partition of it mounted?  Puts which, and where,
 * into text: "/dev/nbd0p1 is still mounted on /mnt".
 */
bool mount_find (const char *device, char *text, size_t size);

#endif /* WEFT_MOUNT_H */
