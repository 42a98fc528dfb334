/* test-bad.c: the list of bad ranges against a plain array of blocks, and its two
 * slots against every way in which they may be damaged.
 */

#include <config.h>

#include <string.h>

#include "format/bad.h"
#include "test-random.h"

#define BLOCKS 3000
#define BYTES ((uint64_t) BLOCKS * BAD_BLOCK_BYTES)

static struct bad_list list;
static uint8_t model[BLOCKS]; /* the reason; 0: good */

static void
check_list (void)
{
  uint64_t at = 0, bad = 0;

  CHECK (list.count <= BAD_RANGES_MAX);
  for (unsigned i = 0; i < list.count; i++) {
    const struct bad_range *r = &list.range[i];

    CHECK (r->blocks > 0 && r->first >= at);
    CHECK (i == 0 || r->first > at || r->reason != r[-1].reason);
    for (; at < r->first; at++)
      CHECK (model[at] == 0);
    for (; at < r->first + r->blocks; at++, bad++)
      CHECK (model[at] == r->reason);
  }
  for (; at < BLOCKS; at++)
    CHECK (model[at] == 0);
  CHECK (bad_bytes (&list) == bad * BAD_BLOCK_BYTES);
}

static bool
model_test (uint64_t offset, uint64_t length)
{
  for (uint64_t b = offset / BAD_BLOCK_BYTES;
       b * BAD_BLOCK_BYTES < offset + length; b++)
    if (model[b])
      return true;
  return false;
}

static void
round_trip (void)
{
  static uint8_t slots[2 * BAD_SLOT_BYTES];
  static struct bad_list read;
  unsigned good = (unsigned) test_random (2);
  const char *why;
  bool mend;

  memset (slots, 0, sizeof slots);
  list.sequence++;
  bad_encode (&list, slots + good * BAD_SLOT_BYTES);
  CHECK (bad_decode (slots, BYTES, &read, &mend, &why) == 0);
  CHECK (mend && read.count == list.count && read.sequence >= list.sequence);
  CHECK ((read.sequence + 1) % 2 !=
         good); /* the next one is written beside it */
  CHECK (memcmp (read.range, list.range, list.count * sizeof list.range[0]) ==
         0);
}

/* The parts against a look at each block. */
static void
test_parts (void)
{
  for (unsigned i = 0; i < 10000; i++) {
    uint64_t offset = test_random (4 * BAD_BLOCK_BYTES), found[2];
    uint64_t length = 1 + test_random (3 * BAD_BLOCK_BYTES);
    unsigned n = bad_parts (offset, length, found), seen = 0;

    for (uint64_t b = 0; b < 8 * BAD_BLOCK_BYTES; b += BAD_BLOCK_BYTES) {
      bool touched = offset < b + BAD_BLOCK_BYTES && offset + length > b;
      bool whole = offset <= b && offset + length >= b + BAD_BLOCK_BYTES;

      if (touched && !whole)
        CHECK (seen < n && found[seen++] == b);
    }
    CHECK (seen == n);
  }
}

/* Additions and good blocks at random, in one part of the disk or all over. */
static void
test_walk (unsigned steps)
{
  unsigned full = 0;

  memset (&list, 0, sizeof list);
  memset (model, 0, sizeof model);
  for (unsigned i = 0; i < steps; i++) {
    uint64_t within = test_random (2) ? BYTES : 64 * BAD_BLOCK_BYTES;
    uint64_t offset = test_random (within / 512 - 1) * 512;
    uint64_t length = (1 + test_random (test_random (3) ? 16 : 200)) * 512;
    enum bad_reason reason = 1 + test_random (BAD_WRITE);

    if (length > within - offset)
      length = within - offset;
    CHECK (bad_test (&list, offset, length) == model_test (offset, length));
    if (test_random (5) < 3) {
      struct bad_list before = list;

      if (bad_add (&list, offset, length, reason))
        for (uint64_t b = offset / BAD_BLOCK_BYTES;
             b * BAD_BLOCK_BYTES < offset + length; b++)
          model[b] = reason;
      else {
        CHECK (memcmp (&before, &list, sizeof list) == 0);
        full++;
      }
    }
    else {
      bool changed = false;

      for (uint64_t b = (offset + BAD_BLOCK_BYTES - 1) / BAD_BLOCK_BYTES;
           (b + 1) * BAD_BLOCK_BYTES <= offset + length; b++) {
        changed |= model[b] != 0;
        model[b] = 0;
      }
      CHECK (bad_good (&list, offset, length) == changed);
    }
    check_list ();
    if (i % 64 == 0)
      round_trip ();
  }
  CHECK (full > 0 || steps < 5000);
}

/* A full list has room for whatever becomes of it when blocks are written. */
static void
test_full (void)
{
  uint64_t at = 0;

  memset (&list, 0, sizeof list);
  while (bad_add (&list, at, 2 * BAD_BLOCK_BYTES, BAD_REBUILD))
    at += 3 * BAD_BLOCK_BYTES;
  CHECK (list.count > 1000);
  CHECK (!bad_add (&list, at, 1, BAD_RESYNC));
  memset (&list, 0, sizeof list);
  CHECK (bad_add (&list, 0, 2 * BAD_RANGES_MAX * BAD_BLOCK_BYTES, BAD_SCRUB));
  CHECK (!bad_add (&list, BYTES - 1, 1, BAD_SCRUB));
  for (uint64_t b = 1; b < 2 * BAD_RANGES_MAX; b += 2)
    CHECK (bad_good (&list, b * BAD_BLOCK_BYTES, BAD_BLOCK_BYTES));
  CHECK (list.count == BAD_RANGES_MAX);
  CHECK (bad_good (&list, 0, BYTES) && list.count == 0);
  CHECK (!bad_good (&list, 0, BYTES));
}

static int
decode (const uint8_t *slots, struct bad_list *l, bool *mend)
{
  const char *why = NULL;
  int r = bad_decode (slots, BYTES, l, mend, &why);

  CHECK ((r == -1) == (why != NULL) || r == 0);
  return r;
}

static void
test_slots (void)
{
  static uint8_t slots[2 * BAD_SLOT_BYTES], broken[2 * BAD_SLOT_BYTES];
  static const struct bad_range nonsense[] = {
    { 0, 1, BAD_REBUILD },      { 2, 0, BAD_REBUILD },          { 2, 1, 5 },
    { BLOCKS, 1, BAD_REBUILD }, { 2, BLOCKS - 1, BAD_REBUILD },
  };
  static struct bad_list old, read;
  bool mend;

  CHECK (decode (slots, &read, &mend) == 0 && read.count == 0 && !mend);

  memset (&old, 0, sizeof old);
  CHECK (bad_add (&old, 0, 4096, BAD_REBUILD));
  old.sequence = 7;
  bad_encode (&old, slots);
  list = old;
  CHECK (bad_add (&list, 8192, 1, BAD_RESYNC));
  list.sequence = 8;
  bad_encode (&list, slots + BAD_SLOT_BYTES);
  CHECK (decode (slots, &read, &mend) == 0 && read.count == 2 && mend);
  bad_encode (&list, slots);
  CHECK (decode (slots, &read, &mend) == 0 && read.count == 2 && !mend);

  /* A flipped bit in one slot costs nothing; in both the list is not known. */
  for (unsigned i = 0; i < 400; i++) {
    unsigned at = i < 100 ? i : test_random (BAD_SLOT_BYTES);

    memcpy (broken, slots, sizeof slots);
    broken[at] ^= 1 << test_random (8);
    CHECK (decode (broken, &read, &mend) == 0 && read.count == 2 && mend);
    broken[BAD_SLOT_BYTES + test_random (BAD_SLOT_BYTES)] ^= 1
                                                             << test_random (8);
    CHECK (decode (broken, &read, &mend) == -1);
  }
  /* Neither is one that has been wiped beside one that is torn. */
  memset (broken, 0xff, sizeof broken);
  CHECK (decode (broken, &read, &mend) == -1);

  /* Nobody could write it again. */
  list.sequence = SEQUENCE_MAX - 1;
  bad_encode (&list, broken);
  list.sequence = SEQUENCE_MAX;
  bad_encode (&list, broken + BAD_SLOT_BYTES);
  CHECK (decode (broken, &read, &mend) == 0 && mend);
  CHECK (read.sequence >= SEQUENCE_MAX - 1);
  bad_encode (&list, broken);
  CHECK (decode (broken, &read, &mend) == -1);

  /* Whole, but nonsense. */
  for (unsigned i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
    struct bad_list bad = old;

    bad.range[1] = nonsense[i];
    bad.count = 2;
    bad_encode (&bad, broken);
    bad_encode (&bad, broken + BAD_SLOT_BYTES);
    CHECK (decode (broken, &read, &mend) == -1);
  }
}

int
main (void)
{
  test_random_start ();
  test_full ();
  test_slots ();
  test_parts ();
  test_walk (20000);
  return 0;
}
