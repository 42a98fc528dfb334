/* array-hung.c: members whose disk hangs (docs/DESIGN.md 6.5).
 *
 * A member that has left a request unanswered for ASK_NS is asked for how long its
 * disk has been stuck.  It answers without its disk (member/pulse.h), and goes on
 * being asked.  A disk that has been stuck for HUNG_MS hangs: the member is lost, so
 * that its requests go to other copies.  A slow disk, a disk that syncs for long, and
 * a slow link are not stuck in that sense.
 *
 * A member that has the only copy of something is not lost before io_timeout_ms: its
 * disk may answer again.  To lose it helps no request, but weftd then says that the
 * array has stopped, and gives the member back when its disk answers.
 *
 * The oldest request that each member has not answered is noted here, too: it says how
 * slow the member is before the answer comes (array-overdue.c).
 */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "array-internal.h"
#include "base/bytes.h"
#include "format/batch.h"

#define ASK_NS (500 * NS_PER_MS)
#define ASK_AGAIN_NS (250 * NS_PER_MS)

static bool
old (const struct array *a, const struct aio *x)
{
  return x->io.sent_ns + ASK_NS <= a->now_ns;
}

/* Does the answer need nothing but the member's process? */
static bool
is_sign (const struct aio *x)
{
  return x->purpose == FOR_PROBE || x->purpose == FOR_PULSE ||
         x->purpose == FOR_WITNESS;
}

/* Has something no other copy than the member's? */
static bool
has_last_copy (const struct array *a, unsigned member)
{
  bool lost[ARRAY_MEMBERS_MAX];
  uint64_t before;

  for (unsigned i = 0; i < a->layout->members; i++)
    lost[i] = !member_readable (a, i);
  before = layout_loss (a->layout, lost, NULL);
  lost[member] = true;
  return layout_loss (a->layout, lost, NULL) != before;
}

static void
ask (struct array *a, unsigned member)
{
  struct aio *x = aio_new (a, FOR_PULSE, IO_PULSE, member);

  x->io.offset = PULSE_OFFSET;
  x->io.length = PULSE_BYTES;
  x->io.buf = alloc_zeroed (PULSE_BYTES);
  a->member[member].overdue.pulse = x;
  aio_send (a, x);
}

void
hung_answered (struct array *a, struct aio *x, int error)
{
  unsigned member = x->io.member;
  uint64_t ms = error ? 0 : get_le64 (x->io.buf);
  struct overdue *o = &a->member[member].overdue;

  free (x->io.buf);
  if (o->pulse != x)
    return;
  o->pulse = NULL;
  o->mute = error == EINVAL; /* it is of an older Weft */
  if (ms >= HUNG_MS && o->owes && member_reachable (a, member) &&
      (ms >= a->config.io_timeout_ms || !has_last_copy (a, member)))
    member_lost (a, member,
                 "its disk has answered nothing for %llu ms, although its "
                 "process lives",
                 (unsigned long long) ms);
}

void
hung_look (struct array *a)
{
  const struct aio *x;

  if (a->stopped || a->config.io_timeout_ms == 0 || a->now_ns < a->hung_look_ns)
    return;
  a->hung_look_ns = a->now_ns + ASK_AGAIN_NS;
  for (unsigned i = 0; i < a->layout->members; i++) {
    a->member[i].overdue.owes = false;
    a->member[i].overdue.oldest_ns = 0;
  }
  for (x = TAILQ_FIRST (&a->sent); x && old (a, x); x = TAILQ_NEXT (x, link)) {
    struct overdue *o = &a->member[x->io.member].overdue;

    o->owes |= !is_sign (x);
    if (o->oldest_ns == 0 && timing_counts (x))
      o->oldest_ns = x->io.sent_ns;
  }
  timing_weigh (a);
  for (unsigned i = 0; a->config.pulses && i < a->layout->members; i++) {
    const struct overdue *o = &a->member[i].overdue;

    if (o->owes && !o->pulse && !o->mute && member_reachable (a, i))
      ask (a, i);
  }
}

uint64_t
hung_deadline (const struct array *a)
{
  const struct aio *x = TAILQ_FIRST (&a->sent);
  uint64_t at = x ? x->io.sent_ns + ASK_NS : UINT64_MAX;

  if (x == NULL || !a->config.pulses || a->config.io_timeout_ms == 0)
    return UINT64_MAX;
  return at > a->hung_look_ns ? at : a->hung_look_ns;
}
