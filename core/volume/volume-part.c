/* volume-part.c: the share of a request that lies in one segment of the volume.
 *
 * A read takes from the map what is there, and the rest is zeroes.  A write to blocks
 * that are there is the array's write with another offset.  A write to others has its
 * segment alone (volume-turn.c): whole blocks are written, of which the client's first
 * and last may be only a part; the rest of those is zeroes.  When all is written the
 * blocks are there.  Zeroes and trims take whole blocks out of the map, and what a zero
 * has besides is zeroed in the array.
 *
 * A trim may cover thousands of segments.  So a request has a few parts at a time, and makes
 * the next ones when these have ended.  In each segment parts are made in the order in which
 * their requests were submitted.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "volume-internal.h"

/* ---- The end of a part ---- */

static bool
all_made (const struct volume_request *r)
{
  return r->made == r->offset + r->length;
}

/* Parts up to this offset were made, or are not needed. */
static void
made_to (struct volume *v, struct volume_request *r, uint64_t offset)
{
  r->made = offset;
  if (all_made (r))
    TAILQ_REMOVE (&v->making, r, making);
}

/* Does the log have its blocks, now and when the present group is written? */
static bool
logged (const struct volume *v, const struct part *p)
{
  const struct place *place = &v->places[p->place];
  uint64_t blocks = turn_blocks (v, p);

  return !v->log.failed && place->named && (blocks & ~place->logged) == 0 &&
         (!place->in_group || (blocks & ~place->taken) == 0);
}

static void
request_end (struct volume *v, struct volume_request *r)
{
  bool stable = r->flags & ARRAY_FUA && !r->loose;

  if (r->error || r->op == ARRAY_READ || stable) {
    volume_request_done (v, r);
    return;
  }
  v->event++;
  r->client->wrote = v->event;
  if (r->losses != v->losses)
    volume_flush_owe (v, r->client);
  if (r->flags & ARRAY_FUA)
    volume_flush_add (v, r);
  else
    volume_request_done (v, r);
}

static void
bounces_give (struct volume *v, struct part *p)
{
  for (unsigned i = 0; i < 2; i++)
    if (p->bounce[i]) {
      v->bounce[v->bounces_free++] = p->bounce[i];
      p->bounce[i] = NULL;
      v->look = true;
    }
}

static void
part_end (struct volume *v, struct part *p, int error)
{
  struct volume_request *r = p->r;

  bounces_give (v, p);
  if (error && !r->error)
    r->error = error;
  if (p->turn == TURN_ALONE)
    r->loose = true;
  else if (p->turn == TURN_SHARED)
    r->loose |= !logged (v, p);
  if (p->turn != TURN_NONE)
    turn_end (v, p);
  spares_give (&v->parts_spare, p);
  r->left--;
  if (!all_made (r)) {
    if (r->error)
      made_to (v, r, r->offset + r->length);
    if (r->error || r->left <= v->config.parts / 2)
      v->room = v->look = true;
  }
  if (r->left == 0 && all_made (r))
    request_end (v, r);
}

void
part_fail (struct volume *v, struct part *p, int error)
{
  part_end (v, p, error);
}

/* ---- To the array ---- */

static void
part_send (struct volume *v, struct part *p, enum array_op op, uint64_t from,
           uint64_t to, void *buf, unsigned flags)
{
  struct vio *x = &p->vio[p->flying++];

  x->io = (struct array_request) {
    .op = op,
    .client = p->r->client->array,
    .flags = flags,
    .offset = place_offset (v, p->place) + from,
    .length = to - from,
    .buf = buf,
  };
  volume_request_send (v, x, VIO_PART, p);
}

/* The client's bytes for this offset in the segment. */
static uint8_t *
part_buf (const struct volume *v, const struct part *p, uint64_t from)
{
  return (uint8_t *) p->r->buf +
         (p->at * v->config.pool.segment_bytes + from - p->r->offset);
}

static bool
present (const struct volume *v, uint64_t blocks, uint64_t offset)
{
  return blocks >> (offset / v->block_bytes) & 1;
}

/* From `from` on, as far as blocks are there, or are not. */
static uint64_t
run_end (const struct volume *v, uint64_t blocks, uint64_t from, uint64_t to)
{
  bool is = present (v, blocks, from);
  uint64_t end = from;

  do
    end = (end / v->block_bytes + 1) * v->block_bytes;
  while (end < to && present (v, blocks, end) == is);
  return end < to ? end : to;
}

/* ---- READ ---- */

/* Blocks that have left the map during the read are zeroes: their data may be lost. */
static void
read_again (struct volume *v, struct part *p)
{
  const struct place *place = &v->places[p->place];
  uint64_t blocks = place->state == PLACE_DATA && place->at == p->at
                      ? place->blocks
                      : 0;

  for (uint64_t from = p->began, to; from < p->first; from = to) {
    to = run_end (v, blocks, from, p->first);
    if (!present (v, blocks, from))
      memset (part_buf (v, p, from), 0, to - from);
  }
}

static void
read_next (struct volume *v, struct part *p)
{
  while (p->first < p->to) {
    uint64_t from = p->first;

    p->first = run_end (v, p->blocks, from, p->to);
    if (present (v, p->blocks, from)) {
      p->flying = 0;
      p->began = from;
      part_send (v, p, ARRAY_READ, from, p->first, part_buf (v, p, from), 0);
      return;
    }
    memset (part_buf (v, p, from), 0, p->first - from);
  }
  if (p->place != NONE) {
    v->places[p->place].reading--;
    space_settle (v, p->place);
  }
  part_end (v, p, p->error);
}

static void
read_begin (struct volume *v, struct part *p)
{
  p->place = v->map[p->at];
  p->first = p->from;
  if (p->place != NONE) {
    v->places[p->place].reading++;
    p->blocks = v->places[p->place].blocks;
  }
  read_next (v, p);
}

/* ---- WRITE ---- */

/* A whole block with the client's part of it. */
static void
send_bounce (struct volume *v, struct part *p, unsigned which, uint64_t block)
{
  uint64_t start = block * v->block_bytes, end = start + v->block_bytes;
  uint64_t from = p->from > start ? p->from : start;
  uint64_t to = p->to < end ? p->to : end;
  uint8_t *bounce = v->bounce[--v->bounces_free];

  p->bounce[which] = bounce;
  memset (bounce, 0, v->block_bytes);
  memcpy (bounce + (from - start), part_buf (v, p, from), to - from);
  part_send (v, p, ARRAY_WRITE, start, end, bounce, 0);
}

static void
write_alone (struct volume *v, struct part *p)
{
  uint64_t there = v->places[p->place].blocks, from = p->from, to = p->to;
  uint64_t first = p->from / v->block_bytes,
           last = (p->to - 1) / v->block_bytes;
  bool head = p->from % v->block_bytes != 0 && !(there >> first & 1);
  bool tail = p->to % v->block_bytes != 0 && !(there >> last & 1);

  if (first == last) {
    head |= tail;
    tail = false;
  }
  if (v->bounces_free < (unsigned) head + tail) {
    TAILQ_INSERT_TAIL (&v->starved, p, link);
    return;
  }
  p->flying = 0;
  p->losses = v->losses;
  if (head) {
    from = (first + 1) * v->block_bytes;
    send_bounce (v, p, 0, first);
  }
  if (tail) {
    to = last * v->block_bytes;
    send_bounce (v, p, 1, last);
  }
  if (from < to)
    part_send (v, p, ARRAY_WRITE, from, to, part_buf (v, p, from), 0);
}

static void
write_begin (struct volume *v, struct part *p)
{
  if (p->turn == TURN_SHARED) {
    p->flying = 0;
    part_send (v, p, ARRAY_WRITE, p->from, p->to, part_buf (v, p, p->from),
               p->r->flags & ARRAY_FUA);
    return;
  }
  p->place = v->map[p->at];
  if (p->place == NONE)
    p->place = space_take_data (v, p->at);
  if (p->place != NONE) {
    p->hungry_ns = 0;
    write_alone (v, p);
    return;
  }
  if (p->hungry_ns == 0) {
    p->hungry_ns = v->now;
    v->look = true;
  }
  TAILQ_INSERT_TAIL (&v->hungry, p, link);
}

static void
write_done (struct volume *v, struct part *p)
{
  if (!p->error && p->turn == TURN_ALONE && p->losses != v->losses) {
    bounces_give (v, p); /* a part of it may be lost */
    write_alone (v, p);
    return;
  }
  if (!p->error && p->turn == TURN_ALONE) {
    v->places[p->place].blocks |= turn_blocks (v, p);
    space_changed (v, p->place);
  }
  part_end (v, p, p->error);
}

/* ---- ZERO, TRIM ---- */

/* Zero a part of a block in the array, if the block is present. */
static void
zero_edge (struct volume *v, struct part *p, uint64_t from, uint64_t to)
{
  if (from < to && present (v, v->places[p->place].blocks, from))
    part_send (v, p, ARRAY_ZERO, from, to, NULL, 0);
}

static void
zero_begin (struct volume *v, struct part *p)
{
  uint64_t b = v->block_bytes, start = (p->from + b - 1) / b * b, end;
  struct part whole = *p;

  end = p->last ? (p->to + b - 1) / b * b : p->to / b * b;
  p->flying = 0;
  p->place = v->map[p->at];
  if (p->place != NONE && p->r->op == ARRAY_ZERO) {
    if (start >= end && p->from / b == (p->to - 1) / b && start != p->from)
      zero_edge (v, p, p->from, p->to);
    else {
      zero_edge (v, p, p->from, start);
      zero_edge (v, p, end, p->to);
    }
  }
  if (p->place != NONE && start < end) {
    whole.from = start;
    whole.to = end;
    v->places[p->place].blocks &= ~turn_blocks (v, &whole);
    space_changed (v, p->place);
  }
  if (p->flying == 0)
    part_end (v, p, 0);
}

/* ---- All of them ---- */

void
part_run (struct volume *v, struct part *p)
{
  if (v->stopped)
    part_end (v, p, v->stopped);
  else if (p->r->op == ARRAY_READ)
    read_begin (v, p);
  else if (p->r->op == ARRAY_WRITE)
    write_begin (v, p);
  else
    zero_begin (v, p);
}

void
part_answered (struct volume *v, struct part *p, int error)
{
  if (error && !p->error)
    p->error = error;
  p->flying--;
  if (p->r->op == ARRAY_READ) {
    if (error)
      p->first = p->to;
    else
      read_again (v, p);
    read_next (v, p);
  }
  else if (p->flying == 0) {
    if (p->r->op == ARRAY_WRITE)
      write_done (v, p);
    else
      part_end (v, p, p->error);
  }
}

/* ---- Parts are made ---- */

/* The segment before which the parts of `r` may be made now.  Requests that were submitted
 * before it have not reached that segment themselves.
 */
static uint64_t
limit (const struct volume *v, const struct volume_request *r)
{
  uint64_t bytes = v->config.pool.segment_bytes, next = r->made / bytes;
  uint64_t least = UINT64_MAX;
  const struct volume_request *q;

  if (r->op == ARRAY_READ)
    return least;
  for (q = TAILQ_FIRST (&v->making); q != r; q = TAILQ_NEXT (q, making)) {
    uint64_t first = q->made / bytes;

    if (q->op != ARRAY_READ && first < least &&
        (q->offset + q->length - 1) / bytes >= next)
      least = first;
  }
  return least;
}

/* Is there nothing to take out of the map, and nothing to wait for? */
static bool
nothing_there (struct volume *v, const struct volume_request *r, uint32_t at)
{
  return (r->op == ARRAY_ZERO || r->op == ARRAY_TRIM) && v->map[at] == NONE &&
         turn_free (v, at);
}

static void
make_one (struct volume *v, struct volume_request *r, uint32_t at, uint64_t to)
{
  struct part *p = spares_take (&v->parts_spare, sizeof *p);
  uint64_t segment = at * v->config.pool.segment_bytes;

  p->r = r;
  p->at = at;
  p->from = r->made - segment;
  p->to = to - segment;
  p->place = NONE;
  p->last = r->to_end && to == r->offset + r->length;
  r->left++;
  made_to (v, r, to);
  if (r->op == ARRAY_READ || turn_take (v, p))
    part_run (v, p);
}

/* As many parts as the request may have at a time. */
static void
make (struct volume *v, struct volume_request *r)
{
  uint64_t bytes = v->config.pool.segment_bytes, end = r->offset + r->length;
  uint64_t before = limit (v, r);

  while (!all_made (r) && r->left < v->config.parts &&
         r->made / bytes < before) {
    uint32_t at = (uint32_t) (r->made / bytes);
    uint64_t to = (at + UINT64_C (1)) * bytes;

    if (to > end)
      to = end;
    if (!nothing_there (v, r, at))
      make_one (v, r, at, to);
    else {
      r->loose = true; /* the log may still have what was there */
      made_to (v, r, to);
      if (r->left == 0 && all_made (r))
        request_end (v, r);
    }
  }
}

void
part_pump (struct volume *v)
{
  struct volume_request *r, *next;

  if (!v->room)
    return;
  v->room = false;
  TAILQ_FOREACH_SAFE (r, &v->making, making, next)
    make (v, r);
}

void
part_begin (struct volume *v, struct volume_request *r)
{
  r->left = 0;
  r->losses = v->losses;
  r->made = r->offset;
  r->to_end = r->offset + r->length == v->root->size;
  if (r->length == 0) {
    request_end (v, r);
    return;
  }
  TAILQ_INSERT_TAIL (&v->making, r, making);
  make (v, r);
}
