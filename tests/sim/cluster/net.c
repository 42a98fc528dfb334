/* net.c: the network: cuts between parties, calls to weftd, connections to members.
 *
 * One direction between two parties may be cut.  Data then waits, and arrives when the
 * cut has healed (TCP sends it again), unless an end has given up by then.  A connection
 * that breaks still delivers the first part of the data under way, in order, and nothing
 * after that.  There are no cuts within a party.
 */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

bool
net_cut (unsigned from, unsigned to)
{
  return from != to && w.cut[from][to];
}

bool
net_holes (void)
{
  return w.hole[0].from || w.hole[1].from;
}

void
net_holes_heal (void)
{
  if (net_holes ())
    sim_trace ("no line swallows anything any more");
  memset (w.hole, 0, sizeof w.hole);
}

bool
net_behind (const struct process *member)
{
  for (unsigned i = 0; i < HOLES_MAX; i++)
    if (w.hole[i].from &&
        (w.hole[i].only == member ||
         (w.hole[i].only == NULL &&
          (w.hole[i].from == member->party || w.hole[i].to == member->party))))
      return true;
  return false;
}

bool
net_beside (const struct process *host)
{
  for (unsigned i = 0; i < HOLES_MAX; i++)
    if (w.hole[i].from == host->party || w.hole[i].to == host->party)
      return true;
  return false;
}

bool
net_holed (const struct process *host, const struct process *member)
{
  return net_behind (member) && net_beside (host);
}

/* The line that drops a message with so many bytes of data, on its way to that end. */
static const struct hole *
line_to (const struct conn *c, unsigned end, uint64_t bytes)
{
  for (unsigned i = 0; i < HOLES_MAX; i++) {
    const struct hole *o = &w.hole[i];

    if (o->from && o->from == c->proc[!end]->party &&
        o->to == c->proc[end]->party &&
        (o->only == NULL || o->only == c->proc[1]) &&
        (o->all || bytes > o->bytes))
      return o;
  }
  return NULL;
}

static uint64_t
data_bytes (const struct nbd *n, unsigned end)
{
  return n->kind == (end == 1 ? NBD_CHANGE : NBD_READ) && n->error == 0
           ? n->versions_count * (uint64_t) grain_bytes
           : 0;
}

static uint64_t
delay (unsigned from, unsigned to)
{
  if (from == to)
    return between (5 * US, 40 * US);
  return sim_chance (2) ? between (1 * MS, 20 * MS)
                        : between (40 * US, 300 * US);
}

/* Time until TCP tries again. */
static uint64_t
again (void)
{
  return between (200 * MS, 900 * MS);
}

static bool
flaky (void)
{
  return w.working && w.config.flaky > 0 && sim_below (1000) < w.config.flaky;
}

/* ---- Calls to weftd. ---- */

struct call *
call_new (struct process *from, enum call_kind kind, void *owner,
          void (*answered) (struct call *))
{
  struct call *c = make (sizeof *c);

  c->kind = kind;
  c->from = from;
  c->life = from->life;
  c->owner = owner;
  c->answered = answered;
  c->refs = 1; /* on the way to weftd, there, and back */
  return c;
}

void
call_unref (struct call *c)
{
  if (--c->refs > 0)
    return;
  free (c->leases.declared);
  free (c->leases.given);
  free (c->revoke);
  free (c->ranges);
  free (c);
}

/* The caller gets c->answer. */
static void
call_over (struct call *c)
{
  if (c->over)
    return;
  c->over = true;
  if (c->from->life == c->life)
    c->answered (c);
}

static void
answer_arrives (struct event *e)
{
  struct call *c = (struct call *) e;

  if (!c->over && c->from->life == c->life &&
      (net_cut (0, c->from->party) ||
       process_life (c->from, c->life, NULL) == LIFE_FROZEN)) {
    event_push (e, again ());
    return;
  }
  if (flaky ())
    c->answer.status = 0;
  call_over (c);
  call_unref (c);
}

void
call_answer (struct call *c)
{
  c->event.happen = answer_arrives;
  event_push (&c->event, delay (0, c->from->party));
}

void
call_refuse (struct call *c)
{
  memset (&c->answer, 0, sizeof c->answer);
  call_answer (c);
}

static void
call_arrives (struct event *e)
{
  struct call *c = (struct call *) e;

  bool closed = c->over || c->from->life != c->life;

  /* weftd reads a call that is in its socket, even if no caller waits for the answer. */
  if (closed && !(c->met && c->met == w.weftd.proc.life)) {
    call_unref (c);
    return;
  }
  if (net_cut (c->from->party, 0)) {
    w.weftd.deaf_at = sim_now;
    event_push (e, again ());
    return;
  }
  switch (process_life (&w.weftd.proc, w.weftd.proc.life, NULL)) {
  case LIFE_FROZEN:
    w.weftd.deaf_at = sim_now;
    if (c->kind == CALL_LEASES)
      c->met = w.weftd.proc.life;
    event_push (e, again ());
    return;
  case LIFE_GONE:
    call_refuse (c);
    return;
  case LIFE_RUNS:
    if (flaky ())
      call_refuse (c);
    else
      weftd_call (c);
  }
}

struct timeout {
  struct event event;
  struct call *call;
};

static void
call_late (struct event *e)
{
  struct timeout *t = (struct timeout *) e;
  struct call *c = t->call;

  if (!c->over && c->from->life == c->life &&
      process_life (c->from, c->life, NULL) == LIFE_FROZEN) {
    event_push (e, again ());
    return;
  }
  if (!c->over) {
    memset (&c->answer, 0, sizeof c->answer);
    call_over (c);
  }
  call_unref (c);
  free (t);
}

void
call_send (struct call *c, uint64_t timeout_ms)
{
  struct timeout *t = make (sizeof *t);

  c->sent = sim_now;
  t->event.happen = call_late;
  t->call = c;
  c->refs++;
  event_push (&t->event, timeout_ms * MS);
  c->event.happen = call_arrives;
  event_push (&c->event, delay (c->from->party, 0));
}

/* ---- Connections. ---- */

struct nbd *
nbd_new (enum nbd_kind kind)
{
  struct nbd *n = make (sizeof *n);

  n->kind = kind;
  n->refs = 1;
  return n;
}

static struct conn *conns;

unsigned
conn_place (struct conn *const of[], const struct conn *c)
{
  unsigned m = 0;

  while (of[m] != c)
    m++;
  return m;
}

void
conn_unref (struct conn *c)
{
  if (--c->refs == 0) {
    *c->prev = c->next;
    if (c->next)
      c->next->prev = c->prev;
    free ((char *) c->name);
    free (c);
  }
}

void
nbd_unref (struct nbd *n)
{
  if (--n->refs > 0)
    return;
  if (n->conn)
    conn_unref (n->conn);
  free (n->records);
  free (n->versions);
  free (n);
}

/* A request or an answer, or the news that the connection is broken. */
struct arrival {
  struct event event;
  struct conn *conn;
  unsigned end; /* where it arrives */
};

static void
send_to (struct conn *c, unsigned end, void (*arrives) (struct event *e),
         uint64_t delay)
{
  struct arrival *a = make (sizeof *a);

  a->event.happen = arrives;
  a->conn = c;
  a->end = end;
  c->refs++;
  event_push (&a->event, delay);
}

static void
client_hears (struct conn *c, struct nbd *n)
{
  struct nbd **p;

  if (c->closed[0])
    return;
  for (p = &c->in_flight; *p && *p != n; p = &(*p)->client_next)
    ;
  if (*p == NULL)
    return;
  *p = n->client_next;
  c->answered (c, n);
  nbd_unref (n);
}

/* The network breaks the connection; neither end closed it. */
static void
fail (struct conn *c)
{
  ends_broke (c);
  conn_break (c);
}

/* TCP sends the data again and again, and gets no acknowledgement.  An array process ends
 * such a connection; a member ends it if it has accepted it (plugin/blackhole.c).
 */
#define SWALLOWED_NS (3 * SECOND)

static void
give_up (struct conn *c, unsigned end)
{
  if (c->closed[!end] ||
      process_life (c->proc[!end], c->life[!end], NULL) != LIFE_RUNS ||
      (end == 1 && strcmp (c->proc[0]->kind, "host") != 0))
    return;
  ends_broke (c);
  counters.swallowed++;
  if (end == 1)
    c->broke (c);
  else
    door_hangup (c);
}

static void
swallowed (struct conn *c, unsigned end)
{
  if (c->swallowed[end] == 0) {
    c->swallowed[end] = sim_now;
    ends_broke (c);
  }
  if (sim_now - c->swallowed[end] >= SWALLOWED_NS)
    give_up (c, end);
}

/* The message has arrived, but the line drops all packets back, its acknowledgement too. */
struct unacknowledged {
  struct event event;
  struct conn *conn;
  unsigned end;
  uint64_t holes;
};

static bool
swallows_back (const struct conn *c, unsigned end)
{
  const struct hole *o = line_to (c, !end, UINT64_MAX);

  return o && o->all;
}

static void
unacknowledged_late (struct event *e)
{
  struct unacknowledged *u = (struct unacknowledged *) e;

  if (!u->conn->broken && u->holes == counters.holes &&
      swallows_back (u->conn, u->end))
    give_up (u->conn, u->end);
  conn_unref (u->conn);
  free (u);
}

static void
unacknowledged (struct conn *c, unsigned end)
{
  struct unacknowledged *u = make (sizeof *u);

  u->event.happen = unacknowledged_late;
  u->conn = c;
  u->end = end;
  u->holes = counters.holes;
  c->refs++;
  event_push (&u->event, SWALLOWED_NS);
}

static void
arrives (struct event *e)
{
  struct arrival *a = (struct arrival *) e;
  struct conn *c = a->conn;
  struct nbd *n = c->queue[a->end];
  unsigned end = a->end;

  if (n == NULL) { /* it broke */
    conn_unref (c);
    free (a);
    return;
  }
  if (net_cut (c->proc[!end]->party, c->proc[end]->party) ||
      process_life (c->proc[end], c->life[end], NULL) == LIFE_FROZEN) {
    event_push (e, again ());
    return;
  }
  if (line_to (c, end, data_bytes (n, end))) {
    event_push (e, again ());
    swallowed (c, end);
    return;
  }
  c->swallowed[end] = 0;
  if (swallows_back (c, end))
    unacknowledged (c, end);
  c->queue[end] = n->next;
  if (c->queue[end] == NULL)
    c->tail[end] = &c->queue[end];
  if (process_life (c->proc[end], c->life[end], NULL) == LIFE_GONE) {
    if (!c->broken)
      conn_break (c);
  }
  else if (end == 1 && !c->closed[1])
    door_request (c, n);
  else if (end == 0)
    client_hears (c, n);
  nbd_unref (n);
  if (!c->broken && flaky ())
    fail (c);
  conn_unref (c);
  free (a);
}

static void
transmit (struct conn *c, struct nbd *n, unsigned end)
{
  if (c->broken)
    return;
  n->next = NULL;
  n->refs++;
  *c->tail[end] = n;
  c->tail[end] = &n->next;
  send_to (c, end, arrives, delay (c->proc[!end]->party, c->proc[end]->party));
}

struct conn *
conn_new (struct process *from, struct member_role *to, const char *export_name)
{
  struct conn *c = make (sizeof *c);
  struct nbd *n = nbd_new (NBD_OPEN);

  c->proc[0] = from;
  c->life[0] = from->life;
  c->proc[1] = &to->proc;
  c->life[1] = to->proc.life;
  c->server = to;
  c->tail[0] = &c->queue[0];
  c->tail[1] = &c->queue[1];
  c->refs = 1; /* the client's */
  c->next = conns;
  c->prev = &conns;
  if (conns)
    conns->prev = &c->next;
  conns = c;
  c->name = strdup (export_name);
  nbd_send (c, n);
  return c;
}

void
nbd_send (struct conn *c, struct nbd *n)
{
  n->conn = c;
  n->sent = sim_now;
  c->refs++;
  n->client_next = c->in_flight;
  c->in_flight = n;
  transmit (c, n, 1);
}

void
nbd_reply (struct nbd *n)
{
  transmit (n->conn, n, 0);
}

static void
news_arrives (struct event *e)
{
  struct arrival *n = (struct arrival *) e;
  struct conn *c = n->conn;

  if (!c->closed[n->end] && c->proc[n->end]->life == c->life[n->end]) {
    /* A client's close arrives behind its data; a reset by a member ends all at once. */
    if (net_cut (c->proc[!n->end]->party, c->proc[n->end]->party) ||
        line_to (c, n->end, n->end == 1 && c->swallowed[1] ? UINT64_MAX : 0) ||
        process_life (c->proc[n->end], c->life[n->end], NULL) == LIFE_FROZEN) {
      event_push (e, again ());
      return;
    }
    if (n->end == 0)
      c->broke (c);
    else
      door_hangup (c);
  }
  conn_unref (c);
  free (n);
}

/* The first part of the data under way to this end arrives. */
static void
cut_queue (struct conn *c, unsigned end, bool any)
{
  struct nbd **p = &c->queue[end], *n;

  while (any && *p && sim_chance (60))
    p = &(*p)->next;
  while ((n = *p) != NULL) {
    *p = n->next;
    nbd_unref (n);
  }
  c->tail[end] = p;
}

void
conn_break (struct conn *c)
{
  if (c->broken)
    return;
  c->broken = true;
  cut_queue (c, 0, true);
  cut_queue (c, 1, true);
  for (unsigned end = 0; end < 2; end++)
    if (!c->closed[end])
      send_to (c, end, news_arrives,
               sim_chance (80) ? between (20 * US, 2 * MS)
                               : between (1 * MS, 800 * MS));
}

void
conn_break_some (unsigned a, unsigned b, unsigned percent)
{
  for (struct conn *c = conns; c; c = c->next) {
    unsigned p = c->proc[0]->party, q = c->proc[1]->party;

    if (!c->broken &&
        (a == PARTIES || (p == a && q == b) || (p == b && q == a)) &&
        sim_chance (percent))
      fail (c);
  }
}

/* A connection that is left from one run would change the next run. */
void
net_check_empty (void)
{
  if (conns)
    sim_fail ("a connection to %s %u is left", conns->proc[1]->kind,
              conns->proc[1]->number);
}

void
conn_close (struct conn *c, unsigned end)
{
  struct nbd *n;

  if (c->closed[end])
    return;
  c->closed[end] = true;
  if (!c->broken) {
    c->broken = true;
    cut_queue (c, end, false);
    cut_queue (c, !end, true);
    if (!c->closed[!end])
      send_to (c, !end, news_arrives, between (20 * US, 2 * MS));
  }
  if (end == 1)
    return;
  while ((n = c->in_flight) != NULL) { /* the client no longer waits for them */
    c->in_flight = n->client_next;
    n->io = NULL;
    nbd_unref (n);
  }
  conn_unref (c);
}
