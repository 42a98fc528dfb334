/* identity.h: what a client of an array's service says of itself to who serves
 * (served.h): INSTANCE, NUMBER and FENCES.
 *
 * They belong to the device that is attached, and not to our process.  The kernel sends
 * by the next process what the last one has not answered, and what the last one had sent
 * may still be on its way: so the next one must be known as the same client, with later
 * connections, or nobody ends what the last one asked.  A fence of its node since the
 * device was attached holds for the next process, too.  And if what the last one was
 * answered for may be gone, and the kernel has not been told, the next one tells it.
 *
 * So they are kept in a file, which the first process makes, and who detaches the
 * device removes.  Without a file each process is a client of its own.
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
    used; /* an epoch of the array: of what may be gone since then, the device
                    has not been told; 0: it has nothing unflushed */
};

/* At the start of a process: as the file has it, or drawn anew.  -1 after nbdkit_error. */
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
