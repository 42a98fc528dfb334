/* test-cluster-preflight.c: an action does what its preflight says, in any state, and a
 * preflight changes nothing.
 *
 * Administrators act at random on a cluster in which disks die and come back;
 * each action has a preflight first.  WEFT_SEED replays a run.
 */

#include <config.h>

#include <inttypes.h>

#include "cluster/cluster-preflight.h"
#include "test-cluster-rig.h"
#include "test-random.h"

static struct cluster_preflight f;

/* The action is refused or done as the preflight said.  (If weftd was killed meanwhile,
 * the action was requested twice.)
 */
#define AS_SAID(call)                                                          \
  do {                                                                         \
    bool killed_ = weftd.killed;                                               \
                                                                               \
    ASK (call);                                                                \
    if (killed_ != weftd.killed)                                               \
      break;                                                                   \
    if (f.allowed != (rig.code == NULL) ||                                     \
        (!f.allowed && (strcmp (f.why.code, rig.code) != 0 ||                  \
                        strcmp (f.why.detail, rig.detail) != 0))) {            \
      fprintf (stderr, "line %d: said %s: %s; did %s: %s\n", __LINE__,         \
               f.allowed ? "yes" : f.why.code, f.why.detail,                   \
               rig.code ? rig.code : "it", rig.detail);                        \
      abort ();                                                                \
    }                                                                          \
    seen[f.allowed]++;                                                         \
  } while (0)

static unsigned seen[2];

/* weftd may be killed by the very record that lets it join, and it may be in-sync
 * before it is asked again.
 */
static void
join_again (unsigned m)
{
  bool killed = weftd.killed;

  ASK (cluster_member_join (engine, in, "a", m));
  if (weftd.killed && !killed && rig.code && strcmp (rig.code, "in-sync") == 0)
    return;
  if (rig.code)
    DONE (cluster_member_join (engine, in, "a", m));
}

/* ---- At random. ---- */

static void
act (void)
{
  unsigned m = (unsigned) (test_random (MEMBERS + 1));
  unsigned number = (unsigned) test_random (DISKS);
  const uint8_t *disk = rig.disk[number].uuid;
  struct cluster_create create = create_of ("b", LAYOUT_RAID0, number, 1);
  bool on = test_random (3) > 0, force = test_random (4) == 0;
  static struct cluster_array plan;
  char node[16];

  snprintf (node, sizeof node, "n%u", (unsigned) (test_random (DISKS + 1)) + 1);
  switch (test_random (9)) {
  case 0:
    FLY (cluster_preflight_create (engine, in, &create, &plan, &f));
    AS_SAID (cluster_array_create (engine, in, &create));
    return;
  case 1:
    FLY (cluster_preflight_delete (engine, in, "b", &f));
    AS_SAID (cluster_array_delete (engine, in, "b"));
    return;
  case 2:
    FLY (cluster_preflight_replace (engine, in, "a", m, disk, force, &f));
    AS_SAID (cluster_member_replace (engine, in, "a", m, disk, force));
    return;
  case 3:
    FLY (cluster_preflight_cancel (engine, in, "a", m, &f));
    AS_SAID (cluster_member_cancel (engine, in, "a", m));
    if (rig.code == NULL)
      join_again (m);
    return;
  case 4:
    FLY (cluster_preflight_maintain (engine, in, node, on, force, &f));
    AS_SAID (cluster_node_maintain (engine, in, node, on, force));
    return;
  case 5:
    FLY (cluster_preflight_drain (engine, in, node, &f));
    AS_SAID (cluster_node_drain (engine, in, node, true));
    return;
  case 6: /* an endless drain would leave no room for the other actions */
    ASK (cluster_node_drain (engine, in, node, false));
    return;
  case 7:
    FLY (cluster_preflight_remove (engine, in, node, &f));
    AS_SAID (cluster_node_remove (engine, in, node));
    return;
  case 8:
    FLY (cluster_preflight_forget (engine, in, disk, &f));
    AS_SAID (cluster_disk_forget (engine, in, disk));
    return;
  }
}

/* The group of "a" and its copies stay whole but for one member; the rig's store checks
 * that.
 */
static void
befall (void)
{
  struct fake_disk *d = &rig.disk[test_random (DISKS)];
  unsigned dead = 0;

  for (unsigned i = 0; i < DISKS; i++)
    dead += rig.disk[i].dead;
  if (d->dead)
    d->dead = false;
  else if (dead < 2 && test_random (3) == 0)
    d->dead = true;
  live_on ((unsigned) (test_random (60)));
  for (unsigned m = 0; rig.attached && m < MEMBERS; m++)
    for (unsigned i = 0; i < DISKS; i++)
      if (rig.disk[i].dead && state (m) == MEMBER_IN_SYNC &&
          memcmp (array ()->disk[m]->rec.uuid, rig.disk[i].uuid, 16) == 0)
        report (m);
}

static void
test_random_actions (void)
{
  rig_init ();
  weftd.kill_at = (unsigned) test_random (200);
  make_array ();
  if (test_random (3))
    attach (true);
  for (unsigned i = 0; i < 150 && array ()->rec.epoch < 900; i++) {
    befall ();
    act ();
  }
}

/* ---- What it says. ---- */

/* How many lines say so. */
static unsigned
lines (const char *words)
{
  unsigned count = 0;

  for (unsigned i = 0; i < f.lines_count; i++)
    count += strstr (f.line[i], words) != NULL;
  return count;
}

static void
test_words (void)
{
  uint64_t half;

  begin_writing ();
  cluster_preflight_ok_to_stop (engine, "n2", &f);
  half = array ()->layout.size / 2;
  assert (f.allowed && f.unreachable_bytes == 0 && f.exposed_bytes == half);
  assert (lines ("single copy"));
  cluster_preflight_ok_to_stop (engine, "n5", &f);
  assert (f.allowed && f.exposed_bytes == 0 && lines ("No array"));
  cluster_preflight_ok_to_stop (engine, "host", &f);
  assert (f.allowed && lines ("clients are interrupted"));

  FLY (cluster_preflight_drain (engine, in, "n2", &f));
  assert (f.allowed && f.rebuild_bytes == array ()->rec.member_bytes);
  assert (f.exposed_bytes == half && f.lost_bytes == 0);
  assert (lines ("becomes disk /dev/d4 of node n5"));
  FLY (cluster_preflight_delete (engine, in, "a", &f));
  assert (!f.allowed && strcmp (f.why.code, "held") == 0);
  assert (f.lost_bytes == array ()->layout.size && lines ("for good"));
  assert (strcmp (f.confirm, "a") == 0);
  FLY (cluster_preflight_evict (engine, in, rig.session, &f));
  assert (f.allowed && lines ("Unflushed writes of its clients may be lost"));
  FLY (cluster_preflight_evict (engine, in, rig.session + 1, &f));
  assert (!f.allowed && strcmp (f.why.code, "unknown-session") == 0);

  die (3);
  cluster_preflight_ok_to_stop (engine, "n2", &f);
  assert (!f.allowed && f.unreachable_bytes > 0);
  assert (lines ("could not serve") && lines ("Member 3"));
  cluster_preflight_ok_to_stop (engine, "n4", &f);
  assert (f.allowed && f.unreachable_bytes == 0 && f.exposed_bytes == 0);
  FLY (cluster_preflight_maintain (engine, in, "n2", true, false, &f));
  assert (!f.allowed && f.unreachable_bytes > 0);
  FLY (cluster_preflight_maintain (engine, in, "n2", true, true, &f));
  assert (f.allowed && lines ("could not serve"));
  FLY (cluster_preflight_replace (engine, in, "a", 3, rig.disk[4].uuid, false,
                                  &f));
  assert (f.allowed && f.rebuild_bytes == array ()->rec.member_bytes);
}

/* A node that has both copies of something is named, once. */
static void
test_crowded (void)
{
  static struct cluster_array plan;
  struct cluster_create create;

  rig_init ();
  rig.disk[2].uuid[0] = rig.disk[0].uuid[0]; /* both on n1 */
  live_on (10);
  create = create_of ("a", LAYOUT_RAIDX, 0, 4);
  FLY (cluster_preflight_create (engine, in, &create, &plan, &f));
  assert (!f.allowed && strcmp (f.why.code, "one-host") == 0);
  create.force = true;
  FLY (cluster_preflight_create (engine, in, &create, &plan, &f));
  assert (f.allowed && lines ("but not the loss of host n1") == 1);
  assert (lines ("have all of their copies on one host") == 1);

  /* Pairs of neighbours: positions 0 and 2 mirror each other. */
  create.layout = LAYOUT_RAID10;
  FLY (cluster_preflight_create (engine, in, &create, &plan, &f));
  assert (f.allowed && lines ("but not the loss of host n1") == 1);
  create.force = false;
  memcpy (create.disk[1], rig.disk[2].uuid, 16);
  memcpy (create.disk[2], rig.disk[1].uuid, 16);
  FLY (cluster_preflight_create (engine, in, &create, &plan, &f));
  assert (f.allowed && lines (", and any 1 host") == 1);
}

/* Two members leave n1, and each disk is promised to one of them; as they then go, if
 * there is room for both.
 */
static void
test_drain_of_two (bool room)
{
  rig_init ();
  rig.disk[2].uuid[0] = rig.disk[0].uuid[0];
  rig.disk[5].dead = !room;
  make_array_of ("a", LAYOUT_RAID1, 0, 2);
  make_array_of ("b", LAYOUT_RAID1, 2, 2);
  FLY (cluster_preflight_drain (engine, in, "n1", &f));
  assert (f.allowed);
  assert (f.rebuild_bytes == (room ? 2 : 1) * array ()->rec.member_bytes);
  assert (lines (" becomes disk /dev/d4 of node n5") == 1);
  assert (lines (" becomes disk /dev/d5 of node n6") == room);
  assert (lines ("The drain waits for") == !room);
  assert (lines ("1 for other members") == !room);
  DONE (cluster_node_drain (engine, in, "n1", true));
  live_on (200);
  assert (cluster_node_drained (engine, "n1") == room);
}

/* As many nodes as there may be: one without a record gets none. */
static void
test_too_many_nodes (void)
{
  struct cluster_node *n;

  begin_array ();
  DONE (cluster_node_maintain (engine, in, "n1", true, false));
  for (unsigned i = 1; i < NODES_MAX; i++) {
    n = alloc_zeroed (sizeof *n);
    snprintf (n->rec.name, sizeof n->rec.name, "x%u", i);
    TAILQ_INSERT_TAIL (&engine->nodes, n, link);
  }
  FLY (cluster_preflight_drain (engine, in, "n2", &f));
  assert (!f.allowed && strcmp (f.why.code, "too-many") == 0);
  AS_SAID (cluster_node_drain (engine, in, "n2", true));
  FLY (cluster_preflight_maintain (engine, in, "n2", true, false, &f));
  assert (!f.allowed && strcmp (f.why.code, "too-many") == 0);
  AS_SAID (cluster_node_maintain (engine, in, "n2", true, false));
  REFUSED ("too-many", cluster_node_add (engine, in, "n2"));
  FLY (cluster_preflight_drain (engine, in, "n1", &f));
  assert (f.allowed);
  AS_SAID (cluster_node_drain (engine, in, "n1", true));
}

int
main (void)
{
  test_random_start ();
  test_words ();
  test_crowded ();
  test_drain_of_two (false);
  test_drain_of_two (true);
  test_too_many_nodes ();
  for (unsigned i = 0; i < 40; i++)
    test_random_actions ();
  printf ("%u allowed, %u refused\n", seen[1], seen[0]);
  assert (seen[1] > 100 && seen[0] > 100);
  return 0;
}
