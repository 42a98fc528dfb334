/* refusals.h: logs repeated refusals once. */

#ifndef WEFT_REFUSALS_H
#define WEFT_REFUSALS_H

#include <stdbool.h>

/* Is this the first for this reason of this address (of IPv6: of its network) in ten
 * minutes?  From any thread.
 */
bool refusals_first (const char *reason, const char *address);

#endif /* WEFT_REFUSALS_H */
