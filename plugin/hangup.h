/* hangup.h: lets nbdkit end although clients are connected.
 *
 * On SIGTERM nbdkit answers no more requests, but waits until each client has
 * closed its connection; a client that is idle, such as an array process
 * without work, never does.  So each open door is noted here, and once nbdkit
 * is ending, no more is read from its connection: the requests under way are
 * answered, then the connection is closed.
 */

#ifndef WEFT_HANGUP_H
#define WEFT_HANGUP_H

#include <stdbool.h>

/* One connection; part of what the plugin's open () returns. */
struct hangup {
  struct hangup *next, **link;
  int fd; /* its socket; -1: not found */
};

/* Call in open () and close ().  nbdkit calls close () no more once it is
 * ending; a plugin that frees what is left then must call hangup_stop first.
 */
void hangup_add (struct hangup *h);
void hangup_remove (struct hangup *h);

/* The thread that waits for the end; start it in after_fork ().  Returns 0 or
 * -1 with an error said.  hangup_stop returns when it has ended.
 */
int hangup_start (void);
void hangup_stop (void);

/* Is nbdkit ending?  hangup_wait waits so long for that. */
bool hangup_ending (void);
bool hangup_wait (unsigned ms);

#endif /* WEFT_HANGUP_H */
