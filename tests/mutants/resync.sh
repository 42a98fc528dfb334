# shellcheck shell=sh
# resync.sh: mutants of the resync.  check says how they are written.

# Copied ranges.
mutant resync-copies-data-only test-resync resync.c \
  'if (first_dirty (r, &r->unit) != (unsigned) c)' 'if (c != 0)'
mutant resync-without-a-map test-resync resync.c \
  '  else
      r->phase = LOSING;' '  else
      r->member++;'
mutant resync-takes-an-old-map test-resync resync.c \
  '  case RESYNC_LOST:
    forget_maps (r);' '  case RESYNC_LOST:'
mutant resync-leaves-the-other-half "test-resync sim-cluster" resync.c \
  '  if (r->unit_at == r->unit.length)
    r->unit.length = 0;' '  r->unit.length = 0;'

# From where.
mutant resync-from-the-older-copy test-resync resync.c \
  'return mx->reach > my->reach;' 'return mx->reach < my->reach;'
mutant resync-from-where-no-bit-is test-resync resync.c \
  'return map_has (mx, x->offset) && !map_has (my, y->offset);' \
  'return false;'
mutant resync-from-who-is-out test-resync resync.c \
  'states[r->unit.copy[c].member] == MEMBER_IN_SYNC &&
        !(without' '!(without'
mutant resync-from-who-was-not-asked test-resync resync.c \
  'if (!mx->bits != !my->bits)' 'if (0)'
mutant resync-of-a-whole-unit-from-an-older-copy test-resync resync.c \
  '(c < 0 || newer (r, newest (r, states, 0), c))' 'c < 0'
mutant read-of-one-copy-takes-another test-array-loss array-read.c \
  'if (copy && p->req->r->op == ARRAY_READ)' 'if (0)'

# Ranges that can't be read in any copy.
mutant resync-tells-nobody-what-is-bad "test-resync sim-cluster" resync.c \
  'r->bad_count > 0 ? TELLING : HANDING_OVER' 'HANDING_OVER'
mutant resync-tells-one-member-only "test-resync sim-cluster" resync.c \
  'if (r->at == r->bad_count) {
      r->member++;' 'if (r->at == r->bad_count) {
      r->member = r->layout.members;'
mutant resync-takes-no-last-look test-resync resync.c \
  '    r->door = 0;
    r->tried = 0;' '    r->door = 0;'
mutant resync-settles-what-not-all-know test-resync resync.c \
  'r->stays |= error != 0;' ';'
mutant resync-tells-of-the-only-copy test-resync resync.c \
  '|| !(told & (told - 1)) ? 0' '? 0'
mutant resync-tells-nobody-while-one-is-out test-resync resync.c \
  '    while (r->door < r->layout.members && states[r->door] != MEMBER_IN_SYNC)
      r->door++;' '    r->stays |= states[r->door] != MEMBER_IN_SYNC;'
mutant resync-tells-who-has-joined-since test-resync resync.c \
  'states[p->copy[c].member] == MEMBER_IN_SYNC &&
        r->opened[p->copy[c].member])' 'states[p->copy[c].member] == MEMBER_IN_SYNC)'
mutant resync-tells-who-has-gone-out test-resync resync.c \
  'if (states[p->copy[c].member] == MEMBER_IN_SYNC &&
        r->opened' 'if (r->opened'
mutant resync-settles-what-nobody-was-told test-resync resync.c \
  'if (r->untold)' 'if (0)'

# The end of it.
mutant resync-takes-a-failed-flush test-resync resync.c \
  'if (error == EIO && ++r->copied < COPY_TRIES) {' \
  'if (error == EIO) error = 0;
  if (0) {'
mutant resync-copies-once test-resync resync.c \
  '#define COPY_TRIES 5' '#define COPY_TRIES 1'
mutant resync-settles-uncopied "test-resync sim-cluster" resync.c \
  'r->extents > 0 && r->layout.copies > 1' '0'
mutant resync-hides-an-older-copy "test-resync sim-cluster" resync.c \
  'r->phase = r->tried && !r->older ? ADMITTING : WRITING;' 'r->phase = WRITING;'
mutant resync-takes-a-failed-write test-resync resync.c \
  '  case RESYNC_WRITE:
    if (error)' '  case RESYNC_WRITE:
    if (0)'
mutant resync-lowers-beyond-a-member test-resync resync.c \
  '  if (end > map->data_bytes)
    end = map->data_bytes;' '  ;'

# Several writers.
mutant resync-of-what-others-write test-resync resync.c \
  '  if (r->ranges.count > 0) {
    unsigned i = spans_find' '  if (0) {
    unsigned i = spans_find'
mutant resync-settles-what-others-write test-resync resync.c \
  'for (; r->ranges.count == 0 && r->member' 'for (; r->member'
mutant part-is-not-resynced-at-its-attach test-resync resync.c \
  'r->extents > 0 && r->layout.copies > 1' \
  'r->extents > 0 && r->layout.copies > 1 &&
           (r->ranges.count == 0 || r->mode == RESYNC_OF_ORPHANS)'

# Orphans, and the end of one who shares by leases.
mutant orphans-are-copied-with-what-is-beside-them test-resync resync.c \
  '    if (end > s->end)
      end = s->end;' '    ;'
mutant orphans-are-copied-from-what-is-before-them test-resync resync.c \
  '    if (r->rest < s->start)
      r->rest = s->start;' '    ;'
mutant orphans-are-copied-in-odd-pieces test-resync resync.c \
  'while (r->rest % length > 0 || length > end - r->rest)' \
  'while (length > end - r->rest)'
mutant one-orphan-of-a-unit-is-copied test-resync resync.c \
  '  if (next_piece (r))
    return true;
  for' '  for'
mutant orphans-are-settled test-resync resync.c \
  'if (r->mode == RESYNC_OF_ORPHANS) {' 'if (0) {'
mutant orphan-that-is-less-than-a-block-is-told test-resync resync.c \
  'return p->length < BAD_BLOCK_BYTES || !(told' 'return !(told'
mutant end-of-leases-settles test-resync resync.c \
  '.kind = r->mode == RESYNC_AT_END ? BATCH_SETTLE : BATCH_CLEAR,' \
  '.kind = BATCH_SETTLE,'
