/* array-overdue.c: members that keep silent, and members that are slow
 * (docs/DESIGN.md 6.5).
 *
 * A member that owes us answers and has given none for its time-out, which
 * follows its service times (timeout.h), is asked for a sign of life: an empty
 * batch, for which no disk is needed.  Any answer will do, even to another request, and
 * any part of one: on a congested link whole answers, signs of life among them, wait
 * behind what else is on its way.  Without any the member is lost.  So a member may be
 * as slow as its load and its link make it, and a silent one is found soon after its
 * time-out.  A member that gives signs of life but leaves a request unanswered is lost
 * after IO_PATIENCE times the longest time-out.
 *
 * Where there are no batches the sign of life is a read, which takes a disk as
 * long as any: it may take the rest of the longest time-out.
 *
 * Perhaps it is we who were asleep (a stopped process, a suspended host), and the
 * answers are there, unread: they are read while the probe is under way.
 *
 * A member is *suspect* when its service time is far above its peers', be it the mean
 * of its answers or the time that a request has waited for one.  It is read around
 * where another copy is (array-read.c); nothing else befalls it here.
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
/* A member that has given fewer answers of late may be of any kind: it is asked after
 * so long.
 */
#define KNOWN_ANSWERS 16
#define STRANGER_NS (2000 * NS_PER_MS)
/* A probe that no disk is needed for has so long; of a shorter io_timeout_ms three
 * eighths.
 */
#define PROBE_NS (850 * NS_PER_MS)
#define IO_PATIENCE 8
#define LOOK_NS (1000 * NS_PER_MS) /* how often a prediction is made */
#define SUSPECT_FACTOR 4
#define SUSPECT_NS (20 * NS_PER_MS)
/* Fewer answers say something only of a member that takes so long for each that more
 * do not come, and was waited for so long in all.
 */
#define SUSPECT_ANSWERS 16
#define SUSPECT_EACH_NS (300 * NS_PER_MS)
#define SUSPECT_SEEN_NS (1500 * NS_PER_MS)
/* How long it is remembered what a member takes for a read. */
#define READ_MEMORY_NS (10000 * NS_PER_MS)

static uint64_t
longest_ns (const struct array *a)
{
  return a->config.io_timeout_ms * NS_PER_MS;
}

/* The member may keep silent for so long before it is asked. */
static uint64_t
allowed_ns (const struct array *a, const struct overdue *o)
{
  uint64_t most = longest_ns (a), least = most / 32;

  if (least < LEAST_NS)
    least = LEAST_NS;
  if (timeout_answers (&o->service, a->now_ns) < KNOWN_ANSWERS)
    least = most / 8 > STRANGER_NS ? most / 8 : STRANGER_NS;
  return timeout_allowed (&o->service, a->now_ns, least < most ? least : most,
                          most);
}

/* When a member that is being asked is lost.  (What it is allowed may have changed since
 * it was asked.)
 */
static uint64_t
lost_at_ns (const struct array *a, const struct overdue *o)
{
  uint64_t ns = longest_ns (a) / 8 * 3;
  uint64_t longest = o->quiet_ns + longest_ns (a);

  ns = o->probe_ns + (ns < PROBE_NS ? ns : PROBE_NS);
  return !a->config.batches && longest > ns ? longest : ns;
}

void
overdue_forget (struct array *a, unsigned member)
{
  struct overdue *o = &a->member[member].overdue;

  memset (o, 0, sizeof *o);
  o->allowed_ns = allowed_ns (a, o);
}

/* What a member takes for a request: the mean of the answers of late, or how long
 * its oldest request has waited, if that is longer.  *known: for how long it was
 * seen; so a member that answers little is rated, too.
 */
static uint64_t
rate (const struct array *a, unsigned member, bool *known)
{
  const struct overdue *o = &a->member[member].overdue;
  uint64_t count, ns = timeout_recent (&o->service, a->now_ns, &count);
  uint64_t age_ns = o->oldest_ns ? a->now_ns - o->oldest_ns : 0;

  uint64_t each_ns = ns > age_ns ? ns : age_ns;

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

/* How long a disk takes to sync says nothing of how it answers; nor does an image
 * that stands in for a FLUSH.
 */
bool
overdue_counts (const struct aio *x)
{
  return x->purpose != FOR_PROBE && x->purpose != FOR_PULSE &&
         x->purpose != FOR_ROUND && x->purpose != FOR_WITNESS &&
         x->io.kind != IO_FLUSH &&
         !(x->purpose == FOR_IMAGES && x->io.flags & ARRAY_FUA);
}

void
overdue_sent (struct array *a, const struct aio *x)
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
overdue_read_ns (const struct array *a, unsigned member)
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
overdue_answered (struct array *a, const struct aio *x, int error)
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
  if (error || !overdue_counts (x))
    return;
  timeout_note (&o->service, a->now_ns, a->now_ns - x->io.sent_ns);
  if (x->io.kind == IO_READ)
    note_read (a, x);
  latency_add (&a->stats.member[x->io.member].service,
               a->now_ns - x->io.sent_ns);
}

void
overdue_heard (struct array *a, unsigned member, uint64_t heard_ns)
{
  struct overdue *o = &a->member[member].overdue;

  if (heard_ns <= o->quiet_ns)
    return;
  o->quiet_ns = heard_ns;
  o->probe = NULL;
}

static void
send_probe (struct array *a, unsigned member)
{
  struct overdue *o = &a->member[member].overdue;
  struct aio *x = aio_sign (a, FOR_PROBE, member);

  o->probe = x;
  o->probe_ns = a->now_ns;
  aio_send (a, x);
}

void
overdue_weigh (struct array *a)
{
  for (unsigned i = 0; i < a->layout->members; i++) {
    struct overdue *o = &a->member[i].overdue;
    uint64_t peers = peers_ns (a, i);
    bool known;
    uint64_t ns = rate (a, i, &known);

    if (!known || peers == 0)
      o->suspect = false;
    else if (o->suspect)
      o->suspect = ns > peers * (SUSPECT_FACTOR / 2) && ns > SUSPECT_NS / 2;
    else
      o->suspect = ns > peers * SUSPECT_FACTOR && ns > SUSPECT_NS;
  }
}

void
overdue_look (struct array *a)
{
  const struct aio *x = TAILQ_FIRST (&a->sent);

  if (a->stopped || longest_ns (a) == 0 || a->now_ns < a->overdue_look_ns)
    return;
  a->overdue_look_ns = a->now_ns + LOOK_NS;
  for (unsigned i = 0; i < a->layout->members; i++) {
    struct overdue *o = &a->member[i].overdue;

    o->allowed_ns = allowed_ns (a, o);
  }
  overdue_weigh (a);
  /* While not all members are there, the one that is asked to flush may be the
   * last one, with much to flush: that may take as long as it takes.
   */
  while (x && x->io.kind == IO_FLUSH && a->degraded)
    x = TAILQ_NEXT (x, link);
  /* The member has answered other requests since, so it is not we who were asleep. */
  if (x && x->io.sent_ns + IO_PATIENCE * longest_ns (a) <=
             a->member[x->io.member].overdue.quiet_ns)
    member_lost (
      a, x->io.member,
      "it has not answered a %s request for %llu s, although it "
      "lives",
      aio_name (x->io.kind),
      (unsigned long long) ((a->now_ns - x->io.sent_ns) / (1000 * NS_PER_MS)));
}

void
overdue_tick (struct array *a)
{
  if (a->stopped || longest_ns (a) == 0)
    return;
  overdue_look (a);
  for (unsigned i = 0; i < a->layout->members; i++) {
    const struct overdue *o = &a->member[i].overdue;

    if (o->waiting == 0 || !member_reachable (a, i))
      continue;
    if (!o->probe && o->quiet_ns + o->allowed_ns <= a->now_ns)
      send_probe (a, i);
    else if (o->probe && lost_at_ns (a, o) <= a->now_ns)
      member_lost (
        a, i, "it has answered nothing for %llu ms, not even a sign of life",
        (unsigned long long) ((a->now_ns - o->quiet_ns) / NS_PER_MS));
  }
}

uint64_t
overdue_deadline (const struct array *a)
{
  uint64_t first = UINT64_MAX;

  if (longest_ns (a) == 0)
    return first;
  for (unsigned i = 0; i < a->layout->members; i++) {
    const struct overdue *o = &a->member[i].overdue;
    uint64_t at = o->probe ? lost_at_ns (a, o) : o->quiet_ns + o->allowed_ns;

    if (o->waiting > 0 && member_reachable (a, i) && at < first)
      first = at;
  }
  return first;
}

bool
overdue_suspect (const struct array *a, unsigned member)
{
  return a->member[member].overdue.suspect;
}

void
overdue_stats (const struct array *a, struct array_stats *stats)
{
  bool known;

  for (unsigned i = 0; i < a->layout->members; i++) {
    const struct overdue *o = &a->member[i].overdue;

    stats->member[i].service_ns = rate (a, i, &known);
    stats->member[i].timeout_ns = o->allowed_ns;
    stats->member[i].suspect = o->suspect;
  }
}
