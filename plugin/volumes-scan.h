/* volumes-scan.h: a scan of a pool: it reads the roots and logs for weftd, if weftd's database
 * may be older than the pool, or is lost (docs/PROTOCOL.md, "Volumes of a pool").
 *
 * The roots are read one after the other, and one volume at a time is in memory.  Nothing
 * is written.  weftd takes the result over at the end alone: so a process that ends
 * before leaves nothing behind, and the next one scans again.
 */

#ifndef WEFT_VOLUMES_SCAN_H
#define WEFT_VOLUMES_SCAN_H

#include <stdbool.h>

#include "common/admin.h"
#include "engine.h"
#include "format/pool.h"

struct volumes_scan {
  struct engine *engine;
  struct admin *admin;
  const char *session, *instance;
  const struct pool_header *pool;
  bool imported; /* weftd does not know yet that the array is a pool */
};

/* Tell weftd all volumes of the pool.  -1 after nbdkit_error: the process is to end. */
int volumes_scan (const struct volumes_scan *s);
/* Tell weftd that an array that was imported is no pool.  -1 as of volumes_scan. */
int volumes_scan_plain (const struct volumes_scan *s);
/* Is there a root of this array, valid or not?  The pool has no header.  -1 as of
 * volumes_scan.
 */
int volumes_scan_any (const struct volumes_scan *s);

#endif /* WEFT_VOLUMES_SCAN_H */
