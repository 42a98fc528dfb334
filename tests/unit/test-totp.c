/* test-totp.c: codes of a second factor: RFC 6238's own vectors, and which code is good when. */

#include <config.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server/totp.h"

static const uint8_t key[] = "12345678901234567890";

/* Appendix B of RFC 6238, of 8 digits. */
static void
test_vectors (void)
{
  static const struct {
    uint64_t s;
    uint32_t code;
  } vectors[] = {
    { 59, 94287082 },         { 1111111109, 7081804 },
    { 1111111111, 14050471 }, { 1234567890, 89005924 },
    { 2000000000, 69279037 }, { UINT64_C (20000000000), 65353130 },
  };

  for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
    assert (totp_value (key, 20, vectors[i].s / TOTP_STEP_S) % 100000000 ==
            vectors[i].code);
}

static const char *
code_of (uint64_t step)
{
  static char text[TOTP_CODE_BYTES];

  snprintf (text, sizeof text, "%06" PRIu32,
            totp_value (key, 20, step) % 1000000);
  return text;
}

#define NOW UINT64_C (1000000)
#define NOW_MS (NOW * TOTP_STEP_S * 1000 + 29999)

static void
test_window (void)
{
  for (uint64_t step = NOW - 40; step <= NOW + 40; step++) {
    uint64_t found = 0;
    uint64_t away = step > NOW ? step - NOW : NOW - step;
    enum totp_answer answer = totp_check (key, code_of (step), NOW_MS, 0,
                                          &found);

    assert (answer == (away <= 1    ? TOTP_RIGHT
                       : away <= 20 ? TOTP_CLOCK
                                    : TOTP_WRONG));
    assert (answer == TOTP_WRONG || found == step);
  }
}

/* Each counts once, and none from before. */
static void
test_once (void)
{
  uint64_t used = 0, found;

  assert (totp_check (key, code_of (NOW), NOW_MS, used, &used) == TOTP_RIGHT);
  assert (used == NOW);
  for (uint64_t step = NOW - 1; step <= NOW; step++)
    assert (totp_check (key, code_of (step), NOW_MS, used, &found) ==
            TOTP_WRONG);
  assert (totp_check (key, code_of (NOW + 1), NOW_MS, used, &used) ==
          TOTP_RIGHT);
  assert (used == NOW + 1);
  assert (totp_check (key, code_of (NOW), NOW_MS, used, &found) == TOTP_WRONG);
  /* weftd's clock was ahead. */
  assert (totp_check (key, code_of (NOW), NOW_MS, NOW + 1000, &found) ==
          TOTP_CLOCK);
  assert (found == NOW + 1000);
}

static void
test_text (void)
{
  static const char *const bad[] = { "",        "1",      "12345",
                                     "1234567", "      ", "abcdef" };
  char text[TOTP_BASE32_BYTES];
  uint64_t step;

  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    assert (totp_check (key, bad[i], NOW_MS, 0, &step) == TOTP_WRONG);
  for (unsigned i = 0; i < TOTP_CODE_BYTES - 1; i++) {
    char other[TOTP_CODE_BYTES];

    strcpy (other, code_of (NOW));
    other[i] = other[i] == '0' ? '1' : '0';
    assert (totp_check (key, other, NOW_MS, 0, &step) == TOTP_WRONG);
  }
  totp_base32 (key, text);
  assert (strcmp (text, "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ") == 0);
}

int
main (void)
{
  test_vectors ();
  test_window ();
  test_once ();
  test_text ();
  return 0;
}
