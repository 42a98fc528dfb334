/* test-cluster-lost.c: members that a session has lost and that stay, or that
 * have come to a new life beside it.
 */

#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <string.h>

#include "test-cluster-world.h"

/* The last copy stays.  It is fenced and given back as soon as it is well. */
static void
test_reconnect (void)
{
  static struct world w;
  struct host *h = &w.host[0];
  struct cluster_session *s;
  uint64_t epoch, fence;
  char text[4096];

  healthy (&w);
  cut_off (&w.disk[1]);
  report_lost (&w, h, 1);
  live_on (&w, 30); /* and it is missed */
  epoch = rec (&w)->epoch;
  fence = rec (&w)->member[0].fence;
  cut_off (&w.disk[2]);
  live_on (&w, 30);
  lost (&w, h, 2);
  assert (strcmp (h->code, "last-copy") == 0);
  s = cluster_session_find (w.c, h->session);
  assert (s->lost[2] && s->stopped[0]);
  cluster_verdict (w.c, text, sizeof text);
  assert (strstr (text, "has stopped") && strstr (text, "member 2"));
  live_on (&w, 30);
  assert (rec (&w)->epoch == epoch && rec (&w)->change.epoch == 0);
  w.disk[2].alive = true;
  w.disk[2].op = 0;
  UNTIL (&w, rec (&w)->epoch == epoch + 1);
  assert (rec (&w)->member[2].fence == epoch + 1);
  assert (rec (&w)->member[0].fence == fence);
  assert (w.disk[2].min_epoch == epoch + 1);
  assert (!s->lost[2] && !s->stopped[0]);
  UNTIL (&w, h->epoch == epoch + 1);
  world_end (&w);
}

/* What waits for the writer to prepare itself gives way to a member that the
 * writer needs for that; those who copied from that one begin again.
 */
static void
test_stalled_joiner (void)
{
  static struct world w;
  struct host *h = &w.host[0];
  uint64_t fence;

  joining (&w, 1);
  h->busy = true;
  w.disk[1].slow = false;
  UNTIL (&w, rec (&w)->change.sessions);
  assert (rec (&w)->change.states[1] == MEMBER_IN_SYNC);
  fence = rec (&w)->member[1].fence;
  lost (&w, h, 2);
  assert (strcmp (h->code, "last-copy") == 0);
  assert (!rec (&w)->change.sessions);
  UNTIL (&w, rec (&w)->member[2].fence > fence);
  assert (rec (&w)->member[1].fence == rec (&w)->member[2].fence);
  assert (rec (&w)->member[1].state == MEMBER_JOINING);
  h->busy = false;
  UNTIL (&w, whole (&w));
  world_end (&w);
}

/* Two members at once, each with a copy of what the other has. */
static void
test_two_lost (void)
{
  static struct world w;
  struct host *h = &w.host[0], *reader = &w.host[2];
  uint64_t fence;

  healthy (&w);
  attach_until_granted (&w, reader, "a");
  live_on (&w, 4);
  h->busy = true;
  fence = rec (&w)->member[2].fence;
  lost (&w, h, 0);
  assert (!h->answered && rec (&w)->change.sessions);
  live (&w);
  lost (&w, h, 2);
  assert (strcmp (h->code, "last-copy") == 0);
  UNTIL (&w, rec (&w)->member[2].fence > fence);
  assert (rec (&w)->member[0].state == MEMBER_IN_SYNC);
  h->busy = false;
  report_lost (&w, h, 0);
  UNTIL (&w, whole (&w));
  world_end (&w);
}

/* The last copy is to be given back, but does not confirm: other losses do not
 * wait for it, and when it is silent, nothing does.
 */
static void
test_reconnect_waits (void)
{
  static struct world w;
  struct host *h = &w.host[0];

  world_init (&w, 3);
  make_array_of (&w, "a", LAYOUT_RAID10);
  attach_until_granted (&w, h, "a");
  cut_off (&w.disk[1]);
  report_lost (&w, h, 1);
  live_on (&w, 30);
  cut_off (&w.disk[3]); /* its mirror */
  lost (&w, h, 3);
  assert (strcmp (h->code, "last-copy") == 0);
  UNTIL (&w, rec (&w)->change.epoch != 0);
  assert (rec (&w)->change.confirm[3] && !rec (&w)->change.confirm[2]);
  lost (&w, h, 2);
  assert (h->answered && h->states[2] == MEMBER_OUT);
  UNTIL (&w, rec (&w)->change.confirm[3]); /* begun again */
  UNTIL (&w, rec (&w)->change.epoch == 0);
  assert (!cluster_disk_find (w.c, w.disk[3].uuid)->alive);
  UNTIL (&w, rec (&w)->member[2].state == MEMBER_JOINING);
  assert (cluster_session_find (w.c, h->session)->lost[3]);
  for (unsigned i = 1; i <= 3; i += 2) {
    w.disk[i].alive = true;
    w.disk[i].op = 0;
  }
  UNTIL (&w, whole (&w));
  world_end (&w);
}

/* A line that breaks again and again is not tried all the time. */
static void
test_patience (void)
{
  static struct world w;
  struct host *h = &w.host[0];
  struct cluster_session *s;
  uint64_t fence;
  unsigned times = 0;

  healthy (&w);
  cut_off (&w.disk[1]);
  report_lost (&w, h, 1);
  live_on (&w, 30);
  s = cluster_session_find (w.c, h->session);
  for (unsigned i = 0; i < 60 * 1000 / CLUSTER_TICK_MS; i++) {
    if (!s->lost[2] && h->op == 0 && h->epoch == rec (&w)->epoch) {
      lost (&w, h, 2);
      times++;
    }
    live (&w);
  }
  assert (times >= 5 && times <= 10);
  live_on (&w, 60 * 1000 / CLUSTER_TICK_MS); /* it holds: forgiven */
  assert (!s->lost[2]);
  fence = rec (&w)->member[2].fence;
  lost (&w, h, 2);
  live_on (&w, 3);
  assert (rec (&w)->member[2].fence > fence && !s->lost[2]);
  fence = rec (&w)->member[2].fence;
  lost (&w, h, 2);
  live_on (&w, 8);
  assert (rec (&w)->member[2].fence > fence);
  world_end (&w);
}

/* A member that was started again, while nobody writes, or nobody who is heard:
 * readers get tokens that it takes.
 */
static void
test_renew (void)
{
  static struct world w;
  struct host *h = &w.host[0], *reader = &w.host[2];
  uint64_t fence;

  healthy (&w);
  attach_until_granted (&w, reader, "a");
  detach (&w, h);
  UNTIL (&w, rec (&w)->change.epoch == 0);
  fence = rec (&w)->member[1].fence;
  w.disk[1].min_epoch = rec (&w)->epoch + 1;
  UNTIL (&w, reader->epoch > w.disk[1].min_epoch);
  assert (rec (&w)->member[1].fence == fence);
  world_end (&w);

  healthy (&w);
  attach_until_granted (&w, reader, "a");
  h->alive = false;
  h->beat_op = 0;
  live_on (&w, SESSION_TTL_MS / CLUSTER_TICK_MS + 8);
  fence = rec (&w)->member[1].fence;
  w.disk[1].min_epoch = rec (&w)->epoch + 1;
  UNTIL (&w, reader->epoch > w.disk[1].min_epoch);
  assert (rec (&w)->member[1].fence == fence);
  assert (rec (&w)->member[1].state == MEMBER_IN_SYNC);
  world_end (&w);
}

/* One that was started again beside a writer may have forgotten what it had not
 * flushed: nobody reads it before it is equal again, though the writer has not
 * noticed.
 */
static void
test_reborn (void)
{
  static struct world w;
  struct host *h = &w.host[0], *reader = &w.host[2];
  uint64_t fence;

  healthy (&w);
  attach_until_granted (&w, reader, "a");
  live_on (&w, 4);
  h->busy = true;
  snprintf (w.disk[1].instance, 16, "d1 again");
  w.disk[1].op = 0;
  UNTIL (&w, rec (&w)->change.epoch != 0);
  assert (rec (&w)->change.states[1] == MEMBER_OUT);
  lost (&w, reader, 1);
  assert (!reader->answered); /* not: see to the connection */
  detach (&w, reader);
  reader->alive = true;
  reader->session = 0;
  host_attach (&w, reader, "a");
  live (&w);
  assert (strcmp (reader->code, "member-missing") == 0);
  assert (rec (&w)->member[1].state == MEMBER_IN_SYNC);
  h->busy = false;
  attach_until_granted (&w, reader, "a");
  assert (reader->states[1] != MEMBER_IN_SYNC);
  UNTIL (&w, whole (&w));
  world_end (&w);

  /* But the last copy is not left out for that: it is given back to him, though he
   * is idle and notices nothing.
   */
  healthy (&w);
  attach_until_granted (&w, reader, "a");
  cut_off (&w.disk[0]);
  report_lost (&w, h, 0);
  snprintf (w.disk[1].instance, 16, "d1 again");
  w.disk[1].op = 0;
  fence = rec (&w)->member[1].fence;
  UNTIL (&w, cluster_life_reborn (w.c, cluster_array_find (w.c, "a"), 1));
  lost (&w, reader, 1);
  assert (strcmp (reader->code, "last-copy") == 0);
  UNTIL (&w, rec (&w)->member[1].fence > fence);
  assert (rec (&w)->member[1].state == MEMBER_IN_SYNC);
  assert (!cluster_life_reborn (w.c, cluster_array_find (w.c, "a"), 1));
  world_end (&w);

  /* weftd knows it, too, if it was itself started again meanwhile. */
  healthy (&w);
  fence = rec (&w)->member[1].fence;
  cut_off (&w.disk[1]);
  reincarnate (&w);
  snprintf (w.disk[1].instance, 16, "d1 again");
  w.disk[1].alive = true;
  UNTIL (&w, rec (&w)->member[1].fence > fence);
  UNTIL (&w, whole (&w));
  world_end (&w);
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
  static struct world w;

  for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++) {
    struct cluster_input in;
    const char *reason;
    size_t n = strlen (all[i].ends);

    healthy (&w);
    cut_off (&w.disk[1]);
    in = input (&w, ++w.next_op);
    cluster_session_lost (w.c, &in, w.host[0].session, 1, 0, all[i].said);
    pump (&w);
    reason = rec (&w)->member[1].reason;
    assert (strncmp (reason, "node ", 5) == 0 && strlen (reason) > n);
    assert (strcmp (reason + strlen (reason) - n, all[i].ends) == 0);
    world_end (&w);
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
