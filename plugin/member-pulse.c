/* member-pulse.c: the thread that reads a block of the disk every PULSE_MS
 * (member/pulse.h).
 *
 * The thread reads the first superblock slot with O_DIRECT. Where the file
 * system has no O_DIRECT, the block is dropped from the page cache first.  The
 * disk's `stat` in /sys counts the requests that it has completed meanwhile; a
 * file on a file system without a disk of its own has no `stat`.
 *
 * By this read the thread also notices that the disk was removed.  If the path
 * leads to the same disk later, under another name perhaps, the thread ends the
 * process: a new process opens the disk (common/presence.h).
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/presence.h"
#include "hangup.h"
#include "member-role.h"
#include "member/pulse.h"
#include "role.h"

static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed; /* a clock_condition */
  struct pulse pulse;
  bool started, stopping;
  pthread_t thread;
  int fd;
  bool direct;
  char stat[80];
} pulse = { .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1 };

/* Returns 0 or an errno. */
static int
read_block (void)
{
  static _Alignas (SLOT_BYTES) uint8_t block[SLOT_BYTES];
  ssize_t n;

  if (!pulse.direct)
    posix_fadvise (pulse.fd, 0, sizeof block, POSIX_FADV_DONTNEED);
  n = pread (pulse.fd, block, sizeof block, 0);
  return n == -1 ? errno : 0; /* an error is an answer, too */
}

/* The disk is removed: where does its path lead?  The process ends when weftd
 * has the report: writes on their way to the disk are lost, and so the next
 * process must count as one that has kept nothing (docs/PROTOCOL.md P14).
 */
static void
look_for_disk (void)
{
  enum presence_found found = presence_find (server.disk);
  const char *words = presence_words (found);
  bool back = found == PRESENCE_SAME || found == PRESENCE_CLOSED, ends;

  if (words != server.gone)
    nbdkit_error ("%s: %s: %s", server.disk->path, words,
                  back ? "this process ends when weftd has heard of that, and "
                         "the next one opens it"
                       : "this member serves nothing until its disk is back");
  pthread_mutex_lock (&server.lock);
  server.gone = words;
  ends = back && server.gone_told;
  pthread_cond_broadcast (&server.changed);
  pthread_mutex_unlock (&server.lock);
  if (ends)
    hangup_end ();
}

static void *
beat (void *opaque)
{
  int err;

  pthread_setname_np (pthread_self (), "weft-pulse");
  pthread_mutex_lock (&pulse.lock);
  while (!pulse.stopping) {
    pulse_ask (&pulse.pulse, clock_ms ());
    pthread_mutex_unlock (&pulse.lock);
    err = read_block ();
    pthread_mutex_lock (&pulse.lock);
    pulse_answered (&pulse.pulse);
    pthread_mutex_unlock (&pulse.lock);
    if (server.gone || server_lost (err))
      look_for_disk ();
    pthread_mutex_lock (&pulse.lock);
    if (!pulse.stopping)
      clock_wait_ms (&pulse.changed, &pulse.lock, clock_ms () + PULSE_MS);
  }
  pthread_mutex_unlock (&pulse.lock);
  return NULL;
}

/* Reads, writes, discards and flushes that the disk has completed; 0: not known. */
static uint64_t
completed (void)
{
  uint64_t v[16] = { 0 };
  FILE *f = fopen (pulse.stat, "re");

  if (f == NULL)
    return 0;
  for (unsigned i = 0; i < 16 && fscanf (f, "%" SCNu64, &v[i]) == 1; i++)
    ;
  fclose (f);
  return v[0] + v[4] + v[11] + v[15];
}

uint64_t
member_pulse_stuck_ms (void)
{
  uint64_t ms, count = completed ();

  pthread_mutex_lock (&pulse.lock);
  ms = pulse_look (&pulse.pulse, clock_ms (), count);
  pthread_mutex_unlock (&pulse.lock);
  return ms;
}

/* The same disk, even if its path leads elsewhere by now. */
static int
open_disk (void)
{
  char self[64];
  struct stat st;
  dev_t dev;

  if (fstat (server.disk->data_fd, &st) == -1)
    return -1;
  dev = server.disk->block_device ? st.st_rdev : st.st_dev;
  snprintf (pulse.stat, sizeof pulse.stat, "/sys/dev/block/%u:%u/stat",
            major (dev), minor (dev));
  snprintf (self, sizeof self, "/proc/self/fd/%d", server.disk->data_fd);
  pulse.fd = open (self, O_RDONLY | O_CLOEXEC | O_DIRECT);
  pulse.direct = pulse.fd != -1;
  if (!pulse.direct)
    pulse.fd = open (self, O_RDONLY | O_CLOEXEC);
  return pulse.fd;
}

int
member_pulse_start (void)
{
  sigset_t all, old;
  int err;

  if (open_disk () == -1) {
    nbdkit_error ("%s cannot be opened once more: %m", server.disk->path);
    return -1;
  }
  clock_condition (&pulse.changed);
  sigfillset (&all); /* signals are for nbdkit's own threads */
  pthread_sigmask (SIG_SETMASK, &all, &old);
  err = pthread_create (&pulse.thread, NULL, beat, NULL);
  pthread_sigmask (SIG_SETMASK, &old, NULL);
  if (err) {
    nbdkit_error ("no thread to watch %s: %s", server.disk->path,
                  strerror (err));
    return -1;
  }
  pulse.started = true;
  return 0;
}

void
member_pulse_stop (void)
{
  if (pulse.started) {
    pthread_mutex_lock (&pulse.lock);
    pulse.stopping = true;
    pthread_cond_broadcast (&pulse.changed);
    pthread_mutex_unlock (&pulse.lock);
    pthread_join (pulse.thread, NULL);
  }
  pulse.started = false;
  if (pulse.fd != -1)
    close (pulse.fd);
  pulse.fd = -1;
}
