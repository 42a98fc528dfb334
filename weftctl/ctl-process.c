/* ctl-process.c: other programs.  See process.h. */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/folder.h"
#include "common/started.h"
#include "ctl.h"
#include "ctl-process.h"

#define OUTPUT_PART_BYTES 65536
#define OUTPUT_BYTES_MAX (64u << 20)
#define POLL_MS 20

/* --- Processes ----------------------------------------------------------- */

/* Reads a process's start time; false when there is no such process, or it
 * has ended and only waits for its parent to notice.
 */
static bool
process_read (pid_t pid, uint64_t *start)
{
  bool ended;

  return started_at (pid, start, &ended) && !ended;
}

bool
process_alive (const struct process *p)
{
  uint64_t start;

  if (p->pid <= 0)
    return false;
  return process_read (p->pid, &start) && start == p->start;
}

/* The owner of /proc/PID may be root for a process of another user: see proc(5),
 * "dumpable".
 */
bool
process_is_trusted (pid_t pid, const char *file)
{
  char path[PATH_MAX], line[256];
  unsigned user = UINT_MAX;
  struct stat st;
  FILE *f;

  snprintf (path, sizeof path, "/proc/%d/status", (int) pid);
  f = fopen (path, "re");
  if (f == NULL)
    return false;
  while (fgets (line, sizeof line, f) && sscanf (line, "Uid: %u", &user) != 1)
    ;
  fclose (f);
  if (user == 0 || user == geteuid ())
    return true;
  snprintf (path, sizeof path, "%.*s", (int) (strrchr (file, '/') - file),
            file);
  return user != UINT_MAX && lstat (path, &st) == 0 && st.st_uid == user;
}

int
process_end (const struct process *p)
{
  /* A descriptor stays this process's, whoever gets the number. */
  int fd = p->pid > 0 ? pidfd_open (p->pid, 0) : -1, r = 0;

  if (fd == -1)
    return process_alive (p) ? -1 : 0;
  if (process_alive (p) && pidfd_send_signal (fd, SIGTERM, NULL, 0) == -1 &&
      errno != ESRCH)
    r = -1;
  close (fd);
  return r;
}

bool
process_wait_end (const struct process *p, unsigned timeout_ms)
{
  uint64_t end = clock_ms () + timeout_ms;

  while (process_alive (p)) {
    if (clock_ms () >= end)
      return false;
    clock_sleep_ms (POLL_MS);
  }
  return true;
}

/* --- Starting ------------------------------------------------------------ */

/* Standard input from /dev/null, output to fd `out`, nothing else of ours.
 * In a new process, between fork and exec.
 */
static void
become (const char *const argv[], int out)
{
  int null = open ("/dev/null", O_RDONLY);

  if (null == -1 || dup2 (null, 0) == -1 || dup2 (out, 1) == -1 ||
      dup2 (out, 2) == -1 || close_range (3, ~0u, CLOSE_RANGE_CLOEXEC) == -1)
    return;
  execvp (argv[0], (char *const *) argv);
}

/* Start argv with its output in `out`. */
static pid_t
start (const char *const argv[], int out)
{
  pid_t pid = fork ();

  if (pid == 0) {
    become (argv, out);
    dprintf (1, "%s: %s", argv[0], strerror (errno));
    _exit (127);
  }
  return pid;
}

int
process_wait (pid_t pid)
{
  int status;

  while (waitpid (pid, &status, 0) == -1)
    if (errno != EINTR)
      return -1;
  return WIFEXITED (status) ? WEXITSTATUS (status) : 128 + WTERMSIG (status);
}

/* No pipe: it may leave a process behind that would hold its other end. */
int
process_run (const char *const argv[], char *said, size_t size)
{
  int out = memfd_create ("said", MFD_CLOEXEC), status = -1;
  pid_t pid = out == -1 ? -1 : start (argv, out);
  ssize_t n;

  said[0] = '\0';
  if (pid == -1)
    snprintf (said, size, "%s", strerror (errno));
  else {
    status = process_wait (pid);
    n = pread (out, said, size - 1, 0);
    said[n > 0 ? n : 0] = '\0';
    for (char *p = said; (p = strchr (p, '\n')) != NULL;)
      *p = ' ';
    for (n = (ssize_t) strlen (said); n > 0 && said[n - 1] == ' ';)
      said[--n] = '\0';
  }
  if (out != -1)
    close (out);
  return status;
}

char *
process_output (const char *const argv[])
{
  char *text = NULL;
  size_t used = 0;
  ssize_t n = 1;
  pid_t pid;
  int fds[2];

  if (pipe2 (fds, O_CLOEXEC) == -1)
    return NULL;
  pid = start (argv, fds[1]);
  close (fds[1]);
  while (n > 0 && pid != -1) {
    char *longer = used < OUTPUT_BYTES_MAX
                     ? realloc (text, used + OUTPUT_PART_BYTES + 1)
                     : NULL;

    if (longer == NULL)
      break;
    text = longer;
    do
      n = read (fds[0], text + used, OUTPUT_PART_BYTES);
    while (n == -1 && errno == EINTR);
    used += n > 0 ? (size_t) n : 0;
    text[used] = '\0';
  }
  /* A program that still writes, as it says too much, is ended by this. */
  close (fds[0]);
  if (pid != -1)
    process_wait (pid);
  return text;
}

/* The grandchild of process_start: says who it is, then becomes the server. */
static void
serve (const char *const argv[], int log, int tell, pid_t parent)
{
  pid_t pid = getpid ();
  int e;

  setsid ();
  /* nbdkit asks to be ended together with its parent, so that one may not end
   * later than this.
   */
  while (getppid () == parent)
    clock_sleep_ms (1);
  if (write (tell, &pid, sizeof pid) == sizeof pid)
    become (argv, log);
  e = errno;
  if (write (tell, &e, sizeof e) != sizeof e)
    abort ();
  _exit (127);
}

int
process_start (const char *const argv[], int folder, const char *log,
               struct process *p)
{
  int fds[2], fd, e = 0;
  pid_t child;

  *p = (struct process) { 0 };
  fd = folder_create (folder, log, 0600);
  if (fd == -1)
    return errno;
  if (fcntl (fd, F_SETFL, O_APPEND) == -1 || pipe2 (fds, O_CLOEXEC) == -1) {
    e = errno;
    close (fd);
    return e;
  }
  child = fork ();
  if (child == 0) {
    pid_t self = getpid ();

    if (fork () == 0)
      serve (argv, fd, fds[1], self);
    _exit (0);
  }
  e = child == -1 ? errno : 0;
  close (fd);
  close (fds[1]);
  if (child > 0) {
    while (waitpid (child, NULL, 0) == -1 && errno == EINTR)
      ;
    if (read (fds[0], &p->pid, sizeof p->pid) != sizeof p->pid)
      e = EAGAIN; /* the second fork failed */
    /* A successful exec closes the pipe; otherwise the errno comes through it. */
    else if (read (fds[0], &e, sizeof e) != sizeof e)
      e = 0;
  }
  close (fds[0]);
  if (e)
    p->pid = 0;
  else if (!process_read (p->pid, &p->start))
    p->start = 0; /* it has ended already */
  return e;
}

int
process_wait_ready (const struct process *p, const char *pid_file,
                    unsigned timeout_ms)
{
  uint64_t end = clock_ms () + timeout_ms;

  while (access (pid_file, F_OK) == -1) {
    if (!process_alive (p))
      return -1;
    if (clock_ms () >= end)
      return -2;
    clock_sleep_ms (POLL_MS);
  }
  return 0;
}

void
process_last_words (int folder, const char *log, char *text, size_t size)
{
  int fd = folder_read (folder, log);
  FILE *f = fd == -1 ? NULL : fdopen (fd, "r");
  char *line = NULL;
  size_t room = 0;
  bool have_error = false;

  snprintf (text, size, "it said nothing");
  while (f && getline (&line, &room, f) > 0) {
    bool error = strcasestr (line, "error") != NULL;

    line[strcspn (line, "\r\n")] = '\0';
    if (line[0] && (error || !have_error)) {
      snprintf (text, size, "%s", line);
      have_error |= error;
    }
  }
  free (line);
  if (f)
    fclose (f);
  else if (fd != -1)
    close (fd);
}
