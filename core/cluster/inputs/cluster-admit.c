/* cluster-admit.c: accepts or refuses heartbeats of disks.
 *
 * A disk is refused
 *
 * - if it is of another cluster, or of an array that is not known;
 * - if its place is another disk's (a place that an import found empty goes to
 *   the first disk that says that it is this member);
 * - if another node serves it than before, unless an administrator has allowed
 *   it;
 * - if it is an old copy of a member's disk, unless the member is out.
 *
 * A disk that knows more than the database: cluster-doubt.c.
 *
 * A disk is served by one process.  When another process asks for its place
 * (the same disk started again, or a clone of it), it waits while the known
 * process is asked to speak.  If the known process speaks, the other is
 * refused.  If it is silent for TAKEOVER_MS, or for MEMBER_TTL_MS where the
 * other has an old copy, the other takes its place.
 */

#include <config.h>

#include <inttypes.h>
#include <string.h>

#include "cluster-inputs.h"

/* ---- Is this disk ours at all? ---- */

/* A blank disk may have registered before an import gave weftd another name. */
static bool
refuse_foreign (struct cluster *c, uint64_t op, const struct cluster_disk *d,
                const struct cluster_disk_heartbeat *hb)
{
  char theirs[CLUSTER_UUID_TEXT_BYTES], ours[CLUSTER_UUID_TEXT_BYTES];

  if (cluster_uuid_is_zero (hb->cluster) ||
      cluster_uuid_equal (hb->cluster, c->identity.uuid) ||
      (d && d->array == NULL && cluster_uuid_is_zero (hb->array)))
    return false;
  cluster_import_note (c, hb);
  cluster_words_uuid (hb->cluster, theirs);
  cluster_words_uuid (c->identity.uuid, ours);
  cluster_step_refuse (
    c, op, CLUSTER_CONFLICT, "foreign-cluster",
    "disk %.200s of node %s belongs to cluster %s, and this is weftd of "
    "cluster %s: give it the admin URL of its own weftd, or format it; if its "
    "weftd's database is lost, import its array",
    hb->path, hb->node, theirs, ours);
  return true;
}

/* Does the disk know more than the disks from which the array was imported? */
static bool
knows_more (const struct cluster_member *m,
            const struct cluster_disk_heartbeat *hb)
{
  return hb->states_epoch > m->imported ||
         (m->imported_round && hb->round > m->imported_round);
}

static bool
refuse_array (struct cluster *c, uint64_t op, struct cluster_disk *d,
              const struct cluster_disk_heartbeat *hb)
{
  char text[CLUSTER_UUID_TEXT_BYTES];
  struct cluster_array *a;
  const struct cluster_disk *there; /* the disk in the place that it names */
  const struct cluster_member *m;   /* if its place was imported; else NULL */
  bool agrees;

  if (cluster_uuid_is_zero (hb->array) ||
      (d && cluster_uuid_equal (d->rec.release, hb->array)))
    return false;
  a = cluster_array_by_uuid (c, hb->array);
  if (a == NULL) {
    /* By the backup it had no place; an array was made of it since. */
    if (d && d->array == NULL && c->identity.backup_wall_ms)
      cluster_disk_order_drop (c, d);
    cluster_import_note (c, hb);
    cluster_words_uuid (hb->array, text);
    cluster_step_refuse (
      c, op, CLUSTER_CONFLICT, "unknown-array",
      "disk %.200s of node %s belongs to array %s, which this weftd does not "
      "know: restore weftd's own database, or import the array; format the "
      "disk if its data is not needed",
      hb->path, hb->node, text);
    return true;
  }
  there = hb->position < a->layout.members ? a->disk[hb->position] : NULL;
  if (there && there == d)
    return false;
  m = there ? &a->rec.member[hb->position] : NULL;
  if (d || (m && m->imported == 0))
    m = NULL;
  agrees = cluster_import_agrees (c, a, hb);
  /* If an import did not find the member, the array goes on without it.  A disk
   * which says that it is the member, and which is not known as another, is
   * rebuilt in full.  But a disk that has seen more than was imported is left
   * as it is: it may have data that no other has.
   */
  if (m && agrees && knows_more (m, hb)) {
    cluster_import_note (c, hb);
    cluster_step_refuse (
      c, op, CLUSTER_CONFLICT, "newer",
      "disk %.200s of node %s is member %u of array %s, and knows its epoch "
      "%" PRIu64 " and round %" PRIu64
      "; the array was imported from disks with epoch %" PRIu64
      " and round %" PRIu64
      ": the disk may have data that no other has. Keep it. To get that data, "
      "import the array again with it, by a weftd with an empty state "
      "directory; if the data is not needed, format the disk",
      hb->path, hb->node, hb->position, a->rec.name, hb->states_epoch,
      hb->round, m->imported, m->imported_round ? m->imported_round - 1 : 0);
  }
  else if (m == NULL || !cluster_disk_is_name (there))
    cluster_step_refuse (
      c, op, CLUSTER_CONFLICT, "not-a-member",
      "disk %.200s of node %s says that it is member %u of array %s, but that "
      "is another disk: format it if its data is not needed",
      hb->path, hb->node, hb->position, a->rec.name);
  else if (!agrees)
    cluster_step_refuse (
      c, op, CLUSTER_CONFLICT, "disagree",
      "disk %.200s of node %s says that it is member %u of array %s, but its "
      "description of the array differs from the other members': format it if "
      "its data is not needed",
      hb->path, hb->node, hb->position, a->rec.name);
  else
    return false;
  return true;
}

/* An array that is not restored from a backup yet: its disks' reports are kept,
 * and they get no orders.  The same holds for disks that were its members by
 * the backup, whatever they report now.  Generations that any disk has seen
 * count as used.
 */
static bool
refuse_restoring (struct cluster *c, uint64_t op, struct cluster_disk *d,
                  const struct cluster_disk_heartbeat *hb)
{
  const struct cluster_array *a = cluster_array_by_uuid (c, hb->array);

  if (hb->generation > c->identity.generation && cluster_step_restoring (c)) {
    c->identity.generation = hb->generation + 1;
    cluster_step_put_identity (c);
  }
  if (d && d->array && d->array->rec.restoring && a != d->array)
    d->moved_live_ms = c->live_ms;
  if (a && a->rec.restoring) {
    if (hb->has_place)
      cluster_import_note (c, hb);
    return cluster_step_refuse_restoring (c, op, a);
  }
  return d && d->array && cluster_step_refuse_restoring (c, op, d->array);
}

/* A member that is refused still gets the list of sessions that are over. */
static bool
refuse_doubted (struct cluster *c, uint64_t op, struct cluster_disk *d,
                const struct cluster_disk_heartbeat *hb)
{
  struct cluster_problem *p = cluster_doubt_disk (c, op, d, hb);

  if (p && d) {
    d->over = hb->over;
    p->over_count = cluster_shut_told (d, p->over);
  }
  return p != NULL;
}

/* A node that is known by its certificate may be as bad as any: it is not to
 * take a disk of others' by its UUID alone.  Where no node is known so, anybody
 * may say to be any node.
 */
static bool
refuse_elsewhere (struct cluster *c, uint64_t op, struct cluster_disk *d,
                  const struct cluster_disk_heartbeat *hb)
{
  char words[320], uuid[CLUSTER_UUID_TEXT_BYTES];
  struct cluster_problem *p;
  bool placed = d->array || !cluster_uuid_is_zero (d->rec.spare_of);

  if (!hb->proven || d->rec.node[0] == '\0' ||
      strcmp (d->rec.node, hb->node) == 0 ||
      (!d->alive && (!placed || strcmp (d->rec.moves_to, hb->node) == 0)))
    return false;
  cluster_words_disk (d, words, sizeof words);
  cluster_words_uuid (d->rec.uuid, uuid);
  if (d->alive && !cluster_disk_heard (d)) {
    cluster_step_defer (c, op, CLUSTER_UNAVAILABLE, "starting", HEARTBEAT_MS,
                        "weftd was just started, and waits to hear whether %s "
                        "is still served there: ask again",
                        words);
    return true;
  }
  if (d->alive)
    cluster_step_refuse (c, op, CLUSTER_CONFLICT, "double-used",
                         "%s is served there: stop that process before node %s "
                         "serves the disk, or format this disk if it is a copy",
                         words, hb->node);
  else {
    p = cluster_step_refuse (
      c, op, CLUSTER_CONFLICT, "other-node",
      "%s has a place in an array, and may not be served by node %s yet: if it "
      "was moved there, run weftctl disk move %s %s",
      words, hb->node, uuid, hb->node);
    if (cluster_object_text_copy (d->reason, sizeof d->reason, p->detail))
      cluster_step_changed_disk (c, d);
  }
  if (cluster_object_text_copy (d->rival.refused, sizeof d->rival.refused,
                                hb->instance))
    cluster_step_log (
      c, CLUSTER_WARNING, "disk", d->rec.path,
      "Node %s asked to serve %s (%s) and was refused: if the disk was not "
      "moved there, do not trust that node (weftctl node revoke).",
      hb->node, words, uuid);
  return true;
}

/* ---- A member that was in its place and now is something less. ---- */

/* An old copy gets no orders: a disk notes them, and would report them the next
 * time.  The member goes out if it can; then it may be rebuilt on this disk.
 */
static bool
refuse_old (struct cluster *c, uint64_t op, struct cluster_disk *d,
            const struct cluster_disk_heartbeat *hb)
{
  bool blank = cluster_uuid_is_zero (hb->array);
  struct cluster_problem *p;

  if (!cluster_stale_copy (d, hb))
    return false;
  if (!d->old_copy) {
    d->old_copy = true;
    cluster_step_log (c, CLUSTER_WARNING, "array", d->array->rec.name,
                      "Disk %.200s of node %s, served as member %u of array "
                      "%s, is an old copy of the disk.",
                      hb->path, hb->node, d->position, d->array->rec.name);
    /* The record says how far the disk itself was. */
    cluster_step_put_disk (c, d);
    cluster_step_changed_disk (c, d);
    cluster_step_member_moved (c, d->array);
    cluster_pump_settle (c);
  }
  /* A spare may have got its place just now. */
  if (d->array == NULL || cluster_copies_stays_out (d->array, d->position))
    return false;
  if (d->array->rec.member[d->position].state == MEMBER_IN_SYNC &&
      !cluster_copies_can_leave_out (d->array, d->position))
    p = cluster_step_refuse (
      c, op, CLUSTER_CONFLICT, blank ? "blank" : "old-copy",
      "disk %.200s of node %s is member %u of array %s, but "
      "%s, and no other copy of its data is left: %s",
      hb->path, hb->node, d->position, d->array->rec.name,
      blank ? "says that it belongs to no array: it was "
              "formatted, or an old copy of it was put back"
            : "an old copy of it was put back",
      OLD_COPY_WAY);
  else
    p = cluster_step_defer (
      c, op, CLUSTER_UNAVAILABLE, "old-copy", HEARTBEAT_MS,
      "disk %.200s of node %s is an old copy of member %u of array %s: it is "
      "taken in, and rebuilt in full, when the array goes on without it",
      hb->path, hb->node, d->position, d->array->rec.name);
  if (cluster_object_text_copy (d->reason, sizeof d->reason, p->detail))
    cluster_step_changed_disk (c, d);
  return true;
}

static bool
refuse_truncated (struct cluster *c, uint64_t op, struct cluster_disk *d,
                  const struct cluster_disk_heartbeat *hb)
{
  const struct cluster_array *a = d ? d->array
                                    : cluster_array_by_uuid (c, hb->array);
  unsigned m = d ? d->position : hb->position;
  struct cluster_problem *p;

  if (a == NULL || !a->rec.ready || hb->data_bytes >= a->rec.member_bytes)
    return false;
  p = cluster_step_refuse (
    c, op, CLUSTER_CONFLICT, "truncated",
    "disk %.200s of node %s, member %u of array %s, has a "
    "data area of %" PRIu64 " bytes, and %" PRIu64
    " are in use: give it its size back, or replace it",
    hb->path, hb->node, m, a->rec.name, hb->data_bytes, a->rec.member_bytes);
  if (d && cluster_object_text_copy (d->reason, sizeof d->reason, p->detail))
    cluster_step_changed_disk (c, d);
  return true;
}

/* ---- Two processes for one disk. ---- */

void
cluster_admit_others (struct cluster *c, struct cluster_disk *d)
{
  char words[320];
  struct waiting *w, *next;

  if (d->rival.since_live_ms == 0)
    return;
  d->rival.since_live_ms = 0;
  TAILQ_FOREACH_SAFE (w, &c->waitings, link, next) {
    if (w->kind != WAIT_CONTENDER || w->disk != d)
      continue;
    cluster_step_refuse (c, w->op, CLUSTER_CONFLICT, "double-used",
                         "%s is already served by a live process at %.200s: "
                         "stop that one, or format this disk if it is a copy",
                         cluster_words_disk (d, words, sizeof words),
                         d->rec.uri);
    d->rival.refused_live_ms = c->live_ms;
    /* The other process may go on asking: it is warned of once. */
    if (cluster_object_text_copy (d->rival.refused, sizeof d->rival.refused,
                                  w->heartbeat->instance))
      cluster_step_log (
        c, CLUSTER_WARNING, "disk", d->rec.path,
        "A second process, for %.200s of node %s, asked to serve %s "
        "and was refused: is it a clone?",
        w->heartbeat->path, w->heartbeat->node,
        cluster_words_disk (d, words, sizeof words));
    cluster_wait_end (c, w);
  }
}

static bool
contend (struct cluster *c, uint64_t op, struct cluster_disk *d,
         const struct cluster_disk_heartbeat *hb)
{
  struct waiting *w;

  if (!cluster_disk_heard (d) || strcmp (d->instance, hb->instance) == 0 ||
      cluster_disk_silent_ms (c, d) >= MEMBER_TTL_MS)
    return false;
  if (d->rival.since_live_ms == 0)
    d->rival.since_live_ms = c->live_ms;
  w = cluster_wait (c, WAIT_CONTENDER, op, TAKEOVER_MS);
  w->disk = d;
  w->heartbeat = alloc_zeroed (sizeof *hb);
  *w->heartbeat = *hb;
  /* The answer to its poll makes the known process speak, if it lives. */
  cluster_tell_wake_disk (c, d);
  return true;
}

bool
cluster_admit (struct cluster *c, uint64_t op, struct cluster_disk *d,
               const struct cluster_disk_heartbeat *hb)
{
  /* Nonsense is kept for nobody, not even for an import.  Then, of a disk only its own
   * node speaks.
   */
  return !cluster_doubt_nonsense (c, op, hb) &&
         !refuse_foreign (c, op, d, hb) &&
         !(d && refuse_elsewhere (c, op, d, hb)) &&
         !refuse_restoring (c, op, d, hb) && !refuse_doubted (c, op, d, hb) &&
         !refuse_array (c, op, d, hb) &&
         !(d && (contend (c, op, d, hb) || refuse_old (c, op, d, hb))) &&
         !refuse_truncated (c, op, d, hb);
}
