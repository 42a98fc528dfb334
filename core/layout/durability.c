/* durability.c: see durability.h. */

#include <config.h>

#include <assert.h>

#include "durability.h"

#define SETS_MAX 5000 /* of one size: it takes milliseconds */

/* How many sets of `size` members of a group can fail without a loss. */
static uint64_t
harmless_sets (const struct layout *group, unsigned size)
{
  bool lost[GROUP_MEMBERS_MAX];
  uint64_t count = 0, set = (UINT64_C (1) << size) - 1;

  while (set < UINT64_C (1) << group->n) {
    uint64_t lowest = set & -set, carried = set + lowest;

    for (unsigned i = 0; i < group->n; i++)
      lost[i] = set >> i & 1;
    count += layout_loss (group, lost, NULL) == 0;
    /* The next larger number that has as many bits: the lowest run of ones moves its
     * highest one up, and the rest of it down to the end.
     */
    set = carried | (((set ^ carried) / lowest) >> 2);
  }
  return count;
}

static uint64_t
binomial (unsigned n, unsigned k)
{
  uint64_t b = 1;

  for (unsigned i = 0; i < k; i++)
    b = b * (n - i) / (i + 1);
  return b;
}

double
durability_mttdl (const struct layout *l, double fail, double rebuild)
{
  struct layout group;
  uint64_t harmless[GROUP_MEMBERS_MAX + 2] = { 1 };
  double more = 0, closed = 0;
  unsigned last = 0, n = l->n;
  char why[200];
  int r = layout_init (&group, l->kind, n, 1, l->unit, l->member_bytes, why,
                       sizeof why);

  assert (r == 0); /* it is one of l's groups */
  while (last < n && binomial (n, last + 1) <= SETS_MAX &&
         (harmless[last + 1] = harmless_sets (&group, last + 1)) > 0)
    last++;
  /* Each state's mean time is more + (1 - closed) * that of the state below;
   * written so that nothing is subtracted, from the last state downwards.
   */
  for (unsigned i = last + 1; i-- > 0;) {
    double out = (n - i) * fail;
    double on = i == last ? 0
                          : fail * (double) harmless[i + 1] * (i + 1) /
                              (double) harmless[i];
    double lose = i == last ? out : out - on;
    double sum = lose + i * rebuild + on * closed;

    more = (1 + on * more) / sum;
    closed = (lose + on * closed) / sum;
  }
  return more / l->groups;
}
