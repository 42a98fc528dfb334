/* fuzz-intents.c: intent maps: the blocks of one on a disk that anybody may have
 * written, and the map that a peer's intent door gives to a member that joins.
 *
 * The input: 1 byte, 0: a block; else a peer's map, in an array of a layout, a number of
 * members, a unit and a size as the bytes behind say.
 */

#include <config.h>

#include "fuzz.h"

#include "format/format.c"
#include "member/pull.h"

/* An unreadable block is dirty as a whole; a readable one is encoded to the same bytes
 * again. */
static void
fuzz_block (struct fuzz *f)
{
  bool mended = fuzz_number (f, 1) & 1;
  uint64_t extents = 1 + fuzz_number (f, 3) % (3 * INTENT_BLOCK_EXTENTS);
  uint8_t block[INTENT_BLOCK_BYTES] = { 0 }, again[INTENT_BLOCK_BYTES];
  struct intents map;
  unsigned i;
  const char *why = NULL;

  assert (intents_init (&map, extents) == 0);
  i = fuzz_below (f, intents_blocks (&map));
  for (unsigned at = 0; at < sizeof block && f->left > 0; at++)
    block[at] = (uint8_t) fuzz_number (f, 1);
  if (mended)
    put_le32 (block + BLOCK_AT_CRC,
              format_crc (block, INTENT_BLOCK_BYTES, BLOCK_AT_CRC));
  if (intents_decode (&map, i, block, &why) == 0) {
    intents_encode (&map, i, again);
    assert (memcmp (block, again, sizeof block) == 0);
  }
  else {
    assert (why);
    for (uint64_t e = i * INTENT_BLOCK_EXTENTS;
         e < extents && e < (i + 1) * INTENT_BLOCK_EXTENTS; e++)
      assert (intents_test (&map, e));
  }
  assert (intents_count (&map) <= extents);
  intents_free (&map);
}

static void
fuzz_peer (struct fuzz *f)
{
  enum layout_kind kind = fuzz_below (f, LAYOUT_KINDS);
  unsigned n = 1 + fuzz_below (f, 8), groups = 1 + fuzz_below (f, 3);
  uint64_t unit = UNIT_BYTES_MIN << fuzz_below (f, 11);
  uint64_t bytes = (1 + fuzz_number (f, 2) % 20000) * 4096;
  struct pull_task t = { .kind = PULL_INTENTS };
  unsigned from = fuzz_below (f, n * groups);
  char why[256];
  size_t size;
  uint8_t *map;

  if (layout_init (&t.layout, kind, n, groups, unit, bytes, why, sizeof why) ==
      -1)
    return;
  t.member = fuzz_below (f, n * groups);
  assert (intents_init (&t.peers, intents_extents (bytes)) == 0);
  map = fuzz_rest (f, &size);
  pull_task_map (&t, from, map, size);
  assert (intents_count (&t.peers) <= t.peers.extents);
  free (map);
  intents_free (&t.peers);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  struct fuzz f = { data, size };

  if (fuzz_number (&f, 1) == 0)
    fuzz_block (&f);
  else
    fuzz_peer (&f);
  return 0;
}

void
fuzz_seeds (void (*seed) (const void *data, size_t size))
{
  uint8_t input[6 + INTENT_BLOCK_BYTES] = { 0, 1, 99, 0, 0, 0 };
  static const uint8_t peers[] = { 1, 0, 3, 0, 6, 0, 64, 0, 1, 0xff, 0xff };
  struct intents map;

  if (intents_init (&map, 100) == -1)
    abort ();
  for (unsigned i = 0; i < 3; i++) {
    intents_encode (&map, 0, input + 6);
    seed (input, sizeof input);
    intents_set (&map, i * 40);
  }
  intents_free (&map);
  seed (peers, sizeof peers);
}
