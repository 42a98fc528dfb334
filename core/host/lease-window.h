/* lease-window.h: how much more than it needs a host asks for (Redbud paper, section
 * 4.1, equations 1 and 2).
 *
 * Pure.  A get or a revoke of age t (in seconds, 0.001 at least) weighs log_n t up to
 * t = n, 1 between n and 1/n, and 1 / |log_n t| beyond, with n = 0.8: the paper's
 * equation 1 as printed falls to 0 at an age of 1 s and rises again.  The window is
 *
 *   LEASE_WINDOW_INIT × (sum over gets − sum over revokes), from 0 to LEASE_WINDOW_MAX
 *
 * over the gets that form one run up to the request (with gaps of LEASE_RUN_GAP at
 * most), and the revokes that meet that run.  A get is one of all that it has brought: so
 * a stream is one run, though its next get comes only where that ends.
 */

#ifndef WEFT_LEASE_WINDOW_H
#define WEFT_LEASE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "array/array.h"

#define LEASE_WINDOW_INIT KiB (16)
#define LEASE_WINDOW_MAX GiB (1)
#define LEASE_RUN_GAP KiB (64)
#define LEASE_EVENTS 64 /* the last ones count */

/* A range to ask for, or to give back: all of `must`, and as much as possible
 * of `wish`, which contains it.
 */
struct lease_wish {
  struct array_range must, wish;
};

struct lease_event {
  uint64_t at_ms;
  struct array_range range;
  bool revoke;
};
struct lease_window { /* begins as zeros */
  struct lease_event event[LEASE_EVENTS];
  unsigned count; /* ever */
};

void lease_window_note (struct lease_window *w, const struct array_range *range,
                        bool revoke, uint64_t now_ms);
/* This was granted, and what was asked for may lie in it. */
void lease_window_got (struct lease_window *w, const struct lease_wish *ask,
                       const struct array_range *granted);
/* The bytes beside this request that are worth asking for, the request noted before. */
uint64_t lease_window_bytes (const struct lease_window *w,
                             const struct array_range *request,
                             uint64_t now_ms);

/* The request with these bytes: ahead of it where its run goes up, from the oldest to the
 * newest of its last gets (one more than an ask has), before it where it goes down, else
 * half on either side; rounded out to regions, within an array of this size.
 */
struct array_range lease_window_wish (const struct lease_window *w,
                                      const struct array_range *request,
                                      uint64_t size, uint64_t now_ms);

#endif /* WEFT_LEASE_WINDOW_H */
