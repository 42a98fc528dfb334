/* test-host-seats.c: the messages to the array engine when connections come and go. */

#include <config.h>

#include <assert.h>
#include <string.h>

#include "host/seats.h"
#include "test-array-rig.h"

static struct seats s;
static bool connected[ARRAY_MEMBERS_MAX];
static enum member_state states[ARRAY_MEMBERS_MAX];

/* raid-10, n = 4: unit 0 is on member 0, its image on member 2. */
static void
begin_as (const char *letters, const char *up)
{
  config.epoch = 1;
  rig_states (letters, states);
  for (unsigned m = 0; m < 4; m++)
    connected[m] = up[m] == '1';
  seats_begin (&s, 4, 1, states, connected);
  seats_seen (&s, config.states);
  begin (LAYOUT_RAID10, 4);
}

static bool
commit_as (uint64_t epoch, const char *letters)
{
  enum member_state to[ARRAY_MEMBERS_MAX];
  bool done;

  rig_states (letters, to);
  done = seats_commit (&s, a, epoch, to, now);
  tick_after (MS);
  return done;
}

static void
take (unsigned member, uint64_t connection)
{
  seats_take (&s, a, member, connection, true, UINT64_MAX, now);
  tick_after (MS);
}

/* Is what is written to its copy on member 2 sent there? */
static bool
gets_writes (void)
{
  struct array_request w = {
    .op = ARRAY_WRITE, .flags = ARRAY_FUA, .length = 4096, .buf = ones
  };
  uint64_t bytes = config.layout.member_bytes;

  memset (members[2], 0, bytes);
  submit (&w);
  for (unsigned i = 0; i < 500; i++) { /* older than images become */
    answer_all ();
    tick_after (MS);
  }
  assert (done (&w));
  return !all_are (members[2], 0, bytes);
}

/* A joiner counts from its connection on, a new one is a new beginning. */
static void
test_joiner (void)
{
  begin_as ("iiji", "1101");
  assert (config.states[2] == MEMBER_OUT && !s.joined[2]);
  assert (!gets_writes ());
  take (2, 1);
  assert (s.joined[2] && s.connection[2] == 1 && gets_writes ());
  assert (commit_as (2, "iioi") && !s.joined[2] && !gets_writes ());
  assert (commit_as (3, "iiji") && !gets_writes ());
  take (2, 2);
  assert (gets_writes ());
  assert (!commit_as (2, "iioi") && s.states[2] == MEMBER_JOINING);
  assert (gets_writes ()); /* that was late */
  end ();
}

/* From in-sync to joining there is no way but by way of out. */
static void
test_out_was_missed (void)
{
  begin_as ("iiii", "1111");
  assert (commit_as (4, "iiji") && !s.joined[2] && !gets_writes ());
  take (2, 2);
  assert (gets_writes ());
  end ();
}

/* A member that came to be in-sync behind our back is lost until there is a
 * connection.
 */
static void
test_in_sync_unseen (void)
{
  struct array_request r = READ (0, 4096, back);

  begin_as ("iioi", "1101");
  assert (commit_as (5, "iiii") && notices_lost == 1 && notice.member == 2);
  take (2, 1);
  assert (s.joined[2] && gets_writes ());
  assert (carry_out (&r) == 0);
  end ();
}

/* Pending notices about the last connection are dropped when there is another.
 */
static void
test_loss_that_nobody_took (void)
{
  struct array_notice n;

  begin_as ("iiii", "1111");
  array_lost (a, 2, "it broke", now);
  array_lost (a, 3, "it broke", now);
  seats_take (&s, a, 2, 2, true, UINT64_MAX, now);
  assert (array_next_notice (a, &n) && n.kind == NOTICE_LOST && n.member == 3);
  assert (!array_next_notice (a, &n));
  tick_after (MS);
  assert (gets_writes ());
  end ();
}

static void
test_prepared_in_order (void)
{
  enum member_state to[ARRAY_MEMBERS_MAX];

  begin_as ("iiii", "1111");
  rig_states ("iiio", to);
  seats_prepare (&s, a, 1, to, now); /* not above what is committed */
  tick_after (MS);
  answer_all ();
  assert (s.prepared == 0 && notices_prepared == 0);
  seats_prepare (&s, a, 3, to, now);
  tick_after (MS);
  while (ios_count > 0)
    answer_all ();
  assert (notices_prepared == 1 && notice.epoch == 3);
  seats_prepare (&s, a, 2, to, now);
  tick_after (MS);
  assert (s.prepared == 3 && notices_prepared == 1);
  end ();
}

int
main (void)
{
  rig_init ();
  test_joiner ();
  test_out_was_missed ();
  test_in_sync_unseen ();
  test_loss_that_nobody_took ();
  test_prepared_in_order ();
  return 0;
}
