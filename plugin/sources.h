/* sources.h: what a joining member asks of all its sources at once. */

#ifndef WEFT_SOURCES_H
#define WEFT_SOURCES_H

#include "fetch.h"
#include "format/format.h"
#include "pull.h"

/* Make *ours the map of our extents (of a data area of data_bytes) that have a
 * copy of what is dirty at a source of our group.  used[] says which they are.
 * Returns -1 with the fault when one can't be asked.
 */
int sources_intents (const struct pull_order *o, uint64_t data_bytes,
                     struct intents *ours, bool used[],
                     struct fetch_fault *fault);

/* Flush those in used[], over the connections to their data doors that are
 * there.  Returns as fetch_run.
 */
int sources_flush (struct fetch *f, const bool used[],
                   bool (*cancelled) (void *), void *opaque,
                   struct fetch_fault *fault);

#endif /* WEFT_SOURCES_H */
