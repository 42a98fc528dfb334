/* bad.c: the list of bad ranges.  See bad.h. */

#include <config.h>

#include <assert.h>
#include <string.h>

#include "bad.h"
#include "base/bytes.h"

static const char bad_magic[4] = "WBAD";
#define BAD_VERSION 1

enum {
  AT_MAGIC = 0,
  AT_VERSION = 4,
  AT_CRC = 8,
  AT_SEQUENCE = 16,
  AT_COUNT = 24,
  AT_RANGES = 32,
  RANGE_SIZE = 16,
};
_Static_assert (AT_RANGES + BAD_RANGES_MAX * RANGE_SIZE <= BAD_SLOT_BYTES,
                "a full list fits in its slot");

const char *
bad_reason_name (unsigned reason)
{
  static const char *const names[] = {
    [BAD_REBUILD] = "rebuild",
    [BAD_RESYNC] = "resync",
    [BAD_SCRUB] = "scrub",
    [BAD_WRITE] = "write",
  };

  return reason < sizeof names / sizeof names[0] ? names[reason] : NULL;
}

static uint64_t
end_of (const struct bad_range *r)
{
  return r->first + r->blocks;
}

/* Append, or lengthen the last.  The caller has ensured that there is room. */
static void
push (struct bad_list *list, uint64_t first, uint64_t end, unsigned reason)
{
  struct bad_range *last = list->count ? &list->range[list->count - 1] : NULL;

  if (first >= end)
    return;
  if (last && end_of (last) == first && last->reason == reason)
    last->blocks += end - first;
  else {
    assert (list->count < BAD_RANGES_MAX);
    list->range[list->count++] = (struct bad_range) { first, end - first,
                                                      reason };
  }
}

/* So many ranges may come of these, when every other block becomes good. */
static uint64_t
places (const struct bad_list *list)
{
  uint64_t n = 0;

  for (unsigned i = 0; i < list->count; i++)
    n += (list->range[i].blocks + UINT64_C (1)) / 2;
  return n;
}

/* Take the blocks from `first` to before `end` out of the list, and put them in
 * with this reason, if it is not 0.
 */
static bool
replace (struct bad_list *list, uint64_t first, uint64_t end, unsigned reason)
{
  struct bad_list new = { .sequence = list->sequence };
  bool put = reason == 0;

  if (reason &&
      (list->count + 2 > BAD_RANGES_MAX || end - first > 2 * BAD_RANGES_MAX))
    return false;
  for (unsigned i = 0; i < list->count; i++) {
    const struct bad_range *r = &list->range[i];

    push (&new, r->first, end_of (r) < first ? end_of (r) : first, r->reason);
    if (!put && end_of (r) > first) {
      push (&new, first, end, reason);
      put = true;
    }
    push (&new, r->first > end ? r->first : end, end_of (r), r->reason);
  }
  if (!put)
    push (&new, first, end, reason);
  if (reason && places (&new) > BAD_RANGES_MAX)
    return false;
  *list = new;
  return true;
}

bool
bad_add (struct bad_list *list, uint64_t offset, uint64_t length,
         enum bad_reason reason)
{
  assert (length > 0 && bad_reason_name (reason));
  return replace (list, offset / BAD_BLOCK_BYTES,
                  (offset + length + BAD_BLOCK_BYTES - 1) / BAD_BLOCK_BYTES,
                  reason);
}

bool
bad_good (struct bad_list *list, uint64_t offset, uint64_t length)
{
  uint64_t first = (offset + BAD_BLOCK_BYTES - 1) / BAD_BLOCK_BYTES;
  uint64_t end = (offset + length) / BAD_BLOCK_BYTES;

  if (first >= end || !bad_test (list, first * BAD_BLOCK_BYTES,
                                 (end - first) * BAD_BLOCK_BYTES))
    return false;
  return replace (list, first, end, 0);
}

unsigned
bad_parts (uint64_t offset, uint64_t length, uint64_t block[2])
{
  uint64_t end = offset + length, head = offset / BAD_BLOCK_BYTES;
  uint64_t tail = end / BAD_BLOCK_BYTES;
  unsigned n = 0;

  if (offset % BAD_BLOCK_BYTES)
    block[n++] = head * BAD_BLOCK_BYTES;
  if (end % BAD_BLOCK_BYTES && (n == 0 || tail != head))
    block[n++] = tail * BAD_BLOCK_BYTES;
  return n;
}

bool
bad_test (const struct bad_list *list, uint64_t offset, uint64_t length)
{
  unsigned low = 0, high = list->count;

  while (low < high) { /* the first that ends behind the offset */
    unsigned middle = low + (high - low) / 2;

    if (end_of (&list->range[middle]) * BAD_BLOCK_BYTES <= offset)
      low = middle + 1;
    else
      high = middle;
  }
  return low < list->count &&
         list->range[low].first * BAD_BLOCK_BYTES < offset + length;
}

uint64_t
bad_bytes (const struct bad_list *list)
{
  uint64_t blocks = 0;

  for (unsigned i = 0; i < list->count; i++)
    blocks += list->range[i].blocks;
  return blocks * BAD_BLOCK_BYTES;
}

/* ---- The slots ---- */

void
bad_encode (const struct bad_list *list, uint8_t slot[BAD_SLOT_BYTES])
{
  uint8_t *p = slot + AT_RANGES;

  memset (slot, 0, BAD_SLOT_BYTES);
  memcpy (slot + AT_MAGIC, bad_magic, sizeof bad_magic);
  put_le32 (slot + AT_VERSION, BAD_VERSION);
  put_le64 (slot + AT_SEQUENCE, list->sequence);
  put_le32 (slot + AT_COUNT, list->count);
  for (unsigned i = 0; i < list->count; i++, p += RANGE_SIZE) {
    put_le64 (p, list->range[i].first);
    put_le32 (p + 8, list->range[i].blocks);
    put_le32 (p + 12, list->range[i].reason);
  }
  put_le32 (slot + AT_CRC, format_crc (slot, BAD_SLOT_BYTES, AT_CRC));
}

static const char *
decode_slot (const uint8_t *slot, uint64_t data_bytes, struct bad_list *list)
{
  uint64_t blocks = data_bytes / BAD_BLOCK_BYTES, at = 0;
  const uint8_t *p = slot + AT_RANGES;

  *list = (struct bad_list) { .sequence = 0 };
  if (all_zero (slot, BAD_SLOT_BYTES))
    return NULL;
  if (memcmp (slot + AT_MAGIC, bad_magic, sizeof bad_magic) != 0)
    return "its list of bad ranges is none";
  if (get_le32 (slot + AT_CRC) != format_crc (slot, BAD_SLOT_BYTES, AT_CRC))
    return "the checksum of its list of bad ranges is wrong";
  if (get_le32 (slot + AT_VERSION) != BAD_VERSION)
    return "its list of bad ranges has a version that this program does not "
           "know";
  list->sequence = get_le64 (slot + AT_SEQUENCE);
  list->count = get_le32 (slot + AT_COUNT);
  if (list->count > BAD_RANGES_MAX)
    return "its list of bad ranges is too long";
  if (list->sequence >= SEQUENCE_MAX) /* it could not be written again */
    return "the sequence number of its list of bad ranges is out of range";
  for (unsigned i = 0; i < list->count; i++, p += RANGE_SIZE)
    list->range[i] = (struct bad_range) { get_le64 (p), get_le32 (p + 8),
                                          get_le32 (p + 12) };
  if (!all_zero (slot + AT_CRC + 4, AT_SEQUENCE - AT_CRC - 4) ||
      !all_zero (slot + AT_COUNT + 4, AT_RANGES - AT_COUNT - 4) ||
      !all_zero (p, slot + BAD_SLOT_BYTES - p))
    return "its list of bad ranges has bytes that this version does not know";
  for (unsigned i = 0; i < list->count; i++) {
    const struct bad_range *r = &list->range[i];

    if (r->blocks == 0 || r->first < at || r->first >= blocks ||
        r->blocks > blocks - r->first)
      return "its list of bad ranges has one that is out of place";
    if (bad_reason_name (r->reason) == NULL)
      return "its list of bad ranges has a reason that this version does not "
             "know";
    at = end_of (r);
  }
  if (places (list) > BAD_RANGES_MAX)
    return "its list of bad ranges has no room for what may become of it";
  return NULL;
}

int
bad_decode (const uint8_t slots[2 * BAD_SLOT_BYTES], uint64_t data_bytes,
            struct bad_list *list, bool *mend, const char **why)
{
  unsigned good = 0; /* the slot that counts */
  struct bad_list other;
  const char *wrong = decode_slot (slots, data_bytes, list);
  const char *other_wrong = decode_slot (slots + BAD_SLOT_BYTES, data_bytes,
                                         &other);

  *why = wrong;
  if (wrong && other_wrong)
    return -1;
  *mend = wrong || other_wrong || list->sequence != other.sequence;
  if (wrong || (!other_wrong && other.sequence > list->sequence)) {
    *list = other;
    good = 1;
  }
  /* The next number begins with the other slot. */
  if (*mend && list->sequence % 2 != good)
    list->sequence++;
  return 0;
}
