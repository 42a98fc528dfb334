/* world-disk.c: a virtual disk.
 *
 * Data: each hot grain has a version.  A write goes to a volatile cache; when
 * the power goes, each write since the last flush was kept or lost, as chance
 * wills.  The cache writes back what is oldest when it has no more room.
 *
 * Header: written through (RWF_DSYNC).  A slot or block that is being written
 * when the power goes is old, new, or torn; when only the process dies, old or
 * new.
 */

#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "world.h"

void
disk_format (struct disk *d, unsigned number)
{
  struct superblock sb = { .data_offset = HEADER_BYTES,
                           .data_bytes = w.config.member_bytes };
  struct intents map;

  memset (d, 0, sizeof *d);
  d->number = number;
  d->place = -1;
  d->data_bytes = w.config.member_bytes;
  for (unsigned i = 0; i < 16; i++)
    d->uuid[i] = sim_random ();
  d->uuid[0] = number + 1;
  memcpy (sb.disk, d->uuid, 16);
  for (sb.sequence = 1; sb.sequence <= 2; sb.sequence++)
    superblock_encode (&sb, d->header + sb.sequence % 2 * SLOT_BYTES);
  if (intents_init (&map, intents_extents (d->data_bytes)) == -1)
    abort ();
  intents_encode (&map, 0, d->header + INTENT_BLOCKS_OFFSET);
  intents_free (&map);
}

void
disk_copy (struct disk *copy, const struct disk *d, bool power)
{
  unsigned number = copy->number;

  disk_free (copy);
  *copy = *d;
  copy->number = number;
  copy->write_errors = copy->read_errors = 0;
  copy->full_until = 0;
  copy->slots = make (d->slots_count * sizeof d->slots[0] + 1);
  memcpy (copy->slots, d->slots, d->slots_count * sizeof d->slots[0]);
  if (power)
    disk_power_cut (copy);
  else
    disk_flush (copy);
  copy->copied = sim_now;
}

/* A disk has arbitrary content before it is a member. */
void
disk_take_place (struct disk *d, unsigned place)
{
  if (d->place == (int) place)
    return;
  free (d->slots);
  d->place = place;
  d->slots_count = w.place[place].slots;
  d->slots = make (d->slots_count * sizeof d->slots[0] + 1);
  if (w.created) /* a new array needs no copies that are the same: see below */
    for (unsigned i = 0; i < d->slots_count; i++)
      d->slots[i].now = d->slots[i].durable = GARBAGE;
}

void
disk_nobody (struct disk *d, unsigned number)
{
  unsigned most = 1;

  memset (d, 0, sizeof *d);
  d->number = number;
  d->place = -1;
  for (unsigned m = 0; m < w.layout.members; m++)
    most = w.place[m].slots > most ? w.place[m].slots : most;
  d->slots = make (most * sizeof d->slots[0]);
  for (unsigned i = 0; i < most; i++)
    d->slots[i].now = d->slots[i].durable = GARBAGE;
}

void
disk_free (struct disk *d)
{
  free (d->slots);
  d->slots = NULL;
}

void
disk_write (struct disk *d, unsigned slot, uint64_t version, bool fua)
{
  struct slot *s = &d->slots[slot];

  if (s->count == PENDING_MAX) {
    s->durable = s->pending[0];
    s->spot_stays = false;
    memmove (s->pending, s->pending + 1, --s->count * sizeof s->pending[0]);
  }
  s->spot = false;
  s->now = s->pending[s->count++] = version;
  if (fua) {
    s->durable = version;
    s->spot_stays = false;
    s->count = 0;
  }
}

bool
disk_fails (struct disk *d)
{
  if (d->write_errors == 0)
    return false;
  d->write_errors--;
  d->erred = EVERY_HOST;
  return true;
}

uint64_t
disk_hangs (const struct disk *d)
{
  uint64_t ns = d->hung_until > sim_now ? d->hung_until - sim_now : 0;

  return ns < 100 * MS ? ns : 100 * MS;
}

uint64_t
disk_stuck_ms (const struct disk *d)
{
  uint64_t ms = (sim_now - d->hung_from) / MS;

  /* The process has asked it some time later. */
  return !disk_hangs (d) ? disk_slow_stuck_ms (d)
         : ms > PULSE_MS ? ms - PULSE_MS
                         : 0;
}

bool
disk_refuses (const struct disk *d)
{
  return sim_now < d->full_until && sim_chance (d->full_percent);
}

void
disk_flush (struct disk *d)
{
  for (unsigned i = 0; i < d->slots_count; i++) {
    d->slots[i].durable = d->slots[i].now;
    d->slots[i].spot_stays = d->slots[i].spot;
    d->slots[i].count = 0;
  }
}

/* The bits as a start would find them. */
static void
read_bits (struct disk *d)
{
  struct intents map;
  const char *why;

  if (intents_init (&map, intents_extents (d->data_bytes)) == -1)
    abort ();
  intents_decode (&map, 0, d->header + INTENT_BLOCKS_OFFSET, &why);
  d->bits = map.word[0];
  intents_free (&map);
}

static uint8_t *
header_at (struct disk *d, uint64_t offset)
{
  return offset < BAD_OFFSET ? d->header + offset
                             : d->bad + (offset - BAD_OFFSET);
}

void
disk_header_write (struct disk *d, const struct member_action *a)
{
  uint64_t before = d->bits;

  memcpy (header_at (d, a->offset), a->bytes, a->length);
  if (a->kind != MEMBER_WRITE_INTENTS)
    return;
  read_bits (d);
  sim_trace ("disk %u: intent bits %llx", d->number,
             (unsigned long long) d->bits);
  if (before & ~d->bits)
    oracle_bits_fell ();
}

void
disk_header_torn (struct disk *d, const struct member_action *a)
{
  unsigned sectors = a->length / 512;

  if (sim_chance (40))
    return; /* old */
  for (unsigned i = 0; i < sectors; i++)
    if (sim_chance (70))
      memcpy (header_at (d, a->offset) + i * 512, a->bytes + i * 512, 512);
  read_bits (d);
}

void
disk_power_cut (struct disk *d)
{
  d->boots++;
  for (unsigned i = 0; i < d->slots_count; i++) {
    struct slot *s = &d->slots[i];

    if (s->count > 0) {
      unsigned kept = sim_below (s->count + 1);

      if (kept > 0) {
        s->durable = s->pending[kept - 1];
        s->spot_stays = false;
      }
      s->spot |= s->spot_stays;
      s->now = s->durable;
      s->count = 0;
    }
  }
}

int
disk_load (struct disk *d, struct superblock *sb, bool *mend,
           struct intents *map)
{
  const char *why;

  if (superblock_newest (d->header, sb, &why) == -1)
    return -1;
  *mend = superblock_mend (d->header, sb);
  if (intents_init (map, intents_extents (sb->data_bytes)) == -1)
    abort ();
  intents_decode (map, 0, d->header + INTENT_BLOCKS_OFFSET, &why);
  return 0;
}

bool
disk_spots (void)
{
  return grain_bytes == BAD_BLOCK_BYTES;
}

bool
disk_bad (const struct disk *d, unsigned slot)
{
  const struct member *engine = w.member[d->number].engine;
  uint64_t offset = disk_spots () ? slot_offset (d->place, slot) : 0;
  struct bad_list list;
  bool mend;

  if (!disk_spots ())
    return false;
  if (engine)
    return bad_test (member_bad (engine), offset, grain_bytes);
  disk_load_bad (d, &list, &mend);
  return bad_test (&list, offset, grain_bytes);
}

void
disk_load_bad (const struct disk *d, struct bad_list *list, bool *mend)
{
  const char *why;

  if (bad_decode (d->bad, d->data_bytes, list, mend, &why) == -1)
    sim_fail ("disk %u: %s", d->number, why);
}
