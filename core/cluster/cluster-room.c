/* cluster-room.c: disks that have no room, or soon have none.
 *
 * A member in a file that is sparse takes the room for its data when it is written.  A
 * disk that is *short* refuses writes for the moment, and says so.  Its member is not put
 * out for that: whoever writes reports it, if it can go.  But it is not taken back before
 * there is room, for else it would come and go.
 */

#include <config.h>

#include "cluster-internal.h"

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
  uint64_t ms = s->stats.member[member].refused_ns / 1000000;

  return ms < ROOM_REFUSED_MS ? 0 : ms;
}
