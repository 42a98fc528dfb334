# shellcheck shell=sh
# cluster.sh: mutants of the cluster engine.  check says how they are written.

# An epoch's number, its change and its commit.
mutant number-used-twice test-cluster-attach cluster-change.c \
  'change->epoch = epoch + 1;' \
  'change->epoch = change->epoch ? change->epoch : epoch + 1;'
mutant number-below-a-member-s test-cluster-attach cluster-change.c \
  'if (a->disk[m]->min_epoch > epoch)' 'if (0)'
mutant commit-without-confirmation "sim-cluster test-cluster-attach" cluster-commit.c \
  'if (cluster_change_waits_for (a, m))
      return;' ''
mutant commit-without-sessions "sim-cluster test-cluster-change" cluster-commit.c \
  'if (cluster_change_waits_for (a, m))
      return;
  TAILQ_FOREACH (s, &a->sessions, array_link)
    if (cluster_change_waits_for_session (a, s))
      return;' \
  'if (cluster_change_waits_for (a, m))
      return;'
mutant silent-writer-is-passed-over test-cluster-change cluster-change.c \
  '(s->rec.writable || s->alive) && s->prepared' 's->alive && s->prepared'
mutant commit-said-before-durable test-cluster-attach cluster-commit.c \
  '  cluster_key_minted (c, a);
  cluster_step_put_array (c, a);' '  cluster_key_minted (c, a);'
mutant prepared-said-before-durable test-cluster-attach cluster-change.c \
  '  cluster_step_put_array (c, a);
  cluster_step_changed_array (c, a);
  cluster_array_due' \
  '  cluster_array_due'
mutant grant-said-before-durable test-cluster-attach cluster-tell.c \
  '  cluster_step_put_session (c, s);' ''
mutant end-said-before-durable test-cluster-attach cluster-session-end.c \
  '  s->alive = false;
  cluster_step_put_session (c, s);' '  s->alive = false;'

# The pump.
mutant what-is-prepared-is-not-due test-cluster-attach cluster-change.c \
  'cluster_array_due (c, a, DUE_CHANGE);' ';'
mutant news-is-kept test-cluster-attach cluster-pump.c \
  'cluster_tell_array (c, a);' ';'
mutant commit-is-not-taken-up-again test-cluster-doubt cluster-commit.c \
  'a->deferred = cluster_array_doubted (c, a, NULL, 0);
  if (a->deferred)' \
  'if (cluster_array_doubted (c, a, NULL, 0))'
mutant rules-see-a-change-that-is-over test-cluster-drain cluster-pump.c \
  'if (a->due & DUE_CHANGE) {' 'if (a->due == DUE_CHANGE) {'

# Writers.
mutant attach-without-fence test-cluster-attach cluster-change.c \
  '[CHANGE_WRITER] = { MEMBERS_ALL,' '[CHANGE_WRITER] = { MEMBERS_NONE,'
mutant detach-without-fence test-cluster-attach cluster-change.c \
  '[CHANGE_END] = { MEMBERS_ALL,' '[CHANGE_END] = { MEMBERS_NONE,'
mutant two-writers test-cluster-attach cluster-attach.c \
  '  if (s) {
    silent_ms' '  if (0) {
    silent_ms'
mutant any-node-says-that-it-has-ended test-cluster-attach cluster-candidates.c \
  'strcmp (attach->node, holder->rec.node) == 0' '1'
mutant any-node-asks-again test-cluster-attach cluster-attach.c \
  'strcmp (rec->node, attach->node) == 0 &&' ''
mutant ended-holder-is-not-asked test-cluster-attach cluster-candidates.c \
  'holder->poll == NULL &&
          cluster_session_silent_ms (c, holder) >= CHALLENGE_MS)' '1)'
mutant takeover-leaves-the-old-session test-cluster-attach cluster-attach.c \
  'while ((old = cluster_attach_check_holder (a, attach)))' 'while (0)'

# Several that write.
mutant parts-overlap test-cluster-part cluster-attach-check.c \
  'cluster_parts_meet (&rec->part, &attach->part);' \
  'rec->part.length == 0;'
mutant part-of-no-units test-cluster-part cluster-attach-check.c \
  'cluster_lease_fits (a, part, a->layout.unit)' 'cluster_lease_fits (a, part, LEASE_BYTES)'
mutant part-beyond-the-end test-cluster-part cluster-lease.c \
  'p->length <= size - p->offset &&' ''
mutant one-too-many-writes test-cluster-part cluster-attach-check.c \
  'if (count < WRITERS_MAX)' 'if (1)'
mutant part-is-given-before-its-end-is-confirmed test-cluster-part cluster-attach.c \
  'else if (!cluster_shut_waits (a, 0) &&' 'else if ('
mutant end-is-confirmed-by-one test-cluster-part cluster-shut.c \
  'for (unsigned m = 0; m < a->layout.members; m++)
    if (cluster_shut_waits_for (a, m, session))' 'for (unsigned m = 0; m < 1; m++)
    if (cluster_shut_waits_for (a, m, session))'
mutant one-of-several-goes-on-silent test-cluster-part cluster-session-end.c \
  'if (cluster_session_missed (c, s))' 'if (0)'
mutant member-goes-out-with-its-writer test-cluster-unequal cluster-session-end.c \
  'if (a->rec.change.epoch && !detached && is_needed (a, m)) {' 'if (0) {'
mutant readers-wait-for-a-dead-writer "test-cluster-unequal sim-cluster" cluster-session-end.c \
  '!cluster_session_missed (c, s) ||
      !cluster_change_waits' '1 || !cluster_session_missed (c, s) ||
      !cluster_change_waits'
mutant writer-ends-for-a-member-that-is-well test-cluster-unequal cluster-session-end.c \
  '!cluster_change_loses_member (a))' '0)'
mutant writer-ends-when-weftd-was-cut-off test-cluster-unequal cluster-session-end.c \
  'c->live_ms >= reader->steady_live_ms + SESSION_TTL_MS' '1'
mutant readers-wait-for-a-joiner test-cluster-unequal cluster-commit.c \
  '(silent && reader && !cluster_change_loses_member (a))' '0'
mutant all-end-where-weftd-is-cut-off test-cluster-part cluster-session-end.c \
  'cluster_session_silent_ms (c, other) < QUIET_MS' '1'
mutant joiner-goes-on-when-one-of-several-ends test-cluster-part cluster-session-end.c \
  'a->rec.member[m].anew = written;' ';'
mutant joiner-begins-anew-only-at-once test-cluster-part cluster-rebuild.c \
  'any |= confirm[m] = a->rec.member[m].anew;' 'any |= confirm[m] = false;'
mutant nearly-joined-goes-on-when-one-of-several-ends test-cluster-part cluster-session-end.c \
  'counts |= states[m] == MEMBER_IN_SYNC;' ';'
mutant one-that-has-ended-hides-one-that-is-well test-cluster-part cluster-attach.c \
  'if (cluster_attach_check_in_the_way (s, attach) &&
        !cluster_candidate_holder_gone (c, s, attach))
      break;' 'if (cluster_attach_check_in_the_way (s, attach)) {
      if (cluster_candidate_holder_gone (c, s, attach)) s = NULL;
      break;
    }'
mutant beside-nobody-without-a-fence test-cluster-part cluster-tell.c \
  '((!w->fences && cluster_array_writer (a) == NULL) ||' '('
mutant part-is-granted-by-the-same-fence test-cluster-part cluster-tell.c \
  '(!w->grant->leases && !cluster_lease_free (a, &w->grant->part))' \
  '(!w->fences && !w->grant->leases &&
            !cluster_lease_free (a, &w->grant->part))'
mutant silent-member-keeps-a-part test-cluster-part cluster-rebuild.c \
  'cluster_disk_silent_ms (c, a->disk[member]) >= MISSING_MS' '0'
mutant joiner-copies-from-who-is-still-written test-cluster-part cluster-join.c \
  'return false; /* so may one of several */' ';'
mutant one-bad-line-takes-a-member-from-all test-cluster-part cluster-lost.c \
  'if (!cluster_process_apart (a, s, member))' 'if (1)'
mutant who-is-dead-reaches-a-member test-cluster-part cluster-process.c \
  'return live_ms < d->spoke_live_ms ? live_ms : d->spoke_live_ms;' 'return d->spoke_live_ms;'
mutant answer-is-a-word-of-the-dead test-cluster-part cluster-session-end.c \
  'shown = cluster_process_shown (s->array, s, m);' \
  'shown = s->array->disk[m]->last_live_ms;'
mutant one-ends-for-a-bad-line-of-the-member test-cluster-part cluster-process.c \
  '(reach >= lack || !cluster_copies_can_leave_out (a, member))' '1'
mutant fence-for-another-is-a-loss test-cluster-part cluster-lost.c \
  'if (rekeyed || is_cut (c, a, s, member)) {' 'if (rekeyed) {'
mutant far-words-are-time-apart test-cluster-part cluster-session-end.c \
  'shown - from <= REST_MS + HEARTBEAT_MS' '1'
mutant first-heard-ends-all-others test-cluster-part cluster-objects.c \
  'c->live_ms >= s->array->again_live_ms + SESSION_TTL_MS' '1'
mutant lull-begins-while-one-is-heard test-cluster-part cluster-objects.c \
  'if (cluster_session_silent_ms (c, s) < LULL_MS)' 'if (0)'
mutant lull-begins-when-one-comes-anew test-cluster-part cluster-objects.c \
  'if (cluster_session_silent_ms (c, s) < LULL_MS)' \
  'if (s->spoke_live_ms && cluster_session_silent_ms (c, s) < LULL_MS)'
mutant lull-ends-unseen-by-a-report test-cluster-part cluster-lost.c \
  'cluster_session_speaks (c, s);' 's->last_live_ms = c->live_ms;'
mutant one-apart-stays-for-ever test-cluster-part cluster-session-end.c \
  's->apart.ms >= APART_MS' '0'
mutant connection-that-carries-nothing-counts test-cluster-part cluster-session-end.c \
  'all = cluster_process_awaited (s, m, *back)' 'all = false'
mutant time-after-a-return-always-counts test-cluster-part cluster-session-end.c \
  'all = cluster_process_awaited (s, m, *back)' 'all = *back'
mutant wait-of-a-former-loss-counts test-cluster-part cluster-process.c \
  'return s->path[member].reported && live_ms' 'return live_ms'
mutant missing-member-keeps-one-more-out test-cluster-part cluster-attach.c \
  '    cluster_change_put_out (c, a, states);
  }' '  }'
mutant dead-member-is-not-waited-for test-cluster-part cluster-attach.c \
  '(fences || !ask_members (c, try, a, attach))' '1'
mutant new-writer-is-heard-before-it-speaks test-cluster-part cluster-session-end.c \
  ' other->spoke_live_ms > 0 &&' ''
mutant member-is-waited-for-in-vain test-cluster-part cluster.c \
  '(w->kind == WAIT_MEMBERS && cluster_attach_heard (w))' '0'
mutant member-that-is-starting-is-there test-cluster-part cluster-disk.c \
  '    d->spoke_step = c->step->number;
  }' '  }
  d->spoke_step = c->step->number;'
mutant silent-one-keeps-parts test-cluster cluster-attach-check.c \
  'return !s->alive || s->overdue ||' 'return s->overdue ||'
mutant zeroes-are-made-by-anybody test-cluster-part cluster-bad.c \
  's->alive && cluster_part_has (&s->rec.part, offset, length)' 's->alive'
mutant fence-of-a-node-forgets-a-part test-cluster-part cluster-fence.c \
  'if (cluster_shut_runs (c, s))' 'if (0)'

# Leases (L1, L2, L4).
mutant lease-of-another-is-granted test-cluster-lease cluster-lease-grant.c \
  'if ((x = cluster_lease_other (&l->spans, must, w->session->rec.id))) {' \
  'if ((x = cluster_lease_other (&l->spans, must, w->session->rec.id)) &&
        x->owner >= LEASE_ORDERED) {'
mutant wish-takes-what-another-has test-cluster-lease cluster-lease-grant.c \
  '  end = at;
' ''
mutant wish-takes-what-another-waits-for test-cluster-lease cluster-lease-grant.c \
  'cluster_part_end (theirs) > cluster_part_end (must) &&
          theirs->offset < end' '0'
mutant later-ask-goes-first test-cluster-lease cluster-lease-grant.c \
  'if ((*who = ahead (w, must)))' 'if (0)'
mutant old-give-is-carried-out test-cluster-lease cluster-lessee.c \
  'if (message->number <= s->lessee.number)' 'if (0)'
mutant liar-is-believed test-cluster-lease cluster-lease.c \
  'if (cluster_lease_other (spans, &declared[i], s->rec.id))' 'if (0)'
mutant orphan-is-recovered-under-a-writer test-cluster-lease cluster-lease-grant.c \
  '|| cluster_shut_waits (a, 0) ||' '||'
mutant part-is-attached-while-it-is-recovered test-cluster-unequal cluster-attach.c \
  'cluster_lease_free (a, &attach->part)' '1'
mutant part-is-attached-before-all-have-declared test-cluster-unequal cluster-lease.c \
  '(!l->starting && cluster_lease_other (&l->spans, range, 0) == NULL);' \
  '(cluster_lease_other (&l->spans, range, 0) == NULL);'
mutant part-is-attached-before-it-is-recovered test-cluster-unequal cluster-lease.c \
  'cluster_lease_other (&l->spans, range, 0) == NULL);' \
  'cluster_lease_other (&l->spans, range, LEASE_ORPHAN) == NULL);'
mutant recovered-part-stays-the-recoverers test-cluster-unequal cluster-lease.c \
  'hand_all (&l->spans, s->rec.id, 0);
    set_pinned (a, s);' ';'
mutant part-goes-with-a-declaration test-cluster-unequal cluster-lease.c \
  '  set_pinned (a, s);
  /* It goes on' '  /* It goes on'
mutant writer-that-dies-leaves-nothing test-cluster-unequal cluster-session-end.c \
  'else if (s->rec.writable && !s->detaches)' 'else if (0)'
mutant import-finds-all-equal test-cluster-unequal cluster-import.c \
  'a->rec.to_recover = true;' ';'
mutant restore-finds-all-equal test-cluster-unequal cluster-restore.c \
  'r->to_recover = true;' ';'
mutant silent-writer-leaves-nothing test-cluster-unequal cluster-unequal.c \
  'silent |= !s->alive;' ';'
mutant given-back-member-is-as-good-as-new test-cluster-unequal cluster-commit.c \
  'member->differs |= is_given_back (a, m) || has_copied_older (a, m);' ';'
mutant member-that-copied-from-a-given-back-one-is-equal test-cluster-unequal cluster-commit.c \
  'is_given_back (a, m) || has_copied_older (a, m)' 'is_given_back (a, m)'
mutant given-back-member-differs-after-its-join test-cluster-unequal cluster-commit.c \
  'member->differs = false;' ';'
# Such a member joins again (cluster-rejoin.c).
mutant given-back-member-stays test-cluster-unequal cluster-pump.c \
  '!cluster_rejoin (c, a) &&' ''
mutant given-back-member-of-three-copies-joins test-cluster-unequal cluster-rejoin.c \
  'a->layout.copies > 2)' '0)'
mutant given-back-member-that-has-kept-goes-first test-cluster-unequal cluster-rejoin.c \
  'yields (a, m, now) ||' ''
mutant given-back-member-joins-from-what-the-dead-left test-cluster-unequal cluster-rejoin.c \
  'else if (a->rec.to_recover)' 'else if (0)'
mutant given-back-member-joins-without-others test-cluster-unequal cluster-rejoin.c \
  'if (m < a->layout.members)' 'if (0)'
mutant detach-makes-a-given-back-member-equal test-cluster-unequal cluster-unequal.c \
  'a->rec.to_recover = true;' ';'
mutant ok-to-stop-the-newer-copy test-cluster-unequal cluster-preflight.c \
  '&& f->unequal_bytes == 0' ''
mutant drain-of-the-newer-copy test-cluster-unequal cluster-drain.c \
  'if (unequal != UNEQUAL_NONE)' 'if (0)'
mutant unequal-is-not-exposed test-cluster-unequal cluster-copies.c \
  'cluster_array_unequal (a, &unequal, &by);' 'unequal = 0;'
mutant who-ends-is-to-recover test-cluster-lease cluster-lease-grant.c \
  'is_able (a, s) && !s->draining &&' 'is_able (a, s) &&'
mutant who-is-quiet-is-to-recover test-cluster-lease cluster-lease-grant.c \
  'cluster_session_silent_ms (c, s) < QUIET_MS;' '1;'
mutant who-asks-is-to-recover-though-it-ends test-cluster-lease cluster-lease-grant.c \
  'may_recover (c, a, w->session)' 'is_able (a, w->session)'
mutant orphan-is-not-recovered test-cluster-lease cluster-lease.c \
  'hand_all (&l->spans, s->rec.id, LEASE_ORPHAN);' 'hand_all (&l->spans, s->rec.id, 0);'
mutant recoverer-that-dies-has-done-it test-cluster-lease cluster-lease.c \
  'hand_all (&l->spans, LEASE_ORDERED, LEASE_ORPHAN);' 'hand_all (&l->spans, LEASE_ORDERED, 0);'
mutant other-order-counts-as-done test-cluster-lease cluster-lease.c \
  'if (l->recoverer == s && l->order == order) {' 'if (l->recoverer == s) {'
mutant recoverer-leaves-as-if-it-were-done test-cluster-lease cluster-lease.c \
  'if (!s->lessee.unequal)
    hand_all' 'hand_all'
mutant dead-one-is-forgotten-with-weftd test-cluster-lease cluster-lease.c \
  'if (has_any (&l->spans, LEASE_ORPHAN) || !s->lessee.declared)' 'if (0)'
mutant undeclared-one-leaves-nothing test-cluster-lease cluster-lease.c \
  'LEASE_ORPHAN) || !s->lessee.declared)' 'LEASE_ORPHAN))'
mutant grant-before-all-have-declared test-cluster-lease cluster-lease-grant.c \
  '  if (l->starting)
    return STARTING;
' ''
mutant lease-in-an-older-epoch test-cluster-lease cluster-lease-grant.c \
  'return s->alive && s->epoch == a->rec.epoch;' 'return s->alive;'
mutant hot-region-is-wished-for test-cluster-lease cluster-lease-map.c \
  'if (met->region[i].heat >= LEASE_HOT)
      return begins' 'if (0)
      return begins'
mutant hot-for-ever test-cluster-lease cluster-lease-map.c \
  '(met->region[i].heat /= 2) > 0' '(met->region[i].heat /= 1) > 0'
mutant too-many-leases test-cluster-lease cluster-lease-grant.c \
  'return count > max;' 'return 0;'
mutant own-lease-is-one-more test-cluster-lease cluster-lease-grant.c \
  'count += !spans_has (spans, must->offset, cluster_part_end (must), id);' 'count++;'
mutant lessee-ends-one-that-lives test-cluster-lease cluster-lessee.c \
  '||
      !cluster_candidate_holder_gone (c, other, &word))' ')'
mutant nobody-is-woken-for-a-lease test-cluster-lease cluster-tell.c \
  's->lessee.told_news != s->lessee.news ||' ''
mutant lessee-beside-a-part test-cluster-lease cluster-attach-check.c \
  '!(rec->leases && attach->leases)' '!(rec->leases || attach->leases)'

# Members that go out.
mutant last-copy-goes-out "sim-cluster test-cluster-lost" cluster-lost.c \
  'if (a->rec.member[member].state != MEMBER_IN_SYNC ||
      cluster_copies_kept (a, states))' 'if (1)'
mutant last-copy-goes-out-beside-an-old-one test-cluster-copies cluster-lost.c \
  'cluster_copies_kept (a, states))
    return false;' '!cluster_change_loses (a, states))
    return false;'
mutant last-copy-goes-out-beside-one-that-is-old-by-now test-cluster-copies cluster-commit.c \
  'if (!cluster_copies_kept (a, old.states)) {' 'if (0) {'
mutant two-copies-go-out-beside-an-old-one test-cluster-copies cluster-lost.c \
  'cluster_copies_kept (a, states))
    return false;' 'cluster_copies_can_leave_out (a, member))
    return false;'
mutant failed-member-is-a-copy test-cluster-copies cluster-copies.c \
  '(d->old_copy || cluster_disk_failed (d) ||' '(d->old_copy ||'
mutant no-copy-of-one-thing-keeps-all-others test-cluster-copies cluster-copies.c \
  'layout_loss (&a->layout, after, NULL) ==
                   layout_loss (&a->layout, before, NULL)' \
  'layout_loss (&a->layout, after, NULL) == 0'
mutant attach-that-came-to-nothing-puts-a-member-out test-cluster-attach cluster-commit.c \
  'if (leaves)' 'if (0)'
mutant attach-is-granted-before-a-member-listens test-cluster-attach cluster-change.c \
  'd->state == DISK_STARTING || ' ''
mutant member-that-listens-now-is-not-noticed test-cluster-attach cluster-disk.c \
  'told || d->state != hb->state ||' 'told ||'
mutant attach-leaves-the-last-copy-out test-cluster-attach cluster-attach-check.c \
  'if (!starting && !cluster_change_loses (a, states))' 'if (!starting)'
mutant reader-puts-a-member-out test-cluster-attach cluster-lost.c \
  'if (refuse_reader (c, op, s, a, member) ||' 'if ('
mutant late-report-puts-a-new-life-out test-cluster-change cluster-lost.c \
  '(r->fence > s->epoch && r->fence > s->told.epoch)' 'false'
mutant lost-last-copy-is-back-without-fence test-cluster-lost cluster-commit.c \
  'cluster_change_stay (c, a, CHANGE_BACK, confirm);' \
  'cluster_change_stay (c, a, CHANGE_BACK, NULL);'
mutant idle-writer-keeps-readers-out test-cluster-lost cluster-rebuild.c \
  'writer->path[m].lost = any = true;' ';'
mutant one-node-has-all-sessions-of-an-array test-cluster-node cluster-shut.c \
  'return places (c, a, node) < OVER_NODE_MAX;' 'return true;'
mutant readers-leave-nothing-to-writers test-cluster-node cluster-shut.c \
  '(writable ? 0 : OVER_WRITERS)' '0'
mutant stalled-writer-keeps-readers-out test-cluster-lost cluster-change.c \
  'kept (a, states) &&
         !cluster_change_stalls (c, a, states)' 'kept (a, states)'
mutant restarted-member-is-given-back-too-soon test-cluster-key cluster-commit.c \
  'spare_reborn (c, a, confirm);' ''
mutant nobody-is-given-back-for-another-s-sake test-cluster-key cluster-commit.c \
  'else if (lost == 1 || back + later > 1) {' 'else {'
mutant restarted-member-does-not-wait-for-one-put-off test-cluster-lost cluster-commit.c \
  'later += put_off[m] && !confirm[m];' ';'
mutant restarted-members-wait-for-each-other test-cluster-key cluster-commit.c \
  'cluster_process_kept (a->disk[m]) && is_to_come_back' 'is_to_come_back'
mutant restarted-member-waits-for-one-that-hangs test-cluster-key cluster-commit.c \
  '!p->unconfirmed && ' ''
mutant member-that-has-kept-all-is-spared-first test-cluster-key cluster-commit.c \
  'bool kept = i >= a->layout.members;' 'bool kept = i < a->layout.members;'
mutant member-behind-a-line-counts-as-back test-cluster-lost cluster-commit.c \
  'if (kept && (vain || later > 0))' 'if (0)'
mutant member-that-answered-is-behind-a-line test-cluster-lost cluster-commit.c \
  'cluster_process_awaited (writer, m, d->fenced_live_ms);' 'd->fenced_live_ms;'
mutant member-that-is-not-reached-counts-as-back test-cluster-lost cluster-lost.c \
  'if (r->fence > s->epoch &&' 'if (0 &&'
mutant unflushed-writes-go-for-a-line test-cluster-lost cluster-commit.c \
  'if (kept && (vain || later > 0))' 'if (vain || later > 0)'
mutant member-behind-a-line-is-tried-beside-another test-cluster-lost cluster-commit.c \
  'confirm[m] &= !in_vain[m];' ';'
mutant member-behind-a-line-is-tried-before-it-goes test-cluster-lost cluster-commit.c \
  '!(is_given_in_vain (a, m) &&' '!(0 &&'

# Members that come back.
mutant spare-counts-while-the-disk-is-heard test-cluster-member cluster-rebuild.c \
  'if (!broken && !flaps && c->live_ms > since + silent_ms)' 'if (0)'
mutant spare-counts-by-the-wall-clock test-cluster-clock cluster-rebuild.c \
  'uint64_t since = a->since_live_ms[member];' \
  'uint64_t since = c->live_ms - (c->wall_ms - m->since_wall_ms);'
mutant slow-change-by-the-wall-clock test-cluster-clock cluster-verdict-array.c \
  'c->live_ms > a->begun_live_ms + SLOW_MS' \
  'c->wall_ms > change->since_wall_ms + SLOW_MS'
mutant sessions-end-by-the-wall-clock test-cluster-clock cluster-session-end.c \
  'a->ended_live_ms != b->ended_live_ms' '0'
mutant joiner-without-fence test-cluster-attach cluster-rebuild.c \
  'confirm[m] = any = true;' 'any = true;'
mutant joiner-fences-nobody-else test-cluster-attach cluster-change.c \
  '[CHANGE_JOIN] = { MEMBERS_THESE_OR_ALL,' '[CHANGE_JOIN] = { MEMBERS_THESE,'
mutant joiner-copies-before-the-writer-sends "sim-cluster test-cluster-rebuild" cluster-join.c \
  'return sends_nothing (c, a, member) == NULL;' \
  'return true;'
mutant joiner-copies-from-one-not-in-sync test-cluster-rebuild cluster-join.c \
  'order->source[m] &= a->rec.member[m].state == MEMBER_IN_SYNC;' ';'
mutant joiner-gets-tokens-of-members-without-its-data test-cluster-rebuild cluster-join.c \
  'layout_partners (&a->layout, member, order->source);' \
  'memset (order->source, true, a->layout.members);'
mutant joiner-s-token-opens-a-whole-member test-cluster-rebuild cluster-key.c \
  '.joins = true,' '.joins = false,'
mutant joiner-s-token-is-for-every-node test-cluster-rebuild cluster-key.c \
  'if (d->proven) {' 'if (false) {'
mutant session-s-token-is-for-every-node test-cluster-rebuild cluster-key.c \
  'if (!s->rec.by_admin) {' 'if (false) {'
mutant session-s-token-is-for-every-array test-cluster-rebuild cluster-key.c \
  'cluster_object_text_copy (t.process, sizeof t.process, a->rec.name);' ''
mutant joiner-s-token-is-for-every-disk test-cluster-rebuild cluster-key.c \
  'format_uuid (d->rec.uuid, t.process);' ''
mutant tokens-of-a-later-joining-are-not-reported test-cluster-rebuild cluster-join.c \
  'if (d->grants.joining != session)' 'if (false)'
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
          !cluster_copies_synced (a, m))' 'if (0)'
mutant restarted-joiner-waits-for-ever test-cluster-rebuild cluster-rebuild.c \
  'return "it was started again";' ';'
mutant joiner-keeps-what-a-lost-source-gave test-cluster-rebuild cluster-commit.c \
  'if (source_goes (a, m))' 'if (0)'
mutant joiner-that-went-first-keeps-what-a-lost-source-gave test-cluster-rebuild cluster-commit.c \
  'member->partly = state == MEMBER_OUT && member->state == MEMBER_JOINING;' ''
mutant held-member-comes-back test-cluster-member cluster-rebuild.c \
  'member->reset || member->held ||' 'member->reset ||'
mutant token-is-for-every-life test-token token.c \
  'mac (instance, strlen (instance), key, sum);' 'mac (instance, 0, key, sum);'
mutant token-for-a-life-that-the-writer-does-not-know test-cluster-key cluster-key.c \
  'cluster_process_reborn (c, a, member) ||' ''
mutant writer-long-silent-meets-a-life-by-itself test-cluster-key cluster-key.c \
  '(writable && in_sync && cluster_process_unmet (d))' 'false'
mutant tokens-are-good-when-weftd-starts test-cluster-key cluster.c \
  '    d->last_live_ms = c->live_ms;
    d->alive = true;' \
  '    d->last_live_ms = c->live_ms;
    d->alive = true;
    memcpy (d->minted, d->rec.instance, sizeof d->minted);'
mutant token-of-a-former-life-is-the-last test-cluster-key cluster-key.c \
  'strcmp (a->disk[m]->minted, process (c, a, m, false)) != 0' '0'

# Old copies and old databases.
mutant old-database-is-served test-cluster-rules cluster-doubt.c \
  'if (a && hb->states_epoch > cluster_array_wanted_epoch (a) &&' 'if (0 &&'
mutant old-database-by-min-epoch-is-served test-cluster-rules cluster-doubt.c \
  'hb->min_epoch > min_epoch_max (d, hb))' 'false)'
mutant old-database-by-a-host-is-served test-cluster-rules cluster-doubt.c \
  'if (hb->epoch <= a->rec.epoch &&' 'if (1 || hb->epoch <= a->rec.epoch &&'
# Lies of members and nodes.
mutant one-node-makes-weftd-read-only test-cluster-doubt cluster-doubt.c \
  'if (other)
    cluster_step_set' 'if (1)
    cluster_step_set'
mutant two-nodes-are-no-more-than-one test-cluster-doubt cluster-doubt.c \
  'strcmp (c->doubt_node, node) != 0 &&' '0 &&'
mutant words-of-long-ago-count test-cluster-doubt cluster-doubt.c \
  'c->live_ms - c->doubt_live_ms < DOUBT_MS' '1'
mutant only-node-lies test-cluster-doubt cluster-doubt.c \
  'else if (only_node (c, node))' 'else if (0)'
mutant liar-may-be-right test-cluster-doubt cluster-doubt.c \
  'kind = d && d->presence != DISK_UNHEARD' 'kind = 0'
mutant first-words-are-lies test-cluster-doubt cluster-doubt.c \
  'kind = d && d->presence != DISK_UNHEARD' 'kind = 1'
mutant session-s-first-words-are-lies test-cluster-doubt cluster-doubt.c \
  's->heard ? CLUSTER_DOUBT_LIE' '1 ? CLUSTER_DOUBT_LIE'
mutant reader-stops-the-array test-cluster-doubt cluster-doubt.c \
  'const struct cluster_session *writer = cluster_array_writer (a);
  char words[320];' 'const struct cluster_session *writer = TAILQ_FIRST (&c->sessions);
  char words[320];'
mutant member-raises-min-epoch-again-and-again test-cluster-doubt cluster-doubt.c \
  'if (!cluster_disk_heard (d) || strcmp (d->instance, hb->instance) != 0)' 'if (1)'
mutant member-may-not-raise-min-epoch test-cluster-doubt cluster-doubt.c \
  'return d->raise_max > wanted ? d->raise_max : wanted;' 'return wanted;'
mutant stranger-speaks-for-a-disk test-cluster-doubt cluster-admit.c \
  '!(d && refuse_elsewhere (c, op, d, hb)) &&
         !refuse_restoring (c, op, d, hb) && !refuse_doubted (c, op, d, hb) &&
         !refuse_array (c, op, d, hb) &&' \
  '!refuse_restoring (c, op, d, hb) && !refuse_doubted (c, op, d, hb) &&
         !refuse_array (c, op, d, hb) &&
         !(d && refuse_elsewhere (c, op, d, hb)) &&'
mutant doubted-array-is-attached test-cluster-doubt cluster-attach-check.c \
  'cluster_doubt_refuse (c, op, a) ||' ''
mutant doubted-array-s-member-goes-out test-cluster-doubt cluster-lost.c \
  'if (cluster_doubt_refuse (c, in->op, a))' 'if (0)'
mutant shut-out-joiner-goes-on test-cluster-doubt cluster-rebuild.c \
  'cluster_shut_has (a, cluster_shut_source (a, member)))' '0)'
mutant shut-out-node-is-still-heard-of test-cluster-doubt cluster-node.c \
  'd->doubt.kind = CLUSTER_DOUBT_NONE;' ';'
mutant one-member-s-round-is-the-array-s test-cluster-doubt cluster-rounds.c \
  ': w.second + 1;' ': w.highest;'
mutant round-is-believed-though-others-are-needed test-cluster-doubt cluster-rounds.c \
  'if (alone (c, a, &w) && whole_with_first (a, &w))' 'if (alone (c, a, &w))'
mutant round-of-one-is-never-believed test-cluster-doubt cluster-rounds.c \
  'if (alone (c, a, &w) && whole_with_first (a, &w))' 'if (0)'
mutant nobody-bears-a-round-out test-cluster-doubt cluster-rounds.c \
  'round = !w.others                                    ? w.highest' \
  'round = !w.others ? 0'
mutant who-is-silent-says-the-highest test-cluster-doubt cluster-rounds.c \
  'if (w->second > w->highest)' 'if (0)'
mutant what-a-silent-member-said-is-forgotten test-cluster-doubt cluster-rounds.c \
  'if (!spoke (a, m))' 'if (!speaks (a, m))'
mutant round-of-a-liar-stops-the-array test-cluster-doubt cluster-rounds.c \
  'speaks (a, m) && !same_node (a, m, member) && a->disk[m]->served &&' '0 &&'
mutant refuted-round-is-good-while-something-changes test-cluster-doubt cluster-rounds.c \
  'if (before && round >= before)' 'if (0)'
mutant writer-is-told-what-one-member-says test-cluster-doubt cluster-rounds.c \
  'return round <= a->rec.round + 1 ? round : a->rec.round + 1;' 'return round;'
mutant liar-adds-a-round-beside-the-writer test-cluster-doubt cluster-rounds.c \
  'written (c, a) && a->rec.change.epoch == 0 ? w.second' '0 ? w.second'
mutant liar-has-who-is-lost-rebuilt test-cluster-doubt cluster-rounds.c \
  '    if (!s->path[member].reported)' '    if (1)'
mutant lost-member-s-round-is-too-low test-cluster-doubt cluster-rounds.c \
  'return cluster_rounds_said (c, a);
  return a->rec.round;' 'return cluster_rounds_said (c, a);
  return a->rec.round - 1;'
mutant liar-has-who-is-put-out-rebuilt test-cluster-doubt cluster-rounds.c \
  'member->round <= last)' '1)'
mutant rounds-completed-before-its-word-count test-cluster-doubt cluster-rounds.c \
  'beside && entered ? entered' '0 ? entered'
mutant next-writer-s-word-is-not-for-who-went-before test-cluster-doubt cluster-rounds.c \
  'member->round <= last)' 'member->round <= last || !beside)'
mutant joiner-is-believed-before-it-speaks test-cluster-doubt cluster-join.c \
  '    *said = told;' '    ;'
mutant last-words-before-the-writer-s-count test-cluster-doubt cluster-rounds.c \
  'w->heard |= speaks (a, m) && said_all (a, m)' 'w->heard |= speaks (a, m)'
mutant right-disk-is-one-too-many test-cluster-doubt cluster-rounds.c \
  'cluster_rounds_begun (c, a, a->disk[first]->round);
  if' 'return;
  if'

mutant old-copy-of-a-disk-is-believed test-cluster-copies cluster-stale.c \
  'hb->sequence < d->rec.sequence ||' ''
mutant old-copy-is-told-what-to-write test-cluster-copies cluster-admit.c \
  'd->array == NULL || cluster_copies_stays_out (d->array, d->position)' '1'
mutant old-copy-s-place-is-gone test-cluster-copies cluster-admit.c \
  'd->array == NULL || cluster_copies_stays_out (d->array, d->position)' \
  'cluster_copies_stays_out (d->array, d->position)'
mutant blank-disk-may-be-any-copy test-cluster-copies cluster-disk.c \
  'a->rec.ready && m->state == MEMBER_OUT
                         ? CONFIRMED_BY_NONE
                         : 0' '0'
mutant old-clone-takes-over-at-once test-cluster-copies cluster-disk.c \
  'too_soon = cluster_stale_copy' 'too_soon = 0 && cluster_stale_copy'
mutant disk-of-no-bytes-is-taken-in test-cluster-rules cluster-doubt.c \
  'if (hb->size == 0) {' 'if (0) {'
mutant nonsense-of-a-disk-is-taken-in test-cluster-rules cluster-doubt.c \
  'if (field == NULL)' 'if (1)'
mutant nonsense-is-kept-for-an-import test-cluster-import cluster-admit.c \
  '!cluster_doubt_nonsense (c, op, hb) &&
         !refuse_foreign (c, op, d, hb) &&' \
  '!refuse_foreign (c, op, d, hb) &&
         !cluster_doubt_nonsense (c, op, hb) &&'
mutant weftd-counts-beyond-the-last-start test-cluster-rules cluster.c \
  'if (c->identity.generation == GENERATION_MAX)' 'if (0)'
mutant change-waits-for-more-than-a-start test-cluster-doubt cluster.c \
  'if (a->rec.change.epoch)' 'if (0)'
mutant disk-larger-than-any test-cluster-rules cluster-array.c \
  'bytes = MEMBER_DATA_BYTES_MAX' 'bytes = UINT64_MAX'
mutant old-copy-is-known-until-weftd-s-next-start test-cluster-copies cluster-admit.c \
  'cluster_step_put_disk (c, d);' ''
mutant old-copy-is-not-reset test-cluster-copies cluster-disk.c \
  'cluster_stale_reset (c, a, d->position);' ';'
mutant old-copies-both-go-out test-cluster-copies cluster-copies.c \
  '(d->old_copy || cluster_disk_failed (d) ||' '(cluster_disk_failed (d) ||'
mutant member-that-stays-is-reset-one-day test-cluster-copies cluster-change.c \
  'a->rec.member[m].reset = false; /* it does not go after all */' ';'
mutant former-disk-of-a-rebuilt-member-is-believed test-cluster-copies cluster-commit.c \
  'member->confirmed = change->epoch;' ';'
mutant former-disk-has-the-number-of-the-join test-cluster-copies cluster-change.c \
  'epoch == a->rec.epoch)
      epoch++;' '0)
      epoch++;'
mutant words-out-of-order-make-an-old-copy test-cluster-copies cluster-stale.c \
  'strcmp (hb->instance, d->rec.instance) == 0)' '0)'
mutant clone-is-warned-of-without-end test-cluster-copies cluster-admit.c \
  'if (cluster_object_text_copy (d->rival.refused, sizeof d->rival.refused,
                                  w->heartbeat->instance))' 'if (1)'
mutant twins-are-imported test-cluster-import cluster-import-plan.c \
  'twin = plan->place[i].disk;' ';'
mutant disk-of-an-older-epoch-is-imported test-cluster-plan cluster-import-plan.c \
  '!(knows && said->round' '!(said && said->round'
mutant disk-that-has-confirmed-is-behind "test-cluster-plan test-cluster-import" \
  cluster-import-plan.c '(hb->min_epoch >= epoch &&' '(0 &&'
mutant disk-that-was-out-has-confirmed test-cluster-import cluster-import-plan.c \
  'hb->states[hb->position] != MEMBER_OUT);' '1);'
mutant disk-that-does-not-say-has-confirmed test-cluster-import cluster-import-plan.c \
  'hb->states_epoch > 0 &&' ''
mutant disk-that-was-replaced-has-confirmed test-cluster-plan cluster-import-plan.c \
  '(hb->min_epoch >= epoch &&' '(1 &&'
mutant disk-of-an-older-round-is-imported test-cluster-plan cluster-import-plan.c \
  'said->round + 1 >= plan->ahead->round' '1'
mutant disk-that-was-replaced-is-imported "sim-cluster-imports test-cluster-plan" \
  cluster-import-plan.c '!(knows && said->round + 1 >= plan->ahead->round)' '!said'
mutant import-numbers-epochs-again sim-cluster-imports cluster-import.c \
  'plan->epoch + UNHEARD_EPOCHS' 'plan->newest->states_epoch'
mutant import-goes-by-the-sequence test-cluster-plan cluster-import-plan.c \
  'return a->states_epoch < b->states_epoch;' 'return a->sequence < b->sequence;'
mutant import-without-those-who-went-on test-cluster-plan cluster-import-plan.c \
  'plan->gone_on = any &&' 'plan->gone_on = false &&'
mutant import-without-who-knows-more test-cluster-import cluster-import-plan.c \
  'plan->given_up = hb;' ';'
mutant accepted-loss-takes-what-is-needless test-cluster-plan cluster-import-plan.c \
  'while (import->accept_loss && (m = needless (plan, out)) >= 0)' 'while (0)'
mutant unknown-disk-s-doubt-is-only-logged test-cluster-doubts cluster-verdict.c \
  '  say_unknown (v, c);
' ''
mutant second-process-is-only-logged test-cluster-doubts cluster-verdict.c \
  '  say_twins (v, c);
' ''
mutant late-disk-is-only-logged test-cluster-doubts cluster-verdict.c \
  '  say_late (v, c);
' ''
mutant accepted-loss-goes-by-epochs test-cluster-plan cluster-import-plan.c \
  'return a->round < b->round;
  return knows_less (a, b);' 'return knows_less (a, b);'
mutant node-displaces-disks-of-others test-cluster-import cluster-import.c \
  'drop (c, own);' 'drop (c, TAILQ_FIRST (&c->foreigns));'
mutant node-takes-all-places-of-imports test-cluster-import cluster-import.c \
  'if (of_node >= NODE_DISKS_MAX)' 'if (0)'
mutant foreign-disks-without-bound test-cluster-import cluster-import.c \
  'else if (all >= DISKS_MAX)' 'else if (0)'
mutant import-of-a-known-array test-cluster-import cluster-import.c \
  'else if (a)' 'else if (0)'
mutant late-disk-is-not-named test-cluster-import cluster-admit.c \
  'cluster_import_note (c, hb);
    cluster_step_refuse (' 'cluster_step_refuse ('
mutant empty-place-takes-any-disk test-cluster-import cluster-admit.c \
  'else if (!agrees)' 'else if (0)'
mutant empty-place-takes-another-cluster-s-disk test-cluster-import cluster-import.c \
  'hb->has_place && cluster_uuid_equal (hb->cluster, c->identity.uuid) &&' \
  'hb->has_place &&'
mutant newer-disk-is-rebuilt-after-an-import test-cluster-import cluster-admit.c \
  'return hb->states_epoch > m->imported ||
         (' 'return ('
mutant disk-that-went-on-unheard-is-rebuilt test-cluster-import cluster-admit.c \
  '(m->imported_round && hb->round > m->imported_round)' 'false'
mutant silent-copies-count-as-lost test-cluster-verdict cluster-verdict-array.c \
  'lost          ? lost' 'false         ? lost'
mutant disks-of-a-restore-may-know-more test-cluster-restore cluster-verdict.c \
  'if (a && !a->rec.restoring && cluster_import' 'if (a && cluster_import'
mutant rounds-of-a-restore-are-not-kept test-cluster-restore cluster-restore.c \
  'cluster_import_rounds (a, round);' ''
mutant rounds-of-another-pair-count test-cluster-import cluster-import.c \
  'for (unsigned i = g.first; i < g.end; i++)
      if (a->rec.member[i].state == MEMBER_IN_SYNC && round' \
  'for (unsigned i = 0; i < a->layout.members; i++)
      if (a->rec.member[i].state == MEMBER_IN_SYNC && round'
mutant disk-is-itself-after-an-import test-cluster-import cluster-place.c \
  'm->confirmed = CONFIRMED_BY_NONE;' 'm->confirmed = 0;'
mutant held-place-is-forgotten-after-an-import test-cluster-import cluster-import.c \
  'm->held = held;' ';'
mutant clone-is-believed test-cluster-rules cluster-admit.c \
  '(contend (c, op, d, hb) || refuse_old (c, op, d, hb))' \
  'refuse_old (c, op, d, hb)'
mutant in-sync-unheard test-cluster-rebuild cluster-change.c \
  '!cluster_copies_synced (a, member))
    return true;' \
  '!cluster_copies_synced (a, member))
    (void)0;'
mutant same-as-another-report test-cluster-rules cluster-disk.c \
  'd->said->report != hb->report ||' ''
mutant same-as-another-process-said test-cluster-rules cluster-disk.c \
  'strcmp (d->said->instance, hb->instance) != 0 ||' ''
mutant told-less-than-it-knows test-cluster-rules cluster-tell.c \
  'd->told.reply && d->told.epoch == epoch && d->took_place &&' 'd->took_place &&'
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
mutant joiner-is-met-unseen test-cluster-rebuild cluster-process.c \
  'd->array->rec.member[d->position].state != MEMBER_OUT &&' \
  'd->array->rec.member[d->position].state == MEMBER_IN_SYNC &&'
mutant unmet-joiner-copies test-cluster-rebuild cluster-process.c \
  'return cluster_disk_heard (d) && !cluster_process_met (d);' 'return false;'

mutant silent-reader-is-forgotten test-cluster-attach cluster-change.c \
  '(s->rec.writable || s->alive || !written)' '(s->rec.writable || s->alive)'
mutant silent-reader-is-prepared-for test-cluster-attach cluster-change.c \
  '(s->rec.writable || s->alive || !written)' '1'
mutant passed-over-reader-reads-on test-cluster-attach cluster-session.c \
  'if (cluster_attach_refuse_late (c, op, a, s, hb->epoch))
    return;' ''
mutant passed-over-reader-is-not-known test-cluster-attach cluster-commit.c \
  'a->rec.unprepared = change->epoch;' ';'
mutant passed-over-reader-is-waited-for test-cluster-attach cluster-attach.c \
  's->alive = false;' ';'
mutant passed-over-reader-holds-a-change-up test-cluster-attach cluster-attach.c \
  '  cluster_array_due (c, a, DUE_CHANGE);
  cluster_pump_settle (c);
  if (!passed_over (c, a, s, epoch))
    return false;
' \
  ''
mutant passed-over-reader-reports test-cluster-attach cluster-lost.c \
  '!s->heard || (!s->rec.writable && !s->alive)' '!s->heard'
mutant passed-over-reader-asks-again test-cluster-attach cluster-attach.c \
  'if (passed_over (c, a, s, s->epoch)) {' 'if (0) {'
mutant silent-reader-keeps-its-session test-cluster-unequal \
  cluster-session-end.c 'silent_ms >= READER_DROP_MS' '0'
mutant passed-over-reader-is-kept-out test-cluster-attach cluster-commit.c \
  'a->rec.unprepared = 0;' ';'

# Processes that have kept their unflushed data.
mutant another-process-has-kept-all "test-cluster-key sim-cluster" cluster-process.c \
  '(d->cache[0] && strcmp (d->cache, d->rec.cache) == 0)' '1'
mutant unknown-cache-is-the-same-one test-cluster-key cluster-process.c \
  'd->cache[0] && strcmp (d->cache' 'strcmp (d->cache'
mutant disk-is-well-again-by-a-start test-cluster-key cluster-disk.c \
  '    stored |= cluster_object_text_copy (d->rec.cache, sizeof d->rec.cache, "");' '    ;'
mutant nobody-has-lost-anything "test-cluster-key sim-cluster" cluster-commit.c \
  '      member->lapse = change->epoch;' '      ;'
mutant rounds-given-since-vouch-for-a-disk test-cluster-key cluster-rounds.c \
  'a->rec.member[member].life_round;' 'cluster_member_round (a, member);'
mutant known-process-is-new-after-a-start test-cluster-key cluster-commit.c \
  '(change->confirm[m] && !cluster_process_met (a->disk[m]))) {
      member->life' 'change->confirm[m]) {
      member->life'
mutant new-process-is-the-known-one "test-cluster-key sim-cluster" cluster-commit.c \
  '(change->confirm[m] && !cluster_process_met (a->disk[m]))) {
      member->life' '0) {
      member->life'
mutant idle-writer-keeps-a-failed-member test-cluster-copies cluster-rebuild.c \
  ': cluster_disk_failed (a->disk[m]) ? failure (a->disk[m])' ''
# Rounds.
mutant round-behind-is-taken-in test-cluster-rounds cluster-stale.c \
  '         (hb->sequence < d->rec.sequence || hb->min_epoch < m->confirmed ||
          cluster_stale_behind (d, hb->round));' \
  '         (hb->sequence < d->rec.sequence || hb->min_epoch < m->confirmed);'
mutant process-that-no-writer-knows-is-not-judged test-cluster-rounds cluster-stale.c \
  '!(unmet || (changing' '!((changing'
mutant clone-makes-the-known-process-unknown test-cluster-rounds cluster-stale.c \
  'if (!unmet)
      snprintf' 'if (1)
      snprintf'
mutant one-round-behind-is-old test-cluster-rounds cluster-stale.c \
  'return round + 2 <= a->rec.round;' 'return round + 1 <= a->rec.round;'
mutant joiner-keeps-what-an-old-copy-gave test-cluster-rounds cluster-stale.c \
  'for (unsigned m = 0; any && m' 'for (unsigned m = 0; 0 && m'
mutant joiner-beside-an-old-copy-goes-on test-cluster-rounds cluster-rebuild.c \
  'a->rec.member[member].reset)
    return' '0)
    return'
mutant out-member-owes-later-rounds test-cluster-rounds cluster-stale.c \
  'return round + 2 <= m->round;' 'return round + 2 <= a->rec.round;'
mutant round-is-not-stored test-cluster-rounds cluster-rounds.c \
  '  a->stored_live_ms = c->live_ms;
  cluster_step_put_array (c, a);' '  a->stored_live_ms = c->live_ms;'
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

# Sessions that may attach.
mutant any-node-attaches test-cluster-allow cluster-attach-check.c \
  'if (!attach->by_admin && !cluster_allowed (a, node, attach->writable)) {' 'if (0) {'
mutant list-binds-an-administrator test-cluster-allow cluster-attach-check.c \
  'if (!attach->by_admin && !cluster_allowed' 'if (!cluster_allowed'
mutant reader-writes test-cluster-allow cluster-access.c \
  '(n && (n->writable || !writable));' 'n != NULL;'
mutant any-node-takes-over test-cluster-allow cluster-attach-check.c \
  '(attach->by_admin || cluster_allowed_failover (a, node));' 'true;'
mutant writer-has-failover test-cluster-allow cluster-access.c \
  '(n && n->failover);' '(n && n->writable);'
mutant silent-holder-needs-failover test-cluster-allow cluster-attach-check.c \
  'cluster_session_silent_ms (c, s) >= QUIET_MS)
    return false;' '0)
    return false;'
mutant takeover-goes-round-the-service test-cluster-allow cluster-attach.c \
  'if (!cluster_attach_check_refuse_asker (c, in->op, a, asked,
                                          &attach->takeover) &&' \
  'if (!cluster_attach_check_refuse_asker (c, in->op, a, asked, &(bool){ false }) &&'
mutant old-array-lets-nobody-in test-cluster-allow cluster-access.c \
  'return !a->rec.allow.listed || (n && (n->writable' 'return (n && (n->writable'
mutant old-array-has-no-takeover test-cluster-allow cluster-access.c \
  'return !a->rec.allow.listed || (n && n->failover' 'return (n && n->failover'
mutant list-begins-with-nobody test-cluster-allow cluster-array.c \
  'if (!create->allow.listed)' 'if (0)'
mutant list-at-create-is-ignored test-cluster-allow cluster-array.c \
  'if (!create->allow.listed)' 'if (1)'
mutant first-line-cuts-users-off test-cluster-allow cluster-access-order.c \
  'fits = users (c, a, &list);' 'cluster_access_begin (a, &list);'
mutant session-outlives-its-right test-cluster-allow cluster-access-order.c \
  'if (!cluster_access_session (a, &s->rec)) {' 'if (0) {'
mutant denied-writer-is-not-fenced test-cluster-allow cluster-access-order.c \
  'cluster_session_end_cut (c, s, words);' 'cluster_session_end (c, s, "%s", words);'
mutant administrator-s-session-ends test-cluster-allow cluster-access.c \
  'return s->by_admin || cluster_allowed' 'return cluster_allowed'
mutant waiting-attach-outlives-its-right test-cluster-allow cluster-access-order.c \
  'if (has_lost (w, a, &writable)) {' 'if (0) {'
mutant heartbeat-needs-no-right test-cluster-allow cluster-session-end.c \
  'if (s && !s->rec.ended && c->read_only[0] ==' 'if (0 && c->read_only[0] =='
mutant server-is-not-told-the-list test-cluster-allow cluster-access-order.c \
  '  a->rec.allow_fence = cluster_fence_number_next (c);' ''
mutant shared-array-is-served test-cluster-lease cluster-service.c \
  '!refuse_shared (c, in->op, a) &&' ''
mutant candidate-has-no-right test-cluster-allow cluster-service.c \
  '  a->rec.allow = list;' ''
mutant denied-node-may-serve test-cluster-allow cluster-access-order.c \
  'drop_candidates (a, gone);' ';'
mutant removed-node-stays-in-the-list test-cluster-allow cluster-node.c \
  'cluster_access_order_forget (c, name);' ''
mutant list-is-not-stored test-cluster-allow cluster-access-order.c \
  '  cluster_step_put_array (c, a);' ''

# The array service: its server, and the acknowledged data of a dead server.
mutant session-waiting-for-the-store-is-silent test-cluster-service cluster-session-end.c \
  'if (cluster_step_unsaid (c, s->answer))' 'if (0)'
mutant disk-waiting-for-the-store-is-silent test-cluster-service cluster-disk.c \
  'if (d->state != DISK_STARTING)
      d->last_live_ms = c->live_ms;
    if' 'if'
mutant disk-is-taken-before-the-known-one-was-asked test-cluster-rules cluster-disk.c \
  '    if (d->rival.since_live_ms)
      d->rival.since_live_ms = c->live_ms;' ''
mutant dead-waits-for-the-store test-cluster-service cluster-step.c \
  'return c->unsaid && number >= c->unsaid;' 'return c->unsaid;'
mutant serves-beside-a-living-one test-cluster-service cluster-candidates.c \
  'return holder == NULL || cluster_session_missed (c, holder) ||' 'return 1 ||'
mutant serves-beside-one-that-is-let-in test-cluster-service cluster-candidates.c \
  'if (w->kind == WAIT_ATTACH && w->grant->writable)
      return false;' ''
mutant first-heard-takes-the-service test-cluster-service cluster-candidates.c \
  'cluster_session_missed (c, holder)' '!holder->alive'
mutant standby-is-not-heard-again test-cluster-service cluster-candidates.c \
  'cluster_array_heard (c, a);' ';'
mutant lull-begins-while-one-stands-by test-cluster-service cluster-objects.c \
  'if (c->live_ms < a->stands[i].asked_live_ms + LULL_MS)' 'if (0)'
mutant one-that-was-started-is-heard-again test-cluster-service cluster-candidates.c \
  'if (!cluster_object_text_copy (a->stands[i].instance' \
  'if (1 | cluster_object_text_copy (a->stands[i].instance'
mutant any-node-serves test-cluster-service cluster-attach-check.c \
  'cluster_candidate_find (a, attach->node) == a->rec.service_nodes)' '0)'
mutant served-array-is-written-aside test-cluster-service cluster-attach-check.c \
  '!attach->service && attach->writable && a->rec.service_nodes > 0 &&' '0 &&'
mutant first-come-serves test-cluster-service cluster-candidates.c \
  'cluster_candidate_rank (c, a, other) < cluster_candidate_rank (c, a, i))
      return false;' '0)
      return false;'
mutant best-is-not-waited-for test-cluster-service cluster-candidates.c \
  'best = best && cluster_candidate_rank (c, a, other) >=
                     cluster_candidate_rank (c, a, i);' ';'
mutant best-is-waited-for-without-end test-cluster-service cluster-candidates.c \
  'c->live_ms >= a->stands[i].since_live_ms + SERVICE_SETTLE_MS' 'false'
mutant beside-a-member-is-as-good test-cluster-service cluster-candidates.c \
  'if (cluster_service_beside (a, node))' 'if (0)'
mutant maintenance-is-as-good test-cluster-service cluster-candidates.c \
  'if (cluster_node_in_maintenance (c, node) ||
      cluster_node_is_draining (c, node))' 'if (0)'
mutant order-to-move-stands-for-ever test-cluster-service cluster-candidates.c \
  'c->live_ms < a->service_to_live_ms' '1'
mutant leaves-for-nobody test-cluster-service cluster-candidates.c \
  'cluster_service_stands_by (c, a, i) &&
        (!here' '(!here'
mutant stays-without-a-service test-cluster-service cluster-candidates.c \
  'if (a->rec.service_nodes == 0)
    return true;' ''
mutant not-told-to-leave test-cluster-service cluster-tell.c \
  's->told.leave = cluster_candidate_leaves (c, a, s);' ''
mutant kept-with-another-process test-cluster-service cluster-lapse.c \
  '(a->rec.member[m].state != MEMBER_IN_SYNC || a->known[m])' '1'
mutant older-copy-is-no-lapse test-cluster-service cluster-lapse.c \
  'a->rec.lapse = a->rec.writer_epoch;' ';'
mutant older-copy-is-a-lapse-of-later test-cluster-service cluster-lapse.c \
  'if (a->rec.lapse >= a->rec.writer_epoch)
    return;
  a->rec.lapse = a->rec.writer_epoch;' 'a->rec.lapse = a->rec.epoch;'
mutant kept-without-the-images test-cluster-service cluster-lapse.c \
  'bool kept = !a->rec.risky;' 'bool kept = true;'
mutant images-of-sync-client-are-missed test-cluster-service cluster-lapse.c \
  '!written_out && async' '!written_out'
mutant risk-outlives-the-rebuild test-cluster-service cluster-lapse.c \
  'if (written_out)' 'if (0)'
mutant nobody-was-prepared test-cluster-service cluster-lapse.c \
  'prepared && cluster_array_writer (a)' 'prepared'
mutant lapse-beside-the-server-is-forgotten test-cluster-service cluster-lapse.c \
  '!cluster_process_kept (a->disk[m]))
      a->rec.lapse = change->epoch;' '!cluster_process_kept (a->disk[m]))
      ;'
mutant detached-and-lost test-cluster-service cluster-lapse.c \
  'a->rec.writer_epoch = 0;' ''
mutant eviction-is-a-detach test-cluster-service cluster-session-end.c \
  's->rec.writable && s->rec.part.length == 0 && by == NULL)' 's->rec.writable)'
mutant equal-with-the-grant test-cluster-service cluster-lapse.c \
  'a->rec.unequal = a->rec.writer_epoch != 0;' ''
mutant unequal-copy-goes-out sim-crashes cluster-lapse.c \
  'if (a->rec.unequal && async)' 'if (0)'
mutant unequal-copy-goes-out-in-order test-cluster-service cluster-lapse.c \
  'if (a->rec.unequal && async)' 'if (a->rec.unequal && async && !written_out)'
mutant unequal-with-sync-client test-cluster-service cluster-lapse.c \
  'if (a->rec.unequal && async)' 'if (a->rec.unequal)'
mutant unequal-for-ever test-cluster-service cluster-lapse.c \
  'a->rec.unequal = false;' ''
mutant equal-without-a-word test-cluster-service cluster-session.c \
  'if (hb->equal &&' 'if (1 &&'
mutant detached-before-it-is-equal test-cluster-service cluster-lapse.c \
  'if (a->rec.unequal)
    return;
  a->rec.writer_epoch = 0;' 'a->rec.writer_epoch = 0;'
mutant order-to-move-ends-unheeded test-cluster-service cluster-candidates.c \
  'other != i && ordered (c, a, a->rec.service_node[other]) &&' '0 &&'
mutant order-to-move-ends-with-a-refusal test-cluster-service cluster-attach.c \
  'if (cluster_candidate_turn (c, a, attach))' 'if (a->service_to[0] = 0, cluster_candidate_turn (c, a, attach))'

# A node is fenced.
mutant fence-before-a-server-is-refused test-cluster-service cluster-fence.c \
  'if (!s->rec.ended || !(here || cluster_session_guarded (s)))' 'if (!here)'
mutant fence-number-above-weftds-confirms test-cluster-service cluster-session.c \
  'hb->fences <= cluster_fence_number (c) ? hb->fences : 0' \
  'hb->fences <= cluster_fence_number (c) ? hb->fences : cluster_fence_number (c)'
mutant fence-passed-by-a-number test-fenced fenced.c \
  'below >= EPOCH_MAX ||' ''
mutant fence-number-of-the-future test-fenced fenced.c \
  'says > newest ? FENCED_UNKNOWN : FENCED_NOT' 'FENCED_NOT'
mutant fence-goes-with-the-node test-cluster-service cluster-node.c \
  'if (n && n->rec.fence) {' 'if (0) {'
mutant fenced-node-is-removed test-cluster-service cluster-node.c \
  'if (cluster_node_is_fenced (c, name)) {' 'if (0) {'
mutant fence-without-servers test-cluster-service cluster-fence.c \
  's->fences < n->rec.fence)' '0)'
mutant cut-off-exports-are-not-said test-cluster-allow cluster-preflight.c \
  's->rec.exports &&' '0 &&'
mutant reader-that-keeps-its-right-is-cut-off test-cluster-allow cluster-preflight.c \
  '(n == NULL && cluster_allowed (a, allow->node, false))' 'cluster_allowed (a, allow->node, false)'
mutant fence-without-exports test-cluster-service cluster-objects.c \
  'return s->rec.service || s->rec.exports;' 'return s->rec.service;'
mutant exports-are-forgotten test-cluster-service cluster-attach.c \
  '.exports = attach->exports' '.exports = false'
mutant fence-without-members test-cluster-service cluster-fence.c \
  'if (waits_for (c, a, m))
        return false;' ';'
mutant fence-leaves-sessions test-cluster-service cluster-fence.c \
  'cluster_session_end_cut (c, s, by);
}' ';
}'
mutant fence-waits-for-silent-servers test-cluster-service cluster-fence.c \
  'if (cluster_session_guarded (s) && !s->rec.ended && !s->alive)' 'if (0)'
mutant fence-unconfirmed-is-done test-cluster-service cluster-fence.c \
  'else if (cluster_fence_done (c, w))' 'else if (1)'
mutant fenced-node-attaches test-cluster-service cluster-attach-check.c \
  'refuse_fenced (c, op, a, attach) ||' ''
mutant fenced-node-stands-by test-cluster-service cluster-fence.c \
  '  cluster_node_refuse_waiting (c, n->rec.name, true, "fenced",
                               "fenced just now");' ''
mutant old-clients-are-let-in-again test-cluster-service cluster-objects.c \
  'return n->rec.fenced ? EPOCH_MAX : n->rec.fence;' 'return n->rec.fenced ? EPOCH_MAX : 0;'
mutant fence-waits-for-a-doubted-member test-cluster-service cluster-fence.c \
  'a->disk[m]->doubt.kind != CLUSTER_DOUBT_OPEN ||' '1 ||'
mutant fence-loses-a-session test-cluster-service cluster-session-end.c \
  '&&
          !is_waited_for (c, s))' ')'
mutant fences-are-not-stored test-cluster-allow cluster-fence-number.c \
  '  cluster_step_put_identity (c);
  return c->identity.fences;' '  return c->identity.fences;'
mutant fences-are-the-time test-cluster-allow cluster-fence-number.c \
  'c->identity.fences = next > now ? next : now;' '(void) next, c->identity.fences = now;'
mutant end-of-a-fence-is-not-told test-cluster-service cluster-fence.c \
  'if (n->rec.fenced != on)
      number (c, n);' 'if (on && !n->rec.fenced)
      number (c, n);'
mutant replaced-while-the-array-stands-still test-cluster-doubt cluster-member.c \
  'refuse_going (c, op, a, member) ||' ''

# Another key for a disk (cluster-rekey.c).
mutant key-without-a-fence test-cluster-rekey cluster-rekey.c \
  '      confirm[m] = true;' ''
mutant key-is-in-force-before-the-fence test-cluster-rekey cluster-disk-orders.c \
  'memcpy (d->rec.next_key, in->random, KEY_BYTES);' \
  'memcpy (d->rec.next_key, in->random, KEY_BYTES), memcpy (d->rec.key, in->random, KEY_BYTES);'
mutant key-is-not-told test-cluster-rekey cluster-tell.c \
  'no_news && !d->rec.untold;' 'no_news;'
mutant key-waits-for-other-news test-cluster-rekey cluster-tell.c \
  '(d->rec.untold && !(d->told.reply && d->told.key))' 'false'
mutant key-counts-as-told-when-it-is-drawn test-cluster-rekey cluster-rekey.c \
  '  d->told.key = false;' ''
mutant fence-for-a-key-is-given-up-at-once test-cluster-rekey cluster-commit.c \
  'confirm[m] |= asked[m] && cluster_rekey_confirms (c, a, m);' ''
mutant fence-for-a-key-is-a-loss test-cluster-rekey cluster-lost.c \
  'rekeyed = cluster_rekey_cuts (c, a, s, member);' 'rekeyed = false;'
mutant fence-for-a-key-hides-any-loss test-cluster-rekey cluster-rekey.c \
  '         s->epoch < cluster_disk_min_epoch_wanted (d);' '         true;'
mutant dead-member-is-waited-for-with-its-key test-cluster-rekey cluster-rekey.c \
  'c->live_ms < d->told.key_live_ms + ATTACH_MS' 'true'
mutant restart-of-weftd-makes-a-loss-of-a-key test-cluster-rekey cluster.c \
  'cluster_rekey_begin (c);' ''
mutant keys-of-all-members-at-once test-cluster-rekey cluster-rekey.c \
  'if (!here || s->epoch != a->rec.epoch)' 'if (!here)'
mutant joiner-gets-another-key test-cluster-rekey cluster-rekey.c \
  'a->rec.member[m].state == MEMBER_JOINING)' 'false)'
mutant key-of-a-silent-member-goes test-cluster-rekey cluster-rekey.c \
  '!cluster_member_well (a, m, &why) ||
          cluster_process_reborn (c, a, m) ||' ''
mutant free-disk-keeps-its-key test-cluster-rekey cluster-disk.c \
  'cluster_rekey_free (c, d);' ''
mutant fence-for-a-key-excuses-later-losses test-cluster-rekey cluster-rekey.c \
  'return lately && is_fenced' 'return is_fenced'

# Reads are held until what was begun has arrived.
mutant reads-go-on-before-older-writes-arrive test-cluster-change cluster-pump.c \
  'if (s->alive && s->arrived < a->moved)' 'if (0)'
mutant reads-wait-for-a-silent-writer test-cluster-change cluster-pump.c \
  'if (s->alive && s->arrived < a->moved)' 'if (s->arrived < a->moved)'
mutant reads-go-on-beside-who-has-ended test-cluster-part cluster-pump.c \
  'cluster_shut_waits_for (a, m, s->rec.id)' '0'
mutant arrived-with-the-epoch test-cluster-change cluster-pump.c \
  's->arrived < a->moved' 's->epoch < a->moved'
mutant reads-wait-for-an-older-version test-cluster-change cluster-session.c \
  'hb->arrived ? hb->arrived : hb->epoch' 'hb->arrived'
mutant who-is-behind-is-forgotten-by-a-start test-cluster-change cluster.c \
  '  a->moved = r->epoch;' '  ;'
mutant readers-are-not-told-to-go-on test-cluster-change cluster-tell.c \
  '(s->told.hold && s->poll->array->moved == 0) ||' ''

# Disks that hang.
mutant hung-member-stays "test-cluster-hung sim-cluster" cluster-rebuild.c \
  'cluster_copies_disk_hangs (a->disk[m])  ? DISK_HANGS' 'false ? DISK_HANGS'
mutant taken-back-onto-a-disk-that-hangs test-cluster-hung cluster-rebuild.c \
  '!cluster_copies_disk_doubtful (d) && d->took_place' 'd->took_place'
mutant rebuild-goes-on-while-the-disk-hangs test-cluster-hung cluster-rebuild.c \
  'cluster_copies_disk_hangs (d) ? DISK_HANGS' 'false     ? DISK_HANGS'
mutant spare-whose-disk-hangs test-cluster-hung cluster-place.c \
  'else if (cluster_copies_disk_doubtful (d))' 'else if (0)'
mutant no-spare-while-the-process-lives test-cluster-hung cluster-rebuild.c \
  'bool broken = cluster_disk_failed (d) || cluster_copies_disk_hangs (d) ||' \
  'bool broken = cluster_disk_failed (d) ||'
mutant hung-copy-counts test-cluster-hung cluster-copies.c \
  ' ||
                                       cluster_copies_disk_hangs (d)));' '));'
mutant disk-that-is-gone-is-not-told test-cluster-hung cluster-disk.c \
  'd->state = hb->state;' 'd->state = hb->state == DISK_REMOVED ? DISK_FAILED : hb->state;'
mutant last-copy-that-is-gone-is-not-named test-cluster-hung cluster-verdict-array.c \
  'd->old_copy || d->state == DISK_REMOVED ||
                  cluster_copies_disk_hangs (d)' \
  'd->old_copy || cluster_copies_disk_hangs (d)'
mutant place-for-a-disk-that-hangs test-cluster-hung cluster-place.c \
  'else if (cluster_copies_disk_doubtful (d))' 'else if (false)'
mutant hung-member-that-another-reaches-stays test-cluster-part cluster-process.c \
  '      cluster_copies_disk_doubtful (a->disk[member]) ||
' ''
mutant no-spare-for-a-member-that-flaps test-cluster-hung cluster-rebuild.c \
  'd->back.flaps_live_ms = c->live_ms;' ';'

# Members that are slow, and lines that swallow.
mutant slow-member-goes-out-unasked sim-cluster-sick cluster-rebuild.c \
  'a->rec.slow_out_ms == 0 || ' ''
mutant slow-member-is-not-named sim-cluster-sick cluster-slow.c \
  'a->slow_live_ms[m] = c->live_ms;' ';'
mutant well-member-is-called-slow sim-cluster-sick cluster-slow.c \
  '(s->load.stats.member[member].suspect || !suspect)' 'true'

# Words that are overdue.
mutant first-that-shares-is-ended-in-its-resync test-cluster-lease cluster-overdue.c \
  '(s->rec.leases && s->lessee.order == 0));' 's->rec.leases);'
mutant part-is-ended-in-its-resync test-cluster-lease cluster-overdue.c \
  '(s->rec.leases && s->lessee.order == 0));' 's->lessee.order == 0);'
mutant overdue-member-stays test-cluster-overdue cluster-rebuild.c \
  ': overdue (a->disk[m], owed, sizeof owed);' \
  ': (overdue (a->disk[m], owed, sizeof owed), NULL);'
mutant change-waits-for-an-overdue-member test-cluster-overdue cluster-commit.c \
  'd->old_copy || d->overdue ||' 'd->old_copy ||'
mutant overdue-member-comes-back test-cluster-overdue cluster-rebuild.c \
  'member->slow || d->overdue ||' 'member->slow ||'
mutant joiner-withholds-its-word test-cluster-overdue cluster-rebuild.c \
  ': overdue (d, words, size);' ': (overdue (d, words, size), NULL);'
mutant no-spare-for-an-overdue-member test-cluster-hung cluster-rebuild.c \
  'd->overdue || m->slow;' 'm->slow;'
mutant overdue-session-goes-on test-cluster-overdue cluster-session-end.c \
  '    end_overdue (c, s);' '    ;'
mutant overdue-writer-ends-alone test-cluster-overdue cluster-session-end.c \
  'goes = other != s && other->alive && !other->overdue;' 'goes = true;'
mutant overdue-writer-is-not-replaced test-cluster-overdue cluster-candidates.c \
  'holder->overdue ||' ''
mutant busy-disk-has-no-longer test-cluster-overdue cluster-overdue.c \
  '#define BUSY_PATIENCE 4' '#define BUSY_PATIENCE 1'
mutant silent-debtor-is-counted test-cluster-overdue cluster-overdue.c \
  'c->live_ms < d->spoke_live_ms + REST_MS + HEARTBEAT_MS;' 'true;'
mutant session-answers-for-a-member test-cluster-overdue cluster-overdue.c \
  'serve ? ms : 0' 'ms'
mutant lost-member-excuses-a-session test-cluster-overdue cluster-overdue.c \
  'if (states[m] != MEMBER_OUT &&' 'if (a->rec.member[m].state != MEMBER_OUT &&'
mutant said-word-is-still-owed test-cluster-overdue cluster-overdue.c \
  'o->asked == 0 || paid ||' 'o->asked == 0 ||'
mutant nothing-is-owed-between-asks test-cluster-overdue cluster-overdue.c \
  '(asked == 0 && !keeps)' 'asked == 0'
mutant given-lease-does-not-count test-cluster-overdue cluster-lease.c \
  's->lessee.gave += is_asked_for (a, s, &left);' ';'
mutant overdue-is-not-named test-cluster-overdue cluster-verdict-array.c \
  '  say_owed (v, a);' ''

# Members that are slow.
mutant slow-member-goes-out-by-itself test-cluster-hung cluster-rebuild.c \
  'a->rec.slow_out_ms == 0 ||' ''
mutant slow-member-stays test-cluster-hung cluster-rebuild.c \
  ': too_slow (c, a, m, words, sizeof words)' ': false'
mutant slow-member-comes-back test-cluster-hung cluster-rebuild.c \
  'member->held || member->slow ||' 'member->held ||'
mutant no-spare-for-a-slow-member test-cluster-hung cluster-rebuild.c \
  'd->overdue || m->slow;' 'd->overdue;'
mutant slow-once-is-slow-for-ever test-cluster-hung cluster-slow.c \
  'else if (c->live_ms >= a->slow_seen_live_ms[m] + QUIET_MS)' 'else if (0)'
mutant slow-is-forgotten-at-once test-cluster-hung cluster-slow.c \
  'c->live_ms >= a->slow_seen_live_ms[m] + QUIET_MS' '1'

mutant refused-disk-is-only-silent test-cluster-doubts cluster-verdict-array.c \
  'if (!d->alive && d->reason[0])' 'if (0)'
mutant disk-of-another-node-is-only-silent test-cluster-doubts cluster-admit.c \
  'if (cluster_object_text_copy (d->reason, sizeof d->reason, p->detail))
      cluster_step_changed_disk (c, d);
  }' \
  ';
  }'
mutant full-member-is-taken-back test-cluster-room cluster-rebuild.c \
  ' || cluster_room_lacks (d))' ')'
mutant no-room-is-not-looked-for test-cluster-room cluster-room.c \
  'r->free < EXTENT_BYTES);' '0);'
mutant wait-for-memory-is-no-word test-cluster-room cluster-verdict-array.c \
  's->load.stats.memory_wait_ns >= ROOM_REFUSED_MS' \
  's->load.stats.memory_wait_ns / 1000 >= ROOM_REFUSED_MS'
mutant room-is-low-where-it-suffices test-cluster-room cluster-room.c \
  'r->wanted > r->free &&
         r->free <= r->size / 10;' 'r->free <= r->size / 10;'
mutant member-with-errors-is-given-back test-cluster-part cluster-lost.c \
  '(!answers && refuse_apart (c, op, s, a, member))' \
  'refuse_apart (c, op, s, a, member)'

# weftd is restored from a backup.
mutant restore-takes-old-copies test-cluster-restore cluster-restore.c \
  'plan->old[m] = f->hb.round + 2 <= f->ahead;' 'plan->old[m] = false;'
mutant restore-rebuilds-what-has-confirmed test-cluster-restore cluster-restore.c \
  'return cluster_import_plan_knows (&f->hb, plan->states_epoch) ||' \
  'return f->hb.states_epoch == plan->states_epoch ||'
mutant restore-takes-what-is-late test-cluster-restore cluster-restore.c \
  'late[m] = !is_current (a, plan, f);' 'late[m] = false;'
mutant restore-doubts-the-disks-of-its-epoch test-cluster-restore \
  cluster-restore.c '(plan->states_epoch == a->rec.epoch &&' '(0 &&'
mutant restore-goes-on-without-the-successor "sim-cluster-alone test-cluster-restore" \
  cluster-restore.c 'if (any && layout_loss (&a->layout, others, NULL) == 0)' 'if (0)'
mutant restore-doubts-a-disk-of-the-last-epoch test-cluster-restore \
  cluster-restore.c '(f && is_right (a, plan, f))' '(f && is_current (a, plan, f))'
mutant restore-trusts-a-disk-of-three-epochs-ago test-cluster-restore \
  cluster-restore.c 'f->hb.states_epoch + 2 >= plan->states_epoch' \
  'f->hb.states_epoch + 3 >= plan->states_epoch'
mutant restore-ignores-what-is-given-up test-cluster-restore cluster-restore.c \
  'if (f && (f->hb.states_epoch > plan->states_epoch ||' \
  'if (0 && (f->hb.states_epoch > plan->states_epoch ||'
mutant restore-loses-without-a-word test-cluster-restore cluster-restore.c \
  'plan->old, &m) && !accepted)' 'plan->old, &m) && order == NULL)'
mutant restore-numbers-below-members "sim-cluster-restores test-cluster-restore" cluster-restore.c \
  'plan->epoch + RESTORE_EPOCHS' 'r->epoch + 1'
mutant restore-lets-sessions-go-on "sim-cluster-restores test-cluster-restore" cluster-restore.c \
  '  while ((s = TAILQ_FIRST (&a->sessions)))
    cluster_session_end (c, s, "weftd was restored from a backup");' \
  '  (void) s;'
mutant restore-believes-one-stranger test-cluster-restore cluster-restore.c \
  'if (order == NULL && !is_borne_out (c, a, f))' 'if (0)'
mutant restore-goes-without-members "sim-cluster-restores test-cluster-restore" cluster-restore.c \
  'if (plan->states[m] == MEMBER_IN_SYNC && plan->found[m] == NULL &&' \
  'if (0 && plan->found[m] == NULL &&'
mutant restore-knows-no-deleted-array test-cluster-restore cluster-admit.c \
  'd->array->rec.restoring && a != d->array' '0'
mutant restore-tells-members-before test-cluster-restore cluster-admit.c \
  '!refuse_restoring (c, op, d, hb) && !refuse_doubted' '!refuse_doubted'
mutant mended-where-nothing-is-good test-cluster-bad cluster-bad.c \
  'bad->reason == BAD_WRITE && bad->copy_left' 'bad->reason == BAD_WRITE'
mutant mending-makes-zeroes test-cluster-bad cluster-bad.c \
  'order (c, a, s, &mend, 0)' 'order (c, a, s, &mend, a->rec.epoch)'
mutant mending-goes-before-people test-cluster-bad cluster-bad.c \
  'if (last->epoch > 0)' 'if (0)'

# Clients that do not reach the process that serves.
mutant unreached-server-stays test-cluster-service cluster-reach.c \
  'if (to < a->rec.service_nodes)' 'if (0)'
mutant one-word-moves-a-service test-cluster-service cluster-reach.c \
  'u->heard_live_ms < u->since_live_ms + SERVICE_UNREACHED_MS' '0'
mutant word-about-the-last-server-moves-the-next test-cluster-service cluster-reach.c \
  's->rec.id == session &&
           cluster_session_silent_ms' 'cluster_session_silent_ms'
mutant service-moves-to-where-as-many-wait test-cluster-service cluster-reach.c \
  'unsigned best = a->rec.service_nodes;' \
  'unsigned best = a->rec.service_nodes;

  missed++;'
mutant service-moves-back-at-once test-cluster-service cluster-reach.c \
  's->draining || rests (c, a) ||' 's->draining ||'
mutant moves-never-get-rarer test-cluster-service cluster-reach.c \
  'a->reach_rest_ms = calm_ms;' ';'
mutant service-moves-without-a-member test-cluster-service cluster-reach.c \
  'rests (c, a) || !ready (c, a) ||' 'rests (c, a) ||'
mutant reached-again-is-not-heard test-cluster-service cluster-reach.c \
  'is_of (&a->unreached[i], client, server)' '0'
mutant served-where-a-client-waits test-cluster-service cluster-candidates.c \
  'if (cluster_candidate_missed (c, a, node) > 0)' 'if (0)'
mutant dry-run-forgets-the-restore test-cluster-restore cluster-preflight.c \
  'if (a && a->rec.restoring) {' 'if (0) {'
mutant who-reached-it-is-not-noted test-cluster-part cluster-commit.c \
  'change->states[m] == MEMBER_OUT)
      note_reached (a, m);' \
  'change->states[m] == MEMBER_OUT)
      ;'
mutant lost-for-people-though-given-back test-cluster-part cluster-commit.c \
  '      s->path[member].unreached_live_ms = 0;' ''
mutant report-of-a-loss-holds-up-the-next test-cluster-change cluster-lost.c \
  'WAIT_LOST, op, LOST_MS' 'WAIT_LOST, op, ATTACH_MS'
mutant errors-are-a-bad-line test-cluster-part cluster-lost.c \
  'if (!answers) {' '{'
mutant process-that-is-gone-is-a-bad-line test-cluster-part cluster-verdict-line.c \
  'if (!d->alive && (out || reach.count == 0))' 'if (0)'
mutant line-is-blamed-for-a-disk-that-hangs test-cluster-part cluster-verdict-line.c \
  'd->old_copy ||
      cluster_copies_disk_hangs (d) ||' 'd->old_copy ||'

# Volumes of a pool.
mutant volumes-number-twice test-cluster-volume cluster-holder.c \
  'if (message->number > s->rec.volumes)
      carry_out' 'carry_out'
mutant volumes-gap-is-passed-over test-cluster-volume cluster-holder.c \
  'if (a->pool && message->number > s->rec.volumes + 1)' 'if (0)'
mutant volumes-grant-is-not-stored test-cluster-volume cluster-holder.c \
  '  v->rec.number = s->rec.volumes;
  cluster_step_put_volume (c, v);' '  v->rec.number = s->rec.volumes;'
mutant volumes-number-is-not-stored test-cluster-volume cluster-holder.c \
  '  cluster_step_put_session (c, s);' ''
mutant volumes-granted-before-a-scan test-cluster-volume cluster-holder.c \
  'a->rec.pool == CLUSTER_POOL_UNSCANNED' '0'
mutant volumes-taken-twice-in-a-message test-cluster-volume cluster-holder.c \
  'cluster_uuid_equal (message->volume[k].uuid, w->uuid)' '0'
mutant volumes-opened-while-deleting test-cluster-volume cluster-holder.c \
  '  if (v->rec.state == CLUSTER_VOLUME_DELETING) {' '  if (0) {'
mutant volumes-all-to-one test-cluster-volume cluster-holder.c \
  'room / 4 > VOLUME_WINDOW_MIN' 'room > VOLUME_WINDOW_MIN ? room : room / 4 > VOLUME_WINDOW_MIN'
mutant volumes-heartbeat-shows-nothing test-cluster-volume cluster-session.c \
  'if (a->pool && hb->volumes > s->rec.volumes)' 'if (0)'
mutant volumes-data-takes-the-logs-share test-cluster-volume cluster-space.c \
  'return p->free > kept ? p->free - kept : 0;' 'return p->free;'
mutant volumes-two-owners test-cluster-volume cluster-space.c \
  'while (segment < end && p->owner[segment] != 0)' 'while (segment < end && 0)'
mutant volumes-page-is-not-stored test-cluster-volume cluster-space.c \
  '      store_page (c, a, page, false);' ''
mutant volumes-deletion-is-forgotten test-cluster-volume cluster-volume.c \
  '    if (v->rec.state == CLUSTER_VOLUME_DELETING)
      cluster_volume_order' '    if (0)
      cluster_volume_order'
mutant volumes-order-of-the-dead test-cluster-volume cluster-volume.c \
  '    v->order.number = 0;
  }' '  }'
mutant volumes-order-waits-for-the-tick test-cluster-volume cluster-tell.c \
  's->told.order < s->poll->array->pool->newest_order' '0'
mutant volumes-pool-to-an-older-process test-cluster-volume cluster-attach-check.c \
  'if (!attach->pools)' 'if (0)'
mutant volumes-pool-in-any-mode test-cluster-volume cluster-attach-check.c \
  '!attach->writable || attach->part.length > 0 || attach->service' '0'
mutant volumes-restored-without-a-scan test-cluster-doubts cluster-restore.c \
  '  cluster_volume_unscanned (c, a);' ''
mutant volumes-shrink test-cluster-volume cluster-pool.c \
  'size < v->rec.size' '0'
mutant volumes-pool-is-served test-cluster-volume cluster-service.c \
  '!refuse_pool (c, in->op, a) &&' ''
mutant volumes-scan-keeps-nothing test-cluster-volume cluster-scan.c \
  'scan->found[v->rec.root].kept);' '0);'
mutant volumes-scan-grants-what-is-found test-cluster-volume cluster-scan.c \
  '  cluster_space_adopt (p, scan->owner);' ''
mutant volumes-scan-of-another-weftd test-cluster-volume cluster-scan.c \
  'a->pool->scan == NULL || a->pool->scan->session != s->rec.id' \
  '(a->pool->scan == NULL ? (begin (a->pool, s), 0) : 0)'
mutant volumes-scan-two-name-a-segment test-cluster-volume cluster-scan.c \
  'if (other && other != w->root + 1) {' 'if (0) {'
mutant volumes-scan-forgets-what-is-broken test-cluster-volume cluster-scan.c \
  'snprintf (f->why, sizeof f->why, "%s", why);' ';'
mutant volumes-scan-two-at-a-root test-cluster-volume cluster-scan.c \
  '  move_new (c, a);' ''
mutant volumes-scan-new-one-without-a-root test-cluster-volume cluster-scan.c \
  'if (root != UINT_MAX) {' 'if (1) {'
mutant volumes-scan-new-one-keeps-a-name test-cluster-volume cluster-scan.c \
  'new && !cluster_found_name (a->pool, v->rec.name)' 'new'
mutant volumes-scan-runs-overlap test-cluster-volume cluster-scan.c \
  'w->run[i].first < w->run[i - 1].first + w->run[i - 1].count' \
  'w->run[i].first <= w->run[i - 1].first'
mutant volumes-scan-root-twice-in-a-message test-cluster-volume cluster-scan.c \
  'if (seen[w->root]) {' 'if (0) {'
mutant volumes-scan-takes-a-doubt-back test-cluster-volume cluster-scan.c \
  "if (f->why[0] == '\\0')" 'if (0)'
mutant volumes-scan-takes-another-pools-volume test-cluster-volume cluster-found.c \
  '  judge_strangers (c, a, list, count);' ''
mutant volumes-scan-two-of-a-uuid test-cluster-volume cluster-found.c \
  '  judge_twins (p, list, count);' ''
mutant volumes-scan-two-of-a-name test-cluster-volume cluster-found.c \
  'taken (a, name, f); i++' '0; i++'
mutant volumes-scan-torn-one-is-another test-cluster-volume cluster-found.c \
  'v && !cluster_found_uuid (a->pool, v->rec.uuid)) {' 'v) {'
mutant volumes-session-over-answers-one test-cluster-volume cluster-volume.c \
  '      cluster_wait_end (c, w);
    }
    v->order.number = 0;' '      cluster_wait_end (c, w);
      break;
    }
    v->order.number = 0;'
mutant array-goes-and-calls-wait test-cluster-volume cluster-array.c \
  '    refuse_waiting (c, a, false);' ''
mutant volumes-orders-by-name test-cluster-volume cluster-volume.c \
  '  qsort (list, *count, sizeof *list, by_number);' ''
mutant volumes-scan-deleted-are-back test-cluster-volume cluster-scan.c \
  '      judge_missing (c, a, v);' '      ;'
mutant volumes-granted-beside-a-broken-one test-cluster-volume cluster-holder.c \
  'v->rec.state == CLUSTER_VOLUME_MADE) &&
        !cluster_volume_any_broken (a))' 'v->rec.state == CLUSTER_VOLUME_MADE))'
mutant volumes-broken-one-is-opened test-cluster-volume cluster-holder.c \
  'if (v->rec.state == CLUSTER_VOLUME_BROKEN) {' 'if (0) {'
