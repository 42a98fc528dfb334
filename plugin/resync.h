/* resync.h: making the copies equal again after an unclean end (docs/DESIGN.md
 * 8.2): a session that died may have written the data of an
 * extent and not its image.
 */

#ifndef WEFT_RESYNC_H
#define WEFT_RESYNC_H

#include "control.h"
#include "engine.h"
#include "layout/layout.h"

/* Write the data of every extent whose intent bit some in-sync member has set
 * to its images, and flush; then the bits may fall.  No client may be served
 * yet.  Returns 0; or 1 when some places can't be read from any copy: their
 * bits stay; or -1 after an error was told: copies may differ, so nobody may be
 * served.
 */
int resync_run (struct engine *e, const struct layout *l, struct control *c);

/* All members are in-sync, all copies equal and stable, and no client is left:
 * lower every bit.
 */
int resync_settle (struct engine *e, const struct layout *l, struct control *c);

#endif /* WEFT_RESYNC_H */
