/* test-cluster-random.c: members, hosts and weftd come and go at random, and must
 * end up whole.  What every COMMIT must keep is asserted in test-cluster-store.c.
 *
 * WEFT_SEED replays a run.
 */

#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "test-cluster-world.h"

static void
restart_disk (struct world *w, struct disk *d)
{
  d->op = 0;
  d->alive = true;
  snprintf (d->instance, sizeof d->instance, "d%" PRIu64, w->next_op);
  if (d->min_epoch <= d->states_epoch)
    d->min_epoch = d->states_epoch + 1;
  d->sequence++;
  if (d->phase != CLUSTER_JOIN_NONE)
    d->phase = CLUSTER_JOIN_WAITING;
}

static void
restart_host (struct world *w, struct host *h)
{
  h->attached = h->over = false;
  h->session = h->op = h->beat_op = h->prepared = 0;
  h->alive = true;
  snprintf (h->instance, sizeof h->instance, "h%" PRIu64, ++w->next_op);
}

static void
befall_host (struct world *w, struct host *h)
{
  switch (rnd (w) % 8) {
  case 0:
    h->alive = false;
    h->beat_op = 0;
    break;
  case 1:
    h->alive = true;
    break;
  case 2:
    restart_host (w, h);
    break;
  case 3:
    h->busy = rnd (w) % 4 == 0;
    break;
  case 4:
    if (h->alive && h->attached && h->op == 0 && rnd (w) % 4 == 0) {
      struct cluster_input in = input (w, h->op = ++w->next_op);

      cluster_session_detach (w->c, &in, h->session);
      pump (w);
      h->over = true;
    }
    break;
  default:
    if (h->alive && h->attached && h->op == 0 && !h->over)
      lost (w, h, (unsigned) (rnd (w) % MEMBERS));
  }
}

static void
befall_disk (struct world *w, struct disk *d)
{
  switch (rnd (w) % 4) {
  case 0:
    cut_off (d);
    break;
  case 1:
    restart_disk (w, d);
    break;
  case 2:
    d->slow = rnd (w) % 2;
    break;
  default:
    if (!d->alive) {
      d->alive = true;
      d->op = 0;
    }
  }
}

/* A quarter of a second in which hosts ask for what they want. */
static void
live_at_random (struct world *w)
{
  for (unsigned i = 0; i < HOSTS; i++) {
    struct host *h = &w->host[i];

    if (!h->alive)
      continue;
    if (h->over)
      restart_host (w, h);
    if (!h->attached && h->op == 0) {
      h->takeover = rnd (w) % 8 == 0;
      host_attach (w, h, "a");
    }
    for (unsigned m = 0; m < MEMBERS; m++)
      if (h->attached && h->lost[m] && h->states[m] != MEMBER_OUT && h->op == 0)
        lost (w, h, m);
  }
  if (rnd (w) % 3 == 0)
    befall_host (w, &w->host[rnd (w) % HOSTS]);
  if (rnd (w) % 6 == 0)
    befall_disk (w, &w->disk[rnd (w) % MEMBERS]);
  live (w);
}

static void
test_random (uint64_t seed, unsigned runs, unsigned rounds)
{
  static struct world w;
  unsigned long kills = 0, epochs = 0;

  for (unsigned i = 0; i < runs; i++) {
    world_init (&w, seed + i);
    w.kill_percent = (unsigned) (rnd (&w) % 3);
    w.lag_percent = (unsigned) (rnd (&w) % 40);
    make_array_of (&w, "a", rnd (&w) % 3 ? LAYOUT_RAIDX : LAYOUT_RAID1);
    for (unsigned r = 0; r < rounds; r++)
      live_at_random (&w);
    /* All is well again: so it must become. */
    for (unsigned d = 0; d < MEMBERS; d++) {
      w.disk[d].alive = true;
      w.disk[d].slow = false;
      w.disk[d].op = 0;
    }
    for (unsigned h = 0; h < HOSTS; h++) {
      restart_host (&w, &w.host[h]);
      w.host[h].busy = false;
    }
    w.host[0].takeover = true;
    attach_until_granted (&w, &w.host[0], "a");
    UNTIL (&w, whole (&w));
    assert (cluster_read_only (w.c) == NULL);
    kills += w.kills;
    epochs += rec (&w)->epoch;
    world_end (&w);
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
