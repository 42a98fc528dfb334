/* cluster-restore.c: weftd begins again from a backup of its database.
 *
 * An administrator's settings stay as they were when the backup was made:
 * nodes, names, lists, services.  Newer state is taken from the members, array
 * by array, as by an import (cluster-import.c). The state that may have changed
 * since the backup:
 *
 *   epochs and states   of the highest epoch that a member knows, or the backup
 *   generation, fences  above all that was ever used
 *   disks of members    the disks that say that they are the members
 *   processes, rounds   as the disks say
 *   keys of disks       new ones for all disks: a member takes each key from
 *                       weftd
 *   sessions            those of the backup end, all others are unknown
 *   disks to release    none: such a disk may have got a place since
 *
 * Until it is restored, an array is frozen (cluster_array_doubted): its disks
 * are heard, told nothing and kept in the list of foreign disks, and no session
 * begins.  The array is restored when each member that is in-sync in the newest
 * states was heard, or when an administrator gives the missing ones up
 * (cluster_array_restore). It then has an epoch above all that its disks have
 * seen, so an earlier writer is fenced with each member's next heartbeat, and
 * no session begins before that (cluster-attach.c).
 *
 * A writer may go on while members speak one after the other.  So a disk counts as an old
 * copy only if another member had said a higher round by two before this disk spoke, and
 * nothing is decided before each disk has spoken after all others.
 *
 * Missing members may have gone on without the others.  If these had a copy of everything
 * together, the array waits for their disks, as an import does (cluster-import-plan.c), or
 * until an administrator accepts the loss.
 *
 * A single node's report about epochs is checked, for disks that the backup
 * does not know: a disk of another node, or a disk in the backup, must confirm
 * it.
 */

#include <config.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cluster-inputs.h"

/* The lost database may have made this many epochs that no member has seen. */
#define RESTORE_EPOCHS 256

struct plan {
  const struct cluster_foreign *found[ARRAY_MEMBERS_MAX];
  const struct cluster_foreign *given_up[ARRAY_MEMBERS_MAX];
  uint8_t states[ARRAY_MEMBERS_MAX]; /* the newest */
  uint64_t states_epoch;             /* of which epoch they are */
  uint64_t epoch, generation;        /* the highest that was seen at all */
  uint64_t round;                    /* of members that are in-sync */
  bool out[ARRAY_MEMBERS_MAX];       /* each member's state after it */
  bool old[ARRAY_MEMBERS_MAX]; /* it is in-sync, and its disk is an old copy */
};

/* ---- The plan. ---- */

static bool waits (char *text, size_t size, const char *fmt, ...)
  __attribute__ ((format (printf, 3, 4)));

static bool
waits (char *text, size_t size, const char *fmt, ...)
{
  va_list ap;

  va_start (ap, fmt);
  vsnprintf (text, size, fmt, ap);
  va_end (ap);
  return true;
}

static uint64_t
highest (uint64_t a, uint64_t b)
{
  return a > b ? a : b;
}

/* Does this disk say that it is a member of the array?  (A disk that has a place in an
 * array which is restored already is asked there.)
 */
static bool
is_of (const struct cluster *c, const struct cluster_array *a,
       const struct cluster_foreign *f)
{
  const struct cluster_disk *d = cluster_disk_find (c, f->hb.uuid);

  return cluster_uuid_equal (f->hb.array, a->rec.uuid) &&
         f->hb.position < a->layout.members &&
         c->live_ms - f->last_live_ms < FOREIGN_LIVE_MS &&
         !(d && d->array && !d->array->rec.restoring);
}

/* Does the backup know that this disk is a member of the array? */
static bool
is_known (const struct cluster *c, const struct cluster_array *a,
          const struct cluster_foreign *f)
{
  const struct cluster_disk *d = cluster_disk_find (c, f->hb.uuid);

  return d && d->array == a;
}

/* Does a disk that the backup knows, or one of another node, say as much? */
static bool
is_borne_out (const struct cluster *c, const struct cluster_array *a,
              const struct cluster_foreign *f)
{
  const struct cluster_foreign *o;

  if (is_known (c, a, f) || f->hb.states_epoch <= a->rec.epoch)
    return true;
  TAILQ_FOREACH (o, &c->foreigns, link)
    if (is_of (c, a, o) && o->hb.states_epoch >= f->hb.states_epoch &&
        (is_known (c, a, o) || strcmp (o->hb.node, f->hb.node) != 0))
      return true;
  return false;
}

/* Of two disks that say that they are the same member, which is it? */
static bool
is_better (const struct cluster_foreign *f, const struct cluster_foreign *than)
{
  return than == NULL || f->hb.states_epoch > than->hb.states_epoch ||
         (f->hb.states_epoch == than->hb.states_epoch &&
          f->hb.round > than->hb.round);
}

/* The newest states, and the disks that say that they are members.  True: something is
 * waited for.
 */
static bool
find_waits (const struct cluster *c, const struct cluster_array *a,
            const struct cluster_import *order, struct plan *plan, char *text,
            size_t size)
{
  const struct cluster_foreign *f;

  plan->epoch = cluster_array_wanted_epoch (a);
  plan->states_epoch = a->rec.epoch;
  for (unsigned m = 0; m < a->layout.members; m++)
    plan->states[m] = (uint8_t) a->rec.member[m].state;
  TAILQ_FOREACH (f, &c->foreigns, link) {
    if (!is_of (c, a, f))
      continue;
    if (!cluster_import_agrees (c, a, &f->hb))
      return waits (text, size,
                    "disk %.200s of node %s says that it is member %u, but its "
                    "description of the array differs from the backup's: stop "
                    "its process, or format the disk",
                    f->hb.path, f->hb.node, f->hb.position);
    if (order == NULL && !is_borne_out (c, a, f))
      return waits (
        text, size,
        "disk %.200s of node %s, which the backup does not know, alone says "
        "that the array is in epoch %" PRIu64 ": start the other members' "
        "processes; if it is right, order that by the command weftctl array "
        "import, and if not, stop its process",
        f->hb.path, f->hb.node, f->hb.states_epoch);
    plan->epoch = highest (plan->epoch,
                           highest (f->hb.min_epoch, f->hb.states_epoch));
    plan->generation = highest (plan->generation, f->hb.generation);
    if (order && order->without[f->hb.position]) {
      if (is_better (f, plan->given_up[f->hb.position]))
        plan->given_up[f->hb.position] = f;
      continue;
    }
    if (f->hb.states_epoch > plan->states_epoch) {
      plan->states_epoch = f->hb.states_epoch;
      memcpy (plan->states, f->hb.states, a->layout.members);
    }
    if (is_better (f, plan->found[f->hb.position]))
      plan->found[f->hb.position] = f;
  }
  return false;
}

/* No disk says that it is this member, which is in-sync. */
static bool
member_waits (const struct cluster *c, const struct cluster_array *a,
              unsigned m, char *text, size_t size)
{
  const struct cluster_disk *d = a->disk[m];

  if (d->moved_live_ms > 0 && c->live_ms - d->moved_live_ms < FOREIGN_LIVE_MS)
    return waits (text, size,
                  "disk %.200s of node %s, which is member %u by the backup, "
                  "is not in this array any more: if the array was deleted "
                  "since, delete it again by the command weftctl array rm %s; "
                  "if the member was replaced, start the process of its new "
                  "disk",
                  d->rec.path, d->rec.node, m, a->rec.name);
  return waits (text, size,
                "member %u is in-sync and was not heard: start its member "
                "process; if its disk is gone for good, give it up by the "
                "command weftctl array import --without %u",
                m, m);
}

/* Is each member that is in-sync there, and is it known which disk it is? */
static bool
members_wait (const struct cluster *c, const struct cluster_array *a,
              const struct cluster_import *order, const struct plan *plan,
              char *text, size_t size)
{
  const struct cluster_foreign *f;

  for (unsigned m = 0; m < a->layout.members; m++)
    for (unsigned i = 0; i < m; i++)
      if (plan->found[m] && plan->found[i] &&
          cluster_uuid_equal (plan->found[m]->hb.uuid, plan->found[i]->hb.uuid))
        return waits (text, size,
                      "disk %.200s of node %s and disk %.200s of node %s have "
                      "the same UUID: stop the process of the copy",
                      plan->found[i]->hb.path, plan->found[i]->hb.node,
                      plan->found[m]->hb.path, plan->found[m]->hb.node);
  TAILQ_FOREACH (f, &c->foreigns, link) {
    const struct cluster_foreign *best = NULL;

    if (is_of (c, a, f))
      best = plan->found[f->hb.position];
    if (best && best != f && plan->states[f->hb.position] == MEMBER_IN_SYNC &&
        !is_better (best, f))
      return waits (text, size,
                    "disk %.200s of node %s and disk %.200s of node %s both "
                    "say that they are member %u: stop the process of the "
                    "copy",
                    best->hb.path, best->hb.node, f->hb.path, f->hb.node,
                    f->hb.position);
  }
  for (unsigned m = 0; m < a->layout.members; m++)
    if (plan->states[m] == MEMBER_IN_SYNC && plan->found[m] == NULL &&
        !(order && order->without[m]))
      return member_waits (c, a, m, text, size);
  return false;
}

/* Has each disk spoken after all others have?  Only then it is known which is old. */
static bool
words_wait (const struct cluster_array *a, const struct plan *plan, char *text,
            size_t size)
{
  uint64_t first = 0, last = UINT64_MAX;

  for (unsigned m = 0; m < a->layout.members; m++) {
    const struct cluster_foreign *f = plan->found[m];

    if (f == NULL || plan->states[m] != MEMBER_IN_SYNC)
      continue;
    first = highest (first, f->first_live_ms);
    last = f->last_live_ms < last ? f->last_live_ms : last;
  }
  return last <= first &&
         waits (text, size, "its members have to speak once more");
}

/* Leave out each member of these, if the others have all data.  True: one is needed. */
static bool
leave_out (const struct cluster_array *a, struct plan *plan, const bool which[],
           unsigned *needed)
{
  bool any = false;

  for (unsigned m = 0; m < a->layout.members; m++) {
    if (!which[m] || plan->out[m])
      continue;
    plan->out[m] = true;
    if (layout_loss (&a->layout, plan->out, NULL) == 0)
      continue;
    plan->out[m] = false;
    *needed = m;
    any = true;
  }
  return any;
}

/* Is this surely the disk of the place in the newest states?  The backup names the disks of
 * its own epoch.
 */
static bool
is_current (const struct cluster_array *a, const struct plan *plan,
            const struct cluster_foreign *f)
{
  return cluster_import_plan_knows (&f->hb, plan->states_epoch) ||
         (plan->states_epoch == a->rec.epoch &&
          cluster_uuid_equal (f->hb.uuid, a->rec.member[f->hb.position].disk));
}

/* Another disk takes a place by three changes of epoch: the member goes out, joins, and
 * becomes in-sync.  So no other disk took this one's place in the last two.
 */
static bool
is_right (const struct cluster_array *a, const struct plan *plan,
          const struct cluster_foreign *f)
{
  return is_current (a, plan, f) ||
         (f->hb.states[f->hb.position] == MEMBER_IN_SYNC &&
          f->hb.states_epoch + 2 >= plan->states_epoch);
}

/* The doubts that an administrator can accept; false: there are no more from *next on. */
static bool
doubts (const struct cluster_array *a, const struct plan *plan, unsigned *next,
        char *text, size_t size)
{
  bool others[ARRAY_MEMBERS_MAX], any = false;
  char list[120] = "";
  size_t used = 0;

  for (unsigned m = 0; m < a->layout.members; m++) {
    const struct cluster_foreign *f = plan->found[m] ? plan->found[m]
                                                     : plan->given_up[m];

    others[m] = plan->states[m] != MEMBER_IN_SYNC ||
                (f && is_right (a, plan, f));
    if (others[m])
      continue;
    any = true;
    if (used < 100)
      used += (size_t) snprintf (list + used, sizeof list - used, "%s%u",
                                 used ? ", " : "", m);
  }
  if (*next == 0) {
    ++*next;
    if (any && layout_loss (&a->layout, others, NULL) == 0)
      return waits (
        text, size,
        "the right disk of these in-sync members is not there, or does not "
        "know epoch %" PRIu64 ": %s; together they have a copy of "
        "everything, so they may have gone on without the others",
        plan->states_epoch, list);
  }
  while (*next <= a->layout.members) {
    unsigned m = (*next)++ - 1;
    const struct cluster_foreign *f = plan->given_up[m];

    if (f && (f->hb.states_epoch > plan->states_epoch ||
              f->hb.round >= plan->round + 2))
      return waits (text, size,
                    "disk %.120s of node %s, member %u, which is given up, "
                    "knows epoch %" PRIu64 " and round %" PRIu64
                    ", and no other knows more than epoch %" PRIu64
                    " and round %" PRIu64,
                    f->hb.path, f->hb.node, m, f->hb.states_epoch, f->hb.round,
                    plan->states_epoch, plan->round);
  }
  return false;
}

/* What is each member to be? */
static bool
states_wait (const struct cluster_array *a, const struct cluster_import *order,
             struct plan *plan, char *text, size_t size)
{
  bool failed[ARRAY_MEMBERS_MAX] = { false };
  bool late[ARRAY_MEMBERS_MAX] = { false };
  bool accepted = order && order->accept_loss;
  const struct cluster_foreign *f;
  unsigned m, next = 0;
  char doubt[600];
  uint64_t lost;

  for (m = 0; m < a->layout.members; m++) {
    f = plan->found[m];
    plan->out[m] = plan->states[m] != MEMBER_IN_SYNC || f == NULL;
    if (plan->out[m])
      continue;
    plan->round = highest (plan->round, f->hb.round);
    failed[m] = cluster_disk_state_failed (f->hb.state);
    plan->old[m] = f->hb.round + 2 <= f->ahead;
    late[m] = !is_current (a, plan, f);
  }
  lost = layout_loss (&a->layout, plan->out, NULL);
  if (lost > 0)
    return waits (text, size,
                  "of %" PRIu64 " bytes no copy is left in the members that "
                  "are there and in-sync: start the member processes of the "
                  "others",
                  lost);
  if (leave_out (a, plan, failed, &m))
    return waits (text, size,
                  "member %u has failed (%.200s), and no other copy of its "
                  "data is in-sync: start its process again",
                  m, plan->found[m]->hb.reason);
  if (!accepted && doubts (a, plan, &next, doubt, sizeof doubt))
    return waits (text, size,
                  "%s; start their processes; if these disks are gone for "
                  "good, accept the loss of what they may have by the command "
                  "weftctl array import --accept-loss",
                  doubt);
  if (leave_out (a, plan, plan->old, &m) && !accepted)
    return waits (text, size,
                  "disk %.200s of node %s is an old copy of member %u (it has "
                  "seen round %" PRIu64 ", and others have seen round %" PRIu64
                  "), and no other copy of its data is in-sync: start the "
                  "process of the right disk; if that is gone for good, the "
                  "command weftctl array import --accept-loss takes the old "
                  "one, and what was flushed since is lost",
                  plan->found[m]->hb.path, plan->found[m]->hb.node, m,
                  plan->found[m]->hb.round, plan->found[m]->ahead);
  /* Such a member may be an old copy, too; but by its round it has all that was
   * flushed.
   */
  leave_out (a, plan, late, &m);
  return false;
}

static bool
plan_waits (const struct cluster *c, const struct cluster_array *a,
            const struct cluster_import *order, struct plan *plan, char *text,
            size_t size)
{
  memset (plan, 0, sizeof *plan);
  return find_waits (c, a, order, plan, text, size) ||
         members_wait (c, a, order, plan, text, size) ||
         (order == NULL && words_wait (a, plan, text, size)) ||
         states_wait (a, order, plan, text, size);
}

/* ---- Doing it. ---- */

/* Forget a disk of an array that needs a restore. */
static void
let_go (struct cluster *c, const struct cluster_input *in,
        struct cluster_disk *d)
{
  struct cluster_array *a = d->array;
  unsigned m = d->position;

  d->array = NULL;
  cluster_disk_order_drop (c, d);
  if (a == NULL)
    return;
  /* A record stands for the member until the array is restored. */
  cluster_import_disk (c, in, NULL, m, a);
  a->disk[m] = cluster_disk_find (c, a->rec.member[m].disk);
  a->disk[m]->array = a;
  a->disk[m]->position = m;
  cluster_step_put_array (c, a);
}

/* For a missing disk a record is made that stands for it, as in an import: weftd compares
 * what the disk knows when it comes.
 */
static void
put_disks (struct cluster *c, const struct cluster_input *in,
           struct cluster_array *a, const struct plan *plan)
{
  struct cluster_disk_record was[ARRAY_MEMBERS_MAX];
  struct cluster_disk *d;

  for (unsigned m = 0; m < a->layout.members; m++) {
    d = a->disk[m];
    was[m] = d->rec;
    a->disk[m] = NULL;
    d->array = NULL;
    cluster_disk_order_drop (c, d);
  }
  for (unsigned m = 0; m < a->layout.members; m++)
    if (plan->found[m] &&
        (d = cluster_disk_find (c, plan->found[m]->hb.uuid)) != NULL)
      let_go (c, in, d);
  for (unsigned m = 0; m < a->layout.members; m++) {
    cluster_import_disk (c, in, plan->found[m] ? &plan->found[m]->hb : NULL, m,
                         a);
    d = cluster_disk_find (c, a->rec.member[m].disk);
    if (plan->found[m])
      continue;
    memcpy (d->rec.node, was[m].node, sizeof d->rec.node);
    memcpy (d->rec.path, was[m].path, sizeof d->rec.path);
    cluster_step_put_disk (c, d);
  }
  cluster_place_link (c, a);
}

static void
put_member (struct cluster *c, struct cluster_array *a, unsigned m,
            const struct plan *plan)
{
  const struct cluster_foreign *f = plan->found[m];
  struct cluster_member *member = &a->rec.member[m];
  struct cluster_member next = {
    .state = plan->out[m] ? MEMBER_OUT : MEMBER_IN_SYNC,
    .fence = a->rec.epoch,
    .lapse = a->rec.epoch,
    .life = a->rec.epoch,
    .imported = plan->out[m] ? plan->states_epoch : f->hb.states_epoch,
    .held = plan->out[m] && member->state == MEMBER_OUT && member->held,
    .paused = plan->out[m] && member->paused,
    .floor = member->floor,
    .ceiling = member->ceiling,
    /* Only the lost database knew whether it is an old copy: so it begins
     * again.
     */
    .reset = plan->out[m] && !cluster_disk_is_name (a->disk[m]),
  };

  memcpy (next.disk, member->disk, 16);
  if (plan->out[m])
    snprintf (next.reason, sizeof next.reason, "%s",
              f == NULL ? "it was missing when weftd was restored from a backup"
              : plan->old[m]
                ? "its disk was an old copy when weftd was restored"
                : "it was not surely in-sync when weftd was restored");
  *member = next;
  cluster_array_member_since (c, a, m);
  if (!plan->old[m])
    return;
  cluster_step_log (
    c, CLUSTER_WARNING, "array", a->rec.name,
    "Disk %.200s of node %s is an old copy of member %u of array "
    "%s (it has seen round %" PRIu64 ", and others have seen round "
    "%" PRIu64 "), and %s.",
    f->hb.path, f->hb.node, m, a->rec.name, f->hb.round, f->ahead,
    plan->out[m]
      ? "is rebuilt"
      : "has the only copy of some data: later flushed writes are lost");
  /* An administrator takes it as it is: it is not found to be an old copy again. */
  a->disk[m]->served = !plan->out[m];
}

static void
restore (struct cluster *c, const struct cluster_input *in,
         struct cluster_array *a, const struct plan *plan)
{
  struct cluster_array_record *r = &a->rec;
  struct cluster_session *s;
  uint64_t known = r->epoch;
  uint64_t round[ARRAY_MEMBERS_MAX] = { 0 };
  unsigned next = 0;
  char text[600];

  while (doubts (a, plan, &next, text, sizeof text))
    cluster_step_log (
      c, CLUSTER_WARNING, "array", r->name,
      "Array %s was restored though this was doubtful, for the loss was "
      "accepted: %s.",
      r->name, text);

  while ((s = TAILQ_FIRST (&a->sessions)))
    cluster_session_end (c, s, "weftd was restored from a backup");
  if (plan->generation >= c->identity.generation) {
    c->identity.generation = plan->generation + 1;
    cluster_step_put_identity (c);
  }
  memset (&r->change, 0, sizeof r->change);
  memset (a->known, 0, sizeof a->known);
  r->over_count = 0;
  r->epoch = a->moved = plan->epoch + RESTORE_EPOCHS;
  r->round = plan->round;
  r->unprepared = r->writer_epoch = 0;
  r->risky = r->unequal = r->restoring = false;
  /* The sessions that have ended may have left unequal copies. */
  r->to_recover = true;
  r->ready = true;
  r->lapse = r->epoch; /* nobody knows who wrote to it last */
  put_disks (c, in, a, plan);
  for (unsigned m = 0; m < a->layout.members; m++) {
    put_member (c, a, m, plan);
    round[m] = plan->found[m] ? plan->found[m]->hb.round : 0;
  }
  cluster_import_rounds (a, round);
  cluster_volume_unscanned (c, a);
  cluster_step_put_array (c, a);
  cluster_import_forget (c, r->uuid);
  cluster_step_log (
    c, CLUSTER_WARNING, "array", r->name,
    "Array %s was restored from its members, as they stood in epoch "
    "%" PRIu64 "; the backup knew of epoch %" PRIu64 ".",
    r->name, plan->states_epoch, known);
  cluster_step_member_moved (c, a);
}

/* ---- Inputs. ---- */

void
cluster_restore_begin (struct cluster *c, const struct cluster_input *in)
{
  struct cluster_identity *i = &c->identity;
  struct cluster_array *a;
  struct cluster_disk *d;

  if (!i->restore)
    return;
  i->restore = false;
  /* Each start counts one, and takes longer than a second.  Members' words count as
   * well, if a clock is wrong.
   */
  i->generation = highest (i->generation, c->wall_ms / 1000);
  cluster_fence_number_next (c);
  TAILQ_FOREACH (d, &c->disks, link) {
    cluster_import_key (in->random, d->rec.uuid, 0, d->rec.key);
    memset (d->rec.next_key, 0, sizeof d->rec.next_key);
    memset (d->rec.release, 0, sizeof d->rec.release);
    cluster_step_put_disk (c, d);
  }
  TAILQ_FOREACH (a, &c->arrays, link) {
    a->rec.restoring = true;
    cluster_step_put_array (c, a);
  }
  cluster_step_log (c, CLUSTER_WARNING, "weftd", "",
                    "weftd was restored from a backup: it takes newer state "
                    "from the members, array by array.");
}

void
cluster_restore_tick (struct cluster *c, const struct cluster_input *in)
{
  char text[sizeof ((struct cluster_array *) NULL)->waits];
  struct cluster_array *a;
  struct plan plan;

  TAILQ_FOREACH (a, &c->arrays, link) {
    if (!a->rec.restoring)
      continue;
    if (!plan_waits (c, a, NULL, &plan, text, sizeof text))
      restore (c, in, a, &plan);
    else if (cluster_object_text_copy (a->waits, sizeof a->waits, text))
      cluster_step_changed_array (c, a);
  }
}

static bool
refused (struct cluster *c, uint64_t op, const struct cluster_import *order,
         struct plan *plan)
{
  struct cluster_array *a = cluster_array_by_uuid (c, order->array);
  char text[sizeof a->waits];

  if (a == NULL || !a->rec.restoring)
    cluster_step_refuse (c, op, CLUSTER_CONFLICT, "restored",
                         "array %s is restored already", order->name);
  else if (strcmp (a->rec.name, order->name) != 0)
    cluster_step_refuse (
      c, op, CLUSTER_CONFLICT, "exists",
      "this array is in the backup, by the name of %s: import it "
      "by that name",
      a->rec.name)
      ->field = "name";
  else if (plan_waits (c, a, order, plan, text, sizeof text))
    cluster_step_refuse (c, op, CLUSTER_CONFLICT, "restoring",
                         "array %s is not restored yet: %.640s", a->rec.name,
                         text);
  else
    return false;
  return true;
}

bool
cluster_restore_doubts (const struct cluster *c,
                        const struct cluster_import *order, unsigned *next,
                        char *text, size_t size)
{
  const struct cluster_array *a = cluster_array_by_uuid (c, order->array);
  struct plan plan;

  return !plan_waits (c, a, order, &plan, text, size) &&
         doubts (a, &plan, next, text, size);
}

bool
cluster_restore_refused (struct cluster *c, uint64_t op,
                         const struct cluster_import *order,
                         bool out[ARRAY_MEMBERS_MAX],
                         bool old[ARRAY_MEMBERS_MAX])
{
  struct plan plan;

  if (refused (c, op, order, &plan))
    return true;
  memcpy (out, plan.out, sizeof plan.out);
  memcpy (old, plan.old, sizeof plan.old);
  return false;
}

void
cluster_array_restore (struct cluster *c, const struct cluster_input *in,
                       const struct cluster_import *order)
{
  struct cluster_array *a = cluster_array_by_uuid (c, order->array);
  struct plan plan;

  cluster_step_begin (c, in);
  if (!refused (c, in->op, order, &plan)) {
    restore (c, in, a, &plan);
    cluster_step_reply_array (c, in->op, a);
  }
  cluster_pump_end (c);
}

void
cluster_restore_confirm (struct cluster *c, const struct cluster_input *in)
{
  cluster_step_begin (c, in);
  if (!cluster_step_refuse_read_only (c, in->op)) {
    c->identity.backup_wall_ms = 0;
    cluster_step_put_identity (c);
    cluster_step_reply_done (c, in->op, CLUSTER_NODE, NULL, 0, "");
  }
  cluster_pump_end (c);
}
