/* guests.h: clients on other nodes, which use the array as long as their nodes
 * may.
 *
 * weftd tells the array process which nodes are on the array's list, and which
 * are fenced; later changes apply to connected clients, too.  An array from a
 * static map has no list and no guests: every client with a certificate of the
 * CA is admitted.
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
/* In open: may this client use an array, by the kind of its certificate?  A process
 * certificate must be for this array.  -1 after nbdkit_error and nbdkit_set_error.
 */
int guests_process (void);
/* It comes in; `node`, and `fences`, are its own.  In open, by the thread of its
 * connection.
 */
void guests_enter (struct guest *g);
/* The same, of one that says nothing of when it was started: now.  -1 after nbdkit_error
 * and nbdkit_set_error: it is refused.
 */
int guests_open (struct guest *g, const char *node);
/* Is it refused, now or from the start?  0; EPERM; or EAGAIN: it names a newer
 * fence than weftd has sent, which may come.
 */
int guests_refused (const struct guest *g);
/* It has gone: before the end of its connection's thread. */
void guests_leave (struct guest *g);

/* For the time of a request; false: it is over. */
bool guests_begin (struct guest *g);
void guests_end (struct guest *g);

/* Take weftd's news of fences, and of the array's list of nodes, in its answer
 * to the attach or to a heartbeat; without news the fields are missing.
 */
void guests_take (const json_t *reply);
/* The newest fence by which nothing runs any more that is refused. */
uint64_t guests_fences (void);

#endif /* WEFT_GUESTS_H */
