/* sim.c: one run of the array engine in a world that a seed decides.
 *
 *   sim --seed N        one run; `-v` tells what happens
 *   sim --seeds A-B     many
 *   sim --fresh N       N runs from a seed that the clock gives
 *
 * What may go wrong, as often as the seed says: answers take their time and
 * overtake each other; a request to a member is carried out long before it is
 * answered; a member's connection breaks before, between or after its answers,
 * and what was sent on it is carried out later all the same, until weftd has
 * fenced the member; a member falls silent; a member answers with an error; a
 * place can't be read; weftd takes its time to record a loss, and its answers
 * overtake each other; a second member is lost before the first is recorded;
 * the client's requests overlap; the image buffer is small; the array is
 * stopped.
 */

#include <config.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim.h"

#define MS UINT64_C (1000000)
#define US UINT64_C (1000)
#define OUTSTANDING_MAX 24

enum event_kind {
  EVENT_CLIENT,  /* the clients do something */
  EVENT_EXECUTE, /* a member carries out a request */
  EVENT_ANSWER,  /* and answers it */
  EVENT_STRAY,   /* carries out one that was answered with an error */
  EVENT_FAULT,
  EVENT_BREAK,   /* the engine is told that a connection is broken */
  EVENT_RECORD,  /* weftd records that a member is out */
  EVENT_COMMIT,  /* and the engine hears of it */
};

struct flight {
  struct array_io *io;
  struct flight *next;
  bool executed, silent, answered;
  unsigned events; /* that point to it */
  int error;
};

struct event {
  uint64_t at, order;
  enum event_kind kind;
  struct flight *flight;
  unsigned member;
  struct array_io stray;
  void *buf;
  uint64_t epoch;
  enum member_state states[ARRAY_MEMBERS_MAX];
};

enum trouble { FINE, BROKEN, SILENT, FAILING };

static struct world {
  uint64_t now, orders, deadline_last;
  struct event **events; /* a heap */
  size_t events_count, events_room;
  struct array_config config;
  struct array *array;
  struct sim_member members[ARRAY_MEMBERS_MAX];
  enum trouble trouble[ARRAY_MEMBERS_MAX];
  bool noticed[ARRAY_MEMBERS_MAX], recorded[ARRAY_MEMBERS_MAX],
    heard[ARRAY_MEMBERS_MAX];
  uint64_t epoch;
  struct flight *flights;
  struct array_request requests[OUTSTANDING_MAX];
  struct judged *judged[OUTSTANDING_MAX];
  unsigned outstanding, outstanding_max;
  unsigned steps, faults, bad_percent;
  uint64_t slow_percent;
  bool may_fail, stopped, may_lose;
  unsigned inputs, requests_done, losses, bads, errors;
  uint64_t bytes_peak;
} w;

static uint64_t seed_now, rng[2];
static bool verbose;

/* Random numbers: splitmix64. */
void
sim_seed (uint64_t seed)
{
  seed_now = seed;
  rng[0] = seed * 0x9e3779b97f4a7c15 + 1;
}

uint64_t
sim_random (void)
{
  uint64_t z = (rng[0] += 0x9e3779b97f4a7c15);

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
  fprintf (stderr, "sim: seed %llu, at %llu us: ",
           (unsigned long long) seed_now, (unsigned long long) (w.now / US));
  va_start (args, fmt);
  vfprintf (stderr, fmt, args);
  va_end (args);
  fprintf (stderr, "\nsim: replay with: sim -v --seed %llu\n",
           (unsigned long long) seed_now);
  exit (1);
}

void
sim_trace (const char *fmt, ...)
{
  va_list args;

  if (!verbose)
    return;
  printf ("%9llu ", (unsigned long long) (w.now / US));
  va_start (args, fmt);
  vprintf (fmt, args);
  va_end (args);
  putchar ('\n');
}

/* Events. */

static bool
earlier (const struct event *a, const struct event *b)
{
  return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static struct event *
event_new (enum event_kind kind, uint64_t delay)
{
  struct event *e = calloc (1, sizeof *e);
  size_t i;

  e->kind = kind;
  e->at = w.now + delay;
  e->order = w.orders++;
  if (w.events_count == w.events_room) {
    w.events_room = 2 * w.events_room + 64;
    w.events = realloc (w.events, w.events_room * sizeof *w.events);
  }
  for (i = w.events_count++; i > 0 && earlier (e, w.events[(i - 1) / 2]);
       i = (i - 1) / 2)
    w.events[i] = w.events[(i - 1) / 2];
  w.events[i] = e;
  return e;
}

static struct event *
event_next (void)
{
  struct event *first = w.events[0], *last = w.events[--w.events_count];
  size_t i = 0, child;

  while ((child = 2 * i + 1) < w.events_count) {
    if (child + 1 < w.events_count &&
        earlier (w.events[child + 1], w.events[child]))
      child++;
    if (!earlier (w.events[child], last))
      break;
    w.events[i] = w.events[child];
    i = child;
  }
  w.events[i] = last;
  return first;
}

static void
flight_event (struct flight *f, enum event_kind kind, uint64_t after)
{
  event_new (kind, after)->flight = f;
  f->events++;
}

static uint64_t
delay (void)
{
  if (sim_chance (w.slow_percent))
    return sim_below (30 * MS);
  return 5 * US + sim_below (400 * US);
}

/* What the engine wants. */

static const char *const io_names[] = { "read",  "write",   "zero", "trim",
                                        "flush", "extents", "batch" };

static void
take_io (struct array_io *io)
{
  struct flight *f = calloc (1, sizeof *f);
  enum trouble trouble = w.trouble[io->member];

  if (w.noticed[io->member])
    sim_fail ("member %u is lost but is asked to %s", io->member,
              io_names[io->kind]);
  sim_trace ("member %u: %s %llu+%llu%s", io->member, io_names[io->kind],
             (unsigned long long) io->offset, (unsigned long long) io->length,
             io->flags & ARRAY_FUA ? " fua" : "");
  f->io = io;
  io->owner = f;
  f->next = w.flights;
  w.flights = f;
  if (trouble == SILENT)
    f->silent = true;
  else if (trouble == BROKEN) {
    f->executed = true;
    f->error = ENOTCONN;
    flight_event (f, EVENT_ANSWER, delay ());
  }
  else
    flight_event (f, EVENT_EXECUTE, delay ());
}

/* Everything that is in flight to a member comes back with an error; some of
 * it was or will be carried out.
 */
static void
break_flights (unsigned member)
{
  for (struct flight *f = w.flights; f; f = f->next) {
    if (f->io->member != member || (f->executed && !f->silent))
      continue;
    if (!f->executed && sim_chance (60) && f->io->kind != IO_READ &&
        f->io->kind != IO_EXTENTS && f->io->kind != IO_FLUSH) {
      struct event *e = event_new (EVENT_STRAY, sim_below (50 * MS));

      e->member = member;
      e->stray = *f->io;
      if (f->io->buf) {
        e->buf = malloc (f->io->length);
        memcpy (e->buf, f->io->buf, f->io->length);
      }
    }
    f->executed = true;
    f->silent = false;
    f->error = sim_chance (50) ? ENOTCONN : ESHUTDOWN;
    flight_event (f, EVENT_ANSWER, delay ());
  }
}

static void
take_notice (const struct array_notice *n)
{
  sim_trace ("notice %d of member %u: %s", n->kind, n->member, n->reason);
  if (strlen (n->reason) < 10)
    sim_fail ("a notice without a reason");
  if (n->kind == NOTICE_DATA_LOST) {
    if (!w.may_fail)
      sim_fail ("data is lost: %s", n->reason);
    return;
  }
  if (w.noticed[n->member])
    sim_fail ("member %u is lost twice", n->member);
  if (w.trouble[n->member] == FINE)
    sim_fail ("member %u is said to be lost: %s", n->member, n->reason);
  w.noticed[n->member] = true;
  w.trouble[n->member] = BROKEN;
  break_flights (n->member);
  event_new (EVENT_RECORD, delay () + sim_below (20 * MS))->member = n->member;
}

static void
take_done (struct array_request *r)
{
  unsigned i = r - w.requests;

  sim_trace ("done %u: op %d %llu+%llu: %s", i, r->op,
             (unsigned long long) r->offset, (unsigned long long) r->length,
             r->error ? strerror (r->error) : "ok");
  if (!w.judged[i])
    sim_fail ("a request is done twice");
  if (r->error && r->error != EIO && !w.stopped)
    sim_fail ("a client sees the error %s", strerror (r->error));
  if (r->error)
    w.errors++;
  judge_done (w.judged[i], r, w.may_fail || w.stopped);
  w.judged[i] = NULL;
  free (r->buf);
  free (r->extents);
  memset (r, 0, sizeof *r);
  w.outstanding--;
  w.requests_done++;
}

/* After every input. */
static void
take_outputs (void)
{
  struct array_io *io;
  struct array_request *r;
  struct array_notice n;
  struct array_stats stats;

  array_check (w.array);
  while ((io = array_next_io (w.array)))
    take_io (io);
  while ((r = array_next_done (w.array)))
    take_done (r);
  while (array_next_notice (w.array, &n))
    take_notice (&n);
  array_check (w.array);
  array_stats (w.array, w.now, &stats);
  if (stats.image_bytes > w.bytes_peak)
    w.bytes_peak = stats.image_bytes;
  if (stats.image_bytes > w.config.image_buffer_bytes + BATCH_BYTES_MAX)
    sim_fail ("the image buffer takes %llu bytes",
              (unsigned long long) stats.image_bytes);
  w.inputs++;
}

/* The clients. */

static uint64_t
random_length (uint64_t most)
{
  uint64_t n;

  switch (sim_below (6)) {
  case 0:
    n = sim_below (most) + 1;
    break;
  case 1:
    n = sim_below (64) + 1;
    break;
  case 2:
    n = w.config.layout.unit / grain_bytes;
    break;
  default:
    n = sim_below (8) + 1;
    break;
  }
  return n < most ? n : most;
}

static void
choose_request (struct array_request *r)
{
  static const enum array_op ops[] = {
    ARRAY_READ,  ARRAY_READ,  ARRAY_READ,  ARRAY_WRITE,   ARRAY_WRITE,
    ARRAY_WRITE, ARRAY_WRITE, ARRAY_WRITE, ARRAY_ZERO,    ARRAY_TRIM,
    ARRAY_FLUSH, ARRAY_WRITE, ARRAY_READ,  ARRAY_EXTENTS,
  };
  uint64_t grains = w.config.layout.size / grain_bytes, first, count;
  uint64_t hot = grains < 64 ? grains : 64;

  r->op = ops[sim_below (sizeof ops / sizeof ops[0])];
  if (r->op == ARRAY_FLUSH)
    return;
  first = sim_chance (50) ? sim_below (hot) : sim_below (grains);
  count = random_length (grains - first);
  r->offset = first * grain_bytes;
  r->length = count * grain_bytes;
  if (r->op != ARRAY_READ && r->op != ARRAY_EXTENTS && sim_chance (15))
    r->flags |= ARRAY_FUA;
  if (r->op == ARRAY_ZERO && sim_chance (50))
    r->flags |= ARRAY_MAY_TRIM;
  if (r->op == ARRAY_READ || r->op == ARRAY_WRITE)
    r->buf = malloc (r->length);
  if (r->op == ARRAY_READ)
    memset (r->buf, 0xee, r->length);
}

static void
submit (void)
{
  unsigned i = 0;
  struct array_request *r;

  while (w.judged[i])
    i++;
  r = &w.requests[i];
  choose_request (r);
  sim_trace ("submit %u: op %d %llu+%llu flags %u", i, r->op,
             (unsigned long long) r->offset, (unsigned long long) r->length,
             r->flags);
  w.judged[i] = judge_submitted (r);
  w.outstanding++;
  array_submit (w.array, r, w.now);
  take_outputs ();
}

static void
clients (void)
{
  unsigned burst = 1 + sim_below (4);

  while (burst-- > 0 && w.outstanding < w.outstanding_max && w.steps > 0) {
    w.steps--;
    submit ();
  }
  if (w.steps > 0)
    event_new (EVENT_CLIENT, sim_chance (10) ? sim_below (20 * MS) : delay ());
}

/* Faults. */

static bool
survivable (unsigned member)
{
  bool lost[ARRAY_MEMBERS_MAX] = { false };

  for (unsigned i = 0; i < w.config.layout.members; i++)
    lost[i] = i == member || w.trouble[i] != FINE;
  return layout_loss (&w.config.layout, lost, NULL) == 0;
}

static void
lose (unsigned member)
{
  if (!survivable (member)) {
    if (!w.may_lose)
      return;
    w.may_fail = true;
  }
  if (w.bads > 0)
    w.may_fail = true; /* the other copy may have a bad spot */
  w.losses++;
  switch (sim_below (4)) {
  case 0:
    sim_trace ("fault: member %u breaks", member);
    w.trouble[member] = BROKEN;
    break_flights (member);
    event_new (EVENT_BREAK, 0)->member = member;
    break;
  case 1:
    sim_trace ("fault: member %u breaks, its answers come first", member);
    w.trouble[member] = BROKEN;
    break_flights (member);
    event_new (EVENT_BREAK, sim_below (5 * MS))->member = member;
    break;
  case 2:
    sim_trace ("fault: member %u falls silent", member);
    w.trouble[member] = SILENT;
    for (struct flight *f = w.flights; f; f = f->next)
      if (f->io->member == member && sim_chance (70) && !f->error)
        f->silent = true; /* carried out, perhaps, but not answered */
    break;
  case 3:
    sim_trace ("fault: member %u fails", member);
    w.trouble[member] = FAILING;
    break;
  }
}

/* Is anything bad in the block of 4 KiB around? */
static bool
block_bad (unsigned member, uint64_t offset)
{
  uint64_t first = offset / 4096 * 4096 / grain_bytes;

  for (uint64_t g = first; g < first + 4096 / grain_bytes; g++)
    if (w.members[member].bad[g])
      return true;
  return false;
}

/* A spot goes bad only where another copy is good. */
static void
spoil (void)
{
  const struct layout *l = &w.config.layout;
  uint64_t g = sim_below (l->size / grain_bytes);
  struct layout_piece p;
  struct layout_copy c;

  layout_map (l, g * grain_bytes, grain_bytes, &p);
  if (p.copies < 2)
    return;
  for (unsigned i = 0; i < p.copies; i++)
    if (w.trouble[p.copy[i].member] != FINE ||
        block_bad (p.copy[i].member, p.copy[i].offset))
      return;
  c = p.copy[sim_below (p.copies)];
  sim_trace ("fault: member %u can't read %llu", c.member,
             (unsigned long long) c.offset);
  w.members[c.member].bad[c.offset / grain_bytes] = true;
  w.bads++;
  if (w.losses > 0)
    w.may_fail = true;
}

static void
fault (void)
{
  unsigned member = sim_below (w.config.layout.members);

  if (sim_chance (w.bad_percent))
    spoil ();
  else if (w.faults > 0 && w.trouble[member] == FINE) {
    w.faults--;
    lose (member);
  }
  if (w.steps > 0)
    event_new (EVENT_FAULT, sim_below (sim_chance (30) ? MS : 60 * MS));
}

/* Members. */

static void
execute (struct flight *f)
{
  struct array_io *io = f->io;
  enum trouble trouble = w.trouble[io->member];

  if (f->executed)
    return;
  f->executed = true;
  if (trouble == FAILING && io->kind != IO_READ && io->kind != IO_EXTENTS) {
    if (sim_chance (50))
      sim_member_execute (&w.members[io->member], io, io->buf);
    f->error = sim_chance (50) ? EIO : ENOSPC;
  }
  else
    f->error = sim_member_execute (&w.members[io->member], io, io->buf);
  if (!f->silent)
    flight_event (f, EVENT_ANSWER, delay ());
}

static void
answer (struct flight *f)
{
  struct flight **at = &w.flights;
  struct array_io *io = f->io;

  if (f->silent || f->answered)
    return;
  f->answered = true;
  while (*at != f)
    at = &(*at)->next;
  *at = f->next;
  sim_trace ("member %u: %s %llu+%llu is answered: %s", io->member,
             io_names[io->kind], (unsigned long long) io->offset,
             (unsigned long long) io->length,
             f->error ? strerror (f->error) : "ok");
  if (io->kind == IO_EXTENTS && f->error) {
    free (io->extents);
    io->extents = NULL;
    io->extents_count = 0;
  }
  array_io_done (w.array, io, f->error, w.now);
  take_outputs ();
}

/* weftd. */

static void
record (unsigned member)
{
  struct event *e;

  sim_trace ("weftd records member %u as out", member);
  w.recorded[member] = true;
  w.epoch++;
  e = event_new (EVENT_COMMIT, sim_below (20 * MS));
  e->epoch = w.epoch;
  for (unsigned i = 0; i < w.config.layout.members; i++)
    e->states[i] = w.recorded[i] ? MEMBER_OUT : MEMBER_IN_SYNC;
}

static void
handle (struct event *e)
{
  switch (e->kind) {
  case EVENT_CLIENT:
    clients ();
    break;
  case EVENT_EXECUTE:
    execute (e->flight);
    break;
  case EVENT_ANSWER:
    answer (e->flight);
    break;
  case EVENT_STRAY:
    if (!w.recorded[e->member])
      sim_member_execute (&w.members[e->member], &e->stray, e->buf);
    break;
  case EVENT_FAULT:
    fault ();
    break;
  case EVENT_BREAK:
    array_lost (w.array, e->member, "the connection is broken", w.now);
    take_outputs ();
    break;
  case EVENT_RECORD:
    record (e->member);
    break;
  case EVENT_COMMIT:
    sim_trace ("commit of epoch %llu", (unsigned long long) e->epoch);
    for (unsigned i = 0; i < w.config.layout.members; i++)
      w.heard[i] |= e->states[i] == MEMBER_OUT;
    array_commit (w.array, e->epoch, e->states, w.now);
    take_outputs ();
    break;
  }
  if (e->flight && --e->flight->events == 0 && e->flight->answered)
    free (e->flight);
  free (e->buf);
  free (e);
}

/* A run. */

static void
choose_layout (void)
{
  static const enum layout_kind kinds[] = {
    LAYOUT_RAIDX,   LAYOUT_RAIDX,  LAYOUT_RAIDX, LAYOUT_RAID10,
    LAYOUT_CHAINED, LAYOUT_ROTATED, LAYOUT_RAID1, LAYOUT_RAID0,
  };
  char why[200];
  enum layout_kind kind = kinds[sim_below (sizeof kinds / sizeof kinds[0])];
  unsigned n = 3 + sim_below (3), groups = sim_chance (20) ? 2 : 1;
  uint64_t unit = KiB (4) << sim_below (3);

  if (kind == LAYOUT_RAID10)
    n = 2 + 2 * sim_below (2);
  else if (kind == LAYOUT_RAID1)
    n = 2 + sim_below (2);
  if (layout_init (&w.config.layout, kind, n, groups, unit,
                   unit * (2 * n + sim_below (24)), why, sizeof why) == -1)
    sim_fail ("layout: %s", why);
}

static void
begin (uint64_t seed)
{
  char why[200];

  memset (&w, 0, sizeof w);
  sim_seed (seed);
  grain_bytes = sim_chance (30) ? 64 : 512;
  choose_layout ();
  w.config.dup = w.config.layout.kind != LAYOUT_RAIDX && sim_chance (30)
                   ? DUP_SYNC_CLIENT
                   : DUP_ASYNC_CLIENT;
  w.config.batches = sim_chance (75);
  w.config.epoch = w.epoch = 7;
  w.config.image_buffer_bytes = KiB (64) << sim_below (6);
  w.config.image_age_ms = 1 + sim_below (50);
  w.config.io_timeout_ms = 100 + sim_below (400);
  w.now = 1000 * MS;
  w.array = array_new (&w.config, w.now, why, sizeof why);
  if (!w.array)
    sim_fail ("array_new: %s", why);
  for (unsigned i = 0; i < w.config.layout.members; i++)
    sim_member_init (&w.members[i], w.config.layout.member_bytes);
  w.outstanding_max = 1 + sim_below (OUTSTANDING_MAX);
  w.steps = 100 + sim_below (300);
  w.slow_percent = sim_below (15);
  w.may_lose = sim_chance (15);
  w.faults = sim_chance (25) ? 0 : 1 + sim_below (3);
  w.bad_percent = sim_chance (30) ? 50 + sim_below (51) : 0;
  if (w.bad_percent > 0 && sim_chance (70))
    w.faults = 0;
  judge_begin (&(struct judge_world) {
    .layout = &w.config.layout,
    .members = w.members,
    .recorded_out = w.recorded,
    .heard_out = w.heard,
    .sync = w.config.dup == DUP_SYNC_CLIENT,
  });
  sim_trace ("seed %llu: %s n=%u groups=%u unit=%u size=%llu dup=%s "
             "buffer=%llu age=%u batches=%d",
             (unsigned long long) seed, layout_name (w.config.layout.kind),
             w.config.layout.n, w.config.layout.groups, w.config.layout.unit,
             (unsigned long long) w.config.layout.size,
             array_dup_name (w.config.dup),
             (unsigned long long) w.config.image_buffer_bytes,
             w.config.image_age_ms, w.config.batches);
  event_new (EVENT_CLIENT, 0);
  event_new (EVENT_FAULT, sim_below (20 * MS));
}

/* Let time pass until the next event or the engine's deadline; false: nothing
 * will ever happen.
 */
static bool
step (void)
{
  uint64_t deadline = array_deadline (w.array);

  if (w.events_count > 0 && w.events[0]->at <= deadline) {
    struct event *e = event_next ();

    w.now = e->at;
    handle (e);
    return true;
  }
  if (deadline == UINT64_MAX)
    return false;
  if (deadline > w.now)
    w.now = deadline;
  array_tick (w.array, w.now);
  take_outputs ();
  if (array_deadline (w.array) <= w.now)
    sim_fail ("the engine wants to be ticked again at once");
  return true;
}

static void
run_until_quiet (void)
{
  uint64_t limit = w.now + 60000 * MS;

  while (step ())
    if (w.now > limit)
      sim_fail ("no end is in sight: %u requests outstanding", w.outstanding);
  if (w.outstanding > 0)
    sim_fail ("%u requests will never be done", w.outstanding);
}

static void
stop (void)
{
  sim_trace ("stop");
  w.stopped = true;
  array_stop (w.array, ESHUTDOWN, w.now);
  take_outputs ();
  w.steps = 1; /* one more, which must fail */
  event_new (EVENT_CLIENT, 0);
  for (unsigned i = 0; i < w.config.layout.members; i++) {
    w.trouble[i] = BROKEN;
    break_flights (i);
  }
}

static void
end (void)
{
  struct array_request flush = { .op = ARRAY_FLUSH };

  if (!w.stopped) {
    for (unsigned i = 0; i < 2; i++) { /* one may fail, not the next */
      w.requests[0] = flush;
      w.judged[0] = judge_submitted (&w.requests[0]);
      w.outstanding++;
      if (i == 1)
        w.may_fail = false;
      array_submit (w.array, &w.requests[0], w.now);
      take_outputs ();
      run_until_quiet ();
    }
    judge_quiet ();
  }
  if (!array_idle (w.array))
    sim_fail ("all is quiet, but the engine is not idle");
  array_free (w.array);
  for (unsigned i = 0; i < w.config.layout.members; i++)
    sim_member_free (&w.members[i]);
  judge_end ();
  free (w.events);
}

static void
run (uint64_t seed)
{
  unsigned stop_at;
  uint64_t limit;

  begin (seed);
  limit = w.now + 60000 * MS;
  stop_at = sim_chance (10) ? sim_below (2000) : UINT32_MAX;
  while (w.inputs < stop_at && step ())
    if (w.now > limit)
      sim_fail ("no end is in sight: %u requests outstanding", w.outstanding);
  if (w.inputs >= stop_at)
    stop ();
  run_until_quiet ();
  end ();
}

int
main (int argc, char *argv[])
{
  unsigned long long first = 1, last = 1, inputs = 0, requests = 0,
                     losses = 0, errors = 0, bads = 0;
  bool known = false;

  for (int i = 1; i < argc; i++) {
    if (strcmp (argv[i], "-v") == 0)
      verbose = true;
    else if (i + 1 < argc && strcmp (argv[i], "--seed") == 0)
      known = sscanf (argv[++i], "%llu", &first) == 1, last = first;
    else if (i + 1 < argc && strcmp (argv[i], "--seeds") == 0)
      known = sscanf (argv[++i], "%llu-%llu", &first, &last) == 2;
    else if (i + 1 < argc && strcmp (argv[i], "--fresh") == 0) {
      unsigned long long count = 0;

      known = sscanf (argv[++i], "%llu", &count) == 1 && count > 0;
      first = (unsigned long long) time (NULL) * 1000003 % 1000000000000;
      last = first + count - 1;
    }
  }
  if (!known || last < first) {
    fprintf (stderr, "usage: sim [-v] --seed N | --seeds A-B | --fresh N\n");
    return 2;
  }
  for (unsigned long long seed = first; seed <= last; seed++) {
    run (seed);
    inputs += w.inputs;
    requests += w.requests_done;
    losses += w.losses;
    errors += w.errors;
    bads += w.bads;
  }
  printf ("seeds %llu-%llu: %llu requests, %llu inputs, %llu losses, "
          "%llu bad spots, %llu errors to clients: no rule broken\n",
          first, last, requests, inputs, losses, bads, errors);
  return 0;
}
