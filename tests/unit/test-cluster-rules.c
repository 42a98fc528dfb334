/* test-cluster-rules.c: the cluster engine's rules about disks, silence, its own
 * database and what it says, one at a time.
 */

#include <config.h>

#include <stddef.h>

#include "test-cluster-world.h"

static void
test_foreign (void)
{
  struct disk stranger = { .instance = "x", .alive = true };

  healthy ();
  memset (stranger.uuid, 99, 16);
  memset (stranger.cluster, 5, 16);
  expect_refused (beat (&stranger), CLUSTER_CONFLICT, "foreign-cluster");
  memset (stranger.cluster, 0, 16);
  memset (stranger.array, 5, 16);
  expect_refused (beat (&stranger), CLUSTER_CONFLICT, "unknown-array");
  memcpy (stranger.array, world.disk[0].array, 16);
  expect_refused (beat (&stranger), CLUSTER_CONFLICT, "not-a-member");
  assert (cluster_disk_find (engine, stranger.uuid) == NULL);

  /* The last copy says that it is blank. */
  die (1);
  world.disk[0].alive = false;
  UNTIL (!known (0)->alive);
  stranger = world.disk[0];
  snprintf (stranger.instance, 16, "again");
  memset (stranger.array, 0, 16);
  expect_refused (beat (&stranger), CLUSTER_CONFLICT, "blank");
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
  expect_refused (said (op), CLUSTER_CONFLICT, "double-used");

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

/* The store is behind.  A process that was killed is asked to speak by an answer that
 * leaves late: the other one gets the disk when it has said nothing for TAKEOVER_MS since
 * then, or since the tick before that, and waits no longer.
 */
static void
test_double_use_and_a_late_answer (void)
{
  const struct cluster_disk *d;
  uint64_t left_ms = 0;

  healthy ();
  d = array ()->disk[1];
  world.behind = 3 * TAKEOVER_MS / CLUSTER_TICK_MS;
  live_on (2 * world.behind);
  cut_off (1);
  start_again (1);
  live ();
  assert (d->rival.since_live_ms != 0 && strcmp (d->instance, "d1") == 0);
  while (strcmp (d->instance, "d1") == 0) {
    if (left_ms == 0 &&
        (world.steps == NULL || world.steps->step->number > d->answer))
      left_ms = weftd.now_ms;
    live ();
  }
  assert (left_ms != 0);
  assert (weftd.now_ms - left_ms >= TAKEOVER_MS - CLUSTER_TICK_MS);
  assert (weftd.now_ms - left_ms <= TAKEOVER_MS + CLUSTER_TICK_MS);
}

/* A session that is heard between two ticks does not count as silent sooner. */
static void
test_silence (void)
{
  struct cluster_session_heartbeat hb = { .wait_ms = 0 };
  struct cluster_session *s;
  uint64_t heard_ms;

  healthy ();
  live_on (8);
  writer->alive = false;
  tick (2 * HOLD_MS_MAX); /* its long poll is over */
  said (0);
  heard_ms = weftd.now_ms += CLUSTER_TICK_MS - 1;
  hb.epoch = writer->epoch;
  snprintf (hb.instance, sizeof hb.instance, "%s", writer->instance);
  ASK (cluster_session_heartbeat (engine, in, writer->session, &hb));
  s = session (writer);
  tick (1);
  while (s->alive) {
    said (0);
    tick (CLUSTER_TICK_MS);
  }
  said (0);
  assert (weftd.now_ms - heard_ms >= SESSION_TTL_MS);
  assert (weftd.now_ms - heard_ms <= SESSION_TTL_MS + CLUSTER_TICK_MS);
}

/* A process that starts again and again but never listens does not count as alive by
 * that. */
static void
test_starting (void)
{
  struct cluster_disk_heartbeat hb;
  struct cluster_disk *d;

  healthy ();
  d = known (0);
  hb = disk_words (&world.disk[0], 0);
  hb.state = DISK_STARTING;
  for (uint64_t ms = 0; ms < MEMBER_TTL_MS; ms += CLUSTER_TICK_MS) {
    assert (d->alive);
    ASK (cluster_disk_heartbeat (engine, in, &hb));
    tick (CLUSTER_TICK_MS);
  }
  assert (!d->alive);
  hb.state = DISK_SERVING;
  ASK (cluster_disk_heartbeat (engine, in, &hb));
  assert (d->alive);
}

/* The answer to a heartbeat of that disk, which says all, or to be the same. */
static struct message
hears (const struct cluster_disk_heartbeat *report, bool same)
{
  struct cluster_disk_heartbeat hb = *report;

  if (same)
    memset (hb.uri, 0,
            sizeof hb - offsetof (struct cluster_disk_heartbeat, uri));
  hb.same = same;
  ASK (cluster_disk_heartbeat (engine, in, &hb));
  return world.answer;
}

/* A report of "nothing has changed" repeats the last full report, if this process made it
 * to this weftd and has reported nothing else since, not even by a late call.
 */
static void
test_same (void)
{
  struct cluster_disk_heartbeat hb, before, another;
  struct cluster_disk *d;

  healthy ();
  hb = disk_words (&world.disk[0], 0);
  hb.report = 1;
  expect_refused (hears (&hb, true), CLUSTER_CONFLICT, "say-all");
  before = hb;
  assert (hears (&hb, false).kind == CLUSTER_REPLY_DISK);
  d = cluster_disk_find (engine, hb.uuid);
  hb.sequence += 7;
  hb.report = 2;
  hears (&hb, false);
  hb.dirty_extents = 3;
  assert (hears (&hb, true).kind == CLUSTER_REPLY_DISK);
  assert (d->alive && d->took_place && d->dirty_extents == 3 &&
          d->sequence == hb.sequence && d->min_epoch == hb.min_epoch &&
          strcmp (d->rec.uri, hb.uri) == 0);
  expect_refused (hears (&before, true), CLUSTER_CONFLICT, "say-all");
  assert (d->sequence == hb.sequence);

  /* A rejected report of another process does not count. */
  another = hb;
  another.report = 3;
  strcat (another.instance, "x");
  CALL (++weftd.op, cluster_disk_heartbeat (engine, in, &another));
  assert (hears (&hb, true).kind == CLUSTER_REPLY_DISK);

  hears (&before, false);
  expect_refused (hears (&hb, true), CLUSTER_CONFLICT, "say-all");
  hears (&hb, false);
  strcat (hb.node, "x");
  expect_refused (hears (&hb, true), CLUSTER_CONFLICT, "say-all");
  hb = disk_words (&world.disk[0], 0);
  hb.report = 2;
  strcat (hb.instance, "x");
  expect_refused (hears (&hb, true), CLUSTER_CONFLICT, "say-all");
  reincarnate ();
  hb = disk_words (&world.disk[1], 0);
  hb.report = 1;
  /* The disk gets no shortened reply before this weftd has told it everything. */
  hears (&hb, false);
  assert (!cluster_disk_find (engine, hb.uuid)->told.known);
  hears (&hb, true);
  assert (cluster_disk_find (engine, hb.uuid)->told.known);
  hb.states_epoch--;
  hb.report++;
  hears (&hb, false);
  assert (!cluster_disk_find (engine, hb.uuid)->told.known);
  reincarnate ();
  expect_refused (hears (&hb, true), CLUSTER_CONFLICT, "say-all");
  assert (!cluster_disk_heard (cluster_disk_find (engine, hb.uuid)));
}

static void
all_are (bool alive)
{
  for (unsigned i = 0; i < MEMBERS; i++)
    assert (known (i)->alive == alive);
  assert (session (writer)->alive == alive);
}

/* A disk may not report zero bytes: only the record of a member that an import did not
 * find does, and it goes with its place.
 */
static void
test_no_bytes (void)
{
  struct cluster_disk_heartbeat hb;

  begin_array ();
  hb = disk_words (&world.disk[1], 0);
  hb.size = 0;
  REFUSED (CLUSTER_INVALID, "nonsense",
           cluster_disk_heartbeat (engine, in, &hb));
  assert (strcmp (world.answer.problem.field, "size") == 0);
  assert (known (1)->rec.size > 0);
}

/* A pause of weftd's own makes nobody silent. */
static void
test_pause (void)
{
  healthy ();
  reincarnate (); /* nor does its start */
  all_are (true);
  tick (3600 * 1000);
  all_are (true);
  /* But silence does, when weftd is awake. */
  for (unsigned i = 0; i < 60; i++) {
    tick (CLUSTER_TICK_MS);
    said (0);
  }
  all_are (false);
  /* Nobody's silence alone is recorded as a loss. */
  assert (state (0) == MEMBER_IN_SYNC);
  assert (strcmp (cluster_array_state (array ()), "failed") == 0);
}

/* An old database: members know more than it does. */
static void
test_old_database (void)
{
  static struct cluster_record old[RECORDS_MAX];
  size_t old_count;
  struct disk ahead;

  healthy ();
  memcpy (old, weftd.store, sizeof old);
  old_count = weftd.stored;

  /* More epochs pass; then the old database is put back. */
  report_lost (writer, 1);
  UNTIL (world.disk[0].states_epoch == writer->epoch);
  memcpy (weftd.store, old, sizeof old);
  weftd.stored = old_count;
  reincarnate ();
  expect_refused (beat (&world.disk[0]), CLUSTER_UNAVAILABLE, "doubted");
  assert (!cluster_read_only (engine) && says ("node n1"));
  expect_refused (beat (&world.disk[2]), CLUSTER_UNAVAILABLE, "read-only");
  assert (cluster_read_only (engine));
  assert (verdict () == CLUSTER_ERROR && says ("backup"));
  host_attach (other);
  expect_refused (said (other->op), CLUSTER_UNAVAILABLE, "read-only");
  delete_array ("no such array");

  /* The same by generation, and by min_epoch; one ahead is a restart. */
  for (unsigned i = 0; i < 3; i++) {
    healthy ();
    reincarnate ();
    for (unsigned m = 0; m < 2; m++) {
      ahead = world.disk[m];
      if (i == 0)
        ahead.generation += 5;
      else
        ahead.min_epoch += i;
      beat (&ahead);
      assert ((cluster_read_only (engine) != NULL) == (i != 1 && m == 1));
    }
  }

  /* But an epoch that no array ever reaches shows that the disk lies. */
  healthy ();
  ahead = world.disk[0];
  ahead.uuid[0] ^= 0x80;
  memset (ahead.array, 0, 16);
  ahead.min_epoch = EPOCH_MAX / 2;
  expect_refused (beat (&ahead), CLUSTER_INVALID, "nonsense");
  assert (cluster_disk_find (engine, ahead.uuid) == NULL);

  /* And by a host and a disk of another node. */
  healthy ();
  writer->epoch += 3;
  reincarnate ();
  host_beat (writer);
  expect_refused (said (writer->beat_op), CLUSTER_UNAVAILABLE, "doubted");
  ahead = world.disk[0];
  ahead.generation += 5;
  expect_refused (beat (&ahead), CLUSTER_UNAVAILABLE, "read-only");
}

/* Each start of weftd is one more generation, and must be one. */
static void
test_last_generation (void)
{
  struct cluster_record r = { .kind = CLUSTER_RECORD_IDENTITY };
  struct cluster *c;
  char why[256];

  for (unsigned i = 0; i < 2; i++) {
    struct cluster_input in = input (0);

    r.identity.uuid[0] = 1;
    r.identity.generation = GENERATION_MAX - 1 + i;
    c = cluster_new ();
    assert (cluster_load (c, &r, why, sizeof why) == 0);
    assert (cluster_start (c, &in, why, sizeof why) == (i ? -1 : 0));
    assert (cluster_identity (c)->generation == GENERATION_MAX);
    cluster_free (c);
  }
}

static void
expect_plan_refused (const struct cluster_create *create, const char *code,
                     const char *field)
{
  static struct cluster_array a;
  struct cluster_problem p;

  assert (cluster_array_plan (engine, create, &a, &p) == -1);
  assert (strcmp (p.code, code) == 0);
  assert (strcmp (p.field, field) == 0);
  assert (strlen (p.detail) > 20);
}

/* It is like the good one, but for this. */
#define BUT(change, code, field)                                               \
  (bad = good, change, expect_plan_refused (&bad, code, field))

static void
test_plan (void)
{
  struct cluster_create good, bad;
  static struct cluster_array a;
  struct cluster_problem p;

  world_init (5);
  for (unsigned i = 0; i < MEMBERS; i++)
    beat (&world.disk[i]);
  good = create_of ("a", LAYOUT_RAIDX, 0, MEMBERS);
  assert (cluster_array_plan (engine, &good, &a, &p) == 0);
  assert (a.layout.size > 0 && array () == NULL);

  BUT (bad.groups = 3, "groups", "groups");
  BUT (bad.dup = DUP_SYNC_CLIENT, "dup", "dup");
  BUT (memset (bad.disk[2], 77, 16), "unknown-disk", "disks");
  BUT (memcpy (bad.disk[2], bad.disk[1], 16), "same-disk", "disks");
  BUT (bad.members = 2, "layout", "layout");
  BUT (bad.unit = 5000, "layout", "layout");
  /* A disk larger than any counts as the largest. */
  cluster_disk_find (engine, good.disk[0])->rec.data_bytes = INT64_MAX;
  bad = good;
  bad.layout = LAYOUT_RAID0;
  bad.members = 1;
  assert (cluster_array_plan (engine, &bad, &a, &p) == 0);
  assert (a.rec.member_bytes <= MEMBER_DATA_BYTES_MAX);
  make_array_of (LAYOUT_RAIDX);
  expect_plan_refused (&good, "exists", "name");
  snprintf (good.name, sizeof good.name, "b");
  expect_plan_refused (&good, "in-use", "disks");
}

/* Ended sessions are kept so that their clients hear of it, but in bounded number. */
static void
test_ended_sessions (void)
{
  struct cluster_session *s;
  unsigned ended = 0;

  healthy ();
  for (unsigned i = 0; i < 200; i++) {
    detach (writer);
    come_again (writer);
    snprintf (writer->instance, 16, "again%u", i);
    attach_until_granted (writer);
  }
  TAILQ_FOREACH (s, cluster_sessions (engine), link)
    ended += s->rec.ended;
  assert (ended == 128);
}

static void
test_verdicts (void)
{
  char text[2048];

  world_init (6);
  assert (verdict () == CLUSTER_INFO && says ("No disk"));
  make_array_of (LAYOUT_RAIDX);
  assert (verdict () == CLUSTER_INFO && says ("All is well"));
  attach_until_granted (writer);
  report_lost (writer, 1);
  assert (verdict () == CLUSTER_WARNING);
  assert (says ("degraded") && says ("member 1"));
  /* The last copy is not left out: the array stops. */
  refuse_loss (writer, 2, CLUSTER_CONFLICT, "last-copy");
  assert (state (2) == MEMBER_IN_SYNC);
  assert (verdict () == CLUSTER_ERROR && says ("has stopped"));
  /* However little room there is, it is text. */
  for (size_t size = 1; size < 400; size++) {
    memset (text, 'x', sizeof text);
    cluster_verdict (engine, text, size);
    assert (strlen (text) < size);
  }
}

int
main (void)
{
  test_last_generation ();
  test_plan ();
  test_foreign ();
  test_double_use ();
  test_double_use_and_a_late_answer ();
  test_silence ();
  test_starting ();
  test_same ();
  test_no_bytes ();
  test_pause ();
  test_old_database ();
  test_ended_sessions ();
  test_verdicts ();
  return 0;
}
