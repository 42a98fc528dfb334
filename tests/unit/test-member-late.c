/* test-member-late.c: what comes too late, or fails: states of an epoch that is
 * over, a flush that began before the copy was made, the write of a header.
 */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "test-member-rig.h"
#include "test-random.h"

#define EXTENTS 64
#define DATA_BYTES (EXTENTS * EXTENT_BYTES)

static unsigned copies = 2;

/* Member 0 of two, or more, whose state is known in epoch 6. */
static void
start_as (enum member_state state)
{
  disk_format ((struct superblock) { .data_bytes = DATA_BYTES }, 0);
  disk_start (true);
  wish_place (copies > 2 ? LAYOUT_RAID1 : LAYOUT_RAID10, copies, 5);
  CHECK (desire ());
  do_actions (true);
  wish.states[0] = state;
  wish.epoch++;
  CHECK (desire ());
  do_actions (true);
  CHECK (member_settled (m) && member_confirmed (m)->states_epoch == 6);
}

/* A weftd with an older database says what was, not what is. */
static void
late_states (void)
{
  start_as (MEMBER_IN_SYNC);
  wish.epoch = 9;
  wish.states[1] = MEMBER_OUT;
  CHECK (desire ());
  do_actions (true);
  wish.epoch = 8;
  wish.states[1] = MEMBER_IN_SYNC;
  desire ();
  do_actions (true);
  CHECK (member_confirmed (m)->states_epoch == 9);
  CHECK (member_confirmed (m)->states[1] == MEMBER_OUT);
  member_free (m);
}

/* A flush says nothing of what was copied after it had begun, though it was
 * marked since.
 */
static void
late_flush (void)
{
  uint64_t mark, run;

  start_as (MEMBER_JOINING);
  wish.join_epoch = 5;
  CHECK (desire ());
  run = member_join_run (m);
  gathered (1 << 3 | 1 << 4);
  do_actions (true);
  CHECK (member_join_phase (m) == MEMBER_JOIN_COPYING);
  copy_extent (3);
  mark = member_join_mark (m);
  copy_extent (4);
  CHECK (member_join_mark (m) > mark);
  member_join_stable (m, run, mark);
  CHECK (intents_test (&m->wanted, 4));
  CHECK (member_join_phase (m) == MEMBER_JOIN_COPYING);
  member_join_stable (m, run, mark + 1);
  CHECK (member_dirty_extents (m) == 0);
  CHECK (member_join_phase (m) == MEMBER_JOIN_SYNCED);
  member_free (m);
}

/* Gather what the peers have, and copy extent 3; what they have then. */
static void
copy_third (uint64_t bits, uint64_t then)
{
  struct intents peers;

  gathered (bits);
  do_actions (true);
  copy_extent (3);
  CHECK (intents_init (&peers, EXTENTS) == 0);
  atomic_store (&peers.word[0], then);
  member_join_unequal (m, member_join_run (m), &peers);
  intents_free (&peers);
  copies_stable ();
  do_actions (true);
  CHECK (member_join_phase (m) == MEMBER_JOIN_SYNCED);
}

/* What a joiner has copied, a third copy may lack: where the peers had a bit, be it of
 * a write that came while it was copied; and one that is out, or joins and has not gathered yet.  It is to find that here, too, if
 * the source is gone one day.
 */
static void
third_copy (enum member_state third)
{
  copies = 3;
  start_as (MEMBER_JOINING);
  copies = 2;
  wish.epoch++;
  wish.states[2] = third;
  wish.join_epoch = 5;
  CHECK (desire ());
  do_actions (true);
  copy_third (1 << 3, 1 << 3);
  CHECK (intents_test (&m->wanted, 3) && intents_test (&m->durable, 3));
  wish.join_epoch = 6; /* again, when only its own bit is left */
  CHECK (desire ());
  do_actions (true);
  copy_third (0, 1 << 3);
  CHECK (intents_test (&m->wanted, 3) && intents_test (&m->durable, 3));
  wish.join_epoch = 7;
  CHECK (desire ());
  do_actions (true);
  copy_third (0, 1 << 2);
  CHECK (intents_test (&m->wanted, 3) == (third != MEMBER_IN_SYNC));
  CHECK (intents_test (&m->durable, 3) == (third != MEMBER_IN_SYNC));
  member_free (m);
}

/* What a failed write has left on the disk, nobody knows: the member is at its
 * end, and confirms nothing.
 */
static void
failed_header (void)
{
  struct member_action a;

  start_as (MEMBER_IN_SYNC);
  wish.epoch = wish.min_epoch = 7;
  CHECK (desire ());
  CHECK (member_next_action (m, true, &a) && a.kind == MEMBER_WRITE_SLOT);
  member_action_done (m, &a, ENOSPC);
  CHECK (member_failed (m));
  CHECK (strstr (member_reason (m), "superblock"));
  CHECK (strstr (member_reason (m), strerror (ENOSPC)));
  CHECK (!member_next_action (m, true, &a));
  CHECK (member_confirmed (m)->min_epoch == 5);
  member_free (m);
}

/* A disk that weftd has not taken in is left as it is, though it has something to
 * write.
 */
static void
not_taken_in (void)
{
  const struct superblock like = {
    .data_bytes = DATA_BYTES, .sequence = 6, .served_epoch = 5, .min_epoch = 5
  };
  struct member_action a;

  disk_format (like, 0);
  disk_start (false);
  CHECK (!member_next_action (m, true, &a));
  CHECK (member_confirmed (m)->sequence == 8);
  CHECK (member_confirmed (m)->min_epoch == 5);
  member_set_key (m, key);
  CHECK (member_next_action (m, true, &a) && a.kind == MEMBER_WRITE_SLOT);
  CHECK (a.offset == SLOT_BYTES);
  member_action_done (m, &a, 0);
  do_actions (true);
  CHECK (member_confirmed (m)->min_epoch == 6);
  CHECK (member_confirmed (m)->sequence == 10);
  member_free (m);
}

int
main (void)
{
  test_random_start ();
  not_taken_in ();
  late_states ();
  late_flush ();
  third_copy (MEMBER_OUT);
  third_copy (MEMBER_JOINING);
  third_copy (MEMBER_IN_SYNC);
  failed_header ();
  return 0;
}
