/* test-cluster-doubts.c: no doubt is passed over.  Each doubt that the cluster engine can
 * have (docs/PROTOCOL.md "Doubts" has the same rows) stops something, and is in the
 * verdict while it lasts.
 */

#include <config.h>

#include "test-cluster-rig.h"

/* The disk stops, and what is in its place is started. */
static void
put (unsigned m, const struct fake_disk *what)
{
  stop (m);
  rig.disk[m] = *what;
  start_again (m);
}

/* A disk as it is now, before more is written to it. */
static struct fake_disk
yesterday_of (unsigned m)
{
  struct fake_disk yesterday;

  live_on (60);
  yesterday = rig.disk[m];
  rig.disk[m].sequence += 5;
  live_on (60);
  return yesterday;
}

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

/* ---- Of a disk's age. ---- */

static bool
old_copy (void)
{
  struct fake_disk yesterday;

  begin_writing ();
  yesterday = yesterday_of (3);
  rig.lags = true; /* so that it can't go out yet */
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
  { disk_after_the_import, CLUSTER_WARNING, "may have what no other has" },
  { old_copy, CLUSTER_WARNING, "is an old copy of its disk" },
  { old_copy_of_the_last, CLUSTER_ERROR, "put the right disk back" },
  { blank_in_the_last_one_s_place, CLUSTER_ERROR, "put the right disk back" },
  { old_copy_of_one_that_is_out, CLUSTER_WARNING, "is degraded" },
  { second_process, CLUSTER_WARNING, "A second process asked to serve" },
  { member_knows_more, CLUSTER_ERROR, "stands still" },
  { writer_knows_more, CLUSTER_ERROR, "stands still" },
  { unknown_disk_knows_more, CLUSTER_WARNING, "that is not known here" },
  { two_nodes_know_more, CLUSTER_ERROR, "backup" },
  { one_round_alone, CLUSTER_ERROR, "stands still" },
  { what_cannot_be, CLUSTER_WARNING, "can't be so" },
  { reader_says_what_cannot_be, CLUSTER_WARNING, "can't be so" },
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
