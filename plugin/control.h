/* control.h: an array process's session with weftd (docs/API): attach,
 * heartbeat, lost members, detach.
 */

#ifndef WEFT_CONTROL_H
#define WEFT_CONTROL_H

#include <stdbool.h>

#include "array.h"
#include "map.h"

struct engine;
struct control;

/* Attach the array: the session, and the map that came with it (which the
 * caller frees, after control_end).  Waits for a silent holder to expire, and
 * says so on stderr.  NULL after nbdkit_error.
 */
struct control *control_attach (bool readonly, struct map **map);

/* Start the threads (not before nbdkit's fork). */
int control_start (struct control *c, struct engine *e);

/* What the array engine wants told; never blocks. */
void control_notice (struct control *c, const struct array_notice *n);

/* Stop the threads.  Then, when everything is written and flushed (`clean`),
 * detach: weftd need not wait for us any longer.  Frees c.
 */
void control_end (struct control *c, bool clean);

#endif /* WEFT_CONTROL_H */
