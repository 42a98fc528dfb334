/* test-cluster-overdue.c: members and hosts that send heartbeats, and do not say what
 * others wait for.
 *
 * Each word (enum cluster_word) has a scene, in which weftd waits for it and a party
 * withholds it.  The word comes in time, late, or never.  A word without a scene fails,
 * and so does a kind of waiting operation without a bound.
 */

#include <config.h>

#include "test-cluster-world.h"

#define MEMBER_MS 30000
#define READER_MS 120000
#define WRITER_MS 300000
#define SAID_MS 5000
/* weftd looks every so often, and what follows takes some heartbeats. */
#define AFTER_MS 3000
/* A scene takes some seconds to begin, and then the word is owed already. */
#define BEFORE_MS 6000

struct scene {
  void (*begin) (void);  /* it is waited for from now on, and withheld */
  void (*say) (void);    /* from now on the word comes */
  bool (*acted) (void);  /* weftd has drawn the consequence */
  bool (*served) (void); /* the waiting operations are done */
  uint64_t bound_ms;
  const char *named; /* in the verdict */
};

static const struct cluster_part first = { .offset = 0, .length = LEASE_BYTES };

/* Nobody answers a call of this host any more; it asks again. */
static void
attach_often (struct host *h)
{
  if (!h->attached && h->op == 0 && h->alive)
    host_attach (h);
}

static bool
ended (struct host *h)
{
  return session (h)->rec.ended;
}

/* ---- Members: the third, or its disk. ---- */

static bool
out (void)
{
  return state (2) == MEMBER_OUT;
}

static bool
back (void)
{
  return whole ();
}

static void
shut_begin (void)
{
  uint64_t half;

  begin_array ();
  half = array ()->layout.size / KiB (512) * KiB (256);
  writer->obeys = other->obeys = true;
  writer->part = (struct cluster_part) { .length = half };
  other->part = (struct cluster_part) {
    .offset = half, .length = array ()->layout.size - half
  };
  attach_until_granted (writer);
  attach_until_granted (other);
  world.disk[2].holds = true;
  detach (other);
  come_again (other);
  snprintf (other->instance, sizeof other->instance, "h1 again");
}

static void
shut_say (void)
{
  world.disk[2].holds = false;
}

static bool
shared_again (void)
{
  attach_often (other);
  return other->attached;
}

/* No epoch is confirmed any more, where nobody is attached. */
static void
fenced_begin (void)
{
  healthy ();
  world.disk[2].unfenced = true;
  detach (writer);
}

static void
fenced_say (void)
{
  world.disk[2].unfenced = false;
}

static bool
read_again (void)
{
  attach_often (reader);
  return reader->attached;
}

static void
place_begin (void)
{
  begin_array ();
  world.disk[2].placeless = true;
  UNTIL (!known (2)->took_place);
}

static void
place_say (void)
{
  world.disk[2].placeless = false;
}

static bool
written_again (void)
{
  attach_often (writer);
  return writer->attached;
}

/* ---- Sessions. ---- */

/* A member is lost, and the reader does not prepare itself for that. */
static void
prepared_begin (void)
{
  healthy_with_reader ();
  live_on (8);
  reader->busy = true;
  cut_off (2);
  lost (writer, 2);
}

static void
prepared_say (void)
{
  reader->busy = false;
}

static bool
reader_ended (void)
{
  return ended (reader);
}

static bool
member_lost (void)
{
  if (writer->op == 0 && !out ())
    lost (writer, 2);
  return out ();
}

/* The array's epoch changes, and the reader goes on in the former one. */
static void
epoch_begin (void)
{
  healthy_with_reader ();
  reader->behind = true;
  report_lost (writer, 2);
}

static void
epoch_say (void)
{
  reader->behind = false;
}

static bool
rekeyed (void)
{
  /* The key has changed; whether the host knows it is not judged here. */
  if (known (1)->told.key_live_ms == 0 && !cluster_disk_rekeys (known (1)))
    CALL (++weftd.op, cluster_disk_rekey (engine, in, world.disk[1].uuid));
  carry_out ();
  return known (1)->told.key_live_ms != 0;
}

/* The writer's earlier writes do not reach the copies that others read. */
static void
arrived_begin (void)
{
  healthy_with_reader ();
  writer->lags = true;
  report_lost (writer, 2);
  UNTIL (state (2) == MEMBER_IN_SYNC && reader->heard.hold);
}

static void
arrived_say (void)
{
  writer->lags = false;
}

/* It writes alone: it stays until another one comes. */
static bool
replaced (void)
{
  if (session (writer)->overdue == WORD_NONE)
    return false;
  attach_often (other);
  return ended (writer);
}

static bool
not_held (void)
{
  return !reader->heard.hold;
}

/* ---- Those who share by leases. ---- */

static void
say_leases (struct host *h, struct cluster_lease_message *w)
{
  static uint32_t count;

  snprintf (w->instance, sizeof w->instance, "%s", h->instance);
  w->number = LEASE_NUMBERS (cluster_identity (engine)->generation) + ++count;
  CALL (world.admin_op = ++weftd.op,
        cluster_session_leases (engine, in, h->session, w));
  carry_out ();
}

static void
give (struct host *h, const struct cluster_part *p)
{
  struct cluster_lease_message w = { .given = (struct cluster_part *) p,
                                     .given_count = 1 };

  say_leases (h, &w);
}

static void
declare (struct host *h)
{
  struct cluster_lease_message w = { .declare = true };

  say_leases (h, &w);
}

static void
ask (struct host *h)
{
  struct cluster_lease_message w = { .ask = { { first, first } },
                                     .asks = 1,
                                     .wait_ms = 2000 };

  if (h->lease_op != 0)
    return;
  snprintf (w.instance, sizeof w.instance, "%s", h->instance);
  CALL (h->lease_op = ++weftd.op,
        cluster_session_leases (engine, in, h->session, &w));
  carry_out ();
}

static void
recover (struct host *h)
{
  struct cluster_lease_message w = { .recovered = h->heard.recover };

  h->order = h->heard.recover;
  h->heard.recover = 0;
  say_leases (h, &w);
}

/* Two or three hosts share it; the first has resynchronized everything and given it
 * back. */
static void
share (unsigned hosts)
{
  struct cluster_part all;

  begin_array ();
  for (unsigned i = 0; i < hosts; i++) {
    world.host[i].writable = world.host[i].leases = true;
    attach_until_granted (&world.host[i]);
    if (i == 0)
      recover (writer);
  }
  all = (struct cluster_part) { .length = array ()->layout.size };
  give (writer, &all);
}

static bool
granted (struct host *h)
{
  ask (h);
  return h->lease_op == 0 && h->lease.kind == CLUSTER_REPLY_LEASES;
}

static bool
other_ended (void)
{
  return ended (other);
}

static void
given_begin (void)
{
  share (2);
  UNTIL (granted (other));
  writer->lease.kind = CLUSTER_REPLY_PROBLEM;
  ask (writer);
  live_on (2);
}

static void
given_say (void)
{
  give (other, &first);
}

static bool
writer_granted (void)
{
  if (writer->heard.recover)
    recover (writer);
  return granted (writer);
}

/* weftd was started again during the second host's resync.  Until that host has reported
 * the end of its resync, it does not declare its ranges.
 */
static void
declared_begin (void)
{
  share (2);
  other->copying = true;
  reincarnate ();
  live_on (8);
  declare (writer);
  writer->lease.kind = CLUSTER_REPLY_PROBLEM;
}

static void
declared_say (void)
{
  other->copying = false;
  declare (other);
}

/* The host that has the order to recover. */
static struct host *
recoverer (void)
{
  return array ()->leases->recoverer == session (other) ? other : reader;
}

static struct host *ordered; /* the first */

/* One ends, and the next does not take the order to recover what it had. */
static void
order_begin (void)
{
  share (3);
  UNTIL (granted (writer));
  other->lease.kind = reader->lease.kind = CLUSTER_REPLY_PROBLEM;
  fall_silent (writer);
  UNTIL (other->heard.recover || reader->heard.recover);
  ordered = recoverer ();
}

static void
order_say (void)
{
  recover (recoverer ());
}

static bool
order_ended (void)
{
  return ended (ordered);
}

static bool
order_done (void)
{
  if (array ()->leases->recoverer && recoverer ()->heard.recover &&
      recoverer () != ordered)
    recover (recoverer ());
  return array ()->leases->order == 0 && !rec ()->to_recover;
}

/* ---- Processes that admit clients.  ---- */

static void
fences_begin (void)
{
  begin_array ();
  writer->exports = true;
  attach_until_granted (writer);
  live_on (4);
  writer->busy = true;
  CALL (++weftd.op, cluster_node_fence (engine, in, "n1", true, "kim"));
  carry_out ();
}

static void
fences_say (void)
{
  writer->busy = false;
}

static bool
writer_ended (void)
{
  return ended (writer);
}

static bool
fence_done (void)
{
  return ended (writer) ||
         session (writer)->fences >= cluster_fence_number (engine);
}

static void
left_begin (void)
{
  struct cluster_service service = { .nodes = 1, .node = { "host0" } };

  begin_array ();
  CALL (++weftd.op, cluster_service_set (engine, in, "a", &service));
  carry_out ();
  writer->service = true;
  UNTIL (writer->attached);
  writer->stays = true;
  CALL (++weftd.op, cluster_service_drop (engine, in, "a"));
  carry_out ();
}

static void
left_say (void)
{
  writer->stays = false;
}

static bool
nobody_serves (void)
{
  return cluster_array_writer (array ()) == NULL;
}

static bool
left_ended (void)
{
  return nobody_serves () && strstr (session (writer)->rec.reason, "weftd");
}

static const struct scene scenes[CLUSTER_WORDS] = {
  [WORD_PLACE] = { place_begin, place_say, out, written_again, MEMBER_MS,
                   "taken its place" },
  [WORD_FENCED] = { fenced_begin, fenced_say, out, read_again, MEMBER_MS,
                    "of former epochs" },
  [WORD_SHUT] = { shut_begin, shut_say, out, shared_again, MEMBER_MS,
                  "refuses a session that has ended" },
  [WORD_PREPARED] = { prepared_begin, prepared_say, reader_ended, member_lost,
                      READER_MS, "prepared itself" },
  [WORD_EPOCH] = { epoch_begin, epoch_say, reader_ended, rekeyed, READER_MS,
                   "taken in the array's epoch" },
  [WORD_ARRIVED] = { arrived_begin, arrived_say, replaced, not_held, WRITER_MS,
                     "has reached all copies" },
  [WORD_DECLARED] = { declared_begin, declared_say, other_ended, writer_granted,
                      WRITER_MS, "said which leases it has" },
  [WORD_GIVEN] = { given_begin, given_say, other_ended, writer_granted,
                   WRITER_MS, "given back a lease" },
  [WORD_ORDER] = { order_begin, order_say, order_ended, order_done, WRITER_MS,
                   "taken the order to recover" },
  [WORD_FENCES] = { fences_begin, fences_say, writer_ended, fence_done,
                    WRITER_MS, "refuses clients" },
  [WORD_LEFT] = { left_begin, left_say, left_ended, nobody_serves, WRITER_MS,
                  "left off serving" },
};

/* Is the culprit in the verdict, by the word that it owes? */
static bool
is_named (const struct scene *s)
{
  return says ("sends heartbeats, but has not") && says (s->named);
}

/* Live, while those who wait go on to ask. */
static void
wait (const struct scene *s, uint64_t ms)
{
  for (uint64_t end = weftd.now_ms + ms; weftd.now_ms < end;) {
    s->served ();
    live ();
  }
}

static void
test_in_time (enum cluster_word word)
{
  const struct scene *s = &scenes[word];

  s->begin ();
  wait (s, s->bound_ms - BEFORE_MS);
  assert (!s->acted () && is_named (s));
  s->say ();
  UNTIL (s->served ());
  live_on (40);
  assert (!s->acted () && !says ("sends heartbeats, but has not"));
}

/* late: the word comes after all. */
static void
test_never (enum cluster_word word, bool late)
{
  const struct scene *s = &scenes[word];
  /* Between two asks for a lease nobody waits for it. */
  uint64_t pauses_ms = word == WORD_GIVEN ? s->bound_ms / 4 : 0;
  uint64_t begin, epoch;

  s->begin ();
  begin = weftd.now_ms;
  while (!is_named (s)) {
    wait (s, CLUSTER_TICK_MS);
    assert (weftd.now_ms - begin < SAID_MS + AFTER_MS);
  }
  assert (verdict () >= CLUSTER_WARNING);
  while (!s->acted ()) {
    wait (s, CLUSTER_TICK_MS);
    assert (weftd.now_ms - begin < s->bound_ms + AFTER_MS + pauses_ms);
  }
  assert (weftd.now_ms - begin > s->bound_ms - BEFORE_MS);
  UNTIL (s->served ());
  if (!late || word > WORD_SHUT)
    return;
  epoch = rec ()->epoch;
  live_on (240);
  if (word == WORD_SHUT) /* it is not even taken back */
    assert (out () && is_named (s) && rec ()->epoch == epoch);
  s->say ();
  UNTIL (back ());
}

/* ---- What does not count. ---- */

/* A member whose disk is busy has four times as long. */
static void
test_busy (void)
{
  uint64_t begin;

  shut_begin ();
  begin = weftd.now_ms;
  world.disk[2].works = 100;
  UNTIL (out ());
  assert (weftd.now_ms - begin > 4 * MEMBER_MS - 2 * AFTER_MS);
  assert (weftd.now_ms - begin < 4 * MEMBER_MS + AFTER_MS);
}

/* The member with the only copy of something stays, and is named. */
static void
test_last_copy (void)
{
  begin_array_of (LAYOUT_RAID10);
  attach_until_granted (writer);
  die (0);
  world.disk[2].unfenced = true; /* its mirror */
  detach (writer);
  live_on (400);
  assert (state (2) == MEMBER_IN_SYNC);
  assert (says ("of former epochs") && says ("only copy of some data"));
  world.disk[2].unfenced = false;
  heard_again (0);
  UNTIL (whole ());
}

/* A session that only reads ends, and the next one. */
static void
read_once (unsigned number)
{
  come_again (reader);
  snprintf (reader->instance, sizeof reader->instance, "r%u", number);
  attach_until_granted (reader);
  detach (reader);
}

/* A member goes out for no word that it says each time, though it is always asked for the
 * next one.
 */
static void
test_asked_often (void)
{
  healthy ();
  world.disk[2].holds = true;
  for (unsigned i = 0; i < 60; i++) {
    uint64_t before = rec ()->over_count > 0
                        ? rec ()->over[rec ()->over_count - 1].number
                        : 0;

    read_once (i);
    world.disk[2].over = before;
    live_on (4);
    assert (state (2) == MEMBER_IN_SYNC);
    assert (cluster_shut_owed (array (), 2) > before);
  }
  UNTIL (out ());
}

/* Time counts only while it is heard. */
static void
test_now_and_then (void)
{
  uint64_t begin;

  shut_begin ();
  begin = weftd.now_ms;
  while (!out ()) {
    heard_again (2);
    live_on (2);
    cut_off (2);
    live_on (16); /* less than MEMBER_TTL_MS */
    assert (known (2)->alive);
  }
  assert (weftd.now_ms - begin > MEMBER_MS + 2 * AFTER_MS);
}

/* A joining member is no other. */
static void
test_joining (void)
{
  joining (2);
  world.disk[2].holds = true;
  read_once (0);
  live_on ((MEMBER_MS - AFTER_MS) / CLUSTER_TICK_MS);
  assert (state (2) == MEMBER_JOINING);
  UNTIL (out () && known (2)->overdue == WORD_SHUT);
  assert (strstr (rec ()->member[2].reason, "sends heartbeats"));
  live_on (60);
  assert (out () && says ("does not confirm weftd's orders, and is out"));
  world.disk[2].holds = world.disk[2].slow = false;
  UNTIL (whole ());
}

/* weftd was started again, so its wait begins again. */
static void
test_started (void)
{
  uint64_t begin;

  shut_begin ();
  live_on (MEMBER_MS / CLUSTER_TICK_MS - 8);
  reincarnate ();
  begin = weftd.now_ms;
  UNTIL (out ());
  assert (weftd.now_ms - begin > MEMBER_MS - AFTER_MS);
}

/* A session that can't say its word, for a member is silent, keeps its time. */
static void
test_kept_from_it (void)
{
  prepared_begin ();
  world.disk[1].shortage = "room";
  live_on (2 * READER_MS / CLUSTER_TICK_MS);
  assert (!ended (reader));
  world.disk[1].shortage = NULL;
  live_on ((READER_MS + AFTER_MS) / CLUSTER_TICK_MS);
  assert (ended (reader));
}

/* A writer that is alone goes on with its word overdue, if no process takes its place. */
static void
test_alone (void)
{
  arrived_begin ();
  live_on ((WRITER_MS + 10 * AFTER_MS) / CLUSTER_TICK_MS);
  assert (session (writer)->overdue == WORD_ARRIVED && !ended (writer));
  assert (says ("another process may attach the array in its place"));
  arrived_say ();
  UNTIL (session (writer)->overdue == WORD_NONE);
  host_attach (other);
  UNTIL (other->op == 0);
  assert (other->code && strcmp (other->code, "held") == 0);
}

/* ---- Each wait has a bound. ---- */

/* Those of enum waiting_kind are operations of callers: each is answered by its deadline,
 * or when the known process of a disk has been silent for TAKEOVER_MS.
 */
static const uint64_t waitings_ms[WAIT_KINDS] = {
  [WAIT_DISK] = HOLD_MS_MAX,        [WAIT_CONTENDER] = TAKEOVER_MS,
  [WAIT_SESSION] = HOLD_MS_MAX,     [WAIT_ATTACH] = ATTACH_MS,
  [WAIT_HOLDER] = CHALLENGE_MS,     [WAIT_MEMBERS] = ATTACH_MS,
  [WAIT_SERVICE] = SERVICE_WAIT_MS, [WAIT_FENCE] = FENCE_MS,
  [WAIT_SHUT_OUT] = SHUT_OUT_MS,    [WAIT_LOST] = LOST_MS,
  [WAIT_LEASES] = HOLD_MS_MAX,      [WAIT_ORDER] = ORDER_MS,
};

int
main (void)
{
  for (unsigned k = 0; k < WAIT_KINDS; k++)
    assert (waitings_ms[k] > 0);
  for (enum cluster_word w = WORD_NONE + 1; w < CLUSTER_WORDS; w++) {
    assert (scenes[w].begin && cluster_word_owed (w));
    test_in_time (w);
    test_never (w, false);
    test_never (w, true);
  }
  test_busy ();
  test_last_copy ();
  test_asked_often ();
  test_now_and_then ();
  test_joining ();
  test_started ();
  test_kept_from_it ();
  test_alone ();
  return 0;
}
