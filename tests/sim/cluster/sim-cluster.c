/* sim-cluster.c: runs of the whole, in worlds that seeds decide.
 *
 *   sim-cluster --seed N [-v]         one run; -v tells what happens
 *   sim-cluster --corpus FIRST COUNT  many
 *   sim-cluster --fresh COUNT         from a seed that the clock gives
 *   sim-cluster --seconds S           fresh ones, for so long, with --shared one of
 *                                     four, with --leases another; each minute it
 *                                     tells where it is
 *   --rollbacks                       disks are rolled back in every world, not in
 *                                     one of five
 *   --rekeys                          disks get other keys
 *   --imports                         weftd's database is lost, and the array imported
 *   --restores                        weftd is restored from backups
 *   --alone                           a disk that replaced another one goes on
 *                                     alone, and then weftd's database is lost: with
 *                                     --restores or --imports
 *   --sick                            disks are slow, and lines swallow what is sent,
 *                                     not in one of 50
 *   --hard                            three times the usual rate of faults
 *   --shared                          several hosts write, each a part of the array
 *   --leases                          several hosts share it by leases
 */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "world.h"

static unsigned long long seed;

static void
replay (void)
{
  fprintf (
    stderr,
    "sim-cluster: replay with: sim-cluster -v --seed %llu%s%s%s%s%s%s%s%s%s\n",
    seed, world_rollbacks ? " --rollbacks" : "",
    world_rekeys ? " --rekeys" : "", world_imports ? " --imports" : "",
    world_restores ? " --restores" : "", world_alone ? " --alone" : "",
    world_sick ? " --sick" : "", world_hard ? " --hard" : "",
    world_shared ? " --shared" : "", world_leases ? " --leases" : "");
}

static double
clock_s (void)
{
  struct timespec ts;

  clock_gettime (CLOCK_PROCESS_CPUTIME_ID, &ts);
  return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* How often what is of interest has happened where several write. */
static void
tell_shared (void)
{
  printf (
    "sim-cluster: parts: %llu granted to the first, %llu beside others (%llu "
    "while a member was not in-sync, %llu after another had written there), "
    "%llu put off; %llu sessions ended beside others (%llu while a member was "
    "joining, %llu for silence, %llu for a member that others reach); %llu "
    "members given back to who could not reach them\n",
    counters.first, counters.beside, counters.beside_behind, counters.taken_up,
    counters.waits, counters.ended_beside, counters.ended_beside_joiner,
    counters.silenced, counters.apart, counters.given_back);
  printf ("sim-cluster: parts: %llu writes refused, %llu grains read "
          "elsewhere, %llu resyncs of what the dead had left, %llu settles, "
          "%llu clears; rounds: %llu asked for, %llu jumps\n",
          counters.refused, counters.elsewhere, counters.orphans,
          counters.settles, counters.clears, counters.asks, counters.jumps);
}

static int
usage (void)
{
  fprintf (stderr,
           "usage: sim-cluster [-v] [--rollbacks] [--rekeys] [--imports] "
           "[--restores] [--alone] [--sick] [--hard] [--shared | --leases] "
           "--seed N | --corpus "
           "FIRST COUNT | --fresh COUNT "
           "| --seconds S\n");
  return 2;
}

int
main (int argc, char *argv[])
{
  unsigned long long first = 0, count = 0, seconds = 0, trace = 0;
  double began = clock_s (), took;
  time_t end, tell, now;
  bool shared = false, sick = false, alone = false;

  for (int i = 1; i < argc; i++) {
    if (strcmp (argv[i], "-v") == 0)
      sim_verbose = true;
    else if (strcmp (argv[i], "--rollbacks") == 0)
      world_rollbacks = true;
    else if (strcmp (argv[i], "--rekeys") == 0)
      world_rekeys = true;
    else if (strcmp (argv[i], "--imports") == 0)
      world_imports = true;
    else if (strcmp (argv[i], "--restores") == 0)
      world_restores = true;
    else if (strcmp (argv[i], "--alone") == 0)
      world_alone = alone = true;
    else if (strcmp (argv[i], "--sick") == 0)
      world_sick = sick = true;
    else if (strcmp (argv[i], "--hard") == 0)
      world_hard = true;
    else if (strcmp (argv[i], "--shared") == 0)
      world_shared = shared = true;
    else if (strcmp (argv[i], "--leases") == 0)
      world_leases = shared = true;
    else if (i + 1 < argc && strcmp (argv[i], "--seed") == 0) {
      first = strtoull (argv[++i], NULL, 10);
      count = 1;
    }
    else if (i + 2 < argc && strcmp (argv[i], "--corpus") == 0) {
      first = strtoull (argv[++i], NULL, 10);
      count = strtoull (argv[++i], NULL, 10);
    }
    else if (i + 1 < argc && strcmp (argv[i], "--fresh") == 0)
      count = strtoull (argv[++i], NULL, 10);
    else if (i + 1 < argc && strcmp (argv[i], "--seconds") == 0)
      seconds = strtoull (argv[++i], NULL, 10);
    else
      return usage ();
  }
  if (count == 0 && seconds == 0)
    return usage ();
  if (first == 0)
    first = (unsigned long long) time (NULL) * 1000003 % 1000000000000;
  sim_begin (replay);
  now = time (NULL);
  end = now + seconds;
  tell = now + 60;
  for (seed = first; seconds ? now < end : seed < first + count; seed++) {
    if (seconds && !shared) {
      world_shared = seed % 4 == 0;
      world_leases = seed % 4 == 2;
      world_imports = seed / 4 % 4 == 1;
      world_restores = seed / 4 % 4 == 2;
    }
    if (seconds && !alone)
      world_alone = (world_imports || world_restores) && seed / 64 % 4 == 1;
    if (seconds && !sick)
      world_sick = seed / 16 % 4 == 3;
    world_begin (seed);
    world_run ();
    world_finish ();
    trace = world_end ();
    now = time (NULL);
    if (seconds && now >= tell) {
      printf ("sim-cluster: seeds %llu-%llu: no rule broken so far\n", first,
              seed);
      fflush (stdout);
      tell = now + 60;
    }
  }
  sim_well ();
  took = clock_s () - began;
  printf ("sim-cluster: seeds %llu-%llu: %llu requests, %llu faults, %llu "
          "losses, %llu commits, %llu joins, %llu grants, %llu flushes, %llu "
          "refused for want of room, %llu errors, %llu restores; %llu steps, "
          "%.0f a second: no "
          "rule broken\n",
          first, seed - 1, counters.requests, counters.faults, counters.losses,
          counters.commits, counters.joins, counters.grants, counters.flushes,
          counters.no_room, counters.errors, counters.restores, steps,
          steps / (took > 0 ? took : 1));
  if (world_shared)
    tell_shared ();
  if (world_leases)
    printf ("sim-cluster: leases: %llu ranges granted, %llu given back; %llu "
            "declarations, %llu orders to recover\n",
            counters.leases, counters.gives, counters.declares,
            counters.recoveries);
  if (counters.slows + counters.holes)
    printf (
      "sim-cluster: %llu disks were slow, called so at %llu looks; %llu lines "
      "swallowed what was sent, and %llu connections ended for that\n",
      counters.slows, counters.slow_found, counters.holes, counters.swallowed);
  if (counters.alone)
    printf (
      "sim-cluster: %llu disks went on alone before the database was lost\n",
      counters.alone);
  if (counters.imports)
    printf ("sim-cluster: the database was lost: %llu imports, %llu refused, "
            "%llu with the loss accepted, %llu never possible; %llu members "
            "given up\n",
            counters.imports, counters.import_refusals, counters.imports_forced,
            counters.imports_never, counters.imports_without);
  printf ("sim-cluster: seed %llu: trace %016llx\n", seed - 1, trace);
  return 0;
}
