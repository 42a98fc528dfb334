/* test-host-links.c: which members are connected, and reported as lost. */

#include <config.h>

#include <string.h>

#include "test-host-rig.h"

#define LOST(m, n) host_lost (h, m, n, false, 700, "it broke", now)

/* A loss is reported after a moment, and not again once it is recorded as out.  The
 * returned member is fenced, and connected in that epoch.
 */
static void
test_lost_and_back (void)
{
  begin (false, "II");
  CHECK (LOST (1, 1) && nothing (HOST_DO_REPORT));
  CHECK (!LOST (1, 1)); /* of that nobody hears twice */
  now += 99;
  CHECK (nothing (HOST_DO_REPORT) &&
         host_due_ms (h, now, HOST_DO_REPORT) == now + 1);
  now++;
  says_epoch (6, "io", true);
  CHECK (next (HOST_DO_REPORT) && act.member == 1 && act.first &&
         act.waited_ms == 800 && strcmp (act.reason, "it broke") == 0);
  CHECK (nothing (HOST_DO_REPORT)); /* one at a time */
  CHECK (host_reported (h, &answer, now) == HOST_RECORDED);
  CHECK (nothing (HOST_DO_REPORT | HOST_DO_CONNECT));
  work ();
  tell ();
  CHECK (act.epoch == 6);

  says_epoch (7, "ij", true);
  says_fence (1, 7);
  beat ();
  CHECK (nothing (HOST_DO_CONNECT)); /* before the array engine knows of it */
  CHECK (next (HOST_DO_COMMIT) && act.epoch == 7 &&
         act.states[1] == MEMBER_JOINING);
  CHECK (nothing (HOST_DO_CONNECT));
  host_committed (h, 7);
  CHECK (nothing (HOST_DO_ENTER));
  CHECK (connects (1, true) && act.connection == 2 && !kept);
  work ();
  CHECK (next (HOST_DO_TELL) && act.epoch == 7);
  CHECK (!host_is_whole (h)); /* it joins */
  finish ();
}

/* With the tokens of the newest epoch only, however often it is asked. */
static void
test_no_map_no_connection (void)
{
  begin (false, "Io");
  says_epoch (6, "ij", false);
  beat ();
  work ();
  CHECK (nothing (HOST_DO_CONNECT | HOST_DO_TELL));
  says_epoch (6, "ij", true);
  beat ();
  CHECK (connects (1, true));
  work ();
  CHECK (next (HOST_DO_TELL) && act.epoch == 6);
  finish ();
}

/* Without the map of an epoch nobody knows whether a connection is stale. */
static void
test_no_map_no_entry (void)
{
  begin (false, "II");
  says_epoch (6, "ii", false);
  beat ();
  work ();
  CHECK (nothing (HOST_DO_TELL));
  hear (6, "ii");
  CHECK (next (HOST_DO_TELL) && act.epoch == 6);
  finish ();
}

/* A connection of a life that has ended is no use, though it lives. */
static void
test_stale (void)
{
  begin (false, "II");
  CHECK (host_is_whole (h));
  hear_fence (6, "ii", 0, 5);
  CHECK (nothing (HOST_DO_TELL));
  CHECK (connects (0, true) && kept); /* no lapse since 5, of which it was */
  CHECK (nothing (HOST_DO_CONNECT));
  CHECK (!host_is_whole (h)); /* copies may differ */
  work ();
  CHECK (next (HOST_DO_TELL) && act.epoch == 6);
  finish ();
}

/* Unflushed data may be gone with a lapse since the last connection that was used, not
 * since the last attempt.
 */
static void
test_no_lapse_is_passed_over (void)
{
  begin (false, "II");
  hear_fence (6, "ii", 0, 6);
  CHECK (!connects (0, false));
  now += 200;
  says_epoch (7, "ii", true);
  says_fence (0, 6);
  report (0);
  work ();
  CHECK (connects (0, true) && !kept);
  finish ();
}

/* As long as the process is the one that was asked, its disk is no copy; of another
 * process the round says how old a copy it may be.
 */
static void
test_another_process (void)
{
  begin (false, "II");
  hear_fence (6, "ii", 0, 5);
  CHECK (connects (0, true) && kept && reach == UINT64_MAX);
  work ();
  for (unsigned i = 0; i < 2; i++) { /* the first has no connection yet */
    says_epoch (7 + i, "ii", true);
    says_fence (0, 5);
    answer.view.life[0] = 7;
    answer.view.round[0] = 30 + i;
    beat ();
    work ();
    CHECK (connects (0, i > 0) == (i > 0));
    now += 200;
  }
  CHECK (kept && reach == 31);
  work ();
  hear_fence (9, "ii", 0, 5);
  CHECK (connects (0, true) && reach == UINT64_MAX);
  finish ();
}

/* It is fenced once more while a connection is made: that one is closed. */
static void
test_stale_when_it_is_made (void)
{
  begin (false, "II");
  hear_fence (6, "ii", 1, 6);
  CHECK (next (HOST_DO_CONNECT) && act.member == 1 && act.connection == 2);
  CHECK (nothing (HOST_DO_CONNECT));
  hear_fence (7, "ii", 1, 7);
  CHECK (!host_opened (h, 1, true, NULL, &kept, &reach, now));
  CHECK (connects (1, true) && act.connection == 3 && !kept);

  /* The same with one that goes out. */
  hear_fence (8, "ii", 1, 8);
  CHECK (next (HOST_DO_CONNECT));
  hear (9, "io");
  CHECK (!host_opened (h, 1, true, NULL, &kept, &reach, now));
  CHECK (nothing (HOST_DO_CONNECT | HOST_DO_REPORT));
  finish ();
}

/* The loss of a connection may be heard late, when the next one is up: it does not
 * concern the new one.
 */
static void
test_loss_of_the_one_before (void)
{
  begin (false, "II");
  hear_fence (6, "ii", 1, 6);
  CHECK (connects (1, true) && act.connection == 2);
  CHECK (!LOST (1, 1));
  now += 1000;
  CHECK (nothing (HOST_DO_REPORT));
  CHECK (LOST (1, 2));
  now += 1000;
  CHECK (next (HOST_DO_REPORT));
  finish ();
}

/* The array engine may lose the member before the host has noted that it has it. */
static void
test_lost_between (void)
{
  begin (false, "Io");
  hear (6, "ij");
  CHECK (next (HOST_DO_CONNECT));
  CHECK (host_opened (h, 1, true, NULL, &kept, &reach, now));
  CHECK (nothing (HOST_DO_ENTER)); /* not before it has it */
  CHECK (LOST (1, 1));
  CHECK (!host_seated (h, 1, true, now));
  work ();
  CHECK (host_view (h)->epoch == 6 && nothing (HOST_DO_TELL));
  now += 100;
  says_problem (409, "last-copy");
  CHECK (report (1) == HOST_UNRECORDED);
  work (); /* weftd knows */
  CHECK (next (HOST_DO_TELL) && act.epoch == 6);
  finish ();

  /* The engine can't take the connection: its earlier requests do not come back. */
  begin (false, "Io");
  hear (6, "ij");
  CHECK (next (HOST_DO_CONNECT));
  CHECK (host_opened (h, 1, true, NULL, &kept, &reach, now));
  CHECK (!host_seated (h, 1, false, now));
  now += 100;
  CHECK (next (HOST_DO_REPORT));
  finish ();
}

/* A member that is lost before the process is up, or can't be reached then, is
 * reported as any other.
 */
static void
test_lost_before_the_start (void)
{
  begin (false, "IIj");
  CHECK (LOST (0, 1)); /* before anything else was asked */
  CHECK (next (HOST_DO_REPORT) && act.member == 2 && act.timeout_ms == 10000);
  says_nothing ();
  host_reported (h, &answer, now);
  now += 100;
  CHECK (report (0) == HOST_NO_NEWS);
  CHECK (nothing (HOST_DO_REPORT));
  now += 1000;
  CHECK (next (HOST_DO_REPORT));
  finish ();
}

/* A loss that weftd does not record is reported again and again, and logged once. */
static void
test_again (void)
{
  begin (false, "II");
  LOST (0, 1);
  now += 100;
  says_problem (0, NULL);
  CHECK (report (0) == HOST_UNRECORDED);
  now += 999;
  CHECK (nothing (HOST_DO_REPORT));
  now++;
  says_problem (409, "last-copy");
  answer.retry_after_ms = 300;
  CHECK (report (0) == HOST_NO_NEWS);
  now += 300;
  CHECK (next (HOST_DO_REPORT) && !act.first && act.timeout_ms == 10000);
  answer.retry_after_ms = 5000;
  CHECK (host_reported (h, &answer, now) == HOST_NO_NEWS);
  now += 1000;
  /* weftd gives the member back, and the host can't connect to it: weftd knows nothing
   * further. */
  says_epoch (6, "ii", true);
  says_fence (0, 6);
  CHECK (report (0) == HOST_NO_NEWS);
  work ();
  CHECK (nothing (HOST_DO_TELL));
  CHECK (!connects (0, false));
  CHECK (nothing (HOST_DO_TELL) && nothing (HOST_DO_REPORT));
  now += 100;
  CHECK (next (HOST_DO_REPORT) && act.first);
  finish ();
}

/* While the change is under way, the host logs a message only when a request has waited
 * for 5 s.
 */
static void
test_changing (void)
{
  begin (false, "II");
  LOST (0, 1);
  now += 100;
  says_problem (409, "changing");
  CHECK (report (0) == HOST_NO_NEWS);
  now += 4900;
  CHECK (report (0) == HOST_UNRECORDED);
  finish ();
}

/* The member goes out just after it came back, and is back again.  When it is lost once
 * more, weftd gets a new report.
 */
static void
test_told_anew (void)
{
  begin (false, "II");
  LOST (1, 1);
  now += 100;
  says_problem (409, "last-copy");
  report (1);
  says_epoch (6, "io", true);
  beat ();
  hear_fence (7, "ij", 1, 7);
  CHECK (nothing (HOST_DO_TELL));
  CHECK (!connects (1, false));
  now += 100;
  CHECK (next (HOST_DO_REPORT) && act.first);
  finish ();
}

/* A reader has nothing to fear of what it asked before. */
static void
test_reader (void)
{
  begin (true, "II");
  LOST (1, 1);
  now += 100;
  says_problem (409, "in-use"); /* it is well: the connection was not */
  CHECK (report (1) == HOST_NO_NEWS);
  CHECK (connects (1, true));
  CHECK (host_is_whole (h));
  LOST (1, 2);
  hear (6, "ii"); /* it was not fenced */
  CHECK (connects (1, true));
  finish ();

  begin (false, "II"); /* a writer has */
  LOST (1, 1);
  now += 100;
  says_problem (409, "in-use");
  CHECK (report (1) == HOST_UNRECORDED);
  CHECK (nothing (HOST_DO_CONNECT));
  hear (6, "ii");
  CHECK (nothing (HOST_DO_CONNECT));
  finish ();
}

/* When the whole node goes down members are no loss to be recorded. */
static void
test_ending (void)
{
  begin (false, "II");
  LOST (0, 1);
  LOST (1, 1);
  now += 100;
  CHECK (next (HOST_DO_REPORT));
  host_ending (h);
  now += 10000;
  CHECK (nothing (HOST_DO_REPORT));
  CHECK (next (HOST_DO_BEAT)); /* it still lives */
  finish ();
}

int
main (void)
{
  test_random_start ();
  test_lost_and_back ();
  test_no_map_no_connection ();
  test_no_map_no_entry ();
  test_stale ();
  test_no_lapse_is_passed_over ();
  test_another_process ();
  test_stale_when_it_is_made ();
  test_loss_of_the_one_before ();
  test_lost_between ();
  test_lost_before_the_start ();
  test_again ();
  test_changing ();
  test_told_anew ();
  test_reader ();
  test_ending ();
  return 0;
}
