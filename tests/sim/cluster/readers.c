/* readers.c: all hosts that write die, and a member with them.
 *
 * Where nothing else goes wrong, and the other members have copies of all data, no read
 * waits longer than PATIENCE: the TTL of a writer, with some seconds for what a reader
 * reports and weftd asks of members.
 */

#include <config.h>

#include <inttypes.h>

#include "faults.h"

#define PATIENCE (SESSION_TTL_MS * MS + 8 * SECOND)
#define LOOK (500 * MS)

static struct {
  struct member_role *member; /* that has died */
  uint64_t state, since;      /* of the world, and since when it is so */
} gone;

static struct host_role *
some_reader (void)
{
  for (unsigned i = 0; i < w.config.hosts; i++)
    if (!w.host[i].writable && w.host[i].stage == HOST_SERVING)
      return &w.host[i];
  return NULL;
}

static void
look (void *nothing)
{
  uint64_t state = fault_state_but (gone.member);
  int place = gone.member->disk->place;

  (void) nothing;
  if (w.healing || gone.member->proc.life)
    return;
  if (state == 0 || state != gone.state || place < 0 ||
      !fault_others_in_sync (place)) {
    gone.state = state;
    gone.since = sim_now;
  }
  else if (sim_now - gone.since > PATIENCE)
    for (unsigned i = 0; i < w.config.hosts; i++)
      if (!w.host[i].writable && w.host[i].stage == HOST_SERVING &&
          clients_wait_ns (&w.host[i]) > PATIENCE)
        sim_fail ("a read of host %u waits for %" PRIu64 " ms, though only "
                  "member %u and the hosts that write are gone",
                  i, clients_wait_ns (&w.host[i]) / MS,
                  gone.member->proc.number);
  fault_later (LOOK, look, NULL);
}

void
readers_alone (void)
{
  struct member_role *m = fault_member ();

  if (m == NULL || m->disk->place < 0 || some_reader () == NULL ||
      !fault_others_in_sync (m->disk->place))
    return;
  sim_trace ("all that write die, and member %u", m->proc.number);
  for (unsigned i = 0; i < w.config.hosts; i++) {
    struct host_role *h = &w.host[i];

    if (h->writable && h->proc.life)
      host_kill (h);
    if (h->writable)
      h->start_at = sim_now + 3 * PATIENCE;
  }
  member_stop (m, sim_chance (50));
  fault_later (3 * PATIENCE, fault_member_back, m);
  w.calm_until = sim_now + 2 * PATIENCE;
  gone.member = m;
  gone.state = 0;
  look (NULL);
}
