# shellcheck shell=sh
# host.sh: mutants of the host engine: session, links and seats.  check says how
# they are written.

# weftd's messages.
mutant older-states-are-learnt test-host-session host-view.c \
  'if (v->epoch > h->view.epoch) {' 'if (1) {'
mutant older-map-is-taken test-host-session host-view.c \
  'v->map_epoch == h->view.epoch && v->map_epoch > h->view.map_epoch' \
  'v->map_epoch > 0'
mutant older-change-is-taken test-host-session host-view.c \
  'v->change > h->view.epoch && v->change > h->view.change' 'v->change > 0'
mutant ended-session-goes-on test-host-session host.c \
  'return h->ended ? 0 : h->over ? HOST_DO_STOP : HOST_DO_ALL;' \
  'return h->ended ? 0 : HOST_DO_ALL;'
mutant ended-session-hangs sim-cluster host.c \
  'h->ended ? 0 : h->over ? HOST_DO_STOP : HOST_DO_ALL' \
  'h->ended || h->over ? 0 : HOST_DO_ALL'

# Epochs, and changes.
mutant entered-before-the-array-engine test-host-session host.c \
  'if (epoch >= h->view.epoch && host_links_settled (h))' \
  'if (host_links_settled (h))'
mutant entered-without-connections test-host-links host.c \
  'h->committed >= h->view.epoch && host_links_settled (h);' \
  'h->committed >= h->view.epoch;'
mutant arrived-is-asked-once test-host-session host.c \
  '(h->settled < h->view.epoch || h->arrived < h->view.epoch)' 'h->settled < h->view.epoch'
mutant arrived-is-not-told test-host-session host.c \
  '|| h->arrived > h->told_arrived ||' '||'
mutant change-under-way-is-said-at-once test-host-links host-links.c \
  'now_ms < l->waits_from_ms + CHANGING_SAID_MS' 'false'
mutant settled-with-an-older-map test-host-links host-links.c \
  'if (h->view.map_epoch < h->view.epoch)
    return false;
  for' 'for'
mutant prepared-without-a-connection test-host-session host-links.c \
  '&&
        (h->link[m].state != LINK_UP || h->link[m].busy))
      return false;' '&& 0)
      return false;'
mutant prepared-before-the-seat test-host-session host-links.c \
  '&&
        (h->link[m].state != LINK_UP || h->link[m].busy))
      return false;' '&& h->link[m].state != LINK_UP)
      return false;'
mutant reader-waits-for-connections test-host-session host-links.c \
  'if (!h->readonly && h->view.change_states' 'if (h->view.change_states'
mutant prepared-is-not-told test-host-session host.c \
  'h->prepared > h->told_prepared ||' ''
mutant told-once-only test-host-session host.c \
  '  if (a->status == 200) {
    if (h->heard_ms' '  {
    if (h->heard_ms'

# Trust in a heartbeat's answer.
mutant reader-answers-in-silence test-host-session host.c \
  'a->until_ms = h->trusts_ms = h->heard_ms + SESSION_TTL_MS' \
  'a->until_ms = h->trusts_ms = h->heard_ms + 2 * SESSION_TTL_MS'
mutant reader-heard-by-the-answer test-host-session host.c \
  'h->heard_ms = w->sent_ms;' 'h->heard_ms = now_ms;'
mutant reader-goes-on-too-early test-host-session host.c \
  'h->settled >= h->view.epoch);' 'true);'
mutant trusted-by-an-old-answer test-host-session host.c \
  ' && now_ms < until_ms &&' ' &&'

# Links.
mutant stale-connection-stays sim-cluster host-links.c \
  'return h->view.fence[m] > h->link[m].epoch;' 'return false;'
mutant stale-connection-is-used test-host-links host-links.c \
  'h->view.states[m] == MEMBER_OUT ||
      is_stale (h, m)) {' 'h->view.states[m] == MEMBER_OUT) {'
mutant connected-though-it-is-out test-host-links host-links.c \
  'h->view.states[m] == MEMBER_OUT ||
      is_stale (h, m)) {' 'is_stale (h, m)) {'
mutant connected-before-the-epoch test-host-links host.c \
  'due = h->committed >= h->view.epoch &&
          host_links_connect_due' \
  'due = host_links_connect_due'
mutant connected-with-old-tokens test-host-links host-links.c \
  'if (h->view.map_epoch < h->view.epoch || l->state == LINK_WANTED)' \
  'if (l->state == LINK_WANTED)'
mutant writer-connects-as-a-reader sim-cluster host-links.c \
  '||
         (h->readonly && l->state == LINK_LOST' '|| (l->state == LINK_LOST'
mutant loss-of-the-one-before sim-cluster host-links.c \
  'if (l->state != LINK_UP || l->connection != connection)' \
  'if (l->state != LINK_UP)'
mutant lost-before-the-start sim-cluster host.c \
  'l->connection = c->connected[m];' 'l->connection = 0;'
mutant kept-since-the-last-try sim-cluster host-links.c \
  '*kept = l->lapse <= l->used;' '*kept = l->lapse <= l->epoch;'
mutant another-process-is-the-known-one "test-host-links sim-cluster" host-links.c \
  'l->life <= l->used ?' 'l->life <= l->epoch ?'
mutant relinked-is-whole test-host-links host.c \
  'if (h->over || h->relinked)' 'if (h->over)'
mutant not-taken-is-up test-host-links host-links.c \
  'else if (up)
    link_lost (h, l, "it does not answer earlier requests", now_ms);' \
  ''

# Reports.
mutant reported-once-only test-host-links host-links.c \
  '+ (retry_ms > 0 && retry_ms < HOST_RETRY_MS
                          ? retry_ms
                          : HOST_RETRY_MS);' \
  '+ (1 << 30);'
mutant loss-is-known-of-the-last-time test-host-links host-links.c \
  '      l->state = LINK_WANTED;
      l->told = false;' '      l->state = LINK_WANTED;'
mutant ending-is-reported test-host-links host-links.c \
  'l == NULL || h->reporting || h->ending' 'l == NULL || h->reporting'

# Attach.
mutant too-often-is-the-end test-host-session host-attach.c \
  'answer->status == 429' '0'
mutant holder-lives-by-its-last-words test-host-session host-attach.c \
  'return a->signs < HOLDER_SIGNS' 'return a->signs < HOLDER_SIGNS - 1'
mutant ended-is-not-said test-host-session host-attach.c \
  'if (answer->holder && answer->holder_ended' 'if (0'
mutant ended-is-said-for-ever test-host-session host-attach.c \
  'strcmp (a->ended, answer->holder) != 0' '1'
mutant attach-waits-for-ever test-host-session host-attach.c \
  '*wait_ms == 0 || (!a->service && a->waited_ms >= HOST_ATTACH_WAIT_MS)' '*wait_ms == 0'

# Seats.
mutant joiner-counts-without-a-connection test-host-seats seats.c \
  's->states[m] == MEMBER_JOINING && !s->joined[m] ? MEMBER_OUT' \
  '0 ? MEMBER_OUT'
mutant joiner-goes-on-where-it-was test-host-seats seats.c \
  'states[m] == MEMBER_OUT ||
        (states[m] == MEMBER_JOINING && s->states[m] == MEMBER_IN_SYNC)' '0'
mutant out-was-missed test-host-seats seats.c \
  '||
        (states[m] == MEMBER_JOINING && s->states[m] == MEMBER_IN_SYNC)' ''
mutant older-commit-is-seated test-host-seats seats.c \
  'if (epoch < s->epoch)
    return false;' ''
mutant loss-left-for-the-next test-host-seats array-epoch.c \
  'if (n->notice.kind == NOTICE_LOST && n->notice.member == member)' 'if (0)'

# Candidates that serve an array, and clients that follow the server.
mutant who-stands-by-gives-up test-host-session host-attach.c \
  '(!a->service && a->waited_ms >= HOST_ATTACH_WAIT_MS)' 'a->waited_ms >= HOST_ATTACH_WAIT_MS'
mutant who-stands-by-needs-weftd test-host-session host-attach.c \
  'if (answer->status <= 0 || answer->status == 503)' 'if (0)'
mutant connections-of-one-number test-follow follow.c \
  'a->number = ++f->number' 'a->number = f->number + 1'
mutant next-process-has-old-numbers test-follow follow.c \
  'f->number = number;' ''
mutant next-process-is-newer-than-a-fence test-follow follow.c \
  'f->begun = known;' ''
mutant dead-server-is-not-left test-follow follow.c \
  'if (served && (!ours || lapsed)) {' 'if (served && lapsed) {'
mutant silent-server-is-left test-follow follow.c \
  'if (served && (!ours || lapsed)) {' 'if (!ours || lapsed) {'
mutant lapse-is-said-some-day test-follow follow.c \
  'if (served && (!ours || lapsed)) {' 'if (served && !ours) {'
mutant another-server-than-was-opened test-follow follow.c \
  'if (!ours) {
      f->drops = true;' 'if (!served) {
      f->drops = true;'
mutant equal-is-not-told test-host-session host.c \
  'h->equal != h->told_equal' 'false'
mutant equal-is-told-by-an-older-word test-host-session host.c \
  'h->told_equal = h->told_equal || w->equal;' 'h->told_equal = h->equal;'
mutant older-is-not-told test-host-session host.c \
  'h->older != h->told_older ||' ''
mutant older-is-told-by-a-word-before test-host-session host.c \
  'h->told_older = h->told_older || w->older;' 'h->told_older = h->older;'
mutant next-process-forgets-the-lapse test-follow follow.c \
  '  f->used = used;' ''
mutant lapse-is-not-looked-at test-follow follow.c \
  '!f->gone && !lapsed' '!f->gone'
mutant failed-flush-is-not-looked-at test-follow follow.c \
  '!f->gone && !lapsed' '!lapsed'
mutant failed-flush-is-forgotten test-follow follow.c \
  'f->gone = f->gone || what == FOLLOW_GONE' 'f->gone = what == FOLLOW_GONE'
mutant failed-flush-is-said-again test-follow follow.c \
  'f->gone = false;' ';'
mutant lapse-is-said-again test-follow follow.c \
  'f->used = f->epoch;' ';'
mutant lapse-is-not-asked-for test-follow follow.c \
  'f->state = FOLLOW_CHECKING;
  f->checked = false;' 'f->state = FOLLOW_CHECKING;
  f->checked = true;'
mutant lost-while-it-is-taken test-follow follow.c \
  'if (f->lost == f->connection)' 'if (0)'
mutant lost-before-it-was-taken test-follow follow.c \
  'if (connection > f->lost)' 'if (1)'
mutant lost-long-ago test-follow follow.c \
  'f->state == FOLLOW_UP && connection == f->connection' 'f->state == FOLLOW_UP'
mutant another-array-of-this-name test-follow follow.c \
  'f->stranger = strcmp (f->array, answer->array) != 0;' 'f->stranger = false;'
mutant fenced-client-goes-on test-follow follow.c \
  'f->over = f->over || f->fences < answer->below;' ''
mutant denied-client-goes-on test-follow follow.c \
  'f->over = f->over || answer->refused;' ''
mutant fenced-client-comes-again test-follow follow.c \
  'if (!f->begun)
      f->fences = answer->fences;' 'f->fences = answer->fences;'

# Leases: rules of lessee.h.
mutant asked-for-is-left test-lessee lessee.c \
  '{
  for (unsigned i = 0; l->asking && i < l->asks; i++)
    if (meet (&l->ask[i].must, s->start' '{
  for (unsigned i = 0; 0; i++)
    if (meet (&l->ask[i].must, s->start'
mutant asked-for-is-left-for-a-wish test-lessee lessee.c \
  'a->leave.wish = a->leave.must;' ';'
mutant left-while-it-is-granted "test-lessee test-lease-model" lessee.c \
  'return !l->granting && !goes_back' 'return !goes_back'
mutant left-before-it-is-equal "test-lessee test-lease-model" lessee.c \
  'return !l->granting && !goes_back (l, s->start, s->end) &&
         !order_meets (&l->order, s->start, s->end);' \
  'return !l->granting && !goes_back (l, s->start, s->end);'
mutant left-by-two-at-once "test-lessee test-lease-model" lessee.c \
  'return !l->granting && !goes_back (l, s->start, s->end) &&' 'return !l->granting &&'
mutant given-is-asked-for test-lessee lessee.c \
  'return !goes_back (l, start, end) &&
         !spans_meet' 'return !spans_meet'
mutant asked-back-is-asked-for test-lessee lessee.c \
  '!spans_meet (&l->asked_back, start, end) &&' ''
mutant not-recovered-is-asked-for test-lessee lessee.c \
  '!spans_meet (&l->asked_back, start, end) &&
         !order_meets (&l->order, start, end);' \
  '!spans_meet (&l->asked_back, start, end);'
mutant grant-brings-what-was-given "test-lessee test-lease-model" lessee.c \
  '  for (unsigned i = 0; i < l->tainted.count; i++)
    spans_set (&got' '  for (unsigned i = 0; 0; i++)
    spans_set (&got'
mutant grant-brings-what-was-being-given "test-lessee test-lease-model" lessee.c \
  '  for (unsigned i = 0; i < l->back.count; i++)
    spans_set (&l->tainted' '  for (unsigned i = 0; 0; i++)
    spans_set (&l->tainted'
mutant grant-brings-what-is-left-with-it "test-lessee test-lease-model" lessee.c \
  '  for (unsigned i = 0; i < l->leaves; i++)
    set (&l->tainted' '  for (unsigned i = 0; 0; i++)
    set (&l->tainted'
mutant grant-brings-what-was-asked-back "test-lessee test-lease-model" lessee.c \
  'if (l->asking)
    set (&l->tainted, &a->leave.wish, 1);' ';'
mutant taint-of-the-last-ask test-lessee lessee.c \
  'l->asking = l->granting = false;
  spans_free (&l->tainted);' 'l->asking = l->granting = false;'
mutant given-again-by-another-number test-lessee lessee.c \
  '  if (!l->kept)
    make_give (l);' '  make_give (l);'
mutant numbers-of-one-generation test-lessee lessee.c \
  'LEASE_NUMBERS (l->generation) + 1' '1'
mutant gives-numbered-beyond-json test-lessee lessee.c \
  'LEASE_NUMBERS (l->generation) + 1' '(l->generation << 32) + 1'
mutant declared-while-asking "test-lessee test-lease-model" lessee.c \
  '(l->declared || !l->asking) &&
          something_to_give (l)' 'something_to_give (l)'
mutant declared-by-a-refusal-alone test-lessee lessee.c \
  '!l->doubted && (l->declared' '(l->declared'
mutant asked-before-all-is-told test-lessee lessee.c \
  'due = l->declared && !l->asking' 'due = !l->asking'
mutant grant-of-an-older-weftd test-lessee lessee.c \
  '  if (l->asked_by < l->generation)
    return 0;' '  ;'
mutant older-weftd-is-heard test-lessee lessee.c \
  'if (generation < l->generation || (l->doubted' 'if ((l->doubted'
mutant doubted-weftd-is-heard test-lessee lessee.c \
  ' || (l->doubted && generation == l->generation))' ')'
mutant order-before-all-is-declared test-lessee lessee.c \
  'if (recover <= l->heard_order || !l->declared)' 'if (recover <= l->heard_order)'
mutant given-to-an-older-weftd "test-lessee test-lease-model" lessee.c \
  'else if (old || declare ||' 'else if (declare ||'
mutant older-order-is-carried-out test-lessee lessee.c \
  '  order_free (&l->next);
  /* The array engine' '  /* The array engine'
mutant order-of-a-new-weftd-is-missed "test-lessee test-lease-model" lessee.c \
  'l->heard_order = 0;' ';'
mutant order-is-begun-twice test-lessee lessee.c \
  'if (recover <= l->heard_order || !l->declared)' 'if (recover == 0 || !l->declared)'
mutant recovered-is-given "test-lessee test-lease-model" lessee.c \
  '    set (&l->back, &l->recover[i], 0);' '    ;'
mutant recovered-while-it-is-left "test-lessee test-lease-model" lessee.c \
  'if (leaving (l, s->span[i].start, s->span[i].end))' 'if (0)'
mutant acted-on-twice test-lessee lessee.c \
  '    for (unsigned i = 0; i < l->back.count; i++)
      spans_set (&l->asked_back' '    for (unsigned i = 0; 0; i++)
      spans_set (&l->asked_back'
mutant leases-wait-for-the-next-heartbeat test-host-session host.c \
  'else if (kind == HOST_DO_BEAT && !a->at_once)' 'else if (kind == HOST_DO_BEAT)'

# The window.
mutant window-forgets-revokes test-lease-window lease-window.c \
  'sum -= weight (now_ms - e->at_ms);' ';'
mutant window-of-the-paper-as-printed test-lease-window lease-window.c \
  ': t < 1 / WEIGHT_BASE ? 1' ': t < 1 ? logarithm (t)'
mutant window-of-all-gets test-lease-window lease-window.c \
  'r->offset > end + LEASE_RUN_GAP ||' '0 ||'
mutant wish-goes-up-only test-lease-window lease-window.c \
  'down = newest < oldest ? bytes : 0;' 'down = 0;'
mutant wish-by-the-newest-alone test-lease-window lease-window.c \
  'seen <= LEASE_ASKS_MAX' 'seen <= 1'
mutant window-of-wants-alone test-lease-window lease-window.c \
  'e->range = (struct array_range) { start, end - start };' ';'
mutant window-is-not-told-of-grants test-lessee lessee.c \
  'lease_window_got (&l->window, &l->ask[k], &granted[n]);' ';'
mutant window-of-what-others-kept test-lease-window lease-window.c \
  '    end = end_of (granted);' '    ;'
mutant window-beyond-its-wish test-lease-window lease-window.c \
  'start = wish->offset, end = end_of (wish);' \
  'start = granted->offset, end = end_of (granted);'
mutant wish-beyond-the-end test-lease-window lease-window.c \
  '  if (end > size)
    end = size;' '  ;'
mutant rounds-count-for-orphans test-resync resync.c \
  '  if (r->mode == RESYNC_OF_ORPHANS)
    reach = UINT64_MAX;' '  ;'

# A client of the service tells weftd whether it reaches the process that serves.
mutant lost-server-is-not-told test-follow follow.c \
  'f->unreached = true;' ';'
mutant next-server-counts-as-unreached test-follow follow.c \
  'f->unreached = !ok;' 'f->unreached |= !ok;'

# The volumes of a pool.
mutant holder-message-without-an-answer-is-over test-holder holder.c \
  '    return; /* it is sent again */' '{ message_free (h); return; }'
mutant holder-message-without-an-answer-counts test-holder holder.c \
  'if (status != 200)' 'if (0)'
mutant holder-takes-what-is-in-use test-holder holder.c \
  'if (spans_meet (&h->owned, run->first, (uint64_t) run->first + run->count))' 'if (0)'
mutant holder-grants-twice-at-an-opening test-holder holder.c \
  'if (!*why && i > 0 && runs[i].first < runs[i - 1].first + runs[i - 1].count)' 'if (0)'
mutant holder-keeps-what-it-gives test-holder holder.c \
  '    owner_set (h, &runs[i], 0);' ''
mutant holder-order-twice test-holder holder.c \
  'orders[i].number > h->taken && ' ''
mutant holder-asks-without-a-pause test-holder holder.c \
  'if (!v->vain)' 'if (1)'
mutant holder-asks-late-though-requests-wait test-holder holder.c \
  'v->facts.waits || v->facts.log > 0' 'v->facts.log > 0'
mutant holder-formats-again-and-again test-holder holder.c \
  'h->formatted_said |= m->formatted;' ';'
mutant holder-says-figures-at-once test-holder holder.c \
  'v->said_ms + FIGURES_MS' '0'
mutant holder-loses-what-has-no-room test-holder holder.c \
  '  h->dones -= m->dones;' '  h->dones = 0;'
mutant holder-granted-while-it-gives test-holder holder.c \
  'if (are_given (h, run))' 'if (0)'
mutant holder-leaves-unheard test-holder holder.c \
  '  v->heard = false;' ''
mutant holder-is-settled-before-it-is-heard test-holder holder.c \
  '!entry_of (h, v->uuid) &&' 'true &&'
mutant holder-opens-what-is-being-given-back test-holder holder.c \
  'if (!*why && are_leaving (h, uuid, &runs[i]))' 'if (0)'
