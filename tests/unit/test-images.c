/* test-images.c: the promises of images.h, one by one; then a random run against an
 * oracle that knows only the last write of each place.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/batch.h"
#include "array/images.h"

#define MS UINT64_C (1000000)

static struct images *b;
static uint64_t now = 1000 * MS;
static unsigned told_written, told_dropped;
static void *told_last;

static void
told (void *owner, void *waiter, unsigned member, bool written)
{
  assert (owner == &told_last);
  told_last = waiter;
  if (written)
    told_written++;
  else
    told_dropped++;
}

static void
begin (uint64_t bytes_max, bool batches)
{
  b = images_new (&(struct images_config) {
    .members = 2,
    .bytes_max = bytes_max,
    .age_ms = 200,
    .batches = batches,
    .run_base = MiB (16),
    .run_bytes = KiB (256),
    .told = told,
    .owner = &told_last,
  });
  assert (b);
  told_written = told_dropped = 0;
  told_last = NULL;
}

static void
end (void)
{
  struct images_stats s;

  images_check (b);
  images_stats (b, &s);
  assert (images_empty (b) && s.bytes == 0 && s.oldest_ns == 0);
  images_free (b);
}

/* Add an image whose bytes are all `fill`; 0: a zero. */
static void
add_for (uint64_t offset, uint64_t length, uint8_t fill, bool fua, void *waiter)
{
  struct payload *p;

  assert (images_admit (b, fill ? length : 0, 1, &p) == 0);
  if (fill)
    memset (p->data, fill, length);
  images_add (b, 0, offset, length, fill ? IMAGE_WRITE : IMAGE_ZERO, p, fua,
              waiter, now);
  images_settle (b, 1, p);
  images_check (b);
}

static void
add (uint64_t offset, uint64_t length, uint8_t fill)
{
  add_for (offset, length, fill, false, NULL);
}

/* Adds an image that is sent at once. */
static void
add_urgent (uint64_t offset, uint64_t length, uint8_t fill)
{
  add (offset, length, fill);
  images_hurry (b, 0, offset, length);
}

/* The next run must be this write or zero; fill: of its first byte. */
static struct image_run *
expect (enum image_run_kind kind, uint64_t offset, uint64_t length,
        uint8_t fill)
{
  struct image_run *run = images_next (b, now);

  images_check (b);
  assert (run && run->member == 0 && run->kind == kind);
  assert (run->offset == offset && run->length == length);
  if (kind == RUN_WRITE)
    for (uint64_t i = 0; i < length && fill; i++)
      assert (((uint8_t *) run->buf)[i] == fill);
  return run;
}

static void
answer (struct image_run *run, bool written)
{
  images_answered (b, run, written);
  images_check (b);
}

static void
test_rest_and_age (void)
{
  struct images_stats s;

  begin (MiB (1), true);
  assert (images_deadline (b) == UINT64_MAX);
  add (0, 4096, 1);
  assert (images_resting (b) && !images_next (b, now));
  assert (images_deadline (b) == now + 200 * MS);
  now += 100 * MS;
  add (0, 4096, 2); /* does not make it younger */
  assert (images_deadline (b) == now + 100 * MS);
  images_stats (b, &s);
  assert (s.oldest_ns == now - 100 * MS && s.replaced == 4096);
  now += 99 * MS;
  images_tick (b, now);
  assert (!images_next (b, now));
  now += 1 * MS;
  images_tick (b, now);
  assert (images_deadline (b) == UINT64_MAX && !images_resting (b));
  answer (expect (RUN_WRITE, 0, 4096, 2), true);
  images_stats (b, &s);
  assert (s.sent == 4096 && s.batches == 0);
  end ();
}

static void
test_replace (void)
{
  begin (MiB (1), true);
  add (8192, 8192, 1);
  add (4096, 8192, 2);  /* over its head */
  add (14336, 4096, 3); /* over its tail */
  add (12800, 512, 4);  /* out of its middle */
  images_fire (b);
  struct image_run *run = expect (RUN_WRITE, 4096, 14336, 0);
  const uint8_t *p = run->buf;

  for (unsigned i = 0; i < 14336; i++)
    assert (p[i] == (i < 8192    ? 2
                     : i < 8704  ? 1
                     : i < 9216  ? 4
                     : i < 10240 ? 1
                                 : 3));
  answer (run, true);
  end ();
}

/* An image that replaces several is as old as the oldest of them, and is sent first. */
static void
test_replace_oldest (void)
{
  begin (MiB (1), false);
  add (8192, 4096, 1);
  add (65536, 4096, 2);
  add (0, 4096, 3);
  add (0, 12288, 4);
  images_fire (b);
  answer (expect (RUN_WRITE, 0, 12288, 4), true);
  answer (expect (RUN_WRITE, 65536, 4096, 2), true);
  end ();
}

static void
test_newer_follows (void)
{
  struct image_run *run;

  begin (MiB (1), true);
  add_urgent (0, 8192, 1);
  run = expect (RUN_WRITE, 0, 8192, 1);
  add_urgent (4096, 4096, 2);
  assert (!images_next (b, now)); /* while the older one flies */
  for (unsigned i = 0; i < 8192; i++)
    assert (((uint8_t *) run->buf)[i] == 1);
  add_urgent (4096, 512, 3); /* replaces the one that waits */
  answer (run, true);
  run = images_next (b, now);
  assert (run && run->kind == RUN_WRITE && run->length == 4096);
  assert (((uint8_t *) run->buf)[0] == 3 && ((uint8_t *) run->buf)[512] == 2);
  answer (run, true);
  end ();
}

static void
test_mark (void)
{
  struct image_run *run;
  uint64_t mark;

  begin (MiB (1), true);
  mark = images_mark (b);
  assert (images_drained (b, mark));
  add (0, 4096, 1);
  mark = images_mark (b);
  add (0, 2048, 2);     /* stands for the older one too */
  add (65536, 4096, 3); /* came later: not waited for */
  assert (!images_drained (b, mark));
  run = expect (RUN_WRITE, 0, 4096, 0);
  add (0, 4096, 4); /* a place that is written over and over */
  answer (run, true);
  assert (images_drained (b, mark));
  assert (images_resting (b) && !images_next (b, now));
  mark = images_mark (b);
  run = images_next (b, now);
  assert (run->kind == RUN_BATCH);
  assert (!images_drained (b, mark));
  answer (run, true);
  assert (images_drained (b, mark));
  end ();
}

static void
test_batch (void)
{
  static struct batch_record r[BATCH_RECORDS_MAX];
  const char *why;
  struct image_run *run;

  begin (MiB (1), true);
  add (40960, 4096, 3);
  add_for (0, 4096, 1, true, NULL);
  add (4096, 4096, 2);
  add (20480, 8192, 0);
  images_fire (b);
  run = images_next (b, now);
  assert (run && run->kind == RUN_BATCH && run->fua && run->offset == 0);
  assert (batch_decode (run->buf, run->length, MiB (32), r, &why) == 3);
  /* From the oldest on, once around. */
  assert (r[0].kind == BATCH_WRITE && r[0].offset == 40960);
  assert (((uint8_t *) r[0].payload)[0] == 3);
  assert (r[1].kind == BATCH_WRITE && r[1].offset == 0 && r[1].length == 8192);
  assert (((uint8_t *) r[1].payload)[4095] == 1);
  assert (((uint8_t *) r[1].payload)[4096] == 2);
  assert (r[2].kind == BATCH_ZERO && r[2].offset == 20480 &&
          r[2].length == 8192);
  assert (!images_next (b, now));
  answer (run, true);
  end ();
}

/* Many small ones on a member that is slow leave room at its door. */
static void
test_batches_in_flight (void)
{
  struct image_run *run[8];

  begin (MiB (1), true);
  for (unsigned i = 0; i < 9; i++) {
    add (i * 65536, 4096, 1);
    add (i * 65536 + 8192, 4096, 1);
    images_fire (b);
    if (i < 8)
      run[i] = images_next (b, now);
    assert (i == 8 || (run[i] && run[i]->kind == RUN_BATCH));
  }
  assert (!images_next (b, now));
  answer (run[0], true);
  run[0] = images_next (b, now);
  assert (run[0] && run[0]->kind == RUN_BATCH);
  for (unsigned i = 0; i < 8; i++)
    answer (run[i], true);
  end ();
}

static void
test_without_batches (void)
{
  struct image_run *run[4];

  begin (MiB (1), false);
  add (0, 4096, 1);
  add (4096, 4096, 1);
  add (16384, 4096, 2);
  add (32768, 4096, 0);
  add (65536, 65536, 3);
  images_fire (b);
  run[0] = expect (RUN_WRITE, 0, 8192, 1);
  run[1] = expect (RUN_WRITE, 16384, 4096, 2);
  run[2] = expect (RUN_ZERO, 32768, 4096, 0);
  run[3] = expect (RUN_WRITE, 65536, 65536, 3);
  for (unsigned i = 0; i < 4; i++)
    answer (run[i], true);
  end ();
}

static void
test_runs (void)
{
  struct image_run *run;

  begin (MiB (4), true);
  /* A cluster is sent when it becomes complete; a long image, from its block. */
  add (MiB (16) + KiB (64), KiB (192), 1);
  assert (!images_next (b, now));
  add (MiB (16), KiB (64), 2);
  run = expect (RUN_WRITE, MiB (16), KiB (64), 2);
  answer (expect (RUN_WRITE, MiB (16) + KiB (64), KiB (192), 1), true);
  answer (run, true);
  /* Small ones too, as one write. */
  for (unsigned i = 0; i < 64; i++) {
    assert (!images_next (b, now));
    add (MiB (17) + i * 4096, 4096, 3);
  }
  answer (expect (RUN_WRITE, MiB (17), KiB (256), 3), true);
  /* Half a buffer full sends what is oldest, whatever it is. */
  for (unsigned i = 0; images_resting (b) || i == 0; i++) {
    assert (i < 520);
    add (i * 8192, 4096, 4);
  }
  while ((run = images_next (b, now)))
    answer (run, true);
  end ();
}

static void
test_room (void)
{
  struct payload *p, *q;

  begin (KiB (64), true);
  assert (images_piece_bytes_max (b) == KiB (8));
  assert (images_admit (b, KiB (60), 1, &p) == 0);
  assert (images_admit (b, KiB (8), 1, &q) == EAGAIN && !q);
  assert (images_admit (b, 0, 1, &q) == 0 && !q); /* zeroes are small */
  images_settle (b, 1, NULL);
  memset (p->data, 1, KiB (60));
  images_add (b, 0, 0, KiB (60), IMAGE_WRITE, p, false, NULL, now);
  images_hurry (b, 0, 0, KiB (60));
  images_settle (b, 1, p);
  assert (images_admit (b, KiB (8), 1, &q) == EAGAIN);
  answer (expect (RUN_WRITE, 0, KiB (60), 1), true);
  assert (images_admit (b, KiB (128), 1, &p) == 0); /* when there is nothing */
  images_settle (b, 1, p);
  end ();
}

static void
test_waiters (void)
{
  struct image_run *run;
  int w[3];

  begin (MiB (1), true);
  add_for (0, 4096, 1, false, &w[0]);
  run = expect (RUN_WRITE, 0, 4096, 1);
  assert (told_written == 0);
  answer (run, true);
  assert (told_written == 1 && told_last == &w[0]);
  /* Lost: kept, whatever the time; recorded as out: dropped. */
  add_for (0, 4096, 1, false, &w[1]);
  run = expect (RUN_WRITE, 0, 4096, 1);
  images_pause (b, 0, true);
  add_for (8192, 4096, 1, false, &w[2]);
  answer (run, false);
  assert (!images_next (b, now) && told_dropped == 0);
  assert (images_overlap (b, 0, 0, 1) && images_overlap (b, 0, 12287, 1));
  assert (!images_overlap (b, 0, 4096, 4096));
  assert (images_drop (b, 0));
  assert (told_dropped == 2 && told_written == 1 && !images_drop (b, 0));
  end ();
}

static void
test_sent_in_vain (void)
{
  struct image_run *run;
  uint64_t mark;

  begin (MiB (1), true);
  add (0, 12288, 1);
  mark = images_mark (b);
  run = expect (RUN_WRITE, 0, 12288, 1);
  add (4096, 4096, 2);
  images_pause (b, 0, true);
  answer (run, false);
  images_pause (b, 0, false);
  assert (!images_drained (b, mark));
  run = expect (RUN_WRITE, 0, 12288, 0); /* the newer one stays on top */
  assert (((uint8_t *) run->buf)[0] == 1);
  assert (((uint8_t *) run->buf)[4096] == 2);
  assert (((uint8_t *) run->buf)[8192] == 1);
  answer (run, true);
  assert (images_drained (b, mark));
  end ();
}

/* A member owes an answer to an image from when that was first sent: not while it rests,
 * also if it was sent in vain, and for a newer image that stands for it.
 */
static void
test_waits_since (void)
{
  struct image_run *run, *older;
  uint64_t sent;

  begin (MiB (1), true);
  add (0, 8192, 1);
  now += 100 * MS;
  assert (images_waits_since (b, 0) == 0);
  images_pause (b, 0, true); /* the member is lost before it gets any */
  images_fire (b);
  assert (!images_next (b, now) && images_waits_since (b, 0) == 0);
  images_pause (b, 0, false);
  sent = now;
  run = expect (RUN_WRITE, 0, 8192, 1);
  now += 100 * MS;
  assert (images_waits_since (b, 0) == sent);
  answer (run, false);
  assert (images_waits_since (b, 0) == sent);
  run = expect (RUN_WRITE, 0, 8192, 1);
  assert (images_waits_since (b, 0) == sent);
  answer (run, false);
  add (4096, 8192, 2);
  add (0, 4096, 3);
  assert (images_waits_since (b, 0) == sent);
  images_fire (b);
  answer (expect (RUN_WRITE, 0, 12288, 0), true);
  assert (images_waits_since (b, 0) == 0);

  /* Put back under a newer one, and joined to a zero. */
  add (0, 4096, 0);
  images_fire (b);
  run = expect (RUN_ZERO, 0, 4096, 0);
  sent = now;
  now += 100 * MS;
  add (0, 8192, 0);
  assert (images_waits_since (b, 0) == sent);
  answer (run, false);
  assert (images_waits_since (b, 0) == sent);
  images_fire (b);
  answer (expect (RUN_ZERO, 0, 8192, 0), true);

  /* A zero that takes the place of a write sent in vain, and is joined to another. */
  add (0, 4096, 1);
  images_fire (b);
  older = expect (RUN_WRITE, 0, 4096, 1);
  now += 100 * MS;
  add (0, 4096, 0);
  add (4096, 4096, 2);
  images_fire (b);
  sent = now;
  run = expect (RUN_WRITE, 4096, 4096, 2);
  now += 100 * MS;
  answer (run, false);
  add (4096, 4096, 0);
  answer (older, true);
  assert (images_waits_since (b, 0) == sent);
  answer (expect (RUN_ZERO, 0, 8192, 0), true);
  end ();
}

static void
test_hurry_and_discard (void)
{
  begin (MiB (1), true);
  add (0, 4096, 1);
  add (65536, 4096, 1);
  assert (!images_hurry (b, 0, 4096, 4096) && !images_next (b, now));
  assert (images_hurry (b, 0, 4095, 4096));
  answer (expect (RUN_WRITE, 0, 4096, 1), true);
  assert (!images_next (b, now));
  add_for (0, 4096, 1, false, &told_last);
  images_discard (b);
  assert (told_written == 0 && told_dropped == 0);
  end ();
}

static void
test_zeroes_join (void)
{
  struct image_run *run;
  struct payload *p;

  begin (MiB (1), false);
  for (unsigned i = 0; i < 1000; i++) {
    assert (images_admit (b, 0, 1, &p) == 0);
    images_add (b, 0, i * KiB (256), KiB (256), IMAGE_TRIM, NULL, false, NULL,
                now);
    images_settle (b, 1, p);
  }
  images_fire (b);
  run = expect (RUN_ZERO, 0, 1000 * KiB (256), 0);
  assert (run->may_trim && !images_next (b, now));
  answer (run, true);
  end ();
}

/* The runs in flight, and the member's content. */
#define PLACE 512
#define PLACES 256
static struct image_run *flying[64];
static unsigned flying_count;
static uint8_t member[PLACES * PLACE], wanted[PLACES * PLACE];

static void
carry_out (const struct image_run *run)
{
  static struct batch_record r[BATCH_RECORDS_MAX];
  const char *why;
  int count;

  switch (run->kind) {
  case RUN_WRITE:
    memcpy (member + run->offset, run->buf, run->length);
    break;
  case RUN_ZERO:
    memset (member + run->offset, 0, run->length);
    break;
  case RUN_BATCH:
    count = batch_decode (run->buf, run->length, sizeof member, r, &why);
    assert (count > 1);
    for (int i = 0; i < count; i++)
      if (r[i].kind == BATCH_WRITE)
        memcpy (member + r[i].offset, r[i].payload, r[i].length);
      else
        memset (member + r[i].offset, 0, r[i].length);
    break;
  }
}

static void
random_answer (bool may_fail)
{
  unsigned i = rand () % flying_count;
  struct image_run *run = flying[i];

  flying[i] = flying[--flying_count];
  if (may_fail && rand () % 8 == 0) {
    if (rand () % 2)
      carry_out (run);
    answer (run, false);
  }
  else {
    carry_out (run);
    answer (run, true);
  }
}

static void
test_random (unsigned seed)
{
  struct images_stats s;

  srand (seed);
  begin (KiB (64) << (seed % 4), seed % 3);
  memset (member, 0, sizeof member);
  memset (wanted, 0, sizeof wanted);
  for (unsigned step = 0; step < 2000; step++) {
    struct image_run *run;

    switch (rand () % 6) {
    case 0 ... 2: {
      unsigned first = rand () % PLACES;
      unsigned count = 1 + rand () % (rand () % 4 ? 8 : PLACES - first);
      uint8_t fill = rand () % 4 ? 1 + rand () % 255 : 0;
      struct payload *p;

      if (count > PLACES - first)
        count = PLACES - first;
      if (count * PLACE > images_piece_bytes_max (b))
        count = images_piece_bytes_max (b) / PLACE;
      if (images_admit (b, fill ? count * PLACE : 0, 1, &p) == EAGAIN) {
        images_fire (b);
        break;
      }
      images_settle (b, 1, p); /* there is room: `add` takes it again */
      (rand () % 5 ? add : add_urgent) (first * PLACE, count * PLACE, fill);
      memset (wanted + first * PLACE, fill, count * PLACE);
      break;
    }
    case 3:
      if (flying_count < 64 && (run = images_next (b, now)))
        flying[flying_count++] = run;
      break;
    case 4:
      if (flying_count > 0)
        random_answer (true);
      break;
    case 5:
      if (rand () % 20 == 0)
        images_mark (b);
      break;
    }
    images_check (b);
    images_stats (b, &s);
    assert (s.bytes <= (KiB (64) << (seed % 4)) + BATCH_BYTES_MAX);
  }
  images_fire (b);
  do {
    struct image_run *run;

    while (flying_count < 64 && (run = images_next (b, now)))
      flying[flying_count++] = run;
    if (flying_count > 0)
      random_answer (false);
  } while (!images_empty (b));
  assert (memcmp (member, wanted, sizeof member) == 0);
  end ();
}

int
main (void)
{
  const char *env = getenv ("WEFT_SEED");
  unsigned seed = env ? atoi (env) : 1, last = env ? seed : 60;

  test_rest_and_age ();
  test_replace ();
  test_replace_oldest ();
  test_newer_follows ();
  test_mark ();
  test_batch ();
  test_batches_in_flight ();
  test_without_batches ();
  test_runs ();
  test_room ();
  test_waiters ();
  test_sent_in_vain ();
  test_waits_since ();
  test_hurry_and_discard ();
  test_zeroes_join ();
  for (; seed <= last; seed++) {
    fprintf (stderr, "WEFT_SEED=%u\n", seed);
    test_random (seed);
  }
  return 0;
}
