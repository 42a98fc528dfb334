/* array-write.c: the life of a piece of a write, zero or trim.
 *
 *   buffered:  room in the image buffer -> data written -> images in the buffer
 *                                           -> done, or images written -> done
 *   through:   data and images written, side by side -> done
 *
 * A piece goes through when it waits for its images anyway: with FUA, with dup
 * = sync-client, and when the data copy can't be read now (its member is lost,
 * or not in-sync). Large writes go through, and middling ones while the buffer
 * is more than half full: that spares a copy of the bytes, and slow members
 * slow the writer down at once.  But if the buffer has older images of the
 * range, or an image of the range is being read, the write is buffered anyway,
 * and replaces them: so no older image can come after a newer one.  If the
 * write must wait for its images, it then waits for those in the buffer.
 *
 * A member that is lost but not recorded as out still counts: its data waits
 * for array_commit or array_back, its images wait in the buffer.  write_go
 * compares what is written with what the epoch requires, and writes the rest;
 * every failure ends up in it again.
 *
 * A joining member gets its copy, of data or image, through the buffer, too, as
 * soon as an in-sync copy has the write.  (The member's state at that moment
 * counts, not the one when the write began.) Nothing waits for it, unless the
 * prepared epoch makes it in-sync: then it counts.  But its copies take room in
 * the buffer like any other, so a joining member that is slow, but not so late
 * that it is lost (join_tick), slows writes down to its own speed.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "array-internal.h"

/* Memory that the host did not have is asked for again. */
#define MEMORY_AGAIN_NS (200 * NS_PER_MS)

/* Copies that are sent from the request's buffer, as bits: the data; and the images
 * of a write that goes through, except to members that are lost, or not in-sync: such
 * a copy goes by the buffer, when others are written.
 */
static unsigned
direct (const struct array *a, const struct piece *p)
{
  unsigned copies = 0;

  for (unsigned c = 0; c < p->at.copies; c++) {
    unsigned member = p->at.copy[c].member;

    if (!(p->written & 1u << c) &&
        (c == 0 ? member_in_sync (a, member)
                : p->through && member_readable (a, member)))
      copies |= 1u << c;
  }
  return copies;
}

/* Copies that are written through the image buffer, as bits: images, and the
 * data of a member that is not in-sync yet.
 */
struct buffered {
  unsigned needed;     /* not written, and their members count */
  unsigned background; /* copies for members that join */
};

static struct buffered
buffered (const struct array *a, const struct piece *p)
{
  struct buffered b = { 0 };
  unsigned others = p->written | direct (a, p);

  for (unsigned c = 0; c < p->at.copies; c++) {
    unsigned member = p->at.copy[c].member;

    if (others & 1u << c)
      continue;
    if (member_counts (a, member))
      b.needed |= 1u << c;
    else if (member_background (a, member))
      b.background |= 1u << c;
  }
  return b;
}

static unsigned
room (struct buffered b)
{
  return __builtin_popcount (b.needed | b.background);
}

/* Take room for `images`. Requests wait for it in turn, also where the host has
 * no memory: a copy may be written by now, and the others must become the same.
 */
static bool
admit (struct array *a, struct piece *p, unsigned images)
{
  const struct array_request *r = p->req->r;
  size_t bytes = r->op == ARRAY_WRITE ? p->at.length : 0;
  const struct piece *first = TAILQ_FIRST (&a->space);
  int error = EAGAIN;

  if (p->admitted >= images)
    return true;
  /* A member came back: it takes more room than what was given before. */
  if (p->admitted > 0) {
    images_settle (a->images, p->admitted, p->payload);
    p->admitted = 0;
    p->payload = NULL;
  }
  if (!first || first == p)
    error = images_admit (a->images, bytes, images, &p->payload);
  if (error == 0) {
    p->admitted = images;
    return true;
  }
  images_fire (a->images);
  if (error == ENOMEM) {
    a->memory_ns = a->now_ns + MEMORY_AGAIN_NS;
    if (a->memory_since_ns == 0)
      a->memory_since_ns = a->now_ns;
  }
  if (p->place != PIECE_SPACE)
    piece_move (a, p, PIECE_SPACE);
  return false;
}

/* Is it acknowledged only when its images are written, too? */
static bool
waits (const struct array *a, const struct piece *p)
{
  return (p->req->r->flags & ARRAY_FUA) || a->config.dup == DUP_SYNC_CLIENT ||
         !member_readable (a, p->at.copy[0].member);
}

/* Is this image being read, without a turn?  That reader could see the new data
 * there before others find it in the data copy.
 */
static bool
image_read (const struct array *a, const struct layout_copy *at,
            uint64_t length)
{
  const struct aio_queue *queues[] = { &a->out, &a->sent, &a->refused };
  const struct aio *x;

  if (a->layout->cluster > 1) /* such images are only read in turn */
    return false;
  for (unsigned i = 0; i < sizeof queues / sizeof queues[0]; i++)
    TAILQ_FOREACH (x, queues[i], link)
      if (x->purpose == FOR_PIECES && x->io.kind == IO_READ && x->copy > 0 &&
          x->io.member == at->member && x->io.offset < at->offset + length &&
          at->offset < x->io.offset + x->io.length)
        return true;
  return false;
}

/* Is it to go through?  Zeroes are no burden to the buffer.  Zeroes for what is lost
 * go to one copy after the other: if a member fails at the first, it may have failed
 * before, and another may have a good copy (docs/PROTOCOL.md, B5).
 */
static bool
goes_through (const struct array *a, const struct piece *p)
{
  const struct array_request *r = p->req->r;
  uint64_t large = a->config.through_bytes ? a->config.through_bytes
                                           : THROUGH_BYTES;

  if (images_pressed (a->images))
    large /= 2;
  if (r->lost || (!waits (a, p) && (r->op != ARRAY_WRITE || r->length < large)))
    return false;
  for (unsigned c = 1; c < p->at.copies; c++) {
    const struct layout_copy *at = &p->at.copy[c];

    if (images_overlap (a->images, at->member, at->offset, p->at.length) ||
        image_read (a, at, p->at.length))
      return false;
  }
  return true;
}

/* Is it written where it will be found? */
static bool
held (const struct array *a, const struct piece *p)
{
  for (unsigned c = 0; c < p->at.copies; c++)
    if (p->written & 1u << c && member_in_sync (a, p->at.copy[c].member))
      return true;
  return false;
}

void
write_told (void *owner, void *piece, unsigned member, bool written)
{
  struct array *a = owner;
  struct piece *p = piece;

  assert (p->place == PIECE_IMAGES && p->images > 0);
  for (unsigned c = 0; c < p->at.copies && written; c++)
    if (p->at.copy[c].member == member)
      p->written |= 1u << c;
  if (--p->images == 0)
    piece_move (a, p, PIECE_READY);
}

static void
add_images (struct array *a, struct piece *p, unsigned copies, bool wait)
{
  const struct array_request *r = p->req->r;
  bool trims = r->op == ARRAY_TRIM || r->flags & ARRAY_MAY_TRIM;
  enum image_kind kind = r->op == ARRAY_WRITE ? IMAGE_WRITE
                         : trims              ? IMAGE_TRIM
                                              : IMAGE_ZERO;

  for (unsigned c = 0; c < p->at.copies; c++) {
    const struct layout_copy *at = &p->at.copy[c];

    if (!(copies & 1u << c))
      continue;
    p->images += wait;
    a->member[at->member].mixed |= c == 0;
    images_add (a->images, at->member, at->offset, p->at.length, kind,
                p->payload, r->flags & ARRAY_FUA, wait ? p : NULL, a->now_ns);
  }
}

/* Necessary copies first; copies for joining members when no other is left.
 * With more than two copies such a member may be copying from a copy that is
 * only in the buffer, so that is written before.
 */
static void
buffer_images (struct array *a, struct piece *p)
{
  const struct array_request *r = p->req->r;
  struct buffered b = buffered (a, p);
  bool wait = b.needed && (waits (a, p) || (b.background && p->at.copies > 2));

  if (p->payload)
    memcpy (p->payload->data, (char *) r->buf + (p->at.offset - r->offset),
            p->at.length);
  piece_move (a, p, PIECE_IMAGES);
  add_images (a, p, b.needed, wait);
  if (!wait)
    add_images (a, p, b.background, false);
  images_settle (a->images, p->admitted, p->payload);
  p->admitted = 0;
  p->payload = NULL;
  p->started = true;
  if (!wait) {
    p->req->buffered = true;
    piece_end (a, p);
  }
}

static void
send_direct (struct array *a, struct piece *p, unsigned copies)
{
  const struct array_request *r = p->req->r;
  unsigned flags = r->flags & ARRAY_FUA;

  if (r->op == ARRAY_TRIM ||
      (r->op == ARRAY_ZERO && (r->flags & ARRAY_MAY_TRIM)))
    flags |= ARRAY_MAY_TRIM;
  for (unsigned c = 0; c < p->at.copies; c++)
    if (copies & 1u << c)
      send_piece (a, p, r->op == ARRAY_WRITE ? IO_WRITE : IO_ZERO, c, flags);
}

void
write_go (struct array *a, struct piece *p)
{
  const struct array_request *r = p->req->r;
  const struct layout_copy *data = &p->at.copy[0];
  unsigned copies;
  struct buffered b;

  /* A copy that could not be read may be back by now, and good.  The member
   * that was asked for zeroes may have written them anyway.
   */
  if (r->lost && r->epoch != a->config.epoch && p->written == 0) {
    if (p->started && member_in_sync (a, data->member))
      a->member[data->member].differs = a->clear.differs = true;
    req_fail (a, p->req, EIO);
    piece_end (a, p);
    return;
  }
  if (!p->started)
    p->through = goes_through (a, p);
  copies = direct (a, p);
  b = buffered (a, p);
  if (copies & 1 && !member_readable (a, data->member)) {
    piece_move (a, p, PIECE_STALLED);
    return;
  }
  if (copies & 1 && a->member[data->member].mixed &&
      images_hurry (a->images, data->member, data->offset, p->at.length)) {
    p->copy = 0;
    piece_move (a, p, PIECE_DRAINING);
    return;
  }
  if (copies == 0 && b.needed == 0 && !held (a, p)) {
    req_fail (a, p->req, EIO); /* no copy is left */
    piece_end (a, p);
    return;
  }
  if (room (b) > 0 && !admit (a, p, room (b)))
    return;
  if (copies)
    send_direct (a, p, copies);
  else if (room (b) > 0)
    buffer_images (a, p);
  else
    piece_end (a, p);
}

void
write_answered (struct array *a, struct piece *p, unsigned copy, bool ok)
{
  unsigned images;

  if (ok)
    p->written |= 1u << copy;
  if (--p->ios > 0)
    return;
  images = room (buffered (a, p));
  /* Also when its request has failed: the copies must become the same. */
  if (ok && direct (a, p) == 0 && !a->stopped && images > 0 &&
      images <= p->admitted)
    buffer_images (a, p);
  else
    piece_move (a, p, PIECE_READY);
}
