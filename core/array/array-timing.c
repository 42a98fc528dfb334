/* array-timing.c: how long members take for requests, and which of them are
 * slow.
 *
 * A member is *suspect* when its service time is far above its peers': the mean
 * of its answers, or the time that a request has waited for one.  If there is
 * another copy, reads go there instead (array-read.c); a suspect member has no
 * other disadvantage here.
 */

#include <config.h>

#include <assert.h>
#include <string.h>

#include "array-internal.h"

/* Nobody is asked earlier, unless io_timeout_ms is shorter.  The question is cheap,
 * and no disk is needed to answer it: so it is asked long before the member would be
 * called lost.
 */
#define LEAST_NS (500 * NS_PER_MS)
/* A member that has given fewer answers recently may be of any kind: it is
 * tried after this time.
 */
#define KNOWN_ANSWERS 16
#define STRANGER_NS (2000 * NS_PER_MS)
#define SUSPECT_FACTOR 4
#define SUSPECT_NS (20 * NS_PER_MS)
/* Fewer answers say something only of a member that takes so long for each that more
 * do not come, and was waited for so long in all.
 */
#define SUSPECT_ANSWERS 16
#define SUSPECT_EACH_NS (300 * NS_PER_MS)
#define SUSPECT_SEEN_NS (1500 * NS_PER_MS)
/* How long it is remembered what a member takes for a read, and to sync. */
#define READ_MEMORY_NS (10000 * NS_PER_MS)
#define SYNC_MEMORY_NS (10000 * NS_PER_MS)

uint64_t
timing_longest_ns (const struct array *a)
{
  return a->config.io_timeout_ms * NS_PER_MS;
}

/* The member may keep silent for so long before it is asked. */
static uint64_t
allowed_ns (const struct array *a, const struct overdue *o)
{
  uint64_t most = timing_longest_ns (a), least = most / 32;

  if (least < LEAST_NS)
    least = LEAST_NS;
  if (timeout_answers (&o->service, a->now_ns) < KNOWN_ANSWERS)
    least = most / 8 > STRANGER_NS ? most / 8 : STRANGER_NS;
  return timeout_allowed (&o->service, a->now_ns, least < most ? least : most,
                          most);
}

void
timing_forget (struct array *a, unsigned member)
{
  struct overdue *o = &a->member[member].overdue;

  memset (o, 0, sizeof *o);
  o->allowed_ns = allowed_ns (a, o);
}

/* The time that a member takes for a request: the mean of its recent answers, or the
 * wait of its oldest request, if that is longer.  If there are no such answers, that time
 * is at least what the member was found suspect for.  *known: the time for which it was
 * seen; so a member that answers little is rated, too.
 */
static uint64_t
rate (const struct array *a, unsigned member, bool *known)
{
  const struct overdue *o = &a->member[member].overdue;
  uint64_t count, ns = timeout_recent (&o->service, a->now_ns, &count);
  uint64_t age_ns = o->oldest_ns ? a->now_ns - o->oldest_ns : 0;
  uint64_t each_ns = ns > age_ns ? ns : age_ns;

  if (count == 0 && o->slow_ns > each_ns)
    each_ns = o->slow_ns;

  *known = count >= SUSPECT_ANSWERS || (each_ns >= SUSPECT_EACH_NS &&
                                        ns * count + age_ns >= SUSPECT_SEEN_NS);
  return each_ns;
}

/* The median of the other members' recent service times, of those alone that are
 * known well, if there are any; 0: nothing is known.
 */
static uint64_t
peers_ns (const struct array *a, unsigned member)
{
  uint64_t v[ARRAY_MEMBERS_MAX];
  unsigned n = 0, at;
  bool known, well = false;

  for (unsigned i = 0; i < a->layout->members; i++) {
    uint64_t ns = rate (a, i, &known);

    if (i == member || ns == 0 || !member_readable (a, i) || (well && !known))
      continue;
    if (known && !well) {
      well = true;
      n = 0;
    }
    for (at = n++; at > 0 && v[at - 1] > ns; at--)
      v[at] = v[at - 1];
    v[at] = ns;
  }
  return n > 0 ? v[n / 2] : 0;
}

/* Does the request count?  A sync and an image that stands in for a FLUSH do
 * not: their time does not say how fast the disk answers.
 */
static bool
is_sync (const struct aio *x)
{
  return x->io.kind == IO_FLUSH ||
         (x->purpose == FOR_IMAGES && x->io.flags & ARRAY_FUA);
}

bool
timing_counts (const struct aio *x)
{
  return x->purpose != FOR_PROBE && x->purpose != FOR_PULSE &&
         x->purpose != FOR_ROUND && x->purpose != FOR_WITNESS && !is_sync (x);
}

void
timing_sent (struct array *a, const struct aio *x)
{
  struct overdue *o = &a->member[x->io.member].overdue;

  if (o->waiting++ == 0)
    o->quiet_ns = a->now_ns;
}

static uint64_t
read_ns (const struct array *a, const struct overdue *o)
{
  return a->now_ns - o->read_at_ns < READ_MEMORY_NS ? o->read_ns : 0;
}

uint64_t
timing_read_ns (const struct array *a, unsigned member)
{
  const struct overdue *o = &a->member[member].overdue;
  uint64_t ns = read_ns (a, o);
  uint64_t age_ns = o->oldest_ns ? a->now_ns - o->oldest_ns : 0;

  return ns > age_ns ? ns : age_ns;
}

static void
note_read (struct array *a, const struct aio *x)
{
  struct overdue *o = &a->member[x->io.member].overdue;
  uint64_t old_ns = read_ns (a, o);
  uint64_t ns = (a->now_ns - x->io.sent_ns) / x->queue;

  o->read_ns = old_ns ? (7 * old_ns + ns) / 8 : ns;
  o->read_at_ns = a->now_ns;
}

void
timing_answered (struct array *a, const struct aio *x, int error)
{
  struct overdue *o = &a->member[x->io.member].overdue;

  assert (o->waiting > 0);
  o->waiting--;
  if (x->io.kind == IO_READ) {
    assert (o->reads > 0);
    o->reads--;
  }
  o->quiet_ns = a->now_ns;
  o->probe = NULL;
  if (x->io.sent_ns == o->oldest_ns)
    o->oldest_ns = 0;
  if (!error && is_sync (x)) {
    o->sync_ns = a->now_ns - x->io.sent_ns;
    o->sync_at_ns = a->now_ns;
  }
  if (error || !timing_counts (x))
    return;
  timeout_note (&o->service, a->now_ns, a->now_ns - x->io.sent_ns);
  if (x->io.kind == IO_READ)
    note_read (a, x);
  latency_add (&a->stats.member[x->io.member].service,
               a->now_ns - x->io.sent_ns);
}

void
timing_heard (struct array *a, unsigned member, uint64_t heard_ns)
{
  struct overdue *o = &a->member[member].overdue;

  if (heard_ns <= o->quiet_ns)
    return;
  o->quiet_ns = heard_ns;
  o->probe = NULL;
}

/* Of late a suspect has answered nothing that counts.  It stays one while it owes an
 * answer, or syncs as slowly as it had answered.  Nothing is known of an idle member, and a
 * member that syncs quickly is quick.
 */
static bool
stays_suspect (const struct array *a, const struct overdue *o)
{
  return o->owes ||
         (o->sync_at_ns > 0 && a->now_ns - o->sync_at_ns < SYNC_MEMORY_NS &&
          o->sync_ns > o->slow_ns / 2);
}

void
timing_weigh (struct array *a)
{
  for (unsigned i = 0; i < a->layout->members; i++) {
    struct overdue *o = &a->member[i].overdue;
    uint64_t peers = peers_ns (a, i), count;
    bool known;
    uint64_t ns = rate (a, i, &known);

    timeout_recent (&o->service, a->now_ns, &count);
    if (!o->suspect)
      o->suspect = known && peers > 0 && ns > peers * SUSPECT_FACTOR &&
                   ns > SUSPECT_NS;
    else if (count == 0)
      o->suspect = stays_suspect (a, o);
    else
      o->suspect = ns > SUSPECT_NS / 2 &&
                   ns > (peers ? peers * (SUSPECT_FACTOR / 2) : o->slow_ns / 2);
    o->slow_ns = o->suspect ? ns : 0;
  }
}

bool
timing_suspect (const struct array *a, unsigned member)
{
  return a->member[member].overdue.suspect;
}

void
timing_stats (const struct array *a, struct array_stats *stats)
{
  bool known;

  for (unsigned i = 0; i < a->layout->members; i++) {
    const struct overdue *o = &a->member[i].overdue;

    stats->member[i].service_ns = rate (a, i, &known);
    stats->member[i].timeout_ns = o->allowed_ns;
    stats->member[i].suspect = o->suspect;
  }
}

void
timing_predict (struct array *a)
{
  for (unsigned i = 0; i < a->layout->members; i++) {
    struct overdue *o = &a->member[i].overdue;

    o->allowed_ns = allowed_ns (a, o);
  }
  timing_weigh (a);
}
