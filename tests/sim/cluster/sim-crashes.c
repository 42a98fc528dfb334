/* sim-crashes.c: bounded exhaustive crashes.
 *
 * Every workload of up to three operations over {write, overlapping write,
 * FLUSH, FUA write, zero, trim}; every role crashes at every boundary, from the
 * first operation until all intent bits have fallen again.  Then it comes back,
 * all converges, and the oracle judges.  A scene says what is bounded:
 *
 *   all is well    boundaries are the events in which data or a header moved,
 *                  of a request, an answer, a header: a crash elsewhere is like
 *                  one at the last of them
 *   one is lost    the first member is killed after the first operation, and is
 *                  back soon: it goes out and joins.  Every input to any engine
 *                  is a boundary, including messages and stores
 *   replaced       the writer is killed when all is answered, and another takes
 *                  its place: every input until that admits clients
 *   moved          all is well: every input until all is answered
 *
 * In some scenes two hosts write, on both sides of a border within one extent, and the
 * first of them is the one that crashes.  In others three share the array by leases and
 * write the same place, so that it is revoked, and each has it after the other.  Where one
 * of them is replaced, the others write there again, and wait until what the dead one had
 * is recovered.  There each of the three crashes.
 *
 *   sim-crashes                  all cases
 *   sim-crashes --every N K      every Nth boundary, from another one each time: of
 *                                the N series that make up all cases, number K
 *   sim-crashes --case S W R B   one: scene, workload, role, boundary; -v
 */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

enum op { WRITE, OVERLAP, FLUSH, FUA, ZERO, TRIM, OPS };
#define LENGTH_MAX 3

/* Which layouts, and how long the workloads are. */
static const struct {
  enum layout_kind kind;
  unsigned n, length_max;
  enum { WELL, LOST, REPLACED, MOVED } what;
  enum { ALONE, PARTS, LEASES } who;
} scenes[] = {
  { LAYOUT_RAID10, 2, 3, WELL, ALONE },
  { LAYOUT_RAIDX, 3, 2, WELL, ALONE },
  { LAYOUT_RAID10, 2, 1, LOST, ALONE },
  { LAYOUT_RAIDX, 3, 1, LOST, ALONE },
  { LAYOUT_RAID10, 2, 1, REPLACED, ALONE },
  { LAYOUT_RAIDX, 3, 1, REPLACED, ALONE },
  { LAYOUT_RAID10, 2, 2, WELL, PARTS },
  { LAYOUT_RAIDX, 3, 1, WELL, PARTS },
  { LAYOUT_RAID10, 2, 1, LOST, PARTS },
  { LAYOUT_RAID10, 2, 1, REPLACED, PARTS },
  { LAYOUT_RAID10, 2, 1, MOVED, LEASES },
  { LAYOUT_RAID10, 2, 1, REPLACED, LEASES },
};
#define SCENES (sizeof scenes / sizeof scenes[0])

static unsigned scene, workload, role, boundary, every = 1, series;
static unsigned long long cases;

static void
replay (void)
{
  fprintf (stderr,
           "sim-crashes: replay with: sim-crashes -v --case %u %u %u %u\n",
           scene, workload, role, boundary);
}

/* A workload's number, in base OPS: its operations, the first one last. */
static unsigned
workloads (unsigned length)
{
  unsigned count = 0, power = 1;

  for (unsigned i = 0; i < length; i++) {
    power *= OPS;
    count += power;
  }
  return count;
}

static unsigned
decode (unsigned number, enum op ops[])
{
  unsigned length = 1;

  while (number >= workloads (length))
    length++;
  number -= length > 1 ? workloads (length - 1) : 0;
  for (unsigned i = 0; i < length; i++, number /= OPS)
    ops[i] = number % OPS;
  return length;
}

/* The first so many hosts write. */
static unsigned
writers (void)
{
  static const unsigned count[] = { [ALONE] = 1, [PARTS] = 2, [LEASES] = 3 };

  return count[scenes[scene].who];
}

static bool
serves (void)
{
  for (unsigned i = 0; i < w.config.lone; i++)
    if (w.host[i].stage != HOST_SERVING)
      return false;
  return true;
}

static void
begin (void)
{
  struct config c = {
    .kind = scenes[scene].kind,
    .n = scenes[scene].n,
    .groups = 1,
    .hosts = 1 + scenes[scene].n,
    .areas = 2,
    .lone = writers (),
    .shared = scenes[scene].who == PARTS,
    .leases = scenes[scene].who == LEASES,
    .unit = KiB (64),
    .member_bytes = 3 * EXTENT_BYTES,
    .image_age_ms = 5,
    .image_buffer_bytes = MiB (1),
    .io_timeout_ms = 2000,
    .connect_ms = 1000,
    .client_us = 1000,
  };

  world_configure (&c, 1 + workload);
  for (unsigned i = 0; i < w.disks; i++)
    w.member[i].proc.party = 2 + i; /* the writer's host is its own */
  if (scenes[scene].who == PARTS) {
    w.pieces = 2;
    w.border[1] = (w.area[0].offset / w.layout.unit + 1) * w.layout.unit;
    w.border[2] = w.layout.size;
  }
  world_create ();
  if (!world_live (30 * SECOND, serves))
    sim_fail ("no writer serves");
  world_live (SECOND, NULL);
}

/* Of each operation the host does what is of its part. */
static void
submit_by (struct host_role *h, enum op op)
{
  static const enum array_op ops[OPS] = {
    ARRAY_WRITE, ARRAY_WRITE, ARRAY_FLUSH, ARRAY_WRITE, ARRAY_ZERO, ARRAY_TRIM
  };
  uint64_t from = w.area[0].offset + (op == OVERLAP ? grain_bytes : 0);
  uint64_t to = from + (w.area[0].grains - 1) * grain_bytes;
  uint64_t end = h->part_offset + h->part_length;

  if (h->part_length > 0) {
    from = from < h->part_offset ? h->part_offset : from;
    to = to < end ? to : end;
  }
  if (op == FLUSH)
    clients_send (h, ARRAY_FLUSH, 0, 0, 0);
  else
    clients_send (h, ops[op], op == FUA ? ARRAY_FUA : 0, from, to - from);
}

static void
submit (enum op op)
{
  for (unsigned i = 0; i < w.config.lone; i++)
    if (w.host[i].stage == HOST_SERVING)
      submit_by (&w.host[i], op);
}

static bool
answered (void)
{
  for (unsigned i = 0; i < w.config.lone; i++)
    if (w.host[i].outstanding > 0)
      return false;
  return true;
}

static bool
all_clear (void)
{
  const struct cluster_array_record *a = store_array ();

  for (unsigned m = 0; m < w.layout.members; m++)
    if (a->member[m].state != MEMBER_IN_SYNC)
      return false;
  for (unsigned i = 0; i < w.disks; i++)
    if (w.disk[i].bits)
      return false;
  return answered ();
}

/* The workload, until the boundary, or its end.  Returns whether the boundary
 * was met.  Operations follow each other closely: with the next one, the last
 * may still be under way.
 */
static bool
run_until (const enum op ops[], unsigned length)
{
  unsigned sent = 0, met = 0;
  uint64_t next_at = sim_now, end = sim_now + 30 * SECOND;
  bool begun = scenes[scene].what != REPLACED;

  while (sim_now < end) {
    const unsigned long long *count = scenes[scene].what == WELL ? &io_steps
                                                                 : &steps;
    unsigned long long before = *count;

    if (sent < length && sim_now >= next_at) {
      submit (ops[sent++]);
      next_at = sim_now + (sent % 2 ? 150 * US : 2 * MS);
      if (sent == 1 && scenes[scene].what == LOST)
        faults_crash (VICTIM_CUT, 0, 300 * MS);
    }
    else if (sent < length && sim_next () > next_at)
      sim_now = next_at;
    else
      world_step ();
    if (!begun && sent == length && answered ()) {
      faults_crash (VICTIM_HOST, 0, 0);
      if (scenes[scene].who == LEASES) /* by the others */
        submit (ops[0]);
      begun = true;
    }
    else if (begun && *count > before && met++ == boundary)
      return true;
    if (sent == length && met > 0 &&
        (scenes[scene].what == REPLACED ? serves () && answered ()
         : scenes[scene].what == MOVED  ? answered ()
                                        : all_clear ()))
      return false;
  }
  return false;
}

/* The host, weftd, all, then each member killed and cut. */
static unsigned
roles_but_hosts (void)
{
  return VICTIM_KILL + 2 * scenes[scene].n;
}

/* Then, where these are equals, each other host. */
static unsigned
roles (void)
{
  return roles_but_hosts () +
         (scenes[scene].who == LEASES ? writers () - 1 : 0);
}

/* Returns whether there is such a boundary. */
static bool
run (void)
{
  enum op ops[LENGTH_MAX];
  unsigned length = decode (workload, ops);
  bool met;

  begin ();
  met = run_until (ops, length);
  if (met) {
    cases++;
    if (role < VICTIM_KILL)
      faults_crash (role, 0, 200 * MS);
    else if (role < roles_but_hosts ())
      faults_crash (VICTIM_KILL + (role - VICTIM_KILL) % 2,
                    (role - VICTIM_KILL) / 2, 200 * MS);
    else
      faults_crash (VICTIM_HOST, 1 + role - roles_but_hosts (), 200 * MS);
    world_live (SECOND, NULL);
    if (!world_live (60 * SECOND, serves))
      sim_fail ("no writer serves");
    for (unsigned h = 0; h < w.config.lone; h++)
      for (unsigned i = 0; i < w.config.areas; i++)
        clients_send (&w.host[h], ARRAY_READ, 0, w.area[i].offset,
                      w.area[i].grains * grain_bytes);
    if (scenes[scene].who != ALONE) {
      world_live (SECOND, NULL);
      world_unite ();
      world_live (10 * SECOND, NULL);
    }
    world_converge ();
  }
  world_end ();
  return met;
}

int
main (int argc, char *argv[])
{
  bool one = false;

  for (int i = 1; i < argc; i++)
    if (strcmp (argv[i], "-v") == 0)
      sim_verbose = true;
    else if (i + 2 < argc && strcmp (argv[i], "--every") == 0 &&
             atoi (argv[i + 1]) > 0) {
      every = atoi (argv[++i]);
      series = atoi (argv[++i]);
    }
    else if (i + 4 < argc && strcmp (argv[i], "--case") == 0) {
      scene = atoi (argv[i + 1]);
      workload = atoi (argv[i + 2]);
      role = atoi (argv[i + 3]);
      boundary = atoi (argv[i + 4]);
      one = scene < SCENES;
      i += 4;
    }
    else {
      fprintf (stderr,
               "usage: sim-crashes [-v] [--every N K | --case S W R B]\n");
      return 2;
    }
  sim_begin (replay);
  if (one)
    run ();
  for (scene = 0; !one && scene < SCENES; scene++)
    for (workload = 0; workload < workloads (scenes[scene].length_max);
         workload++)
      for (role = 0; role < roles (); role++)
        for (boundary = (workload + role + series) % every; run ();
             boundary += every)
          ;
  sim_well ();
  printf (
    "sim-crashes: %llu crashes, each at another boundary (--every %u %u); "
    "%llu steps: no rule broken\n",
    cases, every, series, steps);
  return 0;
}
