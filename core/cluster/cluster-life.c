/* cluster-life.c: which process serves a disk, and which one does the writer know?
 *
 * They differ when a member was started again: the writer may still have a
 * connection to the former process, and what that had not flushed may be gone.
 */

#include <config.h>

#include <string.h>

#include "cluster-internal.h"

void
cluster_life_meet (struct cluster *c, struct cluster_disk *d)
{
  if (d->heard &&
      (cluster_text_copy (d->rec.instance, sizeof d->rec.instance,
                          d->instance) |
       cluster_text_copy (d->rec.cache, sizeof d->rec.cache, d->cache)))
    cluster_put_disk (c, d);
}

bool
cluster_life_met (const struct cluster_disk *d)
{
  return d->heard && strcmp (d->instance, d->rec.instance) == 0;
}

/* A process that has failed does not count.  The kernel tells of a write to the
 * disk that failed only once: the failed process may have been told, and a new one
 * with the same page cache would not be.
 */
bool
cluster_life_kept (const struct cluster_disk *d)
{
  return d->heard && !d->failed &&
         (cluster_life_met (d) ||
          (d->cache[0] && strcmp (d->cache, d->rec.cache) == 0));
}

bool
cluster_life_unmet (const struct cluster_disk *d)
{
  return d->heard && !cluster_life_met (d);
}

/* A joiner may be served by a process that has confirmed nothing yet. */
uint64_t
cluster_member_life (const struct cluster_array *a, unsigned member)
{
  return cluster_life_unmet (a->disk[member]) ? a->rec.epoch
                                              : a->rec.member[member].life;
}

/* Of several that write, one may have given it rounds since, before another has heard of
 * the process.
 */
uint64_t
cluster_member_life_round (const struct cluster_array *a, unsigned member)
{
  return cluster_life_unmet (a->disk[member])
           ? cluster_member_round (a, member)
           : a->rec.member[member].life_round;
}

bool
cluster_member_known (const struct cluster_array *a, unsigned member,
                      const struct cluster_session *s)
{
  return a->known[member] ||
         (s->rec.part.length > 0 && a->disk[member]->served);
}

bool
cluster_life_known (const struct cluster *c, const struct cluster_disk *d)
{
  return d->array && d->rec.instance[0] &&
         d->array->rec.member[d->position].state != MEMBER_OUT &&
         cluster_array_writer (d->array);
}

bool
cluster_life_apart (const struct cluster_array *a,
                    const struct cluster_session *s, unsigned member)
{
  const struct cluster_session *other = NULL;
  unsigned reach = 0, lack = 1;
  const char *why;

  if (s->rec.part.length == 0 || !cluster_member_well (a, member, &why) ||
      cluster_disk_doubtful (a->disk[member]) ||
      cluster_life_unmet (a->disk[member]))
    return false;
  while ((other = cluster_writer_next (a, other))) {
    if (other == s || !other->alive)
      continue;
    lack += other->said_lost[member];
    reach += !other->said_lost[member];
  }
  return reach > 0 &&
         (reach >= lack || !cluster_array_can_leave_out (a, member));
}

uint64_t
cluster_life_shown (const struct cluster_array *a,
                    const struct cluster_session *s, unsigned member)
{
  const struct cluster_disk *d = a->disk[member];
  const struct cluster_session *other = NULL;
  uint64_t live_ms = 0;

  while ((other = cluster_writer_next (a, other)))
    if (other != s && !other->said_lost[member] &&
        other->epoch >= a->rec.member[member].fence &&
        other->spoke_live_ms > live_ms)
      live_ms = other->spoke_live_ms;
  return live_ms < d->spoke_live_ms ? live_ms : d->spoke_live_ms;
}

bool
cluster_life_reborn (const struct cluster *c, const struct cluster_array *a,
                     unsigned member)
{
  return cluster_writer_alive (a) &&
         a->rec.member[member].state == MEMBER_IN_SYNC &&
         cluster_life_unmet (a->disk[member]);
}
