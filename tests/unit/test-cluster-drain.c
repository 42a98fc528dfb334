/* test-cluster-drain.c: members move away from nodes that are drained.  The long
 * scenarios are run with weftd killed at each step.  The disk i of the rig is on
 * the node n(i+1).
 */

#include <config.h>

#include "test-cluster-rig.h"

#define DRAINED(name) cluster_node_drained (engine, name)

static const char *
waits (const char *name)
{
  static char text[CLUSTER_WAITS_BYTES];

  return cluster_node_waits (engine, name, text, sizeof text, NULL) ? text : "";
}

/* The member's node is being drained, but the member stays, and the verdict gives the
 * reason. */
static void
stays_for (unsigned m, const char *why)
{
  uint64_t epoch = array ()->rec.epoch;
  char name[16];

  snprintf (name, sizeof name, "n%u", m + 1);
  DONE (cluster_node_drain (engine, in, name, true));
  live_on (100);
  assert (array ()->rec.epoch == epoch && array ()->rec.change.epoch == 0);
  assert (state (m) == MEMBER_IN_SYNC && on (m, m) && !DRAINED (name));
  assert (strstr (waits (name), why));
}

/* Member 1 goes from n2 to that disk. */
static void
moves_to (unsigned disk)
{
  UNTIL (DRAINED ("n2"));
  assert (state (1) == MEMBER_IN_SYNC && on (1, disk));
  assert (waits ("n2")[0] == '\0');
}

/* At most one member of the group is not in-sync at a time. */
static void
one_at_a_time (void)
{
  unsigned out = 0;

  for (unsigned m = 0; m < MEMBERS; m++)
    out += state (m) != MEMBER_IN_SYNC;
  assert (out <= 1);
}

static void
drain (bool attached, bool writable)
{
  begin_array ();
  if (attached)
    attach (writable);
  DONE (cluster_node_drain (engine, in, "n2", true));
  assert (cluster_node_is_draining (engine, "n2"));
  DONE (cluster_node_drain (engine, in, "n3", true));
  for (unsigned i = 0; !(DRAINED ("n2") && DRAINED ("n3")); i++) {
    assert (i < 4000);
    live ();
    one_at_a_time ();
  }
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (state (m) == MEMBER_IN_SYNC);
  assert ((on (1, 4) && on (2, 5)) || (on (1, 5) && on (2, 4)));
  /* The former member forgets the array, and serves no client. */
  UNTIL (known (1)->blank && known (2)->blank);
  REFUSED ("draining", cluster_spare_add (engine, in, "a", rig.disk[1].uuid));
  DONE (cluster_node_drain (engine, in, "n2", false));
  DONE (cluster_spare_add (engine, in, "a", rig.disk[1].uuid));
  live_on (20);
  assert (!on (1, 1));
}

static void
scenario_drain_written (void)
{
  drain (true, true);
}

static void
scenario_drain_read (void)
{
  drain (true, false);
}

static void
scenario_drain_detached (void)
{
  drain (false, false);
}

/* Nothing fits: it waits, says for what, and goes on when it comes. */
static void
test_drain_waits (void)
{
  rig_init ();
  rig.disk[4].dead = true;
  rig.disk[5].data_bytes = MiB (100);
  make_array ();
  attach (true);
  stays_for (1, "1 too small");
  rig.disk[4].dead = false;
  moves_to (4);
}

/* The writer is silent and could not prepare, so no change begins. */
static void
test_drain_beside_silence (void)
{
  begin_writing ();
  rig.attached = false;
  live_on (SESSION_TTL_MS / CLUSTER_TICK_MS + 40);
  stays_for (1, "node host");
  rig.attached = true;
  UNTIL (DRAINED ("n2"));
}

/* Another member of the group is out: that comes first. */
static void
test_drain_of_degraded (void)
{
  begin_writing ();
  die (3);
  stays_for (1, "member 3 of array a");
  rig.disk[3].dead = false;
  UNTIL (DRAINED ("n2"));
  assert (state (3) == MEMBER_IN_SYNC);

  /* Its node may be stopped at any time, so it can't be relied on. */
  DONE (cluster_node_maintain (engine, in, "n4", true, false));
  stays_for (0, "maintenance");
  DONE (cluster_node_maintain (engine, in, "n4", false, false));
  UNTIL (DRAINED ("n1"));
}

/* An out member on the node moves, too, and without the usual delay. */
static void
test_drain_of_lost (void)
{
  begin_writing ();
  die (1);
  live_on (40);
  DONE (cluster_node_drain (engine, in, "n2", true));
  assert (on (1, 4));
  moves_to (4);
  /* Held out is held out. */
  die (2);
  DONE (cluster_member_cancel (engine, in, "a", 2));
  DONE (cluster_node_drain (engine, in, "n3", true));
  live_on (60);
  assert (on (2, 2) && strstr (waits ("n3"), "held out"));
  DONE (cluster_member_join (engine, in, "a", 2));
  UNTIL (DRAINED ("n3"));
}

/* The spare disk dies when the member has just gone out: the member is taken back,
 * because it is healthy.  A drain that is stopped stays stopped.
 */
static void
test_drain_given_up (void)
{
  rig_init ();
  rig.disk[5].dead = true;
  make_array ();
  attach (true);
  rig.lags = true; /* it does not prepare itself yet */
  DONE (cluster_node_drain (engine, in, "n2", true));
  UNTIL (array ()->rec.change.states[1] == MEMBER_OUT);
  rig.disk[4].dead = true;
  live_on (40);
  assert (state (1) == MEMBER_IN_SYNC && on (1, 1));
  rig.lags = false;
  UNTIL (state (1) != MEMBER_IN_SYNC);
  UNTIL (state (1) == MEMBER_IN_SYNC);
  assert (on (1, 1) && waits ("n2")[0]);
  DONE (cluster_node_drain (engine, in, "n2", false));
  rig.disk[4].dead = false;
  live_on (60);
  assert (on (1, 1) && state (1) == MEMBER_IN_SYNC);
}

/* Members of a group stay on hosts of their own; and a spare goes first. */
static void
test_drain_places (void)
{
  rig_init ();
  rig.disk[4].uuid[0] = 1; /* on n1, beside member 0 */
  make_array ();
  stop (5);
  stays_for (1, "1 on nodes that have a member");
  rig.disk[5].dead = false;
  moves_to (5);

  begin_array ();
  DONE (cluster_spare_add (engine, in, "a", rig.disk[5].uuid)); /* the larger */
  DONE (cluster_node_drain (engine, in, "n2", true));
  moves_to (5);
  assert (cluster_uuid_is_zero (known (5)->rec.spare_of));
}

/* No redundancy: it can't move, and nothing is given up. */
static void
test_drain_bare (void)
{
  begin_array_of (LAYOUT_RAID0, 3);
  stays_for (0, "no redundancy");
}

/* A joining member is to go: it moves at once, and is rebuilt there. */
static void
test_drain_of_joining (void)
{
  begin_writing ();
  copy_on (1);
  DONE (cluster_node_drain (engine, in, "n2", true));
  moves_to (4);
}

/* A drain of n2 that has come so far: member 1 is rebuilt on the disk 4. */
static void
begin_move (void)
{
  begin_writing ();
  rig.disk[4].stuck = true;
  DONE (cluster_node_drain (engine, in, "n2", true));
  UNTIL (state (1) == MEMBER_JOINING && on (1, 4) &&
         rig.disk[4].join.phase == CLUSTER_JOIN_COPYING);
}

/* The new disk fails: there is another one, and no time is lost.  The node is
 * not drained before that is in-sync.
 */
static void
scenario_drain_moves_on (void)
{
  begin_move ();
  spare_after (0); /* never */
  rig.disk[5].stuck = true;
  rig.disk[4].failed = true;
  UNTIL (on (1, 5) && state (1) == MEMBER_JOINING);
  one_at_a_time ();
  assert (!DRAINED ("n2"));
  rig.disk[5].stuck = false;
  moves_to (5);
}

/* The drain also uses disks on the node of the new disk.  If no disk fits, the verdict
 * says so. */
static void
test_drain_failed_target (void)
{
  rig_init ();
  rig.disk[5].uuid[0] = 5; /* on n5, beside the disk 4 */
  rig.disk[5].dead = true;
  make_array ();
  rig.disk[4].stuck = true;
  DONE (cluster_node_drain (engine, in, "n2", true));
  UNTIL (state (1) == MEMBER_JOINING);
  rig.disk[4].failed = true;
  UNTIL (strstr (waits ("n2"), "a spare or blank disk"));
  live_on (60);
  assert (on (1, 4) && state (1) == MEMBER_OUT);
  assert (strstr (waits ("n2"), "member 1 of array a"));
  assert (!DRAINED ("n2"));
  rig.disk[5].dead = false;
  moves_to (5);
}

/* The new disk is silent: it may come back, until the array's patience ends. */
static void
test_drain_silent_target (void)
{
  begin_move ();
  rig.disk[4].dead = true;
  UNTIL (state (1) == MEMBER_OUT);
  live_on (60);
  assert (on (1, 4) && !DRAINED ("n2"));
  assert (strstr (waits ("n2"), "member 1 of array a, whose new disk "
                                "/dev/d4 of node n5 is silent"));
  rig.disk[4].dead = false;
  UNTIL (state (1) == MEMBER_JOINING);
  assert (on (1, 4));

  spare_after (0); /* never */
  rig.disk[4].dead = true;
  live_on (SPARE_AFTER_MS_DEFAULT / CLUSTER_TICK_MS + 400);
  assert (on (1, 4) && strstr (waits ("n2"), "is silent"));
  spare_after (SPARE_AFTER_MS_DEFAULT);
  moves_to (5);
}

/* Its rebuild is paused, cancelled, and then it is given another disk by hand. */
static void
test_drain_hindered_rebuild (void)
{
  begin_move ();
  assert (waits ("n2")[0] == '\0');
  pause_copying (1, true);
  assert (strstr (waits ("n2"), "member 1 of array a") &&
          strstr (waits ("n2"), "paused"));
  pause_copying (1, false);
  assert (waits ("n2")[0] == '\0');
  DONE (cluster_member_cancel (engine, in, "a", 1));
  UNTIL (state (1) == MEMBER_OUT);
  live_on (60);
  assert (on (1, 4) && strstr (waits ("n2"), "held out"));
  rig.disk[4].failed = true; /* held out is held out */
  live_on (60);
  assert (on (1, 4) && strstr (waits ("n2"), "held out"));
  DONE (cluster_member_replace (engine, in, "a", 1, rig.disk[5].uuid, false));
  assert (!DRAINED ("n2"));
  moves_to (5);
}

/* Its new place is drained, too, before it is in-sync there: the first node is not
 * drained before its data is somewhere.
 */
static void
scenario_drain_of_target (void)
{
  begin_move (); /* from n2 to n5 */
  rig.disk[5].stuck = true;
  DONE (cluster_node_drain (engine, in, "n5", true));
  UNTIL (on (1, 5) && rig.disk[5].join.phase == CLUSTER_JOIN_COPYING);
  assert (!DRAINED ("n2") && DRAINED ("n5"));
  rig.disk[5].stuck = false;
  moves_to (5);
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
