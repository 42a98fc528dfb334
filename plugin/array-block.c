/* array-block.c: see array-block.h. */

#include <config.h>

#include <stdlib.h>

#include "array-block.h"
#include "format/bad.h"
#include "loss.h"

struct array_block {
  struct block block; /* the first */
  struct array *array;
  uint64_t size;
};

static struct array *
array_of (const struct block *b)
{
  return ((const struct array_block *) b)->array;
}

static uint64_t
size (const struct block *b)
{
  return ((const struct array_block *) b)->size;
}

/* A bad block stays bad until it is written as a whole: while there are any, clients may
 * not write less.  Clients that are already connected may; these writes are kept, and the
 * rest of the block stays unreadable.
 */
static void
limits (const struct block *b, uint32_t *minimum, uint32_t *preferred,
        uint32_t *maximum)
{
  *minimum = loss_any () ? BAD_BLOCK_BYTES : 1;
  *preferred = 4096;
  *maximum = REQUEST_BYTES_ADVERTISED;
}

static struct array_client *
client_open (struct block *b)
{
  return array_client_open (array_of (b));
}

static void
client_close (struct block *b, struct array_client *c)
{
  array_client_close (array_of (b), c);
}

static void
submit (struct block *b, struct array_request *r, uint64_t now_ns)
{
  array_submit (array_of (b), r, now_ns);
}

static struct array_request *
next_done (struct block *b, uint64_t now_ns)
{
  (void) now_ns;
  return array_next_done (array_of (b));
}

static struct array_io *
next_io (struct block *b)
{
  return array_next_io (array_of (b));
}

static void
io_done (struct block *b, struct array_io *io, int error, uint64_t now_ns)
{
  array_io_done (array_of (b), io, error, now_ns);
}

static void
heard (struct block *b, unsigned member, uint64_t heard_ns)
{
  array_heard (array_of (b), member, heard_ns);
}

static void
lost (struct block *b, unsigned member, const char *reason, uint64_t now_ns)
{
  array_lost (array_of (b), member, reason, now_ns);
}

static bool
next_notice (struct block *b, struct array_notice *n)
{
  return array_next_notice (array_of (b), n);
}

static uint64_t
deadline (const struct block *b)
{
  return array_deadline (array_of (b));
}

static void
tick (struct block *b, uint64_t now_ns)
{
  array_tick (array_of (b), now_ns);
}

static bool
awaited (const struct block *b)
{
  return array_lease_leaves (array_of (b));
}

static void
stop (struct block *b, int error, uint64_t now_ns)
{
  array_stop (array_of (b), error, now_ns);
}

static void
free_array (struct block *b)
{
  array_free (array_of (b));
  free (b);
}

static const struct block_ops ops = {
  .size = size,
  .limits = limits,
  .client_open = client_open,
  .client_close = client_close,
  .submit = submit,
  .next_done = next_done,
  .next_io = next_io,
  .io_done = io_done,
  .heard = heard,
  .lost = lost,
  .next_notice = next_notice,
  .deadline = deadline,
  .tick = tick,
  .awaited = awaited,
  .stop = stop,
  .free = free_array,
};

struct block *
array_block_new (struct array *array, uint64_t size)
{
  struct array_block *b = malloc (sizeof *b);

  if (b == NULL)
    return NULL;
  b->block.ops = &ops;
  b->array = array;
  b->size = size;
  return &b->block;
}
