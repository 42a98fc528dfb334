/* whole.c: see whole.h.
 *
 * The kernel copies from and to its page cache, and most file systems let a
 * read copy a range that a write is changing at that moment: the reader gets
 * the beginning of the new sector and the end of the old one.  (Of two writes
 * of one sector the kernel lets one be first, by a lock of the file or of the
 * page.)
 *
 * So the disk is cut into spans, and each has a word with two counts: of the
 * changes under way there, and of the changes that have ended.  A read is good
 * if no change was under way when it began and none has begun until it ended;
 * otherwise it reads that span again.  No lock is held meanwhile: a change
 * costs two additions to a word for each span, and a read two looks at it.
 *
 * A read that has met changes several times takes a turn, or it might never end
 * where changes follow each other without a gap.  A third count in the word
 * says how many reads have a turn.  While it is not 0, no change begins there;
 * a change that waits holds no other span, so no two changes can wait for each
 * other.  The read waits for the changes under way; a change that is made
 * stable at once (FUA) is under way until it is stable.
 *
 * Spans of all of the disk share a table.  If two spans have the same word, a
 * read may be repeated, or wait, without need; that is the only effect.  A span
 * is larger than a page: a request of 1 MiB has few of them, and other requests
 * seldom use the same word.
 */

#include <config.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "common/file.h"
#include "whole.h"

/* gcc warns that its ThreadSanitizer does not know fences.  The kernel does the
 * accesses that they order, where it does not look.
 */
#ifdef __SANITIZE_THREAD__
#pragma GCC diagnostic ignored "-Wtsan"
#endif

#define SPAN_BYTES 16384
#define SPANS 65536

/* Longer requests are cut, so that what they overlap waits less. */
#define PART_BYTES (16 * SPAN_BYTES)

/* So often a span is read again before the read takes a turn. */
#define TRIES 3

/* The word of a span: bits 0 to 15, 16 to 31, and the rest. */
#define CHANGE 1ULL          /* under way */
#define TURN (1ULL << 16)    /* a read that no change is to disturb */
#define CHANGED (1ULL << 32) /* has ended */
#define CHANGES (TURN - CHANGE)
#define TURNS (CHANGED - TURN)

static _Atomic uint64_t words[SPANS];

/* For those who wait until a count of a word is 0. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_none = PTHREAD_COND_INITIALIZER;

/* Neighbours have neighbouring words, and what lies 1 GiB apart has not the same. */
static _Atomic uint64_t *
word_of (uint64_t span)
{
  return &words[(span + span / SPANS * 40503) % SPANS];
}

static uint64_t
first_span (uint64_t offset)
{
  return offset / SPAN_BYTES;
}

/* Behind the last one. */
static uint64_t
end_span (uint64_t offset, uint64_t bytes)
{
  return (offset + bytes + SPAN_BYTES - 1) / SPAN_BYTES;
}

static void
wait_for_none (_Atomic uint64_t *word, uint64_t count)
{
  if ((atomic_load_explicit (word, memory_order_acquire) & count) == 0)
    return;
  pthread_mutex_lock (&lock);
  while (atomic_load_explicit (word, memory_order_acquire) & count)
    pthread_cond_wait (&is_none, &lock);
  pthread_mutex_unlock (&lock);
}

static void
tell_none (void)
{
  pthread_mutex_lock (&lock);
  pthread_cond_broadcast (&is_none);
  pthread_mutex_unlock (&lock);
}

/* ---- Changes ---- */

/* `ended`: CHANGED where something may have been changed. */
static void
leave (uint64_t span, uint64_t end, uint64_t ended)
{
  for (; span < end; span++) {
    uint64_t was = atomic_fetch_add_explicit (word_of (span), ended - CHANGE,
                                              memory_order_release);

    if (was & TURNS && (was & CHANGES) == CHANGE)
      tell_none ();
  }
}

void
whole_begin (uint64_t offset, uint64_t bytes)
{
  uint64_t first = first_span (offset), end = end_span (offset, bytes);
  uint64_t span = first;

  while (span < end) {
    _Atomic uint64_t *word = word_of (span++);

    if (atomic_fetch_add_explicit (word, CHANGE, memory_order_acquire) &
        TURNS) {
      leave (first, span, 0);
      wait_for_none (word, TURNS);
      span = first;
    }
  }
  /* A reader that sees anything of the change finds it counted. */
  atomic_thread_fence (memory_order_release);
}

void
whole_end (uint64_t offset, uint64_t bytes)
{
  leave (first_span (offset), end_span (offset, bytes), CHANGED);
}

/* Up to the next border of parts. */
static size_t
part (size_t bytes, uint64_t offset)
{
  uint64_t most = PART_BYTES - offset % PART_BYTES;

  return bytes < most ? bytes : most;
}

int
whole_write (int fd, const void *buf, size_t bytes, uint64_t offset, int flags)
{
  const char *p = buf;
  int err = 0;

  while (err == 0 && bytes > 0) {
    /* A write that is made stable is not cut: each part would wait for the
     * disk.
     */
    size_t n = flags ? bytes : part (bytes, offset);

    whole_begin (offset, n);
    err = file_write (fd, p, n, offset, flags);
    whole_end (offset, n);
    p += n;
    offset += n;
    bytes -= n;
  }
  return err;
}

/* ---- Reads ---- */

static uint64_t
look (uint64_t span)
{
  return atomic_load_explicit (word_of (span), memory_order_acquire) & ~TURNS;
}

/* After the reading. */
static bool
undisturbed (uint64_t span, uint64_t seen)
{
  return (seen & CHANGES) == 0 && look (span) == seen;
}

/* All of it is in this span.  Returns 0 or an errno. */
static int
read_again (int fd, void *buf, size_t bytes, uint64_t offset, uint64_t span)
{
  _Atomic uint64_t *word = word_of (span);
  int err;

  for (unsigned i = 0; i < TRIES; i++) {
    uint64_t seen = look (span);

    if (seen & CHANGES) {
      sched_yield ();
      continue;
    }
    err = file_read (fd, buf, bytes, offset);
    atomic_thread_fence (memory_order_acquire);
    if (err || undisturbed (span, seen))
      return err;
  }
  atomic_fetch_add_explicit (word, TURN, memory_order_acquire);
  wait_for_none (word, CHANGES);
  err = file_read (fd, buf, bytes, offset);
  if ((atomic_fetch_sub_explicit (word, TURN, memory_order_release) & TURNS) ==
      TURN)
    tell_none ();
  return err;
}

static int
read_part (int fd, char *buf, size_t bytes, uint64_t offset)
{
  uint64_t first = first_span (offset), end = end_span (offset, bytes);
  uint64_t seen[PART_BYTES / SPAN_BYTES];
  int err;

  for (uint64_t span = first; span < end; span++)
    seen[span - first] = look (span);
  err = file_read (fd, buf, bytes, offset);
  atomic_thread_fence (memory_order_acquire);
  for (uint64_t span = first; err == 0 && span < end; span++)
    if (!undisturbed (span, seen[span - first])) {
      uint64_t from = span * SPAN_BYTES, to = from + SPAN_BYTES;

      if (from < offset)
        from = offset;
      if (to > offset + bytes)
        to = offset + bytes;
      err = read_again (fd, buf + (from - offset), to - from, from, span);
    }
  return err;
}

int
whole_read (int fd, void *buf, size_t bytes, uint64_t offset)
{
  char *p = buf;
  int err = 0;

  while (err == 0 && bytes > 0) {
    size_t n = part (bytes, offset);

    err = read_part (fd, p, n, offset);
    p += n;
    offset += n;
    bytes -= n;
  }
  return err;
}
