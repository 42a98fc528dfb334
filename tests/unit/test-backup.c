/* test-backup.c: the file of weftctl backup: what was packed is read again, and nothing
 * else is.
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

/* Every byte that is changed, and every length that is cut, is noticed. */
static void
test_file (const char *passphrase)
{
  size_t bytes = 0;
  uint8_t *file = backup_pack (text, strlen (text), passphrase, &bytes);
  char *got;

  assert (file && backup_is (file, bytes));
  assert (backup_encrypted (file, bytes) == (passphrase != NULL));
  got = unpack (file, bytes, passphrase);
  assert (got && strcmp (got, text) == 0);
  free (got);
  for (size_t n = 0; n < bytes; n++)
    refused (file, n, passphrase, n < 8 ? "no file" : "cut off");
  for (size_t i = 0; i < bytes - (passphrase ? 16 : 0); i++) {
    /* Another number of scrypt's takes its time: one of each is enough. */
    if (passphrase && ((i >= 10 && i < 32) || (i > 90 && i % 16)))
      continue;
    file[i] ^= 1;
    refused (file, bytes, passphrase, "");
    file[i] ^= 1;
  }
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
  refused (file, bytes, "wrong", "the passphrase is wrong");
  refused (file, bytes, "", "the passphrase is wrong");
  refused (file, bytes, NULL, "it is encrypted");
  /* Numbers that would take all memory, or all time. */
  for (unsigned i = 10; i < 13; i++) {
    uint8_t keep = file[i];

    file[i] = 255;
    refused (file, bytes, "right", "damaged");
    file[i] = 0;
    refused (file, bytes, "right", "damaged");
    file[i] = keep;
  }
  file[60] ^= 1;
  refused (file, bytes, "right", "the passphrase is wrong");
  free (file);
  free (again);
}

int
main (void)
{
  test_file (NULL);
  test_file ("a passphrase");
  test_passphrase ();
  return 0;
}
