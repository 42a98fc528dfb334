/* test-cluster-key.c: what was given out for a member's former life opens nothing
 * in its next, and what opens that is not given out before whoever writes knows.
 */

#include <config.h>

#undef NDEBUG
#include <assert.h>

#include "test-cluster-rig.h"
#include "format/token.h"

/* Would a token that is made for the member now open its door? */
static bool
opens (struct rig *r, unsigned m)
{
  uint8_t told[KEY_BYTES], made[KEY_BYTES];

  cluster_disk_key (array (r)->disk[m], told);
  cluster_member_key (r->c, array (r), m, false, made);
  return memcmp (told, made, KEY_BYTES) == 0;
}

/* It is started again, and this time had nothing to raise its min_epoch for. */
static void
again (struct rig *r, unsigned m)
{
  static unsigned starts;

  snprintf (r->disk[m].instance, 16, "%u-%u", m, ++starts);
  r->disk[m].op = 0;
}

static bool
heard (struct rig *r, unsigned m)
{
  const struct cluster_disk *d = array (r)->disk[m];

  return d->heard && strcmp (d->instance, r->disk[m].instance) == 0;
}

static void
test_lives (void)
{
  struct rig r;
  uint8_t before[KEY_BYTES], after[KEY_BYTES];

  begin_writing (&r, 0);
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (opens (&r, m));
  cluster_member_key (r.c, array (&r), 1, false, before);
  cluster_disk_key (array (&r)->disk[2], after);
  assert (memcmp (before, after, KEY_BYTES) != 0);
  restart (&r); /* of weftd: nothing that was given out is void */
  cluster_member_key (r.c, array (&r), 1, false, after);
  assert (memcmp (before, after, KEY_BYTES) == 0);
  rounds (&r, 8);
  cluster_disk_key (array (&r)->disk[1], after);
  assert (memcmp (before, after, KEY_BYTES) == 0);
  again (&r, 1);
  UNTIL (&r, heard (&r, 1));
  cluster_disk_key (array (&r)->disk[1], after);
  assert (memcmp (before, after, KEY_BYTES) != 0);
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC && opens (&r, 1));
  cluster_free (r.c);
}

/* A last copy that was started again beside a writer: nobody gets to it before that
 * one has it back, also by a later epoch, and if weftd is started in between.
 */
static void
test_reborn (bool restarted)
{
  struct rig r;
  uint64_t epoch;
  unsigned last = attach_without_first (&r), other = last == 1 ? 2 : 1;

  r.disk[last].dead = true;
  rounds (&r, 24);
  r.disk[last].dead = false;
  again (&r, last);
  if (restarted)
    restart (&r);
  UNTIL (&r, heard (&r, last));
  assert (!opens (&r, last));
  epoch = array (&r)->rec.epoch;
  r.disk[other].dead = true;
  lose (&r, other); /* another epoch */
  assert (array (&r)->rec.epoch > epoch);
  assert (array (&r)->rec.member[last].fence <= epoch && !opens (&r, last));
  report (&r, last);
  UNTIL (&r, opens (&r, last));
  assert (array (&r)->rec.member[last].fence > epoch);
  cluster_free (r.c);
}

/* Two members were lost at once, and only one of them the array can't do without:
 * that one is given back first, and the other goes out, if it was started again
 * meanwhile.
 */
static void
test_reborn_with_another (bool both)
{
  struct rig r;
  unsigned last = attach_without_first (&r), other = last == 1 ? 2 : 1;
  uint64_t fence;

  r.disk[last].dead = r.disk[other].dead = true;
  rounds (&r, 24);
  report (&r, last);
  /* As if there were a reader, too. */
  cluster_array_writer (r.c, array (&r))->lost[other] = true;
  assert (state (&r, other) == MEMBER_IN_SYNC);
  fence = array (&r)->rec.member[other].fence;
  again (&r, other);
  if (both)
    again (&r, last);
  r.disk[last].dead = r.disk[other].dead = false;
  UNTIL (&r, state (&r, other) == MEMBER_OUT);
  assert (array (&r)->rec.member[other].fence == fence);
  assert (array (&r)->rec.member[last].fence > fence);
  assert (state (&r, last) == MEMBER_IN_SYNC);
  UNTIL (&r, state (&r, other) == MEMBER_IN_SYNC && opens (&r, last));

  /* But while the one stays away, nobody waits for the other. */
  r.disk[last].dead = r.disk[other].dead = true;
  rounds (&r, 24);
  report (&r, last);
  /* As if there were a reader, too. */
  cluster_array_writer (r.c, array (&r))->lost[other] = true;
  fence = array (&r)->rec.member[other].fence;
  again (&r, other);
  r.disk[other].dead = false;
  UNTIL (&r, array (&r)->rec.member[other].fence > fence);
  assert (state (&r, other) == MEMBER_IN_SYNC);
  cluster_free (r.c);
}

/* The array could do without it, but not now: whoever writes waits for another, and
 * is idle.
 */
static void
test_reborn_beside_a_stalled_writer (void)
{
  struct rig r;
  unsigned last = attach_without_first (&r), other = last == 1 ? 2 : 1;
  uint64_t fence;

  r.disk[last].dead = true;
  rounds (&r, 24);
  report (&r, last);
  fence = array (&r)->rec.member[other].fence;
  again (&r, other);
  UNTIL (&r, array (&r)->rec.member[other].fence > fence && opens (&r, other));
  assert (state (&r, other) == MEMBER_IN_SYNC);
  cluster_free (r.c);
}

/* The array can do without either, but not without both: one is given back. */
static void
test_both_reborn (void)
{
  struct rig r;
  bool out = false;

  rig_init (&r, 0);
  make_array_of (&r, "a", LAYOUT_RAID1, 0, 2);
  attach (&r, true);
  r.disk[0].dead = r.disk[1].dead = true;
  rounds (&r, 24);
  for (unsigned m = 0; m < 2; m++) {
    cluster_array_writer (r.c, array (&r))->lost[m] = true;
    again (&r, m);
    r.disk[m].dead = false;
  }
  for (unsigned i = 0; i < 40; i++) {
    round_of (&r);
    out |= state (&r, 0) == MEMBER_OUT || state (&r, 1) == MEMBER_OUT;
  }
  assert (out);
  UNTIL (&r,
         state (&r, 0) == MEMBER_IN_SYNC && state (&r, 1) == MEMBER_IN_SYNC);
  assert (opens (&r, 0) && opens (&r, 1));
  cluster_free (r.c);
}

/* Nobody writes, or has not been heard of for long: readers get new tokens, though
 * those that they have are not of too low an epoch.  killed: weftd is, when it has
 * just heard of the new life.
 */
static void
test_new_tokens (bool writer, bool killed)
{
  struct rig r;
  uint64_t epoch, session, told;
  uint8_t serves[KEY_BYTES], writers[KEY_BYTES];

  rig_init (&r, 0);
  make_array (&r);
  if (writer) {
    attach (&r, true);
    session = r.session;
    r.attached = false;
    snprintf (r.instance, sizeof r.instance, "reader");
    UNTIL (&r, !cluster_session_find (r.c, session)->alive);
  }
  attach (&r, false);
  rounds (&r, 8);
  epoch = array (&r)->rec.epoch;
  rounds (&r, 30);
  assert (array (&r)->rec.epoch == epoch);
  r.disk[2].dead = true;
  rounds (&r, killed ? 24 : 0);
  r.disk[2].dead = false;
  again (&r, 2);
  told = r.disk[2].min_epoch;
  assert (told <= epoch);
  r.kill_at = killed ? r.steps + 1 : 0;
  UNTIL (&r, array (&r)->rec.epoch > epoch && opens (&r, 2));
  assert (r.epoch >= epoch);
  if (writer) { /* its own are still for the process that it knows */
    cluster_disk_key (array (&r)->disk[2], serves);
    cluster_member_key (r.c, array (&r), 2, true, writers);
    assert (memcmp (serves, writers, KEY_BYTES) != 0);
  }
  epoch = array (&r)->rec.epoch;
  rounds (&r, 30);
  assert (array (&r)->rec.epoch == epoch); /* once is enough */
  cluster_free (r.c);
}

/* It is served by another process: until whoever writes is given it back. */
static void
comes_back (struct rig *r, unsigned m, const char *cache, bool failed,
            bool restarted)
{
  uint64_t fence = array (r)->rec.member[m].fence;

  r->disk[m].failed = failed;
  rounds (r, failed ? 4 : 0);
  r->disk[m].failed = false;
  r->disk[m].cache = cache;
  again (r, m);
  if (restarted)
    restart (r);
  report (r, m);
  UNTIL (r, array (r)->rec.member[m].fence > fence && opens (r, m));
  assert (state (r, m) == MEMBER_IN_SYNC);
}

/* A last copy is given back: with all that it had not flushed, if its processes say
 * so.  What was lost once is not there by a later start that loses nothing.
 */
static void
test_kept (bool restarted)
{
  struct rig r;
  unsigned last = attach_without_first (&r);
  const struct cluster_member *m = &array (&r)->rec.member[last];
  uint64_t lapse;

  comes_back (&r, last, "a", false, restarted);
  m = &array (&r)->rec.member[last];
  assert (m->lapse == m->fence); /* of the one before nothing was known */
  lapse = m->lapse;
  comes_back (&r, last, "a", false, restarted);
  m = &array (&r)->rec.member[last];
  assert (m->lapse == lapse && m->fence > lapse);
  comes_back (&r, last, "b", false, restarted);
  m = &array (&r)->rec.member[last];
  assert (m->lapse == m->fence);
  lapse = m->lapse;
  comes_back (&r, last, "b", false, restarted);
  m = &array (&r)->rec.member[last];
  assert (m->lapse == lapse);
  comes_back (&r, last, "b", true, restarted); /* its disk had failed */
  m = &array (&r)->rec.member[last];
  assert (m->lapse == m->fence);
  comes_back (&r, last, NULL, false, restarted);
  comes_back (&r, last, NULL, false, restarted);
  m = &array (&r)->rec.member[last];
  assert (m->lapse == m->fence);
  cluster_free (r.c);
}

int
main (void)
{
  test_kept (false);
  test_kept (true);
  test_lives ();
  test_reborn (false);
  test_reborn (true);
  test_reborn_with_another (false);
  test_reborn_with_another (true);
  test_reborn_beside_a_stalled_writer ();
  test_both_reborn ();
  test_new_tokens (false, false);
  test_new_tokens (false, true);
  test_new_tokens (true, false);
  return 0;
}
