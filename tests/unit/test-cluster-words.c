/* test-cluster-words.c: messages to people are true: the verdict, what an array survives,
 * what is exposed, how long a rebuild will take, what is an error.
 */

#include <config.h>

#include "cluster/cluster-preflight.h"
#include "test-cluster-rig.h"

/* ---- Pauses. ---- */

static void
test_pause_of_nothing (void)
{
  struct cluster_member_tune pause = { .has_paused = true, .paused = true },
                             both = pause;

  both.has_floor = true;
  both.floor = MiB (9);
  begin_writing ();
  REFUSED ("in-sync", cluster_member_tune (engine, in, "a", 1, &pause));
  assert (strstr (rig.detail, "member 1 of array a (disk /dev/d1 of node n2)"));
  assert (strstr (rig.detail, "in-sync") && strstr (rig.detail, "rebuild ls"));
  REFUSED ("in-sync", cluster_member_tune (engine, in, "a", 1, &both));
  assert (member (1)->floor == 0);
  assert (!member (1)->paused);
  pause_copying (1, false);
  lose (1);
  UNTIL (state (1) == MEMBER_IN_SYNC);
}

static void
test_pause_stands (void)
{
  static const char *const said =
    "The rebuild of member 1 of array a is paused: "
    "weftctl rebuild resume a 1 ";
  struct fake_disk *d = &rig.disk[1];

  begin_writing ();
  DONE (cluster_node_maintain (engine, in, "n2", true, false));
  die (1);
  assert (verdict () == CLUSTER_WARNING && !says ("paused"));
  /* The pause also holds for a later rebuild. */
  pause_copying (1, true);
  assert (verdict () == CLUSTER_WARNING && says (said));
  restart ();
  assert (verdict () == CLUSTER_WARNING && says (said));
  d->dead = false;
  UNTIL (d->join.phase == CLUSTER_JOIN_COPYING);
  live_on (60);
  assert (state (1) == MEMBER_JOINING && says (said));
  pause_copying (1, false);
  assert (!says ("paused"));
  UNTIL (state (1) == MEMBER_IN_SYNC);

  /* It ends with the rebuild, and holds no other one. */
  copy_on (1);
  pause_copying (1, true);
  assert (says (said));
  d->stuck = false;
  d->join.phase = CLUSTER_JOIN_SYNCED; /* it had just come to the end */
  UNTIL (state (1) == MEMBER_IN_SYNC);
  assert (!says ("paused"));
  lose (1);
  UNTIL (state (1) == MEMBER_IN_SYNC);

  /* A pause that an older weftd left on an in-sync member holds nothing either. */
  for (size_t i = 0; i < weftd.stored; i++)
    if (weftd.store[i].kind == CLUSTER_RECORD_ARRAY)
      weftd.store[i].array.member[1].paused = true;
  restart ();
  live_on (8);
  assert (!says ("paused"));
  lose (1);
  UNTIL (state (1) == MEMBER_IN_SYNC);
}

/* ---- Promises. ---- */

static void
test_promise (void)
{
  struct fake_disk *d = &rig.disk[1];

  begin_writing ();
  die (1);
  /* weftd has not missed it yet, and promises nothing. */
  assert (array ()->disk[1]->alive);
  assert (says ("is out") && !says ("by itself"));
  assert (says ("No report has come since"));
  live_on (40);
  assert (!array ()->disk[1]->alive);
  assert (says ("Start its member process") && !says ("by itself"));
  /* It is heard of again, and on its way. */
  d->dead = false;
  UNTIL (array ()->disk[1]->spoke);
  assert (state (1) == MEMBER_OUT);
  assert (says ("The member comes back by itself."));
  UNTIL (state (1) == MEMBER_IN_SYNC);

  /* It was back, and goes out again each time: nobody knows. */
  lose (1);
  live_on (1);
  assert (state (1) == MEMBER_OUT && array ()->disk[1]->spoke);
  assert (says ("check its connection") && !says ("by itself"));
}

/* ---- What it survives. ---- */

static void
survives (const char *wanted)
{
  char said[400];

  cluster_array_survives (array (), said, sizeof said);
  if (strcmp (said, wanted) != 0) {
    fprintf (stderr, "\"%s\", not \"%s\"\n", said, wanted);
    abort ();
  }
}

static void
test_survives (void)
{
  begin_array ();
  survives ("any 1 member, and any 1 host");
  attach (true);
  rig.disk[1].stuck = true;
  lose (1);
  survives ("no further loss now (when all members are in-sync: any 1 "
            "member, and any 1 host)");
  UNTIL (rig.disk[1].join.phase == CLUSTER_JOIN_COPYING);
  survives ("no further loss now (when all members are in-sync: any 1 "
            "member, and any 1 host)");
  rig.disk[1].stuck = false;
  UNTIL (state (1) == MEMBER_IN_SYNC);
  survives ("any 1 member, and any 1 host");

  /* Also of a member that nobody has missed but weftd. */
  begin_array_of (LAYOUT_RAID10, 4);
  stop (1);
  survives ("any 1 more member but 3 (when all members are in-sync: any 1 "
            "member, up to 2 if no two of them are a mirrored pair, and any 1 "
            "host)");
  stop (0);
  survives ("no further loss now (when all members are in-sync: any 1 "
            "member, up to 2 if no two of them are a mirrored pair, and any 1 "
            "host)");
  stop (3);
  survives ("nothing: some data cannot be reached now (when all members are "
            "in-sync: any 1 member, up to 2 if no two of them are a mirrored "
            "pair, and any 1 host)");

  begin_array_of (LAYOUT_RAID1, 3);
  stop (1);
  survives ("any 1 more member (when all members are in-sync: any 2 "
            "members, and any 2 hosts)");

  begin_array_of (LAYOUT_RAID0, 2);
  stop (1);
  survives ("no failure at all");
}

/* ---- What is exposed. ---- */

static uint64_t
exposed (void)
{
  uint64_t bytes;

  cluster_array_exposure (array (), &bytes, NULL, NULL);
  return bytes;
}

static void
test_exposed (void)
{
  struct cluster_preflight f;
  struct fake_disk *d = &rig.disk[1];
  uint64_t all;

  begin_writing ();
  d->stuck = true;
  die (1);
  all = exposed ();
  assert (all == array ()->rec.member_bytes);
  d->dead = false;
  UNTIL (d->join.phase == CLUSTER_JOIN_COPYING);
  d->join.total_bytes = all + MiB (3); /* in whole extents */
  for (uint64_t todo = all + MiB (3); todo > MiB (8); todo -= MiB (8)) {
    d->join.todo_bytes = todo;
    live_on (4);
    assert (exposed () == (todo < all ? todo : all));
  }
  assert (says ("the next loss can take data"));
  /* Its copied data does not count as a copy when the array continues without it. */
  CALL (0, cluster_preflight_cancel (engine, in, "a", 1, &f));
  assert (f.allowed && f.exposed_bytes == all);
  d->dead = true;
  live_on (40);
  assert (exposed () == all);
  d->dead = false;
  UNTIL (state (1) == MEMBER_JOINING && d->join.phase == CLUSTER_JOIN_COPYING &&
         d->join.epoch == member (1)->fence);
  d->join.total_bytes = all;
  d->join.todo_bytes = 0;
  UNTIL (says ("100 % is done"));
  assert (exposed () == 0 && state (1) == MEMBER_JOINING);
  assert (verdict () == CLUSTER_WARNING);
  assert (!says ("degraded") && !says ("All is well"));
  array ()->disk[1]->join.epoch--; /* said of a joining that is over */
  assert (exposed () == all);

  /* Another member is out: its data stays exposed. */
  begin_writing_to (LAYOUT_RAID10, 4);
  die (0);
  copy_on (1);
  d->join.total_bytes = all;
  d->join.todo_bytes = MiB (4);
  live_on (4);
  assert (exposed () == array ()->rec.member_bytes + MiB (4));
}

/* ---- How long it will take. ---- */

/* A rebuild of 16 GiB begins at `slow` bytes a second, gets 15 % faster each second up to
 * `fast`, and reports its progress every two seconds.  The predicted end is always close
 * to the real one.
 */
static void
run_eta (uint64_t slow, uint64_t fast)
{
  struct cluster_eta e = { 0 };
  struct cluster_join join = { .phase = CLUSTER_JOIN_COPYING,
                               .epoch = 7,
                               .todo_bytes = GiB (16) };
  double todo = GiB (16), rate = (double) slow, told[2000] = { 0 };
  unsigned ms, count = 0, first = 0;

  for (ms = 0; todo > 0; ms += 250, count++) {
    assert (count < 2000);
    todo -= rate / 4;
    if (ms % 1000 == 0 && rate < (double) fast)
      rate = rate * 1.15 < (double) fast ? rate * 1.15 : (double) fast;
    if (ms % 2000 == 0)
      join.todo_bytes = todo > 0 ? (uint64_t) todo : 0;
    cluster_eta_note (&e, 1000 + ms, &join);
    if (e.known) {
      told[count] = (double) join.todo_bytes / e.rate;
      if (first == 0)
        first = ms;
    }
  }
  assert (first > 6000); /* not at once */
  assert (slow != fast || first < 12000);
  for (unsigned i = 0; i < count; i++) {
    double left = (ms - i * 250) / 1000.0;

    assert (told[i] == 0 || left < 5 ||
            (told[i] < 2 * left && left < 2 * told[i]));
  }
}

static uint64_t
eta_ms (void)
{
  return cluster_join_eta_ms (engine, array (), 1);
}

/* It copies 32 MiB in each second of so many, as it says every other one. */
static void
copy (struct fake_disk *d, unsigned seconds)
{
  for (unsigned s = 0; s < seconds; s++) {
    if (s % 2 == 0)
      d->join.todo_bytes -= MiB (64);
    live_on (4);
  }
}

static void
test_eta (void)
{
  struct fake_disk *d = &rig.disk[1];

  run_eta (MiB (120), MiB (120));
  run_eta (MiB (4), MiB (120)); /* it would have been wrong by 30 */
  run_eta (MiB (1), MiB (1000));

  begin_copying (LAYOUT_RAIDX, MEMBERS);
  d->join.total_bytes = d->join.todo_bytes = GiB (8);
  d->join.rate = MiB (1); /* most of it are holes */
  copy (d, 4);
  assert (eta_ms () == 0);
  copy (d, 10);
  assert (eta_ms () > 200000 && eta_ms () < 300000); /* 242 s */
  pause_copying (1, true);
  assert (eta_ms () == 0);
  live_on (60);
  pause_copying (1, false);
  copy (d, 2);
  assert (eta_ms () == 0); /* the pause is not measured */
  copy (d, 12);
  assert (eta_ms () > 200000 && eta_ms () < 300000);
  restart ();
  live_on (8);
  assert (eta_ms () == 0);
}

/* ---- Drains. ---- */

static size_t
stays (const char *node, struct cluster_stay first[1])
{
  size_t count, real = 0;
  bool moving;
  struct cluster_stay *list = cluster_node_stays (engine, node, &count,
                                                  &moving);

  for (size_t i = 0; i < count; i++)
    if (!list[i].passes && real++ == 0)
      *first = list[i];
  free (list);
  return real;
}

static void
test_drain_nowhere (void)
{
  struct cluster_stay s;
  struct cluster_job job;

  rig_init ();
  rig.disk[4].uuid[0] = 2; /* on n2, as member 1 of "a" */
  rig.disk[5].dead = true;
  make_array ();
  make_array_of ("b", LAYOUT_RAID0, 4, 1);
  attach (true);
  assert (verdict () == CLUSTER_INFO && says ("All is well"));
  DONE (cluster_node_drain (engine, in, "n2", true));
  /* At once, and as long as it stands. */
  for (unsigned i = 0; i < 2; i++) {
    assert (verdict () == CLUSTER_WARNING);
    assert (!says ("All is well"));
    assert (says ("The drain of node n2 cannot go on"));
    assert (says ("a spare or blank disk of at least"));
    assert (says ("member 1 of array a"));
    assert (says ("and 1 more member stays (weftctl node show n2)"));
    assert (says ("weftctl node drain n2 --stop ends it."));
    assert (stays ("n2", &s) == 2);
    assert (s.array == array () && s.member == 1);
    assert (strstr (s.waits, "a spare or blank disk"));
    live_on (60);
  }
  restart ();
  live_on (8);
  assert (verdict () == CLUSTER_WARNING && stays ("n2", &s) == 2);

  /* One member can move, and the other stays anyway. */
  rig.disk[5].dead = false;
  rig.disk[5].stuck = true;
  UNTIL (rig.disk[5].join.phase == CLUSTER_JOIN_COPYING);
  assert (stays ("n2", &s) == 1 && s.array != array ());
  assert (strstr (s.waits, "no redundancy"));
  assert (!says ("cannot go on") && says ("being drained"));
  rig.disk[5].join.total_bytes = rig.disk[5].join.todo_bytes = GiB (8);
  copy (&rig.disk[5], 4);
  cluster_job_drain (engine, cluster_node_find (engine, "n2"), &job);
  assert (job.state == CLUSTER_JOB_RUNNING && job.eta_ms == 0);
  copy (&rig.disk[5], 10);
  cluster_job_drain (engine, cluster_node_find (engine, "n2"), &job);
  assert (job.eta_ms > 0);
  rig.disk[5].stuck = false;
  UNTIL (state (1) == MEMBER_IN_SYNC);
  assert (verdict () == CLUSTER_WARNING && says ("no redundancy"));
  assert (!says ("more member") && stays ("n2", &s) == 1);
  DONE (cluster_node_drain (engine, in, "n2", false));
  assert (verdict () == CLUSTER_INFO && says ("All is well"));
  assert (stays ("n2", &s) == 0 || !cluster_node_is_draining (engine, "n2"));
}

/* Two members, and one disk: before the first has moved there, it is known that the
 * second has none.
 */
static void
test_drain_of_two (void)
{
  struct cluster_stay s;

  rig_init ();
  rig.disk[3].uuid[0] = 2;
  rig.disk[5].dead = true;
  make_array_of ("a", LAYOUT_RAID1, 0, 2);
  make_array_of ("b", LAYOUT_RAID1, 2, 2);
  DONE (cluster_node_maintain (engine, in, "n2", false, false));
  /* The drain is requested, and nothing is done yet. */
  cluster_node_find (engine, "n2")->rec.draining = true;
  assert (stays ("n2", &s) == 1 && s.array != array ());
  assert (strstr (s.waits, "1 for other members"));
}

/* Another node's drain comes first: nobody need do anything about that. */
static void
test_drains_in_turn (void)
{
  struct cluster_stay s;

  begin_writing ();
  rig.disk[4].stuck = rig.disk[5].stuck = true;
  DONE (cluster_node_drain (engine, in, "n2", true));
  DONE (cluster_node_drain (engine, in, "n3", true));
  UNTIL (state (1) == MEMBER_JOINING);
  live_on (8);
  assert (!says ("cannot go on"));
  assert (says ("The drain of node n3 waits for member 1 of array a"));
  assert (stays ("n3", &s) == 0);
  /* But about a pause somebody must. */
  pause_copying (1, true);
  assert (says ("The drain of node n3 cannot go on"));
  assert (says ("The drain of node n2 cannot go on"));
  assert (stays ("n3", &s) == 1 && stays ("n2", &s) == 1);
}

/* ---- What is an error. ---- */

static void
scenario_planned (void)
{
  begin_writing ();
  DONE (cluster_node_drain (engine, in, "n2", true));
  UNTIL (cluster_node_drained (engine, "n2"));
  assert (rig.errors == 0);
}

static void
test_planned (void)
{
  begin_writing ();
  rig.disk[1].stuck = true;
  lose (1);
  assert (rig.errors == 1);
  UNTIL (state (1) == MEMBER_JOINING);
  DONE (cluster_member_cancel (engine, in, "a", 1));
  DONE (cluster_member_join (engine, in, "a", 1));
  UNTIL (state (1) == MEMBER_JOINING);
  DONE (cluster_member_replace (engine, in, "a", 1, rig.disk[4].uuid, false));
  UNTIL (state (1) == MEMBER_IN_SYNC);
  assert (rig.errors == 1);
  /* An earlier plan does not excuse a later loss. */
  lose (1);
  assert (rig.errors == 2);
  UNTIL (state (1) == MEMBER_IN_SYNC);
  /* In maintenance it is expected. */
  DONE (cluster_node_maintain (engine, in, "n3", true, false));
  die (2);
  assert (rig.errors == 2);
}

int
main (void)
{
  test_pause_of_nothing ();
  test_pause_stands ();
  test_promise ();
  test_survives ();
  test_exposed ();
  test_eta ();
  test_drain_nowhere ();
  test_drain_of_two ();
  test_drains_in_turn ();
  test_planned ();
  test_kills ("planned", scenario_planned);
  return 0;
}
