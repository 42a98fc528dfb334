/* test-backup.c: the file of weftctl backup.  A packed file can be read back, and any
 * other is refused.
 */

#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/backup.h"

static const char text[] = "{\"records\":[[\"disk\",\"1\",{\"key\":\"ab\"}]]}";

static char why[256];

static char *
unpack (const uint8_t *file, size_t bytes, const char *passphrase)
{
  why[0] = '\0';
  return backup_unpack (file, bytes, passphrase, why, sizeof why);
}

static void
refused (const uint8_t *file, size_t bytes, const char *passphrase,
         const char *word)
{
  char *got = unpack (file, bytes, passphrase);

  if (got || !strstr (why, word)) {
    fprintf (stderr, "wanted \"%s\", got: %s\n", word, got ? got : why);
    abort ();
  }
}

/* The message for one changed bit in each field, where the file is not encrypted, and where
 * it is.
 */
#define HEADER "its header is damaged: copy it once more"
#define PASSPHRASE "the passphrase is wrong, or its header is damaged"
#define DAMAGED "it is damaged: copy it once more"
#define LENGTH "cut off or damaged; copy it once more"
static const struct field {
  const char *name;
  size_t from, to; /* those of the trailer: from its beginning */
  const char *plain, *encrypted;
  bool slow; /* of an encrypted file scrypt is needed: one bit is enough */
} fields[] = {
  { "magic", 0, 8, "no file of weftctl backup", "no file of weftctl backup",
    false },
  { "version", 8, 9, "this weftd reads version 1", "this weftd reads version 1",
    false },
  { "encrypted", 9, 10, HEADER, HEADER, false },
  { "N", 10, 11, HEADER, PASSPHRASE, true },
  { "r", 11, 12, HEADER, PASSPHRASE, true },
  { "p", 12, 13, HEADER, HEADER, true },
  { "zeros 1", 13, 16, HEADER, HEADER, false },
  { "salt", 16, 32, HEADER, PASSPHRASE, true },
  { "nonce", 32, 44, HEADER, DAMAGED, true },
  { "zeros 2", 44, 48, HEADER, HEADER, false },
  { "length", 48, 56, LENGTH, LENGTH, false },
  { "check", 56, 72, HEADER, PASSPHRASE, true },
  { "zeros 3", 72, 80, HEADER, HEADER, false },
  { "text", 80, 80 + sizeof text - 1, DAMAGED, DAMAGED, true },
  { "sum 1", 79 + sizeof text, 95 + sizeof text, DAMAGED, DAMAGED, true },
  { "sum 2", 95 + sizeof text, 111 + sizeof text, DAMAGED, DAMAGED, false },
};

static void
test_field (const struct field *f, uint8_t *file, size_t bytes,
            const char *passphrase)
{
  for (size_t at = f->from; at < f->to; at++)
    for (unsigned bit = 0; bit < 8; bit++) {
      file[at] ^= 1 << bit;
      refused (file, bytes, passphrase, passphrase ? f->encrypted : f->plain);
      file[at] ^= 1 << bit;
      if (passphrase && f->slow)
        return;
    }
}

/* Every bit that is changed, and every length that is cut, is noticed. */
static void
test_file (const char *passphrase)
{
  size_t bytes = 0, next = 0;
  uint8_t *file = backup_pack (text, strlen (text), passphrase, &bytes);
  char *got;

  assert (file && backup_is (file, bytes));
  assert (backup_encrypted (file, bytes) == (passphrase != NULL));
  got = unpack (file, bytes, passphrase);
  assert (got && strcmp (got, text) == 0);
  free (got);
  for (size_t n = 0; n < bytes; n++)
    refused (file, n, passphrase, n < 8 ? "no file" : "cut off");
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
    assert (fields[i].from == next);
    next = fields[i].to;
    test_field (&fields[i], file, bytes, passphrase);
  }
  assert (next == bytes);
  free (file);
}

/* A header that claims to be encrypted and is damaged asks for no passphrase. */
static void
test_asks (void)
{
  size_t bytes = 0;
  uint8_t *file = backup_pack (text, strlen (text), NULL, &bytes);

  assert (file);
  file[9] = 1;
  assert (!backup_encrypted (file, bytes));
  refused (file, bytes, NULL, HEADER);
  free (file);
}

static void
test_passphrase (void)
{
  size_t bytes = 0, other = 0;
  uint8_t *file = backup_pack (text, strlen (text), "right", &bytes);
  uint8_t *again = backup_pack (text, strlen (text), "right", &other);

  assert (file && again && bytes == other);
  assert (memcmp (file, again, bytes) != 0); /* salt and nonce */
  assert (memmem (file, bytes, "records", 7) == NULL);
  refused (file, bytes, "wrong", PASSPHRASE);
  refused (file, bytes, "", PASSPHRASE);
  refused (file, bytes, NULL, "it is encrypted: give its passphrase");
  /* Numbers that would take all memory, or all time. */
  for (unsigned i = 10; i < 13; i++) {
    uint8_t keep = file[i];

    file[i] = 255;
    refused (file, bytes, "right", HEADER);
    file[i] = 0;
    refused (file, bytes, "right", HEADER);
    file[i] = keep;
  }
  free (file);
  free (again);
  file = backup_pack (text, strlen (text), NULL, &bytes);
  assert (file);
  refused (file, bytes, "right", "it is not encrypted");
  refused (file, bytes, "", "restore it without a passphrase");
  free (file);
}

int
main (void)
{
  test_file (NULL);
  test_file ("a passphrase");
  test_asks ();
  test_passphrase ();
  return 0;
}
