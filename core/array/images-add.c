/* images-add.c: an image is added, and takes the place of older ones.
 *
 * The new image cuts away what it covers of pending ones, and inherits their age.
 * An image that was sent in vain is put back, into the gaps between newer ones.
 */

#include <config.h>

#include <assert.h>
#include <stdlib.h>

#include "images-internal.h"

/* Into all that holds a pending image but the age queue. */
static void
insert_pending (struct images *b, struct image_member *m, struct image *e)
{
  assert (!e->flying);
  if (RB_INSERT (image_tree, &m->pending, e))
    abort (); /* never: overlaps were cut away */
  if (e->due)
    TAILQ_INSERT_TAIL (&m->due, e, by_due);
  image_weigh (b, m, e, true);
}

/* The same, and into the age queue, by sequence, from its old end: an image
 * that was sent in vain is old.
 */
static void
insert_again (struct images *b, struct image_member *m, struct image *e)
{
  struct image *f;

  TAILQ_FOREACH (f, &m->aged, by_age)
    if (f->sequence > e->sequence)
      break;
  if (f)
    TAILQ_INSERT_BEFORE (f, e, by_age);
  else
    TAILQ_INSERT_TAIL (&m->aged, e, by_age);
  insert_pending (b, m, e);
}

/* The part of `e` from `offset` on, for `length` bytes, as an image of its
 * own, in no list yet.
 */
static struct image *
image_part (struct images *b, const struct image *e, uint64_t offset,
            uint64_t length)
{
  struct image *part = image_new (b);

  assert (!e->waiter && !e->flying);
  *part = *e;
  part->offset = offset;
  part->length = length;
  image_enter_generation (part, e->generation);
  if (part->payload) {
    part->payload->references++;
    part->at += offset - e->offset;
  }
  return part;
}

/* Cut [start, end) out of a pending image. */
static void
cut (struct images *b, struct image_member *m, struct image *o, uint64_t start,
     uint64_t end)
{
  uint64_t o_end = o->offset + o->length;
  struct image *right = NULL;

  assert (!o->waiter && !o->flying);
  if (start < o->offset)
    start = o->offset;
  if (end > o_end)
    end = o_end;
  b->replaced += end - start;
  if (start == o->offset && end == o_end) {
    image_take (b, m, o);
    image_end (b, o, false);
    return;
  }
  if (start > o->offset && end < o_end)
    right = image_part (b, o, end, o_end - end);
  image_weigh (b, m, o, false);
  if (start > o->offset)
    o->length = start - o->offset;
  else {
    o->at += end - o->offset;
    o->offset = end; /* keeps its place in the tree */
    o->length = o_end - end;
  }
  image_weigh (b, m, o, true);
  if (right) { /* beside the left part, whose age it has */
    RB_INSERT (image_tree, &m->pending, right);
    TAILQ_INSERT_AFTER (&m->aged, o, right, by_age);
    if (right->due)
      TAILQ_INSERT_TAIL (&m->due, right, by_due);
    image_weigh (b, m, right, true);
  }
}

/* The member owes an answer for `e` since the older `o` was sent. */
static void
inherit_wait (struct image *e, const struct image *o)
{
  if (o->sent_ns && (e->sent_ns == 0 || o->sent_ns < e->sent_ns))
    e->sent_ns = o->sent_ns;
}

/* `e` now stands for the older write too. */
static void
inherit (struct images *b, struct image *e, const struct image *o)
{
  e->due |= o->due;
  inherit_wait (e, o);
  if (o->sequence >= e->sequence)
    return;
  e->sequence = o->sequence;
  e->accepted_ns = o->accepted_ns;
  if (o->generation != e->generation) {
    image_leave_generation (b, e);
    image_enter_generation (e, o->generation);
  }
}

/* A zero that goes on where another ends is one with it. */
static bool
join_zero (struct images *b, struct image_member *m, struct image *e)
{
  struct image *o = RB_PREV (image_tree, &m->pending, e);

  if (!o || e->kind == IMAGE_WRITE || o->kind != e->kind || e->waiter ||
      o->waiter || o->offset + o->length != e->offset || o->due != e->due ||
      o->fua != e->fua || o->generation != e->generation ||
      o->sequence > e->sequence ||
      image_eligible (m, o) != image_eligible (m, e) ||
      o->length + e->length > ZERO_BYTES_MAX)
    return false;
  o->length += e->length; /* zeroes weigh nothing */
  inherit_wait (o, e);
  image_take (b, m, e);
  image_end (b, e, false);
  return true;
}

/* If all of the run that `e` lies in is pending, it is due. */
static void
look_for_run (struct images *b, struct image_member *m, const struct image *e)
{
  uint64_t start, end, at;
  struct image *f;
  unsigned steps = 0;

  if (e->offset < b->config.run_base)
    return;
  start = e->offset - b->config.run_base;
  start = b->config.run_base + start - start % b->config.run_bytes;
  end = start + b->config.run_bytes;
  /* Small ones come one after the other: look when the last one comes. */
  if (e->length < IMAGE_RUN_BYTES && e->offset + e->length < end)
    return;
  at = start;
  for (f = image_first (&m->pending, start); f && f->offset <= at && at < end;
       f = RB_NEXT (image_tree, &m->pending, f)) {
    at = f->offset + f->length;
    if (++steps > BATCH_RECORDS_MAX)
      return;
  }
  if (at < end)
    return;
  for (f = image_first (&m->pending, start); f && f->offset < end;
       f = RB_NEXT (image_tree, &m->pending, f))
    image_make_due (b, m, f);
}

void
images_add (struct images *b, unsigned member, uint64_t offset, uint64_t length,
            enum image_kind kind, struct payload *payload, bool fua,
            void *waiter, uint64_t now_ns)
{
  struct image_member *m = &b->member[member];
  struct image *e = image_new (b), *o, *next, *oldest = NULL;

  assert (member < b->config.members && length > 0);
  assert ((kind == IMAGE_WRITE) == (payload != NULL));
  assert (!m->gone);
  e->member = member;
  e->offset = offset;
  e->length = length;
  e->sequence = ++b->sequence;
  e->accepted_ns = now_ns;
  if (!m->background)
    image_enter_generation (e, TAILQ_LAST (&b->generations, generation_list));
  e->payload = payload;
  if (payload) {
    assert (length <= payload->bytes);
    payload->references++;
  }
  e->kind = kind;
  e->fua = fua;
  e->due = waiter != NULL;
  e->waiter = waiter;
  for (o = image_first (&m->pending, offset); o && o->offset < offset + length;
       o = RB_NEXT (image_tree, &m->pending, o)) {
    if (!oldest || o->sequence < oldest->sequence)
      oldest = o;
    inherit (b, e, o);
  }
  /* The oldest of the replaced images has the right place by age: the place of
   * a range that is written again and again must not be searched among
   * thousands.
   */
  if (oldest)
    TAILQ_INSERT_BEFORE (oldest, e, by_age);
  else
    TAILQ_INSERT_TAIL (&m->aged, e, by_age);
  for (o = image_first (&m->pending, offset); o && o->offset < offset + length;
       o = next) {
    next = RB_NEXT (image_tree, &m->pending, o);
    cut (b, m, o, offset, offset + length);
  }
  insert_pending (b, m, e);
  if (image_eligible (m, e))
    images_look (b, m);
  else if (!m->armed) {
    m->armed = true;
    m->age_ns = now_ns + b->config.age_ms * NS_PER_MS;
    TAILQ_INSERT_TAIL (&b->armed, m, armed_link);
  }
  if (!join_zero (b, m, e))
    look_for_run (b, m, e);
  while (b->fresh > b->config.bytes_max / 2 && !TAILQ_EMPTY (&b->armed))
    images_fire_member (b, TAILQ_FIRST (&b->armed));
}

/* An image that was sent in vain is pending again, but where newer ones wait:
 * those now stand for it too.
 */
void
image_add_back (struct images *b, struct image_member *m, struct image *e)
{
  uint64_t at = e->offset, end = e->offset + e->length;
  struct image *o = image_first (&m->pending, at), *next;

  if (!o || o->offset >= end) {
    insert_again (b, m, e);
    images_look (b, m);
    return;
  }
  assert (!e->waiter);
  for (; at < end; o = next) {
    uint64_t gap = o && o->offset < end ? o->offset : end;

    if (gap > at)
      insert_again (b, m, image_part (b, e, at, gap - at));
    if (gap == end)
      break;
    next = RB_NEXT (image_tree, &m->pending, o);
    at = o->offset + o->length;
    image_take (b, m, o);
    inherit (b, o, e);
    insert_again (b, m, o);
    b->replaced += (at < end ? at : end) - gap;
  }
  image_end (b, e, false);
  images_look (b, m);
}
