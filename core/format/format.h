/* format.h: the header of a member, before its data (docs/DESIGN.md 5.1).
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

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bounds.h"
#include "layout/layout.h"

#define SLOT_BYTES 4096
#define INTENT_BLOCK_BYTES 4096

/* When a write is acknowledged. */
enum array_dup {
  DUP_ASYNC_CLIENT, /* acknowledged when the data copy is written and the
                       image is buffered; always so for raid-x */
  DUP_SYNC_CLIENT,  /* acknowledged when all copies are written */
};
const char *array_dup_name (enum array_dup dup); /* "async-client", ... */
int array_dup_parse (const char *name);          /* -1: none */

/* The state of a member, with the same words everywhere. */
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
  uint64_t min_epoch;    /* requests of an older epoch are refused */
  uint64_t served_epoch; /* the highest epoch for which a door was opened */
  uint64_t generation;   /* highest controller generation seen */
  uint64_t sequence;     /* grows by 1 with every write of a slot */
  uint64_t member_bytes; /* in use of each member's data area; 0: not known */
  unsigned dup;          /* enum array_dup, for an import */
  uint64_t states_epoch; /* the epoch to which `states` belongs */
  uint64_t round; /* the newest of the array's rounds that was noted here */
  uint64_t bad_offset; /* of the list of bad ranges; 0: no room for one */
  uint8_t states[ARRAY_MEMBERS_MAX]; /* enum member_state, n * groups of them */
};

/* A disk that has a round or a list of bad ranges is of version 2, any other of
 * version 1.  A disk of version 1 is given both with its next write by
 * superblock_upgrade, if its intent map leaves room for the list.
 */
void superblock_upgrade (struct superblock *sb);

/* The list of bad ranges: two slots, written in turn. */
#define BAD_SLOT_BYTES KiB (16)
#define BAD_OFFSET (HEADER_BYTES - 2 * BAD_SLOT_BYTES)

/* The bytes that a new array may use of a member with this much data area.
 * They leave 4 KiB and 16 bytes free for each extent, in whole blocks, so that
 * a later version can keep checksums there.  0: the disk is too small.
 */
uint64_t format_usable (uint64_t data_bytes);

/* The CRC-32 of a block in which the CRC itself, of 4 bytes, counts as zero. */
uint32_t format_crc (const uint8_t *block, size_t bytes, size_t crc_at);

/* NULL if every field is in range, else a constant sentence. */
const char *superblock_check (const struct superblock *sb);

/* Encode into the slot that sequence selects (sequence mod 2). */
void superblock_encode (const struct superblock *sb, uint8_t slot[SLOT_BYTES]);

/* Decode one slot.  Returns 0, or -1 with a constant sentence in *why. */
int superblock_decode (const uint8_t slot[SLOT_BYTES], struct superblock *sb,
                       const char **why);

/* The newer valid one of two slots: 0 or 1, or -1 when neither is, or when no sequence
 * number is above its own: it could not be written again.
 */
int superblock_newest (const uint8_t slots[2 * SLOT_BYTES],
                       struct superblock *sb, const char **why);

/* sb is the newest of these slots.  Is the other slot bad, or does it differ?
 * Then sb gets a higher sequence number, and must be written to the other slot
 * before weftd gets a report: the bad slot may have been the newer one, and
 * weftd, which may know its number, would take a disk with a lower number for
 * an old copy.
 */
bool superblock_mend (const uint8_t slots[2 * SLOT_BYTES],
                      struct superblock *sb);

/* Are they the same, but for the sequence? */
bool superblock_same (const struct superblock *a, const struct superblock *b);

/* Does either slot begin as a slot does, valid or not? */
bool superblock_present (const uint8_t slots[2 * SLOT_BYTES]);

/* ---- The intent map ---- */

/* A bit for each EXTENT_BYTES of the data area, the last of which may be short.
 * Any thread may test bits at any time (a lone atomic load); a change needs the
 * lock of the map's owner.
 */
struct intents {
  uint64_t extents;
  _Atomic uint64_t *word; /* bit e is bit e % 64 of word[e / 64] */
};

#define INTENT_BLOCK_HEADER_BYTES 16
#define INTENT_BLOCK_EXTENTS                                                   \
  ((INTENT_BLOCK_BYTES - INTENT_BLOCK_HEADER_BYTES) * UINT64_C (8))
#define INTENT_BLOCKS_OFFSET (2 * SLOT_BYTES) /* from the start of the disk */
#define INTENT_BLOCKS_MAX                                                      \
  ((HEADER_BYTES - INTENT_BLOCKS_OFFSET) / INTENT_BLOCK_BYTES)
/* For a disk that is formatted now: the rest of the header holds the bad
 * ranges.
 */
#define FORMAT_DATA_BYTES_MAX                                                  \
  ((BAD_OFFSET - INTENT_BLOCKS_OFFSET) / INTENT_BLOCK_BYTES *                  \
   INTENT_BLOCK_EXTENTS * EXTENT_BYTES)

uint64_t intents_extents (uint64_t data_bytes);

/* All bits clear.  Returns -1 when out of memory. */
int intents_init (struct intents *map, uint64_t extents);
void intents_free (struct intents *map);

static inline bool
intents_test (const struct intents *map, uint64_t extent)
{
  return atomic_load_explicit (&map->word[extent / 64], memory_order_acquire) >>
           (extent % 64) &
         1;
}
void intents_set (struct intents *map, uint64_t extent);
void intents_clear (struct intents *map, uint64_t extent);
void intents_set_all (struct intents *map);
uint64_t intents_count (const struct intents *map);

/* Blocks that the map takes on a disk. */
unsigned intents_blocks (const struct intents *map);

/* Block number `block` holds INTENT_BLOCK_EXTENTS bits, from extent block *
 * INTENT_BLOCK_EXTENTS on.  Decoding a damaged block returns -1 with a constant
 * sentence in *why and sets all of its bits: an extent that is not known to be
 * clean is dirty.
 */
void intents_encode (const struct intents *map, unsigned block,
                     uint8_t bytes[INTENT_BLOCK_BYTES]);
int intents_decode (struct intents *map, unsigned block,
                    const uint8_t bytes[INTENT_BLOCK_BYTES], const char **why);

/* ---- UUIDs as text ---- */

#define FORMAT_UUID_TEXT_BYTES 37
void format_uuid (const uint8_t uuid[16], char text[FORMAT_UUID_TEXT_BYTES]);
int format_uuid_parse (const char *text, uint8_t uuid[16]); /* -1: is none */
bool format_uuid_zero (const uint8_t uuid[16]);

#endif /* WEFT_FORMAT_H */
