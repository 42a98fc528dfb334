/* member-role.c: `nbdkit weft disk=PATH`: serves one disk to the hosts whose
 * array it belongs to.
 *
 * The way of a write: nbdkit's thread calls member_role_pwrite; the engine is asked
 * without a lock (member_admit), and says GO when the intent bits are there
 * already; the data goes to the page cache; member_leave.  The first write to
 * an extent finds WAIT instead: the thread takes the lock and writes the block
 * of the intent map itself, or waits for another thread that is writing it,
 * and so takes part in a group commit.
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <bsd/sys/queue.h>

#include "base/bytes.h"
#include "common/clock.h"
#include "data.h"
#include "hangup.h"
#include "member-role.h"
#include "puller.h"
#include "role.h"
#include "nbdkit-tls.h"

/* A read that fails for want of memory, or while the device is away, is tried so often. */
#define READ_TRIES 10
#define READ_AGAIN_NS 50000000

static int
refuse (const struct member_refusal *refusal)
{
  nbdkit_error ("%s: %s", server.disk->path, refusal->why);
  nbdkit_set_error (refusal->error);
  return -1;
}

/* The errno that is answered of an error of the disk.  EIO: the member has failed. */
static int
error_told (enum errors_place place, int err, uint64_t offset, uint64_t bytes)
{
  if (server_lost (err))
    return ESHUTDOWN;
  return server_error (place, err, offset, bytes) ? errors_told (err) : EIO;
}

/* ---- Requests ---- */

static void
request_end (struct member_request *r)
{
  if (member_leave (server.member, r)) {
    pthread_mutex_lock (&server.lock);
    pthread_cond_broadcast (&server.changed);
    pthread_mutex_unlock (&server.lock);
  }
}

/* Returns 0 when the request may run, and request_end must follow. */
static int
request_begin (struct member_pass *pass, struct member_request *r)
{
  struct member_refusal refusal;
  enum member_verdict v;

  if (member_pass_joins (pass))
    r->now_ms = clock_ms ();
  v = member_admit (server.member, pass, r, &refusal);
  if (v == MEMBER_WAIT) {
    pthread_mutex_lock (&server.lock);
    while ((v = member_retry (server.member, pass, r, &refusal)) == MEMBER_WAIT)
      server_act_or_wait ();
    pthread_mutex_unlock (&server.lock);
  }
  if (v == MEMBER_GO)
    return 0;
  request_end (r);
  return refuse (&refusal);
}

/* Take in the records about intent bits; -1: it was refused.  Bad ranges come
 * first: else a bit might be cleared although its bad range is not recorded.
 */
static int
note_all (struct member_pass *pass, const struct batch_record *records,
          unsigned count)
{
  struct member_refusal refusal;
  enum member_verdict v = MEMBER_GO;

  pthread_mutex_lock (&server.lock);
  for (unsigned i = 0; v == MEMBER_GO && i < count; i++)
    if (records[i].kind == BATCH_BAD)
      v = member_bad_report (server.member, pass, records[i].offset,
                             records[i].length, &refusal);
  for (unsigned i = 0; v == MEMBER_GO && i < count; i++)
    if (batch_clears (records[i].kind))
      member_clear (server.member, pass, records[i].offset, records[i].length,
                    records[i].kind == BATCH_SETTLE);
  pthread_mutex_unlock (&server.lock);
  return v == MEMBER_GO ? 0 : refuse (&refusal);
}

/* While we are joining, parts of a write may be dropped: the copy will bring
 * them.  *bad: the list of bad ranges may have changed.  Returns 0 or an errno to be
 * answered.
 */
static int
apply (const struct member_request *r, const struct batch_record *b, bool sync,
       bool *bad)
{
  struct batch_record part = *b;
  enum errors_place place;
  uint64_t done = 0;
  int err = 0;

  while (err == 0 && done < b->length) {
    part.offset = b->offset + done;
    part.length = b->length - done;
    if (b->kind == BATCH_WRITE)
      part.payload = (const char *) b->payload + done;
    if (member_applies (server.member, r, part.offset, &part.length)) {
      bool was_bad = server_bad (part.offset, part.length);

      err = server_change (&part, sync || was_bad, &place);
      if (err)
        err = error_told (place, err, part.offset, part.length);
      *bad |= was_bad;
      /* A bad block that is written as a whole is good once that is stable. */
      if (was_bad && err == 0) {
        pthread_mutex_lock (&server.lock);
        member_bad_good (server.member, part.offset, part.length);
        pthread_mutex_unlock (&server.lock);
      }
    }
    done += part.length;
  }
  return err;
}

/* Wait until the newest round of these records is in the superblock.  Returns 0 or an
 * errno.
 */
static int
note_round (struct member_pass *pass, const struct batch_record *records,
            unsigned count)
{
  enum member_verdict v = MEMBER_GO;
  struct member_refusal refusal;
  uint64_t round = 0;

  for (unsigned i = 0; i < count; i++)
    if (records[i].kind == BATCH_ROUND && records[i].length > round)
      round = records[i].length;
  if (round == 0)
    return 0;
  pthread_mutex_lock (&server.lock);
  while ((v = member_round (server.member, pass, round, &refusal)) ==
         MEMBER_WAIT)
    server_act_or_wait ();
  pthread_mutex_unlock (&server.lock);
  if (v == MEMBER_GO)
    return 0;
  refuse (&refusal);
  return refusal.error;
}

/* Wait until the list of bad ranges is durable.  Returns 0 or an errno. */
static int
settle_bad (void)
{
  struct member_refusal refusal;
  enum member_verdict v;

  pthread_mutex_lock (&server.lock);
  while ((v = member_bad_settle (server.member, &refusal)) == MEMBER_WAIT)
    server_act_or_wait ();
  pthread_mutex_unlock (&server.lock);
  if (v == MEMBER_GO)
    return 0;
  refuse (&refusal);
  return refusal.error;
}

/* Clears come first, whatever their place: a record of the same batch that
 * writes to the extent then sets the bit again.
 */
static int
change (struct member_pass *pass, const struct batch_record *records,
        unsigned count, bool fua)
{
  struct member_request r = { .records = records, .count = count };
  bool single = count == 1, notes = false, bad = false;
  uint64_t bytes = 0;
  int err = 0;

  for (unsigned i = 0; i < count; i++)
    notes |= !batch_changes_data (records[i].kind);
  if (notes && note_all (pass, records, count) == -1)
    return -1;
  if (request_begin (pass, &r) == -1)
    return -1;
  for (unsigned i = 0; err == 0 && i < count; i++)
    if (batch_changes_data (records[i].kind)) {
      err = apply (&r, &records[i], fua && single, &bad);
      bytes += records[i].kind == BATCH_WRITE ? records[i].length : 0;
    }
  if (err == 0 && fua && !single) {
    err = data_flush (server.disk);
    if (err)
      err = error_told (ERRORS_SYNC, err, 0, 0);
  }
  if (err == 0 && (bad || notes))
    err = settle_bad ();
  if (err == 0)
    err = note_round (pass, records, count);
  request_end (&r);
  if (err) {
    nbdkit_set_error (err);
    return -1;
  }
  load_count (&server.counters.writes, 1);
  load_count (&server.counters.write_bytes, bytes);
  return 0;
}

static int
batch_apply (struct member_pass *pass, const void *buf, uint32_t count,
             uint64_t offset, bool fua)
{
  struct batch_record records[BATCH_RECORDS_MAX];
  const char *why = "a batch is one write at offset 0";
  int n = -1;

  if (offset == 0)
    n = batch_decode (buf, count, server.disk->sb.data_bytes, records, &why);
  if (n == -1) {
    nbdkit_error ("%s: a batch is refused as a whole: %s", server.disk->path,
                  why);
    nbdkit_set_error (EINVAL);
    return -1;
  }
  return change (pass, records, n, fua);
}

/* ---- nbdkit's calls ---- */

/* nbdkit's handle. */
struct door {
  LIST_ENTRY (door) link; /* under server.lock */
  struct member_pass *pass;
  enum member_door kind;
};
static LIST_HEAD (, door) doors = LIST_HEAD_INITIALIZER (doors);

static void
member_role_close (void *handle)
{
  struct door *door = handle;

  pthread_mutex_lock (&server.lock);
  LIST_REMOVE (door, link);
  member_close (server.member, door->pass);
  pthread_mutex_unlock (&server.lock);
  free (door);
}

static void *
member_role_open (void *it, int readonly)
{
  const char *name = nbdkit_export_name ();
  const struct member_client client = { tls_client (), tls_client_process () };
  struct member_refusal refusal;
  struct door *door = calloc (1, sizeof *door);
  enum member_verdict v;

  if (name == NULL || door == NULL) {
    free (door);
    return NULL;
  }
  pthread_mutex_lock (&server.lock);
  while ((v = member_open (server.member, name, &client, &door->pass,
                           &refusal)) == MEMBER_WAIT)
    server_act_or_wait ();
  if (v == MEMBER_GO)
    LIST_INSERT_HEAD (&doors, door, link);
  pthread_mutex_unlock (&server.lock);
  if (v == MEMBER_REFUSE) {
    refuse (&refusal);
    free (door);
    return NULL;
  }
  door->kind = member_pass_door (door->pass);
  return door;
}

static int64_t
member_role_get_size (void *handle)
{
  const struct door *door = handle;

  switch (door->kind) {
  case DOOR_DATA:
    return server.disk->sb.data_bytes;
  case DOOR_BATCH:
    return REQUEST_BYTES_MAX;
  case DOOR_INTENTS:
    return member_map_bytes (server.member);
  }
  return -1;
}

static int
member_role_block_size (void *handle, uint32_t *minimum, uint32_t *preferred,
                        uint32_t *maximum)
{
  *minimum = 1;
  *preferred = 4096;
  *maximum = REQUEST_BYTES_MAX;
  return 0;
}

static bool
member_role_can_write (void *handle)
{
  const struct door *door = handle;

  return member_pass_writable (door->pass);
}

static uint64_t
member_role_session (void *handle, bool *reads)
{
  const struct door *door = handle;

  *reads = !member_pass_writes (door->pass);
  return member_pass_session (door->pass);
}

static int
wrong_door (const struct door *door, const char *what)
{
  nbdkit_error ("%s: the %s door is not for %s; use the data door",
                server.disk->path, member_door_name (door->kind), what);
  nbdkit_set_error (EINVAL);
  return -1;
}

/* Which round has the disk noted? */
static int
read_round (struct member_pass *pass, void *buf)
{
  struct member_request r = { .count = 0 };
  struct member_refusal refusal;
  enum member_verdict v;
  uint64_t round = UINT64_MAX;

  if (request_begin (pass, &r) == -1)
    return -1;
  pthread_mutex_lock (&server.lock);
  while ((v = member_noted (server.member, pass, &round, &refusal)) ==
         MEMBER_WAIT)
    server_act_or_wait ();
  pthread_mutex_unlock (&server.lock);
  request_end (&r);
  if (v != MEMBER_GO)
    return refuse (&refusal);
  put_le64 (buf, round);
  return 0;
}

/* For how long has the disk been silent? */
static int
read_pulse (struct member_pass *pass, void *buf)
{
  struct member_request r = { .count = 0 };

  if (request_begin (pass, &r) == -1)
    return -1;
  put_le64 (buf, member_pulse_stuck_ms ());
  request_end (&r);
  return 0;
}

/* Nobody else is asked while an error of want of memory may pass. */
static int
read_data (void *buf, uint32_t count, uint64_t offset)
{
  int err, tries = READ_TRIES;

  while ((err = data_read (server.disk, buf, count, offset)) != 0 &&
         errors_of (ERRORS_READ, err) == ERRORS_AGAIN && --tries > 0)
    nbdkit_nanosleep (0, READ_AGAIN_NS);
  return err;
}

static int
member_role_pread (void *handle, void *buf, uint32_t count, uint64_t offset,
                   uint32_t flags)
{
  struct door *door = handle;
  bool data = door->kind == DOOR_DATA;
  struct member_request r = { .reads = data,
                              .offset = offset,
                              .length = data ? count : 0 };
  int err = 0;

  if (door->kind == DOOR_BATCH && offset == 0 && count == ROUND_BYTES)
    return read_round (door->pass, buf);
  if (door->kind == DOOR_BATCH && offset == PULSE_OFFSET &&
      count == PULSE_BYTES)
    return read_pulse (door->pass, buf);
  if (door->kind == DOOR_BATCH)
    return wrong_door (door, "reading");
  if (request_begin (door->pass, &r) == -1)
    return -1;
  if (door->kind == DOOR_INTENTS) {
    pthread_mutex_lock (&server.lock);
    member_map_read (server.member, offset, count, buf);
    pthread_mutex_unlock (&server.lock);
    member_pass_mask (door->pass, offset, count, buf);
  }
  else if (server_bad (offset, count)) {
    request_end (&r);
    nbdkit_error ("%s: no copy was found of a block in the %" PRIu32
                  " bytes at %" PRIu64
                  " of the data area; it is not read before it is written "
                  "again",
                  server.disk->path, count, offset);
    nbdkit_set_error (EIO);
    return -1;
  }
  else
    err = read_data (buf, count, offset);
  request_end (&r);
  if (err) {
    /* An unreadable sector is no reason to give up the rest: the array reads
     * the other copy and writes it back.  The kernel has many names for it,
     * NBD has one.
     */
    nbdkit_error ("%s: reading failed: %s", server.disk->path, strerror (err));
    nbdkit_set_error (server_lost (err) ? ESHUTDOWN : EIO);
    return -1;
  }
  load_count (&server.counters.reads, 1);
  load_count (&server.counters.read_bytes, count);
  return 0;
}

static int
member_role_pwrite (void *handle, const void *buf, uint32_t count,
                    uint64_t offset, uint32_t flags)
{
  struct door *door = handle;
  struct batch_record record = {
    .kind = BATCH_WRITE, .offset = offset, .length = count, .payload = buf
  };
  bool fua = flags & NBDKIT_FLAG_FUA;

  if (door->kind == DOOR_BATCH)
    return batch_apply (door->pass, buf, count, offset, fua);
  if (door->kind != DOOR_DATA)
    return wrong_door (door, "writing");
  return change (door->pass, &record, 1, fua);
}

static int
member_role_flush (void *handle, uint32_t flags)
{
  struct door *door = handle;
  struct member_request r = { .count = 0 };
  int err;

  if (request_begin (door->pass, &r) == -1)
    return -1;
  err = data_flush (server.disk);
  if (err)
    nbdkit_set_error (error_told (ERRORS_SYNC, err, 0, 0));
  request_end (&r);
  load_count (&server.counters.flushes, 1);
  return err ? -1 : 0;
}

static int
member_role_zero (void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
  struct door *door = handle;
  struct batch_record record = {
    .kind = flags & NBDKIT_FLAG_MAY_TRIM ? BATCH_TRIM : BATCH_ZERO,
    .offset = offset,
    .length = count,
  };

  if (door->kind != DOOR_DATA)
    return wrong_door (door, "zeroing");
  return change (door->pass, &record, 1, flags & NBDKIT_FLAG_FUA);
}

static int
member_role_trim (void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
  return member_role_zero (handle, count, offset, flags | NBDKIT_FLAG_MAY_TRIM);
}

/* Ranges that the client must not read, and bad blocks, which may well lie in a
 * hole, are data for the client.  Returns 0 or an errno.
 */
static int
add_extents (const struct door *door, uint64_t offset, uint64_t end,
             uint32_t flags, struct nbdkit_extents *extents)
{
  bool one = flags & NBDKIT_FLAG_REQ_ONE;
  uint64_t length;
  int err = 0;

  do {
    length = end - offset;
    if (member_pass_reads (door->pass, offset, &length) &&
        !server_bad (offset, length))
      err = data_extents (server.disk, length, offset, one, extents);
    else if (nbdkit_add_extent (extents, offset, length, 0) == -1)
      err = ENOMEM;
    offset += length;
  } while (err == 0 && offset < end && !one);
  return err;
}

static int
member_role_extents (void *handle, uint32_t count, uint64_t offset,
                     uint32_t flags, struct nbdkit_extents *extents)
{
  struct door *door = handle;
  struct member_request r = { .reads = true };
  int err;

  if (door->kind != DOOR_DATA)
    return nbdkit_add_extent (extents, offset, count, 0);
  if (request_begin (door->pass, &r) == -1)
    return -1;
  err = add_extents (door, offset, offset + count, flags, extents);
  request_end (&r);
  if (err) {
    nbdkit_error ("%s: its extents cannot be read: %s", server.disk->path,
                  strerror (err));
    nbdkit_set_error (err);
    return -1;
  }
  return 0;
}

/* ---- Start and end ---- */

static int
make_engine (void)
{
  struct intents map;
  struct bad_list bad;
  bool mend;
  unsigned damaged;
  char why[1024];

  if (disk_read_bad (server.disk, &bad, &mend, why, sizeof why) == -1 ||
      disk_read_intents (server.disk, &map, &damaged, why, sizeof why) == -1) {
    nbdkit_error ("%s", why);
    return -1;
  }
  if (damaged)
    nbdkit_error ("%s: %u of %u blocks of its intent map are damaged: all that "
                  "they stand for counts as dirty",
                  server.disk->path, damaged, intents_blocks (&map));
  server.member = member_new (&server.disk->sb, &map);
  intents_free (&map);
  if (server.member == NULL) {
    nbdkit_error ("%s: out of memory", server.disk->path);
    return -1;
  }
  member_bad_begin (server.member, &bad, mend);
  return 0;
}

/* Make the header's writes; `lazy`: also writes that could wait. */
static void
write_all (bool lazy)
{
  pthread_mutex_lock (&server.lock);
  while (server_act (lazy))
    ;
  pthread_mutex_unlock (&server.lock);
}

static void
forget (void)
{
  member_free (server.member);
  server.member = NULL;
  disk_close (server.disk);
  server.disk = NULL;
}

/* Nothing is written to another disk than the one that is meant. */
static int
check_uuid (void)
{
  char uuid[FORMAT_UUID_TEXT_BYTES], why[1024];
  struct disk_content c;

  if (params.uuid == NULL || params.uuid[0] == '\0' ||
      disk_probe (params.disk, &c, why, sizeof why) == -1 ||
      c.kind != DISK_WEFT)
    return 0; /* disk_open says why */
  format_uuid (c.sb.disk, uuid);
  if (strcasecmp (uuid, params.uuid) == 0)
    return 0;
  nbdkit_error ("%s is disk %s, and not disk %s, which uuid= names: put that "
                "disk back, or give its path; nothing is written to this one",
                params.disk, uuid, params.uuid);
  return -1;
}

static void *
member_role_get_ready (void)
{
  char why[1024];

  if (params.uri == NULL) {
    nbdkit_error ("uri= is missing: give the NBD URI under which hosts reach "
                  "this member, such as uri=nbd://192.0.2.1:10810");
    return NULL;
  }
  clock_condition (&server.changed);
  if (check_uuid () == -1)
    return NULL;
  server.disk = disk_open (params.disk, why, sizeof why);
  if (server.disk == NULL) {
    nbdkit_error ("%s", why);
    return NULL;
  }
  /* weftd is asked before anything is written: a disk that it refuses stays as it
   * is.
   */
  if (make_engine () == 0 && member_control_register () == 0) {
    write_all (false); /* nobody can connect yet */
    if (!member_failed (server.member))
      return &server;
  }
  forget ();
  return NULL;
}

static int
member_role_after_fork (void *it)
{
  return hangup_start (true) == -1 || member_pulse_start () == -1
           ? -1
           : member_control_start ();
}

static void
member_role_cleanup (void *it)
{
  if (server.member == NULL)
    return;
  puller_stop ();
  hangup_stop ();
  member_control_stop ();
  member_pulse_stop ();
  /* nbdkit closes no door once it is ending. */
  while (!LIST_EMPTY (&doors))
    member_role_close (LIST_FIRST (&doors));
  write_all (true);
  forget ();
}

const struct role member_role = {
  .get_ready = member_role_get_ready,
  .after_fork = member_role_after_fork,
  .cleanup = member_role_cleanup,
  .open = member_role_open,
  .close = member_role_close,
  .get_size = member_role_get_size,
  .block_size = member_role_block_size,
  .can_write = member_role_can_write,
  .session = member_role_session,
  .pread = member_role_pread,
  .pwrite = member_role_pwrite,
  .flush = member_role_flush,
  .trim = member_role_trim,
  .zero = member_role_zero,
  .extents = member_role_extents,
};
