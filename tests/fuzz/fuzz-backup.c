/* fuzz-backup.c: files that claim to be backups: only packed bytes are read, and no
 * number in a file makes it take all memory.
 */

#include <config.h>

#include "fuzz.h"

#include "common/backup.c"

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  char why[256] = "", *text;
  uint8_t *file;

  text = backup_unpack (data, size, NULL, why, sizeof why);
  assert (text || why[0]);
  if (text)
    assert (strlen (text) <= size && !backup_encrypted (data, size));
  free (text);
  if (size < HEADER_BYTES || data[AT_ENCRYPTED] != 1)
    return 0;
  /* As cheap as possible: the code behind the passphrase must be reached. */
  file = malloc (size);
  assert (file);
  memcpy (file, data, size);
  if (file[AT_SCRYPT] > 4 || file[AT_SCRYPT + 1] > 2 || file[AT_SCRYPT + 2] > 2)
    memcpy (file + AT_SCRYPT, "\1\1\1", 3);
  text = backup_unpack (file, size, "p", why, sizeof why);
  assert (text || why[0]);
  free (text);
  free (file);
  return 0;
}

void
fuzz_seeds (void (*seed) (const void *data, size_t size))
{
  static const char text[] = "{\"records\":[]}";
  size_t bytes;
  uint8_t *file = backup_pack (text, strlen (text), NULL, &bytes);

  assert (file);
  seed (file, bytes);
  seed (file, bytes - 1);
  free (file);
  file = backup_pack (text, strlen (text), "p", &bytes);
  assert (file);
  seed (file, bytes);
  free (file);
}
