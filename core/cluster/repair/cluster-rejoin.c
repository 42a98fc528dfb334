/* cluster-rejoin.c: rejoins a member that was given back to sessions without
 * its unflushed writes, so that its copies may differ from the others
 * (cluster-unequal.c). While sessions go on it is put out, as soon as the array
 * can do without it, and joins again: it copies all extents with intent bits
 * from other members.  So its copies come in sync, in every way of writing, and
 * clients wait no longer than for a change of epoch.
 *
 * This works with two copies.  With more, another member may have copied from
 * such a member, and lack data that a third has: these copies are
 * resynchronized when the array is attached again.
 */

#include <config.h>

#include <stdio.h>
#include <string.h>

#include "cluster-repair.h"

/* Must the member wait before it is put out?  Then text says for which event. */
static bool
waits (const struct cluster *c, const struct cluster_array *a, unsigned member,
       char *text, size_t size)
{
  const struct cluster_session *ill;
  const char *why;
  char words[320];
  unsigned m = cluster_drain_needs (c, a, member, &why);

  if (m < a->layout.members)
    snprintf (text, size, "member %u (%s), which %s", m,
              cluster_words_disk (a->disk[m], words, sizeof words), why);
  else if (!cluster_member_well (a, member, &why))
    snprintf (text, size, "the member itself, which %s", why);
  else if (a->rec.to_recover)
    /* Its sources may be older than what others read. */
    snprintf (text, size,
              "a host to resynchronize the last writes of an ended session");
  else if (!cluster_rebuild_writers_well (c, a, &ill))
    snprintf (text, size,
              "node %s, which writes, to be heard and to reach all members",
              ill ? ill->rec.node : "");
  else
    return false;
  return true;
}

bool
cluster_rejoin_waits (const struct cluster *c, const struct cluster_array *a,
                      char *text, size_t size)
{
  for (unsigned m = 0; m < a->layout.members; m++)
    if (a->rec.member[m].differs && waits (c, a, m, text, size))
      return true;
  return false;
}

/* A member that has kept its unflushed writes, because only its process was
 * another one, is copied from by the members of its group that have not:
 * otherwise data that only it has would be lost.
 */
static bool
yields (const struct cluster_array *a, unsigned member, const uint8_t states[])
{
  const struct layout_group group = layout_group (&a->layout, member);

  for (unsigned m = group.first; m < group.end; m++)
    if (a->rec.member[m].differs && states[m] == MEMBER_IN_SYNC &&
        a->rec.member[m].lapse > a->rec.member[member].lapse)
      return true;
  return false;
}

/* Which one goes out now?  states: of all members then.  If there is none, layout.members. */
static unsigned
pick (const struct cluster *c, const struct cluster_array *a, uint8_t states[])
{
  uint8_t now[ARRAY_MEMBERS_MAX];
  char text[512];

  cluster_change_states (a, now);
  for (unsigned m = 0; m < a->layout.members; m++) {
    if (!a->rec.member[m].differs || now[m] != MEMBER_IN_SYNC ||
        yields (a, m, now) || waits (c, a, m, text, sizeof text))
      continue;
    memcpy (states, now, sizeof now);
    cluster_copies_leave_out (a, m, states);
    if (cluster_copies_kept (a, states))
      return m;
  }
  return a->layout.members;
}

bool
cluster_rejoin (struct cluster *c, struct cluster_array *a)
{
  uint8_t states[ARRAY_MEMBERS_MAX];
  unsigned m;

  if (a->rec.change.epoch || cluster_array_writer (a) == NULL ||
      a->layout.copies > 2)
    return false;
  m = pick (c, a, states);
  if (m == a->layout.members)
    return false;
  snprintf (a->rec.member[m].reason, sizeof a->rec.member[m].reason,
            "it came back without what it had not flushed");
  a->rec.member[m].planned = true;
  cluster_change_put_out (c, a, states);
  return true;
}
