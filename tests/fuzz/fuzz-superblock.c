/* fuzz-superblock.c: the two superblock slots of a disk with any content.  An accepted
 * superblock is sane, is encoded by superblock_encode to the same bytes, and can be
 * followed by another.
 *
 * The input: 1 byte, which checksums are mended; then the beginning of slot 0, of
 * 512 bytes, and of slot 1 (all that is behind is reserved, and zero).
 */

#include <config.h>

#include "fuzz.h"

#include "format/format.c"

#define SOME_BYTES 512

static void
mend (uint8_t *slot)
{
  put_le32 (slot + AT_CRC, format_crc (slot, SLOT_BYTES, AT_CRC));
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  struct fuzz f = { data, size };
  unsigned mended = (unsigned) fuzz_number (&f, 1);
  uint8_t *slots = calloc (2, SLOT_BYTES), again[SLOT_BYTES];
  struct superblock sb, one;
  const char *why = NULL;
  int newest;

  assert (slots);
  for (unsigned i = 0; i < 2; i++) {
    for (unsigned at = 0; at < SOME_BYTES && f.left > 0; at++)
      slots[i * SLOT_BYTES + at] = (uint8_t) fuzz_number (&f, 1);
    if (mended >> i & 1)
      mend (slots + i * SLOT_BYTES);
  }
  newest = superblock_newest (slots, &sb, &why);
  superblock_present (slots);
  if (newest == -1)
    assert (why);
  else {
    assert (superblock_check (&sb) == NULL &&
            sb.sequence % 2 == (unsigned) newest && sb.sequence < SEQUENCE_MAX);
    superblock_encode (&sb, again);
    assert (memcmp (again, slots + newest * SLOT_BYTES, SLOT_BYTES) == 0);
    if (!superblock_mend (slots, &sb))
      sb.sequence++;
    superblock_upgrade (&sb);
    superblock_encode (&sb, again);
    assert (superblock_decode (again, &one, &why) == 0);
    assert (superblock_same (&sb, &one));
  }
  free (slots);
  return 0;
}

void
fuzz_seeds (void (*seed) (const void *data, size_t size))
{
  struct superblock sb = { .disk = { 2 },
                           .data_offset = HEADER_BYTES,
                           .data_bytes = GiB (1) };
  uint8_t slots[2 * SLOT_BYTES], input[1 + 2 * SOME_BYTES];

  for (unsigned i = 0; i < 3; i++) {
    if (i > 0) {
      sb.cluster[0] = sb.array[0] = 1;
      sb.n = 4, sb.groups = 1, sb.unit = 262144, sb.position = 2;
      sb.member_bytes = MiB (512);
      sb.states[1] = MEMBER_OUT;
    }
    if (i > 1)
      superblock_upgrade (&sb);
    for (unsigned j = 0; j < 2; j++) {
      sb.sequence++;
      superblock_encode (&sb, slots + sb.sequence % 2 * SLOT_BYTES);
    }
    input[0] = 3;
    memcpy (input + 1, slots, SOME_BYTES);
    memcpy (input + 1 + SOME_BYTES, slots + SLOT_BYTES, SOME_BYTES);
    seed (input, sizeof input);
  }
}
