/* volume-turn.c: whose turn a segment of the volume is.
 *
 * Requests that change which blocks are present take turns in their segment, in the order
 * in which they were submitted.  A write whose blocks are all present waits only for
 * changes that were submitted before it: the array engine orders writes that overlap
 * (core/array/array-range.c).  A read needs no turn: it reads the blocks that were present
 * when it began.
 *
 * A segment has an object here only while a part has it alone or waits for it.
 */

#include <config.h>

#include <assert.h>

#include "volume-internal.h"

static struct turn *
turn_find (struct volume *v, uint32_t at)
{
  struct turn *t;

  if (v->turns_count > 0)
    LIST_FOREACH (t, &v->turns[at % TURN_LISTS], link)
      if (t->at == at)
        return t;
  return NULL;
}

static struct turn *
turn_new (struct volume *v, uint32_t at)
{
  struct turn *t = spares_take (&v->turns_spare, sizeof *t);

  t->at = at;
  TAILQ_INIT (&t->waiting);
  LIST_INSERT_HEAD (&v->turns[at % TURN_LISTS], t, link);
  v->turns_count++;
  return t;
}

/* The bits from block `first` to before block `end`. */
static uint64_t
bits (uint64_t first, uint64_t end)
{
  if (first >= end)
    return 0;
  return (end - first == 64 ? UINT64_MAX : (UINT64_C (1) << (end - first)) - 1)
         << first;
}

uint64_t
turn_blocks (const struct volume *v, const struct part *p)
{
  return bits (p->from / v->block_bytes,
               (p->to + v->block_bytes - 1) / v->block_bytes);
}

/* Can it be written where it is?  Then it shares the segment. */
static bool
shares (const struct volume *v, const struct part *p)
{
  uint32_t place = v->map[p->at];

  return p->r->op == ARRAY_WRITE && place != NONE &&
         (turn_blocks (v, p) & ~v->places[place].blocks) == 0;
}

static void
share (struct volume *v, struct part *p)
{
  p->turn = TURN_SHARED;
  p->place = v->map[p->at];
  v->places[p->place].writing++;
}

/* Those begin that may. */
static void
turn_next (struct volume *v, struct turn *t)
{
  struct part *p;

  while (!t->alone && (p = TAILQ_FIRST (&t->waiting))) {
    if (shares (v, p))
      share (v, p);
    else {
      p->turn = TURN_ALONE;
      t->alone = p;
    }
    TAILQ_REMOVE (&t->waiting, p, link);
    TAILQ_INSERT_TAIL (&v->ready, p, link);
    v->look = true;
  }
  if (!t->alone && TAILQ_EMPTY (&t->waiting)) {
    LIST_REMOVE (t, link);
    v->turns_count--;
    spares_give (&v->turns_spare, t);
  }
}

bool
turn_free (struct volume *v, uint32_t at)
{
  return turn_find (v, at) == NULL;
}

bool
turn_take (struct volume *v, struct part *p)
{
  struct turn *t = turn_find (v, p->at);
  const struct part *before;

  assert (p->turn == TURN_NONE);
  if (!t && shares (v, p)) {
    share (v, p);
    return true;
  }
  if (!t)
    t = turn_new (v, p->at);
  before = TAILQ_LAST (&t->waiting, part_queue);
  assert (!before || before->r->sequence < p->r->sequence);
  TAILQ_INSERT_TAIL (&t->waiting, p, link);
  turn_next (v, t);
  return false;
}

void
turn_settle (struct volume *v, uint32_t at)
{
  uint32_t place = v->map[at];

  if (place != NONE && v->places[place].blocks == 0 &&
      v->places[place].writing == 0 && !turn_find (v, at))
    space_free (v, place);
}

void
turn_end (struct volume *v, struct part *p)
{
  struct turn *t = turn_find (v, p->at);

  if (p->turn == TURN_SHARED) {
    v->places[p->place].writing--;
    space_settle (v, p->place);
  }
  else {
    assert (t && t->alone == p);
    t->alone = NULL;
  }
  p->turn = TURN_NONE;
  if (t)
    turn_next (v, t);
  turn_settle (v, p->at);
}
