/* cluster-place.c: which disk has which place in an array. */

#include <config.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cluster-internal.h"

bool
cluster_disk_usable (const struct cluster *c, const struct cluster_disk *d,
                     struct cluster_problem *p)
{
  char words[320];

  cluster_disk_words (d, words, sizeof words);
  if (!d->heard || !d->alive)
    cluster_problem_set (p, CLUSTER_CONFLICT, "silent",
                         "%s is silent: start its member process first", words);
  else if (d->failed)
    cluster_problem_set (p, CLUSTER_CONFLICT, "failed",
                         "%s has failed (%s): replace it first", words,
                         d->reason);
  else if (cluster_disk_doubtful (d))
    cluster_problem_set (p, CLUSTER_CONFLICT, "failed",
                         "%s has answered nothing for %" PRIu64
                         " s, although its process lives: see to the disk, or "
                         "choose another",
                         words, d->disk_stuck_ms / 1000);
  else if (!cluster_uuid_is_zero (d->rec.release))
    cluster_problem_set (p, CLUSTER_CONFLICT, "releasing",
                         "%s has not yet released the array that it was a "
                         "member of: try again in a moment",
                         words);
  else if (cluster_node_is_draining (c, d->rec.node))
    cluster_problem_set (p, CLUSTER_CONFLICT, "draining",
                         "%s is on a node that is being drained: choose "
                         "another disk, or stop the drain first",
                         words);
  else if (cluster_node_in_maintenance (c, d->rec.node))
    cluster_problem_set (p, CLUSTER_CONFLICT, "maintenance",
                         "%s is on a node in maintenance: choose another disk, "
                         "or end the maintenance first",
                         words);
  else
    return true;
  return false;
}

void
cluster_disk_is_spare (const struct cluster *c, const struct cluster_disk *d,
                       struct cluster_problem *p)
{
  char words[320];

  cluster_problem_set (p, CLUSTER_CONFLICT, "spare",
                       "%s is a spare of array %s: choose another disk, or "
                       "take it from that array's spares first",
                       cluster_disk_words (d, words, sizeof words),
                       cluster_array_by_uuid (c, d->rec.spare_of)->rec.name);
}

void
cluster_array_link (struct cluster *c, struct cluster_array *a)
{
  for (unsigned m = 0; m < a->layout.members; m++) {
    a->disk[m] = cluster_disk_find (c, a->rec.member[m].disk);
    assert (a->disk[m] && a->disk[m]->array == NULL);
    a->disk[m]->array = a;
    a->disk[m]->position = m;
  }
}

void
cluster_array_unlink (struct cluster *c, struct cluster_array *a,
                      unsigned member)
{
  struct cluster_disk *d = a->disk[member];

  a->disk[member] = NULL;
  d->array = NULL;
  d->took_place = d->old_copy = d->served = false;
  d->told = false;
  d->rec.sequence = 0;
  memset (&d->join, 0, sizeof d->join);
  if (cluster_disk_is_name (d)) {
    cluster_drop_disk (c, d);
    return;
  }
  memcpy (d->rec.release, a->rec.uuid, 16);
  cluster_put_disk (c, d);
  cluster_changed_disk (c, d);
  cluster_disk_wake (c, d);
}

void
cluster_member_give (struct cluster *c, struct cluster_array *a,
                     unsigned member, struct cluster_disk *d)
{
  struct cluster_member *m = &a->rec.member[member];

  assert (m->state == MEMBER_OUT && d->array == NULL);
  cluster_array_unlink (c, a, member);
  memcpy (m->disk, d->rec.uuid, 16);
  m->held = m->reset = m->partly = false;
  m->confirmed = CONFIRMED_BY_NONE;
  m->round = 0;
  cluster_member_since (c, a, member);
  snprintf (m->reason, sizeof m->reason, "it is new in this place");
  a->disk[member] = d;
  d->array = a;
  d->position = member;
  d->told = false;
  d->rejoin_live_ms = d->rejoined_live_ms = d->backoff_ms = 0;
  d->flaps_live_ms = 0;
  memset (d->rec.spare_of, 0, 16);
  cluster_put_disk (c, d);
  cluster_put_array (c, a);
  cluster_changed_disk (c, d);
  cluster_changed_array (c, a);
}

void
cluster_member_put_out (struct cluster *c, struct cluster_array *a,
                        unsigned member, const char *reason)
{
  struct cluster_member *m = &a->rec.member[member];
  uint8_t states[ARRAY_MEMBERS_MAX];

  cluster_change_states (a, states);
  if (states[member] == MEMBER_OUT)
    return;
  cluster_array_leave_out (a, member, states);
  snprintf (m->reason, sizeof m->reason, "%s", reason);
  m->planned = true;
  cluster_change_put_out (c, a, states);
}
