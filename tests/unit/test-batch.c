/* test-batch.c: batches come out as they went in.  A batch that is altered, cut or made
 * up is refused whole, without a read outside of the buffer.  The buffer ends at the end
 * of an allocation, so the address sanitizer would see such a read.
 */

#include <config.h>

#include <string.h>

#include <zlib.h>

#include "format/batch.h"
#include "base/bytes.h"
#include "test-random.h"

#define DATA_BYTES GiB (3)

static uint8_t payloads[64 * 1024];

static unsigned
random_records (struct batch_record *r, unsigned max)
{
  unsigned count = test_random (max + 1);

  memset (r, 0, count * sizeof *r);
  for (unsigned i = 0; i < count; i++) {
    r[i].kind = BATCH_WRITE + test_random (6);
    if (r[i].kind > BATCH_SETTLE)
      r[i].kind = BATCH_BAD;
    if (r[i].kind == BATCH_WRITE) {
      r[i].length = 1 + test_random (test_random (10) ? 200 : 4096);
      r[i].payload = payloads + test_random (sizeof payloads - r[i].length);
    }
    else
      r[i].length = 1 + test_random (DATA_BYTES);
    r[i].offset = test_random (DATA_BYTES - r[i].length + 1);
  }
  return count;
}

static void
test_round_trip (void)
{
  static struct batch_record in[BATCH_RECORDS_MAX], out[BATCH_RECORDS_MAX];

  for (int i = 0; i < 300; i++) {
    unsigned count = random_records (in, i % 10 ? 20 : BATCH_RECORDS_MAX);
    size_t bytes = batch_bytes (in, count);
    uint8_t *buf = malloc (bytes);
    const char *why = NULL;

    CHECK (buf);
    batch_encode (in, count, buf);
    CHECK (batch_decode (buf, bytes, DATA_BYTES, out, &why) == (int) count);
    for (unsigned k = 0; k < count; k++) {
      CHECK (in[k].kind == out[k].kind && in[k].offset == out[k].offset &&
             in[k].length == out[k].length);
      CHECK (in[k].kind == BATCH_WRITE
               ? memcmp (in[k].payload, out[k].payload, in[k].length) == 0
               : out[k].payload == NULL);
    }
    free (buf);
  }
}

/* Decode a copy that ends where its allocation ends.  Returns the result. */
static int
decode_copy (const uint8_t *buf, size_t bytes, uint64_t data_bytes)
{
  static struct batch_record out[BATCH_RECORDS_MAX];
  uint8_t *copy = malloc (bytes ? bytes : 1);
  const char *why = NULL;
  int r;

  CHECK (copy);
  memcpy (copy, buf, bytes);
  r = batch_decode (copy, bytes, data_bytes, out, &why);
  CHECK (r != -1 || (why && *why));
  for (int i = 0; i < r; i++) {
    CHECK (out[i].length <= data_bytes &&
           out[i].offset <= data_bytes - out[i].length);
    if (out[i].kind == BATCH_WRITE) {
      const uint8_t *p = out[i].payload;

      CHECK (p >= copy && p + out[i].length <= copy + bytes);
    }
  }
  free (copy);
  return r;
}

static void
set_crc (uint8_t *buf, unsigned count)
{
  memset (buf + 12, 0, 4);
  put_le32 (buf + 12, crc32 (0, buf, 16 + count * 24));
}

static void
test_damage (void)
{
  static struct batch_record in[BATCH_RECORDS_MAX];
  unsigned count;
  size_t bytes, protected;
  uint8_t *buf;

  do
    count = random_records (in, 12);
  while (count < 6);
  in[1].kind = BATCH_WRITE;
  in[1].length = 100;
  in[1].payload = payloads;
  bytes = batch_bytes (in, count);
  protected = 16 + count * 24;
  buf = malloc (bytes + 64);
  CHECK (buf);
  batch_encode (in, count, buf);
  memset (buf + bytes, 0, 64);

  for (size_t n = 0; n < bytes; n++)
    CHECK (decode_copy (buf, n, DATA_BYTES) == -1);
  CHECK (decode_copy (buf, bytes, DATA_BYTES) == (int) count);
  CHECK (decode_copy (buf, bytes + 1, DATA_BYTES) == -1);
  CHECK (decode_copy (buf, bytes + 64, DATA_BYTES) == -1);
  CHECK (decode_copy (buf, bytes, 50) == -1); /* a small member */
  for (size_t bit = 0; bit < protected * 8; bit++) {
    buf[bit / 8] ^= 1 << (bit % 8);
    CHECK (decode_copy (buf, bytes, DATA_BYTES) == -1);
    buf[bit / 8] ^= 1 << (bit % 8);
  }
  free (buf);
}

/* Random bytes under a right CRC, near to what a batch looks like. */
static void
test_made_up (void)
{
  unsigned taken = 0;

  for (int i = 0; i < 200000; i++) {
    uint8_t buf[16 + 4 * 24 + 64] = "WBAT";
    unsigned count = test_random (4);
    size_t bytes = 16 + count * 24 + test_random (40);

    put_le16 (buf + 4, test_random (50) ? 1 : test_random (65536));
    put_le16 (buf + 6, test_random (50) ? count : test_random (65536));
    put_le32 (buf + 8, test_random (50) ? bytes : test_random (1 << 20));
    for (unsigned k = 0; k < count; k++) {
      uint8_t *r = buf + 16 + k * 24;

      r[0] = 1 + test_random (5);
      if (test_random (50) == 0)
        r[test_random (8)] ^= 1 << test_random (8);
      put_le64 (r + 8, test_random (20) ? test_random (DATA_BYTES)
                                        : -test_random (100));
      put_le64 (r + 16, test_random (20) ? test_random (40)
                                         : -test_random (DATA_BYTES));
    }
    set_crc (buf, count);
    if (decode_copy (buf, bytes, DATA_BYTES) >= 0)
      taken++;
  }
  /* Some are batches, or this would test the CRC alone. */
  CHECK (taken > 1000 && taken < 190000);
}

static void
test_limits (void)
{
  static struct batch_record in[1] = { { .kind = BATCH_WRITE } };
  static uint8_t large[BATCH_BYTES_MAX + 1];
  static uint8_t buf[BATCH_BYTES_MAX + 1];

  in[0].payload = large;
  in[0].length = BATCH_BYTES_MAX - 40;
  CHECK (batch_bytes (in, 1) == BATCH_BYTES_MAX);
  batch_encode (in, 1, buf);
  CHECK (decode_copy (buf, BATCH_BYTES_MAX, DATA_BYTES) == 1);
  in[0].length++;
  batch_encode (in, 1, buf);
  CHECK (decode_copy (buf, BATCH_BYTES_MAX + 1, DATA_BYTES) == -1);

  /* One record too many, and otherwise right. */
  memset (buf, 0, sizeof buf);
  memcpy (buf, "WBAT\1", 5);
  put_le16 (buf + 6, BATCH_RECORDS_MAX + 1);
  put_le32 (buf + 8, 16 + (BATCH_RECORDS_MAX + 1) * 24);
  for (unsigned i = 0; i <= BATCH_RECORDS_MAX; i++) {
    buf[16 + i * 24] = BATCH_ZERO;
    put_le64 (buf + 16 + i * 24 + 16, 1);
  }
  set_crc (buf, BATCH_RECORDS_MAX + 1);
  CHECK (decode_copy (buf, 16 + (BATCH_RECORDS_MAX + 1) * 24, DATA_BYTES) ==
         -1);
  put_le16 (buf + 6, BATCH_RECORDS_MAX);
  put_le32 (buf + 8, 16 + BATCH_RECORDS_MAX * 24);
  set_crc (buf, BATCH_RECORDS_MAX);
  CHECK (decode_copy (buf, 16 + BATCH_RECORDS_MAX * 24, DATA_BYTES) ==
         BATCH_RECORDS_MAX);
}

/* The number of a round has nothing to do with the size of the member. */
static void
test_round (void)
{
  static const struct batch_record refused[] = {
    { .kind = BATCH_ROUND, .length = EPOCH_MAX + 1 },
    { .kind = BATCH_ROUND, .length = 0 },
    { .kind = BATCH_ROUND, .length = 1, .offset = 1 },
  };
  struct batch_record r = { .kind = BATCH_ROUND, .length = EPOCH_MAX }, out;
  uint8_t buf[16 + 24];
  const char *why;

  batch_encode (&r, 1, buf);
  CHECK (batch_decode (buf, sizeof buf, 4096, &out, &why) == 1);
  CHECK (out.kind == BATCH_ROUND && out.length == EPOCH_MAX);
  CHECK (!batch_changes_data (out.kind) && !batch_clears (out.kind));
  for (unsigned i = 0; i < 3; i++) {
    batch_encode (&refused[i], 1, buf);
    CHECK (batch_decode (buf, sizeof buf, 4096, &out, &why) == -1);
  }
}

int
main (void)
{
  test_random_start ();
  test_random_bytes (payloads, sizeof payloads);
  test_round_trip ();
  test_damage ();
  test_made_up ();
  test_limits ();
  test_round ();
  return 0;
}
