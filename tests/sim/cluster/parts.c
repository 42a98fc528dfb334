/* parts.c: chooses the part of the array that each of several hosts writes.
 *
 * Borders between stripe units cut the array into a few pieces.  Most borders lie in the
 * middle of an area, so that both sides of the border are used.  A host takes adjacent
 * pieces: mostly free ones, at times any, and at times the whole array.  So a part may
 * have no host for a while, move to another host, grow and shrink.
 */

#include <config.h>

#include <stdlib.h>

#include "world.h"

static int
by_number (const void *a, const void *b)
{
  const uint64_t *x = a, *y = b;

  return (*x > *y) - (*x < *y);
}

void
parts_choose (void)
{
  const struct layout *l = &w.layout;
  unsigned wanted = 1 + sim_below (PIECES_MAX - 1), count = 0;

  w.border[count++] = 0;
  for (unsigned i = 0; i < wanted; i++) {
    const struct area *a = &w.area[sim_below (w.config.areas)];
    uint64_t middle = (a->offset / l->unit + 1) * l->unit;

    if (sim_chance (20))
      middle = (1 + sim_below (l->size / l->unit - 1)) * l->unit;
    if (middle < l->size)
      w.border[count++] = middle;
  }
  w.border[count++] = l->size;
  qsort (w.border, count, sizeof w.border[0], by_number);
  w.pieces = 0;
  for (unsigned i = 1; i < count; i++)
    if (w.border[i] > w.border[w.pieces])
      w.border[++w.pieces] = w.border[i];
}

static bool
is_free (const struct host_role *h, uint64_t offset, uint64_t end)
{
  for (unsigned i = 0; i < w.config.hosts; i++) {
    const struct host_role *o = &w.host[i];

    if (o != h && o->proc.life && o->writable &&
        (o->part_length == 0 ||
         (o->part_offset < end && offset < o->part_offset + o->part_length)))
      return false;
  }
  return true;
}

void
part_take (struct host_role *h)
{
  bool calm = w.healing || w.config.lone;
  bool any = !calm && sim_chance (10);

  h->part_offset = h->part_length = 0;
  if (w.united || (!calm && sim_chance (4)))
    return;
  for (unsigned tries = 0; tries < 30; tries++) {
    unsigned first = sim_below (w.pieces), last = first;

    while (!w.config.lone && last + 1 < w.pieces && sim_chance (25))
      last++;
    h->part_offset = w.border[first];
    h->part_length = w.border[last + 1] - w.border[first];
    if (any || is_free (h, h->part_offset, w.border[last + 1]))
      return;
  }
}

bool
host_owns (const struct host_role *h, uint64_t offset, uint64_t length)
{
  return h->writable && (h->part_length == 0 ||
                         (offset >= h->part_offset &&
                          offset + length <= h->part_offset + h->part_length));
}

/* Does each piece have its host, or each host its piece? */
bool
parts_settled (void)
{
  bool all = true;
  uint64_t bytes = 0;

  for (unsigned i = 0; i < w.config.hosts; i++) {
    const struct host_role *h = &w.host[i];

    if (!h->writable)
      continue;
    all &= h->stage == HOST_SERVING;
    bytes += h->stage == HOST_SERVING ? h->part_length : 0;
  }
  return all || (!w.config.leases && bytes == w.layout.size);
}
