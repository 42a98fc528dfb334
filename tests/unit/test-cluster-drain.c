/* test-cluster-drain.c: members move away from nodes that are drained.  The long
 * scenarios are run with weftd killed at each step.  The disk i of the rig is on
 * the node n(i+1).
 */

#include <config.h>

#undef NDEBUG
#include <assert.h>

#include "test-cluster-rig.h"

#define DRAINED(r, name) cluster_node_drained ((r)->c, name)

/* The disk of this member. */
static bool
on (struct rig *r, unsigned m, unsigned disk)
{
  return memcmp (array (r)->disk[m]->rec.uuid, r->disk[disk].uuid, 16) == 0;
}

static const char *
waits (struct rig *r, const char *name)
{
  static char text[CLUSTER_WAITS_BYTES];

  return cluster_node_waits (r->c, name, text, sizeof text, NULL) ? text : "";
}

/* At most one member of the group is not in-sync at a time. */
static void
one_at_a_time (struct rig *r)
{
  unsigned out = 0;

  for (unsigned m = 0; m < MEMBERS; m++)
    out += state (r, m) != MEMBER_IN_SYNC;
  assert (out <= 1);
}

static bool
drain (unsigned kill_at, bool attached, bool writable)
{
  struct rig r;
  bool killed;

  rig_init (&r, kill_at);
  make_array (&r);
  if (attached)
    attach (&r, writable);
  DONE (&r, cluster_node_drain (r.c, in, "n2", true));
  assert (cluster_node_is_draining (r.c, "n2"));
  DONE (&r, cluster_node_drain (r.c, in, "n3", true));
  for (unsigned i = 0; !(DRAINED (&r, "n2") && DRAINED (&r, "n3")); i++) {
    assert (i < 4000);
    round_of (&r);
    one_at_a_time (&r);
  }
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (state (&r, m) == MEMBER_IN_SYNC);
  assert ((on (&r, 1, 4) && on (&r, 2, 5)) || (on (&r, 1, 5) && on (&r, 2, 4)));
  /* What was there forgets the array, and serves nobody. */
  UNTIL (&r, cluster_disk_find (r.c, r.disk[1].uuid)->blank &&
               cluster_disk_find (r.c, r.disk[2].uuid)->blank);
  REFUSED (&r, "draining", cluster_spare_add (r.c, in, "a", r.disk[1].uuid));
  DONE (&r, cluster_node_drain (r.c, in, "n2", false));
  DONE (&r, cluster_spare_add (r.c, in, "a", r.disk[1].uuid));
  rounds (&r, 20);
  assert (!on (&r, 1, 1));
  killed = r.killed;
  cluster_free (r.c);
  return killed;
}

static bool
scenario_drain_written (unsigned kill_at)
{
  return drain (kill_at, true, true);
}

static bool
scenario_drain_read (unsigned kill_at)
{
  return drain (kill_at, true, false);
}

static bool
scenario_drain_detached (unsigned kill_at)
{
  return drain (kill_at, false, false);
}

/* Nothing fits: it waits, says for what, and goes on when it comes. */
static void
test_drain_waits (void)
{
  struct rig r;
  unsigned epoch;

  rig_init (&r, 0);
  r.disk[4].dead = true;
  r.disk[5].data_bytes = MiB (100);
  make_array (&r);
  attach (&r, true);
  DONE (&r, cluster_node_drain (r.c, in, "n2", true));
  epoch = (unsigned) array (&r)->rec.epoch;
  rounds (&r, 100);
  assert (array (&r)->rec.epoch == epoch && array (&r)->rec.change.epoch == 0);
  assert (strstr (waits (&r, "n2"), "1 too small"));
  assert (!DRAINED (&r, "n2"));
  r.disk[4].dead = false;
  UNTIL (&r, DRAINED (&r, "n2"));
  assert (on (&r, 1, 4) && waits (&r, "n2")[0] == '\0');
  cluster_free (r.c);
}

/* Who writes is silent, and could not prepare itself: nothing is begun. */
static void
test_drain_beside_silence (void)
{
  struct rig r;

  begin_writing (&r, 0);
  r.attached = false;
  rounds (&r, SESSION_TTL_MS / CLUSTER_TICK_MS + 40);
  DONE (&r, cluster_node_drain (r.c, in, "n2", true));
  rounds (&r, 60);
  assert (array (&r)->rec.change.epoch == 0 && on (&r, 1, 1));
  assert (strstr (waits (&r, "n2"), "node host"));
  r.attached = true;
  UNTIL (&r, DRAINED (&r, "n2"));
  cluster_free (r.c);
}

/* Another member of the group is out: that comes first. */
static void
test_drain_of_degraded (void)
{
  struct rig r;

  begin_writing (&r, 0);
  r.disk[3].dead = true;
  lose (&r, 3);
  DONE (&r, cluster_node_drain (r.c, in, "n2", true));
  rounds (&r, 60);
  assert (state (&r, 1) == MEMBER_IN_SYNC && on (&r, 1, 1));
  assert (strstr (waits (&r, "n2"), "member 3 of array a"));
  r.disk[3].dead = false;
  UNTIL (&r, DRAINED (&r, "n2"));
  assert (state (&r, 3) == MEMBER_IN_SYNC);

  /* Its node may be stopped at any time, so it can't be relied on. */
  DONE (&r, cluster_node_maintain (r.c, in, "n4", true, false));
  DONE (&r, cluster_node_drain (r.c, in, "n1", true));
  rounds (&r, 60);
  assert (state (&r, 0) == MEMBER_IN_SYNC && on (&r, 0, 0));
  assert (strstr (waits (&r, "n1"), "maintenance"));
  DONE (&r, cluster_node_maintain (r.c, in, "n4", false, false));
  UNTIL (&r, DRAINED (&r, "n1"));
  cluster_free (r.c);
}

/* What is out on the node moves, too, and does not wait for its time. */
static void
test_drain_of_lost (void)
{
  struct rig r;

  begin_writing (&r, 0);
  r.disk[1].dead = true;
  lose (&r, 1);
  rounds (&r, 40);
  DONE (&r, cluster_node_drain (r.c, in, "n2", true));
  assert (on (&r, 1, 4));
  UNTIL (&r, DRAINED (&r, "n2"));
  /* Held out is held out. */
  r.disk[2].dead = true;
  lose (&r, 2);
  DONE (&r, cluster_member_cancel (r.c, in, "a", 2));
  DONE (&r, cluster_node_drain (r.c, in, "n3", true));
  rounds (&r, 60);
  assert (on (&r, 2, 2) && strstr (waits (&r, "n3"), "held out"));
  DONE (&r, cluster_member_join (r.c, in, "a", 2));
  UNTIL (&r, DRAINED (&r, "n3"));
  cluster_free (r.c);
}

/* The disk that stood ready dies when the member is just out: that is taken
 * back, for it is well.  And a drain that is stopped stays so.
 */
static void
test_drain_given_up (void)
{
  struct rig r;

  rig_init (&r, 0);
  r.disk[5].dead = true;
  make_array (&r);
  attach (&r, true);
  r.lags = true; /* it does not prepare itself yet */
  DONE (&r, cluster_node_drain (r.c, in, "n2", true));
  UNTIL (&r, array (&r)->rec.change.states[1] == MEMBER_OUT);
  r.disk[4].dead = true;
  rounds (&r, 40);
  assert (state (&r, 1) == MEMBER_IN_SYNC && on (&r, 1, 1));
  r.lags = false;
  UNTIL (&r, state (&r, 1) != MEMBER_IN_SYNC);
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  assert (on (&r, 1, 1) && waits (&r, "n2")[0]);
  DONE (&r, cluster_node_drain (r.c, in, "n2", false));
  r.disk[4].dead = false;
  rounds (&r, 60);
  assert (on (&r, 1, 1) && state (&r, 1) == MEMBER_IN_SYNC);
  cluster_free (r.c);
}

/* Members of a group stay on hosts of their own; and a spare goes first. */
static void
test_drain_places (void)
{
  struct rig r;

  rig_init (&r, 0);
  r.disk[4].uuid[0] = 1; /* on n1, beside member 0 */
  make_array (&r);
  r.disk[5].dead = true;
  rounds (&r, 40);
  DONE (&r, cluster_node_drain (r.c, in, "n2", true));
  rounds (&r, 60);
  assert (on (&r, 1, 1));
  assert (strstr (waits (&r, "n2"), "1 on nodes that have a member"));
  r.disk[5].dead = false;
  UNTIL (&r, DRAINED (&r, "n2"));
  assert (on (&r, 1, 5));
  cluster_free (r.c);

  rig_init (&r, 0);
  make_array (&r);
  DONE (&r, cluster_spare_add (r.c, in, "a", r.disk[5].uuid)); /* the larger */
  DONE (&r, cluster_node_drain (r.c, in, "n2", true));
  UNTIL (&r, DRAINED (&r, "n2"));
  assert (on (&r, 1, 5));
  assert (cluster_uuid_is_zero (
    cluster_disk_find (r.c, r.disk[5].uuid)->rec.spare_of));
  cluster_free (r.c);
}

/* No redundancy: it can't move, and nothing is given up. */
static void
test_drain_bare (void)
{
  struct rig r;

  rig_init (&r, 0);
  make_array_of (&r, "a", LAYOUT_RAID0, 0, 3);
  DONE (&r, cluster_node_drain (r.c, in, "n1", true));
  rounds (&r, 60);
  assert (state (&r, 0) == MEMBER_IN_SYNC && on (&r, 0, 0));
  assert (strstr (waits (&r, "n1"), "no redundancy"));
  cluster_free (r.c);
}

/* A joining member is to go: it moves at once, and is rebuilt there. */
static void
test_drain_of_joining (void)
{
  struct rig r;

  begin_writing (&r, 0);
  r.disk[1].stuck = true;
  lose (&r, 1);
  UNTIL (&r, state (&r, 1) == MEMBER_JOINING);
  DONE (&r, cluster_node_drain (r.c, in, "n2", true));
  UNTIL (&r, DRAINED (&r, "n2"));
  assert (on (&r, 1, 4));
  cluster_free (r.c);
}

/* A drain of n2 that has come so far: member 1 is rebuilt on the disk 4. */
static void
begin_move (struct rig *r, unsigned kill_at)
{
  rig_init (r, kill_at);
  make_array (r);
  attach (r, true);
  r->disk[4].stuck = true;
  DONE (r, cluster_node_drain (r->c, in, "n2", true));
  UNTIL (r, state (r, 1) == MEMBER_JOINING && on (r, 1, 4) &&
              r->disk[4].join.phase == CLUSTER_JOIN_COPYING);
}

static const struct cluster_array_tune never = { .has_spare_after = true };

/* The new disk fails: there is another one, and no time is lost.  The node is
 * not drained before that is in-sync.
 */
static bool
scenario_drain_moves_on (unsigned kill_at)
{
  struct rig r;
  bool killed;

  begin_move (&r, kill_at);
  DONE (&r, cluster_array_tune (r.c, in, "a", &never));
  r.disk[5].stuck = true;
  r.disk[4].failed = true;
  UNTIL (&r, on (&r, 1, 5) && state (&r, 1) == MEMBER_JOINING);
  one_at_a_time (&r);
  assert (!DRAINED (&r, "n2"));
  r.disk[5].stuck = false;
  UNTIL (&r, DRAINED (&r, "n2"));
  assert (on (&r, 1, 5) && state (&r, 1) == MEMBER_IN_SYNC);
  killed = r.killed;
  cluster_free (r.c);
  return killed;
}

/* Of the disks on the node of the new one, too; and where none fits, it says so. */
static void
test_drain_failed_target (void)
{
  struct rig r;

  rig_init (&r, 0);
  r.disk[5].uuid[0] = 5; /* on n5, beside the disk 4 */
  r.disk[5].dead = true;
  make_array (&r);
  r.disk[4].stuck = true;
  DONE (&r, cluster_node_drain (r.c, in, "n2", true));
  UNTIL (&r, state (&r, 1) == MEMBER_JOINING);
  r.disk[4].failed = true;
  UNTIL (&r, strstr (waits (&r, "n2"), "a spare or blank disk"));
  rounds (&r, 60);
  assert (on (&r, 1, 4) && state (&r, 1) == MEMBER_OUT);
  assert (strstr (waits (&r, "n2"), "member 1 of array a"));
  assert (!DRAINED (&r, "n2"));
  r.disk[5].dead = false;
  UNTIL (&r, DRAINED (&r, "n2"));
  assert (on (&r, 1, 5) && waits (&r, "n2")[0] == '\0');
  cluster_free (r.c);
}

/* The new disk is silent: it may come back, until the array's patience ends. */
static void
test_drain_silent_target (void)
{
  struct rig r;

  begin_move (&r, 0);
  r.disk[4].dead = true;
  UNTIL (&r, state (&r, 1) == MEMBER_OUT);
  rounds (&r, 60);
  assert (on (&r, 1, 4) && !DRAINED (&r, "n2"));
  assert (strstr (waits (&r, "n2"), "member 1 of array a, whose new disk "
                                    "/dev/d4 of node n5 is silent"));
  r.disk[4].dead = false;
  UNTIL (&r, state (&r, 1) == MEMBER_JOINING);
  assert (on (&r, 1, 4));

  DONE (&r, cluster_array_tune (r.c, in, "a", &never));
  r.disk[4].dead = true;
  rounds (&r, SPARE_AFTER_MS_DEFAULT / CLUSTER_TICK_MS + 400);
  assert (on (&r, 1, 4) && strstr (waits (&r, "n2"), "is silent"));
  DONE (&r, cluster_array_tune (r.c, in, "a",
                                &(struct cluster_array_tune) {
                                  .has_spare_after = true,
                                  .spare_after_ms = SPARE_AFTER_MS_DEFAULT }));
  UNTIL (&r, DRAINED (&r, "n2"));
  assert (on (&r, 1, 5) && state (&r, 1) == MEMBER_IN_SYNC);
  cluster_free (r.c);
}

/* Its rebuild is paused, cancelled, and then it is given another disk by hand. */
static void
test_drain_hindered_rebuild (void)
{
  const struct cluster_member_tune pause = { .has_paused = true,
                                             .paused = true };
  const struct cluster_member_tune resume = { .has_paused = true };
  struct rig r;

  begin_move (&r, 0);
  assert (waits (&r, "n2")[0] == '\0');
  DONE (&r, cluster_member_tune (r.c, in, "a", 1, &pause));
  assert (strstr (waits (&r, "n2"), "member 1 of array a") &&
          strstr (waits (&r, "n2"), "paused"));
  DONE (&r, cluster_member_tune (r.c, in, "a", 1, &resume));
  assert (waits (&r, "n2")[0] == '\0');
  DONE (&r, cluster_member_cancel (r.c, in, "a", 1));
  UNTIL (&r, state (&r, 1) == MEMBER_OUT);
  rounds (&r, 60);
  assert (on (&r, 1, 4) && strstr (waits (&r, "n2"), "held out"));
  r.disk[4].failed = true; /* held out is held out */
  rounds (&r, 60);
  assert (on (&r, 1, 4) && strstr (waits (&r, "n2"), "held out"));
  DONE (&r, cluster_member_replace (r.c, in, "a", 1, r.disk[5].uuid));
  assert (!DRAINED (&r, "n2"));
  UNTIL (&r, DRAINED (&r, "n2"));
  assert (on (&r, 1, 5) && state (&r, 1) == MEMBER_IN_SYNC);
  cluster_free (r.c);
}

/* Its new place is drained, too, before it is in-sync there: the first node is not
 * drained before its data is somewhere.
 */
static bool
scenario_drain_of_target (unsigned kill_at)
{
  struct rig r;
  bool killed;

  begin_move (&r, kill_at); /* from n2 to n5 */
  r.disk[5].stuck = true;
  DONE (&r, cluster_node_drain (r.c, in, "n5", true));
  UNTIL (&r, on (&r, 1, 5) && r.disk[5].join.phase == CLUSTER_JOIN_COPYING);
  assert (!DRAINED (&r, "n2") && DRAINED (&r, "n5"));
  r.disk[5].stuck = false;
  UNTIL (&r, DRAINED (&r, "n2"));
  assert (state (&r, 1) == MEMBER_IN_SYNC);
  killed = r.killed;
  cluster_free (r.c);
  return killed;
}

int
main (void)
{
  test_drain_waits ();
  test_drain_beside_silence ();
  test_drain_of_degraded ();
  test_drain_of_lost ();
  test_drain_given_up ();
  test_drain_places ();
  test_drain_bare ();
  test_drain_of_joining ();
  test_drain_failed_target ();
  test_drain_silent_target ();
  test_drain_hindered_rebuild ();
  test_kills ("drain, written", scenario_drain_written);
  test_kills ("drain, read", scenario_drain_read);
  test_kills ("drain, detached", scenario_drain_detached);
  test_kills ("drain moves on", scenario_drain_moves_on);
  test_kills ("drain of the target", scenario_drain_of_target);
  return 0;
}
