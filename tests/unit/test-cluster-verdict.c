/* test-cluster-verdict.c: the verdict in each state of the cluster engine: its level, and
 * that it says "All is well" only if every byte has all of its copies and nothing waits.
 * The test sets the engine's states by hand, one after the other.
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
  d->presence = flags & UNHEARD ? DISK_UNHEARD : DISK_HEARD;
  d->state = flags & FAILED ? DISK_FAILED : DISK_SERVING;
  d->old_copy = flags & OLD;
  d->took_place = !(flags & PLACELESS);
  d->doubt.kind = doubt;
  if (flags & SINGLE)
    a->rec.member[2].state = MEMBER_OUT;
  cluster_node_keep (engine, "n2")->rec.maintenance = flags & MAINTENANCE;

  well = state == MEMBER_IN_SYNC && doubt == CLUSTER_DOUBT_NONE &&
         !(flags & ~(unsigned) (HELD | MAINTENANCE | PLACELESS)) &&
         !(flags & PLACELESS && cluster_disk_heard (d));
  if (doubt == CLUSTER_DOUBT_OPEN ||
      (flags & SINGLE && (uncounted || state != MEMBER_IN_SYNC)))
    FAILS ("rray a");
  else if (state == MEMBER_IN_SYNC && doubt == CLUSTER_DOUBT_NONE &&
           (flags & ~(unsigned) (HELD | MAINTENANCE | PLACELESS)) == UNHEARD)
    WAITS ("has not yet heard of 1 member of array a");
  else if (!well)
    WARNS (flags & SINGLE               ? "member 2"
           : doubt == CLUSTER_DOUBT_LIE ? "impossible report"
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

/* ---- Each flag, state and reason of the engine's objects, one at a time. ----
 *
 * tests/form/test_verdict.py wants a row for each.  Everything else is well, except for state
 * that a function sets before its rows.
 */

#define OF_cluster engine
#define OF_cluster_identity (&engine->identity)
#define OF_cluster_node_record (&cluster_node_keep (engine, "n2")->rec)
#define OF_cluster_array array ()
#define OF_cluster_array_record (&array ()->rec)
#define OF_cluster_allow_list (&array ()->rec.allow)
#define OF_cluster_allow (&array ()->rec.allow.node[0])
#define OF_cluster_over (&array ()->rec.over[0])
#define OF_cluster_change (&array ()->rec.change)
#define OF_cluster_member (&array ()->rec.member[1])
#define OF_cluster_disk known (1)
#define OF_cluster_disk_record (&known (1)->rec)
#define OF_cluster_doubt (&known (1)->doubt)
#define OF_cluster_disk_heartbeat known (1)->said
#define OF_cluster_join (&known (1)->join)
#define OF_cluster_join_order (&known (1)->told.order)
#define OF_cluster_eta (&known (1)->eta)
#define OF_cluster_told (&known (1)->told)
#define OF_cluster_grants (&known (1)->grants)
#define OF_cluster_session writer ()
#define OF_cluster_session_record (&writer ()->rec)
#define OF_cluster_session_reply (&writer ()->told)
#define OF_cluster_path (&writer ()->path[1])
#define OF_cluster_lessee (&writer ()->lessee)
#define OF_cluster_leases array ()->leases

#define TRY(type, change, expected)                                            \
  do {                                                                         \
    struct type *it = OF_##type, before_ = *it;                                \
    change;                                                                    \
    expected;                                                                  \
    *it = before_;                                                             \
  } while (0)

/* The field is the other way round; it is this value; it is a reason. */
#define FLAG(type, field, expected) TRY (type, it->field = !it->field, expected)
#define STATE(type, field, value, expected)                                    \
  TRY (type, it->field = value, expected)
#define REASON(type, field, expected)                                          \
  TRY (type, strcpy (it->field, "Sand in it"), expected)

static struct cluster_session *
writer (void)
{
  return cluster_array_writer (array ());
}

static void
try_weftd (void)
{
  FLAG (cluster, has_identity, ALL_FINE ());
  FLAG (cluster, started, ALL_FINE ());
  FLAG (cluster, hurry, ALL_FINE ());
  REASON (cluster, read_only, FAILS ("Sand in it."));
  REASON (cluster, room, WARNS ("Sand in it."));
  REASON (cluster, revoked_doubt, WARNS ("Sand in it."));
  REASON (cluster, audit, WARNS ("Sand in it."));
  REASON (cluster, doubt_claim, ALL_FINE ());    /* of no node */
  FLAG (cluster_identity, restore, ALL_FINE ()); /* its arrays are restored */
  FLAG (cluster_node_record, maintenance, FINE_BUT ("n2 is in maintenance"));
  FLAG (cluster_node_record, draining, WAITS ("n2 is being drained"));
  FLAG (cluster_node_record, fenced, WARNS ("n2 is fenced"));
  FLAG (cluster_node_record, removed, ALL_FINE ());
  FLAG (cluster_node_record, shut_out, FINE_BUT ("n2 is shut out"));
}

static void
try_array (void)
{
  struct cluster_leases leases = { 0 };

  REASON (cluster_array, waits, ALL_FINE ()); /* it is not being restored */
  FLAG (cluster_array, known[1], ALL_FINE ());
  FLAG (cluster_array, renumbered, ALL_FINE ());
  FLAG (cluster_array, progressed, ALL_FINE ());
  FLAG (cluster_array, stands[1].shown, ALL_FINE ());
  FLAG (cluster_array, is_due, ALL_FINE ());
  FLAG (cluster_array, is_changing, ALL_FINE ());
  FLAG (cluster_array, deferred, ALL_FINE ());
  FLAG (cluster_array_record, ready, WAITS ("Array a is being made"));
  FLAG (cluster_array_record, restoring, FAILS ("Array a is frozen"));
  STATE (cluster_array_record, pool, CLUSTER_POOL_NONE, ALL_FINE ());
  STATE (cluster_array_record, pool, CLUSTER_POOL_UNKNOWN, ALL_FINE ());
  STATE (cluster_array_record, pool, CLUSTER_POOL_BLANK, ALL_FINE ());
  STATE (cluster_array_record, pool, CLUSTER_POOL_READY, ALL_FINE ());
  STATE (cluster_array_record, pool, CLUSTER_POOL_UNSCANNED,
         WARNS ("may be older than pool a"));
  FLAG (cluster_array_record, risky, ALL_FINE ());
  FLAG (cluster_array_record, unequal, ALL_FINE ());
  FLAG (cluster_array_record, to_recover, ALL_FINE ()); /* no bit is set */
  known (1)->dirty_extents = 1;
  FLAG (cluster_array_record, to_recover,
        WARNS ("resynchronizes at most 4 MiB of"));
  known (1)->dirty_extents = 0;
  FLAG (cluster_allow_list, listed, ALL_FINE ());
  FLAG (cluster_allow, writable, ALL_FINE ());
  FLAG (cluster_allow, failover, ALL_FINE ());
  FLAG (cluster_over, ordered, ALL_FINE ());
  FLAG (cluster_change, sessions, ALL_FINE ()); /* no change is under way */
  FLAG (cluster_change, confirm[1], ALL_FINE ());
  TAILQ_INIT (&leases.asks);
  array ()->leases = &leases;
  FLAG (cluster_leases, starting, ALL_FINE ()); /* nobody waits for one */
  FLAG (cluster_leases, still, ALL_FINE ());
  array ()->leases = NULL;
}

static void
try_member_fields (void)
{
  STATE (cluster_member, state, MEMBER_IN_SYNC, ALL_FINE ());
  STATE (cluster_member, state, MEMBER_JOINING, WARNS ("will be rebuilt"));
  STATE (cluster_member, state, MEMBER_OUT, WARNS ("is out"));
  REASON (cluster_member, reason, ALL_FINE ()); /* these are of a member that */
  FLAG (cluster_member, planned, ALL_FINE ());  /* is out, or joins */
  FLAG (cluster_member, held, ALL_FINE ());
  FLAG (cluster_member, slow, ALL_FINE ());
  FLAG (cluster_member, reset, ALL_FINE ());
  FLAG (cluster_member, partly, ALL_FINE ());
  FLAG (cluster_member, anew, ALL_FINE ());
  FLAG (cluster_member, paused, WARNS ("is paused"));
  FLAG (cluster_member, differs, ALL_FINE ()); /* no bit is set */
  known (1)->dirty_extents = 1;
  FLAG (cluster_member, differs, WARNS ("came back without its unflushed"));
  known (1)->dirty_extents = 0;
  member (1)->state = MEMBER_OUT;
  REASON (cluster_member, reason, WARNS ("is out"));
  FLAG (cluster_member, planned, WARNS ("is out"));
  FLAG (cluster_member, held, WARNS ("To end the hold"));
  FLAG (cluster_member, slow,
        WARNS ("far slower than its peers, and stays out"));
  FLAG (cluster_member, reset, WARNS ("is out"));
  FLAG (cluster_member, partly, WARNS ("is out"));
  member (1)->state = MEMBER_JOINING;
  FLAG (cluster_member, anew, WARNS ("will be rebuilt"));
  STATE (cluster_join, phase, CLUSTER_JOIN_NONE, WARNS ("will be rebuilt"));
  STATE (cluster_join, phase, CLUSTER_JOIN_WAITING, WARNS ("will be rebuilt"));
  STATE (cluster_join, phase, CLUSTER_JOIN_GATHERING,
         WARNS ("will be rebuilt"));
  STATE (cluster_join, phase, CLUSTER_JOIN_COPYING, WARNS ("is being rebuilt"));
  STATE (cluster_join, phase, CLUSTER_JOIN_SYNCED, WARNS ("is being rebuilt"));
  REASON (cluster_join, waits, WARNS ("waits for Sand in it"));
  member (1)->state = MEMBER_IN_SYNC;
}

static void
try_disk (void)
{
  FLAG (cluster_disk, alive, WARNS ("is silent"));
  STATE (cluster_disk, state, DISK_SERVING, ALL_FINE ());
  STATE (cluster_disk, state, DISK_STARTING, ALL_FINE ());
  STATE (cluster_disk, state, DISK_FAILED, WARNS ("has failed"));
  STATE (cluster_disk, state, DISK_REMOVED, WARNS ("has a disk that is gone"));
  FLAG (cluster_disk, old_copy, WARNS ("is an old copy of its disk"));
  FLAG (cluster_disk, took_place, WARNS ("is not whole: member 1"));
  STATE (cluster_disk, presence, DISK_UNHEARD,
         WAITS ("has not yet heard of 1 member"));
  STATE (cluster_disk, presence, DISK_FORMER,
         WAITS ("has not yet heard of 1 member"));
  STATE (cluster_disk, presence, DISK_HEARD, ALL_FINE ());
  FLAG (cluster_disk, proven, ALL_FINE ());
  FLAG (cluster_disk, blank, ALL_FINE ());
  FLAG (cluster_disk, served, ALL_FINE ());
  FLAG (cluster_disk, spoke, ALL_FINE ());
  FLAG (cluster_grants, source[1], ALL_FINE ());
  FLAG (cluster_grants, any, ALL_FINE ());
  FLAG (cluster_told, reply, ALL_FINE ());
  FLAG (cluster_told, key, ALL_FINE ());
  FLAG (cluster_told, known, ALL_FINE ());
  REASON (cluster_disk, reason, ALL_FINE ()); /* of a failure, or a refusal */
  known (1)->alive = false;
  REASON (cluster_disk, reason, WARNS ("process was refused: Sand in it."));
  known (1)->alive = true;
  /* The verdict reads only this field of the last report. */
  REASON (cluster_disk_heartbeat, shortage,
          WARNS ("refuses some writes for now: Sand in it."));
  REASON (cluster_disk_heartbeat, reason, ALL_FINE ());
  FLAG (cluster_disk_heartbeat, same, ALL_FINE ());
  FLAG (cluster_disk_heartbeat, has_load, ALL_FINE ());
  FLAG (cluster_disk_heartbeat, proven, ALL_FINE ());
  FLAG (cluster_disk_heartbeat, has_place, ALL_FINE ());
  STATE (cluster_disk_heartbeat, state, DISK_SERVING, ALL_FINE ());
  STATE (cluster_disk_heartbeat, state, DISK_STARTING, ALL_FINE ());
  STATE (cluster_disk_heartbeat, state, DISK_FAILED, ALL_FINE ());
  STATE (cluster_disk_heartbeat, state, DISK_REMOVED, ALL_FINE ());
  FLAG (cluster_join_order, paused, ALL_FINE ());
  FLAG (cluster_join_order, source[0], ALL_FINE ());
  FLAG (cluster_eta, known, ALL_FINE ());
  FLAG (cluster_disk_record, untold, ALL_FINE ());
  FLAG (cluster_disk_record, shut_out, ALL_FINE ());
  STATE (cluster_doubt, kind, CLUSTER_DOUBT_NONE, ALL_FINE ());
  STATE (cluster_doubt, kind, CLUSTER_DOUBT_OPEN, FAILS ("Array a is frozen"));
  STATE (cluster_doubt, kind, CLUSTER_DOUBT_LIE, WARNS ("impossible report"));
  REASON (cluster_doubt, claim, ALL_FINE ());
}

static void
try_session (void)
{
  FLAG (cluster_session, alive, WARNS ("has been silent"));
  FLAG (cluster_session, heard, ALL_FINE ());
  FLAG (cluster_session, draining, ALL_FINE ());
  FLAG (cluster_session, detaches, ALL_FINE ());
  FLAG (cluster_session_reply, leave, ALL_FINE ());
  FLAG (cluster_session_reply, hold, ALL_FINE ());
  REASON (cluster_session, stopped, FAILS ("Array a has stopped: Sand in it"));
  FLAG (cluster_path, lost, ALL_FINE ()); /* it gets it back at once */
  writer ()->path[1].retry_live_ms = engine->live_ms + 5000;
  FLAG (cluster_path, lost, WARNS ("Array a waits for"));
  writer ()->path[1].retry_live_ms = 0;
  FLAG (cluster_path, reported, ALL_FINE ());
  TRY (cluster_path, it->unreached_live_ms = engine->live_ms,
       WARNS ("Some hosts have lost member 1"));
  FLAG (cluster_path, reached, ALL_FINE ());
  FLAG (cluster_path, unconfirmed,
        ALL_FINE ()); /* the verdict names the wait */
  FLAG (cluster_session_record, writable, ALL_FINE ());
  FLAG (cluster_session_record, leases, ALL_FINE ());
  FLAG (cluster_session_record, service, ALL_FINE ());
  FLAG (cluster_session_record, by_admin, ALL_FINE ());
  FLAG (cluster_session_record, exports, ALL_FINE ());
  FLAG (cluster_session_record, scans, ALL_FINE ());
  FLAG (cluster_session_record, ended, ALL_FINE ());
  REASON (cluster_session_record, reason, ALL_FINE ()); /* of its end */
  FLAG (cluster_lessee, equal, ALL_FINE ());
  FLAG (cluster_lessee, declared, ALL_FINE ());
  FLAG (cluster_lessee, unequal, ALL_FINE ());
}

static void
test_each (void)
{
  begin_writing ();
  ALL_FINE ();
  try_weftd ();
  try_array ();
  try_member_fields ();
  try_disk ();
  try_session ();
  ALL_FINE ();
}

/* ---- What is wrong with a member, and what to do. ---- */

#define TROUBLE(change, reason, advice)                                        \
  TRY (cluster_disk, change, WARNS (reason); WARNS (advice))

static void
test_trouble (void)
{
  uint64_t exposed, unreachable, lost, lost_then;
  char text[80], bytes[32];

  begin_array ();
  TROUBLE (it->state = DISK_FAILED, "has failed, and 2", "Replace its disk.");
  TROUBLE (it->state = DISK_REMOVED, "has a disk that is gone",
           "check the disk, its");
  TROUBLE (it->old_copy = true, "is an old copy", "Put the right disk back.");
  TROUBLE (it->disk_stuck_ms = HUNG_MS, "has a disk that hangs, and 2",
           "Its process lives, but its disk does not answer");
  member (1)->state = MEMBER_OUT;
  TROUBLE (it->state = DISK_FAILED, "has failed, and is out",
           "Replace its disk.");
  TROUBLE (it->state = DISK_REMOVED, "gone, and is out",
           "or its path leads to another");
  TROUBLE (it->disk_stuck_ms = HUNG_MS, "has a disk that hangs, and is out",
           "Its process lives, but its disk does not answer");
  known (1)->spoke = true;
  TROUBLE (it->overdue = WORD_PLACE, "does not confirm weftd's orders",
           "it comes back by itself when it confirms");
  TROUBLE (it->back.backoff_ms = 1, "is out", "The member went out again soon");
  TROUBLE (it->spoke = true, "is out", "The member comes back by itself.");
  cluster_node_keep (engine, "n2")->rec.maintenance = true;
  WARNS ("Its node is in maintenance: no spare takes its place.");
  cluster_node_keep (engine, "n2")->rec.maintenance = false;
  known (2)->alive = false;
  FAILS (", and 1 more is away");
  FAILS ("start its process again.");
  known (2)->alive = true;
  member (1)->state = MEMBER_JOINING;
  WARNS ("it is being rebuilt, and 2");
  known (1)->join.phase = CLUSTER_JOIN_COPYING;
  REASON (cluster_join, waits, WARNS ("is to do; it waits for Sand in it"));
  TRY (cluster_join, it->unreadable_bytes = MiB (1),
       FAILS ("found no readable copy of 1 MiB"));

  begin_array_of (LAYOUT_RAID1, 2);
  known (0)->alive = known (1)->alive = false;
  FAILS (
    "Array a cannot serve 254.5 MiB of its data: member 0 (disk /dev/d0 of");
  member (1)->state = MEMBER_OUT;
  FAILS ("Array a cannot serve");
  member (0)->state = MEMBER_OUT;
  FAILS (
    "Array a has lost data: member 0 (disk /dev/d0 of node n1) is out, and "
    "1 more is away, and of");

  /* It counts what is lost, and not what comes back with a silent member. */
  begin_array ();
  member (0)->state = member (1)->state = MEMBER_OUT;
  cluster_array_exposure (array (), &exposed, &unreachable, &lost);
  known (2)->alive = false;
  snprintf (text, sizeof text, "2 more are away, and of %s no copy is left in",
            cluster_words_bytes (lost, bytes, sizeof bytes));
  FAILS (text);
  cluster_array_exposure (array (), &exposed, &unreachable, &lost_then);
  assert (lost_then == lost && unreachable > lost);

  begin_array_of (LAYOUT_RAID1, 3);
  member (1)->state = MEMBER_OUT;
  WARNS ("have fewer copies than they should");
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
  known (4)->state = known (5)->state =
    DISK_FAILED; /* there is nowhere to go */
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
  known (4)->state = DISK_REMOVED;
  WARNS ("isk /dev/d4 of node n5 is gone: ");
  known (4)->state = DISK_SERVING;

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
  WAITS ("No disk has registered yet");
  live_on (4);
  expect_at (__LINE__, CLUSTER_INFO, false, "no array exists yet");
  begin_array ();
  a = array ();
  a->rec.ready = false;
  WAITS ("Array a is being made.");
  known (2)->took_place = false;
  WAITS ("Array a is being made and waits for member 2");
  known (2)->took_place = a->rec.ready = true;

  /* A change of epoch is under way, and then takes long. */
  a->rec.change.epoch = a->rec.epoch + 1;
  a->begun_live_ms = engine->live_ms;
  a->rec.change.confirm[1] = true;
  WAITS ("Array a changes: it asks member 1");
  engine->live_ms += 5000;
  WARNS ("Array a waits for member 1");

  begin_array_of (LAYOUT_RAID0, 2);
  WAITS ("no array has any redundancy");

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
  WARNS (", or on another of its candidates.");
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

/* A reader has nothing to flush. */
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
  s->path[1].lost = true;
  s->path[1].retry_live_ms = engine->live_ms + 5000;
  WARNS ("Array a waits for node n1 to reach member 1");
  s->path[1].lost = false;
  s->doubt.kind = CLUSTER_DOUBT_LIE;
  WARNS ("impossible report");
  s->doubt.kind = CLUSTER_DOUBT_OPEN;
  FAILS ("Array a is frozen");
}

int
main (void)
{
  test_members ();
  test_each ();
  test_trouble ();
  test_nodes ();
  test_disks ();
  test_arrays ();
  test_service ();
  test_silent_readers ();
  test_silent_writers ();
  return 0;
}
