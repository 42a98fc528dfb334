/* test-cluster-attach.c: sessions begin and end: whom they wait for, who is left
 * out, and what is fenced.
 */

#include <config.h>

#include "test-cluster-world.h"

/* An attach that members do not confirm starts without them, in an epoch of its
 * own, where that loses nothing.
 */
static void
test_late_member (void)
{
  uint64_t epoch, begin;

  begin_array ();
  epoch = rec ()->epoch;
  disk_beat (&world.disk[3], 0);
  said (0);
  cut_off (3);
  begin = weftd.now_ms;
  host_attach (writer);
  UNTIL (writer->op == 0);
  assert (writer->attached && writer->epoch == epoch + 2);
  assert (writer->states[3] == MEMBER_OUT &&
          writer->states[2] == MEMBER_IN_SYNC);
  assert (weftd.now_ms - begin >= 10000 && weftd.now_ms - begin < 11000);
}

/* A member was started again, and its former process was heard just now.  It has confirmed
 * the epoch, and takes no connections yet: the attach waits for it.
 */
static void
test_starting_member (void)
{
  begin_array ();
  live_on (4);
  start_again (3);
  world.disk[3].starts = true;
  host_attach (writer);
  live_on (8);
  assert (world.disk[3].min_epoch == rec ()->change.epoch);
  assert (writer->op && !writer->attached);
  world.disk[3].starts = false;
  UNTIL (writer->attached);
  assert (writer->states[3] == MEMBER_IN_SYNC);

  /* If it never takes any, the array starts without it. */
  begin_array ();
  live_on (4);
  start_again (3);
  world.disk[3].starts = true;
  host_attach (writer);
  UNTIL (writer->attached);
  assert (writer->states[3] == MEMBER_OUT);
}

/* A reader that was silent when the attach began, and is heard of again before
 * it is granted, may read what goes out with it: it is waited for.
 */
static void
test_reader_again (void)
{
  healthy_with_reader ();
  fall_silent (reader);
  cut_off (3);
  live_on (60);
  assert (!session (reader)->alive);
  world.disk[2].op = UINT64_MAX; /* it does not confirm yet */
  other->takeover = true;
  host_attach (other);
  live ();
  assert (rec ()->change.states[3] == MEMBER_OUT);
  reader->alive = reader->busy = true;
  live_on (2);
  world.disk[2].op = 0;
  live_on (8);
  assert (!cluster_change_waits_for (array (), 2));
  assert (!other->attached);
  reader->busy = false;
  UNTIL (other->attached);
  assert (other->states[3] == MEMBER_OUT);
}

/* An attach that would lose data is refused in time.  The epoch number that it prepared
 * serves no grant of a later weftd.  If no host asks again, the epoch is committed
 * without the missing members, which are fenced as soon as they are back.
 */
static void
test_late_members (void)
{
  uint64_t epoch;

  begin_array ();
  epoch = rec ()->epoch;
  for (unsigned i = 2; i < 4; i++)
    disk_beat (&world.disk[i], 0);
  said (0);
  cut_off (2);
  cut_off (3);
  host_attach (writer);
  live_on (8);
  assert (rec ()->change.epoch == epoch + 1);
  reincarnate ();
  assert (rec ()->change.epoch == epoch + 1);
  assert (rec ()->epoch == epoch);
  world.disk[2].alive = world.disk[3].alive = true;
  attach_until_granted (writer);
  assert (writer->epoch == epoch + 2); /* a stored number serves no grant */
  detach (writer);
  UNTIL (rec ()->change.epoch == 0);

  come_again (writer);
  snprintf (writer->instance, 16, "h0 again");
  live ();
  epoch = rec ()->epoch;
  cut_off (2);
  cut_off (3);
  host_attach (writer);
  UNTIL (writer->op == 0);
  assert (writer->refused == CLUSTER_CONFLICT);
  assert (strcmp (writer->code, "member-missing") == 0);
  assert (state (2) == MEMBER_IN_SYNC);
  UNTIL (rec ()->change.epoch == 0);
  assert (rec ()->epoch > epoch && member (2)->fence == rec ()->epoch);
  assert (world.disk[0].min_epoch > epoch && world.disk[2].min_epoch <= epoch);
  heard_again (2);
  heard_again (3);
  UNTIL (world.disk[2].min_epoch == member (2)->fence);
}

/* An attach was about to start without a missing member, but failed, because the other
 * copy is gone, too, and has not confirmed that.  Nothing was written, so the member is
 * still in sync when it is back.  killed: weftd dies before it refuses.
 */
static void
test_came_to_nothing (bool killed)
{
  begin_array ();
  cut_off (3);
  live_on (44); /* it is missing for long enough */
  cut_off (2);
  live_on (2); /* which has not been noticed yet */
  host_attach (writer);
  live ();
  assert (rec ()->change.states[3] == MEMBER_OUT);
  if (killed)
    reincarnate ();
  else {
    UNTIL (writer->op == 0);
    assert (!writer->attached && strcmp (writer->code, "member-missing") == 0);
  }
  live_on (8);
  heard_again (3);
  live_on (60);
  assert (state (3) == MEMBER_IN_SYNC);
  attach_until_granted (writer);
  assert (writer->states[2] == MEMBER_OUT &&
          writer->states[3] == MEMBER_IN_SYNC);
}

/* While everything lives, nothing waits for a clock: members and hosts hear at once. */
static void
test_no_waits (void)
{
  uint64_t begin;

  begin_array ();
  live_on (10); /* by now everybody is in a long poll */
  begin = weftd.now_ms;
  attach_until_granted (writer);
  assert (weftd.now_ms - begin <= 2 * CLUSTER_TICK_MS);
  live_on (10);
  assert (strcmp (attach_refusal (other), "held") == 0);
  detach (writer);
  attach_until_granted (other);
  assert (weftd.now_ms - begin < 40 * CLUSTER_TICK_MS);
  /* The same answer, where the first one was not heard. */
  other->attached = false;
  begin = other->session;
  attach_until_granted (other);
  assert (other->session == begin);
}

/* A member passes the number that is being prepared: that one is spent. */
static void
test_spent_number (void)
{
  uint64_t epoch;

  begin_array ();
  epoch = rec ()->epoch;
  cut_off (3); /* it has not confirmed yet */
  host_attach (writer);
  live_on (4);
  assert (rec ()->change.epoch == epoch + 1);
  start_again (3);
  world.disk[3].min_epoch = epoch + 2;
  UNTIL (rec ()->change.epoch == epoch + 3 || rec ()->epoch == epoch + 3);
  UNTIL (writer->attached);
  assert (writer->epoch == epoch + 3);
}

/* A reader's report of a loss does not take the member from the writer. */
static void
test_reader (void)
{
  healthy_with_reader ();
  refuse_loss (reader, 1, CLUSTER_CONFLICT, "in-use");
  refuse_loss (reader, MEMBERS, CLUSTER_INVALID, "member");
  assert (strcmp (world.answer.problem.field, "member") == 0);
  detach (writer);
  refuse_loss (reader, 1, CLUSTER_CONFLICT, "in-use");
}

/* A world in which the reader has been silent for its TTL, and then a member was
 * lost: that is recorded at once, though the writer does not get to prepare itself.
 */
static uint64_t
lose_beside_silent_reader (void)
{
  uint64_t before;

  healthy_with_reader ();
  fall_silent (reader);
  live_on (60);
  assert (!session (reader)->alive);
  before = rec ()->epoch;
  assert (reader->epoch == before);
  writer->busy = true;
  world.disk[1].slow = true;
  lost (writer, 1);
  assert (writer->answered && writer->states[1] == MEMBER_OUT);
  assert (state (1) == MEMBER_OUT && !rec ()->change.epoch);
  return before;
}

/* When weftd hears the reader again, the reader gets no newer epoch before the writer has
 * prepared: data that the writer wrote for the lost member alone may be nowhere else.
 */
static void
let_in (uint64_t before)
{
  UNTIL (rec ()->change.sessions || rec ()->unprepared == 0);
  live_on (100);
  assert (reader->epoch == before && reader->states[1] == MEMBER_IN_SYNC);
  assert (!session (reader)->rec.ended);
  writer->busy = false;
  UNTIL (reader->epoch > before && reader->attached);
  assert (writer->prepared > before && writer->prepared <= reader->epoch);
  assert (reader->states[1] != MEMBER_IN_SYNC);
  UNTIL (session (reader)->alive);
  assert (rec ()->unprepared == 0);
}

static void
test_reader_silent (void)
{
  uint64_t before, former, first;

  before = lose_beside_silent_reader ();
  reader->alive = true;
  let_in (before);

  /* weftd is started again before it is heard of, and while it waits. */
  before = lose_beside_silent_reader ();
  reincarnate ();
  reader->alive = true;
  UNTIL (rec ()->change.sessions);
  reincarnate ();
  let_in (before);

  /* To the new weftd it may be alive, and a change waits for it; but no more when it
   * says what it knows.
   */
  before = lose_beside_silent_reader ();
  UNTIL (state (1) == MEMBER_JOINING);
  reincarnate ();
  writer->busy = world.disk[1].slow = false;
  UNTIL (rec ()->change.sessions && writer->prepared == rec ()->change.epoch);
  live_on (8);
  assert (rec ()->change.sessions);
  reader->alive = true;
  live_on (2);
  assert (whole () && reader->epoch == rec ()->epoch);

  /* A report does not give the reader the new epoch. */
  before = lose_beside_silent_reader ();
  refuse_loss (reader, 1, CLUSTER_CONFLICT, "starting");

  /* It never heard of its session, and asks for one again: it gets a new one. */
  before = lose_beside_silent_reader ();
  former = reader->session;
  reader->attached = false;
  reader->alive = true;
  for (unsigned i = 0; i < 20; i++) {
    if (reader->op == 0)
      host_attach (reader);
    live ();
  }
  assert (!reader->attached && rec ()->change.sessions);
  assert (cluster_session_find (engine, former)->rec.ended);
  writer->busy = false;
  attach_until_granted (reader);
  assert (reader->session != former && writer->prepared == reader->epoch);

  /* Another loss comes just before the reader gets the new epoch: the reader waits for
   * that, too. */
  before = lose_beside_silent_reader ();
  UNTIL (state (1) == MEMBER_JOINING);
  first = rec ()->unprepared;
  assert (first > before);
  world.disk[1].slow = writer->busy = false;
  UNTIL (whole ());
  assert (rec ()->unprepared == 0);
  writer->busy = true;
  cut_off (2);
  lost (writer, 2);
  assert (rec ()->unprepared > first);
  world.disk[2].op = 0;
  reader->alive = true;
  UNTIL (rec ()->change.sessions);
  live_on (60);
  assert (reader->epoch == before);
  writer->busy = false;
  UNTIL (reader->epoch > before);

  /* The writer is gone, and what it had is unknown: the reader reads. */
  before = lose_beside_silent_reader ();
  fall_silent (writer);
  live_on (60);
  reader->alive = true;
  UNTIL (reader->epoch > before);
}

/* After ten seconds an attach leaves a missing member out, unless it has the last copy.
 * A member that is out does not delay the attach.
 */
static void
test_degraded (void)
{
  uint64_t begin;

  begin_array ();
  begin = weftd.now_ms;
  cut_off (1);
  live_on (24); /* it is missed */
  host_attach (writer);
  live ();
  assert (strcmp (writer->code, "member-missing") == 0);
  attach_until_granted (writer);
  assert (weftd.now_ms - begin >= 10000 - 2 * HEARTBEAT_MS);
  assert (weftd.now_ms - begin <= 13000);
  assert (writer->states[1] == MEMBER_OUT);
  assert (says ("degraded") && says ("Start its member process"));
  detach (writer);
  come_again (writer);
  begin = weftd.now_ms;
  attach_until_granted (writer);
  assert (weftd.now_ms - begin <= 2 * HEARTBEAT_MS);
  detach (writer);
  come_again (writer);
  cut_off (2);
  live_on (60);
  host_attach (writer);
  live ();
  assert (strcmp (writer->code, "member-missing") == 0);
  assert (state (2) == MEMBER_IN_SYNC);
  heard_again (1);
  heard_again (2);
  attach_until_granted (writer);
  UNTIL (whole ());
}

/* Whom an attach leaves out, readers must have stopped reading. */
static void
test_degraded_readers (void)
{
  begin_array ();
  attach_until_granted (reader);
  cut_off (1);
  reader->busy = true;
  live_on (60);
  host_attach (writer);
  live_on (20);
  assert (writer->op != 0 && rec ()->change.sessions);
  assert (state (1) == MEMBER_IN_SYNC);
  reader->busy = false;
  UNTIL (writer->attached);
  assert (state (1) == MEMBER_OUT);
}

/* By order, from one who lives; but not into an array that can't start. */
static void
test_takeover (void)
{
  uint64_t begin;

  healthy ();
  live_on (4);
  other->takeover = true;
  begin = weftd.now_ms;
  attach_until_granted (other);
  assert (weftd.now_ms - begin <= HEARTBEAT_MS);
  UNTIL (writer->over);
  come_again (writer);
  writer->takeover = true;
  cut_off (1);
  cut_off (2);
  live_on (60);
  host_attach (writer);
  live ();
  assert (strcmp (writer->code, "member-missing") == 0);
  live_on (10);
  assert (other->attached && !other->over);
}

/* Is the array granted to the other one, before the holder has been silent for its
 * time?  alive: the holder lives.
 */
static bool
granted_early (const char *node, bool alive, uint64_t wrong)
{
  uint64_t begin;
  bool early;

  healthy ();
  live_on (4);
  snprintf (other->node, sizeof other->node, "%s", node ? node : writer->node);
  other->ended = writer->session + wrong;
  if (!alive)
    fall_silent (writer);
  begin = weftd.now_ms;
  while (!other->attached && weftd.now_ms - begin < SESSION_TTL_MS / 2) {
    host_attach (other);
    UNTIL (other->op == 0);
  }
  early = other->attached;
  if (early) {
    /* The process can write nothing further, whatever its node says. */
    writer->alive = true;
    UNTIL (writer->over);
  }
  else
    assert (strcmp (other->code, "held") == 0 && !writer->over);
  return early;
}

/* The holder's node says that its process has ended. */
static void
test_ended_holder (void)
{
  assert (granted_early (NULL, false, 0));
  /* A process that answers has not ended. */
  assert (!granted_early (NULL, true, 0));
  /* Another node can't know; and it says nothing of another session. */
  assert (!granted_early ("n9", false, 0));
  assert (!granted_early (NULL, false, 1));
}

/* A reader comes to a degraded array.  Some writes may not have reached the copies that
 * the reader would use, so the writer prepares first.
 */
static void
test_reader_comes (void)
{
  healthy ();
  die (1);
  live_on (30);
  writer->busy = true;
  host_attach (reader);
  live_on (8);
  assert (!reader->answered && rec ()->change.sessions);
  writer->busy = false;
  UNTIL (reader->attached);
  assert (writer->prepared == reader->epoch);
  detach (reader);
  come_again (reader);

  /* The writer can't prepare, because it has lost a last copy. */
  writer->busy = true;
  host_attach (reader);
  live_on (4);
  cut_off (2);
  lost (writer, 2);
  UNTIL (reader->answered);
  assert (strcmp (reader->code, "changing") == 0);
  host_attach (reader);
  live ();
  assert (strcmp (reader->code, "member-missing") == 0);

  /* It is silent, and may be dead: it is not waited for. */
  healthy ();
  die (1);
  live_on (30);
  fall_silent (writer);
  attach_until_granted (reader);
  assert (rec ()->change.epoch == 0);
}

/* One whose session an administrator ends may write on: it is fenced everywhere,
 * and again when a member is taken back while nobody writes.
 */
static void
test_evicted (void)
{
  uint64_t epoch;

  healthy ();
  die (1);
  fall_silent (writer);
  epoch = rec ()->epoch;
  CALL (++weftd.op, cluster_session_detach (engine, in, writer->session));
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (rec ()->change.confirm[m] == (m != 1));
  UNTIL (rec ()->change.epoch == 0);
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (m == 1 || world.disk[m].min_epoch > epoch);
  heard_again (1);
  UNTIL (rec ()->change.epoch != 0);
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (rec ()->change.confirm[m]);
  UNTIL (whole ());
  writer->alive = true; /* it was only asleep */
  UNTIL (writer->over);
}

/* A writer that leaves: all that are not out refuse what it may still send, and a
 * joiner begins again.
 */
static void
test_detach_joiner (void)
{
  uint64_t fence, fence_0;

  joining (1);
  fence = member (1)->fence;
  fence_0 = member (0)->fence;
  detach (writer);
  UNTIL (rec ()->change.epoch == 0);
  assert (member (1)->fence > fence);
  assert (member (0)->fence > fence_0);
  assert (world.disk[0].min_epoch >= member (0)->fence);
  assert (state (1) == MEMBER_JOINING);
  world.disk[1].slow = false;
  UNTIL (whole ());

  /* Also where it was about to become in-sync. */
  nearly_joined (1);
  world.disk[1].slow = true;
  detach (writer);
  assert (state (1) == MEMBER_JOINING);
  world.disk[1].slow = false;
  UNTIL (whole ());
}

/* A process of another node names the instance of this one: it gets neither this one's
 * session nor its place among those that wait.
 */
static void
test_another_node_s_instance (void)
{
  healthy_with_reader ();
  snprintf (other->instance, sizeof other->instance, "%s", reader->instance);
  other->writable = false;
  assert (strcmp (other->node, reader->node) != 0);
  attach_until_granted (other);
  assert (other->session != reader->session);
  assert (strcmp (session (other)->rec.node, other->node) == 0);
  assert (strcmp (session (reader)->rec.node, reader->node) == 0);

  begin_array ();
  snprintf (other->instance, sizeof other->instance, "%s", reader->instance);
  other->writable = false;
  host_attach (writer);
  UNTIL (writer->attached);
  writer->busy = true;
  cut_off (3);
  lost (writer, 3);
  host_attach (reader);
  live ();
  assert (reader->op != 0);
  host_attach (other);
  live ();
  assert (reader->op != 0 && other->op != 0);
  writer->busy = false;
  UNTIL (reader->attached && other->attached);
  assert (other->session != reader->session);

  /* The same process of this node asks again, and gets its own. */
  detach (other);
  come_again (other);
  snprintf (other->node, sizeof other->node, "%s", reader->node);
  attach_until_granted (other);
  assert (other->session == reader->session);
}

int
main (void)
{
  test_late_member ();
  test_starting_member ();
  test_reader_again ();
  test_late_members ();
  test_came_to_nothing (false);
  test_came_to_nothing (true);
  test_no_waits ();
  test_spent_number ();
  test_reader ();
  test_reader_silent ();
  test_degraded ();
  test_degraded_readers ();
  test_takeover ();
  test_ended_holder ();
  test_reader_comes ();
  test_evicted ();
  test_detach_joiner ();
  test_another_node_s_instance ();
  return 0;
}
