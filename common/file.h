/* file.h: read or write a part of a file as a whole. */

#ifndef WEFT_FILE_H
#define WEFT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Both return 0 or an errno; EIO where the file ends too early. */
int file_read (int fd, void *buf, size_t bytes, uint64_t offset);
/* The flags are pwritev2's. */
int file_write (int fd, const void *buf, size_t bytes, uint64_t offset,
                int flags);

/* The first line of a file of the kernel's, or as much of it as there is room for;
 * false: there is none.
 */
bool file_line (const char *path, char *line, size_t size);

#endif /* WEFT_FILE_H */
