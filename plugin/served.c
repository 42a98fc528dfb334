/* served.c: see served.h.
 *
 * A client is remembered after its connection has ended, because it may connect
 * again: then its next FLUSH fails if writes of the former connection may be
 * lost.
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/sys/queue.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "common/clock.h"
#include "process.h"
#include "served.h"

#define PREFIX "data/"
/* A client that connects again waits this long for its earlier requests. */
#define FORMER_MS 1500
#define PAUSE_MS 2
/* If a client asks for more this long after an answer was sent, it has received
 * that answer: else its own time-out would have ended the connection.
 */
#define TOLD_MS 60000
/* So many clients without a connection are remembered. */
#define AWAY_MAX 64

struct served {
  TAILQ_ENTRY (served) link; /* the newest last */
  char instance[PROCESS_INSTANCE_BYTES];
  struct guest guest; /* over, too, when a later connection takes its place */
  uint64_t number;
  struct array_client *client; /* NULL: a later connection has it */
  bool open;
  atomic_uint_least64_t failed_ms; /* when a FLUSH failed last; 0: none did */
  atomic_uint_least64_t
    heard_ms; /* since then: when it last asked for something */
  atomic_bool
    untold; /* the client may not know that its former connection failed */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static TAILQ_HEAD (, served) all = TAILQ_HEAD_INITIALIZER (all);
static unsigned away; /* of those in the list */

bool
served_named (const char *export)
{
  return strncmp (export, PREFIX, strlen (PREFIX)) == 0;
}

/* The parts of the name; false: it is not well-formed. */
static bool
parse (const char *export, char session[NAME_BYTES_MAX + 1], struct served *s)
{
  char instance[PROCESS_INSTANCE_BYTES], rest;

  _Static_assert (NAME_BYTES_MAX == 63 && PROCESS_INSTANCE_BYTES == 33,
                  "the widths below");
  if (sscanf (export,
              PREFIX "%63[0-9a-f]/%63[a-z0-9-]/%32[0-9a-f]/%" SCNu64 "/%" SCNu64
                     "%c",
              session, s->guest.node, instance, &s->number, &s->guest.fences,
              &rest) != 5 ||
      strlen (instance) != PROCESS_INSTANCE_BYTES - 1 || s->number == 0)
    return false;
  strcpy (s->instance, instance);
  return true;
}

static void
drop (struct served *s)
{
  away -= !s->open;
  TAILQ_REMOVE (&all, s, link);
  free (s);
}

/* Are these connections of one client? */
static bool
same (const struct served *s, const struct served *other)
{
  return other != s && strcmp (other->instance, s->instance) == 0 &&
         strcmp (other->guest.node, s->guest.node) == 0;
}

/* End what the client's earlier connections do.  With the lock, which it lets go
 * meanwhile.  0 or an errno.
 */
static int
end_former (const struct served *s)
{
  uint64_t until_ms = clock_ms () + FORMER_MS;
  struct served *other;
  bool busy;

  for (;;) {
    busy = false;
    TAILQ_FOREACH (other, &all, link) {
      if (!same (s, other))
        continue;
      if (other->number >= s->number)
        return ESTALE;
      atomic_store (&other->guest.over, true);
      busy = busy || atomic_load (&other->guest.running) > 0;
    }
    if (!busy)
      return 0;
    if (clock_ms () >= until_ms)
      return EBUSY;
    pthread_mutex_unlock (&lock);
    clock_sleep_ms (PAUSE_MS);
    pthread_mutex_lock (&lock);
  }
}

/* May a FLUSH have failed, and the client not know it?  To be asked once. */
static bool
take_untold (struct served *s)
{
  uint64_t failed_ms = atomic_exchange (&s->failed_ms, 0);
  bool untold = atomic_exchange (&s->untold, false);

  return untold ||
         (failed_ms && atomic_load (&s->heard_ms) < failed_ms + TOLD_MS);
}

/* None of them runs any more: forget the client's writes with it. */
static void
take_over (struct engine *e, struct served *s)
{
  struct served *other, *next;

  TAILQ_FOREACH_SAFE (other, &all, link, next) {
    if (!same (s, other))
      continue;
    if (take_untold (other))
      atomic_store (&s->untold, true);
    if (other->client) {
      s->client = other->client;
      other->client = NULL;
    }
    if (!other->open)
      drop (other);
  }
  if (s->client == NULL)
    s->client = engine_client_open (e);
}

struct served *
served_open (struct engine *e, const char *export, const char *session,
             const char *node)
{
  struct served *s = calloc (1, sizeof *s);
  char meant[NAME_BYTES_MAX + 1];
  int error, refused;

  if (s == NULL) {
    nbdkit_error ("calloc: %m");
    return NULL;
  }
  if (!parse (export, meant, s)) {
    nbdkit_error ("there is no export \"%s\" here", export);
    error = ENOENT;
  }
  else if (strcmp (meant, session) != 0) {
    nbdkit_error ("a client on node %s means another process that served the "
                  "array; it asks weftd again",
                  s->guest.node);
    error = ESTALE;
  }
  else if (node && strcmp (s->guest.node, node) != 0) {
    nbdkit_error ("a client says that it is on node %s, and has the "
                  "certificate of node %s: start it there with node=%s",
                  s->guest.node, node, node);
    error = EPERM;
  }
  else {
    s->open = true;
    pthread_mutex_lock (&lock);
    guests_enter (&s->guest);
    TAILQ_INSERT_TAIL (&all, s, link);
    error = end_former (s);
    refused = guests_refused (&s->guest);
    if (refused)
      error = refused;
    if (error == 0)
      take_over (e, s);
    else {
      TAILQ_REMOVE (&all, s, link);
      guests_leave (&s->guest);
    }
    pthread_mutex_unlock (&lock);
    if (error == 0)
      return s;
    nbdkit_error (
      "a client on node %s can't connect: %s", s->guest.node,
      error == EPERM ? "its node was fenced since it was started, or may not "
                       "attach the array"
      : error == EAGAIN
        ? "it says that it was started after a fence of which weftd has not "
          "told; if that goes on, weftd's database is an old one"
      : error == EBUSY ? "requests of its last connection are still under way"
                       : "it has a later connection");
  }
  free (s);
  nbdkit_set_error (error);
  return NULL;
}

struct array_client *
served_client (const struct served *s)
{
  return s->client;
}

struct guest *
served_guest (struct served *s)
{
  return &s->guest;
}

void
served_heard (struct served *s)
{
  if (atomic_load (&s->failed_ms))
    atomic_store (&s->heard_ms, clock_ms ());
}

int
served_flushed (struct served *s, int error)
{
  if (atomic_exchange (&s->untold, false) && error == 0)
    error = EIO;
  if (error == EIO)
    atomic_store (&s->failed_ms, clock_ms ());
  return error;
}

void
served_close (struct engine *e, struct served *s)
{
  struct served *oldest;

  pthread_mutex_lock (&lock);
  guests_leave (&s->guest);
  s->open = false;
  away++;
  if (s->client == NULL)
    drop (s);
  else if (away > AWAY_MAX) {
    oldest = TAILQ_FIRST (&all);
    while (oldest->open)
      oldest = TAILQ_NEXT (oldest, link);
    engine_client_close (e, oldest->client);
    drop (oldest);
  }
  pthread_mutex_unlock (&lock);
}

void
served_end (void)
{
  struct served *s, *next;

  pthread_mutex_lock (&lock);
  TAILQ_FOREACH_SAFE (s, &all, link, next)
    if (!s->open)
      drop (s);
  pthread_mutex_unlock (&lock);
}
