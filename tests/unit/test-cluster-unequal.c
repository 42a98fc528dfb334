/* test-cluster-unequal.c: a session ends, and copies may differ where it wrote.  For each
 * way of writing and each way to end: who makes the copies equal, and what the verdict,
 * the exposure and ok-to-stop say until then.  The same table is in docs/PROTOCOL.md,
 * "Copies that an ended session leaves".
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

/* All that say how it is say the same. */
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
    cluster_ok_to_stop (engine, node, &f);
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
  struct cluster_lease_words w = { .number = 0 };
  uint64_t first = cluster_identity (engine)->generation << 32;

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
begin_service (void)
{
  struct cluster_service s = { .nodes = 2 };

  snprintf (s.node[0], sizeof s.node[0], "%s", writer->node);
  snprintf (s.node[1], sizeof s.node[1], "%s", other->node);
  ORDER (cluster_service_set (engine, in, "a", &s));
  assert (world.admin.kind == CLUSTER_REPLY_ARRAY);
  writer->service = true;
  UNTIL (writer->attached);
  other->service = true;
}

/* The writer writes, and the other one, too, if it can. */
static void
begin (enum way way)
{
  uint64_t half;

  begin_array ();
  half = array ()->layout.size / UNIT / 2 * UNIT;
  writer->writable = other->writable = true;
  if (way == PARTS) {
    writer->part = (struct cluster_part) { 0, half };
    other->part = (struct cluster_part) { half, array ()->layout.size - half };
    writer->orders = other->orders = true;
  }
  writer->leases = other->leases = way == LEASES;
  if (way == SERVICE)
    begin_service ();
  else
    attach_until_granted (writer);
  if (way == LEASES) {
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

/* ---- Ways to end. ---- */

enum end { SILENT, HOST_LOST, EVICTED, FENCED, ENDED, DETACHED, ENDS };

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
    UNTIL (cluster_array_unheard (array ()) == MEMBERS);
    break;
  case SILENT:
  case ENDED: /* that is told with the next attach of its node */
    fall_silent (writer);
    break;
  case EVICTED:
    ORDER (cluster_session_evict (engine, in, session, "admin"));
    break;
  case FENCED:
    ORDER (cluster_node_fence (engine, in, writer->node, true, "admin"));
    break;
  default:
    detach (writer);
  }
  writer->alive = writer->attached = false;
}

/* ---- Each with each. ---- */

static void
attach_writer_again (void)
{
  come_again (writer);
  snprintf (writer->instance, 16, "again");
  ORDER (cluster_node_fence (engine, in, writer->node, false, "admin"));
  writer->takeover = true;
  writer->service = false;
  writer->copying = true;
  attach_until_granted (writer);
}

/* Nobody else may write there: so it stays, until somebody attaches the array. */
static void
left_until_attached (void)
{
  UNTIL (unequal () == UNEQUAL_LEFT);
  expect (UNEQUAL_LEFT, "Attach the array for writing");
  live_on (200);
  expect (UNEQUAL_LEFT, "Attach the array for writing");
  reincarnate ();
  UNTIL (unequal () == UNEQUAL_LEFT &&
         cluster_array_unheard (array ()) == MEMBERS);
  live_on (8);
  expect (UNEQUAL_LEFT, "Attach the array for writing");
  attach_writer_again ();
  expect (UNEQUAL_FIXED, "makes copies of array a equal");
  writer->copying = false;
}

static void
try (enum way way, enum end end)
{
  begin (way);
  /* What a host that shares says after weftd's start: test_restart. */
  if (end == HOST_LOST && (way == PARTS || way == LEASES))
    return;
  finish (way, end);
  if (end == DETACHED) {
    live_on (20);
    expect (UNEQUAL_NONE, "");
    return;
  }
  switch (way) {
  case ALONE:
  case BESIDE:
    left_until_attached ();
    break;
  case PARTS:
  case LEASES: /* another one that is attached, when the session has ended */
    UNTIL (other->heard.recover);
    if (way == LEASES) { /* what it held when it died; the whole array */
      assert (unequal () == UNEQUAL_FIXED);
      recover (other);
    }
    else {
      assert (other->heard.ranges_count == 1);
      assert (other->heard.ranges[0].offset == writer->part.offset);
      assert (other->heard.ranges[0].length == writer->part.length);
      expect (UNEQUAL_FIXED, "makes copies of array a equal");
      /* Nobody else writes there meanwhile. */
      come_again (writer);
      snprintf (writer->instance, 16, "again");
      ORDER (cluster_node_fence (engine, in, writer->node, false, "admin"));
      assert (strcmp (attach_refusal (writer), "changing") == 0);
      recover (other);
      UNTIL (unequal () == UNEQUAL_NONE);
      attach_until_granted (writer);
    }
    break;
  default: /* who stands by */
    other->copying = true;
    UNTIL (other->attached);
    expect (UNEQUAL_FIXED, "makes copies of array a equal");
    other->copying = false;
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
  reader->writable = reader->orders = true;
  reader->part = writer->part;
  reader->copying = true;
  attach_until_granted (reader);
  expect (UNEQUAL_FIXED, "makes copies");
  reader->copying = false;
  UNTIL (reader->heard.recover);
  assert (reader->heard.ranges_count == 1);
  assert (reader->heard.ranges[0].offset == other->part.offset);
  recover (reader);
  UNTIL (unequal () == UNEQUAL_NONE);
}

/* A host of an older version recovers nothing, and all say so. */
static void
test_older_host (void)
{
  begin (PARTS);
  other->orders = false;
  live_on (8);
  fall_silent (writer);
  UNTIL (session (writer)->rec.ended);
  live_on (40);
  assert (!other->heard.recover);
  expect (UNEQUAL_LEFT, "may differ");
  other->orders = true;
  UNTIL (other->heard.recover);
}

/* weftd dies during a recovery: until the host has said that it is at one, the range is
 * nobody's to attach; and it is recovered again.
 */
static void
test_restart (void)
{
  struct cluster_lease_words w = { .declare = true, .declared_count = 1 };
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
  w.number = (cluster_identity (engine)->generation << 32) + 1000;
  snprintf (w.instance, sizeof w.instance, "%s", other->instance);
  CALL (world.admin_op = ++weftd.op,
        cluster_session_leases (engine, in, other->session, &w));
  carry_out ();
  assert (world.admin.kind == CLUSTER_REPLY_LEASES);
  assert (strcmp (attach_refusal (writer), "changing") == 0);
  expect (UNEQUAL_FIXED, "makes copies");
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

/* A drain would rebuild the member from copies that may be older. */
static void
test_drain (void)
{
  begin (ALONE);
  fall_silent (writer);
  UNTIL (unequal () == UNEQUAL_LEFT);
  ORDER (cluster_node_drain (engine, in, "n1", true));
  assert (says ("a host to make copies of array a equal"));
  live_on (80);
  assert (state (0) == MEMBER_IN_SYNC);
}

int
main (void)
{
  for (int way = 0; way < WAYS; way++)
    for (int end = 0; end < ENDS; end++)
      try ((enum way) way, (enum end) end);
  test_both_end ();
  test_older_host ();
  test_restart ();
  test_drain ();
  return 0;
}
