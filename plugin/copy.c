/* copy.c: copies one extent of a joining member from the other members.
 *
 * The extent is cut into parts, in the order of our disk: first by the layout,
 * then by what the sources say are holes, and, where a source can't read, into
 * single blocks.  A block that no source can read is passed: whoever asked for the
 * copy notes it as bad.
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "copy.h"
#include "data.h"

#define READ_BYTES_MAX MiB (1)
#define BLOCK_BYTES BAD_BLOCK_BYTES /* the least that is given up */
/* A write to the extent that waits for a silent source is held up meanwhile: so
 * it is well below the time after which a host gives us up.
 */
#define SILENT_MS 5000

enum part_kind {
  PART_READ,
  PART_HAVE, /* has been read */
  PART_ZERO,
  PART_TRIM,
  PART_PASS, /* no source can read it */
};

struct copy_part {
  enum part_kind kind;
  uint64_t local;  /* in our data area */
  unsigned copy;   /* the layout's number of the copy that is read */
  unsigned tried;  /* those that could not be, a bit each */
  struct fetch_command read; /* its length is the part's, of whatever kind */
};

int
copy_init (struct copy *c)
{
  c->fetch.door = "data";
  c->fetch.silent_ms = SILENT_MS;
  c->buf = malloc (EXTENT_BYTES);
  return c->buf ? 0 : ENOMEM;
}

void
copy_end (struct copy *c)
{
  fetch_close_all (&c->fetch);
  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++)
    free (c->map[m].span);
  free (c->part);
  free (c->other);
  free (c->buf);
}

/* ---- The plan ---- */

/* Append to the new plan. */
static int
push (struct copy *c, const struct copy_part *p)
{
  if (c->others == c->others_room) {
    size_t room = c->others_room ? 2 * c->others_room : 64;
    struct copy_part *v = realloc (c->other, room * sizeof *v);

    if (v == NULL)
      return -1;
    c->other = v;
    c->others_room = room;
  }
  c->other[c->others++] = *p;
  return 0;
}

/* The new plan is the plan. */
static void
take_over (struct copy *c)
{
  struct copy_part *v = c->part;
  size_t room = c->parts_room;

  c->part = c->other;
  c->parts = c->others;
  c->parts_room = c->others_room;
  c->other = v;
  c->others = 0;
  c->others_room = room;
}

/* Where p->local is to be read from, as far as its unit goes (p->read.length).
 * Returns 1; 0: nothing is kept there; -1 with the fault: no source has it that
 * was not tried.
 */
static int
choose (struct copy *c, const struct pull_order *o, struct copy_part *p)
{
  struct layout_piece piece;
  unsigned missing = o->member;
  uint64_t offset;

  if (layout_unmap (&o->layout, o->member, p->local, &offset,
                    &p->read.length) == -1)
    return 0;
  layout_map (&o->layout, offset, p->read.length, &piece);
  for (unsigned i = 0; i < piece.copies; i++) {
    unsigned m = piece.copy[i].member;

    if (m == o->member)
      continue;
    if (o->source[m].uri && !(p->tried >> i & 1)) {
      p->copy = i;
      p->read.member = m;
      p->read.offset = piece.copy[i].offset;
      return 1;
    }
    missing = m;
  }
  fetch_blame (&c->fault, missing, missing == o->member ?
               "there is no copy of what it had in this layout" :
               "it is not in-sync, and has what is needed");
  return -1;
}

static bool
follows (const struct copy_part *p, const struct copy_part *next)
{
  return p->read.member == next->read.member &&
         p->local + p->read.length == next->local &&
         p->read.offset + p->read.length == next->read.offset &&
         p->read.length + next->read.length <= READ_BYTES_MAX;
}

static enum copy_result
out_of_memory (struct copy *c, const struct pull_order *o)
{
  fetch_blame (&c->fault, o->member, "out of memory");
  return COPY_FAULT;
}

static enum copy_result
plan (struct copy *c, const struct pull_order *o, uint64_t start, uint64_t end)
{
  uint64_t at = start;

  c->others = 0;
  while (at < end) {
    struct copy_part p = { .kind = PART_READ, .local = at };
    struct copy_part *last = c->others ? &c->other[c->others - 1] : NULL;
    int r = choose (c, o, &p);

    if (p.read.length > end - at)
      p.read.length = end - at;
    at += p.read.length;
    if (r == -1)
      return COPY_FAULT;
    if (r == 0)
      continue;
    c->used[p.read.member] = true;
    if (last && follows (last, &p))
      last->read.length += p.read.length;
    else if (push (c, &p) == -1)
      return out_of_memory (c, o);
  }
  take_over (c);
  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++)
    if (c->used[m] && c->fetch.link[m].nbd == NULL) {
      c->fault.member = m;
      return COPY_CONNECT;
    }
  return COPY_DONE;
}

/* ---- Requests ---- */

static enum copy_result
run (struct copy *c, struct fetch_command *list)
{
  int r = fetch_run (&c->fetch, list, c->cancelled, c->opaque, &c->fault);

  return r == 0 ? COPY_DONE : r == 1 ? COPY_CANCELLED : COPY_FAULT;
}

/* Ask each source about the holes in what it is to give. */
static enum copy_result
ask (struct copy *c)
{
  struct fetch_command ask[ARRAY_MEMBERS_MAX], *list = NULL;

  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++) {
    uint64_t from = UINT64_MAX, to = 0;

    if (!c->used[m])
      continue;
    for (size_t i = 0; i < c->parts; i++) {
      const struct fetch_command *r = &c->part[i].read;

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
    ask[m] = (struct fetch_command) {
      .next = list, .kind = FETCH_STATUS, .member = m, .offset = from,
      .length = to - from, .map = &c->map[m]
    };
    list = &ask[m];
  }
  return run (c, list);
}

static const struct fetch_span *
span_at (const struct fetch_map *map, uint64_t offset)
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

/* Cut the plan where the sources' holes begin and end. */
static int
cut_at_holes (struct copy *c)
{
  for (size_t i = 0; i < c->parts; i++) {
    struct copy_part p = c->part[i];
    uint64_t end = p.read.offset + p.read.length;

    while (p.read.offset < end) {
      const struct fetch_span *s = span_at (&c->map[p.read.member],
                                            p.read.offset);

      p.read.length = end - p.read.offset;
      if (s && s->end < end)
        p.read.length = s->end - p.read.offset;
      p.kind = s && s->zero ? (s->hole ? PART_TRIM : PART_ZERO) : PART_READ;
      if (push (c, &p) == -1)
        return -1;
      p.local += p.read.length;
      p.read.offset += p.read.length;
    }
  }
  take_over (c);
  return 0;
}

static enum copy_result
read_parts (struct copy *c, uint64_t start)
{
  struct fetch_command *list = NULL, **end = &list;
  enum copy_result r;

  for (size_t i = 0; i < c->parts; i++) {
    struct copy_part *p = &c->part[i];

    if (p->kind != PART_READ)
      continue;
    p->read.kind = FETCH_READ;
    p->read.buf = c->buf + (p->local - start);
    p->read.next = NULL;
    *end = &p->read;
    end = &p->read.next;
  }
  r = run (c, list);
  for (size_t i = 0; r == COPY_DONE && i < c->parts; i++)
    if (c->part[i].kind == PART_READ && c->part[i].read.error == 0) {
      c->part[i].kind = PART_HAVE;
      c->bytes += c->part[i].read.length;
    }
  return r;
}

/* ---- What can't be read ---- */

/* A block that could not be read: from another source, if there is one. */
static enum copy_result
next_source (struct copy *c, const struct pull_order *o, struct copy_part *p)
{
  uint32_t length = p->read.length;
  int r;

  p->tried |= 1u << p->copy;
  r = choose (c, o, p);
  p->read.length = length;
  if (r != 1) {
    p->kind = PART_PASS;
    return COPY_DONE;
  }
  c->used[p->read.member] = true;
  c->fault.member = p->read.member;
  return c->fetch.link[p->read.member].nbd ? COPY_DONE : COPY_CONNECT;
}

/* Cut a part that could not be read into blocks. */
static int
push_blocks (struct copy *c, struct copy_part p)
{
  uint64_t end = p.read.offset + p.read.length;

  while (p.read.offset < end) {
    p.read.length = BLOCK_BYTES - p.read.offset % BLOCK_BYTES;
    if (p.read.length > end - p.read.offset)
      p.read.length = end - p.read.offset;
    if (push (c, &p) == -1)
      return -1;
    p.local += p.read.length;
    p.read.offset += p.read.length;
  }
  return 0;
}

/* Make a new plan for what could not be read.  *again: there is something to
 * read in it.
 */
static enum copy_result
narrow (struct copy *c, const struct pull_order *o, bool suspect[],
        bool *again)
{
  *again = false;
  for (size_t i = 0; i < c->parts; i++) {
    struct copy_part p = c->part[i];
    enum copy_result r = COPY_DONE;
    bool whole = p.kind != PART_READ || p.read.length <= BLOCK_BYTES;

    if (p.kind == PART_READ) {
      suspect[p.read.member] = true;
      if (whole)
        r = next_source (c, o, &p);
      *again |= p.kind == PART_READ;
    }
    if (r != COPY_DONE)
      return r;
    if ((whole ? push (c, &p) : push_blocks (c, p)) == -1)
      return out_of_memory (c, o);
  }
  take_over (c);
  return COPY_DONE;
}

/* A member that has failed as a whole answers EIO to everything.  One that
 * still flushes has not, and its EIO was about a place on its disk.
 */
static enum copy_result
clear_suspects (struct copy *c, const bool suspect[])
{
  struct fetch_command flush[ARRAY_MEMBERS_MAX], *list = NULL;
  enum copy_result r;

  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++)
    if (suspect[m]) {
      flush[m] = (struct fetch_command) {
        .next = list, .kind = FETCH_FLUSH, .member = m
      };
      list = &flush[m];
    }
  r = run (c, list);
  for (; r == COPY_DONE && list; list = list->next)
    if (list->error) {
      fetch_blame (&c->fault, list->member, "it has failed");
      fetch_close (&c->fetch, list->member);
      r = COPY_FAULT;
    }
  return r;
}

static enum copy_result
read_all (struct copy *c, const struct pull_order *o, uint64_t start)
{
  bool suspect[ARRAY_MEMBERS_MAX] = { false }, again = true;
  enum copy_result r = COPY_DONE;

  while (r == COPY_DONE && again) {
    c->others = 0;
    r = read_parts (c, start);
    if (r == COPY_DONE)
      r = narrow (c, o, suspect, &again);
  }
  return r == COPY_DONE ? clear_suspects (c, suspect) : r;
}

/* ---- Our side ---- */

/* The part, and `length` bytes from its beginning on: its neighbours too. */
static enum copy_result
write_part (struct copy *c, const struct pull_order *o,
            const struct copy_part *p, uint32_t length, uint64_t start,
            int *error)
{
  struct batch_record record = {
    .kind = p->kind == PART_HAVE ? BATCH_WRITE
          : p->kind == PART_TRIM ? BATCH_TRIM : BATCH_ZERO,
    .offset = p->local, .length = length,
    .payload = c->buf + (p->local - start)
  };

  if (p->kind == PART_PASS) {
    uint64_t last = (p->local + length - 1 - start) / BLOCK_BYTES;

    for (uint64_t b = (p->local - start) / BLOCK_BYTES; b <= last; b++)
      c->passed[b / 64] |= UINT64_C (1) << b % 64;
    nbdkit_error ("%s: rebuild: %" PRIu32 " bytes at %" PRIu64 " of the data "
                  "area of member %u (%s) can't be read; what is at %" PRIu64
                  " here is not read before it is written again",
                  c->disk->path, length, p->read.offset, p->read.member,
                  o->source[p->read.member].uri, p->local);
    return COPY_DONE;
  }
  if (c->cancelled (c->opaque))
    return COPY_CANCELLED;
  *error = data_change (c->disk, &record, false);
  return *error ? COPY_BROKEN : COPY_DONE;
}

/* Neighbours of one kind are written as one. */
static enum copy_result
write_all (struct copy *c, const struct pull_order *o, uint64_t start,
           int *error)
{
  enum copy_result r = COPY_DONE;
  size_t i = 0, next;

  for (; r == COPY_DONE && i < c->parts; i = next) {
    const struct copy_part *p = &c->part[i];
    uint64_t end = p->local + p->read.length;

    for (next = i + 1; next < c->parts; next++) {
      const struct copy_part *q = &c->part[next];

      if (q->kind != p->kind || q->local != end ||
          (p->kind == PART_PASS && !follows (q - 1, q)))
        break;
      end += q->read.length;
    }
    r = write_part (c, o, p, end - p->local, start, error);
  }
  return r;
}

enum copy_result
copy_extent (struct copy *c, const struct pull_order *o, uint64_t extent,
             int *error)
{
  uint64_t start = extent * EXTENT_BYTES, end = start + EXTENT_BYTES;
  enum copy_result r;

  memset (c->used, 0, sizeof c->used);
  memset (c->passed, 0, sizeof c->passed);
  c->bytes = 0;
  if (end > o->layout.member_bytes)
    end = o->layout.member_bytes;
  r = plan (c, o, start, end);
  if (r == COPY_DONE)
    r = ask (c);
  if (r == COPY_DONE && cut_at_holes (c) == -1)
    r = out_of_memory (c, o);
  if (r == COPY_DONE)
    r = read_all (c, o, start);
  if (r == COPY_DONE)
    r = write_all (c, o, start, error);
  return r;
}
