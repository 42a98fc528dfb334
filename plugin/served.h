/* served.h: the clients of an array's service, at the process that serves it.
 *
 * Such a client (following.h) opens the export
 *
 *     data/SESSION/NODE/INSTANCE/NUMBER/FENCES
 *
 * SESSION is ours: else another process was meant.  INSTANCE is the client's own, 32
 * hexadecimal digits that it drew at its first start (identity.h).  NUMBER grows with each connection
 * that it makes.  FENCES was the number of the newest fence of a node when it was
 * started: if its node was fenced since then it is refused, and all that it has asked
 * for is ended (core/cluster/cluster-fence.c).  When the client has lost a connection it sends anew what was not
 * answered; so before a later connection is let in, all that came by the earlier ones
 * has ended, and what is still to come by them is refused.
 *
 * To the array engine a client is the same one by all its connections
 * (array_client): it is told once if what it wrote may be gone.  Where a connection
 * ends soon after that it may not have heard it, and a FLUSH of the next one fails, too.
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
/* Within guests_begin and guests_end, a FLUSH has ended so: 0 or the errno that the client is to be
 * told.
 */
int served_flushed (struct served *s, int error);
void served_close (struct engine *e, struct served *s);
/* The process ends, and the array engine with it. */
void served_end (void);

#endif /* WEFT_SERVED_H */
