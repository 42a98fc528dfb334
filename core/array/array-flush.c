/* array-flush.c: FLUSH, the promise (docs/DESIGN.md 6.2).
 *
 * The images accepted so far are sent: a mark in the image buffer.  Each member
 * that counts is flushed as soon as its own images are written, so most often
 * at once, beside the images of others.  The FLUSH is done when for each of
 * them a flush is answered that began after those writes were answered.
 * `event` counts the answers to writes: a member's `loose` is the event of its
 * last write that was not stable by itself (FUA), and a flush that starts at an
 * event covers all up to there.  Rounds must be complete, too, and begin beside
 * all that (array-round.c).
 *
 * If the images of a member go in a single run, and it has no other unstable
 * write, the run is written as stable, and no flush follows: so the commit of a
 * database (a write, and a FLUSH when it is answered) waits for one sync of its
 * data and one of its image, at the same time.
 *
 * Several FLUSHes share one flush that began late enough.  While one flush is
 * on its way one more may begin, for FLUSHes that came after the first one's
 * start; later FLUSHes share the next.  So each of many writers waits for at
 * most two, and the syncs do not grow with their number.
 *
 * A FLUSH fails when writes that it covers may be lost, as when a member's disk
 * has lost its cache.  As with fsync on Linux, each client that has made any of
 * these writes has one FLUSH of its own fail, even if other clients' FLUSHes
 * have failed before.  But a FLUSH covers the writes of all clients
 * (can_multi_conn promises that): so until a FLUSH of one of these clients has
 * failed, a FLUSH of any other client fails as well.  FLUSHes under way at that
 * time fail, too.  Such a failure reports the loss to its client if the FLUSH
 * began after all lost writes were acknowledged; otherwise the client's next
 * FLUSH fails, too.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "array-internal.h"

/* A repair, or the recovery of orphans, writes data that other copies have:
 * nothing is lost with it.  Its FLUSH covers only its own writes, and reports
 * no other loss to a client.
 */
static bool
repairs (const struct array *a, const struct array_client *c)
{
  return c && (c == a->own || c->recovers);
}

void
flush_begin (struct array *a, struct req *q)
{
  q->busy = true;
  q->shift = a->clear.shifts;
  q->begun = a->event;
  if (q->r->client)
    q->r->client->recovers |= (q->r->flags & ARRAY_RECOVER) != 0;
  q->failed = (a->untold && !(q->r->client && q->r->client->recovers)) ||
              (q->r->client && q->r->client->owed);
  q->mark = images_mark (a->images);
  q->need = alloc_zeroed (a->layout->members * sizeof q->need[0]);
  for (unsigned i = 0; i < a->layout->members; i++) {
    if (a->config.service) /* it speaks for other hosts, too */
      a->member[i].writes.loose = ++a->event;
    if (member_counts (a, i))
      q->need[i] = NEED_IMAGES;
  }
  round_ahead (a);
  TAILQ_INSERT_TAIL (&a->flushes, q, flush_link);
  a->look = true;
}

void
flush_forget (struct array *a, struct req *q)
{
  if (!q->busy)
    return;
  TAILQ_REMOVE (&a->flushes, q, flush_link);
  free (q->need);
  q->need = NULL;
  q->busy = false;
  req_wake (a, q);
}

struct array_client *
array_client_open (struct array *a)
{
  struct array_client *c = alloc_zeroed (sizeof *c);

  TAILQ_INSERT_TAIL (&a->clients, c, link);
  return c;
}

static void
raise_to (uint64_t *to, uint64_t event)
{
  if (*to < event)
    *to = event;
}

/* Its writes may be lost later, and its FLUSH would never come. */
void
array_client_close (struct array *a, struct array_client *c)
{
  const struct req *q;

  TAILQ_FOREACH (q, &a->requests, link)
    assert (q->r->client != c);
  for (unsigned i = 0; !repairs (a, c) && i < a->layout->members; i++)
    raise_to (&a->former->wrote[i], c->wrote[i]);
  TAILQ_REMOVE (&a->clients, c, link);
  free (c);
}

void
flush_wrote (struct array *a, const struct array_request *r)
{
  struct layout_piece at;

  if (r->flags & ARRAY_FUA)
    return; /* it is stable */
  r->client->recovers |= (r->flags & ARRAY_RECOVER) != 0;
  a->event++;
  for (uint64_t done = 0; done < r->length; done += at.length) {
    layout_map (a->layout, r->offset + done, r->length - done, &at);
    for (unsigned c = 0; c < at.copies; c++)
      r->client->wrote[at.copy[c].member] = a->event;
  }
}

static void
fail_all (struct array *a)
{
  struct req *q;

  TAILQ_FOREACH (q, &a->flushes, flush_link)
    q->failed = true;
}

void
flush_gone (struct array *a, unsigned member)
{
  struct array_client *c;
  bool any = false;

  a->losses++; /* even if we have written nothing: we may have read it */
  TAILQ_FOREACH (c, &a->clients, link) {
    if (c->wrote[member] <= a->stable)
      continue;
    c->owed = true;
    raise_to (&c->gone, c->wrote[member]);
    if (repairs (a, c))
      continue;
    any = true;
    raise_to (&a->gone, c->wrote[member]);
  }
  if (!any)
    return;
  a->untold = true;
  fail_all (a);
}

uint64_t
array_losses (const struct array *a)
{
  return a->losses;
}

void
flush_told (struct array *a, unsigned member)
{
  flush_gone (a, member);
  fail_all (a);
}

void
flush_want (struct array *a, unsigned member, uint64_t event)
{
  struct array_member *m = &a->member[member];
  struct aio **place = NULL;

  for (unsigned k = 0; k < FLUSHES_MAX; k++)
    if (!m->writes.flush[k])
      place = &m->writes.flush[k];
    else if (m->writes.flush[k]->start >= event)
      return;
  if (!place)
    return; /* the next one that is answered makes room */
  *place = aio_new (a, FOR_FLUSH, IO_FLUSH, member);
  (*place)->start = a->event;
  aio_send (a, *place);
}

bool
flush_rides (const struct array *a, unsigned member)
{
  const struct array_member *m = &a->member[member];
  uint64_t flushed = m->writes.flushed;
  const struct req *q;

  for (unsigned k = 0; k < FLUSHES_MAX; k++)
    if (m->writes.flush[k] && m->writes.flush[k]->start > flushed)
      flushed = m->writes.flush[k]->start;
  /* While not all members are there a flush may take as long as it takes, and a write
   * may not (array-overdue.c).
   */
  if (a->degraded || m->writes.loose > flushed ||
      !images_last (a->images, member))
    return false;
  TAILQ_FOREACH (q, &a->flushes, flush_link)
    if (q->need[member] == NEED_IMAGES)
      return true;
  return false;
}

/* Is all stable that this FLUSH needs?  Ask for what is not.  A member is flushed
 * when its own images are written, whatever others wait for.
 */
static bool
synced (struct array *a, struct req *q)
{
  bool all = true, drained = true;

  for (unsigned i = 0; i < a->layout->members; i++) {
    const struct array_member *m = &a->member[i];

    if (q->need[i] == NEED_IMAGES && images_drained_of (a->images, i, q->mark))
      q->need[i] = m->writes.loose;
    drained &= q->need[i] != NEED_IMAGES;
    if (q->need[i] != NEED_IMAGES &&
        (!member_counts (a, i) || m->writes.flushed >= q->need[i]))
      q->need[i] = 0;
    if (q->need[i] == 0)
      continue;
    all = false;
    if (q->need[i] != NEED_IMAGES && !member_is_lost (a, i))
      flush_want (a, i, q->need[i]);
  }
  if (drained && !q->drained && q->r->flags & ARRAY_COVER) {
    q->cover = a->round.target;
    round_hurry (a, q->cover);
  }
  q->drained |= drained;
  return all;
}

void
flush_look (struct array *a)
{
  struct req *q, *next;

  TAILQ_FOREACH_SAFE (q, &a->flushes, flush_link, next) {
    struct array_client *c = q->r->client;

    if (!synced (a, q) || round_holds (a, q) || !round_covers (a, q->cover))
      continue;
    raise_to (&a->stable, q->begun);
    if (q->failed) {
      req_fail (a, q, EIO);
      if (c && q->begun >= c->gone)
        c->owed = false;
      if (!repairs (a, c) && q->begun >= a->gone)
        a->untold = false;
    }
    flush_forget (a, q);
  }
}

void
flush_answered (struct array *a, struct aio *x, bool ok)
{
  struct array_member *m = &a->member[x->io.member];

  for (unsigned k = 0; k < FLUSHES_MAX; k++)
    if (m->writes.flush[k] == x)
      m->writes.flush[k] = NULL;
  if (ok && m->writes.flushed < x->start)
    m->writes.flushed = x->start;
  a->look = true;
}
