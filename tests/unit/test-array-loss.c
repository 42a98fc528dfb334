/* test-array-loss.c: members that are lost, silent or slow, and bad spots, one by
 * one.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "test-array-rig.h"

static void
test_loss (void)
{
  struct array_request w = WRITE (0, 4096, ones), r = READ (0, 4096, back),
                       other = WRITE (UNIT, 4096, ones);

  begin (LAYOUT_RAIDX, 4);
  submit (&w);
  lose (0);
  assert (notices_lost == 1 && notice.member == 0 &&
          strstr (notice.reason, "connection"));
  lose (0);
  answer (0, ENOTCONN);
  submit (&r);
  submit (&other); /* has nothing to do with it */
  assert (ios_count == 1 && ios[0]->member == 1);
  answer (0, 0);
  assert (done (&other) && ios_count == 0 && !done (&w) && !done (&r));
  assert (notices_lost == 1);
  commit (1);
  /* Degraded: the image, at once; the read waits for it, in its turn. */
  answer_only (IO_WRITE, 3, IMAGE0, 4096, 0);
  assert (done (&w) && w.error == 0 && !done (&r));
  answer_only (IO_READ, 3, IMAGE0, 4096, 0);
  assert (done (&r) && r.error == 0 && all_are (back, 1, 4096));
  assert (notices_data == 0);
  tick_after (200 * MS);
  answer_all ();
  end ();
}

/* A notice of a loss says for how long the oldest request has waited for the member. */
static void
test_wait_is_told (void)
{
  struct array_request of[] = { READ (UNIT, 4096, back), READ (0, 4096, back),
                                READ (0, 4096, back) };

  begin (LAYOUT_RAIDX, 4);
  lose (0);
  assert (notice.waited_ms == 0);
  end ();
  begin (LAYOUT_RAIDX, 4);
  for (unsigned i = 0; i < 3; i++) {
    submit (&of[i]);
    tick_after (100 * MS);
  }
  lose (0); /* the first request does not need it */
  assert (notice.member == 0 && notice.waited_ms == 200);
  commit (1);
  while (ios_count)
    answer_all ();
  end ();
}

static void
test_wait_of_images_is_told (void)
{
  struct array_request w = WRITE (0, 4096, ones);

  begin (LAYOUT_RAIDX, 4);
  submit (&w);
  answer (0, 0);
  assert (done (&w));
  tick_after (300 * MS);
  assert (ios_count == 1 && ios[0]->member == 3); /* its image is on its way */
  tick_after (100 * MS);
  lose (3);
  assert (notice.member == 3 && notice.waited_ms == 100);
  commit (1 << 3);
  while (ios_count)
    answer_all ();
  end ();
}

/* An image that rests was not sent yet: the member owes nothing. */
static void
test_wait_of_resting_images_is_not_told (void)
{
  struct array_request w = WRITE (0, 4096, ones), r = READ (UNIT, 4096, back);

  begin (LAYOUT_RAIDX, 4);
  submit (&w);
  answer (0, 0);
  assert (done (&w));
  submit (&r); /* with this, the array is not idle */
  tick_after (50 * MS);
  assert (ios_count == 1 && ios[0]->member == 1);
  lose (3);
  assert (notice.member == 3 && notice.waited_ms == 0);
  commit (1 << 3);
  while (ios_count)
    answer_all ();
  end ();
}

/* Another host has lost a member that we are just asking. */
static void
test_lost_by_others (void)
{
  struct array_request r = READ (0, 4096, back);

  begin (LAYOUT_RAIDX, 4);
  submit (&r);
  assert (ios_count == 1 && ios[0]->member == 0);
  commit (1);
  /* The connection must be broken, and no request waits for its answer. */
  assert (notices_lost == 1 && notice.member == 0 && !done (&r));
  tick_after (3600 * 1000 * MS);
  answer (0, ENOTCONN);
  assert (ios_count == 1 && ios[0]->member == 3);
  assert (finish (&r) == 0 && notices_lost == 1);
  end ();
}

static void
test_image_member_lost (void)
{
  struct array_request w = WRITE (0, 4096, ones), f = FLUSH;

  begin (LAYOUT_RAIDX, 4);
  submit (&w);
  lose (3);
  answer (0, 0);
  assert (done (&w) && w.error == 0); /* its image waits in the buffer */
  submit (&f);                        /* the others have nothing to drain */
  assert (ios_count == 3);
  answer_all ();
  assert (ios_count == 0 && !done (&f));
  commit (1 << 3);
  assert (done (&f) && f.error == 0 && array_idle (a));
  end ();
}

/* A write that is stable with its answer may not take as long as a flush may, now. */
static void
test_flush_while_degraded (void)
{
  struct array_request w = WRITE (0, 4096, ones), f = FLUSH, again = FLUSH;

  begin (LAYOUT_RAIDX, 4);
  commit (1 << 1);
  answer_lost (1);
  carry_out (&f);
  carry_out (&w);
  submit (&again);
  assert (ios_count == 2 && is_io (0, IO_WRITE, 3, IMAGE0, 4096) &&
          ios[0]->flags == 0 && is_io (1, IO_FLUSH, 0, 0, 0));
  answer (0, 0);
  assert (ios_count == 2 && is_io (1, IO_FLUSH, 3, 0, 0));
  assert (finish (&again) == 0);
  end ();
}

static void
test_two_losses (void)
{
  struct array_request w[2] = { WRITE (0, 4096, ones),
                                WRITE (UNIT, 4096, ones) },
                       f[2] = { FLUSH, FLUSH }, r = READ (0, 4096, back),
                       ok = READ (UNIT, 1, back);

  begin (LAYOUT_RAID10, 4); /* unit 0: members 0 and 2 */
  submit (&w[0]);
  submit (&w[1]);
  answer_all ();
  assert (done (&w[0]) && done (&w[1]));
  submit (&w[0]);
  lose (0);
  answer (0, ESHUTDOWN);
  lose (2); /* before the first is recorded */
  assert (notices_lost == 2);
  commit (1);
  assert (ios_count == 0 && !done (&w[0]) && notices_data == 0);
  commit (1 | 4);
  assert (done (&w[0]) && w[0].error == EIO && notices_data == 1);
  submit (&r);
  assert (done (&r) && r.error == EIO);
  submit (&ok);
  answer (0, 0);
  assert (done (&ok) && ok.error == 0);
  /* Acknowledged data that was not flushed is gone: one FLUSH reports that. */
  assert (carry_out (&f[0]) == EIO);
  assert (carry_out (&f[1]) == 0 && notices_data == 1);
  end ();
}

static void
test_three_copies (void)
{
  struct array_request w = WRITE (0, 3 * UNIT, ones),
                       r = READ (0, 3 * UNIT, back);

  begin (LAYOUT_RAID1, 3);
  submit (&w); /* neighbours travel as one */
  assert (ios_count == 1 && is_io (0, IO_WRITE, 0, 0, 3 * UNIT));
  lose (0);
  answer (0, ENOTCONN);
  commit (1);
  assert (ios_count > 1 && !done (&w));
  lose (1);
  for (unsigned i = ios_count; i-- > 0;)
    answer (i, ios[i]->member == 1 ? ENOTCONN : 0);
  assert (!done (&w) && ios_count == 0);
  commit (1 | 2);
  assert (done (&w) && w.error == 0);
  assert (all_are (members[2], 1, 3 * UNIT));
  assert (carry_out (&r) == 0 && all_are (back, 1, 3 * UNIT));
  end ();
}

static void
test_error_is_a_loss (enum array_op op, int error)
{
  struct array_request r = { .op = op,
                             .length = 4096,
                             .buf = op == ARRAY_READ ? back : ones };
  unsigned member;

  begin (LAYOUT_RAIDX, 4);
  submit (&r);
  member = ios[0]->member;
  answer (0, error);
  assert (notices_lost == 1 && notice.member == member && !done (&r));
  answer_all ();
  commit (1u << member);
  assert (finish (&r) == 0);
  end ();
}

/* The sign of life that is asked of a member. */
static bool
is_probe (unsigned i)
{
  return i < ios_count && ios[i]->kind == IO_BATCH &&
         ios[i]->length == batch_bytes (NULL, 0);
}

/* The member of the data is lost: its image is read instead. */
static void
read_elsewhere (struct array_request *r)
{
  while (ios_count > 0)
    answer (0, ENOTCONN);
  commit (1);
  assert (is_io (0, IO_READ, 3, IMAGE0, 4096));
  answer_all ();
  assert (done (r) && r->error == 0);
}

static void
test_timeout (void)
{
  struct array_request r = READ (0, 4096, back);

  config.batches = true;
  begin (LAYOUT_RAIDX, 4);
  submit (&r);
  assert (array_deadline (a) == now + 2000 * MS);
  /* A day asleep: the answer may be there, and is read while we ask. */
  tick_after (24 * 3600 * 1000 * MS);
  assert (notices_lost == 0 && is_probe (1));
  assert (array_deadline (a) == now + 850 * MS);
  answer (0, 0);
  assert (done (&r) && r.error == 0);
  answer (0, 0);
  end ();
  /* A slow member lives: it is asked again and again, and not lost. */
  config.batches = true;
  begin (LAYOUT_RAIDX, 4);
  submit (&r);
  for (unsigned i = 0; i < 50; i++) {
    tick_after (2000 * MS);
    assert (notices_lost == 0 && is_probe (1));
    tick_after (250 * MS);
    assert (notices_lost == 0);
    answer (1, 0);
  }
  /* But not for ever. */
  for (unsigned i = 0; i < 4; i++) {
    tick_after (8 * 15000 * MS);
    if (is_probe (1))
      answer (1, 0);
  }
  assert (notices_lost == 1 && notice.member == 0 && !done (&r));
  read_elsewhere (&r);
  end ();
}

/* Any answer shows that the member lives, even if its probe is still under way. */
static void
test_sign_of_life (void)
{
  struct array_request slow = READ (0, 4096, back);
  struct array_request r[20];

  config.batches = true;
  begin (LAYOUT_RAIDX, 4);
  submit (&slow);
  tick_after (2000 * MS);
  assert (is_probe (1));
  answer (0, 0);
  for (unsigned i = 0; i < 20; i++) {
    r[i] = (struct array_request) READ (0, 4096, back);
    submit (&r[i]);
    answer (1, 0);
    assert (done (&r[i]));
    tick_after (100 * MS);
    assert (notices_lost == 0);
  }
  answer (0, 0);
  end ();
}

/* A long answer comes bit by bit: whose bits come is not silent. */
static void
test_part_of_an_answer (void)
{
  struct array_request r = READ (0, 4096, back);
  uint64_t heard;

  config.batches = true;
  begin (LAYOUT_RAIDX, 4);
  heard = now; /* before it was asked, and from another member: of no matter */
  tick_after (100 * MS);
  submit (&r);
  tick_after (1900 * MS);
  array_heard (a, 0, heard);
  array_heard (a, 1, now);
  assert (ios_count == 1 && array_deadline (a) == now + 100 * MS);
  array_heard (a, 0, now);
  assert (array_deadline (a) == now + 2000 * MS);
  tick_after (2000 * MS);
  assert (is_probe (1));
  tick_after (800 * MS);
  array_heard (a, 0, now);
  array_heard (a, 0, heard);
  /* While some of it comes it is neither asked nor lost. */
  for (unsigned i = 0; i < 10; i++) {
    tick_after (1900 * MS);
    assert (notices_lost == 0 && ios_count == 2);
    array_heard (a, 0, now);
  }
  /* No more comes. */
  tick_after (2000 * MS);
  assert (notices_lost == 0 && is_probe (2));
  tick_after (850 * MS);
  assert (notices_lost == 1 && notice.member == 0 && !done (&r));
  read_elsewhere (&r);
  end ();
}

/* A FLUSH of what may be the last copy may take its time. */
static void
test_slow_flush (bool degraded)
{
  struct array_request f = FLUSH;
  struct array_request w = WRITE (UNIT, 4096, ones);

  config.batches = true;
  begin (LAYOUT_RAIDX, 4);
  if (degraded)
    commit (1);
  notices_lost = 0;
  submit (&w);
  while (!done (&w))
    answer (0, 0);
  submit (&f);
  while (ios[0]->kind != IO_FLUSH)
    answer (0, 0);
  for (unsigned i = 0; i < 80 && notices_lost == 0; i++) {
    tick_after (2000 * MS);
    for (unsigned k = 0; k < ios_count;)
      if (is_probe (k))
        answer (k, 0);
      else
        k++;
  }
  assert (notices_lost == (degraded ? 0 : 1));
  while (degraded ? !done (&f) : ios_count > 0)
    answer (0, degraded ? 0 : ENOTCONN);
  assert (!degraded || f.error == 0);
  stop ();
  end ();
}

/* A probe that is a read may take what is left of the longest time-out. */
static void
test_silent (bool batches)
{
  struct array_request r = READ (0, 4096, back);

  config.batches = batches;
  begin (LAYOUT_RAIDX, 4);
  submit (&r);
  tick_after (2000 * MS);
  assert (batches ? is_probe (1) : is_io (1, IO_READ, 0, 0, 4096));
  tick_after ((batches ? 750 : 12900) * MS);
  assert (notices_lost == 0);
  tick_after (100 * MS);
  assert (notices_lost == 1 && notice.member == 0 && !done (&r));
  assert (array_deadline (a) == UINT64_MAX);
  read_elsewhere (&r);
  end ();
}

/* A member that has just given some answers, each after a while.  It owes another. */
static void
get_known (unsigned answers, uint64_t service_ns, struct array_request *r)
{
  for (unsigned i = 0; i <= answers; i++) {
    submit (r);
    assert (is_io (0, IO_READ, 0, 0, 4096));
    if (i < answers) {
      now += service_ns;
      answer (0, 0);
      assert (done (r));
    }
  }
}

/* It is asked `asked_ms` after it has fallen silent, and lost 850 ms later. */
static void
falls_silent (unsigned asked_ms)
{
  assert (array_deadline (a) == now + asked_ms * MS);
  tick_after ((asked_ms - 50) * MS);
  assert (ios_count == 1);
  tick_after (50 * MS);
  assert (is_probe (1));
  tick_after (800 * MS);
  assert (notices_lost == 0);
  tick_after (50 * MS);
  assert (notices_lost == 1 && notice.member == 0);
}

/* A member whose service times are known, and short, is asked early; not one of
 * whom nearly nothing is known.
 */
static void
test_known (unsigned answers, uint64_t service_ns, unsigned asked_ms)
{
  struct array_request r = READ (0, 4096, back);

  config.batches = true;
  begin (LAYOUT_RAIDX, 4);
  get_known (answers, service_ns, &r);
  falls_silent (asked_ms);
  read_elsewhere (&r);
  end ();
}

/* Where a probe is a read: a load that begins to be felt just when the member is asked
 * takes nothing from its time.
 */
static void
test_asked_as_the_load_begins (void)
{
  struct array_request r = READ (0, 4096, back), late = READ (0, 4096, back);

  begin (LAYOUT_RAIDX, 4);
  get_known (40, 1 * MS, &r);
  answer (0, 0);
  assert (done (&r));
  tick_after (10000 * MS);
  submit (&r);
  submit (&late);
  tick_after (400 * MS);
  now += 2000 * MS; /* we were asleep */
  tick_after (0);
  assert (ios_count == 3); /* asked; and the time-outs are predicted */
  now += 300 * MS;
  answer (0, 0);
  assert (done (&r) && array_deadline (a) == now + 500 * MS);
  tick_after (500 * MS);
  assert (ios_count == 3); /* asked again, before its times are predicted
                            * again */
  for (unsigned i = 0; i < 14; i++) {
    tick_after (1000 * MS);
    assert (notices_lost == 0);
  }
  tick_after (500 * MS);
  assert (notices_lost == 1 && notice.member == 0);
  read_elsewhere (&late);
  end ();
}

/* A member that returns after a loss may be another disk, so its former times do not
 * count. */
static void
test_known_no_more (void)
{
  struct array_request r = READ (0, 4096, back);

  config.batches = true;
  begin (LAYOUT_RAIDX, 4);
  get_known (40, 100 * MS, &r);
  falls_silent (800);
  answer_lost (0);
  notices_lost = 0;
  give_back (0, 1, "iiii");
  assert (is_io (0, IO_READ, 0, 0, 4096));
  falls_silent (2000);
  commit_states (2, "oiii");
  while (!done (&r))
    answer (0, ios[0]->member == 0 ? ENOTCONN : 0);
  end ();
}

/* Service time grows tenfold within a minute: nobody is accused, nor even
 * asked.  Five times the first service time would have been reached.
 */
static void
test_growing_load (void)
{
  struct array_request r = READ (0, 4096, back);
  uint64_t begun, service = 400 * MS, first = service;

  begin (LAYOUT_RAIDX, 4);
  for (begun = now; now < begun + 60000 * MS;) {
    service = first + 9 * (first / 60000) * ((now - begun) / MS);
    submit (&r);
    tick_after (service);
    assert (notices_lost == 0 && ios_count == 1);
    answer (0, 0);
    assert (done (&r) && r.error == 0);
  }
  assert (service > 5 * first);
  end ();
}

/* All is answered but one request. */
static void
test_never_answered (void)
{
  struct array_request r = READ (0, 4096, back),
                       other = READ (4 * UNIT, 4096, back);

  begin (LAYOUT_RAIDX, 4);
  submit (&r);
  for (unsigned i = 0; i < 122 && notices_lost == 0; i++) {
    submit (&other);
    assert (is_io (1, IO_READ, 0, UNIT, 4096));
    now += 1000 * MS;
    assert (array_deadline (a) > now);
    answer (1, 0);
    assert (done (&other) && other.error == 0);
  }
  assert (notices_lost == 1 && notice.member == 0 && !done (&r));
  commit (1);
  answer (0, ENOTCONN);
  assert (finish (&r) == 0);
  end ();
}

/* One member of four answers slowly: it is suspect, and read around.  Answers
 * come all the time, so that no tick is due.
 */
static void
test_suspect (void)
{
  struct array_request r = READ (0, 4096, back);
  struct array_stats stats;
  uint64_t unit = 64 << 10;
  bool around = false;

  begin (LAYOUT_RAIDX, 4);
  unit = config.layout.unit;
  for (unsigned i = 0; i < 400 && !around; i++) {
    r.offset = i % 4 * unit;
    submit (&r);
    assert (ios_count == 1);
    around = i % 4 == 0 && ios[0]->member != 0;
    now += ios[0]->member == 0 ? 300 * MS : 2 * MS;
    assert (array_deadline (a) > now);
    answer (0, 0);
    assert (done (&r) && r.error == 0);
  }
  assert (around);
  array_stats (a, now, &stats);
  assert (stats.member[0].suspect && !stats.member[1].suspect);
  assert (notices_lost == 0);
  end ();
}

/* Where an image is written as stable in place of a FLUSH, its member's disk is
 * synced, as others' are by FLUSHes: that makes nobody suspect.
 */
static void
test_sync_is_not_slow (void)
{
  struct array_request w = WRITE (0, 4096, ones), f = FLUSH;
  struct array_stats stats;

  begin (LAYOUT_RAID10, 4); /* unit 0: data on 0, image on 2; unit 1: 1 and 3 */
  for (unsigned i = 0; i < 100; i++) {
    w.offset = i % 2 * config.layout.unit;
    submit (&w);
    now += MS / 10;
    answer (0, 0);
    submit (&f);
    now += 25 * MS;
    answer_all ();
    assert (done (&w) && done (&f) && f.error == 0);
  }
  array_stats (a, now, &stats);
  for (unsigned m = 0; m < 4; m++)
    assert (!stats.member[m].suspect);
  end ();
}

/* A member that is suspect because it has much to do is not read around, if the other
 * one is slower still.
 */
static void
test_loaded (void)
{
  static struct array_request many[16];
  struct array_request r = READ (UNIT, 4096, back), image = r;
  struct array_stats stats;

  begin (LAYOUT_RAID10, 4);
  image.offset = 0;
  image.copy = 2;                     /* on member 2 */
  for (unsigned i = 0; i < 40; i++) { /* member 1 is quick */
    submit (&r);
    now += 2 * MS;
    answer (0, 0);
  }
  for (unsigned i = 0; i < 4; i++) {
    for (unsigned k = 0; k < 16; k++) {
      many[k] = (struct array_request) READ (0, 4096, back);
      submit (&many[k]);
    }
    now += 300 * MS;
    answer_all ();
    submit (&r);
    now += 2 * MS;
    answer (0, 0);
    submit (&image);
    assert (is_io (0, IO_READ, 2, 0, 4096));
    now += 100 * MS;
    answer (0, 0);
  }
  now += 1000 * MS;
  submit (&r);
  answer (0, 0);
  array_stats (a, now, &stats);
  assert (stats.member[0].suspect && !stats.member[2].suspect);
  r.offset = 0;
  submit (&r);
  assert (is_io (0, IO_READ, 0, 0, 4096));
  answer (0, 0);
  end ();
}

static void
test_bad_spot (bool repair_fails)
{
  struct array_request w = WRITE (0, 4096, ones), r = READ (0, 4096, back);

  begin (LAYOUT_RAIDX, 4);
  submit (&w);
  answer (0, 0);
  memset (back, 9, 4096);
  memset (members[0], 7, 4096);
  submit (&r);
  answer (0, EIO);
  assert (is_io (0, IO_WRITE, 3, IMAGE0, 4096)); /* drained first */
  answer (0, 0);
  assert (ios_count == 1 && is_io (0, IO_READ, 3, IMAGE0, 4096));
  submit (&w); /* must not be overtaken by the repair */
  assert (ios_count == 1);
  answer (0, 0);
  assert (!done (&r) && ios_count == 1);
  assert (is_io (0, IO_WRITE, 0, 0, 4096) && ios[0]->buf == back);
  answer (0, repair_fails ? EIO : 0);
  assert (done (&r) && r.error == 0 && all_are (back, 1, 4096));
  assert (notices_lost == repair_fails);
  if (repair_fails)
    commit (1);
  else
    assert (all_are (members[0], 1, 4096));
  assert (finish (&w) == 0);
  if (array_deadline (a) != UINT64_MAX)
    tick ();
  answer_all ();
  end ();
}

/* To a reader it is the member's loss, if the image can be read; that may lack what
 * its writer still has in its buffer.
 */
static void
test_bad_spot_of_reader (void)
{
  struct array_request r = READ (0, 4096, back), other = READ (UNIT, 1, back);

  config.readonly = true;
  begin (LAYOUT_RAIDX, 4);
  submit (&r);
  answer (0, EIO);
  assert (notices_lost == 0 && is_io (0, IO_READ, 3, IMAGE0, 4096));
  answer (0, 0);
  assert (notices_lost == 1 && notice.member == 0);
  assert (ios_count == 0 && !done (&r));
  submit (&other);
  answer (0, 0);
  assert (done (&other));
  return_of (0); /* it was well after all */
  commit_states (1, "iiii");
  answer_only (IO_READ, 0, 0, 4096, EIO);
  answer (0, 0);
  assert (notices_lost == 2 && ios_count == 0 && !done (&r));
  commit_states (2, "oiii");
  answer_only (IO_READ, 3, IMAGE0, 4096, 0);
  assert (done (&r) && r.error == 0);
  end ();
}

/* The same with more than two copies, when the data's member is out: readers read the next
 * copy, and what it lacks may still be in the buffer for the third one, too.
 */
static void
test_bad_spot_of_image (unsigned row)
{
  struct array_request r = READ (row * UNIT, 4096, back);
  unsigned next = 1 + row, third = 2 - row; /* images are read by turns */

  config.readonly = true;
  rig_states ("oii", config.states);
  begin (LAYOUT_RAID1, 3);
  submit (&r);
  answer_only (IO_READ, next, row * UNIT, 4096, EIO);
  answer_only (IO_READ, third, row * UNIT, 4096, 0);
  assert (notices_lost == 1 && notice.member == next);
  assert (ios_count == 0 && !done (&r));
  commit_states (2, row ? "oio" : "ooi");
  answer_only (IO_READ, third, row * UNIT, 4096, 0);
  assert (done (&r) && r.error == 0);
  end ();
}

/* It does not wait for ever. */
static void
test_bad_spot_stays (void)
{
  struct array_request r = READ (0, 4096, back);

  config.readonly = true;
  begin (LAYOUT_RAIDX, 4);
  submit (&r);
  for (unsigned i = 0; i < 15; i++) {
    assert (ios_count == 1 && !done (&r));
    answer (0, EIO);
    answer (0, 0);
    assert (notices_lost == i + 1 && ios_count == 0);
    tick_after (1000 * MS);
    give_back (0, 1, "iiii");
  }
  answer (0, EIO);
  answer (0, 0);
  assert (done (&r) && r.error == EIO && notices_lost == 15);
  end ();
}

/* If no copy can be read, no member is lost because of that, and the request does not
 * wait. */
static void
test_no_good_copy (bool readonly)
{
  struct array_request r = READ (0, 4096, back);

  config.readonly = readonly;
  begin (LAYOUT_RAIDX, 4);
  submit (&r);
  for (unsigned i = 0; !done (&r); i++) {
    assert (i < 5 && ios_count == 1 && ios[0]->kind == IO_READ);
    answer (0, EIO);
  }
  assert (r.error == EIO && notices_lost == 0);
  end ();
}

#define ACCEPT(c)                                                              \
  { .op = ARRAY_ACCEPT, .length = 4096, .buf = back, .copy = (c) }

/* All reads of an accepted loss are EIO; then both members are to flush. */
static void
begin_unreadable (struct array_request *x)
{
  begin (LAYOUT_RAIDX, 4);
  x->epoch = config.epoch;
  memset (members[0], 7, 4096);
  memset (members[3] + IMAGE0, 7, 4096);
  submit (x);
  for (unsigned i = 0; ios[0]->kind == IO_READ; i++) {
    assert (i < 5 && ios_count == 1 && !done (x));
    answer (0, EIO);
  }
  assert (!done (x) && ios_count == 2 && ios[0]->kind == IO_FLUSH &&
          ios[1]->kind == IO_FLUSH && ios[0]->member + ios[1]->member == 3);
}

/* The loss of a block is accepted: zeroes, if no copy can be read, and no write of a
 * client comes in between.
 */
static void
test_loss_accepted (void)
{
  struct array_request x = ACCEPT (1), w = WRITE (0, 4096, ones);

  begin_unreadable (&x);
  submit (&w);
  answer (0, 0);
  assert (!done (&x) && ios_count == 1);
  answer (0, 0);
  assert (ios_count == 1 && is_io (0, IO_ZERO, 0, 0, 4096));
  assert (ios[0]->flags == ARRAY_FUA);
  answer (0, 0);
  assert (!done (&x) && ios_count == 1 && is_io (0, IO_ZERO, 3, IMAGE0, 4096));
  answer (0, 0);
  assert (done (&x) && x.error == 0 && x.lost && notices_lost == 0);
  assert (all_are (members[0], 0, 4096) &&
          all_are (members[3] + IMAGE0, 0, 4096));
  assert (finish (&w) == 0 && all_are (members[0], 1, 4096));
  tick_after (200 * MS);
  answer_all ();

  /* It was written meanwhile: that stays. */
  x = (struct array_request) ACCEPT (1);
  x.epoch = config.epoch;
  assert (carry_out (&x) == 0 && !x.lost);
  assert (all_are (members[0], 1, 4096));
  end ();
}

/* A member that fails as a whole may have a good copy: nothing is lost. */
static void
test_loss_of_what_failed (bool at_once)
{
  struct array_request x = ACCEPT (1);

  begin_unreadable (&x);
  if (at_once) {
    answer (ios[0]->member == 0 ? 0 : 1, EIO);
    answer_all ();
  }
  else {
    answer (0, 0);
    answer (0, 0);
    answer_only (IO_ZERO, 0, 0, 4096, EIO);
    assert (!done (&x) && ios_count == 0);
    commit (1);
    answer_all ();
  }
  assert (done (&x) && x.error == EIO);
  assert (all_are (members[3] + IMAGE0, 7, 4096));
  end ();
}

/* The connection broke after zeroes were sent.  A member that is given back may have
 * them, so bits stay until it has joined again.  A member that goes out differs from no
 * other.
 */
static void
test_zeroes_without_answer (bool goes)
{
  struct array_request x = ACCEPT (1);

  begin_unreadable (&x);
  answer (0, 0);
  answer (0, 0);
  assert (is_io (0, IO_ZERO, 0, 0, 4096));
  lose (0);
  answer (0, ENOTCONN);
  if (!goes)
    return_whole (0);
  commit (goes);
  assert (finish (&x) == EIO && array_differs (a) == !goes);
  commit (1);
  assert (!array_differs (a));
  end ();
}

/* Only the image is bad: it is mended. */
static void
test_loss_of_image_accepted (void)
{
  struct array_request x = ACCEPT (2);

  begin (LAYOUT_RAIDX, 4);
  memset (members[0], 7, 4096);
  submit (&x);
  answer_only (IO_READ, 3, IMAGE0, 4096, EIO);
  answer_only (IO_READ, 0, 0, 4096, 0);
  answer_only (IO_WRITE, 3, IMAGE0, 4096, 0);
  assert (done (&x) && x.error == 0 && !x.lost && all_are (back, 7, 4096));
  assert (all_are (members[3] + IMAGE0, 7, 4096));
  end ();
}

/* Not in another epoch than that in which it was accepted: a member that is out by
 * now may have a good copy, and come back.
 */
static void
test_loss_not_accepted (bool late)
{
  struct array_request x = ACCEPT (1);

  begin (LAYOUT_RAIDX, 4);
  x.epoch = config.epoch;
  commit (1 << 3);
  if (!late)
    x.epoch = config.epoch;
  submit (&x);
  for (unsigned i = 0; !done (&x) && ios[0]->kind == IO_READ; i++) {
    assert (i < 5 && ios_count == 1);
    answer (0, EIO);
  }
  assert (done (&x) == late);
  answer_all ();
  assert (done (&x) && x.lost == !late && x.error == (late ? EIO : 0));
  end ();
}

/* A request for one particular copy gets no other copy. */
static void
test_one_copy_only (void)
{
  struct array_request w = WRITE (0, 4096, ones), r = READ (0, 4096, back);

  begin (LAYOUT_RAIDX, 4);
  submit (&w);
  answer_all ();
  r.copy = 2;
  submit (&r);
  assert (is_io (0, IO_WRITE, 3, IMAGE0, 4096)); /* drained first */
  answer (0, 0);
  while (!done (&r)) {
    answer_only (IO_READ, 3, IMAGE0, 4096, EIO);
  }
  assert (r.error == EIO && notices_lost == 0);
  submit (&r);
  answer (0, 0);
  assert (done (&r) && r.error == 0 && all_are (back, 1, 4096));

  r.copy = 1;
  submit (&r);
  assert (is_io (0, IO_READ, 0, 0, 4096));
  lose (0);
  answer (0, ENOTCONN);
  assert (!done (&r) && ios_count == 0);
  commit (1);
  assert (done (&r) && r.error == EIO && ios_count == 0);
  end ();
}

int
main (void)
{
  rig_init ();
  test_loss ();
  test_wait_is_told ();
  test_wait_of_images_is_told ();
  test_wait_of_resting_images_is_not_told ();
  test_lost_by_others ();
  test_image_member_lost ();
  test_flush_while_degraded ();
  test_two_losses ();
  test_three_copies ();
  test_error_is_a_loss (ARRAY_WRITE, EIO);
  test_error_is_a_loss (ARRAY_ZERO, EIO);
  test_error_is_a_loss (ARRAY_FLUSH, EIO);
  test_error_is_a_loss (ARRAY_READ, ESHUTDOWN);
  test_timeout ();
  test_silent (true);
  test_silent (false);
  test_known (15, 1 * MS, 2000);
  test_known (16, 70 * MS, 560);
  test_known (1100, 1 * MS, 500);
  test_known (600, 50 * MS, 500);
  test_asked_as_the_load_begins ();
  test_known_no_more ();
  test_sign_of_life ();
  test_part_of_an_answer ();
  test_slow_flush (false);
  test_slow_flush (true);
  test_growing_load ();
  test_never_answered ();
  test_suspect ();
  test_sync_is_not_slow ();
  test_loaded ();
  test_bad_spot (false);
  test_bad_spot (true);
  test_bad_spot_of_reader ();
  test_bad_spot_of_image (0);
  test_bad_spot_of_image (1);
  test_bad_spot_stays ();
  test_loss_accepted ();
  test_loss_of_what_failed (true);
  test_loss_of_what_failed (false);
  test_zeroes_without_answer (true);
  test_zeroes_without_answer (false);
  test_loss_of_image_accepted ();
  test_loss_not_accepted (false);
  test_loss_not_accepted (true);
  test_no_good_copy (false);
  test_no_good_copy (true);
  test_one_copy_only ();
  return 0;
}
