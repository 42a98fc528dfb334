/* images.h: the image buffer of a host (docs/DESIGN.md 6.1).
 *
 * The buffer holds the images (copies 1...) of writes whose data copy is
 * written, until they are written too.  images.c has the design.  Pure: the
 * array engine asks images_next for the next request and reports answers to
 * images_answered.
 *
 * Offsets and lengths are bytes in a member's data area.
 */

#ifndef WEFT_IMAGES_H
#define WEFT_IMAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bounds.h"

enum image_kind {
  IMAGE_WRITE,
  IMAGE_ZERO, /* zeroes, storage kept */
  IMAGE_TRIM, /* zeroes, storage may be given back */
};

/* The bytes of a write, shared by its images. */
struct payload {
  unsigned references;
  size_t bytes;
  uint8_t data[];
};

struct images_config {
  unsigned members;
  uint64_t bytes_max;
  unsigned age_ms;
  bool batches;
  /* A run is the range [base + i * bytes, base + (i+1) * bytes) of a member; with
   * raid-x, a cluster of images.  When all of a run is buffered it is sent.
   */
  uint64_t run_base, run_bytes;
  /* Called once for each image that was added with a waiter, when it is
   * written (true) or dropped (false).  It must only take note.
   */
  void (*told) (void *owner, void *waiter, unsigned member, bool written);
  void *owner;
};

struct images_stats {
  uint64_t bytes;          /* taken, of bytes_max */
  uint64_t sent, replaced; /* bytes of images, ever */
  uint64_t batches;        /* ever */
  uint64_t oldest_ns;      /* when the oldest was accepted; 0: none */
};

/* A request with images to a member, in flight until it is answered. */
enum image_run_kind { RUN_WRITE, RUN_ZERO, RUN_BATCH };
struct image;
struct image_run {
  enum image_run_kind kind;
  unsigned member;
  bool fua, may_trim;
  uint64_t offset, length; /* RUN_BATCH: 0 and the length of the batch */
  void *buf;

  /* The buffer's own: */
  struct image *first, **last;
  struct payload *payload; /* gathered; or NULL */
  uint64_t weight;
  unsigned drops;
};

/* The ranges of the member that a run writes, one after the other: begin with
 * *at NULL. False at the end.
 */
bool image_run_range (const struct image_run *run, const struct image **at,
                      uint64_t *offset, uint64_t *length);

struct images;

struct images *images_new (const struct images_config *config);
/* All runs were answered, or images_discard was called. */
void images_free (struct images *b);

/* Take room for the images of one piece: `length` bytes of payload (0 for
 * zeroes) in `copies` images.  Returns 0 with the block to be filled in
 * *payload (NULL if length is 0), EAGAIN when there is no room now, ENOMEM.
 * The caller adds at most `copies` images and then calls images_settle, which
 * gives back the room and the caller's reference.
 */
int images_admit (struct images *b, size_t length, unsigned copies,
                  struct payload **payload);
void images_settle (struct images *b, unsigned copies, struct payload *payload);

/* Is more than half of the buffer taken? */
bool images_pressed (const struct images *b);

/* images_admit can always give at least this many bytes at once. */
uint64_t images_piece_bytes_max (const struct images *b);

/* Add an image; it replaces the range that it covers in older ones that wait.
 * A waiter's image is sent at once, and never replaced: no write to its range
 * may begin before the waiter is done.
 */
void images_add (struct images *b, unsigned member, uint64_t offset,
                 uint64_t length, enum image_kind kind, struct payload *payload,
                 bool fua, void *waiter, uint64_t now_ns);

/* Is any of this range waiting or in flight?  If so it is sent at once. */
bool images_hurry (struct images *b, unsigned member, uint64_t offset,
                   uint64_t length);
/* The same question, and nothing is sent for it. */
bool images_overlap (const struct images *b, unsigned member, uint64_t offset,
                     uint64_t length);

/* Send everything accepted so far: returns a mark, and images_drained says
 * whether all before the mark is written or dropped.
 */
uint64_t images_mark (struct images *b);
bool images_drained (const struct images *b, uint64_t mark);
/* The same for the images of one member. */
bool images_drained_of (const struct images *b, unsigned member, uint64_t mark);
/* Is but one run in flight to the member, and none to be sent behind it? */
bool images_last (const struct images *b, unsigned member);

/* Send all images, without a mark: no other request is under way, or a write
 * waits for room.
 */
void images_fire (struct images *b);
/* Is there an image that is not yet to be sent? */
bool images_resting (const struct images *b);

/* Send images older than the age limit. */
void images_tick (struct images *b, uint64_t now_ns);
/* When the next image reaches that age; UINT64_MAX: none waits. */
uint64_t images_deadline (const struct images *b);

/* The next thing to send, or NULL.  images_answered ends it: written, or else
 * its images wait again (behind what is newer).
 */
struct image_run *images_next (struct images *b, uint64_t now_ns);
void images_answered (struct images *b, struct image_run *run, bool written);

/* paused: the member is lost, so send it nothing, but keep its images.  False:
 * it is back.
 */
void images_pause (struct images *b, unsigned member, bool paused);
/* A member is out: drop its images (those in flight when they are answered).  None
 * may be added before it is back.  Returns whether there were any.
 */
bool images_drop (struct images *b, unsigned member);

/* No mark waits for the images of a background member, old or new ones. */
void images_background (struct images *b, unsigned member, bool background);
/* Has a member any images, waiting or in flight? */
bool images_any (const struct images *b, unsigned member);
/* When the oldest that waits was accepted; 0: none waits. */
uint64_t images_oldest (const struct images *b, unsigned member);
/* Since when the member has owed an answer to one that was sent to it, also in vain; 0: it
 * owes none.  An image that was not sent yet says nothing of the member.
 */
uint64_t images_waits_since (const struct images *b, unsigned member);

/* A mark for one member: after images_fire, images_sequence gives it, and
 * images_written says whether all images of the member up to it are written or
 * dropped.
 */
uint64_t images_sequence (const struct images *b);
bool images_written (const struct images *b, unsigned member,
                     uint64_t sequence);
/* Forget everything that is not in flight, and all waiters, untold. */
void images_discard (struct images *b);

bool images_empty (const struct images *b); /* nothing waits or is in flight */
void images_stats (const struct images *b, struct images_stats *stats);
void images_check (const struct images *b);

#endif /* WEFT_IMAGES_H */
