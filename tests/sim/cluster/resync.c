/* resync.c: what a writer does before it lets clients in, as plugin/resync.c:
 * every hot grain of which a copy lies in a dirty extent is read and written
 * again through the engine; then a flush; then the extents are settled.
 */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

struct resync {
  struct host *host;
  struct conn *conn[PLACES_MAX];
  bool asked[PLACES_MAX], known[PLACES_MAX];
  uint64_t bits[PLACES_MAX];
  unsigned grain; /* the next to be looked at */
  unsigned length;
  unsigned failures;
  bool flushing;
  struct array_request request;
  uint8_t *buf;
};

static void next (struct resync *r);

static void
give_up (struct host *h)
{
  TRACE (&h->proc, "its resync fails");
  host_stop (h, EIO); /* it detaches, and starts again */
}

static void
close_door (struct resync *r, unsigned m)
{
  if (r->conn[m])
    conn_close (r->conn[m], 0);
  r->conn[m] = NULL;
}

static void
answered (struct conn *c, struct nbd *n)
{
  struct resync *r = c->owner;
  unsigned m = 0;

  if (r->host->stage != HOST_RESYNC)
    return;
  while (r->conn[m] != c)
    m++;
  if (n->error) {
    give_up (r->host);
    return;
  }
  if (n->kind == NBD_OPEN) {
    nbd_send (c, nbd_new (NBD_INTENTS));
    return;
  }
  r->bits[m] = n->bits;
  r->known[m] = true;
  close_door (r, m);
  next (r);
}

static void
broke (struct conn *c)
{
  struct resync *r = c->owner;

  give_up (r->host);
}

static void
ask (struct resync *r, unsigned m)
{
  struct host *h = r->host;
  struct conn *c = conn_new (&h->proc, &w.member[h->map.peer[m].disk],
                             h->map.peer[m].intents);

  c->owner = r;
  c->epoch = h->map.epoch;
  c->answered = answered;
  c->broke = broke;
  r->conn[m] = c;
  r->asked[m] = true;
}

static void
late (void *owner)
{
  struct host *h = owner;

  for (unsigned m = 0; h->stage == HOST_RESYNC && h->resync && m < w.layout.members; m++)
    if (h->resync->conn[m]) {
      give_up (h);
      return;
    }
}

void
resync_begin (struct host *h)
{
  struct resync *r = h->resync = make (sizeof *r);

  h->stage = HOST_RESYNC;
  r->host = h;
  r->buf = make (64 * grain_bytes);
  for (unsigned m = 0; m < w.layout.members; m++)
    if (h->states[m] == MEMBER_IN_SYNC)
      ask (r, m);
  process_after (&h->proc, w.config.connect_ms * MS, late, h);
  next (r);
}

static bool
dirty (const struct resync *r, unsigned grain)
{
  for (unsigned c = 0; c < w.layout.copies; c++) {
    const struct copy *at = &w.copy[grain][c];

    if (r->known[at->member] &&
        r->bits[at->member] >>
          (slot_offset (at->member, at->slot) / EXTENT_BYTES) & 1)
      return true;
  }
  return false;
}

static void
submit (struct resync *r, enum array_op op, uint64_t offset, uint64_t length)
{
  struct host *h = r->host;

  r->request = (struct array_request){ .op = op, .offset = offset,
                                       .length = length, .buf = r->buf };
  host_submit (h, &r->request);
}

static void
settle (struct resync *r)
{
  struct host *h = r->host;

  steps++;
  array_settled (h->engine, 0, 0, 0, sim_now);
  for (unsigned m = 0; m < w.layout.members; m++)
    for (unsigned e = 0; e < w.config.member_bytes / EXTENT_BYTES; e++)
      if (r->bits[m] >> e & 1) {
        steps++;
        array_settled (h->engine, m, e * EXTENT_BYTES, EXTENT_BYTES, sim_now);
      }
  resync_free (h);
  host_serve (h);
  host_take (h);
}

/* The next run of dirty grains that lie side by side in a unit. */
static void
next (struct resync *r)
{
  uint64_t offset;

  for (unsigned m = 0; m < w.layout.members; m++)
    if (r->conn[m])
      return; /* its map is not here yet */
  while (r->grain < w.grains && !dirty (r, r->grain))
    r->grain++;
  if (r->grain == w.grains) {
    r->flushing = true;
    submit (r, ARRAY_FLUSH, 0, 0);
    return;
  }
  offset = grain_offset (r->grain);
  r->length = 1;
  while (r->grain + r->length < w.grains &&
         grain_offset (r->grain + r->length) ==
           offset + r->length * grain_bytes &&
         (offset + r->length * grain_bytes) % w.config.unit != 0)
    r->length++;
  submit (r, ARRAY_READ, offset, r->length * grain_bytes);
}

void
resync_done (struct host *h, struct array_request *request)
{
  struct resync *r = h->resync;
  uint64_t bytes = r->length * grain_bytes;

  if (request->error) {
    /* A FLUSH may fail once: what was written is not known to be there. */
    TRACE (&h->proc, "resync: error %d", request->error);
    if (r->failures++ == 3 || !r->flushing) {
      give_up (h);
      return;
    }
    r->grain = 0;
    r->flushing = false;
    next (r);
    return;
  }
  switch (request->op) {
  case ARRAY_READ:
    submit (r, r->buf[0] || memcmp (r->buf, r->buf + 1, bytes - 1) ? ARRAY_WRITE
                                                                   : ARRAY_ZERO,
            request->offset, bytes);
    break;
  case ARRAY_FLUSH:
    settle (r);
    break;
  default:
    r->grain += r->length;
    next (r);
    break;
  }
}

void
resync_free (struct host *h)
{
  struct resync *r = h->resync;

  if (r == NULL)
    return;
  for (unsigned m = 0; m < w.layout.members; m++)
    close_door (r, m);
  h->resync = NULL;
  free (r->buf);
  free (r);
}
