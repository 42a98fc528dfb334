/* test-pull.c: orders that come and go while extents are copied and flushed.
 * The engine, the sources and the disk are stubs, which do as they are told here.
 */

#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "copy.h"
#include "data.h"
#include "member-role.h"
#include "pull.h"
#include "sources.h"

#define EPOCH 5
#define RUN 7
#define SOURCE 1

struct server server = { .lock = PTHREAD_MUTEX_INITIALIZER };

static unsigned extents, given, redone, stable; /* under server.lock */
static bool reserved;                           /* likewise */
static bool paused;
static unsigned looks; /* of who sleeps for what is reserved; likewise */
/* How a flush goes: it is on its way until `go`; at the sources, until it is
 * cancelled.
 */
static atomic_bool slow_data, slow_sources, flushing, go;

/* ---- Stubs ---- */

int
copy_init (struct copy *c)
{
  return 0;
}

void
copy_end (struct copy *c)
{
}

enum copy_result
copy_extent (struct copy *c, const struct pull_order *o, uint64_t extent,
             int *error)
{
  memset (c->used, 0, sizeof c->used);
  c->used[SOURCE] = true;
  c->bytes = 4096;
  memset (c->passed, 0, sizeof c->passed);
  usleep (2000);
  return COPY_DONE;
}

int
fetch_open (struct fetch *f, unsigned member, const char *uri,
            const char *token, struct fetch_fault *fault)
{
  static char connection;

  f->link[member].nbd = (void *) &connection;
  return 0;
}

void
fetch_close_all (struct fetch *f)
{
}

int
sources_flush (struct fetch *f, const bool used[], bool (*cancelled) (void *),
               void *opaque, struct fetch_fault *fault)
{
  while (slow_sources) {
    flushing = true;
    if (cancelled (opaque))
      return 1;
    usleep (1000);
  }
  return 0;
}

int
sources_intents (const struct pull_order *o, uint64_t bytes,
                 struct intents *ours, bool used[], struct fetch_fault *fault)
{
  abort (); /* they are gathered */
}

void
intents_free (struct intents *map)
{
}

int
data_flush (const struct disk *d)
{
  while (slow_data && !go) {
    flushing = true;
    usleep (1000);
  }
  return 0;
}

void
server_fail (int error, const char *what)
{
  abort ();
}

void
nbdkit_error (const char *fs, ...)
{
}

enum member_join_phase
member_join_phase (struct member *m)
{
  return MEMBER_JOIN_COPYING;
}

uint64_t
member_join_run (const struct member *m)
{
  return RUN;
}

uint64_t
member_join_epoch (const struct member *m)
{
  return EPOCH;
}

bool
member_failed (const struct member *m)
{
  return false;
}

bool
member_join_next (struct member *m, uint64_t run, uint64_t *extent)
{
  reserved = given == extents;
  if (reserved)
    return false;
  *extent = given++;
  return true;
}

bool
member_join_rest (struct member *m)
{
  bool was = reserved;

  if (looks == 1)
    return false; /* it is reserved anew at once, as it were */
  reserved = false;
  return was;
}

void
member_bad_good (struct member *m, uint64_t offset, uint64_t length)
{
}

bool
member_bad_add (struct member *m, uint64_t offset, uint64_t length,
                enum bad_reason reason)
{
  abort (); /* nothing is passed */
}

void
fetch_blame (struct fetch_fault *fault, unsigned member, const char *fs, ...)
{
  abort ();
}

void
member_join_copied (struct member *m, uint64_t run, uint64_t extent, bool ok)
{
  assert (run == RUN);
}

uint64_t
member_join_mark (struct member *m)
{
  return 1;
}

void
member_join_unequal (struct member *m, uint64_t r, const struct intents *peers)
{
}

void
member_join_stable (struct member *m, uint64_t run, uint64_t mark)
{
  stable++;
}

void
member_join_redo (struct member *m, uint64_t run)
{
  redone++;
}

void
member_join_gathered (struct member *m, uint64_t run,
                      const struct intents *peers)
{
  abort ();
}

/* ---- Scenes ---- */

static void
obey (bool order)
{
  struct pull_order *o = order ? pull_order_new () : NULL;

  if (o) {
    o->epoch = EPOCH;
    o->paused = paused;
    o->source[SOURCE].uri = strdup ("nbd://h");
    o->source[SOURCE].data = strdup ("token");
  }
  pthread_mutex_lock (&server.lock);
  assert (pull_obey (o) == 0);
  pthread_mutex_unlock (&server.lock);
}

static void
wait_flushing (void)
{
  flushing = false;
  while (!flushing)
    usleep (1000);
}

static void
begin (unsigned n)
{
  pthread_mutex_lock (&server.lock);
  extents = n;
  given = redone = stable = 0;
  pthread_mutex_unlock (&server.lock);
  obey (true);
}

/* The order goes while what was copied is flushed here, and more is copied. */
static void
test_withdrawn (void)
{
  unsigned before;

  slow_data = true;
  begin (1000000);
  wait_flushing ();
  pthread_mutex_lock (&server.lock);
  before = given;
  while (given < before + 20)
    pthread_cond_wait (&server.changed, &server.lock);
  pthread_mutex_unlock (&server.lock);
  obey (false);
  go = true;
  usleep (100000);
  slow_data = false;
}

/* It goes while the sources flush what was copied last, and comes back: that is
 * not forgotten.
 */
static void
test_cancelled (void)
{
  slow_sources = true;
  begin (100);
  wait_flushing ();
  pthread_mutex_lock (&server.lock);
  redone = stable = 0;
  pthread_mutex_unlock (&server.lock);
  obey (false);
  usleep (100000);
  slow_sources = false;
  obey (true);
  pthread_mutex_lock (&server.lock);
  while (redone + stable == 0)
    pthread_cond_wait (&server.changed, &server.lock);
  pthread_mutex_unlock (&server.lock);
  obey (false);
}

static unsigned
given_now (void)
{
  unsigned n;

  pthread_mutex_lock (&server.lock);
  n = given;
  pthread_mutex_unlock (&server.lock);
  return n;
}

/* It goes and comes back while the disk flushes: somebody copies again. */
static void
test_back_at_once (void)
{
  unsigned before;

  usleep (500000); /* whoever copied before has ended */
  go = false;
  slow_data = true;
  begin (1000000);
  wait_flushing ();
  obey (false);
  usleep (200000); /* the workers see that there is none; the director flushes */
  obey (true);
  go = true;
  slow_data = false;
  usleep (100000);
  before = given_now ();
  while (given_now () == before) /* or the alarm goes */
    usleep (10000);
  obey (false);
}

/* A request that sleeps for what is reserved, as act_or_wait does. */
static void *
sleep_for_reserved (void *opaque)
{
  pthread_mutex_lock (&server.lock);
  for (looks = 1; reserved; looks++)
    pthread_cond_wait (&server.changed, &server.lock);
  looks = 0;
  pthread_mutex_unlock (&server.lock);
  return NULL;
}

/* Nothing is reserved for somebody who copies no more; who sleeps for it is woken. */
static void
test_reserved (void)
{
  pthread_t sleeper;

  begin (100);
  pthread_mutex_lock (&server.lock);
  while (!reserved || stable == 0)
    pthread_cond_wait (&server.changed, &server.lock);
  pthread_mutex_unlock (&server.lock);
  usleep (1500000); /* nobody stirs */
  assert (pthread_create (&sleeper, NULL, sleep_for_reserved, NULL) == 0);
  usleep (100000);
  paused = true;
  obey (true);
  pthread_join (sleeper, NULL); /* or the alarm goes */
  obey (false);
  pull_stop ();
  assert (!reserved);
}

int
main (void)
{
  static struct disk disk = { .path = "disk" };
  pthread_condattr_t attr;

  alarm (60);
  pthread_condattr_init (&attr);
  pthread_condattr_setclock (&attr, CLOCK_MONOTONIC);
  pthread_cond_init (&server.changed, &attr);
  server.disk = &disk;
  test_withdrawn ();
  test_cancelled ();
  test_back_at_once ();
  test_reserved ();
  return 0;
}
