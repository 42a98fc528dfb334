/* cluster-array.c: arrays: planning, creating, deleting, and their state.
 *
 * An array is made in one transaction and is "creating" until every disk has
 * reported its place.  Deleting it is one transaction too: from then on weftd
 * tells each of its disks to release that array, by its UUID, until the disk
 * says that it has.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-inputs.h"

/* ---- Planning and creating. ---- */

/* Can this disk be member m of a new array?  Returns 0 or -1. */
static int
plan_disk (struct cluster *c, const struct cluster_create *create, unsigned m,
           struct cluster_array *a, struct cluster_problem *p)
{
  const uint8_t *uuid = create->disk[m];
  struct cluster_disk *d = cluster_disk_find (c, uuid);
  char words[320];
  unsigned twin = 0;

  while (twin < m && a->disk[twin] != d)
    twin++;
  if (d == NULL)
    cluster_words_disk_unknown (uuid, p);
  else if (twin < m)
    cluster_step_problem_set (p, CLUSTER_INVALID, "same-disk",
                              "%s is given twice: every member needs a disk of "
                              "its own",
                              cluster_words_disk (d, words, sizeof words));
  else if (d->array)
    cluster_step_problem_set (
      p, CLUSTER_CONFLICT, "in-use",
      "%s is member %u of array %s: choose another disk, "
      "or delete that array first",
      cluster_words_disk (d, words, sizeof words), d->position,
      d->array->rec.name);
  else if (!cluster_uuid_is_zero (d->rec.spare_of))
    cluster_place_is_spare (c, d, p);
  else if (cluster_place_usable (c, d, p)) {
    a->disk[m] = d;
    memcpy (a->rec.member[m].disk, uuid, 16);
    a->rec.member[m].state = MEMBER_IN_SYNC;
    cluster_array_member_since (c, a, m);
    return 0;
  }
  p->field = "disks";
  return -1;
}

/* The loss of one host would lose data, and not all disks are of one host. */
static bool
refuse_together (const struct cluster *c, const struct cluster_array *a,
                 struct cluster_problem *p)
{
  uint64_t together;
  unsigned first = 0;
  char bytes[32];

  cluster_array_hosts_survived (a, &together);
  if (together == 0 || cluster_place_one_host (c, a))
    return false;
  while (cluster_place_harm_now (a, first) == 0)
    first++;
  cluster_step_problem_set (
    p, CLUSTER_CONFLICT, "one-host",
    "%s of array %s would have all of their copies on one host, such as %s: "
    "take disks of more hosts, have disks of different hosts in each group "
    "(their order, and groups), or force it",
    cluster_words_bytes (together, bytes, sizeof bytes), a->rec.name,
    a->disk[first]->rec.node)
    ->field = "disks";
  return true;
}

int
cluster_array_plan (struct cluster *c, const struct cluster_create *create,
                    struct cluster_array *a, struct cluster_problem *p)
{
  uint64_t bytes = MEMBER_DATA_BYTES_MAX, epoch = 0;
  struct pool_header geometry;
  const char *reason;
  char why[256];

  memset (a, 0, sizeof *a);
  if (cluster_array_find (c, create->name)) {
    cluster_step_problem_set (
      p, CLUSTER_CONFLICT, "exists",
      "there is an array %s already: choose another name", create->name)
      ->field = "name";
    return -1;
  }
  if (create->groups == 0 || create->members == 0 ||
      create->members % create->groups != 0) {
    cluster_step_problem_set (
      p, CLUSTER_INVALID, "groups",
      "%u disks cannot be parted into %u equal groups: give "
      "a number of groups that divides them",
      create->members, create->groups)
      ->field = "groups";
    return -1;
  }
  if (layout_cluster (create->layout, create->members / create->groups) > 1 &&
      create->dup != DUP_ASYNC_CLIENT) {
    cluster_step_problem_set (p, CLUSTER_INVALID, "dup",
                              "%s writes its images in the background, always: "
                              "leave dup out, or choose another layout",
                              layout_name (create->layout))
      ->field = "dup";
    return -1;
  }
  for (unsigned m = 0; m < create->members; m++) {
    if (plan_disk (c, create, m, a, p) == -1)
      return -1;
    if (a->disk[m]->rec.data_bytes < bytes)
      bytes = a->disk[m]->rec.data_bytes;
    /* The array's epochs begin above all that its disks have seen in others. */
    if (a->disk[m]->min_epoch > epoch)
      epoch = a->disk[m]->min_epoch;
    if (a->disk[m]->states_epoch > epoch)
      epoch = a->disk[m]->states_epoch;
  }
  if (layout_init (&a->layout, create->layout, create->members / create->groups,
                   create->groups, create->unit, format_usable (bytes), why,
                   sizeof why) == -1) {
    cluster_step_problem_set (p, CLUSTER_INVALID, "layout", "%s", why)->field =
      "layout";
    return -1;
  }
  if (create->pool) {
    if (pool_plan (a->layout.size, create->segment_bytes, &geometry, &reason) ==
        -1) {
      cluster_step_problem_set (p, CLUSTER_INVALID, "pool",
                                "array %s cannot be a pool: %s", create->name,
                                reason)
        ->field = create->segment_bytes ? "segment_bytes" : "pool";
      return -1;
    }
    a->rec.pool = CLUSTER_POOL_BLANK;
    a->rec.segment_bytes = geometry.segment_bytes;
  }
  snprintf (a->rec.name, sizeof a->rec.name, "%s", create->name);
  a->rec.layout = create->layout;
  a->rec.dup = create->dup;
  a->rec.n = a->layout.n;
  a->rec.groups = a->layout.groups;
  a->rec.unit = create->unit;
  a->rec.member_bytes = a->layout.member_bytes;
  a->rec.epoch = epoch + 1;
  a->rec.spare_after_ms = SPARE_AFTER_MS_DEFAULT;
  a->rec.allow = create->allow;
  if (!create->allow.listed)
    cluster_access_begin (a, &a->rec.allow);
  if (!create->force && refuse_together (c, a, p))
    return -1;
  for (unsigned m = 0; m < create->members; m++)
    a->rec.member[m].fence = a->rec.member[m].lapse = a->rec.member[m].life =
      a->rec.epoch;
  return 0;
}

bool
cluster_array_create_refused (struct cluster *c, uint64_t op,
                              const struct cluster_create *create,
                              struct cluster_array *plan)
{
  const struct cluster_array *other;
  struct cluster_problem p;
  unsigned count = 0;

  TAILQ_FOREACH (other, &c->arrays, link)
    count++;
  if (cluster_step_refuse_read_only (c, op))
    ;
  else if (count >= ARRAYS_MAX)
    cluster_step_refuse (c, op, CLUSTER_CONFLICT, "too-many",
                         "there are %d arrays already: delete one first",
                         ARRAYS_MAX);
  else if (cluster_array_plan (c, create, plan, &p) == -1)
    cluster_step_problem_send (c, op, &p);
  else
    return false;
  return true;
}

void
cluster_array_create (struct cluster *c, const struct cluster_input *in,
                      const struct cluster_create *create)
{
  struct cluster_array *a = alloc_zeroed (sizeof *a);
  uint64_t together;
  char bytes[32];

  cluster_step_begin (c, in);
  if (cluster_array_create_refused (c, in->op, create, a))
    free (a);
  else {
    cluster_uuid_make (in->random, a->rec.uuid);
    if (a->rec.pool != CLUSTER_POOL_NONE)
      cluster_volume_pool (a);
    cluster_array_insert (c, a);
    cluster_place_link (c, a);
    cluster_step_put_array (c, a);
    cluster_step_member_moved (c, a);
    for (unsigned m = 0; m < a->layout.members; m++)
      cluster_step_changed_disk (c, a->disk[m]);
    cluster_step_log (c, CLUSTER_INFO, "array", a->rec.name,
                      "Array %s was created: %s over %u members.", a->rec.name,
                      layout_name (a->rec.layout), a->layout.members);
    cluster_array_hosts_survived (a, &together);
    if (together > 0)
      cluster_step_log (c, CLUSTER_WARNING, "array", a->rec.name,
                        "%s of array %s have all of their copies on one host.",
                        cluster_words_bytes (together, bytes, sizeof bytes),
                        a->rec.name);
    cluster_step_reply_array (c, in->op, a);
  }
  cluster_pump_end (c);
}

/* ---- Deleting. ---- */

bool
cluster_array_delete_refused (struct cluster *c, uint64_t op, const char *name)
{
  const struct cluster_array *a = cluster_step_array_or_refuse (c, op, name);
  struct cluster_session *s;
  struct cluster_problem *p;

  if (a == NULL || cluster_step_refuse_read_only (c, op))
    return true;
  TAILQ_FOREACH (s, &a->sessions, array_link) {
    if (!s->alive)
      continue;
    p = cluster_step_refuse (c, op, CLUSTER_CONFLICT, "held",
                             "array %s is attached by node %s, process %" PRIu64
                             ": detach it there first",
                             a->rec.name, s->rec.node, s->rec.pid);
    cluster_step_problem_holder (p, &s->rec, cluster_session_silent_ms (c, s));
    return true;
  }
  return false;
}

/* Nothing may wait for an array that is gone.  attaches: of these those alone that attach,
 * which must not be tried again when sessions end.
 */
static void
refuse_waiting (struct cluster *c, const struct cluster_array *a, bool attaches)
{
  struct waiting *w, *next;

  TAILQ_FOREACH_SAFE (w, &c->waitings, link, next)
    if (w->array == a && (!attaches || w->grant || w->challenge)) {
      cluster_step_refuse (c, w->op, CLUSTER_NOT_FOUND, "unknown-array",
                           "array %s was deleted meanwhile", a->rec.name);
      cluster_wait_end (c, w);
    }
}

void
cluster_array_delete (struct cluster *c, const struct cluster_input *in,
                      const char *name)
{
  struct cluster_array *a = cluster_array_find (c, name);
  struct cluster_session *s;
  struct cluster_disk *d;
  uint8_t uuid[16];

  cluster_step_begin (c, in);
  if (!cluster_array_delete_refused (c, in->op, name)) {
    memcpy (uuid, a->rec.uuid, 16);
    refuse_waiting (c, a, true);
    while ((s = TAILQ_FIRST (&a->sessions)))
      cluster_session_end (c, s, "array %s was deleted", name);
    refuse_waiting (c, a, false);
    for (unsigned m = 0; m < a->layout.members; m++)
      cluster_place_unlink (c, a, m);
    TAILQ_FOREACH (d, &c->disks, link)
      if (cluster_uuid_equal (d->rec.spare_of, uuid)) {
        memset (d->rec.spare_of, 0, 16);
        cluster_step_put_disk (c, d);
        cluster_step_changed_disk (c, d);
      }
    cluster_step_log (c, CLUSTER_INFO, "array", name, "Array %s was deleted.",
                      name);
    cluster_volume_forget (c, a);
    cluster_step_drop_array (c, a);
    cluster_step_reply_done (c, in->op, CLUSTER_ARRAY, uuid, 0, name);
  }
  cluster_pump_end (c);
}
