/* databases.c: weftd gets an old database, or loses it: it is restored from a backup, or
 * the array is imported from its members.
 */

#include <config.h>

#include <stdio.h>
#include <string.h>

#include "faults.h"

/* ---- An old database, and a backup. ---- */

void
database_backup (void)
{
  if (!w.old_database && !w.no_database)
    store_backup ();
}

void
database_newest (void *what)
{
  if (!w.old_database || w.restoring)
    return;
  if (w.weftd.proc.life)
    weftd_kill ();
  w.old_database = false;
  store_unrestore ();
  fault_weftd_back (NULL);
}

static void order_restore (void *what);

static void
ordered (struct call *c)
{
  sim_trace ("order to restore: %d %s", c->answer.status,
             c->answer.code ? c->answer.code : "");
  if (w.restoring)
    fault_later (2 * SECOND, order_restore, NULL);
  call_unref (c);
}

/* A disk that the backup does not know may say alone that there is a later epoch, or members
 * have not heard of an epoch: an administrator knows which disks are right.
 */
static void
order_restore (void *what)
{
  struct call *c;

  (void) what;
  if (!w.restoring)
    return;
  c = call_new (&w.admin, CALL_RESTORE, NULL, ordered);
  c->refs++;
  strcpy (c->import.name, ARRAY_NAME);
  memcpy (c->import.array, store_array ()->uuid, 16);
  call_send (c, 10000);
}

/* The database is lost, and weftd is restored from a backup; some members come back later
 * than weftd.
 */
void
database_restore (void)
{
  if (w.old_database || w.no_database || copies_served ())
    return;
  if (w.weftd.proc.life)
    weftd_kill ();
  if (store_begin_restore ()) {
    sim_trace ("weftd is restored from a backup");
    w.old_database = w.restoring = true;
    fault_later (30 * SECOND, order_restore, NULL);
  }
  for (unsigned i = 0; w.restoring && i < w.roles; i++)
    if (w.member[i].proc.life && sim_chance (20))
      fault_member_stop (&w.member[i], sim_chance (30));
  if (!w.restoring || sim_chance (50))
    weftd_start ();
  else
    fault_later (between (1, 10000) * MS, fault_weftd_back, NULL);
}

void
database_old (void)
{
  if (w.old_database || w.no_database || w.weftd.proc.life == 0 ||
      copies_served ())
    return;
  weftd_kill ();
  if (store_restore ()) {
    sim_trace ("weftd gets an old database");
    w.old_database = true;
    fault_later (between (5, 15) * SECOND, database_newest, NULL);
  }
  weftd_start ();
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
  for (unsigned m = 0; done && m < w.layout.members; m++)
    counters.imports_without += c->import.without[m];
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
  for (unsigned m = 0; m < w.layout.members && sim_chance (30); m++)
    c->import.without[sim_below (w.layout.members)] = true;
  call_send (c, 10000);
}

static bool
may_lose_database (void)
{
  return !w.old_database && !w.no_database && w.weftd.proc.life &&
         store_array () && !w.config.copies && !w.config.rollbacks &&
         !copies_served ();
}

/* It is, mostly when all array processes have ended, else while they write; some members
 * come back later than weftd.
 */
void
database_lose (void)
{
  bool ends = sim_chance (60);

  if (!may_lose_database ())
    return;
  sim_trace ("weftd's database is lost");
  for (unsigned i = 0; ends && i < w.config.hosts; i++) {
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

/* The database is lost; in worlds with restores, weftd has a backup. */
static void
lose (void)
{
  if (world_restores)
    database_restore ();
  else
    database_lose ();
}

static bool
may_lose (void)
{
  return world_restores
           ? !w.old_database && !w.no_database && w.weftd.proc.life &&
               store_array () && !w.config.copies && !copies_served ()
           : may_lose_database ();
}

/* ---- The same, when a disk was replaced that comes back. ---- */

/* Its successor comes later, and so does a member that was out meanwhile, or not. */
static void
lose_with_old_disk (void *what)
{
  struct member_role *old = what;
  const struct cluster_array_record *a = store_array ();

  if (w.healing || !may_lose ())
    return;
  lose ();
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

static void
lose_after_replace (void)
{
  struct member_role *m = fault_member ();

  if (m == NULL || m->disk->place < 0 || !may_lose ())
    return;
  if (world_restores)
    database_backup ();
  sim_trace ("member %u is to be replaced, and weftd's database to be lost",
             m->disk->place);
  w.calm_until = sim_now + 30 * SECOND;
  member_stop (m, false);
  fault_later (2 * SECOND, replace_it, m);
}

/* ---- The same, or a restore, when a member that was out comes back. ---- */

/* The others come later: at first nobody says that it was out. */
static void
lose_with_one_back (void *what)
{
  struct member_role *m = what;

  if (w.healing)
    return;
  if (may_lose ())
    lose ();
  for (unsigned i = 0; (w.restoring || w.no_database) && i < w.roles; i++)
    if (&w.member[i] != m && w.member[i].proc.life && sim_chance (70)) {
      member_stop (&w.member[i], false);
      fault_later (between (5, 15) * SECOND, fault_member_back, &w.member[i]);
    }
  fault_member_back (m);
}

static void
lose_with_one_out (void)
{
  struct member_role *m = fault_member ();

  if (m == NULL || m->disk->place < 0)
    return;
  sim_trace ("member %u is to be out when weftd's database is lost",
             m->disk->place);
  database_backup ();
  w.calm_until = sim_now + 20 * SECOND;
  member_stop (m, false);
  fault_later (between (2, 6) * SECOND, lose_with_one_back, m);
}

/* ---- The same, when a disk that replaced another one has gone on alone. ---- */

static struct {
  struct member_role *former; /* was replaced */
  unsigned place;
  uint64_t until; /* give up */
} alone;

static bool
is_other (unsigned m)
{
  return m != alone.place && layout_group_number (&w.layout, m) ==
                               layout_group_number (&w.layout, alone.place);
}

static struct member_role *
member_at (unsigned place)
{
  return &w.member[disk_holder (store_array ()->member[place].disk)];
}

/* Its successor is away for long; the former disk is there, and so are the others, which
 * have not heard that they went out.
 */
static void
lose_alone (void *what)
{
  struct member_role *successor = member_at (alone.place);

  (void) what;
  if (w.healing || !may_lose ())
    return;
  sim_trace ("disk %u went on alone, and disk %u was in its place before",
             successor->disk->number, alone.former->disk->number);
  counters.alone++;
  if (successor->proc.life)
    member_stop (successor, false);
  w.calm_until = sim_now + 60 * SECOND;
  lose ();
  fault_later (between (40, 50) * SECOND, fault_member_back, successor);
  fault_member_back (alone.former);
  for (unsigned m = 0; m < w.layout.members; m++)
    if (is_other (m))
      fault_later (between (1, 3000) * MS, fault_member_back, member_at (m));
}

static void
go_on_alone (void *what)
{
  const struct cluster_array_record *a = store_array ();
  bool all_out = true;

  if (w.healing || sim_now > alone.until)
    return;
  for (unsigned m = 0; m < w.layout.members; m++)
    if (is_other (m)) {
      if (member_at (m)->proc.life)
        member_stop (member_at (m), false);
      all_out &= a->member[m].state == MEMBER_OUT;
    }
  if (all_out)
    fault_later (between (4, 8) * SECOND, lose_alone, NULL);
  else
    fault_later (SECOND, go_on_alone, what);
}

static void
succeed (void *what)
{
  const struct cluster_array_record *a = store_array ();

  if (w.healing || sim_now > alone.until)
    return;
  if (member_at (alone.place) == alone.former)
    admin_replace ();
  if (member_at (alone.place) != alone.former &&
      a->member[alone.place].state == MEMBER_IN_SYNC)
    go_on_alone (what);
  else
    fault_later (2 * SECOND, succeed, what);
}

void
database_alone (void *what)
{
  struct member_role *m = &w.member[sim_below (w.layout.members)];

  (void) what;
  if (w.healing)
    return;
  if (m->proc.life == 0 || m->disk->place < 0 || !may_lose ()) {
    fault_later (SECOND, database_alone, NULL);
    return;
  }
  alone.former = m;
  alone.place = (unsigned) m->disk->place;
  alone.until = sim_now + 40 * SECOND;
  sim_trace ("member %u is to be replaced, and its successor to go on alone",
             alone.place);
  if (world_restores)
    database_backup ();
  w.calm_until = alone.until;
  member_stop (m, false);
  fault_later (2 * SECOND, succeed, NULL);
}

void
database_import (void)
{
  void (*const one[]) (void) = { lose_after_replace, database_lose,
                                 lose_with_one_out };

  one[sim_below (sizeof one / sizeof one[0])]();
}

void
database_restored (void)
{
  void (*const one[]) (void) = { database_backup, database_restore,
                                 lose_with_one_out, lose_after_replace };

  one[sim_below (sizeof one / sizeof one[0])]();
}
