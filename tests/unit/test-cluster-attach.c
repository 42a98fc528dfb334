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
  struct host *a = &world.host[0];
  uint64_t epoch, begin;

  world_init (4);
  make_array ("a");
  epoch = cluster_array_find (world.c, "a")->rec.epoch;
  disk_beat (&world.disk[3], 0);
  said (0);
  cut_off (&world.disk[3]);
  begin = world.now_ms;
  host_attach (a, "a");
  UNTIL (a->op == 0);
  assert (a->attached && a->epoch == epoch + 2);
  assert (a->states[3] == MEMBER_OUT && a->states[2] == MEMBER_IN_SYNC);
  assert (world.now_ms - begin >= 10000 && world.now_ms - begin < 11000);
}

/* A reader that was silent when the attach began, and is heard of again before
 * it is granted, may read what goes out with it: it is waited for.
 */
static void
test_reader_again (void)
{
  struct host *writer = &world.host[1], *reader = &world.host[2];

  healthy ();
  attach_until_granted (reader, "a");
  reader->alive = false;
  reader->beat_op = 0;
  cut_off (&world.disk[3]);
  live_on (60);
  assert (!cluster_session_find (world.c, reader->session)->alive);
  world.disk[2].op = UINT64_MAX; /* it does not confirm yet */
  writer->takeover = true;
  host_attach (writer, "a");
  live ();
  assert (rec ()->change.states[3] == MEMBER_OUT);
  reader->alive = reader->busy = true;
  live_on (2);
  world.disk[2].op = 0;
  live_on (8);
  assert (!cluster_change_waits_for (cluster_array_find (world.c, "a"), 2));
  assert (!writer->attached);
  reader->busy = false;
  UNTIL (writer->attached);
  assert (writer->states[3] == MEMBER_OUT);
}

/* Where it would lose data it is refused in time.  The number that it prepared
 * serves no grant of a weftd that was started since; and where nobody asks
 * again, it is committed without those who are gone, who are to be fenced as soon
 * as they are back.
 */
static void
test_late_members (void)
{
  struct host *a = &world.host[0];
  const struct cluster_array_record *rec;
  uint64_t epoch;

  world_init (4);
  make_array ("a");
  epoch = cluster_array_find (world.c, "a")->rec.epoch;
  for (unsigned i = 2; i < 4; i++)
    disk_beat (&world.disk[i], 0);
  said (0);
  cut_off (&world.disk[2]);
  cut_off (&world.disk[3]);
  host_attach (a, "a");
  for (unsigned i = 0; i < 8; i++)
    live ();
  assert (cluster_array_find (world.c, "a")->rec.change.epoch == epoch + 1);
  reincarnate ();
  assert (cluster_array_find (world.c, "a")->rec.change.epoch == epoch + 1);
  assert (cluster_array_find (world.c, "a")->rec.epoch == epoch);
  world.disk[2].alive = world.disk[3].alive = true;
  attach_until_granted (a, "a");
  assert (a->epoch == epoch + 2); /* a stored number serves no grant */
  detach (a);
  rec = &cluster_array_find (world.c, "a")->rec;
  UNTIL (rec->change.epoch == 0);

  a->alive = true;
  a->session = 0;
  snprintf (a->instance, 16, "h0 again");
  live ();
  epoch = rec->epoch;
  cut_off (&world.disk[2]);
  cut_off (&world.disk[3]);
  host_attach (a, "a");
  UNTIL (a->op == 0);
  assert (a->refused == CLUSTER_CONFLICT);
  assert (strcmp (a->code, "member-missing") == 0);
  assert (rec->member[2].state == MEMBER_IN_SYNC);
  UNTIL (rec->change.epoch == 0);
  assert (rec->epoch > epoch && rec->member[2].fence == rec->epoch);
  assert (world.disk[0].min_epoch > epoch && world.disk[2].min_epoch <= epoch);
  world.disk[2].alive = world.disk[3].alive = true;
  world.disk[2].op = world.disk[3].op = 0;
  UNTIL (world.disk[2].min_epoch == rec->member[2].fence);
}

/* An attach was to start without a member that is away, but came to nothing, for the
 * other copy is gone, too, and has not confirmed that.  Nobody wrote: so the member
 * is as good as ever when it is back.  killed: weftd dies before it refuses.
 */
static void
test_came_to_nothing (bool killed)
{
  struct host *h = &world.host[0];

  world_init (4);
  make_array ("a");
  cut_off (&world.disk[3]);
  live_on (44); /* it is missing for long enough */
  cut_off (&world.disk[2]);
  live_on (2); /* which has not been noticed yet */
  host_attach (h, "a");
  live ();
  assert (rec ()->change.states[3] == MEMBER_OUT);
  if (killed)
    reincarnate ();
  else {
    UNTIL (h->op == 0);
    assert (!h->attached && strcmp (h->code, "member-missing") == 0);
  }
  live_on (8);
  world.disk[3].alive = true;
  world.disk[3].op = 0;
  live_on (60);
  assert (rec ()->member[3].state == MEMBER_IN_SYNC);
  attach_until_granted (h, "a");
  assert (h->states[2] == MEMBER_OUT && h->states[3] == MEMBER_IN_SYNC);
}

/* Nobody who lives waits for a clock: members and hosts are told at once. */
static void
test_no_waits (void)
{
  struct host *a = &world.host[0], *b = &world.host[1];
  uint64_t begin;

  world_init (7);
  make_array ("a");
  for (unsigned i = 0; i < 10; i++)
    live (); /* by now everybody is in a long poll */
  begin = world.now_ms;
  attach_until_granted (a, "a");
  for (unsigned i = 0; i < 10; i++)
    live ();
  assert (strcmp (attach_refusal (b, "a"), "held") == 0);
  detach (a);
  attach_until_granted (b, "a");
  assert (world.now_ms - begin < 40 * CLUSTER_TICK_MS);

  world_init (7);
  make_array ("a");
  for (unsigned i = 0; i < 10; i++)
    live ();
  begin = world.now_ms;
  attach_until_granted (a, "a");
  assert (world.now_ms - begin <= 2 * CLUSTER_TICK_MS);
  /* The same answer, where the first one was not heard. */
  a->attached = false;
  begin = a->session;
  attach_until_granted (a, "a");
  assert (a->session == begin);
}

/* A member passes the number that is being prepared: that one is spent. */
static void
test_spent_number (void)
{
  struct cluster_array *a;
  uint64_t epoch;

  world_init (8);
  make_array ("a");
  a = cluster_array_find (world.c, "a");
  epoch = a->rec.epoch;
  world.disk[3].alive = false; /* it has not confirmed yet */
  world.disk[3].op = UINT64_MAX;
  host_attach (&world.host[0], "a");
  for (unsigned i = 0; i < 4; i++)
    live ();
  assert (a->rec.change.epoch == epoch + 1);
  world.disk[3].alive = true;
  world.disk[3].op = 0;
  world.disk[3].min_epoch = epoch + 2;
  live ();
  assert (a->rec.change.epoch == epoch + 3 || a->rec.epoch == epoch + 3);
  UNTIL (world.host[0].attached);
  assert (world.host[0].epoch == epoch + 3);
}

/* What a reader says of a member does not take it from the writer. */
static void
test_reader (void)
{
  struct host *reader = &world.host[2];
  struct cluster_input in;
  struct message m;

  healthy ();
  attach_until_granted (reader, "a");
  in = input (++world.next_op);
  cluster_session_lost (world.c, &in, reader->session, 1, 0, "no route");
  pump ();
  m = said (in.op);
  expect_refused (&m, CLUSTER_CONFLICT, "in-use");
  in = input (++world.next_op);
  cluster_session_lost (world.c, &in, reader->session, MEMBERS, 0, "no such");
  pump ();
  m = said (in.op);
  expect_refused (&m, CLUSTER_INVALID, "member");
  assert (strcmp (m.problem.field, "member") == 0);
  detach (&world.host[0]);
  in = input (++world.next_op);
  cluster_session_lost (world.c, &in, reader->session, 1, 0, "no route");
  pump ();
  m = said (in.op);
  expect_refused (&m, CLUSTER_CONFLICT, "in-use");
}

/* A world in which the reader has been silent for its TTL, and then a member was
 * lost: that is recorded at once, though the writer does not get to prepare itself.
 */
static uint64_t
lose_beside_silent_reader (void)
{
  struct host *h = &world.host[0], *reader = &world.host[2];
  uint64_t before;

  healthy ();
  attach_until_granted (reader, "a");
  reader->alive = false;
  reader->beat_op = 0;
  live_on (60);
  assert (!cluster_session_find (world.c, reader->session)->alive);
  before = rec ()->epoch;
  assert (reader->epoch == before);
  h->busy = true;
  world.disk[1].slow = true;
  lost (h, 1);
  assert (h->answered && h->states[1] == MEMBER_OUT);
  assert (rec ()->member[1].state == MEMBER_OUT && !rec ()->change.epoch);
  return before;
}

/* Heard of again, the reader hears of no newer epoch than its own before the writer
 * has prepared itself: what it had for the lost member alone may be nowhere else.
 */
static void
let_in (uint64_t before)
{
  struct host *h = &world.host[0], *reader = &world.host[2];

  UNTIL (rec ()->change.sessions || rec ()->unprepared == 0);
  live_on (100);
  assert (reader->epoch == before && reader->states[1] == MEMBER_IN_SYNC);
  assert (!cluster_session_find (world.c, reader->session)->rec.ended);
  h->busy = false;
  UNTIL (reader->epoch > before && reader->attached);
  assert (h->prepared > before && h->prepared <= reader->epoch);
  assert (reader->states[1] != MEMBER_IN_SYNC);
  UNTIL (cluster_session_find (world.c, reader->session)->alive);
  assert (rec ()->unprepared == 0);
}

static void
test_reader_silent (void)
{
  struct host *h = &world.host[0], *reader = &world.host[2];
  struct message m;
  struct cluster_input in;
  uint64_t before, session, first;

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
  UNTIL (rec ()->member[1].state == MEMBER_JOINING);
  reincarnate ();
  h->busy = world.disk[1].slow = false;
  UNTIL (rec ()->change.sessions && h->prepared == rec ()->change.epoch);
  live_on (8);
  assert (rec ()->change.sessions);
  reader->alive = true;
  live_on (2);
  assert (whole () && reader->epoch == rec ()->epoch);

  /* A report does not let it in. */
  before = lose_beside_silent_reader ();
  in = input (++world.next_op);
  cluster_session_lost (world.c, &in, reader->session, 1, 0, "no route");
  pump ();
  m = said (in.op);
  expect_refused (&m, CLUSTER_CONFLICT, "starting");

  /* It never heard of its session, and asks for one again: it gets a new one. */
  before = lose_beside_silent_reader ();
  session = reader->session;
  reader->attached = false;
  reader->alive = true;
  host_attach (reader, "a");
  live_on (20);
  assert (!reader->attached && rec ()->change.sessions);
  assert (cluster_session_find (world.c, session)->rec.ended);
  h->busy = false;
  UNTIL (reader->attached);
  assert (reader->session != session && h->prepared == reader->epoch);

  /* Another loss just before it is let in: it waits for that, too. */
  before = lose_beside_silent_reader ();
  UNTIL (rec ()->member[1].state == MEMBER_JOINING);
  first = rec ()->unprepared;
  assert (first > before);
  world.disk[1].slow = h->busy = false;
  UNTIL (whole ());
  assert (rec ()->unprepared == 0);
  h->busy = true;
  cut_off (&world.disk[2]);
  lost (h, 2);
  assert (rec ()->unprepared > first);
  world.disk[2].op = 0;
  reader->alive = true;
  UNTIL (rec ()->change.sessions);
  live_on (60);
  assert (reader->epoch == before);
  h->busy = false;
  UNTIL (reader->epoch > before);

  /* Whoever writes is gone, and nobody knows what he had: it reads. */
  before = lose_beside_silent_reader ();
  h->alive = false;
  h->beat_op = 0;
  live_on (60);
  reader->alive = true;
  UNTIL (reader->epoch > before);
}

/* A member that is missing is left out of an attach after ten seconds, and one
 * that is out hinders nobody; but never the last copy.
 */
static void
test_degraded (void)
{
  struct host *h = &world.host[0];
  uint64_t begin;
  char text[4096];

  world_init (3);
  make_array ("a");
  begin = world.now_ms;
  cut_off (&world.disk[1]);
  live_on (24); /* it is missed */
  host_attach (h, "a");
  live ();
  assert (strcmp (h->code, "member-missing") == 0);
  attach_until_granted (h, "a");
  assert (world.now_ms - begin >= 10000 - 2 * HEARTBEAT_MS);
  assert (world.now_ms - begin <= 13000);
  assert (h->states[1] == MEMBER_OUT);
  cluster_verdict (world.c, text, sizeof text);
  assert (strstr (text, "degraded") &&
          strstr (text, "Start its member process"));
  detach (h);
  h->alive = true;
  h->session = 0;
  begin = world.now_ms;
  attach_until_granted (h, "a");
  assert (world.now_ms - begin <= 2 * HEARTBEAT_MS);
  detach (h);
  h->alive = true;
  h->session = 0;
  cut_off (&world.disk[2]);
  live_on (60);
  host_attach (h, "a");
  live ();
  assert (strcmp (h->code, "member-missing") == 0);
  assert (rec ()->member[2].state == MEMBER_IN_SYNC);
  world.disk[1].op = world.disk[2].op = 0;
  world.disk[1].alive = world.disk[2].alive = true;
  attach_until_granted (h, "a");
  UNTIL (whole ());
}

/* Whom an attach leaves out, readers must have stopped reading. */
static void
test_degraded_readers (void)
{
  struct host *h = &world.host[0], *reader = &world.host[2];

  world_init (3);
  make_array ("a");
  attach_until_granted (reader, "a");
  cut_off (&world.disk[1]);
  reader->busy = true;
  live_on (60);
  host_attach (h, "a");
  live_on (20);
  assert (h->op != 0 && rec ()->change.sessions);
  assert (rec ()->member[1].state == MEMBER_IN_SYNC);
  reader->busy = false;
  UNTIL (h->attached);
  assert (rec ()->member[1].state == MEMBER_OUT);
}

/* By order, from one who lives; but not into an array that can't start. */
static void
test_takeover (void)
{
  struct host *h = &world.host[0], *other = &world.host[1];
  uint64_t begin;

  healthy ();
  live_on (4);
  other->takeover = true;
  begin = world.now_ms;
  attach_until_granted (other, "a");
  assert (world.now_ms - begin <= HEARTBEAT_MS);
  UNTIL (h->over);
  h->over = false;
  h->session = 0;
  h->takeover = true;
  cut_off (&world.disk[1]);
  cut_off (&world.disk[2]);
  live_on (60);
  host_attach (h, "a");
  live ();
  assert (strcmp (h->code, "member-missing") == 0);
  live_on (10);
  assert (other->attached && !other->over);
}

/* Is the array granted to the other one, before the holder has been silent for its
 * time?  alive: the holder lives.
 */
static bool
granted_early (const char *node, bool alive, uint64_t wrong)
{
  struct host *h = &world.host[0], *other = &world.host[1];
  uint64_t begin;
  bool early;

  healthy ();
  live_on (4);
  snprintf (other->node, sizeof other->node, "%s", node ? node : h->node);
  other->ended = h->session + wrong;
  h->alive = alive;
  if (!alive)
    h->beat_op = 0;
  begin = world.now_ms;
  while (!other->attached && world.now_ms - begin < SESSION_TTL_MS / 2) {
    host_attach (other, "a");
    UNTIL (other->op == 0);
  }
  early = other->attached;
  if (early) {
    h->alive = true; /* whatever its node says, it can write nothing more */
    UNTIL (h->over);
  }
  else
    assert (strcmp (other->code, "held") == 0 && !h->over);
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
  struct host *h = &world.host[0], *reader = &world.host[2];

  healthy ();
  cut_off (&world.disk[1]);
  report_lost (h, 1);
  live_on (30);
  h->busy = true;
  host_attach (reader, "a");
  live_on (8);
  assert (!reader->answered && rec ()->change.sessions);
  h->busy = false;
  UNTIL (reader->attached);
  assert (h->prepared == reader->epoch);
  detach (reader);
  reader->alive = true;
  reader->session = 0;

  /* It can't, for it has lost a last copy. */
  h->busy = true;
  host_attach (reader, "a");
  live_on (4);
  cut_off (&world.disk[2]);
  lost (h, 2);
  UNTIL (reader->answered);
  assert (strcmp (reader->code, "changing") == 0);
  host_attach (reader, "a");
  live ();
  assert (strcmp (reader->code, "member-missing") == 0);

  /* It is silent, and may be dead: it is not waited for. */
  healthy ();
  cut_off (&world.disk[1]);
  report_lost (h, 1);
  live_on (30);
  h->alive = false;
  h->beat_op = 0;
  attach_until_granted (reader, "a");
  assert (rec ()->change.epoch == 0);
}

/* One whose session an administrator ends may write on: it is fenced everywhere,
 * and again when a member is taken back while nobody writes.
 */
static void
test_evicted (void)
{
  struct host *h = &world.host[0];
  struct cluster_input in;
  uint64_t epoch;

  healthy ();
  cut_off (&world.disk[1]);
  report_lost (h, 1);
  h->alive = false;
  h->beat_op = 0;
  epoch = rec ()->epoch;
  in = input (++world.next_op);
  cluster_session_detach (world.c, &in, h->session);
  pump ();
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (rec ()->change.confirm[m] == (m != 1));
  UNTIL (rec ()->change.epoch == 0);
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (m == 1 || world.disk[m].min_epoch > epoch);
  world.disk[1].alive = true;
  world.disk[1].op = 0;
  UNTIL (rec ()->change.epoch != 0);
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (rec ()->change.confirm[m]);
  UNTIL (whole ());
  h->alive = true; /* it was only asleep */
  UNTIL (h->over);
}

/* A writer that leaves: all that are not out refuse what it may still send, and a
 * joiner begins again.
 */
static void
test_detach_joiner (void)
{
  uint64_t fence, other;

  joining (1);
  fence = rec ()->member[1].fence;
  other = rec ()->member[0].fence;
  detach (&world.host[0]);
  UNTIL (rec ()->change.epoch == 0);
  assert (rec ()->member[1].fence > fence);
  assert (rec ()->member[0].fence > other);
  assert (world.disk[0].min_epoch >= rec ()->member[0].fence);
  assert (rec ()->member[1].state == MEMBER_JOINING);
  world.disk[1].slow = false;
  UNTIL (whole ());

  /* Also where it was about to become in-sync. */
  joining (1);
  world.host[0].busy = true;
  world.disk[1].slow = false;
  UNTIL (rec ()->change.epoch != 0);
  world.disk[1].slow = true;
  detach (&world.host[0]);
  assert (rec ()->member[1].state == MEMBER_JOINING);
  world.disk[1].slow = false;
  UNTIL (whole ());
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
