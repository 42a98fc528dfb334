/* test-durability.c: durability.c against closed forms, and against the whole
 * chain: a state for each set of failed members, solved by elimination.
 */

#include <config.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "layout/durability.h"

#define STATES_MAX 256

static const double fail = 2.3e-6, rebuild = 0.4;

static struct layout
make (enum layout_kind kind, unsigned n, unsigned groups)
{
  struct layout l;
  char why[200];

  if (layout_init (&l, kind, n, groups, KiB (64), MiB (64), why, sizeof why)) {
    fprintf (stderr, "%s\n", why);
    exit (1);
  }
  return l;
}

static void
same (const char *what, double is, double should, double tolerance)
{
  if (fabs (is - should) <= tolerance * should)
    return;
  fprintf (stderr, "test-durability: %s: %.12g, and should be %.12g\n", what,
           is, should);
  exit (1);
}

/* Solve a x = b in place; the answer is in b. */
static void
solve (double a[STATES_MAX][STATES_MAX], double b[STATES_MAX], unsigned n)
{
  for (unsigned i = 0; i < n; i++) {
    unsigned pivot = i;

    for (unsigned r = i + 1; r < n; r++)
      if (fabs (a[r][i]) > fabs (a[pivot][i]))
        pivot = r;
    for (unsigned k = 0; k < n; k++) {
      double x = a[i][k];

      a[i][k] = a[pivot][k];
      a[pivot][k] = x;
    }
    double y = b[i];

    b[i] = b[pivot];
    b[pivot] = y;
    for (unsigned r = 0; r < n; r++) {
      double f = r == i ? 0 : a[r][i] / a[i][i];

      for (unsigned k = i; f != 0 && k < n; k++)
        a[r][k] -= f * a[i][k];
      b[r] -= f * b[i];
    }
  }
  for (unsigned i = 0; i < n; i++)
    b[i] /= a[i][i];
}

/* The mean time from all well to a loss, over all sets of one group. */
static double
whole_chain (const struct layout *l, double f, double r)
{
  static double a[STATES_MAX][STATES_MAX], b[STATES_MAX];
  unsigned states = 1u << l->n;
  bool lost[GROUP_MEMBERS_MAX];

  for (unsigned s = 0; s < states; s++) {
    for (unsigned k = 0; k < states; k++)
      a[s][k] = 0;
    for (unsigned m = 0; m < l->n; m++)
      lost[m] = s >> m & 1;
    if (layout_loss (l, lost, NULL) > 0) {
      a[s][s] = 1; /* it is lost: no time is left */
      b[s] = 0;
      continue;
    }
    b[s] = 1;
    for (unsigned m = 0; m < l->n; m++) {
      double rate = lost[m] ? r : f;

      a[s][s] += rate;
      a[s][s ^ 1u << m] -= rate;
    }
  }
  solve (a, b, states);
  return b[0];
}

static void
test_closed_forms (void)
{
  double f = fail, r = rebuild;
  struct layout l;

  for (unsigned n = 1; n <= 8; n++) {
    l = make (LAYOUT_RAID0, n, 1);
    same ("raid-0", durability_mttdl (&l, f, r), 1 / (n * f), 1e-12);
  }
  l = make (LAYOUT_RAID1, 2, 1);
  same ("raid-1 of 2", durability_mttdl (&l, f, r), (3 * f + r) / (2 * f * f),
        1e-12);
  l = make (LAYOUT_RAID1, 3, 1);
  same ("raid-1 of 3", durability_mttdl (&l, f, r),
        11 / (6 * f) + 7 * r / (6 * f * f) + r * r / (3 * f * f * f), 1e-12);
  for (unsigned n = 3; n <= GROUP_MEMBERS_MAX; n++)
    for (unsigned rotated = 0; rotated < 2; rotated++) {
      l = make (rotated ? LAYOUT_ROTATED : LAYOUT_RAIDX, n, 1);
      same (layout_name (l.kind), durability_mttdl (&l, f, r),
            ((2 * n - 1) * f + r) / (n * (n - 1.) * f * f), 1e-12);
    }
  /* As many pairs fail as often as so many pairs by themselves, nearly. */
  l = make (LAYOUT_RAID10, 32, 1);
  same ("raid-10 of 16 pairs", durability_mttdl (&l, f, r),
        (3 * f + r) / (2 * f * f) / 16, 1e-3);
}

static void
test_whole_chains (void)
{
  static const struct {
    enum layout_kind kind;
    unsigned n;
    double tolerance;
  } cases[] = {
    { LAYOUT_RAID0, 3, 1e-6 },
    { LAYOUT_RAID1, 2, 1e-6 },
    { LAYOUT_RAID1, 4, 1e-6 },
    { LAYOUT_RAID10, 2, 1e-6 },
    { LAYOUT_RAID10, 4, 1e-6 },
    { LAYOUT_RAID10, 8, 1e-6 },
    { LAYOUT_RAIDX, 3, 1e-6 },
    { LAYOUT_RAIDX, 6, 1e-6 },
    { LAYOUT_ROTATED, 5, 1e-6 },
    { LAYOUT_CHAINED, 3, 1e-6 },
    /* Its sets are not equally likely. */
    { LAYOUT_CHAINED, 4, 2e-2 },
    { LAYOUT_CHAINED, 8, 2e-2 },
  };
  struct layout l;

  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    l = make (cases[i].kind, cases[i].n, 1);
    /* Rates that elimination can tell apart. */
    same (layout_name (l.kind), durability_mttdl (&l, 0.01, 1),
          whole_chain (&l, 0.01, 1), cases[i].tolerance);
  }
}

static void
test_groups (void)
{
  struct layout one = make (LAYOUT_RAIDX, 4, 1);
  struct layout four = make (LAYOUT_RAIDX, 4, 4);

  same ("4 groups", durability_mttdl (&four, fail, rebuild) * 4,
        durability_mttdl (&one, fail, rebuild), 1e-12);
}

int
main (void)
{
  test_closed_forms ();
  test_whole_chains ();
  test_groups ();
  return 0;
}
