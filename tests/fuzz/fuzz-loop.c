/* fuzz-loop.c: see fuzz-loop.h.
 *
 * A thread that waits for an answer runs the loop meanwhile.  Time goes on by a tick
 * whenever nothing else is left to do.  A wait therefore ends at once, and the same input
 * gets the same times.
 */

#include <config.h>

#include <semaphore.h>
#include <uv.h>

#include "common/clock.h"
#include "fuzz.h"
#include "fuzz-loop.h"
#include "fuzz-thread.h"

static int wait_for (sem_t *answered);
static uint64_t now_ms;
static bool woken; /* and not awake yet */

/* In place of libuv, of which nothing but the waking is needed: its files and signals
 * were a tenth of an execution.
 */
#define uv_loop_init(uv) ((void) 0)
#define uv_async_init(uv, handle, awake) ((void) 0)
#define uv_timer_init(uv, handle) ((void) 0)
#define uv_signal_init(uv, handle) ((void) 0)
#define uv_timer_start(handle, function, first_ms, then_ms) ((void) (function))
#define uv_signal_start(handle, function, signal) ((void) (function))
#define uv_async_send(handle) ((void) (handle), woken = true)
#define uv_run(uv, how) ((void) 0)
#define uv_stop(uv) ((void) 0)
#define uv_close(handle, function) ((void) 0)
#define uv_loop_close(uv) (woken = false)
#define clock_boot_ms() now_ms
#define sem_wait(answered) wait_for (answered)
#include "server/loop-request.c"
#undef sem_wait
#include "server/loop.c"

static struct loop *the_loop;
static void (*each_tick) (void);

/* All stores are known to be durable, and all requests are handled. */
static void
settle (struct loop *l)
{
  do {
    fuzz_threads_run ();
    if (woken) {
      woken = false;
      on_wake (&l->wake);
    }
    assert (l->result == 0);
  } while (woken || !STAILQ_EMPTY (&l->pending));
}

static int
wait_for (sem_t *answered)
{
  for (unsigned ticks = 0; sem_trywait (answered) == -1; ticks++) {
    assert (ticks < 1000); /* nobody is let wait for so long */
    settle (the_loop);
    if (sem_trywait (answered) == 0)
      break;
    fuzz_loop_tick (1);
  }
  return 0;
}

void
fuzz_loop_tick (unsigned ticks)
{
  while (ticks-- > 0) {
    now_ms += CLUSTER_TICK_MS;
    on_timer (&the_loop->timer);
    settle (the_loop);
    cluster_check (the_loop->cluster);
    each_tick ();
  }
}

struct loop *
fuzz_loop_begin (struct store *s, struct hub *hub, struct auth *auth,
                 void (*tick) (void))
{
  char why[1024];

  now_ms = 1000;
  each_tick = tick;
  the_loop = loop_new (s, hub, auth, why, sizeof why);
  if (the_loop == NULL) {
    fprintf (stderr, "weftd can't be started: %s\n", why);
    abort ();
  }
  settle (the_loop);
  return the_loop;
}

void
fuzz_loop_end (void)
{
  settle (the_loop);
  loop_free (the_loop);
  the_loop = NULL;
}
