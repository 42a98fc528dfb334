/* test-array-part.c: one of several writers, who writes a part of the array and only
 * reads the rest.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "test-array-rig.h"

/* raid-10 of four: unit u of the array is unit u / 2 of member u % 2, its image of
 * member u % 2 + 2.  Extents have four units, so the first has units 0 to 7 of the
 * array.  Ours are 4 to 19: of the extents but the second have anything else, too.
 */
#define PART 4
#define PART_END 20

static void
start (void)
{
  config.batches = true;
  config.extent_bytes = 4 * UNIT;
  config.leases = true;
  config.part_offset = PART * UNIT;
  config.part_length = (PART_END - PART) * UNIT;
  begin (LAYOUT_RAID10, 4);
}

static void
settle (void)
{
  array_settled (a, 0, 0, 0, now);
}

static struct array_request
read_of (unsigned unit)
{
  return (struct array_request) READ (unit * UNIT, 4096, back);
}

/* A write that is not wholly inside our part is refused, and nothing is sent. */
static void
test_writes (void)
{
  static const struct {
    uint64_t offset, length;
    int error;
  } ranges[] = {
    { PART * UNIT, UNIT, 0 },
    { PART * UNIT, (PART_END - PART) * UNIT, 0 },
    { PART_END * UNIT - 1, 1, 0 },
    { PART * UNIT - 1, 1, EPERM },
    { PART * UNIT - 1, 2, EPERM },
    { PART_END * UNIT, 1, EPERM },
    { PART_END * UNIT - 1, 2, EPERM },
    { 0, 48 * UNIT, EPERM },
    { 0, UNIT, EPERM },
    { 47 * UNIT, UNIT, EPERM },
    { 48 * UNIT, 1, EINVAL },
    { 0, 0, 0 },
  };
  static const enum array_op ops[] = { ARRAY_WRITE, ARRAY_ZERO, ARRAY_TRIM,
                                       ARRAY_ACCEPT };

  for (unsigned i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
    for (unsigned op = 0; op < sizeof ops / sizeof ops[0]; op++) {
      struct array_request w = WRITE (ranges[i].offset, ranges[i].length, ones);
      struct array_request f = FLUSH;

      start ();
      w.op = ops[op];
      submit (&w);
      assert (!ranges[i].error || (ios_count == 0 && done (&w)));
      assert (finish (&w) == ranges[i].error);
      assert (carry_out (&f) == 0);
      end ();
    }
}

/* A part is whole units within the array. */
static void
test_config (void)
{
  static const struct {
    uint64_t offset, length;
    bool good;
  } parts[] = {
    { 0, UNIT, true },         { 0, 48 * UNIT, true },
    { 47 * UNIT, UNIT, true }, { 47 * UNIT, 2 * UNIT, false },
    { 49 * UNIT, 1, false },   { UNIT / 2, UNIT, false },
    { 0, UNIT / 2, false },    { 0, UINT64_MAX, false },
  };
  char why[200];

  start ();
  for (unsigned i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    struct array *other;

    config.part_offset = parts[i].offset;
    config.part_length = parts[i].length;
    other = array_new (&config, now, why, sizeof why);
    assert ((other != NULL) == parts[i].good);
    assert (other || strstr (why, "part"));
    array_free (other);
  }
  end ();
}

/* Where all copies are equal a read of ours may take an image; elsewhere the image may
 * lack what is in the buffer of another.
 */
static void
test_images (void)
{
  struct array_request ours = read_of (8), theirs = read_of (24),
                       both = READ ((PART_END - 1) * UNIT, 2 * UNIT, back);

  start ();
  settle ();
  submit (&ours);
  answer_only (IO_READ, 2, 4 * UNIT, 4096, 0);
  submit (&theirs);
  answer_only (IO_READ, 0, 12 * UNIT, 4096, 0);
  memset (members[3] + 9 * UNIT, 3, UNIT);
  memset (members[1] + 9 * UNIT, 3, UNIT);
  memset (members[0] + 10 * UNIT, 4, UNIT);
  assert (carry_out (&both) == 0);
  assert (all_are (back, 3, UNIT) && all_are (back + UNIT, 4, UNIT));
  /* Where the data's member is out there is no other way. */
  commit (1);
  submit (&theirs);
  answer_only (IO_READ, 2, 12 * UNIT, 4096, 0);
  assert (done (&theirs) && theirs.error == 0);
  end ();
}

/* A member that is slow is read around where the image is as good. */
static void
test_suspect (void)
{
  bool around = false;
  struct array_stats stats;

  config.leases = true;
  config.part_length = 12 * UNIT;
  begin (LAYOUT_RAIDX, 4);
  settle ();
  for (unsigned i = 0; i < 400; i++) {
    struct array_request r = read_of (i % 24);

    submit (&r);
    assert (ios_count == 1);
    if (i % 24 % 4 == 0 && ios[0]->member != 0) {
      assert (i % 24 < 12);
      around = true;
    }
    now += ios[0]->member == 0 ? 300 * MS : 2 * MS;
    answer (0, 0);
    assert (done (&r) && r.error == 0);
  }
  array_stats (a, now, &stats);
  assert (around && stats.member[0].suspect);
  end ();
}

/* While weftd is not heard, and between its word that it is prepared and the commit,
 * nothing is read of what others may write by other states.
 */
static void
test_held (void)
{
  for (unsigned silent = 0; silent < 2; silent++) {
    struct array_request ours = read_of (8), theirs = read_of (24),
                         before = read_of (26);
    struct array_request e = { .op = ARRAY_EXTENTS,
                               .offset = PART * UNIT,
                               .length = UNIT };
    struct array_request wide = { .op = ARRAY_EXTENTS,
                                  .offset = 0,
                                  .length = 48 * UNIT };

    start ();
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
    assert (!done (&theirs) && !done (&before) && !done (&wide));
    if (silent)
      hold (false);
    else
      commit_states (2, "iiii");
    assert (ios_count > 0);
    answer_all ();
    assert (done (&theirs) && done (&before) && done (&wide));
    assert (theirs.error == 0 && before.error == 0 && wide.error == 0);
    end ();
  }
}

/* A bad spot of ours is mended.  One of others is not ours to mend, nor is its member
 * lost, by which we write, too: it is looked again until its writer has mended it, or it
 * was long enough.
 */
static void
test_bad_spot (void)
{
  struct array_request ours = read_of (4), theirs = read_of (24);
  struct array_request both = READ (PART * UNIT, 8192, back);

  start ();
  for (unsigned mended = 0; mended < 2; mended++) {
    submit (&theirs);
    for (unsigned i = 0; i < 15; i++) {
      answer_only (IO_READ, 0, 12 * UNIT, 4096, EIO);
      answer_only (IO_READ, 2, 12 * UNIT, 4096, 0);
      assert (!done (&theirs) && ios_count == 0 && notices_lost == 0);
      tick_after (900 * MS);
      assert (ios_count == 0 && array_deadline (a) == now + 100 * MS);
      tick ();
      if (i == 3 && mended)
        break;
    }
    answer_only (IO_READ, 0, 12 * UNIT, 4096, mended ? 0 : EIO);
    if (!mended)
      answer_only (IO_READ, 2, 12 * UNIT, 4096, 0);
    assert (done (&theirs) && theirs.error == (mended ? 0 : EIO));
    assert (notices_lost == 0);
  }

  submit (&ours);
  answer_only (IO_READ, 0, 2 * UNIT, 4096, EIO);
  answer_only (IO_READ, 2, 2 * UNIT, 4096, 0);
  answer_only (IO_WRITE, 0, 2 * UNIT, 4096, 0);
  assert (done (&ours) && ours.error == 0);

  /* The same, read with what is beside it. */
  both.offset -= 4096;
  submit (&both);
  assert (is_io (0, IO_READ, 1, 2 * UNIT - 4096, 4096));
  answer (0, 0);
  answer_only (IO_READ, 0, 2 * UNIT, 4096, EIO);
  answer_only (IO_READ, 2, 2 * UNIT, 4096, 0);
  answer_only (IO_WRITE, 0, 2 * UNIT, 4096, 0);
  assert (done (&both) && both.error == 0);
  end ();
}

/* We clear only the bits that we set, never those that others left, even where an extent
 * belongs to our part alone.
 */
static void
test_clear (void)
{
  struct array_request w = WRITE (PART * UNIT, 16 * UNIT, ones), f = FLUSH;
  unsigned seen = 0;

  start ();
  settle ();
  carry_out (&w);
  carry_out (&f);
  for (unsigned i = 0; i < 20; i++) {
    tick_after (1000 * MS);
    while (ios_count > 0) {
      const struct batch_record *r;
      int count = batch_of (0, &r);

      for (int k = 0; k < count && batch_clears (r[k].kind); k++) {
        assert (r[k].length == 12 * UNIT && r[k].kind == BATCH_CLEAR);
        seen++;
      }
      answer (0, 0);
    }
  }
  assert (seen == 4);
  end ();
}

/* The first begins with a lease of all, and recovers it.  Then it has its part alone. */
static void
test_first (void)
{
  struct array_request theirs = WRITE (24 * UNIT, UNIT, ones),
                       ours = WRITE (PART * UNIT, UNIT, ones),
                       copy = WRITE (0, 24 * UNIT, ones);
  struct array_range *list;

  config.lease_all = true;
  start ();
  assert (array_lease_all (a, &list) == 1 && list[0].length == 48 * UNIT);
  free (list);
  assert (carry_out (&theirs) == EPERM);
  assert (carry_out (&ours) == 0);
  copy.flags = ARRAY_RECOVER;
  assert (carry_out (&copy) == 0);
  array_lease_recovered (a, now);
  while (array_lease_leaves (a)) {
    answer_all ();
    tick_after (1000 * MS);
  }
  assert (carry_out (&copy) == EPERM && notices_left == 0);
  assert (carry_out (&ours) == 0);
  assert (array_lease_all (a, &list) == 1);
  assert (list[0].offset == PART * UNIT);
  assert (list[0].length == (PART_END - PART) * UNIT);
  free (list);
  answer_all ();
  end ();
}

/* The image of another part was read only to check that it is readable.  Meanwhile the
 * member with the data went out.  The image's answer may be from before the missing data
 * was written to it, so it is read again.  readonly: the same holds for a reader.
 */
static void
test_image_of_before (bool readonly)
{
  struct array_request theirs = read_of (24);

  config.batches = true;
  config.readonly = readonly;
  if (!readonly) {
    config.leases = true;
    config.part_offset = PART * UNIT;
    config.part_length = (PART_END - PART) * UNIT;
  }
  begin (LAYOUT_RAID10, 4);
  memset (members[2] + 12 * UNIT, 1, UNIT);
  submit (&theirs);
  answer_only (IO_READ, 0, 12 * UNIT, 4096, EIO);
  assert (is_io (0, IO_READ, 2, 12 * UNIT, 4096));
  prepare (2, "oiii");
  while (notices_prepared == 0) {
    assert (ios_count > 1);
    answer (ios_count - 1, 0);
  }
  commit_states (2, "oiii");
  while (ios_count > 1)
    answer (ios_count - 1, 0);
  answer (0, 0);
  assert (!done (&theirs));
  memset (members[2] + 12 * UNIT, 2, UNIT); /* the image has come by now */
  answer_only (IO_READ, 2, 12 * UNIT, 4096, 0);
  assert (done (&theirs) && theirs.error == 0 && back[0] == 2);
  answer_all ();
  end ();
}

/* A joiner may have rounds from others by then: it is asked in two steps before it counts
 * as one that has what was written before.
 */
static void
test_joiner_is_asked (void)
{
  struct array_request w = WRITE (0, 4096, ones);
  unsigned asked = 0;

  config.batches = config.rounds = true;
  config.extent_bytes = 4 * UNIT;
  config.round = config.member_round[0] = config.member_round[1] = 10;
  config.leases = true;
  config.part_length = 4 * UNIT;
  rig_states ("iij", config.states);
  begin (LAYOUT_RAID1, 3);
  submit (&w);
  for (unsigned i = 0; i < 6; i++) {
    answer_all ();
    tick_after (1000 * MS);
  }
  answer_all ();
  assert (done (&w) && w.error == 0);
  prepare (2, "iii");
  while (ios_count > 0) {
    asked += ios[0]->kind == IO_ROUND && ios[0]->member == 2;
    answer (0, 0);
  }
  assert (notices_prepared == 1 && asked == 2);
  commit_states (2, "iii");
  answer_all ();
  end ();
}

int
main (void)
{
  rig_init ();
  test_writes ();
  test_config ();
  test_images ();
  test_suspect ();
  test_held ();
  test_bad_spot ();
  test_clear ();
  test_first ();
  test_image_of_before (false);
  test_image_of_before (true);
  test_joiner_is_asked ();
  return 0;
}
