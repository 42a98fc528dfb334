/* hangup.c: lets nbdkit end although clients are connected.
 *
 * nbdkit tells a plugin neither the sockets of its connections nor that it is
 * about to end.  The sockets are found among the descriptors of the process: a
 * connection that nbdkit accepted has the local address of a listening socket;
 * our own connections to members do not.  (A connection of nbdkit -s is not
 * found; its client ends nbdkit by ending.) The end is learned from the signals
 * that end nbdkit: our handlers replace nbdkit's.  (nbdkit_nanosleep knows too,
 * but says "error" on every ordinary end.  The end by a filter's
 * nbdkit_shutdown is not noticed; then nbdkit ends as it does without this
 * file.)
 *
 * nbdkit itself learns of its end only when no connection is left: from then on
 * it answers requests with ESHUTDOWN, and a client that would wait for the next
 * process takes that for a failure of the device.  Until then, new clients
 * could delay the end further: so nbdkit's listening sockets are closed.
 *
 * Before the end, this file's thread closes connections that are silent for too
 * long (lobby.h).
 */

#include <config.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "common/clock.h"
#include "hangup.h"
#include "listeners.h"
#include "lobby.h"

/* Connections are looked for so often, more and more seldom; and so long clients may
 * take to read their answers.  That is more than a request may wait in a barrier
 * (engine-thread.c).
 */
#define LOOK_FIRST_MS 2
#define LOOK_MS 100
#define GRACE_MS 10000

/* Before the end: how often clients that do not open an export in time are
 * looked for.
 */
#define SWEEP_MS 1000

static atomic_bool ending;
static pthread_t thread;
static bool started, resets;
static int wake_fd = -1; /* an eventfd; readable: a signal, or hangup_stop */
static atomic_bool stopping;

/* nbdkit's handlers, which ours stand in for. */
static const int signals[] = { SIGTERM, SIGINT, SIGQUIT, SIGHUP };
#define SIGNALS (sizeof signals / sizeof signals[0])
static struct sigaction handlers[SIGNALS];
static bool replaced[SIGNALS];

bool
hangup_ending (void)
{
  return atomic_load (&ending);
}

static void
wake (void)
{
  static const uint64_t one = 1;
  int saved = errno;
  ssize_t r = write (wake_fd, &one, sizeof one);

  (void) r; /* it is readable already */
  errno = saved;
}

void
hangup_end (void)
{
  listeners_close ();
  wake ();
}

static void
on_signal (int sig)
{
  (void) sig;
  hangup_end ();
}

/* Wait for wake (), so long at most.  Returns whether it came. */
static bool
wait_wake (int ms)
{
  struct pollfd p = { .fd = wake_fd, .events = POLLIN };
  uint64_t count;

  if (poll (&p, 1, ms) != 1)
    return false;
  while (read (wake_fd, &count, sizeof count) == -1 && errno == EINTR)
    ;
  return true;
}

static void *
wait_for_end (void *opaque)
{
  uint64_t deadline;
  unsigned pause = LOOK_FIRST_MS;

  pthread_setname_np (pthread_self (), "weft-hangup");
  while (!wait_wake (SWEEP_MS)) {
    lobby_sweep (clock_ms ());
    if (resets && listeners_reset_swallowed () > 0)
      nbdkit_error ("answers to a host do not arrive; its connection is ended: "
                    "see whether the line to it drops large packets (MTU)");
  }
  atomic_store (&ending, true);
  deadline = clock_ms () + GRACE_MS;
  while (!atomic_load (&stopping) && clock_ms () < deadline &&
         listeners_hang_up (SHUT_RD) > 0) {
    wait_wake ((int) pause);
    pause = pause < LOOK_MS / 2 ? 2 * pause : LOOK_MS;
  }
  nbdkit_shutdown ();
  while (!atomic_load (&stopping)) {
    hangup_cut ();
    wait_wake (LOOK_MS);
  }
  return NULL;
}

void
hangup_cut (void)
{
  listeners_hang_up (SHUT_RDWR);
}

int
hangup_start (bool member)
{
  struct sigaction ours;
  sigset_t all, old;
  int err;

  resets = member;
  wake_fd = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd == -1 || listeners_find () == -1) {
    nbdkit_error ("eventfd: %m");
    return -1;
  }
  sigfillset (&all);
  pthread_sigmask (SIG_SETMASK, &all, &old);
  err = pthread_create (&thread, NULL, wait_for_end, NULL);
  pthread_sigmask (SIG_SETMASK, &old, NULL);
  if (err) {
    nbdkit_error ("no thread to wait for the end: %s", strerror (err));
    close (wake_fd);
    return -1;
  }
  started = true;
  for (size_t i = 0; i < SIGNALS; i++) {
    if (sigaction (signals[i], NULL, &handlers[i]) == -1 ||
        (handlers[i].sa_flags & SA_SIGINFO) ||
        handlers[i].sa_handler == SIG_DFL || handlers[i].sa_handler == SIG_IGN)
      continue;
    ours = handlers[i];
    ours.sa_handler = on_signal;
    replaced[i] = sigaction (signals[i], &ours, NULL) == 0;
  }
  return 0;
}

/* wake_fd stays open: a thread may be in our handler still. */
void
hangup_stop (void)
{
  if (!started)
    return;
  for (size_t i = 0; i < SIGNALS; i++)
    if (replaced[i])
      sigaction (signals[i], &handlers[i], NULL);
  atomic_store (&ending, true); /* the thread may not have run yet */
  atomic_store (&stopping, true);
  wake ();
  pthread_join (thread, NULL);
  started = false;
}
