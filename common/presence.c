/* presence.c: see presence.h.
 *
 * The kernel sets the size of a disk that it removes to 0.  A partition keeps its
 * size, and so does a file of a file system that has ended (FUSE, NFS): there each
 * read fails, and the path leads somewhere else.
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linux/fs.h>

#include "presence.h"

/* Does the path lead to what is open? */
static bool
leads_here (const struct disk *d)
{
  struct stat ours, theirs;

  if (fstat (d->data_fd, &ours) == -1 || stat (d->path, &theirs) == -1)
    return false;
  return d->block_device
           ? S_ISBLK (theirs.st_mode) && theirs.st_rdev == ours.st_rdev
           : theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino;
}

bool
presence_lost (const struct disk *d, int error)
{
  uint64_t size = 0;

  if (d->block_device &&
      (ioctl (d->data_fd, BLKGETSIZE64, &size) == -1 || size == 0))
    return true;
  return error != 0 && !leads_here (d);
}

enum presence_found
presence_find (const struct disk *d)
{
  struct disk_content c = { .kind = DISK_BLANK };
  int fd = open (d->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  char why[512];

  if (fd == -1)
    return errno == EACCES || errno == EPERM ? PRESENCE_CLOSED
                                             : PRESENCE_NOTHING;
  close (fd);
  if (disk_probe (d->path, &c, why, sizeof why) == -1 || c.size == 0)
    return PRESENCE_NOTHING;
  return c.kind == DISK_WEFT && memcmp (c.sb.disk, d->sb.disk, 16) == 0
           ? PRESENCE_SAME
           : PRESENCE_OTHER;
}

const char *
presence_words (enum presence_found found)
{
  static const char *const words[] = {
    [PRESENCE_NOTHING] = "the disk is gone, and its path leads to no disk",
    [PRESENCE_OTHER] = "the disk is gone, and its path leads to another disk",
    [PRESENCE_CLOSED] = "the disk was gone, and its path leads to something "
                        "that this process may not open",
    [PRESENCE_SAME] = "the disk was gone, and is there again",
  };

  return words[found];
}
