/* clock.h: the clocks of Weft's programs, each under the name of its use.
 *
 * The engines of core/ have no clock: their caller passes the time in.
 */

#ifndef WEFT_CLOCK_H
#define WEFT_CLOCK_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
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

/* The time of day: since 1970, and it may jump. */
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

/* Make a condition that clock_wait can wait for. */
static inline void
clock_condition (pthread_cond_t *condition)
{
  pthread_condattr_t attr;

  pthread_condattr_init (&attr);
  pthread_condattr_setclock (&attr, CLOCK_MONOTONIC);
  pthread_cond_init (condition, &attr);
  pthread_condattr_destroy (&attr);
}

/* Wait for it until a time of clock_ns; false: that time has come. */
static inline bool
clock_wait (pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t until_ns)
{
  const struct timespec until = { .tv_sec = (time_t) (until_ns / 1000000000),
                                  .tv_nsec = (long) (until_ns % 1000000000) };

  return pthread_cond_timedwait (condition, lock, &until) == 0;
}

static inline bool
clock_wait_ms (pthread_cond_t *condition, pthread_mutex_t *lock,
               uint64_t until_ms)
{
  return clock_wait (condition, lock, until_ms * 1000000);
}

#endif /* WEFT_CLOCK_H */
