/* test-cluster-change.c: members that go out, join and become in-sync, one rule at
 * a time (cluster-epoch.c): who must confirm or prepare before COMMIT, and who
 * need not.  What every COMMIT must keep is asserted in test-cluster-store.c.
 */

#include <config.h>

#include "test-cluster-world.h"

/* A writer alone: out at once, and nobody else is fenced. */
static void
test_out_alone (void)
{
  struct host *h = &world.host[0];
  uint64_t epoch, fence;

  healthy ();
  epoch = rec ()->epoch;
  fence = rec ()->member[0].fence;
  h->busy = true;
  lost (h, 1);
  assert (h->answered && h->epoch == epoch + 1);
  assert (h->states[1] == MEMBER_OUT && rec ()->change.epoch == 0);
  assert (rec ()->member[0].fence == fence);
  assert (cluster_disk_min_epoch_wanted (
            cluster_disk_find (world.c, world.disk[0].uuid)) == fence);
}

/* Beside readers: when all have prepared themselves. */
static void
test_out_readers (void)
{
  struct host *h = &world.host[0], *reader = &world.host[2];
  uint64_t epoch;

  healthy ();
  attach_until_granted (reader, "a");
  live_on (4);
  epoch = rec ()->epoch;
  reader->busy = true;
  cut_off (&world.disk[1]);
  lost (h, 1);
  assert (!h->answered && rec ()->change.sessions);
  assert (rec ()->change.epoch == epoch + 1);
  live_on (10);
  assert (h->prepared == epoch + 1 && reader->told == epoch + 1);
  assert (rec ()->epoch == epoch && h->op != 0);
  UNTIL (h->op == 0);
  assert (strcmp (h->code, "changing") == 0);

  /* weftd is started again in the midst of it. */
  reincarnate ();
  assert (rec ()->change.epoch == epoch + 1 && rec ()->change.sessions);
  live_on (4);
  lost (h, 1);
  assert (rec ()->change.epoch == epoch + 1 && !h->answered);
  reader->busy = false;
  UNTIL (h->op == 0);
  assert (h->epoch == epoch + 1 && h->states[1] == MEMBER_OUT);
}

/* The news of a change comes once, and the next poll is held again. */
static void
test_news (void)
{
  struct host *reader = &world.host[2];
  uint64_t before, begin;
  unsigned polls = 0;

  healthy ();
  attach_until_granted (reader, "a");
  live_on (10);
  reader->busy = true;
  lost (&world.host[0], 1);
  live ();
  assert (reader->told == rec ()->change.epoch && reader->told != 0);
  begin = world.now_ms;
  while (world.now_ms < begin + 3000) {
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
  struct host *reader = &world.host[2];
  uint64_t begin;

  healthy ();
  attach_until_granted (reader, "a");
  live_on (4);
  cut_off (&world.disk[1]);
  reader->alive = false;
  reader->beat_op = 0;
  begin = world.now_ms;
  report_lost (&world.host[0], 1);
  assert (world.now_ms - begin >= SESSION_TTL_MS - HEARTBEAT_MS);
  assert (world.now_ms - begin <= SESSION_TTL_MS + 3 * HEARTBEAT_MS);
}

/* A silent writer may still write: it is waited for. */
static void
test_silent_writer (void)
{
  struct host *h = &world.host[0], *reader = &world.host[2];

  healthy ();
  attach_until_granted (reader, "a");
  cut_off (&world.disk[1]);
  h->alive = false;
  h->beat_op = 0;
  live_on (24); /* by now weftd misses the member, too */
  for (unsigned i = 0; i < 100; i++) {
    if (reader->op == 0)
      lost (reader, 1);
    live ();
    assert (reader->states[1] == MEMBER_IN_SYNC);
    assert (rec ()->change.states[1] == MEMBER_OUT);
  }
  h->alive = true;
  UNTIL (rec ()->member[1].state == MEMBER_OUT);
}

/* A second loss while the first is under way: one number for both. */
static void
test_out_again (void)
{
  struct host *h = &world.host[0], *reader = &world.host[2];
  uint64_t epoch;

  world_init (3);
  make_array_of ("a", LAYOUT_RAID1);
  attach_until_granted (h, "a");
  attach_until_granted (reader, "a");
  live_on (4);
  epoch = rec ()->epoch;
  reader->busy = true;
  cut_off (&world.disk[1]);
  cut_off (&world.disk[2]);
  lost (h, 1);
  live ();
  lost (h, 2);
  assert (rec ()->change.epoch == epoch + 2);
  assert (rec ()->change.states[1] == MEMBER_OUT);
  reader->busy = false;
  reader->prepared = epoch + 1; /* it had prepared itself for that */
  reader->beat_op = 0;
  live ();
  UNTIL (h->op == 0 && h->states[2] == MEMBER_OUT);
  assert (h->states[1] == MEMBER_OUT && h->epoch == epoch + 2);
}

/* Nobody reads a joiner: it goes out at once, whoever is busy. */
static void
test_joiner_out (void)
{
  struct host *h = &world.host[0], *reader = &world.host[2];

  joining (1);
  attach_until_granted (reader, "a");
  reader->busy = h->busy = true;
  lost (h, 1);
  assert (h->answered && h->states[1] == MEMBER_OUT);

  /* A reader does not take it from those who write. */
  joining (1);
  attach_until_granted (reader, "a");
  lost (reader, 1);
  assert (strcmp (reader->code, "in-use") == 0);
}

/* A report about a member's life before it was taken back changes nothing. */
static void
test_former_life (void)
{
  struct host *h = &world.host[0];

  healthy ();
  world.disk[1].slow = true;
  h->beat_op = UINT64_MAX; /* its heartbeats are slow today */
  report_lost (h, 1);
  UNTIL (rec ()->member[1].state == MEMBER_JOINING);
  lost (h, 1);
  assert (h->answered && h->states[1] == MEMBER_JOINING);
  assert (rec ()->member[1].state == MEMBER_JOINING);
  lost (h, 1); /* now it is about this life */
  assert (h->states[1] == MEMBER_OUT);
}

/* Out -> joining: that member confirms, and nobody else is asked. */
static void
test_take_back (void)
{
  uint64_t prepared;

  healthy ();
  world.host[0].busy = world.disk[1].slow = true;
  report_lost (&world.host[0], 1);
  cut_off (&world.disk[2]);
  UNTIL (rec ()->member[1].state == MEMBER_JOINING);
  assert (rec ()->member[1].fence == rec ()->epoch);
  assert (rec ()->member[2].fence < rec ()->epoch);

  /* It does not confirm: a higher number does without it. */
  healthy ();
  live_on (4);
  report_lost (&world.host[0], 1);
  disk_beat (&world.disk[1], 0);
  cut_off (&world.disk[1]);
  UNTIL (rec ()->change.epoch != 0);
  prepared = rec ()->change.epoch;
  assert (rec ()->change.states[1] == MEMBER_JOINING);
  assert (rec ()->change.confirm[1] && !rec ()->change.confirm[0]);
  live_on (4);
  assert (rec ()->change.epoch == prepared);
  UNTIL (rec ()->change.epoch == 0);
  assert (rec ()->epoch == prepared + 1);
  assert (rec ()->member[1].state == MEMBER_OUT);
}

/* Joining -> in-sync: every session is prepared, the silent writer too. */
static void
test_in_sync (void)
{
  struct host *h = &world.host[0], *other = &world.host[1];
  uint64_t fence;

  joining (1);
  h->busy = true;
  world.disk[1].slow = false;
  UNTIL (rec ()->change.epoch != 0);
  assert (rec ()->change.sessions);
  assert (rec ()->change.states[1] == MEMBER_IN_SYNC);
  live_on (20);
  assert (rec ()->member[1].state == MEMBER_JOINING);
  h->busy = false;
  h->alive = false;
  h->beat_op = 0;
  live_on (80);
  assert (rec ()->member[1].state == MEMBER_JOINING);
  assert (rec ()->change.states[1] == MEMBER_IN_SYNC);

  /* What it sent in the background may be gone: the joiner begins again. */
  fence = rec ()->member[1].fence;
  world.disk[1].slow = true;
  attach_until_granted (other, "a");
  assert (other->states[1] == MEMBER_JOINING);
  assert (rec ()->member[1].fence > fence);
  world.disk[1].slow = false;
  UNTIL (whole ());

  /* A joiner that is lost instead goes out at once. */
  joining (1);
  h->busy = true;
  world.disk[1].slow = false;
  UNTIL (rec ()->change.epoch != 0);
  fence = rec ()->change.epoch;
  lost (h, 1);
  assert (h->answered && h->states[1] == MEMBER_OUT);
  assert (rec ()->epoch > fence);
  h->busy = false;
  UNTIL (whole ());
}

/* More than two copies: what a joiner copied may have been just there. */
static void
test_joiners_go_too (void)
{
  struct host *h = &world.host[0];
  uint64_t epoch;

  world_init (3);
  make_array_of ("a", LAYOUT_RAID1);
  attach_until_granted (h, "a");
  world.disk[3].slow = true;
  report_lost (h, 3);
  UNTIL (world.disk[3].phase == CLUSTER_JOIN_COPYING);
  epoch = rec ()->epoch;
  lost (h, 1);
  assert (h->states[1] == MEMBER_OUT && h->states[3] == MEMBER_OUT);
  assert (h->epoch == epoch + 1);
  world.disk[3].slow = false;
  UNTIL (whole ());
}

int
main (void)
{
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
