/* array-member.c: what a member's failure and a new epoch change.
 *
 * A failure is first only known to us: `lost`.  The member is asked nothing
 * more, weftd is told, and what needs the member waits (stalled pieces, images
 * of the member, FLUSHes).  When weftd has recorded it, array_commit says so:
 * the member's state is out, its images are dropped, and what waited is
 * looked at again.  A second loss meanwhile is the same, one commit later.
 */

#include <config.h>

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "array-internal.h"

static struct array_notice *
notice_new (struct array *a, enum array_notice_kind kind, unsigned member)
{
  struct notice *n = array_alloc (sizeof *n);

  n->notice.kind = kind;
  n->notice.member = member;
  TAILQ_INSERT_TAIL (&a->notices, n, link);
  return &n->notice;
}

void
member_lost (struct array *a, unsigned member, const char *fmt, ...)
{
  struct array_notice *notice;
  va_list args;

  if (a->stopped || !member_usable (a, member))
    return;
  a->member[member].lost = true;
  a->degraded = true;
  images_pause (a->images, member, true);
  aio_orphan (a, member);
  notice = notice_new (a, NOTICE_LOST, member);
  va_start (args, fmt);
  vsnprintf (notice->reason, sizeof notice->reason, fmt, args);
  va_end (args);
}

void
member_loss (struct array *a)
{
  bool lost[ARRAY_MEMBERS_MAX] = { false };
  uint64_t bytes;
  struct array_notice *notice;

  a->degraded = false;
  for (unsigned i = 0; i < a->layout->members; i++) {
    lost[i] = !member_in_sync (a, i);
    a->degraded |= !member_usable (a, i);
    if (lost[i])
      images_drop (a->images, i);
  }
  bytes = layout_loss (a->layout, lost, NULL);
  if (bytes > a->lost_bytes && a->lost_bytes == 0) {
    notice = notice_new (a, NOTICE_DATA_LOST, 0);
    snprintf (notice->reason, sizeof notice->reason,
              "no copy is left of %llu bytes of the array; what is there can "
              "be read again only if a member comes back",
              (unsigned long long)bytes);
  }
  a->lost_bytes = bytes;
}

/* Has a member that goes out anything that no FLUSH has made stable? */
static bool
unflushed (const struct array *a, unsigned member)
{
  const struct array_member *m = &a->member[member];

  return m->written > m->flushed;
}

/* Those that are under way, else the next one. */
static void
fail_flush (struct array *a)
{
  struct req *q;

  a->flush_failed = true;
  TAILQ_FOREACH (q, &a->flushes, flush_link) {
    q->failed = true;
    if (q->r != &a->clear.flush)
      a->flush_failed = false;
  }
}

static void
go_on (struct array *a, struct piece_queue *queue)
{
  struct piece *p;

  while ((p = TAILQ_FIRST (queue)))
    piece_move (a, p, PIECE_READY);
}

void
member_commit (struct array *a, uint64_t epoch,
               const enum member_state states[])
{
  uint64_t lost_bytes = a->lost_bytes;
  bool out = false, risked = false;

  if (epoch < a->config.epoch)
    return; /* overtaken by a newer one */
  a->config.epoch = epoch;
  /* Others may have lost a member that we have not: what we have asked of it
   * is over as well.
   */
  for (unsigned i = 0; i < a->layout->members; i++)
    if (states[i] != MEMBER_IN_SYNC)
      member_lost (a, i, "weftd has recorded it as out");
  for (unsigned i = 0; i < a->layout->members; i++) {
    struct array_member *m = &a->member[i];
    enum member_state old = m->state;

    m->state = states[i];
    if (old == m->state)
      continue; /* a loss that this epoch does not know waits for the next */
    if (old == MEMBER_IN_SYNC) {
      risked |= unflushed (a, i);
      risked |= images_drop (a->images, i);
      m->lost = false;
      out = true;
    }
    else if (m->state == MEMBER_IN_SYNC) {
      m->lost = false;
      m->written = ++a->event;
      images_pause (a->images, i, false);
    }
  }
  a->commits += out;
  member_loss (a);
  if (a->lost_bytes > lost_bytes && risked && !a->stopped)
    fail_flush (a);
  go_on (a, &a->stalled);
  for (unsigned i = 0; i < a->layout->members; i++)
    go_on (a, &a->member[i].draining);
  a->look_at_flushes = !TAILQ_EMPTY (&a->flushes);
  clear_states (a);
}
