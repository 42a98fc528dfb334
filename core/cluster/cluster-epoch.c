/* cluster-epoch.c: COMMIT a change of an array's epoch when nothing is missing for
 * it any more, and go on where a change waits for too long.  cluster-change.c says
 * which changes there are, and what each waits for.
 *
 * A member that is started again raises its min_epoch by itself.  If min_epoch
 * thereby passes the number that the member is to confirm, that number is spent,
 * and the change goes on under a higher one.
 */

#include <config.h>

#include <inttypes.h>
#include <string.h>

#include "cluster-internal.h"

/* A member gets a new state.  What it was is still in its record. */
static void
change_member (struct cluster *c, struct cluster_array *a, unsigned m,
               enum member_state state)
{
  struct cluster_member *member = &a->rec.member[m];
  char words[320];

  cluster_disk_words (a->disk[m], words, sizeof words);
  if (state == MEMBER_OUT) {
    cluster_rebuild_out (c, a, m);
    cluster_log (
      c,
      member->planned || cluster_node_in_maintenance (c, a->disk[m]->rec.node)
        ? CLUSTER_INFO
        : CLUSTER_ERROR,
      "array", a->rec.name, "Member %u of array %s (%s) is out%s%s.", m,
      a->rec.name, words, member->reason[0] ? ": " : "", member->reason);
  }
  else if (state == MEMBER_JOINING) {
    cluster_rebuild_begin (c, a, m);
    cluster_log (c, CLUSTER_INFO, "array", a->rec.name,
                 "Member %u of array %s (%s) is being rebuilt.", m, a->rec.name,
                 words);
  }
  else
    cluster_log (c, CLUSTER_INFO, "array", a->rec.name,
                 "Member %u of array %s (%s) is in sync again: %" PRIu64
                 " MiB copied in %" PRIu64 " s (of %" PRIu64 " MiB).",
                 m, a->rec.name, words, a->disk[m]->join.copied_bytes >> 20,
                 (c->live_ms - a->since_live_ms[m]) / 1000,
                 a->rec.member_bytes >> 20);
  if (state == MEMBER_IN_SYNC)
    cluster_join_end (c, a, m);
  if (member->state == MEMBER_JOINING) {
    cluster_over_add (c, a, cluster_over_source (a, m), false);
    cluster_job_rebuilt (c, a, m, state);
  }
  member->partly = state == MEMBER_OUT && member->state == MEMBER_JOINING;
  member->round = state == MEMBER_OUT && member->state == MEMBER_IN_SYNC
                    ? cluster_rounds_of_lost (c, a, m)
                    : 0;
  member->state = state;
  cluster_member_since (c, a, m);
  if (state == MEMBER_IN_SYNC) {
    member->paused = false; /* there is nothing more to pause */
    cluster_drain_arrived (c, member);
  }
  cluster_changed_disk (c, a->disk[m]);
}

/* Does a member go out from which this one, joining now or when it went out, may
 * have copied?  A write that no other copy got may go with that member, so what
 * this one has copied is not to be trusted.
 */
static bool
source_goes (const struct cluster_array *a, unsigned member)
{
  unsigned first = member - member % a->layout.n;

  if (a->layout.copies <= 2 || (a->rec.member[member].state != MEMBER_JOINING &&
                                !a->rec.member[member].partly))
    return false;
  for (unsigned m = first; m < first + a->layout.n; m++)
    if (a->rec.member[m].state == MEMBER_IN_SYNC &&
        a->rec.change.states[m] == MEMBER_OUT)
      return true;
  return false;
}

static void
commit (struct cluster *c, struct cluster_array *a)
{
  struct cluster_change *change = &a->rec.change;
  struct cluster_session *s;
  bool prepared = change->sessions;

  cluster_kept_commit (c, a, prepared);
  a->rec.epoch = change->epoch;
  if (prepared)
    a->rec.unprepared = 0;
  for (unsigned m = 0; m < a->layout.members; m++) {
    if (change->states[m] != MEMBER_OUT)
      continue;
    if (source_goes (a, m))
      a->rec.member[m].reset = true;
    if (a->rec.member[m].state == MEMBER_IN_SYNC && !prepared)
      a->rec.unprepared = change->epoch;
  }
  for (unsigned m = 0; m < a->layout.members; m++) {
    struct cluster_member *member = &a->rec.member[m];

    if (change->states[m] == MEMBER_OUT ||
        (change->confirm[m] && !cluster_life_met (a->disk[m]))) {
      member->life = change->epoch;
      member->life_round = change->confirm[m] ? cluster_member_round (a, m) : 0;
    }
    if (change->confirm[m]) {
      if (!cluster_change_waits_for (a, m))
        member->confirmed = change->epoch;
      member->fence = change->epoch;
      a->disk[m]->fenced_live_ms = c->live_ms;
      a->known[m] = a->disk[m]->served;
    }
    if (change->states[m] == MEMBER_OUT ||
        (change->confirm[m] && !cluster_life_kept (a->disk[m])))
      member->lapse = change->epoch;
    if (change->confirm[m] || change->states[m] == MEMBER_OUT) {
      member->anew = false;
      cluster_life_meet (c, a->disk[m]);
    }
    if ((member->state == MEMBER_IN_SYNC) !=
        (change->states[m] == MEMBER_IN_SYNC))
      a->moved = change->epoch;
    if (member->state != change->states[m])
      change_member (c, a, m, (enum member_state) change->states[m]);
    if (member->state != MEMBER_OUT)
      member->reason[0] = '\0';
    if (!change->confirm[m] && member->state != MEMBER_OUT)
      continue;
    TAILQ_FOREACH (s, &a->sessions, array_link) {
      s->said_lost[m] = false;
      if (s->lost[m]) {
        s->lost[m] = false;
        s->stopped[0] = '\0'; /* it is set again if another member is lost */
      }
    }
  }
  memset (change, 0, sizeof *change);
  cluster_rounds_weigh (c, a);
  cluster_key_minted (c, a);
  cluster_put_array (c, a);
  cluster_changed_array (c, a);
  cluster_session_committed (c, a, prepared);
}

void
cluster_epoch_advance (struct cluster *c, struct cluster_array *a)
{
  struct cluster_change old = a->rec.change;
  struct cluster_session *s;
  struct waiting *w;
  bool spent = false;

  if (old.epoch == 0 || c->read_only[0])
    return;
  a->deferred = cluster_array_doubted (c, a, NULL, 0);
  if (a->deferred)
    return;
  /* A member that was to go out has the last copy of something by now: the disk with
   * the other copy has failed, or is an old copy of itself.
   */
  if (!cluster_array_keeps (a, old.states)) {
    cluster_change_stay (c, a, CHANGE_INSTEAD, a->rec.change.confirm);
    return;
  }
  for (unsigned m = 0; m < a->layout.members; m++)
    spent |= old.confirm[m] && a->disk[m]->heard &&
             a->disk[m]->min_epoch > old.epoch;
  if (spent)
    cluster_change_prepare (c, a, CHANGE_NUMBER, old.states, NULL);
  for (unsigned m = 0; m < a->layout.members; m++)
    if (cluster_change_waits_for (a, m))
      return;
  TAILQ_FOREACH (s, &a->sessions, array_link)
    if (cluster_change_waits_for_session (a, s))
      return;
  /* All members that confirm have spoken.  If one of them is an old copy after all,
   * an attach that waits goes on without it at once.  If another is one, it may be
   * that a member was to go out whose copy is the last one by that.
   */
  if (cluster_old_judge (c, a)) {
    cluster_due (c, a, DUE_CHANGE);
    TAILQ_FOREACH (w, &c->waitings, link)
      if (w->kind == WAIT_ATTACH && w->array == a)
        w->deadline_ms = c->now_ms;
  }
  else
    commit (c, a);
}

/* ---- What time brings. ---- */

/* A change that an attach or a detach has left behind waits for members to confirm,
 * although it grants nothing any more.  When only members are missing that are
 * gone, it is committed without them.  They are fenced when they are back, and
 * nobody copies from them before.  (Joining members: cluster_rebuild_leave_out.)
 * If a member was to go out by the change, another change replaces it by which none
 * does: nothing was written without that member, and those that were to stay may be
 * gone for good.
 */
static bool
give_up (struct cluster *c, struct cluster_array *a)
{
  const struct cluster_change *change = &a->rec.change;
  const struct cluster_session *s;
  bool leaves = false;

  for (unsigned m = 0; m < a->layout.members; m++) {
    const struct cluster_disk *d = a->disk[m];
    bool gone = cluster_disk_silent_ms (c, d) >= MISSING_MS || d->failed ||
                cluster_disk_hangs (d) || d->old_copy ||
                (d->heard && !d->took_place);

    if (cluster_change_waits_for (a, m) &&
        (a->rec.member[m].state != MEMBER_IN_SYNC || !gone))
      return false;
    leaves |= a->rec.member[m].state == MEMBER_IN_SYNC &&
              change->states[m] == MEMBER_OUT;
  }
  TAILQ_FOREACH (s, &a->sessions, array_link)
    if (cluster_change_waits_for_session (a, s))
      return false;
  if (leaves)
    cluster_change_stay (c, a, CHANGE_INSTEAD, a->rec.change.confirm);
  else
    commit (c, a);
  return true;
}

/* Is a member to be fenced and given back to this writer?  asked: a change for that
 * is under way; it is given up after ATTACH_MS, and begun again after a wait.
 */
static bool
give_back (struct cluster *c, const struct cluster_array *a, unsigned m,
           struct cluster_session *writer, bool asked)
{
  uint64_t *retry_live_ms = &writer->retry_live_ms[m];
  uint64_t *wait_ms = &writer->retry_ms[m];
  const char *why;

  if (!writer->lost[m] || !cluster_member_well (a, m, &why))
    return false;
  if (asked && c->live_ms >= a->prepared_live_ms + ATTACH_MS) {
    *retry_live_ms = c->live_ms + RECONNECT_MS_MAX;
    return false;
  }
  if (asked)
    return true;
  if (c->live_ms < *retry_live_ms)
    return false;
  if (*wait_ms == 0 || c->live_ms >= *retry_live_ms + RECONNECT_CALM_MS)
    *wait_ms = RECONNECT_MS_MIN;
  else
    *wait_ms = *wait_ms < RECONNECT_MS_MAX / 2 ? 2 * *wait_ms
                                               : RECONNECT_MS_MAX;
  *retry_live_ms = c->live_ms + *wait_ms;
  return true;
}

/* A member that was started again is not given back, but goes out, if it can, when
 * all others that the writer has lost are back: then it catches up from them, and
 * no write that it had not flushed counts as gone.  If one of the others stays
 * away, it is given back with the rest.
 */
static void
spare_reborn (const struct cluster *c, const struct cluster_array *a,
              bool confirm[])
{
  const struct cluster_session *s = NULL;
  bool is_lost[ARRAY_MEMBERS_MAX] = { false };
  unsigned lost = 0, back = 0;

  while ((s = cluster_writer_next (a, s)))
    for (unsigned m = 0; m < a->layout.members; m++)
      is_lost[m] |= s->lost[m];
  for (unsigned m = 0; m < a->layout.members; m++) {
    lost += is_lost[m];
    back += confirm[m];
  }
  if (back < lost)
    return;
  for (unsigned m = 0; m < a->layout.members; m++)
    /* Of several lost members one is given back, at least: the writer waits for it. */
    if (confirm[m] && (lost == 1 || back > 1) &&
        cluster_life_reborn (c, a, m) && cluster_array_can_leave_out (a, m)) {
      confirm[m] = false;
      back--;
    }
}

/* Fence members that a writer has lost, so that no earlier request to them still
 * runs, and give them to the writer again.  This replaces a change that is under
 * way: the writer may not be able to take part in that, and it will be begun again.
 * Where several write, the others lose the member by that, and get it back as well.
 */
static bool
reconnect (struct cluster *c, struct cluster_array *a)
{
  const struct cluster_change *change = &a->rec.change;
  struct cluster_session *writer = NULL;
  bool confirm[ARRAY_MEMBERS_MAX] = { false }, asked[ARRAY_MEMBERS_MAX];
  bool differs = false, group[ARRAY_MEMBERS_MAX] = { false };

  /* The writer takes part in this change, or it would have been called off. */
  if (change->sessions)
    return false;
  for (unsigned m = 0; m < a->layout.members; m++) {
    asked[m] = change->epoch && change->confirm[m] &&
               a->rec.member[m].state == MEMBER_IN_SYNC;
    while ((writer = cluster_writer_next (a, writer)))
      confirm[m] |= give_back (c, a, m, writer, asked[m]);
  }
  spare_reborn (c, a, confirm);
  for (unsigned m = 0; m < a->layout.members; m++) {
    confirm[m] |= asked[m] && cluster_rekey_confirms (c, a, m);
    differs = differs || confirm[m] != asked[m];
  }
  if (!differs)
    return false;
  /* What the writer had not flushed may be gone from the member that comes back, so
   * the joining members that copy from it begin anew.
   */
  for (unsigned m = 0; m < a->layout.members; m++)
    group[m / a->layout.n] |= confirm[m];
  for (unsigned m = 0; m < a->layout.members; m++)
    confirm[m] |= a->rec.member[m].state == MEMBER_JOINING &&
                  group[m / a->layout.n];
  cluster_change_stay (c, a, CHANGE_BACK, confirm);
  return true;
}

bool
cluster_epoch_tick (struct cluster *c, struct cluster_array *a)
{
  const struct cluster_change *change = &a->rec.change;
  const struct waiting *w;
  bool written = cluster_writer_alive (a) != NULL;
  bool for_readers = change->epoch && change->sessions, joins = false;

  if (c->read_only[0] || cluster_array_doubted (c, a, NULL, 0))
    return false;
  if (c->waiting[WAIT_ATTACH] > 0)
    TAILQ_FOREACH (w, &c->waitings, link)
      if (w->kind == WAIT_ATTACH && w->array == a && w->fences)
        return false; /* the attach decides, when it has waited for too long */
  for (unsigned m = 0; m < a->layout.members; m++) {
    joins |= a->rec.member[m].state == MEMBER_JOINING;
    for_readers &= change->states[m] == a->rec.member[m].state;
  }
  if (for_readers && !written) {
    cluster_change_stay (c, a, CHANGE_CALLED_OFF, change->confirm);
    return true;
  }
  if (cluster_array_writer (a) ? reconnect (c, a)
                               : change->epoch && give_up (c, a))
    return true;
  /* Tokens are of the array's epoch, and a member that was started again takes none
   * of before.  A writer that lives says that it has lost the member, and decides
   * what becomes of it; readers, and a joining member that reads from it, just need
   * new tokens.
   */
  if (change->epoch || written || !(joins || cluster_array_attached (a)) ||
      !cluster_key_too_low (c, a))
    return false;
  cluster_change_stay (c, a, CHANGE_TOKENS, NULL);
  return true;
}
