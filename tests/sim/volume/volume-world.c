/* volume-world.c: volumes, their clients, and weftd. */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "volume-world.h"

struct volume_world vw;

void
vworld_begin (uint64_t segment_bytes, uint32_t segments, unsigned volumes,
              uint64_t grains_max)
{
  static const uint8_t junk[16] = "JUNK";
  uint64_t sectors = segment_bytes * segments / SECTOR;
  struct array_request r = { .op = ARRAY_WRITE, .flags = ARRAY_FUA };
  unsigned tag;

  memset (&vw, 0, sizeof vw);
  sim_now = 1000 * NS_PER_MS;
  grain_bytes = SECTOR;
  vw.pool = (struct pool_header) {
    .array = "an array",
    .sequence = 1,
    .segment_bytes = segment_bytes,
    .segments = segments,
    .roots = volumes,
  };
  vw.volumes = volumes;
  vw.grains_max = grains_max;
  vw.full_wait_ms = 1000;
  vw.owner = malloc (segments);
  memset (vw.owner, NOBODY, segments);
  disk_begin (segment_bytes * segments);
  vjudge_begin (volumes, grains_max);
  /* Segments are not empty when they are granted. */
  r.client = disk_client (NOBODY);
  r.buf = malloc (sectors * SECTOR);
  for (uint64_t i = 0; i < sectors; i++)
    for (unsigned j = 0; j < SECTOR / sizeof junk; j++)
      memcpy ((uint8_t *) r.buf + i * SECTOR + j * sizeof junk, junk, 16);
  memset (r.buf, 0, pool_first_segment (&vw.pool) * segment_bytes);
  r.length = sectors * SECTOR;
  disk_submit (&r, NOBODY);
  disk_answer (0, &tag);
  free (r.buf);
}

static void
volume_drop (unsigned volume)
{
  struct world_volume *x = &vw.volume[volume];

  x->v = NULL;
  x->open = false;
  x->outstanding = 0;
  memset (&x->ask, 0, sizeof x->ask);
}

void
vworld_end (void)
{
  for (unsigned i = 0; i < vw.volumes; i++)
    if (vw.volume[i].v)
      volume_free (vw.volume[i].v);
  vjudge_end ();
  disk_end ();
  free (vw.owner);
}

/* ---- Requests ---- */

static void
request_answered (struct outstanding *o)
{
  struct world_volume *x = &vw.volume[o->volume];
  bool full = o->r.error == ENOSPC && o->r.op == ARRAY_WRITE;

  sim_trace ("volume %u client %u: op %d at %llu, %llu bytes: %s", o->volume,
             o->client, o->r.op, (unsigned long long) (o->r.offset / SECTOR),
             (unsigned long long) o->r.length,
             o->r.error ? strerror (o->r.error) : "done");
  x->outstanding--;
  vw.requests++;
  if (o->r.op == ARRAY_FLUSH && !o->r.error)
    vw.flushes++;
  vw.full_errors += full;
  if (full && sim_now < o->at + vw.full_wait_ms * NS_PER_MS)
    sim_fail ("volume %u: ENOSPC, but nobody waited for space", o->volume);
  vjudge_done (o->judged, &o->r, vw.may_fail || full);
  free (o->r.extents);
  free (o->r.buf);
  free (o);
}

void
vworld_outputs (unsigned volume)
{
  struct volume *v = vw.volume[volume].v;
  struct array_request *io;
  struct volume_request *r;

  if (!v)
    return;
  while ((io = volume_next_io (v))) {
    if (io->op != ARRAY_FLUSH && !vw.importing) {
      uint64_t first = io->offset / vw.pool.segment_bytes;
      uint64_t last = (io->offset + io->length - 1) / vw.pool.segment_bytes;

      for (uint64_t s = first; s <= last; s++)
        if (s >= pool_first_segment (&vw.pool) && vw.owner[s] != volume)
          sim_fail ("volume %u uses segment %llu, which is not its own", volume,
                    (unsigned long long) s);
    }
    disk_submit (io, volume);
  }
  while ((r = volume_next_done (v)))
    if (r->owner)
      request_answered (r->owner);
    else
      vw.was_read = r;
  volume_check (v);
}

void
vworld_submit (unsigned volume, unsigned client, enum array_op op,
               unsigned flags, uint64_t grain, uint64_t grains)
{
  struct world_volume *x = &vw.volume[volume];
  struct outstanding *o = calloc (1, sizeof *o);

  o->volume = volume;
  o->client = client;
  o->at = sim_now;
  o->r = (struct volume_request) {
    .op = op,
    .client = x->clients[client],
    .flags = flags,
    .offset = grain * SECTOR,
    .length = grains * SECTOR,
    .owner = o,
  };
  if (op == ARRAY_FLUSH)
    o->r.offset = o->r.length = 0;
  else
    o->r.buf = malloc (grains * SECTOR + 1);
  sim_trace ("volume %u client %u: op %d flags %u at %llu, %llu grains", volume,
             client, op, flags, (unsigned long long) grain,
             (unsigned long long) grains);
  o->judged = vjudge_submitted (&o->r, volume, client);
  x->outstanding++;
  volume_submit (x->v, &o->r, sim_now);
  vworld_outputs (volume);
}

/* ---- The array's answers ---- */

void
vworld_answer (uint64_t which)
{
  unsigned volume;
  struct array_request *io = disk_answer (which, &volume);
  struct world_volume *x = &vw.volume[volume];

  vw.ios++;
  sim_trace ("volume %u: the array's op %d at %llu, %llu bytes: %d", volume,
             io->op, (unsigned long long) (io->offset / SECTOR),
             (unsigned long long) io->length, io->error);
  volume_io_done (vw.volume[volume].v, io, sim_now);
  vworld_outputs (volume);
  if (volume_state (x->v) != VOLUME_OPEN)
    return;
  raise_to (&x->size, volume_root (x->v)->size);
  vw.anews += x->log_sequence > 0 &&
              x->log_sequence != volume_root (x->v)->log_sequence;
  x->log_sequence = volume_root (x->v)->log_sequence;
}

void
vworld_tick (unsigned volume)
{
  volume_tick (vw.volume[volume].v, sim_now);
  vworld_outputs (volume);
}

void
vworld_lost (void)
{
  for (unsigned i = 0; i < vw.volumes; i++)
    if (vw.volume[i].v) {
      volume_lost (vw.volume[i].v, sim_now);
      vworld_outputs (i);
    }
}

void
vworld_settle (bool any)
{
  bool more = true;

  for (unsigned rounds = 0; more; rounds++) {
    if (rounds > 100000)
      sim_fail ("no end is in sight");
    more = disk_waiting () > 0;
    if (more)
      vworld_answer (any ? sim_random () : 0);
    for (unsigned i = 0; !more && i < vw.volumes; i++) {
      struct world_volume *x = &vw.volume[i];
      uint32_t near;
      bool waits;

      if (!x->v || volume_state (x->v) == VOLUME_OPENING)
        continue;
      if (volume_wants (x->v, &near, &waits) > 0 && x->outstanding && !vw.full)
        vworld_weftd (i), vworld_weftd (i), more = true;
      else if (volume_deadline (x->v) != UINT64_MAX) {
        raise_to (&sim_now, volume_deadline (x->v));
        vworld_tick (i);
        more = true;
      }
    }
  }
  for (unsigned i = 0; i < vw.volumes; i++)
    if (vw.volume[i].outstanding > 0)
      sim_fail ("volume %u: %u requests will never be done", i,
                vw.volume[i].outstanding);
}

/* ---- weftd ---- */

static unsigned
runs_of (unsigned volume, struct volume_run *runs, unsigned max)
{
  unsigned count = 0;

  for (uint32_t s = pool_first_segment (&vw.pool); s < vw.pool.segments; s++) {
    if (vw.owner[s] != volume)
      continue;
    if (count > 0 && runs[count - 1].first + runs[count - 1].count == s)
      runs[count - 1].count++;
    else if (count < max)
      runs[count++] = (struct volume_run) { s, 1 };
  }
  return count;
}

static void
decide (unsigned volume)
{
  struct world_volume *x = &vw.volume[volume];

  x->ask.decided = true;
  for (uint32_t s = pool_first_segment (&vw.pool);
       s < vw.pool.segments && x->ask.want > 0 && x->ask.count < 64; s++) {
    if (vw.owner[s] != NOBODY)
      continue;
    vw.owner[s] = (uint8_t) volume;
    x->ask.want--;
    if (x->ask.count > 0 && x->ask.runs[x->ask.count - 1].first +
                                x->ask.runs[x->ask.count - 1].count ==
                              s)
      x->ask.runs[x->ask.count - 1].count++;
    else
      x->ask.runs[x->ask.count++] = (struct volume_run) { s, 1 };
  }
  vw.full |= x->ask.want > 0;
}

void
vworld_weftd (unsigned volume)
{
  struct world_volume *x = &vw.volume[volume];
  struct volume_run gives[8];
  uint32_t near;
  bool waits;
  unsigned n;

  while ((n = volume_gives (x->v, gives, 8)) > 0)
    for (unsigned i = 0; i < n; i++) {
      if (disk_busy (gives[i].first * vw.pool.segment_bytes,
                     gives[i].count * vw.pool.segment_bytes))
        sim_fail ("volume %u gives back what is being used", volume);
      vw.freed += gives[i].count;
      memset (vw.owner + gives[i].first, NOBODY, gives[i].count);
    }
  if (!x->ask.asked) {
    x->ask.want = volume_wants (x->v, &near, &waits);
    if (x->ask.want > 8)
      x->ask.want = 1 + (unsigned) sim_below (8);
    x->ask.asked = x->ask.want > 0;
  }
  else if (!x->ask.decided)
    decide (volume);
  else if (sim_chance (80)) { /* else the answer is lost, and asked for again */
    volume_granted (x->v, x->ask.runs, x->ask.count, sim_now);
    memset (&x->ask, 0, sizeof x->ask);
    vworld_outputs (volume);
  }
}

/* ---- Opening and its opposites ---- */

static void
volume_start (unsigned volume, bool make, uint64_t size, bool scan)
{
  struct world_volume *x = &vw.volume[volume];
  struct volume_config config = {
    .pool = vw.pool,
    .number = volume,
    .name = make ? "volume" : NULL,
    .size = size,
    .array = disk_client (NOBODY),
    .full_wait_ms = vw.full_wait_ms,
    .scan = scan,
    .log_entries = vw.log_entries,
    .parts = vw.parts,
    .window = vw.window,
  };
  struct volume_run runs[64];

  memcpy (config.uuid, x->uuid, 16);
  volume_drop (volume);
  x->v = volume_new (&config);
  for (unsigned i = 0; i < VOLUME_CLIENTS; i++) {
    disk_client_gone (volume * VOLUME_CLIENTS + i);
    x->clients[i] = volume_client_open (
      x->v, disk_client (volume * VOLUME_CLIENTS + i));
  }
  if (scan) {
    runs[0].first = pool_first_segment (&vw.pool);
    runs[0].count = vw.pool.segments - runs[0].first;
    volume_granted (x->v, runs, 1, sim_now);
  }
  else
    volume_granted (x->v, runs, runs_of (volume, runs, 64), sim_now);
  volume_open (x->v, sim_now);
  vworld_outputs (volume);
}

/* Everything that is asked of the array is answered; other volumes go on, too. */
static void
settle_one (unsigned volume)
{
  while (volume_state (vw.volume[volume].v) == VOLUME_OPENING ||
         volume_state (vw.volume[volume].v) == VOLUME_CLOSING)
    if (disk_waiting () > 0)
      vworld_answer (sim_random ());
    else
      sim_fail ("volume %u will never be open or closed", volume);
}

void
vworld_make (unsigned volume, uint64_t size)
{
  struct world_volume *x = &vw.volume[volume];

  x->log_sequence = 0;
  for (unsigned i = 0; i < 16; i++)
    x->uuid[i] = (uint8_t) sim_random ();
  x->exists = x->open = true;
  x->size = size;
  vjudge_made (volume);
  volume_start (volume, true, size, false);
  settle_one (volume);
  if (volume_state (x->v) != VOLUME_OPEN)
    sim_fail ("volume %u cannot be made: %s", volume, volume_why (x->v));
  x->open = true;
}

void
vworld_start (unsigned volume)
{
  volume_start (volume, false, 0, false);
}

void
vworld_resize (unsigned volume, uint64_t size)
{
  struct world_volume *x = &vw.volume[volume];
  int error = volume_resize (x->v, size, sim_now);

  if (error && !volume_why (x->v) && size >= volume_size (x->v))
    sim_fail ("volume %u cannot grow: %s", volume, strerror (error));
  if (!error && size < x->size)
    sim_fail ("volume %u has shrunk", volume);
  if (!error)
    sim_trace ("volume %u grows to %llu", volume, (unsigned long long) size);
  vworld_outputs (volume);
}

void
vworld_open (unsigned volume)
{
  struct world_volume *x = &vw.volume[volume];
  struct volume_request r = { .op = ARRAY_READ };

  volume_start (volume, false, 0, false);
  settle_one (volume);
  if (volume_state (x->v) != VOLUME_OPEN)
    sim_fail ("volume %u cannot be opened: %s", volume, volume_why (x->v));
  if (volume_size (x->v) < x->size)
    sim_fail ("volume %u is smaller than it was", volume);
  r.client = x->clients[0];
  r.length = x->size;
  r.buf = malloc (r.length);
  volume_submit (x->v, &r, sim_now);
  vworld_outputs (volume);
  while (vw.was_read != &r)
    vworld_answer (sim_random ());
  vw.was_read = NULL;
  if (r.error)
    sim_fail ("volume %u cannot be read", volume);
  vjudge_opened (volume, r.buf, r.length / SECTOR);
  free (r.buf);
  x->open = true;
}

static void
volume_forget (unsigned volume)
{
  struct world_volume *x = &vw.volume[volume];

  struct array_request *io;
  struct volume_request *r;

  vjudge_killed (volume);
  volume_stop (x->v, ESHUTDOWN, sim_now);
  do {
    while ((io = volume_next_io (x->v)))
      disk_submit (io, volume);
    while ((r = volume_next_done (x->v))) {
      struct outstanding *o = r->owner;

      free (r->extents);
      free (r->buf);
      free (o);
    }
    io = disk_dead (volume);
    if (io) {
      io->error = ESHUTDOWN;
      volume_io_done (x->v, io, sim_now);
    }
  } while (io);
  volume_free (x->v);
  volume_drop (volume);
}

unsigned
vworld_kill (bool power, enum cut_kind kind, unsigned one)
{
  unsigned sectors = disk_cut (power, kind, one);

  sim_trace ("killed%s", power ? ", without power" : "");
  vw.cuts += power;
  vw.kills += !power;
  for (unsigned i = 0; i < vw.volumes; i++)
    if (vw.volume[i].v)
      volume_forget (i);
  return sectors;
}

static void
grant_kept (unsigned volume, unsigned count)
{
  for (uint32_t s = pool_first_segment (&vw.pool);
       s < vw.pool.segments && count > 0; s++)
    if (vw.owner[s] == NOBODY) {
      vw.owner[s] = (uint8_t) volume;
      count--;
    }
  if (count > 0)
    sim_fail ("volume %u: there is no space for its log", volume);
}

/* Each volume is as its root says; no segment is two volumes'. */
void
vworld_import (void)
{
  unsigned kept[VOLUMES_MAX] = { 0 };
  struct volume_stats stats;

  vw.imports++;
  vw.importing = true;
  memset (vw.owner, NOBODY, vw.pool.segments);
  for (unsigned i = 0; i < vw.volumes; i++) {
    struct world_volume *x = &vw.volume[i];
    struct volume_run run;
    uint32_t after = 0;

    if (!x->exists)
      continue;
    volume_start (i, false, 0, true);
    settle_one (i);
    if (volume_state (x->v) != VOLUME_SCANNED)
      sim_fail ("volume %u cannot be scanned: %s", i, volume_why (x->v));
    while (volume_uses (x->v, &after, &run, 1) > 0)
      for (uint32_t s = run.first; s < run.first + run.count; s++) {
        if (vw.owner[s] != NOBODY)
          sim_fail ("segment %u is volume %u's and volume %u's", s, vw.owner[s],
                    i);
        vw.owner[s] = (uint8_t) i;
      }
    volume_stats (x->v, &stats);
    kept[i] = (unsigned) stats.kept;
    volume_free (x->v);
    volume_drop (i);
  }
  vw.importing = false;
  for (unsigned i = 0; i < vw.volumes; i++)
    grant_kept (i, kept[i]);
}

void
vworld_close (unsigned volume, bool delete)
{
  struct world_volume *x = &vw.volume[volume];

  x->exists = !delete;
  if (delete)
    volume_delete (x->v, sim_now);
  else
    volume_close (x->v, sim_now);
  vworld_outputs (volume);
  settle_one (volume);
  if (volume_state (x->v) != (delete ? VOLUME_DELETED : VOLUME_CLOSED) &&
      vw.losses == 0)
    sim_fail ("volume %u was not closed: %s", volume, volume_why (x->v));
  if (delete)
    for (uint32_t s = 0; s < vw.pool.segments; s++)
      if (vw.owner[s] == volume)
        vw.owner[s] = NOBODY;
  volume_forget (volume);
}
