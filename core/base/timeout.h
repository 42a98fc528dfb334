/* timeout.h: how long a member may take to answer (docs/DESIGN.md 6.5; the
 * paper on Redbud, section 5).
 *
 * Service times, from request to answer as the host sees them, are kept as
 * means over TIMEOUT_WINDOWS sub-windows.  A line is fitted to them by least
 * squares; its value now is the prediction, so the time-out grows with the load.
 * (The paper's formula for the slope has lost a square in its denominator; this is
 * the usual one.)
 *
 * A member that exceeds its time-out is asked for a sign of life (a probe); it is
 * lost only if it gives none (array-overdue.c).
 *
 * All times are in ns.
 */

#ifndef WEFT_TIMEOUT_H
#define WEFT_TIMEOUT_H

#include <stdbool.h>
#include <stdint.h>

#define TIMEOUT_WINDOWS 10
#define TIMEOUT_WINDOW_NS UINT64_C (5000000000)
/* The time-out is so many times the prediction, within the caller's bounds. */
#define TIMEOUT_MARGIN 8

struct timeout {
  uint64_t window; /* the newest: its number since the clock's 0 */
  struct timeout_window {
    uint64_t sum_ns, count;
  } of[TIMEOUT_WINDOWS]; /* window w is in of[w % TIMEOUT_WINDOWS] */
};

/* An answer has come after service_ns. */
void timeout_note (struct timeout *t, uint64_t now_ns, uint64_t service_ns);

/* The service time to be expected now, by the line; 0: nothing is known.
 * Never less than the newest mean: a load that falls is no reason to hurry, and of
 * one that has just begun to rise the line knows too little.
 */
uint64_t timeout_predict (const struct timeout *t, uint64_t now_ns);

/* How many answers are in all sub-windows. */
uint64_t timeout_answers (const struct timeout *t, uint64_t now_ns);

/* How long a request may take; within [least_ns, most_ns]. */
uint64_t timeout_allowed (const struct timeout *t, uint64_t now_ns,
                          uint64_t least_ns, uint64_t most_ns);

/* Mean of the newest two sub-windows, and how many answers are in it; 0: none.
 */
uint64_t timeout_recent (const struct timeout *t, uint64_t now_ns,
                         uint64_t *count);

#endif /* WEFT_TIMEOUT_H */
