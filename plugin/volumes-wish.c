/* volumes-wish.c: see volumes-wish.h. */

#include <config.h>

#include <string.h>

#include "volumes-wish.h"

void
volumes_wish_add (struct block *b, void *opaque, uint64_t now_ns)
{
  struct volumes_wish *w = opaque;
  struct volume *v;

  w->slot = volumes_block_add (b, w->config);
  if (w->slot == NULL)
    return;
  v = volumes_block_volume (b, w->slot);
  if (w->delete)
    volume_delete (v, now_ns);
  volume_granted (v, w->runs, w->count, now_ns);
  volume_open (v, now_ns);
}

void
volumes_wish_look (struct block *b, void *opaque, uint64_t now_ns)
{
  struct volumes_wish *w = opaque;
  struct volume *v = volumes_block_volume (b, w->slot);

  (void) now_ns;
  w->state = volume_state (v);
  w->why = volume_why (v);
  w->idle = volume_idle (v);
  w->size = volume_root (v)->size;
}

void
volumes_wish_drop (struct block *b, void *opaque, uint64_t now_ns)
{
  struct volumes_wish *w = opaque;

  (void) now_ns;
  volumes_block_drop (b, w->slot);
}

void
volumes_wish_client (struct block *b, void *opaque, uint64_t now_ns)
{
  struct volumes_wish *w = opaque;

  (void) now_ns;
  w->client = volumes_block_client (b, w->slot);
}

void
volumes_wish_granted (struct block *b, void *opaque, uint64_t now_ns)
{
  struct volumes_wish *w = opaque;

  volume_granted (volumes_block_volume (b, w->slot), w->runs, w->count, now_ns);
}

void
volumes_wish_resize (struct block *b, void *opaque, uint64_t now_ns)
{
  struct volumes_wish *w = opaque;

  w->error = volume_resize (volumes_block_volume (b, w->slot), w->size, now_ns);
}

void
volumes_wish_delete (struct block *b, void *opaque, uint64_t now_ns)
{
  struct volumes_wish *w = opaque;

  volume_delete (volumes_block_volume (b, w->slot), now_ns);
}

void
volumes_wish_close (struct block *b, void *opaque, uint64_t now_ns)
{
  struct volumes_wish *w = opaque;

  volume_close (volumes_block_volume (b, w->slot), now_ns);
}

void
volumes_wish_facts (struct block *b, void *opaque, uint64_t now_ns)
{
  struct volumes_wish *w = opaque;
  struct holder_facts *f = &w->facts;
  struct volume *v = volumes_block_volume (b, w->slot);
  struct volume_stats stats;

  volume_tick (v, now_ns);
  memset (f, 0, sizeof *f);
  f->want = volume_wants (v, &f->near, &f->waits);
  volume_stats (v, &stats);
  if (f->want > 0 && stats.kept > stats.spare)
    f->log = (uint32_t) (stats.kept - stats.spare);
  if (f->log > f->want)
    f->log = f->want;
  w->state = volume_state (v);
  f->said = (struct holder_said) {
    .made = volume_root (v)->sequence > 0 && w->state != VOLUME_OPENING,
    .size = volume_root (v)->size,
    .mapped = stats.mapped,
    .log = stats.log,
    .spare = stats.spare,
    .waiting = stats.waiting,
    .why = volume_why (v),
  };
  w->gives_count = volume_gives (v, w->gives, VOLUMES_WISH_GIVES);
}

void
volumes_wish_uses (struct block *b, void *opaque, uint64_t now_ns)
{
  struct volumes_wish *w = opaque;
  struct volume *v = volumes_block_volume (b, w->slot);
  struct volume_stats stats;

  (void) now_ns;
  volume_stats (v, &stats);
  w->kept = stats.kept;
  w->uses_count = volume_uses (v, &w->uses_after, w->uses, w->uses_max);
}

void
volumes_wish_losses (struct block *b, void *opaque, uint64_t now_ns)
{
  struct volumes_wish *w = opaque;

  (void) now_ns;
  w->losses = volumes_block_losses (b);
}
