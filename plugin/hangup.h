/* hangup.h: lets nbdkit end although clients are connected.
 *
 * On SIGTERM nbdkit answers no more requests, but waits until each client has
 * closed its connection; a client that is idle, such as an array process
 * without work, never does.  So once nbdkit is ending, no more is read from any
 * connection: the requests under way are answered, then it is closed.  One
 * whose client does not take its answers is cut off after a while.
 */

#ifndef WEFT_HANGUP_H
#define WEFT_HANGUP_H

#include <stdbool.h>

/* The thread that waits for the end; start it in after_fork ().  Returns 0 or
 * -1 with an error said.  hangup_stop returns when it has ended.
 */
int hangup_start (void);
void hangup_stop (void);

/* Is nbdkit ending? */
bool hangup_ending (void);

#endif /* WEFT_HANGUP_H */
