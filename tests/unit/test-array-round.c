/* test-array-round.c: rounds (array-round.c): when they begin, who waits for them,
 * and what keeps them from being complete.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "test-array-rig.h"
#include "test-random.h"

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
    if (round_of (i) || ios[i]->kind == IO_ROUND || is_clear (i))
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

/* A write after an idle time counts as flushed when two rounds that began with it are
 * complete, one right after the other.  Then one round a second follows, until two have
 * begun after the last answer.
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

  /* The member with the highest round is gone. */
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

/* A lost member delays the round until it is recorded as out. */
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
  for (uint64_t round = 7; round < 10; round++) {
    assert (array_round (a) == round - 1 && asked (0, round) && !done (&f));
    answer_round (0);
  }
  assert (done (&f));
  answer_all ();
  end ();
}

/* When nothing is written any more, and all that was is covered. */
static void
rest (void)
{
  for (unsigned i = 0; i < 10; i++) {
    tick_after (1000 * MS);
    answer_all ();
  }
  assert (array_deadline (a) == UINT64_MAX);
}

/* A member goes out of an idle array.  From then on, data is flushed when three rounds
 * are complete, whether it was written before or with FUA. The same holds for an array
 * that is attached without the member.  The missing disk may have noted one round more
 * than any member in sync.
 */
static void
test_out (void)
{
  for (unsigned i = 0; i < 16; i++) {
    struct array_request w = WRITE (0, 4096, ones), f = FLUSH, again = FLUSH;
    bool attached = i & 1, fua = i & 2, part = i & 4, joins = i & 8;
    struct array_request *q = fua ? &w : &f;

    noted[0] = noted[1] = 0;
    config.leases = part;
    if (part)
      config.part_length = 4 * UNIT;
    if (attached)
      rig_states ("io", config.states);
    else if (joins) /* it may have been in-sync in an epoch between */
      rig_states ("ij", config.states);
    start (5, 5, 6);
    if (!attached) {
      ask_data (&w);
      answer_all ();
      rest ();
      noted[1] = noted[0] + 1; /* by another session */
      lose (1);
      answer_lost (1);
      commit (1 << 1);
    }
    else
      noted[1] = 6;
    if (fua) {
      w = (struct array_request) WRITE (0, 4096, ones);
      w.flags = ARRAY_FUA;
    }
    submit (q);
    answer_data ();
    while (noted[0] < noted[1] + 2) {
      assert (!done (q));
      answer (0, 0);
    }
    assert (done (q) && q->error == 0);
    ask_data (&again);
    assert (done (&again));
    rest ();
    end ();
  }
}

static bool
writes_to_first (void)
{
  for (unsigned i = 0; i < ios_count; i++)
    if (is_io (i, IO_WRITE, 0, 0, 4096))
      return true;
  return false;
}

/* No round can complete, because a member with the only copy of something is lost.
 * Another member with such a copy has noted round 9 and returns with a new process.  Data
 * that it acknowledged more than 3 s after its disk began that round may be gone, and one
 * FLUSH reports that, even one under way.  Writes under way are sent again.  The member
 * returns twice: the first return fails, because the member is about to go out; after the
 * second it stays.
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
    config.round = config.member_round[0] = config.member_round[1] = 4;
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
  config.member_round[1] = 4; /* does not count: the member joins */
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

/* The joiner gets the round even if nothing was written.  A member that joins again
 * because its change was replaced has none.
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

/* ---- Several writers ---- */

/* The same, of which the first 4 units are ours, with what others have given since. */
static void
start_part (uint64_t both)
{
  config.leases = true;
  config.part_length = 4 * UNIT;
  start (both, both, both);
}

static unsigned
asks (void)
{
  unsigned n = 0;

  for (unsigned i = 0; i < ios_count; i++)
    n += ios[i]->kind == IO_ROUND;
  return n;
}

/* It says what it has noted. */
static void
answer_ask (unsigned member)
{
  unsigned i = 0;

  while (i < ios_count &&
         !(ios[i]->member == member && ios[i]->kind == IO_ROUND))
    i++;
  assert (i < ios_count);
  answer (i, 0);
}

static void
answer_asks (void)
{
  answer_ask (1);
  answer_ask (0);
}

static void
others_give (uint64_t first, uint64_t second)
{
  noted[0] = first;
  noted[1] = second;
}

/* No round is given before all members have said their round.  Then they get the highest
 * of these, and then one more; the next step asks again.
 */
static void
test_steps (void)
{
  struct array_request w = WRITE (0, 4096, ones), f = FLUSH;

  start_part (5);
  tick_after (60000 * MS);
  assert (ios_count == 0 && array_round (a) == 5); /* it rests */
  ask_data (&w);
  assert (asks () == 2 && rounds () == 0);
  others_give (6, 5);
  answer_ask (0);
  assert (asks () == 1 && rounds () == 0);
  answer_ask (1);
  assert (rounds () == 1 && asked (1, 6) && array_round (a) == 5);
  answer_round (1);
  assert (rounds () == 2 && asked (0, 7) && asked (1, 7) && asks () == 0);
  ask_data (&f);
  answer_round (0);
  assert (array_round (a) == 5 && !done (&f));
  answer_round (1);
  assert (array_round (a) == 7 && !done (&f));
  /* A step is none before it is complete, though others have gone on by two. */
  assert (asks () == 2 && rounds () == 0);
  others_give (9, 9);
  answer_asks ();
  assert (rounds () == 2 && asked (0, 10) && asked (1, 10) && !done (&f));
  answer_rounds ();
  assert (done (&f) && f.error == 0 && array_round (a) == 10);
  answer_all ();
  end ();

  /* Rounds that were asked before the write do not count for it. */
  start_part (5);
  ask_data (&w);
  assert (asks () == 2);
  tick_after (5000 * MS);
  ask_data (&w);
  ask_data (&f);
  answer_asks ();
  answer_rounds ();
  assert (!done (&f));
  answer_asks ();
  answer_rounds ();
  assert (array_round (a) == 7 && !done (&f));
  answer_asks ();
  answer_rounds ();
  assert (array_round (a) == 8 && done (&f));
  answer_all ();
  end ();

  /* A writer that is alone asks nobody. */
  start (5, 5, 5);
  ask_data (&w);
  assert (asks () == 0 && rounds () == 2);
  answer_all ();
  end ();
}

/* A round that cannot have been given is not believed, whichever member says it. */
static void
test_step_nonsense (void)
{
  struct array_request w = WRITE (0, 4096, ones);

  start_part (5);
  ask_data (&w);
  others_give (5 + (UINT64_C (1) << 32), 6 + (UINT64_C (1) << 32));
  answer_ask (0);
  assert (notices_lost == 0);
  answer_ask (1);
  assert (notices_lost == 1 && notice.member == 1 &&
          strstr (notice.reason, "round 4294967302") && rounds () == 0);
  answer_all ();
  assert (array_round (a) == 5);
  end ();
}

/* A lost member delays the step.  When it is back, it is asked again for its round. */
static void
test_step_lost (void)
{
  struct array_request w = WRITE (0, 4096, ones), f = FLUSH;

  start_part (5);
  ask_data (&w);
  ask_data (&f);
  answer_asks ();
  answer_round (0);
  assert (asked (1, 6) && asks () == 0);
  lose (1);
  answer_lost (1);
  assert (ios_count == 0 && array_round (a) == 5);
  others_give (6, 6);
  return_whole (1);
  commit_states (1, "ii");
  answer_data ();
  assert (asks () == 1 && rounds () == 0);
  answer_ask (1);
  assert (rounds () == 2 && asked (0, 7) && asked (1, 7));
  answer_rounds ();
  assert (array_round (a) == 7 && !done (&f));
  answer_ask (0);
  lose (1);
  answer_lost (1);
  assert (ios_count == 0 && !done (&f));
  commit (1 << 1);
  answer_data ();
  assert (array_round_entered (a) == 7 && asked (0, 8));
  answer_round (0);
  for (unsigned i = 0; i < 3; i++) {
    assert (!done (&f));
    answer_ask (0);
    answer_round (0);
  }
  assert (done (&f) && f.error == 0 && array_round (a) == 11);
  answer_all ();
  end ();
}

/* A joining member gets the rounds that the others got, although the step waits for a
 * member that is about to go out.
 */
static void
test_step_join (void)
{
  struct array_request w = WRITE (0, 4096, ones);

  config.leases = true;
  config.part_length = 4 * UNIT;
  config.batches = config.rounds = true;
  config.extent_bytes = 4 * UNIT;
  config.io_timeout_ms = 0;
  config.round = config.member_round[0] = config.member_round[1] = 5;
  rig_states ("iij", config.states);
  begin (LAYOUT_RAID1, 3);
  for (unsigned i = 0; i < 2; i++) {
    ask_data (&w);
    answer_asks ();
    answer_rounds ();
    tick_after (1000 * MS);
    answer_data ();
  }
  assert (asks () == 2 && array_round (a) == 7);
  lose (1);
  answer_lost (1);
  assert (ios_count == 0 && array_round (a) == 7);
  prepare (2, "ioi");
  assert (notices_prepared == 0);
  answer_ask (2);
  answer_data ();
  assert (asked (2, 7) && notices_prepared == 0);
  answer_round (2);
  answer_data ();
  assert (notices_prepared == 1);
  commit_states (2, "ioi");
  answer_all ();
  assert (array_round (a) >= 8 && noted[0] == noted[2]);
  end ();
}

/* A returning disk has one of these rounds in its superblock.  We asked the disk at 0 s
 * (it had 5), 2 s (8) and 4 s (11); other hosts gave the rounds between.  Take the newest
 * ask whose round the disk has passed.  Data that it acknowledged more than 3 s after
 * that ask may be gone, whether the other member has answered or not.
 */
static void
test_step_back (void)
{
  static const struct {
    unsigned
      after_ms; /* of the last write, after it was asked for the third time */
    uint64_t reach;
    bool gone;
  } backs[] = {
    { 500, 12, false },  { 500, 13, false }, { 500, 11, false },
    { 500, 9, false },   { 500, 8, true },   { 2000, 11, true },
    { 2000, 12, false }, { 4000, 12, true }, { 500, 5, true },
    { 500, 0, true },
  };

  for (unsigned i = 0; i < 2 * sizeof backs / sizeof backs[0]; i++) {
    struct array_request w = WRITE (0, 4096, ones), f = FLUSH;
    bool all = i % 2;

    config.leases = true;
    config.part_length = 4 * UNIT;
    config.batches = config.rounds = true;
    config.io_timeout_ms = 0;
    config.round = config.member_round[0] = config.member_round[1] = 5;
    begin (LAYOUT_RAID10, 4);
    commit_states (2, "iioo");
    for (uint64_t round = 6; round < 12; round += 3) {
      ask_data (&w);
      others_give (round - 1, round - 1);
      answer_asks ();
      assert (asked (0, round));
      answer_rounds ();
      tick_after (2000 * MS);
      answer_data ();
    }
    assert (array_round (a) == 9 && asks () == 2);
    others_give (11, 11);
    answer_ask (0);
    if (all) {
      answer_ask (1);
      answer_round (0);
    }
    lose (1);
    answer_lost (1);
    tick_after (backs[i / 2].after_ms * MS);
    ask_data (&w);
    assert (done (&w));
    lose (0);
    return_with (0, true, backs[i / 2].reach);
    commit_states (2, "iioo");
    return_whole (1);
    commit_states (2, "iioo");
    submit (&f);
    assert (finish (&f) == (backs[i / 2].gone ? EIO : 0));
    answer_all ();
    end ();
  }
}

/* No step is complete, because a lost member stays in the array; other hosts went on from
 * the rounds that we gave.  The connection to another member is lost repeatedly, and the
 * member is asked again each time, even in the same step.  For data that it did not have
 * then, the time of the newest ask counts; for data that it had, the time of the ask
 * before.
 */
static void
test_step_asked_again (void)
{
  static const struct {
    unsigned after_ms; /* of the last write, after it was asked last */
    uint64_t reach;
    bool gone;
  } backs[] = {
    { 1000, 8, false }, { 1000, 7, false }, { 1000, 6, false },
    { 2500, 8, false }, { 2500, 7, true },  { 3200, 8, true },
  };

  for (unsigned i = 0; i < sizeof backs / sizeof backs[0]; i++) {
    struct array_request w = WRITE (0, 4096, ones), f = FLUSH;

    config.leases = true;
    config.part_length = 4 * UNIT;
    config.batches = config.rounds = true;
    config.io_timeout_ms = 0;
    config.round = config.member_round[0] = config.member_round[1] = 5;
    begin (LAYOUT_RAID10, 4);
    commit_states (2, "iioo");
    ask_data (&w);
    answer_asks ();
    answer_round (0);
    lose (1);
    answer_lost (1);
    others_give (7, 7);
    for (unsigned k = 0; k < 3; k++) {
      tick_after (600 * MS);
      lose (0);
      answer_lost (0);
      return_whole (0);
      commit_states (3, "iioo");
      answer_data ();
      assert (asks () == 1);
      if (k == 2)
        tick_after (500 * MS); /* it is slow to answer */
      answer_ask (0);
    }
    tick_after ((backs[i].after_ms - 500) * MS);
    ask_data (&w);
    assert (done (&w) && array_round (a) == 5);
    lose (0);
    return_with (0, true, backs[i].reach);
    commit_states (4, "iioo");
    return_whole (1);
    commit_states (4, "iioo");
    submit (&f);
    assert (finish (&f) == (backs[i].gone ? EIO : 0));
    answer_all ();
    end ();
  }
}

/* A member that became in sync after the step had asked may have had the round that the
 * others are given, so the round that it says itself sets the time.  A member without a
 * round sets no time: a copy from before it joined may have any round.
 */
static void
test_step_counts_later (void)
{
  static const struct {
    uint64_t said, reach;
    bool gone;
  } backs[] = { { 6, 6, true }, { 6, 7, false }, { 0, 6, true } };

  for (unsigned i = 0; i < sizeof backs / sizeof backs[0]; i++) {
    struct array_request w = WRITE (0, 4096, ones), f = FLUSH;

    config.leases = true;
    config.part_length = 4 * UNIT;
    config.batches = config.rounds = true;
    config.io_timeout_ms = 0;
    config.round = config.member_round[0] = config.member_round[1] = 5;
    rig_states ("ij", config.states);
    begin (LAYOUT_RAID1, 2);
    prepare (2, "ij");
    answer_all ();
    ask_data (&w);
    assert (asks () == 1);
    others_give (5, backs[i].said);
    prepare (3, "ii");
    answer_data ();
    assert (asks () == 2);
    answer_asks ();
    answer_data ();
    while (array_round (a) == 5) {
      unsigned first = 0;

      while (first < ios_count && round_of (first) == 0)
        first++;
      if (first < ios_count)
        answer (first, 0);
      answer_data ();
    }
    lose (1);
    answer_lost (1);
    return_with (1, true, backs[i].reach);
    commit_states (4, "ii");
    submit (&f);
    assert (finish (&f) == (backs[i].gone ? EIO : 0));
    answer_all ();
    end ();
  }
}

/* Two engines on the same members, in any order; copies of disks are made beside, also
 * while a round is just being noted there, for one of a superblock's two slots may have
 * it.  Disks are never more than a round apart, and when all is covered that one has
 * written, what was copied before is two behind.
 */
#define COPIES 64

static void
test_two_writers (void)
{
  struct array *engine[2];
  struct array_client *clients[2];
  struct array_request w[2], f[2];
  uint64_t slot[2] = { 5, 5 }; /* the highest that may be on the disk */
  uint64_t copied[COPIES],
    written[2] = { 0 }; /* copies made before the write */
  unsigned copies = 0, covered = 0, stage[2] = { 0 };
  char why[200];

  start_part (5);
  engine[0] = a;
  clients[0] = client;
  config.part_offset = config.part_length;
  engine[1] = array_new (&config, now, why, sizeof why);
  assert (engine[1]);
  clients[1] = array_client_open (engine[1]);
  for (unsigned step = 0; step < 40000; step++) {
    unsigned i = test_random (2);

    a = engine[i];
    client = clients[i];
    if (stage[i] == 0 && test_random (4) == 0) {
      w[i] = (struct array_request) WRITE (i * 4 * UNIT, 4096, ones);
      written[i] = copies;
      submit (&w[i]);
      stage[i] = 1;
    }
    else if (stage[i] == 1 && done (&w[i])) {
      f[i] = (struct array_request) { .op = ARRAY_FLUSH, .flags = ARRAY_COVER };
      submit (&f[i]);
      stage[i] = 2;
    }
    else if (stage[i] == 2 && done (&f[i])) {
      assert (f[i].error == 0);
      for (unsigned c = 0; c < written[i]; c++)
        assert (copied[c] + 2 <= noted[0] && copied[c] + 2 <= noted[1]);
      covered++;
      stage[i] = 0;
    }
    else if (test_random (8) == 0) {
      unsigned m = test_random (2);

      if (copies ==
          COPIES) { /* forget the oldest half, which all have passed */
        copies /= 2;
        memmove (copied, copied + copies, copies * sizeof copied[0]);
        for (unsigned k = 0; k < 2; k++)
          written[k] -= written[k] < copies ? written[k] : copies;
      }
      copied[copies++] = slot[m];
    }
    else if (test_random (16) == 0)
      tick_after (test_random (400) * MS);
    for (unsigned k = 0; k < ios_count; k++)
      if (round_of (k) > slot[ios[k]->member] && test_random (4) == 0)
        slot[ios[k]->member] = round_of (k);
    if (ios_count > 0 && test_random (2)) {
      unsigned k = test_random (ios_count), m = ios[k]->member;

      if (ios[k]->kind == IO_ROUND && noted[m] < slot[m])
        noted[m] = slot[m]; /* it waits for that */
      answer (k, 0);
      if (slot[m] < noted[m])
        slot[m] = noted[m];
    }
    for (unsigned m = 0; m < 2; m++)
      assert (slot[m] <= noted[1 - m] + 1);
  }
  assert (covered > 100);
  answer_all ();
  for (unsigned i = 0; i < 2; i++) {
    a = engine[i];
    stop ();
    answer_all ();
  }
  array_free (engine[1]);
  a = engine[0];
  end ();
}

int
main (void)
{
  test_random_start ();
  rig_init ();
  test_flush ();
  test_beside ();
  test_late ();
  test_unequal ();
  test_fua ();
  test_lost ();
  test_out ();
  test_back ();
  test_clear ();
  test_cover ();
  test_join ();
  test_join_idle ();
  test_steps ();
  test_step_nonsense ();
  test_step_lost ();
  test_step_join ();
  test_step_back ();
  test_step_asked_again ();
  test_step_counts_later ();
  test_two_writers ();
  return 0;
}
