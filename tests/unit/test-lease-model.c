/* test-lease-model.c: lessees against a minimal weftd and minimal array engines, in a
 * world where calls are carried out late, twice, in any order and without an answer, and
 * where weftd and hosts are started again.  By the hosts' own view, no block has two
 * holders.  No host is granted a block that a dead one may have left half written.  When
 * faults have stopped, all waiting requests are served.
 */

#include <config.h>

#include <string.h>

#include "host/lessee.h"
#include "test-random.h"

#define HOSTS 3
#define BLOCKS 40
#define BLOCK KiB (16)
#define ALL ((UINT64_C (1) << BLOCKS) - 1)
#define CALLS 256
#define REQUESTS 8
#define LEAVES 64
#define WAIT_MS 500
#define CALM_MS 120000

/* ---- Sets of blocks ---- */

static uint64_t
span (unsigned first, unsigned end)
{
  return ((UINT64_C (1) << end) - 1) & ~((UINT64_C (1) << first) - 1);
}

static uint64_t
blocks (const struct array_range *r)
{
  CHECK (r->length > 0 && r->offset % BLOCK == 0 && r->length % BLOCK == 0);
  CHECK (r->offset + r->length <= BLOCKS * BLOCK);
  return span (r->offset / BLOCK, (r->offset + r->length) / BLOCK);
}

static unsigned
ranges (uint64_t set, struct array_range *r)
{
  unsigned n = 0;

  for (unsigned b = 0; b < BLOCKS; b++) {
    unsigned first = b;

    while (b < BLOCKS && set >> b & 1)
      b++;
    if (b > first)
      r[n++] = (struct array_range) { first * BLOCK, (b - first) * BLOCK };
  }
  return n;
}

static uint64_t
any_span (unsigned most)
{
  unsigned first = test_random (BLOCKS), end = first + 1 + test_random (most);

  return span (first, end < BLOCKS ? end : BLOCKS);
}

/* From its first to its last. */
static uint64_t
hull (uint64_t set)
{
  return set ? span (__builtin_ctzll (set), 64 - __builtin_clzll (set)) : 0;
}

/* The part of `set` that is contiguous with `core`. */
static uint64_t
around (uint64_t core, uint64_t set)
{
  uint64_t got = core, before;

  do {
    before = got;
    got |= (got << 1 | got >> 1) & set;
  } while (got != before);
  return got;
}

/* ---- The world ---- */

enum kind { ASK, GIVE, BEAT };
enum at { FREE, PREPARING, SENT, WAITING, ANSWERED };

struct call {
  enum at at;
  enum kind kind;
  unsigned host, session;
  bool owned; /* somebody waits for the answer */
  uint64_t sequence, since_ms;
  struct lessee_action a;
  uint64_t give, list, order; /* GIVE; GIVE that declares; BEAT */
  int status;                 /* the answer: */
  bool declare;
  uint64_t granted, generation, recover, ordered;
  struct lease_wish revoke[CALLS];
  unsigned revokes;
};

struct request {
  uint64_t set; /* 0: none */
  bool runs;
};

struct host {
  bool lives;
  struct lessee *l;
  unsigned session;
  uint64_t held, recovering;
  struct request request[REQUESTS];
  struct leave {
    uint64_t must, extents; /* must 0: none */
  } leave[LEAVES];
  uint64_t left;       /* to be taken */
  bool recovers;       /* until lessee_recovered */
  uint64_t orphans;    /* the orders that it recovers */
  bool granting;       /* between lessee_granted and lessee_asked */
  uint64_t granted;    /* to be had by the array engine */
  bool asking, giving; /* a call is under way */
  unsigned beats;      /* calls under way */
  uint64_t beat_due_ms;
};

/* A session, as weftd sees it. */
struct session {
  unsigned id; /* 0: there is none */
  bool declared, dead;
  uint64_t number, has, order;
};

static struct call call[CALLS];
static struct host host[HOSTS];
static struct session session[HOSTS];
static uint64_t now_ms, sequence, generation, life, orders;
static uint64_t orphans, ordered,
  order; /* `ordered` is by the order under way */
static unsigned recoverer, sessions;
static bool to_recover, fresh, calm;
static uint64_t dirty; /* a dead one may have left it half written */
static unsigned served, recoveries, restarts, deaths, revoked, declares;

static uint64_t
busy (const struct host *h)
{
  uint64_t set = h->held;

  for (unsigned i = 0; i < LEAVES; i++)
    set |= h->leave[i].must ? h->leave[i].extents : 0;
  return set;
}

static void
check (void)
{
  uint64_t all = 0;

  for (unsigned i = 0; i < HOSTS; i++)
    if (host[i].lives) {
      uint64_t set = busy (&host[i]);

      CHECK (!(all & set)); /* L1 */
      all |= set;
      lessee_check (host[i].l);
    }
}

/* ---- The array engine ---- */

static void
begin_requests (struct host *h)
{
  for (unsigned i = 0; i < REQUESTS; i++) {
    struct request *q = &h->request[i];

    if (q->set && !q->runs)
      q->runs = !(q->set & ~(h->held & ~h->recovering));
  }
}

static void
tell_wants (struct host *h, bool asked)
{
  struct array_range wants[REQUESTS];
  unsigned n = 0;

  for (unsigned i = 0; i < REQUESTS; i++)
    if (h->request[i].set && !h->request[i].runs &&
        (h->request[i].set & ~h->held))
      ranges (h->request[i].set, &wants[n++]);
  if (asked)
    lessee_asked (h->l, wants, n, now_ms);
  else
    lessee_wants (h->l, wants, n, now_ms);
}

static void
grant (struct host *h, uint64_t set)
{
  CHECK (!(set & ~h->held & dirty)); /* L2 */
  h->held |= set;
  begin_requests (h);
}

static void
leave (struct host *h, const struct lease_wish *w)
{
  uint64_t must = blocks (&w->must), wish = blocks (&w->wish);
  unsigned i = 0;

  CHECK (!(must & ~wish));
  CHECK (!(must & h->recovering));
  while (h->leave[i].must)
    CHECK (++i < LEAVES);
  h->leave[i].must = must;
  h->leave[i].extents = h->held & ~h->recovering &
                        (must |
                         (test_random (2) ? around (must, h->held & wish) : 0));
  h->held &= ~h->leave[i].extents;
  revoked++;
}

static void
leave_ends (struct host *h, struct leave *x)
{
  for (unsigned i = 0; i < REQUESTS; i++)
    if (h->request[i].runs && (h->request[i].set & x->extents))
      return;
  if (x->must) {
    h->left |= x->must | x->extents;
    x->must = 0;
  }
}

/* ---- weftd ---- */

static uint64_t
held_by_others (unsigned i)
{
  uint64_t set = 0;

  for (unsigned o = 0; o < HOSTS; o++)
    set |= o != i && session[o].id ? session[o].has : 0;
  return set;
}

static bool
all_declared (void)
{
  for (unsigned i = 0; i < HOSTS; i++)
    if (session[i].id && !session[i].declared)
      return false;
  return true;
}

static uint64_t
musts (const struct call *c)
{
  uint64_t set = 0;

  for (unsigned i = 0; i < c->a.asks; i++)
    set |= blocks (&c->a.ask[i].must);
  return set;
}

/* Blocks that others ask for, before this call; all others for ~0. */
static uint64_t
waited_for (const struct call *c, uint64_t before)
{
  uint64_t set = 0;

  for (const struct call *o = call; o < call + CALLS; o++)
    if (o != c && o->at == WAITING && o->host != c->host &&
        o->sequence < before)
      set |= musts (o);
  return set;
}

static void
answer (struct call *c, int status)
{
  c->at = ANSWERED;
  c->status = status;
}

static void
try_ask (struct call *c)
{
  struct session *s = &session[c->host];
  uint64_t must = musts (c), others = held_by_others (c->host) | orphans;
  uint64_t wish = 0;
  bool alone = true;

  if (s->id != c->session || s->dead) {
    answer (c, 410);
    return;
  }
  if (!all_declared () || (must & (others | waited_for (c, c->sequence))))
    return;
  for (unsigned i = 0; i < c->a.asks; i++)
    wish |= blocks (&c->a.ask[i].wish);
  for (unsigned o = 0; o < HOSTS; o++)
    alone &= o == c->host || !session[o].id;
  if (alone)
    wish = ALL;
  wish &= ~(others | waited_for (c, UINT64_MAX));
  c->granted = around (must, wish | s->has);
  s->has |= c->granted;
  answer (c, 200);
}

static void
settle (void)
{
  if (fresh && all_declared ()) {
    fresh = false;
    orphans = to_recover ? ALL & ~held_by_others (HOSTS) : 0;
  }
  for (uint64_t last = 0;;) {
    struct call *first = NULL;

    for (struct call *c = call; c < call + CALLS; c++)
      if (c->at == WAITING && c->sequence > last &&
          (first == NULL || c->sequence < first->sequence))
        first = c;
    if (first == NULL)
      break;
    last = first->sequence;
    try_ask (first);
  }
}

static void
carry_out_give (struct call *c, struct session *s)
{
  if (c->a.declare ? c->a.number >> 32 != generation : !s->declared) {
    c->declare = true;
    answer (c, 409);
    return;
  }
  answer (c, 200);
  if (c->a.number <= s->number)
    return;
  s->number = c->a.number;
  if (c->a.declare) {
    CHECK (!(c->list & held_by_others (c->host)));
    s->has = c->list;
    s->declared = true;
    declares++;
  }
  s->has &= ~c->give;
  if (order > 0 && c->a.recovered == order && recoverer == c->host) {
    s->has |= ordered;
    orphans &= ~ordered;
    to_recover = orphans > 0;
    ordered = order = 0;
    recoveries++;
  }
}

static void
carry_out_beat (struct call *c, struct session *s)
{
  unsigned dying = 0;

  s->order = c->order;
  for (unsigned i = 0; i < HOSTS; i++)
    dying += session[i].id && session[i].dead;
  if (order == 0 && orphans && all_declared () && !dying && !fresh) {
    order = life << 32 | ++orders;
    ordered = orphans;
    recoverer = c->host;
  }
  c->generation = generation;
  c->recover = order > 0 && recoverer == c->host && s->order != order ? order
                                                                      : 0;
  c->ordered = ordered;
  c->revokes = 0;
  for (struct call *o = call; o < call + CALLS; o++)
    for (unsigned i = 0;
         o->at == WAITING && o->host != c->host && i < o->a.asks; i++) {
      uint64_t must = blocks (&o->a.ask[i].must) & s->has;
      struct lease_wish *w = &c->revoke[c->revokes];

      if (!must || (musts (o) & waited_for (o, o->sequence)))
        continue;
      ranges (hull (must), &w->must);
      w->wish = o->a.ask[i].wish;
      c->revokes++;
    }
  answer (c, 200);
}

static void
carry_out (struct call *c)
{
  struct session *s = &session[c->host];

  c->declare = false;
  c->granted = 0;
  if (s->id != c->session || s->dead)
    answer (c, 410);
  else if (c->kind == BEAT)
    carry_out_beat (c, s);
  else if (c->kind == GIVE)
    carry_out_give (c, s);
  else if (!s->declared) {
    c->declare = true;
    answer (c, 409);
  }
  else {
    c->at = WAITING;
    c->since_ms = now_ms;
    c->sequence = ++sequence;
  }
  settle ();
}

static void
restart_weftd (void)
{
  generation++;
  life = test_random (1000);
  restarts++;
  orphans = ordered = order = orders = 0;
  fresh = true;
  for (unsigned i = 0; i < HOSTS; i++) {
    session[i].declared = false;
    session[i].number = session[i].has = session[i].order = 0;
  }
  for (struct call *c = call; c < call + CALLS; c++)
    if (c->at == WAITING)
      answer (c, 0);
}

static void
attach (unsigned i)
{
  struct host *h = &host[i];
  bool first = true;

  for (unsigned o = 0; o < HOSTS; o++)
    first &= !session[o].id;
  *h = (struct host) { .lives = true, .session = ++sessions };
  session[i] = (struct session) { .id = sessions, .declared = true };
  if (first) {
    orphans = ordered = 0;
    order = life << 32 | ++orders;
    recoverer = i;
    session[i].has = h->held = h->recovering = h->orphans = ALL;
    to_recover = h->recovers = true;
    fresh = false;
  }
  h->l = lessee_new (test_random (3), BLOCKS * BLOCK, generation, true,
                     first ? order : 0);
  CHECK (h->l);
}

static void
die (unsigned i)
{
  dirty |= busy (&host[i]);
  host[i].lives = false;
  lessee_free (host[i].l);
  session[i].dead = true;
  deaths++;
  for (struct call *c = call; c < call + CALLS; c++)
    if (c->host == i)
      c->owned = false;
}

/* All members have confirmed that it is over. */
static void
fenced (unsigned i)
{
  bool others = false;

  if (!session[i].dead)
    return;
  if (recoverer == i)
    order = ordered = 0;
  orphans |= session[i].has;
  to_recover = true;
  session[i] = (struct session) { 0 };
  for (unsigned o = 0; o < HOSTS; o++)
    others |= session[o].id != 0;
  settle ();
  if (!others) {
    fresh = false;
    orphans = 0;
  }
}

/* ---- Hosts ---- */

static struct call *
send_call (unsigned i, enum kind kind)
{
  struct call *c = call;

  while (c->at != FREE)
    if (++c == call + CALLS)
      return NULL;
  *c = (struct call) { .at = SENT,
                       .kind = kind,
                       .host = i,
                       .session = host[i].session,
                       .owned = true };
  return c;
}

static bool
act (unsigned i)
{
  struct host *h = &host[i];
  struct lessee_action a;
  struct call *c;
  unsigned room = 0;

  for (c = call; c < call + CALLS; c++)
    room += c->at == FREE;
  if (room < 4 || !lessee_next (h->l, now_ms, LESSEE_DO_ALL, &a))
    return false;
  switch (a.kind) {
  case LESSEE_DO_LEAVE:
    leave (h, &a.leave);
    tell_wants (h, false); /* requests that waited for a recovery may be sent
                            * now */
    break;
  case LESSEE_DO_RECOVER:
    CHECK (!h->recovers);
    h->recovers = true;
    h->orphans = 0;
    for (unsigned n = 0; n < a.count; n++)
      h->orphans |= blocks (&a.ranges[n]);
    h->held |= h->orphans;
    h->recovering |= h->orphans;
    break;
  case LESSEE_DO_GIVE:
    CHECK (!h->giving);
    h->giving = true;
    c = send_call (i, GIVE);
    c->a = a;
    for (unsigned n = 0; n < a.count; n++)
      c->give |= blocks (&a.ranges[n]);
    c->at = a.declare ? PREPARING : SENT;
    break;
  case LESSEE_DO_ASK:
    CHECK (!h->asking && a.asks > 0);
    h->asking = true;
    c = send_call (i, ASK);
    c->a = a;
    break;
  case LESSEE_DO_ALL:
    CHECK (0);
  }
  return true;
}

static void
beat (unsigned i)
{
  struct call *c = send_call (i, BEAT);

  if (c == NULL)
    return;
  c->order = lessee_order (host[i].l);
  host[i].beats++;
  host[i].beat_due_ms = now_ms + 100;
}

/* The sender gets the answer, or status 0. */
static void
deliver (struct call *c, int status)
{
  struct host *h = &host[c->host];
  struct array_range r[BLOCKS];
  unsigned n;

  c->owned = false;
  switch (c->kind) {
  case ASK:
    n = ranges (status == 200 ? c->granted : 0, r);
    n = lessee_granted (h->l, status, status == 409 && c->declare, r, n,
                        test_random (8) ? BLOCKS : 1, now_ms);
    h->granting = true;
    h->granted = 0;
    while (n-- > 0)
      h->granted |= blocks (&r[n]);
    break;
  case GIVE:
    h->giving = false;
    lessee_gave (h->l, status, status == 409 && c->declare, now_ms);
    break;
  case BEAT:
    h->beats--;
    n = ranges (c->ordered, r);
    if (status == 200 && lessee_heard (h->l, c->generation, c->revoke,
                                       c->revokes, c->recover, r, n))
      h->beat_due_ms = 0;
  }
}

/* ---- Steps ---- */

static struct call *
some_call (enum at at)
{
  unsigned from = test_random (CALLS);

  for (unsigned n = 0; n < CALLS; n++)
    if (call[(from + n) % CALLS].at == at)
      return &call[(from + n) % CALLS];
  return NULL;
}

static void
step_call (void)
{
  struct call *c = some_call (1 + test_random (4));

  if (c == NULL)
    return;
  if (!calm && c->owned && c->at != ANSWERED && test_random (80) == 0) {
    bool late = c->at == SENT || c->at == WAITING;

    deliver (c, 0);
    c->at = late ? c->at : FREE;
    return;
  }
  switch (c->at) {
  case FREE:
    break;
  case PREPARING:
    if (c->owned)
      c->list = busy (&host[c->host]);
    c->at = c->owned ? SENT : FREE;
    break;
  case SENT:
    if (!calm && test_random (4) == 0)
      break;
    carry_out (c);
    break;
  case WAITING:
    if (now_ms - c->since_ms >= WAIT_MS)
      answer (c, 409);
    break;
  case ANSWERED:
    if (c->owned)
      deliver (c, !calm && test_random (20) == 0 ? 0 : c->status);
    c->at = !calm && test_random (8) == 0 ? SENT : FREE;
    break;
  }
}

static void
step_host (void)
{
  unsigned i = test_random (HOSTS);
  struct host *h = &host[i];
  struct request *q = &h->request[test_random (REQUESTS)];
  struct array_range r[BLOCKS];

  if (!h->lives)
    return;
  switch (test_random (calm ? 7 : 8)) {
  case 0:
    for (unsigned n = 0; n < LEAVES; n++)
      leave_ends (h, &h->leave[n]);
    break;
  case 1:
    if (h->left) {
      unsigned n = ranges (h->left, r);

      lessee_left (h->l, r, n);
      h->left = 0;
    }
    break;
  case 2:
    if (h->granting) {
      grant (h, h->granted);
      h->granting = h->asking = false;
      tell_wants (h, true);
    }
    break;
  case 3:
    if (h->recovers && test_random (8) == 0) {
      bool whole = h->orphans == ALL;
      bool ok = whole || test_random (2);

      h->recovers = false;
      if (ok) {
        dirty &= ~h->orphans;
        h->recovering &= ~h->orphans;
        begin_requests (h);
      }
      lessee_recovered (h->l, ok, now_ms);
    }
    break;
  case 4:
    if (q->set && q->runs) {
      *q = (struct request) { 0 };
      served++;
    }
    break;
  case 5:
    if (h->beats < 2 && now_ms >= h->beat_due_ms)
      beat (i);
    break;
  case 6:
    act (i);
    break;
  case 7:
    if (!q->set) {
      q->set = any_span (6);
      begin_requests (h);
      tell_wants (h, false);
    }
    break;
  }
}

static void
step_fault (void)
{
  unsigned i = test_random (HOSTS);

  switch (test_random (60)) {
  case 0:
    restart_weftd ();
    break;
  case 1:
    if (host[i].lives)
      die (i);
    break;
  default:
    if (!session[i].id)
      attach (i);
    else if (test_random (4) == 0)
      fenced (i);
  }
}

static bool
waits (void)
{
  for (unsigned i = 0; i < HOSTS; i++)
    for (unsigned n = 0; host[i].lives && n < REQUESTS; n++)
      if (host[i].request[n].set)
        return true;
  return false;
}

static void
world (unsigned steps)
{
  uint64_t until_ms;

  memset (call, 0, sizeof call);
  memset (host, 0, sizeof host);
  memset (session, 0, sizeof session);
  orphans = ordered = order = dirty = 0;
  to_recover = fresh = calm = false;
  generation++;
  while (steps-- > 0) {
    now_ms += test_random (3) == 0 ? test_random (20) : 0;
    if (test_random (50) == 0)
      step_fault ();
    else if (test_random (2))
      step_host ();
    else
      step_call ();
    check ();
  }
  calm = true;
  for (unsigned i = 0; i < HOSTS; i++)
    fenced (i);
  for (until_ms = now_ms + CALM_MS; waits ();) {
    CHECK (now_ms < until_ms);
    now_ms += test_random (8) == 0;
    if (test_random (2))
      step_host ();
    else
      step_call ();
    check ();
  }
  for (unsigned i = 0; i < HOSTS; i++)
    if (host[i].lives)
      lessee_free (host[i].l);
}

int
main (void)
{
  test_random_start ();
  for (unsigned n = 0; n < 200; n++)
    world (5000);
  printf ("%u served, %u left, %u recoveries, %u restarts, %u declares, "
          "%u deaths\n",
          served, revoked, recoveries, restarts, declares, deaths);
  CHECK (served > 1000 && revoked > 1000 && recoveries > 100);
  CHECK (restarts > 100 && declares > 100 && deaths > 100);
  return 0;
}
