/* test-array-join.c: members that join, epochs that are prepared, members that come back,
 * and when a reader must not read, step by step.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "format/batch.h"
#include "test-array-rig.h"

/* raid-10, n = 4: unit 0 is on member 0, its image on member 2; unit 1 on 1 and
 * 3.
 */
static void
begin_with (bool batches, const char *letters)
{
  config.batches = batches;
  rig_states (letters, config.states);
  begin (LAYOUT_RAID10, 4);
}

static void
begin_as (const char *letters)
{
  begin_with (true, letters);
}

static bool
prepared (uint64_t epoch)
{
  return notices_prepared > 0 && notice.kind == NOTICE_PREPARED &&
         notice.epoch == epoch;
}

static unsigned
flushes (void)
{
  unsigned count = 0;

  for (unsigned i = 0; i < ios_count; i++)
    count += ios[i]->kind == IO_FLUSH;
  return count;
}

static void
test_counts_for_nothing (void)
{
  struct array_request w = WRITE (0, 4096, ones), f = FLUSH;

  begin_as ("iiji");
  submit (&w);
  answer_only (IO_WRITE, 0, 0, 4096, 0);
  assert (done (&w));
  submit (&f);
  for (unsigned i = 0; i < ios_count; i++)
    assert (ios[i]->member != 2 || ios[i]->kind == IO_WRITE);
  assert (flushes () == 3 && ios_count == 4);
  answer_all_flushes ();
  assert (done (&f) && f.error == 0); /* its copy is still on its way */
  lose (2);
  answer (0, ENOTCONN);
  assert (notices_lost == 1 && array_idle (a));
  end ();
}

static void
test_prepare (void)
{
  struct array_request w = WRITE (0, 4096, ones), f = FLUSH,
                       r = READ (0, 4096, back);

  begin_as ("jiii");
  submit (&w); /* the data member joins: by its image */
  answer_only (IO_WRITE, 2, 0, 4096, 0);
  assert (done (&w));
  submit (&f);
  assert (ios_count == 4 && is_io (0, IO_WRITE, 0, 0, 4096));
  assert (flushes () == 3);
  prepare (2, "iiii");
  /* The images buffered for the member are written, then all members are flushed once
   * more. */
  while (ios_count > 1)
    answer (1, 0);
  assert (done (&f) && notices_prepared == 0);
  answer (0, 0);
  assert (ios_count == 4 && flushes () == 4);
  for (unsigned i = 0; i < 4; i++) {
    assert (notices_prepared == 0);
    answer (0, 0);
  }
  assert (prepared (2) && notices_prepared == 1);
  prepare (2, "iiii");
  submit (&r); /* it counts, but is not read */
  assert (is_io (0, IO_READ, 2, 0, 4096));
  answer_all ();
  submit (&w); /* needs both by now, one after the other */
  answer_only (IO_WRITE, 2, 0, 4096, 0);
  assert (!done (&w));
  answer_only (IO_WRITE, 0, 0, 4096, 0);
  assert (done (&w));
  commit_states (2, "iiii");
  submit (&r);
  assert (is_io (0, IO_READ, 0, 0, 4096));
  answer_all ();
  assert (done (&r) && notices_prepared == 1 && notices_lost == 0);
  end ();
}

/* Preparing writes buffered images out at once, without waiting for their age. */
static void
test_prepare_sends (void)
{
  struct array_request w = WRITE (0, 4096, ones);

  begin_as ("jiii");
  submit (&w);
  answer (0, 0);
  assert (ios_count == 0);
  prepare (2, "iiii");
  assert (ios_count == 1 && is_io (0, IO_WRITE, 0, 0, 4096));
  answer_all ();
  assert (prepared (2));
  end ();
}

/* Preparing waits while any copy is lost; when that copy is back, all members are flushed
 * again. */
static void
test_prepare_waits_for_lost (void)
{
  begin_as ("jiii");
  prepare (2, "iiii");
  assert (flushes () == 4);
  lose (3);
  answer_lost (3);
  assert (notices_lost == 1 && notices_prepared == 0);
  return_of (3);
  assert (ios_count == 0);
  commit_states (1, "jiii");
  assert (flushes () == 4);
  answer_all ();
  assert (prepared (2));
  end ();
}

static void
test_prepare_anew (void)
{
  begin_as ("jiii");
  prepare (2, "iiii");
  answer (0, 0);
  answer (0, 0);
  prepare (3, "iiii"); /* an earlier flush is not enough */
  assert (flushes () == 6);
  answer (0, 0);
  answer (0, 0);
  assert (flushes () == 4);
  for (unsigned i = 0; i < 3; i++)
    answer (0, 0);
  assert (notices_prepared == 0); /* nor what had begun */
  answer_all ();
  assert (prepared (3) && notices_prepared == 1);
  prepare (2, "iiii"); /* overtaken */
  assert (ios_count == 0);
  end ();
}

static uint64_t
arrived (void)
{
  uint64_t epoch = array_arrived (a, now);

  rig_take ();
  return epoch;
}

/* A member that goes is not waited for, and is asked nothing more. */
static void
test_prepare_loss (void)
{
  struct array_request w = WRITE (0, 4096, ones);

  begin_as ("iiii");
  submit (&w);
  assert (is_io (0, IO_WRITE, 0, 0, 4096));
  prepare (2, "oiii");
  answer (0, 0);
  assert (!done (&w) && flushes () == 3 && ios_count == 3);
  answer_all ();
  assert (prepared (2) && !done (&w) && notices_lost == 0);
  commit_states (2, "oiii");
  assert (notices_lost == 1 && is_io (0, IO_WRITE, 2, 0, 4096));
  assert (arrived () < 2); /* a reader may have read the write before */
  assert (finish (&w) == 0 && arrived () == 2);
  end ();
}

/* A write that began before a member became in-sync is to reach that member before
 * others read there, also if that is lost meanwhile, until it is out.
 */
static void
test_arrives (bool lost)
{
  struct array_request w = WRITE (0, 4096, ones);

  begin_as ("jiii");
  prepare (2, "iiii");
  answer_all ();
  assert (prepared (2));
  submit (&w);
  assert (ios_count == 1 && is_io (0, IO_WRITE, 2, 0, 4096));
  commit_states (2, "iiii");
  assert (array_epoch (a) == 2 && arrived () < 2);
  answer (0, 0);
  assert (ios_count == 1 && is_io (0, IO_WRITE, 0, 0, 4096));
  assert (arrived () < 2 && !done (&w));
  if (lost) {
    lose (0);
    answer_lost (0);
    assert (arrived () < 2);
    commit_states (3, "oiii");
  }
  assert (finish (&w) == 0 && arrived () == 2u + lost);
  end ();
}

/* Acknowledged writes must reach the images, too, even if no host had prepared for the
 * epoch. */
static void
test_images_arrive (void)
{
  struct array_request w = WRITE (0, 4096, ones);

  begin_as ("iiii");
  submit (&w);
  answer (0, 0);
  assert (done (&w) && w.error == 0);
  commit_states (2, "oiii");
  assert (arrived () < 2);
  answer_all ();
  assert (arrived () == 2);
  end ();
}

/* The change for which the host prepared may be committed only when the next change
 * comes, which puts the member out again.
 */
static void
test_prepare_replaced (void)
{
  struct array_request w = WRITE (0, 4096, ones);

  w.flags = ARRAY_FUA;
  begin_as ("iiji");
  prepare (9, "iiii");
  answer_all ();
  assert (prepared (9));
  submit (&w);
  lose (2);
  prepare (10, "iioi");
  answer_all ();
  assert (prepared (10) && !done (&w));
  commit_states (10, "iioi");
  assert (finish (&w) == 0);
  end ();
}

/* weftd decides that the member stays, after this host has dropped it: the host reports
 * the loss. */
static void
test_prepare_taken_over (void)
{
  begin_as ("iiii");
  prepare (2, "oiii");
  assert (notices_lost == 0);
  prepare (3, "iiii");
  assert (notices_lost == 1 && notice.member == 0);
  answer_lost (0);
  assert (notices_prepared == 0);
  end ();
}

/* The member reconnects in an epoch that the next one follows without it, so it gets no
 * request.  If that next epoch does not come, the loss is reported once more, because the
 * earlier reporter has seen the member connected since.
 */
static void
test_back_but_goes (bool replaced)
{
  struct array_request w = WRITE (0, 4096, ones);

  begin_as ("iiii");
  lose (0);
  assert (notices_lost == 1);
  commit_states (2, "iiii"); /* by which it is given back */
  prepare (3, "oiii");
  give_back (0, 2, "iiii");
  submit (&w);
  for (unsigned i = 0; i < ios_count; i++)
    assert (ios[i]->member != 0);
  answer_all ();
  assert (!done (&w) && notices_lost == 1);
  if (replaced)
    prepare (4, "iiii");
  else
    commit_states (4, "iiii");
  assert (notices_lost == 2 && notice.member == 0);
  commit_states (5, "iiii");
  give_back (0, 5, "iiii");
  assert (finish (&w) == 0 && all_are (members[0], 1, 4096));
  end ();
}

/* A last copy may have lost what was not flushed: the FLUSH that is under way
 * fails.
 */
static void
test_back (bool flushed)
{
  struct array_request w = WRITE (0, 4096, ones), f = FLUSH;

  begin_as ("iioi");
  carry_out (&w);
  if (flushed)
    assert (carry_out (&f) == 0);
  lose (0);
  commit_states (2, "iioi");
  submit (&f);
  answer_all ();
  return_of (0);
  assert (ios_count == 0);
  commit_states (2, "iioi");
  assert (finish (&f) == (flushed ? 0 : EIO));
  assert (carry_out (&f) == 0);
  end ();
}

/* It was prepared for, so what it had acknowledged counted. */
static void
test_back_prepared (bool told)
{
  struct array_request w = WRITE (0, 4096, ones), f = FLUSH;

  begin_as ("jiii");
  prepare (2, "iiii");
  if (told)
    answer_all ();
  submit (&w);
  while (!done (&w))
    for (unsigned i = ios_count; i-- > 0;)
      if (ios[i]->kind != IO_FLUSH)
        answer (i, 0);
  lose (0);
  answer_lost (0);
  assert (notices_prepared == told);
  give_back (0, 1, "jiii");
  assert (carry_out (&f) == (told ? EIO : 0));
  end ();
}

/* A connection to a member that joins is replaced, while an epoch is prepared
 * in which it counts: nothing is asked of it while it is seen as out.
 */
static void
test_back_between_epochs (void)
{
  struct array_request w = WRITE (0, 4096, ones);

  begin_as ("iiji");
  prepare (9, "iiii");
  answer_all ();
  assert (prepared (9));
  carry_out (&w);
  lose (2); /* its image waits, because it is in sync */
  commit_states (8, "iioi");
  return_of (2);
  tick ();
  for (unsigned i = 0; i < ios_count; i++)
    assert (ios[i]->member != 2);
  commit_states (8, "iiji");
  answer_all ();
  assert (all_are (members[2], 1, 4096));
  end ();
}

/* It is connected while another change is prepared, in which it still joins. */
static void
test_joins_beside_a_change (void)
{
  struct array_request w = WRITE (0, 4096, ones);

  begin_as ("iioi");
  commit_states (5, "iioi"); /* it joins, but is not connected yet */
  prepare (6, "iiji");
  give_back (2, 5, "iiji");
  submit (&w);
  answer_all ();
  tick ();
  answer_all ();
  assert (done (&w) && all_are (members[2], 1, 4096));
  commit_states (6, "iiji");
  assert (notices_lost == 0);
  end ();
}

/* Writes on their way to a joining member are dropped when it joins again. */
static void
test_joins_anew (void)
{
  struct array_request w = WRITE (0, 4096, ones);

  begin_as ("iiji");
  submit (&w);
  answer (0, 0);
  lose (2);
  assert (notices_lost == 1 && array_idle (a));
  commit_states (3, "iiji"); /* it was out in 2 */
  assert (notices_lost == 1);
  give_back (2, 3, "iiji");
  assert (ios_count == 0);
  prepare (4, "iiii");
  assert (notices_lost == 1);
  answer_all ();
  assert (prepared (4));
  end ();
}

/* A joining member may copy from where an image lacks: weftd hears of the epoch
 * when all of before is written.
 */
static void
test_epoch (void)
{
  struct array_request w = WRITE (UNIT, 4096, ones);

  begin_as ("iioi");
  assert (array_epoch (a) == 1);
  submit (&w);
  answer (0, 0);
  commit_states (2, "iioi");
  assert (array_epoch (a) == 2);
  give_back (2, 3, "iiji");
  assert (array_epoch (a) == 0 && is_io (0, IO_WRITE, 3, 0, 4096));
  answer_all ();
  assert (array_epoch (a) == 3);
  /* And again, when it is connected only later. */
  lose (2);
  submit (&w);
  answer (0, 0);
  commit_states (4, "iiji");
  assert (ios_count == 1);
  answer_all ();
  assert (array_epoch (a) == 4);
  submit (&w);
  answer (0, 0);
  give_back (2, 4, "iiji");
  assert (array_epoch (a) == 0);
  answer_all ();
  assert (array_epoch (a) == 4);
  end ();
}

/* In-sync, but older copies for it are still in the buffer. */
static void
test_no_overtaking (void)
{
  struct array_request w = WRITE (0, 4096, ones), newer = WRITE (0, 4096, twos),
                       r = READ (0, 4096, back);

  begin_as ("jiii");
  submit (&w);
  answer (0, 0); /* the image */
  assert (done (&w) && ios_count == 0);
  commit_states (2, "iiii");
  submit (&newer);
  submit (&r);
  answer_only (IO_WRITE, 0, 0, 4096, 0);
  assert (all_are (members[0], 1, 4096) && ios_count == 2);
  answer_all ();
  assert (done (&newer) && done (&r) && all_are (members[0], 2, 4096));
  tick ();
  answer_all ();
  assert (all_are (members[2], 2, 4096));
  end ();
}

/* A joining member that is too slow goes out before writers have to wait for it. */
static void
test_too_slow (void)
{
  struct array_request w = WRITE (0, 4096, ones), other = WRITE (0, 4096, twos);

  begin_as ("iiji");
  submit (&w);
  answer (0, 0);
  tick ();
  assert (ios_count == 1 && ios[0]->member == 2);
  submit (&other);
  answer (1, 0);
  assert (done (&other));
  for (unsigned i = 0; i < 100 && notices_lost == 0; i++) {
    tick ();
    while (ios_count > 1) /* signs of life, and flushes of the others */
      answer (1, 0);
  }
  assert (notices_lost == 1 && notice.member == 2);
  answer (0, ENOTCONN);
  assert (array_idle (a));
  end ();
}

/* Without batches a read serves as the sign of life.  A joining member refuses it, and
 * that shows that it lives.
 */
static void
test_refuses_to_be_read (void)
{
  struct array_request w = WRITE (0, 4096, ones);

  begin_with (false, "iiji");
  submit (&w);
  answer (0, 0);
  tick ();
  assert (ios_count == 1 && is_io (0, IO_WRITE, 2, 0, 4096));
  tick_after (2000 * MS);
  assert (ios_count == 2 && ios[1]->kind == IO_READ && ios[1]->member == 2);
  answer (1, ESHUTDOWN);
  tick_after (1000 * MS);
  assert (notices_lost == 0);
  answer_all ();
  end ();
}

/* ---- A write that waits for room in the image buffer, half written. ---- */

#define CROWD 44
static struct array_request crowd[CROWD];

/* An array with a small buffer, in which w is under way, and then so much on the
 * other pair that the buffer is full.
 */
static void
begin_crowded (const char *letters, struct array_request *w)
{
  config.batches = true;
  config.image_buffer_bytes = KiB (64);
  config.io_timeout_ms = 60000;
  rig_states (letters, config.states);
  begin (LAYOUT_RAID10, 4);
  submit (w);
  for (uint64_t i = 0; i < CROWD; i++) {
    crowd[i] = (struct array_request) WRITE (
      (2 * (i / 4) + 1) * UNIT + i % 4 * 4096, 4096, ones);
    submit (&crowd[i]);
  }
}

/* The first that is, or is not, asked of this member; else the first. */
static unsigned
first_of (unsigned member, bool is)
{
  for (unsigned at = 0; at < ios_count; at++)
    if ((ios[at]->member == member) == is)
      return at;
  return 0;
}

/* All but what is asked of this member to be read or written. */
static void
answer_all_but (unsigned member)
{
  unsigned at = 0;

  while (at < ios_count)
    if (ios[at]->kind == IO_FLUSH || ios[at]->member != member) {
      answer (at, 0);
      at = 0;
    }
    else
      at++;
}

/* The copy that was written first goes out and joins again, without that write, before
 * the other copy is written.
 */
static void
test_written_copy_joins_anew (void)
{
  struct array_request w = WRITE (0, 4096, ones), f = FLUSH;

  begin_crowded ("oiii", &w);
  give_back (0, 2, "jiii");
  assert (is_io (0, IO_WRITE, 2, 0, 4096));
  answer (0, 0);
  assert (!done (&w)); /* the one for the joiner waits for room */
  prepare (3, "iiii");
  while (notices_prepared == 0)
    if (flushes () > 0)
      answer_all_flushes ();
    else
      answer (first_of (3, true), 0);
  commit_states (3, "iiii");
  answer_all_but (0);
  submit (&f);
  answer_all_but (0);
  assert (done (&f) && f.error == 0 && !done (&w));
  assert (ios_count == 1 && is_io (0, IO_WRITE, 0, 0, 4096));
  lose (2);
  commit_states (4, "iioi");
  give_back (2, 5, "iiji");
  assert (array_epoch (a) == 5);
  memcpy (members[2], members[0], 4096); /* as it may copy by then */
  assert (finish (&w) == 0);
  prepare (6, "iiii");
  answer_all ();
  assert (prepared (6));
  commit_states (6, "iiii");
  assert (carry_out (&f) == 0);
  assert (all_are (members[0], 1, 4096) && all_are (members[2], 1, 4096));
  end ();
}

/* Its data is written, and the other copy's member has joined since. */
static void
begin_half_written (struct array_request *w)
{
  begin_crowded ("iioi", w);
  give_back (2, 2, "iiji");
  answer (0, 0);
  assert (!done (w)); /* its image waits for room */
  prepare (3, "iiii");
  answer_all_flushes ();
  assert (prepared (3) && !done (w));
  commit_states (3, "iiii");
}

/* A member that is about to go out does not complete the write; the other copy does. */
static void
test_written_copy_goes (void)
{
  struct array_request w = WRITE (0, 4096, ones);

  begin_half_written (&w);
  prepare (4, "oiii");
  answer_all_flushes ();
  assert (prepared (4));
  while (!done (&w))
    answer (first_of (2, false), 0);
  assert (all_are (members[2], 1, 4096));
  answer_all ();
  commit_states (4, "oiii");
  answer_all ();
  end ();
}

/* The copies differ for as long as it waits: no bit falls there. */
static void
test_written_copy_keeps_its_bit (void)
{
  struct array_request w = WRITE (0, 4096, ones);
  unsigned clears = 0;

  begin_half_written (&w);
  for (unsigned i = 0; i < 40; i++) {
    tick_after (1000 * MS);
    answer_all_flushes ();
    for (unsigned at = ios_count; at-- > 0;)
      if (ios[at]->kind == IO_BATCH && ios[at]->member < 2) {
        assert (ios[at]->member != 0);
        clears++; /* the other pair's: they may fall */
        answer (at, 0);
      }
  }
  assert (clears > 0 && !done (&w));
  answer_all ();
  tick_after (1000 * MS);
  answer_all ();
  assert (done (&w) && all_are (members[2], 1, 4096));
  end ();
}

/* Does any bit fall in so many seconds? */
static bool
bits_fall (void)
{
  const struct batch_record *r;
  bool any = false;

  for (unsigned i = 0; i < 30; i++) {
    tick_after (1000 * MS);
    while (ios_count > 0) {
      if (batch_of (0, &r) > 0)
        any |= r->kind == BATCH_SETTLE || r->kind == BATCH_CLEAR;
      answer (0, 0);
    }
  }
  return any;
}

/* A member was given back without what it had not flushed.  No bit is cleared until the
 * member has joined again.  With three copies none is cleared then, either.
 */
static void
test_bits_of_one_given_back (enum layout_kind kind, unsigned n)
{
  struct array_request w = WRITE (0, 4096, ones), f = FLUSH;
  bool third = kind == LAYOUT_RAID1 && n > 2;

  config.batches = true;
  config.extent_bytes = KiB (64);
  begin (kind, n);
  array_settled (a, 0, 0, 0, now);
  submit (&w);
  while (!done (&w))
    answer_all ();
  lose (0);
  give_back (0, 2, n == 4 ? "iiii" : "iii");
  assert (carry_out (&f) == EIO); /* the client gets the error */
  assert (array_differs (a) && !bits_fall ());
  commit_states (3, n == 4 ? "oiii" : "oii");
  give_back (0, 4, n == 4 ? "jiii" : "jii");
  answer_all ();
  assert (!bits_fall ());
  prepare (5, n == 4 ? "iiii" : "iii");
  answer_all ();
  commit_states (5, n == 4 ? "iiii" : "iii");
  assert (array_differs (a) == third);
  assert (bits_fall () == !third);
  end ();
}

/* A third copy keeps its bits where its peers have some when it joins: they fall with
 * theirs, though nothing was written to it there.  late: these are an earlier
 * session's, and the resync finds one of them while the third copy joins.
 */
static void
test_bits_of_a_third_copy (bool late)
{
  struct array_request w = WRITE (0, 4096, ones);
  bool settled[3] = { false };

  config.batches = true;
  config.extent_bytes = KiB (64);
  begin (LAYOUT_RAID1, 3);
  array_settled (a, 0, 0, 0, now);
  commit_states (2, "iio");
  if (!late)
    submit (&w);
  while (!late && !done (&w))
    answer_all ();
  commit_states (3, "iio");
  give_back (2, 4, "iij");
  prepare (5, "iii");
  answer_all ();
  commit_states (5, "iii");
  for (unsigned m = 0; m < 2 && late; m++)
    array_settled (a, m, 0, m * 4096, now);
  for (unsigned i = 0; i < 30; i++) {
    tick_after (1000 * MS);
    while (ios_count > 0) {
      const struct batch_record *r;

      if (batch_of (0, &r) == 1)
        settled[ios[0]->member] |= r->kind == BATCH_SETTLE && r->offset == 0;
      answer (0, 0);
    }
  }
  assert (settled[1] && settled[2] && (late || settled[0]));
  end ();
}

/* A reader stops reading between preparing for an epoch and its commit, because a writer
 * may work in the new epoch already.  It also stops while weftd may have continued
 * without it.
 */
static void
test_reader (void)
{
  struct array_request r = READ (0, 4096, back);

  config.readonly = true;
  begin (LAYOUT_RAIDX, 4);
  assert (carry_out (&r) == 0);

  /* A read that was not answered before the host prepared is sent again. */
  submit (&r);
  prepare (2, "iiio");
  assert (prepared (2) && ios_count == 1 && !done (&r));
  answer (0, 0);
  assert (ios_count == 0 && !done (&r));
  commit_states (2, "iiio");
  assert (ios_count == 1);
  answer (0, 0);
  assert (done (&r) && r.error == 0);

  /* Not before what others had begun has arrived, ... */
  array_all_arrived (a, 2, now);
  assert (carry_out (&r) == 0);
  submit (&r);
  prepare (3, "iioo");
  commit_states (3, "iioo");
  answer (0, 0);
  assert (ios_count == 0 && !done (&r));
  array_all_arrived (a, 3, now);
  rig_take ();
  assert (ios_count == 1);
  answer (0, 0);
  assert (done (&r) && r.error == 0);

  /* ... nor while weftd may have passed it over. */
  hold (true);
  submit (&r);
  assert (ios_count == 0 && !done (&r));
  hold (false);
  answer (0, 0);
  assert (done (&r) && r.error == 0);
  end ();
}

int
main (void)
{
  rig_init ();
  test_counts_for_nothing ();
  test_prepare ();
  test_prepare_sends ();
  test_prepare_waits_for_lost ();
  test_prepare_anew ();
  test_prepare_loss ();
  test_arrives (false);
  test_arrives (true);
  test_images_arrive ();
  test_prepare_replaced ();
  test_prepare_taken_over ();
  test_back_but_goes (true);
  test_back_but_goes (false);
  test_back (true);
  test_back (false);
  test_back_prepared (true);
  test_back_prepared (false);
  test_back_between_epochs ();
  test_joins_beside_a_change ();
  test_joins_anew ();
  test_epoch ();
  test_no_overtaking ();
  test_too_slow ();
  test_refuses_to_be_read ();
  test_written_copy_joins_anew ();
  test_written_copy_goes ();
  test_written_copy_keeps_its_bit ();
  test_bits_of_one_given_back (LAYOUT_RAIDX, 4);
  test_bits_of_one_given_back (LAYOUT_RAID10, 4);
  test_bits_of_one_given_back (LAYOUT_RAID1, 3);
  test_bits_of_a_third_copy (false);
  test_bits_of_a_third_copy (true);
  test_reader ();
  return 0;
}
