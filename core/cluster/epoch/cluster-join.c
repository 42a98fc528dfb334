/* cluster-join.c: the order to a joining member, and what its rebuild waits
 * for.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cluster-epoch.h"

/* The first session that does not send its writes there yet; NULL: all do. */
static const struct cluster_session *
sends_nothing (const struct cluster *c, const struct cluster_array *a,
               unsigned member)
{
  const struct cluster_session *s = cluster_array_writer (a);

  while (s && s->epoch >= a->rec.member[member].fence)
    s = cluster_writer_next (a, s);
  return s;
}

bool
cluster_join_sends (const struct cluster *c, const struct cluster_array *a,
                    unsigned member)
{
  return sends_nothing (c, a, member) == NULL;
}

/* The joining member has cleared its own intent bits as it copied.  A writer would go
 * on with rounds; where nobody writes, the member ends with one round more than those
 * that it may have copied from.  So it is two ahead of a copy of their disks that was
 * made before, and only one ahead of the disks themselves.
 */
uint64_t
cluster_join_round (const struct cluster *c, const struct cluster_array *a)
{
  bool all = true;

  if (a->rec.round == 0 || cluster_array_writer (a))
    return 0; /* there are no rounds yet, or the writer goes on with them */
  for (unsigned m = 0; m < a->layout.members; m++)
    all &= a->rec.member[m].state != MEMBER_IN_SYNC ||
           (cluster_disk_heard (a->disk[m]) &&
            a->disk[m]->round >= a->rec.round);
  return a->rec.round + all;
}

void
cluster_join_end (const struct cluster *c, const struct cluster_array *a,
                  unsigned member)
{
  uint64_t *said = &a->disk[member]->round;
  uint64_t told = cluster_join_round (c, a);

  if (told < a->rec.round)
    told = a->rec.round;
  if (*said > told)
    *said = told;
}

bool
cluster_join_order (const struct cluster *c, const struct cluster_array *a,
                    unsigned member, struct cluster_join_order *order)
{
  const struct cluster_member *r = &a->rec.member[member];
  const struct cluster_session *writer = cluster_array_writer (a);
  const struct layout_group group = layout_group (&a->layout, member);

  if (r->state != MEMBER_JOINING || r->anew ||
      !cluster_join_sends (c, a, member) ||
      cluster_process_unmet (a->disk[member]) ||
      (a->rec.change.epoch && a->rec.change.confirm[member]))
    return false;
  for (unsigned m = group.first; m < group.end; m++)
    if (a->rec.member[m].state == MEMBER_IN_SYNC &&
        !cluster_copies_fenced (a, m) &&
        (cluster_disk_heard (a->disk[m]) || !cluster_array_writer (a)))
      return false; /* a writer whose session is over may still write to it */
  for (unsigned m = group.first; m < group.end; m++)
    if (writer && writer->rec.part.length > 0 &&
        cluster_shut_waits_for (a, m, 0))
      return false; /* so may one of several */
  memset (order, 0, sizeof *order);
  order->epoch = r->fence;
  order->paused = r->paused;
  order->round = cluster_join_round (c, a);
  order->rate = a->disk[member]->rate;
  if (r->ceiling && (order->rate == 0 || order->rate > r->ceiling))
    order->rate = r->ceiling;
  layout_partners (&a->layout, member, order->source);
  for (unsigned m = 0; m < a->layout.members; m++)
    order->source[m] &= a->rec.member[m].state == MEMBER_IN_SYNC;
  return true;
}

void
cluster_join_grant (struct cluster_disk *d)
{
  const struct cluster_join_order *order = &d->told.order;
  uint64_t session;

  if (order->epoch == 0)
    return;
  session = cluster_shut_source (d->array, d->position);
  if (d->grants.joining != session)
    memset (d->grants.source, 0, sizeof d->grants.source);
  d->grants.joining = session;
  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++)
    if (order->source[m] && !d->grants.source[m])
      d->grants.source[m] = d->grants.any = true;
}

bool
cluster_join_granted (struct cluster *c, const uint8_t disk[16], char *text,
                      size_t size)
{
  struct cluster_disk *d = cluster_disk_find (c, disk);
  char uuid[CLUSTER_UUID_TEXT_BYTES];
  const char *before = " ";
  size_t n;

  if (d == NULL || !d->grants.any || d->array == NULL)
    return false;
  d->grants.any = false;
  cluster_words_uuid (d->rec.uuid, uuid);
  n = snprintf (text, size, "%s/%u, disk %s: its rebuild reads members",
                d->array->rec.name, d->position, uuid);
  for (unsigned m = 0, end; m < ARRAY_MEMBERS_MAX && n < size; m = end + 1) {
    for (end = m; end < ARRAY_MEMBERS_MAX && d->grants.source[end]; end++)
      ;
    if (end == m)
      continue;
    n += snprintf (text + n, size - n, "%s%u", before, m);
    if (end > m + 1 && n < size)
      n += snprintf (text + n, size - n, "-%u", end - 1);
    before = ", ";
  }
  return true;
}

bool
cluster_join_waits (const struct cluster *c, const struct cluster_array *a,
                    unsigned member, char *text, size_t size)
{
  const struct cluster_disk *d = a->disk[member];
  const struct cluster_session *writer = sends_nothing (c, a, member);
  struct cluster_join_order order;

  if (!d->alive)
    snprintf (text, size, "its disk, on node %s, which is silent", d->rec.node);
  else if (a->rec.member[member].paused)
    snprintf (text, size, "somebody to resume it: it is paused");
  else if (d->join.waits[0])
    snprintf (text, size, "%s", d->join.waits);
  else if (writer && !cluster_join_order (c, a, member, &order))
    snprintf (text, size,
              "session %016" PRIx64 " on node %s, which is to send its writes "
              "there first",
              writer->rec.id, writer->rec.node);
  else if (d->join.phase == CLUSTER_JOIN_SYNCED)
    snprintf (text, size, "every session to count on it");
  else
    return false;
  return true;
}
