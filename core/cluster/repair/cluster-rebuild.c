/* cluster-rebuild.c: how members that are not in-sync come back, by themselves.
 * An administrator's orders: cluster-member.c.
 *
 *   out ──── its disk is well ───► joining ──── it says `synced` ────► in-sync
 *    ▲                                │
 *    └── failed, silent, misplaced ───┘
 *
 * Each arrow is a change of epoch (cluster-change.c); there is one at a time, and a
 * rule of the pump (cluster-pump.c) prepares it.
 * The copying is the member's own work: it gets an order (when to begin, from
 * whom, how fast) with the replies to its heartbeats, and says in them how far
 * it is.  It may begin when the writer sends it every write: so it gets each write
 * either by copying or from the writer.
 *
 * An old copy of the member's disk is first told to forget the array.  Then it is
 * as blank as a new disk, and a blank disk that takes a place in an array that has
 * data is rebuilt in full.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cluster-repair.h"

/* A member that goes out again so soon after it was taken back is flapping. */
#define FLAP_MS 60000
#define BACKOFF_MS_MIN 1000
#define BACKOFF_MS_MAX 60000
/* A session's report of its load is valid for this time. */
#define LOAD_MS 3000

#define DISK_HANGS "its disk answers nothing, although its process lives"

/* Why a member goes out that sends heartbeats and does not say what it is to say; NULL: it
 * need not.
 */
static const char *
overdue (const struct cluster_disk *d, char *words, size_t size)
{
  if (d->overdue == WORD_NONE)
    return NULL;
  snprintf (words, size, "it sends heartbeats, but has not %s",
            cluster_word_owed (d->overdue));
  return words;
}

/* Its disk is there, and is what it is to be. */
static bool
serves (const struct cluster_disk *d)
{
  return cluster_disk_heard (d) && d->alive && !cluster_disk_failed (d) &&
         !cluster_copies_disk_doubtful (d) && d->took_place && !d->old_copy;
}

/* As its process says. */
static const char *
failure (const struct cluster_disk *d)
{
  return d->reason[0] ? d->reason : "it has failed";
}

/* Why a joining member is waited for no longer; NULL: it is. */
static const char *
broken (const struct cluster *c, const struct cluster_array *a, unsigned member,
        char *words, size_t size)
{
  const struct cluster_disk *d = a->disk[member];

  if (cluster_change_waits_for (a, member) &&
      c->live_ms >= a->prepared_live_ms + ATTACH_MS)
    return "it does not confirm";
  /* The member refuses the epoch of its order, or the writer sends it nothing. */
  if (a->rec.member[member].state == MEMBER_JOINING && serves (d) &&
      (d->min_epoch > a->rec.member[member].fence ||
       cluster_process_unmet (d)) &&
      !(a->rec.change.epoch && a->rec.change.confirm[member]))
    return "it was started again";
  /* Sources refuse its requests, also when it has a certificate again: it joins
   * again, as another session.
   */
  if (a->rec.member[member].state == MEMBER_JOINING &&
      cluster_shut_has (a, cluster_shut_source (a, member)))
    return "its node was shut out";
  if (a->rec.member[member].state == MEMBER_JOINING &&
      a->rec.member[member].reset)
    return "it may have copied from an old copy of a disk";
  return cluster_disk_failed (d)         ? failure (d)
         : cluster_copies_disk_hangs (d) ? DISK_HANGS
         : !d->alive                     ? "it is silent"
         : d->old_copy                   ? "it is an old copy of the disk"
         : cluster_disk_heard (d) && !d->took_place ? "it has lost its place"
                                                    : overdue (d, words, size);
}

/* ---- Out. ---- */

/* It goes out, or does not confirm that it joins: if it was taken back a moment ago it waits
 * longer for the next time.
 */
static void
back_off (const struct cluster *c, struct cluster_disk *d)
{
  if (d->back.last_live_ms == 0 || c->live_ms - d->back.last_live_ms >= FLAP_MS)
    d->back.backoff_ms = d->back.flaps_live_ms = 0;
  else if (d->back.backoff_ms == 0) {
    d->back.backoff_ms = BACKOFF_MS_MIN;
    d->back.flaps_live_ms = c->live_ms;
  }
  else if (d->back.backoff_ms < BACKOFF_MS_MAX / 2)
    d->back.backoff_ms *= 2;
  else
    d->back.backoff_ms = BACKOFF_MS_MAX;
  d->back.due_live_ms = c->live_ms + d->back.backoff_ms;
}

void
cluster_rebuild_out (struct cluster *c, struct cluster_array *a,
                     unsigned member)
{
  struct cluster_disk *d = a->disk[member];

  back_off (c, d);
  /* A disk that was lost may be dead, though it was just heard. */
  d->spoke = false;
  if (d->took_place && d->rec.sequence != d->stored_sequence) {
    d->stored_sequence = d->rec.sequence;
    cluster_step_put_disk (c, d);
  }
}

/* A member that the array can't do without (now) was started again, and the writer
 * has not reported that: an idle writer does not notice that a member's host has
 * lost its power.  The member is given back to the writer as if it had.
 */
bool
cluster_rebuild_notice (struct cluster *c, struct cluster_array *a)
{
  struct cluster_session *writer = NULL;
  bool any = false;

  if (a->rec.change.epoch)
    return false;
  while ((writer = cluster_writer_next (a, writer)))
    for (unsigned m = 0; m < a->layout.members; m++)
      if (cluster_process_reborn (c, a, m) && !writer->path[m].lost &&
          !cluster_change_can_put_out (c, a, m)) {
        writer->path[m].lost = any = true;
        cluster_step_changed_array (c, a);
      }
  return any;
}

/* Is it silent for long, so that the part of an ended session can't be given to
 * others?  Writers of other parts may not notice that it is gone.
 */
static bool
keeps_part (const struct cluster *c, const struct cluster_array *a,
            unsigned member)
{
  const struct cluster_session *writer = cluster_array_writer (a);

  return writer && writer->rec.part.length > 0 &&
         cluster_disk_silent_ms (c, a->disk[member]) >= MISSING_MS &&
         cluster_shut_waits_for (a, member, 0);
}

/* Has it been far slower than its peers for as long as the array allows? */
static bool
too_slow (const struct cluster *c, const struct cluster_array *a, unsigned m,
          char *words, size_t size)
{
  uint64_t us, peers_us;

  /* Others may have read there what a session has left that has ended. */
  if (a->rec.slow_out_ms == 0 || a->rec.to_recover ||
      !cluster_slow_for (c, a, m, a->rec.slow_out_ms, &us, &peers_us))
    return false;
  snprintf (words, size,
            "it was far slower than its peers: a request took %" PRIu64 " ms",
            us / 1000);
  if (peers_us > 0)
    snprintf (words + strlen (words), size - strlen (words),
              ", and theirs %" PRIu64 " us", peers_us);
  return true;
}

/* Leave out joining members that can't go on, old copies, members that were shut
 * out, and in-sync members that have failed, whose disk hangs, that are too slow, or
 * that were started again (the writer may not notice that).
 */
bool
cluster_rebuild_leave_out (struct cluster *c, struct cluster_array *a)
{
  const struct cluster_change *change = &a->rec.change;
  uint8_t states[ARRAY_MEMBERS_MAX];
  bool any = false;

  cluster_change_states (a, states);
  cluster_slow_look (c, a);
  for (unsigned m = 0; m < a->layout.members; m++) {
    struct cluster_member *member = &a->rec.member[m];
    const char *why = NULL;
    char words[120], owed[120];

    if (member->state == MEMBER_IN_SYNC) {
      why = a->disk[m]->old_copy               ? "it is an old copy of the disk"
            : a->disk[m]->rec.shut_out         ? "its node was shut out"
            : cluster_disk_failed (a->disk[m]) ? failure (a->disk[m])
            : cluster_copies_disk_hangs (a->disk[m])  ? DISK_HANGS
            : cluster_process_reborn (c, a, m)        ? "it was started again"
            : too_slow (c, a, m, words, sizeof words) ? words
            : keeps_part (c, a, m)
              ? "it is silent, and has not confirmed that a session is over"
              : overdue (a->disk[m], owed, sizeof owed);
      /* This question comes last: it takes long to answer, and is rarely asked. */
      if (why &&
          (change->epoch || any || !cluster_change_can_put_out (c, a, m)))
        why = NULL;
      if (change->epoch == 0)
        member->slow = why == words;
    }
    else if (states[m] != MEMBER_OUT) {
      why = broken (c, a, m, words, sizeof words);
      if (why == NULL && states[m] == MEMBER_IN_SYNC &&
          !cluster_copies_synced (a, m))
        why = "its rebuild has begun again";
    }
    if (why == NULL)
      continue;
    cluster_copies_leave_out (a, m, states);
    snprintf (member->reason, sizeof member->reason, "%s", why);
    if (member->state == MEMBER_OUT)
      back_off (c, a->disk[m]);
    any = true;
  }
  if (any)
    cluster_change_put_out (c, a, states);
  return any;
}

/* ---- Old copies forget the array. ---- */

static bool
reset (struct cluster *c, struct cluster_array *a, unsigned m)
{
  struct cluster_member *member = &a->rec.member[m];
  struct cluster_disk *d = a->disk[m];

  if (!member->reset || !cluster_disk_heard (d))
    return false;
  if (d->blank) {
    member->reset = member->partly = false;
    member->round = 0;
    cluster_step_put_array (c, a);
  }
  else if (cluster_uuid_is_zero (d->rec.release)) {
    memcpy (d->rec.release, a->rec.uuid, 16);
    cluster_step_put_disk (c, d);
  }
  else
    return false;
  d->told.reply = false;
  return true;
}

/* ---- Joining, and in-sync again. ---- */

bool
cluster_rebuild_writers_well (const struct cluster *c,
                              const struct cluster_array *a,
                              const struct cluster_session **ill)
{
  const struct cluster_session *s = NULL;
  uint8_t states[ARRAY_MEMBERS_MAX];

  *ill = NULL;
  cluster_change_states (a, states);
  while ((s = cluster_writer_next (a, s)))
    if (!s->heard || !s->alive || cluster_change_stalls_by (a, s, states)) {
      *ill = s;
      return false;
    }
  if (cluster_array_writer (a))
    return true;
  for (unsigned m = 0; m < a->layout.members; m++)
    if (a->rec.member[m].state == MEMBER_IN_SYNC &&
        !cluster_copies_fenced (a, m))
      return false;
  return true;
}

/* One of several writers has ended: joining members begin again. */
bool
cluster_rebuild_anew (struct cluster *c, struct cluster_array *a)
{
  bool confirm[ARRAY_MEMBERS_MAX], any = false;

  for (unsigned m = 0; m < a->layout.members; m++)
    any |= confirm[m] = a->rec.member[m].anew;
  if (!any || a->rec.change.epoch)
    return false;
  cluster_change_stay (c, a, CHANGE_LEFT, confirm);
  return true;
}

bool
cluster_rebuild_finish (struct cluster *c, struct cluster_array *a)
{
  const struct cluster_session *ill;
  uint8_t states[ARRAY_MEMBERS_MAX];
  bool any = false;

  if (a->rec.change.epoch || !cluster_rebuild_writers_well (c, a, &ill))
    return false;
  cluster_change_states (a, states);
  for (unsigned m = 0; m < a->layout.members; m++)
    if (states[m] == MEMBER_JOINING && serves (a->disk[m]) &&
        cluster_copies_synced (a, m) && !a->rec.member[m].reset &&
        !a->rec.member[m].anew && cluster_join_sends (c, a, m) &&
        a->disk[m]->round >= cluster_join_round (c, a) &&
        !cluster_process_unmet (a->disk[m])) {
      states[m] = MEMBER_IN_SYNC;
      any = true;
    }
  if (any)
    cluster_change_prepare (c, a, CHANGE_IN_SYNC, states, NULL);
  return any;
}

bool
cluster_rebuild_take_back (struct cluster *c, struct cluster_array *a)
{
  uint8_t states[ARRAY_MEMBERS_MAX];
  bool confirm[ARRAY_MEMBERS_MAX] = { false }, any = false;

  if (a->rec.change.epoch)
    return false;
  cluster_change_states (a, states);
  for (unsigned m = 0; m < a->layout.members; m++) {
    const struct cluster_member *member = &a->rec.member[m];
    struct cluster_disk *d = a->disk[m];

    if (member->state != MEMBER_OUT || member->reset || !serves (d) ||
        !d->spoke)
      continue;
    /* The disk may turn out to be an old copy: when its process spoke first, not all
     * of the array's rounds may have been known.
     */
    if (!d->served && cluster_stale_behind (d, d->round)) {
      cluster_step_log (
        c, CLUSTER_WARNING, "array", a->rec.name,
        "Disk %.200s of node %s, served as member %u of array %s, is an old "
        "copy of the disk: it has seen round %" PRIu64 " of the array's "
        "writing, and round %" PRIu64 " was over when the member went out.",
        d->rec.path, d->rec.node, m, a->rec.name, d->round, member->round);
      cluster_stale_reset (c, a, m);
    }
    if (member->reset || member->held || member->slow || d->overdue ||
        c->live_ms < d->back.due_live_ms || cluster_room_lacks (d))
      continue;
    states[m] = MEMBER_JOINING;
    confirm[m] = any = true;
    d->back.last_live_ms = c->live_ms;
  }
  if (!any)
    return false;
  /* Where nobody writes, all others are fenced, too: the last writer may not know
   * that its session is over.
   */
  cluster_change_prepare (c, a, CHANGE_JOIN, states, confirm);
  return true;
}

/* ---- Spares. ---- */

/* A spare beside another member of the group is taken where there is no better one: while
 * the member is out, the loss of any host with the other copies loses data, and then only
 * that of this one does (docs/DESIGN.md 8.6).
 */
static struct cluster_disk *
spare_pick (const struct cluster *c, const struct cluster_array *a,
            unsigned member)
{
  struct cluster_disk *d, *best = NULL;

  TAILQ_FOREACH (d, &c->disks, link)
    if (cluster_uuid_equal (d->rec.spare_of, a->rec.uuid) &&
        cluster_place_fits (c, a, d) &&
        cluster_place_better (a, member, d, best))
      best = d;
  return best;
}

uint64_t
cluster_rebuild_gone_live_ms (const struct cluster *c,
                              const struct cluster_array *a, unsigned member)
{
  const struct cluster_member *m = &a->rec.member[member];
  const struct cluster_disk *d = a->disk[member];
  const struct cluster_node *n;
  uint64_t silent_ms = cluster_disk_silent_ms (c, d);
  uint64_t since = a->since_live_ms[member];
  bool broken = cluster_disk_failed (d) || cluster_copies_disk_hangs (d) ||
                d->overdue || m->slow;
  bool flaps = d->alive && !broken && d->back.flaps_live_ms;

  if (!a->rec.ready || m->state != MEMBER_OUT || m->held ||
      a->rec.spare_after_ms == 0 || (d->alive && !broken && !flaps))
    return 0;
  n = cluster_node_find (c, d->rec.node);
  if (n && n->rec.maintenance)
    return 0;
  if (flaps) /* it was away since then, but for moments */
    since = d->back.flaps_live_ms;
  if (n && n->maintenance_live_ms > since)
    since = n->maintenance_live_ms; /* maintenance begins the count again */
  if (!broken && !flaps && c->live_ms > since + silent_ms)
    since = c->live_ms - silent_ms;
  return since + a->rec.spare_after_ms;
}

uint64_t
cluster_member_spare_wall_ms (const struct cluster *c,
                              const struct cluster_array *a, unsigned member)
{
  uint64_t due_live_ms = cluster_rebuild_gone_live_ms (c, a, member);

  if (due_live_ms == 0 || spare_pick (c, a, member) == NULL)
    return 0;
  return c->wall_ms + (due_live_ms > c->live_ms ? due_live_ms - c->live_ms : 0);
}

/* See to members that are out, and stay so for now: a disk that is an old copy is
 * to forget the array; a spare may get the place.
 */
bool
cluster_rebuild_renew (struct cluster *c, struct cluster_array *a)
{
  struct cluster_disk *spare;
  uint64_t due_live_ms;
  char words[320];
  bool any = false;

  for (unsigned m = 0; m < a->layout.members; m++) {
    if (!cluster_copies_stays_out (a, m))
      continue;
    any |= reset (c, a, m);
    due_live_ms = cluster_rebuild_gone_live_ms (c, a, m);
    spare = spare_pick (c, a, m);
    if (due_live_ms == 0 || c->live_ms < due_live_ms || spare == NULL)
      continue;
    cluster_place_give (c, a, m, spare);
    cluster_step_log (c, CLUSTER_WARNING, "array", a->rec.name,
                      "Member %u of array %s has been out for long, and was "
                      "replaced by a spare: %s.",
                      m, a->rec.name,
                      cluster_words_disk (a->disk[m], words, sizeof words));
    any = true;
  }
  return any;
}

/* ---- How fast. ---- */

/* Requests a second of all sessions of the array, and their mean latency. */
static double
load_now (const struct cluster *c, const struct cluster_array *a, double *us)
{
  const struct cluster_session *s;
  double ops = 0;

  *us = 0;
  TAILQ_FOREACH (s, &a->sessions, array_link) {
    if (s->load.ms == 0 || c->now_ms - s->load.ms > LOAD_MS)
      continue;
    ops += s->load.rates.reads + s->load.rates.writes;
    *us += s->load.rates.reads * s->load.rates.read_us +
           s->load.rates.writes * s->load.rates.write_us;
  }
  if (ops > 0)
    *us /= ops;
  return ops;
}

/* Clients first, until the next second decides. */
void
cluster_rebuild_begin (struct cluster *c, struct cluster_array *a,
                       unsigned member)
{
  const struct cluster_member *m = &a->rec.member[member];
  double us;

  a->disk[member]->rate = load_now (c, a, &us) <= 0 ? 0
                          : m->floor                ? m->floor
                                                    : REBUILD_FLOOR_DEFAULT;
}

void
cluster_rebuild_pace (struct cluster *c, struct cluster_array *a)
{
  uint64_t floor[ARRAY_MEMBERS_MAX], floors = 0, ceilings = 0, actual = 0;
  uint64_t rate = 0;
  unsigned count = 0;
  bool bounded = true;
  double us, ops;

  if (a->pace.live_ms && c->live_ms - a->pace.live_ms < 1000)
    return;
  a->pace.live_ms = c->live_ms;
  ops = load_now (c, a, &us);
  for (unsigned m = 0; m < a->layout.members; m++) {
    const struct cluster_member *member = &a->rec.member[m];

    if (member->state != MEMBER_JOINING || member->paused)
      continue;
    count++;
    floor[m] = member->floor ? member->floor : REBUILD_FLOOR_DEFAULT;
    floors += floor[m];
    ceilings += member->ceiling;
    bounded = bounded && member->ceiling;
    actual += a->disk[m]->join.rate;
  }
  /* The members that join share what there is. */
  if (count > 0)
    rate = cluster_pace (&a->pace, ops, us, actual, floors,
                         bounded ? ceilings : 0) /
           count;
  for (unsigned m = 0; m < a->layout.members; m++) {
    const struct cluster_member *member = &a->rec.member[m];
    uint64_t *own = &a->disk[m]->rate;

    if (member->state != MEMBER_JOINING || member->paused)
      continue;
    *own = ops <= 0 ? 0 : rate < floor[m] ? floor[m] : rate;
  }
  if (a->progressed)
    cluster_step_changed_array (c, a);
  a->progressed = false;
}
