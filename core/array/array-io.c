/* array-io.c: what is asked of members, from its making to its answer.
 *
 * out -> (array_next_io) -> sent -> (array_io_done) -> aio_finish.  A write to
 * an extent whose intent bit is just being cleared is held before that.  When a
 * member is lost, what was not sent goes to failed, and what was sent is
 * orphaned: it has no time-out any more, but its buffer is in use until the
 * caller gives it back.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "array-internal.h"

static const char *const kind_names[] = {
  [IO_READ] = "read",   [IO_WRITE] = "write", [IO_ZERO] = "zero",
  [IO_TRIM] = "trim",   [IO_FLUSH] = "flush", [IO_EXTENTS] = "block status",
  [IO_BATCH] = "batch",
};

const char *
aio_name (enum array_io_kind kind)
{
  return kind_names[kind];
}

struct aio *
aio_new (struct array *a, enum aio_for purpose, enum array_io_kind kind,
         unsigned member)
{
  struct aio *x = a->spare_aios;

  if (x) {
    a->spare_aios = x->next;
    a->spare_aios_count--;
    memset (x, 0, sizeof *x);
  }
  else
    x = array_alloc (sizeof *x);
  x->purpose = purpose;
  x->io.kind = kind;
  x->io.member = member;
  x->pieces_last = &x->pieces;
  return x;
}

void
aio_free (struct array *a, struct aio *x)
{
  free (x->io.extents);
  if (a->spare_aios_count < SPARES_MAX) {
    x->next = a->spare_aios;
    a->spare_aios = x;
    a->spare_aios_count++;
  }
  else
    free (x);
}

/* Does it change data? */
bool
aio_writes (const struct aio *x)
{
  return x->purpose == FOR_IMAGES || x->purpose == FOR_REPAIR
         || (x->purpose == FOR_PIECES && x->io.kind != IO_READ);
}

/* What it carries is complete but for pieces that join it in `out`. */
void
aio_send (struct array *a, struct aio *x)
{
  assert (x->place == AIO_NONE && member_reachable (a, x->io.member));
  if (clear_holds (a, x)) {
    x->place = AIO_HELD;
    TAILQ_INSERT_TAIL (&a->held, x, link);
    return;
  }
  x->place = AIO_OUT;
  TAILQ_INSERT_TAIL (&a->out, x, link);
  clear_touch (a, x);
  if (aio_writes (x))
    round_touch (a);
}

void
aio_release (struct array *a, unsigned member)
{
  struct aio *x, *next;

  TAILQ_FOREACH_SAFE (x, &a->held, link, next)
    if (x->io.member == member) {
      TAILQ_REMOVE (&a->held, x, link);
      x->place = AIO_NONE;
      aio_send (a, x);
    }
}

static void *
piece_buf (const struct piece *p)
{
  const struct array_request *r = p->req->r;

  return r->buf ? (char *)r->buf + (p->at.offset - r->offset) : NULL;
}

static void
add_piece (struct aio *x, struct piece *p, unsigned copy)
{
  p->copy = copy;
  p->started = true;
  p->joined = x->pieces != NULL;
  if (p->joined)
    x->pieces->joined = true;
  p->next = NULL;
  *x->pieces_last = p;
  x->pieces_last = &p->next;
  x->io.length += p->at.length;
}

/* Does the piece go on where the last one asked of the member ends? */
static bool
can_join (const struct array *a, const struct aio *x, const struct piece *p,
          unsigned copy, enum array_io_kind kind, unsigned flags)
{
  bool buffers = kind == IO_READ || kind == IO_WRITE;

  return x->place == AIO_OUT && x->io.kind == kind && x->io.flags == flags
         && x->pieces->req == p->req && !x->pieces->alone && !p->alone
         && x->io.offset + x->io.length == p->at.copy[copy].offset
         && x->io.length + p->at.length
                <= (buffers ? JOINED_BYTES_MAX : JOINED_ZERO_BYTES_MAX)
         && (!buffers || (char *)x->io.buf + x->io.length == piece_buf (p))
         && (kind == IO_READ
             || !clear_holds_range (a, x->io.member, p->at.copy[copy].offset,
                                    p->at.length));
}

/* Ask a member for the copy of a piece. */
void
aio_piece (struct array *a, struct piece *p, enum array_io_kind kind,
           unsigned copy, unsigned flags)
{
  struct array_member *m = &a->member[p->at.copy[copy].member];
  struct aio *x;

  piece_move (a, p, PIECE_IO);
  if (m->open && m->open_plan == a->plan
      && can_join (a, m->open, p, copy, kind, flags)) {
    add_piece (m->open, p, copy);
    if (kind != IO_READ)
      clear_touch_range (a, m->open->io.member, p->at.copy[copy].offset,
                         p->at.length);
    return;
  }
  x = aio_new (a, FOR_PIECES, kind, p->at.copy[copy].member);
  x->io.flags = flags;
  x->io.offset = p->at.copy[copy].offset;
  if (kind == IO_READ || kind == IO_WRITE)
    x->io.buf = piece_buf (p);
  add_piece (x, p, copy);
  aio_send (a, x);
  m->open = x;
  m->open_plan = a->plan;
}

/* Write a piece that was read back to the copy that could not be read. */
void
aio_repair (struct array *a, struct piece *p, unsigned copy)
{
  struct aio *x = aio_new (a, FOR_REPAIR, IO_WRITE, p->at.copy[copy].member);

  piece_move (a, p, PIECE_IO);
  x->io.offset = p->at.copy[copy].offset;
  x->io.buf = piece_buf (p);
  add_piece (x, p, copy);
  aio_send (a, x);
}

/* Send what the image buffer wants sent. */
void
aio_images (struct array *a)
{
  static const enum array_io_kind kinds[] = {
    [RUN_WRITE] = IO_WRITE,
    [RUN_ZERO] = IO_ZERO,
    [RUN_BATCH] = IO_BATCH,
  };
  struct image_run *run;

  while ((run = images_next (a->images))) {
    struct aio *x = aio_new (a, FOR_IMAGES, kinds[run->kind], run->member);

    x->run = run;
    x->io.flags
        = (run->fua ? ARRAY_FUA : 0) | (run->may_trim ? ARRAY_MAY_TRIM : 0);
    x->io.offset = run->offset;
    x->io.length = run->length;
    x->io.buf = run->buf;
    aio_send (a, x);
  }
}

static void
move_to_failed (struct array *a, struct aio *x, struct aio_queue *queue)
{
  TAILQ_REMOVE (queue, x, link);
  x->place = AIO_FAILED;
  TAILQ_INSERT_TAIL (&a->failed, x, link);
}

void
aio_orphan (struct array *a, unsigned member)
{
  struct aio *x, *next;

  a->member[member].open = NULL;
  overdue_orphan (a, member);
  TAILQ_FOREACH_SAFE (x, &a->out, link, next)
    if (x->io.member == member)
      move_to_failed (a, x, &a->out);
  TAILQ_FOREACH_SAFE (x, &a->held, link, next)
    if (x->io.member == member)
      move_to_failed (a, x, &a->held);
  TAILQ_FOREACH_SAFE (x, &a->sent, link, next)
    if (x->io.member == member) {
      TAILQ_REMOVE (&a->sent, x, link);
      x->place = AIO_ORPHAN;
      TAILQ_INSERT_TAIL (&a->orphans, x, link);
    }
}

void
aio_recall (struct array *a)
{
  struct aio *x;

  for (unsigned i = 0; i < a->layout->members; i++)
    a->member[i].open = NULL;
  while ((x = TAILQ_FIRST (&a->out)))
    move_to_failed (a, x, &a->out);
  while ((x = TAILQ_FIRST (&a->held)))
    move_to_failed (a, x, &a->held);
}

static void
leave_queue (struct array *a, struct aio *x)
{
  switch (x->place) {
  case AIO_SENT:
    TAILQ_REMOVE (&a->sent, x, link);
    break;
  case AIO_ORPHAN:
    TAILQ_REMOVE (&a->orphans, x, link);
    break;
  case AIO_FAILED:
    TAILQ_REMOVE (&a->failed, x, link);
    break;
  default:
    abort ();
  }
  x->place = AIO_NONE;
  if (a->member[x->io.member].open == x)
    a->member[x->io.member].open = NULL;
}

/* Is the answer the member's end?  A bad sector is not, when read; nor are
 * extents that a member does not know; nor that one which joins refuses to be
 * read, when a sign of life was all that was asked.
 */
static bool
fatal (const struct array *a, const struct aio *x, int error)
{
  if (error == 0)
    return false;
  if (x->io.kind == IO_READ)
    return error != EIO
           && (x->purpose != FOR_PROBE || error != ESHUTDOWN
               || member_in_sync (a, x->io.member));
  if (x->io.kind == IO_EXTENTS)
    return error != EIO && error != EINVAL && error != ENOTSUP
           && error != EOVERFLOW && error != ENOMEM;
  return true;
}

static void
finish_pieces (struct array *a, struct aio *x, int error)
{
  struct piece *p, *next;

  for (p = x->pieces; p; p = next) {
    next = p->next;
    if (x->purpose == FOR_REPAIR)
      read_repaired (a, p);
    else if (x->io.kind == IO_READ)
      read_answered (a, p, error);
    else
      write_answered (a, p, error == 0);
  }
}

static void
finish_images (struct array *a, struct aio *x, bool ok)
{
  struct array_member *m = &a->member[x->io.member];

  images_answered (a->images, x->run, ok);
  m->mixed &= images_any (a->images, x->io.member);
  a->look = true;
  pieces_go_on (a, &m->draining);
}

/* An answer has come, or it is certain that none will.  Of a member that was
 * lost since it was asked, only what was read counts: it was in-sync when it
 * read it.
 */
void
aio_finish (struct array *a, struct aio *x, int error)
{
  const struct array_io *io = &x->io;
  struct array_member *m = &a->member[io->member];
  bool over = x->place != AIO_SENT;

  leave_queue (a, x);
  if (!over && fatal (a, x, error)) {
    over = true;
    /* What it has answered before may be gone as well. */
    m->lapsed |= error != ENOTCONN && error != ESHUTDOWN;
    member_lost (a, io->member, "a %s request of %llu bytes at %llu failed: %s",
                 aio_name (io->kind), (unsigned long long)io->length,
                 (unsigned long long)io->offset, strerror (error));
  }
  if (over && (io->kind != IO_READ || error != 0))
    error = ESHUTDOWN;
  if (error == 0 && aio_writes (x)) {
    m->written = ++a->event;
    if (!(io->flags & ARRAY_FUA))
      m->loose = a->event;
    clear_touch (a, x);
    round_touch (a);
  }
  switch (x->purpose) {
  case FOR_PIECES:
  case FOR_REPAIR:
    finish_pieces (a, x, error);
    break;
  case FOR_IMAGES:
    finish_images (a, x, error == 0);
    break;
  case FOR_FLUSH:
    flush_answered (a, x, error == 0);
    break;
  case FOR_EXTENTS:
    extents_answered (a, x, error == 0);
    return; /* kept */
  case FOR_CLEAR:
    clear_answered (a, x, error == 0);
    break;
  case FOR_PROBE:
    free (x->io.buf);
    break;
  case FOR_ROUND:
    round_answered (a, x, error == 0);
    break;
  }
  aio_free (a, x);
}
