/* hangup.h: lets nbdkit end although clients are connected.
 *
 * On SIGTERM nbdkit fails the requests that it reads, and waits until each
 * client has closed its connection; an idle client, such as an array process
 * without work, never does.  So this file admits no new client from then on,
 * and reads no more from any connection: the requests under way are answered,
 * then the connection is closed, and then nbdkit ends.  If a client does not
 * take its answers, or keeps sending, its connection is cut off after 10 s.  A
 * client without an answer may wait for the next process; none gets an error
 * because this one ends.
 */

#ifndef WEFT_HANGUP_H
#define WEFT_HANGUP_H

#include <stdbool.h>

/* The thread that waits for the end; start it in after_fork (). members: the
 * clients know other copies, so a connection on which answers do not arrive is
 * ended (blackhole.h). Returns 0 or -1 with an error logged.  hangup_stop
 * returns when it has ended.
 */
int hangup_start (bool member);
void hangup_stop (void);

/* End this process as a signal does.  [any thread] */
void hangup_end (void);

/* No client gets an answer any more: requests that fail from here on are sent
 * again to the next process.
 */
void hangup_cut (void);

/* Is nbdkit ending? */
bool hangup_ending (void);

#endif /* WEFT_HANGUP_H */
