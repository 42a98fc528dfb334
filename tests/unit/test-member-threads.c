/* test-member-threads.c: the member engine under threads, as the plugin drives
 * it: requests go the way without a lock while one thread raises the epoch
 * again and again, and every other time has the member join and copies it all.
 *
 * Held against it: no request runs below an epoch that was confirmed (I2), or
 * without its bit on the disk (I1); none is carried out where a copy runs (I5);
 * every raise is confirmed, every joining ends; nobody waits for ever (the test
 * would not end).  Run it with ThreadSanitizer too
 * (./configure --enable-sanitizers=thread).
 */

#include <config.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "test-member-rig.h"
#include "test-random.h"

#define WORKERS 4
#define RAISES 120
#define EXTENTS 40

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static _Atomic uint64_t told;   /* confirmed min_epoch, as weftd knows it */
static _Atomic uint64_t newest; /* for which tokens are given */
static _Atomic bool done;
static _Atomic uint64_t requests, fenced, waited, dropped;
static _Atomic bool copying[EXTENTS];

/* The intent map on the disk: bit e is there. */
static _Atomic uint64_t on_disk;

static void
act_or_wait (void)
{
  struct member_action a;

  if (!member_next_action (m, false, &a)) {
    pthread_cond_wait (&changed, &lock);
    return;
  }
  pthread_mutex_unlock (&lock);
  if (a.kind == MEMBER_WRITE_INTENTS) {
    uint64_t bits;

    memcpy (&bits, a.bytes + INTENT_BLOCK_HEADER_BYTES, sizeof bits);
    atomic_store (&on_disk, bits);
  }
  pthread_mutex_lock (&lock);
  member_action_done (m, &a, 0);
  pthread_cond_broadcast (&changed);
}

static struct member_pass *
open_newest (uint64_t session, uint64_t *pass_epoch)
{
  struct member_refusal refusal;
  struct member_pass *pass = NULL;
  enum member_verdict v;

  do {
    char name[TOKEN_BYTES_MAX + 16];

    *pass_epoch = newest;
    export_name (name, DOOR_DATA, session, true, *pass_epoch);
    pthread_mutex_lock (&lock);
    while ((v = member_open (m, name, NULL, &pass, &refusal)) == MEMBER_WAIT)
      act_or_wait ();
    pthread_mutex_unlock (&lock);
  } while (v == MEMBER_REFUSE); /* fenced meanwhile */
  return pass;
}

/* Returns false when the session's epoch is over. */
static bool
request (struct member_pass *pass, uint64_t pass_epoch, unsigned extent)
{
  struct batch_record b = { .kind = BATCH_ZERO,
                            .length = 4096,
                            .offset = extent * EXTENT_BYTES };
  struct member_request r = { .records = &b, .count = 1 };
  struct member_refusal refusal;
  uint64_t length = b.length;
  enum member_verdict v = member_admit (m, pass, &r, &refusal);

  if (v == MEMBER_WAIT) {
    atomic_fetch_add (&waited, 1);
    pthread_mutex_lock (&lock);
    while ((v = member_retry (m, pass, &r, &refusal)) == MEMBER_WAIT)
      act_or_wait ();
    pthread_mutex_unlock (&lock);
  }
  if (v == MEMBER_GO) {
    CHECK (pass_epoch >= told);
    if (member_applies (m, &r, b.offset, &length))
      for (int i = 0; i < 20; i++) { /* it takes its time */
        CHECK (on_disk >> extent & 1);
        CHECK (pass_epoch >= told);
        CHECK (!copying[extent]);
      }
    else
      atomic_fetch_add (&dropped, 1);
  }
  if (member_leave (m, &r)) {
    pthread_mutex_lock (&lock);
    pthread_cond_broadcast (&changed);
    pthread_mutex_unlock (&lock);
  }
  atomic_fetch_add (&requests, 1);
  return v == MEMBER_GO;
}

static void *
worker (void *opaque)
{
  unsigned me = (uintptr_t) opaque, n = 0;

  while (!done) {
    uint64_t pass_epoch;
    struct member_pass *pass = open_newest (me + 1, &pass_epoch);

    while (!done && request (pass, pass_epoch, (n * 7 + me * 3) % EXTENTS))
      if (++n % 50 == 0) {
        pthread_mutex_lock (&lock);
        member_clear (m, pass, 0, EXTENTS * EXTENT_BYTES, false);
        pthread_mutex_unlock (&lock);
      }
    atomic_fetch_add (&fenced, 1);
    pthread_mutex_lock (&lock);
    member_close (m, pass);
    pthread_mutex_unlock (&lock);
  }
  return NULL;
}

/* Copy all that is to do, while the workers work. */
static void
copy_all (void)
{
  uint64_t run = member_join_run (m), extent;

  while (member_join_phase (m) != MEMBER_JOIN_GATHERING)
    act_or_wait ();
  gathered ((UINT64_C (1) << EXTENTS) - 1);
  while (member_join_phase (m) != MEMBER_JOIN_SYNCED)
    if (member_join_next (m, run, &extent)) {
      pthread_mutex_unlock (&lock);
      copying[extent] = true;
      sched_yield ();
      copying[extent] = false;
      pthread_mutex_lock (&lock);
      member_join_copied (m, run, extent, true);
      pthread_cond_broadcast (&changed);
    }
    else {
      copies_stable ();
      if (member_join_phase (m) != MEMBER_JOIN_SYNCED)
        act_or_wait ();
    }
}

static void
raise_epoch (uint64_t to)
{
  pthread_mutex_lock (&lock);
  wish_place (LAYOUT_RAIDX, 3, to);
  if (to % 2 == 0) {
    wish.states[0] = MEMBER_JOINING;
    wish.join_epoch = to;
  }
  CHECK (desire ());
  pthread_cond_broadcast (&changed);
  while (member_confirmed (m)->min_epoch < to)
    act_or_wait ();
  told = to;
  CHECK (member_confirmed (m)->min_epoch == to);
  newest = to; /* doors open while the copying begins */
  if (to % 2 == 0)
    copy_all ();
  pthread_mutex_unlock (&lock);
}

int
main (void)
{
  pthread_t threads[WORKERS];

  disk_format ((struct superblock) { .data_bytes = EXTENTS * EXTENT_BYTES }, 0);
  disk_start (true);
  raise_epoch (1);
  for (uintptr_t i = 0; i < WORKERS; i++)
    CHECK (pthread_create (&threads[i], NULL, worker, (void *) i) == 0);
  for (unsigned i = 2; i < RAISES; i++) {
    uint64_t until = requests + 100;

    while (requests < until) /* let them work */
      sched_yield ();
    raise_epoch (i);
  }
  done = true;
  for (int i = 0; i < WORKERS; i++)
    pthread_join (threads[i], NULL);
  member_check (m);
  printf ("%" PRIu64 " requests, %" PRIu64 " waited, %" PRIu64
          " fenced, %" PRIu64 " dropped\n",
          (uint64_t) requests, (uint64_t) waited, (uint64_t) fenced,
          (uint64_t) dropped);
  CHECK (waited > 0 && fenced >= RAISES / 2 && dropped > 0);
  member_free (m);
  return 0;
}
