/* admins.c: what administrators do while things go wrong. */

#include <config.h>

#include <stdio.h>
#include <string.h>

#include "faults.h"

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
  c->on = kind == CALL_REPLACE && sim_chance (50); /* by force */
  c->member.member = member;
  if (d)
    memcpy (c->member.disk, d->uuid, 16);
  c->tune = (struct cluster_array_tune) {
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

  for (unsigned i = 0; i < w.roles; i++) {
    struct disk *d = &w.disk[i];
    bool used = w.member[i].proc.life == 0 || disk_holder (d->uuid) != i;

    for (unsigned m = 0; m < w.layout.members; m++)
      used |= memcmp (a->member[m].disk, d->uuid, 16) == 0;
    if (!used)
      return d;
  }
  return NULL;
}

/* A member's disk is gone for good, and a blank one takes its place; or a member that is
 * in-sync is to move.
 */
void
admin_replace (void)
{
  unsigned lost = some_lost ();
  struct disk *d = some_disk ();

  if (d == NULL || w.old_database)
    return;
  if (lost == PLACES_MAX)
    lost = sim_below (w.layout.members);
  sim_trace ("disk %u is to replace member %u", d->number, lost);
  ask (CALL_REPLACE, lost, d);
}

/* In case a member is out for long. */
void
admin_spare (void)
{
  struct disk *d = some_disk ();

  if (d == NULL || w.old_database)
    return;
  sim_trace ("disk %u is to be a spare", d->number);
  ask (CALL_TUNE, 0, NULL);
  ask (CALL_SPARE, 0, d);
}

void
admin_cancel (void)
{
  unsigned lost = some_lost ();

  if (lost == PLACES_MAX || w.old_database)
    return;
  sim_trace ("member %u is to stay out", lost);
  ask (CALL_CANCEL, lost, NULL);
}

/* Members that are to stay out may come back. */
void
admin_join (void)
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

void
admin_drain (void)
{
  tell_node (CALL_DRAIN, 1 + sim_below (w.config.hosts), sim_chance (70));
}

void
admin_maintain (void)
{
  tell_node (CALL_MAINTAIN, 1 + sim_below (w.config.hosts), sim_chance (50));
}

/* Nodes and members are as ever in the end. */
void
admins_heal (void)
{
  admin_join ();
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

void
admin_evict (void)
{
  struct host_role *h = &w.host[sim_below (w.config.hosts)];
  struct call *c;

  if (h->stage != HOST_SERVING || w.old_database)
    return;
  sim_trace ("host %u is to be evicted", h->proc.number);
  c = call_new (&w.admin, CALL_EVICT, NULL, answered);
  c->refs++;
  c->session_id = h->session;
  call_send (c, 10000);
}

/* ---- weftd's database is lost. ---- */

static void try_import (void *what);
static void allow (void *host);

static void
allowed (struct call *c)
{
  struct host_role *h = c->owner;

  if (c->answer.status != 200)
    fault_later (SECOND, allow, h);
  else if (h->proc.life == 0 && (!w.config.lone || h < w.host + w.config.lone))
    h->start_at = sim_now + between (10, 3000) * MS;
  call_unref (c);
}

/* The list of nodes that may attach the array is lost, too. */
static void
allow (void *host)
{
  struct host_role *h = host;
  struct call *c = call_new (&w.admin, CALL_ALLOW, h, allowed);

  c->refs++;
  snprintf (c->node, sizeof c->node, "n%u", h->proc.party);
  call_send (c, 10000);
}

static void
imported (struct call *c)
{
  bool done = c->answer.status == 200;

  sim_trace ("import: %d %s", c->answer.status,
             c->answer.code ? c->answer.code : "");
  if (w.no_database && !done) {
    counters.import_refusals++;
    fault_later (SECOND, try_import, NULL);
    call_unref (c);
    return;
  }
  /* weftd may have been killed when it was durable, and before the answer left. */
  counters.imports++;
  counters.imports_forced += done && c->import.accept_loss;
  w.calm_until = sim_now;
  call_unref (c);
  for (unsigned i = 0; i < w.config.hosts; i++)
    allow (&w.host[i]);
}

static void
try_import (void *what)
{
  struct call *c = call_new (&w.admin, CALL_IMPORT, NULL, imported);

  (void) what;
  c->refs++;
  strcpy (c->import.name, ARRAY_NAME);
  memcpy (c->import.array, store_array ()->uuid, 16);
  /* First it is tried whether the right disk comes. */
  c->import.accept_loss = sim_now > w.lost_at + 20 * SECOND;
  call_send (c, 10000);
}

static bool
may_lose_database (void)
{
  return !w.old_database && !w.no_database && w.weftd.proc.life &&
         store_array () && !w.config.copies && !w.config.rollbacks &&
         !w.config.shared && !w.config.leases && !copies_served ();
}

/* It is, when all array processes have ended; some members come back later than weftd. */
void
admin_lose_database (void)
{
  if (!may_lose_database ())
    return;
  sim_trace ("weftd's database is lost");
  for (unsigned i = 0; i < w.config.hosts; i++) {
    if (w.host[i].proc.life)
      host_kill (&w.host[i]);
    w.host[i].start_at = 0;
  }
  weftd_kill ();
  store_lose ();
  for (unsigned i = 0; i < w.roles; i++)
    if (w.member[i].proc.life && sim_chance (30))
      fault_member_stop (&w.member[i], sim_chance (30));
  w.lost_at = sim_now;
  w.calm_until = sim_now + 40 * SECOND;
  fault_later (between (10, 3000) * MS, fault_weftd_back, NULL);
  fault_later (SECOND, try_import, NULL);
}

/* ---- The same, when a disk was replaced that comes back. ---- */

/* Its successor comes later, and so does a member that was out meanwhile, or not. */
static void
lose_with_old_disk (void *what)
{
  struct member_role *old = what;
  const struct cluster_array_record *a = store_array ();

  if (w.healing || !may_lose_database ())
    return;
  admin_lose_database ();
  fault_member_back (old);
  if (old->disk->place < 0)
    return;
  old = &w.member[disk_holder (a->member[old->disk->place].disk)];
  if (old->proc.life)
    member_stop (old, false);
  fault_later (between (5, 15) * SECOND, fault_member_back, old);
}

static void
lose_another (void *what)
{
  const struct member_role *old = what;
  struct member_role *m = fault_member ();

  if (!w.healing && m && m != old && m->disk->place >= 0 &&
      m->disk->place != old->disk->place) {
    member_stop (m, false);
    fault_later (between (4, 8) * SECOND, fault_member_back, m);
  }
  fault_later (between (2000, 4000) * MS, lose_with_old_disk, what);
}

static void
replace_it (void *what)
{
  if (!w.healing)
    admin_replace ();
  fault_later (between (8, 12) * SECOND, lose_another, what);
}

void
admin_lose_after_replace (void)
{
  struct member_role *m = fault_member ();

  if (m == NULL || m->disk->place < 0 || !may_lose_database ())
    return;
  sim_trace ("member %u is to be replaced, and weftd's database to be lost",
             m->disk->place);
  w.calm_until = sim_now + 30 * SECOND;
  member_stop (m, false);
  fault_later (2 * SECOND, replace_it, m);
}

/* For each place a chance of one in two, so that some wait for others. */
void
admin_rekey (void)
{
  const struct cluster_array_record *a = store_array ();

  for (unsigned m = 0; a && m < w.layout.members; m++)
    if (sim_chance (50)) {
      struct call *c = call_new (&w.admin, CALL_REKEY, NULL, answered);

      sim_trace ("member %u is to get another key", m);
      c->refs++;
      memcpy (c->member.disk, a->member[m].disk, 16);
      call_send (c, 10000);
    }
}
