/* test-cluster-rules.c: the cluster engine's rules about disks, silence, its own
 * database and what it says, one at a time.
 */

#include <config.h>

#include <stddef.h>

#include "test-cluster-world.h"

static void
test_foreign (void)
{
  struct message m;
  struct disk stranger = { .instance = "x", .alive = true };

  healthy ();
  memset (stranger.uuid, 99, 16);
  memset (stranger.cluster, 5, 16);
  m = beat (&stranger);
  expect_refused (&m, CLUSTER_CONFLICT, "foreign-cluster");
  memset (stranger.cluster, 0, 16);
  memset (stranger.array, 5, 16);
  m = beat (&stranger);
  expect_refused (&m, CLUSTER_CONFLICT, "unknown-array");
  memcpy (stranger.array, world.disk[0].array, 16);
  m = beat (&stranger);
  expect_refused (&m, CLUSTER_CONFLICT, "not-a-member");
  assert (cluster_disk_find (world.c, stranger.uuid) == NULL);

  /* The last copy says that it is blank. */
  world.disk[1].alive = false;
  report_lost (&world.host[0], 1);
  world.disk[0].alive = false;
  UNTIL (!cluster_disk_find (world.c, world.disk[0].uuid)->alive);
  stranger = world.disk[0];
  snprintf (stranger.instance, 16, "again");
  memset (stranger.array, 0, 16);
  m = beat (&stranger);
  expect_refused (&m, CLUSTER_CONFLICT, "blank");
}

static void
test_double_use (void)
{
  struct disk clone;
  struct message m;
  uint64_t op;

  healthy ();
  clone = world.disk[0];
  snprintf (clone.instance, 16, "clone");

  /* The known process lives: the other one is refused as soon as it speaks. */
  disk_beat (&clone, 0);
  op = clone.op;
  m = said (op);
  assert (m.op == 0); /* it waits */
  disk_beat (&world.disk[0], 0);
  m = said (op);
  expect_refused (&m, CLUSTER_CONFLICT, "double-used");

  /* The known process was killed: the other one gets its place soon. */
  tick (CLUSTER_TICK_MS);
  disk_beat (&clone, 0);
  op = clone.op;
  m = said (op);
  assert (m.op == 0);
  for (unsigned i = 0; i < 5; i++)
    tick (CLUSTER_TICK_MS);
  m = said (op);
  assert (m.op == 0);
  for (unsigned i = 0; i < 2; i++)
    tick (CLUSTER_TICK_MS);
  m = said (op);
  assert (m.op == op && m.kind == CLUSTER_REPLY_DISK && m.assigned);
}

/* Who is heard between two ticks is not silent sooner for that. */
static void
test_silence (void)
{
  struct host *h = &world.host[0];
  struct cluster_session_heartbeat hb = { .wait_ms = 0 };
  struct cluster_input in;
  struct cluster_session *s;
  uint64_t heard_ms;

  healthy ();
  live_on (8);
  h->alive = false;
  tick (2 * HOLD_MS_MAX); /* its long poll is over */
  said (0);
  heard_ms = world.now_ms += CLUSTER_TICK_MS - 1;
  in = input (++world.next_op);
  hb.epoch = h->epoch;
  snprintf (hb.instance, sizeof hb.instance, "%s", h->instance);
  cluster_session_heartbeat (world.c, &in, h->session, &hb);
  pump ();
  said (0);
  s = cluster_session_find (world.c, h->session);
  tick (1);
  while (s->alive) {
    said (0);
    tick (CLUSTER_TICK_MS);
  }
  said (0);
  assert (world.now_ms - heard_ms >= SESSION_TTL_MS);
  assert (world.now_ms - heard_ms <= SESSION_TTL_MS + CLUSTER_TICK_MS);
}

/* Whoever starts, again and again, and never listens, is not alive by that. */
static void
test_starting (void)
{
  struct cluster_disk_heartbeat hb;
  struct cluster_input in;
  struct cluster_disk *d;

  healthy ();
  d = cluster_disk_find (world.c, world.disk[0].uuid);
  hb = disk_words (&world.disk[0], 0);
  hb.starting = true;
  for (uint64_t ms = 0; ms < MEMBER_TTL_MS; ms += CLUSTER_TICK_MS) {
    assert (d->alive);
    in = input (++world.next_op);
    cluster_disk_heartbeat (world.c, &in, &hb);
    pump ();
    said (0);
    tick (CLUSTER_TICK_MS);
  }
  assert (!d->alive);
  hb.starting = false;
  in = input (++world.next_op);
  cluster_disk_heartbeat (world.c, &in, &hb);
  pump ();
  said (0);
  assert (d->alive);
}

/* The answer to a heartbeat of that disk, which says all, or to be the same. */
static struct message
hears (const struct cluster_disk_heartbeat *report, bool same)
{
  struct cluster_input in = input (++world.next_op);
  struct cluster_disk_heartbeat hb = *report;

  if (same)
    memset (hb.uri, 0,
            sizeof hb - offsetof (struct cluster_disk_heartbeat, uri));
  hb.same = same;
  cluster_disk_heartbeat (world.c, &in, &hb);
  pump ();
  return said (in.op);
}

/* Who says only that nothing has changed has said what that was: as this process,
 * to this weftd, and nothing else since, not even by a call that was late.
 */
static void
test_same (void)
{
  struct cluster_disk_heartbeat hb, before, other;
  struct cluster_input in;
  struct cluster_disk *d;
  struct message m;

  healthy ();
  hb = disk_words (&world.disk[0], 0);
  hb.report = 1;
  m = hears (&hb, true);
  expect_refused (&m, CLUSTER_CONFLICT, "say-all");
  before = hb;
  m = hears (&hb, false);
  assert (m.kind == CLUSTER_REPLY_DISK);
  d = cluster_disk_find (world.c, hb.uuid);
  hb.sequence += 7;
  hb.report = 2;
  hears (&hb, false);
  hb.dirty_extents = 3;
  m = hears (&hb, true);
  assert (m.kind == CLUSTER_REPLY_DISK);
  assert (d->alive && d->took_place && d->dirty_extents == 3 &&
          d->sequence == hb.sequence && d->min_epoch == hb.min_epoch &&
          strcmp (d->rec.uri, hb.uri) == 0);
  m = hears (&before, true);
  expect_refused (&m, CLUSTER_CONFLICT, "say-all");
  assert (d->sequence == hb.sequence);

  /* What was not taken in, of another process, does not count. */
  other = hb;
  other.report = 3;
  strcat (other.instance, "x");
  in = input (++world.next_op);
  cluster_disk_heartbeat (world.c, &in, &other);
  pump ();
  m = hears (&hb, true);
  assert (m.kind == CLUSTER_REPLY_DISK);

  hears (&before, false);
  m = hears (&hb, true);
  expect_refused (&m, CLUSTER_CONFLICT, "say-all");
  hears (&hb, false);
  strcat (hb.node, "x");
  m = hears (&hb, true);
  expect_refused (&m, CLUSTER_CONFLICT, "say-all");
  hb = disk_words (&world.disk[0], 0);
  hb.report = 2;
  strcat (hb.instance, "x");
  m = hears (&hb, true);
  expect_refused (&m, CLUSTER_CONFLICT, "say-all");
  reincarnate ();
  hb = disk_words (&world.disk[1], 0);
  hb.report = 1;
  /* Nor is it told less than all before this weftd has told it all. */
  hears (&hb, false);
  assert (!cluster_disk_find (world.c, hb.uuid)->knows);
  hears (&hb, true);
  assert (cluster_disk_find (world.c, hb.uuid)->knows);
  hb.states_epoch--;
  hb.report++;
  hears (&hb, false);
  assert (!cluster_disk_find (world.c, hb.uuid)->knows);
  reincarnate ();
  m = hears (&hb, true);
  expect_refused (&m, CLUSTER_CONFLICT, "say-all");
  assert (!cluster_disk_find (world.c, hb.uuid)->heard);
}

/* A pause of weftd's own makes nobody silent. */
static void
test_pause (void)
{
  healthy ();
  reincarnate (); /* nor does its start */
  for (unsigned i = 0; i < MEMBERS; i++)
    assert (cluster_disk_find (world.c, world.disk[i].uuid)->alive);
  assert (cluster_session_find (world.c, world.host[0].session)->alive);
  tick (3600 * 1000);
  for (unsigned i = 0; i < MEMBERS; i++)
    assert (cluster_disk_find (world.c, world.disk[i].uuid)->alive);
  assert (cluster_session_find (world.c, world.host[0].session)->alive);
  /* But silence does, when weftd is awake. */
  for (unsigned i = 0; i < 60; i++) {
    tick (CLUSTER_TICK_MS);
    said (0);
  }
  for (unsigned i = 0; i < MEMBERS; i++)
    assert (!cluster_disk_find (world.c, world.disk[i].uuid)->alive);
  assert (!cluster_session_find (world.c, world.host[0].session)->alive);
  /* Nobody's silence alone is recorded as a loss. */
  assert (cluster_array_find (world.c, "a")->rec.member[0].state ==
          MEMBER_IN_SYNC);
  assert (strcmp (cluster_array_state (cluster_array_find (world.c, "a")),
                  "failed") == 0);
}

/* An old database: members know more than it does. */
static void
test_old_database (void)
{
  static struct cluster_record old[RECORDS_MAX];
  size_t old_count;
  struct disk ahead;
  struct message m;
  char verdict[2048];

  healthy ();
  memcpy (old, world.store, sizeof old);
  old_count = world.stored;

  /* More epochs pass; then the old database is put back. */
  report_lost (&world.host[0], 1);
  UNTIL (world.disk[0].states_epoch == world.host[0].epoch);
  memcpy (world.store, old, sizeof old);
  world.stored = old_count;
  reincarnate ();
  m = beat (&world.disk[0]);
  expect_refused (&m, CLUSTER_UNAVAILABLE, "read-only");
  assert (cluster_read_only (world.c));
  assert (cluster_verdict (world.c, verdict, sizeof verdict) == CLUSTER_ERROR);
  assert (strstr (verdict, "backup"));
  host_attach (&world.host[1], "a");
  m = said (world.host[1].op);
  expect_refused (&m, CLUSTER_UNAVAILABLE, "read-only");
  delete_array ("no such array");

  /* The same by generation, and by min_epoch; one ahead is a restart. */
  for (unsigned i = 0; i < 3; i++) {
    healthy ();
    ahead = world.disk[0];
    if (i == 0)
      ahead.generation += 5;
    else
      ahead.min_epoch += i;
    m = beat (&ahead);
    assert ((cluster_read_only (world.c) != NULL) == (i != 1));
  }

  /* But what no epoch ever gets to shows that the disk lies. */
  healthy ();
  ahead = world.disk[0];
  ahead.uuid[0] ^= 0x80;
  memset (ahead.array, 0, 16);
  ahead.min_epoch = EPOCH_MAX / 2;
  m = beat (&ahead);
  expect_refused (&m, CLUSTER_INVALID, "nonsense");
  assert (cluster_disk_find (world.c, ahead.uuid) == NULL);

  /* And by a host. */
  healthy ();
  world.host[0].epoch += 3;
  host_beat (&world.host[0]);
  assert (cluster_read_only (world.c) != NULL);
}

static void
expect_plan_refused (const struct cluster_create *create, const char *code,
                     const char *field)
{
  static struct cluster_array a;
  struct cluster_problem p;

  assert (cluster_array_plan (world.c, create, &a, &p) == -1);
  assert (strcmp (p.code, code) == 0);
  assert (strcmp (p.field, field) == 0);
  assert (strlen (p.detail) > 20);
}

static void
test_plan (void)
{
  struct cluster_create good = { .name = "a",
                                 .layout = LAYOUT_RAIDX,
                                 .groups = 1,
                                 .members = MEMBERS,
                                 .unit = KiB (256) },
                        bad;
  static struct cluster_array a;
  struct cluster_problem p;

  world_init (5);
  for (unsigned i = 0; i < MEMBERS; i++) {
    memcpy (good.disk[i], world.disk[i].uuid, 16);
    beat (&world.disk[i]);
  }
  assert (cluster_array_plan (world.c, &good, &a, &p) == 0);
  assert (a.layout.size > 0 && cluster_array_find (world.c, "a") == NULL);

  bad = good;
  bad.groups = 3;
  expect_plan_refused (&bad, "groups", "groups");
  bad = good;
  bad.dup = DUP_SYNC_CLIENT;
  expect_plan_refused (&bad, "dup", "dup");
  bad = good;
  memset (bad.disk[2], 77, 16);
  expect_plan_refused (&bad, "unknown-disk", "disks");
  bad = good;
  memcpy (bad.disk[2], bad.disk[1], 16);
  expect_plan_refused (&bad, "same-disk", "disks");
  bad = good;
  bad.members = 2;
  expect_plan_refused (&bad, "layout", "layout");
  bad = good;
  bad.unit = 5000;
  expect_plan_refused (&bad, "layout", "layout");
  make_array ("a");
  expect_plan_refused (&good, "exists", "name");
  snprintf (good.name, sizeof good.name, "b");
  expect_plan_refused (&good, "in-use", "disks");
}

/* What ended is kept to be told, but not without bound. */
static void
test_ended_sessions (void)
{
  struct cluster_session *s;
  unsigned ended = 0;

  healthy ();
  for (unsigned i = 0; i < 200; i++) {
    detach (&world.host[0]);
    world.host[0].alive = true;
    world.host[0].session = 0;
    snprintf (world.host[0].instance, 16, "again%u", i);
    attach_until_granted (&world.host[0], "a");
  }
  TAILQ_FOREACH (s, cluster_sessions (world.c), link)
    ended += s->rec.ended;
  assert (ended == 128);
}

static void
test_verdicts (void)
{
  struct cluster_input in;
  struct message m;
  char text[2048];

  world_init (6);
  assert (cluster_verdict (world.c, text, sizeof text) == CLUSTER_INFO);
  assert (strstr (text, "No disk"));
  make_array ("a");
  assert (cluster_verdict (world.c, text, sizeof text) == CLUSTER_INFO);
  assert (strstr (text, "All is well"));
  attach_until_granted (&world.host[0], "a");
  report_lost (&world.host[0], 1);
  assert (cluster_verdict (world.c, text, sizeof text) == CLUSTER_WARNING);
  assert (strstr (text, "degraded") && strstr (text, "member 1"));
  /* The last copy is not left out: the array stops. */
  in = input (++world.next_op);
  cluster_session_lost (world.c, &in, world.host[0].session, 2, 0,
                        "it is gone");
  pump ();
  m = said (in.op);
  expect_refused (&m, CLUSTER_CONFLICT, "last-copy");
  assert (cluster_array_find (world.c, "a")->rec.member[2].state ==
          MEMBER_IN_SYNC);
  assert (cluster_verdict (world.c, text, sizeof text) == CLUSTER_ERROR);
  assert (strstr (text, "has stopped"));
  /* However little room there is, it is text. */
  for (size_t size = 1; size < 400; size++) {
    memset (text, 'x', sizeof text);
    cluster_verdict (world.c, text, size);
    assert (strlen (text) < size);
  }
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
