/* presence.h: is the device of an open disk still there, and if not, is it back?
 *
 * A device that was away (a cable, a controller, a session of iSCSI) is a new device
 * to the kernel when it comes back, perhaps under another name.  Descriptors of the
 * former one stay dead.
 */

#ifndef WEFT_PRESENCE_H
#define WEFT_PRESENCE_H

#include <stdbool.h>

#include "disk.h"

/* Is what was opened removed?  error: the errno of a read past the page cache that
 * just ended, or 0.
 */
bool presence_lost (const struct disk *d, int error);

/* The present target of the path of a lost disk. */
enum presence_found {
  PRESENCE_NOTHING, /* nothing that can be read */
  PRESENCE_OTHER,   /* another disk */
  PRESENCE_CLOSED,  /* something that this process may not open */
  PRESENCE_SAME,    /* the Weft disk with this UUID */
};

/* Reads only. */
enum presence_found presence_find (const struct disk *d);

/* The same in words: a sentence without its end. */
const char *presence_words (enum presence_found found);

#endif /* WEFT_PRESENCE_H */
