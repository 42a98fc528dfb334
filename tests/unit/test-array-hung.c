/* test-array-hung.c: members whose disk hangs, or is slow, while their process lives
 * (array-hung.c, array-overdue.c).
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "test-array-rig.h"

static bool
is_probe (unsigned i)
{
  return ios[i]->kind == IO_BATCH && ios[i]->length == batch_bytes (NULL, 0);
}

/* Answer all that needs no disk. */
static void
answer_signs (void)
{
  for (unsigned k = 0; k < ios_count;)
    if (ios[k]->kind == IO_PULSE || is_probe (k))
      answer (k, 0);
    else
      k++;
}

/* To the next deadlines, for so long. */
static void
pass (uint64_t ms)
{
  uint64_t end = now + ms * MS;

  while (array_deadline (a) <= end) {
    tick ();
    answer_signs ();
  }
  tick_after (end - now);
  answer_signs ();
}

/* The disk has been stuck for as long as it has not answered us; some time goes by.
 * Returns when the member is lost, in ms from now; 0: it is not.
 */
static unsigned
disk_hangs (unsigned member, unsigned ms)
{
  uint64_t begun = now;

  notices_lost = 0;
  for (unsigned i = 0; i < ms / 50; i++) {
    stuck_ms[member] = (now - begun) / MS;
    pass (50);
    if (notices_lost > 0)
      break;
  }
  stuck_ms[member] = 0;
  assert (notices_lost == 0 || notice.member == member);
  return notices_lost ? (now - begun) / MS : 0;
}

static void
begin_with_pulses (enum layout_kind kind, unsigned n)
{
  config.batches = config.pulses = true;
  begin (kind, n);
}

/* The process lives, but its disk hangs.  The member is soon lost and named, whatever the
 * request was, and other copies serve the request.
 */
static void
test_disk_hangs (enum array_op op)
{
  struct array_request w = WRITE (0, 4096, ones), r = READ (0, 4096, back);
  struct array_request f = FLUSH, *asked = op == ARRAY_READ    ? &r
                                           : op == ARRAY_FLUSH ? &f
                                                               : &w;
  unsigned ms;

  begin_with_pulses (LAYOUT_RAIDX, 4);
  if (op == ARRAY_FLUSH)
    assert (carry_out (&w) == 0);
  submit (asked);
  while (op == ARRAY_FLUSH && ios[0]->kind != IO_FLUSH)
    answer (0, 0);
  ms = disk_hangs (0, 20000);
  assert (ms >= HUNG_MS && ms <= HUNG_MS + 500);
  assert (strncmp (notice.reason, "its disk has answered nothing", 29) == 0);
  assert (!done (asked));
  while (ios_count > 0 && ios[0]->member == 0)
    answer (0, ENOTCONN);
  commit (1);
  assert (finish (asked) == 0);
  stop ();
  answer_all ();
  end ();
}

/* Its disk is slow, or syncs for long; the link is slow: it is not lost. */
static void
test_disk_answers (enum array_op op)
{
  struct array_request w = WRITE (0, 4096, ones), r = READ (0, 4096, back);
  struct array_request f = FLUSH, *asked = op == ARRAY_READ    ? &r
                                           : op == ARRAY_FLUSH ? &f
                                                               : &w;

  begin_with_pulses (LAYOUT_RAIDX, 4);
  if (op == ARRAY_FLUSH)
    assert (carry_out (&w) == 0);
  submit (asked);
  notices_lost = 0;
  for (unsigned i = 0; i < 10; i++) {
    stuck_ms[0] = HUNG_MS -
                  1; /* now and then nothing comes of it for a while */
    pass (2000);
    stuck_ms[0] = 0;
    pass (2000);
  }
  assert (notices_lost == 0);
  assert (finish (asked) == 0);
  stop ();
  answer_all ();
  end ();
}

/* The disk with the only copy hangs, so requests that need it wait.  If the disk answers
 * within the time-out, nothing else happens.  If not, the member is reported as lost, and
 * the request is sent again when the member is given back.
 */
static void
test_last_disk_hangs (bool long_enough)
{
  struct array_request r = READ (0, 4096, back);
  unsigned ms;

  begin_with_pulses (LAYOUT_RAIDX, 4);
  commit (8); /* member 3 has the image */
  submit (&r);
  ms = disk_hangs (0, long_enough ? 20000 : 14000);
  assert (!done (&r));
  if (long_enough) {
    assert (ms >= 15000 && ms <= 15500);
    answer (0, ENOTCONN);
    pass (60000);
    assert (ios_count == 0 && !done (&r));
    give_back (0, 2, "iiio");
    notices_lost = 0;
  }
  else
    assert (ms == 0);
  assert (finish (&r) == 0 && notices_lost == 0);
  end ();
}

/* Members that are rebuilt have nothing that others lack. */
static void
test_joining_disk_hangs (void)
{
  struct array_request w = WRITE (0, 4096, ones);
  unsigned ms;

  begin_with_pulses (LAYOUT_RAIDX, 4);
  commit (8);
  give_back (3, 3, "iiij");
  submit (&w);
  while (ios_count > 0 && ios[0]->member != 3)
    answer (0, 0);
  pass (300); /* its image is sent */
  assert (ios_count > 0 && ios[0]->member == 3);
  ms = disk_hangs (3, 20000);
  assert (ms >= HUNG_MS && ms <= HUNG_MS + 500);
  while (ios_count > 0)
    answer (0, ios[0]->member == 3 ? ENOTCONN : 0);
  assert (done (&w) && w.error == 0);
  stop ();
  answer_all ();
  end ();
}

/* A member of an older Weft does not say how its disk is: it is asked once. */
static void
test_says_nothing_of_its_disk (void)
{
  struct array_request r = READ (0, 4096, back);
  unsigned pulses = 0;

  begin_with_pulses (LAYOUT_RAIDX, 4);
  submit (&r);
  for (unsigned i = 0; i < 100; i++) {
    tick_after (100 * MS);
    for (unsigned k = 0; k < ios_count;)
      if (ios[k]->kind == IO_PULSE) {
        pulses++;
        answer (k, EINVAL);
      }
      else if (is_probe (k))
        answer (k, 0);
      else
        k++;
  }
  assert (pulses == 1 && notices_lost == 0);
  assert (finish (&r) == 0);
  end ();
}

/* A member that takes 2 s a request has given few answers: it is suspect by the time
 * that it takes, before the first answer, and reads that begin then go around it.
 */
static void
test_slow_gives_few_answers (void)
{
  struct array_request slow = READ (0, 4096, back), r = READ (UNIT, 4096, back);
  struct array_request next = READ (0, 4096, back), image = next;
  struct array_stats stats;

  image.copy = 2;
  begin_with_pulses (LAYOUT_RAIDX, 4);
  submit (&r);
  now += 2 * MS;
  answer (0, 0);
  submit (&image);
  now += 10 * MS;
  answer (0, 0);
  submit (&slow); /* it was quick, quicker than the other copy */
  now += 2 * MS;
  answer (0, 0);
  submit (&slow);
  assert (ios[0]->member == 0);
  pass (1600);
  array_stats (a, now, &stats);
  assert (stats.member[0].suspect && !stats.member[1].suspect);
  assert (stats.member[0].service_ns == 1600 * MS);
  submit (&next);
  assert (is_io (1, IO_READ, 3, IMAGE0, 4096));
  answer (1, 0);
  assert (done (&next) && !done (&slow));
  pass (400);
  answer (0, 0);
  assert (done (&slow));
  pass (1000);
  submit (&r);
  now += 2 * MS;
  answer (0, 0);
  array_stats (a, now, &stats);
  assert (stats.member[0].suspect && stats.member[0].service_ns == 1001 * MS);
  assert (notices_lost == 0);
  end ();
}

/* A member that was found slow is asked for nothing but a sync.  It stays suspect while it
 * owes that, and when that took long; not when it syncs quickly, or is asked nothing.
 */
static void
test_slow_syncs (unsigned sync_ms, bool stays)
{
  struct array_request w = WRITE (0, 4096, ones), r = READ (UNIT, 4096, back);
  struct array_request f = FLUSH;
  struct array_stats stats;
  bool written = false;

  begin_with_pulses (LAYOUT_RAIDX, 4);
  commit (8); /* so no bits are cleared, which would be asked of the member */
  notices_lost = 0;
  submit (&r);
  now += 2 * MS;
  answer (0, 0);
  submit (&w);
  pass (2000);
  while (!written) {
    written = ios[0]->member == 0;
    answer (0, 0);
  }
  array_stats (a, now, &stats);
  assert (stats.member[0].suspect);
  submit (&f);
  for (unsigned k = 0; k < ios_count;)
    if (ios[k]->member == 0)
      k++;
    else
      answer (k, 0);
  assert (ios_count == 1 && ios[0]->kind == IO_FLUSH);
  pass (sync_ms);
  array_stats (a, now, &stats);
  assert (stats.member[0].suspect);
  answer_all ();
  assert (finish (&f) == 0);
  pass (sync_ms > 10000 ? 9000 : 9900);
  array_stats (a, now, &stats);
  assert (stats.member[0].suspect == stays);
  assert (stats.member[0].service_ns == (stays ? 2000 * MS : 0));
  if (stays) { /* it answers as slowly, and nothing is known of the others */
    submit (&w);
    pass (2000);
    answer (0, 0);
    pass (1000);
    array_stats (a, now, &stats);
    assert (stats.member[0].suspect && stats.member[1].service_ns == 0);
  }
  pass (11000);
  array_stats (a, now, &stats);
  assert (!stats.member[0].suspect && notices_lost == 0);
  end ();
}

/* Where all members are slow, none is suspect. */
static void
test_all_slow (void)
{
  struct array_request r[4];
  struct array_stats stats;

  begin_with_pulses (LAYOUT_RAIDX, 4);
  for (unsigned round = 0; round < 4; round++) {
    for (unsigned i = 0; i < 4; i++) {
      r[i] = (struct array_request) READ (i * UNIT, 4096, back);
      submit (&r[i]);
    }
    pass (2000);
    array_stats (a, now, &stats);
    for (unsigned i = 0; i < 4; i++) {
      assert (!stats.member[i].suspect);
      answer (0, 0);
    }
  }
  end ();
}

int
main (void)
{
  rig_init ();
  for (unsigned op = 0; op < 3; op++) {
    static const enum array_op ops[] = { ARRAY_READ, ARRAY_WRITE, ARRAY_FLUSH };

    test_disk_hangs (ops[op]);
    test_disk_answers (ops[op]);
  }
  test_last_disk_hangs (false);
  test_last_disk_hangs (true);
  test_joining_disk_hangs ();
  test_says_nothing_of_its_disk ();
  test_slow_gives_few_answers ();
  test_slow_syncs (12000, true);
  test_slow_syncs (20, false);
  test_all_slow ();
  return 0;
}
