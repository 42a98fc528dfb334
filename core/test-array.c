/* test-array.c: each promise of the array engine, with members in memory that
 * answer when the test says so.  (tests/sim does the same at random.)
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "batch.h"

#define MS UINT64_C (1000000)
#define UNIT KiB (16)
#define IOS_MAX 4096

static struct array_config config;
static struct array *a;
static uint64_t now;
static uint8_t *members[ARRAY_MEMBERS_MAX];
static struct array_io *ios[IOS_MAX]; /* asked and not answered, in order */
static unsigned ios_count;
static unsigned notices_lost, notices_data, done_count;
static struct array_notice notice;

static void
take (void)
{
  struct array_io *io;
  struct array_request *r;
  struct array_notice n;

  array_check (a);
  while ((io = array_next_io (a))) {
    assert (ios_count < IOS_MAX);
    ios[ios_count++] = io;
  }
  while ((r = array_next_done (a))) {
    assert (!r->owner);
    r->owner = r; /* done */
    done_count++;
  }
  while (array_next_notice (a, &n)) {
    notice = n;
    if (n.kind == NOTICE_LOST)
      notices_lost++;
    else
      notices_data++;
  }
  array_check (a);
}

static void
begin (enum layout_kind kind, unsigned n)
{
  char why[200];

  if (layout_init (&config.layout, kind, n, 1, UNIT, 24 * UNIT, why, sizeof why)
      == -1)
    abort ();
  now = 1000 * MS;
  config.epoch = 1;
  a = array_new (&config, now, why, sizeof why);
  if (!a)
    fprintf (stderr, "%s\n", why);
  assert (a);
  for (unsigned i = 0; i < n; i++)
    members[i] = calloc (1, config.layout.member_bytes);
  ios_count = notices_lost = notices_data = done_count = 0;
}

/* As most tests want it; `begin` then changes nothing of this. */
static void
configure (void)
{
  memset (&config, 0, sizeof config);
  config.image_buffer_bytes = MiB (1);
  config.image_age_ms = 200;
  config.io_timeout_ms = 15000;
}

static void
end (void)
{
  assert (ios_count == 0);
  array_free (a);
  for (unsigned i = 0; i < config.layout.members; i++)
    free (members[i]);
}

static void
apply_batch (const struct array_io *io)
{
  static struct batch_record r[BATCH_RECORDS_MAX];
  const char *why;
  int count
      = batch_decode (io->buf, io->length, config.layout.member_bytes, r, &why);

  assert (count >= 0 && io->offset == 0);
  for (int i = 0; i < count; i++)
    if (r[i].kind == BATCH_WRITE)
      memcpy (members[io->member] + r[i].offset, r[i].payload, r[i].length);
    else
      memset (members[io->member] + r[i].offset, 0, r[i].length);
}

static void
remove_io (unsigned i)
{
  memmove (&ios[i], &ios[i + 1], (ios_count - i - 1) * sizeof ios[0]);
  ios_count--;
}

/* Carry out the i-th outstanding request and answer it. */
static void
answer (unsigned i, int error)
{
  struct array_io *io = ios[i];
  uint8_t *m = members[io->member];

  remove_io (i);
  if (!error)
    switch (io->kind) {
    case IO_READ:
      memcpy (io->buf, m + io->offset, io->length);
      break;
    case IO_WRITE:
      memcpy (m + io->offset, io->buf, io->length);
      break;
    case IO_ZERO:
      memset (m + io->offset, 0, io->length);
      break;
    case IO_BATCH:
      apply_batch (io);
      break;
    case IO_EXTENTS: /* written or not, unit by unit */
      io->extents = calloc (io->length / UNIT + 2, sizeof *io->extents);
      for (uint64_t at = io->offset; at < io->offset + io->length;) {
        uint64_t next = (at / UNIT + 1) * UNIT;
        bool zero = m[at] == 0;

        if (next > io->offset + io->length)
          next = io->offset + io->length;
        io->extents[io->extents_count++] = (struct array_extent){
          .length = next - at, .hole = zero, .zero = zero
        };
        at = next;
      }
      break;
    default:
      break;
    }
  array_io_done (a, io, error, now);
  take ();
}

static void
answer_all (void)
{
  while (ios_count > 0)
    answer (0, 0);
}

static void
answer_all_flushes (void)
{
  while (ios_count > 0 && ios[0]->kind == IO_FLUSH)
    answer (0, 0);
}

static void
submit (struct array_request *r)
{
  r->owner = NULL;
  array_submit (a, r, now);
  take ();
}

static void
commit (unsigned out_mask)
{
  enum member_state states[ARRAY_MEMBERS_MAX] = { 0 };

  for (unsigned i = 0; i < config.layout.members; i++)
    states[i] = out_mask & 1u << i ? MEMBER_OUT : MEMBER_IN_SYNC;
  array_commit (a, ++config.epoch, states, now);
  take ();
}

static void
lose (unsigned member)
{
  array_lost (a, member, "the connection is broken", now);
  take ();
}

static void
tick (void)
{
  now = array_deadline (a);
  array_tick (a, now);
  take ();
}

static bool
done (const struct array_request *r)
{
  return r->owner == r;
}

static bool
is_io (unsigned i, enum array_io_kind kind, unsigned member, uint64_t offset,
       uint64_t length)
{
  return i < ios_count && ios[i]->kind == kind && ios[i]->member == member
         && (kind == IO_FLUSH
             || (ios[i]->offset == offset && ios[i]->length == length));
}

static bool
all_are (const uint8_t *p, uint8_t c, size_t bytes)
{
  for (size_t i = 0; i < bytes; i++)
    if (p[i] != c)
      return false;
  return true;
}

#define WRITE(o, l, b)                                                         \
  {                                                                            \
    .op = ARRAY_WRITE, .offset = (o), .length = (l), .buf = (b)                \
  }
#define READ(o, l, b)                                                          \
  {                                                                            \
    .op = ARRAY_READ, .offset = (o), .length = (l), .buf = (b)                 \
  }

static uint8_t ones[MiB (8)], twos[MiB (1)], back[MiB (1)];

/* raid-x, n = 4: unit 0 is on member 0, its image on member 3; 12 units of
 * data, so images begin at 12 * UNIT.
 */
#define IMAGE0 (12 * UNIT)

static void
test_write (void)
{
  struct array_request w = WRITE (0, 4096, ones), r = READ (0, 4096, back);
  struct array_stats s;

  configure ();
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
  assert (s.writes == 1 && s.reads == 1 && s.image_bytes > 4096
          && s.image_oldest_ns == 3 * MS);
  /* Nothing else going on: a few ms later the image goes. */
  assert (array_deadline (a) < now + 20 * MS);
  now = array_deadline (a);
  array_tick (a, now);
  take ();
  assert (ios_count == 1 && is_io (0, IO_WRITE, 3, IMAGE0, 4096));
  answer (0, 0);
  assert (array_idle (a) && array_deadline (a) == UINT64_MAX);
  assert (all_are (members[3] + IMAGE0, 1, 4096));
  end ();
}

static void
test_age (void)
{
  struct array_request w = WRITE (0, 4096, ones), other = READ (0, 1, back);

  configure ();
  begin (LAYOUT_RAIDX, 4);
  submit (&w);
  answer (0, 0);
  submit (&other); /* the client is busy */
  assert (array_deadline (a) == now + 200 * MS);
  now += 200 * MS;
  array_tick (a, now);
  take ();
  assert (ios_count == 2 && is_io (1, IO_WRITE, 3, IMAGE0, 4096));
  answer_all ();
  end ();
}

static void
test_waits_for_image (bool fua)
{
  struct array_request w = WRITE (UNIT, 4096, ones);

  configure ();
  config.dup = fua ? DUP_ASYNC_CLIENT : DUP_SYNC_CLIENT;
  w.flags = fua ? ARRAY_FUA : 0;
  begin (LAYOUT_RAID10, 4); /* unit 1: data on 1, image on 3 */
  submit (&w);
  assert (ios_count == 1 && is_io (0, IO_WRITE, 1, 0, 4096));
  assert (!!(ios[0]->flags & ARRAY_FUA) == fua);
  answer (0, 0);
  assert (!done (&w) && ios_count == 1 && is_io (0, IO_WRITE, 3, 0, 4096));
  assert (!!(ios[0]->flags & ARRAY_FUA) == fua);
  answer (0, 0);
  assert (done (&w) && w.error == 0 && array_idle (a));
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

  configure ();
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
  now = array_deadline (a);
  array_tick (a, now);
  take ();
  answer_all ();
  assert (memcmp (members[0], members[3] + IMAGE0, UNIT) == 0);
  assert (all_are (members[0] + 4096, 2, 4096));
  assert (all_are (members[0] + 8192, 1, 8192));
  end ();
}

static void
test_flush (void)
{
  struct array_request w
      = WRITE (0, 4096, ones),
      late = w,
      f[3]
      = { { .op = ARRAY_FLUSH }, { .op = ARRAY_FLUSH }, { .op = ARRAY_FLUSH } };

  configure ();
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
  assert (ios_count == 1 && is_io (0, IO_WRITE, 3, IMAGE0, 4096));
  late.offset = KiB (64);
  submit (&late);
  answer (1, 0);  /* its image is not waited for */
  submit (&f[1]); /* but by this one */
  assert (ios_count == 2);
  answer (0, 0);
  /* Members 0 (data) and 3 (image); the other write's data member too. */
  assert (ios_count == 3 && ios[1]->kind == IO_FLUSH
          && ios[2]->kind == IO_FLUSH);
  assert (ios[1]->member == 0 && ios[2]->member == 3);
  answer (2, 0);
  assert (!done (&f[0]));
  answer (1, 0);
  assert (done (&f[0]) && !done (&f[1]));
  answer_all ();
  assert (done (&f[1]) && array_idle (a));
  end ();
}

static void
test_flush_shares (void)
{
  struct array_request w
      = WRITE (0, 4096, ones),
      f[3]
      = { { .op = ARRAY_FLUSH }, { .op = ARRAY_FLUSH }, { .op = ARRAY_FLUSH } };

  configure ();
  begin (LAYOUT_RAID0, 2);
  submit (&f[0]);
  submit (&f[1]);
  assert (ios_count == 2); /* one for both */
  submit (&w);
  answer (2, 0);
  submit (&f[2]); /* those began too early for this write */
  assert (ios_count == 2);
  answer (0, 0);
  assert (ios_count == 2 && is_io (1, IO_FLUSH, 0, 0, 0));
  answer (0, 0);
  assert (done (&f[0]) && done (&f[1]) && !done (&f[2]));
  answer (0, 0);
  assert (done (&f[2]) && ios_count == 0);
  end ();
}

static void
test_loss (void)
{
  struct array_request w = WRITE (0, 4096, ones), r = READ (0, 4096, back),
                       other = WRITE (UNIT, 4096, ones);

  configure ();
  begin (LAYOUT_RAIDX, 4);
  submit (&w);
  lose (0);
  assert (notices_lost == 1 && notice.member == 0
          && strstr (notice.reason, "connection"));
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
  assert (ios_count == 1 && is_io (0, IO_WRITE, 3, IMAGE0, 4096));
  answer (0, 0);
  assert (done (&w) && w.error == 0 && !done (&r));
  assert (ios_count == 1 && is_io (0, IO_READ, 3, IMAGE0, 4096));
  answer (0, 0);
  assert (done (&r) && r.error == 0 && all_are (back, 1, 4096));
  assert (notices_data == 0);
  now += 200 * MS;
  array_tick (a, now);
  take ();
  answer_all ();
  end ();
}

/* Another host has lost a member that we are just asking. */
static void
test_lost_by_others (void)
{
  struct array_request r = READ (0, 4096, back);

  configure ();
  begin (LAYOUT_RAIDX, 4);
  submit (&r);
  assert (ios_count == 1 && ios[0]->member == 0);
  commit (1);
  /* The connection is to be broken, and nobody waits for its answer. */
  assert (notices_lost == 1 && notice.member == 0 && !done (&r));
  now += 3600 * 1000 * MS;
  array_tick (a, now);
  take ();
  answer (0, ENOTCONN);
  assert (ios_count == 1 && ios[0]->member == 3);
  answer_all ();
  assert (done (&r) && r.error == 0 && notices_lost == 1);
  end ();
}

static void
test_image_member_lost (void)
{
  struct array_request w = WRITE (0, 4096, ones), f = { .op = ARRAY_FLUSH };

  configure ();
  begin (LAYOUT_RAIDX, 4);
  submit (&w);
  lose (3);
  answer (0, 0);
  assert (done (&w) && w.error == 0); /* its image waits in the buffer */
  submit (&f);
  assert (ios_count == 0 && !done (&f));
  commit (1 << 3);
  assert (ios_count == 3); /* nothing to drain any more */
  answer_all ();
  assert (done (&f) && f.error == 0 && array_idle (a));
  end ();
}

static void
test_two_losses (void)
{
  struct array_request w[2]
      = { WRITE (0, 4096, ones), WRITE (UNIT, 4096, ones) },
      f[2] = { { .op = ARRAY_FLUSH }, { .op = ARRAY_FLUSH } },
      r = READ (0, 4096, back), ok = READ (UNIT, 1, back);

  configure ();
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
  /* What was acknowledged and not flushed is gone: said once. */
  submit (&f[0]);
  answer_all ();
  assert (done (&f[0]) && f[0].error == EIO);
  submit (&f[1]);
  answer_all ();
  assert (done (&f[1]) && f[1].error == 0 && notices_data == 1);
  end ();
}

static void
test_error_is_a_loss (enum array_op op, int error)
{
  struct array_request r
      = { .op = op, .length = 4096, .buf = op == ARRAY_READ ? back : ones };
  unsigned member;

  configure ();
  begin (LAYOUT_RAIDX, 4);
  submit (&r);
  member = ios[0]->member;
  answer (0, error);
  assert (notices_lost == 1 && notice.member == member && !done (&r));
  answer_all ();
  commit (1u << member);
  answer_all ();
  assert (done (&r) && r.error == 0);
  end ();
}

/* The sign of life that is asked of a member. */
static bool
is_probe (unsigned i)
{
  return i < ios_count && ios[i]->kind == IO_BATCH
         && ios[i]->length == batch_bytes (NULL, 0);
}

static void
tick_after (uint64_t ns)
{
  now += ns;
  array_tick (a, now);
  take ();
}

static void
test_timeout (void)
{
  struct array_request r = READ (0, 4096, back);

  configure ();
  config.batches = true;
  begin (LAYOUT_RAIDX, 4);
  submit (&r);
  assert (array_deadline (a) == now + 2000 * MS);
  /* A day asleep: the answer may be there, and is read while we ask. */
  tick_after (24 * 3600 * 1000 * MS);
  assert (notices_lost == 0 && is_probe (1));
  assert (array_deadline (a) == now + 750 * MS);
  answer (0, 0);
  assert (done (&r) && r.error == 0);
  answer (0, 0);
  end ();
  /* A slow member lives: it is asked again and again, and not lost. */
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
  while (ios_count > 0)
    answer (0, ENOTCONN);
  commit (1);
  assert (is_io (0, IO_READ, 3, IMAGE0, 4096));
  answer_all ();
  assert (done (&r) && r.error == 0);
  end ();
}

static void
test_silent (void)
{
  struct array_request r = READ (0, 4096, back);

  configure ();
  config.batches = true;
  begin (LAYOUT_RAIDX, 4);
  submit (&r);
  tick_after (2000 * MS);
  assert (notices_lost == 0 && is_probe (1));
  tick_after (750 * MS);
  assert (notices_lost == 1 && notice.member == 0 && !done (&r));
  assert (array_deadline (a) == UINT64_MAX);
  while (ios_count > 0)
    answer (0, ENOTCONN);
  commit (1);
  assert (is_io (0, IO_READ, 3, IMAGE0, 4096));
  answer_all ();
  assert (done (&r) && r.error == 0);
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

  configure ();
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

/* One member of four answers slowly: it is suspect, and read around. */
static void
test_suspect (void)
{
  struct array_request r = READ (0, 4096, back);
  struct array_stats stats;
  uint64_t unit = 64 << 10;
  bool around = false;

  configure ();
  begin (LAYOUT_RAIDX, 4);
  unit = config.layout.unit;
  for (unsigned i = 0; i < 400 && !around; i++) {
    r.offset = i % 4 * unit;
    submit (&r);
    assert (ios_count == 1);
    around = i % 4 == 0 && ios[0]->member != 0;
    tick_after (ios[0]->member == 0 ? 300 * MS : 2 * MS);
    answer (0, 0);
    assert (done (&r) && r.error == 0);
  }
  assert (around);
  array_stats (a, now, &stats);
  assert (stats.member[0].suspect && !stats.member[1].suspect);
  assert (notices_lost == 0);
  end ();
}

static void
test_bad_spot (bool repair_fails)
{
  struct array_request w = WRITE (0, 4096, ones), r = READ (0, 4096, back);

  configure ();
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
  answer_all ();
  assert (done (&w) && w.error == 0);
  now = array_deadline (a) == UINT64_MAX ? now : array_deadline (a);
  array_tick (a, now);
  take ();
  answer_all ();
  end ();
}

static void
test_no_good_copy (void)
{
  struct array_request r = READ (0, 4096, back);

  configure ();
  begin (LAYOUT_RAIDX, 4);
  submit (&r);
  for (unsigned i = 0; !done (&r); i++) {
    assert (i < 5 && ios_count == 1 && ios[0]->kind == IO_READ);
    answer (0, EIO);
  }
  assert (r.error == EIO && notices_lost == 0);
  end ();
}

static void
test_refusals (void)
{
  struct array_request w = WRITE (0, 4096, ones), f = { .op = ARRAY_FLUSH },
                       r = READ (0, 4096, back);

  configure ();
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

  configure ();
  config.image_buffer_bytes = KiB (64);
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
    now += 200 * MS;
    array_tick (a, now);
    take ();
  }
  for (unsigned i = 0; i < 4; i++)
    assert (all_are (members[i], 1, config.layout.stripes * UNIT * 2));
  end ();
}

static void
test_zeroes_travel_joined (void)
{
  struct array_request z = { .op = ARRAY_TRIM };

  configure ();
  begin (LAYOUT_RAIDX, 4);
  z.length = config.layout.size;
  submit (&z);
  assert (ios_count == 4);
  for (unsigned i = 0; i < 4; i++)
    assert (is_io (i, IO_ZERO, i, 0, 12 * UNIT)
            && ios[i]->flags == ARRAY_MAY_TRIM);
  answer_all ();
  assert (done (&z) && z.error == 0);
  now = array_deadline (a);
  array_tick (a, now);
  take ();
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

  configure ();
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

  configure ();
  begin (LAYOUT_RAIDX, 4);
  submit (&w);
  answer_all ();
  e.length = 6 * UNIT;
  submit (&e);
  assert (ios_count == 4);
  answer (3, EINVAL); /* this one does not know: data */
  answer_all ();
  assert (done (&e) && e.error == 0 && notices_lost == 0);
  assert (e.extents_count == 5);
  assert (e.extents[0].length == UNIT - 512 && e.extents[0].zero);
  assert (e.extents[1].length == UNIT && !e.extents[1].zero);
  assert (e.extents[2].length == UNIT && e.extents[2].zero);
  assert (e.extents[3].length == UNIT && !e.extents[3].zero);
  assert (e.extents[4].length == 2 * UNIT + 512 && e.extents[4].hole);
  free (e.extents);
  now = array_deadline (a);
  array_tick (a, now);
  take ();
  answer_all ();
  end ();
}

static void
test_three_copies (void)
{
  struct array_request w = WRITE (0, KiB (64), ones),
                       r = READ (0, KiB (64), back);

  configure ();
  begin (LAYOUT_RAID1, 3);
  submit (&w); /* neighbours travel as one */
  assert (ios_count == 1 && is_io (0, IO_WRITE, 0, 0, KiB (64)));
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
  assert (all_are (members[2], 1, KiB (64)));
  submit (&r);
  answer_all ();
  assert (done (&r) && r.error == 0 && all_are (back, 1, KiB (64)));
  end ();
}

static void
test_balance (void)
{
  struct array_request r = READ (0, KiB (32) * 4, back),
                       w = WRITE (KiB (32), 4096, ones);
  unsigned of[4] = { 0 };

  configure ();
  config.balance = true;
  begin (LAYOUT_RAID10, 4); /* data on 0 and 1, images on 2 and 3 */
  submit (&r);
  for (unsigned i = 0; i < ios_count; i++)
    of[ios[i]->member] += ios[i]->length;
  for (unsigned i = 0; i < 4; i++)
    assert (of[i] == 2 * UNIT);
  answer_all ();
  r.offset = KiB (32); /* a stripe that is read from its images */
  r.length = 4096;
  submit (&r);
  assert (is_io (0, IO_READ, 2, UNIT, 4096));
  answer_all ();
  submit (&w);
  submit (&r); /* is being written: from the data */
  assert (is_io (1, IO_READ, 0, UNIT, 4096));
  answer_all ();
  submit (&r); /* its image is buffered */
  assert (is_io (0, IO_READ, 0, UNIT, 4096));
  answer_all ();
  tick ();
  answer_all ();
  submit (&r); /* a bad spot of an image is repaired too, in turn */
  assert (is_io (0, IO_READ, 2, UNIT, 4096));
  answer (0, EIO);
  assert (is_io (0, IO_READ, 0, UNIT, 4096));
  answer (0, 0);
  assert (is_io (0, IO_WRITE, 2, UNIT, 4096));
  answer (0, 0);
  assert (done (&r) && r.error == 0 && all_are (back, 1, 4096));
  end ();
}

static void
test_stop (void)
{
  struct array_request w = WRITE (0, 4096, ones), waits = w,
                       f = { .op = ARRAY_FLUSH }, late = w,
                       buffered = WRITE (UNIT, 4096, ones);

  configure ();
  begin (LAYOUT_RAIDX, 4);
  submit (&buffered);
  answer (0, 0);
  submit (&w);
  submit (&waits);
  submit (&f);
  assert (ios_count == 2); /* the write, and the image */
  array_stop (a, ESHUTDOWN, now);
  take ();
  assert (done (&waits) && waits.error == ESHUTDOWN);
  assert (done (&f) && f.error == ESHUTDOWN);
  assert (!done (&w)); /* its buffer is in use */
  submit (&late);
  assert (done (&late) && late.error == ESHUTDOWN);
  answer_all ();
  assert (done (&w) && w.error == ESHUTDOWN && array_idle (a));
  assert (array_deadline (a) == UINT64_MAX);
  end ();
}

static unsigned clear_kind = BATCH_CLEAR;

static bool
is_clear (unsigned i, unsigned member, uint64_t offset, uint64_t length)
{
  static struct batch_record r[BATCH_RECORDS_MAX];
  const char *why;

  return i < ios_count && ios[i]->kind == IO_BATCH && ios[i]->member == member
         && batch_decode (ios[i]->buf, ios[i]->length,
                          config.layout.member_bytes, r, &why)
                == 1
         && r[0].kind == clear_kind && r[0].offset == offset
         && r[0].length == length;
}

static void
test_clear (bool client_flushes)
{
  struct array_request w = WRITE (0, 4096, ones), f = { .op = ARRAY_FLUSH };

  configure ();
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
  assert (ios_count == 2 && is_clear (0, 0, 0, 4 * UNIT)
          && is_clear (1, 3, IMAGE0, 4 * UNIT));
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

static void
test_bad_configuration (void)
{
  char why[200] = "";

  configure ();
  assert (!array_new (&config, 0, why, sizeof why) && strstr (why, "layout"));
  if (layout_init (&config.layout, LAYOUT_RAIDX, 4, 1, UNIT, 24 * UNIT, why,
                   sizeof why)
      == -1)
    abort ();
  config.dup = DUP_SYNC_CLIENT;
  assert (!array_new (&config, 0, why, sizeof why) && strstr (why, "raid-x"));
  config.dup = DUP_ASYNC_CLIENT;
  config.image_buffer_bytes = 1;
  assert (!array_new (&config, 0, why, sizeof why) && strstr (why, "buffer"));
  assert (array_dup_parse ("sync-client") == DUP_SYNC_CLIENT);
  assert (array_dup_parse ("none") == -1);
  assert (strcmp (array_dup_name (DUP_ASYNC_CLIENT), "async-client") == 0);
}

int
main (void)
{
  memset (ones, 1, sizeof ones);
  memset (twos, 2, sizeof twos);
  test_bad_configuration ();
  test_write ();
  test_age ();
  test_waits_for_image (true);
  test_waits_for_image (false);
  test_turns ();
  test_flush ();
  test_flush_shares ();
  test_loss ();
  test_image_member_lost ();
  test_two_losses ();
  test_error_is_a_loss (ARRAY_WRITE, EIO);
  test_error_is_a_loss (ARRAY_WRITE, ENOSPC);
  test_error_is_a_loss (ARRAY_ZERO, EIO);
  test_error_is_a_loss (ARRAY_FLUSH, EIO);
  test_error_is_a_loss (ARRAY_READ, ESHUTDOWN);
  test_timeout ();
  test_silent ();
  test_growing_load ();
  test_suspect ();
  test_lost_by_others ();
  test_bad_spot (false);
  test_bad_spot (true);
  test_no_good_copy ();
  test_refusals ();
  test_larger_than_buffer ();
  test_zeroes_travel_joined ();
  test_cluster ();
  test_extents ();
  test_three_copies ();
  test_balance ();
  test_stop ();
  test_clear (false);
  test_clear (true);
  return 0;
}
