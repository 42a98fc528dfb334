/* control.h: an array process's session with weftd (docs/API): attach,
 * heartbeat, epochs, lost members and those that are back, detach.
 */

#ifndef WEFT_CONTROL_H
#define WEFT_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "array/array.h"
#include "common/map.h"

struct engine;
struct control;

/* Attach the array: the session, and the map that came with it (which the
 * caller frees, after control_end).  Waits for a silent holder to expire, and
 * for members to come, and says so on stderr.  NULL after nbdkit_error.
 */
struct control *control_attach (bool readonly, struct map **map);

/* There is an engine.  Before engine_start, for a notice may come at once.
 * connected[m]: the engine has a connection to it.  A member needs at least
 * member_bytes.  -1 after nbdkit_error.
 */
int control_ready (struct control *c, struct engine *e, const bool connected[],
                   uint64_t member_bytes);

/* Start the threads (not before nbdkit's fork). */
int control_start (struct control *c);

/* What the array engine wants told, of the connection of this number to the
 * member; never blocks.
 */
void control_notice (struct control *c, const struct array_notice *n,
                     uint64_t connection);

/* Stop the threads, after engine_end. */
void control_stop (struct control *c);

/* How a member is reached now, as a copy; false: out of memory, and *mm is empty.
 */
bool control_member (struct control *c, unsigned member, struct map_member *mm);

/* After control_stop: is every member in-sync and reached, and has all that was
 * ever written?
 */
bool control_whole (const struct control *c);

/* When everything is written and flushed (`clean`), detach: weftd need not
 * wait for us any longer.  Frees c.
 */
void control_end (struct control *c, bool clean);

#endif /* WEFT_CONTROL_H */
