/* doorman.h: which connections may keep an HTTP thread.
 *
 * civetweb gives each connection a thread from its beginning until it is closed.
 * So a client that opens thousands of connections and says little or nothing on
 * them would have all the threads.  Therefore, when threads get scarce, one of the
 * connections is closed that wait for their peer (for a request, the rest of one,
 * or to take an answer): one of which nobody knows whose it is, if there is such a
 * one; of the network that has most of these; the one that has waited longest.
 * Connections for which weftd is at work, or waits itself, are left alone.
 */

#ifndef WEFT_DOORMAN_H
#define WEFT_DOORMAN_H

#include <stdbool.h>

#include <civetweb.h>

#include "auth.h"

#define DOORMAN_THREADS 1536

/* So many threads civetweb has: DOORMAN_THREADS, or fewer, as $WEFT_THREADS says. */
unsigned doorman_threads (void);

/* weftd begins (busy) or ends to work for this connection. */
void doorman_busy (struct mg_connection *conn, bool busy);

/* The caller of this connection is known now.  (One caller has a limited number
 * of protected connections: quota.h.)
 */
void doorman_know (struct mg_connection *conn, const struct caller *caller);

/* A connection is about to be closed: civetweb's callback; and for those whose
 * TLS handshake failed, of which civetweb says nothing.
 */
void doorman_end (const struct mg_connection *conn);
void doorman_end_fd (int fd);

/* Called before mg_stop: accept no more connections, and close those that wait.  By
 * itself civetweb looks only every 2 s whether it is to stop.
 */
void doorman_close (void);

#endif /* WEFT_DOORMAN_H */
