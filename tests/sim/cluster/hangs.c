/* hangs.c: a disk answers nothing for a while, and its process lives.
 *
 * Where nothing else goes wrong for CALM, and others have copies of all that the member
 * has, the member is out by then, whoever uses the array.  (CALM is long: what else has
 * gone wrong before may have to be waited for, such as a session that is silent.)
 */

#include <config.h>

#include <inttypes.h>

#include "faults.h"

#define CALM (30 * SECOND)
#define LOOK (500 * MS)

/* Of all that may be in the way: it changes when something begins or ends. */
static uint64_t
state_of_world (const struct member_role *hung)
{
  uint64_t sum = w.weftd.proc.life;

  if (w.weftd.proc.life == 0 || w.weftd.proc.frozen_until > sim_now ||
      w.old_database)
    return 0;
  for (unsigned a = 0; a < PARTIES; a++)
    for (unsigned b = 0; b < PARTIES; b++)
      if (w.cut[a][b])
        return 0;
  for (unsigned i = 0; i < w.roles; i++) {
    const struct member_role *m = &w.member[i];

    if (m->proc.life == 0 || m->proc.frozen_until > sim_now ||
        member_failed (m->engine) ||
        (m != hung && (disk_hangs (m->disk) || m->slow > 1)))
      return 0;
    sum = sum * 31 + m->proc.life;
  }
  for (unsigned i = 0; i < w.config.hosts; i++) {
    const struct host_role *h = &w.host[i];

    if (h->proc.frozen_until > sim_now)
      return 0;
    sum = sum * 31 + h->proc.life * 8 + h->stage;
  }
  return sum;
}

/* Do the others have all, and serves the array? */
static bool
spared (unsigned place)
{
  const struct cluster_array_record *a = store_array ();

  if (w.layout.copies < 2 || check_writer () == NULL)
    return false;
  for (unsigned m = 0; m < w.layout.members; m++)
    if (m != place && a->member[m].state != MEMBER_IN_SYNC)
      return false;
  return true;
}

static void
look (void *what)
{
  struct member_role *m = what;
  const struct cluster_array_record *a = store_array ();
  int place = m->disk->place;
  uint64_t state = state_of_world (m);

  if (w.healing || !disk_hangs (m->disk))
    return;
  if (state == 0 || state != m->disk->hang_state || a == NULL || place < 0 ||
      place_disk (a, place) != m->disk ||
      a->member[place].state != MEMBER_IN_SYNC || !spared (place)) {
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
