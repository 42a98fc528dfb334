/* ctl-process.h: other programs, run to their end or left running.
 *
 * A program that is left running outlives weftctl, and a later weftctl must
 * find it again.  It is identified by its process number and its start time, so
 * that a reused number is not mistaken for it.
 */

#ifndef WEFT_CTL_PROCESS_H
#define WEFT_CTL_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process {
  pid_t pid;      /* 0: none */
  uint64_t start; /* in clock ticks since boot, as in proc(5) */
};

/* Still running? */
bool process_alive (const struct process *p);

/* Is it a process of root, of our user, or of the user whose folder has this file? */
bool process_is_trusted (pid_t pid, const char *file);

/* Ask it to end (SIGTERM), and no process that has got its number since.  0, also where it
 * has ended already; -1 with errno.
 */
int process_end (const struct process *p);

/* Wait until it has ended: true, or false after timeout_ms. */
bool process_wait_end (const struct process *p, unsigned timeout_ms);

/* Wait for a child: its exit status, 128 + the signal that ended it, or -1. */
int process_wait (pid_t pid);

/* Run argv (found by PATH, ended by NULL) to its end.  Returns what process_wait
 * does, or -1 when it could not be started; said gets what it printed, at most
 * size - 1 bytes, in one line.
 */
int process_run (const char *const argv[], char *said, size_t size);

/* Run argv to its end; all that it printed, to be freed, or NULL. */
char *process_output (const char *const argv[]);

/* Start argv in a session of its own, as nobody's child, with its output in a new
 * file `log` of the folder.  Returns 0 with *p, or an errno.
 */
int process_start (const char *const argv[], int folder, const char *log,
                   struct process *p);

/* Wait until it has written its pid file: it is ready then.  0; -1: it has
 * ended; -2: not ready after timeout_ms.
 */
int process_wait_ready (const struct process *p, const char *pid_file,
                        unsigned timeout_ms);

/* The line of the log in which it says what is wrong: the last one with
 * "error" in it, else the last one.
 */
void process_last_words (int folder, const char *log, char *text, size_t size);

#endif /* WEFT_CTL_PROCESS_H */
