/* test-cluster-weftd.c: see test-cluster-weftd.h. */

#include <config.h>

#include "test-cluster-weftd.h"

struct weftd weftd;
struct cluster *engine;

void
weftd_init (uint64_t seed)
{
  cluster_free (engine);
  engine = NULL;
  weftd.stored = 0;
  memset (weftd.history, 0, sizeof weftd.history);
  weftd.op = weftd.kill_at = 0;
  weftd.killed = false;
  weftd.name = "a";
  weftd.random = seed * 2654435761u + 88172645463325252u;
  weftd.now_ms = 1000;
  weftd.ahead_ms = 0;
}

uint64_t
rnd (void)
{
  weftd.random ^= weftd.random << 13;
  weftd.random ^= weftd.random >> 7;
  weftd.random ^= weftd.random << 17;
  return weftd.random;
}

struct cluster_input
input (uint64_t op)
{
  struct cluster_input in = { .op = op,
                              .now_ms = weftd.now_ms,
                              .wall_ms = 1700000000000 + weftd.now_ms +
                                         (uint64_t) weftd.ahead_ms };

  for (size_t i = 0; i < sizeof in.random; i++)
    in.random[i] = (uint8_t) (rnd () >> 24);
  return in;
}

void
start_engine (void)
{
  struct cluster_input in;
  char why[256];

  cluster_free (engine);
  engine = cluster_new ();
  for (size_t i = 0; i < weftd.stored; i++)
    assert (cluster_load (engine, &weftd.store[i], why, sizeof why) == 0);
  in = input (0);
  assert (cluster_start (engine, &in, why, sizeof why) == 0);
}

/* ---- The store. ---- */

static void
number_check (const uint8_t uuid[16], uint64_t epoch, const uint8_t states[])
{
  assert (epoch < HISTORY_MAX);
  if (weftd.history[epoch].known &&
      memcmp (weftd.history[epoch].array, uuid, 16) == 0)
    assert (memcmp (weftd.history[epoch].states, states, MEMBERS) == 0);
  weftd.history[epoch].known = true;
  memcpy (weftd.history[epoch].array, uuid, 16);
  memcpy (weftd.history[epoch].states, states, MEMBERS);
}

static void
array_check (const struct cluster_array_record *a)
{
  uint8_t states[ARRAY_MEMBERS_MAX] = { 0 };
  bool out[ARRAY_MEMBERS_MAX];
  struct layout l;
  char why[256];

  for (unsigned m = 0; m < a->n * a->groups; m++) {
    states[m] = (uint8_t) a->member[m].state;
    out[m] = a->member[m].state != MEMBER_IN_SYNC;
  }
  number_check (a->uuid, a->epoch, states);
  if (a->change.epoch)
    number_check (a->uuid, a->change.epoch, a->change.states);
  assert (layout_init (&l, a->layout, a->n, a->groups, a->unit, a->member_bytes,
                       why, sizeof why) == 0);
  assert (layout_loss (&l, out, NULL) == 0);
}

void
store_put (const struct cluster_record *r)
{
  size_t i = 0;

  if (r->kind == CLUSTER_RECORD_ARRAY && !r->deleted &&
      strcmp (r->array.name, weftd.name) == 0)
    array_check (&r->array);
  while (i < weftd.stored && !cluster_record_same (&weftd.store[i], r))
    i++;
  if (r->deleted) {
    if (i < weftd.stored)
      weftd.store[i] = weftd.store[--weftd.stored];
    return;
  }
  assert (i < RECORDS_MAX);
  memcpy (&weftd.store[i], r, cluster_record_bytes (r->kind));
  if (i == weftd.stored)
    weftd.stored++;
}

/* ---- What is known, and said. ---- */

struct cluster_array *
array (void)
{
  return cluster_array_find (engine, weftd.name);
}

struct cluster_member *
member (unsigned m)
{
  return &array ()->rec.member[m];
}

enum member_state
state (unsigned m)
{
  return member (m)->state;
}

bool
whole (void)
{
  for (unsigned m = 0; m < array ()->layout.members; m++)
    if (state (m) != MEMBER_IN_SYNC)
      return false;
  return array ()->rec.change.epoch == 0;
}

static char text[4096];

enum cluster_severity
verdict (void)
{
  return cluster_verdict (engine, text, sizeof text);
}

bool
says (const char *what)
{
  verdict ();
  return strstr (text, what) != NULL;
}

struct cluster_disk *
known (unsigned disk)
{
  return cluster_disk_find (engine, disk_uuid (disk));
}

struct cluster_create
create_of (const char *name, enum layout_kind layout, unsigned first,
           unsigned members)
{
  struct cluster_create create = {
    .layout = layout, .groups = 1, .members = members, .unit = KiB (256)
  };

  snprintf (create.name, sizeof create.name, "%s", name);
  for (unsigned i = 0; i < members; i++)
    memcpy (create.disk[i], disk_uuid (first + i), 16);
  return create;
}

void
live_on (unsigned rounds)
{
  while (rounds-- > 0)
    live ();
}
