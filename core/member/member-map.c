/* member-map.c: the member engine: whether the member has failed, and what its
 * header is to hold: the intent map in its blocks, and the round.  The other files
 * of the engine build on this one.
 */

#include <config.h>

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "errors.h"
#include "member-internal.h"

bool
member_failed (const struct member *m)
{
  return atomic_load (&m->failed);
}

const char *
member_reason (const struct member *m)
{
  return member_failed (m) ? m->reason : NULL;
}

void
member_refused (struct member *m, int error)
{
  m->short_of = error;
}

void
member_relieved (struct member *m)
{
  if (!m->header_short)
    m->short_of = 0;
}

const char *
member_short (const struct member *m)
{
  return m->short_of ? strerror (m->short_of) : NULL;
}

bool
member_map_header_short (const struct member *m, struct member_refusal *refusal)
{
  if (!m->header_short)
    return false;
  refusal->error = errors_told (m->short_of);
  snprintf (refusal->why, sizeof refusal->why,
            "its header can't be written for the moment: %s; that is tried "
            "again",
            strerror (m->short_of));
  return true;
}

uint64_t
member_dirty_extents (const struct member *m)
{
  return intents_count (&m->wanted);
}

uint64_t
member_map_bytes (const struct member *m)
{
  return (m->wanted.extents + 7) / 8;
}

void
member_map_read (const struct member *m, uint64_t offset, size_t bytes,
                 uint8_t *buf)
{
  assert (offset <= member_map_bytes (m) &&
          bytes <= member_map_bytes (m) - offset);
  for (size_t i = 0; i < bytes; i++) {
    uint64_t at = offset + i;

    buf[i] = atomic_load (&m->wanted.word[at / 8]) >> (at % 8 * 8);
  }
}

void
member_map_set_round (struct member *m, uint64_t round)
{
  superblock_upgrade (&m->next);
  m->next.round = round;
  if (m->slots_wanted == 0)
    m->slots_wanted = 1;
}

void
member_map_block_words (const struct member *m, unsigned block, uint64_t *first,
                        uint64_t *end)
{
  *first = block * BLOCK_WORDS;
  *end = *first + BLOCK_WORDS;
  if (*end > map_words (&m->wanted))
    *end = map_words (&m->wanted);
}

void
member_map_block_update (struct member *m, unsigned block)
{
  struct block *b = &m->blocks[block];
  uint64_t w, end;

  b->urgent = b->lazy = false;
  for (member_map_block_words (m, block, &w, &end); w < end; w++) {
    uint64_t wanted = m->wanted.word[w], durable = m->durable.word[w];

    b->urgent |= (wanted & ~durable) != 0;
    b->lazy |= (durable & ~wanted) != 0;
  }
}

void
member_map_block_raised (struct member *m, uint64_t extent)
{
  unsigned block = extent / INTENT_BLOCK_EXTENTS;

  if (!intents_test (&m->durable, extent))
    m->blocks[block].urgent = true;
  else if (m->blocks[block].lazy)
    member_map_block_update (
      m, block); /* it may have been lazy for this bit alone */
}

void
member_map_want (struct member *m, struct session *s, uint64_t extent)
{
  intents_set (&s->held, extent);
  intents_set (&m->wanted, extent);
  member_map_block_raised (m, extent);
}

void
member_map_unwant (struct member *m, uint64_t extent)
{
  unsigned block = extent / INTENT_BLOCK_EXTENTS;

  if (intents_test (&m->orphans, extent))
    return;
  for (struct session *s = m->sessions; s; s = s->next)
    if (intents_test (&s->held, extent))
      return;
  intents_clear (&m->wanted, extent);
  if (intents_test (&m->durable, extent))
    m->blocks[block].lazy = true;
  else
    member_map_block_update (m, block); /* which may not be urgent any more */
}
