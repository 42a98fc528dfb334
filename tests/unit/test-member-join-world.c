/* test-member-join-world.c: the joiner's disk, the other parties' state, their
 * ends, and what holds always.
 */

#include <config.h>

#include <string.h>

#include "test-member-join-world.h"
#include "test-random.h"

struct member *m;
bool calm;
bool idle;

void
world_start (uint64_t seed)
{
  test_seed = seed;
  test_state = ~seed;
}

/* ---- The joiner's disk ---- */

uint8_t header[HEADER_BYTES];
struct flight flights[FLIGHTS];
uint64_t mine[HOT][2], stable[HOT][2];

uint64_t
cell_at (unsigned h, unsigned c)
{
  return hot[h] * EXTENT_BYTES + (c == 0           ? 0
                                  : hot[h] == LAST ? 4096
                                                   : EXTENT_BYTES - 4096);
}

void
disk_format (void)
{
  struct superblock sb = { .data_offset = HEADER_BYTES,
                           .data_bytes = DATA_BYTES };
  struct intents map;

  memset (header, 0, sizeof header);
  memset (flights, 0, sizeof flights);
  memset (mine, 0xee, sizeof mine);
  memset (stable, 0xee, sizeof stable);
  memcpy (sb.disk, disk_id, 16);
  for (sb.sequence = 1; sb.sequence <= 2; sb.sequence++)
    superblock_encode (&sb, header + sb.sequence % 2 * SLOT_BYTES);
  CHECK (intents_init (&map, intents_extents (DATA_BYTES)) == 0);
  for (unsigned i = 0; i < intents_blocks (&map); i++)
    intents_encode (&map, i,
                    header + INTENT_BLOCKS_OFFSET + i * INTENT_BLOCK_BYTES);
  intents_free (&map);
}

static void
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
  member_set_key (m, key);
}

static void
disk_crash (void)
{
  for (int i = 0; i < FLIGHTS; i++) {
    struct flight *f = &flights[i];
    int fate = test_random (4);

    for (int sector = 0; f->used && sector < 8; sector++)
      if (fate == 1 || (fate == 2 && test_random (2)))
        memcpy (header + f->a.offset + sector * 512, f->a.bytes + sector * 512,
                512);
    f->used = false;
  }
  for (unsigned h = 0; h < HOT; h++)
    for (unsigned c = 0; c < 2; c++)
      mine[h][c] = stable[h][c] = test_random (2) ? mine[h][c] : stable[h][c];
}

bool
bit_on_disk (uint64_t e)
{
  unsigned block = e / BLOCK;
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
      intents_decode (&map, block, flights[i].a.bytes, &why);
      set = set && intents_test (&map, e);
    }
  intents_free (&map);
  return set;
}

/* ---- weftd, survivor, writer ---- */

uint64_t theirs[HOT][2];
bool their_bit[HOT];
uint64_t version;

enum member_state state;
uint64_t epoch, fence;
uint64_t change_epoch;
enum member_state change_to;
uint64_t wanted_min;

struct conn conns[CONNS];
struct conn *writer;
uint64_t session = 1;
struct write writes[WRITES];
struct copy_job copies[COPIES];
struct gather gather;
struct flush flush;

void
data_stable (void)
{
  memcpy (stable, mine, sizeof mine);
  flush.used = false;
}

bool
covers (const struct write *w, unsigned h, unsigned c)
{
  uint64_t at = cell_at (h, c);

  for (unsigned i = 0; i < w->r.count; i++)
    if (w->records[i].offset <= at &&
        at < w->records[i].offset + w->records[i].length)
      return true;
  return false;
}

void
desire (void)
{
  struct member_desire d = {
    .generation = 1,
    .assigned = true,
    .n = 2,
    .groups = 1,
    .unit = 65536,
    .layout = LAYOUT_CHAINED,
    .position = 1,
    .member_bytes = USED_BYTES,
    .epoch = epoch,
    .min_epoch = change_epoch ? change_epoch : fence,
    .states = { MEMBER_IN_SYNC, state },
  };
  char why[256];

  memcpy (d.cluster, cluster, 16);
  memcpy (d.array, array, 16);
  if (state == MEMBER_JOINING && !change_epoch && writer && !writer->dead)
    d.join_epoch = fence;
  CHECK (member_desire (m, &d, why, sizeof why));
  wanted_min = d.min_epoch;
}

/* ---- What holds always ---- */

static bool
same_but_for_what_is_on_its_way (void)
{
  for (unsigned h = 0; h < HOT; h++)
    for (unsigned c = 0; c < 2; c++) {
      bool same = mine[h][c] == theirs[h][c];

      for (int i = 0; i < WRITES && !same; i++)
        same = writes[i].at != FREE && covers (&writes[i], h, c);
      if (!same)
        return false;
    }
  return true;
}

void
check_world (void)
{
  member_check (m);
  if (!change_epoch && writer && !writer->dead &&
      (state == MEMBER_IN_SYNC ||
       (state == MEMBER_JOINING && m->join.order == fence &&
        m->join.phase == MEMBER_JOIN_SYNCED)))
    CHECK (same_but_for_what_is_on_its_way ());
  for (int i = 0; i < COPIES; i++)
    if (copies[i].used)
      CHECK (copies[i].given_min >= member_confirmed (m)->min_epoch);
}

/* ---- Ends ---- */

void
write_forget (struct write *w)
{
  if (w->at >= WAITING)
    member_leave (m, &w->r);
  w->at = FREE;
}

void
reach_survivor (struct write *w)
{
  for (unsigned h = 0; h < HOT; h++)
    for (unsigned c = 0; c < 2; c++)
      if (covers (w, h, c))
        theirs[h][c] = w->version;
}

void
hang_up (bool dies)
{
  if (writer)
    writer->dead = true;
  for (int i = 0; i < WRITES; i++) {
    struct write *w = &writes[i];

    if (w->at == SENDING || (dies && w->at == WRITTEN))
      w->at = FREE;
    else if (dies && w->at == NOTED) {
      if (test_random (2))
        reach_survivor (w);
      w->at = FREE;
    }
  }
}

void
leave_out (void)
{
  hang_up (false);
  /* A change that is under way is replaced by one with a higher number. */
  epoch = 1 + (change_epoch ? change_epoch : epoch);
  change_epoch = 0;
  state = MEMBER_OUT;
}

void
power_off (void)
{
  for (int i = 0; i < WRITES; i++)
    if (writes[i].at >= SENDING)
      write_forget (&writes[i]);
  for (int i = 0; i < CONNS; i++)
    if (conns[i].pass)
      member_close (m, conns[i].pass);
  memset (conns, 0, sizeof conns);
  memset (copies, 0, sizeof copies);
  gather.used = flush.used = false;
  writer = NULL;
  disk_crash ();
  member_free (m);
}

void
power_on (void)
{
  struct member_action a;

  disk_start ();
  CHECK (m->joining == (m->join.phase == MEMBER_JOIN_WAITING));
  if (!format_uuid_zero (m->next.array))
    for (unsigned h = 0; h < HOT; h++)
      for (unsigned c = 0; c < 2; c++)
        CHECK (mine[h][c] == theirs[h][c] || their_bit[h] ||
               intents_test (&m->orphans, hot[h]));
  while (member_next_action (m, false, &a)) {
    memcpy (header + a.offset, a.bytes, a.length);
    member_action_done (m, &a, 0);
  }
  wanted_min = m->gate;
}
