/* test-array-witness.c: which reads a writer may do after weftd has been silent for so
 * long that it may have replaced the writer.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "test-array-rig.h"

static struct array_request one = READ (0, 4096, back), other, image;

/* Content tells the members apart: data of the first unit is on member 0, its image (of
 * raid-x) on member 3.
 */
static void
begin_silent (enum layout_kind kind)
{
  config.batches = true;
  begin (kind, 4);
  memset (members[0], 5, 4096);
  one = other = (struct array_request) READ (0, 4096, back);
  hold (true);
}

static bool
is_sign (unsigned i, unsigned member)
{
  const struct batch_record *r;

  return ios[i]->member == member && batch_of (i, &r) == 0;
}

/* The member with the other copy is asked first, once for all waiting reads; an earlier
 * answer of it does not count.
 */
static void
test_asked_first (void)
{
  begin_silent (LAYOUT_RAIDX);
  submit (&one);
  other.offset = 4096;
  submit (&other);
  assert (ios_count == 1 && is_sign (0, 3));
  answer (0, 0);
  /* The second was asked for when the question was on its way. */
  assert (ios_count == 2 && is_io (0, IO_READ, 0, 0, 4096) && is_sign (1, 3));
  answer (1, 0);
  assert (ios_count == 2 && is_io (1, IO_READ, 0, 4096, 4096));
  answer_all ();
  assert (done (&one) && one.error == 0 && done (&other) && other.error == 0);
  submit (&one);
  assert (ios_count == 1 && is_sign (0, 3));
  answer_all ();
  hold (false);
  submit (&one);
  answer_only (IO_READ, 0, 0, 4096, 0);
  assert (done (&one) && all_are (back, 5, 4096));
  end ();
}

/* A read that was requested in time needs no witness, however late it continues. */
static void
test_asked_in_time (void)
{
  begin_silent (LAYOUT_RAIDX);
  hold (false);
  lose (0);
  submit (&one);
  now += 1000 * MS;
  hold (true);
  give_back (0, 2, "iiii");
  now += 1000 * MS;
  answer_only (IO_READ, 0, 0, 4096, 0);
  assert (done (&one) && one.error == 0);
  end ();
}

/* Another writer has fenced the witness: nothing is answered, until weftd is heard. */
static void
test_fenced (void)
{
  begin_silent (LAYOUT_RAIDX);
  submit (&one);
  answer (0, ESHUTDOWN);
  assert (notices_lost == 1 && notice.member == 3);
  assert (ios_count == 0 && !done (&one));
  array_trust (a, now, now);
  now += 5 * MS;
  submit (&other);
  assert (ios_count == 0);
  /* weftd was heard between the two. */
  array_trust (a, now, now);
  tick_after (0);
  answer_only (IO_READ, 0, 0, 4096, 0);
  assert (done (&one) && one.error == 0 && !done (&other));
  hold (false);
  answer_only (IO_READ, 0, 0, 4096, 0);
  assert (done (&other) && other.error == 0);
  end ();
}

/* A witness that is recorded as out is none: the next writer needs the other copy. */
static void
test_recorded (void)
{
  begin_silent (LAYOUT_RAIDX);
  submit (&one);
  answer (0, ENOTCONN);
  assert (ios_count == 0 && !done (&one));
  commit (1 << 3);
  answer_only (IO_READ, 0, 0, 4096, 0);
  assert (done (&one) && one.error == 0);
  end ();
}

/* An image is read by the same rule, and where data is comes from nobody. */
static void
test_others (void)
{
  struct array_request extents = { .op = ARRAY_EXTENTS, .length = 2 * UNIT };

  begin_silent (LAYOUT_RAID10);
  array_settled (a, 0, 0, 0, now);
  image = (struct array_request) READ (KiB (128), 4096, back);
  submit (&image);
  assert (ios_count == 1 && is_sign (0, 0));
  answer (0, 0);
  answer_only (IO_READ, 2, 4 * UNIT, 4096, 0);
  assert (done (&image) && image.error == 0);
  submit (&extents);
  assert (done (&extents) && extents.error == 0 && ios_count == 0);
  assert (extents.extents_count == 1 && !extents.extents[0].hole &&
          !extents.extents[0].zero);
  free (extents.extents);
  end ();
}

int
main (void)
{
  rig_init ();
  test_asked_first ();
  test_asked_in_time ();
  test_fenced ();
  test_recorded ();
  test_others ();
  return 0;
}
