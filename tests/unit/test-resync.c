/* test-resync.c: the resync's engine: step by step, and against a dumb one. */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "format/bad.h"
#include "host/resync.h"
#include "test-random.h"

#define BLOCK BAD_BLOCK_BYTES
#define MAP_BYTES 3

static struct layout l;
static struct resync *r;
static struct resync_action a; /* the last */
static enum member_state states[ARRAY_MEMBERS_MAX];
static uint8_t bits[ARRAY_MEMBERS_MAX][MAP_BYTES];
static uint64_t reach[ARRAY_MEMBERS_MAX];
static uint64_t data_bytes;         /* of each member */
static struct array_range range[4]; /* the ranges to resynchronize; none: all */
static unsigned ranges;

/* All members are in-sync, have seen as much, and have no bits. */
static void
configure (enum layout_kind kind, unsigned n, uint64_t unit,
           uint64_t member_bytes)
{
  char why[256];

  CHECK (layout_init (&l, kind, n, 1, unit, member_bytes, why, sizeof why) ==
         0);
  data_bytes = member_bytes;
  memset (bits, 0, sizeof bits);
  memset (reach, 0, sizeof reach);
  for (unsigned m = 0; m < n; m++)
    states[m] = MEMBER_IN_SYNC;
}

static void
set_bit (unsigned member, unsigned extent)
{
  bits[member][extent / 8] |= 1 << extent % 8;
}

static bool
has_bit (unsigned member, uint64_t offset)
{
  uint64_t x = offset / EXTENT_BYTES;

  return bits[member][x / 8] >> (x % 8) & 1;
}

static void
want (enum resync_kind kind)
{
  resync_next (r, states, &a);
  CHECK (a.kind == kind);
}

static void
want_of (enum resync_kind kind, unsigned member)
{
  want (kind);
  CHECK (a.member == member);
}

static void
done (int error)
{
  resync_done (r, error);
}

/* It is wanted, and comes to this. */
static void
act (enum resync_kind kind, int error)
{
  want (kind);
  done (error);
}

static void
act_of (enum resync_kind kind, unsigned member, int error)
{
  want_of (kind, member);
  done (error);
}

static void
hand_map (void)
{
  uint8_t *map = malloc (MAP_BYTES);

  CHECK (map && states[a.member] == MEMBER_IN_SYNC);
  memcpy (map, bits[a.member], MAP_BYTES);
  resync_map (r, reach[a.member], data_bytes, map, MAP_BYTES);
  done (0);
}

/* Up to and without the last: these members are asked. */
static void
begin (enum resync_mode mode, unsigned members)
{
  r = resync_new (&l, range, ranges, mode);
  CHECK (r);
  for (unsigned m = 0; m < members; m++)
    if (states[m] == MEMBER_IN_SYNC) {
      want_of (RESYNC_MAP, m);
      hand_map ();
    }
}

static void
want_data (enum resync_kind kind, uint64_t offset, uint64_t length)
{
  want (kind);
  CHECK (a.offset == offset && a.length == length);
}

static void
read_from (uint64_t offset, uint64_t length, unsigned copy, int error)
{
  want_data (RESYNC_READ, offset, length);
  CHECK (a.copy == copy);
  done (error);
}

static void
copy_whole (uint64_t offset, uint64_t length, unsigned copy)
{
  read_from (offset, length, copy, 0);
  want_data (RESYNC_WRITE, offset, length);
  done (0);
}

/* All blocks of an extent from this one on, and the FLUSH comes to this. */
static void
copy_blocks (uint64_t from, int error)
{
  for (uint64_t at = from; at < EXTENT_BYTES; at += BLOCK)
    copy_whole (at, BLOCK, 0);
  act (RESYNC_FLUSH, error);
}

static void
want_settled (unsigned member, uint64_t offset, uint64_t length)
{
  want_of (RESYNC_SETTLED, member);
  CHECK (a.offset == offset && a.length == length);
  done (0);
}

static void
want_over (int error, bool settled)
{
  want (RESYNC_OVER);
  CHECK (a.error == error && a.settled == settled);
  want (RESYNC_OVER);
  resync_free (r);
}

static void
test_clean (void)
{
  uint64_t begun;

  configure (LAYOUT_RAIDX, 4, KiB (16), MiB (8));
  states[2] = MEMBER_OUT;
  states[3] = MEMBER_JOINING;
  begin (RESYNC_AT_ATTACH, 4);
  want_settled (0, 0, 0);
  CHECK (resync_extents (r, &begun) == 0 && begun == 0);
  want_over (0, true);
}

static void
test_one_copy (void)
{
  configure (LAYOUT_RAID0, 2, KiB (16), MiB (8));
  set_bit (1, 1);
  begin (RESYNC_AT_ATTACH, 2);
  want_settled (0, 0, 0);
  want_settled (1, MiB (4), MiB (4));
  want_over (0, true);
}

/* A run of extents at once, no more than the member has, and what is behind the
 * layout's end, too.
 */
static void
test_settled (void)
{
  configure (LAYOUT_RAID1, 2, MiB (4), MiB (8));
  data_bytes = MiB (19);
  for (unsigned x = 0; x < 24; x++)
    if (x != 3)
      set_bit (1, x);
  set_bit (0, 9); /* beyond its end */
  begin (RESYNC_AT_ATTACH, 2);
  copy_whole (0, MiB (4), 1);
  copy_whole (MiB (4), MiB (4), 1);
  act (RESYNC_FLUSH, 0);
  want_settled (0, 0, 0);
  want_settled (1, 0, MiB (12));
  want_settled (1, MiB (16), MiB (3));
  want_over (0, true);
}

/* A unit of three copies, all dirty, is copied once: from where most rounds
 * were seen, then from where the bit is, then from the data.
 */
static void
test_newest (void)
{
  configure (LAYOUT_RAID1, 3, MiB (4), MiB (8));
  for (unsigned m = 0; m < 3; m++)
    set_bit (m, 0);
  set_bit (2, 1);
  begin (RESYNC_AT_ATTACH, 3);
  copy_whole (0, MiB (4), 0);
  copy_whole (MiB (4), MiB (4), 2);
  want (RESYNC_FLUSH);
  resync_free (r);

  reach[1] = 7;
  reach[0] = reach[2] = 6;
  begin (RESYNC_AT_ATTACH, 3);
  copy_whole (0, MiB (4), 1);
  copy_whole (MiB (4), MiB (4), 1);
  want (RESYNC_FLUSH);
  resync_free (r);

  /* It goes out meanwhile. */
  begin (RESYNC_AT_ATTACH, 3);
  copy_whole (0, MiB (4), 1);
  states[1] = MEMBER_OUT;
  copy_whole (MiB (4), MiB (4), 2);
  want (RESYNC_FLUSH);
  resync_free (r);

  /* A member that was not asked and is in-sync by now is read last. */
  memset (reach, 0, sizeof reach);
  states[0] = MEMBER_OUT;
  states[1] = MEMBER_IN_SYNC;
  begin (RESYNC_AT_ATTACH, 3);
  states[0] = MEMBER_IN_SYNC;
  states[1] = states[2] = MEMBER_OUT;
  copy_whole (0, MiB (4), 0);
  states[1] = MEMBER_IN_SYNC;
  copy_whole (MiB (4), MiB (4), 1);
  resync_free (r);
}

static void
test_load_again (void)
{
  configure (LAYOUT_RAID1, 2, MiB (4), MiB (8));
  set_bit (0, 0);
  begin (RESYNC_AT_ATTACH, 0);
  for (unsigned i = 0; i < 11; i++) {
    want_of (RESYNC_MAP, 0);
    hand_map ();
    act_of (RESYNC_MAP, 1, ETIMEDOUT);
    act_of (RESYNC_LOST, 1, 0);
    if (i < 10)
      act (RESYNC_PAUSE, 0);
  }
  want_over (ETIMEDOUT, false);

  /* Earlier reads do not count any longer. */
  begin (RESYNC_AT_ATTACH, 1);
  act_of (RESYNC_MAP, 1, EIO);
  act_of (RESYNC_LOST, 1, 0);
  act (RESYNC_PAUSE, 0);
  states[0] = MEMBER_OUT;
  want_of (RESYNC_MAP, 1);
  hand_map ();
  want_settled (0, 0, 0);
  want_over (0, true);

  /* There is no time. */
  states[0] = MEMBER_IN_SYNC;
  begin (RESYNC_AT_ATTACH, 0);
  act_of (RESYNC_MAP, 0, EIO);
  act_of (RESYNC_LOST, 0, 0);
  act (RESYNC_PAUSE, ESHUTDOWN);
  want_over (ESHUTDOWN, false);
}

/* An unreadable piece is halved; a bad block is read elsewhere, and the data beside it is
 * not. */
static void
test_next_copy (void)
{
  configure (LAYOUT_RAID1, 3, KiB (16), MiB (4));
  set_bit (0, 0);
  reach[2] = 7;
  begin (RESYNC_AT_ATTACH, 3);
  read_from (0, KiB (16), 2, EIO);
  read_from (0, KiB (8), 2, EIO);
  copy_whole (0, BLOCK, 2);
  read_from (BLOCK, BLOCK, 2, EIO);
  read_from (BLOCK, BLOCK, 0, EIO); /* it has the bit */
  read_from (BLOCK, BLOCK, 1, 0);
  act (RESYNC_OLDER, 0);
  act (RESYNC_WRITE, 0);
  copy_whole (KiB (8), KiB (8), 2);
  /* Once is enough. */
  read_from (KiB (16), KiB (16), 2, EIO);
  read_from (KiB (16), KiB (8), 2, EIO);
  read_from (KiB (16), BLOCK, 2, EIO);
  copy_whole (KiB (16), BLOCK, 0);
  resync_free (r);

  /* weftd can't be reached: data that may be newer is not overwritten. */
  begin (RESYNC_AT_ATTACH, 3);
  read_from (0, KiB (16), 2, EIO);
  read_from (0, KiB (8), 2, EIO);
  read_from (0, BLOCK, 2, EIO);
  read_from (0, BLOCK, 0, 0);
  act (RESYNC_OLDER, ESHUTDOWN);
  want_over (ESHUTDOWN, false);
}

/* A copy that is as new is read as a whole. */
static void
test_copy_as_new (void)
{
  configure (LAYOUT_RAID1, 3, KiB (16), MiB (4));
  set_bit (0, 0);
  set_bit (1, 0);
  begin (RESYNC_AT_ATTACH, 3);
  read_from (0, KiB (16), 0, EIO);
  read_from (0, KiB (16), 1, 0);
  act (RESYNC_OLDER, 0);
  act (RESYNC_WRITE, 0);
  read_from (KiB (16), KiB (16), 0, EIO);
  read_from (KiB (16), KiB (16), 1, EIO);
  read_from (KiB (16), KiB (8), 0, EIO);
  copy_whole (KiB (16), KiB (8), 1);
  copy_whole (KiB (24), KiB (8), 0);
  resync_free (r);
}

static void
test_errors (void)
{
  configure (LAYOUT_RAID1, 2, KiB (16), MiB (4));
  set_bit (0, 0);
  begin (RESYNC_AT_ATTACH, 2);
  act (RESYNC_READ, ESHUTDOWN);
  want_over (ESHUTDOWN, false);

  /* The error does not come from an unreadable place. */
  begin (RESYNC_AT_ATTACH, 2);
  act (RESYNC_READ, 0);
  act (RESYNC_WRITE, EIO);
  want_over (EIO, false);
}

/* The same, but for a block that can't be read in any copy. */
static void
copy_with_a_bad_block (bool first, int error)
{
  read_from (0, BLOCK, 0, EIO);
  read_from (0, BLOCK, 1, EIO);
  if (first) {
    act_of (RESYNC_OPEN, 0, 0);
    act_of (RESYNC_OPEN, 1, 0);
    read_from (0, BLOCK, 0, EIO);
    read_from (0, BLOCK, 1, EIO);
  }
  copy_blocks (BLOCK, error);
}

static void
tell_bad (unsigned member, int error)
{
  want_of (RESYNC_SEND, member);
  CHECK (a.count == 1 && a.records[0].kind == BATCH_BAD &&
         a.records[0].offset == 0 && a.records[0].length == BLOCK);
  done (error);
}

static void
begin_bad (void)
{
  configure (LAYOUT_RAID1, 2, BLOCK, MiB (4));
  set_bit (0, 0);
  begin (RESYNC_AT_ATTACH, 2);
}

static void
test_flush_fails (void)
{
  begin_bad ();
  copy_with_a_bad_block (true, EIO);
  copy_with_a_bad_block (false, EIO);
  /* It can be read now. */
  for (unsigned i = 3; i <= 5; i++)
    copy_blocks (0, i < 5 ? EIO : 0);
  want_settled (0, 0, 0);
  want_settled (0, 0, MiB (4));
  want_over (0, true);

  begin_bad ();
  for (unsigned i = 1; i <= 5; i++)
    copy_blocks (0, EIO);
  want_over (EIO, false);

  begin_bad ();
  copy_blocks (0, ESHUTDOWN);
  want_over (ESHUTDOWN, false);
}

static void
test_bad (void)
{
  const struct resync_place *bad;
  size_t count;

  /* Members hear of bad blocks when the rest is stable, and before the bits are
   * cleared. */
  begin_bad ();
  copy_with_a_bad_block (true, EIO);
  copy_with_a_bad_block (false, 0);
  bad = resync_bad (r, &count);
  CHECK (count == 1 && bad[0].offset == 0 && bad[0].length == BLOCK);
  tell_bad (0, 0);
  tell_bad (1, 0);
  want_settled (0, 0, 0);
  want_settled (0, 0, MiB (4));
  want_over (0, true);

  /* One does not take it. */
  begin_bad ();
  copy_with_a_bad_block (true, 0);
  tell_bad (0, 0);
  tell_bad (1, ENOTCONN);
  want_over (0, false);

  /* One has gone out: there is no other to be read by turns with. */
  begin_bad ();
  copy_with_a_bad_block (true, 0);
  states[1] = MEMBER_OUT;
  want_over (0, false);
}

/* A third copy is not there, or has joined since: two members hear of it. */
static void
test_bad_of_those_in_sync (void)
{
  for (unsigned joined = 0; joined < 2; joined++) {
    configure (LAYOUT_RAID1, 3, BLOCK, MiB (4));
    states[1] = MEMBER_OUT;
    set_bit (0, 0);
    begin (RESYNC_AT_ATTACH, 3);
    for (unsigned again = 0; again < 2; again++) {
      read_from (0, BLOCK, 0, EIO);
      read_from (0, BLOCK, 2, EIO);
      if (again)
        continue;
      act_of (RESYNC_OPEN, 0, 0);
      act_of (RESYNC_OPEN, 2, 0);
    }
    copy_blocks (BLOCK, 0);
    if (joined)
      states[1] = MEMBER_IN_SYNC;
    tell_bad (0, 0);
    tell_bad (2, 0);
    want_settled (0, 0, 0);
    want_settled (0, 0, MiB (4));
    want_over (0, true);
  }
}

static void
test_bad_without_doors (void)
{
  /* One can't be opened: the rest is copied, and the bits stay. */
  begin_bad ();
  read_from (0, BLOCK, 0, EIO);
  read_from (0, BLOCK, 1, EIO);
  act_of (RESYNC_OPEN, 0, ENOTCONN);
  copy_with_a_bad_block (false, 0);
  want_over (0, false);

  /* A member that is not there is not asked. */
  begin_bad ();
  states[0] = MEMBER_OUT;
  read_from (0, BLOCK, 1, EIO);
  act_of (RESYNC_OPEN, 1, 0);
  read_from (0, BLOCK, 1, EIO);
  read_from (BLOCK, BLOCK, 1, 0);
  resync_free (r);
}

/* More than one batch takes. */
static void
test_much_is_bad (void)
{
  unsigned told = 0, batches = 0;

  begin_bad ();
  for (;;) {
    resync_next (r, states, &a);
    if (a.kind == RESYNC_SETTLED)
      break;
    CHECK (a.kind != RESYNC_WRITE);
    if (a.kind == RESYNC_SEND) {
      batches++;
      for (unsigned i = 0; i < a.count; i++)
        CHECK (a.records[i].offset == (uint64_t) (told++ % 1024) * BLOCK);
    }
    done (a.kind == RESYNC_READ ? EIO : 0);
  }
  CHECK (told == 2048 && batches == 2);
  resync_free (r);
}

static void
test_end (void)
{
  configure (LAYOUT_RAID1, 3, MiB (4), MiB (8));
  data_bytes = MiB (66);
  for (unsigned x = 0; x < 20; x += 2)
    set_bit (2, x);
  set_bit (0, 0);
  begin (RESYNC_AT_END, 3);
  for (unsigned m = 0; m < 3; m += 2) {
    act_of (RESYNC_OPEN, m, 0);
    want_of (RESYNC_SEND, m);
    CHECK (a.count == (m == 0 ? 1 : 9));
    for (unsigned i = 0; i < a.count; i++)
      CHECK (a.records[i].kind == BATCH_SETTLE &&
             a.records[i].offset == 2 * i * EXTENT_BYTES &&
             a.records[i].length == (i < 8 ? MiB (4) : MiB (2)));
    done (0);
    act_of (RESYNC_CLOSE, m, 0);
  }
  want_over (0, true);

  /* Nothing is tried again. */
  for (unsigned i = 0; i < 3; i++) {
    begin (RESYNC_AT_END, i == 0 ? 0 : 3);
    want (i == 0 ? RESYNC_MAP : RESYNC_OPEN);
    if (i == 2) {
      done (0);
      want (RESYNC_SEND);
    }
    done (EIO);
    want_over (EIO, false);
  }
}

static void
set_range (uint64_t offset, uint64_t length)
{
  range[0] = (struct array_range) { offset, length };
  ranges = length > 0;
}

/* The resync of a part at its attach clears no bit, even of an extent with nothing else. */
static void
test_part (void)
{
  configure (LAYOUT_RAID10, 4, KiB (512), MiB (16));
  set_range (12 * KiB (512), 36 * KiB (512));
  for (unsigned x = 0; x < 4; x++) {
    set_bit (0, x);
    set_bit (2, x);
  }
  begin (RESYNC_AT_ATTACH, 4);
  for (unsigned u = 12; u < 48; u += 2)
    copy_whole (u * KiB (512), KiB (512), 0);
  act (RESYNC_FLUSH, 0);
  want_settled (0, 0, 0);
  want_over (0, true);
  set_range (0, 0);
}

/* Orphaned ranges of any length are copied, in pieces that can be halved; and no bit is
 * cleared. */
static void
test_orphans (void)
{
  configure (LAYOUT_RAID1, 2, KiB (16), MiB (8));
  range[0] = (struct array_range) { KiB (40), KiB (8) };
  range[1] = (struct array_range) { 512, KiB (5) };
  range[2] = (struct array_range) { KiB (14), KiB (4) };
  range[3] = (struct array_range) { MiB (4), MiB (4) };
  ranges = 4;
  set_bit (1, 0);
  begin (RESYNC_OF_ORPHANS, 2);
  for (uint64_t at = 512; at < KiB (4); at *= 2)
    copy_whole (at, at, 1);
  copy_whole (KiB (4), KiB (1), 1);
  copy_whole (KiB (5), 512, 1);
  copy_whole (KiB (14), KiB (2), 1);
  copy_whole (KiB (16), KiB (2), 1);
  copy_whole (KiB (40), KiB (8), 1);
  act (RESYNC_FLUSH, EIO);
  copy_whole (512, 512, 1);
  resync_free (r);

  /* Nothing is dirty there; then nowhere. */
  ranges = 1;
  range[0] = range[3];
  begin (RESYNC_OF_ORPHANS, 2);
  act (RESYNC_FLUSH, 0);
  want_over (0, true);
  bits[1][0] = 0;
  begin (RESYNC_OF_ORPHANS, 2);
  want_over (0, true);
  set_range (0, 0);
}

/* A block that can't be read in any copy is reported; a part of one is not. */
static void
test_bad_orphans (void)
{
  for (unsigned whole = 0; whole < 2; whole++) {
    configure (LAYOUT_RAID1, 2, KiB (16), MiB (4));
    set_range (KiB (4), whole ? KiB (8) : KiB (2));
    set_bit (0, 0);
    begin (RESYNC_OF_ORPHANS, 2);
    for (unsigned again = 0; again < 2; again++) {
      for (unsigned c = 0; c < 2; c++)
        read_from (KiB (4), whole ? BLOCK : KiB (2), c, EIO);
      for (unsigned m = 0; m < 2 && !again; m++)
        act_of (RESYNC_OPEN, m, 0);
    }
    if (whole)
      copy_whole (KiB (8), BLOCK, 0);
    act (RESYNC_FLUSH, 0);
    for (unsigned m = 0; m < 2 && whole; m++) {
      want_of (RESYNC_SEND, m);
      CHECK (a.count == 1 && a.records[0].kind == BATCH_BAD &&
             a.records[0].offset == KiB (4) && a.records[0].length == BLOCK);
      done (0);
    }
    want_over (0, whole);
  }
  set_range (0, 0);
}

/* The end of a session that shares by leases: dirty extents of dead sessions stay. */
static void
test_end_of_leases (void)
{
  configure (LAYOUT_RAID1, 2, KiB (16), MiB (8));
  set_bit (1, 0);
  set_bit (1, 1);
  begin (RESYNC_AT_LEASES_END, 2);
  act_of (RESYNC_OPEN, 1, 0);
  want_of (RESYNC_SEND, 1);
  CHECK (a.count == 1 && a.records[0].kind == BATCH_CLEAR &&
         a.records[0].offset == 0 && a.records[0].length == MiB (8));
  done (0);
  act_of (RESYNC_CLOSE, 1, 0);
  want_over (0, true);
}

/* ---- Against a dumb one ---- */

static bool spoiled[COPIES_MAX][512]; /* a block of a copy can't be read */
static int wrote[512];    /* the copy that a block was written from; -1: none */
static bool told[8][512]; /* members, of a block that is bad */
static unsigned fallen[8]; /* extents of which bits may fall */
static enum resync_mode mode;

static bool
dirty (const struct layout_piece *p)
{
  bool any = false;

  for (unsigned c = 0; c < p->copies; c++)
    any |= states[p->copy[c].member] == MEMBER_IN_SYNC &&
           has_bit (p->copy[c].member, p->copy[c].offset);
  return any;
}

/* Is there no copy that is newer than this one? */
static bool
is_newest (const struct layout_piece *p, unsigned block, unsigned c)
{
  for (unsigned o = 0; o < p->copies; o++) {
    unsigned m = p->copy[c].member, than = p->copy[o].member;
    int has = has_bit (m, p->copy[c].offset);
    int than_has = has_bit (than, p->copy[o].offset);

    if (o == c || states[than] != MEMBER_IN_SYNC || spoiled[o][block])
      continue;
    /* Of orphans, what weftd has said of rounds does not count. */
    if (mode == RESYNC_OF_ORPHANS
          ? than_has > has
          : reach[than] > reach[m] ||
              (reach[than] == reach[m] && than_has > has))
      return false;
  }
  return states[p->copy[c].member] == MEMBER_IN_SYNC && !spoiled[c][block];
}

/* Blocks are of 256 KiB here but for the halving: each is good or bad as a
 * whole. */
#define GRAIN KiB (256)

static void
choose (void)
{
  static const enum layout_kind kinds[] = { LAYOUT_RAIDX, LAYOUT_RAID10,
                                            LAYOUT_CHAINED, LAYOUT_ROTATED,
                                            LAYOUT_RAID1 };
  enum layout_kind kind = kinds[test_random (5)];

  configure (kind, kind == LAYOUT_RAID1 ? 2 + test_random (3) : 4,
             MiB (1) << test_random (3), MiB (24));
  for (unsigned m = 0; m < l.members; m++) {
    reach[m] = test_random (3);
    for (unsigned x = 0; x < 6; x++)
      if (test_random (3) == 0)
        set_bit (m, x);
  }
  if (test_random (2))
    states[test_random (l.members)] = MEMBER_OUT;
  set_range (0, 0);
  if (test_random (2)) {
    uint64_t first = test_random (l.size / l.unit);

    set_range (first * l.unit,
               (1 + test_random (l.size / l.unit - first)) * l.unit);
  }
  mode = test_random (2) ? RESYNC_AT_ATTACH : RESYNC_OF_ORPHANS;
  if (mode == RESYNC_OF_ORPHANS)
    for (ranges = 0; ranges < 3; ranges++) {
      uint64_t first = test_random (l.size / GRAIN - 8);

      range[ranges] = (struct array_range) { first * GRAIN,
                                             (1 + test_random (8)) * GRAIN };
    }
}

static bool
ours (uint64_t offset)
{
  bool in = ranges == 0;

  for (unsigned i = 0; i < ranges; i++)
    in |= offset >= range[i].offset &&
          offset < range[i].offset + range[i].length;
  return in;
}

static bool
readable (uint64_t offset, uint64_t length, unsigned c)
{
  for (uint64_t at = offset / GRAIN; at <= (offset + length - 1) / GRAIN; at++)
    if (spoiled[c][at])
      return false;
  return true;
}

static void
hear (const struct resync_action *act)
{
  uint64_t offset;
  uint32_t length;

  for (unsigned i = 0; i < act->count; i++) {
    CHECK (act->records[i].kind == BATCH_BAD);
    CHECK (layout_unmap (&l, act->member, act->records[i].offset, &offset,
                         &length) >= 0);
    told[act->member][offset / GRAIN] = true;
  }
}

static void
run (bool *settled)
{
  int from = -1;

  begin (mode, 0);
  for (;;) {
    int error = 0;

    resync_next (r, states, &a);
    switch (a.kind) {
    case RESYNC_MAP:
      hand_map ();
      continue;
    case RESYNC_READ:
      if (!readable (a.offset, a.length, a.copy))
        error = EIO;
      from = (int) a.copy;
      break;
    case RESYNC_WRITE:
      CHECK (from >= 0);
      for (uint64_t at = a.offset; at < a.offset + a.length; at += GRAIN)
        wrote[at / GRAIN] = from;
      from = -1;
      break;
    case RESYNC_SEND:
      hear (&a);
      break;
    case RESYNC_SETTLED:
      for (uint64_t at = 0; at < a.length; at += EXTENT_BYTES) {
        CHECK (has_bit (a.member, a.offset + at));
        CHECK (mode == RESYNC_AT_ATTACH && ranges == 0);
        fallen[a.member] += 1;
      }
      break;
    case RESYNC_OVER:
      CHECK (a.error == 0);
      *settled = a.settled;
      resync_free (r);
      return;
    default:
      break;
    }
    done (error);
  }
}

static void
check (bool settled)
{
  bool untold = false;

  for (uint64_t at = 0; at < l.size; at += GRAIN) {
    uint64_t block = at / GRAIN;
    struct layout_piece p;
    bool bad = true, mine = ours (at);
    unsigned copies = 0;

    layout_map (&l, at, GRAIN, &p);
    for (unsigned c = 0; c < p.copies; c++)
      if (states[p.copy[c].member] == MEMBER_IN_SYNC) {
        bad &= spoiled[c][block];
        copies++;
      }
    if (!dirty (&p) || bad || !mine)
      CHECK (wrote[block] == -1);
    else
      CHECK (wrote[block] >= 0 && is_newest (&p, block, wrote[block]));
    bad &= mine && dirty (&p);
    untold |= bad && copies < 2;
    for (unsigned c = 0; c < p.copies; c++)
      CHECK (told[p.copy[c].member][block] ==
             (bad && copies > 1 && states[p.copy[c].member] == MEMBER_IN_SYNC));
  }
  CHECK (settled == !untold);
  for (unsigned m = 0; m < l.members; m++) {
    unsigned fall = 0;

    for (uint64_t at = 0; at < data_bytes; at += EXTENT_BYTES)
      fall += mode == RESYNC_AT_ATTACH && ranges == 0 && settled &&
              states[m] == MEMBER_IN_SYNC && has_bit (m, at);
    CHECK (fallen[m] == fall);
  }
}

static void
test_random_ones (unsigned count)
{
  while (count-- > 0) {
    bool settled;

    choose ();
    CHECK (l.size / GRAIN <= 512 && l.members <= 8);
    memset (told, 0, sizeof told);
    memset (fallen, 0, sizeof fallen);
    for (unsigned i = 0; i < 512; i++) {
      wrote[i] = -1;
      for (unsigned c = 0; c < COPIES_MAX; c++)
        spoiled[c][i] = test_random (8) == 0;
    }
    run (&settled);
    check (settled);
  }
}

int
main (void)
{
  test_random_start ();
  test_clean ();
  test_one_copy ();
  test_settled ();
  test_newest ();
  test_load_again ();
  test_next_copy ();
  test_copy_as_new ();
  test_errors ();
  test_flush_fails ();
  test_bad ();
  test_bad_of_those_in_sync ();
  test_bad_without_doors ();
  test_much_is_bad ();
  test_end ();
  test_part ();
  test_orphans ();
  test_bad_orphans ();
  test_end_of_leases ();
  test_random_ones (200);
  return 0;
}
