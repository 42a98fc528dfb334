/* test-cluster-node.c: maintenance and removal of nodes, eviction, and jobs.  The
 * disk i of the rig is on the node n(i+1).  (Drains: test-cluster-drain.c.)
 */

#include <config.h>

#include "test-cluster-rig.h"

/* ---- Maintenance. ---- */

static void
test_maintenance (void)
{
  uint64_t left;

  begin_array ();
  DONE (cluster_spare_add (engine, in, "a", rig.disk[4].uuid));
  REFUSED ("unknown-node",
           cluster_node_maintain (engine, in, "nobody", true, false));
  DONE (cluster_node_maintain (engine, in, "n2", true, false));
  restart ();
  assert (cluster_node_find (engine, "n2")->rec.maintenance);
  attach (true);
  die (1);
  live_on (SPARE_AFTER_MS_DEFAULT / CLUSTER_TICK_MS + 400);
  assert (state (1) == MEMBER_OUT && on (1, 1));
  assert (cluster_member_spare_wall_ms (engine, array (), 1) == 0);
  assert (verdict () == CLUSTER_WARNING && says ("maintenance"));

  /* Another one is no part of it; and this one's node must stay. */
  REFUSED ("unreachable",
           cluster_node_maintain (engine, in, "n3", true, false));
  assert (strstr (rig.detail, "array a"));
  DONE (cluster_node_maintain (engine, in, "n3", true, true));
  DONE (cluster_node_maintain (engine, in, "n3", false, false));
  stop (2);
  assert (verdict () == CLUSTER_ERROR);
  rig.disk[2].dead = false;
  live_on (40);

  /* The time of a spare counts from its end. */
  DONE (cluster_node_maintain (engine, in, "n2", false, false));
  left = cluster_member_spare_wall_ms (engine, array (), 1) -
         (1700000000000 + weftd.now_ms);
  assert (left > SPARE_AFTER_MS_DEFAULT - 10000 &&
          left <= SPARE_AFTER_MS_DEFAULT);
  assert (verdict () == CLUSTER_WARNING);
  live_on (SPARE_AFTER_MS_DEFAULT / CLUSTER_TICK_MS + 40);
  UNTIL (state (1) == MEMBER_IN_SYNC && on (1, 4));
}

/* A spare on a node in maintenance may be gone at any time. */
static void
test_spare_in_maintenance (void)
{
  begin_array ();
  DONE (cluster_spare_add (engine, in, "a", rig.disk[4].uuid));
  DONE (cluster_node_maintain (engine, in, "n5", true, false));
  REFUSED ("maintenance",
           cluster_spare_add (engine, in, "a", rig.disk[4].uuid));
  attach (true);
  die (1);
  live_on (SPARE_AFTER_MS_DEFAULT / CLUSTER_TICK_MS + 400);
  assert (on (1, 1));
  DONE (cluster_node_maintain (engine, in, "n5", false, false));
  UNTIL (state (1) == MEMBER_IN_SYNC && on (1, 4));
}

/* ---- Removal. ---- */

static void
test_removal (void)
{
  begin_array ();
  DONE (cluster_spare_add (engine, in, "a", rig.disk[5].uuid));
  attach (false);
  REFUSED ("unknown-node", cluster_node_remove (engine, in, "nobody"));
  REFUSED ("in-use", cluster_node_remove (engine, in, "n2"));
  assert (strstr (rig.detail, "member 1 of array a"));
  REFUSED ("in-use", cluster_node_remove (engine, in, "n6"));
  assert (strstr (rig.detail, "a spare of array a"));
  REFUSED ("held", cluster_node_remove (engine, in, "host"));
  REFUSED ("alive", cluster_node_remove (engine, in, "n5"));
  DONE (cluster_node_add (engine, in, "n9")); /* it has enrolled, and has no
                                               * disk */
  restart ();
  live_on (20);
  assert (cluster_node_known (engine, "n9"));
  DONE (cluster_node_remove (engine, in, "n9"));
  assert (!cluster_node_known (engine, "n9"));

  DONE (cluster_node_drain (engine, in, "n2", true));
  UNTIL (cluster_node_drained (engine, "n2"));
  UNTIL (known (1)->blank);
  stop (1);
  DONE (cluster_node_remove (engine, in, "n2"));
  assert (!cluster_node_known (engine, "n2"));
  restart ();
  live_on (20);
  assert (!cluster_node_known (engine, "n2"));
}

/* ---- Eviction. ---- */

/* A writer up to this epoch has no session any longer, and members are fenced against
 * it.
 */
static void
ended (uint64_t epoch)
{
  assert (cluster_session_find (engine, rig.session)->rec.ended);
  UNTIL (array ()->rec.change.epoch == 0);
  assert (array ()->rec.epoch > epoch);
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (rig.disk[m].min_epoch > epoch);
}

static void
scenario_evict (void)
{
  uint64_t session, epoch;

  begin_writing ();
  session = rig.session;
  epoch = array ()->rec.epoch;
  rig.attached = false;
  REFUSED ("unknown-session",
           cluster_session_evict (engine, in, session + 1, "kim"));
  DONE (cluster_session_evict (engine, in, session, "administrator kim"));
  DONE (cluster_session_evict (engine, in, session, "administrator kim"));
  assert (strcmp (cluster_session_find (engine, session)->rec.reason,
                  "it was evicted by administrator kim") == 0);
  ended (epoch);
}

/* ---- Jobs. ---- */

static const struct cluster_job *
job (const char *id)
{
  static struct cluster_job found;
  size_t count;
  struct cluster_job *jobs = cluster_jobs (engine, &count);
  bool any = false;

  for (size_t i = 0; i < count; i++)
    if (strcmp (jobs[i].id, id) == 0) {
      assert (!any); /* no id appears twice */
      found = jobs[i];
      any = true;
    }
  free (jobs);
  return any ? &found : NULL;
}

static void
test_jobs (void)
{
  begin_array ();
  assert (job ("create-a")->state == CLUSTER_JOB_DONE);
  attach (true);
  copy_on (1);
  live_on (2);
  assert (job ("rebuild-a-1")->state == CLUSTER_JOB_RUNNING);
  DONE (cluster_member_cancel (engine, in, "a", 1));
  assert (job ("rebuild-a-1")->state == CLUSTER_JOB_FAILED);
  assert (strstr (job ("rebuild-a-1")->waits, "cancelled"));
  DONE (cluster_member_join (engine, in, "a", 1));
  rig.disk[1].stuck = false;
  UNTIL (state (1) == MEMBER_IN_SYNC);
  assert (job ("rebuild-a-1")->state == CLUSTER_JOB_DONE);

  rig.disk[4].stuck = rig.disk[5].stuck = true;
  DONE (cluster_node_drain (engine, in, "n2", true));
  UNTIL (rig.disk[4].join.phase == CLUSTER_JOIN_COPYING);
  restart ();
  live_on (20);
  assert (job ("drain-n2")->state == CLUSTER_JOB_RUNNING);
  assert (job ("drain-n2")->total_bytes == array ()->rec.member_bytes);
  assert (job ("rebuild-a-1")->state == CLUSTER_JOB_RUNNING);
  rig.disk[4].stuck = false;
  UNTIL (job ("drain-n2")->state == CLUSTER_JOB_DONE);
  assert (job ("drain-n2")->done_bytes == job ("drain-n2")->total_bytes);
  DONE (cluster_node_drain (engine, in, "n2", false));
  assert (job ("drain-n2") == NULL);

  /* Ended jobs are still listed after a restart, for a day. */
  assert (job ("rebuild-a-1")->state == CLUSTER_JOB_DONE);
  restart ();
  assert (job ("rebuild-a-1")->state == CLUSTER_JOB_DONE);
  assert (job ("rebuild-a-1")->ended_wall_ms);
  assert (strcmp (job ("create-a")->subject, "array a") == 0);
  weftd.now_ms += 25 * 3600 * 1000;
  restart ();
  assert (job ("rebuild-a-1") == NULL && job ("create-a") == NULL);
}

/* ---- Shut out. ---- */

/* The writer's node: its session is over, and members are fenced against it. */
static void
scenario_shut_out_writer (void)
{
  uint64_t epoch;

  begin_writing ();
  epoch = array ()->rec.epoch;
  rig.attached = false;
  DONE (cluster_node_shut_out (engine, in, "host", "administrator kim"));
  ended (epoch);
}

/* A member's: it goes out while somebody writes, and comes back when the node is
 * trusted again.
 */
static void
scenario_shut_out_member (void)
{
  begin_writing ();
  rig.disk[1].dead = true; /* its reports are not delivered any longer */
  DONE (cluster_node_shut_out (engine, in, "n2", "administrator kim"));
  if (!weftd.killed) {
    assert (!known (1)->alive);
    UNTIL (state (1) == MEMBER_OUT);
    assert (strstr (member (1)->reason, "shut out"));
  }
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (m == 1 || state (m) == MEMBER_IN_SYNC);
  rig.disk[1].dead = false;
  UNTIL (state (1) == MEMBER_IN_SYNC);
}

/* A host's that is both: its member goes out after the change that its session
 * leaves behind, though weftd is started again meanwhile.
 */
static void
test_shut_out_both (void)
{
  begin_array ();
  rig.disk[1].node = "host";
  live_on (12);
  attach (true);
  rig.attached = false;
  rig.disk[1].dead = true;
  DONE (cluster_node_shut_out (engine, in, "host", "administrator kim"));
  assert (state (1) == MEMBER_IN_SYNC);
  restart ();
  UNTIL (state (1) == MEMBER_OUT);
  rig.disk[1].dead = false;
  UNTIL (state (1) == MEMBER_IN_SYNC);
}

/* The last copy stays, silent. */
static void
test_shut_out_last_copy (void)
{
  begin_writing ();
  lose (2);
  rig.disk[1].dead = rig.disk[2].dead = true;
  live_on (8);
  DONE (cluster_node_shut_out (engine, in, "n2", "administrator kim"));
  live_on (100);
  assert (state (1) == MEMBER_IN_SYNC && !array ()->disk[1]->alive);
}

/* ---- Sessions that are over. ---- */

static unsigned
unconfirmed (void)
{
  unsigned count = 0;

  for (unsigned m = 0; m < MEMBERS; m++)
    count += cluster_shut_unconfirmed (array (), m);
  return count;
}

static void
evict (void)
{
  rig.attached = false;
  DONE (cluster_session_evict (engine, in, rig.session, "administrator kim"));
}

/* All members hear of it, at every kill of weftd, and the verdict says when they have
 * confirmed.
 */
static void
scenario_shut_out_reader (void)
{
  begin_array ();
  live_on (8);
  attach (false);
  rig.attached = false;
  DONE (cluster_node_shut_out (engine, in, "host", "administrator kim"));
  assert (cluster_session_find (engine, rig.session)->rec.ended);
  assert (over (rig.session)->ordered);
  if (!weftd.killed)
    assert (unconfirmed () == 0); /* or it would have been refused by 5 s */
  UNTIL (unconfirmed () == 0);
  DONE (cluster_node_shut_out (engine, in, "host", "administrator kim"));
}

/* A silent member has not confirmed, and is named.  Its report to another weftd does not
 * count.  When it is back, it hears of the end.
 */
static void
test_over_silent (void)
{
  char text[1024];
  uint64_t said;

  begin_array ();
  live_on (8);
  attach (false);
  rig.disk[1].dead = true;
  evict ();
  live_on (20);
  assert (unconfirmed () == 1 && cluster_shut_unconfirmed (array (), 1));
  cluster_verdict (engine, text, sizeof text);
  assert (strstr (text, "Member 1 of array a") &&
          strstr (text, "has not confirmed"));
  said = rig.disk[0].over;
  restart ();
  assert (unconfirmed () == MEMBERS);
  UNTIL (unconfirmed () == 1);
  assert (rig.disk[0].over != said);
  rig.disk[1].dead = false;
  UNTIL (unconfirmed () == 0);
  cluster_verdict (engine, text, sizeof text);
  assert (strstr (text, "has not confirmed") == NULL);

  /* A reader that goes by itself is over, too, and nobody is named for that. */
  attach (false);
  rig.disk[1].dead = true;
  detach ();
  live_on (8);
  assert (over (rig.session) && !over (rig.session)->ordered);
  assert (unconfirmed () == 0);
}

/* The end of a writer changes the epoch, so only a member that is out must hear of it
 * separately.
 */
static void
test_over_writer (void)
{
  uint64_t told;

  begin_writing ();
  lose (2);
  rig.disk[2].stuck = true;
  told = rig.disk[0].over;
  evict ();
  UNTIL (array ()->rec.change.epoch == 0 && unconfirmed () == 0);
  assert (rig.disk[0].over == told);
}

/* The list of ended sessions is bounded, however many there were; a reader that stays is
 * admitted anyway.
 */
static void
test_over_many (void)
{
  uint64_t epoch;
  bool all = false;

  begin_array ();
  live_on (8);
  epoch = array ()->rec.epoch;
  for (unsigned i = 0; i < 4 * OVER_TOLD_MAX; i++) {
    attach (false);
    evict ();
    live_on (2);
    all = all || over (0) != NULL;
    assert (array ()->rec.over_count < 2 * OVER_TOLD_MAX + 10);
  }
  assert (all && array ()->rec.epoch < epoch + 10);
  attach (false);
  live_on (8);
  assert (unconfirmed () == 0 && rig.attached);
}

static struct cluster_attach
process_of (const char *node, unsigned process, bool writable)
{
  struct cluster_attach at = {
    .pid = process, .writable = writable, .leases = writable, .by_admin = true
  };

  snprintf (at.node, sizeof at.node, "%s", node);
  snprintf (at.instance, sizeof at.instance, "%s%u", node, process);
  return at;
}

/* A process of a node asks for a session; NULL: it is granted. */
static const char *
attach_of (const char *node, unsigned process, bool writable)
{
  struct cluster_attach at = process_of (node, process, writable);

  for (unsigned i = 0; i < 40; i++) {
    ASK (cluster_attach (engine, in, "a", &at));
    if (rig.code == NULL || strcmp (rig.code, "too-many") == 0)
      break;
    live ();
  }
  return rig.code;
}

/* Many processes of a node, which only read, ask at the same time, and again. */
static void
crowd (const char *node, unsigned count)
{
  struct cluster_attach at;

  for (unsigned i = 0; i < 3 * count; i++) {
    if (i % count == 0)
      live_on (8);
    at = process_of (node, i % count, false);
    CALL (++weftd.op, cluster_attach (engine, in, "a", &at));
  }
  live_on (8);
}

static unsigned
sessions (void)
{
  const struct cluster_session *s;
  unsigned count = 0;

  TAILQ_FOREACH (s, &array ()->sessions, array_link)
    count++;
  return count;
}

static bool
is_full (const char *node, unsigned process, bool writable)
{
  const char *code = attach_of (node, process, writable);

  return code && strcmp (code, "too-many") == 0;
}

/* The list of ended sessions has room for the end of each session.  One node has a part of
 * it, and when readers of many nodes have theirs, a writer beside another one still finds
 * a place.
 */
static void
test_over_of_nodes (void)
{
  const unsigned readers = OVER_MAX - OVER_WRITERS - MEMBERS - 1;
  char node[16];

  begin_array ();
  live_on (8);
  crowd ("greedy", 2 * OVER_NODE_MAX);
  assert (sessions () == OVER_NODE_MAX);
  assert (is_full ("greedy", 500, false));
  assert (strstr (rig.detail, "node greedy has too many sessions of array a"));
  assert (attach_of ("greedy", 0, false) == NULL); /* it asks again */
  /* An ended session keeps its place. */
  DONE (cluster_session_evict (engine, in, rig.granted, "administrator kim"));
  assert (is_full ("greedy", 0, false));
  for (unsigned i = 0; i < OVER_MAX / OVER_NODE_MAX; i++) {
    snprintf (node, sizeof node, "g%u", i);
    crowd (node, OVER_NODE_MAX);
  }
  assert (sessions () == readers - 1);
  assert (is_full ("honest", 0, false));
  assert (strstr (rig.detail, "array a has too many sessions"));
  assert (attach_of ("w1", 0, true) == NULL);
  assert (!is_full ("w2", 0, true));
}

/* A node whose sessions come and go does not keep itself out: its ended ones leave the
 * list, however few they are of all.
 */
static void
test_over_of_one_node (void)
{
  begin_array ();
  live_on (8);
  for (unsigned i = 0; i < OVER_NODE_MAX - OVER_NODE_RENEW; i++)
    assert (attach_of ("busy", 100 + i, false) == NULL);
  for (unsigned i = 0; i < 2 * OVER_NODE_MAX; i++) {
    for (unsigned n = 0; attach_of ("busy", 1000 + i, false); n++) {
      assert (n < 40);
      live_on (8);
    }
    DONE (cluster_session_evict (engine, in, rig.granted, "administrator kim"));
    live_on (2);
  }
}

/* While no changes are taken no session ends, and no epoch is changed; both come when
 * they are taken again.
 */
static void
test_shut_out_read_only (void)
{
  uint64_t generation, epoch;

  begin_writing ();
  epoch = array ()->rec.epoch;
  generation = rig.disk[0].generation;
  for (unsigned m = 0; m < 2; m++) /* two nodes' first words */
    rig.disk[m].generation = generation + 5;
  restart ();
  UNTIL (cluster_read_only (engine) != NULL);
  rig.attached = false;
  DONE (cluster_node_shut_out (engine, in, "host", "administrator kim"));
  DONE (cluster_node_shut_out (engine, in, "host", "administrator kim"));
  assert (!cluster_session_find (engine, rig.session)->rec.ended);
  assert (over (rig.session)->epoch == EPOCH_MAX - 1);
  assert (array ()->rec.epoch == epoch && array ()->rec.change.epoch == 0);
  for (unsigned m = 0; m < 2; m++)
    rig.disk[m].generation = generation;
  restart ();
  UNTIL (cluster_session_find (engine, rig.session)->rec.ended);
  ended (epoch);
}

/* A joining member's reads from other members end when it is shut out, and when its
 * joining ends.
 */
static void
test_over_source (void)
{
  uint64_t source;

  begin_array ();
  live_on (12);
  attach (true);
  copy_on (1);
  source = cluster_shut_source (array (), 1);
  assert (over (source) == NULL);
  rig.disk[1].dead = true;
  DONE (cluster_node_shut_out (engine, in, "n2", "administrator kim"));
  assert (over (source) && over (source)->ordered && unconfirmed () == 0);
  UNTIL (state (1) == MEMBER_OUT);
  rig.disk[1].dead = rig.disk[1].stuck = false;
  UNTIL (state (1) == MEMBER_JOINING);
  source = cluster_shut_source (array (), 1);
  assert (over (source) == NULL);
  UNTIL (state (1) == MEMBER_IN_SYNC);
  assert (over (source) && !over (source)->ordered);
}

/* ---- A disk on another node. ---- */

static void
moved (unsigned disk, const char *node)
{
  rig.disk[disk].node = node;
  rig.disk[disk].dead = false;
  live_on (8);
  assert (rig.disk[disk].refused == NULL && known (disk)->alive);
}

static void
test_move (void)
{
  struct fake_disk *d = &rig.disk[1];

  begin_array ();
  rig.proven = true;
  live_on (8);
  REFUSED ("unknown-node", cluster_disk_move (engine, in, d->uuid, "nobody"));
  REFUSED ("alive", cluster_disk_move (engine, in, d->uuid, "n3"));

  /* Not while it lives, nor when it is silent: somebody is to say so. */
  d->node = "n3";
  UNTIL (d->refused != NULL);
  assert (strcmp (d->refused, "double-used") == 0);
  live_on (60);
  assert (strcmp (d->refused, "other-node") == 0);
  assert (strcmp (known (1)->rec.node, "n2") == 0 && !known (1)->alive);

  /* Where it was it may be at any time, and then it stays there. */
  DONE (cluster_disk_move (engine, in, d->uuid, "n3"));
  moved (1, NULL);
  d->node = "n3";
  live_on (60);
  assert (strcmp (d->refused, "other-node") == 0);

  /* Said, and not forgotten by weftd; to another one still not. */
  DONE (cluster_disk_move (engine, in, d->uuid, "n3"));
  d->node = "n4";
  restart ();
  live_on (60);
  assert (strcmp (d->refused, "other-node") == 0);
  d->node = "n3";
  UNTIL (d->refused == NULL);
  UNTIL (known (1)->alive);
  assert (strcmp (known (1)->rec.node, "n3") == 0);
  assert (known (1)->rec.moves_to[0] == '\0');

  /* A disk without a place in an array may move freely; if no node is known by a
   * certificate, every disk may.
   */
  stop (5);
  moved (5, "n1");
  rig.proven = false;
  stop (1);
  moved (1, "n4");
}

/* Blank disk `number` of a node speaks for the first time; NULL: it was taken in. */
static const char *
blank_beat (const char *node, unsigned number)
{
  struct cluster_disk_heartbeat hb = { .uri = "nbd://127.0.0.1:2",
                                       .instance = "f",
                                       .size = MiB (256),
                                       .data_bytes = MiB (255) };

  memcpy (hb.uuid, &number, sizeof number);
  memcpy (hb.uuid + 4, node, strlen (node));
  snprintf (hb.node, sizeof hb.node, "%s", node);
  snprintf (hb.path, sizeof hb.path, "/dev/f%u", number);
  ASK (cluster_disk_heartbeat (engine, in, &hb));
  return rig.code;
}

/* However many disks one node says it has, there is room for those of others. */
static void
test_disks_of_one_node (void)
{
  rig_init ();
  for (unsigned i = 0; i < NODE_DISKS_MAX; i++)
    assert (blank_beat ("many", i) == NULL);
  assert (strcmp (blank_beat ("many", NODE_DISKS_MAX), "too-many") == 0);
  assert (blank_beat ("other", 0) == NULL);
  assert (blank_beat ("many", 0) == NULL); /* a known one goes on */
}

int
main (void)
{
  test_maintenance ();
  test_spare_in_maintenance ();
  test_removal ();
  test_jobs ();
  test_shut_out_both ();
  test_shut_out_last_copy ();
  test_over_silent ();
  test_over_writer ();
  test_over_many ();
  test_over_of_nodes ();
  test_over_of_one_node ();
  test_over_source ();
  test_shut_out_read_only ();
  test_move ();
  test_kills ("evict", scenario_evict);
  test_kills ("shut out writer", scenario_shut_out_writer);
  test_kills ("shut out member", scenario_shut_out_member);
  test_kills ("shut out reader", scenario_shut_out_reader);
  test_disks_of_one_node ();
  return 0;
}
