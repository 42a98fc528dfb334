/* pool.c: the bytes of a pool's header, of a volume's root and of a log block.
 *
 * Each decoder checks the magic, the CRC-32, the version, and then each field by itself,
 * as in format.c.  Bytes that mean nothing in this version must be zero: encoding gives
 * the same bytes.
 */

#include <config.h>

#include <assert.h>
#include <string.h>

#include "base/bytes.h"
#include "base/name.h"
#include "format.h"
#include "pool.h"

static const char header_magic[8] = "WEFTPOOL";
static const char root_magic[8] = "WEFTROOT";
static const char log_magic[4] = "WLOG";

enum { AT_VERSION = 8, AT_CRC = 12 }; /* of the header and of a root */
enum { HEADER_AT_ARRAY = 16 };
/* 1: the roots of a new pool did not become zeroes. */
enum { HEADER_VERSION = 2 };

/* ---- The header ---- */

/* Roots begin behind segment 0, each with its two slots; whole segments. */
uint64_t
pool_root_offset (const struct pool_header *h, unsigned number)
{
  assert (number < h->roots);
  return h->segment_bytes + (uint64_t) number * 2 * POOL_ROOT_BYTES;
}

uint32_t
pool_first_segment (const struct pool_header *h)
{
  uint64_t bytes = (uint64_t) h->roots * 2 * POOL_ROOT_BYTES;

  return (uint32_t) (1 + (bytes + h->segment_bytes - 1) / h->segment_bytes);
}

int
pool_plan (uint64_t array_bytes, uint64_t segment_bytes, struct pool_header *h,
           const char **why)
{
  *h = (struct pool_header) { .segment_bytes = segment_bytes };
  if (segment_bytes == 0)
    for (h->segment_bytes = POOL_SEGMENT_BYTES_DEFAULT;
         array_bytes / h->segment_bytes > POOL_SEGMENTS_MAX;)
      h->segment_bytes *= 2;
  if (h->segment_bytes < POOL_SEGMENT_BYTES_MIN ||
      h->segment_bytes > POOL_SEGMENT_BYTES_MAX ||
      (h->segment_bytes & (h->segment_bytes - 1)) != 0) {
    *why = "a segment must be a power of two from 256 KiB to 1 GiB";
    return -1;
  }
  if (array_bytes / h->segment_bytes > POOL_SEGMENTS_MAX) {
    *why = "it would have more than 2^24 segments: larger ones are needed";
    return -1;
  }
  h->segments = (uint32_t) (array_bytes / h->segment_bytes);
  h->roots = h->segments / 256;
  if (h->roots < POOL_ROOTS_MIN)
    h->roots = POOL_ROOTS_MIN;
  if (h->roots > POOL_ROOTS_MAX)
    h->roots = POOL_ROOTS_MAX;
  if (h->segments < pool_first_segment (h) + POOL_SEGMENTS_MIN) {
    *why = "the array is too small for a pool";
    return -1;
  }
  return 0;
}

const char *
pool_header_check (const struct pool_header *h)
{
  if (all_zero (h->array, 16))
    return "its array UUID is zero";
  if (h->sequence == 0 || h->sequence >= SEQUENCE_MAX)
    return "its sequence number is out of range";
  if (h->segment_bytes < POOL_SEGMENT_BYTES_MIN ||
      h->segment_bytes > POOL_SEGMENT_BYTES_MAX ||
      (h->segment_bytes & (h->segment_bytes - 1)) != 0)
    return "the size of its segments is out of range";
  if (h->roots < POOL_ROOTS_MIN || h->roots > POOL_ROOTS_MAX)
    return "its number of roots is out of range";
  if (h->segments > POOL_SEGMENTS_MAX ||
      h->segments < pool_first_segment (h) + POOL_SEGMENTS_MIN)
    return "its number of segments is out of range";
  return NULL;
}

void
pool_header_encode (const struct pool_header *h, uint8_t slot[POOL_SLOT_BYTES])
{
  memset (slot, 0, POOL_SLOT_BYTES);
  memcpy (slot, header_magic, 8);
  put_le32 (slot + AT_VERSION, HEADER_VERSION);
  memcpy (slot + HEADER_AT_ARRAY, h->array, 16);
  put_le64 (slot + 32, h->sequence);
  put_le64 (slot + 40, h->segment_bytes);
  put_le32 (slot + 48, h->segments);
  put_le32 (slot + 52, h->roots);
  put_le32 (slot + AT_CRC, format_crc (slot, POOL_SLOT_BYTES, AT_CRC));
}

static const char *
header_decode (const uint8_t slot[POOL_SLOT_BYTES], struct pool_header *h)
{
  uint8_t again[POOL_SLOT_BYTES];
  const char *why;

  if (memcmp (slot, header_magic, 8) != 0)
    return "it does not begin with the header of a pool";
  if (get_le32 (slot + AT_CRC) != format_crc (slot, POOL_SLOT_BYTES, AT_CRC))
    return "the checksum of its pool header is wrong";
  if (get_le32 (slot + AT_VERSION) == 1)
    return "its pool header is of version 1, which no release of Weft has "
           "made: delete the array and create the pool again";
  if (get_le32 (slot + AT_VERSION) != HEADER_VERSION)
    return "its pool header has a version that this program does not know";
  memcpy (h->array, slot + HEADER_AT_ARRAY, 16);
  h->sequence = get_le64 (slot + 32);
  h->segment_bytes = get_le64 (slot + 40);
  h->segments = get_le32 (slot + 48);
  h->roots = get_le32 (slot + 52);
  why = pool_header_check (h);
  if (why)
    return why;
  pool_header_encode (h, again);
  return memcmp (slot, again, POOL_SLOT_BYTES) == 0
           ? NULL
           : "a field of its pool header that this version does not know is "
             "not zero";
}

int
pool_header_newest (const uint8_t slots[2 * POOL_SLOT_BYTES],
                    struct pool_header *h, const char **why)
{
  struct pool_header both[2];
  const char *wrong[2];
  int newest;

  for (unsigned i = 0; i < 2; i++) {
    wrong[i] = header_decode (slots + (size_t) i * POOL_SLOT_BYTES, &both[i]);
    if (!wrong[i] && both[i].sequence % 2 != i)
      wrong[i] = "its pool header is in the wrong place";
  }
  if (wrong[0] && wrong[1]) {
    *why = memcmp (slots, header_magic, 8) == 0 ? wrong[0] : wrong[1];
    return -1;
  }
  if (!wrong[0] && !wrong[1] && memcmp (both[0].array, both[1].array, 16)) {
    *why = "its two header slots are those of different pools";
    return -1;
  }
  newest = wrong[0] || (!wrong[1] && both[1].sequence > both[0].sequence);
  *h = both[newest];
  return newest;
}

bool
pool_header_present (const uint8_t slots[2 * POOL_SLOT_BYTES],
                     const uint8_t array[16])
{
  for (unsigned i = 0; i < 2; i++, slots += POOL_SLOT_BYTES)
    if (memcmp (slots, header_magic, 8) == 0 &&
        memcmp (slots + HEADER_AT_ARRAY, array, 16) == 0)
      return true;
  return false;
}

/* ---- A root ---- */

enum {
  ROOT_AT_LENGTH = 16,
  ROOT_AT_LIFE = 20,
  ROOT_AT_SEQUENCE = 24,
  ROOT_AT_VOLUME = 32,
  ROOT_AT_ORIGIN = 48,
  ROOT_AT_ORIGIN_LAYER = 64,
  ROOT_AT_FLAGS = 68,
  ROOT_AT_SIZE = 72,
  ROOT_AT_HEAD = 80,
  ROOT_AT_HIGHEST = 84,
  ROOT_AT_SNAPSHOTS = 88,
  ROOT_AT_BRANCHES = 92,
  ROOT_AT_LOG = 96,
  ROOT_AT_LOG_SEQUENCE = 104,
  ROOT_AT_ARRAY = 112,
  ROOT_AT_NAME = 128,
  ROOT_AT_LISTS = 192,
  SNAPSHOT_BYTES = 120,
  BRANCH_BYTES = 8,
  LOG_SEGMENT_BYTES = 4,
};
_Static_assert (ROOT_AT_LISTS + POOL_SNAPSHOTS_MAX * SNAPSHOT_BYTES +
                    POOL_BRANCHES_MAX * BRANCH_BYTES +
                    POOL_LOG_SEGMENTS_MAX * LOG_SEGMENT_BYTES <=
                  POOL_ROOT_BYTES,
                "a slot has room for all lists");

/* A name of which all bytes behind the end are zero. */
static bool
name_right (const char name[NAME_BYTES_MAX + 1])
{
  return memchr (name, '\0', NAME_BYTES_MAX + 1) && name_valid (name) &&
         all_zero ((const uint8_t *) name + strlen (name),
                   NAME_BYTES_MAX + 1 - strlen (name));
}

static const char *
lists_check (const struct pool_root *r, const struct pool_header *h)
{
  for (unsigned i = 0; i < r->snapshots_count; i++) {
    const struct pool_snapshot *s = &r->snapshots[i];

    if (s->layer == 0 || s->layer > r->highest)
      return "the layer of a snapshot is out of range";
    if (s->flags & ~(uint32_t) (POOL_NAMED | POOL_HELD) || s->flags == 0)
      return "a snapshot has a flag that this version does not know";
    if (s->size % 512 != 0 || s->size > VOLUME_BYTES_MAX)
      return "the size of a snapshot is out of range";
    if (s->flags & POOL_NAMED
          ? !name_right (s->name)
          : !all_zero ((const uint8_t *) s->name, sizeof s->name))
      return "the name of a snapshot is not valid";
  }
  for (unsigned i = 0; i < r->branches_count; i++)
    if (r->branches[i].parent == 0 ||
        r->branches[i].from <= r->branches[i].parent ||
        r->branches[i].from > r->highest)
      return "the layers of a branch are out of range";
  for (unsigned i = 0; i < r->log_count; i++)
    if (r->log[i] < pool_first_segment (h) || r->log[i] >= h->segments)
      return "a segment of its log is out of range";
  return NULL;
}

const char *
pool_root_check (const struct pool_root *r, const struct pool_header *h)
{
  if (all_zero (r->volume, 16))
    return "its volume UUID is zero";
  if (memcmp (r->array, h->array, 16) != 0)
    return "its root is of a volume in another array";
  if (r->sequence == 0 || r->sequence >= SEQUENCE_MAX)
    return "its sequence number is out of range";
  if (r->life == UINT32_MAX)
    return "its life is out of range";
  if (r->log_sequence >= SEQUENCE_MAX)
    return "the sequence number of its log is out of range";
  if (all_zero (r->origin, 16) ? r->origin_layer != 0 : r->origin_layer == 0)
    return "it has an origin without a layer, or a layer without an origin";
  if (r->flags &
      ~(uint32_t) (POOL_CLEAN | POOL_DELETED | POOL_READONLY | POOL_ADOPTED))
    return "it has a flag that this version does not know";
  if (r->size % 512 != 0 || r->size > VOLUME_BYTES_MAX)
    return "its size is out of range";
  if (r->head == 0 || r->head > r->highest)
    return "its layers are out of range";
  if (r->snapshots_count > POOL_SNAPSHOTS_MAX ||
      r->branches_count > POOL_BRANCHES_MAX ||
      r->log_count > POOL_LOG_SEGMENTS_MAX)
    return "the length of a list is out of range";
  if (!name_right (r->name))
    return "its name is not valid";
  return lists_check (r, h);
}

static size_t
root_length (const struct pool_root *r)
{
  return ROOT_AT_LISTS + (size_t) r->snapshots_count * SNAPSHOT_BYTES +
         (size_t) r->branches_count * BRANCH_BYTES +
         (size_t) r->log_count * LOG_SEGMENT_BYTES;
}

static uint8_t *
snapshot_encode (const struct pool_snapshot *s, uint8_t *p)
{
  put_le32 (p, s->layer);
  put_le32 (p + 4, s->flags);
  put_le64 (p + 8, s->ms);
  put_le64 (p + 16, s->size);
  memcpy (p + 24, s->uuid, 16);
  memcpy (p + 40, s->group, 16);
  memcpy (p + 56, s->name, sizeof s->name);
  return p + SNAPSHOT_BYTES;
}

static const uint8_t *
snapshot_decode (struct pool_snapshot *s, const uint8_t *p)
{
  s->layer = get_le32 (p);
  s->flags = get_le32 (p + 4);
  s->ms = get_le64 (p + 8);
  s->size = get_le64 (p + 16);
  memcpy (s->uuid, p + 24, 16);
  memcpy (s->group, p + 40, 16);
  memcpy (s->name, p + 56, sizeof s->name);
  return p + SNAPSHOT_BYTES;
}

size_t
pool_root_encode (const struct pool_root *r, uint8_t slot[POOL_ROOT_BYTES])
{
  size_t length = root_length (r), written = (length + 4095) / 4096 * 4096;
  uint8_t *p = slot + ROOT_AT_LISTS;

  memset (slot, 0, written);
  memcpy (slot, root_magic, 8);
  put_le32 (slot + AT_VERSION, 1);
  put_le32 (slot + ROOT_AT_LENGTH, (uint32_t) length);
  put_le32 (slot + ROOT_AT_LIFE, r->life);
  put_le64 (slot + ROOT_AT_SEQUENCE, r->sequence);
  memcpy (slot + ROOT_AT_VOLUME, r->volume, 16);
  memcpy (slot + ROOT_AT_ORIGIN, r->origin, 16);
  put_le32 (slot + ROOT_AT_ORIGIN_LAYER, r->origin_layer);
  put_le32 (slot + ROOT_AT_FLAGS, r->flags);
  put_le64 (slot + ROOT_AT_SIZE, r->size);
  put_le32 (slot + ROOT_AT_HEAD, r->head);
  put_le32 (slot + ROOT_AT_HIGHEST, r->highest);
  put_le32 (slot + ROOT_AT_SNAPSHOTS, r->snapshots_count);
  put_le32 (slot + ROOT_AT_BRANCHES, r->branches_count);
  put_le32 (slot + ROOT_AT_LOG, r->log_count);
  put_le64 (slot + ROOT_AT_LOG_SEQUENCE, r->log_sequence);
  memcpy (slot + ROOT_AT_ARRAY, r->array, 16);
  memcpy (slot + ROOT_AT_NAME, r->name, sizeof r->name);
  for (unsigned i = 0; i < r->snapshots_count; i++)
    p = snapshot_encode (&r->snapshots[i], p);
  for (unsigned i = 0; i < r->branches_count; i++, p += BRANCH_BYTES) {
    put_le32 (p, r->branches[i].from);
    put_le32 (p + 4, r->branches[i].parent);
  }
  for (unsigned i = 0; i < r->log_count; i++, p += LOG_SEGMENT_BYTES)
    put_le32 (p, r->log[i]);
  put_le32 (slot + AT_CRC, format_crc (slot, length, AT_CRC));
  return written;
}

/* The fields before the lists; their counts are in range. */
static const char *
root_fields (const uint8_t slot[POOL_ROOT_BYTES], struct pool_root *r)
{
  uint32_t length = get_le32 (slot + ROOT_AT_LENGTH);

  if (memcmp (slot, root_magic, 8) != 0)
    return "it is no root of a volume";
  if (length < ROOT_AT_LISTS || length > POOL_ROOT_BYTES ||
      get_le32 (slot + AT_CRC) != format_crc (slot, length, AT_CRC))
    return "the checksum of its root is wrong";
  if (get_le32 (slot + AT_VERSION) != 1)
    return "its root has a version that this program does not know";
  r->life = get_le32 (slot + ROOT_AT_LIFE);
  r->sequence = get_le64 (slot + ROOT_AT_SEQUENCE);
  memcpy (r->volume, slot + ROOT_AT_VOLUME, 16);
  memcpy (r->origin, slot + ROOT_AT_ORIGIN, 16);
  r->origin_layer = get_le32 (slot + ROOT_AT_ORIGIN_LAYER);
  r->flags = get_le32 (slot + ROOT_AT_FLAGS);
  r->size = get_le64 (slot + ROOT_AT_SIZE);
  r->head = get_le32 (slot + ROOT_AT_HEAD);
  r->highest = get_le32 (slot + ROOT_AT_HIGHEST);
  r->snapshots_count = get_le32 (slot + ROOT_AT_SNAPSHOTS);
  r->branches_count = get_le32 (slot + ROOT_AT_BRANCHES);
  r->log_count = get_le32 (slot + ROOT_AT_LOG);
  r->log_sequence = get_le64 (slot + ROOT_AT_LOG_SEQUENCE);
  memcpy (r->array, slot + ROOT_AT_ARRAY, 16);
  memcpy (r->name, slot + ROOT_AT_NAME, sizeof r->name);
  if (r->snapshots_count > POOL_SNAPSHOTS_MAX ||
      r->branches_count > POOL_BRANCHES_MAX ||
      r->log_count > POOL_LOG_SEGMENTS_MAX || root_length (r) != length)
    return "the length of a list is out of range";
  return NULL;
}

int
pool_root_decode (const uint8_t slot[POOL_ROOT_BYTES],
                  const struct pool_header *h, struct pool_root *r,
                  const char **why)
{
  const uint8_t *p = slot + ROOT_AT_LISTS;
  uint8_t again[POOL_ROOT_BYTES];

  memset (r, 0, sizeof *r);
  *why = root_fields (slot, r);
  if (*why)
    return -1;
  for (unsigned i = 0; i < r->snapshots_count; i++)
    p = snapshot_decode (&r->snapshots[i], p);
  for (unsigned i = 0; i < r->branches_count; i++, p += BRANCH_BYTES)
    r->branches[i] = (struct pool_branch) { get_le32 (p), get_le32 (p + 4) };
  for (unsigned i = 0; i < r->log_count; i++, p += LOG_SEGMENT_BYTES)
    r->log[i] = get_le32 (p);
  *why = pool_root_check (r, h);
  if (*why)
    return -1;
  pool_root_encode (r, again);
  if (memcmp (slot, again, root_length (r)) != 0) {
    *why = "a field of its root that this version does not know is not zero";
    return -1;
  }
  return 0;
}

int
pool_root_newest (const uint8_t slots[2 * POOL_ROOT_BYTES],
                  const struct pool_header *h, struct pool_root *r,
                  const char **why)
{
  uint8_t uuid[16];
  uint64_t sequence;
  const char *other;
  bool first, second;

  first = pool_root_decode (slots, h, r, why) == 0;
  if (first && r->sequence % 2 != 0) {
    *why = "its root is in the wrong place";
    first = false;
  }
  memcpy (uuid, r->volume, 16);
  sequence = r->sequence;
  second = pool_root_decode (slots + POOL_ROOT_BYTES, h, r, &other) == 0 &&
           r->sequence % 2 == 1;
  if (!first && !second)
    return -1;
  if (first && second && memcmp (uuid, r->volume, 16) != 0) {
    *why = "its two root slots are those of different volumes";
    return -1;
  }
  if (second && (!first || r->sequence > sequence))
    return 1;
  return pool_root_decode (slots, h, r, why);
}

bool
pool_root_empty (const uint8_t slots[2 * POOL_ROOT_BYTES])
{
  return all_zero (slots, (size_t) 2 * POOL_ROOT_BYTES);
}

bool
pool_root_present (const uint8_t slots[2 * POOL_ROOT_BYTES],
                   const uint8_t array[16])
{
  for (unsigned i = 0; i < 2; i++, slots += POOL_ROOT_BYTES)
    if (memcmp (slots, root_magic, 8) == 0 &&
        memcmp (slots + ROOT_AT_ARRAY, array, 16) == 0)
      return true;
  return false;
}

/* ---- A log block ---- */

enum {
  LOG_AT_CRC = 4,
  LOG_AT_VOLUME = 8,
  LOG_AT_SEQUENCE = 16,
  LOG_AT_LIFE = 24,
  LOG_AT_COUNT = 28,
  LOG_AT_ENTRIES = 64, /* in the first sector, in which there are ... */
  LOG_ENTRIES_FIRST = 18,
  SALT_BYTES =
    8, /* before the entries of each further sector, in which there are ... */
  LOG_ENTRIES_NEXT = 21,
  ENTRY_BYTES = 24,
  LOG_SECTOR_BYTES = 512,
};
_Static_assert (LOG_ENTRIES_FIRST +
                    (POOL_LOG_BLOCK_BYTES / LOG_SECTOR_BYTES - 1) *
                      LOG_ENTRIES_NEXT ==
                  POOL_LOG_ENTRIES,
                "entries fill the block");

static size_t
entry_at (unsigned i)
{
  unsigned next = i - LOG_ENTRIES_FIRST;

  if (i < LOG_ENTRIES_FIRST)
    return LOG_AT_ENTRIES + (size_t) i * ENTRY_BYTES;
  return (1 + next / LOG_ENTRIES_NEXT) * (size_t) LOG_SECTOR_BYTES +
         SALT_BYTES + next % LOG_ENTRIES_NEXT * (size_t) ENTRY_BYTES;
}

void
pool_log_encode (const struct pool_log_block *b,
                 uint8_t bytes[POOL_LOG_BLOCK_BYTES])
{
  assert (b->count <= POOL_LOG_ENTRIES);
  memset (bytes, 0, POOL_LOG_BLOCK_BYTES);
  memcpy (bytes, log_magic, 4);
  memcpy (bytes + LOG_AT_VOLUME, b->volume, 8);
  put_le64 (bytes + LOG_AT_SEQUENCE, b->sequence);
  put_le32 (bytes + LOG_AT_LIFE, b->life);
  put_le16 (bytes + LOG_AT_COUNT, (uint16_t) b->count);
  for (unsigned i = 0; i < b->count; i++) {
    const struct pool_entry *e = &b->entries[i];
    uint8_t *p = bytes + entry_at (i);

    put_le32 (p, e->segment);
    put_le32 (p + 4, e->at);
    put_le32 (p + 8, e->layer);
    put_le32 (p + 12, (uint32_t) e->kind | e->more << 8);
    put_le64 (p + 16, e->blocks);
  }
  for (size_t at = LOG_SECTOR_BYTES; at < POOL_LOG_BLOCK_BYTES;
       at += LOG_SECTOR_BYTES) {
    put_le32 (bytes + at, b->life);
    put_le32 (bytes + at + 4, (uint32_t) b->sequence);
  }
  put_le32 (bytes + LOG_AT_CRC,
            format_crc (bytes, POOL_LOG_BLOCK_BYTES, LOG_AT_CRC));
}

static const char *
entry_check (const struct pool_entry *e, const struct pool_header *h)
{
  if (e->kind == POOL_HOLE
        ? e->segment != POOL_NO_SEGMENT
        : e->segment < pool_first_segment (h) || e->segment >= h->segments)
    return "the segment of an entry is out of range";
  switch (e->kind) {
  case POOL_GONE:
    return e->at || e->layer || e->more || e->blocks
             ? "an entry of a segment that is gone has more than that"
             : NULL;
  case POOL_DATA:
  case POOL_BASE:
  case POOL_HOLE:
    return e->layer == 0 || (e->more && e->kind != POOL_HOLE) || !e->blocks
             ? "a field of an entry is out of range"
             : NULL;
  default:
    return "an entry is of a kind that this version does not know";
  }
}

int
pool_log_decode (const uint8_t bytes[POOL_LOG_BLOCK_BYTES],
                 const struct pool_header *h, struct pool_log_block *b,
                 const char **why)
{
  uint8_t again[POOL_LOG_BLOCK_BYTES];

  if (memcmp (bytes, log_magic, 4) != 0) {
    *why = "it is no block of a log";
    return -1;
  }
  if (get_le32 (bytes + LOG_AT_CRC) !=
      format_crc (bytes, POOL_LOG_BLOCK_BYTES, LOG_AT_CRC)) {
    *why = "its checksum is wrong";
    return -1;
  }
  memcpy (b->volume, bytes + LOG_AT_VOLUME, 8);
  b->sequence = get_le64 (bytes + LOG_AT_SEQUENCE);
  b->life = get_le32 (bytes + LOG_AT_LIFE);
  b->count = get_le16 (bytes + LOG_AT_COUNT);
  if (b->count == 0 || b->count > POOL_LOG_ENTRIES) {
    *why = "its number of entries is out of range";
    return -2;
  }
  for (unsigned i = 0; i < b->count; i++) {
    const uint8_t *p = bytes + entry_at (i);
    struct pool_entry *e = &b->entries[i];

    e->segment = get_le32 (p);
    e->at = get_le32 (p + 4);
    e->layer = get_le32 (p + 8);
    e->kind = p[12];
    e->more = get_le32 (p + 12) >> 8;
    e->blocks = get_le64 (p + 16);
    *why = entry_check (e, h);
    if (*why)
      return -2;
  }
  pool_log_encode (b, again);
  if (memcmp (bytes, again, POOL_LOG_BLOCK_BYTES) != 0) {
    *why = "a field that this version does not know is not zero";
    return -2;
  }
  return 0;
}
