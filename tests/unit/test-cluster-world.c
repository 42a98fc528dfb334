/* test-cluster-world.c: see test-cluster-world.h. */

#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "test-cluster-world.h"

uint64_t
rnd (struct world *w)
{
  w->random ^= w->random << 13;
  w->random ^= w->random >> 7;
  w->random ^= w->random << 17;
  return w->random;
}

struct cluster_input
input (struct world *w, uint64_t op)
{
  struct cluster_input in = { .op = op,
                              .now_ms = w->now_ms,
                              .wall_ms = 1700000000000 + w->now_ms };

  for (size_t i = 0; i < sizeof in.random; i++)
    in.random[i] = (uint8_t) (rnd (w) >> 24);
  return in;
}

/* ---- Carrying out steps. ---- */

static void
copy_reply (const struct world *w, const struct cluster_output *o,
            struct message *m)
{
  struct cluster_join_order order;

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
    /* A place comes when the old one is forgotten. */
    m->assigned = a && cluster_uuid_is_zero (m->release);
    if (m->assigned) {
      memcpy (m->array, a->rec.uuid, 16);
      m->position = o->disk->position;
      m->epoch = a->rec.epoch;
      for (unsigned i = 0; i < a->layout.members; i++)
        m->states[i] = a->rec.member[i].state;
      if (cluster_join_order (w->c, a, m->position, &order))
        m->order = order.epoch;
    }
  }
  if (o->reply == CLUSTER_REPLY_GRANT || o->reply == CLUSTER_REPLY_SESSION) {
    m->session = o->session->rec.id;
    m->granted_epoch = o->session->rec.epoch;
    m->epoch = o->array->rec.epoch;
    if (o->array->rec.change.sessions)
      m->change = o->array->rec.change.epoch;
    memcpy (m->array, o->array->rec.uuid, 16);
    for (unsigned i = 0; i < o->array->layout.members; i++)
      m->states[i] = o->array->rec.member[i].state;
  }
}

void
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

void
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

void
carry_out (struct world *w)
{
  while (w->steps && !w->killed) {
    struct step_out *s = w->steps;
    struct message *m;

    if (w->lag_percent && rnd (w) % 100 < w->lag_percent)
      return; /* the store is slow today */
    if (!s->durable && s->records_count > 0) {
      transaction (w, s);
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
void
reincarnate (struct world *w)
{
  uint64_t generation = 0;

  for (size_t i = 0; i < w->stored; i++)
    if (w->store[i].kind == CLUSTER_RECORD_IDENTITY)
      generation = w->store[i].identity.generation;
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
  /* Commands of a weftd before this one are known by their generation. */
  assert (cluster_identity (w->c)->generation > generation);
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
    assert (m->min_epoch <= a->epoch || m->min_epoch <= a->change.epoch);
    assert (m->epoch <= a->epoch); /* COMMITted */
    memcpy (d->array, m->array, 16);
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
  if (m->min_epoch > d->min_epoch) {
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
  else if (d->phase < (d->slow ? CLUSTER_JOIN_COPYING : CLUSTER_JOIN_SYNCED))
    d->phase++;
  d->join_epoch = m->order;
}

static void
host_granted (struct world *w, struct host *h, const struct message *m)
{
  const struct cluster_session_record *s = stored_session (w, m->session);
  const struct cluster_array_record *a = stored_array (w, m->array);

  assert (s && !s->ended && strcmp (s->instance, h->instance) == 0);
  assert (a && a->epoch >= m->granted_epoch);
  if (h->writable && !h->attached) {
    /* Everyone else is fenced, in truth, at every member, and he is not. */
    for (unsigned i = 0; i < MEMBERS; i++)
      assert (m->states[i] == MEMBER_OUT ||
              w->disk[i].min_epoch >= m->granted_epoch);
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
  h->fresh_ms = h->asked_ms;
  memset (h->lost, 0, sizeof h->lost);
  memcpy (h->states, m->states, sizeof h->states);
}

/* It goes on in a new epoch: with what is out no more, it connects again. */
static void
host_goes_on (struct world *w, struct host *h, const struct message *m)
{
  h->told = m->change;
  if (m->change && !h->busy)
    h->prepared = m->change;
  if (m->epoch == h->epoch)
    return;
  for (unsigned i = 0; i < MEMBERS; i++)
    h->lost[i] = m->states[i] != MEMBER_OUT && !w->disk[i].alive;
  memcpy (h->states, m->states, sizeof h->states);
  h->epoch = m->epoch;
}

static void
host_hears (struct world *w, struct host *h, const struct message *m)
{
  if (m->op == h->beat_op) {
    h->beat_op = 0;
    h->fresh_ms = h->asked_ms;
  }
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
    host_goes_on (w, h, m);
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
                                       .join = { .phase = d->phase,
                                                 .epoch = d->join_epoch },
                                       .wait_ms = wait_ms };

  memcpy (hb.uuid, d->uuid, 16);
  memcpy (hb.cluster, d->cluster, 16);
  memcpy (hb.array, d->array, 16);
  snprintf (hb.instance, sizeof hb.instance, "%s", d->instance);
  snprintf (hb.node, sizeof hb.node, "n%u", d->uuid[0]);
  snprintf (hb.path, sizeof hb.path, "/dev/d%u", d->uuid[0]);
  return hb;
}

void
disk_beat (struct world *w, struct disk *d, uint64_t wait_ms)
{
  struct cluster_disk_heartbeat hb = disk_words (d, wait_ms);
  struct cluster_input in = input (w, d->op = ++w->next_op);

  cluster_disk_heartbeat (w->c, &in, &hb);
  pump (w);
}

void
host_beat (struct world *w, struct host *h)
{
  struct cluster_session_heartbeat hb = { .epoch = h->epoch,
                                          .prepared = h->prepared,
                                          .wait_ms = 1000 };
  struct cluster_input in = input (w, h->beat_op = ++w->next_op);

  h->asked_ms = w->now_ms;
  if (h->prepared)
    prepared (w, h->session, h->prepared);
  snprintf (hb.instance, sizeof hb.instance, "%s", h->instance);
  cluster_session_heartbeat (w->c, &in, h->session, &hb);
  pump (w);
}

void
host_attach (struct world *w, struct host *h, const char *name)
{
  struct cluster_attach a = { .pid = 7,
                              .writable = h->writable,
                              .takeover = h->takeover,
                              .ended = h->ended };
  struct cluster_input in = input (w, h->op = ++w->next_op);

  snprintf (a.instance, sizeof a.instance, "%s", h->instance);
  snprintf (a.node, sizeof a.node, "%s", h->node);
  h->answered = false;
  h->asked_ms = w->now_ms;
  cluster_attach (w->c, &in, name, &a);
  pump (w);
}

/* A quarter of a second of everybody's life. */
void
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

void
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

void
world_end (struct world *w)
{
  while (w->steps)
    drop_step (w);
  cluster_free (w->c);
}
