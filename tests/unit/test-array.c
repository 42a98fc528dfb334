/* test-array.c: the array engine's promises when nothing fails, with members in memory
 * that answer when the test lets them.  (test-array-loss.c and test-array-join.c test
 * failures; tests/sim does the same at random.)
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "test-array-rig.h"

static void
test_bad_configuration (void)
{
  struct array_config c = config;
  char why[200] = "";

  assert (!array_new (&c, 0, why, sizeof why) && strstr (why, "layout"));
  if (layout_init (&c.layout, LAYOUT_RAIDX, 4, 1, UNIT, 24 * UNIT, why,
                   sizeof why) == -1)
    abort ();
  c.dup = DUP_SYNC_CLIENT;
  assert (!array_new (&c, 0, why, sizeof why) && strstr (why, "raid-x"));
  c.dup = DUP_ASYNC_CLIENT;
  c.image_buffer_bytes = 1;
  assert (!array_new (&c, 0, why, sizeof why) && strstr (why, "buffer"));
  assert (array_dup_parse ("sync-client") == DUP_SYNC_CLIENT);
  assert (array_dup_parse ("none") == -1);
  assert (strcmp (array_dup_name (DUP_ASYNC_CLIENT), "async-client") == 0);
}

static void
test_write (void)
{
  struct array_request w = WRITE (0, 4096, ones), r = READ (0, 4096, back);
  struct array_stats s;

  begin (LAYOUT_RAIDX, 4);
  submit (&w);
  assert (ios_count == 1 && is_io (0, IO_WRITE, 0, 0, 4096));
  assert (ios[0]->buf == ones); /* straight from the client's */
  assert (!done (&w) && !array_idle (a));
  submit (&r); /* reads don't wait for writes */
  assert (is_io (1, IO_READ, 0, 0, 4096));
  answer (1, 0);
  assert (done (&r) && r.error == 0);
  answer (0, 0);
  assert (done (&w) && w.error == 0 && ios_count == 0);
  array_stats (a, now + 3 * MS, &s);
  assert (s.writes == 1 && s.reads == 1 && s.image_bytes > 4096 &&
          s.image_oldest_ns == 3 * MS);
  /* Nothing else going on: a few ms later the image goes. */
  assert (array_deadline (a) < now + 20 * MS);
  tick ();
  answer_only (IO_WRITE, 3, IMAGE0, 4096, 0);
  assert (array_idle (a) && array_deadline (a) == UINT64_MAX);
  assert (all_are (members[3] + IMAGE0, 1, 4096));
  end ();
}

static void
test_age (void)
{
  struct array_request w = WRITE (0, 4096, ones), other = READ (0, 1, back);

  begin (LAYOUT_RAIDX, 4);
  submit (&w);
  answer (0, 0);
  submit (&other); /* the client is busy */
  assert (array_deadline (a) == now + 200 * MS);
  tick_after (200 * MS);
  assert (ios_count == 2 && is_io (1, IO_WRITE, 3, IMAGE0, 4096));
  answer_all ();
  end ();
}

static void
test_turns (void)
{
  struct array_request w[4] = {
    WRITE (0, 8192, ones),
    WRITE (4096, 8192, twos),
    WRITE (8192, 8192, ones), /* waits for the second, that waits */
    WRITE (KiB (64), 4096, ones),
  };

  begin (LAYOUT_RAIDX, 4);
  for (unsigned i = 0; i < 4; i++)
    submit (&w[i]);
  assert (ios_count == 2);
  answer (0, 0);
  assert (done (&w[0]) && !done (&w[1]));
  assert (ios_count == 2 && is_io (1, IO_WRITE, 0, 4096, 8192));
  answer (1, 0);
  assert (done (&w[1]) && is_io (1, IO_WRITE, 0, 8192, 8192));
  answer_all ();
  assert (done_count == 4);
  tick ();
  answer_all ();
  assert (memcmp (members[0], members[3] + IMAGE0, UNIT) == 0);
  assert (all_are (members[0] + 4096, 2, 4096));
  assert (all_are (members[0] + 8192, 1, 8192));
  end ();
}

static void
test_flush (void)
{
  struct array_request w = WRITE (0, 4096, ones), late = w,
                       f[3] = { FLUSH, FLUSH, FLUSH };

  begin (LAYOUT_RAIDX, 4);
  submit (&f[0]); /* a session's first goes to every member */
  assert (ios_count == 4 && ios[0]->kind == IO_FLUSH);
  answer_all ();
  assert (done (&f[0]) && f[0].error == 0);
  submit (&f[1]); /* nothing was written since */
  assert (done (&f[1]) && ios_count == 0);
  submit (&w);
  answer (0, 0);
  submit (&f[0]);
  /* The data is flushed while the image is written, which is stable with that. */
  assert (ios_count == 2 && is_io (0, IO_WRITE, 3, IMAGE0, 4096) &&
          ios[0]->flags == ARRAY_FUA && is_io (1, IO_FLUSH, 0, 0, 0));
  late.offset = KiB (64);
  submit (&late);
  answer (2, 0);  /* its image is not waited for */
  submit (&f[1]); /* but by this one, which flushes its data */
  assert (ios_count == 4 && ios[2]->kind == IO_WRITE && ios[2]->member == 2 &&
          ios[2]->flags == ARRAY_FUA && is_io (3, IO_FLUSH, 0, 0, 0));
  answer (3, 0);
  assert (!done (&f[0]) && !done (&f[1]));
  answer (0, 0);
  assert (done (&f[0]) && !done (&f[1])); /* the later flush did for both */
  answer_all ();
  assert (done (&f[1]) && array_idle (a));
  end ();
}

/* An image is flushed after it is written where that makes other writes stable, too,
 * or where more than one request brings the images.
 */
static void
test_flush_follows (void)
{
  struct array_request w = WRITE (0, 4096, ones),
                       other = WRITE (3 * UNIT, 4096, ones),
                       f[2] = { FLUSH, FLUSH };

  begin (LAYOUT_RAIDX, 4);
  carry_out (&f[0]);
  submit (&w);
  submit (&other); /* its data is on member 3, as the image of the first */
  answer (0, 0);
  answer (0, 0);
  submit (&f[0]);
  assert (ios_count == 3 && is_io (0, IO_WRITE, 3, IMAGE0, 4096) &&
          ios[0]->flags == 0 && ios[1]->member == 2 &&
          ios[1]->flags == ARRAY_FUA && is_io (2, IO_FLUSH, 0, 0, 0));
  answer (0, 0);
  assert (ios_count == 3 && is_io (2, IO_FLUSH, 3, 0, 0));
  answer (2, 0);
  assert (!done (&f[0]));
  assert (finish (&f[0]) == 0);
  /* Without batches these are two requests. */
  carry_out (&w);
  other.offset = 8192;
  carry_out (&other);
  submit (&f[1]);
  assert (ios_count == 3 && ios[0]->flags == 0 && ios[1]->flags == 0 &&
          ios[0]->member == 3 && ios[1]->member == 3);
  answer (0, 0);
  assert (ios_count == 2);
  answer (0, 0);
  assert (ios_count == 2 && is_io (1, IO_FLUSH, 3, 0, 0));
  assert (finish (&f[1]) == 0);
  end ();
}

static void
test_flush_shares (void)
{
  struct array_request w = WRITE (0, 4096, ones),
                       f[4] = { FLUSH, FLUSH, FLUSH, FLUSH };

  begin (LAYOUT_RAID0, 2);
  submit (&f[0]);
  submit (&f[1]);
  assert (ios_count == 2); /* one for both */
  submit (&w);
  answer (2, 0);
  submit (&f[2]); /* those began too early for this write */
  assert (ios_count == 3 && is_io (2, IO_FLUSH, 0, 0, 0));
  submit (&w);
  answer (3, 0);
  submit (&f[3]); /* and all of them for this one; two are enough at a time */
  assert (ios_count == 3);
  answer (0, 0);
  assert (ios_count == 3 && is_io (2, IO_FLUSH, 0, 0, 0));
  answer (0, 0);
  assert (done (&f[0]) && done (&f[1]) && !done (&f[2]));
  answer (0, 0);
  assert (done (&f[2]) && !done (&f[3]));
  answer (0, 0);
  assert (done (&f[3]) && ios_count == 0);
  end ();
}

static void
test_refusals (void)
{
  struct array_request w = WRITE (0, 4096, ones), f = FLUSH,
                       r = READ (0, 4096, back);

  config.readonly = true;
  begin (LAYOUT_RAIDX, 4);
  submit (&w);
  assert (done (&w) && w.error == EROFS);
  submit (&f);
  assert (done (&f) && f.error == 0);
  r.offset = config.layout.size - 1;
  submit (&r);
  assert (done (&r) && r.error == EINVAL);
  r.offset = UINT64_MAX;
  submit (&r);
  assert (done (&r) && r.error == EINVAL);
  r.offset = config.layout.size;
  r.length = 0;
  submit (&r);
  assert (done (&r) && r.error == 0 && ios_count == 0);
  end ();
}

static void
test_larger_than_buffer (void)
{
  struct array_request w = WRITE (0, 0, ones);
  struct array_stats s;
  uint64_t most = 0;

  config.image_buffer_bytes = KiB (64);
  config.through_bytes = UINT64_MAX; /* it does not go past the buffer */
  begin (LAYOUT_RAIDX, 4);
  w.length = config.layout.size;
  submit (&w);
  assert (w.length > KiB (256));
  while (!done (&w)) {
    assert (ios_count > 0);
    answer (ios_count - 1, 0);
    array_stats (a, now, &s);
    most = s.image_bytes > most ? s.image_bytes : most;
  }
  assert (w.error == 0 && most <= KiB (64) + KiB (16));
  while (!array_idle (a)) {
    answer_all ();
    tick_after (200 * MS);
  }
  for (unsigned i = 0; i < 4; i++)
    assert (all_are (members[i], 1, config.layout.stripes * UNIT * 2));
  end ();
}

static void
test_latencies (void)
{
  struct array_request w = WRITE (0, 4096, ones), r = READ (0, 4096, back);
  struct latency l = { .sum_ns = 0 };
  struct array_stats s;

  /* Each bucket's bounds. */
  for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
    latency_add (&l, ((uint64_t) LATENCY_FIRST_US << i) * 1000);
    assert (l.count[i] == 1);
    latency_add (&l, ((uint64_t) LATENCY_FIRST_US << i) * 1000 + 1);
    assert (l.count[i + 1] == 1 && l.count[i] == 1);
    l.count[i + 1] = 0;
  }
  latency_add (&l, 0);
  latency_add (&l, UINT64_MAX / 2);
  assert (l.count[0] == 2 && l.count[LATENCY_BUCKETS] == 1);

  begin (LAYOUT_RAIDX, 4);
  submit (&w);
  now += 5 * MS;
  answer (0, 0);
  assert (done (&w));
  submit (&r);
  now += 9 * MS;
  answer (ios_count - 1, 0);
  assert (done (&r));
  array_stats (a, now, &s);
  assert (s.write.count[7] == 1 && s.write.sum_ns == 5 * MS); /* to 8.2 ms */
  assert (s.read.count[8] == 1 && s.read.sum_ns == 9 * MS);
  assert (s.member[0].service.count[7] == 1);
  assert (s.member[0].service.count[8] == 1);
  answer_all ();
  end ();
}

static void
test_zeroes_travel_joined (void)
{
  struct array_request z = { .op = ARRAY_TRIM };

  begin (LAYOUT_RAIDX, 4);
  z.length = config.layout.size;
  submit (&z);
  assert (ios_count == 4);
  for (unsigned i = 0; i < 4; i++)
    assert (is_io (i, IO_ZERO, i, 0, 12 * UNIT) &&
            ios[i]->flags == ARRAY_MAY_TRIM);
  assert (finish (&z) == 0);
  tick ();
  assert (ios_count == 4);
  for (unsigned i = 0; i < 4; i++)
    assert (ios[i]->kind == IO_ZERO && ios[i]->length == 12 * UNIT);
  answer_all ();
  end ();
}

static void
test_cluster (void)
{
  struct array_request w = WRITE (0, 3 * UNIT, ones);

  begin (LAYOUT_RAIDX, 4);
  submit (&w); /* units 0, 1, 2: their images lie side by side on member 3 */
  assert (ios_count == 3);
  answer (0, 0);
  answer (0, 0);
  assert (ios_count == 1);
  answer (0, 0);
  assert (done (&w));
  assert (ios_count == 1 && is_io (0, IO_WRITE, 3, IMAGE0, 3 * UNIT));
  answer_all ();
  end ();
}

static void
test_extents (void)
{
  struct array_request w = WRITE (UNIT, UNIT, ones),
                       e = { .op = ARRAY_EXTENTS, .offset = 512 };

  begin (LAYOUT_RAIDX, 4);
  submit (&w);
  answer_all ();
  e.length = 6 * UNIT;
  submit (&e);
  assert (ios_count == 4);
  answer (3, EINVAL); /* this one does not know: data */
  assert (finish (&e) == 0 && notices_lost == 0);
  assert (e.extents_count == 5);
  assert (e.extents[0].length == UNIT - 512 && e.extents[0].zero);
  assert (e.extents[1].length == UNIT && !e.extents[1].zero);
  assert (e.extents[2].length == UNIT && e.extents[2].zero);
  assert (e.extents[3].length == UNIT && !e.extents[3].zero);
  assert (e.extents[4].length == 2 * UNIT + 512 && e.extents[4].hole);
  free (e.extents);
  tick ();
  answer_all ();
  end ();
}

static void
test_balance (void)
{
  struct array_request r = READ (0, KiB (128), back),
                       w = WRITE (KiB (128), 4096, ones), many[8];
  unsigned of[4] = { 0 };

  begin (LAYOUT_RAID10, 4); /* data on 0 and 1, images on 2 and 3 */
  r.offset = KiB (128); /* four stripes, of which copies are not yet equal */
  submit (&r);
  for (unsigned i = 0; i < ios_count; i++)
    assert (ios[i]->member < 2);
  answer_all ();
  array_settled (a, 0, 0, 0, now);
  for (r.offset = 0; r.offset <= KiB (128); r.offset += KiB (128)) {
    submit (&r);
    for (unsigned i = 0; i < ios_count; i++)
      of[ios[i]->member] += ios[i]->length;
    answer_all ();
  }
  for (unsigned i = 0; i < 4; i++)
    assert (of[i] == 4 * UNIT);
  r.offset = KiB (128); /* a stripe that is read from its images */
  r.length = 4096;
  submit (&r);
  assert (is_io (0, IO_READ, 2, 4 * UNIT, 4096));
  for (unsigned i = 0; i < 8; i++) { /* the longer queue gets no further
                                      * reads */
    many[i] = r;
    submit (&many[i]);
    assert (is_io (1 + i, IO_READ, i < 4 || i == 5 || i == 7 ? 2 : 0, 4 * UNIT,
                   4096));
  }
  answer_all ();
  submit (&w);
  submit (&r); /* is being written: from the data */
  assert (is_io (1, IO_READ, 0, 4 * UNIT, 4096));
  answer_all ();
  submit (&r); /* its image is buffered */
  assert (is_io (0, IO_READ, 0, 4 * UNIT, 4096));
  answer_all ();
  tick ();
  answer_all ();
  submit (&r); /* a bad spot of an image is repaired too, in turn */
  answer_only (IO_READ, 2, 4 * UNIT, 4096, EIO);
  answer_only (IO_READ, 0, 4 * UNIT, 4096, 0);
  answer_only (IO_WRITE, 2, 4 * UNIT, 4096, 0);
  assert (done (&r) && r.error == 0 && all_are (back, 1, 4096));
  submit (&r);
  assert (is_io (0, IO_READ, 2, 4 * UNIT, 4096));
  answer_all ();
  lose (2); /* it is given back, and may lack what was not flushed */
  commit_states (2, "iiii");
  give_back (2, 2, "iiii");
  submit (&r);
  assert (is_io (0, IO_READ, 0, 4 * UNIT, 4096));
  answer_all ();
  end ();
}

#define BALANCE_WRITES 16

/* A slow half is passed over, and tried again after a while, with one read. */
static void
test_slow_half (void)
{
  struct array_request data = READ (0, 4096, back),
                       image = READ (KiB (128), 4096, back), other = image;
  static struct array_request many[150];

  begin (LAYOUT_RAID10, 4);
  array_settled (a, 0, 0, 0, now);
  submit (&data);
  now += 10 * MS;
  answer_all ();
  submit (&image);
  assert (is_io (0, IO_READ, 2, 4 * UNIT, 4096));
  now += 1000 * MS;
  answer_all ();
  submit (&image);
  assert (is_io (0, IO_READ, 0, 4 * UNIT, 4096));
  now += 10 * MS;
  answer_all ();
  for (unsigned i = 0; i < 150; i++) { /* however many the other one has */
    many[i] = image;
    submit (&many[i]);
    assert (ios[i]->member == 0);
  }
  answer_all ();
  now += 11000 * MS;
  submit (&data);
  now += 10 * MS;
  answer_all ();
  submit (&image);
  assert (is_io (0, IO_READ, 2, 4 * UNIT, 4096));
  submit (&other);
  assert (is_io (1, IO_READ, 0, 4 * UNIT, 4096));
  now += 30 * MS; /* response times from long ago do not count */
  answer_all ();
  submit (&image);
  assert (is_io (0, IO_READ, 2, 4 * UNIT, 4096));
  answer_all ();
  end ();
}

/* A member of which nothing is known is tried with one read, also within one
 * request; and writes that a member owes are not counted.
 */
static void
test_queues (void)
{
  struct array_request r = READ (0, KiB (32), back),
                       big = READ (0, KiB (512), back);
  static struct array_request w[BALANCE_WRITES];
  unsigned of[4] = { 0 };

  begin (LAYOUT_RAID10, 4);
  array_settled (a, 0, 0, 0, now);
  submit (&r); /* of both data copies */
  now += 10 * MS;
  answer_all ();
  submit (&big);
  for (unsigned i = 0; i < ios_count; i++)
    of[ios[i]->member] += ios[i]->length;
  assert (of[2] == UNIT && of[3] == UNIT && of[0] == of[1]);
  now += 10 * MS;
  answer_all ();
  for (unsigned i = 0; i < BALANCE_WRITES; i++) {
    w[i] = (struct array_request) WRITE (i * 2 * UNIT, 4096, ones);
    w[i].client = client;
    submit (&w[i]);
  }
  r.offset = KiB (512);
  r.length = 4096;
  submit (&r);
  assert (is_io (BALANCE_WRITES, IO_READ, 0, 16 * UNIT, 4096));
  answer_all ();
  end ();
}

static void
test_stop (void)
{
  struct array_request w = WRITE (0, 4096, ones), waits = w, f = FLUSH,
                       late = w, buffered = WRITE (UNIT, 4096, ones);

  begin (LAYOUT_RAIDX, 4);
  carry_out (&f);
  submit (&buffered);
  answer (0, 0);
  submit (&w);
  submit (&waits);
  submit (&f);
  assert (ios_count == 3); /* the write, the image, a flush */
  stop ();
  assert (done (&waits) && waits.error == ESHUTDOWN);
  assert (done (&f) && f.error == ESHUTDOWN);
  assert (!done (&w)); /* its buffer is in use */
  submit (&late);
  assert (done (&late) && late.error == ESHUTDOWN);
  assert (finish (&w) == ESHUTDOWN && array_idle (a));
  assert (array_deadline (a) == UINT64_MAX);
  end ();
}

static bool
is_clear (unsigned i, unsigned kind, unsigned member, uint64_t offset,
          uint64_t length)
{
  const struct batch_record *r;

  return batch_of (i, &r) == 1 && ios[i]->member == member && r->kind == kind &&
         r->offset == offset && r->length == length;
}

static void
test_clear (bool client_flushes)
{
  struct array_request w = WRITE (0, 4096, ones), f = FLUSH;

  config.batches = true;
  config.extent_bytes = 4 * UNIT;
  begin (LAYOUT_RAIDX, 4);
  submit (&w);
  answer_all ();
  tick (); /* idle: the image */
  assert (is_io (0, IO_WRITE, 3, IMAGE0, 4096));
  answer_all ();
  tick (); /* 5 s: rested */
  assert (ios_count == 0 && array_deadline (a) == now + 5000 * MS);
  if (client_flushes) {
    submit (&f);
    answer_all ();
  }
  tick (); /* 5 s more: idle */
  if (!client_flushes) {
    assert (ios_count == 4 && ios[0]->kind == IO_FLUSH); /* our own */
    answer_all_flushes ();
    assert (done_count == 1); /* and nobody else's */
  }
  assert (ios_count == 2 && is_clear (0, BATCH_CLEAR, 0, 0, 4 * UNIT) &&
          is_clear (1, BATCH_CLEAR, 3, IMAGE0, 4 * UNIT));
  submit (&w);
  assert (ios_count == 2); /* not while bits fall */
  answer (0, 0);
  assert (ios_count == 2 && is_io (1, IO_WRITE, 0, 0, 4096));
  answer (0, 0);
  answer_all ();
  assert (done (&w));
  tick ();
  assert (is_io (0, IO_WRITE, 3, IMAGE0, 4096));
  answer_all ();
  lose (2); /* not while a member is lost */
  tick ();
  assert (ios_count == 0 && array_deadline (a) == UINT64_MAX);
  end ();
}

/* Extents that earlier writers left dirty, to the end of a member's used space. */
static void
test_clear_last (void)
{
  const uint64_t end_of_use = 24 * UNIT;

  config.batches = true;
  config.extent_bytes = 5 * UNIT;
  begin (LAYOUT_RAIDX, 4);
  assert (config.layout.member_bytes == end_of_use);
  array_settled (a, 1, 20 * UNIT, 5 * UNIT, now);
  array_settled (a, 2, 25 * UNIT, 5 * UNIT, now); /* does not count */
  tick ();
  tick ();
  assert (ios_count == 4 && ios[0]->kind == IO_FLUSH);
  answer_all_flushes ();
  assert (ios_count == 1 && is_clear (0, BATCH_SETTLE, 1, 20 * UNIT, 4 * UNIT));
  answer_all ();
  assert (array_deadline (a) == UINT64_MAX);
  end ();
}

int
main (void)
{
  rig_init ();
  test_bad_configuration ();
  test_write ();
  test_age ();
  test_turns ();
  test_flush ();
  test_flush_follows ();
  test_flush_shares ();
  test_refusals ();
  test_larger_than_buffer ();
  test_latencies ();
  test_zeroes_travel_joined ();
  test_cluster ();
  test_extents ();
  test_balance ();
  test_slow_half ();
  test_queues ();
  test_stop ();
  test_clear (false);
  test_clear (true);
  test_clear_last ();
  return 0;
}
