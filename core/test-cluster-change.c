/* test-cluster-change.c: changes of epoch, one rule at a time (cluster-epoch.c):
 * who must confirm or prepare before COMMIT, and who need not.  Then members,
 * hosts and weftd that come and go at random, and must end up whole.
 *
 * What every COMMIT must keep is asserted in test-cluster-world.c.  WEFT_SEED
 * replays the random part.
 */

#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "test-cluster-world.h"

static const struct cluster_array_record *
rec (const struct world *w)
{
  return &cluster_array_find (w->c, "a")->rec;
}

static void
live_on (struct world *w, unsigned rounds)
{
  while (rounds-- > 0)
    live (w);
}

static bool
whole (const struct world *w)
{
  for (unsigned m = 0; m < MEMBERS; m++)
    if (rec (w)->member[m].state != MEMBER_IN_SYNC)
      return false;
  return rec (w)->change.epoch == 0;
}

/* A member of array "a" is joining, and stays so; host 0 writes. */
static void
joining (struct world *w, unsigned member)
{
  healthy (w);
  w->disk[member].slow = true;
  report_lost (w, &w->host[0], member);
  UNTIL (w, w->disk[member].phase == CLUSTER_JOIN_COPYING);
  assert (rec (w)->member[member].state == MEMBER_JOINING);
  assert (w->host[0].epoch == rec (w)->epoch);
}

/* A writer alone: out at once, and nobody else is fenced. */
static void
test_out_alone (void)
{
  static struct world w;
  struct host *h = &w.host[0];
  uint64_t epoch, fence;

  healthy (&w);
  epoch = rec (&w)->epoch;
  fence = rec (&w)->member[0].fence;
  h->busy = true;
  lost (&w, h, 1);
  assert (h->answered && h->epoch == epoch + 1);
  assert (h->states[1] == MEMBER_OUT && rec (&w)->change.epoch == 0);
  assert (rec (&w)->member[0].fence == fence);
  assert (cluster_disk_min_epoch_wanted (
            cluster_disk_find (w.c, w.disk[0].uuid)) == fence);
  world_end (&w);
}

/* Beside readers: when all have prepared themselves. */
static void
test_out_readers (void)
{
  static struct world w;
  struct host *h = &w.host[0], *reader = &w.host[2];
  uint64_t epoch;

  healthy (&w);
  attach_until_granted (&w, reader, "a");
  live_on (&w, 4);
  epoch = rec (&w)->epoch;
  reader->busy = true;
  cut_off (&w.disk[1]);
  lost (&w, h, 1);
  assert (!h->answered && rec (&w)->change.sessions);
  assert (rec (&w)->change.epoch == epoch + 1);
  live_on (&w, 10);
  assert (h->prepared == epoch + 1 && reader->told == epoch + 1);
  assert (rec (&w)->epoch == epoch && h->op != 0);
  UNTIL (&w, h->op == 0);
  assert (strcmp (h->code, "changing") == 0);

  /* weftd is started again in the midst of it. */
  reincarnate (&w);
  assert (rec (&w)->change.epoch == epoch + 1 && rec (&w)->change.sessions);
  live_on (&w, 4);
  lost (&w, h, 1);
  assert (rec (&w)->change.epoch == epoch + 1 && !h->answered);
  reader->busy = false;
  UNTIL (&w, h->op == 0);
  assert (h->epoch == epoch + 1 && h->states[1] == MEMBER_OUT);
  world_end (&w);
}

/* The news of a change comes once, and the next poll is held again. */
static void
test_news (void)
{
  static struct world w;
  struct host *reader = &w.host[2];
  uint64_t before, begin;
  unsigned polls = 0;

  healthy (&w);
  attach_until_granted (&w, reader, "a");
  live_on (&w, 10);
  reader->busy = true;
  lost (&w, &w.host[0], 1);
  live (&w);
  assert (reader->told == rec (&w)->change.epoch && reader->told != 0);
  begin = w.now_ms;
  while (w.now_ms < begin + 3000) {
    before = reader->fresh_ms;
    live (&w);
    polls += reader->fresh_ms != before;
  }
  assert (polls >= 2 && polls <= 4); /* not with every tick */
  world_end (&w);
}

/* A silent reader is waited for until it has stopped by itself, no longer. */
static void
test_silent_reader (void)
{
  static struct world w;
  struct host *reader = &w.host[2];
  uint64_t begin;

  healthy (&w);
  attach_until_granted (&w, reader, "a");
  live_on (&w, 4);
  cut_off (&w.disk[1]);
  reader->alive = false;
  reader->beat_op = 0;
  begin = w.now_ms;
  report_lost (&w, &w.host[0], 1);
  assert (w.now_ms - begin >= SESSION_TTL_MS - HEARTBEAT_MS);
  assert (w.now_ms - begin <= SESSION_TTL_MS + 3 * HEARTBEAT_MS);
  world_end (&w);
}

/* A silent writer may still write: it is waited for. */
static void
test_silent_writer (void)
{
  static struct world w;
  struct host *h = &w.host[0], *reader = &w.host[2];

  healthy (&w);
  attach_until_granted (&w, reader, "a");
  cut_off (&w.disk[1]);
  h->alive = false;
  h->beat_op = 0;
  live_on (&w, 24); /* by now weftd misses the member, too */
  for (unsigned i = 0; i < 100; i++) {
    if (reader->op == 0)
      lost (&w, reader, 1);
    live (&w);
    assert (reader->states[1] == MEMBER_IN_SYNC);
    assert (rec (&w)->change.states[1] == MEMBER_OUT);
  }
  h->alive = true;
  UNTIL (&w, rec (&w)->member[1].state == MEMBER_OUT);
  world_end (&w);
}

/* A second loss while the first is under way: one number for both. */
static void
test_out_again (void)
{
  static struct world w;
  struct host *h = &w.host[0], *reader = &w.host[2];
  uint64_t epoch;

  world_init (&w, 3);
  make_array_of (&w, "a", LAYOUT_RAID1);
  attach_until_granted (&w, h, "a");
  attach_until_granted (&w, reader, "a");
  live_on (&w, 4);
  epoch = rec (&w)->epoch;
  reader->busy = true;
  cut_off (&w.disk[1]);
  cut_off (&w.disk[2]);
  lost (&w, h, 1);
  live (&w);
  lost (&w, h, 2);
  assert (rec (&w)->change.epoch == epoch + 2);
  assert (rec (&w)->change.states[1] == MEMBER_OUT);
  reader->busy = false;
  reader->prepared = epoch + 1; /* it had prepared itself for that */
  reader->beat_op = 0;
  live (&w);
  UNTIL (&w, h->op == 0 && h->states[2] == MEMBER_OUT);
  assert (h->states[1] == MEMBER_OUT && h->epoch == epoch + 2);
  world_end (&w);
}

/* Nobody reads a joiner: it goes out at once, whoever is busy. */
static void
test_joiner_out (void)
{
  static struct world w;
  struct host *h = &w.host[0], *reader = &w.host[2];

  joining (&w, 1);
  attach_until_granted (&w, reader, "a");
  reader->busy = h->busy = true;
  lost (&w, h, 1);
  assert (h->answered && h->states[1] == MEMBER_OUT);
  world_end (&w);

  /* A reader does not take it from those who write. */
  joining (&w, 1);
  attach_until_granted (&w, reader, "a");
  lost (&w, reader, 1);
  assert (strcmp (reader->code, "in-use") == 0);
  world_end (&w);
}

/* A report about a member's life before it was taken back changes nothing. */
static void
test_former_life (void)
{
  static struct world w;
  struct host *h = &w.host[0];

  healthy (&w);
  w.disk[1].slow = true;
  h->beat_op = UINT64_MAX; /* its heartbeats are slow today */
  report_lost (&w, h, 1);
  UNTIL (&w, rec (&w)->member[1].state == MEMBER_JOINING);
  lost (&w, h, 1);
  assert (h->answered && h->states[1] == MEMBER_JOINING);
  assert (rec (&w)->member[1].state == MEMBER_JOINING);
  lost (&w, h, 1); /* now it is about this life */
  assert (h->states[1] == MEMBER_OUT);
  world_end (&w);
}

/* Out -> joining: that member confirms, and nobody else is asked. */
static void
test_take_back (void)
{
  static struct world w;
  uint64_t prepared;

  healthy (&w);
  w.host[0].busy = w.disk[1].slow = true;
  report_lost (&w, &w.host[0], 1);
  cut_off (&w.disk[2]);
  UNTIL (&w, rec (&w)->member[1].state == MEMBER_JOINING);
  assert (rec (&w)->member[1].fence == rec (&w)->epoch);
  assert (rec (&w)->member[2].fence < rec (&w)->epoch);
  world_end (&w);

  /* It does not confirm: a higher number does without it. */
  healthy (&w);
  live_on (&w, 4);
  report_lost (&w, &w.host[0], 1);
  disk_beat (&w, &w.disk[1], 0);
  cut_off (&w.disk[1]);
  UNTIL (&w, rec (&w)->change.epoch != 0);
  prepared = rec (&w)->change.epoch;
  assert (rec (&w)->change.states[1] == MEMBER_JOINING);
  assert (rec (&w)->change.confirm[1] && !rec (&w)->change.confirm[0]);
  live_on (&w, 4);
  assert (rec (&w)->change.epoch == prepared);
  UNTIL (&w, rec (&w)->change.epoch == 0);
  assert (rec (&w)->epoch == prepared + 1);
  assert (rec (&w)->member[1].state == MEMBER_OUT);
  world_end (&w);
}

/* Joining -> in-sync: every session is prepared, the silent writer too. */
static void
test_in_sync (void)
{
  static struct world w;
  struct host *h = &w.host[0], *other = &w.host[1];
  uint64_t fence;

  joining (&w, 1);
  h->busy = true;
  w.disk[1].slow = false;
  UNTIL (&w, rec (&w)->change.epoch != 0);
  assert (rec (&w)->change.sessions);
  assert (rec (&w)->change.states[1] == MEMBER_IN_SYNC);
  live_on (&w, 20);
  assert (rec (&w)->member[1].state == MEMBER_JOINING);
  h->busy = false;
  h->alive = false;
  h->beat_op = 0;
  live_on (&w, 80);
  assert (rec (&w)->member[1].state == MEMBER_JOINING);
  assert (rec (&w)->change.states[1] == MEMBER_IN_SYNC);

  /* What it sent in the background may be gone: the joiner begins again. */
  fence = rec (&w)->member[1].fence;
  w.disk[1].slow = true;
  attach_until_granted (&w, other, "a");
  assert (other->states[1] == MEMBER_JOINING);
  assert (rec (&w)->member[1].fence > fence);
  w.disk[1].slow = false;
  UNTIL (&w, whole (&w));
  world_end (&w);

  /* A joiner that is lost instead goes out at once. */
  joining (&w, 1);
  h->busy = true;
  w.disk[1].slow = false;
  UNTIL (&w, rec (&w)->change.epoch != 0);
  fence = rec (&w)->change.epoch;
  lost (&w, h, 1);
  assert (h->answered && h->states[1] == MEMBER_OUT);
  assert (rec (&w)->epoch > fence);
  h->busy = false;
  UNTIL (&w, whole (&w));
  world_end (&w);
}

/* A writer that leaves: all that are not out refuse what it may still send, and a
 * joiner begins again.
 */
static void
test_detach_joiner (void)
{
  static struct world w;
  uint64_t fence, other;

  joining (&w, 1);
  fence = rec (&w)->member[1].fence;
  other = rec (&w)->member[0].fence;
  detach (&w, &w.host[0]);
  UNTIL (&w, rec (&w)->change.epoch == 0);
  assert (rec (&w)->member[1].fence > fence);
  assert (rec (&w)->member[0].fence > other);
  assert (w.disk[0].min_epoch >= rec (&w)->member[0].fence);
  assert (rec (&w)->member[1].state == MEMBER_JOINING);
  w.disk[1].slow = false;
  UNTIL (&w, whole (&w));
  world_end (&w);

  /* Also where it was about to become in-sync. */
  joining (&w, 1);
  w.host[0].busy = true;
  w.disk[1].slow = false;
  UNTIL (&w, rec (&w)->change.epoch != 0);
  w.disk[1].slow = true;
  detach (&w, &w.host[0]);
  assert (rec (&w)->member[1].state == MEMBER_JOINING);
  w.disk[1].slow = false;
  UNTIL (&w, whole (&w));
  world_end (&w);
}

/* The last copy stays.  It is fenced and given back as soon as it is well. */
static void
test_reconnect (void)
{
  static struct world w;
  struct host *h = &w.host[0];
  struct cluster_session *s;
  uint64_t epoch, fence;
  char text[4096];

  healthy (&w);
  cut_off (&w.disk[1]);
  report_lost (&w, h, 1);
  live_on (&w, 30); /* and it is missed */
  epoch = rec (&w)->epoch;
  fence = rec (&w)->member[0].fence;
  cut_off (&w.disk[2]);
  live_on (&w, 30);
  lost (&w, h, 2);
  assert (strcmp (h->code, "last-copy") == 0);
  s = cluster_session_find (w.c, h->session);
  assert (s->lost[2] && s->stopped[0]);
  cluster_verdict (w.c, text, sizeof text);
  assert (strstr (text, "has stopped") && strstr (text, "member 2"));
  live_on (&w, 30);
  assert (rec (&w)->epoch == epoch && rec (&w)->change.epoch == 0);
  w.disk[2].alive = true;
  w.disk[2].op = 0;
  UNTIL (&w, rec (&w)->epoch == epoch + 1);
  assert (rec (&w)->member[2].fence == epoch + 1);
  assert (rec (&w)->member[0].fence == fence);
  assert (w.disk[2].min_epoch == epoch + 1);
  assert (!s->lost[2] && !s->stopped[0]);
  UNTIL (&w, h->epoch == epoch + 1);
  world_end (&w);
}

/* More than two copies: what a joiner copied may have been just there. */
static void
test_joiners_go_too (void)
{
  static struct world w;
  struct host *h = &w.host[0];
  uint64_t epoch;

  world_init (&w, 3);
  make_array_of (&w, "a", LAYOUT_RAID1);
  attach_until_granted (&w, h, "a");
  w.disk[3].slow = true;
  report_lost (&w, h, 3);
  UNTIL (&w, w.disk[3].phase == CLUSTER_JOIN_COPYING);
  epoch = rec (&w)->epoch;
  lost (&w, h, 1);
  assert (h->states[1] == MEMBER_OUT && h->states[3] == MEMBER_OUT);
  assert (h->epoch == epoch + 1);
  w.disk[3].slow = false;
  UNTIL (&w, whole (&w));
  world_end (&w);
}

/* A member that is missing is left out of an attach after ten seconds, and one
 * that is out hinders nobody; but never the last copy.
 */
static void
test_degraded (void)
{
  static struct world w;
  struct host *h = &w.host[0];
  uint64_t begin;
  char text[4096];

  world_init (&w, 3);
  make_array (&w, "a");
  begin = w.now_ms;
  cut_off (&w.disk[1]);
  live_on (&w, 24); /* it is missed */
  host_attach (&w, h, "a");
  live (&w);
  assert (strcmp (h->code, "member-missing") == 0);
  attach_until_granted (&w, h, "a");
  assert (w.now_ms - begin >= 10000 - 2 * HEARTBEAT_MS);
  assert (w.now_ms - begin <= 13000);
  assert (h->states[1] == MEMBER_OUT);
  cluster_verdict (w.c, text, sizeof text);
  assert (strstr (text, "degraded") && strstr (text, "comes back by itself"));
  detach (&w, h);
  h->alive = true;
  h->session = 0;
  begin = w.now_ms;
  attach_until_granted (&w, h, "a");
  assert (w.now_ms - begin <= 2 * HEARTBEAT_MS);
  detach (&w, h);
  h->alive = true;
  h->session = 0;
  cut_off (&w.disk[2]);
  live_on (&w, 60);
  host_attach (&w, h, "a");
  live (&w);
  assert (strcmp (h->code, "member-missing") == 0);
  assert (rec (&w)->member[2].state == MEMBER_IN_SYNC);
  w.disk[1].op = w.disk[2].op = 0;
  w.disk[1].alive = w.disk[2].alive = true;
  attach_until_granted (&w, h, "a");
  UNTIL (&w, whole (&w));
  world_end (&w);
}

/* Whom an attach leaves out, readers must have stopped reading. */
static void
test_degraded_readers (void)
{
  static struct world w;
  struct host *h = &w.host[0], *reader = &w.host[2];

  world_init (&w, 3);
  make_array (&w, "a");
  attach_until_granted (&w, reader, "a");
  cut_off (&w.disk[1]);
  reader->busy = true;
  live_on (&w, 60);
  host_attach (&w, h, "a");
  live_on (&w, 20);
  assert (h->op != 0 && rec (&w)->change.sessions);
  assert (rec (&w)->member[1].state == MEMBER_IN_SYNC);
  reader->busy = false;
  UNTIL (&w, h->attached);
  assert (rec (&w)->member[1].state == MEMBER_OUT);
  world_end (&w);
}

/* By order, from one who lives; but not into an array that can't start. */
static void
test_takeover (void)
{
  static struct world w;
  struct host *h = &w.host[0], *other = &w.host[1];
  uint64_t begin;

  healthy (&w);
  live_on (&w, 4);
  other->takeover = true;
  begin = w.now_ms;
  attach_until_granted (&w, other, "a");
  assert (w.now_ms - begin <= HEARTBEAT_MS);
  UNTIL (&w, h->over);
  h->over = false;
  h->session = 0;
  h->takeover = true;
  cut_off (&w.disk[1]);
  cut_off (&w.disk[2]);
  live_on (&w, 60);
  host_attach (&w, h, "a");
  live (&w);
  assert (strcmp (h->code, "member-missing") == 0);
  live_on (&w, 10);
  assert (other->attached && !other->over);
  world_end (&w);
}

/* Without a writer nobody says that a member was started again: readers get
 * tokens that it takes.
 */
static void
test_renew (void)
{
  static struct world w;
  struct host *reader = &w.host[2];
  uint64_t fence;

  healthy (&w);
  attach_until_granted (&w, reader, "a");
  w.disk[1].min_epoch = rec (&w)->epoch + 1;
  live_on (&w, 20);
  assert (w.disk[1].min_epoch == rec (&w)->epoch + 1); /* the writer says it */
  detach (&w, &w.host[0]);
  fence = rec (&w)->member[1].fence;
  UNTIL (&w, reader->epoch > w.disk[1].min_epoch);
  assert (rec (&w)->member[1].fence == fence);
  world_end (&w);
}

/* ---- At random. ---- */

static void
restart_disk (struct world *w, struct disk *d)
{
  d->op = 0;
  d->alive = true;
  snprintf (d->instance, sizeof d->instance, "d%" PRIu64, w->next_op);
  if (d->min_epoch <= d->states_epoch)
    d->min_epoch = d->states_epoch + 1;
  d->sequence++;
  if (d->phase != CLUSTER_JOIN_NONE)
    d->phase = CLUSTER_JOIN_WAITING;
}

static void
restart_host (struct world *w, struct host *h)
{
  h->attached = h->over = false;
  h->session = h->op = h->beat_op = h->prepared = 0;
  h->alive = true;
  snprintf (h->instance, sizeof h->instance, "h%" PRIu64, ++w->next_op);
}

static void
befall_host (struct world *w, struct host *h)
{
  switch (rnd (w) % 8) {
  case 0:
    h->alive = false;
    h->beat_op = 0;
    break;
  case 1:
    h->alive = true;
    break;
  case 2:
    restart_host (w, h);
    break;
  case 3:
    h->busy = rnd (w) % 4 == 0;
    break;
  case 4:
    if (h->alive && h->attached && h->op == 0 && rnd (w) % 4 == 0) {
      struct cluster_input in = input (w, h->op = ++w->next_op);

      cluster_session_detach (w->c, &in, h->session);
      pump (w);
      h->over = true;
    }
    break;
  default:
    if (h->alive && h->attached && h->op == 0 && !h->over)
      lost (w, h, (unsigned) (rnd (w) % MEMBERS));
  }
}

static void
befall_disk (struct world *w, struct disk *d)
{
  switch (rnd (w) % 4) {
  case 0:
    cut_off (d);
    break;
  case 1:
    restart_disk (w, d);
    break;
  case 2:
    d->slow = rnd (w) % 2;
    break;
  default:
    if (!d->alive) {
      d->alive = true;
      d->op = 0;
    }
  }
}

/* A quarter of a second in which hosts ask for what they want. */
static void
live_at_random (struct world *w)
{
  for (unsigned i = 0; i < HOSTS; i++) {
    struct host *h = &w->host[i];

    if (!h->alive)
      continue;
    if (h->over)
      restart_host (w, h);
    if (!h->attached && h->op == 0) {
      h->takeover = rnd (w) % 8 == 0;
      host_attach (w, h, "a");
    }
    for (unsigned m = 0; m < MEMBERS; m++)
      if (h->attached && h->lost[m] && h->states[m] != MEMBER_OUT &&
          h->op == 0)
        lost (w, h, m);
  }
  if (rnd (w) % 3 == 0)
    befall_host (w, &w->host[rnd (w) % HOSTS]);
  if (rnd (w) % 6 == 0)
    befall_disk (w, &w->disk[rnd (w) % MEMBERS]);
  live (w);
}

static void
test_random (uint64_t seed, unsigned runs, unsigned rounds)
{
  static struct world w;
  unsigned long kills = 0, epochs = 0;

  for (unsigned i = 0; i < runs; i++) {
    world_init (&w, seed + i);
    w.kill_percent = (unsigned) (rnd (&w) % 3);
    w.lag_percent = (unsigned) (rnd (&w) % 40);
    make_array_of (&w, "a", rnd (&w) % 3 ? LAYOUT_RAIDX : LAYOUT_RAID1);
    for (unsigned r = 0; r < rounds; r++)
      live_at_random (&w);
    /* All is well again: so it must become. */
    for (unsigned d = 0; d < MEMBERS; d++) {
      w.disk[d].alive = true;
      w.disk[d].slow = false;
      w.disk[d].op = 0;
    }
    for (unsigned h = 0; h < HOSTS; h++) {
      restart_host (&w, &w.host[h]);
      w.host[h].busy = false;
    }
    w.host[0].takeover = true;
    attach_until_granted (&w, &w.host[0], "a");
    UNTIL (&w, whole (&w));
    assert (cluster_read_only (w.c) == NULL);
    kills += w.kills;
    epochs += rec (&w)->epoch;
    world_end (&w);
  }
  printf ("%u random runs from seed %" PRIu64 ": %lu epochs, %lu kills\n", runs,
          seed, epochs, kills);
}

int
main (void)
{
  const char *text = getenv ("WEFT_SEED");
  uint64_t seed = text ? strtoull (text, NULL, 0) : (uint64_t) time (NULL);

  printf ("WEFT_SEED=%" PRIu64 "\n", seed);
  fflush (stdout);
  test_out_alone ();
  test_out_readers ();
  test_news ();
  test_silent_reader ();
  test_silent_writer ();
  test_out_again ();
  test_joiner_out ();
  test_former_life ();
  test_take_back ();
  test_in_sync ();
  test_detach_joiner ();
  test_reconnect ();
  test_joiners_go_too ();
  test_degraded ();
  test_degraded_readers ();
  test_takeover ();
  test_renew ();
  test_random (seed, 60, 300);
  return 0;
}
