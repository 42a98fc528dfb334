/* test-cluster-world.c: see test-cluster-world.h. */

#include <config.h>

#include <inttypes.h>

#include "test-cluster-world.h"

struct world world;
struct host *const writer = &world.host[0], *const other = &world.host[1],
                   *const reader = &world.host[2];

const uint8_t *
disk_uuid (unsigned disk)
{
  return world.disk[disk].uuid;
}

/* ---- Carrying out steps. ---- */

static void
copy_leases (const struct cluster_output *o, struct message *m)
{
  struct cluster_lease_told told;

  cluster_lease_told (engine, o->array, o->session, &told);
  m->revokes = told.revokes < HOSTS * LEASE_ASKS_MAX ? told.revokes
                                                     : HOSTS * LEASE_ASKS_MAX;
  for (unsigned i = 0; i < m->revokes; i++)
    m->revoke[i] = told.revoke[i];
  m->recover = told.recover;
  m->ranges_count = told.count;
  assert (told.count <= RANGES_MAX);
  for (unsigned i = 0; i < told.count; i++)
    m->ranges[i] = told.ranges[i];
  free (told.revoke);
  free (told.ranges);
}

static void
copy_reply (const struct cluster_output *o, struct message *m)
{
  struct cluster_join_order order;

  m->op = o->op;
  m->kind = o->reply;
  if (o->problem)
    m->problem = *o->problem;
  m->generation = cluster_identity (engine)->generation;
  if (o->reply == CLUSTER_REPLY_DISK) {
    const struct cluster_array *a = o->disk->array;
    struct cluster_disk_told told;

    cluster_disk_told (engine, o->disk, false, &told);
    m->over_count = told.over_count;
    memcpy (m->over, told.over, sizeof m->over);
    memcpy (m->cluster, cluster_identity (engine)->uuid, 16);
    memcpy (m->release, o->disk->rec.release, 16);
    m->min_epoch = cluster_disk_min_epoch_wanted (o->disk);
    /* A place comes when the old one is forgotten. */
    m->assigned = a && cluster_uuid_is_zero (m->release);
    if (m->assigned) {
      memcpy (m->array, a->rec.uuid, 16);
      m->position = o->disk->position;
      m->epoch = a->rec.epoch;
      for (unsigned i = 0; i < a->layout.members; i++)
        m->states[i] = a->rec.member[i].state;
      if (cluster_join_order (engine, a, m->position, &order))
        m->order = order.epoch;
    }
  }
  if (o->reply == CLUSTER_REPLY_GRANT || o->reply == CLUSTER_REPLY_SESSION) {
    m->session = o->session->rec.id;
    m->granted_epoch = o->session->rec.epoch;
    m->epoch = o->array->rec.epoch;
    if (o->array->rec.change.sessions)
      m->change = o->array->rec.change.epoch;
    m->leave = o->session->told.leave;
    m->hold = o->session->told.hold;
    m->fences = cluster_fence_number (engine);
    memcpy (m->array, o->array->rec.uuid, 16);
    for (unsigned i = 0; i < o->array->layout.members; i++)
      m->states[i] = o->array->rec.member[i].state;
    copy_leases (o, m);
  }
  m->granted_count = o->granted_count;
  for (unsigned i = 0; i < o->granted_count; i++)
    m->granted[i] = o->granted[i];
}

void
pump (void)
{
  struct cluster_step *s;

  cluster_check (engine);
  while ((s = cluster_next_step (engine)) != NULL) {
    struct step_out *out = calloc (1, sizeof *out);
    struct message **tail = &out->messages;

    out->step = s;
    out->round = world.rounds;
    for (size_t i = 0; i < s->outputs_count; i++)
      if (s->outputs[i].kind == CLUSTER_OUTPUT_REPLY) {
        *tail = calloc (1, sizeof **tail);
        copy_reply (&s->outputs[i], *tail);
        tail = &(*tail)->next;
      }
    *world.steps_tail = out;
    world.steps_tail = &out->next;
  }
}

void
drop_step (void)
{
  struct step_out *s = world.steps;
  struct message *m;

  world.steps = s->next;
  if (world.steps == NULL)
    world.steps_tail = &world.steps;
  while ((m = s->messages) != NULL) {
    s->messages = m->next;
    free (m);
  }
  cluster_step_free (s->step);
  free (s);
}

static void deliver (const struct message *m);

/* Was weftd killed after this action? */
static bool
acted (void)
{
  store_check ();
  world.actions++;
  if (world.actions == weftd.kill_at ||
      (world.kill_percent && rnd () % 100 < world.kill_percent))
    weftd.killed = true;
  return weftd.killed;
}

void
carry_out (void)
{
  while (world.steps && !weftd.killed) {
    struct step_out *s = world.steps;
    struct message *m;

    if (world.lag_percent && rnd () % 100 < world.lag_percent)
      return; /* the store is slow today */
    if (s->round + world.behind > world.rounds)
      return;
    if (!s->durable && s->step->records_count > 0) {
      transaction (s);
      s->durable = true;
      if (acted ())
        return;
    }
    while ((m = s->messages) != NULL) {
      s->messages = m->next;
      deliver (m);
      free (m);
      if (acted ())
        return;
    }
    drop_step ();
  }
}

/* weftd dies and starts again: nobody who waits gets an answer. */
void
reincarnate (void)
{
  uint64_t generation = 0;

  for (size_t i = 0; i < weftd.stored; i++)
    if (weftd.store[i].kind == CLUSTER_RECORD_IDENTITY)
      generation = weftd.store[i].identity.generation;
  while (world.steps)
    drop_step ();
  weftd.killed = false;
  world.kills++;
  for (unsigned i = 0; i < MEMBERS; i++)
    world.disk[i].op = 0;
  for (unsigned i = 0; i < HOSTS; i++)
    world.host[i].op = world.host[i].beat_op = world.host[i].lease_op = 0;
  world.admin_op = 0;
  weftd.now_ms += 100;
  start_engine ();
  pump ();
  /* Commands of a weftd before this one are known by their generation. */
  assert (cluster_identity (engine)->generation > generation);
}

/* ---- What members and hosts make of replies. ---- */

static void
disk_hears (struct disk *d, const struct message *m)
{
  const struct cluster_array_record *a;
  char why[256];

  d->op = 0;
  if (m->kind != CLUSTER_REPLY_DISK)
    return;
  assert (m->generation >= d->generation);
  if (m->over_count && !d->holds)
    d->over = m->over[m->over_count - 1].number;
  d->generation = m->generation;
  memcpy (d->cluster, m->cluster, 16);
  if (m->assigned) {
    /* Never told what is not durable. */
    a = stored_array (m->array);
    assert (a);
    assert (m->min_epoch <= a->epoch || m->min_epoch <= a->change.epoch);
    assert (m->epoch <= a->epoch); /* COMMITted */
    memcpy (d->array, m->array, 16);
    assert (layout_init (&d->layout, a->layout, a->n, a->groups, a->unit,
                         a->member_bytes, why, sizeof why) == 0);
    d->position = m->position;
    if (m->epoch > d->states_epoch) {
      d->states_epoch = m->epoch;
      d->sequence++;
      memcpy (d->states, m->states, sizeof d->states);
    }
  }
  else if (memcmp (m->release, d->array, 16) == 0) {
    memset (d->array, 0, 16);
    d->states_epoch = 0;
  }
  if (m->min_epoch > d->min_epoch && !d->unfenced) {
    d->min_epoch = m->min_epoch;
    d->sequence++;
    d->phase = CLUSTER_JOIN_WAITING;
  }
  if (!m->assigned || d->states[d->position] != MEMBER_JOINING) {
    d->phase = CLUSTER_JOIN_NONE;
    return;
  }
  if (d->phase == CLUSTER_JOIN_NONE || d->join_epoch != m->order)
    d->phase = CLUSTER_JOIN_WAITING;
  else if (m->order &&
           d->phase < (d->slow ? CLUSTER_JOIN_COPYING : CLUSTER_JOIN_SYNCED))
    d->phase++;
  d->join_epoch = m->order;
}

static bool
is_over (const struct cluster_array_record *a, uint64_t session)
{
  for (unsigned i = 0; i < a->over_count; i++)
    if (a->over[i].session == session)
      return true;
  return false;
}

static void
host_granted (struct host *h, const struct message *m)
{
  const struct cluster_session_record *s = stored_session (m->session);
  const struct cluster_array_record *a = stored_array (m->array);

  assert (s && strcmp (s->instance, h->instance) == 0);
  assert (a && a->epoch >= m->granted_epoch);
  /* Another session that comes at the same tick may have ended it.  It hears so by its
   * next heartbeat, and members know.
   */
  if (s->ended)
    assert (is_over (a, s->id));
  else if (h->writable && !h->attached) {
    /* Or he was beside somebody who has ended since. */
    bool beside = s->part.length > 0;

    for (size_t i = 0; i < weftd.stored; i++) {
      const struct cluster_session_record *o = &weftd.store[i].session;

      if (weftd.store[i].kind == CLUSTER_RECORD_SESSION && !o->ended &&
          o->writable && o->id != m->session &&
          memcmp (o->array, s->array, 16) == 0)
        assert ((s->leases && o->leases) ||
                !cluster_parts_meet (&s->part, &o->part));
    }
    /* Everyone else is fenced, in truth, at every member, and he is not; of several
     * that write, those whose sessions are over.
     */
    for (unsigned i = 0; i < MEMBERS; i++)
      assert (m->states[i] == MEMBER_OUT || beside ||
              world.disk[i].min_epoch >= m->granted_epoch);
    if (m->session != h->session) {
      assert (beside || m->granted_epoch > world.highest_grant);
      if (world.highest_grant < m->granted_epoch)
        world.highest_grant = m->granted_epoch;
    }
    /* Where the others have ended meanwhile, weftd knew of them when it granted. */
    for (unsigned i = 0; beside && i < a->over_count; i++)
      for (unsigned k = 0; k < MEMBERS; k++)
        assert (m->states[k] == MEMBER_OUT || !world.disk[k].holds ||
                world.disk[k].min_epoch > a->over[i].epoch);
  }
  h->attached = true;
  h->fences = h->hears = m->fences;
  h->session = m->session;
  h->epoch = h->arrived = m->epoch;
  h->fresh_ms = h->asked_ms;
  memset (h->lost, 0, sizeof h->lost);
  memcpy (h->states, m->states, sizeof h->states);
}

/* The host goes on in a new epoch: it connects again to members that are no longer
 * out. */
static void
host_goes_on (struct host *h, const struct message *m)
{
  h->told = m->change;
  h->leaves = m->leave;
  h->hears = m->fences;
  if (m->change && !h->busy)
    h->prepared = m->change;
  if (!h->lags)
    h->arrived = m->epoch;
  if (m->epoch == h->epoch || h->behind)
    return;
  for (unsigned i = 0; i < MEMBERS; i++)
    h->lost[i] = m->states[i] != MEMBER_OUT && !world.disk[i].alive;
  memcpy (h->states, m->states, sizeof h->states);
  h->epoch = m->epoch;
}

static void
host_hears (struct host *h, const struct message *m)
{
  if (m->op == h->beat_op) {
    h->beat_op = 0;
    /* A refused reader no longer trusts its copy: a change was made without it. */
    if (m->kind == CLUSTER_REPLY_SESSION)
      h->fresh_ms = h->asked_ms;
  }
  else
    h->op = 0;
  if (m->kind == CLUSTER_REPLY_GRANT || m->kind == CLUSTER_REPLY_SESSION)
    h->heard = *m;
  h->answered = true;
  h->refused = CLUSTER_OK;
  h->code = NULL;
  switch (m->kind) {
  case CLUSTER_REPLY_PROBLEM:
    h->refused = m->problem.kind;
    h->code = m->problem.code;
    assert (m->problem.detail[0]);
    if (m->problem.kind == CLUSTER_GONE) {
      h->over = true;
      h->attached = false;
    }
    return;
  case CLUSTER_REPLY_GRANT:
    host_granted (h, m);
    return;
  case CLUSTER_REPLY_SESSION:
    assert (stored_array (m->array)->epoch >= m->epoch);
    for (unsigned i = 0; i < MEMBERS; i++)
      if (m->states[i] == MEMBER_OUT)
        assert (stored_array (m->array)->member[i].state == MEMBER_OUT);
    host_goes_on (h, m);
    return;
  case CLUSTER_REPLY_DONE:
    assert (stored_session (h->session) == NULL ||
            stored_session (h->session)->ended);
    h->attached = h->leaves = false;
    return;
  default:
    abort ();
  }
}

static void
deliver (const struct message *m)
{
  assert (m->op != 0);
  if (m->op == world.admin_op) {
    world.admin_op = 0;
    world.admin_answered = true;
    world.admin = *m;
    world.admin.next = NULL;
    return;
  }
  for (unsigned i = 0; i < MEMBERS; i++)
    if (m->op == world.disk[i].op) {
      disk_hears (&world.disk[i], m);
      return;
    }
  for (unsigned i = 0; i < HOSTS; i++)
    if (m->op == world.host[i].lease_op) {
      world.host[i].lease_op = 0;
      world.host[i].lease = *m;
      return;
    }
  for (unsigned i = 0; i < HOSTS; i++)
    if (m->op == world.host[i].op || m->op == world.host[i].beat_op) {
      host_hears (&world.host[i], m);
      return;
    }
  /* The asking process is dead. */
}

/* ---- What members and hosts say. ---- */

struct cluster_disk_heartbeat
disk_words (const struct disk *d, uint64_t wait_ms)
{
  struct cluster_disk_heartbeat hb = { .uri = "nbd://127.0.0.1:1",
                                       .size = GiB (1),
                                       .data_bytes = GiB (1) - MiB (1),
                                       .position = d->position,
                                       .min_epoch = d->min_epoch,
                                       .generation = d->generation,
                                       .states_epoch = d->states_epoch,
                                       .sequence = d->sequence,
                                       .over = d->over,
                                       .dirty_extents = d->dirty,
                                       .room = d->room,
                                       .join = { .phase = d->phase,
                                                 .epoch = d->join_epoch },
                                       .disk_stuck_ms = d->stuck_ms,
                                       .wait_ms = wait_ms };

  memcpy (hb.uuid, d->uuid, 16);
  memcpy (hb.cluster, d->cluster, 16);
  if (!d->placeless)
    memcpy (hb.array, d->array, 16);
  hb.has_place = !cluster_uuid_is_zero (hb.array);
  if (hb.has_place) {
    hb.layout = d->layout.kind;
    hb.n = d->layout.n;
    hb.groups = d->layout.groups;
    hb.unit = d->layout.unit;
    hb.member_bytes = d->layout.member_bytes;
    for (unsigned m = 0; m < d->layout.members; m++)
      hb.states[m] = (uint8_t) d->states[m];
  }
  if (d->starts)
    hb.state = DISK_STARTING;
  snprintf (hb.instance, sizeof hb.instance, "%s", d->instance);
  snprintf (hb.cache, sizeof hb.cache, "%s", d->cache ? d->cache : "");
  snprintf (hb.node, sizeof hb.node, "n%u", d->uuid[0]);
  snprintf (hb.path, sizeof hb.path, "/dev/d%u", d->uuid[0]);
  if (d->works > 0) {
    hb.has_load = true;
    hb.load.disk_writes = (uint64_t) (d->works * (double) weftd.now_ms / 1000);
  }
  if (d->shortage)
    snprintf (hb.shortage, sizeof hb.shortage, "%s", d->shortage);
  return hb;
}

void
disk_beat (struct disk *d, uint64_t wait_ms)
{
  struct cluster_disk_heartbeat hb = disk_words (d, wait_ms);

  CALL (d->op = ++weftd.op, cluster_disk_heartbeat (engine, in, &hb));
}

void
host_beat (struct host *h)
{
  struct cluster_session_heartbeat hb = { .epoch = h->epoch,
                                          .arrived = h->arrived,
                                          .prepared = h->prepared,
                                          .fences = h->fences,
                                          .older = h->older,
                                          .draining = h->ending,
                                          .equal = !h->copying,
                                          .order = h->order,
                                          .wait_ms = 1000 };

  h->asked_ms = weftd.now_ms;
  hb.has_stats = true;
  hb.stats.memory_wait_ns = h->memory_wait_ns;
  for (unsigned m = 0; m < MEMBERS; m++)
    hb.stats.member[m].refused_ns = h->refused_ns[m];
  if (h->prepared)
    prepared (h->session, h->prepared);
  snprintf (hb.instance, sizeof hb.instance, "%s", h->instance);
  CALL (h->beat_op = ++weftd.op,
        cluster_session_heartbeat (engine, in, h->session, &hb));
}

void
host_attach (struct host *h)
{
  struct cluster_attach a = { .pid = 7,
                              .writable = h->writable,
                              .part = h->part,
                              .leases = h->leases,
                              .service = h->service,
                              .exports = h->exports,
                              .takeover = h->takeover,
                              .by_admin = !h->bound,
                              .ended = h->ended };

  snprintf (a.instance, sizeof a.instance, "%s", h->instance);
  snprintf (a.node, sizeof a.node, "%s", h->node);
  h->answered = false;
  h->asked_ms = weftd.now_ms;
  CALL (h->op = ++weftd.op, cluster_attach (engine, in, weftd.name, &a));
}

static void
host_live (struct host *h)
{
  if (!h->alive)
    return;
  if (h->attached && h->service && h->leaves && !h->stays && h->op == 0)
    CALL (h->op = ++weftd.op, cluster_session_detach (engine, in, h->session));
  else if (h->attached && h->beat_op == 0) {
    if (!h->busy)
      h->fences = h->hears;
    host_beat (h);
  }
  else if (!h->attached && h->service && h->op == 0)
    host_attach (h);
}

static void
host_says (struct host *h)
{
  static uint64_t number;
  const uint64_t first = LEASE_NUMBERS (cluster_identity (engine)->generation);
  const struct cluster_session *s = cluster_session_find (engine, h->session);
  struct cluster_lease_message w = { .declared = &h->part };

  if (!h->obeys || !h->alive || !h->attached || h->copying || weftd.killed ||
      s == NULL || s->rec.ended || s->array->leases == NULL ||
      (s->lessee.declared && !h->heard.recover))
    return;
  number = number >> 32 == first >> 32 ? number + 1 : first + 1;
  w.number = number;
  w.declare = !s->lessee.declared;
  w.declared_count = w.declare;
  w.recovered = h->heard.recover;
  h->heard.recover = 0;
  snprintf (w.instance, sizeof w.instance, "%s", h->instance);
  CALL (++weftd.op, cluster_session_leases (engine, in, h->session, &w));
}

/* A quarter of a second of everybody's life. */
void
live (void)
{
  /* A scenario that does not get on has failed. */
  assert (++world.rounds < 20000);
  weftd.now_ms += CLUSTER_TICK_MS;
  for (unsigned i = 0; i < MEMBERS; i++)
    if (world.disk[i].alive && world.disk[i].op == 0)
      disk_beat (&world.disk[i], 1000);
  for (unsigned i = 0; i < HOSTS; i++)
    host_live (&world.host[i]);
  carry_out ();
  for (unsigned i = 0; i < HOSTS; i++)
    host_says (&world.host[i]);
  carry_out ();
  if (!weftd.killed)
    CALL (0, (in_.unsaid = world.steps ? world.steps->step->number : 0,
              cluster_tick (engine, in)));
  carry_out ();
  if (weftd.killed)
    reincarnate ();
}

void
world_init (uint64_t seed)
{
  while (world.steps)
    drop_step ();
  weftd_init (seed);
  memset (&world, 0, sizeof world);
  world.steps_tail = &world.steps;
  for (unsigned i = 0; i < MEMBERS; i++) {
    memset (world.disk[i].uuid, (int) i + 1, 16);
    snprintf (world.disk[i].instance, 16, "d%u", i);
    world.disk[i].alive = true;
  }
  for (unsigned i = 0; i < HOSTS; i++) {
    snprintf (world.host[i].instance, 16, "h%u", i);
    snprintf (world.host[i].node, 16, "host%u", i);
    world.host[i].alive = true;
    world.host[i].writable = i != 2;
  }
  start_engine ();
  pump ();
  carry_out ();
  if (weftd.killed)
    reincarnate ();
}
