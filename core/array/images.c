/* images.c: the content of the image buffer, and the time at which an image is
 * sent.
 *
 * Each member has two trees of images by member offset.  Within a tree no two
 * overlap.  *pending*: not sent yet; *flying*: being sent.  A newer image cuts
 * the range that it covers out of pending ones.  It never touches a flying one:
 * it stays pending until that one is answered, so that two writes to one range
 * are never under way at once.  An image enters only when its data copy is
 * written (or out), so every image here may be sent at any time.
 *
 * Age: an image has the sequence number of its acceptance.  If it replaces an
 * older image, it takes over the older number, because it now stands for the
 * older write too.  Thus a FLUSH, which waits for the images accepted before
 * it, waits for their replacements as well, and a range that is written over
 * and over is still sent in time.  It cannot starve: once sent, later images
 * have numbers of their own.  A generation counts the images between two marks,
 * wherever they are; a mark is reached when all generations up to it are empty.
 * The images of a *background* member are of no generation: nothing waits for
 * them.
 *
 * An image is *eligible* (sent as soon as the member takes it) when something
 * waits for it, when its run is complete, or when its sequence is within its
 * member's limit.  Raising the limit is called firing: by age, by pressure,
 * when idle, by a mark.  Other images are *fresh* and have the chance to be
 * replaced or to get neighbours.  A member with fresh images is armed, in a
 * list by the time at which it will fire: so the next deadline is the list's
 * first.
 *
 * Memory: `bytes` counts all blocks (header included) and images, and the room
 * reserved for images to come.  Only images_admit waits for it: sending always
 * goes on, and only its gathered blocks may exceed the bound for a moment.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "images-internal.h"

int
image_compare (const struct image *a, const struct image *b)
{
  return a->offset < b->offset ? -1 : a->offset > b->offset;
}

RB_GENERATE (image_tree, image, by_offset, image_compare)

/* The first image that ends beyond `offset`. */
struct image *
image_first (const struct image_tree *tree, uint64_t offset)
{
  struct image *e = RB_ROOT (tree), *found = NULL;

  while (e) {
    if (e->offset + e->length > offset) {
      found = e;
      e = RB_LEFT (e, by_offset);
    }
    else
      e = RB_RIGHT (e, by_offset);
  }
  return found;
}

static void
open_generation (struct images *b)
{
  struct generation *last = TAILQ_LAST (&b->generations, generation_list);
  struct generation *g = alloc_zeroed (sizeof *g +
                                       b->config.members * sizeof g->of[0]);

  g->number = last ? last->number + 1 : 1;
  TAILQ_INSERT_TAIL (&b->generations, g, link);
}

struct images *
images_new (const struct images_config *config)
{
  struct images *b;

  assert (config->run_bytes > 0);
  b = calloc (1, sizeof *b + config->members * sizeof b->member[0]);
  if (!b)
    return NULL;
  b->config = *config;
  TAILQ_INIT (&b->generations);
  TAILQ_INIT (&b->ready);
  TAILQ_INIT (&b->armed);
  for (unsigned i = 0; i < config->members; i++) {
    RB_INIT (&b->member[i].pending);
    RB_INIT (&b->member[i].flying);
    TAILQ_INIT (&b->member[i].aged);
    TAILQ_INIT (&b->member[i].due);
  }
  open_generation (b);
  return b;
}

void
images_free (struct images *b)
{
  struct generation *g;

  if (!b)
    return;
  assert (b->count == 0);
  while ((g = TAILQ_FIRST (&b->generations))) {
    TAILQ_REMOVE (&b->generations, g, link);
    free (g);
  }
  spares_free (&b->spares);
  free (b);
}

/* Memory. */

struct payload *
image_payload_new (struct images *b, size_t bytes)
{
  struct payload *p = malloc (sizeof *p + bytes);

  if (!p)
    return NULL;
  p->references = 1;
  p->bytes = bytes;
  b->bytes += sizeof *p + bytes;
  return p;
}

void
image_payload_unref (struct images *b, struct payload *p)
{
  if (!p || --p->references > 0)
    return;
  assert (b->bytes >= sizeof *p + p->bytes);
  b->bytes -= sizeof *p + p->bytes;
  free (p);
}

/* An image that is added may cut another in two. */
static uint64_t
room_of (unsigned copies)
{
  return 2 * (uint64_t) copies * sizeof (struct image);
}

int
images_admit (struct images *b, size_t length, unsigned copies,
              struct payload **payload)
{
  uint64_t need = room_of (copies);

  *payload = NULL;
  if (length > 0)
    need += sizeof (struct payload) + length;
  if (b->bytes > 0 && b->bytes + need > b->config.bytes_max)
    return EAGAIN;
  if (length > 0) {
    *payload = image_payload_new (b, length);
    if (!*payload)
      return ENOMEM;
  }
  b->bytes += room_of (copies);
  b->room += room_of (copies);
  return 0;
}

void
images_settle (struct images *b, unsigned copies, struct payload *payload)
{
  assert (b->room >= room_of (copies));
  b->bytes -= room_of (copies);
  b->room -= room_of (copies);
  image_payload_unref (b, payload);
}

bool
images_pressed (const struct images *b)
{
  return b->bytes > b->config.bytes_max / 2;
}

uint64_t
images_piece_bytes_max (const struct images *b)
{
  uint64_t bytes = b->config.bytes_max / 8;

  return bytes < UNIT_BYTES_MIN ? UNIT_BYTES_MIN : bytes;
}

struct image *
image_new (struct images *b)
{
  struct image *e = spares_take (&b->spares, sizeof *e);

  b->bytes += sizeof *e;
  b->count++;
  return e;
}

void
image_enter_generation (struct image *e, struct generation *g)
{
  e->generation = g;
  if (!g)
    return;
  g->images++;
  g->of[e->member]++;
}

void
image_leave_generation (struct images *b, struct image *e)
{
  struct generation *g = e->generation;

  if (!g)
    return;
  assert (g->images > 0 && g->of[e->member] > 0);
  e->generation = NULL;
  g->of[e->member]--;
  if (--g->images == 0 && g != TAILQ_LAST (&b->generations, generation_list)) {
    TAILQ_REMOVE (&b->generations, g, link);
    free (g);
  }
}

/* The end of an image that is in no tree and no list any more. */
void
image_end (struct images *b, struct image *e, bool written)
{
  if (written)
    b->sent += e->length;
  if (e->waiter)
    b->config.told (b->config.owner, e->waiter, e->member, written);
  image_leave_generation (b, e);
  image_payload_unref (b, e->payload);
  assert (b->bytes >= sizeof *e && b->count > 0);
  b->bytes -= sizeof *e;
  b->count--;
  spares_give (&b->spares, e);
}

/* When to send. */

void
images_look (struct images *b, struct image_member *m)
{
  if (m->ready || m->paused)
    return;
  m->ready = true;
  TAILQ_INSERT_TAIL (&b->ready, m, ready_link);
}

/* Before and after every change of a pending image's weight or standing. */
void
image_weigh (struct images *b, struct image_member *m, const struct image *e,
             bool add)
{
  uint64_t weight = image_weight (e);

  if (image_eligible (m, e))
    return;
  if (add) {
    m->fresh += weight;
    b->fresh += weight;
  }
  else {
    assert (m->fresh >= weight && b->fresh >= weight);
    m->fresh -= weight;
    b->fresh -= weight;
  }
}

/* Out of all that holds a pending image. */
void
image_take (struct images *b, struct image_member *m, struct image *e)
{
  image_weigh (b, m, e, false);
  RB_REMOVE (image_tree, &m->pending, e);
  TAILQ_REMOVE (&m->aged, e, by_age);
  if (e->due)
    TAILQ_REMOVE (&m->due, e, by_due);
}

void
images_fire_member (struct images *b, struct image_member *m)
{
  if (m->armed)
    TAILQ_REMOVE (&b->armed, m, armed_link);
  m->armed = false;
  b->fresh -= m->fresh;
  m->fresh = 0;
  m->limit = b->sequence;
  images_look (b, m);
}

void
images_fire (struct images *b)
{
  struct image_member *m;

  while ((m = TAILQ_FIRST (&b->armed)))
    images_fire_member (b, m);
}

bool
images_resting (const struct images *b)
{
  return b->fresh > 0;
}

void
images_tick (struct images *b, uint64_t now_ns)
{
  struct image_member *m;

  while ((m = TAILQ_FIRST (&b->armed)) && m->age_ns <= now_ns)
    images_fire_member (b, m);
}

uint64_t
images_deadline (const struct images *b)
{
  const struct image_member *m = TAILQ_FIRST (&b->armed);

  return m ? m->age_ns : UINT64_MAX;
}

uint64_t
images_mark (struct images *b)
{
  struct generation *last = TAILQ_LAST (&b->generations, generation_list);

  images_fire (b);
  if (last->images == 0)
    return last->number - 1;
  open_generation (b);
  return last->number;
}

bool
images_drained (const struct images *b, uint64_t mark)
{
  const struct generation *g = TAILQ_FIRST (&b->generations);

  return g->number > mark;
}

bool
images_drained_of (const struct images *b, unsigned member, uint64_t mark)
{
  const struct generation *g;

  TAILQ_FOREACH (g, &b->generations, link)
    if (g->number > mark)
      break;
    else if (g->of[member] > 0)
      return false;
  return true;
}

bool
images_last (const struct images *b, unsigned member)
{
  const struct image_member *m = &b->member[member];
  const struct image *e = TAILQ_FIRST (&m->aged);

  return m->runs == 1 && TAILQ_EMPTY (&m->due) &&
         (!e || e->sequence > m->limit);
}

void
image_make_due (struct images *b, struct image_member *m, struct image *e)
{
  if (!e->due) {
    image_weigh (b, m, e, false);
    e->due = true;
    TAILQ_INSERT_TAIL (&m->due, e, by_due);
  }
  images_look (b, m);
}

/* Looking. */

bool
images_overlap (const struct images *b, unsigned member, uint64_t offset,
                uint64_t length)
{
  const struct image_member *m = &b->member[member];
  const struct image *e = image_first (&m->pending, offset);
  const struct image *f = image_first (&m->flying, offset);

  return (e && e->offset < offset + length) ||
         (f && f->offset < offset + length);
}

bool
images_hurry (struct images *b, unsigned member, uint64_t offset,
              uint64_t length)
{
  struct image_member *m = &b->member[member];
  struct image *e = image_first (&m->pending, offset);

  for (; e && e->offset < offset + length;
       e = RB_NEXT (image_tree, &m->pending, e))
    image_make_due (b, m, e);
  return images_overlap (b, member, offset, length);
}

bool
images_empty (const struct images *b)
{
  return b->count == 0;
}

void
images_stats (const struct images *b, struct images_stats *stats)
{
  *stats = (struct images_stats) { .bytes = b->bytes,
                                   .sent = b->sent,
                                   .replaced = b->replaced,
                                   .batches = b->batches };
  for (unsigned i = 0; i < b->config.members; i++) {
    const struct image_member *m = &b->member[i];
    const struct image *e = TAILQ_FIRST (&m->aged);
    struct image *f;

    if (e && (!stats->oldest_ns || e->accepted_ns < stats->oldest_ns))
      stats->oldest_ns = e->accepted_ns;
    RB_FOREACH (f, image_tree, (struct image_tree *) &m->flying)
      if (!stats->oldest_ns || f->accepted_ns < stats->oldest_ns)
        stats->oldest_ns = f->accepted_ns;
  }
}
