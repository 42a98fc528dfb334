/* fuzz-token.c: tokens, as a client shows them: as they are, and with the right MAC, so
 * that the code behind the MAC check is reached.  An accepted token is written in its
 * only possible form.
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
  struct token t = {
    .array = { 1 }, .member = { 2 }, .session = 3, .writable = true, .epoch = 4
  };
  char text[TOKEN_BYTES_MAX + 1];

  token_mint (&t, key, text);
  seed (text, strlen (text));
  seed (text, write_body (&t, text));
  t = (struct token) { .array = { 0xff },
                       .member = { 0xfe },
                       .session = UINT64_MAX,
                       .epoch = EPOCH_MAX };
  seed (text, write_body (&t, text));
  t.joins = true;
  t.place = ARRAY_MEMBERS_MAX - 1;
  seed (text, write_body (&t, text));
  strcpy (t.node, "n-1");
  seed (text, write_body (&t, text));
  strcpy (t.process, "a-1");
  seed (text, write_body (&t, text));
}
