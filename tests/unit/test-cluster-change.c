/* test-cluster-change.c: members that go out, join and become in-sync, one rule at
 * a time (cluster-epoch.c): who must confirm or prepare before COMMIT, and who
 * need not.  What every COMMIT must keep is asserted in test-cluster-store.c.
 */

#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <string.h>

#include "test-cluster-world.h"

/* A writer alone: out at once, and nobody else is fenced. */
static void
test_out_alone (void)
{
  static struct world w;
  struct host *h = &w.host[0];
  uint64_t epoch, fence;

  healthy (&w);
  epoch = rec (&w)->epoch;
  fence = rec (&w)->member[0].fence;
  h->busy = true;
  lost (&w, h, 1);
  assert (h->answered && h->epoch == epoch + 1);
  assert (h->states[1] == MEMBER_OUT && rec (&w)->change.epoch == 0);
  assert (rec (&w)->member[0].fence == fence);
  assert (cluster_disk_min_epoch_wanted (
            cluster_disk_find (w.c, w.disk[0].uuid)) == fence);
  world_end (&w);
}

/* Beside readers: when all have prepared themselves. */
static void
test_out_readers (void)
{
  static struct world w;
  struct host *h = &w.host[0], *reader = &w.host[2];
  uint64_t epoch;

  healthy (&w);
  attach_until_granted (&w, reader, "a");
  live_on (&w, 4);
  epoch = rec (&w)->epoch;
  reader->busy = true;
  cut_off (&w.disk[1]);
  lost (&w, h, 1);
  assert (!h->answered && rec (&w)->change.sessions);
  assert (rec (&w)->change.epoch == epoch + 1);
  live_on (&w, 10);
  assert (h->prepared == epoch + 1 && reader->told == epoch + 1);
  assert (rec (&w)->epoch == epoch && h->op != 0);
  UNTIL (&w, h->op == 0);
  assert (strcmp (h->code, "changing") == 0);

  /* weftd is started again in the midst of it. */
  reincarnate (&w);
  assert (rec (&w)->change.epoch == epoch + 1 && rec (&w)->change.sessions);
  live_on (&w, 4);
  lost (&w, h, 1);
  assert (rec (&w)->change.epoch == epoch + 1 && !h->answered);
  reader->busy = false;
  UNTIL (&w, h->op == 0);
  assert (h->epoch == epoch + 1 && h->states[1] == MEMBER_OUT);
  world_end (&w);
}

/* The news of a change comes once, and the next poll is held again. */
static void
test_news (void)
{
  static struct world w;
  struct host *reader = &w.host[2];
  uint64_t before, begin;
  unsigned polls = 0;

  healthy (&w);
  attach_until_granted (&w, reader, "a");
  live_on (&w, 10);
  reader->busy = true;
  lost (&w, &w.host[0], 1);
  live (&w);
  assert (reader->told == rec (&w)->change.epoch && reader->told != 0);
  begin = w.now_ms;
  while (w.now_ms < begin + 3000) {
    before = reader->fresh_ms;
    live (&w);
    polls += reader->fresh_ms != before;
  }
  assert (polls >= 2 && polls <= 4); /* not with every tick */
  world_end (&w);
}

/* A silent reader is waited for until it has stopped by itself, no longer. */
static void
test_silent_reader (void)
{
  static struct world w;
  struct host *reader = &w.host[2];
  uint64_t begin;

  healthy (&w);
  attach_until_granted (&w, reader, "a");
  live_on (&w, 4);
  cut_off (&w.disk[1]);
  reader->alive = false;
  reader->beat_op = 0;
  begin = w.now_ms;
  report_lost (&w, &w.host[0], 1);
  assert (w.now_ms - begin >= SESSION_TTL_MS - HEARTBEAT_MS);
  assert (w.now_ms - begin <= SESSION_TTL_MS + 3 * HEARTBEAT_MS);
  world_end (&w);
}

/* A silent writer may still write: it is waited for. */
static void
test_silent_writer (void)
{
  static struct world w;
  struct host *h = &w.host[0], *reader = &w.host[2];

  healthy (&w);
  attach_until_granted (&w, reader, "a");
  cut_off (&w.disk[1]);
  h->alive = false;
  h->beat_op = 0;
  live_on (&w, 24); /* by now weftd misses the member, too */
  for (unsigned i = 0; i < 100; i++) {
    if (reader->op == 0)
      lost (&w, reader, 1);
    live (&w);
    assert (reader->states[1] == MEMBER_IN_SYNC);
    assert (rec (&w)->change.states[1] == MEMBER_OUT);
  }
  h->alive = true;
  UNTIL (&w, rec (&w)->member[1].state == MEMBER_OUT);
  world_end (&w);
}

/* A second loss while the first is under way: one number for both. */
static void
test_out_again (void)
{
  static struct world w;
  struct host *h = &w.host[0], *reader = &w.host[2];
  uint64_t epoch;

  world_init (&w, 3);
  make_array_of (&w, "a", LAYOUT_RAID1);
  attach_until_granted (&w, h, "a");
  attach_until_granted (&w, reader, "a");
  live_on (&w, 4);
  epoch = rec (&w)->epoch;
  reader->busy = true;
  cut_off (&w.disk[1]);
  cut_off (&w.disk[2]);
  lost (&w, h, 1);
  live (&w);
  lost (&w, h, 2);
  assert (rec (&w)->change.epoch == epoch + 2);
  assert (rec (&w)->change.states[1] == MEMBER_OUT);
  reader->busy = false;
  reader->prepared = epoch + 1; /* it had prepared itself for that */
  reader->beat_op = 0;
  live (&w);
  UNTIL (&w, h->op == 0 && h->states[2] == MEMBER_OUT);
  assert (h->states[1] == MEMBER_OUT && h->epoch == epoch + 2);
  world_end (&w);
}

/* Nobody reads a joiner: it goes out at once, whoever is busy. */
static void
test_joiner_out (void)
{
  static struct world w;
  struct host *h = &w.host[0], *reader = &w.host[2];

  joining (&w, 1);
  attach_until_granted (&w, reader, "a");
  reader->busy = h->busy = true;
  lost (&w, h, 1);
  assert (h->answered && h->states[1] == MEMBER_OUT);
  world_end (&w);

  /* A reader does not take it from those who write. */
  joining (&w, 1);
  attach_until_granted (&w, reader, "a");
  lost (&w, reader, 1);
  assert (strcmp (reader->code, "in-use") == 0);
  world_end (&w);
}

/* A report about a member's life before it was taken back changes nothing. */
static void
test_former_life (void)
{
  static struct world w;
  struct host *h = &w.host[0];

  healthy (&w);
  w.disk[1].slow = true;
  h->beat_op = UINT64_MAX; /* its heartbeats are slow today */
  report_lost (&w, h, 1);
  UNTIL (&w, rec (&w)->member[1].state == MEMBER_JOINING);
  lost (&w, h, 1);
  assert (h->answered && h->states[1] == MEMBER_JOINING);
  assert (rec (&w)->member[1].state == MEMBER_JOINING);
  lost (&w, h, 1); /* now it is about this life */
  assert (h->states[1] == MEMBER_OUT);
  world_end (&w);
}

/* Out -> joining: that member confirms, and nobody else is asked. */
static void
test_take_back (void)
{
  static struct world w;
  uint64_t prepared;

  healthy (&w);
  w.host[0].busy = w.disk[1].slow = true;
  report_lost (&w, &w.host[0], 1);
  cut_off (&w.disk[2]);
  UNTIL (&w, rec (&w)->member[1].state == MEMBER_JOINING);
  assert (rec (&w)->member[1].fence == rec (&w)->epoch);
  assert (rec (&w)->member[2].fence < rec (&w)->epoch);
  world_end (&w);

  /* It does not confirm: a higher number does without it. */
  healthy (&w);
  live_on (&w, 4);
  report_lost (&w, &w.host[0], 1);
  disk_beat (&w, &w.disk[1], 0);
  cut_off (&w.disk[1]);
  UNTIL (&w, rec (&w)->change.epoch != 0);
  prepared = rec (&w)->change.epoch;
  assert (rec (&w)->change.states[1] == MEMBER_JOINING);
  assert (rec (&w)->change.confirm[1] && !rec (&w)->change.confirm[0]);
  live_on (&w, 4);
  assert (rec (&w)->change.epoch == prepared);
  UNTIL (&w, rec (&w)->change.epoch == 0);
  assert (rec (&w)->epoch == prepared + 1);
  assert (rec (&w)->member[1].state == MEMBER_OUT);
  world_end (&w);
}

/* Joining -> in-sync: every session is prepared, the silent writer too. */
static void
test_in_sync (void)
{
  static struct world w;
  struct host *h = &w.host[0], *other = &w.host[1];
  uint64_t fence;

  joining (&w, 1);
  h->busy = true;
  w.disk[1].slow = false;
  UNTIL (&w, rec (&w)->change.epoch != 0);
  assert (rec (&w)->change.sessions);
  assert (rec (&w)->change.states[1] == MEMBER_IN_SYNC);
  live_on (&w, 20);
  assert (rec (&w)->member[1].state == MEMBER_JOINING);
  h->busy = false;
  h->alive = false;
  h->beat_op = 0;
  live_on (&w, 80);
  assert (rec (&w)->member[1].state == MEMBER_JOINING);
  assert (rec (&w)->change.states[1] == MEMBER_IN_SYNC);

  /* What it sent in the background may be gone: the joiner begins again. */
  fence = rec (&w)->member[1].fence;
  w.disk[1].slow = true;
  attach_until_granted (&w, other, "a");
  assert (other->states[1] == MEMBER_JOINING);
  assert (rec (&w)->member[1].fence > fence);
  w.disk[1].slow = false;
  UNTIL (&w, whole (&w));
  world_end (&w);

  /* A joiner that is lost instead goes out at once. */
  joining (&w, 1);
  h->busy = true;
  w.disk[1].slow = false;
  UNTIL (&w, rec (&w)->change.epoch != 0);
  fence = rec (&w)->change.epoch;
  lost (&w, h, 1);
  assert (h->answered && h->states[1] == MEMBER_OUT);
  assert (rec (&w)->epoch > fence);
  h->busy = false;
  UNTIL (&w, whole (&w));
  world_end (&w);
}

/* More than two copies: what a joiner copied may have been just there. */
static void
test_joiners_go_too (void)
{
  static struct world w;
  struct host *h = &w.host[0];
  uint64_t epoch;

  world_init (&w, 3);
  make_array_of (&w, "a", LAYOUT_RAID1);
  attach_until_granted (&w, h, "a");
  w.disk[3].slow = true;
  report_lost (&w, h, 3);
  UNTIL (&w, w.disk[3].phase == CLUSTER_JOIN_COPYING);
  epoch = rec (&w)->epoch;
  lost (&w, h, 1);
  assert (h->states[1] == MEMBER_OUT && h->states[3] == MEMBER_OUT);
  assert (h->epoch == epoch + 1);
  w.disk[3].slow = false;
  UNTIL (&w, whole (&w));
  world_end (&w);
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
