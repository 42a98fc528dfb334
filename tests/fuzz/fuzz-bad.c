/* fuzz-bad.c: the list of bad ranges of a disk that anybody may have written, and what
 * is then done with it, against a plain map of the blocks.
 *
 * The input: 1 byte, which checksums are mended; 1 byte, how many ranges; the header of
 * a slot and that many ranges (the other slot is empty); then changes, 5 bytes each.
 */

#include <config.h>

#include "fuzz.h"

#include "format/bad.c"

#define BLOCKS 2048

static uint8_t oracle[BLOCKS]; /* the reason, or 0 */

static void
check (const struct bad_list *list)
{
  uint8_t slots[2 * BAD_SLOT_BYTES] = { 0 };
  uint64_t bad = 0;
  struct bad_list again;
  const char *why;
  bool mend;

  for (unsigned i = 0; i < list->count; i++)
    for (unsigned j = 0; j < list->range[i].blocks; j++)
      assert (oracle[list->range[i].first + j] == list->range[i].reason);
  for (unsigned i = 0; i < BLOCKS; i++)
    bad += oracle[i] != 0;
  assert (bad * BAD_BLOCK_BYTES == bad_bytes (list));
  if (list->sequence >= SEQUENCE_MAX) /* nobody would read it */
    return;
  bad_encode (list, slots + list->sequence % 2 * BAD_SLOT_BYTES);
  assert (bad_decode (slots, (uint64_t) BLOCKS * BAD_BLOCK_BYTES, &again, &mend,
                      &why) == 0);
  assert (again.sequence == list->sequence && again.count == list->count &&
          memcmp (again.range, list->range,
                  list->count * sizeof list->range[0]) == 0);
}

static void
change (struct bad_list *list, struct fuzz *f)
{
  unsigned what = fuzz_below (f, 4);
  uint64_t from = fuzz_below (f, BLOCKS), blocks = 1 + fuzz_below (f, 64);
  unsigned reason = what == 0 ? 0 : what;

  if (blocks > BLOCKS - from)
    blocks = BLOCKS - from;
  if (reason == 0)
    bad_good (list, from * BAD_BLOCK_BYTES, blocks * BAD_BLOCK_BYTES);
  else if (!bad_add (list, from * BAD_BLOCK_BYTES, blocks * BAD_BLOCK_BYTES,
                     reason))
    return;
  memset (oracle + from, (int) reason, blocks);
  assert (bad_test (list, from * BAD_BLOCK_BYTES, 1) == (reason != 0));
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  struct fuzz f = { data, size };
  bool mended = fuzz_number (&f, 1) & 1, mend;
  unsigned bytes = AT_RANGES + fuzz_below (&f, 48) * RANGE_SIZE;
  uint8_t *slots = calloc (2, BAD_SLOT_BYTES);
  struct bad_list list;
  const char *why = NULL;

  assert (slots);
  for (unsigned at = 0; at < bytes && f.left > 0; at++)
    slots[at] = (uint8_t) fuzz_number (&f, 1);
  if (mended)
    put_le32 (slots + AT_CRC, format_crc (slots, BAD_SLOT_BYTES, AT_CRC));
  if (bad_decode (slots, (uint64_t) BLOCKS * BAD_BLOCK_BYTES, &list, &mend,
                  &why) == -1)
    assert (why);
  else {
    memset (oracle, 0, sizeof oracle);
    for (unsigned i = 0; i < list.count; i++)
      memset (oracle + list.range[i].first, (int) list.range[i].reason,
              list.range[i].blocks);
    check (&list);
    for (unsigned i = 0; i < 64 && f.left > 0; i++)
      change (&list, &f);
    check (&list);
  }
  free (slots);
  return 0;
}

void
fuzz_seeds (void (*seed) (const void *data, size_t size))
{
  struct bad_list list = { .sequence = 3 };
  uint8_t input[2 + BAD_SLOT_BYTES + 10] = { 1 };
  static const uint8_t changes[] = { 2, 0, 0, 5, 0, 0, 1, 0, 2, 0 };

  for (unsigned n = 0; n < 4; n++) {
    input[1] = (uint8_t) list.count;
    bad_encode (&list, input + 2);
    memcpy (input + 2 + AT_RANGES + n * RANGE_SIZE, changes, sizeof changes);
    seed (input, 2 + AT_RANGES + n * RANGE_SIZE + sizeof changes);
    bad_add (&list, n * 65536 + 4096, 8192, BAD_REBUILD + n % 3);
  }
}
