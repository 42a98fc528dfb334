/* pulse.h: does the disk of a member still answer?
 *
 * The member's process reads a block of its disk every PULSE_MS, past the page
 * cache.  While such a read is under way and the disk completes nothing, the disk
 * is stuck.  The process says for how long, to weftd and to array processes
 * that wait for an answer.  A disk that is stuck for HUNG_MS hangs.
 *
 * A busy disk completes other requests while the read waits, so it is not
 * stuck.  The time between two looks counts up to PULSE_LOOK_MS: if the process
 * itself was stopped, the answer may be there, unread.
 */

#ifndef WEFT_PULSE_H
#define WEFT_PULSE_H

#include <stdbool.h>
#include <stdint.h>

#define PULSE_MS 500
#define PULSE_LOOK_MS 1000

struct pulse {
  bool asked; /* a read is under way */
  uint64_t looked_ms, stuck_ms;
  uint64_t completed; /* requests of the disk, as of the last look */
};

void pulse_ask (struct pulse *p, uint64_t now_ms);
/* The read has ended, even with an error. */
void pulse_answered (struct pulse *p);
/* For how long has the disk been stuck?  completed: how many requests it has
 * completed since its host's start; 0: that is not known.
 */
uint64_t pulse_look (struct pulse *p, uint64_t now_ms, uint64_t completed);

#endif /* WEFT_PULSE_H */
