/* guests.h: clients on other nodes, which use the array as long as their nodes may.
 *
 * weftd tells who lets others in which nodes the array's list has, and which are fenced;
 * what it says later is for those who are in already, too.  An array from a static map
 * has no list: it has no guests, and who shows a certificate of the CA is let in.
 */

#ifndef WEFT_GUESTS_H
#define WEFT_GUESTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <bsd/sys/queue.h>
#include <jansson.h>

#include "base/bounds.h"

struct caller;

/* A connection. */
struct guest {
  TAILQ_ENTRY (guest) link;
  char node[NAME_BYTES_MAX + 1];
  uint64_t fences; /* the newest fence when what runs on the node was started */
  bool readonly;   /* its node may only read the array */
  atomic_bool over; /* nothing of it is begun any more */
  atomic_uint running;
  struct caller *caller; /* NULL: not known */
};

/* In open: the node whose certificate this client shows, for the time of the
 * connection.  NULL after nbdkit_error.
 */
const char *guests_node (void);
/* It comes in; `node`, and `fences`, are its own.  In open, by the thread of its
 * connection.
 */
void guests_enter (struct guest *g);
/* The same, of one that says nothing of when it was started: now.  -1 after nbdkit_error
 * and nbdkit_set_error: it is refused.
 */
int guests_open (struct guest *g, const char *node);
/* Is it to be let in no more, or not at all? */
bool guests_refused (const struct guest *g);
/* It has gone: before the end of its connection's thread. */
void guests_leave (struct guest *g);

/* For the time of a request; false: it is over. */
bool guests_begin (struct guest *g);
void guests_end (struct guest *g);

/* What weftd says of fences, and of who may attach the array, in its answer to the
 * attach or to a heartbeat; nothing is said where nothing is new.
 */
void guests_take (const json_t *reply);
/* The newest fence by which nothing runs any more that is refused. */
uint64_t guests_fences (void);

#endif /* WEFT_GUESTS_H */
