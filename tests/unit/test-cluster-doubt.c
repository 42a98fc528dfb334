/* test-cluster-doubt.c: a node that lies harms nothing but what is its own.
 *
 * Arrays: "a" over the disks 0 to 3, each on a node of its own, and "b" over 4 and 5.
 */

#include <config.h>

#include "test-cluster-rig.h"

static void
begin (void)
{
  begin_array ();
  make_array_of ("b", LAYOUT_RAID1, MEMBERS, 2);
  live_on (8);
}

static void
begin_attached (bool writable)
{
  begin ();
  attach (writable);
  live_on (8);
}

/* Somebody attaches the array, until that is granted; or is refused so. */
static const char *
try_attach (const char *name)
{
  static unsigned number;
  struct cluster_attach at = { .node = "host2",
                               .pid = 8,
                               .writable = true,
                               .takeover = true,
                               .by_admin = true };

  snprintf (at.instance, sizeof at.instance, "h%u", ++number);
  for (unsigned i = 0; i < 100; i++) {
    ASK (cluster_attach (engine, in, name, &at));
    if (rig.code == NULL || strcmp (rig.code, "doubted") == 0)
      break;
    live ();
  }
  return rig.code;
}

static bool
granted (const char *name)
{
  return try_attach (name) == NULL;
}

static bool
stands_still (const char *name)
{
  const char *code = try_attach (name);

  return code && strcmp (code, "doubted") == 0 && says ("is frozen");
}

static bool
refused (unsigned disk, const char *code)
{
  const char *was = rig.disk[disk].refused;

  return was && strcmp (was, code) == 0;
}

/* weftd judges a report by its own messages to this disk. */
static void
test_told_by_us (unsigned what)
{
  struct fake_disk *d = &rig.disk[1], honest;

  begin_attached (true);
  honest = *d;
  d->op = 0; /* it hears no answer to what it said before */
  if (what == 0)
    d->generation++;
  else if (what == 1)
    d->states_epoch += 100;
  else
    d->min_epoch += 100;
  if (what == 3)
    start_again (1);
  rig.errors = 0;
  UNTIL (refused (1, "untrue"));
  assert (rig.errors == 1 && says ("node n2") &&
          says ("weftctl node revoke n2"));
  live_on (40);
  assert (rig.errors == 1); /* one message is logged */
  assert (cluster_read_only (engine) == NULL && !known (1)->alive);
  /* The array goes on without it, and so does the other one. */
  assert (granted ("a") && granted ("b"));
  if (what >= 2)
    return; /* when it is out, it may have been another array's: it is taken back */
  assert (state (1) == MEMBER_OUT);
  /* When it says what is so, it is believed. */
  d->generation = honest.generation;
  d->states_epoch = honest.states_epoch;
  d->min_epoch = honest.min_epoch;
  UNTIL (d->refused == NULL);
  assert (!says ("revoke"));
}

/* Once, at its start, a process may raise min_epoch by itself; later raises are
 * rejected. */
static void
test_raised_by_itself (void)
{
  struct fake_disk *d = &rig.disk[1];

  begin ();
  start_again (1);
  live_on (10);
  d->min_epoch = array ()->rec.epoch + 1; /* when it is durable */
  live_on (8);
  assert (d->refused == NULL);
  attach (true);
  live_on (8);
  for (unsigned i = 1; i < 4; i++) {
    d->min_epoch = array ()->rec.epoch + i;
    live_on (8);
    assert (refused (1, "untrue"));
  }
}

/* When weftd has just been started, its database may be an old one: until that is
 * known nothing is changed in the array that the disk is of, and in no other.
 */
static void
test_first_words (unsigned what)
{
  struct fake_disk *d = &rig.disk[1];
  uint64_t epoch;

  begin_attached (true);
  if (what == 0)
    d->generation += 2;
  else if (what == 1)
    d->states_epoch++;
  else
    d->min_epoch = array ()->rec.epoch + 2;
  rig.disk[0].dead = what == 2;
  restart ();
  live_on (40);
  epoch = array ()->rec.epoch;
  assert (refused (1, "doubted") && cluster_read_only (engine) == NULL);
  assert (stands_still ("a") && says ("weftctl node revoke n2"));
  assert (granted ("b"));
  /* A member that is lost stays. */
  rig.disk[3].dead = true;
  report (3);
  live_on (60);
  assert (array ()->rec.epoch == epoch && state (3) == MEMBER_IN_SYNC);
  rig.disk[3].dead = false;
  rig.disk[3].op = 0;
  live_on (8);
  if (what == 0) {
    /* The node is shut out: the array goes on without it. */
    d->dead = true;
    CALL (++weftd.op, cluster_node_shut_out (engine, in, "n2", "kim"));
    assert (!says ("is frozen"));
    UNTIL (state (1) == MEMBER_OUT);
  }
  else if (what == 1) {
    d->states_epoch--;
    UNTIL (d->refused == NULL && !says ("is frozen"));
  }
  else {
    /* Another node says so, too, when it first speaks. */
    rig.disk[0].dead = false;
    rig.disk[0].generation += 5;
    live_on (8);
    assert (cluster_read_only (engine) && says ("backup"));
    return;
  }
  assert (granted ("a"));
}

/* A joining member's node is shut out and enrolled again while its array is frozen.  The
 * members have heard that its copying is over, so it joins again.
 */
static void
test_shut_out_joiner (void)
{
  struct fake_disk *d = &rig.disk[1];
  uint64_t source;

  begin_attached (true);
  copy_on (1);
  rig.disk[2].states_epoch++;
  restart ();
  live_on (8);
  assert (refused (2, "doubted") && stands_still ("a"));
  source = cluster_shut_source (array (), 1);
  d->dead = true;
  CALL (++weftd.op, cluster_node_shut_out (engine, in, "n2", "kim"));
  live_on (8);
  assert (state (1) == MEMBER_JOINING && over (source));
  /* It does not go out now, so its place is for nobody else. */
  REFUSED ("doubted", cluster_member_replace (engine, in, "a", 1,
                                              rig.disk[4].uuid, false));
  assert (state (1) == MEMBER_JOINING);
  d->dead = d->stuck = false;
  d->op = 0;
  live_on (40);
  assert (known (1)->alive && state (1) == MEMBER_JOINING);
  rig.disk[2].states_epoch--;
  UNTIL (rig.disk[2].refused == NULL && !says ("is frozen"));
  UNTIL (state (1) == MEMBER_IN_SYNC);
  assert (granted ("a"));
}

/* Only members may report on their array, and only its node may report on a disk. */
static void
test_outsider (bool as_member)
{
  struct fake_disk *d = &rig.disk[as_member ? 1 : 4], honest;

  begin ();
  rig.proven = true;
  live_on (8);
  restart ();
  honest = rig.disk[1];
  if (as_member) {
    d->node = "n9";
    snprintf (d->instance, sizeof d->instance, "stolen");
  }
  else {
    memcpy (d->array, rig.disk[1].array, 16);
    d->position = 1;
  }
  d->states_epoch = honest.states_epoch + 1;
  live_on (8);
  assert (refused (as_member ? 1 : 4, as_member ? "double-used" : "doubted") ||
          refused (1, "other-node") || refused (1, "starting"));
  if (as_member) {
    honest.op = 0;
    *d = honest;
    live_on (8);
    assert (!says ("is frozen"));
  }
  assert (cluster_read_only (engine) == NULL && granted ("a"));
}

/* A node with the only disks there are is all that a database can be held against. */
static void
test_only_node (void)
{
  begin ();
  for (unsigned i = 0; i < DISKS; i++)
    rig.disk[i].node = "n1";
  live_on (8);
  rig.disk[1].generation += 2;
  restart ();
  live_on (8);
  assert (cluster_read_only (engine));
}

/* Words of long ago are not those of two nodes. */
static void
test_long_ago (void)
{
  begin ();
  rig.disk[0].dead = true;
  rig.disk[0].generation += 2;
  rig.disk[1].generation += 2;
  restart ();
  live_on (8);
  rig.disk[1].dead = true;
  live_on (DOUBT_MS / CLUSTER_TICK_MS + 8);
  rig.disk[0].dead = false;
  live_on (8);
  assert (refused (0, "doubted") && cluster_read_only (engine) == NULL);
}

static void
test_session (bool writable, bool restarted)
{
  begin_attached (writable);
  rig.lags = true; /* it says the same again */
  rig.epoch += 100;
  rig.prepared = 0;
  if (restarted)
    restart ();
  live_on (60);
  assert (cluster_read_only (engine) == NULL && says ("node host"));
  if (writable && restarted) {
    assert (stands_still ("a") && says ("weftctl session evict"));
    assert (granted ("b"));
    CALL (++weftd.op, cluster_session_evict (engine, in, rig.session, "kim"));
    rig.attached = false;
  }
  else
    assert (!says ("is frozen"));
  assert (granted ("a"));
}

/* ---- Rounds ---- */

static void
round_is (uint64_t round)
{
  for (unsigned m = 0; m < MEMBERS; m++)
    rig.disk[m].round = round;
  rig.round = round;
}

/* The processes served while it was written: their disks are no old copies. */
static void
test_round_after_writing (uint64_t more)
{
  begin_attached (true);
  round_is (10);
  live_on (20);
  detach ();
  live_on (20);
  rig.disk[1].round = 10 + more;
  live_on (20);
  assert (array ()->rec.round <= 11);
  assert (refused (1, "untrue") == (more > 1));
  assert (granted ("a"));
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (m == 1 || (state (m) == MEMBER_IN_SYNC && !known (m)->old_copy));
}

/* It lies as it confirms the end of the writer. */
static void
test_round_at_the_end (void)
{
  begin_attached (true);
  round_is (10);
  live_on (20);
  rig.disk[1].dead = true;
  rig.disk[1].op = 0;
  detach ();
  live_on (8);
  rig.disk[1].round = 1000;
  rig.disk[1].dead = false;
  live_on (8);
  assert (refused (1, "untrue") && granted ("a"));
  assert (state (1) != MEMBER_IN_SYNC);
}

/* Beside a writer it counts for nothing. */
static void
test_round_beside_writer (void)
{
  begin_attached (true);
  round_is (10);
  live_on (20);
  rig.disk[1].round = 1000000;
  live_on (40);
  assert (array ()->rec.round <= 11);
  assert (cluster_member_round (array (), 1) <= 12);
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (state (m) == MEMBER_IN_SYNC && !known (m)->old_copy);
  /* The others also stay in sync when the lying member falls silent and the writer goes
   * on. */
  stop (1);
  live_on (60);
  assert (!known (1)->alive && array ()->rec.round <= 11);
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (m == 1 || (state (m) == MEMBER_IN_SYNC && !known (m)->old_copy));
}

/* The others also stay in sync while another member goes out: lost to the writer, which
 * began a round that it can't complete, or put out by weftd.
 */
static void
test_round_beside_lost (bool put_out)
{
  struct fake_disk *d = &rig.disk[3];

  begin_attached (true);
  round_is (10);
  live_on (20);
  rig.disk[1].round = 1000000;
  rig.disk[0].round = rig.disk[2].round = 11;
  live_on (20);
  assert (array ()->rec.round == 11);
  if (put_out) {
    d->failed = true;
    UNTIL (state (3) == MEMBER_OUT);
  }
  else {
    d->dead = true;
    lose (3);
  }
  assert (put_out || member (3)->round == 11);
  rig.round_entered = 11;
  /* It completes some more before it speaks again. */
  rig.round = put_out ? 14 : 11;
  live_on (8);
  assert (member (3)->round == 11);
  rig.round = 500;
  rig.disk[0].round = rig.disk[2].round = 500;
  live_on (20);
  d->failed = false;
  d->op = 0;
  start_again (3);
  UNTIL (state (3) == MEMBER_JOINING);
  assert (!d->full);
  UNTIL (state (3) == MEMBER_IN_SYNC);
  /* A copy of its disk that is older than that is known as one. */
  d->dead = true;
  lose (3);
  live_on (8);
  d->round = member (3)->round - 2;
  start_again (3);
  rebuilt_in_full (3);
}

/* The writer ends before it says its round without the member that was put out: the next
 * one's first word counts.
 */
static void
test_round_of_next_writer (void)
{
  struct fake_disk *d = &rig.disk[3];

  begin_attached (true);
  round_is (10);
  live_on (20);
  rig.disk[1].lie = 1000000;
  live_on (8);
  d->failed = true;
  UNTIL (state (3) == MEMBER_OUT);
  assert (member (3)->round == 1000000);
  detach ();
  rig.disk[1].lie = 0;
  live_on (40);
  snprintf (rig.instance, sizeof rig.instance, "another");
  attach (true);
  live_on (8);
  assert (member (3)->round == array ()->rec.round);
  d->failed = false;
  d->op = 0;
  start_again (3);
  UNTIL (state (3) == MEMBER_JOINING);
  assert (!d->full);
}

/* The member that was put out for its report joins, and reports the same again.  The
 * others are still no old copies, now or after a start of weftd, even if this member has
 * all data.
 */
static void
test_round_of_joiner (enum layout_kind layout, unsigned members)
{
  begin_writing_to (layout, members);
  round_is (10);
  live_on (20);
  detach ();
  live_on (8);
  rig.disk[1].lie = 1000;
  live_on (8);
  assert (refused (1, "untrue"));
  assert (granted ("a"));
  assert (state (1) != MEMBER_IN_SYNC);
  CALL (++weftd.op,
        cluster_session_evict (engine, in,
                               cluster_array_writer (array ())->rec.id, "kim"));
  UNTIL (state (1) == MEMBER_IN_SYNC);
  assert (array ()->rec.round <= 11);
  for (unsigned i = 0; i < 2; i++) {
    live_on (20);
    assert (array ()->rec.round <= 11 && refused (1, "untrue"));
    for (unsigned m = 0; m < members; m++)
      assert (m == 1 || (state (m) == MEMBER_IN_SYNC && !known (m)->old_copy));
    restart ();
  }
  assert (granted ("a"));
}

/* When the writer leaves, the last words of some members are older than its last
 * rounds: that is no lie, nor an old copy.
 */
static void
test_round_of_last_words (void)
{
  begin_attached (true);
  round_is (10);
  live_on (20);
  rig.disk[1].round = 12;
  rig.disk[1].op = 0;
  UNTIL (known (1)->round == 12);
  assert (known (0)->round == 10 && array ()->rec.round < 12);
  round_is (12);
  rig.round = 10; /* it is not heard again */
  detach ();
  assert (!cluster_array_doubted (engine, array (), NULL, 0));
  assert (granted ("a"));
  assert (array ()->rec.round == 12);
}

/* The array's record has the last round of the last writer, so a restarted weftd knows
 * it, too.
 */
static void
test_round_after_start (void)
{
  begin_attached (true);
  round_is (10);
  live_on (20);
  rig.round = 11; /* not heard before the end, nor stored */
  for (unsigned m = 0; m < MEMBERS; m++)
    rig.disk[m].round = 11 + (m > 1);
  detach ();
  live_on (8);
  assert (array ()->rec.round == 12);
  rig.disk[1].round = 14;
  restart ();
  live_on (8);
  assert (refused (1, "untrue") && granted ("a"));
}

/* Nobody knows who is right: nothing is recorded, and the array is frozen. */
static void
test_round_alone (bool lies)
{
  begin_attached (true);
  round_is (10);
  live_on (60);
  stop_members (); /* with the host, which never detaches */
  rig.attached = false;
  restart ();
  for (unsigned m = 0; m < MEMBERS; m++) {
    rig.disk[m].round = m == 1 ? 20 : 10;
    start_again (m);
  }
  live_on (40);
  assert (stands_still ("a") && says ("member 1") && says ("round 20"));
  assert (array ()->rec.round <= 11 && granted ("b"));
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (state (m) == MEMBER_IN_SYNC && !known (m)->old_copy);
  if (lies) {
    rig.disk[1].dead = true;
    CALL (++weftd.op, cluster_node_shut_out (engine, in, "n2", "kim"));
    assert (granted ("a") && state (1) == MEMBER_OUT);
    for (unsigned m = 0; m < MEMBERS; m++)
      assert (m == 1 || state (m) == MEMBER_IN_SYNC);
  }
  else {
    /* The right disks come, and are what they were. */
    for (unsigned m = 0; m < MEMBERS; m++)
      if (m != 1) {
        rig.disk[m].round = m == 0 ? 19 : 20;
        rig.disk[m].sequence--; /* the copy's was written since */
        start_again (m);
        live_on (8);
        UNTIL (rig.disk[m].refused == NULL && cluster_disk_heard (known (m)));
      }
    assert (granted ("a"));
    for (unsigned m = 0; m < MEMBERS; m++)
      assert (state (m) == MEMBER_IN_SYNC);
    assert (array ()->rec.round == 20);
  }
}

/* At one tick a process that waited for a disk says a round that nobody bears out, and
 * another word of it takes that back.  The change that both of them confirm was not COMMITted
 * between them, and is when the array is no longer frozen.
 */
static void
test_round_taken_back (void)
{
  struct cluster_attach at = { .instance = "h",
                               .node = "host2",
                               .pid = 8,
                               .writable = true,
                               .by_admin = true };
  struct fake_disk *d = &rig.disk[1];

  begin ();
  live ();
  CALL (++weftd.op, cluster_attach (engine, in, "a", &at));
  start_again (1);
  d->min_epoch = array ()->rec.change.epoch;
  assert (d->min_epoch != 0);
  d->lie = 97;
  live ();
  d->op = 0;
  d->lie = 0;
  for (unsigned i = 0; i < 10; i++)
    live ();
  assert (array ()->rec.change.epoch == 0 && array ()->rec.round < 97 &&
          state (1) == MEMBER_IN_SYNC);
}

/* A member that has all data of the array is believed: the other member is an old
 * copy. */
static void
test_round_of_whole_copy (void)
{
  begin_writing_to (LAYOUT_RAID1, 2);
  rig.disk[0].round = rig.disk[1].round = rig.round = 10;
  live_on (60);
  for (unsigned m = 0; m < 2; m++)
    rig.disk[m].dead = true;
  rig.attached = false;
  live_on (60);
  restart ();
  rig.disk[0].round = 20;
  for (unsigned m = 0; m < 2; m++)
    start_again (m);
  live_on (20);
  assert (array ()->rec.round == 20 && !says ("is frozen"));
  rig.session = 0;
  snprintf (rig.instance, sizeof rig.instance, "another");
  attach (true);
  assert (state (0) == MEMBER_IN_SYNC && state (1) != MEMBER_IN_SYNC);
  UNTIL (whole ());
  /* It is so, too, where it is the only one. */
  rig.disk[1].dead = true;
  lose (1);
  detach ();
  live_on (8);
  rig.disk[0].round = array ()->rec.round + 1;
  live_on (8);
  assert (array ()->rec.round == rig.disk[0].round);
}

/* A writer wrote on while it was cut off from weftd.  The members that confirm its end
 * confirm each other's round, though the first is silent when the second reports: neither
 * lies.
 */
static void
test_round_one_by_one (void)
{
  begin_writing_to (LAYOUT_RAID1, 2);
  rig.disk[0].round = rig.disk[1].round = rig.round = 10;
  live_on (60);
  rig.attached = false;
  rig.disk[1].dead = true;
  DONE (cluster_session_evict (engine, in, rig.session, "kim"));
  restart ();
  rig.disk[0].round = 16;
  rig.disk[0].op = 0;
  live_on (8);
  assert (rig.disk[0].min_epoch >= array ()->rec.change.epoch);
  stop (0);
  assert (array ()->rec.change.epoch && array ()->rec.round == 10);
  rig.disk[1].round = 15;
  start_again (1);
  UNTIL (array ()->rec.change.epoch == 0);
  assert (array ()->rec.round >= 15);
  live_on (8);
  assert (rig.disk[1].refused == NULL);
  start_again (0);
  live_on (8);
  assert (rig.disk[0].refused == NULL && array ()->rec.round == 16);
  rig.session = 0;
  snprintf (rig.instance, sizeof rig.instance, "another");
  attach (true);
  assert (state (0) == MEMBER_IN_SYNC && state (1) == MEMBER_IN_SYNC);
}

/* A change waited only because its array was frozen.  Nobody knows of that when weftd
 * is started again, so the change waits for nobody.
 */
static void
test_change_at_start (void)
{
  struct cluster_array_record *r = NULL;
  uint64_t epoch;

  begin_array ();
  for (size_t i = 0; i < weftd.stored; i++)
    if (weftd.store[i].kind == CLUSTER_RECORD_ARRAY)
      r = &weftd.store[i].array;
  assert (r);
  epoch = r->change.epoch = r->epoch + 1;
  for (unsigned m = 0; m < MEMBERS; m++)
    r->change.states[m] = (uint8_t) r->member[m].state;
  restart ();
  assert (array ()->rec.change.epoch == 0 && array ()->rec.epoch == epoch);
}

/* Numbers that no array ever reaches. */
static void
test_nonsense (void)
{
  struct fake_disk *d = &rig.disk[1], honest;

  begin ();
  honest = *d;
#define NONSENSE(change)                                                       \
  do {                                                                         \
    change;                                                                    \
    d->op = 0;                                                                 \
    live_on (8);                                                               \
    assert (refused (1, "nonsense"));                                          \
    honest.op = 0;                                                             \
    *d = honest;                                                               \
    live_on (8);                                                               \
    assert (d->refused == NULL);                                               \
  } while (0)
  NONSENSE (d->min_epoch += AHEAD_MAX + 1);
  NONSENSE (d->states_epoch += AHEAD_MAX + 1);
  NONSENSE (d->generation += AHEAD_MAX + 1);
  NONSENSE (d->round += AHEAD_MAX + 2);
  attach (true);
  rig.round = AHEAD_MAX * 2;
  live_on (20);
  assert (array ()->rec.round == 0);
}

int
main (void)
{
  for (unsigned what = 0; what < 4; what++)
    test_told_by_us (what);
  test_raised_by_itself ();
  for (unsigned what = 0; what < 3; what++)
    test_first_words (what);
  test_shut_out_joiner ();
  test_outsider (false);
  test_outsider (true);
  test_only_node ();
  test_long_ago ();
  for (unsigned i = 0; i < 4; i++)
    test_session (i & 1, i & 2);
  test_round_after_writing (1);
  test_round_after_writing (2);
  test_round_after_writing (1000000);
  test_round_at_the_end ();
  test_round_beside_writer ();
  test_round_beside_lost (false);
  test_round_beside_lost (true);
  test_round_of_next_writer ();
  test_round_of_joiner (LAYOUT_RAIDX, MEMBERS);
  test_round_of_joiner (LAYOUT_RAID1, 2);
  test_round_of_last_words ();
  test_round_after_start ();
  test_round_alone (true);
  test_round_alone (false);
  test_round_taken_back ();
  test_round_of_whole_copy ();
  test_round_one_by_one ();
  test_nonsense ();
  test_change_at_start ();
  return 0;
}
