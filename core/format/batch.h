/* batch.h: many scattered records in one NBD write (docs/DESIGN.md 6.4).
 *
 * Layout, all little-endian: struct header {magic "WBAT", u16 version, u16
 * count, u32 bytes (all of it), u32 CRC-32 of the header and the records
 * without payload}, then `count` records {u8 kind, 7 bytes zero, u64 offset,
 * u64 length}, then the payloads of the WRITE records in their order.
 */

#ifndef WEFT_BATCH_H
#define WEFT_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "base/bounds.h"

enum batch_kind {
  BATCH_WRITE = 1, /* payload of `length` bytes */
  BATCH_ZERO = 2,  /* zeroes, storage kept */
  BATCH_TRIM = 3,  /* zeroes, storage may be given back */
  BATCH_CLEAR = 4, /* clear the session's intent bits of these extents */
  /* clear also bits of other sessions: the copies of these extents are in sync
   * and stable
   */
  BATCH_SETTLE = 5,
  /* `length` is the number of a round, which the disk is to note in its superblock. */
  BATCH_ROUND = 6,
  BATCH_BAD = 7, /* no copy of this range can be read: it is not read before it
                      is written again (bad.h) */
};

/* Does a record of this kind change data, not just intent bits or the round? */
static inline int
batch_changes_data (enum batch_kind kind)
{
  return kind <= BATCH_TRIM;
}

/* Does a record of this kind clear intent bits? */
static inline int
batch_clears (enum batch_kind kind)
{
  return kind == BATCH_CLEAR || kind == BATCH_SETTLE;
}

struct batch_record {
  enum batch_kind kind;
  uint64_t offset; /* in the member's data area */
  uint64_t length;
  const void *payload; /* of a WRITE */
};

/* A read at 0 of the batch door gives the round that the member's disk has
 * noted, durably (u64, little-endian).
 */
#define ROUND_BYTES 8
/* The same at this offset: for how long the disk has been stuck, in ms
 * (member/pulse.h).
 */
#define PULSE_OFFSET 8
#define PULSE_BYTES 8

/* The size of a record without its payload. */
#define BATCH_RECORD_BYTES 24

/* Bytes that a batch of these records takes. */
size_t batch_bytes (const struct batch_record *records, unsigned count);

/* Encode into buf, which has batch_bytes () bytes.  `count` is at most
 * BATCH_RECORDS_MAX.  Where a WRITE record's payload is NULL, the caller puts the
 * bytes into buf: payloads begin at batch_payload_at (), one directly after the
 * other.
 */
void batch_encode (const struct batch_record *records, unsigned count,
                   void *buf);
size_t batch_payload_at (unsigned count);

/* Decode: fills records (room for BATCH_RECORDS_MAX) with payload pointers
 * into buf.  Every record is checked against data_bytes, the size of the
 * data area, before any is returned.  Returns the count, or -1 with a
 * constant sentence in *why.
 */
int batch_decode (const void *buf, size_t bytes, uint64_t data_bytes,
                  struct batch_record *records, const char **why);

#endif /* WEFT_BATCH_H */
