/* cluster-lease.c: leases by range: which session may write which range of an
 * array that several hosts write all over (docs/PROTOCOL.md, "Leases";
 * docs/DESIGN.md 7.9).
 *
 * The table (struct cluster_leases) has ranges and their owners; bytes in no
 * range have no owner.  Only one bit of this is stored, `to_recover` of the
 * array: the copies of ranges without an owner may differ.  The rest comes from
 * the lessees' reports.
 *
 *   nobody's ──── ask ────► a session's ──── it ends ────► LEASE_ORPHAN
 *       ▲                     │    ▲                          │ all members have
 *       └── give, detach ─────┘    └── recovered ── LEASE_ORDERED ◄── confirmed its end
 *
 * So a range is granted only if no other session may still write there and its
 * copies are in sync, and a range that one session holds is granted to no other
 * (L1, L2). After weftd's start nothing is granted at all before each lessee
 * has declared its leases, or has ended (L4).
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-lease.h"

/* ---- The table. ---- */

/* Every span of this owner becomes another one's, or nobody's. */
static void
hand_all (struct spans *spans, uint64_t from, uint64_t to)
{
  struct spans next = { 0 };

  for (unsigned i = 0; i < spans->count; i++) {
    struct span x = spans->span[i];

    if (x.owner == from)
      x.owner = to;
    if (x.owner != 0)
      spans_set (&next, x.start, x.end, x.owner);
  }
  spans_free (spans);
  *spans = next;
}

static bool
has_any (const struct spans *spans, uint64_t owner)
{
  for (unsigned i = 0; i < spans->count; i++)
    if (spans->span[i].owner == owner)
      return true;
  return false;
}

const struct span *
cluster_lease_other (const struct spans *spans, const struct cluster_part *p,
                     uint64_t id)
{
  for (unsigned i = spans_find (spans, p->offset);
       i < spans->count && spans->span[i].start < cluster_part_end (p); i++)
    if (spans->span[i].owner != id)
      return &spans->span[i];
  return NULL;
}

/* Look at the waiting asks again: the range that they wait for may have another
 * holder now.
 */
static void
ask_back_again (struct cluster *c, struct cluster_array *a)
{
  struct waiting *w;

  TAILQ_FOREACH (w, &a->leases->asks, ask_link)
    w->asked_back = 0;
  cluster_array_due (c, a, DUE_LEASES);
}

/* A part is a pinned lease: the session has it from its attach to its end. */
static void
set_pinned (struct cluster_array *a, const struct cluster_session *s)
{
  if (!s->rec.leases)
    spans_set (&a->leases->spans, s->rec.part.offset,
               cluster_part_end (&s->rec.part), s->rec.id);
}

static struct cluster_leases *
leases_new (struct cluster_array *a)
{
  a->leases = alloc_zeroed (sizeof *a->leases);
  TAILQ_INIT (&a->leases->asks);
  return a->leases;
}

void
cluster_leases_free (struct cluster_array *a)
{
  if (a->leases == NULL)
    return;
  spans_free (&a->leases->spans);
  free (a->leases);
  a->leases = NULL;
}

void
cluster_lease_start (struct cluster_array *a)
{
  if (a->leases == NULL)
    leases_new (a)->starting = true;
}

/* ---- What lessees say. ---- */

bool
cluster_lease_fits (const struct cluster_array *a, const struct cluster_part *p,
                    uint64_t granule)
{
  uint64_t size = a->layout.size;

  return p->offset < size && p->length > 0 && p->length <= size - p->offset &&
         p->offset % granule == 0 &&
         (cluster_part_end (p) % granule == 0 || cluster_part_end (p) == size);
}

bool
cluster_lease_declare (struct cluster *c, struct cluster_array *a,
                       struct cluster_session *s,
                       const struct cluster_part *declared, unsigned count)
{
  struct spans *spans = &a->leases->spans;

  for (unsigned i = 0; i < count; i++)
    if (cluster_lease_other (spans, &declared[i], s->rec.id))
      return false;
  hand_all (spans, s->rec.id, 0);
  for (unsigned i = 0; i < count; i++)
    spans_set (spans, declared[i].offset, cluster_part_end (&declared[i]),
               s->rec.id);
  set_pinned (a, s);
  /* It goes on with its recovery. */
  if (!s->lessee.declared)
    s->lessee.unequal = count > 0 && a->rec.to_recover &&
                        (!s->heard || s->lessee.order != 0);
  s->lessee.declared = true;
  ask_back_again (c, a);
  return true;
}

/* Has another one asked for some of this, and not got it? */
static bool
is_asked_for (const struct cluster_array *a, const struct cluster_session *s,
              const struct cluster_part *given)
{
  const struct cluster_session *other = NULL;

  while ((other = cluster_writer_next (a, other)))
    for (unsigned i = 0; other != s && i < LEASE_ASKS_MAX; i++)
      if (other->lessee.asked[i].must.length > 0 &&
          cluster_parts_meet (&other->lessee.asked[i].must, given))
        return true;
  return false;
}

void
cluster_lease_give (struct cluster *c, struct cluster_array *a,
                    struct cluster_session *s, const struct cluster_part *given)
{
  struct spans *spans = &a->leases->spans;
  uint64_t at = given->offset, end = cluster_part_end (given), next;

  for (; at < end; at = next) {
    unsigned i = spans_find (spans, at);

    if (i == spans->count)
      break;
    next = spans->span[i].end < end ? spans->span[i].end : end;
    if (spans->span[i].start > at)
      at = spans->span[i].start;
    if (spans->span[i].owner == s->rec.id && at < next) {
      const struct cluster_part left = cluster_part_of (at, next);

      s->lessee.gave += is_asked_for (a, s, &left);
      spans_set (spans, at, next, 0);
    }
  }
  cluster_array_due (c, a, DUE_LEASES);
}

void
cluster_lease_recovered (struct cluster *c, struct cluster_array *a,
                         struct cluster_session *s, uint64_t order)
{
  struct cluster_leases *l = a->leases;

  s->lessee.unequal = false;
  if (l->recoverer == s && l->order == order) {
    cluster_step_log (c, CLUSTER_INFO, "array", a->rec.name,
                      "Node %s, process %" PRIu64
                      ", has recovered its ranges of array %s.",
                      s->rec.node, s->rec.pid, a->rec.name);
    hand_all (&l->spans, LEASE_ORDERED, s->rec.id);
    l->order = 0;
    l->recoverer = NULL;
  }
  if (!s->rec.leases) { /* its recovered ranges have no owner now */
    hand_all (&l->spans, s->rec.id, 0);
    set_pinned (a, s);
  }
  ask_back_again (c, a);
}

void
cluster_lease_detached (struct cluster_array *a, struct cluster_session *s)
{
  if (!s->lessee.unequal)
    hand_all (&a->leases->spans, s->rec.id, 0);
}

void
cluster_lease_end (struct cluster *c, struct cluster_array *a,
                   struct cluster_session *s)
{
  struct cluster_leases *l = a->leases;

  if (l->recoverer == s) {
    hand_all (&l->spans, LEASE_ORDERED, LEASE_ORPHAN);
    l->order = 0;
    l->recoverer = NULL;
  }
  hand_all (&l->spans, s->rec.id, LEASE_ORPHAN);
  if (has_any (&l->spans, LEASE_ORPHAN) || !s->lessee.declared)
    cluster_unequal_set (c, a, true);
  /* Without any session left, the next one that attaches resyncs everything. */
  if (cluster_array_writer (a) == NULL)
    cluster_leases_free (a);
  cluster_array_due (c, a, DUE_LEASES);
}

/* ---- Orders to recover. ---- */

void
cluster_lease_heard (struct cluster *c, struct cluster_session *s,
                     const struct cluster_session_heartbeat *hb)
{
  if (hb->equal && !s->lessee.equal)
    s->lessee.heard_live_ms = c->live_ms;
  s->lessee.equal = hb->equal;
  s->lessee.order = hb->order;
  if (s->lessee.unequal && hb->order == 0) {
    s->lessee.unequal = false;
    cluster_array_due (c, s->array, DUE_LEASES);
  }
}

bool
cluster_lease_free (const struct cluster_array *a,
                    const struct cluster_part *range)
{
  const struct cluster_leases *l = a->leases;

  return l == NULL ||
         (!l->starting && cluster_lease_other (&l->spans, range, 0) == NULL);
}

void
cluster_lease_news (struct cluster *c, struct cluster_session *s)
{
  s->lessee.news++;
  c->hurry |= s->poll == NULL;
}

bool
cluster_hurry (const struct cluster *c)
{
  return c->hurry;
}

void
cluster_lease_order (struct cluster *c, struct cluster_array *a,
                     struct cluster_session *s)
{
  struct cluster_leases *l = a->leases;

  hand_all (&l->spans, LEASE_ORPHAN, LEASE_ORDERED);
  l->order = LEASE_NUMBERS (c->identity.generation) + ++c->order_count;
  l->recoverer = s;
  cluster_lease_news (c, s);
}

void
cluster_lease_begin (struct cluster *c, struct cluster_array *a,
                     struct cluster_session *s)
{
  s->lessee.declared = true;
  if (a->leases) {
    set_pinned (a, s);
    return;
  }
  leases_new (a);
  spans_set (&a->leases->spans, 0, a->layout.size, LEASE_ORPHAN);
  cluster_lease_order (c, a, s);
  s->lessee.told_news = s->lessee.news; /* the answer says it */
  cluster_unequal_set (c, a, true);
}

bool
cluster_lease_begun (const struct cluster *c, struct cluster_array *a)
{
  struct cluster_leases *l = a->leases;
  const struct cluster_session *s = NULL;
  struct spans all = { 0 };

  if (!l->starting)
    return true;
  while ((s = cluster_writer_next (a, s)))
    if (!s->lessee.declared)
      return false;
  l->starting = false;
  if (!a->rec.to_recover)
    return true;
  spans_set (&all, 0, a->layout.size, LEASE_ORPHAN);
  for (unsigned i = 0; i < l->spans.count; i++)
    spans_set (&all, l->spans.span[i].start, l->spans.span[i].end,
               l->spans.span[i].owner);
  spans_free (&l->spans);
  l->spans = all;
  return true;
}

bool
cluster_lease_orphans (struct cluster *c, struct cluster_array *a)
{
  const struct cluster_leases *l = a->leases;
  const struct cluster_session *s = NULL;
  bool unequal = false;

  if (!a->rec.to_recover || l->order != 0)
    return false;
  if (has_any (&l->spans, LEASE_ORPHAN))
    return true;
  while ((s = cluster_writer_next (a, s)))
    unequal |= s->lessee.unequal;
  cluster_unequal_set (c, a, unequal);
  return false;
}
