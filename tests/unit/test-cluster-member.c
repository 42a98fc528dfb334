/* test-cluster-member.c: administrators' requests about members and spares, and the
 * states of members.  The long scenarios run with weftd killed at each step: it derives
 * everything else from its store.
 */

#include <config.h>

#include "test-cluster-rig.h"

static void
test_steering (void)
{
  struct fake_disk *d = &rig.disk[1];
  struct cluster_member_tune bad = { .has_floor = true,
                                     .floor = 9,
                                     .has_ceiling = true,
                                     .ceiling = 8 },
                             slow = { .has_ceiling = true, .ceiling = MiB (7) };

  begin_writing ();
  REFUSED ("in-sync", cluster_member_cancel (engine, in, "a", 1));
  REFUSED ("in-sync", cluster_member_join (engine, in, "a", 1));
  REFUSED ("rate", cluster_member_tune (engine, in, "a", 1, &bad));
  copy_on (1);
  UNTIL (d->op != 0);
  pause_copying (1, true);
  assert (d->order.paused); /* its long poll was answered */
  live_on (4);
  pause_copying (1, false);
  DONE (cluster_member_tune (engine, in, "a", 1, &slow));
  live_on (1);
  assert (!d->order.paused && d->order.rate == MiB (7));
  DONE (cluster_member_cancel (engine, in, "a", 1));
  assert (state (1) == MEMBER_OUT && member (1)->held);
  live_on (400);
  restart ();
  live_on (40);
  assert (state (1) == MEMBER_OUT);
  d->stuck = false;
  DONE (cluster_member_join (engine, in, "a", 1));
  UNTIL (state (1) == MEMBER_IN_SYNC);
}

/* A detached array has nobody who would miss a dead member. */
static void
test_replace_detached (void)
{
  begin_array ();
  stop (0);
  assert (state (0) == MEMBER_IN_SYNC);
  DONE (cluster_member_replace (engine, in, "a", 0, rig.disk[4].uuid, false));
  stop (1); /* now its source is gone, too */
  assert (state (0) != MEMBER_IN_SYNC || !rig.disk[4].full);
}

/* A disk that is kept for one array serves no other. */
static void
test_spare_of_another (void)
{
  const uint8_t *spare = rig.disk[5].uuid;
  struct cluster_create create;

  begin_array ();
  make_array_of ("b", LAYOUT_RAID0, 4, 1);
  DONE (cluster_spare_add (engine, in, "b", spare));
  create = create_of ("c", LAYOUT_RAID0, 5, 1);
  REFUSED ("spare", cluster_array_create (engine, in, &create));
  REFUSED ("spare", cluster_spare_add (engine, in, "a", spare));
  REFUSED ("no-spare", cluster_spare_drop (engine, in, "a", spare));
  assert (memcmp (cluster_disk_find (engine, spare)->rec.spare_of,
                  cluster_array_find (engine, "b")->rec.uuid, 16) == 0);
  attach (true);
  die (1);
  REFUSED ("spare", cluster_member_replace (engine, in, "a", 1, spare, false));
  assert (strstr (rig.detail, "spare of array b"));
  /* No spare is used automatically either, however long it takes. */
  assert (array ()->rec.spare_after_ms == SPARE_AFTER_MS_DEFAULT);
  assert (cluster_member_spare_wall_ms (engine, array (), 1) == 0);
  live_on (SPARE_AFTER_MS_DEFAULT / CLUSTER_TICK_MS + 40);
  assert (state (1) == MEMBER_OUT);
  assert (cluster_disk_find (engine, spare)->array == NULL);
  /* Its array is gone, and it is free: also in what is stored. */
  DONE (cluster_array_delete (engine, in, "b"));
  restart ();
  live_on (8);
  DONE (cluster_spare_add (engine, in, "a", spare));
  UNTIL (state (1) == MEMBER_IN_SYNC);
  assert (on (1, 5));
}

/* A disk is replaced; weftd is killed at each step on the way. */
static void
scenario_replace (void)
{
  struct fake_disk *d = &rig.disk[4];

  begin_writing ();
  die (1);
  REFUSED ("unknown-member",
           cluster_member_replace (engine, in, "a", 9, d->uuid, false));
  REFUSED ("unknown-disk", cluster_member_replace (
                             engine, in, "a", 1, (uint8_t[16]) { 99 }, false));
  REFUSED ("in-use", cluster_member_replace (engine, in, "a", 1,
                                             rig.disk[2].uuid, false));
  d->data_bytes = MiB (20);
  live_on (4);
  REFUSED ("too-small",
           cluster_member_replace (engine, in, "a", 1, d->uuid, false));
  d->data_bytes = MiB (300);
  d->failed = true;
  live_on (4);
  REFUSED ("failed",
           cluster_member_replace (engine, in, "a", 1, d->uuid, false));
  d->failed = false;
  live_on (4);
  d->min_epoch = 500; /* of another array, long ago */
  live_on (4);
  DONE (cluster_member_replace (engine, in, "a", 1, d->uuid, false));
  UNTIL (state (1) == MEMBER_JOINING);
  assert (d->full);
  rig.disk[1].dead = false; /* the old one comes back, and is let go */
  UNTIL (cluster_uuid_is_zero (rig.disk[1].array));
  UNTIL (state (1) == MEMBER_IN_SYNC);
  assert (cluster_read_only (engine) == NULL && array ()->rec.epoch > 500);
  UNTIL (cluster_uuid_is_zero (known (1)->rec.release));
  assert (known (1)->array == NULL);
}

static void
scenario_spare (void)
{
  uint64_t at;

  begin_array ();
  DONE (cluster_spare_add (engine, in, "a", rig.disk[5].uuid));
  DONE (cluster_spare_add (engine, in, "a", rig.disk[4].uuid));
  REFUSED ("in-use", cluster_spare_add (engine, in, "a", rig.disk[0].uuid));
  REFUSED ("no-spare", cluster_spare_drop (engine, in, "a", rig.disk[0].uuid));
  REFUSED ("spare", cluster_disk_forget (engine, in, rig.disk[4].uuid));
  attach (true);
  die (2);
  UNTIL ((at = cluster_member_spare_wall_ms (engine, array (), 2)) != 0);
  at -= member (2)->since_wall_ms + SPARE_AFTER_MS_DEFAULT;
  assert (at < 1000 || weftd.killed); /* since it fell silent, which was then */
  /* Cancelled, and begun again. */
  DONE (cluster_member_cancel (engine, in, "a", 2));
  assert (cluster_member_spare_wall_ms (engine, array (), 2) == 0);
  spare_after (20000);
  live_on (120);
  assert (state (2) == MEMBER_OUT);
  DONE (cluster_member_join (engine, in, "a", 2));
  /* The smaller of the two. */
  UNTIL (state (2) == MEMBER_IN_SYNC);
  assert (on (2, 4));
  assert (cluster_uuid_is_zero (array ()->disk[2]->rec.spare_of));
  assert (!cluster_uuid_is_zero (known (5)->rec.spare_of));
  ASK (cluster_spare_drop (engine, in, "a", rig.disk[5].uuid));
  assert (!rig.code || weftd.killed); /* asked again, it is gone */
  assert (cluster_uuid_is_zero (known (5)->rec.spare_of));
}

/* Where weftd was away itself, a member that is out may just be starting. */
static void
test_spare_after_outage (void)
{
  uint64_t at;

  begin_array ();
  DONE (cluster_spare_add (engine, in, "a", rig.disk[5].uuid));
  spare_after (20000);
  attach (true);
  die (2);
  live_on (40);
  weftd.now_ms += 3600 * 1000;
  restart ();
  UNTIL ((at = cluster_member_spare_wall_ms (engine, array (), 2)) != 0);
  live_on (40);
  assert (cluster_member_spare_wall_ms (engine, array (), 2) <= at + 1000);
  rig.disk[2].dead = false;
  UNTIL (state (2) == MEMBER_IN_SYNC);
  assert (on (2, 2));
}

/* The time in which its disk was heard does not count. */
static void
test_spare_after_silence (void)
{
  uint64_t at;

  begin_array ();
  DONE (cluster_spare_add (engine, in, "a", rig.disk[5].uuid));
  spare_after (20000);
  attach (true);
  die (2);
  DONE (cluster_member_cancel (engine, in, "a", 2));
  rig.disk[2].dead = false;
  live_on (120);
  rig.disk[2].dead = true;
  DONE (cluster_member_join (engine, in, "a", 2));
  UNTIL ((at = cluster_member_spare_wall_ms (engine, array (), 2)) != 0);
  assert (at > engine->wall_ms + 10000);
}

/* ---- What members go through by themselves. ---- */

static void
end (void)
{
  UNTIL (whole ());
  assert (cluster_read_only (engine) == NULL);
}

/* Taken back; then again as an old copy, which forgets and is rebuilt in full. */
static void
scenario_back (void)
{
  struct fake_disk *d = &rig.disk[3], copy;

  begin_writing ();
  lose (3);
  UNTIL (whole ());
  copy = *d;
  d->sequence += 50;
  live_on (60);
  *d = copy;
  snprintf (d->instance, 16, "copy");
  d->op = 0;
  UNTIL (d->full);
  end ();
}

/* The last copy is lost, and given back. */
static void
scenario_reconnect (void)
{
  uint64_t fence;

  begin_writing ();
  die (0);
  fence = member (2)->fence;
  while (member (2)->fence == fence) {
    report (2); /* it says so until it has it back */
    live ();
  }
  assert (rig.disk[2].min_epoch > fence);
  live_on (8);
  rig.disk[0].dead = false;
  end ();
}

/* A rebuild is cancelled, and begun again; then the writer leaves. */
static void
scenario_cancel (void)
{
  struct fake_disk *d = &rig.disk[1];
  uint64_t fence;

  begin_writing ();
  copy_on (1);
  DONE (cluster_member_cancel (engine, in, "a", 1));
  live_on (40);
  assert (state (1) == MEMBER_OUT && member (1)->held);
  DONE (cluster_member_join (engine, in, "a", 1));
  UNTIL (d->join.phase == CLUSTER_JOIN_COPYING);
  fence = array ()->rec.epoch;
  rig.attached = false;
  rig.beat_op = 0;
  DONE (cluster_session_detach (engine, in, rig.session));
  UNTIL (array ()->rec.change.epoch == 0);
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (member (m)->fence > fence);
  d->stuck = false;
  end ();
}

int
main (void)
{
  test_steering ();
  test_replace_detached ();
  test_spare_of_another ();
  test_spare_after_outage ();
  test_spare_after_silence ();
  test_kills ("replace", scenario_replace);
  test_kills ("spare", scenario_spare);
  test_kills ("taken back", scenario_back);
  test_kills ("reconnected", scenario_reconnect);
  test_kills ("cancelled", scenario_cancel);
  return 0;
}
