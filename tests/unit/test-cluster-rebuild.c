/* test-cluster-rebuild.c: how members come back by themselves, one rule at a
 * time.
 */

#include <config.h>

#include "format/token.h"
#include "test-cluster-rig.h"

static void
test_back (void)
{
  struct fake_disk *d = &rig.disk[1];
  uint64_t epoch, wait_ms[8];

  begin_writing ();
  assert (strcmp (cluster_array_state (array ()), "ready") == 0);
  /* Lost by the writer alone: it is well, so it is taken back at once, but may
   * not copy before the writer sends it its writes.
   */
  epoch = array ()->rec.epoch;
  rig.lags = true;
  lose (1);
  UNTIL (state (1) == MEMBER_JOINING);
  assert (member (1)->fence > epoch);
  live_on (8);
  assert (d->orders == 0 && d->join.phase == CLUSTER_JOIN_WAITING);
  assert (strcmp (cluster_array_state (array ()), "rebuilding") == 0);
  rig.lags = false;
  UNTIL (d->orders > 0);
  assert (d->order.source[0] && !d->order.source[1] && d->order.source[3]);
  assert (d->order.rate == 0 && !d->order.paused);
  UNTIL (state (1) == MEMBER_IN_SYNC);
  assert (rig.epoch <= array ()->rec.epoch);

  /* It flaps: it is left alone for longer and longer. */
  for (unsigned i = 0; i < 8; i++) {
    uint64_t began;

    lose (1);
    began = weftd.now_ms;
    UNTIL (state (1) != MEMBER_OUT);
    wait_ms[i] = weftd.now_ms - began;
    UNTIL (state (1) == MEMBER_IN_SYNC);
  }
  assert (wait_ms[0] >= 1000 && wait_ms[0] <= 2500);
  assert (wait_ms[2] >= 4000 && wait_ms[2] <= 5500);
  assert (wait_ms[7] >= 60000 && wait_ms[7] <= 62000);
  live_on (4 * 61); /* it has held: forgiven */
  lose (1);
  live_on (4);
  assert (state (1) != MEMBER_OUT);
}

/* A joiner says that it is done, but with what it was to do before. */
static void
test_done_before (void)
{
  struct fake_disk *d = begin_copying (LAYOUT_RAIDX, MEMBERS);

  for (unsigned i = 0; i < 8; i++) {
    d->join.phase = CLUSTER_JOIN_SYNCED;
    d->join.epoch = member (1)->fence - 1;
    live ();
    assert (array ()->rec.change.epoch == 0);
    assert (state (1) == MEMBER_JOINING);
  }
  d->join.phase = CLUSTER_JOIN_SYNCED;
  d->join.epoch = member (1)->fence;
  UNTIL (state (1) == MEMBER_IN_SYNC);
}

/* A joiner that is gone goes out, and also a joiner whose copying began again when it was
 * about to be in-sync.
 */
static void
test_joiner_gone (void)
{
  struct fake_disk *d = &rig.disk[2];

  begin_writing ();
  copy_on (2);
  d->dead = true;
  UNTIL (state (2) == MEMBER_OUT);
  assert (strcmp (member (2)->reason, "it is silent") == 0);
  d->dead = false;
  UNTIL (state (2) == MEMBER_JOINING);
  d->failed = true;
  UNTIL (state (2) == MEMBER_OUT);
  live_on (300);
  assert (state (2) == MEMBER_OUT);
  d->failed = d->stuck = false;
  snprintf (d->instance, 16, "2 again");
  rig.prepared = 0;
  UNTIL (state (2) == MEMBER_JOINING);
  rig.lags = false;
  UNTIL (d->join.phase == CLUSTER_JOIN_COPYING);
  rig.lags = true; /* it does not prepare */
  UNTIL (array ()->rec.change.epoch);
  assert (array ()->rec.change.states[2] == MEMBER_IN_SYNC);
  live_on (8);
  assert (state (2) == MEMBER_JOINING);
  d->join.phase = CLUSTER_JOIN_COPYING;
  d->left = 4;
  UNTIL (state (2) == MEMBER_OUT);
  rig.lags = false;
  UNTIL (state (2) == MEMBER_IN_SYNC);
}

/* With three copies a joiner may have copied from whichever goes out, and
 * begins again; with two it has one source of each byte, and stays.
 */
static void
test_group (void)
{
  struct fake_disk *d = begin_copying (LAYOUT_RAID1, 3);

  assert (d->order.source[0] && d->order.source[2]);
  d->full = false;
  lose (2);
  assert (state (1) == MEMBER_OUT);
  assert (member (1)->reason[0]);
  UNTIL (state (1) == MEMBER_JOINING && d->join.phase == CLUSTER_JOIN_COPYING);
  assert (d->full); /* no other copy may have what it copied */
  assert (d->order.source[0] && !d->order.source[2]);
  d->stuck = false;
  UNTIL (whole ());

  begin_copying (LAYOUT_RAID10, 4);
  lose (2); /* a copy of other data */
  assert (state (1) == MEMBER_JOINING);
  UNTIL (state (2) == MEMBER_IN_SYNC);
  assert (state (1) == MEMBER_JOINING);
  assert (d->join.phase == CLUSTER_JOIN_COPYING);
}

/* The same where the joiner goes out before what it may have copied from. */
static void
test_joiner_before_source (void)
{
  struct fake_disk *d = begin_copying (LAYOUT_RAID1, 3);

  d->full = false;
  d->dead = true;
  UNTIL (state (1) == MEMBER_OUT);
  restart (); /* of weftd, which knows it anyway */
  rig.disk[2].dead = true;
  live_on (8);
  lose (2);
  d->dead = false;
  UNTIL (state (1) == MEMBER_JOINING && d->join.phase == CLUSTER_JOIN_COPYING);
  assert (d->full);
}

/* A source that was started again takes none of the joiner's tokens: there are
 * new ones, and the joiner goes on where it is.
 */
static void
test_source_again (void)
{
  struct fake_disk *d = begin_copying (LAYOUT_RAIDX, MEMBERS);
  struct fake_disk *source = &rig.disk[0];
  uint64_t fence = d->join.epoch;

  detach (); /* the writer's unsent writes must be found */
  UNTIL (d->join.phase == CLUSTER_JOIN_COPYING && d->join.epoch > fence);
  fence = d->join.epoch;
  snprintf (source->instance, 16, "0 again");
  source->min_epoch = source->states_epoch + 1;
  assert (source->min_epoch > array ()->rec.epoch);
  UNTIL (array ()->rec.epoch >= source->min_epoch);
  UNTIL (d->states_epoch >= source->min_epoch);
  assert (member (1)->fence == fence);
  assert (d->join.epoch == fence && d->join.phase == CLUSTER_JOIN_COPYING);
  assert (state (0) == MEMBER_IN_SYNC && d->order.source[0]);
  fence = array ()->rec.epoch;
  live_on (40);
  assert (array ()->rec.epoch == fence); /* once is enough */
  d->stuck = false;
  UNTIL (state (1) == MEMBER_IN_SYNC);
}

/* The writer is over, but a member has not heard of that: nothing is copied from
 * it before it refuses what the writer may still send.
 */
static void
test_unfenced_source (bool failed)
{
  struct fake_disk *d = begin_copying (LAYOUT_RAIDX, MEMBERS);
  struct fake_disk *source = &rig.disk[0];
  struct cluster_join_order order;

  source->failed = failed;
  source->dead = !failed;
  live_on (4);
  source->op = 0; /* an answer is lost */
  detach ();
  UNTIL (array ()->rec.change.epoch == 0);
  assert (member (0)->fence == array ()->rec.epoch);
  assert (source->min_epoch < array ()->rec.epoch);
  assert (rig.disk[2].min_epoch == array ()->rec.epoch);
  for (unsigned i = 0; i < 2; i++) {
    live_on (40);
    assert (state (1) == MEMBER_JOINING);
    assert (d->join.phase != CLUSTER_JOIN_COPYING);
    assert (!cluster_join_order (engine, array (), 1, &order));
    restart ();
    assert (!cluster_join_order (engine, array (), 1, &order));
  }
  source->dead = source->failed = d->stuck = false;
  UNTIL (state (1) == MEMBER_IN_SYNC);
  assert (source->min_epoch >= member (0)->fence);
}

/* A restarted joiner rejects further orders of its epoch: it joins again, whichever
 * session is attached.
 */
static void
test_joiner_again (bool reader)
{
  struct fake_disk *d = begin_copying (LAYOUT_RAIDX, MEMBERS);
  uint64_t fence;

  detach ();
  if (reader)
    attach (false);
  UNTIL (d->join.phase == CLUSTER_JOIN_COPYING &&
         array ()->rec.change.epoch == 0);
  fence = member (1)->fence;
  start_again (1);
  d->min_epoch = d->states_epoch + 1;
  d->join.phase = CLUSTER_JOIN_WAITING;
  d->join.epoch = 0;
  UNTIL (member (1)->fence > fence);
  d->stuck = false;
  UNTIL (state (1) == MEMBER_IN_SYNC);
}

/* A disk of the joiner's UUID that is blank is served in its place, by a process that
 * whoever writes knows nothing of, and weftd was just started: it copies nothing
 * before he sends to it.
 */
static void
test_joiner_s_blank_copy (void)
{
  struct fake_disk *d = begin_copying (LAYOUT_RAIDX, MEMBERS);
  uint64_t fence = member (1)->fence;

  restart ();
  start_again (1);
  memset (d->array, 0, 16);
  memset (&d->join, 0, sizeof d->join);
  memset (&d->order, 0, sizeof d->order);
  d->min_epoch = d->states_epoch = 0;
  d->sequence = 1;
  rig.disk[0].dead = true; /* weftd does nothing before it has heard of all */
  for (unsigned i = 0; member (1)->fence == fence; i++) {
    assert (d->join.phase == CLUSTER_JOIN_NONE ||
            d->join.phase == CLUSTER_JOIN_WAITING);
    assert (i < 4000);
    rig.disk[0].dead = i < 8;
    live ();
  }
  d->stuck = false;
  UNTIL (state (1) == MEMBER_IN_SYNC);
}

/* The joiner has everything and is about to be in-sync.  Then weftd and the joiner lose
 * power, and unflushed data of the joiner is gone.  The writer has prepared anyway, and
 * weftd has heard of no other member yet.  (silent: it has not heard of the joiner
 * either.)
 */
static void
test_synced_before_restart (bool silent)
{
  struct fake_disk *d = &rig.disk[1];
  uint64_t epoch;

  begin_writing_to (LAYOUT_RAID10, MEMBERS);
  lose (1);
  UNTIL (d->join.phase == CLUSTER_JOIN_SYNCED);
  rig.lags = rig.epoch == array ()->rec.epoch;
  assert (rig.lags);
  UNTIL ((epoch = array ()->rec.change.epoch) != 0);
  assert (array ()->rec.change.states[1] == MEMBER_IN_SYNC);
  restart ();
  snprintf (d->instance, sizeof d->instance, "again");
  memset (&d->join, 0, sizeof d->join);
  d->join.phase = CLUSTER_JOIN_WAITING;
  d->min_epoch++;
  for (unsigned m = 0; m < DISKS; m++)
    rig.disk[m].dead = m != 1 || silent;
  rig.prepared = epoch;
  live_on (4);
  assert (state (1) == MEMBER_JOINING);
  assert (array ()->rec.change.epoch == epoch);
  for (unsigned m = 0; m < DISKS; m++)
    rig.disk[m].dead = false;
  rig.lags = false;
  epoch = member (1)->fence;
  UNTIL (state (1) == MEMBER_IN_SYNC);
  assert (member (1)->fence > epoch); /* it began again */
}

/* From the first order on: a ceiling holds, and clients come first. */
static void
test_first_rates (void)
{
  struct fake_disk *d = &rig.disk[1];
  struct cluster_member_tune slow = { .has_ceiling = true, .ceiling = MiB (3) },
                             free = { .has_ceiling = true };

  begin_writing ();
  live_on (5);
  d->stuck = true;
  DONE (cluster_member_tune (engine, in, "a", 1, &slow));
  for (unsigned i = 0; i < 3; i++) {
    lose (1);
    UNTIL (d->orders > 0);
    assert (d->order.rate == (i == 2 ? REBUILD_FLOOR_DEFAULT : MiB (3)));
    if (i == 0) {
      pause_copying (1, true);
      live_on (8);
      pause_copying (1, false);
      assert (!d->order.paused && d->order.rate == MiB (3));
    }
    if (i == 1) {
      DONE (cluster_member_tune (engine, in, "a", 1, &free));
      rig.busy = true;
      live_on (40);
    }
    d->orders = 0;
  }
}

/* A joining member gets tokens for the members that have the data it lacks.  They are
 * valid for its joining and its node alone; one event reports them.
 */
static void
test_sources (void)
{
  struct fake_disk *d = begin_copying (LAYOUT_RAID10, 4);
  struct cluster_disk *disk = array ()->disk[1];
  char text[TOKEN_BYTES_MAX + 1], said[200], uuid[FORMAT_UUID_TEXT_BYTES];
  uint8_t process[KEY_BYTES];
  const char *why;
  struct token t;

  assert (d->order.source[3]);
  assert (!d->order.source[0] && !d->order.source[1] && !d->order.source[2]);
  assert (cluster_join_granted (engine, disk->rec.uuid, said, sizeof said));
  assert (strncmp (said, "a/1, disk ", 10) == 0);
  assert (strstr (said, "its rebuild reads members 3"));
  live_on (8);
  assert (!cluster_join_granted (engine, disk->rec.uuid, said, sizeof said));

  cluster_member_key (engine, array (), 3, false, process);
  for (int proven = 0; proven < 2; proven++) {
    disk->proven = proven;
    cluster_source_token (engine, array (), 3, 1, 77, text);
    assert (token_verify (text, process, &t, &why) == 0);
    assert (t.joins && t.place == 1 && !t.writable);
    assert (t.session == 77);
    assert (strcmp (t.node, proven ? disk->rec.node : "") == 0);
    format_uuid (disk->rec.uuid, uuid);
    assert (strcmp (t.process, proven ? uuid : "") == 0);
  }
  d->stuck = false;
  UNTIL (whole ());
  copy_on (1);
  assert (cluster_join_granted (engine, disk->rec.uuid, said, sizeof said));
}

/* A session's token is for the certificate of its node, if that has attached it. */
static void
test_session_tokens (void)
{
  struct cluster_session *s;
  char text[TOKEN_BYTES_MAX + 1];
  uint8_t process[KEY_BYTES];
  const char *why;
  struct token t;

  begin_writing ();
  s = TAILQ_FIRST (&array ()->sessions);
  cluster_member_key (engine, array (), 0, true, process);
  for (int admin = 0; admin < 2; admin++) {
    s->rec.by_admin = admin;
    cluster_member_token (engine, array (), 0, s, text);
    assert (token_verify (text, process, &t, &why) == 0);
    assert (!t.joins && t.writable && t.session == s->rec.id);
    assert (strcmp (t.node, admin ? "" : s->rec.node) == 0);
    assert (strcmp (t.process, admin ? "" : "a") == 0);
  }
}

/* The rate in its next order. */
static uint64_t
rate_now (unsigned m)
{
  struct cluster_join_order order;

  assert (cluster_join_order (engine, array (), m, &order));
  return order.rate;
}

/* The highest rates of two joiners, who copy as fast as they may, in so many
 * seconds.
 */
static void
highest_rates (unsigned seconds, uint64_t rate[2])
{
  rate[0] = rate[1] = 0;
  for (unsigned i = 0; i < 4 * seconds; i++) {
    live ();
    for (unsigned m = 1; m <= 2; m++) {
      uint64_t now = rate_now (m);

      rig.disk[m].join.rate = member (m)->paused ? 0 : now;
      if (now > rate[m - 1])
        rate[m - 1] = now;
      assert (now >= REBUILD_FLOOR_DEFAULT);
    }
  }
}

/* Joining members share the rate that clients leave. */
static void
test_shares (void)
{
  struct cluster_member_tune slow = { .has_ceiling = true, .ceiling = MiB (5) };
  uint64_t even[2], uneven[2], alone[2];

  begin_writing_to (LAYOUT_RAID1, 3);
  rig.disk[1].stuck = true;
  lose (1);
  copy_on (2);
  UNTIL (rig.disk[1].join.phase == CLUSTER_JOIN_COPYING);
  live_on (8);
  assert (rig.disk[1].order.rate == 0 && rig.disk[2].order.rate == 0);
  rig.busy = true;
  live_on (12);
  highest_rates (120, even);
  assert (even[0] == even[1] && even[0] > 2 * REBUILD_FLOOR_DEFAULT);
  assert (rig.disk[1].order.rate && rig.disk[1].order.rate <= even[0]);
  DONE (cluster_member_tune (engine, in, "a", 1, &slow));
  highest_rates (60, uneven);
  assert (uneven[0] == MiB (5) && uneven[1] > MiB (5));
  pause_copying (1, true);
  live ();
  assert (rig.disk[1].order.paused && !rig.disk[2].order.paused);
  highest_rates (60, alone);
  assert (alone[1] > even[1]);
  rig.busy = false; /* its load is over: as fast as they can */
  live_on (20);
  assert (rate_now (2) == 0);
}

/* The progress of a rebuild makes an event each second while it moves; if the rebuild
 * waits, the array's reason to wait names the cause.
 */
static void
test_progress (void)
{
  struct fake_disk *d = begin_copying (LAYOUT_RAIDX, MEMBERS);
  char text[1500];

  live_on (12);
  rig.array_events = 0;
  live_on (40);
  assert (rig.array_events == 0);
  d->join.todo_bytes = d->join.total_bytes = GiB (1);
  for (unsigned i = 0; i < 80; i++) {
    d->join.todo_bytes -= MiB (4);
    d->join.copied_bytes += MiB (4);
    live ();
  }
  assert (rig.array_events >= 19 && rig.array_events <= 21);
  live_on (8);
  rig.array_events = 0;
  assert (!cluster_array_waits_for (engine, array (), text, sizeof text));
  snprintf (d->join.waits, sizeof d->join.waits, "member 0: no route");
  live_on (12);
  assert (rig.array_events == 1);
  assert (cluster_array_waits_for (engine, array (), text, sizeof text));
  assert (strcmp (text, "member 1 (disk /dev/d1 of node n2) to be rebuilt, "
                        "which waits for member 0: no route") == 0);
  d->join.waits[0] = '\0';
  live_on (4);
  assert (!cluster_array_waits_for (engine, array (), text, sizeof text));
}

/* A disk whose every request takes longer, the more is copied; and a latency
 * that rises steeply where its bandwidth ends.
 */
static double
latency_us (double rate, double bandwidth)
{
  double used = rate / bandwidth;

  return used >= 0.95 ? 20000 : 1000 / (1 - used);
}

static void
test_pace (void)
{
  struct cluster_pace p = { .live_ms = 1 };
  double bandwidth = (double) MiB (200), left = (double) GiB (4);
  double us = 1000, sum = 0, worst = 0, before;
  uint64_t rate = 0;
  unsigned seconds = 0;

  /* A report is of the second before: half of this rate, half of the last. */
  before = 0;
  while (left > 0) {
    rate = cluster_pace (&p, 100, us, (uint64_t) before, MiB (4), 0);
    assert (rate >= MiB (4));
    if ((double) rate > bandwidth)
      rate = (uint64_t) bandwidth;
    us = (latency_us ((double) rate, bandwidth) +
          latency_us (before, bandwidth)) /
         2;
    before = (double) rate;
    left -= (double) rate;
    seconds++;
    if (seconds > 20) {
      sum += us;
      worst = us > worst ? us : worst;
    }
    assert (seconds < 1000);
  }
  printf ("4 GiB beside clients: %u s, latency %.0f us (1000 alone), at worst "
          "%.0f\n",
          seconds, sum / (seconds - 20), worst);
  assert (seconds < 160);
  assert (sum / (seconds - 20) < 2000);

  /* Nobody works: as fast as it can, or as is allowed. */
  assert (cluster_pace (&p, 0, 0, 0, MiB (4), 0) == 0);
  assert (cluster_pace (&p, 0, 0, 0, MiB (4), MiB (9)) == MiB (9));
  /* Load that begins is measured first. */
  assert (cluster_pace (&p, 100, 5000, 0, MiB (4), 0) == MiB (4));
  for (unsigned i = 0; i < 100; i++)
    assert (cluster_pace (&p, 100, 1000, MiB (50), MiB (4), MiB (9)) <=
            MiB (9));
}

int
main (void)
{
  test_pace ();
  test_back ();
  test_done_before ();
  test_joiner_gone ();
  test_group ();
  test_joiner_before_source ();
  test_source_again ();
  test_unfenced_source (false);
  test_unfenced_source (true);
  test_joiner_s_blank_copy ();
  test_joiner_again (false);
  test_joiner_again (true);
  test_synced_before_restart (false);
  test_synced_before_restart (true);
  test_first_rates ();
  test_shares ();
  test_progress ();
  test_sources ();
  test_session_tokens ();
  return 0;
}
