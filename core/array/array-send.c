/* array-send.c: reads and writes at members, for pieces and images.
 *
 * Neighbouring pieces travel together.  A write to an extent whose intent bit
 * is just being cleared is held until the member has answered the clear.
 */

#include <config.h>

#include <assert.h>

#include "array-internal.h"

/* Its data is complete except for pieces that join it in `out`. */
static void
send_data (struct array *a, struct aio *x)
{
  if (clear_holds (a, x)) {
    assert (x->place == AIO_NONE && member_reachable (a, x->io.member));
    x->place = AIO_HELD;
    TAILQ_INSERT_TAIL (&a->held, x, link);
    return;
  }
  aio_send (a, x);
  clear_touch (a, x);
  if (aio_writes (x))
    round_touch (a);
}

void
send_held (struct array *a, unsigned member)
{
  struct aio *x, *next;

  TAILQ_FOREACH_SAFE (x, &a->held, link, next)
    if (x->io.member == member) {
      TAILQ_REMOVE (&a->held, x, link);
      x->place = AIO_NONE;
      send_data (a, x);
    }
}

static void *
piece_buf (const struct piece *p)
{
  const struct array_request *r = p->req->r;

  return r->buf ? (char *) r->buf + (p->at.offset - r->offset) : NULL;
}

static void
add_piece (struct aio *x, struct piece *p)
{
  p->copy = x->copy;
  p->ios++;
  p->started = true;
  p->joined = x->pieces != NULL;
  if (p->joined)
    x->pieces->joined = true;
  p->next[x->copy] = NULL;
  *x->pieces_last = p;
  x->pieces_last = &p->next[x->copy];
  x->io.length += p->at.length;
}

/* Does the piece go on where the last one asked of the member ends? */
static bool
can_join (const struct array *a, const struct aio *x, const struct piece *p,
          enum array_io_kind kind, unsigned copy, unsigned flags)
{
  bool buffers = kind == IO_READ || kind == IO_WRITE;

  return x->place == AIO_OUT && x->io.kind == kind && x->io.flags == flags &&
         x->copy == copy && x->pieces->req == p->req && !x->pieces->alone &&
         !p->alone && x->io.offset + x->io.length == p->at.copy[copy].offset &&
         x->io.length + p->at.length <=
           (buffers ? JOINED_BYTES_MAX : JOINED_ZERO_BYTES_MAX) &&
         (!buffers || (char *) x->io.buf + x->io.length == piece_buf (p)) &&
         (kind == IO_READ ||
          !clear_holds_range (a, x->io.member, p->at.copy[copy].offset,
                              p->at.length));
}

/* Ask a member for the copy of a piece. */
void
send_piece (struct array *a, struct piece *p, enum array_io_kind kind,
            unsigned copy, unsigned flags)
{
  struct array_member *m = &a->member[p->at.copy[copy].member];
  struct aio *x = m->open.io[copy > 0];

  piece_move (a, p, PIECE_IO);
  if (x && m->open.plan == a->plan && can_join (a, x, p, kind, copy, flags)) {
    add_piece (x, p);
    if (kind != IO_READ)
      clear_touch_range (a, x->io.member, p->at.copy[copy].offset,
                         p->at.length);
    return;
  }
  x = aio_new (a, FOR_PIECES, kind, p->at.copy[copy].member);
  x->copy = copy;
  x->io.flags = flags;
  x->io.offset = p->at.copy[copy].offset;
  if (kind == IO_READ || kind == IO_WRITE)
    x->io.buf = piece_buf (p);
  add_piece (x, p);
  send_data (a, x);
  if (m->open.plan != a->plan)
    m->open.io[0] = m->open.io[1] = NULL;
  m->open.io[copy > 0] = x;
  m->open.plan = a->plan;
}

/* Write a piece that was read back to the copy that could not be read. */
void
send_repair (struct array *a, struct piece *p, unsigned copy)
{
  struct aio *x = aio_new (a, FOR_REPAIR, IO_WRITE, p->at.copy[copy].member);

  piece_move (a, p, PIECE_IO);
  x->copy = copy;
  x->io.offset = p->at.copy[copy].offset;
  x->io.buf = piece_buf (p);
  add_piece (x, p);
  send_data (a, x);
}

/* Send what the image buffer wants sent. */
void
send_images (struct array *a)
{
  static const enum array_io_kind kinds[] = {
    [RUN_WRITE] = IO_WRITE,
    [RUN_ZERO] = IO_ZERO,
    [RUN_BATCH] = IO_BATCH,
  };
  struct image_run *run;

  while ((run = images_next (a->images, a->now_ns))) {
    struct aio *x = aio_new (a, FOR_IMAGES, kinds[run->kind], run->member);

    x->run = run;
    x->io.flags = (run->fua || flush_rides (a, run->member) ? ARRAY_FUA : 0) |
                  (run->may_trim ? ARRAY_MAY_TRIM : 0);
    x->io.offset = run->offset;
    x->io.length = run->length;
    x->io.buf = run->buf;
    send_data (a, x);
  }
}
