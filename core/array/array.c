/* array.c: the engine's inputs and outputs, and a request's way through it.
 *
 * To follow a write, read downwards: array_submit here; req_run cuts it into
 * pieces; array-range.c says when it is its turn; array-write.c is a piece's
 * life; array-send.c and array-aio.c send requests to members; images.c is the
 * image buffer.  To follow an answer: array_io_done here, then array-answer.c,
 * then the code of the request.  array-read.c, array-flush.c and
 * array-extents.c are the other requests.  array-member.c handles a failure,
 * array-epoch.c a new epoch, array-join.c a joining member, array-clear.c the
 * clearing of intent bits, array-round.c the rounds that reveal an old copy of
 * a member's disk, array-witness.c reads while weftd is silent, array-lease.c
 * leases.
 *
 * Words: a *request* (struct req) comes from the client.  A *piece* is its part
 * within one stripe unit.  An *io* (struct aio) goes to a member; it carries
 * one piece, or neighbours.
 *
 * Every input only marks what can go on: pieces in a->ready, requests in
 * a->runnable, flushes to look at.  pump then works until nothing is left.  It
 * stands on top: no file below calls this one, nor one that calls it.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "array-internal.h"

/* Requests. */

static void
push_done (struct array *a, struct array_request *r, int error)
{
  r->error = error;
  r->next = NULL;
  *a->done_last = r;
  a->done_last = &r->next;
}

static void
count_request (struct array *a, const struct req *q)
{
  struct array_stats *s = &a->stats;
  uint64_t ns = a->now_ns - q->begun_ns;

  switch (q->r->op) {
  case ARRAY_READ:
    s->reads++;
    s->read_bytes += q->r->length;
    s->read_ns += ns;
    latency_add (&s->read, ns);
    break;
  case ARRAY_WRITE:
    s->writes++;
    s->write_bytes += q->r->length;
    s->write_ns += ns;
    latency_add (&s->write, ns);
    break;
  case ARRAY_FLUSH:
    s->flushes++;
    s->flush_ns += ns;
    latency_add (&s->flush, ns);
    break;
  case ARRAY_ZERO:
    s->zeroes++;
    break;
  case ARRAY_TRIM:
    s->trims++;
    break;
  case ARRAY_EXTENTS:
  case ARRAY_ACCEPT:
    break;
  }
}

static void
req_done (struct array *a, struct req *q)
{
  assert (q->pieces_count == 0 && !q->busy);
  if (q->runnable)
    TAILQ_REMOVE (&a->runnable, q, run_link);
  if (q->lock != LOCK_NONE)
    range_drop (a, q);
  if (a->config.leases)
    lease_done (a, q);
  if (q->r->op == ARRAY_FLUSH)
    clear_flushed (a, q);
  if (request_writes (q->r) && !q->error)
    flush_wrote (a, q->r);
  q->r->state = NULL;
  if (q->r != &a->clear.flush) {
    count_request (a, q);
    push_done (a, q->r, q->error);
  }
  TAILQ_REMOVE (&a->requests, q, link);
  if (--a->requests_count == 0)
    a->idle_since_ns = a->now_ns;
  spares_give (&a->spare_reqs, q);
}

/* End what is parked, or set it going under the lock that it asked for, when
 * nothing else of the request is on its way.  True: it is not our turn.
 */
static bool
settle_parked (struct array *a, struct req *q)
{
  struct piece *p, *next;

  if (q->parked == 0)
    return false;
  if (!q->error) {
    if (q->parked < q->pieces_count)
      return true;
    /* A read that repairs a copy needs a lease.  With a part, repairs lie in it. */
    if (array_asks (a) && q->want == LOCK_EXCLUSIVE && !lease_take (a, q))
      return true;
    if (q->lock < q->want) {
      if (q->lock != LOCK_NONE)
        range_drop (a, q);
      if (!range_take (a, q, q->want))
        return true;
    }
  }
  TAILQ_FOREACH_SAFE (p, &q->pieces, link, next)
    if (p->place == PIECE_PARKED)
      piece_move (a, p, PIECE_READY);
  return true;
}

/* A piece of a write is done.  But if its data member has been recorded as out
 * since, its image may be in our buffer only; and writes of a member that came
 * back may be lost.
 */
static bool
in_danger (const struct array *a, const struct req *q,
           const struct layout_piece *at)
{
  bool danger = !member_in_sync (a, at->copy[0].member);

  for (unsigned c = 0; c < at->copies; c++)
    danger |= a->member[at->copy[c].member].returned > q->since;
  return danger;
}

/* A piece that has started goes on even if its request fails: the copies must
 * become the same.  Only array_stop leaves it as it is.
 */
static void
piece_go (struct array *a, struct piece *p)
{
  bool writes = request_writes (p->req->r);

  assert (p->place == PIECE_READY || p->place == PIECE_SPACE);
  if (a->stopped || (p->req->error && !(writes && p->started)))
    piece_end (a, p);
  else if (writes)
    write_go (a, p);
  else
    read_go (a, p);
}

/* A write is complete, and is acknowledged when the copies that survive have
 * it: once more, for the pieces of which that is not sure any longer.
 */
static bool
once_more (struct array *a, struct req *q)
{
  if (q->error || !request_writes (q->r) || q->commits == a->commits ||
      (!q->buffered && a->returned <= q->commits))
    return false;
  q->since = q->commits;
  q->commits = a->commits;
  q->again = true;
  q->wrote_ns = 0;
  q->cursor = 0;
  req_wake (a, q);
  return true;
}

/* Ask each member that has a copy to flush.  A member that still flushes has
 * not failed as a whole, so only the block itself is unreadable
 * (docs/PROTOCOL.md, B1).
 */
static void
prove (struct array *a, struct req *q)
{
  struct layout_piece at;

  q->proving = true;
  layout_map (a->layout, q->r->offset, q->r->length, &at);
  for (unsigned c = 0; c < at.copies; c++) {
    unsigned member = at.copy[c].member;
    struct aio *x;

    if (!member_readable (a, member))
      continue;
    x = aio_new (a, FOR_PROOF, IO_FLUSH, member);
    x->req = q;
    q->answers++;
    aio_send (a, x);
  }
  q->unproven = q->answers == 0;
}

/* No copy of what is accepted as lost can be read: zeroes, in the same turn, so
 * that no write of a client comes in between.  A member that has gone since it was
 * accepted may have a good copy, and come back with it.  True: it is not over.
 */
static bool
forsake (struct array *a, struct req *q)
{
  if (q->answers > 0)
    return true;
  if (q->r->op != ARRAY_ACCEPT || q->error != EIO || a->stopped ||
      q->r->epoch != a->config.epoch || q->unproven)
    return false;
  if (!q->proving) {
    prove (a, q);
    return q->answers > 0;
  }
  q->r->op = ARRAY_ZERO;
  q->r->flags = ARRAY_FUA;
  q->r->lost = true;
  q->error = 0;
  q->cursor = 0;
  q->commits = a->commits;
  req_wake (a, q);
  return true;
}

static void
req_run (struct array *a, struct req *q)
{
  const struct array_request *r = q->r;
  uint64_t most;

  if (r->op == ARRAY_FLUSH || r->op == ARRAY_EXTENTS) {
    if (!q->busy)
      req_done (a, q);
    return;
  }
  if (!q->error && (q->blockers > 0 || q->waits))
    return; /* range_drop of the last one wakes it, or a grant */
  if (settle_parked (a, q))
    return;
  /* Cut the next pieces off and send them on their way. */
  a->plan++;
  most = images_piece_bytes_max (a->images);
  while (!q->error && q->cursor < r->length && q->parked == 0 &&
         q->spacing == 0 && q->pieces_count < REQUEST_PIECES_MAX) {
    struct layout_piece at;

    layout_map (a->layout, r->offset + q->cursor, r->length - q->cursor, &at);
    if (r->op == ARRAY_WRITE && at.length > most)
      at.length = most;
    q->cursor += at.length;
    if (!q->again || in_danger (a, q, &at))
      piece_go (a, piece_new (a, q, &at));
  }
  if (q->pieces_count == 0 && (q->error || q->cursor == r->length) &&
      !forsake (a, q) && !once_more (a, q) &&
      !(request_writes (r) && r->flags & ARRAY_FUA && round_holds (a, q)))
    req_done (a, q);
}

/* Work until every request waits for an answer. */

static void
pump (struct array *a)
{
  struct aio *x;
  struct piece *p;
  struct req *q;
  bool more;

  do {
    while ((x = TAILQ_FIRST (&a->failed)))
      answer_take (a, x, ESHUTDOWN);
    while ((p = TAILQ_FIRST (&a->ready)))
      piece_go (a, p);
    while ((q = TAILQ_FIRST (&a->runnable))) {
      TAILQ_REMOVE (&a->runnable, q, run_link);
      q->runnable = false;
      req_run (a, q);
    }
    p = TAILQ_FIRST (&a->space);
    if (p)
      piece_go (a, p);
    more = TAILQ_FIRST (&a->space) != p;
    if (a->look)
      lease_look (a);
    send_images (a);
    if (a->look) {
      a->look = false;
      round_look (a);
      flush_look (a);
      join_look (a);
    }
  } while (more || !TAILQ_EMPTY (&a->failed) || !TAILQ_EMPTY (&a->ready) ||
           !TAILQ_EMPTY (&a->runnable) || a->look);
}

/* Inputs. */

static void
advance (struct array *a, uint64_t now_ns)
{
  if (now_ns > a->now_ns)
    a->now_ns = now_ns;
}

/* Errors that are known at once; -1: go on. */
static int
refusal (const struct array *a, const struct array_request *r)
{
  if (a->stopped)
    return a->stopped;
  if (r->op == ARRAY_FLUSH)
    return a->config.readonly ? 0 : -1;
  if (a->config.readonly && (request_writes (r) || r->op == ARRAY_ACCEPT))
    return EROFS;
  if (r->offset > a->layout->size || r->length > a->layout->size - r->offset)
    return EINVAL;
  if (r->length == 0)
    return 0;
  return (request_writes (r) || r->op == ARRAY_ACCEPT) && array_pinned (a) &&
             !lease_may_begin (a, r)
           ? EPERM
           : -1;
}

void
array_submit (struct array *a, struct array_request *r, uint64_t now_ns)
{
  int error;
  struct req *q;

  advance (a, now_ns);
  r->extents = NULL;
  r->extents_count = 0;
  r->lost = false;
  error = refusal (a, r);
  if (error != -1) {
    push_done (a, r, error);
    return;
  }
  assert (r->client || (!request_writes (r) && r->op != ARRAY_ACCEPT));
  q = req_new (a, r);
  if (a->config.leases && r->op != ARRAY_FLUSH)
    lease_has (a, q);
  switch (r->op) {
  case ARRAY_FLUSH:
    flush_begin (a, q);
    break;
  case ARRAY_EXTENTS:
    extents_begin (a, q);
    break;
  case ARRAY_READ:
    /* A write that a member refuses may have its turn for long. */
    if (!a->degraded || a->refused_count > 0 || range_take (a, q, LOCK_SHARED))
      req_wake (a, q);
    break;
  default:
    if ((!a->config.leases || lease_take (a, q)) &&
        range_take (a, q, LOCK_EXCLUSIVE))
      req_wake (a, q);
    break;
  }
  pump (a);
}

void
array_io_done (struct array *a, struct array_io *io, int error, uint64_t now_ns)
{
  struct aio *x = (struct aio *) io;

  advance (a, now_ns);
  assert (x->place == AIO_SENT || x->place == AIO_ORPHAN);
  assert (a->in_flight > 0);
  a->in_flight--;
  if (x->place == AIO_SENT)
    timing_answered (a, x, error);
  answer_take (a, x, error);
  hung_look (a);
  overdue_look (a);
  pump (a);
}

void
array_heard (struct array *a, unsigned member, uint64_t heard_ns)
{
  timing_heard (a, member, heard_ns);
}

void
array_tick (struct array *a, uint64_t now_ns)
{
  advance (a, now_ns);
  hung_look (a);
  overdue_tick (a);
  join_tick (a);
  images_tick (a->images, a->now_ns);
  if (a->requests_count == 0 && images_resting (a->images) &&
      a->idle_since_ns + IDLE_NS <= a->now_ns)
    images_fire (a->images);
  clear_tick (a);
  round_tick (a);
  read_tick (a);
  refused_tick (a);
  if (a->memory_ns <= a->now_ns)
    a->memory_ns = UINT64_MAX;
  pump (a);
  if (a->memory_ns == UINT64_MAX) /* nobody lacks it any more */
    a->memory_since_ns = 0;
}

void
array_lost (struct array *a, unsigned member, const char *reason,
            uint64_t now_ns)
{
  advance (a, now_ns);
  assert (member < a->layout->members);
  member_lost (a, member, "%s", reason);
  pump (a);
}

void
array_commit (struct array *a, uint64_t epoch, const enum member_state states[],
              uint64_t now_ns)
{
  advance (a, now_ns);
  epoch_commit (a, epoch, states);
  pump (a);
}

void
array_prepare (struct array *a, uint64_t epoch,
               const enum member_state states[], uint64_t now_ns)
{
  advance (a, now_ns);
  join_prepare (a, epoch, states);
  pump (a);
}

void
array_back (struct array *a, unsigned member, bool kept, uint64_t reach,
            uint64_t now_ns)
{
  advance (a, now_ns);
  assert (member < a->layout->members);
  epoch_back (a, member, kept, reach);
  pump (a);
}

void
array_trust (struct array *a, uint64_t until_ns, uint64_t now_ns)
{
  advance (a, now_ns);
  a->trust_ns = until_ns;
  join_release (a);
  pump (a);
}

void
array_all_arrived (struct array *a, uint64_t epoch, uint64_t now_ns)
{
  advance (a, now_ns);
  a->all_arrived = epoch;
  join_release (a);
  pump (a);
}

uint64_t
array_arrived (struct array *a, uint64_t now_ns)
{
  uint64_t epoch;

  advance (a, now_ns);
  epoch = epoch_arrived (a);
  pump (a); /* the images that it waits for */
  return epoch;
}

void
array_settled (struct array *a, unsigned member, uint64_t offset,
               uint64_t length, uint64_t now_ns)
{
  advance (a, now_ns);
  assert (member < a->layout->members);
  a->clear.settle = true;
  if (offset >= a->layout->member_bytes) /* of no use to the array */
    return;
  if (length > a->layout->member_bytes - offset)
    length = a->layout->member_bytes - offset;
  if (length == 0)
    return;
  /* A third copy that has joined since the maps were read has its peers' bits. */
  for (unsigned i = 0; i < a->layout->members; i++)
    if (i == member ||
        (a->layout->copies > 2 && layout_group_number (a->layout, i) ==
                                    layout_group_number (a->layout, member)))
      clear_touch_range (a, i, offset, length);
  round_touch (a);
  pump (a);
}

void
array_lease_grant (struct array *a, const struct array_range *granted,
                   unsigned count, uint64_t now_ns)
{
  advance (a, now_ns);
  lease_grant (a, granted, count);
  pump (a);
}

void
array_lease_recover (struct array *a, const struct array_range *ranges,
                     unsigned count, uint64_t now_ns)
{
  advance (a, now_ns);
  lease_recover (a, ranges, count);
  pump (a);
}

void
array_lease_recovered (struct array *a, uint64_t now_ns)
{
  advance (a, now_ns);
  lease_recovered (a);
  pump (a);
}

void
array_lease_leave (struct array *a, const struct array_range *must,
                   const struct array_range *wish, uint64_t now_ns)
{
  advance (a, now_ns);
  lease_leave (a, must, wish);
  pump (a);
}

void
array_stop (struct array *a, int error, uint64_t now_ns)
{
  struct req *q;
  struct piece *p, *next;

  advance (a, now_ns);
  if (a->stopped)
    return;
  a->stopped = error;
  images_discard (a->images);
  aio_recall (a);
  TAILQ_FOREACH (q, &a->requests, link) {
    req_fail (a, q, error);
    TAILQ_FOREACH_SAFE (p, &q->pieces, link, next)
      if (p->place != PIECE_IO)
        piece_end (a, p);
    if (q->r->op == ARRAY_FLUSH)
      flush_forget (a, q);
    else if (q->r->op == ARRAY_EXTENTS && !q->asked)
      q->busy = false;
  }
  pump (a);
}

/* Outputs. */

struct array_io *
array_next_io (struct array *a)
{
  struct aio *x = TAILQ_FIRST (&a->out);

  if (!x)
    return NULL;
  TAILQ_REMOVE (&a->out, x, link);
  x->place = AIO_SENT;
  x->io.sent_ns = a->now_ns;
  TAILQ_INSERT_TAIL (&a->sent, x, link);
  timing_sent (a, x);
  a->in_flight++;
  return &x->io;
}

struct array_request *
array_next_done (struct array *a)
{
  struct array_request *r = a->done_first;

  if (!r)
    return NULL;
  a->done_first = r->next;
  if (!a->done_first)
    a->done_last = &a->done_first;
  r->next = NULL;
  return r;
}

bool
array_next_notice (struct array *a, struct array_notice *notice)
{
  struct notice *n = TAILQ_FIRST (&a->notices);

  if (!n)
    return false;
  *notice = n->notice;
  TAILQ_REMOVE (&a->notices, n, link);
  free (n);
  return true;
}

uint64_t
array_deadline (const struct array *a)
{
  bool idle = a->requests_count == 0 && images_resting (a->images);
  uint64_t at[] = {
    images_deadline (a->images),
    clear_deadline (a),
    overdue_deadline (a),
    hung_deadline (a),
    join_deadline (a),
    round_deadline (a),
    refused_deadline (a),
    idle ? a->idle_since_ns + IDLE_NS : UINT64_MAX,
    a->others_ns,
    a->memory_ns,
  };
  uint64_t first = UINT64_MAX;

  if (a->stopped)
    return UINT64_MAX;
  for (unsigned i = 0; i < sizeof at / sizeof at[0]; i++)
    first = at[i] < first ? at[i] : first;
  return first;
}

bool
array_differs (const struct array *a)
{
  return a->clear.differs;
}

bool
array_idle (const struct array *a)
{
  return a->requests_count == 0 && a->in_flight == 0 && TAILQ_EMPTY (&a->out) &&
         TAILQ_EMPTY (&a->held) && TAILQ_EMPTY (&a->refused) &&
         images_empty (a->images);
}

void
array_stats (const struct array *a, uint64_t now_ns, struct array_stats *stats)
{
  struct images_stats s;

  *stats = a->stats;
  images_stats (a->images, &s);
  stats->image_bytes = s.bytes;
  stats->image_bytes_max = a->config.image_buffer_bytes;
  if (s.oldest_ns && now_ns > s.oldest_ns)
    stats->image_oldest_ns = now_ns - s.oldest_ns;
  if (a->memory_since_ns && now_ns > a->memory_since_ns)
    stats->memory_wait_ns = now_ns - a->memory_since_ns;
  stats->images_sent += s.sent;
  stats->images_replaced = s.replaced;
  stats->batches = s.batches;
  stats->requests_waiting = a->requests_count;
  stats->ios_in_flight = a->in_flight;
  timing_stats (a, stats);
  refused_stats (a, now_ns, stats);
}
