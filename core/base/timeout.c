/* timeout.c: see timeout.h. */

#include <config.h>

#include <string.h>

#include "timeout.h"

void
timeout_note (struct timeout *t, uint64_t now_ns, uint64_t service_ns)
{
  uint64_t w = now_ns / TIMEOUT_WINDOW_NS;

  if (w > t->window + TIMEOUT_WINDOWS)
    memset (t->of, 0, sizeof t->of);
  else
    for (uint64_t old = t->window + 1; old <= w; old++)
      memset (&t->of[old % TIMEOUT_WINDOWS], 0, sizeof t->of[0]);
  if (w > t->window)
    t->window = w;
  t->of[t->window % TIMEOUT_WINDOWS].sum_ns += service_ns;
  t->of[t->window % TIMEOUT_WINDOWS].count++;
}

/* The window `age` windows ago; NULL: nothing was answered then. */
static const struct timeout_window *
window_of (const struct timeout *t, uint64_t now_ns, unsigned age)
{
  uint64_t now = now_ns / TIMEOUT_WINDOW_NS, w = now - age;
  const struct timeout_window *of = &t->of[w % TIMEOUT_WINDOWS];

  if (age > now || w > t->window || t->window - w >= TIMEOUT_WINDOWS)
    return NULL;
  return of->count > 0 ? of : NULL;
}

uint64_t
timeout_answers (const struct timeout *t, uint64_t now_ns)
{
  uint64_t count = 0;

  for (unsigned age = 0; age < TIMEOUT_WINDOWS; age++) {
    const struct timeout_window *w = window_of (t, now_ns, age);

    count += w ? w->count : 0;
  }
  return count;
}

uint64_t
timeout_predict (const struct timeout *t, uint64_t now_ns)
{
  double n = 0, sum_t = 0, sum_v = 0, sum_tt = 0, sum_tv = 0, newest = 0;
  double slope = 0, spread, at;

  for (unsigned age = TIMEOUT_WINDOWS; age-- > 0;) {
    const struct timeout_window *w = window_of (t, now_ns, age);
    /* A window's mean stands for its middle; t is in windows, 0 is now. */
    double middle = -(double) age + 0.5 -
                    (double) (now_ns % TIMEOUT_WINDOW_NS) /
                      (double) TIMEOUT_WINDOW_NS;

    if (!w)
      continue;
    newest = (double) w->sum_ns / (double) w->count;
    n++;
    sum_t += middle;
    sum_v += newest;
    sum_tt += middle * middle;
    sum_tv += middle * newest;
  }
  if (n == 0)
    return 0;
  spread = sum_tt - sum_t * sum_t / n;
  if (n > 1)
    slope = (sum_tv - sum_t * sum_v / n) / spread;
  at = sum_v / n - slope * sum_t / n;
  return (uint64_t) (at > newest ? at : newest);
}

uint64_t
timeout_allowed (const struct timeout *t, uint64_t now_ns, uint64_t least_ns,
                 uint64_t most_ns)
{
  uint64_t ns = timeout_predict (t, now_ns);

  if (ns >= most_ns / TIMEOUT_MARGIN)
    return most_ns;
  ns *= TIMEOUT_MARGIN;
  return ns < least_ns ? least_ns : ns;
}

uint64_t
timeout_recent (const struct timeout *t, uint64_t now_ns, uint64_t *count)
{
  uint64_t sum_ns = 0;

  *count = 0;
  for (unsigned age = 0; age < 2; age++) {
    const struct timeout_window *w = window_of (t, now_ns, age);

    if (w) {
      sum_ns += w->sum_ns;
      *count += w->count;
    }
  }
  return *count ? sum_ns / *count : 0;
}
