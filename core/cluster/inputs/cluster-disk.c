/* cluster-disk.c: disks: registration, heartbeats, forgetting.
 *
 * A heartbeat says what a disk is; the reply says what it is to be: a place in
 * an array (its assignment), the epoch below which it refuses requests, or an
 * array that it is to forget.  Nothing else ever makes a disk give up data, so
 * a foreign or reset weftd does no harm.
 * Which heartbeats are taken in: cluster-admit.c.
 */

#include <config.h>

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-inputs.h"

static struct cluster_disk *
disk_register (struct cluster *c, const struct cluster_input *in,
               const struct cluster_disk_heartbeat *hb)
{
  struct cluster_disk *d;
  unsigned all = 0, of_node = 0;

  TAILQ_FOREACH (d, &c->disks, link) {
    all++;
    of_node += strcmp (d->rec.node, hb->node) == 0;
  }
  /* One node can't take the places of all others. */
  if (of_node >= NODE_DISKS_MAX) {
    cluster_step_refuse (
      c, in->op, CLUSTER_CONFLICT, "too-many",
      "node %s has %d disks already, which is the most for one "
      "node: forget some that are gone (weftctl disk forget)",
      hb->node, NODE_DISKS_MAX);
    return NULL;
  }
  if (all >= DISKS_MAX) {
    cluster_step_refuse (
      c, in->op, CLUSTER_CONFLICT, "too-many",
      "there are %d disks already, which is the most: forget "
      "some that are gone (weftctl disk forget)",
      DISKS_MAX);
    return NULL;
  }
  d = alloc_zeroed (sizeof *d);
  memcpy (d->rec.uuid, hb->uuid, 16);
  memcpy (d->rec.key, in->random, KEY_BYTES);
  cluster_disk_insert (c, d);
  cluster_step_log (c, CLUSTER_INFO, "disk", hb->path,
                    "Disk %.200s of node %s has registered.", hb->path,
                    hb->node);
  return d;
}

static void
take_load (struct cluster *c, struct cluster_disk *d,
           const struct cluster_load *l, bool restarted)
{
  const struct cluster_load *o = &d->load;
  struct cluster_load_rates *r = &d->rates;
  uint64_t ms = c->now_ms - d->load_ms;

  if (restarted || d->load_ms == 0) {
    d->load_ms = c->now_ms;
    d->load = *l;
    memset (r, 0, sizeof *r);
    return;
  }
  d->load.cpu = l->cpu;
  d->load.loadavg = l->loadavg;
  d->load.mem_free = l->mem_free;
  if (ms < 200)
    return; /* after a change, heartbeats come too soon to give a rate */
  r->disk_read_bytes = cluster_object_rate (l->disk_read_bytes,
                                            o->disk_read_bytes, ms);
  r->disk_write_bytes = cluster_object_rate (l->disk_write_bytes,
                                             o->disk_write_bytes, ms);
  r->disk_reads = cluster_object_rate (l->disk_reads, o->disk_reads, ms);
  r->disk_writes = cluster_object_rate (l->disk_writes, o->disk_writes, ms);
  r->flushes = cluster_object_rate (l->flushes, o->flushes, ms);
  r->net_rx_bytes = cluster_object_rate (l->net_rx_bytes, o->net_rx_bytes, ms);
  r->net_tx_bytes = cluster_object_rate (l->net_tx_bytes, o->net_tx_bytes, ms);
  d->load_ms = c->now_ms;
  d->load = *l;
}

/* The stored fields of a disk; true: they have changed. */
static bool
take_record (struct cluster *c, struct cluster_disk *d,
             const struct cluster_disk_heartbeat *hb)
{
  struct cluster_disk_record *r = &d->rec;
  bool differs = r->size != hb->size || r->data_bytes != hb->data_bytes ||
                 r->moves_to[0] != '\0' || r->shut_out;
  bool meant = strcmp (r->moves_to, hb->node) == 0;

  /* Only its UUID says that it is the disk: administrators get a log line about
   * the move, and a warning unless they have ordered it.
   */
  if (d->array && r->node[0] && strcmp (r->node, hb->node) != 0)
    cluster_step_log (
      c, meant ? CLUSTER_INFO : CLUSTER_WARNING, "disk", hb->path,
      "Disk %.200s, member %u of array %s, has moved from node %s "
      "to node %s (%.200s)%s.",
      hb->path, d->position, d->array->rec.name, r->node, hb->node, hb->uri,
      meant ? ""
            : ": if nobody moved it there, that node is not to "
              "be trusted (weftctl node revoke)");
  r->moves_to[0] = '\0'; /* the disk is there, or back where it was */
  r->shut_out = false;
  differs |= cluster_object_text_copy (r->node, sizeof r->node, hb->node);
  differs |= cluster_object_text_copy (r->uri, sizeof r->uri, hb->uri);
  differs |= cluster_object_text_copy (r->path, sizeof r->path, hb->path);
  r->size = hb->size;
  r->data_bytes = hb->data_bytes;
  if (!cluster_uuid_is_zero (r->release) &&
      !cluster_uuid_equal (r->release, hb->array)) {
    memset (r->release, 0, sizeof r->release);
    r->sequence = 0;
    d->told.reply = false;
    if (d->array == NULL)
      cluster_step_log (c, CLUSTER_INFO, "disk", r->path,
                        "Disk %.200s of node %s is free again.", r->path,
                        r->node);
    differs = true;
  }
  return differs;
}

/* The state of its superblock, for a disk that is in its place.  True: it must
 * be stored now.
 */
static bool
take_sequence (struct cluster *c, struct cluster_disk *d,
               const struct cluster_disk_heartbeat *hb, bool took, bool stored)
{
  d->sequence = hb->sequence;
  if (!took)
    return false;
  if (hb->sequence > d->rec.sequence)
    d->rec.sequence = hb->sequence; /* it counts before it is stored */
  if (d->rec.sequence == d->stored_sequence ||
      (!stored && d->stored_live_ms &&
       c->live_ms - d->stored_live_ms < SEQUENCE_MS))
    return false;
  d->stored_sequence = d->rec.sequence;
  d->stored_live_ms = c->live_ms;
  return true;
}

/* For a member's disk: is it the same one?  A blank disk begins again, and no
 * other disk that claims to be a member is the same.
 */
static void
take_self (struct cluster *c, struct cluster_disk *d,
           const struct cluster_disk_heartbeat *hb)
{
  struct cluster_array *a = d->array;
  struct cluster_member *m = &a->rec.member[d->position];
  uint64_t confirmed = a->rec.ready && m->state == MEMBER_OUT
                         ? CONFIRMED_BY_NONE
                         : 0;

  d->old_copy = false;
  if (cluster_stale_copy (d, hb)) {
    d->old_copy = true;
    cluster_stale_reset (c, a, d->position);
  }
  else if (cluster_uuid_is_zero (hb->array) &&
           (d->rec.sequence || m->confirmed != confirmed || m->round)) {
    d->rec.sequence = d->stored_sequence = 0;
    m->confirmed = confirmed;
    m->round = 0;
    cluster_step_put_disk (c, d);
    cluster_step_put_array (c, a);
  }
}

/* Its report about its rebuild. */
static void
take_join (struct cluster_disk *d, const struct cluster *c,
           const struct cluster_join *now)
{
  const struct cluster_join *before = &d->join;

  if (d->array && (now->todo_bytes != before->todo_bytes ||
                   now->total_bytes != before->total_bytes ||
                   now->copied_bytes != before->copied_bytes ||
                   now->unreadable_bytes != before->unreadable_bytes ||
                   strcmp (now->waits, before->waits) != 0))
    d->array->progressed = true;
  d->join = *now;
  cluster_eta_note (&d->eta, c->live_ms, now);
}

/* For how long its disk has been stuck.  True: something may follow from that. */
static bool
take_stuck (struct cluster *c, struct cluster_disk *d,
            const struct cluster_disk_heartbeat *hb)
{
  bool hung = cluster_copies_disk_hangs (d),
       doubtful = cluster_copies_disk_doubtful (d);

  d->disk_stuck_ms = hb->disk_stuck_ms;
  if (cluster_copies_disk_hangs (d) != hung) {
    cluster_step_log (c, hung ? CLUSTER_INFO : CLUSTER_ERROR, "disk", hb->path,
                      "Disk %.200s of node %s %s.", hb->path, hb->node,
                      hung ? "answers again"
                           : "hangs: it has answered nothing for some seconds, "
                             "although its process lives");
    cluster_step_changed_disk (c, d);
  }
  return cluster_copies_disk_doubtful (d) != doubtful ||
         cluster_copies_disk_hangs (d) != hung;
}

static void
take (struct cluster *c, struct cluster_disk *d,
      const struct cluster_disk_heartbeat *hb)
{
  bool restarted = d->instance[0] && strcmp (d->instance, hb->instance) != 0;
  bool stored = take_record (c, d, hb);
  bool told = stored || restarted || !cluster_disk_heard (d) || !d->alive ||
              (d->state != hb->state &&
               (cluster_disk_failed (d) ||
                cluster_disk_state_failed (hb->state)));
  bool took = d->array && cluster_uuid_equal (hb->array, d->array->rec.uuid) &&
              hb->position == d->position;
  bool was_old = d->old_copy, low = cluster_room_low (d);
  bool moved;

  if (d->array)
    take_self (c, d, hb);
  stored |= take_sequence (c, d, hb, took, stored);
  moved = told || d->state != hb->state || took != d->took_place ||
          d->min_epoch != hb->min_epoch ||
          d->states_epoch != hb->states_epoch || d->old_copy != was_old ||
          d->join.phase != hb->join.phase || d->join.epoch != hb->join.epoch;
  if (cluster_disk_state_failed (hb->state) && hb->state > d->state)
    cluster_step_log (c, CLUSTER_ERROR, "disk", hb->path,
                      "Disk %.200s of node %s has failed: %s.", hb->path,
                      hb->node,
                      hb->reason[0] ? hb->reason : "it does not say why");
  else if (restarted ||
           (cluster_disk_heard (d) && !d->alive && d->state != DISK_STARTING))
    cluster_step_log (c, CLUSTER_INFO, "disk", hb->path,
                      "Disk %.200s of node %s %s.", hb->path, hb->node,
                      restarted ? "was started again" : "is heard of again");
  if (restarted || !cluster_disk_heard (d)) {
    d->told.reply = false;
    d->raise_max = d->array ? cluster_array_wanted_epoch (d->array) + 1 : 0;
  }
  if (restarted)
    d->served = false;
  told |= cluster_object_text_copy (d->reason, sizeof d->reason, hb->reason);
  cluster_object_text_copy (d->instance, sizeof d->instance, hb->instance);
  cluster_object_text_copy (d->cache, sizeof d->cache,
                            cluster_disk_state_failed (hb->state) ? ""
                                                                  : hb->cache);
  if (cluster_disk_state_failed (hb->state))
    stored |= cluster_object_text_copy (d->rec.cache, sizeof d->rec.cache, "");
  d->presence = DISK_HEARD;
  d->spoke = true;
  d->state = hb->state;
  d->blank = cluster_uuid_is_zero (hb->array);
  d->took_place = took;
  if (hb->state != DISK_STARTING) {
    d->alive = true;
    d->last_live_ms = d->spoke_live_ms = c->live_ms;
    d->spoke_step = c->step->number;
  }
  d->rival.since_live_ms = 0;
  d->min_epoch = hb->min_epoch;
  d->round = hb->round;
  if (d->array && d->over != hb->over)
    cluster_array_due (c, d->array,
                       /* an ended session's ranges can be recovered */
                       DUE_LEASES);
  d->over = hb->over;
  d->states_epoch = hb->states_epoch;
  d->dirty_extents = hb->dirty_extents;
  moved |= take_stuck (c, d, hb);
  take_join (d, c, &hb->join);
  if (took)
    cluster_rounds_weigh (c, d->array);
  if (!cluster_process_known (c, d))
    cluster_process_meet (c, d);
  if (hb->has_load)
    take_load (c, d, &hb->load, restarted);
  d->room = hb->room;
  told |= low != cluster_room_low (d);
  if (stored)
    cluster_step_put_disk (c, d);
  if (told)
    cluster_step_changed_disk (c, d);
  if (moved && d->array)
    cluster_step_member_moved (c, d->array);
}

/* All of a heartbeat: the heartbeat itself; or, where it says that the rest is as in
 * an earlier report, both together, in `all`.  NULL: refused, for weftd has not
 * heard that report, or another one since.
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
    cluster_step_refuse (
      c, op, CLUSTER_CONFLICT, "say-all",
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
  uint64_t wait_ms = hb->wait_ms < HOLD_MS_MAX ? hb->wait_ms : HOLD_MS_MAX;
  bool lacked;

  hb = whole (c, in->op, d, hb, &all);
  if (hb == NULL || !cluster_admit (c, in->op, d, hb))
    return;
  if (d == NULL) {
    if ((d = disk_register (c, in, hb)) == NULL)
      return;
    if (!cluster_uuid_is_zero (hb->array))
      cluster_import_return (c, d, hb);
  }
  /* It has given an older poll up, and does not hear the answer. */
  if (cluster_tell_wake_disk (c, d))
    d->told.reply = false;
  cluster_admit_others (c, d);
  lacked = cluster_room_lacks (d);
  d->proven = hb->proven;
  take (c, d, hb);
  if (hb->same)
    cluster_rekey_heard (c, d);
  else {
    bool news = d->said ? d->said->bad.sequence != hb->bad.sequence ||
                            d->said->bad.count != hb->bad.count
                        : hb->bad.count > 0;

    if (d->said == NULL)
      d->said = alloc_zeroed (sizeof *d->said);
    *d->said = *hb; /* the next heartbeat need not say it again */
    if (news && d->array)
      cluster_step_changed_array (c, d->array);
  }
  if (d->array && lacked != cluster_room_lacks (d)) {
    cluster_step_changed_array (c, d->array);
    cluster_step_member_moved (c, d->array);
  }

  d->poll = cluster_wait (c, WAIT_DISK, in->op, wait_ms);
  d->poll->disk = d;
  cluster_pump_settle (c);
  cluster_tell_disk (c, d, wait_ms == 0);
}

void
cluster_disk_heartbeat (struct cluster *c, const struct cluster_input *in,
                        const struct cluster_disk_heartbeat *hb)
{
  cluster_step_begin (c, in);
  heartbeat (c, in, hb);
  cluster_pump_end (c);
}

/* The known process has been silent: the one that waits takes its place. */
void
cluster_disk_take_over (struct cluster *c, struct waiting *w)
{
  struct cluster_disk_heartbeat hb = *w->heartbeat;
  struct cluster_input in = { .op = w->op,
                              .now_ms = c->now_ms,
                              .wall_ms = c->wall_ms };
  struct cluster_disk *d = w->disk;
  char words[320];
  bool too_soon;

  /* The disk itself may be back in a moment, and to take an old copy in its place
   * means a rebuild in full.  (In the place of a last copy no old copy is taken in.)
   */
  too_soon = cluster_stale_copy (d, &hb) &&
             cluster_disk_silent_ms (c, d) < MEMBER_TTL_MS &&
             (d->array->rec.member[d->position].state != MEMBER_IN_SYNC ||
              cluster_copies_can_leave_out (d->array, d->position));
  if (too_soon)
    cluster_step_defer (
      c, w->op, CLUSTER_UNAVAILABLE, "old-copy", HEARTBEAT_MS,
      "%s was served by another process a moment ago, and this is an old copy "
      "of the disk: ask again to have it rebuilt",
      cluster_words_disk (d, words, sizeof words));
  cluster_wait_end (c, w);
  if (too_soon)
    return;
  if (d->rival.since_live_ms) {
    d->rival.since_live_ms = 0;
    cluster_process_replaced (d);
  }
  heartbeat (c, &in, &hb);
}

void
cluster_disk_tick (struct cluster *c, struct cluster_disk *d)
{
  char words[320];

  cluster_rekey_free (c, d);
  if (cluster_step_unsaid (c, d->answer)) {
    if (d->state != DISK_STARTING)
      d->last_live_ms = c->live_ms;
    if (d->rival.since_live_ms)
      d->rival.since_live_ms = c->live_ms;
  }
  /* Where the disk has a poll, it is weftd that is silent. */
  if (!d->alive || cluster_disk_silent_ms (c, d) < MEMBER_TTL_MS || d->poll)
    return;
  d->alive = false;
  cluster_step_changed_disk (c, d);
  if (d->array && !d->array->rec.restoring && !cluster_disk_is_name (d)) {
    cluster_step_log (
      c,
      cluster_node_in_maintenance (c, d->rec.node) ? CLUSTER_INFO
                                                   : CLUSTER_WARNING,
      "disk", d->rec.path, "Member %u of array %s (%s) is silent.", d->position,
      d->array->rec.name, cluster_words_disk (d, words, sizeof words));
    cluster_step_member_moved (c, d->array);
  }
}
