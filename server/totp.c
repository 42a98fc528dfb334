/* totp.c: see totp.h. */

#include <config.h>

#include <endian.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "totp.h"

#define NEAR_STEPS 1
/* So far away a code is found that was made by a wrong clock: 10 minutes. */
#define FAR_STEPS 20

uint32_t
totp_value (const uint8_t *key, size_t bytes, uint64_t step)
{
  uint8_t counter[8], mac[EVP_MAX_MD_SIZE], *at;
  uint32_t value;
  unsigned size;

  step = htobe64 (step);
  memcpy (counter, &step, sizeof counter);
  if (HMAC (EVP_sha1 (), key, (int) bytes, counter, sizeof counter, mac,
            &size) == NULL)
    abort ();
  at = mac + (mac[size - 1] & 0xf);
  memcpy (&value, at, sizeof value);
  return be32toh (value) & 0x7fffffff;
}

static bool
is_code (const uint8_t key[TOTP_KEY_BYTES], const char *code, uint64_t step)
{
  char own[TOTP_CODE_BYTES];

  snprintf (own, sizeof own, "%06" PRIu32,
            totp_value (key, TOTP_KEY_BYTES, step) % 1000000);
  return CRYPTO_memcmp (own, code, sizeof own) == 0;
}

enum totp_answer
totp_check (const uint8_t key[TOTP_KEY_BYTES], const char *code,
            uint64_t now_ms, uint64_t used, uint64_t *step)
{
  uint64_t now = now_ms / 1000 / TOTP_STEP_S + FAR_STEPS;
  enum totp_answer answer = TOTP_WRONG;

  if (strlen (code) != TOTP_CODE_BYTES - 1)
    return TOTP_WRONG;
  for (unsigned away = 0; away <= FAR_STEPS && answer == TOTP_WRONG; away++)
    for (unsigned later = 0; later < 2; later++) {
      uint64_t its = (later ? now + away : now - away) - FAR_STEPS;

      if (!is_code (key, code, its))
        continue;
      *step = its;
      if (away > NEAR_STEPS)
        answer = TOTP_CLOCK;
      else if (its > used)
        return TOTP_RIGHT;
      else if (used > now - FAR_STEPS + NEAR_STEPS) {
        *step = used;
        answer = TOTP_CLOCK;
      }
      else
        return TOTP_WRONG;
    }
  return answer;
}

void
totp_base32 (const uint8_t key[TOTP_KEY_BYTES], char text[TOTP_BASE32_BYTES])
{
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  unsigned bits = 0, have = 0;

  for (size_t i = 0; i < TOTP_KEY_BYTES; i++) {
    bits = bits << 8 | key[i];
    for (have += 8; have >= 5; have -= 5)
      *text++ = digits[bits >> (have - 5) & 31];
  }
  *text = '\0';
}
