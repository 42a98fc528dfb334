/* test-cluster-node.c: maintenance and removal of nodes, eviction, and jobs.  The
 * disk i of the rig is on the node n(i+1).  (Drains: test-cluster-drain.c.)
 */

#include <config.h>

#undef NDEBUG
#include <assert.h>

#include "test-cluster-rig.h"

static const struct cluster_node_record *
node (struct rig *r, const char *name)
{
  const struct cluster_node *n = cluster_node_find (r->c, name);

  assert (n);
  return &n->rec;
}

/* The disk of this member. */
static bool
on (struct rig *r, unsigned m, unsigned disk)
{
  return memcmp (array (r)->disk[m]->rec.uuid, r->disk[disk].uuid, 16) == 0;
}

static enum cluster_severity
verdict (struct rig *r, char text[4096])
{
  return cluster_verdict (r->c, text, 4096);
}

/* ---- Maintenance. ---- */

static void
test_maintenance (void)
{
  struct rig r;
  char text[4096];
  uint64_t left;

  rig_init (&r, 0);
  make_array (&r);
  DONE (&r, cluster_spare_add (r.c, in, "a", r.disk[4].uuid));
  REFUSED (&r, "unknown-node",
           cluster_node_maintain (r.c, in, "nobody", true, false));
  DONE (&r, cluster_node_maintain (r.c, in, "n2", true, false));
  restart (&r);
  assert (node (&r, "n2")->maintenance);
  attach (&r, true);
  r.disk[1].dead = true;
  lose (&r, 1);
  rounds (&r, SPARE_AFTER_MS_DEFAULT / CLUSTER_TICK_MS + 400);
  assert (state (&r, 1) == MEMBER_OUT && on (&r, 1, 1));
  assert (cluster_member_spare_wall_ms (r.c, array (&r), 1) == 0);
  assert (verdict (&r, text) == CLUSTER_INFO && strstr (text, "maintenance"));

  /* Another one is no part of it; and this one's node must stay. */
  REFUSED (&r, "unreachable",
           cluster_node_maintain (r.c, in, "n3", true, false));
  assert (strstr (r.detail, "array a"));
  DONE (&r, cluster_node_maintain (r.c, in, "n3", true, true));
  DONE (&r, cluster_node_maintain (r.c, in, "n3", false, false));
  r.disk[2].dead = true;
  rounds (&r, 40);
  assert (verdict (&r, text) == CLUSTER_ERROR);
  r.disk[2].dead = false;
  rounds (&r, 40);

  /* The time of a spare counts from its end. */
  DONE (&r, cluster_node_maintain (r.c, in, "n2", false, false));
  left = cluster_member_spare_wall_ms (r.c, array (&r), 1) -
         (1700000000000 + r.now_ms);
  assert (left > SPARE_AFTER_MS_DEFAULT - 10000 &&
          left <= SPARE_AFTER_MS_DEFAULT);
  assert (verdict (&r, text) == CLUSTER_WARNING);
  rounds (&r, SPARE_AFTER_MS_DEFAULT / CLUSTER_TICK_MS + 40);
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC && on (&r, 1, 4));
  cluster_free (r.c);
}

/* A spare on a node in maintenance may be gone at any time. */
static void
test_spare_in_maintenance (void)
{
  struct rig r;

  rig_init (&r, 0);
  make_array (&r);
  DONE (&r, cluster_spare_add (r.c, in, "a", r.disk[4].uuid));
  DONE (&r, cluster_node_maintain (r.c, in, "n5", true, false));
  REFUSED (&r, "maintenance", cluster_spare_add (r.c, in, "a", r.disk[4].uuid));
  attach (&r, true);
  r.disk[1].dead = true;
  lose (&r, 1);
  rounds (&r, SPARE_AFTER_MS_DEFAULT / CLUSTER_TICK_MS + 400);
  assert (on (&r, 1, 1));
  DONE (&r, cluster_node_maintain (r.c, in, "n5", false, false));
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC && on (&r, 1, 4));
  cluster_free (r.c);
}

/* ---- Removal. ---- */

static void
test_removal (void)
{
  struct rig r;

  rig_init (&r, 0);
  make_array (&r);
  DONE (&r, cluster_spare_add (r.c, in, "a", r.disk[5].uuid));
  attach (&r, false);
  REFUSED (&r, "unknown-node", cluster_node_remove (r.c, in, "nobody"));
  REFUSED (&r, "in-use", cluster_node_remove (r.c, in, "n2"));
  assert (strstr (r.detail, "member 1 of array a"));
  REFUSED (&r, "in-use", cluster_node_remove (r.c, in, "n6"));
  assert (strstr (r.detail, "a spare of array a"));
  REFUSED (&r, "held", cluster_node_remove (r.c, in, "host"));
  REFUSED (&r, "alive", cluster_node_remove (r.c, in, "n5"));
  DONE (&r, cluster_node_add (r.c, in, "n9")); /* it has enrolled, no more */
  restart (&r);
  rounds (&r, 20);
  assert (cluster_node_known (r.c, "n9"));
  DONE (&r, cluster_node_remove (r.c, in, "n9"));
  assert (!cluster_node_known (r.c, "n9"));

  DONE (&r, cluster_node_drain (r.c, in, "n2", true));
  UNTIL (&r, cluster_node_drained (r.c, "n2"));
  UNTIL (&r, cluster_disk_find (r.c, r.disk[1].uuid)->blank);
  r.disk[1].dead = true;
  rounds (&r, 60);
  DONE (&r, cluster_node_remove (r.c, in, "n2"));
  assert (!cluster_node_known (r.c, "n2"));
  restart (&r);
  rounds (&r, 20);
  assert (!cluster_node_known (r.c, "n2"));
  cluster_free (r.c);
}

/* ---- Eviction. ---- */

static bool
scenario_evict (unsigned kill_at)
{
  struct rig r;
  uint64_t session, epoch;
  bool killed;

  begin_writing (&r, kill_at);
  session = r.session;
  epoch = array (&r)->rec.epoch;
  r.attached = false;
  REFUSED (&r, "unknown-session",
           cluster_session_evict (r.c, in, session + 1, "kim"));
  DONE (&r, cluster_session_evict (r.c, in, session, "administrator kim"));
  DONE (&r, cluster_session_evict (r.c, in, session, "administrator kim"));
  assert (cluster_session_find (r.c, session)->rec.ended);
  assert (strcmp (cluster_session_find (r.c, session)->rec.reason,
                  "it was evicted by administrator kim") == 0);
  /* Members are fenced against it. */
  UNTIL (&r, array (&r)->rec.change.epoch == 0);
  assert (array (&r)->rec.epoch > epoch);
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (r.disk[m].min_epoch > epoch);
  killed = r.killed;
  cluster_free (r.c);
  return killed;
}

/* ---- Jobs. ---- */

static const struct cluster_job *
job (struct rig *r, const char *id)
{
  static struct cluster_job found;
  size_t count;
  struct cluster_job *jobs = cluster_jobs (r->c, &count);
  bool any = false;

  for (size_t i = 0; i < count; i++)
    if (strcmp (jobs[i].id, id) == 0) {
      assert (!any); /* an id is said once */
      found = jobs[i];
      any = true;
    }
  free (jobs);
  return any ? &found : NULL;
}

static void
test_jobs (void)
{
  struct rig r;

  rig_init (&r, 0);
  make_array (&r);
  assert (job (&r, "create-a")->state == CLUSTER_JOB_DONE);
  attach (&r, true);
  r.disk[1].stuck = true;
  lose (&r, 1);
  UNTIL (&r, r.disk[1].join.phase == CLUSTER_JOIN_COPYING);
  rounds (&r, 2);
  assert (job (&r, "rebuild-a-1")->state == CLUSTER_JOB_RUNNING);
  DONE (&r, cluster_member_cancel (r.c, in, "a", 1));
  assert (job (&r, "rebuild-a-1")->state == CLUSTER_JOB_FAILED);
  assert (strstr (job (&r, "rebuild-a-1")->waits, "cancelled"));
  DONE (&r, cluster_member_join (r.c, in, "a", 1));
  r.disk[1].stuck = false;
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  assert (job (&r, "rebuild-a-1")->state == CLUSTER_JOB_DONE);

  r.disk[4].stuck = r.disk[5].stuck = true;
  DONE (&r, cluster_node_drain (r.c, in, "n2", true));
  UNTIL (&r, r.disk[4].join.phase == CLUSTER_JOIN_COPYING);
  restart (&r);
  rounds (&r, 20);
  assert (job (&r, "drain-n2")->state == CLUSTER_JOB_RUNNING);
  assert (job (&r, "drain-n2")->total_bytes == array (&r)->rec.member_bytes);
  assert (job (&r, "rebuild-a-1")->state == CLUSTER_JOB_RUNNING);
  r.disk[4].stuck = false;
  UNTIL (&r, job (&r, "drain-n2")->state == CLUSTER_JOB_DONE);
  assert (job (&r, "drain-n2")->done_bytes ==
          job (&r, "drain-n2")->total_bytes);
  DONE (&r, cluster_node_drain (r.c, in, "n2", false));
  assert (job (&r, "drain-n2") == NULL);

  /* What has ended is there after a restart, for a day. */
  assert (job (&r, "rebuild-a-1")->state == CLUSTER_JOB_DONE);
  restart (&r);
  assert (job (&r, "rebuild-a-1")->state == CLUSTER_JOB_DONE);
  assert (job (&r, "rebuild-a-1")->ended_wall_ms);
  assert (strcmp (job (&r, "create-a")->subject, "array a") == 0);
  r.now_ms += 25 * 3600 * 1000;
  restart (&r);
  assert (job (&r, "rebuild-a-1") == NULL && job (&r, "create-a") == NULL);
  cluster_free (r.c);
}

/* ---- Shut out. ---- */

/* The writer's node: its session is over, and members are fenced against it. */
static bool
scenario_shut_out_writer (unsigned kill_at)
{
  struct rig r;
  uint64_t session, epoch;
  bool killed;

  begin_writing (&r, kill_at);
  session = r.session;
  epoch = array (&r)->rec.epoch;
  r.attached = false;
  DONE (&r, cluster_node_shut_out (r.c, in, "host", "administrator kim"));
  assert (cluster_session_find (r.c, session)->rec.ended);
  UNTIL (&r, array (&r)->rec.change.epoch == 0);
  assert (array (&r)->rec.epoch > epoch);
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (r.disk[m].min_epoch > epoch);
  killed = r.killed;
  cluster_free (r.c);
  return killed;
}

/* A member's: it goes out while somebody writes, and comes back when the node is
 * trusted again.
 */
static bool
scenario_shut_out_member (unsigned kill_at)
{
  struct rig r;
  bool killed;

  begin_writing (&r, kill_at);
  r.disk[1].dead = true; /* what it says is not handed in any more */
  DONE (&r, cluster_node_shut_out (r.c, in, "n2", "administrator kim"));
  if (!r.killed) {
    assert (!cluster_disk_find (r.c, r.disk[1].uuid)->alive);
    UNTIL (&r, state (&r, 1) == MEMBER_OUT);
    assert (strstr (array (&r)->rec.member[1].reason, "shut out"));
  }
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (m == 1 || state (&r, m) == MEMBER_IN_SYNC);
  r.disk[1].dead = false;
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  killed = r.killed;
  cluster_free (r.c);
  return killed;
}

/* A host's that is both: its member goes out after the change that its session
 * leaves behind, though weftd is started again meanwhile.
 */
static void
test_shut_out_both (void)
{
  struct rig r;

  rig_init (&r, 0);
  make_array (&r);
  r.disk[1].node = "host";
  rounds (&r, 12);
  attach (&r, true);
  r.attached = false;
  r.disk[1].dead = true;
  DONE (&r, cluster_node_shut_out (r.c, in, "host", "administrator kim"));
  assert (state (&r, 1) == MEMBER_IN_SYNC);
  restart (&r);
  UNTIL (&r, state (&r, 1) == MEMBER_OUT);
  r.disk[1].dead = false;
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  cluster_free (r.c);
}

/* The last copy stays, silent. */
static void
test_shut_out_last_copy (void)
{
  struct rig r;

  begin_writing (&r, 0);
  lose (&r, 2);
  r.disk[1].dead = r.disk[2].dead = true;
  rounds (&r, 8);
  DONE (&r, cluster_node_shut_out (r.c, in, "n2", "administrator kim"));
  rounds (&r, 100);
  assert (state (&r, 1) == MEMBER_IN_SYNC && !array (&r)->disk[1]->alive);
  cluster_free (r.c);
}

/* ---- A disk on another node. ---- */

static void
test_move (void)
{
  struct rig r;
  const char *node;

  rig_init (&r, 0);
  make_array (&r);
  r.proven = true;
  rounds (&r, 8);
  REFUSED (&r, "unknown-node",
           cluster_disk_move (r.c, in, r.disk[1].uuid, "nobody"));
  REFUSED (&r, "alive", cluster_disk_move (r.c, in, r.disk[1].uuid, "n3"));

  /* Not while it lives, nor when it is silent: somebody is to say so. */
  r.disk[1].node = "n3";
  UNTIL (&r, r.disk[1].refused != NULL);
  assert (strcmp (r.disk[1].refused, "double-used") == 0);
  rounds (&r, 60);
  assert (strcmp (r.disk[1].refused, "other-node") == 0);
  node = array (&r)->disk[1]->rec.node;
  assert (strcmp (node, "n2") == 0 && !array (&r)->disk[1]->alive);

  /* Where it was it may be at any time, and then it stays there. */
  DONE (&r, cluster_disk_move (r.c, in, r.disk[1].uuid, "n3"));
  r.disk[1].node = NULL;
  rounds (&r, 8);
  assert (r.disk[1].refused == NULL && array (&r)->disk[1]->alive);
  r.disk[1].node = "n3";
  rounds (&r, 60);
  assert (strcmp (r.disk[1].refused, "other-node") == 0);

  /* Said, and not forgotten by weftd; to another one still not. */
  DONE (&r, cluster_disk_move (r.c, in, r.disk[1].uuid, "n3"));
  r.disk[1].node = "n4";
  restart (&r);
  rounds (&r, 60);
  assert (strcmp (r.disk[1].refused, "other-node") == 0);
  r.disk[1].node = "n3";
  UNTIL (&r, r.disk[1].refused == NULL);
  UNTIL (&r, array (&r)->disk[1]->alive);
  assert (strcmp (array (&r)->disk[1]->rec.node, "n3") == 0);
  assert (array (&r)->disk[1]->rec.moves_to[0] == '\0');

  /* What has no place in an array moves as it likes, and where no node is known
   * by a certificate everything does.
   */
  r.disk[5].dead = true;
  rounds (&r, 60);
  r.disk[5].dead = false;
  r.disk[5].node = "n1";
  rounds (&r, 8);
  assert (r.disk[5].refused == NULL);
  r.proven = false;
  r.disk[1].dead = true;
  rounds (&r, 60);
  r.disk[1].dead = false;
  r.disk[1].node = "n4";
  rounds (&r, 8);
  assert (r.disk[1].refused == NULL);
  cluster_free (r.c);
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
  test_move ();
  test_kills ("evict", scenario_evict);
  test_kills ("shut out writer", scenario_shut_out_writer);
  test_kills ("shut out member", scenario_shut_out_member);
  return 0;
}
