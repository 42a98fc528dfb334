/* totp.h: codes of a second factor, from the time and a secret that an app has, too: TOTP
 * (RFC 6238) with HMAC-SHA1, 6 digits and steps of 30 s, which every app knows.
 */

#ifndef WEFT_TOTP_H
#define WEFT_TOTP_H

#include <stddef.h>
#include <stdint.h>

#define TOTP_KEY_BYTES 20
#define TOTP_CODE_BYTES 7
#define TOTP_BASE32_BYTES (TOTP_KEY_BYTES / 5 * 8 + 1)
#define TOTP_STEP_S 30

/* The 31 bits of which a code is the last 6 digits. */
uint32_t totp_value (const uint8_t *key, size_t bytes, uint64_t step);

enum totp_answer {
  TOTP_RIGHT,
  TOTP_WRONG,
  TOTP_CLOCK /* it is a code of another time: a clock is wrong */
};

/* Is it the code of now, or of one step before or after, and of a later step than `used`?
 * Then *step is its own.  TOTP_CLOCK: *step is that of its time, some minutes away; or *step
 * is `used`, and weftd's clock was ahead when that was.
 */
enum totp_answer totp_check (const uint8_t key[TOTP_KEY_BYTES],
                             const char *code, uint64_t now_ms, uint64_t used,
                             uint64_t *step);

/* As apps take it. */
void totp_base32 (const uint8_t key[TOTP_KEY_BYTES],
                  char text[TOTP_BASE32_BYTES]);

#endif /* WEFT_TOTP_H */
