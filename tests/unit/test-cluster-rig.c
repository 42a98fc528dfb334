/* test-cluster-rig.c: weftd's part, and everybody's life. */

#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <inttypes.h>

#include "test-cluster-rig.h"

struct cluster_input
input (struct rig *r, uint64_t op)
{
  struct cluster_input in = { .op = op,
                              .now_ms = r->now_ms,
                              .wall_ms = 1700000000000 + r->now_ms };

  for (unsigned i = 0; i < KEY_BYTES; i++) {
    r->random = r->random * 6364136223846793005u + 1442695040888963407u;
    in.random[i] = (uint8_t) (r->random >> 40);
  }
  return in;
}

/* ---- weftd's part. ---- */

/* A number never gets two sets of states. */
static void
number (struct rig *r, uint64_t epoch, const uint8_t states[])
{
  assert (epoch < 1024);
  assert (!r->history[epoch].known ||
          memcmp (r->history[epoch].states, states, MEMBERS) == 0);
  r->history[epoch].known = true;
  memcpy (r->history[epoch].states, states, MEMBERS);
}

static void
store_check (struct rig *r, const struct cluster_array_record *a)
{
  uint8_t states[MEMBERS] = { 0 };
  bool out[ARRAY_MEMBERS_MAX];
  struct layout l;
  char why[256];

  for (unsigned m = 0; m < a->n * a->groups && m < MEMBERS; m++)
    states[m] = (uint8_t) a->member[m].state;
  for (unsigned m = 0; m < a->n * a->groups; m++)
    out[m] = a->member[m].state != MEMBER_IN_SYNC;
  number (r, a->epoch, states);
  if (a->change.epoch)
    number (r, a->change.epoch, a->change.states);
  assert (layout_init (&l, a->layout, a->n, a->groups, a->unit, a->member_bytes,
                       why, sizeof why) == 0);
  assert (layout_loss (&l, out, NULL) == 0); /* the last copy stays */
}

static void
store (struct rig *r, const struct cluster_record *record)
{
  size_t i = 0;

  if (record->kind == CLUSTER_RECORD_ARRAY && !record->deleted &&
      strcmp (record->array.name, "a") == 0)
    store_check (r, &record->array);
  while (i < r->stored && !cluster_record_same (&r->store[i], record))
    i++;
  if (record->deleted) {
    if (i < r->stored)
      r->store[i] = r->store[--r->stored];
    return;
  }
  assert (i < 64);
  r->store[i] = *record;
  if (i == r->stored)
    r->stored++;
}

static void
disk_hears (struct rig *r, struct fake_disk *d, const struct cluster_disk *what)
{
  const struct cluster_array *a = what->array;
  uint64_t wanted = cluster_disk_min_epoch_wanted (what);
  struct cluster_join_order order;

  memcpy (d->cluster, cluster_identity (r->c)->uuid, 16);
  assert (cluster_identity (r->c)->generation >= d->generation);
  d->generation = cluster_identity (r->c)->generation;
  if (!cluster_uuid_is_zero (what->rec.release)) {
    if (cluster_uuid_equal (what->rec.release, d->array)) {
      memset (d->array, 0, 16);
      d->states_epoch = 0;
      memset (&d->join, 0, sizeof d->join);
      d->sequence++;
    }
    return; /* an assignment comes with it only when it is gone */
  }
  if (a == NULL)
    return;
  if (cluster_uuid_is_zero (d->array)) {
    memcpy (d->array, a->rec.uuid, 16);
    d->position = what->position;
    d->layout = a->layout;
    d->full = a->rec.member[d->position].state != MEMBER_IN_SYNC;
    d->sequence++;
  }
  assert (cluster_uuid_equal (d->array, a->rec.uuid));
  if (a->rec.epoch > d->states_epoch) {
    d->states_epoch = a->rec.epoch;
    for (unsigned m = 0; m < a->layout.members; m++)
      d->states[m] = (uint8_t) a->rec.member[m].state;
    d->sequence++;
  }
  if (wanted > d->min_epoch && !d->failed) {
    d->min_epoch = wanted;
    d->sequence++;
    if (d->join.phase != CLUSTER_JOIN_NONE)
      d->join.phase = CLUSTER_JOIN_WAITING;
    d->join.epoch = 0;
  }
  if (d->states[d->position] != MEMBER_JOINING) {
    memset (&d->join, 0, sizeof d->join);
    if (d->states[d->position] == MEMBER_IN_SYNC)
      d->full = false;
    return;
  }
  if (d->join.phase == CLUSTER_JOIN_NONE)
    d->join.phase = CLUSTER_JOIN_WAITING;
  if (cluster_join_order (r->c, a, d->position, &order)) {
    d->orders++;
    d->order = order;
    if (order.epoch != d->join.epoch) {
      d->join.epoch = order.epoch;
      d->join.phase = CLUSTER_JOIN_COPYING;
      d->left = d->full ? 8 : 2;
    }
  }
}

static void
hear (struct rig *r, const struct cluster_output *o)
{
  if (o->op == r->asked) {
    r->asked = 0;
    r->answered = true;
    r->code = o->problem ? o->problem->code : NULL;
    snprintf (r->detail, sizeof r->detail, "%s",
              o->problem ? o->problem->detail : "");
    assert (o->problem == NULL || o->problem->detail[0]);
    return;
  }
  for (unsigned i = 0; i < DISKS; i++)
    if (o->op == r->disk[i].op) {
      r->disk[i].op = 0;
      r->disk[i].refused = o->problem ? o->problem->code : NULL;
      if (o->reply == CLUSTER_REPLY_DISK)
        disk_hears (r, &r->disk[i], o->disk);
      return;
    }
  if (o->op != r->attach_op && o->op != r->beat_op)
    return;
  if (o->op == r->beat_op)
    r->beat_op = 0;
  else
    r->attach_op = 0;
  if (o->reply == CLUSTER_REPLY_GRANT) {
    r->attached = true;
    r->session = o->session->rec.id;
  }
  if (o->reply == CLUSTER_REPLY_PROBLEM || r->lags)
    return;
  r->epoch = o->array->rec.epoch;
  r->prepared = o->array->rec.change.sessions ? o->array->rec.change.epoch : 0;
}

static void
start (struct rig *r)
{
  struct cluster_input in = input (r, 0);
  struct cluster_step *s;
  char why[256];

  r->c = cluster_new ();
  for (size_t i = 0; i < r->stored; i++)
    assert (cluster_load (r->c, &r->store[i], why, sizeof why) == 0);
  assert (cluster_start (r->c, &in, why, sizeof why) == 0);
  while ((s = cluster_next_step (r->c)) != NULL) {
    for (size_t i = 0; i < s->records_count; i++)
      store (r, &s->records[i]);
    cluster_step_free (s);
  }
}

void
restart (struct rig *r)
{
  cluster_free (r->c);
  for (unsigned i = 0; i < DISKS; i++)
    r->disk[i].op = 0;
  r->attach_op = r->beat_op = r->asked = 0;
  r->now_ms += 100;
  start (r);
}

void
pump (struct rig *r)
{
  struct cluster_step *s;
  bool killed = false;

  cluster_check (r->c);
  while ((s = cluster_next_step (r->c)) != NULL) {
    if (!killed) {
      for (size_t i = 0; i < s->records_count; i++)
        store (r, &s->records[i]);
      if (s->records_count && ++r->steps == r->kill_at)
        killed = true;
    }
    for (size_t i = 0; !killed && i < s->outputs_count; i++)
      if (s->outputs[i].kind == CLUSTER_OUTPUT_REPLY)
        hear (r, &s->outputs[i]);
      else if (s->outputs[i].kind == CLUSTER_OUTPUT_CHANGED &&
               s->outputs[i].object == CLUSTER_ARRAY)
        r->array_events++;
      else if (s->outputs[i].kind == CLUSTER_OUTPUT_LOG) {
        r->warnings += s->outputs[i].severity == CLUSTER_WARNING;
        r->errors += s->outputs[i].severity == CLUSTER_ERROR;
      }
    cluster_step_free (s);
  }
  if (killed) {
    r->killed = true;
    restart (r);
  }
}

void
lose_database (struct rig *r)
{
  cluster_free (r->c);
  memset (r->store, 0, sizeof r->store);
  r->stored = 0;
  r->steps = 0;
  for (unsigned i = 0; i < DISKS; i++)
    r->disk[i].op = 0;
  r->random += 77;
  start (r);
}

/* ---- Everybody's life. ---- */

static void
disk_beat (struct rig *r, struct fake_disk *d)
{
  struct cluster_disk_heartbeat hb = { .uri = "nbd://127.0.0.1:1",
                                       .size = d->data_bytes + MiB (1),
                                       .data_bytes = d->data_bytes,
                                       .position = d->position,
                                       .min_epoch = d->min_epoch,
                                       .generation = d->generation,
                                       .states_epoch = d->states_epoch,
                                       .sequence = d->sequence,
                                       .round = d->round,
                                       .failed = d->failed,
                                       .wait_ms = 500,
                                       .join = d->join,
                                       .proven = r->proven,
                                       .has_place = !cluster_uuid_is_zero (
                                         d->array) };
  struct cluster_input in = input (r, d->op = ++r->op);

  if (hb.has_place) {
    hb.layout = d->layout.kind;
    hb.n = d->layout.n;
    hb.groups = d->layout.groups;
    hb.unit = d->layout.unit;
    hb.member_bytes = d->layout.member_bytes;
  }
  memcpy (hb.uuid, d->uuid, 16);
  memcpy (hb.cluster, d->cluster, 16);
  memcpy (hb.array, d->array, 16);
  memcpy (hb.states, d->states, sizeof hb.states);
  snprintf (hb.instance, sizeof hb.instance, "%s", d->instance);
  snprintf (hb.cache, sizeof hb.cache, "%s", d->cache ? d->cache : "");
  if (d->node)
    snprintf (hb.node, sizeof hb.node, "%s", d->node);
  else
    snprintf (hb.node, sizeof hb.node, "n%u", d->uuid[0]);
  snprintf (hb.path, sizeof hb.path, "/dev/d%s", d->instance);
  cluster_disk_heartbeat (r->c, &in, &hb);
  pump (r);
}

static void
host_beat (struct rig *r)
{
  struct cluster_session_heartbeat hb = { .epoch = r->epoch,
                                          .prepared = r->prepared,
                                          .round = r->round,
                                          .wait_ms = 0,
                                          .has_stats = r->busy };
  struct cluster_input in = input (r, r->beat_op = ++r->op);

  snprintf (hb.instance, sizeof hb.instance, "%s", r->instance);
  hb.stats.reads = r->reads += 100;
  hb.stats.read_ns = r->reads * 1000000;
  cluster_session_heartbeat (r->c, &in, r->session, &hb);
  pump (r);
}

void
round_of (struct rig *r)
{
  struct cluster_input in;

  r->now_ms += CLUSTER_TICK_MS;
  for (unsigned i = 0; i < DISKS; i++) {
    struct fake_disk *d = &r->disk[i];

    if (d->dead)
      continue;
    if (d->join.phase == CLUSTER_JOIN_COPYING && !d->stuck &&
        !d->order.paused && d->left-- == 0) {
      d->join.phase = CLUSTER_JOIN_SYNCED;
      d->round = r->attached ? r->round : d->order.round;
      d->full = false;
      d->left = 0;
    }
    if (d->op == 0)
      disk_beat (r, d);
  }
  if (r->attached)
    host_beat (r);
  in = input (r, 0);
  cluster_tick (r->c, &in);
  pump (r);
}

void
rounds (struct rig *r, unsigned n)
{
  while (n-- > 0)
    round_of (r);
}

struct cluster_array *
array (struct rig *r)
{
  return cluster_array_find (r->c, "a");
}

enum member_state
state (struct rig *r, unsigned m)
{
  return array (r)->rec.member[m].state;
}

void
rig_init (struct rig *r, unsigned kill_at)
{
  memset (r, 0, sizeof *r);
  r->now_ms = 1000;
  r->kill_at = kill_at;
  snprintf (r->instance, sizeof r->instance, "h");
  for (unsigned i = 0; i < DISKS; i++) {
    memset (r->disk[i].uuid, (int) i + 1, 16);
    snprintf (r->disk[i].instance, 16, "%u", i);
    r->disk[i].data_bytes = MiB (255) + (i >= MEMBERS ? MiB (i) : 0);
  }
  start (r);
}

void
make_array_of (struct rig *r, const char *name, enum layout_kind layout,
               unsigned first, unsigned members)
{
  struct cluster_create create = {
    .layout = layout, .groups = 1, .members = members, .unit = KiB (256)
  };

  snprintf (create.name, sizeof create.name, "%s", name);
  for (unsigned i = 0; i < members; i++)
    memcpy (create.disk[i], r->disk[first + i].uuid, 16);
  rounds (r, 4);
  do {
    ASK (r, cluster_array_create (r->c, in, &create));
    rounds (r, 4);
  } while (cluster_array_find (r->c, name) == NULL);
  UNTIL (r, cluster_array_find (r->c, name)->rec.ready);
}

void
make_array (struct rig *r)
{
  make_array_of (r, "a", LAYOUT_RAIDX, 0, MEMBERS);
}

void
attach (struct rig *r, bool writable)
{
  struct cluster_attach at = { .node = "host", .pid = 7, .writable = writable };
  unsigned n = 0;

  snprintf (at.instance, sizeof at.instance, "%s", r->instance);
  while (!r->attached) {
    assert (++n < 4000);
    if (r->attach_op == 0) {
      struct cluster_input in = input (r, r->attach_op = ++r->op);

      cluster_attach (r->c, &in, "a", &at);
      pump (r);
    }
    round_of (r);
  }
}

unsigned
attach_without_first (struct rig *r)
{
  unsigned last = 1;

  rig_init (r, 0);
  make_array_of (r, "a", LAYOUT_RAID10, 0, 4);
  r->disk[0].dead = true;
  attach (r, true);
  assert (state (r, 0) == MEMBER_OUT);
  while (cluster_array_can_leave_out (array (r), last))
    last++;
  return last;
}

void
detach (struct rig *r)
{
  struct cluster_input in = input (r, ++r->op);

  r->attached = false;
  r->beat_op = 0;
  cluster_session_detach (r->c, &in, r->session);
  pump (r);
}

void
report (struct rig *r, unsigned m)
{
  struct cluster_input in = input (r, ++r->op);

  cluster_session_lost (r->c, &in, r->session, m, r->round, "it is gone");
  pump (r);
}

void
lose (struct rig *r, unsigned m)
{
  while (state (r, m) != MEMBER_OUT) {
    report (r, m);
    if (state (r, m) != MEMBER_OUT)
      round_of (r);
  }
}

void
begin_writing (struct rig *r, unsigned kill_at)
{
  rig_init (r, kill_at);
  make_array (r);
  attach (r, true);
}

struct fake_disk *
begin_copying (struct rig *r, enum layout_kind layout, unsigned members)
{
  struct fake_disk *d = &r->disk[1];

  rig_init (r, 0);
  make_array_of (r, "a", layout, 0, members);
  attach (r, true);
  d->stuck = true;
  lose (r, 1);
  UNTIL (r, d->join.phase == CLUSTER_JOIN_COPYING);
  return d;
}

void
test_kills (const char *name, bool (*scenario) (unsigned kill_at))
{
  unsigned n = 1;

  scenario (0);
  while (scenario (n))
    n++;
  assert (n > 10);
  printf ("%s: killed at each of %u steps\n", name, n - 1);
}
