/* test-cluster-lease.c: sessions share an array by leases: what is granted, asked back,
 * declared and recovered, and that no two ever have the same.
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

/* What a session says: nothing yet. */
static struct cluster_lease_words
words_of (const struct host *h)
{
  struct cluster_lease_words w = { .number = 0 };

  snprintf (w.instance, sizeof w.instance, "%s", h->instance);
  return w;
}

/* Each of these has a greater number than those before. */
static uint64_t number;

static void
say (struct host *h, struct cluster_lease_words *w)
{
  w->number = ++number;
  CALL (world.admin_op = ++weftd.op,
        cluster_session_leases (engine, in, h->session, w));
  carry_out ();
  assert (world.admin_op == 0);
}

static void
give (struct host *h, uint64_t offset, uint64_t length)
{
  struct cluster_lease_words w = words_of (h);
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
  struct cluster_lease_words w = words_of (h);

  assert (h->heard.recover);
  h->order = w.recovered = h->heard.recover;
  say (h, &w);
  assert (world.admin.kind == CLUSTER_REPLY_LEASES);
  h->heard.recover = 0;
}

static void
add_ask (struct cluster_lease_words *w, uint64_t offset, uint64_t length,
         uint64_t start, uint64_t end)
{
  w->ask[w->asks++] = (struct cluster_lease_ask) { { offset, length },
                                                   { start, end - start } };
}

/* Ask, and wait. */
static void
ask_all (struct host *h, struct cluster_lease_words *w)
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
  struct cluster_lease_words w = words_of (h);

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

/* The first has all as soon as it has made that equal, the second nothing. */
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
  /* What is its own is as good as what is nobody's. */
  ask_wish (writer, MiB (4), SECTOR, MiB (2), MiB (5));
  assert (granted (writer, MiB (2), MiB (5)));
  detach (other);
  ask (writer, MiB (6), SECTOR);
  assert (granted (writer, 0, size ()));
}

int
main (void)
{
  test_begin ();
  test_wish ();
  return 0;
}
