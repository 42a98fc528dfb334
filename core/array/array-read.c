/* array-read.c: the life of a piece of a read.
 *
 * A piece is read from the data copy, without a turn: the data there was
 * written by a write that is done or under way, and a read may see both.  An
 * image is as good, and read in the same way, under three conditions: a resync
 * has brought all copies in sync; the buffer has no write to the image and none
 * is under way; and each member that came back had all its writes.  If data
 * lies on only a part of the members (raid-10, raid-1), all members are read by
 * that, in runs of some units (CEFT-PVFS, section 3: both groups at once). With
 * all layouts but raid-x, whose images lie together for writing, a read goes to
 * the member that will answer the earliest, if the other one would be far
 * later: so a slower half gets less.
 *
 * While reads are held (array-join.c), reads that were answered meanwhile are
 * repeated.
 *
 * If the data copy is out, can't be read, or is on a member that is far slower
 * than its peers, a piece is read from an image, and only in turn: the images
 * of earlier writes must be out of the buffer first and later ones must wait,
 * else it could see older data than an earlier reader did.  A piece that needs
 * a turn that its request has not got parks.
 *
 * If a copy answers with an error on an open connection it has a bad spot: the
 * piece is read from another copy and written back, in an exclusive turn.  If
 * that fails too, the member is lost.  If all copies have bad spots, the piece
 * is halved, down to a block.
 *
 * A reading session answers nothing from an image while the data copy is
 * in-sync: newer writes may still be in the writer's buffer.  When the data
 * copy can't be read, the session reads the image only to see whether that can
 * be read.  If it can, the data copy's member is treated as lost, because it
 * may have failed, and the read waits until the loss is recorded or the writer
 * has mended the spot; after io_timeout_ms the client gets an error.  If no
 * copy can be read, the read fails at once, and no member is lost.
 *
 * A session that shares the array reads ranges without a lease in this way,
 * because other sessions write there; a bad spot there it mends as a writer,
 * when it has got the lease (array-lease.c).  With a part it gets no other
 * lease: it keeps the member, and checks each second whether the data copy can
 * be read.
 */

#include <config.h>

#include <errno.h>

#include "array-internal.h"

/* So many units of a member are read before it is another's turn. */
#define BALANCE_UNITS 4
/* A member may be later than another by the time of so many answers, ... */
#define BALANCE_AHEAD 4
/* ... and one that takes so many times as long for an answer is passed over. */
#define BALANCE_FACTOR 4

/* How often it is looked again at what only another writer can mend. */
#define OTHERS_NS (1000 * NS_PER_MS)

static bool
only_reads (const struct array *a, const struct piece *p)
{
  return array_only_reads (a, p->req, p->at.offset, p->at.length);
}

static bool
holds (const struct array *a, const struct piece *p)
{
  return array_holds_reads (a, p->req, p->at.offset, p->at.length);
}

/* For each copy, when its member will have answered a read, from now; returns
 * the time of the quickest.  A member without measurements counts as quick, but
 * is tried with one read at a time; a member that is far slower than another is
 * not waited for.
 */
static uint64_t
waits (const struct array *a, const struct piece *p, uint64_t wait_ns[])
{
  uint64_t each_ns[COPIES_MAX], least_ns = UINT64_MAX;

  for (unsigned c = 0; c < p->at.copies; c++) {
    each_ns[c] = timing_read_ns (a, p->at.copy[c].member);
    if (each_ns[c] > 0 && each_ns[c] < least_ns)
      least_ns = each_ns[c];
  }
  for (unsigned c = 0; c < p->at.copies; c++) {
    unsigned reads = a->member[p->at.copy[c].member].overdue.reads;

    if (least_ns == UINT64_MAX) /* nothing is known: all are alike */
      wait_ns[c] = reads + 1;
    else if (each_ns[c] ? each_ns[c] > BALANCE_FACTOR * least_ns : reads > 0)
      wait_ns[c] = UINT64_MAX / 2;
    else
      wait_ns[c] = (reads + 1) * (each_ns[c] ? each_ns[c] : least_ns);
  }
  return least_ns == UINT64_MAX ? 1 : least_ns;
}

/* An image that may be read without a turn, so that all members have their
 * share; 0: none.
 */
static unsigned
balance (const struct array *a, const struct piece *p)
{
  const struct layout *l = a->layout;
  const struct layout_copy *copy = p->at.copy;
  uint64_t wait_ns[COPIES_MAX], ahead_ns;
  unsigned c = 0;

  if (!a->clear.settle || a->clear.differs || only_reads (a, p) ||
      a->degraded || p->bad || p->req->lock != LOCK_NONE || l->cluster > 1)
    return 0;
  if (l->mirrors)
    c = copy[0].offset / ((uint64_t) l->unit * BALANCE_UNITS) % p->at.copies;
  ahead_ns = BALANCE_AHEAD * waits (a, p, wait_ns);
  for (unsigned i = 0; i < p->at.copies; i++)
    if (wait_ns[i] + ahead_ns < wait_ns[c])
      c = i;
  if (c == 0 ||
      images_overlap (a->images, copy[c].member, copy[c].offset,
                      p->at.length) ||
      range_written (a, p->at.offset, p->at.length))
    return 0;
  return c;
}

/* An image that can be read now, where the data is on a member that is suspect;
 * 0: none is better.  A member may be suspect because it has all to do that another
 * is too slow for: that one is no better.
 */
static unsigned
around (const struct array *a, const struct piece *p)
{
  uint64_t wait_ns[COPIES_MAX];

  /* A session that shares the array by leases has not resynced the copies
   * itself.
   */
  if (only_reads (a, p) || a->clear.differs ||
      (a->config.leases && !a->clear.settle) ||
      !timing_suspect (a, p->at.copy[0].member))
    return 0;
  waits (a, p, wait_ns);
  for (unsigned c = 1; c < p->at.copies; c++)
    if (member_readable (a, p->at.copy[c].member) && !(p->bad & 1u << c) &&
        !timing_suspect (a, p->at.copy[c].member) && wait_ns[c] < wait_ns[0])
      return c;
  return 0;
}

/* The copy to read: the data if it can be, else images in turn; -1: none. */
static int
choose (const struct array *a, const struct piece *p)
{
  unsigned better = around (a, p), copy = p->req->r->copy;

  if (copy && member_in_sync (a, p->at.copy[copy - 1].member) &&
      !(p->bad & 1u << (copy - 1)))
    return (int) copy - 1;
  if (copy && p->req->r->op == ARRAY_READ)
    return -1;
  return better > 0 ? (int) better : piece_read_copy (a, p, p->bad);
}

/* Every copy has a bad spot, but perhaps not in the same place: halves, down
 * to a block.  False: no hope.
 */
static bool
split (struct array *a, struct piece *p)
{
  uint64_t offset = p->at.copy[0].offset, end = offset + p->at.length, middle;
  struct piece *rest;
  unsigned bad = 0;

  for (unsigned c = 0; c < p->at.copies; c++)
    bad += p->bad & 1u << c && member_in_sync (a, p->at.copy[c].member);
  middle = (offset + end) / 2 / READ_BLOCK_BYTES * READ_BLOCK_BYTES;
  if (middle <= offset)
    middle += READ_BLOCK_BYTES;
  if (bad < 2 || middle >= end)
    return false;
  rest = piece_new (a, p->req, &p->at);
  rest->at.offset += middle - offset;
  rest->at.length = end - middle;
  for (unsigned c = 0; c < p->at.copies; c++)
    rest->at.copy[c].offset += middle - offset;
  p->at.length = middle - offset;
  p->bad = 0;
  piece_move (a, p, PIECE_READY);
  return true;
}

/* Images of the copies that will be read or repaired must be written first. */
static bool
drain (struct array *a, struct piece *p, unsigned copy)
{
  for (unsigned c = 0; c < p->at.copies; c++) {
    const struct layout_copy *at = &p->at.copy[c];

    if ((c == copy || p->bad & 1u << c) && member_in_sync (a, at->member) &&
        (c > 0 || a->member[at->member].mixed) &&
        images_hurry (a->images, at->member, at->offset, p->at.length)) {
      p->copy = c;
      piece_move (a, p, PIECE_DRAINING);
      return false;
    }
  }
  return true;
}

/* A reader, who can't use the image that can be read, leaves it to others to see to
 * the data copy, or to the image in its place.  One of several writers does not give up its
 * connection for that, which it writes by, too.
 */
static void
leave_to_others (struct array *a, struct piece *p, unsigned copy)
{
  if (a->now_ns >=
      p->req->begun_ns + (uint64_t) a->config.io_timeout_ms * NS_PER_MS) {
    req_fail (a, p->req, EIO);
    piece_end (a, p);
    return;
  }
  if (a->config.readonly)
    member_lost (a, p->at.copy[copy].member, "it can't read %llu bytes at %llu",
                 (unsigned long long) p->at.length,
                 (unsigned long long) p->at.copy[copy].offset);
  else if (a->others_ns == UINT64_MAX)
    a->others_ns = a->now_ns + OTHERS_NS;
  p->bad = 0;
  piece_move (a, p, PIECE_STALLED);
}

/* While a member refuses writes, one of these may have its turn for long.  The only copy
 * that is read by anybody needs none: no write is answered before it is written there, and
 * what was answered earlier, and is in the buffer only, is waited for (drain).
 */
static bool
needs_no_turn (const struct array *a, const struct piece *p)
{
  return a->refused_count > 0 && p->at.copies == 2 && p->bad == 0 &&
         !member_in_sync (a, p->at.copy[0].member) &&
         !member_counts (a, p->at.copy[0].member);
}

void
read_go (struct array *a, struct piece *p)
{
  struct req *q = p->req;
  int c = choose (a, p);
  unsigned balanced = c == 0 && !q->r->copy ? balance (a, p) : 0, copy;
  enum lock_kind need = LOCK_NONE;

  if (holds (a, p)) {
    piece_move (a, p, PIECE_STALLED);
    return;
  }
  if (p->bad && array_asks (a) && !q->leased) { /* the copy must be mended */
    q->want = LOCK_EXCLUSIVE;
    piece_move (a, p, PIECE_PARKED);
    return;
  }
  if (c < 0) { /* no copy can be read */
    if (split (a, p))
      return;
    if (p->bad && !p->tried) { /* it may have been written since */
      p->tried = true;
      p->bad = 0;
      piece_move (a, p, PIECE_READY);
      return;
    }
    req_fail (a, q, EIO);
    piece_end (a, p);
    return;
  }
  copy = balanced > 0 ? balanced : (unsigned) c;
  if (!member_readable (a, p->at.copy[copy].member) ||
      !witness_all (a, p, copy)) {
    piece_move (a, p, PIECE_STALLED);
    return;
  }
  if (balanced > 0) {
    send_piece (a, p, IO_READ, copy, 0);
    return;
  }
  if (p->bad && !only_reads (a, p))
    need = LOCK_EXCLUSIVE;
  else if (c > 0 && !needs_no_turn (a, p))
    need = LOCK_SHARED;
  if (q->lock < need) {
    if (q->want < need)
      q->want = need;
    piece_move (a, p, PIECE_PARKED);
    return;
  }
  if (drain (a, p, c))
    send_piece (a, p, IO_READ, c, 0);
}

/* Write it back where it could not be read. */
static void
repair (struct array *a, struct piece *p)
{
  for (unsigned c = 0; c < p->at.copies; c++)
    if (p->bad & 1u << c && member_readable (a, p->at.copy[c].member)) {
      send_repair (a, p, c);
      return;
    }
  piece_end (a, p);
}

void
read_answered (struct array *a, struct piece *p, int error)
{
  int first = piece_read_copy (a, p, 0); /* readers read this one alone */

  p->ios--;
  if (error == 0 && !holds (a, p)) {
    if (p->bad && !only_reads (a, p) && !a->stopped)
      repair (a, p);
    else if (only_reads (a, p) && first >= 0 && p->bad & 1u << first)
      leave_to_others (a, p, first);
    else if (only_reads (a, p) && p->bad) {
      /* The data's member went out meanwhile.  This image was only to be seen whether it
       * can be read, and may be of before what was written out for that.
       */
      p->bad = 0;
      piece_move (a, p, PIECE_READY);
    }
    else
      piece_end (a, p);
    return;
  }
  /* Where pieces were read together, each is read alone to find the bad one. */
  if (error == EIO && p->joined)
    p->alone = true;
  else if (error == EIO)
    p->bad |= 1u << p->copy;
  piece_move (a, p, PIECE_READY);
}

void
read_repaired (struct array *a, struct piece *p)
{
  p->ios--;
  p->bad &= ~(1u << p->copy);
  a->own->wrote[p->at.copy[p->copy].member] = ++a->event;
  if (a->stopped)
    piece_end (a, p);
  else
    repair (a, p);
}

void
read_tick (struct array *a)
{
  if (a->now_ns < a->others_ns)
    return;
  a->others_ns = UINT64_MAX;
  pieces_go_on (a, &a->stalled);
}
