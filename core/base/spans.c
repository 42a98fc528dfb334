/* spans.c: ranges with owners, in one sorted table: see spans.h. */

#include <config.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "spares.h"
#include "spans.h"

void
spans_free (struct spans *s)
{
  free (s->span);
  *s = (struct spans) { 0 };
}

unsigned
spans_find (const struct spans *s, uint64_t at)
{
  unsigned low = 0, high = s->count;

  while (low < high) {
    unsigned middle = low + (high - low) / 2;

    if (s->span[middle].end > at)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/* Put `with` (`count` of them) in the place of the spans [first, last). */
static void
replace (struct spans *s, unsigned first, unsigned last,
         const struct span *with, unsigned count)
{
  unsigned after = s->count - last, want = first + count + after;

  if (want > s->room) {
    s->room = 2 * want;
    s->span = realloc (s->span, s->room * sizeof s->span[0]);
    if (s->span == NULL)
      abort ();
  }
  if (after > 0 && first + count != last)
    memmove (&s->span[first + count], &s->span[last],
             after * sizeof s->span[0]);
  if (count > 0)
    memcpy (&s->span[first], with, count * sizeof s->span[0]);
  s->count = want;
}

void
spans_set (struct spans *s, uint64_t start, uint64_t end, uint64_t owner)
{
  struct span with[3], mid = { start, end, owner };
  unsigned first = spans_find (s, start), last = first, count = 0;

  assert (start < end);
  while (last < s->count && s->span[last].start < end)
    last++;
  /* The parts outside of the range stay their owner's. */
  if (first < last && s->span[first].start < start)
    with[count++] = (struct span) { s->span[first].start, start,
                                    s->span[first].owner };
  else if (first > 0 && s->span[first - 1].end == start)
    with[count++] = s->span[--first];
  if (owner != 0 && count > 0 && with[0].owner == owner)
    mid.start = with[--count].start;
  if (owner != 0)
    with[count++] = mid;
  if (last > 0 && last > first && s->span[last - 1].end > end)
    with[count++] = (struct span) { end, s->span[last - 1].end,
                                    s->span[last - 1].owner };
  else if (last < s->count && s->span[last].start == end)
    with[count++] = s->span[last++];
  if (count > 1 && with[count - 2].end == with[count - 1].start &&
      with[count - 2].owner == with[count - 1].owner) {
    with[count - 2].end = with[count - 1].end;
    count--;
  }
  replace (s, first, last, with, count);
}

uint64_t
spans_reach (const struct spans *s, uint64_t at, uint64_t end, uint64_t owner)
{
  unsigned i = spans_find (s, at);

  if (owner == 0)
    return i == s->count || s->span[i].start >= end ? end
           : s->span[i].start > at                  ? s->span[i].start
                                                    : at;
  if (i == s->count || s->span[i].start > at || s->span[i].owner != owner)
    return at;
  return s->span[i].end < end ? s->span[i].end : end;
}

uint64_t
spans_reach_down (const struct spans *s, uint64_t at, uint64_t start,
                  uint64_t owner)
{
  unsigned i = at > 0 ? spans_find (s, at - 1) : 0;
  const struct span *x = i < s->count && s->span[i].start < at ? &s->span[i]
                                                               : NULL;

  if (at <= start)
    return at;
  if (owner != 0)
    return x == NULL || x->owner != owner ? at
           : x->start > start             ? x->start
                                          : start;
  if (x)
    return at;
  return i > 0 && s->span[i - 1].end > start ? s->span[i - 1].end : start;
}

bool
spans_has (const struct spans *s, uint64_t start, uint64_t end, uint64_t owner)
{
  return spans_reach (s, start, end, owner) == end;
}

bool
spans_meet (const struct spans *s, uint64_t start, uint64_t end)
{
  unsigned i = spans_find (s, start);

  return i < s->count && s->span[i].start < end;
}

void
spans_check (const struct spans *s)
{
  for (unsigned i = 0; i < s->count; i++) {
    const struct span *x = &s->span[i];

    assert (x->start < x->end && x->owner != 0);
    assert (i == 0 || x[-1].end < x->start ||
            (x[-1].end == x->start && x[-1].owner != x->owner));
  }
}
