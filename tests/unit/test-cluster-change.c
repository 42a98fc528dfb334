/* test-cluster-change.c: members that go out, join and become in-sync, one rule at a time
 * (cluster-commit.c): which hosts and members must confirm or prepare before COMMIT, and
 * which need not.  test-cluster-store.c asserts what every COMMIT must keep.
 */

#include <config.h>

#include "test-cluster-world.h"

/* A writer alone: out at once, and nobody else is fenced. */
static void
test_out_alone (void)
{
  uint64_t epoch, fence;

  healthy ();
  epoch = rec ()->epoch;
  fence = member (0)->fence;
  writer->busy = true;
  lost (writer, 1);
  assert (writer->answered && writer->epoch == epoch + 1);
  assert (writer->states[1] == MEMBER_OUT && rec ()->change.epoch == 0);
  assert (member (0)->fence == fence);
  assert (cluster_disk_min_epoch_wanted (known (0)) == fence);
}

/* Beside readers: when all have prepared themselves. */
static void
test_out_readers (void)
{
  uint64_t epoch, begin;

  healthy_with_reader ();
  live_on (4);
  epoch = rec ()->epoch;
  reader->busy = true;
  cut_off (1);
  begin = weftd.now_ms;
  lost (writer, 1);
  assert (!writer->answered && rec ()->change.sessions);
  assert (rec ()->change.epoch == epoch + 1);
  UNTIL (writer->op == 0); /* it may have another loss to report */
  assert (strcmp (writer->code, "changing") == 0);
  assert (weftd.now_ms <= begin + 1000);
  live_on (10);
  assert (writer->prepared == epoch + 1 && reader->told == epoch + 1);
  assert (rec ()->epoch == epoch);

  /* weftd is started again in the midst of it. */
  reincarnate ();
  assert (rec ()->change.epoch == epoch + 1 && rec ()->change.sessions);
  live_on (4);
  lost (writer, 1);
  assert (rec ()->change.epoch == epoch + 1 && !writer->answered);
  reader->busy = false;
  UNTIL (rec ()->epoch == epoch + 1);
  UNTIL (writer->epoch == epoch + 1 && writer->states[1] == MEMBER_OUT);
}

/* The news of a change comes once, and the next poll is held again. */
static void
test_news (void)
{
  uint64_t before, begin;
  unsigned polls = 0;

  healthy_with_reader ();
  live_on (10);
  reader->busy = true;
  lost (writer, 1);
  live ();
  assert (reader->told == rec ()->change.epoch && reader->told != 0);
  begin = weftd.now_ms;
  while (weftd.now_ms < begin + 3000) {
    before = reader->fresh_ms;
    live ();
    polls += reader->fresh_ms != before;
  }
  assert (polls >= 2 && polls <= 4); /* not with every tick */
}

/* A silent reader is waited for until it has stopped by itself, no longer. */
static void
test_silent_reader (void)
{
  uint64_t begin;

  healthy_with_reader ();
  live_on (4);
  cut_off (1);
  fall_silent (reader);
  begin = weftd.now_ms;
  report_lost (writer, 1);
  assert (weftd.now_ms - begin >= SESSION_TTL_MS - HEARTBEAT_MS);
  assert (weftd.now_ms - begin <= SESSION_TTL_MS + 3 * HEARTBEAT_MS);
}

/* A silent writer may still write: it is waited for, while weftd can't know that it was not
 * cut off itself.  (Then the writer's session ends: test-cluster-unequal.)
 */
static void
test_silent_writer (void)
{
  healthy_with_reader ();
  cut_off (1);
  fall_silent (writer);
  fall_silent (reader);
  live_on (SESSION_TTL_MS / CLUSTER_TICK_MS + 8); /* all are missed by now */
  reader->alive = true;
  live_on (2);
  for (unsigned i = 0; i < (SESSION_TTL_MS - 2000) / CLUSTER_TICK_MS; i++) {
    if (reader->op == 0)
      lost (reader, 1);
    live ();
    assert (reader->states[1] == MEMBER_IN_SYNC);
    assert (rec ()->change.states[1] == MEMBER_OUT);
  }
  writer->alive = true;
  UNTIL (state (1) == MEMBER_OUT);
}

/* A second loss while the first is under way: one number for both. */
static void
test_out_again (void)
{
  uint64_t epoch;

  healthy_of (LAYOUT_RAID1);
  attach_until_granted (reader);
  live_on (4);
  epoch = rec ()->epoch;
  reader->busy = true;
  cut_off (1);
  cut_off (2);
  lost (writer, 1);
  live ();
  lost (writer, 2);
  assert (rec ()->change.epoch == epoch + 2);
  assert (rec ()->change.states[1] == MEMBER_OUT);
  reader->busy = false;
  reader->prepared = epoch + 1; /* it had prepared itself for that */
  reader->beat_op = 0;
  live ();
  UNTIL (writer->op == 0 && writer->states[2] == MEMBER_OUT);
  assert (writer->states[1] == MEMBER_OUT && writer->epoch == epoch + 2);
}

/* Nobody reads a joiner: it goes out at once, whoever is busy. */
static void
test_joiner_out (void)
{
  joining (1);
  attach_until_granted (reader);
  reader->busy = writer->busy = true;
  lost (writer, 1);
  assert (writer->answered && writer->states[1] == MEMBER_OUT);

  /* A reader does not take it from those who write. */
  joining (1);
  attach_until_granted (reader);
  lost (reader, 1);
  assert (strcmp (reader->code, "in-use") == 0);
}

/* A report about a member's life before it was taken back changes nothing. */
static void
test_former_life (void)
{
  healthy ();
  world.disk[1].slow = true;
  writer->beat_op = UINT64_MAX; /* its heartbeats are slow today */
  report_lost (writer, 1);
  UNTIL (state (1) == MEMBER_JOINING);
  lost (writer, 1);
  assert (writer->answered && writer->states[1] == MEMBER_JOINING);
  assert (state (1) == MEMBER_JOINING);
  lost (writer, 1); /* now it is about this life */
  assert (writer->states[1] == MEMBER_OUT);
}

/* Out -> joining: that member confirms, and nobody else is asked. */
static void
test_take_back (void)
{
  uint64_t prepared;

  healthy ();
  writer->busy = world.disk[1].slow = true;
  report_lost (writer, 1);
  cut_off (2);
  UNTIL (state (1) == MEMBER_JOINING);
  assert (member (1)->fence == rec ()->epoch);
  assert (member (2)->fence < rec ()->epoch);

  /* It does not confirm: a higher number does without it. */
  healthy ();
  live_on (4);
  report_lost (writer, 1);
  disk_beat (&world.disk[1], 0);
  cut_off (1);
  UNTIL (rec ()->change.epoch != 0);
  prepared = rec ()->change.epoch;
  assert (rec ()->change.states[1] == MEMBER_JOINING);
  assert (rec ()->change.confirm[1] && !rec ()->change.confirm[0]);
  live_on (4);
  assert (rec ()->change.epoch == prepared);
  UNTIL (rec ()->change.epoch == 0);
  assert (rec ()->epoch == prepared + 1);
  assert (state (1) == MEMBER_OUT);
}

/* Joining -> in-sync: every session is prepared, the silent writer too. */
static void
test_in_sync (void)
{
  uint64_t fence;

  nearly_joined (1);
  live_on (20);
  assert (state (1) == MEMBER_JOINING);
  writer->busy = false;
  fall_silent (writer);
  live_on (80);
  assert (state (1) == MEMBER_JOINING);
  assert (rec ()->change.states[1] == MEMBER_IN_SYNC);

  /* Background writes may be gone: the joiner begins again. */
  fence = member (1)->fence;
  world.disk[1].slow = true;
  attach_until_granted (other);
  assert (other->states[1] == MEMBER_JOINING);
  assert (member (1)->fence > fence);
  world.disk[1].slow = false;
  UNTIL (whole ());

  /* A joiner that is lost instead goes out at once. */
  nearly_joined (1);
  fence = rec ()->change.epoch;
  lost (writer, 1);
  assert (writer->answered && writer->states[1] == MEMBER_OUT);
  assert (rec ()->epoch > fence);
  writer->busy = false;
  UNTIL (whole ());
}

/* With more than two copies, the joiner may have copied from the member that is lost. */
static void
test_joiners_go_too (void)
{
  uint64_t epoch;

  healthy_of (LAYOUT_RAID1);
  world.disk[3].slow = true;
  report_lost (writer, 3);
  UNTIL (world.disk[3].phase == CLUSTER_JOIN_COPYING);
  epoch = rec ()->epoch;
  lost (writer, 1);
  assert (writer->states[1] == MEMBER_OUT && writer->states[3] == MEMBER_OUT);
  assert (writer->epoch == epoch + 1);
  world.disk[3].slow = false;
  UNTIL (whole ());
}

/* The readers' copies change.  Readers are told by weftd, at once, to hold until the
 * writer's writes under way have arrived; a restarted weftd tells them, too.  A silent
 * writer is not waited for, nor is a writer of an older version, which does not report
 * this.
 */
static void
test_hold (void)
{
  healthy_with_reader ();
  live_on (4);
  assert (!reader->heard.hold);
  writer->lags = true;
  cut_off (1);
  lost (writer, 1);
  UNTIL (state (1) == MEMBER_OUT);
  live_on (12);
  assert (reader->epoch == rec ()->epoch && reader->heard.hold);
  assert (writer->epoch == rec ()->epoch);
  reincarnate ();
  live_on (12);
  assert (reader->heard.hold);
  writer->lags = false;
  UNTIL (writer->arrived == rec ()->epoch);
  live_on (2);
  assert (!reader->heard.hold);

  writer->lags = true;
  writer->arrived = 0;
  heard_again (1);
  UNTIL (whole ());
  live_on (2);
  assert (!reader->heard.hold);

  fall_silent (writer);
  reincarnate ();
  live_on (12);
  assert (reader->heard.hold);
  UNTIL (!reader->heard.hold);
}

int
main (void)
{
  test_hold ();
  test_out_alone ();
  test_out_readers ();
  test_news ();
  test_silent_reader ();
  test_silent_writer ();
  test_out_again ();
  test_joiner_out ();
  test_former_life ();
  test_take_back ();
  test_in_sync ();
  test_joiners_go_too ();
  return 0;
}
