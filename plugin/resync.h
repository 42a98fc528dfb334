/* resync.h: making the copies equal again after an unclean end: a session that died
 * may have written the data of an extent and not its image.  What is done, and
 * when, core/host/resync.h says.
 */

#ifndef WEFT_RESYNC_H
#define WEFT_RESYNC_H

#include "control.h"
#include "engine.h"
#include "layout/layout.h"

/* Run the resync, before the first client is let in.  Returns 0; or 1 when intent
 * bits stay set until the next attach, because some places can't be read from any
 * copy and not all members could be told; or -1 after an error was said: copies may
 * differ, so nobody may be served.
 */
int resync_run (struct engine *e, const struct layout *l, struct control *c);

/* Of these ranges alone, which a session had leases of that is dead; the others go on,
 * and so do our clients (array_lease_recover).  -1: the copies may still differ there.
 */
int resync_recover (struct engine *e, const struct layout *l, struct control *c,
                    const struct array_range *ranges, unsigned count);

/* At a clean end, when all members are in-sync, all copies equal and stable, and no
 * client is left: clear every intent bit; with `leases`, for others share the array by
 * leases, only our own.  Where one can't be cleared a message says why, and the next
 * attach has that extent to copy.
 */
void resync_settle (struct engine *e, const struct layout *l, struct control *c,
                    bool leases);

#endif /* WEFT_RESYNC_H */
