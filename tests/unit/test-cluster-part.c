/* test-cluster-part.c: several sessions each write a part of one array: which of them may
 * attach, how a session ends, and how the loss of a member by one of them is decided.
 */

#include <config.h>

#include "test-cluster-world.h"

#define UNIT KiB (256) /* of create_of */

/* Gives each of both hosts half of the array. */
static void
halves (void)
{
  uint64_t half = array ()->layout.size / UNIT / 2 * UNIT;

  writer->obeys = other->obeys = true;
  writer->part = (struct cluster_part) { .offset = 0, .length = half };
  other->part = (struct cluster_part) {
    .offset = half, .length = array ()->layout.size - half
  };
}

static void
begin_one (void)
{
  begin_array ();
  halves ();
  attach_until_granted (writer);
}

static void
begin_both (void)
{
  begin_one ();
  attach_until_granted (other);
}

/* Cuts the member off; both report its loss until it is out. */
static void
both_lose (unsigned m)
{
  cut_off (m);
  while (state (m) != MEMBER_OUT) {
    if (writer->op == 0)
      lost (writer, m);
    if (other->op == 0)
      lost (other, m);
    live ();
  }
}

static unsigned
writers (void)
{
  struct cluster_session *s = NULL;
  unsigned count = 0;

  while ((s = cluster_writer_next (array (), s)))
    count++;
  return count;
}

/* The first attach fences all members, as that of a single writer does; the second one
 * disturbs no other session.
 */
static void
test_beside (void)
{
  uint64_t epoch;

  begin_array ();
  halves ();
  epoch = rec ()->epoch;
  attach_until_granted (writer);
  assert (rec ()->epoch == epoch + 1);
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (world.disk[m].min_epoch == epoch + 1);
  attach_until_granted (other);
  attach_until_granted (reader);
  assert (rec ()->epoch == epoch + 1 && rec ()->change.epoch == 0);
  assert (writers () == 2 && !writer->over && whole ());
  live_on (60);
  assert (writers () == 2 && whole () && rec ()->epoch == epoch + 1);
}

/* An attach for the whole array, or for a part in use, is refused and names the holder. */
static void
test_held (void)
{
  struct cluster_part half;

  begin_one ();
  half = other->part;
  other->part = (struct cluster_part) { 0 };
  assert (strcmp (attach_refusal (other), "held") == 0);
  other->part = (struct cluster_part) { .offset = writer->part.length - UNIT,
                                        .length = 2 * UNIT };
  host_attach (other);
  UNTIL (other->op == 0);
  assert (strcmp (other->code, "held") == 0);
  other->part = half;
  attach_until_granted (other);
  detach (other);

  /* The reverse: a part is refused beside a writer of the whole array. */
  detach (writer);
  UNTIL (rec ()->change.epoch == 0);
  come_again (writer);
  come_again (other);
  snprintf (writer->instance, 16, "h0 again");
  snprintf (other->instance, 16, "h1 again");
  writer->part = (struct cluster_part) { 0 };
  attach_until_granted (writer);
  assert (strcmp (attach_refusal (other), "held") == 0);
  assert (writers () == 1);
}

static void
refuse_part (uint64_t offset, uint64_t length)
{
  struct cluster_attach at = { .node = "host1",
                               .instance = "h1",
                               .writable = true,
                               .by_admin = true,
                               .part = { offset, length } };
  uint64_t epoch = rec ()->epoch;

  REFUSED (CLUSTER_INVALID, "part", cluster_attach (engine, in, "a", &at));
  assert (strcmp (world.answer.problem.field, "part") == 0);
  assert (rec ()->epoch == epoch && rec ()->change.epoch == 0);
  assert (writers () == 1);
}

/* Invalid parts are refused. */
static void
test_bad_parts (void)
{
  uint64_t size;

  begin_one ();
  size = array ()->layout.size;
  refuse_part (size, UNIT);
  refuse_part (size - UNIT, 2 * UNIT);
  refuse_part (UNIT / 2, UNIT);
  refuse_part (size - UNIT / 2, UNIT / 2);
  refuse_part (0, UNIT + 512);
  refuse_part (UINT64_MAX - UNIT + 1, 2 * UNIT);
  refuse_part (0, UINT64_MAX);
}

/* Two hosts attach at once, and there is no writer: one gets the whole array first, and
 * recovers it; the other one is admitted after that.
 */
static void
test_both_at_once (void)
{
  begin_array ();
  halves ();
  writer->copying = true;
  other->takeover = true;
  host_attach (writer);
  host_attach (other);
  UNTIL (writer->attached && other->op == 0);
  assert (writer->heard.recover && writers () == 1);
  assert (strcmp (other->code, "changing") == 0);
  live_on (20);
  assert (strcmp (attach_refusal (other), "changing") == 0);
  writer->copying = false;
  attach_until_granted (other);
  assert (writers () == 2 && other->heard.recover == 0);
}

/* At most WRITERS_MAX sessions write. */
static void
test_too_many (void)
{
  struct cluster_attach at = { .node = "host1",
                               .writable = true,
                               .by_admin = true,
                               .part = { .length = UNIT } };

  begin_one ();
  for (unsigned i = 1; i < WRITERS_MAX; i++) {
    at.part.offset = writer->part.length + i * UNIT;
    snprintf (at.instance, sizeof at.instance, "p%u", i);
    CALL (++weftd.op, cluster_attach (engine, in, "a", &at));
  }
  UNTIL (writers () == WRITERS_MAX);
  at.part.offset += UNIT;
  snprintf (at.instance, sizeof at.instance, "p%u", WRITERS_MAX);
  REFUSED (CLUSTER_CONFLICT, "too-many", cluster_attach (engine, in, "a", &at));
  assert (writers () == WRITERS_MAX);
}

/* One session ends, by itself or evicted.  Its part is granted only after every member has
 * confirmed the end, and the other session is not disturbed.
 */
static void
test_end (bool evicted)
{
  uint64_t epoch, old = 0;

  begin_both ();
  epoch = rec ()->epoch;
  old = other->session;
  world.disk[2].holds = true;
  if (evicted) {
    fall_silent (other);
    CALL (++weftd.op,
          cluster_session_evict (engine, in, other->session, "kim"));
    carry_out ();
    other->attached = false;
  }
  else
    detach (other);
  assert (rec ()->epoch == epoch && rec ()->change.epoch == 0);
  assert (writers () == 1 && cluster_shut_waits (array (), old));
  come_again (other);
  snprintf (other->instance, 16, "h1 again");
  for (unsigned i = 0; i < 40; i++) {
    if (other->op == 0)
      host_attach (other);
    live ();
    assert (!other->attached && rec ()->change.epoch == 0);
  }
  assert (strcmp (other->code, "changing") == 0);
  world.disk[2].holds = false;
  live_on (8);
  attach_until_granted (other);
  assert (other->session != old && writers () == 2);
  assert (rec ()->epoch == epoch && !writer->over);
}

/* Late writes of an ended session may still arrive at a member that has not confirmed the
 * end, so reads are held until it has.
 */
static void
test_end_held (void)
{
  begin_both ();
  attach_until_granted (reader);
  other->lags = true;
  both_lose (1);
  live_on (8);
  assert (reader->heard.hold);
  world.disk[2].holds = true;
  detach (other);
  live_on (8);
  assert (writers () == 1 && reader->heard.hold);
  world.disk[2].holds = false;
  UNTIL (!reader->heard.hold);
}

/* The end of the last session fences all members, as the end of a single writer does. */
static void
test_last_end (void)
{
  uint64_t epoch;

  begin_both ();
  epoch = rec ()->epoch;
  detach (writer);
  assert (rec ()->epoch == epoch);
  detach (other);
  UNTIL (rec ()->epoch > epoch && rec ()->change.epoch == 0);
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (world.disk[m].min_epoch > epoch);
}

/* A silent session is ended, so it blocks no change for the others.  The only session that
 * is left is not ended, however long it is silent.
 */
static void
test_silent (void)
{
  uint64_t stuck_ms;

  begin_both ();
  fall_silent (other);
  stuck_ms = weftd.now_ms;
  cut_off (1);
  report_lost (writer, 1);
  assert (state (1) == MEMBER_OUT && session (other)->rec.ended);
  assert (
    strstr (session (other)->rec.reason, "it was silent, and others write"));
  assert (weftd.now_ms - stuck_ms >= SESSION_TTL_MS - HEARTBEAT_MS);
  assert (weftd.now_ms - stuck_ms < SESSION_TTL_MS + 2 * HEARTBEAT_MS);
  other->alive = true;
  UNTIL (other->over);
  fall_silent (writer);
  live_on (80);
  assert (!session (writer)->rec.ended);
}

/* All three hosts write, each a third of the array. */
static void
begin_three (void)
{
  struct host *h[] = { writer, other, reader };
  uint64_t third = 0;

  begin_array ();
  third = array ()->layout.size / UNIT / 3 * UNIT;
  reader->writable = true;
  for (unsigned i = 0; i < 3; i++) {
    h[i]->obeys = true;
    h[i]->part = (struct cluster_part) { .offset = i * third, .length = third };
    attach_until_granted (h[i]);
  }
}

/* If all sessions are silent (weftd was away, say), none is ended before another one is
 * heard again: its first message may report the loss of a member.
 */
static void
test_all_silent (bool comes, bool loses)
{
  uint64_t begin;

  begin_both ();
  fall_silent (writer);
  fall_silent (other);
  live_on (80);
  assert (writers () == 2);
  writer->alive = true;
  if (loses)
    lost (writer, 1);
  begin = weftd.now_ms;
  live_on (32); /* 8 s */
  assert (writers () == 2);
  other->alive = comes;
  if (comes) {
    live_on (130);
    assert (writers () == 2 && !writer->over && !other->over);
    return;
  }
  UNTIL (session (other)->rec.ended);
  assert (weftd.now_ms - begin < SESSION_TTL_MS + LULL_MS);
  assert (!session (writer)->rec.ended && !writer->over);
}

/* A session that is silent and heard by turns does not prolong the wait for a silent third
 * session, while another one is heard all the time.
 */
static void
test_one_is_heard (void)
{
  uint64_t begin;

  begin_three ();
  fall_silent (other);
  begin = weftd.now_ms;
  while (!session (other)->rec.ended) {
    fall_silent (reader);
    live_on (24); /* 6 s */
    reader->alive = true;
    live_on (4);
  }
  assert (weftd.now_ms - begin < SESSION_TTL_MS + LULL_MS);
  assert (writers () == 2);
}

/* A new writer does not prolong the wait for a silent one. */
static void
test_one_comes_anew (void)
{
  uint64_t begin;

  begin_one ();
  fall_silent (writer);
  begin = weftd.now_ms;
  live_on (32); /* 8 s */
  attach_until_granted (other);
  assert (writers () == 2);
  UNTIL (session (writer)->rec.ended);
  assert (weftd.now_ms - begin < SESSION_TTL_MS + 2 * HEARTBEAT_MS);
}

/* The process of a new writer has died while its attach waited: nobody is heard. */
static void
test_one_comes_and_has_died (void)
{
  begin_one ();
  live_on (4);
  fall_silent (writer);
  live_on (32); /* 8 s */
  attach_until_granted (other);
  fall_silent (other);
  live_on (80);
  assert (writers () == 2 && !session (writer)->rec.ended);
  writer->alive = true;
  UNTIL (session (other)->rec.ended);
  assert (!session (writer)->rec.ended);
}

/* An attach does not end sessions that may be heard again in a moment. */
static void
test_attach_after_all_silent (void)
{
  begin_three ();
  detach (reader);
  fall_silent (writer);
  fall_silent (other);
  live_on (80);
  writer->alive = true;
  live_on (2);
  come_again (reader);
  snprintf (reader->instance, 16, "h2 again");
  assert (strcmp (attach_refusal (reader), "held") == 0);
  other->alive = true;
  attach_until_granted (reader);
  assert (writers () == 3 && !other->over);
}

/* Writes of an ended session may not have reached a joining member: the member starts to
 * copy from the beginning, even if it was almost in-sync and all others were prepared.
 */
static void
test_joiner_begins_anew (bool nearly)
{
  uint64_t fence;

  begin_both ();
  world.disk[1].slow = true;
  both_lose (1);
  heard_again (1);
  UNTIL (world.disk[1].phase == CLUSTER_JOIN_COPYING);
  fence = member (1)->fence;
  if (nearly) {
    other->busy = true;
    world.disk[1].slow = false;
    UNTIL (rec ()->change.epoch && writer->prepared == rec ()->change.epoch);
    assert (rec ()->change.states[1] == MEMBER_IN_SYNC);
    world.disk[1].slow = true;
  }
  detach (other);
  assert (state (1) == MEMBER_JOINING);
  UNTIL (member (1)->fence > fence && rec ()->change.epoch == 0);
  assert (state (1) == MEMBER_JOINING && member (0)->fence < fence);
  world.disk[1].slow = false;
  UNTIL (whole ());
  assert (!writer->over);
}

/* One session has lost a member whose process reports a silent disk: the member goes out. */
static void
test_silent_disk (void)
{
  begin_both ();
  world.disk[1].stuck_ms = DOUBTFUL_MS;
  live_on (8);
  assert (state (1) == MEMBER_IN_SYNC);
  lost (other, 1);
  UNTIL (other->op == 0);
  assert (other->answered && state (1) == MEMBER_OUT);
  live_on (40);
  assert (state (1) == MEMBER_OUT && writers () == 2);
  world.disk[1].stuck_ms = 0;
  UNTIL (whole ());
}

/* One session alone has lost a healthy member: the member stays, and is given back.  If that
 * does not help, the session ends, and the others keep the member.
 */
static void
test_apart (void)
{
  uint64_t fence, begin;

  begin_both ();
  fence = member (1)->fence;
  lost (other, 1);
  UNTIL (other->op == 0);
  assert (strcmp (other->code, "in-use") == 0);
  assert (
    says ("node host1 can't reach it, and node host0 and weftd can: check "
          "the connection between node host1 and node n2."));
  /* The fence cuts the others off, too; that does not count as a loss. */
  UNTIL (rec ()->change.epoch && rec ()->change.confirm[1]);
  world.disk[1].op = UINT64_MAX; /* it confirms late */
  live ();
  lost (writer, 1);
  UNTIL (writer->op == 0);
  assert (strcmp (writer->code, "changing") == 0);
  world.disk[1].op = 0;
  UNTIL (member (1)->fence > fence && rec ()->change.epoch == 0);
  assert (state (1) == MEMBER_IN_SYNC && !session (other)->path[1].lost);
  live_on (130); /* a long time without a fault */
  assert (!says ("reach it"));
  assert (writers () == 2);

  begin = weftd.now_ms;
  while (!session (other)->rec.ended) {
    if (other->op == 0)
      lost (other, 1);
    live ();
    assert (state (1) == MEMBER_IN_SYNC);
  }
  assert (weftd.now_ms - begin >= APART_MS);
  assert (weftd.now_ms - begin < 2 * APART_MS);
  assert (writers () == 1 && whole ());
}

/* The other host loses the member again and again, and has it for 4 s between.  If it waits,
 * it reports that its oldest request has waited since the begin.
 */
static bool
lose_again_and_again (unsigned times, bool waits)
{
  uint64_t begin = weftd.now_ms;

  for (unsigned i = 0; i < times && !session (other)->rec.ended; i++) {
    while (!session (other)->path[1].lost && !session (other)->rec.ended) {
      other->waited_ms = waits ? weftd.now_ms - begin : 0;
      if (other->op == 0)
        lost (other, 1);
      live ();
    }
    while (session (other)->path[1].lost && !session (other)->rec.ended)
      live ();
    for (unsigned k = 0; k < 16 && !session (other)->rec.ended; k++)
      live ();
  }
  return session (other)->rec.ended;
}

/* A line lets connections through, and no data: requests to the member get no answer while
 * the session is connected to it.  That counts as time without the member.
 */
static void
test_apart_behind_a_line (void)
{
  uint64_t begin;

  begin_both ();
  begin = weftd.now_ms;
  assert (lose_again_and_again (10, true));
  assert (weftd.now_ms - begin <
          APART_MS + 4000); /* and one time with the member */
  assert (writers () == 1 && whole ());
}

/* Its requests were answered in between, so it had the member. */
static void
test_apart_between_answers (void)
{
  begin_both ();
  assert (!lose_again_and_again (3, false));
  assert (writers () == 2 && whole ());
}

/* A session has lost the member, and then had it for 10 s.  The member, a last copy by now, is
 * started again, and weftd gives it back to all sessions, also to this one, which has noticed
 * nothing.  Its requests have not waited since the former loss, so it is not ended for that.
 */
static void
test_apart_unnoticed (void)
{
  begin_both ();
  other->waited_ms = weftd.now_ms;
  lost (other, 1);
  UNTIL (other->op == 0);
  UNTIL (session (other)->path[1].back_live_ms);
  live_on (APART_MS / CLUSTER_TICK_MS);
  both_lose (0);
  other->behind = true; /* it is stopped, for instance */
  start_again (1);
  UNTIL (session (other)->path[1].lost);
  UNTIL (!session (other)->path[1].lost);
  live_on (4);
  assert (writers () == 2 && session (other)->apart.ms < APART_MS / 2);
  other->behind = false;
  heard_again (0);
  UNTIL (whole ());
}

/* ---- Where the fault is. ---- */

enum health { WELL, STUCK, HANGS, FAILED, OLD, SILENT, UNHEARD, HEALTHS };

/* The verdict's words about member 1.  lacks: bit 0, writer has lost it; bit 1, other has. */
static const char *
expected (enum health health, unsigned lacks, bool out, bool spoke)
{
  const char *const hears = out ? "weftd did" : "weftd can";

  if (lacks == 0 || (health != WELL && health != STUCK && health != SILENT) ||
      (out && !spoke && health != SILENT))
    return NULL;
  if (health == SILENT)
    return lacks == 3
             ? "Nobody reaches it, neither weftd nor nodes host0 and host1."
           : out ? "Nobody reaches it, neither weftd nor node host"
                 : "check the network of node n2.";
  if (health == STUCK)
    return "Its disk has answered nothing for 1 s: check the disk first.";
  if (lacks == 3)
    return "only weftd hears it: check the network of node n2, and the "
           "member's port there.";
  return hears;
}

static void
try_fault (enum health health, unsigned lacks, bool out, bool spoke)
{
  struct cluster_array *a = (struct cluster_array *) array ();
  struct cluster_disk *d = a->disk[1], before = *d;
  struct cluster_session *s[] = { session (writer), session (other) };
  const char *wanted = expected (health, lacks, out, spoke);
  char text[600];
  bool any;

  a->rec.member[1].state = out ? MEMBER_OUT : MEMBER_IN_SYNC;
  d->disk_stuck_ms = health == STUCK   ? DOUBTFUL_MS
                     : health == HANGS ? HUNG_MS
                                       : 0;
  d->state = health == FAILED ? DISK_FAILED : DISK_SERVING;
  d->old_copy = health == OLD;
  d->alive = health != SILENT;
  d->presence = health == UNHEARD ? DISK_UNHEARD : DISK_HEARD;
  d->spoke = spoke;
  for (unsigned i = 0; i < 2; i++) {
    s[i]->path[1].unreached_live_ms = lacks & 1u << i ? engine->live_ms : 0;
    s[i]->path[1].reached = out && !(lacks & 1u << i);
  }
  any = cluster_member_line (engine, a, 1, text, sizeof text);
  if (any != (wanted != NULL) || (wanted && !strstr (text, wanted))) {
    fprintf (stderr, "%d, lost by %u, %s, spoke %d: \"%s\", not \"%s\"\n",
             health, lacks, out ? "out" : "in-sync", spoke, any ? text : "",
             wanted ? wanted : "");
    abort ();
  }
  /* The verdict shows the words, and is a warning. */
  assert (!any || says (text));
  assert (!any || verdict () != CLUSTER_INFO);
  /* Do the words name the node, or both ends of the line? */
  if (any && health == WELL && lacks != 3)
    assert (strstr (text, lacks == 1
                            ? "connection between node host0 and node n2"
                            : "connection between node host1 and node n2"));
  for (unsigned i = 0; i < 2; i++) {
    s[i]->path[1].unreached_live_ms = 0;
    s[i]->path[1].reached = false;
  }
  a->rec.member[1].state = MEMBER_IN_SYNC;
  *d = before;
}

static void
test_each_fault (void)
{
  begin_both ();
  live_on (8);
  for (unsigned health = WELL; health < HEALTHS; health++)
    for (unsigned lacks = 0; lacks < 4; lacks++)
      for (unsigned i = 0; i < 4; i++)
        try_fault ((enum health) health, lacks, i & 1, i & 2);
}

/* Most sessions have lost a member that weftd hears: it goes out, and weftd knows which sessions
 * had lost it until it is given back.
 */
static void
test_fault_is_kept (void)
{
  begin_three ();
  lost (other, 1);
  UNTIL (other->op == 0);
  report_lost (reader, 1);
  UNTIL (state (1) == MEMBER_OUT);
  assert (session (writer)->path[1].reached &&
          !session (other)->path[1].reached);
  assert (session (other)->path[1].unreached_live_ms &&
          session (reader)->path[1].unreached_live_ms);
  UNTIL (whole ());
  assert (!session (writer)->path[1].reached &&
          !session (other)->path[1].unreached_live_ms &&
          !session (reader)->path[1].unreached_live_ms && !says ("reach it"));
}

/* A member that answers with errors is reached by all: it goes out, and catches up. */
static void
test_answers_with_errors (void)
{
  begin_both ();
  other->answers = true;
  lost (other, 1);
  UNTIL (state (1) != MEMBER_IN_SYNC);
  assert (!session (other)->path[1].unreached_live_ms); /* it is reached */
  UNTIL (whole ());
  assert (writers () == 2);
}

/* The other host is dead, perhaps with that member, and has not reported its loss.  That does
 * not count as time in which another session reaches the member.
 */
static void
test_apart_from_the_dead (void)
{
  begin_both ();
  fall_silent (other);
  for (unsigned i = 0; i < 36 || writer->op; i++) { /* 9 s */
    if (writer->op == 0)
      lost (writer, 1);
    live ();
  }
  assert (state (1) == MEMBER_IN_SYNC && session (writer)->apart.ms == 0);
  other->alive = true;
  for (unsigned i = 0; i < 16; i++) { /* 4 s */
    if (writer->op == 0)
      lost (writer, 1);
    live ();
  }
  assert (writers () == 2 && state (1) == MEMBER_IN_SYNC);
}

/* Another host dies again and again, with its member.  The session with good lines reports the
 * loss each time before weftd notices a silent party.  That does not count as time in which it
 * alone was without the member.
 */
static void
test_apart_from_one_that_dies_often (void)
{
  begin_both ();
  for (unsigned i = 0; i < 6; i++) {
    fall_silent (other);
    cut_off (1);
    for (unsigned ticks = 0; ticks < 12; ticks++) { /* 3 s */
      if (writer->op == 0)
        lost (writer, 1);
      live ();
    }
    start_again (1);
    snprintf (world.disk[1].instance, 16, "d1 life %u", i);
    come_again (other);
    other->attached = false;
    snprintf (other->instance, 16, "h1 life %u", i);
    other->takeover = true;
    attach_until_granted (other);
    UNTIL (whole ());
    assert (writers () == 2 && !session (writer)->rec.ended);
    assert (session (writer)->apart.ms == 0);
  }
}

/* Between two heartbeats that are far apart, a session may have been cut off.  That does not
 * count as time in which it had the member.  In 60 s only a few heartbeats are close.
 */
static void
test_apart_between_far_words (void)
{
  begin_both ();
  for (unsigned i = 0; i < 15; i++) { /* 4 s each */
    fall_silent (writer);
    for (unsigned ticks = 0; ticks < 15; ticks++) {
      if (other->op == 0)
        lost (other, 1);
      live ();
    }
    writer->alive = true;
    live ();
  }
  assert (session (other)->path[1].reported && writers () == 2);
  assert (session (other)->apart.ms < APART_MS / 2);
}

/* Two of three sessions have lost a member that one reaches: the member's line is bad.  The
 * member goes out, and no session ends.
 */
static void
test_apart_from_two (void)
{
  begin_three ();
  lost (other, 1);
  UNTIL (other->op == 0);
  assert (strcmp (other->code, "in-use") == 0 && state (1) == MEMBER_IN_SYNC);
  report_lost (reader, 1);
  UNTIL (whole ());
  assert (writers () == 3);
}

/* One host is cut off from two others; each of the hosts has a member.  The session of the
 * one host ends, although the two others had lost its member before.
 */
static void
test_one_host_is_cut_off (void)
{
  struct host *h[] = { writer, other, reader };
  unsigned lacks[] = { 1, 1, 2 };

  begin_three ();
  for (unsigned i = 0; i < 200 && !session (reader)->rec.ended; i++) {
    for (unsigned k = 0; k < 3; k++)
      if (h[k]->op == 0)
        lost (h[k], lacks[k]);
    live ();
    assert (!session (writer)->rec.ended && !session (other)->rec.ended);
  }
  assert (session (reader)->rec.ended && writers () == 2);
  assert (state (2) == MEMBER_IN_SYNC);
}

/* Short losses now and then end no session. */
static void
test_apart_for_moments (void)
{
  begin_both ();
  for (unsigned i = 0; i < 6; i++) {
    lost (other, 1);
    UNTIL (session (other)->path[1].lost);
    UNTIL (!session (other)->path[1].lost && rec ()->change.epoch == 0);
    live_on (60);
  }
  assert (writers () == 2 && whole ());
}

/* A session that has lost a last copy is not ended: all sessions wait until the copy is back.
 * The member's host is gone, which the writers notice before weftd does.
 */
static void
test_last_copy (void)
{
  unsigned last;

  begin_array_of (LAYOUT_RAID10);
  halves ();
  attach_until_granted (writer);
  attach_until_granted (other);
  both_lose (0);
  for (last = 1; cluster_copies_can_leave_out (array (), last);)
    last++;
  cut_off (last);
  for (unsigned i = 0; i < 120; i++) {
    if (other->op == 0)
      lost (other, last);
    live ();
  }
  assert (writers () == 2 && state (last) == MEMBER_IN_SYNC);
  start_again (last);
  UNTIL (rec ()->change.epoch == 0 && !session (other)->path[last].lost);
  live_on (60);
  assert (writers () == 2);
}

/* All sessions have lost the member: it goes out, although weftd hears it. */
static void
test_lost_by_all (void)
{
  begin_both ();
  lost (other, 1);
  UNTIL (other->op == 0);
  assert (state (1) == MEMBER_IN_SYNC);
  report_lost (writer, 1);
  UNTIL (other->states[1] == MEMBER_OUT);
  assert (writers () == 2);
}

/* A change waits until all sessions are prepared. */
static void
test_all_prepare (void)
{
  begin_both ();
  other->busy = true;
  cut_off (1);
  live_on (24); /* it is silent */
  lost (writer, 1);
  live_on (20);
  assert (state (1) == MEMBER_IN_SYNC && rec ()->change.sessions);
  other->busy = false;
  UNTIL (state (1) == MEMBER_OUT);
}

/* A missing member goes out before one more session is admitted. */
static void
test_missing_member (void)
{
  begin_one ();
  cut_off (3);
  live_on (60);
  assert (state (3) == MEMBER_IN_SYNC); /* its loss is not noticed yet */
  attach_until_granted (other);
  assert (other->states[3] == MEMBER_OUT && writers () == 2);
}

/* How a host attaches, alone or beside the other one. */
enum way { ALONE, PART, LEASES, READ };

/* A member has died a moment ago, and its loss is not noticed yet.  An attach in any mode waits
 * until the member is back; or it is granted without the member, when that has been silent for
 * MISSING_MS.
 */
static void
test_awaited_member (enum way way, bool comes)
{
  struct host *h = way == READ ? reader : other;
  struct cluster_disk_heartbeat hb;
  uint64_t begin;

  begin_array ();
  if (way == PART)
    halves ();
  writer->leases = other->leases = way == LEASES;
  if (way != ALONE)
    attach_until_granted (writer);
  live_on (4);
  cut_off (2);
  begin = weftd.now_ms;
  host_attach (h);
  live_on (16);
  assert (h->op != 0 && !h->answered);
  if (comes) {
    hb = disk_words (&world.disk[2], 0);
    hb.state = DISK_STARTING;
    ASK (cluster_disk_heartbeat (engine, in, &hb));
    live_on (2);
    assert (!h->answered); /* it can't be reached yet */
    heard_again (2);
    live_on (8);
    assert (h->attached && whole ());
    return;
  }
  attach_until_granted (h);
  assert (h->states[2] == MEMBER_OUT);
  assert (weftd.now_ms - begin >= MISSING_MS - REST_MS);
  assert (weftd.now_ms - begin <= MISSING_MS + 2 * HEARTBEAT_MS);
}

/* If a member is not in-sync, one more session is admitted when all are prepared. */
static void
test_degraded (void)
{
  begin_one ();
  world.disk[1].slow = true;
  die (1);
  writer->busy = true;
  host_attach (other);
  live_on (8);
  assert (!other->attached);
  writer->busy = false;
  attach_until_granted (other);
  assert (other->states[1] == MEMBER_OUT && writers () == 2);
}

/* The node of a dead session reports the end of its process, and asks for the whole array.  It
 * is refused, because another session is alive.
 */
static void
test_dead_and_well (void)
{
  begin_both ();
  fall_silent (writer);
  reader->writable = true;
  reader->ended = writer->session;
  memcpy (reader->node, writer->node, sizeof reader->node);
  live_on (8);
  host_attach (reader);
  UNTIL (reader->op == 0);
  assert (!reader->attached && strcmp (reader->code, "held") == 0);
  assert (!session (other)->rec.ended);
}

/* A takeover of a part ends its holder's session, and no other one. */
static void
test_takeover (void)
{
  struct cluster_session *old;

  begin_both ();
  old = session (other);
  reader->writable = reader->takeover = true;
  reader->part = other->part;
  attach_until_granted (reader);
  assert (old->rec.ended && !session (writer)->rec.ended && writers () == 2);
  UNTIL (other->over);
  /* A takeover of the whole array ends all sessions. */
  come_again (other);
  snprintf (other->instance, 16, "h1 again");
  other->takeover = true;
  other->part = (struct cluster_part) { 0 };
  attach_until_granted (other);
  assert (writers () == 1);
  UNTIL (writer->over && reader->over);
}

/* Two hosts attach the same part beside a third host at the same time, while a member is not
 * in-sync: one of the two is admitted.
 */
static void
test_same_part_twice (void)
{
  begin_one ();
  die (1);
  writer->busy = true;
  reader->writable = true;
  reader->part = other->part;
  host_attach (other);
  live_on (4);
  host_attach (reader);
  UNTIL (reader->op == 0);
  assert (strcmp (reader->code, "held") == 0);
  writer->busy = false;
  attach_until_granted (other);
  assert (writers () == 2);
}

/* The session that has the part of a bad range zeroes it (accept-loss); a range without an
 * owner, or in two parts, is refused.
 */
static void
test_loss_of_a_part (void)
{
  struct cluster_loss loss = { .count = 1 };
  struct cluster_disk_heartbeat hb;
  static struct bad_list bad;
  struct layout_piece p;

  begin_both ();
  layout_map (&array ()->layout, other->part.offset, 4096, &p);
  assert (bad_add (&bad, p.copy[0].offset, 4096, BAD_RESYNC));
  bad.sequence = 1;
  hb = disk_words (&world.disk[p.copy[0].member], 0);
  hb.bad = bad;
  CALL (++weftd.op, cluster_disk_heartbeat (engine, in, &hb));
  carry_out ();
  loss.range[0].offset = other->part.offset - 4096;
  loss.range[0].length = 8192;
  REFUSED (CLUSTER_CONFLICT, "not-attached",
           cluster_array_accept_loss (engine, in, "a", &loss));
  loss.range[0].offset = other->part.offset;
  loss.range[0].length = 4096;
  ASK (cluster_array_accept_loss (engine, in, "a", &loss));
  assert (world.answer.kind == CLUSTER_REPLY_ARRAY);
  assert (cluster_session_loss (engine, session (other))->count == 1);
  assert (cluster_session_loss (engine, session (writer)) == NULL);
}

/* A fence of a node is answered when all members have confirmed the end of its session. */
static void
test_fence (void)
{
  bool answered;

  begin_both ();
  world.disk[2].holds = true;
  world.admin_answered = false;
  CALL (world.admin_op = ++weftd.op,
        cluster_node_fence (engine, in, other->node, true, "kim"));
  live_on (20);
  answered = world.admin_answered;
  assert (!answered && session (other)->rec.ended);
  world.disk[2].holds = false;
  UNTIL (world.admin_answered);
  assert (world.admin.kind == CLUSTER_REPLY_NODE && writers () == 1);
}

/* The fence of a host that is gone together with a member is confirmed: without another writer
 * as for a single writer, else when that member is out, although no request waits for it.
 */
static void
test_fence_with_member (bool alone)
{
  begin_array_of (LAYOUT_RAID10);
  halves ();
  if (!alone)
    attach_until_granted (writer);
  attach_until_granted (other);
  fall_silent (other);
  cut_off (2);
  live_on (10);
  do {
    world.admin_answered = false;
    CALL (world.admin_op = ++weftd.op,
          cluster_node_fence (engine, in, other->node, true, "kim"));
    UNTIL (world.admin_answered);
  } while (world.admin.kind != CLUSTER_REPLY_NODE);
  assert (session (other)->rec.ended);
  assert (alone || state (2) == MEMBER_OUT);
}

/* The end of a session restarts a joining member even if another change replaces the change
 * that was to restart it.
 */
static void
test_end_is_not_forgotten (void)
{
  unsigned x = 0;
  uint64_t fence;

  begin_array_of (LAYOUT_RAID10);
  halves ();
  attach_until_granted (writer);
  attach_until_granted (other);
  world.disk[1].slow = true;
  both_lose (1);
  heard_again (1);
  UNTIL (world.disk[1].phase == CLUSTER_JOIN_COPYING &&
         rec ()->change.epoch == 0);
  live_on (4);
  fence = member (1)->fence;
  cut_off (1); /* a moment only */
  CALL (++weftd.op, cluster_session_evict (engine, in, other->session, "kim"));
  carry_out ();
  other->attached = false;
  while (x == 1 || !cluster_copies_can_leave_out (array (), x))
    x++;
  cut_off (x);
  report_lost (writer, x);
  heard_again (1);
  world.disk[1].slow = false;
  UNTIL (state (1) == MEMBER_IN_SYNC);
  assert (member (1)->fence > fence);
}

/* If the only writer ends, a host that waits to write beside it is admitted by a fence. */
static void
test_beside_nobody (void)
{
  struct cluster_disk_heartbeat hb;

  begin_array_of (LAYOUT_RAID10);
  halves ();
  attach_until_granted (writer);
  die (1);
  writer->busy = true;
  host_attach (other);
  live_on (20);
  assert (!other->attached && rec ()->change.sessions);
  cut_off (2);
  hb = disk_words (&world.disk[2], 0);
  hb.state = DISK_FAILED;
  CALL (++weftd.op, cluster_session_evict (engine, in, writer->session, "kim"));
  CALL (++weftd.op, cluster_disk_heartbeat (engine, in, &hb));
  carry_out ();
  attach_until_granted (other);
  for (unsigned m = 0; m < MEMBERS; m++)
    assert (state (m) == MEMBER_OUT ||
            world.disk[m].min_epoch >= member (m)->fence);
}

/* A member begins to copy only when every member has confirmed the end of an ended writer. */
static void
test_copies_later (void)
{
  begin_both ();
  both_lose (1);
  world.disk[2].holds = true;
  detach (other);
  heard_again (1);
  live_on (40);
  assert (state (1) == MEMBER_JOINING);
  assert (world.disk[1].phase == CLUSTER_JOIN_WAITING);
  world.disk[2].holds = false;
  UNTIL (whole ());
}

/* weftd is killed after each of its actions in the life of two sessions. */
static void
day (void)
{
  make_array_of (LAYOUT_RAIDX);
  halves ();
  attach_until_granted (writer);
  attach_until_granted (other);
  both_lose (2);
  heard_again (2);
  UNTIL (whole () && other->states[2] == MEMBER_IN_SYNC);
  fall_silent (other);
  UNTIL (session (other) == NULL || session (other)->rec.ended);
  assert (session (writer) && !session (writer)->rec.ended);
  other->alive = true;
  UNTIL (other->over);
  snprintf (other->instance, 16, "h1 again");
  come_again (other);
  attach_until_granted (other);
  assert (writers () == 2);
  detach (writer);
  detach (other);
  UNTIL (whole ());
}

int
main (void)
{
  test_beside ();
  test_held ();
  test_bad_parts ();
  test_both_at_once ();
  test_too_many ();
  test_end (false);
  test_end (true);
  test_end_held ();
  test_last_end ();
  test_silent ();
  test_all_silent (false, false);
  test_all_silent (true, false);
  test_all_silent (false, true);
  test_all_silent (true, true);
  test_one_is_heard ();
  test_one_comes_anew ();
  test_one_comes_and_has_died ();
  test_attach_after_all_silent ();
  test_joiner_begins_anew (false);
  test_joiner_begins_anew (true);
  test_silent_disk ();
  test_apart ();
  test_each_fault ();
  test_fault_is_kept ();
  test_answers_with_errors ();
  test_apart_from_the_dead ();
  test_apart_from_one_that_dies_often ();
  test_apart_between_far_words ();
  test_apart_from_two ();
  test_one_host_is_cut_off ();
  test_apart_for_moments ();
  test_apart_behind_a_line ();
  test_apart_between_answers ();
  test_apart_unnoticed ();
  test_last_copy ();
  test_lost_by_all ();
  test_all_prepare ();
  test_missing_member ();
  for (enum way way = ALONE; way <= READ; way++)
    test_awaited_member (way, true);
  for (enum way way = ALONE; way <= LEASES; way++)
    test_awaited_member (way, false);
  test_degraded ();
  test_dead_and_well ();
  test_takeover ();
  test_same_part_twice ();
  test_loss_of_a_part ();
  test_fence ();
  test_fence_with_member (true);
  test_fence_with_member (false);
  test_end_is_not_forgotten ();
  test_beside_nobody ();
  test_copies_later ();
  kill_at_each (day);
  return 0;
}
