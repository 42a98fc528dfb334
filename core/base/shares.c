/* shares.c: see shares.h. */

#include <config.h>

#include <string.h>

#include "shares.h"

bool
shares_count (enum shares_bound bound, const struct share *share,
              const struct share *s)
{
  bool same = s->name[0] && strcmp (share->name, s->name) == 0;

  switch (bound) {
  case SHARES_ALL:
    return true;
  case SHARES_NAME:
    return same;
  case SHARES_READERS:
    return s->name[0] && s->reads && share->name[0] && share->reads;
  case SHARES_READER:
    return same && s->reads && share->reads;
  case SHARES_SESSION:
    return s->session != 0 && share->session == s->session;
  case SHARES_FIT:
    break;
  }
  return false;
}

enum shares_bound
shares_check (const struct shares *shares, const struct share *s)
{
  for (enum shares_bound b = SHARES_ALL; b <= SHARES_SESSION; b++) {
    uint64_t sum = s->amount;
    const struct share *share;

    if (!shares_count (b, s, s))
      continue;
    LIST_FOREACH (share, &shares->list, link)
      sum += shares_count (b, share, s) ? share->amount : 0;
    if (sum > shares->max[b])
      return b;
  }
  return SHARES_FIT;
}
