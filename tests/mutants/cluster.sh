# shellcheck shell=sh
# cluster.sh: mutants of the cluster engine.  check says how they are written.

# An epoch's number, its change and its commit.
mutant number-used-twice test-cluster-attach cluster-change.c \
  'change->epoch = epoch + 1;' \
  'change->epoch = change->epoch ? change->epoch : epoch + 1;'
mutant number-below-a-member-s test-cluster-attach cluster-change.c \
  'if (a->disk[m]->min_epoch > epoch)' 'if (0)'
mutant commit-without-confirmation "sim-cluster test-cluster-attach" cluster-epoch.c \
  'if (cluster_change_waits_for (a, m))
      return;' ''
mutant commit-without-sessions "sim-cluster test-cluster-change" cluster-epoch.c \
  'if (cluster_change_waits_for (a, m))
      return;
  TAILQ_FOREACH (s, &c->sessions, link)
    if (cluster_change_waits_for_session (a, s))
      return;' \
  'if (cluster_change_waits_for (a, m))
      return;'
mutant silent-writer-is-passed-over test-cluster-change cluster-change.c \
  '(s->rec.writable || s->alive) && s->prepared' 's->alive && s->prepared'
mutant commit-said-before-durable test-cluster-attach cluster-epoch.c \
  '  cluster_key_minted (c, a);
  cluster_put_array (c, a);' '  cluster_key_minted (c, a);'
mutant prepared-said-before-durable test-cluster-attach cluster-change.c \
  '  cluster_put_array (c, a);
  cluster_changed_array (c, a);
  cluster_due' \
  '  cluster_due'
mutant grant-said-before-durable test-cluster-attach cluster-tell.c \
  '  cluster_put_session (c, s);' ''
mutant end-said-before-durable test-cluster-attach cluster-end.c \
  '  s->alive = false;
  cluster_put_session (c, s);' '  s->alive = false;'

# The pump.
mutant what-is-prepared-is-not-due test-cluster-attach cluster-change.c \
  'cluster_due (c, a, DUE_CHANGE);' ';'
mutant news-is-kept test-cluster-attach cluster-settle.c \
  'cluster_tell_array (c, a);' ';'
mutant rules-see-a-change-that-is-over test-cluster-drain cluster-settle.c \
  'if (a->due & DUE_CHANGE) {' 'if (a->due == DUE_CHANGE) {'

# Writers.
mutant attach-without-fence test-cluster-attach cluster-change.c \
  '[CHANGE_WRITER] = { MEMBERS_ALL,' '[CHANGE_WRITER] = { MEMBERS_NONE,'
mutant detach-without-fence test-cluster-attach cluster-change.c \
  '[CHANGE_END] = { MEMBERS_ALL,' '[CHANGE_END] = { MEMBERS_NONE,'
mutant two-writers test-cluster-attach cluster-attach.c \
  'if (s && s->alive) {' 'if (0) {'
mutant any-node-says-that-it-has-ended test-cluster-attach cluster-attach.c \
  'strcmp (attach->node, s->rec.node) == 0' '1'
mutant ended-holder-is-not-asked test-cluster-attach cluster-attach.c \
  's->poll == NULL && silent_ms >= CHALLENGE_MS)' '1)'
mutant takeover-leaves-the-old-session test-cluster-attach cluster-attach.c \
  '  cluster_session_end (c, old,
                       "node' '  if (0) cluster_session_end (c, old,
                       "node'

# Members that go out.
mutant last-copy-goes-out "sim-cluster test-cluster-lost" cluster-lost.c \
  'if (a->rec.member[member].state != MEMBER_IN_SYNC ||
      cluster_array_keeps (a, states))' 'if (1)'
mutant last-copy-goes-out-beside-an-old-one test-cluster-copies cluster-lost.c \
  'cluster_array_keeps (a, states))
    return false;' '!cluster_change_loses (a, states))
    return false;'
mutant last-copy-goes-out-beside-one-that-is-old-by-now test-cluster-copies cluster-epoch.c \
  'if (!cluster_array_keeps (a, old.states)) {' 'if (0) {'
mutant two-copies-go-out-beside-an-old-one test-cluster-copies cluster-lost.c \
  'cluster_array_keeps (a, states))
    return false;' 'cluster_array_can_leave_out (a, member))
    return false;'
mutant failed-member-is-a-copy test-cluster-copies cluster-copies.c \
  '(d->old_copy || d->failed)' 'd->old_copy'
mutant no-copy-of-one-thing-keeps-all-others test-cluster-copies cluster-copies.c \
  'layout_loss (&a->layout, after, NULL) ==
                   layout_loss (&a->layout, before, NULL)' \
  'layout_loss (&a->layout, after, NULL) == 0'
mutant attach-that-came-to-nothing-puts-a-member-out test-cluster-attach cluster-epoch.c \
  'if (leaves)' 'if (0)'
mutant attach-leaves-the-last-copy-out test-cluster-attach cluster-attach.c \
  'if (!starting && !cluster_change_loses (a, states))' 'if (!starting)'
mutant reader-puts-a-member-out test-cluster-attach cluster-lost.c \
  'if (refuse_reader (c, op, s, a, member) ||' 'if ('
mutant late-report-puts-a-new-life-out test-cluster-change cluster-lost.c \
  '(r->fence > s->epoch && r->fence > s->told_epoch)' 'false'
mutant lost-last-copy-is-back-without-fence test-cluster-lost cluster-epoch.c \
  'cluster_change_stay (c, a, CHANGE_BACK, confirm);' \
  'cluster_change_stay (c, a, CHANGE_BACK, NULL);'
mutant idle-writer-keeps-readers-out test-cluster-lost cluster-rebuild.c \
  'writer->lost[m] = any = true;' ';'
mutant stalled-writer-keeps-readers-out test-cluster-key cluster-rebuild.c \
  '||
         writer_stalls (c, a, (int) m))) {' ')) {'
mutant restarted-member-is-given-back-too-soon test-cluster-key cluster-epoch.c \
  'spare_reborn (c, a, writer, confirm);' ''
mutant nobody-is-given-back-for-another-s-sake test-cluster-key cluster-epoch.c \
  '(lost == 1 || back > 1) &&' ''

# Members that come back.
mutant spare-is-used-after-an-outage test-cluster-member cluster-rebuild.c \
  'if (!d->failed && c->wall_ms > since + silent_ms)' 'if (0)'
mutant joiner-without-fence test-cluster-attach cluster-rebuild.c \
  'confirm[m] = any = true;' 'any = true;'
mutant joiner-fences-nobody-else test-cluster-attach cluster-change.c \
  '[CHANGE_JOIN] = { MEMBERS_THESE_OR_ALL,' '[CHANGE_JOIN] = { MEMBERS_THESE,'
mutant joiner-copies-before-the-writer-sends "sim-cluster test-cluster-rebuild" cluster-join.c \
  'return writer == NULL || writer->epoch >= a->rec.member[member].fence;' \
  'return true;'
mutant joiner-copies-from-one-not-in-sync test-cluster-rebuild cluster-join.c \
  'order->source[m] = a->rec.member[m].state == MEMBER_IN_SYNC;' \
  'order->source[m] = true;'
mutant joiner-copies-from-one-not-fenced test-cluster-rebuild cluster-join.c \
  'return false; /* a writer whose session is over may still write to it */' ';'
mutant in-sync-without-prepare "sim-cluster test-cluster-attach" cluster-change.c \
  '[CHANGE_IN_SYNC] = { MEMBERS_NONE, SESSIONS_ALL }' \
  '[CHANGE_IN_SYNC] = { MEMBERS_NONE, SESSIONS_NONE }'
mutant in-sync-by-an-old-report test-cluster-rebuild cluster-copies.c \
  'join->phase == CLUSTER_JOIN_SYNCED &&
         join->epoch == a->rec.member[member].fence' \
  'join->phase == CLUSTER_JOIN_SYNCED'
mutant in-sync-though-begun-again test-cluster-rebuild cluster-rebuild.c \
  'if (why == NULL && states[m] == MEMBER_IN_SYNC &&
          !cluster_member_synced (a, m))' 'if (0)'
mutant restarted-joiner-waits-for-ever test-cluster-rebuild cluster-rebuild.c \
  'return "it was started again";' ';'
mutant joiner-keeps-what-a-lost-source-gave test-cluster-rebuild cluster-epoch.c \
  'if (source_goes (a, m))' 'if (0)'
mutant joiner-that-went-first-keeps-what-a-lost-source-gave test-cluster-rebuild cluster-epoch.c \
  'member->partly = state == MEMBER_OUT && member->state == MEMBER_JOINING;' ''
mutant held-member-comes-back test-cluster-member cluster-rebuild.c \
  'member->reset || member->held ||' 'member->reset ||'
mutant token-is-for-every-life test-token token.c \
  'mac (instance, strlen (instance), key, sum);' 'mac (instance, 0, key, sum);'
mutant token-for-a-life-that-the-writer-does-not-know test-cluster-key cluster-key.c \
  '|| cluster_life_reborn (c, a, member)' ''
mutant writer-long-silent-meets-a-life-by-itself test-cluster-key cluster-key.c \
  '(writable && in_sync && cluster_life_unmet (d))' 'false'
mutant tokens-are-good-when-weftd-starts test-cluster-key cluster.c \
  '    d->last_live_ms = c->live_ms;
    d->alive = true;' \
  '    d->last_live_ms = c->live_ms;
    d->alive = true;
    memcpy (d->minted, d->rec.instance, sizeof d->minted);'
mutant token-of-a-former-life-is-the-last test-cluster-key cluster-key.c \
  'strcmp (a->disk[m]->minted, process (c, a, m, false)) != 0' '0'

# What is old.
mutant old-database-is-served test-cluster-rules cluster-admit.c \
  'else if (a && hb->states_epoch > cluster_array_wanted_epoch (a))' 'else if (0)'
mutant old-database-by-min-epoch-is-served test-cluster-rules cluster-admit.c \
  'hb->min_epoch > cluster_array_wanted_epoch (d->array) + 1)' 'false)'
mutant old-database-by-a-host-is-served test-cluster-rules cluster-session.c \
  'if (hb->epoch > a->rec.epoch ||
        hb->prepared > cluster_array_wanted_epoch (a))' 'if (0)'
mutant old-copy-of-a-disk-is-believed test-cluster-copies cluster-old.c \
  'hb->sequence < d->rec.sequence ||' ''
mutant old-copy-is-told-what-to-write test-cluster-copies cluster-admit.c \
  'd->array == NULL || cluster_member_stays_out (d->array, d->position)' '1'
mutant old-copy-s-place-is-gone test-cluster-copies cluster-admit.c \
  'd->array == NULL || cluster_member_stays_out (d->array, d->position)' \
  'cluster_member_stays_out (d->array, d->position)'
mutant blank-disk-may-be-any-copy test-cluster-copies cluster-disk.c \
  'a->rec.ready && m->state == MEMBER_OUT
                         ? CONFIRMED_BY_NONE
                         : 0' '0'
mutant old-clone-takes-over-at-once test-cluster-copies cluster-disk.c \
  'too_soon = cluster_old_copy' 'too_soon = 0 && cluster_old_copy'
mutant nonsense-of-a-disk-is-taken-in test-cluster-rules cluster-admit.c \
  'hb->min_epoch < EPOCH_MAX / 2 ||' '1 ||'
mutant old-copy-is-known-until-weftd-s-next-start test-cluster-copies cluster-admit.c \
  'cluster_put_disk (c, d);' ''
mutant old-copy-is-not-reset test-cluster-copies cluster-disk.c \
  'cluster_old_reset (c, a, d->position);' ';'
mutant old-copies-both-go-out test-cluster-copies cluster-copies.c \
  '(d->old_copy || d->failed)' 'd->failed'
mutant member-that-stays-is-reset-one-day test-cluster-copies cluster-change.c \
  'a->rec.member[m].reset = false; /* it does not go after all */' ';'
mutant former-disk-of-a-rebuilt-member-is-believed test-cluster-copies cluster-epoch.c \
  'member->confirmed = change->epoch;' ';'
mutant former-disk-has-the-number-of-the-join test-cluster-copies cluster-change.c \
  'epoch == a->rec.epoch)
      epoch++;' '0)
      epoch++;'
mutant words-out-of-order-make-an-old-copy test-cluster-copies cluster-old.c \
  'strcmp (hb->instance, d->rec.instance) == 0)' '0)'
mutant clone-is-warned-of-without-end test-cluster-copies cluster-admit.c \
  'if (cluster_text_copy (d->refused, sizeof d->refused,
                           w->heartbeat->instance))' 'if (1)'
mutant twins-are-imported test-cluster-import cluster-import.c \
  'twin = plan->found[i];' ';'
mutant empty-place-takes-any-disk test-cluster-import cluster-admit.c \
  'if (!cluster_import_agrees (c, a, hb))' 'if (0)'
mutant empty-place-takes-another-cluster-s-disk test-cluster-import cluster-import.c \
  'hb->has_place && cluster_uuid_equal (hb->cluster, c->identity.uuid) &&' \
  'hb->has_place &&'
mutant newer-disk-is-rebuilt-after-an-import test-cluster-import cluster-admit.c \
  'else if (hb->states_epoch > there->rec.imported)' \
  'else if (0)'
mutant disk-is-itself-after-an-import test-cluster-import cluster-place.c \
  'm->confirmed = CONFIRMED_BY_NONE;' 'm->confirmed = 0;'
mutant held-place-is-forgotten-after-an-import test-cluster-import cluster-import.c \
  'm->held = held;' ';'
mutant clone-is-believed test-cluster-rules cluster-admit.c \
  'refuse_elsewhere (c, op, d, hb) || contend (c, op, d, hb) ||' \
  'refuse_elsewhere (c, op, d, hb) ||'
mutant in-sync-unheard test-cluster-rebuild cluster-change.c \
  '!cluster_member_synced (a, member))
    return true;' \
  '!cluster_member_synced (a, member))
    (void)0;'
mutant same-as-another-report test-cluster-rules cluster-disk.c \
  'd->said->report != hb->report ||' ''
mutant same-as-another-process-said test-cluster-rules cluster-disk.c \
  'strcmp (d->said->instance, hb->instance) != 0 ||' ''
mutant told-less-than-it-knows test-cluster-rules cluster-tell.c \
  'd->told && d->told_epoch == epoch && d->took_place &&' 'd->took_place &&'
mutant told-less-than-it-says test-cluster-rules cluster-tell.c \
  'd->took_place &&
             d->states_epoch == epoch;' 'd->took_place;'
mutant place-is-not-what-it-was sim-cluster member.c \
  'd->epoch = sb->states_epoch;' 'd->epoch = sb->states_epoch + 1;'
mutant same-as-what-was-refused test-cluster-rules cluster-disk.c \
  'if (hb == NULL || !cluster_admit (c, in->op, d, hb))' \
  'if (d && hb && !hb->same)
    *(d->said ? d->said : (d->said = alloc_zeroed (sizeof *hb))) = *hb;
  if (hb == NULL || !cluster_admit (c, in->op, d, hb))'
mutant joiner-is-met-unseen test-cluster-rebuild cluster-life.c \
  'd->array->rec.member[d->position].state != MEMBER_OUT &&' \
  'd->array->rec.member[d->position].state == MEMBER_IN_SYNC &&'
mutant unmet-joiner-copies test-cluster-rebuild cluster-life.c \
  'return d->heard && strcmp (d->instance, d->rec.instance) != 0;' 'return false;'

mutant silent-reader-is-forgotten test-cluster-attach cluster-change.c \
  '(s->rec.writable || s->alive || !written)' '(s->rec.writable || s->alive)'
mutant silent-reader-is-prepared-for test-cluster-attach cluster-change.c \
  '(s->rec.writable || s->alive || !written)' '1'
mutant passed-over-reader-reads-on test-cluster-attach cluster-session.c \
  'if (cluster_session_refuse_late (c, op, a, s, hb->epoch))
    return;' ''
mutant passed-over-reader-is-not-known test-cluster-attach cluster-epoch.c \
  'a->rec.unprepared = change->epoch;' ';'
mutant passed-over-reader-is-waited-for test-cluster-attach cluster-attach.c \
  's->alive = false;' ';'
mutant passed-over-reader-holds-a-change-up test-cluster-attach cluster-attach.c \
  '  cluster_due (c, a, DUE_CHANGE);
  cluster_settle (c);
  if (!passed_over (c, a, s, epoch))
    return false;
' \
  ''
mutant passed-over-reader-reports test-cluster-attach cluster-lost.c \
  '!s->heard || (!s->rec.writable && !s->alive)' '!s->heard'
mutant passed-over-reader-asks-again test-cluster-attach cluster-attach.c \
  'if (passed_over (c, a, s, s->epoch)) {' 'if (0) {'
mutant passed-over-reader-is-kept-out test-cluster-attach cluster-epoch.c \
  'a->rec.unprepared = 0;' ';'

# Who has kept what it had not flushed.
mutant another-process-has-kept-all "test-cluster-key sim-cluster" cluster-life.c \
  '(d->cache[0] && strcmp (d->cache, d->rec.cache) == 0)' '1'
mutant unknown-cache-is-the-same-one test-cluster-key cluster-life.c \
  'd->cache[0] && strcmp (d->cache' 'strcmp (d->cache'
mutant disk-is-well-again-by-a-start test-cluster-key cluster-disk.c \
  '    stored |= cluster_text_copy (d->rec.cache, sizeof d->rec.cache, "");' '    ;'
mutant nobody-has-lost-anything "test-cluster-key sim-cluster" cluster-epoch.c \
  '      member->lapse = change->epoch;' '      ;'
mutant idle-writer-keeps-a-failed-member test-cluster-copies cluster-rebuild.c \
  ': a->disk[m]->failed            ? failure (a->disk[m])' ''
# Rounds.
mutant round-behind-is-taken-in test-cluster-rounds cluster-old.c \
  '         (hb->sequence < d->rec.sequence || hb->min_epoch < m->confirmed ||
          cluster_old_behind (d, hb->round));' \
  '         (hb->sequence < d->rec.sequence || hb->min_epoch < m->confirmed);'
mutant process-that-no-writer-knows-is-not-judged test-cluster-rounds cluster-old.c \
  '!(unmet || (changing' '!((changing'
mutant clone-makes-the-known-process-unknown test-cluster-rounds cluster-old.c \
  'if (!unmet)
      snprintf' 'if (1)
      snprintf'
mutant one-round-behind-is-old test-cluster-rounds cluster-old.c \
  'return round + 2 <= a->rec.round;' 'return round + 1 <= a->rec.round;'
mutant out-member-owes-later-rounds test-cluster-rounds cluster-old.c \
  'return round + 2 <= m->round;' 'return round + 2 <= a->rec.round;'
mutant round-is-not-stored test-cluster-rounds cluster-old.c \
  '  a->stored_live_ms = c->live_ms;
  cluster_put_array (c, a);' '  a->stored_live_ms = c->live_ms;'
mutant process-that-serves-is-judged test-cluster-rounds cluster-session.c \
  'a->disk[m]->served |= a->rec.member[m].state == MEMBER_IN_SYNC &&' \
  'a->disk[m]->served |= 0 &&'
mutant new-process-is-known test-cluster-rounds cluster-disk.c \
  '  if (restarted)
    d->served = false;' ''
mutant joiner-gets-no-round-of-its-own test-cluster-rounds cluster-join.c \
  'return a->rec.round + all;' 'return a->rec.round;'

# Loss that is accepted.
mutant loss-of-what-nobody-has-listed test-cluster-bad cluster-bad.c \
  'if (at - offset >= length)' 'if (1)'
mutant loss-of-a-copy-that-is-out test-cluster-bad cluster-bad.c \
  'if (list[i].copy_out) {' 'if (0) {'
mutant order-for-ever test-cluster-bad cluster-bad.c \
  's->loss && c->live_ms - s->loss->live_ms < LOSS_MS ?' 's->loss ?'
