/* cluster-copies.c: counts the copies of an array's data: on its members as
 * they are now, and without some of them.
 */

#include <config.h>

#include <stdio.h>
#include <string.h>

#include "cluster-trust.h"

void
cluster_copies_states (const struct cluster_array *a, uint8_t states[])
{
  for (unsigned m = 0; m < a->layout.members; m++)
    states[m] = (uint8_t) a->rec.member[m].state;
}

unsigned
cluster_copies_unheard (const struct cluster_array *a)
{
  unsigned m = 0;

  while (m < a->layout.members && (cluster_disk_heard (a->disk[m]) ||
                                   a->disk[m]->old_copy || !a->disk[m]->alive))
    m++;
  return m;
}

bool
cluster_copies_disk_hangs (const struct cluster_disk *d)
{
  return cluster_disk_heard (d) && d->alive && d->disk_stuck_ms >= HUNG_MS;
}

bool
cluster_copies_disk_doubtful (const struct cluster_disk *d)
{
  return d->disk_stuck_ms >= DOUBTFUL_MS;
}

bool
cluster_member_well (const struct cluster_array *a, unsigned member,
                     const char **why)
{
  const struct cluster_disk *d = a->disk[member];

  if (a->rec.member[member].state == MEMBER_OUT)
    *why = "is out";
  else if (a->rec.member[member].state == MEMBER_JOINING)
    *why = "is joining";
  else if (d->old_copy)
    *why = "is an old copy of the disk";
  else if (cluster_disk_failed (d))
    *why = "has failed";
  else if (cluster_copies_disk_hangs (d))
    *why = "has a disk that hangs";
  else if (!d->alive)
    *why = "is silent";
  else if (!cluster_disk_heard (d))
    *why = "has not been heard of since weftd was started";
  else if (!d->took_place)
    *why = "has not taken its place yet";
  else
    return true;
  return false;
}

bool
cluster_copies_synced (const struct cluster_array *a, unsigned member)
{
  const struct cluster_join *join = &a->disk[member]->join;

  return join->phase == CLUSTER_JOIN_SYNCED &&
         join->epoch == a->rec.member[member].fence;
}

bool
cluster_copies_stays_out (const struct cluster_array *a, unsigned member)
{
  const struct cluster_change *change = &a->rec.change;

  return a->rec.member[member].state == MEMBER_OUT &&
         (change->epoch == 0 || change->states[member] == MEMBER_OUT);
}

bool
cluster_copies_fenced (const struct cluster_array *a, unsigned member)
{
  return cluster_disk_heard (a->disk[member]) &&
         a->disk[member]->min_epoch >= a->rec.member[member].fence;
}

bool
cluster_copies_disk_away (const struct cluster_disk *d)
{
  return !d->alive || cluster_disk_failed (d) || d->old_copy ||
         cluster_copies_disk_hangs (d);
}

void
cluster_copies_missing (const struct cluster_array *a, bool out[], bool gone[])
{
  for (unsigned m = 0; m < a->layout.members; m++) {
    out[m] = a->rec.member[m].state != MEMBER_IN_SYNC;
    gone[m] = out[m] || cluster_copies_disk_away (a->disk[m]);
  }
}

void
cluster_array_exposure (const struct cluster_array *a, uint64_t *exposed,
                        uint64_t *unreachable, uint64_t *lost)
{
  bool out[ARRAY_MEMBERS_MAX], gone[ARRAY_MEMBERS_MAX];
  const struct cluster_session *by;
  uint64_t e, u, rest, unequal, todo = 0;

  cluster_copies_missing (a, out, gone);
  u = layout_loss (&a->layout, gone, &e);
  if (unreachable)
    *unreachable = u;
  if (lost)
    *lost = layout_loss (&a->layout, out, NULL);
  if (exposed == NULL)
    return;
  /* Joining members have copies of everything that they do not report as to do.
   */
  for (unsigned m = 0; m < a->layout.members; m++) {
    const struct cluster_join *join = &a->disk[m]->join;

    if (a->rec.member[m].state != MEMBER_JOINING ||
        join->phase < CLUSTER_JOIN_COPYING ||
        join->epoch != a->rec.member[m].fence)
      continue;
    gone[m] = false;
    /* The member counts whole extents, which may be a little more than it has. */
    todo += join->todo_bytes < a->rec.member_bytes ? join->todo_bytes
                                                   : a->rec.member_bytes;
  }
  layout_loss (&a->layout, gone, &rest);
  *exposed = rest + todo < e ? rest + todo : e;
  cluster_array_unequal (a, &unequal, &by);
  *exposed = unequal < a->layout.size - *exposed ? *exposed + unequal
                                                 : a->layout.size;
}

/* "any 1 more member but 1, 5 and 4 others": those have the last copy of something.
 * Returns whether there is one that has not.
 */
static bool
name_spared (const struct cluster_array *a, bool gone[], char *text,
             size_t size)
{
  uint64_t now = layout_loss (&a->layout, gone, NULL);
  unsigned spared = 0, needed = 0;
  size_t used = (size_t) snprintf (text, size, "any 1 more member");

  for (unsigned m = 0; m < a->layout.members; m++) {
    if (gone[m])
      continue;
    gone[m] = true;
    if (layout_loss (&a->layout, gone, NULL) == now)
      spared++;
    else if (needed++ < 8)
      used += (size_t) snprintf (text + used, size - used, "%s%u",
                                 needed == 1 ? " but " : ", ", m);
    gone[m] = false;
  }
  if (needed > 8)
    snprintf (text + used, size - used, " and %u others", needed - 8);
  return spared > 0;
}

void
cluster_copies_hosts (const struct cluster_array *a, unsigned host[])
{
  for (unsigned m = 0; m < a->layout.members; m++) {
    host[m] = m;
    for (unsigned k = 0; k < m && host[m] == m; k++)
      if (cluster_disk_beside (a->disk[m], a->disk[k]->rec.node))
        host[m] = host[k];
  }
}

unsigned
cluster_array_hosts_survived (const struct cluster_array *a, uint64_t *together)
{
  unsigned host[ARRAY_MEMBERS_MAX], survived;

  cluster_copies_hosts (a, host);
  survived = layout_hosts (&a->layout, host, together) - 1;
  if (together && a->layout.copies == 1)
    *together = 0; /* its disks are as good as apart */
  return survived;
}

/* ", but not the loss of host n1": hosts whose loss takes data that the loss of no single
 * one of their members takes.  Returns how many there are.
 */
static unsigned
name_hosts (const struct cluster_array *a, bool gone[], char *text, size_t size)
{
  const uint64_t now = layout_loss (&a->layout, gone, NULL);
  unsigned host[ARRAY_MEMBERS_MAX], count = 0;
  size_t used = 0;

  text[0] = '\0';
  cluster_copies_hosts (a, host);
  for (unsigned h = 0; h < a->layout.members; h++) {
    bool all[ARRAY_MEMBERS_MAX], single = false;
    unsigned members = 0;

    memcpy (all, gone, sizeof all);
    for (unsigned m = h; m < a->layout.members; m++) {
      if (host[m] != h || gone[m])
        continue;
      members++;
      all[m] = gone[m] = true;
      single |= layout_loss (&a->layout, gone, NULL) > now;
      gone[m] = false;
    }
    if (members < 2 || single || layout_loss (&a->layout, all, NULL) == now)
      continue;
    if (count++ < 2)
      used += (size_t) snprintf (text + used, size - used, "%s%s",
                                 count == 1 ? ", but not the loss of host "
                                            : " or ",
                                 a->disk[h]->rec.node);
  }
  if (count > 2)
    snprintf (text + used, size - used, " or %u others", count - 2);
  return count;
}

void
cluster_array_survives (const struct cluster_array *a, char *text, size_t size)
{
  bool out[ARRAY_MEMBERS_MAX], gone[ARRAY_MEMBERS_MAX], any = false;
  bool none[ARRAY_MEMBERS_MAX] = { false };
  char whole[400], spared[120], hosts[180] = "";
  unsigned host[ARRAY_MEMBERS_MAX];
  bool apart = cluster_array_hosts_survived (a, NULL) > 0;
  size_t used;

  cluster_copies_hosts (a, host);
  layout_survives (&a->layout, apart ? host : NULL, whole, sizeof whole);
  used = strlen (whole);
  if (!apart && a->layout.copies > 1)
    name_hosts (a, none, whole + used, sizeof whole - used);
  cluster_copies_missing (a, out, gone);
  for (unsigned m = 0; m < a->layout.members; m++)
    any |= gone[m];
  if (!any || a->layout.copies == 1)
    snprintf (text, size, "%s", whole);
  else if (layout_loss (&a->layout, gone, NULL) > 0)
    snprintf (text, size,
              "nothing: some data cannot be reached now (when all members are "
              "in-sync: %s)",
              whole);
  else {
    any = name_spared (a, gone, spared, sizeof spared);
    if (any)
      name_hosts (a, gone, hosts, sizeof hosts);
    snprintf (text, size, "%s%s (when all members are in-sync: %s)",
              any ? spared : "no further loss now", hosts, whole);
  }
}

void
cluster_copies_on_node (const struct cluster_array *a, const char *node,
                        bool which[])
{
  for (unsigned m = 0; m < a->layout.members; m++)
    which[m] = strcmp (a->disk[m]->rec.node, node) == 0;
}

void
cluster_copies_without (const struct cluster *c, const struct cluster_array *a,
                        const bool which[], uint64_t *exposed,
                        uint64_t *unreachable)
{
  bool out[ARRAY_MEMBERS_MAX], gone[ARRAY_MEMBERS_MAX];
  uint64_t e_now, e, u_now, u;

  cluster_copies_missing (a, out, gone);
  for (unsigned m = 0; m < a->layout.members; m++)
    gone[m] |= cluster_node_in_maintenance (c, a->disk[m]->rec.node);
  u_now = layout_loss (&a->layout, gone, &e_now);
  for (unsigned m = 0; m < a->layout.members; m++)
    gone[m] |= which[m];
  u = layout_loss (&a->layout, gone, &e);
  if (unreachable)
    *unreachable = u - u_now;
  if (exposed)
    *exposed = e > e_now ? e - e_now : 0;
}

bool
cluster_copies_kept (const struct cluster_array *a, const uint8_t states[])
{
  bool before[ARRAY_MEMBERS_MAX], after[ARRAY_MEMBERS_MAX], any = false;

  for (unsigned m = 0; m < a->layout.members; m++) {
    const struct cluster_disk *d = a->disk[m];
    bool in_sync = a->rec.member[m].state == MEMBER_IN_SYNC;
    bool goes = in_sync && states[m] != MEMBER_IN_SYNC;

    before[m] = !in_sync || (!goes && (d->old_copy || cluster_disk_failed (d) ||
                                       cluster_copies_disk_hangs (d)));
    after[m] = before[m] || goes;
    any |= goes;
  }
  return !any || layout_loss (&a->layout, after, NULL) ==
                   layout_loss (&a->layout, before, NULL);
}

bool
cluster_copies_can_leave_out (const struct cluster_array *a, unsigned member)
{
  uint8_t states[ARRAY_MEMBERS_MAX];

  cluster_copies_states (a, states);
  states[member] = MEMBER_OUT;
  return cluster_copies_kept (a, states);
}

void
cluster_copies_leave_out (const struct cluster_array *a, unsigned member,
                          uint8_t states[])
{
  const struct layout_group group = layout_group (&a->layout, member);

  if (a->rec.member[member].state == MEMBER_IN_SYNC)
    for (unsigned m = group.first; m < group.end; m++)
      /* With two copies, a joining member has all its data from its only
       * source, and that source is as good as before.
       */
      if (states[m] == MEMBER_JOINING && a->layout.copies > 2)
        states[m] = MEMBER_OUT;
  states[member] = MEMBER_OUT;
}

const char *
cluster_array_state (const struct cluster_array *a)
{
  uint64_t unreachable;
  bool joining = false;

  if (!a->rec.ready)
    return "creating";
  if (a->rec.restoring)
    return "failed";
  cluster_array_exposure (a, NULL, &unreachable, NULL);
  if (unreachable > 0)
    return "failed";
  for (unsigned m = 0; m < a->layout.members; m++) {
    if (a->rec.member[m].state == MEMBER_OUT ||
        cluster_copies_disk_away (a->disk[m]))
      return "degraded";
    joining = joining || a->rec.member[m].state == MEMBER_JOINING;
  }
  return joining ? "rebuilding" : "ready";
}

bool
cluster_copies_behind (const struct cluster *c, const struct cluster_array *a)
{
  bool written = cluster_array_writer_alive (a) != NULL;

  for (unsigned m = 0; written && m < a->layout.members; m++)
    if (a->rec.member[m].state != MEMBER_IN_SYNC)
      return true;
  return false;
}
