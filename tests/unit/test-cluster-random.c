/* test-cluster-random.c: members, hosts and weftd come and go at random, and must
 * end up whole.  What every COMMIT must keep is asserted in test-cluster-store.c.
 *
 * WEFT_SEED replays a run.
 */

#include <config.h>

#include <inttypes.h>
#include <time.h>

#include "test-cluster-world.h"

static void
restart_disk (struct disk *d)
{
  d->op = 0;
  d->alive = true;
  snprintf (d->instance, sizeof d->instance, "d%" PRIu64, world.next_op);
  if (d->min_epoch <= d->states_epoch)
    d->min_epoch = d->states_epoch + 1;
  d->sequence++;
  if (d->phase != CLUSTER_JOIN_NONE)
    d->phase = CLUSTER_JOIN_WAITING;
}

static void
restart_host (struct host *h)
{
  h->attached = h->over = false;
  h->session = h->op = h->beat_op = h->prepared = 0;
  h->alive = true;
  snprintf (h->instance, sizeof h->instance, "h%" PRIu64, ++world.next_op);
}

static void
befall_host (struct host *h)
{
  switch (rnd () % 8) {
  case 0:
    fall_silent (h);
    break;
  case 1:
    h->alive = true;
    break;
  case 2:
    restart_host (h);
    break;
  case 3:
    h->busy = rnd () % 4 == 0;
    break;
  case 4:
    if (h->alive && h->attached && h->op == 0 && rnd () % 4 == 0) {
      struct cluster_input in = input (h->op = ++world.next_op);

      cluster_session_detach (world.c, &in, h->session);
      pump ();
      h->over = true;
    }
    break;
  default:
    if (h->alive && h->attached && h->op == 0 && !h->over)
      lost (h, (unsigned) (rnd () % MEMBERS));
  }
}

static void
befall_disk (unsigned member)
{
  struct disk *d = &world.disk[member];

  switch (rnd () % 4) {
  case 0:
    cut_off (member);
    break;
  case 1:
    restart_disk (d);
    break;
  case 2:
    d->slow = rnd () % 2;
    break;
  default:
    if (!d->alive)
      heard_again (member);
  }
}

/* A quarter of a second in which hosts ask for what they want. */
static void
live_at_random (void)
{
  for (unsigned i = 0; i < HOSTS; i++) {
    struct host *h = &world.host[i];

    if (!h->alive)
      continue;
    if (h->over)
      restart_host (h);
    if (!h->attached && h->op == 0) {
      h->takeover = rnd () % 8 == 0;
      host_attach (h);
    }
    for (unsigned m = 0; m < MEMBERS; m++)
      if (h->attached && h->lost[m] && h->states[m] != MEMBER_OUT && h->op == 0)
        lost (h, m);
  }
  if (rnd () % 3 == 0)
    befall_host (&world.host[rnd () % HOSTS]);
  if (rnd () % 6 == 0)
    befall_disk (rnd () % MEMBERS);
  live ();
}

static void
test_random (uint64_t seed, unsigned runs, unsigned rounds)
{
  unsigned long kills = 0, epochs = 0;

  for (unsigned i = 0; i < runs; i++) {
    world_init (seed + i);
    world.kill_percent = (unsigned) (rnd () % 3);
    world.lag_percent = (unsigned) (rnd () % 40);
    make_array_of (rnd () % 3 ? LAYOUT_RAIDX : LAYOUT_RAID1);
    for (unsigned r = 0; r < rounds; r++)
      live_at_random ();
    /* All is well again: so it must become. */
    for (unsigned d = 0; d < MEMBERS; d++) {
      world.disk[d].slow = false;
      heard_again (d);
    }
    for (unsigned h = 0; h < HOSTS; h++) {
      restart_host (&world.host[h]);
      world.host[h].busy = false;
    }
    writer->takeover = true;
    attach_until_granted (writer);
    UNTIL (whole ());
    assert (cluster_read_only (world.c) == NULL);
    kills += world.kills;
    epochs += rec ()->epoch;
  }
  printf ("%u random runs from seed %" PRIu64 ": %lu epochs, %lu kills\n", runs,
          seed, epochs, kills);
}

int
main (void)
{
  const char *text = getenv ("WEFT_SEED");
  uint64_t seed = text ? strtoull (text, NULL, 0) : (uint64_t) time (NULL);

  printf ("WEFT_SEED=%" PRIu64 "\n", seed);
  fflush (stdout);
  test_random (seed, 60, 300);
  return 0;
}
