/* test-cluster-words.c: what is said to people is so: the verdict, what an array
 * survives, what is exposed, how long a rebuild will take, what is an error.
 */

#include <config.h>

#undef NDEBUG
#include <assert.h>

#include "cluster/cluster-preflight.h"
#include "test-cluster-rig.h"

static const struct cluster_member_tune pause = { .has_paused = true,
                                                  .paused = true },
                                        resume = { .has_paused = true };

static char text[4096];

static enum cluster_severity
verdict (struct rig *r)
{
  return cluster_verdict (r->c, text, sizeof text);
}

static bool
says (struct rig *r, const char *what)
{
  verdict (r);
  return strstr (text, what) != NULL;
}

/* ---- Pauses. ---- */

static void
test_pause_of_nothing (void)
{
  struct cluster_member_tune both = {
    .has_paused = true, .paused = true, .has_floor = true, .floor = MiB (9)
  };
  struct rig r;

  begin_writing (&r, 0);
  REFUSED (&r, "in-sync", cluster_member_tune (r.c, in, "a", 1, &pause));
  assert (strstr (r.detail, "member 1 of array a (disk /dev/d1 of node n2)"));
  assert (strstr (r.detail, "in-sync") && strstr (r.detail, "rebuild ls"));
  REFUSED (&r, "in-sync", cluster_member_tune (r.c, in, "a", 1, &both));
  assert (array (&r)->rec.member[1].floor == 0);
  assert (!array (&r)->rec.member[1].paused);
  DONE (&r, cluster_member_tune (r.c, in, "a", 1, &resume));
  lose (&r, 1);
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  cluster_free (r.c);
}

static void
test_pause_stands (void)
{
  static const char *const said =
    "The rebuild of member 1 of array a is paused: "
    "weftctl rebuild resume a 1 ";
  struct rig r;
  struct fake_disk *d = &r.disk[1];

  begin_writing (&r, 0);
  DONE (&r, cluster_node_maintain (r.c, in, "n2", true, false));
  d->dead = true;
  lose (&r, 1);
  assert (verdict (&r) == CLUSTER_INFO);
  /* Of what is to come. */
  DONE (&r, cluster_member_tune (r.c, in, "a", 1, &pause));
  assert (verdict (&r) == CLUSTER_WARNING && strstr (text, said));
  restart (&r);
  assert (verdict (&r) == CLUSTER_WARNING && strstr (text, said));
  d->dead = false;
  UNTIL (&r, d->join.phase == CLUSTER_JOIN_COPYING);
  rounds (&r, 60);
  assert (state (&r, 1) == MEMBER_JOINING && says (&r, said));
  DONE (&r, cluster_member_tune (r.c, in, "a", 1, &resume));
  assert (!says (&r, "paused"));
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);

  /* It ends with the rebuild, and holds no other one. */
  d->stuck = true;
  lose (&r, 1);
  UNTIL (&r, d->join.phase == CLUSTER_JOIN_COPYING);
  DONE (&r, cluster_member_tune (r.c, in, "a", 1, &pause));
  assert (says (&r, said));
  d->stuck = false;
  d->join.phase = CLUSTER_JOIN_SYNCED; /* it had just come to the end */
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  assert (!says (&r, "paused"));
  lose (&r, 1);
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);

  /* Nor does one that an older weftd let stand on a member that is in-sync. */
  for (size_t i = 0; i < r.stored; i++)
    if (r.store[i].kind == CLUSTER_RECORD_ARRAY)
      r.store[i].array.member[1].paused = true;
  restart (&r);
  rounds (&r, 8);
  assert (!says (&r, "paused"));
  lose (&r, 1);
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  cluster_free (r.c);
}

/* ---- Promises. ---- */

static void
test_promise (void)
{
  struct rig r;
  struct fake_disk *d = &r.disk[1];

  begin_writing (&r, 0);
  d->dead = true;
  lose (&r, 1);
  /* weftd has not missed it yet, and promises nothing. */
  assert (array (&r)->disk[1]->alive);
  assert (says (&r, "is out") && !strstr (text, "by itself"));
  assert (strstr (text, "has not been heard of since"));
  rounds (&r, 40);
  assert (!array (&r)->disk[1]->alive);
  assert (says (&r, "Start its member process") && !strstr (text, "by itself"));
  /* It is heard of again, and on its way. */
  d->dead = false;
  UNTIL (&r, array (&r)->disk[1]->spoke);
  assert (state (&r, 1) == MEMBER_OUT);
  assert (says (&r, "It comes back by itself."));
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);

  /* It was back, and goes out again each time: nobody knows. */
  lose (&r, 1);
  rounds (&r, 1);
  assert (state (&r, 1) == MEMBER_OUT && array (&r)->disk[1]->spoke);
  assert (says (&r, "see to its connection") && !strstr (text, "by itself"));
  cluster_free (r.c);
}

/* ---- What it survives. ---- */

static void
survives (struct rig *r, const char *wanted)
{
  char said[400];

  cluster_array_survives (array (r), said, sizeof said);
  if (strcmp (said, wanted) != 0) {
    fprintf (stderr, "\"%s\", not \"%s\"\n", said, wanted);
    abort ();
  }
}

static void
test_survives (void)
{
  struct rig r;

  rig_init (&r, 0);
  make_array (&r);
  survives (&r, "any 1 member");
  attach (&r, true);
  r.disk[1].stuck = true;
  lose (&r, 1);
  survives (&r, "no further loss now (when all members are in-sync: any 1 "
                "member)");
  UNTIL (&r, r.disk[1].join.phase == CLUSTER_JOIN_COPYING);
  survives (&r, "no further loss now (when all members are in-sync: any 1 "
                "member)");
  r.disk[1].stuck = false;
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  survives (&r, "any 1 member");
  cluster_free (r.c);

  /* Also of a member that nobody has missed but weftd. */
  rig_init (&r, 0);
  make_array_of (&r, "a", LAYOUT_RAID10, 0, 4);
  r.disk[1].dead = true;
  rounds (&r, 40);
  survives (&r, "any 1 more member but 3 (when all members are in-sync: any 1 "
                "member, up to 2 if no two of them are a mirrored pair)");
  r.disk[0].dead = true;
  rounds (&r, 40);
  survives (&r, "no further loss now (when all members are in-sync: any 1 "
                "member, up to 2 if no two of them are a mirrored pair)");
  r.disk[3].dead = true;
  rounds (&r, 40);
  survives (&r,
            "no more: some data cannot be reached (when all members are "
            "in-sync: any 1 member, up to 2 if no two of them are a mirrored "
            "pair)");
  cluster_free (r.c);

  rig_init (&r, 0);
  make_array_of (&r, "a", LAYOUT_RAID1, 0, 3);
  r.disk[1].dead = true;
  rounds (&r, 40);
  survives (&r, "any 1 more member (when all members are in-sync: any 2 "
                "members)");
  cluster_free (r.c);

  rig_init (&r, 0);
  make_array_of (&r, "a", LAYOUT_RAID0, 0, 2);
  r.disk[1].dead = true;
  rounds (&r, 40);
  survives (&r, "no failure at all");
  cluster_free (r.c);
}

/* ---- What is exposed. ---- */

static uint64_t
exposed (struct rig *r)
{
  uint64_t bytes;

  cluster_array_exposure (array (r), &bytes, NULL, NULL);
  return bytes;
}

static void
test_exposed (void)
{
  struct cluster_preflight f;
  struct cluster_input in;
  struct rig r;
  struct fake_disk *d = &r.disk[1];
  uint64_t all;

  begin_writing (&r, 0);
  d->stuck = true;
  d->dead = true;
  lose (&r, 1);
  all = exposed (&r);
  assert (all == array (&r)->rec.member_bytes);
  d->dead = false;
  UNTIL (&r, d->join.phase == CLUSTER_JOIN_COPYING);
  d->join.total_bytes = all + MiB (3); /* in whole extents */
  for (uint64_t todo = all + MiB (3); todo > MiB (8); todo -= MiB (8)) {
    d->join.todo_bytes = todo;
    rounds (&r, 4);
    assert (exposed (&r) == (todo < all ? todo : all));
  }
  assert (says (&r, "the next loss can take data"));
  /* What it has copied is no copy of an array that does without it. */
  in = input (&r, ++r.op);
  cluster_preflight_cancel (r.c, &in, "a", 1, &f);
  assert (f.allowed && f.exposed_bytes == all);
  d->dead = true;
  rounds (&r, 40);
  assert (exposed (&r) == all);
  d->dead = false;
  UNTIL (&r, state (&r, 1) == MEMBER_JOINING &&
               d->join.phase == CLUSTER_JOIN_COPYING &&
               d->join.epoch == array (&r)->rec.member[1].fence);
  d->join.total_bytes = all;
  d->join.todo_bytes = 0;
  UNTIL (&r, says (&r, "100 % is done"));
  assert (exposed (&r) == 0 && state (&r, 1) == MEMBER_JOINING);
  assert (verdict (&r) == CLUSTER_WARNING);
  assert (!strstr (text, "degraded") && !strstr (text, "All is well"));
  array (&r)->disk[1]->join.epoch--; /* said of a joining that is over */
  assert (exposed (&r) == all);
  cluster_free (r.c);

  /* Another one is out: what it held stays exposed. */
  rig_init (&r, 0);
  make_array_of (&r, "a", LAYOUT_RAID10, 0, 4);
  attach (&r, true);
  r.disk[0].dead = true;
  lose (&r, 0);
  d->stuck = true;
  lose (&r, 1);
  UNTIL (&r, d->join.phase == CLUSTER_JOIN_COPYING);
  d->join.total_bytes = all;
  d->join.todo_bytes = MiB (4);
  rounds (&r, 4);
  assert (exposed (&r) == array (&r)->rec.member_bytes + MiB (4));
  cluster_free (r.c);
}

/* ---- How long it will take. ---- */

/* A rebuild of 16 GiB that begins at `slow` bytes a second and gets by 15 % faster
 * in each, up to `fast`, and says every two seconds how far it is.  What is said of
 * its end is never far from what comes.
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
eta_ms (struct rig *r)
{
  return cluster_join_eta_ms (r->c, array (r), 1);
}

/* It copies 32 MiB in each second of so many, as it says every other one. */
static void
copy (struct rig *r, struct fake_disk *d, unsigned seconds)
{
  for (unsigned s = 0; s < seconds; s++) {
    if (s % 2 == 0)
      d->join.todo_bytes -= MiB (64);
    rounds (r, 4);
  }
}

static void
test_eta (void)
{
  struct rig r;
  struct fake_disk *d = &r.disk[1];

  run_eta (MiB (120), MiB (120));
  run_eta (MiB (4), MiB (120)); /* it would have been wrong by 30 */
  run_eta (MiB (1), MiB (1000));

  begin_copying (&r, LAYOUT_RAIDX, MEMBERS);
  d->join.total_bytes = d->join.todo_bytes = GiB (8);
  d->join.rate = MiB (1); /* most of it are holes */
  copy (&r, d, 4);
  assert (eta_ms (&r) == 0);
  copy (&r, d, 10);
  assert (eta_ms (&r) > 200000 && eta_ms (&r) < 300000); /* 242 s */
  DONE (&r, cluster_member_tune (r.c, in, "a", 1, &pause));
  assert (eta_ms (&r) == 0);
  rounds (&r, 60);
  DONE (&r, cluster_member_tune (r.c, in, "a", 1, &resume));
  copy (&r, d, 2);
  assert (eta_ms (&r) == 0); /* the pause is not measured */
  copy (&r, d, 12);
  assert (eta_ms (&r) > 200000 && eta_ms (&r) < 300000);
  restart (&r);
  rounds (&r, 8);
  assert (eta_ms (&r) == 0);
  cluster_free (r.c);
}

/* ---- Drains. ---- */

static size_t
stays (struct rig *r, const char *node, struct cluster_stay first[1])
{
  size_t count, real = 0;
  bool moving;
  struct cluster_stay *list = cluster_node_stays (r->c, node, &count, &moving);

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
  struct rig r;

  rig_init (&r, 0);
  r.disk[4].uuid[0] = 2; /* on n2, as member 1 of "a" */
  r.disk[5].dead = true;
  make_array (&r);
  make_array_of (&r, "b", LAYOUT_RAID0, 4, 1);
  attach (&r, true);
  assert (verdict (&r) == CLUSTER_INFO && strstr (text, "All is well"));
  DONE (&r, cluster_node_drain (r.c, in, "n2", true));
  /* At once, and as long as it stands. */
  for (unsigned i = 0; i < 2; i++) {
    assert (verdict (&r) == CLUSTER_WARNING);
    assert (!strstr (text, "All is well"));
    assert (strstr (text, "The drain of node n2 cannot go on"));
    assert (strstr (text, "a spare or blank disk of at least"));
    assert (strstr (text, "member 1 of array a"));
    assert (strstr (text, "and 1 more member stays (weftctl node show n2)"));
    assert (strstr (text, "weftctl node drain n2 --stop ends it."));
    assert (stays (&r, "n2", &s) == 2);
    assert (s.array == array (&r) && s.member == 1);
    assert (strstr (s.waits, "a spare or blank disk"));
    rounds (&r, 60);
  }
  restart (&r);
  rounds (&r, 8);
  assert (verdict (&r) == CLUSTER_WARNING && stays (&r, "n2", &s) == 2);

  /* One has somewhere to go, and the other stays all the same. */
  r.disk[5].dead = false;
  r.disk[5].stuck = true;
  UNTIL (&r, r.disk[5].join.phase == CLUSTER_JOIN_COPYING);
  assert (stays (&r, "n2", &s) == 1 && s.array != array (&r));
  assert (strstr (s.waits, "no redundancy"));
  assert (!says (&r, "cannot go on") && strstr (text, "being drained"));
  r.disk[5].join.total_bytes = r.disk[5].join.todo_bytes = GiB (8);
  copy (&r, &r.disk[5], 4);
  cluster_job_drain (r.c, cluster_node_find (r.c, "n2"), &job);
  assert (job.state == CLUSTER_JOB_RUNNING && job.eta_ms == 0);
  copy (&r, &r.disk[5], 10);
  cluster_job_drain (r.c, cluster_node_find (r.c, "n2"), &job);
  assert (job.eta_ms > 0);
  r.disk[5].stuck = false;
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  assert (verdict (&r) == CLUSTER_WARNING && strstr (text, "no redundancy"));
  assert (!strstr (text, "more member") && stays (&r, "n2", &s) == 1);
  DONE (&r, cluster_node_drain (r.c, in, "n2", false));
  assert (verdict (&r) == CLUSTER_INFO && strstr (text, "All is well"));
  assert (stays (&r, "n2", &s) == 0 || !cluster_node_is_draining (r.c, "n2"));
  cluster_free (r.c);
}

/* Two members, and one disk: before the first has moved there, it is known that the
 * second has none.
 */
static void
test_drain_of_two (void)
{
  struct cluster_stay s;
  struct rig r;

  rig_init (&r, 0);
  r.disk[3].uuid[0] = 2;
  r.disk[5].dead = true;
  make_array_of (&r, "a", LAYOUT_RAID1, 0, 2);
  make_array_of (&r, "b", LAYOUT_RAID1, 2, 2);
  DONE (&r, cluster_node_maintain (r.c, in, "n2", false, false));
  cluster_node_find (r.c, "n2")->rec.draining =
    true; /* and nothing is done yet */
  assert (stays (&r, "n2", &s) == 1 && s.array != array (&r));
  assert (strstr (s.waits, "1 for other members"));
  cluster_free (r.c);
}

/* Another node's drain comes first: nobody need do anything about that. */
static void
test_drains_in_turn (void)
{
  struct cluster_stay s;
  struct rig r;

  begin_writing (&r, 0);
  r.disk[4].stuck = r.disk[5].stuck = true;
  DONE (&r, cluster_node_drain (r.c, in, "n2", true));
  DONE (&r, cluster_node_drain (r.c, in, "n3", true));
  UNTIL (&r, state (&r, 1) == MEMBER_JOINING);
  rounds (&r, 8);
  assert (!says (&r, "cannot go on"));
  assert (strstr (text, "The drain of node n3 waits for member 1 of array a"));
  assert (stays (&r, "n3", &s) == 0);
  /* But about a pause somebody must. */
  DONE (&r, cluster_member_tune (r.c, in, "a", 1, &pause));
  assert (says (&r, "The drain of node n3 cannot go on"));
  assert (strstr (text, "The drain of node n2 cannot go on"));
  assert (stays (&r, "n3", &s) == 1 && stays (&r, "n2", &s) == 1);
  cluster_free (r.c);
}

/* ---- What is an error. ---- */

static bool
scenario_planned (unsigned kill_at)
{
  struct rig r;
  bool killed;

  begin_writing (&r, kill_at);
  DONE (&r, cluster_node_drain (r.c, in, "n2", true));
  UNTIL (&r, cluster_node_drained (r.c, "n2"));
  assert (r.errors == 0);
  killed = r.killed;
  cluster_free (r.c);
  return killed;
}

static void
test_planned (void)
{
  struct rig r;

  begin_writing (&r, 0);
  r.disk[1].stuck = true;
  lose (&r, 1);
  assert (r.errors == 1);
  UNTIL (&r, state (&r, 1) == MEMBER_JOINING);
  DONE (&r, cluster_member_cancel (r.c, in, "a", 1));
  DONE (&r, cluster_member_join (r.c, in, "a", 1));
  UNTIL (&r, state (&r, 1) == MEMBER_JOINING);
  DONE (&r, cluster_member_replace (r.c, in, "a", 1, r.disk[4].uuid));
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  assert (r.errors == 1);
  /* What was planned once does not excuse a loss. */
  lose (&r, 1);
  assert (r.errors == 2);
  UNTIL (&r, state (&r, 1) == MEMBER_IN_SYNC);
  /* In maintenance it is expected. */
  DONE (&r, cluster_node_maintain (r.c, in, "n3", true, false));
  r.disk[2].dead = true;
  lose (&r, 2);
  assert (r.errors == 2);
  cluster_free (r.c);
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
