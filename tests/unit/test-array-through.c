/* test-array-through.c: writes that go through, data and images side by side; which
 * ones do, and what becomes of them when a copy fails, step by step.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "test-array-rig.h"

/* Both copies are asked for before either answers, from the client's own buffer. */
static void
test_side_by_side (bool fua, bool image_first)
{
  struct array_request w = WRITE (UNIT, 4096, ones);

  config.dup = fua ? DUP_ASYNC_CLIENT : DUP_SYNC_CLIENT;
  w.flags = fua ? ARRAY_FUA : 0;
  begin (LAYOUT_RAID10, 4); /* unit 1: data on 1, image on 3 */
  submit (&w);
  assert (ios_count == 2 && is_io (0, IO_WRITE, 1, 0, 4096) &&
          is_io (1, IO_WRITE, 3, 0, 4096));
  for (unsigned i = 0; i < 2; i++)
    assert (ios[i]->buf == ones && !!(ios[i]->flags & ARRAY_FUA) == fua);
  answer (image_first, 0);
  assert (!done (&w) && ios_count == 1);
  answer (0, 0);
  assert (done (&w) && w.error == 0 && array_idle (a));
  end ();
}

static void
test_three_copies (void)
{
  struct array_request w = WRITE (0, 4096, ones);

  w.flags = ARRAY_FUA;
  begin (LAYOUT_RAID1, 3);
  submit (&w);
  assert (ios_count == 3);
  answer (1, 0);
  answer (1, 0);
  assert (!done (&w));
  answer_only (IO_WRITE, 0, 0, 4096, 0);
  assert (done (&w) && w.error == 0 && array_idle (a));
  end ();
}

/* A large write: its images are joined where they lie side by side. */
static void
test_large (void)
{
  struct array_request w = WRITE (0, 5 * UNIT, ones),
                       small = WRITE (0, 5 * UNIT - 512, ones);
  struct array_stats s;

  config.through_bytes = 5 * UNIT;
  begin (LAYOUT_RAIDX, 4);
  submit (&w); /* images of units 0 to 2 on member 3, of 3 and 4 on member 2 */
  assert (ios_count == 7);
  assert (is_io (0, IO_WRITE, 0, 0, UNIT) && is_io (2, IO_WRITE, 1, 0, UNIT));
  assert (is_io (1, IO_WRITE, 3, IMAGE0, 3 * UNIT) && ios[1]->buf == ones);
  assert (is_io (5, IO_WRITE, 2, IMAGE0, 2 * UNIT) &&
          ios[5]->buf == ones + 3 * UNIT);
  for (unsigned i = 0; i < 6; i++)
    answer (0, 0);
  assert (!done (&w));
  answer (0, 0);
  array_stats (a, now, &s);
  assert (done (&w) && array_idle (a) && s.images_sent == 5 * UNIT);
  assert (all_are (members[3] + IMAGE0, 1, 3 * UNIT) &&
          all_are (members[2] + IMAGE0, 1, 2 * UNIT));

  submit (&small);
  assert (ios_count == 5); /* data */
  while (!done (&small))
    answer (0, 0);
  tick ();
  answer_all ();
  end ();
}

/* Zeroes cost the buffer nothing, and travel joined with their like. */
static void
test_large_zero (void)
{
  struct array_request z = { .op = ARRAY_ZERO, .length = 8 * UNIT };

  config.through_bytes = UNIT;
  begin (LAYOUT_RAIDX, 4);
  submit (&z);
  assert (ios_count == 4);
  assert (finish (&z) == 0);
  tick ();
  answer_all ();
  z.flags = ARRAY_FUA;
  submit (&z); /* data and images of each member */
  assert (ios_count == 7);
  assert (finish (&z) == 0 && array_idle (a));
  end ();
}

/* So many small ones, whose images stay in the buffer. */
static void
fill (unsigned writes)
{
  struct array_request small;

  for (unsigned i = 0; i < writes; i++) {
    small = (struct array_request) WRITE (16 * UNIT + i * 8192, 4096, twos);
    submit (&small);
    for (unsigned k = 0; !done (&small); k++)
      if (ios[k]->offset < IMAGE0)
        answer (k, 0);
  }
}

/* A middling one, when more than half of the buffer is taken; a small one never. */
static void
test_pressed (unsigned writes, uint64_t length, bool through)
{
  struct array_request w = WRITE (0, length, ones);
  unsigned before;

  config.image_buffer_bytes = KiB (64);
  config.through_bytes = 2 * UNIT;
  begin (LAYOUT_RAIDX, 4);
  fill (writes);
  before = ios_count;
  submit (&w);
  assert (is_io (before, IO_WRITE, 0, 0, length));
  assert (ios_count == before + (through ? 2 : 1));
  answer (before, 0);
  assert (done (&w) == !through);
  assert (finish (&w) == 0);
  while (!array_idle (a)) {
    answer_all ();
    tick_after (200 * MS);
  }
  assert (all_are (members[3] + IMAGE0, 1, length));
  end ();
}

/* Older images of the place are in the buffer, or on their way: the newer ones go
 * behind them.
 */
static void
test_behind_older (bool flying)
{
  struct array_request older = WRITE (0, 4096, twos), w = WRITE (0, 8192, ones),
                       f = FLUSH;

  w.flags = ARRAY_FUA;
  begin (LAYOUT_RAIDX, 4);
  submit (&older);
  answer (0, 0);
  assert (done (&older));
  if (flying)
    tick ();
  submit (&w);
  if (flying) {
    assert (ios_count == 2 && is_io (0, IO_WRITE, 3, IMAGE0, 4096));
    answer (1, 0);
    answer_only (IO_WRITE, 3, IMAGE0, 4096, 0);
  }
  else {
    answer (0, 0);
    submit (&f); /* it waits for what replaces the older one */
  }
  assert (!done (&w) && is_io (0, IO_WRITE, 3, IMAGE0, 8192));
  answer (0, 0); /* the first one, also where others are flushed beside it */
  assert (done (&w));
  answer_all ();
  assert (all_are (members[3] + IMAGE0, 1, 8192) && array_idle (a));
  end ();
}

/* A newer write waits until all copies of the older one are written. */
static void
test_newer_waits (void)
{
  struct array_request w = WRITE (0, 4096, ones), late = WRITE (0, 4096, twos);

  w.flags = ARRAY_FUA;
  begin (LAYOUT_RAIDX, 4);
  submit (&w);
  submit (&late);
  assert (ios_count == 2);
  answer (0, 0); /* the data: but the image is under way */
  assert (ios_count == 1);
  answer (0, 0);
  answer_only (IO_WRITE, 0, 0, 4096, 0);
  assert (done (&late));
  tick ();
  answer_all ();
  assert (all_are (members[3] + IMAGE0, 2, 4096));
  end ();
}

/* While an image is read, no reader may see data there that the data member lacks. */
static void
test_image_is_read (void)
{
  struct array_request w = WRITE (KiB (128), 4096, ones),
                       r = READ (KiB (128), 4096, back);

  w.flags = ARRAY_FUA;
  begin (LAYOUT_RAID10, 4);
  array_settled (a, 0, 0, 0, now); /* a stripe that is read from its images */
  submit (&r);
  submit (&w);
  assert (ios_count == 2 && is_io (0, IO_READ, 2, 4 * UNIT, 4096) &&
          is_io (1, IO_WRITE, 0, 4 * UNIT, 4096));
  answer (0, 0);
  assert (done (&r) && all_are (back, 0, 4096));
  answer (0, 0);
  answer_only (IO_WRITE, 2, 4 * UNIT, 4096, 0);
  assert (done (&w));
  submit (&r);
  w.offset += 4096; /* beside it */
  submit (&w);
  assert (ios_count == 3 && is_io (0, IO_READ, 2, 4 * UNIT, 4096));
  answer_all ();
  end ();
}

enum fate { OUT, BACK, WHOLE };

/* A member fails with its copy.  The write is answered when that is recorded, or when
 * the copy is written after all.
 */
static void
test_fails (unsigned member, enum fate fate, bool first)
{
  const unsigned other = 2 - member;
  struct array_request w = WRITE (0, 4096, ones);

  w.flags = ARRAY_FUA;
  begin (LAYOUT_RAID10, 4); /* unit 0: data on 0, image on 2 */
  submit (&w);
  assert (ios_count == 2 && ios[0]->member == 0 && ios[1]->member == 2);
  if (!first)
    answer (other > 0, 0);
  answer (first ? member > 0 : 0, fate == WHOLE ? ENOTCONN : EIO);
  assert (notices_lost == 1);
  if (first)
    answer (0, 0);
  assert (!done (&w) && ios_count == 0);
  if (fate == OUT)
    commit (1u << member);
  else {
    (fate == BACK ? return_of : return_whole) (member);
    assert (!done (&w) && ios_count == 0);
    commit_states (++config.epoch, "iiii");
    assert (!done (&w));
    answer_only (IO_WRITE, member, 0, 4096, 0);
    if (fate == BACK) /* all of it once more, because the member may have lost
                       * something */
      answer_all ();
  }
  assert (done (&w) && w.error == 0 && ios_count == 0);
  assert (all_are (members[other], 1, 4096));
  assert (fate == OUT || all_are (members[member], 1, 4096));
  end ();
}

/* The connection breaks: the request ends only when the member has come back. */
static void
test_lost_under_way (unsigned member)
{
  struct array_request w = WRITE (0, 4096, ones);

  w.flags = ARRAY_FUA;
  begin (LAYOUT_RAID10, 4);
  submit (&w);
  lose (member);
  commit (1u << member);
  answer (member == 0, 0); /* the other copy */
  assert (!done (&w));     /* its buffer is in use */
  answer (0, ENOTCONN);
  assert (done (&w) && w.error == 0 && ios_count == 0);
  end ();
}

/* A large one whose image fails is a buffered one from then on. */
static void
test_large_fails (bool out)
{
  struct array_request w = WRITE (0, UNIT, ones);

  config.through_bytes = UNIT;
  begin (LAYOUT_RAIDX, 4);
  submit (&w);
  answer (1, EIO);
  assert (!done (&w));
  answer (0, 0);
  assert (done (&w) && w.error == 0 && ios_count == 0 && !array_idle (a));
  if (out)
    commit (1u << 3);
  else {
    return_whole (3);
    commit (0);
    tick ();
    answer_only (IO_WRITE, 3, IMAGE0, UNIT, 0);
    assert (all_are (members[3] + IMAGE0, 1, UNIT));
  }
  assert (array_idle (a));
  end ();
}

static void
test_both_fail (void)
{
  struct array_request w = WRITE (0, 4096, ones);

  w.flags = ARRAY_FUA;
  begin (LAYOUT_RAID10, 4);
  submit (&w);
  answer (0, EIO);
  answer (0, EIO);
  assert (!done (&w) && notices_lost == 2);
  commit (1u << 0);
  assert (!done (&w)); /* the last copy stays */
  return_of (2);
  commit (1u << 0);
  assert (is_io (0, IO_WRITE, 2, 0, 4096));
  assert (finish (&w) == 0 && all_are (members[2], 1, 4096));
  end ();
}

/* A member that joins gets its copy when another has it. */
static void
test_not_whole (const char *states)
{
  struct array_request w = WRITE (0, 4096, ones);

  w.flags = ARRAY_FUA;
  rig_states (states, config.states);
  begin (LAYOUT_RAID10, 4);
  submit (&w);
  assert (ios_count == 1 && ios[0]->member == (states[0] == 'i' ? 0 : 2));
  answer (0, 0);
  assert (done (&w) && w.error == 0);
  tick ();
  assert (ios_count == 1 && ios[0]->member == (states[0] == 'i' ? 2 : 0));
  answer_all ();
  assert (all_are (members[0], 1, 4096) && all_are (members[2], 1, 4096));
  end ();
}

/* A member begins to join while a write is under way to the others: it gets its copy
 * when they have it.
 */
static void
test_joins_meanwhile (void)
{
  struct array_request w = WRITE (0, 4096, ones);

  w.flags = ARRAY_FUA;
  rig_states ("iio", config.states);
  begin (LAYOUT_RAID1, 3);
  submit (&w);
  assert (ios_count == 2);
  answer (0, 0);
  return_of (2);
  commit_states (2, "iij");
  assert (ios_count == 1);
  answer (0, 0);
  assert (done (&w));
  tick ();
  answer_only (IO_WRITE, 2, 0, 4096, 0);
  assert (all_are (members[2], 1, 4096) && array_idle (a));
  end ();
}

/* The write of the data fails, and that of the image succeeds.  A joining member must not
 * get its copy as if both had succeeded.
 */
static void
test_data_fails_beside_a_joiner (void)
{
  struct array_request w = WRITE (0, 4096, ones);

  w.flags = ARRAY_FUA;
  rig_states ("iij", config.states);
  begin (LAYOUT_RAID1, 3);
  submit (&w);
  answer (0, EIO);
  answer_only (IO_WRITE, 1, 0, 4096, 0);
  assert (!done (&w) && ios_count == 0);
  commit_states (2, "oij");
  assert (finish (&w) == 0);
  tick ();
  answer_only (IO_WRITE, 2, 0, 4096, 0);
  assert (all_are (members[1], 1, 4096) && all_are (members[2], 1, 4096));
  end ();
}

/* The member is about to be in sync: now the write needs it, too. */
static void
test_counts_meanwhile (void)
{
  struct array_request w = WRITE (0, 4096, ones);

  w.flags = ARRAY_FUA;
  rig_states ("iio", config.states);
  begin (LAYOUT_RAID1, 3);
  submit (&w);
  return_of (2);
  commit_states (2, "iij");
  prepare (3, "iii");
  for (unsigned i = 0; i < ios_count;)
    if (ios[i]->kind == IO_WRITE)
      answer (i, 0);
    else
      i++;
  assert (!done (&w) || all_are (members[2], 1, 4096));
  answer_all ();
  assert (done (&w) && all_are (members[2], 1, 4096));
  end ();
}

static void
test_stopped (void)
{
  struct array_request w = WRITE (0, 4096, ones);

  w.flags = ARRAY_FUA;
  begin (LAYOUT_RAID10, 4);
  submit (&w);
  answer (0, 0);
  stop ();
  assert (!done (&w)); /* its buffer is in use */
  answer (0, 0);
  assert (done (&w) && w.error == ESHUTDOWN && array_idle (a));
  end ();
}

int
main (void)
{
  rig_init ();
  for (unsigned i = 0; i < 4; i++)
    test_side_by_side (i & 1, i & 2);
  test_three_copies ();
  test_large ();
  test_large_zero ();
  test_pressed (4, UNIT, false);
  test_pressed (8, UNIT, true);
  test_pressed (8, UNIT - 512, false);
  test_behind_older (false);
  test_behind_older (true);
  test_newer_waits ();
  test_image_is_read ();
  for (unsigned member = 0; member <= 2; member += 2) {
    for (enum fate fate = OUT; fate <= WHOLE; fate++) {
      test_fails (member, fate, false);
      test_fails (member, fate, true);
    }
    test_lost_under_way (member);
  }
  test_large_fails (true);
  test_large_fails (false);
  test_both_fail ();
  test_not_whole ("iiji");
  test_not_whole ("jiii");
  test_joins_meanwhile ();
  test_data_fails_beside_a_joiner ();
  test_counts_meanwhile ();
  test_stopped ();
  return 0;
}
