/* array-check.c: the invariants of the engine between any two inputs. */

#include <config.h>

#include <assert.h>

#include "array-internal.h"

static bool
io_writes (const struct array_io *io)
{
  return io->kind == IO_WRITE || io->kind == IO_ZERO;
}

/* No two writes to one place of a member are under way at once, nor is one
 * that an image in flight (in a batch, say) covers.
 */
static void
check_io (const struct array *a, const struct aio *x,
          const struct aio_queue *queue)
{
  const struct aio *y;

  assert (x->place != AIO_NONE);
  assert ((x->run != NULL) == (x->purpose == FOR_IMAGES));
  assert ((x->pieces != NULL) ==
          (x->purpose == FOR_PIECES || x->purpose == FOR_REPAIR));
  for (const struct piece *p = x->pieces; p; p = p->next[x->copy]) {
    assert (p->place == PIECE_IO && p->ios > 0);
    assert (x->io.kind == IO_READ ||
            !array_only_reads (a, p->req, p->at.offset, p->at.length));
  }
  if (!io_writes (&x->io))
    return;
  TAILQ_FOREACH (y, queue, link)
    if (y != x && io_writes (&y->io) && y->io.member == x->io.member)
      assert (x->io.offset + x->io.length <= y->io.offset ||
              y->io.offset + y->io.length <= x->io.offset);
  if (x->purpose != FOR_IMAGES && member_reachable (a, x->io.member))
    assert (
      !images_overlap (a->images, x->io.member, x->io.offset, x->io.length));
}

static unsigned
check_queue (const struct piece_queue *queue, enum piece_place place)
{
  const struct piece *p;
  unsigned count = 0;

  TAILQ_FOREACH (p, queue, wait_link) {
    assert (p->place == place);
    count++;
  }
  return count;
}

/* Every request has somebody who will wake it. */
static void
check_request (const struct array *a, const struct req *q, unsigned places[])
{
  unsigned pieces = 0, parked = 0, spacing = 0;
  const struct piece *p;

  assert (!q->runnable && q->r->state == q);
  assert (!request_writes (q->r) || !array_pinned (a) || q->leased);
  TAILQ_FOREACH (p, &q->pieces, link) {
    assert (p->req == q);
    assert (p->place != PIECE_READY);
    assert (p->place != PIECE_IMAGES || p->images > 0);
    places[p->place]++;
    pieces++;
    parked += p->place == PIECE_PARKED;
    spacing += p->place == PIECE_SPACE;
  }
  assert (pieces == q->pieces_count && parked == q->parked &&
          spacing == q->spacing);
  if (q->lock != LOCK_NONE)
    assert (q->range < a->ranges_count && a->ranges[q->range].req == q);
  else
    assert (q->blockers == 0);
  assert (q->busy || q->answers > 0 || q->blockers > 0 || pieces > parked ||
          q->wrote_ns || q->waits);
}

void
array_check (const struct array *a)
{
  unsigned places[PIECE_READY + 1] = { 0 }, requests = 0, draining = 0;
  unsigned in_flight = 0;
  uint64_t sent_ns = 0;
  const struct aio *x;
  const struct req *q;

  images_check (a->images);
  lease_check (a);
  TAILQ_FOREACH (x, &a->held, link)
    assert (x->place == AIO_HELD && member_reachable (a, x->io.member) &&
            clear_holds (a, x));
  TAILQ_FOREACH (x, &a->refused, link) {
    assert (x->place == AIO_REFUSED && member_reachable (a, x->io.member));
    assert (!clear_holds (a, x) && x->refused_ns > 0);
    check_io (a, x, &a->refused);
    check_io (a, x, &a->out);
    check_io (a, x, &a->sent);
  }
  TAILQ_FOREACH (x, &a->out, link) {
    assert (x->place == AIO_OUT && member_reachable (a, x->io.member));
    assert (!clear_holds (a, x));
    check_io (a, x, &a->out);
    check_io (a, x, &a->sent);
  }
  TAILQ_FOREACH (x, &a->sent, link) {
    assert (x->place == AIO_SENT && member_reachable (a, x->io.member));
    assert (!clear_holds (a, x)); /* no write under way where bits fall */
    assert (x->io.sent_ns >= sent_ns);
    sent_ns = x->io.sent_ns;
    check_io (a, x, &a->sent);
    in_flight++;
  }
  TAILQ_FOREACH (x, &a->orphans, link) {
    assert (x->place == AIO_ORPHAN);
    in_flight++;
  }
  assert (in_flight == a->in_flight);
  assert (TAILQ_EMPTY (&a->runnable) && TAILQ_EMPTY (&a->ready) &&
          TAILQ_EMPTY (&a->failed));
  TAILQ_FOREACH (q, &a->requests, link) {
    check_request (a, q, places);
    requests++;
  }
  assert (requests == a->requests_count);
  for (unsigned i = 0; i < a->layout->members; i++) {
    const struct array_member *m = &a->member[i];

    draining += check_queue (&m->draining, PIECE_DRAINING);
    assert (m->counts || m->state != MEMBER_IN_SYNC);
    assert (member_is_lost (a, i) || m->state != MEMBER_OUT);
    for (unsigned k = 0; k < FLUSHES_MAX; k++)
      assert (!m->writes.flush[k] || m->writes.flush[k]->io.kind == IO_FLUSH);
    assert (!member_is_lost (a, i) || a->degraded);
    assert (m->writes.flushed <= a->event && m->writes.loose <= a->event);
  }
  assert (draining == places[PIECE_DRAINING]);
  assert (check_queue (&a->space, PIECE_SPACE) == places[PIECE_SPACE]);
  assert (check_queue (&a->stalled, PIECE_STALLED) == places[PIECE_STALLED]);
}
