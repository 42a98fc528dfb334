/* areas.c: the hot grains: which they are, and where their copies lie. */

#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "world.h"

static void
add_copy (unsigned member, uint64_t offset, uint64_t length, unsigned grain,
          unsigned copy)
{
  struct place *p = &w.place[member];
  struct run *r = &p->run[p->runs++];

  *r = (struct run) {
    .offset = offset, .length = length, .slot = p->slots, .grain = grain
  };
  for (unsigned i = 0; i < length / grain_bytes; i++) {
    p->grain = realloc (p->grain, (p->slots + 1) * sizeof p->grain[0]);
    w.copy[grain + i][copy] = (struct copy) { member, p->slots };
    p->grain[p->slots++] = grain + i;
  }
}

static bool
overlaps (const struct area *a)
{
  for (const struct area *o = w.area; o < a; o++)
    if (o->offset < a->offset + a->grains * grain_bytes &&
        a->offset < o->offset + o->grains * grain_bytes)
      return true;
  return false;
}

/* Areas lie across the border of two units where they can, and are spread over
 * the array, the first and the last unit included.
 */
void
areas_choose (void)
{
  const struct layout *l = &w.layout;
  uint64_t units = l->size / l->unit, room = l->unit / grain_bytes;

  for (unsigned i = 0; i < w.config.areas; i++) {
    struct area *a = &w.area[i];
    struct layout_piece p;
    unsigned tries = 0;
    uint64_t end;

    do {
      if (tries++ == 100) { /* there is no room */
        *a = (struct area) { .grains = 0 };
        w.config.areas = i;
        return;
      }

      uint64_t border = i == 0   ? 1
                        : i == 1 ? units - 1
                                 : 1 + sim_below (units - 1);
      unsigned before = room < 8 ? room : 4 + sim_below (5);

      if (i > 1 && sim_chance (30)) /* near another */
        border = 1 + (w.area[0].offset / l->unit + sim_below (3)) % (units - 1);
      a->offset = border * l->unit - before * grain_bytes;
      a->grains = before + (room < 8 ? room : 4 + sim_below (5));
    } while (overlaps (a));
    a->first = w.grains;
    w.grains += a->grains;
    end = a->offset + a->grains * grain_bytes;
    for (uint64_t at = a->offset; at < end; at += p.length) {
      layout_map (l, at, end - at, &p);
      for (unsigned c = 0; c < p.copies; c++)
        add_copy (p.copy[c].member, p.copy[c].offset, p.length,
                  a->first + (at - a->offset) / grain_bytes, c);
    }
  }
}

void
areas_free (void)
{
  for (unsigned m = 0; m < PLACES_MAX; m++)
    free (w.place[m].grain);
}

int
place_find (unsigned member, uint64_t offset)
{
  const struct place *p = &w.place[member];

  for (unsigned i = 0; i < p->runs; i++)
    if (offset - p->run[i].offset < p->run[i].length)
      return p->run[i].slot + (offset - p->run[i].offset) / grain_bytes;
  return -1;
}

unsigned
place_slot (unsigned member, uint64_t offset)
{
  int slot = place_find (member, offset);

  if (slot >= 0)
    return slot;
  sim_fail ("byte %llu of member %u is touched, and is none of the clients'",
            (unsigned long long) offset, member);
}

uint64_t
slot_offset (unsigned member, unsigned slot)
{
  const struct place *p = &w.place[member];

  for (unsigned i = 0; i < p->runs; i++)
    if (slot - p->run[i].slot < p->run[i].length / grain_bytes)
      return p->run[i].offset + (slot - p->run[i].slot) * grain_bytes;
  abort ();
}

uint64_t
grain_offset (unsigned grain)
{
  for (unsigned i = 0; i < w.config.areas; i++)
    if (grain - w.area[i].first < w.area[i].grains)
      return w.area[i].offset + (grain - w.area[i].first) * grain_bytes;
  abort ();
}

unsigned
offset_grain (uint64_t offset)
{
  for (unsigned i = 0; i < w.config.areas; i++)
    if (offset - w.area[i].offset < w.area[i].grains * grain_bytes)
      return w.area[i].first + (offset - w.area[i].offset) / grain_bytes;
  abort ();
}
