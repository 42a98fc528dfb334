/* array-req.c: requests and their pieces: how they are made, how they are marked as
 * able to go on (array.c), and the queues that pieces wait in.
 */

#include <config.h>

#include "array-internal.h"

struct req *
req_new (struct array *a, struct array_request *r)
{
  struct req *q = spares_take (&a->spare_reqs, sizeof *q);

  q->r = r;
  q->begun_ns = a->now_ns;
  q->commits = a->commits;
  TAILQ_INIT (&q->pieces);
  r->state = q;
  TAILQ_INSERT_TAIL (&a->requests, q, link);
  a->requests_count++;
  return q;
}

void
req_wake (struct array *a, struct req *q)
{
  if (q->runnable)
    return;
  q->runnable = true;
  TAILQ_INSERT_TAIL (&a->runnable, q, run_link);
}

/* The first error is what the client sees. */
void
req_fail (struct array *a, struct req *q, int error)
{
  if (!q->error)
    q->error = error;
  req_wake (a, q);
}

static struct piece_queue *
queue_of (struct array *a, const struct piece *p)
{
  switch (p->place) {
  case PIECE_SPACE:
    return &a->space;
  case PIECE_STALLED:
    return &a->stalled;
  case PIECE_DRAINING:
    return &a->member[p->at.copy[p->copy].member].draining;
  case PIECE_READY:
    return &a->ready;
  default:
    return NULL;
  }
}

static void
leave (struct array *a, struct piece *p)
{
  struct piece_queue *queue = queue_of (a, p);

  if (queue)
    TAILQ_REMOVE (queue, p, wait_link);
  p->req->parked -= p->place == PIECE_PARKED;
  p->req->spacing -= p->place == PIECE_SPACE;
}

/* The new place, and for draining the copy, are set before. */
static void
enter (struct array *a, struct piece *p)
{
  struct piece_queue *queue = queue_of (a, p);

  if (queue)
    TAILQ_INSERT_TAIL (queue, p, wait_link);
  p->req->parked += p->place == PIECE_PARKED;
  p->req->spacing += p->place == PIECE_SPACE;
}

struct piece *
piece_new (struct array *a, struct req *q, const struct layout_piece *at)
{
  struct piece *p = spares_take (&a->spare_pieces, sizeof *p);

  p->req = q;
  p->at = *at;
  p->place = PIECE_READY;
  enter (a, p);
  TAILQ_INSERT_TAIL (&q->pieces, p, link);
  q->pieces_count++;
  return p;
}

void
piece_end (struct array *a, struct piece *p)
{
  struct req *q = p->req;

  leave (a, p);
  if (p->admitted > 0)
    images_settle (a->images, p->admitted, p->payload);
  TAILQ_REMOVE (&q->pieces, p, link);
  q->pieces_count--;
  if (q->pieces_count == 0 || q->cursor < q->r->length || q->parked > 0)
    req_wake (a, q);
  spares_give (&a->spare_pieces, p);
}

void
piece_move (struct array *a, struct piece *p, enum piece_place place)
{
  bool was_spacing = p->place == PIECE_SPACE;

  leave (a, p);
  p->place = place;
  enter (a, p);
  /* The last piece may have been parked; and behind one that has room now, the next
   * one may be cut off.
   */
  if (place == PIECE_PARKED || was_spacing)
    req_wake (a, p->req);
}

void
pieces_go_on (struct array *a, struct piece_queue *queue)
{
  struct piece *p;

  while ((p = TAILQ_FIRST (queue)))
    piece_move (a, p, PIECE_READY);
}

int
piece_read_copy (const struct array *a, const struct piece *p, unsigned bad)
{
  unsigned images = p->at.copies - 1;

  if (member_in_sync (a, p->at.copy[0].member) && !(bad & 1))
    return 0;
  for (unsigned i = 0; i < images; i++) {
    unsigned c = 1 + (p->at.offset / a->layout->unit + i) % images;

    if (member_in_sync (a, p->at.copy[c].member) && !(bad & 1u << c))
      return (int) c;
  }
  return -1;
}
