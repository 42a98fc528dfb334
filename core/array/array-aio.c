/* array-aio.c: requests to members, from the making of each to its answer.
 *
 * out -> (array_next_io) -> sent -> (array_io_done) -> array-answer.c.
 * Requests with data are sent by array-send.c.  A request that a member refuses
 * for the moment goes to refused, and from there to out again.  When a member
 * is lost, its unsent requests go to failed, and its sent requests are
 * orphaned: an orphan has no time-out any more, but its buffer is in use until
 * the caller gives it back.
 */

#include <config.h>

#include <assert.h>
#include <stdlib.h>

#include "array-internal.h"
#include "format/batch.h"

static const char *const kind_names[] = {
  [IO_READ] = "read",   [IO_WRITE] = "write", [IO_ZERO] = "zero",
  [IO_TRIM] = "trim",   [IO_FLUSH] = "flush", [IO_EXTENTS] = "block status",
  [IO_BATCH] = "batch", [IO_ROUND] = "round", [IO_PULSE] = "pulse",
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
  struct aio *x = spares_take (&a->spare_aios, sizeof *x);

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
  spares_give (&a->spare_aios, x);
}

struct aio *
aio_sign (struct array *a, enum aio_for purpose, unsigned member)
{
  bool batch = a->config.batches;
  struct aio *x = aio_new (a, purpose, batch ? IO_BATCH : IO_READ, member);

  x->io.length = batch ? batch_bytes (NULL, 0) : READ_BLOCK_BYTES;
  x->io.buf = alloc_zeroed (x->io.length);
  if (batch)
    batch_encode (NULL, 0, x->io.buf);
  return x;
}

void
aio_send (struct array *a, struct aio *x)
{
  assert (x->place == AIO_NONE && member_reachable (a, x->io.member));
  if (x->io.kind == IO_READ)
    x->queue = ++a->member[x->io.member].overdue.reads;
  x->place = AIO_OUT;
  TAILQ_INSERT_TAIL (&a->out, x, link);
}

/* Does it change data? */
bool
aio_writes (const struct aio *x)
{
  return x->purpose == FOR_IMAGES || x->purpose == FOR_REPAIR ||
         (x->purpose == FOR_PIECES && x->io.kind != IO_READ);
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

  a->member[member].open.io[0] = a->member[member].open.io[1] = NULL;
  timing_forget (a, member);
  a->member[member].witness.asked = NULL;
  TAILQ_FOREACH_SAFE (x, &a->out, link, next)
    if (x->io.member == member)
      move_to_failed (a, x, &a->out);
  TAILQ_FOREACH_SAFE (x, &a->held, link, next)
    if (x->io.member == member)
      move_to_failed (a, x, &a->held);
  TAILQ_FOREACH_SAFE (x, &a->refused, link, next)
    if (x->io.member == member)
      move_to_failed (a, x, &a->refused);
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
    a->member[i].open.io[0] = a->member[i].open.io[1] = NULL;
  while ((x = TAILQ_FIRST (&a->out)))
    move_to_failed (a, x, &a->out);
  while ((x = TAILQ_FIRST (&a->held)))
    move_to_failed (a, x, &a->held);
  while ((x = TAILQ_FIRST (&a->refused)))
    move_to_failed (a, x, &a->refused);
}

void
aio_leave (struct array *a, struct aio *x)
{
  struct aio **open = &a->member[x->io.member].open.io[x->copy > 0];

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
  if (*open == x)
    *open = NULL;
}
