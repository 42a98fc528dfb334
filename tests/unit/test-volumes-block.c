/* test-volumes-block.c: the block of a pool (plugin/volumes-block.h), over a real array
 * engine with one member in memory.
 */

#include <config.h>

#include <errno.h>
#include <string.h>

#include "plugin/array-block.h"
#include "plugin/loss.h"
#include "test-random.h"
#include "plugin/volumes-block.h"

#define SEGMENT KiB (256)
#define SEGMENTS 40
#define BLOCK (SEGMENT / POOL_BLOCKS)
#define MS UINT64_C (1000000)

static uint8_t disk[SEGMENT * SEGMENTS], durable[SEGMENT * SEGMENTS];
static struct pool_header pool = { .array = "array",
                                   .sequence = 1,
                                   .segment_bytes = SEGMENT,
                                   .segments = SEGMENTS,
                                   .roots = 2 };
static struct array *array;
static struct block *block;
static uint64_t now = 1000 * MS;
static unsigned told;
static struct array_request *last; /* that is done */
static struct volumes_slot *slot[2];
static struct array_client *client[2];

/* No block of this array is bad. */
bool
loss_any (void)
{
  return false;
}

static void
news (void *opaque)
{
  CHECK (opaque == disk);
  told++;
}

static struct array_io *
take (void)
{
  struct array_request *r;

  while ((r = block->ops->next_done (block, now))) {
    CHECK (last == NULL && r->owner == disk);
    last = r;
  }
  return block->ops->next_io (block);
}

static void
io_answer (struct array_io *io)
{
  if (io->kind == IO_READ)
    memcpy (io->buf, disk + io->offset, io->length);
  else if (io->kind == IO_WRITE)
    memcpy (disk + io->offset, io->buf, io->length);
  else if (io->kind == IO_ZERO)
    memset (disk + io->offset, 0, io->length);
  if (io->kind == IO_FLUSH)
    memcpy (durable, disk, sizeof disk);
  else if (io->flags & ARRAY_FUA)
    memcpy (durable + io->offset, disk + io->offset, io->length);
  block->ops->io_done (block, io, 0, now);
}

static void
answer_all (void)
{
  struct array_io *io;

  while ((io = take ()))
    io_answer (io);
}

static struct array_request *
submit (struct array_client *c, enum array_op op, uint64_t offset,
        uint64_t length, void *buf)
{
  static struct array_request r[4];
  static unsigned i;
  struct array_request *q = &r[i++ % 4];

  *q = (struct array_request) { .op = op,
                                .client = c,
                                .offset = offset,
                                .length = length,
                                .buf = buf,
                                .owner = disk };
  block->ops->submit (block, q, now);
  return q;
}

static int
run (struct array_client *c, enum array_op op, uint64_t offset, uint64_t length,
     void *buf)
{
  struct array_request *r = submit (c, op, offset, length, buf);

  answer_all ();
  CHECK (last == r && r->client == c);
  last = NULL;
  free (r->extents);
  return r->error;
}

static void
volume_make (unsigned i, uint32_t segments)
{
  struct volume_config config = { .pool = pool,
                                  .number = i,
                                  .name = "v",
                                  .size = 8 * SEGMENT,
                                  .full_wait_ms = 1000 };
  struct volume_run run = { pool_first_segment (&pool) + i * 16, segments };
  struct volume *v;

  config.uuid[0] = (uint8_t) (1 + i);
  slot[i] = volumes_block_add (block, &config);
  CHECK (slot[i]);
  v = volumes_block_volume (block, slot[i]);
  volume_granted (v, &run, 1, now);
  volume_open (v, now);
  answer_all ();
}

static void
begin (void)
{
  static const struct array_config usual = { .image_buffer_bytes = MiB (1),
                                             .image_age_ms = 200,
                                             .io_timeout_ms = 15000,
                                             .epoch = 1 };
  struct array_config config = usual;
  char why[200];

  CHECK (layout_init (&config.layout, LAYOUT_RAID0, 1, 1, KiB (64), sizeof disk,
                      why, sizeof why) == 0);
  memset (disk, 'J', sizeof disk);
  memset (disk, 0, pool_first_segment (&pool) * SEGMENT);
  memcpy (durable, disk, sizeof disk);
  array = array_new (&config, now, why, sizeof why);
  block = volumes_block_new (array_block_new (array, config.layout.size), array,
                             news, disk);
  CHECK (block && block->ops->size (block) == sizeof disk);
  told = 0;
  for (unsigned i = 0; i < 2; i++) {
    volume_make (i, 8);
    CHECK (volume_state (volumes_block_volume (block, slot[i])) == VOLUME_OPEN);
    client[i] = volumes_block_client (block, slot[i]);
  }
  CHECK (told >= 2);
}

static void
end (void)
{
  block->ops->stop (block, ESHUTDOWN, now);
  answer_all ();
  block->ops->free (block);
}

/* Each volume has its own data, and a client of the array sees the array. */
static void
test_two (void)
{
  struct array_client *below;
  struct array_request *r;
  struct array_io *io;
  uint8_t out[BLOCK], in[BLOCK];

  begin ();
  below = block->ops->client_open (block);
  for (unsigned i = 0; i < 2; i++) {
    memset (out, 'a' + (int) i, sizeof out);
    CHECK (run (client[i], ARRAY_WRITE, SEGMENT, BLOCK, out) == 0);
    CHECK (run (client[i], ARRAY_FLUSH, 0, 0, NULL) == 0);
  }
  for (unsigned i = 0; i < 2; i++) {
    CHECK (run (client[i], ARRAY_READ, SEGMENT, BLOCK, in) == 0 &&
           in[0] == 'a' + i);
    CHECK (run (client[i], ARRAY_READ, 0, BLOCK, in) == 0 && in[0] == 0);
    CHECK (run (client[i], ARRAY_EXTENTS, 0, 2 * SEGMENT, NULL) == 0);
  }
  CHECK (run (below, ARRAY_READ, (SEGMENTS - 1) * SEGMENT, BLOCK, in) == 0 &&
         in[0] == 'J');
  CHECK (run (NULL, ARRAY_FLUSH, 0, 0, NULL) == 0);
  CHECK (run (client[0], ARRAY_READ, 8 * SEGMENT, 1, in) == EINVAL);
  /* A read of a present block goes to the member in the same turn. */
  r = submit (client[1], ARRAY_READ, SEGMENT + 512, 512, in);
  io = take ();
  CHECK (io && io->kind == IO_READ && io->length == 512 && last == NULL);
  io_answer (io);
  answer_all ();
  CHECK (last == r && in[0] == 'b');
  last = NULL;
  block->ops->client_close (block, below);
  block->ops->client_close (block, client[0]);
  end ();
}

/* The member comes back without what was not flushed. */
static void
test_loss (void)
{
  enum member_state in_sync = MEMBER_IN_SYNC;
  uint8_t out[BLOCK], in[BLOCK];

  begin ();
  memset (out, 'a', sizeof out);
  CHECK (run (client[0], ARRAY_WRITE, 0, BLOCK, out) == 0);
  CHECK (run (client[0], ARRAY_FLUSH, 0, 0, NULL) == 0);
  CHECK (run (client[1], ARRAY_WRITE, 0, BLOCK, out) == 0);
  CHECK (run (client[0], ARRAY_WRITE, BLOCK, BLOCK, out) == 0);
  block->ops->lost (block, 0, "its power is gone", now);
  answer_all ();
  memcpy (disk, durable, sizeof disk);
  array_back (array, 0, false, UINT64_MAX, now);
  array_commit (array, 1, &in_sync, now);
  for (unsigned i = 0; i < 2; i++) {
    CHECK (run (client[i], ARRAY_READ, i == 0 ? BLOCK : 0, BLOCK, in) == 0);
    CHECK (in[0] == 0 && in[BLOCK - 1] == 0);
  }
  CHECK (run (client[0], ARRAY_READ, 0, BLOCK, in) == 0 && in[0] == 'a');
  for (unsigned i = 0; i < 2; i++)
    CHECK (run (client[i], ARRAY_FLUSH, 0, 0, NULL) == EIO &&
           run (client[i], ARRAY_FLUSH, 0, 0, NULL) == 0);
  end ();
}

/* A write waits for space until its time is over, and all else goes on. */
static void
test_full (void)
{
  static uint8_t out[8 * SEGMENT];
  struct array_request *r;
  uint8_t in[512];

  begin ();
  r = submit (client[0], ARRAY_WRITE, 0, sizeof out, out);
  answer_all ();
  CHECK (last == NULL);
  told = 0;
  CHECK (run (client[1], ARRAY_WRITE, 0, 512, out) == 0);
  CHECK (run (client[0], ARRAY_READ, 0, 512, in) == 0);
  CHECK (block->ops->deadline (block) <= now + 1000 * MS);
  for (unsigned i = 0; last == NULL && i < 100; i++) {
    now = block->ops->deadline (block);
    block->ops->tick (block, now);
    answer_all ();
  }
  CHECK (last == r && r->error == ENOSPC);
  last = NULL;
  end ();
}

/* Waiting requests fail, and a volume that is added later is not opened. */
static void
test_stop (void)
{
  static uint8_t out[8 * SEGMENT];
  struct array_request *r;

  begin ();
  r = submit (client[0], ARRAY_WRITE, 0, sizeof out, out);
  answer_all ();
  CHECK (last == NULL);
  block->ops->stop (block, ESHUTDOWN, now);
  answer_all ();
  CHECK (last == r && r->error == ESHUTDOWN);
  last = NULL;
  CHECK (run (client[1], ARRAY_READ, 0, 512, out) == ESHUTDOWN);
  block->ops->client_close (block, client[1]);
  volume_close (volumes_block_volume (block, slot[1]), now);
  answer_all ();
  CHECK (volume_state (volumes_block_volume (block, slot[1])) != VOLUME_CLOSED);
  volumes_block_drop (block, slot[1]);
  volume_make (1, 8);
  CHECK (volume_state (volumes_block_volume (block, slot[1])) == VOLUME_FAILED);
  end ();
}

static void
test_closed (void)
{
  begin ();
  for (unsigned i = 0; i < 2; i++) {
    struct volume *v = volumes_block_volume (block, slot[i]);

    block->ops->client_close (block, client[i]);
    if (i == 0)
      volume_close (v, now);
    else
      volume_delete (v, now);
    answer_all ();
    CHECK (volume_state (v) == (i == 0 ? VOLUME_CLOSED : VOLUME_DELETED));
    volumes_block_drop (block, slot[i]);
  }
  end ();
}

int
main (void)
{
  test_random_start ();
  test_two ();
  test_loss ();
  test_full ();
  test_stop ();
  test_closed ();
  return 0;
}
