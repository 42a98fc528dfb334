/* test-cluster-unequal.c: a session ends, and copies may differ where it wrote.  For each
 * way of writing and each way to end: which session resynchronizes the copies, and what
 * the verdict, the exposure and ok-to-stop say until then.  The same table is in
 * docs/PROTOCOL.md, "Copies that an ended session leaves".
 */

#include <config.h>

#include "cluster/cluster-preflight.h"
#include "test-cluster-world.h"

#define UNIT KiB (256) /* of create_of */
/* An administrator's order; the others are answered, too. */
#define ORDER(call)                                                            \
  do {                                                                         \
    CALL (world.admin_op = ++weftd.op, call);                                  \
    UNTIL (world.admin_op == 0);                                               \
  } while (0)
#define DIRTY 2 /* extents, of each member, while somebody writes */

static enum cluster_unequal
unequal (void)
{
  const struct cluster_session *by;
  uint64_t bytes;

  return cluster_array_unequal (array (), &bytes, &by);
}

static void
set_dirty (uint64_t extents)
{
  for (unsigned m = 0; m < MEMBERS; m++)
    world.disk[m].dirty = extents;
  live_on (8);
}

/* All reports of the state agree. */
static void
expect (enum cluster_unequal wanted, const char *what)
{
  struct cluster_preflight f;
  uint64_t exposed;
  const char *why;

  live_on (2);
  assert (unequal () == wanted);
  cluster_array_exposure (array (), &exposed, NULL, NULL);
  assert ((exposed == 0) == (wanted == UNEQUAL_NONE));
  for (unsigned m = 0; m < MEMBERS; m++) {
    char node[8];

    if (!cluster_member_well (array (), m, &why)) {
      fprintf (stderr, "member %u %s\n", m, why);
      abort ();
    }
    snprintf (node, sizeof node, "n%u", m + 1);
    cluster_preflight_ok_to_stop (engine, node, &f);
    assert (f.allowed == (wanted == UNEQUAL_NONE));
    assert ((f.unequal_bytes == 0) == (wanted == UNEQUAL_NONE));
  }
  assert (says ("older data") == (wanted != UNEQUAL_NONE));
  assert (verdict () >= CLUSTER_WARNING || wanted == UNEQUAL_NONE);
  if (!says (what)) {
    char text[2048];

    cluster_verdict (engine, text, sizeof text);
    fprintf (stderr, "\"%s\" has no \"%s\"\n", text, what);
    abort ();
  }
}

/* ---- Ways of writing. ---- */

enum way { ALONE, BESIDE, PARTS, LEASES, SERVICE, WAYS };

/* An order that it has heard of is carried out: nothing is left there. */
static void
recover (struct host *h)
{
  static uint64_t number;
  struct cluster_lease_message w = { .number = 0 };
  uint64_t first = LEASE_NUMBERS (cluster_identity (engine)->generation);

  number = number < first ? first + 1 : number + 1;
  snprintf (w.instance, sizeof w.instance, "%s", h->instance);
  w.number = number;
  h->order = w.recovered = h->heard.recover;
  CALL (world.admin_op = ++weftd.op,
        cluster_session_leases (engine, in, h->session, &w));
  carry_out ();
  assert (world.admin.kind == CLUSTER_REPLY_LEASES);
  h->heard.recover = h->order = 0;
}

static void
set_service (void)
{
  struct cluster_service s = { .nodes = 2 };

  snprintf (s.node[0], sizeof s.node[0], "%s", writer->node);
  snprintf (s.node[1], sizeof s.node[1], "%s", other->node);
  ORDER (cluster_service_set (engine, in, "a", &s));
  assert (world.admin.kind == CLUSTER_REPLY_ARRAY);
}

static void
begin_service (void)
{
  set_service ();
  writer->service = true;
  UNTIL (writer->attached);
  other->service = true;
}

/* The database before anybody wrote. */
static struct cluster_record backup[RECORDS_MAX];
static size_t backup_count;

/* The writer writes, and the other one, too, if it can.  bound: by the array's list. */
static void
begin_bound (enum way way, bool bound)
{
  struct cluster_allow allow = { .writable = true };

  uint64_t half;

  begin_array ();
  memcpy (backup, weftd.store, sizeof backup);
  backup_count = weftd.stored;
  half = array ()->layout.size / UNIT / 2 * UNIT;
  writer->writable = other->writable = true;
  writer->bound = bound;
  snprintf (allow.node, sizeof allow.node, "%s", writer->node);
  if (bound)
    ORDER (cluster_allow_set (engine, in, "a", &allow, "kim"));
  if (way == PARTS) {
    writer->part = (struct cluster_part) { 0, half };
    other->part = (struct cluster_part) { half, array ()->layout.size - half };
  }
  writer->leases = other->leases = way == LEASES;
  if (way == SERVICE)
    begin_service ();
  else
    attach_until_granted (writer);
  if (way == PARTS || way == LEASES) {
    UNTIL (writer->heard.recover);
    recover (writer);
  }
  if (way == PARTS || way == LEASES)
    attach_until_granted (other);
  if (way == BESIDE)
    attach_until_granted (reader);
  set_dirty (DIRTY);
  expect (UNEQUAL_NONE, way == SERVICE ? "" : "All is well");
}

static void
begin (enum way way)
{
  begin_bound (way, false);
}

/* ---- Ways to end. ---- */

enum end {
  SILENT,
  HOST_LOST,
  EVICTED,
  FENCED,
  SHUT_OUT,
  DENIED,
  ENDED,
  TAKEN_OVER,
  DETACHED,
  ENDS
};

/* Why the session is over, as its record says; tests/form/test_ends.py has all reasons.  A
 * silent one is ended by the next that attaches, or by weftd, if others write.
 */
static const char *const reasons[ENDS] = {
  [SILENT] = "silent",
  [HOST_LOST] = "silent",
  [EVICTED] = "evicted by kim",
  [FENCED] = "evicted by fence",
  [SHUT_OUT] = "evicted by revoke",
  [DENIED] = "took its node's right to it",
  [ENDED] = "knows that this process has ended",
  [TAKEN_OVER] = "was told to",
  [DETACHED] = "it was detached",
};

/* Others that share the array go on, and the service's standby takes over by itself; so
 * nobody says there that the process has ended, or takes the array from it.
 */
static bool
happens (enum way way, enum end end)
{
  return way == ALONE || way == BESIDE || (end != ENDED && end != TAKEN_OVER);
}

static void
expect_reason (uint64_t id, enum end end)
{
  const struct cluster_session *s = cluster_session_find (engine, id);

  if (s && s->rec.ended && strstr (s->rec.reason, reasons[end]))
    return;
  fprintf (stderr, "end %d: \"%s\"\n", end, s ? s->rec.reason : "no session");
  abort ();
}

/* The writer's session is over, or it is silent. */
static void
finish (enum way way, enum end end)
{
  uint64_t session = writer->session;

  writer->service = false;
  switch (end) {
  case HOST_LOST: /* and weftd dies at the same time */
    fall_silent (writer);
    reincarnate ();
    UNTIL (cluster_copies_unheard (array ()) == MEMBERS);
    break;
  case SILENT:
  case ENDED: /* the next attach of its node reports that */
    fall_silent (writer);
    break;
  case EVICTED:
    ORDER (cluster_session_evict (engine, in, session, "kim"));
    break;
  case FENCED:
    ORDER (cluster_node_fence (engine, in, writer->node, true, "fence"));
    break;
  case SHUT_OUT:
    ORDER (cluster_node_shut_out (engine, in, writer->node, "revoke"));
    break;
  case DENIED:
    ORDER (cluster_allow_drop (engine, in, "a", writer->node, "kim"));
    break;
  case TAKEN_OVER: /* the next attach does that */
    break;
  default:
    detach (writer);
  }
  writer->alive = writer->attached = false;
}

/* ---- Each with each. ---- */

/* It is admitted again; after a revocation, as another node. */
static void
admit_again (enum end end)
{
  come_again (writer);
  snprintf (writer->instance, 16, "again");
  if (end == SHUT_OUT)
    snprintf (writer->node, sizeof writer->node, "enrolled");
  writer->bound = false;
  ORDER (cluster_node_fence (engine, in, writer->node, false, "admin"));
}

static void
attach_writer_again (enum end end)
{
  uint64_t session = writer->session;

  admit_again (end);
  writer->ended = end == ENDED ? session : 0;
  writer->takeover = end != ENDED;
  writer->service = false;
  writer->copying = true;
  attach_until_granted (writer);
}

/* The next that attaches ends the session: nothing is left in between. */
static void
handed_over (enum end end)
{
  attach_writer_again (end);
  expect (UNEQUAL_FIXED, "of array a after the end of a session");
  writer->copying = false;
}

/* Nobody else may write there: so it stays, until somebody attaches the array. */
static void
left_until_attached (enum end end)
{
  UNTIL (unequal () == UNEQUAL_LEFT);
  expect (UNEQUAL_LEFT, "Attach the array for writing");
  live_on (200);
  expect (UNEQUAL_LEFT, "Attach the array for writing");
  reincarnate ();
  UNTIL (unequal () == UNEQUAL_LEFT &&
         cluster_copies_unheard (array ()) == MEMBERS);
  live_on (8);
  expect (UNEQUAL_LEFT, "Attach the array for writing");
  handed_over (end);
}

static void
try (enum way way, enum end end)
{
  uint64_t session;

  begin_bound (way, end == DENIED);
  session = writer->session;
  /* test_restart covers what a sharing host says after weftd's start. */
  if (end == HOST_LOST && (way == PARTS || way == LEASES))
    return;
  finish (way, end);
  if (end == DETACHED) {
    live_on (20);
    expect (UNEQUAL_NONE, "");
    expect_reason (session, end);
    return;
  }
  switch (way) {
  case ALONE:
  case BESIDE:
    if (end == ENDED || end == TAKEN_OVER)
      handed_over (end);
    else
      left_until_attached (end);
    break;
  case PARTS:
  case LEASES: /* another one that is attached, when the session has ended */
    UNTIL (other->heard.recover);
    if (way == LEASES) { /* its ranges when it died: the whole array */
      assert (unequal () == UNEQUAL_FIXED);
      recover (other);
    }
    else {
      assert (other->heard.ranges_count == 1);
      assert (other->heard.ranges[0].offset == writer->part.offset);
      assert (other->heard.ranges[0].length == writer->part.length);
      expect (UNEQUAL_FIXED, "of array a after the end of a session");
      /* Nobody else writes there meanwhile. */
      admit_again (end);
      assert (strcmp (attach_refusal (writer), "changing") == 0);
      recover (other);
      UNTIL (unequal () == UNEQUAL_NONE);
      attach_until_granted (writer);
    }
    break;
  default: /* the standby */
    other->copying = true;
    UNTIL (other->attached);
    expect (UNEQUAL_FIXED, "of array a after the end of a session");
    other->copying = false;
  }
  UNTIL (unequal () == UNEQUAL_NONE);
  assert (!array ()->rec.to_recover);
  live_on (8);
  expect (UNEQUAL_NONE, "");
  /* The takeover by the next attach ends a silent lone writer. */
  if (end != HOST_LOST && !(end == SILENT && way < PARTS))
    expect_reason (session, end);
}

/* ---- All sessions end with weftd's database. ---- */

/* The array is imported from its members, or weftd goes on with a backup, which knows
 * nothing of the sessions.
 */
static void
take_over (bool restored)
{
  struct cluster_import import = { .name = "a" };

  memcpy (import.array, array ()->rec.uuid, 16);
  memcpy (weftd.store, backup, sizeof backup);
  weftd.stored = restored ? backup_count : 0;
  for (size_t i = 0; i < weftd.stored; i++)
    if (weftd.store[i].kind == CLUSTER_RECORD_IDENTITY)
      weftd.store[i].identity.restore = true;
  memset (weftd.history, 0, sizeof weftd.history);
  reincarnate ();
  if (restored)
    UNTIL (!array ()->rec.restoring);
  else {
    live_on (8);
    ORDER (cluster_array_import (engine, in, &import));
    assert (world.admin.kind == CLUSTER_REPLY_ARRAY);
  }
  UNTIL (whole () && writer->over);
}

/* The first host attaches the array, and has not resynchronized it yet. */
static void
attach_first (enum way way, struct host *h)
{
  come_again (h);
  h->copying = true;
  if (way == SERVICE)
    UNTIL (h->attached);
  else
    attach_until_granted (h);
  expect (UNEQUAL_FIXED, "of array a after the end of a session");
  if (way == PARTS || way == LEASES) {
    assert (h->heard.recover && h->heard.ranges_count == 1);
    assert (h->heard.ranges[0].length == array ()->layout.size);
  }
}

/* The first host resynchronizes the array.  If it ends before that is done, the next one
 * does.
 */
static void
test_taken_over (enum way way, bool restored, bool dies)
{
  begin (way);
  writer->service = other->service = false;
  take_over (restored);
  expect (UNEQUAL_LEFT, "Attach the array for writing");
  live_on (40);
  expect (UNEQUAL_LEFT, "Attach the array for writing");
  if (way == SERVICE)
    set_service ();
  writer->service = way == SERVICE;
  attach_first (way, writer);
  if (way == LEASES) {
    come_again (other);
    attach_until_granted (other);
    world.disk[0].holds = true;
  }
  writer->service = false;
  if (dies)
    fall_silent (writer);
  else
    detach (writer);
  writer->attached = false;
  if (way == LEASES) {
    UNTIL (session (writer)->rec.ended);
    expect (UNEQUAL_LEFT, "Another host that shares the array");
    assert (!other->heard.recover);
    world.disk[0].holds = false;
    UNTIL (other->heard.recover);
    assert (other->heard.ranges_count == 1);
    assert (other->heard.ranges[0].length == array ()->layout.size);
    expect (UNEQUAL_FIXED, "of array a after the end of a session");
    recover (other);
  }
  else {
    UNTIL (unequal () == UNEQUAL_LEFT);
    if (way != SERVICE)
      live_on (40);
    assert (unequal () == UNEQUAL_LEFT && array ()->rec.to_recover);
    other->takeover = dies;
    other->service = way == SERVICE;
    attach_first (way, other);
    other->copying = false;
    if (way == PARTS)
      recover (other);
  }
  UNTIL (unequal () == UNEQUAL_NONE);
  assert (!array ()->rec.to_recover);
  live_on (8);
  expect (UNEQUAL_NONE, "");
}

/* ---- More of parts. ---- */

/* The one that was to recover ends, too: it is left, and the next one is ordered all. */
static void
test_both_end (void)
{
  begin (PARTS);
  fall_silent (writer);
  UNTIL (other->heard.recover);
  fall_silent (other);
  UNTIL (unequal () == UNEQUAL_LEFT);
  reader->writable = true;
  reader->part = writer->part;
  reader->copying = true;
  attach_until_granted (reader);
  expect (UNEQUAL_FIXED, "of array a after the end of a session");
  assert (reader->heard.recover && reader->heard.ranges_count == 1);
  assert (reader->heard.ranges[0].length == array ()->layout.size);
  reader->copying = false;
  recover (reader);
  UNTIL (unequal () == UNEQUAL_NONE);
}

/* weftd dies during a recovery: until the host has said that it is at one, the range is
 * nobody's to attach; and it is recovered again.
 */
static void
test_restart (void)
{
  struct cluster_lease_message w = { .declare = true, .declared_count = 1 };
  struct cluster_part p;

  begin (PARTS);
  fall_silent (writer);
  UNTIL (other->heard.recover);
  p = other->heard.ranges[0];
  other->order = other->heard.recover;
  reincarnate ();
  writer->attached = false;
  come_again (writer);
  snprintf (writer->instance, 16, "again");
  live_on (8);
  assert (strcmp (attach_refusal (writer), "changing") == 0);
  expect (UNEQUAL_LEFT, "may differ");
  w.declared = &p;
  w.number = LEASE_NUMBERS (cluster_identity (engine)->generation) + 1000;
  snprintf (w.instance, sizeof w.instance, "%s", other->instance);
  CALL (world.admin_op = ++weftd.op,
        cluster_session_leases (engine, in, other->session, &w));
  carry_out ();
  assert (world.admin.kind == CLUSTER_REPLY_LEASES);
  assert (strcmp (attach_refusal (writer), "changing") == 0);
  expect (UNEQUAL_FIXED, "of array a after the end of a session");
  w.declare = false;
  w.declared_count = 0;
  w.number++;
  w.recovered = other->order;
  CALL (world.admin_op = ++weftd.op,
        cluster_session_leases (engine, in, other->session, &w));
  carry_out ();
  other->order = other->heard.recover = 0;
  attach_until_granted (writer);
  UNTIL (unequal () == UNEQUAL_NONE);
}

/* A part is not attached while nobody has recovered it yet: the only other one is about to
 * detach.
 */
static void
test_orphan_is_not_granted (void)
{
  begin (PARTS);
  other->ending = true;
  live_on (8);
  fall_silent (writer);
  UNTIL (session (writer)->rec.ended);
  writer->attached = false;
  come_again (writer);
  snprintf (writer->instance, 16, "again");
  live_on (8);
  assert (!other->heard.recover);
  assert (strcmp (attach_refusal (writer), "changing") == 0);
  other->ending = false;
  UNTIL (other->heard.recover);
  recover (other);
  attach_until_granted (writer);
  assert (!writer->heard.recover);
}

/* A process that was attached before a part was a lease declares nothing of its part: that is
 * on record, and is recovered when it dies.
 */
static void
test_part_on_record (void)
{
  struct host *h[] = { writer, other };

  begin (PARTS);
  reincarnate ();
  live_on (4);
  for (unsigned i = 0; i < 2; i++) {
    struct cluster_lease_message w = { .declare = true };

    w.number = LEASE_NUMBERS (cluster_identity (engine)->generation) + 1;
    snprintf (w.instance, sizeof w.instance, "%s", h[i]->instance);
    CALL (world.admin_op = ++weftd.op,
          cluster_session_leases (engine, in, h[i]->session, &w));
    carry_out ();
    assert (world.admin.kind == CLUSTER_REPLY_LEASES);
  }
  fall_silent (writer);
  UNTIL (other->heard.recover);
  assert (other->heard.ranges_count == 1);
  assert (other->heard.ranges[0].offset == writer->part.offset);
  assert (other->heard.ranges[0].length == writer->part.length);
}

/* A drain would rebuild the member from copies that may be older. */
static void
test_drain (void)
{
  begin (ALONE);
  fall_silent (writer);
  UNTIL (unequal () == UNEQUAL_LEFT);
  ORDER (cluster_node_drain (engine, in, "n1", true));
  assert (says ("a host to resynchronize the last writes of an ended session"));
  live_on (80);
  assert (state (0) == MEMBER_IN_SYNC);
}

/* ---- Members that are given back. ---- */

/* The member's host loses power while the array can't do without it: unflushed data is
 * gone, and the sessions go on.  Member 0 is still away.
 */
static void
give_back (enum way way)
{
  uint64_t fence;

  begin (way);
  die (0);
  fence = member (1)->fence;
  start_again (1);
  UNTIL (member (1)->fence > fence);
  assert (state (1) == MEMBER_IN_SYNC && member (1)->differs);
  live_on (8);
}

static void
expect_given_back (void)
{
  assert (unequal () == UNEQUAL_GIVEN_BACK && says ("member 1 (disk"));
  assert (says ("older data") && says ("that waits for member 0 (disk"));
  assert (state (1) == MEMBER_IN_SYNC);
}

/* As soon as the array can do without it, the member joins again, and no session ends for
 * that. */
static void
test_given_back (enum way way)
{
  uint64_t session_was, other_was;

  give_back (way);
  session_was = writer->session;
  other_was = other->session;
  expect_given_back ();
  if (way != PARTS && way != LEASES) { /* weftd knows it by its records */
    reincarnate ();
    UNTIL (cluster_copies_unheard (array ()) == MEMBERS);
    live_on (40);
    expect_given_back ();
  }
  heard_again (0);
  UNTIL (state (1) == MEMBER_OUT);
  assert (state (0) == MEMBER_IN_SYNC && member (1)->planned);
  assert (unequal () == UNEQUAL_NONE);
  UNTIL (whole ());
  live_on (40);
  expect (UNEQUAL_NONE, "");
  assert (writer->session == session_was && other->session == other_was);
}

/* The last writing session ends before that: the next one resynchronizes the copies. */
static void
test_given_back_ends (enum way way)
{
  give_back (way);
  writer->service = false;
  detach (writer);
  live_on (8);
  if (way == SERVICE) { /* the next server resynchronizes it */
    UNTIL (other->attached && unequal () == UNEQUAL_NONE);
    return;
  }
  if (other->attached) {
    assert (unequal () == UNEQUAL_GIVEN_BACK);
    detach (other);
  }
  UNTIL (unequal () == UNEQUAL_LEFT);
  heard_again (0);
  UNTIL (whole ());
  live_on (40);
  expect (UNEQUAL_LEFT, "Attach the array for writing");
  writer->part.length = writer->leases = false;
  attach_writer_again (EVICTED);
  expect (UNEQUAL_FIXED, "of array a after the end of a session");
  writer->copying = false;
  UNTIL (unequal () == UNEQUAL_NONE);
}

/* The member waits while it might copy older data than others read: another host has
 * died, and its ranges are not resynchronized yet.  A drain waits for both.
 */
static void
test_given_back_waits (void)
{
  give_back (LEASES);
  fall_silent (writer);
  UNTIL (session (writer)->rec.ended);
  heard_again (0);
  UNTIL (whole ());
  UNTIL (other->heard.recover);
  live_on (40);
  assert (state (1) == MEMBER_IN_SYNC && member (1)->differs);
  assert (says ("that waits for a host to resynchronize"));
  ORDER (cluster_node_drain (engine, in, "n1", true));
  live_on (8);
  assert (whole ());
  ORDER (cluster_node_drain (engine, in, "n1", false));
  recover (other);
  UNTIL (state (1) == MEMBER_OUT);
  UNTIL (whole () && unequal () == UNEQUAL_NONE);
}

static unsigned
differing (void)
{
  unsigned count = 0;

  for (unsigned m = 0; m < MEMBERS; m++)
    count += member (m)->differs;
  return count;
}

/* All but one may differ, as after a loss of power of all hosts.  No member is left that
 * differs, and each goes out only while all others are well.
 */
static void
test_several (void)
{
  unsigned out;

  begin_array_of (LAYOUT_RAIDX);
  writer->writable = true;
  attach_until_granted (writer);
  set_dirty (DIRTY);
  for (unsigned m = 0; m + 1 < MEMBERS; m++)
    member (m)->differs = true;
  while (differing () > 0 || !whole ()) {
    live ();
    out = 0;
    for (unsigned m = 0; m < MEMBERS; m++)
      out += state (m) != MEMBER_IN_SYNC;
    assert (out <= 1);
  }
  live_on (40);
  expect (UNEQUAL_NONE, "");
}

/* A member joins while one that may differ is among its sources: with more than two copies
 * it may lack what the third one has, so both are as they are until the next attach.
 */
static void
test_more_copies (void)
{
  begin_array_of (LAYOUT_RAID1);
  writer->writable = true;
  attach_until_granted (writer);
  set_dirty (DIRTY);
  die (1);
  UNTIL (state (1) == MEMBER_OUT);
  member (0)->differs = true;
  heard_again (1);
  UNTIL (whole ());
  live_on (40);
  assert (whole () && member (0)->differs && member (1)->differs);
  assert (!member (2)->differs && says ("attach it again"));
  ORDER (cluster_node_drain (engine, in, "n1", true));
  assert (says ("an administrator to detach array a everywhere"));
  ORDER (cluster_node_drain (engine, in, "n1", false));
  detach (writer);
  UNTIL (unequal () == UNEQUAL_LEFT);
  assert (differing () == 0);
  attach_writer_again (EVICTED);
  writer->copying = false;
  UNTIL (unequal () == UNEQUAL_NONE);
}

/* All copies of something were given back, and one member has kept what it had not flushed:
 * the others copy from it before it goes out itself.
 */
static void
test_kept_goes_last (void)
{
  begin_array_of (LAYOUT_RAIDX);
  writer->writable = true;
  attach_until_granted (writer);
  set_dirty (DIRTY);
  for (unsigned m = 0; m < MEMBERS; m++) {
    member (m)->differs = true;
    member (m)->lapse = array ()->rec.epoch - (m == 0);
  }
  while (member (0)->differs) {
    assert (state (0) == MEMBER_IN_SYNC);
    live ();
  }
  assert (state (0) == MEMBER_OUT && differing () == 0);
  UNTIL (whole () && unequal () == UNEQUAL_NONE);
}

/* ---- Members that are put out. ---- */

/* Member 0 is in-sync all the time until that is so. */
#define STAYS_UNTIL(what) UNTIL ((assert (state (0) == MEMBER_IN_SYNC), (what)))

/* A member that is well is to go out, and the writer ends before it has prepared itself.
 * The member may have what no other has: it stays until all is equal.
 */
static void
test_put_out_ends (enum way way, enum end end)
{
  begin_bound (way, end == DENIED);
  if (end == DETACHED || (end == HOST_LOST && (way == PARTS || way == LEASES)))
    return;
  writer->busy = true;
  member (0)->differs = true;
  UNTIL (rec ()->change.sessions && rec ()->change.states[0] == MEMBER_OUT);
  live_on (4);
  assert (state (0) == MEMBER_IN_SYNC);
  finish (way, end);
  switch (way) {
  case ALONE:
  case BESIDE:
    if (end != ENDED && end != TAKEN_OVER)
      STAYS_UNTIL (rounds_ == 80);
    writer->busy = false;
    attach_writer_again (end);
    assert (array ()->rec.to_recover);
    STAYS_UNTIL (rounds_ == 20);
    writer->copying = false;
    break;
  case PARTS:
  case LEASES:
    STAYS_UNTIL (other->heard.recover);
    recover (other);
    break;
  default:
    other->copying = true;
    STAYS_UNTIL (other->attached);
    other->copying = false;
  }
  STAYS_UNTIL (!array ()->rec.to_recover);
  UNTIL (whole () && differing () == 0);
}

/* ---- Readers beside hosts that are silent. ---- */

/* The readers' host says that it has lost the member, until it is out, or not any more. */
static uint64_t
lost_for_ms (unsigned member, uint64_t ms_max)
{
  uint64_t begun_ms = weftd.now_ms;

  while (reader->states[member] != MEMBER_OUT &&
         weftd.now_ms < begun_ms + ms_max) {
    if (reader->op == 0)
      lost (reader, member);
    live ();
  }
  return weftd.now_ms - begun_ms;
}

/* All who write are silent, and nobody else is there to take over. */
static void
begin_silence (enum way way)
{
  begin (way);
  if (!reader->attached)
    attach_until_granted (reader);
  live_on (8);
  writer->service = other->service = false;
  fall_silent (writer);
  fall_silent (other);
}

/* The member dies with them, and a good copy is there: readers wait for no more than the
 * TTL of a session, with some seconds for their reports and for members that confirm.
 */
static void
readers_go_on (enum way way, bool hangs)
{
  uint64_t min_epoch;

  begin_silence (way);
  min_epoch = world.disk[1].min_epoch;
  if (hangs)
    world.disk[0].stuck_ms = 10000; /* by its own word */
  else
    cut_off (0);
  assert (lost_for_ms (0, 60000) < SESSION_TTL_MS + 6000);
  assert (state (0) == MEMBER_OUT);
  assert (session (writer)->rec.ended);
  assert (world.disk[1].min_epoch > min_epoch &&
          !cluster_array_writer (array ()));
  UNTIL (reader->epoch == rec ()->epoch);
  assert (unequal () == UNEQUAL_LEFT && says ("Attach the array for writing"));
}

/* The session of a reader that stays silent ends, and nothing is left of it. */
static void
test_reader_stays_away (void)
{
  uint64_t begun_ms;

  begin (BESIDE);
  fall_silent (reader);
  begun_ms = weftd.now_ms;
  UNTIL (session (reader)->rec.ended);
  assert (weftd.now_ms - begun_ms >= READER_DROP_MS);
  assert (
    strstr (session (reader)->rec.reason, "it only read, and was silent"));
  assert (whole () && !session (writer)->rec.ended);
  expect (UNEQUAL_NONE, "All is well");
}

/* Nobody is ended on one word: weftd hears the member; or weftd was cut off, and the writer
 * has a TTL to be heard again.
 */
static void
test_writer_stays (void)
{
  begin_silence (ALONE);
  lost_for_ms (0, 60000);
  assert (state (0) == MEMBER_IN_SYNC && !session (writer)->rec.ended);

  begin_silence (ALONE);
  cut_off (0);
  fall_silent (reader);
  live_on (60);
  reader->alive = true;
  live_on (2);
  lost_for_ms (0, SESSION_TTL_MS - 2000);
  assert (!session (writer)->rec.ended);
  writer->alive = true;
  lost_for_ms (0, 5000);
  assert (state (0) == MEMBER_OUT && !session (writer)->rec.ended);
}

/* A change that loses nothing is called off: readers go on, and the writer when it is back. */
static void
test_called_off (void)
{
  begin (BESIDE);
  world.disk[1].slow = true;
  report_lost (writer, 1);
  UNTIL (world.disk[1].phase == CLUSTER_JOIN_COPYING);
  writer->busy = true;
  world.disk[1].slow = false;
  UNTIL (rec ()->change.sessions);
  fall_silent (writer);
  live_on (SESSION_TTL_MS / CLUSTER_TICK_MS + 8);
  assert (rec ()->change.epoch == 0 && reader->epoch == rec ()->epoch);
  assert (state (1) == MEMBER_JOINING && !session (writer)->rec.ended);
  writer->alive = true;
  writer->busy = false;
  UNTIL (whole ());
}

int
main (void)
{
  for (int way = 0; way < WAYS; way++)
    for (int end = 0; end < ENDS; end++)
      if (happens ((enum way) way, (enum end) end))
        try ((enum way) way, (enum end) end);
  for (int way = 0; way < WAYS; way++)
    for (int i = 0; i < 4; i++)
      test_taken_over ((enum way) way, i & 1, i & 2);
  test_both_end ();
  test_restart ();
  test_orphan_is_not_granted ();
  test_part_on_record ();
  test_drain ();
  for (int way = 0; way < WAYS; way++)
    for (int hangs = 0; hangs < 2; hangs++)
      readers_go_on ((enum way) way, hangs);
  for (int way = 0; way < WAYS; way++) {
    test_given_back ((enum way) way);
    test_given_back_ends ((enum way) way);
  }
  test_given_back_waits ();
  test_several ();
  test_more_copies ();
  test_kept_goes_last ();
  for (int way = 0; way < WAYS; way++)
    for (int end = 0; end < ENDS; end++)
      if (happens ((enum way) way, (enum end) end))
        test_put_out_ends ((enum way) way, (enum end) end);
  test_reader_stays_away ();
  test_writer_stays ();
  test_called_off ();
  return 0;
}
