/* clients.c: the requests to an array process. */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"

/* One request; kept in the host's list until it is done. */
struct request {
  struct array_request r; /* first */
  struct request *next;
  struct asked *asked;
  unsigned number;
  bool alone; /* nothing else was under way, nor was asked since */
  uint8_t *buf;
};

/* Its connection is closed if nothing is left of it, and it makes another. */
static void
reconnect (struct host_role *h, unsigned client)
{
  for (const struct request *q = h->requests; q; q = q->next)
    if (q->r.client == h->client[client])
      return;
  array_client_close (h->engine, h->client[client]);
  h->client[client] = array_client_open (h->engine);
  oracle_closed (h, client);
}

static void
send (struct host_role *h, const struct array_request *how)
{
  struct request *q = make (sizeof *q);
  unsigned client = sim_chance (60) ? 0 : sim_below (CLIENTS);

  if (sim_chance (2))
    reconnect (h, client);
  q->r = *how;
  q->r.client = h->client[client];
  q->r.owner = q;
  q->buf = q->r.buf = make (q->r.length + 1);
  q->asked = oracle_submit (h, &q->r, client);
  q->alone = h->outstanding == 0;
  for (struct request *o = h->requests; o; o = o->next)
    o->alone = false;
  q->next = h->requests;
  h->requests = q;
  h->outstanding++;
  counters.requests++;
  q->number = ++w.requests;
  TRACE (&h->proc,
         "request %u of client %u: op %d of %llu bytes at %llu, "
         "flags %u",
         q->number, client, q->r.op, (unsigned long long) q->r.length,
         (unsigned long long) q->r.offset, q->r.flags);
  host_submit (h, &q->r);
}

uint64_t
clients_wait_ns (const struct host_role *h)
{
  uint64_t first = sim_now;

  for (const struct request *q = h->requests; q; q = q->next)
    if (q->asked->when < first)
      first = q->asked->when;
  return sim_now - first;
}

void
clients_send (struct host_role *h, enum array_op op, unsigned flags,
              uint64_t offset, uint64_t length)
{
  struct array_request r = {
    .op = op, .flags = flags, .offset = offset, .length = length
  };

  send (h, &r);
}

/* A client's writes, mostly within its host's part. */
static void
within (const struct host_role *h, struct array_request *r)
{
  uint64_t from = r->offset, to = r->offset + r->length;
  uint64_t end = h->part_offset + h->part_length;

  if (sim_chance (3))
    return;
  if (from < h->part_offset)
    from = h->part_offset;
  if (to > end)
    to = end;
  if (from >= to) {
    r->op = ARRAY_READ;
    return;
  }
  r->offset = from;
  r->length = to - from;
}

/* Where leases come and go: few grains for many requests, or one after the other. */
static void
aim (struct host_role *h, struct array_request *r)
{
  const struct area *a = &w.area[sim_below (w.config.areas)];
  unsigned first = sim_below (a->grains);
  unsigned count = 1 + sim_below (sim_chance (70) ? 3 : a->grains);

  if (sim_chance (w.config.hot)) {
    a = &w.area[0];
    first = sim_below (w.config.hot_grains < a->grains ? w.config.hot_grains
                                                       : a->grains);
    count = 1 + sim_below (2);
  }
  else if (sim_chance (w.config.stream)) {
    h->streams = (h->streams + sim_below (4)) % w.grains;
    for (a = w.area; h->streams - a->first >= a->grains; a++)
      ;
    first = h->streams - a->first;
  }
  if (count > a->grains - first)
    count = a->grains - first;
  r->offset = a->offset + first * grain_bytes;
  r->length = count * grain_bytes;
}

static void
one (struct host_role *h)
{
  unsigned dice = sim_below (100);
  struct array_request r = {
    .op = !h->writable || dice >= 72 ? ARRAY_READ
          : dice < 50                ? ARRAY_WRITE
          : dice < 57                ? ARRAY_ZERO
          : dice < 61                ? ARRAY_TRIM
                                     : ARRAY_FLUSH,
  };

  if (w.config.syncs && h->writable)
    r.op = dice < 30 ? ARRAY_WRITE : ARRAY_FLUSH;

  if (r.op != ARRAY_FLUSH && w.config.leases)
    aim (h, &r);
  else if (r.op != ARRAY_FLUSH) {
    const struct area *a =
      &w.area[w.area_only ? w.area_only - 1 : sim_below (w.config.areas)];
    unsigned first = sim_below (a->grains);
    unsigned count = 1 + sim_below (sim_chance (70) ? 3 : a->grains);

    if (count > a->grains - first)
      count = a->grains - first;
    r.offset = a->offset + first * grain_bytes;
    r.length = count * grain_bytes;
  }
  if (r.op != ARRAY_READ && r.op != ARRAY_FLUSH && h->part_length > 0)
    within (h, &r);
  if (r.op != ARRAY_READ && r.op != ARRAY_FLUSH) {
    if (sim_chance (10))
      r.flags |= ARRAY_FUA;
    if (r.op == ARRAY_ZERO && sim_chance (50))
      r.flags |= ARRAY_MAY_TRIM;
  }
  send (h, &r);
}

/* A read that a cut-off host can do without others. */
static void
one_of_its_own (struct host_role *h)
{
  for (unsigned i = 0; i < 30 && h->outstanding < 4 * OUTSTANDING_MAX; i++) {
    unsigned g = sim_below (w.grains);
    unsigned c = sim_chance (60) ? 0 : sim_below (w.layout.copies);
    const struct disk *d = place_disk (store_array (), w.copy[g][c].member);

    if (net_cut (h->proc.party, w.member[disk_holder (d->uuid)].proc.party))
      continue;
    clients_send (h, ARRAY_READ, 0, grain_offset (g), grain_bytes);
    return;
  }
}

static void
poll (void *owner)
{
  struct host_role *h = owner;

  if (h->stage != HOST_SERVING)
    return;
  if (h->wants_detach) {
    if (h->outstanding == 0 && h->leases_busy & LESSEE_DO_RECOVER)
      process_after (&h->proc, 10 * MS, poll, h); /* it owes that */
    else if (h->outstanding == 0)
      clients_send (h, ARRAY_FLUSH, ARRAY_COVER, 0, 0);
    return;
  }
  if (sim_now < h->exiled_until) {
    if (sim_now >= h->reads_at)
      one_of_its_own (h);
    process_after (&h->proc, between (10, 300) * MS, poll, h);
    return;
  }
  if (w.working && sim_now >= w.quiet_until && sim_now >= h->rests_until &&
      h->outstanding < OUTSTANDING_MAX)
    one (h);
  if (w.working)
    process_after (&h->proc, sim_below (2 * w.config.client_us * US) + 1, poll,
                   h);
}

void
clients_poll (struct host_role *h)
{
  process_after (&h->proc, 1, poll, h);
}

void
clients_done (struct host_role *h, struct array_request *r)
{
  struct request *q = r->owner, **p;

  for (p = &h->requests; *p != q; p = &(*p)->next)
    ;
  *p = q->next;
  h->outstanding--;
  TRACE (&h->proc, "request %u is done: %d", q->number, r->error);
  oracle_done (h, q->asked, r);
  if (h->stage == HOST_SERVING && h->wants_detach && h->outstanding == 0) {
    if (r->op == ARRAY_FLUSH && q->alone && array_idle (h->engine) &&
        !(h->leases_busy & LESSEE_DO_RECOVER))
      host_resync_end (h);
    else
      process_after (&h->proc, 10 * MS, poll, h);
  }
  free (q->buf);
  free (q);
}

/* Their host is gone, and they with it. */
void
clients_killed (struct host_role *h)
{
  struct request *q;

  while ((q = h->requests) != NULL) {
    h->requests = q->next;
    oracle_forget (q->asked);
    free (q->buf);
    free (q);
  }
  h->outstanding = 0;
}
