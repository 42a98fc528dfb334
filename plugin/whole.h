/* whole.h: a sector (512 bytes) of the data area is read whole: as some write
 * left it.
 *
 * Offsets are those of the disk's file.  A process serves one disk, so there is
 * one of all this.  All changes and reads of data go through here.
 */

#ifndef WEFT_WHOLE_H
#define WEFT_WHOLE_H

#include <stddef.h>
#include <stdint.h>

/* As file_read and file_write.  A read waits for a write only where the two overlap, or
 * nearly so.
 */
int whole_read (int fd, void *buf, size_t bytes, uint64_t offset);
int whole_write (int fd, const void *buf, size_t bytes, uint64_t offset,
                 int flags);

/* Around a change of data by other means: at most REQUEST_BYTES_MAX, and
 * briefly, because reads there wait for the end.  Begin may wait, too.
 */
void whole_begin (uint64_t offset, uint64_t bytes);
void whole_end (uint64_t offset, uint64_t bytes);

#endif /* WEFT_WHOLE_H */
