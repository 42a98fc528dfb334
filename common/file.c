/* file.c: see file.h. */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "file.h"

int
file_read (int fd, void *buf, size_t bytes, uint64_t offset)
{
  char *p = buf;

  while (bytes > 0) {
    ssize_t r = pread (fd, p, bytes, offset);

    if (r == -1 && errno == EINTR)
      continue;
    if (r <= 0)
      return r == -1 ? errno : EIO;
    p += r;
    offset += r;
    bytes -= r;
  }
  return 0;
}

int
file_write (int fd, const void *buf, size_t bytes, uint64_t offset, int flags)
{
  const char *p = buf;

  while (bytes > 0) {
    struct iovec iov = { .iov_base = (char *) p, .iov_len = bytes };
    ssize_t r = pwritev2 (fd, &iov, 1, offset, flags);

    if (r == -1 && errno == EINTR)
      continue;
    if (r <= 0)
      return r == -1 ? errno : EIO;
    p += r;
    offset += r;
    bytes -= r;
  }
  return 0;
}

bool
file_line (const char *path, char *line, size_t size)
{
  int fd = open (path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd == -1 ? -1 : read (fd, line, size - 1);

  if (fd != -1)
    close (fd);
  line[n > 0 ? n : 0] = '\0';
  line[strcspn (line, "\n")] = '\0';
  return line[0] != '\0';
}
