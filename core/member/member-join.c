/* member-join.c: the member engine: joining: the extents to copy, and
 * foreground writes meanwhile.
 *
 * An extent is, in this order: to do (bit in `todo`), being copied (in `todo`
 * and `copies`), copied (`copied`, after a mark `marked`), done.  Until it is
 * done its orphan bit is set, on the disk too from COPYING on.  A part of a
 * write is dropped where `todo` has its extent, else carried out.
 *
 * Why no write and no copy of the same extent run at once, and none is lost:
 *
 *   Requests admitted before the joining began (or began again) have not looked
 *   at `todo`, or looked at an older one.  Beginning sets `joining`, then has a
 *   new turn begin, and GATHERING waits until the old turn is empty: every
 *   request of the new one has seen `joining`, and asks with the lock held.
 *   Copies count as requests of their turn, so one of an earlier run has been
 *   given back as well, and no fence is confirmed while one writes.
 *
 *   Requests admitted in this run are counted in `writers`, from before they are
 *   decided until they leave.  An extent whose slot is taken is not given out; a
 *   request to an extent that is given out waits.  So while a request runs, none
 *   of its extents turns from to do to being copied: a dropped part stays
 *   dropped, and is copied after the request has left.  Extents that are not to
 *   do become so only when the joining begins again: then the rest of the request
 *   is dropped (member_applies compares runs), and the new run waits for it.
 *
 *   The copy brings the data of dropped parts: another member has answered the
 *   sender already, and the source is read after the drop.  Before COPYING, a
 *   dropped extent becomes to do on the spot.
 *
 * No request waits long.  A request that waits for copies is counted, so no
 * further extent of it is given out before it has run.  An extent that never
 * comes free, because writes to it overlap without end, is reserved: requests
 * that come now wait for its copy, and those that were counted before leave
 * without waiting.
 */

#include <config.h>

#include <assert.h>

#include "member-internal.h"

static const char *const phase_names[] = {
  [MEMBER_JOIN_NONE] = "none",           [MEMBER_JOIN_WAITING] = "waiting",
  [MEMBER_JOIN_GATHERING] = "gathering", [MEMBER_JOIN_COPYING] = "copying",
  [MEMBER_JOIN_SYNCED] = "synced",
};

const char *
member_join_phase_name (enum member_join_phase phase)
{
  assert (phase < sizeof phase_names / sizeof phase_names[0]);
  return phase_names[phase];
}

/* ---- Phases ---- */

static void
map_zero (struct intents *map)
{
  for (uint64_t w = 0; w < map_words (map); w++)
    atomic_store (&map->word[w], 0);
}

/* All dirty extents are to do, whichever session made them dirty: our last
 * writes may be nowhere else.  From here on sessions hold bits only for writes
 * beside the copying.
 */
static void
begin (struct member *m)
{
  struct joining *j = &m->join;

  for (uint64_t w = 0; w < map_words (&m->wanted); w++) {
    for (struct session *s = m->sessions; s; s = s->next)
      atomic_store (&s->held.word[w], 0);
    atomic_store (&m->orphans.word[w], m->wanted.word[w]);
    atomic_store (&j->todo.word[w], m->wanted.word[w]);
  }
  j->todo_count = j->total = intents_count (&j->todo);
  map_zero (&j->copied);
  map_zero (&j->marked);
  map_zero (&j->unequal);
  j->copied_count = j->marked_count = 0;
  j->gathered = false;
  j->order = 0;
  j->next = 0;
  atomic_store (&j->reserving, false);
  j->phase = MEMBER_JOIN_WAITING;
  atomic_fetch_add (&j->run, 1);
  atomic_store (&m->joining, true);
  m->drains_asked++;
}

void
member_join_desire (struct member *m, bool raised, uint64_t join_epoch)
{
  struct joining *j = &m->join;
  const struct superblock *sb = &m->next;

  if (format_uuid_zero (sb->array) ||
      sb->states[sb->position] != MEMBER_JOINING) {
    /* The orphans stay as they are: nothing that was to do is forgotten. */
    j->phase = MEMBER_JOIN_NONE;
    j->order = 0;
    j->gathered = false;
    atomic_store (&j->reserving, false);
    atomic_store (&m->joining, false);
    return;
  }
  if (!m->joining || raised || (j->order != 0 && join_epoch > j->order))
    begin (m);
  /* An order for an epoch that is fenced by now knows nothing of the
   * connections that have ended since.
   */
  if (join_epoch >= m->gate && join_epoch > j->order)
    j->order = join_epoch;
}

static bool
todo_durable (const struct member *m)
{
  for (uint64_t w = 0; w < map_words (&m->wanted); w++)
    if (m->join.todo.word[w] & ~m->durable.word[w])
      return false;
  return true;
}

/* To the next phase if its time has come. */
static void
go_on (struct member *m)
{
  struct joining *j = &m->join;

  if (j->phase == MEMBER_JOIN_WAITING && j->order != 0 &&
      m->drains_done == m->drains_asked)
    j->phase = MEMBER_JOIN_GATHERING;
  if (j->phase == MEMBER_JOIN_GATHERING && j->gathered && todo_durable (m)) {
    j->phase = MEMBER_JOIN_COPYING;
    j->gathered = false;
    j->total = j->todo_count;
  }
  if (j->phase == MEMBER_JOIN_COPYING && j->todo_count == 0 &&
      j->copied_count == 0 && j->marked_count == 0 && member_bad_settled (m))
    j->phase = MEMBER_JOIN_SYNCED;
  if (j->phase == MEMBER_JOIN_SYNCED && m->next.round < j->round)
    member_map_set_round (m, j->round);
}

void
member_join_poll (struct member *m)
{
  member_drain_poll (m);
  go_on (m);
}

enum member_join_phase
member_join_phase (struct member *m)
{
  member_join_poll (m);
  return m->join.phase;
}

uint64_t
member_join_epoch (const struct member *m)
{
  return m->join.order;
}

uint64_t
member_join_run (const struct member *m)
{
  return m->join.run;
}

/* ---- The extents to copy ---- */

static bool
has_third (const struct superblock *sb)
{
  return layout_copies (sb->layout, sb->n) > 2;
}

static void
add_todo (struct member *m, uint64_t extent)
{
  if (intents_test (&m->join.todo, extent))
    return;
  intents_set (&m->orphans, extent);
  intents_set (&m->wanted, extent);
  intents_set (&m->join.todo, extent);
  m->join.todo_count++;
  member_map_block_raised (m, extent);
}

void
member_join_unequal (struct member *m, uint64_t run,
                     const struct intents *peers)
{
  struct joining *j = &m->join;

  if (run == j->run && has_third (&m->next))
    for (uint64_t w = 0; w < map_words (peers); w++)
      atomic_fetch_or (&j->unequal.word[w], peers->word[w]);
}

void
member_join_gathered (struct member *m, uint64_t run,
                      const struct intents *peers)
{
  struct joining *j = &m->join;

  assert (peers->extents == m->wanted.extents);
  if (run != j->run || j->phase != MEMBER_JOIN_GATHERING)
    return;
  member_join_unequal (m, run, peers);
  for (uint64_t w = 0; w < map_words (peers); w++)
    for (uint64_t bits = peers->word[w]; bits; bits &= bits - 1)
      add_todo (m, w * 64 + __builtin_ctzll (bits));
  j->gathered = true;
  go_on (m);
}

static struct copy *
find_copy (struct member *m, uint64_t extent)
{
  for (unsigned i = 0; i < JOIN_COPIES_MAX; i++)
    if (m->join.copies[i].used && m->join.copies[i].extent == extent)
      return &m->join.copies[i];
  return NULL;
}

static bool
slot_taken (const struct joining *j, uint64_t extent)
{
  return atomic_load (&j->writers[extent % JOIN_SLOTS]) != 0;
}

static void
give (struct member *m, uint64_t extent)
{
  struct copy *c = m->join.copies;

  while (c->used)
    c++;
  c->used = true;
  c->extent = extent;
  c->run = m->join.run;
  c->turn = m->turn; /* it changes under the lock alone, which we hold */
  atomic_fetch_add (&m->running[c->turn], 1);
  m->join.copies_count++;
  m->join.next = extent + 1;
}

/* The next extent that is to do and not given, at or after `from`, and before
 * `end`; with `idle` only one where nothing runs.
 */
static bool
find_todo (struct member *m, uint64_t from, uint64_t end, bool idle,
           uint64_t *extent)
{
  for (uint64_t e = from; e < end; e++) {
    uint64_t bits = m->join.todo.word[e / 64] >> (e % 64);

    if (bits == 0) {
      e |= 63;
      continue;
    }
    e += __builtin_ctzll (bits);
    if (e < end && !(idle && slot_taken (&m->join, e)) &&
        find_copy (m, e) == NULL) {
      *extent = e;
      return true;
    }
  }
  return false;
}

bool
member_join_next (struct member *m, uint64_t run, uint64_t *extent)
{
  struct joining *j = &m->join;
  uint64_t extents = m->wanted.extents;

  if (run != j->run || j->phase != MEMBER_JOIN_COPYING || member_failed (m) ||
      j->copies_count == JOIN_COPIES_MAX)
    return false;
  if (!j->reserving && (find_todo (m, j->next, extents, true, extent) ||
                        find_todo (m, 0, j->next, true, extent))) {
    give (m, *extent);
    return true;
  }
  if (!j->reserving) {
    if (!find_todo (m, 0, extents, false, extent))
      return false;
    j->reserved = *extent;
    /* The order matters: a writer that leaves after this store sees that a copy
     * waits for its slot, and a writer that left before it has left the slot
     * empty.
     */
    atomic_store (&j->reserving, true);
  }
  if (slot_taken (j, j->reserved))
    return false;
  *extent = j->reserved;
  atomic_store (&j->reserving, false);
  give (m, *extent);
  return true;
}

bool
member_join_rest (struct member *m)
{
  return atomic_exchange (&m->join.reserving, false);
}

void
member_join_copied (struct member *m, uint64_t run, uint64_t extent, bool ok)
{
  struct joining *j = &m->join;
  struct copy *c = find_copy (m, extent);

  assert (c != NULL && c->run == run);
  c->used = false;
  j->copies_count--;
  atomic_fetch_sub (&m->running[c->turn], 1);
  if (ok && run == j->run && j->phase == MEMBER_JOIN_COPYING) {
    intents_clear (&j->todo, extent);
    j->todo_count--;
    intents_set (&j->copied, extent);
    j->copied_count++;
  }
  member_join_poll (m);
}

uint64_t
member_join_mark (struct member *m)
{
  struct joining *j = &m->join;

  for (uint64_t w = 0; j->copied_count > 0 && w < map_words (&j->copied); w++)
    atomic_fetch_or (&j->marked.word[w], j->copied.word[w]);
  map_zero (&j->copied);
  j->marked_count += j->copied_count;
  j->copied_count = 0;
  return ++j->mark;
}

/* Is there a third copy that may lack data that we have copied?  If our source
 * is gone when that copy comes back, it looks here for the data; a member that
 * joins beside us does, too, if it has not gathered yet.  (If it is in-sync,
 * and may lack the data, its bit or our source's was set: `unequal`.)
 */
static bool
third_lacks (const struct member *m)
{
  const struct superblock *sb = &m->next;
  unsigned first = sb->position - sb->position % sb->n;

  for (unsigned i = first; i < first + sb->n; i++)
    if (has_third (sb) && i != sb->position && sb->states[i] != MEMBER_IN_SYNC)
      return true;
  return false;
}

void
member_join_stable (struct member *m, uint64_t run, uint64_t mark)
{
  struct joining *j = &m->join;
  bool keep;

  if (run != j->run || j->phase != MEMBER_JOIN_COPYING || mark != j->mark ||
      member_failed (m))
    return;
  keep = third_lacks (m);
  for (uint64_t w = 0; w < map_words (&j->marked); w++)
    for (uint64_t bits = j->marked.word[w]; bits; bits &= bits - 1) {
      uint64_t extent = w * 64 + __builtin_ctzll (bits);

      if (keep || intents_test (&j->unequal, extent))
        continue;
      intents_clear (&m->orphans, extent);
      member_map_unwant (m, extent);
    }
  map_zero (&j->marked);
  j->marked_count = 0;
  go_on (m);
}

void
member_join_redo (struct member *m, uint64_t run)
{
  struct joining *j = &m->join;

  if (run != j->run || j->phase != MEMBER_JOIN_COPYING)
    return;
  for (uint64_t w = 0; w < map_words (&j->todo); w++)
    atomic_fetch_or (&j->todo.word[w], j->copied.word[w] | j->marked.word[w]);
  map_zero (&j->copied);
  map_zero (&j->marked);
  j->todo_count += j->copied_count + j->marked_count;
  j->copied_count = j->marked_count = 0;
}

void
member_join_progress (const struct member *m, struct member_join_progress *p)
{
  p->todo = m->join.todo_count;
  p->unstable = m->join.copied_count + m->join.marked_count;
  p->total = m->join.total;
}

/* ---- Requests beside it ---- */

/* Returns how many slots a record takes, from that of extent *first on, in a
 * ring.
 */
static unsigned
slots_of (const struct batch_record *b, uint64_t *first)
{
  uint64_t end;

  record_extents (b, first, &end);
  return end - *first < JOIN_SLOTS ? end - *first : JOIN_SLOTS;
}

/* The request is one writer more in its slots (1), or one less (-1). */
static void
count_writer (struct joining *j, const struct member_request *r, unsigned by)
{
  uint64_t first;

  for (unsigned i = 0; i < r->count; i++) {
    unsigned slots = slots_of (&r->records[i], &first);

    for (unsigned k = 0; k < slots; k++)
      atomic_fetch_add (&j->writers[(first + k) % JOIN_SLOTS], by);
  }
}

bool
member_join_leave (struct member *m, const struct member_request *r)
{
  count_writer (&m->join, r, -1);
  return atomic_load (&m->join.reserving);
}

/* May this extent of a write be let go now?  Sets the bits that it needs. */
static bool
extent_ready (struct member *m, struct session *s, uint64_t e)
{
  struct joining *j = &m->join;

  if (j->phase < MEMBER_JOIN_COPYING)
    add_todo (m, e);
  if (intents_test (&j->todo, e))
    return j->phase < MEMBER_JOIN_COPYING || find_copy (m, e) == NULL;
  if (!intents_test (&s->held, e))
    member_map_want (m, s, e);
  return intents_test (&m->durable, e);
}

enum member_verdict
member_join_retry (struct member *m, struct session *s,
                   struct member_request *r)
{
  struct joining *j = &m->join;
  bool ready = true;
  uint64_t e, end;

  member_join_poll (m);
  if (!r->counted) {
    for (unsigned i = 0; j->reserving && i < r->count; i++) {
      unsigned slots = slots_of (&r->records[i], &e);

      if ((j->reserved - e) % JOIN_SLOTS < slots)
        return MEMBER_WAIT;
    }
    count_writer (j, r, 1);
    r->counted = true;
  }
  for (unsigned i = 0; i < r->count; i++)
    for (record_extents (&r->records[i], &e, &end); e < end; e++)
      ready &= extent_ready (m, s, e);
  r->run = j->run;
  return ready ? MEMBER_GO : MEMBER_WAIT;
}

bool
member_applies (const struct member *m, const struct member_request *r,
                uint64_t offset, uint64_t *length)
{
  uint64_t end = offset + *length, e = offset / EXTENT_BYTES;
  bool todo;

  if (r->run == 0)
    return true;
  if (r->run != atomic_load (&m->join.run))
    return false;
  todo = intents_test (&m->join.todo, e);
  do
    e++;
  while (e * EXTENT_BYTES < end && intents_test (&m->join.todo, e) == todo);
  if (e * EXTENT_BYTES < end)
    *length = e * EXTENT_BYTES - offset;
  return !todo;
}

void
member_join_forget (struct member *m, const struct session *s)
{
  struct joining *j = &m->join;

  if (!m->joining)
    return;
  for (uint64_t w = 0; w < map_words (&s->held); w++) {
    atomic_fetch_and (&j->copied.word[w], ~s->held.word[w]);
    atomic_fetch_and (&j->marked.word[w], ~s->held.word[w]);
  }
  j->copied_count = intents_count (&j->copied);
  j->marked_count = intents_count (&j->marked);
  go_on (m);
}

/* ---- Invariants ---- */

void
member_join_check (const struct member *m)
{
  const struct joining *j = &m->join;
  const struct superblock *sb = &m->next;
  unsigned copies = 0;

  assert (m->joining == (!format_uuid_zero (sb->array) &&
                         sb->states[sb->position] == MEMBER_JOINING));
  assert (m->joining == (j->phase != MEMBER_JOIN_NONE));
  assert (m->joining || (!j->reserving && !j->gathered && j->order == 0));
  assert (j->order == 0 || j->order >= m->gate);
  for (unsigned i = 0; i < JOIN_COPIES_MAX; i++)
    if (j->copies[i].used) {
      copies++;
      if (m->joining && j->copies[i].run == j->run) {
        assert (j->phase == MEMBER_JOIN_COPYING);
        assert (intents_test (&j->todo, j->copies[i].extent));
      }
    }
  assert (copies == j->copies_count);
  if (!m->joining)
    return;
  /* The drain since then is of requests of sessions that are over. */
  if (j->phase >= MEMBER_JOIN_GATHERING)
    assert (j->order != 0 && (m->drains_done == m->drains_asked ||
                              m->drains_asked == m->over_drain));
  if (j->phase == MEMBER_JOIN_SYNCED)
    assert (j->todo_count + j->copied_count + j->marked_count == 0);

  for (uint64_t w = 0; w < map_words (&m->wanted); w++) {
    uint64_t todo = j->todo.word[w], copied = j->copied.word[w];
    uint64_t marked = j->marked.word[w];

    assert ((todo & copied) == 0 && (todo & marked) == 0 &&
            (copied & marked) == 0);
    assert (((todo | copied | marked) & ~m->orphans.word[w]) == 0);
    if (j->phase >= MEMBER_JOIN_COPYING)
      assert (((todo | copied | marked) & ~m->durable.word[w]) == 0);
    else
      for (const struct session *s = m->sessions; s; s = s->next)
        assert (s->held.word[w] == 0);
  }
  assert (j->todo_count == intents_count (&j->todo));
  assert (j->copied_count == intents_count (&j->copied));
  assert (j->marked_count == intents_count (&j->marked));
}
