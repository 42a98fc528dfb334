/* identity.h: the identity by which a client of an array's service is known to
 * the serving process (served.h): INSTANCE, NUMBER and FENCES.
 *
 * The identity belongs to the attached device, not to our process.  The kernel
 * sends unanswered requests again by the next process, while the last process's
 * requests may still be on their way.  So the next process must be known as the
 * same client, with later connections; else nobody ends the earlier requests.
 * A fence of its node since the device was attached holds for the next process,
 * too.  And if acknowledged writes of the last process may be lost, and it has
 * not reported that to the kernel, the next process does.
 *
 * So the identity is kept in a file: the first process makes it, and the detach
 * of the device removes it.  Without a file each process is a client of its
 * own.
 */

#ifndef WEFT_IDENTITY_H
#define WEFT_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "process.h"

/* So many connections of one process have numbers of their own. */
#define IDENTITY_NUMBERS (UINT64_C (1) << 32)

struct identity {
  const char *path; /* NULL: there is no file */
  char instance[PROCESS_INSTANCE_BYTES];
  uint64_t starts; /* how many processes of it there were, with this one */
  bool known;      /* are these? */
  uint64_t fences;
  uint64_t
    /* an epoch of the array: losses since then have not been reported to the
     * device; 0: it has nothing unflushed
     */
    used;
};

/* At the start of a process: from the file, or drawn newly.  -1 after
 * nbdkit_error.
 */
int identity_take (struct identity *id, const char *path);
/* Into the file goes what it does not have: our identity, if it was removed and the
 * process goes on (1); `fences`, if they are known now.  -1 after nbdkit_error.
 */
int identity_keep (const struct identity *id);
/* Put `used` into the file, if there is one and it is still ours.  -1 after
 * nbdkit_error.
 */
int identity_keep_used (const struct identity *id);

#endif /* WEFT_IDENTITY_H */
