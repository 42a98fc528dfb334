/* admins.c: administrators' actions while faults happen. */

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
  unsigned first = sim_below (w.roles);

  for (unsigned n = 0; n < w.roles; n++) {
    unsigned i = (first + n) % w.roles;
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
    if ((a->member[m].held || a->member[m].slow) && !w.old_database)
      ask (CALL_JOIN, m, NULL);
}

/* The node's members must move, or no longer; the time of its spares stops or goes on.
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

/* A member that was given up by an import, and whose disk has not come, gets another. */
static void
replace_nobody (void)
{
  const struct cluster_array_record *a = store_array ();
  struct disk *d = some_disk ();

  for (unsigned m = 0; d && m < w.layout.members; m++)
    if (disk_holder (a->member[m].disk) == w.roles && sim_chance (5)) {
      sim_trace ("disk %u is to replace member %u", d->number, m);
      ask (CALL_REPLACE, m, d);
      return;
    }
}

/* Nodes and members are as before in the end. */
void
admins_heal (void)
{
  admin_join ();
  if (!w.old_database && !w.no_database)
    replace_nobody ();
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
