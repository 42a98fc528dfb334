/* withheld.c: a member or host sends heartbeats, and does not say what it has done: it
 * goes on to say what was so before.
 *
 * Where weftd asks for that for CALM, and nothing else goes wrong meanwhile, a member is out
 * by then, if others have copies of all that it has.  Nobody loses anything by
 * what a host withholds, and all goes on when it says it.
 */

#include <config.h>

#include <inttypes.h>

#include "faults.h"

#define CALM (45 * SECOND) /* the engine's bound, and half of that */
#define LOOK (500 * MS)

static uint64_t
how_long (void)
{
  return sim_chance (60) ? between (100, 8000) * MS : between (8, 100) * SECOND;
}

/* ---- Members ---- */

/* A process that was started since withholds nothing: it has said nothing before. */
static bool
withholds (const struct member_role *m)
{
  return m->proc.life && m->withheld.life == m->proc.life &&
         m->withheld.until > sim_now;
}

/* The number that the member repeats.  While its disk lacks a place, the member reports
 * everything, so the disk may have confirmed a later epoch since.
 */
static uint64_t
said (const struct member_role *m)
{
  return m->withheld.epochs ? m->disk->told_min_epoch : m->withheld.over;
}

void
withheld_words (const struct member_role *m, struct cluster_disk_heartbeat *hb)
{
  if (!withholds (m) || !hb->has_place)
    return;
  *(m->withheld.epochs ? &hb->min_epoch : &hb->over) = said (m);
}

void
withheld_told (struct member_role *m, const struct answer *a)
{
  uint64_t asked = m->withheld.epochs ? a->desire.min_epoch
                   : a->over_count    ? a->over[a->over_count - 1].number
                                      : 0;

  if (!withholds (m) || asked <= said (m))
    m->withheld.asked_at = 0; /* a fence may have done what was asked */
  else if (m->withheld.asked_at == 0)
    m->withheld.asked_at = sim_now;
}

static void
look (void *what)
{
  struct member_role *m = what;
  const struct cluster_array_record *a = store_array ();
  int place = m->disk->place;

  if (w.healing || !withholds (m))
    return;
  /* Processes of hosts may come and go meanwhile. */
  if (fault_state_but (m) == 0 || a == NULL || place < 0 ||
      place_disk (a, place) != m->disk || m->withheld.asked_at == 0 ||
      disk_hangs (m->disk) || a->member[place].state != MEMBER_IN_SYNC ||
      !fault_others_in_sync (place))
    m->withheld.calm_at = sim_now;
  else if (sim_now - m->withheld.calm_at > CALM)
    sim_fail ("member %u has withheld its word for %" PRIu64
              " ms, and it is in-sync still",
              m->proc.number, (sim_now - m->withheld.asked_at) / MS);
  fault_later (LOOK, look, m);
}

static void
withhold (struct member_role *m, bool epochs, uint64_t ns)
{
  if (withholds (m))
    return;
  m->withheld = (struct withheld) { .life = m->proc.life,
                                    .epochs = epochs,
                                    .over = member_over_done (m->engine),
                                    .until = sim_now + ns };
  counters.withheld++;
  TRACE (&m->proc, "withholds its word about %s for %" PRIu64 " ms",
         epochs ? "epochs" : "ended sessions", ns / MS);
  look (m);
}

void
withhold_word (struct member_role *m)
{
  withhold (m, sim_chance (50), how_long ());
}

/* It withholds it for most of this world's time, and is soon asked: a session ends without
 * a fence.  And for a while nothing else goes wrong.
 */
void
withheld_begin (void *nothing)
{
  struct member_role *m = fault_member ();
  struct host_role *h = &w.host[sim_below (w.config.hosts)];

  (void) nothing;
  if (m == NULL || m->disk->place < 0 || h->stage != HOST_SERVING ||
      (h->writable && h->part_length == 0)) {
    fault_later (SECOND, withheld_begin, NULL);
    return;
  }
  withhold (m, false, w.config.work_ns);
  w.calm_until = sim_now + CALM + 25 * SECOND;
  fault_heal_network ();
  h->wants_detach = true;
}

/* ---- Hosts ---- */

bool
withheld_host (const struct host_role *h)
{
  return h->withheld_session == h->session && h->withheld_until > sim_now;
}

bool
withheld_lately (const struct host_role *h, uint64_t ns)
{
  return h->withheld_session == h->session && h->withheld_until + ns > sim_now;
}

void
withheld_session (struct host_role *h, struct cluster_session_heartbeat *hb)
{
  if (!withheld_host (h)) {
    h->withheld_said = *hb;
    return;
  }
  hb->epoch = h->withheld_said.epoch;
  hb->arrived = h->withheld_said.arrived;
  hb->prepared = h->withheld_said.prepared;
}

void
withhold_host (void)
{
  struct host_role *h = &w.host[sim_below (w.config.hosts)];

  if (h->stage != HOST_SERVING || h->withheld_said.epoch == 0 ||
      withheld_host (h))
    return;
  h->withheld_session = h->session;
  h->withheld_until = sim_now + how_long ();
  counters.withheld++;
  TRACE (&h->proc, "withholds its word for %" PRIu64 " ms",
         (h->withheld_until - sim_now) / MS);
}

/* ---- The end ---- */

void
withheld_heal (void)
{
  for (unsigned i = 0; i < w.roles; i++)
    w.member[i].withheld.until = 0;
  for (unsigned i = 0; i < w.config.hosts; i++)
    if (withheld_host (&w.host[i]))
      w.host[i].withheld_until = sim_now;
}
