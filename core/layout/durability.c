/* durability.c: see durability.h. */

#include <config.h>

#include <assert.h>
#include <string.h>

#include "durability.h"

#define SETS_MAX 5000 /* of one size: it takes milliseconds */

/* The next set of as many members, in lexical order; false: that was all. */
static bool
next_set (unsigned set[], unsigned size, unsigned n)
{
  unsigned i = size;

  while (i > 0 && set[i - 1] == n - size + i - 1)
    i--;
  if (i == 0)
    return false;
  set[i - 1]++;
  for (; i < size; i++)
    set[i] = set[i - 1] + 1;
  return true;
}

/* How many sets of `size` members of a group can fail without a loss. */
static uint64_t
harmless_sets (const struct layout *group, unsigned size)
{
  unsigned set[GROUP_MEMBERS_MAX];
  bool lost[GROUP_MEMBERS_MAX];
  uint64_t count = 0;

  for (unsigned i = 0; i < size; i++)
    set[i] = i;
  do {
    memset (lost, 0, sizeof lost);
    for (unsigned i = 0; i < size; i++)
      lost[set[i]] = true;
    count += layout_loss (group, lost, NULL) == 0;
  } while (next_set (set, size, group->n));
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
