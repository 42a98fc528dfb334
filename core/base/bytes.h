/* bytes.h: bytes in buffers: little-endian integers, zeroes, hex digits. */

#ifndef WEFT_BYTES_H
#define WEFT_BYTES_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline void
put_le16 (uint8_t *p, uint16_t v)
{
  v = htole16 (v);
  memcpy (p, &v, sizeof v);
}

static inline void
put_le32 (uint8_t *p, uint32_t v)
{
  v = htole32 (v);
  memcpy (p, &v, sizeof v);
}

static inline void
put_le64 (uint8_t *p, uint64_t v)
{
  v = htole64 (v);
  memcpy (p, &v, sizeof v);
}

static inline uint16_t
get_le16 (const uint8_t *p)
{
  uint16_t v;

  memcpy (&v, p, sizeof v);
  return le16toh (v);
}

static inline uint32_t
get_le32 (const uint8_t *p)
{
  uint32_t v;

  memcpy (&v, p, sizeof v);
  return le32toh (v);
}

static inline uint64_t
get_le64 (const uint8_t *p)
{
  uint64_t v;

  memcpy (&v, p, sizeof v);
  return le64toh (v);
}

static inline bool
all_zero (const uint8_t *p, size_t bytes)
{
  return bytes == 0 || (*p == 0 && memcmp (p, p + 1, bytes - 1) == 0);
}

/* As digits, of which there are twice as many.  Returns their end; nothing is put
 * there.
 */
static inline char *
put_hex (char *text, const uint8_t *p, size_t bytes)
{
  static const char digits[] = "0123456789abcdef";

  for (size_t i = 0; i < bytes; i++) {
    *text++ = digits[p[i] >> 4];
    *text++ = digits[p[i] & 15];
  }
  return text;
}

/* The inverse; false: there is something else than lower-case digits. */
static inline bool
get_hex (const char *text, uint8_t *p, size_t bytes)
{
  for (size_t i = 0; i < 2 * bytes; i++) {
    char c = text[i];
    uint8_t v = c >= '0' && c <= '9' ? c - '0' : c - 'a' + 10;

    if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f'))
      return false;
    p[i / 2] = i % 2 ? p[i / 2] | v : v << 4;
  }
  return true;
}

#endif /* WEFT_BYTES_H */
