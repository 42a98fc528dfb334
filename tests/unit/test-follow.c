/* test-follow.c: a client of the service: whom it is connected to, and what it says of
 * what was answered before.
 */

#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "host/follow.h"

static struct follow f;
static struct follow_action act;
static uint64_t now;

static bool
next (enum follow_do kind)
{
  return follow_next (&f, now, &act) && act.kind == kind;
}

static bool
nothing (void)
{
  struct follow_action none;

  return !follow_next (&f, now, &none);
}

/* weftd is due to be asked; it says that this session serves, or none (""). */
static void
hears_of (const char *session, uint64_t epoch, uint64_t lapse)
{
  struct follow_answer answer = {
    .status = 200, .array = "u", .epoch = epoch, .lapse = lapse
  };

  snprintf (answer.session, sizeof answer.session, "%s", session);
  snprintf (answer.uri, sizeof answer.uri, "nbd://%s", session);
  if (now < follow_due_ms (&f))
    now = follow_due_ms (&f);
  assert (next (FOLLOW_ASK) && nothing ());
  follow_heard (&f, &answer, now);
}

static void
hears_nothing (int status)
{
  struct follow_answer answer = { .status = status };

  if (now < follow_due_ms (&f))
    now = follow_due_ms (&f);
  assert (next (FOLLOW_ASK));
  follow_heard (&f, &answer, now);
}

static void
opens (const char *session, bool ok)
{
  assert (next (FOLLOW_OPEN) && nothing ());
  assert (strcmp (act.session, session) == 0);
  assert (strncmp (act.uri, "nbd://", 6) == 0 &&
          strcmp (act.uri + 6, session) == 0);
  follow_opened (&f, ok, now);
}

static void
flushes (enum follow_flush what)
{
  assert (next (FOLLOW_FLUSH) && nothing ());
  follow_flushed (&f, what, now);
}

/* The connection is taken: is all there? */
static bool
takes (void)
{
  assert (next (FOLLOW_TAKE) && nothing ());
  follow_taken (&f, true, now);
  assert (f.state == FOLLOW_UP);
  return act.kept;
}

/* From being asked to being taken. */
static bool
connects (const char *session, uint64_t epoch, uint64_t lapse)
{
  hears_of (session, epoch, lapse);
  opens (session, true);
  flushes (FOLLOW_STABLE);
  hears_of (session, epoch, lapse);
  return takes ();
}

static void
begin (void)
{
  memset (&f, 0, sizeof f);
  now = 1000;
  connects ("a", 5, 0);
  assert (f.connection == 1);
}

static void
loses (void)
{
  follow_lost (&f, f.connection, now);
}

static void
test_start (void)
{
  memset (&f, 0, sizeof f);
  now = 1000;
  hears_nothing (-1);
  assert (nothing () && follow_due_ms (&f) == now + 500);
  hears_of ("", 3, 0);
  assert (nothing () && follow_due_ms (&f) == now + 200);
  hears_of ("a", 4, 0);
  opens ("a", false);
  assert (nothing () && follow_due_ms (&f) == now + 500);
  assert (act.number == 1);
  connects ("a", 4, 0);
  assert (f.number == 2 && f.connection == 1);
  assert (nothing () && follow_due_ms (&f) == now + HEARTBEAT_MS);
}

/* The numbers by which a server knows later connections only grow. */
/* weftd hears whether who serves is reached. */
static void
tells (const char *session, bool reached)
{
  now = f.due_ms;
  assert (next (FOLLOW_ASK));
  assert (strcmp (act.session, session) == 0 && act.reached == reached);
  follow_heard (&f, &(struct follow_answer) { .status = 503 }, now);
}

static void
test_unreached (void)
{
  begin ();
  tells ("a", true);
  loses ();
  tells ("a", false);
  hears_of ("a", 5, 0);
  opens ("a", false);
  tells ("a", false);
  hears_nothing (503);
  tells ("a", false);
  /* Of another one nothing is known. */
  hears_of ("b", 6, 0);
  opens ("b", true);
  flushes (FOLLOW_PENDING);
  tells ("b", true);
  flushes (FOLLOW_BROKEN);
  follow_next (&f, now, &act);
  assert (act.kind == FOLLOW_DROP);
  tells ("", false);
}

static void
test_numbers (void)
{
  begin ();
  for (uint64_t number = 2; number < 6; number++) {
    loses ();
    assert (connects ("a", 5, 0));
    assert (f.number == number && f.connection == number);
  }
}

/* Another serves: the connection is left, whether it is broken or not. */
static void
test_moves (void)
{
  begin ();
  hears_of ("a", 5, 0);
  hears_of ("", 6, 0); /* it has detached; it may be answering still */
  assert (nothing () && f.state == FOLLOW_UP);
  hears_of ("b", 7, 0);
  assert (next (FOLLOW_LEAVE));
  loses (); /* by that */
  assert (connects ("b", 7, 0));
  assert (f.used == 7);
  follow_lost (&f, 1, now); /* heard recently */
  assert (f.state == FOLLOW_UP);
}

/* Acknowledged data is there, unless the array has lapsed since our connection. */
static void
test_lapse (void)
{
  begin ();
  loses ();
  assert (connects ("b", 7, 0));
  loses ();
  assert (connects ("c", 8, 7)); /* it was not ours */
  loses ();
  assert (!connects ("d", 9, 9));
  loses ();
  assert (connects ("e", 10, 9)); /* that was reported */
  loses ();
  /* It has lapsed twice, and serves us only now. */
  hears_of ("f", 11, 11);
  opens ("f", false);
  hears_of ("g", 12, 11);
  opens ("g", true);
  flushes (FOLLOW_STABLE);
  hears_of ("g", 12, 11);
  assert (!takes () && f.used == 12);
}

/* The server stays, and something is lost beside it: the loss is reported then, once, and
 * not only at the next move of the server.
 */
static void
test_lapse_beside_a_server (void)
{
  begin ();
  hears_of ("a", 9, 0);
  assert (nothing () && f.state == FOLLOW_UP);
  hears_of ("a", 9, 5); /* of before */
  assert (nothing () && f.state == FOLLOW_UP);
  hears_of ("a", 9, 9);
  assert (next (FOLLOW_LEAVE) && !act.kept);
  loses ();
  assert (!connects ("a", 9, 9) && f.used == 9);
  hears_of ("a", 9, 9);
  assert (nothing () && f.state == FOLLOW_UP);
  hears_of ("b", 10, 9);
  assert (next (FOLLOW_LEAVE) && act.kept);
  loses ();
  assert (connects ("b", 10, 9));
}

/* weftd's word counts after the FLUSH, not before: the array may have lapsed
 * meanwhile. */
static void
test_lapse_meanwhile (void)
{
  begin ();
  loses ();
  hears_of ("b", 7, 0);
  opens ("b", true);
  flushes (FOLLOW_STABLE);
  hears_of ("b", 8, 8);
  assert (!takes ());
  loses ();
  assert (connects ("b", 8, 8));
}

/* A server that has lost something says so by its FLUSH. */
static void
test_flush_fails (void)
{
  begin ();
  loses ();
  hears_of ("a", 5, 0);
  opens ("a", true);
  flushes (FOLLOW_GONE);
  hears_of ("a", 5, 0);
  assert (!takes ());
  loses ();
  assert (connects ("a", 5, 0));
}

/* Only the server knew, and has said so: until the connection is used that is not
 * forgotten.
 */
static void
test_flush_fails_and_is_not_taken (void)
{
  begin ();
  loses ();
  hears_of ("a", 5, 0);
  opens ("a", true);
  flushes (FOLLOW_GONE);
  hears_of ("a", 5, 0);
  assert (next (FOLLOW_TAKE) && !act.kept);
  follow_taken (&f, false, now);
  hears_of ("a", 5, 0);
  opens ("a", true);
  flushes (FOLLOW_GONE);
  hears_of ("b", 7, 0);
  assert (next (FOLLOW_DROP));
  hears_of ("b", 7, 0);
  opens ("b", true);
  flushes (FOLLOW_BROKEN);
  assert (next (FOLLOW_DROP));
  assert (!connects ("b", 7, 0));
  loses ();
  assert (connects ("b", 7, 0));
}

/* A FLUSH may take long; weftd is asked meanwhile. */
static void
test_flush_takes_long (void)
{
  begin ();
  loses ();
  hears_of ("a", 5, 0);
  opens ("a", true);
  for (unsigned i = 0; i < 3; i++) {
    flushes (FOLLOW_PENDING);
    now += HEARTBEAT_MS;
    hears_of ("a", 5, 0);
  }
  flushes (FOLLOW_PENDING);
  now += HEARTBEAT_MS;
  hears_nothing (503);
  flushes (FOLLOW_PENDING);
  now += HEARTBEAT_MS;
  hears_of ("b", 7, 0);
  assert (next (FOLLOW_DROP));
  assert (connects ("b", 7, 0));
  loses ();
  hears_of ("b", 7, 0);
  opens ("b", true);
  flushes (FOLLOW_BROKEN);
  assert (next (FOLLOW_DROP) && nothing ());
  assert (connects ("b", 7, 0));
}

/* Between the FLUSH and the answer another session was admitted, or weftd was away. */
static void
test_overtaken (void)
{
  begin ();
  loses ();
  hears_of ("b", 7, 0);
  opens ("b", true);
  flushes (FOLLOW_STABLE);
  hears_nothing (0);
  assert (nothing ());
  hears_of ("c", 8, 8);
  assert (next (FOLLOW_DROP));
  assert (!connects ("c", 8, 8));
}

/* A connection breaks while it is being taken, or can't be. */
static void
test_taken (void)
{
  begin ();
  loses ();
  hears_of ("a", 5, 0);
  opens ("a", true);
  flushes (FOLLOW_STABLE);
  hears_of ("a", 6, 0);
  assert (next (FOLLOW_TAKE) && act.connection == 2 && act.kept);
  follow_lost (&f, 2, now);
  follow_taken (&f, true, now);
  assert (f.state == FOLLOW_SEEK && f.used == 6);
  hears_of ("a", 6, 0);
  opens ("a", true);
  flushes (FOLLOW_STABLE);
  hears_of ("a", 7, 0);
  assert (next (FOLLOW_TAKE) && act.connection == 3);
  follow_taken (&f, false, now);
  assert (f.state == FOLLOW_SEEK && f.used == 6);
  assert (!connects ("a", 7, 7) && f.connection == 3);
  loses ();
  hears_of ("a", 7, 7);
  opens ("a", true);
  flushes (FOLLOW_STABLE);
  hears_of ("a", 7, 7);
  assert (next (FOLLOW_TAKE) && act.connection == 4);
  follow_lost (&f, 4, now);
  follow_lost (&f, 3, now); /* heard recently */
  follow_taken (&f, true, now);
  assert (f.state == FOLLOW_SEEK);
}

/* The array was deleted, and another made by its name. */
static void
test_stranger (void)
{
  struct follow_answer answer = {
    .status = 200, .array = "v", .session = "x", .uri = "nbd://x"
  };

  begin ();
  now = follow_due_ms (&f);
  assert (next (FOLLOW_ASK));
  follow_heard (&f, &answer, now);
  assert (f.state == FOLLOW_UP && f.stranger && nothing ());
  loses ();
  assert (next (FOLLOW_ASK));
  follow_heard (&f, &answer, now);
  assert (f.state == FOLLOW_SEEK && nothing ());
  assert (connects ("a", 5, 0) && !f.stranger);
}

/* Our node is fenced: this process does nothing further, even when the node is admitted
 * again; a process that starts then may go on.
 */
static void
test_fenced (void)
{
  struct follow_answer answer = {
    .status = 200, .array = "u", .session = "a", .uri = "nbd://a", .fences = 7
  };

  begin ();
  answer.below = 7;
  now = follow_due_ms (&f);
  assert (next (FOLLOW_ASK));
  follow_heard (&f, &answer, now);
  assert (follow_due_ms (&f) == 0 && next (FOLLOW_STOP));
  loses ();
  now += 100000;
  assert (nothing () && follow_due_ms (&f) == UINT64_MAX);

  memset (&f, 0, sizeof f);
  assert (next (FOLLOW_ASK));
  follow_heard (&f, &answer, now);
  assert (next (FOLLOW_OPEN) && act.fences == 7);
  follow_opened (&f, false, now);
  answer.fences = answer.below = 8;
  now = follow_due_ms (&f);
  assert (next (FOLLOW_ASK));
  follow_heard (&f, &answer, now);
  assert (next (FOLLOW_STOP));
}

/* The next process of the same client has later connections, and was started when the
 * first one was: a fence since then is one of it, too, and so is a lapse since the last
 * one was connected.
 */
static void
test_next_process (void)
{
  struct follow_answer answer = {
    .status = 200, .array = "u", .session = "a", .uri = "nbd://a", .fences = 9
  };

  for (answer.below = 7; answer.below <= 8; answer.below++) {
    memset (&f, 0, sizeof f);
    follow_resume (&f, 100, true, 7, 0);
    assert (next (FOLLOW_ASK));
    follow_heard (&f, &answer, now);
    if (answer.below > 7)
      assert (next (FOLLOW_STOP));
    else
      assert (next (FOLLOW_OPEN) && act.number > 100 && act.fences == 7);
  }
  /* The first one had not asked weftd yet. */
  memset (&f, 0, sizeof f);
  follow_resume (&f, 100, false, 0, 0);
  assert (next (FOLLOW_ASK));
  follow_heard (&f, &answer, now);
  assert (next (FOLLOW_OPEN) && act.number > 100 && act.fences == 9);
  for (answer.lapse = 5; answer.lapse <= 6; answer.lapse++) {
    memset (&f, 0, sizeof f);
    follow_resume (&f, 100, true, 9, 5);
    answer.below = 0;
    assert (next (FOLLOW_ASK));
    follow_heard (&f, &answer, now);
    assert (next (FOLLOW_OPEN));
    follow_opened (&f, true, now);
    assert (next (FOLLOW_FLUSH));
    follow_flushed (&f, FOLLOW_STABLE, now);
    assert (next (FOLLOW_ASK));
    follow_heard (&f, &answer, now);
    assert (next (FOLLOW_TAKE) && act.kept == (answer.lapse == 5));
  }
}

/* Our node may not attach the array (any more): the same. */
static void
test_refused (void)
{
  struct follow_answer answer = { .status = 403, .refused = true };

  begin ();
  now = follow_due_ms (&f);
  assert (next (FOLLOW_ASK));
  follow_heard (&f, &answer, now);
  assert (next (FOLLOW_STOP));
  loses ();
  now += 100000;
  assert (nothing ());

  /* Refused for something else it asks again. */
  memset (&f, 0, sizeof f);
  answer.refused = false;
  assert (next (FOLLOW_ASK));
  follow_heard (&f, &answer, now);
  now = follow_due_ms (&f);
  assert (next (FOLLOW_ASK));
}

int
main (void)
{
  test_fenced ();
  test_next_process ();
  test_refused ();
  test_start ();
  test_unreached ();
  test_numbers ();
  test_moves ();
  test_lapse ();
  test_lapse_beside_a_server ();
  test_lapse_meanwhile ();
  test_flush_fails ();
  test_flush_fails_and_is_not_taken ();
  test_flush_takes_long ();
  test_overtaken ();
  test_taken ();
  test_stranger ();
  return 0;
}
