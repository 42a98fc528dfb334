/* array-member.c: the changes by a member's failure.
 *
 * A failure is first only known to us: CONNECTION_LOST. The member gets no more
 * requests, weftd gets a report, and requests that need the member wait
 * (stalled pieces, images of the member, FLUSHes). When weftd has recorded the
 * loss, array_commit says so (array-epoch.c).
 *
 * If a joining member is lost, nothing waits for it: requests on their way to
 * it are dropped at once.  Writes skip it from then on, and when it is back its
 * joining has begun again.
 */

#include <config.h>

#include <stdarg.h>
#include <stdio.h>

#include "array-internal.h"

struct array_notice *
member_notice_new (struct array *a, enum array_notice_kind kind,
                   unsigned member)
{
  struct notice *n = alloc_zeroed (sizeof *n);

  n->notice.kind = kind;
  n->notice.member = member;
  n->notice.epoch = a->config.epoch;
  TAILQ_INSERT_TAIL (&a->notices, n, link);
  return &n->notice;
}

/* Does the request wait for an answer of the member? */
static bool
needs (const struct array *a, const struct req *q, unsigned member)
{
  const struct piece *p;

  if (q->need)
    return q->need[member] > a->member[member].writes.flushed;
  TAILQ_FOREACH (p, &q->pieces, link)
    for (unsigned c = 0; c < p->at.copies; c++)
      if (p->at.copy[c].member == member && p->started &&
          (request_writes (q->r) ? !(p->written & 1u << c) : p->copy == c))
        return true;
  return false;
}

/* How long the oldest request or image has waited that needs the member. */
static uint64_t
waited_ns (const struct array *a, unsigned member)
{
  uint64_t image_ns = images_waits_since (a->images, member);
  uint64_t first = image_ns ? image_ns : a->now_ns;
  const struct req *q;

  TAILQ_FOREACH (q, &a->requests, link) {
    uint64_t since_ns = q->leased ? q->leased_ns : q->begun_ns;

    if (since_ns < first && needs (a, q, member))
      first = since_ns;
  }
  return a->now_ns - first;
}

static void
tell (struct array *a, unsigned member, const char *fmt, va_list args)
{
  struct array_notice *notice = member_notice_new (a, NOTICE_LOST, member);

  vsnprintf (notice->reason, sizeof notice->reason, fmt, args);
  notice->answers = a->member[member].loss.answers;
  notice->waited_ms = waited_ns (a, member) / NS_PER_MS;
  a->member[member].loss.reported = true;
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
    images_pause (a->images, member, member_is_lost (a, member));
  else
    images_drop (a->images, member);
}

void
member_lose (struct array *a, unsigned member)
{
  struct array_member *m = &a->member[member];

  m->connection = CONNECTION_LOST;
  /* When it is back its joining has begun again, without the round, or its disk
   * may be an old copy.
   */
  m->rounds.newest = m->rounds.heard = 0;
  m->loss.reported = false;
  a->degraded = true;
  sort_images (a, member);
  aio_orphan (a, member);
  a->look = true;
}

void
member_forget_back (struct array *a, unsigned member)
{
  struct array_member *m = &a->member[member];

  if (m->connection == CONNECTION_BACK)
    m->connection = CONNECTION_LOST;
}

void
member_lost (struct array *a, unsigned member, const char *fmt, ...)
{
  va_list args;

  member_forget_back (a, member);
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
  a->clear.differs = false;
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
      m->writes.loose = ++a->event;
    if (!m->counts || !counted)
      m->rounds.newest = m->rounds.heard = 0;
    a->degraded |= !member_readable (a, i);
    a->clear.differs |= m->differs;
    sort_images (a, i);
  }
}
