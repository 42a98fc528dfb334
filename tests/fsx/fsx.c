/* fsx.c: a file is changed in all the ways there are, and held against a model.
 *
 *     fsx FILE SEED OPERATIONS [TURNS]
 *
 * The operations are drawn by the seed alone: read, write, append, cut or grow, punch a
 * hole, the same by mmap, fsync, open again without the kernel's cache.  Each read must
 * return the content of the model in memory.
 *
 * With TURNS, several of these share the file, on any hosts, with the same seed.  Each
 * has the file for some operations, by flock on TURNS, and leaves there how many all have
 * done so far.  The next one does those on its model alone, and then compares the whole
 * file.  In the end each prints how many operations it did.
 */

#define _GNU_SOURCE 1

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIZE_MAX_BYTES (256u << 10)
#define LENGTH_MAX (48u << 10)
#define OPERATIONS_OF_A_TURN 8
#define PAUSE_US 2000 /* so that another one gets the lock */

static struct {
  const char *path, *seed;
  int fd;
  uint64_t rng, done;
  char operation[64];
  size_t size;
  unsigned char bytes[SIZE_MAX_BYTES];
} f = { .operation = "at the start" };

static _Noreturn void __attribute__ ((format (printf, 1, 2)))
fail (const char *format, ...)
{
  va_list args;

  va_start (args, format);
  fprintf (stderr, "fsx: %s, operation %ju of seed %s, %s: ", f.path,
           (uintmax_t) f.done, f.seed, f.operation);
  vfprintf (stderr, format, args);
  fprintf (stderr, "\n");
  exit (1);
}

static void
must (bool right, const char *what)
{
  if (!right)
    fail ("%s: %s", what, strerror (errno));
}

/* splitmix64 */
static uint64_t
draw (uint64_t n)
{
  uint64_t z = f.rng += 0x9e3779b97f4a7c15;

  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return (z ^ z >> 31) % n;
}

static void
same (const unsigned char *found, size_t offset, size_t length)
{
  for (size_t i = 0; i < length; i++)
    if (found[i] != f.bytes[offset + i])
      fail ("byte %zu is 0x%02x, not 0x%02x", offset + i, found[i],
            f.bytes[offset + i]);
}

static void
check_size (void)
{
  struct stat st;

  must (fstat (f.fd, &st) == 0, "fstat");
  if ((size_t) st.st_size != f.size)
    fail ("its size is %jd, not %zu", (intmax_t) st.st_size, f.size);
}

static void
check_read (size_t offset, size_t length)
{
  static unsigned char found[SIZE_MAX_BYTES];
  ssize_t n = pread (f.fd, found, length, (off_t) offset);

  must (n >= 0, "pread");
  if ((size_t) n != length)
    fail ("%zd bytes of %zu are read", n, length);
  same (found, offset, length);
}

/* The whole file; the caller unmaps it. */
static unsigned char *
map (int protection)
{
  unsigned char *p = mmap (NULL, f.size, protection, MAP_SHARED, f.fd, 0);

  must (p != MAP_FAILED, "mmap");
  return p;
}

static void
check_map (size_t offset, size_t length)
{
  unsigned char *p = map (PROT_READ);

  same (p + offset, offset, length);
  munmap (p, f.size);
}

static void
open_file (void)
{
  if (f.fd != -1) {
    must (fdatasync (f.fd) == 0, "fdatasync");
    posix_fadvise (f.fd, 0, 0, POSIX_FADV_DONTNEED);
    must (close (f.fd) == 0, "close");
  }
  f.fd = open (f.path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  must (f.fd != -1, "open");
}

/* The model's part: bytes between its end and `size` are zeroes. */
static void
resize (size_t size)
{
  if (size > f.size)
    memset (f.bytes + f.size, 0, size - f.size);
  f.size = size;
}

static void
write_some (size_t offset, size_t length, bool real, bool by_map)
{
  size_t end = offset + length;

  if (end > f.size) {
    resize (end);
    if (real && by_map)
      must (ftruncate (f.fd, (off_t) end) == 0, "ftruncate");
  }
  for (size_t i = offset; i < end; i++)
    f.bytes[i] = (unsigned char) draw (256);
  if (real && by_map) {
    unsigned char *p = map (PROT_READ | PROT_WRITE);

    memcpy (p + offset, f.bytes + offset, length);
    if (f.done % 2)
      must (msync (p, f.size, MS_SYNC) == 0, "msync");
    munmap (p, f.size);
  }
  else if (real)
    must (pwrite (f.fd, f.bytes + offset, length, (off_t) offset) ==
            (ssize_t) length,
          "pwrite");
}

static void
punch (size_t offset, size_t length, bool real)
{
  memset (f.bytes + offset, 0, length);
  if (real && length)
    must (fallocate (f.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                     (off_t) offset, (off_t) length) == 0,
          "fallocate");
}

/* The next operation; if not `real`, on the model alone. */
static void
operate (bool real)
{
  static const char *const names[] = { "read",     "mapread", "write",
                                       "mapwrite", "append",  "resize",
                                       "punch",    "fsync",   "open anew" };
  unsigned what = (unsigned) draw (sizeof names / sizeof *names);
  size_t offset = draw (SIZE_MAX_BYTES), length = 1 + draw (LENGTH_MAX), inside;

  f.done++;
  if (offset + length > SIZE_MAX_BYTES)
    length = SIZE_MAX_BYTES - offset;
  /* The number of the requested bytes that exist. */
  inside = offset >= f.size            ? 0
           : offset + length <= f.size ? length
                                       : f.size - offset;
  snprintf (f.operation, sizeof f.operation, "%s %zu+%zu", names[what], offset,
            length);
  switch (what) {
  case 0:
    if (real)
      check_read (offset, inside);
    break;
  case 1:
    if (real && inside)
      check_map (offset, inside);
    break;
  case 2:
  case 3:
    write_some (offset, length, real, what == 3);
    break;
  case 4:
    if (length > SIZE_MAX_BYTES - f.size)
      length = SIZE_MAX_BYTES - f.size;
    write_some (f.size, length, real, false);
    break;
  case 5:
    resize (offset);
    if (real)
      must (ftruncate (f.fd, (off_t) offset) == 0, "ftruncate");
    break;
  case 6:
    punch (offset, inside, real);
    break;
  case 7:
    if (real)
      must (fsync (f.fd) == 0, "fsync");
    break;
  default:
    if (real)
      open_file ();
  }
  if (real)
    check_size ();
}

static void
check_whole (void)
{
  snprintf (f.operation, sizeof f.operation, "then as a whole");
  check_size ();
  check_read (0, f.size);
  if (f.size)
    check_map (0, f.size);
}

/* Returns how many of the operations were done here. */
static uint64_t
take_turns (int turns, uint64_t operations)
{
  uint64_t all = 0, here = 0;

  while (all < operations) {
    must (flock (turns, LOCK_EX) == 0, "flock");
    must (pread (turns, &all, sizeof all, 0) != -1, "pread");
    while (f.done < all)
      operate (false);
    check_whole ();
    for (unsigned i = 0; i < OPERATIONS_OF_A_TURN && all < operations; i++) {
      operate (true);
      all++;
      here++;
    }
    must (pwrite (turns, &all, sizeof all, 0) == sizeof all, "pwrite");
    must (flock (turns, LOCK_UN) == 0, "flock");
    usleep (PAUSE_US);
  }
  return here;
}

int
main (int argc, char **argv)
{
  uint64_t operations;

  if (argc < 4 || argc > 5) {
    fprintf (stderr, "usage: fsx FILE SEED OPERATIONS [TURNS]\n");
    return 2;
  }
  f.path = argv[1];
  f.seed = argv[2];
  f.fd = -1;
  f.rng = strtoull (argv[2], NULL, 10);
  operations = strtoull (argv[3], NULL, 10);
  open_file ();
  if (argc == 5) {
    int turns = open (argv[4], O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    must (turns != -1, "open");
    printf ("%ju\n", (uintmax_t) take_turns (turns, operations));
  }
  else {
    must (ftruncate (f.fd, 0) == 0, "ftruncate");
    while (f.done < operations)
      operate (true);
    check_whole ();
  }
  return 0;
}
