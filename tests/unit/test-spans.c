/* test-spans.c: spans (core/base/spans.h) against a table with an owner for each byte. */

#include <config.h>

#include <stdbool.h>

#include "base/spans.h"
#include "test-random.h"

#define BYTES 64
#define OWNERS 3 /* and nobody */
#define STEPS 200000

static unsigned owner[BYTES];

static bool
all (uint64_t start, uint64_t end, unsigned who)
{
  for (uint64_t i = start; i < end; i++)
    if (owner[i] != who)
      return false;
  return true;
}

static void
compare (const struct spans *s)
{
  unsigned count = 0;

  spans_check (s);
  for (unsigned i = 0; i < BYTES; i++) {
    unsigned at = spans_find (s, i);
    bool in = at < s->count && s->span[at].start <= i;

    CHECK (owner[i] == (in ? s->span[at].owner : 0));
    count += owner[i] != 0 && (i == 0 || owner[i - 1] != owner[i]);
  }
  CHECK (s->count == count);
}

int
main (void)
{
  struct spans s = { 0 };

  test_random_start ();
  for (unsigned n = 0; n < STEPS; n++) {
    uint64_t start = test_random (BYTES), up, down;
    uint64_t end = start + 1 + test_random (BYTES - start);
    unsigned who = test_random (OWNERS + 1);

    CHECK (spans_has (&s, start, end, who) == all (start, end, who));
    CHECK (spans_meet (&s, start, end) == !all (start, end, 0));
    for (up = start; up < end && owner[up] == who; up++)
      ;
    CHECK (spans_reach (&s, start, end, who) == up);
    for (down = end; down > start && owner[down - 1] == who; down--)
      ;
    CHECK (spans_reach_down (&s, end, start, who) == down);
    spans_set (&s, start, end, who);
    for (uint64_t i = start; i < end; i++)
      owner[i] = who;
    compare (&s);
  }
  spans_free (&s);
  return 0;
}
