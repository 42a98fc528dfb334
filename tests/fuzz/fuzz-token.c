/* fuzz-token.c: tokens, as a client shows them: as they are, and with the MAC that
 * belongs to them, so that what stands behind it is reached.  What is accepted is
 * written in the only way that there is.
 */

#include <config.h>

#include "fuzz.h"

#include "format/token.c"

static const uint8_t key[KEY_BYTES] = { 7, 7, 7 };

static void
check (const char *text)
{
  char again[TOKEN_BYTES_MAX + 1];
  const char *why = NULL;
  struct token t;

  if (token_verify (text, key, &t, &why) == -1) {
    assert (why);
    return;
  }
  token_mint (&t, key, again);
  assert (strcmp (again, text) == 0);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  struct fuzz f = { data, size };
  size_t n;
  char *body = fuzz_text (&f, &n),
       *signed_text = malloc (n + 2 * MAC_BYTES + 2);

  assert (signed_text);
  check (body);
  memcpy (signed_text, body, n);
  signed_text[n] = '.';
  mac_hex (body, n, key, signed_text + n + 1);
  check (signed_text);
  free (signed_text);
  free (body);
  return 0;
}

void
fuzz_seeds (void (*seed) (const void *data, size_t size))
{
  struct token t = { { 1 }, { 2 }, 3, true, 4 };
  char text[TOKEN_BYTES_MAX + 1];

  token_mint (&t, key, text);
  seed (text, strlen (text));
  seed (text, write_body (&t, text));
  t = (struct token) { { 0xff }, { 0xfe }, UINT64_MAX, false, EPOCH_MAX };
  seed (text, write_body (&t, text));
}
