/* fuzz-pool.c: a pool that anybody may have written: its header, a root, a log block.
 *
 * The input: 1 byte, which of them, and whether checksums are mended; then its bytes.
 * Encoding gives the bytes of accepted input.
 */

#include <config.h>

#include "fuzz.h"

#include "format/pool.c"

static struct pool_header header;
static struct pool_root root;
static struct pool_log_block block;
static uint8_t slots[2 * POOL_ROOT_BYTES], again[POOL_ROOT_BYTES];

static void
mend (uint8_t *slot, size_t bytes, size_t at)
{
  put_le32 (slot + at, format_crc (slot, bytes, at));
}

static void
one_header (bool mended)
{
  struct pool_header h;
  const char *why = NULL;
  int newest;

  for (unsigned i = 0; mended && i < 2; i++)
    mend (slots + i * POOL_SLOT_BYTES, POOL_SLOT_BYTES, AT_CRC);
  newest = pool_header_newest (slots, &h, &why);
  if (newest == -1) {
    assert (why);
    return;
  }
  assert (pool_header_check (&h) == NULL);
  assert (pool_first_segment (&h) < h.segments);
  pool_header_encode (&h, again);
  assert (memcmp (again, slots + newest * POOL_SLOT_BYTES, POOL_SLOT_BYTES) ==
          0);
}

static void
one_root (bool mended)
{
  uint32_t length = get_le32 (slots + ROOT_AT_LENGTH);
  const char *why = NULL;

  if (mended && length >= ROOT_AT_LISTS && length <= POOL_ROOT_BYTES)
    mend (slots, length, AT_CRC);
  if (pool_root_newest (slots, &header, &root, &why) == -1) {
    assert (why);
    return;
  }
  assert (pool_root_check (&root, &header) == NULL);
  assert (pool_root_encode (&root, again) <= POOL_ROOT_BYTES);
  assert (root.sequence % 2 == 1 || memcmp (again, slots, length) == 0);
}

static void
one_block (bool mended)
{
  const char *why = NULL;

  if (mended)
    mend (slots, POOL_LOG_BLOCK_BYTES, LOG_AT_CRC);
  if (pool_log_decode (slots, &header, &block, &why) != 0) {
    assert (why);
    return;
  }
  pool_log_encode (&block, again);
  assert (memcmp (again, slots, POOL_LOG_BLOCK_BYTES) == 0);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  unsigned which = size ? data[0] : 0;
  const char *why;

  assert (pool_plan (GiB (1), 0, &header, &why) == 0);
  memset (slots, 0, sizeof slots);
  if (size > 1)
    memcpy (slots, data + 1, size - 1 < sizeof slots ? size - 1 : sizeof slots);
  if (which % 3 == 0)
    one_header (which & 128);
  else if (which % 3 == 1)
    one_root (which & 128);
  else
    one_block (which & 128);
  return 0;
}

void
fuzz_seeds (void (*seed) (const void *data, size_t size))
{
  uint8_t input[1 + POOL_ROOT_BYTES] = { 129 };
  const char *why;
  size_t bytes;

  assert (pool_plan (GiB (1), 0, &header, &why) == 0);
  header.array[0] = header.sequence = 2;
  pool_header_encode (&header, input + 1);
  seed (input, 1 + POOL_SLOT_BYTES);
  root = (struct pool_root) {
    .sequence = 2,
    .array = { 2 },
    .volume = "volume",
    .size = MiB (1),
    .head = 2,
    .highest = 3,
    .snapshots_count = 1,
    .branches_count = 1,
    .log_count = 1,
    .name = "v",
    .snapshots = { { .layer = 1, .flags = POOL_NAMED, .name = "s" } },
    .branches = { { 3, 1 } },
    .log = { 9 }
  };
  input[0] = 130;
  bytes = pool_root_encode (&root, input + 1);
  seed (input, 1 + bytes);
  block = (struct pool_log_block) {
    .sequence = 3,
    .life = 1,
    .count = 4,
    .entries = { { 9, 0, 0, POOL_GONE, 0, 0 },
                 { 9, 1, 1, POOL_DATA, 0, 1 },
                 { 9, 1, 1, POOL_BASE, 0, 1 },
                 { POOL_NO_SEGMENT, 1, 1, POOL_HOLE, 7, 1 } },
  };
  input[0] = 131;
  pool_log_encode (&block, input + 1);
  seed (input, 1 + POOL_LOG_BLOCK_BYTES);
}
