# shellcheck shell=sh
# array.sh: mutants of the array engine.  check says how they are written.

# Acknowledgements: of which data, and when.
mutant ack-before-data sim array-write.c \
  '  if (ok)' '  if (1)'
mutant degraded-ack-before-commit sim array-write.c \
  'if (copies & 1 && !member_readable (a, data->member)) {' \
  'if (copies & 1 && !member_readable (a, data->member)) { piece_end (a, p); return;'
mutant degraded-ack-before-image sim array-write.c \
  '!member_readable (a, p->at.copy[0].member)' 'false'
mutant ack-by-a-copy-that-goes test-array-join array-write.c \
  '!member_readable (a, p->at.copy[0].member)' '!member_in_sync (a, p->at.copy[0].member)'
mutant fua-does-not-wait sim array-write.c \
  'return (p->req->r->flags & ARRAY_FUA) ||' 'return'
mutant image-without-fua sim array-send.c \
  '(run->fua || flush_rides (a, run->member) ? ARRAY_FUA : 0) |' '0 |'
mutant no-second-look-after-commit sim array.c \
  'if (q->error || !request_writes (q->r)' 'if (1 || !request_writes (q->r)'

# Writes that go through.
mutant newer-image-overtakes "test-array-through sim" array-write.c \
  'if (images_overlap (a->images, at->member' \
  'if (0 && images_overlap (a->images, at->member'
mutant image-is-read-before-the-data-is-written test-array-through array-write.c \
  ' ||
        image_read (a, at, p->at.length))' ')'
mutant ack-by-one-copy-of-two "test-array-through sim" array-write.c \
  '--p->ios > 0' '--p->ios > 9'
mutant ack-by-images-without-the-data "test-array-through sim" array-write.c \
  'if (ok && direct (a, p) == 0 &&' 'if (ok &&'
mutant joiner-gets-its-copy-first "test-array-through sim-cluster" array-write.c \
  'p->through && member_readable (a, member)' \
  'p->through && member_reachable (a, member)'
mutant large-write-is-copied test-array-through array-write.c \
  'r->length < large)' 'true)'
mutant small-write-waits-for-its-image test-array-through array-write.c \
  'r->length < large)' 'false)'
mutant full-buffer-takes-more test-array-through array-write.c \
  '    large /= 2;' '    ;'
mutant zeroes-for-both-copies-at-once test-array-loss array-write.c \
  'if (r->lost ||' 'if ('

# The image buffer.
mutant image-dropped-before-written sim 'images*.c' \
  'if (written || run->drops != m->drops)' 'if (1)'
mutant image-replaced-while-sent sim images-internal.h \
  'return f && f->offset < e->offset + e->length;' 'return false && f;'
mutant old-image-follows-a-return sim 'images*.c' \
  'if (written || run->drops != m->drops)' 'if (written)'
mutant image-that-rests-is-waited-for "test-images test-array-loss" images-member.c \
  'if (e->sent_ns && (first_ns == 0 || e->sent_ns < first_ns))
      first_ns = e->sent_ns;' 'if (first_ns == 0 || e->accepted_ns < first_ns)
      first_ns = e->accepted_ns;'
mutant newer-image-forgets-the-wait test-images images-add.c \
  '  inherit_wait (e, o);' ''
mutant joined-zero-forgets-the-wait test-images images-add.c \
  '  inherit_wait (o, e);' ''
mutant image-sent-again-forgets-the-wait test-images images-send.c \
  'if (e->sent_ns == 0)' 'if (1)'
mutant replaced-image-leaves-its-flush sim 'images*.c' \
  'if (o->sequence >= e->sequence)' 'if (1)'
mutant replaced-image-leaves-its-place test-images 'images*.c' \
  'if (!oldest || o->sequence < oldest->sequence)' 'if (!oldest)'
mutant cut-image-keeps-its-bytes sim 'images*.c' \
  'o->at += end - o->offset;' ''
mutant blocked-image-is-sent sim 'images*.c' \
  'if (!e->due && !image_blocked (m, e))' 'if (!e->due)'
mutant batch-payload-is-shifted sim 'images*.c' \
  'at = batch_payload_at (count);' 'at = batch_payload_at (count) + 8;'

# FLUSH.
mutant flush-skips-a-member sim array-flush.c \
  '    if (member_counts (a, i))
      q->need[i]' '    if (i != 1 && member_counts (a, i))
      q->need[i]'
mutant flush-does-not-drain sim array-flush.c \
  'if (q->need[i] == NEED_IMAGES && images_drained_of (a->images, i, q->mark))' \
  'if (q->need[i] == NEED_IMAGES)'
mutant flush-drains-all-but-the-last sim 'images*.c' \
  'if (g->number > mark)' 'if (g->number >= mark)'
mutant flush-waits-for-the-images-of-others test-array array-flush.c \
  'images_drained_of (a->images, i, q->mark)' 'images_drained (a->images, q->mark)'
mutant flush-is-not-shared test-array array-flush.c \
  'else if (m->writes.flush[k]->start >= event)' 'else if (0)'
mutant flush-waits-for-the-last-one test-array array-internal.h \
  '#define FLUSHES_MAX 2' '#define FLUSHES_MAX 1'
mutant flushes-without-bound test-array array-internal.h \
  '#define FLUSHES_MAX 2' '#define FLUSHES_MAX 3'
mutant image-is-flushed-in-a-second-step test-array array-send.c \
  'run->fua || flush_rides (a, run->member)' 'run->fua'
mutant image-is-stable-beside-others-that-are-not test-array array-flush.c \
  'a->degraded || m->writes.loose > flushed ||
      !images_last' \
  'a->degraded || !images_last'
mutant each-of-many-images-is-stable test-array array-flush.c \
  'm->writes.loose > flushed ||
      !images_last (a->images, member)' \
  'm->writes.loose > flushed'
mutant image-is-stable-where-that-may-take-long test-array-loss array-flush.c \
  'a->degraded || m->writes.loose > flushed' 'm->writes.loose > flushed'
mutant image-is-stable-by-its-answer sim array-answer.c \
  'if (!(io->flags & ARRAY_FUA))' 'if (x->purpose != FOR_IMAGES)'
mutant flush-shares-one-begun-too-early sim array-flush.c \
  'm->writes.flushed = x->start;' 'm->writes.flushed = a->event;'
mutant flush-that-failed-counts sim array-flush.c \
  'if (ok && m->writes.flushed < x->start)' 'if (m->writes.flushed < x->start)'
mutant failed-flush-is-tried-again sim array-answer.c \
  'if (error == 0 || refused_for_now (a, x, error) ||' \
  'if (error == 0 || x->io.kind == IO_FLUSH ||'

# Reads, and turns.
mutant overlapping-writes-at-once sim array-range.c \
  'return x->start < y->end && y->start < x->end' \
  'return x->start == y->start && x->end == y->end'
mutant image-read-without-drain sim array-read.c \
  'if ((c == copy || p->bad & 1u << c) &&' 'if (0 &&'
mutant image-read-without-turn sim array-read.c \
  'if (q->lock < need) {' 'if (0) {'
mutant repair-without-turn sim array-read.c \
  'need = LOCK_EXCLUSIVE;' 'need = LOCK_NONE;'
mutant balance-while-buffered sim array-read.c \
  'images_overlap (a->images, copy[c].member, copy[c].offset,' \
  '0 && images_overlap (a->images, copy[c].member, copy[c].offset,'
mutant balance-before-copies-are-equal test-array array-read.c \
  'if (!a->clear.settle ||' 'if ('
mutant balance-after-a-member-came-back test-array array-read.c \
  'a->clear.settle || a->clear.differs ||' 'a->clear.settle ||'
mutant longer-queue-is-read test-array array-read.c \
  'BALANCE_AHEAD * waits (' '1000 * waits ('
mutant slow-half-gets-as-much test-array array-read.c \
  'each_ns[c] > BALANCE_FACTOR * least_ns' 'false'
mutant slow-half-is-never-tried-again test-array array-timing.c \
  'a->now_ns - o->read_at_ns < READ_MEMORY_NS ? o->read_ns : 0' 'o->read_ns'
mutant slow-half-is-judged-by-old-times test-array array-timing.c \
  'old_ns = read_ns (a, o)' \
  'old_ns = a->member[x->io.member].overdue.read_ns'
mutant slow-half-is-tried-by-many test-array array-read.c \
  'least_ns : reads > 0)' 'least_ns : false)'
mutant reads-wait-for-writes test-array array-read.c \
  'overdue.reads;' 'overdue.waiting;'
mutant read-around-to-a-slower-one test-array-loss array-read.c \
  ' && wait_ns[c] < wait_ns[0]' ''
mutant joiner-is-read sim array-internal.h \
  'return a->member[member].state == MEMBER_IN_SYNC;' \
  'return a->member[member].state != MEMBER_OUT;'

# Joining, and epochs.
mutant joiner-gets-no-copy sim array-write.c \
  'else if (member_background (a, member))' 'else if (0)'
mutant prepared-before-drained sim array-join.c \
  '(!a->next.flushing && !drained (a)) ||' ''
mutant prepared-before-flushed sim array-join.c \
  '!flushed (a)' '(flushed (a), false)'
mutant epoch-said-before-older-images-are-written test-array-join array-epoch.c \
  'return images_drained (a->images, a->entering) ? a->config.epoch : a->entered;' \
  'return a->config.epoch;'
mutant older-writes-need-not-reach-who-is-lost test-array-join array-epoch.c \
  'if (c >= 0 && !(p->written & 1u << c))' \
  'if (c >= 0 && !(p->written & 1u << c) && member_readable (a, p->at.copy[c].member))'
mutant arrived-with-older-images-to-be-written test-array-join array-epoch.c \
  'member_in_sync (a, i) && !images_drained_of (a->images, i, a->arriving)' '0'
mutant arrived-waits-for-images-that-nobody-sends test-array-join array.c \
  'pump (a); /* the images that it waits for */' ''
mutant arrived-with-older-writes-under-way test-array-join array-epoch.c \
  '  if (moves)
    move (a);' ''
mutant prepared-joiner-counts-for-nothing sim array-member.c \
  'member_in_sync (a, i) ||
                (a->next.epoch &&' \
  'member_in_sync (a, i) ||
                (0 &&'
mutant replaced-change-is-forgotten test-array-join array-member.c \
  'a->next.promised[i]));' 'false));'
mutant member-that-goes-is-asked test-array-join array-epoch.c \
  '    if (going)' '    if (0)'
mutant member-that-goes-and-stays-is-not-told test-array-join array-epoch.c \
  'if (going)
      m->loss.reported = false;' 'if (going)
      ;'
mutant copy-that-went-is-counted test-array-join array-epoch.c \
  '    forget_written (a, member);
  going' '    ;
  going'
mutant lost-copy-is-back-as-if-nothing-was "sim-cluster sim" array-epoch.c \
  '  m->returned = a->returned = ++a->commits;
  flush_gone (a, member);' ''
mutant bits-fall-beside-who-is-back test-array-flush array-epoch.c \
  '  m->differs |= lapsed || !same;
  if (!aged' '  if (!aged'
mutant bits-stay-when-it-has-joined test-array-join array-epoch.c \
  'old == MEMBER_IN_SYNC && state != old)))
    m->differs = false;' \
  'old == MEMBER_IN_SYNC && state != old)))
    ;'
mutant bits-fall-beside-a-third-copy test-array-join array-epoch.c \
  'if (a->layout->copies == 2 &&
      (!state' 'if ((!state'
mutant copy-that-kept-all-is-back-without-it "test-array-flush sim" array-epoch.c \
  '(!lapsed || !unflushed' '(!unflushed'
mutant lapse-is-forgotten-by-a-later-start test-array-flush array-epoch.c \
  'm->loss.lapsed |= !kept;' 'm->loss.lapsed = !kept;'
mutant disk-that-failed-has-kept-all test-array-flush array-answer.c \
  'm->loss.lapsed |= m->loss.answers && !a->config.service &&' 'm->loss.lapsed |= 0 &&'

mutant bits-of-a-late-third-copy-stay test-array-join array.c \
  '(a->layout->copies > 2 && layout' '(a->layout->copies > 99 && layout'
mutant bits-of-a-third-copy-stay test-array-join array-epoch.c \
  '    clear_joined (a, member);' '    ;'

# Clients that get an error.
mutant one-is-told-for-all "test-array-flush sim sim-cluster" array-flush.c \
  '    c->owed = true;' '    ;'
mutant losses-are-not-counted "test-array-flush sim" array-flush.c \
  '  a->losses++;' ';'
mutant told-again-and-again "test-array-flush sim sim-cluster" array-flush.c \
  '    c->owed = false;' '    ;'
mutant told-though-it-was-flushed "test-array-flush sim" array-flush.c \
  'if (c->wrote[member] <= a->stable)' 'if (0)'
mutant told-of-what-is-elsewhere test-array-flush array-flush.c \
  '      r->client->wrote[at.copy[c].member] = a->event;' \
  '      for (unsigned m = 0; m < a->layout->members; m++)
        r->client->wrote[m] = a->event;'
mutant fua-is-not-stable test-array-flush array-flush.c \
  'if (r->flags & ARRAY_FUA)' 'if (0)'
mutant flush-speaks-for-its-own-writes "test-array-flush sim" array-flush.c \
  '  a->untold = true;' '  ;'
mutant flush-under-way-does-not-fail "test-array-flush sim" array-flush.c \
  '    q->failed = true;' '    ;'
mutant told-by-a-flush-of-before test-array-flush array-flush.c \
  'c && q->begun >= c->gone' 'c'
mutant reader-reads-between-epochs "sim-cluster test-array-join" array-internal.h \
  'return a->now_ns >= a->trust_ns || a->next.told ||' 'return a->now_ns >= a->trust_ns ||'
mutant reader-reads-though-unheard-of test-array-join array-internal.h \
  'return a->now_ns >= a->trust_ns || a->next.told ||' 'return a->next.told ||'
mutant reader-reads-before-older-writes-arrive test-array-join array-internal.h \
  'a->all_arrived < a->config.epoch;' 'false;'

# Witnesses.
mutant replaced-writer-reads-what-is-old "test-array-witness sim-cluster" \
  array-witness.c '  if (!witness_needed (a, q))' '  if (1)'
mutant witness-of-an-earlier-read test-array-witness \
  array-witness.c 'm->witness.event > q->begun' 'm->witness.event'
mutant fenced-witness-counts test-array-witness array-witness.c \
  'if (ok && m->witness.event' 'if (m->witness.event'
mutant one-witness-is-enough test-array-witness array-witness.c \
  'member_reachable (a, member) && !m->witness.asked)' \
  '!member_reachable (a, member))
      may = true;
    else if (!m->witness.asked)'
mutant extents-without-witness test-array-witness array-extents.c \
  'witness_needed (a, q) || ' ''
mutant witness-that-is-out-is-waited-for test-array-witness array-witness.c \
  ' || !member_counts (a, member)' ''

# Intent bits.
mutant clear-without-flush sim array-clear.c \
  'else if (c->covered)' 'else if (1)'
mutant clear-after-too-early-a-flush sim array-clear.c \
  'if (!q->error && q->shift == a->clear.shifts)' 'if (!q->error)'
mutant clear-what-is-in-flight sim array-clear.c \
  '      clear_touch (a, x);' '      ;'
mutant clear-what-is-half-written test-array-join array-clear.c \
  'if (p->started && request_writes (q->r))' 'if (0)'
mutant clear-what-was-written-since sim array-clear.c \
  '(*chunk)->rested[word] &= ~bit;' ''
mutant clear-while-degraded sim array-clear.c \
  'return a->degraded || a->clear.differs || a->stopped;' \
  'return a->stopped;'
mutant write-while-clearing sim array-send.c \
  'if (clear_holds (a, x)) {' 'if (0) {'
mutant held-write-is-never-sent sim array-answer.c \
  '    send_held (a, io->member);
' ''

# Members that are reported as lost.
mutant accused-at-a-fixed-time "test-array-loss sim" array-timing.c \
  'return timeout_allowed (&o->service, a->now_ns, least < most ? least : most,
                          most);' \
  'return least < most ? least : most;'
mutant stranger-is-asked-early test-array-loss array-timing.c \
  'if (timeout_answers (&o->service, a->now_ns) < KNOWN_ANSWERS)' 'if (0)'
mutant everybody-is-a-stranger test-array-loss array-timing.c \
  'if (timeout_answers (&o->service, a->now_ns) < KNOWN_ANSWERS)' 'if (1)'
mutant lost-member-stays-known test-array-loss array-timing.c \
  '  memset (o, 0, sizeof *o);' '  o->waiting = 0;
  o->probe = NULL;'
mutant wait-of-others-is-told test-array-loss array-member.c \
  'p->at.copy[c].member == member && p->started' 'p->started'
mutant wait-for-a-lease-is-told test-array-lease array-member.c \
  'q->leased ? q->leased_ns : q->begun_ns' 'q->begun_ns'
mutant wait-of-images-is-not-told test-array-loss array-member.c \
  'image_ns ? image_ns : a->now_ns' 'a->now_ns'
mutant asked-for-little-time test-silence array-overdue.c \
  '#define PROBE_NS (850 * NS_PER_MS)' '#define PROBE_NS (200 * NS_PER_MS)'
mutant asked-for-too-long test-array-loss array-overdue.c \
  '#define PROBE_NS (850 * NS_PER_MS)' '#define PROBE_NS (8500 * NS_PER_MS)'
mutant silence-without-a-margin test-silence timeout.h \
  '#define TIMEOUT_MARGIN 8' '#define TIMEOUT_MARGIN 1'
mutant load-that-begins-is-not-believed test-timeout timeout.c \
  'return (uint64_t) (at > newest ? at : newest);' 'return (uint64_t) at;'
mutant accused-without-a-probe "test-array-loss sim" array-overdue.c \
  '      send_probe (a, i);' \
  '      member_lost (a, i, "it is silent");'
mutant part-of-an-answer-is-no-sign-of-life test-array-loss array-timing.c \
  '  o->quiet_ns = heard_ns;' '  ;'
mutant read-that-is-a-probe-has-no-more-time test-array-loss array-overdue.c \
  '= o->quiet_ns + timing_longest_ns (a);' \
  '= o->probe_ns + timing_longest_ns (a) - o->allowed_ns;'
mutant what-was-heard-before-counts test-array-loss array-timing.c \
  '  if (heard_ns <= o->quiet_ns)' '  if (false)'
mutant asked-although-it-is-heard test-array-loss array-timing.c \
  '  o->quiet_ns = heard_ns;
  o->probe = NULL;' '  o->quiet_ns = heard_ns;'
mutant silent-member-is-never-accused "test-array-loss sim" array-overdue.c \
  'o->probe && lost_at_ns (a, o) <= a->now_ns' 'false'
mutant reader-fails-without-looking-elsewhere test-array-loss array-req.c \
  '  for (unsigned i = 0; i < images; i++) {
    unsigned c = 1 +' '  if (a->config.readonly && bad)
    images = 0;
  for (unsigned i = 0; i < images; i++) {
    unsigned c = 1 +'

# Rounds.
mutant round-complete-without-all test-array-round array-round.c \
  '      all = false;
      ask (a, i, round);' '      ask (a, i, round);'
mutant round-begins-before-the-last-is-complete test-array-round array-round.c \
  '    if (!everywhere (a))
      return;' '    everywhere (a);'
mutant round-ends-with-the-writing test-array-round array-round.c \
  'go_on (&a->round, a->round.begun + 2);' 'go_on (&a->round, a->round.begun + 1);'
mutant out-member-has-the-round-of-the-others test-array-round array-epoch.c \
  '    round_outrun (a);' '    ;'
mutant member-joined-unseen-has-the-round-of-the-others test-array-round array-epoch.c \
  'if (state_takes_part (old) && state != old && state != MEMBER_IN_SYNC)' \
  'if (old == MEMBER_IN_SYNC && state != old)'
mutant out-member-is-one-round-behind test-array-round array-round.c \
  'r->outrun = r->begun + 3;' 'r->outrun = r->begun + 2;'
mutant attached-without-a-member-and-no-round test-array-round array-round.c \
  'else if (!state_takes_part (a->member[i].state))' 'else if (0)'
mutant flush-without-a-round test-array-round array-flush.c \
  '!synced (a, q) || round_holds (a, q)' '!synced (a, q)'
mutant fua-without-a-round test-array-round array.c \
  '&& round_holds (a, q)))' '           && 0))'
mutant round-of-another-session-counts test-array-round array-round.c \
  'return begun_ns != 0 && begun_ns +' 'return begun_ns +'
mutant copy-of-a-standstill-is-the-disk test-array-round array-epoch.c \
  'if (!aged && ' 'if ('
mutant known-process-is-another test-array-round array-round.c \
  'm->writes.last_ns == 0 || m->loss.reach == UINT64_MAX)' 'm->writes.last_ns == 0)'
mutant round-before-vouches-as-the-last test-array-round array-round.c \
  'if (m->rounds.noted[i].round < m->loss.reach)' 'if (m->rounds.noted[i].round <= m->loss.reach)'
mutant round-under-way-vouches-for-nothing test-array-round array-round.c \
  'for (unsigned i = 0; i < NOTED_MAX; i++)' \
  'for (unsigned i = 1; i < NOTED_MAX; i++)'
mutant fua-stands-for-its-first-try test-array-round array.c \
  '  q->wrote_ns = 0;
' ''
mutant round-entered-is-the-newest test-array-round array-round.c \
  'return a->round.entered;' 'return a->round.complete;'
mutant flush-with-one-round test-array-round array-round.c \
  'return late (r->before_ns, wrote_ns)' 'return late (r->since_ns, wrote_ns)'
mutant flush-waits-for-the-clock test-array-round array-round.c \
  '  if (more > 0)
    round_hurry (a, r->complete + more);
' ''
mutant rounds-wait-for-the-flush test-array-round array-flush.c \
  '  round_ahead (a);
' ''
mutant bits-fall-uncovered test-array-round array-clear.c \
  'else if (!round_covers (a, c->round))' 'else if (0)'
mutant join-uncovered test-array-round array-join.c \
  '      round = a->round.target;' '      round = 0;'
mutant join-without-the-round test-array-round array-join.c \
  '&&
           m->rounds.newest >= a->round.given;' ';'
mutant joiner-keeps-a-round test-array-round array-member.c \
  '    if (!m->counts || !counted)
      m->rounds.newest = m->rounds.heard = 0;
' ''

# Several writers.
mutant step-gives-without-asking test-array-round array-round.c \
  'a->member[member].rounds.heard < r->begun;' '0;'
mutant step-goes-by-its-own-number test-array-round array-round.c \
  '    if (a->round.highest < round)
      a->round.highest = round;
' ''
mutant step-does-not-wait-for-an-answer test-array-round array-round.c \
  'return heard && have &&' 'return have &&'
mutant step-skips-the-highest test-array-round array-round.c \
  '(!r->shared || r->complete == r->begun || all_have (a, r->highest)) &&' ''
mutant step-keeps-the-answer-of-who-was-lost test-array-round array-member.c \
  '  m->rounds.newest = m->rounds.heard = 0;
  m->loss.reported' '  m->rounds.newest = 0;
  m->loss.reported'
mutant step-lets-a-joiner-wait-for-who-goes test-array-round array-round.c \
  'have = all_have (a, r->given);' 'have = !heard || all_have (a, r->given);'
mutant answer-tells-when-it-came test-array-round array-round.c \
  'note (&m->rounds, round, m->rounds.asked_ns);' 'note (&m->rounds, round, a->now_ns);'
mutant answer-of-another-tells-the-time test-array-round array-round.c \
  'note (&m->rounds, round, m->rounds.asked_ns);' 'for (unsigned i = 0; i < a->layout->members; i++)
      note (&a->member[i].rounds, round, m->rounds.asked_ns);'
mutant answer-of-who-has-just-joined-tells-the-time test-array-round array-round.c \
  'if (round >= a->round.since)' 'if (1)'
mutant answer-before-is-forgotten test-array-round array-round.c \
  'if (m->noted[0].round < round)' 'if (0)'
mutant answer-before-is-pushed-out test-array-round array-round.c \
  'if (m->noted[0].round < round)' 'if (1)'
mutant round-of-a-step-is-its-count test-array-round array-round.c \
  'return a->round.since;' 'return a->round.complete;'
mutant step-goes-by-nonsense test-array-round array-round.c \
  'if (round > a->round.given + AHEAD_MAX) {' 'if (0) {'
mutant writes-beyond-the-part test-array-part array.c \
  'array_pinned (a) &&
             !lease_may_begin (a, r)' '0'
mutant loss-is-accepted-beyond-the-part test-array-part array.c \
  'return (request_writes (r) || r->op == ARRAY_ACCEPT) && array_pinned' \
  'return request_writes (r) && array_pinned'
mutant part-begins-with-all-as-its-own test-array-part array-lease.c \
  'array_pinned (a) ? RECOVERING : HELD);' 'HELD);'
mutant part-keeps-what-it-has-recovered "test-array-part sim-cluster-shared" array-lease.c \
  'array_pinned (a) ? leaving_new (a, 0, size)->owner : HELD);' 'HELD);'
mutant part-is-told-as-left test-array-part array-lease.c \
  'if (!array_pinned (a)) /* weftd' 'if (1) /* weftd'
mutant part-waits-for-a-lease test-array-part array-internal.h \
  'a->config.leases && !array_pinned (a);' 'a->config.leases;'
mutant image-of-others-is-read test-array-part array-read.c \
  'a->clear.differs || only_reads (a, p) ||
      a->degraded' 'a->clear.differs || a->degraded'
mutant others-are-read-around test-array-part array-read.c \
  'if (only_reads (a, p) || a->clear.differs ||' 'if (a->config.readonly || a->clear.differs ||'
mutant reads-of-others-are-not-held test-array-part array-read.c \
  '  if (holds (a, p)) {' '  if (0) {'
mutant reads-of-others-are-kept test-array-part array-read.c \
  'if (error == 0 && !holds (a, p)) {' 'if (error == 0) {'
mutant reads-beside-ours-are-a-readers test-array-part array-internal.h \
  '!q->leased && !array_in_part (a, offset, length));' '!q->leased);'
mutant part-ends-later-for-reads test-array-part array-internal.h \
  'length <= bytes - (offset - from);' '(length || 1);'
mutant reads-of-ours-are-held test-array-part array-internal.h \
  'return a->config.readonly ||
         (a->config.leases' 'return true || (a->config.leases'
mutant extents-of-others-are-not-held test-array-part array-extents.c \
  'if (!array_holds_reads (a, q, q->r->offset, q->r->length))
    ask' 'if (1)
    ask'
mutant held-extents-are-forgotten test-array-part array-extents.c \
  'q->busy && !q->asked &&
        !array_holds_reads (a, q, q->r->offset, q->r->length))' 'q->busy && 0)'
mutant bad-spot-of-others-is-mended test-array-part array-read.c \
  'if (p->bad && !only_reads (a, p) && !a->stopped)' 'if (p->bad && !a->stopped)'
mutant bad-spot-of-others-loses-the-member test-array-part array-read.c \
  '  if (a->config.readonly)
    member_lost' '  if (1)
    member_lost'
mutant bad-spot-of-others-is-forgotten test-array-part array-read.c \
  '  pieces_go_on (a, &a->stalled);
}' '}'
mutant part-of-half-a-unit test-array-part array-new.c \
  'c->part_offset % l->unit == 0 &&' ''

# Loss that is accepted.
mutant zeroes-for-what-can-be-read test-array-loss array.c \
  'if (q->r->op != ARRAY_ACCEPT || q->error != EIO ||' \
  'if (q->r->op != ARRAY_ACCEPT || q->r->lost ||'
mutant zeroes-for-a-copy-that-has-gone test-array-loss array.c \
  'q->r->epoch != a->config.epoch || q->unproven)' 'q->unproven)'
mutant zeroes-though-a-member-failed test-array-loss array.c \
  'q->r->epoch != a->config.epoch || q->unproven)' \
  'q->r->epoch != a->config.epoch)'
mutant zeroes-in-the-next-epoch test-array-loss array-write.c \
  'r->lost && r->epoch' '0 && r->epoch'
mutant synced-image-counts-as-service test-array-loss array-timing.c \
  '(x->purpose == FOR_IMAGES && x->io.flags & ARRAY_FUA)' 'false'

# The one member serves the array to several hosts.
mutant flush-of-one-host test-array-flush array-flush.c \
  'a->member[i].writes.loose = ++a->event;' ';'
mutant server-that-tells-is-lost test-array-flush array-answer.c \
  'a->config.service && io->kind == IO_FLUSH && error == EIO' '0'
mutant server-tells-nobody test-array-flush array-answer.c \
  'flush_told (a, io->member);' ';'
mutant only-who-wrote-is-told test-array-flush array-flush.c \
  '  flush_gone (a, member);
  fail_all (a);' '  flush_gone (a, member);'
mutant error-of-a-server-is-a-loss test-array-flush array-answer.c \
  'm->loss.answers && !a->config.service &&' 'm->loss.answers &&'
mutant reach-of-a-return-in-vain-is-forgotten test-array-round array-epoch.c \
  'if (reach < m->loss.reach)' 'if (1)'

mutant image-that-was-only-tried-is-answered test-array-part array-read.c \
  '    else if (only_reads (a, p) && p->bad) {' '    else if (0) {'
mutant reader-answers-from-the-third-copy test-array-loss array-read.c \
  'p->bad & 1u << first)' 'p->bad & 1 && first == 0)'
mutant reader-goes-by-the-second-copy test-array-loss array-read.c \
  'int first = piece_read_copy (a, p, 0);' \
  'int first = !member_in_sync (a, p->at.copy[0].member);'
mutant joiner-is-not-asked test-array-part array-join.c \
  'if (round && a->round.shared &&' 'if (0 &&'

# Leases come and go.
mutant lease-left-at-once "test-array-lease" array-lease.c \
  'if (!g->fired && !in_use (a, g))' 'if (!g->fired)'
mutant lease-left-before-images "test-array-lease" array-lease.c \
  'if (!g->fired || !drained (a, g))' 'if (!g->fired)'
mutant lease-left-before-copies-of-joiners test-array-lease array-lease.c \
  'if (!images_written (a->images, i, g->sequence))' \
  'if (member_counts (a, i) && !images_written (a->images, i, g->sequence))'
mutant lease-left-while-it-is-read test-array-lease array-lease.c \
  'if (q->leased && next_leaving' \
  'if (q->leased && request_writes (q->r) && next_leaving'
mutant lease-left-by-who-was-stopped test-array-lease array-lease.c \
  '  struct leaving *g, *next;

  if (a->stopped)
    return;' '  struct leaving *g, *next;
'
mutant lease-granted-without-flush test-array-lease array-lease.c \
  'a->member[i].writes.loose = a->former->wrote[i] = ++a->event' ''
mutant lease-granted-and-loss-untold test-array-lease array-lease.c \
  'a->member[i].writes.loose = a->former->wrote[i] = ++a->event' \
  'a->member[i].writes.loose = ++a->event'
mutant lease-settles "test-array-lease test-array-part" array-clear.c \
  'a->clear.settle && !a->config.leases ?' 'a->clear.settle ?'
mutant leaseless-read-as-a-writer "test-array-lease test-array-lessees" array-internal.h \
  ' ||
         (a->config.leases && !q->leased && !array_in_part (a, offset, length));' ';'
mutant leaseless-read-mends-nothing test-array-lease array-read.c \
  'p->bad && array_asks (a) && !q->leased' '0'
mutant waits-for-a-lease-with-a-turn test-array-lease array-lease.c \
  '  if (q->lock != LOCK_NONE)
    range_drop (a, q);
  q->waits = true;' '  q->waits = true;'
mutant recovering-is-written test-array-lease array-lease.c \
  'take (a, ranges, count, RECOVERING)' 'take (a, ranges, count, HELD)'
mutant leaving-is-granted test-array-lease array-lease.c \
  'change (s, start, end, 0, g->owner + 1);' ''
mutant recovery-is-told-instead-of-clients test-array-lease array-flush.c \
  'if (!repairs (a, c) && q->begun >= a->gone)' \
  'if (c != a->own && q->begun >= a->gone)'
mutant recovery-hears-what-clients-lost test-array-lease array-flush.c \
  '(a->untold && !(q->r->client && q->r->client->recovers))' 'a->untold'
mutant clients-hear-what-recovery-lost test-array-lease array-flush.c \
  '    if (repairs (a, c))
      continue;' '    if (c == a->own)
      continue;'

# Disks that hang.
mutant hung-disk-is-waited-for "test-array-hung sim" array-hung.c \
  'ms >= HUNG_MS &&' 'ms >= 100 * HUNG_MS &&'
mutant disk-that-answers-is-accused "test-array-hung sim" array-hung.c \
  'ms >= HUNG_MS &&' 'ms >= HUNG_MS / 4 &&'
mutant slow-disk-is-accused test-silence array-hung.c \
  'ms >= HUNG_MS &&' 'ms >= HUNG_MS / 2 &&'
mutant last-copy-on-a-hung-disk-is-lost test-array-hung array-hung.c \
  ' || !has_last_copy (a, member))' ' || true)'
mutant last-copy-on-a-hung-disk-is-never-reported test-array-hung array-hung.c \
  '(ms >= a->config.io_timeout_ms || ' '('
mutant disk-of-a-joiner-may-hang test-array-hung array-hung.c \
  'lost[member] = true;' 'lost[member] = true; if (!member_readable (a, member)) return true;'
mutant only-reads-are-asked-about test-array-hung array-hung.c \
  'o->owes |= !is_sign (x);' 'o->owes |= x->io.kind == IO_READ;'
mutant older-member-is-asked-about-its-disk-again test-array-hung array-hung.c \
  'o->mute = error == EINVAL;' 'o->mute = false;'
mutant older-member-is-lost-for-saying-nothing test-array-hung array-answer.c \
  ' ||
      (x->purpose == FOR_PULSE && error == EINVAL)' ''
mutant nobody-is-suspect sim-cluster-sick array-timing.c \
  'known && peers > 0 && ns > peers * SUSPECT_FACTOR' 'false'
mutant suspect-is-forgotten-while-it-syncs "test-array-hung sim-cluster-sick" array-timing.c \
  'o->suspect = stays_suspect (a, o);' 'o->suspect = false;'
mutant suspect-is-forgotten-beside-idle-peers test-array-hung array-timing.c \
  'peers * (SUSPECT_FACTOR / 2) : o->slow_ns / 2' \
  'peers * (SUSPECT_FACTOR / 2) : UINT64_MAX'
mutant suspect-for-ever test-array-hung array-timing.c \
  'o->suspect = stays_suspect (a, o);' ';'
mutant quick-sync-keeps-a-suspect test-array-hung array-timing.c \
  'o->sync_ns > o->slow_ns / 2' 'true'
mutant suspect-by-answers-alone test-array-hung array-timing.c \
  'return each_ns;' 'return ns;'
mutant few-answers-say-nothing test-array-hung array-timing.c \
  'each_ns >= SUSPECT_EACH_NS' 'false'
mutant reads-wait-for-a-member-without-answers test-array-hung array-timing.c \
  '  uint64_t ns = read_ns (a, o);
  uint64_t age_ns = o->oldest_ns ? a->now_ns - o->oldest_ns : 0;' \
  '  uint64_t ns = read_ns (a, o), age_ns = 0;'

# Requests that a member refuses for the moment.
mutant refused-is-a-failure "test-array-refused sim" array-refused.c \
  'if (error != ENOSPC && error != ENOMEM)' 'if (1)'
mutant refused-flush-is-sent-again test-array-refused array-refused.c \
  'return x->io.kind != IO_FLUSH &&' 'return'
mutant refused-fua-of-any-server-is-sent-again test-array-refused array-refused.c \
  '(a->config.batches || !aio_writes (x) || !(x->io.flags & ARRAY_FUA))' '1'
mutant refused-is-waited-for-without-end test-array-refused array-refused.c \
  'x->refused_ns + REFUSED_PATIENCE_NS > a->now_ns ||' 'x ||'
mutant refused-last-copy-is-given-up "test-array-refused sim" array-refused.c \
  'return layout_loss (a->layout, gone, NULL) <= a->lost_bytes;' 'return true;'
mutant refused-by-all-one-is-given-up test-array-refused array-refused.c \
  '    gone[x->io.member] = true;' '    ;'
mutant refused-is-lost-as-by-its-line test-array-refused array-refused.c \
  '    a->member[i].loss.answers = true;' ''
mutant refused-write-holds-reads-up test-array-refused array-read.c \
  'else if (c > 0 && !needs_no_turn (a, p))' 'else if (c > 0)'
mutant write-fails-where-the-host-has-no-memory test-array-refused array-write.c \
  '  if (error == ENOMEM) {' \
  '  if (error == ENOMEM) {
    req_fail (a, p->req, error);
    piece_end (a, p);
    return false;'
mutant memory-is-not-asked-for-again test-array-refused array-write.c \
  '    a->memory_ns = a->now_ns + MEMORY_AGAIN_NS;' '    ;'
mutant wait-for-memory-is-not-said test-array-refused array-write.c \
  '      a->memory_since_ns = a->now_ns;' '      ;'
mutant wait-for-memory-is-said-for-ever test-array-refused array.c \
  '    a->memory_since_ns = 0;' '    ;'
mutant zeroes-without-an-answer-are-equal test-array-loss array-write.c \
  'if (p->started && member_in_sync (a, data->member))' 'if (0)'
mutant zeroes-of-a-member-that-is-out-stay-unequal test-array-loss array-write.c \
  'if (p->started && member_in_sync (a, data->member))' 'if (p->started)'
mutant bits-stay-where-all-was-kept test-array-flush array-epoch.c \
  'm->differs |= lapsed || !same;' 'm->differs = true;'
mutant bits-fall-where-a-copy-may-be test-array-flush array-epoch.c \
  'm->differs |= lapsed || !same;' 'm->differs |= lapsed;'
mutant bits-fall-where-something-is-gone test-array-flush array-epoch.c \
  'm->differs |= lapsed || !same;' 'm->differs |= !same;'
