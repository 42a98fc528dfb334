# shellcheck shell=sh
# whole.sh: mutants of plugin/whole.c: no read finds half of a write (L7).  check says how they
# are written.

mutant reads-look-at-no-counts test-whole whole.c \
  'return (seen & CHANGES) == 0 && look (span) == seen;' 'return true;'
mutant change-under-way-is-not-seen test-whole whole.c '(seen & CHANGES) == 0 &&' ''
mutant change-meanwhile-is-not-seen test-whole whole.c '&& look (span) == seen' ''
mutant changes-count-in-their-first-span test-whole whole.c \
  '(offset + bytes + SPAN_BYTES - 1) / SPAN_BYTES' 'offset / SPAN_BYTES + 1'
mutant turn-keeps-nobody-off test-whole whole.c \
  'TURNS) {
      leave' '0) {
      leave'
mutant turn-waits-for-nobody test-whole whole.c 'wait_for_none (word, CHANGES);' ''
