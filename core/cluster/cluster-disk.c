/* cluster-disk.c: disks: registration, heartbeats, forgetting.
 *
 * A heartbeat says what a disk is; the reply says what it is to be: a place in
 * an array (its assignment), the epoch below which it refuses requests, or an
 * array that it is to forget.  Nothing else ever makes a disk give up data, so
 * a foreign or reset weftd does no harm.
 * Which heartbeats are taken in: cluster-admit.c.
 */

#include <config.h>

#include <assert.h>
#include <inttypes.h>
#include <search.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-internal.h"

const char *
cluster_disk_words (const struct cluster_disk *d, char *text, size_t size)
{
  if (cluster_disk_is_name (d))
    snprintf (text, size, "a disk that is not known yet");
  else
    snprintf (text, size, "disk %.200s of node %s", d->rec.path, d->rec.node);
  return text;
}

bool
cluster_disk_is_name (const struct cluster_disk *d)
{
  return d->rec.size == 0;
}

void
cluster_disk_unknown (const uint8_t uuid[16], struct cluster_problem *p)
{
  char text[CLUSTER_UUID_TEXT_BYTES];

  cluster_uuid_text (uuid, text);
  cluster_problem_set (p, CLUSTER_INVALID, "unknown-disk",
                       "there is no disk %s: start its member process, or see "
                       "GET /api/v1/disks for those that there are",
                       text);
}

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

uint64_t
cluster_disk_silent_ms (const struct cluster *c, const struct cluster_disk *d)
{
  return c->live_ms - d->last_live_ms;
}

static int
compare_uuids (const void *a, const void *b)
{
  return memcmp (a, b, 16);
}

struct cluster_disk *
cluster_disk_find (const struct cluster *c, const uint8_t uuid[16])
{
  char **found = tfind (uuid, &c->disks_by_uuid, compare_uuids);

  return found ? (void *) (*found - offsetof (struct cluster_disk, rec.uuid))
               : NULL;
}

void
cluster_disk_insert (struct cluster *c, struct cluster_disk *d)
{
  TAILQ_INSERT_TAIL (&c->disks, d, link);
  if (tsearch (d->rec.uuid, &c->disks_by_uuid, compare_uuids) == NULL)
    abort ();
}

void
cluster_disk_free (struct cluster *c, struct cluster_disk *d)
{
  TAILQ_REMOVE (&c->disks, d, link);
  tdelete (d->rec.uuid, &c->disks_by_uuid, compare_uuids);
  free (d->said);
  free (d);
}

uint64_t
cluster_disk_min_epoch_wanted (const struct cluster_disk *d)
{
  const struct cluster_array_record *r;

  if (d->array == NULL)
    return 0;
  r = &d->array->rec;
  return r->change.epoch && r->change.confirm[d->position]
           ? r->change.epoch
           : r->member[d->position].fence;
}

/* What the member is to do about joining; epoch 0: nothing. */
static void
order_of (const struct cluster *c, const struct cluster_disk *d,
          struct cluster_join_order *order)
{
  if (d->array == NULL ||
      !cluster_join_order (c, d->array, d->position, order))
    memset (order, 0, sizeof *order);
}

bool
cluster_disk_wake (struct cluster *c, struct cluster_disk *d)
{
  uint64_t epoch;

  if (d->poll == NULL)
    return false;
  if (!d->starting)
    d->last_live_ms = c->live_ms;
  epoch = d->array ? d->array->rec.epoch : 0;
  d->knows = d->told && d->told_epoch == epoch && d->took_place &&
             d->states_epoch == epoch;
  d->told = true;
  d->told_epoch = epoch;
  d->told_min_epoch = cluster_disk_min_epoch_wanted (d);
  order_of (c, d, &d->told_order);
  cluster_reply_disk (c, d->poll->op, d);
  cluster_wait_end (c, d->poll);
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
  cluster_disk_insert (c, d);
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

  differs |= r->moves_to[0] != '\0' || r->shut_out;
  r->shut_out = false;
  cluster_disk_note_move (c, d, hb);
  differs |= cluster_text_copy (r->node, sizeof r->node, hb->node);
  differs |= cluster_text_copy (r->uri, sizeof r->uri, hb->uri);
  differs |= cluster_text_copy (r->path, sizeof r->path, hb->path);
  r->size = hb->size;
  r->data_bytes = hb->data_bytes;
  if (!cluster_uuid_is_zero (r->release) &&
      !cluster_uuid_equal (r->release, hb->array)) {
    memset (r->release, 0, sizeof r->release);
    r->sequence = 0;
    d->told = false;
    if (d->array == NULL)
      cluster_log (c, CLUSTER_INFO, "disk", r->path,
                   "Disk %.200s of node %s is free again.", r->path, r->node);
    differs = true;
  }
  return differs;
}

/* How far its superblock is, of a disk that is in its place.  True: that is to be
 * stored now.
 */
static bool
take_sequence (struct cluster *c, struct cluster_disk *d,
               const struct cluster_disk_heartbeat *hb, bool took, bool stored)
{
  d->sequence = hb->sequence;
  if (!took)
    return false;
  if (hb->sequence > d->rec.sequence)
    d->rec.sequence = hb->sequence; /* also where it is not stored yet */
  if (d->rec.sequence == d->stored_sequence ||
      (!stored && d->stored_live_ms &&
       c->live_ms - d->stored_live_ms < SEQUENCE_MS))
    return false;
  d->stored_sequence = d->rec.sequence;
  d->stored_live_ms = c->live_ms;
  return true;
}

/* Of a member's disk: is it the one that it was?  A blank one begins anew, and no
 * other that says to be a member is that one.
 */
static void
take_self (struct cluster *c, struct cluster_disk *d,
           const struct cluster_disk_heartbeat *hb)
{
  struct cluster_array *a = d->array;
  struct cluster_member *m = &a->rec.member[d->position];
  uint64_t confirmed
    = a->rec.ready && m->state == MEMBER_OUT ? CONFIRMED_BY_NONE : 0;

  d->old_copy = false;
  if (cluster_admit_old (d, hb)) {
    d->old_copy = true;
    cluster_rebuild_reset (c, a, d->position);
  }
  else if (cluster_uuid_is_zero (hb->array) &&
           (d->rec.sequence || m->confirmed != confirmed || m->round)) {
    d->rec.sequence = d->stored_sequence = 0;
    m->confirmed = confirmed;
    m->round = 0;
    cluster_put_disk (c, d);
    cluster_put_array (c, a);
  }
}

/* Is it further with its rebuild, or does it wait for something else? */
static bool
progressed (const struct cluster_join *now, const struct cluster_join *before)
{
  return now->todo_bytes != before->todo_bytes ||
         now->total_bytes != before->total_bytes ||
         now->copied_bytes != before->copied_bytes ||
         now->unreadable_bytes != before->unreadable_bytes ||
         strcmp (now->waits, before->waits) != 0;
}

/* What it says that changes while it works. */
static void
take_state (struct cluster_disk *d, const struct cluster *c,
            const struct cluster_disk_heartbeat *hb, bool took)
{
  d->heard = d->spoke = true;
  d->starting = hb->starting;
  d->failed = hb->failed;
  d->blank = cluster_uuid_is_zero (hb->array);
  d->took_place = took;
  if (!hb->starting) {
    d->alive = true;
    d->last_live_ms = c->live_ms;
  }
  d->contested_live_ms = 0;
  d->min_epoch = hb->min_epoch;
  d->round = hb->round;
  d->states_epoch = hb->states_epoch;
  d->generation = hb->generation;
  d->dirty_extents = hb->dirty_extents;
  if (d->array && progressed (&hb->join, &d->join))
    d->array->progressed = true;
  d->join = hb->join;
  cluster_eta_note (&d->eta, c->live_ms, &d->join);
}

void
cluster_disk_meet (struct cluster *c, struct cluster_disk *d)
{
  if (d->heard &&
      (cluster_text_copy (d->rec.instance, sizeof d->rec.instance, d->instance) |
       cluster_text_copy (d->rec.cache, sizeof d->rec.cache, d->cache)))
    cluster_put_disk (c, d);
}

/* A process that has failed may have been told of a write that came to nothing; the
 * kernel tells it nobody else.
 */
bool
cluster_disk_kept (const struct cluster_disk *d)
{
  return d->heard && !d->failed &&
         (strcmp (d->instance, d->rec.instance) == 0 ||
          (d->cache[0] && strcmp (d->cache, d->rec.cache) == 0));
}

bool
cluster_disk_unmet (const struct cluster_disk *d)
{
  return d->heard && strcmp (d->instance, d->rec.instance) != 0;
}

/* Somebody writes to it who knows of the process that was: of its next one he is
 * told by a change of epoch only.
 */
static bool
known_to_writer (const struct cluster *c, const struct cluster_disk *d)
{
  return d->array && d->rec.instance[0] &&
         d->array->rec.member[d->position].state != MEMBER_OUT &&
         cluster_array_writer (c, d->array);
}

static void
take (struct cluster *c, struct cluster_disk *d,
      const struct cluster_disk_heartbeat *hb)
{
  bool restarted = d->instance[0] && strcmp (d->instance, hb->instance) != 0;
  bool stored = take_record (c, d, hb);
  bool told = stored || restarted || !d->heard || !d->alive ||
              d->failed != hb->failed;
  bool took = d->array && cluster_uuid_equal (hb->array, d->array->rec.uuid) &&
              hb->position == d->position;
  bool was_old = d->old_copy;
  bool moved;

  if (d->array)
    take_self (c, d, hb);
  stored |= take_sequence (c, d, hb, took, stored);
  moved = told || took != d->took_place || d->min_epoch != hb->min_epoch ||
          d->states_epoch != hb->states_epoch || d->old_copy != was_old ||
          d->join.phase != hb->join.phase || d->join.epoch != hb->join.epoch;
  if (hb->failed && !d->failed)
    cluster_log (c, CLUSTER_ERROR, "disk", hb->path,
                 "Disk %.200s of node %s has failed: %s.", hb->path, hb->node,
                 hb->reason[0] ? hb->reason : "it does not say why");
  else if (restarted || (d->heard && !d->alive && !d->starting))
    cluster_log (c, CLUSTER_INFO, "disk", hb->path,
                 "Disk %.200s of node %s %s.", hb->path, hb->node,
                 restarted ? "was started again" : "is heard of again");
  if (restarted || !d->heard)
    d->told = false;
  if (restarted)
    d->served = false;
  told |= cluster_text_copy (d->reason, sizeof d->reason, hb->reason);
  cluster_text_copy (d->instance, sizeof d->instance, hb->instance);
  cluster_text_copy (d->cache, sizeof d->cache, hb->failed ? "" : hb->cache);
  if (hb->failed)
    stored |= cluster_text_copy (d->rec.cache, sizeof d->rec.cache, "");
  take_state (d, c, hb, took);
  if (took && !d->old_copy &&
      d->array->rec.member[d->position].state == MEMBER_IN_SYNC)
    cluster_array_heard_round (c, d->array, hb->round);
  if (!known_to_writer (c, d))
    cluster_disk_meet (c, d);
  if (hb->has_load)
    take_load (c, d, &hb->load, restarted);
  if (stored)
    cluster_put_disk (c, d);
  if (told)
    cluster_changed_disk (c, d);
  if (moved && d->array)
    cluster_array_moved (c, d->array);
}

/* So that it need not be said again. */
static void
keep (struct cluster *c, struct cluster_disk *d,
      const struct cluster_disk_heartbeat *hb)
{
  bool news = d->said ? d->said->bad.sequence != hb->bad.sequence ||
                          d->said->bad.count != hb->bad.count
                      : hb->bad.count > 0;

  if (hb->same)
    return;
  if (d->said == NULL)
    d->said = cluster_alloc (sizeof *d->said);
  *d->said = *hb;
  if (news && d->array)
    cluster_changed_array (c, d->array);
}

/* Is this order so nearly the one that it has that it needs no new one? */
static bool
same_order (const struct cluster_join_order *a,
            const struct cluster_join_order *b)
{
  uint64_t apart = a->rate > b->rate ? a->rate - b->rate : b->rate - a->rate;

  return a->epoch == b->epoch && a->paused == b->paused &&
         a->round == b->round &&
         (a->rate == 0) == (b->rate == 0) && apart <= a->rate / 10 &&
         memcmp (a->source, b->source, sizeof a->source) == 0;
}

/* Does the disk know, or was it just told, all that is wanted of it? */
static bool
content (const struct cluster *c, const struct cluster_disk *d,
         const struct cluster_disk_heartbeat *hb)
{
  uint64_t epoch = d->array ? d->array->rec.epoch : 0;
  uint64_t min_epoch = cluster_disk_min_epoch_wanted (d);
  struct cluster_join_order order;

  order_of (c, d, &order);
  if (d->told)
    return d->told_epoch == epoch && d->told_min_epoch == min_epoch &&
           same_order (&d->told_order, &order);
  return order.epoch == 0 &&
         cluster_uuid_equal (hb->cluster, c->identity.uuid) &&
         hb->generation == c->identity.generation &&
         cluster_uuid_is_zero (d->rec.release) &&
         (d->array == NULL || d->took_place) && hb->min_epoch >= min_epoch &&
         hb->states_epoch == epoch;
}

void
cluster_disk_reorder (struct cluster *c, struct cluster_disk *d)
{
  struct cluster_join_order order;

  order_of (c, d, &order);
  if (d->told && !same_order (&d->told_order, &order))
    cluster_disk_wake (c, d);
}

/* All of a heartbeat: it, or what it says to be the same as, in `all`.  NULL: we
 * have not heard that, or something else since; refused.
 */
static const struct cluster_disk_heartbeat *
whole (struct cluster *c, uint64_t op, const struct cluster_disk *d,
       const struct cluster_disk_heartbeat *hb,
       struct cluster_disk_heartbeat *all)
{
  if (!hb->same)
    return hb;
  if (d == NULL || d->said == NULL || d->said->report != hb->report ||
      strcmp (d->said->instance, hb->instance) != 0 ||
      strcmp (d->said->node, hb->node) != 0) {
    cluster_refuse (c, op, CLUSTER_CONFLICT, "say-all",
                    "weftd has no report %" PRIu64 " of this disk by this "
                    "process, or a later one: say all that there is to say",
                    hb->report);
    return NULL;
  }
  *all = *d->said;
  memcpy (all, hb, offsetof (struct cluster_disk_heartbeat, uri));
  if (all->sequence == 0) {
    all->sequence = d->said->sequence;
    all->round = d->said->round;
  }
  return all;
}

static void
heartbeat (struct cluster *c, const struct cluster_input *in,
           const struct cluster_disk_heartbeat *hb)
{
  struct cluster_disk *d = cluster_disk_find (c, hb->uuid);
  struct cluster_disk_heartbeat all;
  struct waiting *w;
  uint64_t wait_ms = hb->wait_ms;

  hb = whole (c, in->op, d, hb, &all);
  if (hb == NULL || !cluster_admit (c, in->op, d, hb))
    return;
  if (d == NULL) {
    if ((d = disk_register (c, in, hb)) == NULL)
      return;
    if (!cluster_uuid_is_zero (hb->array))
      cluster_import_return (c, d, hb);
  }
  if (cluster_disk_wake (c, d)) /* it has given an older one up, hears nothing */
    d->told = false;
  cluster_admit_others (c, d);
  take (c, d, hb);
  keep (c, d, hb);

  w = cluster_wait (c, WAIT_DISK, in->op,
                    wait_ms < HOLD_MS_MAX ? wait_ms : HOLD_MS_MAX);
  w->disk = d;
  d->poll = w;
  if (wait_ms == 0 || !content (c, d, hb))
    cluster_disk_wake (c, d);
}

void
cluster_disk_heartbeat (struct cluster *c, const struct cluster_input *in,
                        const struct cluster_disk_heartbeat *hb)
{
  cluster_begin (c, in);
  heartbeat (c, in, hb);
  cluster_end (c);
}

/* The disk itself may be back in a moment: to take an old copy in its place means a
 * rebuild in full.  (Of a last copy none is taken in.)
 */
static bool
refuse_too_soon (struct cluster *c, const struct waiting *w)
{
  const struct cluster_disk *d = w->disk;
  struct cluster_problem *p;
  char words[320];

  if (!cluster_admit_old (d, w->heartbeat) ||
      cluster_disk_silent_ms (c, d) >= MEMBER_TTL_MS ||
      (d->array->rec.member[d->position].state == MEMBER_IN_SYNC &&
       !cluster_array_can_leave_out (d->array, d->position)))
    return false;
  p = cluster_refuse (c, w->op, CLUSTER_UNAVAILABLE, "old-copy",
                      "%s was served by another process a moment ago, and this "
                      "is an old copy of the disk: ask again, if it is to be "
                      "taken in",
                      cluster_disk_words (d, words, sizeof words));
  cluster_retry (p, HEARTBEAT_MS);
  return true;
}

/* The known process has been silent: the one that waits takes its place. */
void
cluster_disk_take_over (struct cluster *c, struct waiting *w)
{
  struct cluster_disk_heartbeat hb = *w->heartbeat;
  struct cluster_input in
    = { .op = w->op, .now_ms = c->now_ms, .wall_ms = c->wall_ms };
  struct cluster_disk *d = w->disk;
  bool refused = refuse_too_soon (c, w);

  cluster_wait_end (c, w);
  if (refused)
    return;
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

  if (!d->alive || cluster_disk_silent_ms (c, d) < MEMBER_TTL_MS)
    return;
  if (d->poll)
    return; /* it is we who are silent */
  d->alive = false;
  cluster_changed_disk (c, d);
  if (d->array && !cluster_disk_is_name (d)) {
    cluster_log (c,
                 cluster_node_in_maintenance (c, d->rec.node)
                   ? CLUSTER_INFO : CLUSTER_WARNING,
                 "disk", d->rec.path,
                 "Member %u of array %s (%s) is silent.", d->position,
                 d->array->rec.name,
                 cluster_disk_words (d, words, sizeof words));
    cluster_array_moved (c, d->array);
  }
}

bool
cluster_disk_change_refused (struct cluster *c, uint64_t op,
                             const struct cluster_disk *d,
                             const uint8_t uuid[16])
{
  char text[CLUSTER_UUID_TEXT_BYTES];

  if (d)
    return cluster_refuse_read_only (c, op);
  cluster_uuid_text (uuid, text);
  cluster_refuse (c, op, CLUSTER_NOT_FOUND, "unknown-disk",
                  "there is no disk %s: GET /api/v1/disks lists them", text);
  return true;
}

bool
cluster_disk_forget_refused (struct cluster *c, uint64_t op,
                             const uint8_t uuid[16])
{
  const struct cluster_disk *d = cluster_disk_find (c, uuid);
  char words[320];

  if (cluster_disk_change_refused (c, op, d, uuid))
    ;
  else if (d->array)
    cluster_refuse (c, op, CLUSTER_CONFLICT, "in-use",
                    "%s is member %u of array %s: replace it there, or delete "
                    "the array first",
                    cluster_disk_words (d, words, sizeof words), d->position,
                    d->array->rec.name);
  else if (!cluster_uuid_is_zero (d->rec.spare_of))
    cluster_refuse (c, op, CLUSTER_CONFLICT, "spare",
                    "%s is a spare of array %s: take it from its spares first",
                    cluster_disk_words (d, words, sizeof words),
                    cluster_array_by_uuid (c, d->rec.spare_of)->rec.name);
  else if (d->alive)
    cluster_refuse (c, op, CLUSTER_CONFLICT, "alive",
                    "%s is alive: stop the process that serves it first",
                    cluster_disk_words (d, words, sizeof words));
  else
    return false;
  return true;
}

void
cluster_disk_remove (struct cluster *c, struct cluster_disk *d)
{
  struct waiting *w, *next;

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
}

void
cluster_disk_forget (struct cluster *c, const struct cluster_input *in,
                     const uint8_t uuid[16])
{
  cluster_begin (c, in);
  if (!cluster_disk_forget_refused (c, in->op, uuid)) {
    cluster_disk_remove (c, cluster_disk_find (c, uuid));
    cluster_reply_done (c, in->op, CLUSTER_DISK, uuid, 0, NULL);
  }
  cluster_end (c);
}
