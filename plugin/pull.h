/* pull.h: a joining member fetches from the others what it lacks: the one
 * engine of rebuild and catch-up (docs/DESIGN.md 8.1).
 *
 * The member engine (core/member/member.h) says what is to be done, and when it is
 * done; weftd says from whom and how fast.  Nothing runs while there is no
 * order.
 */

#ifndef WEFT_PULL_H
#define WEFT_PULL_H

#include <stdbool.h>
#include <stdint.h>

#include "layout/layout.h"

/* weftd's order.  Only the in-sync members are sources. */
struct pull_order {
  uint64_t epoch; /* of the joining that it is for */
  bool paused;
  uint64_t rate;  /* bytes a second; 0: as fast as it goes */
  struct layout layout;
  unsigned member; /* we */
  struct {
    char *uri; /* NULL: no source */
    char *data, *intents; /* tokens */
  } source[ARRAY_MEMBERS_MAX];

  unsigned users; /* pull.c's own, under server.lock */
};

/* An order without sources, to be filled; NULL: out of memory. */
struct pull_order *pull_order_new (void);
void pull_order_free (struct pull_order *o);

/* The newest order, or NULL when there is none; belongs to pull.c then.  Say it
 * after each member_desire, under the same hold of server.lock.  Returns 0 or
 * an errno: then there are no threads to carry it out.
 */
int pull_obey (struct pull_order *o);

struct pull_progress {
  uint64_t copied_bytes;     /* that came from others since the joining began */
  uint64_t unreadable_bytes; /* that could not be read from any */
  uint64_t rate;             /* bytes a second, just now */
  char waits[320];           /* for whom, and why; empty: for nobody */
};

/* With server.lock held. */
void pull_progress (struct pull_progress *p);

/* End the threads, for ever. */
void pull_stop (void);

#endif /* WEFT_PULL_H */
