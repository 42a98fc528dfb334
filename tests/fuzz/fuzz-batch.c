/* fuzz-batch.c: batches, as a client writes them to a member's batch door.  An accepted
 * batch lies within the member, and is encoded to the same bytes again.
 *
 * The input: 1 byte, whether the checksum is mended; 5 bytes, the size of the data
 * area; the batch.
 */

#include <config.h>

#include "fuzz.h"

#include "format/batch.c"

static void
check (const uint8_t *batch, size_t bytes, uint64_t data_bytes)
{
  static struct batch_record records[BATCH_RECORDS_MAX];
  const char *why = NULL;
  int n = batch_decode (batch, bytes, data_bytes, records, &why);
  uint8_t *again;

  if (n == -1) {
    assert (why);
    return;
  }
  for (int i = 0; i < n; i++) {
    const struct batch_record *r = &records[i];

    if (r->kind == BATCH_ROUND)
      continue;
    assert (r->length > 0 && r->offset <= data_bytes &&
            r->length <= data_bytes - r->offset);
    if (r->kind == BATCH_WRITE)
      assert ((const uint8_t *) r->payload >= batch &&
              (const uint8_t *) r->payload + r->length <= batch + bytes);
  }
  assert (batch_bytes (records, n) == bytes);
  again = malloc (bytes);
  assert (again);
  batch_encode (records, n, again);
  assert (memcmp (again, batch, bytes) == 0);
  free (again);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  struct fuzz f = { data, size };
  bool mended = fuzz_number (&f, 1) & 1;
  uint64_t data_bytes = fuzz_number (&f, 5);
  size_t bytes;
  uint8_t *batch = fuzz_rest (&f, &bytes);

  if (mended && bytes >= HEADER_SIZE &&
      bytes >= batch_payload_at (get_le16 (batch + AT_COUNT))) {
    put_le32 (batch + AT_BYTES, bytes);
    put_le32 (batch + AT_CRC, batch_crc (batch, get_le16 (batch + AT_COUNT)));
  }
  check (batch, bytes, data_bytes);
  free (batch);
  return 0;
}

void
fuzz_seeds (void (*seed) (const void *data, size_t size))
{
  static const struct batch_record records[] = {
    { BATCH_WRITE, 4096, 16, "sixteen letters." },
    { BATCH_ZERO, 0, 512, NULL },
    { BATCH_TRIM, 512, 512, NULL },
    { BATCH_CLEAR, 0, EXTENT_BYTES, NULL },
    { BATCH_SETTLE, 0, EXTENT_BYTES, NULL },
    { BATCH_ROUND, 0, 17, NULL },
    { BATCH_BAD, 8192, 4096, NULL },
  };
  uint8_t input[6 + 512] = { 1, 0, 0, 0, 1 }; /* 16 MiB */

  for (unsigned n = 0; n <= 7; n++) {
    batch_encode (records, n, input + 6);
    seed (input, 6 + batch_bytes (records, n));
  }
}
