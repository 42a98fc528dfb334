/* test-silence.c: how long may a member keep silent?  The comparison of Redbud's
 * Figure 10 for members of an array: ways to decide that, against loads that change.
 *
 *   test-silence                 Weft's way does what docs/measurements/2026-11-28-silence.md says
 *   test-silence RUNS [LOAD]     the tables, for loads with LOAD in their name
 *
 * There is one member, and clients that ask it for four things at a time.  How long
 * it takes follows the load, half as long to half as long again.  It is asked for a
 * sign of life as the way in question says.  The sign either needs no disk, and
 * comes at once, or it waits in the same queue as everything else (a network, or
 * a host without a processor to spare).
 *
 *   false alarms  runs, in percent, in which it is given up though it lives
 *   asked         how often it is asked for a sign of life, on average of a run
 *   pause         from its last answer to its loss, when it hangs for good
 *
 * Weft's way is the array engine itself; the others are its rule (array-overdue.c)
 * with other figures in it.
 */

#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/array.h"
#include "base/spares.h"
#include "base/bytes.h"
#include "base/timeout.h"
#include "member/pulse.h"
#include "test-random.h"

#define MS UINT64_C (1000000)
#define S (1000 * MS)
#define NEVER UINT64_MAX
#define CLIENTS 4
#define UNIT KiB (64)
#define MEMBERS 4
/* For so long each run is calm; that fills what is remembered of a member. */
#define CALM (60 * S)
#define LONGEST_MS 15000

static uint64_t now; /* in ns */

/* ---- Loads ---- */

struct load {
  const char *name;
  uint64_t calm_ms, peak_ms; /* how long requests take */
  uint64_t rise_ms;          /* so long it takes from one to the other */
  uint64_t still_ms;         /* instead: everything is frozen for so long ... */
  uint64_t every_ms;         /* ... so often */
  bool strange;              /* there was no calm */
};

static const struct load loads[] = {
  { "50 ms to 3 s in 200 s", 50, 3000, 200000, 0, 0, false },
  { "in 60 s", 50, 3000, 60000, 0, 0, false },
  { "in 20 s", 50, 3000, 20000, 0, 0, false },
  { "in 10 s", 50, 3000, 10000, 0, 0, false },
  { "in 5 s", 50, 3000, 5000, 0, 0, false },
  { "in 2 s", 50, 3000, 2000, 0, 0, false },
  { "1 s from the start", 1000, 1000, 1, 0, 0, true },
  { "halts of 0.8 s", 10, 10, 1, 800, 15000, false },
  { "halts of 1.2 s", 10, 10, 1, 1200, 15000, false },
  { "halts of 2 s", 10, 10, 1, 2000, 15000, false },
};
static const struct load quick = { "10 ms", 10, 10, 1, 0, 0, false };
#define LOADS (sizeof loads / sizeof loads[0])
#define PEAK (30 * S) /* how long the peak lasts */

/* When is what is asked now answered? */
static uint64_t
answer_time (const struct load *l)
{
  uint64_t begin = l->strange ? 0 : CALM, us = l->calm_ms * 1000, at;

  if (now > begin && l->peak_ms != l->calm_ms) {
    uint64_t ms = (now - begin) / MS;

    us += ms >= l->rise_ms ? (l->peak_ms - l->calm_ms) * 1000
                           : (l->peak_ms - l->calm_ms) * 1000 * ms / l->rise_ms;
  }
  at = now + (us / 2 + test_random (us + 1)) * 1000;
  if (l->still_ms && at >= CALM) {
    uint64_t period = l->every_ms * MS, halt = (at - CALM) / period * period;

    if (at - CALM - halt < l->still_ms * MS)
      at = CALM + halt + l->still_ms * MS + test_random (MS);
  }
  return at;
}

/* ---- Ways ---- */

/* The expected time now, from recent observations. */
static uint64_t
expect_max (const struct timeout *t, uint64_t now_ns)
{
  uint64_t most = 0, mean;

  if (now_ns / TIMEOUT_WINDOW_NS >= t->window + TIMEOUT_WINDOWS)
    return 0;
  for (unsigned i = 0; i < TIMEOUT_WINDOWS; i++) {
    mean = t->of[i].count ? t->of[i].sum_ns / t->of[i].count : 0;
    most = mean > most ? mean : most;
  }
  return most;
}

struct way {
  const char *name;
  uint64_t (*expect) (const struct timeout *t,
                      uint64_t now_ns); /* NULL: nothing */
  unsigned margin;
  unsigned least_ms;    /* it is asked no earlier */
  unsigned stranger_ms; /* if hardly anything is known of it */
  unsigned sign_ms;     /* so long it has then; 0: it is given up unasked */
  bool engine;          /* the array engine decides, and none of these */
};

static const struct way ways[] = {
  { "static, 30 s", NULL, 0, 30000, 30000, 0, false },
  { "static, 2.75 s", NULL, 0, 2750, 2750, 0, false },
  { "static, 1.35 s", NULL, 0, 1350, 1350, 0, false },
  { "MAX", expect_max, 1, 500, 2000, 0, false },
  { "LCF", timeout_predict, 1, 500, 2000, 0, false },
  { "static, 0.5 s, asked", NULL, 0, 500, 500, 850, false },
  { "MAX, asked", expect_max, 1, 500, 2000, 850, false },
  { "LCF, asked", timeout_predict, 1, 500, 2000, 850, false },
  { "LCF, 8 times, asked after 2 s", timeout_predict, 8, 2000, 2000, 750,
    false },
  { "Weft: LCF, 8 times, asked after 0.5 s", NULL, 0, 0, 0, 0, true },
};
#define WAYS (sizeof ways / sizeof ways[0])

/* ---- A run ---- */

struct world {
  const struct load *load;
  const struct way *way;
  bool shares;      /* a sign of life waits in the queue */
  uint64_t hang_ns; /* nothing that is asked from then on is answered */
  uint64_t end_ns;

  uint64_t asked; /* for a sign of life */
  bool lost;
  uint64_t lost_ns, answered_ns;
  /* When the disk has answered last, and when its process asked it by itself (pulse.h)
   * and has its answer.
   */
  uint64_t disk_ns, pulse_ns, pulse_end_ns;

  /* The engine's. */
  struct array *array;
  struct array_client *client;
  struct array_request requests[CLIENTS];
  uint8_t buf[4096];

  /* The rule's. */
  struct timeout service;
  uint64_t answers, quiet_ns, asked_ns; /* asked_ns: 0: it is not */
};
static struct world w;

/* A request to the member, and its answer. */
struct event {
  struct event *next;
  struct array_io *io; /* of the engine */
  bool sign;           /* of life, or about the disk */
  uint64_t sent_ns, at_ns;
};
static struct event *events; /* the next one first */

static void
event_push (struct event *e)
{
  struct event **at = &events;

  while (*at && (*at)->at_ns <= e->at_ns)
    at = &(*at)->next;
  e->next = *at;
  *at = e;
}

static uint64_t
event_next (void)
{
  return events ? events->at_ns : NEVER;
}

/* Its time has come. */
static struct event *
event_pop (void)
{
  struct event *e = events;

  if (e) {
    events = e->next;
    now = e->at_ns;
  }
  return e;
}

static void
ask (struct array_io *io, bool sign)
{
  uint64_t at = sign && !w.shares ? now + MS : answer_time (w.load);
  struct event *e = alloc_zeroed (sizeof *e);

  /* Requests to a hanging member are only given back. */
  *e = (struct event) { .io = io,
                        .sign = sign,
                        .sent_ns = now,
                        .at_ns = at < w.hang_ns ? at : w.end_ns };
  w.asked += sign && !(io && io->kind == IO_PULSE);
  event_push (e);
}

/* As the member's process says. */
static uint64_t
disk_stuck_ms (void)
{
  uint64_t really = now, since;

  while (w.pulse_end_ns + PULSE_MS * MS <= really) {
    w.pulse_ns = now = w.pulse_end_ns + PULSE_MS * MS;
    w.pulse_end_ns = answer_time (w.load);
    if (w.pulse_end_ns >= w.hang_ns)
      w.pulse_end_ns = NEVER / 2;
  }
  now = really;
  since = w.pulse_ns > w.disk_ns ? w.pulse_ns : w.disk_ns;
  return w.pulse_end_ns > now ? (now - since) / MS : 0;
}

static uint64_t
rule_allowed (void)
{
  const struct way *way = w.way;
  uint64_t ns = way->expect ? way->expect (&w.service, now) * way->margin : 0;
  uint64_t least = (w.answers < 16 ? way->stranger_ms : way->least_ms) * MS;

  if (way->expect && ns > LONGEST_MS * MS)
    return LONGEST_MS * MS;
  return ns > least ? ns : least;
}

static uint64_t
rule_deadline (void)
{
  return w.asked_ns ? w.asked_ns + w.way->sign_ms * MS
                    : w.quiet_ns + rule_allowed ();
}

static void
rule_tick (void)
{
  if (w.asked_ns || w.way->sign_ms == 0) {
    w.lost = true;
    return;
  }
  w.asked_ns = now;
  ask (NULL, true);
}

static void
rule_answered (const struct event *e)
{
  w.quiet_ns = now;
  w.asked_ns = 0;
  if (e->sign)
    return;
  timeout_note (&w.service, now, now - e->sent_ns);
  w.answers++;
  ask (NULL, false);
}

static void
engine_take (void)
{
  struct array_request *r;
  struct array_notice n;
  struct array_io *io;
  bool again;

  do {
    again = false;
    while ((io = array_next_io (w.array)))
      ask (io, io->kind != IO_READ);
    while (array_next_notice (w.array, &n))
      w.lost |= n.kind == NOTICE_LOST;
    while ((r = array_next_done (w.array)))
      if (!w.lost && r->error == 0) {
        array_submit (w.array, r, now);
        again = true;
      }
  } while (again);
}

static void
engine_begin (void)
{
  struct array_config config = { .dup = DUP_ASYNC_CLIENT,
                                 .batches = true,
                                 .pulses = true,
                                 .epoch = 1,
                                 .image_buffer_bytes = MiB (1),
                                 .image_age_ms = 200,
                                 .io_timeout_ms = LONGEST_MS };
  char why[200];

  CHECK (layout_init (&config.layout, LAYOUT_RAIDX, MEMBERS, 1, UNIT,
                      4 * CLIENTS * UNIT, why, sizeof why) == 0);
  w.array = array_new (&config, now, why, sizeof why);
  CHECK (w.array);
  w.client = array_client_open (w.array);
  for (unsigned i = 0; i < CLIENTS; i++) {
    w.requests[i] = (struct array_request) { .op = ARRAY_READ,
                                             .client = w.client,
                                             .offset = i * MEMBERS * UNIT,
                                             .length = sizeof w.buf,
                                             .buf = w.buf };
    array_submit (w.array, &w.requests[i], now);
  }
  engine_take ();
}

static void
engine_end (void)
{
  struct event *e;

  array_stop (w.array, ESHUTDOWN, now);
  engine_take ();
  while ((e = event_pop ())) {
    array_io_done (w.array, e->io, ENOTCONN, now);
    engine_take ();
    free (e);
  }
  array_free (w.array);
}

static void
run (const struct load *load, const struct way *way, bool shares, bool hangs,
     uint64_t seed)
{
  uint64_t begin = load->strange ? 0 : CALM, deadline;
  struct event *e;

  test_seed = test_state = seed;
  now = 0;
  memset (&w, 0, sizeof w);
  w.load = load;
  w.way = way;
  w.shares = shares;
  w.hang_ns = NEVER;
  w.end_ns = begin + load->rise_ms * MS + PEAK + 2 * load->every_ms * MS;
  if (hangs) {
    w.hang_ns = w.end_ns;
    w.end_ns += 200 * S;
  }
  if (way->engine)
    engine_begin ();
  else
    for (unsigned i = 0; i < CLIENTS; i++)
      ask (NULL, false);
  while (!w.lost) {
    deadline = way->engine ? array_deadline (w.array) : rule_deadline ();
    if (event_next () >= w.end_ns && deadline >= w.end_ns)
      break;
    if (event_next () <= deadline) {
      e = event_pop ();
      w.answered_ns = now;
      if (e->io && e->io->kind == IO_PULSE)
        put_le64 (e->io->buf, disk_stuck_ms ());
      else if (!e->sign)
        w.disk_ns = now;
      if (way->engine)
        array_io_done (w.array, e->io, 0, now);
      else
        rule_answered (e);
      free (e);
    }
    else {
      now = deadline;
      if (way->engine)
        array_tick (w.array, now);
      else
        rule_tick ();
    }
    if (way->engine)
      engine_take ();
  }
  w.lost_ns = now;
  if (way->engine)
    engine_end ();
  while ((e = event_pop ()))
    free (e);
}

/* ---- The table ---- */

struct figures {
  double alarms; /* percent of the runs have one */
  double asked;  /* of a run */
};

static unsigned runs = 100;

static struct figures
sweep (const struct load *load, const struct way *way, bool shares)
{
  struct figures f = { 0 };
  /* A halt needs many requests, and is as good as any other. */
  unsigned seeds = load->still_ms ? (runs + 9) / 10 : runs;

  for (unsigned seed = 1; seed <= seeds; seed++) {
    run (load, way, shares, false, seed);
    f.alarms += w.lost ? 100.0 / seeds : 0;
    f.asked += (double) w.asked / seeds;
  }
  return f;
}

/* The longest of some runs, in seconds. */
static double
pause (const struct load *load, const struct way *way)
{
  uint64_t most = 0;

  for (unsigned seed = 1; seed <= 10; seed++) {
    run (load, way, false, true, seed);
    CHECK (w.lost);
    if (w.lost_ns - w.answered_ns > most)
      most = w.lost_ns - w.answered_ns;
  }
  return (double) most / (double) S;
}

static const char *only = ""; /* loads that have this in their name */

static bool
wanted (unsigned load)
{
  return strstr (loads[load].name, only) != NULL;
}

static void
heads (const char *first)
{
  printf ("| %s |", first);
  for (unsigned i = 0; i < LOADS; i++)
    if (wanted (i))
      printf (" %s |", loads[i].name);
  printf ("\n|---|");
  for (unsigned i = 0; i < LOADS; i++)
    if (wanted (i))
      printf ("---:|");
  printf ("\n");
}

static void
table (bool shares)
{
  heads (shares ? "a sign of life waits in the queue"
                : "a sign of life needs no disk");
  for (unsigned i = 0; i < WAYS; i++) {
    if (shares && ways[i].sign_ms == 0 && !ways[i].engine)
      continue; /* no sign is asked for: it is as above */
    printf ("| %s |", ways[i].name);
    for (unsigned k = 0; k < LOADS; k++) {
      struct figures f;

      if (!wanted (k))
        continue;
      f = sweep (&loads[k], &ways[i], shares);
      printf (" %.3g (%.1f) |", f.alarms, f.asked);
    }
    printf ("\n");
    fflush (stdout);
  }
  printf ("\n");
}

/* The promise: under any load, no live member is given up, unless its whole host is
 * silent for longer than the pause of a hanging member.
 */
static void
check (void)
{
  const struct way *weft = &ways[WAYS - 1];
  double least = pause (&quick, weft);

  runs = 40;
  CHECK (least > 1.3 && least < 1.4);
  for (unsigned i = 0; i < LOADS; i++) {
    bool too_long = loads[i].still_ms > least * 1000;

    for (unsigned shares = 0; shares < 2; shares++) {
      struct figures f = sweep (&loads[i], weft, shares);

      if (f.alarms != (shares && too_long ? 100 : 0))
        fprintf (stderr, "%s: %g percent false alarms\n", loads[i].name,
                 f.alarms);
      CHECK (f.alarms == (shares && too_long ? 100 : 0));
    }
  }
  CHECK (sweep (&loads[0], weft, true).asked < 0.5);
}

int
main (int argc, char *argv[])
{
  if (argc == 1) {
    check ();
    return 0;
  }
  runs = atoi (argv[1]);
  only = argc > 2 ? argv[2] : "";
  printf (
    "| the member hangs: pause in s | requests take 10 ms | they take 3 s "
    "|\n|---|---:|---:|\n");
  for (unsigned i = 0; i < WAYS; i++)
    printf ("| %s | %.2f | %.2f |\n", ways[i].name, pause (&quick, &ways[i]),
            pause (&loads[1], &ways[i]));
  printf ("\n");
  table (false);
  table (true);
  return 0;
}
