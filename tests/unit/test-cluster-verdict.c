/* test-cluster-verdict.c: the verdict in each state of the cluster engine: how bad it
 * is, and that "All is well" is said only where every byte has all of its copies and
 * nothing waits.  The states are put into the engine by hand, one after the other.
 */

#include <config.h>

#include "test-cluster-rig.h"

#define WELL "All is well"

/* It says so, is as bad as that, and is well or not. */
static void
expect_at (int line, enum cluster_severity wanted, bool well, const char *what)
{
  char text[4096];
  enum cluster_severity severity = cluster_verdict (engine, text, sizeof text);

  if (severity == wanted && (strstr (text, WELL) != NULL) == well &&
      strstr (text, what))
    return;
  fprintf (stderr, "line %d: %d, not %d: \"%s\" has no \"%s\"%s\n", line,
           severity, wanted, text, what, well ? ", or is not well" : "");
  abort ();
}

#define FINE_BUT(what) expect_at (__LINE__, CLUSTER_INFO, true, (what))
#define ALL_FINE() expect_at (__LINE__, CLUSTER_INFO, true, "")
#define WAITS(what) expect_at (__LINE__, CLUSTER_INFO, false, (what))
#define WARNS(what) expect_at (__LINE__, CLUSTER_WARNING, false, (what))
#define FAILS(what) expect_at (__LINE__, CLUSTER_ERROR, false, (what))

/* ---- A member in each of its states. ---- */

enum {
  SILENT = 1,
  UNHEARD = 2,
  FAILED = 4,
  OLD = 8,
  PLACELESS = 16, /* its process has not taken its place */
  PAUSED = 32,
  HELD = 64,
  MAINTENANCE = 128, /* of its node */
  SINGLE = 256,      /* another member is out already */
  ALL = 512
};

static void
try_member (enum member_state state, unsigned flags,
            enum cluster_doubt_kind doubt)
{
  struct cluster_array *a = array (), before_array = *a;
  struct cluster_disk *d = a->disk[1], before = *d;
  bool uncounted = state == MEMBER_OUT || flags & (SILENT | FAILED | OLD);
  bool well;

  a->rec.member[1].state = state;
  a->rec.member[1].paused = flags & PAUSED;
  a->rec.member[1].held = flags & HELD;
  d->alive = !(flags & SILENT);
  d->heard = !(flags & UNHEARD);
  d->failed = flags & FAILED;
  d->old_copy = flags & OLD;
  d->took_place = !(flags & PLACELESS);
  d->doubt.kind = doubt;
  if (flags & SINGLE)
    a->rec.member[2].state = MEMBER_OUT;
  cluster_node_keep (engine, "n2")->rec.maintenance = flags & MAINTENANCE;

  well = state == MEMBER_IN_SYNC && doubt == CLUSTER_DOUBT_NONE &&
         !(flags & ~(unsigned) (HELD | MAINTENANCE | PLACELESS)) &&
         !(flags & PLACELESS && d->heard);
  if (doubt == CLUSTER_DOUBT_OPEN ||
      (flags & SINGLE && (uncounted || state != MEMBER_IN_SYNC)))
    FAILS ("rray a");
  else if (state == MEMBER_IN_SYNC && doubt == CLUSTER_DOUBT_NONE &&
           (flags & ~(unsigned) (HELD | MAINTENANCE | PLACELESS)) == UNHEARD)
    WAITS ("has not yet heard of 1 member of array a");
  else if (!well)
    WARNS (flags & SINGLE               ? "member 2"
           : doubt == CLUSTER_DOUBT_LIE ? "can't be so"
           : uncounted                  ? "member 1"
           : state == MEMBER_JOINING    ? "ember 1"
           : flags & PAUSED             ? "is paused"
                                        : "has not taken its place");
  else
    FINE_BUT (flags & MAINTENANCE ? "Node n2 is in maintenance." : "");
  *a = before_array;
  *d = before;
}

static void
test_members (void)
{
  begin_array ();
  cluster_node_keep (engine, "n2");
  for (unsigned flags = 0; flags < ALL; flags++)
    for (int doubt = CLUSTER_DOUBT_NONE; doubt <= CLUSTER_DOUBT_LIE; doubt++) {
      try_member (MEMBER_IN_SYNC, flags, doubt);
      try_member (MEMBER_JOINING, flags, doubt);
      try_member (MEMBER_OUT, flags, doubt);
    }
  cluster_node_keep (engine, "n2")->rec.maintenance = false;
  ALL_FINE ();
}

/* ---- Nodes. ---- */

static void
test_nodes (void)
{
  struct cluster_node *n;

  begin_array ();
  n = cluster_node_keep (engine, "host");
  n->rec.maintenance = true;
  FINE_BUT ("Node host is in maintenance.");
  n->rec.maintenance = false;
  n->rec.fenced = true;
  WARNS ("weftctl node fence off host");
  n->rec.removed = true;
  ALL_FINE ();
  n->rec.removed = n->rec.fenced = false;
  n->rec.shut_out = true;
  FINE_BUT ("Node host is shut out until it is enrolled again.");
  n->rec.shut_out = false;
  n->rec.draining = true; /* it has no member */
  FINE_BUT ("Node host is drained.");
  n->rec.draining = false;

  n = cluster_node_keep (engine, "n2");
  n->rec.draining = true;
  WAITS ("Node n2 is being drained.");
  known (4)->failed = known (5)->failed = true; /* there is nowhere to go */
  WARNS ("The drain of node n2 cannot go on");
  n->rec.draining = false;
  WARNS ("has failed");
}

/* ---- Disks that are no members. ---- */

static void
test_disks (void)
{
  struct cluster_disk_heartbeat hb = { .node = "n9", .path = "/dev/z" };

  begin_array ();
  known (4)->alive = false; /* blank, and nobody counts on it */
  ALL_FINE ();
  memcpy (known (4)->rec.spare_of, array ()->rec.uuid, 16);
  WARNS ("The spare, disk /dev/d4 of node n5, is silent");
  memset (known (4)->rec.spare_of, 0, 16);

  /* They wait for an import. */
  memset (hb.uuid, 77, 16);
  memset (hb.array, 78, 16);
  cluster_import_note (engine, &hb);
  WARNS ("Disk /dev/z of node n9 is refused");
  memset (hb.uuid, 79, 16);
  cluster_import_note (engine, &hb);
  WARNS ("Disk /dev/z of node n9 and 1 more are refused");
  live_on (80);
  ALL_FINE ();
}

/* ---- Arrays. ---- */

static void
test_arrays (void)
{
  struct cluster_array *a;

  rig_init ();
  live_on (4);
  expect_at (__LINE__, CLUSTER_INFO, false, "no array exists yet");
  begin_array ();
  a = array ();
  a->rec.ready = false;
  WAITS ("Array a is being made.");
  known (2)->took_place = false;
  WAITS ("Array a is being made and waits for member 2");
  known (2)->took_place = a->rec.ready = true;

  /* A change of epoch that is under way, and one that takes long. */
  a->rec.change.epoch = a->rec.epoch + 1;
  a->begun_live_ms = engine->live_ms;
  a->rec.change.confirm[1] = true;
  WAITS ("Array a changes: it asks member 1");
  engine->live_ms += 5000;
  WARNS ("Array a waits for member 1");

  begin_array ();
  snprintf (engine->read_only, sizeof engine->read_only, "The database is old");
  FAILS ("The database is old.");
}

static void
test_service (void)
{
  struct cluster_array *a;

  begin_array ();
  a = array ();
  a->rec.service_nodes = 2;
  snprintf (a->rec.service_node[0], sizeof a->rec.service_node[0], "s1");
  snprintf (a->rec.service_node[1], sizeof a->rec.service_node[1], "s2");
  WARNS ("Nobody serves array a");
  a->rec.service_nodes = 0;
  attach (true);
  ALL_FINE ();
  a->rec.service_nodes = 2;
  WARNS ("No other node stands by");
  a->stands[1].asked_live_ms = engine->live_ms;
  ALL_FINE ();
  a->rec.service_nodes = 1; /* nobody else is meant to */
  ALL_FINE ();
}

/* ---- Sessions. ---- */

static struct cluster_session *
add_session (const char *node, bool writable)
{
  struct cluster_session *s = alloc_zeroed (sizeof *s);
  static uint64_t id = 1000;

  s->rec = (struct cluster_session_record) { .id = ++id,
                                             .pid = id,
                                             .writable = writable,
                                             .epoch = array ()->rec.epoch,
                                             .since_wall_ms = id };
  snprintf (s->rec.node, sizeof s->rec.node, "%s", node);
  snprintf (s->rec.array_name, sizeof s->rec.array_name, "a");
  memcpy (s->rec.array, array ()->rec.uuid, 16);
  s->epoch = s->arrived = array ()->rec.epoch;
  s->heard = s->alive = true;
  s->last_live_ms = engine->live_ms;
  cluster_session_insert (engine, s);
  cluster_session_join (s, array ());
  return s;
}

/* Who only reads has nothing to flush. */
static void
test_silent_readers (void)
{
  struct cluster_session *s[3], *again;

  begin_array ();
  s[0] = add_session ("n1", false);
  s[1] = add_session ("n2", false);
  s[2] = add_session ("far", false);
  ALL_FINE ();
  s[0]->alive = false; /* its node is heard */
  WAITS ("Node n1, process 1001, which reads array a, has been silent");
  s[1]->alive = false;
  WAITS ("process 1001, which reads array a, and 1 more that read, have been");
  assert (!says ("flush") && !says ("process 1002"));
  again = add_session ("n1", false); /* it was started again */
  WAITS ("Node n2, process 1002, which reads array a, has been silent");
  again->alive = false;
  WAITS ("process 1002, which reads array a, and 1 more that read, have been");
  s[2]->alive = false;
  WARNS (
    "Node far, process 1003, which reads array a, has been silent for 0 s. "
    "A silent reader answers no read, and nothing is lost with it. If it");
  assert (!says ("flush"));
}

static void
test_silent_writers (void)
{
  struct cluster_session *s;

  begin_array ();
  s = add_session ("n1", true);
  ALL_FINE ();
  s->alive = false;
  WARNS ("which writes array a, has been silent for 0 s. If the process died, "
         "writes that it acknowledged and did not flush may be lost");
  s->rec.service = true;
  WARNS ("which serves array a, has been silent for 0 s. Clients wait");
  s->rec.service = false;
  s->rec.part.length = MiB (1);
  WARNS ("which shares array a, has been silent");
  s->alive = true;
  ALL_FINE ();
  snprintf (s->stopped, sizeof s->stopped, "it has lost member 2");
  FAILS ("Array a has stopped: it has lost member 2");
  s->stopped[0] = '\0';
  s->lost[1] = true;
  s->retry_live_ms[1] = engine->live_ms + 5000;
  WARNS ("Array a waits for node n1 to reach member 1");
  s->lost[1] = false;
  s->doubt.kind = CLUSTER_DOUBT_LIE;
  WARNS ("can't be so");
  s->doubt.kind = CLUSTER_DOUBT_OPEN;
  FAILS ("Array a stands still");
}

int
main (void)
{
  test_members ();
  test_nodes ();
  test_disks ();
  test_arrays ();
  test_service ();
  test_silent_readers ();
  test_silent_writers ();
  return 0;
}
