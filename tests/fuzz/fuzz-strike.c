/* fuzz-strike.c: striking secrets out of texts, which may hold what others said: no
 * run of 48 hex digits is left, and all else is.  And striking out controls, which is as
 * good when done once as when done twice.
 */

#include <config.h>

#include "fuzz.h"

#include "common/strike.c"

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  struct fuzz f = { data, size };
  size_t n;
  char *text = fuzz_text (&f, &n), *was = strdup (text);

  assert (was);
  strike_secrets (text);
  assert (strlen (text) == n);
  for (size_t i = 0, run; i < n; i += run ? run : 1) {
    run = strspn (was + i, "0123456789abcdefABCDEF");
    if (run == 0)
      assert (text[i] == was[i]);
    else if (run < 48)
      assert (memcmp (text + i, was + i, run) == 0);
    else
      assert (strspn (text + i, "*") >= run);
  }
  strike_controls (was);
  strcpy (text, was);
  assert (strlen (text) <= n && text[strcspn (text, "\n\t\033\177")] == '\0');
  strike_controls (text);
  assert (strcmp (text, was) == 0);
  free (was);
  free (text);
  return 0;
}

void
fuzz_seeds (void (*seed) (const void *data, size_t size))
{
  static const char text[] =
    "the export data/1.00112233445566778899aabbccddeeff."
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef is gone";

  seed (text, strlen (text));
  seed ("", 0);
}
