/* test-token.c: a token opens with its own key, and only as it was minted. */

#include <config.h>

#include <string.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "test-random.h"
#include "format/token.h"

static struct token
random_token (void)
{
  struct token t = { .session = test_random (UINT64_MAX) };

  test_random_bytes (t.array, 16);
  test_random_bytes (t.member, 16);
  t.writable = test_random (2);
  t.epoch = test_random (4) ? test_random (100) : test_random (EPOCH_MAX + 1);
  t.joins = test_random (2);
  t.place = t.joins ? test_random (ARRAY_MEMBERS_MAX) : 0;
  if (test_random (2))
    for (unsigned i = 0, n = 1 + test_random (NAME_BYTES_MAX); i < n; i++)
      t.node[i] = i ? "abz019-"[test_random (7)] : 'n';
  if (t.node[0] && test_random (2))
    for (unsigned i = 0, n = 1 + test_random (NAME_BYTES_MAX); i < n; i++)
      t.process[i] = i ? "abz019-"[test_random (7)] : '0';
  return t;
}

static void
refused (const char *text, const uint8_t key[KEY_BYTES])
{
  struct token t, untouched;
  const char *why = NULL;

  memset (&t, 0x5a, sizeof t);
  memset (&untouched, 0x5a, sizeof untouched);
  CHECK (token_verify (text, key, &t, &why) == -1);
  CHECK (why && *why);
  CHECK (memcmp (&t, &untouched, sizeof t) == 0);
}

static void
test_round_trip (void)
{
  for (int i = 0; i < 2000; i++) {
    struct token t = random_token (), out;
    uint8_t key[KEY_BYTES];
    char text[TOKEN_BYTES_MAX + 1];
    const char *why;

    test_random_bytes (key, sizeof key);
    token_mint (&t, key, text);
    CHECK (strlen (text) <= TOKEN_BYTES_MAX);
    CHECK (strspn (text, "0123456789abcdefghijklmnopqrstuvwxyz"
                         "ABCDEFGHIJKLMNOPQRSTUVWXYZ.-") == strlen (text));
    CHECK (token_verify (text, key, &out, &why) == 0);
    CHECK (memcmp (out.array, t.array, 16) == 0 &&
           memcmp (out.member, t.member, 16) == 0);
    CHECK (out.session == t.session && out.writable == t.writable &&
           out.epoch == t.epoch);
    CHECK (out.joins == t.joins && out.place == t.place &&
           strcmp (out.node, t.node) == 0 &&
           strcmp (out.process, t.process) == 0);
    key[test_random (KEY_BYTES)] ^= 1 << test_random (8);
    refused (text, key);
  }
}

/* A token for one process of a member is none for another, nor for one of another
 * member.
 */
static void
test_process (void)
{
  struct token t = random_token (), out;
  uint8_t key[KEY_BYTES], one[KEY_BYTES], two[KEY_BYTES];
  char text[TOKEN_BYTES_MAX + 1];
  const char *why;

  test_random_bytes (key, sizeof key);
  token_key (key, "one", one);
  token_mint (&t, one, text);
  CHECK (token_verify (text, one, &out, &why) == 0);
  refused (text, key);
  token_key (key, "two", two);
  refused (text, two);
  token_key (key, "", two);
  refused (text, two);
  key[0] ^= 1;
  token_key (key, "one", two);
  refused (text, two);
}

/* Each character changed to each other printable one, cut and added to. */
static void
test_forged (void)
{
  struct token t = random_token ();
  uint8_t key[KEY_BYTES];
  char text[TOKEN_BYTES_MAX + 1], bent[2 * TOKEN_BYTES_MAX + 1];
  size_t n;

  test_random_bytes (key, sizeof key);
  token_mint (&t, key, text);
  n = strlen (text);
  for (size_t i = 0; i < n; i++) {
    for (int c = 1; c < 256; c++)
      if ((char) c != text[i]) {
        strcpy (bent, text);
        bent[i] = c;
        refused (bent, key);
      }
    strcpy (bent, text);
    bent[i] = '\0';
    refused (bent, key);
    refused (text + 1 + i, key);
  }
  snprintf (bent, sizeof bent, "%s0", text);
  refused (bent, key);
  snprintf (bent, sizeof bent, "%s.", text);
  refused (bent, key);
  snprintf (bent, sizeof bent, "%s%s", text, text);
  refused (bent, key);
  refused ("", key);
  refused (".", key);
  for (int i = 0; i < 20000; i++) {
    size_t length = test_random (sizeof bent - 1);

    for (size_t k = 0; k < length; k++)
      bent[k] = "0123456789abcdef.rwo"[test_random (20)];
    bent[length] = '\0';
    refused (bent, key);
  }
}

/* A right MAC over what no mint writes. */
static void
test_made_up (const char *body)
{
  uint8_t key[KEY_BYTES] = { 1 }, mac[32];
  char text[2 * TOKEN_BYTES_MAX];
  int n = snprintf (text, sizeof text, "%s.", body);

  HMAC (EVP_sha256 (), key, KEY_BYTES, (const unsigned char *) body,
        strlen (body), mac, NULL);
  for (int i = 0; i < 32; i++)
    n += snprintf (text + n, sizeof text - n, "%02x", mac[i]);
  refused (text, key);
}

#define U "00112233445566778899aabbccddeeff"
#define S "0123456789abcdef"

int
main (void)
{
  struct token t;
  const char *why;
  uint8_t key[KEY_BYTES] = { 1 };
  char text[TOKEN_BYTES_MAX + 1];

  test_random_start ();
  test_round_trip ();
  test_process ();
  test_forged ();
  test_made_up ("");
  test_made_up ("1");
  test_made_up ("2." U "." U "." S ".rw.7");
  test_made_up ("1." U "." U "." S ".rx.7");
  test_made_up ("1." U "." U "." S ".rw.");
  test_made_up ("1." U "." U "." S ".rw.07");
  test_made_up ("1." U "." U "." S ".rw.-7");
  test_made_up ("1." U "." U "." S ".rw.7 ");
  test_made_up ("1." U "." U "." S ".rw.7.7");
  test_made_up ("1." U "." U "." S ".rw.1152921504606846977");
  test_made_up ("1." U "." U "." S ".rw.99999999999999999999");
  test_made_up ("1." U "." U ".0x23456789abcdef.rw.7");
  test_made_up ("1." U "-" U "." S ".rw.7");
  test_made_up ("1.00112233445566778899AABBCCDDEEFF." U "." S ".rw.7");

  test_made_up ("1." U "." U "." S ".ro.7.-.-");
  test_made_up ("1." U "." U "." S ".ro.7.3.n1");
  test_made_up ("2." U "." U "." S ".ro.7");
  test_made_up ("2." U "." U "." S ".ro.7.-.-");
  test_made_up ("2." U "." U "." S ".ro.7.3");
  test_made_up ("2." U "." U "." S ".ro.7.3.");
  test_made_up ("2." U "." U "." S ".ro.7.03.n1");
  test_made_up ("2." U "." U "." S ".ro.7.-3.n1");
  test_made_up ("2." U "." U "." S ".ro.7.128.n1");
  test_made_up ("2." U "." U "." S ".ro.7.1000.n1");
  test_made_up ("2." U "." U "." S ".ro.7.3.N1");
  test_made_up ("2." U "." U "." S ".ro.7.3.n1.");
  test_made_up ("2." U "." U "." S ".ro.7.3.n1.n2");
  test_made_up ("1." U "." U "." S ".ro.7.3.n1.d");
  test_made_up ("2." U "." U "." S ".ro.7.3.n1.d");
  test_made_up ("3." U "." U "." S ".ro.7");
  test_made_up ("3." U "." U "." S ".ro.7.3.n1");
  test_made_up ("3." U "." U "." S ".ro.7.3.n1.");
  test_made_up ("3." U "." U "." S ".ro.7.3.n1.D");
  test_made_up ("3." U "." U "." S ".ro.7.3.n1.d.");
  test_made_up ("3." U "." U "." S ".ro.7.3.n1.d.e");
  test_made_up (
    "3." U "." U "." S ".ro.7.3.n1."
    "d234567890123456789012345678901234567890123456789012345678901234");
  test_made_up (
    "2." U "." U "." S ".ro.7.3."
    "n234567890123456789012345678901234567890123456789012345678901234");

  /* The text of one token, so that the format does not change unnoticed. */
  memset (&t, 0, sizeof t);
  memset (t.array, 0xaa, 16);
  memset (t.member, 0xbb, 16);
  t.session = 0x1234;
  t.writable = true;
  t.epoch = 42;
  token_mint (&t, key, text);
  CHECK (strncmp (text,
                  "1.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa."
                  "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb.0000000000001234.rw.42.",
                  91) == 0);
  CHECK (token_verify (text, key, &t, &why) == 0);
  t.joins = true;
  t.writable = false;
  t.place = 3;
  strcpy (t.node, "n-1");
  token_mint (&t, key, text);
  CHECK (strncmp (text,
                  "2.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa."
                  "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb.0000000000001234.ro.42."
                  "3.n-1.",
                  97) == 0);
  strcpy (t.process, "a-1");
  token_mint (&t, key, text);
  CHECK (strncmp (text, "3.aaaa", 6) == 0);
  CHECK (strncmp (text + 84, ".ro.42.3.n-1.a-1.", 17) == 0);
  return 0;
}
