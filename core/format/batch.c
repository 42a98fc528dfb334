/* batch.c: encode and decode batches.  The format is in batch.h.
 *
 * The decoder trusts nothing: every count, offset and length is checked
 * against what is there before the first record is handed out, so a batch is
 * refused whole or taken whole.
 */

#include <config.h>

#include <assert.h>
#include <string.h>

#include "batch.h"
#include "base/bytes.h"
#include "format.h"

static const char batch_magic[4] = "WBAT";
#define BATCH_VERSION 1

enum {
  AT_MAGIC = 0,
  AT_VERSION = 4,
  AT_COUNT = 6,
  AT_BYTES = 8,
  AT_CRC = 12,
  HEADER_SIZE = 16,
};
enum {
  RECORD_AT_KIND = 0,
  RECORD_AT_OFFSET = 8,
  RECORD_AT_LENGTH = 16,
  RECORD_SIZE = BATCH_RECORD_BYTES,
};

size_t
batch_payload_at (unsigned count)
{
  return HEADER_SIZE + (size_t) count * RECORD_SIZE;
}

/* Over the header and all records. */
static uint32_t
batch_crc (const uint8_t *p, unsigned count)
{
  return format_crc (p, batch_payload_at (count), AT_CRC);
}

size_t
batch_bytes (const struct batch_record *records, unsigned count)
{
  size_t bytes = batch_payload_at (count);

  assert (count <= BATCH_RECORDS_MAX);
  for (unsigned i = 0; i < count; i++)
    if (records[i].kind == BATCH_WRITE) {
      assert (records[i].length <= REQUEST_BYTES_MAX);
      bytes += records[i].length;
    }
  return bytes;
}

void
batch_encode (const struct batch_record *records, unsigned count, void *buf)
{
  uint8_t *p = buf, *record = p + HEADER_SIZE;
  uint8_t *payload = p + batch_payload_at (count);
  size_t bytes = batch_bytes (records, count);

  memset (p, 0, batch_payload_at (count));
  memcpy (p + AT_MAGIC, batch_magic, sizeof batch_magic);
  put_le16 (p + AT_VERSION, BATCH_VERSION);
  put_le16 (p + AT_COUNT, count);
  put_le32 (p + AT_BYTES, bytes);
  for (unsigned i = 0; i < count; i++, record += RECORD_SIZE) {
    record[RECORD_AT_KIND] = records[i].kind;
    put_le64 (record + RECORD_AT_OFFSET, records[i].offset);
    put_le64 (record + RECORD_AT_LENGTH, records[i].length);
    if (records[i].kind == BATCH_WRITE) {
      if (records[i].payload)
        memcpy (payload, records[i].payload, records[i].length);
      payload += records[i].length;
    }
  }
  put_le32 (p + AT_CRC, batch_crc (p, count));
}

static const char *
check_header (const uint8_t *p, size_t bytes)
{
  unsigned count;

  if (bytes < HEADER_SIZE)
    return "the batch is shorter than its header";
  if (bytes > BATCH_BYTES_MAX)
    return "the batch is larger than BATCH_BYTES_MAX";
  if (memcmp (p + AT_MAGIC, batch_magic, sizeof batch_magic) != 0)
    return "the batch has no batch header";
  if (get_le16 (p + AT_VERSION) != BATCH_VERSION)
    return "the batch has a version that this member does not know";
  count = get_le16 (p + AT_COUNT);
  if (count > BATCH_RECORDS_MAX)
    return "the batch has more records than BATCH_RECORDS_MAX";
  if (bytes < batch_payload_at (count))
    return "the batch is shorter than its records";
  if (get_le32 (p + AT_CRC) != batch_crc (p, count))
    return "the checksum of the batch is wrong";
  if (get_le32 (p + AT_BYTES) != bytes)
    return "the batch does not have the length that its header says";
  return NULL;
}

/* *payload: the rest of the batch for payloads, which this may take from. */
static const char *
check_record (const uint8_t *r, uint64_t data_bytes, uint64_t *payload)
{
  unsigned kind = r[RECORD_AT_KIND];
  uint64_t offset = get_le64 (r + RECORD_AT_OFFSET);
  uint64_t length = get_le64 (r + RECORD_AT_LENGTH);

  if (kind < BATCH_WRITE || kind > BATCH_BAD)
    return "the batch has a record of a kind that this member does not know";
  if (!all_zero (r + RECORD_AT_KIND + 1, RECORD_AT_OFFSET - 1))
    return "the batch has a record whose unused bytes are not zero";
  if (length == 0)
    return "the batch has a record without length";
  if (kind == BATCH_ROUND)
    return offset || length > EPOCH_MAX
             ? "the batch has a round whose number is out of range"
             : NULL;
  if (offset > data_bytes || length > data_bytes - offset)
    return "the batch has a record beyond the end of the member";
  if (kind == BATCH_WRITE) {
    if (length > *payload)
      return "the batch is shorter than its payloads";
    *payload -= length;
  }
  return NULL;
}

int
batch_decode (const void *buf, size_t bytes, uint64_t data_bytes,
              struct batch_record *records, const char **why)
{
  const uint8_t *p = buf, *record = p + HEADER_SIZE, *payload;
  unsigned count;
  uint64_t left;

  *why = check_header (p, bytes);
  if (*why)
    return -1;
  count = get_le16 (p + AT_COUNT);
  left = bytes - batch_payload_at (count);
  for (unsigned i = 0; i < count; i++) {
    *why = check_record (record + i * RECORD_SIZE, data_bytes, &left);
    if (*why)
      return -1;
  }
  if (left != 0) {
    *why = "the batch is longer than its payloads";
    return -1;
  }
  payload = p + batch_payload_at (count);
  for (unsigned i = 0; i < count; i++, record += RECORD_SIZE) {
    records[i].kind = record[RECORD_AT_KIND];
    records[i].offset = get_le64 (record + RECORD_AT_OFFSET);
    records[i].length = get_le64 (record + RECORD_AT_LENGTH);
    records[i].payload = NULL;
    if (records[i].kind == BATCH_WRITE) {
      records[i].payload = payload;
      payload += records[i].length;
    }
  }
  return count;
}
