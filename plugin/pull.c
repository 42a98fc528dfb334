/* pull.c: a joining member fetches from the others what it lacks.
 *
 * Threads, while there is an order: one director, which reads the peers' intent
 * maps, flushes and keeps the books, and the workers, each of which copies one
 * extent after the other (copy.c) over connections of its own.  The member
 * engine hands out the extents, and forgets what was flushed here and at the
 * sources.
 *
 * The rate holds back whole extents, never a part of one: for a foreground write
 * to an extent that is being copied waits.  So an extent is copied as fast as it
 * goes, or not at all; likewise a connection is opened while no extent is held.
 *
 * Everything here is under server.lock but for the I/O, and but for `live`.
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "copy.h"
#include "data.h"
#include "member-role.h"
#include "pull.h"
#include "sources.h"

#define WORKERS 4
/* When copied extents are made stable. */
#define STABLE_EXTENTS 256
#define STABLE_MS 2000
#define RETRY_MS 1000
/* A source's flush may take long, and holds nothing up. */
#define FLUSH_MS 30000
/* How often the director looks, if nobody wakes it. */
#define TICK_MS 250
/* A worker that finds no extent looks again. */
#define IDLE_MS 50
/* The rate is kept over so long a time. */
#define BURST_MS 250

static struct {
  struct pull_order *order; /* the newest; NULL: none */
  bool stopping, directed;  /* directed: there is a director */
  bool joinable;            /* `director` is to be joined */
  bool retiring;            /* the director waits for its workers to end */
  pthread_t director;

  uint64_t run;          /* of the engine, that the rest is about */
  _Atomic uint64_t live; /* the run that may copy; 0: none */
  bool gathered;         /* the engine has the peers' maps */
  uint64_t gather_ms;    /* when that is to be tried again */
  unsigned busy;         /* workers that have an extent */
  bool dry;              /* they have found none since */
  uint64_t unstable;     /* extents copied since the last flush */
  bool used[ARRAY_MEMBERS_MAX]; /* sources, since then */
  /* What a source loses when its power goes, it has only if it is flushed in the
   * life that it was read in: by a connection of the director's that was there
   * before the reads.  `lives` counts those, `watched` says that there is one.
   */
  unsigned lives[ARRAY_MEMBERS_MAX];
  bool watched[ARRAY_MEMBERS_MAX];
  uint64_t connect_ms; /* when that is to be tried again */
  uint64_t stable_ms;    /* when that was, or is to be tried again */

  double budget; /* bytes that may be read; below 0: in debt */
  uint64_t budget_ms;

  uint64_t epoch; /* of the joining that these count for */
  uint64_t copied_bytes, unreadable_bytes;
  double rate;
  uint64_t rate_bytes, rate_ms;
  char fault[ARRAY_MEMBERS_MAX][200]; /* empty: none known */
} pull;

struct worker {
  pthread_t thread;
  struct copy copy;
};

static uint64_t
now_ms (void)
{
  struct timespec t;

  clock_gettime (CLOCK_MONOTONIC, &t);
  return (uint64_t) t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- Orders ---- */

struct pull_order *
pull_order_new (void)
{
  struct pull_order *o = calloc (1, sizeof *o);

  if (o)
    o->users = 1;
  return o;
}

void
pull_order_free (struct pull_order *o)
{
  if (o == NULL || --o->users > 0)
    return;
  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++) {
    free (o->source[m].uri);
    free (o->source[m].data);
    free (o->source[m].intents);
  }
  free (o);
}

static struct pull_order *
order_use (void)
{
  pull.order->users++;
  return pull.order;
}

/* ---- Who is waited for ---- */

static void
fault_set (const struct pull_order *o, const struct fetch_fault *f)
{
  char *fault = pull.fault[f->member];
  const char *uri = o->source[f->member].uri;

  if (strcmp (fault, f->why) == 0)
    return;
  snprintf (fault, sizeof pull.fault[0], "%s", f->why);
  nbdkit_error ("%s: rebuild waits for member %u%s%s%s: %s",
                server.disk->path, f->member, uri ? " (" : "", uri ? uri : "",
                uri ? ")" : "", fault);
}

static void
faults_clear (const bool used[])
{
  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++)
    if (used[m])
      pull.fault[m][0] = '\0';
}

void
pull_progress (struct pull_progress *p)
{
  *p = (struct pull_progress) {
    .copied_bytes = pull.copied_bytes,
    .unreadable_bytes = pull.unreadable_bytes,
    .rate = pull.rate,
  };
  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX && pull.order; m++)
    if (pull.fault[m][0]) {
      const char *uri = pull.order->source[m].uri;

      snprintf (p->waits, sizeof p->waits, "member %u%s%.100s%s: %s", m,
                uri ? " (" : "", uri ? uri : "", uri ? ")" : "",
                pull.fault[m]);
      return;
    }
}

/* ---- The rate ---- */

/* May an extent be begun now?  Otherwise *wait_ms says when to look again. */
static bool
budget_left (uint64_t *wait_ms)
{
  double rate = pull.order->rate;
  uint64_t now = now_ms ();

  if (rate == 0) {
    pull.budget = 0;
    pull.budget_ms = now;
    return true;
  }
  pull.budget += rate * (now - pull.budget_ms) / 1000;
  if (pull.budget > rate * BURST_MS / 1000)
    pull.budget = rate * BURST_MS / 1000;
  pull.budget_ms = now;
  if (pull.budget > 0)
    return true;
  *wait_ms = -pull.budget / rate * 1000 + 1;
  if (*wait_ms > RETRY_MS)
    *wait_ms = RETRY_MS; /* the rate may change */
  return false;
}

/* Several times a second: how fast it goes, smoothed over some seconds. */
static void
measure (void)
{
  uint64_t now = now_ms (), ms = now - pull.rate_ms;

  if (ms < RETRY_MS)
    return;
  if (pull.rate_ms != 0)
    pull.rate += ((pull.copied_bytes - pull.rate_bytes) * 1000.0 / ms -
                  pull.rate) * 0.4;
  pull.rate_bytes = pull.copied_bytes;
  pull.rate_ms = now;
}

/* ---- Workers ---- */

/* [any thread] */
static bool
cancelled (void *opaque)
{
  return atomic_load (&pull.live) != *(uint64_t *) opaque ||
         member_failed (server.member);
}

/* With the lock held: the engine's phase and run may be new. */
static void
look (void)
{
  bool copying = pull.order && !pull.stopping &&
                 member_join_phase (server.member) == MEMBER_JOIN_COPYING;

  atomic_store (&pull.live, copying ? member_join_run (server.member) : 0);
}

static void
wait_changed (uint64_t ms)
{
  uint64_t at = now_ms () + ms;
  struct timespec t = { .tv_sec = at / 1000, .tv_nsec = at % 1000 * 1000000 };

  pthread_cond_timedwait (&server.changed, &server.lock, &t);
}

static bool
may_copy (void)
{
  look ();
  return atomic_load (&pull.live) != 0 && pull.live == pull.run &&
         pull.order->epoch == member_join_epoch (server.member) &&
         !pull.order->paused && !member_failed (server.member);
}

/* What nobody copies now is not kept waiting for: whoever sleeps is to know. */
static void
rest (void)
{
  if (member_join_rest (server.member))
    pthread_cond_broadcast (&server.changed);
}

/* An extent to copy, or false after waiting a little. */
static bool
next_extent (uint64_t *extent)
{
  uint64_t wait_ms = IDLE_MS;

  if (!may_copy ()) {
    rest ();
    wait_ms = RETRY_MS;
  }
  else if (!budget_left (&wait_ms))
    rest ();
  else if (member_join_next (server.member, pull.run, extent)) {
    pull.budget -= EXTENT_BYTES; /* until it is known how much it was */
    pull.busy++;
    pull.dry = false;
    return true;
  }
  else if (!pull.dry) {
    pull.dry = true;
    pthread_cond_broadcast (&server.changed);
  }
  wait_changed (wait_ms);
  return false;
}

/* What was copied is good, what was passed is bad.  False: there is no room to say
 * so.  A block of an extent that is to do again counts for nothing, whatever is said
 * of it.
 */
static bool
note_bad (const struct copy *c, uint64_t extent)
{
  const unsigned blocks = EXTENT_BYTES / BAD_BLOCK_BYTES;
  uint64_t start = extent * EXTENT_BYTES;
  bool room = true;

  member_bad_good (server.member, start, EXTENT_BYTES);
  for (unsigned b = 0; room && b < blocks; b++)
    if (c->passed[b / 64] >> (b % 64) & 1) {
      room = member_bad_add (server.member, start + b * BAD_BLOCK_BYTES,
                             BAD_BLOCK_BYTES, BAD_REBUILD);
      pull.unreadable_bytes += room ? BAD_BLOCK_BYTES : 0;
    }
  return room;
}

/* Returns what the copying has come to. */
static enum copy_result
give_back (struct copy *c, const struct pull_order *o, uint64_t run,
           uint64_t extent, const unsigned lives[], enum copy_result r)
{
  bool ok = r == COPY_DONE;

  pull.busy--;
  pull.budget += (double) EXTENT_BYTES - c->bytes;
  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++)
    ok &= !c->used[m] || (pull.watched[m] && lives[m] == pull.lives[m]);
  if (ok && run == member_join_run (server.member) && !note_bad (c, extent)) {
    fetch_blame (&c->fault, o->member, "there is no room in its list of bad "
                 "ranges for what no copy can be read of; write these places "
                 "anew from a backup");
    r = COPY_FAULT;
    ok = false;
  }
  if (ok) {
    pull.copied_bytes += c->bytes;
    pull.unstable++;
    for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++)
      pull.used[m] |= c->used[m];
    faults_clear (c->used);
    pull.fault[o->member][0] = '\0';
    load_count (&server.counters.write_bytes, c->bytes);
  }
  member_join_copied (server.member, run, extent, ok);
  pthread_cond_broadcast (&server.changed);
  return r;
}

/* With the lock held; let go of meanwhile. */
static void
connect_to (struct fetch *f, const struct pull_order *o, unsigned member,
            struct fetch_fault *fault)
{
  int r;

  pthread_mutex_unlock (&server.lock);
  r = fetch_open (f, member, o->source[member].uri, o->source[member].data,
                  fault);
  pthread_mutex_lock (&server.lock);
  if (r == -1) {
    fault_set (o, fault);
    wait_changed (RETRY_MS);
  }
}

static void
copy_one (struct copy *c, uint64_t extent)
{
  struct pull_order *o = order_use ();
  uint64_t run = pull.run, retry_ms;
  unsigned lives[ARRAY_MEMBERS_MAX];
  enum copy_result r;
  int error = 0;

  c->opaque = &run;
  memcpy (lives, pull.lives, sizeof lives);
  pthread_mutex_unlock (&server.lock);
  r = copy_extent (c, o, extent, &error);
  pthread_mutex_lock (&server.lock);
  r = give_back (c, o, run, extent, lives, r);
  if (r == COPY_BROKEN) {
    pthread_mutex_unlock (&server.lock);
    server_fail (error, "writing failed");
    pthread_mutex_lock (&server.lock);
  }
  else if (r == COPY_CONNECT)
    connect_to (&c->fetch, o, c->fault.member, &c->fault);
  else if (r == COPY_FAULT) {
    fault_set (o, &c->fault);
    rest ();
    /* Others may wake us meanwhile, and mean somebody else. */
    for (retry_ms = now_ms () + RETRY_MS;
         pull.live == run && now_ms () < retry_ms;)
      wait_changed (retry_ms - now_ms ());
  }
  pull_order_free (o);
}

static void *
work (void *opaque)
{
  struct copy *c = opaque;
  uint64_t extent;

  pthread_mutex_lock (&server.lock);
  /* Not as soon as there is no order: the director, who is flushing perhaps, would
   * not know that we have ended, if there is one again when it looks.
   */
  while (!pull.retiring)
    if (next_extent (&extent))
      copy_one (c, extent);
  pthread_mutex_unlock (&server.lock);
  return NULL;
}

/* Returns how many work; an error when none does. */
static unsigned
start_workers (struct worker w[WORKERS])
{
  unsigned n = 0;
  int err = 0;

  for (; n < WORKERS; n++) {
    memset (&w[n], 0, sizeof w[n]);
    w[n].copy.disk = server.disk;
    w[n].copy.cancelled = cancelled;
    err = copy_init (&w[n].copy);
    if (err == 0)
      err = pthread_create (&w[n].thread, NULL, work, &w[n].copy);
    if (err) {
      copy_end (&w[n].copy);
      break;
    }
  }
  if (n == 0)
    nbdkit_error ("%s: rebuild: no thread to copy with: %s; it is tried again",
                  server.disk->path, strerror (err));
  return n;
}

/* ---- The director ---- */

static void
gather (void)
{
  struct pull_order *o = order_use ();
  bool used[ARRAY_MEMBERS_MAX] = { false };
  uint64_t run = pull.run;
  struct fetch_fault fault;
  struct intents ours;
  int r;

  pthread_mutex_unlock (&server.lock);
  r = sources_intents (o, server.disk->sb.data_bytes, &ours, used, &fault);
  pthread_mutex_lock (&server.lock);
  if (r == 0) {
    faults_clear (used);
    member_join_gathered (server.member, run, &ours);
    pull.gathered = true;
    pthread_cond_broadcast (&server.changed);
    intents_free (&ours);
  }
  else {
    fault_set (o, &fault);
    pull.gather_ms = now_ms () + RETRY_MS;
  }
  pull_order_free (o);
}

static bool
stable_due (void)
{
  return pull.unstable > 0 && now_ms () >= pull.stable_ms &&
         (pull.unstable >= STABLE_EXTENTS || (pull.dry && pull.busy == 0) ||
          now_ms () >= pull.stable_ms + STABLE_MS);
}

/* A connection to each source.  Who needs one that can't be reached says so. */
static void
connect_sources (struct fetch *f)
{
  struct pull_order *o = order_use ();
  struct fetch_fault fault;
  int r;

  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++) {
    if (o->source[m].uri == NULL || f->link[m].nbd)
      continue;
    pthread_mutex_unlock (&server.lock);
    r = fetch_open (f, m, o->source[m].uri, o->source[m].data, &fault);
    pthread_mutex_lock (&server.lock);
    pull.lives[m]++;
    pull.watched[m] = r == 0;
    if (r == -1)
      pull.connect_ms = now_ms () + RETRY_MS;
  }
  pull_order_free (o);
}

/* Is a source that was used gone, or not the one that was read? */
static bool
source_gone (const struct fetch *f)
{
  bool gone = false;

  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++) {
    pull.watched[m] = f->link[m].nbd != NULL;
    gone |= pull.used[m] &&
            (!pull.watched[m] || pull.order->source[m].uri == NULL);
  }
  return gone;
}

static void
copy_again (void)
{
  member_join_redo (server.member, pull.run);
  memset (pull.used, 0, sizeof pull.used);
  pull.unstable = 0;
  pull.stable_ms = now_ms ();
  pthread_cond_broadcast (&server.changed);
}

/* Whoever it was that copied: what is not stable is copied and flushed again
 * after a crash.
 */
static void
make_stable (struct fetch *f)
{
  struct pull_order *o = order_use ();
  uint64_t mark = member_join_mark (server.member), run = pull.run;
  uint64_t unstable = pull.unstable;
  struct fetch_fault fault;
  bool used[ARRAY_MEMBERS_MAX], asked[ARRAY_MEMBERS_MAX];
  bool third = o->layout.copies > 2;
  struct intents peers;
  int r, err = 0;

  memcpy (used, pull.used, sizeof used);
  memset (pull.used, 0, sizeof pull.used);
  pull.unstable = 0;
  pthread_mutex_unlock (&server.lock);
  r = sources_flush (f, used, cancelled, &run, &fault);
  if (r == 0 && third)
    r = sources_intents (o, server.disk->sb.data_bytes, &peers, asked, &fault);
  if (r == 0)
    err = data_flush (server.disk);
  if (err)
    server_fail (err, "flushing failed");
  pthread_mutex_lock (&server.lock);
  pull.stable_ms = now_ms ();
  if (r == 0 && err == 0) {
    faults_clear (used);
    if (third)
      member_join_unequal (server.member, run, &peers);
    member_join_stable (server.member, run, mark);
    pthread_cond_broadcast (&server.changed);
  }
  if (r == -1) {
    fault_set (o, &fault);
    pull.stable_ms += RETRY_MS;
  }
  if (r == 0 && third)
    intents_free (&peers);
  if (r != 0 && run == pull.run) { /* a cancelled one is still due, too */
    pull.unstable += unstable;
    for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++)
      pull.used[m] |= used[m];
  }
  pull_order_free (o);
}

static void
begin_run (uint64_t run)
{
  uint64_t epoch = member_join_epoch (server.member);

  pull.run = run;
  pull.gathered = false;
  pull.gather_ms = 0;
  pull.unstable = 0;
  pull.stable_ms = now_ms ();
  pull.dry = false;
  memset (pull.used, 0, sizeof pull.used);
  memset (pull.fault, 0, sizeof pull.fault);
  pull.unreadable_bytes = 0;
  if (epoch != pull.epoch) {
    pull.epoch = epoch;
    pull.copied_bytes = pull.rate_bytes = 0;
    pull.rate = 0;
    pull.rate_ms = 0;
  }
}

/* What is to be done now, with what connections there are. */
static void
step (struct fetch *f)
{
  uint64_t run = member_join_run (server.member);
  enum member_join_phase phase = member_join_phase (server.member);

  look ();
  measure ();
  if (pull.order->epoch != member_join_epoch (server.member) ||
      member_failed (server.member))
    return;
  if (run != pull.run && pull.busy == 0)
    begin_run (run);
  if (run != pull.run)
    return;
  if (phase == MEMBER_JOIN_GATHERING && !pull.gathered &&
      now_ms () >= pull.gather_ms)
    gather ();
  if (phase != MEMBER_JOIN_COPYING)
    return;
  if (!source_gone (f) && stable_due ())
    make_stable (f);
  /* It may have been found out just now; or the order is withdrawn. */
  if (pull.order && source_gone (f))
    copy_again ();
  if (pull.order && now_ms () >= pull.connect_ms)
    connect_sources (f);
}

/* Lets go of the lock meanwhile. */
static void
end_workers (struct worker w[], unsigned workers)
{
  pull.retiring = true;
  pthread_cond_broadcast (&server.changed);
  pthread_mutex_unlock (&server.lock);
  for (unsigned i = 0; i < workers; i++) {
    pthread_join (w[i].thread, NULL);
    copy_end (&w[i].copy);
  }
  pthread_mutex_lock (&server.lock);
  pull.retiring = false;
  rest ();
}

static void *
direct (void *opaque)
{
  struct worker *w = opaque;
  struct fetch f = { .door = "data", .silent_ms = FLUSH_MS };
  unsigned workers = 0;

  pthread_mutex_lock (&server.lock);
  for (;;) {
    while (pull.order && !pull.stopping) {
      step (&f);
      if (workers == 0 && atomic_load (&pull.live))
        workers = start_workers (w);
      if (pull.order && !pull.stopping)
        wait_changed (TICK_MS);
    }
    end_workers (w, workers);
    workers = 0;
    if (pull.stopping || pull.order == NULL)
      break;
  }
  pull.directed = false;
  pthread_mutex_unlock (&server.lock);
  fetch_close_all (&f);
  free (w);
  return NULL;
}

static int
start_director (void)
{
  struct worker *w;
  int err;

  if (pull.joinable)
    pthread_join (pull.director, NULL); /* it has ended */
  pull.joinable = false;
  w = calloc (WORKERS, sizeof *w);
  if (w == NULL)
    return ENOMEM;
  err = pthread_create (&pull.director, NULL, direct, w);
  if (err)
    free (w);
  else
    pull.directed = pull.joinable = true;
  return err;
}

int
pull_obey (struct pull_order *o)
{
  if (pull.stopping) {
    pull_order_free (o);
    return 0;
  }
  pull_order_free (pull.order);
  pull.order = o;
  look ();
  pthread_cond_broadcast (&server.changed);
  return o && !pull.directed ? start_director () : 0;
}

void
pull_stop (void)
{
  bool joinable;

  pthread_mutex_lock (&server.lock);
  pull.stopping = true;
  look ();
  pthread_cond_broadcast (&server.changed);
  joinable = pull.joinable;
  pull.joinable = false;
  pthread_mutex_unlock (&server.lock);
  if (joinable)
    pthread_join (pull.director, NULL);
  pthread_mutex_lock (&server.lock); /* a heartbeat may be looking at it */
  pull_order_free (pull.order);
  pull.order = NULL;
  pthread_mutex_unlock (&server.lock);
}
