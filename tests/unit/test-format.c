/* test-format.c: superblock slots and intent blocks: encoding and decoding are inverse,
 * the bytes lie where docs/FORMAT.md says, and no damaged block is accepted.
 */

#include <config.h>

#include <string.h>

#include <zlib.h>

#include "base/bytes.h"
#include "format/format.h"
#include "test-random.h"

static struct superblock
random_superblock (void)
{
  struct superblock sb = { .data_offset = HEADER_BYTES };

  test_random_bytes (sb.disk, 16);
  sb.disk[0] |= 1;
  sb.data_bytes = 4096 * (1 + test_random (MEMBER_DATA_BYTES_MAX / 4096));
  sb.min_epoch = test_random (EPOCH_MAX);
  sb.served_epoch = test_random (EPOCH_MAX);
  sb.generation = test_random (GENERATION_MAX);
  if (test_random (2))
    superblock_upgrade (&sb);
  sb.sequence = test_random (SEQUENCE_MAX);
  if (test_random (2))
    test_random_bytes (sb.cluster, 16);
  if (test_random (3)) {
    test_random_bytes (sb.array, 16);
    sb.array[0] |= 1;
    sb.n = 1 + test_random (GROUP_MEMBERS_MAX);
    sb.groups = 1 + test_random (ARRAY_MEMBERS_MAX / sb.n < ARRAY_GROUPS_MAX
                                   ? ARRAY_MEMBERS_MAX / sb.n
                                   : ARRAY_GROUPS_MAX);
    sb.position = test_random (sb.n * sb.groups);
    sb.layout = test_random (LAYOUT_KINDS);
    sb.unit = UNIT_BYTES_MIN << test_random (11);
    sb.states_epoch = test_random (EPOCH_MAX);
    if (test_random (2))
      sb.member_bytes = 4096 * (1 + test_random (sb.data_bytes / 4096));
    sb.dup = test_random (2);
    if (test_random (2))
      sb.round = test_random (EPOCH_MAX);
    for (unsigned i = 0; i < sb.n * sb.groups; i++)
      sb.states[i] = test_random (MEMBER_STATES);
  }
  return sb;
}

static void
test_slot_round_trip (void)
{
  for (int i = 0; i < 2000; i++) {
    struct superblock sb = random_superblock (), out;
    uint8_t slot[SLOT_BYTES], again[SLOT_BYTES];
    const char *why = NULL;

    superblock_encode (&sb, slot);
    CHECK (superblock_decode (slot, &out, &why) == 0);
    superblock_encode (&out, again);
    CHECK (memcmp (slot, again, SLOT_BYTES) == 0);
    CHECK (memcmp (out.disk, sb.disk, 16) == 0);
    CHECK (out.data_bytes == sb.data_bytes && out.unit == sb.unit);
    CHECK (out.min_epoch == sb.min_epoch && out.sequence == sb.sequence);
    CHECK (out.member_bytes == sb.member_bytes && out.dup == sb.dup);
    CHECK (memcmp (out.states, sb.states, sizeof sb.states) == 0);
    CHECK (out.round == sb.round && out.bad_offset == sb.bad_offset);
    /* Fields whose change makes another superblock. */
    CHECK (superblock_same (&out, &sb));
    out.sequence++;
    CHECK (superblock_same (&out, &sb));
    out.dup++;
    CHECK (!superblock_same (&out, &sb));
    out.dup--;
    out.member_bytes += 4096;
    CHECK (!superblock_same (&out, &sb));
  }
}

/* One slot with every field at a value of its own, byte by byte as in the
 * table of docs/FORMAT.md: the format may not change unnoticed.
 */
static void
test_slot_bytes (void)
{
  struct superblock sb = {
    .position = 5,
    .layout = LAYOUT_CHAINED,
    .n = 3,
    .groups = 2,
    .unit = 65536,
    .data_offset = 1 << 20,
    .data_bytes = 0x123456000,
    .min_epoch = 7,
    .served_epoch = 6,
    .generation = 9,
    .sequence = 11,
    .states_epoch = 8,
    .member_bytes = 0x23456000,
    .dup = 1,
    .states = { 0, 1, 2, 3, 0, 1 },
    .round = 13,
    .bad_offset = BAD_OFFSET,
  };
  uint8_t slot[SLOT_BYTES], copy[SLOT_BYTES];

  memset (sb.cluster, 0xc1, 16);
  memset (sb.disk, 0xd1, 16);
  memset (sb.array, 0xa1, 16);
  superblock_encode (&sb, slot);
  CHECK (memcmp (slot, "WEFTDISK", 8) == 0);
  CHECK (get_le32 (slot + 8) == 2);
  CHECK (slot[16] == 0xc1 && slot[31] == 0xc1);
  CHECK (slot[32] == 0xd1 && slot[47] == 0xd1);
  CHECK (slot[48] == 0xa1 && slot[63] == 0xa1);
  CHECK (get_le32 (slot + 64) == 5 && get_le32 (slot + 68) == 2);
  CHECK (get_le32 (slot + 72) == 3 && get_le32 (slot + 76) == 2);
  CHECK (get_le32 (slot + 80) == 65536 && get_le32 (slot + 84) == 0);
  CHECK (get_le64 (slot + 88) == 1 << 20);
  CHECK (get_le64 (slot + 96) == 0x123456000);
  CHECK (get_le64 (slot + 104) == 7 && get_le64 (slot + 112) == 6);
  CHECK (get_le64 (slot + 120) == 9 && get_le64 (slot + 128) == 11);
  CHECK (get_le64 (slot + 136) == 8);
  CHECK (get_le64 (slot + 144) == 0x23456000 && get_le32 (slot + 152) == 1);
  CHECK (memcmp (slot + 256, "\0\1\2\3\0\1\0", 7) == 0);
  CHECK (get_le64 (slot + 408) == 13 && get_le64 (slot + 416) == 1015808);
  memcpy (copy, slot, SLOT_BYTES);
  memset (copy + 12, 0, 4);
  CHECK (get_le32 (slot + 12) == crc32 (0, copy, SLOT_BYTES));

  /* Without these two it is a disk of version 1, as it always was. */
  sb.round = sb.bad_offset = 0;
  superblock_encode (&sb, slot);
  CHECK (get_le32 (slot + 8) == 1);
  CHECK (get_le64 (slot + 408) == 0 && get_le64 (slot + 416) == 0);
}

static void
test_usable (void)
{
  CHECK (format_usable (8192) == 0 && format_usable (12288) == 4096);
  CHECK (format_usable (EXTENT_BYTES) == EXTENT_BYTES - 8192);
  CHECK (format_usable (257 * EXTENT_BYTES) ==
         257 * EXTENT_BYTES - 257 * 4096 - 8192);
}

/* A disk whose intent map takes all of the header keeps it. */
static void
test_upgrade (void)
{
  struct superblock sb = { .data_offset = HEADER_BYTES };

  sb.data_bytes = FORMAT_DATA_BYTES_MAX + 4096;
  superblock_upgrade (&sb);
  CHECK (sb.bad_offset == 0);
  sb.data_bytes = FORMAT_DATA_BYTES_MAX;
  superblock_upgrade (&sb);
  CHECK (sb.bad_offset == BAD_OFFSET);
  CHECK (INTENT_BLOCKS_OFFSET + (intents_extents (FORMAT_DATA_BYTES_MAX) +
                                 INTENT_BLOCK_EXTENTS - 1) /
                                  INTENT_BLOCK_EXTENTS * INTENT_BLOCK_BYTES <=
         BAD_OFFSET);
}

static void
refused (const uint8_t slot[SLOT_BYTES])
{
  struct superblock out;
  const char *why = NULL;

  memset (&out, 0x5a, sizeof out);
  CHECK (superblock_decode (slot, &out, &why) == -1);
  CHECK (why != NULL && *why);
  for (size_t i = 0; i < sizeof out; i++)
    CHECK (((uint8_t *) &out)[i] == 0x5a); /* untouched */
}

static void
test_slot_flips (void)
{
  struct superblock sb = random_superblock ();
  uint8_t slot[SLOT_BYTES];

  superblock_encode (&sb, slot);
  for (unsigned bit = 0; bit < SLOT_BYTES * 8; bit++) {
    slot[bit / 8] ^= 1 << (bit % 8);
    refused (slot);
    slot[bit / 8] ^= 1 << (bit % 8);
  }
  for (unsigned i = 0; i < SLOT_BYTES; i++) {
    uint8_t old = slot[i];

    slot[i] = ~old;
    refused (slot);
    slot[i] = old;
  }
  /* A write that was cut short: the first part new, the rest old. */
  for (unsigned cut = 8; cut < 400; cut++) {
    struct superblock other = random_superblock ();
    uint8_t torn[SLOT_BYTES], old[SLOT_BYTES];

    superblock_encode (&other, old);
    memcpy (torn, old, SLOT_BYTES);
    memcpy (torn, slot, cut);
    if (memcmp (torn, slot, SLOT_BYTES) != 0 &&
        memcmp (torn, old, SLOT_BYTES) != 0)
      refused (torn);
  }
}

/* Nonsense under a right CRC: each field is checked by itself. */
static void
nonsense (unsigned at, uint64_t v, unsigned bytes)
{
  struct superblock sb = random_superblock ();
  uint8_t slot[SLOT_BYTES];

  while (format_uuid_zero (sb.array))
    sb = random_superblock ();
  superblock_encode (&sb, slot);
  if (bytes == 8)
    put_le64 (slot + at, v);
  else if (bytes == 4)
    put_le32 (slot + at, v);
  else
    slot[at] = v;
  memset (slot + 12, 0, 4);
  put_le32 (slot + 12, crc32 (0, slot, SLOT_BYTES));
  refused (slot);
}

static void
test_slot_nonsense (void)
{
  nonsense (8, 0, 4); /* version */
  nonsense (8, 3, 4);
  nonsense (64, ARRAY_MEMBERS_MAX, 4); /* position */
  nonsense (68, LAYOUT_KINDS, 4);
  nonsense (68, UINT32_MAX, 4);
  nonsense (72, 0, 4); /* n */
  nonsense (72, GROUP_MEMBERS_MAX + 1, 4);
  nonsense (72, UINT32_MAX, 4);
  nonsense (76, 0, 4); /* groups */
  nonsense (76, UINT32_MAX, 4);
  nonsense (80, 0, 4); /* unit */
  nonsense (80, 65537, 4);
  nonsense (80, UNIT_BYTES_MAX * 2, 4);
  nonsense (84, 1, 4); /* unused */
  nonsense (88, 0, 8); /* data offset */
  nonsense (88, HEADER_BYTES + 1, 8);
  nonsense (88, UINT64_MAX - 4095, 8);
  nonsense (96, 0, 8); /* data bytes */
  nonsense (96, 4097, 8);
  nonsense (96, MEMBER_DATA_BYTES_MAX + 4096, 8);
  nonsense (96, UINT64_MAX - 4095, 8);
  nonsense (104, EPOCH_MAX + 1, 8);
  nonsense (112, EPOCH_MAX, 8); /* no epoch is above it */
  nonsense (120, GENERATION_MAX + 1, 8);
  nonsense (128, SEQUENCE_MAX + 1, 8);
  nonsense (136, EPOCH_MAX, 8);
  nonsense (144, 4095, 8); /* member bytes */
  nonsense (144, UINT64_MAX - 4095, 8);
  nonsense (144, MEMBER_DATA_BYTES_MAX + 4096, 8);
  nonsense (152, 2, 4); /* dup */
  nonsense (152, UINT32_MAX, 4);
  nonsense (156, 1, 1); /* unused */
  nonsense (255, 1, 1);
  nonsense (256, MEMBER_STATES, 1);         /* states */
  nonsense (256 + ARRAY_MEMBERS_MAX, 1, 1); /* unused */
  nonsense (407, 1, 1);
  nonsense (408, EPOCH_MAX + 1, 8); /* round */
  nonsense (416, 4096, 8);          /* bad ranges */
  nonsense (424, 1, 1);             /* unused */
  nonsense (SLOT_BYTES - 1, 1, 1);
  for (unsigned i = 32; i < 48; i++) { /* the disk's UUID */
    struct superblock sb = random_superblock ();
    uint8_t slot[SLOT_BYTES];

    memset (sb.disk, 0, 16);
    superblock_encode (&sb, slot);
    refused (slot);
  }
}

/* A disk of no array says that its used length is 0.  A superblock from before these
 * fields had a meaning says "unknown".
 */
static void
test_slot_uses (void)
{
  struct superblock sb = { .data_offset = HEADER_BYTES,
                           .data_bytes = 8192,
                           .member_bytes = 4096 },
                    out;
  uint8_t slot[SLOT_BYTES];
  const char *why;

  sb.disk[0] = 1;
  CHECK (superblock_check (&sb) != NULL);
  sb.member_bytes = 0;
  CHECK (superblock_check (&sb) == NULL);
  sb.dup = 1;
  CHECK (superblock_check (&sb) != NULL);

  sb.dup = 0;
  sb.array[0] = 1;
  sb.n = sb.groups = 1;
  sb.unit = 4096;
  superblock_encode (&sb, slot);
  CHECK (superblock_decode (slot, &out, &why) == 0 && out.member_bytes == 0);
  sb.member_bytes = 8192;
  CHECK (superblock_check (&sb) == NULL);
  sb.member_bytes = 8192 + 4096;
  CHECK (superblock_check (&sb) != NULL);
}

static void
test_newest (void)
{
  uint8_t slots[2 * SLOT_BYTES] = { 0 };
  struct superblock sb = random_superblock (), out;
  const char *why = NULL;

  CHECK (superblock_newest (slots, &out, &why) == -1 && why);
  CHECK (!superblock_present (slots));
  for (sb.sequence = 1; sb.sequence < 20; sb.sequence++) {
    sb.min_epoch = sb.sequence;
    superblock_encode (&sb, slots + sb.sequence % 2 * SLOT_BYTES);
    CHECK (superblock_newest (slots, &out, &why) == (int) (sb.sequence % 2));
    CHECK (out.min_epoch == sb.sequence);
    CHECK (superblock_present (slots));
  }
  /* The newer one is bad: the older counts.  Both: none. */
  slots[SLOT_BYTES + 100] ^= 1;
  CHECK (superblock_newest (slots, &out, &why) == 0 && out.min_epoch == 18);
  slots[100] ^= 1;
  CHECK (superblock_newest (slots, &out, &why) == -1);
  CHECK (strstr (why, "checksum") != NULL);
  slots[100] ^= 1;
  slots[SLOT_BYTES + 100] ^= 1;
  CHECK (superblock_newest (slots, &out, &why) == 1);
  /* A slot in the place of the other is none. */
  memcpy (slots, slots + SLOT_BYTES, SLOT_BYTES);
  memset (slots + SLOT_BYTES, 0, SLOT_BYTES);
  CHECK (superblock_newest (slots, &out, &why) == -1);
  CHECK (strstr (why, "wrong place") != NULL);
  /* Slots of two disks. */
  sb.sequence = 20;
  superblock_encode (&sb, slots);
  sb.sequence = 21;
  sb.disk[1] ^= 1;
  superblock_encode (&sb, slots + SLOT_BYTES);
  CHECK (superblock_newest (slots, &out, &why) == -1);
  CHECK (strstr (why, "different disks") != NULL);

  sb = random_superblock ();
  out = sb;
  out.sequence++;
  CHECK (superblock_same (&sb, &out));
  out.min_epoch ^= 1;
  CHECK (!superblock_same (&sb, &out));
}

/* Any accepted superblock can be written once more; others are refused. */
static void
test_highest (void)
{
  static uint8_t slots[2 * SLOT_BYTES];
  struct superblock sb = random_superblock (), out;
  const char *why = NULL;

  sb.sequence = SEQUENCE_MAX - 1;
  superblock_encode (&sb, slots + sb.sequence % 2 * SLOT_BYTES);
  CHECK (superblock_newest (slots, &out, &why) == 1);
  CHECK (superblock_mend (slots, &out) && out.sequence == SEQUENCE_MAX);
  superblock_encode (&out, slots);
  CHECK (superblock_decode (slots, &out, &why) == 0);
  CHECK (superblock_newest (slots, &out, &why) == -1);
  CHECK (strstr (why, "sequence number") != NULL);
}

/* ---- Intents ---- */

/* The map survives encoding and decoding. */
static void
blocks_round_trip (const struct intents *map, struct intents *out)
{
  uint8_t block[INTENT_BLOCK_BYTES];
  const char *why;

  for (unsigned b = 0; b < intents_blocks (map); b++) {
    intents_encode (map, b, block);
    CHECK (intents_decode (out, b, block, &why) == 0);
  }
  CHECK (out->extents == map->extents);
  for (uint64_t e = 0; e < map->extents; e++)
    CHECK (intents_test (map, e) == intents_test (out, e));
}

static void
test_intents (uint64_t extents)
{
  struct intents map, out;
  uint8_t *model = calloc (extents, 1);
  uint64_t count = 0;

  CHECK (model && intents_init (&map, extents) == 0 &&
         intents_init (&out, extents) == 0);
  for (int i = 0; i < 3000; i++) {
    uint64_t e = test_random (extents);
    bool set = test_random (3);

    CHECK (intents_test (&map, e) == model[e]);
    count += set - model[e];
    model[e] = set;
    if (set)
      intents_set (&map, e);
    else
      intents_clear (&map, e);
  }
  CHECK (intents_count (&map) == count);
  blocks_round_trip (&map, &out);
  intents_set_all (&map);
  CHECK (intents_count (&map) == extents);
  blocks_round_trip (&map, &out);
  intents_free (&map);
  intents_free (&out);
  free (model);
}

static void
bad_block (struct intents *map, unsigned b, const uint8_t *block)
{
  const char *why = NULL;
  uint64_t e = b * INTENT_BLOCK_EXTENTS, end = e + INTENT_BLOCK_EXTENTS;

  for (uint64_t i = 0; i < map->extents; i++)
    intents_clear (map, i);
  CHECK (intents_decode (map, b, block, &why) == -1 && why && *why);
  /* All dirty, and nothing beyond. */
  if (end > map->extents)
    end = map->extents;
  CHECK (intents_count (map) == end - e);
  CHECK (intents_test (map, e) && intents_test (map, end - 1));
}

static void
test_block_flips (void)
{
  struct intents map, out;
  uint8_t block[INTENT_BLOCK_BYTES], zero[INTENT_BLOCK_BYTES] = { 0 };

  /* Two blocks, the second with a few extents only, where all of the bits
   * after them must be zero.
   */
  CHECK (intents_init (&map, INTENT_BLOCK_EXTENTS + 70) == 0);
  CHECK (intents_init (&out, INTENT_BLOCK_EXTENTS + 70) == 0);
  for (int i = 0; i < 50; i++)
    intents_set (&map, INTENT_BLOCK_EXTENTS + test_random (70));
  intents_encode (&map, 1, block);
  for (unsigned bit = 0; bit < INTENT_BLOCK_BYTES * 8;
       bit += 1 + test_random (40)) {
    block[bit / 8] ^= 1 << (bit % 8);
    bad_block (&out, 1, block);
    block[bit / 8] ^= 1 << (bit % 8);
  }
  bad_block (&out, 0, block); /* in the wrong place */
  bad_block (&out, 0, zero);
  bad_block (&out, 1, zero);
  /* Bits of extents that are not there, and a field that has no meaning,
   * under a right CRC.
   */
  block[INTENT_BLOCK_HEADER_BYTES + 9] |= 0x80; /* extent 79 of the block */
  memset (block + 8, 0, 4);
  put_le32 (block + 8, crc32 (0, block, INTENT_BLOCK_BYTES));
  bad_block (&out, 1, block);
  intents_encode (&map, 1, block);
  block[12] = 1;
  memset (block + 8, 0, 4);
  put_le32 (block + 8, crc32 (0, block, INTENT_BLOCK_BYTES));
  bad_block (&out, 1, block);
  intents_free (&map);
  intents_free (&out);
}

static void
test_intent_bytes (void)
{
  struct intents map;
  uint8_t block[INTENT_BLOCK_BYTES], copy[INTENT_BLOCK_BYTES];

  CHECK (intents_init (&map, 2 * INTENT_BLOCK_EXTENTS) == 0);
  intents_set (&map, INTENT_BLOCK_EXTENTS);
  intents_set (&map, INTENT_BLOCK_EXTENTS + 13);
  intents_set (&map, 2 * INTENT_BLOCK_EXTENTS - 1);
  intents_encode (&map, 1, block);
  CHECK (memcmp (block, "WINT", 4) == 0);
  CHECK (get_le32 (block + 4) == 1 && get_le32 (block + 12) == 0);
  CHECK (block[16] == 1 && block[17] == 0x20 && block[4095] == 0x80);
  memcpy (copy, block, sizeof copy);
  memset (copy + 8, 0, 4);
  CHECK (get_le32 (block + 8) == crc32 (0, copy, sizeof copy));
  intents_free (&map);

  CHECK (intents_extents (1) == 1);
  CHECK (intents_extents (EXTENT_BYTES) == 1);
  CHECK (intents_extents (EXTENT_BYTES + 4096) == 2);
  CHECK (intents_init (&map, intents_extents (MEMBER_DATA_BYTES_MAX)) == 0);
  CHECK (INTENT_BLOCKS_OFFSET +
           (uint64_t) intents_blocks (&map) * INTENT_BLOCK_BYTES <=
         HEADER_BYTES);
  intents_free (&map);
}

static void
test_uuid (void)
{
  static const char *const bad[] = {
    "",
    "0",
    "00112233-4455-6677-8899-aabbccddeef",
    "00112233-4455-6677-8899-aabbccddeeff0",
    "00112233-4455-6677-8899-AABBCCDDEEFF",
    "001122334-455-6677-8899-aabbccddeeff",
    "00112233-4455-6677-8899-aabbccddeefg",
    "00112233445566778899aabbccddeeff",
  };
  uint8_t uuid[16], out[16] = { 0 };
  char text[FORMAT_UUID_TEXT_BYTES];

  CHECK (format_uuid_zero (out));
  for (int i = 0; i < 100; i++) {
    test_random_bytes (uuid, 16);
    format_uuid (uuid, text);
    CHECK (strlen (text) == 36);
    CHECK (format_uuid_parse (text, out) == 0 && memcmp (uuid, out, 16) == 0);
  }
  CHECK (!format_uuid_zero (out));
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    CHECK (format_uuid_parse (bad[i], out) == -1);
  CHECK (memcmp (uuid, out, 16) == 0); /* untouched */

  for (int i = 0; i < MEMBER_STATES; i++)
    CHECK (member_state_parse (member_state_name (i)) == i);
  CHECK (member_state_parse ("insync") == -1);
}

/* A slot that differs from the other is written again, as the next one. */
static void
test_mend (void)
{
  uint8_t slots[2 * SLOT_BYTES];
  struct superblock sb = random_superblock (), out;
  const char *why;

  for (unsigned bad = 0; bad < 2; bad++)
    for (sb.sequence = 8; sb.sequence < 10; sb.sequence++) {
      struct superblock older = sb;

      older.sequence--;
      superblock_encode (&older, slots + older.sequence % 2 * SLOT_BYTES);
      superblock_encode (&sb, slots + sb.sequence % 2 * SLOT_BYTES);
      CHECK (superblock_newest (slots, &out, &why) >= 0);
      CHECK (!superblock_mend (slots, &out) && out.sequence == sb.sequence);
      older.min_epoch ^= 1;
      superblock_encode (&older, slots + older.sequence % 2 * SLOT_BYTES);
      CHECK (superblock_mend (slots, &out) && out.sequence == sb.sequence + 1);
      older.min_epoch ^= 1;
      superblock_encode (&older, slots + older.sequence % 2 * SLOT_BYTES);
      slots[bad * SLOT_BYTES + test_random (SLOT_BYTES)] ^= 1;
      CHECK (superblock_newest (slots, &out, &why) == (int) !bad);
      CHECK (superblock_mend (slots, &out));
      /* It says no less than the bad one did, and what the good one says. */
      CHECK (out.sequence % 2 == bad && out.sequence >= sb.sequence);
      CHECK (superblock_same (&out, &sb));
    }
}

int
main (void)
{
  test_random_start ();
  test_slot_round_trip ();
  test_slot_bytes ();
  test_usable ();
  test_upgrade ();
  test_slot_flips ();
  test_slot_nonsense ();
  test_slot_uses ();
  test_newest ();
  test_highest ();
  test_mend ();
  test_intents (1);
  test_intents (63);
  test_intents (64);
  test_intents (65);
  test_intents (INTENT_BLOCK_EXTENTS);
  test_intents (INTENT_BLOCK_EXTENTS + 1);
  test_intents (3 * INTENT_BLOCK_EXTENTS - 5);
  test_block_flips ();
  test_intent_bytes ();
  test_uuid ();
  return 0;
}
