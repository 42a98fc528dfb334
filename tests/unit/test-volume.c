/* test-volume.c: cases that the simulator of volumes does not reach, or only in rare
 * worlds: torn roots, refusals, bad requests, a scan of data in caches, segments given
 * back, two failed FLUSHes for one loss, and an empty log.
 */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "test-random.h"
#include "volume/volume.h"

#define SEGMENT KiB (32)
#define SEGMENTS 200

static uint8_t disk[SEGMENT * SEGMENTS];
static uint8_t durable[SEGMENT * SEGMENTS];
static bool flush_fails; /* the next one */
static bool flush_loses; /* after it, the disk has only durable data */
static struct pool_header pool = { .array = "array",
                                   .sequence = 1,
                                   .segment_bytes = SEGMENT,
                                   .segments = SEGMENTS,
                                   .roots = 2 };
static struct volume_config config = {
  .uuid = "uuid", .name = "v", .size = 10 * SEGMENT, .full_wait_ms = 1000
};
static bool root_fails; /* it is not written */
static uint32_t granted = 20;
static struct volume_client *client;
static unsigned zeroes; /* of a slot of a root */

static int
carry_out_one (struct array_request *io)
{
  if (io->op == ARRAY_FLUSH && flush_fails) {
    flush_fails = false;
    if (flush_loses)
      memcpy (disk, durable, sizeof disk);
    return EIO;
  }
  if (io->op == ARRAY_READ)
    memcpy (io->buf, disk + io->offset, io->length);
  else if (io->op == ARRAY_WRITE) {
    if (root_fails && io->offset < pool_first_segment (&pool) * SEGMENT)
      return EIO;
    memcpy (disk + io->offset, io->buf, io->length);
  }
  else if (io->op == ARRAY_ZERO) {
    memset (disk + io->offset, 0, io->length);
    zeroes += io->length == POOL_ROOT_BYTES;
  }
  return 0;
}

static void
carry_out (struct volume *v)
{
  struct array_request *io;

  while ((io = volume_next_io (v))) {
    if (io->op == ARRAY_FLUSH && flush_fails)
      volume_lost (v, 1);
    io->error = carry_out_one (io);
    volume_io_done (v, io, 1);
    volume_check (v);
  }
}

static struct volume *
open_volume (void)
{
  struct volume_run run = { pool_first_segment (&pool), granted };
  struct volume *v;

  config.pool = pool;
  v = volume_new (&config);
  CHECK (v);
  client = volume_client_open (v, NULL);
  volume_granted (v, &run, 1, 1);
  volume_open (v, 1);
  carry_out (v);
  return v;
}

static int
ask (struct volume *v, enum array_op op, uint64_t offset, uint64_t length,
     void *buf)
{
  struct volume_request r = {
    .op = op, .client = client, .offset = offset, .length = length, .buf = buf
  };

  volume_submit (v, &r, 1);
  carry_out (v);
  CHECK (volume_next_done (v) == &r);
  free (r.extents);
  return r.error;
}

static uint8_t *
slot (unsigned which)
{
  return disk + pool_root_offset (&pool, 0) + which * POOL_ROOT_BYTES;
}

static void
test_requests (void)
{
  struct volume *v = open_volume ();
  uint8_t buf[4096] = { 7 }, back[4096];
  struct volume_stats stats;
  struct volume_run run;

  CHECK (volume_state (v) == VOLUME_OPEN && volume_size (v) == 10 * SEGMENT);
  CHECK (ask (v, ARRAY_WRITE, 100, 4096, buf) == 0);
  CHECK (ask (v, ARRAY_READ, 100, 4096, back) == 0 &&
         memcmp (buf, back, 4096) == 0);
  CHECK (ask (v, ARRAY_READ, 0, 100, back) == 0 && back[0] == 0);
  CHECK (ask (v, ARRAY_WRITE, 10 * SEGMENT - 1, 2, buf) == ENOSPC);
  CHECK (ask (v, ARRAY_READ, 10 * SEGMENT, 1, back) == EINVAL);
  CHECK (ask (v, ARRAY_READ, UINT64_MAX, 2, back) == EINVAL);
  CHECK (ask (v, ARRAY_ACCEPT, 0, 512, back) == ENOTSUP);
  CHECK (ask (v, ARRAY_WRITE, 0, 0, buf) == 0);
  CHECK (volume_resize (v, 9 * SEGMENT, 1) == EINVAL);
  CHECK (volume_resize (v, 11 * SEGMENT + 1, 1) == EINVAL);
  CHECK (volume_resize (v, VOLUME_BYTES_MAX + 512, 1) == EINVAL);
  CHECK (volume_resize (v, 12 * SEGMENT, 1) == 0);
  carry_out (v);
  CHECK (volume_root (v)->size == 12 * SEGMENT);
  volume_close (v, 1);
  carry_out (v);
  CHECK (volume_state (v) == VOLUME_CLOSED &&
         volume_root (v)->flags & POOL_CLEAN);
  CHECK (volume_resize (v, 13 * SEGMENT, 1) == EBUSY);
  /* Its log keeps its segments. */
  volume_stats (v, &stats);
  CHECK (stats.kept > 0 && stats.spare > stats.kept);
  while (volume_gives (v, &run, 1) > 0)
    ;
  volume_stats (v, &stats);
  CHECK (stats.spare == stats.kept);
  volume_free (v);
}

/* A slot that was cut short becomes zeroes before it is written. */
static void
test_torn_root (void)
{
  static struct pool_root root;
  struct volume *v;
  const char *why;
  int newest;

  config.name = NULL;
  newest = pool_root_newest (slot (0), &pool, &root, &why);
  CHECK (newest != -1);
  zeroes = 0;
  v = open_volume ();
  CHECK (volume_state (v) == VOLUME_OPEN && zeroes == 0);
  volume_free (v);
  newest = pool_root_newest (slot (0), &pool, &root, &why);
  slot (!newest)[30] ^= 1;
  v = open_volume ();
  CHECK (volume_state (v) == VOLUME_OPEN && zeroes == 1);
  CHECK (volume_root (v)->life == root.life + 1);
  volume_free (v);
}

static uint32_t
segments_used (const struct volume *v)
{
  struct volume_run run;
  uint32_t after = 0, count = 0;

  while (volume_uses (v, &after, &run, 1) > 0)
    count += run.count;
  return count;
}

/* A scan reads again what it has read, if the array cannot make that durable. */
static void
test_scan (void)
{
  struct volume *v = open_volume ();
  uint32_t before = segments_used (v);
  uint8_t buf[512] = { 7 };

  memcpy (durable, disk, sizeof disk);
  CHECK (ask (v, ARRAY_WRITE, 5 * SEGMENT, sizeof buf, buf) == 0);
  CHECK (ask (v, ARRAY_FLUSH, 0, 0, NULL) == 0);
  CHECK (segments_used (v) == before + 1);
  volume_free (v);
  config.scan = flush_fails = flush_loses = true;
  v = open_volume ();
  CHECK (volume_state (v) == VOLUME_SCANNED && !flush_fails);
  CHECK (segments_used (v) == before);
  CHECK (memcmp (disk, durable, sizeof disk) == 0);
  volume_free (v);
  config.scan = flush_loses = false;
}

static void
refused (void)
{
  struct volume *v = open_volume ();

  CHECK (volume_state (v) == VOLUME_FAILED && volume_why (v));
  CHECK (ask (v, ARRAY_FLUSH, 0, 0, NULL) == EIO);
  volume_free (v);
}

static void
test_refused (void)
{
  static struct pool_root root;
  const char *why;

  config.name = "w"; /* the root is in use */
  config.uuid[0] ^= 1;
  refused ();
  config.name = NULL; /* it is another's */
  refused ();
  config.uuid[0] ^= 1;
  CHECK (pool_root_newest (slot (0), &pool, &root, &why) != -1);
  root.sequence++;
  root.snapshots_count = 1;
  root.snapshots[0] = (struct pool_snapshot) { .layer = 1,
                                               .flags = POOL_NAMED,
                                               .name = "s" };
  pool_root_encode (&root, slot (root.sequence % 2));
  refused (); /* not without snapshots */
  memset (slot (0), 0, 2 * POOL_ROOT_BYTES);
  refused ();
}

static void
test_deleted (void)
{
  struct volume *v;

  config.name = "v";
  v = open_volume ();
  CHECK (volume_state (v) == VOLUME_OPEN);
  volume_delete (v, 1);
  carry_out (v);
  CHECK (volume_state (v) == VOLUME_DELETED);
  for (unsigned i = 0; i < 2 * POOL_ROOT_BYTES; i++)
    CHECK (slot (0)[i] == 0);
  volume_free (v);
}

/* The volume is new for weftd, because the process that made it has ended. */
static void
test_made_already (void)
{
  struct volume *v = open_volume ();
  uint8_t buf[512] = { 7 };

  CHECK (ask (v, ARRAY_WRITE, 0, sizeof buf, buf) == 0);
  CHECK (ask (v, ARRAY_FLUSH, 0, 0, NULL) == 0);
  volume_free (v);
  v = open_volume ();
  CHECK (volume_state (v) == VOLUME_OPEN && volume_root (v)->life == 2);
  CHECK (ask (v, ARRAY_READ, 0, sizeof buf, buf) == 0 && buf[0] == 7);
  volume_free (v);
}

static struct volume *
delete_closed (void)
{
  struct volume *v = volume_new (&config);

  CHECK (v);
  volume_delete (v, 1);
  CHECK (volume_next_io (v) == NULL);
  volume_open (v, 1);
  carry_out (v);
  return v;
}

/* It cannot be opened, because its log was not granted; it can be deleted, once and again.
 */
static void
test_deleted_closed (void)
{
  struct volume *v;

  config.name = NULL;
  granted = 0;
  v = open_volume ();
  CHECK (volume_state (v) == VOLUME_FAILED);
  volume_free (v);
  config.uuid[0] ^= 1;
  v = delete_closed ();
  CHECK (volume_state (v) == VOLUME_FAILED); /* it is another's */
  volume_free (v);
  config.uuid[0] ^= 1;
  for (unsigned i = 0; i < 2; i++) {
    v = delete_closed ();
    CHECK (volume_state (v) == VOLUME_DELETED);
    volume_free (v);
    for (unsigned k = 0; k < 2 * POOL_ROOT_BYTES; k++)
      CHECK (slot (0)[k] == 0);
  }
  granted = 20;
  config.name = "v";
}

/* The disks were another array's, and a slot that was cut short becomes zeroes. */
static void
test_former_array (void)
{
  struct volume *v;

  pool.array[0] ^= 1;
  config.uuid[0] ^= 1;
  volume_free (open_volume ());
  pool.array[0] ^= 1;
  config.uuid[0] ^= 1;
  zeroes = 0;
  v = open_volume ();
  CHECK (volume_state (v) == VOLUME_OPEN && volume_root (v)->life == 1);
  CHECK (zeroes == 1);
  volume_delete (v, 1);
  carry_out (v);
  volume_free (v);
}

/* Blocks of the log are read, and lost before the array is flushed. */
static void
test_lost_while_opening (void)
{
  struct volume *v = open_volume ();
  struct array_request *io;
  uint8_t buf[512] = { 7 };
  uint32_t before;

  CHECK (ask (v, ARRAY_WRITE, 0, sizeof buf, buf) == 0);
  CHECK (ask (v, ARRAY_FLUSH, 0, 0, NULL) == 0);
  before = segments_used (v);
  memcpy (durable, disk, sizeof disk);
  CHECK (ask (v, ARRAY_WRITE, 5 * SEGMENT, sizeof buf, buf) == 0);
  CHECK (ask (v, ARRAY_FLUSH, 0, 0, NULL) == 0);
  volume_free (v);
  config.name = NULL;
  v = volume_new (&config);
  volume_granted (v, &(struct volume_run) { pool_first_segment (&pool), 20 }, 1,
                  1);
  volume_open (v, 1);
  while ((io = volume_next_io (v))->op != ARRAY_FLUSH) {
    io->error = carry_out_one (io);
    volume_io_done (v, io, 1);
  }
  memcpy (disk, durable, sizeof disk);
  volume_lost (v, 1);
  volume_io_done (v, io, 1);
  carry_out (v);
  CHECK (volume_state (v) == VOLUME_OPEN && segments_used (v) == before);
  volume_delete (v, 1);
  carry_out (v);
  volume_free (v);
  config.name = "v";
}

/* Segments that were given back are another volume's: they are not written. */
static void
test_gives (void)
{
  const uint64_t size = config.size;
  struct volume_request r = { .op = ARRAY_WRITE, .length = 40 * SEGMENT };
  struct volume_stats stats;
  struct volume_run run;
  struct volume *v;

  granted = SEGMENTS - pool_first_segment (&pool);
  config.size = r.length;
  v = open_volume ();
  CHECK (volume_gives (v, &run, 1) == 1);
  CHECK (run.first + run.count == SEGMENTS);
  volume_stats (v, &stats);
  CHECK (stats.spare == granted - run.count);
  memset (disk + run.first * SEGMENT, 5, run.count * SEGMENT);
  r.client = client;
  r.buf = calloc (1, r.length);
  volume_submit (v, &r, 1);
  carry_out (v);
  CHECK (volume_next_done (v) == NULL); /* it waits for segments */
  volume_tick (v, 1 + config.full_wait_ms * NS_PER_MS);
  carry_out (v);
  CHECK (volume_next_done (v) == &r && r.error == ENOSPC);
  for (uint64_t i = run.first * SEGMENT; i < sizeof disk; i++)
    CHECK (disk[i] == 5);
  free (r.buf);
  volume_delete (v, 1);
  carry_out (v);
  volume_free (v);
  config.size = size;
  granted = 20;
}

/* A request is carried out in some segments at a time.  Later requests for the others wait,
 * and so they take effect in the order of submission.
 */
static void
test_many_parts (void)
{
  const uint64_t size = config.size, parts = 2 * VOLUME_PARTS_MAX + 5;
  struct volume_request r[] = {
    { .op = ARRAY_WRITE, .length = parts * SEGMENT },
    { .op = ARRAY_WRITE, .offset = (parts - 1) * SEGMENT, .length = 512 },
    { .op = ARRAY_TRIM, .length = (parts - 9) * SEGMENT },
    { .op = ARRAY_READ, .length = parts * SEGMENT },
  };
  uint8_t *buf = malloc (r[0].length), *back = malloc (r[0].length);
  uint8_t one[512] = { 8 };
  struct volume_request *done;
  struct volume_stats stats;
  struct volume *v;

  CHECK (buf && back);
  memset (buf, 7, r[0].length);
  granted = 0;
  config.size = r[0].length;
  v = open_volume ();
  for (unsigned i = 0; i < 4; i++) {
    r[i].client = client;
    r[i].buf = i == 1 ? one : i == 3 ? back : buf;
  }
  volume_submit (v, &r[0], 1);
  volume_submit (v, &r[1], 1);
  volume_submit (v, &r[2], 1);
  CHECK (volume_next_io (v) == NULL && volume_next_done (v) == NULL);
  volume_stats (v, &stats);
  CHECK (stats.waiting == VOLUME_PARTS_MAX);
  volume_granted (
    v, &(struct volume_run) { pool_first_segment (&pool), parts + 20 }, 1, 1);
  carry_out (v);
  for (unsigned i = 0; i < 3; i++) {
    done = volume_next_done (v);
    CHECK (done && done->error == 0);
  }
  volume_submit (v, &r[3], 1);
  carry_out (v);
  CHECK (volume_next_done (v) == &r[3] && r[3].error == 0);
  memset (buf, 0, r[2].length);
  buf[r[1].offset] = 8;
  memset (buf + r[1].offset + 1, 0, 511);
  CHECK (memcmp (buf, back, r[0].length) == 0);
  volume_delete (v, 1);
  carry_out (v);
  volume_free (v);
  free (buf);
  free (back);
  granted = 20;
  config.size = size;
}

/* The volume gets larger while a trim of all of it waits: its former end is trimmed. */
static void
test_trim_of_the_end (void)
{
  const uint64_t size = config.size, half = SEGMENT / POOL_BLOCKS;
  struct volume_request r[] = {
    { .op = ARRAY_WRITE, .length = half },
    { .op = ARRAY_TRIM, .length = 4 * SEGMENT - half },
    { .op = ARRAY_WRITE, .offset = 6 * SEGMENT, .length = half },
  };
  uint8_t buf[SEGMENT / POOL_BLOCKS] = { 7 };
  struct array_request *io;
  struct volume *v;

  pool.segment_bytes = 2 * SEGMENT;
  pool.segments = SEGMENTS / 2;
  config.size = r[1].length;
  config.parts = 1;
  v = open_volume ();
  CHECK (ask (v, ARRAY_WRITE, config.size - half, half, buf) == 0);
  for (unsigned i = 0; i < 3; i++) {
    r[i].client = client;
    r[i].buf = buf;
  }
  volume_submit (v, &r[0], 1);
  io = volume_next_io (v);
  CHECK (io && io->op == ARRAY_WRITE);
  volume_submit (v, &r[1], 1);
  CHECK (volume_next_io (v) == NULL);
  CHECK (volume_resize (v, 8 * SEGMENT, 1) == 0);
  volume_submit (v, &r[2], 1); /* it does not overlap, and does not wait */
  carry_out (v);
  CHECK (volume_next_done (v) == &r[2] && volume_next_done (v) == NULL);
  volume_io_done (v, io, 1);
  carry_out (v);
  CHECK (volume_next_done (v) == &r[0] && volume_next_done (v) == &r[1]);
  CHECK (ask (v, ARRAY_READ, config.size - half, half, buf) == 0);
  CHECK (buf[0] == 0);
  volume_delete (v, 1);
  carry_out (v);
  volume_free (v);
  pool.segment_bytes = SEGMENT;
  pool.segments = SEGMENTS;
  config.parts = 0;
  config.size = size;
}

/* Without space each request fails once, and soon: it begins no further parts. */
static void
test_many_parts_fail (void)
{
  const uint64_t size = config.size, parts = 2 * VOLUME_PARTS_MAX + 5;
  struct volume_request r = { .op = ARRAY_WRITE, .length = parts * SEGMENT };
  struct volume *v;

  granted = 0;
  config.size = r.length;
  v = open_volume ();
  r.client = client;
  r.buf = calloc (1, r.length);
  CHECK (r.buf);
  volume_submit (v, &r, 1);
  volume_tick (v, 1 + config.full_wait_ms * NS_PER_MS);
  CHECK (volume_next_done (v) == &r && r.error == ENOSPC);
  volume_delete (v, 1);
  carry_out (v);
  volume_free (v);
  free (r.buf);
  granted = 20;
  config.size = size;
}

/* The log still names blocks that a trim has taken out of the map: the same trim with FUA
 * waits for the log.
 */
static void
test_fua_of_a_hole (void)
{
  struct volume *v = open_volume ();
  struct volume_request r = { .op = ARRAY_TRIM,
                              .flags = ARRAY_FUA,
                              .length = SEGMENT };
  uint8_t buf[512] = { 7 };

  CHECK (ask (v, ARRAY_WRITE, 0, sizeof buf, buf) == 0);
  CHECK (ask (v, ARRAY_FLUSH, 0, 0, NULL) == 0);
  CHECK (ask (v, ARRAY_TRIM, 0, SEGMENT, NULL) == 0);
  r.client = client;
  volume_submit (v, &r, 1);
  CHECK (volume_next_done (v) == NULL);
  carry_out (v);
  CHECK (volume_next_done (v) == &r && r.error == 0);
  volume_free (v);
  config.name = NULL;
  v = open_volume ();
  CHECK (ask (v, ARRAY_READ, 0, sizeof buf, buf) == 0 && buf[0] == 0);
  volume_delete (v, 1);
  carry_out (v);
  volume_free (v);
  config.name = "v";
}

/* The window has grown, and gets smaller while no segment is taken. */
static void
test_window (void)
{
  struct volume_run more[] = { { pool_first_segment (&pool) + 20, 8 } }, run;
  const uint64_t second = VOLUME_WINDOW_MS * NS_PER_MS;
  struct volume_stats stats;
  uint8_t buf[512] = { 7 };
  struct volume *v;

  granted = 20;
  v = open_volume ();
  volume_granted (v, more, 1, 1);
  more[0].first += 8;
  volume_granted (v, more, 1, 1); /* it is less than half of the window */
  CHECK (ask (v, ARRAY_WRITE, 0, sizeof buf, buf) == 0);
  volume_tick (v, second);
  CHECK (volume_gives (v, &run, 1) == 0);
  volume_tick (v, second + 1);
  CHECK (volume_gives (v, &run, 1) == 1 && run.count == 17);
  volume_tick (v, 3 * second);
  CHECK (volume_gives (v, &run, 1) == 0);
  volume_stats (v, &stats);
  CHECK (stats.spare == 18);
  for (unsigned i = 0; i < 2; i++) { /* into the empty places */
    volume_granted (v, &run, 1, (3 + 2 * i) * second);
    volume_check (v);
    volume_stats (v, &stats);
    CHECK (stats.spare == 35);
    volume_tick (v, (5 + 2 * i) * second);
    CHECK (volume_gives (v, &run, 1) == 1);
  }
  volume_delete (v, 1);
  carry_out (v);
  volume_free (v);
}

/* The FLUSH that tells of a loss fails, and what was written after the loss stays. */
static void
test_written_after_a_loss (void)
{
  struct volume *v = open_volume ();
  uint8_t buf[512] = { 7 }, back[512];
  struct volume_request flush = { .op = ARRAY_FLUSH, .client = client };
  struct array_request *io;

  CHECK (ask (v, ARRAY_WRITE, 0, sizeof buf, buf) == 0);
  volume_lost (v, 1);
  CHECK (ask (v, ARRAY_READ, 0, sizeof back, back) == 0 && back[0] == 0);
  CHECK (ask (v, ARRAY_WRITE, 0, sizeof buf, buf) == 0);
  volume_submit (v, &flush, 1);
  io = volume_next_io (v);
  CHECK (io->op == ARRAY_FLUSH);
  io->error = EIO;
  volume_io_done (v, io, 1);
  carry_out (v);
  CHECK (volume_next_done (v) == &flush && flush.error == EIO);
  CHECK (ask (v, ARRAY_READ, 0, sizeof back, back) == 0 && back[0] == 7);
  CHECK (ask (v, ARRAY_FLUSH, 0, 0, NULL) == 0);
  volume_delete (v, 1);
  carry_out (v);
  volume_free (v);
}

/* A FLUSH that began before the answer of a lost write fails; the client's next FLUSH fails
 * as well, though one of another client has failed meanwhile.
 */
static void
test_told_twice (void)
{
  struct volume *v = open_volume ();
  struct volume_client *first = client, *other = volume_client_open (v, NULL);
  uint8_t buf[512] = { 7 };
  struct volume_request flush[2] = { { .op = ARRAY_FLUSH, .client = client },
                                     { .op = ARRAY_FLUSH, .client = client } };
  struct volume_request r = { .op = ARRAY_WRITE,
                              .client = client,
                              .offset = SEGMENT,
                              .length = sizeof buf,
                              .buf = buf };
  struct array_request *flushes, *writes;

  CHECK (ask (v, ARRAY_WRITE, 0, sizeof buf, buf) == 0);
  volume_submit (v, &flush[0], 1);
  flushes = volume_next_io (v);
  CHECK (flushes->op == ARRAY_FLUSH);
  volume_submit (v, &r, 1);
  writes = volume_next_io (v);
  CHECK (writes->op == ARRAY_WRITE);
  volume_submit (v, &flush[1], 1); /* it waits for the first one */
  CHECK (volume_next_io (v) == NULL);
  volume_io_done (v, writes, 1);
  CHECK (volume_next_done (v) == &r && r.error == 0);
  flush_fails = true;
  volume_io_done (v, flushes, 1);
  carry_out (v);
  CHECK (!flush_fails);
  CHECK (volume_next_done (v) == &flush[0] && flush[0].error == 0);
  CHECK (volume_next_done (v) == &flush[1] && flush[1].error == EIO);
  client = other;
  CHECK (ask (v, ARRAY_FLUSH, 0, 0, NULL) == EIO);
  client = first;
  CHECK (ask (v, ARRAY_FLUSH, 0, 0, NULL) == EIO);
  CHECK (ask (v, ARRAY_FLUSH, 0, 0, NULL) == 0);
  volume_delete (v, 1);
  carry_out (v);
  volume_free (v);
}

/* A block is in the log, and the group that is being written drops it: a write with FUA
 * waits until the log has the block again.
 */
static void
test_fua_of_a_dropped_block (void)
{
  struct volume *v = open_volume ();
  uint8_t buf[2 * SEGMENT / POOL_BLOCKS] = { 7 };
  struct volume_request flush = { .op = ARRAY_FLUSH, .client = client };
  struct volume_request w[2] = {
    { .op = ARRAY_WRITE, .length = SEGMENT / POOL_BLOCKS },
    { .op = ARRAY_WRITE, .length = SEGMENT / POOL_BLOCKS, .flags = ARRAY_FUA },
  };
  struct array_request *flushes, *writes;

  CHECK (ask (v, ARRAY_WRITE, 0, sizeof buf, buf) == 0);
  CHECK (ask (v, ARRAY_FLUSH, 0, 0, NULL) == 0);
  CHECK (ask (v, ARRAY_TRIM, 0, SEGMENT / POOL_BLOCKS, NULL) == 0);
  volume_submit (v, &flush, 1);
  flushes = volume_next_io (v);
  CHECK (flushes->op == ARRAY_FLUSH);
  for (unsigned i = 0; i < 2; i++) {
    w[i].client = client;
    w[i].buf = buf;
    volume_submit (v, &w[i], 1);
    writes = volume_next_io (v);
    CHECK (writes->op == ARRAY_WRITE && writes->flags == w[i].flags);
    writes->error = carry_out_one (writes);
    volume_io_done (v, writes, 1);
    CHECK (volume_next_done (v) == (i == 0 ? &w[i] : NULL));
  }
  volume_io_done (v, flushes, 1);
  carry_out (v);
  CHECK (volume_next_done (v) == &flush && flush.error == 0);
  CHECK (volume_next_done (v) == &w[1] && w[1].error == 0);
  volume_free (v);
  config.name = NULL;
  v = open_volume ();
  CHECK (ask (v, ARRAY_READ, 0, 512, buf) == 0 && buf[0] == 7);
  volume_delete (v, 1);
  carry_out (v);
  volume_free (v);
  config.name = "v";
}

/* The log of a volume without data is rewritten to a segment in which an earlier life has
 * left a block of the same sequence number.  No root has named that segment.
 */
static void
test_empty_log (void)
{
  struct volume *v = open_volume ();
  uint8_t buf[512] = { 7 };
  uint64_t first, at = 0;

  first = volume_root (v)->log_sequence;
  config.name = NULL;
  do {
    root_fails = at > 0; /* when the log is rewritten */
    CHECK (at < SEGMENT && volume_root (v)->log_sequence == first);
    CHECK (ask (v, ARRAY_WRITE, at, sizeof buf, buf) == 0);
    at += sizeof buf;
  } while (ask (v, ARRAY_FLUSH, 0, 0, NULL) == 0);
  root_fails = false;
  volume_free (v);
  v = open_volume ();
  CHECK (volume_root (v)->log_sequence == first);
  CHECK (ask (v, ARRAY_READ, 0, sizeof buf, buf) == 0 && buf[0] == 7);
  CHECK (ask (v, ARRAY_TRIM, 0, SEGMENT, NULL) == 0);
  CHECK (ask (v, ARRAY_FLUSH, 0, 0, NULL) == 0);
  CHECK (volume_root (v)->log_sequence > first);
  volume_free (v);
  v = open_volume ();
  CHECK (volume_state (v) == VOLUME_OPEN && segments_used (v) == 1);
  CHECK (ask (v, ARRAY_READ, 0, sizeof buf, buf) == 0 && buf[0] == 0);
  volume_free (v);
}

int
main (void)
{
  test_random_start ();
  test_requests ();
  test_torn_root ();
  test_scan ();
  test_refused ();
  test_deleted ();
  test_made_already ();
  test_deleted_closed ();
  test_former_array ();
  test_lost_while_opening ();
  test_gives ();
  test_many_parts ();
  test_trim_of_the_end ();
  test_many_parts_fail ();
  test_fua_of_a_hole ();
  test_window ();
  test_written_after_a_loss ();
  test_told_twice ();
  test_fua_of_a_dropped_block ();
  test_empty_log ();
  return 0;
}
