/* test-cluster-key.c: tokens for a member's former process open nothing at the next
 * process, and no token for the next process is given out before the writer knows of
 * it.
 */

#include <config.h>

#include "test-cluster-rig.h"
#include "format/token.h"

/* Would a token that is made for the member now open its door? */
static bool
opens (unsigned m)
{
  uint8_t told[KEY_BYTES], made[KEY_BYTES];

  cluster_disk_key (array ()->disk[m], told);
  cluster_member_key (engine, array (), m, false, made);
  return memcmp (told, made, KEY_BYTES) == 0;
}

static bool
heard (unsigned m)
{
  const struct cluster_disk *d = array ()->disk[m];

  return cluster_disk_heard (d) &&
         strcmp (d->instance, rig.disk[m].instance) == 0;
}

static void
test_lives (void)
{
  uint8_t before[KEY_BYTES], after[KEY_BYTES];

  begin_writing ();
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (opens (m));
  cluster_member_key (engine, array (), 1, false, before);
  cluster_disk_key (array ()->disk[2], after);
  assert (memcmp (before, after, KEY_BYTES) != 0);
  restart (); /* of weftd: nothing that was given out is void */
  cluster_member_key (engine, array (), 1, false, after);
  assert (memcmp (before, after, KEY_BYTES) == 0);
  live_on (8);
  cluster_disk_key (array ()->disk[1], after);
  assert (memcmp (before, after, KEY_BYTES) == 0);
  start_again (1);
  UNTIL (heard (1));
  cluster_disk_key (array ()->disk[1], after);
  assert (memcmp (before, after, KEY_BYTES) != 0);
  UNTIL (state (1) == MEMBER_IN_SYNC && opens (1));
}

/* A last copy that was started again beside a writer: nobody gets to it before that
 * one has it back, also by a later epoch, and if weftd is started in between.
 */
static void
test_reborn (bool restarted)
{
  uint64_t epoch;
  unsigned last = attach_without_first (), other = last == 1 ? 2 : 1;

  stop (last);
  start_again (last);
  if (restarted)
    restart ();
  UNTIL (heard (last));
  assert (!opens (last));
  epoch = array ()->rec.epoch;
  die (other); /* another epoch */
  assert (array ()->rec.epoch > epoch);
  assert (member (last)->fence <= epoch && !opens (last));
  report (last);
  UNTIL (opens (last));
  assert (member (last)->fence > epoch);
}

/* Both are silent, and reported: the other one as if there were a reader, too. */
static void
lose_both (unsigned last, unsigned other)
{
  rig.disk[other].dead = true;
  stop (last);
  report (last);
  cluster_array_writer (array ())->path[other].lost = true;
}

/* Two members were lost at once, and only one of them the array can't do without:
 * that one is given back first, and the other goes out, if it was started again
 * meanwhile.
 */
static void
test_reborn_with_another (bool both)
{
  unsigned last = attach_without_first (), other = last == 1 ? 2 : 1;
  uint64_t fence;

  lose_both (last, other);
  assert (state (other) == MEMBER_IN_SYNC);
  fence = member (other)->fence;
  start_again (other);
  if (both)
    start_again (last);
  rig.disk[last].dead = false;
  UNTIL (state (other) == MEMBER_OUT);
  assert (member (other)->fence == fence);
  assert (member (last)->fence > fence);
  assert (state (last) == MEMBER_IN_SYNC);
  UNTIL (state (other) == MEMBER_IN_SYNC && opens (last));

  /* But while the one stays away, nobody waits for the other. */
  lose_both (last, other);
  fence = member (other)->fence;
  start_again (other);
  UNTIL (member (other)->fence > fence);
  assert (state (other) == MEMBER_IN_SYNC);
}

/* The array could do without the member, but not now: the writer waits for another
 * member, and is idle.
 */
static void
test_reborn_beside_a_stalled_writer (void)
{
  unsigned last = attach_without_first (), other = last == 1 ? 2 : 1;
  uint64_t fence;

  stop (last);
  report (last);
  fence = member (other)->fence;
  start_again (other);
  UNTIL (member (other)->fence > fence && opens (other));
  assert (state (other) == MEMBER_IN_SYNC);
}

/* The other one lives and confirms nothing: it is not waited for again and again. */
static void
test_reborn_beside_one_that_confirms_nothing (void)
{
  unsigned last = attach_without_first (), other = last == 1 ? 2 : 1;
  uint64_t fence;

  lose_both (last, other);
  fence = member (other)->fence;
  start_again (other);
  rig.disk[last].dead = false;
  rig.disk[last].hangs = true;
  UNTIL (member (other)->fence > fence);
  assert (state (other) == MEMBER_IN_SYNC);
  rig.disk[last].hangs = false;
  UNTIL (opens (last) && opens (other));
}

/* The array can do without either, but not without both: one is given back. */
static void
test_both_reborn (void)
{
  bool out = false;

  begin_writing_to (LAYOUT_RAID1, 2);
  rig.disk[0].dead = true;
  stop (1);
  for (unsigned m = 0; m < 2; m++) {
    cluster_array_writer (array ())->path[m].lost = true;
    start_again (m);
  }
  for (unsigned i = 0; i < 40; i++) {
    live ();
    out |= state (0) == MEMBER_OUT || state (1) == MEMBER_OUT;
  }
  assert (out);
  UNTIL (whole ());
  assert (opens (0) && opens (1));
}

/* One of the two has kept all its unflushed writes: that one is given back. */
static void
test_one_reborn_has_kept (unsigned kept)
{
  uint64_t fence[2];

  begin_writing_to (LAYOUT_RAID1, 2);
  rig.disk[kept].cache = "cache";
  lose (kept);
  UNTIL (whole ()); /* its cache is known */
  live_on (8);
  for (unsigned m = 0; m < 2; m++) {
    fence[m] = member (m)->fence;
    rig.disk[m].dead = true;
  }
  UNTIL (!array ()->disk[0]->alive && !array ()->disk[1]->alive);
  for (unsigned m = 0; m < 2; m++) {
    cluster_array_writer (array ())->path[m].lost = true;
    start_again (m);
    assert (member (m)->fence == fence[m]);
  }
  UNTIL (state (!kept) == MEMBER_OUT);
  assert (state (kept) == MEMBER_IN_SYNC &&
          member (kept)->lapse <= fence[kept]);
  UNTIL (whole ());
}

/* Nobody writes, or has not been heard of for long: readers get new tokens, though
 * those that they have are not of too low an epoch.  killed: weftd is, when it has
 * just heard of the new life.
 */
static void
test_new_tokens (bool writer, bool killed)
{
  uint64_t epoch, session;
  uint8_t serves[KEY_BYTES], writers[KEY_BYTES];

  begin_array ();
  if (writer) {
    attach (true);
    session = rig.session;
    rig.attached = false;
    snprintf (rig.instance, sizeof rig.instance, "reader");
    UNTIL (!cluster_session_find (engine, session)->alive);
  }
  attach (false);
  live_on (8);
  epoch = array ()->rec.epoch;
  live_on (30);
  assert (array ()->rec.epoch == epoch);
  if (killed)
    stop (2);
  start_again (2);
  assert (rig.disk[2].min_epoch <= epoch);
  weftd.kill_at = killed ? rig.steps + 1 : 0;
  UNTIL (array ()->rec.epoch > epoch && opens (2));
  assert (rig.epoch >= epoch);
  if (writer) { /* its own are still for the process that it knows */
    cluster_disk_key (array ()->disk[2], serves);
    cluster_member_key (engine, array (), 2, true, writers);
    assert (memcmp (serves, writers, KEY_BYTES) != 0);
  }
  epoch = array ()->rec.epoch;
  live_on (30);
  assert (array ()->rec.epoch == epoch); /* once is enough */
}

/* A last copy is served by another process, and given back: with all unflushed data, if
 * its processes say so.  An earlier loss stays reported after a later start without
 * loss.
 */
static void
test_kept (bool restarted)
{
  static const struct {
    const char *cache;
    bool failed, lost;
  } starts[] = {
    { "a", false, true }, /* of the one before nothing was known */
    { "a", false, false }, { "b", false, true },
    { "b", false, false }, { "b", true, true }, /* its disk had failed */
    { NULL, false, true }, { NULL, false, true },
  };
  unsigned last = attach_without_first ();
  uint64_t fence, lapse;

  for (unsigned i = 0; i < sizeof starts / sizeof starts[0]; i++) {
    fence = member (last)->fence;
    lapse = member (last)->lapse;
    rig.disk[last].failed = starts[i].failed;
    live_on (4);
    rig.disk[last].failed = false;
    rig.disk[last].cache = starts[i].cache;
    start_again (last);
    if (restarted)
      restart ();
    report (last);
    UNTIL (member (last)->fence > fence && opens (last));
    assert (state (last) == MEMBER_IN_SYNC);
    assert (member (last)->lapse ==
            (starts[i].lost ? member (last)->fence : lapse));
    assert (cluster_member_life (array (), last) == member (last)->fence);
  }

  /* The same process is given back. */
  fence = member (last)->fence;
  live_on (4);
  for (unsigned i = 0; i < 2; i++) {
    uint64_t before = member (last)->fence;

    if (restarted)
      restart ();
    live_on (60);
    report (last);
    UNTIL (member (last)->fence > before);
    assert (cluster_member_life (array (), last) == fence);
  }
}

/* The round that the next process's disk had noted at that time stays known, even if
 * later rounds are given and weftd is started again.  restarted: weftd is killed in
 * between.
 */
static void
test_life_round (bool restarted)
{
  unsigned last = attach_without_first ();
  uint64_t fence = member (last)->fence;

  rig.round = 7;
  for (unsigned d = 0; d < DISKS; d++)
    rig.disk[d].round = 7;
  live_on (8);
  start_again (last);
  report (last);
  UNTIL (member (last)->fence > fence && opens (last));
  assert (cluster_member_life_round (array (), last) == 7);
  if (restarted)
    restart ();
  rig.round = 9;
  for (unsigned d = 0; d < DISKS; d++)
    rig.disk[d].round = 9;
  live_on (60);
  assert (cluster_member_round (array (), last) == 9);
  assert (cluster_member_life_round (array (), last) == 7);
}

int
main (void)
{
  test_life_round (false);
  test_life_round (true);
  test_kept (false);
  test_kept (true);
  test_lives ();
  test_reborn (false);
  test_reborn (true);
  test_reborn_with_another (false);
  test_reborn_with_another (true);
  test_reborn_beside_a_stalled_writer ();
  test_reborn_beside_one_that_confirms_nothing ();
  test_both_reborn ();
  test_one_reborn_has_kept (0);
  test_one_reborn_has_kept (1);
  test_new_tokens (false, false);
  test_new_tokens (false, true);
  test_new_tokens (true, false);
  return 0;
}
