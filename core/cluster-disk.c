/* cluster-disk.c: disks: registration, heartbeats, double use, forgetting.
 *
 * A heartbeat says what a disk is; the reply says what it is to be: a place in
 * an array (its assignment), the epoch below which it refuses requests, or an
 * array that it is to forget.  Nothing else ever makes a disk give up data, so
 * a foreign or reset weftd does no harm.
 *
 * One process serves a disk.  Another one that asks (the same disk started
 * again, or a clone of it) waits while the known one is asked to speak: if it
 * does, the other is refused; if it is silent for TAKEOVER_MS, it is replaced.
 */

#include <config.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-internal.h"

const char *
cluster_disk_words (const struct cluster_disk *d, char *text, size_t size)
{
  snprintf (text, size, "disk %.200s of node %s", d->rec.path, d->rec.node);
  return text;
}

uint64_t
cluster_disk_silent_ms (const struct cluster *c, const struct cluster_disk *d)
{
  return c->live_ms - d->last_live_ms;
}

struct cluster_disk *
cluster_disk_find (const struct cluster *c, const uint8_t uuid[16])
{
  struct cluster_disk *d;

  TAILQ_FOREACH (d, &c->disks, link)
    if (cluster_uuid_equal (d->rec.uuid, uuid))
      return d;
  return NULL;
}

uint64_t
cluster_disk_min_epoch_wanted (const struct cluster_disk *d)
{
  const struct cluster_array_record *r;

  if (d->array == NULL)
    return 0;
  r = &d->array->rec;
  return r->change.epoch && r->change.fence ? r->change.epoch : r->fence;
}

/* ---- Is this disk ours at all? ---- */

static bool
refuse_foreign (struct cluster *c, uint64_t op,
                const struct cluster_disk_heartbeat *hb)
{
  char theirs[CLUSTER_UUID_TEXT_BYTES], ours[CLUSTER_UUID_TEXT_BYTES];

  if (cluster_uuid_is_zero (hb->cluster) ||
      cluster_uuid_equal (hb->cluster, c->identity.uuid))
    return false;
  cluster_uuid_text (hb->cluster, theirs);
  cluster_uuid_text (c->identity.uuid, ours);
  cluster_refuse (c, op, CLUSTER_CONFLICT, "foreign-cluster",
                  "disk %.200s of node %s belongs to cluster %s, and this is "
                  "weftd of cluster %s: give it the admin URL of its own "
                  "weftd, or format it anew",
                  hb->path, hb->node, theirs, ours);
  return true;
}

static bool
refuse_array (struct cluster *c, uint64_t op, struct cluster_disk *d,
              const struct cluster_disk_heartbeat *hb)
{
  char text[CLUSTER_UUID_TEXT_BYTES];
  struct cluster_array *a;

  if (cluster_uuid_is_zero (hb->array) ||
      (d && cluster_uuid_equal (d->rec.release, hb->array)))
    return false;
  a = cluster_array_by_uuid (c, hb->array);
  if (a == NULL) {
    cluster_uuid_text (hb->array, text);
    cluster_refuse (c, op, CLUSTER_CONFLICT, "unknown-array",
                    "disk %.200s of node %s belongs to array %s, which this "
                    "weftd does not know: put weftd's own database back, or "
                    "format the disk anew if its data is not needed",
                    hb->path, hb->node, text);
    return true;
  }
  if (hb->position < a->layout.members && d != NULL &&
      a->disk[hb->position] == d)
    return false;
  cluster_refuse (c, op, CLUSTER_CONFLICT, "not-a-member",
                  "disk %.200s of node %s says that it is member %u of array "
                  "%s, but that is another disk: format it anew if its data "
                  "is not needed",
                  hb->path, hb->node, hb->position, a->rec.name);
  return true;
}

/* A member that was in its place and now is something less. */
static bool
refuse_diminished (struct cluster *c, uint64_t op, struct cluster_disk *d,
                   const struct cluster_disk_heartbeat *hb)
{
  struct cluster_problem *p;

  if (d == NULL || d->array == NULL || !d->array->rec.ready)
    return false;
  if (cluster_uuid_is_zero (hb->array))
    p = cluster_refuse (c, op, CLUSTER_CONFLICT, "blank",
                        "disk %.200s of node %s is member %u of array %s, but "
                        "says that it belongs to no array: it was formatted, "
                        "or an old copy of it was put back; delete the array, "
                        "or put the right disk back",
                        hb->path, hb->node, d->position, d->array->rec.name);
  else if (hb->data_bytes < d->array->rec.member_bytes)
    p = cluster_refuse (c, op, CLUSTER_CONFLICT, "truncated",
                        "disk %.200s of node %s, member %u of array %s, has a "
                        "data area of %" PRIu64 " bytes, and %" PRIu64
                        " are in use: give it its size back",
                        hb->path, hb->node, d->position, d->array->rec.name,
                        hb->data_bytes, d->array->rec.member_bytes);
  else
    return false;
  if (cluster_text_copy (d->reason, sizeof d->reason, p->detail))
    cluster_changed_disk (c, d);
  return true;
}

/* What a member knows and the database does not shows that the database is an
 * old one.  A member's min_epoch may be ahead by one: it raises that itself,
 * past an epoch in which a door was opened, when it is started again.
 */
static bool
refuse_newer (struct cluster *c, uint64_t op, const struct cluster_disk *d,
              const struct cluster_disk_heartbeat *hb)
{
  if (hb->generation > c->identity.generation)
    cluster_set_read_only (c,
                           "disk %.120s of node %s has seen generation %" PRIu64
                           ", and this is %" PRIu64,
                           hb->path, hb->node, hb->generation,
                           c->identity.generation);
  else if (d && d->array &&
           cluster_uuid_equal (hb->array, d->array->rec.uuid) &&
           hb->states_epoch > cluster_array_wanted_epoch (d->array))
    cluster_set_read_only (c,
                           "disk %.120s of node %s has seen epoch %" PRIu64
                           " of array %s, which is here at %" PRIu64,
                           hb->path, hb->node, hb->states_epoch,
                           d->array->rec.name,
                           cluster_array_wanted_epoch (d->array));
  else if (d && d->array &&
           hb->min_epoch > cluster_array_wanted_epoch (d->array) + 1)
    cluster_set_read_only (c,
                           "disk %.120s of node %s refuses epochs below "
                           "%" PRIu64 " of array %s, which is here at %" PRIu64,
                           hb->path, hb->node, hb->min_epoch,
                           d->array->rec.name,
                           cluster_array_wanted_epoch (d->array));
  return cluster_refuse_read_only (c, op);
}

/* ---- Two processes for one disk. ---- */

static void
answer_polls (struct cluster *c, struct cluster_disk *d)
{
  struct waiting *w, *next;

  for (w = TAILQ_FIRST (&c->waitings); w != NULL; w = next) {
    next = TAILQ_NEXT (w, link);
    if (w->kind != WAIT_DISK || w->disk != d)
      continue;
    d->last_live_ms = c->live_ms;
    d->told = true;
    d->told_epoch = d->array ? cluster_array_wanted_epoch (d->array) : 0;
    d->told_min_epoch = cluster_disk_min_epoch_wanted (d);
    cluster_reply_disk (c, w->op, d);
    cluster_wait_end (c, w);
  }
}

void
cluster_disk_wake (struct cluster *c, struct cluster_disk *d)
{
  answer_polls (c, d);
}

/* The known process has spoken: the others are refused. */
static void
refuse_contenders (struct cluster *c, struct cluster_disk *d)
{
  char words[320];
  struct waiting *w, *next;

  if (d->contested_live_ms == 0)
    return;
  d->contested_live_ms = 0;
  for (w = TAILQ_FIRST (&c->waitings); w != NULL; w = next) {
    next = TAILQ_NEXT (w, link);
    if (w->kind != WAIT_CONTENDER || w->disk != d)
      continue;
    cluster_refuse (c, w->op, CLUSTER_CONFLICT, "double-used",
                    "%s is already served by a live process at %.200s: stop "
                    "that one, or format this disk anew if it is a copy",
                    cluster_disk_words (d, words, sizeof words), d->rec.uri);
    cluster_log (c, CLUSTER_WARNING, "disk", d->rec.path,
                 "A second process, for %.200s of node %s, asked to serve %s "
                 "and was refused: is it a clone?",
                 w->heartbeat->path, w->heartbeat->node,
                 cluster_disk_words (d, words, sizeof words));
    cluster_wait_end (c, w);
  }
}

static bool
contend (struct cluster *c, uint64_t op, struct cluster_disk *d,
         const struct cluster_disk_heartbeat *hb)
{
  struct waiting *w;

  if (!d->heard || strcmp (d->instance, hb->instance) == 0 ||
      cluster_disk_silent_ms (c, d) >= MEMBER_TTL_MS)
    return false;
  if (d->contested_live_ms == 0)
    d->contested_live_ms = c->live_ms;
  w = cluster_wait (c, WAIT_CONTENDER, op, TAKEOVER_MS);
  w->disk = d;
  w->heartbeat = cluster_alloc (sizeof *hb);
  *w->heartbeat = *hb;
  answer_polls (c, d); /* speak, if you live */
  return true;
}

/* ---- Taking a heartbeat in. ---- */

static struct cluster_disk *
disk_register (struct cluster *c, const struct cluster_input *in,
               const struct cluster_disk_heartbeat *hb)
{
  struct cluster_disk *d;
  unsigned count = 0;

  TAILQ_FOREACH (d, &c->disks, link)
    count++;
  if (count >= DISKS_MAX) {
    cluster_refuse (c, in->op, CLUSTER_CONFLICT, "too-many",
                    "there are %d disks already: forget some that are gone",
                    DISKS_MAX);
    return NULL;
  }
  d = cluster_alloc (sizeof *d);
  memcpy (d->rec.uuid, hb->uuid, 16);
  memcpy (d->rec.key, in->random, KEY_BYTES);
  TAILQ_INSERT_TAIL (&c->disks, d, link);
  cluster_log (c, CLUSTER_INFO, "disk", hb->path,
               "Disk %.200s of node %s has registered.", hb->path, hb->node);
  return d;
}

static double
rate (uint64_t now, uint64_t before, uint64_t ms)
{
  return now >= before && ms > 0 ? (double) (now - before) * 1000 / ms : 0;
}

static void
take_load (struct cluster *c, struct cluster_disk *d,
           const struct cluster_load *l, bool restarted)
{
  const struct cluster_load *o = &d->load;
  uint64_t ms = c->now_ms - d->load_ms;

  if (restarted || d->load_ms == 0) {
    d->load_ms = c->now_ms;
    d->load = *l;
    memset (&d->rates, 0, sizeof d->rates);
    return;
  }
  d->load.cpu = l->cpu;
  d->load.loadavg = l->loadavg;
  d->load.mem_free = l->mem_free;
  if (ms < 200)
    return; /* heartbeats that follow a change: too short to be a rate */
  d->rates.disk_read_bytes = rate (l->disk_read_bytes, o->disk_read_bytes, ms);
  d->rates.disk_write_bytes
    = rate (l->disk_write_bytes, o->disk_write_bytes, ms);
  d->rates.disk_reads = rate (l->disk_reads, o->disk_reads, ms);
  d->rates.disk_writes = rate (l->disk_writes, o->disk_writes, ms);
  d->rates.flushes = rate (l->flushes, o->flushes, ms);
  d->rates.net_rx_bytes = rate (l->net_rx_bytes, o->net_rx_bytes, ms);
  d->rates.net_tx_bytes = rate (l->net_tx_bytes, o->net_tx_bytes, ms);
  d->load_ms = c->now_ms;
  d->load = *l;
}

/* What is stored of a disk; true: it differs from what was. */
static bool
take_record (struct cluster *c, struct cluster_disk *d,
             const struct cluster_disk_heartbeat *hb)
{
  struct cluster_disk_record *r = &d->rec;
  bool differs = r->size != hb->size || r->data_bytes != hb->data_bytes;

  differs |= cluster_text_copy (r->node, sizeof r->node, hb->node);
  differs |= cluster_text_copy (r->uri, sizeof r->uri, hb->uri);
  differs |= cluster_text_copy (r->path, sizeof r->path, hb->path);
  r->size = hb->size;
  r->data_bytes = hb->data_bytes;
  if (!cluster_uuid_is_zero (r->release) &&
      !cluster_uuid_equal (r->release, hb->array)) {
    memset (r->release, 0, sizeof r->release);
    cluster_log (c, CLUSTER_INFO, "disk", r->path,
                 "Disk %.200s of node %s is free again.", r->path, r->node);
    differs = true;
  }
  return differs;
}

static void
take (struct cluster *c, struct cluster_disk *d,
      const struct cluster_disk_heartbeat *hb)
{
  bool restarted = d->heard && strcmp (d->instance, hb->instance) != 0;
  bool stored = take_record (c, d, hb);
  bool told = stored || restarted || !d->heard || !d->alive ||
              d->failed != hb->failed;
  bool took = d->array && cluster_uuid_equal (hb->array, d->array->rec.uuid) &&
              hb->position == d->position;
  bool moved = told || took != d->took_place || d->min_epoch != hb->min_epoch ||
               d->states_epoch != hb->states_epoch;

  if (hb->failed && !d->failed)
    cluster_log (c, CLUSTER_ERROR, "disk", hb->path,
                 "Disk %.200s of node %s has failed: %s.", hb->path, hb->node,
                 hb->reason[0] ? hb->reason : "it does not say why");
  else if (restarted || (d->heard && !d->alive))
    cluster_log (c, CLUSTER_INFO, "disk", hb->path,
                 "Disk %.200s of node %s %s.", hb->path, hb->node,
                 restarted ? "was started again" : "is heard of again");
  if (restarted || !d->heard)
    d->told = false;
  told |= cluster_text_copy (d->reason, sizeof d->reason, hb->reason);
  cluster_text_copy (d->instance, sizeof d->instance, hb->instance);
  d->heard = d->alive = true;
  d->failed = hb->failed;
  d->blank = cluster_uuid_is_zero (hb->array);
  d->took_place = took;
  d->last_live_ms = c->live_ms;
  d->contested_live_ms = 0;
  d->min_epoch = hb->min_epoch;
  d->states_epoch = hb->states_epoch;
  d->sequence = hb->sequence;
  d->generation = hb->generation;
  d->dirty_extents = hb->dirty_extents;
  if (hb->has_load)
    take_load (c, d, &hb->load, restarted);
  if (stored)
    cluster_put_disk (c, d);
  if (told)
    cluster_changed_disk (c, d);
  if (moved && d->array)
    cluster_array_moved (c, d->array);
}

/* Does the disk know, or was it just told, all that is wanted of it? */
static bool
content (const struct cluster *c, const struct cluster_disk *d,
         const struct cluster_disk_heartbeat *hb)
{
  uint64_t epoch = d->array ? cluster_array_wanted_epoch (d->array) : 0;
  uint64_t min_epoch = cluster_disk_min_epoch_wanted (d);

  if (d->told && d->told_epoch == epoch && d->told_min_epoch == min_epoch)
    return true;
  return cluster_uuid_equal (hb->cluster, c->identity.uuid) &&
         hb->generation == c->identity.generation &&
         cluster_uuid_is_zero (d->rec.release) &&
         (d->array == NULL || d->took_place) && hb->min_epoch >= min_epoch &&
         hb->states_epoch == epoch;
}

static void
heartbeat (struct cluster *c, const struct cluster_input *in,
           const struct cluster_disk_heartbeat *hb)
{
  struct cluster_disk *d = cluster_disk_find (c, hb->uuid);
  struct waiting *w;
  uint64_t wait_ms = hb->wait_ms;

  if (refuse_foreign (c, in->op, hb) || refuse_newer (c, in->op, d, hb) ||
      refuse_array (c, in->op, d, hb))
    return;
  if (d && contend (c, in->op, d, hb))
    return;
  if (refuse_diminished (c, in->op, d, hb))
    return;
  if (d == NULL && (d = disk_register (c, in, hb)) == NULL)
    return;
  answer_polls (c, d); /* it has given an older one up */
  refuse_contenders (c, d);
  take (c, d, hb);

  w = cluster_wait (c, WAIT_DISK, in->op,
                    wait_ms < HOLD_MS_MAX ? wait_ms : HOLD_MS_MAX);
  w->disk = d;
  if (wait_ms == 0 || !content (c, d, hb))
    answer_polls (c, d);
}

void
cluster_disk_heartbeat (struct cluster *c, const struct cluster_input *in,
                        const struct cluster_disk_heartbeat *hb)
{
  cluster_begin (c, in);
  heartbeat (c, in, hb);
  cluster_end (c);
}

/* The known process has been silent: the one that waits takes its place. */
void
cluster_disk_take_over (struct cluster *c, struct waiting *w)
{
  struct cluster_disk_heartbeat hb = *w->heartbeat;
  struct cluster_input in
    = { .op = w->op, .now_ms = c->now_ms, .wall_ms = c->wall_ms };
  struct cluster_disk *d = w->disk;

  cluster_wait_end (c, w);
  if (d->contested_live_ms) {
    d->contested_live_ms = 0;
    d->heard = false; /* of the process that was */
  }
  heartbeat (c, &in, &hb);
}

void
cluster_disk_tick (struct cluster *c, struct cluster_disk *d)
{
  char words[320];
  struct waiting *w;

  if (!d->alive || cluster_disk_silent_ms (c, d) < MEMBER_TTL_MS)
    return;
  TAILQ_FOREACH (w, &c->waitings, link)
    if (w->kind == WAIT_DISK && w->disk == d)
      return; /* it is we who are silent */
  d->alive = false;
  cluster_changed_disk (c, d);
  if (d->array) {
    cluster_log (c, CLUSTER_WARNING, "disk", d->rec.path,
                 "Member %u of array %s (%s) is silent.", d->position,
                 d->array->rec.name,
                 cluster_disk_words (d, words, sizeof words));
    cluster_array_moved (c, d->array);
  }
}

void
cluster_disk_forget (struct cluster *c, const struct cluster_input *in,
                     const uint8_t uuid[16])
{
  struct cluster_disk *d = cluster_disk_find (c, uuid);
  char words[320], text[CLUSTER_UUID_TEXT_BYTES];
  struct waiting *w, *next;

  cluster_begin (c, in);
  if (d == NULL) {
    cluster_uuid_text (uuid, text);
    cluster_refuse (c, in->op, CLUSTER_NOT_FOUND, "unknown-disk",
                    "there is no disk %s: GET /api/v1/disks lists them", text);
  }
  else if (cluster_refuse_read_only (c, in->op))
    ;
  else if (d->array)
    cluster_refuse (c, in->op, CLUSTER_CONFLICT, "in-use",
                    "%s is member %u of array %s: delete the array first",
                    cluster_disk_words (d, words, sizeof words), d->position,
                    d->array->rec.name);
  else if (d->alive)
    cluster_refuse (c, in->op, CLUSTER_CONFLICT, "alive",
                    "%s is alive: stop the process that serves it first",
                    cluster_disk_words (d, words, sizeof words));
  else {
    for (w = TAILQ_FIRST (&c->waitings); w != NULL; w = next) {
      next = TAILQ_NEXT (w, link);
      if (w->disk == d) {
        cluster_refuse (c, w->op, CLUSTER_CONFLICT, "forgotten",
                        "the disk was forgotten just now: try again");
        cluster_wait_end (c, w);
      }
    }
    cluster_log (c, CLUSTER_INFO, "disk", d->rec.path,
                 "Disk %.200s of node %s was forgotten.", d->rec.path,
                 d->rec.node);
    cluster_drop_disk (c, d);
    cluster_reply_done (c, in->op, CLUSTER_DISK, uuid, 0, NULL);
  }
  cluster_end (c);
}
