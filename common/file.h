/* file.h: all of so many bytes of a file, and not less.
 *
 * Each returns 0 or an errno; EIO where the file ends before.
 */

#ifndef WEFT_FILE_H
#define WEFT_FILE_H

#include <stddef.h>
#include <stdint.h>

int file_read (int fd, void *buf, size_t bytes, uint64_t offset);
/* The flags are pwritev2's. */
int file_write (int fd, const void *buf, size_t bytes, uint64_t offset,
                int flags);

#endif /* WEFT_FILE_H */
