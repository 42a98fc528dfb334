/* volume.c: the roof of the volume engine: inputs, and the pump that does what is due. */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "volume-internal.h"

/* ---- A volume's memory ---- */

void
volume_free (struct volume *v)
{
  struct volume_client *c;

  if (!v)
    return;
  assert (v->flying == 0 && v->requests == 0 && !v->done.first);
  while ((c = TAILQ_FIRST (&v->clients))) {
    TAILQ_REMOVE (&v->clients, c, link);
    free (c);
  }
  spares_free (&v->parts_spare);
  spares_free (&v->turns_spare);
  spares_free (&v->vios_spare);
  free (v->map);
  free (v->places);
  free (v->changed);
  free (v->group);
  free (v->bounces);
  free (v->root);
  free (v->durable);
  free (v->sending);
  free (v->log.buf);
  free (v->rootio.buf);
  spans_free (&v->open.strangers);
  free (v->open.buf);
  free (v);
}

static bool
buffers_new (struct volume *v)
{
  v->bounces = malloc (VOLUME_BOUNCES * v->block_bytes);
  v->root = calloc (1, sizeof *v->root);
  v->durable = calloc (1, sizeof *v->durable);
  v->sending = calloc (1, sizeof *v->sending);
  v->log.buf = malloc (LOG_CHUNK_BLOCKS * POOL_LOG_BLOCK_BYTES);
  v->rootio.buf = malloc (POOL_ROOT_BYTES);
  v->open.buf = malloc (2 * POOL_ROOT_BYTES);
  return v->bounces && v->root && v->durable && v->sending && v->log.buf &&
         v->rootio.buf && v->open.buf;
}

struct volume *
volume_new (const struct volume_config *config)
{
  struct volume *v = calloc (1, sizeof *v);

  if (!v)
    return NULL;
  v->config = *config;
  if (v->config.log_entries == 0)
    v->config.log_entries = POOL_LOG_ENTRIES;
  if (v->config.window == 0)
    v->config.window = VOLUME_WINDOW_MIN;
  if (v->config.parts == 0)
    v->config.parts = VOLUME_PARTS_MAX;
  v->window = v->config.window;
  v->block_bytes = config->pool.segment_bytes / POOL_BLOCKS;
  v->log.sequence = 1;
  TAILQ_INIT (&v->making);
  TAILQ_INIT (&v->ready);
  TAILQ_INIT (&v->hungry);
  TAILQ_INIT (&v->starved);
  TAILQ_INIT (&v->clients);
  TAILQ_INIT (&v->out);
  if (!buffers_new (v)) {
    volume_free (v);
    return NULL;
  }
  for (unsigned i = 0; i < VOLUME_BOUNCES; i++)
    v->bounce[v->bounces_free++] = v->bounces + i * v->block_bytes;
  return v;
}

/* ---- Requests ---- */

static int
request_refused (const struct volume *v, const struct volume_request *r)
{
  if (v->stopped)
    return v->stopped;
  if (v->state == VOLUME_FAILED || v->state == VOLUME_SCANNED)
    return EIO;
  if (v->state != VOLUME_OPEN && v->state != VOLUME_OPENING)
    return ESHUTDOWN;
  switch (r->op) {
  case ARRAY_READ:
  case ARRAY_WRITE:
  case ARRAY_ZERO:
  case ARRAY_TRIM:
  case ARRAY_EXTENTS:
  case ARRAY_FLUSH:
    return 0;
  default:
    return ENOTSUP;
  }
}

/* Extents from the map: blocks that are not present are holes. */
static void
request_extents (struct volume *v, struct volume_request *r)
{
  uint64_t bytes = v->config.pool.segment_bytes, end = r->offset + r->length;
  size_t room = r->length / v->block_bytes + 2;
  struct array_extent *e = malloc (room * sizeof *e);
  size_t count = 0;

  if (!e) {
    r->error = ENOMEM;
    volume_request_done (v, r);
    return;
  }
  for (uint64_t at = r->offset; at < end;) {
    uint32_t place = v->map[at / bytes];
    uint64_t step = v->block_bytes - at % v->block_bytes;
    bool hole = place == NONE ||
                !(v->places[place].blocks >> (at % bytes / v->block_bytes) & 1);

    if (place == NONE)
      step = bytes - at % bytes;
    if (step > end - at)
      step = end - at;
    if (count == 0 || e[count - 1].hole != hole)
      e[count++] = (struct array_extent) { .hole = hole, .zero = hole };
    e[count - 1].length += step;
    at += step;
  }
  r->extents = e;
  r->extents_count = count;
  volume_request_done (v, r);
}

static void
request_run (struct volume *v, struct volume_request *r)
{
  r->error = request_refused (v, r);
  if (!r->error && r->op != ARRAY_FLUSH &&
      (r->offset > v->root->size || r->length > v->root->size - r->offset))
    r->error = r->op == ARRAY_WRITE || r->op == ARRAY_ZERO ? ENOSPC : EINVAL;
  if (r->error)
    volume_request_done (v, r);
  else if (r->op == ARRAY_FLUSH)
    volume_flush_add (v, r);
  else if (r->op == ARRAY_EXTENTS)
    request_extents (v, r);
  else
    part_begin (v, r);
}

/* ---- The pump ---- */

static void
ready_pump (struct volume *v)
{
  struct part *p;

  while ((p = TAILQ_FIRST (&v->ready))) {
    TAILQ_REMOVE (&v->ready, p, link);
    part_run (v, p);
  }
}

/* The parts in this list retry. */
static void
again_pump (struct volume *v, struct part_queue *list)
{
  struct part_queue now = TAILQ_HEAD_INITIALIZER (now);

  TAILQ_CONCAT (&now, list, link);
  TAILQ_CONCAT (&v->ready, &now, link);
}

static bool
hungry_over (const struct volume *v, const struct part *p)
{
  return v->now >= p->hungry_ns + v->config.full_wait_ms * NS_PER_MS;
}

static void
space_pump (struct volume *v)
{
  struct part *p, *next;

  if (v->stopped || v->count[PLACE_SPARE] > 0)
    again_pump (v, &v->hungry);
  if (v->bounces_free > 0 || v->stopped)
    again_pump (v, &v->starved);
  ready_pump (v);
  TAILQ_FOREACH_SAFE (p, &v->hungry, link, next) {
    if (!hungry_over (v, p))
      continue;
    TAILQ_REMOVE (&v->hungry, p, link);
    part_fail (v, p, ENOSPC);
  }
}

static void
early_pump (struct volume *v)
{
  struct volume_request *r;

  if (v->state != VOLUME_OPENING)
    while ((r = volume_request_take (&v->early)))
      request_run (v, r);
}

/* VOLUME_CLOSING: when nothing is left, and then when the FLUSH is over. */
static void
close_pump (struct volume *v)
{
  bool still = v->flying == 0 && v->requests == 0 &&
               v->flush.stage == FLUSH_IDLE;

  if (v->state != VOLUME_CLOSING || !still)
    return;
  if (v->deleting) {
    if (v->rootio.erase == 0)
      volume_root_erase (v);
  }
  else if (v->closing == 0) {
    v->closing = 1;
    v->look = true;
    if (!v->log.failed)
      volume_flush_last (v);
  }
  else if (v->log.failed || v->flush.failed || v->rootio.failed) {
    v->state = VOLUME_FAILED;
    volume_request_broken (v, "the array cannot be flushed");
  }
  else if (v->closing == 1) {
    v->closing = 2;
    v->root->flags |= POOL_CLEAN;
    v->close_wants = volume_root_put (v);
  }
  else if (v->rootio.stable >= v->close_wants)
    v->state = VOLUME_CLOSED;
}

static void
pump (struct volume *v)
{
  while (v->look) {
    v->look = false;
    volume_open_pump (v);
    early_pump (v);
    part_pump (v);
    ready_pump (v);
    space_pump (v);
    volume_log_pump (v);
    volume_flush_pump (v);
    close_pump (v);
    volume_root_pump (v);
  }
}

/* ---- Inputs ---- */

static void
input (struct volume *v, uint64_t now_ns)
{
  v->now = now_ns;
  v->look = true;
}

void
volume_open (struct volume *v, uint64_t now_ns)
{
  input (v, now_ns);
  space_sort (v);
  volume_open_begin (v);
  pump (v);
}

void
volume_granted (struct volume *v, const struct volume_run *runs, unsigned count,
                uint64_t now_ns)
{
  uint32_t granted = 0;

  input (v, now_ns);
  for (unsigned i = 0; i < count; i++) {
    space_granted (v, &runs[i]);
    granted += runs[i].count;
  }
  space_window (v, granted);
  if (v->state != VOLUME_OPENING)
    pump (v);
}

void
volume_submit (struct volume *v, struct volume_request *r, uint64_t now_ns)
{
  input (v, now_ns);
  r->sequence = ++v->sequence;
  r->error = 0;
  r->failed = r->loose = false;
  r->extents = NULL;
  r->extents_count = 0;
  v->requests++;
  r->client->requests++;
  if (v->state == VOLUME_OPENING)
    volume_request_add (&v->early, r);
  else
    request_run (v, r);
  pump (v);
}

void
volume_io_done (struct volume *v, struct array_request *io, uint64_t now_ns)
{
  struct vio *x = io->owner;

  input (v, now_ns);
  assert (v->flying > 0);
  v->flying--;
  switch (x->kind) {
  case VIO_PART:
    part_answered (v, x->of, io->error);
    break;
  case VIO_FLUSH:
    volume_flush_answered (v, x, io->error);
    break;
  case VIO_LOG:
    volume_log_answered (v, io->error);
    break;
  case VIO_ROOT:
    volume_root_answered (v, io->error);
    break;
  case VIO_OPEN:
    volume_open_answered (v, io->error);
    break;
  }
  pump (v);
}

void
volume_tick (struct volume *v, uint64_t now_ns)
{
  input (v, now_ns);
  pump (v);
}

void
volume_lost (struct volume *v, uint64_t now_ns)
{
  input (v, now_ns);
  if (v->state == VOLUME_OPEN || v->state == VOLUME_CLOSING)
    volume_flush_lost (v);
  v->open.lost = true;
  pump (v);
}

void
volume_stop (struct volume *v, int error, uint64_t now_ns)
{
  input (v, now_ns);
  v->stopped = error;
  pump (v);
}

int
volume_resize (struct volume *v, uint64_t size, uint64_t now_ns)
{
  uint64_t bytes = v->config.pool.segment_bytes;
  uint64_t count = (size + bytes - 1) / bytes;
  uint32_t *map;

  input (v, now_ns);
  if (v->state != VOLUME_OPEN || v->why || v->stopped)
    return EBUSY;
  if (size % 512 != 0 || size < v->root->size || size > VOLUME_BYTES_MAX)
    return EINVAL;
  map = realloc (v->map, (count + 1) * sizeof *map);
  if (!map)
    return ENOMEM;
  for (uint64_t i = v->map_count; i < count; i++)
    map[i] = NONE;
  v->map = map;
  v->map_count = (uint32_t) count;
  v->root->size = size;
  volume_root_put (v);
  pump (v);
  return 0;
}

void
volume_close (struct volume *v, uint64_t now_ns)
{
  input (v, now_ns);
  if (v->state == VOLUME_OPEN)
    v->state = VOLUME_CLOSING;
  pump (v);
}

void
volume_delete (struct volume *v, uint64_t now_ns)
{
  v->deleting = true;
  volume_close (v, now_ns);
}

/* ---- Outputs ---- */

struct array_request *
volume_next_io (struct volume *v)
{
  struct vio *x = TAILQ_FIRST (&v->out);

  if (!x)
    return NULL;
  TAILQ_REMOVE (&v->out, x, link);
  return &x->io;
}

struct volume_request *
volume_next_done (struct volume *v)
{
  return volume_request_take (&v->done);
}

uint64_t
volume_deadline (const struct volume *v)
{
  const struct part *p;
  uint64_t at = UINT64_MAX, when;

  TAILQ_FOREACH (p, &v->hungry, link) {
    when = p->hungry_ns + v->config.full_wait_ms * NS_PER_MS;
    if (when < at)
      at = when;
  }
  if (v->freed_ns > 0 && v->flush.stage == FLUSH_IDLE && !v->log.failed &&
      space_lingers (v)) {
    when = v->freed_ns + VOLUME_FREED_MS * NS_PER_MS;
    if (when < at)
      at = when;
  }
  return at;
}

enum volume_state
volume_state (const struct volume *v)
{
  return v->state;
}

const char *
volume_why (const struct volume *v)
{
  return v->why;
}

uint64_t
volume_size (const struct volume *v)
{
  return v->root->size;
}

const struct pool_root *
volume_root (const struct volume *v)
{
  return v->durable;
}

bool
volume_idle (const struct volume *v)
{
  return v->flying == 0 && v->requests == 0 && v->flush.stage == FLUSH_IDLE;
}

unsigned
volume_uses (const struct volume *v, uint32_t *after, struct volume_run *runs,
             unsigned max)
{
  unsigned count = 0;

  for (; *after < v->places_count; ++*after) {
    const struct place *p = &v->places[*after];

    if (p->state != PLACE_DATA && p->state != PLACE_LOG)
      continue;
    if (count > 0 &&
        runs[count - 1].first + runs[count - 1].count == p->segment)
      runs[count - 1].count++;
    else if (count < max)
      runs[count++] = (struct volume_run) { p->segment, 1 };
    else
      break;
  }
  return count;
}

void
volume_stats (const struct volume *v, struct volume_stats *stats)
{
  const struct part *p;

  *stats = (struct volume_stats) {
    .mapped = v->count[PLACE_DATA],
    .spare = v->count[PLACE_SPARE] + v->count[PLACE_FREED],
    .log = v->count[PLACE_LOG],
    .kept = space_kept (v, 0),
  };
  TAILQ_FOREACH (p, &v->hungry, link)
    stats->waiting++;
}
