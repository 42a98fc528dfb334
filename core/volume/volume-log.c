/* volume-log.c: the log, as far as it is written.
 *
 * A group is appended: first the entries of segments that are gone, so that no two
 * segments of the pool are ever named for one of the volume.  If it finds no room, the
 * log gets further segments.  A log that is more than twice as long as its live
 * entries, or finds no further segments, is *rewritten* in other segments instead: all
 * live entries, with the group's changes.
 *
 * The root names a segment when the blocks in it are written.  The reverse would have
 * recovery find there what an earlier life has left: a whole block that fits.  For the
 * same reason a rewritten log is never empty.
 *
 * If a write fails, the log is not written again until the volume was opened again: it
 * is unknown what of it stands there.
 */

#include <config.h>

#include <assert.h>
#include <string.h>

#include "volume-internal.h"

/* ---- Entries ---- */

/* The blocks that the log is to name in this place. */
static uint64_t
entry_blocks (const struct place *p)
{
  return p->in_group ? p->taken : p->logged;
}

static bool
gone (const struct place *p)
{
  return p->named && p->taken == 0;
}

static struct pool_entry
entry_of (const struct volume *v, const struct place *p)
{
  uint64_t blocks = entry_blocks (p);

  if (blocks == 0)
    return (struct pool_entry) { .segment = p->segment, .kind = POOL_GONE };
  return (struct pool_entry) {
    .segment = p->segment,
    .at = p->at,
    .layer = v->root->head,
    .kind = POOL_DATA,
    .blocks = blocks,
  };
}

/* The group's next entry: first segments that are gone, then data. */
static bool
next_of_group (struct volume *v, struct pool_entry *e)
{
  for (; v->log.cursor.pass < 2; v->log.cursor.pass++, v->log.cursor.next = 0)
    while (v->log.cursor.next < v->group_count) {
      struct place *p = &v->places[v->group[v->log.cursor.next++]];

      if (v->log.cursor.pass == 0 ? !gone (p) : p->taken == 0)
        continue;
      p->named = true;
      *e = entry_of (v, p);
      return true;
    }
  return false;
}

/* The map's next entry. */
static bool
next_of_all (struct volume *v, struct pool_entry *e)
{
  while (v->log.cursor.next < v->places_count) {
    struct place *p = &v->places[v->log.cursor.next++];

    p->renamed = false;
    if (p->state != PLACE_DATA || entry_blocks (p) == 0)
      continue;
    p->named = p->renamed = true;
    *e = entry_of (v, p);
    return true;
  }
  if (v->log.sequence > v->log.first || v->log.cursor.pass > 0)
    return false;
  v->log.cursor.pass = 1; /* an entry that says nothing */
  *e = (struct pool_entry) { .segment = v->log.fresh[0], .kind = POOL_GONE };
  return true;
}

static bool
next_entry (struct volume *v, struct pool_entry *e)
{
  return v->log.anew ? next_of_all (v, e) : next_of_group (v, e);
}

/* ---- Blocks ---- */

static uint32_t
segment_of (const struct volume *v, uint64_t sequence)
{
  uint64_t first = v->log.anew ? v->log.first : v->root->log_sequence;
  uint64_t i = (sequence - first) / space_log_room (v);

  if (v->log.anew)
    return v->log.fresh[i];
  return i < v->root->log_count ? v->root->log[i]
                                : v->log.fresh[i - v->root->log_count];
}

static uint64_t
block_in_segment (const struct volume *v, uint64_t sequence)
{
  return (sequence - (v->log.anew ? v->log.first : v->root->log_sequence)) %
         space_log_room (v);
}

/* Fills a block; false: there are no further entries. */
static bool
block_fill (struct volume *v, uint8_t bytes[POOL_LOG_BLOCK_BYTES])
{
  struct pool_log_block b = {
    .sequence = v->log.sequence,
    .life = v->root->life,
  };

  memcpy (b.volume, v->root->volume, sizeof b.volume);
  while (b.count < v->config.log_entries && next_entry (v, &b.entries[b.count]))
    b.count++;
  if (b.count == 0)
    return false;
  pool_log_encode (&b, bytes);
  v->log.sequence++;
  return true;
}

static void
log_end (struct volume *v, bool failed)
{
  v->log.stage = LOG_IDLE;
  v->log.failed |= failed;
  if (failed)
    volume_request_broken (v, "its log cannot be written");
  v->look = true;
}

static void
name_segments (struct volume *v)
{
  struct pool_root *r = v->root;

  if (v->log.fresh_count == 0) {
    log_end (v, false);
    return;
  }
  if (v->log.anew) {
    r->log_count = 0;
    r->log_sequence = v->log.first;
  }
  memcpy (r->log + r->log_count, v->log.fresh,
          v->log.fresh_count * sizeof r->log[0]);
  r->log_count += v->log.fresh_count;
  v->log.wants = volume_root_put (v);
  v->log.stage = LOG_NAMING;
}

/* The next blocks, as many as are side by side; or it is all written. */
static void
write_next (struct volume *v)
{
  uint64_t sequence = v->log.sequence;
  uint64_t at = block_in_segment (v, sequence), blocks = 0;

  while (blocks < LOG_CHUNK_BLOCKS && at + blocks < space_log_room (v) &&
         block_fill (v, v->log.buf + blocks * POOL_LOG_BLOCK_BYTES))
    blocks++;
  if (blocks == 0) {
    name_segments (v);
    return;
  }
  v->log.vio.io = (struct array_request) {
    .op = ARRAY_WRITE,
    .client = v->config.array,
    .flags = ARRAY_FUA,
    .offset = (uint64_t) segment_of (v, sequence) *
                v->config.pool.segment_bytes +
              at * POOL_LOG_BLOCK_BYTES,
    .length = blocks * POOL_LOG_BLOCK_BYTES,
    .buf = v->log.buf,
  };
  volume_request_send (v, &v->log.vio, VIO_LOG, NULL);
}

/* ---- Room ---- */

static uint64_t
group_blocks (const struct volume *v)
{
  uint64_t entries = 0;

  for (uint32_t i = 0; i < v->group_count; i++) {
    const struct place *p = &v->places[v->group[i]];

    entries += p->taken || gone (p);
  }
  return (entries + v->config.log_entries - 1) / v->config.log_entries;
}

static bool
take_segments (struct volume *v, uint32_t count)
{
  if (v->count[PLACE_SPARE] < count || count > POOL_LOG_SEGMENTS_MAX)
    return false;
  while (v->log.fresh_count < count)
    v->log.fresh[v->log.fresh_count++] = v->places[space_take_log (v)].segment;
  return true;
}

/* How the group gets room; false: segments are missing. */
static bool
make_room (struct volume *v)
{
  uint64_t room = space_log_room (v);
  uint64_t used = v->log.sequence - v->root->log_sequence;
  uint64_t left = v->root->log_count * room - used, needs = group_blocks (v);
  uint64_t more = needs > left ? (needs - left + room - 1) / room : 0;
  uint32_t segments = space_log_segments (v, 0);
  bool worn = used > 2 * space_log_blocks (v, 0) + room / 4;

  if (worn && take_segments (v, segments)) {
    v->log.anew = true;
    return true;
  }
  if (more == 0)
    return true;
  if (v->root->log_count + more <= POOL_LOG_SEGMENTS_MAX &&
      v->count[PLACE_SPARE] >= segments + more)
    return take_segments (v, (uint32_t) more);
  v->log.anew = take_segments (v, segments);
  return v->log.anew;
}

void
volume_log_begin (struct volume *v)
{
  v->log.anew = false;
  v->log.fresh_count = 0;
  v->log.cursor = (struct log_cursor) { 0 };
  v->log.first = v->log.sequence;
  if (!make_room (v)) {
    v->log.stage = LOG_WAITING;
    return;
  }
  v->log.stage = LOG_WRITING;
  write_next (v);
}

void
volume_log_answered (struct volume *v, int error)
{
  if (error)
    log_end (v, true);
  else
    write_next (v);
}

/* The segments of the old log become spare. */
static void
drop_old (struct volume *v)
{
  for (uint32_t i = 0; i < v->places_count; i++) {
    struct place *p = &v->places[i];
    bool ours = false;

    if (p->state == PLACE_DATA || p->state == PLACE_FREED) {
      p->named = p->renamed;
      space_settle (v, i);
    }
    if (p->state != PLACE_LOG)
      continue;
    for (uint32_t j = 0; j < v->root->log_count; j++)
      ours |= v->root->log[j] == p->segment;
    if (!ours)
      space_spare (v, i);
  }
}

void
volume_log_pump (struct volume *v)
{
  if (v->log.stage == LOG_WAITING && v->count[PLACE_SPARE] > 0)
    volume_log_begin (v);
  if (v->log.stage != LOG_NAMING)
    return;
  if (v->rootio.failed)
    log_end (v, true);
  else if (v->rootio.stable >= v->log.wants) {
    if (v->log.anew)
      drop_old (v);
    log_end (v, false);
  }
}
