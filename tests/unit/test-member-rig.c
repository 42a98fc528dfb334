/* test-member-rig.c: see test-member-rig.h. */

#include <config.h>

#include <string.h>

#include "test-member-rig.h"
#include "test-random.h"

const uint8_t key[KEY_BYTES] = { 9, 9, 9 };
const uint8_t cluster[16] = { 1 }, disk_id[16] = { 2 }, array[16] = { 3 };

struct member *m;

/* ---- The disk ---- */

uint8_t header[HEADER_BYTES];
struct flight flights[FLIGHTS];

void
disk_format (struct superblock sb, unsigned dirty)
{
  struct intents map;

  memset (header, 0, sizeof header);
  memset (flights, 0, sizeof flights);
  sb.data_offset = HEADER_BYTES;
  memcpy (sb.disk, disk_id, 16);
  if (sb.n) {
    memcpy (sb.cluster, cluster, 16);
    memcpy (sb.array, array, 16);
  }
  for (unsigned i = 0; i < 2; i++) {
    sb.sequence++;
    superblock_encode (&sb, header + sb.sequence % 2 * SLOT_BYTES);
  }
  CHECK (intents_init (&map, intents_extents (sb.data_bytes)) == 0);
  for (unsigned e = 0; e < dirty; e++)
    intents_set (&map, e);
  for (unsigned i = 0; i < intents_blocks (&map); i++)
    intents_encode (&map, i,
                    header + INTENT_BLOCKS_OFFSET + i * INTENT_BLOCK_BYTES);
  intents_free (&map);
}

void
disk_start (bool heard)
{
  struct superblock sb;
  struct intents map;
  const char *why;

  CHECK (superblock_newest (header, &sb, &why) >= 0);
  if (superblock_mend (header, &sb))
    superblock_encode (&sb, header + sb.sequence % 2 * SLOT_BYTES);
  CHECK (intents_init (&map, intents_extents (sb.data_bytes)) == 0);
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
  if (heard)
    member_set_key (m, key);
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

  CHECK (intents_init (&map, m->wanted.extents) == 0);
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

void
do_action (const struct member_action *a)
{
  memcpy (header + a->offset, a->bytes, a->length);
  member_action_done (m, a, 0);
  member_check (m);
}

unsigned
do_actions (bool lazy)
{
  struct member_action a;
  unsigned n = 0;

  for (; member_next_action (m, lazy, &a); n++)
    do_action (&a);
  return n;
}

/* ---- weftd ---- */

struct member_desire wish;

void
wish_place (enum layout_kind layout, unsigned n, uint64_t e)
{
  wish = (struct member_desire) {
    .generation = 1,
    .min_epoch = e,
    .assigned = true,
    .layout = layout,
    .n = n,
    .groups = 1,
    .unit = 65536,
    .member_bytes = m->next.data_bytes,
    .epoch = e,
  };
  memcpy (wish.cluster, cluster, 16);
  memcpy (wish.array, array, 16);
}

bool
desire (void)
{
  char why[256];
  bool obeyed = member_desire (m, &wish, why, sizeof why);

  member_check (m);
  return obeyed;
}

uint64_t epoch, generation, confirmed_max, served_max;
bool out;

bool
desire_four (uint64_t min_epoch, bool release)
{
  wish_place (LAYOUT_RAIDX, 4, epoch);
  wish.generation = generation;
  wish.min_epoch = min_epoch;
  wish.assigned = !release;
  wish.position = 2;
  if (release)
    memcpy (wish.release, array, 16);
  wish.states[1] = out ? MEMBER_OUT : MEMBER_IN_SYNC;
  return desire ();
}

void
start (void)
{
  disk_start (true);
  do_actions (false);
  CHECK (member_settled (m));
  CHECK (member_confirmed (m)->min_epoch >= confirmed_max);
  CHECK (served_max == 0 || member_confirmed (m)->min_epoch > served_max);
  CHECK (member_confirmed (m)->states_epoch == 0 ||
         member_confirmed (m)->min_epoch > member_confirmed (m)->states_epoch);
  confirmed_max = member_confirmed (m)->min_epoch;
  if (epoch < confirmed_max)
    epoch = confirmed_max;
}

void
start_new (void)
{
  disk_format ((struct superblock) { .data_bytes = FOUR_DATA_BYTES }, 0);
  confirmed_max = served_max = 0;
  epoch = generation = 1;
  out = false;
  start ();
  CHECK (desire_four (epoch, false));
  do_actions (false);
  CHECK (member_settled (m));
}

/* ---- Sessions ---- */

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

struct member_pass *
open_door (uint64_t session, uint64_t e)
{
  struct member_pass *p = NULL;
  struct member_refusal refusal;
  char name[TOKEN_BYTES_MAX + 16];
  enum member_verdict v;

  export_name (name, DOOR_DATA, session, true, e);
  while ((v = member_open (m, name, NULL, &p, &refusal)) == MEMBER_WAIT)
    CHECK (do_actions (false) > 0);
  if (v != MEMBER_GO)
    fprintf (stderr, "%s\n", refusal.why);
  CHECK (v == MEMBER_GO);
  return p;
}

void
end_life (struct member_pass *p)
{
  member_close (m, p);
  member_free (m);
}

enum member_verdict
ask (struct member_pass *p, struct one *w, uint64_t extent, uint64_t count)
{
  struct member_refusal refusal;

  w->b = (struct batch_record) { .kind = BATCH_WRITE,
                                 .offset = extent * EXTENT_BYTES,
                                 .length = count * EXTENT_BYTES };
  w->r = (struct member_request) { .records = &w->b, .count = 1 };
  return member_admit (m, p, &w->r, &refusal);
}

enum member_verdict
again (struct member_pass *p, struct one *w)
{
  struct member_refusal refusal;
  enum member_verdict v = member_retry (m, p, &w->r, &refusal);

  member_check (m);
  return v;
}

void
write_to (struct member_pass *p, uint64_t extent)
{
  struct one w;

  if (ask (p, &w, extent, 1) == MEMBER_WAIT)
    while (again (p, &w) == MEMBER_WAIT)
      CHECK (do_actions (false) > 0);
  member_leave (m, &w.r);
}

/* ---- Joining ---- */

void
gathered (uint64_t bits)
{
  struct intents peers;

  CHECK (member_join_phase (m) == MEMBER_JOIN_GATHERING);
  CHECK (intents_init (&peers, m->wanted.extents) == 0);
  atomic_store (&peers.word[0], bits);
  member_join_gathered (m, member_join_run (m), &peers);
  intents_free (&peers);
}

void
copy_extent (uint64_t extent)
{
  uint64_t e, run = member_join_run (m);

  CHECK (member_join_next (m, run, &e) && e == extent);
  member_join_copied (m, run, e, true);
}

void
copies_stable (void)
{
  member_join_stable (m, member_join_run (m), member_join_mark (m));
}
