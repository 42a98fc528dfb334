/* sim-volume-crashes.c: bounded exhaustive crashes of a volume.
 *
 * Every workload of up to three operations over {write of whole blocks, of a part of a
 * block, in two segments, FLUSH, FUA write, zero, trim of a segment}, on a volume that
 * has some data and a log that is nearly full.  The power is cut, or the host killed,
 * at every boundary: after each answer of the array.  Then none, all, or each one alone
 * of the sectors that are not stable are there.  The volume is opened, judged, writes
 * again where its space is used again, is cut again in the midst of its FLUSH and after
 * it, and judged again.
 *
 *   sim-volume-crashes                  all cases
 *   sim-volume-crashes --every N K      of the cases of one sector each Nth, from K on
 *   sim-volume-crashes --case W B S     workload, boundary, sectors kept; -v
 */

#include <config.h>

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "volume-world.h"

#define LENGTH_MAX 3
#define SEGMENT KiB (32)
#define GRAINS (3 * SEGMENT / SECTOR) /* of the volume; 64 in a segment */

/* Grains are blocks of 512 bytes in segments of 32 KiB; in the other geometry a block
 * has two of them.
 */
enum { WHOLE, PART, BOTH, FLUSH, FUA, ZERO, TRIM, OPS };

static const struct {
  enum array_op op;
  unsigned flags;
  uint64_t first, count;
} ops[OPS] = {
  [WHOLE] = { ARRAY_WRITE, 0, 64, 4 },       [PART] = { ARRAY_WRITE, 0, 67, 2 },
  [BOTH] = { ARRAY_WRITE, 0, 62, 4 },        [FLUSH] = { ARRAY_FLUSH, 0, 0, 0 },
  [FUA] = { ARRAY_WRITE, ARRAY_FUA, 66, 2 }, [ZERO] = { ARRAY_ZERO, 0, 63, 6 },
  [TRIM] = { ARRAY_TRIM, 0, 0, 64 },
};

enum { KEEP_NONE, KEEP_ALL, KEEP_KILLED, KEEP_ONE }; /* ... and further ones */

static unsigned case_workload, case_boundary, case_kept;

static void
replay (void)
{
  fprintf (stderr,
           "sim-volume-crashes: replay with: sim-volume-crashes -v --case %u "
           "%u %u\n",
           case_workload, case_boundary, case_kept);
}

static void
do_op (unsigned op)
{
  vworld_submit (0, 0, ops[op].op, ops[op].flags, ops[op].first, ops[op].count);
}

static void
do_settled (unsigned op)
{
  do_op (op);
  vworld_settle (false);
}

/* The volume has a segment of data, and so many blocks of its log are used. */
static void
prepare (unsigned log_blocks)
{
  vworld_make (0, GRAINS * SECTOR);
  for (unsigned i = 0; i < 2; i++) {
    vworld_weftd (0);
    vworld_weftd (0);
    vworld_weftd (0);
  }
  vworld_submit (0, 0, ARRAY_WRITE, 0, 0, 64);
  vworld_settle (false);
  for (unsigned i = 0; i < log_blocks; i++) {
    vworld_submit (0, 0, ARRAY_WRITE, 0, 129 + 2 * i, 1);
    vworld_settle (false);
    do_settled (FLUSH);
  }
}

/* New writes use the freed space, and the power is cut once more. */
static void
use_again (unsigned boundary)
{
  vworld_submit (0, 0, ARRAY_WRITE, 0, 128, 64);
  vworld_settle (false);
  vworld_submit (0, 0, ARRAY_WRITE, 0, 0, 3);
  do_op (FLUSH);
  if (boundary % 2 == 0) { /* half of a FLUSH */
    for (unsigned i = 0; i < 2 && disk_waiting () > 0; i++)
      vworld_answer (0);
    vworld_kill (true, CUT_ALL, 0);
  }
  else {
    vworld_settle (false);
    vworld_kill (true, CUT_NONE, 0);
  }
  vworld_open (0);
  do_settled (FLUSH);
  vworld_submit (0, 0, ARRAY_READ, 0, 0, GRAINS);
  vworld_settle (false);
}

/* Returns false: the workload has no such boundary; *sectors: that there were to keep. */
static bool
run (unsigned workload, unsigned boundary, unsigned kept, unsigned *sectors)
{
  static const enum cut_kind kinds[] = { CUT_NONE, CUT_ALL, CUT_ALL };
  unsigned length = 1, n = workload / 2, all = OPS, answers = 0;
  bool together = workload % 2, reached = true;

  case_workload = workload, case_boundary = boundary, case_kept = kept;
  for (; n >= all; n -= all, all *= OPS)
    length++;
  sim_seed (1);
  vworld_begin (SEGMENT, 40, 1, GRAINS);
  prepare (n % 3 == 0 ? 2 : 3 + n % 5);
  for (unsigned i = 0; i < length && reached; i++, n /= OPS) {
    do_op (n % OPS);
    while ((!together || i + 1 == length) && disk_waiting () > 0) {
      if (answers++ == boundary) {
        reached = false;
        break;
      }
      vworld_answer (together ? boundary : 0);
    }
  }
  *sectors = vworld_kill (kept != KEEP_KILLED,
                          kept < KEEP_ONE ? kinds[kept] : CUT_ONE,
                          kept - KEEP_ONE);
  vworld_open (0);
  use_again (boundary);
  vworld_end ();
  return !reached;
}

static unsigned
workloads (void)
{
  unsigned n = 0, all = OPS;

  for (unsigned i = 0; i < LENGTH_MAX; i++, all *= OPS)
    n += all;
  return 2 * n;
}

int
main (int argc, char *argv[])
{
  unsigned every = 1, first = 0, number = 0, w = 0, b = 0, k = 0, sectors;
  unsigned long runs = 0;
  bool one = false, more;

  for (int i = 1; i < argc; i++)
    if (strcmp (argv[i], "-v") == 0)
      sim_verbose = true;
    else if (i + 2 < argc && strcmp (argv[i], "--every") == 0) {
      every = (unsigned) atoi (argv[++i]);
      first = (unsigned) atoi (argv[++i]);
    }
    else if (i + 3 < argc && strcmp (argv[i], "--case") == 0) {
      w = (unsigned) atoi (argv[++i]);
      b = (unsigned) atoi (argv[++i]);
      k = (unsigned) atoi (argv[++i]);
      one = true;
    }
    else {
      fprintf (stderr, "usage: sim-volume-crashes [--every N K] | "
                       "[-v] --case W B S\n");
      return 2;
    }
  mallopt (M_MMAP_THRESHOLD, 64 << 20); /* the same pages for each world */
  mallopt (M_TRIM_THRESHOLD, 256 << 20);
  sim_begin (replay);
  if (one)
    run (w, b, k, &sectors);
  for (w = 0; !one && w < workloads (); w++)
    for (b = 0, more = true; more; b++) {
      more = run (w, b, KEEP_NONE, &sectors);
      run (w, b, KEEP_KILLED, &sectors);
      run (w, b, KEEP_ALL, &sectors);
      runs += 3;
      for (k = KEEP_ONE; k < KEEP_ONE + sectors; k++)
        if (number++ % every == first % every) {
          unsigned ignored;

          run (w, b, k, &ignored);
          runs++;
        }
    }
  sim_well ();
  printf ("%lu crashes: no rule broken\n", runs);
  return 0;
}
