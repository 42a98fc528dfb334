/* test-cluster-rebuild.c: how members come back, are replaced, and are imported:
 * the cluster engine with members that obey it, one rule at a time.
 *
 * A round is a quarter of a second: every disk that lives sends a heartbeat, the
 * host too if it is attached, and time passes.  What a step records is stored
 * before its replies are heard; weftd may be killed in between, at the
 * kill_at-th step.  The long scenarios are run with a kill at each step.
 */

#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-internal.h"

#define DISKS 6
#define MEMBERS 4

struct fake_disk {
  uint8_t uuid[16], cluster[16], array[16];
  unsigned position;
  uint64_t min_epoch, generation, states_epoch, sequence, data_bytes;
  uint8_t states[ARRAY_MEMBERS_MAX];
  char instance[16];
  bool dead, failed;
  uint64_t op;
  /* joining */
  bool full;         /* all of its extents are to do */
  unsigned left;     /* rounds of copying */
  bool stuck;        /* it never ends */
  struct cluster_join join;
  struct cluster_join_order order;
  unsigned orders;   /* heard */
};

struct rig {
  struct cluster *c;
  struct cluster_record store[64];
  size_t stored;
  struct fake_disk disk[DISKS];
  uint64_t now_ms, op, random;
  unsigned steps, kill_at;
  bool killed;
  /* the last answer to an administrator */
  uint64_t asked;
  bool answered;
  const char *code; /* NULL: it was done */
  char detail[768];
  /* the host */
  bool attached, writable;
  uint64_t attach_op, beat_op, session, epoch, prepared;
  bool lags; /* it does not take epochs in */
};

static struct cluster_input
input (struct rig *r, uint64_t op)
{
  struct cluster_input in
    = { .op = op, .now_ms = r->now_ms, .wall_ms = 1700000000000 + r->now_ms };

  for (unsigned i = 0; i < KEY_BYTES; i++) {
    r->random = r->random * 6364136223846793005u + 1442695040888963407u;
    in.random[i] = (uint8_t) (r->random >> 40);
  }
  return in;
}

/* ---- weftd's part. ---- */

static bool
same_key (const struct cluster_record *a, const struct cluster_record *b)
{
  return a->kind == b->kind &&
         (a->kind == CLUSTER_RECORD_IDENTITY ||
          (a->kind == CLUSTER_RECORD_SESSION
             ? a->session.id == b->session.id
             : memcmp (&a->disk, &b->disk, 16) == 0)); /* the UUID is first */
}

static void
store (struct rig *r, const struct cluster_record *record)
{
  size_t i = 0;

  while (i < r->stored && !same_key (&r->store[i], record))
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
  if (wanted > d->min_epoch) {
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

static void
restart (struct rig *r)
{
  cluster_free (r->c);
  for (unsigned i = 0; i < DISKS; i++)
    r->disk[i].op = 0;
  r->attach_op = r->beat_op = r->asked = 0;
  r->now_ms += 100;
  start (r);
}

static void
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
    cluster_step_free (s);
  }
  if (killed) {
    r->killed = true;
    restart (r);
  }
}

/* ---- Everybody's life. ---- */

static void
disk_beat (struct rig *r, struct fake_disk *d)
{
  struct cluster_disk_heartbeat hb
    = { .uri = "nbd://127.0.0.1:1", .size = d->data_bytes + MiB (1),
        .data_bytes = d->data_bytes, .position = d->position,
        .min_epoch = d->min_epoch, .generation = d->generation,
        .states_epoch = d->states_epoch, .sequence = d->sequence,
        .failed = d->failed, .wait_ms = 500, .join = d->join,
        .layout = LAYOUT_RAIDX, .n = MEMBERS, .groups = 1, .unit = KiB (256),
        .has_place = !cluster_uuid_is_zero (d->array) };
  struct cluster_input in = input (r, d->op = ++r->op);

  if (hb.has_place && d->states_epoch) {
    struct layout l;
    char why[200];

    assert (layout_init (&l, hb.layout, MEMBERS, 1, hb.unit, MiB (255), why,
                         sizeof why) == 0);
    hb.member_bytes = l.member_bytes;
  }
  memcpy (hb.uuid, d->uuid, 16);
  memcpy (hb.cluster, d->cluster, 16);
  memcpy (hb.array, d->array, 16);
  memcpy (hb.states, d->states, sizeof hb.states);
  snprintf (hb.instance, sizeof hb.instance, "%s", d->instance);
  snprintf (hb.node, sizeof hb.node, "n%u", d->uuid[0]);
  snprintf (hb.path, sizeof hb.path, "/dev/d%s", d->instance);
  cluster_disk_heartbeat (r->c, &in, &hb);
  pump (r);
}

static void
host_beat (struct rig *r)
{
  struct cluster_session_heartbeat hb
    = { .epoch = r->epoch, .prepared = r->prepared, .wait_ms = 0,
        .instance = "h" };
  struct cluster_input in = input (r, r->beat_op = ++r->op);

  cluster_session_heartbeat (r->c, &in, r->session, &hb);
  pump (r);
}

static void
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

static void
rounds (struct rig *r, unsigned n)
{
  while (n-- > 0)
    round_of (r);
}

#define UNTIL(r, what)                                                         \
  do {                                                                         \
    unsigned n_ = 0;                                                           \
    while (!(what)) {                                                          \
      if (++n_ > 4000) {                                                       \
        fprintf (stderr, "line %d, kill at %u: never so: %s\n", __LINE__,      \
                 (r)->kill_at, #what);                                         \
        abort ();                                                              \
      }                                                                        \
      round_of (r);                                                            \
    }                                                                          \
  } while (0)

/* Ask, and again if weftd dies before it answers. */
#define ASK(r, call)                                                           \
  do {                                                                         \
    (r)->answered = false;                                                     \
    while (!(r)->answered) {                                                   \
      struct cluster_input in_ = input ((r), (r)->asked = ++(r)->op);          \
      const struct cluster_input *in = &in_;                                   \
      call;                                                                    \
      pump (r);                                                                \
      if (!(r)->answered)                                                      \
        rounds (r, 8);                                                         \
    }                                                                          \
  } while (0)
#define DONE(r, call)                                                          \
  do {                                                                         \
    ASK (r, call);                                                             \
    while ((r)->killed && (r)->code && strcmp ((r)->code, "silent") == 0) {    \
      rounds (r, 8); /* weftd has just been started again */                   \
      ASK (r, call);                                                           \
    }                                                                          \
    if ((r)->code) {                                                           \
      fprintf (stderr, "line %d: %s: %s\n", __LINE__, (r)->code, (r)->detail); \
      abort ();                                                                \
    }                                                                          \
  } while (0)

/* Refused so, and nothing was stored. */
#define REFUSED(r, why, call)                                                  \
  do {                                                                         \
    unsigned steps_ = (r)->steps;                                              \
    ASK (r, call);                                                             \
    if (!(r)->code || strcmp ((r)->code, (why)) != 0) {                        \
      fprintf (stderr, "line %d: %s: %s\n", __LINE__,                          \
               (r)->code ? (r)->code : "done", (r)->detail);                   \
      abort ();                                                                \
    }                                                                          \
    assert ((r)->steps == steps_ || (r)->killed);                              \
  } while (0)

static struct cluster_array *
array (struct rig *r)
{
  return cluster_array_find (r->c, "a");
}

static enum member_state
state (struct rig *r, unsigned m)
{
  return array (r)->rec.member[m].state;
}

static void
rig_init (struct rig *r, unsigned kill_at)
{
  memset (r, 0, sizeof *r);
  r->now_ms = 1000;
  r->kill_at = kill_at;
  for (unsigned i = 0; i < DISKS; i++) {
    memset (r->disk[i].uuid, (int) i + 1, 16);
    snprintf (r->disk[i].instance, 16, "%u", i);
    r->disk[i].data_bytes = MiB (255) + (i >= MEMBERS ? MiB (i) : 0);
  }
  start (r);
}

static void
make_array (struct rig *r)
{
  struct cluster_create create = { .name = "a", .layout = LAYOUT_RAIDX,
                                   .groups = 1, .members = MEMBERS,
                                   .unit = KiB (256) };

  for (unsigned i = 0; i < MEMBERS; i++)
    memcpy (create.disk[i], r->disk[i].uuid, 16);
  rounds (r, 4);
  do {
    ASK (r, cluster_array_create (r->c, in, &create));
    rounds (r, 4);
  } while (array (r) == NULL);
  UNTIL (r, array (r)->rec.ready);
}

static void
attach (struct rig *r, bool writable)
{
  struct cluster_attach at = { .instance = "h", .node = "host", .pid = 7,
                               .writable = writable };

  r->writable = writable;
  while (!r->attached) {
    if (r->attach_op == 0) {
      struct cluster_input in = input (r, r->attach_op = ++r->op);

      cluster_attach (r->c, &in, "a", &at);
      pump (r);
    }
    round_of (r);
  }
}

static void
lose (struct rig *r, unsigned m)
{
  while (state (r, m) != MEMBER_OUT) {
    struct cluster_input in = input (r, ++r->op);

    cluster_session_lost (r->c, &in, r->session, m, "it is gone");
    pump (r);
    if (state (r, m) != MEMBER_OUT)
      round_of (r);
  }
}

/* ---- The rules. ---- */

static void
test_back (void)
{
  struct rig r;
  struct fake_disk *d = &r.disk[1];
  uint64_t epoch, wait_ms[8];

  rig_init (&r, 0);
  make_array (&r);
  attach (&r, true);
  assert (strcmp (cluster_array_state (array (&r)), "ready") == 0);
  /* Lost by the writer alone: it is well, so it is taken back at once, but may
   * not copy before the writer sends it its writes.
   */
  epoch = array (&r)->rec.epoch;
  r.lags = true;
  lose (&r, 1);
  UNTIL (&r, state (&r, 1) == MEMBER_JOINING);
  assert (array (&r)->rec.member[1].fence > epoch);
  rounds (&r, 8);
  assert (d->orders == 0 && d->join.phase == CLUSTER_JOIN_WAITING);
  assert (strcmp (cluster_array_state (array (&r)), "rebuilding") == 0);
  r.lags = false;
  UNTIL (&r, d->orders > 0);
  assert (d->order.source[0] && !d->order.source[1] && d->order.source[3]);
  assert (d->order.rate == 0 && !d->order.paused);
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  assert (r.epoch <= array (&r)->rec.epoch);

  /* It flaps: it is left alone for longer and longer. */
  for (unsigned i = 0; i < 8; i++) {
    uint64_t began;

    lose (&r, 1);
    began = r.now_ms;
    UNTIL (&r, state (&r, 1) != MEMBER_OUT);
    wait_ms[i] = r.now_ms - began;
    UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  }
  assert (wait_ms[0] >= 1000 && wait_ms[0] <= 2500);
  assert (wait_ms[2] >= 4000 && wait_ms[2] <= 5500);
  assert (wait_ms[7] >= 60000 && wait_ms[7] <= 62000);
  rounds (&r, 4 * 61); /* it has held: forgiven */
  lose (&r, 1);
  rounds (&r, 4);
  assert (state (&r, 1) != MEMBER_OUT);
  cluster_free (r.c);
}

/* A joiner that is gone is out; so is one whose copying began again while it was
 * about to be in-sync.
 */
static void
test_joiner_gone (void)
{
  struct rig r;
  struct fake_disk *d = &r.disk[2];

  rig_init (&r, 0);
  make_array (&r);
  attach (&r, true);
  d->stuck = true;
  lose (&r, 2);
  UNTIL (&r, d->join.phase == CLUSTER_JOIN_COPYING);
  d->dead = true;
  UNTIL (&r, state (&r, 2) == MEMBER_OUT);
  assert (strcmp (array (&r)->rec.member[2].reason, "it is silent") == 0);
  d->dead = false;
  UNTIL (&r, state (&r, 2) == MEMBER_JOINING);
  d->failed = true;
  UNTIL (&r, state (&r, 2) == MEMBER_OUT);
  rounds (&r, 300);
  assert (state (&r, 2) == MEMBER_OUT);
  d->failed = d->stuck = false;
  snprintf (d->instance, 16, "2 again");
  r.prepared = 0;
  UNTIL (&r, state (&r, 2) == MEMBER_JOINING);
  r.lags = false;
  UNTIL (&r, d->join.phase == CLUSTER_JOIN_COPYING);
  r.lags = true; /* it does not prepare */
  UNTIL (&r, array (&r)->rec.change.epoch);
  assert (array (&r)->rec.change.states[2] == MEMBER_IN_SYNC);
  rounds (&r, 8);
  assert (state (&r, 2) == MEMBER_JOINING);
  d->join.phase = CLUSTER_JOIN_COPYING;
  d->left = 4;
  UNTIL (&r, state (&r, 2) == MEMBER_OUT);
  r.lags = false;
  UNTIL (&r, state (&r, 2) == MEMBER_IN_SYNC);
  cluster_free (r.c);
}

static void
test_old_copy (void)
{
  struct rig r;
  struct fake_disk *d = &r.disk[3], yesterday;

  rig_init (&r, 0);
  make_array (&r);
  yesterday = *d;
  d->sequence += 50;
  rounds (&r, 60);
  assert (cluster_disk_find (r.c, d->uuid)->rec.sequence == d->sequence);
  d->dead = true;
  rounds (&r, 40);
  restart (&r);
  *d = yesterday;
  UNTIL (&r, state (&r, 3) == MEMBER_OUT);
  UNTIL (&r, state (&r, 3) == MEMBER_JOINING);
  assert (d->full); /* it has forgotten, and is rebuilt in full */
  UNTIL (&r, state (&r, 3) == MEMBER_IN_SYNC);

  /* With its partner out an old copy is refused: it would lose data. */
  r.disk[0].dead = true;
  attach (&r, true); /* after 10 s, without it */
  assert (state (&r, 0) == MEMBER_OUT);
  d->sequence -= 5;
  rounds (&r, 40);
  assert (state (&r, 3) == MEMBER_IN_SYNC);
  assert (strcmp (cluster_array_state (array (&r)), "failed") == 0);
  d->sequence += 5;
  rounds (&r, 4);
  assert (strcmp (cluster_array_state (array (&r)), "degraded") == 0);
  cluster_free (r.c);
}

/* A disk is replaced; weftd is killed at each step on the way. */
static bool
scenario_replace (unsigned kill_at)
{
  struct rig r;
  struct fake_disk *d = &r.disk[4];
  bool killed;

  rig_init (&r, kill_at);
  make_array (&r);
  attach (&r, true);
  REFUSED (&r, "in-sync",
           cluster_member_replace (r.c, in, "a", 1, d->uuid));
  r.disk[1].dead = true;
  lose (&r, 1);
  REFUSED (&r, "unknown-member",
           cluster_member_replace (r.c, in, "a", 9, d->uuid));
  REFUSED (&r, "unknown-disk",
           cluster_member_replace (r.c, in, "a", 1, (uint8_t[16]){ 99 }));
  REFUSED (&r, "in-use",
           cluster_member_replace (r.c, in, "a", 1, r.disk[2].uuid));
  d->data_bytes = MiB (20);
  rounds (&r, 4);
  REFUSED (&r, "too-small",
           cluster_member_replace (r.c, in, "a", 1, d->uuid));
  d->data_bytes = MiB (300);
  d->failed = true;
  rounds (&r, 4);
  REFUSED (&r, "failed", cluster_member_replace (r.c, in, "a", 1, d->uuid));
  d->failed = false;
  rounds (&r, 4);
  d->min_epoch = 500; /* of another array, long ago */
  rounds (&r, 4);
  DONE (&r, cluster_member_replace (r.c, in, "a", 1, d->uuid));
  UNTIL (&r, state (&r, 1) == MEMBER_JOINING);
  assert (d->full);
  r.disk[1].dead = false; /* the old one comes back, and is let go */
  UNTIL (&r, cluster_uuid_is_zero (r.disk[1].array));
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  assert (cluster_read_only (r.c) == NULL && array (&r)->rec.epoch > 500);
  UNTIL (&r, cluster_uuid_is_zero (
               cluster_disk_find (r.c, r.disk[1].uuid)->rec.release));
  assert (cluster_disk_find (r.c, r.disk[1].uuid)->array == NULL);
  killed = r.killed;
  cluster_free (r.c);
  return killed;
}

static bool
scenario_spare (unsigned kill_at)
{
  struct rig r;
  struct cluster_array_tune tune = { .has_spare_after = true,
                                     .spare_after_ms = 20000 };
  uint64_t at;
  bool killed;

  rig_init (&r, kill_at);
  make_array (&r);
  DONE (&r, cluster_spare_add (r.c, in, "a", r.disk[5].uuid));
  DONE (&r, cluster_spare_add (r.c, in, "a", r.disk[4].uuid));
  REFUSED (&r, "in-use", cluster_spare_add (r.c, in, "a", r.disk[0].uuid));
  REFUSED (&r, "no-spare", cluster_spare_drop (r.c, in, "a", r.disk[0].uuid));
  REFUSED (&r, "spare", cluster_disk_forget (r.c, in, r.disk[4].uuid));
  attach (&r, true);
  r.disk[2].dead = true;
  lose (&r, 2);
  UNTIL (&r, (at = cluster_member_spare_wall_ms (r.c, array (&r), 2)) != 0);
  assert (at == array (&r)->rec.member[2].since_wall_ms +
                  SPARE_AFTER_MS_DEFAULT);
  /* Cancelled, and begun again. */
  DONE (&r, cluster_member_cancel (r.c, in, "a", 2));
  assert (cluster_member_spare_wall_ms (r.c, array (&r), 2) == 0);
  DONE (&r, cluster_array_tune (r.c, in, "a", &tune));
  rounds (&r, 120);
  assert (state (&r, 2) == MEMBER_OUT);
  DONE (&r, cluster_member_join (r.c, in, "a", 2));
  /* The smaller of the two. */
  UNTIL (&r, state (&r, 2) == MEMBER_IN_SYNC);
  assert (array (&r)->disk[2] == cluster_disk_find (r.c, r.disk[4].uuid));
  assert (cluster_uuid_is_zero (array (&r)->disk[2]->rec.spare_of));
  assert (!cluster_uuid_is_zero (
    cluster_disk_find (r.c, r.disk[5].uuid)->rec.spare_of));
  ASK (&r, cluster_spare_drop (r.c, in, "a", r.disk[5].uuid));
  assert (!r.code || r.killed); /* asked again, it is gone */
  assert (cluster_uuid_is_zero (
    cluster_disk_find (r.c, r.disk[5].uuid)->rec.spare_of));
  killed = r.killed;
  cluster_free (r.c);
  return killed;
}

/* The database is lost; member 1 is out, and member 2's disk is not there. */
static bool
scenario_import (unsigned kill_at)
{
  struct rig r;
  struct cluster_import import = { .name = "a" };
  struct cluster_create other = { .name = "b", .layout = LAYOUT_RAID0,
                                  .groups = 1, .members = 1,
                                  .unit = KiB (256) };
  struct fake_disk keep;
  uint64_t epoch;
  bool killed;

  rig_init (&r, 0);
  make_array (&r);
  epoch = array (&r)->rec.epoch;
  memcpy (import.array, array (&r)->rec.uuid, 16);
  cluster_free (r.c);
  memset (r.store, 0, sizeof r.store);
  r.stored = 0;
  r.kill_at = kill_at;
  r.steps = 0;
  r.disk[2].dead = r.disk[4].dead = r.disk[5].dead = true;
  memset (r.disk[5].cluster, 0, 16);
  r.disk[5].generation = 0;
  for (unsigned i = 0; i < DISKS; i++)
    r.disk[i].op = 0;
  r.random = 77;
  start (&r);
  rounds (&r, 4);
  assert (TAILQ_EMPTY (cluster_disks (r.c)));
  assert (!TAILQ_EMPTY (cluster_foreigns (r.c)));
  REFUSED (&r, "member-missing", cluster_array_import (r.c, in, &import));
  import.without[2] = import.without[3] = true;
  REFUSED (&r, "last-copy", cluster_array_import (r.c, in, &import));
  import.without[3] = false;
  /* A clone of member 0. */
  keep = r.disk[4];
  r.disk[4] = r.disk[0];
  snprintf (r.disk[4].instance, 16, "clone");
  r.disk[4].dead = false;
  rounds (&r, 4);
  REFUSED (&r, "clone", cluster_array_import (r.c, in, &import));
  assert (strstr (r.detail, "/dev/d0") && strstr (r.detail, "/dev/dclone"));
  r.disk[4] = keep;
  rounds (&r, 80);
  ASK (&r, cluster_array_import (r.c, in, &import));
  while (r.code && strcmp (r.code, "exists") != 0) {
    assert (r.killed); /* then it hears of the members anew */
    rounds (&r, 8);
    ASK (&r, cluster_array_import (r.c, in, &import));
  }
  UNTIL (&r, array (&r)->disk[0]->took_place);
  assert (array (&r)->rec.ready && array (&r)->rec.epoch > epoch);
  assert (state (&r, 0) == MEMBER_IN_SYNC && state (&r, 2) == MEMBER_OUT);
  assert (memcmp (array (&r)->disk[0]->rec.key, array (&r)->disk[1]->rec.key,
                  KEY_BYTES) != 0);
  rounds (&r, 60);
  assert (cluster_read_only (r.c) == NULL);
  attach (&r, true);
  /* A blank disk takes the place of what is only a name. */
  r.disk[5].dead = false;
  UNTIL (&r, cluster_disk_find (r.c, r.disk[5].uuid));
  DONE (&r, cluster_member_replace (r.c, in, "a", 2, r.disk[5].uuid));
  UNTIL (&r, state (&r, 2) == MEMBER_IN_SYNC);
  for (size_t i = 0; i < r.stored; i++)
    assert (r.store[i].kind != CLUSTER_RECORD_DISK || r.store[i].disk.size);
  memcpy (other.disk[0], r.disk[0].uuid, 16);
  REFUSED (&r, "in-use", cluster_array_create (r.c, in, &other));
  killed = r.killed;
  cluster_free (r.c);
  return killed;
}

static void
test_kills (const char *name, bool (*scenario) (unsigned kill_at))
{
  unsigned n = 1;

  scenario (0);
  while (scenario (n))
    n++;
  assert (n > 10);
  printf ("%s: killed at each of %u steps\n", name, n - 1);
}

static void
test_steering (void)
{
  struct rig r;
  struct fake_disk *d = &r.disk[1];
  struct cluster_member_tune pause = { .has_paused = true, .paused = true },
                             bad = { .has_floor = true, .floor = 9,
                                     .has_ceiling = true, .ceiling = 8 },
                             slow = { .has_ceiling = true,
                                      .ceiling = MiB (7) };

  rig_init (&r, 0);
  make_array (&r);
  attach (&r, true);
  REFUSED (&r, "in-sync", cluster_member_cancel (r.c, in, "a", 1));
  REFUSED (&r, "in-sync", cluster_member_join (r.c, in, "a", 1));
  REFUSED (&r, "rate", cluster_member_tune (r.c, in, "a", 1, &bad));
  d->stuck = true;
  lose (&r, 1);
  UNTIL (&r, d->join.phase == CLUSTER_JOIN_COPYING);
  UNTIL (&r, d->op != 0);
  DONE (&r, cluster_member_tune (r.c, in, "a", 1, &pause));
  assert (d->order.paused); /* its long poll was answered */
  pause.paused = false;
  rounds (&r, 4);
  DONE (&r, cluster_member_tune (r.c, in, "a", 1, &pause));
  DONE (&r, cluster_member_tune (r.c, in, "a", 1, &slow));
  rounds (&r, 1);
  assert (!d->order.paused && d->order.rate == MiB (7));
  DONE (&r, cluster_member_cancel (r.c, in, "a", 1));
  assert (state (&r, 1) == MEMBER_OUT && array (&r)->rec.member[1].held);
  rounds (&r, 400);
  restart (&r);
  rounds (&r, 40);
  assert (state (&r, 1) == MEMBER_OUT);
  d->stuck = false;
  DONE (&r, cluster_member_join (r.c, in, "a", 1));
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  cluster_free (r.c);
}

/* A detached array has nobody who would miss a dead member. */
static void
test_replace_detached (void)
{
  struct rig r;

  rig_init (&r, 0);
  make_array (&r);
  r.disk[0].dead = true;
  rounds (&r, 30);
  assert (state (&r, 0) == MEMBER_IN_SYNC);
  DONE (&r, cluster_member_replace (r.c, in, "a", 0, r.disk[4].uuid));
  r.disk[1].dead = true; /* now its source is gone, too */
  rounds (&r, 30);
  assert (state (&r, 0) != MEMBER_IN_SYNC || !r.disk[4].full);
  cluster_free (r.c);
}

/* A disk whose every request takes longer, the more is copied; and a latency
 * that rises steeply where its bandwidth ends.
 */
static double
latency_us (double rate, double bandwidth)
{
  double used = rate / bandwidth;

  return used >= 0.95 ? 20000 : 1000 / (1 - used);
}

static void
test_pace (void)
{
  struct cluster_pace p = { .live_ms = 1 };
  double bandwidth = (double) MiB (200), left = (double) GiB (4);
  double us = 1000, sum = 0, worst = 0, before;
  uint64_t rate = 0;
  unsigned seconds = 0;

  /* A report is of the second before: half of this rate, half of the last. */
  before = 0;
  while (left > 0) {
    rate = cluster_pace (&p, 100, us, (uint64_t) before, MiB (4), 0);
    assert (rate >= MiB (4));
    if ((double) rate > bandwidth)
      rate = (uint64_t) bandwidth;
    us = (latency_us ((double) rate, bandwidth) +
          latency_us (before, bandwidth)) / 2;
    before = (double) rate;
    left -= (double) rate;
    seconds++;
    if (seconds > 20) {
      sum += us;
      worst = us > worst ? us : worst;
    }
    assert (seconds < 1000);
  }
  printf ("4 GiB beside clients: %u s, latency %.0f us (1000 alone), at worst "
          "%.0f\n", seconds, sum / (seconds - 20), worst);
  assert (seconds < 160);
  assert (sum / (seconds - 20) < 2000);

  /* Nobody works: as fast as it can, or as is allowed. */
  assert (cluster_pace (&p, 0, 0, 0, MiB (4), 0) == 0);
  assert (cluster_pace (&p, 0, 0, 0, MiB (4), MiB (9)) == MiB (9));
  /* Load that begins is measured first. */
  assert (cluster_pace (&p, 100, 5000, 0, MiB (4), 0) == MiB (4));
  for (unsigned i = 0; i < 100; i++)
    assert (cluster_pace (&p, 100, 1000, MiB (50), MiB (4), MiB (9))
            <= MiB (9));
}

int
main (void)
{
  test_pace ();
  test_back ();
  test_joiner_gone ();
  test_old_copy ();
  test_steering ();
  test_replace_detached ();
  test_kills ("replace", scenario_replace);
  test_kills ("spare", scenario_spare);
  test_kills ("import", scenario_import);
  return 0;
}
