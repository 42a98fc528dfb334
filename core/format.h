/* format.h: what stands on a member before its data (DESIGN section 4).
 *
 * docs/FORMAT.md gives every byte.  A member begins with HEADER_BYTES:
 * superblock slot 0, slot 1 (SLOT_BYTES each), then the intent map in blocks
 * of INTENT_BLOCK_BYTES.  All integers are little-endian; each slot and each
 * intent block carries a CRC-32 of its own.
 *
 * Pure: encodes and decodes buffers, opens nothing.
 */

#ifndef WEFT_FORMAT_H
#define WEFT_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layout.h"
#include "limits.h"

#define SLOT_BYTES 4096
#define INTENT_BLOCK_BYTES 4096

/* One word for the state of a member, everywhere. */
enum member_state {
  MEMBER_IN_SYNC,
  MEMBER_OUT,
  MEMBER_JOINING,
  MEMBER_SPARE,
  MEMBER_STATES
};
const char *member_state_name (enum member_state state); /* "in-sync", ... */
int member_state_parse (const char *name);               /* -1: none */

struct superblock {
  uint8_t cluster[16]; /* zero until the disk joins a cluster */
  uint8_t disk[16];    /* UUID of the disk, made when it is formatted */
  uint8_t array[16];   /* zero: belongs to no array */
  unsigned position;   /* member number in the array */
  enum layout_kind layout;
  unsigned n, groups;
  uint32_t unit;
  uint64_t data_offset; /* bytes from the start of the disk */
  uint64_t data_bytes;
  uint64_t min_epoch;   /* requests of an older epoch are refused */
  uint64_t generation;  /* highest controller generation seen */
  uint64_t sequence;    /* grows with every write of the superblock */
  uint64_t states_epoch; /* the epoch as of which `states` stands */
  uint8_t states[ARRAY_MEMBERS_MAX]; /* enum member_state, n * groups of them */
};

/* Encode into the slot that sequence selects (sequence mod 2). */
void superblock_encode (const struct superblock *sb, uint8_t slot[SLOT_BYTES]);

/* Decode one slot.  Returns 0, or -1 with a constant sentence in *why. */
int superblock_decode (const uint8_t slot[SLOT_BYTES], struct superblock *sb,
                       const char **why);

/* The newer valid one of two slots: 0 or 1, or -1 when neither is. */
int superblock_newest (const uint8_t slots[2 * SLOT_BYTES],
                       struct superblock *sb, const char **why);

#endif /* WEFT_FORMAT_H */
