/* test-cluster-hung.c: members whose process lives and whose disk answers nothing, or is
 * gone.
 */

#include <config.h>

#include "test-cluster-rig.h"

/* The disk stops answering.  Its process goes on, and can confirm nothing. */
static void
hang (unsigned disk)
{
  rig.disk[disk].silent = rig.disk[disk].hangs = true;
}

static void
answer_again (unsigned disk)
{
  rig.disk[disk].silent = rig.disk[disk].hangs = false;
}

/* It is put out soon, whoever uses the array, and taken back when its disk answers. */
static void
test_put_out (bool attached)
{
  uint64_t began;

  if (attached)
    begin_writing ();
  else
    begin_array ();
  live_on (8);
  began = weftd.now_ms;
  hang (1);
  live_on (DOUBTFUL_MS / CLUSTER_TICK_MS + 2);
  assert (state (1) == MEMBER_IN_SYNC && verdict () == CLUSTER_INFO);
  UNTIL (state (1) == MEMBER_OUT);
  assert (weftd.now_ms - began <= HUNG_MS + 1000);
  assert (strstr (member (1)->reason, "disk answers nothing"));
  assert (verdict () == CLUSTER_WARNING && says ("has a disk that hangs"));
  assert (says ("its disk does not answer: check the disk"));
  live_on (400);
  assert (state (1) == MEMBER_OUT);
  answer_again (1);
  UNTIL (state (1) == MEMBER_IN_SYNC);
  live ();
  assert (verdict () == CLUSTER_INFO);
}

/* A disk that says nothing for a moment now and then stays. */
static void
test_stays (void)
{
  begin_writing ();
  for (unsigned i = 0; i < 20; i++) {
    rig.disk[1].silent = true;
    live_on (HUNG_MS / CLUSTER_TICK_MS - 4);
    rig.disk[1].silent = false;
    live_on (4);
    assert (state (1) == MEMBER_IN_SYNC);
  }
}

/* A process may confirm what its disk does not have; it is not taken back by that, not even
 * tried, nor is a rebuild at its end while the disk is silent.
 */
static void
test_not_rebuilt (void)
{
  uint64_t rejoin_ms;

  begin_writing ();
  hang (1);
  UNTIL (state (1) == MEMBER_OUT);
  rig.disk[1].hangs = false;
  rejoin_ms = array ()->disk[1]->back.due_live_ms;
  live_on (400);
  assert (state (1) == MEMBER_OUT);
  assert (array ()->disk[1]->back.due_live_ms == rejoin_ms);
  answer_again (1);
  rig.disk[1].stuck = true;
  UNTIL (state (1) == MEMBER_JOINING && rig.disk[1].orders > 0);
  rig.disk[1].silent = true;
  live_on (DOUBTFUL_MS / CLUSTER_TICK_MS + 2);
  rig.disk[1].stuck = false;
  UNTIL (state (1) == MEMBER_OUT);
  assert (strstr (member (1)->reason, "disk answers nothing"));
}

/* A spare takes its place; one whose disk hangs is none. */
static void
scenario_spare (void)
{
  begin_writing ();
  DONE (cluster_spare_add (engine, in, "a", rig.disk[4].uuid));
  DONE (cluster_spare_add (engine, in, "a", rig.disk[5].uuid));
  spare_after (20000);
  hang (4);
  live_on (20);
  hang (1);
  UNTIL (state (1) == MEMBER_OUT);
  UNTIL (on (1, 5));
  UNTIL (state (1) == MEMBER_IN_SYNC);
}

/* Or of one that does not say what it is to say (cluster-overdue.c). */
static void
test_spare_for_a_word (void)
{
  begin_array ();
  DONE (cluster_spare_add (engine, in, "a", rig.disk[4].uuid));
  spare_after (20000);
  rig.disk[1].holds = true;
  attach (false);
  detach ();
  UNTIL (state (1) == MEMBER_OUT);
  assert (on (1, 1));
  UNTIL (state (1) == MEMBER_IN_SYNC);
  assert (on (1, 4));
}

static void
test_spare_hangs (void)
{
  begin_writing ();
  DONE (cluster_spare_add (engine, in, "a", rig.disk[4].uuid));
  spare_after (5000);
  hang (4);
  live_on (20);
  hang (1);
  UNTIL (state (1) == MEMBER_OUT);
  live_on (200);
  assert (state (1) == MEMBER_OUT && on (1, 1));
  REFUSED ("failed", cluster_member_replace (engine, in, "a", 1,
                                             rig.disk[4].uuid, false));
  assert (strstr (rig.detail, "has answered nothing"));
  answer_again (4);
  UNTIL (state (1) == MEMBER_IN_SYNC);
  assert (on (1, 4));
}

/* Its disk answers, and it goes out again and again, as behind a line that drops large
 * packets: a spare takes its place, too.
 */
static void
test_spare_for_a_bad_line (void)
{
  uint64_t began;

  begin_writing ();
  DONE (cluster_spare_add (engine, in, "a", rig.disk[4].uuid));
  spare_after (120000);
  live_on (8);
  lose (1);
  UNTIL (state (1) == MEMBER_IN_SYNC);
  began = weftd.now_ms;
  while (on (1, 1)) {
    if (state (1) == MEMBER_IN_SYNC)
      lose (1);
    live ();
    assert (weftd.now_ms - began < 240000);
  }
  assert (weftd.now_ms - began >= 120000);
  UNTIL (state (1) == MEMBER_IN_SYNC && on (1, 4));
}

static void
slow_out (uint64_t ms)
{
  struct cluster_array_tune tune = { .has_slow_out = true, .slow_out_ms = ms };

  DONE (cluster_array_tune (engine, in, "a", &tune));
}

/* A slow member is named.  It is put out where that is wanted, stays out, and is taken
 * back by an order; or a spare takes its place.
 */
static void
scenario_slow (void)
{
  begin_writing ();
  rig.slow = 2;
  live_on (400);
  assert (state (1) == MEMBER_IN_SYNC);
  assert (weftd.killed || (verdict () == CLUSTER_WARNING && says ("is slow")));
  assert (weftd.killed || (says ("2000.000 ms") && says ("0.400 ms")));
  slow_out (30000);
  UNTIL (state (1) == MEMBER_OUT);
  assert (strstr (member (1)->reason, "2000 ms, and theirs 400 us"));
  rig.slow = 0;
  live_on (400);
  assert (state (1) == MEMBER_OUT && verdict () == CLUSTER_WARNING);
  assert (says ("stays out"));
  ASK (cluster_member_join (engine, in, "a", 1));
  assert (!rig.code || weftd.killed); /* asked again, it is in-sync */
  UNTIL (state (1) == MEMBER_IN_SYNC);
}

static void
test_slow_for_a_while (void)
{
  begin_writing ();
  slow_out (30000);
  for (unsigned i = 0; i < 10; i++) {
    rig.slow = 2;
    live_on (100);
    rig.slow = 0;
    rig.busy = true;
    live_on (8);
    assert (state (1) == MEMBER_IN_SYNC);
  }
}

static bool
called_slow (void)
{
  verdict ();
  return says ("is slow");
}

/* Nobody calls it slow for so long, as when one of two writers has no answers any more, and
 * the other one has too few yet.  It is named after 10 s nevertheless, or not.
 */
static void
test_slow_but_for (unsigned lives, bool named)
{
  begin_writing ();
  rig.slow = 2;
  live_on (32);
  assert (!called_slow ());
  rig.slow = 0;
  rig.busy = true;
  live_on (lives);
  assert (!called_slow ());
  rig.slow = 2;
  live_on (16);
  assert (called_slow () == named);
}

static void
test_slow_and_spare (void)
{
  begin_writing ();
  slow_out (5000);
  spare_after (5000);
  DONE (cluster_spare_add (engine, in, "a", rig.disk[4].uuid));
  rig.slow = 2;
  UNTIL (state (1) == MEMBER_OUT);
  rig.slow = 0;
  UNTIL (state (1) == MEMBER_IN_SYNC && on (1, 4));
}

/* Nobody else has what it has. */
static void
test_slow_last_copy (void)
{
  begin_writing_to (LAYOUT_RAID10, 4);
  slow_out (5000);
  die (0);
  rig.slow = 4; /* its mirror */
  live_on (200);
  assert (state (2) == MEMBER_IN_SYNC);
  rig.disk[0].dead = false;
  UNTIL (state (0) == MEMBER_IN_SYNC);
  UNTIL (state (2) == MEMBER_OUT);
}

/* A disk that is removed and comes back: its next process has kept nothing.  The last
 * copy that is gone is named before a member that is out.
 */
static void
test_gone (void)
{
  begin_writing_to (LAYOUT_RAID10, 4);
  live_on (8);
  rig.disk[2].gone = true;
  rig.disk[2].cache = "as before";
  UNTIL (state (2) == MEMBER_OUT);
  assert (verdict () == CLUSTER_WARNING &&
          says ("has a disk that is gone, and is out") &&
          says ("comes back by itself when the path leads to it again"));
  live_on (100);
  assert (state (2) == MEMBER_OUT);
  rig.disk[2].gone = false;
  start_again (2);
  UNTIL (state (2) == MEMBER_IN_SYNC);
  die (0);
  live_on (40);
  rig.disk[2].gone = true; /* its mirror */
  live_on (100);
  assert (state (2) == MEMBER_IN_SYNC && verdict () == CLUSTER_ERROR &&
          says ("comes back: connect its disk again"));
  rig.disk[2].gone = rig.disk[0].dead = false;
  start_again (2);
  UNTIL (state (0) == MEMBER_IN_SYNC && state (2) == MEMBER_IN_SYNC &&
         verdict () == CLUSTER_INFO);
}

/* A member with a last copy stays.  Where two hang that have the same, both do. */
static void
test_last_copy (bool both)
{
  begin_writing_to (LAYOUT_RAID10, 4);
  if (!both)
    die (0);
  live_on (40);
  if (both)
    hang (0);
  hang (2); /* its mirror */
  live_on (200);
  assert (state (2) == MEMBER_IN_SYNC);
  assert (!both || state (0) == MEMBER_IN_SYNC);
  assert (verdict () == CLUSTER_ERROR && says ("check its disk"));
  answer_again (2);
  if (both)
    answer_again (0);
  else
    rig.disk[0].dead = false;
  UNTIL (state (0) == MEMBER_IN_SYNC && state (2) == MEMBER_IN_SYNC &&
         verdict () == CLUSTER_INFO);
}

int
main (void)
{
  test_put_out (true);
  test_put_out (false);
  test_stays ();
  test_not_rebuilt ();
  test_kills ("spare", scenario_spare);
  test_spare_for_a_word ();
  test_spare_hangs ();
  test_spare_for_a_bad_line ();
  test_kills ("slow", scenario_slow);
  test_slow_for_a_while ();
  test_slow_but_for (4, true);
  test_slow_but_for (12, false);
  test_slow_and_spare ();
  test_slow_last_copy ();
  test_last_copy (false);
  test_last_copy (true);
  test_gone ();
  return 0;
}
