/* budget.h: bounds the memory of requests from clients on other hosts.
 *
 * nbdkit has a buffer for each request under way, of up to 64 MiB, from its
 * header's arrival until its reply is sent.  A client decides how long both
 * take.  So requests of more than BUDGET_SMALL bytes share a budget: of this
 * process, of one node and of all readers.  A request that does not fit waits
 * before more of it is read; smaller ones never wait, and are bounded by
 * connections and threads.
 *
 * While a request waits, this file closes connections that hold memory and let
 * the server wait: for the rest of a write, or for room to send a reply.  While
 * there is memory, no connection is closed: a virtual machine may pause for as
 * long as it likes.
 *
 * nbdkit-tls.c reports the bytes that a connection receives and sends; clients
 * without TLS are of this host, and are not counted.
 */

#ifndef WEFT_BUDGET_H
#define WEFT_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bounds.h"

struct caller;

/* Under way together, of one node, and of all that may only read. */
#define BUDGET_ALL_BYTES MiB (256)
#define BUDGET_NODE_BYTES MiB (64)
#define BUDGET_READERS_BYTES MiB (128)
#define BUDGET_SMALL KiB (64)

/* The memory that idle threads may keep in their buffers, together. */
#define BUDGET_KEPT_BYTES MiB (64)

/* So long a client may let the server wait while memory is short, and so much longer for
 * each MiB.
 */
#define BUDGET_LATE_MS 10000
#define BUDGET_LATE_MS_EACH 1000

/* In the plugin's load ().  False: nbdkit does not get its buffers as we know it, and they
 * are kept.
 */
bool budget_begin (void);

/* The calling thread has asked this client's connection for so many bytes, and got some:
 * the request may have to wait.  It begins to send this; so much of it is sent; nothing is
 * held back any more.
 */
void budget_received (const struct caller *c, const void *data, size_t asked,
                      size_t got);
void budget_sends (const void *data, size_t bytes);
void budget_sent (size_t bytes);
void budget_uncorked (void);

#endif /* WEFT_BUDGET_H */
