/* world-puller.c: a joining member fetches from the others what it lacks: the director and
 * the workers of plugin/puller.c and their connections, as events.  member/pull.h
 * decides.
 */

#include <config.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "member/pull.h"

#include "world.h"

#define WORKERS 3
#define POLL_MS 20
#define CONNECT_MS 5000

/* One thread's connections.  It waits for what it has asked, or for doors to open. */
struct fetch {
  struct join *join;
  void (*done) (void *owner);
  void *owner;
  uint64_t silent_ms;
  struct conn *conn[PLACES_MAX];
  bool open[PLACES_MAX];   /* its door has answered */
  bool broken[PLACES_MAX]; /* the next reader there hears of it */
  uint64_t heard[PLACES_MAX];
  bool opening;
  unsigned waits; /* for so many answers */
  enum copy_result result;
  struct copy_fault fault;
};

struct worker {
  struct join *join;
  struct fetch fetch;
  struct pull_worker pull;
  bool busy;                 /* with an extent, or with a connection */
  uint64_t *version;         /* data read for each slot of our place */
  struct copy_change change; /* being written */
};

struct join {
  struct member_role *m;
  struct pull *pull;
  bool going, again; /* go_on is under way; and is to look again */
  struct worker worker[WORKERS];

  /* The director's. */
  struct fetch fetch, intents;
  bool tasking;
  struct pull_task task;
  struct copy_request ask[PLACES_MAX];
  uint64_t bits[PLACES_MAX];
};

static void go_on (struct join *j);

/* ---- Connections ---- */

static void
fetch_close (struct fetch *f, unsigned member)
{
  struct conn *c = f->conn[member];

  f->conn[member] = NULL;
  f->open[member] = f->broken[member] = false;
  if (c)
    conn_close (c, 0);
}

static void
fetch_close_all (struct fetch *f)
{
  for (unsigned m = 0; m < PLACES_MAX; m++)
    fetch_close (f, m);
}

static void
links_of (const struct fetch *f, bool linked[ARRAY_MEMBERS_MAX])
{
  memset (linked, 0, ARRAY_MEMBERS_MAX * sizeof linked[0]);
  for (unsigned m = 0; m < PLACES_MAX; m++)
    linked[m] = f->open[m];
}

static void
fetch_begin (struct fetch *f, bool opening, void (*done) (void *))
{
  f->opening = opening;
  f->done = done;
  f->waits = 1; /* until fetch_one, when all is asked */
  f->result = COPY_DONE;
}

/* Everything that was asked has come to an end. */
static void
fetch_end (struct fetch *f, enum copy_result r)
{
  for (unsigned m = 0; r != COPY_DONE && m < PLACES_MAX; m++)
    if (f->conn[m] && f->conn[m]->in_flight)
      fetch_close (f, m);
  f->waits = 0;
  f->result = r;
  f->done (f->owner);
  go_on (f->join);
}

/* An answer, or all is asked. */
static void
fetch_one (struct fetch *f)
{
  if (--f->waits == 0)
    fetch_end (f, f->result);
}

static void
fetch_lost (struct fetch *f, unsigned member, const char *why)
{
  fetch_close (f, member);
  copy_blame (&f->fault, member, "%s", why);
  if (!f->opening)
    fetch_end (f, COPY_FAULT);
  else {
    f->result = COPY_FAULT;
    fetch_one (f);
  }
}

static void
broke (struct conn *c)
{
  struct fetch *f = c->owner;
  unsigned m = conn_place (f->conn, c);

  if (f->waits > 0 && c->in_flight)
    fetch_lost (f, m, "its connection broke");
  else
    f->broken[m] = true;
}

/* As a source's server says it: where it has nothing, there is a hole. */
static void
take_status (struct copy_request *r, const struct nbd *n)
{
  const struct place *p = &w.place[r->member];
  uint64_t end = r->offset + r->length, next;

  for (uint64_t at = r->offset; at < end; at = next) {
    int slot = place_find (r->member, at);

    next = slot < 0 ? end : at + grain_bytes;
    for (unsigned i = 0; slot < 0 && i < p->runs; i++)
      if (p->run[i].offset > at && p->run[i].offset < next)
        next = p->run[i].offset;
    copy_map_add (r->map, next, slot < 0, slot < 0 || n->versions[slot] == 0);
  }
}

static void
take_read (struct worker *worker, const struct copy_request *r,
           const struct nbd *n)
{
  unsigned place = worker->pull.copying.member;

  for (unsigned i = 0; i < n->versions_count; i++) {
    int slot = place_find (place, r->local + i * grain_bytes);

    if (slot >= 0)
      worker->version[slot] = n->versions[i];
  }
}

static void
answered (struct conn *c, struct nbd *n)
{
  struct fetch *f = c->owner;
  struct copy_request *r = n->asked;
  unsigned m = conn_place (f->conn, c);

  f->heard[m] = sim_now;
  if (n->kind == NBD_OPEN) {
    f->open[m] = n->error == 0;
    if (n->error)
      fetch_lost (f, m, "its door does not open");
    else
      fetch_one (f);
    return;
  }
  /* Without bad spots EIO is never about a place. */
  r->error = n->error == EIO && n->kind == NBD_READ && !disk_spots ()
               ? ESHUTDOWN
               : n->error;
  if (copy_refused (r)) {
    fetch_lost (f, m, "it refuses");
    return;
  }
  if (n->error == 0 && n->kind == NBD_STATUS)
    take_status (r, n);
  else if (n->error == 0 && n->kind == NBD_READ)
    take_read (f->owner, r, n);
  else if (n->kind == NBD_INTENTS)
    f->join->bits[m] = n->bits;
  fetch_one (f);
}

/* Asks for one more door to be opened. */
static void
fetch_open (struct fetch *f, unsigned member, bool intents)
{
  const struct answer *a = &f->join->m->last;
  const struct peer_address *peer = &a->peer[member];
  struct conn *c;

  fetch_close (f, member);
  f->waits++;
  if (!a->has_order || !a->order.source[member]) {
    fetch_lost (f, member, "it is no source any more");
    return;
  }
  c = conn_new (&f->join->m->proc, &w.member[peer->process],
                intents ? peer->intents : peer->data);
  c->owner = f;
  c->epoch = a->desire.epoch;
  c->answered = answered;
  c->broke = broke;
  f->conn[member] = c;
  f->heard[member] = sim_now;
}

static void
fetch_run (struct fetch *f, struct copy_request *list, bool intents,
           void (*done) (void *))
{
  static const enum nbd_kind kinds[] = {
    [COPY_READ] = NBD_READ,
    [COPY_STATUS] = NBD_STATUS,
    [COPY_FLUSH] = NBD_FLUSH,
  };

  fetch_begin (f, false, done);
  for (struct copy_request *r = list; r; r = r->next) {
    struct nbd *n;

    if (!f->open[r->member] || f->broken[r->member]) {
      fetch_lost (f, r->member, "its connection broke");
      return;
    }
    n = nbd_new (intents ? NBD_INTENTS : kinds[r->kind]);
    n->asked = r;
    n->offset = r->offset;
    n->length = r->length;
    if (f->conn[r->member]->in_flight == NULL)
      f->heard[r->member] = sim_now;
    f->waits++;
    nbd_send (f->conn[r->member], n);
  }
  fetch_one (f);
}

/* A source that is silent for too long has failed. */
static void
fetch_look (struct fetch *f)
{
  uint64_t late = (f->opening ? CONNECT_MS : f->silent_ms) * MS;

  for (unsigned m = 0; m < PLACES_MAX && f->waits > 0; m++)
    if (f->conn[m] && f->conn[m]->in_flight && sim_now >= f->heard[m] + late)
      fetch_lost (f, m, "no answer");
}

/* ---- Workers ---- */

static void
connected (void *owner)
{
  struct worker *worker = owner;

  if (worker->fetch.result == COPY_FAULT)
    pull_unreachable (worker->join->pull, &worker->pull, &worker->fetch.fault,
                      now_ms ());
  worker->busy = false;
}

/* The extent is given back. */
static void
finish (struct worker *worker)
{
  struct copying *c = &worker->pull.copying;
  struct join *j = worker->join;

  steps++;
  if (c->result == COPY_FAULT)
    fetch_close (&worker->fetch, c->fault.member);
  pull_copied (j->pull, &worker->pull, now_ms ());
  if (c->result == COPY_CONNECT) {
    fetch_begin (&worker->fetch, true, connected);
    fetch_open (&worker->fetch, c->fault.member, false);
    fetch_one (&worker->fetch);
  }
  else {
    worker->busy = false;
    j->again = true;
  }
}

static void wrote (void *owner);

static void
write_next (struct worker *worker)
{
  struct join *j = worker->join;
  struct copying *c = &worker->pull.copying;

  while (copy_write (c, &worker->change))
    if (worker->change.passed)
      TRACE (&j->m->proc, "passes %u bytes at %llu", worker->change.length,
             (unsigned long long) worker->change.local);
    else if (pull_cancelled (j->pull, worker->pull.run))
      copy_stop (c, COPY_CANCELLED);
    else {
      process_after (&j->m->proc,
                     between (10 * US, 1 * MS) + disk_slow_ns (j->m->disk),
                     wrote, worker);
      return;
    }
  finish (worker);
}

static void
wrote (void *owner)
{
  struct worker *worker = owner;
  struct join *j = worker->join;
  struct disk *d = j->m->disk;
  unsigned place = worker->pull.copying.member;
  const struct copy_change *change = &worker->change;

  if (disk_hangs (d)) {
    process_after (&j->m->proc, disk_hangs (d), wrote, worker);
    return;
  }
  /* (A disk that got another place meanwhile keeps nothing of this one.) */
  for (unsigned s = 0; (int) place == d->place && s < w.place[place].slots;
       s++) {
    uint64_t at = slot_offset (place, s);

    if (at - change->local >= change->length)
      continue;
    if (!(d->bits >> (at / EXTENT_BYTES) & 1))
      sim_fail ("member %u copies extent %llu, the bit of which is clear",
                j->m->proc.number, (unsigned long long) (at / EXTENT_BYTES));
    if (d->write_errors == 0)
      disk_write (d, s, change->kind == BATCH_WRITE ? worker->version[s] : 0,
                  false);
  }
  if (!d->full_before && disk_refuses (d)) {
    member_refused (j->m->engine, ENOSPC);
    copy_blame (&worker->pull.copying.fault, worker->pull.copying.member,
                "its disk has no room");
    copy_stop (&worker->pull.copying, COPY_FAULT);
  }
  else if (door_fails (j->m, "writing failed"))
    copy_stop (&worker->pull.copying, COPY_BROKEN);
  write_next (worker);
  go_on (j);
}

static void worker_step (void *owner);

/* Ask for more, or write what has come. */
static void
worker_go (struct worker *worker)
{
  struct copy_request *list = copy_ask (&worker->pull.copying);

  if (list)
    fetch_run (&worker->fetch, list, false, worker_step);
  else
    write_next (worker);
}

static void
worker_step (void *owner)
{
  struct worker *worker = owner;
  struct copying *c = &worker->pull.copying;

  if (worker->fetch.result != COPY_DONE) {
    c->fault = worker->fetch.fault;
    copy_stop (c, worker->fetch.result);
  }
  worker_go (worker);
}

static void
worker_look (struct worker *worker)
{
  struct join *j = worker->join;
  bool linked[ARRAY_MEMBERS_MAX];
  uint64_t wait_ms;

  if (worker->busy) {
    if (worker->fetch.waits > 0 && !worker->fetch.opening &&
        pull_cancelled (j->pull, worker->pull.run))
      fetch_end (&worker->fetch, COPY_CANCELLED);
    return;
  }
  if (!j->m->last.has_order) {
    fetch_close_all (&worker->fetch); /* it has ended */
    return;
  }
  links_of (&worker->fetch, linked);
  if (!pull_next (j->pull, &worker->pull, linked, now_ms (), &wait_ms))
    return;
  steps++;
  TRACE (&j->m->proc, "copies extent %llu",
         (unsigned long long) worker->pull.copying.extent);
  worker->busy = true;
  free (worker->version);
  worker->version = make (
    w.place[worker->pull.copying.member].slots * sizeof worker->version[0] + 1);
  worker_go (worker);
}

/* ---- The director ---- */

static void
task_done (struct join *j, enum copy_result r, const struct copy_fault *fault)
{
  steps++;
  j->tasking = false;
  pull_task_done (j->pull, &j->task, r, fault, now_ms ());
}

static void
sources_connected (void *owner)
{
  struct join *j = owner;

  links_of (&j->fetch, j->task.linked);
  task_done (j, COPY_DONE, NULL);
}

static void
intents_read (void *owner)
{
  struct join *j = owner;
  unsigned bytes = member_map_bytes (j->m->engine);

  for (unsigned m = 0; m < w.layout.members; m++)
    if (j->intents.result == COPY_DONE && j->task.members[m])
      pull_task_map (&j->task, m, (const uint8_t *) &j->bits[m],
                     bytes < 8 ? bytes : 8);
  fetch_close_all (&j->intents);
  task_done (j, j->intents.result, &j->intents.fault);
}

static struct copy_request *
ask_members (struct join *j, enum copy_request_kind kind)
{
  struct copy_request *list = NULL;

  for (unsigned m = 0; m < w.layout.members; m++)
    if (j->task.members[m]) {
      j->ask[m] = (struct copy_request) { .next = list,
                                          .kind = kind,
                                          .member = m };
      list = &j->ask[m];
    }
  return list;
}

static void
intents_open (void *owner)
{
  struct join *j = owner;

  if (j->intents.result != COPY_DONE)
    intents_read (j);
  else
    fetch_run (&j->intents, ask_members (j, COPY_READ), true, intents_read);
}

static void
sources_flushed (void *owner)
{
  struct join *j = owner;
  enum copy_result r = j->fetch.result;

  for (unsigned m = 0; m < w.layout.members; m++)
    if (r == COPY_DONE && j->task.members[m] && j->ask[m].error) {
      copy_blame (&j->fetch.fault, m, "flushing failed");
      fetch_close (&j->fetch, m);
      r = COPY_FAULT;
    }
  task_done (j, r, &j->fetch.fault);
}

static void
synced (void *owner)
{
  struct join *j = owner;

  if (disk_hangs (j->m->disk)) {
    process_after (&j->m->proc, disk_hangs (j->m->disk), synced, j);
    return;
  }
  if (door_fails (j->m, "flushing failed"))
    task_done (j, COPY_BROKEN, NULL);
  else {
    disk_flush (j->m->disk);
    task_done (j, COPY_DONE, NULL);
  }
  go_on (j);
}

static void
open_members (struct join *j, struct fetch *f, void (*done) (void *))
{
  fetch_begin (f, true, done);
  for (unsigned m = 0; m < w.layout.members; m++)
    if (j->task.members[m])
      fetch_open (f, m, f == &j->intents);
  fetch_one (f);
}

static void
director_look (struct join *j)
{
  bool linked[ARRAY_MEMBERS_MAX];

  if (j->tasking) {
    if (j->task.kind == PULL_FLUSH && j->fetch.waits > 0 &&
        pull_cancelled (j->pull, j->task.run))
      fetch_end (&j->fetch, COPY_CANCELLED);
    return;
  }
  if (!j->m->last.has_order) {
    fetch_close_all (&j->fetch); /* it has ended */
    return;
  }
  links_of (&j->fetch, linked);
  if (!pull_next_task (j->pull, linked, now_ms (), &j->task))
    return;
  steps++;
  j->tasking = true;
  switch (j->task.kind) {
  case PULL_CONNECT:
    open_members (j, &j->fetch, sources_connected);
    break;
  case PULL_INTENTS:
    TRACE (&j->m->proc, "asks its peers for their intents");
    open_members (j, &j->intents, intents_open);
    break;
  case PULL_FLUSH:
    fetch_run (&j->fetch, ask_members (j, COPY_FLUSH), false, sources_flushed);
    break;
  case PULL_SYNC:
    process_after (&j->m->proc, between (50 * US, 2 * MS), synced, j);
    break;
  }
}

/* ---- The whole ---- */

/* Workers that can go on do. */
static void
go_on (struct join *j)
{
  struct copy_fault fault;

  j->again = true;
  if (j->going)
    return;
  j->going = true;
  while (j->again) {
    j->again = false;
    director_look (j);
    for (unsigned i = 0; i < WORKERS; i++)
      worker_look (&j->worker[i]);
    while (pull_news (j->pull, &fault))
      TRACE (&j->m->proc, "waits for member %u: %s", fault.member, fault.why);
    if (pull_wakes (j->pull)) {
      doors_retry (j->m);
      member_act (j->m);
      j->again = true;
    }
  }
  j->going = false;
}

static void
poll_again (void *owner)
{
  struct join *j = owner;

  fetch_look (&j->fetch);
  fetch_look (&j->intents);
  for (unsigned i = 0; i < WORKERS; i++)
    fetch_look (&j->worker[i].fetch);
  go_on (j);
  process_after (&j->m->proc, POLL_MS * MS, poll_again, j);
}

static struct join *
join_new (struct member_role *m)
{
  struct join *j = make (sizeof *j);

  m->join = j;
  j->m = m;
  /* Sometimes much is copied while something is flushed. */
  j->pull = pull_new (m->engine, between (1, 4));
  j->fetch = (struct fetch) { .join = j,
                              .owner = j,
                              .silent_ms = PULL_FLUSH_SILENT_MS };
  j->intents = (struct fetch) { .join = j,
                                .owner = j,
                                .silent_ms = COPY_SILENT_MS };
  for (unsigned i = 0; i < WORKERS; i++) {
    struct worker *worker = &j->worker[i];

    worker->join = j;
    worker->fetch = (struct fetch) { .join = j,
                                     .owner = worker,
                                     .silent_ms = COPY_SILENT_MS };
  }
  process_after (&m->proc, POLL_MS * MS, poll_again, j);
  return j;
}

void
puller_obey (struct member_role *m)
{
  const struct answer *a = &m->last;
  struct pull_order o = { .epoch = a->order.epoch,
                          .paused = a->order.paused,
                          .rate = a->order.rate,
                          .layout = w.layout };
  struct join *j = m->join;

  if (j == NULL && !a->has_order)
    return;
  if (j == NULL)
    j = join_new (m);
  o.member = m->disk->place;
  memcpy (o.source, a->order.source, sizeof o.source);
  pull_obey (j->pull, a->has_order ? &o : NULL);
  go_on (j);
}

void
puller_stop (struct member_role *m)
{
  struct join *j = m->join;

  if (j == NULL)
    return;
  fetch_close_all (&j->fetch);
  fetch_close_all (&j->intents);
  for (unsigned i = 0; i < WORKERS; i++) {
    fetch_close_all (&j->worker[i].fetch);
    copy_free (&j->worker[i].pull.copying);
    free (j->worker[i].version);
  }
  if (j->tasking && j->task.kind == PULL_INTENTS)
    intents_free (&j->task.peers);
  pull_free (j->pull);
  m->join = NULL;
  free (j);
}

void
puller_words (struct member_role *m, struct cluster_join *words)
{
  struct member_join_progress p;

  words->phase = (enum cluster_join_phase) member_join_phase (m->engine);
  if (words->phase == CLUSTER_JOIN_NONE)
    return;
  words->epoch = member_join_epoch (m->engine);
  member_join_progress (m->engine, &p);
  words->todo_bytes = p.todo * EXTENT_BYTES;
  words->total_bytes = p.total * EXTENT_BYTES;
}
