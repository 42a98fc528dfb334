/* copies.c: copies of disks, and disks that are moved to other hosts.
 *
 * A copy is made at one moment, like a backup, or the clone of a machine: it has all of
 * the disk, its UUID, too.  Later it is served in place of the disk, or beside it.  The
 * right disk comes back, unless the copy was taken for it meanwhile.  That is allowed
 * only when the array goes on without the member, and rebuilds it; then the disk that was
 * right is the old copy.
 *
 * Only copies that the database can tell from the disk are served.  But where disks are
 * rolled back, any copy takes its disk's place, one at a time, whatever else happens just
 * then.  oracle.c knows the possible loss.
 */

#include <config.h>

#include <string.h>

#include "faults.h"

/* Is this the disk itself, as weftd sees it? */
static bool
is_disk (const struct member_role *m)
{
  return m->disk->uuid[0] && &w.disk[disk_holder (m->disk->uuid)] == m->disk;
}

/* Room for a copy. */
static struct member_role *
some_room (void)
{
  unsigned from = sim_below (w.roles);

  for (unsigned i = 0; i < w.roles; i++) {
    struct member_role *m = &w.member[(from + i) % w.roles];

    if (m->pulled && !is_disk (m))
      return m;
  }
  return NULL;
}

static struct member_role *
copy_some (void)
{
  struct member_role *m = fault_member (), *copy = some_room ();

  if (m == NULL || copy == NULL || !is_disk (m) || m->disk->place < 0)
    return NULL;
  sim_trace ("disk %u is a copy of disk %u", copy->disk->number,
             m->disk->number);
  disk_copy (copy->disk, m->disk, sim_chance (50));
  oracle_copied (copy->disk);
  copy->pulled = true;
  return copy;
}

static void
copy_make (void *nothing)
{
  copy_some ();
}

/* Its own report is older than the database. */
static bool
known_as_old (struct disk *d)
{
  const struct cluster_array_record *a = store_array ();
  const struct cluster_disk_record *r = store_disk (d->uuid);
  struct superblock sb;
  struct intents map;
  bool mend;

  if (r == NULL || disk_load (d, &sb, &mend, &map) == -1)
    return false;
  intents_free (&map);
  if (format_uuid_zero (sb.array) || sb.sequence < r->sequence)
    return true;
  for (unsigned m = 0; m < w.layout.members; m++)
    if (memcmp (a->member[m].disk, d->uuid, 16) == 0)
      return sb.min_epoch < a->member[m].confirmed;
  return true; /* not even a member */
}

static struct member_role *
some_old_copy (void)
{
  unsigned from = sim_below (w.roles);

  for (unsigned i = 0; i < w.roles && !w.old_database; i++) {
    struct member_role *m = &w.member[(from + i) % w.roles];

    if (m->pulled && !is_disk (m) && known_as_old (m->disk))
      return m;
  }
  return NULL;
}

/* Does weftd say that the right disks are to be put back, if this is a copy? */
bool
copies_doubted (void)
{
  const struct cluster_array *a = w.weftd.engine ? cluster_array_find (
                                                     w.weftd.engine, ARRAY_NAME)
                                                 : NULL;

  return a && cluster_array_doubted (w.weftd.engine, a, NULL, 0);
}

/* Does weftd take a copy for the disk itself that has not confirmed anything yet? */
static bool
unproven (const struct disk *d)
{
  const struct cluster_disk_record *r = store_disk (d->uuid);
  const struct member_role *m;

  if (r == NULL || r->uri[0] == '\0')
    return false;
  m = &w.member[process_at (r->uri)];
  return memcmp (m->disk->uuid, d->uuid, 16) == 0 && !is_disk (m) &&
         !m->pulled && !m->refused;
}

/* The disk itself is there again; other disks with its UUID mostly go. */
static void
time_is_up (void *what)
{
  struct member_role *copy = what;

  if (unproven (copy->disk) &&
      !copies_doubted ()) { /* nobody looks for the right disk then */
    fault_later (SECOND, time_is_up, copy);
    return;
  }
  for (unsigned i = 0; i < w.roles; i++) {
    struct member_role *m = &w.member[i];

    if (memcmp (m->disk->uuid, copy->disk->uuid, 16) != 0)
      continue;
    if (is_disk (m)) {
      m->pulled = false;
      fault_member_back (m);
    }
    else if (w.healing || !known_as_old (m->disk) || sim_chance (70)) {
      m->pulled = true;
      member_unplug (m);
    }
  }
}

static void
time_is_up_before_all_heals (void *copy)
{
  if (!w.healing) /* once, by copies_heal: requests to weftd stay there */
    time_is_up (copy);
}

static void
serve (struct member_role *copy)
{
  copy->pulled = false;
  fault_later (between (1, 2000) * MS, fault_member_back, copy);
  fault_later (fault_outage () + 2 * SECOND, time_is_up_before_all_heals, copy);
}

static void
put_in_place (struct member_role *copy, bool power)
{
  struct member_role *m = &w.member[disk_holder (copy->disk->uuid)];

  sim_trace ("disk %u is in place of disk %u", copy->disk->number,
             m->disk->number);
  if (power)
    member_unplug (m);
  else if (m->proc.life)
    member_stop (m, false);
  m->pulled = true;
  m->disk->copied = sim_now;
  oracle_copied (m->disk);
  copy->proc.party = m->proc.party;
  serve (copy);
}

static void
copy_instead (void *nothing)
{
  struct member_role *copy = some_old_copy ();

  if (copy)
    put_in_place (copy, true);
}

static void
copy_beside (void *nothing)
{
  struct member_role *copy = some_old_copy ();

  if (copy == NULL)
    return;
  sim_trace ("disk %u is beside disk %u", copy->disk->number,
             disk_holder (copy->disk->uuid));
  copy->proc.party = 1 + sim_below (w.config.hosts);
  serve (copy);
}

/* Two disks change hosts. */
static void
disks_swap (void *nothing)
{
  struct member_role *a = fault_member (), *b = fault_member ();
  unsigned party;

  if (a == NULL || b == NULL || a == b)
    return;
  sim_trace ("disks %u and %u change hosts", a->disk->number, b->disk->number);
  fault_member_stop (a, true);
  fault_member_stop (b, true);
  party = a->proc.party;
  a->proc.party = b->proc.party;
  b->proc.party = party;
}

/* ---- Disks that are rolled back ---- */

/* Is one, and the array has not got over it? */
static bool
rolled_back (void)
{
  for (unsigned i = 0; i < w.roles; i++)
    if (w.disk[i].uuid[0] && is_disk (&w.member[i]) == w.member[i].pulled)
      return true;
  return oracle_rolled_back ();
}

static void
roll_back (void *what)
{
  struct member_role *copy = what;

  if (w.healing || w.old_database || rolled_back () || !copy->pulled ||
      copy->disk->uuid[0] == 0)
    return;
  sim_trace ("a copy of %.1f s is put back",
             (double) (sim_now - copy->disk->copied) / SECOND);
  put_in_place (copy, sim_chance (50));
  if (sim_chance (70))
    fault_beside ();
}

static void
roll_some_back (void *nothing)
{
  roll_back (&w.member[w.disks + sim_below (TWINS)]);
}

static void
copy_for_later (void *nothing)
{
  struct member_role *copy = copy_some ();

  if (copy)
    fault_later (sim_below (sim_chance (50) ? 4 * SECOND : 15 * SECOND),
                 roll_back, copy);
}

/* Clients rest, or use some of the array only: bits are cleared, and no round begins.
 * Data written meanwhile that a copy lacks was written just before the end.
 */
static void
work_changes (void *nothing)
{
  uint64_t rest = sim_below (15 * SECOND);

  w.area_only = sim_chance (50) ? 1 + sim_below (w.config.areas) : 0;
  if (sim_chance (50))
    return;
  w.quiet_until = sim_now + rest;
  if (sim_chance (50)) {
    fault_later (sim_below (rest + 1), copy_make, NULL);
    fault_later (rest + sim_below (2 * SECOND), roll_some_back, NULL);
  }
}

static void
rest_but_one (uint64_t rest)
{
  unsigned busy = sim_below (w.config.hosts);

  sim_trace ("for %.1f s only host %u has something to do",
             (double) rest / SECOND, busy);
  for (unsigned i = 0; i < w.config.hosts; i++)
    w.host[i].rests_until = i == busy ? 0 : sim_now + rest;
}

static void
copy_in_rest (void *what)
{
  struct member_role *copy = w.healing ? NULL : copy_some ();

  (void) what;
  if (copy)
    fault_later (between (3500, 12000) * MS, roll_back, copy);
}

/* The last rounds of the resting hosts are over when the copy is made. */
static void
another_alone (void *what)
{
  (void) what;
  if (w.healing)
    return;
  rest_but_one (between (8, 20) * SECOND);
  fault_later (between (2000, 4000) * MS, copy_in_rest, NULL);
}

/* All hosts but one rest, then all but another.  The second host's writes are known as
 * newer than a copy that was made before, though the first has had more rounds and begins
 * none now.
 */
void
copies_of_one (void)
{
  uint64_t rest = between (3, 15) * SECOND;

  rest_but_one (rest);
  if (!w.config.rollbacks)
    return;
  if (sim_chance (70))
    w.calm_until = sim_now + rest + 16 * SECOND;
  fault_later (rest, another_alone, NULL);
}

void
copies_fault (void)
{
  void (*const one[]) (void *) = { copy_make, copy_make, copy_instead,
                                   copy_beside, disks_swap };
  void (*const rollback[]) (void *) = { copy_make, copy_for_later,
                                        copy_for_later, roll_some_back,
                                        work_changes };

  if (w.config.rollbacks)
    rollback[sim_below (sizeof rollback / sizeof rollback[0])](NULL);
  else
    one[sim_below (sizeof one / sizeof one[0])](NULL);
}

bool
copies_served (void)
{
  for (unsigned i = 0; i < w.roles; i++)
    if (!w.member[i].pulled && !is_disk (&w.member[i]))
      return true;
  return false;
}

void
copies_heal (void)
{
  for (unsigned i = 0; i < w.roles; i++)
    if (w.disk[i].uuid[0] && !is_disk (&w.member[i]))
      time_is_up (&w.member[i]);
}
