/* test-cluster-preflight.c: what a preflight says is what the action then does,
 * in whatever state things are; and it changes nothing.
 *
 * Administrators act at random on a cluster in which disks die and come back;
 * each action has a preflight first.  WEFT_SEED replays a run.
 */

#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <inttypes.h>

#include "cluster/cluster-preflight.h"
#include "test-cluster-rig.h"
#include "test-random.h"

static struct cluster_preflight f;

#define FLY(r, call)                                                           \
  do {                                                                         \
    struct cluster_input in_ = input ((r), ++(r)->op);                         \
    const struct cluster_input *in = &in_;                                     \
    unsigned steps_ = (r)->steps;                                              \
    call;                                                                      \
    assert (cluster_next_step ((r)->c) == NULL && (r)->steps == steps_);       \
    cluster_check ((r)->c);                                                    \
  } while (0)

/* The action is refused as was said, or done.  (Where weftd was killed meanwhile
 * it was asked for twice.)
 */
#define AS_SAID(r, call)                                                       \
  do {                                                                         \
    bool killed_ = (r)->killed;                                                \
                                                                               \
    ASK (r, call);                                                             \
    if (killed_ != (r)->killed)                                                \
      break;                                                                   \
    if (f.allowed != ((r)->code == NULL) ||                                    \
        (!f.allowed && (strcmp (f.why.code, (r)->code) != 0 ||                 \
                        strcmp (f.why.detail, (r)->detail) != 0))) {           \
      fprintf (stderr, "line %d: said %s: %s; did %s: %s\n", __LINE__,         \
               f.allowed ? "yes" : f.why.code, f.why.detail,                   \
               (r)->code ? (r)->code : "it", (r)->detail);                     \
      abort ();                                                                \
    }                                                                          \
    seen[f.allowed]++;                                                         \
  } while (0)

static unsigned seen[2];

/* weftd may be killed by the very record that lets it join, and it may be in-sync
 * before it is asked again.
 */
static void
join_again (struct rig *r, unsigned m)
{
  bool killed = r->killed;

  ASK (r, cluster_member_join (r->c, in, "a", m));
  if (r->killed && !killed && r->code && strcmp (r->code, "in-sync") == 0)
    return;
  if (r->code)
    DONE (r, cluster_member_join (r->c, in, "a", m));
}

/* ---- At random. ---- */

static void
act (struct rig *r)
{
  unsigned m = (unsigned) (test_random (MEMBERS + 1));
  const uint8_t *disk = r->disk[test_random (DISKS)].uuid;
  bool on = test_random (3) > 0, force = test_random (4) == 0;
  struct cluster_array *plan;
  struct cluster_create create = { .layout = LAYOUT_RAID0,
                                   .groups = 1,
                                   .members = 1,
                                   .unit = KiB (256),
                                   .name = "b" };
  char node[16];

  snprintf (node, sizeof node, "n%u", (unsigned) (test_random (DISKS + 1)) + 1);
  switch (test_random (9)) {
  case 0:
    memcpy (create.disk[0], disk, 16);
    plan = calloc (1, sizeof *plan);
    assert (plan);
    FLY (r, cluster_preflight_create (r->c, in, &create, plan, &f));
    AS_SAID (r, cluster_array_create (r->c, in, &create));
    free (plan);
    return;
  case 1:
    FLY (r, cluster_preflight_delete (r->c, in, "b", &f));
    AS_SAID (r, cluster_array_delete (r->c, in, "b"));
    return;
  case 2:
    FLY (r, cluster_preflight_replace (r->c, in, "a", m, disk, &f));
    AS_SAID (r, cluster_member_replace (r->c, in, "a", m, disk));
    return;
  case 3:
    FLY (r, cluster_preflight_cancel (r->c, in, "a", m, &f));
    AS_SAID (r, cluster_member_cancel (r->c, in, "a", m));
    if (r->code == NULL)
      join_again (r, m);
    return;
  case 4:
    FLY (r, cluster_preflight_maintain (r->c, in, node, on, force, &f));
    AS_SAID (r, cluster_node_maintain (r->c, in, node, on, force));
    return;
  case 5:
    FLY (r, cluster_preflight_drain (r->c, in, node, &f));
    AS_SAID (r, cluster_node_drain (r->c, in, node, true));
    return;
  case 6: /* what is drained for ever leaves no room for the rest */
    ASK (r, cluster_node_drain (r->c, in, node, false));
    return;
  case 7:
    FLY (r, cluster_preflight_remove (r->c, in, node, &f));
    AS_SAID (r, cluster_node_remove (r->c, in, node));
    return;
  case 8:
    FLY (r, cluster_preflight_forget (r->c, in, disk, &f));
    AS_SAID (r, cluster_disk_forget (r->c, in, disk));
    return;
  }
}

/* The group of "a" stays whole but for one member, and so do its copies: the
 * rig's store sees to that.
 */
static void
live (struct rig *r)
{
  struct fake_disk *d = &r->disk[test_random (DISKS)];
  unsigned dead = 0;

  for (unsigned i = 0; i < DISKS; i++)
    dead += r->disk[i].dead;
  if (d->dead)
    d->dead = false;
  else if (dead < 2 && test_random (3) == 0)
    d->dead = true;
  rounds (r, (unsigned) (test_random (60)));
  for (unsigned m = 0; r->attached && m < MEMBERS; m++)
    for (unsigned i = 0; i < DISKS; i++)
      if (r->disk[i].dead && state (r, m) == MEMBER_IN_SYNC &&
          memcmp (array (r)->disk[m]->rec.uuid, r->disk[i].uuid, 16) == 0)
        report (r, m);
}

static void
test_random_actions (void)
{
  struct rig r;
  uint64_t kill_at = test_random (200);

  rig_init (&r, (unsigned) kill_at);
  make_array (&r);
  if (test_random (3))
    attach (&r, true);
  for (unsigned i = 0; i < 150 && array (&r)->rec.epoch < 900; i++) {
    live (&r);
    act (&r);
  }
  cluster_free (r.c);
}

/* ---- What it says. ---- */

static bool
says (const char *words)
{
  for (unsigned i = 0; i < f.lines_count; i++)
    if (strstr (f.line[i], words))
      return true;
  return false;
}

static void
test_words (void)
{
  struct rig r;
  uint64_t half;

  begin_writing (&r, 0);
  cluster_ok_to_stop (r.c, "n2", &f);
  half = array (&r)->layout.size / 2;
  assert (f.allowed && f.unreachable_bytes == 0 && f.exposed_bytes == half);
  assert (says ("single copy"));
  cluster_ok_to_stop (r.c, "n5", &f);
  assert (f.allowed && f.exposed_bytes == 0 && says ("No array"));
  cluster_ok_to_stop (r.c, "host", &f);
  assert (f.allowed && says ("clients are interrupted"));

  FLY (&r, cluster_preflight_drain (r.c, in, "n2", &f));
  assert (f.allowed && f.rebuild_bytes == array (&r)->rec.member_bytes);
  assert (f.exposed_bytes == half && f.lost_bytes == 0);
  assert (says ("becomes disk /dev/d4 of node n5"));
  FLY (&r, cluster_preflight_delete (r.c, in, "a", &f));
  assert (!f.allowed && strcmp (f.why.code, "held") == 0);
  assert (f.lost_bytes == array (&r)->layout.size && says ("for good"));
  assert (strcmp (f.confirm, "a") == 0);
  FLY (&r, cluster_preflight_evict (r.c, in, r.session, &f));
  assert (f.allowed && says ("did not flush may be lost"));
  FLY (&r, cluster_preflight_evict (r.c, in, r.session + 1, &f));
  assert (!f.allowed && strcmp (f.why.code, "unknown-session") == 0);

  r.disk[3].dead = true;
  lose (&r, 3);
  cluster_ok_to_stop (r.c, "n2", &f);
  assert (!f.allowed && f.unreachable_bytes > 0);
  assert (says ("could not serve") && says ("Member 3"));
  cluster_ok_to_stop (r.c, "n4", &f);
  assert (f.allowed && f.unreachable_bytes == 0 && f.exposed_bytes == 0);
  FLY (&r, cluster_preflight_maintain (r.c, in, "n2", true, false, &f));
  assert (!f.allowed && f.unreachable_bytes > 0);
  FLY (&r, cluster_preflight_maintain (r.c, in, "n2", true, true, &f));
  assert (f.allowed && says ("could not serve"));
  FLY (&r, cluster_preflight_replace (r.c, in, "a", 3, r.disk[4].uuid, &f));
  assert (f.allowed && f.rebuild_bytes == array (&r)->rec.member_bytes);
  cluster_free (r.c);
}

/* How many lines say so. */
static unsigned
lines (const char *words)
{
  unsigned count = 0;

  for (unsigned i = 0; i < f.lines_count; i++)
    count += strstr (f.line[i], words) != NULL;
  return count;
}

/* A node that has both copies of something is named, once. */
static void
test_crowded (void)
{
  struct cluster_create create = { .layout = LAYOUT_RAIDX,
                                   .groups = 1,
                                   .members = 4,
                                   .unit = KiB (256),
                                   .name = "a" };
  struct cluster_array *plan = calloc (1, sizeof *plan);
  struct rig r;

  assert (plan);
  rig_init (&r, 0);
  r.disk[2].uuid[0] = r.disk[0].uuid[0]; /* both on n1 */
  rounds (&r, 10);
  for (unsigned m = 0; m < 4; m++)
    memcpy (create.disk[m], r.disk[m].uuid, 16);
  FLY (&r, cluster_preflight_create (r.c, in, &create, plan, &f));
  assert (f.allowed && lines ("The loss of node n1 would lose data") == 1);
  assert (lines ("The loss of node") == 1);

  /* Pairs of neighbours: positions 0 and 2 mirror each other. */
  create.layout = LAYOUT_RAID10;
  FLY (&r, cluster_preflight_create (r.c, in, &create, plan, &f));
  assert (f.allowed && lines ("The loss of node n1 would lose data") == 1);
  memcpy (create.disk[1], r.disk[2].uuid, 16);
  memcpy (create.disk[2], r.disk[1].uuid, 16);
  FLY (&r, cluster_preflight_create (r.c, in, &create, plan, &f));
  assert (f.allowed && lines ("The loss of node") == 0);
  cluster_free (r.c);
  free (plan);
}

/* Two members leave, and each disk is promised to one of them; as they then go. */
static void
test_drain_of_two (void)
{
  struct rig r;

  rig_init (&r, 0);
  r.disk[2].uuid[0] = r.disk[0].uuid[0]; /* both on n1 */
  r.disk[5].dead = true;
  make_array_of (&r, "a", LAYOUT_RAID1, 0, 2);
  make_array_of (&r, "b", LAYOUT_RAID1, 2, 2);
  FLY (&r, cluster_preflight_drain (r.c, in, "n1", &f));
  assert (f.allowed && f.rebuild_bytes == array (&r)->rec.member_bytes);
  assert (lines (" becomes disk /dev/d4 of node n5") == 1);
  assert (lines ("The drain waits for") == 1 && says ("1 for other members"));
  DONE (&r, cluster_node_drain (r.c, in, "n1", true));
  rounds (&r, 200);
  assert (!cluster_node_drained (r.c, "n1"));
  DONE (&r, cluster_node_drain (r.c, in, "n1", false));
  cluster_free (r.c);

  rig_init (&r, 0);
  r.disk[2].uuid[0] = r.disk[0].uuid[0];
  make_array_of (&r, "a", LAYOUT_RAID1, 0, 2);
  make_array_of (&r, "b", LAYOUT_RAID1, 2, 2);
  FLY (&r, cluster_preflight_drain (r.c, in, "n1", &f));
  assert (lines (" becomes disk /dev/d4 of node n5") == 1);
  assert (lines (" becomes disk /dev/d5 of node n6") == 1);
  assert (lines ("The drain waits for") == 0);
  DONE (&r, cluster_node_drain (r.c, in, "n1", true));
  UNTIL (&r, cluster_node_drained (r.c, "n1"));
  cluster_free (r.c);
}

/* As many nodes as there may be: one without a record gets none. */
static void
test_too_many_nodes (void)
{
  struct rig r;
  struct cluster_node *n;

  rig_init (&r, 0);
  make_array (&r);
  DONE (&r, cluster_node_maintain (r.c, in, "n1", true, false));
  for (unsigned i = 1; i < NODES_MAX; i++) {
    n = cluster_alloc (sizeof *n);
    snprintf (n->rec.name, sizeof n->rec.name, "x%u", i);
    TAILQ_INSERT_TAIL (&r.c->nodes, n, link);
  }
  FLY (&r, cluster_preflight_drain (r.c, in, "n2", &f));
  assert (!f.allowed && strcmp (f.why.code, "too-many") == 0);
  AS_SAID (&r, cluster_node_drain (r.c, in, "n2", true));
  FLY (&r, cluster_preflight_maintain (r.c, in, "n2", true, false, &f));
  assert (!f.allowed && strcmp (f.why.code, "too-many") == 0);
  AS_SAID (&r, cluster_node_maintain (r.c, in, "n2", true, false));
  REFUSED (&r, "too-many", cluster_node_add (r.c, in, "n2"));
  FLY (&r, cluster_preflight_drain (r.c, in, "n1", &f));
  assert (f.allowed);
  AS_SAID (&r, cluster_node_drain (r.c, in, "n1", true));
  cluster_free (r.c);
}

int
main (void)
{
  test_random_start ();
  test_words ();
  test_crowded ();
  test_drain_of_two ();
  test_too_many_nodes ();
  for (unsigned i = 0; i < 40; i++)
    test_random_actions ();
  printf ("%u allowed, %u refused\n", seen[1], seen[0]);
  assert (seen[1] > 100 && seen[0] > 100);
  return 0;
}
