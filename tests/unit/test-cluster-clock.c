/* test-cluster-clock.c: weftd's wall clock jumps, by days and by years, forth and back.
 *
 * The wall-clock times that the engine stores are only shown to people.  Clocks that do
 * not jump decide when an action is due.  Each action in this list therefore takes as
 * long as with a right clock, whatever the clock says before and during its wait.
 */

#include <config.h>

#include <inttypes.h>

#include "test-cluster-rig.h"

#define DAY_MS (INT64_C (24) * 3600 * 1000)

/* ---- What waits. ---- */

static void
with_spare (void)
{
  begin_writing ();
  DONE (cluster_spare_add (engine, in, "a", rig.disk[4].uuid));
  spare_after (20000);
}

static void
silent (void)
{
  die (1);
}

static void
failed (void)
{
  rig.disk[1].failed = true;
  UNTIL (state (1) == MEMBER_OUT);
}

static void
maintained (void)
{
  DONE (cluster_node_maintain (engine, in, "n2", true, false));
  die (1);
  live_on (20);
  DONE (cluster_node_maintain (engine, in, "n2", false, false));
}

static bool
has_spare (void)
{
  return on (1, 4);
}

static void
moving (void)
{
  begin_writing ();
  spare_after (20000);
  rig.disk[4].stuck = true;
  DONE (cluster_node_drain (engine, in, "n2", true));
  UNTIL (state (1) == MEMBER_JOINING && on (1, 4));
}

static void
target_silent (void)
{
  rig.disk[4].dead = true;
  UNTIL (state (1) == MEMBER_OUT);
}

static bool
has_another (void)
{
  return on (1, 5);
}

static void
hangs (void)
{
  die (1);
  rig.disk[1].hangs = true;
  rig.disk[1].dead = false;
  UNTIL (array ()->rec.change.epoch);
}

static bool
is_said (void)
{
  return says ("Array a waits for ");
}

static const struct scene {
  const char *name;
  void (*begin) (void);
  void (*event) (void);
  bool (*done) (void);
} scenes[] = {
  { "a member is silent", with_spare, silent, has_spare },
  { "a disk has failed", with_spare, failed, has_spare },
  { "maintenance ends", with_spare, maintained, has_spare },
  { "a drain's new disk is silent", moving, target_silent, has_another },
  { "a change waits", begin_writing, hangs, is_said },
};

#define SCENES (sizeof scenes / sizeof scenes[0])

/* After how many rounds from the event on is it done?  The clock is wrong by so much until
 * the event, and by so much from then on.
 */
static unsigned
rounds (const struct scene *s, int64_t before_ms, int64_t after_ms)
{
  unsigned n = 0;

  s->begin ();
  weftd.ahead_ms = before_ms;
  live_on (8);
  s->event ();
  assert (!s->done ());
  for (weftd.ahead_ms = after_ms; !s->done (); n++) {
    assert (n < 4000);
    live_on (1);
  }
  return n;
}

static void
test_scene (const struct scene *s)
{
  static const int64_t jumps[] = { 0, 25 * DAY_MS, -25 * DAY_MS, 3650 * DAY_MS,
                                   -3650 * DAY_MS };
  const size_t count = sizeof jumps / sizeof jumps[0];
  unsigned usual = rounds (s, 0, 0), n;

  for (size_t before = 0; before < count; before++)
    for (size_t after = 0; after < count; after++) {
      n = rounds (s, jumps[before], jumps[after]);
      if (n != usual)
        printf ("%s: %u rounds, and %u where the clock jumps from %" PRId64
                " to %" PRId64 " days\n",
                s->name, usual, n, jumps[before] / DAY_MS,
                jumps[after] / DAY_MS);
      assert (n == usual);
    }
}

/* When a spare comes is shown by the clock as it is. */
static void
test_shown (void)
{
  uint64_t at;

  with_spare ();
  weftd.ahead_ms = 3650 * DAY_MS;
  silent ();
  stop (1);
  weftd.ahead_ms = 0;
  live_on (1);
  at = cluster_member_spare_wall_ms (engine, array (), 1);
  assert (at > engine->wall_ms && at <= engine->wall_ms + 20000);
}

/* A weftd stored times with a wrong clock, and is started again with a right one: each
 * wait begins again, and takes no longer than usual.
 */
static void
test_restart (void)
{
  for (size_t i = 0; i < SCENES; i++) {
    unsigned usual = rounds (&scenes[i], 0, 0), n = 0;

    scenes[i].begin ();
    weftd.ahead_ms = 3650 * DAY_MS;
    scenes[i].event ();
    weftd.ahead_ms = 0;
    restart ();
    for (; !scenes[i].done (); n++) {
      assert (n <= usual + 100);
      live_on (1);
    }
  }
}

/* The most recently ended session is remembered, though others have ended in the
 * future. */
static void
test_ended_sessions (void)
{
  uint64_t id;

  begin_writing ();
  weftd.ahead_ms = 25 * DAY_MS;
  for (unsigned i = 0; i < ENDED_SESSIONS_MAX + 2; i++) {
    detach ();
    attach (true);
  }
  weftd.ahead_ms = 0;
  live_on (1);
  id = rig.session;
  detach ();
  live_on (4);
  assert (cluster_session_find (engine, id));
}

/* The next fence has a higher number than one that was made in the future. */
static void
test_fences (void)
{
  uint64_t first;

  begin_array ();
  weftd.ahead_ms = 3650 * DAY_MS;
  live_on (1);
  DONE (cluster_node_fence (engine, in, "n6", true, "test"));
  first = cluster_fence_number (engine);
  weftd.ahead_ms = 0;
  restart ();
  DONE (cluster_node_fence (engine, in, "n5", true, "test"));
  assert (cluster_fence_number (engine) > first);
}

int
main (void)
{
  for (size_t i = 0; i < SCENES; i++)
    test_scene (&scenes[i]);
  test_shown ();
  test_restart ();
  test_ended_sessions ();
  test_fences ();
  return 0;
}
