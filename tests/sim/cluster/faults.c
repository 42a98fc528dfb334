/* faults.c: the faults, and their end. */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults.h"

/* ---- Coming back ---- */

void
fault_later (uint64_t delay, void (*fn) (void *), void *what)
{
  process_after (&w.admin, delay, fn, what); /* it lives as long as the run */
}

uint64_t
fault_outage (void)
{
  return sim_chance (60)   ? between (10, 800) * MS
         : sim_chance (70) ? between (1000, 8000) * MS
                           : between (8, 25) * SECOND;
}

void
fault_member_back (void *what)
{
  struct member_role *m = what;

  if (m->proc.life == 0 && !m->pulled)
    member_start (m);
}

void
fault_weftd_back (void *what)
{
  if (w.weftd.proc.life == 0)
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
  struct host_role *h = what;

  link_all (h->proc.party, false);
}

/* ---- Single faults ---- */

struct member_role *
fault_member (void)
{
  struct member_role *m = &w.member[sim_below (w.roles)];

  return m->proc.life ? m : NULL;
}

void
fault_member_stop (struct member_role *m, bool power)
{
  member_stop (m, power);
  fault_later (fault_outage (), fault_member_back, m);
}

static void
cut_host (struct host_role *h, uint64_t out)
{
  link_all (h->proc.party, true);
  if (h->proc.life)
    host_kill (h);
  if (!w.config.lone || h < w.host + w.config.lone)
    h->start_at = sim_now + out + between (10, 3000) * MS;
  for (unsigned i = 0; i < w.roles; i++)
    if (w.member[i].proc.party == h->proc.party) {
      member_unplug (&w.member[i]);
      fault_later (out + between (1, 3000) * MS, fault_member_back,
                   &w.member[i]);
    }
  fault_later (out, host_powered, h);
}

/* Not with an old database: it would count its starts, and seem to be newer. */
static void
kill_weftd (uint64_t out)
{
  if (w.old_database && !w.restoring)
    return;
  if (w.weftd.proc.life)
    weftd_kill ();
  fault_later (out, fault_weftd_back, NULL);
}

static void
partition (void)
{
  unsigned a = sim_below (w.config.hosts + 1),
           b = sim_below (w.config.hosts + 1);
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

void
fault_heal_network (void)
{
  sim_trace ("the network is whole");
  memset (w.cut, 0, sizeof w.cut);
}

static void
exile_begins (void *what)
{
  (void) what;
  for (unsigned a = 0; a < PARTIES; a++)
    for (unsigned b = 0; b < PARTIES; b++)
      w.cut[a][b] |= w.exiled[a] != w.exiled[b];
}

static void
exile_ends (void *what)
{
  (void) what;
  fault_heal_network ();
}

/* Would the others be without nothing that these have? */
static bool
exile_spares_all (const struct cluster_array_record *a)
{
  bool lost[PLACES_MAX], any = false, other = false;

  for (unsigned m = 0; m < w.layout.members; m++) {
    unsigned role = disk_holder (place_disk (a, m)->uuid);
    bool with = w.exiled[w.member[role].proc.party];

    any |= with && a->member[m].state == MEMBER_IN_SYNC;
    lost[m] = with || a->member[m].state != MEMBER_IN_SYNC;
  }
  for (unsigned i = 0; i < w.config.hosts; i++)
    other |= w.host[i].writable && !w.exiled[w.host[i].proc.party];
  return any && other && layout_loss (&w.layout, lost, NULL) == 0;
}

/* The writer is cut off with the members that it reaches for so long that another one
 * takes its place; its clients go on reading.
 */
static void
exile (void)
{
  struct host_role *h = check_writer ();
  uint64_t quiet = sim_chance (60) ? between (2000, 12000) * MS : 0;
  uint64_t rest = sim_chance (70) ? between (12, 25) * SECOND : 0;

  if (h == NULL || h->wants_detach || store_array () == NULL)
    return;
  memset (w.exiled, 0, sizeof w.exiled);
  w.exiled[h->proc.party] = true;
  if (sim_chance (50))
    w.exiled[1 + sim_below (w.config.hosts)] = true;
  if (!exile_spares_all (store_array ()))
    return;
  TRACE (&h->proc, "is to be cut off in %" PRIu64 " ms with what it reaches",
         quiet / MS);
  fault_heal_network ();
  h->reads_at = sim_now + quiet + rest;
  h->exiled_until = sim_now + quiet + between (25, 45) * SECOND;
  w.calm_until = h->exiled_until + SECOND;
  fault_later (quiet, exile_begins, NULL);
  fault_later (h->exiled_until - sim_now, exile_ends, NULL);
}

static void
flap (void *what)
{
  struct member_role *m = what;

  if (w.healing || m->proc.life == 0)
    return;
  member_stop (m, false);
  fault_later (between (5, 300) * MS, fault_member_back, m);
  if (sim_chance (70))
    fault_later (between (300, 2500) * MS, flap, m);
}

static void
freeze (void)
{
  unsigned which = sim_below (1 + w.roles + w.config.hosts);
  struct process *p = which == 0         ? &w.weftd.proc
                      : which <= w.roles ? &w.member[which - 1].proc
                                         : &w.host[which - 1 - w.roles].proc;

  if (p->life) {
    p->frozen_until = sim_now + fault_outage ();
    TRACE (p, "is stopped");
  }
}

static void
lose_member (void *what)
{
  struct member_role *m = what, *other = fault_member ();

  if (w.healing || m->proc.life == 0)
    return;
  fault_member_stop (m, sim_chance (30));
  if (other && other != m) /* it may have the images of what m had */
    other->proc.frozen_until = sim_now + between (300, 3000) * MS;
}

/* A reader is stopped for so long that it is missed, and just before it goes on a
 * member is lost.
 */
static void
miss_reader (void)
{
  struct host_role *h = &w.host[sim_below (w.config.hosts)];
  struct member_role *m = fault_member ();
  uint64_t out = between (12500, 15000) * MS;

  if (h->writable || h->stage != HOST_SERVING || m == NULL)
    return;
  h->proc.frozen_until = sim_now + out;
  TRACE (&h->proc, "is stopped, and missed");
  fault_later (out - between (20, 1200) * MS, lose_member, m);
}

/* A slot goes bad while the other is whole and says the same. */
static void
corrupt_slot (void)
{
  struct member_role *m = fault_member ();
  unsigned slot = sim_below (2);

  if (m == NULL || !member_settled (m->engine) || m->actions_in_flight > 0)
    return;
  fault_member_stop (m, sim_chance (50));
  TRACE (&m->proc, "slot %u goes bad", slot);
  m->disk->header[slot * SLOT_BYTES + sim_below (SLOT_BYTES)] ^= 1 + sim_below (
                                                                       255);
}

static void
slow (struct member_role *m)
{
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

static void
kill_member (struct member_role *m)
{
  fault_member_stop (m, false);
}

static void
cut_member (struct member_role *m)
{
  fault_member_stop (m, true);
}

static void
kill_host (void)
{
  struct host_role *h = &w.host[sim_below (w.config.hosts)];

  if (h->proc.life)
    host_kill (h);
  h->start_at = sim_now + fault_outage ();
  h->takeover = sim_chance (30);
}

static void
cut_one_host (void)
{
  uint64_t out = fault_outage ();

  cut_host (&w.host[sim_below (w.config.hosts)], out);
}

static void
cut_all (void)
{
  uint64_t out = fault_outage ();

  sim_trace ("the power goes");
  for (unsigned i = 0; i < w.config.hosts; i++)
    cut_host (&w.host[i], out);
  if (sim_chance (70))
    kill_weftd (out);
}

static void
kill_weftd_once (void)
{
  kill_weftd (sim_chance (60) ? between (1, 500) * MS : fault_outage ());
}

static void
kill_weftd_soon (void *what)
{
  (void) what;
  if (!w.healing)
    kill_weftd_once ();
}

static void
lose_some_member (void *what)
{
  struct member_role *m = fault_member ();

  (void) what;
  if (m && !w.healing)
    fault_member_stop (m, sim_chance (50));
}

static void
flap_member (struct member_role *m)
{
  flap (m);
}

static void
break_some (void)
{
  conn_break_some (PARTIES, PARTIES, 1 + sim_below (40));
}

static void
write_error (struct member_role *m)
{
  m->disk->write_errors = 1;
}

static void
read_error (struct member_role *m)
{
  m->disk->read_errors = 1 + sim_below (4);
}

/* Nobody loses anything by that: no FLUSH fails, and all goes on when there is room. */
static void
fill_disk (struct member_role *m)
{
  struct disk *d = m->disk;

  d->full_until = sim_now + (sim_chance (70) ? between (10, 4000) * MS
                                             : between (4, 20) * SECOND);
  d->full_percent = sim_chance (50) ? 100 : 1 + sim_below (40);
  d->full_before = sim_chance (30);
  sim_trace ("disk %u is full for %" PRIu64 " ms, %u %%", d->number,
             (d->full_until - sim_now) / MS, d->full_percent);
}

static void
make_spot (struct disk *d, unsigned slot)
{
  if (slot >= d->slots_count) /* it has not taken its place yet */
    return;
  sim_trace ("disk %u can't read slot %u any more", d->number, slot);
  d->slots[slot].spot = d->slots[slot].spot_stays = true;
}

/* Some places of a disk can't be read any more; or all copies of a place. */
static void
bad_spot (void)
{
  struct member_role *m = fault_member ();
  const struct cluster_array_record *a = store_array ();
  const struct copy *copy = w.copy[sim_below (w.grains)];
  unsigned spots = 1 + sim_below (8);

  if (!disk_spots () || a == NULL)
    return;
  if (sim_chance (30))
    for (unsigned c = 0; c < w.layout.copies; c++)
      make_spot (place_disk (a, copy[c].member), copy[c].slot);
  else if (m && m->disk->slots_count > 0)
    for (unsigned i = 0; i < spots; i++)
      make_spot (m->disk, sim_below (m->disk->slots_count));
}

/* ---- All of them ---- */

static const struct {
  unsigned weight;
  void (*happen) (void);
  void (*to) (struct member_role *m); /* some member that runs */
} faults[] = {
  { 16, .to = kill_member },
  { 12, .to = cut_member },
  { 8, .happen = kill_host },
  { 5, .happen = cut_one_host },
  { 3, .happen = cut_all },
  { 10, .happen = kill_weftd_once },
  { 1, .happen = database_restore },
  { 1, .happen = database_old },
  { 2, .happen = database_backup },
  { 12, .happen = partition },
  { 14, .happen = fault_heal_network },
  { 5, .to = flap_member },
  { 8, .happen = break_some },
  { 6, .happen = freeze },
  { 4, .to = write_error },
  { 4, .to = read_error },
  { 2, .happen = bad_spot },
  { 2, .happen = corrupt_slot },
  { 4, .to = slow },
  { 4, .happen = detach },
  { 3, .happen = admin_replace },
  { 2, .happen = admin_spare },
  { 2, .happen = admin_cancel },
  { 4, .happen = admin_join },
  { 5, .happen = admin_drain },
  { 2, .happen = admin_maintain },
  { 3, .happen = admin_evict },
  { 12, .happen = copies_fault },
  { 8, .happen = miss_reader },
  { 6, .happen = exile },
  { 4, .to = hang_disk },
  { 3, .to = withhold_word },
  { 3, .happen = withhold_host },
  { 1, .happen = database_lose },
  { 6, .to = fill_disk },
};
#define FAULTS (sizeof faults / sizeof faults[0])

static void
some_fault (void)
{
  unsigned total = 0, dice, i;
  struct member_role *m;

  for (i = 0; i < FAULTS; i++)
    total += faults[i].weight;
  dice = sim_below (total);
  for (i = 0; dice >= faults[i].weight; i++)
    dice -= faults[i].weight;
  if (w.config.leases && faults[i].happen == copies_fault)
    return; /* no disk is another one there */
  if (faults[i].happen)
    faults[i].happen ();
  else if ((m = fault_member ()) != NULL)
    faults[i].to (m);
}

/* Array processes end, weftd does, or anything else happens. */
void
fault_beside (void)
{
  bool all = sim_chance (50);

  for (unsigned i = 0; all && i < w.config.hosts; i++) {
    struct host_role *h = &w.host[i];

    if (h->proc.life == 0)
      continue;
    host_kill (h);
    h->start_at = sim_now + between (10, 3000) * MS;
  }
  if (sim_chance (30))
    kill_weftd_once ();
  if (sim_chance (30))
    some_fault ();
}

/* ---- Where several hosts write ---- */

/* A host that writes, or is about to. */
static struct host_role *
some_writer (void)
{
  struct host_role *h = &w.host[sim_below (w.config.hosts)];

  return h->writable && h->proc.life ? h : NULL;
}

static void
two_meet_again (void *what)
{
  unsigned a = (uintptr_t) what / PARTIES, b = (uintptr_t) what % PARTIES;

  w.cut[a][b] = w.cut[b][a] = false;
  sim_trace ("parties %u and %u meet again", a, b);
}

/* A host and weftd, or the servers of some members, can't reach each other; or only one
 * of them can't.
 */
static void
part_two (struct host_role *h, unsigned other, uint64_t out)
{
  unsigned us = h->proc.party;

  if (us == other)
    return;
  sim_trace ("parties %u and %u are cut off from each other for %" PRIu64 " ms",
             us, other, out / MS);
  w.cut[us][other] = w.cut[other][us] = true;
  if (sim_chance (20))
    w.cut[us][other] = false;
  else if (sim_chance (20))
    w.cut[other][us] = false;
  if (sim_chance (50))
    conn_break_some (us, other, 100);
  fault_later (out, two_meet_again,
               (void *) (uintptr_t) (us * PARTIES + other));
}

static void
stop_writer (struct host_role *h)
{
  h->proc.frozen_until = sim_now + between (1000, 20000) * MS;
  TRACE (&h->proc, "is stopped");
}

static void
kill_writer (struct host_role *h)
{
  host_kill (h);
  h->start_at = sim_now + fault_outage ();
}

static void
part_from_weftd (struct host_role *h)
{
  part_two (h, 0, between (1000, 25000) * MS);
}

static void
part_from_member (struct host_role *h)
{
  part_two (h, 1 + sim_below (w.config.hosts), between (1000, 25000) * MS);
}

/* Another host takes its part from it, while it goes on, and weftd can't reach it, nor
 * some members.
 */
static void
usurp (struct host_role *h)
{
  struct host_role *heir = some_writer ();
  uint64_t out = sim_chance (70) ? between (500, 4500) * MS
                                 : between (5, 15) * SECOND;

  if (heir == NULL || heir == h || h->part_length == 0 ||
      h->stage != HOST_SERVING)
    return;
  TRACE (&heir->proc, "is to take the part of host %u", h->proc.number);
  part_two (h, 0, out);
  part_two (&w.host[sim_below (w.config.hosts)], 0, out);
  host_kill (heir);
  heir->next_offset = h->part_offset;
  heir->next_length = h->part_length;
  heir->takeover = true;
  heir->start_at = sim_now + between (1, 300) * MS;
}

static void
detach_writer (struct host_role *h)
{
  h->wants_detach |= h->stage == HOST_SERVING;
}

/* It goes, a member is lost, and about then it is there again. */
static void
leave_and_lose (struct host_role *h)
{
  struct member_role *m = fault_member ();

  if (m == NULL)
    return;
  detach_writer (h);
  fault_later (sim_below (2500 * MS), lose_member, m);
}

static bool
some_joins (void)
{
  const struct cluster_array_record *a = store_array ();

  for (unsigned m = 0; m < w.layout.members; m++)
    if (a->member[m].state == MEMBER_JOINING)
      return true;
  return false;
}

static void
end_in_join (void *what)
{
  struct host_role *h = what;

  if (w.healing || h->stage != HOST_SERVING || sim_now > w.watch_until)
    return;
  if (!some_joins ())
    fault_later (between (1, 15) * MS, end_in_join, h);
  else if (sim_chance (70))
    kill_writer (h);
  else
    part_from_weftd (h);
}

/* A member goes and joins, and while it does the writer ends. */
static void
lose_and_end (struct host_role *h)
{
  struct member_role *m = fault_member ();

  if (m == NULL || m->disk->place < 0)
    return;
  member_stop (m, sim_chance (50));
  fault_later (between (10, 500) * MS, fault_member_back, m);
  w.watch_until = sim_now + 5 * SECOND;
  end_in_join (h);
}

/* A fault of a writer, perhaps with another fault close behind. */
static void
writer_fault (void)
{
  void (*const one[]) (struct host_role *) = {
    stop_writer,      kill_writer,    kill_writer, part_from_weftd,
    part_from_member, leave_and_lose, usurp,       lose_and_end,
  };
  struct host_role *h = some_writer ();

  if (sim_chance (12))
    copies_of_one ();
  if (h == NULL)
    return;
  one[sim_below (sizeof one / sizeof one[0])](h);
  if (sim_chance (15))
    fault_later (sim_below (400 * MS), kill_weftd_soon, NULL);
  if (sim_chance (15))
    fault_later (sim_below (400 * MS), lose_some_member, NULL);
}

static void
keep_from_weftd (struct host_role *h)
{
  part_two (h, 0, between (100, 2500) * MS);
}

static void
kill_weftd_too (struct host_role *h)
{
  (void) h;
  kill_weftd_once ();
}

static void
stop_weftd (struct host_role *h)
{
  (void) h;
  if (w.weftd.proc.life)
    w.weftd.proc.frozen_until = sim_now + between (200, 9000) * MS;
}

/* A fault of a session that shares the array by leases, while ranges move; perhaps with
 * another fault close behind.
 */
static void
lessee_fault (void)
{
  void (*const one[]) (struct host_role *) = {
    stop_writer,      kill_writer,    kill_writer,   part_from_weftd,
    part_from_member, leave_and_lose, lose_and_end,  keep_from_weftd,
    kill_weftd_too,   kill_weftd_too, detach_writer, stop_weftd,
  };
  struct host_role *h = some_writer ();

  if (h == NULL)
    return;
  one[sim_below (sizeof one / sizeof one[0])](h);
  if (sim_chance (25))
    fault_later (sim_below (sim_chance (50) ? 5 * MS : 400 * MS),
                 kill_weftd_soon, NULL);
  if (sim_chance (15))
    fault_later (sim_below (400 * MS), lose_some_member, NULL);
}

static void
something (void *what)
{
  if (w.healing)
    return;
  if (sim_now < w.calm_until) {
    fault_later (w.calm_until - sim_now, something, NULL);
    return;
  }
  counters.faults++;
  if (w.config.readers > 0 && sim_chance (4))
    readers_alone ();
  else if (world_rekeys && sim_chance (25))
    admin_rekey ();
  else if (world_imports && sim_chance (25))
    database_import ();
  else if (world_restores && sim_chance (25))
    database_restored ();
  else if (w.config.shared && sim_chance (40))
    writer_fault ();
  else if (w.config.leases && sim_chance (40))
    lessee_fault ();
  else if ((w.config.copies || w.config.rollbacks) && sim_chance (40))
    copies_fault ();
  else if (w.config.spots && sim_chance (30))
    bad_spot ();
  else
    some_fault ();
  fault_later (sim_below (2 * w.config.faults_ms * MS) + 1, something, NULL);
}

void
faults_crash (enum victim v, unsigned number, uint64_t out)
{
  struct member_role *m = &w.member[number];

  switch (v) {
  case VICTIM_HOST:
    host_kill (&w.host[number]);
    w.host[number].start_at = sim_now + out;
    break;
  case VICTIM_WEFTD:
    weftd_kill ();
    fault_later (out, fault_weftd_back, NULL);
    break;
  case VICTIM_ALL:
    for (unsigned i = 0; i < w.config.hosts; i++)
      cut_host (&w.host[i], out);
    weftd_kill ();
    fault_later (out, fault_weftd_back, NULL);
    break;
  case VICTIM_KILL:
  case VICTIM_CUT:
    member_stop (m, v == VICTIM_CUT);
    fault_later (out, fault_member_back, m);
    break;
  }
}

/* Starts what should run and does not: array processes, and members that have
 * failed.
 */
static void
keeper (void *what)
{
  for (unsigned i = 0; i < w.config.hosts; i++) {
    struct host_role *h = &w.host[i];

    if (h->proc.life == 0 && h->start_at && sim_now >= h->start_at)
      host_start (h);
  }
  for (unsigned i = 0; i < w.roles; i++)
    if (w.member[i].proc.life && member_failed (w.member[i].engine) &&
        sim_chance (20)) /* its unwritten data is lost */
      fault_member_stop (&w.member[i], true);
  if (w.healing)
    admins_heal ();
  fault_later (200 * MS, keeper, NULL);
}

void
faults_begin (void)
{
  keeper (NULL);
  if (w.config.faults_ms)
    fault_later (2 * SECOND, something, NULL);
  sick_begin ();
  if (w.config.withholds)
    fault_later (between (1, 8) * SECOND, withheld_begin, NULL);
  if (world_alone)
    fault_later (3 * SECOND, database_alone, NULL);
}

void
faults_heal (void)
{
  database_newest (NULL);
  fault_heal_network ();
  sick_heal ();
  fault_weftd_back (NULL);
  w.weftd.proc.frozen_until = 0;
  for (unsigned i = 0; i < w.roles; i++) {
    w.disk[i].write_errors = w.disk[i].read_errors = 0;
    hangs_heal (&w.disk[i]);
    w.disk[i].full_until = 0;
    w.member[i].slow = 1;
    w.member[i].proc.frozen_until = 0;
    fault_member_back (&w.member[i]);
  }
  copies_heal ();
  withheld_heal ();
  for (unsigned i = 0; i < w.config.hosts; i++) {
    struct host_role *h = &w.host[i];

    h->wants_detach = false;
    h->takeover = false;
    h->proc.frozen_until = 0;
    if (h->start_at > sim_now + SECOND)
      h->start_at = sim_now + SECOND;
  }
}
