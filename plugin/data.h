/* data.h: I/O on a member's data area.
 *
 * Offsets count from the start of the data area; ranges must lie within it.
 * Everything is buffered by the kernel until it is flushed.  Each function
 * returns 0 or an errno, and may be called by any number of threads.
 */

#ifndef WEFT_DATA_H
#define WEFT_DATA_H

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "format/batch.h"
#include "common/disk.h"
#include "member/errors.h"

int data_read (const struct disk *d, void *buf, uint64_t bytes,
               uint64_t offset);

/* Write, zero or trim as the record says (not CLEAR).  With `sync` it is on
 * stable storage when this returns.  *place: where the error came from.
 */
int data_change (const struct disk *d, const struct batch_record *r, bool sync,
                 enum errors_place *place);

int data_flush (const struct disk *d);

/* Describe the range to nbdkit: at least its beginning, with `one` just the
 * first extent.
 */
int data_extents (const struct disk *d, uint64_t bytes, uint64_t offset,
                  bool one, struct nbdkit_extents *extents);

#endif /* WEFT_DATA_H */
