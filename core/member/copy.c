/* copy.c: one extent of a joining member is copied from the other members.
 *
 * The extent is cut into parts, in the order of our disk: first by the layout,
 * then by what the sources say are holes, and, where a source can't read, into
 * single blocks.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copy.h"

#define READ_BYTES_MAX MiB (1)
#define BLOCK_BYTES BAD_BLOCK_BYTES /* the least that is given up */

enum stage {
  PLANNED,
  MAPPED,  /* the sources say where holes are */
  READ,    /* and have sent what they could */
  CHECKED, /* and say whether they are still there */
  WRITING,
};

enum part_kind {
  PART_READ,
  PART_HAVE, /* has been read */
  PART_ZERO,
  PART_TRIM,
  PART_PASS, /* no source can read it */
};

struct copy_part {
  enum part_kind kind;
  unsigned copy;  /* the layout's number of the copy that is read */
  unsigned tried; /* the sources that failed, a bit each */
  struct copy_request
    read; /* its local and length are the part's, of any kind */
};

void
copy_blame (struct copy_fault *fault, unsigned member, const char *fs, ...)
{
  va_list args;

  fault->member = member;
  va_start (args, fs);
  vsnprintf (fault->why, sizeof fault->why, fs, args);
  va_end (args);
}

bool
copy_map_add (struct copy_map *map, uint64_t end, bool hole, bool zero)
{
  if (map->count == map->room) {
    size_t room = map->room ? 2 * map->room : 64;
    struct copy_span *span = realloc (map->span, room * sizeof *span);

    if (span == NULL)
      return false;
    map->span = span;
    map->room = room;
  }
  map->span[map->count++] = (struct copy_span) { end, hole, zero };
  return true;
}

bool
copy_refused (const struct copy_request *r)
{
  return r->error != 0 && r->error != EIO && r->kind != COPY_STATUS;
}

void
copy_free (struct copying *c)
{
  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++)
    free (c->map[m].span);
  free (c->plan.part);
  free (c->next.part);
  *c = (struct copying) { .stage = PLANNED };
}

void
copy_stop (struct copying *c, enum copy_result result)
{
  c->result = result;
}

/* ---- The plan ---- */

/* Append to the new plan. */
static void
push (struct copying *c, const struct copy_part *p)
{
  struct copy_plan *next = &c->next;

  if (next->count == next->room) {
    size_t room = next->room ? 2 * next->room : 64;
    struct copy_part *v = realloc (next->part, room * sizeof *v);

    if (v == NULL) {
      copy_blame (&c->fault, c->member, "out of memory");
      copy_stop (c, COPY_FAULT);
      return;
    }
    next->part = v;
    next->room = room;
  }
  next->part[next->count++] = *p;
}

/* The new plan is the plan. */
static void
take_over (struct copying *c)
{
  struct copy_plan old = c->plan;

  c->plan = c->next;
  c->next = old;
  c->next.count = 0;
}

/* The source must be connected before any request. */
static void
use (struct copying *c, unsigned member)
{
  c->used[member] = true;
  if (!c->linked[member] && c->result == COPY_DONE) {
    c->fault.member = member;
    copy_stop (c, COPY_CONNECT);
  }
}

/* Where to read the part from, as far as its unit goes (its length). Returns 1;
 * 0: the bytes are unused; -1 with the fault: every source with a copy was
 * tried.
 */
static int
choose (struct copying *c, struct copy_part *p)
{
  struct layout_piece piece;
  unsigned missing = c->member;
  uint64_t offset;

  if (layout_unmap (&c->layout, c->member, p->read.local, &offset,
                    &p->read.length) == -1)
    return 0;
  layout_map (&c->layout, offset, p->read.length, &piece);
  for (unsigned i = 0; i < piece.copies; i++) {
    unsigned m = piece.copy[i].member;

    if (m == c->member)
      continue;
    if (c->source[m] && !(p->tried >> i & 1)) {
      p->copy = i;
      p->read.member = m;
      p->read.offset = piece.copy[i].offset;
      return 1;
    }
    missing = m;
  }
  copy_blame (&c->fault, missing,
              missing == c->member
                ? "there is no copy of what it had in this layout"
                : "it is not in-sync, and has what is needed");
  return -1;
}

static bool
follows (const struct copy_part *p, const struct copy_part *next)
{
  return p->read.member == next->read.member &&
         p->read.local + p->read.length == next->read.local &&
         p->read.offset + p->read.length == next->read.offset &&
         p->read.length + next->read.length <= READ_BYTES_MAX;
}

void
copy_begin (struct copying *c, const struct layout *layout, unsigned member,
            const bool source[], const bool linked[], uint64_t extent)
{
  uint64_t end = (extent + 1) * EXTENT_BYTES, at = extent * EXTENT_BYTES;

  c->result = COPY_DONE;
  c->extent = extent;
  c->start = at;
  memset (c->used, 0, sizeof c->used);
  memset (c->passed, 0, sizeof c->passed);
  memset (c->suspect, 0, sizeof c->suspect);
  c->bytes = 0;
  c->stage = PLANNED;
  c->layout = *layout;
  c->member = member;
  memcpy (c->source, source, sizeof c->source);
  memcpy (c->linked, linked, sizeof c->linked);
  c->next.count = 0;
  c->written = 0;
  if (end > layout->member_bytes)
    end = layout->member_bytes;
  while (at < end && c->result != COPY_FAULT) {
    struct copy_part p = { .kind = PART_READ, .read.local = at };
    size_t n = c->next.count;
    struct copy_part *last = n ? &c->next.part[n - 1] : NULL;
    int r = choose (c, &p);

    if (p.read.length > end - at)
      p.read.length = end - at;
    at += p.read.length;
    if (r == -1)
      copy_stop (c, COPY_FAULT);
    if (r != 1)
      continue;
    use (c, p.read.member);
    if (last && follows (last, &p))
      last->read.length += p.read.length;
    else
      push (c, &p);
  }
  take_over (c);
}

/* ---- Holes ---- */

/* Ask each source about the holes in what it is to give. */
static struct copy_request *
ask_holes (struct copying *c)
{
  struct copy_request *list = NULL;

  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++) {
    uint64_t from = UINT64_MAX, to = 0;

    if (!c->used[m])
      continue;
    for (size_t i = 0; i < c->plan.count; i++) {
      const struct copy_request *r = &c->plan.part[i].read;

      if (r->member != m)
        continue;
      if (r->offset < from)
        from = r->offset;
      if (r->offset + r->length > to)
        to = r->offset + r->length;
    }
    /* A layout may scatter them; then holes are not worth the question. */
    if (to - from > 4 * EXTENT_BYTES)
      to = from + 4 * EXTENT_BYTES;
    c->map[m].count = 0;
    c->ask[m] = (struct copy_request) { .next = list,
                                        .kind = COPY_STATUS,
                                        .member = m,
                                        .offset = from,
                                        .length = to - from,
                                        .map = &c->map[m] };
    list = &c->ask[m];
  }
  return list;
}

static const struct copy_span *
span_at (const struct copy_map *map, uint64_t offset)
{
  size_t low = 0, high = map->count;

  while (low < high) {
    size_t middle = low + (high - low) / 2;

    if (map->span[middle].end <= offset)
      low = middle + 1;
    else
      high = middle;
  }
  return low < map->count ? &map->span[low] : NULL;
}

/* Cut the first bytes off a part. */
static void
cut_first (struct copy_part *p, uint32_t bytes)
{
  p->read.local += bytes;
  p->read.offset += bytes;
}

/* Cut the plan where the sources' holes begin and end. */
static void
cut_at_holes (struct copying *c)
{
  for (size_t i = 0; i < c->plan.count; i++) {
    struct copy_part p = c->plan.part[i];
    uint64_t end = p.read.offset + p.read.length;

    while (p.read.offset < end && c->result == COPY_DONE) {
      const struct copy_span *s = span_at (&c->map[p.read.member],
                                           p.read.offset);

      p.read.length = end - p.read.offset;
      if (s && s->end < end)
        p.read.length = s->end - p.read.offset;
      p.kind = s && s->zero ? (s->hole ? PART_TRIM : PART_ZERO) : PART_READ;
      push (c, &p);
      cut_first (&p, p.read.length);
    }
  }
  take_over (c);
}

/* ---- Reading ---- */

static struct copy_request *
ask_parts (struct copying *c)
{
  struct copy_request *list = NULL, **end = &list;

  for (size_t i = 0; i < c->plan.count; i++)
    if (c->plan.part[i].kind == PART_READ) {
      c->plan.part[i].read.kind = COPY_READ;
      c->plan.part[i].read.error = 0;
      *end = &c->plan.part[i].read;
      end = &c->plan.part[i].read.next;
    }
  *end = NULL;
  return list;
}

/* A block that could not be read: from another source, if there is one. */
static void
next_source (struct copying *c, struct copy_part *p)
{
  uint32_t length = p->read.length;
  int r;

  p->tried |= 1u << p->copy;
  r = choose (c, p);
  p->read.length = length;
  if (r == 1)
    use (c, p->read.member);
  else
    p->kind = PART_PASS;
}

/* Take what was read, and make a new plan for what could not be: in blocks, which
 * are tried at each source.  Returns whether there is something to read in it.
 */
static bool
take_parts (struct copying *c)
{
  bool again = false;

  for (size_t i = 0; i < c->plan.count && c->result == COPY_DONE; i++) {
    struct copy_part p = c->plan.part[i];
    uint64_t end = p.read.offset + p.read.length;

    if (p.kind == PART_READ && p.read.error == 0) {
      p.kind = PART_HAVE;
      c->bytes += p.read.length;
    }
    if (p.kind != PART_READ) {
      push (c, &p);
      continue;
    }
    c->suspect[p.read.member] = true;
    if (p.read.length <= BLOCK_BYTES) {
      next_source (c, &p);
      again |= p.kind == PART_READ;
      push (c, &p);
      continue;
    }
    again = true;
    while (p.read.offset < end && c->result == COPY_DONE) {
      p.read.length = BLOCK_BYTES - p.read.offset % BLOCK_BYTES;
      if (p.read.length > end - p.read.offset)
        p.read.length = end - p.read.offset;
      push (c, &p);
      cut_first (&p, p.read.length);
    }
  }
  take_over (c);
  return again;
}

/* A source that has failed as a whole answers EIO to everything.  A source that
 * still flushes has not, and its EIO was about a place on its disk.
 */
static struct copy_request *
ask_suspects (struct copying *c)
{
  struct copy_request *list = NULL;

  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++)
    if (c->suspect[m]) {
      c->ask[m] = (struct copy_request) { .next = list,
                                          .kind = COPY_FLUSH,
                                          .member = m };
      list = &c->ask[m];
    }
  return list;
}

static void
clear_suspects (struct copying *c)
{
  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++)
    if (c->suspect[m] && c->ask[m].error) {
      copy_blame (&c->fault, m, "it has failed");
      copy_stop (c, COPY_FAULT);
    }
}

struct copy_request *
copy_ask (struct copying *c)
{
  struct copy_request *list = NULL;

  while (list == NULL && c->result == COPY_DONE && c->stage != WRITING)
    switch ((enum stage) c->stage) {
    case PLANNED:
      list = ask_holes (c);
      c->stage = MAPPED;
      break;
    case MAPPED:
      cut_at_holes (c);
      list = ask_parts (c);
      c->stage = READ;
      break;
    case READ:
      if (take_parts (c))
        list = ask_parts (c);
      else {
        list = ask_suspects (c);
        c->stage = CHECKED;
      }
      break;
    case CHECKED:
      clear_suspects (c);
      c->stage = WRITING;
      break;
    case WRITING:
      abort ();
    }
  return c->result == COPY_DONE ? list : NULL;
}

/* ---- Writing ---- */

/* Neighbours of one kind are written as one. */
bool
copy_write (struct copying *c, struct copy_change *change)
{
  const struct copy_part *p = &c->plan.part[c->written], *q = p;
  uint64_t end;

  if (c->result != COPY_DONE || c->written == c->plan.count)
    return false;
  assert (c->stage == WRITING);
  end = p->read.local + p->read.length;
  while (++q < c->plan.part + c->plan.count && q->kind == p->kind &&
         q->read.local == end && (p->kind != PART_PASS || follows (q - 1, q)))
    end += q->read.length;
  c->written = q - c->plan.part;
  *change = (struct copy_change) {
    .kind = p->kind == PART_HAVE   ? BATCH_WRITE
            : p->kind == PART_TRIM ? BATCH_TRIM
                                   : BATCH_ZERO,
    .local = p->read.local,
    .length = end - p->read.local,
    .passed = p->kind == PART_PASS,
    .member = p->read.member,
    .offset = p->read.offset,
  };
  if (change->passed)
    for (uint64_t b = (p->read.local - c->start) / BLOCK_BYTES;
         b <= (end - 1 - c->start) / BLOCK_BYTES; b++)
      c->passed[b / 64] |= UINT64_C (1) << b % 64;
  return true;
}
