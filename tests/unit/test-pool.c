/* test-pool.c: the bytes of a pool: its header, a volume's root and a log block, against
 * docs/FORMAT.md, and against every byte of them changed.
 */

#include <config.h>

#include <string.h>

#include "base/bytes.h"
#include "format/format.h"
#include "format/pool.h"
#include "test-random.h"

static struct pool_header header;
static struct pool_root root, again;
static uint8_t slots[2 * POOL_ROOT_BYTES];
static const char *why;

static void
make_header (void)
{
  CHECK (pool_plan (GiB (64), 0, &header, &why) == 0);
  test_random_bytes (header.array, 16);
  header.array[0] |= 1;
  header.sequence = 7;
  CHECK (pool_header_check (&header) == NULL);
}

static void
test_plan (void)
{
  struct pool_header h;

  CHECK (pool_plan (GiB (1024), 0, &h, &why) == 0);
  CHECK (h.segment_bytes == MiB (1) && h.segments == 1 << 20 &&
         h.roots == 4096);
  CHECK (pool_plan (GiB (1024) * 16, 0, &h, &why) == 0);
  CHECK (h.segment_bytes == MiB (1) && h.segments == POOL_SEGMENTS_MAX);
  CHECK (pool_plan (GiB (1024) * 16 + GiB (1), 0, &h, &why) == 0);
  CHECK (h.segment_bytes == MiB (2));
  CHECK (pool_plan (GiB (1), 0, &h, &why) == 0 && h.roots == 16);
  CHECK (pool_root_offset (&h, 0) == MiB (1) &&
         pool_root_offset (&h, 1) == MiB (1) + KiB (256));
  CHECK (pool_first_segment (&h) == 5);
  CHECK (pool_plan (MiB (20), 0, &h, &why) == -1 && why);
  CHECK (pool_plan (GiB (1), KiB (128), &h, &why) == -1);
  CHECK (pool_plan (GiB (1), KiB (256) + 512, &h, &why) == -1);
  CHECK (pool_plan (GiB (1024) * 16, KiB (512), &h, &why) == -1);
}

static void
test_header (void)
{
  uint8_t two[2 * POOL_SLOT_BYTES] = { 0 };
  struct pool_header h;

  CHECK (pool_header_newest (two, &h, &why) == -1);
  CHECK (!pool_header_present (two, header.array));
  pool_header_encode (&header, two + POOL_SLOT_BYTES);
  CHECK (pool_header_present (two, header.array));
  two[POOL_SLOT_BYTES + 40]++; /* torn */
  CHECK (pool_header_newest (two, &h, &why) == -1);
  CHECK (pool_header_present (two, header.array));
  two[POOL_SLOT_BYTES + 16]++; /* another array's */
  CHECK (!pool_header_present (two, header.array));
  two[POOL_SLOT_BYTES + 16]--;
  two[POOL_SLOT_BYTES + 40]--;
  CHECK (memcmp (two + POOL_SLOT_BYTES, "WEFTPOOL", 8) == 0);
  CHECK (get_le32 (two + POOL_SLOT_BYTES + 8) == 2);
  CHECK (get_le64 (two + POOL_SLOT_BYTES + 40) == MiB (1));
  CHECK (get_le32 (two + POOL_SLOT_BYTES + 48) == header.segments);
  CHECK (pool_header_newest (two, &h, &why) == 1);
  CHECK (h.sequence == 7 && h.segments == header.segments);
  header.sequence = 8;
  pool_header_encode (&header, two);
  CHECK (pool_header_newest (two, &h, &why) == 0 && h.sequence == 8);
  two[100]++;
  CHECK (pool_header_newest (two, &h, &why) == 1 && h.sequence == 7);
  header.sequence = 6;
  pool_header_encode (&header, two + POOL_SLOT_BYTES); /* not its place */
  CHECK (pool_header_newest (two, &h, &why) == -1);
  two[100]--;
  CHECK (pool_header_newest (two, &h, &why) == 0 && h.sequence == 8);
  header.sequence = 7;
  header.array[15] ^= 1;
  pool_header_encode (&header, two + POOL_SLOT_BYTES);
  CHECK (pool_header_newest (two, &h, &why) == -1); /* two pools */
  header.array[15] ^= 1;
}

/* Versions that this program does not know, by name if it knows what they are. */
static void
test_header_version (void)
{
  static const char *said[] = { "does not know", "version 1, which no release",
                                NULL, "does not know" };
  uint8_t two[2 * POOL_SLOT_BYTES] = { 0 }, *slot = two + POOL_SLOT_BYTES;
  struct pool_header h;

  header.sequence = 7;
  for (uint32_t version = 0; version < 4; version++) {
    pool_header_encode (&header, slot);
    put_le32 (slot + 8, version);
    put_le32 (slot + 12, format_crc (slot, POOL_SLOT_BYTES, 12));
    CHECK ((pool_header_newest (two, &h, &why) == 1) == (version == 2));
    CHECK (version == 2 || strstr (why, said[version]));
  }
}

/* Any byte that is not zero makes a root one that is not empty. */
static void
test_root_empty (void)
{
  static const size_t ends[] = { 0, POOL_ROOT_BYTES - 1, POOL_ROOT_BYTES,
                                 2 * POOL_ROOT_BYTES - 1 };

  memset (slots, 0, sizeof slots);
  CHECK (pool_root_empty (slots));
  for (unsigned i = 0; i < 100; i++) {
    size_t at = i < 4 ? ends[i] : test_random (sizeof slots);

    slots[at] = (uint8_t) (1 + test_random (255));
    CHECK (!pool_root_empty (slots));
    slots[at] = 0;
  }
}

static void
make_root (unsigned snapshots, unsigned branches, unsigned log)
{
  memset (&root, 0, sizeof root);
  root.life = 3;
  root.sequence = 12;
  test_random_bytes (root.volume, 16);
  memcpy (root.array, header.array, 16);
  test_random_bytes (root.origin, 16);
  root.origin_layer = 5;
  root.flags = POOL_CLEAN | POOL_ADOPTED;
  root.size = GiB (3);
  root.head = 1 + POOL_SNAPSHOTS_MAX;
  root.highest = root.head + 3;
  root.snapshots_count = snapshots;
  root.branches_count = branches;
  root.log_count = log;
  root.log_sequence = 77;
  strcpy (root.name, "vm-1");
  for (unsigned i = 0; i < snapshots; i++) {
    struct pool_snapshot *s = &root.snapshots[i];

    s->layer = i + 1;
    s->flags = i % 2 ? POOL_HELD : POOL_NAMED | POOL_HELD;
    s->ms = test_random (UINT64_MAX);
    s->size = 512 * test_random (1000);
    test_random_bytes (s->uuid, 16);
    test_random_bytes (s->group, 16);
    if (i % 2 == 0)
      snprintf (s->name, sizeof s->name, "s%u", i);
  }
  for (unsigned i = 0; i < branches; i++)
    root.branches[i] = (struct pool_branch) { i + 2, i + 1 };
  for (unsigned i = 0; i < log; i++)
    root.log[i] = pool_first_segment (&header) + i;
  why = pool_root_check (&root, &header);
  CHECK (why == NULL);
}

static void
test_root (unsigned snapshots, unsigned branches, unsigned log)
{
  size_t bytes;

  make_root (snapshots, branches, log);
  memset (slots, 0xaa, sizeof slots);
  bytes = pool_root_encode (&root, slots);
  CHECK (bytes % 4096 == 0 && bytes <= POOL_ROOT_BYTES);
  CHECK (get_le32 (slots + 16) ==
         192 + 120 * snapshots + 8 * branches + 4 * log);
  CHECK (pool_root_decode (slots, &header, &again, &why) == 0);
  CHECK (memcmp (&root, &again, sizeof root) == 0);
  CHECK (pool_root_newest (slots, &header, &again, &why) == 0);
  for (unsigned i = 0; i < 200; i++) { /* each changed byte is seen */
    size_t at = test_random (i < 100 ? 192 : get_le32 (slots + 16));

    slots[at] ^= 1 + test_random (255);
    if (pool_root_decode (slots, &header, &again, &why) == 0)
      CHECK (memcmp (&root, &again, sizeof root) == 0); /* changed back */
    else
      CHECK (why != NULL);
    pool_root_encode (&root, slots);
  }
  CHECK (pool_root_present (slots, header.array));
  memcpy (slots + POOL_ROOT_BYTES, slots, POOL_ROOT_BYTES);
  memset (slots, 0, POOL_ROOT_BYTES);
  slots[POOL_ROOT_BYTES + 24]++; /* torn */
  CHECK (pool_root_newest (slots, &header, &again, &why) == -1);
  CHECK (pool_root_present (slots, header.array));
  slots[POOL_ROOT_BYTES + 112]++; /* another array's */
  CHECK (!pool_root_present (slots, header.array));
  slots[POOL_ROOT_BYTES + 112]--;
  slots[POOL_ROOT_BYTES]++;
  CHECK (!pool_root_present (slots, header.array));
}

/* A root of nonsense with a right checksum is refused. */
static void
refused (void)
{
  pool_root_encode (&root, slots);
  CHECK (pool_root_decode (slots, &header, &again, &why) == -1 && why);
  make_root (2, 1, 2);
}

static void
test_root_nonsense (void)
{
  make_root (2, 1, 2);
  memset (root.volume, 0, 16), refused ();
  root.array[15] ^= 1, refused ();
  root.sequence = 0, refused ();
  root.sequence = SEQUENCE_MAX, refused ();
  root.size = 513, refused ();
  root.size = VOLUME_BYTES_MAX + 512, refused ();
  root.origin_layer = 0, refused ();
  memset (root.origin, 0, 16), refused ();
  root.flags = 16, refused ();
  root.head = 0, refused ();
  root.head = root.highest + 1, refused ();
  strcpy (root.name, "a/b"), refused ();
  root.name[63] = 'x', refused ();
  root.snapshots[0].layer = 0, refused ();
  root.snapshots[1].layer = root.highest + 1, refused ();
  root.snapshots[1].flags = 4, refused ();
  root.snapshots[0].name[0] = '@', refused ();
  root.branches[0].parent = root.branches[0].from, refused ();
  root.log[1] = pool_first_segment (&header) - 1, refused ();
  root.log[1] = header.segments, refused ();
  root.life = UINT32_MAX, refused ();
}

static void
test_root_slots (void)
{
  make_root (0, 0, 1);
  memset (slots, 0, sizeof slots);
  CHECK (pool_root_newest (slots, &header, &again, &why) == -1 && why);
  pool_root_encode (&root, slots);
  root.sequence = 13;
  pool_root_encode (&root, slots + POOL_ROOT_BYTES);
  CHECK (pool_root_newest (slots, &header, &again, &why) == 1);
  CHECK (again.sequence == 13);
  slots[POOL_ROOT_BYTES + 30] ^= 1;
  CHECK (pool_root_newest (slots, &header, &again, &why) == 0);
  CHECK (again.sequence == 12);
  root.sequence = 14; /* not its place */
  pool_root_encode (&root, slots + POOL_ROOT_BYTES);
  CHECK (pool_root_newest (slots, &header, &again, &why) == 0);
  root.sequence = 13;
  root.volume[0] ^= 1;
  pool_root_encode (&root, slots + POOL_ROOT_BYTES);
  CHECK (pool_root_newest (slots, &header, &again, &why) == -1);
}

static struct pool_entry
random_entry (void)
{
  uint32_t segment = pool_first_segment (&header) + (uint32_t) test_random (99);
  uint32_t at = (uint32_t) test_random (UINT32_MAX);
  uint64_t blocks = 1 + test_random (UINT64_MAX);

  switch (test_random (4)) {
  case 0:
    return (struct pool_entry) { segment, 0, 0, POOL_GONE, 0, 0 };
  case 1:
    return (struct pool_entry) { segment, at, 9, POOL_DATA, 0, blocks };
  case 2:
    return (struct pool_entry) { segment, at, 9, POOL_BASE, 0, blocks };
  default:
    return (struct pool_entry) {
      POOL_NO_SEGMENT, at, 9, POOL_HOLE, (uint32_t) test_random (1 << 24),
      blocks
    };
  }
}

static struct pool_log_block
random_block (void)
{
  struct pool_log_block b = { .sequence = test_random (SEQUENCE_MAX),
                              .life = (uint32_t) test_random (UINT32_MAX),
                              .count = 1 + (unsigned) test_random (
                                             POOL_LOG_ENTRIES) };

  test_random_bytes (b.volume, 8);
  for (unsigned i = 0; i < b.count; i++)
    b.entries[i] = random_entry ();
  return b;
}

static void
test_log (void)
{
  uint8_t bytes[POOL_LOG_BLOCK_BYTES], other[POOL_LOG_BLOCK_BYTES];
  struct pool_log_block b = random_block (), c;

  pool_log_encode (&b, bytes);
  memset (&c, 0xaa, sizeof c);
  CHECK (pool_log_decode (bytes, &header, &c, &why) == 0);
  CHECK (c.sequence == b.sequence && c.life == b.life && c.count == b.count &&
         memcmp (c.volume, b.volume, 8) == 0);
  for (unsigned i = 0; i < b.count; i++)
    CHECK (c.entries[i].segment == b.entries[i].segment &&
           c.entries[i].at == b.entries[i].at &&
           c.entries[i].layer == b.entries[i].layer &&
           c.entries[i].kind == b.entries[i].kind &&
           c.entries[i].more == b.entries[i].more &&
           c.entries[i].blocks == b.entries[i].blocks);
  memcpy (other, bytes, sizeof other);
  other[test_random (sizeof other)] ^= 1 + test_random (255);
  CHECK (pool_log_decode (other, &header, &c, &why) == -1);
  /* A block that was cut short never becomes whole by another life's. */
  for (unsigned sector = 0; sector < 8; sector++) {
    memcpy (other, bytes, sizeof other);
    memset (other + sector * 512, 0xaa, 512);
    c = b;
    c.life++;
    pool_log_encode (&c, bytes);
    memcpy (other + sector * 512, bytes + sector * 512, 512);
    CHECK (pool_log_decode (other, &header, &c, &why) == -1);
    pool_log_encode (&b, bytes);
  }
}

static void
nonsense (struct pool_entry e)
{
  uint8_t bytes[POOL_LOG_BLOCK_BYTES];
  struct pool_log_block b = random_block (), c;

  b.entries[b.count - 1] = e;
  pool_log_encode (&b, bytes);
  CHECK (pool_log_decode (bytes, &header, &c, &why) == -2 && why);
}

static void
test_log_nonsense (void)
{
  uint32_t good = pool_first_segment (&header);
  uint8_t bytes[POOL_LOG_BLOCK_BYTES];
  struct pool_log_block b = random_block (), c;

  nonsense ((struct pool_entry) { good - 1, 1, 1, POOL_DATA, 0, 1 });
  nonsense ((struct pool_entry) { header.segments, 1, 1, POOL_DATA, 0, 1 });
  nonsense ((struct pool_entry) { POOL_NO_SEGMENT, 1, 1, POOL_DATA, 0, 1 });
  nonsense ((struct pool_entry) { good, 1, 1, POOL_HOLE, 0, 1 });
  nonsense ((struct pool_entry) { good, 1, 0, POOL_DATA, 0, 1 });
  nonsense ((struct pool_entry) { good, 1, 1, POOL_DATA, 1, 1 });
  nonsense ((struct pool_entry) { good, 1, 1, POOL_DATA, 0, 0 });
  nonsense ((struct pool_entry) { good, 1, 0, POOL_GONE, 0, 0 });
  nonsense ((struct pool_entry) { good, 1, 1, 4, 0, 1 });
  b.count = 0;
  pool_log_encode (&b, bytes);
  CHECK (pool_log_decode (bytes, &header, &c, &why) == -2);
}

int
main (void)
{
  test_random_start ();
  test_plan ();
  make_header ();
  test_header ();
  test_header_version ();
  test_root_empty ();
  for (unsigned i = 0; i < 20; i++)
    test_root ((unsigned) test_random (20), (unsigned) test_random (5),
               (unsigned) test_random (50));
  test_root (POOL_SNAPSHOTS_MAX, POOL_BRANCHES_MAX, POOL_LOG_SEGMENTS_MAX);
  test_root_nonsense ();
  test_root_slots ();
  for (unsigned i = 0; i < 500; i++)
    test_log ();
  test_log_nonsense ();
  return 0;
}
