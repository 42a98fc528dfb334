/* test-cluster-place.c: the host is the failure domain, in every way in which a disk gets
 * a place in an array and in all reports of what the array survives.  Disk i of the rig
 * is on node n(i+1) unless a test moves it.
 */

#include <config.h>

#include "cluster/cluster-preflight.h"
#include "test-cluster-rig.h"

#define FINE_MEMBERS "any 1 member, and any 1 host"
#define TOGETHER "any 1 member, but not the loss of host n1"

static struct cluster_preflight f;

static void
survives (const char *wanted)
{
  char said[1000];

  cluster_array_survives (array (), said, sizeof said);
  if (strcmp (said, wanted) != 0) {
    fprintf (stderr, "\"%s\", not \"%s\"\n", said, wanted);
    abort ();
  }
}

static bool
lines (const char *text)
{
  for (unsigned i = 0; i < f.lines_count; i++)
    if (strstr (f.line[i], text))
      return true;
  return false;
}

/* A command that the verdict proposes is carried out, and all is well. */
static void
mend (unsigned m, unsigned disk)
{
  char uuid[CLUSTER_UUID_TEXT_BYTES], said[160];

  cluster_words_uuid (rig.disk[disk].uuid, uuid);
  snprintf (said, sizeof said, "weftctl array replace a %u %s moves member %u",
            m, uuid, m);
  assert (verdict () == CLUSTER_WARNING && says (said));
  DONE (
    cluster_member_replace (engine, in, "a", m, rig.disk[disk].uuid, false));
  UNTIL (on (m, disk) && state (m) == MEMBER_IN_SYNC);
  live_on (8);
  survives (FINE_MEMBERS);
  assert (verdict () == CLUSTER_INFO && says ("All is well"));
}

/* ---- Ways to get a place. ---- */

/* Disk 4 is on member 0's host, and disk 5 on none that has a member. */
enum world {
  BETTER, /* both are there */
  ALONE,  /* disk 4 alone is */
  TRIAL,  /* all disks are of n1 */
};

static void
begin_world (enum world world)
{
  rig_init ();
  rig.disk[4].node = "n1";
  rig.disk[4].data_bytes = MiB (255); /* the smallest that will do */
  rig.disk[5].dead = world == ALONE;
  for (unsigned i = 0; world == TRIAL && i < DISKS; i++)
    rig.disk[i].node = "n1";
  make_array ();
  attach (true);
}

/* The outcome in each world. */
static void
ends (enum world world, bool takes)
{
  if (world == TRIAL || takes) {
    UNTIL (state (1) == MEMBER_IN_SYNC && (on (1, 4) || on (1, 5)));
    survives (world == BETTER ? FINE_MEMBERS : TOGETHER);
    assert (on (1, 5) == (world == BETTER));
  }
  else
    assert (on (1, 1));
  live_on (8);
  if (world == TRIAL)
    assert (verdict () == CLUSTER_WARNING && says ("is lost with host n1"));
  else if (world == ALONE && takes) {
    stop (1); /* the disk that it left would do, too */
    assert (verdict () == CLUSTER_WARNING && !says ("All is well"));
    assert (says ("have all of their copies on one host"));
    assert (says ("No free disk of another host"));
    rig.disk[5].dead = false;
    live_on (8);
    mend (0, 5);
  }
}

static void
created (enum world world)
{
  struct cluster_create create;
  static struct cluster_array plan;

  rig_init ();
  for (unsigned i = 0; i < DISKS; i++)
    if (world == TRIAL || i == 1)
      rig.disk[i].node = "n1";
  live_on (8);
  create = create_of ("a", LAYOUT_RAIDX, 0, MEMBERS);
  FLY (cluster_preflight_create (engine, in, &create, &plan, &f));
  assert (f.allowed == (world == TRIAL));
  if (world == TRIAL)
    assert (lines (TOGETHER) && lines ("all of their copies on one host"));
  else {
    assert (strcmp (f.why.code, "one-host") == 0 &&
            strstr (f.why.detail, "n1") && strstr (f.why.detail, "force"));
    REFUSED ("one-host", cluster_array_create (engine, in, &create));
    /* Other disks, or members that share no copies. */
    if (world == BETTER) {
      memcpy (create.disk[1], rig.disk[4].uuid, 16);
      DONE (cluster_array_create (engine, in, &create));
      UNTIL (array ()->rec.ready);
      survives (FINE_MEMBERS);
      return;
    }
    create.layout = LAYOUT_RAID10;
    FLY (cluster_preflight_create (engine, in, &create, &plan, &f));
    assert (f.allowed && lines (", and any 1 host"));
    create.layout = LAYOUT_RAIDX;
    create.force = true;
  }
  DONE (cluster_array_create (engine, in, &create));
  UNTIL (array ()->rec.ready);
  live_on (8);
  survives (TOGETHER);
  assert (verdict () == CLUSTER_WARNING && !says ("All is well"));
}

/* Member 1 is out. */
static void
replaced (enum world world)
{
  begin_world (world);
  die (1);
  if (world == TRIAL)
    DONE (cluster_member_replace (engine, in, "a", 1, rig.disk[4].uuid, false));
  else {
    REFUSED ("one-host", cluster_member_replace (engine, in, "a", 1,
                                                 rig.disk[4].uuid, false));
    assert (strstr (rig.detail, "host n1") && strstr (rig.detail, "force"));
    assert (!strstr (rig.detail, "choose disk /dev/d5") == (world == ALONE));
    FLY (cluster_preflight_replace (engine, in, "a", 1, rig.disk[4].uuid, true,
                                    &f));
    assert (f.allowed && lines ("the loss of host n1 loses"));
    if (world == ALONE)
      DONE (
        cluster_member_replace (engine, in, "a", 1, rig.disk[4].uuid, true));
    else
      DONE (
        cluster_member_replace (engine, in, "a", 1, rig.disk[5].uuid, false));
  }
  ends (world, true);
}

/* It is in-sync, and moves. */
static void
moved (enum world world)
{
  unsigned warnings;

  begin_world (world);
  warnings = rig.warnings;
  if (world != TRIAL)
    REFUSED ("one-host", cluster_member_replace (engine, in, "a", 1,
                                                 rig.disk[4].uuid, false));
  DONE (cluster_member_replace (engine, in, "a", 1,
                                rig.disk[world == BETTER ? 5 : 4].uuid, true));
  ends (world, true);
  assert (world != BETTER || rig.warnings == warnings);
}

/* While it is out, any host's loss loses data; and then that of one does. */
static void
spared (enum world world)
{
  begin_world (world);
  DONE (cluster_spare_add (engine, in, "a", rig.disk[4].uuid));
  if (world != ALONE)
    DONE (cluster_spare_add (engine, in, "a", rig.disk[5].uuid));
  spare_after (1000);
  die (1);
  ends (world, true);
}

static void
drained (enum world world)
{
  begin_world (world);
  if (world == TRIAL) {
    DONE (cluster_node_drain (engine, in, "n1", true));
    live_on (60);
    assert (on (1, 1) && state (1) == MEMBER_IN_SYNC);
    return;
  }
  DONE (cluster_node_drain (engine, in, "n2", true));
  live_on (200);
  ends (world, world == BETTER);
}

/* The members' own reports are taken as they are, and the verdict says what the array
 * survives. */
static void
imported (enum world world)
{
  struct cluster_import import = { .name = "a" };

  begin_world (world);
  if (world != TRIAL)
    rig.disk[1].node = "n1"; /* it was carried there meanwhile */
  memcpy (import.array, array ()->rec.uuid, 16);
  rig.attached = false;
  rig.disk[3].dead = true;
  import.without[3] = true;
  lose_database ();
  live_on (20);
  DONE (cluster_array_import (engine, in, &import));
  /* The host of a disk that is not there is not known, and is nobody else's. */
  assert (cluster_disk_is_name (array ()->disk[3]));
  UNTIL (array ()->disk[0]->took_place);
  /* It comes late. */
  rig.disk[3].dead = false;
  if (world == ALONE)
    rig.disk[3].node = "n1";
  UNTIL (state (3) == MEMBER_IN_SYNC);
  live_on (8);
  survives (TOGETHER);
  assert (verdict () == CLUSTER_WARNING && !says ("All is well"));
}

/* An administrator says that the disk was carried there. */
static void
carried (enum world world)
{
  begin_world (world);
  if (world == TRIAL)
    return;
  die (1);
  stop (1);
  DONE (cluster_disk_move (engine, in, rig.disk[1].uuid, "n1"));
  start_again (1);
  rig.disk[1].node = "n1";
  rig.disk[1].dead = false;
  UNTIL (state (1) == MEMBER_IN_SYNC);
  live_on (8);
  survives (TOGETHER);
  assert (verdict () == CLUSTER_WARNING && !says ("All is well"));
  if (world == BETTER)
    mend (0, 5);
}

static void
test_ways (void)
{
  static void (*const ways[]) (enum world world) = {
    created, replaced, moved, spared, drained, imported, carried,
  };

  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
    for (int world = BETTER; world <= TRIAL; world++)
      ways[i]((enum world) world);
}

/* ---- Distinctions.  ---- */

/* Groups share no copies: a host may have a member of each. */
static void
test_groups (void)
{
  struct cluster_create create;

  rig_init ();
  for (unsigned i = 0; i < DISKS; i++)
    rig.disk[i].node = i % 2 ? "n1" : "n2";
  live_on (8);
  create = create_of ("a", LAYOUT_RAIDX, 0, 4);
  REFUSED ("one-host", cluster_array_create (engine, in, &create));
  create.layout = LAYOUT_CHAINED;
  create.groups = 2;
  DONE (cluster_array_create (engine, in, &create));
  UNTIL (array ()->rec.ready);
  survives ("any 1 member of each of 2 groups, and any 1 host");
  attach (true);
  die (1);
  REFUSED ("one-host", cluster_member_replace (engine, in, "a", 1,
                                               rig.disk[4].uuid, false));
  DONE (cluster_member_replace (engine, in, "a", 1, rig.disk[5].uuid, false));
  UNTIL (state (1) == MEMBER_IN_SYNC);
  live_on (8);
  assert (verdict () == CLUSTER_INFO && says ("All is well"));
}

/* Of three copies two are on one host: its loss loses nothing, but another one could be
 * lost as well.
 */
static void
test_three_copies (void)
{
  rig_init ();
  rig.disk[1].node = "n1";
  make_array_of ("a", LAYOUT_RAID1, 0, 3);
  survives ("any 2 members, and any 1 host");
  assert (verdict () == CLUSTER_WARNING && says ("could survive more"));
  DONE (cluster_member_replace (engine, in, "a", 0, rig.disk[4].uuid, false));
  UNTIL (on (0, 4) && state (0) == MEMBER_IN_SYNC);
  live_on (8);
  survives ("any 2 members, and any 2 hosts");
  assert (verdict () == CLUSTER_INFO);
}

/* The same bay: it is no worse than it was, but a better disk is named. */
static void
test_same_host (void)
{
  begin_world (ALONE);
  die (1);
  DONE (cluster_member_replace (engine, in, "a", 1, rig.disk[4].uuid, true));
  UNTIL (state (1) == MEMBER_IN_SYNC);
  rig.disk[5].node = "n1";
  rig.disk[5].dead = false;
  live_on (8);
  die (0);
  DONE (cluster_member_replace (engine, in, "a", 0, rig.disk[5].uuid, false));
  UNTIL (state (0) == MEMBER_IN_SYNC);
  survives (TOGETHER);
}

/* While a member is out, hosts are counted, too. */
static void
test_degraded (void)
{
  rig_init ();
  rig.disk[1].node = "n1";
  make_array_of ("a", LAYOUT_RAID1, 0, 3);
  stop (2);
  survives ("any 1 more member, but not the loss of host n1 (when all members "
            "are in-sync: any 2 members, and any 1 host)");
}

/* The hosts of disks that an import did not find are unknown: they do not count as one
 * host. */
static void
test_unknown_hosts (void)
{
  struct cluster_import import = { .name = "a",
                                   .without = { 0, 1, 1 },
                                   .accept_loss = true };

  begin_array_of (LAYOUT_RAID1, 3);
  memcpy (import.array, array ()->rec.uuid, 16);
  rig.disk[1].dead = rig.disk[2].dead = true;
  lose_database ();
  live_on (20);
  DONE (cluster_array_import (engine, in, &import));
  assert (cluster_disk_is_name (array ()->disk[1]) &&
          cluster_disk_is_name (array ()->disk[2]));
  assert (cluster_array_hosts_survived (array (), NULL) == 2);
  assert (!says ("could survive more"));
}

/* An order to move: it waits, is carried out over weftd's death, and can be taken back. */
static void
scenario_move (void)
{
  begin_writing ();
  DONE (cluster_member_replace (engine, in, "a", 1, rig.disk[4].uuid, false));
  UNTIL (on (1, 4) && state (1) == MEMBER_IN_SYNC);
  assert (cluster_uuid_is_zero (member (1)->next_disk));
  UNTIL (known (1)->blank);
  assert (!cluster_node_is_draining (engine, "n2") &&
          member (1)->moved_from[0] == '\0');
}

static void
test_moves (void)
{
  begin_writing ();
  die (3);
  REFUSED ("in-sync", cluster_member_replace (engine, in, "a", 1,
                                              rig.disk[4].uuid, false));
  assert (strstr (rig.detail, "member 3 of array a"));
  rig.disk[3].dead = false;
  UNTIL (state (3) == MEMBER_IN_SYNC);

  /* The disk goes away while the member is on its way out: it stays. */
  rig.lags = true;
  DONE (cluster_member_replace (engine, in, "a", 1, rig.disk[4].uuid, false));
  assert (verdict () == CLUSTER_INFO &&
          says ("Member 1 of array a should move"));
  stop (4);
  rig.lags = false;
  live_on (60);
  UNTIL (state (1) == MEMBER_IN_SYNC);
  assert (on (1, 1) && says ("which can't take it now"));
  /* The request is dropped. */
  DONE (cluster_member_replace (engine, in, "a", 1, rig.disk[1].uuid, false));
  rig.disk[4].dead = false;
  live_on (60);
  assert (on (1, 1) && verdict () == CLUSTER_INFO);

  /* The disk is given to another array meanwhile. */
  rig.lags = true;
  DONE (cluster_member_replace (engine, in, "a", 1, rig.disk[4].uuid, false));
  make_array_of ("b", LAYOUT_RAID0, 4, 1);
  rig.lags = false;
  live_on (60);
  assert (cluster_uuid_is_zero (member (1)->next_disk));
  assert (on (1, 1) && state (1) == MEMBER_IN_SYNC);
}

int
main (void)
{
  test_ways ();
  test_groups ();
  test_three_copies ();
  test_same_host ();
  test_degraded ();
  test_unknown_hosts ();
  test_moves ();
  test_kills ("move", scenario_move);
  return 0;
}
