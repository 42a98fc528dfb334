# shellcheck shell=sh
# member.sh: mutants of the member engine.  check says how they are written.

# Epochs, and the fence.
mutant no-epoch-check-per-request "sim-cluster test-member-scenes test-member" member-doors.c \
  'if (pass->epoch < atomic_load (&m->gate))' 'if (0)'
mutant confirmed-before-drained "test-member-scenes test-member-rules test-member" member.c \
  'if (m->drains_done != m->drains_asked || dirty_waits (m)) {' \
  'if (dirty_waits (m)) {'
mutant confirmed-with-one-slot "test-member-scenes test-member-rules test-member" member.c \
  '    m->slots_wanted = 2;' '    m->slots_wanted = 1;'
mutant door-opened-within-an-old-epoch "test-member-scenes test-member-rules test-member" member-doors.c \
  'if (t->epoch < m->gate)' 'if (0)'
mutant door-opened-within-its-epoch-again "test-member-scenes test-member-rules test-member" member.c \
  'if (seen != 0 && seen >= sb->min_epoch)' 'if (0)'
mutant door-before-its-epoch-is-noted "test-member-scenes test-member-rules test-member" member-doors.c \
  'if (t.epoch > m->confirmed.served_epoch) {' 'if (0) {'
mutant older-weftd-is-obeyed "test-member-scenes test-member-rules test-member" member.c \
  'd->generation < sb.generation' 'false'
mutant older-states-are-taken test-member-rules member.c \
  'if (d->epoch >= sb->states_epoch) {' 'if (1) {'

# After a failure.
mutant failed-member-goes-on "test-member-scenes test-member-rules test-member" member-doors.c \
  '  if (member_failed (m))
    return refuse_failed (m, refusal);
  if (pass->epoch' '  if (pass->epoch'
mutant gone-disk-fails-its-clients test-member-scenes member-doors.c \
  'm->gone ? ESHUTDOWN : EIO' 'EIO'
mutant failed-header-write-is-forgotten test-member-rules member.c \
  '  if (error)
    member_fail (m, error,' '  if (0)
    member_fail (m, error,'

# Intent bits.
mutant write-before-its-bit "sim-cluster test-member-scenes test-member-rules test-member" member-doors.c \
  'if (!intents_test (&s->held, e) || !intents_test (&m->durable, e))' \
  'if (!intents_test (&s->held, e))'
mutant write-on-another-session-s-bit "test-member-scenes test-member-rules test-member" member-doors.c \
  'if (!intents_test (&s->held, e) || !intents_test (&m->durable, e))' \
  'if (!intents_test (&m->durable, e))'
mutant bit-falls-beside-a-lost-copy "test-member-scenes test-member-rules test-member" member-doors.c \
  'if (sb->states[i] != MEMBER_IN_SYNC)' 'if (0)'
mutant bit-falls-by-a-fenced-session "test-member-scenes test-member-rules test-member" member-doors.c \
  'member_failed (m) || pass->epoch < m->gate ||' 'member_failed (m) ||'
mutant bit-falls-for-another-session "test-member-scenes test-member-rules test-member" member-map.c \
  '  for (struct session *s = m->sessions; s; s = s->next)
    if (intents_test (&s->held, extent))
      return;' ''
mutant settled-takes-bits-of-the-living "test-member-scenes test-member-rules test-member" member-doors.c \
  '        if (gone (m, s))
          intents_clear' '        intents_clear'
mutant durable-before-the-write-is-done "test-member-scenes test-member-rules test-member" member.c \
  'atomic_fetch_and (&m->durable.word[w], m->wanted.word[w]);' \
  'atomic_store (&m->durable.word[w], m->wanted.word[w]);'
mutant clear-counts-when-done "test-member-scenes test-member-rules test-member" member.c \
  'atomic_fetch_and (&m->durable.word[w], m->wanted.word[w]);' ';'
mutant released-disk-is-clean "test-member-rules test-member-scenes" member.c \
  'if (release ||' 'if ('
mutant disk-joins-clean "sim-cluster test-member-rules test-member-join" member.c \
  'if (release ||
      (format_uuid_zero (m->next.array) && !format_uuid_zero (sb.array) &&
       sb.states[sb.position] != MEMBER_IN_SYNC))' \
  'if (release)'
mutant place-taken-before-it-is-dirty "test-member-rules test-member-join" member.c \
  '  m->dirty_first = true;' ''

# Joining.
mutant joiner-applies-what-is-to-do "test-member-rules test-member-join" member-join.c \
  'return !todo;' 'return true;'
mutant joiner-applies-what-is-being-copied "test-member-rules test-member-join" member-join.c \
  'return j->phase < MEMBER_JOIN_COPYING || find_copy (m, e) == NULL;' \
  'return true;'
mutant joiner-copies-below-a-write "test-member-rules test-member-join" member-join.c \
  '!(idle && slot_taken (&m->join, e)) &&' ''
mutant joiner-ignores-its-own-bits "test-member-rules test-member-join" member-join.c \
  'atomic_store (&j->todo.word[w], m->wanted.word[w]);' \
  'atomic_store (&j->todo.word[w], 0);'
mutant joiner-ignores-its-peers-bits "test-member-rules test-member-join" member-join.c \
  '      add_todo (m, w * 64 + __builtin_ctzll (bits));' '      ;'
mutant joiner-forgets-what-it-dropped "test-member-rules test-member-join" member-join.c \
  '    add_todo (m, e);' '    ;'
mutant joiner-copies-before-its-list-is-durable "test-member-rules test-member-join" member-join.c \
  'j->gathered && todo_durable (m)' 'j->gathered'
mutant joiner-gathers-before-the-old-have-left "test-member-rules test-member-join" member-join.c \
  'j->order != 0 &&
      m->drains_done == m->drains_asked)' 'j->order != 0)'
mutant joiner-takes-an-old-order "test-member-rules test-member-join" member-join.c \
  'if (join_epoch >= m->gate && join_epoch > j->order)' \
  'if (join_epoch > j->order)'
mutant joiner-goes-on-through-a-fence "test-member-rules test-member-join" member-join.c \
  'if (!m->joining || raised ||' 'if (!m->joining ||'
mutant joiner-clears-before-stable test-member-rules member-join.c \
  'mark != j->mark ||' ''
mutant joiner-keeps-a-copy-that-failed "test-member-rules test-member-join" member-join.c \
  'if (ok && run == j->run' 'if (run == j->run'
mutant joiner-keeps-a-copy-of-an-old-run "test-member-rules test-member-join" member-join.c \
  'if (ok && run == j->run && j->phase == MEMBER_JOIN_COPYING)' 'if (ok)'
mutant joiner-lets-itself-be-read "test-member-rules test-member-join" member-doors.c \
  'member_join_phase (m) != MEMBER_JOIN_SYNCED)' 'false)'
mutant synced-before-stable "test-member-rules test-member-join" member-join.c \
  '      j->copied_count == 0 && j->marked_count == 0 &&' '      true &&'
mutant synced-before-its-list test-member-bad member-join.c \
  'j->marked_count == 0 && member_bad_settled (m))' 'j->marked_count == 0)'
mutant bit-falls-before-the-list test-member-bad member.c \
  'if (b->flying || (b->lazy && !member_bad_settled (m)))' 'if (b->flying)'
mutant list-in-one-slot test-member-bad member-bad.c \
  'm->bad.count);
  m->bad_wanted = 2;' 'm->bad.count);
  m->bad_wanted = 1;'
mutant list-before-the-superblock-names-it test-member-bad member-bad.c \
  'm->bad_flying || m->confirmed.bad_offset == 0)' 'm->bad_flying)'
mutant list-waits-for-a-fence-that-waits test-member-bad member.c \
  'm->next.bad_offset == m->confirmed.bad_offset &&' 'true &&'
mutant released-disk-keeps-its-list "test-member-bad test-member-scenes" member.c \
  'member_bad_clear (m);' ';'
mutant fenced-session-says-what-is-bad test-member-bad member-doors.c \
  'if (check_pass (m, pass, &r, refusal) != MEMBER_GO)
    return MEMBER_REFUSE;
  if (m->next.states' 'if (m->next.states'
mutant block-is-good-in-part test-bad bad.c \
  'uint64_t end = (offset + length) / BAD_BLOCK_BYTES;' \
  'uint64_t end = (offset + length + BAD_BLOCK_BYTES - 1) / BAD_BLOCK_BYTES;'
mutant list-without-room-for-its-rest test-bad bad.c \
  'if (reason && places (&new) > BAD_RANGES_MAX)' 'if (0)'
mutant unwanted-disk-is-written test-member-rules member.c \
  'if (member_failed (m) || !m->has_key)' 'if (member_failed (m))'
mutant superblock-is-counted-beyond test-member-rules member.c \
  'if (m->sequence == SEQUENCE_MAX)' 'if (0)'
mutant list-is-counted-beyond test-member-rules member.c \
  'if (m->bad_wanted == 2 && m->bad.sequence + 1 >= SEQUENCE_MAX)' 'if (0)'
mutant highest-superblock-is-read test-format format.c \
  'if (s[newest].sequence == SEQUENCE_MAX)' 'if (0)'
mutant any-generation-is-read test-format format.c \
  'if (sb->generation > GENERATION_MAX)' 'if (0)'
mutant any-sequence-is-read test-format format.c \
  'if (sb->sequence > SEQUENCE_MAX)' 'if (0)'
mutant highest-list-is-read test-bad bad.c \
  'if (list->sequence >= SEQUENCE_MAX)' 'if (0)'
mutant bad-slot-makes-an-old-copy test-format format.c \
  'sb->sequence++;' ''
mutant joiner-clears-where-its-peers-differ test-member-rules member-join.c \
  'if (keep || intents_test (&j->unequal, extent))' 'if (keep)'
mutant third-copy-asks-its-peers-once test-member-rules member-join.c \
  'if (run == j->run && has_third (&m->next))' \
  'if (run == j->run && has_third (&m->next) &&
      j->phase == MEMBER_JOIN_GATHERING)'
mutant joiner-clears-what-a-third-copy-lacks test-member-rules member-join.c \
  'keep = third_lacks (m);' 'keep = false;'
mutant part-before-its-block-is-listed test-member-bad member-doors.c \
  'bad_test (&m->bad, offset, 1) &&
      !member_bad_add (m, offset, BAD_BLOCK_BYTES, BAD_WRITE))' \
  'bad_test (&m->bad, offset, 1) &&
      !member_bad_add (m, offset, BAD_BLOCK_BYTES, BAD_WRITE))
    return MEMBER_GO;
  else if (1)
    return MEMBER_GO;
  else if (0)'
mutant half-block-counts-as-whole test-bad bad.c \
  'if (end % BAD_BLOCK_BYTES && (n == 0 || tail != head))' 'if (0)'
mutant bad-block-is-not-noted "sim-cluster test-member-bad" member-bad.c \
  '!bad_add (&m->bad, offset, length, reason))' '      false)'

# Rounds.
mutant round-said-before-it-is-there test-member-scenes member-doors.c \
  'return m->confirmed.round >= round ? MEMBER_GO : wait_or_refuse (m, refusal);' \
  'return MEMBER_GO;'
mutant round-goes-back test-member-scenes member-doors.c \
  'if (m->next.round < round)' 'if (m->next.round != round)'
mutant round-of-a-fenced-session test-member-scenes member-doors.c \
  '  if (check_pass (m, pass, &none, refusal) != MEMBER_GO)
    return MEMBER_REFUSE;
  if (m->next.round < round)' '  if (m->next.round < round)'
mutant round-waits-for-the-fence test-member-scenes member.c \
  'm->next.bad_offset == m->confirmed.bad_offset &&
        m->next.round <= m->confirmed.round)' \
  'm->next.bad_offset == m->confirmed.bad_offset)'
mutant round-outlives-its-place test-member-scenes member.c \
  'sb->states_epoch = sb->round = 0;' 'sb->states_epoch = 0;'
mutant joiner-keeps-its-round test-member-scenes member.c \
  'if (m->joining && m->join.run != run && m->next.round)' 'if (0)'
mutant joiner-ends-without-a-round test-member-scenes member-join.c \
  'if (j->phase == MEMBER_JOIN_SYNCED && m->next.round < j->round)' 'if (0)'

# The copies of a joining member, and when they are stable.
mutant copy-of-another-life-counts test-pull pull.c \
  'p->watched[m] && w->lives[m] == p->lives[m]' 'p->watched[m]'
mutant copy-of-an-unwatched-source-counts test-pull pull.c \
  'p->watched[m] && w->lives[m] == p->lives[m]' 'w->lives[m] == p->lives[m]'
mutant source-that-is-gone-has-flushed test-pull pull.c \
  'if (p->stage == NOTHING && source_gone (p))' 'if (0)'
mutant source-that-is-none-any-more-has-flushed test-pull pull.c \
  '(!p->watched[m] || !p->order.source[m])' '!p->watched[m]'
mutant cancelled-flush-is-forgotten test-pull pull.c \
  '  p->unstable += p->flushed_extents;' '  ;'
mutant third-copy-does-not-ask-again test-pull pull.c \
  'p->order.layout.copies > 2 ? ASKING : SYNCING' 'SYNCING'
mutant mark-is-of-after-the-flush test-pull pull.c \
  'member_join_stable (p->member, t->run, p->mark);' \
  'member_join_stable (p->member, t->run, member_join_mark (p->member));'
mutant sources-are-not-flushed test-pull pull.c \
  '  p->stage = FLUSHING;' '  p->stage = SYNCING;'
mutant two-runs-at-once test-pull pull.c \
  'if (run != p->run && p->busy == 0)' 'if (run != p->run)'
mutant old-order-is-carried-out test-pull pull.c \
  'p->order.epoch == member_join_epoch (p->member) &&' 'true &&'
mutant write-is-held-for-nobody test-pull pull.c \
  'p->wakes |= member_join_rest (p->member);' ';'
mutant passed-block-is-not-noted test-pull copy.c \
  'c->passed[b / 64] |= UINT64_C (1) << b % 64;' ';'
mutant failed-source-has-bad-places test-pull copy.c \
  'list = ask_suspects (c);' ';'
mutant bad-place-is-asked-for-once test-pull copy.c \
  'p->tried |= 1u << p->copy;' 'p->tried = ~0u;'
mutant copies-from-one-not-in-sync test-pull copy.c \
  'if (c->source[m] && !(p->tried >> i & 1))' 'if (!(p->tried >> i & 1))'
mutant data-is-taken-for-zeroes test-pull copy.c \
  'p.kind = s && s->zero ?' 'p.kind = s ?'

# Sessions that are over.
mutant shut-session-goes-on test-member-scenes member-doors.c \
  'atomic_store (&p->epoch, 0);' ';'
mutant shut-session-opens-a-door test-member-scenes member-doors.c \
  'if (t->epoch < m->doors || is_over (m, t->session))' 'if (t->epoch < m->doors)'
mutant old-token-opens-a-door test-member-scenes member-doors.c \
  'if (t->epoch < m->doors || is_over (m, t->session))' 'if (is_over (m, t->session))'
mutant shut-before-it-has-ended test-member-scenes member-doors.c \
  'm->drains_asked += any;' ';'
mutant shut-session-holds-its-bits test-member-scenes member-doors.c \
  '(s->shut && m->drains_done >= s->shut);' 'false;'
mutant full-list-lets-in test-member-scenes member-doors.c \
  'm->doors = o->epoch + 1;' ';'
mutant other-weftd-is-not-counted-anew test-member-scenes member-doors.c \
  'm->over_told = over[count - 1].number;' \
  'm->over_told = over[count - 1].number > m->over_told ? over[count - 1].number : m->over_told;'
mutant former-key-s-doors-stay-open test-member-scenes member.c \
  '    member_doors_shut_all (m);' ';'
mutant each-answer-shuts-all test-member-scenes member.c \
  'if (m->has_key && memcmp (m->key, key, KEY_BYTES) != 0)' 'if (m->has_key)'
mutant key-is-confirmed-while-the-former-one-s-requests-run test-member-scenes member-doors.c \
  'm->drains_asked += shut_passes (m, EVERY_SESSION);' 'shut_passes (m, EVERY_SESSION);'

# Data that a joining member reads of another.
mutant joiner-reads-all-of-a-source test-member-source member-source.c \
  'if (!member_pass_reads (pass, at, &some))' 'if (false)'
mutant joiner-sees-all-intents test-member-source member-source.c \
  '!shares_extent (pass, (offset + i) * 8 + bit)' 'false'
mutant joiner-reads-where-weftd-is-not-heard test-member-source member-source.c \
  'if (r->now_ms > atomic_load (&m->heard_ms) + SOURCE_TTL_MS)' 'if (false)'
mutant token-is-good-for-every-certificate test-member-source member-source.c \
  '(node && strcmp (node, t->node) == 0)' 'true'
mutant token-is-good-for-every-process test-member-source member-source.c \
  '(strncmp (process, kind, n) == 0 &&' '(true &&'
mutant token-is-good-for-every-array-of-its-node test-member-source member-source.c \
  'strcmp (process + n, t->process) == 0' 'true'
mutant joiner-may-be-an-array test-member-source member-source.c \
  't->joins ? "disk:" : "array:"' '"array:"'
mutant joiner-without-copies-opens-a-door test-member-source member-source.c \
  'if (t->writable || !partner[t->place])' 'if (t->writable)'

# Several writers.
mutant round-is-said-before-both-slots-have-it test-member-scenes member-doors.c \
  'if (m->confirmed.round < *round)' 'if (0)'
mutant round-is-waited-for-without-end test-member-scenes member-doors.c \
  '  if (m->next.round < *round)
    *round = m->next.round;' '  if (*round == UINT64_MAX)
    *round = m->next.round;'
mutant round-is-told-to-who-is-fenced test-member-scenes member-doors.c \
  '  if (check_pass (m, pass, &none, refusal) != MEMBER_GO)
    return MEMBER_REFUSE;
  if (m->next.round < *round)' '  if (m->next.round < *round)'
mutant round-of-one-writer-undoes-that-of-another "test-member-scenes test-member" member-doors.c \
  '  if (m->next.round < round)
    member_map_set_round' '  if (m->next.round != round)
    member_map_set_round'
mutant settled-by-one-and-claimed-by-another test-member-scenes member-doors.c \
  'if (gone (m, s))
          intents_clear' 'if (1)
          intents_clear'
mutant cleared-by-one-and-claimed-by-another "test-member-scenes test-member" member-doors.c \
  '    intents_clear (&pass->session->held, e);
' '    for (struct session *s = m->sessions; s; s = s->next)
      intents_clear (&s->held, e);
'

# Whether the disk answers.
mutant busy-disk-is-silent test-pulse pulse.c \
  '!p->asked || completed != p->completed' '!p->asked'
mutant process-that-stood-still-accuses-its-disk test-pulse pulse.c \
  'ms < PULSE_LOOK_MS ? ms : PULSE_LOOK_MS' 'ms'
mutant disk-that-answers-is-silent test-pulse pulse.c \
  '!p->asked ||' ''

# Header writes that are refused for want of room.
mutant refused-slot-is-skipped test-member-short member.c \
  '    m->sequence--; /* the same slot again */' ''
mutant refused-slot-is-not-written test-member-short member.c \
  '    m->slots_wanted++;' ''
mutant refused-block-is-not-written test-member-short member.c \
  '    m->blocks[a->block].urgent = true;' ''
mutant refused-list-begins-with-the-good-slot test-member-short member-bad.c \
  '    m->bad.sequence--;
' ''
mutant changed-list-begins-with-the-good-slot test-member-short member-bad.c \
  '    m->bad.sequence++;' '    m->bad.sequence += 2;'
mutant second-slot-stays-torn test-member-short member-bad.c \
  '    m->bad_wanted = 1;' '    ;'
mutant started-list-begins-with-the-good-slot test-bad bad.c \
  '    list->sequence++;' ''
mutant requests-wait-for-room test-member-short member-map.c \
  '  if (!m->header_short)
    return false;' '  if (1)
    return false;'
mutant short-header-is-forgotten test-member-short member-map.c \
  '  if (!m->header_short)
    m->short_of = 0;' '  m->short_of = 0;'
mutant failed-sync-is-tried-again test-errors errors.c \
  '  if (place == ERRORS_SYNC)
    return ERRORS_FATAL;' ''
