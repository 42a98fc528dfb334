/* member-bad.c: the member engine: the list of bad ranges, and when it is
 * durable.
 *
 * A change goes to both slots, one after the other, under one number, so that a
 * slot that goes bad later takes nothing back.  The number decides which slot
 * is first (docs/FORMAT.md). The number is one more than that of the last list
 * that was written: so the slot that holds this list is not written before the
 * other one is good, however often the list changes meanwhile, and whichever
 * write is torn.  An entry counts from the moment that it is made.  Intent bits
 * are cleared, and a joining ends, only when the list is durable, because from
 * then on only the list says that the block must not be read.
 */

#include <config.h>

#include <assert.h>

#include "member-internal.h"

static void
changed (struct member *m)
{
  atomic_store (&m->bad_ranges, m->bad.count);
  m->bad_wanted = 2;
}

void
member_bad_begin (struct member *m, const struct bad_list *list, bool mend)
{
  m->bad = *list;
  atomic_store (&m->bad_ranges, list->count);
  if (mend)
    changed (m);
}

const struct bad_list *
member_bad (const struct member *m)
{
  return &m->bad;
}

bool
member_bad_any (const struct member *m)
{
  return atomic_load (&m->bad_ranges) > 0;
}

bool
member_bad_settled (const struct member *m)
{
  return m->bad_wanted == 0 && !m->bad_flying;
}

bool
member_bad_add (struct member *m, uint64_t offset, uint64_t length,
                enum bad_reason reason)
{
  superblock_upgrade (&m->next);
  if (m->next.bad_offset == 0 || !bad_add (&m->bad, offset, length, reason))
    return false;
  if (m->slots_wanted == 0 && !superblock_same (&m->next, &m->written))
    m->slots_wanted = 1;
  changed (m);
  return true;
}

void
member_bad_good (struct member *m, uint64_t offset, uint64_t length)
{
  if (bad_good (&m->bad, offset, length))
    changed (m);
}

void
member_bad_clear (struct member *m)
{
  if (m->bad.count == 0)
    return;
  m->bad.count = 0;
  changed (m);
}

/* Nothing is written to the place before the superblock names it: a program that
 * does not know the list would serve the disk.
 */
bool
member_bad_action (struct member *m, struct member_action *a)
{
  if (m->bad_wanted == 0 || m->bad_flying || m->confirmed.bad_offset == 0)
    return false;
  if (m->bad_wanted == 2)
    m->bad.sequence++;
  a->kind = MEMBER_WRITE_BAD;
  a->offset = m->confirmed.bad_offset +
              (m->bad.sequence + m->bad_wanted) % 2 * BAD_SLOT_BYTES;
  a->length = BAD_SLOT_BYTES;
  bad_encode (&m->bad, a->bytes);
  m->bad_wanted--;
  m->bad_flying = true;
  return true;
}

/* The slot may be torn, so it is the next one that is written, also if the list has
 * changed meanwhile.
 */
void
member_bad_refused (struct member *m, const struct member_action *a)
{
  unsigned slot = a->offset != m->confirmed.bad_offset;

  assert (m->bad_flying);
  m->bad_flying = false;
  if (slot == m->bad.sequence % 2) { /* the first write under this number */
    m->bad.sequence--;
    m->bad_wanted = 2;
  }
  else if (m->bad_wanted == 0)
    m->bad_wanted = 1;
}

void
member_bad_done (struct member *m)
{
  assert (m->bad_flying);
  m->bad_flying = false;
}
