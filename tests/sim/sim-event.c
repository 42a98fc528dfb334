/* sim-event.c: time, chance, and what is to happen when. */

#include <config.h>

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sim.h"

#define US UINT64_C (1000)

uint64_t sim_now;
bool sim_verbose;
static uint64_t seed_now, rng;
static void (*replay) (void);
static bool well;

/* A heap by time; at the same time, by order. */
struct entry {
  uint64_t at, order;
  void *what;
};
static struct entry *heap;
static size_t count, room;
static uint64_t orders;

/* Random numbers: splitmix64. */
void
sim_seed (uint64_t seed)
{
  seed_now = seed;
  rng = seed * 0x9e3779b97f4a7c15 + 1;
}

uint64_t
sim_random (void)
{
  uint64_t z = (rng += 0x9e3779b97f4a7c15);

  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

uint64_t
sim_below (uint64_t n)
{
  return sim_random () % n;
}

bool
sim_chance (unsigned percent)
{
  return sim_below (100) < percent;
}

void
sim_fail (const char *fmt, ...)
{
  va_list args;

  fflush (stdout);
  fprintf (stderr,
           "sim: seed %llu, at %llu us: ", (unsigned long long) seed_now,
           (unsigned long long) (sim_now / US));
  va_start (args, fmt);
  vfprintf (stderr, fmt, args);
  va_end (args);
  fprintf (stderr, "\n");
  exit (1);
}

static void
ended (void)
{
  if (!well)
    replay ();
}

/* An engine's assert has failed. */
static void
aborted (int signal)
{
  replay ();
  fflush (stdout);
  _exit (1);
}

void
sim_begin (void (*how_to_replay) (void))
{
  replay = how_to_replay;
  atexit (ended);
  signal (SIGABRT, aborted);
  signal (SIGSEGV, aborted);
}

void
sim_well (void)
{
  well = true;
}

void
sim_trace (const char *fmt, ...)
{
  va_list args;

  if (!sim_verbose)
    return;
  printf ("%9llu ", (unsigned long long) (sim_now / US));
  va_start (args, fmt);
  vprintf (fmt, args);
  va_end (args);
  putchar ('\n');
}

static bool
earlier (const struct entry *a, const struct entry *b)
{
  return a->at < b->at || (a->at == b->at && a->order < b->order);
}

void
sim_push (uint64_t at, void *what)
{
  struct entry e = { .at = at, .order = orders++, .what = what };
  size_t i;

  if (count == room) {
    room = 2 * room + 64;
    heap = realloc (heap, room * sizeof *heap);
    if (!heap)
      abort ();
  }
  for (i = count++; i > 0 && earlier (&e, &heap[(i - 1) / 2]); i = (i - 1) / 2)
    heap[i] = heap[(i - 1) / 2];
  heap[i] = e;
}

uint64_t
sim_next (void)
{
  return count > 0 ? heap[0].at : UINT64_MAX;
}

void *
sim_pop (void)
{
  struct entry first, last;
  size_t i = 0, child;

  if (count == 0)
    return NULL;
  first = heap[0];
  last = heap[--count];
  while ((child = 2 * i + 1) < count) {
    if (child + 1 < count && earlier (&heap[child + 1], &heap[child]))
      child++;
    if (!earlier (&heap[child], &last))
      break;
    heap[i] = heap[child];
    i = child;
  }
  heap[i] = last;
  sim_now = first.at;
  return first.what;
}
