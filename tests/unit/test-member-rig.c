/* test-member-rig.c: see test-member-rig.h. */

#include <config.h>

#include <string.h>

#include "test-member-rig.h"
#include "test-random.h"

const uint8_t key[KEY_BYTES] = { 9, 9, 9 };
const uint8_t cluster[16] = { 1 }, disk_id[16] = { 2 }, array[16] = { 3 };

uint8_t header[HEADER_BYTES];
struct flight flights[FLIGHTS];
struct member *m;
uint64_t epoch, generation, confirmed_max, served_max;
bool out;

/* ---- The disk ---- */

void
disk_format (void)
{
  struct superblock sb = { .data_offset = HEADER_BYTES,
                           .data_bytes = DATA_BYTES };
  struct intents map;

  memset (header, 0, sizeof header);
  memset (flights, 0, sizeof flights);
  memcpy (sb.disk, disk_id, 16);
  for (sb.sequence = 1; sb.sequence <= 2; sb.sequence++)
    superblock_encode (&sb, header + sb.sequence % 2 * SLOT_BYTES);
  CHECK (intents_init (&map, intents_extents (DATA_BYTES)) == 0);
  for (unsigned i = 0; i < intents_blocks (&map); i++)
    intents_encode (&map, i,
                    header + INTENT_BLOCKS_OFFSET + i * INTENT_BLOCK_BYTES);
  intents_free (&map);
}

void
disk_start (void)
{
  struct superblock sb;
  struct intents map;
  const char *why;

  CHECK (superblock_newest (header, &sb, &why) >= 0);
  if (superblock_mend (header, &sb))
    superblock_encode (&sb, header + sb.sequence % 2 * SLOT_BYTES);
  CHECK (intents_init (&map, intents_extents (DATA_BYTES)) == 0);
  for (unsigned i = 0; i < intents_blocks (&map); i++)
    intents_decode (
      &map, i, header + INTENT_BLOCKS_OFFSET + i * INTENT_BLOCK_BYTES, &why);
  m = member_new (&sb, &map);
  CHECK (m);
  if (sb.bad_offset) {
    struct bad_list bad;
    bool mend;

    CHECK (bad_decode (header + sb.bad_offset, sb.data_bytes, &bad, &mend,
                       &why) == 0);
    member_bad_begin (m, &bad, mend);
  }
}

void
disk_crash (void)
{
  for (int i = 0; i < FLIGHTS; i++) {
    struct flight *f = &flights[i];
    int fate = test_random (3);

    if (!f->used)
      continue;
    for (unsigned sector = 0; sector < f->a.length / 512; sector++)
      if (fate == 1 || (fate == 2 && test_random (2)))
        memcpy (header + f->a.offset + sector * 512, f->a.bytes + sector * 512,
                512);
    f->used = false;
  }
}

bool
bit_durable (uint64_t e)
{
  unsigned block = e / INTENT_BLOCK_EXTENTS;
  uint64_t offset = INTENT_BLOCKS_OFFSET +
                    (uint64_t) block * INTENT_BLOCK_BYTES;
  struct intents map;
  const char *why;
  bool set;

  CHECK (intents_init (&map, intents_extents (DATA_BYTES)) == 0);
  intents_decode (&map, block, header + offset, &why);
  set = intents_test (&map, e);
  for (int i = 0; i < FLIGHTS; i++)
    if (flights[i].used && flights[i].a.offset == offset) {
      CHECK (intents_decode (&map, block, flights[i].a.bytes, &why) == 0);
      set = set && intents_test (&map, e);
    }
  intents_free (&map);
  return set;
}

/* ---- Tokens, desires, lives ---- */

uint64_t
hot (unsigned i)
{
  static const uint64_t at[HOT] = {
    0,
    1,
    2,
    63,
    64,
    65,
    INTENT_BLOCK_EXTENTS - 1,
    INTENT_BLOCK_EXTENTS,
    INTENT_BLOCK_EXTENTS + 1,
    2 * INTENT_BLOCK_EXTENTS - 1,
    2 * INTENT_BLOCK_EXTENTS,
    GiB (300) / EXTENT_BYTES - 1,
  };

  return at[i];
}

void
export_name (char name[TOKEN_BYTES_MAX + 16], enum member_door door,
             uint64_t session, bool writable, uint64_t e)
{
  struct token t = { .session = session, .writable = writable, .epoch = e };
  char text[TOKEN_BYTES_MAX + 1];

  memcpy (t.array, array, 16);
  memcpy (t.member, disk_id, 16);
  token_mint (&t, key, text);
  snprintf (name, TOKEN_BYTES_MAX + 16, "%s/%s", member_door_name (door), text);
}

bool
desire (uint64_t min_epoch, bool release)
{
  struct member_desire d = { .generation = generation,
                             .min_epoch = min_epoch,
                             .assigned = !release,
                             .layout = LAYOUT_RAIDX,
                             .n = 4,
                             .groups = 1,
                             .unit = 65536,
                             .position = 2,
                             .epoch = epoch };
  char why[256];

  memcpy (d.cluster, cluster, 16);
  memcpy (d.array, array, 16);
  if (release)
    memcpy (d.release, array, 16);
  d.states[1] = out ? MEMBER_OUT : MEMBER_IN_SYNC;
  return member_desire (m, &d, why, sizeof why);
}

/* All actions before it listens, as the plugin does it. */
void
start (void)
{
  struct member_action a;

  disk_start ();
  member_set_key (m, key);
  while (member_next_action (m, false, &a)) {
    memcpy (header + a.offset, a.bytes, a.length);
    member_action_done (m, &a, 0);
  }
  CHECK (member_settled (m));
  CHECK (member_confirmed (m)->min_epoch >= confirmed_max);
  CHECK (served_max == 0 || member_confirmed (m)->min_epoch > served_max);
  CHECK (member_confirmed (m)->states_epoch == 0 ||
         member_confirmed (m)->min_epoch > member_confirmed (m)->states_epoch);
  confirmed_max = member_confirmed (m)->min_epoch;
  if (epoch < confirmed_max)
    epoch = confirmed_max;
}
