#!/bin/sh
# Proof that the simulator can fail: breaks the engine in one place at a time
# and expects a run to end with the judge's or an assertion's complaint.
#
#   tests/sim/mutants.sh [NAME...]      in a build directory's tests/sim, or
#                                       anywhere with CC and zlib
#
# A mutant is one line of core/ replaced by another.  A line that is not found
# exactly once is an error: the mutant must follow the code.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
core=$(cd "$here/../../core" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/weft-mutants.XXXXXX")
trap 'rm -rf "$work"' EXIT
cc=${CC:-cc}
seeds=${SEEDS:-1-1500}
wanted=" $* "
caught=0
missed=

mkdir "$work/clean"
: > "$work/clean/config.h"
cp "$core"/array*.[ch] "$core"/images*.[ch] "$core"/batch.[ch] "$core"/bytes.h \
  "$core"/layout*.[ch] "$core"/limits.h "$core"/format.h "$here"/sim*.[ch] \
  "$work/clean"

# build DIRECTORY: only what the mutant changed is compiled anew.
build ()
{
  (cd "$1" && for c in *.c; do
    [ -f "${c%.c}.o" ] ||
      "$cc" -std=gnu11 -O1 -D_GNU_SOURCE -I. -c "$c" -o "${c%.c}.o"
  done && "$cc" -o sim ./*.o -lz)
}
build "$work/clean"
"$work/clean/sim" --seeds "$seeds" # the engine as it is passes

# mutant NAME FILE OLD NEW
mutant ()
{
  case "$wanted" in "  " | *" $1 "*) ;; *) return 0 ;; esac
  dir=$work/$1
  cp -r "$work/clean" "$dir"
  case "$2" in
    *.h) rm -f "$dir"/*.o ;; # whoever includes it
    *) rm -f "$dir/${2%.c}.o" ;;
  esac
  rm -f "$dir/sim"
  OLD=$3 NEW=$4 awk '
    BEGIN { old = ENVIRON["OLD"]; new = ENVIRON["NEW"] }
    (i = index ($0, old)) {
      n++
      $0 = substr ($0, 1, i - 1) new substr ($0, i + length (old))
    }
    { print }
    END { exit n != 1 }' "$work/clean/$2" > "$dir/$2" || {
    echo "mutant $1: \"$3\" does not stand exactly once in $2" >&2
    exit 1
  }
  build "$dir"
  rc=0
  timeout 300 "$dir/sim" --seeds "$seeds" > "$dir/out" 2>&1 || rc=$?
  if [ $rc = 0 ]; then
    echo "mutant $1: NOT caught"
    missed="$missed $1"
  else
    caught=$((caught + 1))
    why=$(grep -E '^sim: seed|Assert' "$dir/out" | head -n 1 | cut -c 1-150)
    [ $rc != 124 ] || why="it hangs"
    echo "mutant $1: caught: ${why:-it ends with status $rc}"
  fi
  rm -rf "$dir"
}

mutant ack-before-data array-write.c \
  '  if (ok)' '  if (1)'
mutant ack-without-image array-write.c \
  'if (!copy_in_sync (a, p, c) || p->written & 1u << c)' 'if (c > 0)'
mutant degraded-ack-before-commit array-write.c \
  'if (write_data && !member_usable (a, data)) {' \
  'if (write_data && !member_usable (a, data)) { piece_end (a, p); return;'
mutant degraded-ack-unwritten array-write.c \
  '!copy_in_sync (a, p, 0);' 'false;'
mutant fua-does-not-wait array-write.c \
  'bool wait = (r->flags & ARRAY_FUA) ||' 'bool wait ='
mutant image-without-fua array-io.c \
  '(run->fua ? ARRAY_FUA : 0) |' '0 |'
mutant image-dropped-when-answered-badly images-send.c \
  'if (written || m->gone)' 'if (1)'
mutant newer-image-while-older-flies images-internal.h \
  'return f && f->offset < e->offset + e->length;' 'return false && f;'
mutant cut-image-keeps-its-bytes images.c \
  'o->at += end - o->offset;' ''
mutant blocked-image-is-sent images-send.c \
  'if (!e->due && !image_blocked (m, e))' 'if (!e->due)'
mutant replaced-image-leaves-its-flush images.c \
  'if (o->sequence >= e->sequence)' 'if (1)'
mutant flush-skips-a-member array-flush.c \
  'if (member_in_sync (a, i) && m->written > m->flushed)' \
  'if (i != 1 && member_in_sync (a, i) && m->written > m->flushed)'
mutant flush-does-not-drain array-flush.c \
  'if (!images_drained (a->images, q->mark))' 'if (0)'
mutant flush-shares-one-begun-too-early array-flush.c \
  'm->flushed = x->start;' 'm->flushed = a->event;'
mutant image-read-without-drain array-read.c \
  '    if ((c == copy || p->bad & 1u << c) &&' '    if (0 &&'
mutant image-read-without-turn array-read.c \
  'if (q->lock < need) {' 'if (0) {'
mutant overlapping-writes-at-once array-range.c \
  'return x->start < y->end && y->start < x->end' \
  'return x->start == y->start && x->end == y->end'
mutant repair-without-turn array-read.c \
  'need = LOCK_EXCLUSIVE;' 'need = LOCK_NONE;'
mutant balance-while-buffered array-read.c \
  'if (images_overlap (a->images, copy->member, copy->offset, p->at.length)' \
  'if (0'
mutant balance-while-written array-read.c \
  'range_written (a, p->at.offset, p->at.length))' 'false)'
mutant lost-member-is-used array-internal.h \
  'return a->member[member].state == MEMBER_IN_SYNC && !a->member[member].lost;' \
  'return a->member[member].state == MEMBER_IN_SYNC;'
mutant no-second-look-after-commit array.c \
  'if (q->error || !q->buffered || q->commits == a->commits)' \
  'if (1)'
mutant space-is-not-given-back images.c \
  'b->bytes -= room_of (copies);' ''
mutant batch-payload-is-shifted images-send.c \
  'at = batch_payload_at (count);' 'at = batch_payload_at (count) + 8;'

mutant clear-without-flush array-clear.c \
  'else if (c->covered)' 'else if (1)'
mutant clear-after-too-early-a-flush array-clear.c \
  'if (!q->error && q->shift == a->clear.shifts)' 'if (!q->error)'
mutant clear-what-is-in-flight array-clear.c \
  '      clear_touch (a, x);' '      ;'
mutant clear-what-was-written-since array-clear.c \
  '(*chunk)->rested[word] &= ~bit;' ''
mutant write-while-clearing array-io.c \
  'if (clear_holds (a, x)) {' 'if (0) {'
mutant clear-nothing array-clear.c \
  'm->rested |= m->recent;' ''

echo "$caught mutants caught; not caught:${missed:- none}"
[ -z "$missed" ]
