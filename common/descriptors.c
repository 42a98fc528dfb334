/* descriptors.c: see descriptors.h.
 *
 * Libraries do not pass on why they could not connect: libnbd says "could not
 * connect to remote host", curl "Couldn't connect to server", as if nobody were
 * there.
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "descriptors.h"

const char *
descriptors_short (char why[DESCRIPTORS_WHY_BYTES])
{
  struct rlimit limit;
  int fd = open ("/", O_PATH | O_CLOEXEC);

  if (fd != -1) {
    close (fd);
    return NULL;
  }
  if (errno == ENFILE)
    snprintf (why, DESCRIPTORS_WHY_BYTES,
              "too many open files on its host (sysctl "
              "fs.file-max raises the limit)");
  else if (errno == EMFILE && getrlimit (RLIMIT_NOFILE, &limit) == 0)
    snprintf (why, DESCRIPTORS_WHY_BYTES,
              "too many open files: process %d may have %llu "
              "(ulimit -n, or LimitNOFILE= in its unit, raises that)",
              (int) getpid (), (unsigned long long) limit.rlim_cur);
  else
    return NULL;
  return why;
}
