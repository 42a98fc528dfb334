/* ctl-device.h: a block device over an NBD URI.
 *
 * The device is made in one of two ways: by the kernel's own NBD client
 * (nbd-client), or, where the kernel has none, by nbdfuse, which shows the
 * array as a file, and a loop device over that file.  Either way the device
 * passes FLUSH, FUA and discard on.
 *
 * No request of a device has a time limit: a file system waits as long as the
 * array process waits, as for a local disk.
 */

#ifndef WEFT_CTL_DEVICE_H
#define WEFT_CTL_DEVICE_H

#include "record.h"

/* Has this kernel an NBD client?  Loads its module where there is one. */
bool device_kernel_nbd (void);

/* Does weft-attach keep this array attached?  The name of its device. */
bool device_kept (const char *array, char device[64]);

/* Make a device over r->uri and record it.  EXIT_OK, or a status with the
 * reason said; device_close undoes what was done till then.
 */
int device_open_nbd (struct ctl *ctl, struct record *r);
int device_open_loop (struct ctl *ctl, struct record *r, unsigned connections);

/* Is the recorded device there, and ours? */
bool device_present (const struct record *r);

/* Is the device dead: does each read from it fail?  The errno, or 0; 0 as well
 * if a read has no answer in a moment, because it may wait for a member.
 */
int device_dead (const char *device);

/* Show the partitions that are on the device, if there are any. */
void device_find_partitions (const struct record *r);

/* EXIT_OK when nobody uses the device; EXIT_FAILED, said who does. */
int device_check_unused (const struct record *r);

/* Write back all that the kernel holds for it.  EXIT_OK, or said why not. */
int device_flush (const struct record *r);

/* Undo what device_open_* did, as far as it did; can be called again. */
int device_close (struct ctl *ctl, struct record *r);

#endif /* WEFT_CTL_DEVICE_H */
