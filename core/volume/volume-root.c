/* volume-root.c: the root is written, one write at a time.
 *
 * The two slots are written in turn, and always the one that is not the newest durable
 * root: so a write that is cut short, or fails, leaves that as it is.  A slot that an
 * earlier life has left cut short becomes zeroes first: else a part of what is written
 * there now could make that whole.
 */

#include <config.h>

#include <assert.h>

#include "volume-internal.h"

uint64_t
volume_root_put (struct volume *v)
{
  v->look = true;
  return ++v->rootio.version;
}

static uint64_t
slot_offset (const struct volume *v, uint64_t sequence)
{
  return pool_root_offset (&v->config.pool, v->config.number) +
         sequence % 2 * POOL_ROOT_BYTES;
}

static void
slot_send (struct volume *v, enum array_op op, uint64_t sequence, size_t length)
{
  v->rootio.busy = true;
  v->rootio.vio.io = (struct array_request) {
    .op = op,
    .client = v->config.array,
    .flags = ARRAY_FUA,
    .offset = slot_offset (v, sequence),
    .length = length,
    .buf = op == ARRAY_WRITE ? v->rootio.buf : NULL,
  };
  volume_request_send (v, &v->rootio.vio, VIO_ROOT, NULL);
}

void
volume_root_erase (struct volume *v)
{
  v->rootio.erase = 2;
  v->look = true;
}

/* The older slot first: if only one is erased, the newest root is still there. */
static void
erase_next (struct volume *v)
{
  slot_send (v, ARRAY_ZERO, v->durable->sequence + (v->rootio.erase == 2),
             POOL_ROOT_BYTES);
}

void
volume_root_pump (struct volume *v)
{
  if (v->rootio.busy || v->rootio.failed)
    return;
  if (v->rootio.erase > 0) {
    erase_next (v);
    return;
  }
  if (v->rootio.version == v->rootio.sent)
    return;
  if (v->rootio.scrub) {
    slot_send (v, ARRAY_ZERO, v->durable->sequence + 1, POOL_ROOT_BYTES);
    return;
  }
  *v->sending = *v->root;
  v->sending->sequence = v->durable->sequence + 1;
  v->rootio.sent = v->rootio.version;
  slot_send (v, ARRAY_WRITE, v->sending->sequence,
             pool_root_encode (v->sending, v->rootio.buf));
}

void
volume_root_answered (struct volume *v, int error)
{
  v->rootio.busy = false;
  v->look = true;
  if (error) {
    v->rootio.failed = true;
    volume_request_broken (v, "its root cannot be written");
    if (v->state == VOLUME_CLOSING)
      v->state = VOLUME_FAILED;
  }
  else if (v->rootio.erase > 0) {
    v->rootio.erase--;
    if (v->rootio.erase == 0)
      v->state = VOLUME_DELETED;
  }
  else if (v->rootio.scrub)
    v->rootio.scrub = false;
  else {
    *v->durable = *v->sending;
    v->rootio.stable = v->rootio.sent;
  }
}
