/* resync.c: the resync.
 *
 * The to-do list is the members' own: a bit of an intent map stands for 4 MiB
 * of one member, data and images alike.  Each stripe unit in there is read and
 * written again through the array engine, which brings its images up to date:
 * no second way to write exists.  A unit that is on the list by several of its
 * copies is done once.  A member that is out or joining is not asked: it has a
 * list of its own, and catches up by itself.
 *
 *   maps -> copy -> FLUSH -> report bad blocks -> the bits may be cleared
 *            ^________| (copied data may be lost: 5 times)
 *
 * The resync of a part, and of orphans, runs while others write elsewhere, so all
 * bits stay set.
 * Orphans may begin and end anywhere, so a unit's range to copy is cut into
 * pieces that can be halved.  If no copy of a piece can be read, and the piece
 * is less than a block, it is not reported, because the rest of the block is
 * another session's; the bit stays set, so it is looked at again.
 *
 * The array engine clears the bits in its own time: when their extents are idle
 * and flushed, and all members in-sync.  If the process dies before that, the
 * bits are still set, and the next attach does it all again.
 *
 * The newest copy of each unit is read.  If neither it nor a copy as new can be
 * read, the range is halved, down to a block, so that one bad spot does not
 * make the whole unit be read from an older copy.  A single block is read from
 * an older copy: a copy that is a round behind has all flushed writes, unless
 * its disk is an old copy of the disk (B4 in docs/PROTOCOL.md, "Blocks that no
 * copy can be read of"). Acknowledged, unflushed writes to the block may be
 * lost by that.  weftd records this before the older copy is written over the
 * newer one, because this process may die then, and nobody would see that
 * anything is missing.
 *
 * A block without a readable copy is bad from then on.  Each in-sync member
 * that has one gets a report, and has it in its list durably, before clients
 * are admitted and the bits may be cleared: else copies that can be read again
 * later might be read by turns, and one of them be an old one.  A member that
 * joins later gets the list from these.  If only one copy is in-sync, no member
 * gets a report: there is no other copy to read by turns.  The doors for these
 * reports are opened before the block is read for the last time: a member that
 * has failed as a whole by then accepts no message by these doors either, and
 * so its blocks are not counted as bad ones.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/spans.h"
#include "format/bad.h"
#include "resync.h"

#define LOAD_TRIES 10 /* again, after the first */
#define COPY_TRIES 5  /* while FLUSH fails */

enum phase {
  LOADING,
  LOSING,
  PAUSING,
  COPYING,
  ADMITTING,
  WRITING,
  OPENING,
  TELLING,
  HANDING_OVER,
  LOWERING, /* at the end */
  OVER,
};

/* A member's answer. */
struct map {
  uint8_t *bits; /* NULL: it was not asked */
  size_t bytes;
  uint64_t data_bytes, reach;
};

struct resync {
  struct layout layout;
  struct spans ranges; /* of an owner of no meaning; none: the whole array */
  enum resync_mode mode;
  enum phase phase;
  enum resync_kind asked; /* the last action */
  unsigned tries;         /* loads that came to nothing */
  unsigned copied;        /* FLUSHes that failed */
  struct map map[ARRAY_MEMBERS_MAX];
  uint64_t extents, begun; /* see resync_extents */

  /* Whose turn it is, and from where on. */
  unsigned member;
  uint64_t at;   /* in its data; TELLING: in `bad` */
  unsigned door; /* OPENING: whose */
  bool open;     /* LOWERING: its door */
  bool handed;   /* HANDING_OVER: it has begun */

  /* The unit that is copied, or a piece of it that lies in the ranges, ... */
  struct layout_piece unit; /* of length 0: none */
  uint64_t rest, rest_end;  /* the rest of the unit behind it */
  uint32_t unit_at, length; /* ... the piece of it ... */
  unsigned copy, tried; /* ... and copies that it can't be read from, as bits */

  bool doors; /* they are open, or can't be; whose are: */
  bool opened[ARRAY_MEMBERS_MAX];
  bool stays;  /* not all can be reported: bits stay set where a block is bad */
  bool untold; /* a bad block that is not reported */
  bool older; /* weftd knows that one is taken where the newest can't be read */
  struct resync_place *bad;
  size_t bad_count;

  struct batch_record records[BATCH_RECORDS_MAX];
  int error;
  bool settled;
};

struct resync *
resync_new (const struct layout *l, const struct array_range *ranges,
            unsigned count, enum resync_mode mode)
{
  struct resync *r = calloc (1, sizeof *r);

  assert (EXTENT_BYTES % l->unit == 0 && l->unit % BAD_BLOCK_BYTES == 0);
  if (r) {
    r->layout = *l;
    r->mode = mode;
    for (unsigned i = 0; i < count; i++)
      spans_set (&r->ranges, ranges[i].offset,
                 ranges[i].offset + ranges[i].length, 1);
  }
  return r;
}

static void
forget_maps (struct resync *r)
{
  for (unsigned m = 0; m < r->layout.members; m++) {
    free (r->map[m].bits);
    r->map[m] = (struct map) { 0 };
  }
  r->extents = 0;
}

void
resync_free (struct resync *r)
{
  if (r == NULL)
    return;
  forget_maps (r);
  spans_free (&r->ranges);
  free (r->bad);
  free (r);
}

uint64_t
resync_extents (const struct resync *r, uint64_t *begun)
{
  *begun = r->begun;
  return r->extents;
}

const struct resync_place *
resync_bad (const struct resync *r, size_t *count)
{
  *count = r->bad_count;
  return r->bad;
}

static void
turn_to (struct resync *r, enum phase phase)
{
  r->phase = phase;
  r->member = 0;
  r->at = 0;
}

static void
end (struct resync *r, int error, bool settled)
{
  r->phase = OVER;
  r->error = error;
  r->settled = settled;
}

/* ---- The maps ---- */

void
resync_map (struct resync *r, uint64_t reach, uint64_t data_bytes,
            uint8_t *bits, size_t bytes)
{
  struct map *map = &r->map[r->member];

  assert (r->asked == RESYNC_MAP && map->bits == NULL);
  /* weftd's rounds are as old as the epoch; but this host works with all these
   * members, and none of their disks is an old copy.
   */
  if (r->mode == RESYNC_OF_ORPHANS)
    reach = UINT64_MAX;
  *map = (struct map) {
    .bits = bits, .bytes = bytes, .data_bytes = data_bytes, .reach = reach
  };
  for (size_t i = 0; i < bytes; i++)
    r->extents += __builtin_popcount (bits[i]);
}

static bool
map_has (const struct map *map, uint64_t offset)
{
  uint64_t x = offset / EXTENT_BYTES;

  return map->bits && x / 8 < map->bytes && map->bits[x / 8] >> (x % 8) & 1;
}

/* The next extent with a bit, at `at` or behind; or behind all of them. */
static uint64_t
map_next (const struct map *map, uint64_t at)
{
  uint64_t x = at / EXTENT_BYTES, extents = map->bytes * 8;

  while (x < extents && !map_has (map, x * EXTENT_BYTES))
    x += x % 8 == 0 && map->bits[x / 8] == 0 ? 8 : 1;
  return x * EXTENT_BYTES;
}

static bool
ends (const struct resync *r)
{
  return r->mode == RESYNC_AT_END || r->mode == RESYNC_AT_LEASES_END;
}

/* The next run of extents with bits at `*at` or behind, which becomes its end.  Returns its
 * bytes, or 0.
 */
static uint64_t
map_run (const struct resync *r, unsigned member, uint64_t *at, uint64_t *start)
{
  const struct map *map = &r->map[member];
  uint64_t end = *start = map_next (map, *at);

  while (map_has (map, end))
    end += EXTENT_BYTES;
  *at = end;
  if (end > map->data_bytes)
    end = map->data_bytes; /* the last extent may be shorter */
  return end > *start ? end - *start : 0;
}

static bool
load (struct resync *r, const enum member_state states[],
      struct resync_action *a)
{
  while (r->member < r->layout.members && states[r->member] != MEMBER_IN_SYNC)
    r->member++;
  if (r->member < r->layout.members) {
    a->kind = RESYNC_MAP;
    a->member = r->member;
    return true;
  }
  if (ends (r))
    turn_to (r, LOWERING);
  else if (r->extents > 0 && r->layout.copies > 1)
    turn_to (r, COPYING);
  else
    turn_to (r, HANDING_OVER);
  return false;
}

/* ---- Copying ---- */

/* The first copy of a unit that has a bit. */
static unsigned
first_dirty (const struct resync *r, const struct layout_piece *unit)
{
  unsigned c = 0;

  while (c < unit->copies &&
         !map_has (&r->map[unit->copy[c].member], unit->copy[c].offset))
    c++;
  return c;
}

/* The next piece of the unit that lies in the ranges: as large as can be halved down to
 * what leases are multiples of.  False: there is none.
 */
static bool
next_piece (struct resync *r)
{
  uint64_t end = r->rest_end, length = r->layout.unit;

  if (r->ranges.count > 0) {
    unsigned i = spans_find (&r->ranges, r->rest);
    const struct span *s = &r->ranges.span[i];

    if (i == r->ranges.count || s->start >= end)
      return false;
    if (r->rest < s->start)
      r->rest = s->start;
    if (end > s->end)
      end = s->end;
  }
  if (r->rest >= end)
    return false;
  while (r->rest % length > 0 || length > end - r->rest)
    length /= 2;
  layout_map (&r->layout, r->rest, length, &r->unit);
  r->rest += length;
  return true;
}

/* The next unit, or piece of it, to copy: with a copy in a dirty extent.
 * False: there is none.
 */
static bool
next_unit (struct resync *r)
{
  const struct layout *l = &r->layout;

  if (next_piece (r))
    return true;
  for (; r->member < l->members; r->member++, r->at = 0)
    while (r->at < l->member_bytes) {
      uint64_t offset;
      uint32_t length;
      int c;

      if (r->at % EXTENT_BYTES == 0) {
        r->at = map_next (&r->map[r->member], r->at);
        if (r->at >= l->member_bytes)
          break;
        r->begun++;
      }
      c = layout_unmap (l, r->member, r->at, &offset, &length);
      r->at += length;
      if (c < 0)
        continue;
      layout_map (l, offset, length, &r->unit);
      if (first_dirty (r, &r->unit) != (unsigned) c)
        continue;
      r->rest = offset;
      r->rest_end = offset + length;
      if (next_piece (r))
        return true;
    }
  r->unit.length = 0;
  return false;
}

/* Is a copy newer than another, as far as is known?  The copy of the member
 * with the higher round is; then the copy with the bit, because writes since a
 * member's disk was copied away have bits at its peers.  A member that was not
 * asked has joined since.
 */
static bool
newer (const struct resync *r, unsigned copy, unsigned than)
{
  const struct layout_copy *x = &r->unit.copy[copy], *y = &r->unit.copy[than];
  const struct map *mx = &r->map[x->member], *my = &r->map[y->member];

  if (!mx->bits != !my->bits)
    return mx->bits != NULL;
  if (mx->reach != my->reach)
    return mx->reach > my->reach;
  return map_has (mx, x->offset) && !map_has (my, y->offset);
}

/* The newest of the copies that are in-sync, but for these; among equals the
 * data.  -1: there is none.
 */
static int
newest (const struct resync *r, const enum member_state states[],
        unsigned without)
{
  int best = -1;

  for (unsigned c = 0; c < r->unit.copies; c++)
    if (states[r->unit.copy[c].member] == MEMBER_IN_SYNC &&
        !(without & 1u << c) && (best < 0 || newer (r, c, (unsigned) best)))
      best = (int) c;
  return best;
}

/* Behind the piece of the unit that is done lies the other half of what was
 * halved last, or of that before.
 */
static void
piece_done (struct resync *r)
{
  r->unit_at += r->length;
  r->length = r->unit_at & -r->unit_at;
  r->tried = 0;
  if (r->unit_at == r->unit.length)
    r->unit.length = 0;
}

static void
note_bad (struct resync *r)
{
  struct resync_place *p = realloc (r->bad, (r->bad_count + 1) * sizeof *p);

  if (p == NULL) {
    end (r, ENOMEM, false);
    return;
  }
  r->bad = p;
  p[r->bad_count++] = (struct resync_place) { r->unit.offset + r->unit_at,
                                              r->length };
  piece_done (r);
}

static bool
copy (struct resync *r, const enum member_state states[],
      struct resync_action *a)
{
  int c;

  if (r->unit.length == 0) {
    if (!next_unit (r)) {
      a->kind = RESYNC_FLUSH;
      return true;
    }
    r->unit_at = r->tried = 0;
    r->length = r->unit.length;
  }
  c = newest (r, states, r->tried);
  if (r->tried && r->length > BAD_BLOCK_BYTES &&
      (c < 0 || newer (r, newest (r, states, 0), c))) {
    r->length /= 2;
    r->tried = 0;
    return false;
  }
  if (c >= 0) {
    r->copy = (unsigned) c;
    a->kind = RESYNC_READ;
    a->copy = r->copy;
    a->offset = r->unit.offset + r->unit_at;
    a->length = r->length;
    return true;
  }
  if (r->doors)
    note_bad (r);
  else {
    r->doors = true;
    r->door = 0;
    r->tried = 0;
    r->phase = OPENING;
  }
  return false;
}

/* ---- What is bad ---- */

/* The copies that get a report, as bits.  A copy that has become in-sync since
 * the doors were opened has the block from a copy with a report, or has it in
 * its list.
 */
static unsigned
who_is_told (const struct resync *r, const enum member_state states[],
             const struct layout_piece *p)
{
  unsigned told = 0;

  for (unsigned c = 0; c < p->copies; c++)
    if (states[p->copy[c].member] == MEMBER_IN_SYNC &&
        r->opened[p->copy[c].member])
      told |= 1u << c;
  return p->length < BAD_BLOCK_BYTES || !(told & (told - 1)) ? 0 : told;
}

/* Tell all members that have them, or none. */
static bool
tell (struct resync *r, const enum member_state states[],
      struct resync_action *a)
{
  if (r->stays) {
    end (r, 0, false);
    return false;
  }
  while (r->member < r->layout.members && a->count == 0) {
    for (; r->at < r->bad_count && a->count < BATCH_RECORDS_MAX; r->at++) {
      const struct resync_place *bad = &r->bad[r->at];
      struct layout_piece p;
      unsigned told;

      layout_map (&r->layout, bad->offset, bad->length, &p);
      told = who_is_told (r, states, &p);
      r->untold |= told == 0;
      for (unsigned c = 0; c < p.copies; c++)
        if (told & 1u << c && p.copy[c].member == r->member)
          r->records[a->count++] = (struct batch_record) {
            .kind = BATCH_BAD, .offset = p.copy[c].offset, .length = p.length
          };
    }
    a->member = r->member;
    if (r->at == r->bad_count) {
      r->member++;
      r->at = 0;
    }
  }
  if (a->count == 0) {
    if (r->untold)
      end (r, 0, false);
    else
      turn_to (r, HANDING_OVER);
    return false;
  }
  a->kind = RESYNC_SEND;
  a->records = r->records;
  return true;
}

/* ---- The bits fall ---- */

static bool
hand_over (struct resync *r, struct resync_action *a)
{
  if (r->mode == RESYNC_OF_ORPHANS) {
    end (r, 0, true);
    return false;
  }
  a->kind = RESYNC_SETTLED;
  if (!r->handed) {
    r->handed = true;
    return true;
  }
  for (; r->ranges.count == 0 && r->member < r->layout.members;
       r->member++, r->at = 0) {
    a->member = r->member;
    a->length = map_run (r, r->member, &r->at, &a->offset);
    if (a->length > 0)
      return true;
  }
  end (r, 0, true);
  return false;
}

/* At the end: one member after the other.  Where others may write, only our own claim is
 * given up.
 */
static bool
lower (struct resync *r, struct resync_action *a)
{
  uint64_t start, length;

  a->member = r->member;
  a->records = r->records;
  if (!r->open && r->member < r->layout.members) {
    r->open = map_run (r, r->member, &(uint64_t) { 0 }, &start) > 0;
    r->member += !r->open;
    a->kind = RESYNC_OPEN;
    return r->open;
  }
  while (r->open && a->count < BATCH_RECORDS_MAX &&
         (length = map_run (r, r->member, &r->at, &start)) > 0)
    r->records[a->count++] = (struct batch_record) {
      .kind = r->mode == RESYNC_AT_END ? BATCH_SETTLE : BATCH_CLEAR,
      .offset = start,
      .length = length,
    };
  if (a->count > 0)
    a->kind = RESYNC_SEND;
  else if (r->open) {
    a->kind = RESYNC_CLOSE;
    r->open = false;
    r->member++;
    r->at = 0;
  }
  else {
    end (r, 0, true);
    return false;
  }
  return true;
}

/* ---- Step by step ---- */

/* True: *a is the next action; false: another phase begins. */
static bool
step (struct resync *r, const enum member_state states[],
      struct resync_action *a)
{
  switch (r->phase) {
  case LOADING:
    return load (r, states, a);
  case LOSING:
    a->kind = RESYNC_LOST;
    a->member = r->member;
    return true;
  case PAUSING:
    a->kind = RESYNC_PAUSE;
    return true;
  case COPYING:
    return copy (r, states, a);
  case ADMITTING:
    a->kind = RESYNC_OLDER;
    return true;
  case WRITING:
    a->kind = RESYNC_WRITE;
    a->offset = r->unit.offset + r->unit_at;
    a->length = r->length;
    return true;
  case OPENING:
    while (r->door < r->layout.members && states[r->door] != MEMBER_IN_SYNC)
      r->door++;
    if (r->stays || r->door == r->layout.members) {
      r->phase = COPYING;
      return false;
    }
    a->kind = RESYNC_OPEN;
    a->member = r->door;
    return true;
  case TELLING:
    return tell (r, states, a);
  case HANDING_OVER:
    return hand_over (r, a);
  case LOWERING:
    return lower (r, a);
  case OVER:
    a->kind = RESYNC_OVER;
    a->error = r->error;
    a->settled = r->settled;
    return true;
  }
  abort ();
}

void
resync_next (struct resync *r, const enum member_state states[],
             struct resync_action *a)
{
  do
    *a = (struct resync_action) { 0 };
  while (!step (r, states, a));
  r->asked = a->kind;
}

void
resync_done (struct resync *r, int error)
{
  switch (r->asked) {
  case RESYNC_MAP:
    assert (error || r->map[r->member].bits);
    r->error = error;
    if (error == 0)
      r->member++;
    else if (ends (r))
      end (r, error, false);
    else
      r->phase = LOSING;
    break;
  case RESYNC_LOST:
    forget_maps (r);
    if (++r->tries > LOAD_TRIES)
      end (r, r->error, false);
    else
      r->phase = PAUSING;
    break;
  case RESYNC_PAUSE:
    if (error)
      end (r, error, false);
    else
      turn_to (r, LOADING);
    break;
  case RESYNC_READ:
    if (error == 0)
      r->phase = r->tried && !r->older ? ADMITTING : WRITING;
    else if (error != EIO)
      end (r, error, false);
    else
      r->tried |= 1u << r->copy;
    break;
  case RESYNC_OLDER:
    if (error)
      end (r, error, false);
    else {
      r->older = true;
      r->phase = WRITING;
    }
    break;
  case RESYNC_WRITE:
    if (error)
      end (r, error, false);
    else {
      piece_done (r);
      r->phase = COPYING;
    }
    break;
  case RESYNC_FLUSH:
    /* A member may lose its power with what was copied and not flushed: then the
     * FLUSH fails, and all is copied again.
     */
    if (error == EIO && ++r->copied < COPY_TRIES) {
      r->begun = r->bad_count = 0;
      turn_to (r, COPYING);
    }
    else if (error)
      end (r, error, false);
    else
      turn_to (r, r->bad_count > 0 ? TELLING : HANDING_OVER);
    break;
  case RESYNC_OPEN:
  case RESYNC_SEND:
    if (error && ends (r))
      end (r, error, false);
    r->stays |= error != 0;
    if (r->phase == OPENING)
      r->opened[r->door++] = true;
    break;
  case RESYNC_CLOSE:
  case RESYNC_SETTLED:
    break;
  case RESYNC_OVER:
    abort ();
  }
}
