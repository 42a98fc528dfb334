/* test-cluster-rules.c: the cluster engine's rules about disks, silence, its own
 * database and what it says, one at a time.
 */

#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "test-cluster-world.h"

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
  w.disk[0].alive = false;
  UNTIL (&w, !cluster_disk_find (w.c, w.disk[0].uuid)->alive);
  stranger = w.disk[0];
  snprintf (stranger.instance, 16, "again");
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

/* Who is heard between two ticks is not silent sooner for that. */
static void
test_silence (void)
{
  static struct world w;
  struct host *h = &w.host[0];
  struct cluster_session_heartbeat hb = { .wait_ms = 0 };
  struct cluster_input in;
  struct cluster_session *s;
  uint64_t heard_ms;

  healthy (&w);
  live_on (&w, 8);
  h->alive = false;
  tick (&w, 2 * HOLD_MS_MAX); /* its long poll is over */
  said (&w, 0);
  heard_ms = w.now_ms += CLUSTER_TICK_MS - 1;
  in = input (&w, ++w.next_op);
  hb.epoch = h->epoch;
  snprintf (hb.instance, sizeof hb.instance, "%s", h->instance);
  cluster_session_heartbeat (w.c, &in, h->session, &hb);
  pump (&w);
  said (&w, 0);
  s = cluster_session_find (w.c, h->session);
  tick (&w, 1);
  while (s->alive) {
    said (&w, 0);
    tick (&w, CLUSTER_TICK_MS);
  }
  said (&w, 0);
  assert (w.now_ms - heard_ms >= SESSION_TTL_MS);
  assert (w.now_ms - heard_ms <= SESSION_TTL_MS + CLUSTER_TICK_MS);
  world_end (&w);
}

/* Whoever starts, again and again, and never listens, is not alive by that. */
static void
test_starting (void)
{
  static struct world w;
  struct cluster_disk_heartbeat hb;
  struct cluster_input in;
  struct cluster_disk *d;

  healthy (&w);
  d = cluster_disk_find (w.c, w.disk[0].uuid);
  hb = disk_words (&w.disk[0], 0);
  hb.starting = true;
  for (uint64_t ms = 0; ms < MEMBER_TTL_MS; ms += CLUSTER_TICK_MS) {
    assert (d->alive);
    in = input (&w, ++w.next_op);
    cluster_disk_heartbeat (w.c, &in, &hb);
    pump (&w);
    said (&w, 0);
    tick (&w, CLUSTER_TICK_MS);
  }
  assert (!d->alive);
  hb.starting = false;
  in = input (&w, ++w.next_op);
  cluster_disk_heartbeat (w.c, &in, &hb);
  pump (&w);
  said (&w, 0);
  assert (d->alive);
  world_end (&w);
}

/* The answer to a heartbeat of that disk, which says all, or to be the same. */
static struct message
hears (struct world *w, const struct cluster_disk_heartbeat *report, bool same)
{
  struct cluster_input in = input (w, ++w->next_op);
  struct cluster_disk_heartbeat hb = *report;

  if (same)
    memset (hb.uri, 0,
            sizeof hb - offsetof (struct cluster_disk_heartbeat, uri));
  hb.same = same;
  cluster_disk_heartbeat (w->c, &in, &hb);
  pump (w);
  return said (w, in.op);
}

/* Who says only that nothing has changed has said what that was: as this process,
 * to this weftd, and nothing else since, not even by a call that was late.
 */
static void
test_same (void)
{
  static struct world w;
  struct cluster_disk_heartbeat hb, before, other;
  struct cluster_input in;
  struct cluster_disk *d;
  struct message m;

  healthy (&w);
  hb = disk_words (&w.disk[0], 0);
  hb.report = 1;
  m = hears (&w, &hb, true);
  expect_refused (&m, CLUSTER_CONFLICT, "say-all");
  before = hb;
  m = hears (&w, &hb, false);
  assert (m.kind == CLUSTER_REPLY_DISK);
  d = cluster_disk_find (w.c, hb.uuid);
  hb.sequence += 7;
  hb.report = 2;
  hears (&w, &hb, false);
  hb.dirty_extents = 3;
  m = hears (&w, &hb, true);
  assert (m.kind == CLUSTER_REPLY_DISK);
  assert (d->alive && d->took_place && d->dirty_extents == 3 &&
          d->sequence == hb.sequence && d->min_epoch == hb.min_epoch &&
          strcmp (d->rec.uri, hb.uri) == 0);
  m = hears (&w, &before, true);
  expect_refused (&m, CLUSTER_CONFLICT, "say-all");
  assert (d->sequence == hb.sequence);

  /* What was not taken in, of another process, does not count. */
  other = hb;
  other.report = 3;
  strcat (other.instance, "x");
  in = input (&w, ++w.next_op);
  cluster_disk_heartbeat (w.c, &in, &other);
  pump (&w);
  m = hears (&w, &hb, true);
  assert (m.kind == CLUSTER_REPLY_DISK);

  hears (&w, &before, false);
  m = hears (&w, &hb, true);
  expect_refused (&m, CLUSTER_CONFLICT, "say-all");
  hears (&w, &hb, false);
  strcat (hb.node, "x");
  m = hears (&w, &hb, true);
  expect_refused (&m, CLUSTER_CONFLICT, "say-all");
  hb = disk_words (&w.disk[0], 0);
  hb.report = 2;
  strcat (hb.instance, "x");
  m = hears (&w, &hb, true);
  expect_refused (&m, CLUSTER_CONFLICT, "say-all");
  reincarnate (&w);
  hb = disk_words (&w.disk[1], 0);
  hb.report = 1;
  /* Nor is it told less than all before this weftd has told it all. */
  hears (&w, &hb, false);
  assert (!cluster_disk_find (w.c, hb.uuid)->knows);
  hears (&w, &hb, true);
  assert (cluster_disk_find (w.c, hb.uuid)->knows);
  hb.states_epoch--;
  hb.report++;
  hears (&w, &hb, false);
  assert (!cluster_disk_find (w.c, hb.uuid)->knows);
  reincarnate (&w);
  m = hears (&w, &hb, true);
  expect_refused (&m, CLUSTER_CONFLICT, "say-all");
  assert (!cluster_disk_find (w.c, hb.uuid)->heard);
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
  assert (strcmp (cluster_array_state (cluster_array_find (w.c, "a")),
                  "failed") == 0);
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

  /* But what no epoch ever gets to shows that the disk lies. */
  healthy (&w);
  ahead = w.disk[0];
  ahead.uuid[0] ^= 0x80;
  memset (ahead.array, 0, 16);
  ahead.min_epoch = EPOCH_MAX / 2;
  m = beat (&w, &ahead);
  expect_refused (&m, CLUSTER_INVALID, "nonsense");
  assert (cluster_disk_find (w.c, ahead.uuid) == NULL);
  world_end (&w);

  /* And by a host. */
  healthy (&w);
  w.host[0].epoch += 3;
  host_beat (&w, &w.host[0]);
  assert (cluster_read_only (w.c) != NULL);
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
                                 .unit = KiB (256) },
                        bad;
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
  cluster_session_lost (w.c, &in, w.host[0].session, 2, 0, "it is gone");
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
  test_plan ();
  test_foreign ();
  test_double_use ();
  test_silence ();
  test_starting ();
  test_same ();
  test_pause ();
  test_old_database ();
  test_ended_sessions ();
  test_verdicts ();
  return 0;
}
