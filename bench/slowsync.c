/* slowsync.c: a disk of one's own that takes its time to sync, by LD_PRELOAD.
 *
 * Members' files lie in memory, and whatever makes something stable takes
 * WEFT_SYNC_US microseconds.  A disk does that once at a time, and who comes
 * meanwhile shares the next turn with all others: so the kernel does with the
 * flushes of a disk.  So what is measured is how many syncs a client waits for, one
 * after the other, where no other work is in the way, and each member has its disk.
 */

#define _GNU_SOURCE 1

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t over = PTHREAD_COND_INITIALIZER;
static uint64_t begun, done; /* turns */

static void
wait_a_turn (void)
{
  const char *us = getenv ("WEFT_SYNC_US");
  struct timespec time = { .tv_nsec = us ? atol (us) * 1000 % 1000000000 : 0 };
  uint64_t turn;

  pthread_mutex_lock (&lock);
  turn = begun + 1;
  while (done < turn)
    if (begun > done)
      pthread_cond_wait (&over, &lock);
    else {
      begun++;
      pthread_mutex_unlock (&lock);
      nanosleep (&time, NULL);
      pthread_mutex_lock (&lock);
      done = begun;
      pthread_cond_broadcast (&over);
    }
  pthread_mutex_unlock (&lock);
}

int
fdatasync (int fd)
{
  wait_a_turn ();
  return 0;
}

int
fsync (int fd)
{
  return fdatasync (fd);
}

ssize_t
pwritev2 (int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
  ssize_t (*real) (int, const struct iovec *, int, off_t,
                   int) = dlsym (RTLD_NEXT, "pwritev2");
  ssize_t r = real (fd, iov, count, offset, flags);

  if (r >= 0 && flags & RWF_DSYNC)
    wait_a_turn ();
  return r;
}
