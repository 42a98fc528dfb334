/* token.c: what opens a member's door.
 *
 *   1.ARRAY.MEMBER.SESSION.RIGHTS.EPOCH.MAC
 *
 * ARRAY and MEMBER are 32 hex digits, SESSION 16, RIGHTS is "rw" or "ro",
 * EPOCH decimal, MAC 64 hex digits: the HMAC-SHA-256 of all before the last
 * point.  There is one way only to write a token, so the reader takes the
 * text apart, writes it again, and compares.
 */

#include <config.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/bytes.h"
#include "token.h"

#define MAC_BYTES 32
#define HEX_BYTES(n) (2 * (n) + 1)

static void
mac (const void *text, size_t bytes, const uint8_t key[KEY_BYTES],
     uint8_t sum[EVP_MAX_MD_SIZE])
{
  unsigned length = 0;
  const void *r = HMAC (EVP_sha256 (), key, KEY_BYTES, text, bytes, sum,
                        &length);

  /* It fails for want of memory or of SHA-256 alone; there is no token that
   * could be trusted then.
   */
  if (r == NULL || length != MAC_BYTES)
    abort ();
}

static void
mac_hex (const char *text, size_t bytes, const uint8_t key[KEY_BYTES],
         char hexed[HEX_BYTES (MAC_BYTES)])
{
  uint8_t sum[EVP_MAX_MD_SIZE];

  mac (text, bytes, key, sum);
  *put_hex (hexed, sum, MAC_BYTES) = '\0';
}

void
token_key (const uint8_t key[KEY_BYTES], const char *instance,
           uint8_t of_process[KEY_BYTES])
{
  uint8_t sum[EVP_MAX_MD_SIZE];

  mac (instance, strlen (instance), key, sum);
  memcpy (of_process, sum, KEY_BYTES);
}

/* All but the point and the MAC.  Returns the length. */
static size_t
write_body (const struct token *t, char text[TOKEN_BYTES_MAX + 1])
{
  char array[HEX_BYTES (16)], member[HEX_BYTES (16)];
  int n;

  *put_hex (array, t->array, 16) = '\0';
  *put_hex (member, t->member, 16) = '\0';
  n = snprintf (text, TOKEN_BYTES_MAX + 1, "1.%s.%s.%016" PRIx64 ".%s.%" PRIu64,
                array, member, t->session, t->writable ? "rw" : "ro", t->epoch);
  assert (n > 0 && n + 1 + 2 * MAC_BYTES <= TOKEN_BYTES_MAX);
  return n;
}

void
token_mint (const struct token *t, const uint8_t key[KEY_BYTES],
            char text[TOKEN_BYTES_MAX + 1])
{
  size_t n = write_body (t, text);
  char sum[HEX_BYTES (MAC_BYTES)];

  mac_hex (text, n, key, sum);
  text[n] = '.';
  memcpy (text + n + 1, sum, sizeof sum);
}

/* Takes apart what write_body wrote.  The fields before EPOCH have fixed
 * places; whatever else may be wrong shows when it is written again.
 */
static int
read_body (const char *text, size_t bytes, struct token *t)
{
  enum {
    AT_ARRAY = 2,
    AT_MEMBER = AT_ARRAY + 33,
    AT_SESSION = AT_MEMBER + 33,
    AT_RIGHTS = AT_SESSION + 17,
    AT_EPOCH = AT_RIGHTS + 3,
  };
  uint8_t session[8];
  size_t digits;

  if (bytes <= AT_EPOCH)
    return -1;
  digits = strspn (text + AT_EPOCH, "0123456789");
  if (digits != bytes - AT_EPOCH || digits > 19 ||
      !get_hex (text + AT_ARRAY, t->array, 16) ||
      !get_hex (text + AT_MEMBER, t->member, 16) ||
      !get_hex (text + AT_SESSION, session, 8))
    return -1;
  t->session = 0;
  for (int i = 0; i < 8; i++)
    t->session = t->session << 8 | session[i];
  t->writable = text[AT_RIGHTS + 1] == 'w';
  t->epoch = strtoull (text + AT_EPOCH, NULL, 10);
  return t->epoch <= EPOCH_MAX ? 0 : -1;
}

int
token_verify (const char *text, const uint8_t key[KEY_BYTES], struct token *t,
              const char **why)
{
  const char *point = strrchr (text, '.');
  char sum[HEX_BYTES (MAC_BYTES)], again[TOKEN_BYTES_MAX + 1];
  struct token r = { .session = 0 };

  /* The MAC first: nothing of a forged token is looked at. */
  if (point == NULL || strlen (text) > TOKEN_BYTES_MAX ||
      strlen (point + 1) != 2 * MAC_BYTES) {
    *why = "the token is not one of weftd's";
    return -1;
  }
  mac_hex (text, point - text, key, sum);
  if (CRYPTO_memcmp (point + 1, sum, 2 * MAC_BYTES) != 0) {
    *why = "the token was not made for this member by its weftd";
    return -1;
  }
  if (read_body (text, point - text, &r) == -1 ||
      write_body (&r, again) != (size_t) (point - text) ||
      memcmp (again, text, point - text) != 0) {
    *why = "the token is of a kind that this member does not know";
    return -1;
  }
  *t = r;
  return 0;
}
