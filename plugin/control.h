/* control.h: an array process's session with weftd (docs/API): attach,
 * heartbeat, epochs, lost members and those that are back, detach.
 */

#ifndef WEFT_CONTROL_H
#define WEFT_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "array/array.h"
#include "common/map.h"
#include "layout/layout.h"

struct engine;
struct control;
struct volumes;

/* Attach the array: the session, and the map that came with it (which the
 * caller frees, after control_end).  Waits for a silent holder to expire, and
 * for members to come, and says so on stderr.  NULL after nbdkit_error.
 */
struct control *control_attach (struct map **map);

/* The order to recover with which a session that shares its array begins: it has a lease
 * of all of it, and its resync is what the order is for.  0: it begins with its part, or
 * with nothing.
 */
uint64_t control_order (const struct control *c);

/* weftd's answer to the attach, and this process's word for itself there. */
const json_t *control_answer (const struct control *c);
const char *control_instance (const struct control *c);
/* The array is a pool: heartbeats are for these, too.  Before control_start. */
void control_volumes (struct control *c, struct volumes *volumes);

/* Hand over the engine.  Called before engine_start, for a notice may come at once
 * after that.  connected[m]: the engine has a connection to member m.  -1 after
 * nbdkit_error.
 */
int control_ready (struct control *c, struct engine *e, const bool connected[],
                   const struct layout *l);

/* Start the threads (not before nbdkit's fork). */
int control_start (struct control *c);

/* Take a notice of the array engine; `connection` is the number of the connection
 * to the member that it is about.  Never blocks.
 */
void control_notice (struct control *c, const struct array_notice *n,
                     uint64_t connection);

/* Stop the threads, after engine_end. */
void control_stop (struct control *c);

/* Copy how a member is reached now; false: out of memory, and *mm is empty. */
bool control_member (struct control *c, unsigned member, struct map_member *mm);

/* The resync can't read the newest copy of something: waits until weftd knows that it
 * takes an older one.  0, or ESHUTDOWN: the process or its session ends.
 */
int control_older (struct control *c);

/* The resync is over, and no client is admitted yet: tell weftd. */
void control_equal (struct control *c);

/* See host_is_whole. */
bool control_whole (struct control *c);

/* End the session, and free c.  clean: everything is written and flushed, so
 * detach; otherwise weftd finds out by our silence.
 */
void control_end (struct control *c, bool clean);

#endif /* WEFT_CONTROL_H */
