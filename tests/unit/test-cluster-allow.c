/* test-cluster-allow.c: which nodes may attach an array, and what becomes of those that
 * may not any more.  The disks are on nodes n1 to n4, the hosts are nodes of their own.
 */

#include <config.h>

#include "cluster/cluster-preflight.h"
#include "test-cluster-world.h"

#define KIM "administrator kim"

static struct cluster_allow
line (const char *node, const char *mode)
{
  struct cluster_allow a = { .writable = strcmp (mode, "ro") != 0,
                             .failover = strcmp (mode, "failover") == 0 };

  snprintf (a.node, sizeof a.node, "%s", node);
  return a;
}

/* An administrator does that; everybody hears what follows of it. */
#define ADMIN(call)                                                            \
  do {                                                                         \
    world.admin_answered = false;                                              \
    CALL (world.admin_op = ++weftd.op, call);                                  \
    carry_out ();                                                              \
    assert (world.admin_answered &&world.admin.kind == CLUSTER_REPLY_ARRAY);   \
  } while (0)

static void
allow (const struct host *h, const char *mode)
{
  struct cluster_allow a = line (h->node, mode);

  ADMIN (cluster_allow_set (engine, in, "a", &a, KIM));
}

static void
deny (const char *node)
{
  ADMIN (cluster_allow_drop (engine, in, "a", node, KIM));
}

/* An array, and hosts that are bound by its list. */
static void
begin (void)
{
  begin_array ();
  for (unsigned i = 0; i < HOSTS; i++)
    world.host[i].bound = true;
}

/* The list as one text: "n1 rw, n2 ro". */
static const char *
list (void)
{
  static char text[4096];
  size_t used = 0;

  text[0] = '\0';
  for (unsigned i = 0; i < rec ()->allow.nodes; i++) {
    const struct cluster_allow *a = &rec ()->allow.node[i];

    used += (size_t) snprintf (text + used, sizeof text - used, "%s%s %s",
                               i ? ", " : "", a->node,
                               a->failover   ? "failover"
                               : a->writable ? "rw"
                                             : "ro");
  }
  return text;
}

static bool
refused (struct host *h, const char *code)
{
  return strcmp (attach_refusal (h), code) == 0 &&
         h->refused == CLUSTER_FORBIDDEN;
}

/* The preflight's answer for people. */
static struct cluster_preflight f;

static void
fly (const char *array, const struct cluster_allow *a, bool drop)
{
  struct cluster_input in = input (++weftd.op);

  cluster_preflight_allow (engine, &in, array, a, drop, &f);
  assert (cluster_next_step (engine) == NULL);
}

/* ---- Which nodes may attach.  ---- */

static void
test_default (void)
{
  begin ();
  assert (rec ()->allow.listed);
  assert (strcmp (list (), "n1 rw, n2 rw, n3 rw, n4 rw") == 0);
  assert (refused (writer, "not-allowed"));
  assert (refused (reader, "not-allowed"));
  snprintf (writer->node, sizeof writer->node, "n2");
  attach_until_granted (writer);
  /* An administrator is bound by no list. */
  reader->bound = false;
  attach_until_granted (reader);
  assert (session (reader)->rec.by_admin && !session (writer)->rec.by_admin);
}

static void
test_named_at_create (void)
{
  struct cluster_create create = create_of ("a", LAYOUT_RAIDX, 0, MEMBERS);

  world_init (3);
  live_on (8);
  create.allow.listed = true;
  ADMIN (cluster_array_create (engine, in, &create));
  assert (rec ()->allow.listed && rec ()->allow.nodes == 0);
  UNTIL (rec ()->ready);
  writer->bound = true;
  snprintf (writer->node, sizeof writer->node, "n1");
  assert (refused (writer, "not-allowed"));
}

static void
test_modes (void)
{
  begin ();
  allow (writer, "rw");
  allow (reader, "ro");
  attach_until_granted (writer);
  attach_until_granted (reader);
  assert (strcmp (list (), "n1 rw, n2 rw, n3 rw, n4 rw, host0 rw, host2 ro") ==
          0);
  detach (writer);
  detach (reader);
  reader->writable = true;
  assert (refused (reader, "not-allowed"));
  allow (reader, "rw");
  attach_until_granted (reader);
  detach (reader);
  deny ("host2");
  assert (refused (reader, "not-allowed"));
  assert (strcmp (list (), "n1 rw, n2 rw, n3 rw, n4 rw, host0 rw") == 0);
}

/* The list is stored. */
static void
test_stored (void)
{
  begin ();
  allow (writer, "failover");
  attach_until_granted (writer);
  reader->bound = false;
  attach_until_granted (reader);
  reincarnate ();
  live_on (8);
  assert (strcmp (list (), "n1 rw, n2 rw, n3 rw, n4 rw, host0 failover") == 0);
  assert (session (reader)->rec.by_admin);
  assert (!session (writer)->rec.ended && !session (reader)->rec.ended);
  allow (other, "ro");
  reincarnate ();
  assert (cluster_allowed_find (&rec ()->allow, other->node));
  deny (other->node);
  reincarnate ();
  assert (!cluster_allowed_find (&rec ()->allow, other->node));
}

static void
test_asks_nonsense (void)
{
  struct cluster_allow a = line ("host0", "ro");

  begin ();
  a.failover = true;
  REFUSED (CLUSTER_INVALID, "failover",
           cluster_allow_set (engine, in, "a", &a, KIM));
  a = line ("host0", "rw");
  REFUSED (CLUSTER_NOT_FOUND, "unknown-array",
           cluster_allow_set (engine, in, "b", &a, KIM));
  REFUSED (CLUSTER_NOT_FOUND, "unknown-array",
           cluster_allow_drop (engine, in, "b", "host0", KIM));
  for (unsigned i = MEMBERS; i < ALLOW_NODES_MAX; i++) {
    snprintf (a.node, sizeof a.node, "x%u", i);
    ADMIN (cluster_allow_set (engine, in, "a", &a, KIM));
  }
  ADMIN (cluster_allow_set (engine, in, "a", &a, KIM)); /* it is there */
  a = line ("host0", "rw");
  REFUSED (CLUSTER_CONFLICT, "too-many",
           cluster_allow_set (engine, in, "a", &a, KIM));
  deny ("x9");
  deny ("never"); /* it is in no list */
  allow (writer, "rw");
}

/* ---- Takeover. ---- */

/* Only a host with the right may take over from a live holder. */
static void
test_takeover (void)
{
  uint64_t was, begin_ms;

  begin ();
  allow (writer, "rw");
  allow (other, "rw");
  attach_until_granted (writer);
  was = writer->session;
  other->takeover = true;
  assert (refused (other, "no-failover"));
  assert (!session (writer)->rec.ended);
  allow (other, "failover");
  attach_until_granted (other);
  assert (cluster_session_find (engine, was)->rec.ended);

  /* From one that is silent it goes as without an order. */
  begin ();
  allow (writer, "rw");
  allow (other, "rw");
  attach_until_granted (writer);
  begin_ms = weftd.now_ms;
  fall_silent (writer);
  other->takeover = true;
  live_on (QUIET_MS / CLUSTER_TICK_MS + 2);
  assert (strcmp (attach_refusal (other), "held") == 0);
  live_on (SESSION_TTL_MS / CLUSTER_TICK_MS);
  attach_until_granted (other);
  assert (weftd.now_ms - begin_ms >= SESSION_TTL_MS);

  /* The right to take it over is none to go round the array's service. */
  begin ();
  allow (writer, "rw");
  {
    struct cluster_service s = { .nodes = 1, .node = { "host1" } };

    ADMIN (cluster_service_set (engine, in, "a", &s));
  }
  writer->takeover = true;
  assert (strcmp (attach_refusal (writer), "served") == 0);
}

/* ---- The list shrinks. ---- */

static void
test_shrinks (void)
{
  uint64_t epoch, fence = 0;

  begin ();
  allow (writer, "rw");
  allow (reader, "ro");
  attach_until_granted (writer);
  attach_until_granted (reader);
  live_on (8);
  epoch = rec ()->epoch;
  deny (reader->node);
  assert (session (reader)->rec.ended && !session (writer)->rec.ended);
  assert (strstr (session (reader)->rec.reason, KIM));
  live_on (4);
  assert (reader->over && !writer->over && rec ()->epoch == epoch);

  /* A writer's end fences the members. */
  deny (writer->node);
  assert (session (writer)->rec.ended);
  UNTIL (rec ()->epoch > epoch);
  for (unsigned m = 0; m < MEMBERS; m++) {
    fence = rec ()->member[m].fence;
    assert (fence == rec ()->epoch && world.disk[m].min_epoch >= fence);
  }

  /* To read alone is less than to write. */
  begin ();
  allow (writer, "rw");
  attach_until_granted (writer);
  allow (writer, "failover");
  allow (writer, "rw");
  assert (!session (writer)->rec.ended);
  allow (writer, "ro");
  assert (session (writer)->rec.ended);

  /* A host that an administrator has attached stays. */
  begin ();
  writer->bound = false;
  attach_until_granted (writer);
  deny (writer->node);
  assert (!session (writer)->rec.ended);
}

/* An attach that waits is not granted by a right that is gone. */
static void
test_shrinks_meanwhile (void)
{
  begin ();
  allow (writer, "rw");
  attach_until_granted (writer);
  detach (writer);
  cut_off (0); /* so an attach waits for it to confirm */
  writer->answered = false;
  host_attach (writer);
  live ();
  assert (!writer->answered && !writer->attached);
  CALL (++weftd.op, cluster_allow_drop (engine, in, "a", writer->node, KIM));
  carry_out ();
  assert (writer->answered && !writer->attached);
  assert (strcmp (writer->code, "not-allowed") == 0);
  live_on (60);
  assert (!writer->attached);

  /* The same of one that waits for the holder to speak. */
  begin ();
  allow (writer, "rw");
  allow (other, "rw");
  attach_until_granted (writer);
  writer->alive = false;
  other->answered = false;
  host_attach (other);
  carry_out ();
  assert (!other->answered);
  CALL (++weftd.op, cluster_allow_drop (engine, in, "a", other->node, KIM));
  carry_out ();
  assert (other->answered && strcmp (other->code, "not-allowed") == 0);
}

/* A database in which others have shortened the list. */
static void
test_heartbeat (void)
{
  begin ();
  allow (writer, "rw");
  attach_until_granted (writer);
  cluster_access_remove (&array ()->rec.allow, writer->node);
  live_on (8);
  assert (writer->over && session (writer)->rec.ended);
}

/* ---- An array of an older weftd. ---- */

static void
test_any (void)
{
  struct cluster_allow a = line ("host1", "ro");

  begin ();
  array ()->rec.allow = (struct cluster_allow_list) { .listed = false };
  attach_until_granted (writer);
  attach_until_granted (reader);
  /* Anybody could take over, and still can. */
  other->takeover = true;
  attach_until_granted (other);
  other->takeover = false;
  detach (other);
  writer->over = writer->attached = false;
  attach_until_granted (writer);

  fly ("a", &a, false);
  assert (f.allowed && strcmp (f.confirm, "a") == 0);
  assert (f.lines_count == 2); /* a host of which nobody has heard; the list */
  allow (other, "ro");
  assert (strcmp (list (), "n1 rw, n2 rw, n3 rw, n4 rw, host2 ro, host0 rw, "
                           "host1 ro") == 0);
  live_on (8);
  assert (writer->attached && reader->attached);

  /* To deny one begins the list as well. */
  array ()->rec.allow = (struct cluster_allow_list) { .listed = false };
  deny ("n2");
  assert (strcmp (list (), "n1 rw, n3 rw, n4 rw, host2 ro, host0 rw") == 0);
  live_on (8);
  assert (writer->attached && reader->attached);
}

/* ---- The service. ---- */

static void
test_service (void)
{
  struct cluster_service s = { .nodes = 2, .node = { "host0", "host1" } };
  uint64_t fences;

  begin ();
  allow (other, "ro");
  fences = cluster_fence_number (engine);
  ADMIN (cluster_service_set (engine, in, "a", &s));
  assert (strcmp (list (), "n1 rw, n2 rw, n3 rw, n4 rw, host1 rw, host0 rw") ==
          0);
  /* The serving host gets the change, by a new number. */
  assert (cluster_fence_number (engine) > fences);
  writer->writable = other->writable = true;
  writer->service = other->service = true;
  UNTIL (writer->attached && other->op != 0);
  fences = cluster_fence_number (engine);
  allow (reader, "ro");
  live_on (4);
  assert (cluster_fence_number (engine) > fences);
  assert (writer->hears == cluster_fence_number (engine));

  /* A candidate that is denied stops serving, and the other candidate takes over. */
  writer->alive = false;
  deny (writer->node);
  assert (session (writer)->rec.ended);
  assert (rec ()->service_nodes == 1 &&
          strcmp (rec ()->service_node[0], "host1") == 0);
  UNTIL (other->attached);
  deny ("n1"); /* it is none */
  assert (rec ()->service_nodes == 1 && other->attached);
}

/* A node that is gone is in no list. */
static void
test_removed (void)
{
  begin ();
  allow (writer, "rw");
  ASK (cluster_node_add (engine, in, writer->node));
  ASK (cluster_node_add (engine, in, other->node));
  {
    struct cluster_service s = { .nodes = 2, .node = { "host0", "host1" } };

    ADMIN (cluster_service_set (engine, in, "a", &s));
  }
  ASK (cluster_node_remove (engine, in, writer->node));
  assert (world.answer.kind == CLUSTER_REPLY_DONE);
  assert (strcmp (list (), "n1 rw, n2 rw, n3 rw, n4 rw, host1 rw") == 0);
  assert (rec ()->service_nodes == 1);
  assert (refused (writer, "not-allowed"));
  array ()->rec.allow = (struct cluster_allow_list) { .listed = false };
  ASK (cluster_node_remove (engine, in, other->node));
  assert (rec ()->service_nodes == 0);
}

/* The preflight's words to people. */
static void
test_preflight (void)
{
  struct cluster_allow a = line ("host0", "ro"), n = line ("n1", "rw");

  begin ();
  allow (writer, "rw");
  fly ("a", &n, false);
  assert (f.allowed && f.lines_count == 0);
  fly ("a", &a, true);
  assert (f.allowed && f.lines_count == 0);
  attach_until_granted (writer);
  fly ("a", &a, true);
  assert (f.allowed && f.lines_count == 1);
  assert (strstr (f.line[0], "cut off: its unflushed writes are lost"));
  fly ("a", &a, false);
  assert (f.lines_count == 1 && strstr (f.line[0], "cut off"));
  a.writable = true;
  fly ("a", &a, false);
  assert (f.lines_count == 0);
  fly ("b", &a, false);
  assert (!f.allowed && strcmp (f.why.code, "unknown-array") == 0);
  detach (writer);
  writer->bound = false;
  attach_until_granted (writer);
  fly ("a", &a, true);
  assert (f.lines_count == 1 && strstr (f.line[0], "goes on"));

  /* A session that serves through a process on another node may or may not be
   * affected. */
  detach (writer);
  writer->exports = true;
  attach_until_granted (writer);
  ASK (cluster_node_add (engine, in, "host1"));
  a = line ("host1", "ro");
  fly ("a", &a, true);
  assert (f.lines_count == 0);
  fly ("a", &a, false);
  assert (f.lines_count == 0);
  allow (other, "ro");
  fly ("a", &a, false);
  assert (f.lines_count == 0);
  fly ("a", &a, true);
  assert (f.lines_count == 0); /* an administrator's session lets any node in */
  detach (writer);
  allow (writer, "rw");
  writer->bound = true;
  attach_until_granted (writer);
  fly ("a", &a, false);
  assert (f.lines_count == 0);
  fly ("a", &a, true);
  assert (f.lines_count == 1 && strstr (f.line[0], "exports it, are cut off"));
  allow (other, "rw");
  fly ("a", &a, false);
  assert (f.lines_count == 1 && strstr (f.line[0], "array a on node host1"));
}

/* Fence numbers grow faster than the clock, and all that had them is dropped. */
static void
test_numbers (void)
{
  uint64_t newest;

  begin ();
  for (unsigned i = 0; i < 60; i++)
    allow (reader, i % 2 ? "ro" : "rw");
  newest = cluster_fence_number (engine);
  assert (newest > input (0).wall_ms / 1000 && newest == rec ()->allow_fence);
  CALL (++weftd.op, cluster_array_delete (engine, in, "a"));
  carry_out ();
  assert (cluster_array_find (engine, "a") == NULL);
  assert (cluster_fence_number (engine) == newest);
  reincarnate ();
  assert (cluster_fence_number (engine) == newest);
  CALL (world.admin_op = ++weftd.op,
        cluster_node_fence (engine, in, "n1", true, "kim"));
  carry_out ();
  assert (cluster_node_find (engine, "n1")->rec.fence > newest);
}

int
main (void)
{
  test_default ();
  test_named_at_create ();
  test_modes ();
  test_stored ();
  test_asks_nonsense ();
  test_takeover ();
  test_shrinks ();
  test_shrinks_meanwhile ();
  test_heartbeat ();
  test_any ();
  test_service ();
  test_removed ();
  test_numbers ();
  test_preflight ();
  return 0;
}
