/* shortage.c: lets this process go on when its host is short of memory.
 *
 * A host that uses an array itself, by the kernel's nbd, frees memory by writing
 * dirty pages to it, through this process and perhaps a member next to it.  If
 * they in turn waited for memory to be freed, or were killed for it, nobody
 * would go on.  Both need CAP_SYS_RESOURCE; systemd's units may do the second in
 * our place (OOMScoreAdjust=).
 */

#include <config.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/prctl.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "shortage.h"

#ifndef PR_SET_IO_FLUSHER /* Linux 5.6 */
#define PR_SET_IO_FLUSHER 57
#endif

/* Of -1000 (never) to 1000 (first). */
#define OOM_SCORE_ADJ -900
#define OOM_FILE "/proc/self/oom_score_adj"

void
shortage_prepare (void)
{
  char text[16] = "";
  int fd;

  if (prctl (PR_SET_IO_FLUSHER, 1, 0, 0, 0) == -1)
    nbdkit_debug ("weft: PR_SET_IO_FLUSHER: %m: where memory is short it may "
                  "wait for its own clients");
  fd = open (OOM_FILE, O_RDWR | O_CLOEXEC);
  if (fd == -1 || read (fd, text, sizeof text - 1) <= 0)
    nbdkit_debug ("weft: " OOM_FILE ": %m");
  else if (atoi (text) > OOM_SCORE_ADJ) {
    snprintf (text, sizeof text, "%d", OOM_SCORE_ADJ);
    if (pwrite (fd, text, strlen (text), 0) == -1)
      nbdkit_debug ("weft: " OOM_FILE ": %m: it may be killed when memory is "
                    "short");
  }
  if (fd != -1)
    close (fd);
}
