/* test-folder.c: files in folders that other users can, and cannot, change.
 *
 * Each way in which another user may interfere is tried by a table: owners, modes and
 * links, of what is on the way, of the folder itself and of a file in it.  The other user
 * is `nobody`; the test runs as root.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/folder.h"

#define OTHER 65534

static char base[64];
static char why[512];

static const char *
path_of (const char *name)
{
  static char paths[4][PATH_MAX];
  static unsigned next;
  char *path = paths[next++ % 4];

  snprintf (path, PATH_MAX, "%s/%s", base, name);
  return path;
}

static void
make_folder (const char *name, uid_t owner, mode_t mode)
{
  assert (mkdir (path_of (name), 0700) == 0 &&
          chown (path_of (name), owner, owner) == 0 &&
          chmod (path_of (name), mode) == 0);
}

static void
make_file (const char *name, uid_t owner)
{
  int fd = open (path_of (name), O_WRONLY | O_CREAT | O_EXCL, 0600);

  assert (fd != -1 && write (fd, "text", 4) == 4 &&
          fchown (fd, owner, owner) == 0);
  close (fd);
}

static void
make_link (const char *target, const char *name, uid_t owner)
{
  assert (symlink (target, path_of (name)) == 0 &&
          lchown (path_of (name), owner, owner) == 0);
}

/* Is the way to this path safe?  The name at its end is compared. */
static bool
found (const char *path, const char *last)
{
  char name[FOLDER_NAME_BYTES];
  int fd = folder_find (path, name, why, sizeof why);

  if (fd == -1) {
    assert (why[0]);
    return false;
  }
  assert (strcmp (name, last) == 0);
  close (fd);
  return true;
}

static void
test_ways (void)
{
  static const struct {
    uid_t owner;
    mode_t mode;
    bool safe;
  } ways[] = {
    { 0, 0700, true },      { 0, 0755, true },       { 0, 0775, false },
    { 0, 0757, false },     { 0, 01777, true },      { 0, 01775, true },
    { OTHER, 0700, false }, { OTHER, 01777, false }, { OTHER, 0755, false },
  };

  for (unsigned i = 0; i < sizeof ways / sizeof ways[0]; i++) {
    make_folder ("way", ways[i].owner, ways[i].mode);
    /* The group is OTHER's in each case. */
    assert (chown (path_of ("way"), ways[i].owner, OTHER) == 0);
    make_folder ("way/in", 0, 0700);
    assert (found (path_of ("way"), "way"));
    assert (found (path_of ("way/missing"), "missing") == ways[i].safe);
    assert (found (path_of ("way/in/missing"), "missing") == ways[i].safe);
    assert (found (path_of ("way/../way/in"), "in") == ways[i].safe);
    assert (rmdir (path_of ("way/in")) == 0 && rmdir (path_of ("way")) == 0);
  }
  /* The bits of root's own group may stand for an access control list. */
  make_folder ("way", 0, 0775);
  assert (!found (path_of ("way/x"), "x") && rmdir (path_of ("way")) == 0);
  assert (!found (path_of ("missing/x"), "x") && errno == ENOENT);
  assert (!found ("relative", "relative") && errno == EINVAL);
  assert (found ("/", "."));
}

static void
test_links (void)
{
  make_folder ("sticky", 0, 01777);
  make_folder ("ours", 0, 0700);
  make_folder ("theirs", OTHER, 0755);
  make_file ("ours/f", 0);
  make_link ("../ours", "sticky/by-us", 0);
  make_link ("../ours", "sticky/by-them", OTHER);
  make_link (path_of ("ours/f"), "sticky/file", 0);
  make_link (path_of ("ours/f"), "sticky/their-file", OTHER);
  make_link ("theirs", "to-them", 0);
  make_link ("loop", "loop", 0);
  make_link ("../ours/f", "theirs/root-made", 0);
  assert (found (path_of ("sticky/by-us/f"), "f"));
  assert (!found (path_of ("sticky/by-them/f"), "f"));
  assert (found (path_of ("sticky/file"), "f"));
  assert (!found (path_of ("sticky/their-file"), "f"));
  assert (found (path_of ("to-them"), "theirs"));
  assert (!found (path_of ("to-them/f"), "f"));
  assert (!found (path_of ("loop"), "loop") && errno == ELOOP);
  assert (!found (path_of ("theirs/root-made"), "f"));
}

static void
test_enter (void)
{
  char name[FOLDER_NAME_BYTES];
  int at = folder_find (path_of ("x"), name, why, sizeof why), fd;
  struct stat st;

  assert (at != -1);
  assert (folder_enter (at, "new", false, why, sizeof why) == -1 &&
          errno == ENOENT);
  fd = folder_enter (at, "new", true, why, sizeof why);
  assert (fd != -1 && fstat (fd, &st) == 0 && (st.st_mode & 07777) == 0700);
  close (fd);
  fd = folder_enter (at, "new", true, why, sizeof why);
  assert (fd != -1);
  close (fd);
  assert (folder_enter (at, "to-them", true, why, sizeof why) == -1);
  assert (folder_enter (at, "theirs", true, why, sizeof why) == -1 &&
          errno == EPERM);
  /* /tmp itself is no folder of ours. */
  assert (folder_enter (at, "sticky", true, why, sizeof why) == -1);
  make_link ("ours", "link", 0);
  assert (folder_enter (at, "link", true, why, sizeof why) == -1);
  close (at);
}

static void
check_text (const char *name, const char *wanted)
{
  char text[16];
  int fd = open (path_of (name), O_RDONLY);
  ssize_t n = fd == -1 ? -1 : read (fd, text, sizeof text);

  assert (n == (ssize_t) strlen (wanted) &&
          memcmp (text, wanted, (size_t) n) == 0);
  close (fd);
}

/* A file in the folder, whatever is there by its name. */
static void
test_files (void)
{
  int at = open (path_of ("ours"), O_RDONLY | O_DIRECTORY), fd;
  struct stat st;

  make_file ("ours/theirs", OTHER);
  make_link ("f", "ours/link", 0);
  make_link ("nowhere", "ours/dangling", 0);
  assert (mkfifo (path_of ("ours/fifo"), 0600) == 0);
  fd = folder_read (at, "f");
  assert (fd != -1);
  close (fd);
  assert (folder_read (at, "missing") == -1 && errno == ENOENT);
  assert (folder_read (at, "theirs") == -1 && errno == EPERM);
  assert (folder_read (at, "link") == -1 && errno == ELOOP);
  assert (folder_read (at, "fifo") == -1 && errno == EPERM);
  for (unsigned i = 0; i < 5; i++) {
    static const char *const names[] = { "theirs", "link", "dangling", "fifo",
                                         "new" };

    fd = folder_create (at, names[i], 0600);
    assert (fd != -1 && write (fd, "new", 3) == 3 && fstat (fd, &st) == 0);
    assert (S_ISREG (st.st_mode) && st.st_uid == 0 &&
            (st.st_mode & 07777) == 0600);
    close (fd);
  }
  check_text ("ours/f", "text");
  check_text ("ours/link", "new");
  assert (access (path_of ("ours/nowhere"), F_OK) == -1);
  close (at);
}

int
main (void)
{
  char command[128];

  umask (022);
  strcpy (base, "/tmp/test-folder-XXXXXX");
  assert (geteuid () == 0 && mkdtemp (base));
  test_ways ();
  test_links ();
  test_enter ();
  test_files ();
  snprintf (command, sizeof command, "rm -rf %s", base);
  assert (system (command) == 0);
  return 0;
}
