/* test-cluster-restore.c: weftd begins again from a backup of its database, whatever has
 * changed since the backup was made.
 */

#include <config.h>

#include "cluster/cluster-preflight.h"
#include "test-cluster-rig.h"

static struct cluster_record backup[RECORDS_MAX];
static size_t backup_count;

static void
make_backup (void)
{
  memcpy (backup, weftd.store, sizeof backup);
  backup_count = weftd.stored;
}

/* The backup is put in the place of the database.  marked: by weftd --restore. */
static void
put_back (bool marked)
{
  memcpy (weftd.store, backup, sizeof backup);
  weftd.stored = backup_count;
  for (size_t i = 0; marked && i < weftd.stored; i++)
    if (weftd.store[i].kind == CLUSTER_RECORD_IDENTITY) {
      weftd.store[i].identity.restore = true;
      weftd.store[i].identity.backup_wall_ms = 1700000000000;
    }
  /* An epoch number that the backup knows may get other states, because no member or host
   * has since heard the former ones.
   */
  memset (weftd.history, 0, sizeof weftd.history);
  rig.steps = 0;
  rig.spared = false;
  restart ();
}

static void
restore (void)
{
  put_back (true);
  UNTIL (!array ()->rec.restoring);
}

/* All members speak, none is doubted, and the array can be written. */
static void
works (void)
{
  UNTIL (whole ());
  live_on (60);
  assert (whole () && cluster_read_only (engine) == NULL);
  for (unsigned m = 0; m < array ()->layout.members; m++)
    assert (array ()->disk[m]->took_place);
  rig.attached = false;
  rig.beat_op = rig.attach_op = 0;
  attach (true);
  live_on (8);
  assert (whole ());
}

/* ---- What can have changed since. ---- */

static void
nothing (void)
{
}

/* Epochs, a member out and back. */
static void
lost_and_back (void)
{
  attach (true);
  lose (1);
  UNTIL (whole ());
}

/* A member is served by another process. */
static void
started_again (void)
{
  attach (true);
  start_again (2);
  live_on (40);
  UNTIL (whole ());
}

/* Another disk is member 1; the former one is free, and got the order to forget the
 * array. */
static void
replaced (void)
{
  attach (true);
  die (1);
  DONE (cluster_member_replace (engine, in, "a", 1, rig.disk[4].uuid, false));
  UNTIL (whole ());
  rig.disk[1].dead = false;
  UNTIL (cluster_uuid_is_zero (rig.disk[1].array));
  live_on (8);
}

/* The same, and nobody serves the former one: it is an old copy. */
static void
replaced_for_good (void)
{
  attach (true);
  for (unsigned m = 0; m < MEMBERS; m++)
    rig.disk[m].round = rig.round = 5;
  live_on (4);
  die (1);
  DONE (cluster_member_replace (engine, in, "a", 1, rig.disk[4].uuid, false));
  UNTIL (whole ());
  for (unsigned i = 0; i < 5; i++)
    rig.disk[i].round = i == 1 ? 5 : 9;
  rig.round = 9;
  live_on (8);
}

/* A disk went, and came back as the same member's. */
static void
replaced_twice (void)
{
  replaced ();
  rig.disk[4].dead = true;
  lose (1);
  DONE (cluster_member_replace (engine, in, "a", 1, rig.disk[1].uuid, false));
  rig.disk[4].dead = false;
  UNTIL (whole ());
}

/* The disk of member 1 has another key. */
static void
rekeyed (void)
{
  DONE (cluster_disk_rekey (engine, in, rig.disk[1].uuid));
  live_on (20);
}

/* weftd was started many times. */
static void
generations (void)
{
  for (unsigned i = 0; i < 20; i++)
    restart ();
  live_on (8);
}

/* Somebody writes, and goes on. */
static void
written (void)
{
  attach (true);
  rig.round = 7;
  for (unsigned m = 0; m < MEMBERS; m++)
    rig.disk[m].round = 7;
  live_on (8);
}

static const struct {
  const char *name;
  void (*happens) (void);
} changes[] = {
  { "nothing", nothing },
  { "a member was lost, and is back", lost_and_back },
  { "a member was started again", started_again },
  { "a member was replaced", replaced },
  { "a member was replaced, and the former disk is away", replaced_for_good },
  { "a member was replaced twice", replaced_twice },
  { "a disk got another key", rekeyed },
  { "weftd was started again", generations },
  { "somebody writes", written },
};
#define CHANGES (sizeof changes / sizeof changes[0])

static unsigned change; /* that scenario_change is about */

static void
scenario_change (void)
{
  uint8_t key[MEMBERS][KEY_BYTES], now[KEY_BYTES];
  uint64_t epoch, generation = 0;

  rig_init ();
  rig.spared = true;
  make_array ();
  live_on (8);
  make_backup ();
  changes[change].happens ();
  epoch = array ()->rec.epoch;
  for (unsigned m = 0; m < MEMBERS; m++)
    cluster_disk_key (array ()->disk[m], key[m]);
  for (unsigned i = 0; i < DISKS; i++)
    if (rig.disk[i].generation > generation)
      generation = rig.disk[i].generation;
  restore ();
  assert (array ()->rec.epoch > epoch);
  assert (cluster_identity (engine)->generation > generation);
  assert (cluster_identity (engine)->fences >= 1700000000);
  for (unsigned m = 0; m < MEMBERS; m++) {
    assert (member (m)->fence == array ()->rec.epoch || weftd.killed);
    cluster_disk_key (array ()->disk[m], now);
    assert (memcmp (now, key[m], KEY_BYTES) != 0);
  }
  works ();
}

static void
test_changes (void)
{
  for (change = 0; change < CHANGES; change++) {
    printf ("since the backup: %s\n", changes[change].name);
    scenario_change ();
  }
}

/* Without the mark an old database changes nothing, and says what to do. */
static void
test_unmarked (void)
{
  begin_array ();
  make_backup ();
  generations ();
  lost_and_back ();
  put_back (false);
  live_on (40);
  assert (cluster_read_only (engine) &&
          strstr (cluster_read_only (engine), "weftd --restore"));
}

/* The former writer can't go on, and hears so.  No session gets the array before each
 * member has confirmed that.
 */
static void
test_writer (void)
{
  struct cluster_attach at = { .node = "host", .writable = true };
  uint64_t granted;

  begin_array ();
  make_backup ();
  written ();
  granted = rig.session;
  put_back (true);
  /* Nothing is granted, nor ended, before members were heard. */
  attach_refused ("doubted");
  rig.disk[2].dead = true;
  live_on (40);
  assert (array ()->rec.restoring);
  assert (says ("not restored from the backup yet") && says ("member 2"));
  assert (verdict () == CLUSTER_ERROR);
  attach_refused ("doubted");
  rig.disk[2].dead = false;
  rig.disk[3].hangs = true; /* it confirms nothing */
  UNTIL (!array ()->rec.restoring);
  assert (cluster_session_find (engine, granted) == NULL);
  rig.attached = false;
  live_on (8);
  snprintf (at.instance, sizeof at.instance, "new");
  at.by_admin = true;
  CALL (rig.attach_op = ++weftd.op, cluster_attach (engine, in, "a", &at));
  live_on (8);
  assert (!rig.attached);
  rig.disk[3].hangs = false;
  UNTIL (rig.attached);
}

/* A session of the backup is over as soon as its array is restored. */
static void
test_session (void)
{
  begin_writing ();
  make_backup ();
  live_on (8);
  restore ();
  assert (cluster_session_find (engine, rig.session)->rec.ended);
  works ();
}

/* While somebody writes, members say different rounds at different times: none of them is
 * an old copy for that.
 */
static void
test_rounds_go_on (void)
{
  begin_array ();
  make_backup ();
  written ();
  put_back (true);
  for (unsigned i = 0; i < 400 && array ()->rec.restoring; i++) {
    for (unsigned m = 0; m < MEMBERS; m++)
      rig.disk[m].round += 3;
    live ();
  }
  assert (!array ()->rec.restoring && whole ());
  assert (rig.disk[0].states_epoch < array ()->rec.epoch);
}

/* A disk that is an old copy goes out, if the others have all, and is rebuilt. */
static void
test_old_copy (void)
{
  begin_array ();
  make_backup ();
  written ();
  rig.disk[1].round = 3;
  restore ();
  assert (state (1) == MEMBER_OUT && member (1)->reset);
  rig.attached = false;
  rebuilt_in_full (1);
}

/* Member 1 was in-sync in the newest epoch, and its disk does not know the states of that
 * epoch.  It stays in-sync if it has confirmed the epoch (I1), and is rebuilt otherwise.
 */
static void
test_confirmed_only (void)
{
  static const struct {
    unsigned behind;         /* its min_epoch, against the newest epoch */
    enum member_state state; /* its own, in the epoch before */
    bool out;
  } all[] = {
    { 0, MEMBER_IN_SYNC, false },
    { 0, MEMBER_JOINING, false },
    { 1, MEMBER_IN_SYNC, true },
    { 0, MEMBER_OUT, true },
  };

  for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++) {
    struct fake_disk *d = &rig.disk[1];

    begin_array ();
    make_backup ();
    lost_and_back ();
    live_on (8);
    assert (d->states_epoch == rig.disk[0].states_epoch);
    d->min_epoch = d->states_epoch - all[i].behind;
    d->states_epoch--;
    d->states[1] = (uint8_t) all[i].state;
    restore ();
    assert (state (1) == (all[i].out ? MEMBER_OUT : MEMBER_IN_SYNC));
    assert (member (1)->reset == all[i].out);
    works ();
  }
}

/* A dry run of the order: the code of its refusal, or NULL. */
static struct cluster_preflight preflight;
static const char *
flown (const struct cluster_import *order)
{
  CALL (0, cluster_preflight_import (engine, in, order, &preflight));
  return preflight.allowed ? NULL : preflight.why.code;
}

static bool
flown_says (const char *words)
{
  for (size_t i = 0; i < preflight.lines_count; i++)
    if (strstr (preflight.line[i], words))
      return true;
  return false;
}

/* Where no other copy is, an old copy is not taken before an administrator says so. */
static void
test_last_old (void)
{
  struct cluster_import order = { .name = "a" };

  begin_array_of (LAYOUT_RAID0, 2);
  make_backup ();
  attach (true);
  rig.disk[0].round = rig.disk[1].round = rig.round = 7;
  live_on (8);
  rig.disk[1].round = 3;
  put_back (true);
  memcpy (order.array, array ()->rec.uuid, 16);
  live_on (40);
  assert (array ()->rec.restoring && says ("is an old copy of member 1"));
  snprintf (order.name, sizeof order.name, "b");
  assert (strcmp (flown (&order), "exists") == 0);
  REFUSED ("exists", cluster_array_restore (engine, in, &order));
  snprintf (order.name, sizeof order.name, "a");
  order.without[0] = true;
  REFUSED ("restoring", cluster_array_restore (engine, in, &order));
  order.without[0] = false;
  REFUSED ("restoring", cluster_array_restore (engine, in, &order));
  assert (strstr (rig.detail, "--accept-loss"));
  order.accept_loss = true;
  assert (flown (&order) == NULL && array ()->rec.restoring);
  assert (flown_says ("The disk of member 1 is an old copy") &&
          flown_says ("flushed data is lost"));
  DONE (cluster_array_restore (engine, in, &order));
  REFUSED ("restored", cluster_array_restore (engine, in, &order));
  works ();
}

/* A member that is gone for good is given up by an administrator. */
static void
test_given_up (void)
{
  struct cluster_import order = { .name = "a" };

  begin_array ();
  make_backup ();
  live_on (8);
  rig.disk[1].dead = true;
  put_back (true);
  memcpy (order.array, array ()->rec.uuid, 16);
  live_on (80);
  assert (array ()->rec.restoring);
  assert (strcmp (flown (&order), "restoring") == 0);
  assert (strstr (preflight.why.detail, "member 1 is in-sync and was not"));
  REFUSED ("restoring", cluster_array_restore (engine, in, &order));
  order.without[1] = true;
  assert (flown (&order) == NULL && !flown_says ("flushed data is lost"));
  assert (flown_says ("Member 1 would be out: it is given up"));
  DONE (cluster_array_restore (engine, in, &order));
  assert (strcmp (flown (&order), "exists") == 0);
  assert (state (1) == MEMBER_OUT);
  /* It comes after all. */
  rig.disk[1].dead = false;
  rig.attached = false;
  rebuilt_in_full (1);
  works ();
}

/* Member 1 was replaced by disk 4, which went on alone, and is not there; its former disk is
 * there again.
 */
static void
test_successor_is_missing (void)
{
  struct cluster_import order = { .name = "a" };

  begin_array_of (LAYOUT_RAID1, 2);
  make_backup ();
  memcpy (order.array, array ()->rec.uuid, 16);
  attach (true);
  die (1);
  DONE (cluster_member_replace (engine, in, "a", 1, rig.disk[4].uuid, false));
  UNTIL (whole () && on (1, 4));
  live_on (8);
  die (0);
  rig.disk[4].round = rig.round = 9;
  live_on (8);
  rig.attached = false;
  rig.disk[4].dead = true;
  start_again (0);
  start_again (1);
  put_back (true);
  live_on (80);
  assert (array ()->rec.restoring && says ("they may have gone on"));
  order.without[1] = true;
  REFUSED ("restoring", cluster_array_restore (engine, in, &order));
  rig.disk[4].dead = false;
  UNTIL (!array ()->rec.restoring);
  assert (on (1, 4) && state (0) == MEMBER_OUT && state (1) == MEMBER_IN_SYNC);
  works ();
}

/* The backup is of the newest epoch, of which no disk has heard: it names their disks. */
static void
test_backup_is_newest (void)
{
  begin_array_of (LAYOUT_RAID1, 2);
  live_on (8);
  make_backup ();
  for (unsigned m = 0; m < 2; m++) {
    rig.disk[m].states_epoch = array ()->rec.epoch - 1;
    rig.disk[m].min_epoch = rig.disk[m].states_epoch;
  }
  restore ();
  assert (state (0) == MEMBER_IN_SYNC && state (1) == MEMBER_IN_SYNC);
  works ();
}

/* Nobody has told the disk of member 1 of the last changes: of three, another disk may have
 * the place since; of two, it has it still.
 */
static void
test_not_told (unsigned behind)
{
  begin_array_of (LAYOUT_RAID1, 2);
  make_backup ();
  attach (true);
  lose (1);
  UNTIL (whole ());
  UNTIL (rig.disk[0].states_epoch == array ()->rec.epoch);
  rig.attached = false;
  for (unsigned m = 0; m < 2; m++)
    assert (rig.disk[m].states_epoch > behind);
  rig.disk[1].states_epoch = rig.disk[0].states_epoch - behind;
  rig.disk[1].min_epoch = rig.disk[1].states_epoch;
  put_back (true);
  live_on (80);
  assert (array ()->rec.restoring == (behind > 2));
  assert (behind <= 2 || says ("they may have gone on"));
}

/* Member 0 went on alone, and is not there.  An order to do without it is refused unless it
 * accepts the loss; and if the disk comes after all, it is left as it is, also if it has not
 * heard of the epoch in which it went on.
 */
static void
test_missing_went_on (bool heard)
{
  struct cluster_import order = { .name = "a" };
  struct fake_disk before;
  uint64_t epoch;

  begin_array_of (LAYOUT_RAID1, 2);
  make_backup ();
  memcpy (order.array, array ()->rec.uuid, 16);
  attach (true);
  live_on (8);
  before = rig.disk[1];
  die (1);
  rig.disk[1] = before; /* it has not heard that */
  rig.disk[1].dead = true;
  rig.disk[0].round = rig.round = 9;
  UNTIL (rig.disk[0].states_epoch > rig.disk[1].states_epoch);
  if (!heard) {
    rig.disk[0].states_epoch = before.states_epoch;
    memcpy (rig.disk[0].states, before.states, sizeof before.states);
  }
  epoch = rig.disk[0].states_epoch;
  rig.attached = false;
  rig.disk[0].dead = true;
  start_again (1);
  put_back (true);
  live_on (80);
  assert (array ()->rec.restoring);
  assert (!says ("may have data that no other disk has"));
  order.without[0] = true;
  REFUSED ("restoring", cluster_array_restore (engine, in, &order));
  assert (strstr (rig.detail, "they may have gone on"));
  order.accept_loss = true;
  assert (flown (&order) == NULL && flown_says ("they may have gone on"));
  DONE (cluster_array_restore (engine, in, &order));
  assert (strstr (rig.log, "though this was doubtful"));
  assert (state (0) == MEMBER_OUT && state (1) == MEMBER_IN_SYNC);
  rig.disk[0].dead = false;
  live_on (80);
  assert (rig.disk[0].refused && strcmp (rig.disk[0].refused, "newer") == 0);
  assert (rig.disk[0].states_epoch == epoch && state (0) == MEMBER_OUT);
  assert (says ("may have data that no other disk has"));
}

/* While the array waits, the verdict says no more of the disk of a member that was replaced
 * since, which the backup does not know.
 */
static void
test_verdict_meanwhile (void)
{
  rig_init ();
  rig.spared = true;
  make_array ();
  rig.disk[4].dead = true;
  live_on (8);
  make_backup ();
  rig.disk[4].dead = false;
  live_on (8);
  replaced ();
  rig.attached = false;
  rig.disk[2].dead = true;
  put_back (true);
  live_on (80);
  assert (verdict () == CLUSTER_ERROR && says ("member 2 is in-sync"));
  assert (!says ("may have data that no other disk has"));
}

/* Member 0 is given up, is heard, and knows of an epoch that no other knows. */
static void
test_given_up_knows_more (void)
{
  struct cluster_import order = { .name = "a" };
  struct fake_disk before[4];

  begin_array_of (LAYOUT_RAID10, 4);
  make_backup ();
  memcpy (order.array, array ()->rec.uuid, 16);
  attach (true);
  live_on (8);
  memcpy (before, rig.disk, sizeof before);
  die (2);
  UNTIL (rig.disk[0].states_epoch > before[1].states_epoch);
  rig.disk[1] = before[1]; /* they have not heard that */
  rig.disk[2] = before[2];
  start_again (1);
  rig.attached = false;
  rig.disk[3].dead = true;
  start_again (2);
  put_back (true);
  live_on (80);
  assert (array ()->rec.restoring && says ("member 3 is in-sync"));
  order.without[0] = order.without[3] = true;
  REFUSED ("restoring", cluster_array_restore (engine, in, &order));
  assert (strstr (rig.detail, "member 0, which is given up, knows epoch"));
  order.accept_loss = true;
  assert (flown (&order) == NULL && flown_says ("which is given up, knows"));
  DONE (cluster_array_restore (engine, in, &order));
  assert (strstr (rig.log, "though this was doubtful"));
}

/* A disk that the backup does not know says alone that there is a later epoch: one node
 * does not decide that.
 */
static void
test_stranger (void)
{
  struct fake_disk *d = &rig.disk[5];

  begin_array ();
  make_backup ();
  live_on (8);
  *d = rig.disk[1];
  memset (d->uuid, 6, 16);
  snprintf (d->instance, sizeof d->instance, "stranger");
  d->states_epoch = d->min_epoch = 1000;
  d->states[0] = MEMBER_OUT;
  put_back (true);
  live_on (80);
  assert (array ()->rec.restoring && says ("alone says"));
  assert (cluster_read_only (engine) == NULL);
  /* Another node says so, too. */
  rig.disk[3].states_epoch = rig.disk[3].min_epoch = 1000;
  memcpy (rig.disk[3].states, d->states, sizeof d->states);
  UNTIL (!array ()->rec.restoring);
  assert (array ()->rec.epoch > 1000 && state (0) == MEMBER_OUT);
}

/* Arrays that were made, and deleted, since. */
static void
test_other_arrays (void)
{
  struct cluster_import made = { .name = "b" };

  begin_array_of (LAYOUT_RAID1, 2);
  weftd.name = "a";
  make_array_of ("gone", LAYOUT_RAID1, 2, 2);
  live_on (8);
  make_backup ();
  DONE (cluster_array_delete (engine, in, "gone"));
  UNTIL (cluster_uuid_is_zero (rig.disk[2].array) &&
         cluster_uuid_is_zero (rig.disk[3].array));
  make_array_of ("b", LAYOUT_RAID1, 4, 2);
  memcpy (made.array, cluster_array_find (engine, "b")->rec.uuid, 16);
  live_on (8);
  restore ();
  works ();
  assert (says ("Array gone is frozen"));
  DONE (cluster_array_delete (engine, in, "gone"));
  UNTIL (known (2) && cluster_disk_heard (known (2)));
  assert (cluster_array_find (engine, "b") == NULL);
  live_on (8);
  DONE (cluster_array_import (engine, in, &made));
  UNTIL (cluster_array_find (engine, "b")->disk[0]->took_place);
  assert (!cluster_uuid_is_zero (rig.disk[4].array));
}

/* A disk was a member of one array by the backup, and is one of the other now. */
static void
test_moved (void)
{
  begin_array_of (LAYOUT_RAID1, 2);
  make_array_of ("b", LAYOUT_RAID1, 2, 2);
  live_on (8);
  make_backup ();
  /* Disk 3 of "b" takes the place of member 1 of "a"; disk 4 that of disk 3. */
  stop (3);
  attach (true);
  UNTIL (cluster_array_find (engine, "b")->disk[1]->alive == false);
  DONE (cluster_member_replace (engine, in, "b", 1, rig.disk[4].uuid, false));
  rig.disk[3].dead = false;
  UNTIL (cluster_uuid_is_zero (rig.disk[3].array));
  live_on (8);
  die (1);
  DONE (cluster_member_replace (engine, in, "a", 1, rig.disk[3].uuid, false));
  UNTIL (whole ());
  live_on (80);
  restore ();
  UNTIL (!cluster_array_find (engine, "b")->rec.restoring);
  works ();
  assert (on (1, 3));
  assert (cluster_uuid_equal (
    cluster_array_find (engine, "b")->disk[1]->rec.uuid, rig.disk[4].uuid));
}

/* An array was deleted, and its disks are free, or are in another array.  The verdict
 * says so, and the array can be deleted again, which takes nothing from them.
 */
static void
test_deleted (void)
{
  uint8_t other[16];

  begin_array_of (LAYOUT_RAID1, 2);
  live_on (8);
  make_backup ();
  DONE (cluster_array_delete (engine, in, "a"));
  UNTIL (cluster_uuid_is_zero (rig.disk[0].array) &&
         cluster_uuid_is_zero (rig.disk[1].array));
  live_on (8);
  put_back (true);
  UNTIL (strstr (array ()->waits, "weftctl array rm a"));
  DONE (cluster_array_delete (engine, in, "a"));
  live_on (8);
  make_array_of ("b", LAYOUT_RAID1, 0, 2);
  live_on (8);
  memcpy (other, rig.disk[0].array, 16);
  put_back (true);
  UNTIL (strstr (array ()->waits, "weftctl array rm a"));
  DONE (cluster_array_delete (engine, in, "a"));
  live_on (60);
  assert (memcmp (rig.disk[0].array, other, 16) == 0);
  assert (memcmp (rig.disk[1].array, other, 16) == 0);
}

/* Disks that were to forget an array have got a place since: they keep it. */
static void
test_release (void)
{
  begin_array_of (LAYOUT_RAID1, 2);
  attach (true);
  die (1);
  DONE (cluster_member_replace (engine, in, "a", 1, rig.disk[2].uuid, false));
  make_backup (); /* disk 1 is to forget "a", and is not there */
  rig.disk[1].dead = false;
  UNTIL (cluster_uuid_is_zero (rig.disk[1].array));
  live_on (8);
  UNTIL (whole ());
  rig.disk[2].dead = true;
  lose (1);
  DONE (cluster_member_replace (engine, in, "a", 1, rig.disk[1].uuid, false));
  UNTIL (whole ());
  restore ();
  works ();
  assert (on (1, 1) && !cluster_uuid_is_zero (rig.disk[1].array));
}

static void
test_confirm (void)
{
  begin_array ();
  make_backup ();
  restore ();
  works ();
  assert (says ("revocations confirm") && verdict () == CLUSTER_WARNING);
  restart ();
  live_on (8);
  assert (says ("revocations confirm"));
  DONE (cluster_restore_confirm (engine, in));
  assert (!says ("revocations confirm"));
}

int
main (void)
{
  test_changes ();
  test_unmarked ();
  test_writer ();
  test_session ();
  test_rounds_go_on ();
  test_old_copy ();
  test_confirmed_only ();
  test_last_old ();
  test_given_up ();
  test_successor_is_missing ();
  test_backup_is_newest ();
  test_not_told (2);
  test_not_told (3);
  test_verdict_meanwhile ();
  test_missing_went_on (true);
  test_missing_went_on (false);
  test_given_up_knows_more ();
  test_stranger ();
  test_other_arrays ();
  test_moved ();
  test_deleted ();
  test_release ();
  test_confirm ();
  change = 3;
  test_kills ("restore", scenario_change);
  return 0;
}
