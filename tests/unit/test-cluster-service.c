/* test-cluster-service.c: a served array: which session serves, which stands by, and
 * which acknowledged data of a dead server still exists.
 */

#include <config.h>

#include "test-cluster-world.h"

static struct cluster_service
service_of (const char *first, const char *second, const char *third)
{
  const char *nodes[] = { first, second, third };
  struct cluster_service s = { .nodes = 0 };

  for (unsigned i = 0; i < 3 && nodes[i]; i++)
    snprintf (s.node[s.nodes++], NAME_BYTES_MAX + 1, "%s", nodes[i]);
  return s;
}

/* Array "a" has a service of its hosts' nodes; none asks for it yet. */
static void
set_service (void)
{
  struct cluster_service s = service_of (writer->node, other->node,
                                         reader->node);

  ASK (cluster_service_set (engine, in, "a", &s));
  assert (world.answer.kind == CLUSTER_REPLY_ARRAY);
  writer->writable = other->writable = reader->writable = true;
  live ();
}

static void
begin_service_of (enum layout_kind layout)
{
  begin_array_of (layout);
  set_service ();
}

static bool
stands_by (const struct host *h)
{
  return cluster_service_stands_by (engine, array (),
                                    cluster_candidate_find (array (), h->node));
}

/* The first serves, the second stands by. */
static void
served_of (enum layout_kind layout)
{
  begin_service_of (layout);
  writer->service = other->service = true;
  UNTIL (writer->attached && stands_by (other));
  live_on (SERVICE_SETTLE_MS / CLUSTER_TICK_MS);
  assert (!other->attached && !stands_by (writer) && !stands_by (reader));
  assert (session (writer)->rec.service);
}

static void
served (void)
{
  served_of (LAYOUT_RAIDX);
}

/* The first stops answering, and the second serves; how long that took. */
static uint64_t
fail_over (void)
{
  uint64_t begin = weftd.now_ms;

  fall_silent (writer);
  UNTIL (other->attached);
  assert (session (writer)->rec.ended);
  return weftd.now_ms - begin;
}

/* ---- Who serves. ---- */

static void
test_failover (void)
{
  uint64_t ms;

  served ();
  live_on (60); /* nobody else comes to serve meanwhile */
  assert (!other->attached && writer->attached);
  ms = fail_over ();
  assert (ms >= SESSION_TTL_MS - 1000 && ms <= SESSION_TTL_MS + 1000);
  /* It wakes up, hears that it is over, and stands by. */
  writer->alive = true;
  UNTIL (writer->over);
  UNTIL (stands_by (writer));
  assert (other->attached && !writer->attached);
}

/* weftd hears neither the server nor the standby, so weftd may be cut off itself.  Then
 * it hears the standby again, and, if `comes`, the server.
 */
static void
test_weftd_cut_off (bool comes)
{
  uint64_t begin;

  served ();
  fall_silent (writer);
  fall_silent (other);
  live_on (80);
  other->alive = true;
  begin = weftd.now_ms;
  live_on (32); /* 8 s */
  assert (!session (writer)->alive && stands_by (other));
  assert (!session (writer)->rec.ended && !other->attached);
  writer->alive = comes;
  if (comes) {
    live_on (60);
    assert (writer->attached && !writer->over && !other->attached);
    return;
  }
  UNTIL (other->attached);
  assert (weftd.now_ms - begin < SESSION_TTL_MS + 1000);
}

/* A process that was started meanwhile does not show that weftd was cut off. */
static void
test_started_meanwhile (void)
{
  uint64_t begin;

  served ();
  fall_silent (writer);
  fall_silent (other);
  live_on (80);
  come_again (other);
  snprintf (other->instance, 16, "h1 again");
  begin = weftd.now_ms;
  UNTIL (other->attached);
  assert (weftd.now_ms - begin <= SERVICE_SETTLE_MS + 1000);
}

/* The store lags all the time.  A session that waits for an answer is not silent, however
 * long it takes; a silent one is replaced anyway.
 */
static void
test_store_behind (void)
{
  struct disk clone;

  served ();
  world.behind = 2 * SESSION_TTL_MS / CLUSTER_TICK_MS;
  for (unsigned i = 0; i < 3 * world.behind; i++) {
    live ();
    assert (session (writer)->alive);
    for (unsigned m = 0; m < MEMBERS; m++)
      assert (known (m)->alive);
  }

  /* No other process gets a disk before the known one was asked. */
  clone = world.disk[1];
  snprintf (clone.instance, sizeof clone.instance, "clone");
  disk_beat (&clone, 1000);
  live_on (2 * world.behind);
  assert (strcmp (known (1)->instance, "d1") == 0);
  assert (known (1)->rival.since_live_ms == 0);

  world.behind = 4;
  live_on (60);
  assert (fail_over () <= SESSION_TTL_MS + 10000);
}

/* Its own node says that the process has ended; it may serve again itself. */
static void
test_ended (void)
{
  uint64_t begin, session_was;

  served ();
  other->service = false;
  live_on (30);
  assert (!stands_by (other));
  begin = weftd.now_ms;
  session_was = writer->session;
  fall_silent (writer);
  come_again (writer);
  writer->attached = false;
  snprintf (writer->instance, 16, "h0 again");
  writer->ended = session_was;
  UNTIL (writer->attached);
  assert (writer->session != session_was);
  assert (weftd.now_ms - begin <= 4000);
}

/* Another node's word about it is not believed. */
static void
test_ended_elsewhere (void)
{
  uint64_t begin;

  served ();
  other->ended = writer->session;
  begin = weftd.now_ms;
  fall_silent (writer);
  UNTIL (other->attached);
  assert (weftd.now_ms - begin >= SESSION_TTL_MS - 1000);
}

/* After the server has detached, the takeover waits for no clock. */
static void
test_detach (void)
{
  uint64_t begin;

  served ();
  begin = weftd.now_ms;
  detach (writer);
  UNTIL (other->attached);
  assert (weftd.now_ms - begin <= 1000);
  assert (rec ()->lapse == 0);
}

static void
test_move (void)
{
  uint64_t begin;

  served ();
  REFUSED (CLUSTER_CONFLICT, "no-standby",
           cluster_service_move (engine, in, "a", reader->node));
  REFUSED (CLUSTER_CONFLICT, "no-candidate",
           cluster_service_move (engine, in, "a", "n1"));
  REFUSED (CLUSTER_NOT_FOUND, "unknown-array",
           cluster_service_move (engine, in, "b", reader->node));
  ASK (cluster_service_move (engine, in, "a", writer->node));
  assert (world.answer.kind == CLUSTER_REPLY_ARRAY);
  live_on (30);
  assert (writer->attached);
  reader->service = true;
  UNTIL (stands_by (reader));
  /* Not to the one that is next in the list. */
  begin = weftd.now_ms;
  CALL (++weftd.op, cluster_service_move (engine, in, "a", reader->node));
  UNTIL (reader->attached);
  assert (weftd.now_ms - begin <= 2000 && !writer->attached);
  assert (rec ()->lapse == 0);
  live_on (60);
  assert (reader->attached && stands_by (writer) && stands_by (other));
}

/* The order stands while a member is just missing that is waited for. */
static void
test_move_refused (void)
{
  served ();
  reader->service = true;
  UNTIL (stands_by (reader));
  cut_off (1);
  live_on (MEMBER_TTL_MS / CLUSTER_TICK_MS + 2);
  CALL (++weftd.op, cluster_service_move (engine, in, "a", reader->node));
  UNTIL (!writer->attached);
  live_on (8);
  assert (!reader->attached && !other->attached);
  reader->service = false; /* it asks again in a moment */
  heard_again (1);
  live_on (4);
  assert (!other->attached);
  reader->service = true;
  UNTIL (reader->attached);
  assert (!other->attached && !array ()->service_to[0]);
}

/* ---- Clients that do not reach the process that serves. ---- */

static struct host *
serving (void)
{
  return writer->attached ? writer : other->attached ? other : reader;
}

static void
hears (const char *client, bool reached)
{
  CALL (0, cluster_service_heard (engine, in, "a", client,
                                  session (serving ())->rec.id, reached));
}

/* This client does not reach the process that serves, for as long as it stays. */
static void
unreached_for (const char *client, uint64_t ms)
{
  const struct host *was = serving ();

  for (uint64_t end = weftd.now_ms + ms; weftd.now_ms < end && was->attached;) {
    hears (client, false);
    live_on (4);
  }
}

static bool
waits_for (const char *part)
{
  char text[700];

  return cluster_reach_words (engine, array (), text, sizeof text) &&
         strstr (text, part);
}

/* It moves once, to where nobody is known to wait; and not back for the same client. */
static void
test_unreached (void)
{
  served ();
  hears ("c0", true);
  unreached_for ("c0", SERVICE_UNREACHED_MS - 500);
  assert (writer->attached && !waits_for (""));
  unreached_for ("c0", 4000);
  assert (!writer->attached);
  UNTIL (other->attached);
  assert (rec ()->lapse == 0 && !waits_for (""));
  /* The next node is not reached either: the first stands by, and is no better. */
  UNTIL (stands_by (writer));
  unreached_for ("c0", SERVICE_REST_MS_MIN + 5000);
  assert (other->attached && waits_for ("Node c0 does not reach node"));
  assert (waits_for ("is no better"));
  hears ("c0", true);
  assert (!waits_for (""));
  /* Nobody has had trouble with it for long: now it is as good as another. */
  live_on (SERVICE_MISSED_MS / CLUSTER_TICK_MS);
  unreached_for ("c0", SERVICE_UNREACHED_MS + 2000);
  UNTIL (writer->attached);
}

/* Reports about a process that has ended or is silent, and reports of clients that were
 * not heard since, move nothing.
 */
static void
test_unreached_stale (void)
{
  uint64_t id;

  served ();
  id = session (writer)->rec.id;
  hears ("c0", false);
  live_on ((STANDBY_MS + SERVICE_UNREACHED_MS) / CLUSTER_TICK_MS);
  hears ("c0", false);
  live_on (1);
  assert (writer->attached && !waits_for (""));
  fail_over ();
  for (unsigned i = 0; i < 12; i++) {
    CALL (0, cluster_service_heard (engine, in, "a", "c0", id, false));
    live_on (2);
  }
  assert (other->attached && !waits_for (""));
  CALL (0, cluster_service_heard (engine, in, "b", "c0", id, false));
}

/* Why it stays where it is. */
static void
test_unreached_stays (void)
{
  served ();
  other->service = false;
  live_on (STANDBY_MS / CLUSTER_TICK_MS + 2);
  unreached_for ("c0", SERVICE_UNREACHED_MS + 2000);
  assert (writer->attached && waits_for ("No other node stands by"));
  cut_off (1);
  live_on (MEMBER_TTL_MS / CLUSTER_TICK_MS + 2);
  other->service = true;
  UNTIL (stands_by (other));
  unreached_for ("c0", SERVICE_UNREACHED_MS + 2000);
  assert (writer->attached && !array ()->service_to[0]);
  assert (waits_for ("when all members of the array are heard"));
  heard_again (1);
  unreached_for ("c0", 4000);
  UNTIL (other->attached);
}

/* Two clients never agree on a node: each move waits for twice as long as the last. */
static void
test_unreached_damped (void)
{
  uint64_t last = 0, rest = 0;
  unsigned moves = 0;
  char client[16];

  served ();
  for (unsigned i = 0; moves < 4; i++) {
    const struct host *was = serving ();

    assert (i < 20000);
    /* One after the other, each a client that has said nothing yet. */
    snprintf (client, sizeof client, "c%u", moves);
    hears (client, false);
    live_on (4);
    if (was->attached)
      continue;
    UNTIL (serving () != was && serving ()->attached);
    UNTIL (stands_by (was));
    for (unsigned j = 0; j < SERVICE_UNREACHED_MAX; j++)
      array ()->unreached[j].client[0] = '\0';
    if (moves++ > 0)
      assert (weftd.now_ms - last >= rest);
    last = weftd.now_ms;
    rest = rest ? 2 * rest : SERVICE_REST_MS_MIN - 5000;
  }
  assert (array ()->reach_rest_ms == 8 * SERVICE_REST_MS_MIN);
}

/* A server with fewer waiting clients is better; the server is chosen by that, too. */
static void
test_unreached_fewer (void)
{
  served ();
  reader->service = true;
  UNTIL (stands_by (reader));
  unreached_for ("c0", SERVICE_UNREACHED_MS + 2000);
  UNTIL (other->attached);
  fall_silent (other);
  /* The first in the list was not reached by a client. */
  UNTIL (reader->attached);
  assert (!writer->attached);
}

/* An order to move that nobody follows is forgotten. */
static void
test_move_forgotten (void)
{
  served ();
  writer->service = false; /* it does not obey */
  CALL (++weftd.op, cluster_service_move (engine, in, "a", other->node));
  assert (cluster_candidate_leaves (engine, array (), session (writer)));
  live_on (SERVICE_MOVE_MS / CLUSTER_TICK_MS + 4);
  assert (stands_by (other));
  assert (!cluster_candidate_leaves (engine, array (), session (writer)));
}

/* The server is no longer a candidate: it leaves when another stands by. */
static void
test_no_candidate_any_more (void)
{
  struct cluster_service s = service_of (other->node, NULL, NULL);

  served ();
  other->service = false;
  live_on (30);
  CALL (++weftd.op, cluster_service_set (engine, in, "a", &s));
  live_on (30);
  assert (writer->attached);
  other->service = true;
  UNTIL (other->attached);
  assert (!writer->attached);
}

/* At the start: the first that comes waits for better ones, but not for long. */
static void
test_settle (void)
{
  uint64_t begin;

  begin_service_of (LAYOUT_RAIDX);
  reader->service = true;
  live_on (4);
  other->service = true;
  live_on (2);
  assert (!reader->attached && !other->attached);
  writer->service = true;
  UNTIL (writer->attached);
  assert (!reader->attached && !other->attached);

  begin_service_of (LAYOUT_RAIDX);
  reader->service = true;
  begin = weftd.now_ms;
  UNTIL (reader->attached);
  assert (weftd.now_ms - begin >= SERVICE_SETTLE_MS &&
          weftd.now_ms - begin <= SERVICE_SETTLE_MS + 2000);
}

/* A node with a member comes after those without one, one in maintenance last. */
static void
test_rank (void)
{
  begin_array ();
  snprintf (writer->node, sizeof writer->node, "n1");
  set_service ();
  writer->service = other->service = reader->service = true;
  UNTIL (other->attached);
  fall_silent (other);
  UNTIL (reader->attached);
  fall_silent (reader);
  UNTIL (writer->attached);

  begin_array ();
  snprintf (writer->node, sizeof writer->node, "n1");
  set_service ();
  for (unsigned i = 1; i < 3; i++) {
    ASK (cluster_node_add (engine, in, world.host[i].node));
    ASK (cluster_node_maintain (engine, in, world.host[i].node, true, false));
  }
  writer->service = other->service = reader->service = true;
  UNTIL (writer->attached);
}

static void
test_refusals (void)
{
  begin_array ();
  writer->service = true;
  assert (strcmp (attach_refusal (writer), "no-service") == 0);
  writer->service = false;
  set_service ();
  assert (strcmp (attach_refusal (writer), "served") == 0);
  writer->takeover = true; /* an administrator may */
  attach_until_granted (writer);
  assert (!session (writer)->rec.service);
  /* The candidates wait until it is done. */
  other->service = true;
  UNTIL (stands_by (other));
  live_on (80);
  assert (writer->attached && !other->attached);
  detach (writer);
  UNTIL (other->attached);

  snprintf (reader->node, sizeof reader->node, "elsewhere");
  reader->service = true;
  assert (strcmp (attach_refusal (reader), "no-candidate") == 0);
  reader->service = reader->writable = false; /* readers are admitted as
                                               * before */
  attach_until_granted (reader);
}

static void
test_drop (void)
{
  served ();
  other->service = false;
  host_attach (other);
  live_on (2);
  CALL (++weftd.op, cluster_service_drop (engine, in, "a"));
  UNTIL (!writer->attached);
  assert (rec ()->service_nodes == 0 && rec ()->lapse == 0);
  writer->service = false;
  REFUSED (CLUSTER_CONFLICT, "no-service",
           cluster_service_drop (engine, in, "a"));
  REFUSED (CLUSTER_NOT_FOUND, "unknown-array",
           cluster_service_drop (engine, in, "b"));
  writer->service = true;
  assert (strcmp (attach_refusal (writer), "no-service") == 0);
}

/* A standby hears when the array is deleted. */
static void
test_deleted (void)
{
  served ();
  writer->service = false;
  detach (writer);
  UNTIL (other->attached);
  reader->service = true;
  UNTIL (reader->op != 0);
  other->service = false;
  detach (other);
  live ();
  reader->service = false;
  delete_array ("a");
  assert (!reader->attached || reader->over);
}

/* The server and the standby are on a node that is shut out. */
static void
test_shut_out (void)
{
  begin_array ();
  snprintf (other->node, sizeof other->node, "%s", writer->node);
  set_service ();
  writer->service = other->service = true;
  UNTIL (writer->attached && other->op != 0);
  other->service = false;
  CALL (++weftd.op, cluster_node_shut_out (engine, in, writer->node, "kim"));
  carry_out ();
  assert (session (writer)->rec.ended && !other->attached);
  assert (other->op == 0 && strcmp (other->code, "shut-out") == 0);
}

/* ---- A node is fenced. ---- */

static bool
fence_answered (uint64_t op)
{
  return world.admin_op != op;
}

/* Ask for it; the answer is world.admin. */
static uint64_t
fence (const char *node)
{
  uint64_t op = ++weftd.op;

  CALL (world.admin_op = op,
        cluster_node_fence (engine, in, node, true, "kim"));
  carry_out ();
  return op;
}

static void
unfence (const char *node)
{
  CALL (++weftd.op, cluster_node_fence (engine, in, node, false, "kim"));
  carry_out ();
}

static uint64_t
below (const char *node)
{
  return cluster_node_fenced_below (cluster_node_find (engine, node));
}

/* Fencing a node with clients of a service waits until the server has confirmed it. */
static void
test_fence_clients (void)
{
  uint64_t op, first;

  served ();
  REFUSED (CLUSTER_NOT_FOUND, "unknown-node",
           cluster_node_fence (engine, in, "n99", true, "kim"));
  CALL (0, cluster_node_asks (engine, in, "c0")); /* nobody has enrolled it */
  writer->busy = true;
  op = fence ("c0");
  live_on (20);
  assert (!fence_answered (op) && below ("c0") == EPOCH_MAX);
  writer->busy = false;
  UNTIL (fence_answered (op));
  assert (world.admin.kind == CLUSTER_REPLY_NODE);
  assert (writer->fences == cluster_fence_number (engine) && writer->attached);
  first = cluster_fence_number (engine);
  /* Once more: it is so already. */
  op = fence ("c0");
  UNTIL (fence_answered (op));
  assert (world.admin.kind == CLUSTER_REPLY_NODE);
  assert (cluster_fence_number (engine) == first);
  unfence ("c0");
  /* Clients that were started before stay out; the server hears so. */
  assert (below ("c0") == cluster_fence_number (engine) &&
          below ("c0") > first);
  UNTIL (writer->fences == cluster_fence_number (engine));
  first = cluster_fence_number (engine);
  op = fence ("c0");
  UNTIL (fence_answered (op));
  assert (cluster_fence_number (engine) > first);
  /* The next server knows it from the beginning, and weftd after a start. */
  fall_silent (writer);
  reincarnate ();
  UNTIL (other->attached);
  assert (other->fences > first && below ("c0") == EPOCH_MAX);
}

/* A process that confirms a higher number than weftd has given confirms nothing.  The
 * session of a fenced node is not admitted, whatever numbers it reports.
 */
static void
test_fence_lies (void)
{
  static const size_t numbers[] = {
    offsetof (struct cluster_session_heartbeat, epoch),
    offsetof (struct cluster_session_heartbeat, arrived),
    offsetof (struct cluster_session_heartbeat, prepared),
    offsetof (struct cluster_session_heartbeat, round),
    offsetof (struct cluster_session_heartbeat, round_entered),
    offsetof (struct cluster_session_heartbeat, fences),
    offsetof (struct cluster_session_heartbeat, order),
  };
  struct cluster_session_heartbeat hb;
  uint64_t op, lies[6], session;

  served ();
  ASK (cluster_node_add (engine, in, "c0"));
  writer->busy = true;
  op = fence ("c0");
  lies[0] = cluster_fence_number (engine) + 1;
  lies[1] = EPOCH_MAX - 1;
  lies[2] = EPOCH_MAX;
  lies[3] = INT64_MAX;
  lies[4] = UINT64_MAX - 1;
  lies[5] = UINT64_MAX;
  for (unsigned i = 0; i < 6; i++) {
    writer->fences = lies[i];
    live_on (3);
    assert (!fence_answered (op));
  }
  writer->fences = cluster_fence_number (engine) - 1;
  writer->busy = false;
  UNTIL (fence_answered (op));
  assert (world.admin.kind == CLUSTER_REPLY_NODE);

  session = writer->session;
  ASK (cluster_node_add (engine, in, writer->node));
  op = fence (writer->node);
  for (unsigned n = 0; n < sizeof numbers / sizeof numbers[0]; n++)
    for (unsigned i = 0; i < 6; i++) {
      memset (&hb, 0, sizeof hb);
      snprintf (hb.instance, sizeof hb.instance, "%s", writer->instance);
      hb.epoch = writer->epoch;
      memcpy ((char *) &hb + numbers[n], &lies[i], sizeof lies[i]);
      ASK (cluster_session_heartbeat (engine, in, session, &hb));
      assert (world.answer.kind == CLUSTER_REPLY_PROBLEM);
      ASK (cluster_session_heartbeat (engine, in, lies[i], &hb));
      assert (world.answer.kind == CLUSTER_REPLY_PROBLEM);
    }
  UNTIL (fence_answered (op));
}

/* No server confirms the fence: the answer says so, and is not a success. */
static void
test_fence_unconfirmed (void)
{
  uint64_t op;

  served ();
  ASK (cluster_node_add (engine, in, "c0"));
  writer->busy = true;
  op = fence ("c0");
  UNTIL (fence_answered (op));
  assert (world.admin.kind == CLUSTER_REPLY_PROBLEM);
  assert (strcmp (world.admin.problem.code, "changing") == 0);
  assert (world.admin.problem.retry);
  /* A server that is silent loses its session by that. */
  other->service = false;
  live_on (30);
  fall_silent (writer);
  live_on (60);
  assert (!session (writer)->rec.ended);
  op = fence ("c0");
  UNTIL (fence_answered (op));
  assert (world.admin.kind == CLUSTER_REPLY_NODE);
  assert (session (writer)->rec.ended);
  /* Let in again meanwhile. */
  other->service = true;
  UNTIL (other->attached);
  other->busy = true;
  unfence ("c0");
  op = fence ("c0");
  live_on (2);
  unfence ("c0");
  UNTIL (fence_answered (op));
  assert (strcmp (world.admin.problem.code, "not-fenced") == 0);
}

/* A node that serves, and others on it that want an array: members confirm. */
static void
test_fence_sessions (void)
{
  uint64_t op, epoch;

  served ();
  epoch = rec ()->epoch;
  cut_off (2);
  op = fence (writer->node);
  live_on (8);
  assert (!fence_answered (op) && session (writer)->rec.ended);
  heard_again (2);
  UNTIL (fence_answered (op));
  assert (world.admin.kind == CLUSTER_REPLY_NODE && rec ()->epoch > epoch);
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (world.disk[m].min_epoch > epoch);
  UNTIL (other->attached);
  writer->attached = writer->service = false;
  assert (strcmp (attach_refusal (writer), "fenced") == 0);
  unfence (writer->node);
  writer->service = true;
  UNTIL (stands_by (writer));
  op = fence (writer->node);
  assert (writer->op == 0 && strcmp (writer->code, "fenced") == 0);
}

/* A member reports a number that only a newer weftd can have given, so its word does not
 * count and is not waited for.  But it confirms before another session is admitted.
 */
static void
test_fence_doubted (void)
{
  struct disk *d = &world.disk[2];
  uint64_t op, epoch;

  served ();
  epoch = rec ()->epoch;
  d->generation += 2; /* the next weftd's is one more */
  reincarnate ();
  UNTIL (array ()->disk[2]->doubt.kind == CLUSTER_DOUBT_OPEN);
  live_on (8);
  assert (!session (writer)->rec.ended);
  op = fence (writer->node);
  UNTIL (fence_answered (op));
  assert (world.admin.kind == CLUSTER_REPLY_NODE);
  assert (session (writer)->rec.ended && d->min_epoch <= epoch);
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (m == 2 || world.disk[m].min_epoch > epoch);
  live_on (20);
  assert (!other->attached);
  d->generation -= 2;
  UNTIL (other->attached);
  assert (d->min_epoch > epoch);
}

/* So many sessions have ended with it that not all are kept: but this one is, until
 * members have confirmed that.
 */
static void
test_fence_many_sessions (void)
{
  struct cluster_session *s;
  uint64_t op;

  served ();
  other->service = false;
  cut_off (2);
  op = fence (writer->node);
  assert (session (writer)->rec.ended);
  for (unsigned i = 0; i < ENDED_SESSIONS_MAX; i++) {
    s = alloc_zeroed (sizeof *s);
    s->rec = session (writer)->rec;
    s->rec.id = 1000 + i;
    s->rec.writable = false;
    s->ended_live_ms = session (writer)->ended_live_ms + 1;
    cluster_session_insert (engine, s);
  }
  live_on (8);
  assert (session (writer) && !fence_answered (op));
  heard_again (2);
  UNTIL (fence_answered (op));
  assert (world.admin.kind == CLUSTER_REPLY_NODE);
}

/* An ended server may still send requests for clients on the node until members have
 * confirmed its end.  It was cut off when the node was fenced, or was replaced just
 * before.
 */
static void
test_fence_beside_a_server (bool replaced)
{
  uint64_t op, epoch;

  served ();
  epoch = rec ()->epoch;
  ASK (cluster_node_add (engine, in, "c0"));
  other->service = replaced;
  fall_silent (writer);
  if (replaced) {
    live_on (36);
    cut_off (2);
    UNTIL (session (writer)->rec.ended);
    assert (!other->attached);
  }
  else {
    live_on (60);
    cut_off (2);
  }
  op = fence ("c0");
  live_on (8);
  assert (!fence_answered (op) && session (writer)->rec.ended);
  heard_again (2);
  UNTIL (fence_answered (op));
  assert (world.admin.kind == CLUSTER_REPLY_NODE);
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (world.disk[m].min_epoch > epoch);
}

/* A session that exports the array to other hosts serves clients on the node as well, so
 * the fence waits for it, even after a restart of weftd.  A session that does not export
 * is not waited for.
 */
static void
test_fence_exports (void)
{
  uint64_t op;

  begin_array_of (LAYOUT_RAIDX);
  writer->writable = writer->exports = true;
  host_attach (writer);
  UNTIL (writer->attached);
  host_attach (reader);
  UNTIL (reader->attached);
  ASK (cluster_node_add (engine, in, "c0"));
  writer->busy = reader->busy = true;
  op = fence ("c0");
  live_on (20);
  assert (!fence_answered (op));
  assert (writer->hears == cluster_fence_number (engine));
  writer->busy = false;
  UNTIL (fence_answered (op));
  assert (world.admin.kind == CLUSTER_REPLY_NODE && writer->attached);
  unfence ("c0");
  reincarnate ();
  UNTIL (writer->fences == cluster_fence_number (engine));
  assert (session (writer)->rec.exports);
  writer->busy = true;
  op = fence ("c0");
  live_on (20);
  assert (!fence_answered (op));
  /* A silent session confirms nothing: it ends. */
  writer->alive = false;
  UNTIL (fence_answered (op));
  assert (strcmp (world.admin.problem.code, "changing") == 0);
  op = fence ("c0");
  UNTIL (fence_answered (op));
  assert (world.admin.kind == CLUSTER_REPLY_NODE);
  assert (session (writer)->rec.ended && reader->attached);
}

/* The number of its fence outlives the node's removal. */
static void
test_fence_removed (void)
{
  uint64_t op, number;

  served ();
  ASK (cluster_node_add (engine, in, "c0"));
  op = fence ("c0");
  UNTIL (fence_answered (op));
  REFUSED (CLUSTER_CONFLICT, "fenced", cluster_node_remove (engine, in, "c0"));
  unfence ("c0");
  number = below ("c0");
  ASK (cluster_node_remove (engine, in, "c0"));
  assert (world.answer.kind == CLUSTER_REPLY_DONE);
  assert (!cluster_node_known (engine, "c0") && below ("c0") == number);
  REFUSED (CLUSTER_NOT_FOUND, "unknown-node",
           cluster_node_fence (engine, in, "c0", true, "kim"));
  reincarnate ();
  assert (!cluster_node_known (engine, "c0") && below ("c0") == number);
  assert (cluster_fence_number (engine) == number);
  UNTIL (writer->fences == number); /* it takes changes again */
  live_on (30);
  ASK (cluster_node_add (engine, in, "c0"));
  assert (cluster_node_known (engine, "c0") && below ("c0") == number);
  /* A node that was never fenced leaves no record. */
  ASK (cluster_node_add (engine, in, "c1"));
  ASK (cluster_node_remove (engine, in, "c1"));
  assert (cluster_node_find (engine, "c1") == NULL);
}

/* ---- What was answered. ---- */

static void
test_kept (void)
{
  served ();
  fail_over ();
  assert (rec ()->lapse == 0);
  assert (rec ()->writer_epoch == session (other)->rec.epoch);
}

/* A member was started again, and what it had not flushed may be gone. */
static void
test_member_started_again (void)
{
  served ();
  fall_silent (writer);
  live_on (36);
  start_again (1);
  UNTIL (other->attached);
  assert (state (1) == MEMBER_IN_SYNC);
  assert (rec ()->lapse == rec ()->epoch);
}

/* A member was lost together with the server: the writer may have had its images
 * alone. */
static void
test_member_lost (enum array_dup dup)
{
  served_of (dup == DUP_SYNC_CLIENT ? LAYOUT_RAID10 : LAYOUT_RAIDX);
  array ()->rec.dup = dup;
  cut_off (1);
  fail_over ();
  assert (state (1) == MEMBER_OUT);
  assert (rec ()->lapse == (dup == DUP_SYNC_CLIENT ? 0 : rec ()->epoch));
}

/* Or before that: until the writer has prepared itself for a later change. */
static void
test_member_lost_before (bool back)
{
  served ();
  world.disk[1].slow = true;
  die (1);
  assert (rec ()->risky && rec ()->lapse == 0);
  heard_again (1);
  UNTIL (state (1) == MEMBER_JOINING);
  if (back) {
    world.disk[1].slow = false;
    UNTIL (state (1) == MEMBER_IN_SYNC);
    live_on (4);
  }
  fail_over ();
  assert (rec ()->lapse == (back ? 0 : other->epoch));
  /* That loss is in the past: the present server has lost nothing. */
  assert (!rec ()->risky);
}

/* A last copy has lapsed while the server lives: it may not get to tell of it. */
static void
test_lapsed_before (void)
{
  uint64_t epoch;

  served_of (LAYOUT_RAID0);
  epoch = rec ()->epoch;
  start_again (1);
  UNTIL (rec ()->epoch > epoch && rec ()->change.epoch == 0);
  assert (rec ()->lapse == rec ()->epoch);
  assert (member (1)->lapse == rec ()->lapse);
  epoch = rec ()->lapse;
  live_on (8);
  fail_over ();
  assert (rec ()->lapse == epoch); /* no more was lost */
}

/* An eviction is not a detach: the process has not flushed. */
static void
test_evicted (void)
{
  served ();
  writer->alive = false;
  CALL (++weftd.op, cluster_session_evict (engine, in, writer->session, "kim"));
  carry_out ();
  assert (rec ()->writer_epoch != 0);
  start_again (2);
  UNTIL (other->attached);
  assert (rec ()->lapse == other->epoch);
}

/* A session that has detached has flushed, so nothing of it can be lost. */
static void
test_detached (void)
{
  served ();
  other->service = false;
  detach (writer);
  assert (rec ()->writer_epoch == 0);
  start_again (2);
  live_on (30);
  other->service = true;
  UNTIL (other->attached);
  assert (rec ()->lapse == 0);
}

/* Nobody is attached when a member goes out: so nobody was prepared for it, though
 * the change waits for all who are.
 */
static void
test_out_between (bool ordered)
{
  served ();
  other->service = false;
  live_on (30);
  writer->alive = false;
  CALL (++weftd.op, cluster_session_evict (engine, in, writer->session, "kim"));
  UNTIL (rec ()->change.epoch == 0);
  if (ordered)
    CALL (++weftd.op, cluster_node_shut_out (engine, in, "n2", "kim"));
  cut_off (1);
  live_on (80);
  other->service = true;
  UNTIL (other->attached);
  assert (state (1) == MEMBER_OUT && rec ()->lapse != 0);
}

/* weftd does not know any more whether the members are what they were. */
static void
test_weftd_restarted (void)
{
  served ();
  fall_silent (writer);
  reincarnate ();
  UNTIL (other->attached);
  assert (rec ()->lapse == other->epoch);
}

/* ---- ... and before the next server has resynchronized the copies.  ---- */

/* The first server has gone, and the second has not resynchronized the copies. */
static void
copying_of (enum array_dup dup)
{
  served_of (dup == DUP_SYNC_CLIENT ? LAYOUT_RAID10 : LAYOUT_RAIDX);
  array ()->rec.dup = dup;
  other->copying = true;
  fail_over ();
  live_on (8);
  assert (rec ()->unequal && rec ()->lapse == 0);
}

static void
copying (void)
{
  copying_of (DUP_ASYNC_CLIENT);
}

/* A member goes out, that it has lost, or in a change that it has prepared for. */
static void
test_copying_member_lost (enum array_dup dup, bool prepares)
{
  uint64_t epoch;

  copying_of (dup);
  epoch = rec ()->epoch;
  if (prepares)
    CALL (++weftd.op, cluster_node_shut_out (engine, in, "n2", "kim"));
  else {
    cut_off (1);
    report_lost (other, 1);
  }
  UNTIL (state (1) == MEMBER_OUT);
  assert (prepares == (rec ()->unprepared == 0));
  assert (dup == DUP_SYNC_CLIENT ? rec ()->lapse == 0 : rec ()->lapse > epoch);
  /* The next one has no more to tell. */
  epoch = rec ()->lapse;
  other->copying = false;
  UNTIL (!rec ()->unequal);
  assert (rec ()->lapse == epoch);
}

/* A member is started again, without what it had not flushed. */
static void
test_copying_member_again (void)
{
  uint64_t epoch;

  copying ();
  epoch = rec ()->epoch;
  start_again (1);
  UNTIL (state (1) != MEMBER_IN_SYNC);
  assert (rec ()->lapse > epoch);
}

/* When copies are in sync there is nothing to tell, as before. */
static void
test_equal (void)
{
  copying ();
  other->copying = false;
  UNTIL (!rec ()->unequal);
  cut_off (1);
  report_lost (other, 1);
  assert (rec ()->risky && rec ()->lapse == 0);
}

/* The newest copy of something can't be read: that is a lapse from before this writer on,
 * however often it says so, and known to it when it is stored.
 */
static void
test_older_said (void)
{
  uint64_t granted;

  copying ();
  granted = rec ()->writer_epoch;
  assert (rec ()->lapse < granted);
  UNTIL (other->beat_op == 0);
  other->older = true;
  host_beat (other);
  assert (stored_array_name ("a")->lapse < granted);
  live_on (3);
  assert (rec ()->lapse == granted &&
          stored_array_name ("a")->lapse == granted);
  other->copying = false;
  UNTIL (!rec ()->unequal);
  CALL (++weftd.op, cluster_node_shut_out (engine, in, "n2", "kim"));
  UNTIL (state (1) == MEMBER_OUT);
  live_on (5);
  assert (rec ()->epoch > granted && rec ()->lapse == granted);
}

/* The report that copies are in sync counts only when it is stored, and only if its
 * session has not ended.
 */
static void
test_equal_said (void)
{
  copying ();
  writer->alive = true;
  UNTIL (writer->over);
  live_on (8);
  assert (rec ()->unequal);
  UNTIL (other->beat_op == 0);
  other->copying = false;
  host_beat (other);
  assert (!rec ()->unequal && stored_array_name ("a")->unequal);
  reincarnate ();
  assert (rec ()->unequal);
  UNTIL (!rec ()->unequal);
  assert (!stored_array_name ("a")->unequal);
}

/* A detach says nothing of what was there before, and is not stable. */
static void
test_copying_detached (bool again)
{
  copying ();
  writer->service = false;
  detach (other);
  assert (rec ()->writer_epoch != 0 && rec ()->unequal);
  if (again)
    start_again (2);
  else
    cut_off (2);
  live_on (again ? 20 : 50);
  come_again (writer);
  writer->attached = false;
  writer->service = true;
  snprintf (writer->instance, 16, "h0 again");
  UNTIL (writer->attached);
  assert (state (2) == (again ? MEMBER_IN_SYNC : MEMBER_OUT));
  assert (rec ()->lapse == session (writer)->rec.epoch);
}

/* One after the other goes, and then a member. */
static void
test_copying_again (void)
{
  copying ();
  writer->copying = true;
  come_again (writer);
  writer->attached = false;
  snprintf (writer->instance, 16, "h0 again");
  UNTIL (stands_by (writer));
  fall_silent (other);
  UNTIL (writer->attached);
  assert (rec ()->unequal && rec ()->lapse == 0);
  die (1);
  assert (rec ()->lapse == rec ()->epoch);
}

/* A session that detaches in order leaves copies that are in sync. */
static void
test_copying_after_a_detach (void)
{
  served ();
  other->copying = true;
  detach (writer);
  UNTIL (other->attached);
  live_on (8);
  assert (!rec ()->unequal);
  cut_off (1);
  report_lost (other, 1);
  assert (rec ()->lapse == 0);
}

/* ---- weftd dies anywhere. ---- */

static void
scenario (unsigned long kill_at)
{
  struct cluster_service s;

  world_init (1);
  weftd.kill_at = kill_at;
  s = service_of (writer->node, other->node, NULL);
  make_array_of (LAYOUT_RAIDX);
  while (stored_array_name ("a")->service_nodes == 0) {
    CALL (++weftd.op, cluster_service_set (engine, in, "a", &s));
    live ();
  }
  writer->service = other->service = true;
  UNTIL (writer->attached && stands_by (other));
  fall_silent (writer);
  UNTIL (other->attached);
  writer->alive = true;
  UNTIL (!writer->attached);
  while (!writer->attached) {
    if (stands_by (writer))
      CALL (++weftd.op, cluster_service_move (engine, in, "a", writer->node));
    live_on (4);
  }
  UNTIL (stands_by (other) && !rec ()->unequal);
  live_on (4);
  assert (writer->attached && !other->attached);
}

int
main (void)
{
  unsigned long actions;

  test_failover ();
  test_weftd_cut_off (false);
  test_weftd_cut_off (true);
  test_started_meanwhile ();
  test_store_behind ();
  test_ended ();
  test_ended_elsewhere ();
  test_detach ();
  test_move ();
  test_move_refused ();
  test_move_forgotten ();
  test_no_candidate_any_more ();
  test_settle ();
  test_rank ();
  test_refusals ();
  test_drop ();
  test_unreached ();
  test_unreached_stale ();
  test_unreached_stays ();
  test_unreached_damped ();
  test_unreached_fewer ();
  test_deleted ();
  test_shut_out ();
  test_fence_clients ();
  test_fence_lies ();
  test_fence_unconfirmed ();
  test_fence_sessions ();
  test_fence_many_sessions ();
  test_fence_doubted ();
  test_fence_beside_a_server (false);
  test_fence_beside_a_server (true);
  test_fence_exports ();
  test_fence_removed ();
  test_kept ();
  test_member_started_again ();
  test_member_lost (DUP_SYNC_CLIENT);
  test_member_lost (DUP_ASYNC_CLIENT);
  test_member_lost_before (false);
  test_member_lost_before (true);
  test_lapsed_before ();
  test_evicted ();
  test_detached ();
  test_out_between (false);
  test_out_between (true);
  test_weftd_restarted ();
  test_copying_member_lost (DUP_ASYNC_CLIENT, false);
  test_copying_member_lost (DUP_ASYNC_CLIENT, true);
  test_copying_member_lost (DUP_SYNC_CLIENT, false);
  test_copying_member_again ();
  test_equal ();
  test_older_said ();
  test_equal_said ();
  test_copying_detached (false);
  test_copying_detached (true);
  test_copying_again ();
  test_copying_after_a_detach ();
  scenario (0);
  actions = world.actions;
  for (unsigned long k = 1; k <= actions; k += 1 + k / 32)
    scenario (k);
  return 0;
}
