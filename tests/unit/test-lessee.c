/* test-lessee.c: each rule of lessee.h, in scenes; test-lease-model.c has the rest. */

#include <config.h>

#include <string.h>

#include "host/lessee.h"
#include "test-random.h"

#define SIZE MiB (64)
/* Generations; from the second one on, more than a JSON integer's upper half holds. */
#define FIRST UINT64_C (0x7fffffff)
#define SECOND (FIRST + 1)
#define RETRY_MS 1000

static struct lessee *l;
static struct lessee_action a;
static uint64_t now_ms;

static struct array_range
at (uint64_t kib, uint64_t length_kib)
{
  return (struct array_range) { KiB (kib), KiB (length_kib) };
}

static bool
same (const struct array_range *r, uint64_t kib, uint64_t length_kib)
{
  return r->offset == KiB (kib) && r->length == KiB (length_kib);
}

static void
begin (enum lessee_kind kind, uint64_t recovering)
{
  lessee_free (l);
  l = lessee_new (kind, SIZE, FIRST, true, recovering);
  CHECK (l);
}

static void
want (enum lessee_do kind)
{
  CHECK (lessee_due_ms (l, LESSEE_DO_ALL) <= now_ms);
  CHECK (lessee_next (l, now_ms, LESSEE_DO_ALL, &a) && a.kind == kind);
  lessee_check (l);
}

static void
want_nothing (void)
{
  CHECK (!lessee_next (l, now_ms, LESSEE_DO_ALL, &a));
  CHECK (lessee_due_ms (l, LESSEE_DO_ALL) > now_ms);
  lessee_check (l);
}

static void
wait_until (uint64_t ms)
{
  CHECK (lessee_due_ms (l, LESSEE_DO_ALL) == ms);
  now_ms = ms;
}

static void
wants (uint64_t kib, uint64_t length_kib)
{
  struct array_range r = at (kib, length_kib);

  lessee_wants (l, &r, length_kib > 0, now_ms);
}

static void
want_ask (uint64_t kib, uint64_t length_kib)
{
  want (LESSEE_DO_ASK);
  CHECK (a.asks == 1 && same (&a.ask[0].must, kib, length_kib));
  CHECK (a.wait_ms == 500 && a.timeout_ms > a.wait_ms);
}

/* Nothing is wanted then, or still this. */
static void
asked (uint64_t kib, uint64_t length_kib)
{
  struct array_range r = at (kib, length_kib);

  lessee_asked (l, &r, length_kib > 0, now_ms);
}

static void
granted (uint64_t kib, uint64_t length_kib)
{
  struct array_range r[4] = { at (kib, length_kib) };

  CHECK (lessee_granted (l, 200, false, r, 1, 4, now_ms) == 1);
  CHECK (same (&r[0], kib, length_kib));
}

/* The part of the grant that is left. */
static void
granted_but (uint64_t kib, uint64_t length_kib, unsigned room, unsigned count,
             struct array_range r[])
{
  r[0] = at (kib, length_kib);
  CHECK (lessee_granted (l, 200, false, r, 1, room, now_ms) == count);
}

static bool
heard (uint64_t generation, uint64_t kib, uint64_t length_kib)
{
  struct lease_wish w = { at (kib, length_kib), at (kib, length_kib) };

  return lessee_heard (l, generation, &w, length_kib > 0, 0, NULL, 0);
}

static bool
ordered (uint64_t generation, uint64_t order, uint64_t kib, uint64_t length_kib)
{
  struct array_range r = at (kib, length_kib);

  return lessee_heard (l, generation, NULL, 0, order, &r, 1);
}

static void
want_leave (uint64_t kib, uint64_t length_kib)
{
  want (LESSEE_DO_LEAVE);
  CHECK (same (&a.leave.must, kib, length_kib));
}

static void
left (uint64_t kib, uint64_t length_kib)
{
  struct array_range r = at (kib, length_kib);

  lessee_left (l, &r, 1);
}

static void
want_give (bool declare, uint64_t recovered, unsigned count)
{
  want (LESSEE_DO_GIVE);
  CHECK (a.declare == declare && a.recovered == recovered && a.count == count);
}

static void
gave (int status)
{
  lessee_gave (l, status, false, now_ms);
}

static void
test_ask (void)
{
  struct array_range many[LEASE_ASKS_MAX + 3] = { at (0, 4), at (0, 4),
                                                  at (1, 2) };

  begin (LESSEE_NAIVE, 0);
  want_nothing ();
  wants (16, 4);
  want_ask (16, 4);
  CHECK (same (&a.ask[0].wish, 16, 4));
  wants (16, 8);
  want_nothing (); /* one at a time */
  granted (16, 4);
  want_nothing ();
  asked (16, 8);
  want_ask (16, 8);
  granted (16, 8);
  asked (0, 0);
  want_nothing ();

  /* As many at once as may be, the first first, and none that another one has. */
  for (unsigned i = 3; i < LEASE_ASKS_MAX + 3; i++)
    many[i] = at (32 * i, 4);
  lessee_wants (l, many, LEASE_ASKS_MAX + 3, now_ms);
  want (LESSEE_DO_ASK);
  CHECK (a.asks == LEASE_ASKS_MAX && same (&a.ask[0].must, 0, 4) &&
         same (&a.ask[1].must, 96, 4) && same (&a.ask[3].must, 160, 4));

  begin (LESSEE_TOKEN, 0);
  wants (16, 4);
  want_ask (16, SIZE / KiB (1) - 16);
  CHECK (a.ask[0].wish.offset == 0 && a.ask[0].wish.length == SIZE);
  /* Not while some of it is being left. */
  begin (LESSEE_TOKEN, 0);
  heard (FIRST, 64, 64);
  want_leave (64, 64);
  wants (16, 4);
  want_nothing ();
  left (64, 64);
  want_give (false, 0, 1);
  gave (200);
  want_ask (16, SIZE / KiB (1) - 16);

  begin (LESSEE_ADAPTIVE, 0);
  wants (1024, 4);
  want_ask (1024, 4);
  CHECK (a.ask[0].wish.offset < KiB (1024) && a.ask[0].wish.length > KiB (400));
  /* The next get goes on where all that was granted ends, not at what was needed. */
  granted (1024, 256);
  asked (1280, 4);
  want_ask (1280, 4);
  CHECK (a.ask[0].wish.offset == KiB (1280));
  CHECK (a.ask[0].wish.length > KiB (900));
}

/* When it is asked again. */
static void
test_ask_again (void)
{
  static const struct {
    int status;
    unsigned after_ms, pause_ms;
  } scene[] = {
    { 0, 5, RETRY_MS }, { 503, 5, RETRY_MS }, { 409, 500, 0 }, { 409, 5, 10 }
  };

  for (unsigned i = 0; i < 4; i++) {
    begin (LESSEE_NAIVE, 0);
    wants (0, 4);
    want_ask (0, 4);
    now_ms += scene[i].after_ms;
    CHECK (lessee_granted (l, scene[i].status, false, NULL, 0, 0, now_ms) == 0);
    asked (0, 4);
    if (scene[i].pause_ms > 0) {
      want_nothing ();
      wait_until (now_ms + scene[i].pause_ms);
    }
    want_ask (0, 4);
  }
}

/* A recalled range is left, given back, and only then may be asked for. */
static void
test_give (void)
{
  begin (LESSEE_NAIVE, 0);
  CHECK (heard (FIRST, 0, 64));
  want_leave (0, 64);
  want_nothing ();
  CHECK (!heard (FIRST, 0, 64)); /* it is on its way */
  wants (60, 8);
  want_nothing ();
  left (0, 64);
  CHECK (!heard (FIRST, 0, 64));
  want_give (false, 0, 1);
  CHECK (same (&a.ranges[0], 0, 64) && a.timeout_ms > 0);
  CHECK (!heard (FIRST, 0, 64));
  want_nothing ();
  gave (200);
  want_ask (60, 8);
  granted (60, 8);
  asked (0, 0);
  want_nothing ();
  /* Asked back once more. */
  CHECK (heard (FIRST, 0, 64));
  want_leave (0, 64);
}

/* The array engine may have taken more than must be left. */
static void
test_wish (void)
{
  struct lease_wish w = { at (64, 4), at (0, 256) };
  struct array_range r[4];

  begin (LESSEE_NAIVE, 0);
  wants (512, 4);
  want_ask (512, 4);
  CHECK (lessee_heard (l, FIRST, &w, 1, 0, NULL, 0));
  want (LESSEE_DO_LEAVE);
  CHECK (same (&a.leave.must, 64, 4) && same (&a.leave.wish, 0, 256));
  granted_but (0, 1024, 4, 1, r);
  CHECK (same (&r[0], 256, 768));
  asked (0, 0);
  /* Until it is left, it is not known what goes: nothing else is left there. */
  wants (128, 4);
  want_nothing ();
  CHECK (heard (FIRST, 128, 4));
  want_nothing ();
  left (32, 64);
  want_leave (128, 4);
  want_give (false, 0, 1);
  CHECK (same (&a.ranges[0], 32, 64));

  /* A range that the host asks for does not go with it. */
  begin (LESSEE_NAIVE, 0);
  wants (128, 4);
  want_ask (128, 4);
  CHECK (lessee_heard (l, FIRST, &w, 1, 0, NULL, 0));
  want (LESSEE_DO_LEAVE);
  CHECK (same (&a.leave.must, 64, 4) && same (&a.leave.wish, 64, 4));
  granted (128, 4);
}

/* A range that a request needs is not left before the answer has come, and no range is
 * left while the array engine takes the answer's grant.
 */
static void
test_leave_waits (void)
{
  begin (LESSEE_NAIVE, 0);
  wants (0, 8);
  want_ask (0, 8);
  CHECK (heard (FIRST, 4, 8));
  want_nothing ();
  granted (0, 64);
  want_nothing ();
  CHECK (heard (FIRST, 32, 8));
  want_nothing ();
  asked (0, 0);
  want_leave (32, 8);
  left (32, 8);
  want_give (false, 0, 1);
  gave (200);
  /* It is left before it is asked for again. */
  wants (0, 8);
  want_ask (0, 8);
  CHECK (heard (FIRST, 4, 8));
  CHECK (lessee_granted (l, 409, false, NULL, 0, 0, now_ms + 2000) == 0);
  asked (0, 8);
  CHECK (!lessee_next (l, now_ms, LESSEE_DO_ASK, &a));
  want_leave (4, 8);
  want_nothing ();
}

/* A range that went back during the call does not count. */
static void
test_tainted (void)
{
  struct array_range r[4];

  for (unsigned i = 0; i < 2; i++) {
    begin (LESSEE_ADAPTIVE, 0);
    if (i == 0) { /* it begins before the call ... */
      heard (FIRST, 64, 64);
      want_leave (64, 64);
      left (64, 64);
      want_give (false, 0, 1);
    }
    wants (0, 4);
    want_ask (0, 4);
    if (i == 1) { /* ... or while it is under way; and is over before it ends */
      heard (FIRST, 64, 64);
      want_leave (64, 64);
      left (64, 64);
      want_give (false, 0, 1);
    }
    gave (200);
    granted_but (0, 256, i == 0 ? 4 : 1, 2 - i, r);
    CHECK (same (&r[0], 0, 64));
    CHECK (i == 1 || same (&r[1], 128, 128));
    asked (0, 0);
    /* The next call is another one. */
    wants (64, 4);
    want_ask (64, 4);
    granted (64, 64);
    asked (0, 0);
  }
}

/* An unanswered GIVE is sent again unchanged. */
static void
test_give_again (void)
{
  uint64_t number;

  begin (LESSEE_NAIVE, 0);
  heard (FIRST, 0, 4);
  want_leave (0, 4);
  left (0, 4);
  want_give (false, 0, 1);
  number = a.number;
  heard (FIRST, 8, 4);
  want_leave (8, 4);
  left (8, 4);
  wants (0, 4);
  want_nothing ();
  gave (0);
  want_nothing ();
  wait_until (now_ms + RETRY_MS);
  want_give (false, 0, 1);
  CHECK (a.number == number && same (&a.ranges[0], 0, 4));
  want_nothing ();
  gave (200);
  want_give (false, 0, 1);
  CHECK (a.number > number && same (&a.ranges[0], 8, 4));
  want_ask (0, 4);
}

/* The number is one of this generation, and an integer of JSON's. */
static bool
of_generation (uint64_t generation)
{
  return a.number >> 32 == (generation & INT32_MAX) && a.number <= INT64_MAX;
}

static void
declared (void)
{
  want_give (true, 0, 0);
  CHECK (of_generation (SECOND));
  gave (200);
}

static void
test_generation (void)
{
  struct array_range r[4] = { at (0, 64) };
  uint64_t number;

  /* Everything is declared when no ASK is under way; the grant of such an ASK does not
   * count. */
  begin (LESSEE_NAIVE, 0);
  wants (0, 4);
  want_ask (0, 4);
  CHECK (!heard (SECOND, 0, 0));
  want_nothing ();
  CHECK (lessee_granted (l, 200, false, r, 1, 4, now_ms) == 0);
  want_nothing ();
  asked (0, 4);
  want_give (true, 0, 0);
  CHECK (of_generation (SECOND));
  number = a.number;
  want_nothing (); /* nothing is asked for before that is answered */
  gave (503);
  wait_until (now_ms + RETRY_MS);
  want_give (true, 0, 0);
  CHECK (a.number == number);
  gave (200);
  want_ask (0, 4);

  /* An older one is not heard. */
  CHECK (!heard (FIRST, 64, 4));
  CHECK (!ordered (FIRST, 9, 64, 4) && lessee_order (l) == 0);
  want_nothing ();

  /* A GIVE to an older weftd is sent once more; */
  begin (LESSEE_NAIVE, 0);
  heard (FIRST, 0, 4);
  want_leave (0, 4);
  left (0, 4);
  want_give (false, 0, 1);
  number = a.number;
  heard (SECOND, 0, 0);
  want_nothing ();
  gave (200);
  want_give (true, 0, 1);
  CHECK (a.number != number && same (&a.ranges[0], 0, 4));
  gave (200);
  want_nothing ();

  /* so is what was not answered. */
  begin (LESSEE_NAIVE, 0);
  heard (FIRST, 0, 4);
  want_leave (0, 4);
  left (0, 4);
  want_give (false, 0, 1);
  gave (0);
  heard (SECOND, 0, 0);
  want_give (true, 0, 1);

  /* A declaring GIVE, too, was for the weftd of its generation. */
  heard (SECOND + 1, 0, 0);
  want_nothing ();
  gave (200);
  want_give (true, 0, 1);
  CHECK (of_generation (SECOND + 1));
}

/* A weftd asks for a declaration, and the host knows nothing else of it: its identity
 * comes with a heartbeat.  Late words of the former weftd are ignored.
 */
static void
test_declare (void)
{
  begin (LESSEE_NAIVE, 0);
  wants (0, 4);
  want_ask (0, 4);
  CHECK (lessee_granted (l, 409, true, NULL, 0, 0, now_ms) == 0);
  want_nothing ();
  asked (0, 4);
  want_nothing ();
  CHECK (!ordered (FIRST, 7, 8, 4) && !heard (FIRST, 0, 4));
  want_nothing ();
  ordered (SECOND, 9, 8, 4);
  declared ();
  CHECK (of_generation (SECOND));
  now_ms += 10;
  want_ask (0, 4);
  CHECK (lessee_order (l) == 0); /* it came before all was declared */

  begin (LESSEE_NAIVE, 0);
  heard (FIRST, 0, 4);
  want_leave (0, 4);
  left (0, 4);
  want_give (false, 0, 1);
  lessee_gave (l, 409, true, now_ms);
  want_nothing ();
  heard (SECOND, 0, 0);
  want_give (true, 0, 1);
  CHECK (same (&a.ranges[0], 0, 4));
  gave (200);
  want_nothing ();
}

static void
test_begin_with_all (void)
{
  begin (LESSEE_NAIVE, 7);
  CHECK (lessee_order (l) == 7);
  CHECK (!ordered (FIRST, 7, 0, SIZE / 1024));
  CHECK (heard (FIRST, 0, 4));
  wants (64, 4);
  want_nothing (); /* its resync is that of the attach */
  lessee_recovered (l, true, now_ms);
  want_give (false, 7, 0);
  want_nothing ();
  gave (0);
  wait_until (now_ms + RETRY_MS);
  want_give (false, 7, 0);
  gave (200);
  want_leave (0, 4);
  want_ask (64, 4);
  CHECK (lessee_order (l) == 0);

  /* Another weftd has no such order, and may ask for anything: not before it is equal,
   * and the weftd knows that.
   */
  begin (LESSEE_NAIVE, 7);
  heard (SECOND, 0, 4);
  declared ();
  want_nothing ();
  lessee_recovered (l, true, now_ms);
  want_give (false, 7, 0);
  want_nothing ();
  gave (200);
  want_leave (0, 4);

  begin (LESSEE_NAIVE, 7);
  lessee_recovered (l, true, now_ms);
  heard (SECOND, 0, 4);
  want_give (true, 7, 0);
  gave (200);
  want_leave (0, 4);
}

static void
test_recover (void)
{
  begin (LESSEE_NAIVE, 0);
  CHECK (ordered (FIRST, 3, 0, 64) && lessee_order (l) == 3);
  want (LESSEE_DO_RECOVER);
  CHECK (a.count == 1 && same (&a.ranges[0], 0, 64));
  CHECK (!ordered (FIRST, 3, 0, 64));
  heard (FIRST, 32, 4);
  wants (16, 4);
  want_nothing ();
  lessee_recovered (l, false, now_ms);
  want_nothing ();
  wait_until (now_ms + RETRY_MS);
  want (LESSEE_DO_RECOVER);
  CHECK (same (&a.ranges[0], 0, 64));
  lessee_recovered (l, true, now_ms);
  wants (0, 0);
  want_give (false, 3, 0);
  /* The answer to the next heartbeat is here first. */
  CHECK (ordered (FIRST, 4, 128, 64) && lessee_order (l) == 4);
  want_nothing ();
  gave (200);
  want (LESSEE_DO_RECOVER);
  CHECK (same (&a.ranges[0], 128, 64));

  /* A recovery under way goes on under another weftd; an order that was not begun is
   * forgotten. */
  CHECK (!heard (SECOND, 0, 0));
  declared ();
  CHECK (ordered (SECOND, 2, 256, 64)); /* it counts from the start again */
  CHECK (!ordered (SECOND, 2, 256, 64));
  want_nothing ();
  lessee_recovered (l, false, now_ms);
  wait_until (now_ms + RETRY_MS);
  want (LESSEE_DO_RECOVER);
  lessee_recovered (l, true, now_ms);
  want_give (false, 4, 0);
  gave (200);
  want (LESSEE_DO_RECOVER);
  CHECK (same (&a.ranges[0], 256, 64));
  begin (LESSEE_NAIVE, 0);
  ordered (FIRST, 3, 0, 64);
  heard (SECOND, 0, 0);
  declared ();
  want_nothing ();
  begin (LESSEE_NAIVE, 0);
  ordered (FIRST, 3, 0, 64);
  want (LESSEE_DO_RECOVER);
  lessee_recovered (l, true, now_ms);
  want_give (false, 3, 0);
  ordered (FIRST, 4, 0, 64);
  heard (SECOND, 0, 0);
  CHECK (lessee_order (l) == 3);
  gave (200);
  want_give (true, 3, 0);
  gave (200);
  want_nothing ();
  CHECK (lessee_order (l) == 0);
}

/* A range that was left, and not given back as far as we know, returns by an order: then
 * the next declaring GIVE does not contain it.
 */
static void
test_recover_what_was_left (void)
{
  begin (LESSEE_NAIVE, 0);
  heard (FIRST, 0, 64);
  want_leave (0, 64);
  heard (SECOND, 0, 0);
  declared ();
  ordered (SECOND, 3, 0, 128);
  want_nothing (); /* it is still being left */
  left (0, 64);
  want (LESSEE_DO_RECOVER);
  want_nothing ();
  heard (SECOND + 1, 0, 0);
  want_give (true, 0, 0);
}

int
main (void)
{
  test_random_start ();
  test_ask ();
  test_ask_again ();
  test_give ();
  test_wish ();
  test_leave_waits ();
  test_tainted ();
  test_give_again ();
  test_generation ();
  test_declare ();
  test_begin_with_all ();
  test_recover ();
  test_recover_what_was_left ();
  lessee_free (l);
  return 0;
}
