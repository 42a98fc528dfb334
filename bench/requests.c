/* requests.c: an NBD client that makes a number of requests, and then waits before it
 * hangs up.
 *
 *   requests URI read|write|commit BYTES DEPTH REQUESTS SIZE CONNECTIONS
 *            [sequential | every=N] [flush] [byte=N] [FROM]
 *
 * On each connection DEPTH requests of BYTES each are on their way at a time, in the
 * SIZE bytes from FROM on (0), at random places (always the same ones), one behind the
 * other, or at every N-th place, REQUESTS in all; with `flush` a FLUSH follows on each
 * when all are answered.  What is written is the one byte again and again (1).
 * A commit is a write, and a FLUSH when the write was answered, as a
 * database makes them: DEPTH writers do that, each for itself, by one connection.  It
 * says a line when it is connected, makes the requests when it
 * reads a line, says how many microseconds they took, and ends when it reads another.
 * So whoever counts what a server does counts just these requests, while all of its
 * threads still live.
 */

#include <config.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libnbd.h>

#include "common/clock.h"

#define CONNECTIONS_MAX 64

/* What all connections have in common. */
static uint64_t bytes, size, from;
static unsigned depth, every; /* every: 0: at random places */
static unsigned byte = 1;
static bool writes, commits, flushes;

/* Once all requests are made, and once they are counted: the kernel forgets what it
 * counted for a thread that ends.
 */
static pthread_barrier_t barrier;

/* A connection, and (but for the first) a thread that makes its requests. */
struct connection {
  pthread_t thread;
  struct nbd_handle *nbd;
  char *buf; /* what the replies of reads are is of no matter */
  unsigned first, requests;
  unsigned under_way;
  unsigned written; /* commits that are to be flushed */
  bool failed;
};

static void
end (const char *what)
{
  fprintf (stderr, "requests: %s: %s\n", what, nbd_get_error ());
  exit (1);
}

static int
done (void *opaque, int *error)
{
  struct connection *c = opaque;

  c->failed |= *error != 0;
  c->under_way--;
  return 1;
}

static int
write_done (void *opaque, int *error)
{
  struct connection *c = opaque;

  c->failed |= *error != 0;
  c->written++;
  return 1;
}

static void
await_line (void)
{
  char line[16];

  fflush (stdout);
  if (fgets (line, sizeof line, stdin) == NULL)
    exit (0);
}

static void
connect_to (struct connection *c, const char *uri, bool one_of_many)
{
  c->nbd = nbd_create ();
  c->buf = malloc (depth * bytes);
  if (c->nbd == NULL || c->buf == NULL)
    end ("memory");
  memset (c->buf, byte, depth * bytes);
  if (nbd_connect_uri (c->nbd, uri) == -1)
    end (uri);
  if (one_of_many && nbd_can_multi_conn (c->nbd) != 1) {
    fprintf (stderr, "requests: %s: it does not promise multi-conn\n", uri);
    exit (1);
  }
}

static void
make_requests (struct connection *c)
{
  nbd_completion_callback cb = { .callback = done, .user_data = c };
  nbd_completion_callback write_cb = { .callback = commits ? write_done : done,
                                       .user_data = c };
  uint64_t random = c->first + 1, block;

  for (unsigned sent = 0; sent < c->requests || c->under_way > 0;) {
    while (sent < c->requests && c->under_way < depth) {
      char *at = c->buf + sent % depth * bytes;

      random = random * 6364136223846793005 + 1442695040888963407;
      block = every ? (c->first + sent) * every : random >> 33;
      block = from + block % (size / bytes) * bytes;
      c->under_way++;
      sent++;
      if ((writes ? nbd_aio_pwrite (c->nbd, at, bytes, block, write_cb, 0)
                  : nbd_aio_pread (c->nbd, at, bytes, block, cb, 0)) == -1)
        end ("a request");
    }
    for (; c->written > 0; c->written--)
      if (nbd_aio_flush (c->nbd, cb, 0) == -1)
        end ("a FLUSH");
    if (nbd_poll (c->nbd, -1) == -1)
      end ("waiting");
  }
  if (flushes && nbd_flush (c->nbd, 0) == -1)
    end ("the FLUSH");
  pthread_barrier_wait (&barrier);
}

static void *
thread (void *opaque)
{
  make_requests (opaque);
  pthread_barrier_wait (&barrier);
  return NULL;
}

int
main (int argc, char *argv[])
{
  static struct connection connection[CONNECTIONS_MAX];
  unsigned requests, connections;
  uint64_t begin;
  bool failed = false;

  if (argc < 8) {
    fprintf (stderr, "usage: requests URI read|write|commit BYTES DEPTH "
                     "REQUESTS SIZE CONNECTIONS "
                     "[sequential | every=N] [flush] [byte=N] [FROM]\n");
    return 1;
  }
  commits = strcmp (argv[2], "commit") == 0;
  writes = commits || strcmp (argv[2], "write") == 0;
  bytes = strtoull (argv[3], NULL, 10);
  depth = strtoul (argv[4], NULL, 10);
  requests = strtoul (argv[5], NULL, 10);
  size = strtoull (argv[6], NULL, 10);
  connections = strtoul (argv[7], NULL, 10);
  for (int i = 8; i < argc; i++)
    if (strcmp (argv[i], "sequential") == 0)
      every = 1;
    else if (strncmp (argv[i], "every=", 6) == 0)
      every = strtoul (argv[i] + 6, NULL, 10);
    else if (strncmp (argv[i], "byte=", 5) == 0)
      byte = strtoul (argv[i] + 5, NULL, 10);
    else if (strcmp (argv[i], "flush") == 0)
      flushes = true;
    else
      from = strtoull (argv[i], NULL, 10);
  if (bytes == 0 || depth == 0 || size < bytes || connections == 0 ||
      connections > CONNECTIONS_MAX) {
    fprintf (stderr,
             "requests: BYTES, DEPTH, SIZE or CONNECTIONS: too small, or "
             "too large\n");
    return 1;
  }
  for (unsigned i = 0; i < connections; i++) {
    connection[i].first = (uint64_t) requests * i / connections;
    connection[i].requests = (uint64_t) requests * (i + 1) / connections -
                             connection[i].first;
    connect_to (&connection[i], argv[1], connections > 1);
  }
  puts ("connected");
  await_line ();

  pthread_barrier_init (&barrier, NULL, connections);
  begin = clock_ns ();
  for (unsigned i = 1; i < connections; i++)
    if (pthread_create (&connection[i].thread, NULL, thread, &connection[i]) !=
        0)
      end ("a thread");
  make_requests (&connection[0]);
  for (unsigned i = 0; i < connections; i++)
    failed |= connection[i].failed;
  if (failed) {
    fprintf (stderr, "requests: a request failed\n");
    return 1;
  }
  printf ("%" PRIu64 "\n", (clock_ns () - begin) / 1000);
  await_line ();
  pthread_barrier_wait (&barrier);
  for (unsigned i = 0; i < connections; i++) {
    if (i > 0)
      pthread_join (connection[i].thread, NULL);
    nbd_close (connection[i].nbd);
    free (connection[i].buf);
  }
  return 0;
}
