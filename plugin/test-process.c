/* test-process.c: process_has_ended says that a process has ended only when it has,
 * with all of its threads, and only where that can be known.
 */

#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process.h"

static void *
wait_for_ever (void *opaque)
{
  for (;;)
    pause ();
  return NULL;
}

/* A process that lives; threads: its first thread alone ends. */
static pid_t
start (bool threads, char text[PROCESS_TEXT_BYTES])
{
  int fds[2];
  pid_t pid;

  assert (pipe (fds) == 0);
  pid = fork ();
  assert (pid >= 0);
  if (pid == 0) {
    pthread_t id;

    process_self (text);
    assert (write (fds[1], text, PROCESS_TEXT_BYTES) == PROCESS_TEXT_BYTES);
    if (!threads)
      wait_for_ever (NULL);
    assert (pthread_create (&id, NULL, wait_for_ever, NULL) == 0);
    pthread_exit (NULL);
  }
  assert (read (fds[0], text, PROCESS_TEXT_BYTES) == PROCESS_TEXT_BYTES);
  close (fds[0]);
  close (fds[1]);
  return pid;
}

static void
test_life (bool threads)
{
  char text[PROCESS_TEXT_BYTES];
  pid_t pid = start (threads, text);
  siginfo_t info;

  assert (strlen (text) > 40);
  if (threads)
    usleep (100000); /* for its first thread to end */
  assert (!process_has_ended (text));
  kill (pid, SIGSTOP);
  usleep (20000);
  assert (!process_has_ended (text));
  kill (pid, SIGKILL);
  assert (waitid (P_PID, (id_t) pid, &info, WEXITED | WNOWAIT) == 0);
  assert (
    process_has_ended (text)); /* though nobody has asked for its status */
  assert (waitpid (pid, NULL, 0) == pid);
  assert (process_has_ended (text));
}

/* The text with its n-th word changed. */
static bool
ended_with_other (const char *text, unsigned n)
{
  char other[PROCESS_TEXT_BYTES], *p = other;

  strcpy (other, text);
  while (n--)
    p = strchr (p, ' ') + 1;
  p += strcspn (p, "0123456789");
  *p = *p == '1' ? '2' : '1';
  return process_has_ended (other);
}

static void
test_elsewhere (void)
{
  char text[PROCESS_TEXT_BYTES];

  process_self (text);
  assert (!process_has_ended (text));
  /* Another host; other namespaces. */
  for (unsigned n = 0; n < 3; n++)
    assert (strcmp (text, "") != 0 && !ended_with_other (text, n));
  /* Our number was its number once. */
  assert (ended_with_other (text, 4));
  assert (!process_has_ended (""));
  assert (!process_has_ended ("a b c 1 1"));
}

int
main (void)
{
  test_life (false);
  test_life (true);
  test_elsewhere ();
  return 0;
}
