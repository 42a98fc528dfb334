/* file.h: read or write a part of a file as a whole.
 *
 * Each function returns 0 or an errno; EIO where the file ends too early.
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
