/* test-array-lease.c: leases come and go (array-lease.c). */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "test-array-rig.h"

/* raid-10 of four: unit u of the array is unit u / 2 of member u % 2, its image of
 * member u % 2 + 2.  raid-x of four: see IMAGE0.
 */
static void
start_as (enum layout_kind kind, bool all)
{
  config.batches = config.leases = true;
  config.lease_all = all;
  config.extent_bytes = 4 * UNIT;
  begin (kind, 4);
  array_settled (a, 0, 0, 0, now);
  rig_take ();
}

static void
start (enum layout_kind kind)
{
  start_as (kind, false);
}

static void
grant (uint64_t offset, uint64_t length)
{
  struct array_range r = { offset, length };

  array_lease_grant (a, &r, 1, now);
  rig_take ();
}

static void
leave_with (uint64_t offset, uint64_t length, uint64_t wish, uint64_t bytes)
{
  struct array_range must = { offset, length }, around = { wish, bytes };

  array_lease_leave (a, &must, &around, now);
  rig_take ();
}

static void
leave (uint64_t offset, uint64_t length)
{
  leave_with (offset, length, offset, length);
}

/* Exactly this range was given back, and it is reported once. */
static bool
left (uint64_t offset, uint64_t length)
{
  struct array_range r[2];

  return array_lease_left (a, r, 2) == 1 && r[0].offset == offset &&
         r[0].length == length && array_lease_left (a, r, 2) == 0;
}

static bool
nothing_left (void)
{
  struct array_range r;

  return array_lease_left (a, &r, 1) == 0;
}

/* This alone is wanted. */
static bool
wanted (uint64_t offset, uint64_t length)
{
  struct array_range r[2];

  return array_lease_wants (a, r, 2) == 1 && r[0].offset == offset &&
         r[0].length == length;
}

static bool
nothing_wanted (void)
{
  struct array_range r;

  return array_lease_wants (a, &r, 1) == 0;
}

/* A write without a lease waits, sends nothing, and is wanted; with one it goes. */
static void
test_flow (void)
{
  static const enum layout_kind kinds[] = { LAYOUT_RAIDX, LAYOUT_RAID10 };

  for (unsigned k = 0; k < 2; k++) {
    struct array_request w = WRITE (0, 4096, ones);
    struct array_request later = WRITE (512, 512, twos);

    start (kinds[k]);
    submit (&w);
    assert (ios_count == 0 && !done (&w) && wanted (0, 4096));
    assert (notices_lease == 1 && !array_idle (a));
    grant (0, 4096);
    assert (ios_count == 1 && nothing_wanted ());
    leave (0, 4096);
    assert (nothing_left ());
    submit (&later);
    assert (ios_count == 1 && wanted (512, 512));
    answer_only (IO_WRITE, 0, 0, 4096, 0);
    /* It is answered, and its image leaves the buffer at once. */
    assert (done (&w) && w.error == 0 && nothing_left ());
    assert (notices_left == 0 && ios_count == 1);
    answer_all ();
    assert (notices_left == 1 && left (0, 4096));
    assert (!done (&later) && wanted (512, 512));
    grant (512, 512);
    assert (finish (&later) == 0);
    end ();
  }
}

/* The time that a write waited for its lease is no delay of a member that is lost then. */
static void
test_wait_for_a_lease (void)
{
  struct array_request w = WRITE (0, 4096, ones);

  start (LAYOUT_RAID10);
  submit (&w);
  tick_after (500 * MS);
  grant (0, 4096);
  tick_after (100 * MS);
  lose (0);
  assert (notice.member == 0 && notice.waited_ms == 100);
  commit (1);
  while (ios_count)
    answer_all ();
  assert (done (&w));
  end ();
}

static struct array_request
read_of (unsigned unit)
{
  return (struct array_request) READ (unit * UNIT, 4096, back);
}

/* The copies of a write to unit 0 of raid-10. */
static void
data_answered (void)
{
  answer_only (IO_WRITE, 0, 0, 4096, 0);
}

/* While the image's member is lost nobody knows whether its image is needed. */
static void
test_left_after_commit (bool comes_back)
{
  struct array_request w = WRITE (0, 4096, ones);

  start (LAYOUT_RAID10);
  grant (0, UNIT);
  submit (&w);
  data_answered ();
  assert (done (&w) && w.error == 0);
  lose (2);
  leave (0, UNIT);
  assert (ios_count == 0 && nothing_left ());
  tick_after (1000 * MS);
  assert (ios_count == 0 && nothing_left () && !array_idle (a));
  if (comes_back) {
    return_whole (2);
    commit_states (1, "iiii");
    assert (nothing_left ());
    answer_only (IO_WRITE, 2, 0, 4096, 0);
  }
  else
    commit (1 << 2);
  assert (left (0, UNIT) && array_idle (a));
  end ();
}

/* A request that waits for a lost member has begun. */
static void
test_left_after_request (void)
{
  struct array_request w = WRITE (0, 4096, ones), r = read_of (0);

  start (LAYOUT_RAID10);
  grant (0, UNIT);
  submit (&w);
  submit (&r);
  lose (0);
  leave (0, UNIT);
  answer_lost (0);
  assert (!done (&w) && !done (&r) && nothing_left ());
  commit (1);
  assert (nothing_left ());
  answer_only (IO_WRITE, 2, 0, 4096, 0);
  assert (done (&w) && w.error == 0 && !done (&r) && nothing_left ());
  answer_only (IO_READ, 2, 0, 4096, 0);
  assert (done (&r) && r.error == 0 && left (0, UNIT));
  end ();
}

/* A read delays the return of its lease, too, because it may be about to read an
 * image. */
static void
test_left_after_read (void)
{
  struct array_request r = read_of (0);
  struct array_request e = { .op = ARRAY_EXTENTS, .length = UNIT };

  start (LAYOUT_RAID10);
  grant (0, UNIT);
  submit (&r);
  leave (0, UNIT);
  assert (nothing_left ());
  answer_all ();
  assert (done (&r) && left (0, UNIT));

  grant (0, UNIT);
  submit (&e);
  leave (0, UNIT);
  assert (nothing_left ());
  assert (finish (&e) == 0 && left (0, UNIT));
  free (e.extents);
  end ();
}

/* A joiner's copy counts for nothing but this: it would overtake the next writer's. */
static void
test_left_after_joiner (bool lost)
{
  struct array_request w = WRITE (0, 4096, ones);

  rig_states ("iiji", config.states);
  start (LAYOUT_RAID10);
  grant (0, UNIT);
  submit (&w);
  data_answered ();
  assert (done (&w) && ios_count == 0);
  leave (0, UNIT);
  assert (nothing_left ());
  assert (ios_count == 1 && is_io (0, IO_WRITE, 2, 0, 4096));
  if (lost)
    lose (2);
  assert (nothing_left ());
  answer (0, lost ? ENOTCONN : 0);
  assert (left (0, UNIT));
  end ();
}

/* Where much is left, all that was in the buffer is written, and what came since is
 * not waited for.
 */
static void
test_much_is_left (bool joins)
{
  struct array_request w = WRITE (0, 4096, ones),
                       next = WRITE (48 * UNIT, 4096, ones);

  rig_member_bytes = MiB (64);
  if (joins)
    rig_states ("iiji", config.states);
  start (LAYOUT_RAID10);
  grant (0, MiB (65));
  grant (MiB (65), UNIT);
  submit (&w);
  data_answered ();
  lose (3);
  leave (0, MiB (65));
  assert (ios_count == 1 && is_io (0, IO_WRITE, 2, 0, 4096));
  next.offset = MiB (65);
  submit (&next);
  answer (1, 0);
  assert (done (&next) && nothing_left ());
  answer (0, 0);
  assert (left (0, MiB (65)));
  commit (1 << 3);
  answer_all ();
  end ();
}

/* If each of two hosts asked only for its missing part of the other's range, they would
 * exchange halves for ever.  A range that an earlier request asks for is not asked for
 * twice.
 */
static void
test_wants (void)
{
  struct array_request w[] = {
    WRITE (UNIT - 1, 2, ones),      WRITE (UNIT, 100, ones),
    WRITE (2 * UNIT, 4096, ones),   WRITE (0, 1, ones),
    WRITE (48 * UNIT - 1, 1, ones),
  };
  struct array_range r[5];

  start (LAYOUT_RAIDX);
  grant (0, UNIT);
  for (unsigned i = 0; i < 5; i++)
    submit (&w[i]);
  assert (ios_count == 1 && notices_lease == 4);
  assert (array_lease_wants (a, r, 5) == 3);
  assert (r[0].offset == UNIT - 512 && r[0].length == 1024);
  assert (r[1].offset == 2 * UNIT && r[1].length == 4096);
  assert (r[2].offset == 48 * UNIT - 512 && r[2].length == 512);
  assert (array_lease_wants (a, r, 1) == 1 && r[0].offset == UNIT - 512);
  /* When some of the ranges are granted, the host asks again for the rest. */
  grant (UNIT, 512);
  assert (notices_lease == 5);
  assert (array_lease_wants (a, r, 5) == 2 && r[0].offset == 2 * UNIT);
  grant (0, UINT64_MAX);
  assert (nothing_wanted () && notices_lease == 5);
  answer_all ();
  for (unsigned i = 0; i < 5; i++)
    assert (done (&w[i]) && w[i].error == 0);
  end ();
}

/* Waiting requests begin in their order, and before a lease that is asked back at once
 * goes. */
static void
test_order (void)
{
  struct array_request w[] = { WRITE (0, 4096, ones), WRITE (0, 4096, twos) };

  start (LAYOUT_RAIDX);
  submit (&w[0]);
  submit (&w[1]);
  grant (0, 4096);
  leave (0, 4096);
  answer_only (IO_WRITE, 0, 0, 4096, 0);
  assert (done (&w[0]) && !done (&w[1]) && nothing_left ());
  answer_all ();
  assert (done (&w[1]) && left (0, 4096));
  assert (all_are (members[0], 2, 4096) &&
          all_are (members[3] + IMAGE0, 2, 4096));
  end ();
}

/* Where all copies are in sync, a read under our lease may use an image.  Elsewhere the
 * image may lack what another host still buffers.  A host that did not resynchronize the
 * range itself reads no image.
 */
static void
test_images (void)
{
  struct array_request ours = read_of (8), theirs = read_of (24);

  start (LAYOUT_RAID10);
  grant (8 * UNIT, UNIT);
  submit (&ours);
  answer_only (IO_READ, 2, 4 * UNIT, 4096, 0);
  submit (&theirs);
  answer_only (IO_READ, 0, 12 * UNIT, 4096, 0);
  leave (8 * UNIT, UNIT);
  assert (left (8 * UNIT, UNIT));
  submit (&ours);
  answer_only (IO_READ, 0, 4 * UNIT, 4096, 0);
  end ();
}

/* A member that is slow is read around where we hold what is read, and copies are known to
 * be equal.
 */
static void
test_suspect (bool equal)
{
  unsigned around = 0;

  config.leases = true;
  begin (LAYOUT_RAIDX, 4);
  if (equal)
    array_settled (a, 0, 0, 0, now);
  grant (0, 12 * UNIT);
  for (unsigned i = 0; i < 400; i++) {
    struct array_request r = read_of (i % 24);

    submit (&r);
    assert (ios_count == 1);
    if (i % 24 % 4 == 0 && ios[0]->member != 0) {
      assert (i % 24 < 12);
      around++;
    }
    now += ios[0]->member == 0 ? 300 * MS : 2 * MS;
    answer (0, 0);
    assert (done (&r) && r.error == 0);
  }
  assert ((around > 0) == equal);
  end ();
}

/* While weftd is not heard, and between its word that it is prepared and the commit,
 * nothing is read of what others may write by other states.
 */
static void
test_held (bool silent)
{
  struct array_request ours = read_of (8), theirs = read_of (24),
                       before = read_of (26), granted = read_of (10);
  struct array_request e = { .op = ARRAY_EXTENTS,
                             .offset = 8 * UNIT,
                             .length = UNIT };
  struct array_request wide = { .op = ARRAY_EXTENTS, .length = 48 * UNIT };

  start (LAYOUT_RAID10);
  grant (8 * UNIT, UNIT);
  submit (&before);
  assert (is_io (0, IO_READ, 0, 13 * UNIT, 4096));
  if (silent)
    hold (true);
  else {
    prepare (2, "iiii");
    while (notices_prepared == 0)
      answer (ios_count - 1, 0);
    assert (ios_count == 1);
  }
  answer (0, 0);
  assert (!done (&before) && ios_count == 0);
  submit (&theirs);
  submit (&wide);
  assert (ios_count == 0);
  assert (carry_out (&ours) == 0 && carry_out (&e) == 0);
  grant (10 * UNIT, UNIT);
  assert (carry_out (&granted) == 0);
  assert (!done (&theirs) && !done (&before) && !done (&wide));
  if (silent)
    hold (false);
  else
    commit_states (2, "iiii");
  assert (ios_count > 0);
  answer_all ();
  assert (done (&theirs) && done (&before) && done (&wide));
  assert (theirs.error == 0 && before.error == 0 && wide.error == 0);
  free (e.extents);
  free (wide.extents);
  end ();
}

/* Only the lease holder repairs a bad spot, so a reader that finds one asks for the
 * lease. */
static void
test_bad_spot (void)
{
  struct array_request r = read_of (4), both = READ (4 * UNIT, 2 * UNIT, back);

  start (LAYOUT_RAID10);
  memset (members[0] + 2 * UNIT, 1, UNIT);
  memset (members[2] + 2 * UNIT, 1, UNIT);
  submit (&r);
  answer_only (IO_READ, 0, 2 * UNIT, 4096, EIO);
  assert (ios_count == 0 && !done (&r) && wanted (4 * UNIT, 4096));
  assert (array_deadline (a) == UINT64_MAX && notices_lost == 0);
  grant (4 * UNIT, 4096);
  leave (4 * UNIT, 4096);
  answer_only (IO_READ, 2, 2 * UNIT, 4096, 0);
  assert (nothing_left ());
  answer_only (IO_WRITE, 0, 2 * UNIT, 4096, 0);
  assert (done (&r) && r.error == 0 && back[0] == 1);
  assert (left (4 * UNIT, 4096));

  /* The rest of the request ends first; all of it is wanted. */
  submit (&both);
  assert (ios_count == 2);
  answer (0, EIO);
  assert (nothing_wanted ());
  answer (0, 0);
  assert (wanted (4 * UNIT, 2 * UNIT));
  grant (4 * UNIT, 2 * UNIT);
  assert (finish (&both) == 0 && all_are (back, 1, UNIT));
  end ();
}

/* A request that waits for a lease takes no turn.  Otherwise a write under our lease
 * would wait for it, and so would the return of the lease that is asked back for that
 * request.
 */
static void
test_waits_without_turn (void)
{
  struct array_request r = READ (0, 2 * UNIT, back),
                       w = WRITE (UNIT, 4096, ones), f = FLUSH;

  start (LAYOUT_RAID10);
  commit (1 << 3); /* reads take turns from now on */
  grant (UNIT, UNIT);
  submit (&r);
  submit (&w);
  assert (ios_count == 2 && is_io (0, IO_READ, 0, 0, UNIT));
  answer (0, EIO);
  answer_only (IO_READ, 1, 0, UNIT, 0);
  assert (!done (&r) && wanted (0, 2 * UNIT));
  leave (UNIT, UNIT);
  answer_only (IO_WRITE, 1, 0, 4096, 0);
  assert (done (&w) && left (UNIT, UNIT));
  assert (carry_out (&f) == 0 && !done (&r));
  grant (0, 2 * UNIT);
  assert (finish (&r) == 0);
  end ();
}

/* Data that came with a lease may not be stable yet on any member, and it may be lost. */
static void
test_flush (void)
{
  for (unsigned lapsed = 0; lapsed < 3; lapsed++) {
    struct array_request f = FLUSH;

    start (LAYOUT_RAID10);
    assert (carry_out (&f) == 0);
    submit (&f);
    assert (done (&f) && ios_count == 0);
    if (lapsed == 2)
      give_back (1, 1, "iiii"); /* lost before the grant: the former holder gets
                                 * the error */
    lose (1);
    return_whole (1);
    commit_states (1, "iiii");
    grant (0, UNIT);
    if (lapsed == 1) {
      lose (1);
      give_back (1, 1, "iiii");
      answer_all ();
    }
    submit (&f);
    assert (ios_count == 4);
    assert (finish (&f) == (lapsed == 1 ? EIO : 0));
    assert (carry_out (&f) == 0);
    grant (0, UNIT); /* it is ours already */
    submit (&f);
    assert (done (&f) && f.error == 0 && ios_count == 0);
    end ();
  }
}

static int
flush_by (struct array_client *c, unsigned flags)
{
  struct array_request f = FLUSH;

  f.client = c;
  f.flags = flags;
  return carry_out (&f);
}

static void
lose_cache (unsigned member)
{
  lose (member);
  answer_all ();
  give_back (member, 1, "iiii");
  answer_all ();
}

/* The host that resynchronizes orphaned ranges does so as a client of its own.  This
 * client does not get the errors of other clients, and they do not get its errors.
 */
static void
test_flush_of_recovery (void)
{
  struct array_range orphan = { 2 * UNIT, UNIT };
  struct array_request w = WRITE (0, UNIT, ones),
                       copy = WRITE (2 * UNIT, UNIT, ones);
  struct array_client *copier, *third;

  start_as (LAYOUT_RAID10, true);
  copier = copy.client = array_client_open (a);
  third = array_client_open (a);
  copy.flags = ARRAY_RECOVER;
  leave (2 * UNIT, UNIT);
  assert (left (2 * UNIT, UNIT));
  array_lease_recover (a, &orphan, 1, now);
  rig_take ();
  assert (flush_by (client, 0) == 0);

  assert (carry_out (&w) == 0);
  lose_cache (0);
  assert (flush_by (copier, ARRAY_RECOVER) == 0);
  assert (flush_by (third, 0) == EIO); /* no client has got the error yet */
  assert (flush_by (third, 0) == 0);
  assert (flush_by (client, 0) == EIO && flush_by (client, 0) == 0);

  assert (carry_out (&copy) == 0);
  lose_cache (0);
  assert (flush_by (third, 0) == 0 && flush_by (client, 0) == 0);
  assert (flush_by (copier, ARRAY_RECOVER) == EIO);
  assert (flush_by (copier, ARRAY_RECOVER) == 0);

  assert (carry_out (&w) == 0 && carry_out (&copy) == 0);
  lose_cache (0);
  assert (flush_by (copier, ARRAY_RECOVER) == EIO);
  assert (flush_by (third, 0) == EIO);
  array_client_close (a, copier);
  end ();
}

/* Until the copies are in sync, only the recovering client may write there. */
static void
test_recover (void)
{
  struct array_range ranges[] = { { 0, UNIT }, { 2 * UNIT, UNIT } };
  struct array_request w = WRITE (0, UNIT, ones),
                       wide = WRITE (0, 3 * UNIT, ones), r = read_of (8),
                       copy = READ (0, UNIT, back),
                       again = WRITE (0, UNIT, twos),
                       over = WRITE (0, 3 * UNIT, twos), f = FLUSH;
  struct array_range *all;

  start (LAYOUT_RAID10);
  assert (carry_out (&f) == 0);
  submit (&w);
  submit (&again);
  array_lease_recover (a, ranges, 2, now);
  rig_take ();
  assert (ios_count == 0 && nothing_wanted ());
  submit (&wide);
  assert (wanted (0, 3 * UNIT));
  /* A leaseless read goes on, as by a reader. */
  r.offset = 0;
  submit (&r);
  answer_only (IO_READ, 0, 0, 4096, 0);
  copy.copy = 2;
  copy.flags = ARRAY_RECOVER;
  submit (&copy);
  answer_only (IO_READ, 2, 0, UNIT, 0);
  copy = (struct array_request) WRITE (0, UNIT, ones);
  copy.flags = ARRAY_RECOVER;
  assert (carry_out (&copy) == 0 && !done (&w));
  /* It is not given back, by whatever mistake, nor forgotten. */
  leave (0, 4 * UNIT);
  answer_all ();
  {
    struct array_range gone[3];

    assert (array_lease_left (a, gone, 3) == 2);
    assert (gone[0].offset == UNIT && gone[0].length == UNIT);
    assert (gone[1].offset == 3 * UNIT && gone[1].length == UNIT);
  }
  assert (array_lease_all (a, &all) == 2);
  assert (all[0].offset == 0 && all[0].length == UNIT &&
          all[1].offset == 2 * UNIT && all[1].length == UNIT);
  free (all);
  /* A request that is not wholly under our lease waits for the rest. */
  over.flags = ARRAY_RECOVER;
  submit (&over);
  assert (ios_count == 0);
  submit (&f);
  assert (ios_count == 4);
  assert (finish (&f) == 0);
  array_lease_recovered (a, now);
  rig_take ();
  assert (finish (&w) == 0 && finish (&again) == 0);
  assert (!done (&wide) && !done (&over) && wanted (0, 3 * UNIT));
  grant (UNIT, UNIT);
  assert (finish (&wide) == 0 && finish (&over) == 0);
  leave (0, UNIT);
  answer_all ();
  assert (left (0, UNIT));
  end ();
}

/* Nothing is left once images were forgotten. */
static void
test_stop (void)
{
  struct array_request w[] = { WRITE (0, 4096, ones), WRITE (UNIT, 512, ones),
                               WRITE (2 * UNIT, 512, ones) },
                       r = read_of (4);

  start (LAYOUT_RAID10);
  grant (0, UNIT);
  submit (&w[0]);
  data_answered ();
  submit (&w[0]);
  submit (&r);
  answer (1, EIO);
  submit (&w[1]);
  assert (!done (&r) && !done (&w[1]));
  leave (0, UNIT);
  stop ();
  assert (done (&w[1]) && w[1].error == ESHUTDOWN);
  assert (done (&r) && r.error == ESHUTDOWN && nothing_wanted ());
  answer_all ();
  assert (done (&w[0]) && nothing_left () && notices_left == 0);
  leave (0, UNIT);
  assert (nothing_left ());
  grant (UNIT, UNIT);
  submit (&w[1]);
  submit (&w[2]);
  assert (done (&w[1]) && w[1].error == ESHUTDOWN && done (&w[2]));
  end ();
}

/* A host that begins with the whole array is not asked for anything; ranges not given
 * back yet are still ours. */
static void
test_all (void)
{
  struct array_request w = WRITE (4 * UNIT, 4096, ones);
  struct array_range *all;

  start (LAYOUT_RAID10);
  assert (array_lease_all (a, &all) == 0 && all == NULL);
  end ();
  start_as (LAYOUT_RAID10, true);
  submit (&w);
  assert (ios_count == 1 && nothing_wanted ());
  leave (4 * UNIT, UNIT);
  leave (0, UNIT);
  assert (left (0, UNIT));
  assert (array_lease_all (a, &all) == 1);
  assert (all[0].offset == UNIT && all[0].length == 47 * UNIT);
  free (all);
  assert (finish (&w) == 0 && left (4 * UNIT, UNIT));
  assert (array_lease_all (a, &all) == 2);
  assert (all[1].offset == 5 * UNIT && all[1].length == 43 * UNIT);
  free (all);
  end ();
}

/* A range that is asked back twice is given back once, for the first call.  Meanwhile a
 * range on its way back is not granted, nor is a range that was not ours and must be
 * reported so.
 */
static void
test_asked_back_twice (void)
{
  struct array_request w = WRITE (0, 4096, ones), x = WRITE (UNIT, 512, ones);
  struct array_range *all;

  start (LAYOUT_RAID10);
  grant (0, UNIT);
  submit (&w);
  leave (0, 2 * UNIT);
  leave (0, 3 * UNIT);
  assert (left (2 * UNIT, UNIT));
  grant (0, 2 * UNIT);
  submit (&x);
  assert (ios_count == 1 && wanted (UNIT, 512));
  assert (array_lease_all (a, &all) == 1 && all[0].length == UNIT);
  free (all);
  answer_all ();
  assert (done (&w));
  {
    struct array_range r[3];

    assert (array_lease_left (a, r, 3) == 1);
    assert (r[0].offset == 0 && r[0].length == 2 * UNIT);
  }
  assert (array_lease_all (a, &all) == 0);
  grant (UNIT, UNIT);
  assert (finish (&x) == 0);
  /* Beyond the array, or of no bytes: there is nothing. */
  leave (48 * UNIT, UNIT);
  leave (0, 0);
  grant (48 * UNIT, UNIT);
  assert (nothing_left ());
  assert (array_lease_all (a, &all) == 1 && all[0].length == UNIT);
  free (all);
  leave (47 * UNIT, UINT64_MAX);
  assert (left (47 * UNIT, UNIT));
  end ();
}

/* If the asker wishes for more, adjacent ranges that were not written for long are given
 * back, too. */
static void
test_cold (void)
{
  struct array_request w = WRITE (10 * UNIT, 512, ones),
                       r = READ (14 * UNIT, 512, back);

  start (LAYOUT_RAIDX);
  grant (4 * UNIT, 40 * UNIT);
  assert (carry_out (&w) == 0 && carry_out (&r) == 0);
  leave_with (14 * UNIT, UNIT, 12 * UNIT, 4 * UNIT);
  assert (left (12 * UNIT, 4 * UNIT));
  /* This stops where a range was written recently, is not ours, or is not wished for. */
  leave_with (11 * UNIT, UNIT, 0, 48 * UNIT);
  assert (left (10 * UNIT + 1024, 2 * UNIT - 1024));
  leave_with (30 * UNIT, UNIT, 0, 48 * UNIT);
  assert (left (16 * UNIT, 28 * UNIT));
  tick_after (LEASE_COLD_MS * MS - 1);
  leave_with (10 * UNIT + 512, 512, 0, 48 * UNIT);
  assert (left (10 * UNIT + 512, 512));
  answer_all ();
  tick_after (1);
  leave_with (4 * UNIT, 512, 0, 48 * UNIT);
  assert (left (4 * UNIT, 6 * UNIT + 512));
  answer_all ();
  end ();
}

/* No bit falls that another has left: nobody knows of an extent that all of it is equal.
 */
static void
test_clear (void)
{
  struct array_request w = WRITE (0, 16 * UNIT, ones), f = FLUSH;
  unsigned seen = 0;

  start_as (LAYOUT_RAID10, true);
  carry_out (&w);
  carry_out (&f);
  for (unsigned i = 0; i < 20; i++) {
    tick_after (1000 * MS);
    while (ios_count > 0) {
      const struct batch_record *r;
      int count = batch_of (0, &r);

      for (int k = 0; k < count; k++)
        if (batch_clears (r[k].kind)) {
          assert (r[k].kind == BATCH_CLEAR && r[k].length == 8 * UNIT);
          seen++;
        }
      answer (0, 0);
    }
  }
  assert (seen == 4);
  end ();
}

/* A loss that is accepted becomes zeroes within the lease. */
static void
test_accept (void)
{
  struct array_request x = { .op = ARRAY_ACCEPT, .length = 4096, .buf = back };

  start (LAYOUT_RAID10);
  memset (members[0], 1, UNIT);
  x.epoch = 1;
  submit (&x);
  assert (ios_count == 0 && wanted (0, 4096));
  grant (0, 4096);
  leave (0, 4096);
  while (!done (&x)) {
    assert (ios_count > 0 && nothing_left ());
    answer (0, ios[0]->kind == IO_READ ? EIO : 0);
  }
  assert (x.error == 0 && x.lost && left (0, 4096));
  assert (all_are (members[0], 0, 4096));
  end ();
}

/* A round that is complete wakes what waits for rounds, and nothing that waits for a
 * lease.
 */
static void
test_stable_write_waits (void)
{
  struct array_request w = WRITE (0, 4096, ones), x = WRITE (UNIT, 512, ones);

  config.rounds = true;
  start (LAYOUT_RAID10);
  grant (UNIT, UNIT);
  w.flags = x.flags = ARRAY_FUA;
  submit (&w);
  submit (&x);
  for (unsigned i = 0; i < 6 && !done (&x); i++) {
    answer_all ();
    tick_after (1000 * MS);
  }
  answer_all ();
  assert (done (&x) && x.error == 0 && !done (&w) && wanted (0, 4096));
  grant (0, UNIT);
  submit (&x);
  leave (0, UNIT);
  while (!done (&w)) {
    assert (nothing_left ());
    if (ios_count > 0)
      answer (0, 0);
    else
      tick ();
  }
  assert (left (0, UNIT));
  for (unsigned i = 0; i < 6; i++) {
    answer_all ();
    tick_after (1000 * MS);
  }
  answer_all ();
  assert (done (&x));
  end ();
}

static void
test_config (void)
{
  char why[200];

  start (LAYOUT_RAID10);
  config.readonly = true;
  assert (!array_new (&config, now, why, sizeof why) && strstr (why, "lease"));
  config.readonly = config.leases = false;
  config.part_length = UNIT;
  assert (!array_new (&config, now, why, sizeof why) && strstr (why, "lease"));
  end ();
}

int
main (void)
{
  rig_init ();
  test_flow ();
  test_wait_for_a_lease ();
  test_left_after_commit (false);
  test_left_after_commit (true);
  test_left_after_request ();
  test_left_after_read ();
  test_left_after_joiner (false);
  test_left_after_joiner (true);
  test_much_is_left (false);
  test_much_is_left (true);
  test_wants ();
  test_order ();
  test_images ();
  test_suspect (true);
  test_suspect (false);
  test_held (false);
  test_held (true);
  test_bad_spot ();
  test_waits_without_turn ();
  test_flush ();
  test_flush_of_recovery ();
  test_recover ();
  test_stop ();
  test_all ();
  test_asked_back_twice ();
  test_cold ();
  test_clear ();
  test_accept ();
  test_stable_write_waits ();
  test_config ();
  return 0;
}
