/* token.c: tokens, by which a host opens a member's door.
 *
 *   1.ARRAY.MEMBER.SESSION.RIGHTS.EPOCH.MAC
 *   2.ARRAY.MEMBER.SESSION.RIGHTS.EPOCH.PLACE.NODE.MAC
 *   3.ARRAY.MEMBER.SESSION.RIGHTS.EPOCH.PLACE.NODE.PROCESS.MAC
 *
 * ARRAY and MEMBER are 32 hex digits, SESSION 16, RIGHTS is "rw" or "ro",
 * EPOCH decimal, MAC 64 hex digits: the HMAC-SHA-256 of all before the last
 * point.  PLACE, decimal, is that of a joining member, NODE the name of a node; "-"
 * says that the token is not bound to one.  A token that is bound to neither is of
 * the first kind; a token that is also bound to a process of the node is of the third
 * kind.  There is one way only to write a token, so the reader takes the text apart,
 * writes it again, and compares.
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

static int
kind (const struct token *t)
{
  return t->process[0] ? 3 : t->joins || t->node[0] ? 2 : 1;
}

/* All but the point and the MAC.  Returns the length. */
static size_t
write_body (const struct token *t, char text[TOKEN_BYTES_MAX + 1])
{
  char array[HEX_BYTES (16)], member[HEX_BYTES (16)], place[16] = "-";
  int n;

  *put_hex (array, t->array, 16) = '\0';
  *put_hex (member, t->member, 16) = '\0';
  n = snprintf (text, TOKEN_BYTES_MAX + 1,
                "%d.%s.%s.%016" PRIx64 ".%s.%" PRIu64, kind (t), array, member,
                t->session, t->writable ? "rw" : "ro", t->epoch);
  if (t->joins)
    snprintf (place, sizeof place, "%u", t->place);
  if (kind (t) >= 2)
    n += snprintf (text + n, TOKEN_BYTES_MAX + 1 - n, ".%s.%s", place,
                   t->node[0] ? t->node : "-");
  if (kind (t) == 3)
    n += snprintf (text + n, TOKEN_BYTES_MAX + 1 - n, ".%s", t->process);
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

/* ".PLACE.NODE", ".PLACE.NODE.PROCESS", or nothing. */
static int
read_bounds (const char *text, size_t bytes, struct token *t)
{
  char bounds[8 + 2 * NAME_BYTES_MAX + 1];
  char place[4], node[NAME_BYTES_MAX + 1], rest;
  int parts;

  if (bytes == 0)
    return 0;
  if (bytes >= sizeof bounds)
    return -1;
  memcpy (bounds, text, bytes);
  bounds[bytes] = '\0';
  _Static_assert (NAME_BYTES_MAX == 63 && ARRAY_MEMBERS_MAX <= 1000,
                  "the widths below");
  parts = sscanf (bounds, ".%3[0-9-].%63[a-z0-9-].%63[a-z0-9-]%c", place, node,
                  t->process, &rest);
  if (parts != 2 && parts != 3)
    return -1;
  t->joins = strcmp (place, "-") != 0;
  t->place = t->joins ? strtoul (place, NULL, 10) : 0;
  if (strcmp (node, "-") != 0)
    strcpy (t->node, node);
  return t->place < ARRAY_MEMBERS_MAX ? 0 : -1;
}

/* Takes apart the text of write_body.  The fields before EPOCH have fixed
 * places; other errors show when it is written again.
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
  size_t end;

  if (bytes <= AT_EPOCH)
    return -1;
  end = AT_EPOCH + strspn (text + AT_EPOCH, "0123456789");
  if (end > bytes || end == AT_EPOCH || end > AT_EPOCH + 19 ||
      !get_hex (text + AT_ARRAY, t->array, 16) ||
      !get_hex (text + AT_MEMBER, t->member, 16) ||
      !get_hex (text + AT_SESSION, session, 8))
    return -1;
  t->session = 0;
  for (int i = 0; i < 8; i++)
    t->session = t->session << 8 | session[i];
  t->writable = text[AT_RIGHTS + 1] == 'w';
  t->epoch = strtoull (text + AT_EPOCH, NULL, 10);
  if (t->epoch > EPOCH_MAX)
    return -1;
  return read_bounds (text + end, bytes - end, t);
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
