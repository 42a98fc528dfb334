/* images-internal.h: shared by the files of the image buffer (images.c). */

#ifndef WEFT_IMAGES_INTERNAL_H
#define WEFT_IMAGES_INTERNAL_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>

#include "images.h"
#include "base/spares.h"

/* So many bytes are in flight to one member at once; more would only delay what
 * clients wait for.
 */
#define FLYING_BYTES_MAX MiB (4)
/* So many batches are, however small: they wait for each other at the member.
 */
#define FLYING_BATCHES_MAX 8
/* The longest zero that neighbours are joined into. */
#define ZERO_BYTES_MAX GiB (1)
/* So many images that may not be sent yet are passed by while gathering. */
#define PASSED_MAX 64

/* The images accepted between two marks. */
struct generation {
  TAILQ_ENTRY (generation) link;
  uint64_t number;
  uint64_t images; /* of it, waiting or in flight */
  uint64_t of[];   /* each member's part of these */
};

struct image {
  RB_ENTRY (image) by_offset; /* pending or flying of its member */
  TAILQ_ENTRY (image) by_age; /* pending of its member, by sequence */
  TAILQ_ENTRY (image) by_due; /* pending and due */
  struct image *next;         /* in its run */
  uint64_t offset, length;
  uint64_t sequence; /* of the oldest write that it stands for */
  uint64_t accepted_ns;
  uint64_t sent_ns;              /* for the first time; 0: never */
  struct generation *generation; /* NULL: of a background member */
  struct payload *payload;       /* NULL: zeroes */
  size_t at;
  void *waiter;
  enum image_kind kind;
  uint16_t member;
  bool due, fua, flying;
};

RB_HEAD (image_tree, image);
TAILQ_HEAD (image_queue, image);

struct image_member {
  struct image_tree pending, flying;
  struct image_queue aged, due;
  uint64_t limit; /* send images up to this sequence */
  uint64_t fresh; /* weight of all other images that wait */
  uint64_t flying_weight;
  unsigned runs, batches; /* in flight; batches among them */
  /* Counts calls of images_drop: a run that was sent before the last one is not put
   * back when it fails.
   */
  unsigned drops;
  bool paused, gone;
  bool background;
  bool ready; /* in the list of those to look at */
  TAILQ_ENTRY (image_member) ready_link;
  bool armed; /* fresh images get old at age_ns */
  uint64_t age_ns;
  TAILQ_ENTRY (image_member) armed_link;
};
TAILQ_HEAD (image_members, image_member);

struct images {
  struct images_config config;
  uint64_t bytes; /* of blocks, images and room taken: against bytes_max */
  uint64_t room;  /* of that, taken for images yet to be added */
  uint64_t fresh;
  uint64_t sequence;
  uint64_t sent, replaced, batches;
  uint64_t count; /* images, waiting and in flight */
  TAILQ_HEAD (generation_list, generation)
  generations;                       /* the last one is open */
  struct image_members ready, armed; /* armed: the oldest first */
  struct spares spares;
  struct image_member member[];
};

/* images.c */
struct image *image_first (const struct image_tree *tree, uint64_t offset);
struct image *image_new (struct images *b);
void images_look (struct images *b, struct image_member *m);
/* Send all images of the member. */
void images_fire_member (struct images *b, struct image_member *m);
void image_make_due (struct images *b, struct image_member *m, struct image *e);
void image_weigh (struct images *b, struct image_member *m,
                  const struct image *e, bool add);
void image_take (struct images *b, struct image_member *m, struct image *e);
void image_end (struct images *b, struct image *e, bool written);
void image_enter_generation (struct image *e, struct generation *g);
void image_leave_generation (struct images *b, struct image *e);
void image_payload_unref (struct images *b, struct payload *p);
struct payload *image_payload_new (struct images *b, size_t bytes);

/* images-add.c */
void image_add_back (struct images *b, struct image_member *m, struct image *e);

/* The bytes of the buffer that an image takes: an image of zeroes only its
 * bookkeeping.
 */
static inline uint64_t
image_weight (const struct image *e)
{
  return sizeof *e + (e->kind == IMAGE_WRITE ? e->length : 0);
}

static inline bool
image_eligible (const struct image_member *m, const struct image *e)
{
  return e->due || e->sequence <= m->limit;
}

static inline bool
image_blocked (const struct image_member *m, const struct image *e)
{
  const struct image *f = image_first (&m->flying, e->offset);

  return f && f->offset < e->offset + e->length;
}

int image_compare (const struct image *a, const struct image *b);
RB_PROTOTYPE (image_tree, image, by_offset, image_compare)

#endif /* WEFT_IMAGES_INTERNAL_H */
