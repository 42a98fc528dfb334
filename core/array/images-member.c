/* images-member.c: members that are lost, that come back, and that join.
 *
 * The images of a lost member are kept, because it may come back.  The images
 * of a member that is out are dropped; an image in flight to it is dropped when
 * it is answered, even if the member is back by then: newer writes may have
 * gone to the member since, and an old image must not follow them.
 */

#include <config.h>

#include <stddef.h>

#include "images-internal.h"

void
images_pause (struct images *b, unsigned member, bool paused)
{
  struct image_member *m = &b->member[member];

  m->paused = paused;
  m->gone = false;
  images_look (b, m);
}

static void
drop (struct images *b, struct image_member *m)
{
  struct image *e;

  m->paused = m->gone = true;
  m->drops++;
  while ((e = TAILQ_FIRST (&m->aged))) {
    image_take (b, m, e);
    image_end (b, e, false);
  }
}

bool
images_any (const struct images *b, unsigned member)
{
  const struct image_member *m = &b->member[member];

  return !RB_EMPTY (&m->pending) || !RB_EMPTY (&m->flying);
}

bool
images_drop (struct images *b, unsigned member)
{
  bool any = images_any (b, member);

  drop (b, &b->member[member]);
  return any;
}

void
images_discard (struct images *b)
{
  for (unsigned i = 0; i < b->config.members; i++) {
    struct image_member *m = &b->member[i];
    struct image *e;

    RB_FOREACH (e, image_tree, &m->pending)
      e->waiter = NULL;
    RB_FOREACH (e, image_tree, &m->flying)
      e->waiter = NULL;
    drop (b, m);
  }
}

static void
move_generation (struct images *b, struct image_member *m, struct image *e)
{
  image_leave_generation (b, e);
  if (!m->background)
    image_enter_generation (e, TAILQ_LAST (&b->generations, generation_list));
}

void
images_background (struct images *b, unsigned member, bool background)
{
  struct image_member *m = &b->member[member];
  struct image *e;

  m->background = background;
  RB_FOREACH (e, image_tree, &m->pending)
    move_generation (b, m, e);
  RB_FOREACH (e, image_tree, &m->flying)
    move_generation (b, m, e);
}

uint64_t
images_sequence (const struct images *b)
{
  return b->sequence;
}

bool
images_written (const struct images *b, unsigned member, uint64_t sequence)
{
  const struct image_member *m = &b->member[member];
  struct image *e = TAILQ_FIRST (&m->aged);

  if (e && e->sequence <= sequence)
    return false;
  RB_FOREACH (e, image_tree, (struct image_tree *) &m->flying)
    if (e->sequence <= sequence)
      return false;
  return true;
}

static uint64_t
first_sent_ns (const struct image_tree *tree, uint64_t first_ns)
{
  struct image *e;

  RB_FOREACH (e, image_tree, (struct image_tree *) tree)
    if (e->sent_ns && (first_ns == 0 || e->sent_ns < first_ns))
      first_ns = e->sent_ns;
  return first_ns;
}

uint64_t
images_waits_since (const struct images *b, unsigned member)
{
  const struct image_member *m = &b->member[member];

  return first_sent_ns (&m->flying, first_sent_ns (&m->pending, 0));
}

uint64_t
images_oldest (const struct images *b, unsigned member)
{
  const struct image *e = TAILQ_FIRST (&b->member[member].aged);

  return e ? e->accepted_ns : 0;
}
