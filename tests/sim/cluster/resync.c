/* resync.c: what a writer does before it lets clients in, and at its end, as
 * plugin/resync.c.
 *
 * Start: every hot grain of which a copy lies in a dirty extent is read and
 * written again through the engine; then a flush; then the extents are settled.
 * What no copy can be read of is told to all members that have it, by doors that were
 * opened before it was read last; if that can't be, the bits stay.
 * End, when the copies are known to be the same: all bits fall at once.
 */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

#define TRIES 10
#define COPY_TRIES 5 /* while FLUSH fails */
#define PAUSE_MS 1000

struct resync {
  struct host_role *host;
  bool ending;
  unsigned tries, copied;
  struct array_client *client;
  struct conn *conn[PLACES_MAX];
  uint64_t late_at;
  uint64_t bits[PLACES_MAX];
  unsigned grain; /* the next to be looked at */
  unsigned length;
  struct array_request request;
  uint8_t *buf;
  /* Grains that no copy can be read of. */
  unsigned *bad, bad_count;
  bool doors;     /* the batch doors are open, or will not be */
  bool opening, open[PLACES_MAX];
  bool telling;
  bool unsettled; /* bits must stay */
};

static void loaded (struct resync *r);
static void opened (struct resync *r);
static void settle (struct resync *r);
static void load (void *owner);

static unsigned
conns (const struct resync *r)
{
  unsigned count = 0;

  for (unsigned m = 0; m < w.layout.members; m++)
    count += r->conn[m] != NULL;
  return count;
}

static void
close_door (struct resync *r, unsigned m)
{
  if (r->conn[m])
    conn_close (r->conn[m], 0);
  r->conn[m] = NULL;
}

/* The process ends, and starts again. */
static void
give_up (struct host_role *h)
{
  TRACE (&h->proc, "its resync fails");
  resync_free (h);
  if (array_idle (h->engine))
    host_detach (h);
  else
    host_stop (h, EIO);
}

/* A member that can't be read is lost: it goes out, or comes back. */
static void
failed (struct resync *r, unsigned m)
{
  struct host_role *h = r->host;

  for (unsigned i = 0; i < w.layout.members; i++)
    close_door (r, i);
  if (r->doors) {
    bool first = !r->unsettled;

    r->unsettled = true;
    if (r->telling)
      settle (r);
    else if (first && r->opening)
      opened (r);
    return;
  }
  if (r->ending)
    host_detach (h);
  else if (++r->tries > TRIES)
    give_up (h);
  else {
    process_after (&h->proc, PAUSE_MS * MS, load, h);
    array_lost (h->engine, m, "its intent map can't be read", sim_now);
    host_take (h);
  }
}

static unsigned
member_of (const struct resync *r, const struct conn *c)
{
  unsigned m = 0;

  while (r->conn[m] != c)
    m++;
  return m;
}

static void
broke (struct conn *c)
{
  failed (c->owner, member_of (c->owner, c));
}

static void
late (void *owner)
{
  struct host_role *h = owner;
  struct resync *r = h->resync;

  for (unsigned m = 0; r && sim_now >= r->late_at && m < w.layout.members; m++)
    if (r->conn[m]) {
      failed (r, m);
      return;
    }
}

static void
limit (struct resync *r)
{
  r->late_at = sim_now + w.config.connect_ms * MS;
  process_after (&r->host->proc, w.config.connect_ms * MS, late, r->host);
}

static void
connect_door (struct resync *r, unsigned m, const char *name,
              void (*answered) (struct conn *, struct nbd *))
{
  struct host_role *h = r->host;
  struct conn *c = conn_new (&h->proc, &w.member[h->map.peer[m].process], name);

  c->owner = r;
  c->epoch = h->map.epoch;
  c->answered = answered;
  c->broke = broke;
  r->conn[m] = c;
}

/* ---- The members' maps ---- */

static void
map_answered (struct conn *c, struct nbd *n)
{
  struct resync *r = c->owner;
  unsigned m = member_of (r, c);

  if (n->error)
    failed (r, m);
  else if (n->kind == NBD_OPEN)
    nbd_send (c, nbd_new (NBD_INTENTS));
  else {
    r->bits[m] = n->bits;
    close_door (r, m);
    if (conns (r) == 0)
      loaded (r);
  }
}

static void
load (void *owner)
{
  struct host_role *h = owner;
  struct resync *r = h->resync;

  if (r == NULL || conns (r) > 0)
    return;
  for (unsigned m = 0; m < w.layout.members; m++) {
    r->bits[m] = 0;
    if (h->states[m] == MEMBER_IN_SYNC)
      connect_door (r, m, h->map.peer[m].intents, map_answered);
  }
  limit (r);
}

static void
begin (struct host_role *h, bool ending)
{
  struct resync *r = h->resync = make (sizeof *r);

  r->host = h;
  r->ending = ending;
  r->client = array_client_open (h->engine);
  r->buf = make (64 * grain_bytes);
  load (h);
}

/* ---- The start ---- */

static bool
has_bit (const struct resync *r, const struct copy *at)
{
  return r->bits[at->member] >>
           (slot_offset (at->member, at->slot) / EXTENT_BYTES) & 1;
}

static bool
dirty (const struct resync *r, unsigned grain)
{
  for (unsigned c = 0; c < w.layout.copies; c++)
    if (has_bit (r, &w.copy[grain][c]))
      return true;
  return false;
}

/* The copy of a grain that is the newest, as far as can be told. */
static unsigned
newest (const struct resync *r, unsigned grain)
{
  const struct host_role *h = r->host;
  unsigned best = 0;

  for (unsigned c = 1; c < w.layout.copies; c++) {
    const struct copy *at = &w.copy[grain][c], *than = &w.copy[grain][best];
    uint64_t reach = h->map.peer[at->member].reach;
    uint64_t best_reach = h->map.peer[than->member].reach;

    if (h->states[at->member] == MEMBER_IN_SYNC &&
        (h->states[than->member] != MEMBER_IN_SYNC || reach > best_reach ||
         (reach == best_reach && has_bit (r, at) && !has_bit (r, than))))
      best = c;
  }
  return best;
}

static void
submit (struct resync *r, enum array_op op, uint64_t offset, uint64_t length)
{
  struct host_role *h = r->host;

  r->request = (struct array_request){ .op = op, .client = r->client,
                                       .offset = offset, .length = length,
                                       .buf = r->buf };
  if (op == ARRAY_READ)
    r->request.prefer = 1 + newest (r, r->grain);
  host_submit (h, &r->request);
}

static void
settle (struct resync *r)
{
  struct host_role *h = r->host;

  if (r->unsettled) {
    TRACE (&h->proc, "resync: bits stay");
    h->resynced = false;
    resync_free (h);
    host_serve (h);
    host_take (h);
    return;
  }
  steps++;
  array_settled (h->engine, 0, 0, 0, sim_now);
  for (unsigned m = 0; m < w.layout.members; m++)
    for (unsigned e = 0; e < w.config.member_bytes / EXTENT_BYTES; e++)
      if (r->bits[m] >> e & 1) {
        steps++;
        array_settled (h->engine, m, e * EXTENT_BYTES, EXTENT_BYTES, sim_now);
      }
  resync_free (h);
  h->resynced = true;
  host_serve (h);
  host_take (h);
}

/* The next run of dirty grains that lie side by side in a unit. */
static void
next (struct resync *r)
{
  uint64_t offset;

  while (r->grain < w.grains && !dirty (r, r->grain))
    r->grain++;
  if (r->grain == w.grains) {
    submit (r, ARRAY_FLUSH, 0, 0);
    return;
  }
  offset = grain_offset (r->grain);
  r->length = 1;
  while (r->grain + r->length < w.grains &&
         newest (r, r->grain + r->length) == newest (r, r->grain) &&
         grain_offset (r->grain + r->length) ==
           offset + r->length * grain_bytes &&
         (offset + r->length * grain_bytes) % w.config.unit != 0)
    r->length++;
  submit (r, ARRAY_READ, offset, r->length * grain_bytes);
}

/* ---- What can't be read ---- */

static void
opened (struct resync *r)
{
  r->opening = false;
  r->late_at = UINT64_MAX;
  submit (r, ARRAY_READ, r->request.offset, r->length * grain_bytes);
}

static void
told (struct conn *c, struct nbd *n)
{
  struct resync *r = c->owner;
  unsigned m = member_of (r, c), open = 0;

  if (n->error) {
    failed (r, m);
    return;
  }
  if (n->kind == NBD_OPEN) {
    for (unsigned i = 0; i < w.layout.members; i++)
      open += r->open[i] |= i == m;
    if (open == conns (r))
      opened (r);
    return;
  }
  close_door (r, m);
  if (conns (r) == 0)
    settle (r);
}

/* Doors to say it by.  Without all members the bits stay anyway. */
static void
open_doors (struct resync *r)
{
  r->doors = r->opening = true;
  for (unsigned m = 0; m < w.layout.members; m++)
    r->unsettled |= r->host->states[m] != MEMBER_IN_SYNC;
  for (unsigned m = 0; !r->unsettled && m < w.layout.members; m++)
    connect_door (r, m, r->host->map.peer[m].batch, told);
  if (r->unsettled)
    opened (r);
  else
    limit (r);
}

static void
tell (struct resync *r)
{
  r->telling = true;
  for (unsigned m = 0; m < w.layout.members; m++)
    r->unsettled |= r->host->states[m] != MEMBER_IN_SYNC;
  if (r->unsettled) {
    settle (r);
    return;
  }
  for (unsigned m = 0; m < w.layout.members; m++) {
    struct nbd *n = nbd_new (NBD_CHANGE);

    n->records = make ((r->bad_count + 1) * sizeof n->records[0]);
    for (unsigned i = 0; i < r->bad_count; i++)
      for (unsigned c = 0; c < w.layout.copies; c++)
        if (w.copy[r->bad[i]][c].member == m)
          n->records[n->count++] = (struct batch_record){
            .kind = BATCH_BAD,
            .offset = slot_offset (m, w.copy[r->bad[i]][c].slot),
            .length = grain_bytes,
          };
    nbd_send (r->conn[m], n);
  }
  limit (r);
}

/* Returns false when it is no matter of a place. */
static bool
can_not_read (struct resync *r)
{
  if (!disk_spots ())
    return false;
  if (r->length > 1) {
    r->length = 1;
    submit (r, ARRAY_READ, grain_offset (r->grain), grain_bytes);
  }
  else if (!r->doors)
    open_doors (r);
  else {
    TRACE (&r->host->proc, "resync: no copy of grain %u can be read", r->grain);
    r->bad = realloc (r->bad, (r->bad_count + 1) * sizeof r->bad[0]);
    r->bad[r->bad_count++] = r->grain++;
    next (r);
  }
  return true;
}

void
resync_begin (struct host_role *h)
{
  h->stage = HOST_RESYNC;
  begin (h, false);
}

void
resync_done (struct host_role *h, struct array_request *request)
{
  struct resync *r = h->resync;
  uint64_t bytes = r->length * grain_bytes;

  if (request->op == ARRAY_FLUSH && request->error == EIO &&
      ++r->copied < COPY_TRIES) {
    TRACE (&h->proc, "resync: copies again");
    r->grain = r->bad_count = 0;
    next (r);
    return;
  }
  if (request->op == ARRAY_READ && request->error == EIO && can_not_read (r))
    return;
  if (request->error) {
    TRACE (&h->proc, "resync: error %d", request->error);
    give_up (h);
    return;
  }
  switch (request->op) {
  case ARRAY_READ:
    submit (r, r->buf[0] || memcmp (r->buf, r->buf + 1, bytes - 1) ? ARRAY_WRITE
                                                                   : ARRAY_ZERO,
            request->offset, bytes);
    break;
  case ARRAY_FLUSH:
    if (r->bad_count > 0)
      tell (r);
    else
      settle (r);
    break;
  default:
    r->grain += r->length;
    next (r);
    break;
  }
}

/* ---- The end ---- */

static void
cleared (struct conn *c, struct nbd *n)
{
  struct resync *r = c->owner;
  unsigned m = member_of (r, c), count = 0;
  struct nbd *clear;

  if (n->error) {
    failed (r, m);
    return;
  }
  if (n->kind == NBD_CHANGE) {
    close_door (r, m);
    if (conns (r) == 0)
      host_detach (r->host);
    return;
  }
  clear = nbd_new (NBD_CHANGE);
  clear->records = make (64 * sizeof clear->records[0]);
  for (unsigned e = 0; e < w.config.member_bytes / EXTENT_BYTES; e++)
    if (r->bits[m] >> e & 1)
      clear->records[count++] = (struct batch_record){
        .kind = BATCH_SETTLE, .offset = e * EXTENT_BYTES,
        .length = EXTENT_BYTES,
      };
  clear->count = count;
  nbd_send (c, clear);
}

static void
loaded (struct resync *r)
{
  struct host_role *h = r->host;

  if (!r->ending) {
    next (r);
    return;
  }
  for (unsigned m = 0; m < w.layout.members; m++)
    if (r->bits[m])
      connect_door (r, m, h->map.peer[m].batch, cleared);
  if (conns (r) == 0)
    host_detach (h);
  else
    limit (r);
}

void
resync_end (struct host_role *h)
{
  bool whole = h->writable && h->resynced && host_is_whole (h->core);

  h->stage = HOST_ENDING;
  host_end (h->core);
  if (whole)
    begin (h, true);
  else
    host_detach (h);
}

void
resync_free (struct host_role *h)
{
  struct resync *r = h->resync;

  if (r == NULL)
    return;
  for (unsigned m = 0; m < w.layout.members; m++)
    close_door (r, m);
  h->resync = NULL;
  if (h->engine)
    array_client_close (h->engine, r->client);
  free (r->bad);
  free (r->buf);
  free (r);
}
