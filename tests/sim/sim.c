/* sim.c: one run of the array engine in a world that a seed decides.
 *
 *   sim --seed N        one run; `-v` tells what happens
 *   sim --seeds A-B     many
 *   sim --fresh N       N runs from a seed that the clock gives
 *
 * The faults, as often as the seed says: answers take their time and overtake each other;
 * a request to a member is carried out long before it is answered; a member's connection
 * breaks before, between or after its answers, and requests sent on it are carried out
 * later nevertheless, until weftd has fenced the member; a member falls silent; its disk
 * hangs for a while, and its process lives; a member answers with an error; a place can't
 * be read; weftd takes its time to record a loss, and its answers overtake each other; a
 * second member is lost before the first is recorded; the client's requests overlap; the
 * image buffer is small; the array is stopped.
 *
 * In most runs members that are out come back, with or without a power cut, and
 * join again; in these a last copy is waited for, and comes back too.
 */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim-world.h"

/* A run. */

static void
choose_layout (void)
{
  static const enum layout_kind kinds[] = {
    LAYOUT_RAIDX,   LAYOUT_RAIDX,   LAYOUT_RAIDX, LAYOUT_RAID10,
    LAYOUT_CHAINED, LAYOUT_ROTATED, LAYOUT_RAID1, LAYOUT_RAID0,
  };
  char why[200];
  enum layout_kind kind = kinds[sim_below (sizeof kinds / sizeof kinds[0])];
  unsigned n = 3 + sim_below (3), groups = sim_chance (20) ? 2 : 1;
  uint64_t unit = KiB (4) << sim_below (3);

  if (kind == LAYOUT_RAID10)
    n = 2 + 2 * sim_below (2);
  else if (kind == LAYOUT_RAID1)
    n = 2 + sim_below (2);
  if (layout_init (&w.config.layout, kind, n, groups, unit,
                   unit * (2 * n + sim_below (24)), why, sizeof why) == -1)
    sim_fail ("layout: %s", why);
}

static void
begin (uint64_t seed)
{
  char why[200];

  memset (&w, 0, sizeof w);
  sim_seed (seed);
  grain_bytes = sim_chance (30) ? 64 : 512;
  choose_layout ();
  w.config.dup = w.config.layout.kind != LAYOUT_RAIDX && sim_chance (30)
                   ? DUP_SYNC_CLIENT
                   : DUP_ASYNC_CLIENT;
  w.config.batches = sim_chance (75);
  w.config.pulses = w.config.batches && sim_chance (75);
  w.config.epoch = w.epoch = 7;
  w.config.image_buffer_bytes = KiB (64) << sim_below (6);
  w.config.image_age_ms = 1 + sim_below (50);
  w.config.io_timeout_ms = 100 + sim_below (400);
  w.config.extent_bytes = KiB (4) << sim_below (5);
  w.config.through_bytes = 512 << sim_below (12);
  w.config.rounds = sim_chance (75);
  w.config.round = sim_below (5);
  for (unsigned i = 0; i < w.config.layout.members; i++)
    w.members[i].round = w.config.member_round[i] = w.config.round -
                                                    (w.config.round > 0 &&
                                                     sim_chance (30));
  w.pauses = sim_chance (50);
  w.sluggish = sim_chance (15);
  w.only_hangs = w.config.pulses && sim_chance (25);
  if (w.sluggish || w.only_hangs)
    w.config.io_timeout_ms = 20000;
  sim_now = w.progress_at = 1000 * MS;
  w.array = array_new (&w.config, sim_now, why, sizeof why);
  if (!w.array)
    sim_fail ("array_new: %s", why);
  for (unsigned i = 0; i < w.config.layout.members; i++)
    sim_member_init (&w.members[i], w.config.layout.member_bytes,
                     w.config.extent_bytes);
  for (unsigned i = 0; i < JUDGE_CLIENTS; i++)
    w.clients[i] = array_client_open (w.array);
  w.outstanding_max = 1 + sim_below (OUTSTANDING_MAX);
  w.steps = 100 + sim_below (300);
  w.slow_percent = sim_below (15);
  w.may_lose = sim_chance (15);
  w.faults = sim_chance (25) ? 0 : 1 + sim_below (3);
  w.fulls = sim_chance (30) ? 1 + sim_below (4) : 0;
  w.bad_percent = sim_chance (30) ? 50 + sim_below (51) : 0;
  if (w.bad_percent > 0 && sim_chance (70))
    w.faults = 0;
  w.rejoins = w.bad_percent == 0 && sim_chance (70);
  if (w.rejoins && w.faults > 0)
    w.faults += sim_below (8);
  if (w.rejoins || sim_chance (50))
    array_settled (w.array, 0, 0, 0, sim_now);
  if (w.config.batches && sim_chance (20)) /* reads need witnesses */
    array_trust (w.array, sim_now + sim_below (200 * MS), sim_now);
  judge_begin (&(struct judge_world) {
    .layout = &w.config.layout,
    .members = w.members,
    .recorded_out = w.recorded,
    .heard_out = w.heard,
    .sync = w.config.dup == DUP_SYNC_CLIENT,
    .array = &w.array,
  });
  sim_trace ("seed %llu: %s n=%u groups=%u unit=%u size=%llu dup=%s "
             "buffer=%llu age=%u batches=%d",
             (unsigned long long) seed, layout_name (w.config.layout.kind),
             w.config.layout.n, w.config.layout.groups, w.config.layout.unit,
             (unsigned long long) w.config.layout.size,
             array_dup_name (w.config.dup),
             (unsigned long long) w.config.image_buffer_bytes,
             w.config.image_age_ms, w.config.batches);
  event_new (EVENT_CLIENT, 0);
  event_new (EVENT_FAULT, sim_below (20 * MS));
}

/* Let time pass until the next event or the engine's deadline; false: nothing
 * will ever happen.
 */
static bool
step (void)
{
  uint64_t deadline = array_deadline (w.array);

  if (sim_next () <= deadline) {
    struct event *e = sim_pop ();

    if (!e)
      return false;
    world_handle (e);
    return true;
  }
  if (deadline > sim_now)
    sim_now = deadline;
  array_tick (w.array, sim_now);
  world_take_outputs ();
  if (array_deadline (w.array) <= sim_now)
    sim_fail ("the engine wants to be ticked again at once");
  return true;
}

/* Members and weftd answer within seconds. */
static void
check_progress (void)
{
  if (sim_now > w.progress_at + 300000 * MS)
    sim_fail ("no end is in sight: %u requests outstanding", w.outstanding);
  world_check_hung ();
}

static void
run_until_quiet (void)
{
  while (step ())
    check_progress ();
  if (w.outstanding > 0)
    sim_fail ("%u requests will never be done", w.outstanding);
}

static void
stop (void)
{
  sim_trace ("stop");
  w.stopped = true;
  array_stop (w.array, ESHUTDOWN, sim_now);
  world_take_outputs ();
  w.steps = 1; /* one more, which must fail */
  event_new (EVENT_CLIENT, 0);
  for (unsigned i = 0; i < w.config.layout.members; i++) {
    w.trouble[i] = BROKEN;
    world_break_flights (i);
  }
}

/* No bit stands for ever. */
static void
check_all_clear (void)
{
  for (unsigned i = 0; i < w.config.layout.members; i++)
    for (uint64_t e = 0; e * w.config.extent_bytes < w.members[i].bytes; e++)
      if (sim_member_dirty (&w.members[i], e))
        sim_fail ("all is quiet, but member %u has the bit of extent %llu", i,
                  (unsigned long long) e);
}

static bool
all_in_sync (void)
{
  bool all = w.losses == 0 || w.rejoins;

  for (unsigned i = 0; i < w.config.layout.members; i++)
    all &= w.state[i] == MEMBER_IN_SYNC && w.trouble[i] == FINE;
  return all;
}

static void
ask (enum array_op op, unsigned client)
{
  struct array_request *r = &w.requests[0];

  *r = (struct array_request) { .op = op };
  if (op == ARRAY_WRITE) {
    r->length = w.config.layout.size;
    r->buf = malloc (r->length);
  }
  world_submit (r, client);
  run_until_quiet ();
}

static void
end (void)
{
  if (!w.stopped) {
    if (w.rejoins) {
      /* Members that failed unnoticed are found by this, and taken back. */
      ask (ARRAY_WRITE, 0);
      if (!all_in_sync ())
        sim_fail ("all is quiet, but some member is not taken back");
    }
    ask (ARRAY_FLUSH, 0); /* it may be the one that finds a member lost */
    for (unsigned i = 0; i < JUDGE_CLIENTS; i++)
      ask (ARRAY_FLUSH, i); /* all clients get their errors ... */
    w.may_fail = false;
    for (unsigned i = 0; i < JUDGE_CLIENTS; i++)
      ask (ARRAY_FLUSH, i); /* ... and that is all */
    judge_quiet ();
    if (all_in_sync () && w.returns == 0 && w.config.batches &&
        w.config.layout.copies > 1)
      check_all_clear ();
  }
  judge_cleared ();
  judge_kept ();
  if (!array_idle (w.array))
    sim_fail ("all is quiet, but the engine is not idle");
  array_free (w.array);
  for (unsigned i = 0; i < w.config.layout.members; i++)
    sim_member_free (&w.members[i]);
  judge_end ();
}

static unsigned long long seed;

static void
replay (void)
{
  fprintf (stderr, "sim: replay with: sim -v --seed %llu\n", seed);
}

static void
run (void)
{
  unsigned stop_at;

  begin (seed);
  stop_at = sim_chance (10) ? sim_below (2000) : UINT32_MAX;
  while (w.inputs < stop_at && step ())
    check_progress ();
  if (w.inputs >= stop_at)
    stop ();
  run_until_quiet ();
  end ();
}

int
main (int argc, char *argv[])
{
  unsigned long long first = 1, last = 1, inputs = 0, requests = 0, losses = 0,
                     errors = 0, bads = 0, clears = 0, joins = 0, hangs = 0,
                     refused = 0;
  bool known = false;

  for (int i = 1; i < argc; i++) {
    if (strcmp (argv[i], "-v") == 0)
      sim_verbose = true;
    else if (i + 1 < argc && strcmp (argv[i], "--seed") == 0)
      known = sscanf (argv[++i], "%llu", &first) == 1, last = first;
    else if (i + 1 < argc && strcmp (argv[i], "--seeds") == 0)
      known = sscanf (argv[++i], "%llu-%llu", &first, &last) == 2;
    else if (i + 1 < argc && strcmp (argv[i], "--fresh") == 0) {
      unsigned long long count = 0;

      known = sscanf (argv[++i], "%llu", &count) == 1 && count > 0;
      first = (unsigned long long) time (NULL) * 1000003 % 1000000000000;
      last = first + count - 1;
    }
  }
  if (!known || last < first) {
    fprintf (stderr, "usage: sim [-v] --seed N | --seeds A-B | --fresh N\n");
    return 2;
  }
  sim_begin (replay);
  for (seed = first; seed <= last; seed++) {
    run ();
    inputs += w.inputs;
    requests += w.requests_done;
    losses += w.losses;
    errors += w.errors;
    bads += w.bads;
    clears += w.clears;
    joins += w.joins;
    hangs += w.hangs;
    refused += w.refused;
  }
  sim_well ();
  printf ("seeds %llu-%llu: %llu requests, %llu inputs, %llu losses, "
          "%llu of them disks that hung, %llu joins, %llu bad spots, %llu "
          "clears, %llu refused for want of room, %llu "
          "errors to clients: no rule broken\n",
          first, last, requests, inputs, losses, hangs, joins, bads, clears,
          refused, errors);
  return 0;
}
