/* test-whole.c: no read finds half of a write.
 *
 * The disk is memory.  Each request is done in two halves, which meet in the middle of a
 * sector; between them each thread does what the scene wants.  A whole sector has one
 * number; a sector is torn if it has two.
 */

#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/bounds.h"
#include "common/clock.h"
#include "common/file.h"
#include "plugin/whole.h"
#include "test-random.h"

#define SECTOR 512
#define WORDS (SECTOR / 8)
#define DISK_BYTES MiB (2)
/* Where spans begin to have other words than those in front of them. */
#define DISK_AT (GiB (1) - DISK_BYTES / 2)
#define FD 5

/* How often a read is made before it takes a turn. */
#define READS_MAX 4

static _Atomic uint64_t disk[DISK_BYTES / 8];

static _Thread_local void (*halfway) (void);
static _Thread_local int error;      /* of what this thread asks next */
static _Thread_local unsigned reads; /* that it has made */

/* Between memory and the disk, as the kernel does it: one write is in a sector at a
 * time, and reads do not care.
 */
static int
copy (uint64_t *in, const uint64_t *out, size_t bytes, uint64_t offset)
{
  static pthread_mutex_t locks[DISK_BYTES / SECTOR];
  size_t first = (offset - DISK_AT) / SECTOR, sectors = bytes / SECTOR;

  assert (offset >= DISK_AT && offset + bytes <= DISK_AT + DISK_BYTES);
  assert (bytes > 0 && bytes % SECTOR == 0 && offset % SECTOR == 0);
  for (size_t s = 0; s < sectors; s++) {
    _Atomic uint64_t *at = &disk[(first + s) * WORDS];

    if (out)
      pthread_mutex_lock (&locks[first + s]);
    for (unsigned i = 0; i < WORDS; i++) {
      if (s == sectors / 2 && i == WORDS / 2 && halfway)
        halfway ();
      if (in)
        *in++ = atomic_load_explicit (&at[i], memory_order_relaxed);
      else
        atomic_store_explicit (&at[i], *out++, memory_order_relaxed);
    }
    if (out)
      pthread_mutex_unlock (&locks[first + s]);
  }
  return error;
}

int
file_read (int fd, void *buf, size_t bytes, uint64_t offset)
{
  assert (fd == FD);
  reads++;
  return copy (buf, NULL, bytes, offset);
}

int
file_write (int fd, const void *buf, size_t bytes, uint64_t offset, int flags)
{
  assert (fd == FD);
  return copy (NULL, buf, bytes, offset);
}

/* ---- What threads do ---- */

static void
put (uint64_t number, uint64_t at, size_t bytes, int flags)
{
  uint64_t *buf = malloc (bytes);

  assert (buf);
  for (size_t i = 0; i < bytes / 8; i++)
    buf[i] = number;
  assert (whole_write (FD, buf, bytes, DISK_AT + at, flags) == error);
  free (buf);
}

/* The number of the last sector; none is torn. */
static uint64_t
get (uint64_t at, size_t bytes)
{
  uint64_t *buf = malloc (bytes), number;

  assert (buf);
  assert (whole_read (FD, buf, bytes, DISK_AT + at) == error);
  for (size_t i = 0; i < bytes / 8; i++)
    assert (buf[i] == buf[i / WORDS * WORDS]);
  number = buf[bytes / 8 - 1];
  free (buf);
  return number;
}

static pthread_t
begin (void *(*work) (void *) )
{
  pthread_t t;

  assert (pthread_create (&t, NULL, work, NULL) == 0);
  return t;
}

static void
end (pthread_t t)
{
  assert (pthread_join (t, NULL) == 0);
}

/* ---- One read, and writes of its sector ---- */

static uint64_t number, disturb;

static void
write_between (void)
{
  void (*mine) (void) = halfway;

  if (disturb == 0)
    return;
  disturb--;
  halfway = NULL;
  put (++number, 0, SECTOR, 0);
  halfway = mine;
}

/* Writes come and go while it reads. */
static void
test_overtaken (void)
{
  for (unsigned n = 0; n < READS_MAX; n++) {
    disturb = n;
    halfway = write_between;
    reads = 0;
    assert (get (0, SECTOR) == number && disturb == 0);
    assert (reads == n + 1);
    halfway = NULL;
  }
}

static pthread_t late;
static atomic_bool written;

static void *
write_late (void *unused)
{
  put (100, 0, SECTOR, 0);
  atomic_store (&written, true);
  return NULL;
}

/* In its turn a read is left alone.  (A write that does not wait is done by then.) */
static void
write_in_turn (void)
{
  if (reads <= READS_MAX) {
    disturb = 1;
    write_between ();
    return;
  }
  late = begin (write_late);
  clock_sleep_ms (100);
}

static void
test_turn (void)
{
  halfway = write_in_turn;
  reads = 0;
  atomic_store (&written, false);
  assert (get (0, SECTOR) == number && reads == READS_MAX + 1);
  halfway = NULL;
  end (late);
  assert (written && get (0, SECTOR) == 100);
}

static sem_t is_halfway, go_on;

static void
stop_halfway (void)
{
  sem_post (&is_halfway);
  sem_wait (&go_on);
}

static void *
write_slowly (void *unused)
{
  halfway = stop_halfway;
  put (200, MiB (1) - SECTOR, 2 * SECTOR, 1);
  return NULL;
}

static void *
write_beside (void *unused)
{
  halfway = stop_halfway;
  put (201, MiB (1) + SECTOR, SECTOR, 0);
  return NULL;
}

static atomic_bool have_read;

static void *
read_it (void *unused)
{
  get (MiB (1) - KiB (64), KiB (128));
  assert (get (MiB (1), SECTOR) == 200);
  atomic_store (&have_read, true);
  return NULL;
}

/* Writes are under way for long.  A reader of these places waits for the last of them,
 * and no other request waits.
 */
static void
test_under_way (void)
{
  pthread_t slow = begin (write_slowly), beside = begin (write_beside), reader;

  sem_wait (&is_halfway);
  sem_wait (&is_halfway);
  reader = begin (read_it);
  put (8, MiB (1) + KiB (64), SECTOR, 0);
  assert (get (MiB (1) + KiB (64), SECTOR) == 8);
  clock_sleep_ms (100);
  assert (!have_read);
  sem_post (&go_on);
  clock_sleep_ms (100);
  assert (!have_read);
  sem_post (&go_on);
  end (slow);
  end (beside);
  end (reader);
  assert (have_read);
}

/* ---- Failures ---- */

static void
test_errors (void)
{
  static uint64_t buf[MiB (1) / 8];

  error = EIO;
  assert (whole_read (FD, buf, sizeof buf, DISK_AT) == EIO);
  assert (whole_write (FD, buf, sizeof buf, DISK_AT, 0) == EIO);
  /* A failed write is over. */
  error = 0;
  put (2, 0, MiB (2), 0);
  assert (get (0, MiB (2)) == 2);
}

/* ---- Many at once ---- */

#define WRITERS 3
#define READERS 2
#define ROUNDS 1500

static atomic_uint readers_left, threads;

static void
give_way (void)
{
  sched_yield ();
}

/* Mostly a few sectors, the same for all. */
static void
draw (unsigned *state, uint64_t *at, size_t *bytes)
{
  if (rand_r (state) % 20) {
    *at = MiB (1) - 4 * SECTOR + rand_r (state) % 8 * SECTOR;
    *bytes = (1 + rand_r (state) % 4) * SECTOR;
  }
  else {
    *at = rand_r (state) % (MiB (1) / SECTOR) * SECTOR;
    *bytes = (1 + rand_r (state) % (MiB (1) / SECTOR)) * SECTOR;
  }
}

static unsigned
state_of_thread (void)
{
  halfway = give_way;
  return (unsigned) test_seed + atomic_fetch_add (&threads, 1);
}

static void *
write_many (void *unused)
{
  unsigned state = state_of_thread ();
  uint64_t at;
  size_t bytes;

  while (readers_left > 0) {
    draw (&state, &at, &bytes);
    put (rand_r (&state), at, bytes, rand_r (&state) % 2);
  }
  return NULL;
}

static void *
read_many (void *unused)
{
  unsigned state = state_of_thread ();
  uint64_t at;
  size_t bytes;

  for (unsigned i = 0; i < ROUNDS; i++) {
    draw (&state, &at, &bytes);
    get (at, bytes);
  }
  readers_left--;
  return NULL;
}

/* Writes never stop, and each reader comes to its end. */
static void
test_many (void)
{
  pthread_t t[WRITERS + READERS];

  readers_left = READERS;
  for (unsigned i = 0; i < WRITERS + READERS; i++)
    t[i] = begin (i < WRITERS ? write_many : read_many);
  for (unsigned i = 0; i < WRITERS + READERS; i++)
    end (t[i]);
}

int
main (void)
{
  alarm (100); /* a request that would wait for ever is ended */
  test_random_start ();
  test_overtaken ();
  test_turn ();
  test_under_way ();
  test_errors ();
  test_many ();
  return 0;
}
