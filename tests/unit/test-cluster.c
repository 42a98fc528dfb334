/* test-cluster.c: the cluster engine, alone, in the world of
 * test-cluster-world.h: an administrator's day with a kill of weftd after each of
 * its actions, and with random kills and a store that lags behind.
 *
 * WEFT_SEED replays the random part.
 */

#include <config.h>

#include <inttypes.h>
#include <time.h>

#include "test-cluster-world.h"

/* An administrator's day; every promise is checked on the way, above. */
static void
scenario (void)
{
  uint64_t died_ms;

  make_array_of (LAYOUT_RAIDX);
  attach_until_granted (writer);
  attach_until_granted (reader);
  assert (strcmp (attach_refusal (other), "held") == 0);

  /* A member is started again: it raises its min_epoch by itself. */
  world.disk[1].alive = false;
  live_on (30);
  world.disk[1].op = 0;
  snprintf (world.disk[1].instance, 16, "d1 again");
  if (world.disk[1].min_epoch == world.highest_grant)
    world.disk[1].min_epoch++;
  world.disk[1].alive = true;

  /* The holder dies; the other one gets it, but not before its time. */
  fall_silent (writer);
  died_ms = world.now_ms;
  attach_until_granted (other);
  if (world.kills == 0)
    assert (world.now_ms - died_ms >= SESSION_TTL_MS - 2 * HEARTBEAT_MS);
  writer->alive = true; /* it was only asleep */
  UNTIL (writer->over);
  assert (!reader->over);

  /* A member is lost, and taken back when it is heard again. */
  world.disk[2].alive = false;
  world.disk[2].op = 0;
  report_lost (other, 2);
  UNTIL (reader->states[2] == MEMBER_OUT);
  world.disk[2].alive = true;
  UNTIL (other->states[2] == MEMBER_IN_SYNC && reader->epoch == other->epoch);

  /* And once more, but who writes leaves while it joins. */
  world.disk[2].slow = true;
  other->states[2] = MEMBER_IN_SYNC;
  report_lost (other, 2);
  UNTIL (world.disk[2].phase == CLUSTER_JOIN_COPYING);
  detach (other);
  snprintf (other->instance, 16, "h1 again");
  other->session = 0;
  other->alive = true;
  world.disk[2].slow = false;
  attach_until_granted (other);
  UNTIL (other->states[2] == MEMBER_IN_SYNC);
  detach (other);

  detach (reader);
  delete_array ("a");
  for (unsigned i = 0; i < MEMBERS; i++) {
    static const uint8_t zero[16];

    UNTIL (memcmp (world.disk[i].array, zero, 16) == 0);
  }
  world.name = "b";
  make_array_of (LAYOUT_RAIDX);
  snprintf (writer->instance, 16, "h0 again");
  writer->session = 0;
  writer->over = false;
  attach_until_granted (writer);
  assert (cluster_read_only (world.c) == NULL);
}

static void
test_every_kill (void)
{
  unsigned long actions;

  world_init (1);
  scenario ();
  actions = world.actions;
  for (unsigned long k = 1; k <= actions; k++) {
    world_init (1);
    world.kill_at = k;
    scenario ();
    /* The kill at the start of world_init is not reached: it acts before. */
    assert (world.kills <= 1);
  }
  printf ("a kill after each of %lu actions\n", actions);
}

static void
test_random (uint64_t seed, unsigned runs)
{
  unsigned long kills = 0, actions = 0;

  for (unsigned i = 0; i < runs; i++) {
    world_init (seed + i);
    world.kill_percent = (unsigned) (rnd () % 4);
    world.lag_percent = (unsigned) (rnd () % 60);
    scenario ();
    kills += world.kills;
    actions += world.actions;
  }
  printf ("%u random runs from seed %" PRIu64 ": %lu actions, %lu kills\n",
          runs, seed, actions, kills);
}

int
main (void)
{
  const char *text = getenv ("WEFT_SEED");
  uint64_t seed = text ? strtoull (text, NULL, 0) : (uint64_t) time (NULL);

  printf ("WEFT_SEED=%" PRIu64 "\n", seed);
  fflush (stdout);
  test_every_kill ();
  test_random (seed, 150);
  return 0;
}
