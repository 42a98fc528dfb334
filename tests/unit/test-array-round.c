/* test-array-round.c: rounds (array-round.c): when they begin, who waits for them,
 * and what keeps them from being complete.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>

#include "test-array-rig.h"

/* The number of the round that it is about; 0: it is none. */
static uint64_t
round_of (unsigned i)
{
  const struct batch_record *r;

  return batch_of (i, &r) > 0 && r->kind == BATCH_ROUND ? r->length : 0;
}

static bool
is_clear (unsigned i)
{
  const struct batch_record *r;

  return batch_of (i, &r) > 0 && batch_clears (r->kind);
}

static bool
clears (void)
{
  for (unsigned i = 0; i < ios_count; i++)
    if (is_clear (i))
      return true;
  return false;
}

/* Is this member asked to have the round? */
static bool
asked (unsigned member, uint64_t round)
{
  for (unsigned i = 0; i < ios_count; i++)
    if (ios[i]->member == member && round_of (i) == round)
      return true;
  return false;
}

static unsigned
rounds (void)
{
  unsigned n = 0;

  for (unsigned i = 0; i < ios_count; i++)
    n += round_of (i) != 0;
  return n;
}

/* All but what asks for rounds, or lowers bits. */
static void
answer_data (void)
{
  for (unsigned i = 0; i < ios_count;)
    if (round_of (i) || is_clear (i))
      i++;
    else {
      answer (i, 0);
      i = 0;
    }
}

static void
ask_data (struct array_request *r)
{
  submit (r);
  answer_data ();
}

static void
answer_round (unsigned member)
{
  unsigned i = 0;

  while (i < ios_count && !(ios[i]->member == member && round_of (i)))
    i++;
  assert (i < ios_count);
  answer (i, 0);
}

static void
answer_rounds (void)
{
  static unsigned first;

  first = 1 - first; /* the one or the other */
  answer_round (first);
  answer_round (1 - first);
}

/* raid-1 of two, whose disks have these rounds; the array has seen `highest`. */
static void
start (uint64_t highest, uint64_t first, uint64_t second)
{
  config.batches = config.rounds = true;
  config.extent_bytes = 4 * UNIT;
  config.io_timeout_ms = 0; /* nobody is accused of silence */
  config.round = highest;
  config.member_round[0] = first;
  config.member_round[1] = second;
  begin (LAYOUT_RAID1, 2);
}

/* What was written after idleness is flushed when two rounds that began with it are
 * complete, one right after the other; then one a second follows until two have begun
 * after the last answer.
 */
static void
test_flush (void)
{
  struct array_request w = WRITE (0, 4096, ones), f = FLUSH;
  struct array_request again = FLUSH;

  start (5, 5, 5);
  carry_out (&f);
  assert (array_round (a) == 5); /* nothing was written */
  assert (array_deadline (a) == UINT64_MAX);

  submit (&w);
  assert (rounds () == 2 && asked (0, 6) && asked (1, 6));
  ask_data (&f);
  assert (done (&w) && !done (&f) && rounds () == 2);
  answer_round (0);
  assert (!done (&f) && array_round (a) == 5);
  answer_round (1);
  assert (!done (&f) && array_round (a) == 6);
  assert (asked (0, 7) && asked (1, 7) && rounds () == 2);
  answer_round (1);
  answer_round (0);
  assert (done (&f) && array_round (a) == 7);
  ask_data (&again);
  assert (done (&again) && ios_count == 0);

  tick_after (900 * MS);
  assert (rounds () == 0);
  tick_after (200 * MS); /* a second after 7 was begun */
  assert (asked (0, 8) && asked (1, 8) && rounds () == 2);
  tick_after (3000 * MS); /* none before it is complete */
  assert (rounds () == 2);
  answer_all ();
  assert (array_round (a) == 9); /* the image was written after 7 was begun */
  tick_after (60000 * MS);
  answer_data ();
  assert (rounds () == 0 && array_round (a) == 9);
  end ();
}

/* The second round does not wait for what the FLUSH makes stable. */
static void
test_beside (void)
{
  struct array_request w = WRITE (0, 4096, ones), f = FLUSH;

  start (5, 5, 5);
  ask_data (&w);
  answer_rounds ();
  assert (done (&w) && array_round (a) == 6 && rounds () == 0);
  submit (&f);
  assert (!done (&f) && asked (0, 7) && asked (1, 7));
  answer_data ();
  assert (!done (&f));
  answer_rounds ();
  assert (done (&f));
  answer_all ();
  end ();
}

/* A write is flushed without a round of its own while the last complete one but one is
 * no older than 3 s; not after that, though the next one is under way.
 */
static void
test_late (void)
{
  struct array_request w = WRITE (0, 4096, ones), f = FLUSH;
  struct array_request late = FLUSH;

  start (1, 1, 1);
  ask_data (&w);
  answer_rounds ();
  tick_after (1000 * MS);
  answer_rounds ();
  ask_data (&w);
  tick_after (1900 * MS); /* 4 is asked for, and not answered */
  assert (array_round (a) == 3 && asked (0, 4));
  ask_data (&w);
  ask_data (&f);
  assert (done (&w) && done (&f));
  tick_after (200 * MS);
  answer_data ();
  ask_data (&w);
  ask_data (&late);
  assert (done (&w) && !done (&late));
  answer_rounds ();
  assert (done (&late));
  answer_all ();
  end ();
}

/* Another session ended within a round: that one is completed first, and stands for
 * nothing.
 */
static void
test_unequal (void)
{
  struct array_request w = WRITE (0, 4096, ones), f = FLUSH;

  start (7, 7, 6);
  submit (&w);
  assert (rounds () == 1 && asked (1, 7));
  ask_data (&f);
  answer_round (1);
  assert (!done (&f) && asked (0, 8) && asked (1, 8));
  answer_rounds ();
  assert (!done (&f) && asked (0, 9) && asked (1, 9));
  answer_rounds ();
  assert (done (&f));
  answer_all ();
  end ();

  /* Who had the highest is not there any more. */
  start (7, 6, 6);
  submit (&w);
  assert (rounds () == 2 && asked (0, 7) && asked (1, 7));
  answer_all ();
  end ();
}

static void
test_fua (void)
{
  struct array_request w = WRITE (0, 4096, ones);

  w.flags = ARRAY_FUA;
  start (5, 5, 5);
  ask_data (&w);
  assert (!done (&w) && rounds () == 2);
  answer_rounds ();
  assert (!done (&w) && rounds () == 2);
  answer_rounds ();
  assert (done (&w));
  answer_all ();
  end ();

  start (5, 5, 5);
  ask_data (&w);
  stop ();
  assert (done (&w) && w.error);
  answer_all ();
  end ();
}

/* Who is lost holds the round until it is recorded as out. */
static void
test_lost (void)
{
  struct array_request w = WRITE (0, 4096, ones), f = FLUSH;

  start (5, 5, 5);
  submit (&w);
  ask_data (&f);
  answer_round (0);
  lose (1);
  while (ios_count > 0)
    answer (0, ESHUTDOWN);
  tick_after (5000 * MS);
  assert (!done (&f) && rounds () == 0 && array_round (a) == 5);
  commit (1 << 1);
  answer_data ();
  assert (array_round_entered (a) == 5); /* it had not answered 6 */
  assert (array_round (a) >= 6 && asked (0, 7) && !done (&f));
  answer_round (0);
  assert (array_round (a) >= 7 && done (&f));
  answer_all ();
  end ();
}

static bool
writes_to_first (void)
{
  for (unsigned i = 0; i < ios_count; i++)
    if (is_io (i, IO_WRITE, 0, 0, 4096))
      return true;
  return false;
}

/* No round can be complete, for a member is lost that has the only copy of something.
 * Another one with such a copy has noted 9 and no more, and comes back by another
 * process: what it answered more than 3 s after the round of that disk began may be
 * gone, and one FLUSH says so, be it under way.  What is under way is written anew.
 * Twice: it comes back in vain first, for it is to go out, but then it stays.
 */
static void
test_back (void)
{
  static const struct {
    unsigned after_ms; /* of the last write, after 9 began */
    uint64_t reach;
    bool kept, gone;
  } backs[] = {
    { 2000, 9, true, false },
    { 2000, UINT64_MAX, true, false },
    { 500, 8, true, false },
    { 2000, 8, true, true },
    { 500, 7, true, true },
    { 4000, 9, true, true },
    { 4000, 9, false, true },
    { 4000, 5, true, true },
    { 4000, UINT64_MAX, true, false },
  };

  for (unsigned i = 0; i < 4 * sizeof backs / sizeof backs[0]; i++) {
    struct array_request w = WRITE (0, 4096, ones),
                         late = WRITE (0, 4096, ones);
    struct array_request under_way = FLUSH, f = FLUSH;
    bool gone = backs[i / 4].gone, fua = i % 2, twice = i / 2 % 2;

    config.batches = config.rounds = true;
    config.io_timeout_ms = 0;
    config.round = config.member_round[0] = config.member_round[1] = 5;
    begin (LAYOUT_RAID10, 4);
    commit_states (2, "iioo");
    carry_out (&w);
    carry_out (&under_way);
    assert (under_way.error == 0 && array_round (a) == 7);
    tick_after (2000 * MS);
    ask_data (&w);
    answer_rounds ();
    assert (array_round (a) == 8);
    tick_after (2000 * MS);
    ask_data (&w);
    assert (done (&w) && asked (0, 9));
    answer_round (0);
    lose (1);
    answer_lost (1);
    tick_after (backs[i / 4].after_ms * MS);
    late.flags = fua ? ARRAY_FUA : 0;
    ask_data (&late);
    ask_data (&under_way); /* its flush is done, the round is not */
    assert (done (&late) == !fua && !done (&under_way) && ios_count == 0);
    assert (array_round (a) == 8);

    lose (0);
    if (twice)
      prepare (3, "oioo");
    return_with (0, backs[i / 4].kept, backs[i / 4].reach);
    commit_states (2, "iioo");
    if (twice) {
      return_whole (0);
      commit_states (4, "iioo");
    }
    tick_after (5000 * MS);
    return_whole (1);
    commit_states (4, "iioo");
    answer_rounds ();
    assert (array_round (a) == 9 && writes_to_first () == (gone && fua));
    answer_data ();
    assert (!(gone && fua) || !done (&late)); /* its rounds are to come */
    answer_all ();
    assert (done (&late) && late.error == 0);
    assert (done (&under_way) && under_way.error == (gone ? EIO : 0));
    assert (carry_out (&f) == 0);
    end ();
  }
}

/* No bit falls before two rounds that began after the last write are complete. */
static void
test_clear (void)
{
  struct array_request w = WRITE (0, 4096, ones);

  start (5, 5, 5);
  ask_data (&w);
  answer_rounds ();
  assert (array_round (a) == 6);
  for (unsigned i = 0; i < 30;
       i++) { /* 7 stays under way; the image follows it */
    tick_after (1000 * MS);
    answer_data ();
    assert (!clears () && array_round (a) == 6);
  }
  answer_rounds ();
  for (unsigned i = 0; i < 30 && array_round (a) < 9; i++) {
    assert (!clears ());
    if (rounds () > 0) {
      answer_rounds ();
    }
    tick_after (100 * MS);
  }
  for (unsigned i = 0; i < 30 && !clears (); i++) {
    answer_data ();
    tick_after (1000 * MS);
  }
  assert (clears ());
  answer_all ();
  end ();
}

/* At a clean end all is covered at once. */
static void
test_cover (void)
{
  struct array_request w = WRITE (0, 4096, ones);
  struct array_request f = { .op = ARRAY_FLUSH, .flags = ARRAY_COVER };

  start (5, 5, 5);
  submit (&w);
  answer_all ();
  assert (array_round (a) == 6);
  submit (&f);
  assert (!done (&f));
  assert (finish (&f) == 0 && array_round (a) >= 7);
  assert (rounds () == 0);
  end ();
}

/* A joiner is given the round when it comes to count, and what was written before is
 * covered then.
 */
static void
test_join (void)
{
  struct array_request w = WRITE (0, 4096, ones);

  config.batches = config.rounds = true;
  config.round = config.member_round[0] = 5;
  config.member_round[1] = 4; /* of no use: it joins */
  rig_states ("ij", config.states);
  begin (LAYOUT_RAID1, 2);
  ask_data (&w);
  assert (asked (0, 6) && !asked (1, 6));
  answer_round (0);
  tick_after (10 * MS);
  answer_data ();
  prepare (2, "ii");
  answer_data ();
  assert (notices_prepared == 0 && asked (1, array_round (a)));
  while (ios_count > 0) {
    assert (notices_prepared == 0);
    answer (0, 0);
  }
  assert (notices_prepared == 1 && array_round (a) >= 8);
  commit_states (2, "ii");
  answer_all ();
  end ();
}

/* Where nothing was written, it has the round all the same.  One that is a joiner
 * again, for its change was replaced, has none.
 */
static void
test_join_idle (void)
{
  config.batches = config.rounds = true;
  config.round = config.member_round[0] = 5;
  rig_states ("ij", config.states);
  begin (LAYOUT_RAID1, 2);
  for (unsigned i = 0; i < 2; i++) {
    prepare (2 + 2 * i, "ii");
    answer_data ();
    assert (asked (1, 5) && notices_prepared == i);
    answer_round (1);
    answer_data ();
    assert (notices_prepared == i + 1);
    commit_states (3 + 2 * i, "ij");
    answer_all ();
  }
  end ();
}

int
main (void)
{
  rig_init ();
  test_flush ();
  test_beside ();
  test_late ();
  test_unequal ();
  test_fua ();
  test_lost ();
  test_back ();
  test_clear ();
  test_cover ();
  test_join ();
  test_join_idle ();
  return 0;
}
