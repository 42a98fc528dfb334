/* format.c: the bytes of a member's header.
 *
 * Every decoder checks the magic, the version, the CRC-32 and then each field
 * by itself: a CRC says that the bytes are those that were written, not that
 * whoever wrote them was right.  Bytes that mean nothing in this version must
 * be zero, so that a later version can give them a meaning.
 */

#include <config.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "base/bytes.h"
#include "format.h"

static const char *const dup_names[] = { "async-client", "sync-client" };

const char *
array_dup_name (enum array_dup dup)
{
  return dup_names[dup];
}

int
array_dup_parse (const char *name)
{
  for (unsigned i = 0; i < sizeof dup_names / sizeof dup_names[0]; i++)
    if (strcmp (name, dup_names[i]) == 0)
      return i;
  return -1;
}

static const char *const state_names[MEMBER_STATES] = {
  [MEMBER_IN_SYNC] = "in-sync",
  [MEMBER_OUT] = "out",
  [MEMBER_JOINING] = "joining",
  [MEMBER_SPARE] = "spare",
};

const char *
member_state_name (enum member_state state)
{
  assert (state < MEMBER_STATES);
  return state_names[state];
}

int
member_state_parse (const char *name)
{
  for (int i = 0; i < MEMBER_STATES; i++)
    if (strcmp (name, state_names[i]) == 0)
      return i;
  return -1;
}

/* ---- Superblock slots ---- */

static const char slot_magic[8] = "WEFTDISK";

enum {
  AT_MAGIC = 0,
  AT_VERSION = 8,
  AT_CRC = 12,
};

/* Where the other fields lie: integers of 4 and 8 bytes, and longer strings of bytes.
 * docs/FORMAT.md has the same table.
 */
static const struct {
  uint16_t at, bytes, in; /* `in`: in struct superblock */
} fields[] = {
#define FIELD(at, name)                                                        \
  { at, sizeof ((struct superblock *) NULL)->name,                             \
    offsetof (struct superblock, name) }
  FIELD (16, cluster),       FIELD (32, disk),        FIELD (48, array),
  FIELD (64, position),      FIELD (68, layout),      FIELD (72, n),
  FIELD (76, groups),        FIELD (80, unit),        FIELD (88, data_offset),
  FIELD (96, data_bytes),    FIELD (104, min_epoch),  FIELD (112, served_epoch),
  FIELD (120, generation),   FIELD (128, sequence),   FIELD (136, states_epoch),
  FIELD (144, member_bytes), FIELD (152, dup),        FIELD (256, states),
  FIELD (408, round),        FIELD (416, bad_offset),
};
#define FIELDS (sizeof fields / sizeof fields[0])
_Static_assert (sizeof (enum layout_kind) == 4 && ARRAY_MEMBERS_MAX > 8,
                "a field's size says whether it is an integer");

/* These numbers are on disks: they are not to change with the enums. */
_Static_assert (LAYOUT_RAIDX == 0 && LAYOUT_RAID10 == 1 &&
                  LAYOUT_CHAINED == 2 && LAYOUT_ROTATED == 3 &&
                  LAYOUT_RAID1 == 4 && LAYOUT_RAID0 == 5,
                "layout numbers are part of the format");
_Static_assert (MEMBER_IN_SYNC == 0 && MEMBER_OUT == 1 && MEMBER_JOINING == 2 &&
                  MEMBER_SPARE == 3,
                "state numbers are part of the format");
_Static_assert (DUP_ASYNC_CLIENT == 0 && DUP_SYNC_CLIENT == 1,
                "dup numbers are part of the format");

uint32_t
format_crc (const uint8_t *block, size_t bytes, size_t crc_at)
{
  static const uint8_t zero[4];
  uLong crc = crc32 (0, block, crc_at);

  crc = crc32 (crc, zero, sizeof zero);
  return crc32 (crc, block + crc_at + 4, bytes - crc_at - 4);
}

void
superblock_upgrade (struct superblock *sb)
{
  if (sb->bad_offset == 0 && sb->data_offset == HEADER_BYTES &&
      sb->data_bytes <= FORMAT_DATA_BYTES_MAX)
    sb->bad_offset = BAD_OFFSET;
}

uint64_t
format_usable (uint64_t data_bytes)
{
  uint64_t extents = intents_extents (data_bytes);
  uint64_t sums = extents * 4096 + (extents * 16 + 4095) / 4096 * 4096;

  return data_bytes > sums ? data_bytes - sums : 0;
}

void
superblock_encode (const struct superblock *sb, uint8_t slot[SLOT_BYTES])
{
  memset (slot, 0, SLOT_BYTES);
  memcpy (slot + AT_MAGIC, slot_magic, sizeof slot_magic);
  put_le32 (slot + AT_VERSION, sb->round || sb->bad_offset ? 2 : 1);
  for (unsigned i = 0; i < FIELDS; i++) {
    const char *from = (const char *) sb + fields[i].in;
    uint8_t *to = slot + fields[i].at;
    uint32_t v4;
    uint64_t v8;

    switch (fields[i].bytes) {
    case 4:
      memcpy (&v4, from, 4);
      put_le32 (to, v4);
      break;
    case 8:
      memcpy (&v8, from, 8);
      put_le64 (to, v8);
      break;
    default:
      memcpy (to, from, fields[i].bytes);
    }
  }
  put_le32 (slot + AT_CRC, format_crc (slot, SLOT_BYTES, AT_CRC));
}

const char *
superblock_check (const struct superblock *sb)
{
  if (format_uuid_zero (sb->disk))
    return "its disk UUID is zero";
  if (sb->data_offset < HEADER_BYTES || sb->data_offset % 4096 != 0 ||
      sb->data_offset > GiB (1))
    return "its data offset is out of range";
  if (sb->data_bytes == 0 || sb->data_bytes > MEMBER_DATA_BYTES_MAX ||
      sb->data_bytes % 4096 != 0)
    return "the size of its data area is out of range";
  /* The next process refuses what is not above the latter two. */
  if (sb->min_epoch > EPOCH_MAX || sb->served_epoch >= EPOCH_MAX ||
      sb->states_epoch >= EPOCH_MAX)
    return "an epoch is out of range";
  if (sb->generation > GENERATION_MAX)
    return "its generation is out of range";
  if (sb->sequence > SEQUENCE_MAX)
    return "its sequence number is out of range";
  if (sb->round > EPOCH_MAX)
    return "its round is out of range";
  if (sb->bad_offset != 0 &&
      (sb->bad_offset != BAD_OFFSET || sb->data_bytes > FORMAT_DATA_BYTES_MAX))
    return "the place of its list of bad ranges is out of range";
  if (format_uuid_zero (sb->array))
    return sb->position || sb->layout || sb->n || sb->groups || sb->unit ||
               sb->states_epoch || sb->member_bytes || sb->dup || sb->round ||
               !all_zero (sb->states, ARRAY_MEMBERS_MAX)
             ? "it has a place in an array but no array"
             : NULL;

  /* The layout's own rules (even n for raid-10...) are layout_init's. */
  if (sb->layout >= LAYOUT_KINDS)
    return "its layout is unknown to this version";
  if (sb->n < 1 || sb->n > GROUP_MEMBERS_MAX || sb->groups < 1 ||
      sb->groups > ARRAY_GROUPS_MAX || sb->n * sb->groups > ARRAY_MEMBERS_MAX)
    return "its number of members is out of range";
  if (sb->position >= sb->n * sb->groups)
    return "its position in the array is out of range";
  if (sb->unit < UNIT_BYTES_MIN || sb->unit > UNIT_BYTES_MAX ||
      (sb->unit & (sb->unit - 1)) != 0)
    return "its stripe unit is out of range";
  if (sb->member_bytes > sb->data_bytes || sb->member_bytes % 4096 != 0)
    return "the size that the array uses of each member is out of range";
  if (sb->dup > DUP_SYNC_CLIENT)
    return "its duplication protocol is unknown to this version";
  for (unsigned i = 0; i < sb->n * sb->groups; i++)
    if (sb->states[i] >= MEMBER_STATES)
      return "a member's state is unknown to this version";
  if (!all_zero (sb->states + sb->n * sb->groups,
                 ARRAY_MEMBERS_MAX - sb->n * sb->groups))
    return "it has a state for more members than the array has";
  return NULL;
}

int
superblock_decode (const uint8_t slot[SLOT_BYTES], struct superblock *sb,
                   const char **why)
{
  struct superblock s = { 0 };
  uint8_t again[SLOT_BYTES];

  if (memcmp (slot + AT_MAGIC, slot_magic, sizeof slot_magic) != 0) {
    *why = "it does not begin with a Weft header";
    return -1;
  }
  /* The CRC before the version: a flipped bit is no newer version. */
  if (get_le32 (slot + AT_CRC) != format_crc (slot, SLOT_BYTES, AT_CRC)) {
    *why = "the checksum of its Weft header is wrong";
    return -1;
  }
  if (get_le32 (slot + AT_VERSION) < 1 || get_le32 (slot + AT_VERSION) > 2) {
    *why = "its Weft header has a version that this program does not know";
    return -1;
  }
  for (unsigned i = 0; i < FIELDS; i++) {
    const uint8_t *from = slot + fields[i].at;
    char *to = (char *) &s + fields[i].in;
    uint32_t v4;
    uint64_t v8;

    switch (fields[i].bytes) {
    case 4:
      v4 = get_le32 (from);
      memcpy (to, &v4, 4);
      break;
    case 8:
      v8 = get_le64 (from);
      memcpy (to, &v8, 8);
      break;
    default:
      memcpy (to, from, fields[i].bytes);
    }
  }
  *why = superblock_check (&s);
  if (*why != NULL)
    return -1;
  /* Encoding a decoded superblock gives the same bytes: the version is the
   * lowest possible one, and all bytes outside of fields are zero.
   */
  superblock_encode (&s, again);
  if (memcmp (slot, again, SLOT_BYTES) != 0) {
    *why = "a field that this version does not know is not zero";
    return -1;
  }
  *sb = s;
  return 0;
}

bool
superblock_mend (const uint8_t slots[2 * SLOT_BYTES], struct superblock *sb)
{
  const uint8_t *slot = slots + (sb->sequence + 1) % 2 * SLOT_BYTES;
  struct superblock other;
  const char *why;

  if (superblock_decode (slot, &other, &why) == 0 &&
      superblock_same (sb, &other))
    return false;
  sb->sequence++;
  return true;
}

bool
superblock_same (const struct superblock *a, const struct superblock *b)
{
  for (unsigned i = 0; i < FIELDS; i++)
    if (fields[i].in != offsetof (struct superblock, sequence) &&
        memcmp ((const char *) a + fields[i].in,
                (const char *) b + fields[i].in, fields[i].bytes) != 0)
      return false;
  return true;
}

bool
superblock_present (const uint8_t slots[2 * SLOT_BYTES])
{
  return memcmp (slots, slot_magic, sizeof slot_magic) == 0 ||
         memcmp (slots + SLOT_BYTES, slot_magic, sizeof slot_magic) == 0;
}

int
superblock_newest (const uint8_t slots[2 * SLOT_BYTES], struct superblock *sb,
                   const char **why)
{
  struct superblock s[2];
  const char *wrong[2]; /* NULL: nothing */
  int newest;

  for (unsigned i = 0; i < 2; i++)
    if (superblock_decode (slots + i * SLOT_BYTES, &s[i], &wrong[i]) == 0 &&
        s[i].sequence % 2 != i)
      wrong[i] = "its Weft header is in the wrong place";
  if (!wrong[0] && !wrong[1]) {
    if (memcmp (s[0].disk, s[1].disk, 16) != 0) {
      *why = "its two superblock slots are those of different disks";
      return -1;
    }
    newest = s[1].sequence > s[0].sequence;
  }
  else if (!wrong[0] || !wrong[1])
    newest = !wrong[1];
  else {
    /* Slot 0 says why, unless only slot 1 has anything in it. */
    *why = memcmp (slots, slot_magic, sizeof slot_magic) == 0 ||
               memcmp (slots + SLOT_BYTES, slot_magic, sizeof slot_magic) != 0
             ? wrong[0]
             : wrong[1];
    return -1;
  }
  if (s[newest].sequence == SEQUENCE_MAX) {
    *why = "its sequence number is the highest that there is";
    return -1;
  }
  *sb = s[newest];
  return newest;
}

/* ---- The intent map ---- */

static const char intent_magic[4] = "WINT";

enum {
  BLOCK_AT_MAGIC = 0,
  BLOCK_AT_NUMBER = 4,
  BLOCK_AT_CRC = 8,
  BLOCK_AT_ZERO = 12,
  BLOCK_AT_BITS = INTENT_BLOCK_HEADER_BYTES,
};
#define BLOCK_WORDS (INTENT_BLOCK_EXTENTS / 64)
_Static_assert (INTENT_BLOCK_EXTENTS % 64 == 0, "blocks hold whole words");
_Static_assert (INTENT_BLOCKS_MAX *INTENT_BLOCK_EXTENTS *EXTENT_BYTES >=
                  MEMBER_DATA_BYTES_MAX,
                "the header has room for every bit");

uint64_t
intents_extents (uint64_t data_bytes)
{
  assert (data_bytes <= MEMBER_DATA_BYTES_MAX);
  return (data_bytes + EXTENT_BYTES - 1) / EXTENT_BYTES;
}

static uint64_t
words (const struct intents *map)
{
  return (map->extents + 63) / 64;
}

/* The bits of a word that stand for extents. */
static uint64_t
word_mask (const struct intents *map, uint64_t w)
{
  uint64_t left = map->extents - w * 64;

  return left >= 64 ? UINT64_MAX : (UINT64_C (1) << left) - 1;
}

int
intents_init (struct intents *map, uint64_t extents)
{
  assert (extents > 0 && extents <= intents_extents (MEMBER_DATA_BYTES_MAX));
  map->extents = extents;
  map->word = calloc (words (map), sizeof *map->word);
  return map->word ? 0 : -1;
}

void
intents_free (struct intents *map)
{
  free (map->word);
  map->word = NULL;
  map->extents = 0;
}

void
intents_set (struct intents *map, uint64_t extent)
{
  assert (extent < map->extents);
  atomic_fetch_or_explicit (&map->word[extent / 64],
                            UINT64_C (1) << (extent % 64),
                            memory_order_release);
}

void
intents_clear (struct intents *map, uint64_t extent)
{
  assert (extent < map->extents);
  atomic_fetch_and_explicit (&map->word[extent / 64],
                             ~(UINT64_C (1) << (extent % 64)),
                             memory_order_release);
}

void
intents_set_all (struct intents *map)
{
  for (uint64_t w = 0; w < words (map); w++)
    atomic_store_explicit (&map->word[w], word_mask (map, w),
                           memory_order_release);
}

uint64_t
intents_count (const struct intents *map)
{
  uint64_t n = 0;

  for (uint64_t w = 0; w < words (map); w++)
    n += __builtin_popcountll (
      atomic_load_explicit (&map->word[w], memory_order_relaxed));
  return n;
}

unsigned
intents_blocks (const struct intents *map)
{
  return (map->extents + INTENT_BLOCK_EXTENTS - 1) / INTENT_BLOCK_EXTENTS;
}

void
intents_encode (const struct intents *map, unsigned block,
                uint8_t bytes[INTENT_BLOCK_BYTES])
{
  uint64_t first = block * BLOCK_WORDS, w;

  assert (block < intents_blocks (map));
  memset (bytes, 0, INTENT_BLOCK_BYTES);
  memcpy (bytes + BLOCK_AT_MAGIC, intent_magic, sizeof intent_magic);
  put_le32 (bytes + BLOCK_AT_NUMBER, block);
  for (w = 0; w < BLOCK_WORDS && first + w < words (map); w++)
    put_le64 (
      bytes + BLOCK_AT_BITS + w * 8,
      atomic_load_explicit (&map->word[first + w], memory_order_acquire));
  put_le32 (bytes + BLOCK_AT_CRC,
            format_crc (bytes, INTENT_BLOCK_BYTES, BLOCK_AT_CRC));
}

static const char *
check_block (const struct intents *map, unsigned block,
             const uint8_t bytes[INTENT_BLOCK_BYTES])
{
  uint64_t first = block * BLOCK_WORDS;

  if (memcmp (bytes + BLOCK_AT_MAGIC, intent_magic, sizeof intent_magic) != 0)
    return "it is no block of an intent map";
  if (get_le32 (bytes + BLOCK_AT_CRC) !=
      format_crc (bytes, INTENT_BLOCK_BYTES, BLOCK_AT_CRC))
    return "its checksum is wrong";
  if (get_le32 (bytes + BLOCK_AT_NUMBER) != block)
    return "it is another block of the intent map";
  if (get_le32 (bytes + BLOCK_AT_ZERO) != 0)
    return "a field that this version does not know is not zero";
  for (uint64_t w = 0; w < BLOCK_WORDS; w++) {
    uint64_t bits = get_le64 (bytes + BLOCK_AT_BITS + w * 8);

    if (bits & ~(first + w < words (map) ? word_mask (map, first + w) : 0))
      return "it has bits for extents that do not exist";
  }
  return NULL;
}

int
intents_decode (struct intents *map, unsigned block,
                const uint8_t bytes[INTENT_BLOCK_BYTES], const char **why)
{
  uint64_t first = block * BLOCK_WORDS, w;

  assert (block < intents_blocks (map));
  *why = check_block (map, block, bytes);
  for (w = 0; w < BLOCK_WORDS && first + w < words (map); w++)
    atomic_store_explicit (&map->word[first + w],
                           *why ? word_mask (map, first + w)
                                : get_le64 (bytes + BLOCK_AT_BITS + w * 8),
                           memory_order_release);
  return *why ? -1 : 0;
}

/* ---- UUIDs as text ---- */

/* A hyphen stands before these bytes. */
static bool
hyphen_before (unsigned byte)
{
  return byte == 4 || byte == 6 || byte == 8 || byte == 10;
}

void
format_uuid (const uint8_t uuid[16], char text[FORMAT_UUID_TEXT_BYTES])
{
  for (unsigned i = 0; i < 16; i++) {
    if (hyphen_before (i))
      *text++ = '-';
    text = put_hex (text, &uuid[i], 1);
  }
  *text = '\0';
}

int
format_uuid_parse (const char *text, uint8_t uuid[16])
{
  uint8_t u[16];

  for (unsigned i = 0; i < 16; i++, text += 2)
    if ((hyphen_before (i) && *text++ != '-') || !get_hex (text, &u[i], 1))
      return -1;
  if (*text != '\0')
    return -1;
  memcpy (uuid, u, 16);
  return 0;
}

bool
format_uuid_zero (const uint8_t uuid[16])
{
  return all_zero (uuid, 16);
}
