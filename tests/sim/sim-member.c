/* sim-member.c: members of the simulator. */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "format/batch.h"
#include "sim.h"

void
sim_member_init (struct sim_member *m, uint64_t bytes, uint64_t extent_bytes)
{
  m->bytes = bytes;
  m->extent_bytes = extent_bytes;
  m->copying = UINT64_MAX;
  for (bool **map = m->maps; map < m->maps + SIM_MAPS; map++)
    if (!(*map = calloc (bytes / extent_bytes + 1, sizeof **map)))
      abort ();
  m->now = calloc (1, bytes);
  m->durable = calloc (1, bytes);
  m->bad = calloc (bytes / grain_bytes, sizeof m->bad[0]);
  if (!m->now || !m->durable || !m->bad)
    abort ();
}

void
sim_member_free (struct sim_member *m)
{
  free (m->now);
  free (m->durable);
  free (m->bad);
  for (bool **map = m->maps; map < m->maps + SIM_MAPS; map++)
    free (*map);
}

bool
sim_member_dirty (const struct sim_member *m, uint64_t extent)
{
  return m->maps[SIM_HELD][extent] || m->maps[SIM_LEFT][extent] ||
         m->maps[SIM_TODO][extent];
}

/* A joining member drops what the copying will bring. */
static bool
drops (struct sim_member *m, uint64_t extent)
{
  if (m->phase == SIM_WAITING)
    return m->maps[SIM_TODO][extent] = true;
  return m->phase == SIM_COPYING && m->maps[SIM_TODO][extent] &&
         !m->maps[SIM_COPIED][extent];
}

/* Within one extent. */
static void
put_part (struct sim_member *m, uint64_t offset, uint64_t length,
          const void *buf, bool fua)
{
  uint64_t extent = offset / m->extent_bytes;

  if (drops (m, extent))
    return;
  m->maps[SIM_HELD][extent] = true;
  if (buf)
    memcpy (m->now + offset, buf, length);
  else
    memset (m->now + offset, 0, length);
  if (fua)
    memcpy (m->durable + offset, m->now + offset, length);
  for (uint64_t g = offset / grain_bytes; g < (offset + length) / grain_bytes;
       g++)
    m->bad[g] = false;
}

static void
put (struct sim_member *m, uint64_t offset, uint64_t length, const void *buf,
     bool fua)
{
  uint64_t end = offset + length;

  while (offset < end) {
    uint64_t next = (offset / m->extent_bytes + 1) * m->extent_bytes;

    if (next > end)
      next = end;
    put_part (m, offset, next - offset, buf, fua);
    if (buf)
      buf = (const char *) buf + (next - offset);
    offset = next;
  }
}

static const struct batch_record *
decode (const struct sim_member *m, const struct array_io *io, void *buf,
        int *count)
{
  static struct batch_record records[BATCH_RECORDS_MAX];
  const char *why;

  *count = batch_decode (buf, io->length, m->bytes, records, &why);
  if (io->offset != 0 || io->length > BATCH_BYTES_MAX)
    sim_fail ("a batch of %llu bytes at %llu", (unsigned long long) io->length,
              (unsigned long long) io->offset);
  if (*count < 0)
    sim_fail ("a batch is refused: %s", why);
  return records;
}

/* Bits fall of extents that are named whole, up to the end. */
static void
clear (struct sim_member *m, uint64_t offset, uint64_t length, bool settle)
{
  uint64_t end = offset + length;

  if (offset % m->extent_bytes || (end % m->extent_bytes && end != m->bytes))
    sim_fail ("a clear of a part of an extent");
  for (uint64_t e = offset / m->extent_bytes; e * m->extent_bytes < end; e++) {
    m->maps[SIM_HELD][e] = false;
    m->maps[SIM_LEFT][e] &= !settle;
  }
}

static void
apply_batch (struct sim_member *m, const struct array_io *io, void *buf)
{
  int count;
  const struct batch_record *r = decode (m, io, buf, &count);

  for (; count-- > 0; r++)
    if (batch_clears (r->kind))
      clear (m, r->offset, r->length, r->kind == BATCH_SETTLE);
    else if (r->kind == BATCH_ROUND)
      m->round = r->length;
    else
      put (m, r->offset, r->length, r->kind == BATCH_WRITE ? r->payload : NULL,
           io->flags & ARRAY_FUA);
}

bool
sim_member_clears (const struct sim_member *m, const struct array_io *io,
                   unsigned i, uint64_t *offset, uint64_t *length)
{
  const struct batch_record *r;
  int count;

  if (io->kind != IO_BATCH)
    return false;
  r = decode (m, io, io->buf, &count);
  if (i >= (unsigned) count || !batch_clears (r[i].kind))
    return false;
  *offset = r[i].offset;
  *length = r[i].length;
  return true;
}

bool
sim_member_writes (const struct sim_member *m, const struct array_io *io,
                   uint64_t offset, uint64_t length)
{
  const struct batch_record *r;
  int count;

  if (io->kind == IO_WRITE || io->kind == IO_ZERO)
    return io->offset < offset + length && offset < io->offset + io->length;
  if (io->kind != IO_BATCH)
    return false;
  r = decode (m, io, io->buf, &count);
  for (; count-- > 0; r++)
    if (batch_changes_data (r->kind) && r->offset < offset + length &&
        offset < r->offset + r->length)
      return true;
  return false;
}

/* A random prefix, and sometimes nothing is known. */
static int
extents (const struct sim_member *m, struct array_io *io)
{
  uint64_t grains = 1 + sim_below (io->length / grain_bytes);
  struct array_extent *e;

  if (sim_chance (10))
    return EIO;
  e = calloc (grains, sizeof *e);
  if (!e)
    abort ();
  io->extents = e;
  for (uint64_t i = 0; i < grains; i++) {
    const uint8_t *p = m->now + io->offset + i * grain_bytes;
    bool zero = p[0] == 0 && memcmp (p, p + 1, grain_bytes - 1) == 0;

    if (i == 0 || e->zero != zero)
      io->extents[io->extents_count++] = (struct array_extent) { .hole = zero,
                                                                 .zero = zero };
    e = &io->extents[io->extents_count - 1];
    e->length += grain_bytes;
  }
  return 0;
}

int
sim_member_execute (struct sim_member *m, struct array_io *io, void *buf)
{
  if (io->kind != IO_BATCH && io->kind != IO_FLUSH &&
      (io->length == 0 || io->offset > m->bytes ||
       io->length > m->bytes - io->offset))
    sim_fail ("a request of %llu bytes at %llu is beyond the member's end",
              (unsigned long long) io->length, (unsigned long long) io->offset);
  switch (io->kind) {
  case IO_READ:
    for (uint64_t at = 0; at < io->length; at += grain_bytes)
      if (m->bad[(io->offset + at) / grain_bytes])
        return EIO;
    memcpy (buf, m->now + io->offset, io->length);
    return 0;
  case IO_WRITE:
    put (m, io->offset, io->length, buf, io->flags & ARRAY_FUA);
    return 0;
  case IO_ZERO:
    put (m, io->offset, io->length, NULL, io->flags & ARRAY_FUA);
    return 0;
  case IO_BATCH:
    apply_batch (m, io, buf);
    return 0;
  case IO_FLUSH:
    memcpy (m->durable, m->now, m->bytes);
    return 0;
  case IO_EXTENTS:
    return extents (m, io);
  case IO_PULSE: /* of that the world knows */
  case IO_TRIM:  /* need not zero: the engine never asks for it */
  case IO_ROUND: /* nobody else writes */
    break;
  }
  sim_fail ("an unexpected kind of request");
}

/* Power is cut: unstable data may be gone, grain by grain; bits stay. */
void
sim_member_cut (struct sim_member *m, void (*gone) (uint64_t offset))
{
  for (uint64_t at = 0; at < m->bytes; at += grain_bytes)
    if (memcmp (m->now + at, m->durable + at, grain_bytes)) {
      if (sim_chance (50))
        memcpy (m->durable + at, m->now + at, grain_bytes);
      else {
        memcpy (m->now + at, m->durable + at, grain_bytes);
        gone (at);
      }
    }
  for (uint64_t e = 0; e < m->bytes / m->extent_bytes + 1; e++) {
    m->maps[SIM_LEFT][e] |= m->maps[SIM_HELD][e];
    m->maps[SIM_HELD][e] = false;
  }
}

void
sim_member_forget (struct sim_member *m)
{
  for (uint64_t e = 0; e < m->bytes / m->extent_bytes + 1; e++)
    m->maps[SIM_LEFT][e] = true;
}

void
sim_member_wait (struct sim_member *m)
{
  m->phase = SIM_WAITING;
  m->copying = UINT64_MAX;
  for (uint64_t e = 0; e < m->bytes / m->extent_bytes + 1; e++) {
    m->maps[SIM_TODO][e] = sim_member_dirty (m, e);
    m->maps[SIM_LEFT][e] = m->maps[SIM_HELD][e] = m->maps[SIM_COPIED][e] =
      false;
  }
}
