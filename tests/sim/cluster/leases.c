/* leases.c: an array process's part of leases: it carries out the orders of the lessee's
 * engine (core/host/lessee.h) as plugin/control-lease.c does.
 *
 * There each kind of action has a thread of its own, so at times some time passes
 * between what one engine says and what the other hears.
 */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"
#include "world.h"

#define RANGES_MAX 64

static void
later (struct host_role *h, void (*fn) (void *), void *owner)
{
  process_after (&h->proc, sim_chance (15) ? between (0, 3 * MS) : 0, fn,
                 owner);
}

/* ---- What it holds, as far as the judge is concerned. ---- */

static bool
has (const struct array_range *list, size_t count, unsigned g)
{
  uint64_t at = grain_offset (g);

  for (size_t i = 0; i < count; i++)
    if (at >= list[i].offset &&
        at + grain_bytes <= list[i].offset + list[i].length)
      return true;
  return false;
}

/* The array engine has got leases, or has lost some.  came: no other host writes there,
 * and the copies are in sync.
 */
static void
look (struct host_role *h, bool came)
{
  struct array_range *list;
  size_t count = array_lease_all (h->engine, &list);

  for (unsigned g = 0; g < w.grains; g++) {
    bool now = has (list, count, g);

    if (now && !h->holds[g]) {
      if (came)
        shared_came (h, g);
      else
        shared_holds (h, g);
    }
    h->holds[g] = now;
  }
  free (list);
}

static bool
is_over (const struct host_role *h)
{
  const struct cluster_session_record *s = store_session (h->session);

  return s == NULL || s->ended;
}

/* Nobody else who lives has a lease of any of it (L1). */
static void
check_alone (const struct host_role *h, const struct array_range *granted,
             unsigned granted_count)
{
  for (unsigned i = 0; i < w.config.hosts; i++) {
    const struct host_role *o = &w.host[i];
    struct array_range *list;
    size_t count;

    if (o == h || o->lessee == NULL || is_over (o) || is_over (h))
      continue;
    count = array_lease_all (o->engine, &list);
    for (size_t k = 0; k < count; k++)
      for (unsigned n = 0; n < granted_count; n++)
        if (list[k].offset < granted[n].offset + granted[n].length &&
            granted[n].offset < list[k].offset + list[k].length)
          sim_fail (
            "host %u gets a lease of %llu bytes at %llu, but host %u has "
            "one of %llu bytes at %llu",
            h->proc.number, (unsigned long long) granted[n].length,
            (unsigned long long) granted[n].offset, o->proc.number,
            (unsigned long long) list[k].length,
            (unsigned long long) list[k].offset);
    free (list);
  }
}

/* ---- What the array engine says. ---- */

static void
say_wants (struct host_role *h,
           void (*say) (struct lessee *, const struct array_range *, unsigned,
                        uint64_t))
{
  struct array_range wants[LESSEE_WANTS_MAX];
  unsigned count = array_lease_wants (h->engine, wants, LESSEE_WANTS_MAX);

  say (h->lessee, wants, count, now_ms ());
}

void
leases_notice (struct host_role *h, const struct array_notice *n)
{
  struct array_range left[RANGES_MAX];
  unsigned count;

  if (n->kind == NOTICE_LEASE)
    say_wants (h, lessee_wants);
  while (n->kind == NOTICE_LEFT &&
         (count = array_lease_left (h->engine, left, RANGES_MAX)) > 0) {
    for (unsigned i = 0; i < count; i++)
      TRACE (&h->proc, "has left %llu bytes at %llu",
             (unsigned long long) left[i].length,
             (unsigned long long) left[i].offset);
    look (h, false);
    lessee_left (h->lessee, left, count);
  }
}

/* Something comes to the host.  Others have written it, perhaps until now. */
static void
comes (struct host_role *h)
{
  for (unsigned m = 0; m < w.layout.members; m++)
    h->peer[m].wrote_at = sim_now;
  oracle_came (h);
}

/* ---- Messages to weftd.  ---- */

static bool
must_declare (const struct answer *a)
{
  return a->status == 409 && strcmp (a->code, "declare") == 0;
}

static void
have (void *owner)
{
  struct host_role *h = owner;

  h->leases_busy &= ~LESSEE_DO_ASK;
  for (unsigned i = 0; i < h->grants; i++)
    TRACE (&h->proc, "has a lease of %llu bytes at %llu",
           (unsigned long long) h->granted[i].length,
           (unsigned long long) h->granted[i].offset);
  if (h->stage == HOST_OVER)
    h->grants = 0;
  check_alone (h, h->granted, h->grants);
  steps++;
  if (h->grants > 0) {
    comes (h);
    array_lease_grant (h->engine, h->granted, h->grants, sim_now);
  }
  look (h, true);
  counters.leases += h->grants;
  say_wants (h, lessee_asked);
  host_take (h);
}

static void
asked (struct call *c)
{
  struct host_role *h = c->owner;

  h->asking = NULL;
  h->lease_holder = c->answer.status == 409 && c->answer.held &&
                        host_knows_ended (h, c->answer.holder_process)
                      ? c->answer.holder
                      : 0;
  memcpy (h->granted, c->granted, sizeof h->granted);
  h->grants = lessee_granted (
    h->lessee, c->answer.status, must_declare (&c->answer), h->granted,
    c->answer.status == 200 ? c->grants : 0, LEASES_GRANTED_MAX, now_ms ());
  call_unref (c);
  later (h, have, h);
}

static void
gave (struct call *c)
{
  struct host_role *h = c->owner;

  h->giving = NULL;
  h->leases_busy &= ~LESSEE_DO_GIVE;
  lessee_gave (h->lessee, c->answer.status, must_declare (&c->answer),
               now_ms ());
  call_unref (c);
  host_take (h);
}

static struct call *
call (struct host_role *h, void (*answered) (struct call *))
{
  struct call *c = call_new (&h->proc, CALL_LEASES, h, answered);

  c->refs++;
  c->session_id = h->session;
  strcpy (c->leases.instance, h->instance);
  return c;
}

static struct cluster_part
part (const struct array_range *r)
{
  return (struct cluster_part) { r->offset, r->length };
}

static void
ask (struct host_role *h, const struct lessee_action *a)
{
  struct call *c = h->asking = call (h, asked);

  for (unsigned i = 0; i < a->asks; i++) {
    TRACE (&h->proc, "asks for %llu bytes at %llu, wishes %llu at %llu",
           (unsigned long long) a->ask[i].must.length,
           (unsigned long long) a->ask[i].must.offset,
           (unsigned long long) a->ask[i].wish.length,
           (unsigned long long) a->ask[i].wish.offset);
    c->leases.ask[i] = (struct cluster_lease_ask) { part (&a->ask[i].must),
                                                    part (&a->ask[i].wish) };
  }
  c->leases.asks = a->asks;
  c->leases.ended = h->lease_holder;
  c->leases.wait_ms = a->wait_ms;
  call_send (c, a->timeout_ms);
}

static struct cluster_part *
parts (const struct array_range *list, size_t count)
{
  struct cluster_part *p = make ((count + 1) * sizeof *p);

  for (size_t i = 0; i < count; i++)
    p[i] = part (&list[i]);
  return p;
}

static void
send_give (void *owner)
{
  struct host_role *h = owner;
  struct call *c = h->giving;
  struct array_range *all;

  if (c->leases.declare) {
    c->leases.declared_count = array_lease_all (h->engine, &all);
    c->leases.declared = parts (all, c->leases.declared_count);
    free (all);
    counters.declares++;
  }
  call_send (c, h->give_timeout_ms);
}

static void
give (struct host_role *h, const struct lessee_action *a)
{
  struct call *c = h->giving = call (h, gave);

  for (unsigned i = 0; i < a->count; i++)
    TRACE (&h->proc, "gives %llu bytes at %llu",
           (unsigned long long) a->ranges[i].length,
           (unsigned long long) a->ranges[i].offset);
  if (a->declare || a->recovered)
    TRACE (&h->proc, "says number %llx,%s recovered %llx",
           (unsigned long long) a->number, a->declare ? " declares," : "",
           (unsigned long long) a->recovered);
  c->leases.number = a->number;
  c->leases.declare = a->declare;
  c->leases.recovered = a->recovered;
  c->leases.given = parts (a->ranges, a->count);
  c->leases.given_count = a->count;
  h->give_timeout_ms = a->timeout_ms;
  counters.gives += a->count;
  later (h, send_give, h);
}

/* ---- What is left, and what is recovered. ---- */

static void
leave (void *owner)
{
  struct host_role *h = owner;

  h->leases_busy &= ~LESSEE_DO_LEAVE;
  TRACE (&h->proc, "is to leave %llu bytes at %llu, wished %llu at %llu",
         (unsigned long long) h->leave.must.length,
         (unsigned long long) h->leave.must.offset,
         (unsigned long long) h->leave.wish.length,
         (unsigned long long) h->leave.wish.offset);
  steps++;
  if (h->stage != HOST_OVER)
    array_lease_leave (h->engine, &h->leave.must, &h->leave.wish, sim_now);
  host_take (h);
}

static void
recover (struct host_role *h, const struct lessee_action *a)
{
  TRACE (&h->proc, "recovers %u ranges, the first of %llu bytes at %llu",
         a->count, (unsigned long long) a->ranges[0].length,
         (unsigned long long) a->ranges[0].offset);
  check_alone (h, a->ranges, a->count);
  counters.recoveries++;
  steps++;
  if (h->leases)
    comes (h);
  for (unsigned g = 0; !h->leases && g < w.grains; g++)
    if (has (a->ranges, a->count, g))
      oracle_recovers (h, g);
  array_lease_recover (h->engine, a->ranges, a->count, sim_now);
  if (h->leases)
    look (h, false);
  host_resync_orphans (h, a->ranges, a->count);
}

/* With a part the recovery is over when joining members have all of it. */
static void
look_left (void *host)
{
  struct host_role *h = host;

  if (h->stage == HOST_OVER || h->lessee == NULL)
    return;
  if (array_lease_leaves (h->engine)) {
    process_after (&h->proc, 10 * MS, look_left, h);
    return;
  }
  h->leases_busy &= ~LESSEE_DO_RECOVER;
  for (unsigned g = 0; g < w.grains; g++)
    if (h->holds[g])
      oracle_recovered (h, g);
  memset (h->holds, 0, sizeof h->holds);
  lessee_recovered (h->lessee, true, now_ms ());
  host_take (h);
}

void
leases_recovered (struct host_role *h, const struct array_range *ranges,
                  unsigned count, bool ok)
{
  TRACE (&h->proc, ok ? "has recovered" : "has not recovered");
  steps++;
  if (ok && !h->leases) {
    for (unsigned g = 0; g < w.grains; g++)
      h->holds[g] = has (ranges, count, g);
    array_lease_recovered (h->engine, sim_now);
    look_left (h);
    return;
  }
  h->leases_busy &= ~LESSEE_DO_RECOVER;
  for (unsigned g = 0; ok && g < w.grains; g++)
    if (has (ranges, count, g))
      shared_recovered (h, g);
  if (ok)
    array_lease_recovered (h->engine, sim_now);
  lessee_recovered (h->lessee, ok, now_ms ());
}

static bool
owns (const struct host_role *h, unsigned g)
{
  return host_owns (h, grain_offset (g), grain_bytes);
}

void
leases_recover_all (struct host_role *h)
{
  for (unsigned g = 0; !h->leases && g < w.grains; g++)
    if (!owns (h, g))
      oracle_recovers (h, g);
}

void
leases_recovered_all (struct host_role *h)
{
  if (h->leases) {
    lessee_recovered (h->lessee, true, now_ms ());
    return;
  }
  for (unsigned g = 0; g < w.grains; g++)
    h->holds[g] = !owns (h, g);
  array_lease_recovered (h->engine, sim_now);
  look_left (h);
}

/* ---- All of it. ---- */

bool
leases_take (struct host_role *h)
{
  unsigned kinds = LESSEE_DO_ALL & ~h->leases_busy;
  struct lessee_action a;

  if (h->lessee == NULL || h->stage != HOST_SERVING ||
      !lessee_next (h->lessee, now_ms (), kinds, &a))
    return false;
  steps++;
  h->leases_busy |= a.kind;
  switch (a.kind) {
  case LESSEE_DO_LEAVE:
    h->leave = a.leave;
    later (h, leave, h);
    break;
  case LESSEE_DO_RECOVER:
    recover (h, &a);
    break;
  case LESSEE_DO_GIVE:
    give (h, &a);
    break;
  case LESSEE_DO_ASK:
    ask (h, &a);
    break;
  case LESSEE_DO_ALL:
    break;
  }
  return true;
}

uint64_t
leases_due_ms (const struct host_role *h)
{
  if (h->lessee == NULL || h->stage != HOST_SERVING)
    return UINT64_MAX;
  return lessee_due_ms (h->lessee, LESSEE_DO_ALL & ~h->leases_busy);
}

bool
leases_heard (struct host_role *h, const struct call *c)
{
  const struct answer *a = &c->answer;

  if (h->lessee == NULL || a->status != 200)
    return false;
  return lessee_heard (h->lessee, a->generation, c->revoke, c->revokes,
                       a->order_number, c->ranges, c->ranges_count);
}

/* The engines are made. */
void
leases_begin (struct host_role *h)
{
  h->lease_holder = 0;
  if (w.config.leases && !h->leases) { /* it writes alone */
    for (unsigned g = 0; g < w.grains; g++)
      shared_holds (h, g);
    return;
  }
  h->lessee = lessee_new (w.config.lessee, w.layout.size, h->map.generation,
                          !h->map.declare, h->map.order_number);
  if (h->leases)
    look (h, false);
}

void
leases_end (struct host_role *h)
{
  struct call *c[2] = { h->asking, h->giving };

  h->asking = h->giving = NULL;
  for (unsigned i = 0; i < 2; i++)
    if (c[i])
      call_unref (c[i]);
  lessee_free (h->lessee);
  h->lessee = NULL;
}
