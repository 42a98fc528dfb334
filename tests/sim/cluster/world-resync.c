/* world-resync.c: carries out the orders of the resync's engine (core/host/resync.h), as
 * plugin/array-resync.c does.  Its reads and writes are of the hot grains only.
 */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/resync.h"
#include "world.h"

#define TOLD_PAUSE_MS 10

struct copier {
  struct host_role *host;
  struct resync *resync;
  struct resync_action action;
  bool busy;    /* the action is under way */
  bool pumping; /* its end does not start the next one */
  enum resync_mode mode;
  /* Of one that begins with a lease of all: is it equal, so that all bits may fall,
   * before anybody else writes?
   */
  bool settles;
  struct array_range *ranges; /* OF_ORPHANS */
  unsigned count;
  bool copied; /* something */
  struct array_client *client;
  struct array_request request;
  uint64_t at;  /* READ, WRITE: up to here it is done */
  uint8_t *buf; /* of all hot grains */
  struct conn *conn[PLACES_MAX];
  uint64_t late_at;
  /* As the map said when it began.  Where several write, a later map may know more or less
   * of a member, and then it would seem to be newer, or older, than those asked before.
   */
  uint64_t reach[PLACES_MAX], life[PLACES_MAX];
};

static void
close_door (struct copier *t, unsigned m)
{
  if (t->conn[m])
    conn_close (t->conn[m], 0);
  t->conn[m] = NULL;
}

static void pump (struct host_role *h);

static void
end_action (struct copier *t, int error)
{
  t->busy = false;
  resync_done (t->resync, error);
  pump (t->host);
}

/* ---- Doors ---- */

static bool
asks_member (const struct copier *t)
{
  enum resync_kind kind = t->action.kind;

  return t->busy &&
         (kind == RESYNC_MAP || kind == RESYNC_OPEN || kind == RESYNC_SEND);
}

static void
failed (struct copier *t, unsigned m)
{
  close_door (t, m);
  if (asks_member (t) && t->action.member == m)
    end_action (t, EIO);
}

static void
broke (struct conn *c)
{
  struct copier *t = c->owner;

  failed (t, conn_place (t->conn, c));
}

static void
late (void *owner)
{
  struct host_role *h = owner;
  struct copier *t = h->copier;

  if (t && asks_member (t) && sim_now >= t->late_at)
    failed (t, t->action.member);
}

static void
limit (struct copier *t)
{
  t->late_at = sim_now + w.config.connect_ms * MS;
  process_after (&t->host->proc, w.config.connect_ms * MS, late, t->host);
}

static uint64_t
reach (const struct copier *t, unsigned m)
{
  const struct host_role *h = t->host;
  uint64_t now = h->map.peer[m].reach;

  if (h->part_length == 0)
    return now;
  return t->life[m] == h->map.peer[m].life || t->reach[m] < now ? t->reach[m]
                                                                : now;
}

static void
answered (struct conn *c, struct nbd *n)
{
  struct copier *t = c->owner;
  unsigned m = conn_place (t->conn, c);

  if (n->error) {
    failed (t, m);
    return;
  }
  if (n->kind == NBD_OPEN && t->action.kind == RESYNC_MAP) {
    nbd_send (c, nbd_new (NBD_INTENTS));
    return;
  }
  if (n->kind == NBD_INTENTS) {
    uint8_t *bits = make (sizeof n->bits);

    memcpy (bits, &n->bits, sizeof n->bits);
    resync_map (t->resync, reach (t, m), w.config.member_bytes, bits,
                sizeof n->bits);
    close_door (t, m);
  }
  end_action (t, 0);
}

static void
open_door (struct copier *t, const char *name)
{
  struct host_role *h = t->host;
  unsigned m = t->action.member;
  struct conn *c = conn_new (&h->proc, &w.member[h->map.peer[m].process], name);

  c->owner = t;
  c->epoch = h->map.epoch;
  c->session = h->session;
  c->answered = answered;
  c->broke = broke;
  t->conn[m] = c;
  limit (t);
}

static void
send_records (struct copier *t)
{
  const struct resync_action *a = &t->action;
  struct nbd *n;

  if (t->conn[a->member] == NULL) {
    end_action (t, ENOTCONN);
    return;
  }
  n = nbd_new (NBD_CHANGE);
  n->count = a->count;
  n->records = make (a->count * sizeof n->records[0]);
  memcpy (n->records, a->records, a->count * sizeof n->records[0]);
  nbd_send (t->conn[a->member], n);
  limit (t);
}

/* ---- Data ---- */

static unsigned
flags (const struct copier *t)
{
  const struct host_role *h = t->host;

  return t->mode == RESYNC_OF_ORPHANS || (h->lessee && !h->leases)
           ? ARRAY_RECOVER
           : 0;
}

/* The next hot grains in the range that lie side by side. */
static void
go_on (struct copier *t)
{
  const struct resync_action *a = &t->action;
  uint64_t end = a->offset + a->length, offset = end, behind = end;
  uint8_t *buf;

  for (const struct area *x = w.area; x < w.area + w.config.areas; x++) {
    uint64_t from = x->offset > t->at ? x->offset : t->at;
    uint64_t to = x->offset + x->grains * grain_bytes;

    if (from < to && from < offset) {
      offset = from;
      behind = to < end ? to : end;
    }
  }
  if (offset == end) {
    end_action (t, 0);
    return;
  }
  t->at = behind;
  buf = t->buf + (uint64_t) offset_grain (offset) * grain_bytes;
  t->request = (struct array_request) { .op = ARRAY_READ,
                                        .client = t->client,
                                        .offset = offset,
                                        .length = behind - offset,
                                        .buf = buf };
  t->request.flags = flags (t);
  if (a->kind == RESYNC_READ)
    t->request.copy = 1 + a->copy;
  else
    t->request.op = buf[0] || memcmp (buf, buf + 1, behind - offset - 1)
                      ? ARRAY_WRITE
                      : ARRAY_ZERO;
  host_submit (t->host, &t->request);
}

static void settle (struct host_role *h, bool covered);

void
host_resync_answered (struct host_role *h, struct array_request *r)
{
  struct copier *t = h->copier;

  if (t == NULL)
    return;
  if (t->settles) {
    settle (h, r->error == 0);
    return;
  }
  TRACE (&h->proc, "resync: %d of %llu bytes at %llu: %d", r->op,
         (unsigned long long) r->length, (unsigned long long) r->offset,
         r->error);
  counters.orphans += h->part_length && r->op == ARRAY_FLUSH && !r->error &&
                      t->copied;
  t->copied |= r->op == ARRAY_READ;
  if (r->op == ARRAY_READ && r->error == EIO && !disk_spots ())
    end_action (t, ENXIO); /* it is no matter of a place */
  else if (r->error || r->op == ARRAY_FLUSH)
    end_action (t, r->error);
  else
    go_on (t);
}

/* ---- Step by step ---- */

static void
paused (void *owner)
{
  struct host_role *h = owner;

  if (h->copier && h->copier->busy && h->copier->action.kind == RESYNC_PAUSE)
    end_action (h->copier, 0);
}

static void
until_told (void *owner)
{
  struct host_role *h = owner;

  if (h->copier == NULL || !h->copier->busy ||
      h->copier->action.kind != RESYNC_OLDER)
    return;
  if (host_older_told (h->core))
    end_action (h->copier, 0);
  else
    process_after (&h->proc, TOLD_PAUSE_MS * MS, until_told, h);
}

static void
carry_out (struct copier *t)
{
  struct host_role *h = t->host;
  const struct resync_action *a = &t->action;

  switch (a->kind) {
  case RESYNC_MAP:
    open_door (t, h->map.peer[a->member].intents);
    break;
  case RESYNC_LOST:
    array_lost (h->engine, a->member, "its intent map can't be read", sim_now);
    host_take (h);
    end_action (t, 0);
    break;
  case RESYNC_PAUSE:
    process_after (&h->proc, RESYNC_PAUSE_MS * MS, paused, h);
    break;
  case RESYNC_OLDER:
    host_older (h->core);
    host_take (h);
    until_told (h);
    break;
  case RESYNC_READ:
  case RESYNC_WRITE:
    t->at = a->offset;
    go_on (t);
    break;
  case RESYNC_FLUSH:
    t->request = (struct array_request) { .op = ARRAY_FLUSH,
                                          .flags = flags (t),
                                          .client = t->client };
    host_submit (h, &t->request);
    break;
  case RESYNC_OPEN:
    open_door (t, h->map.peer[a->member].batch);
    break;
  case RESYNC_SEND:
    send_records (t);
    break;
  case RESYNC_CLOSE:
    close_door (t, a->member);
    end_action (t, 0);
    break;
  case RESYNC_SETTLED:
    steps++;
    array_settled (h->engine, a->member, a->offset, a->length, sim_now);
    end_action (t, 0);
    break;
  case RESYNC_OVER:
    break;
  }
}

static void begin (struct host_role *h, enum resync_mode mode,
                   const struct array_range *ranges, unsigned count);

/* May all bits fall, whoever has set them? */
static bool
may_settle (const struct host_role *h)
{
  return h->writable && h->resynced && host_is_whole (h->core) &&
         !array_differs (h->engine);
}

static void
serve (struct host_role *h)
{
  if (h->lessee && h->begins_with_all)
    leases_recovered_all (h);
  host_equal (h->core);
  host_serve (h);
  host_take (h);
}

/* All data written before the array was attached is covered, or is not. */
static void
settle (struct host_role *h, bool covered)
{
  host_resync_free (h);
  if (covered && may_settle (h))
    begin (h, RESYNC_AT_END, NULL, 0);
  else
    serve (h);
}

static void
cover (struct host_role *h)
{
  struct copier *t = h->copier;

  t->settles = true;
  t->request = (struct array_request) { .op = ARRAY_FLUSH,
                                        .flags = ARRAY_COVER,
                                        .client = t->client };
  host_submit (h, &t->request);
}

static void
orphans_over (struct host_role *h, int error)
{
  struct copier *t = h->copier;
  struct array_range *ranges = t->ranges;
  unsigned count = t->count;

  t->ranges = NULL;
  host_resync_free (h);
  leases_recovered (h, ranges, count, error == 0);
  free (ranges);
  host_take (h);
}

static void
over (struct copier *t)
{
  struct host_role *h = t->host;
  enum resync_mode mode = t->mode;
  bool settled = t->action.settled;
  int error = t->action.error;
  size_t bad;

  resync_bad (t->resync, &bad);
  TRACE (&h->proc, "resync: over, error %d, %zu bad places%s", error, bad,
         settled ? "" : ", bits stay");
  if (mode == RESYNC_OF_ORPHANS) {
    orphans_over (h, error);
    return;
  }
  if (mode == RESYNC_AT_ATTACH && error == 0) {
    h->resynced = settled;
    if (h->lessee && h->begins_with_all && may_settle (h)) {
      cover (h);
      return;
    }
  }
  host_resync_free (h);
  if (mode == RESYNC_AT_ATTACH && error == 0)
    serve (h);
  else if (mode == RESYNC_AT_END && h->lessee)
    serve (h);
  else if (mode != RESYNC_AT_ATTACH || array_idle (h->engine))
    host_detach (h);
  else
    host_stop (h, EIO);
}

static void
pump (struct host_role *h)
{
  struct copier *t = h->copier;

  if (t->pumping)
    return;
  t->pumping = true;
  while (!t->busy && h->stage != HOST_OVER) {
    resync_next (t->resync, h->states, &t->action);
    if (t->action.kind == RESYNC_OVER) {
      over (t);
      return;
    }
    t->busy = true;
    carry_out (t);
  }
  t->pumping = false;
}

static void
begin (struct host_role *h, enum resync_mode mode,
       const struct array_range *ranges, unsigned count)
{
  struct copier *t = h->copier = make (sizeof *t);

  t->host = h;
  t->mode = mode;
  t->resync = resync_new (&w.layout, ranges, count, mode);
  t->client = array_client_open (h->engine);
  t->buf = make (w.grains * grain_bytes);
  for (unsigned m = 0; m < w.layout.members; m++) {
    t->reach[m] = h->map.peer[m].reach;
    t->life[m] = h->map.peer[m].life;
  }
  if (mode == RESYNC_AT_ATTACH || mode == RESYNC_OF_ORPHANS)
    shared_recovers (h);
  if (mode == RESYNC_OF_ORPHANS) {
    t->ranges = make (count * sizeof *ranges);
    memcpy (t->ranges, ranges, count * sizeof *ranges);
    t->count = count;
  }
  pump (h);
}

void
host_resync (struct host_role *h)
{
  struct array_range part = { h->part_offset, h->part_length };

  h->stage = HOST_RESYNC;
  if (h->lessee && h->begins_with_all)
    leases_recover_all (h);
  begin (h, RESYNC_AT_ATTACH, &part, !h->begins_with_all);
}

void
host_resync_orphans (struct host_role *h, const struct array_range *ranges,
                     unsigned count)
{
  begin (h, RESYNC_OF_ORPHANS, ranges, count);
}

void
host_resync_end (struct host_role *h)
{
  bool settles = may_settle (h);

  h->stage = HOST_ENDING;
  host_end (h->core);
  if (settles)
    begin (h, h->lessee ? RESYNC_AT_LEASES_END : RESYNC_AT_END, NULL, 0);
  else
    host_detach (h);
}

void
host_resync_free (struct host_role *h)
{
  struct copier *t = h->copier;

  if (t == NULL)
    return;
  for (unsigned m = 0; m < w.layout.members; m++)
    close_door (t, m);
  h->copier = NULL;
  if (h->engine)
    array_client_close (h->engine, t->client);
  resync_free (t->resync);
  free (t->ranges);
  free (t->buf);
  free (t);
}
