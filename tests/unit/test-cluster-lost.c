/* test-cluster-lost.c: members that a session has lost and that stay, or that
 * have come to a new life beside it.
 */

#include <config.h>

#include "test-cluster-world.h"

/* The last copy stays.  It is fenced and given back as soon as it is well. */
static void
test_reconnect (void)
{
  struct cluster_session *s;
  uint64_t epoch, fence;

  healthy ();
  die (1);
  live_on (30); /* and it is missed */
  epoch = rec ()->epoch;
  fence = member (0)->fence;
  cut_off (2);
  live_on (30);
  lost (writer, 2);
  assert (strcmp (writer->code, "last-copy") == 0);
  s = session (writer);
  assert (s->path[2].lost && s->stopped[0]);
  assert (says ("has stopped") && says ("member 2"));
  live_on (30);
  assert (rec ()->epoch == epoch && rec ()->change.epoch == 0);
  heard_again (2);
  UNTIL (rec ()->epoch == epoch + 1);
  assert (member (2)->fence == epoch + 1);
  assert (member (0)->fence == fence);
  assert (world.disk[2].min_epoch == epoch + 1);
  assert (!s->path[2].lost && !s->stopped[0]);
  UNTIL (writer->epoch == epoch + 1);
}

/* A change waits for the writer to prepare, and the writer needs a lost member for that.
 * The change gives way to this member; members that copied from it begin again.
 */
static void
test_stalled_joiner (void)
{
  uint64_t fence;

  nearly_joined (1);
  fence = member (1)->fence;
  lost (writer, 2);
  assert (strcmp (writer->code, "last-copy") == 0);
  assert (!rec ()->change.sessions);
  UNTIL (member (2)->fence > fence);
  assert (member (1)->fence == member (2)->fence);
  assert (state (1) == MEMBER_JOINING);
  writer->busy = false;
  UNTIL (whole ());
}

/* Two members at once, each with a copy of what the other has. */
static void
test_two_lost (void)
{
  uint64_t fence;

  healthy_with_reader ();
  live_on (4);
  writer->busy = true;
  fence = member (2)->fence;
  lost (writer, 0);
  assert (!writer->answered && rec ()->change.sessions);
  live ();
  lost (writer, 2);
  assert (strcmp (writer->code, "last-copy") == 0);
  UNTIL (member (2)->fence > fence);
  assert (state (0) == MEMBER_IN_SYNC);
  writer->busy = false;
  report_lost (writer, 0);
  UNTIL (whole ());
}

/* The writer has lost both, and this is known. */
static void
lose_both (void)
{
  lost (writer, 2);
  lost (writer, 0);
  assert (strcmp (writer->code, "last-copy") == 0);
  lost (writer, 2);
  assert (session (writer)->path[0].lost && session (writer)->path[2].lost);
}

/* The member is given back, and lost again. */
enum line {
  LINE_WELL,        /* it has answered in between */
  LINE_DROPS_LARGE, /* a request has waited all the time */
  LINE_DROPS_ALL,   /* no connection could be made */
};

/* Both have copies of the same data: the process of the one is killed, and this is the line
 * to the other one.  kept: the killed one has kept what was not flushed.  returns: the
 * other one was given back so often before, and lost again; so it is put off.
 */
static void
lose_one_beside_a_line (bool kept, enum line line, unsigned returns)
{
  uint64_t fence, began;

  healthy_with_reader ();
  world.disk[2].cache = "cache";
  start_again (2);
  UNTIL (!whole ());
  UNTIL (whole ());
  live_on (4);
  writer->busy = true; /* it needs the other one to prepare itself */
  cut_off (2);
  began = weftd.now_ms;
  fence = member (0)->fence;
  lose_both ();
  writer->behind = line == LINE_DROPS_ALL;
  UNTIL (member (0)->fence > fence);
  assert (!session (writer)->path[0].lost && session (writer)->path[2].lost);
  for (unsigned i = 0; i < returns; i++) {
    lost (writer, 0);
    UNTIL (!session (writer)->path[0].lost);
  }
  live_on (4);
  start_again (2);
  snprintf (world.disk[2].instance, 16, "d2 again 2");
  if (!kept)
    world.disk[2].cache = "another cache";
  UNTIL (cluster_process_reborn (engine, array (), 2));
  writer->waited_ms = line == LINE_DROPS_LARGE ? weftd.now_ms - began : 0;
  lose_both ();
  writer->behind = false;
}

static void
test_killed_beside_a_line (enum line line)
{
  uint64_t first, fence;

  lose_one_beside_a_line (true, line, 0);
  fence = member (2)->fence;
  first = member (0)->fence;
  UNTIL (member (2)->fence > fence);
  live_on (60); /* and the other one waits for the next report */
  assert (member (0)->fence == first && session (writer)->path[0].lost);
  assert (rec ()->change.epoch == 0);
  assert (state (2) == MEMBER_IN_SYNC && member (2)->lapse < fence);
  writer->busy = false;
  lost (writer, 0);
  UNTIL (state (0) == MEMBER_OUT);
  UNTIL (whole ());
}

/* Only the other one has what was not flushed, or it has answered: it is waited for. */
static void
test_restarted_beside_a_line (bool kept, enum line line, unsigned returns)
{
  uint64_t fence;

  lose_one_beside_a_line (kept, line, returns);
  assert (returns == 0 ||
          session (writer)->path[0].retry_live_ms > engine->live_ms + 2000);
  fence = member (2)->fence;
  UNTIL (!session (writer)->path[0].lost);
  assert (member (2)->fence == fence);
  writer->busy = false; /* the line is well */
  UNTIL (state (2) == MEMBER_OUT);
  assert (state (0) == MEMBER_IN_SYNC);
  UNTIL (whole ());
}

/* The last copy is about to be given back, but does not confirm.  Other losses do not
 * wait for it; once it is silent, nothing does.
 */
static void
test_reconnect_waits (void)
{
  healthy_of (LAYOUT_RAID10);
  die (1);
  live_on (30);
  cut_off (3); /* its mirror */
  lost (writer, 3);
  assert (strcmp (writer->code, "last-copy") == 0);
  UNTIL (rec ()->change.epoch != 0);
  assert (rec ()->change.confirm[3] && !rec ()->change.confirm[2]);
  lost (writer, 2);
  assert (writer->answered && writer->states[2] == MEMBER_OUT);
  UNTIL (rec ()->change.confirm[3]); /* begun again */
  UNTIL (rec ()->change.epoch == 0);
  assert (!known (3)->alive);
  UNTIL (state (2) == MEMBER_JOINING);
  assert (session (writer)->path[3].lost);
  heard_again (1);
  heard_again (3);
  UNTIL (whole ());
}

/* A line that breaks again and again is not tried all the time. */
static void
test_patience (void)
{
  struct cluster_session *s;
  uint64_t fence;
  unsigned times = 0;

  healthy ();
  die (1);
  live_on (30);
  s = session (writer);
  for (unsigned i = 0; i < 60 * 1000 / CLUSTER_TICK_MS; i++) {
    if (!s->path[2].lost && writer->op == 0 && writer->epoch == rec ()->epoch) {
      lost (writer, 2);
      times++;
    }
    live ();
  }
  assert (times >= 5 && times <= 10);
  live_on (60 * 1000 / CLUSTER_TICK_MS); /* it holds: forgiven */
  assert (!s->path[2].lost);
  for (unsigned i = 0; i < 2; i++) {
    fence = member (2)->fence;
    lost (writer, 2);
    live_on (i == 0 ? 3 : 8);
    assert (member (2)->fence > fence && !s->path[2].lost);
  }
}

/* A member that was started again, while nobody writes, or nobody who is heard:
 * readers get tokens that it takes.
 */
static void
test_renew (bool silent)
{
  uint64_t fence;

  healthy_with_reader ();
  if (silent)
    fall_silent (writer);
  else
    detach (writer);
  live_on (SESSION_TTL_MS / CLUSTER_TICK_MS + 8);
  fence = member (1)->fence;
  cut_off (1);
  start_again (1);
  world.disk[1].min_epoch = rec ()->epoch + 1;
  UNTIL (reader->epoch > world.disk[1].min_epoch);
  assert (member (1)->fence == fence);
  assert (state (1) == MEMBER_IN_SYNC);
}

/* A member that was started again beside a writer may have forgotten unflushed data.  It
 * is not read before it is in sync again, though the writer has not noticed the
 * restart.
 */
static void
test_reborn (void)
{
  uint64_t fence;

  healthy_with_reader ();
  live_on (4);
  writer->busy = true;
  start_again (1);
  UNTIL (rec ()->change.epoch != 0);
  assert (rec ()->change.states[1] == MEMBER_OUT);
  lost (reader, 1);
  assert (!reader->answered); /* not: check the connection */
  detach (reader);
  come_again (reader);
  host_attach (reader);
  live ();
  assert (strcmp (reader->code, "member-missing") == 0);
  assert (state (1) == MEMBER_IN_SYNC);
  writer->busy = false;
  attach_until_granted (reader);
  assert (reader->states[1] != MEMBER_IN_SYNC);
  UNTIL (whole ());

  /* But the last copy is not left out for that: it is given back to him, though he
   * is idle and notices nothing.
   */
  healthy_with_reader ();
  die (0);
  start_again (1);
  fence = member (1)->fence;
  UNTIL (cluster_process_reborn (engine, array (), 1));
  lost (reader, 1);
  assert (strcmp (reader->code, "last-copy") == 0);
  UNTIL (member (1)->fence > fence);
  assert (state (1) == MEMBER_IN_SYNC);
  assert (!cluster_process_reborn (engine, array (), 1));

  /* weftd knows it, too, if it was itself started again meanwhile. */
  healthy ();
  fence = member (1)->fence;
  cut_off (1);
  reincarnate ();
  start_again (1);
  UNTIL (member (1)->fence > fence);
  UNTIL (whole ());
}

/* The writer waits for a member with a last copy, and so prepares for nothing.  Another
 * member was started again: it is given back at once, and a reader gets to it.
 */
static void
test_reader_beside_a_stalled_writer (void)
{
  unsigned last = 1, next;
  uint64_t fence;

  begin_array_of (LAYOUT_RAID10);
  cut_off (0);
  attach_until_granted (writer);
  attach_until_granted (reader);
  assert (state (0) == MEMBER_OUT);
  while (cluster_copies_can_leave_out (array (), last))
    last++;
  next = last == 1 ? 2 : 1;
  writer->busy = true;
  cut_off (last);
  lost (writer, last);
  assert (strcmp (writer->code, "last-copy") == 0);
  fence = member (next)->fence;
  start_again (next);
  UNTIL (member (next)->fence > fence && reader->epoch >= member (next)->fence);
  assert (state (next) == MEMBER_IN_SYNC);
}

/* A host's reason for a loss ends a sentence of ours. */
static void
test_reason (void)
{
  static const struct {
    const char *said, *ends;
  } all[] = {
    { "its connection broke", "lost it: its connection broke" },
    { "it was not terminated properly..", "terminated properly" },
    { "can't connect to member 1 (disk /dev/sdb of node n1) at "
      "nbds://n1.example:10809: could not connect to remote host: Invalid "
      "argument; check that it is runn",
      "Invalid argument" },
    { "can't connect to member 1 (disk /dev/sdb of node n1) at "
      "nbds://n1.example:10809: could not connect to remote host, for it is "
      "not "
      "on any list of hostnames",
      "it is not on any list of" },
  };

  for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++) {
    const char *reason;
    size_t n = strlen (all[i].ends);

    healthy ();
    cut_off (1);
    CALL (++weftd.op, cluster_session_lost (engine, in, writer->session, 1, 0,
                                            false, 0, all[i].said));
    reason = member (1)->reason;
    assert (strncmp (reason, "node ", 5) == 0 && strlen (reason) > n);
    assert (strcmp (reason + strlen (reason) - n, all[i].ends) == 0);
  }
}

int
main (void)
{
  test_reader_beside_a_stalled_writer ();
  test_reason ();
  test_reconnect ();
  test_stalled_joiner ();
  test_two_lost ();
  test_killed_beside_a_line (LINE_DROPS_LARGE);
  test_killed_beside_a_line (LINE_DROPS_ALL);
  test_restarted_beside_a_line (true, LINE_WELL, 0);
  for (unsigned returns = 0; returns < 4; returns += 3) {
    test_restarted_beside_a_line (false, LINE_WELL, returns);
    test_restarted_beside_a_line (false, LINE_DROPS_LARGE, returns);
    test_restarted_beside_a_line (false, LINE_DROPS_ALL, returns);
  }
  test_reconnect_waits ();
  test_patience ();
  test_renew (false);
  test_renew (true);
  test_reborn ();
  return 0;
}
