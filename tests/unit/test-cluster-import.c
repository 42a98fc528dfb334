/* test-cluster-import.c: arrays are taken over from their members alone. */

#include <config.h>

#undef NDEBUG
#include <assert.h>

#include "test-cluster-rig.h"

/* The database is lost; member 1 is out, and member 2's disk is not there. */
static bool
scenario_import (unsigned kill_at)
{
  struct rig r;
  struct cluster_import import = { .name = "a" };
  struct cluster_create other = { .name = "b",
                                  .layout = LAYOUT_RAID0,
                                  .groups = 1,
                                  .members = 1,
                                  .unit = KiB (256) };
  struct fake_disk keep;
  uint64_t epoch;
  bool killed;

  rig_init (&r, 0);
  make_array (&r);
  epoch = array (&r)->rec.epoch;
  memcpy (import.array, array (&r)->rec.uuid, 16);
  r.kill_at = kill_at;
  r.disk[2].dead = r.disk[4].dead = r.disk[5].dead = true;
  memset (r.disk[5].cluster, 0, 16);
  r.disk[5].generation = 0;
  lose_database (&r);
  rounds (&r, 4);
  assert (TAILQ_EMPTY (cluster_disks (r.c)));
  assert (!TAILQ_EMPTY (cluster_foreigns (r.c)));
  REFUSED (&r, "member-missing", cluster_array_import (r.c, in, &import));
  import.without[2] = import.without[3] = true;
  REFUSED (&r, "last-copy", cluster_array_import (r.c, in, &import));
  import.without[3] = false;
  /* A clone of member 0. */
  keep = r.disk[4];
  r.disk[4] = r.disk[0];
  snprintf (r.disk[4].instance, 16, "clone");
  r.disk[4].dead = false;
  rounds (&r, 4);
  REFUSED (&r, "clone", cluster_array_import (r.c, in, &import));
  assert (strstr (r.detail, "/dev/d0") && strstr (r.detail, "/dev/dclone"));
  r.disk[4] = keep;
  rounds (&r, 80);
  ASK (&r, cluster_array_import (r.c, in, &import));
  while (r.code && strcmp (r.code, "exists") != 0) {
    assert (r.killed); /* then it hears of the members anew */
    rounds (&r, 8);
    ASK (&r, cluster_array_import (r.c, in, &import));
  }
  UNTIL (&r, array (&r)->disk[0]->took_place);
  assert (array (&r)->rec.ready && array (&r)->rec.epoch > epoch);
  assert (state (&r, 0) == MEMBER_IN_SYNC && state (&r, 2) == MEMBER_OUT);
  assert (memcmp (array (&r)->disk[0]->rec.key, array (&r)->disk[1]->rec.key,
                  KEY_BYTES) != 0);
  rounds (&r, 60);
  assert (cluster_read_only (r.c) == NULL);
  attach (&r, true);
  /* A blank disk takes the place of what is only a name. */
  r.disk[5].dead = false;
  UNTIL (&r, cluster_disk_find (r.c, r.disk[5].uuid));
  DONE (&r, cluster_member_replace (r.c, in, "a", 2, r.disk[5].uuid));
  UNTIL (&r, state (&r, 2) == MEMBER_IN_SYNC);
  for (size_t i = 0; i < r.stored; i++)
    assert (r.store[i].kind != CLUSTER_RECORD_DISK || r.store[i].disk.size);
  memcpy (other.disk[0], r.disk[0].uuid, 16);
  REFUSED (&r, "in-use", cluster_array_create (r.c, in, &other));
  killed = r.killed;
  cluster_free (r.c);
  return killed;
}

/* Two arrays of one cluster, one after the other; and one of another cluster,
 * which is none of ours any more.
 */
static void
test_second (void)
{
  struct rig r;
  struct cluster_import a = { .name = "a" }, b = { .name = "a" };
  struct cluster_array *second;
  uint8_t cluster[16];
  uint64_t generation;

  rig_init (&r, 0);
  make_array (&r);
  make_array_of (&r, "b", LAYOUT_RAID1, 4, 2);
  memcpy (a.array, array (&r)->rec.uuid, 16);
  memcpy (b.array, cluster_array_find (r.c, "b")->rec.uuid, 16);
  memcpy (cluster, cluster_identity (r.c)->uuid, 16);
  for (unsigned i = 4; i < DISKS; i++)
    memset (r.disk[i].cluster, 9, 16);
  lose_database (&r);
  assert (memcmp (cluster_identity (r.c)->uuid, cluster, 16) != 0);
  rounds (&r, 4);
  DONE (&r, cluster_array_import (r.c, in, &a));
  assert (memcmp (cluster_identity (r.c)->uuid, cluster, 16) == 0);
  generation = cluster_identity (r.c)->generation;
  rounds (&r, 4);
  REFUSED (&r, "exists", cluster_array_import (r.c, in, &b));
  snprintf (b.name, sizeof b.name, "b");
  REFUSED (&r, "not-empty", cluster_array_import (r.c, in, &b));
  for (unsigned i = 4; i < DISKS; i++)
    memcpy (r.disk[i].cluster, cluster, 16);
  rounds (&r, 4);
  assert (cluster_disk_find (r.c, r.disk[4].uuid) == NULL);
  DONE (&r, cluster_array_import (r.c, in, &b));
  assert (TAILQ_EMPTY (cluster_foreigns (r.c)));
  REFUSED (&r, "exists", cluster_array_import (r.c, in, &b));
  assert (cluster_identity (r.c)->generation == generation);
  second = cluster_array_find (r.c, "b");
  UNTIL (&r, second->disk[0]->took_place && second->disk[1]->took_place);
  UNTIL (&r, array (&r)->disk[0]->took_place);
  assert (strcmp (cluster_array_state (second), "ready") == 0);
  assert (strcmp (cluster_array_state (array (&r)), "ready") == 0);
  assert (cluster_read_only (r.c) == NULL);
  restart (&r);
  UNTIL (&r, cluster_array_find (r.c, "b")->disk[1]->took_place);
  cluster_free (r.c);
}

/* A disk of yesterday has not heard of the newest epoch: the array does without
 * it where it can, and it is rebuilt in full; so is one that was out.
 */
static void
test_stale (void)
{
  struct rig r;
  struct cluster_import import = { .name = "a" };
  struct fake_disk old;

  for (unsigned alone = 0; alone < 2; alone++) {
    rig_init (&r, 0);
    make_array (&r);
    memcpy (import.array, array (&r)->rec.uuid, 16);
    old = r.disk[3];
    attach (&r, true);
    detach (&r);
    rounds (&r, 8);
    assert (old.states_epoch < r.disk[0].states_epoch);
    r.disk[3] = old;
    if (alone) {
      r.disk[0].dead = true; /* it has the other copies */
      import.without[0] = true;
    }
    lose_database (&r);
    rounds (&r, 4);
    DONE (&r, cluster_array_import (r.c, in, &import));
    assert (state (&r, 3) == (alone ? MEMBER_IN_SYNC : MEMBER_OUT));
    assert (state (&r, 2) == MEMBER_IN_SYNC);
    assert (array (&r)->rec.member[3].reset == !alone);
    if (!alone) {
      UNTIL (&r, state (&r, 3) == MEMBER_JOINING);
      assert (r.disk[3].full);
    }
    cluster_free (r.c);
  }
}

/* A blank disk was enrolled before the import: it stays, and can serve. */
static void
test_blank_first (void)
{
  struct rig r;
  struct fake_disk *blank = &r.disk[5];
  struct cluster_import import = { .name = "a" };

  rig_init (&r, 0);
  make_array (&r);
  memcpy (import.array, array (&r)->rec.uuid, 16);
  import.without[1] = true;
  r.disk[1].dead = true;
  memset (blank->cluster, 0, 16);
  blank->generation = 0;
  lose_database (&r);
  UNTIL (&r, cluster_disk_find (r.c, blank->uuid));
  assert (cluster_uuid_equal (blank->cluster, cluster_identity (r.c)->uuid));
  DONE (&r, cluster_array_import (r.c, in, &import));
  rounds (&r, 4);
  assert (cluster_uuid_equal (blank->cluster, cluster_identity (r.c)->uuid));
  assert (cluster_uuid_equal (blank->cluster, r.disk[0].cluster));
  DONE (&r, cluster_member_replace (r.c, in, "a", 1, blank->uuid));
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  restart (&r);
  rounds (&r, 8);
  assert (array (&r)->disk[1]->took_place);
  cluster_free (r.c);
}

/* The number-th disk of another cluster asks. */
static void
foreign_beat (struct rig *r, unsigned number)
{
  struct cluster_disk_heartbeat hb = { .uri = "nbd://127.0.0.1:2",
                                       .node = "far",
                                       .instance = "f",
                                       .size = MiB (256),
                                       .data_bytes = MiB (255),
                                       .has_place = true };
  struct cluster_input in = input (r, ++r->op);

  memset (hb.cluster, 9, 16);
  memset (hb.array, 8, 16);
  memcpy (hb.uuid, &number, sizeof number);
  hb.uuid[15] = 1;
  snprintf (hb.path, sizeof hb.path, "/dev/f%u", number);
  cluster_disk_heartbeat (r->c, &in, &hb);
  pump (r);
}

static unsigned
foreigns (struct rig *r, const char *path)
{
  const struct cluster_foreign *f;
  unsigned count = 0;

  TAILQ_FOREACH (f, cluster_foreigns (r->c), link)
    count += path == NULL || strcmp (f->hb.path, path) == 0;
  return count;
}

/* What is kept of disks that are not ours is bounded, in number and in time. */
static void
test_foreigns (void)
{
  struct rig r;
  struct cluster_import import = { .name = "a" };

  rig_init (&r, 0);
  for (unsigned i = 0; i < DISKS; i++)
    r.disk[i].dead = true;
  memset (import.array, 8, 16);
  for (unsigned i = 0; i < FOREIGNS_MAX + 44; i++)
    foreign_beat (&r, i);
  assert (foreigns (&r, NULL) == FOREIGNS_MAX);
  assert (!foreigns (&r, "/dev/f43") && foreigns (&r, "/dev/f44") == 1);
  foreign_beat (&r, 44); /* the one that was heard longest ago goes */
  foreign_beat (&r, 1000);
  assert (foreigns (&r, NULL) == FOREIGNS_MAX);
  assert (!foreigns (&r, "/dev/f45") && foreigns (&r, "/dev/f44") == 1);
  REFUSED (&r, "clone", cluster_array_import (r.c, in, &import));
  rounds (&r, 4 * 16); /* who is silent is no candidate */
  REFUSED (&r, "unknown-array", cluster_array_import (r.c, in, &import));
  rounds (&r, 4 * (9 * 60 + 40));
  assert (foreigns (&r, NULL) == FOREIGNS_MAX);
  foreign_beat (&r, 50);
  rounds (&r, 4 * 8);
  assert (foreigns (&r, NULL) == 1 && foreigns (&r, "/dev/f50") == 1);
  rounds (&r, 4 * (9 * 60 + 50));
  assert (foreigns (&r, NULL) == 1);
  rounds (&r, 4 * 3);
  assert (foreigns (&r, NULL) == 0);
  assert (r.steps == 0 && TAILQ_EMPTY (cluster_disks (r.c)));
  cluster_free (r.c);
}

/* Two disks with one UUID, in different places: one of them at least is a copy of
 * something else.
 */
static void
test_twins (void)
{
  struct rig r;
  struct cluster_import import = { .name = "a" };

  rig_init (&r, 0);
  make_array (&r);
  memcpy (import.array, r.disk[0].array, 16);
  lose_database (&r);
  memcpy (r.disk[1].uuid, r.disk[2].uuid, 16);
  rounds (&r, 8);
  REFUSED (&r, "clone", cluster_array_import (r.c, in, &import));
  assert (strstr (r.detail, "/dev/d1") && strstr (r.detail, "/dev/d2"));
  cluster_free (r.c);
}

/* "a" is imported; its member 1 was out by then, and did not ask.  Returns the
 * epoch whose states were imported.
 */
static uint64_t
import_without_1 (struct rig *r, unsigned kill_at)
{
  struct cluster_import import = { .name = "a" };
  uint64_t imported;

  rig_init (r, 0);
  r->disk[4].dead = r->disk[5].dead = true;
  make_array (r);
  memcpy (import.array, array (r)->rec.uuid, 16);
  attach (r, true);
  rounds (r, 8);
  r->disk[1].dead = true;
  lose (r, 1);
  detach (r);
  rounds (r, 8);
  imported = r->disk[0].states_epoch;
  assert (r->disk[1].states_epoch < imported);
  lose_database (r);
  rounds (r, 8);
  r->kill_at = kill_at;
  ASK (r, cluster_array_import (r->c, in, &import));
  while (r->code && strcmp (r->code, "exists") != 0) {
    assert (r->killed);
    rounds (r, 8);
    ASK (r, cluster_array_import (r->c, in, &import));
  }
  UNTIL (r, array (r)->disk[0]->took_place);
  assert (state (r, 1) == MEMBER_OUT);
  return imported;
}

/* It asks, and is refused: so nothing is known of it, and its place is as it was. */
static void
refused_place (struct rig *r, struct fake_disk *d, const char *why)
{
  unsigned steps;

  d->dead = false;
  d->op = 0;
  d->refused = NULL;
  UNTIL (r, d->refused);
  assert (strcmp (d->refused, why) == 0);
  rounds (r, 8);
  steps = r->steps;
  rounds (r, 20);
  assert (r->steps == steps);
  assert (cluster_disk_find (r->c, d->uuid) == NULL);
  assert (state (r, 1) == MEMBER_OUT && array (r)->disk[1]->rec.size == 0);
  assert (cluster_read_only (r->c) == NULL);
  d->dead = true;
  rounds (r, 4);
}

/* Its disk comes by itself, and is rebuilt in full. */
static bool
scenario_return (unsigned kill_at)
{
  struct rig r;
  struct fake_disk *d = &r.disk[1];
  char verdict[2048];
  bool killed;

  import_without_1 (&r, kill_at);
  attach (&r, true);
  cluster_verdict (r.c, verdict, sizeof verdict);
  assert (strstr (verdict, "member 1 (a disk that is not known yet) is out"));
  assert (strstr (verdict, "Start its member process again"));
  d->full = false;
  d->dead = false;
  UNTIL (&r, array (&r)->disk[1]->rec.size > 0);
  assert (state (&r, 1) == MEMBER_OUT && array (&r)->rec.member[1].reset);
  assert (memcmp (array (&r)->disk[1]->rec.uuid, d->uuid, 16) == 0);
  UNTIL (&r, state (&r, 1) == MEMBER_JOINING);
  assert (d->full);
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  for (size_t i = 0; i < r.stored; i++)
    assert (r.store[i].kind != CLUSTER_RECORD_DISK || r.store[i].disk.size);
  killed = r.killed;
  cluster_free (r.c);
  return killed;
}

/* Who says to be that member, and is not it, or has more than the others. */
static void
test_not_it (void)
{
  struct rig r;
  struct fake_disk *d = &r.disk[4], it;
  uint8_t uuid[16];
  uint64_t imported = import_without_1 (&r, 0);

  it = r.disk[1];
  memcpy (uuid, d->uuid, 16);
  *d = it;
  memcpy (d->uuid, uuid, 16);
  d->layout.unit *= 2;
  refused_place (&r, d, "disagree");
  d->layout = it.layout;
  d->layout.groups = 2;
  refused_place (&r, d, "disagree");
  d->layout = it.layout;
  d->layout.member_bytes -= MiB (4);
  refused_place (&r, d, "disagree");
  d->layout = it.layout;
  memset (d->cluster, 0, 16);
  refused_place (&r, d, "disagree");
  memset (d->cluster, 9, 16);
  refused_place (&r, d, "foreign-cluster");
  memcpy (d->cluster, it.cluster, 16);
  d->position = 2;
  refused_place (&r, d, "not-a-member");
  d->position = 1;
  d->data_bytes = d->layout.member_bytes - 4096;
  refused_place (&r, d, "truncated");
  d->data_bytes = it.data_bytes;
  d->states_epoch = imported + 1;
  refused_place (&r, d, "newer");
  restart (&r);
  rounds (&r, 8);
  refused_place (&r, d, "newer");

  /* Of two the first gets it, and it is the place's disk from then on. */
  d->states_epoch = imported;
  r.disk[1].dead = d->dead = false;
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  assert (memcmp (array (&r)->disk[1]->rec.uuid, it.uuid, 16) == 0);
  assert (strcmp (d->refused, "not-a-member") == 0);
  assert (d->sequence == it.sequence);
  assert (cluster_disk_find (r.c, d->uuid) == NULL);
  cluster_free (r.c);

  /* A copy of it, started on another host. */
  import_without_1 (&r, 0);
  d = &r.disk[4];
  it = r.disk[1];
  *d = it;
  snprintf (d->instance, sizeof d->instance, "clone");
  r.disk[1].dead = d->dead = false;
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  UNTIL (&r, d->refused && strcmp (d->refused, "double-used") == 0);
  assert (d->sequence == it.sequence);
  cluster_free (r.c);

  /* The place was given to a blank disk meanwhile. */
  import_without_1 (&r, 0);
  d = &r.disk[5];
  memset (d->array, 0, 16);
  d->dead = false;
  UNTIL (&r, cluster_disk_find (r.c, d->uuid));
  DONE (&r, cluster_member_replace (r.c, in, "a", 1, d->uuid));
  it = r.disk[1];
  r.disk[1].dead = false;
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  assert (memcmp (array (&r)->disk[1]->rec.uuid, d->uuid, 16) == 0);
  assert (strcmp (r.disk[1].refused, "not-a-member") == 0);
  assert (r.disk[1].sequence == it.sequence);
  cluster_free (r.c);

  /* An administrator holds the place: its disk is known, and stays out. */
  import_without_1 (&r, 0);
  DONE (&r, cluster_member_cancel (r.c, in, "a", 1));
  r.disk[1].dead = false;
  UNTIL (&r, array (&r)->disk[1]->rec.size > 0);
  rounds (&r, 80);
  assert (state (&r, 1) == MEMBER_OUT && array (&r)->rec.member[1].held);
  DONE (&r, cluster_member_join (r.c, in, "a", 1));
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  cluster_free (r.c);
}

/* A member was joining.  late: it is in-sync by the newest epoch, of which it has not
 * heard itself: it may be an old copy.
 */
static void
test_joiner (bool late)
{
  struct rig r;
  struct cluster_import import = { .name = "a" };
  struct fake_disk *d = &r.disk[1], then;

  rig_init (&r, 0);
  make_array (&r);
  memcpy (import.array, array (&r)->rec.uuid, 16);
  attach (&r, true);
  d->stuck = true;
  lose (&r, 1);
  UNTIL (&r, d->join.phase == CLUSTER_JOIN_COPYING);
  rounds (&r, 8);
  assert (d->states[1] == MEMBER_JOINING &&
          r.disk[0].states[1] == MEMBER_JOINING);
  then = *d;
  d->stuck = false;
  if (late) {
    UNTIL (&r, r.disk[0].states[1] == MEMBER_IN_SYNC);
    *d = then;
    assert (d->states_epoch < r.disk[0].states_epoch);
  }
  r.attached = false;
  lose_database (&r);
  rounds (&r, 8);
  d->stuck = d->full = false;
  DONE (&r, cluster_array_import (r.c, in, &import));
  assert (state (&r, 1) == MEMBER_OUT && array (&r)->rec.member[1].reset);
  UNTIL (&r, state (&r, 1) == MEMBER_JOINING);
  assert (d->full);
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  assert (cluster_read_only (r.c) == NULL);
  cluster_free (r.c);
}

/* Three members stand at three epochs; of a raid-1 the newest alone is believed. */
static void
test_three_epochs (void)
{
  struct rig r;
  struct cluster_import import = { .name = "a" };
  uint64_t newest;

  rig_init (&r, 0);
  make_array_of (&r, "a", LAYOUT_RAID1, 0, 3);
  memcpy (import.array, array (&r)->rec.uuid, 16);
  for (unsigned m = 0; m < 2; m++) {
    attach (&r, true);
    rounds (&r, 8);
    r.disk[m].dead = true;
    lose (&r, m);
    detach (&r);
    rounds (&r, 8);
  }
  newest = r.disk[2].states_epoch;
  assert (r.disk[0].states_epoch < r.disk[1].states_epoch &&
          r.disk[1].states_epoch < newest);
  r.disk[0].dead = r.disk[1].dead = false;
  lose_database (&r);
  rounds (&r, 8);
  DONE (&r, cluster_array_import (r.c, in, &import));
  assert (state (&r, 2) == MEMBER_IN_SYNC && array (&r)->rec.epoch > newest);
  for (unsigned m = 0; m < 2; m++)
    assert (state (&r, m) == MEMBER_OUT && array (&r)->rec.member[m].reset);
  UNTIL (&r,
         state (&r, 0) == MEMBER_IN_SYNC && state (&r, 1) == MEMBER_IN_SYNC);
  cluster_free (r.c);

  /* The newest does not ask: it is not known that there is one, and when it comes
   * it shows that something is missing.
   */
  rig_init (&r, 0);
  make_array_of (&r, "a", LAYOUT_RAID1, 0, 2);
  memcpy (import.array, array (&r)->rec.uuid, 16);
  attach (&r, true);
  rounds (&r, 8);
  r.disk[0].dead = true;
  r.disk[0].op = 0; /* it does not hear the answer to its last words */
  lose (&r, 0);
  rounds (&r, 8);
  detach (&r);
  rounds (&r, 8);
  assert (r.disk[1].states_epoch > r.disk[0].states_epoch + 1);
  r.disk[1].dead = true;
  r.disk[0].dead = false;
  lose_database (&r);
  rounds (&r, 8);
  REFUSED (&r, "member-missing", cluster_array_import (r.c, in, &import));
  import.without[1] = true;
  memset (r.history, 0, sizeof r.history); /* what nobody knows is used again */
  DONE (&r, cluster_array_import (r.c, in, &import));
  r.disk[1].dead = false;
  newest = r.disk[1].sequence;
  rounds (&r, 40);
  assert (cluster_read_only (r.c) && r.disk[1].sequence == newest);
  cluster_free (r.c);
}

/* Given up though it asks, it is rebuilt in full; but not if it has seen more than
 * those who are left: weftd goes on, and leaves it as it is.
 */
static void
test_given_up (bool newer)
{
  struct rig r;
  struct cluster_import import = { .name = "a", .without = { [1] = true } };
  struct fake_disk *d = &r.disk[1], it;
  uint64_t generation;

  rig_init (&r, 0);
  make_array (&r);
  rounds (&r, 8);
  memcpy (import.array, array (&r)->rec.uuid, 16);
  if (newer) {
    d->states_epoch += 10;
    d->generation += 10;
  }
  generation = d->generation;
  it = *d;
  lose_database (&r);
  rounds (&r, 8);
  DONE (&r, cluster_array_import (r.c, in, &import));
  assert (cluster_identity (r.c)->generation > generation);
  if (newer) {
    refused_place (&r, d, "newer");
    assert (d->sequence == it.sequence);
  }
  else {
    UNTIL (&r, state (&r, 1) == MEMBER_JOINING);
    assert (d->full);
    UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  }
  assert (cluster_read_only (r.c) == NULL);
  cluster_free (r.c);
}

int
main (void)
{
  test_foreigns ();
  test_second ();
  test_stale ();
  test_twins ();
  test_blank_first ();
  test_joiner (false);
  test_joiner (true);
  test_three_epochs ();
  test_given_up (false);
  test_given_up (true);
  test_not_it ();
  test_kills ("import", scenario_import);
  test_kills ("return", scenario_return);
  return 0;
}
