/* test-shares.c: nobody has more of the places, or of the memory, than the bounds say. */

#include <config.h>

#include <string.h>

#include "base/shares.h"
#include "test-random.h"

#define HOLDERS 40

static struct shares shares = {
  .max = { 0, 100, 50, 40, 20, 10 },
};
static struct share holders[HOLDERS];
static bool in[HOLDERS];

static struct share
share_of (const char *name, uint64_t session, bool reads, uint64_t amount)
{
  struct share s = { .session = session, .reads = reads, .amount = amount };

  strcpy (s.name, name);
  return s;
}

/* One bound at a time: exactly up to the bound, and one beyond. */
static void
test_bounds (void)
{
  static const struct {
    const char *name, *other;
    uint64_t session;
    bool reads;
    enum shares_bound bound;
  } cases[] = {
    { "", "n1", 0, true, SHARES_ALL },
    { "n1", "n2", 0, false, SHARES_NAME },
    { "n1", "n1", 0, true, SHARES_READER },
    { "n1", "n2", 7, false, SHARES_SESSION },
  };

  for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct share s = share_of (cases[i].name, cases[i].session, cases[i].reads,
                               0);

    s.amount = shares.max[cases[i].bound];
    CHECK (shares_check (&shares, &s) == SHARES_FIT);
    s.amount++;
    CHECK (shares_check (&shares, &s) == cases[i].bound);
  }
}

/* Readers of many nodes have what readers may have; a writer finds the rest. */
static void
test_writers_find_room (void)
{
  struct share a = share_of ("n1", 1, true, 10),
               b = share_of ("n1", 2, true, 10),
               c = share_of ("n2", 3, true, 10),
               d = share_of ("n2", 4, true, 10),
               reader = share_of ("n3", 5, true, 1),
               writer = share_of ("n1", 6, false, 10);

  shares_add (&shares, &a);
  shares_add (&shares, &b);
  CHECK (shares_check (&shares, &c) == SHARES_FIT);
  shares_add (&shares, &c);
  shares_add (&shares, &d);
  CHECK (shares_check (&shares, &reader) == SHARES_READERS);
  CHECK (shares_check (&shares, &writer) == SHARES_FIT);
  writer.session = 1;
  CHECK (shares_check (&shares, &writer) == SHARES_SESSION);
  shares_remove (&a);
  CHECK (shares_check (&shares, &writer) == SHARES_FIT);
  CHECK (shares_check (&shares, &reader) == SHARES_FIT);
  shares_remove (&b);
  shares_remove (&c);
  shares_remove (&d);
}

static uint64_t
sum (enum shares_bound bound, const struct share *s)
{
  uint64_t n = 0;

  for (unsigned i = 0; i < HOLDERS; i++)
    n += in[i] && shares_count (bound, &holders[i], s) ? holders[i].amount : 0;
  return n;
}

/* No bound is ever exceeded, and a refused holder would have exceeded one. */
static void
test_walk (void)
{
  static const char *const names[] = { "", "n1", "n2", "10.0.0.1" };

  for (unsigned step = 0; step < 20000; step++) {
    unsigned i = (unsigned) test_random (HOLDERS);
    struct share *s = &holders[i];
    enum shares_bound full;

    if (in[i]) {
      shares_remove (s);
      in[i] = false;
      continue;
    }
    *s = share_of (names[test_random (4)], test_random (6), test_random (2),
                   test_random (12));
    full = shares_check (&shares, s);
    for (enum shares_bound b = SHARES_ALL; b <= SHARES_SESSION; b++) {
      bool over = shares_count (b, s, s) &&
                  sum (b, s) + s->amount > shares.max[b];

      CHECK (!over || full != SHARES_FIT);
      CHECK (b != full || over);
    }
    if (full == SHARES_FIT) {
      shares_add (&shares, s);
      in[i] = true;
    }
  }
}

int
main (void)
{
  test_random_start ();
  test_bounds ();
  test_writers_find_room ();
  test_walk ();
  return 0;
}
