/* bytes.h: little-endian integers in buffers, for format.c and batch.c. */

#ifndef WEFT_BYTES_H
#define WEFT_BYTES_H

#include <endian.h>
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

#endif /* WEFT_BYTES_H */
