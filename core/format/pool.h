/* pool.h: the disk format of a pool: its header, the volumes' roots, and their logs.
 *
 * A pool is an array that holds volumes (docs/FORMAT.md "Pools").  It is cut into
 * segments.  Segment 0 has the header, in two slots; behind it is a root for each
 * volume that there may be, in two slots as well; the other segments are granted to
 * volumes, for data or for their logs.
 *
 * All integers are little-endian.  Offsets are bytes of the array, a segment's number
 * counts from the array's beginning.  Header slots, roots and log blocks each have a
 * CRC-32 of their own (format_crc).
 *
 * A log is a list of entries.  An entry is the whole state of its key, and the last
 * entry of a key is valid.  So a rewritten log is a list of the live entries (as of
 * LFS: Rosenblum and Ousterhout, The Design and Implementation of a
 * Log-Structured File System, sections 3 and 4, without its cleaner).
 *
 * Pure: encodes and decodes buffers, opens nothing.
 */

#ifndef WEFT_POOL_H
#define WEFT_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bounds.h"

/* ---- The header ---- */

#define POOL_SLOT_BYTES 4096

struct pool_header {
  uint8_t array[16];      /* UUID; never zero */
  uint64_t sequence;      /* of this write */
  uint64_t segment_bytes; /* a power of two */
  uint32_t segments;      /* whole ones in the array */
  uint32_t roots;         /* so many volumes have a place */
};

/* The header of a new pool over an array of so many bytes; segment_bytes 0: as the
 * size suggests.  Returns 0, or -1 with a constant sentence in *why.
 */
int pool_plan (uint64_t array_bytes, uint64_t segment_bytes,
               struct pool_header *h, const char **why);

/* NULL if every field is in range, else a constant sentence. */
const char *pool_header_check (const struct pool_header *h);
/* Into the slot that the sequence number selects (mod 2). */
void pool_header_encode (const struct pool_header *h,
                         uint8_t slot[POOL_SLOT_BYTES]);
/* The newer valid one of two slots: 0 or 1; -1: neither is, and *why says a constant
 * sentence.
 */
int pool_header_newest (const uint8_t slots[2 * POOL_SLOT_BYTES],
                        struct pool_header *h, const char **why);
/* Does either slot begin as the header of this array's pool does, valid or not? */
bool pool_header_present (const uint8_t slots[2 * POOL_SLOT_BYTES],
                          const uint8_t array[16]);

/* Where the two slots of a root are; and the first segment behind all roots. */
uint64_t pool_root_offset (const struct pool_header *h, unsigned number);
uint32_t pool_first_segment (const struct pool_header *h);

/* ---- A volume's root ---- */

struct pool_snapshot {
  uint32_t layer;
  uint32_t flags; /* enum pool_snapshot_flags */
  uint64_t ms;    /* when, since 1970 */
  uint64_t size;  /* the volume's then */
  uint8_t uuid[16], group[16];
  char name[NAME_BYTES_MAX + 1];
};
enum pool_snapshot_flags { POOL_NAMED = 1, POOL_HELD = 2 };

/* The layers from `from` on follow the layer `parent`: a rollback. */
struct pool_branch {
  uint32_t from, parent;
};

enum pool_root_flags {
  POOL_CLEAN = 1,
  POOL_DELETED = 2, /* kept as the base of clones */
  POOL_READONLY = 4,
  POOL_ADOPTED = 8, /* the segments of its base are its own */
};

struct pool_root {
  uint32_t life;                  /* counts the volume's openings */
  uint64_t sequence;              /* of this write; never 0 */
  uint8_t volume[16], origin[16]; /* UUIDs; origin zero: it is no clone */
  uint32_t origin_layer;
  uint32_t flags; /* enum pool_root_flags */
  uint64_t size;  /* bytes, a multiple of 512 */
  uint32_t head,
    highest; /* layer of the head; the highest that there ever was */
  uint32_t snapshots_count, branches_count, log_count;
  uint64_t log_sequence; /* of the log's first block */
  uint8_t
    array[16]; /* UUID: disks may still have the roots of an array before */
  char name[NAME_BYTES_MAX + 1];
  struct pool_snapshot snapshots[POOL_SNAPSHOTS_MAX];
  struct pool_branch branches[POOL_BRANCHES_MAX];
  uint32_t log[POOL_LOG_SEGMENTS_MAX]; /* segments, in the log's order */
};

#define POOL_ROOT_BYTES KiB (128) /* a slot */

/* NULL if every field is in range, else a constant sentence. */
const char *pool_root_check (const struct pool_root *r,
                             const struct pool_header *h);
/* Encode; returns the bytes to be written at the beginning of the slot that the sequence
 * number selects (mod 2): a multiple of 4096, zeroes behind the root.
 */
size_t pool_root_encode (const struct pool_root *r,
                         uint8_t slot[POOL_ROOT_BYTES]);
/* Returns 0, or -1 with a constant sentence in *why. */
int pool_root_decode (const uint8_t slot[POOL_ROOT_BYTES],
                      const struct pool_header *h, struct pool_root *r,
                      const char **why);
/* The newer valid one of two slots: 0 or 1, or -1 when neither is, or when both are and
 * belong to different volumes.
 */
int pool_root_newest (const uint8_t slots[2 * POOL_ROOT_BYTES],
                      const struct pool_header *h, struct pool_root *r,
                      const char **why);

/* Are both slots zeroes, as in a new pool and after a deletion?  If not, and neither slot is
 * valid, the root of a volume is damaged.
 */
bool pool_root_empty (const uint8_t slots[2 * POOL_ROOT_BYTES]);
/* Does either slot begin as a root of this array does, valid or not?  For a pool without a
 * header: if it was not formatted yet, there may be any bytes, those of an array before, too.
 */
bool pool_root_present (const uint8_t slots[2 * POOL_ROOT_BYTES],
                        const uint8_t array[16]);

/* ---- A block of a log ----
 *
 * Each of its sectors bears its life and sequence number.  Without
 * them a block that was cut short in an earlier life could become whole by a part of the
 * block that is written over it: many blocks differ in their first sectors alone.
 */

#define POOL_LOG_BLOCK_BYTES 4096
#define POOL_LOG_ENTRIES 165
#define POOL_NO_SEGMENT UINT32_MAX
#define POOL_BLOCKS 64 /* of a segment: a bit each in an entry */

enum pool_entry_kind {
  POOL_GONE, /* the segment of the pool has left the map; its key */
  POOL_DATA, /* `blocks` of the volume's segment `at` are there; key: segment */
  POOL_BASE, /* the same in a segment of the origin's; key: segment and at */
  POOL_HOLE, /* of `at` and so many more, `blocks` are zeroes; key: at and layer */
};

struct pool_entry {
  uint32_t segment; /* of the pool; POOL_NO_SEGMENT for a hole */
  uint32_t at;      /* segment of the volume */
  uint32_t layer;
  enum pool_entry_kind kind;
  uint32_t more; /* of a hole; less than 2^24 */
  uint64_t blocks;
};

struct pool_log_block {
  uint8_t volume[8]; /* the first half of the UUID */
  uint64_t
    sequence; /* each block's is one more than that of the block before */
  uint32_t life;
  unsigned count; /* of the entries */
  struct pool_entry entries[POOL_LOG_ENTRIES];
};

void pool_log_encode (const struct pool_log_block *b,
                      uint8_t bytes[POOL_LOG_BLOCK_BYTES]);
/* Checks the block by itself: whether it is the successor of another is not its matter.
 * Returns 0; -1: these bytes are no block, or it was not written as a whole; -2: it was,
 * but a field is out of range.  *why is a constant sentence then.
 */
int pool_log_decode (const uint8_t bytes[POOL_LOG_BLOCK_BYTES],
                     const struct pool_header *h, struct pool_log_block *b,
                     const char **why);

#endif /* WEFT_POOL_H */
