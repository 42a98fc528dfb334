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
  REFUSED (&r, "maintenance",
           cluster_spare_add (r.c, in, "a", r.disk[4].uuid));
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

  rig_init (&r, kill_at);
  make_array (&r);
  attach (&r, true);
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
  cluster_free (r.c);
}

int
main (void)
{
  test_maintenance ();
  test_spare_in_maintenance ();
  test_removal ();
  test_jobs ();
  test_kills ("evict", scenario_evict);
  return 0;
}
