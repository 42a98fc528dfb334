/* test-one-host.c: the signatures that libblkid finds on a disk, and whether two hosts
 * would destroy it.
 *
 * The signatures are the least that libblkid believes; tests/integration has real ones.
 */

#include <config.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test-random.h"
#include "common/disk.h"

#define BYTES (16 << 20)

struct signature {
  const char *text; /* the reported type; NULL: hosts may share it */
  unsigned offset;
  const char *bytes;
  unsigned size;
};

#define SIGNATURE(text, offset, bytes)                                         \
  { text, offset, bytes, sizeof (bytes) - 1 }

static const struct signature signatures[] = {
  SIGNATURE (NULL, 0, ""),
  SIGNATURE (NULL, 8192, "OCFSV2"),
  SIGNATURE (NULL, 65536, "\x01\x16\x19\x70"),
  SIGNATURE (NULL, 0, "LUKS\xba\xbe\0\1"),
  SIGNATURE (NULL, 32768, "\1CD001\1"),
  SIGNATURE (NULL, 32, "ORCLDISK"),
  SIGNATURE ("a volume of type swsuspend", 4086, "S1SUSPEND"),
  SIGNATURE ("an LVM physical volume", 512,
             "LABELONE\1\0\0\0\0\0\0\0\0\0\0\0\x20\0\0\0LVM2 001"),
};

static char path[] = "/tmp/test-one-host.XXXXXX";
static int fd;

/* At so many bytes from the start of the disk, in place of all that was there. */
static void
put (const struct signature *s, uint64_t start)
{
  CHECK (ftruncate (fd, 0) == 0 && ftruncate (fd, BYTES) == 0);
  CHECK (pwrite (fd, s->bytes, s->size, (off_t) (start + s->offset)) ==
         (ssize_t) s->size);
}

static void
looked_at (const struct signature *s)
{
  char text[256] = "", why[512] = "";
  int r = disk_of_one_host (path, text, why, sizeof why);

  if (r != (s->text != NULL) || (s->text && strcmp (text, s->text) != 0))
    fprintf (stderr, "%d: \"%s\" in place of \"%s\" %s\n", r, text,
             s->text ? s->text : "", why);
  CHECK (r == (s->text != NULL));
  CHECK (s->text == NULL || strcmp (text, s->text) == 0);
}

static void
test_whole_disk (void)
{
  for (size_t i = 0; i < sizeof signatures / sizeof signatures[0]; i++) {
    put (&signatures[i], 0);
    looked_at (&signatures[i]);
  }
}

/* A DOS partition table with one partition, from the 2048th sector on. */
static void
test_partition (void)
{
  static const uint8_t entry[16] = { [4] = 0x83, [9] = 8, [13] = 0x40 };

  for (size_t i = 0; i < sizeof signatures / sizeof signatures[0]; i++) {
    put (&signatures[i], 2048 * 512);
    CHECK (pwrite (fd, entry, sizeof entry, 446) == sizeof entry);
    CHECK (pwrite (fd, "\x55\xaa", 2, 510) == 2);
    looked_at (&signatures[i]);
  }
}

static void
test_no_disk (void)
{
  char text[256], why[512] = "";

  CHECK (disk_of_one_host ("/nowhere", text, why, sizeof why) == -1);
  CHECK (strstr (why, "/nowhere"));
}

int
main (void)
{
  fd = mkstemp (path);
  CHECK (fd != -1);
  test_whole_disk ();
  test_partition ();
  test_no_disk ();
  unlink (path);
  return EXIT_SUCCESS;
}
