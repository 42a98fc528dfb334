/* sim-volume.c: one run of volumes in a world that a seed decides.
 *
 *   sim-volume --seed N        one run; `-v` tells what happens
 *   sim-volume --seeds A-B     many
 *   sim-volume --fresh N       N runs from a seed that the clock gives
 *   sim-volume --seconds S     runs for so long
 *
 * The faults, as often as the seed says: requests of the array are carried out and
 * answered in any order; the host is killed, or the power is cut, at any moment, and any
 * part of what was not stable is there afterwards; the array loses what it has in its
 * caches; all its requests fail; the pool is full; weftd's answers are lost, or its
 * table, so that it reads all roots and logs.  Volumes grow, are closed, deleted and made.
 */

#include <config.h>

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "volume-world.h"

static struct {
  unsigned outstanding_max, kill_percent, lose_percent;
  bool small;
} run_config;

static uint64_t
random_grains (uint64_t most)
{
  uint64_t segment = vw.pool.segment_bytes / SECTOR;
  uint64_t n = sim_chance (60)   ? 1 + sim_below (6)
               : sim_chance (70) ? 1 + sim_below (segment)
                                 : 1 + sim_below (2 * segment);

  return n < most ? n : most;
}

static void
random_request (unsigned volume)
{
  static const struct {
    enum array_op op;
    unsigned often;
  } ops[] = {
    { ARRAY_WRITE, 40 }, { ARRAY_READ, 20 }, { ARRAY_FLUSH, 14 },
    { ARRAY_TRIM, 13 },  { ARRAY_ZERO, 9 },  { ARRAY_EXTENTS, 4 },
  };
  struct world_volume *x = &vw.volume[volume];
  uint64_t segment = vw.pool.segment_bytes / SECTOR;
  uint64_t grains = x->size / SECTOR, n = random_grains (grains), first;
  unsigned often = (unsigned) sim_below (100), i = 0, flags = 0;

  while (often >= ops[i].often)
    often -= ops[i++].often;
  first = sim_below (grains - n + 1);
  if (ops[i].op == ARRAY_TRIM && sim_chance (60)) { /* a whole segment */
    first = sim_below (grains) / segment * segment;
    n = grains - first < segment ? grains - first : segment;
  }
  if (ops[i].op != ARRAY_READ && ops[i].op != ARRAY_FLUSH &&
      ops[i].op != ARRAY_EXTENTS && sim_chance (15))
    flags = ARRAY_FUA;
  vworld_submit (volume, (unsigned) sim_below (VOLUME_CLIENTS), ops[i].op,
                 flags, first, n);
}

static unsigned
outstanding (void)
{
  unsigned n = 0;

  for (unsigned i = 0; i < vw.volumes; i++)
    n += vw.volume[i].outstanding;
  return n;
}

static uint64_t
random_size (uint64_t least)
{
  return (least + sim_below (vw.grains_max - least) + 1) * SECTOR;
}

static void
open_all (void)
{
  for (unsigned i = 0; i < vw.volumes; i++)
    if (vw.volume[i].exists)
      vworld_open (i);
}

static void
kill_all (void)
{
  bool power = sim_chance (60);
  enum cut_kind kind = sim_chance (20)   ? CUT_NONE
                       : sim_chance (20) ? CUT_ALL
                                         : CUT_ANY;

  /* A volume that is being made may be a half of one. */
  for (unsigned i = 0; i < vw.volumes; i++)
    if (vw.volume[i].v && volume_state (vw.volume[i].v) == VOLUME_OPENING)
      return;
  vworld_kill (power, kind, 0);
  disk_error = 0;
  vw.may_fail = false;
  if (sim_chance (20))
    vworld_import ();
  /* Killed while it is opened: the next one finds what this one has written. */
  if (sim_chance (20)) {
    for (unsigned i = 0; i < vw.volumes; i++)
      if (vw.volume[i].exists)
        vworld_start (i);
    for (unsigned n = (unsigned) sim_below (12); n > 0 && disk_waiting (); n--)
      vworld_answer (sim_random ());
    vworld_kill (sim_chance (60), CUT_ANY, 0);
  }
  open_all ();
}

static void
one_volume (unsigned i)
{
  struct world_volume *x = &vw.volume[i];

  if (vw.may_fail)
    return;
  if (!x->exists)
    vworld_make (i, random_size (1));
  else if (volume_state (x->v) != VOLUME_OPEN)
    return;
  else if (sim_chance (50) && x->size / SECTOR < vw.grains_max)
    vworld_resize (i, random_size (x->size / SECTOR));
  else if (x->outstanding == 0) {
    bool delete = sim_chance (25);

    vworld_close (i, delete);
    if (!delete)
      vworld_open (i);
  }
}

static void
lost (unsigned owner)
{
  vjudge_lost (owner);
}

static void
fault (unsigned i)
{
  if (sim_chance (run_config.kill_percent))
    kill_all ();
  else if (sim_chance (run_config.lose_percent) && !vw.may_fail) {
    if (disk_lose (lost)) {
      sim_trace ("the array has lost something");
      vw.losses++;
      vjudge_lost_any ();
      vworld_lost ();
    }
  }
  else if (disk_error && sim_chance (60))
    disk_error = 0; /* the volumes remember that it has failed */
  else if (sim_chance (6)) {
    sim_trace ("the array fails");
    disk_error = ESHUTDOWN;
    vw.may_fail = true;
  }
  else if (sim_chance (30))
    one_volume (i);
}

static void
step (void)
{
  unsigned what = (unsigned) sim_below (100), i;

  i = (unsigned) sim_below (vw.volumes);
  if (what < 35) {
    if (vw.volume[i].v && outstanding () < run_config.outstanding_max)
      random_request (i);
  }
  else if (what < 85) {
    if (disk_waiting () > 0)
      vworld_answer (sim_random ());
  }
  else if (what < 93) {
    if (vw.volume[i].v)
      vworld_weftd (i);
  }
  else if (what < 97) {
    sim_now += sim_below (400) * NS_PER_MS;
    for (unsigned k = 0; k < vw.volumes; k++)
      if (vw.volume[k].v)
        vworld_tick (k);
  }
  else
    fault (i);
}

static void
begin (uint64_t seed)
{
  uint64_t segment;
  unsigned volumes;

  sim_seed (seed);
  segment = KiB (32) << sim_below (3);
  volumes = 1 + (unsigned) sim_below (VOLUMES_MAX);
  run_config.outstanding_max = 1 + (unsigned) sim_below (8);
  run_config.kill_percent = (unsigned) sim_below (40);
  run_config.lose_percent = sim_chance (50) ? 0 : (unsigned) sim_below (30);
  vworld_begin (segment,
                (uint32_t) (1 + (volumes * 2 * POOL_ROOT_BYTES) / segment + 9 +
                            sim_below (30)),
                volumes, segment / SECTOR * (2 + sim_below (5)));
  vw.window = sim_chance (50) ? 0 : 2 + (unsigned) sim_below (4);
  vw.log_entries = sim_chance (50) ? 0 : 1 + (unsigned) sim_below (3);
  vw.parts = run_config.outstanding_max % 3;
  for (unsigned i = 0; i < volumes; i++)
    vworld_make (i, random_size (1));
}

static void
end (void)
{
  if (!vw.may_fail)
    vworld_settle (true);
  vworld_kill (true, CUT_NONE, 0);
  disk_error = 0;
  vw.may_fail = false;
  vworld_import ();
  open_all ();
  vworld_end ();
}

static unsigned long long seed;

static void
replay (void)
{
  fprintf (stderr, "sim-volume: replay with: sim-volume -v --seed %llu\n",
           seed);
}

static void
run (void)
{
  unsigned steps;

  begin (seed);
  steps = 200 + (unsigned) sim_below (800);
  while (steps-- > 0)
    step ();
  end ();
}

int
main (int argc, char *argv[])
{
  unsigned long long first = 1, last = 1, count = 0, seconds = 0;
  struct volume_world all = { 0 };
  time_t until = 0;
  bool known = false;

  for (int i = 1; i < argc; i++) {
    if (strcmp (argv[i], "-v") == 0)
      sim_verbose = true;
    else if (i + 1 < argc && strcmp (argv[i], "--seed") == 0)
      known = sscanf (argv[++i], "%llu", &first) == 1, last = first;
    else if (i + 1 < argc && strcmp (argv[i], "--seeds") == 0)
      known = sscanf (argv[++i], "%llu-%llu", &first, &last) == 2;
    else if (i + 1 < argc && (strcmp (argv[i], "--fresh") == 0 ||
                              strcmp (argv[i], "--seconds") == 0)) {
      if (argv[i][2] == 's')
        known = sscanf (argv[++i], "%llu", &seconds) == 1, count = 1ull << 40;
      else
        known = sscanf (argv[++i], "%llu", &count) == 1 && count > 0;
      first = (unsigned long long) time (NULL) * 1000003 % 1000000000000;
      last = first + count - 1;
      until = seconds ? time (NULL) + (time_t) seconds : 0;
    }
  }
  if (!known || last < first) {
    fprintf (stderr, "usage: sim-volume [-v] --seed N | --seeds A-B | "
                     "--fresh N | --seconds S\n");
    return 2;
  }
  mallopt (M_MMAP_THRESHOLD, 64 << 20); /* the same pages for each world */
  mallopt (M_TRIM_THRESHOLD, 256 << 20);
  sim_begin (replay);
  for (seed = first; seed <= last && (!until || time (NULL) < until); seed++) {
    run ();
    all.requests += vw.requests;
    all.ios += vw.ios;
    all.cuts += vw.cuts;
    all.kills += vw.kills;
    all.losses += vw.losses;
    all.flushes += vw.flushes;
    all.full_errors += vw.full_errors;
    all.imports += vw.imports;
    all.freed += vw.freed;
    all.anews += vw.anews;
  }
  sim_well ();
  printf ("seeds %llu-%llu: %llu requests, %llu of the array, %llu FLUSHes, "
          "%llu power cuts, %llu kills, %llu losses, %llu imports, %llu times "
          "ENOSPC, %llu segments given back, %llu logs rewritten: no rule "
          "broken\n",
          first, seed - 1, (unsigned long long) all.requests,
          (unsigned long long) all.ios, (unsigned long long) all.flushes,
          (unsigned long long) all.cuts, (unsigned long long) all.kills,
          (unsigned long long) all.losses, (unsigned long long) all.imports,
          (unsigned long long) all.full_errors, (unsigned long long) all.freed,
          (unsigned long long) all.anews);
  return 0;
}
