/* hangs.c: a disk answers nothing for a while, and its process lives.
 *
 * If there is no other fault for CALM, and others have copies of all data of the member,
 * the member is out by then, whichever hosts use the array.  (CALM is long: earlier
 * faults may cause waits, such as one for a silent session.)
 */

#include <config.h>

#include <inttypes.h>

#include "faults.h"

#define CALM (30 * SECOND)
#define LOOK (500 * MS)

uint64_t
fault_state_of_others (const struct member_role *but)
{
  uint64_t sum = w.weftd.proc.life;

  if (w.weftd.proc.life == 0 || w.weftd.proc.frozen_until > sim_now ||
      w.old_database || w.no_database || copies_doubted ())
    return 0;
  for (unsigned a = 0; a < PARTIES; a++)
    for (unsigned b = 0; b < PARTIES; b++)
      if (w.cut[a][b])
        return 0;
  for (unsigned i = 0; i < w.roles; i++) {
    const struct member_role *m = &w.member[i];

    if (m->proc.life == 0 && (m == but || m->pulled))
      continue;
    if (m->proc.life == 0 || m->proc.frozen_until > sim_now ||
        member_failed (m->engine) ||
        (m != but &&
         (disk_hangs (m->disk) || m->slow > 1 || m->withheld.until > sim_now)))
      return 0;
    sum = sum * 31 + m->proc.life;
  }
  for (unsigned i = 0; i < w.config.hosts; i++) {
    const struct host_role *h = &w.host[i];

    if (h->proc.frozen_until > sim_now || withheld_host (h))
      return 0;
    sum = sum * 31 + h->proc.life * 8 + h->stage;
  }
  return sum;
}

uint64_t
fault_state_but (const struct member_role *but)
{
  for (unsigned i = 0; i < w.roles; i++)
    if (&w.member[i] != but && disk_slow (w.member[i].disk))
      return 0;
  return net_holes () ? 0 : fault_state_of_others (but);
}

/* The disk itself is served, and not an old copy that is in its place. */
static bool
is_there (const uint8_t disk[16])
{
  const struct member_role *m = &w.member[disk_holder (disk)];

  return m->proc.life && !m->refused;
}

bool
fault_others_in_sync (unsigned place)
{
  const struct cluster_array_record *a = store_array ();

  if (a == NULL || w.layout.copies < 2)
    return false;
  for (unsigned m = 0; m < w.layout.members; m++)
    if (m != place &&
        (a->member[m].state != MEMBER_IN_SYNC || !is_there (a->member[m].disk)))
      return false;
  return true;
}

static void
look (void *what)
{
  struct member_role *m = what;
  const struct cluster_array_record *a = store_array ();
  int place = m->disk->place;
  uint64_t state = m->proc.life ? fault_state_but (m) : 0;

  if (w.healing || !disk_hangs (m->disk))
    return;
  if (state == 0 || state != m->disk->hang_state || a == NULL || place < 0 ||
      place_disk (a, place) != m->disk ||
      a->member[place].state != MEMBER_IN_SYNC || check_writer () == NULL ||
      !fault_others_in_sync (place)) {
    m->disk->hang_state = state;
    m->disk->hang_calm = sim_now;
  }
  else if (sim_now - m->disk->hang_calm > CALM)
    sim_fail ("the disk of member %u has hung for %" PRIu64
              " ms, and it is in-sync still",
              m->proc.number, (sim_now - m->disk->hung_from) / MS);
  fault_later (LOOK, look, m);
}

void
hang_disk (struct member_role *m)
{
  if (disk_hangs (m->disk))
    return;
  m->disk->hung_from = sim_now;
  m->disk->hung_until = sim_now + (sim_chance (60) ? between (100, 8000) * MS
                                                   : between (8, 60) * SECOND);
  m->disk->hang_state = 0;
  counters.hangs++;
  TRACE (&m->proc, "has a disk that hangs for %" PRIu64 " ms",
         (m->disk->hung_until - sim_now) / MS);
  look (m);
}

void
hangs_heal (struct disk *d)
{
  if (disk_hangs (d))
    d->hung_until = sim_now;
}
