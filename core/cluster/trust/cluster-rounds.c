/* cluster-rounds.c: an array's round, as several nodes report it.
 *
 * A round begins only when all in-sync members have noted the one before.  So
 * of members that tell the truth none is more than one round ahead of another,
 * and each report is confirmed by all other members.  If a member is further
 * ahead than that, it either lies, or has the only disk that is no old copy of
 * itself:
 *
 * - It lies, if there is no writer, and another member is behind whose process
 *   was there while the last writer wrote, and has confirmed the writer's end.
 * - Otherwise it is believed, if it has all data of the array: members that are
 *   behind go out as old copies, and are rebuilt from it.
 * - Otherwise nobody knows, and the array is frozen (cluster_array_doubted)
 *   until the others report the same, or the node is revoked.
 *
 * While there is a writer, members speak at different times, and the writer
 * reports the round.  A higher report of a single member is used only for a
 * member that goes out meanwhile: too low a round would take an old copy of
 * that member for the disk itself, and too high a round has it rebuilt in full.
 * So it does not count where the writer knows:
 *
 * - A member that the writer has lost has no round beyond the one that was
 *   begun then.
 * - For a member that was put out, the writer's first report of that epoch has
 *   the last round.
 */

#include <config.h>

#include <string.h>

#include "cluster-trust.h"

/* Has it said how far its disk is, and may the disk be what it is taken for?  A round
 * that a member has seen stays seen, though it may be silent by now.
 */
static bool
spoke (const struct cluster_array *a, unsigned m)
{
  const struct cluster_disk *d = a->disk[m];

  return a->rec.member[m].state == MEMBER_IN_SYNC && cluster_disk_heard (d) &&
         d->took_place && !d->old_copy && !d->rec.shut_out &&
         d->doubt.kind == CLUSTER_DOUBT_NONE;
}

/* Does it stand by that? */
static bool
speaks (const struct cluster_array *a, unsigned m)
{
  return spoke (a, m) && a->disk[m]->alive;
}

static bool
same_node (const struct cluster_array *a, unsigned m, unsigned other)
{
  return strcmp (a->disk[m]->rec.node, a->disk[other]->rec.node) == 0;
}

/* Has it said what it noted last?  It has, when it has confirmed what ended the last
 * writer's session.
 */
static bool
said_all (const struct cluster_array *a, unsigned m)
{
  const struct cluster_change *change = &a->rec.change;

  return a->disk[m]->min_epoch >= (change->epoch && change->confirm[m]
                                     ? change->epoch
                                     : a->rec.member[m].fence);
}

/* Has every member confirmed the end of the last writer's session, so that the array's
 * record has the last round that was noted?
 */
static bool
ended (const struct cluster_array *a)
{
  for (unsigned m = 0; m < a->layout.members; m++)
    if (a->rec.member[m].state == MEMBER_IN_SYNC &&
        (a->rec.member[m].confirmed < a->rec.member[m].fence ||
         a->rec.member[m].confirmed == CONFIRMED_BY_NONE))
      return false;
  return a->rec.change.epoch == 0 && a->rec.round > 0;
}

struct words {
  unsigned first; /* the disk with the highest round */
  uint64_t highest;
  bool others;     /* there are in-sync members on other nodes */
  bool spoke;      /* one of these has spoken */
  bool heard;      /* one has since the last writer's end, and still speaks */
  uint64_t second; /* the highest that they said */
};

/* False: nobody speaks. */
static bool
words (const struct cluster_array *a, struct words *w)
{
  bool any = false;

  memset (w, 0, sizeof *w);
  for (unsigned m = 0; m < a->layout.members; m++)
    if (speaks (a, m) && (!any || a->disk[m]->round > w->highest)) {
      any = true;
      w->first = m;
      w->highest = a->disk[m]->round;
    }
  for (unsigned m = 0; any && m < a->layout.members; m++) {
    if (a->rec.member[m].state != MEMBER_IN_SYNC || same_node (a, m, w->first))
      continue;
    w->others = true;
    if (!spoke (a, m))
      continue;
    w->spoke = true;
    w->heard |= speaks (a, m) && said_all (a, m);
    if (a->disk[m]->round > w->second)
      w->second = a->disk[m]->round;
  }
  /* A silent member confirms reports, and makes none. */
  if (w->second > w->highest)
    w->second = w->highest;
  return any;
}

/* Does somebody who writes say how far the writing is? */
static bool
written (const struct cluster *c, const struct cluster_array *a)
{
  const struct cluster_session *s = NULL;

  while ((s = cluster_writer_next (a, s)))
    if (s->heard && s->alive)
      return true;
  return false;
}

/* Nobody bears out what one node's member says; and nobody is ahead of it. */
static bool
alone (const struct cluster *c, const struct cluster_array *a,
       const struct words *w)
{
  return w->heard && w->highest > a->rec.round && w->highest >= w->second + 2 &&
         !written (c, a);
}

void
cluster_rounds_begun (struct cluster *c, struct cluster_array *a,
                      uint64_t round)
{
  if (round > a->rec.round)
    a->rec.round = round; /* it counts before it is stored */
  if (a->rec.round == a->stored_round ||
      (a->stored_live_ms && c->live_ms - a->stored_live_ms < SEQUENCE_MS))
    return;
  a->stored_round = a->rec.round;
  a->stored_live_ms = c->live_ms;
  cluster_step_put_array (c, a);
}

/* Would the array be whole with only the members that confirm the highest
 * round?  A member that does not speak may be behind, too.
 */
static bool
whole_with_first (const struct cluster_array *a, const struct words *w)
{
  uint8_t states[ARRAY_MEMBERS_MAX];

  cluster_copies_states (a, states);
  for (unsigned m = 0; m < a->layout.members; m++)
    if (!speaks (a, m) || a->disk[m]->round + 2 <= w->highest)
      states[m] = MEMBER_OUT;
  return cluster_copies_kept (a, states);
}

void
cluster_rounds_weigh (struct cluster *c, struct cluster_array *a)
{
  uint64_t round;
  struct words w;

  if (!words (a, &w))
    return;
  /* Where the others are yet to speak, they may not bear it out.  One more than all
   * others have may be a lie, and is the writer's to say; but in a change of epoch all
   * counts that may tell an old copy.
   */
  round = !w.others                                    ? w.highest
          : !w.spoke                                   ? 0
          : written (c, a) && a->rec.change.epoch == 0 ? w.second
          : w.highest <= w.second + 1                  ? w.highest
                                                       : w.second + 1;
  if (alone (c, a, &w) && whole_with_first (a, &w))
    round = w.highest;
  cluster_rounds_begun (c, a, round);
}

uint64_t
cluster_rounds_said (const struct cluster *c, const struct cluster_array *a)
{
  uint64_t round = a->rec.round;
  struct words w;

  return words (a, &w) && w.highest > round ? w.highest : round;
}

uint64_t
cluster_rounds_of_lost (const struct cluster *c, const struct cluster_array *a,
                        unsigned member)
{
  const struct cluster_session *s = cluster_array_writer (a);

  if (s == NULL)
    return cluster_rounds_said (c, a);
  /* Where several write, the others may have gone on with rounds. */
  for (; s; s = cluster_writer_next (a, s))
    if (!s->path[member].reported)
      return cluster_rounds_said (c, a);
  return a->rec.round;
}

void
cluster_rounds_settle (struct cluster *c, struct cluster_array *a,
                       const struct cluster_session *writer, uint64_t entered)
{
  bool any = false;

  /* One of several does not know which rounds the others have completed. */
  if (writer->rec.part.length > 0)
    return;
  for (unsigned m = 0; m < a->layout.members; m++) {
    struct cluster_member *member = &a->rec.member[m];
    /* Did it go while this one wrote? */
    bool beside = member->lapse > writer->rec.epoch;
    uint64_t last = beside && entered ? entered : a->rec.round;

    if (member->state != MEMBER_OUT || member->round <= last)
      continue;
    member->round = last;
    any = true;
  }
  if (any)
    cluster_step_put_array (c, a);
}

bool
cluster_rounds_refute (const struct cluster *c, const struct cluster_array *a,
                       unsigned member, uint64_t round)
{
  uint64_t before = a->disk[member]->refuted;

  if (a->rec.member[member].state != MEMBER_IN_SYNC ||
      cluster_array_writer (a) || round < a->rec.round + 2)
    return false;
  if (before && round >= before)
    return true;
  if (ended (a))
    return true;
  for (unsigned m = 0; m < a->layout.members; m++)
    if (speaks (a, m) && !same_node (a, m, member) && a->disk[m]->served &&
        said_all (a, m) && a->disk[m]->round + 2 <= round)
      return true;
  return false;
}

bool
cluster_rounds_alone (const struct cluster *c, const struct cluster_array *a,
                      unsigned *member, uint64_t *others)
{
  struct words w;

  if (!words (a, &w) || !alone (c, a, &w) || whole_with_first (a, &w))
    return false;
  *member = w.first;
  *others = w.second;
  return true;
}

void
cluster_rounds_hear (struct cluster *c, struct cluster_disk *d,
                     const struct cluster_disk_heartbeat *hb)
{
  struct cluster_array *a = d->array;
  uint64_t others;
  unsigned first;

  if (a == NULL || !cluster_rounds_alone (c, a, &first, &others) ||
      !cluster_uuid_equal (hb->array, a->rec.uuid) ||
      strcmp (hb->instance, d->instance) == 0 ||
      same_node (a, d->position, first) ||
      hb->round + 1 < a->disk[first]->round)
    return;
  cluster_rounds_begun (c, a, a->disk[first]->round);
  if (a->rec.change.epoch == 0 || cluster_process_unmet (d))
    cluster_stale_judge (c, a);
}

uint64_t
cluster_member_round (const struct cluster_array *a, unsigned member)
{
  uint64_t round = a->disk[member]->round;

  return round <= a->rec.round + 1 ? round : a->rec.round + 1;
}

/* Of several that write, one may have given it rounds since, before another has heard of
 * the process.
 */
uint64_t
cluster_member_life_round (const struct cluster_array *a, unsigned member)
{
  return cluster_process_unmet (a->disk[member])
           ? cluster_member_round (a, member)
           : a->rec.member[member].life_round;
}
