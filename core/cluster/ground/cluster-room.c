/* cluster-room.c: disks that have no room, or soon have none.
 *
 * A member in a sparse file allocates its blocks when it is written.  A disk
 * that is *short* refuses writes for the moment, and reports that.  weftd does
 * not put the member out for that: the writer reports it, if the array can do
 * without it.  But the member is not taken back before there is room, because
 * it would go out again at once.
 */

#include <config.h>

#include "cluster-ground.h"

const char *
cluster_room_short (const struct cluster_disk *d)
{
  return d->alive && d->said && d->said->shortage[0] ? d->said->shortage : NULL;
}

bool
cluster_room_lacks (const struct cluster_disk *d)
{
  const struct cluster_room *r = &d->room;

  return cluster_room_short (d) ||
         (d->alive && r->size > 0 && r->wanted > r->free &&
          r->free < EXTENT_BYTES);
}

bool
cluster_room_low (const struct cluster_disk *d)
{
  const struct cluster_room *r = &d->room;

  return d->alive && r->size > 0 && r->wanted > r->free &&
         r->free <= r->size / 10;
}

uint64_t
cluster_room_refused_ms (const struct cluster_session *s, unsigned member)
{
  uint64_t ms = s->load.stats.member[member].refused_ns / 1000000;

  return ms < ROOM_REFUSED_MS ? 0 : ms;
}
