/* resync.h: making the copies equal again after an unclean end: a session that died
 * may have written the data of an extent and not its image.  What is done, and when,
 * core/host/resync.h says.
 */

#ifndef WEFT_RESYNC_H
#define WEFT_RESYNC_H

#include "control.h"
#include "engine.h"
#include "layout/layout.h"

/* Before the first client is let in.  Returns 0; or 1 when bits stay until the next
 * attach, for some places can't be read from any copy and not all members know; or
 * -1 after an error was told: copies may differ, so nobody may be served.
 */
int resync_run (struct engine *e, const struct layout *l, struct control *c);

/* All members are in-sync, all copies equal and stable, and no client is left:
 * lower every bit.  Whatever keeps one from falling is told, and costs a resync.
 */
void resync_settle (struct engine *e, const struct layout *l,
                    struct control *c);

#endif /* WEFT_RESYNC_H */
