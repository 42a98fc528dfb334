/* fetch.h: one thread's NBD connections to the members that it copies from.
 *
 * Every wait has a limit: a member that hangs does not hang who reads from it.
 * Commands go to all members at once, many at a time; each is answered, or its
 * member is at fault and its connection closed.
 */

#ifndef WEFT_FETCH_H
#define WEFT_FETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libnbd.h>

#include "base/bounds.h"

/* A part of a member's data area, up to `end`, that is of one kind. */
struct fetch_span {
  uint64_t end;
  bool hole, zero;
};

struct fetch_map {
  uint64_t end; /* of the last span */
  struct fetch_span *span;
  size_t count, room;
};

enum fetch_kind {
  FETCH_READ,
  FETCH_STATUS, /* what is there?  What *map does not cover is data. */
  FETCH_FLUSH,
};

struct fetch_command {
  struct fetch_command *next;
  enum fetch_kind kind;
  unsigned member;
  uint64_t offset;
  uint32_t length;
  void *buf;             /* of a read */
  struct fetch_map *map; /* of a status */
  int error;             /* the answer: an errno or 0 */

  int64_t cookie; /* fetch.c's own; 0: not under way */
};

struct fetch {
  const char *door;   /* "data" or "intents" */
  unsigned silent_ms; /* a member that answers nothing for so long is silent */
  struct {
    struct nbd_handle *nbd; /* NULL: not connected */
    unsigned flying;
    uint64_t heard_ms; /* its last answer, while some are flying */
  } link[ARRAY_MEMBERS_MAX];
};

/* What went wrong, and with whom. */
struct fetch_fault {
  unsigned member;
  char why[200];
};
void fetch_blame (struct fetch_fault *fault, unsigned member, const char *fs,
                  ...) __attribute__ ((format (printf, 3, 4)));

/* Connect to a member's door.  Returns -1 with *fault. */
int fetch_open (struct fetch *f, unsigned member, const char *uri,
                const char *token, struct fetch_fault *fault);
void fetch_close (struct fetch *f, unsigned member);
void fetch_close_all (struct fetch *f);

uint64_t fetch_size (const struct fetch *f, unsigned member);

/* Carry out a list of commands, to members that are connected.  Returns 0 when
 * each has its answer.  -1: a member refuses us, has broken its connection or
 * is silent; *fault says which.  1: cancelled () has become true.  In both
 * cases every connection that had something under way is closed.
 */
int fetch_run (struct fetch *f, struct fetch_command *list,
               bool (*cancelled) (void *), void *opaque,
               struct fetch_fault *fault);

#endif /* WEFT_FETCH_H */
