/* flushfails.c: a disk whose flushes fail on demand, by LD_PRELOAD.
 *
 * For nbdkit's file plugin, which flushes by fdatasync.  While the file WEFT_FLUSH_TRIGGER
 * exists, each WEFT_FLUSH_EVERY-th call fails with the error number WEFT_FLUSH_ERROR.
 * tests/filterdisk.py uses it: nbdkit's error filter does not fail flushes.
 */

#define _GNU_SOURCE 1

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int
fdatasync (int fd)
{
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static unsigned calls;
  int (*real) (int) = dlsym (RTLD_NEXT, "fdatasync");
  unsigned call;

  if (access (getenv ("WEFT_FLUSH_TRIGGER"), F_OK) == -1)
    return real (fd);
  pthread_mutex_lock (&lock);
  call = ++calls;
  pthread_mutex_unlock (&lock);
  if (call % atoi (getenv ("WEFT_FLUSH_EVERY")) != 0)
    return real (fd);
  fprintf (stderr, "injecting an error\n");
  errno = atoi (getenv ("WEFT_FLUSH_ERROR"));
  return -1;
}
