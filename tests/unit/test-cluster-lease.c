/* test-cluster-lease.c: sessions share an array by leases: grants, recalls, declarations
 * and recovery, and that two sessions never hold the same range.
 *
 * WEFT_SEED replays the random part.
 */

#include <config.h>

#include "test-cluster-world.h"
#include "test-random.h"

#define SECTOR LEASE_BYTES

static uint64_t
size (void)
{
  return array ()->layout.size;
}

static void
begin (void)
{
  begin_array ();
  for (unsigned i = 0; i < HOSTS; i++)
    world.host[i].writable = world.host[i].leases = true;
}

/* A session's words about leases: none yet. */
static struct cluster_lease_message
words_of (const struct host *h)
{
  struct cluster_lease_message w = { .number = 0 };

  snprintf (w.instance, sizeof w.instance, "%s", h->instance);
  return w;
}

/* Each of these has a greater number than those before, of this life of weftd. */
static uint64_t number;

static uint64_t
next_number (void)
{
  uint64_t first = LEASE_NUMBERS (cluster_identity (engine)->generation);

  number = number >> 32 == first >> 32 ? number + 1 : first + 1;
  return number;
}

static void
say (struct host *h, struct cluster_lease_message *w)
{
  w->number = next_number ();
  CALL (world.admin_op = ++weftd.op,
        cluster_session_leases (engine, in, h->session, w));
  carry_out ();
  assert (world.admin_op == 0);
}

static void
give (struct host *h, uint64_t offset, uint64_t length)
{
  struct cluster_lease_message w = words_of (h);
  struct cluster_part p = { offset, length };

  w.given = &p;
  w.given_count = 1;
  say (h, &w);
  assert (world.admin.kind == CLUSTER_REPLY_LEASES);
}

/* It has recovered what it was ordered to. */
static void
recover (struct host *h)
{
  struct cluster_lease_message w = words_of (h);

  assert (h->heard.recover);
  h->order = w.recovered = h->heard.recover;
  say (h, &w);
  assert (world.admin.kind == CLUSTER_REPLY_LEASES);
  h->heard.recover = 0;
}

static void
add_ask (struct cluster_lease_message *w, uint64_t offset, uint64_t length,
         uint64_t start, uint64_t end)
{
  w->ask[w->asks++] = (struct cluster_lease_ask) { { offset, length },
                                                   { start, end - start } };
}

/* Ask, and wait. */
static void
ask_all (struct host *h, struct cluster_lease_message *w)
{
  w->wait_ms = 2000;
  CALL (h->lease_op = ++weftd.op,
        cluster_session_leases (engine, in, h->session, w));
  carry_out ();
}

static void
ask_wish (struct host *h, uint64_t offset, uint64_t length, uint64_t start,
          uint64_t end)
{
  struct cluster_lease_message w = words_of (h);

  add_ask (&w, offset, length, start, end);
  ask_all (h, &w);
}

static void
ask (struct host *h, uint64_t offset, uint64_t length)
{
  ask_wish (h, offset, length, offset, offset + length);
}

/* Was it granted this, and just this? */
static bool
granted (const struct host *h, uint64_t start, uint64_t end)
{
  return h->lease_op == 0 && h->lease.kind == CLUSTER_REPLY_LEASES &&
         h->lease.granted_count == 1 && h->lease.granted[0].offset == start &&
         h->lease.granted[0].offset + h->lease.granted[0].length == end;
}

/* Is it asked back this, and no more? */
static bool
asked_back (const struct host *h, uint64_t start, uint64_t end)
{
  struct cluster_lease_told told;
  bool so;

  cluster_lease_told (engine, array (), session (h), &told);
  so = told.revokes == 1 && told.revoke[0].must.offset == start &&
       told.revoke[0].must.offset + told.revoke[0].must.length == end;
  free (told.revoke);
  free (told.ranges);
  return so;
}

/* Of two, the first has given back all. */
static void
begin_free (void)
{
  begin ();
  attach_until_granted (writer);
  recover (writer);
  attach_until_granted (other);
  give (writer, 0, size ());
}

/* The first session holds all as soon as it has resynchronized it; the second holds
 * nothing. */
static void
test_begin (void)
{
  struct cluster_lease_map map;
  uint64_t epoch;

  begin ();
  assert (!cluster_lease_map (engine, array (), &map) && !rec ()->to_recover);
  epoch = rec ()->epoch;
  attach_until_granted (writer);
  assert (rec ()->epoch == epoch + 1 && rec ()->to_recover);
  assert (writer->heard.recover && writer->heard.ranges_count == 1);
  assert (writer->heard.ranges[0].length == size ());
  attach_until_granted (other);
  assert (other->heard.recover == 0 && rec ()->epoch == epoch + 1);
  assert (cluster_lease_map (engine, array (), &map));
  assert (map.orphan_bytes == size () && map.held_bytes == 0);
  assert (map.recoverer == writer->session);

  /* Nothing is granted before that. */
  ask (other, 0, SECTOR);
  live_on (4);
  assert (other->lease_op != 0);
  recover (writer);
  assert (!rec ()->to_recover && !stored_array_name ("a")->to_recover);
  assert (cluster_lease_map (engine, array (), &map));
  assert (map.orphan_bytes == 0 && map.held_bytes == size ());
  assert (map.cell[7].holder == writer->session && map.recoverer == 0);
  UNTIL (writer->heard.revokes == 1);
  assert (asked_back (writer, 0, SECTOR));
  give (writer, 0, SECTOR);
  assert (granted (other, 0, SECTOR) && asked_back (writer, 0, 0) == false);
}

/* A session that is alone gets all that it may; another one what it wishes for, up to what
 * somebody has.
 */
static void
test_wish (void)
{
  begin_free ();
  ask_wish (other, MiB (1), SECTOR, 0, MiB (2));
  assert (granted (other, 0, MiB (2)));
  ask_wish (writer, MiB (2) + SECTOR, SECTOR, MiB (1), MiB (3));
  assert (granted (writer, MiB (2), MiB (3)));
  /* Its own ranges may join its free ones in one grant. */
  ask_wish (writer, MiB (4), SECTOR, MiB (2), MiB (5));
  assert (granted (writer, MiB (2), MiB (5)));
  detach (other);
  ask (writer, MiB (6), SECTOR);
  assert (granted (writer, 0, size ()));
}

/* Two ask for what each has some of: the one that came later is refused at once, so that
 * it gives back what the other needs.
 */
static void
test_crossing (void)
{
  begin_free ();
  ask (writer, 0, SECTOR);
  ask (other, SECTOR, SECTOR);
  assert (granted (writer, 0, SECTOR) && granted (other, SECTOR, 2 * SECTOR));
  ask (writer, 0, 2 * SECTOR);
  live_on (1);
  assert (writer->lease_op != 0 && asked_back (other, SECTOR, 2 * SECTOR));
  ask (other, 0, 2 * SECTOR);
  assert (other->lease_op == 0);
  expect_refused (other->lease, CLUSTER_CONFLICT, "leases-wait");
  give (other, SECTOR, SECTOR);
  assert (granted (writer, 0, 2 * SECTOR));
  /* It gives back the ranges that it does not ask for while its own request waits, so
   * that request stays. */
  ask (other, 4 * SECTOR, SECTOR);
  ask (writer, 4 * SECTOR, SECTOR);
  assert (granted (other, 4 * SECTOR, 5 * SECTOR) && writer->lease_op != 0);
  ask (other, SECTOR, SECTOR);
  live_on (1);
  assert (other->lease_op != 0 && writer->lease_op != 0);
}

/* All ranges of a request are granted together.  If one of them is kept for long, the
 * others are granted without it.
 */
static void
test_together (bool kept)
{
  struct cluster_lease_message w;
  unsigned count = 0;

  begin_free ();
  ask (other, 3 * MiB (1), SECTOR);
  w = words_of (writer);
  for (unsigned i = 0; i < LEASE_ASKS_MAX; i++)
    add_ask (&w, i * MiB (1), SECTOR, i * MiB (1), i * MiB (1) + 2 * SECTOR);
  ask_all (writer, &w);
  assert (writer->lease_op != 0 && session (writer)->lessee.gets == 0);
  assert (asked_back (other, 3 * MiB (1), 3 * MiB (1) + SECTOR));
  if (kept)
    UNTIL (writer->lease_op == 0);
  else
    give (other, 3 * MiB (1), SECTOR);
  assert (writer->lease_op == 0);
  assert (writer->lease.granted_count == LEASE_ASKS_MAX - (kept ? 1u : 0));
  for (unsigned i = 0; i < LEASE_ASKS_MAX; i++)
    if (i != 3 || !kept) {
      assert (writer->lease.granted[count].offset == i * MiB (1) &&
              writer->lease.granted[count].length == 2 * SECTOR);
      count++;
    }
}

/* For each range of a request, the reply shows whose turn it is and which session must
 * give it back.
 */
static void
test_each (void)
{
  struct cluster_lease_message w;

  begin_free ();
  attach_until_granted (reader);
  ask (reader, MiB (1), SECTOR);
  ask (other, 0, SECTOR);
  ask (writer, 0, 2 * SECTOR);
  w = words_of (other);
  add_ask (&w, MiB (1), SECTOR, MiB (1), MiB (1) + SECTOR);
  add_ask (&w, 0, 2 * SECTOR, 0, 2 * SECTOR);
  ask_all (other, &w);
  assert (other->lease_op == 0); /* it has what the writer waits for */
  expect_refused (other->lease, CLUSTER_CONFLICT, "leases-wait");

  begin_free ();
  attach_until_granted (reader);
  ask (writer, 0, SECTOR);
  ask (writer, MiB (1), SECTOR);
  ask (other, 0, SECTOR);
  w = words_of (reader);
  add_ask (&w, MiB (1), SECTOR, MiB (1), MiB (1) + SECTOR);
  add_ask (&w, 0, SECTOR, 0, SECTOR);
  ask_all (reader, &w);
  UNTIL (other->beat_op != 0);
  other->heard.revokes = 0;
  give (writer, 0, SECTOR);
  assert (granted (other, 0, SECTOR) && reader->lease_op != 0);
  assert (other->beat_op == 0 && other->heard.revokes == 1); /* at once */
}

/* A later request waits behind an earlier one, and recalls no lease meanwhile.  A range
 * that one session waits for is not granted to another as an extra.
 */
static void
test_in_turn (void)
{
  begin_free ();
  attach_until_granted (reader);
  ask (writer, 0, MiB (1));
  ask (other, 0, 2 * SECTOR);
  ask (reader, SECTOR, 2 * SECTOR);
  assert (asked_back (writer, 0, 2 * SECTOR)); /* and not for the reader */
  assert (strcmp (session (other)->rec.node, other->node) == 0);
  give (writer, 0, MiB (1));
  assert (granted (other, 0, 2 * SECTOR) && reader->lease_op != 0);
  assert (asked_back (other, SECTOR, 2 * SECTOR));
  ask_wish (writer, 4 * SECTOR, SECTOR, 0, MiB (1));
  assert (granted (writer, 3 * SECTOR, MiB (1)));
  give (other, SECTOR, SECTOR);
  assert (granted (reader, SECTOR, 3 * SECTOR));
  /* The same from the other side. */
  ask (other, MiB (3), SECTOR);
  ask (reader, MiB (3) - SECTOR, 2 * SECTOR);
  ask_wish (writer, MiB (2), SECTOR, MiB (2), MiB (4));
  assert (granted (writer, MiB (2), MiB (3) - SECTOR));
}

/* A session that must give something back hears so at once; a request that waits for too
 * long is sent again. */
static void
test_asked_back (void)
{
  begin_free ();
  ask (writer, 0, MiB (1));
  UNTIL (writer->beat_op != 0 && other->beat_op != 0);
  writer->heard.revokes = other->heard.revokes = 0;
  ask_wish (other, SECTOR, MiB (2), 0, MiB (4));
  assert (writer->beat_op == 0 && writer->heard.revokes == 1);
  assert (writer->heard.revoke[0].must.offset == SECTOR);
  assert (writer->heard.revoke[0].must.length == MiB (1) - SECTOR);
  assert (writer->heard.revoke[0].wish.offset == 0);
  assert (writer->heard.revoke[0].wish.length == MiB (4));
  assert (other->beat_op != 0 && session (writer)->lessee.revokes == 1);
  /* It hears it again with each answer, which does not come at once. */
  live ();
  assert (writer->beat_op != 0);
  UNTIL (other->lease_op == 0);
  assert (other->lease.kind == CLUSTER_REPLY_PROBLEM);
  assert (strcmp (other->lease.problem.code, "leases-wait") == 0);
  assert (other->lease.problem.holder == writer->session);
  assert (other->lease.problem.retry &&
          other->lease.problem.retry_after_ms == 0);
  assert (!asked_back (writer, SECTOR, MiB (1)));
}

/* A numbered message is carried out once, and not after a newer one. */
/* A lease is recalled from a session whose heartbeat is not waiting at weftd: its next
 * heartbeat is answered at once. */
static void
test_hurry (void)
{
  begin_free ();
  ask (writer, 0, MiB (1));
  UNTIL (writer->beat_op != 0 && other->beat_op != 0);
  ask (other, 0, SECTOR);
  assert (writer->beat_op == 0 && !cluster_hurry (engine));
  ask (other, SECTOR, SECTOR);
  assert (writer->beat_op == 0 && cluster_hurry (engine));
  live ();
  assert (!cluster_hurry (engine));
}

static void
test_numbers (void)
{
  struct cluster_lease_message w;
  struct cluster_part p = { 0, MiB (1) };

  begin_free ();
  ask (writer, 0, MiB (1));
  w = words_of (writer);
  w.given = &p;
  w.given_count = 1;
  for (w.number = number - 1; w.number <= number; w.number++) {
    ASK (cluster_session_leases (engine, in, writer->session, &w));
    assert (world.answer.kind == CLUSTER_REPLY_LEASES);
  }
  ask (other, 0, SECTOR);
  assert (other->lease_op != 0);
  w.number = next_number ();
  CALL (++weftd.op, cluster_session_leases (engine, in, writer->session, &w));
  carry_out ();
  assert (granted (other, 0, SECTOR));
  /* Again, when it is another's. */
  CALL (++weftd.op, cluster_session_leases (engine, in, writer->session, &w));
  give (writer, 0, MiB (1));
  carry_out ();
  ask (writer, 0, SECTOR);
  assert (writer->lease_op != 0 && asked_back (other, 0, SECTOR));
}

/* The answer to an ask is lost: the session gives back what it does not know of, or gets
 * it again.
 */
static void
test_lost_answer (void)
{
  begin_free ();
  ask (writer, 0, SECTOR);
  ask (writer, 0, SECTOR);
  assert (granted (writer, 0, SECTOR));
  ask (other, 0, SECTOR);
  assert (asked_back (writer, 0, SECTOR));
  give (writer, 0, SECTOR);
  assert (granted (other, 0, SECTOR));
  /* Of two asks the older one is given up. */
  ask (writer, 0, SECTOR);
  ask (writer, SECTOR, SECTOR);
  assert (granted (writer, SECTOR, 2 * SECTOR));
  assert (!asked_back (other, 0, SECTOR));
}

static void
declare (struct host *h, uint64_t offset, uint64_t length)
{
  struct cluster_lease_message w = words_of (h);
  struct cluster_part p = { offset, length };

  w.declare = true;
  w.declared = &p;
  w.declared_count = length > 0;
  say (h, &w);
}

static void
expect_declare (struct host *h)
{
  struct cluster_lease_message w = words_of (h);

  add_ask (&w, MiB (5), SECTOR, MiB (5), MiB (6));
  REFUSED (CLUSTER_CONFLICT, "declare",
           cluster_session_leases (engine, in, h->session, &w));
  w.asks = 0;
  REFUSED (CLUSTER_CONFLICT, "declare",
           cluster_session_leases (engine, in, h->session, &w));
}

/* A weftd that was started grants nothing before all have said what they have, or are
 * over (L4).
 */
static void
test_declare (bool ends)
{
  struct cluster_lease_map map;

  begin_free ();
  ask (writer, 0, MiB (1));
  ask (other, MiB (1), MiB (1));
  reincarnate ();
  assert (cluster_lease_map (engine, array (), &map));
  assert (map.undeclared == 2 && map.leases == 0);
  expect_declare (writer);
  declare (writer, 0, MiB (1));
  attach_until_granted (reader);
  ask (reader, MiB (1), SECTOR);
  live_on (2);
  assert (reader->lease_op != 0);
  if (ends) {
    fall_silent (other);
    ask (writer, MiB (1), SECTOR);
    UNTIL (session (other)->rec.ended);
    assert (rec ()->to_recover);
    UNTIL (writer->heard.recover || reader->heard.recover);
    recover (writer->heard.recover ? writer : reader);
  }
  else
    declare (other, MiB (1), MiB (1));
  if (!ends)
    assert (asked_back (other, MiB (1), MiB (1) + SECTOR));
  assert (cluster_lease_map (engine, array (), &map));
  assert (map.undeclared == 0 && map.orphan_bytes == 0);
}

/* Nothing is granted before the members have spoken, who know it if the database lacks a
 * session.
 */
static void
test_unheard (void)
{
  begin_free ();
  reincarnate ();
  declare (writer, 0, 0);
  declare (other, 0, 0);
  ask (writer, 0, SECTOR);
  assert (writer->lease_op != 0 && session (writer)->lessee.gets == 0);
  for (unsigned i = 0; i < MEMBERS; i++) {
    assert (writer->lease_op != 0);
    disk_beat (&world.disk[i], 0);
    carry_out ();
  }
  assert (granted (writer, 0, SECTOR));
}

/* A session that declares the range of another one is ended. */
static void
test_liar (void)
{
  begin_free ();
  reincarnate ();
  declare (writer, 0, MiB (1));
  declare (other, MiB (1) - SECTOR, MiB (1));
  expect_refused (world.admin, CLUSTER_CONFLICT, "lease-overlap");
  assert (session (other)->rec.ended && !session (writer)->rec.ended);
  UNTIL (other->over);
}

/* The ranges of a dead session are granted to no other before all members have confirmed
 * its end and another session has resynchronized them (L2).
 */
static void
test_orphans (void)
{
  struct cluster_lease_map map;
  uint64_t first;

  begin_free ();
  attach_until_granted (reader);
  ask (writer, 0, MiB (1));
  ask (reader, MiB (9), SECTOR);
  world.disk[2].holds = true;
  fall_silent (writer);
  UNTIL (session (writer)->rec.ended);
  assert (stored_array_name ("a")->to_recover);
  ask_wish (other, MiB (1), SECTOR, 0, MiB (2));
  assert (granted (other, MiB (1), MiB (2)));
  ask (other, 0, SECTOR);
  live_on (2);
  assert (other->lease_op && !other->heard.recover && !reader->heard.recover);
  world.disk[2].holds = false;
  UNTIL (other->heard.recover); /* for it waits for that */
  assert (other->heard.ranges_count == 1);
  assert (other->heard.ranges[0].offset == 0);
  assert (other->heard.ranges[0].length == MiB (1));
  first = other->heard.recover;

  /* It dies, too, and the third one recovers all. */
  other->lease_op = 0;
  fall_silent (other);
  UNTIL (session (other)->rec.ended);
  UNTIL (reader->heard.recover);
  assert (reader->heard.recover != first && reader->heard.ranges_count == 1);
  assert (reader->heard.ranges[0].length == MiB (2));
  assert (rec ()->to_recover);
  recover (reader);
  assert (!rec ()->to_recover);
  assert (cluster_lease_map (engine, array (), &map));
  assert (map.held_bytes == MiB (2) + SECTOR && map.leases == 2);
  live_on (8);
  assert (!reader->heard.recover);
}

/* weftd reaches neither a host that it has evicted nor a member of that one's node.  The
 * host may go on writing there, so nobody is granted what it had, nor ordered to recover it,
 * before that member is out.
 */
static void
test_orphans_unconfirmed (void)
{
  begin_free ();
  ask (writer, 0, MiB (1));
  fall_silent (writer);
  world.disk[2].alive = false;
  CALL (++weftd.op, cluster_session_evict (engine, in, writer->session, "kim"));
  carry_out ();
  while (rec ()->member[2].state == MEMBER_IN_SYNC) {
    assert (!other->heard.recover);
    if (other->lease_op == 0)
      ask (other, 0, SECTOR);
    live ();
    assert (other->lease.kind != CLUSTER_REPLY_LEASES);
  }
  assert (session (writer)->rec.ended && rec ()->to_recover);
  UNTIL (other->heard.recover);
  recover (other);
  if (other->lease_op == 0)
    ask (other, 0, SECTOR);
  UNTIL (other->lease_op == 0);
  assert (other->lease.kind == CLUSTER_REPLY_LEASES);
}

/* The node of one that has died says so when it asks for what that had; of one that lives,
 * or of another node's, that is not believed.
 */
static void
test_ended (bool alive, bool own)
{
  struct cluster_lease_message w;
  uint64_t begin;

  begin_free ();
  ask (writer, 0, MiB (1));
  detach (other);
  come_again (other);
  snprintf (other->instance, sizeof other->instance, "h1 again");
  if (own)
    snprintf (other->node, sizeof other->node, "%s", writer->node);
  attach_until_granted (other);
  if (!alive)
    fall_silent (writer);
  for (begin = weftd.now_ms; weftd.now_ms - begin < SESSION_TTL_MS / 2;) {
    w = words_of (other);
    w.ended = writer->session;
    add_ask (&w, 0, SECTOR, 0, SECTOR);
    ask_all (other, &w);
    UNTIL (other->lease_op == 0 || other->heard.recover);
    if (other->heard.recover)
      break;
  }
  assert (session (writer)->rec.ended == (!alive && own));
  if (alive || !own)
    return;
  recover (other);
  UNTIL (other->lease_op == 0);
  assert (other->lease.kind == CLUSTER_REPLY_LEASES);
}

/* Nobody is ordered to recover who is quiet, or about to detach; asks: not even who waits
 * for that.
 */
static void
test_recoverer (bool ending, bool asks)
{
  struct host *quiet, *lively;

  begin_free ();
  attach_until_granted (reader);
  ask (reader, 0, SECTOR);
  quiet = writer->session < other->session ? writer : other;
  lively = quiet == writer ? other : writer;
  fall_silent (reader);
  live_on (7 * 4);
  if (ending)
    quiet->ending = true;
  else
    fall_silent (quiet);
  while (!lively->heard.recover) {
    if (asks && quiet->lease_op == 0)
      ask (quiet, 0, SECTOR);
    live ();
  }
  assert (!session (quiet)->rec.ended && !quiet->heard.recover);
}

/* The session gets the order again until it confirms it. */
static void
test_order (void)
{
  struct cluster_lease_message w;
  uint64_t order;

  begin_free ();
  ask (writer, 0, MiB (1));
  UNTIL (other->beat_op != 0);
  CALL (++weftd.op, cluster_session_evict (engine, in, writer->session, "kim"));
  writer->attached = false;
  carry_out ();
  UNTIL (other->heard.recover);
  order = other->heard.recover;
  other->heard.recover = 0;
  UNTIL (other->heard.recover == order);
  other->order = order;
  live_on (8);
  assert (other->heard.recover == 0);
  /* A word of another order counts for nothing. */
  w = words_of (other);
  w.recovered = order + 1;
  say (other, &w);
  assert (rec ()->to_recover);
  w.recovered = order;
  say (other, &w);
  assert (!rec ()->to_recover);
}

/* A weftd that was killed knows that something must be recovered.  Numbers stay integers
 * of JSON's whatever the generation; an imported cluster may have any.
 */
static void
test_orphans_of_before (uint64_t generation)
{
  begin_free ();
  ask (writer, 0, MiB (1));
  ask (other, MiB (1), MiB (1));
  fall_silent (writer);
  UNTIL (other->heard.recover);
  for (size_t i = 0; i < weftd.stored; i++)
    if (weftd.store[i].kind == CLUSTER_RECORD_IDENTITY)
      weftd.store[i].identity.generation = generation;
  reincarnate ();
  assert (rec ()->to_recover);
  declare (other, MiB (1), MiB (1));
  other->heard.recover = 0;
  UNTIL (other->heard.recover); /* all that it does not have */
  assert (other->heard.recover <= INT64_MAX && number <= INT64_MAX);
  assert (other->heard.ranges_count == 2);
  assert (other->heard.ranges[0].length == MiB (1));
  assert (other->heard.ranges[1].offset == MiB (2));
  recover (other);
  assert (!rec ()->to_recover);
}

/* A session that was recovering continues under the next weftd; if it leaves before it is
 * done, another begins again.
 */
static void
test_recovers_on (bool leaves)
{
  struct cluster_lease_message w;

  begin ();
  attach_until_granted (writer);
  writer->order = writer->heard.recover;
  attach_until_granted (other);
  reincarnate ();
  live_on (8);
  declare (other, 0, 0);
  declare (writer, 0, size ());
  live ();
  assert (rec ()->to_recover);
  if (leaves) {
    detach (writer);
    UNTIL (other->heard.recover);
    assert (other->heard.ranges[0].length == size ());
    return;
  }
  w = words_of (writer);
  w.recovered = writer->order;
  say (writer, &w);
  assert (!rec ()->to_recover);
  detach (writer);
  assert (!rec ()->to_recover);
}

/* A session has heard an order but not begun it when weftd is started again.  It forgets
 * the order: its own ranges are in sync.
 */
static void
test_order_forgotten (void)
{
  begin_free ();
  attach_until_granted (reader);
  ask (writer, 0, MiB (1));
  ask (reader, MiB (2), SECTOR);
  fall_silent (reader);
  UNTIL (writer->heard.recover || other->heard.recover);
  writer->order = 77;
  reincarnate ();
  live_on (4);
  declare (writer, 0, MiB (1));
  declare (other, 0, 0);
  writer->order = 0;
  other->heard.recover = 0;
  ask (other, MiB (2), SECTOR);
  UNTIL (other->heard.recover);
  recover (other);
  UNTIL (writer->beat_op != 0);
  live ();
  assert (!rec ()->to_recover);
  detach (writer);
  assert (!rec ()->to_recover);
}

static void
has_part (struct host *h, uint64_t offset)
{
  h->leases = false;
  h->part = (struct cluster_part) { offset, MiB (1) };
}

/* A session that still resynchronizes what it began with declares its ranges later.  This
 * holds for the whole array, for an order, and for a part.
 */
static void
test_equal_later (bool parts)
{
  struct host *late = parts ? other : writer, *soon = parts ? writer : other;

  begin ();
  if (parts) {
    has_part (writer, 0);
    has_part (other, MiB (1));
  }
  late->copying = true;
  attach_until_granted (writer);
  if (parts)
    recover (writer);
  else
    writer->order = writer->heard.recover;
  attach_until_granted (other);
  reincarnate ();
  declare (soon, 0, parts ? MiB (1) : 0);
  live_on (320 * 4); /* longer than weftd waits for any word */
  assert (!session (late)->rec.ended);
  late->copying = false;
  late->order = 0;
  live_on (8 * 4);
  assert (!session (late)->rec.ended);
  live_on (8 * 4);
  assert (session (late)->rec.ended);
}

/* A session that detaches by itself has written all. */
static void
test_detach (void)
{
  begin_free ();
  ask (writer, 0, MiB (1));
  detach (writer);
  assert (!rec ()->to_recover);
  ask (other, 0, SECTOR);
  assert (granted (other, 0, size ()));
  detach (other);
  UNTIL (rec ()->change.epoch == 0);
  assert (!rec ()->to_recover && array ()->leases == NULL);
  /* But not if it was to recover that. */
  come_again (other);
  snprintf (other->instance, 16, "h1 again");
  attach_until_granted (other);
  come_again (writer);
  snprintf (writer->instance, 16, "h0 again");
  attach_until_granted (writer);
  detach (other);
  UNTIL (writer->heard.recover);
  assert (writer->heard.ranges[0].length == size ());
}

/* The answer to an attach is lost: it is given again, by the next weftd, too. */
static void
test_attach_again (void)
{
  uint64_t id, order;

  begin ();
  attach_until_granted (writer);
  id = writer->session;
  order = writer->heard.recover;
  writer->attached = false;
  attach_until_granted (writer);
  assert (writer->session == id && writer->heard.recover == order);
  UNTIL (writer->beat_op != 0);
  writer->attached = false;
  writer->heard.recover = 0;
  reincarnate ();
  attach_until_granted (writer);
  assert (writer->session == id && !session (writer)->lessee.declared);
  declare (writer, 0, 0);
  UNTIL (writer->heard.recover);
  assert (writer->heard.recover > order); /* of a weftd before */
  assert (writer->heard.ranges[0].length == size ());
}

/* One alone, one that has a part, and lessees are in each other's way. */
static void
test_held (void)
{
  struct cluster_service s = { .nodes = 1, .node = { "host1" } };

  begin_free ();
  REFUSED (CLUSTER_CONFLICT, "held", cluster_service_set (engine, in, "a", &s));
  detach (other);
  come_again (other);
  snprintf (other->instance, 16, "h1 again");
  other->leases = false;
  assert (strcmp (attach_refusal (other), "held") == 0);
  other->part.length = KiB (256);
  assert (strcmp (attach_refusal (other), "held") == 0);
  detach (writer);
  UNTIL (rec ()->change.epoch == 0);
  attach_until_granted (other);
  come_again (writer);
  snprintf (writer->instance, 16, "h0 again");
  assert (strcmp (attach_refusal (writer), "held") == 0);
  detach (other);
  UNTIL (rec ()->change.epoch == 0);
  come_again (other);
  snprintf (other->instance, 16, "h1 third");
  other->part.length = 0;
  attach_until_granted (other);
  assert (strcmp (attach_refusal (writer), "held") == 0);
}

static void
test_too_many (void)
{
  struct cluster_attach at = {
    .node = "host1", .writable = true, .by_admin = true, .leases = true
  };

  begin ();
  attach_until_granted (writer);
  for (unsigned i = 1; i < WRITERS_MAX; i++) {
    snprintf (at.instance, sizeof at.instance, "p%u", i);
    CALL (++weftd.op, cluster_attach (engine, in, "a", &at));
  }
  UNTIL (array ()->writers == WRITERS_MAX);
  snprintf (at.instance, sizeof at.instance, "p%u", WRITERS_MAX);
  REFUSED (CLUSTER_CONFLICT, "too-many", cluster_attach (engine, in, "a", &at));
}

static void
refuse_lease (const char *field, uint64_t offset, uint64_t length,
              uint64_t start, uint64_t end)
{
  struct cluster_lease_message w = words_of (writer);
  struct cluster_part p = { offset, length };

  w.number = next_number ();
  if (field[0] == 'a')
    add_ask (&w, offset, length, start, end);
  else if (field[0] == 'g')
    w.given = &p;
  else
    w.declared = &p;
  w.given_count = w.given != NULL;
  w.declare = w.declared != NULL;
  w.declared_count = w.declare;
  REFUSED (CLUSTER_INVALID, "lease",
           cluster_session_leases (engine, in, writer->session, &w));
  assert (strcmp (world.answer.problem.field, field) == 0);
  assert (session (writer)->lessee.number < number);
}

/* Requests that are not valid leases. */
static void
test_bad_leases (void)
{
  struct cluster_lease_message w;

  begin_free ();
  refuse_lease ("ask", 1, SECTOR, 0, MiB (1));
  refuse_lease ("ask", 0, SECTOR + 1, 0, MiB (1));
  refuse_lease ("ask", 0, 0, 0, MiB (1));
  refuse_lease ("ask", size (), SECTOR, size (), size () + SECTOR);
  refuse_lease ("ask", 0, SECTOR, 0, size () + SECTOR);
  refuse_lease ("ask", SECTOR, SECTOR, 2 * SECTOR, 4 * SECTOR);
  refuse_lease ("ask", SECTOR, SECTOR, SECTOR, 2 * SECTOR + 1);
  refuse_lease ("give", UINT64_MAX - SECTOR + 1, 2 * SECTOR, 0, 0);
  refuse_lease ("declare", 0, size () + SECTOR, 0, 0);
  assert (session (writer)->lessee.declared);
  w = words_of (other);
  REFUSED (CLUSTER_CONFLICT, "other-instance",
           cluster_session_leases (engine, in, writer->session, &w));
  detach (other);
  CALL (world.admin_op = ++weftd.op,
        cluster_session_leases (engine, in, other->session, &w));
  carry_out ();
  expect_refused (world.admin, CLUSTER_GONE, "over");
}

/* A session that does not share by leases has none. */
static void
test_no_leases (void)
{
  struct cluster_lease_message w;

  healthy ();
  w = words_of (writer);
  REFUSED (CLUSTER_CONFLICT, "no-leases",
           cluster_session_leases (engine, in, writer->session, &w));
}

/* A session that has as many leases as it may is asked back some, and then gets others. */
static void
test_limit (void)
{
  struct cluster_lease_message w;
  struct cluster_lease_told told;
  uint64_t at = 0, count = 0;

  begin_free ();
  attach_until_granted (reader);
  for (; count < SESSION_LEASES_MAX; count += LEASE_ASKS_MAX) {
    w = words_of (other);
    for (unsigned i = 0; i < LEASE_ASKS_MAX; i++, at += 2 * SECTOR)
      add_ask (&w, at, SECTOR, at, at + SECTOR);
    ASK (cluster_session_leases (engine, in, other->session, &w));
    assert (world.answer.kind == CLUSTER_REPLY_LEASES);
  }
  /* A range that it holds already does not count as another one. */
  ask (other, 0, SECTOR);
  assert (granted (other, 0, SECTOR));
  ask (other, at, SECTOR);
  ask (reader, at + 2 * SECTOR, SECTOR);
  assert (other->lease_op != 0 && reader->lease_op == 0);
  cluster_lease_told (engine, array (), session (other), &told);
  assert (told.revokes == 64);
  for (unsigned i = 0; i < told.revokes; i++)
    give (other, told.revoke[i].must.offset, told.revoke[i].must.length);
  free (told.revoke);
  assert (granted (other, at, at + SECTOR));
}

/* Where lessees meet again and again nothing is granted for a wish, until it is calm. */
static void
test_hot (void)
{
  struct cluster_lease_map map;
  struct host *h = writer, *next = other, *last;
  uint64_t hot = 10 * LEASE_REGION_BYTES, cool = hot + LEASE_REGION_BYTES;
  uint64_t at = hot + 2 * SECTOR;

  begin_free ();
  ask (h, at, SECTOR);
  for (unsigned i = 0; i < 4; i++) {
    ask_wish (next, at, SECTOR, 0, MiB (1));
    give (h, 0, MiB (1));
    if (i < 3)
      assert (granted (next, 0, MiB (1)));
    last = h;
    h = next;
    next = last;
  }
  assert (granted (h, at, at + SECTOR)); /* it is hot now */
  ask_wish (next, at - SECTOR, SECTOR, 0, MiB (1));
  assert (granted (next, at - SECTOR, at));
  ask_wish (next, cool + MiB (1) / 2, SECTOR, 0, MiB (1));
  assert (granted (next, cool, MiB (1)));
  ask_wish (h, hot - SECTOR, SECTOR, 0, MiB (1));
  assert (granted (h, 0, hot));
  assert (cluster_lease_map (engine, array (), &map));
  assert (map.conflicts == 4 && map.revokes == 4);
  assert (map.cell[at / map.cell_bytes].conflicts == 4);
  assert (map.cell[LEASE_CELLS - 1].conflicts == 0);
  live_on (44); /* 11 s */
  ask_wish (h, at + SECTOR, SECTOR, 0, MiB (1));
  assert (granted (h, at, cool));
  live_on (4 * 60 * LEASE_MINUTES);
  assert (cluster_lease_map (engine, array (), &map));
  assert (map.conflicts == 4 && map.cell[at / map.cell_bytes].conflicts == 0);
}

/* The holders of ranges, for people. */
static void
test_map (void)
{
  static struct cluster_lease_map map;
  uint64_t cell;

  begin_free ();
  assert (cluster_lease_map (engine, array (), &map));
  cell = map.cell_bytes;
  assert (cell % SECTOR == 0 && LEASE_CELLS * cell >= size ());
  ask (writer, cell, 3 * SECTOR);
  ask (other, 2 * cell - SECTOR, 3 * SECTOR);
  ask (writer, cell + SECTOR, 2 * cell - 2 * SECTOR); /* it waits */
  assert (cluster_lease_map (engine, array (), &map));
  assert (map.leases == 2 && map.waiting == 1 && map.held_bytes == 6 * SECTOR);
  assert (map.cell[0].holder == 0);
  assert (map.cell[1].holder == writer->session);
  assert (map.cell[1].held_bytes == 3 * SECTOR);
  assert (map.cell[1].other_bytes == SECTOR && map.cell[1].conflicts == 1);
  assert (map.cell[2].holder == other->session && map.cell[2].revokes == 1);
  assert (map.cell[2].held_bytes == 2 * SECTOR && map.cell[3].revokes == 0);
  fall_silent (other);
  UNTIL (session (other)->rec.ended);
  assert (cluster_lease_map (engine, array (), &map));
  assert (map.cell[2].orphan_bytes == 2 * SECTOR);
  assert (map.orphan_bytes == 3 * SECTOR);
  UNTIL (cluster_lease_map (engine, array (), &map) && map.recoverer);
}

/* A session that is not in the array's epoch gets nothing. */
static void
test_epoch (void)
{
  begin_free ();
  cut_off (1);
  while (state (1) != MEMBER_OUT) {
    if (writer->op == 0)
      lost (writer, 1);
    if (other->op == 0)
      lost (other, 1);
    live ();
  }
  assert (session (writer)->epoch < rec ()->epoch);
  ask (writer, 0, SECTOR);
  assert (writer->lease_op != 0);
  UNTIL (writer->lease_op == 0);
  assert (granted (writer, 0, SECTOR));
}

/* ---- At random. ---- */

#define SECTORS 24

/* A host's own view (the rules are those of core/host/lessee.h), sector by sector. */
struct lessee {
  bool lives; /* it has a session */
  bool has[SECTORS], recovering[SECTORS];
  bool left[SECTORS];  /* weftd has not heard it, or has not answered */
  bool asked[SECTORS]; /* the call that asks is under way */
  bool away[SECTORS];  /* was given back meanwhile */
  uint64_t generation, order, recovered;
  uint64_t old_generation;
  uint64_t asks; /* the call's number; 0: none is under way */
  bool declares; /* weftd does not know what it has */
  struct cluster_lease_message gives, old; /* number 0: none; of before */
  struct cluster_part given[SECTORS], declared[SECTORS], old_given[SECTORS];
};
static struct lessee lessees[HOSTS];
static bool dirty[SECTORS]; /* one died that had it, and copies may differ */
static unsigned long grants, orders, deaths;

static bool
chance (unsigned percent)
{
  return rnd () % 100 < percent;
}

/* Does the range have this sector? */
static bool
in_range (const struct cluster_part *p, unsigned sector)
{
  return cluster_part_has (p, sector * SECTOR, SECTOR);
}

/* The session has ended, or is about to: its writes under way may be half done. */
static void
bury (struct lessee *l)
{
  for (unsigned i = 0; i < SECTORS; i++)
    dirty[i] |= l->has[i];
  deaths++;
  *l = (struct lessee) { .lives = false };
}

static void
reborn (struct host *h)
{
  static unsigned count;

  fall_silent (h);
  h->op = h->lease_op = 0;
  h->attached = false;
  h->order = 0;
  come_again (h);
  snprintf (h->instance, sizeof h->instance, "again %u", ++count);
}

/* No two hosts hold the same sector, and every held sector is in sync. */
static void
check_lessees (void)
{
  for (unsigned k = 0; k < HOSTS; k++) {
    struct cluster_session *s = session (&world.host[k]);

    if (lessees[k].lives && (s == NULL || s->rec.ended))
      bury (&lessees[k]);
  }
  for (unsigned i = 0; i < SECTORS; i++) {
    unsigned has = 0;

    for (unsigned k = 0; k < HOSTS; k++) {
      has += lessees[k].has[i];
      assert (!lessees[k].has[i] || lessees[k].recovering[i] || !dirty[i]);
    }
    assert (has <= 1);
  }
}

/* The answer to an attach or a heartbeat. */
static void
hear (struct host *h, struct lessee *l)
{
  struct message *m = &h->heard;

  if (!h->attached || m->op == 0)
    return;
  if (!l->lives)
    *l = (struct lessee) { .lives = true, .generation = m->generation };
  l->declares |= m->generation != l->generation;
  if (m->generation == l->generation)
    for (unsigned i = 0; i < SECTORS; i++) {
      for (unsigned k = 0; k < m->revokes; k++)
        if (in_range (&m->revoke[k].must, i) && !l->asked[i] &&
            !l->recovering[i]) {
          l->has[i] = false;
          l->left[i] = true;
          l->away[i] = true;
        }
      for (unsigned k = 0; m->recover != l->order && k < m->ranges_count; k++)
        if (in_range (&m->ranges[k], i))
          l->has[i] = l->recovering[i] = true;
    }
  if (m->generation == l->generation && m->recover) {
    orders += m->recover != l->order;
    h->order = l->order = m->recover;
  }
  m->op = 0;
}

static void
hear_asked (struct host *h, struct lessee *l)
{
  const struct message *m = &h->lease;
  bool answered = m->op == l->asks;

  if (l->asks == 0 || h->lease_op != 0)
    return;
  for (unsigned k = 0;
       answered && m->generation == l->generation && k < m->granted_count; k++)
    for (unsigned i = 0; i < SECTORS; i++)
      if (in_range (&m->granted[k], i) && !l->away[i] && !l->left[i]) {
        grants += !l->has[i];
        l->has[i] = true;
      }
  memset (l->asked, 0, sizeof l->asked);
  l->asks = 0;
}

static void
ask_some (struct host *h, struct lessee *l)
{
  struct cluster_lease_message w = words_of (h);
  unsigned first, count;

  if (l->asks || l->declares || l->generation == 0)
    return;
  memset (l->away, 0, sizeof l->away);
  for (unsigned n = 0; n < 1 + rnd () % 2; n++) {
    bool free = true;

    first = rnd () % SECTORS;
    count = 1 + rnd () % 3;
    if (first + count > SECTORS)
      continue;
    for (unsigned i = first; i < first + count; i++)
      free = free && !l->left[i] && !l->has[i];
    if (!free)
      continue;
    add_ask (&w, first * SECTOR, count * SECTOR,
             chance (50) ? first * SECTOR : 0,
             chance (50) ? (first + count) * SECTOR : SECTORS * SECTOR);
    for (unsigned i = first; i < first + count; i++)
      l->asked[i] = true;
  }
  if (w.asks == 0)
    return;
  ask_all (h, &w);
  l->asks = weftd.op;
  if (chance (10)) { /* the answer is lost */
    h->lease_op = 0;
    h->lease.op = 0;
  }
}

/* Prepares the next message to weftd, unless an earlier one is unanswered. */
static void
prepare_give (struct host *h, struct lessee *l)
{
  struct cluster_lease_message *w = &l->gives;

  if (w->number != 0 && !(l->declares && !w->declare))
    return;
  *w = words_of (h);
  for (unsigned i = 0; i < SECTORS; i++)
    if (l->left[i])
      l->given[w->given_count++] = (struct cluster_part) { i * SECTOR, SECTOR };
  w->declare = l->declares && l->asks == 0;
  for (unsigned i = 0; w->declare && i < SECTORS; i++)
    if (l->has[i])
      l->declared[w->declared_count++] = (struct cluster_part) { i * SECTOR,
                                                                 SECTOR };
  w->recovered = l->recovered;
  w->given = l->given;
  w->declared = l->declared;
  if (w->declare || (!l->declares && (w->given_count || w->recovered)))
    w->number = next_number ();
}

static void
give_some (struct host *h, struct lessee *l)
{
  struct cluster_lease_message *w = &l->gives;

  /* An old call comes again, if weftd is the same. */
  if (l->old.number && chance (20) &&
      l->old_generation == cluster_identity (engine)->generation) {
    CALL (++weftd.op, cluster_session_leases (engine, in, h->session, &l->old));
    carry_out ();
  }
  prepare_give (h, l);
  if (w->number == 0 || chance (10)) /* the call is lost */
    return;
  CALL (world.admin_op = ++weftd.op,
        cluster_session_leases (engine, in, h->session, w));
  carry_out ();
  if (chance (10)) /* the answer is */
    return;
  if (world.admin.kind != CLUSTER_REPLY_LEASES) {
    if (strcmp (world.admin.problem.code, "declare") == 0)
      l->declares = true;
    else
      assert (session (h) == NULL || session (h)->rec.ended);
    w->number = 0;
    return;
  }
  if (w->declare) {
    l->declares = false;
    l->generation = world.admin.generation;
  }
  for (unsigned k = 0; k < w->given_count; k++)
    l->left[w->given[k].offset / SECTOR] = false;
  if (w->recovered && l->recovered == w->recovered) {
    l->recovered = 0;
    if (l->order == w->recovered &&
        chance (50)) /* it may forget the order, or not */
      h->order = 0;
  }
  l->old = *w;
  l->old_generation = world.admin.generation;
  memcpy (l->old_given, l->given, sizeof l->given);
  l->old.given = l->old_given;
  l->old.declared_count = 0; /* it is not looked at */
  w->number = 0;
}

static void
act (struct host *h, struct lessee *l)
{
  hear_asked (h, l);
  hear (h, l);
  check_lessees ();
  if (!h->attached) {
    if (h->over || l->lives)
      reborn (h);
    *l = (struct lessee) { .lives = false };
    if (h->op == 0)
      host_attach (h);
    return;
  }
  switch (rnd () % 16) {
  case 0:
    if (chance (6)) {
      bury (l);
      reborn (h);
    }
    break;
  case 1:
    if (chance (6) && h->op == 0) {
      for (unsigned i = 0; i < SECTORS; i++)
        l->has[i] = l->recovering[i]; /* all else is written */
      bury (l);
      CALL (++weftd.op, cluster_session_detach (engine, in, h->session));
      carry_out ();
      reborn (h);
    }
    break;
  case 2:
    for (unsigned i = 0; i < SECTORS; i++)
      if (l->recovering[i]) {
        l->recovering[i] = dirty[i] = false;
        l->recovered = l->order;
      }
    break;
  case 3:
  case 4:
  case 5:
  case 6:
    give_some (h, l);
    break;
  default:
    ask_some (h, l);
  }
  check_lessees ();
}

static void
live_at_random (uint64_t seed)
{
  world_init (seed);
  make_array_of (LAYOUT_RAIDX);
  memset (lessees, 0, sizeof lessees);
  memset (dirty, 0, sizeof dirty);
  for (unsigned i = 0; i < HOSTS; i++)
    world.host[i].writable = world.host[i].leases = true;
  for (unsigned n = 0; n < 8000; n++) {
    unsigned k = rnd () % HOSTS;

    if (lessees[k].lives || world.host[k].op == 0 || world.host[k].attached)
      act (&world.host[k], &lessees[k]);
    if (chance (30))
      live ();
    if (rnd () % 800 == 0)
      reincarnate ();
  }
}

int
main (void)
{
  test_random_start ();

  test_begin ();
  test_wish ();
  test_crossing ();
  test_together (false);
  test_together (true);
  test_each ();
  test_in_turn ();
  test_asked_back ();
  test_hurry ();
  test_numbers ();
  test_lost_answer ();
  test_declare (false);
  test_declare (true);
  test_unheard ();
  test_liar ();
  test_orphans ();
  test_orphans_unconfirmed ();
  test_ended (false, true);
  test_ended (true, true);
  test_ended (false, false);
  for (unsigned i = 0; i < 4; i++)
    test_recoverer (i & 1, i & 2);
  test_order ();
  test_orphans_of_before (UINT32_MAX / 2);
  test_orphans_of_before (GENERATION_MAX - 7);
  test_recovers_on (false);
  test_recovers_on (true);
  test_order_forgotten ();
  test_equal_later (false);
  test_equal_later (true);
  test_detach ();
  test_attach_again ();
  test_held ();
  test_too_many ();
  test_bad_leases ();
  test_no_leases ();
  test_limit ();
  test_hot ();
  test_map ();
  test_epoch ();
  for (unsigned i = 0; i < 4; i++)
    live_at_random (test_seed + i);
  printf ("%lu sectors granted, %lu orders, %lu ends\n", grants, orders,
          deaths);
  assert (grants > 2000 && orders > 20 && deaths > 20);
  return 0;
}
