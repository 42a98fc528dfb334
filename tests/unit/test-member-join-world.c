/* test-member-join-world.c: the joiner's disk, the other parties' state, their
 * ends, and what holds always.
 */

#include <config.h>

#include <string.h>

#include "test-member-join-world.h"
#include "test-random.h"

bool calm;
bool idle;

void
world_start (uint64_t seed)
{
  test_seed = seed;
  test_state = ~seed;
}

/* ---- The joiner's disk ---- */

uint64_t mine[HOT][2], stable[HOT][2];

uint64_t
cell_at (unsigned h, unsigned c)
{
  return hot[h] * EXTENT_BYTES + (c == 0           ? 0
                                  : hot[h] == LAST ? 4096
                                                   : EXTENT_BYTES - 4096);
}

void
new_disk (void)
{
  memset (mine, 0xee, sizeof mine);
  memset (stable, 0xee, sizeof stable);
  disk_format ((struct superblock) { .data_bytes = DATA_BYTES }, 0);
}

/* ---- weftd, survivor, writer ---- */

uint64_t theirs[HOT][2];
bool their_bit[HOT];
uint64_t version;

enum member_state state;
uint64_t fence;
uint64_t change_epoch;
enum member_state change_to;
uint64_t wanted_min;

struct conn conns[CONNS];
struct conn *writer;
uint64_t session = 1;
struct write writes[WRITES];
struct copy_job copies[COPIES];
struct gather gather;
struct flush flush;

void
data_stable (void)
{
  memcpy (stable, mine, sizeof mine);
  flush.used = false;
}

bool
covers (const struct write *w, unsigned h, unsigned c)
{
  uint64_t at = cell_at (h, c);

  for (unsigned i = 0; i < w->r.count; i++)
    if (w->records[i].offset <= at &&
        at < w->records[i].offset + w->records[i].length)
      return true;
  return false;
}

void
hear_weftd (void)
{
  wish_place (LAYOUT_CHAINED, 2, epoch);
  wish.member_bytes = USED_BYTES;
  wish.min_epoch = wanted_min = change_epoch ? change_epoch : fence;
  wish.position = 1;
  wish.states[1] = state;
  if (state == MEMBER_JOINING && !change_epoch && writer && !writer->dead)
    wish.join_epoch = fence;
  CHECK (desire ());
}

/* ---- What holds always ---- */

static bool
same_but_for_what_is_on_its_way (void)
{
  for (unsigned h = 0; h < HOT; h++)
    for (unsigned c = 0; c < 2; c++) {
      bool same = mine[h][c] == theirs[h][c];

      for (int i = 0; i < WRITES && !same; i++)
        same = writes[i].at != FREE && covers (&writes[i], h, c);
      if (!same)
        return false;
    }
  return true;
}

void
check_world (void)
{
  member_check (m);
  if (!change_epoch && writer && !writer->dead &&
      (state == MEMBER_IN_SYNC ||
       (state == MEMBER_JOINING && m->join.order == fence &&
        m->join.phase == MEMBER_JOIN_SYNCED)))
    CHECK (same_but_for_what_is_on_its_way ());
  for (int i = 0; i < COPIES; i++)
    if (copies[i].used)
      CHECK (copies[i].given_min >= member_confirmed (m)->min_epoch);
}

/* ---- Ends ---- */

void
write_forget (struct write *w)
{
  if (w->at >= WAITING)
    member_leave (m, &w->r);
  w->at = FREE;
}

void
reach_survivor (struct write *w)
{
  for (unsigned h = 0; h < HOT; h++)
    for (unsigned c = 0; c < 2; c++)
      if (covers (w, h, c))
        theirs[h][c] = w->version;
}

void
hang_up (bool dies)
{
  if (writer)
    writer->dead = true;
  for (int i = 0; i < WRITES; i++) {
    struct write *w = &writes[i];

    if (w->at == SENDING || (dies && w->at == WRITTEN))
      w->at = FREE;
    else if (dies && w->at == NOTED) {
      if (test_random (2))
        reach_survivor (w);
      w->at = FREE;
    }
  }
}

void
leave_out (void)
{
  hang_up (false);
  /* A change that is under way is replaced by one with a higher number. */
  epoch = 1 + (change_epoch ? change_epoch : epoch);
  change_epoch = 0;
  state = MEMBER_OUT;
}

void
power_off (void)
{
  for (int i = 0; i < WRITES; i++)
    if (writes[i].at >= SENDING)
      write_forget (&writes[i]);
  for (int i = 0; i < CONNS; i++)
    if (conns[i].pass)
      member_close (m, conns[i].pass);
  memset (conns, 0, sizeof conns);
  memset (copies, 0, sizeof copies);
  gather.used = flush.used = false;
  writer = NULL;
  disk_crash ();
  for (unsigned h = 0; h < HOT; h++)
    for (unsigned c = 0; c < 2; c++)
      mine[h][c] = stable[h][c] = test_random (2) ? mine[h][c] : stable[h][c];
  member_free (m);
}

void
power_on (void)
{
  disk_start (true);
  CHECK (m->joining == (m->join.phase == MEMBER_JOIN_WAITING));
  if (!format_uuid_zero (m->next.array))
    for (unsigned h = 0; h < HOT; h++)
      for (unsigned c = 0; c < 2; c++)
        CHECK (mine[h][c] == theirs[h][c] || their_bit[h] ||
               intents_test (&m->orphans, hot[h]));
  do_actions (false);
  wanted_min = m->gate;
}
