/* array-refused.c: requests that a member refuses for the moment
 * (docs/PROTOCOL.md "Errors of a disk").
 *
 * A member without room or memory answers ENOSPC or ENOMEM: it has not failed,
 * the request has had no effect that counts, and the same request may succeed
 * later.  So the request waits here, not at the member, and is sent again;
 * reads of the member go on meanwhile.  A FLUSH or a write with FUA of a member
 * without a batch door (any NBD server) is no such request: there the error may
 * be that of an fsync.
 *
 * After REFUSED_PATIENCE_NS the member is lost if the array can do without it,
 * and without all other members that refuse something at the time.  Otherwise
 * the request waits until it is carried out; array_stats says since when.
 *
 * A read is sent again only where no other copy can be read instead.
 */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "array-internal.h"

/* The first time it may have been an accident. */
#define REFUSED_SOON_NS (10 * NS_PER_MS)
#define REFUSED_AGAIN_NS (200 * NS_PER_MS)
#define REFUSED_PATIENCE_NS (2000 * NS_PER_MS)

bool
refused_for_now (const struct array *a, const struct aio *x, int error)
{
  if (error != ENOSPC && error != ENOMEM)
    return false;
  return x->io.kind != IO_FLUSH &&
         (a->config.batches || !aio_writes (x) || !(x->io.flags & ARRAY_FUA));
}

/* Must these pieces be read from this copy? */
static bool
reads_no_other (const struct array *a, const struct aio *x)
{
  const struct piece *p;

  for (p = x->pieces; p; p = p->next[x->copy])
    if (p->req->r->copy || p->req->r->op == ARRAY_ACCEPT ||
        array_only_reads (a, p->req, p->at.offset, p->at.length) ||
        piece_read_copy (a, p, p->bad | 1u << x->copy) < 0)
      return true;
  return false;
}

bool
refused_waits (struct array *a, struct aio *x, int error)
{
  bool first = x->refused_ns == 0;

  if (!refused_for_now (a, x, error) || a->stopped)
    return false;
  switch (x->purpose) {
  case FOR_PIECES:
    if (x->io.kind == IO_READ && !reads_no_other (a, x))
      return false;
    break;
  case FOR_REPAIR:
  case FOR_IMAGES:
  case FOR_ROUND:
  case FOR_WITNESS:
    break;
  default:
    return false;
  }
  if (first) {
    x->refused_ns = a->now_ns + !a->now_ns;
    a->refused_count++;
  }
  x->again_ns = a->now_ns + (first ? REFUSED_SOON_NS : REFUSED_AGAIN_NS);
  x->refusal = error;
  x->place = AIO_REFUSED;
  TAILQ_INSERT_TAIL (&a->refused, x, link);
  return true;
}

/* The request that the member has refused for the longest time; NULL: none. */
static const struct aio *
oldest (const struct array *a, unsigned member)
{
  const struct aio *x, *first = NULL;

  TAILQ_FOREACH (x, &a->refused, link)
    if (x->io.member == member && (!first || x->refused_ns < first->refused_ns))
      first = x;
  return first;
}

static bool
can_spare (const struct array *a, unsigned member)
{
  bool gone[ARRAY_MEMBERS_MAX] = { false };
  const struct aio *x;

  for (unsigned i = 0; i < a->layout->members; i++)
    gone[i] = i == member || !member_readable (a, i);
  TAILQ_FOREACH (x, &a->refused, link)
    gone[x->io.member] = true;
  return layout_loss (a->layout, gone, NULL) <= a->lost_bytes;
}

void
refused_tick (struct array *a)
{
  struct aio *x, *next;

  for (unsigned i = 0; i < a->layout->members && !TAILQ_EMPTY (&a->refused);
       i++) {
    x = (struct aio *) oldest (a, i);
    if (!x || x->refused_ns + REFUSED_PATIENCE_NS > a->now_ns ||
        !can_spare (a, i))
      continue;
    a->member[i].loss.answers = true;
    member_lost (a, i, "it refuses a %s request of %llu bytes at %llu: %s",
                 aio_name (x->io.kind), (unsigned long long) x->io.length,
                 (unsigned long long) x->io.offset, strerror (x->refusal));
  }
  TAILQ_FOREACH_SAFE (x, &a->refused, link, next)
    if (x->again_ns <= a->now_ns) {
      TAILQ_REMOVE (&a->refused, x, link);
      x->place = AIO_NONE;
      aio_send (a, x);
    }
}

uint64_t
refused_deadline (const struct array *a)
{
  uint64_t first = UINT64_MAX;
  const struct aio *x;

  TAILQ_FOREACH (x, &a->refused, link)
    if (x->again_ns < first)
      first = x->again_ns;
  return first;
}

/* A request that was sent again counts as refused until it is answered. */
void
refused_stats (const struct array *a, uint64_t now_ns,
               struct array_stats *stats)
{
  const struct aio_queue *queues[] = { &a->refused, &a->out, &a->sent };
  const struct aio *x;

  for (unsigned i = 0; i < sizeof queues / sizeof queues[0]; i++)
    TAILQ_FOREACH (x, queues[i], link) {
      uint64_t *ns = &stats->member[x->io.member].refused_ns;

      if (x->refused_ns && now_ns > x->refused_ns &&
          now_ns - x->refused_ns > *ns)
        *ns = now_ns - x->refused_ns;
    }
}
