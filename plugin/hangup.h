/* hangup.h: lets nbdkit end although clients are connected.
 *
 * On SIGTERM nbdkit fails what it reads, and waits until each client has closed its
 * connection; a client that is idle, such as an array process without work, never
 * does.  So nobody is let in from then on, and no more is read from any connection:
 * the requests under way are answered, then it is closed, and then nbdkit ends.  One
 * whose client does not take its answers, or sends more and more by TCP, is cut off after
 * 10 s.  A client that has no answer may wait for the next process; none gets an error
 * because this one ends.
 */

#ifndef WEFT_HANGUP_H
#define WEFT_HANGUP_H

#include <stdbool.h>

/* The thread that waits for the end; start it in after_fork ().  members: those who are
 * connected know other copies, so a connection on which answers do not arrive is ended
 * (blackhole.h).  Returns 0 or -1 with an error said.  hangup_stop returns when it has
 * ended.
 */
int hangup_start (bool member);
void hangup_stop (void);

/* No client gets one more answer: what is failed from here on is the next process's. */
void hangup_cut (void);

/* Is nbdkit ending? */
bool hangup_ending (void);

#endif /* WEFT_HANGUP_H */
