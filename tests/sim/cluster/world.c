/* world.c: a run: its parts, its time, its end. */

#include <config.h>

#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"
#include "world.h"

struct world w;
unsigned long long steps, io_steps;
struct counters counters;
static uint64_t lives;
bool world_rollbacks, world_rekeys, world_imports, world_restores, world_hard,
  world_shared, world_leases, world_sick, world_alone;

void *
make (size_t size)
{
  void *p = calloc (1, size);

  if (p == NULL)
    abort ();
  return p;
}

uint64_t
between (uint64_t a, uint64_t b)
{
  return a + sim_below (b - a + 1);
}

void
event_push (struct event *e, uint64_t delay)
{
  sim_push (sim_now + delay, e);
}

/* ---- Processes ---- */

uint64_t
process_start (struct process *p)
{
  p->frozen_until = 0;
  return p->life = ++lives;
}

void
process_trace (const struct process *p, const char *fmt, ...)
{
  char text[512];
  va_list ap;

  if (!sim_verbose)
    return;
  va_start (ap, fmt);
  vsnprintf (text, sizeof text, fmt, ap);
  va_end (ap);
  sim_trace ("%s %u: %s", p->kind, p->number, text);
}

enum life
process_life (const struct process *p, uint64_t life, struct event *e)
{
  if (p->life != life || life == 0)
    return LIFE_GONE;
  if (p->frozen_until <= sim_now)
    return LIFE_RUNS;
  if (e)
    event_push (e, p->frozen_until - sim_now + sim_below (MS));
  return LIFE_FROZEN;
}

struct timer {
  struct event event;
  struct process *process;
  uint64_t life;
  void (*fn) (void *);
  void *owner;
};

static void
timer_happens (struct event *e)
{
  struct timer *t = (struct timer *) e;
  enum life life = process_life (t->process, t->life, e);

  if (life == LIFE_FROZEN)
    return;
  if (life == LIFE_RUNS)
    t->fn (t->owner);
  free (t);
}

void
process_after (struct process *p, uint64_t delay, void (*fn) (void *),
               void *owner)
{
  struct timer *t = make (sizeof *t);

  t->event.happen = timer_happens;
  t->process = p;
  t->life = p->life;
  t->fn = fn;
  t->owner = owner;
  event_push (&t->event, delay);
}

/* ---- A run ---- */

static void
choose_layout (struct config *c)
{
  static const enum layout_kind kinds[] = {
    LAYOUT_RAIDX,  LAYOUT_RAIDX,   LAYOUT_RAIDX,   LAYOUT_RAIDX,
    LAYOUT_RAID10, LAYOUT_CHAINED, LAYOUT_ROTATED, LAYOUT_RAID1,
  };

  c->kind = kinds[sim_below (sizeof kinds / sizeof kinds[0])];
  c->n = 3 + sim_below (2);
  c->groups = 1;
  c->spares = 2;
  if (c->kind == LAYOUT_RAID10)
    c->n = 2 + 2 * sim_below (2);
  if (c->kind == LAYOUT_RAID1)
    c->n = 2 + sim_below (2);
  if (c->n <= 4 && sim_chance (10))
    c->groups = 2;
  c->unit = KiB (4) << (2 * sim_below (6));
  c->member_bytes = EXTENT_BYTES * (3 + sim_below (4));
  if (c->unit * 2 * c->n > c->member_bytes)
    c->unit = KiB (64);
}

/* Leases are in multiples of 512 bytes, and a grain is not to be cut.  Which hosts go for
 * the same, and how much, differs from world to world.
 */
static void
choose_leases (struct config *c)
{
  c->leases = true;
  if (grain_bytes > LEASE_BYTES)
    grain_bytes = LEASE_BYTES;
  c->copies = c->spots = c->rollbacks = false;
  c->lessee = sim_chance (60)   ? LESSEE_ADAPTIVE
              : sim_chance (50) ? LESSEE_NAIVE
                                : LESSEE_TOKEN;
  c->hot = sim_chance (60) ? 20 * (1 + sim_below (4)) : 0;
  c->hot_grains = 1 + sim_below (8);
  c->stream = sim_chance (40) ? 80 : 0;
}

static void
choose (struct config *c)
{
  choose_layout (c);
  c->hosts = 2 + sim_below (HOSTS_MAX - 1);
  if (c->hosts > c->n * c->groups + 1)
    c->hosts = c->n * c->groups + 1;
  c->readers = sim_chance (50) ? 1 + sim_below (c->hosts - 1) : 0;
  c->areas = 2 + sim_below (AREAS_MAX - 1);
  c->dup = c->kind != LAYOUT_RAIDX && sim_chance (30) ? DUP_SYNC_CLIENT
                                                      : DUP_ASYNC_CLIENT;
  c->image_age_ms = 1 + sim_below (300);
  c->image_buffer_bytes = KiB (64) << sim_below (5);
  c->through_bytes = KiB (4) << sim_below (9);
  c->io_timeout_ms = 500 + sim_below (4000);
  c->connect_ms = 500 + sim_below (3000);
  c->faults_ms = sim_chance (10) ? 0 : 200 + sim_below (6000);
  c->copies = sim_chance (30);
  c->spots = grain_bytes == BAD_BLOCK_BYTES && sim_chance (60);
  if (c->copies || c->spots)
    c->faults_ms = 100 + sim_below (1500);
  c->flaky = sim_chance (25) ? 1 + sim_below (5) : 0;
  c->slow_store = sim_chance (30) ? 20 : 1;
  c->work_ns = between (5, 40) * SECOND;
  c->client_us = 500 << sim_below (10);
  c->rollbacks = sim_chance (20) || world_rollbacks;
  if (c->rollbacks) { /* long enough for bits to fall */
    c->copies = c->spots = false;
    c->faults_ms = 300 + sim_below (2500);
    c->work_ns = between (20, 60) * SECOND;
  }
  if (world_hard) {
    c->faults_ms = 50 + sim_below (1450);
    c->work_ns = between (30, 120) * SECOND;
  }
  if (world_shared || world_leases) {
    c->shared = world_shared;
    c->hosts = 2 + sim_below (HOSTS_MAX - 1);
    if (c->hosts > c->n * c->groups + 1)
      c->hosts = c->n * c->groups + 1;
    c->readers = c->hosts > 2 ? sim_below (2) : 0;
    c->work_ns = between (15, 60) * SECOND;
    if (sim_chance (50))
      c->faults_ms = 500 + sim_below (8000);
  }
  if (world_alone) {
    c->kind = LAYOUT_RAID1;
    c->n = 2;
    c->copies = c->spots = c->rollbacks = false;
  }
  if (world_leases)
    choose_leases (c);
  if (sim_chance (3)) { /* long enough for a word to be overdue */
    c->withholds = true;
    c->faults_ms = 6000 + sim_below (8000);
    c->work_ns = between (80, 120) * SECOND;
  }
}

static void
make_parts (void)
{
  unsigned members = w.layout.members;

  w.admin = (struct process) { .kind = "admin" };
  process_start (&w.admin);
  w.weftd.proc = (struct process) { .kind = "weftd" };
  w.disks = members + w.config.spares;
  w.roles = w.disks + TWINS;
  for (unsigned i = 0; i <= w.roles; i++) {
    struct member_role *m = &w.member[i];

    m->proc = (struct process) { .kind = "member",
                                 .number = i,
                                 .party = 1 + i % w.config.hosts };
    m->disk = &w.disk[i];
    m->disk->number = w.holder[i] = i;
    m->slow = 1;
    m->pulled = i >= w.disks;
    if (!m->pulled)
      disk_format (m->disk, i);
  }
  disk_nobody (&w.disk[w.roles], w.roles);
  for (unsigned i = 0; i < w.config.hosts; i++) {
    struct host_role *h = &w.host[i];

    h->proc = (struct process) { .kind = "host", .number = i, .party = 1 + i };
    h->writable = i >= w.config.readers;
  }
}

static void
begin (void)
{
  const struct config *c = &w.config;
  char why[200];

  /* Records are large, and come and go: the kernel need not hear of each. */
  mallopt (M_MMAP_THRESHOLD, MiB (64));
  mallopt (M_TRIM_THRESHOLD, MiB (256));
  if (layout_init (&w.layout, c->kind, c->n, c->groups, c->unit,
                   format_usable (c->member_bytes), why, sizeof why) == -1)
    sim_fail ("layout: %s", why);
  areas_choose ();
  if (c->shared)
    parts_choose ();
  sim_trace ("%s n=%u groups=%u unit=%u hosts=%u readers=%u areas=%u "
             "grain=%u dup=%s faults=%u%s flaky=%u io timeout %u ms",
             layout_name (c->kind), c->n, c->groups, c->unit, c->hosts,
             c->readers, c->areas, grain_bytes, array_dup_name (c->dup),
             c->faults_ms,
             c->copies      ? " (copies)"
             : c->rollbacks ? " (disks rolled back)"
                            : "",
             c->flaky, c->io_timeout_ms);
  /* So that a replay looks at the engines at the same steps as the first run. */
  steps += CHECK_STEPS - steps % CHECK_STEPS;
  make_parts ();
  check_begin ();
  oracle_begin ();
  weftd_start ();
  for (unsigned i = 0; i < w.disks; i++)
    member_start (&w.member[i]);
}

void
world_begin (uint64_t seed)
{
  memset (&w, 0, sizeof w);
  lives = 0;
  /* Twice: the streams of neighbouring seeds are the same, one number on. */
  sim_seed (seed);
  sim_seed (sim_random ());
  sim_now = 1000 * SECOND;
  grain_bytes = sim_chance (60) ? 64 : sim_chance (40) ? 512 : 4096;
  choose (&w.config);
  sick_choose (&w.config, seed);
  begin ();
}

void
world_configure (const struct config *c, uint64_t seed)
{
  memset (&w, 0, sizeof w);
  lives = 0;
  sim_seed (seed);
  sim_now = 1000 * SECOND;
  grain_bytes = c->leases ? LEASE_BYTES : 64;
  w.config = *c;
  begin ();
}

/* ---- Creating the array ---- */

static void
created (struct call *c)
{
  if (c->answer.status == 200)
    w.created = true;
}

static bool
all_registered (void)
{
  unsigned count = 0;
  const struct cluster_disk *d;

  if (w.weftd.proc.life == 0)
    return false;
  TAILQ_FOREACH (d, cluster_disks (w.weftd.engine), link)
    count++;
  return count == w.disks;
}

static bool
is_ready (void)
{
  const struct cluster_array_record *a = store_array ();

  return a && a->ready;
}

void
world_create (void)
{
  struct call *c;

  if (!world_live (60 * SECOND, all_registered))
    sim_fail ("the disks do not register");
  c = call_new (&w.admin, CALL_CREATE, NULL, created);
  strcpy (c->create.name, ARRAY_NAME);
  c->create.layout = w.config.kind;
  c->create.dup = w.config.dup;
  c->create.groups = w.config.groups;
  c->create.members = w.layout.members;
  c->create.unit = w.config.unit;
  c->create.force = true; /* hosts have several disks here */
  for (unsigned i = 0; i < w.layout.members; i++) {
    memcpy (c->create.disk[i], w.disk[i].uuid, 16);
    disk_take_place (&w.disk[i], i);
  }
  c->create.allow.listed = true;
  for (unsigned i = 0; i < w.config.hosts; i++) {
    struct cluster_allow *a = &c->create.allow.node[c->create.allow.nodes++];

    snprintf (a->node, sizeof a->node, "n%u", w.host[i].proc.party);
    a->writable = a->failover = true;
  }
  call_send (c, 10000);
  if (!world_live (60 * SECOND, is_ready))
    sim_fail ("the array is never ready");
  w.created = true;
  for (unsigned i = 0; i < (w.config.lone ? w.config.lone : w.config.hosts);
       i++)
    w.host[i].start_at = sim_now;
  faults_begin ();
  ends_begin ();
}

/* ---- Time ---- */

static void
mix (uint64_t number)
{
  w.hash = (w.hash ^ number) * UINT64_C (0x100000001b3);
}

void
world_step (void)
{
  struct event *e = sim_pop ();

  e->happen (e);
  mix (sim_now);
  mix (w.requests);
}

bool
world_live (uint64_t ns, bool (*until) (void))
{
  uint64_t end = sim_now + ns;

  while (!(until && until ())) {
    if (sim_next () > end) {
      sim_now = end;
      return false;
    }
    world_step ();
  }
  return true;
}

void
world_run (void)
{
  world_create ();
  w.working = true;
  world_live (w.config.work_ns, NULL);
  if (sim_now < w.calm_until)
    world_live (w.calm_until - sim_now, NULL);
}

/* A young copy was taken for a disk, and is refused since it was started again, or the
 * array is frozen, for another member has seen more of its writing: the array waits
 * for the right disk, which is not there any more.  Only an import helps.
 */
static bool
waits_for_no_disk (void)
{
  const struct cluster_array *a = cluster_array_find (w.weftd.engine,
                                                      ARRAY_NAME);
  bool doubted = a && cluster_array_doubted (w.weftd.engine, a, NULL, 0);

  for (unsigned m = 0; w.config.rollbacks && a && m < w.layout.members; m++)
    if (a->rec.member[m].state == MEMBER_IN_SYNC &&
        (a->disk[m]->old_copy || doubted) &&
        place_disk (store_array (), m)->copied > 0)
      return true;
  return false;
}

void
world_converge (void)
{
  char why[1500] = "";

  for (unsigned i = 0; i < 400 && !check_converged (false, NULL, 0); i++) {
    struct host_role *h;

    world_live (SECOND / 4, NULL);
    h = check_writer ();
    /* Not all bits fall in a session that had the last copy of something away, or
     * that could not tell all members what no copy can be read of.
     */
    if (h && (oracle_reconnected () || !h->resynced)) {
      if (!h->wants_detach)
        clients_poll (h);
      h->wants_detach = true;
    }
    /* A member that was started again keeps bits of its former life until somebody
     * finds its old connection dead: touch everything.
     */
    for (unsigned a = 0; h && i == 100 && a < w.config.areas; a++)
      clients_send (h, ARRAY_WRITE, 0, w.area[a].offset,
                    w.area[a].grains * grain_bytes);
  }
  counters.imports_never +=
    w.no_database; /* nobody knows which disks are right */
  if (check_converged (false, why, sizeof why))
    oracle_quiet ();
  else if (!w.no_database && !waits_for_no_disk ())
    sim_fail ("all was healed %u s ago: %s", 100, why);
}

void
world_unite (void)
{
  sim_trace ("---- one host is to write all ----");
  w.united = true;
  for (unsigned i = 0; i < w.config.hosts; i++)
    host_give_way (&w.host[i]);
}

static bool
parts_converged (void)
{
  return check_converged (true, NULL, 0) &&
         (w.config.leases || !store_array ()->to_recover);
}

/* weftd does not say that copies may differ: so they do not, though nobody may have attached
 * the part of a host that has ended, and members may have lost what they had not flushed.
 */
static void
check_equal (void)
{
  const struct cluster_session *by;
  uint64_t bytes;

  if (cluster_array_unequal (cluster_array_find (w.weftd.engine, ARRAY_NAME),
                             &bytes, &by) != UNEQUAL_NONE)
    return;
  for (unsigned g = 0; g < w.grains; g++)
    oracle_agreed (g, "all parts are recovered", false);
}

/* While several write, all is well again.  Then one host writes all, for only where a
 * whole extent is somebody's do bits fall that a dead host has left.
 */
static void
unite (void)
{
  char why[1500] = "";

  if (!world_live (100 * SECOND, parts_converged) && !waits_for_no_disk ()) {
    check_converged (true, why, sizeof why);
    sim_fail ("all was healed %u s ago: %s", 120, why);
  }
  if (w.config.shared && parts_converged ())
    check_equal ();
  for (unsigned i = 0; i < w.config.hosts; i++) {
    struct host_role *h = &w.host[i];

    if (h->stage != HOST_SERVING)
      continue;
    for (unsigned a = 0; a < w.config.areas; a++)
      clients_send (h, ARRAY_READ, 0, w.area[a].offset,
                    w.area[a].grains * grain_bytes);
    clients_send (h, ARRAY_FLUSH, 0, 0, 0);
  }
  world_live (5 * SECOND, NULL);
  world_unite ();
  world_live (20 * SECOND, NULL);
}

void
world_finish (void)
{
  w.working = false;
  w.healing = true;
  sim_trace ("---- all is healed ----");
  faults_heal ();
  for (unsigned i = 0;
       (w.config.shared || w.config.leases) && i < w.config.hosts; i++)
    if (w.host[i].writable && w.host[i].part_length == 0)
      host_give_way (&w.host[i]);
  world_live (20 * SECOND, NULL);
  if (w.config.shared || w.config.leases)
    unite ();
  if (check_writer ())
    clients_send (check_writer (), ARRAY_FLUSH, 0, 0, 0);
  world_live (5 * SECOND, NULL);
  world_converge ();
}

uint64_t
world_end (void)
{
  struct event *e;

  mix (sim_random ());
  for (unsigned i = 0; i < w.roles; i++)
    for (unsigned s = 0; s < w.disk[i].slots_count; s++)
      mix (w.disk[i].slots[s].now);
  w.healing = true;
  for (unsigned i = 0; i < HOSTS_MAX; i++)
    if (w.host[i].proc.life)
      host_kill (&w.host[i]);
  for (unsigned i = 0; i < w.roles; i++)
    if (w.member[i].proc.life)
      member_stop (&w.member[i], true);
  if (w.weftd.proc.life)
    weftd_kill ();
  w.admin.life = 0;
  /* Every event finds its process gone, and frees itself. */
  memset (w.cut, 0, sizeof w.cut);
  while ((e = sim_pop ()) != NULL)
    e->happen (e);
  net_check_empty ();
  for (unsigned i = 0; i <= w.roles; i++)
    disk_free (&w.disk[i]);
  store_forget ();
  areas_free ();
  oracle_end ();
  return w.hash;
}
