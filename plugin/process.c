/* process.c: see process.h.
 *
 * A process's number means something only in its PID namespace, its time of start
 * only in its time namespace, and the numbers of namespaces only until the kernel
 * is started again.  So all of these must be the same here.  (Where a namespace's
 * number was used again, all processes of the first one have ended.)
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bytes.h"
#include "common/file.h"
#include "common/started.h"
#include "process.h"

int
process_draw_instance (char text[PROCESS_INSTANCE_BYTES])
{
  uint8_t random[16];

  if (getrandom (random, sizeof random, 0) != sizeof random)
    return -1;
  *put_hex (text, random, sizeof random) = '\0';
  return 0;
}

/* Are the numbers in /proc those by which we know processes? */
static bool
proc_is_ours (void)
{
  char text[32];
  ssize_t n = readlink ("/proc/self", text, sizeof text - 1);

  if (n <= 0)
    return false;
  text[n] = '\0';
  return atoi (text) == getpid ();
}

/* "BOOT PID-NAMESPACE TIME-NAMESPACE": where numbers and times mean the same. */
static bool
host (char *text, size_t size)
{
  static const char *const links[] = { "/proc/self/ns/pid",
                                       "/proc/self/ns/time" };
  char boot[40], space[2][32];
  bool have = file_line ("/proc/sys/kernel/random/boot_id", boot, sizeof boot);

  for (int i = 0; i < 2; i++) {
    ssize_t n = readlink (links[i], space[i], sizeof space[i] - 1);

    /* Kernels before Linux 5.6 have no time namespaces. */
    if (n == -1 && i == 1 && errno == ENOENT)
      n = snprintf (space[i], sizeof space[i], "-");
    have = have && n > 0;
    space[i][n > 0 ? n : 0] = '\0';
  }
  if (have)
    snprintf (text, size, "%s %s %s", boot, space[0], space[1]);
  return have;
}

void
process_self (char text[PROCESS_TEXT_BYTES])
{
  char where[112];
  uint64_t start;
  bool ended;

  text[0] = '\0';
  if (proc_is_ours () && host (where, sizeof where) &&
      started_at (getpid (), &start, &ended))
    snprintf (text, PROCESS_TEXT_BYTES, "%s %d %" PRIu64, where, getpid (),
              start);
}

/* Is there no process of that number, with all of its threads? */
static bool
is_free (int pid)
{
  struct pollfd p = { .events = POLLIN };
  bool ended;

  p.fd = (int) syscall (SYS_pidfd_open, pid, 0);
  if (p.fd == -1)
    return errno == ESRCH;
  ended = poll (&p, 1, 0) == 1 && (p.revents & POLLIN) != 0;
  close (p.fd);
  return ended;
}

bool
process_has_ended (const char *text)
{
  char where[112];
  uint64_t start, now;
  bool ended;
  size_t n;
  int pid;

  if (!host (where, sizeof where))
    return false;
  n = strlen (where);
  if (strncmp (text, where, n) != 0 ||
      sscanf (text + n, " %d %" SCNu64, &pid, &start) != 2 || pid <= 0)
    return false;
  /* The number may be another's by now. */
  return is_free (pid) ||
         (proc_is_ours () && started_at (pid, &now, &ended) && now != start);
}
