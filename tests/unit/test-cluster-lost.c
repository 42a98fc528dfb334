/* test-cluster-lost.c: members that a session has lost and that stay, or that
 * have come to a new life beside it.
 */

#include <config.h>

#include "test-cluster-world.h"

/* The last copy stays.  It is fenced and given back as soon as it is well. */
static void
test_reconnect (void)
{
  struct host *h = &world.host[0];
  struct cluster_session *s;
  uint64_t epoch, fence;
  char text[4096];

  healthy ();
  cut_off (&world.disk[1]);
  report_lost (h, 1);
  live_on (30); /* and it is missed */
  epoch = rec ()->epoch;
  fence = rec ()->member[0].fence;
  cut_off (&world.disk[2]);
  live_on (30);
  lost (h, 2);
  assert (strcmp (h->code, "last-copy") == 0);
  s = cluster_session_find (world.c, h->session);
  assert (s->lost[2] && s->stopped[0]);
  cluster_verdict (world.c, text, sizeof text);
  assert (strstr (text, "has stopped") && strstr (text, "member 2"));
  live_on (30);
  assert (rec ()->epoch == epoch && rec ()->change.epoch == 0);
  world.disk[2].alive = true;
  world.disk[2].op = 0;
  UNTIL (rec ()->epoch == epoch + 1);
  assert (rec ()->member[2].fence == epoch + 1);
  assert (rec ()->member[0].fence == fence);
  assert (world.disk[2].min_epoch == epoch + 1);
  assert (!s->lost[2] && !s->stopped[0]);
  UNTIL (h->epoch == epoch + 1);
}

/* What waits for the writer to prepare itself gives way to a member that the
 * writer needs for that; those who copied from that one begin again.
 */
static void
test_stalled_joiner (void)
{
  struct host *h = &world.host[0];
  uint64_t fence;

  joining (1);
  h->busy = true;
  world.disk[1].slow = false;
  UNTIL (rec ()->change.sessions);
  assert (rec ()->change.states[1] == MEMBER_IN_SYNC);
  fence = rec ()->member[1].fence;
  lost (h, 2);
  assert (strcmp (h->code, "last-copy") == 0);
  assert (!rec ()->change.sessions);
  UNTIL (rec ()->member[2].fence > fence);
  assert (rec ()->member[1].fence == rec ()->member[2].fence);
  assert (rec ()->member[1].state == MEMBER_JOINING);
  h->busy = false;
  UNTIL (whole ());
}

/* Two members at once, each with a copy of what the other has. */
static void
test_two_lost (void)
{
  struct host *h = &world.host[0], *reader = &world.host[2];
  uint64_t fence;

  healthy ();
  attach_until_granted (reader, "a");
  live_on (4);
  h->busy = true;
  fence = rec ()->member[2].fence;
  lost (h, 0);
  assert (!h->answered && rec ()->change.sessions);
  live ();
  lost (h, 2);
  assert (strcmp (h->code, "last-copy") == 0);
  UNTIL (rec ()->member[2].fence > fence);
  assert (rec ()->member[0].state == MEMBER_IN_SYNC);
  h->busy = false;
  report_lost (h, 0);
  UNTIL (whole ());
}

/* The last copy is to be given back, but does not confirm: other losses do not
 * wait for it, and when it is silent, nothing does.
 */
static void
test_reconnect_waits (void)
{
  struct host *h = &world.host[0];

  world_init (3);
  make_array_of ("a", LAYOUT_RAID10);
  attach_until_granted (h, "a");
  cut_off (&world.disk[1]);
  report_lost (h, 1);
  live_on (30);
  cut_off (&world.disk[3]); /* its mirror */
  lost (h, 3);
  assert (strcmp (h->code, "last-copy") == 0);
  UNTIL (rec ()->change.epoch != 0);
  assert (rec ()->change.confirm[3] && !rec ()->change.confirm[2]);
  lost (h, 2);
  assert (h->answered && h->states[2] == MEMBER_OUT);
  UNTIL (rec ()->change.confirm[3]); /* begun again */
  UNTIL (rec ()->change.epoch == 0);
  assert (!cluster_disk_find (world.c, world.disk[3].uuid)->alive);
  UNTIL (rec ()->member[2].state == MEMBER_JOINING);
  assert (cluster_session_find (world.c, h->session)->lost[3]);
  for (unsigned i = 1; i <= 3; i += 2) {
    world.disk[i].alive = true;
    world.disk[i].op = 0;
  }
  UNTIL (whole ());
}

/* A line that breaks again and again is not tried all the time. */
static void
test_patience (void)
{
  struct host *h = &world.host[0];
  struct cluster_session *s;
  uint64_t fence;
  unsigned times = 0;

  healthy ();
  cut_off (&world.disk[1]);
  report_lost (h, 1);
  live_on (30);
  s = cluster_session_find (world.c, h->session);
  for (unsigned i = 0; i < 60 * 1000 / CLUSTER_TICK_MS; i++) {
    if (!s->lost[2] && h->op == 0 && h->epoch == rec ()->epoch) {
      lost (h, 2);
      times++;
    }
    live ();
  }
  assert (times >= 5 && times <= 10);
  live_on (60 * 1000 / CLUSTER_TICK_MS); /* it holds: forgiven */
  assert (!s->lost[2]);
  fence = rec ()->member[2].fence;
  lost (h, 2);
  live_on (3);
  assert (rec ()->member[2].fence > fence && !s->lost[2]);
  fence = rec ()->member[2].fence;
  lost (h, 2);
  live_on (8);
  assert (rec ()->member[2].fence > fence);
}

/* A member that was started again, while nobody writes, or nobody who is heard:
 * readers get tokens that it takes.
 */
static void
test_renew (void)
{
  struct host *h = &world.host[0], *reader = &world.host[2];
  uint64_t fence;

  healthy ();
  attach_until_granted (reader, "a");
  detach (h);
  UNTIL (rec ()->change.epoch == 0);
  fence = rec ()->member[1].fence;
  world.disk[1].min_epoch = rec ()->epoch + 1;
  UNTIL (reader->epoch > world.disk[1].min_epoch);
  assert (rec ()->member[1].fence == fence);

  healthy ();
  attach_until_granted (reader, "a");
  h->alive = false;
  h->beat_op = 0;
  live_on (SESSION_TTL_MS / CLUSTER_TICK_MS + 8);
  fence = rec ()->member[1].fence;
  world.disk[1].min_epoch = rec ()->epoch + 1;
  UNTIL (reader->epoch > world.disk[1].min_epoch);
  assert (rec ()->member[1].fence == fence);
  assert (rec ()->member[1].state == MEMBER_IN_SYNC);
}

/* One that was started again beside a writer may have forgotten what it had not
 * flushed: nobody reads it before it is equal again, though the writer has not
 * noticed.
 */
static void
test_reborn (void)
{
  struct host *h = &world.host[0], *reader = &world.host[2];
  uint64_t fence;

  healthy ();
  attach_until_granted (reader, "a");
  live_on (4);
  h->busy = true;
  snprintf (world.disk[1].instance, 16, "d1 again");
  world.disk[1].op = 0;
  UNTIL (rec ()->change.epoch != 0);
  assert (rec ()->change.states[1] == MEMBER_OUT);
  lost (reader, 1);
  assert (!reader->answered); /* not: see to the connection */
  detach (reader);
  reader->alive = true;
  reader->session = 0;
  host_attach (reader, "a");
  live ();
  assert (strcmp (reader->code, "member-missing") == 0);
  assert (rec ()->member[1].state == MEMBER_IN_SYNC);
  h->busy = false;
  attach_until_granted (reader, "a");
  assert (reader->states[1] != MEMBER_IN_SYNC);
  UNTIL (whole ());

  /* But the last copy is not left out for that: it is given back to him, though he
   * is idle and notices nothing.
   */
  healthy ();
  attach_until_granted (reader, "a");
  cut_off (&world.disk[0]);
  report_lost (h, 0);
  snprintf (world.disk[1].instance, 16, "d1 again");
  world.disk[1].op = 0;
  fence = rec ()->member[1].fence;
  UNTIL (cluster_life_reborn (world.c, cluster_array_find (world.c, "a"), 1));
  lost (reader, 1);
  assert (strcmp (reader->code, "last-copy") == 0);
  UNTIL (rec ()->member[1].fence > fence);
  assert (rec ()->member[1].state == MEMBER_IN_SYNC);
  assert (!cluster_life_reborn (world.c, cluster_array_find (world.c, "a"), 1));

  /* weftd knows it, too, if it was itself started again meanwhile. */
  healthy ();
  fence = rec ()->member[1].fence;
  cut_off (&world.disk[1]);
  reincarnate ();
  snprintf (world.disk[1].instance, 16, "d1 again");
  world.disk[1].alive = true;
  UNTIL (rec ()->member[1].fence > fence);
  UNTIL (whole ());
}

/* What a host says of a loss ends a sentence of ours. */
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
    struct cluster_input in;
    const char *reason;
    size_t n = strlen (all[i].ends);

    healthy ();
    cut_off (&world.disk[1]);
    in = input (++world.next_op);
    cluster_session_lost (world.c, &in, world.host[0].session, 1, 0,
                          all[i].said);
    pump ();
    reason = rec ()->member[1].reason;
    assert (strncmp (reason, "node ", 5) == 0 && strlen (reason) > n);
    assert (strcmp (reason + strlen (reason) - n, all[i].ends) == 0);
  }
}

int
main (void)
{
  test_reason ();
  test_reconnect ();
  test_stalled_joiner ();
  test_two_lost ();
  test_reconnect_waits ();
  test_patience ();
  test_renew ();
  test_reborn ();
  return 0;
}
