/* array-resync.h: resyncs the copies after an unclean end: a session that died
 * may have written the data of an extent and not its image.  core/host/resync.h
 * says what is done, and when.
 */

#ifndef WEFT_ARRAY_RESYNC_H
#define WEFT_ARRAY_RESYNC_H

#include "control.h"
#include "engine.h"
#include "layout/layout.h"

/* Run the resync, of all of the array or of our part alone, before the first
 * client is admitted.  Returns 0; or 1 when
 * intent bits stay set until the next attach, because some ranges can't be read
 * from any copy and not all members have got the report; or -1 after an error
 * message: copies may differ, so no client may be served.
 */
int resync_run (struct engine *e, const struct layout *l, struct control *c,
                bool all);

/* Of these ranges alone, which a session had leases of that is dead; the others go on,
 * and so do our clients (array_lease_recover).  -1: the copies may still differ there.
 */
int resync_recover (struct engine *e, const struct layout *l, struct control *c,
                    const struct array_range *ranges, unsigned count);

/* At a clean end, when all members are in-sync, all copies equal and stable, and no
 * client is left: clear every intent bit; with `leases`, for others share the array, only
 * our own.  Where one can't be cleared a message says why, and the next
 * attach has that extent to copy.
 */
void resync_settle (struct engine *e, const struct layout *l, struct control *c,
                    bool leases);

#endif /* WEFT_ARRAY_RESYNC_H */
