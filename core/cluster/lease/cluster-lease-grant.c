/* cluster-lease-grant.c: requests for leases: grants them, asks other sessions'
 * leases back, and orders the recovery of an ended session's leases.  The
 * table: cluster-lease.c.
 *
 * Requests that can't be granted wait, in the order in which they came, and no
 * range is granted that an earlier one waits for.  The ranges of one call are
 * granted together; if that takes long, its free ranges are granted with the
 * next tick.  The first in its turn has the others' leases asked back.  Leases
 * to give back are stored nowhere: they are derived from the waiting requests
 * (cluster_lease_told).
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cluster-lease.h"

/* A session that has too many leases is asked back so many. */
#define LEASES_BACK 64
/* An ask that has waited for this time is shown to people. */
#define LEASE_SLOW_MS 3000

/* May it have something new?  It must know which members count. */
static bool
is_able (const struct cluster_array *a, const struct cluster_session *s)
{
  return s->alive && s->epoch == a->rec.epoch;
}

/* ---- Recovery. ---- */

/* Would it carry out a recovery order, and soon?  A session that is ending
 * begins nothing any more, and would delay all others until its end.
 */
static bool
may_recover (const struct cluster *c, const struct cluster_array *a,
             const struct cluster_session *s)
{
  return is_able (a, s) && !s->draining &&
         cluster_session_silent_ms (c, s) < QUIET_MS;
}

/* The session that recovers the orphans: if one waits for some, that; otherwise
 * the one with the lowest number.
 */
static struct cluster_session *
pick_recoverer (const struct cluster *c, const struct cluster_array *a)
{
  struct cluster_session *s = NULL, *lowest = NULL;
  const struct waiting *w;

  TAILQ_FOREACH (w, &a->leases->asks, ask_link)
    for (unsigned i = 0; i < w->asks; i++) {
      const struct cluster_part *must = &w->ask[i].must;
      const struct span *x = cluster_lease_other (&a->leases->spans, must,
                                                  w->session->rec.id);

      if (x && x->owner == LEASE_ORPHAN && may_recover (c, a, w->session))
        return w->session;
    }
  while ((s = cluster_writer_next (a, s)))
    if (may_recover (c, a, s) && (lowest == NULL || s->rec.id < lowest->rec.id))
      lowest = s;
  return lowest;
}

/* One order at a time: later orphans are for the next one. */
static void
recover_orphans (struct cluster *c, struct cluster_array *a)
{
  struct cluster_session *s;

  if (!cluster_lease_orphans (c, a) || cluster_shut_waits (a, 0) ||
      (s = pick_recoverer (c, a)) == NULL)
    return;
  cluster_lease_order (c, a, s);
  cluster_step_log (c, CLUSTER_INFO, "array", a->rec.name,
                    "Node %s, process %" PRIu64
                    ", is to recover what a process "
                    "that has ended had of array %s.",
                    s->rec.node, s->rec.pid, a->rec.name);
}

/* ---- Grants. ---- */

/* The conditions for granting an ask. */
enum hindrance {
  GRANTED,
  STARTING,   /* all must have declared */
  CHANGING,   /* its session must work in the array's epoch */
  BEHIND,     /* an earlier ask must have been granted */
  RECOVERING, /* orphans must have been recovered */
  HELD,       /* others must give back what they hold */
  TOO_MANY,   /* its session must give some back */
};

/* Does an earlier call of another one wait for some of the same?  Returns its session. */
static const struct cluster_session *
ahead (const struct waiting *w, const struct cluster_part *must)
{
  const struct waiting *first = TAILQ_FIRST (&w->array->leases->asks);

  for (; first != w; first = TAILQ_NEXT (first, ask_link))
    for (unsigned i = 0; i < first->asks; i++)
      if (cluster_parts_meet (&first->ask[i].must, must))
        return first->session;
  return NULL;
}

/* How many leases may each lessee have? */
static unsigned
leases_max (const struct cluster_array *a)
{
  unsigned share = ARRAY_LEASES_MAX / (a->writers ? a->writers : 1);

  return share < SESSION_LEASES_MAX ? share : SESSION_LEASES_MAX;
}

/* With what it asks for and has not all of? */
static bool
has_too_many (const struct waiting *w)
{
  const struct spans *spans = &w->array->leases->spans;
  uint64_t id = w->session->rec.id;
  unsigned max = leases_max (w->array), count = 0;

  if (spans->count + w->asks <= max)
    return false;
  for (unsigned i = 0; i < w->asks; i++) {
    const struct cluster_part *must = &w->ask[i].must;

    count += !spans_has (spans, must->offset, cluster_part_end (must), id);
  }
  for (unsigned i = 0; i < spans->count; i++)
    count += spans->span[i].owner == id;
  return count > max;
}

/* The hindrance of the i-th range.  who: the session for which it waits; NULL:
 * none of them.
 */
static enum hindrance
hindrance_of (const struct cluster *c, const struct waiting *w, unsigned i,
              bool too_many, const struct cluster_session **who)
{
  const struct cluster_leases *l = w->array->leases;
  const struct cluster_part *must = &w->ask[i].must;
  const struct span *x;

  *who = NULL;
  if (l->starting)
    return STARTING;
  if (!is_able (w->array, w->session))
    return CHANGING;
  if ((*who = ahead (w, must)))
    return BEHIND;
  if ((x = cluster_lease_other (&l->spans, must, w->session->rec.id))) {
    *who = x->owner < LEASE_ORDERED ? cluster_session_find (c, x->owner)
                                    : l->recoverer;
    return x->owner < LEASE_ORDERED ? HELD : RECOVERING;
  }
  return too_many ? TOO_MANY : GRANTED;
}

/* The hindrances of all ranges of one call. */
struct hindrances {
  enum hindrance why[LEASE_ASKS_MAX];
  const struct cluster_session *who[LEASE_ASKS_MAX];
  unsigned granted; /* how many could be */
  unsigned first;   /* the first that could not */
  bool too_many;
};

static struct hindrances
hindrances_of (const struct cluster *c, const struct waiting *w)
{
  struct hindrances h = { .too_many = has_too_many (w) };

  for (unsigned i = 0; i < w->asks; i++) {
    h.why[i] = hindrance_of (c, w, i, h.too_many, &h.who[i]);
    h.granted += h.why[i] == GRANTED;
    h.first += h.first == i && h.why[i] == GRANTED;
  }
  return h;
}

/* Around what must be granted, as much of the wish as nobody else has, waits for or fights
 * for.
 */
static struct cluster_part
around (const struct cluster *c, const struct waiting *w,
        const struct cluster_part *must, const struct cluster_part *wish)
{
  struct cluster_array *a = w->array;
  const struct spans *spans = &a->leases->spans;
  uint64_t start = wish->offset, end = cluster_part_end (wish), at;
  const struct waiting *other;

  /* The ranges that others wait for. */
  TAILQ_FOREACH (other, &a->leases->asks, ask_link)
    for (unsigned i = 0; other != w && i < other->asks; i++) {
      const struct cluster_part *theirs = &other->ask[i].must;

      if (cluster_part_end (theirs) > cluster_part_end (must) &&
          theirs->offset < end)
        end = theirs->offset > cluster_part_end (must)
                ? theirs->offset
                : cluster_part_end (must);
      if (theirs->offset < must->offset && cluster_part_end (theirs) > start)
        start = cluster_part_end (theirs) < must->offset
                  ? cluster_part_end (theirs)
                  : must->offset;
    }
  end = cluster_lease_map_cool (c, a, cluster_part_end (must), end);
  start = cluster_lease_map_cool_down (c, a, must->offset, start);
  for (at = cluster_part_end (must); at < end;) {
    uint64_t next = spans_reach (spans, spans_reach (spans, at, end, 0), end,
                                 w->session->rec.id);

    if (next == at)
      break;
    at = next;
  }
  end = at;
  for (at = must->offset; at > start;) {
    uint64_t next = spans_reach_down (
      spans, spans_reach_down (spans, at, start, 0), start, w->session->rec.id);

    if (next == at)
      break;
    at = next;
  }
  return cluster_part_of (at, end);
}

/* Grant what can be of what is asked for. */
static void
grant (struct cluster *c, struct waiting *w, const struct hindrances *h)
{
  struct cluster_array *a = w->array;
  struct cluster_session *s = w->session;
  const struct cluster_part all = { .length = a->layout.size };
  struct cluster_part granted[LEASE_ASKS_MAX], *g = granted;
  bool alone = a->writers == 1;

  for (unsigned i = 0; i < w->asks; i++)
    if (h->why[i] == GRANTED) {
      *g = around (c, w, &w->ask[i].must, alone ? &all : &w->ask[i].wish);
      spans_set (&a->leases->spans, g->offset, cluster_part_end (g), s->rec.id);
      s->lessee.asked[i].must.length = 0;
      g++;
    }
  s->lessee.gets += (unsigned) (g - granted);
  cluster_step_reply_leases (c, w->op, s, granted, (unsigned) (g - granted));
  cluster_wait_end (c, w);
}

/* ---- What is asked back. ---- */

/* The session's part of this range, as one range; false: none.  Ranges that it
 * may be recovering must not be given back: so the range ends there.
 */
static bool
has_of (const struct spans *spans, const struct cluster_part *p, uint64_t id,
        struct cluster_part *has)
{
  uint64_t start = UINT64_MAX, end = 0;

  for (unsigned i = spans_find (spans, p->offset);
       i < spans->count && spans->span[i].start < cluster_part_end (p); i++) {
    const struct span *x = &spans->span[i];

    if (x->owner >= LEASE_ORDERED && end > 0)
      break;
    if (x->owner != id)
      continue;
    if (start == UINT64_MAX)
      start = x->start > p->offset ? x->start : p->offset;
    end = x->end < cluster_part_end (p) ? x->end : cluster_part_end (p);
  }
  if (end == 0)
    return false;
  *has = cluster_part_of (start, end);
  return true;
}

/* It is the turn of the i-th range: ask its holders for it. */
static void
ask_back (struct cluster *c, struct waiting *w, unsigned i, bool too_many)
{
  struct cluster_array *a = w->array;
  struct cluster_session *s = NULL;
  struct cluster_part has;
  uint64_t start = UINT64_MAX, end = 0;

  w->asked_back |= 1u << i;
  if (too_many)
    cluster_lease_news (c, w->session);
  while ((s = cluster_writer_next (a, s))) {
    if (s == w->session ||
        !has_of (&a->leases->spans, &w->ask[i].must, s->rec.id, &has))
      continue;
    cluster_lease_news (c, s);
    s->lessee.revokes++;
    cluster_lease_map_asked_back (c, a, has.offset, cluster_part_end (&has));
    start = has.offset < start ? has.offset : start;
    end = cluster_part_end (&has) > end ? cluster_part_end (&has) : end;
  }
  if (end > 0)
    cluster_lease_map_met (c, a, start, end);
}

/* For a session that has too many leases: ask back those that follow the range
 * that it asks for, and on from the array's begin.
 */
static void
too_many_back (const struct waiting *w, struct cluster_lease_told *told)
{
  const struct spans *spans = &w->array->leases->spans;
  unsigned first = spans_find (spans, cluster_part_end (&w->ask[0].must)),
           back = 0;

  for (unsigned n = 0; n < spans->count && back < LEASES_BACK; n++) {
    const struct span *x = &spans->span[(first + n) % spans->count];
    struct cluster_part p = cluster_part_of (x->start, x->end);
    bool asked = x->owner != w->session->rec.id;

    for (unsigned i = 0; i < w->asks; i++)
      asked |= cluster_parts_meet (&w->ask[i].must, &p);
    if (asked)
      continue;
    told->revoke[told->revokes++] = (struct cluster_lease_ask) { p, p };
    back++;
  }
}

void
cluster_lease_told (const struct cluster *c, const struct cluster_array *a,
                    const struct cluster_session *s,
                    struct cluster_lease_told *told)
{
  const struct cluster_leases *l = a->leases;
  const struct waiting *w;
  struct cluster_part has;
  unsigned room = LEASES_BACK;

  memset (told, 0, sizeof *told);
  if (l == NULL || s->rec.ended)
    return;
  TAILQ_FOREACH (w, &l->asks, ask_link)
    room += LEASE_ASKS_MAX;
  if (room > LEASES_BACK)
    told->revoke = alloc_zeroed (room * sizeof *told->revoke);
  TAILQ_FOREACH (w, &l->asks, ask_link) {
    if (w->asked_back == 0)
      continue;
    if (w->session == s && has_too_many (w))
      too_many_back (w, told);
    for (unsigned i = 0; w->session != s && i < w->asks; i++)
      if (w->asked_back & 1u << i &&
          has_of (&l->spans, &w->ask[i].must, s->rec.id, &has))
        told->revoke[told->revokes++] = (struct cluster_lease_ask) {
          .must = has, .wish = w->ask[i].wish
        };
  }
  if (l->recoverer != s || s->lessee.order == l->order)
    return;
  told->recover = l->order;
  told->ranges = alloc_zeroed (l->spans.count * sizeof *told->ranges);
  for (unsigned i = 0; i < l->spans.count; i++)
    if (l->spans.span[i].owner == LEASE_ORDERED)
      told->ranges[told->count++] = cluster_part_of (l->spans.span[i].start,
                                                     l->spans.span[i].end);
}

bool
cluster_lease_grant_owed (const struct cluster_array *a,
                          const struct cluster_session *s)
{
  const struct cluster_leases *l = a->leases;
  const struct waiting *w;
  struct cluster_part has;

  TAILQ_FOREACH (w, &l->asks, ask_link)
    for (unsigned i = 0; w->session != s && i < w->asks; i++)
      if (w->asked_back & 1u << i &&
          has_of (&l->spans, &w->ask[i].must, s->rec.id, &has))
        return true;
  return false;
}

/* Does its session hold a part of its own ask that an earlier ask waits for?  A
 * host gives back nothing that it asks for (core/host/lessee.h): so both would
 * wait until one of them stops asking.
 */
static bool
holds_up (const struct waiting *w)
{
  const struct cluster_leases *l = w->array->leases;
  const struct waiting *first = TAILQ_FIRST (&l->asks);
  struct cluster_part has;

  for (; first != w; first = TAILQ_NEXT (first, ask_link))
    for (unsigned i = 0; i < first->asks; i++) {
      if (!(first->asked_back & 1u << i) ||
          !has_of (&l->spans, &first->ask[i].must, w->session->rec.id, &has))
        continue;
      for (unsigned k = 0; k < w->asks; k++)
        if (cluster_parts_meet (&has, &w->ask[k].must))
          return true;
    }
  return false;
}

/* ---- What is due. ---- */

void
cluster_lease_grant_settle (struct cluster *c, struct cluster_array *a,
                            bool still)
{
  struct waiting *w, *next;

  a->leases->still = still;
  if (still)
    return;
  if (cluster_lease_begun (c, a))
    recover_orphans (c, a);
  TAILQ_FOREACH_SAFE (w, &a->leases->asks, ask_link, next) {
    struct hindrances h = hindrances_of (c, w);

    /* One range that its holder keeps for long must not delay the others. */
    if (h.granted > 0 && w->deadline_ms > c->now_ms)
      w->deadline_ms = c->now_ms;
    if (h.granted == w->asks)
      grant (c, w, &h);
    else if (holds_up (w))
      cluster_lease_grant_late (c, w);
    else
      for (unsigned i = 0; i < w->asks; i++)
        if (!(w->asked_back & 1u << i) && h.why[i] >= RECOVERING)
          ask_back (c, w, i, h.too_many);
  }
}

/* ---- The reasons of waiting asks.  ---- */

/* Why something that is asked for can't be had yet. */
static void
why_not (const struct cluster *c, const struct cluster_array *a,
         enum hindrance why, const struct cluster_session *who, char *what,
         size_t size)
{
  char holder[160] = "nobody yet";

  if (who)
    snprintf (holder, sizeof holder, "node %s, process %" PRIu64, who->rec.node,
              who->rec.pid);
  switch (why) {
  case STARTING:
    snprintf (what, size,
              "weftd was started, and not all hosts that share it have "
              "reported their leases");
    break;
  case GRANTED: /* or it would be, but for the array */
    snprintf (what, size, "it is frozen (weftctl status says why)");
    break;
  case CHANGING:
    snprintf (what, size, "it is changing from epoch %" PRIu64, a->rec.epoch);
    break;
  case BEHIND:
    snprintf (what, size, "%s, waits for it as well, and came first", holder);
    break;
  case RECOVERING:
    snprintf (what, size,
              "a process that has ended had it, and it is recovered by %s",
              holder);
    break;
  case HELD:
    snprintf (what, size, "%s, has it, and is to give it back", holder);
    break;
  case TOO_MANY:
    snprintf (what, size,
              "this process has %u leases, which is all that it may have, and "
              "is to give some back",
              leases_max (a));
    break;
  }
}

bool
cluster_lease_waits (const struct cluster *c, const struct cluster_array *a,
                     char *text, size_t size)
{
  const struct waiting *w, *first = NULL;
  uint64_t since_ms = c->now_ms;
  unsigned i, of = 0;
  char what[512];

  if (a->leases == NULL)
    return false;
  TAILQ_FOREACH (w, &a->leases->asks, ask_link)
    for (i = 0; i < w->asks; i++)
      if (w->session->lessee.asked[i].since_ms < since_ms) {
        since_ms = w->session->lessee.asked[i].since_ms;
        first = w;
        of = i;
      }
  if (c->now_ms - since_ms < LEASE_SLOW_MS)
    return false;
  const struct hindrances h = hindrances_of (c, first);

  why_not (c, a, h.why[of], h.who[of], what, sizeof what);
  snprintf (text, size,
            "a lease: node %s, process %" PRIu64 ", has asked for %" PRIu64
            " bytes from %" PRIu64 " on since %" PRIu64 " s: %s",
            first->session->rec.node, first->session->rec.pid,
            first->ask[of].must.length, first->ask[of].must.offset,
            (c->now_ms - since_ms) / 1000, what);
  return true;
}

void
cluster_lease_grant_late (struct cluster *c, struct waiting *w)
{
  const struct cluster_array *a = w->array;
  const struct hindrances h = hindrances_of (c, w);
  const struct cluster_session *who = NULL;
  enum hindrance why = GRANTED;
  struct cluster_problem *p;
  char what[512];

  if (h.granted > 0 && !a->leases->still) {
    grant (c, w, &h);
    return;
  }
  if (h.first < w->asks) {
    why = h.why[h.first];
    who = h.who[h.first];
  }
  why_not (c, a, why, who, what, sizeof what);
  p = cluster_step_defer (
    c, w->op, CLUSTER_CONFLICT, "leases-wait", 0,
    "the lease of array %s is not granted yet: %s; ask again", a->rec.name,
    what);
  if (who) {
    cluster_step_problem_holder (p, &who->rec,
                                 cluster_session_silent_ms (c, who));
    memcpy (p->holder_process, who->process, sizeof who->process);
  }
  cluster_wait_end (c, w);
}
