/* test-cluster-import.c: arrays are taken over from their members alone. */

#include <config.h>

#include "cluster/cluster-preflight.h"
#include "test-cluster-rig.h"

/* The requested import: array "a". */
static struct cluster_import import;

static void
lose_database_of_a (void)
{
  import = (struct cluster_import) { .name = "a" };
  memcpy (import.array, array ()->rec.uuid, 16);
  lose_database ();
  live_on (8);
}

/* After a kill weftd hears the members' reports again. */
static void
import_a (void)
{
  ASK (cluster_array_import (engine, in, &import));
  while (weftd.killed && rig.code && strcmp (rig.code, "exists") != 0) {
    live_on (8);
    ASK (cluster_array_import (engine, in, &import));
  }
  if (!weftd.killed)
    FINE ();
}

/* Every disk of the store was heard of, none is only a name. */
static void
all_disks_known (void)
{
  for (size_t i = 0; i < weftd.stored; i++)
    assert (weftd.store[i].kind != CLUSTER_RECORD_DISK ||
            weftd.store[i].disk.size);
}

/* The database is lost; member 1 is out, and member 2's disk is not there. */
static void
scenario_import (void)
{
  struct cluster_create other;
  struct fake_disk keep;
  uint64_t epoch;

  rig_init ();
  rig.spared = true;
  make_array ();
  epoch = array ()->rec.epoch;
  rig.disk[2].dead = rig.disk[4].dead = rig.disk[5].dead = true;
  memset (rig.disk[5].cluster, 0, 16);
  rig.disk[5].generation = 0;
  lose_database_of_a ();
  assert (TAILQ_EMPTY (cluster_disks (engine)));
  assert (!TAILQ_EMPTY (cluster_foreigns (engine)));
  REFUSED ("member-missing", cluster_array_import (engine, in, &import));
  import.without[2] = import.without[3] = true;
  REFUSED ("last-copy", cluster_array_import (engine, in, &import));
  import.without[3] = false;
  /* A clone of member 0. */
  keep = rig.disk[4];
  rig.disk[4] = rig.disk[0];
  snprintf (rig.disk[4].instance, 16, "clone");
  rig.disk[4].dead = false;
  live_on (4);
  REFUSED ("clone", cluster_array_import (engine, in, &import));
  assert (strstr (rig.detail, "/dev/d0") && strstr (rig.detail, "/dev/dclone"));
  rig.disk[4] = keep;
  live_on (80);
  import_a ();
  UNTIL (array ()->disk[0]->took_place);
  assert (array ()->rec.ready && array ()->rec.epoch > epoch);
  assert (state (0) == MEMBER_IN_SYNC && state (2) == MEMBER_OUT);
  assert (memcmp (array ()->disk[0]->rec.key, array ()->disk[1]->rec.key,
                  KEY_BYTES) != 0);
  live_on (60);
  assert (cluster_read_only (engine) == NULL);
  attach (true);
  /* A blank disk takes the place of what is only a name. */
  rig.disk[5].dead = false;
  UNTIL (known (5));
  DONE (cluster_member_replace (engine, in, "a", 2, rig.disk[5].uuid, false));
  UNTIL (state (2) == MEMBER_IN_SYNC);
  all_disks_known ();
  other = create_of ("b", LAYOUT_RAID0, 0, 1);
  REFUSED ("in-use", cluster_array_create (engine, in, &other));
}

/* Two arrays of one cluster, one after the other; and one of another cluster,
 * which is none of ours any more.
 */
static void
test_second (void)
{
  struct cluster_import b = { .name = "a" };
  struct cluster_array *second;
  uint8_t cluster[16];
  uint64_t generation;

  begin_array ();
  make_array_of ("b", LAYOUT_RAID1, 4, 2);
  memcpy (b.array, cluster_array_find (engine, "b")->rec.uuid, 16);
  memcpy (cluster, cluster_identity (engine)->uuid, 16);
  for (unsigned i = 4; i < DISKS; i++)
    memset (rig.disk[i].cluster, 9, 16);
  lose_database_of_a ();
  assert (memcmp (cluster_identity (engine)->uuid, cluster, 16) != 0);
  import_a ();
  assert (memcmp (cluster_identity (engine)->uuid, cluster, 16) == 0);
  generation = cluster_identity (engine)->generation;
  live_on (4);
  REFUSED ("exists", cluster_array_import (engine, in, &b));
  snprintf (b.name, sizeof b.name, "b");
  REFUSED ("not-empty", cluster_array_import (engine, in, &b));
  for (unsigned i = 4; i < DISKS; i++)
    memcpy (rig.disk[i].cluster, cluster, 16);
  live_on (4);
  assert (known (4) == NULL);
  DONE (cluster_array_import (engine, in, &b));
  assert (TAILQ_EMPTY (cluster_foreigns (engine)));
  REFUSED ("exists", cluster_array_import (engine, in, &b));
  assert (cluster_identity (engine)->generation == generation);
  second = cluster_array_find (engine, "b");
  UNTIL (second->disk[0]->took_place && second->disk[1]->took_place);
  UNTIL (array ()->disk[0]->took_place);
  assert (strcmp (cluster_array_state (second), "ready") == 0);
  assert (strcmp (cluster_array_state (array ()), "ready") == 0);
  assert (cluster_read_only (engine) == NULL);
  restart ();
  UNTIL (cluster_array_find (engine, "b")->disk[1]->took_place);
}

/* A disk from yesterday lacks the newest epoch.  If the array can do without it, it is
 * given up and rebuilt in full; otherwise its loss must be accepted.
 */
static void
test_stale (bool alone)
{
  struct fake_disk old;

  begin_array ();
  old = rig.disk[3];
  attach (true);
  detach ();
  live_on (8);
  assert (old.states_epoch < rig.disk[0].states_epoch);
  rig.disk[3] = old;
  rig.disk[0].dead = alone; /* it has the other copies */
  lose_database_of_a ();
  import.without[0] = alone;
  REFUSED ("behind", cluster_array_import (engine, in, &import));
  assert (strstr (rig.detail, "Member 3: disk /dev/d3 of node n4"));
  import.without[3] = true;
  if (alone) {
    REFUSED ("last-copy", cluster_array_import (engine, in, &import));
    import.without[3] = false;
    import.accept_loss = true;
  }
  import_a ();
  if (!alone)
    UNTIL (array ()->disk[3]->rec.size > 0);
  assert (state (3) == (alone ? MEMBER_IN_SYNC : MEMBER_OUT));
  assert (state (2) == MEMBER_IN_SYNC);
  assert (member (3)->reset == !alone);
  if (!alone)
    rebuilt_in_full (3);
}

/* weftd ends when all members have confirmed an epoch, and before one of them has heard
 * of its COMMIT.  It is taken, unless it does not say that it was a member before.
 */
static void
test_confirmed (void)
{
  struct fake_disk *d = &rig.disk[3], before;

  begin_array ();
  before = *d;
  attach (true);
  live_on (8);
  assert (before.states_epoch < d->states_epoch && before.round == d->round);
  assert (before.min_epoch < d->min_epoch);
  d->states_epoch = before.states_epoch;
  lose_database_of_a ();
  d->states[3] = MEMBER_OUT;
  live_on (4);
  REFUSED ("behind", cluster_array_import (engine, in, &import));
  d->states[3] = MEMBER_IN_SYNC;
  d->states_epoch = 0;
  live_on (4);
  REFUSED ("behind", cluster_array_import (engine, in, &import));
  d->states_epoch = before.states_epoch;
  live_on (4);
  import_a ();
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (state (m) == MEMBER_IN_SYNC);
}

/* A blank disk was enrolled before the import: it stays, and can serve. */
static void
test_blank_first (void)
{
  struct fake_disk *blank = &rig.disk[5];

  begin_array ();
  rig.disk[1].dead = true;
  memset (blank->cluster, 0, 16);
  blank->generation = 0;
  lose_database_of_a ();
  import.without[1] = true;
  UNTIL (cluster_disk_find (engine, blank->uuid));
  assert (cluster_uuid_equal (blank->cluster, cluster_identity (engine)->uuid));
  import_a ();
  live_on (4);
  assert (cluster_uuid_equal (blank->cluster, cluster_identity (engine)->uuid));
  assert (cluster_uuid_equal (blank->cluster, rig.disk[0].cluster));
  DONE (cluster_member_replace (engine, in, "a", 1, blank->uuid, false));
  UNTIL (state (1) == MEMBER_IN_SYNC);
  restart ();
  live_on (8);
  assert (array ()->disk[1]->took_place);
}

/* A weftd that was being restored has told its generation to a blank disk, and nothing to
 * the members, when its database was lost again.
 */
static void
test_blank_of_a_restore (void)
{
  struct fake_disk *blank = &rig.disk[5];

  begin_array ();
  blank->dead = true;
  blank->generation = 1700000000; /* as weftd_init begins */
  lose_database_of_a ();
  import_a ();
  blank->dead = false;
  live_on (8);
  assert (!cluster_read_only (engine));
  assert (cluster_disk_find (engine, blank->uuid));
}

/* The number-th disk of a node of another cluster asks. */
static void
foreign_beat_of (const char *node, unsigned number)
{
  struct cluster_disk_heartbeat hb = { .uri = "nbd://127.0.0.1:2",
                                       .instance = "f",
                                       .size = MiB (256),
                                       .data_bytes = MiB (255),
                                       .has_place = true };

  memset (hb.cluster, 9, 16);
  memset (hb.array, 8, 16);
  memcpy (hb.uuid, &number, sizeof number);
  hb.uuid[15] = 1;
  snprintf (hb.node, sizeof hb.node, "%s", node);
  snprintf (hb.path, sizeof hb.path, "/dev/f%u", number);
  CALL (++weftd.op, cluster_disk_heartbeat (engine, in, &hb));
}

static void
foreign_beat (unsigned number)
{
  foreign_beat_of ("far", number);
}

static unsigned
foreigns (const char *path)
{
  const struct cluster_foreign *f;
  unsigned count = 0;

  TAILQ_FOREACH (f, cluster_foreigns (engine), link)
    count += path == NULL || strcmp (f->hb.path, path) == 0;
  return count;
}

/* The memory for foreign disks is bounded, in number and in time. */
static void
test_foreigns (void)
{
  rig_init ();
  for (unsigned i = 0; i < DISKS; i++)
    rig.disk[i].dead = true;
  memset (import.array, 8, 16);
  for (unsigned i = 0; i < NODE_DISKS_MAX + 44; i++)
    foreign_beat (i);
  assert (foreigns (NULL) == NODE_DISKS_MAX);
  assert (!foreigns ("/dev/f43") && foreigns ("/dev/f44") == 1);
  foreign_beat (44); /* the one that was heard longest ago goes */
  foreign_beat (1000);
  assert (foreigns (NULL) == NODE_DISKS_MAX);
  assert (!foreigns ("/dev/f45") && foreigns ("/dev/f44") == 1);
  REFUSED ("clone", cluster_array_import (engine, in, &import));
  live_on (4 * 16); /* a silent disk is no candidate */
  REFUSED ("unknown-array", cluster_array_import (engine, in, &import));
  live_on (4 * (9 * 60 + 40));
  assert (foreigns (NULL) == NODE_DISKS_MAX);
  foreign_beat (50);
  live_on (4 * 8);
  assert (foreigns (NULL) == 1 && foreigns ("/dev/f50") == 1);
  live_on (4 * (9 * 60 + 50));
  assert (foreigns (NULL) == 1);
  live_on (4 * 3);
  assert (foreigns (NULL) == 0);
  assert (rig.steps == 0 && TAILQ_EMPTY (cluster_disks (engine)));
}

/* A node with very many disks displaces none of another node, and all nodes together have
 * a bound.
 */
static void
test_foreigns_of_nodes (void)
{
  char node[16];

  rig_init ();
  for (unsigned i = 0; i < DISKS; i++)
    rig.disk[i].dead = true;
  foreign_beat_of ("honest", 7);
  for (unsigned i = 100; i < 100 + 2 * NODE_DISKS_MAX; i++)
    foreign_beat_of ("greedy", i);
  assert (foreigns ("/dev/f7") == 1);
  assert (foreigns (NULL) == NODE_DISKS_MAX + 1);
  for (unsigned n = 0; n < DISKS_MAX / NODE_DISKS_MAX; n++) {
    snprintf (node, sizeof node, "g%u", n);
    foreign_beat_of ("honest", 7);
    for (unsigned i = 1000; i < 1000 + NODE_DISKS_MAX; i++)
      foreign_beat_of (node, i);
  }
  assert (foreigns (NULL) == DISKS_MAX && foreigns ("/dev/f7") == 1);
}

/* Epochs that no weftd ever gave to a disk are refused, even from a disk that is given
 * up: weftd could count on from them only once, or not at all.
 */
static void
test_nonsense (void)
{
  struct fake_disk honest;

  for (unsigned what = 0; what < 4; what++) {
    begin_array ();
    honest = rig.disk[1];
    if (what == 0)
      rig.disk[1].generation = GENERATION_MAX;
    else if (what == 1)
      rig.disk[1].min_epoch = EPOCH_MAX;
    else if (what == 2)
      rig.disk[1].states_epoch = EPOCH_MAX;
    else
      rig.disk[1].round = EPOCH_MAX;
    lose_database_of_a ();
    assert (strcmp (rig.disk[1].refused, "nonsense") == 0);
    REFUSED ("member-missing", cluster_array_import (engine, in, &import));
    import.without[1] = true;
    import_a ();
    assert (array ()->rec.epoch < AHEAD_MAX && array ()->rec.round < AHEAD_MAX);
    assert (cluster_identity (engine)->generation < AHEAD_MAX);
    restart ();
    live_on (8);
    honest.op = 0;
    rig.disk[1] = honest;
    rebuilt_in_full (1);
  }
}

/* Two disks with one UUID, in different places: one of them at least is a copy of
 * something else.
 */
static void
test_twins (void)
{
  begin_array ();
  memcpy (rig.disk[1].uuid, rig.disk[2].uuid, 16);
  lose_database_of_a ();
  REFUSED ("clone", cluster_array_import (engine, in, &import));
  assert (strstr (rig.detail, "/dev/d1") && strstr (rig.detail, "/dev/d2"));
}

/* "a" is imported; its member 1 was out by then, and did not ask.  Returns the
 * epoch whose states were imported.
 */
static uint64_t
import_without_1 (void)
{
  uint64_t imported;

  rig_init ();
  rig.spared = true;
  rig.disk[4].dead = rig.disk[5].dead = true;
  make_array ();
  attach (true);
  live_on (8);
  die (1);
  detach ();
  live_on (8);
  imported = rig.disk[0].states_epoch;
  assert (rig.disk[1].states_epoch < imported);
  lose_database_of_a ();
  import_a ();
  UNTIL (array ()->disk[0]->took_place);
  assert (state (1) == MEMBER_OUT);
  return imported;
}

/* It asks, and is refused: so nothing is known of it, and its place is as it was. */
static void
refused_place (struct fake_disk *d, const char *why)
{
  unsigned steps;

  d->dead = false;
  d->op = 0;
  d->refused = NULL;
  UNTIL (d->refused);
  assert (strcmp (d->refused, why) == 0);
  live_on (8);
  steps = rig.steps;
  live_on (20);
  assert (rig.steps == steps);
  assert (cluster_disk_find (engine, d->uuid) == NULL);
  assert (state (1) == MEMBER_OUT && array ()->disk[1]->rec.size == 0);
  assert (cluster_read_only (engine) == NULL);
  d->dead = true;
  live_on (4);
}

/* Its disk comes by itself, and is rebuilt in full. */
static void
scenario_return (void)
{
  struct fake_disk *d = &rig.disk[1];
  import_without_1 ();
  attach (true);
  assert (says ("member 1 (a disk that is not known yet) is out"));
  assert (says ("Start its member process again"));
  d->full = d->dead = false;
  UNTIL (array ()->disk[1]->rec.size > 0);
  assert (state (1) == MEMBER_OUT && member (1)->reset);
  assert (on (1, 1));
  rebuilt_in_full (1);
  all_disks_known ();
}

/* It is like that member, but for this. */
#define BUT(change, why) (*d = like, change, refused_place (d, why))

/* A disk claims to be that member and is another, or has more than the others. */
static void
test_not_it (void)
{
  struct fake_disk *d = &rig.disk[4], it, like;
  uint64_t imported = import_without_1 ();

  it = like = rig.disk[1];
  memcpy (like.uuid, d->uuid, 16);
  BUT (d->layout.unit *= 2, "disagree");
  BUT (d->layout.groups = 2, "disagree");
  BUT (d->layout.member_bytes -= MiB (4), "disagree");
  BUT (memset (d->cluster, 0, 16), "disagree");
  BUT (memset (d->cluster, 9, 16), "foreign-cluster");
  BUT (d->position = 2, "not-a-member");
  BUT (d->data_bytes = d->layout.member_bytes - 4096, "truncated");
  BUT (d->states_epoch = imported + 1, "newer");
  restart ();
  live_on (8);
  refused_place (d, "newer");

  /* Of two the first gets it, and it is the place's disk from then on. */
  d->states_epoch = imported;
  rig.disk[1].dead = d->dead = false;
  UNTIL (state (1) == MEMBER_IN_SYNC);
  assert (on (1, 1));
  assert (strcmp (d->refused, "not-a-member") == 0);
  assert (d->sequence == it.sequence);
  assert (cluster_disk_find (engine, d->uuid) == NULL);

  /* A copy of it, started on another host. */
  import_without_1 ();
  d = &rig.disk[4];
  it = rig.disk[1];
  *d = it;
  snprintf (d->instance, sizeof d->instance, "clone");
  rig.disk[1].dead = d->dead = false;
  UNTIL (state (1) == MEMBER_IN_SYNC);
  UNTIL (d->refused && strcmp (d->refused, "double-used") == 0);
  assert (d->sequence == it.sequence);

  /* The place was given to a blank disk meanwhile. */
  import_without_1 ();
  d = &rig.disk[5];
  memset (d->array, 0, 16);
  d->dead = false;
  UNTIL (cluster_disk_find (engine, d->uuid));
  DONE (cluster_member_replace (engine, in, "a", 1, d->uuid, false));
  it = rig.disk[1];
  rig.disk[1].dead = false;
  UNTIL (state (1) == MEMBER_IN_SYNC);
  assert (on (1, 5) && strcmp (rig.disk[1].refused, "not-a-member") == 0);
  assert (rig.disk[1].sequence == it.sequence);

  /* An administrator holds the place: its disk is known, and stays out. */
  import_without_1 ();
  DONE (cluster_member_cancel (engine, in, "a", 1));
  rig.disk[1].dead = false;
  UNTIL (array ()->disk[1]->rec.size > 0);
  live_on (80);
  assert (state (1) == MEMBER_OUT && member (1)->held);
  DONE (cluster_member_join (engine, in, "a", 1));
  UNTIL (state (1) == MEMBER_IN_SYNC);
}

/* A member was joining.  late: it is in-sync by the newest epoch, of which it has not
 * heard itself: it may be an old copy.
 */
static void
test_joiner (bool late)
{
  struct fake_disk *d = &rig.disk[1], then;

  begin_copying (LAYOUT_RAIDX, MEMBERS);
  live_on (8);
  assert (d->states[1] == MEMBER_JOINING &&
          rig.disk[0].states[1] == MEMBER_JOINING);
  then = *d;
  d->stuck = false;
  if (late) {
    UNTIL (rig.disk[0].states[1] == MEMBER_IN_SYNC);
    *d = then;
    assert (d->states_epoch < rig.disk[0].states_epoch);
  }
  rig.attached = false;
  lose_database_of_a ();
  d->stuck = d->full = false;
  if (late)
    REFUSED ("behind", cluster_array_import (engine, in, &import));
  import.without[1] = late;
  import_a ();
  UNTIL (array ()->disk[1]->rec.size > 0);
  assert (state (1) == MEMBER_OUT && member (1)->reset);
  rebuilt_in_full (1);
  assert (cluster_read_only (engine) == NULL);
}

/* Three members stand at three epochs; of a raid-1 the newest alone is believed. */
static void
test_three_epochs (void)
{
  uint64_t newest;

  begin_array_of (LAYOUT_RAID1, 3);
  for (unsigned m = 0; m < 2; m++) {
    attach (true);
    live_on (8);
    die (m);
    detach ();
    live_on (8);
  }
  newest = rig.disk[2].states_epoch;
  assert (rig.disk[0].states_epoch < rig.disk[1].states_epoch &&
          rig.disk[1].states_epoch < newest);
  rig.disk[0].dead = rig.disk[1].dead = false;
  lose_database_of_a ();
  import_a ();
  assert (state (2) == MEMBER_IN_SYNC && array ()->rec.epoch > newest);
  for (unsigned m = 0; m < 2; m++)
    assert (state (m) == MEMBER_OUT && member (m)->reset);
  UNTIL (whole ());

  /* The newest disk does not ask.  weftd does not know that it exists; when it comes it
   * is left unchanged, because it may have the missing data.
   */
  begin_writing_to (LAYOUT_RAID1, 2);
  live_on (8);
  rig.disk[0].dead = true;
  rig.disk[0].op = 0; /* it does not hear the answer to its last words */
  lose (0);
  live_on (8);
  detach ();
  live_on (8);
  assert (rig.disk[1].states_epoch > rig.disk[0].states_epoch + 1);
  rig.disk[1].dead = true;
  rig.disk[0].dead = false;
  lose_database_of_a ();
  REFUSED ("member-missing", cluster_array_import (engine, in, &import));
  import.without[1] = true;
  REFUSED ("newer", cluster_array_import (engine, in, &import));
  import.accept_loss = true;
  import_a ();
  rig.disk[1].dead = false;
  newest = rig.disk[1].sequence;
  live_on (40);
  assert (strcmp (rig.disk[1].refused, "newer") == 0);
  assert (!cluster_read_only (engine) && rig.disk[1].sequence == newest);
}

/* Given up though it asks, it is rebuilt in full; but not if it has seen more than
 * those who are left: weftd goes on, and leaves it as it is.
 */
static void
test_given_up (unsigned epochs, unsigned rounds)
{
  bool newer = epochs > 0 || rounds > 1;
  struct fake_disk *d = &rig.disk[1], it;

  begin_array ();
  live_on (8);
  d->states_epoch += epochs;
  d->generation += epochs;
  d->round += rounds;
  it = *d;
  lose_database_of_a ();
  import.without[1] = true;
  if (newer)
    REFUSED ("newer", cluster_array_import (engine, in, &import));
  import.accept_loss = newer;
  import_a ();
  assert (cluster_identity (engine)->generation > it.generation);
  if (newer) {
    refused_place (d, "newer");
    assert (d->sequence == it.sequence);
  }
  else
    rebuilt_in_full (1);
  assert (cluster_read_only (engine) == NULL);
}

/* Disk 0 went on alone, and only weftd and the writer knew the epoch.  The loss is accepted,
 * and then it comes: it knows the same epoch as disk 1, and this many rounds more.
 */
static void
test_went_on_unheard (unsigned rounds)
{
  struct fake_disk *late = &rig.disk[0], it;

  begin_array_of (LAYOUT_RAID1, 2);
  live_on (8);
  rig.disk[1].round = 10;
  late->round = 10 + rounds;
  it = *late;
  late->dead = true;
  lose_database_of_a ();
  import.without[0] = true;
  REFUSED ("newer", cluster_array_import (engine, in, &import));
  import.accept_loss = true;
  import_a ();
  restart ();
  late->dead = false;
  late->op = 0;
  if (rounds < 2) {
    UNTIL (whole ());
    assert (on (0, 0));
    return;
  }
  UNTIL (late->refused);
  live_on (80);
  assert (strcmp (late->refused, "newer") == 0 && state (0) == MEMBER_OUT);
  assert (late->sequence == it.sequence && late->round == it.round);
  assert (verdict () == CLUSTER_WARNING);
  assert (says ("Disk /dev/d0 of node n1 says that it is member 0 of array a"));
  assert (says (" and round 12, more than the disks from which"));
  assert (cluster_read_only (engine) == NULL);
}

/* The array has a pair of members twice, and disk 1 is an old copy; the loss is accepted.
 * Then the disks 0 and 3 come: disk 0 alone has what its pair lacks.
 */
static void
test_went_on_in_pairs (void)
{
  struct cluster_create pairs = create_of ("a", LAYOUT_RAID1, 0, 4);

  pairs.groups = 2;
  rig_init ();
  live_on (8);
  DONE (cluster_array_create (engine, in, &pairs));
  UNTIL (array ()->rec.ready);
  live_on (8);
  for (unsigned m = 0; m < 4; m++)
    rig.disk[m].round = m == 1 ? 10 : 20;
  rig.disk[0].dead = rig.disk[3].dead = true;
  lose_database_of_a ();
  import.accept_loss = import.without[0] = import.without[3] = true;
  import_a ();
  assert (state (1) == MEMBER_IN_SYNC && state (2) == MEMBER_IN_SYNC);
  rig.disk[0].dead = rig.disk[3].dead = false;
  rig.disk[0].op = rig.disk[3].op = 0;
  UNTIL (state (3) == MEMBER_IN_SYNC);
  live_on (20);
  assert (rig.disk[0].refused && strcmp (rig.disk[0].refused, "newer") == 0);
  assert (state (0) == MEMBER_OUT && rig.disk[0].round == 20);
}

/* These disks have noted the round, and the host has completed it. */
static void
write_on (const unsigned disks[3], uint64_t round)
{
  for (unsigned i = 0; i < 3; i++)
    rig.disk[disks[i]].round = round;
  rig.round = round;
  live_on (4);
}

/* Disk 3 of member 3 was replaced by disk 4, then member 0 was out while data was
 * written; the database is lost.  Disk 3 is there again, disk 4 is not.
 */
static void
lose_after_replace (void)
{
  rig_init ();
  rig.spared = true;
  rig.disk[5].dead = true;
  make_array ();
  attach (true);
  live_on (8);
  write_on ((unsigned[]) { 0, 1, 2 }, 10);
  rig.disk[3].round = 10;
  live_on (4);
  die (3);
  DONE (cluster_member_replace (engine, in, "a", 3, rig.disk[4].uuid, false));
  UNTIL (state (3) == MEMBER_IN_SYNC && whole ());
  write_on ((unsigned[]) { 1, 2, 4 }, 13);
  rig.disk[0].round = 13;
  live_on (4);
  die (0);
  write_on ((unsigned[]) { 1, 2, 4 }, 16);
  rig.attached = false;
  rig.disk[0].dead = rig.disk[3].dead = false;
  rig.disk[4].dead = true;
  /* It has written more often than its successor. */
  rig.disk[3].sequence = rig.disk[4].sequence + 50;
  lose_database_of_a ();
}

static bool
preflight_says (const char *what, bool allowed)
{
  struct cluster_preflight f;
  bool found = false;

  CALL (0, cluster_preflight_import (engine, in, &import, &f));
  assert (f.allowed == allowed && strcmp (f.confirm, "a") == 0);
  assert ((f.lost_bytes > 0) == import.accept_loss);
  for (unsigned i = 0; i < f.lines_count; i++)
    found |= strstr (f.line[i], what) != NULL;
  return found;
}

/* The import waits for the disk that took the place, and takes it, though the disk that
 * was replaced is there as well, and has the higher sequence.
 */
static void
test_replaced (void)
{
  lose_after_replace ();
  assert (verdict () == CLUSTER_WARNING && says ("weftctl array import"));
  REFUSED ("behind", cluster_array_import (engine, in, &import));
  assert (strstr (rig.detail, "Member 3: disk /dev/d3 of node n4 knows epoch"));
  assert (strstr (rig.detail, "round 10; disk /dev/d") &&
          strstr (rig.detail, "the highest round is 16"));
  assert (preflight_says ("Member 3: disk /dev/d3 of node n4", false));
  assert (preflight_says ("Member 0 would be out", false));
  import.without[3] = true;
  REFUSED ("last-copy", cluster_array_import (engine, in, &import));
  import.without[3] = false;
  rig.disk[4].dead = false;
  live_on (8);
  assert (preflight_says ("/dev/d3 of node n4, which knows", true));
  import_a ();
  UNTIL (whole ());
  assert (on (3, 4) && strcmp (rig.disk[3].refused, "not-a-member") == 0);
  assert (cluster_read_only (engine) == NULL);
}

/* The loss is accepted, and then the right disk comes: it is left as it is, and people
 * hear of it.
 */
static void
test_replaced_too_late (void)
{
  struct fake_disk *late = &rig.disk[4], it;
  unsigned warnings;

  lose_after_replace ();
  it = *late;
  import.accept_loss = true;
  assert (preflight_says ("of the data would have no copy", true));
  warnings = rig.warnings;
  import_a ();
  assert (rig.warnings >= warnings + 2);
  UNTIL (state (0) == MEMBER_IN_SYNC && whole ());
  assert (on (3, 3) && verdict () == CLUSTER_INFO);
  late->dead = false;
  late->op = 0;
  UNTIL (late->refused);
  assert (strcmp (late->refused, "newer") == 0);
  live_on (8);
  assert (late->sequence == it.sequence);
  assert (verdict () == CLUSTER_WARNING && says ("Keep it, and import"));
  assert (cluster_read_only (engine) == NULL);
  restart ();
  live_on (8);
  assert (says ("Keep it, and import"));
  /* It is no other array to be imported. */
  snprintf (import.name, sizeof import.name, "b");
  REFUSED ("exists", cluster_array_import (engine, in, &import));
}

/* Disks that an import does not take; nothing has changed when the disk is mended. */
static void
test_refused (void)
{
  struct fake_disk was;

  begin_array ();
  lose_database_of_a ();
  rig.disk[1].failed = true;
  live_on (8);
  REFUSED ("failed", cluster_array_import (engine, in, &import));
  rig.disk[1].failed = false;

  for (unsigned i = 0; i < MEMBERS; i++)
    rig.disk[i].layout.member_bytes--;
  live_on (8);
  REFUSED ("superblock", cluster_array_import (engine, in, &import));
  for (unsigned i = 0; i < MEMBERS; i++)
    rig.disk[i].layout.member_bytes++;

  was = rig.disk[1];
  memset (rig.disk[1].array, 0, 16);
  memset (rig.disk[1].cluster, 0, 16);
  live_on (8);
  assert (known (1));
  stop (1);
  live_on (80); /* reports of its former process are forgotten */
  put (1, &was);
  live_on (8);
  REFUSED ("known-disk", cluster_array_import (engine, in, &import));
  assert (array () == NULL);
  DONE (cluster_disk_forget (engine, in, rig.disk[1].uuid));
  live_on (8);
  import_a ();
  assert (array () != NULL);
}

int
main (void)
{
  test_replaced ();
  test_replaced_too_late ();
  test_refused ();
  test_foreigns ();
  test_foreigns_of_nodes ();
  test_second ();
  test_stale (false);
  test_stale (true);
  test_confirmed ();
  test_twins ();
  test_nonsense ();
  test_blank_first ();
  test_blank_of_a_restore ();
  test_joiner (false);
  test_joiner (true);
  test_three_epochs ();
  test_given_up (0, 0);
  test_given_up (0, 1);
  test_given_up (10, 0);
  test_given_up (0, 2);
  for (unsigned rounds = 0; rounds < 3; rounds++)
    test_went_on_unheard (rounds);
  test_went_on_in_pairs ();
  test_not_it ();
  test_kills ("import", scenario_import);
  test_kills ("return", scenario_return);
  return 0;
}
