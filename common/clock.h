/* clock.h: the clocks of Weft's programs, each under the name of its use.
 *
 * The engines of core/ have no clock: who calls them says what time it is.
 */

#ifndef WEFT_CLOCK_H
#define WEFT_CLOCK_H

#include <errno.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t
clock_of (clockid_t id, uint64_t per_second)
{
  struct timespec t;

  clock_gettime (id, &t);
  return (uint64_t) t.tv_sec * per_second +
         (uint64_t) t.tv_nsec / (1000000000 / per_second);
}

/* For durations: it only goes forward, and stands while the host sleeps. */
static inline uint64_t
clock_ms (void)
{
  return clock_of (CLOCK_MONOTONIC, 1000);
}

static inline uint64_t
clock_ns (void)
{
  return clock_of (CLOCK_MONOTONIC, 1000000000);
}

/* The same, but it goes on while the host sleeps: weftd measures by it how long
 * others are silent.
 */
static inline uint64_t
clock_boot_ms (void)
{
  return clock_of (CLOCK_BOOTTIME, 1000);
}

/* What people call the time: since 1970, and it may jump. */
static inline uint64_t
clock_wall_ms (void)
{
  return clock_of (CLOCK_REALTIME, 1000);
}

/* A pause that no signal makes shorter. */
static inline void
clock_sleep_ms (unsigned ms)
{
  struct timespec t = { ms / 1000, (long) (ms % 1000) * 1000000 };

  while (nanosleep (&t, &t) == -1 && errno == EINTR)
    ;
}

#endif /* WEFT_CLOCK_H */
