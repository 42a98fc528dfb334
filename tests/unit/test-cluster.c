/* test-cluster.c: the cluster engine, alone, in the world of test-cluster-world.h: an
 * administrator's day with a kill of weftd after each of its actions; then that day with
 * random failures of every part, random kills and a store that lags.
 * test-cluster-store.c asserts what every COMMIT must keep.
 *
 * WEFT_SEED replays the random part.
 */

#include <config.h>

#include "test-cluster-world.h"
#include "test-random.h"

/* An administrator's day; every promise is checked on the way, above. */
static void
day (void)
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
  died_ms = weftd.now_ms;
  attach_until_granted (other);
  if (world.kills == 0)
    assert (weftd.now_ms - died_ms >= SESSION_TTL_MS - 2 * HEARTBEAT_MS);
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
  come_again (other);
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
  weftd.name = "b";
  make_array_of (LAYOUT_RAIDX);
  snprintf (writer->instance, 16, "h0 again");
  come_again (writer);
  attach_until_granted (writer);
  assert (cluster_read_only (engine) == NULL);
}

/* ---- Members, hosts and weftd come and go, and must end up whole. ---- */

static void
restart_disk (struct disk *d)
{
  d->op = 0;
  d->alive = true;
  snprintf (d->instance, sizeof d->instance, "d%" PRIu64, weftd.op);
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
  snprintf (h->instance, sizeof h->instance, "h%" PRIu64, ++weftd.op);
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
      CALL (h->op = ++weftd.op,
            cluster_session_detach (engine, in, h->session));
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
life (void)
{
  make_array_of (rnd () % 3 ? LAYOUT_RAIDX : LAYOUT_RAID1);
  for (unsigned i = 0; i < 300; i++)
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
  /* A session that nobody has any more ends when weftd has not heard of it for long. */
  if (writer->part.length > 0)
    world.kill_percent = 0;
  writer->takeover = true;
  attach_until_granted (writer);
  UNTIL (whole ());
  assert (cluster_read_only (engine) == NULL);
}

/* Each that writes has a part of its own, or now and then what another may have. */
static void
life_in_parts (void)
{
  uint64_t unit = KiB (256);

  for (unsigned i = 0; i < HOSTS; i++) {
    world.host[i].writable = i < 2 || rnd () % 2;
    world.host[i].part = (struct cluster_part) {
      .offset = (i + rnd () % 2) * 4 * unit, .length = (1 + rnd () % 4) * unit
    };
    if (!world.host[i].writable || rnd () % 8 == 0)
      world.host[i].part.length = 0;
  }
  life ();
}

/* With random kills, and a store that lags behind: up to so many percent. */
static void
test_random_runs (const char *name, void (*run) (void), unsigned runs,
                  unsigned kill_percent, unsigned lag_percent)
{
  unsigned long kills = 0, actions = 0;

  for (unsigned i = 0; i < runs; i++) {
    world_init (test_seed + i);
    world.kill_percent = (unsigned) (rnd () % kill_percent);
    world.lag_percent = (unsigned) (rnd () % lag_percent);
    run ();
    kills += world.kills;
    actions += world.actions;
  }
  printf ("%s, %u random runs: %lu actions, %lu kills\n", name, runs, actions,
          kills);
}

int
main (void)
{
  test_random_start ();
  kill_at_each (day);
  test_random_runs ("a day", day, 150, 4, 60);
  test_random_runs ("life", life, 60, 3, 40);
  test_random_runs ("life in parts", life_in_parts, 60, 3, 40);
  return 0;
}
