/* test-cluster-attach.c: sessions begin and end: whom they wait for, who is left
 * out, and what is fenced.
 */

#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <string.h>

#include "test-cluster-world.h"

/* An attach that members do not confirm starts without them, in an epoch of its
 * own, where that loses nothing.
 */
static void
test_late_member (void)
{
  static struct world w;
  struct host *a = &w.host[0];
  uint64_t epoch, begin;

  world_init (&w, 4);
  make_array (&w, "a");
  epoch = cluster_array_find (w.c, "a")->rec.epoch;
  disk_beat (&w, &w.disk[3], 0);
  said (&w, 0);
  cut_off (&w.disk[3]);
  begin = w.now_ms;
  host_attach (&w, a, "a");
  UNTIL (&w, a->op == 0);
  assert (a->attached && a->epoch == epoch + 2);
  assert (a->states[3] == MEMBER_OUT && a->states[2] == MEMBER_IN_SYNC);
  assert (w.now_ms - begin >= 10000 && w.now_ms - begin < 11000);
  world_end (&w);
}

/* A reader that was silent when the attach began, and is heard of again before
 * it is granted, may read what goes out with it: it is waited for.
 */
static void
test_reader_again (void)
{
  static struct world w;
  struct host *writer = &w.host[1], *reader = &w.host[2];

  healthy (&w);
  attach_until_granted (&w, reader, "a");
  reader->alive = false;
  reader->beat_op = 0;
  cut_off (&w.disk[3]);
  live_on (&w, 60);
  assert (!cluster_session_find (w.c, reader->session)->alive);
  w.disk[2].op = UINT64_MAX; /* it does not confirm yet */
  writer->takeover = true;
  host_attach (&w, writer, "a");
  live (&w);
  assert (rec (&w)->change.states[3] == MEMBER_OUT);
  reader->alive = reader->busy = true;
  live_on (&w, 2);
  w.disk[2].op = 0;
  live_on (&w, 8);
  assert (!cluster_change_waits_for (cluster_array_find (w.c, "a"), 2));
  assert (!writer->attached);
  reader->busy = false;
  UNTIL (&w, writer->attached);
  assert (writer->states[3] == MEMBER_OUT);
  world_end (&w);
}

/* Where it would lose data it is refused in time.  The number that it prepared
 * serves no grant of a weftd that was started since; and where nobody asks
 * again, it is committed without those who are gone, who are to be fenced as soon
 * as they are back.
 */
static void
test_late_members (void)
{
  static struct world w;
  struct host *a = &w.host[0];
  const struct cluster_array_record *rec;
  uint64_t epoch;

  world_init (&w, 4);
  make_array (&w, "a");
  epoch = cluster_array_find (w.c, "a")->rec.epoch;
  for (unsigned i = 2; i < 4; i++)
    disk_beat (&w, &w.disk[i], 0);
  said (&w, 0);
  cut_off (&w.disk[2]);
  cut_off (&w.disk[3]);
  host_attach (&w, a, "a");
  for (unsigned i = 0; i < 8; i++)
    live (&w);
  assert (cluster_array_find (w.c, "a")->rec.change.epoch == epoch + 1);
  reincarnate (&w);
  assert (cluster_array_find (w.c, "a")->rec.change.epoch == epoch + 1);
  assert (cluster_array_find (w.c, "a")->rec.epoch == epoch);
  w.disk[2].alive = w.disk[3].alive = true;
  attach_until_granted (&w, a, "a");
  assert (a->epoch == epoch + 2); /* a stored number serves no grant */
  detach (&w, a);
  rec = &cluster_array_find (w.c, "a")->rec;
  UNTIL (&w, rec->change.epoch == 0);

  a->alive = true;
  a->session = 0;
  snprintf (a->instance, 16, "h0 again");
  live (&w);
  epoch = rec->epoch;
  cut_off (&w.disk[2]);
  cut_off (&w.disk[3]);
  host_attach (&w, a, "a");
  UNTIL (&w, a->op == 0);
  assert (a->refused == CLUSTER_CONFLICT);
  assert (strcmp (a->code, "member-missing") == 0);
  assert (rec->member[2].state == MEMBER_IN_SYNC);
  UNTIL (&w, rec->change.epoch == 0);
  assert (rec->epoch > epoch && rec->member[2].fence == rec->epoch);
  assert (w.disk[0].min_epoch > epoch && w.disk[2].min_epoch <= epoch);
  w.disk[2].alive = w.disk[3].alive = true;
  w.disk[2].op = w.disk[3].op = 0;
  UNTIL (&w, w.disk[2].min_epoch == rec->member[2].fence);
  world_end (&w);
}

/* An attach was to start without a member that is away, but came to nothing, for the
 * other copy is gone, too, and has not confirmed that.  Nobody wrote: so the member
 * is as good as ever when it is back.  killed: weftd dies before it refuses.
 */
static void
test_came_to_nothing (bool killed)
{
  static struct world w;
  struct host *h = &w.host[0];

  world_init (&w, 4);
  make_array (&w, "a");
  cut_off (&w.disk[3]);
  live_on (&w, 44); /* it is missing for long enough */
  cut_off (&w.disk[2]);
  live_on (&w, 2); /* which has not been noticed yet */
  host_attach (&w, h, "a");
  live (&w);
  assert (rec (&w)->change.states[3] == MEMBER_OUT);
  if (killed)
    reincarnate (&w);
  else {
    UNTIL (&w, h->op == 0);
    assert (!h->attached && strcmp (h->code, "member-missing") == 0);
  }
  live_on (&w, 8);
  w.disk[3].alive = true;
  w.disk[3].op = 0;
  live_on (&w, 60);
  assert (rec (&w)->member[3].state == MEMBER_IN_SYNC);
  attach_until_granted (&w, h, "a");
  assert (h->states[2] == MEMBER_OUT && h->states[3] == MEMBER_IN_SYNC);
  world_end (&w);
}

/* Nobody who lives waits for a clock: members and hosts are told at once. */
static void
test_no_waits (void)
{
  static struct world w;
  struct host *a = &w.host[0], *b = &w.host[1];
  uint64_t begin;

  world_init (&w, 7);
  make_array (&w, "a");
  for (unsigned i = 0; i < 10; i++)
    live (&w); /* by now everybody is in a long poll */
  begin = w.now_ms;
  attach_until_granted (&w, a, "a");
  for (unsigned i = 0; i < 10; i++)
    live (&w);
  assert (strcmp (attach_refusal (&w, b, "a"), "held") == 0);
  detach (&w, a);
  attach_until_granted (&w, b, "a");
  assert (w.now_ms - begin < 40 * CLUSTER_TICK_MS);
  world_end (&w);

  world_init (&w, 7);
  make_array (&w, "a");
  for (unsigned i = 0; i < 10; i++)
    live (&w);
  begin = w.now_ms;
  attach_until_granted (&w, a, "a");
  assert (w.now_ms - begin <= 2 * CLUSTER_TICK_MS);
  /* The same answer, where the first one was not heard. */
  a->attached = false;
  begin = a->session;
  attach_until_granted (&w, a, "a");
  assert (a->session == begin);
  world_end (&w);
}

/* A member passes the number that is being prepared: that one is spent. */
static void
test_spent_number (void)
{
  static struct world w;
  struct cluster_array *a;
  uint64_t epoch;

  world_init (&w, 8);
  make_array (&w, "a");
  a = cluster_array_find (w.c, "a");
  epoch = a->rec.epoch;
  w.disk[3].alive = false; /* it has not confirmed yet */
  w.disk[3].op = UINT64_MAX;
  host_attach (&w, &w.host[0], "a");
  for (unsigned i = 0; i < 4; i++)
    live (&w);
  assert (a->rec.change.epoch == epoch + 1);
  w.disk[3].alive = true;
  w.disk[3].op = 0;
  w.disk[3].min_epoch = epoch + 2;
  live (&w);
  assert (a->rec.change.epoch == epoch + 3 || a->rec.epoch == epoch + 3);
  UNTIL (&w, w.host[0].attached);
  assert (w.host[0].epoch == epoch + 3);
  world_end (&w);
}

/* What a reader says of a member does not take it from the writer. */
static void
test_reader (void)
{
  static struct world w;
  struct host *reader = &w.host[2];
  struct cluster_input in;
  struct message m;

  healthy (&w);
  attach_until_granted (&w, reader, "a");
  in = input (&w, ++w.next_op);
  cluster_session_lost (w.c, &in, reader->session, 1, 0, "no route");
  pump (&w);
  m = said (&w, in.op);
  expect_refused (&m, CLUSTER_CONFLICT, "in-use");
  in = input (&w, ++w.next_op);
  cluster_session_lost (w.c, &in, reader->session, MEMBERS, 0, "no such");
  pump (&w);
  m = said (&w, in.op);
  expect_refused (&m, CLUSTER_INVALID, "member");
  assert (strcmp (m.problem.field, "member") == 0);
  detach (&w, &w.host[0]);
  in = input (&w, ++w.next_op);
  cluster_session_lost (w.c, &in, reader->session, 1, 0, "no route");
  pump (&w);
  m = said (&w, in.op);
  expect_refused (&m, CLUSTER_CONFLICT, "in-use");
  world_end (&w);
}

/* A world in which the reader has been silent for its TTL, and then a member was
 * lost: that is recorded at once, though the writer does not get to prepare itself.
 */
static uint64_t
lose_beside_silent_reader (struct world *w)
{
  struct host *h = &w->host[0], *reader = &w->host[2];
  uint64_t before;

  healthy (w);
  attach_until_granted (w, reader, "a");
  reader->alive = false;
  reader->beat_op = 0;
  live_on (w, 60);
  assert (!cluster_session_find (w->c, reader->session)->alive);
  before = rec (w)->epoch;
  assert (reader->epoch == before);
  h->busy = true;
  w->disk[1].slow = true;
  lost (w, h, 1);
  assert (h->answered && h->states[1] == MEMBER_OUT);
  assert (rec (w)->member[1].state == MEMBER_OUT && !rec (w)->change.epoch);
  return before;
}

/* Heard of again, the reader hears of no newer epoch than its own before the writer
 * has prepared itself: what it had for the lost member alone may be nowhere else.
 */
static void
let_in (struct world *w, uint64_t before)
{
  struct host *h = &w->host[0], *reader = &w->host[2];

  UNTIL (w, rec (w)->change.sessions || rec (w)->unprepared == 0);
  live_on (w, 100);
  assert (reader->epoch == before && reader->states[1] == MEMBER_IN_SYNC);
  assert (!cluster_session_find (w->c, reader->session)->rec.ended);
  h->busy = false;
  UNTIL (w, reader->epoch > before && reader->attached);
  assert (h->prepared > before && h->prepared <= reader->epoch);
  assert (reader->states[1] != MEMBER_IN_SYNC);
  UNTIL (w, cluster_session_find (w->c, reader->session)->alive);
  assert (rec (w)->unprepared == 0);
}

static void
test_reader_silent (void)
{
  static struct world w;
  struct host *h = &w.host[0], *reader = &w.host[2];
  struct message m;
  struct cluster_input in;
  uint64_t before, session, first;

  before = lose_beside_silent_reader (&w);
  reader->alive = true;
  let_in (&w, before);
  world_end (&w);

  /* weftd is started again before it is heard of, and while it waits. */
  before = lose_beside_silent_reader (&w);
  reincarnate (&w);
  reader->alive = true;
  UNTIL (&w, rec (&w)->change.sessions);
  reincarnate (&w);
  let_in (&w, before);
  world_end (&w);

  /* To the new weftd it may be alive, and a change waits for it; but no more when it
   * says what it knows.
   */
  before = lose_beside_silent_reader (&w);
  UNTIL (&w, rec (&w)->member[1].state == MEMBER_JOINING);
  reincarnate (&w);
  h->busy = w.disk[1].slow = false;
  UNTIL (&w,
         rec (&w)->change.sessions && h->prepared == rec (&w)->change.epoch);
  live_on (&w, 8);
  assert (rec (&w)->change.sessions);
  reader->alive = true;
  live_on (&w, 2);
  assert (whole (&w) && reader->epoch == rec (&w)->epoch);
  world_end (&w);

  /* A report does not let it in. */
  before = lose_beside_silent_reader (&w);
  in = input (&w, ++w.next_op);
  cluster_session_lost (w.c, &in, reader->session, 1, 0, "no route");
  pump (&w);
  m = said (&w, in.op);
  expect_refused (&m, CLUSTER_CONFLICT, "starting");
  world_end (&w);

  /* It never heard of its session, and asks for one again: it gets a new one. */
  before = lose_beside_silent_reader (&w);
  session = reader->session;
  reader->attached = false;
  reader->alive = true;
  host_attach (&w, reader, "a");
  live_on (&w, 20);
  assert (!reader->attached && rec (&w)->change.sessions);
  assert (cluster_session_find (w.c, session)->rec.ended);
  h->busy = false;
  UNTIL (&w, reader->attached);
  assert (reader->session != session && h->prepared == reader->epoch);
  world_end (&w);

  /* Another loss just before it is let in: it waits for that, too. */
  before = lose_beside_silent_reader (&w);
  UNTIL (&w, rec (&w)->member[1].state == MEMBER_JOINING);
  first = rec (&w)->unprepared;
  assert (first > before);
  w.disk[1].slow = h->busy = false;
  UNTIL (&w, whole (&w));
  assert (rec (&w)->unprepared == 0);
  h->busy = true;
  cut_off (&w.disk[2]);
  lost (&w, h, 2);
  assert (rec (&w)->unprepared > first);
  w.disk[2].op = 0;
  reader->alive = true;
  UNTIL (&w, rec (&w)->change.sessions);
  live_on (&w, 60);
  assert (reader->epoch == before);
  h->busy = false;
  UNTIL (&w, reader->epoch > before);
  world_end (&w);

  /* Whoever writes is gone, and nobody knows what he had: it reads. */
  before = lose_beside_silent_reader (&w);
  h->alive = false;
  h->beat_op = 0;
  live_on (&w, 60);
  reader->alive = true;
  UNTIL (&w, reader->epoch > before);
  world_end (&w);
}

/* A member that is missing is left out of an attach after ten seconds, and one
 * that is out hinders nobody; but never the last copy.
 */
static void
test_degraded (void)
{
  static struct world w;
  struct host *h = &w.host[0];
  uint64_t begin;
  char text[4096];

  world_init (&w, 3);
  make_array (&w, "a");
  begin = w.now_ms;
  cut_off (&w.disk[1]);
  live_on (&w, 24); /* it is missed */
  host_attach (&w, h, "a");
  live (&w);
  assert (strcmp (h->code, "member-missing") == 0);
  attach_until_granted (&w, h, "a");
  assert (w.now_ms - begin >= 10000 - 2 * HEARTBEAT_MS);
  assert (w.now_ms - begin <= 13000);
  assert (h->states[1] == MEMBER_OUT);
  cluster_verdict (w.c, text, sizeof text);
  assert (strstr (text, "degraded") &&
          strstr (text, "Start its member process"));
  detach (&w, h);
  h->alive = true;
  h->session = 0;
  begin = w.now_ms;
  attach_until_granted (&w, h, "a");
  assert (w.now_ms - begin <= 2 * HEARTBEAT_MS);
  detach (&w, h);
  h->alive = true;
  h->session = 0;
  cut_off (&w.disk[2]);
  live_on (&w, 60);
  host_attach (&w, h, "a");
  live (&w);
  assert (strcmp (h->code, "member-missing") == 0);
  assert (rec (&w)->member[2].state == MEMBER_IN_SYNC);
  w.disk[1].op = w.disk[2].op = 0;
  w.disk[1].alive = w.disk[2].alive = true;
  attach_until_granted (&w, h, "a");
  UNTIL (&w, whole (&w));
  world_end (&w);
}

/* Whom an attach leaves out, readers must have stopped reading. */
static void
test_degraded_readers (void)
{
  static struct world w;
  struct host *h = &w.host[0], *reader = &w.host[2];

  world_init (&w, 3);
  make_array (&w, "a");
  attach_until_granted (&w, reader, "a");
  cut_off (&w.disk[1]);
  reader->busy = true;
  live_on (&w, 60);
  host_attach (&w, h, "a");
  live_on (&w, 20);
  assert (h->op != 0 && rec (&w)->change.sessions);
  assert (rec (&w)->member[1].state == MEMBER_IN_SYNC);
  reader->busy = false;
  UNTIL (&w, h->attached);
  assert (rec (&w)->member[1].state == MEMBER_OUT);
  world_end (&w);
}

/* By order, from one who lives; but not into an array that can't start. */
static void
test_takeover (void)
{
  static struct world w;
  struct host *h = &w.host[0], *other = &w.host[1];
  uint64_t begin;

  healthy (&w);
  live_on (&w, 4);
  other->takeover = true;
  begin = w.now_ms;
  attach_until_granted (&w, other, "a");
  assert (w.now_ms - begin <= HEARTBEAT_MS);
  UNTIL (&w, h->over);
  h->over = false;
  h->session = 0;
  h->takeover = true;
  cut_off (&w.disk[1]);
  cut_off (&w.disk[2]);
  live_on (&w, 60);
  host_attach (&w, h, "a");
  live (&w);
  assert (strcmp (h->code, "member-missing") == 0);
  live_on (&w, 10);
  assert (other->attached && !other->over);
  world_end (&w);
}

/* Is the array granted to the other one, before the holder has been silent for its
 * time?  alive: the holder lives.
 */
static bool
granted_early (const char *node, bool alive, uint64_t wrong)
{
  static struct world w;
  struct host *h = &w.host[0], *other = &w.host[1];
  uint64_t begin;
  bool early;

  healthy (&w);
  live_on (&w, 4);
  snprintf (other->node, sizeof other->node, "%s", node ? node : h->node);
  other->ended = h->session + wrong;
  h->alive = alive;
  if (!alive)
    h->beat_op = 0;
  begin = w.now_ms;
  while (!other->attached && w.now_ms - begin < SESSION_TTL_MS / 2) {
    host_attach (&w, other, "a");
    UNTIL (&w, other->op == 0);
  }
  early = other->attached;
  if (early) {
    h->alive = true; /* whatever its node says, it can write nothing more */
    UNTIL (&w, h->over);
  }
  else
    assert (strcmp (other->code, "held") == 0 && !h->over);
  world_end (&w);
  return early;
}

/* The holder's node says that its process has ended. */
static void
test_ended_holder (void)
{
  assert (granted_early (NULL, false, 0));
  /* One that speaks when it is asked has not. */
  assert (!granted_early (NULL, true, 0));
  /* Another node can't know; nor does it say anything of another session. */
  assert (!granted_early ("n9", false, 0));
  assert (!granted_early (NULL, false, 1));
}

/* A reader comes to an array that is degraded: what is written was perhaps not
 * yet put where it would look, so the writer prepares itself first.
 */
static void
test_reader_comes (void)
{
  static struct world w;
  struct host *h = &w.host[0], *reader = &w.host[2];

  healthy (&w);
  cut_off (&w.disk[1]);
  report_lost (&w, h, 1);
  live_on (&w, 30);
  h->busy = true;
  host_attach (&w, reader, "a");
  live_on (&w, 8);
  assert (!reader->answered && rec (&w)->change.sessions);
  h->busy = false;
  UNTIL (&w, reader->attached);
  assert (h->prepared == reader->epoch);
  detach (&w, reader);
  reader->alive = true;
  reader->session = 0;

  /* It can't, for it has lost a last copy. */
  h->busy = true;
  host_attach (&w, reader, "a");
  live_on (&w, 4);
  cut_off (&w.disk[2]);
  lost (&w, h, 2);
  UNTIL (&w, reader->answered);
  assert (strcmp (reader->code, "changing") == 0);
  host_attach (&w, reader, "a");
  live (&w);
  assert (strcmp (reader->code, "member-missing") == 0);
  world_end (&w);

  /* It is silent, and may be dead: it is not waited for. */
  healthy (&w);
  cut_off (&w.disk[1]);
  report_lost (&w, h, 1);
  live_on (&w, 30);
  h->alive = false;
  h->beat_op = 0;
  attach_until_granted (&w, reader, "a");
  assert (rec (&w)->change.epoch == 0);
  world_end (&w);
}

/* One whose session an administrator ends may write on: it is fenced everywhere,
 * and again when a member is taken back while nobody writes.
 */
static void
test_evicted (void)
{
  static struct world w;
  struct host *h = &w.host[0];
  struct cluster_input in;
  uint64_t epoch;

  healthy (&w);
  cut_off (&w.disk[1]);
  report_lost (&w, h, 1);
  h->alive = false;
  h->beat_op = 0;
  epoch = rec (&w)->epoch;
  in = input (&w, ++w.next_op);
  cluster_session_detach (w.c, &in, h->session);
  pump (&w);
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (rec (&w)->change.confirm[m] == (m != 1));
  UNTIL (&w, rec (&w)->change.epoch == 0);
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (m == 1 || w.disk[m].min_epoch > epoch);
  w.disk[1].alive = true;
  w.disk[1].op = 0;
  UNTIL (&w, rec (&w)->change.epoch != 0);
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (rec (&w)->change.confirm[m]);
  UNTIL (&w, whole (&w));
  h->alive = true; /* it was only asleep */
  UNTIL (&w, h->over);
  world_end (&w);
}

/* A writer that leaves: all that are not out refuse what it may still send, and a
 * joiner begins again.
 */
static void
test_detach_joiner (void)
{
  static struct world w;
  uint64_t fence, other;

  joining (&w, 1);
  fence = rec (&w)->member[1].fence;
  other = rec (&w)->member[0].fence;
  detach (&w, &w.host[0]);
  UNTIL (&w, rec (&w)->change.epoch == 0);
  assert (rec (&w)->member[1].fence > fence);
  assert (rec (&w)->member[0].fence > other);
  assert (w.disk[0].min_epoch >= rec (&w)->member[0].fence);
  assert (rec (&w)->member[1].state == MEMBER_JOINING);
  w.disk[1].slow = false;
  UNTIL (&w, whole (&w));
  world_end (&w);

  /* Also where it was about to become in-sync. */
  joining (&w, 1);
  w.host[0].busy = true;
  w.disk[1].slow = false;
  UNTIL (&w, rec (&w)->change.epoch != 0);
  w.disk[1].slow = true;
  detach (&w, &w.host[0]);
  assert (rec (&w)->member[1].state == MEMBER_JOINING);
  w.disk[1].slow = false;
  UNTIL (&w, whole (&w));
  world_end (&w);
}

int
main (void)
{
  test_late_member ();
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
  return 0;
}
