/* test-cluster-doubts.c: no doubt is passed over.  Each doubt that the cluster engine can
 * have (docs/PROTOCOL.md "Doubts" has the same rows) stops something, and is in the
 * verdict while it lasts.
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

static const struct {
  bool (*so) (
    void); /* makes it so, and sees that it stops what it is to stop */
  enum cluster_severity severity;
  const char *says;
} doubts[] = {
  { array_not_known, CLUSTER_WARNING, "weftctl array import" },
  { import_of_old_disk, CLUSTER_WARNING, "weftctl array import" },
  { import_without_who_went_on, CLUSTER_WARNING, "weftctl array import" },
  { disk_after_the_import, CLUSTER_WARNING,
    "may have data that no other disk has" },
  { disk_of_another_array, CLUSTER_WARNING, "weftctl array import" },
  { disk_that_disagrees, CLUSTER_WARNING, "only one copy" },
  { old_copy, CLUSTER_WARNING, "is an old copy of its disk" },
  { old_copy_of_the_last, CLUSTER_ERROR, "put the right disk back" },
  { blank_in_the_last_one_s_place, CLUSTER_ERROR, "put the right disk back" },
  { old_copy_of_one_that_is_out, CLUSTER_WARNING, "is degraded" },
  { smaller_than_it_was, CLUSTER_WARNING, "give it its size back" },
  { smaller_while_written, CLUSTER_WARNING, "give it its size back" },
  { on_another_node, CLUSTER_WARNING, "weftctl disk move" },
  { in_the_place_of_another, CLUSTER_INFO, "All is well" },
  { second_process, CLUSTER_WARNING, "A second process asked to serve" },
  { member_knows_more, CLUSTER_ERROR, "is frozen" },
  { writer_knows_more, CLUSTER_ERROR, "is frozen" },
  { unknown_disk_knows_more, CLUSTER_WARNING, "that is not known here" },
  { two_nodes_know_more, CLUSTER_ERROR, "backup" },
  { one_round_alone, CLUSTER_ERROR, "is frozen" },
  { what_cannot_be, CLUSTER_WARNING, "impossible report" },
  { reader_says_what_cannot_be, CLUSTER_WARNING, "impossible report" },
};

int
main (void)
{
  char text[4096];

  for (size_t i = 0; i < sizeof doubts / sizeof doubts[0]; i++) {
    bool so = doubts[i].so ();
    enum cluster_severity is = cluster_verdict (engine, text, sizeof text);

    if (so && is >= doubts[i].severity && strstr (text, doubts[i].says))
      continue;
    fprintf (stderr, "doubt %zu: %s, the verdict is %d: %s\n", i,
             so ? "stops what it is to stop" : "stops nothing", is, text);
    abort ();
  }
  return 0;
}
