/* started.h: when a process was started.  With its number, that names a process for as long
 * as the host runs: numbers are given out again.
 */

#ifndef WEFT_STARTED_H
#define WEFT_STARTED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* By /proc, in ticks since the host's start.  ended: the process has ended, and only waits
 * for its parent to notice.  False: there is no such process, or it is not known.
 */
bool started_at (pid_t pid, uint64_t *start, bool *ended);

#endif /* WEFT_STARTED_H */
