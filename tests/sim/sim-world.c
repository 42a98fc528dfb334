/* sim-world.c: the events of a run: the engine's requests to members and their results,
 * the clients, the faults, and weftd.
 */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "format/batch.h"
#include "sim-world.h"

struct world w;

/* Events. */

struct event *
event_new (enum event_kind kind, uint64_t delay)
{
  struct event *e = calloc (1, sizeof *e);

  e->kind = kind;
  sim_push (sim_now + delay, e);
  return e;
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
  if (w.sluggish && sim_chance (4))
    return sim_below (8000 * MS); /* below the time-out */
  if (sim_chance (w.slow_percent))
    return sim_below (30 * MS);
  return 5 * US + sim_below (400 * US);
}

/* The engine's requests. */

static const char *const io_names[] = { "read",  "write", "zero",
                                        "trim",  "flush", "extents",
                                        "batch", "round", "pulse" };

/* A question for a sign of life, which is never slow to be answered. */
static bool
is_probe (const struct array_io *io)
{
  return io->kind == IO_PULSE ||
         (io->kind == IO_BATCH && io->length == batch_bytes (NULL, 0)) ||
         (!w.config.batches && io->kind == IO_READ && io->offset == 0 &&
          io->length == 4096);
}

static void
answer_later (struct flight *f)
{
  flight_event (f, EVENT_ANSWER, is_probe (f->io) ? MS : delay ());
}

static void
take_io (struct array_io *io)
{
  struct flight *f = calloc (1, sizeof *f);
  enum trouble trouble = w.trouble[io->member];

  if (w.noticed[io->member])
    sim_fail ("member %u is lost but is asked to %s", io->member,
              io_names[io->kind]);
  if (w.heard[io->member] && !is_probe (io) &&
      (io->kind == IO_READ || io->kind == IO_EXTENTS))
    sim_fail ("member %u is read, but is not in-sync", io->member);
  sim_trace ("member %u: %s %llu+%llu%s", io->member, io_names[io->kind],
             (unsigned long long) io->offset, (unsigned long long) io->length,
             io->flags & ARRAY_FUA ? " fua" : "");
  f->io = io;
  f->life = w.connected[io->member];
  io->owner = f;
  f->next = w.flights;
  w.flights = f;
  if (trouble == SILENT || (trouble == HUNG && !is_probe (io)))
    f->silent = true;
  else if ((trouble == FINE || trouble == HUNG) && is_probe (io))
    flight_event (f, EVENT_EXECUTE, sim_below (MS));
  else if (trouble == BROKEN) {
    f->executed = true;
    f->error = ENOTCONN;
    answer_later (f);
  }
  else
    flight_event (f, EVENT_EXECUTE, delay ());
}

/* Everything that is in flight to a member comes back with an error; some of
 * it was or will be carried out.
 */
void
world_break_flights (unsigned member)
{
  for (struct flight *f = w.flights; f; f = f->next) {
    if (f->io->member != member || (f->executed && !f->silent))
      continue;
    if (!f->executed && sim_chance (60) && f->io->kind != IO_READ &&
        f->io->kind != IO_EXTENTS && f->io->kind != IO_FLUSH &&
        f->io->kind != IO_PULSE) {
      struct event *e = event_new (EVENT_STRAY, sim_below (50 * MS));

      e->member = member;
      e->life = f->life;
      e->stray = *f->io;
      if (f->io->buf) {
        e->buf = malloc (f->io->length);
        memcpy (e->buf, f->io->buf, f->io->length);
      }
    }
    f->executed = true;
    f->silent = false;
    f->error = sim_chance (50) ? ENOTCONN : ESHUTDOWN;
    answer_later (f);
  }
}

/* Is it lost because it has had no room for so long as the array engine waits?  A
 * joining member need not be waited for.
 */
static bool
lost_for_room (unsigned member)
{
  return w.refused_at[member] + 300 * MS > sim_now &&
         (w.state[member] != MEMBER_IN_SYNC ||
          w.full_at[member] + 2000 * MS <= sim_now);
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
  if (n->kind == NOTICE_PREPARED) {
    weftd_prepared (n->epoch);
    return;
  }
  if (w.said[n->member])
    sim_fail ("member %u is lost twice", n->member);
  if (w.trouble[n->member] == FINE && sim_now > w.hung_until[n->member] &&
      w.life[n->member] == w.connected[n->member] &&
      w.state[n->member] != MEMBER_OUT && !w.going[n->member] &&
      !lost_for_room (n->member))
    sim_fail ("member %u is said to be lost: %s", n->member, n->reason);
  if (strncmp (n->reason, "its disk", 8) == 0) {
    w.hangs++;
    if (sim_now < w.hung_from[n->member] + HUNG_MS * MS)
      sim_fail ("member %u is lost though its disk answers", n->member);
  }
  if (w.trouble[n->member] == FINE && sim_now > w.hung_until[n->member] &&
      w.life[n->member] == w.connected[n->member]) {
    w.losses++;
    w.may_fail |= w.bads > 0;
  }
  w.noticed[n->member] = w.said[n->member] = true;
  if (w.life[n->member] == w.connected[n->member])
    w.trouble[n->member] = BROKEN;
  world_break_flights (n->member);
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
  w.progress_at = sim_now;
}

/* After every input. */
void
world_take_outputs (void)
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
  array_stats (w.array, sim_now, &stats);
  if (stats.image_bytes > w.bytes_peak)
    w.bytes_peak = stats.image_bytes;
  if (stats.image_bytes > w.config.image_buffer_bytes + BATCH_BYTES_MAX)
    sim_fail ("the image buffer takes %llu bytes",
              (unsigned long long) stats.image_bytes);
  w.inputs++;
}

void
world_lost (unsigned member, const char *reason)
{
  array_lost (w.array, member, reason, sim_now);
  world_take_outputs ();
}

/* The clients. */

static uint64_t
random_length (uint64_t most)
{
  unsigned dice = sim_below (6);
  uint64_t n = dice == 0   ? sim_below (most) + 1
               : dice == 1 ? sim_below (64) + 1
               : dice == 2 ? w.config.layout.unit / grain_bytes
                           : sim_below (8) + 1;

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

void
world_submit (struct array_request *r, unsigned client)
{
  unsigned i = r - w.requests;

  r->client = w.clients[client];
  sim_trace ("submit %u: client %u, op %d %llu+%llu flags %u", i, client, r->op,
             (unsigned long long) r->offset, (unsigned long long) r->length,
             r->flags);
  w.judged[i] = judge_submitted (r, client);
  w.outstanding++;
  array_submit (w.array, r, sim_now);
  world_take_outputs ();
}

/* Its connection is closed if nothing is left of it, and it makes another. */
static void
reconnect (unsigned client)
{
  for (unsigned i = 0; i < OUTSTANDING_MAX; i++)
    if (w.judged[i] && w.requests[i].client == w.clients[client])
      return;
  sim_trace ("client %u closes", client);
  array_client_close (w.array, w.clients[client]);
  w.clients[client] = array_client_open (w.array);
  judge_closed (client);
}

static void
clients (void)
{
  unsigned burst = 1 + sim_below (4);

  while (burst-- > 0 && w.outstanding < w.outstanding_max && w.steps > 0) {
    unsigned i = 0, client = sim_chance (60) ? 0 : sim_below (JUDGE_CLIENTS);

    w.steps--;
    if (sim_chance (3))
      reconnect (client);
    while (w.judged[i])
      i++;
    choose_request (&w.requests[i]);
    world_submit (&w.requests[i], client);
  }
  if (w.steps == 0)
    return;
  if (w.pauses && sim_chance (4)) /* long enough for bits to fall */
    event_new (EVENT_CLIENT, sim_below (9000 * MS));
  else
    event_new (EVENT_CLIENT, sim_chance (10) ? sim_below (20 * MS) : delay ());
}

/* Faults. */

static bool
survivable (unsigned member)
{
  bool lost[ARRAY_MEMBERS_MAX] = { false };

  for (unsigned i = 0; i < w.config.layout.members; i++)
    lost[i] = i == member || w.trouble[i] != FINE ||
              w.full_until[i] + 300 * MS > sim_now ||
              w.state[i] != MEMBER_IN_SYNC;
  return layout_loss (&w.config.layout, lost, NULL) == 0;
}

/* Its connection ends; by then there may be another one. */
static void
break_off (unsigned member, bool answers)
{
  struct event *e;

  sim_trace ("fault: member %u breaks%s", member,
             answers ? ", its answers come first" : "");
  w.trouble[member] = BROKEN;
  world_break_flights (member);
  e = event_new (EVENT_BREAK, answers ? sim_below (5 * MS) : 0);
  e->member = member;
  e->life = w.connected[member];
}

/* The member's process lives.  Its requests are carried out, perhaps, and not answered as
 * long as its disk hangs.
 */
static void
hang (unsigned member)
{
  struct event *e = event_new (EVENT_UNHANG, sim_below (30000 * MS));

  sim_trace ("fault: the disk of member %u hangs", member);
  e->member = member;
  e->life = w.connected[member];
  w.trouble[member] = HUNG;
  w.hung_from[member] = sim_now;
  w.hung_until[member] = UINT64_MAX;
  for (struct flight *f = w.flights; f; f = f->next)
    f->silent |= f->io->member == member && !is_probe (f->io) && !f->error &&
                 !w.noticed[member];
}

static void
unhang (const struct event *e)
{
  if (w.trouble[e->member] != HUNG || e->life != w.connected[e->member])
    return;
  sim_trace ("the disk of member %u answers again", e->member);
  w.trouble[e->member] = FINE;
  w.hung_until[e->member] = sim_now +
                            10 * MS; /* it may have said so just now */
  for (struct flight *f = w.flights; f; f = f->next)
    if (f->io->member == e->member && f->silent && f->life == e->life) {
      f->silent = false;
      if (f->executed)
        answer_later (f);
      else
        flight_event (f, EVENT_EXECUTE, delay ());
    }
}

/* All others are in-sync, and the engine knows that. */
static bool
others_fine (unsigned member)
{
  for (unsigned i = 0; i < w.config.layout.members; i++)
    if (i != member &&
        (w.trouble[i] != FINE || w.noticed[i] || w.state[i] != MEMBER_IN_SYNC ||
         w.heard_state[i] != MEMBER_IN_SYNC))
      return false;
  return w.config.layout.copies > 1 && w.config.pulses && !w.stopped;
}

void
world_check_hung (void)
{
  for (struct flight *f = w.flights; f; f = f->next) {
    unsigned m = f->io->member;
    uint64_t from = w.hung_from[m];

    if (f->io->sent_ns > from)
      from = f->io->sent_ns;
    if (w.trouble[m] == HUNG && !w.noticed[m] && f->silent &&
        sim_now > from + (HUNG_MS + 1000) * MS && others_fine (m))
      sim_fail ("a request still waits for the disk of member %u, which hangs",
                m);
  }
}

static void
lose (unsigned member)
{
  if (!survivable (member) && !w.rejoins) {
    if (!w.may_lose)
      return;
    w.may_fail = true;
  }
  if (w.bads > 0)
    w.may_fail = true; /* the other copy may have a bad spot */
  w.losses++;
  switch (w.only_hangs ? 4 : sim_below (w.config.pulses ? 5 : 4)) {
  case 4:
    hang (member);
    break;
  case 0:
    break_off (member, false);
    break;
  case 1:
    break_off (member, true);
    break;
  case 2:
    sim_trace ("fault: member %u falls silent", member);
    w.trouble[member] = SILENT;
    for (struct flight *f = w.flights; f; f = f->next)
      if (f->io->member == member && sim_chance (70) && !f->error &&
          !w.noticed[member])
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
    if (w.trouble[p.copy[i].member] != FINE || w.recorded[p.copy[i].member] ||
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

/* No client sees an error of that, even if it is the last copy of something. */
static void
fill (unsigned member)
{
  bool spared = w.rejoins || survivable (member);

  w.full_at[member] = sim_now;
  w.full_until[member] = sim_now + sim_below ((spared ? 6000 : 1500) * MS);
  w.full_percent = sim_chance (50) ? 100 : 1 + sim_below (99);
  sim_trace ("fault: member %u is full for %llu ms", member,
             (unsigned long long) ((w.full_until[member] - sim_now) / MS));
}

static void
fault (void)
{
  unsigned member = sim_below (w.config.layout.members);

  if (w.fulls > 0 && w.full_until[member] + 300 * MS <= sim_now &&
      w.trouble[member] == FINE && sim_chance (30)) {
    w.fulls--;
    fill (member);
  }
  else if (sim_chance (w.bad_percent))
    spoil ();
  else if (w.faults > 0 && w.trouble[member] == FINE) {
    w.faults--;
    lose (member);
  }
  if (w.steps > 0)
    event_new (EVENT_FAULT, sim_below (sim_chance (30) ? MS : 60 * MS));
}

/* Members. */

/* When bits fall, nothing is on its way to these extents, and they are clean.
 */
static void
check_clear (const struct flight *clear)
{
  const struct sim_member *m = &w.members[clear->io->member];
  uint64_t offset, length;

  for (unsigned i = 0; w.trouble[clear->io->member] == FINE &&
                       sim_member_clears (m, clear->io, i, &offset, &length);
       i++) {
    w.clears++;
    for (struct flight *f = w.flights; f; f = f->next)
      if (f->io->member == clear->io->member && !f->executed &&
          sim_member_writes (m, f->io, offset, length))
        sim_fail ("member %u is asked to clear %llu+%llu while a write is on "
                  "its way there",
                  f->io->member, (unsigned long long) offset,
                  (unsigned long long) length);
  }
}

/* It has no room for this now.  Some of it may have been carried out. */
static bool
refuses (const struct flight *f)
{
  struct array_io *io = f->io, part = *io;

  if (w.full_until[io->member] <= sim_now || is_probe (io) ||
      (io->flags & ARRAY_FUA && !w.config.batches) ||
      (io->kind != IO_WRITE && io->kind != IO_ZERO && io->kind != IO_BATCH) ||
      !sim_chance (w.full_percent))
    return false;
  part.flags = 0;
  if (io->kind != IO_BATCH)
    part.length = sim_below (io->length / grain_bytes + 1) * grain_bytes;
  if (part.length > 0 && sim_chance (70))
    sim_member_execute (&w.members[io->member], &part, io->buf);
  w.refused++;
  return true;
}

static void
execute (struct flight *f)
{
  struct array_io *io = f->io;
  const struct sim_member *m;
  enum trouble trouble;

  if (f->executed) /* *io may be gone */
    return;
  m = &w.members[io->member];
  trouble = w.trouble[io->member];
  if (trouble == FINE && m->copying != UINT64_MAX &&
      f->life == w.life[io->member] &&
      sim_member_writes (m, io, m->copying * m->extent_bytes,
                         m->extent_bytes)) {
    flight_event (f, EVENT_EXECUTE, MS); /* held until it is copied */
    return;
  }
  f->executed = true;
  if (f->life != w.life[io->member] ||
      (m->phase != SIM_SERVING && io->kind == IO_READ)) {
    f->error = ESHUTDOWN; /* fenced; or refused, because it joins */
    if (!f->silent)
      answer_later (f);
    return;
  }
  if (io->kind == IO_BATCH)
    check_clear (f);
  if (io->kind == IO_PULSE)
    put_le64 (io->buf,
              trouble == HUNG ? (sim_now - w.hung_from[io->member]) / MS : 0);
  else if (trouble == FAILING && io->kind != IO_READ &&
           io->kind != IO_EXTENTS) {
    if (sim_chance (50))
      sim_member_execute (&w.members[io->member], io, io->buf);
    f->error = EIO;
    w.lapsed[io->member] = true;
  }
  else if (refuses (f))
    f->error = sim_chance (80) ? ENOSPC : ENOMEM;
  else
    f->error = sim_member_execute (&w.members[io->member], io, io->buf);
  if (io->kind == IO_BATCH)
    judge_cleared ();
  if (!f->silent)
    answer_later (f);
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
  if (f->error == ENOSPC || f->error == ENOMEM)
    w.refused_at[io->member] = sim_now; /* that may be late */
  if (io->kind == IO_EXTENTS && f->error) {
    free (io->extents);
    io->extents = NULL;
    io->extents_count = 0;
  }
  array_io_done (w.array, io, f->error, sim_now);
  world_take_outputs ();
}

/* All events. */

void
world_handle (struct event *e)
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
    if (e->life == w.life[e->member])
      sim_member_execute (&w.members[e->member], &e->stray, e->buf);
    break;
  case EVENT_FAULT:
    fault ();
    break;
  case EVENT_UNHANG:
    unhang (e);
    break;
  case EVENT_BREAK:
    if (e->life == w.connected[e->member])
      world_lost (e->member, "the connection is broken");
    break;
  default:
    weftd_handle (e);
    break;
  }
  if (e->flight && --e->flight->events == 0 && e->flight->answered)
    free (e->flight);
  free (e->buf);
  free (e);
}
