/* test-attach-server.c: weft-attach, root's, in the folder of the user of arrays.
 *
 * The process number and the socket there are whatever that user has made of them.
 */

#include <config.h>

#include <assert.h>
#include <stdlib.h>

/* The tested functions are static. */
#include "../../attach/server.c"

#define OTHER 65534

static char folder[] = "/tmp/test-attach-server-XXXXXX";

static const char *
path_of (const char *name)
{
  static char paths[4][80];
  static unsigned next;
  char *path = paths[next++ % 4];

  snprintf (path, 80, "%s/%s", folder, name);
  return path;
}

static void
write_pid (const char *name, int number, uid_t owner)
{
  FILE *f = fopen (path_of (name), "w");

  assert (f && fprintf (f, "%d\n", number) > 0 && fclose (f) == 0);
  assert (chown (path_of (name), owner, owner) == 0);
}

static bool
opens (const char *name, int error)
{
  int pid = 0, fd = process_open (path_of (name), &pid);

  assert (fd != -1 || errno == error);
  assert (fd == -1 || pid == getpid ());
  if (fd != -1)
    close (fd);
  return fd != -1;
}

static void
test_process (void)
{
  write_pid ("ours", getpid (), 0);
  write_pid ("theirs", getpid (), OTHER);
  write_pid ("zero", 0, 0);
  write_pid ("all", -1, 0);
  assert (symlink ("ours", path_of ("link")) == 0);
  assert (mkfifo (path_of ("fifo"), 0600) == 0);
  assert (opens ("ours", 0));
  assert (!opens ("theirs", EPERM));
  assert (!opens ("link", ELOOP));
  assert (!opens ("fifo", ESRCH));
  assert (!opens ("zero", ESRCH));
  assert (!opens ("all", ESRCH));
  assert (!opens ("missing", ENOENT));
}

/* Binds and listens. */
static int
listens_at (const char *name)
{
  struct sockaddr_un sun = { .sun_family = AF_UNIX };
  int fd = socket (AF_UNIX, SOCK_STREAM, 0);

  snprintf (sun.sun_path, sizeof sun.sun_path, "%s", path_of (name));
  assert (fd != -1 && bind (fd, (struct sockaddr *) &sun, sizeof sun) == 0 &&
          listen (fd, 1) == 0);
  return fd;
}

static bool
connects (const char *name)
{
  struct sockaddr_un sun = { 0 };
  int found = -1, r = socket_find (path_of (name), &sun, &found);
  int fd = socket (AF_UNIX, SOCK_STREAM, 0);

  assert (r == -1 || connect (fd, (struct sockaddr *) &sun, sizeof sun) == 0);
  close (fd);
  if (found != -1)
    close (found);
  return r == 0;
}

static void
test_socket (void)
{
  int listener = listens_at ("socket");

  assert (symlink ("socket", path_of ("to-socket")) == 0);
  assert (connects ("socket"));
  assert (!connects ("to-socket"));
  assert (!connects ("ours"));
  assert (!connects ("missing"));
  close (listener);
}

int
main (void)
{
  char command[80];

  assert (geteuid () == 0 && mkdtemp (folder));
  test_process ();
  test_socket ();
  snprintf (command, sizeof command, "rm -rf %s", folder);
  assert (system (command) == 0);
  return 0;
}
