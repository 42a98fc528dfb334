/* cluster-process.c: which process serves a disk, and which one does the writer know?
 *
 * They differ when a member was started again: the writer may still have a
 * connection to the former process, and what that had not flushed may be gone.
 */

#include <config.h>

#include <string.h>

#include "cluster-trust.h"

void
cluster_process_meet (struct cluster *c, struct cluster_disk *d)
{
  if (cluster_disk_heard (d) &&
      (cluster_object_text_copy (d->rec.instance, sizeof d->rec.instance,
                                 d->instance) |
       cluster_object_text_copy (d->rec.cache, sizeof d->rec.cache, d->cache)))
    cluster_step_put_disk (c, d);
}

void
cluster_process_replaced (struct cluster_disk *d)
{
  if (d->presence == DISK_HEARD)
    d->presence = DISK_FORMER;
}

bool
cluster_process_met (const struct cluster_disk *d)
{
  return cluster_disk_heard (d) && strcmp (d->instance, d->rec.instance) == 0;
}

/* A process that has failed does not count.  The kernel reports a failed write
 * to the disk only once: the failed process may have got the report, and a new
 * one with the same page cache would not.
 */
bool
cluster_process_kept (const struct cluster_disk *d)
{
  return cluster_disk_heard (d) && !cluster_disk_failed (d) &&
         (cluster_process_met (d) ||
          (d->cache[0] && strcmp (d->cache, d->rec.cache) == 0));
}

bool
cluster_process_unmet (const struct cluster_disk *d)
{
  return cluster_disk_heard (d) && !cluster_process_met (d);
}

/* A joiner may be served by a process that has confirmed nothing yet. */
uint64_t
cluster_member_life (const struct cluster_array *a, unsigned member)
{
  return cluster_process_unmet (a->disk[member]) ? a->rec.epoch
                                                 : a->rec.member[member].life;
}

bool
cluster_member_known (const struct cluster_array *a, unsigned member,
                      const struct cluster_session *s)
{
  return a->known[member] ||
         (s->rec.part.length > 0 && a->disk[member]->served);
}

bool
cluster_process_known (const struct cluster *c, const struct cluster_disk *d)
{
  return d->array && d->rec.instance[0] &&
         d->array->rec.member[d->position].state != MEMBER_OUT &&
         cluster_array_writer (d->array);
}

bool
cluster_process_apart (const struct cluster_array *a,
                       const struct cluster_session *s, unsigned member)
{
  const struct cluster_session *other = NULL;
  unsigned reach = 0, lack = 1;
  const char *why;

  if (s->rec.part.length == 0 || !cluster_member_well (a, member, &why) ||
      cluster_copies_disk_doubtful (a->disk[member]) ||
      cluster_process_unmet (a->disk[member]))
    return false;
  while ((other = cluster_writer_next (a, other))) {
    if (other == s || !other->alive)
      continue;
    lack += other->path[member].reported;
    reach += !other->path[member].reported;
  }
  return reach > 0 &&
         (reach >= lack || !cluster_copies_can_leave_out (a, member));
}

bool
cluster_process_reached (const struct cluster_array *a,
                         const struct cluster_session *s, unsigned member)
{
  return s->heard && s->alive && s->path[member].unreached_live_ms == 0 &&
         s->epoch >= a->rec.member[member].fence;
}

bool
cluster_process_awaited (const struct cluster_session *s, unsigned member,
                         uint64_t live_ms)
{
  return s->path[member].reported && live_ms &&
         s->path[member].waits_live_ms <= live_ms;
}

uint64_t
cluster_process_shown (const struct cluster_array *a,
                       const struct cluster_session *s, unsigned member)
{
  const struct cluster_disk *d = a->disk[member];
  const struct cluster_session *other = NULL;
  uint64_t live_ms = 0;

  while ((other = cluster_writer_next (a, other)))
    if (other != s && !other->path[member].reported &&
        other->epoch >= a->rec.member[member].fence &&
        other->spoke_live_ms > live_ms)
      live_ms = other->spoke_live_ms;
  return live_ms < d->spoke_live_ms ? live_ms : d->spoke_live_ms;
}

bool
cluster_process_reborn (const struct cluster *c, const struct cluster_array *a,
                        unsigned member)
{
  return cluster_array_writer_alive (a) &&
         a->rec.member[member].state == MEMBER_IN_SYNC &&
         cluster_process_unmet (a->disk[member]);
}
