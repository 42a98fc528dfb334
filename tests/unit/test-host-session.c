/* test-host-session.c: attach, epochs, changes, and what a reader may answer.
 */

#include <config.h>

#include <string.h>

#include "test-host-rig.h"

/* ---- Attach ---- */

#define AGAIN HOST_ATTACH_AGAIN
#define REFUSED HOST_ATTACH_REFUSED

static void
test_attach (void)
{
  static const struct {
    /* status, retry_after_ms, holder, holder_heard_ms, holder_ended, standby */
    struct host_attach_answer answer;
    enum host_attach_next next;
    unsigned wait_ms; /* before it asks again */
    bool last;        /* of those of one attach */
  } rows[] = {
    { { 201, 0, NULL, 0, false, false }, HOST_ATTACHED, 0, false },
    { { 200, 0, NULL, 0, false, false }, HOST_ATTACHED, 0, false },
    /* There is no answer, or a final refusal. */
    { { 0, 0, NULL, 0, false, false }, REFUSED, 0, false },
    { { 404, 500, "a", 0, false, false }, REFUSED, 0, false },
    { { 409, 0, NULL, 0, false, false }, REFUSED, 0, false },
    /* A passing refusal is retried, not too soon, and not for ever. */
    { { 409, 10, NULL, 0, false, false }, AGAIN, 500, false },
    { { 409, 700, NULL, 0, false, false }, AGAIN, 700, false },
    { { 409, 100000, NULL, 0, false, false }, AGAIN, 15000, false },
    { { 409, 700, NULL, 0, false, false }, REFUSED, 0, true },
    { { 429, 0, NULL, 0, false, false }, AGAIN, 1000, false },
    { { 409, 100000, NULL, 0, false, false }, AGAIN, 15000, false },
    { { 429, 0, NULL, 0, false, false }, REFUSED, 0, true },

    /* A holder that is heard again and again lives. */
    { { 409, 0, "a", 300, false, false }, AGAIN, 1000, false },
    { { 409, 0, "a", 1300, false, false }, AGAIN, 1000, false },
    { { 409, 0, "a", 100, false, false }, AGAIN, 1000, false },
    { { 409, 0, "a", 200, false, false }, REFUSED, 0, true },

    /* One whose last words were under way is silent from then on. */
    { { 409, 0, "a", 20, false, false }, AGAIN, 1000, false },
    { { 409, 0, "a", 1020, false, false }, AGAIN, 1000, false },
    { { 409, 0, "a", 2020, false, false }, AGAIN, 1000, false },
    { { 409, 0, "a", 3020, false, false }, AGAIN, 1000, false },
    { { 409, 0, "a", 4020, false, false }, AGAIN, 1000, false },
    { { 409, 0, "a", 5020, false, false }, AGAIN, 1000, false },
    { { 409, 0, "a", 6020, false, false }, AGAIN, 1000, false },
    { { 409, 0, "a", 7020, false, false }, AGAIN, 1000, false },
    { { 409, 0, "a", 8020, false, false }, AGAIN, 1000, true },

    /* The end of a process on this node is reported to weftd at once, and once. */
    { { 409, 4000, "a", 100, true, false }, AGAIN, 0, false },
    { { 409, 4000, "a", 100, true, false }, AGAIN, 4000, false },
    { { 409, 4000, "b", 100, false, false }, AGAIN, 4000, false },
    { { 409, 2000, "a", 100, true, false }, AGAIN, 2000, false },
    { { 409, 4000, "b", 100, true, false }, AGAIN, 0, false },
  };
  struct host_attach attach = { .asked = false };

  for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    unsigned wait_ms;

    CHECK (host_attach_answered (&attach, &rows[i].answer, &wait_ms) ==
           rows[i].next);
    CHECK (rows[i].next != AGAIN || wait_ms == rows[i].wait_ms);
    if (rows[i].last)
      memset (&attach, 0, sizeof attach);
  }
  CHECK (strcmp (attach.ended, "b") == 0);
}

/* A candidate for service asks until it is admitted, or until asking is useless. */
static void
test_serve (void)
{
  static const struct {
    struct host_attach_answer answer;
    enum host_attach_next next;
    unsigned wait_ms;
  } rows[] = {
    { { .status = 409, .holder = "a", .standby = true }, AGAIN, 100 },
    { { .status = 409, .holder = "a", .standby = true }, AGAIN, 100 },
    { { .status = 409, .holder = "a", .standby = true, .holder_ended = true },
      AGAIN,
      0 },
    { { .status = 409, .holder = "a", .standby = true, .holder_ended = true },
      AGAIN,
      100 },
    { { .status = 409, .standby = true }, AGAIN, 100 },
    { { .status = 0 }, AGAIN, 1000 },
    { { .status = -1 }, AGAIN, 1000 },
    { { .status = 503 }, AGAIN, 1000 },
    { { .status = 409, .retry_after_ms = 10 }, AGAIN, 500 },
    { { .status = 409, .retry_after_ms = 1200 }, AGAIN, 1200 },
    { { .status = 409, .retry_after_ms = 100000 }, AGAIN, 15000 },
    { { .status = 409, .retry_after_ms = 100000 }, AGAIN, 15000 },
    { { .status = 409 }, REFUSED, 0 }, /* it is no candidate, say */
    { { .status = 404, .retry_after_ms = 10 }, REFUSED, 0 },
    { { .status = 201 }, HOST_ATTACHED, 0 },
  };
  struct host_attach attach = { .service = true };

  for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    unsigned wait_ms;

    CHECK (host_attach_answered (&attach, &rows[i].answer, &wait_ms) ==
           rows[i].next);
    CHECK (rows[i].next != AGAIN || wait_ms == rows[i].wait_ms);
  }
  CHECK (strcmp (attach.ended, "a") == 0);
}

/* ---- Heartbeats ---- */

static void
test_beats (void)
{
  begin (false, "II");
  CHECK (next (HOST_DO_BEAT) && act.epoch == 5 && act.prepared == 0 &&
         act.wait_ms == HEARTBEAT_MS && act.timeout_ms == 11000);
  CHECK (nothing (HOST_DO_BEAT) && nothing (HOST_DO_TELL));
  says_nothing ();
  now += 30;
  host_answered (h, HOST_DO_BEAT, &answer, now);
  CHECK (host_due_ms (h, now, HOST_DO_BEAT) == now + 70);
  now += 70;
  CHECK (next (HOST_DO_BEAT));
  says_nothing ();
  answer.at_once = true;
  host_answered (h, HOST_DO_BEAT, &answer, now);
  CHECK (next (HOST_DO_BEAT));
  says_problem (503, NULL);
  host_answered (h, HOST_DO_BEAT, &answer, now);
  CHECK (host_due_ms (h, now, HOST_DO_BEAT) == now + 1000);
  finish ();
}

/* The word that weftd waits for is sent beside the heartbeat, and again if that fails.
 */
static void
test_told_at_once (void)
{
  begin (false, "II");
  says_epoch (6, "ii", true);
  beat ();
  now += 100;
  CHECK (next (HOST_DO_BEAT) && act.epoch == 5); /* keeps weftd for a second */
  work ();
  CHECK (next (HOST_DO_TELL) && act.epoch == 6 && act.wait_ms == 0);
  CHECK (nothing (HOST_DO_TELL));
  says_problem (0, NULL);
  host_answered (h, HOST_DO_TELL, &answer, now);
  CHECK (nothing (HOST_DO_TELL));
  now += 1000;
  tell ();
  CHECK (nothing (HOST_DO_TELL));
  finish ();
}

/* The end of the resync is reported at once, again until weftd has heard it, and from
 * then on in each heartbeat.
 */
static void
test_equal (void)
{
  begin (false, "II");
  CHECK (nothing (HOST_DO_TELL));
  CHECK (next (HOST_DO_BEAT) && !act.equal);
  host_equal (h);
  CHECK (next (HOST_DO_TELL) && act.equal && nothing (HOST_DO_TELL));
  says_problem (503, NULL);
  host_answered (h, HOST_DO_TELL, &answer, now);
  /* An earlier heartbeat did not report it. */
  says_nothing ();
  host_answered (h, HOST_DO_BEAT, &answer, now);
  now += 1000;
  CHECK (next (HOST_DO_TELL) && act.equal);
  host_answered (h, HOST_DO_TELL, &answer, now);
  CHECK (nothing (HOST_DO_TELL));
  CHECK (next (HOST_DO_BEAT) && act.equal);
  finish ();
}

/* That an older copy is taken is known when an answer says so to a call that has said it;
 * and that call is made at once.
 */
static void
test_older (void)
{
  begin (false, "II");
  CHECK (next (HOST_DO_BEAT) && !act.older);
  host_older (h);
  CHECK (next (HOST_DO_TELL) && act.older && !act.equal);
  says_nothing ();
  host_answered (h, HOST_DO_BEAT, &answer, now);
  CHECK (!host_older_told (h));
  says_problem (503, NULL);
  host_answered (h, HOST_DO_TELL, &answer, now);
  CHECK (!host_older_told (h));
  now += 1000;
  CHECK (next (HOST_DO_TELL) && act.older);
  says_nothing ();
  host_answered (h, HOST_DO_TELL, &answer, now);
  CHECK (host_older_told (h) && nothing (HOST_DO_TELL));
  finish ();
}

/* Not before the images are written that were accepted until then. */
static void
test_entered (void)
{
  begin (false, "II");
  says_epoch (6, "ii", true);
  beat ();
  CHECK (next (HOST_DO_COMMIT));
  CHECK (nothing (HOST_DO_COMMIT) && nothing (HOST_DO_ENTER));
  host_committed (h, 6);
  CHECK (next (HOST_DO_ENTER));
  host_entered (h, 5, 5);
  CHECK (nothing (HOST_DO_ENTER) && nothing (HOST_DO_TELL) &&
         host_due_ms (h, now, HOST_DO_ENTER) == now + 20);
  now += 20;
  CHECK (next (HOST_DO_ENTER));
  host_entered (h, 6, 5);
  CHECK (next (HOST_DO_TELL) && act.epoch == 6 && act.arrived == 5);
  says_nothing ();
  host_answered (h, HOST_DO_TELL, &answer, now);
  /* Writes that had begun before arrive later. */
  CHECK (nothing (HOST_DO_ENTER | HOST_DO_TELL));
  now += 20;
  CHECK (next (HOST_DO_ENTER));
  host_entered (h, 6, 6);
  CHECK (nothing (HOST_DO_ENTER) && next (HOST_DO_TELL) && act.arrived == 6);
  finish ();
}

/* News older than ours is ignored. */
static void
test_answers_cross (void)
{
  begin (false, "II");
  says_epoch (8, "io", true);
  says_change (9, "ii");
  beat ();
  says_epoch (7, "ii", true);
  says_change (8, "io");
  beat ();
  CHECK (host_view (h)->epoch == 8 && host_view (h)->map_epoch == 8 &&
         host_view (h)->change == 9 && host_view (h)->states[1] == MEMBER_OUT &&
         host_view (h)->change_states[1] == MEMBER_IN_SYNC);
  CHECK (next (HOST_DO_COMMIT) && act.epoch == 8 && nothing (HOST_DO_COMMIT));
  finish ();
}

/* ---- Changes ---- */

/* A change waits for the connections that it counts on. */
static void
test_prepare (void)
{
  begin (false, "Ij");
  now += 1000; /* the joiner is lost from the start */
  says_problem (409, "last-copy");
  report (1);
  says_epoch (6, "ij", true);
  says_fence (1, 6);
  says_change (7, "ii");
  beat ();
  CHECK (nothing (HOST_DO_PREPARE));
  work ();
  CHECK (nothing (HOST_DO_PREPARE));
  CHECK (next (HOST_DO_CONNECT));
  CHECK (host_opened (h, 1, true, NULL, &kept, &reach, now));
  CHECK (nothing (HOST_DO_PREPARE));
  host_seated (h, 1, true, now);
  CHECK (next (HOST_DO_PREPARE) && act.epoch == 7 &&
         act.states[1] == MEMBER_IN_SYNC);
  CHECK (nothing (HOST_DO_PREPARE));
  CHECK (
    host_lost (h, 1, 1, false, 0, "it broke", now)); /* the change stands */
  host_prepared (h, 7);
  work ();
  tell ();
  CHECK (act.prepared == 7);
  says_change (7, "ii");
  beat ();
  CHECK (nothing (HOST_DO_PREPARE)); /* known */
  finish ();

  begin (true, "Ij"); /* nobody waits for a reader's */
  says_nothing ();
  says_change (7, "ii");
  beat ();
  CHECK (next (HOST_DO_PREPARE) && act.epoch == 7);
  finish ();
}

/* Not in an epoch that the array engine does not know yet, nor when it is over.
 */
static void
test_prepare_in_order (void)
{
  begin (false, "II");
  says_epoch (6, "ii", true);
  says_change (7, "io");
  beat ();
  CHECK (nothing (HOST_DO_PREPARE));
  work ();
  CHECK (next (HOST_DO_PREPARE));
  says_nothing ();
  says_change (8, "io");
  beat ();
  hear (8, "ii");
  CHECK (nothing (HOST_DO_PREPARE));
  finish ();
}

/* ---- Readers ---- */

/* The writes of others have arrived: this is announced once, and an older answer does not
 * revoke it. */
static void
test_all_arrived (void)
{
  begin (true, "II");
  says_epoch (6, "io", true);
  beat ();
  work ();
  CHECK (nothing (HOST_DO_ALL_ARRIVED));
  says_nothing ();
  answer.view.all_arrived = 6;
  beat ();
  CHECK (next (HOST_DO_ALL_ARRIVED) && act.epoch == 6);
  says_nothing ();
  answer.view.all_arrived = 5;
  beat ();
  CHECK (nothing (HOST_DO_ALL_ARRIVED));
  finish ();
}

/* A session's time begins when that was asked which weftd answered last. */
static void
test_trust (bool readonly)
{
  uint64_t begun;

  begin (readonly, "II");
  begun = now;
  CHECK (host_due_ms (h, now, HOST_DO_TRUST) == begun + SESSION_TTL_MS);
  now += 5000;
  CHECK (next (HOST_DO_BEAT));
  now += 4000;
  says_nothing ();
  host_answered (h, HOST_DO_BEAT, &answer, now);
  CHECK (next (HOST_DO_TRUST) &&
         act.until_ms == begun + 5000 + SESSION_TTL_MS && !act.again);
  CHECK (host_due_ms (h, now, HOST_DO_TRUST) == act.until_ms);
  now = act.until_ms;
  CHECK (next (HOST_DO_TRUST) && act.until_ms == 0 && !act.again);
  CHECK (nothing (HOST_DO_TRUST) &&
         host_due_ms (h, now, HOST_DO_TRUST) == UINT64_MAX);
  /* Heard again a reader still is to work with what weftd says now. */
  says_epoch (6, "ii", true);
  begun = now + 100;
  beat ();
  if (readonly) {
    CHECK (nothing (HOST_DO_TRUST) && next (HOST_DO_COMMIT));
    host_committed (h, 6);
    CHECK (nothing (HOST_DO_TRUST));
    work ();
  }
  CHECK (next (HOST_DO_TRUST));
  CHECK (act.until_ms == begun + SESSION_TTL_MS && act.again);
  /* An answer to what was asked too long ago says nothing. */
  now += 5000;
  CHECK (next (HOST_DO_BEAT));
  now += SESSION_TTL_MS;
  CHECK (next (HOST_DO_TRUST) && act.until_ms == 0);
  says_nothing ();
  host_answered (h, HOST_DO_BEAT, &answer, now);
  CHECK (nothing (HOST_DO_TRUST));
  finish ();
}

/* ---- The end ---- */

/* Nothing is waited for any more that a member owes, nor is anything else done.
 */
static void
test_over (void)
{
  begin (false, "II");
  host_lost (h, 1, 1, false, 0, "it broke", now);
  now += 100;
  says_problem (410, "gone");
  CHECK (next (HOST_DO_BEAT));
  report (1);
  CHECK (host_is_over (h) && !host_is_whole (h));
  CHECK (next (HOST_DO_STOP) && nothing (HOST_DO_ALL));
  now += 100000;
  CHECK (nothing (HOST_DO_ALL));
  host_answered (h, HOST_DO_BEAT, &answer, now);
  CHECK (nothing (HOST_DO_ALL));
  finish ();

  begin (false, "II");
  hear_fence (6, "ii", 0, 6);
  CHECK (next (HOST_DO_CONNECT));
  host_end (h);
  CHECK (nothing (HOST_DO_ALL) &&
         host_due_ms (h, now, HOST_DO_ALL) == UINT64_MAX);
  CHECK (!host_opened (h, 0, true, NULL, &kept, &reach, now));
  finish ();
}

int
main (void)
{
  test_random_start ();
  test_attach ();
  test_serve ();
  test_beats ();
  test_told_at_once ();
  test_equal ();
  test_older ();
  test_entered ();
  test_answers_cross ();
  test_prepare ();
  test_prepare_in_order ();
  test_all_arrived ();
  test_trust (true);
  test_trust (false);
  test_over ();
  return 0;
}
