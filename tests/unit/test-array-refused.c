/* test-array-refused.c: requests that a member refuses for the moment, for want of room
 * or memory; and writes for which this host has no memory.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "test-array-rig.h"

/* The host has no memory for blocks of a write while this is set. */
static bool no_memory;

void *__libc_malloc (size_t bytes);

void *
malloc (size_t bytes)
{
  if (!no_memory || bytes < 4096)
    return __libc_malloc (bytes);
  errno = ENOMEM;
  return NULL;
}

/* RAID-x, n = 4: member 0 has unit 0, member 3 its image. */
static struct array_request one;

static void
begin_write (unsigned flags)
{
  begin (LAYOUT_RAIDX, 4);
  one = (struct array_request) WRITE (0, 4096, ones);
  one.flags = flags;
  submit (&one);
}

/* Answer what this member was asked with an error, and all others well.  Returns how
 * many it was asked.
 */
static unsigned
answer_refused (unsigned member, int error)
{
  unsigned asked = 0;

  while (ios_count > 0) {
    asked += ios[0]->member == member;
    assert (asked < 1000);
    answer (0, ios[0]->member == member ? error : 0);
  }
  return asked;
}

static uint64_t
memory_wait_ns (void)
{
  struct array_stats s;

  array_stats (a, now, &s);
  return s.memory_wait_ns;
}

static uint64_t
refused_ns (unsigned member)
{
  struct array_stats s;

  array_stats (a, now, &s);
  return s.member[member].refused_ns;
}

/* Until the member is lost, or `ms` are over. */
static void
refuse_for (unsigned member, int error, uint64_t ms)
{
  uint64_t until = now + ms * MS;

  while (notices_lost == 0 && now < until) {
    answer_refused (member, error);
    tick ();
  }
}

/* What is asked of member 0, refused so: is it sent again? */
static void
test_every_error (void)
{
  static const struct {
    enum array_op op;
    unsigned flags;
    bool batches, again;
  } asked[] = {
    { ARRAY_WRITE, 0, true, true },
    { ARRAY_WRITE, ARRAY_FUA, true, true },
    { ARRAY_ZERO, 0, true, true },
    { ARRAY_TRIM, 0, true, true },
    { ARRAY_FLUSH, 0, true, false }, /* fsync: never again */
    { ARRAY_WRITE, 0, false, true },
    { ARRAY_WRITE, ARRAY_FUA, false, false }, /* perhaps of an fsync */
    { ARRAY_ZERO, ARRAY_FUA, false, false },
    { ARRAY_FLUSH, 0, false, false },
  };
  static const struct {
    int error;
    bool passes;
  } errors[] = {
    { ENOSPC, true },  { ENOMEM, true },     { EIO, false },
    { EINVAL, false }, { ESHUTDOWN, false }, { ENOTCONN, false },
  };

  for (unsigned i = 0; i < sizeof asked / sizeof asked[0]; i++)
    for (unsigned e = 0; e < sizeof errors / sizeof errors[0]; e++) {
      bool again = asked[i].again && errors[e].passes;
      int error = errors[e].error;

      config.batches = asked[i].batches;
      begin (LAYOUT_RAIDX, 4);
      one = (struct array_request) {
        .op = asked[i].op, .flags = asked[i].flags, .length = 4096, .buf = ones
      };
      submit (&one);
      assert (answer_refused (0, error) == 1);
      assert (!done (&one) && notices_lost == !again);
      assert (again ||
              notice.answers == (error != ESHUTDOWN && error != ENOTCONN));
      if (again)
        tick ();
      else
        commit (1);
      assert (finish (&one) == 0);
      assert (notices_lost == !again && !array_differs (a));
      end ();
    }
}

/* It is sent again soon, then not so often. */
static void
test_a_single_one (void)
{
  struct array_request f = FLUSH;

  begin_write (0);
  answer_only (IO_WRITE, 0, 0, 4096, ENOSPC);
  assert (ios_count == 0 && array_deadline (a) == now + 10 * MS);
  tick ();
  answer_only (IO_WRITE, 0, 0, 4096, ENOMEM);
  assert (ios_count == 0 && array_deadline (a) == now + 200 * MS);
  assert (refused_ns (0) == 10 * MS && refused_ns (3) == 0);
  tick ();
  assert (refused_ns (0) == 210 * MS);
  answer_only (IO_WRITE, 0, 0, 4096, 0);
  assert (done (&one) && one.error == 0 && refused_ns (0) == 0);
  assert (carry_out (&f) == 0 && notices_lost == 0);
  assert (all_are (members[0], 1, 4096) &&
          all_are (members[3] + IMAGE0, 1, 4096));
  end ();
}

/* It stays full, and another copy is there: it goes out, and nobody sees an error. */
static void
test_full (bool image)
{
  struct array_request f = FLUSH, r = READ (0, 4096, back);
  unsigned member = image ? 3 : 0;
  uint64_t began;

  begin_write (0);
  began = now;
  if (image) {
    assert (finish (&one) == 0);
    submit (&f);
  }
  refuse_for (member, ENOSPC, 10000);
  assert (notices_lost == 1 && notice.member == member && notice.answers);
  assert (strstr (notice.reason, strerror (ENOSPC)));
  assert (now >= began + 2000 * MS && now < began + 2500 * MS);
  assert (!done (&f) && (image || !done (&one)));
  answer_all ();
  assert (!done (&f) && (image || !done (&one))); /* it is not recorded yet */
  commit (1u << member);
  if (image)
    assert (finish (&f) == 0);
  else
    assert (finish (&one) == 0 && carry_out (&f) == 0);
  memset (back, 0, 4096);
  assert (carry_out (&r) == 0 && all_are (back, 1, 4096));
  end ();
}

/* The array cannot do without this member: writes that it refuses wait, its data is read,
 * and no FLUSH completes.
 */
static void
test_last_copy (void)
{
  struct array_request f = FLUSH, r = READ (0, 4096, back);

  config.batches = true;
  begin (LAYOUT_RAIDX, 4);
  commit (1u << 3);
  notices_lost = 0;
  one = (struct array_request) WRITE (0, 4096, ones);
  submit (&one);
  refuse_for (0, ENOSPC, 60000);
  assert (notices_lost == 0 && !done (&one));
  assert (refused_ns (0) >= 59000 * MS);
  memset (members[0], 7, 4096);
  submit (&r);
  while (!done (&r))
    answer (0, ios[0]->kind == IO_WRITE ? ENOSPC : 0);
  assert (r.error == 0 && all_are (back, 7, 4096));
  tick_after (1000 * MS); /* there is room */
  assert (finish (&one) == 0 && carry_out (&f) == 0);
  assert (refused_ns (0) == 0 && all_are (members[0], 1, 4096));
  end ();
}

/* The image is the last copy.  Its member refuses the write, and is still read.  An
 * acknowledged write that is only in the buffer is waited for.
 */
static void
test_last_image (bool buffered)
{
  struct array_request r = READ (0, 4096, back);

  config.batches = true;
  begin (LAYOUT_RAIDX, 4);
  one = (struct array_request) WRITE (0, 4096, ones);
  if (buffered)
    assert (carry_out (&one) == 0);
  commit (1);
  notices_lost = 0;
  if (!buffered)
    submit (&one);
  memset (members[3] + IMAGE0, 7, UNIT);
  refuse_for (3, ENOSPC, 5000);
  answer_refused (3, ENOSPC);
  submit (&r);
  assert (is_io (0, IO_READ, 3, IMAGE0, 4096) == !buffered);
  if (!buffered)
    answer_all ();
  assert (done (&r) == !buffered && notices_lost == 0);
  assert (buffered || (all_are (back, 7, 4096) && !done (&one)));
  tick_after (1000 * MS);
  assert (finish (&r) == 0 && finish (&one) == 0);
  assert (!buffered || all_are (back, 1, 4096));
  end ();
}

/* If several members have no room, none is given up in favour of another. */
static void
test_all_are_full (void)
{
  struct array_request f = FLUSH;
  uint64_t until;

  config.batches = true;
  begin_write (ARRAY_FUA); /* both copies are sent */
  for (until = now + 30000 * MS; now < until;) {
    while (ios_count > 0)
      answer (0, ios[0]->kind == IO_FLUSH ? 0 : ENOSPC);
    tick ();
  }
  assert (notices_lost == 0 && !done (&one));
  assert (refused_ns (0) > 0 && refused_ns (3) > 0);
  /* One has room again: then the other goes. */
  refuse_for (3, ENOSPC, 1000);
  assert (notices_lost == 1 && notice.member == 3);
  commit (1u << 3);
  assert (finish (&one) == 0 && carry_out (&f) == 0);
  end ();
}

/* Another copy is read, and what was refused is written back; or there is none. */
static void
test_reads (bool alone)
{
  struct array_request r = READ (0, 4096, back);

  config.batches = true;
  begin (LAYOUT_RAIDX, 4);
  memset (members[0], 3, 4096);
  memset (members[3] + IMAGE0, 3, 4096);
  if (alone)
    commit (1u << 3);
  notices_lost = 0;
  submit (&r);
  answer_only (IO_READ, 0, 0, 4096, ENOMEM);
  if (alone) {
    assert (ios_count == 0 && !done (&r));
    tick ();
    assert (is_io (0, IO_READ, 0, 0, 4096));
  }
  else
    assert (is_io (0, IO_READ, 3, IMAGE0, 4096));
  memset (back, 0, 4096);
  assert (finish (&r) == 0 && all_are (back, 3, 4096) && notices_lost == 0);
  end ();
}

/* A sign of life is one, also with an error; rounds are asked for again. */
static void
test_batches (void)
{
  struct array_request f = FLUSH;
  const struct batch_record *r;
  unsigned rounds = 0;

  config.batches = config.rounds = true;
  begin (LAYOUT_RAIDX, 4);
  one = (struct array_request) WRITE (0, 4096, ones);
  assert (carry_out (&one) == 0);
  submit (&f);
  for (unsigned k = 0; k < 100 && !done (&f); k++) {
    while (ios_count > 0) {
      bool refused = batch_of (0, &r) > 0 && r[0].kind == BATCH_ROUND &&
                     rounds++ < 12;

      answer (0, refused ? ENOSPC : 0);
    }
    if (!done (&f))
      tick ();
  }
  assert (done (&f) && f.error == 0 && rounds >= 12 && notices_lost == 0);
  end ();
}

static void
test_stop (void)
{
  begin_write (0);
  answer_only (IO_WRITE, 0, 0, 4096, ENOSPC);
  assert (!array_idle (a));
  stop ();
  assert (done (&one) && one.error == ESHUTDOWN && array_idle (a));
  end ();
}

/* This host has no memory for the image of a write, be the data written or not: the write
 * waits, is carried out when there is memory, and its copies are equal then.
 */
static void
test_host_without_memory (bool started)
{
  uint64_t began;

  begin_write (started ? ARRAY_FUA : 0);
  while (ios_count > 0)
    answer (0, 0);
  tick_after (200 * MS);
  answer_all ();
  one = (struct array_request) WRITE (0, 4096, twos);
  if (
    started) { /* it goes through, and its image is to go by the buffer after all */
    one.flags = ARRAY_FUA;
    submit (&one);
    lose (3);
    no_memory = true;
    assert (ios_count == 2);
    answer (0, 0);
    answer (0, ENOTCONN);
  }
  else {
    no_memory = true;
    submit (&one);
  }
  began = now;
  assert (memory_wait_ns () == 0);
  for (unsigned i = 0; i < 20; i++) {
    assert (array_deadline (a) <= now + 200 * MS); /* it asks again */
    tick ();
    assert (memory_wait_ns () == now - began); /* and says for how long */
  }
  assert (memory_wait_ns () >= 2000 * MS);
  assert (!done (&one) && ios_count == 0 && !array_differs (a));
  no_memory = false;
  tick ();
  if (started) {
    return_whole (3);
    commit (0);
  }
  assert (finish (&one) == 0 && memory_wait_ns () == 0);
  tick_after (200 * MS);
  answer_all ();
  assert (array_idle (a) && !array_differs (a));
  assert (all_are (members[0], 2, 4096) &&
          all_are (members[3] + IMAGE0, 2, 4096));
  end ();
}

int
main (void)
{
  rig_init ();
  test_every_error ();
  test_a_single_one ();
  test_full (false);
  test_full (true);
  test_last_copy ();
  test_last_image (true);
  test_last_image (false);
  test_all_are_full ();
  test_reads (false);
  test_reads (true);
  test_batches ();
  test_stop ();
  test_host_without_memory (false);
  test_host_without_memory (true);
  return 0;
}
