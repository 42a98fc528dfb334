/* doors.c: a member's doors, as plugin/member-role.c serves them. */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

struct door {
  struct door *next;
  struct conn *conn;
  struct member_pass *pass; /* NULL: not open */
  unsigned running;         /* requests, those that wait included */
  bool hung_up;
};

static void
door_free (struct member_role *m, struct door *d)
{
  struct door **p;

  for (p = &m->doors; *p != d; p = &(*p)->next)
    ;
  *p = d->next;
  if (d->pass)
    member_close (m->engine, d->pass);
  d->conn->door = NULL;
  conn_unref (d->conn);
  free (d);
}

static void
door_poll (struct member_role *m, struct door *d)
{
  if (d->hung_up && d->running == 0)
    door_free (m, d);
}

void
door_hangup (struct conn *c)
{
  conn_close (c, 1);
  if (c->door) {
    c->door->hung_up = true;
    door_poll (c->server, c->door);
  }
}

/* ---- Carrying out ---- */

bool
door_fails (struct member_role *m, const char *what)
{
  if (!disk_fails (m->disk))
    return false;
  member_fail (m->engine, EIO, what);
  return true;
}

/* Does it serve the disk of its place, as far as weftd has recorded it? */
static bool
is_member (const struct member_role *m)
{
  return store_array () && m->disk->place >= 0 &&
         place_disk (store_array (), m->disk->place) == m->disk;
}

/* The part of a record that the engine admits; partly: only some of it, because the
 * process is dying, or there is no room for the rest.
 */
static unsigned
apply_record (struct member_role *m, struct nbd *n,
              const struct batch_record *r, unsigned version, bool fua,
              bool partly)
{
  uint64_t end = r->offset + r->length, piece;

  for (uint64_t at = r->offset; at < end; at += piece) {
    bool goes;

    piece = end - at;
    goes = member_applies (m->engine, &n->request, at, &piece);
    for (uint64_t o = at; o < at + piece; o += grain_bytes) {
      uint64_t v = r->kind == BATCH_WRITE ? n->versions[version++] : 0;

      if (!goes || (partly && sim_chance (50)))
        continue;
      if (!(m->disk->bits >> (o / EXTENT_BYTES) & 1))
        sim_fail ("member %u writes to extent %" PRIu64
                  ", the intent bit of which is not on its disk",
                  m->proc.number, o / EXTENT_BYTES);
      if ((w.config.shared || w.config.leases) && is_member (m))
        oracle_changes (
          n->conn->session,
          w.place[m->disk->place].grain[place_slot (m->disk->place, o)],
          m->disk->place);
      if (bad_test (member_bad (m->engine), o, grain_bytes)) {
        disk_write (m->disk, place_slot (m->disk->place, o), v, true);
        if (!partly)
          member_bad_good (m->engine, o, grain_bytes);
      }
      else
        disk_write (m->disk, place_slot (m->disk->place, o), v, fua);
    }
  }
  return version;
}

static void
apply (struct member_role *m, struct nbd *n, bool partly)
{
  unsigned version = 0;
  bool single = n->count == 1;

  for (unsigned i = 0; i < n->count; i++)
    if (batch_changes_data (n->records[i].kind))
      version = apply_record (m, n, &n->records[i], version, n->fua && single,
                              partly);
  if (n->fua && !single && !partly)
    disk_flush (m->disk);
}

/* Some of it is in the list, or on a bad spot. */
static bool
unreadable (struct member_role *m, const struct nbd *n)
{
  bool any = false;

  for (uint64_t at = n->offset; at < n->offset + n->length; at += grain_bytes) {
    int slot = place_find (m->disk->place, at);

    if (slot < 0 || !(m->disk->slots[slot].spot || disk_bad (m->disk, slot)))
      continue;
    oracle_unread (w.place[m->disk->place].grain[slot], m->disk->place);
    any = true;
  }
  return any;
}

static void
read_slots (struct member_role *m, struct nbd *n)
{
  if (m->disk->read_errors > 0) {
    m->disk->read_errors--;
    w.read_errors++;
    for (uint64_t at = n->offset; at < n->offset + n->length;
         at += grain_bytes) {
      int slot = place_find (m->disk->place, at);

      if (slot >= 0)
        oracle_unread (w.place[m->disk->place].grain[slot], m->disk->place);
    }
    n->error = EIO;
    return;
  }
  if (disk_spots () && unreadable (m, n)) {
    n->error = EIO;
    return;
  }
  n->versions_count = n->length / grain_bytes;
  n->versions = make (n->versions_count * sizeof n->versions[0] + 1);
  for (unsigned i = 0; i < n->versions_count; i++) {
    int slot = place_find (m->disk->place, n->offset + i * grain_bytes);

    if (slot >= 0) /* else it is a probe's */
      n->versions[i] = m->disk->slots[slot].now;
  }
}

static void
perform (struct member_role *m, struct nbd *n)
{
  uint8_t bytes[8] = { 0 };

  switch (n->kind) {
  case NBD_READ:
    read_slots (m, n);
    break;
  case NBD_STATUS:
    /* Where it has not only zeroes, as far as it knows. */
    n->versions = make (m->disk->slots_count * sizeof n->versions[0] + 1);
    for (unsigned s = 0; s < m->disk->slots_count; s++)
      n->versions[s] = m->disk->slots[s].spot || disk_bad (m->disk, s)
                         ? GARBAGE
                         : m->disk->slots[s].now;
    break;
  case NBD_CHANGE:
    if (n->conn->epoch < m->disk->told_min_epoch)
      sim_fail ("member %u carries out a request of epoch %" PRIu64
                " and had confirmed %" PRIu64,
                m->proc.number, n->conn->epoch, m->disk->told_min_epoch);
    if (disk_refuses (m->disk)) {
      n->error = ENOSPC;
      counters.no_room++;
      if (m->disk->full_before)
        break;
      member_refused (m->engine, ENOSPC);
    }
    else if (door_fails (m, "writing failed"))
      n->error = EIO;
    apply (m, n, n->error != 0);
    break;
  case NBD_FLUSH:
    if (door_fails (m, "flushing failed"))
      n->error = EIO;
    else
      disk_flush (m->disk);
    break;
  case NBD_INTENTS:
    member_map_read (
      m->engine, 0,
      member_map_bytes (m->engine) < 8 ? member_map_bytes (m->engine) : 8,
      bytes);
    member_pass_mask (n->conn->door->pass, 0, 8, bytes);
    memcpy (&n->bits, bytes, 8);
    break;
  case NBD_ROUND:
    n->round = UINT64_MAX;
    break;
  case NBD_PULSE:
    n->round = disk_stuck_ms (m->disk);
    break;
  case NBD_OPEN:
    abort ();
  }
}

static void
wait (struct member_role *m, struct nbd *n)
{
  n->next = NULL;
  *m->waiting_tail = n;
  m->waiting_tail = &n->next;
}

static void
answer (struct member_role *m, struct nbd *n)
{
  struct door *d = n->conn->door;

  nbd_reply (n);
  d->running--;
  door_poll (m, d);
  nbd_unref (n);
}

/* The request has ended. */
static void
leave (struct member_role *m, struct nbd *n)
{
  bool wake = member_leave (m->engine, &n->request);

  steps++;
  answer (m, n);
  if (wake) {
    doors_retry (m);
    member_act (m);
  }
}

/* It is answered when the disk says the round that it brings or wants, if any. */
static void
round_or_leave (struct member_role *m, struct nbd *n)
{
  struct member_refusal refusal;
  enum member_verdict v = MEMBER_GO;

  for (unsigned i = 0; n->error == 0 && i < n->count; i++)
    if (n->records[i].kind == BATCH_ROUND)
      v = member_round (m->engine, n->conn->door->pass, n->records[i].length,
                        &refusal);
  if (n->error == 0 && n->kind == NBD_ROUND)
    v = member_noted (m->engine, n->conn->door->pass, &n->round, &refusal);
  if (v == MEMBER_WAIT) {
    n->rounds = true;
    wait (m, n);
    member_act (m);
    return;
  }
  if (v == MEMBER_REFUSE)
    n->error = refusal.error;
  leave (m, n);
}

/* A sign of life needs none. */
static bool
needs_disk (const struct nbd *n)
{
  return n->kind == NBD_READ || n->kind == NBD_STATUS || n->kind == NBD_FLUSH ||
         (n->kind == NBD_CHANGE && n->count > 0);
}

static void
carried_out (struct event *e)
{
  struct nbd *n = (struct nbd *) ((char *) e - offsetof (struct nbd, event));
  struct member_role *m = n->conn->server;
  enum life life = process_life (&m->proc, n->life, e);
  struct nbd **p;

  if (life == LIFE_GONE)
    nbd_unref (n);
  if (life != LIFE_RUNS)
    return;
  if (disk_hangs (m->disk) && needs_disk (n)) {
    event_push (e, disk_hangs (m->disk) + sim_below (MS));
    return;
  }
  if (needs_disk (n))
    m->disk->answered_at = sim_now;
  io_steps++;
  for (p = &m->running; *p != n; p = &(*p)->next)
    ;
  *p = n->next;
  n->next = NULL;
  perform (m, n);
  if (n->kind == NBD_CHANGE && !member_bad_settled (m->engine) &&
      !member_failed (m->engine)) {
    n->next = m->settling;
    m->settling = n;
    member_act (m);
  }
  else
    round_or_leave (m, n);
}

/* Requests that have waited for the list of bad ranges. */
static void
settled (struct member_role *m)
{
  struct member_refusal refusal;
  enum member_verdict v;
  struct nbd *n;

  while ((v = member_bad_settle (m->engine, &refusal)) != MEMBER_WAIT &&
         (n = m->settling) != NULL) {
    m->settling = n->next;
    if (v == MEMBER_REFUSE)
      n->error = refusal.error;
    round_or_leave (m, n);
  }
}

static void
go (struct member_role *m, struct nbd *n)
{
  n->life = m->proc.life;
  n->next = m->running;
  m->running = n;
  n->event.happen = carried_out;
  event_push (&n->event,
              m->slow * (sim_chance (3) ? between (1 * MS, 30 * MS)
                                        : between (10 * US, 200 * US)) +
                (needs_disk (n) ? disk_slow_ns (m->disk) : 0) *
                  (n->kind == NBD_FLUSH && disk_slow (m->disk)
                     ? m->disk->slow_syncs
                     : 1));
}

/* ---- Letting in ---- */

/* Each client shows the certificate of its process. */
static enum member_verdict
open_door (struct member_role *m, struct conn *c,
           struct member_refusal *refusal)
{
  char node[NAME_BYTES_MAX + 1];
  const struct member_client client = {
    .node = node,
    .process = strcmp (c->proc[0]->kind, "host") == 0 ? "array:a" : "disk:d",
  };

  snprintf (node, sizeof node, "n%u", c->proc[0]->party);
  return member_open (m->engine, c->name, &client, &c->door->pass, refusal);
}

static void
ask (struct member_role *m, struct nbd *n, bool first)
{
  struct member_refusal refusal;
  struct door *d = n->conn->door;
  enum member_verdict v;

  if (n->kind == NBD_OPEN)
    v = open_door (m, n->conn, &refusal);
  else if (first)
    v = member_admit (m->engine, d->pass, &n->request, &refusal);
  else
    v = member_retry (m->engine, d->pass, &n->request, &refusal);
  if (first && v == MEMBER_WAIT && n->kind != NBD_OPEN)
    v = member_retry (m->engine, d->pass, &n->request, &refusal);
  steps++;
  if (v == MEMBER_WAIT)
    wait (m, n);
  else if (n->kind == NBD_OPEN) {
    if (v == MEMBER_REFUSE) {
      TRACE (&m->proc, "refuses %.8s: %s", n->conn->name, refusal.why);
      n->error = refusal.error;
    }
    answer (m, n);
  }
  else if (v == MEMBER_GO)
    go (m, n);
  else {
    w.read_errors += n->kind == NBD_READ && refusal.error == EIO;
    TRACE (&m->proc, "refuses a request: %s", refusal.why);
    n->error = refusal.error;
    leave (m, n);
  }
}

void
doors_retry (struct member_role *m)
{
  struct nbd *list, *n;

  settled (m);
  list = m->waiting;
  m->waiting = NULL;
  m->waiting_tail = &m->waiting;
  while ((n = list) != NULL) {
    list = n->next;
    if (n->rounds)
      round_or_leave (m, n);
    else
      ask (m, n, false);
  }
}

void
door_request (struct conn *c, struct nbd *n)
{
  struct member_role *m = c->server;
  struct door *d = c->door;
  struct member_refusal refusal;

  if (n->kind == NBD_OPEN) {
    if (!m->listening) {
      conn_break (c);
      return;
    }
    d = c->door = make (sizeof *d);
    d->conn = c;
    c->refs++;
    d->next = m->doors;
    m->doors = d;
  }
  else if (d == NULL || d->pass == NULL)
    return;
  io_steps++;
  d->running++;
  n->refs++;
  n->request = (struct member_request) { .records = n->records,
                                         .count = n->count,
                                         .reads = n->kind == NBD_READ ||
                                                  n->kind == NBD_STATUS,
                                         .offset = n->offset,
                                         .now_ms = sim_now / MS };
  if (n->kind == NBD_READ)
    n->request.length = n->length;
  for (unsigned i = 0; i < n->count; i++)
    if (n->records[i].kind == BATCH_BAD &&
        member_bad_report (m->engine, d->pass, n->records[i].offset,
                           n->records[i].length, &refusal) != MEMBER_GO) {
      TRACE (&m->proc, "takes no bad block: %s", refusal.why);
      n->error = refusal.error;
      answer (m, n);
      return;
    }
  for (unsigned i = 0; i < n->count; i++)
    if (batch_clears (n->records[i].kind)) {
      counters.settles += n->records[i].kind == BATCH_SETTLE;
      counters.clears += n->records[i].kind == BATCH_CLEAR;
      TRACE (&m->proc, "%s extent %llu and %llu bytes",
             n->records[i].kind == BATCH_SETTLE ? "settles" : "clears",
             (unsigned long long) (n->records[i].offset / EXTENT_BYTES),
             (unsigned long long) n->records[i].length);
      member_clear (m->engine, d->pass, n->records[i].offset,
                    n->records[i].length, n->records[i].kind == BATCH_SETTLE);
    }
  ask (m, n, true);
  member_act (m);
}

/* The process dies: running requests were carried out, or not, or partly. */
void
doors_stop (struct member_role *m, bool power)
{
  struct nbd *n;

  for (n = m->running; n; n = n->next) /* their events free them */
    if (n->kind == NBD_CHANGE && sim_chance (70))
      apply (m, n, true);
  m->running = NULL;
  while ((n = m->settling) != NULL) {
    m->settling = n->next;
    nbd_unref (n);
  }
  while ((n = m->waiting) != NULL) {
    m->waiting = n->next;
    nbd_unref (n);
  }
  while (m->doors) {
    struct conn *c = m->doors->conn;

    c->refs++;
    if (!c->broken && !power)
      conn_break (c);
    door_free (m, m->doors);
    c->closed[1] = true;
    conn_unref (c);
  }
}
