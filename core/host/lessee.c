/* lessee.c: see lessee.h.
 *
 * Inputs only note their facts; due_ms derives from them when an action is due,
 * and take notes that it was taken.
 *
 * A range that weftd asks back goes this way:
 *
 *   asked_back ── LEAVE ──► LEAVING ── lessee_left ──► LEFT ── GIVE ──► GIVEN ──► nobody's
 *                           (also what is left with it)  ^____________| answered by a weftd
 *                                                                       that knows nothing
 *
 * `back` has the last three: weftd may count it as given any time from now on,
 * or may have given it to another session by now.  The same holds for all of
 * the wish of a LEAVE that is not done, because the array engine may have taken
 * any of that.  A LEAVE does not begin in there, so no two of them wait for the
 * same requests.
 *
 * While an ask is under way, `tainted` collects all ranges that were in `back`
 * at any time.
 *
 * A GIVE that is not answered is kept as it is, and sent again.  If weftd turns
 * out not to know our session, the GIVE is dropped: its ranges go with the GIVE
 * that declares our leases.
 */

#include <config.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/spares.h"
#include "base/spans.h"
#include "host-internal.h"
#include "lease-window.h"
#include "lessee.h"

/* weftd holds its answer for this time; later wishes wait. */
#define ASK_WAIT_MS 500
#define ASK_PAUSE_MS 10 /* after one that it did not hold */

enum { LEAVING = 1, LEFT, GIVEN }; /* owners, in `back` */

/* Orphans to recover. */
struct order {
  uint64_t number;    /* 0: there is none */
  struct spans spans; /* of an owner of no meaning */
};

enum recovery {
  RECOVERY_NONE,
  RECOVERY_DUE,       /* from recovery_due_ms on */
  RECOVERY_UNDER_WAY, /* the caller is at it */
  RECOVERY_DONE,      /* weftd must get the report, or has not answered yet */
};

struct lessee {
  enum lessee_kind kind;
  uint64_t size;
  struct lease_window window;
  uint64_t generation; /* the newest that was heard of */
  bool declared;       /* it knows what we have */
  bool
    /* a later weftd has said that it does not know our session: hear it first,
     * and no longer count on the former one
     */
    doubted;

  struct array_range want[LESSEE_WANTS_MAX];
  unsigned wants;
  bool asking,
    granting; /* ASK is under way; the array engine gets what it brought */
  uint64_t asked_by; /* the generation, when it began */
  uint64_t ask_sent_ms, ask_due_ms;
  struct lease_wish ask[LEASE_ASKS_MAX];
  unsigned asks, in_vain; /* in_vain: since one was granted */
  struct spans tainted;   /* of an owner of no meaning */

  struct spans asked_back; /* by number, from 1, of: */
  struct array_range *wish;
  struct lease_wish *leave; /* that are not done */
  unsigned leaves, leaves_room;
  struct spans back;

  uint64_t number;   /* of the last GIVE */
  bool giving;       /* it is under way */
  bool kept;         /* it was not answered, and must be sent again */
  uint64_t given_by; /* the generation, when it was made */
  uint64_t give_due_ms;
  bool give_declares;
  uint64_t give_recovered;
  struct array_range give[LESSEE_GIVES_MAX];
  unsigned gives;

  uint64_t heard_order;     /* the newest that this weftd has told */
  struct order order, next; /* the one that we are at; that comes then */
  enum recovery recovery;
  bool begun; /* the array engine has the ranges of the order, ... */
  struct array_range *recover; /* ... as the caller has them */
  uint64_t recovery_due_ms;
};

static uint64_t
end_of (const struct array_range *r)
{
  return r->offset + r->length;
}

static bool
meet (const struct array_range *r, uint64_t start, uint64_t end)
{
  return r->offset < end && start < end_of (r);
}

static void
set (struct spans *s, const struct array_range *r, uint64_t owner)
{
  spans_set (s, r->offset, end_of (r), owner);
}

/* May weftd have any of this as given back, now or soon? */
static bool
goes_back (const struct lessee *l, uint64_t start, uint64_t end)
{
  for (unsigned i = 0; i < l->leaves; i++)
    if (meet (&l->leave[i].wish, start, end))
      return true;
  return spans_meet (&l->back, start, end);
}

static bool
order_meets (const struct order *o, uint64_t start, uint64_t end)
{
  return spans_meet (&o->spans, start, end);
}

/* Is any of it still to be left? */
static bool
leaving (const struct lessee *l, uint64_t start, uint64_t end)
{
  for (unsigned i = spans_find (&l->back, start);
       i < l->back.count && l->back.span[i].start < end; i++)
    if (l->back.span[i].owner == LEAVING)
      return true;
  return false;
}

/* ---- Orders ---- */

static void
order_free (struct order *o)
{
  spans_free (&o->spans);
  *o = (struct order) { 0 };
}

static void
order_set (struct order *o, uint64_t number, const struct array_range *ranges,
           unsigned count)
{
  order_free (o);
  o->number = number;
  for (unsigned i = 0; i < count; i++)
    set (&o->spans, &ranges[i], 1);
}

/* The order that we are at is over: the next one. */
static void
order_over (struct lessee *l)
{
  order_free (&l->order);
  l->order = l->next;
  l->next = (struct order) { 0 };
  l->recovery = l->order.number > 0 ? RECOVERY_DUE : RECOVERY_NONE;
  l->recovery_due_ms = 0;
  l->begun = false;
}

/* Not while anything there is being left: that would be taken for given back. */
static bool
may_recover (const struct lessee *l)
{
  const struct spans *s = &l->order.spans;

  for (unsigned i = 0; i < s->count; i++)
    if (leaving (l, s->span[i].start, s->span[i].end))
      return false;
  return l->recovery == RECOVERY_DUE;
}

/* The array engine has the ranges back that were left there; weftd has taken in
 * enough to count them as without an owner.
 */
static void
take_recover (struct lessee *l, struct lessee_action *a)
{
  const struct spans *s = &l->order.spans;

  l->recovery = RECOVERY_UNDER_WAY;
  l->begun = true;
  free (l->recover);
  l->recover = alloc_zeroed ((s->count + 1) * sizeof *l->recover);
  for (unsigned i = 0; i < s->count; i++) {
    l->recover[i] = (struct array_range) { s->span[i].start,
                                           s->span[i].end - s->span[i].start };
    set (&l->back, &l->recover[i], 0);
  }
  a->ranges = l->recover;
  a->count = s->count;
}

void
lessee_recovered (struct lessee *l, bool ok, uint64_t now_ms)
{
  assert (l->recovery == RECOVERY_UNDER_WAY);
  if (!ok) {
    l->recovery = RECOVERY_DUE;
    l->recovery_due_ms = now_ms + HOST_RETRY_MS;
  }
  else
    l->recovery = RECOVERY_DONE;
}

/* ---- A weftd that knows nothing of us ---- */

/* The ranges of the last GIVE must still be given (LEFT), or have no owner (0).
 */
static void
give_over (struct lessee *l, uint64_t becomes)
{
  for (unsigned i = 0; i < l->back.count;)
    if (l->back.span[i].owner == GIVEN)
      spans_set (&l->back, l->back.span[i].start, l->back.span[i].end, becomes);
    else
      i++;
  l->kept = false;
}

static void
undeclared (struct lessee *l)
{
  l->declared = false;
  l->give_due_ms = 0;
  if (l->kept)
    give_over (l, LEFT);
}

static void
renewed (struct lessee *l, uint64_t generation)
{
  l->generation = generation;
  l->doubted = false;
  l->heard_order = 0; /* it counts from the start again */
  undeclared (l);
  order_free (&l->next);
  /* The array engine's part of an order is declared: that order goes on, and
   * the new weftd hears when it is done.
   */
  if (l->recovery == RECOVERY_DUE && !l->begun)
    order_over (l);
}

/* ---- What weftd asks back, and orders ---- */

/* Is all of it somebody's? */
static bool
covers (const struct spans *s, uint64_t at, uint64_t end)
{
  for (unsigned i = spans_find (s, at);
       at < end && i < s->count && s->span[i].start <= at; i++)
    at = s->span[i].end;
  return at >= end;
}

/* Takes the place of what was asked back before.  Returns whether anything is new. */
static bool
hear_revokes (struct lessee *l, const struct lease_wish *revoke,
              unsigned revokes)
{
  struct spans before = l->asked_back;
  bool news = false;

  l->asked_back = (struct spans) { 0 };
  free (l->wish);
  l->wish = alloc_zeroed ((revokes + 1) * sizeof *l->wish);
  for (unsigned i = revokes; i-- > 0;) { /* the first is served first */
    l->wish[i] = revoke[i].wish;
    set (&l->asked_back, &revoke[i].must, 1 + i);
  }
  if (l->asked_back.count > 0)
    for (unsigned i = 0; i < l->back.count; i++)
      spans_set (&l->asked_back, l->back.span[i].start, l->back.span[i].end, 0);
  for (unsigned i = 0; i < l->asked_back.count; i++)
    news |= !covers (&before, l->asked_back.span[i].start,
                     l->asked_back.span[i].end);
  spans_free (&before);
  return news;
}

bool
lessee_heard (struct lessee *l, uint64_t generation,
              const struct lease_wish *revoke, unsigned revokes,
              uint64_t recover, const struct array_range *ranges,
              unsigned count)
{
  bool news;

  if (generation < l->generation || (l->doubted && generation == l->generation))
    return false;
  if (generation > l->generation)
    renewed (l, generation);
  news = hear_revokes (l, revoke, revokes);
  /* An order before the declaration might be declared with it, as ours. */
  if (recover <= l->heard_order || !l->declared)
    return news;
  l->heard_order = recover;
  order_set (&l->next, recover, ranges, count);
  if (l->recovery == RECOVERY_NONE)
    order_over (l);
  return true;
}

uint64_t
lessee_order (const struct lessee *l)
{
  return l->next.number > 0 ? l->next.number : l->order.number;
}

/* May this be left now?  Not what we ask for ourselves, nor what is not recovered: weftd
 * would take it for equal.
 */
static bool
may_leave (const struct lessee *l, const struct span *s)
{
  for (unsigned i = 0; l->asking && i < l->asks; i++)
    if (meet (&l->ask[i].must, s->start, s->end))
      return false;
  return !l->granting && !goes_back (l, s->start, s->end) &&
         !order_meets (&l->order, s->start, s->end);
}

/* The first span of asked_back that may be left; its count: there is none. */
static unsigned
leave_due (const struct lessee *l)
{
  unsigned i = 0;

  while (i < l->asked_back.count && !may_leave (l, &l->asked_back.span[i]))
    i++;
  return i;
}

static void
take_leave (struct lessee *l, uint64_t now_ms, struct lessee_action *a)
{
  struct span s = l->asked_back.span[leave_due (l)];

  a->leave.must = (struct array_range) { s.start, s.end - s.start };
  a->leave.wish = l->wish[s.owner - 1];
  /* Ranges that are being asked for would be given back unused. */
  for (unsigned i = 0; l->asking && i < l->asks; i++)
    if (meet (&l->ask[i].must, a->leave.wish.offset, end_of (&a->leave.wish)))
      a->leave.wish = a->leave.must;
  if (l->leaves == l->leaves_room) {
    l->leaves_room = 2 * l->leaves_room + 8;
    l->leave = realloc (l->leave, l->leaves_room * sizeof *l->leave);
    if (l->leave == NULL)
      abort ();
  }
  l->leave[l->leaves++] = a->leave;
  spans_set (&l->asked_back, s.start, s.end, 0);
  spans_set (&l->back, s.start, s.end, LEAVING);
  if (l->asking)
    set (&l->tainted, &a->leave.wish, 1);
  lease_window_note (&l->window, &a->leave.must, true, now_ms);
}

void
lessee_left (struct lessee *l, const struct array_range *left, unsigned count)
{
  unsigned kept = 0;

  for (unsigned i = 0; i < count; i++) {
    set (&l->back, &left[i], LEFT);
    if (l->asking)
      set (&l->tainted, &left[i], 1);
  }
  for (unsigned i = 0; i < l->leaves; i++)
    if (leaving (l, l->leave[i].must.offset, end_of (&l->leave[i].must)))
      l->leave[kept++] = l->leave[i];
  l->leaves = kept;
}

/* ---- What is given back ---- */

static bool
something_to_give (const struct lessee *l)
{
  for (unsigned i = 0; i < l->back.count; i++)
    if (l->back.span[i].owner == LEFT)
      return true;
  return l->kept || !l->declared || l->recovery == RECOVERY_DONE;
}

static void
make_give (struct lessee *l)
{
  l->number = l->given_by == l->generation ? l->number + 1
                                           : LEASE_NUMBERS (l->generation) + 1;
  l->given_by = l->generation;
  l->give_declares = !l->declared;
  l->give_recovered = l->recovery == RECOVERY_DONE ? l->order.number : 0;
  l->gives = 0;
  for (unsigned i = 0; i < l->back.count && l->gives < LESSEE_GIVES_MAX; i++)
    if (l->back.span[i].owner == LEFT)
      l->give[l->gives++] = (struct array_range) {
        l->back.span[i].start, l->back.span[i].end - l->back.span[i].start
      };
  for (unsigned i = 0; i < l->gives; i++)
    set (&l->back, &l->give[i], GIVEN);
}

static void
take_give (struct lessee *l, struct lessee_action *a)
{
  if (!l->kept)
    make_give (l);
  l->kept = false;
  l->giving = true;
  a->number = l->number;
  a->declare = l->give_declares;
  a->recovered = l->give_recovered;
  a->ranges = l->give;
  a->count = l->gives;
  a->timeout_ms = CALL_TIMEOUT_MS;
}

void
lessee_gave (struct lessee *l, int status, bool declare, uint64_t now_ms)
{
  bool old = l->given_by < l->generation;

  assert (l->giving);
  l->giving = false;
  l->kept = true;
  l->give_due_ms = status == 200 || old ? 0 : now_ms + HOST_RETRY_MS;
  if (declare && !l->give_declares) {
    undeclared (l);
    l->doubted = !old;
  }
  else if (old || declare || l->give_declares == l->declared)
    give_over (l, LEFT);
  else if (status == 200) {
    give_over (l, 0);
    l->declared = true;
    if (l->give_recovered > 0)
      order_over (l);
  }
}

/* ---- What is asked for ---- */

static bool
wanted (const struct array_range *wants, unsigned count,
        const struct array_range *r)
{
  for (unsigned i = 0; i < count; i++)
    if (wants[i].offset == r->offset && wants[i].length == r->length)
      return true;
  return false;
}

void
lessee_wants (struct lessee *l, const struct array_range *wants, unsigned count,
              uint64_t now_ms)
{
  if (count > LESSEE_WANTS_MAX)
    count = LESSEE_WANTS_MAX;
  for (unsigned i = 0; i < count; i++)
    if (!wanted (l->want, l->wants, &wants[i]) && !wanted (wants, i, &wants[i]))
      lease_window_note (&l->window, &wants[i], false, now_ms);
  if (count > 0)
    memmove (l->want, wants, count * sizeof *wants);
  l->wants = count;
}

/* May it be asked for?  Ranges of it that weftd asks back are left and given
 * first.
 */
static bool
may_ask (const struct lessee *l, const struct array_range *want)
{
  uint64_t start = want->offset, end = end_of (want);

  return !goes_back (l, start, end) &&
         !spans_meet (&l->asked_back, start, end) &&
         !order_meets (&l->order, start, end);
}

/* The range that it needs. */
static struct array_range
must_for (const struct lessee *l, const struct array_range *want)
{
  return l->kind == LESSEE_TOKEN
           ? (struct array_range) { want->offset, l->size - want->offset }
           : *want;
}

static bool
ask_due (const struct lessee *l)
{
  for (unsigned i = 0; i < l->wants; i++) {
    struct array_range must = must_for (l, &l->want[i]);

    if (may_ask (l, &must))
      return true;
  }
  return false;
}

static struct array_range
wish_for (const struct lessee *l, const struct array_range *must,
          uint64_t now_ms)
{
  return l->kind == LESSEE_NAIVE ? *must
         : l->kind == LESSEE_TOKEN
           ? (struct array_range) { 0, l->size }
           : lease_window_wish (&l->window, must, l->size, now_ms);
}

/* After one in vain, those that were not asked for are first. */
static void
take_ask (struct lessee *l, uint64_t now_ms, struct lessee_action *a)
{
  unsigned first = l->wants > 0 ? l->in_vain % l->wants : 0;

  l->asking = true;
  l->asked_by = l->generation;
  l->ask_sent_ms = now_ms;
  l->asks = 0;
  for (unsigned i = 0; i < l->wants && l->asks < LEASE_ASKS_MAX; i++) {
    struct array_range must = must_for (l, &l->want[(first + i) % l->wants]);
    unsigned had = 0;

    while (had < l->asks && (must.offset < l->ask[had].must.offset ||
                             end_of (&must) > end_of (&l->ask[had].must)))
      had++;
    if (had == l->asks && may_ask (l, &must))
      l->ask[l->asks++] = (struct lease_wish) { must,
                                                wish_for (l, &must, now_ms) };
  }
  for (unsigned i = 0; i < l->back.count; i++)
    spans_set (&l->tainted, l->back.span[i].start, l->back.span[i].end, 1);
  for (unsigned i = 0; i < l->leaves; i++)
    set (&l->tainted, &l->leave[i].wish, 1);
  memcpy (a->ask, l->ask, sizeof a->ask);
  a->asks = l->asks;
  a->wait_ms = ASK_WAIT_MS;
  a->timeout_ms = ASK_WAIT_MS + CALL_TIMEOUT_MS;
}

unsigned
lessee_granted (struct lessee *l, int status, bool declare,
                struct array_range *granted, unsigned count, unsigned room,
                uint64_t now_ms)
{
  struct spans got = { 0 };
  unsigned n = 0;

  assert (l->asking && !l->granting);
  l->granting = true;
  l->ask_due_ms = status == 200   ? 0
                  : status != 409 ? now_ms + HOST_RETRY_MS
                  : now_ms - l->ask_sent_ms >= ASK_WAIT_MS
                    ? 0
                    : now_ms + ASK_PAUSE_MS;
  if (l->asked_by < l->generation)
    return 0;
  if (declare && l->declared) {
    undeclared (l);
    l->doubted = true;
  }
  l->in_vain = status == 200 ? 0 : l->in_vain + l->asks;
  if (status != 200)
    return 0;
  for (unsigned i = 0; i < count; i++)
    set (&got, &granted[i], 1);
  for (unsigned i = 0; i < l->tainted.count; i++)
    spans_set (&got, l->tainted.span[i].start, l->tainted.span[i].end, 0);
  for (unsigned i = 0; i < got.count && n < room; i++) {
    granted[n] = (struct array_range) { got.span[i].start,
                                        got.span[i].end - got.span[i].start };
    for (unsigned k = 0; k < l->asks; k++)
      lease_window_got (&l->window, &l->ask[k], &granted[n]);
    n++;
  }
  spans_free (&got);
  return n;
}

void
lessee_asked (struct lessee *l, const struct array_range *wants, unsigned count,
              uint64_t now_ms)
{
  assert (l->asking && l->granting);
  l->asking = l->granting = false;
  spans_free (&l->tainted);
  lessee_wants (l, wants, count, now_ms);
}

/* ---- What is due ---- */

/* When an action of this kind is due; UINT64_MAX: never. */
static uint64_t
due_ms (const struct lessee *l, enum lessee_do kind)
{
  uint64_t ms = 0;
  bool due = false;

  switch (kind) {
  case LESSEE_DO_LEAVE:
    due = leave_due (l) < l->asked_back.count;
    break;
  case LESSEE_DO_RECOVER:
    ms = l->recovery_due_ms;
    due = may_recover (l);
    break;
  case LESSEE_DO_GIVE:
    ms = l->give_due_ms;
    due = !l->giving && !l->doubted && (l->declared || !l->asking) &&
          something_to_give (l);
    break;
  case LESSEE_DO_ASK:
    ms = l->ask_due_ms;
    due = l->declared && !l->asking && ask_due (l);
    break;
  case LESSEE_DO_ALL:
    abort ();
  }
  return due ? ms : UINT64_MAX;
}

bool
lessee_next (struct lessee *l, uint64_t now_ms, unsigned kinds,
             struct lessee_action *a)
{
  for (unsigned kind = LESSEE_DO_LEAVE; kind <= LESSEE_DO_ASK; kind *= 2) {
    if (!(kinds & kind) || due_ms (l, kind) > now_ms)
      continue;
    *a = (struct lessee_action) { .kind = kind };
    switch (a->kind) {
    case LESSEE_DO_LEAVE:
      take_leave (l, now_ms, a);
      break;
    case LESSEE_DO_RECOVER:
      take_recover (l, a);
      break;
    case LESSEE_DO_GIVE:
      take_give (l, a);
      break;
    case LESSEE_DO_ASK:
      take_ask (l, now_ms, a);
      break;
    case LESSEE_DO_ALL:
      abort ();
    }
    return true;
  }
  return false;
}

uint64_t
lessee_due_ms (const struct lessee *l, unsigned kinds)
{
  uint64_t first_ms = UINT64_MAX;

  for (unsigned kind = LESSEE_DO_LEAVE; kind <= LESSEE_DO_ASK; kind *= 2) {
    uint64_t ms = kinds & kind ? due_ms (l, kind) : UINT64_MAX;

    if (ms < first_ms)
      first_ms = ms;
  }
  return first_ms;
}

/* ---- Life ---- */

struct lessee *
lessee_new (enum lessee_kind kind, uint64_t size, uint64_t generation,
            bool declared, uint64_t recovering)
{
  struct lessee *l = calloc (1, sizeof *l);

  if (l == NULL)
    return NULL;
  l->kind = kind;
  l->size = size;
  l->generation = generation;
  l->declared = declared;
  l->heard_order = recovering;
  if (recovering > 0) {
    order_set (&l->order, recovering, &(struct array_range) { 0, size }, 1);
    l->recovery = RECOVERY_UNDER_WAY;
    l->begun = true;
  }
  return l;
}

void
lessee_free (struct lessee *l)
{
  if (l == NULL)
    return;
  spans_free (&l->tainted);
  spans_free (&l->asked_back);
  spans_free (&l->back);
  order_free (&l->order);
  order_free (&l->next);
  free (l->wish);
  free (l->leave);
  free (l->recover);
  free (l);
}

void
lessee_check (const struct lessee *l)
{
  bool given = false;

  spans_check (&l->tainted);
  spans_check (&l->asked_back);
  spans_check (&l->back);
  for (unsigned i = 0; i < l->back.count; i++) {
    assert (l->back.span[i].end <= l->size);
    given |= l->back.span[i].owner == GIVEN;
  }
  for (unsigned i = 0; i < l->asked_back.count; i++)
    assert (!spans_meet (&l->back, l->asked_back.span[i].start,
                         l->asked_back.span[i].end) ||
            !may_leave (l, &l->asked_back.span[i]));
  for (unsigned i = 0; i < l->leaves; i++) {
    const struct lease_wish *x = &l->leave[i];

    assert (x->must.offset >= x->wish.offset &&
            end_of (&x->must) <= end_of (&x->wish));
    assert (leaving (l, x->must.offset, end_of (&x->must)));
  }
  /* While an ask is under way, every range that goes back taints it. */
  for (unsigned i = 0; l->asking && i < l->back.count; i++)
    assert (covers (&l->tainted, l->back.span[i].start, l->back.span[i].end));
  for (unsigned i = 0; l->asking && i < l->leaves; i++)
    assert (covers (&l->tainted, l->leave[i].wish.offset,
                    end_of (&l->leave[i].wish)));
  assert (l->asking || l->tainted.count == 0);
  assert (l->asking || !l->granting);
  assert (!l->giving || !l->kept);
  assert (!given || l->giving || l->kept);
  assert ((l->order.number > 0) == (l->recovery != RECOVERY_NONE));
  assert (l->next.number == 0 || l->recovery != RECOVERY_NONE);
  assert (l->next.number <= l->heard_order);
}
