/* test-cluster-doubts.c: no doubt is passed over.  Each doubt that the cluster engine can
 * have stops something, and is in the verdict while it lasts.  docs/PROTOCOL.md "Doubts" has
 * the same rows, and tests/form/test_doubts.py looks for sentences of the source that have no
 * row here.
 */

#include <config.h>

#include "test-cluster-rig.h"

static bool
refused (unsigned disk, const char *code)
{
  const char *was = rig.disk[disk].refused;

  return was && strcmp (was, code) == 0;
}

/* Nobody attaches the array for writing. */
static bool
no_attach (const char *code)
{
  struct cluster_attach at = { .instance = "late",
                               .node = "host2",
                               .pid = 8,
                               .writable = true,
                               .takeover = true,
                               .by_admin = true };

  for (unsigned i = 0; i < 200; i++) {
    ASK (cluster_attach (engine, in, "a", &at));
    if (rig.code == NULL || strcmp (rig.code, code) == 0)
      break;
    live ();
  }
  return rig.code && strcmp (rig.code, code) == 0;
}

/* ---- Of an array that is not known. ---- */

static struct cluster_import import;

static void
lose_it (void)
{
  import = (struct cluster_import) { .name = "a" };
  memcpy (import.array, array ()->rec.uuid, 16);
  rig.attached = false;
  lose_database ();
  live_on (8);
}

static bool
array_not_known (void)
{
  begin_array ();
  lose_it ();
  return refused (0, "foreign-cluster");
}

static bool
import_of_old_disk (void)
{
  struct fake_disk old;

  begin_array ();
  old = rig.disk[3];
  attach (true);
  live_on (8);
  rig.disk[3] = old;
  lose_it ();
  REFUSED ("behind", cluster_array_import (engine, in, &import));
  return true;
}

static bool
import_of_clone (void)
{
  begin_array ();
  rig.disk[4] = rig.disk[0];
  snprintf (rig.disk[4].instance, 16, "clone");
  lose_it ();
  REFUSED ("clone", cluster_array_import (engine, in, &import));
  return true;
}

static bool
import_of_disks_that_disagree (void)
{
  begin_array ();
  rig.disk[1].layout.unit *= 2;
  lose_it ();
  REFUSED ("disagree", cluster_array_import (engine, in, &import));
  return true;
}

static bool
last_writer_not_known (void)
{
  begin_writing ();
  lose_it ();
  DONE (cluster_array_import (engine, in, &import));
  UNTIL (whole ());
  return array ()->rec.lapse >= array ()->rec.epoch;
}

static bool
import_without_who_went_on (void)
{
  begin_array_of (LAYOUT_RAID1, 2);
  rig.disk[1].dead = true;
  lose_it ();
  import.without[1] = true;
  REFUSED ("newer", cluster_array_import (engine, in, &import));
  return true;
}

static bool
disk_after_the_import (void)
{
  import_without_who_went_on ();
  import.accept_loss = true;
  DONE (cluster_array_import (engine, in, &import));
  rig.disk[1].states_epoch += 5;
  rig.disk[1].dead = false;
  live_on (8);
  return refused (1, "newer");
}

static bool
disk_of_another_array (void)
{
  begin_array ();
  live_on (8);
  rig.disk[5] = rig.disk[1];
  memset (rig.disk[5].uuid, 99, 16);
  memset (rig.disk[5].array, 98, 16);
  rig.disk[5].op = 0;
  snprintf (rig.disk[5].instance, 16, "stranger");
  UNTIL (refused (5, "unknown-array"));
  return true;
}

static bool
disk_that_disagrees (void)
{
  import_without_who_went_on ();
  import.accept_loss = true;
  DONE (cluster_array_import (engine, in, &import));
  rig.disk[1].layout.unit *= 2;
  rig.disk[1].dead = false;
  live_on (8);
  return refused (1, "disagree") && state (1) == MEMBER_OUT;
}

/* ---- Of a disk's age. ---- */

static bool
old_copy (void)
{
  struct fake_disk yesterday;

  begin_writing ();
  yesterday = yesterday_of (3);
  rig.lags = true; /* so that it can't go out yet */
  stop (3);
  put (3, &yesterday);
  live_on (30);
  return refused (3, "old-copy") && state (3) == MEMBER_IN_SYNC;
}

static bool
old_copy_of_the_last (void)
{
  struct fake_disk yesterday;

  begin_array ();
  stop (0);
  attach (true);
  yesterday = yesterday_of (3);
  detach ();
  live_on (8);
  stop (3);
  put (3, &yesterday);
  live_on (30);
  return refused (3, "old-copy") && no_attach ("member-missing");
}

static bool
blank_in_the_last_one_s_place (void)
{
  struct fake_disk blank;

  begin_array ();
  stop (0);
  attach (true);
  live_on (8);
  detach ();
  blank = rig.disk[3];
  memset (blank.array, 0, 16);
  stop (3);
  put (3, &blank);
  live_on (30);
  return refused (3, "blank") && no_attach ("member-missing");
}

static bool
old_copy_of_one_that_is_out (void)
{
  struct fake_disk yesterday;

  begin_writing ();
  yesterday = yesterday_of (3);
  die (3);
  rig.disk[3] = yesterday;
  start_again (3);
  UNTIL (member (3)->reset);
  return state (3) == MEMBER_OUT;
}

static bool
joiner_beside_old_copy (void)
{
  begin_copying (LAYOUT_RAIDX, MEMBERS);
  for (unsigned m = 0; m < MEMBERS; m++)
    if (m != 1)
      rig.disk[m].round = 10;
  rig.round = 10;
  live_on (20);
  rig.attached = false;
  rig.beat_op = rig.attach_op = 0;
  rig.disk[3].dead = true;
  live_on (60);
  rig.disk[3].min_epoch = rig.disk[3].states_epoch + 1;
  start_again (3);
  live_on (8);
  assert (!known (3)->old_copy);
  rig.disk[0].round = rig.disk[2].round = 12;
  UNTIL (known (3)->old_copy);
  UNTIL (state (1) == MEMBER_OUT);
  return member (1)->reset;
}

static bool
resync_takes_an_older_copy (void)
{
  begin_array ();
  rig.older = true;
  attach (true);
  UNTIL (array ()->rec.lapse > 0);
  return array ()->rec.lapse == rig.epoch;
}

static bool
second_process (void)
{
  begin_array ();
  live_on (8);
  rig.disk[4] = rig.disk[3];
  snprintf (rig.disk[4].instance, 16, "clone");
  rig.disk[4].op = 0;
  UNTIL (refused (4, "double-used"));
  return true;
}

/* ---- Of a disk's size, and of its place. ---- */

static bool
smaller_than_it_was (void)
{
  begin_array ();
  stop (1);
  rig.disk[1].data_bytes -= MiB (4);
  start_again (1);
  live_on (40);
  return refused (1, "truncated") && state (1) == MEMBER_IN_SYNC;
}

static bool
smaller_while_written (void)
{
  begin_writing ();
  die (1);
  rig.disk[1].data_bytes -= MiB (4);
  start_again (1);
  live_on (40);
  return refused (1, "truncated") && state (1) == MEMBER_OUT;
}

static bool
on_another_node (void)
{
  begin_array ();
  rig.proven = true;
  live_on (20);
  stop (1);
  live_on (40);
  rig.disk[1].node = "elsewhere";
  start_again (1);
  live_on (40);
  return refused (1, "other-node") && !known (1)->alive;
}

/* Without certificates nobody knows who a node is. */
static bool
on_another_node_that_is_not_known (void)
{
  begin_array ();
  stop (1);
  rig.disk[1].node = "elsewhere";
  start_again (1);
  UNTIL (strcmp (known (1)->rec.node, "elsewhere") == 0);
  UNTIL (whole ());
  return true;
}

static bool
in_the_place_of_another (void)
{
  begin_array ();
  live_on (8);
  rig.disk[5] = rig.disk[1];
  memset (rig.disk[5].uuid, 99, 16);
  rig.disk[5].op = 0;
  snprintf (rig.disk[5].instance, 16, "stranger");
  UNTIL (refused (5, "not-a-member"));
  return state (1) == MEMBER_IN_SYNC;
}

/* ---- Of weftd's database, or of a node. ---- */

static bool
member_knows_more (void)
{
  begin_array ();
  rig.disk[1].generation += 2;
  restart ();
  live_on (20);
  return refused (1, "doubted") && no_attach ("doubted");
}

static bool
writer_knows_more (void)
{
  begin_writing ();
  rig.lags = true;
  rig.epoch += 100;
  restart ();
  live_on (20);
  return no_attach ("doubted");
}

static bool
unknown_disk_knows_more (void)
{
  begin_array ();
  rig.disk[5].uuid[0] = 99;
  rig.disk[5].generation += 2;
  restart ();
  live_on (8);
  return refused (5, "doubted");
}

static bool
two_nodes_know_more (void)
{
  begin_array ();
  rig.disk[1].generation += 2;
  rig.disk[2].generation += 2;
  restart ();
  live_on (8);
  return cluster_read_only (engine) && no_attach ("read-only");
}

static bool
one_round_alone (void)
{
  begin_writing ();
  for (unsigned m = 0; m < MEMBERS; m++)
    rig.disk[m].round = 10;
  rig.round = 10;
  live_on (60);
  stop_members ();
  rig.attached = false;
  restart ();
  for (unsigned m = 0; m < MEMBERS; m++) {
    rig.disk[m].round = m == 1 ? 20 : 10;
    start_again (m);
  }
  live_on (40);
  return no_attach ("doubted");
}

/* weftd begins again from a backup of its present database. */
static void
restore (void)
{
  rig.attached = false;
  for (size_t i = 0; i < weftd.stored; i++)
    if (weftd.store[i].kind == CLUSTER_RECORD_IDENTITY)
      weftd.store[i].identity.restore = true;
  restart ();
}

static bool
restored_without_a_member (void)
{
  begin_array ();
  stop (1);
  restore ();
  live_on (40);
  return refused (0, "restoring") && no_attach ("doubted");
}

static bool
restored_with_an_old_copy (void)
{
  begin_writing ();
  for (unsigned m = 0; m < MEMBERS; m++)
    rig.disk[m].round = m == 1 ? 3 : 7;
  rig.round = 7;
  restore ();
  UNTIL (!array ()->rec.restoring);
  return state (1) == MEMBER_OUT && member (1)->reset;
}

static bool
restored_with_an_old_copy_of_the_last (void)
{
  begin_array_of (LAYOUT_RAID0, 2);
  rig.disk[0].round = 7;
  rig.disk[1].round = 3;
  restore ();
  live_on (40);
  return refused (1, "restoring") && no_attach ("doubted");
}

static bool
restored_without_who_went_on (void)
{
  begin_array_of (LAYOUT_RAID1, 2);
  stop (0);
  restore ();
  import = (struct cluster_import) { .name = "a", .without = { true } };
  memcpy (import.array, array ()->rec.uuid, 16);
  live_on (40);
  REFUSED ("restoring", cluster_array_restore (engine, in, &import));
  import.accept_loss = true;
  DONE (cluster_array_restore (engine, in, &import));
  return state (0) == MEMBER_OUT;
}

static bool
what_cannot_be (void)
{
  begin_array ();
  live_on (8);
  rig.disk[1].op = 0; /* it hears no answer to what it said before */
  rig.disk[1].generation += 2;
  UNTIL (refused (1, "untrue"));
  UNTIL (!known (1)->alive); /* it counts as silent */
  return true;
}

static bool
reader_says_what_cannot_be (void)
{
  begin_array ();
  attach (false);
  live_on (8);
  rig.lags = true;
  rig.epoch += 100;
  live_on (40);
  return TAILQ_FIRST (cluster_sessions (engine))->doubt.kind ==
         CLUSTER_DOUBT_LIE;
}

/* Volumes may have segments that the backup calls free. */
static bool
pool_of_a_backup (void)
{
  rig_init ();
  rig.pool = true;
  make_array ();
  restore ();
  UNTIL (!array ()->rec.restoring);
  attach (true);
  ASK (cluster_volume_create (engine, in, "a", "v", MiB (1)));
  return rig.code && strcmp (rig.code, "scanning") == 0;
}

static const struct {
  bool (*so) (
    void); /* makes it so, and sees that it stops what it is to stop */
  enum cluster_severity severity;
  const char *says; /* the verdict */
  const char *row;  /* how its row of the table begins */
  const char *logs; /* the log; NULL: it says nothing */
} doubts[] = {
  { array_not_known, CLUSTER_WARNING, "weftctl array import",
    "a disk claims to be of an unknown array", NULL },
  { import_of_old_disk, CLUSTER_WARNING, "weftctl array import",
    "an import's disk was replaced", NULL },
  { import_of_clone, CLUSTER_WARNING, "weftctl array import",
    "two disks are copies of each other", NULL },
  { import_of_disks_that_disagree, CLUSTER_WARNING, "weftctl array import",
    "two disks are copies of each other", NULL },
  { import_without_who_went_on, CLUSTER_WARNING, "weftctl array import",
    "missing members may have continued", NULL },
  { disk_after_the_import, CLUSTER_WARNING,
    "may have data that no other disk has", "a disk knows a later epoch",
    "was imported though this was doubtful" },
  { disk_of_another_array, CLUSTER_WARNING, "weftctl array import",
    "a disk claims to be of an unknown array", NULL },
  { disk_that_disagrees, CLUSTER_WARNING, "only one copy",
    "a disk that an import did not find describes", NULL },
  { last_writer_not_known, CLUSTER_WARNING, "", "the last writer is not known",
    NULL },
  { old_copy, CLUSTER_WARNING, "is an old copy of its disk",
    "an in-sync member's disk is an old copy", "is an old copy of the disk." },
  { old_copy_of_the_last, CLUSTER_ERROR, "put the right disk back",
    "the same, and no other copy is left", "is an old copy of the disk." },
  { blank_in_the_last_one_s_place, CLUSTER_ERROR, "put the right disk back",
    "the same, and no other copy is left", "is an old copy of the disk." },
  { old_copy_of_one_that_is_out, CLUSTER_WARNING, "is degraded",
    "the disk of a member that is out is an old copy", NULL },
  { joiner_beside_old_copy, CLUSTER_WARNING, "is an old copy of its disk",
    "a joining member may have copied",
    "of the array's writing, and others have seen round" },
  { resync_takes_an_older_copy, CLUSTER_INFO, "", "a resync uses an older copy",
    NULL },
  { smaller_than_it_was, CLUSTER_WARNING, "give it its size back",
    "a member's disk became smaller", NULL },
  { smaller_while_written, CLUSTER_WARNING, "give it its size back",
    "a member's disk became smaller", NULL },
  { on_another_node, CLUSTER_WARNING, "weftctl disk move",
    "a member's disk became smaller", "do not trust that node" },
  { on_another_node_that_is_not_known, CLUSTER_INFO, "",
    "without certificates, another node serves",
    "that node is not to be trusted" },
  { in_the_place_of_another, CLUSTER_INFO, "All is well",
    "an unknown disk claims the place", NULL },
  { second_process, CLUSTER_WARNING, "A second process asked to serve",
    "two processes serve one disk", "is it a clone?" },
  { member_knows_more, CLUSTER_ERROR, "is frozen",
    "a member, or a writer, knows more", "is not to be trusted" },
  { writer_knows_more, CLUSTER_ERROR, "is frozen",
    "a member, or a writer, knows more", "is not to be trusted" },
  { unknown_disk_knows_more, CLUSTER_WARNING,
    "restore it by weftd --restore; if not", "an unknown disk does",
    "is not to be trusted" },
  { two_nodes_know_more, CLUSTER_ERROR, "backup", "two nodes, or the only one",
    NULL },
  { one_round_alone, CLUSTER_ERROR, "is frozen",
    "one node alone has seen rounds", NULL },
  { restored_without_a_member, CLUSTER_ERROR, "is frozen",
    "an array is being restored", NULL },
  { restored_without_who_went_on, CLUSTER_WARNING, "is degraded",
    "an array is being restored", "was restored though this was doubtful" },
  { restored_with_an_old_copy, CLUSTER_WARNING, "is degraded",
    "an in-sync member's disk is an old copy", "is an old copy of member" },
  { restored_with_an_old_copy_of_the_last, CLUSTER_ERROR,
    "is an old copy of member", "the same, and no other copy is left", NULL },
  { what_cannot_be, CLUSTER_WARNING, "impossible report",
    "a disk or a session reports an impossible", "is not to be trusted" },
  { reader_says_what_cannot_be, CLUSTER_WARNING, "impossible report",
    "a disk or a session reports an impossible", "is not to be trusted" },
  { pool_of_a_backup, CLUSTER_WARNING, "may be older than pool a",
    "the process that has a pool", "may be older than pool" },
};

int
main (void)
{
  char text[4096];

  for (size_t i = 0; i < sizeof doubts / sizeof doubts[0]; i++) {
    bool so = doubts[i].so ();
    enum cluster_severity is = cluster_verdict (engine, text, sizeof text);
    bool logged = doubts[i].logs == NULL || strstr (rig.log, doubts[i].logs);

    if (so && logged && is >= doubts[i].severity &&
        strstr (text, doubts[i].says))
      continue;
    fprintf (stderr, "doubt %zu (%s): %s, the verdict is %d: %s%s%s\n", i,
             doubts[i].row, so ? "stops what it is to stop" : "stops nothing",
             is, text,
             logged ? "" : "\nthe log has not: ", logged ? "" : doubts[i].logs);
    abort ();
  }
  return 0;
}
