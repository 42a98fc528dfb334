/* puller.h: the threads by which a joining member fetches from the others what it
 * lacks.  member/pull.h decides; nothing runs while there is no order.
 */

#ifndef WEFT_PULLER_H
#define WEFT_PULLER_H

#include "member/pull.h"

/* weftd's order, and where its sources are found. */
struct puller_order {
  struct pull_order order;
  struct {
    char *uri;            /* NULL: no source */
    char *data, *intents; /* tokens */
  } source[ARRAY_MEMBERS_MAX];

  unsigned users; /* puller.c's own, under server.lock */
};

/* An order without sources, to be filled; NULL: out of memory. */
struct puller_order *puller_order_new (void);
void puller_order_free (struct puller_order *o);

/* As pull_obey; the order then belongs to puller.c.  Returns 0, or an errno when
 * the threads to carry it out could not be started.
 */
int puller_obey (struct puller_order *o);

/* As pull_progress, with server.lock held. */
struct puller_progress {
  struct pull_progress pull;
  char waits[320]; /* for which member it waits, and why; "": for none */
};
void puller_progress (struct puller_progress *p);

/* End the threads, for ever. */
void puller_stop (void);

#endif /* WEFT_PULLER_H */
