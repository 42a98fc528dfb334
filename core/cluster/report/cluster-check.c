/* cluster-check.c: the engine's invariants, for tests. */

#include <config.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-report.h"

static void
check_change (const struct cluster *c, const struct cluster_array *a)
{
  const struct cluster_change *change = &a->rec.change;
  const struct cluster_session *s;
  uint8_t now[ARRAY_MEMBERS_MAX];
  bool waits = c->read_only[0] != '\0' || cluster_array_doubted (c, a, NULL, 0);

  assert (change->epoch > a->rec.epoch);
  cluster_copies_states (a, now);
  for (unsigned m = 0; m < a->layout.members; m++) {
    enum member_state is = a->rec.member[m].state;

    waits |= cluster_change_waits_for (a, m);
    assert (!change->confirm[m] || change->states[m] != MEMBER_OUT);
    switch (change->states[m]) {
    case MEMBER_OUT:
      break;
    case MEMBER_JOINING: /* an in-sync member goes out first */
      assert (is == MEMBER_JOINING || (is == MEMBER_OUT && change->confirm[m]));
      break;
    case MEMBER_IN_SYNC:
      assert (is == MEMBER_IN_SYNC ||
              (is == MEMBER_JOINING && change->sessions));
      break;
    default:
      abort ();
    }
  }
  TAILQ_FOREACH (s, &a->sessions, array_link)
    waits |= cluster_change_waits_for_session (a, s);
  assert (waits); /* a change without waits is committed at once */
  assert (!change->sessions || !cluster_change_stalls (c, a, change->states));
  /* The last copy stays. */
  assert (!cluster_change_loses (a, change->states) ||
          cluster_change_loses (a, now));
}

static void
check_leases (const struct cluster *c, const struct cluster_array *a)
{
  const struct cluster_leases *l = a->leases;
  const struct cluster_session *s = cluster_array_writer (a);
  bool orphans = false, ordered = false;

  assert ((l != NULL) == (s && s->rec.part.length > 0));
  if (l == NULL)
    return;
  spans_check (&l->spans);
  for (unsigned i = 0; i < l->spans.count; i++) {
    const struct span *x = &l->spans.span[i];

    assert (x->end <= a->layout.size);
    ordered |= x->owner == LEASE_ORDERED;
    orphans |= x->owner == LEASE_ORPHAN;
    if (x->owner >= LEASE_ORDERED)
      continue;
    s = cluster_session_find (c, x->owner);
    assert (s && s->rec.part.length > 0 && s->lessee.declared);
    assert (cluster_session_of (s, a));
  }
  assert (ordered == (l->order != 0) && ordered == (l->recoverer != NULL));
  assert (!ordered || cluster_session_of (l->recoverer, a));
  assert (!(ordered || orphans) || a->rec.to_recover);
}

/* Each segment has one owner at most, and the figures are what the table says. */
static void
check_pool (const struct cluster_array *a)
{
  const struct cluster_pool *p = a->pool;
  uint32_t of[POOL_ROOTS_MAX] = { 0 }, free = 0;
  const struct cluster_volume *v;
  unsigned volumes = 0;

  assert ((p != NULL) == (a->rec.pool >= CLUSTER_POOL_BLANK));
  if (p == NULL)
    return;
  for (uint32_t page = 0; page < p->pages; page++) {
    uint32_t begin = page * POOL_PAGE_SEGMENTS, page_free = 0;

    assert (!p->page_changed[page]); /* it is stored */
    for (uint32_t s = begin;
         s < begin + POOL_PAGE_SEGMENTS && s < p->geometry.segments; s++) {
      assert (p->owner[s] == 0 || s >= p->first);
      if (p->owner[s])
        of[p->owner[s] - 1]++;
      else
        page_free += s >= p->first;
    }
    assert (page_free == p->page_free[page]);
    free += page_free;
  }
  assert (free == p->free);
  TAILQ_FOREACH (v, &p->volumes, link) {
    const struct cluster_volume *next = TAILQ_NEXT (v, link);

    assert (v->segments == of[v->rec.root]);
    assert (v->rec.state != CLUSTER_VOLUME_NEW || v->segments == 0);
    assert (next == NULL || strcmp (v->rec.name, next->rec.name) < 0);
    assert (v->order.number <= p->newest_order);
    of[v->rec.root] = 0;
    volumes++;
  }
  assert (volumes == p->volumes_count);
  for (unsigned root = 0; root < POOL_ROOTS_MAX; root++)
    assert (of[root] == 0);
}

static void
check_array (const struct cluster *c, const struct cluster_array *a)
{
  assert (a->layout.members == a->rec.n * a->rec.groups);
  assert (a->rec.epoch > 0);
  assert (!a->due && !a->is_due); /* cluster_pump_settle has done it */
  assert (a->is_changing || (a->rec.change.epoch == 0 && !a->deferred));
  if (a->rec.change.epoch)
    check_change (c, a);
  check_leases (c, a);
  check_pool (a);
  for (unsigned m = 0; m < a->layout.members; m++) {
    const struct cluster_disk *d = a->disk[m];

    assert (d && d->array == a && d->position == m);
    /* The process of a joining member is known (cluster-process.c) where nobody writes,
     * or will be with the change.
     */
    assert (a->rec.member[m].state != MEMBER_JOINING ||
            cluster_array_writer (a) || !cluster_process_unmet (d) ||
            a->rec.change.confirm[m] ||
            (a->rec.change.epoch && a->rec.change.states[m] == MEMBER_OUT));
    assert (cluster_uuid_is_zero (d->rec.release) ||
            (a->rec.member[m].reset &&
             cluster_uuid_equal (d->rec.release, a->rec.uuid)));
    assert (a->rec.member[m].fence <= a->rec.epoch);
    assert (a->rec.member[m].lapse <= a->rec.epoch);
  }
}

void
cluster_check (const struct cluster *c)
{
  const struct cluster_array *a;
  const struct cluster_session *s;
  const struct waiting *w;
  unsigned writers = 0;

  assert (c->step == NULL);
  TAILQ_FOREACH (a, &c->arrays, link) {
    check_array (c, a);
    writers -= a->writers;
  }
  TAILQ_FOREACH (s, &c->sessions, link) {
    assert (s->rec.id != 0);
    if (s->rec.ended)
      continue;
    writers += s->rec.writable;
    a = s->array;
    assert (a == cluster_array_by_uuid (c, s->rec.array));
    assert (a && s->rec.epoch <= a->rec.epoch);
    for (unsigned m = 0; m < a->layout.members; m++)
      assert (!s->path[m].lost ||
              (s->rec.writable && a->rec.member[m].state == MEMBER_IN_SYNC));
    assert (s->rec.writable || s->rec.part.length == 0);
    /* No other session writes what this one does. */
    for (const struct cluster_session *other = s;
         s->rec.writable && (other = cluster_writer_next (a, other));)
      assert (s->rec.leases
                ? other->rec.leases
                : !cluster_parts_meet (&s->rec.part, &other->rec.part));
  }
  assert (writers == 0);
  TAILQ_FOREACH (w, &c->waitings, link) {
    const struct cluster_change *change = w->array ? &w->array->rec.change
                                                   : NULL;

    assert ((w->kind == WAIT_CONTENDER) == (w->heartbeat != NULL));
    assert ((w->kind != WAIT_ATTACH && w->kind != WAIT_LOST) || change->epoch);
    if (w->kind != WAIT_ATTACH || !w->fences)
      continue;
    /* Nobody writes while such an attach waits, and all that stay are to confirm. */
    assert (cluster_array_writer (w->array) == NULL);
    for (unsigned m = 0; m < w->array->layout.members; m++)
      assert (change->confirm[m] == (change->states[m] != MEMBER_OUT));
  }
}
