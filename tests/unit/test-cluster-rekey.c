/* test-cluster-rekey.c: a disk gets another key while its array is in use: the member
 * and the tokens agree again whoever dies, nobody loses the member for it, and what was
 * made with the former key opens nothing afterwards.
 */

#include <config.h>

#include "test-cluster-rig.h"
#include "format/token.h"

static uint8_t former[KEY_BYTES];

/* Would a token that is made for the member now open its door? */
static bool
opens (unsigned m)
{
  uint8_t made[KEY_BYTES];

  cluster_member_key (engine, array (), m, false, made);
  return memcmp (rig.disk[m].key, made, KEY_BYTES) == 0;
}

static bool
has_former (unsigned m)
{
  return memcmp (rig.disk[m].key, former, KEY_BYTES) == 0;
}

static bool
rekeys (unsigned m)
{
  return cluster_disk_rekeys (array ()->disk[m]);
}

static void
rekey (unsigned m)
{
  memcpy (former, rig.disk[m].key, KEY_BYTES);
  DONE (cluster_disk_rekey (engine, in, rig.disk[m].uuid));
}

/* It comes to its end: in time, and nobody is out, or was in between. */
static void
finish (unsigned m)
{
  for (unsigned i = 0; rekeys (m) || !opens (m); i++) {
    assert (i < 80);
    live ();
    for (unsigned k = 0; k < MEMBERS; k++)
      assert (state (k) == MEMBER_IN_SYNC);
  }
  assert (!has_former (m) && opens (m));
}

static void
begin (void)
{
  begin_writing ();
  rig.brief = true;
  live_on (8);
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (opens (m) && !rekeys (m));
}

/* The member is fenced with its key, in an epoch of its own; the others are not. */
static void
test_in_use (void)
{
  uint64_t fence[MEMBERS], lapse;

  begin ();
  for (unsigned m = 0; m < MEMBERS; m++)
    fence[m] = member (m)->fence;
  lapse = member (1)->lapse;
  rekey (1);
  finish (1);
  if (weftd.killed)
    return;
  assert (member (1)->fence > fence[1] &&
          member (1)->fence == array ()->rec.epoch);
  assert (member (1)->lapse == lapse); /* it has kept all */
  assert (member (0)->fence == fence[0] && member (2)->fence == fence[2]);
  UNTIL (rig.epoch == array ()->rec.epoch);
  live_on (30);
  assert (member (1)->fence == array ()->rec.epoch); /* once is enough */
  assert (rig.errors == 0 && rig.warnings == 0);
}

/* The member gets its new key together with the epoch below which it refuses. */
static void
test_key_comes_with_the_fence (void)
{
  uint64_t before;

  begin ();
  before = rig.disk[1].min_epoch;
  rekey (1);
  while (has_former (1)) {
    assert (rig.disk[1].min_epoch == before);
    live ();
  }
  assert (rig.disk[1].min_epoch > before);
}

/* The writer notices that the member refuses it, and reports so: the member stays. */
static void
test_reported (void)
{
  unsigned reports = 0;

  begin ();
  rekey (1);
  for (; rekeys (1) || rig.epoch < member (1)->fence; live ()) {
    /* A writer that reports that epoch has the member again. */
    if (has_former (1) || cluster_session_find (engine, rig.session)->epoch >=
                            cluster_disk_min_epoch_wanted (array ()->disk[1]))
      continue;
    report (1);
    reports++;
    assert (state (1) == MEMBER_IN_SYNC);
    assert (array ()->rec.change.epoch == 0 ||
            array ()->rec.change.states[1] == MEMBER_IN_SYNC);
  }
  finish (1);
  if (weftd.killed)
    return;
  assert (reports > 0);
  /* But a loss is one again afterwards, ... */
  live_on (8);
  lose (1);
}

/* ... and where the member dies of it. */
static void
test_dies (void)
{
  begin ();
  rekey (1);
  rig.disk[1].dead = true;
  while (state (1) != MEMBER_OUT) {
    report (1);
    live ();
    assert (weftd.now_ms < 100000000);
  }
  UNTIL (state (1) == MEMBER_OUT);
  rig.disk[1].dead = false;
  start_again (1);
  UNTIL (whole () && !rekeys (1) && opens (1));
}

static uint64_t
session_epoch (void)
{
  return cluster_session_find (engine, rig.session)->epoch;
}

/* The writer has it again, and loses it; or can't connect to it again. */
static void
test_lost_afterwards (bool connected)
{
  uint64_t fence;

  begin ();
  fence = member (1)->fence;
  rig.lags = !connected; /* so it never says that it works in that epoch */
  rekey (1);
  UNTIL (member (1)->fence > fence &&
         (!connected || session_epoch () == member (1)->fence));
  for (unsigned i = 0; state (1) == MEMBER_IN_SYNC; i++) {
    assert (i < (connected ? 1 : 8));
    report (1);
    if (!connected)
      live ();
  }
  rig.lags = false;
  UNTIL (whole () && opens (1) && !rekeys (1));
}

/* The member is heard, and never confirms.  weftd gives up, and the writer goes on
 * without the member. */
static void
test_hangs (void)
{
  begin ();
  rig.disk[1].hangs = true;
  rekey (1);
  for (unsigned i = 0; state (1) == MEMBER_IN_SYNC; i++) {
    assert (i < 60);
    live ();
    report (1);
    assert (i > 30 || state (1) == MEMBER_IN_SYNC);
  }
  rig.disk[1].hangs = false;
  UNTIL (whole () && opens (1) && !rekeys (1));
}

/* The member is out, and heard: it gets the key at once, as other news. */
static void
test_out (void)
{
  begin_copying (LAYOUT_RAIDX, MEMBERS);
  rig.brief = true;
  DONE (cluster_member_cancel (engine, in, "a", 1));
  live_on (8);
  assert (state (1) == MEMBER_OUT);
  UNTIL (rig.disk[1].op != 0);
  rekey (1);
  assert (!has_former (1) && opens (1));
}

/* It does not confirm: the change is not given up at the next tick, and is at last. */
static void
test_slow (void)
{
  uint64_t fence;
  unsigned waited = 0;

  begin ();
  fence = member (1)->fence;
  rig.disk[1].op =
    UINT64_MAX; /* it hears nothing for a while, and is not dead */
  rekey (1);
  live_on (4);
  assert (array ()->rec.change.epoch && array ()->rec.change.confirm[1]);
  for (; waited < 4; waited++)
    live ();
  assert (array ()->rec.change.confirm[1]);
  rig.disk[1].op = 0;
  finish (1);
  assert (member (1)->fence > fence);
}

/* One at a time, and the next one when the last is connected again. */
static void
test_all (void)
{
  begin ();
  for (unsigned m = 0; m < MEMBERS; m++)
    DONE (cluster_disk_rekey (engine, in, rig.disk[m].uuid));
  rig.lags = true;
  live_on (30);
  assert (!rekeys (0) || weftd.killed);
  assert (rekeys (MEMBERS - 1) || weftd.killed);
  rig.lags = false;
  for (unsigned m = 0; m < MEMBERS; m++)
    finish (m);
}

/* A joining member keeps its key until it is in-sync.  A member that is out gets its key
 * at once; if it is silent, it hears of it when it is back.
 */
static void
test_states (void)
{
  struct fake_disk *d = begin_copying (LAYOUT_RAIDX, MEMBERS);

  rig.brief = true;
  live_on (8);
  memcpy (former, d->key, KEY_BYTES);
  DONE (cluster_disk_rekey (engine, in, d->uuid));
  live_on (30);
  assert (state (1) == MEMBER_JOINING && has_former (1) && opens (1));
  d->stuck = false;
  UNTIL (whole () && !rekeys (1));
  assert (opens (1) && !has_former (1));

  live_on (8);
  die (1);
  rekey (1);
  live_on (4);
  UNTIL (!opens (1));
  assert (has_former (1) && rekeys (1));
  rig.disk[1].dead = false;
  UNTIL (whole () && !rekeys (1));
  assert (opens (1) && !has_former (1));
}

/* Nobody is attached; the member is silent, and gets it when it is heard. */
static void
test_unused (void)
{
  begin_array ();
  rig.brief = true;
  live_on (8);
  stop (1);
  rekey (1);
  live_on (8);
  assert (rekeys (1) && array ()->rec.change.epoch == 0);
  rig.disk[1].dead = false;
  finish (1);
  attach (true);
  assert (opens (1));
}

/* A disk of no array. */
static void
test_free (void)
{
  begin_array ();
  rig.brief = true;
  live_on (8);
  memcpy (former, rig.disk[MEMBERS].key, KEY_BYTES);
  DONE (cluster_disk_rekey (engine, in, rig.disk[MEMBERS].uuid));
  UNTIL (
    !cluster_disk_rekeys (cluster_disk_find (engine, rig.disk[MEMBERS].uuid)));
  assert (!has_former (MEMBERS));
  memset (former, 0x77, 16);
  REFUSED ("unknown-disk", cluster_disk_rekey (engine, in, former));
}

int
main (void)
{
  test_kills ("in use", test_in_use);
  test_key_comes_with_the_fence ();
  test_kills ("reported", test_reported);
  test_kills ("dies", test_dies);
  test_lost_afterwards (true);
  test_lost_afterwards (false);
  test_hangs ();
  test_out ();
  test_slow ();
  test_kills ("all", test_all);
  test_kills ("states", test_states);
  test_unused ();
  test_free ();
  return 0;
}
