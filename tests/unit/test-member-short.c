/* test-member-short.c: a member whose disk refuses writes of the header for the moment.
 * Even if a write is torn, and wherever the power fails then, no durable data is lost.
 * Requests that need the header are refused, and the member resumes when there is
 * room.
 */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "test-member-rig.h"
#include "test-random.h"

#define EXTENTS 4 /* that are written */

static struct member_pass *p;
static uint64_t next_round, durable_round;
static struct bad_list durable_list;

/* The state that others may rely on from now on. */
static void
note_durable (void)
{
  durable_round = member_confirmed (m)->round;
  if (member_bad_settled (m))
    durable_list = *member_bad (m);
}

/* A start would find all of that. */
static void
check_header (void)
{
  struct superblock sb;
  struct bad_list list;
  const char *why;
  bool mend;

  CHECK (superblock_newest (header, &sb, &why) >= 0);
  CHECK (sb.round >= durable_round);
  if (sb.bad_offset == 0) {
    CHECK (durable_list.count == 0);
    return;
  }
  CHECK (bad_decode (header + sb.bad_offset, sb.data_bytes, &list, &mend,
                     &why) == 0);
  for (unsigned i = 0; i < durable_list.count; i++)
    CHECK (bad_test (&list, durable_list.range[i].first * BAD_BLOCK_BYTES,
                     durable_list.range[i].blocks * BAD_BLOCK_BYTES));
}

static void
want_something (void)
{
  struct member_refusal refusal;
  struct one w;

  switch (test_random (4)) {
  case 0:
    member_bad_add (m, test_random (200) * 2 * BAD_BLOCK_BYTES, BAD_BLOCK_BYTES,
                    BAD_REBUILD);
    break;
  case 1:
    member_round (m, p, ++next_round, &refusal);
    break;
  case 2:
    ask (p, &w, test_random (EXTENTS), 1);
    member_leave (m, &w.r);
    break;
  case 3:
    member_clear (m, p, test_random (EXTENTS) * EXTENT_BYTES, EXTENT_BYTES,
                  false);
    break;
  }
}

/* A write may be refused after any byte of it. */
static void
tear (const struct member_action *a)
{
  memcpy (header + a->offset, a->bytes,
          test_random (test_random (2) ? 300 : a->length));
}

static void
one_step (unsigned refused_percent)
{
  struct member_action a;

  if (test_random (2))
    want_something ();
  if (!member_next_action (m, test_random (2), &a))
    return;
  if (test_random (3) == 0)
    want_something (); /* while it is under way */
  if (test_random (100) < refused_percent) {
    tear (&a);
    check_header (); /* the power may go now */
    member_action_refused (m, &a, ENOSPC);
    member_check (m);
    CHECK (member_short (m) && !member_failed (m));
  }
  else
    do_action (&a);
  note_durable ();
  check_header ();
}

static void
scene_torn (void)
{
  start_new ();
  p = open_door (7, epoch);
  next_round = durable_round = durable_list.count = 0;
  for (unsigned i = test_random (80); i > 0; i--)
    one_step (60);
  do_actions (true);
  member_relieved (m);
  note_durable ();
  CHECK (member_settled (m) && member_bad_settled (m) && !member_short (m));
  CHECK (durable_round == next_round);
  check_header ();
  for (unsigned e = 0; e < EXTENTS; e++)
    CHECK (bit_durable (e) == intents_test (&m->wanted, e));
  end_life (p);
}

/* It is refused, and not left waiting, so that nothing else waits behind it. */
static void
scene_refused (void)
{
  struct member_refusal refusal;
  struct member_action a;
  uint64_t round = UINT64_MAX;
  struct one w;

  start_new ();
  p = open_door (7, epoch);
  write_to (p, 1);
  CHECK (ask (p, &w, 2, 1) == MEMBER_WAIT && again (p, &w) == MEMBER_WAIT);
  CHECK (member_next_action (m, false, &a));
  CHECK (a.kind == MEMBER_WRITE_INTENTS);
  member_action_refused (m, &a, EDQUOT);
  CHECK (again (p, &w) == MEMBER_REFUSE);
  member_leave (m, &w.r);
  CHECK (member_round (m, p, 5, &refusal) == MEMBER_REFUSE);
  CHECK (refusal.error == ENOSPC);
  CHECK (member_noted (m, p, &round, &refusal) == MEMBER_REFUSE);
  member_bad_add (m, 0, 4096, BAD_REBUILD);
  CHECK (member_bad_settle (m, &refusal) == MEMBER_REFUSE);
  member_relieved (m);
  CHECK (member_short (m)); /* the header says when there is room */
  CHECK (ask (p, &w, 1, 1) == MEMBER_GO); /* its bit is there */
  member_leave (m, &w.r);
  do_actions (false);
  member_relieved (m);
  CHECK (!member_short (m));
  CHECK (member_bad_settle (m, &refusal) == MEMBER_GO);
  CHECK (member_round (m, p, 5, &refusal) == MEMBER_GO);
  CHECK (ask (p, &w, 2, 1) == MEMBER_GO && bit_durable (2));
  member_leave (m, &w.r);
  end_life (p);
}

/* A bit that has fallen falls on the disk, too, when there is room. */
static void
scene_cleared (void)
{
  struct member_action a;

  start_new ();
  p = open_door (7, epoch);
  write_to (p, 1);
  do_actions (true);
  member_clear (m, p, EXTENT_BYTES, EXTENT_BYTES, false);
  CHECK (member_next_action (m, true, &a) && a.kind == MEMBER_WRITE_INTENTS);
  member_action_refused (m, &a, ENOSPC);
  CHECK (bit_durable (1));
  do_actions (true);
  CHECK (!bit_durable (1));
  end_life (p);
}

int
main (void)
{
  test_random_start ();
  scene_refused ();
  scene_cleared ();
  for (unsigned i = 0; i < 200; i++)
    scene_torn ();
  return 0;
}
