/* array-member.c: what a member's failure changes.
 *
 * A failure is first only known to us: `lost`.  The member is asked nothing
 * more, weftd is told, and what needs the member waits (stalled pieces, images
 * of the member, FLUSHes).  When weftd has recorded it, array_commit says so
 * (array-epoch.c).
 *
 * A joining member that is lost needs nobody's patience: what was on its way to
 * it is dropped at once.  Writes pass it by from then on, so when it is back it
 * has begun to join anew.
 */

#include <config.h>

#include <stdarg.h>
#include <stdio.h>

#include "array-internal.h"

struct array_notice *
notice_new (struct array *a, enum array_notice_kind kind, unsigned member)
{
  struct notice *n = alloc_zeroed (sizeof *n);

  n->notice.kind = kind;
  n->notice.member = member;
  n->notice.epoch = a->config.epoch;
  TAILQ_INSERT_TAIL (&a->notices, n, link);
  return &n->notice;
}

static void
tell (struct array *a, unsigned member, const char *fmt, va_list args)
{
  struct array_notice *notice = notice_new (a, NOTICE_LOST, member);

  vsnprintf (notice->reason, sizeof notice->reason, fmt, args);
  notice->answers = a->member[member].answers;
  a->member[member].told = true;
}

void
member_tell (struct array *a, unsigned member, const char *fmt, ...)
{
  va_list args;

  va_start (args, fmt);
  tell (a, member, fmt, args);
  va_end (args);
}

/* Its images are sent, kept until it is back, or dropped. */
static void
sort_images (struct array *a, unsigned member)
{
  const struct array_member *m = &a->member[member];

  if (member_reachable (a, member) || m->counts)
    images_pause (a->images, member, m->lost);
  else
    images_drop (a->images, member);
}

void
member_lose (struct array *a, unsigned member)
{
  struct array_member *m = &a->member[member];

  m->lost = true;
  /* When it is back it has joined anew, without the round, or its disk may be an old
   * copy.
   */
  m->round = m->heard = 0;
  m->told = m->fresh = false;
  a->degraded = true;
  sort_images (a, member);
  aio_orphan (a, member);
  a->look = true;
}

void
member_lost (struct array *a, unsigned member, const char *fmt, ...)
{
  va_list args;

  a->member[member].fresh = false;
  if (a->stopped || !member_reachable (a, member))
    return;
  member_lose (a, member);
  va_start (args, fmt);
  tell (a, member, fmt, args);
  va_end (args);
}

void
member_count (struct array *a)
{
  a->degraded = false;
  for (unsigned i = 0; i < a->layout->members; i++) {
    struct array_member *m = &a->member[i];
    bool counted = m->counts;

    /* It may become in-sync in the epoch that is prepared, or in one that was. */
    m->counts = member_in_sync (a, i) ||
                (a->next.epoch &&
                 (a->next.states[i] == MEMBER_IN_SYNC || a->next.promised[i]));
    if (m->counts != counted)
      images_background (a->images, i, !m->counts);
    if (m->counts && !counted)
      m->loose = ++a->event;
    if (!m->counts || !counted)
      m->round = m->heard = 0;
    a->degraded |= !member_readable (a, i);
    sort_images (a, i);
  }
}
