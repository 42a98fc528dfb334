/* cluster-import.c: taking an array over from its members alone, when weftd's
 * database is lost.
 *
 * A weftd refuses disks of another cluster, and those that say that they belong
 * to an array that it does not know; it keeps what they say of themselves for a
 * while.  An import makes the records anew from that: the members' states are
 * those of the highest epoch that any of them holds, and every member that is
 * in-sync there must have been heard of, or be given up by name, if that loses
 * nothing.  A joining member is imported as out: it begins to join again by itself.
 * A member that is not there gets a record of a disk that only stands for it.  When
 * its disk asks, it takes the place and is rebuilt in full; or an administrator
 * gives the place to another disk.
 *
 * weftd takes the UUID of the members' cluster, with a generation and epochs above
 * all that they have seen.  Blank disks that had registered with it stay, and join
 * that cluster (cluster-admit.c).
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "cluster-internal.h"

/* A disk that was refused asks again every few seconds. */
#define FOREIGN_LIVE_MS 15000
#define FOREIGN_KEEP_MS (10 * 60 * 1000)
#define MISSING_AT_IMPORT "it was missing when the array was imported"

const struct cluster_foreigns *
cluster_foreigns (const struct cluster *c)
{
  return &c->foreigns;
}

/* ---- What is known of disks that are not ours. ---- */

static void
drop (struct cluster *c, struct cluster_foreign *f)
{
  TAILQ_REMOVE (&c->foreigns, f, link);
  free (f);
}

bool
cluster_foreign_is_heard (const struct cluster *c,
                          const struct cluster_foreign *f)
{
  const struct cluster_disk *d = cluster_disk_find (c, f->hb.uuid);

  return c->live_ms - f->last_live_ms < FOREIGN_LIVE_MS &&
         (d == NULL || d->array == NULL);
}

/* The list is in the order in which they were last heard. */
void
cluster_import_note (struct cluster *c, const struct cluster_disk_heartbeat *hb)
{
  struct cluster_foreign *f, *known = NULL;
  unsigned count = 0;

  TAILQ_FOREACH (f, &c->foreigns, link) {
    count++;
    /* A clone has the same UUID: that is another disk. */
    if (cluster_uuid_equal (f->hb.uuid, hb->uuid) &&
        strcmp (f->hb.node, hb->node) == 0 &&
        strcmp (f->hb.path, hb->path) == 0)
      known = f;
  }
  if (known)
    TAILQ_REMOVE (&c->foreigns, known, link);
  else {
    if (count >= FOREIGNS_MAX)
      drop (c, TAILQ_FIRST (&c->foreigns));
    known = alloc_zeroed (sizeof *known);
  }
  known->hb = *hb;
  known->last_live_ms = c->live_ms;
  TAILQ_INSERT_TAIL (&c->foreigns, known, link);
}

void
cluster_import_tick (struct cluster *c)
{
  struct cluster_foreign *f;

  while ((f = TAILQ_FIRST (&c->foreigns)) != NULL &&
         c->live_ms - f->last_live_ms >= FOREIGN_KEEP_MS)
    drop (c, f);
}

/* ---- Planning. ---- */

struct plan {
  const struct cluster_disk_heartbeat *found[ARRAY_MEMBERS_MAX];
  const struct cluster_disk_heartbeat *newest; /* whose states count */
  uint64_t epoch, generation; /* the highest that any has seen */
  uint64_t round;             /* and of those that are in-sync */
  enum member_state state[ARRAY_MEMBERS_MAX];
  struct layout layout;
};

static uint64_t
highest (uint64_t a, uint64_t b)
{
  return a > b ? a : b;
}

/* Which members are there?  Refuses, if two say to be the same one, or if there is
 * none.
 */
static bool
find_refused (struct cluster *c, uint64_t op,
              const struct cluster_import *import, struct plan *plan)
{
  const struct cluster_disk_heartbeat *hb, *other;
  const struct cluster_foreign *f;
  char text[CLUSTER_UUID_TEXT_BYTES];

  TAILQ_FOREACH (f, &c->foreigns, link) {
    hb = &f->hb;
    if (!hb->has_place || !cluster_uuid_equal (hb->array, import->array) ||
        !cluster_foreign_is_heard (c, f) || hb->position >= ARRAY_MEMBERS_MAX)
      continue;
    /* The epochs of a member that is given up count as well: else it would show,
     * when it comes, that the new database is an old one.
     */
    plan->epoch = highest (plan->epoch,
                           highest (hb->min_epoch, hb->states_epoch));
    plan->generation = highest (plan->generation, hb->generation);
    if (import->without[hb->position])
      continue;
    other = plan->found[hb->position];
    if (other) {
      cluster_refuse (c, op, CLUSTER_CONFLICT, "clone",
                      "disk %.150s of node %s and disk %.150s of node %s both "
                      "say that they are member %u: one is a copy; stop the "
                      "process of the older one, wait %d s, and try again",
                      other->path, other->node, hb->path, hb->node,
                      hb->position, FOREIGN_LIVE_MS / 1000);
      return true;
    }
    plan->found[hb->position] = hb;
    if (plan->newest == NULL || hb->states_epoch > plan->newest->states_epoch)
      plan->newest = hb;
  }
  if (plan->newest)
    return false;
  cluster_uuid_text (import->array, text);
  cluster_refuse (c, op, CLUSTER_NOT_FOUND, "unknown-array",
                  "no disk has asked lately that says that it belongs to "
                  "array %s: start its member processes with this weftd's "
                  "admin URL; GET /api/v1/imports lists what was heard",
                  text)
    ->field = "array";
  return true;
}

/* Does this member say the same of the array as the newest? */
static bool
agrees (const struct cluster_disk_heartbeat *a,
        const struct cluster_disk_heartbeat *b)
{
  return cluster_uuid_equal (a->cluster, b->cluster) &&
         a->layout == b->layout && a->n == b->n && a->groups == b->groups &&
         a->unit == b->unit && a->member_bytes == b->member_bytes &&
         a->dup == b->dup &&
         (a->states_epoch != b->states_epoch ||
          memcmp (a->states, b->states, a->n * a->groups) == 0);
}

static bool
members_refused (struct cluster *c, uint64_t op, struct plan *plan)
{
  const struct cluster_disk_heartbeat *newest = plan->newest, *hb;
  const struct cluster_disk_heartbeat *twin = NULL;
  char why[256];

  if (layout_init (&plan->layout, newest->layout, newest->n, newest->groups,
                   newest->unit, newest->member_bytes, why, sizeof why) == -1 ||
      plan->layout.member_bytes != newest->member_bytes) {
    cluster_refuse (c, op, CLUSTER_CONFLICT, "superblock",
                    "disk %.200s of node %s does not say all that is "
                    "needed to know its array: its superblock is of an "
                    "older Weft, or damaged; put weftd's database back",
                    newest->path, newest->node);
    return true;
  }
  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++) {
    hb = plan->found[m];
    if (hb == NULL)
      continue;
    for (unsigned i = 0; i < m; i++)
      if (plan->found[i] && cluster_uuid_equal (plan->found[i]->uuid, hb->uuid))
        twin = plan->found[i];
    if (twin)
      cluster_refuse (c, op, CLUSTER_CONFLICT, "clone",
                      "disk %.150s of node %s and disk %.150s of node %s "
                      "have the same UUID: stop the process of the one "
                      "that is a copy, and try again",
                      twin->path, twin->node, hb->path, hb->node);
    else if (m >= plan->layout.members || !agrees (hb, newest))
      cluster_refuse (c, op, CLUSTER_CONFLICT, "disagree",
                      "disk %.150s of node %s and disk %.150s of node %s "
                      "say different things of the array: stop the "
                      "process of the one that is not of it, and give "
                      "member %u up with without",
                      hb->path, hb->node, newest->path, newest->node, m);
    else if (cluster_disk_find (c, hb->uuid))
      cluster_refuse (c, op, CLUSTER_CONFLICT, "known-disk",
                      "disk %.200s of node %s is known here already, and "
                      "as another: forget it first",
                      hb->path, hb->node);
    else if (hb->failed)
      cluster_refuse (c, op, CLUSTER_CONFLICT, "failed",
                      "disk %.200s of node %s has failed (%.200s): give "
                      "member %u up with without, if nothing is lost with it",
                      hb->path, hb->node, hb->reason, m);
    else
      continue;
    return true;
  }
  return false;
}

/* Members of which this number is below the limit are, or may be, old copies of their
 * disks: the array does without each of them if it can, the oldest first.
 */
static void
leave_old (const struct layout *l, const uint64_t number[], uint64_t limit,
           bool out[])
{
  bool needed[ARRAY_MEMBERS_MAX] = { false };
  int oldest;

  do {
    oldest = -1;
    for (unsigned m = 0; m < l->members; m++)
      if (!out[m] && !needed[m] && number[m] < limit &&
          (oldest < 0 || number[m] < number[oldest]))
        oldest = (int) m;
    if (oldest >= 0) {
      out[oldest] = true;
      needed[oldest] = layout_loss (l, out, NULL) > 0;
      out[oldest] = !needed[oldest];
    }
  } while (oldest >= 0);
}

/* What is each member to be?  Refuses, if one is missing that is needed. */
static bool
states_refused (struct cluster *c, uint64_t op,
                const struct cluster_import *import, struct plan *plan)
{
  bool out[ARRAY_MEMBERS_MAX];
  uint64_t lost, round[ARRAY_MEMBERS_MAX], epoch[ARRAY_MEMBERS_MAX];

  for (unsigned m = 0; m < plan->layout.members; m++) {
    bool in_sync = plan->newest->states[m] == MEMBER_IN_SYNC;

    if (in_sync && plan->found[m] == NULL && !import->without[m]) {
      cluster_refuse (c, op, CLUSTER_CONFLICT, "member-missing",
                      "member %u is in-sync and has not asked: start its "
                      "member process with this weftd's admin URL, or "
                      "give the member up with without",
                      m);
      return true;
    }
    out[m] = !in_sync || plan->found[m] == NULL;
  }
  lost = layout_loss (&plan->layout, out, NULL);
  for (unsigned m = 0; m < plan->layout.members; m++)
    if (!out[m]) {
      round[m] = plan->found[m]->round;
      epoch[m] = plan->found[m]->states_epoch;
      plan->round = highest (plan->round, round[m]);
    }
  if (lost == 0) {
    /* A member that is two rounds behind another is an old copy; one that has not
     * heard of the newest epoch may be one.
     */
    leave_old (&plan->layout, round, highest (plan->round, 1) - 1, out);
    leave_old (&plan->layout, epoch, plan->newest->states_epoch, out);
  }
  for (unsigned m = 0; m < plan->layout.members; m++)
    plan->state[m] = out[m] ? MEMBER_OUT : MEMBER_IN_SYNC;
  if (lost == 0)
    return false;
  cluster_refuse (c, op, CLUSTER_CONFLICT, "last-copy",
                  "of %" PRIu64 " bytes no copy is left in the members "
                  "that are there and in-sync: start the member processes "
                  "of the others",
                  lost)
    ->field = "without";
  return true;
}

/* ---- Doing it. ---- */

static void
make_disk (struct cluster *c, const struct cluster_input *in,
           const struct cluster_disk_heartbeat *hb, unsigned m,
           uint64_t imported, struct cluster_array *a)
{
  struct cluster_disk *d = alloc_zeroed (sizeof *d);
  struct cluster_disk_record *r = &d->rec;
  uint8_t text[17], sum[EVP_MAX_MD_SIZE];
  unsigned length = 0;

  /* This is as good as fresh random bytes for each of the disks. */
  memcpy (text, hb ? hb->uuid : a->rec.uuid, 16);
  text[16] = (uint8_t) m;
  if (HMAC (EVP_sha256 (), in->random, sizeof in->random, text, sizeof text,
            sum, &length) == NULL ||
      length != KEY_BYTES)
    abort ();
  memcpy (r->key, sum, KEY_BYTES);
  if (hb) {
    memcpy (r->uuid, hb->uuid, 16);
    memcpy (r->node, hb->node, sizeof r->node);
    memcpy (r->uri, hb->uri, sizeof r->uri);
    memcpy (r->path, hb->path, sizeof r->path);
    memcpy (r->instance, hb->instance, sizeof r->instance);
    r->size = hb->size;
    r->data_bytes = hb->data_bytes;
    r->sequence = hb->sequence;
    d->alive = true;
    d->last_live_ms = c->live_ms;
  }
  else { /* this record stands for a disk that is not there, and has no size */
    cluster_uuid_make (r->key, r->uuid);
    r->imported = imported;
    snprintf (r->node, sizeof r->node, "unknown");
    snprintf (r->uri, sizeof r->uri, "nbd://unknown/%u", m);
    snprintf (r->path, sizeof r->path, "unknown");
  }
  memcpy (a->rec.member[m].disk, r->uuid, 16);
  cluster_disk_insert (c, d);
  cluster_put_disk (c, d);
  cluster_changed_disk (c, d);
}

static struct cluster_array *
make_array (struct cluster *c, const struct cluster_input *in,
            const struct cluster_import *import, const struct plan *plan)
{
  struct cluster_array *a = alloc_zeroed (sizeof *a);
  struct cluster_array_record *r = &a->rec;

  a->layout = plan->layout;
  memcpy (r->uuid, import->array, 16);
  snprintf (r->name, sizeof r->name, "%s", import->name);
  r->layout = a->layout.kind;
  r->dup = plan->newest->dup;
  r->n = a->layout.n;
  r->groups = a->layout.groups;
  r->unit = a->layout.unit;
  r->member_bytes = a->layout.member_bytes;
  r->ready = true;
  r->epoch = plan->epoch + 1;
  r->round = plan->round;
  r->spare_after_ms = SPARE_AFTER_MS_DEFAULT;
  for (unsigned m = 0; m < a->layout.members; m++) {
    struct cluster_member *member = &r->member[m];

    make_disk (c, in, plan->found[m], m, plan->newest->states_epoch, a);
    member->state = plan->state[m];
    member->fence = member->lapse = member->life = r->epoch;
    cluster_member_since (c, a, m);
    /* The lost database knew whether it is an old copy: so it begins anew. */
    member->reset = member->state == MEMBER_OUT && plan->found[m];
    if (member->state == MEMBER_OUT)
      snprintf (member->reason, sizeof member->reason, "%s",
                plan->found[m]
                  ? "it was not surely in-sync when the array was imported"
                  : MISSING_AT_IMPORT);
    else if (plan->found[m]->round + 2 <= plan->round) {
      /* It is taken as it is: it is not found to be an old copy again. */
      cluster_disk_find (c, member->disk)->served = true;
      cluster_log (
        c, CLUSTER_WARNING, "array", r->name,
        "Member %u of array %s (%.200s of node %s) is an old copy of "
        "its disk, and has the only copy of some data: it has seen "
        "round %" PRIu64 ", and others have seen round %" PRIu64 ".",
        m, r->name, plan->found[m]->path, plan->found[m]->node,
        plan->found[m]->round, plan->round);
    }
    else if (plan->found[m]->states_epoch < plan->newest->states_epoch)
      cluster_log (c, CLUSTER_WARNING, "array", r->name,
                   "Member %u of array %s (%.200s of node %s) had heard of "
                   "epoch %" PRIu64 " only, and has the only copy of some "
                   "data: that is old, if it is an old copy of the disk.",
                   m, r->name, plan->found[m]->path, plan->found[m]->node,
                   plan->found[m]->states_epoch);
  }
  a->rec.lapse = a->rec.epoch; /* nobody knows who wrote to it last */
  cluster_array_insert (c, a);
  cluster_array_link (c, a);
  cluster_allowed_begin (a, &a->rec.allow); /* the list is lost, too */
  cluster_put_array (c, a);
  cluster_changed_array (c, a);
  return a;
}

void
cluster_array_import (struct cluster *c, const struct cluster_input *in,
                      const struct cluster_import *import)
{
  struct plan plan = { .newest = NULL };
  struct cluster_array *a;
  struct cluster_foreign *f, *next;

  cluster_begin (c, in);
  if (cluster_refuse_read_only (c, in->op))
    ;
  else if (cluster_array_find (c, import->name))
    cluster_refuse (c, in->op, CLUSTER_CONFLICT, "exists",
                    "there is an array %s already: choose another name",
                    import->name)
      ->field = "name";
  else if (find_refused (c, in->op, import, &plan))
    ;
  else if (!cluster_uuid_equal (plan.newest->cluster, c->identity.uuid) &&
           !TAILQ_EMPTY (&c->arrays))
    cluster_refuse (c, in->op, CLUSTER_CONFLICT, "not-empty",
                    "this weftd has arrays of its own, so it can't become "
                    "the cluster of these members: start a weftd with an "
                    "empty state directory, and import there");
  else if (!members_refused (c, in->op, &plan) &&
           !states_refused (c, in->op, import, &plan)) {
    memcpy (c->identity.uuid, plan.newest->cluster, 16);
    c->identity.generation = highest (c->identity.generation,
                                      plan.generation + 1);
    cluster_put_identity (c);
    a = make_array (c, in, import, &plan);
    cluster_log (c, CLUSTER_WARNING, "array", a->rec.name,
                 "Array %s was imported from its members, as they stood in "
                 "epoch %" PRIu64 ": if one that was not there had gone on "
                 "beyond that, what only it got is not in the array.",
                 a->rec.name, plan.newest->states_epoch);
    TAILQ_FOREACH_SAFE (f, &c->foreigns, link, next)
      if (cluster_uuid_equal (f->hb.array, import->array))
        drop (c, f);
    cluster_reply_array (c, in->op, a);
  }
  cluster_end (c);
}

/* ---- A member that was not there comes. ---- */

bool
cluster_import_agrees (const struct cluster *c, const struct cluster_array *a,
                       const struct cluster_disk_heartbeat *hb)
{
  const struct cluster_array_record *r = &a->rec;

  /* An old superblock does not say how many bytes are in use. */
  return hb->has_place && cluster_uuid_equal (hb->cluster, c->identity.uuid) &&
         cluster_uuid_equal (hb->array, r->uuid) && hb->layout == r->layout &&
         hb->n == r->n && hb->groups == r->groups && hb->unit == r->unit &&
         (hb->member_bytes == 0 || hb->member_bytes == r->member_bytes);
}

void
cluster_import_return (struct cluster *c, struct cluster_disk *d,
                       const struct cluster_disk_heartbeat *hb)
{
  struct cluster_array *a = cluster_array_by_uuid (c, hb->array);
  struct cluster_member *m = &a->rec.member[hb->position];
  bool held = m->held;

  cluster_member_give (c, a, hb->position, d);
  m->held = held; /* what an administrator said of the place still holds */
  snprintf (m->reason, sizeof m->reason, "%s", MISSING_AT_IMPORT);
  cluster_put_array (c, a);
  cluster_log (c, CLUSTER_INFO, "array", a->rec.name,
               "Disk %.200s of node %s is member %u of array %s, and was "
               "missing when the array was imported: it is rebuilt in full.",
               hb->path, hb->node, hb->position, a->rec.name);
}
