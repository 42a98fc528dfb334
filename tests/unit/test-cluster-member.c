/* test-cluster-member.c: what administrators ask for about members and spares.
 * The long scenarios are run with weftd killed at each step.
 */

#include <config.h>

#undef NDEBUG
#include <assert.h>

#include "test-cluster-rig.h"

static void
test_steering (void)
{
  struct rig r;
  struct fake_disk *d = &r.disk[1];
  struct cluster_member_tune pause = { .has_paused = true, .paused = true },
                             bad = { .has_floor = true,
                                     .floor = 9,
                                     .has_ceiling = true,
                                     .ceiling = 8 },
                             slow = { .has_ceiling = true, .ceiling = MiB (7) };

  begin_writing (&r, 0);
  REFUSED (&r, "in-sync", cluster_member_cancel (r.c, in, "a", 1));
  REFUSED (&r, "in-sync", cluster_member_join (r.c, in, "a", 1));
  REFUSED (&r, "rate", cluster_member_tune (r.c, in, "a", 1, &bad));
  d->stuck = true;
  lose (&r, 1);
  UNTIL (&r, d->join.phase == CLUSTER_JOIN_COPYING);
  UNTIL (&r, d->op != 0);
  DONE (&r, cluster_member_tune (r.c, in, "a", 1, &pause));
  assert (d->order.paused); /* its long poll was answered */
  pause.paused = false;
  rounds (&r, 4);
  DONE (&r, cluster_member_tune (r.c, in, "a", 1, &pause));
  DONE (&r, cluster_member_tune (r.c, in, "a", 1, &slow));
  rounds (&r, 1);
  assert (!d->order.paused && d->order.rate == MiB (7));
  DONE (&r, cluster_member_cancel (r.c, in, "a", 1));
  assert (state (&r, 1) == MEMBER_OUT && array (&r)->rec.member[1].held);
  rounds (&r, 400);
  restart (&r);
  rounds (&r, 40);
  assert (state (&r, 1) == MEMBER_OUT);
  d->stuck = false;
  DONE (&r, cluster_member_join (r.c, in, "a", 1));
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  cluster_free (r.c);
}

/* A detached array has nobody who would miss a dead member. */
static void
test_replace_detached (void)
{
  struct rig r;

  rig_init (&r, 0);
  make_array (&r);
  r.disk[0].dead = true;
  rounds (&r, 30);
  assert (state (&r, 0) == MEMBER_IN_SYNC);
  DONE (&r, cluster_member_replace (r.c, in, "a", 0, r.disk[4].uuid));
  r.disk[1].dead = true; /* now its source is gone, too */
  rounds (&r, 30);
  assert (state (&r, 0) != MEMBER_IN_SYNC || !r.disk[4].full);
  cluster_free (r.c);
}

/* A disk that is kept for one array serves no other. */
static void
test_spare_of_another (void)
{
  struct rig r;
  const uint8_t *spare = r.disk[5].uuid;
  struct cluster_create create = { .name = "c",
                                   .layout = LAYOUT_RAID0,
                                   .groups = 1,
                                   .members = 1,
                                   .unit = KiB (256) };

  rig_init (&r, 0);
  make_array (&r);
  make_array_of (&r, "b", LAYOUT_RAID0, 4, 1);
  DONE (&r, cluster_spare_add (r.c, in, "b", spare));
  memcpy (create.disk[0], spare, 16);
  REFUSED (&r, "spare", cluster_array_create (r.c, in, &create));
  REFUSED (&r, "spare", cluster_spare_add (r.c, in, "a", spare));
  REFUSED (&r, "no-spare", cluster_spare_drop (r.c, in, "a", spare));
  assert (memcmp (cluster_disk_find (r.c, spare)->rec.spare_of,
                  cluster_array_find (r.c, "b")->rec.uuid, 16) == 0);
  attach (&r, true);
  r.disk[1].dead = true;
  lose (&r, 1);
  REFUSED (&r, "spare", cluster_member_replace (r.c, in, "a", 1, spare));
  assert (strstr (r.detail, "spare of array b"));
  /* Nor by itself, however long it takes. */
  assert (array (&r)->rec.spare_after_ms == SPARE_AFTER_MS_DEFAULT);
  assert (cluster_member_spare_wall_ms (r.c, array (&r), 1) == 0);
  rounds (&r, SPARE_AFTER_MS_DEFAULT / CLUSTER_TICK_MS + 40);
  assert (state (&r, 1) == MEMBER_OUT);
  assert (cluster_disk_find (r.c, spare)->array == NULL);
  /* Its array is gone, and it is free: also in what is stored. */
  DONE (&r, cluster_array_delete (r.c, in, "b"));
  restart (&r);
  rounds (&r, 8);
  DONE (&r, cluster_spare_add (r.c, in, "a", spare));
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  assert (array (&r)->disk[1] == cluster_disk_find (r.c, spare));
  cluster_free (r.c);
}

/* A disk is replaced; weftd is killed at each step on the way. */
static bool
scenario_replace (unsigned kill_at)
{
  struct rig r;
  struct fake_disk *d = &r.disk[4];
  bool killed;

  begin_writing (&r, kill_at);
  REFUSED (&r, "in-sync", cluster_member_replace (r.c, in, "a", 1, d->uuid));
  r.disk[1].dead = true;
  lose (&r, 1);
  REFUSED (&r, "unknown-member",
           cluster_member_replace (r.c, in, "a", 9, d->uuid));
  REFUSED (&r, "unknown-disk",
           cluster_member_replace (r.c, in, "a", 1, (uint8_t[16]) { 99 }));
  REFUSED (&r, "in-use",
           cluster_member_replace (r.c, in, "a", 1, r.disk[2].uuid));
  d->data_bytes = MiB (20);
  rounds (&r, 4);
  REFUSED (&r, "too-small", cluster_member_replace (r.c, in, "a", 1, d->uuid));
  d->data_bytes = MiB (300);
  d->failed = true;
  rounds (&r, 4);
  REFUSED (&r, "failed", cluster_member_replace (r.c, in, "a", 1, d->uuid));
  d->failed = false;
  rounds (&r, 4);
  d->min_epoch = 500; /* of another array, long ago */
  rounds (&r, 4);
  DONE (&r, cluster_member_replace (r.c, in, "a", 1, d->uuid));
  UNTIL (&r, state (&r, 1) == MEMBER_JOINING);
  assert (d->full);
  r.disk[1].dead = false; /* the old one comes back, and is let go */
  UNTIL (&r, cluster_uuid_is_zero (r.disk[1].array));
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  assert (cluster_read_only (r.c) == NULL && array (&r)->rec.epoch > 500);
  UNTIL (&r, cluster_uuid_is_zero (
               cluster_disk_find (r.c, r.disk[1].uuid)->rec.release));
  assert (cluster_disk_find (r.c, r.disk[1].uuid)->array == NULL);
  killed = r.killed;
  cluster_free (r.c);
  return killed;
}

static bool
scenario_spare (unsigned kill_at)
{
  struct rig r;
  struct cluster_array_tune tune = { .has_spare_after = true,
                                     .spare_after_ms = 20000 };
  uint64_t at;
  bool killed;

  rig_init (&r, kill_at);
  make_array (&r);
  DONE (&r, cluster_spare_add (r.c, in, "a", r.disk[5].uuid));
  DONE (&r, cluster_spare_add (r.c, in, "a", r.disk[4].uuid));
  REFUSED (&r, "in-use", cluster_spare_add (r.c, in, "a", r.disk[0].uuid));
  REFUSED (&r, "no-spare", cluster_spare_drop (r.c, in, "a", r.disk[0].uuid));
  REFUSED (&r, "spare", cluster_disk_forget (r.c, in, r.disk[4].uuid));
  attach (&r, true);
  r.disk[2].dead = true;
  lose (&r, 2);
  UNTIL (&r, (at = cluster_member_spare_wall_ms (r.c, array (&r), 2)) != 0);
  at -= array (&r)->rec.member[2].since_wall_ms + SPARE_AFTER_MS_DEFAULT;
  assert (at < 1000 || r.killed); /* since it fell silent, which was then */
  /* Cancelled, and begun again. */
  DONE (&r, cluster_member_cancel (r.c, in, "a", 2));
  assert (cluster_member_spare_wall_ms (r.c, array (&r), 2) == 0);
  DONE (&r, cluster_array_tune (r.c, in, "a", &tune));
  rounds (&r, 120);
  assert (state (&r, 2) == MEMBER_OUT);
  DONE (&r, cluster_member_join (r.c, in, "a", 2));
  /* The smaller of the two. */
  UNTIL (&r, state (&r, 2) == MEMBER_IN_SYNC);
  assert (array (&r)->disk[2] == cluster_disk_find (r.c, r.disk[4].uuid));
  assert (cluster_uuid_is_zero (array (&r)->disk[2]->rec.spare_of));
  assert (!cluster_uuid_is_zero (
    cluster_disk_find (r.c, r.disk[5].uuid)->rec.spare_of));
  ASK (&r, cluster_spare_drop (r.c, in, "a", r.disk[5].uuid));
  assert (!r.code || r.killed); /* asked again, it is gone */
  assert (cluster_uuid_is_zero (
    cluster_disk_find (r.c, r.disk[5].uuid)->rec.spare_of));
  killed = r.killed;
  cluster_free (r.c);
  return killed;
}

/* Where weftd was away itself, a member that is out may just be starting. */
static void
test_spare_after_outage (void)
{
  struct rig r;
  struct cluster_array_tune tune = { .has_spare_after = true,
                                     .spare_after_ms = 20000 };
  struct fake_disk *d = &r.disk[2];
  uint64_t at;

  rig_init (&r, 0);
  make_array (&r);
  DONE (&r, cluster_spare_add (r.c, in, "a", r.disk[5].uuid));
  DONE (&r, cluster_array_tune (r.c, in, "a", &tune));
  attach (&r, true);
  d->dead = true;
  lose (&r, 2);
  rounds (&r, 40);
  r.now_ms += 3600 * 1000;
  restart (&r);
  UNTIL (&r, (at = cluster_member_spare_wall_ms (r.c, array (&r), 2)) != 0);
  rounds (&r, 40);
  assert (cluster_member_spare_wall_ms (r.c, array (&r), 2) <= at + 1000);
  d->dead = false;
  UNTIL (&r, state (&r, 2) == MEMBER_IN_SYNC);
  assert (array (&r)->disk[2] == cluster_disk_find (r.c, d->uuid));
  cluster_free (r.c);
}

int
main (void)
{
  test_steering ();
  test_replace_detached ();
  test_spare_of_another ();
  test_spare_after_outage ();
  test_kills ("replace", scenario_replace);
  test_kills ("spare", scenario_spare);
  return 0;
}
