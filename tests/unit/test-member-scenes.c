/* test-member-scenes.c: single scenes of the member engine's life: intent bits,
 * the fence, slots, doors, release, sessions.
 */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "test-member-rig.h"
#include "test-random.h"

/* The superblock on the disk, as the next process would read it. */
static struct superblock
on_disk (void)
{
  struct superblock sb;
  const char *why;

  CHECK (superblock_newest (header, &sb, &why) >= 0);
  return sb;
}

static enum member_verdict
try_open (const char *name, int error, const char *text)
{
  struct member_pass *p = NULL;
  struct member_refusal refusal = { 0 };
  enum member_verdict v = member_open (m, name, NULL, &p, &refusal);

  if (v == MEMBER_REFUSE &&
      (refusal.error != error || strstr (refusal.why, text) == NULL))
    fprintf (stderr, "%s: %d %s\n", name, refusal.error, refusal.why);
  CHECK (p == NULL && v == MEMBER_REFUSE);
  CHECK (refusal.error == error && strstr (refusal.why, text));
  return v;
}

/* Many writers of one block cost two header writes: the first one's, and one
 * for all who came meanwhile; after that none.
 */
static void
scene_group_commit (void)
{
  struct one w[100];
  struct member_action a;
  struct member_pass *p;

  start_new ();
  p = open_door (1, 1);
  for (int i = 0; i < 100; i++) {
    CHECK (ask (p, &w[i], i, 1) == MEMBER_WAIT);
    CHECK (again (p, &w[i]) == MEMBER_WAIT);
    if (i == 0)
      CHECK (member_next_action (m, false, &a));
  }
  CHECK (a.kind == MEMBER_WRITE_INTENTS);
  do_action (&a);
  CHECK (again (p, &w[0]) == MEMBER_GO);
  CHECK (again (p, &w[1]) == MEMBER_WAIT);
  CHECK (do_actions (false) == 1);
  for (int i = 0; i < 100; i++) {
    CHECK (again (p, &w[i]) == MEMBER_GO);
    member_leave (m, &w[i].r);
    CHECK (ask (p, &w[i], i, 1) == MEMBER_GO);
    member_leave (m, &w[i].r);
  }
  CHECK (do_actions (true) == 0);
  CHECK (member_dirty_extents (m) == 100);
  end_life (p);
}

/* Extent 5 is cleared: how many are dirty? */
static uint64_t
dirty_after_clear (struct member_pass *p, bool settled)
{
  member_clear (m, p, 5 * EXTENT_BYTES, EXTENT_BYTES, settled);
  return member_dirty_extents (m);
}

/* Its bit is on the disk already. */
static void
set_again (struct member_pass *p)
{
  struct one w;

  CHECK (ask (p, &w, 5, 1) == MEMBER_WAIT);
  CHECK (again (p, &w) == MEMBER_GO);
  member_leave (m, &w.r);
}

/* A bit that is set again before its clear was written costs nothing.  If it is set again
 * while the clear is being written, it waits for a write of its own.
 */
static void
scene_set_after_clear (void)
{
  struct one w;
  struct member_action a;
  struct member_pass *p, *other;

  start_new ();
  p = open_door (1, 1);
  CHECK (ask (p, &w, 5, 1) == MEMBER_WAIT);
  CHECK (again (p, &w) == MEMBER_WAIT);
  CHECK (do_actions (false) == 1);
  CHECK (again (p, &w) == MEMBER_GO);
  member_leave (m, &w.r);

  CHECK (dirty_after_clear (p, false) == 0);
  CHECK (do_actions (false) == 0 && bit_durable (5));
  set_again (p);
  CHECK (do_actions (true) == 0 && bit_durable (5));

  CHECK (dirty_after_clear (p, false) == 0);
  CHECK (member_next_action (m, true, &a));
  CHECK (ask (p, &w, 5, 1) == MEMBER_WAIT);
  CHECK (again (p, &w) == MEMBER_WAIT);
  do_action (&a);
  CHECK (!bit_durable (5));
  CHECK (again (p, &w) == MEMBER_WAIT);
  CHECK (do_actions (false) == 1 && bit_durable (5));
  CHECK (again (p, &w) == MEMBER_GO);
  member_leave (m, &w.r);

  /* Not for a part of an extent, not while a member is out, and not for the
   * bits of another session.
   */
  member_clear (m, p, 5 * EXTENT_BYTES, EXTENT_BYTES - 1, false);
  member_clear (m, p, 5 * EXTENT_BYTES + 1, EXTENT_BYTES, false);
  CHECK (member_dirty_extents (m) == 1);
  out = true;
  CHECK (desire_four (1, false));
  CHECK (dirty_after_clear (p, false) == 1);
  out = false;
  CHECK (desire_four (1, false));
  do_actions (false);
  other = open_door (2, 1);
  CHECK (dirty_after_clear (other, false) == 1);
  set_again (other);
  CHECK (dirty_after_clear (p, false) == 1);
  CHECK (dirty_after_clear (other, false) == 0);

  /* A resync settles what a session left when it went, not what is held. */
  set_again (p);
  CHECK (dirty_after_clear (other, true) == 1);
  member_close (m, p);
  CHECK (dirty_after_clear (other, false) == 1);
  CHECK (dirty_after_clear (other, true) == 0);

  /* A fenced session counts as gone, too, though its door is still open. */
  write_to (other, 5);
  epoch = 2;
  CHECK (desire_four (2, false));
  do_actions (false);
  p = open_door (3, 2);
  CHECK (dirty_after_clear (p, false) == 1);
  CHECK (dirty_after_clear (p, true) == 0);
  member_close (m, p);
  end_life (other);
}

/* Raising the epoch: refused at once, confirmed only when the last old request
 * has left and both slots have it.
 */
static void
scene_fence (void)
{
  struct member_request r = { .count = 0 }, r2 = { .count = 0 };
  struct member_refusal refusal;
  struct member_action a;
  struct member_pass *p, *p2;

  start_new ();
  p = open_door (1, 1);
  CHECK (member_admit (m, p, &r, &refusal) == MEMBER_GO);
  epoch = 2;
  CHECK (desire_four (2, false));
  CHECK (member_admit (m, p, &r2, &refusal) == MEMBER_REFUSE);
  CHECK (refusal.error == ESHUTDOWN && strstr (refusal.why, "epoch 1 is over"));
  CHECK (!member_leave (m, &r2));
  CHECK (!member_next_action (m, true, &a)); /* it waits for r */
  CHECK (!member_settled (m) && member_confirmed (m)->min_epoch == 1);

  /* A door of the new epoch opens meanwhile. */
  p2 = open_door (1, 2);
  CHECK (member_admit (m, p2, &r2, &refusal) == MEMBER_GO);
  CHECK (member_confirmed (m)->min_epoch == 1);

  /* And another raise: it waits for r2 as well. */
  epoch = 3;
  CHECK (desire_four (3, false));
  CHECK (member_leave (m, &r));
  CHECK (!member_next_action (m, true, &a));
  CHECK (member_leave (m, &r2));
  CHECK (member_next_action (m, false, &a) && a.kind == MEMBER_WRITE_SLOT);
  do_action (&a);
  CHECK (member_confirmed (m)->min_epoch == 1); /* one slot is not enough */
  CHECK (do_actions (false) == 1);
  CHECK (member_confirmed (m)->min_epoch == 3 && member_settled (m));

  /* A lower one, and an older weftd, change nothing. */
  CHECK (desire_four (1, false) && member_settled (m));
  generation = 0;
  CHECK (!desire_four (9, false) && member_settled (m));
  member_close (m, p);
  end_life (p2);
}

/* Started again, it opens no door to a token of an epoch that it knew before,
 * though no door of it was ever opened; and starting again and again goes no
 * further than that.
 */
static void
scene_restart (void)
{
  char name[TOKEN_BYTES_MAX + 16];

  start_new ();
  epoch = 7;
  CHECK (desire_four (1, false)); /* another member's change */
  do_actions (false);
  CHECK (member_confirmed (m)->min_epoch == 1);
  for (unsigned i = 0; i < 3; i++) {
    member_free (m);
    start ();
    CHECK (member_confirmed (m)->min_epoch == 8);
    export_name (name, DOOR_DATA, 1, false, 7);
    try_open (name, ESHUTDOWN, "epoch 7 is over");
  }
  member_close (m, open_door (1, 8));
  member_free (m);
  start ();
  CHECK (member_confirmed (m)->min_epoch == 9);
  member_free (m);
}

/* The power fails between the writes of the two slots: the next process must not rely on
 * the one slot that was written.
 */
static void
scene_stale_slot (void)
{
  struct member_action a;

  start_new ();
  epoch = 7;
  CHECK (desire_four (7, false));
  CHECK (member_next_action (m, false, &a) && a.kind == MEMBER_WRITE_SLOT);
  memcpy (header + a.offset, a.bytes, a.length);
  member_free (m);
  start ();
  CHECK (member_confirmed (m)->min_epoch == 8);
  member_free (m);
  header[a.offset + 100] ^= 1;
  start (); /* checks that min_epoch has not gone back */
  CHECK (member_confirmed (m)->min_epoch == 8);
  member_free (m);
}

/* Released: dirty as a whole before the array is forgotten.  All sessions with an open
 * door are fenced.  A foreign weftd is not obeyed before that.
 */
static void
scene_release (void)
{
  struct member_request r = { .count = 0 };
  struct member_refusal refusal;
  struct member_desire d = { .generation = 1 };
  struct member_pass *p;
  char why[256];

  start_new ();
  p = open_door (1, 1);
  memset (d.cluster, 0x77, 16);
  memcpy (d.release, array, 16);
  CHECK (!member_desire (m, &d, why, sizeof why) && member_settled (m));
  memcpy (d.cluster, cluster, 16);
  d.release[5] ^= 1;
  CHECK (member_desire (m, &d, why, sizeof why) && member_settled (m));
  CHECK (!format_uuid_zero (member_confirmed (m)->array));

  CHECK (desire_four (1, true));
  for (;;) {
    struct member_action a;

    if (format_uuid_zero (on_disk ().array))
      for (uint64_t e = 0; e < m->wanted.extents; e += 1000)
        CHECK (bit_durable (e));
    if (!member_next_action (m, false, &a))
      break;
    do_action (&a);
  }
  CHECK (member_settled (m) && format_uuid_zero (on_disk ().array));
  CHECK (format_uuid_zero (member_confirmed (m)->array));
  CHECK (member_dirty_extents (m) == intents_extents (FOUR_DATA_BYTES));
  CHECK (member_admit (m, p, &r, &refusal) == MEMBER_REFUSE);
  member_leave (m, &r);
  member_close (m, p);

  /* Without an array it is anybody's. */
  memset (&d, 0, sizeof d);
  memset (d.cluster, 0x77, 16);
  CHECK (member_desire (m, &d, why, sizeof why));
  do_actions (false);
  CHECK (memcmp (member_confirmed (m)->cluster, d.cluster, 16) == 0);
  member_free (m);
}

static void
scene_doors (void)
{
  char name[TOKEN_BYTES_MAX + 16], text[TOKEN_BYTES_MAX + 1];
  struct token t = { .session = 1, .writable = true, .epoch = 1 };
  struct member_refusal refusal;
  struct member_request r = { .count = 0 };
  struct member_pass *p;
  struct batch_record b = { .kind = BATCH_ZERO, .length = 1 };

  disk_format ((struct superblock) { .data_bytes = FOUR_DATA_BYTES }, 0);
  disk_start (false);
  export_name (name, DOOR_DATA, 1, true, 1);
  try_open (name, EAGAIN, "has not reached weftd");
  member_set_key (m, key);
  try_open (name, EACCES, "belongs to no array");
  generation = epoch = 1;
  CHECK (desire_four (1, false));
  try_open (name, EACCES, "belongs to no array"); /* not durable yet */
  do_actions (false);
  try_open ("", ENOENT, "no such export");
  try_open ("data", ENOENT, "no such export");
  try_open ("data/", EACCES, "token");
  try_open ("date/x", ENOENT, "no such export");
  try_open ("data/1.2.3", EACCES, "token");
  memcpy (t.member, disk_id, 16);
  memcpy (t.array, cluster, 16);
  token_mint (&t, key, text);
  snprintf (name, sizeof name, "data/%s", text);
  try_open (name, EACCES, "another array");
  memcpy (t.member, cluster, 16);
  memcpy (t.array, array, 16);
  token_mint (&t, key, text);
  snprintf (name, sizeof name, "intents/%s", text);
  try_open (name, EACCES, "another disk");
  export_name (name, DOOR_BATCH, 1, false, 1);
  try_open (name, EROFS, "read-only");
  export_name (name, DOOR_DATA, 1, true, 0);
  try_open (name, EINVAL, "out of range");
  export_name (name, DOOR_DATA, 1, true, EPOCH_MAX);
  try_open (name, EINVAL, "out of range");

  /* A read-only pass reads, and does not write. */
  export_name (name, DOOR_DATA, 1, false, 1);
  CHECK (member_open (m, name, NULL, &p, &refusal) == MEMBER_WAIT);
  do_actions (false);
  CHECK (member_open (m, name, NULL, &p, &refusal) == MEMBER_GO);
  CHECK (!member_pass_writable (p) && member_pass_door (p) == DOOR_DATA);
  CHECK (member_admit (m, p, &r, &refusal) == MEMBER_GO);
  member_leave (m, &r);
  r.records = &b;
  r.count = 1;
  CHECK (member_admit (m, p, &r, &refusal) == MEMBER_REFUSE &&
         refusal.error == EROFS);
  member_leave (m, &r);

  /* Failed: nothing opens, nothing runs, no header is written. */
  r.count = 0;
  CHECK (member_round (m, p, 1, &refusal) == MEMBER_WAIT);
  member_fail (m, EIO, "fsync of /dev/x failed");
  member_fail (m, ENOSPC, "later");
  CHECK (strstr (member_reason (m), "/dev/x") && member_failed (m));
  CHECK (member_admit (m, p, &r, &refusal) == MEMBER_REFUSE &&
         refusal.error == EIO);
  member_leave (m, &r);
  try_open (name, EIO, "has failed");
  CHECK (do_actions (true) == 0);

  /* Its disk is gone, too: the next process may serve what is asked. */
  member_gone (m);
  CHECK (member_admit (m, p, &r, &refusal) == MEMBER_REFUSE &&
         refusal.error == ESHUTDOWN);
  member_leave (m, &r);
  try_open (name, ESHUTDOWN, "/dev/x");
  end_life (p);
}

/* A round is stored in both slots.  It is reported once it is there, not before, and
 * never decreases.  This holds while a fence drains, too, because a request that the
 * fence waits for may wait for the round.
 */
static void
scene_round (void)
{
  struct member_refusal refusal;
  struct member_request r = { .count = 0 };
  struct member_pass *p, *next;

  start_new ();
  p = open_door (1, 1);
  CHECK (on_disk ().round == 0);
  CHECK (member_round (m, p, 7, &refusal) == MEMBER_WAIT);
  CHECK (member_confirmed (m)->round == 0);
  do_actions (false);
  CHECK (member_round (m, p, 7, &refusal) == MEMBER_GO);
  CHECK (on_disk ().round == 7 && on_disk ().bad_offset == BAD_OFFSET);
  CHECK (member_round (m, p, 8, &refusal) == MEMBER_WAIT);
  CHECK (do_actions (false) == 2 && on_disk ().round == 8);
  CHECK (member_round (m, p, 8, &refusal) == MEMBER_GO);
  CHECK (member_round (m, p, 5, &refusal) == MEMBER_GO);
  CHECK (do_actions (false) == 0 && on_disk ().round == 8);

  /* A request runs, and the fence waits for it; the round does not. */
  CHECK (member_admit (m, p, &r, &refusal) == MEMBER_GO);
  epoch = 2;
  CHECK (member_round (m, p, 9, &refusal) == MEMBER_WAIT);
  CHECK (desire_four (2, false));
  CHECK (do_actions (false) > 0);
  CHECK (on_disk ().round == 9 && member_confirmed (m)->min_epoch < 2);
  CHECK (member_round (m, p, 9, &refusal) == MEMBER_REFUSE);
  CHECK (member_leave (m, &r));
  do_actions (false);
  CHECK (member_confirmed (m)->min_epoch == 2);
  next = open_door (2, 2);
  CHECK (member_round (m, next, 9, &refusal) == MEMBER_GO);
  member_close (m, p);
  end_life (next);

  /* It stands through a restart, and falls with the place. */
  start ();
  CHECK (member_confirmed (m)->round == 9);
  CHECK (desire_four (0, true));
  do_actions (false);
  CHECK (member_confirmed (m)->round == 0 && on_disk ().round == 0);
  member_free (m);
}

/* The disk's noted round is reported when no slot has a higher one: a copy of the disk
 * may have been made since the first slot was written.  Two sessions that give rounds do
 * not undo each other's.
 */
static void
scene_round_of_two (void)
{
  struct member_refusal refusal;
  struct member_action first;
  struct member_pass *p, *other;
  uint64_t noted = UINT64_MAX, later = UINT64_MAX;

  start_new ();
  p = open_door (1, 1);
  other = open_door (2, 1);
  CHECK (member_noted (m, other, &noted, &refusal) == MEMBER_GO && noted == 0);
  CHECK (member_round (m, p, 7, &refusal) == MEMBER_WAIT);
  CHECK (member_next_action (m, false, &first));
  do_action (&first);
  CHECK (member_confirmed (m)->round == 0);
  noted = UINT64_MAX;
  CHECK (member_noted (m, other, &noted, &refusal) == MEMBER_WAIT);
  /* Rounds given after the question are not waited for. */
  CHECK (member_next_action (m, false, &first));
  CHECK (member_round (m, other, 8, &refusal) == MEMBER_WAIT);
  do_action (&first);
  do_actions (false);
  CHECK (member_noted (m, other, &noted, &refusal) == MEMBER_GO);
  CHECK (noted == 8 && noted == member_confirmed (m)->round);
  CHECK (member_round (m, p, 7, &refusal) == MEMBER_GO);
  CHECK (member_round (m, other, 8, &refusal) == MEMBER_GO);
  CHECK (do_actions (false) == 0 && on_disk ().round == 8);

  /* It forgets its round when it begins to join, while somebody asks. */
  CHECK (member_round (m, p, 9, &refusal) == MEMBER_WAIT);
  CHECK (member_noted (m, p, &later, &refusal) == MEMBER_WAIT);
  member_desire_place (&wish, member_confirmed (m));
  wish.min_epoch = 1;
  wish.epoch = 3;
  wish.states[2] = MEMBER_JOINING;
  CHECK (desire ());
  do_actions (false);
  CHECK (member_noted (m, p, &later, &refusal) == MEMBER_GO && later == 0);

  /* A fenced session gets no answer. */
  wish.min_epoch = 4;
  CHECK (desire ());
  later = UINT64_MAX;
  CHECK (member_noted (m, p, &later, &refusal) == MEMBER_REFUSE &&
         refusal.error == ESHUTDOWN);
  member_close (m, other);
  end_life (p);
}

/* Several sessions write at the same time.  A bit stays as long as one of them claims it.
 * A session that connects again keeps its claims.  If one session settles, the claims of
 * another live session stay.
 */
static void
scene_claims_of_two (void)
{
  struct member_pass *p, *other;

  start_new ();
  p = open_door (1, 1);
  other = open_door (2, 1);
  write_to (p, 5);
  write_to (other, 5);
  CHECK (dirty_after_clear (p, false) == 1);
  CHECK (dirty_after_clear (p, true) == 1); /* the other lives */
  CHECK (dirty_after_clear (other, false) == 0);

  write_to (p, 5);
  write_to (other, 5);
  member_close (m, p);
  CHECK (dirty_after_clear (other, false) == 1);
  p = open_door (1, 1);
  CHECK (dirty_after_clear (other, true) == 1); /* it is back */
  CHECK (dirty_after_clear (p, false) == 0);

  write_to (p, 5);
  member_close (m, p);
  CHECK (dirty_after_clear (other, false) == 1);
  CHECK (dirty_after_clear (other, true) == 0); /* it is gone */
  end_life (other);
}

/* A joiner forgets its round, as what others write meanwhile is not here; and has the
 * one of its order when nothing is to do, not before.
 */
static void
scene_round_of_joiner (void)
{
  struct member_refusal refusal;
  struct member_pass *p;

  start_new ();
  p = open_door (1, 1);
  CHECK (member_round (m, p, 7, &refusal) == MEMBER_WAIT);
  do_actions (false);
  member_close (m, p);
  member_desire_place (&wish, member_confirmed (m));
  wish.min_epoch = wish.epoch = 3;
  wish.states[2] = MEMBER_JOINING;
  CHECK (desire ());
  do_actions (false);
  CHECK (member_join_phase (m) == MEMBER_JOIN_WAITING);
  CHECK (member_confirmed (m)->round == 0 && on_disk ().round == 0);
  wish.join_epoch = 3;
  wish.join_round = 9;
  CHECK (desire ());
  CHECK (on_disk ().round == 0);
  gathered (0);
  CHECK (member_join_phase (m) == MEMBER_JOIN_SYNCED);
  do_actions (false);
  CHECK (member_confirmed (m)->round == 9);
  member_free (m);
}

/* There are more sessions than the member tells apart: the bits of a forgotten one belong
 * to no session, and stay.
 */
static void
scene_many_sessions (void)
{
  struct member_pass *p, *first[MEMBER_SESSIONS_MAX];
  char name[TOKEN_BYTES_MAX + 16];
  uint8_t map[16];

  start_new ();
  for (unsigned i = 0; i < 3 * MEMBER_SESSIONS_MAX; i++) {
    p = open_door (1000 + i, 1);
    write_to (p, i % 100);
    member_close (m, p);
    member_check (m);
  }
  CHECK (member_dirty_extents (m) == 100);
  p = open_door (1000, 1);
  member_clear (m, p, 0, 100 * EXTENT_BYTES, false);
  CHECK (member_dirty_extents (m) == 100);
  CHECK (member_map_bytes (m) == (intents_extents (FOUR_DATA_BYTES) + 7) / 8);
  member_map_read (m, 5, 16, map);
  CHECK (map[0] == 0xff && map[6] == 0xff && map[7] == 0x0f && map[8] == 0);
  member_close (m, p);

  for (unsigned i = 0; i < MEMBER_SESSIONS_MAX; i++) {
    first[i] = open_door (2000 + i, 1);
    write_to (first[i], i);
  }
  export_name (name, DOOR_DATA, 1, true, 1);
  try_open (name, ENOMEM, "no room for one more session");

  /* Fenced sessions make room, even with their doors open; their bits stay. */
  epoch = 2;
  CHECK (desire_four (2, false));
  do_actions (false);
  p = open_door (1, 2);
  member_check (m);
  CHECK (m->sessions_count == MEMBER_SESSIONS_MAX);
  CHECK (member_dirty_extents (m) == 100);
  for (unsigned i = 0; i < MEMBER_SESSIONS_MAX; i++)
    member_close (m, first[i]);
  member_clear (m, p, 0, 100 * EXTENT_BYTES, true);
  CHECK (member_dirty_extents (m) == 0);
  end_life (p);
}

/* ---- Sessions that are over ---- */

static void
shut_one (uint64_t number, uint64_t session, uint64_t e)
{
  const struct member_over o = { number, session, e };

  member_shut (m, &o, 1);
  member_check (m);
}

/* An ended session's open door is shut, its running requests end before the end is
 * confirmed, and no door opens.  The other session goes on.
 */
static void
scene_shut (void)
{
  struct member_request r = { .count = 0 }, r2 = { .count = 0 };
  struct member_refusal refusal;
  struct member_pass *p, *p2;
  char name[TOKEN_BYTES_MAX + 16];
  struct one w;

  start_new ();
  p = open_door (1, 1);
  p2 = open_door (2, 1);
  write_to (p, 5);
  CHECK (member_admit (m, p, &r, &refusal) == MEMBER_GO);
  CHECK (member_admit (m, p2, &r2, &refusal) == MEMBER_GO);
  CHECK (member_over_done (m) == 0 && member_settled (m));
  shut_one (7, 1, 1);
  CHECK (member_over_done (m) == 0 && !member_settled (m));
  CHECK (ask (p, &w, 5, 1) == MEMBER_REFUSE);
  member_leave (m, &w.r);
  for (int writable = 0; writable < 2; writable++) {
    export_name (name, DOOR_DATA, 1, writable, 1);
    try_open (name, ESHUTDOWN, "session 0000000000000001 is over");
  }
  member_close (m, open_door (2, 1));
  write_to (p2, 6);

  /* Its bits are its own as long as it runs; then a resync settles them. */
  member_clear (m, p2, 5 * EXTENT_BYTES, EXTENT_BYTES, true);
  CHECK (member_dirty_extents (m) == 2);
  CHECK (!member_leave (m, &r));
  CHECK (member_over_done (m) == 0);
  CHECK (member_leave (m, &r2)); /* of the same turn */
  member_drain_poll (m);
  CHECK (member_over_done (m) == 7 && member_settled (m));
  member_clear (m, p, 5 * EXTENT_BYTES, EXTENT_BYTES, true);
  CHECK (member_dirty_extents (m) == 2); /* not by itself */
  member_clear (m, p2, 5 * EXTENT_BYTES, EXTENT_BYTES, true);
  CHECK (member_dirty_extents (m) == 1);

  /* A repeated order, and one for a session that is not here, wait for no request. */
  shut_one (7, 1, 1);
  shut_one (8, 9, 1);
  CHECK (member_over_done (m) == 8 && member_settled (m));
  CHECK (m->over_count == 2);

  /* Another weftd counts from its own start. */
  shut_one (3, 1, 1);
  CHECK (member_over_done (m) == 3 && m->over_count == 2);

  /* All tokens of this epoch open nothing further; open doors stay open. */
  shut_one (4, 0, 1);
  export_name (name, DOOR_DATA, 3, true, 1);
  try_open (name, ESHUTDOWN, "is over");
  write_to (p2, 7);
  member_close (m, open_door (3, 2));
  CHECK (ask (p, &w, 5, 1) == MEMBER_REFUSE);
  member_leave (m, &w.r);
  shut_one (5, 9, 1);
  CHECK (m->over_count == 0); /* they are refused in any case */
  member_close (m, p);
  end_life (p2);

  /* A token is for one life, so the next one need not know. */
  start ();
  CHECK (member_over_done (m) == 0 && m->over_count == 0);
  member_free (m);
}

/* The second of two ends is ordered while the requests of the first still leave. */
static void
scene_shut_twice (void)
{
  struct member_request r = { .count = 0 }, r2 = { .count = 0 };
  struct member_refusal refusal;
  struct member_pass *p, *p2;

  start_new ();
  p = open_door (1, 1);
  p2 = open_door (2, 1);
  CHECK (member_admit (m, p, &r, &refusal) == MEMBER_GO);
  shut_one (1, 1, 1);
  CHECK (member_admit (m, p2, &r2, &refusal) == MEMBER_GO); /* the new turn */
  shut_one (2, 2, 1);
  shut_one (3, 3, 1);
  CHECK (member_leave (m, &r));
  member_drain_poll (m);
  CHECK (member_over_done (m) == 0);
  CHECK (member_leave (m, &r2));
  member_drain_poll (m);
  CHECK (member_over_done (m) == 3);
  member_close (m, p);
  end_life (p2);
}

/* More than it can keep: then no token of their epoch opens a door. */
static void
scene_shut_many (void)
{
  char name[TOKEN_BYTES_MAX + 16];
  struct member_pass *p;

  start_new ();
  for (unsigned i = 0; i < MEMBER_OVER_MAX; i++)
    shut_one (i + 1, 1000 + i, 1);
  p = open_door (1, 1);
  shut_one (MEMBER_OVER_MAX + 1, 2, 1);
  export_name (name, DOOR_DATA, 3, true, 1);
  try_open (name, ESHUTDOWN, "is over");
  write_to (p, 1);
  CHECK (member_over_done (m) == MEMBER_OVER_MAX + 1);
  member_close (m, p);
  end_life (open_door (3, 2));
}

/* ---- Another key ---- */

/* A holder of the former key could claim any epoch, so no gate shuts that door.  Its
 * running requests end before the epoch that came with the key is confirmed.
 */
static void
scene_rekeyed (void)
{
  struct token t = { .session = 1, .writable = true, .epoch = 2 };
  uint8_t other[KEY_BYTES] = "another";
  struct member_request r = { .count = 0 }, late = { .count = 0 };
  struct member_refusal refusal;
  struct member_pass *p, *thief;
  char name[TOKEN_BYTES_MAX + 16], text[TOKEN_BYTES_MAX + 1];
  struct one w;

  start_new ();
  p = open_door (1, 1);
  thief = open_door (9, 5000);
  member_set_key (m, key); /* as each answer has it */
  CHECK (member_settled (m));
  CHECK (member_admit (m, thief, &r, &refusal) == MEMBER_GO);
  CHECK (desire_four (2, false));
  CHECK (member_admit (m, thief, &late, &refusal) == MEMBER_GO);
  member_set_key (m, other);
  member_check (m);
  CHECK (member_leave (m, &r));
  do_actions (false);
  CHECK (member_confirmed (m)->min_epoch < 2 && !member_settled (m));
  CHECK (member_leave (m, &late));
  member_drain_poll (m);
  do_actions (false);
  CHECK (member_confirmed (m)->min_epoch == 2 && member_settled (m));
  CHECK (ask (thief, &w, 5, 1) == MEMBER_REFUSE);
  member_leave (m, &w.r);
  CHECK (ask (p, &w, 5, 1) == MEMBER_REFUSE);
  member_leave (m, &w.r);
  export_name (name, DOOR_DATA, 9, true, 5000);
  try_open (name, EACCES, "token");

  memcpy (t.member, disk_id, 16);
  memcpy (t.array, array, 16);
  token_mint (&t, other, text);
  snprintf (name, sizeof name, "data/%s", text);
  member_close (m, p);
  CHECK (member_open (m, name, NULL, &p, &refusal) == MEMBER_GO);
  CHECK (ask (p, &w, 5, 1) != MEMBER_REFUSE);
  member_leave (m, &w.r);
  member_close (m, thief);
  end_life (p);
}

int
main (void)
{
  test_random_start ();
  scene_shut ();
  scene_shut_twice ();
  scene_shut_many ();
  scene_rekeyed ();
  scene_group_commit ();
  scene_set_after_clear ();
  scene_fence ();
  scene_restart ();
  scene_stale_slot ();
  scene_release ();
  scene_doors ();
  scene_round ();
  scene_round_of_two ();
  scene_claims_of_two ();
  scene_round_of_joiner ();
  scene_many_sessions ();
  return 0;
}
