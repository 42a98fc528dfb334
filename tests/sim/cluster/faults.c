/* faults.c: what goes wrong, and its end. */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

enum fault {
  KILL_MEMBER, CUT_MEMBER, KILL_HOST, CUT_HOST, CUT_ALL, KILL_WEFTD,
  OLD_DATABASE, BACKUP, PARTITION, HEAL, FLAP, BREAK, FREEZE, WRITE_ERROR,
  READ_ERROR, CORRUPT_SLOT, REPLACE, SPARE, CANCEL, JOIN,
  SLOW, DETACH, DRAIN, MAINTAIN, EVICT, FAULTS
};
static const unsigned weights[FAULTS] = {
  [KILL_MEMBER] = 16, [CUT_MEMBER] = 12, [KILL_HOST] = 8, [CUT_HOST] = 5,
  [CUT_ALL] = 3, [KILL_WEFTD] = 10, [OLD_DATABASE] = 1, [BACKUP] = 2,
  [PARTITION] = 12, [HEAL] = 14, [FLAP] = 5, [BREAK] = 8, [FREEZE] = 6,
  [WRITE_ERROR] = 4, [READ_ERROR] = 4, [CORRUPT_SLOT] = 2, [REPLACE] = 3,
  [SPARE] = 2, [CANCEL] = 2, [JOIN] = 4, [SLOW] = 4, [DETACH] = 4,
  [DRAIN] = 5, [MAINTAIN] = 2, [EVICT] = 3,
};

static void keeper (void *owner);

/* ---- Coming back ---- */

struct back {
  struct event event;
  void (*fn) (void *);
  void *what;
};

static void
back_happens (struct event *e)
{
  struct back *b = (struct back *)e;

  b->fn (b->what);
  free (b);
}

static void
later (uint64_t delay, void (*fn) (void *), void *what)
{
  struct back *b = make (sizeof *b);

  b->event.happen = back_happens;
  b->fn = fn;
  b->what = what;
  event_push (&b->event, delay);
}

static uint64_t
outage (void)
{
  return sim_chance (60)   ? between (10, 800) * MS
         : sim_chance (70) ? between (1000, 8000) * MS
                           : between (8, 25) * SECOND;
}

static void
member_back (void *what)
{
  struct member_role *m = what;

  if (m->proc.life == 0 && w.admin.life)
    member_start (m);
}

static void
weftd_back (void *what)
{
  if (w.weftd.proc.life == 0 && w.admin.life)
    weftd_start ();
}

static void
link_all (unsigned party, bool cut)
{
  for (unsigned p = 0; p < PARTIES; p++)
    if (p != party)
      w.cut[p][party] = w.cut[party][p] = cut;
}

static void
host_powered (void *what)
{
  struct host *h = what;

  link_all (h->proc.party, false);
}

/* ---- Single faults ---- */

static struct member_role *
some_member (void)
{
  struct member_role *m = &w.member[sim_below (w.disks)];

  return m->proc.life ? m : NULL;
}

static void
stop_member (struct member_role *m, bool power)
{
  member_stop (m, power);
  later (outage (), member_back, m);
}

static void
cut_host (struct host *h, uint64_t out)
{
  link_all (h->proc.party, true);
  if (h->proc.life)
    host_kill (h);
  if (!w.config.lone || h == w.host)
    h->start_at = sim_now + out + between (10, 3000) * MS;
  for (unsigned i = 0; i < w.disks; i++)
    if (w.member[i].proc.party == h->proc.party) {
      if (w.member[i].proc.life)
        member_stop (&w.member[i], true);
      later (out + between (1, 3000) * MS, member_back, &w.member[i]);
    }
  later (out, host_powered, h);
}

/* Not with an old database: it would count its starts, and seem to be newer. */
static void
kill_weftd (uint64_t out)
{
  if (w.old_database)
    return;
  if (w.weftd.proc.life)
    weftd_kill ();
  later (out, weftd_back, NULL);
}

static void
restore_newest (void *what)
{
  if (!w.old_database)
    return;
  if (w.weftd.proc.life)
    weftd_kill ();
  w.old_database = false;
  store_unrestore ();
  weftd_back (NULL);
}

static void
old_database (void)
{
  if (w.old_database || w.weftd.proc.life == 0)
    return;
  weftd_kill ();
  if (store_restore ()) {
    sim_trace ("weftd gets an old database");
    w.old_database = true;
    later (between (5, 15) * SECOND, restore_newest, NULL);
  }
  weftd_start ();
}

static void
partition (void)
{
  unsigned a = sim_below (w.config.hosts + 1), b = sim_below (w.config.hosts + 1);
  bool both = sim_chance (60);

  if (sim_chance (20)) { /* one from all others */
    link_all (a, true);
    sim_trace ("party %u is cut off", a);
    return;
  }
  if (a == b)
    return;
  w.cut[a][b] = true;
  if (both)
    w.cut[b][a] = true;
  sim_trace ("parties %u %s %u are cut off from each other", a,
             both ? "and" : "to", b);
  if (sim_chance (50))
    conn_break_some (a, b, 100);
}

static void
heal_network (void *what)
{
  sim_trace ("the network is whole");
  memset (w.cut, 0, sizeof w.cut);
}

static void
flap (void *what)
{
  struct member_role *m = what;

  if (w.healing || m->proc.life == 0)
    return;
  member_stop (m, false);
  later (between (5, 300) * MS, member_back, m);
  if (sim_chance (70))
    later (between (300, 2500) * MS, flap, m);
}

static void
freeze (void)
{
  unsigned which = sim_below (1 + w.disks + w.config.hosts);
  struct process *p = which == 0             ? &w.weftd.proc
                      : which <= w.disks     ? &w.member[which - 1].proc
                                             : &w.host[which - 1 - w.disks].proc;

  if (p->life) {
    p->frozen_until = sim_now + outage ();
    TRACE (p, "is stopped");
  }
}

/* A slot goes bad while the other is whole and says the same. */
static void
corrupt_slot (void)
{
  struct member_role *m = some_member ();
  unsigned slot = sim_below (2);

  if (m == NULL || !member_settled (m->engine) || m->actions_in_flight > 0)
    return;
  stop_member (m, sim_chance (50));
  TRACE (&m->proc, "slot %u goes bad", slot);
  m->disk->header[slot * SLOT_BYTES + sim_below (SLOT_BYTES)] ^= 1 + sim_below (255);
}

static void
slow (void)
{
  struct member_role *m = some_member ();

  if (m)
    m->slow = sim_chance (50) ? 1 : 1 << sim_below (8);
}

static void
detach (void)
{
  for (unsigned i = 0; i < w.config.hosts; i++)
    if (w.host[i].stage == HOST_SERVING && sim_chance (50)) {
      w.host[i].wants_detach = true;
      return;
    }
}

/* ---- What administrators do ---- */

static void
answered (struct call *c)
{
  sim_trace ("admin: %d %s", c->answer.status,
             c->answer.code ? c->answer.code : "");
  call_unref (c);
}

static void
ask (enum call_kind kind, unsigned member, const struct disk *d)
{
  struct call *c = call_new (&w.admin, kind, NULL, answered);

  c->refs++;
  c->member.member = member;
  if (d)
    memcpy (c->member.disk, d->uuid, 16);
  c->tune = (struct cluster_array_tune){
    .has_spare_after = true, .spare_after_ms = between (1000, 8000)
  };
  call_send (c, 10000);
}

/* A member that is not in-sync, or PLACES_MAX. */
static unsigned
some_lost (void)
{
  const struct cluster_array_record *a = store_array ();
  unsigned lost = PLACES_MAX;

  for (unsigned m = 0; m < w.layout.members; m++)
    if (a->member[m].state != MEMBER_IN_SYNC)
      lost = m;
  return lost;
}

/* A disk that runs, and is no member; or NULL. */
static struct disk *
some_disk (void)
{
  const struct cluster_array_record *a = store_array ();

  for (unsigned i = 0; i < w.disks; i++) {
    bool used = w.member[i].proc.life == 0;

    for (unsigned m = 0; m < w.layout.members; m++)
      used |= a->member[m].disk[0] == i + 1;
    if (!used)
      return &w.disk[i];
  }
  return NULL;
}

/* A member's disk is gone for good; a blank one takes its place. */
static void
replace (void)
{
  unsigned lost = some_lost ();
  struct disk *d = some_disk ();

  if (lost == PLACES_MAX || d == NULL || w.old_database)
    return;
  sim_trace ("disk %u is to replace member %u", d->number, lost);
  ask (CALL_REPLACE, lost, d);
}

/* In case a member is out for long. */
static void
spare (void)
{
  struct disk *d = some_disk ();

  if (d == NULL || w.old_database)
    return;
  sim_trace ("disk %u is to be a spare", d->number);
  ask (CALL_TUNE, 0, NULL);
  ask (CALL_SPARE, 0, d);
}

static void
cancel (void)
{
  unsigned lost = some_lost ();

  if (lost == PLACES_MAX || w.old_database)
    return;
  sim_trace ("member %u is to stay out", lost);
  ask (CALL_CANCEL, lost, NULL);
}

/* Members that are to stay out may come back. */
static void
join (void)
{
  const struct cluster_array_record *a = store_array ();

  for (unsigned m = 0; m < w.layout.members; m++)
    if (a->member[m].held && !w.old_database)
      ask (CALL_JOIN, m, NULL);
}

/* The members of a node are to move, or no more; its spares' time is to stand
 * still.
 */
static void
tell_node (enum call_kind kind, unsigned number, bool on)
{
  struct call *c = call_new (&w.admin, kind, NULL, answered);

  if (w.old_database) {
    call_unref (c);
    return;
  }
  c->refs++;
  c->on = on;
  snprintf (c->node, sizeof c->node, "n%u", number);
  sim_trace ("node %s: %s %d", c->node,
             kind == CALL_DRAIN ? "drain" : "maintenance", on);
  call_send (c, 10000);
}

/* All of them are as ever in the end. */
static void
release_nodes (void)
{
  for (unsigned i = 1; i <= w.config.hosts; i++) {
    const struct cluster_node_record *n;
    char name[16];

    snprintf (name, sizeof name, "n%u", i);
    n = store_node (name);
    if (n && n->draining)
      tell_node (CALL_DRAIN, i, false);
    if (n && n->maintenance)
      tell_node (CALL_MAINTAIN, i, false);
  }
}

static void
evict (void)
{
  struct host *h = &w.host[sim_below (w.config.hosts)];
  struct call *c;

  if (h->stage != HOST_SERVING || w.old_database)
    return;
  sim_trace ("host %u is to be evicted", h->proc.number);
  c = call_new (&w.admin, CALL_EVICT, NULL, answered);
  c->refs++;
  c->session_id = h->session;
  call_send (c, 10000);
}

/* ---- All of them ---- */

static void
fault (enum fault f)
{
  struct member_role *m = some_member ();
  struct host *h = &w.host[sim_below (w.config.hosts)];
  uint64_t out;

  counters.faults++;
  switch (f) {
  case KILL_MEMBER:
  case CUT_MEMBER:
    if (m)
      stop_member (m, f == CUT_MEMBER);
    break;
  case KILL_HOST:
    if (h->proc.life)
      host_kill (h);
    h->start_at = sim_now + outage ();
    h->takeover = sim_chance (30);
    break;
  case CUT_HOST:
    cut_host (h, outage ());
    break;
  case CUT_ALL:
    out = outage ();
    sim_trace ("the power goes");
    for (unsigned i = 0; i < w.config.hosts; i++)
      cut_host (&w.host[i], out);
    if (sim_chance (70))
      kill_weftd (out);
    break;
  case KILL_WEFTD:
    kill_weftd (sim_chance (60) ? between (1, 500) * MS : outage ());
    break;
  case BACKUP:
    if (!w.old_database)
      store_backup ();
    break;
  case OLD_DATABASE:
    old_database ();
    break;
  case PARTITION:
    partition ();
    break;
  case HEAL:
    heal_network (NULL);
    break;
  case FLAP:
    if (m)
      flap (m);
    break;
  case BREAK:
    conn_break_some (PARTIES, PARTIES, 1 + sim_below (40));
    break;
  case FREEZE:
    freeze ();
    break;
  case WRITE_ERROR:
    if (m)
      m->disk->write_errors = 1;
    break;
  case READ_ERROR:
    if (m)
      m->disk->read_errors = 1 + sim_below (4);
    break;
  case CORRUPT_SLOT:
    corrupt_slot ();
    break;
  case REPLACE:
    replace ();
    break;
  case SPARE:
    spare ();
    break;
  case CANCEL:
    cancel ();
    break;
  case JOIN:
    join ();
    break;
  case SLOW:
    slow ();
    break;
  case DETACH:
    detach ();
    break;
  case DRAIN:
    tell_node (CALL_DRAIN, 1 + sim_below (w.config.hosts), sim_chance (70));
    break;
  case MAINTAIN:
    tell_node (CALL_MAINTAIN, 1 + sim_below (w.config.hosts), sim_chance (50));
    break;
  case EVICT:
    evict ();
    break;
  case FAULTS:
    break;
  }
}

static void
something (void *what)
{
  unsigned total = 0, dice;

  if (w.healing)
    return;
  for (unsigned i = 0; i < FAULTS; i++)
    total += weights[i];
  dice = sim_below (total);
  for (unsigned i = 0; i < FAULTS; i++)
    if (dice < weights[i]) {
      fault (i);
      break;
    }
    else
      dice -= weights[i];
  later (sim_below (2 * w.config.faults_ms * MS) + 1, something, NULL);
}

void
faults_crash (enum victim v, unsigned member, uint64_t out)
{
  struct member_role *m = &w.member[member];

  switch (v) {
  case VICTIM_HOST:
    host_kill (&w.host[0]);
    w.host[0].start_at = sim_now + out;
    break;
  case VICTIM_WEFTD:
    weftd_kill ();
    later (out, weftd_back, NULL);
    break;
  case VICTIM_ALL:
    for (unsigned i = 0; i < w.config.hosts; i++)
      cut_host (&w.host[i], out);
    weftd_kill ();
    later (out, weftd_back, NULL);
    break;
  case VICTIM_KILL:
  case VICTIM_CUT:
    member_stop (m, v == VICTIM_CUT);
    later (out, member_back, m);
    break;
  }
}

/* Starts what should run and does not: array processes, and members that have
 * failed.
 */
static void
keeper (void *what)
{
  if (w.admin.life == 0)
    return;
  for (unsigned i = 0; i < w.config.hosts; i++) {
    struct host *h = &w.host[i];

    if (h->proc.life == 0 && h->start_at && sim_now >= h->start_at)
      host_start (h);
  }
  for (unsigned i = 0; i < w.disks; i++)
    if (w.member[i].proc.life && member_failed (w.member[i].engine) &&
        sim_chance (20)) /* what it did not write is lost */
      stop_member (&w.member[i], true);
  if (w.healing) {
    join ();
    release_nodes ();
  }
  later (200 * MS, keeper, NULL);
}

void
faults_begin (void)
{
  keeper (NULL);
  if (w.config.faults_ms)
    later (2 * SECOND, something, NULL);
}

void
faults_heal (void)
{
  restore_newest (NULL);
  heal_network (NULL);
  weftd_back (NULL);
  w.weftd.proc.frozen_until = 0;
  for (unsigned i = 0; i < w.disks; i++) {
    w.disk[i].write_errors = w.disk[i].read_errors = 0;
    w.member[i].slow = 1;
    w.member[i].proc.frozen_until = 0;
    member_back (&w.member[i]);
  }
  for (unsigned i = 0; i < w.config.hosts; i++) {
    struct host *h = &w.host[i];

    h->wants_detach = false;
    h->takeover = false;
    h->proc.frozen_until = 0;
    if (h->start_at > sim_now + SECOND)
      h->start_at = sim_now + SECOND;
  }
}
