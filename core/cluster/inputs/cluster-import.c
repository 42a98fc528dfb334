/* cluster-import.c: taking an array over from its members alone, when weftd's
 * database is lost.
 *
 * A weftd refuses disks of another cluster, and disks that say that they belong
 * to an array that it does not know; it keeps their reports for a while.  An
 * import makes new records from these reports, as cluster-import-plan.c has
 * planned.  A joining member is imported as out: it begins to join again by
 * itself.  A member that is not there gets a record of a disk that only stands
 * for it.  When its disk asks, it takes the place and is rebuilt in full; or an
 * administrator gives the place to another disk.
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

#include "cluster/cluster-import.h"
#include "cluster-inputs.h"

#define FOREIGN_KEEP_MS (10 * 60 * 1000)
/* More epochs than can begin in a moment without any present disk hearing of
 * them: no number of an epoch is used twice, and an earlier client finds the
 * lapse above its epoch.
 */
#define UNHEARD_EPOCHS 1000
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

/* The highest round that another in-sync member of its array has said before. */
static uint64_t
ahead (const struct cluster *c, const struct cluster_disk_heartbeat *hb)
{
  const struct cluster_foreign *f;
  uint64_t round = 0;

  TAILQ_FOREACH (f, &c->foreigns, link)
    if (cluster_uuid_equal (f->hb.array, hb->array) &&
        f->hb.position != hb->position && f->hb.position < ARRAY_MEMBERS_MAX &&
        c->live_ms - f->last_live_ms < FOREIGN_LIVE_MS &&
        f->hb.states[f->hb.position] == MEMBER_IN_SYNC && f->hb.round > round)
      round = f->hb.round;
  return round;
}

/* The list is in the order in which they were last heard.  A node beyond its quota
 * displaces its own disks, and not those of others.
 */
void
cluster_import_note (struct cluster *c, const struct cluster_disk_heartbeat *hb)
{
  struct cluster_foreign *f, *known = NULL, *own = NULL;
  unsigned all = 0, of_node = 0;

  TAILQ_FOREACH (f, &c->foreigns, link) {
    all++;
    if (strcmp (f->hb.node, hb->node) != 0)
      continue;
    of_node++;
    own = own ? own : f;
    /* A clone has the same UUID: that is another disk. */
    if (cluster_uuid_equal (f->hb.uuid, hb->uuid) &&
        strcmp (f->hb.path, hb->path) == 0)
      known = f;
  }
  if (known)
    TAILQ_REMOVE (&c->foreigns, known, link);
  else {
    if (of_node >= NODE_DISKS_MAX)
      drop (c, own);
    else if (all >= DISKS_MAX)
      drop (c, TAILQ_FIRST (&c->foreigns));
    known = alloc_zeroed (sizeof *known);
  }
  if (known->last_live_ms == 0 ||
      c->live_ms - known->last_live_ms >= FOREIGN_LIVE_MS)
    known->first_live_ms = c->live_ms;
  known->ahead = ahead (c, hb);
  known->hb = *hb;
  known->last_live_ms = c->live_ms;
  TAILQ_INSERT_TAIL (&c->foreigns, known, link);
}

void
cluster_import_forget (struct cluster *c, const uint8_t array[16])
{
  struct cluster_foreign *f, *next;

  TAILQ_FOREACH_SAFE (f, &c->foreigns, link, next)
    if (cluster_uuid_equal (f->hb.array, array))
      drop (c, f);
}

void
cluster_import_tick (struct cluster *c)
{
  struct cluster_foreign *f;

  while ((f = TAILQ_FIRST (&c->foreigns)) != NULL &&
         c->live_ms - f->last_live_ms >= FOREIGN_KEEP_MS)
    drop (c, f);
}

/* ---- Doing it. ---- */

void
cluster_import_key (const uint8_t random[KEY_BYTES], const uint8_t uuid[16],
                    unsigned m, uint8_t key[KEY_BYTES])
{
  uint8_t text[17], sum[EVP_MAX_MD_SIZE];
  unsigned length = 0;

  memcpy (text, uuid, 16);
  text[16] = (uint8_t) m;
  if (HMAC (EVP_sha256 (), random, KEY_BYTES, text, sizeof text, sum,
            &length) == NULL ||
      length != KEY_BYTES)
    abort ();
  memcpy (key, sum, KEY_BYTES);
}

void
cluster_import_disk (struct cluster *c, const struct cluster_input *in,
                     const struct cluster_disk_heartbeat *hb, unsigned m,
                     struct cluster_array *a)
{
  struct cluster_disk *d = alloc_zeroed (sizeof *d);
  struct cluster_disk_record *r = &d->rec;

  cluster_import_key (in->random, hb ? hb->uuid : a->rec.uuid, m, r->key);
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
    snprintf (r->node, sizeof r->node, "unknown");
    snprintf (r->uri, sizeof r->uri, "nbd://unknown/%u", m);
    snprintf (r->path, sizeof r->path, "unknown");
  }
  memcpy (a->rec.member[m].disk, r->uuid, 16);
  cluster_disk_insert (c, d);
  cluster_step_put_disk (c, d);
  cluster_step_changed_disk (c, d);
}

/* In-sync members are at most one round apart, and FLUSHes wait for more rounds when one goes
 * out.  So a disk that is further ahead of a member with copies of its data may have flushed
 * data that this member lacks.
 */
void
cluster_import_rounds (struct cluster_array *a,
                       const uint64_t round[ARRAY_MEMBERS_MAX])
{
  for (unsigned m = 0; m < a->layout.members; m++) {
    struct layout_group g = layout_group (&a->layout, m);
    uint64_t least = EPOCH_MAX;

    for (unsigned i = g.first; i < g.end; i++)
      if (a->rec.member[i].state == MEMBER_IN_SYNC && round[i] < least)
        least = round[i];
    a->rec.member[m].imported_round = least + 1;
  }
}

static void
make_member (struct cluster *c, const struct cluster_input *in,
             struct cluster_array *a, unsigned m,
             const struct cluster_import_plan *plan)
{
  const struct cluster_import_place *p = &plan->place[m];
  struct cluster_member *member = &a->rec.member[m];

  cluster_import_disk (c, in, p->disk, m, a);
  member->state = p->state;
  member->fence = member->lapse = member->life = a->rec.epoch;
  cluster_array_member_since (c, a, m);
  member->imported = member->state == MEMBER_IN_SYNC
                       ? p->disk->states_epoch
                       : plan->newest->states_epoch;
  /* Only the lost database knew whether it is an old copy: so it begins again.
   */
  member->reset = member->state == MEMBER_OUT && p->disk;
  if (member->state == MEMBER_OUT)
    snprintf (member->reason, sizeof member->reason, "%s",
              p->disk ? "it was not surely in-sync when the array was imported"
                      : MISSING_AT_IMPORT);
  else if (!p->current) /* it is not found to be an old copy again */
    cluster_disk_find (c, member->disk)->served = true;
}

static struct cluster_array *
make_array (struct cluster *c, const struct cluster_input *in,
            const struct cluster_import *import,
            const struct cluster_import_plan *plan)
{
  struct cluster_array *a = alloc_zeroed (sizeof *a);
  struct cluster_array_record *r = &a->rec;
  uint64_t round[ARRAY_MEMBERS_MAX] = { 0 };

  a->layout = plan->layout;
  memcpy (r->uuid, import->array, 16);
  snprintf (r->name, sizeof r->name, "%s", import->name);
  r->pool = CLUSTER_POOL_UNKNOWN; /* a process that attaches it finds out */
  r->layout = a->layout.kind;
  r->dup = plan->newest->dup;
  r->n = a->layout.n;
  r->groups = a->layout.groups;
  r->unit = a->layout.unit;
  r->member_bytes = a->layout.member_bytes;
  r->ready = true;
  r->epoch = plan->epoch + UNHEARD_EPOCHS;
  r->round = plan->round;
  r->spare_after_ms = SPARE_AFTER_MS_DEFAULT;
  for (unsigned m = 0; m < a->layout.members; m++) {
    make_member (c, in, a, m, plan);
    round[m] = plan->place[m].disk ? plan->place[m].disk->round : 0;
  }
  cluster_import_rounds (a, round);
  /* Nobody knows who wrote to it last, and how that ended. */
  a->rec.lapse = a->rec.epoch;
  a->rec.to_recover = true;
  cluster_array_insert (c, a);
  cluster_place_link (c, a);
  cluster_access_begin (a, &a->rec.allow); /* the list is lost, too */
  cluster_step_put_array (c, a);
  cluster_step_changed_array (c, a);
  return a;
}

/* The name and the weftd are fit for an import, whatever the members say. */
static bool
place_refused (struct cluster *c, uint64_t op,
               const struct cluster_import *import)
{
  const struct cluster_array *a = cluster_array_by_uuid (c, import->array);

  if (cluster_step_refuse_read_only (c, op))
    return true;
  if (cluster_array_find (c, import->name))
    cluster_step_refuse (c, op, CLUSTER_CONFLICT, "exists",
                         "there is an array %s already: choose another name",
                         import->name)
      ->field = "name";
  else if (a)
    cluster_step_refuse (
      c, op, CLUSTER_CONFLICT, "exists",
      "that is array %s, which this weftd has already: it need not be imported",
      a->rec.name)
      ->field = "array";
  else
    return false;
  return true;
}

bool
cluster_import_order_refused (struct cluster *c, uint64_t op,
                              const struct cluster_import *import,
                              struct cluster_import_plan *plan)
{
  memset (plan, 0, sizeof *plan);
  return place_refused (c, op, import) ||
         cluster_import_refused (c, op, import, plan);
}

static void
log_import (struct cluster *c, const struct cluster_array *a,
            const struct cluster_import_plan *plan)
{
  char text[480];
  unsigned next = 0;

  cluster_step_log (c, CLUSTER_WARNING, "array", a->rec.name,
                    "Array %s was imported from its members, as they stood in "
                    "epoch %" PRIu64 ".",
                    a->rec.name, plan->newest->states_epoch);
  while (cluster_import_doubts (plan, &next, text, sizeof text))
    cluster_step_log (
      c, CLUSTER_WARNING, "array", a->rec.name,
      "Array %s was imported though this was doubtful, for the loss "
      "was accepted. %s",
      a->rec.name, text);
}

/* The generation is above all that any disk has seen.  A blank disk may have seen more than
 * the members: a weftd that is being restored tells those nothing, and has a generation of
 * at least the seconds since 1970 (cluster-restore.c).
 */
static void
become_cluster (struct cluster *c, const struct cluster_import_plan *plan)
{
  struct cluster_identity *i = &c->identity;

  if (!cluster_uuid_equal (i->uuid, plan->newest->cluster) &&
      i->generation < c->wall_ms / 1000)
    i->generation = c->wall_ms / 1000;
  memcpy (i->uuid, plan->newest->cluster, 16);
  if (i->generation <= plan->generation)
    i->generation = plan->generation + 1;
}

void
cluster_array_import (struct cluster *c, const struct cluster_input *in,
                      const struct cluster_import *import)
{
  struct cluster_import_plan plan;
  struct cluster_array *a;

  cluster_step_begin (c, in);
  if (!cluster_import_order_refused (c, in->op, import, &plan)) {
    become_cluster (c, &plan);
    cluster_step_put_identity (c);
    a = make_array (c, in, import, &plan);
    log_import (c, a, &plan);
    cluster_import_forget (c, import->array);
    cluster_step_reply_array (c, in->op, a);
  }
  cluster_pump_end (c);
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

  cluster_place_give (c, a, hb->position, d);
  m->held = held; /* an administrator's hold stays */
  snprintf (m->reason, sizeof m->reason, "%s", MISSING_AT_IMPORT);
  cluster_step_put_array (c, a);
  cluster_step_log (
    c, CLUSTER_INFO, "array", a->rec.name,
    "Disk %.200s of node %s is member %u of array %s, and was "
    "missing when the array was imported: it is rebuilt in full.",
    hb->path, hb->node, hb->position, a->rec.name);
}
