/* test-cluster.c: the cluster engine, alone, in the world of
 * test-cluster-world.h: one rule at a time, then an administrator's day with a
 * kill of weftd after each of its actions, and with random kills and a store
 * that lags behind.
 *
 * WEFT_SEED replays the random part.
 */

#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "test-cluster-world.h"

/* ---- The scenario. ---- */

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

  /* A member is lost, and taken back when it is heard again. */
  w->disk[2].alive = false;
  w->disk[2].op = 0;
  report_lost (w, b, 2);
  UNTIL (w, reader->states[2] == MEMBER_OUT);
  w->disk[2].alive = true;
  UNTIL (w, b->states[2] == MEMBER_IN_SYNC && reader->epoch == b->epoch);

  /* And once more, but who writes leaves while it joins. */
  w->disk[2].slow = true;
  b->states[2] = MEMBER_IN_SYNC;
  report_lost (w, b, 2);
  UNTIL (w, w->disk[2].phase == CLUSTER_JOIN_COPYING);
  detach (w, b);
  snprintf (b->instance, 16, "h1 again");
  b->session = 0;
  b->alive = true;
  w->disk[2].slow = false;
  attach_until_granted (w, b, "a");
  UNTIL (w, b->states[2] == MEMBER_IN_SYNC);
  detach (w, b);

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

  /* The last copy says that it is blank. */
  w.disk[1].alive = false;
  report_lost (&w, &w.host[0], 1);
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
  reincarnate (&w); /* nor does its start */
  for (unsigned i = 0; i < MEMBERS; i++)
    assert (cluster_disk_find (w.c, w.disk[i].uuid)->alive);
  assert (cluster_session_find (w.c, w.host[0].session)->alive);
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

/* An attach that members do not confirm starts without them, in an epoch of its
 * own, where that loses nothing.
 */
static void
test_late_member (void)
{
  static struct world w;
  struct host *a = &w.host[0];
  uint64_t epoch, begin;

  world_init (&w, 4);
  make_array (&w, "a");
  epoch = cluster_array_find (w.c, "a")->rec.epoch;
  disk_beat (&w, &w.disk[3], 0);
  said (&w, 0);
  cut_off (&w.disk[3]);
  begin = w.now_ms;
  host_attach (&w, a, "a");
  UNTIL (&w, a->op == 0);
  assert (a->attached && a->epoch == epoch + 2);
  assert (a->states[3] == MEMBER_OUT && a->states[2] == MEMBER_IN_SYNC);
  assert (w.now_ms - begin >= 10000 && w.now_ms - begin < 11000);
  world_end (&w);
}

/* Where it would lose data it is refused in time.  The number that it prepared
 * serves no grant of a weftd that was started since; and where nobody asks
 * again, it is committed without those who are gone, who are to be fenced as soon
 * as they are back.
 */
static void
test_late_members (void)
{
  static struct world w;
  struct host *a = &w.host[0];
  const struct cluster_array_record *rec;
  uint64_t epoch;

  world_init (&w, 4);
  make_array (&w, "a");
  epoch = cluster_array_find (w.c, "a")->rec.epoch;
  for (unsigned i = 2; i < 4; i++)
    disk_beat (&w, &w.disk[i], 0);
  said (&w, 0);
  cut_off (&w.disk[2]);
  cut_off (&w.disk[3]);
  host_attach (&w, a, "a");
  for (unsigned i = 0; i < 8; i++)
    live (&w);
  assert (cluster_array_find (w.c, "a")->rec.change.epoch == epoch + 1);
  reincarnate (&w);
  assert (cluster_array_find (w.c, "a")->rec.change.epoch == epoch + 1);
  assert (cluster_array_find (w.c, "a")->rec.epoch == epoch);
  w.disk[2].alive = w.disk[3].alive = true;
  attach_until_granted (&w, a, "a");
  assert (a->epoch == epoch + 2); /* a stored number serves no grant */
  detach (&w, a);
  rec = &cluster_array_find (w.c, "a")->rec;
  UNTIL (&w, rec->change.epoch == 0);

  a->alive = true;
  a->session = 0;
  snprintf (a->instance, 16, "h0 again");
  live (&w);
  epoch = rec->epoch;
  cut_off (&w.disk[2]);
  cut_off (&w.disk[3]);
  host_attach (&w, a, "a");
  UNTIL (&w, a->op == 0);
  assert (a->refused == CLUSTER_CONFLICT);
  assert (strcmp (a->code, "member-missing") == 0);
  assert (rec->member[2].state == MEMBER_IN_SYNC);
  UNTIL (&w, rec->change.epoch == 0);
  assert (rec->epoch > epoch && rec->member[2].fence == rec->epoch);
  assert (w.disk[0].min_epoch > epoch && w.disk[2].min_epoch <= epoch);
  w.disk[2].alive = w.disk[3].alive = true;
  w.disk[2].op = w.disk[3].op = 0;
  UNTIL (&w, w.disk[2].min_epoch == rec->member[2].fence);
  world_end (&w);
}

/* Nobody who lives waits for a clock: members and hosts are told at once. */
static void
test_no_waits (void)
{
  static struct world w;
  struct host *a = &w.host[0], *b = &w.host[1];
  uint64_t begin;

  world_init (&w, 7);
  make_array (&w, "a");
  for (unsigned i = 0; i < 10; i++)
    live (&w); /* by now everybody is in a long poll */
  begin = w.now_ms;
  attach_until_granted (&w, a, "a");
  for (unsigned i = 0; i < 10; i++)
    live (&w);
  assert (strcmp (attach_refusal (&w, b, "a"), "held") == 0);
  detach (&w, a);
  attach_until_granted (&w, b, "a");
  assert (w.now_ms - begin < 40 * CLUSTER_TICK_MS);
  world_end (&w);

  world_init (&w, 7);
  make_array (&w, "a");
  for (unsigned i = 0; i < 10; i++)
    live (&w);
  begin = w.now_ms;
  attach_until_granted (&w, a, "a");
  assert (w.now_ms - begin <= 2 * CLUSTER_TICK_MS);
  /* The same answer, where the first one was not heard. */
  a->attached = false;
  begin = a->session;
  attach_until_granted (&w, a, "a");
  assert (a->session == begin);
  world_end (&w);
}

/* A member passes the number that is being prepared: that one is spent. */
static void
test_spent_number (void)
{
  static struct world w;
  struct cluster_array *a;
  uint64_t epoch;

  world_init (&w, 8);
  make_array (&w, "a");
  a = cluster_array_find (w.c, "a");
  epoch = a->rec.epoch;
  w.disk[3].alive = false; /* it has not confirmed yet */
  w.disk[3].op = UINT64_MAX;
  host_attach (&w, &w.host[0], "a");
  for (unsigned i = 0; i < 4; i++)
    live (&w);
  assert (a->rec.change.epoch == epoch + 1);
  w.disk[3].alive = true;
  w.disk[3].op = 0;
  w.disk[3].min_epoch = epoch + 2;
  live (&w);
  assert (a->rec.change.epoch == epoch + 3 || a->rec.epoch == epoch + 3);
  UNTIL (&w, w.host[0].attached);
  assert (w.host[0].epoch == epoch + 3);
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
  in = input (&w, ++w.next_op);
  cluster_session_lost (w.c, &in, reader->session, 1, "no route");
  pump (&w);
  m = said (&w, in.op);
  expect_refused (&m, CLUSTER_CONFLICT, "in-use");
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
  struct cluster_input in;
  struct message m;
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
  /* The last copy is not left out: the array stops. */
  in = input (&w, ++w.next_op);
  cluster_session_lost (w.c, &in, w.host[0].session, 2, "it is gone");
  pump (&w);
  m = said (&w, in.op);
  expect_refused (&m, CLUSTER_CONFLICT, "last-copy");
  assert (cluster_array_find (w.c, "a")->rec.member[2].state == MEMBER_IN_SYNC);
  assert (cluster_verdict (w.c, text, sizeof text) == CLUSTER_ERROR);
  assert (strstr (text, "has stopped"));
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
  test_late_member ();
  test_late_members ();
  test_no_waits ();
  test_spent_number ();
  test_reader ();
  test_ended_sessions ();
  test_verdicts ();
  test_every_kill ();
  test_random (seed, 150);
  return 0;
}
