/* bad.h: the list of bad ranges of a member: blocks of its data area that are
 * known not to have the data that was written there: no other copy was found,
 * or it is not copied from there yet (BAD_WRITE).
 *
 * Pure: the list, its changes and its coding (docs/FORMAT.md). The owner of a
 * list serialises the calls.
 */

#ifndef WEFT_BAD_H
#define WEFT_BAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format.h"

#define BAD_BLOCK_BYTES 4096
#define BAD_RANGES_MAX 1020

enum bad_reason {
  BAD_REBUILD = 1, /* no source of a rebuild could read it */
  BAD_RESYNC = 2,  /* no copy could be read when the array was attached */
  BAD_SCRUB = 3,
  BAD_WRITE = 4, /* it could not be read when a part of it was written; another
                    copy may be good */
};
const char *bad_reason_name (unsigned reason); /* "rebuild", ...; NULL: none */

struct bad_range {
  uint64_t first; /* blocks, from the start of the data area */
  uint32_t blocks;
  uint32_t reason; /* enum bad_reason */
};

/* Ascending; none overlap; neighbours differ in their reason. */
struct bad_list {
  uint64_t sequence; /* grows by 1 each time that the list is written to disk;
                        the functions below leave it as it is */
  unsigned count;
  struct bad_range range[BAD_RANGES_MAX];
};

/* All blocks that the range touches are bad from now on.  False: there is no
 * room, and nothing was changed.  Room is kept for what bad_good can make of the
 * list: it may break a range into half as many ranges as the range has blocks.
 */
bool bad_add (struct bad_list *list, uint64_t offset, uint64_t length,
              enum bad_reason reason);

/* The blocks that lie wholly within the range are good from now on.  Returns
 * whether that changed anything.
 */
bool bad_good (struct bad_list *list, uint64_t offset, uint64_t length);

/* The blocks of which the range covers a part only, by their offsets: at most 2.
 * Returns how many.
 */
unsigned bad_parts (uint64_t offset, uint64_t length, uint64_t block[2]);

/* Does the range touch a bad block? */
bool bad_test (const struct bad_list *list, uint64_t offset, uint64_t length);

uint64_t bad_bytes (const struct bad_list *list);

void bad_encode (const struct bad_list *list, uint8_t slot[BAD_SLOT_BYTES]);

/* Read the list of a disk with this data area from its two slots.  A slot of
 * zeroes is an empty list that was never written.  *mend: the slots differ, so
 * both must be written again; the list then has a number after which the slot
 * that is not good is written first.  Returns -1 with a constant sentence when
 * neither slot is valid: then it is not known which blocks are bad.
 */
int bad_decode (const uint8_t slots[2 * BAD_SLOT_BYTES], uint64_t data_bytes,
                struct bad_list *list, bool *mend, const char **why);

#endif /* WEFT_BAD_H */
