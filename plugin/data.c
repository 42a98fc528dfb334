/* data.c: I/O on a member's data area.
 *
 * A zeroed range must read as zeroes afterwards on every kind of disk, because
 * the copies of an array are compared byte by byte.  fallocate promises that,
 * on files and on block devices (discards promise nothing, and are not used);
 * where it does not work, zeroes are written.
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/uio.h>
#include <unistd.h>

#include <linux/falloc.h>

#include "data.h"
#include "whole.h"

/* A run of data that was found in the disk of this process.  To find where one ends
 * the kernel walks through all of it, on some file systems page by page, and a
 * rebuild asks for one extent after the other.  Writing makes no hole, so the run
 * holds until try_fallocate makes one.
 */
static struct {
  pthread_mutex_t lock;
  off_t from, end;
  uint64_t holes; /* how many were made */
} run = { .lock = PTHREAD_MUTEX_INITIALIZER };

int
data_read (const struct disk *d, void *buf, uint64_t bytes, uint64_t offset)
{
  return whole_read (d->data_fd, buf, bytes, d->sb.data_offset + offset);
}

static int
write_at (const struct disk *d, const void *buf, uint64_t bytes,
          uint64_t offset)
{
  return whole_write (d->data_fd, buf, bytes, d->sb.data_offset + offset, 0);
}

static int
write_stable (const struct disk *d, const void *buf, uint64_t bytes,
              uint64_t offset)
{
  int fd = disk_sync_take (d);
  int err = whole_write (fd, buf, bytes, d->sb.data_offset + offset, RWF_DSYNC);

  disk_sync_give (d, fd);
  return err;
}

static int
write_zeroes (const struct disk *d, uint64_t bytes, uint64_t offset)
{
  static const char zeroes[256 * 1024];

  while (bytes > 0) {
    uint64_t n = bytes < sizeof zeroes ? bytes : sizeof zeroes;
    int err = write_at (d, zeroes, n, offset);

    if (err)
      return err;
    offset += n;
    bytes -= n;
  }
  return 0;
}

/* Returns 0, or the errno that says that it must be done in another way. */
static int
try_fallocate (const struct disk *d, int mode, uint64_t bytes, uint64_t offset)
{
  int err = 0;

  while (err == 0 && bytes > 0) {
    uint64_t n = bytes < REQUEST_BYTES_MAX ? bytes : REQUEST_BYTES_MAX;
    uint64_t at = d->sb.data_offset + offset;
    int r;

    whole_begin (at, n);
    do
      r = fallocate (d->data_fd, mode | FALLOC_FL_KEEP_SIZE, at, n);
    while (r == -1 && errno == EINTR);
    err = r == -1 ? errno : 0;
    whole_end (at, n);
    offset += n;
    bytes -= n;
  }
  pthread_mutex_lock (&run.lock);
  run.from = run.end = 0;
  run.holes++;
  pthread_mutex_unlock (&run.lock);
  return err;
}

static int
zero_at (const struct disk *d, uint64_t bytes, uint64_t offset, bool may_trim)
{
  uint64_t head = 0, tail = 0;
  int err;

  /* Block devices zero whole sectors only; 4096 is as large as they come. */
  if (d->block_device) {
    head = -offset % 4096;
    if (head > bytes)
      head = bytes;
    tail = (bytes - head) % 4096;
  }
  err = write_zeroes (d, head, offset);
  if (err == 0)
    err = write_zeroes (d, tail, offset + bytes - tail);
  bytes -= head + tail;
  offset += head;
  if (err || bytes == 0)
    return err;
  if (may_trim && try_fallocate (d, FALLOC_FL_PUNCH_HOLE, bytes, offset) == 0)
    return 0;
  if (try_fallocate (d, FALLOC_FL_ZERO_RANGE, bytes, offset) == 0)
    return 0;
  return write_zeroes (d, bytes, offset);
}

/* A write that must be stable at once is written to a file twice: see
 * disk_write_header.  A part of a block is, too: that the rest of it can't be
 * read is no error of a sync.
 */
int
data_change (const struct disk *d, const struct batch_record *r, bool sync,
             enum errors_place *place)
{
  uint64_t parts[2];
  bool twice = !d->block_device || bad_parts (r->offset, r->length, parts) > 0;
  int err = 0;

  *place = r->kind == BATCH_WRITE  ? ERRORS_WRITE
           : r->kind == BATCH_TRIM ? ERRORS_TRIM
                                   : ERRORS_ZERO;
  if (r->kind != BATCH_WRITE)
    err = zero_at (d, r->length, r->offset, r->kind == BATCH_TRIM);
  else if (!sync || twice)
    err = write_at (d, r->payload, r->length, r->offset);
  if (err || !sync)
    return err;
  *place = ERRORS_SYNC;
  return r->kind == BATCH_WRITE
           ? write_stable (d, r->payload, r->length, r->offset)
           : data_flush (d);
}

int
data_flush (const struct disk *d)
{
  int fd = disk_sync_take (d), err = fdatasync (fd) == -1 ? errno : 0;

  disk_sync_give (d, fd);
  return err;
}

/* Where the run of data that was found last ends, if `at` lies in it, else 0.
 * *holes: as of now.
 */
static off_t
run_known (off_t at, uint64_t *holes)
{
  off_t end;

  pthread_mutex_lock (&run.lock);
  end = at >= run.from && at < run.end ? run.end : 0;
  *holes = run.holes;
  pthread_mutex_unlock (&run.lock);
  return end;
}

/* Keep it, unless a hole was made since the answer of `holes`. */
static void
run_keep (off_t from, off_t end, uint64_t holes)
{
  pthread_mutex_lock (&run.lock);
  if (run.holes == holes) {
    run.from = from;
    run.end = end;
  }
  pthread_mutex_unlock (&run.lock);
}

/* Where the run that `at` lies in ends, and whether it is a hole.  Offsets are
 * those of the file here.  Returns the end.
 */
static off_t
run_end (const struct disk *d, off_t at, off_t end, bool *hole)
{
  uint64_t holes;
  off_t next;

  *hole = false;
  if (d->block_device)
    return end;
  next = run_known (at, &holes);
  if (next == 0) {
    next = lseek (d->data_fd, at, SEEK_DATA);
    if (next == -1) {
      *hole = errno == ENXIO; /* no data from here on; else: it cannot tell */
      return end;
    }
    if (next > at) {
      *hole = true;
      return next < end ? next : end;
    }
    next = lseek (d->data_fd, at, SEEK_HOLE);
    if (next > at)
      run_keep (at, next, holes);
  }
  return next == -1 || next > end ? end : next;
}

int
data_extents (const struct disk *d, uint64_t bytes, uint64_t offset, bool one,
              struct nbdkit_extents *extents)
{
  off_t at = d->sb.data_offset + offset, end = at + bytes;

  while (at < end) {
    bool hole;
    off_t next = run_end (d, at, end, &hole);

    if (next <= at) /* the file has changed meanwhile */
      next = end, hole = false;
    if (nbdkit_add_extent (extents, at - d->sb.data_offset, next - at,
                           hole ? NBDKIT_EXTENT_HOLE | NBDKIT_EXTENT_ZERO
                                : 0) == -1)
      return errno ? errno : ENOMEM;
    if (one)
      break;
    at = next;
  }
  return 0;
}
