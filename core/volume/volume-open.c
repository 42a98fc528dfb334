/* volume-open.c: a volume is opened: its root and log are read, and a new life begins.
 *
 * The root is the newer valid one of the two slots.  The log is read as long as its
 * blocks are valid, each is the successor of the one before, and the life does not fall.
 * The life matters: of a group that was cut off a later block may be whole, and it is no
 * successor of what the next life writes before it.
 *
 * The root and the log may be in the members' caches alone.  So the engine flushes the
 * array before it writes anything that relies on them, or ends a scan.  Then the root gets
 * the next life.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "volume-internal.h"

#define READ_BYTES (2 * POOL_ROOT_BYTES)
#define OPEN_TRIES_MAX 8

static void
open_fail (struct volume *v, const char *why)
{
  v->state = VOLUME_FAILED;
  volume_request_broken (v, why);
}

static void
open_read (struct volume *v, uint64_t offset, uint64_t bytes)
{
  v->open.bytes = bytes;
  v->open.vio.io = (struct array_request) {
    .op = ARRAY_READ,
    .client = v->config.array,
    .offset = offset,
    .length = bytes,
    .buf = v->open.buf,
  };
  volume_request_send (v, &v->open.vio, VIO_OPEN, NULL);
}

void
volume_open_begin (struct volume *v)
{
  v->open.step = OPEN_ROOT;
  v->open.lost = false;
  open_read (v, pool_root_offset (&v->config.pool, v->config.number),
             READ_BYTES);
}

/* ---- The root ---- */

static bool
map_new (struct volume *v)
{
  uint64_t bytes = v->config.pool.segment_bytes;

  v->map_count = (uint32_t) ((v->root->size + bytes - 1) / bytes);
  v->map = malloc ((v->map_count + 1) * sizeof v->map[0]);
  if (v->map)
    memset (v->map, 0xff, v->map_count * sizeof v->map[0]);
  else
    open_fail (v, "there is no memory for its map");
  return v->map != NULL;
}

/* Is either slot a root of another volume? */
static bool
root_is_anothers (struct volume *v)
{
  const char *why;

  for (unsigned i = 0; i < 2; i++)
    if (pool_root_decode (v->open.buf + i * POOL_ROOT_BYTES, &v->config.pool,
                          v->sending, &why) == 0 &&
        memcmp (v->sending->volume, v->config.uuid, 16) != 0)
      return true;
  return false;
}

static void
root_make (struct volume *v)
{
  struct pool_root *r = v->root;

  memset (r, 0, sizeof *r);
  v->rootio.scrub = !all_zero (v->open.buf + POOL_ROOT_BYTES, POOL_ROOT_BYTES);
  memcpy (r->array, v->config.pool.array, 16);
  memcpy (r->volume, v->config.uuid, 16);
  strncpy (r->name, v->config.name, NAME_BYTES_MAX);
  r->size = v->config.size;
  r->head = r->highest = 1;
  r->log_sequence = 1;
  r->sequence = 1; /* the first one's */
  if (pool_root_check (r, &v->config.pool))
    open_fail (v, pool_root_check (r, &v->config.pool));
  else if (map_new (v))
    v->open.step = OPEN_FLUSH;
}

/* Its segments of the log are not spare. */
static const char *
root_log (struct volume *v)
{
  for (uint32_t i = 0; i < v->root->log_count; i++)
    if (space_take_this (v, v->root->log[i], PLACE_LOG) == NONE)
      return "a segment of its log was not granted to it";
  return NULL;
}

/* Is the slot that is written next neither a root nor empty? */
static bool
root_torn (struct volume *v)
{
  const uint8_t *slot = v->open.buf +
                        (v->root->sequence + 1) % 2 * POOL_ROOT_BYTES;
  const char *why;

  return !all_zero (slot, POOL_ROOT_BYTES) &&
         pool_root_decode (slot, &v->config.pool, v->sending, &why) == -1;
}

static void
root_read (struct volume *v)
{
  struct pool_root *r = v->root;
  const char *why = NULL;
  bool there = pool_root_newest (v->open.buf, &v->config.pool, r, &why) != -1;

  if (root_is_anothers (v))
    open_fail (v, "its root is another volume's");
  else if (v->deleting) {
    if (there)
      *v->durable = *r;
    memset (r, 0, sizeof *r);
    r->log_sequence = v->log.sequence;
    v->state = VOLUME_CLOSING;
  }
  else if (!there && v->config.name)
    root_make (v);
  else if (!there)
    open_fail (v, why);
  else if (r->snapshots_count || r->branches_count || r->origin_layer ||
           r->flags & ~(uint32_t) POOL_CLEAN || r->head != 1)
    open_fail (v, "it has snapshots or an origin: a later Weft is needed");
  else if ((why = root_log (v)))
    open_fail (v, why);
  else if (map_new (v)) {
    *v->durable = *r;
    v->rootio.scrub = root_torn (v);
    v->log.sequence = r->log_sequence;
    v->open.step = OPEN_LOG;
  }
}

/* ---- The log ---- */

/* A segment that is another's now, nobody's, or the log's: a later entry must say that it
 * is gone.
 */
static void
stranger (struct volume *v, const struct pool_entry *e)
{
  spans_set (&v->open.strangers, e->segment, e->segment + 1,
             e->kind != POOL_GONE);
}

static const char *
entry_apply (struct volume *v, const struct pool_entry *e)
{
  uint32_t place = space_find (v, e->segment);
  struct place *p = place == NONE ? NULL : &v->places[place];

  if (!p || p->state == PLACE_LOG) {
    stranger (v, e);
    return NULL;
  }
  if (e->kind == POOL_GONE) {
    if (p->state == PLACE_DATA)
      space_spare (v, place);
    return NULL;
  }
  if (e->kind != POOL_DATA || e->layer != 1)
    return "its log has entries of snapshots: a later Weft is needed";
  if (e->at >= v->map_count)
    return "its log names a segment beyond its end";
  if (p->state == PLACE_SPARE)
    space_take_this (v, e->segment, PLACE_DATA);
  p->at = e->at;
  p->blocks = p->logged = e->blocks;
  p->named = true;
  return NULL;
}

/* Each place is that of a segment of the volume, and each of those has one. */
static const char *
map_fill (struct volume *v)
{
  if (v->open.strangers.count > 0)
    return "its log names a segment that was not granted to it for data";
  for (uint32_t i = 0; i < v->places_count; i++) {
    if (v->places[i].state != PLACE_DATA)
      continue;
    if (v->map[v->places[i].at] != NONE)
      return "its log names two segments for one of the volume";
    v->map[v->places[i].at] = i;
  }
  return NULL;
}

static void
log_over (struct volume *v)
{
  const char *why = map_fill (v);

  v->log.sequence = v->root->log_sequence + v->open.block;
  if (why)
    open_fail (v, why);
  else
    v->open.step = OPEN_FLUSH;
}

/* Is this block the next one of the log? */
static bool
follows (const struct volume *v, const struct pool_log_block *b)
{
  return memcmp (b->volume, v->root->volume, sizeof b->volume) == 0 &&
         b->sequence == v->root->log_sequence + v->open.block &&
         b->life >= v->open.life && b->life <= v->root->life;
}

/* The blocks that were read; false: the log ends with them, or is wrong. */
static bool
blocks_apply (struct volume *v)
{
  struct pool_log_block b;
  const char *why = NULL;

  for (uint64_t at = 0; at < v->open.bytes; at += POOL_LOG_BLOCK_BYTES) {
    int valid = pool_log_decode (v->open.buf + at, &v->config.pool, &b, &why);

    if (valid == -1 || !follows (v, &b))
      return false;
    for (unsigned i = 0; valid == 0 && i < b.count; i++)
      if ((why = entry_apply (v, &b.entries[i])))
        valid = -2;
    if (valid == -2) {
      open_fail (v, why);
      return false;
    }
    v->open.life = b.life;
    v->open.block++;
  }
  return true;
}

/* The next blocks, which are in one segment; or the log is over. */
static void
log_next (struct volume *v)
{
  uint64_t room = space_log_room (v), at = v->open.block % room;
  uint64_t i = v->open.block / room;
  uint64_t bytes = (room - at) * POOL_LOG_BLOCK_BYTES;

  if (i == v->root->log_count)
    log_over (v);
  else
    open_read (v,
               (uint64_t) v->root->log[i] * v->config.pool.segment_bytes +
                 at * POOL_LOG_BLOCK_BYTES,
               bytes < READ_BYTES ? bytes : READ_BYTES);
}

/* ---- The steps ---- */

static void
flush_send (struct volume *v)
{
  v->open.vio.io = (struct array_request) {
    .op = ARRAY_FLUSH,
    .client = v->config.array,
  };
  volume_request_send (v, &v->open.vio, VIO_OPEN, NULL);
}

static void
life_begin (struct volume *v)
{
  v->root->life++;
  v->root->flags &= ~(uint32_t) POOL_CLEAN;
  v->open.wants = volume_root_put (v);
  v->open.step = OPEN_LIFE;
}

static void
next_read (struct volume *v)
{
  if (v->open.step == OPEN_ROOT) {
    root_read (v);
    if (v->open.step == OPEN_LOG && v->state == VOLUME_OPENING)
      log_next (v);
  }
  else if (blocks_apply (v))
    log_next (v);
  else if (v->state == VOLUME_OPENING)
    log_over (v);
}

/* The root and the log are read a second time, because they may be lost. */
static void
open_again (struct volume *v)
{
  if (++v->open.tries == OPEN_TRIES_MAX) {
    open_fail (v, "the array cannot be flushed");
    return;
  }
  for (uint32_t i = 0; i < v->places_count; i++)
    space_spare (v, i);
  free (v->map);
  v->map = NULL;
  v->map_count = 0;
  memset (v->root, 0, sizeof *v->root);
  spans_free (&v->open.strangers);
  v->open.strangers = (struct spans) { 0 };
  v->open.block = v->open.life = 0;
  volume_open_begin (v);
}

void
volume_open_answered (struct volume *v, int error)
{
  v->look = true;
  if (v->open.step == OPEN_FLUSH) {
    if (error || v->open.lost)
      open_again (v);
    else if (v->config.scan)
      v->state = VOLUME_SCANNED;
    else
      life_begin (v);
    return;
  }
  if (error) {
    open_fail (v, "its root or its log cannot be read");
    return;
  }
  next_read (v);
  if (v->open.step == OPEN_FLUSH && v->state == VOLUME_OPENING)
    flush_send (v);
}

void
volume_open_pump (struct volume *v)
{
  if (v->state != VOLUME_OPENING || v->open.step != OPEN_LIFE)
    return;
  if (v->rootio.failed)
    open_fail (v, "its root cannot be written");
  else if (v->rootio.stable >= v->open.wants) {
    v->open.step = OPEN_DONE;
    v->state = VOLUME_OPEN;
    free (v->open.buf);
    v->open.buf = NULL;
  }
}
