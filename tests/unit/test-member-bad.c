/* test-member-bad.c: the member engine's list of bad ranges: in which order its writes
 * must become durable, wherever they are cut short.
 */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "test-member-rig.h"
#include "test-random.h"

/* The list as a start would find it. */
static bool
bad_durable (uint64_t offset)
{
  struct superblock sb;
  struct bad_list list;
  const char *why;
  bool mend;

  CHECK (superblock_newest (header, &sb, &why) >= 0);
  if (sb.bad_offset == 0)
    return false;
  CHECK (bad_decode (header + sb.bad_offset, sb.data_bytes, &list, &mend,
                     &why) == 0);
  return bad_test (&list, offset, 1);
}

/* BAD and SETTLE of an extent; the power goes after `steps` actions, while all that
 * may be under way then is: each is not done, done or torn.  The bit or the entry is
 * there; once the report could be answered, both slots have the entry.
 */
static bool
settle_and_crash (unsigned steps)
{
  struct member_refusal refusal;
  struct member_pass *p;
  bool settled, over = false;

  start_new ();
  p = open_door (7, epoch);
  write_to (p, 1);
  CHECK (bit_durable (1));
  CHECK (member_bad_report (m, p, EXTENT_BYTES + 100, 1, &refusal) ==
         MEMBER_GO);
  CHECK (!member_bad_settled (m) && member_bad_any (m));
  member_clear (m, p, EXTENT_BYTES, EXTENT_BYTES, true);
  for (unsigned i = 0; i < steps; i++) {
    struct member_action a;

    over = !member_next_action (m, true, &a);
    if (over)
      break;
    do_action (&a);
    CHECK (bit_durable (1) || bad_durable (EXTENT_BYTES));
  }
  settled = member_bad_settled (m);
  for (unsigned i = 0; i < FLIGHTS; i++) {
    flights[i].used = member_next_action (m, true, &flights[i].a);
    if (flights[i].used && flights[i].a.kind == MEMBER_WRITE_BAD)
      CHECK (member_confirmed (m)->bad_offset == BAD_OFFSET);
  }
  disk_crash ();
  CHECK (bit_durable (1) || bad_durable (EXTENT_BYTES));
  if (settled)
    header[BAD_OFFSET + test_random (2) * BAD_SLOT_BYTES + 40] ^= 1;
  end_life (p);
  start ();
  CHECK (bit_durable (1) || member_bad_any (m));
  CHECK (!settled || bad_test (member_bad (m), EXTENT_BYTES + 4095, 1));
  CHECK (!bad_test (member_bad (m), EXTENT_BYTES + 4096, 1));
  if (member_bad_any (m)) /* it was of version 1 */
    CHECK (member_confirmed (m)->bad_offset == BAD_OFFSET);
  member_free (m);
  return over;
}

static void
scene_settle (void)
{
  for (unsigned i = 0; i < 30; i++)
    for (unsigned steps = 0; !settle_and_crash (steps); steps++)
      CHECK (steps < 20);
}

/* A block that is written is bad until its data is stable and the list says so;
 * then the next life does not know of it.
 */
static void
scene_good (void)
{
  start_new ();
  CHECK (member_bad_add (m, 8192, 8192, BAD_RESYNC));
  do_actions (false);
  CHECK (member_bad_settled (m) && bad_durable (8192));
  member_bad_good (m, 8000, 4288); /* the first block, whole */
  CHECK (!bad_test (member_bad (m), 8192, 1) && !member_bad_settled (m));
  CHECK (bad_durable (8192));
  do_actions (false);
  CHECK (member_bad_settled (m) && !bad_durable (8192) && bad_durable (12288));
  member_bad_good (m, 12288, 4095); /* not all of it */
  CHECK (member_bad_settled (m) && member_bad_any (m));
  member_free (m);
  start ();
  CHECK (bad_bytes (member_bad (m)) == 4096);
  member_free (m);
}

/* A write that waits for the list while a fence waits for the write, and the disk
 * is of version 1 still: nobody waits for ever.
 */
static void
scene_fence (void)
{
  struct member_pass *p;
  struct one w;

  start_new ();
  p = open_door (7, epoch);
  write_to (p, 0);
  CHECK (ask (p, &w, 0, 1) == MEMBER_GO);
  CHECK (member_bad_add (m, 0, 8192, BAD_REBUILD));
  member_bad_good (m, 0, 4096);
  epoch += 5;
  CHECK (desire_four (epoch, false));
  do_actions (false);
  CHECK (member_bad_settled (m) && bad_durable (4096) && !bad_durable (0));
  CHECK (!member_settled (m));
  member_leave (m, &w.r);
  do_actions (false);
  CHECK (member_settled (m) && member_confirmed (m)->min_epoch == epoch);
  end_life (p);
}

/* A client without the right to write may not report bad ranges; and a failed member
 * accepts none. */
static void
scene_refused (void)
{
  struct member_pass *p;
  struct member_refusal refusal;

  start_new ();
  p = open_door (7, epoch);
  for (uint64_t at = 0; member_bad_report (m, p, at, 1, &refusal) == MEMBER_GO;)
    at += 3 * 4096;
  CHECK (refusal.error == ENOSPC && member_bad (m)->count > 1000);
  epoch++;
  CHECK (desire_four (epoch, false));
  do_actions (false);
  CHECK (member_bad_report (m, p, 0, 1, &refusal) == MEMBER_REFUSE &&
         refusal.error == ESHUTDOWN);
  member_close (m, p);
  p = open_door (7, epoch);
  member_fail (m, EIO, "writing failed");
  CHECK (member_bad_report (m, p, 0, 1, &refusal) == MEMBER_REFUSE &&
         refusal.error == EIO);
  end_life (p);
}

/* A disk that leaves its array has no bad blocks: not before every bit is set, and
 * before its superblock says so.
 */
static void
scene_release (void)
{
  struct member_action a;

  start_new ();
  CHECK (member_bad_add (m, 4096, 1, BAD_REBUILD));
  do_actions (true);
  CHECK (desire_four (epoch, true));
  CHECK (!member_bad_any (m));
  while (!format_uuid_zero (member_confirmed (m)->array)) {
    CHECK (member_next_action (m, true, &a));
    if (a.kind == MEMBER_WRITE_SLOT)
      CHECK (!bad_durable (4096) && bit_durable (0));
    do_action (&a);
  }
  member_free (m);
}

/* Nothing is left to be done only when the list is durable. */
static void
scene_joining (void)
{
  struct member_action a;
  uint64_t e, run;

  start_new ();
  wish.states[2] = MEMBER_JOINING;
  wish.min_epoch = wish.epoch = wish.join_epoch = 2;
  CHECK (desire ());
  do_actions (false);
  run = member_join_run (m);
  gathered (1 << 5);
  do_actions (false);
  CHECK (member_join_next (m, run, &e) && e == 5 && bit_durable (5));
  CHECK (member_bad_add (m, 5 * EXTENT_BYTES, 4096, BAD_REBUILD));
  member_join_copied (m, run, e, true);
  copies_stable ();
  CHECK (member_join_phase (m) == MEMBER_JOIN_COPYING);
  while (!member_bad_settled (m)) {
    CHECK (bit_durable (5) && member_join_phase (m) == MEMBER_JOIN_COPYING);
    CHECK (member_next_action (m, true, &a));
    do_action (&a);
  }
  CHECK (member_join_phase (m) == MEMBER_JOIN_SYNCED);
  CHECK (bad_durable (5 * EXTENT_BYTES) && bit_durable (5));
  do_actions (true);
  CHECK (!bit_durable (5));
  member_free (m);
}

/* A write covers part of an unreadable block, and the power fails after so many actions:
 * the block may be overwritten only when both slots list it durably.
 */
static bool
part_and_crash (unsigned steps)
{
  struct member_refusal refusal;
  struct member_pass *p;
  bool go = false, over = false;

  start_new ();
  p = open_door (7, epoch);
  write_to (p, 1);
  for (unsigned i = 0; i < steps && !over; i++) {
    struct member_action a;

    go = member_bad_part (m, EXTENT_BYTES + 4096, &refusal) == MEMBER_GO;
    over = !member_next_action (m, true, &a);
    if (!over)
      do_action (&a);
  }
  disk_crash ();
  if (go)
    header[BAD_OFFSET + test_random (2) * BAD_SLOT_BYTES + 40] ^= 1;
  end_life (p);
  start ();
  CHECK (!go || bad_test (member_bad (m), EXTENT_BYTES + 4096, 4096));
  CHECK (!bad_test (member_bad (m), EXTENT_BYTES, 4096));
  CHECK (!member_bad_any (m) || member_bad (m)->range[0].reason == BAD_WRITE);
  member_free (m);
  return over;
}

/* A block that is listed already keeps its reason.  A full list is reported. */
static void
scene_part (void)
{
  struct member_refusal refusal;
  uint64_t offset = 0;

  for (unsigned steps = 0; !part_and_crash (steps); steps++)
    CHECK (steps < 20);
  start_new ();
  CHECK (member_bad_add (m, 0, 4096, BAD_RESYNC));
  do_actions (false);
  CHECK (member_bad_part (m, 0, &refusal) == MEMBER_GO);
  CHECK (member_bad (m)->count == 1 &&
         member_bad (m)->range[0].reason == BAD_RESYNC);
  while (member_bad_add (m, offset, 4096, BAD_RESYNC))
    offset += 2 * 4096;
  CHECK (member_bad_part (m, offset, &refusal) == MEMBER_REFUSE);
  CHECK (refusal.error == EIO && strstr (refusal.why, "no room"));
  CHECK (!bad_test (member_bad (m), offset, 4096));
  member_free (m);
}

int
main (void)
{
  test_random_start ();
  scene_settle ();
  scene_good ();
  scene_fence ();
  scene_refused ();
  scene_release ();
  scene_joining ();
  scene_part ();
  return 0;
}
