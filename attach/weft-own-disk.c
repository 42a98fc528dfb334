/* weft-own-disk.c: gives a disk to the user that serves it.
 *
 * The unit of a disk runs this as root before nbdkit.  The name of the disk is an
 * administrator's, but the folders and links on the way to it may be another user's, who
 * could put another file there.  Such a name is refused, and so is what is neither a block
 * device nor a regular file.  A file that another user made, or can name, is refused, too:
 * that user may have it open, and would go on to read and write it.
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/folder.h"

static int
fail (const char *path, const char *why)
{
  fprintf (stderr,
           "weft-own-disk: %s: is not given to the user that serves it: %s\n",
           path, why);
  return EXIT_FAILURE;
}

/* Others are kept out of a file; the mode of a device is udev's. */
static int
give (int fd, const struct stat *st, uid_t user)
{
  char self[32];

  snprintf (self, sizeof self, "/proc/self/fd/%d", fd);
  if (S_ISREG (st->st_mode) && chmod (self, 0600) == -1)
    return -1;
  return fchownat (fd, "", user, (gid_t) -1, AT_EMPTY_PATH);
}

int
main (int argc, char **argv)
{
  const struct passwd *user = argc == 3 ? getpwnam (argv[1]) : NULL;
  char name[FOLDER_NAME_BYTES], why[512];
  struct stat st;
  int folder, fd, r = EXIT_SUCCESS;

  if (user == NULL) {
    fputs ("usage: weft-own-disk USER DISK\n", stderr);
    return 2;
  }
  folder = folder_find (argv[2], name, why, sizeof why);
  if (folder == -1)
    return fail (argv[2], why);
  fd = openat (folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (fd == -1 || fstat (fd, &st) == -1)
    r = fail (argv[2], strerror (errno));
  else if (!S_ISBLK (st.st_mode) && !S_ISREG (st.st_mode))
    r = fail (argv[2], "it is neither a block device nor a file");
  else if (S_ISREG (st.st_mode) &&
           ((st.st_uid != 0 && st.st_uid != user->pw_uid) || st.st_nlink != 1))
    r = fail (argv[2], "the file belongs to another user, or has a second name "
                       "(a hard link), so another user may have it open; give "
                       "a file that root made, with one name");
  else if (give (fd, &st, user->pw_uid) == -1)
    r = fail (argv[2], strerror (errno));
  if (fd != -1)
    close (fd);
  close (folder);
  return r;
}
