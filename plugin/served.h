/* served.h: the clients of an array's service, at the process that serves it.
 *
 * Such a client (following.h) opens the export
 *
 *     data/SESSION/NODE/INSTANCE/NUMBER/FENCES
 *
 * SESSION must be ours: else another process was meant.  INSTANCE is the
 * client's own, 32 hexadecimal digits that it drew at its first start
 * (identity.h). NUMBER grows with each connection that it makes.  FENCES was
 * the number of the newest fence of a node when the client started: if its node
 * was fenced since, the client is refused, and all its requests are ended
 * (core/cluster/inputs/cluster-fence.c). When the client has lost a connection
 * it sends its unanswered requests again.  So before a later connection is
 * admitted, all requests of earlier ones have ended, and late ones are refused.
 *
 * All connections of a client are the same client to the array engine
 * (array_client): it fails one FLUSH if writes may be lost.  If a connection
 * ends soon after that, the client may not have received the error, and a FLUSH
 * of the next connection fails, too.
 */

#ifndef WEFT_SERVED_H
#define WEFT_SERVED_H

#include <stdbool.h>
#include <stdint.h>

#include "engine.h"
#include "guests.h"

struct served;

/* Is this the name of such an export? */
bool served_named (const char *export);
/* Let the client in, which is on this node by its certificate (NULL: it shows none, by
 * loopback); NULL after nbdkit_error and nbdkit_set_error.  May wait for a
 * second or two.
 */
struct served *served_open (struct engine *e, const char *export,
                            const char *session, const char *node);
struct array_client *served_client (const struct served *s);
struct guest *served_guest (struct served *s);
/* It asks for something. */
void served_heard (struct served *s);
/* Within guests_begin and guests_end, a FLUSH has ended so: returns 0 or the
 * errno for the client.
 */
int served_flushed (struct served *s, int error);
void served_close (struct engine *e, struct served *s);
/* The process ends, and the array engine with it. */
void served_end (void);

#endif /* WEFT_SERVED_H */
