/* cluster-import-plan.c: the members' states that an import would record, and
 * the doubts about them.
 *
 * The only facts are the disks' own reports.  A superblock has the states of
 * all members as of an epoch, and the highest round that the disk has noted; it
 * does not say which disk has which place.  So:
 *
 * - The states of the highest epoch count.  A disk whose member is in-sync
 *   there is *current* if it knows that epoch itself, or has confirmed it
 *   (weftd tells it only to the disk of the place, and asks only that disk to
 *   confirm it), and if its round is no more than one behind the highest of all.
 * - A disk that is not current was replaced, was out, or is an old copy; or it
 *   is the right one and had not heard of the epoch yet.  These cases look the
 *   same.
 * - So each member that is in-sync is waited for until its current disk is
 *   there, or an administrator gives the member up.
 * - Members that are given up, or have no current disk, may have gone on
 *   without the others.  Without all current disks they could do so only with a
 *   copy of everything; otherwise they needed one of the current disks, which
 *   would know.
 *
 * An administrator can accept the doubts that remain, by name.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cluster/cluster-import.h"
#include "cluster-inputs.h"

typedef struct cluster_disk_heartbeat heartbeat;

static uint64_t
highest (uint64_t a, uint64_t b)
{
  return a > b ? a : b;
}

/* ---- Which disks are there? ---- */

bool
cluster_import_plan_is_heard (const struct cluster *c,
                              const struct cluster_foreign *f)
{
  const struct cluster_disk *d = cluster_disk_find (c, f->hb.uuid);

  return c->live_ms - f->last_live_ms < FOREIGN_LIVE_MS &&
         (d == NULL || d->array == NULL);
}

/* Does `a` know less than `b`?  SEQUENCE counts the writes of one disk alone, and says
 * nothing about another one.
 */
static bool
knows_less (const heartbeat *a, const heartbeat *b)
{
  if (a->states_epoch != b->states_epoch)
    return a->states_epoch < b->states_epoch;
  if (a->round != b->round)
    return a->round < b->round;
  return cluster_uuid_equal (a->uuid, b->uuid) && a->sequence < b->sequence;
}

static void
take (struct cluster_import_plan *plan, const heartbeat *hb, bool without)
{
  struct cluster_import_place *p = &plan->place[hb->position];
  const heartbeat *older = hb;

  plan->epoch = highest (plan->epoch,
                         highest (hb->min_epoch, hb->states_epoch));
  plan->generation = highest (plan->generation, hb->generation);
  if (without) {
    if (p->given_up == NULL || knows_less (p->given_up, hb))
      p->given_up = hb;
    return;
  }
  if (plan->ahead == NULL || plan->ahead->round < hb->round)
    plan->ahead = hb;
  if (plan->newest == NULL || plan->newest->states_epoch < hb->states_epoch)
    plan->newest = hb;
  if (p->disk == NULL) {
    p->disk = hb;
    return;
  }
  if (knows_less (p->disk, hb)) {
    older = p->disk;
    p->disk = hb;
  }
  /* Each disk has one entry; if two reports have the same numbers, either will
   * do.
   */
  if (cluster_uuid_equal (older->uuid, p->disk->uuid) ||
      older->states_epoch == p->disk->states_epoch) {
    plan->twin[0] = older;
    plan->twin[1] = p->disk;
  }
  if (p->former == NULL || knows_less (p->former, older))
    p->former = older;
}

static void
find (const struct cluster *c, const struct cluster_import *import,
      struct cluster_import_plan *plan)
{
  const struct cluster_foreign *f;

  TAILQ_FOREACH (f, &c->foreigns, link) {
    const heartbeat *hb = &f->hb;

    if (hb->has_place && cluster_uuid_equal (hb->array, import->array) &&
        cluster_import_plan_is_heard (c, f) && hb->position < ARRAY_MEMBERS_MAX)
      take (plan, hb, import->without[hb->position]);
  }
  for (unsigned m = 0; plan->newest && m < ARRAY_MEMBERS_MAX; m++) {
    const heartbeat *hb = plan->place[m].given_up;

    if (hb && (hb->states_epoch > plan->newest->states_epoch ||
               hb->round >= plan->ahead->round + 2))
      plan->given_up = hb;
  }
}

static void
twin_refused (struct cluster *c, uint64_t op, const heartbeat *older,
              const heartbeat *other)
{
  char which[280] = "";

  if (knows_less (older, other))
    snprintf (which, sizeof which,
              ": it is %.100s of node %s, with round %" PRIu64
              " and sequence %" PRIu64,
              older->path, older->node, older->round, older->sequence);
  cluster_step_refuse (c, op, CLUSTER_CONFLICT, "clone",
                       "disk %.150s of node %s and disk %.150s of node %s both "
                       "say that they are member %u: one is a copy; stop the "
                       "process of the older one%s; wait %d s, and try again",
                       older->path, older->node, other->path, other->node,
                       older->position, which, FOREIGN_LIVE_MS / 1000);
}

static bool
find_refused (struct cluster *c, uint64_t op,
              const struct cluster_import *import,
              struct cluster_import_plan *plan)
{
  char text[CLUSTER_UUID_TEXT_BYTES];

  find (c, import, plan);
  if (plan->twin[0])
    twin_refused (c, op, plan->twin[0], plan->twin[1]);
  else if (plan->newest == NULL) {
    cluster_words_uuid (import->array, text);
    cluster_step_refuse (
      c, op, CLUSTER_NOT_FOUND, "unknown-array",
      "no disk has asked lately that says that it belongs to "
      "array %s: start its member processes with this weftd's "
      "admin URL; GET /api/v1/imports lists what was heard",
      text)
      ->field = "array";
  }
  else
    return false;
  return true;
}

/* From another cluster weftd takes only the fields that make it that cluster's.
 */
static bool
cluster_refused (struct cluster *c, uint64_t op,
                 const struct cluster_import_plan *plan)
{
  if (cluster_uuid_equal (plan->newest->cluster, c->identity.uuid) ||
      TAILQ_EMPTY (&c->arrays))
    return false;
  cluster_step_refuse (c, op, CLUSTER_CONFLICT, "not-empty",
                       "this weftd has arrays of its own, so it can't become "
                       "the cluster of these members: start a weftd with an "
                       "empty state directory, and import there");
  return true;
}

/* ---- Are they members of one array? ---- */

/* Does this member say the same of the array as the newest? */
static bool
agrees (const heartbeat *a, const heartbeat *b)
{
  return cluster_uuid_equal (a->cluster, b->cluster) &&
         a->layout == b->layout && a->n == b->n && a->groups == b->groups &&
         a->unit == b->unit && a->member_bytes == b->member_bytes &&
         a->dup == b->dup &&
         (a->states_epoch != b->states_epoch ||
          memcmp (a->states, b->states, a->n * a->groups) == 0);
}

static bool
member_refused (struct cluster *c, uint64_t op,
                const struct cluster_import_plan *plan, unsigned m)
{
  const heartbeat *hb = plan->place[m].disk, *newest = plan->newest;
  const heartbeat *twin = NULL;

  for (unsigned i = 0; i < m; i++)
    if (plan->place[i].disk &&
        cluster_uuid_equal (plan->place[i].disk->uuid, hb->uuid))
      twin = plan->place[i].disk;
  if (twin)
    cluster_step_refuse (c, op, CLUSTER_CONFLICT, "clone",
                         "disk %.150s of node %s and disk %.150s of node %s "
                         "have the same UUID: stop the process of the one "
                         "that is a copy, and try again",
                         twin->path, twin->node, hb->path, hb->node);
  else if (m >= plan->layout.members || !agrees (hb, newest))
    cluster_step_refuse (c, op, CLUSTER_CONFLICT, "disagree",
                         "disk %.150s of node %s and disk %.150s of node %s "
                         "say different things of the array: stop the "
                         "process of the one that is not of it, and give "
                         "member %u up with without",
                         hb->path, hb->node, newest->path, newest->node, m);
  else if (cluster_disk_find (c, hb->uuid))
    cluster_step_refuse (c, op, CLUSTER_CONFLICT, "known-disk",
                         "disk %.200s of node %s is known here already, and "
                         "as another: forget it first",
                         hb->path, hb->node);
  else if (cluster_disk_state_failed (hb->state))
    cluster_step_refuse (
      c, op, CLUSTER_CONFLICT, "failed",
      "disk %.200s of node %s has failed (%.200s): give "
      "member %u up with without, if nothing is lost with it",
      hb->path, hb->node, hb->reason, m);
  else
    return false;
  return true;
}

/* False: the newest disk does not say all that is needed. */
static bool
lay_out (struct cluster_import_plan *plan)
{
  const heartbeat *newest = plan->newest;
  char why[256];

  if (layout_init (&plan->layout, newest->layout, newest->n, newest->groups,
                   newest->unit, newest->member_bytes, why, sizeof why) == 0 &&
      plan->layout.member_bytes == newest->member_bytes)
    return true;
  plan->layout.members = 0;
  return false;
}

static bool
members_refused (struct cluster *c, uint64_t op,
                 struct cluster_import_plan *plan)
{
  if (!lay_out (plan)) {
    cluster_step_refuse (c, op, CLUSTER_CONFLICT, "superblock",
                         "disk %.200s of node %s does not say all that is "
                         "needed to know its array: its superblock is of an "
                         "older Weft, or damaged; put weftd's database back",
                         plan->newest->path, plan->newest->node);
    return true;
  }
  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++)
    if (plan->place[m].disk && member_refused (c, op, plan, m))
      return true;
  return false;
}

/* ---- What is each member to be? ---- */

/* A disk that has confirmed the epoch was asked to, and learns of the COMMIT a moment
 * later.  A disk raises min_epoch by itself, too, but no further than to the epoch in
 * which it goes out; another disk in its place becomes in-sync later.  If the disk does
 * not know that it was in the array, its min_epoch may come from another one.
 */
bool
cluster_import_plan_knows (const heartbeat *hb, uint64_t epoch)
{
  return hb->states_epoch == epoch ||
         (hb->min_epoch >= epoch && hb->states_epoch > 0 &&
          hb->states[hb->position] != MEMBER_OUT);
}

/* Has `a` less of the data than `b`?  A disk that counts gets each round, also where
 * weftd does not reach it and tells it of no epoch.
 */
static bool
has_less (const heartbeat *a, const heartbeat *b)
{
  if (a->round + 2 <= b->round || b->round + 2 <= a->round)
    return a->round < b->round;
  return knows_less (a, b);
}

/* The disk that has least of those that are not current, and that the array can do
 * without; -1: there is none.
 */
static int
needless (const struct cluster_import_plan *plan, bool out[])
{
  int least = -1;

  for (unsigned m = 0; m < plan->layout.members; m++) {
    if (out[m] || plan->place[m].current ||
        (least >= 0 &&
         !has_less (plan->place[m].disk, plan->place[least].disk)))
      continue;
    out[m] = true;
    if (layout_loss (&plan->layout, out, NULL) == 0)
      least = (int) m;
    out[m] = false;
  }
  return least;
}

static void
decide (const struct cluster_import *import, struct cluster_import_plan *plan)
{
  bool out[ARRAY_MEMBERS_MAX], old[ARRAY_MEMBERS_MAX];
  bool others[ARRAY_MEMBERS_MAX], any = false;
  int m;

  for (unsigned i = 0; i < plan->layout.members; i++) {
    struct cluster_import_place *p = &plan->place[i];
    const heartbeat *said = p->disk ? p->disk : p->given_up;
    bool knows = said &&
                 cluster_import_plan_knows (said, plan->newest->states_epoch);

    p->in_sync = plan->newest->states[i] == MEMBER_IN_SYNC;
    p->unknown = p->in_sync &&
                 !(knows && said->round + 1 >= plan->ahead->round);
    p->current = p->in_sync && p->disk && !p->unknown;
    p->without = import->without[i];
    out[i] = !p->in_sync || p->disk == NULL;
    old[i] = !p->current;
    others[i] = !p->unknown;
    any |= p->unknown;
  }
  plan->gone_on = any && layout_loss (&plan->layout, others, NULL) == 0;
  plan->old_bytes = layout_loss (&plan->layout, old, NULL);
  while (import->accept_loss && (m = needless (plan, out)) >= 0)
    out[m] = true;
  plan->lost_bytes = layout_loss (&plan->layout, out, NULL);
  for (unsigned i = 0; i < plan->layout.members; i++) {
    plan->place[i].state = out[i] ? MEMBER_OUT : MEMBER_IN_SYNC;
    if (!out[i])
      plan->round = highest (plan->round, plan->place[i].disk->round);
  }
}

/* ---- Doubts. ---- */

/* The doubt about this member, in words; false: there is none. */
static bool
doubt_member (const struct cluster_import_plan *plan, unsigned m, char *text,
              size_t size)
{
  const struct cluster_import_place *p = &plan->place[m];
  const heartbeat *newest = plan->newest, *ahead = plan->ahead;

  if (!p->in_sync || p->current || p->without)
    return false;
  if (p->disk == NULL)
    snprintf (text, size,
              "Member %u is in-sync as of epoch %" PRIu64
              ", and no disk was heard that says that it is this member.",
              m, newest->states_epoch);
  else if (p->disk->states_epoch < newest->states_epoch)
    snprintf (text, size,
              "Member %u: disk %.100s of node %s knows epoch %" PRIu64
              " and round %" PRIu64 "; disk %.100s of node %s knows epoch "
              "%" PRIu64 ", and the highest round is %" PRIu64
              ". Another disk may have taken this place, or this is an old "
              "copy.",
              m, p->disk->path, p->disk->node, p->disk->states_epoch,
              p->disk->round, newest->path, newest->node, newest->states_epoch,
              ahead->round);
  else
    snprintf (text, size,
              "Member %u: disk %.100s of node %s knows round %" PRIu64
              ", and disk %.100s of node %s knows round %" PRIu64
              ". This is an old copy of the disk.",
              m, p->disk->path, p->disk->node, p->disk->round, ahead->path,
              ahead->node, ahead->round);
  return true;
}

static void
doubt_gone_on (const struct cluster_import_plan *plan, char *text, size_t size)
{
  char list[120] = "";
  size_t used = 0;

  for (unsigned m = 0; m < plan->layout.members && used < 100; m++)
    if (plan->place[m].unknown)
      used += (size_t) snprintf (list + used, sizeof list - used, "%s%u",
                                 used ? ", " : "", m);
  snprintf (
    text, size,
    "The right disk of these in-sync members is not there: %s. Together "
    "they have a copy of everything, so they may have gone on without "
    "the others, and what they got then is nowhere else.",
    list);
}

bool
cluster_import_doubts (const struct cluster_import_plan *plan, unsigned *next,
                       char *text, size_t size)
{
  unsigned members = plan->layout.members;

  while (*next < members)
    if (doubt_member (plan, (*next)++, text, size))
      return true;
  if (*next == members) {
    ++*next;
    if (plan->gone_on) {
      doubt_gone_on (plan, text, size);
      return true;
    }
  }
  if (*next > members + 1 || plan->given_up == NULL)
    return false;
  ++*next;
  snprintf (text, size,
            "Disk %.100s of node %s, member %u, which is given up, knows epoch "
            "%" PRIu64 " and round %" PRIu64 ", and no other knows more than "
            "epoch %" PRIu64 " and round %" PRIu64 ".",
            plan->given_up->path, plan->given_up->node,
            plan->given_up->position, plan->given_up->states_epoch,
            plan->given_up->round, plan->newest->states_epoch,
            plan->ahead->round);
  return true;
}

/* The way out for a member whose disk is missing or behind. */
static void
way_out (const struct cluster_import_plan *plan, unsigned m, char *text,
         size_t size)
{
  bool out[ARRAY_MEMBERS_MAX];

  for (unsigned i = 0; i < plan->layout.members; i++)
    out[i] = !plan->place[i].in_sync || plan->place[i].disk == NULL || i == m;
  if (layout_loss (&plan->layout, out, NULL) == 0)
    snprintf (text, size,
              "Start the member process of the right disk with this weftd's "
              "admin URL; or give member %u up (--without %u)",
              m, m);
  else if (plan->place[m].disk)
    snprintf (text, size,
              "Start the member process of the right disk with this weftd's "
              "admin URL; if that is gone for good, accept the loss of what "
              "this one lacks (--accept-loss)");
  else
    snprintf (text, size,
              "Start its member process with this weftd's admin URL: some data "
              "has no other copy here");
}

static bool
doubts_refused (struct cluster *c, uint64_t op,
                const struct cluster_import *import,
                const struct cluster_import_plan *plan)
{
  char text[480], way[220];
  unsigned next = 0;

  for (unsigned m = 0; m < plan->layout.members; m++) {
    const struct cluster_import_place *p = &plan->place[m];

    if ((p->disk && import->accept_loss) ||
        !doubt_member (plan, m, text, sizeof text))
      continue;
    way_out (plan, m, way, sizeof way);
    cluster_step_refuse (c, op, CLUSTER_CONFLICT,
                         p->disk ? "behind" : "member-missing", "%s %s", text,
                         way)
      ->field = "without";
    return true;
  }
  if (import->accept_loss ||
      !cluster_import_doubts (plan, &next, text, sizeof text))
    return false;
  cluster_step_refuse (
    c, op, CLUSTER_CONFLICT, "newer",
    "%s Start the member processes with this weftd's admin URL, "
    "and give up none that asks; if those disks are gone for good, "
    "accept the loss of what they may have (--accept-loss)",
    text)
    ->field = "accept_loss";
  return true;
}

void
cluster_import_look (const struct cluster *c,
                     const struct cluster_import *import,
                     struct cluster_import_plan *plan)
{
  memset (plan, 0, sizeof *plan);
  find (c, import, plan);
  if (plan->newest && lay_out (plan))
    decide (import, plan);
}

bool
cluster_import_refused (struct cluster *c, uint64_t op,
                        const struct cluster_import *import,
                        struct cluster_import_plan *plan)
{
  memset (plan, 0, sizeof *plan);
  if (find_refused (c, op, import, plan) || cluster_refused (c, op, plan) ||
      members_refused (c, op, plan))
    return true;
  decide (import, plan);
  if (doubts_refused (c, op, import, plan))
    return true;
  if (plan->lost_bytes == 0)
    return false;
  cluster_step_refuse (c, op, CLUSTER_CONFLICT, "last-copy",
                       "of %" PRIu64 " bytes no copy is left in the members "
                       "that are there and in-sync: start the member processes "
                       "of the others",
                       plan->lost_bytes)
    ->field = "without";
  return true;
}
