# shellcheck shell=sh
# budget.sh: mutants of plugin/budget.c: how much memory clients' requests take.  check
# says how they are written.

mutant large-request-does-not-wait test-budget budget.c \
  'while ((full = shares_check (&shares, &p->share)) != SHARES_FIT) {' \
  'for (full = SHARES_ALL; 0;) {'
mutant small-request-waits test-budget budget.c 'length > BUDGET_SMALL &&' ''
mutant refused-request-counts test-budget budget.c \
  '&& length <= REQUEST_BYTES_MAX' ''
mutant reply-is-whole-when-it-begins test-budget budget.c \
  '&& p->sent >= p->reply' ''
mutant error-has-a-payload test-budget budget.c 'p->reads && word == 0' 'p->reads'
mutant failed-reply-counts-on test-budget budget.c \
  'if (p->share.amount > 0) /* its reply failed */
    give_back (p);' ''
mutant memory-of-a-thread-that-ended-counts test-budget budget.c \
  'if (p->share.amount > 0)
    give_back (p);
  pthread_mutex_lock' 'pthread_mutex_lock'
mutant request-that-waits-is-not-woken test-budget budget.c \
  'if (waiting > 0)' 'if (0)'
mutant payload-is-taken-for-a-request test-budget budget.c \
  'p->payload = p->reads ? 0 : length;' 'p->payload = 0;'
mutant request-that-runs-is-late test-budget budget.c \
  'if (p->payload == 0 && p->share.amount > 0) {' 'if (0) {'
mutant stuck-reply-is-never-late test-budget budget.c \
  'p->since_ms = clock_ms ();
  pthread_mutex_unlock (&lock);
}' 'pthread_mutex_unlock (&lock);
}'
mutant stuck-write-is-never-late test-budget budget.c \
  'p->since_ms = p->payload > 0 ? clock_ms () : 0;' 'p->since_ms = 0;'
mutant slow-client-is-late-at-once test-budget budget.c \
  'p->since_ms + BUDGET_LATE_MS +' 'p->since_ms +'
mutant late-client-of-another-node-goes test-budget budget.c \
  '!shares_count (full, s, &p->share) ||' ''
mutant idle-threads-keep-everything test-budget budget.c \
  'kept - p->kept + p->touched <= BUDGET_KEPT_BYTES' '1'
mutant idle-threads-keep-nothing test-budget budget.c \
  'kept - p->kept + p->touched <= BUDGET_KEPT_BYTES' '0'
mutant what-was-kept-counts-on test-budget budget.c \
  'kept -= p->kept;
  p->kept = 0;' ''
mutant what-was-kept-counts-twice test-budget budget.c \
  'kept - p->kept + p->touched' 'kept + p->touched'
