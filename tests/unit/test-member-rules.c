/* test-member-rules.c: the rules of joining, each by itself; and late or failing events:
 * states of an epoch that is over, a flush that began before the copy was made, the write
 * of a header.  test-member-join.c tests the rules together.
 */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "test-member-rig.h"
#include "test-random.h"

#define EXTENTS (2 * JOIN_SLOTS)
#define DATA_BYTES (EXTENTS * EXTENT_BYTES)

static uint64_t used_bytes = DATA_BYTES; /* by the array, once it has started */
static unsigned copies = 2;
static struct member_pass *pass;
static uint64_t run;

static void
obey (void)
{
  CHECK (desire ());
  do_actions (true);
}

/* A member in this state, in epoch 1, with these extents dirty. */
static void
start_as (enum member_state state, unsigned dirty)
{
  enum layout_kind layout = copies > 2 ? LAYOUT_RAID1 : LAYOUT_CHAINED;

  disk_format ((struct superblock) { .data_bytes = DATA_BYTES,
                                     .n = copies,
                                     .groups = 1,
                                     .unit = 65536,
                                     .layout = layout,
                                     .states = { state } },
               dirty);
  disk_start (true);
  wish_place (layout, copies, 1);
  wish.member_bytes = used_bytes;
  wish.states[0] = state;
  obey ();
}

/* A write to `count` extents from this one on; it asks again at once if it is to
 * wait.
 */
static enum member_verdict
write_at (struct member_pass *p, struct one *w, uint64_t extent, uint64_t count)
{
  enum member_verdict v = ask (p, w, extent, count);

  return v == MEMBER_WAIT ? again (p, w) : v;
}

static bool
applies (const struct one *w, uint64_t extent, uint64_t extents)
{
  uint64_t length = extents * EXTENT_BYTES;
  bool r = member_applies (m, &w->r, extent * EXTENT_BYTES, &length);

  CHECK (length == extents * EXTENT_BYTES);
  return r;
}

/* Copying, with a door open; to do are 0 to dirty - 1. */
static void
start_copying (unsigned dirty)
{
  start_as (MEMBER_JOINING, dirty);
  CHECK (member_join_phase (m) == MEMBER_JOIN_WAITING);
  wish.join_epoch = 1;
  CHECK (desire ());
  gathered (1);
  CHECK (member_join_phase (m) == MEMBER_JOIN_COPYING);
  run = member_join_run (m);
  pass = open_door (1, 1);
}

static bool
dirty_at (uint64_t extent)
{
  uint8_t byte;

  member_map_read (m, extent / 8, 1, &byte);
  return byte >> (extent % 8) & 1;
}

/* ---- */

/* Phases: the order, what is gathered and missed, and its being durable. */
static void
rule_phases (void)
{
  struct member_join_progress p;
  struct member_action a;
  struct one w;
  uint64_t e;

  start_as (MEMBER_JOINING, 2);
  run = member_join_run (m);
  pass = open_door (1, 1);
  /* Missed: dropped at once, and to do. */
  CHECK (write_at (pass, &w, 7, 2) == MEMBER_GO && !applies (&w, 7, 2));
  member_leave (m, &w.r);
  CHECK (dirty_at (7) && dirty_at (8) && !dirty_at (9));
  CHECK (!member_join_next (m, run, &e));
  wish.join_epoch = 1;
  CHECK (desire () && member_join_epoch (m) == 1);
  gathered (UINT64_C (1) << 50);
  CHECK (member_join_phase (m) == MEMBER_JOIN_GATHERING); /* not durable */
  CHECK (!member_join_next (m, run, &e));
  CHECK (member_next_action (m, false, &a) && a.kind == MEMBER_WRITE_INTENTS);
  member_action_done (m, &a, 0);
  CHECK (member_join_phase (m) == MEMBER_JOIN_COPYING);
  CHECK (member_join_run (m) == run);
  member_join_progress (m, &p);
  CHECK (p.todo == 5 && p.unstable == 0 && p.total == 5);
  while (member_join_next (m, run, &e))
    member_join_copied (m, run, e, true);
  member_join_progress (m, &p);
  CHECK (p.todo == 0 && p.unstable == 5 && p.total == 5);
  CHECK (member_join_phase (m) == MEMBER_JOIN_COPYING);
  CHECK (member_dirty_extents (m) == 5);
  copies_stable ();
  CHECK (member_join_phase (m) == MEMBER_JOIN_SYNCED);
  CHECK (member_dirty_extents (m) == 0);

  /* In-sync, and as dirty as before if something was left to do. */
  wish.states[0] = MEMBER_IN_SYNC;
  wish.epoch = 2;
  CHECK (desire () && member_join_phase (m) == MEMBER_JOIN_NONE);
  do_actions (true);
  end_life (pass);
  start_copying (3);
  wish.states[0] = MEMBER_IN_SYNC;
  wish.epoch = 2;
  CHECK (desire () && member_join_phase (m) == MEMBER_JOIN_NONE);
  CHECK (member_dirty_extents (m) == 3);
  end_life (pass);
}

/* A source was lost before its flush.  All data copied since the last flush is copied
 * again, marked or not, and writes to it are dropped till then.
 */
static void
rule_redo (void)
{
  struct member_join_progress p;
  uint64_t e, mark;
  struct one w;

  start_copying (4);
  copy_extent (0);
  copies_stable ();
  CHECK (!dirty_at (0));
  for (unsigned i = 1; i <= 2; i++) {
    copy_extent (i);
    mark = member_join_mark (m);
  }
  CHECK (member_join_next (m, run, &e) && e == 3); /* given back later */
  member_join_redo (m, run - 1);
  member_join_progress (m, &p);
  CHECK (p.todo == 1 && p.unstable == 2);
  member_join_redo (m, run);
  member_join_progress (m, &p);
  CHECK (p.todo == 3 && p.unstable == 0 && p.total == 4);
  member_check (m);
  member_join_stable (m, run, mark);
  CHECK (dirty_at (1) && dirty_at (2) && dirty_at (3) && !dirty_at (0));
  CHECK (write_at (pass, &w, 1, 1) == MEMBER_GO && !applies (&w, 1, 1));
  member_leave (m, &w.r);
  member_join_copied (m, run, 3, true);
  while (member_join_next (m, run, &e))
    member_join_copied (m, run, e, true);
  copies_stable ();
  CHECK (member_join_phase (m) == MEMBER_JOIN_SYNCED);
  end_life (pass);
}

/* Dropped, held, applied; by parts. */
static void
rule_writes (void)
{
  struct one w;
  uint64_t e, length;

  start_copying (3);
  CHECK (member_join_next (m, run, &e) && e == 0);
  CHECK (write_at (pass, &w, 0, 1) == MEMBER_WAIT);
  member_join_copied (m, run, 0, true);
  CHECK (again (pass, &w) == MEMBER_GO); /* its bit is there, and now held */
  CHECK (applies (&w, 0, 1));
  member_leave (m, &w.r);
  copies_stable ();
  CHECK (dirty_at (0)); /* the session's own */

  /* 1 and 2 are to do, 3 and 4 are not: these need bits. */
  CHECK (write_at (pass, &w, 1, 4) == MEMBER_WAIT);
  do_actions (true);
  CHECK (again (pass, &w) == MEMBER_GO);
  CHECK (!applies (&w, 1, 2) && !applies (&w, 2, 1) && applies (&w, 3, 2));
  length = 4 * EXTENT_BYTES - 1;
  CHECK (!member_applies (m, &w.r, EXTENT_BYTES + 1, &length));
  CHECK (length == 2 * EXTENT_BYTES - 1);
  /* While it runs, none of its extents is given, nor one in the same slot. */
  CHECK (!member_join_next (m, run, &e));
  member_join_rest (m);
  CHECK (!applies (&w, 1, 2));
  member_leave (m, &w.r);
  CHECK (member_join_next (m, run, &e) && e == 1);
  member_join_copied (m, run, 1, false);
  copy_extent (2);
  copy_extent (1); /* again */
  end_life (pass);
}

/* Two sessions write beside the copying.  An extent where one dropped a write is not
 * copied before the other's write has left, too.  Both are held while it is copied, and
 * each claims its bit afterwards.
 */
static void
rule_two_writers (void)
{
  struct member_pass *other;
  struct one w, w2;
  uint64_t e;

  start_copying (1);
  other = open_door (2, 1);
  CHECK (write_at (pass, &w, 0, 1) == MEMBER_GO && !applies (&w, 0, 1));
  CHECK (write_at (other, &w2, 0, 1) == MEMBER_GO && !applies (&w2, 0, 1));
  member_leave (m, &w.r);
  CHECK (!member_join_next (m, run, &e));
  CHECK (member_leave (m, &w2.r)); /* somebody waits for that */
  CHECK (member_join_next (m, run, &e) && e == 0);
  CHECK (write_at (pass, &w, 0, 1) == MEMBER_WAIT);
  CHECK (write_at (other, &w2, 0, 1) == MEMBER_WAIT);
  member_join_copied (m, run, 0, true);
  CHECK (again (pass, &w) == MEMBER_GO && applies (&w, 0, 1));
  CHECK (again (other, &w2) == MEMBER_GO && applies (&w2, 0, 1));
  member_leave (m, &w.r);
  member_leave (m, &w2.r);
  copies_stable ();
  CHECK (member_join_phase (m) == MEMBER_JOIN_SYNCED && dirty_at (0));
  member_clear (m, pass, 0, EXTENT_BYTES, false);
  CHECK (dirty_at (0)); /* it is not in-sync */
  wish.states[0] = MEMBER_IN_SYNC;
  wish.epoch = 2;
  obey ();
  member_clear (m, pass, 0, EXTENT_BYTES, false);
  CHECK (dirty_at (0));
  member_clear (m, other, 0, EXTENT_BYTES, false);
  CHECK (!dirty_at (0));
  member_close (m, other);
  end_life (pass);
}

/* An extent that never comes free is reserved.  A later request waits until its copy is
 * done; earlier requests do not wait.
 */
static void
rule_reserve (void)
{
  struct one a, b, c;
  uint64_t e;

  start_copying (1);
  CHECK (write_at (pass, &a, 0, 1) == MEMBER_GO && !applies (&a, 0, 1));
  CHECK (!member_join_next (m, run, &e));
  CHECK (write_at (pass, &b, 0, 1) == MEMBER_WAIT);
  CHECK (write_at (pass, &c, JOIN_SLOTS, 1) == MEMBER_WAIT); /* the same slot */
  CHECK (again (pass, &a) == MEMBER_GO);
  CHECK (member_leave (m, &a.r)); /* somebody waits for that */
  CHECK (again (pass, &b) == MEMBER_WAIT);
  CHECK (member_join_next (m, run, &e) && e == 0);
  CHECK (again (pass, &b) == MEMBER_WAIT);
  CHECK (again (pass, &c) == MEMBER_WAIT); /* for its bit */
  do_actions (true);
  CHECK (again (pass, &c) == MEMBER_GO);
  member_leave (m, &c.r);
  member_join_copied (m, run, e, true);
  CHECK (again (pass, &b) == MEMBER_GO && applies (&b, 0, 1));
  member_leave (m, &b.r);
  end_life (pass);

  /* The copying may give up its reservation. */
  start_copying (1);
  CHECK (write_at (pass, &a, 0, 1) == MEMBER_GO);
  CHECK (!member_join_next (m, run, &e));
  CHECK (write_at (pass, &b, 0, 1) == MEMBER_WAIT);
  member_join_rest (m);
  CHECK (again (pass, &b) == MEMBER_GO);
  member_leave (m, &a.r);
  member_leave (m, &b.r);
  end_life (pass);
}

/* A fence, or a new order, begins again; a copy of before is waited for. */
static void
rule_again (void)
{
  struct member_refusal refusal;
  struct one w;
  uint64_t e, mark;

  start_copying (3);
  /* One is copied before the mark, one after it. */
  copy_extent (0);
  mark = member_join_mark (m);
  copy_extent (1);
  member_join_stable (m, run, mark);
  CHECK (!dirty_at (0) && dirty_at (1) && dirty_at (2));
  do_actions (true);
  CHECK (write_at (pass, &w, 0, 1) == MEMBER_WAIT);
  do_actions (true);
  CHECK (again (pass, &w) == MEMBER_GO && applies (&w, 0, 1));
  CHECK (member_join_next (m, run, &e) && e == 2);

  wish.min_epoch = 2;
  CHECK (desire ());
  CHECK (member_join_run (m) == run + 1 && member_join_epoch (m) == 0);
  CHECK (member_join_phase (m) == MEMBER_JOIN_WAITING);
  CHECK (!applies (&w, 0, 1)); /* of an earlier run */
  CHECK (dirty_at (0) && m->join.todo_count == 3);
  /* The order of the time before is none now. */
  CHECK (desire () && member_join_epoch (m) == 0);
  wish.join_epoch = 2;
  CHECK (desire () && member_join_phase (m) == MEMBER_JOIN_WAITING);
  do_actions (true);
  CHECK (member_confirmed (m)->min_epoch == 1);
  CHECK (member_leave (m, &w.r) == false);
  do_actions (true);
  CHECK (member_confirmed (m)->min_epoch == 1); /* the copy writes still */
  member_join_copied (m, run, 2, true);
  do_actions (true);
  CHECK (member_confirmed (m)->min_epoch == 2);
  CHECK (member_join_phase (m) == MEMBER_JOIN_GATHERING);
  CHECK (m->join.todo_count == 3);
  CHECK (member_admit (m, pass, &w.r, &refusal) == MEMBER_REFUSE);
  member_leave (m, &w.r);
  gathered (1);
  CHECK (!member_join_next (m, run, &e));
  CHECK (member_join_next (m, run + 1, &e));
  /* An order that was withdrawn for a while is the same one. */
  wish.join_epoch = 0;
  CHECK (desire () && member_join_run (m) == run + 1);
  wish.join_epoch = 3;
  CHECK (desire () && member_join_run (m) == run + 2);
  member_join_copied (m, run + 1, e, false);
  /* Out: everything stops, nothing is forgotten. */
  wish.states[0] = MEMBER_OUT;
  wish.epoch = 3;
  CHECK (desire () && member_join_phase (m) == MEMBER_JOIN_NONE);
  CHECK (!member_join_next (m, run + 2, &e) && member_dirty_extents (m) == 3);
  end_life (pass);
}

/* A dropped write is not carried out later, whatever happened to the extent meanwhile.
 */
static void
rule_dropped (void)
{
  struct one w;

  start_copying (1);
  CHECK (write_at (pass, &w, 0, 1) == MEMBER_GO && !applies (&w, 0, 1));
  wish.states[0] = MEMBER_IN_SYNC;
  wish.epoch = 2;
  obey ();
  CHECK (!applies (&w, 0, 1));
  member_clear (m, pass, 0, EXTENT_BYTES, true);
  CHECK (member_dirty_extents (m) == 0);
  wish.states[0] = MEMBER_JOINING;
  wish.epoch = 3;
  CHECK (desire () && !applies (&w, 0, 1));
  member_leave (m, &w.r);
  end_life (pass);
}

/* A request that was admitted before the joining began is waited for. */
static void
rule_before (void)
{
  struct member_request read = { .reads = true }, other = { .reads = false };
  struct member_refusal refusal;
  struct one w;

  start_as (MEMBER_OUT, 1);
  pass = open_door (1, 1);
  CHECK (write_at (pass, &w, 5, 1) == MEMBER_WAIT);
  do_actions (true);
  CHECK (again (pass, &w) == MEMBER_GO);
  CHECK (member_admit (m, pass, &read, &refusal) == MEMBER_GO);
  member_leave (m, &read);
  wish.states[0] = MEMBER_JOINING;
  wish.join_epoch = 1;
  CHECK (desire () && member_join_phase (m) == MEMBER_JOIN_WAITING);
  CHECK (applies (&w, 5, 1));
  CHECK (member_leave (m, &w.r));
  CHECK (member_join_phase (m) == MEMBER_JOIN_GATHERING);
  CHECK (m->join.todo_count == 2); /* its own bit is to do as well */

  /* Data is not read, but all else may be asked. */
  CHECK (member_admit (m, pass, &read, &refusal) == MEMBER_WAIT);
  CHECK (member_retry (m, pass, &read, &refusal) == MEMBER_REFUSE);
  CHECK (refusal.error == ESHUTDOWN && strstr (refusal.why, "being rebuilt"));
  member_leave (m, &read);
  CHECK (member_admit (m, pass, &other, &refusal) == MEMBER_GO);
  member_leave (m, &other);
  end_life (pass);
}

/* A disk that replaces another is dirty as a whole before it reports its place; a disk of
 * a new array is unchanged.  The array's used length is noted.
 */
static void
rule_place (void)
{
  static const enum member_state states[] = { MEMBER_IN_SYNC, MEMBER_OUT,
                                              MEMBER_JOINING };

  for (unsigned i = 0; i < 3; i++) {
    struct member_action a;
    unsigned first;

    disk_format ((struct superblock) { .data_bytes = DATA_BYTES }, 0);
    disk_start (true);
    wish_place (LAYOUT_CHAINED, 2, 1);
    wish.states[0] = states[i];
    wish.dup = 1;
    CHECK (desire ());
    CHECK (member_next_action (m, false, &a));
    first = a.kind;
    CHECK ((first == MEMBER_WRITE_SLOT) == (states[i] == MEMBER_IN_SYNC));
    if (first == MEMBER_WRITE_INTENTS) {
      struct member_action b;

      CHECK (!member_next_action (m, true, &b)); /* the superblock waits */
    }
    member_action_done (m, &a, 0);
    do_actions (true);
    CHECK (member_settled (m));
    CHECK (member_confirmed (m)->member_bytes == DATA_BYTES);
    CHECK (member_confirmed (m)->dup == 1);
    CHECK (member_dirty_extents (m) ==
           (states[i] == MEMBER_IN_SYNC ? 0 : EXTENTS));
    wish.member_bytes = DATA_BYTES - 4096;
    CHECK (!desire ());
    wish.member_bytes = DATA_BYTES;
    wish.epoch = EPOCH_MAX; /* its next process would find none above it */
    CHECK (!desire ());
    member_free (m);
  }

  /* start () makes a superblock that does not know it, and learns it. */
  start_as (MEMBER_IN_SYNC, 0);
  CHECK (member_confirmed (m)->member_bytes == DATA_BYTES);
  wish.member_bytes = 0;
  CHECK (desire ());
  CHECK (m->next.member_bytes == DATA_BYTES);
  member_free (m);
}

/* The array's used range ends within an extent, long before the data area does. */
static void
rule_clear_end (void)
{
  const uint64_t last = 5, end = last * EXTENT_BYTES + 12288;
  struct one w;

  used_bytes = end;
  start_as (MEMBER_IN_SYNC, 0);
  used_bytes = DATA_BYTES;
  pass = open_door (1, 1);
  CHECK (write_at (pass, &w, last - 1, 3) == MEMBER_WAIT);
  do_actions (true);
  CHECK (again (pass, &w) == MEMBER_GO);
  member_leave (m, &w.r);
  CHECK (member_dirty_extents (m) == 3);
  /* Not before the end, not past it, not without the extent's beginning. */
  member_clear (m, pass, last * EXTENT_BYTES, 12288 - 4096, true);
  member_clear (m, pass, last * EXTENT_BYTES, 12288 + 4096, true);
  member_clear (m, pass, last * EXTENT_BYTES + 4096, 12288 - 4096, true);
  CHECK (member_dirty_extents (m) == 3);
  member_clear (m, pass, last * EXTENT_BYTES, 12288, true);
  CHECK (member_dirty_extents (m) == 2);
  CHECK (!intents_test (&m->wanted, last));
  member_clear (m, pass, 0, end, true);
  CHECK (member_dirty_extents (m) == 1);
  do_actions (true);
  CHECK (!intents_test (&m->durable, last));
  CHECK (intents_test (&m->durable, last + 1));
  end_life (pass);
}

/* A weftd with an older database says what was, not what is. */
static void
rule_late_states (void)
{
  start_as (MEMBER_IN_SYNC, 0);
  wish.epoch = 9;
  wish.states[1] = MEMBER_OUT;
  obey ();
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
rule_late_flush (void)
{
  uint64_t mark;

  start_copying (2);
  copy_extent (0);
  mark = member_join_mark (m);
  copy_extent (1);
  CHECK (member_join_mark (m) > mark);
  member_join_stable (m, run, mark);
  CHECK (dirty_at (1));
  CHECK (member_join_phase (m) == MEMBER_JOIN_COPYING);
  member_join_stable (m, run, mark + 1);
  CHECK (member_dirty_extents (m) == 0);
  CHECK (member_join_phase (m) == MEMBER_JOIN_SYNCED);
  end_life (pass);
}

/* A third copy may lack data that a joiner has copied.  This holds where the peers had a
 * bit, even one from a write during the copying, and where the third member is out, or
 * joins and has not gathered yet.  Then the joiner's bit stays, so that the third copy
 * finds it there even if the source is gone later.
 */
static void
rule_third_copy (enum member_state third)
{
  /* The bits of the peers when they are gathered, and when extent 3 is copied. */
  static const uint64_t bits[][2] = {
    { 1 << 3, 1 << 3 },
    { 0, 1 << 3 }, /* only the joiner's own is left of the last time */
    { 0, 1 << 2 },
  };

  copies = 3;
  start_as (MEMBER_JOINING, 0);
  copies = 2;
  wish.epoch++;
  wish.states[2] = third;
  for (unsigned i = 0; i < 3; i++) {
    bool stays = i < 2 || third != MEMBER_IN_SYNC;
    struct intents peers;

    wish.join_epoch = i + 1;
    obey ();
    gathered (bits[i][0]);
    do_actions (true);
    copy_extent (3);
    CHECK (intents_init (&peers, EXTENTS) == 0);
    atomic_store (&peers.word[0], bits[i][1]);
    member_join_unequal (m, member_join_run (m), &peers);
    intents_free (&peers);
    copies_stable ();
    do_actions (true);
    CHECK (member_join_phase (m) == MEMBER_JOIN_SYNCED);
    CHECK (intents_test (&m->wanted, 3) == stays);
    CHECK (intents_test (&m->durable, 3) == stays);
  }
  member_free (m);
}

/* The content after a failed write is unknown: the member fails, and confirms nothing.
 */
static void
rule_failed_header (void)
{
  struct member_action a;

  start_as (MEMBER_IN_SYNC, 0);
  wish.epoch = wish.min_epoch = 7;
  CHECK (desire ());
  CHECK (member_next_action (m, true, &a) && a.kind == MEMBER_WRITE_SLOT);
  member_action_done (m, &a, ENOSPC);
  CHECK (member_failed (m));
  CHECK (strstr (member_reason (m), "superblock"));
  CHECK (strstr (member_reason (m), strerror (ENOSPC)));
  CHECK (!member_next_action (m, true, &a));
  CHECK (member_confirmed (m)->min_epoch == 1);
  member_free (m);
}

/* A superblock, or a list of bad ranges, of which no other writing can be counted: the
 * member is at its end, before it writes what its next process could not read.
 */
static void
rule_counted_to_the_end (bool list)
{
  struct bad_list bad = { .sequence = SEQUENCE_MAX - 1 };
  struct superblock like = { .data_bytes = DATA_BYTES,
                             .bad_offset = BAD_OFFSET };
  static uint8_t before[HEADER_BYTES];
  struct member_action a;

  if (!list)
    like.sequence = SEQUENCE_MAX - 3; /* it is written twice */
  disk_format (like, 0);
  disk_start (true);
  if (list)
    member_bad_begin (m, &bad, true); /* one of its slots was bad */
  else {
    m->next.min_epoch = 5;
    m->slots_wanted = 1;
    CHECK (member_next_action (m, true, &a) && a.kind == MEMBER_WRITE_SLOT);
    member_action_done (m, &a, 0);
    CHECK (!member_failed (m));
  }
  memcpy (before, header, sizeof header);
  CHECK (!member_next_action (m, true, &a) && member_failed (m));
  CHECK (strstr (member_reason (m), list ? "bad ranges" : "superblock"));
  CHECK (!member_next_action (m, true, &a));
  CHECK (memcmp (before, header, sizeof header) == 0);
  CHECK (member_bad (m)->sequence <= SEQUENCE_MAX);
  member_free (m);
}

/* A disk that weftd has not taken in is left as it is, though it has something to
 * write.
 */
static void
rule_not_taken_in (void)
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
  rule_phases ();
  rule_redo ();
  rule_writes ();
  rule_two_writers ();
  rule_reserve ();
  rule_again ();
  rule_dropped ();
  rule_before ();
  rule_place ();
  rule_clear_end ();
  rule_not_taken_in ();
  rule_late_states ();
  rule_late_flush ();
  rule_third_copy (MEMBER_OUT);
  rule_third_copy (MEMBER_JOINING);
  rule_third_copy (MEMBER_IN_SYNC);
  rule_failed_header ();
  rule_counted_to_the_end (false);
  rule_counted_to_the_end (true);
  return 0;
}
