/* array-write.c: the life of a piece of a write, zero or trim.
 *
 *   room in the image buffer -> data written -> images in the buffer -> done
 *                                               (-> images written -> done)
 *
 * The bracket: with FUA, with dup = sync-client, and when the data member is
 * out.  A member that is lost but not recorded as out still counts: its data
 * waits for array_commit, its images wait in the buffer.  write_go looks at
 * what is written and at what the epoch asks for, and does what is missing;
 * whatever fails only comes back to it.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "array-internal.h"

static bool
copy_in_sync (const struct array *a, const struct piece *p, unsigned copy)
{
  return member_in_sync (a, p->at.copy[copy].member);
}

static unsigned
images_wanted (const struct array *a, const struct piece *p)
{
  unsigned count = 0;

  for (unsigned c = 1; c < p->at.copies; c++)
    count += copy_in_sync (a, p, c) && !(p->written & 1u << c);
  return count;
}

/* Take room for `images`.  Requests wait for it in turn. */
static bool
admit (struct array *a, struct piece *p, unsigned images)
{
  const struct array_request *r = p->req->r;
  size_t bytes = r->op == ARRAY_WRITE ? p->at.length : 0;
  const struct piece *first = TAILQ_FIRST (&a->space);
  int error = EAGAIN;

  if (p->admitted >= images)
    return true;
  if (p->admitted > 0) { /* a member came back */
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
  if (error == EAGAIN) {
    images_press (a->images);
    if (p->place != PIECE_SPACE)
      piece_move (a, p, PIECE_SPACE);
  }
  else {
    req_fail (a, p->req, error);
    piece_end (a, p);
  }
  return false;
}

/* Is it written where it will be found? */
static bool
held (const struct array *a, const struct piece *p)
{
  for (unsigned c = 0; c < p->at.copies; c++)
    if (p->written & 1u << c && copy_in_sync (a, p, c))
      return true;
  return false;
}

void
write_told (void *owner, void *piece, unsigned member, bool written)
{
  struct array *a = owner;
  struct piece *p = piece;

  assert (p->place == PIECE_IMAGES && p->images > 0);
  for (unsigned c = 1; c < p->at.copies && written; c++)
    if (p->at.copy[c].member == member)
      p->written |= 1u << c;
  if (--p->images == 0)
    piece_move (a, p, PIECE_READY);
}

static void
buffer_images (struct array *a, struct piece *p)
{
  static const enum image_kind kinds[] = {
    [ARRAY_WRITE] = IMAGE_WRITE,
    [ARRAY_ZERO] = IMAGE_ZERO,
    [ARRAY_TRIM] = IMAGE_TRIM,
  };
  const struct array_request *r = p->req->r;
  enum image_kind kind = kinds[r->op];
  bool wait = (r->flags & ARRAY_FUA) || a->config.dup == DUP_SYNC_CLIENT
              || !copy_in_sync (a, p, 0);
  unsigned flags = r->flags & ARRAY_FUA ? IMAGE_FUA : 0;

  if (r->op == ARRAY_ZERO && (r->flags & ARRAY_MAY_TRIM))
    kind = IMAGE_TRIM;
  if (p->payload)
    memcpy (p->payload->data, (char *)r->buf + (p->at.offset - r->offset),
            p->at.length);
  piece_move (a, p, PIECE_IMAGES);
  for (unsigned c = 1; c < p->at.copies; c++) {
    if (!copy_in_sync (a, p, c) || p->written & 1u << c)
      continue;
    p->images += wait;
    images_add (a->images, p->at.copy[c].member, p->at.copy[c].offset,
                p->at.length, kind, p->payload, 0, flags, wait ? p : NULL,
                a->now_ns);
  }
  images_settle (a->images, p->admitted, p->payload);
  p->admitted = 0;
  p->payload = NULL;
  p->started = true;
  if (!wait) {
    p->req->buffered = true;
    piece_end (a, p);
  }
}

void
write_go (struct array *a, struct piece *p)
{
  const struct array_request *r = p->req->r;
  unsigned data = p->at.copy[0].member, images = images_wanted (a, p), flags;
  bool write_data = copy_in_sync (a, p, 0) && !(p->written & 1);

  if (write_data && !member_usable (a, data)) {
    piece_move (a, p, PIECE_STALLED);
    return;
  }
  if (!write_data && images == 0) {
    if (!held (a, p))
      req_fail (a, p->req, EIO); /* no copy is left */
    piece_end (a, p);
    return;
  }
  if (images > 0 && !admit (a, p, images))
    return;
  if (!write_data) {
    buffer_images (a, p);
    return;
  }
  flags = r->flags & ARRAY_FUA;
  if (r->op == ARRAY_TRIM
      || (r->op == ARRAY_ZERO && (r->flags & ARRAY_MAY_TRIM)))
    flags |= ARRAY_MAY_TRIM;
  aio_piece (a, p, r->op == ARRAY_WRITE ? IO_WRITE : IO_ZERO, 0, flags);
}

void
write_answered (struct array *a, struct piece *p, bool ok)
{
  if (ok)
    p->written |= 1;
  /* Also when its request has failed: the copies are to be the same. */
  if (ok && !a->stopped && images_wanted (a, p) == p->admitted
      && p->admitted > 0)
    buffer_images (a, p);
  else
    piece_move (a, p, PIECE_READY);
}
