/* copy.h: copies one extent of a joining member from the other members.
 *
 * For each stripe unit in it that copy is taken which is on a source, the data
 * copy where both are.  Holes stay holes.  Nothing is written here before all of
 * it has arrived: so an extent that a member held up is as it was.
 */

#ifndef WEFT_COPY_H
#define WEFT_COPY_H

#include "common/disk.h"
#include "fetch.h"
#include "pull.h"

struct copy_part; /* a piece of the extent that is read in one request */

/* One worker's means; start with zeroes but for the first three. */
struct copy {
  const struct disk *disk; /* where it goes */
  bool (*cancelled) (void *);
  void *opaque;

  struct fetch fetch; /* door "data" */
  uint8_t *buf;       /* an extent */
  struct copy_part *part, *other; /* the plan, and room to make a new one */
  size_t parts, parts_room, others, others_room;
  struct fetch_map map[ARRAY_MEMBERS_MAX];

  /* About the last extent. */
  bool used[ARRAY_MEMBERS_MAX]; /* members that it came from */
  uint64_t bytes;
  /* A bit for each block that no source could read: it is as it was. */
  uint64_t passed[EXTENT_BYTES / BAD_BLOCK_BYTES / 64];
  struct fetch_fault fault;
};

int copy_init (struct copy *c); /* 0 or an errno */
void copy_end (struct copy *c);

enum copy_result {
  COPY_DONE,
  COPY_CANCELLED,
  COPY_CONNECT, /* fault.member is to be connected to first */
  COPY_FAULT,   /* of another member */
  COPY_BROKEN,  /* our own disk can't be written */
};
enum copy_result copy_extent (struct copy *c, const struct pull_order *order,
                              uint64_t extent, int *error);

#endif /* WEFT_COPY_H */
