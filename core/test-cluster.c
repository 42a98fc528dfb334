/* test-cluster.c: the cluster engine, alone.
 *
 * The world here has a store (the records made durable so far), members and
 * hosts that send heartbeats and obey the replies, and weftd's part of carrying
 * steps out: a step's records become durable together, then its outputs leave
 * one by one.  Each of these is an action, and weftd can be killed after any
 * action: then all that it held is gone, every caller gets no answer and asks
 * again, and a new engine loads the store.  The scenario is run with a kill after
 * each of its actions, and then with random kills and a store that lags behind.
 *
 * WEFT_SEED replays the random part.
 */

#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cluster.h"

#define MEMBERS 4
#define HOSTS 3
#define RECORDS_MAX 400

/* ---- The world. ---- */

/* A reply as it travels: copied when the engine makes it. */
struct message {
  struct message *next;
  uint64_t op;
  enum cluster_reply_kind kind;
  struct cluster_problem problem;
  /* to a disk */
  uint8_t cluster[16], array[16], release[16];
  bool assigned;
  unsigned position;
  uint64_t min_epoch, generation, epoch;
  enum member_state states[ARRAY_MEMBERS_MAX];
  /* to a host */
  uint64_t session, granted_epoch;
};

struct step_out {
  struct step_out *next;
  struct cluster_record *records;
  size_t records_count;
  bool durable;
  struct message *messages;
};

/* A disk, as it is in truth. */
struct disk {
  uint8_t uuid[16];
  uint8_t cluster[16], array[16];
  unsigned position;
  uint64_t min_epoch, generation, states_epoch;
  char instance[16];
  bool alive;
  uint64_t op; /* outstanding; 0: none */
};

struct host {
  char instance[16];
  char node[16];
  bool alive, attached, over;
  bool writable;
  uint64_t session, epoch;
  uint64_t op, beat_op;
  enum cluster_problem_kind refused;
  const char *code;
  bool answered;
  enum member_state states[ARRAY_MEMBERS_MAX];
};

struct world {
  struct cluster *c;
  struct cluster_record store[RECORDS_MAX];
  size_t stored;
  struct step_out *steps, **steps_tail;
  struct disk disk[MEMBERS];
  struct host host[HOSTS];
  uint64_t now_ms, next_op, random;
  uint64_t generation;
  unsigned long actions, kill_at, kills;
  unsigned kill_percent, lag_percent; /* at random, of each action */
  unsigned rounds;
  bool killed;
  uint64_t admin_op;
  bool admin_answered;
  struct message admin;
  uint64_t highest_grant;
};

static uint64_t
rnd (struct world *w)
{
  w->random ^= w->random << 13;
  w->random ^= w->random >> 7;
  w->random ^= w->random << 17;
  return w->random;
}

static struct cluster_input
input (struct world *w, uint64_t op)
{
  struct cluster_input in
    = { .op = op, .now_ms = w->now_ms, .wall_ms = 1700000000000 + w->now_ms };

  for (size_t i = 0; i < sizeof in.random; i++)
    in.random[i] = (uint8_t) (rnd (w) >> 24);
  return in;
}

static bool
same_key (const struct cluster_record *a, const struct cluster_record *b)
{
  if (a->kind != b->kind)
    return false;
  switch (a->kind) {
  case CLUSTER_RECORD_DISK:
    return memcmp (a->disk.uuid, b->disk.uuid, 16) == 0;
  case CLUSTER_RECORD_ARRAY:
    return memcmp (a->array.uuid, b->array.uuid, 16) == 0;
  case CLUSTER_RECORD_SESSION:
    return a->session.id == b->session.id;
  default:
    return true;
  }
}

static void
store_put (struct world *w, const struct cluster_record *r)
{
  size_t i;

  for (i = 0; i < w->stored; i++)
    if (same_key (&w->store[i], r))
      break;
  if (r->deleted) {
    if (i < w->stored)
      w->store[i] = w->store[--w->stored];
    return;
  }
  assert (i < RECORDS_MAX);
  w->store[i] = *r;
  if (i == w->stored)
    w->stored++;
}

static const struct cluster_array_record *
stored_array (const struct world *w, const uint8_t uuid[16])
{
  for (size_t i = 0; i < w->stored; i++)
    if (w->store[i].kind == CLUSTER_RECORD_ARRAY &&
        memcmp (w->store[i].array.uuid, uuid, 16) == 0)
      return &w->store[i].array;
  return NULL;
}

static const struct cluster_array_record *
stored_array_name (const struct world *w, const char *name)
{
  for (size_t i = 0; i < w->stored; i++)
    if (w->store[i].kind == CLUSTER_RECORD_ARRAY &&
        strcmp (w->store[i].array.name, name) == 0)
      return &w->store[i].array;
  return NULL;
}

static const struct cluster_session_record *
stored_session (const struct world *w, uint64_t id)
{
  for (size_t i = 0; i < w->stored; i++)
    if (w->store[i].kind == CLUSTER_RECORD_SESSION &&
        w->store[i].session.id == id)
      return &w->store[i].session;
  return NULL;
}

/* Whatever is durable must make sense at every moment. */
static void
store_check (const struct world *w)
{
  for (size_t i = 0; i < w->stored; i++) {
    const struct cluster_session_record *s = &w->store[i].session;

    if (w->store[i].kind != CLUSTER_RECORD_SESSION || s->ended || !s->writable)
      continue;
    assert (stored_array (w, s->array));
    /* Nobody holds an array while a fence is prepared against him. */
    assert (stored_array (w, s->array)->change.epoch == 0);
    for (size_t j = i + 1; j < w->stored; j++)
      assert (w->store[j].kind != CLUSTER_RECORD_SESSION ||
              w->store[j].session.ended || !w->store[j].session.writable ||
              memcmp (w->store[j].session.array, s->array, 16) != 0);
  }
}

/* ---- Carrying out steps. ---- */

static void
copy_reply (const struct world *w, const struct cluster_output *o,
            struct message *m)
{
  m->op = o->op;
  m->kind = o->reply;
  if (o->problem)
    m->problem = *o->problem;
  m->generation = cluster_identity (w->c)->generation;
  if (o->reply == CLUSTER_REPLY_DISK) {
    const struct cluster_array *a = o->disk->array;

    memcpy (m->cluster, cluster_identity (w->c)->uuid, 16);
    memcpy (m->release, o->disk->rec.release, 16);
    m->min_epoch = cluster_disk_min_epoch_wanted (o->disk);
    m->assigned = a != NULL;
    if (a) {
      memcpy (m->array, a->rec.uuid, 16);
      m->position = o->disk->position;
      m->epoch = a->rec.change.epoch ? a->rec.change.epoch : a->rec.epoch;
    }
  }
  if (o->reply == CLUSTER_REPLY_GRANT || o->reply == CLUSTER_REPLY_SESSION) {
    m->session = o->session->rec.id;
    m->granted_epoch = o->session->rec.epoch;
    m->epoch = o->array->rec.epoch;
    memcpy (m->array, o->array->rec.uuid, 16);
    for (unsigned i = 0; i < o->array->layout.members; i++)
      m->states[i] = o->array->rec.member[i].state;
  }
}

static void
pump (struct world *w)
{
  struct cluster_step *s;

  cluster_check (w->c);
  while ((s = cluster_next_step (w->c)) != NULL) {
    struct step_out *out = calloc (1, sizeof *out);
    struct message **tail = &out->messages;

    out->records = s->records;
    out->records_count = s->records_count;
    s->records = NULL;
    for (size_t i = 0; i < s->outputs_count; i++)
      if (s->outputs[i].kind == CLUSTER_OUTPUT_REPLY) {
        *tail = calloc (1, sizeof **tail);
        copy_reply (w, &s->outputs[i], *tail);
        tail = &(*tail)->next;
      }
    cluster_step_free (s);
    *w->steps_tail = out;
    w->steps_tail = &out->next;
  }
}

static void
drop_step (struct world *w)
{
  struct step_out *s = w->steps;
  struct message *m;

  w->steps = s->next;
  if (w->steps == NULL)
    w->steps_tail = &w->steps;
  while ((m = s->messages) != NULL) {
    s->messages = m->next;
    free (m);
  }
  free (s->records);
  free (s);
}

static void deliver (struct world *w, const struct message *m);

/* Was weftd killed after this action? */
static bool
acted (struct world *w)
{
  store_check (w);
  w->actions++;
  if (w->actions == w->kill_at ||
      (w->kill_percent && rnd (w) % 100 < w->kill_percent))
    w->killed = true;
  return w->killed;
}

static void
carry_out (struct world *w)
{
  while (w->steps && !w->killed) {
    struct step_out *s = w->steps;
    struct message *m;

    if (w->lag_percent && rnd (w) % 100 < w->lag_percent)
      return; /* the store is slow today */
    if (!s->durable && s->records_count > 0) {
      for (size_t i = 0; i < s->records_count; i++)
        store_put (w, &s->records[i]);
      s->durable = true;
      if (acted (w))
        return;
    }
    while ((m = s->messages) != NULL) {
      s->messages = m->next;
      deliver (w, m);
      free (m);
      if (acted (w))
        return;
    }
    drop_step (w);
  }
}

static void
start_engine (struct world *w)
{
  struct cluster_input in;
  char why[256];

  w->c = cluster_new ();
  for (size_t i = 0; i < w->stored; i++)
    assert (cluster_load (w->c, &w->store[i], why, sizeof why) == 0);
  in = input (w, 0);
  assert (cluster_start (w->c, &in, why, sizeof why) == 0);
  pump (w);
}

/* weftd dies and starts again: nobody who waits gets an answer. */
static void
reincarnate (struct world *w)
{
  while (w->steps)
    drop_step (w);
  cluster_free (w->c);
  w->killed = false;
  w->kills++;
  for (unsigned i = 0; i < MEMBERS; i++)
    w->disk[i].op = 0;
  for (unsigned i = 0; i < HOSTS; i++)
    w->host[i].op = w->host[i].beat_op = 0;
  w->admin_op = 0;
  w->now_ms += 100;
  start_engine (w);
}

/* ---- What members and hosts make of replies. ---- */

static void
disk_hears (struct world *w, struct disk *d, const struct message *m)
{
  const struct cluster_array_record *a;

  d->op = 0;
  if (m->kind != CLUSTER_REPLY_DISK)
    return;
  assert (m->generation >= d->generation);
  d->generation = m->generation;
  memcpy (d->cluster, m->cluster, 16);
  if (m->assigned) {
    /* Never told what is not durable. */
    a = stored_array (w, m->array);
    assert (a);
    assert (m->min_epoch <= (a->change.epoch ? a->change.epoch : a->fence));
    memcpy (d->array, m->array, 16);
    d->position = m->position;
    if (m->epoch > d->states_epoch)
      d->states_epoch = m->epoch;
  }
  else if (memcmp (m->release, d->array, 16) == 0) {
    memset (d->array, 0, 16);
    d->states_epoch = 0;
  }
  if (m->min_epoch > d->min_epoch)
    d->min_epoch = m->min_epoch;
}

static void
host_granted (struct world *w, struct host *h, const struct message *m)
{
  const struct cluster_session_record *s = stored_session (w, m->session);
  const struct cluster_array_record *a = stored_array (w, m->array);

  assert (s && !s->ended && strcmp (s->instance, h->instance) == 0);
  assert (a && a->epoch >= m->granted_epoch);
  if (h->writable && !h->attached) {
    /* Everyone else is fenced, in truth, at every member. */
    for (unsigned i = 0; i < MEMBERS; i++)
      assert (w->disk[i].min_epoch >= m->granted_epoch);
    if (m->session != h->session) {
      assert (m->granted_epoch > w->highest_grant);
      w->highest_grant = m->granted_epoch;
    }
    for (unsigned i = 0; i < HOSTS; i++)
      if (&w->host[i] != h && w->host[i].attached && w->host[i].writable)
        assert (stored_session (w, w->host[i].session)->ended);
  }
  h->attached = true;
  h->session = m->session;
  h->epoch = m->epoch;
}

static void
host_hears (struct world *w, struct host *h, const struct message *m)
{
  if (m->op == h->beat_op)
    h->beat_op = 0;
  else
    h->op = 0;
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
    host_granted (w, h, m);
    return;
  case CLUSTER_REPLY_SESSION:
    assert (stored_array (w, m->array)->epoch >= m->epoch);
    for (unsigned i = 0; i < MEMBERS; i++)
      if (m->states[i] == MEMBER_OUT)
        assert (stored_array (w, m->array)->member[i].state == MEMBER_OUT);
    memcpy (h->states, m->states, sizeof h->states);
    h->epoch = m->epoch;
    return;
  case CLUSTER_REPLY_DONE:
    assert (stored_session (w, h->session) == NULL ||
            stored_session (w, h->session)->ended);
    h->attached = false;
    return;
  default:
    abort ();
  }
}

static void
deliver (struct world *w, const struct message *m)
{
  assert (m->op != 0);
  if (m->op == w->admin_op) {
    w->admin_op = 0;
    w->admin_answered = true;
    w->admin = *m;
    w->admin.next = NULL;
    return;
  }
  for (unsigned i = 0; i < MEMBERS; i++)
    if (m->op == w->disk[i].op) {
      disk_hears (w, &w->disk[i], m);
      return;
    }
  for (unsigned i = 0; i < HOSTS; i++)
    if (m->op == w->host[i].op || m->op == w->host[i].beat_op) {
      host_hears (w, &w->host[i], m);
      return;
    }
  /* Whoever asked is dead. */
}

/* ---- What members and hosts say. ---- */

static struct cluster_disk_heartbeat
disk_words (const struct disk *d, uint64_t wait_ms)
{
  struct cluster_disk_heartbeat hb
    = { .uri = "nbd://127.0.0.1:1",
        .size = GiB (1),
        .data_bytes = GiB (1) - MiB (1),
        .position = d->position,
        .min_epoch = d->min_epoch,
        .generation = d->generation,
        .states_epoch = d->states_epoch,
        .wait_ms = wait_ms };

  memcpy (hb.uuid, d->uuid, 16);
  memcpy (hb.cluster, d->cluster, 16);
  memcpy (hb.array, d->array, 16);
  snprintf (hb.instance, sizeof hb.instance, "%s", d->instance);
  snprintf (hb.node, sizeof hb.node, "n%u", d->uuid[0]);
  snprintf (hb.path, sizeof hb.path, "/dev/d%u", d->uuid[0]);
  return hb;
}

static void
disk_beat (struct world *w, struct disk *d, uint64_t wait_ms)
{
  struct cluster_disk_heartbeat hb = disk_words (d, wait_ms);
  struct cluster_input in = input (w, d->op = ++w->next_op);

  cluster_disk_heartbeat (w->c, &in, &hb);
  pump (w);
}

static void
host_beat (struct world *w, struct host *h)
{
  struct cluster_session_heartbeat hb = { .epoch = h->epoch, .wait_ms = 1000 };
  struct cluster_input in = input (w, h->beat_op = ++w->next_op);

  snprintf (hb.instance, sizeof hb.instance, "%s", h->instance);
  cluster_session_heartbeat (w->c, &in, h->session, &hb);
  pump (w);
}

static void
host_attach (struct world *w, struct host *h, const char *name)
{
  struct cluster_attach a = { .pid = 7, .writable = h->writable };
  struct cluster_input in = input (w, h->op = ++w->next_op);

  snprintf (a.instance, sizeof a.instance, "%s", h->instance);
  snprintf (a.node, sizeof a.node, "%s", h->node);
  h->answered = false;
  cluster_attach (w->c, &in, name, &a);
  pump (w);
}

/* A quarter of a second of everybody's life. */
static void
live (struct world *w)
{
  struct cluster_input in;

  assert (++w->rounds < 20000); /* a scenario that does not get on has failed */
  w->now_ms += CLUSTER_TICK_MS;
  for (unsigned i = 0; i < MEMBERS; i++)
    if (w->disk[i].alive && w->disk[i].op == 0)
      disk_beat (w, &w->disk[i], 1000);
  for (unsigned i = 0; i < HOSTS; i++)
    if (w->host[i].alive && w->host[i].attached && w->host[i].beat_op == 0)
      host_beat (w, &w->host[i]);
  carry_out (w);
  if (w->steps == NULL && !w->killed) { /* only while the store keeps up */
    in = input (w, 0);
    cluster_tick (w->c, &in);
    pump (w);
  }
  carry_out (w);
  if (w->killed)
    reincarnate (w);
}

static void
world_init (struct world *w, uint64_t seed)
{
  memset (w, 0, sizeof *w);
  w->steps_tail = &w->steps;
  w->random = seed * 2654435761u + 88172645463325252u;
  w->now_ms = 1000;
  for (unsigned i = 0; i < MEMBERS; i++) {
    memset (w->disk[i].uuid, (int) i + 1, 16);
    snprintf (w->disk[i].instance, 16, "d%u", i);
    w->disk[i].alive = true;
  }
  for (unsigned i = 0; i < HOSTS; i++) {
    snprintf (w->host[i].instance, 16, "h%u", i);
    snprintf (w->host[i].node, 16, "host%u", i);
    w->host[i].alive = true;
    w->host[i].writable = i != 2;
  }
  start_engine (w);
  carry_out (w);
  if (w->killed)
    reincarnate (w);
}

static void
world_end (struct world *w)
{
  while (w->steps)
    drop_step (w);
  cluster_free (w->c);
}

/* Live until it is so. */
#define UNTIL(w, what)                                                         \
  do {                                                                         \
    unsigned rounds_ = 0;                                                      \
    while (!(what)) {                                                          \
      if (++rounds_ > 4000) {                                                  \
        fprintf (stderr, "line %d: never so: %s\n", __LINE__, #what);          \
        abort ();                                                              \
      }                                                                        \
      live (w);                                                                \
    }                                                                          \
  } while (0)

/* ---- The scenario. ---- */

static void
admin_create (struct world *w, const char *name)
{
  struct cluster_create create
    = { .layout = LAYOUT_RAIDX, .groups = 1, .members = MEMBERS,
        .unit = KiB (256) };
  struct cluster_input in = input (w, w->admin_op = ++w->next_op);

  snprintf (create.name, sizeof create.name, "%s", name);
  for (unsigned i = 0; i < MEMBERS; i++)
    memcpy (create.disk[i], w->disk[i].uuid, 16);
  w->admin_answered = false;
  cluster_array_create (w->c, &in, &create);
  pump (w);
}

/* Ask until weftd has said yes, or that it is done already. */
static void
make_array (struct world *w, const char *name)
{
  const struct cluster_array_record *a;

  for (;;) {
    admin_create (w, name);
    UNTIL (w, w->admin_answered || w->admin_op == 0);
    if (w->admin_answered &&
        (w->admin.kind == CLUSTER_REPLY_ARRAY ||
         (w->admin.problem.code &&
          strcmp (w->admin.problem.code, "exists") == 0)))
      break;
    live (w);
  }
  assert (stored_array_name (w, name));
  UNTIL (w, (a = stored_array_name (w, name)) && a->ready);
}

static void
delete_array (struct world *w, const char *name)
{
  struct cluster_input in;

  for (;;) {
    in = input (w, w->admin_op = ++w->next_op);
    w->admin_answered = false;
    cluster_array_delete (w->c, &in, name);
    pump (w);
    UNTIL (w, w->admin_answered || w->admin_op == 0);
    if (w->admin_answered &&
        (w->admin.kind == CLUSTER_REPLY_DONE ||
         w->admin.problem.kind == CLUSTER_NOT_FOUND))
      break;
    live (w);
  }
  assert (stored_array_name (w, name) == NULL);
}

static void
attach_until_granted (struct world *w, struct host *h, const char *name)
{
  while (!h->attached) {
    if (h->op == 0)
      host_attach (w, h, name);
    live (w);
  }
}

/* What an attach is answered in the end, when it is refused. */
static const char *
attach_refusal (struct world *w, struct host *h, const char *name)
{
  for (;;) {
    host_attach (w, h, name);
    while (h->op != 0)
      live (w);
    if (!h->answered)
      continue; /* weftd was killed */
    assert (!h->attached);
    /* Just after weftd's start it has not heard of everybody. */
    if (h->code && strcmp (h->code, "member-missing") == 0) {
      live (w);
      continue;
    }
    return h->code;
  }
}

static void
report_lost (struct world *w, struct host *h, unsigned member)
{
  struct cluster_input in;

  while (h->states[member] != MEMBER_OUT) {
    if (h->op == 0) {
      in = input (w, h->op = ++w->next_op);
      cluster_session_lost (w->c, &in, h->session, member, "it is gone");
      pump (w);
    }
    live (w);
  }
}

static void
detach (struct world *w, struct host *h)
{
  struct cluster_input in;

  h->alive = false; /* it sends no more heartbeats */
  while (h->attached) {
    if (h->op == 0) {
      in = input (w, h->op = ++w->next_op);
      cluster_session_detach (w->c, &in, h->session);
      pump (w);
    }
    live (w);
  }
}

/* An administrator's day; every promise is checked on the way, above. */
static void
scenario (struct world *w)
{
  struct host *a = &w->host[0], *b = &w->host[1], *reader = &w->host[2];
  uint64_t died_ms;

  make_array (w, "a");
  attach_until_granted (w, a, "a");
  attach_until_granted (w, reader, "a");
  assert (strcmp (attach_refusal (w, b, "a"), "held") == 0);

  /* A member is started again: it raises its min_epoch by itself. */
  w->disk[1].alive = false;
  for (unsigned i = 0; i < 30; i++)
    live (w);
  w->disk[1].op = 0;
  snprintf (w->disk[1].instance, 16, "d1 again");
  if (w->disk[1].min_epoch == w->highest_grant)
    w->disk[1].min_epoch++;
  w->disk[1].alive = true;

  /* The holder dies; the other one gets it, but not before its time. */
  a->alive = false;
  a->beat_op = 0;
  died_ms = w->now_ms;
  attach_until_granted (w, b, "a");
  if (w->kills == 0)
    assert (w->now_ms - died_ms >= SESSION_TTL_MS - 2 * HEARTBEAT_MS);
  a->alive = true; /* it was only asleep */
  UNTIL (w, a->over);
  assert (!reader->over);

  report_lost (w, b, 2);
  UNTIL (w, reader->states[2] == MEMBER_OUT);
  detach (w, b);
  snprintf (b->instance, 16, "h1 again");
  b->session = 0;
  assert (strcmp (attach_refusal (w, b, "a"), "member-out") == 0);

  detach (w, reader);
  delete_array (w, "a");
  for (unsigned i = 0; i < MEMBERS; i++) {
    static const uint8_t zero[16];

    UNTIL (w, memcmp (w->disk[i].array, zero, 16) == 0);
  }
  make_array (w, "b");
  snprintf (a->instance, 16, "h0 again");
  a->session = 0;
  a->over = false;
  attach_until_granted (w, a, "b");
  assert (cluster_read_only (w->c) == NULL);
}

static void
test_every_kill (void)
{
  static struct world w;
  unsigned long actions;

  world_init (&w, 1);
  scenario (&w);
  actions = w.actions;
  world_end (&w);
  for (unsigned long k = 1; k <= actions; k++) {
    world_init (&w, 1);
    w.kill_at = k;
    scenario (&w);
    /* The kill at the start of world_init is not reached: it acts before. */
    assert (w.kills <= 1);
    world_end (&w);
  }
  printf ("a kill after each of %lu actions\n", actions);
}

static void
test_random (uint64_t seed, unsigned runs)
{
  static struct world w;
  unsigned long kills = 0, actions = 0;

  for (unsigned i = 0; i < runs; i++) {
    world_init (&w, seed + i);
    w.kill_percent = (unsigned) (rnd (&w) % 4);
    w.lag_percent = (unsigned) (rnd (&w) % 60);
    scenario (&w);
    kills += w.kills;
    actions += w.actions;
    world_end (&w);
  }
  printf ("%u random runs from seed %" PRIu64 ": %lu actions, %lu kills\n",
          runs, seed, actions, kills);
}

/* ---- One rule at a time. ---- */

/* Answers of single calls, without the world's obedience. */
static struct message
said (struct world *w, uint64_t op)
{
  struct message found = { .op = 0 };

  while (w->steps) {
    struct step_out *s = w->steps;

    for (size_t i = 0; i < s->records_count; i++)
      store_put (w, &s->records[i]);
    for (struct message *m = s->messages; m; m = m->next)
      if (m->op == op) {
        assert (found.op == 0); /* answered once */
        found = *m;
      }
    drop_step (w);
  }
  return found;
}

static struct message
beat (struct world *w, struct disk *d)
{
  struct message m;

  disk_beat (w, d, 0);
  m = said (w, d->op);
  d->op = 0;
  return m;
}

static void
expect_refused (const struct message *m, enum cluster_problem_kind kind,
                const char *code)
{
  assert (m->op != 0 && m->kind == CLUSTER_REPLY_PROBLEM);
  assert (m->problem.kind == kind);
  assert (strcmp (m->problem.code, code) == 0);
  assert (strlen (m->problem.detail) > 20);
}

static void
tick (struct world *w, uint64_t ms)
{
  struct cluster_input in;

  w->now_ms += ms;
  in = input (w, 0);
  cluster_tick (w->c, &in);
  pump (w);
}

/* A world with array "a", healthy, and host 0 attached for writing. */
static void
healthy (struct world *w)
{
  world_init (w, 3);
  make_array (w, "a");
  attach_until_granted (w, &w->host[0], "a");
}

static void
test_foreign (void)
{
  static struct world w;
  struct message m;
  struct disk stranger = { .instance = "x", .alive = true };

  healthy (&w);
  memset (stranger.uuid, 99, 16);
  memset (stranger.cluster, 5, 16);
  m = beat (&w, &stranger);
  expect_refused (&m, CLUSTER_CONFLICT, "foreign-cluster");
  memset (stranger.cluster, 0, 16);
  memset (stranger.array, 5, 16);
  m = beat (&w, &stranger);
  expect_refused (&m, CLUSTER_CONFLICT, "unknown-array");
  memcpy (stranger.array, w.disk[0].array, 16);
  m = beat (&w, &stranger);
  expect_refused (&m, CLUSTER_CONFLICT, "not-a-member");
  assert (cluster_disk_find (w.c, stranger.uuid) == NULL);

  /* A member that says it is blank, or got smaller. */
  stranger = w.disk[0];
  memset (stranger.array, 0, 16);
  m = beat (&w, &stranger);
  expect_refused (&m, CLUSTER_CONFLICT, "blank");
  world_end (&w);
}

static void
test_double_use (void)
{
  static struct world w;
  struct disk clone;
  struct message m;
  uint64_t op;

  healthy (&w);
  clone = w.disk[0];
  snprintf (clone.instance, 16, "clone");

  /* The known process lives: the other one is refused as soon as it speaks. */
  disk_beat (&w, &clone, 0);
  op = clone.op;
  m = said (&w, op);
  assert (m.op == 0); /* it waits */
  disk_beat (&w, &w.disk[0], 0);
  m = said (&w, op);
  expect_refused (&m, CLUSTER_CONFLICT, "double-used");

  /* The known process was killed: the other one gets its place soon. */
  tick (&w, CLUSTER_TICK_MS);
  disk_beat (&w, &clone, 0);
  op = clone.op;
  m = said (&w, op);
  assert (m.op == 0);
  for (unsigned i = 0; i < 5; i++)
    tick (&w, CLUSTER_TICK_MS);
  m = said (&w, op);
  assert (m.op == 0);
  for (unsigned i = 0; i < 2; i++)
    tick (&w, CLUSTER_TICK_MS);
  m = said (&w, op);
  assert (m.op == op && m.kind == CLUSTER_REPLY_DISK && m.assigned);
  world_end (&w);
}

/* A pause of weftd's own makes nobody silent. */
static void
test_pause (void)
{
  static struct world w;

  healthy (&w);
  tick (&w, 3600 * 1000);
  for (unsigned i = 0; i < MEMBERS; i++)
    assert (cluster_disk_find (w.c, w.disk[i].uuid)->alive);
  assert (cluster_session_find (w.c, w.host[0].session)->alive);
  /* But silence does, when weftd is awake. */
  for (unsigned i = 0; i < 60; i++) {
    tick (&w, CLUSTER_TICK_MS);
    said (&w, 0);
  }
  for (unsigned i = 0; i < MEMBERS; i++)
    assert (!cluster_disk_find (w.c, w.disk[i].uuid)->alive);
  assert (!cluster_session_find (w.c, w.host[0].session)->alive);
  /* Nobody's silence alone is recorded as a loss. */
  assert (cluster_array_find (w.c, "a")->rec.member[0].state == MEMBER_IN_SYNC);
  assert (strcmp (cluster_array_state (cluster_array_find (w.c, "a")), "failed")
          == 0);
  world_end (&w);
}

/* An old database: members know more than it does. */
static void
test_old_database (void)
{
  static struct world w;
  static struct cluster_record old[RECORDS_MAX];
  size_t old_count;
  struct disk ahead;
  struct message m;
  char verdict[2048];

  healthy (&w);
  memcpy (old, w.store, sizeof old);
  old_count = w.stored;

  /* More epochs pass; then the old database is put back. */
  report_lost (&w, &w.host[0], 1);
  UNTIL (&w, w.disk[0].states_epoch == w.host[0].epoch);
  memcpy (w.store, old, sizeof old);
  w.stored = old_count;
  reincarnate (&w);
  m = beat (&w, &w.disk[0]);
  expect_refused (&m, CLUSTER_UNAVAILABLE, "read-only");
  assert (cluster_read_only (w.c));
  assert (cluster_verdict (w.c, verdict, sizeof verdict) == CLUSTER_ERROR);
  assert (strstr (verdict, "backup"));
  host_attach (&w, &w.host[1], "a");
  m = said (&w, w.host[1].op);
  expect_refused (&m, CLUSTER_UNAVAILABLE, "read-only");
  delete_array (&w, "no such array");
  world_end (&w);

  /* The same by generation, and by min_epoch; one ahead is a restart. */
  for (unsigned i = 0; i < 3; i++) {
    healthy (&w);
    ahead = w.disk[0];
    if (i == 0)
      ahead.generation += 5;
    else
      ahead.min_epoch += i;
    m = beat (&w, &ahead);
    assert ((cluster_read_only (w.c) != NULL) == (i != 1));
    world_end (&w);
  }

  /* And by a host. */
  healthy (&w);
  w.host[0].epoch += 3;
  host_beat (&w, &w.host[0]);
  assert (cluster_read_only (w.c) != NULL);
  world_end (&w);
}

/* An attach that members do not confirm is refused in time; the number that it
 * prepared is carried through later, and serves whoever asks next.
 */
static void
test_late_members (void)
{
  static struct world w;
  struct host *a = &w.host[0];
  uint64_t epoch;

  world_init (&w, 4);
  make_array (&w, "a");
  epoch = cluster_array_find (w.c, "a")->rec.epoch;
  disk_beat (&w, &w.disk[3], 0);
  said (&w, 0);
  host_attach (&w, a, "a");
  w.disk[3].alive = false;
  w.disk[3].op = UINT64_MAX; /* its answers are lost */
  UNTIL (&w, a->op == 0);
  assert (a->refused == CLUSTER_CONFLICT);
  assert (strcmp (a->code, "member-missing") == 0);
  assert (cluster_array_find (w.c, "a")->rec.change.epoch == epoch + 1);
  assert (cluster_array_find (w.c, "a")->rec.epoch == epoch);
  reincarnate (&w);
  assert (cluster_array_find (w.c, "a")->rec.change.epoch == epoch + 1);
  w.disk[3].alive = true;
  attach_until_granted (&w, a, "a");
  assert (a->epoch == epoch + 1);
  world_end (&w);
}

/* What a reader says of a member does not take it from the writer. */
static void
test_reader (void)
{
  static struct world w;
  struct host *reader = &w.host[2];
  struct cluster_input in;
  struct message m;

  healthy (&w);
  attach_until_granted (&w, reader, "a");
  in = input (&w, ++w.next_op);
  cluster_session_lost (w.c, &in, reader->session, 1, "no route");
  pump (&w);
  m = said (&w, in.op);
  expect_refused (&m, CLUSTER_CONFLICT, "in-use");
  in = input (&w, ++w.next_op);
  cluster_session_lost (w.c, &in, reader->session, MEMBERS, "no such");
  pump (&w);
  m = said (&w, in.op);
  expect_refused (&m, CLUSTER_INVALID, "member");
  assert (strcmp (m.problem.field, "member") == 0);
  detach (&w, &w.host[0]);
  report_lost (&w, reader, 1);
  world_end (&w);
}

static void
expect_plan_refused (struct world *w, const struct cluster_create *create,
                     const char *code, const char *field)
{
  static struct cluster_array a;
  struct cluster_problem p;

  assert (cluster_array_plan (w->c, create, &a, &p) == -1);
  assert (strcmp (p.code, code) == 0);
  assert (strcmp (p.field, field) == 0);
  assert (strlen (p.detail) > 20);
}

static void
test_plan (void)
{
  static struct world w;
  struct cluster_create good = { .name = "a",
                                 .layout = LAYOUT_RAIDX,
                                 .groups = 1,
                                 .members = MEMBERS,
                                 .unit = KiB (256) }, bad;
  static struct cluster_array a;
  struct cluster_problem p;

  world_init (&w, 5);
  for (unsigned i = 0; i < MEMBERS; i++) {
    memcpy (good.disk[i], w.disk[i].uuid, 16);
    beat (&w, &w.disk[i]);
  }
  assert (cluster_array_plan (w.c, &good, &a, &p) == 0);
  assert (a.layout.size > 0 && cluster_array_find (w.c, "a") == NULL);

  bad = good;
  bad.groups = 3;
  expect_plan_refused (&w, &bad, "groups", "groups");
  bad = good;
  bad.dup = DUP_SYNC_CLIENT;
  expect_plan_refused (&w, &bad, "dup", "dup");
  bad = good;
  memset (bad.disk[2], 77, 16);
  expect_plan_refused (&w, &bad, "unknown-disk", "disks");
  bad = good;
  memcpy (bad.disk[2], bad.disk[1], 16);
  expect_plan_refused (&w, &bad, "same-disk", "disks");
  bad = good;
  bad.members = 2;
  expect_plan_refused (&w, &bad, "layout", "layout");
  bad = good;
  bad.unit = 5000;
  expect_plan_refused (&w, &bad, "layout", "layout");
  make_array (&w, "a");
  expect_plan_refused (&w, &good, "exists", "name");
  snprintf (good.name, sizeof good.name, "b");
  expect_plan_refused (&w, &good, "in-use", "disks");
  world_end (&w);
}

/* What ended is kept to be told, but not without bound. */
static void
test_ended_sessions (void)
{
  static struct world w;
  struct cluster_session *s;
  unsigned ended = 0;

  healthy (&w);
  for (unsigned i = 0; i < 200; i++) {
    detach (&w, &w.host[0]);
    w.host[0].alive = true;
    w.host[0].session = 0;
    snprintf (w.host[0].instance, 16, "again%u", i);
    attach_until_granted (&w, &w.host[0], "a");
  }
  TAILQ_FOREACH (s, cluster_sessions (w.c), link)
    ended += s->rec.ended;
  assert (ended == 128);
  world_end (&w);
}

static void
test_verdicts (void)
{
  static struct world w;
  char text[2048];

  world_init (&w, 6);
  assert (cluster_verdict (w.c, text, sizeof text) == CLUSTER_INFO);
  assert (strstr (text, "No disk"));
  make_array (&w, "a");
  assert (cluster_verdict (w.c, text, sizeof text) == CLUSTER_INFO);
  assert (strstr (text, "All is well"));
  attach_until_granted (&w, &w.host[0], "a");
  report_lost (&w, &w.host[0], 1);
  assert (cluster_verdict (w.c, text, sizeof text) == CLUSTER_WARNING);
  assert (strstr (text, "degraded") && strstr (text, "member 1"));
  report_lost (&w, &w.host[0], 2);
  assert (cluster_verdict (w.c, text, sizeof text) == CLUSTER_ERROR);
  assert (strstr (text, "lost data"));
  /* However little room there is, it is text. */
  for (size_t size = 1; size < 400; size++) {
    memset (text, 'x', sizeof text);
    cluster_verdict (w.c, text, size);
    assert (strlen (text) < size);
  }
  world_end (&w);
}

int
main (void)
{
  const char *text = getenv ("WEFT_SEED");
  uint64_t seed = text ? strtoull (text, NULL, 0) : (uint64_t) time (NULL);

  printf ("WEFT_SEED=%" PRIu64 "\n", seed);
  fflush (stdout);
  test_plan ();
  test_foreign ();
  test_double_use ();
  test_pause ();
  test_old_database ();
  test_late_members ();
  test_reader ();
  test_ended_sessions ();
  test_verdicts ();
  test_every_kill ();
  test_random (seed, 150);
  return 0;
}
