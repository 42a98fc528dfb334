/* peers.c: a connection to a member: its doors, an I/O there and back, and the
 * seat in the array engine.  As plugin/peer.c and engine-member.c.
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "world.h"

/* ---- An I/O of the engine, as a request and back. ---- */

static uint64_t
grain_number (unsigned member, uint64_t offset)
{
  return grain_offset (w.place[member].grain[place_slot (member, offset)]) /
         grain_bytes;
}

static void
add_versions (struct nbd *n, unsigned member, uint64_t offset, uint64_t length,
              const uint8_t *buf)
{
  if (offset % grain_bytes || length % grain_bytes)
    sim_fail ("a write of %llu bytes at %llu", (unsigned long long) length,
              (unsigned long long) offset);
  n->versions = realloc (n->versions,
                         (n->versions_count + length / grain_bytes) *
                           sizeof n->versions[0]);
  for (uint64_t at = 0; at < length; at += grain_bytes)
    n->versions[n->versions_count++] = grain_version (
      buf + at, grain_number (member, offset + at), "a write to a member");
}

static struct nbd *
change (const struct array_io *io)
{
  static struct batch_record decoded[BATCH_RECORDS_MAX];
  struct nbd *n = nbd_new (NBD_CHANGE);
  const char *why;
  int count = 1;

  n->fua = io->flags & ARRAY_FUA;
  if (io->kind == IO_BATCH) {
    count = batch_decode (io->buf, io->length, w.config.member_bytes, decoded,
                          &why);
    if (count < 0) /* without records it is a probe */
      sim_fail ("a batch is refused: %s", why);
  }
  else
    decoded[0] = (struct batch_record) {
      .kind = io->kind == IO_WRITE  ? BATCH_WRITE
              : io->kind == IO_TRIM ? BATCH_TRIM
                                    : BATCH_ZERO,
      .offset = io->offset,
      .length = io->length,
      .payload = io->buf,
    };
  n->records = make ((count + 1) * sizeof n->records[0]);
  n->count = count;
  for (int i = 0; i < count; i++) {
    n->records[i] = decoded[i];
    n->records[i].payload = NULL;
    if (decoded[i].kind == BATCH_WRITE)
      add_versions (n, io->member, decoded[i].offset, decoded[i].length,
                    decoded[i].payload);
  }
  return n;
}

static void
note (struct peer *p, uint64_t round, uint64_t at)
{
  unsigned i = p->noted_count++ % NOTED;

  p->noted[i].round = round;
  p->noted[i].at = at;
}

/* A writer that is alone begins all rounds: until then no disk has one.  Where several
 * write, a disk reports its round itself.
 */
static void
note_rounds (struct host_role *h, const struct nbd *n)
{
  for (unsigned i = 0; i < n->count; i++) {
    uint64_t number = n->records[i].length;

    if (n->records[i].kind != BATCH_ROUND || number <= h->round ||
        number <= h->heard_round)
      continue;
    counters.jumps += h->part_length && number > h->round + 1;
    h->round = number;
    for (unsigned m = 0; m < w.layout.members && !h->part_length && !h->leases;
         m++)
      note (&h->peer[m], number - 1, sim_now);
  }
}

/* Is it another process that serves the member, on a disk that rounds do not tell from
 * a copy of before some of what was answered there?
 */
static bool
aged (const struct peer *p)
{
  if (!p->host->writable)
    return false;
  if (p->reach == UINT64_MAX && p->seats && p->life != p->seats)
    sim_fail ("host %u takes a new process of member %u for the one it knew",
              p->host->proc.number, p->member);
  if (p->life == p->seats || p->wrote_at == 0)
    return false;
  for (unsigned i = 0; i < NOTED && i < p->noted_count; i++)
    if (p->noted[i].round < p->round &&
        p->wrote_at <= p->noted[i].at + ROUND_LATE_MS * MS)
      return false;
  return true;
}

/* Times of requests for data: a sync does not count, nor an image that replaces a
 * FLUSH.
 */
static void
note_time (struct peer *p, const struct nbd *n)
{
  unsigned i = p->timed_count % TIMED;

  if (n->kind != NBD_READ && (n->kind != NBD_CHANGE || n->versions_count == 0 ||
                              (n->fua && n->io->kind == IO_BATCH)))
    return;
  p->timed[i].at = sim_now;
  p->timed[i].took = sim_now - n->sent;
  p->timed_count++;
}

static void
io_done (struct host_role *h, struct array_io *io, int error)
{
  steps++;
  io_steps++;
  array_io_done (h->engine, io, error, sim_now);
}

void
peer_send (struct peer *p, struct array_io *io)
{
  struct host_role *h = p->host;
  bool batch = io->kind == IO_BATCH || io->kind == IO_ROUND ||
               io->kind == IO_PULSE;
  struct conn *c = batch ? p->batch : p->data;
  struct nbd *n = NULL;

  if (!p->seated || p->data == NULL) {
    array_lost (h->engine, p->member, "it is not connected", sim_now);
    io_done (h, io, ENOTCONN);
    return;
  }
  switch (io->kind) {
  case IO_READ:
    n = nbd_new (NBD_READ);
    n->offset = io->offset;
    n->length = io->length;
    break;
  case IO_WRITE:
  case IO_ZERO:
  case IO_TRIM:
  case IO_BATCH:
    n = change (io);
    note_rounds (h, n);
    break;
  case IO_FLUSH:
    n = nbd_new (NBD_FLUSH);
    break;
  case IO_ROUND:
    n = nbd_new (NBD_ROUND);
    counters.asks++;
    p->asked_at = sim_now;
    break;
  case IO_PULSE:
    n = nbd_new (NBD_PULSE);
    break;
  case IO_EXTENTS:
    io->extents = make (sizeof *io->extents);
    io->extents[0].length = io->length;
    io->extents_count = 1;
    io_done (h, io, 0);
    return;
  }
  n->io = io;
  nbd_send (c, n);
}

/* ---- Connections. ---- */

static void made (struct peer *p, bool up);
static void peer_close (struct peer *p);

static void
answered (struct conn *c, struct nbd *n)
{
  struct peer *p = c->owner;
  struct host_role *h = p->host;
  struct array_io *io = n->io;

  if (n->kind == NBD_OPEN) {
    if (n->error == 0 && --p->opening == 0)
      made (p, true);
    else if (n->error)
      made (p, false);
    return;
  }
  unsigned count = n->error || n->kind != NBD_READ ? 0 : n->versions_count;

  for (unsigned i = 0; i < count; i++) {
    uint8_t *buf = (uint8_t *) io->buf + i * grain_bytes;

    if (n->versions[i] == 0)
      memset (buf, 0, grain_bytes);
    else
      grain_fill (buf, grain_number (io->member, io->offset + i * grain_bytes),
                  1, n->versions[i]);
  }
  if (n->kind == NBD_PULSE && !n->error)
    put_le64 (io->buf, n->round);
  if (n->kind == NBD_ROUND && !n->error) {
    put_le64 (io->buf, n->round);
    raise_to (&h->heard_round, n->round);
    /* Disks are a round apart, but for one that has just joined. */
    if (n->round + 1 >= h->heard_round && n->round + 1 >= h->round)
      note (p, n->round, p->asked_at);
  }
  if (!n->error)
    note_time (p, n);
  if (n->error)
    TRACE (&h->proc, "member %u answers error %d", p->member, n->error);
  else if (n->kind == NBD_CHANGE)
    p->wrote_at = sim_now;
  io_done (h, io, n->error);
  host_take (h);
}

/* The engine hears of the loss first, then gets requests in flight back. */
static void
sever (struct peer *p, const char *reason)
{
  if (p->seated && p->host->engine) {
    steps++;
    array_lost (p->host->engine, p->member, reason, sim_now);
  }
  peer_close (p);
}

/* If the engine has not got a new connection yet, it hears of the loss then. */
static void
broke (struct conn *c)
{
  struct peer *p = c->owner;

  TRACE (&p->host->proc, "its connection to member %u is broken", p->member);
  if (p->opening > 0) {
    made (p, false);
    return;
  }
  sever (p, "its connection broke");
  host_take (p->host);
}

static void
peer_close (struct peer *p)
{
  struct conn *c[2] = { p->data, p->batch };

  p->data = p->batch = NULL;
  p->opening = 0;
  for (unsigned i = 0; i < 2; i++) {
    struct array_io *io[512];
    unsigned count = 0;

    if (c[i] == NULL)
      continue;
    for (struct nbd *n = c[i]->in_flight; n; n = n->client_next)
      if (n->io) {
        if (count == 512)
          abort ();
        io[count++] = n->io;
        n->io = NULL;
      }
    conn_close (c[i], 0);
    while (count > 0)
      io_done (p->host, io[--count], ENOTCONN);
  }
}

static void
late (void *owner)
{
  struct peer *p = owner;

  if (p->opening == 0 || sim_now < p->late_at)
    return;
  TRACE (&p->host->proc, "can't connect to member %u in time", p->member);
  made (p, false);
}

static struct conn *
connect_door (struct peer *p, const char *name)
{
  struct host_role *h = p->host;
  struct conn *c = conn_new (&h->proc,
                             &w.member[h->map.peer[p->member].process], name);

  c->owner = p;
  c->epoch = h->map.epoch;
  c->session = h->session;
  c->answered = answered;
  c->broke = broke;
  p->opening++;
  return c;
}

static void
connect_doors (void *owner)
{
  struct peer *p = owner;
  struct host_role *h = p->host;

  p->round = h->map.peer[p->member].life_round;
  p->data = connect_door (p, h->map.peer[p->member].data);
  if (h->writable)
    p->batch = connect_door (p, h->map.peer[p->member].batch);
  p->late_at = sim_now + w.config.connect_ms * MS;
  process_after (&h->proc, w.config.connect_ms * MS, late, p);
}

/* ---- Seats. ---- */

/* The engine gets the new connection, or may not have got back what it asked of
 * the old one.
 */
static void
seat (void *owner)
{
  struct peer *p = owner;
  struct host_role *h = p->host;
  bool taken = !w.working || !sim_chance (3);

  if (taken) {
    oracle_relinked (h, p->member, aged (p));
    p->seats = p->life;
    steps++;
    p->seated = true;
    seats_take (&h->seats, h->engine, p->member, p->connection, p->kept,
                p->reach, sim_now);
    if (p->data == NULL)
      array_lost (h->engine, p->member, "its connection broke", sim_now);
  }
  else
    peer_close (p);
  if (host_seated (h->core, p->member, taken, now_ms ()))
    TRACE (&h->proc, "is connected to member %u again", p->member);
  host_take (h);
}

/* A connection was made, or could not be. */
static void
made (struct peer *p, bool up)
{
  struct host_role *h = p->host;

  if (!up)
    peer_close (p);
  else
    p->life = p->data->life[1];
  if (h->core == NULL) { /* the start */
    p->seated = up;
    p->seats = p->life;
    if (up)
      oracle_linked (h, p->member);
    for (unsigned m = 0; m < w.layout.members; m++)
      if (h->peer[m].opening > 0)
        return;
    host_started (h);
    return;
  }
  if (host_opened (h->core, p->member, up, "it can't be reached", &p->kept,
                   &p->reach, now_ms ()))
    process_after (&h->proc, between (5 * US, 2 * MS), seat, p);
  else
    peer_close (p);
  host_take (h);
}

/* From the old one, if it is a stale one, to the next. */
void
peer_begin (struct peer *p, uint64_t connection)
{
  sever (p, "it begins anew");
  p->seated = false;
  p->connection = connection;
  process_after (&p->host->proc, between (5 * US, 1 * MS), connect_doors, p);
}

void
peers_begin (struct host_role *h)
{
  for (unsigned m = 0; m < w.layout.members; m++)
    if (h->states[m] != MEMBER_OUT)
      connect_doors (&h->peer[m]);
}

/* Breaks the connections of members that are out. */
void
peers_commit (struct host_role *h, const struct host_action *a)
{
  if (seats_commit (&h->seats, h->engine, a->epoch, a->states, sim_now))
    for (unsigned m = 0; m < w.layout.members; m++)
      if (a->states[m] == MEMBER_OUT && h->peer[m].seated)
        sever (&h->peer[m], "it is out");
}

void
peers_forget (struct host_role *h)
{
  for (unsigned m = 0; m < w.layout.members; m++)
    if (h->peer[m].seated || h->stage == HOST_DOWN)
      peer_close (&h->peer[m]);
}

static void
tell_lost (void *owner)
{
  struct peer *p = owner;

  host_lost (p->host->core, p->member, p->lost, p->answers, p->waited_ms,
             p->reason, now_ms ());
  host_take (p->host);
}

/* Another thread may have the news to the host engine in hand for a while. */
void
peer_lost (struct peer *p, const struct array_notice *n)
{
  struct host_role *h = p->host;

  if (p->seated)
    sever (p, n->reason);
  p->lost = h->seats.connection[p->member];
  p->answers = n->answers;
  p->waited_ms = n->waited_ms;
  memcpy (p->reason, n->reason, sizeof p->reason);
  process_after (&h->proc,
                 sim_chance (10) ? between (0, 30 * MS) : between (0, 50 * US),
                 tell_lost, p);
}
