/* cluster-commit.c: COMMITs a change of an array's epoch when all confirmations
 * are there, and goes on where a change waits for too long.  cluster-change.c
 * has the kinds of changes, and what each waits for.
 *
 * A member that is started again raises its min_epoch by itself.  If its
 * min_epoch is then above the number that the member must confirm, that number
 * is spent, and the change goes on under a higher one.
 */

#include <config.h>

#include <inttypes.h>
#include <string.h>

#include "cluster-pump.h"

/* A member gets a new state.  Its record still has the former one. */
static void
change_member (struct cluster *c, struct cluster_array *a, unsigned m,
               enum member_state state)
{
  struct cluster_member *member = &a->rec.member[m];
  char words[320];

  cluster_words_disk (a->disk[m], words, sizeof words);
  if (state == MEMBER_OUT) {
    cluster_rebuild_out (c, a, m);
    cluster_step_log (
      c,
      member->planned || cluster_node_in_maintenance (c, a->disk[m]->rec.node)
        ? CLUSTER_INFO
        : CLUSTER_ERROR,
      "array", a->rec.name, "Member %u of array %s (%s) is out%s%s.", m,
      a->rec.name, words, member->reason[0] ? ": " : "", member->reason);
  }
  else if (state == MEMBER_JOINING) {
    cluster_rebuild_begin (c, a, m);
    cluster_step_log (c, CLUSTER_INFO, "array", a->rec.name,
                      "Member %u of array %s (%s) is being rebuilt.", m,
                      a->rec.name, words);
  }
  else
    cluster_step_log (
      c, CLUSTER_INFO, "array", a->rec.name,
      "Member %u of array %s (%s) is in sync again: %" PRIu64
      " MiB copied in %" PRIu64 " s (of %" PRIu64 " MiB).",
      m, a->rec.name, words, a->disk[m]->join.copied_bytes >> 20,
      (c->live_ms - a->since_live_ms[m]) / 1000, a->rec.member_bytes >> 20);
  if (state == MEMBER_IN_SYNC)
    cluster_join_end (c, a, m);
  if (member->state == MEMBER_JOINING) {
    cluster_shut_add (c, a, cluster_shut_source (a, m), a->disk[m]->rec.node,
                      false);
    cluster_job_rebuilt (c, a, m, state);
  }
  member->partly = state == MEMBER_OUT && member->state == MEMBER_JOINING;
  member->round = state == MEMBER_OUT && member->state == MEMBER_IN_SYNC
                    ? cluster_rounds_of_lost (c, a, m)
                    : 0;
  member->state = state;
  cluster_array_member_since (c, a, m);
  if (state == MEMBER_IN_SYNC) {
    member->paused = false; /* there is nothing more to pause */
    cluster_drain_arrived (c, member);
  }
  cluster_step_changed_disk (c, a->disk[m]);
}

/* Does a member go out from which this one, joining now or when it went out, may
 * have copied?  A write that no other copy got may go with that member, so what
 * this one has copied is not to be trusted.
 */
static bool
source_goes (const struct cluster_array *a, unsigned member)
{
  const struct layout_group group = layout_group (&a->layout, member);

  if (a->layout.copies <= 2 || (a->rec.member[member].state != MEMBER_JOINING &&
                                !a->rec.member[member].partly))
    return false;
  for (unsigned m = group.first; m < group.end; m++)
    if (a->rec.member[m].state == MEMBER_IN_SYNC &&
        a->rec.change.states[m] == MEMBER_OUT)
      return true;
  return false;
}

/* It stays, and sessions go on with it, though another process serves it, or it has
 * failed.
 */
static bool
is_given_back (const struct cluster_array *a, unsigned m)
{
  const struct cluster_change *change = &a->rec.change;
  const struct cluster_disk *d = a->disk[m];

  return change->confirm[m] && cluster_array_writer (a) &&
         a->rec.member[m].state == MEMBER_IN_SYNC &&
         change->states[m] == MEMBER_IN_SYNC &&
         (!cluster_process_met (d) || cluster_disk_failed (d));
}

/* It has joined, and may have copied from a member that lacks what another one has.  (With
 * two copies there is no other one.)
 */
static bool
has_copied_older (const struct cluster_array *a, unsigned member)
{
  const struct layout_group group = layout_group (&a->layout, member);

  if (a->layout.copies <= 2 || a->rec.member[member].state == MEMBER_IN_SYNC ||
      a->rec.change.states[member] != MEMBER_IN_SYNC)
    return false;
  for (unsigned m = group.first; m < group.end; m++)
    if (a->rec.member[m].state == MEMBER_IN_SYNC && a->rec.member[m].differs)
      return true;
  return false;
}

/* The member goes out: from then on no session tries to reach it. */
static void
note_reached (struct cluster_array *a, unsigned member)
{
  struct cluster_session *s;

  TAILQ_FOREACH (s, &a->sessions, array_link)
    s->path[member].reached = cluster_process_reached (a, s, member);
}

/* The member is out or given back, so no session waits for it.  That a session did not reach
 * it is known to people until it is given back.
 */
static void
forget_loss (struct cluster_array *a, unsigned member)
{
  bool out = a->rec.member[member].state == MEMBER_OUT;
  struct cluster_session *s;

  TAILQ_FOREACH (s, &a->sessions, array_link) {
    s->path[member].reported = false;
    if (!out) {
      s->path[member].unreached_live_ms = 0;
      s->path[member].reached = false;
    }
    if (s->path[member].lost) {
      s->path[member].lost = false;
      s->stopped[0] = '\0'; /* it is set again if another member is lost */
    }
  }
}

static void
commit (struct cluster *c, struct cluster_array *a)
{
  struct cluster_change *change = &a->rec.change;
  bool prepared = change->sessions;

  cluster_lapse_commit (c, a, prepared);
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
        (change->confirm[m] && !cluster_process_met (a->disk[m]))) {
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
        (change->confirm[m] && !cluster_process_kept (a->disk[m])))
      member->lapse = change->epoch;
    if (change->states[m] == MEMBER_OUT)
      member->differs = false;
    else
      member->differs |= is_given_back (a, m) || has_copied_older (a, m);
    if (change->confirm[m] || change->states[m] == MEMBER_OUT) {
      member->anew = false;
      cluster_process_meet (c, a->disk[m]);
    }
    if ((member->state == MEMBER_IN_SYNC) !=
        (change->states[m] == MEMBER_IN_SYNC))
      a->moved = change->epoch;
    if (member->state != MEMBER_OUT && change->states[m] == MEMBER_OUT)
      note_reached (a, m);
    if (member->state != change->states[m])
      change_member (c, a, m, (enum member_state) change->states[m]);
    if (member->state != MEMBER_OUT)
      member->reason[0] = '\0';
    if (!change->confirm[m] && member->state != MEMBER_OUT)
      continue;
    forget_loss (a, m);
  }
  memset (change, 0, sizeof *change);
  cluster_rounds_weigh (c, a);
  cluster_key_minted (c, a);
  cluster_step_put_array (c, a);
  cluster_step_changed_array (c, a);
  cluster_tell_committed (c, a, prepared);
}

void
cluster_commit_advance (struct cluster *c, struct cluster_array *a)
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
  if (!cluster_copies_kept (a, old.states)) {
    cluster_change_stay (c, a, CHANGE_INSTEAD, a->rec.change.confirm);
    return;
  }
  for (unsigned m = 0; m < a->layout.members; m++)
    spent |= old.confirm[m] && cluster_disk_heard (a->disk[m]) &&
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
  if (cluster_stale_judge (c, a)) {
    cluster_array_due (c, a, DUE_CHANGE);
    TAILQ_FOREACH (w, &c->waitings, link)
      if (w->kind == WAIT_ATTACH && w->array == a)
        w->deadline_ms = c->now_ms;
  }
  else
    commit (c, a);
}

/* ---- What time brings. ---- */

/* A change of an attach or a detach that has ended waits for members to
 * confirm, although it grants nothing any more.  When only members are missing
 * that are gone, it is committed without them.  They are fenced when they are
 * back, and no member copies from them before.  (Joining members:
 * cluster_rebuild_leave_out.) If a member was about to go out by the change,
 * another change replaces it by which none does: all writes have reached that
 * member, and the members of the change may be gone for good.
 */
static bool
give_up (struct cluster *c, struct cluster_array *a)
{
  const struct cluster_change *change = &a->rec.change;
  const struct cluster_session *s;
  bool leaves = false;

  for (unsigned m = 0; m < a->layout.members; m++) {
    const struct cluster_disk *d = a->disk[m];
    bool gone = cluster_disk_silent_ms (c, d) >= MISSING_MS ||
                cluster_disk_failed (d) || cluster_copies_disk_hangs (d) ||
                d->old_copy || d->overdue ||
                (cluster_disk_heard (d) && !d->took_place);

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

/* The only writer was given this member back, and has lost it again: it could not connect, or
 * its oldest request has waited all the time.  A line that drops large packets lets
 * connections be made, and no data through.
 */
static bool
is_given_in_vain (const struct cluster_array *a, unsigned m)
{
  const struct cluster_session *writer = cluster_array_writer (a);
  const struct cluster_disk *d = a->disk[m];

  return writer->rec.part.length == 0 && writer->path[m].lost &&
         cluster_process_met (d) &&
         cluster_process_awaited (writer, m, d->fenced_live_ms);
}

/* Is the member given back to this writer, now or later?  The writer's next report puts a
 * member out that was given back in vain, if that can go out.
 */
static bool
is_to_come_back (const struct cluster *c, const struct cluster_array *a,
                 unsigned m, const struct cluster_session *writer)
{
  const char *why;

  return writer->path[m].lost && cluster_member_well (a, m, &why) &&
         !(is_given_in_vain (a, m) && cluster_change_can_put_out (c, a, m));
}

/* Is a member to be fenced and given back to this writer?  asked: a change for that
 * is under way; it is given up after ATTACH_MS, and begun again after a wait.
 */
static bool
give_back (struct cluster *c, const struct cluster_array *a, unsigned m,
           struct cluster_session *writer, bool asked)
{
  uint64_t *retry_live_ms = &writer->path[m].retry_live_ms;
  uint64_t *wait_ms = &writer->path[m].backoff_ms;

  if (!is_to_come_back (c, a, m, writer))
    return false;
  if (asked && c->live_ms >= a->prepared_live_ms + ATTACH_MS) {
    *retry_live_ms = c->live_ms + RECONNECT_MS_MAX;
    writer->path[m].unconfirmed = true;
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
  writer->path[m].unconfirmed = false;
  return true;
}

/* Is the member put off, and will it be given back to the writer within RECONNECT_MS_MAX,
 * with all its unflushed writes?
 */
static bool
is_put_off (const struct cluster *c, const struct cluster_array *a, unsigned m,
            const struct cluster_session *writer)
{
  const struct cluster_path *p = &writer->path[m];

  return !p->unconfirmed && c->live_ms < p->retry_live_ms &&
         cluster_process_kept (a->disk[m]) && is_to_come_back (c, a, m, writer);
}

/* A member that was started again is not given back, but goes out, if it can,
 * when all others that the writer has lost are back: then it catches up from
 * them, and none of its unflushed writes counts as lost.  If one of the others
 * stays away, it is given back with the rest.  But if one of them is put off, or was given
 * back in vain, a member that has kept its unflushed writes is given back first: then
 * the other one can go out, without which the writer could not prepare itself.  A member
 * that has kept nothing waits for the other one.
 */
static void
spare_reborn (const struct cluster *c, const struct cluster_array *a,
              bool confirm[])
{
  const struct cluster_session *s = NULL;
  bool is_lost[ARRAY_MEMBERS_MAX] = { false };
  bool in_vain[ARRAY_MEMBERS_MAX] = { false };
  bool put_off[ARRAY_MEMBERS_MAX] = { false };
  bool vain = false, first = false;
  unsigned lost = 0, back = 0, later = 0;

  while ((s = cluster_writer_next (a, s)))
    for (unsigned m = 0; m < a->layout.members; m++) {
      is_lost[m] |= s->path[m].lost;
      put_off[m] |= is_put_off (c, a, m, s);
    }
  for (unsigned m = 0; m < a->layout.members; m++) {
    lost += is_lost[m];
    back += confirm[m];
    later += put_off[m] && !confirm[m];
    in_vain[m] = confirm[m] && is_given_in_vain (a, m);
    vain |= in_vain[m];
  }
  if (back + later < lost)
    return;
  /* Of several lost members one is given back, at least: the writer waits for it.
   * Members that have kept nothing are spared first.
   */
  for (unsigned i = 0; i < 2 * a->layout.members; i++) {
    unsigned m = i % a->layout.members;
    bool kept = i >= a->layout.members;

    if (!confirm[m] || !cluster_process_reborn (c, a, m) ||
        cluster_process_kept (a->disk[m]) != kept ||
        !cluster_copies_can_leave_out (a, m))
      continue;
    if (kept && (vain || later > 0))
      first = true;
    else if (lost == 1 || back + later > 1) {
      confirm[m] = false;
      back--;
    }
  }
  for (unsigned m = 0; first && m < a->layout.members; m++)
    confirm[m] &= !in_vain[m];
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
  /* The writer's unflushed writes may be lost on the member that comes back, so
   * the joining members that copy from it begin again.
   */
  for (unsigned m = 0; m < a->layout.members; m++)
    group[layout_group_number (&a->layout, m)] |= confirm[m];
  for (unsigned m = 0; m < a->layout.members; m++)
    confirm[m] |= a->rec.member[m].state == MEMBER_JOINING &&
                  group[layout_group_number (&a->layout, m)];
  cluster_change_stay (c, a, CHANGE_BACK, confirm);
  return true;
}

/* A change that must be called off: a silent writer would have to prepare
 * itself, and readers wait for that, though no session needs the change now.
 * No member goes out by it, or only members that are well.
 */
static bool
holds_readers_up (const struct cluster_array *a)
{
  const struct cluster_session *s;
  bool silent = false, reader = false, same = true;

  if (!a->rec.change.sessions || cluster_array_writer_alive (a))
    return false;
  TAILQ_FOREACH (s, &a->sessions, array_link) {
    silent |= s->rec.writable && cluster_change_waits_for_session (a, s);
    reader |= !s->rec.writable && s->alive;
  }
  for (unsigned m = 0; m < a->layout.members; m++)
    same &= a->rec.change.states[m] == a->rec.member[m].state;
  return same || (silent && reader && !cluster_change_loses_member (a));
}

bool
cluster_commit_tick (struct cluster *c, struct cluster_array *a)
{
  const struct cluster_change *change = &a->rec.change;
  const struct waiting *w;
  bool written = cluster_array_writer_alive (a) != NULL;
  bool joins = false;

  if (c->read_only[0] || cluster_array_doubted (c, a, NULL, 0))
    return false;
  if (c->waiting[WAIT_ATTACH] > 0)
    TAILQ_FOREACH (w, &c->waitings, link)
      if (w->kind == WAIT_ATTACH && w->array == a && w->fences)
        return false; /* the attach decides, when it has waited for too long */
  for (unsigned m = 0; m < a->layout.members; m++)
    joins |= a->rec.member[m].state == MEMBER_JOINING;
  if (change->epoch && holds_readers_up (a)) {
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
