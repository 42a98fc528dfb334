/* cluster-place.c: which disk has which place in an array.
 *
 * A host fails as a whole, so the copies of a byte belong on different hosts.  How much
 * a place is worth is asked here, of everything that gives one: cluster_place_harm.
 */

#include <config.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cluster-repair.h"

bool
cluster_place_usable (const struct cluster *c, const struct cluster_disk *d,
                      struct cluster_problem *p)
{
  char words[320];

  cluster_words_disk (d, words, sizeof words);
  if (!cluster_disk_heard (d) || !d->alive)
    cluster_step_problem_set (p, CLUSTER_CONFLICT, "silent",
                              "%s is silent: start its member process first",
                              words);
  else if (cluster_disk_failed (d))
    cluster_step_problem_set (p, CLUSTER_CONFLICT, "failed",
                              "%s has failed (%s): replace it first", words,
                              d->reason);
  else if (cluster_copies_disk_doubtful (d))
    cluster_step_problem_set (
      p, CLUSTER_CONFLICT, "failed",
      "%s has answered nothing for %" PRIu64
      " s, although its process lives: check the disk, or "
      "choose another",
      words, d->disk_stuck_ms / 1000);
  else if (!cluster_uuid_is_zero (d->rec.release))
    cluster_step_problem_set (p, CLUSTER_CONFLICT, "releasing",
                              "%s has not yet released the array that it was a "
                              "member of: try again in a moment",
                              words);
  else if (cluster_node_is_draining (c, d->rec.node))
    cluster_step_problem_set (p, CLUSTER_CONFLICT, "draining",
                              "%s is on a node that is being drained: choose "
                              "another disk, or stop the drain first",
                              words);
  else if (cluster_node_in_maintenance (c, d->rec.node))
    cluster_step_problem_set (
      p, CLUSTER_CONFLICT, "maintenance",
      "%s is on a node in maintenance: choose another disk, "
      "or end the maintenance first",
      words);
  else
    return true;
  return false;
}

void
cluster_place_is_spare (const struct cluster *c, const struct cluster_disk *d,
                        struct cluster_problem *p)
{
  char words[320];

  cluster_step_problem_set (
    p, CLUSTER_CONFLICT, "spare",
    "%s is a spare of array %s: choose another disk, or "
    "take it from that array's spares first",
    cluster_words_disk (d, words, sizeof words),
    cluster_array_by_uuid (c, d->rec.spare_of)->rec.name);
}

/* ---- Which place is good. ---- */

bool
cluster_place_beside (const struct cluster_array *a, unsigned member,
                      const char *node)
{
  const struct layout_group group = layout_group (&a->layout, member);

  for (unsigned m = group.first; m < group.end; m++)
    if (m != member && cluster_disk_beside (a->disk[m], node))
      return true;
  return false;
}

uint64_t
cluster_place_harm (const struct cluster_array *a, unsigned member,
                    const char *node)
{
  const struct layout_group group = layout_group (&a->layout, member);
  bool lost[ARRAY_MEMBERS_MAX] = { false };
  uint64_t without;

  if (a->layout.copies == 1 || !cluster_place_beside (a, member, node))
    return 0;
  for (unsigned m = group.first; m < group.end; m++)
    lost[m] = m != member && cluster_disk_beside (a->disk[m], node);
  without = layout_loss (&a->layout, lost, NULL);
  lost[member] = true;
  return layout_loss (&a->layout, lost, NULL) - without;
}

uint64_t
cluster_place_harm_now (const struct cluster_array *a, unsigned member)
{
  const struct cluster_disk *d = a->disk[member];

  return cluster_disk_is_name (d) ? 0
                                  : cluster_place_harm (a, member, d->rec.node);
}

bool
cluster_place_fits (const struct cluster *c, const struct cluster_array *a,
                    const struct cluster_disk *d)
{
  struct cluster_problem p;

  return d->array == NULL && d->rec.data_bytes >= a->rec.member_bytes &&
         (cluster_uuid_is_zero (d->rec.spare_of) ||
          cluster_uuid_equal (d->rec.spare_of, a->rec.uuid)) &&
         cluster_place_usable (c, d, &p);
}

bool
cluster_place_better (const struct cluster_array *a, unsigned member,
                      const struct cluster_disk *d,
                      const struct cluster_disk *than)
{
  uint64_t harm, other;
  bool near, is_spare;

  if (than == NULL)
    return true;
  harm = cluster_place_harm (a, member, d->rec.node);
  other = cluster_place_harm (a, member, than->rec.node);
  if (harm != other)
    return harm < other;
  near = cluster_place_beside (a, member, d->rec.node);
  if (near != cluster_place_beside (a, member, than->rec.node))
    return !near;
  is_spare = !cluster_uuid_is_zero (d->rec.spare_of);
  if (is_spare == cluster_uuid_is_zero (than->rec.spare_of))
    return is_spare;
  return d->rec.data_bytes < than->rec.data_bytes;
}

bool
cluster_place_one_host (const struct cluster *c, const struct cluster_array *a)
{
  const char *node = a->disk[0]->rec.node;
  const struct cluster_disk *d;

  for (unsigned m = 0; m < a->layout.members; m++)
    if (!cluster_disk_beside (a->disk[m], node))
      return false;
  TAILQ_FOREACH (d, &c->disks, link)
    if (!cluster_disk_beside (d, node) && cluster_place_fits (c, a, d))
      return false;
  return true;
}

/* The free disk of another host on which this member would be apart; or NULL. */
static struct cluster_disk *
place_apart (const struct cluster *c, const struct cluster_array *a,
             unsigned member)
{
  struct cluster_disk *d, *best = NULL;

  TAILQ_FOREACH (d, &c->disks, link)
    if (!cluster_disk_beside (a->disk[member], d->rec.node) &&
        cluster_place_fits (c, a, d) &&
        (a->layout.copies > 2
           ? !cluster_place_beside (a, member, d->rec.node)
           : cluster_place_harm (a, member, d->rec.node) == 0) &&
        cluster_place_better (a, member, d, best))
      best = d;
  return best;
}

struct cluster_disk *
cluster_place_mends (const struct cluster *c, const struct cluster_array *a,
                     unsigned *member)
{
  struct cluster_disk *d, *best = NULL;
  uint64_t most = 0;

  for (unsigned m = 0; m < a->layout.members; m++) {
    uint64_t harm = cluster_place_harm_now (a, m);

    /* Where there are more than two copies, two on one host are a host too few. */
    if ((harm == 0 && (a->layout.copies < 3 ||
                       !cluster_place_beside (a, m, a->disk[m]->rec.node))) ||
        (best && harm <= most) || (d = place_apart (c, a, m)) == NULL)
      continue;
    best = d;
    most = harm;
    *member = m;
  }
  return best;
}

bool
cluster_place_refused (const struct cluster *c, const struct cluster_array *a,
                       unsigned member, const struct cluster_disk *d,
                       struct cluster_problem *p)
{
  uint64_t harm = cluster_place_harm (a, member, d->rec.node);
  struct cluster_disk *other;
  char words[320], bytes[32], better[200] = "one of another host";

  if (harm <= cluster_place_harm_now (a, member))
    return false; /* so it is where all disks are of one host, too */
  other = place_apart (c, a, member);
  if (other)
    snprintf (better, sizeof better, "disk %.100s of host %s", other->rec.path,
              other->rec.node);
  cluster_step_problem_set (
    p, CLUSTER_CONFLICT, "one-host",
    "with %s in the place of member %u the loss of host %s would lose %s of "
    "array %s, because other members of the group are there: choose %s, or "
    "force it",
    cluster_words_disk (d, words, sizeof words), member, d->rec.node,
    cluster_words_bytes (harm, bytes, sizeof bytes), a->rec.name, better);
  return true;
}

/* ---- Giving and taking. ---- */

void
cluster_place_link (struct cluster *c, struct cluster_array *a)
{
  for (unsigned m = 0; m < a->layout.members; m++) {
    a->disk[m] = cluster_disk_find (c, a->rec.member[m].disk);
    assert (a->disk[m] && a->disk[m]->array == NULL);
    a->disk[m]->array = a;
    a->disk[m]->position = m;
    if (a->rec.member[m].imported == 0)
      a->rec.member[m].imported = a->disk[m]->rec.imported;
  }
}

void
cluster_place_unlink (struct cluster *c, struct cluster_array *a,
                      unsigned member)
{
  struct cluster_disk *d = a->disk[member];

  a->disk[member] = NULL;
  d->array = NULL;
  d->took_place = d->old_copy = d->served = false;
  d->told.reply = false;
  d->rec.sequence = 0;
  memset (&d->join, 0, sizeof d->join);
  memset (d->owed, 0, sizeof d->owed);
  d->overdue = WORD_NONE;
  if (cluster_disk_is_name (d)) {
    cluster_step_drop_disk (c, d);
    return;
  }
  memcpy (d->rec.release, a->rec.uuid, 16);
  cluster_step_put_disk (c, d);
  cluster_step_changed_disk (c, d);
  cluster_tell_wake_disk (c, d);
}

void
cluster_place_give (struct cluster *c, struct cluster_array *a, unsigned member,
                    struct cluster_disk *d)
{
  uint64_t harm = cluster_place_harm (a, member, d->rec.node);
  struct cluster_member *m = &a->rec.member[member];
  char words[320], bytes[32];

  assert (m->state == MEMBER_OUT && d->array == NULL);
  cluster_place_unlink (c, a, member);
  memcpy (m->disk, d->rec.uuid, 16);
  memset (m->next_disk, 0, 16);
  m->held = m->slow = m->reset = m->partly = false;
  m->confirmed = CONFIRMED_BY_NONE;
  m->round = 0;
  cluster_array_member_since (c, a, member);
  snprintf (m->reason, sizeof m->reason, "it is new in this place");
  a->disk[member] = d;
  d->array = a;
  d->position = member;
  d->told.reply = false;
  d->back.due_live_ms = d->back.last_live_ms = d->back.backoff_ms = 0;
  d->back.flaps_live_ms = 0;
  memset (d->rec.spare_of, 0, 16);
  cluster_step_put_disk (c, d);
  cluster_step_put_array (c, a);
  cluster_step_changed_disk (c, d);
  cluster_step_changed_array (c, a);
  if (harm > 0)
    cluster_step_log (
      c, CLUSTER_WARNING, "array", a->rec.name,
      "With %s in the place of member %u the loss of host %s loses "
      "%s of array %s: other members of the group are there.",
      cluster_words_disk (d, words, sizeof words), member, d->rec.node,
      cluster_words_bytes (harm, bytes, sizeof bytes), a->rec.name);
}

void
cluster_place_put_out (struct cluster *c, struct cluster_array *a,
                       unsigned member, const char *reason)
{
  struct cluster_member *m = &a->rec.member[member];
  uint8_t states[ARRAY_MEMBERS_MAX];

  cluster_change_states (a, states);
  if (states[member] == MEMBER_OUT)
    return;
  cluster_copies_leave_out (a, member, states);
  snprintf (m->reason, sizeof m->reason, "%s", reason);
  m->planned = true;
  cluster_change_put_out (c, a, states);
}
