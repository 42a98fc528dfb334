/* array-flush.c: FLUSH, the promise (DESIGN principle 5).
 *
 * First the images accepted so far are drained: a mark in the image buffer.
 * Then every member that counts and was written since its last flush *began* is
 * flushed, and the FLUSH is done when for each of them a flush is answered
 * that began after those writes were answered.  Several FLUSHes share one
 * that began late enough.  `event` counts the answers to writes: a member's
 * `written` is the event of its last one, and a flush that starts at an event
 * covers all up to there.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "array-internal.h"

void
flush_begin (struct array *a, struct req *q)
{
  q->busy = true;
  q->shift = a->clear.shifts;
  q->failures = a->failures;
  q->failed = a->failures > a->failures_told;
  q->mark = images_mark (a->images);
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

void
flush_fail (struct array *a)
{
  struct req *q;

  a->failures++;
  TAILQ_FOREACH (q, &a->flushes, flush_link)
    q->failed = true;
}

/* All images are drained: what must be stable? */
static void
begin_sync (struct array *a, struct req *q)
{
  q->syncing = true;
  q->need = array_alloc (a->layout->members * sizeof q->need[0]);
  for (unsigned i = 0; i < a->layout->members; i++) {
    const struct array_member *m = &a->member[i];

    if (member_counts (a, i) && m->written > m->flushed)
      q->need[i] = m->written;
  }
}

void
flush_start (struct array *a, unsigned member)
{
  struct array_member *m = &a->member[member];

  m->flush = aio_new (a, FOR_FLUSH, IO_FLUSH, member);
  m->flush->start = a->event;
  aio_send (a, m->flush);
}

/* Is all stable that this FLUSH needs?  Ask for what is not. */
static bool
synced (struct array *a, struct req *q)
{
  bool all = true;

  for (unsigned i = 0; i < a->layout->members; i++) {
    const struct array_member *m = &a->member[i];

    if (!member_counts (a, i) || m->flushed >= q->need[i])
      q->need[i] = 0;
    if (q->need[i] == 0)
      continue;
    all = false;
    if (!m->lost && !m->flush)
      flush_start (a, i);
  }
  return all;
}

/* It is the client who is to hear of it. */
static void
tell_failure (struct array *a, struct req *q)
{
  req_fail (a, q, EIO);
  if (q->r != &a->clear.flush && a->failures_told < q->failures)
    a->failures_told = q->failures;
}

void
flush_look (struct array *a)
{
  struct req *q, *next;

  TAILQ_FOREACH_SAFE (q, &a->flushes, flush_link, next) {
    if (!q->syncing) {
      if (!images_drained (a->images, q->mark))
        continue;
      begin_sync (a, q);
    }
    if (synced (a, q)) {
      if (q->failed)
        tell_failure (a, q);
      flush_forget (a, q);
    }
  }
}

void
flush_answered (struct array *a, struct aio *x, bool ok)
{
  struct array_member *m = &a->member[x->io.member];

  assert (m->flush == x);
  m->flush = NULL;
  if (ok && m->flushed < x->start)
    m->flushed = x->start;
  a->look = true;
}
