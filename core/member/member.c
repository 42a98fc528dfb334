/* member.c: the member engine: its life, what weftd wants of it, and the
 * writing of its header.  See member.h for what it promises.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "member-internal.h"

/* ---- Life ---- */

static void
map_copy (struct intents *to, const struct intents *from)
{
  for (uint64_t w = 0; w < map_words (from); w++)
    atomic_store (&to->word[w], atomic_load (&from->word[w]));
}

struct member *
member_new (const struct superblock *sb, struct intents *map)
{
  struct member *m = calloc (1, sizeof *m);
  uint64_t seen;

  assert (superblock_check (sb) == NULL);
  assert (map->extents == intents_extents (sb->data_bytes));
  if (m == NULL)
    return NULL;
  m->blocks_count = intents_blocks (map);
  m->blocks = calloc (m->blocks_count, sizeof *m->blocks);
  if (m->blocks == NULL || intents_init (&m->wanted, map->extents) == -1 ||
      intents_init (&m->durable, map->extents) == -1 ||
      intents_init (&m->join.todo, map->extents) == -1 ||
      intents_init (&m->join.copied, map->extents) == -1 ||
      intents_init (&m->join.marked, map->extents) == -1 ||
      intents_init (&m->join.unequal, map->extents) == -1) {
    member_free (m);
    return NULL;
  }
  m->orphans = *map;
  map->word = NULL;
  map_copy (&m->wanted, &m->orphans);
  map_copy (&m->durable, &m->orphans);

  m->confirmed = m->next = m->written = *sb;
  m->sequence = sb->sequence;
  /* A connection or a token of an epoch that the last process knew must not be
   * valid with this one: its unflushed writes may be lost.
   */
  seen = sb->served_epoch > sb->states_epoch ? sb->served_epoch
                                             : sb->states_epoch;
  if (seen != 0 && seen >= sb->min_epoch)
    m->next.min_epoch = seen + 1;
  if (m->next.min_epoch != sb->min_epoch)
    m->slots_wanted = 1;
  m->gate = gate_of (m->next.min_epoch);
  LIST_INIT (&m->passes);
  member_join_desire (m, false, 0);
  member_join_poll (m);
  return m;
}

void
member_free (struct member *m)
{
  if (m == NULL)
    return;
  while (m->sessions) {
    struct session *s = m->sessions;

    assert (s->passes == 0);
    m->sessions = s->next;
    intents_free (&s->held);
    free (s);
  }
  intents_free (&m->orphans);
  intents_free (&m->wanted);
  intents_free (&m->durable);
  intents_free (&m->join.todo);
  intents_free (&m->join.copied);
  intents_free (&m->join.marked);
  intents_free (&m->join.unequal);
  free (m->blocks);
  free (m);
}

const struct superblock *
member_confirmed (const struct member *m)
{
  return &m->confirmed;
}

bool
member_settled (const struct member *m)
{
  return m->slots_wanted == 0 && !m->slot_flying &&
         m->drains_done == m->drains_asked;
}

void
member_set_key (struct member *m, const uint8_t key[KEY_BYTES])
{
  if (m->has_key && memcmp (m->key, key, KEY_BYTES) != 0)
    member_doors_shut_all (m);
  memcpy (m->key, key, KEY_BYTES);
  m->has_key = true;
}

void
member_fail (struct member *m, int error, const char *reason)
{
  if (m->failed)
    return;
  snprintf (m->reason, sizeof m->reason, "%s: %s", reason, strerror (error));
  atomic_store (&m->failed, true);
}

void
member_gone (struct member *m)
{
  atomic_store (&m->gone, true);
  member_fail (m, ENODEV, "its disk is gone");
}

/* ---- What weftd wants ---- */

void
member_desire_place (struct member_desire *d, const struct superblock *sb)
{
  d->assigned = true;
  memcpy (d->array, sb->array, 16);
  d->position = sb->position;
  d->layout = sb->layout;
  d->n = sb->n;
  d->groups = sb->groups;
  d->unit = sb->unit;
  d->member_bytes = sb->member_bytes;
  d->dup = sb->dup;
  d->epoch = sb->states_epoch;
  memcpy (d->states, sb->states, sizeof d->states);
}

static const char *
take_place (const struct member *m, const struct member_desire *d,
            struct superblock *sb)
{
  if (format_uuid_zero (sb->array)) {
    memcpy (sb->array, d->array, 16);
    sb->position = d->position;
    sb->layout = d->layout;
    sb->n = d->n;
    sb->groups = d->groups;
    sb->unit = d->unit;
    sb->member_bytes = d->member_bytes;
    sb->dup = d->dup;
    sb->states_epoch = d->epoch;
    memcpy (sb->states, d->states, sizeof sb->states);
    return NULL;
  }
  if (memcmp (sb->array, d->array, 16) != 0)
    return "it assigns the disk to another array than the one that it belongs "
           "to; that one must be deleted first";
  if (sb->position != d->position || sb->layout != d->layout || sb->n != d->n ||
      sb->groups != d->groups || sb->unit != d->unit)
    return "it gives the disk another place in its array than it has";
  if (d->member_bytes != 0) {
    if (sb->member_bytes != 0 && sb->member_bytes != d->member_bytes)
      return "it says that the array uses another part of the disk than it did";
    sb->member_bytes = d->member_bytes;
    sb->dup = d->dup;
  }
  /* Older states come from a weftd whose database is older than we are; it
   * finds that out by our min_epoch.
   */
  if (d->epoch >= sb->states_epoch) {
    sb->states_epoch = d->epoch;
    memcpy (sb->states, d->states, sizeof sb->states);
  }
  return NULL;
}

static void
leave_place (struct member *m, struct superblock *sb)
{
  memset (sb->array, 0, 16);
  sb->position = sb->layout = sb->n = sb->groups = sb->unit = 0;
  sb->member_bytes = sb->dup = 0;
  sb->states_epoch = sb->round = 0;
  memset (sb->states, 0, sizeof sb->states);
  /* Every door that is open is one to the old array. */
  if (sb->min_epoch <= sb->served_epoch)
    sb->min_epoch = sb->served_epoch + 1;
}

/* Every extent is dirty before the superblock is written again, and none has a bad
 * block.
 */
static void
dirty_all (struct member *m)
{
  member_bad_clear (m);
  intents_set_all (&m->orphans);
  intents_set_all (&m->wanted);
  for (unsigned i = 0; i < m->blocks_count; i++)
    member_map_block_update (m, i);
  m->dirty_first = true;
}

bool
member_desire (struct member *m, const struct member_desire *d, char *why,
               size_t why_size)
{
  struct superblock sb = m->next;
  const char *no = NULL;
  bool release = !format_uuid_zero (sb.array) &&
                 memcmp (sb.array, d->release, 16) == 0;
  uint64_t run = m->join.run;
  bool raised, foreign = !format_uuid_zero (sb.cluster) &&
                         memcmp (sb.cluster, d->cluster, 16) != 0;

  if (format_uuid_zero (d->cluster))
    no = "it names no cluster";
  else if (foreign && !format_uuid_zero (sb.array))
    no = "the disk belongs to another cluster; format it again to use it here";
  else if (!foreign && d->generation < sb.generation)
    no = "a newer weftd has spoken already; its database may be an old copy";
  else if (d->min_epoch >= EPOCH_MAX)
    no = "its epoch is out of range";
  else if (!release && d->assigned)
    no = take_place (m, d, &sb);
  if (no == NULL) {
    memcpy (sb.cluster, d->cluster, 16);
    sb.generation = d->generation;
    if (release)
      leave_place (m, &sb);
    if (d->min_epoch > sb.min_epoch)
      sb.min_epoch = d->min_epoch;
    no = superblock_check (&sb);
  }
  if (no) {
    snprintf (why, why_size, "refused weftd's order for this disk: %s", no);
    return false;
  }
  raised = sb.min_epoch > m->next.min_epoch;
  m->drains_asked += raised;
  /* The next array must not trust data that the last one has left here.  An
   * array must not trust data either on a disk that replaces another one: such
   * a disk is not in-sync when it gets its place, but joining, or out until it
   * joins.
   */
  if (release ||
      (format_uuid_zero (m->next.array) && !format_uuid_zero (sb.array) &&
       sb.states[sb.position] != MEMBER_IN_SYNC))
    dirty_all (m);
  if (!superblock_same (&sb, &m->next) && m->slots_wanted == 0)
    m->slots_wanted = 1;
  m->next = sb;
  atomic_store (&m->gate, gate_of (sb.min_epoch));
  member_join_desire (m, raised, d->assigned ? d->join_epoch : 0);
  m->join.round = m->joining ? d->join_round : 0;
  /* The round on its disk says nothing now: later writes of others are not
   * here.
   */
  if (m->joining && m->join.run != run && m->next.round)
    member_map_set_round (m, 0);
  member_join_poll (m);
  return true;
}

/* ---- Header writes ---- */

/* Must the superblock wait for the map, and for the empty list? */
static bool
dirty_waits (struct member *m)
{
  for (unsigned i = 0; m->dirty_first && i < m->blocks_count; i++)
    if (m->blocks[i].urgent || m->blocks[i].flying)
      return true;
  if (m->dirty_first && m->confirmed.bad_offset != 0 && !member_bad_settled (m))
    return true;
  m->dirty_first = false;
  return false;
}

/* Take a write of the superblock, if one is due.  While requests of an older epoch
 * run still, the rest of what is wanted waits with min_epoch; only the epoch of a
 * door that is to open is noted meanwhile, and what one of these requests may wait
 * for: the place of the list of bad ranges, and the round.
 */
static bool
slot_action (struct member *m, struct member_action *a)
{
  struct superblock sb = m->next;

  if (m->slots_wanted == 0 || m->slot_flying)
    return false;
  if (m->drains_done != m->drains_asked || dirty_waits (m)) {
    if (m->next.served_epoch == m->confirmed.served_epoch &&
        m->next.bad_offset == m->confirmed.bad_offset &&
        m->next.round <= m->confirmed.round)
      return false;
    sb = m->confirmed;
    sb.served_epoch = m->next.served_epoch;
    sb.bad_offset = m->next.bad_offset;
    sb.round = m->next.round;
  }
  if (m->sequence == SEQUENCE_MAX) {
    member_fail (m, EOVERFLOW, "writing the superblock once more");
    return false;
  }
  /* A change must go to both slots, and neither has this one yet. */
  if (!superblock_same (&sb, &m->written))
    m->slots_wanted = 2;
  m->slots_wanted--;
  m->slot_flying = true;
  m->written = sb;
  m->written.sequence = ++m->sequence;
  a->kind = MEMBER_WRITE_SLOT;
  a->offset = m->sequence % 2 * SLOT_BYTES;
  a->length = SLOT_BYTES;
  superblock_encode (&m->written, a->bytes);
  return true;
}

/* Take a write of a block of the intent map, if one is due. */
static bool
block_action (struct member *m, bool lazy, struct member_action *a)
{
  uint64_t w, end;
  unsigned i;

  for (i = 0; i < m->blocks_count; i++) {
    const struct block *b = &m->blocks[i];

    /* I6: no bit falls before the list says what is bad there. */
    if (b->flying || (b->lazy && !member_bad_settled (m)))
      continue;
    if (b->urgent || (lazy && b->lazy))
      break;
  }
  if (i == m->blocks_count)
    return false;
  m->blocks[i].flying = true;
  a->kind = MEMBER_WRITE_INTENTS;
  a->block = i;
  a->offset = INTENT_BLOCKS_OFFSET + (uint64_t) i * INTENT_BLOCK_BYTES;
  a->length = INTENT_BLOCK_BYTES;
  intents_encode (&m->wanted, i, a->bytes);
  for (member_map_block_words (m, i, &w, &end); w < end; w++)
    atomic_fetch_and (&m->durable.word[w], m->wanted.word[w]);
  return true;
}

bool
member_next_action (struct member *m, bool lazy, struct member_action *a)
{
  /* A disk that weftd does not want, even an old copy of another one, is left
   * as it is: so it is known by its sequence however often it is started.
   */
  if (member_failed (m) || !m->has_key)
    return false;
  /* Nobody would read the next number. */
  if (m->bad_wanted == 2 && m->bad.sequence + 1 >= SEQUENCE_MAX) {
    member_fail (m, EOVERFLOW, "writing the list of bad ranges once more");
    return false;
  }
  member_join_poll (m);
  return slot_action (m, a) || member_bad_action (m, a) ||
         block_action (m, lazy, a);
}

void
member_action_done (struct member *m, const struct member_action *a, int error)
{
  const char *why;
  int r;

  if (error)
    member_fail (m, error,
                 a->kind == MEMBER_WRITE_SLOT ? "writing the superblock failed"
                 : a->kind == MEMBER_WRITE_BAD
                   ? "writing the list of bad ranges failed"
                   : "writing the intent map failed");
  else
    m->header_short = false;
  switch (a->kind) {
  case MEMBER_WRITE_SLOT:
    assert (m->slot_flying);
    m->slot_flying = false;
    if (error)
      break;
    m->confirmed.sequence = m->written.sequence;
    if (m->slots_wanted > 0)
      break;
    /* There was no change since it was begun, and the other slot says the same. */
    m->confirmed = m->written;
    if (!superblock_same (&m->confirmed, &m->next))
      m->slots_wanted = 1;
    break;
  case MEMBER_WRITE_INTENTS:
    assert (m->blocks[a->block].flying);
    m->blocks[a->block].flying = false;
    if (!error) {
      r = intents_decode (&m->durable, a->block, a->bytes, &why);
      assert (r == 0);
    }
    member_map_block_update (m, a->block);
    member_join_poll (m);
    break;
  case MEMBER_WRITE_BAD:
    member_bad_done (m);
    member_join_poll (m);
    break;
  }
}

void
member_action_refused (struct member *m, const struct member_action *a,
                       int error)
{
  m->short_of = error;
  m->header_short = true;
  switch (a->kind) {
  case MEMBER_WRITE_SLOT:
    assert (m->slot_flying);
    m->slot_flying = false;
    m->slots_wanted++;
    m->sequence--; /* the same slot again */
    break;
  case MEMBER_WRITE_INTENTS:
    assert (m->blocks[a->block].flying);
    m->blocks[a->block].flying = false;
    member_map_block_update (m, a->block);
    m->blocks[a->block].urgent = true;
    break;
  case MEMBER_WRITE_BAD:
    member_bad_refused (m, a);
    break;
  }
}

/* ---- Invariants ---- */

void
member_check (const struct member *m)
{
  unsigned sessions = 0;

  assert (superblock_check (&m->next) == NULL);
  assert (superblock_check (&m->confirmed) == NULL);
  assert (m->confirmed.min_epoch <= m->gate);
  assert (m->confirmed.min_epoch <= m->next.min_epoch);
  assert (gate_of (m->next.min_epoch) == m->gate);
  assert (m->over_count <= MEMBER_OVER_MAX);
  assert (m->drains_done <= m->drains_asked);
  assert (!m->draining || m->draining_for > m->drains_done);
  assert (m->confirmed.served_epoch <= m->next.served_epoch);
  assert (m->slots_wanted <= 2);
  assert (m->bad_wanted <= 2 && m->bad_ranges == m->bad.count);
  assert (m->bad.count == 0 || m->next.bad_offset != 0);
  assert (m->next.round == m->confirmed.round || m->slots_wanted > 0 ||
          m->slot_flying || m->failed);

  for (uint64_t w = 0; w < map_words (&m->wanted); w++) {
    uint64_t held = m->orphans.word[w];
    const struct block *b = &m->blocks[w / BLOCK_WORDS];

    for (const struct session *s = m->sessions; s; s = s->next)
      held |= s->held.word[w];
    assert (m->wanted.word[w] == held);
    assert (b->urgent || b->flying ||
            (m->wanted.word[w] & ~m->durable.word[w]) == 0);
    assert (b->lazy || b->flying ||
            (m->durable.word[w] & ~m->wanted.word[w]) == 0);
  }
  for (const struct session *s = m->sessions; s; s = s->next)
    sessions++;
  assert (sessions == m->sessions_count && sessions <= MEMBER_SESSIONS_MAX);
  member_join_check (m);
}
