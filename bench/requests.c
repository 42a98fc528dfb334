/* requests.c: an NBD client that makes a number of requests, and then waits before it
 * hangs up.
 *
 *   requests URI read|write BYTES DEPTH REQUESTS SIZE [sequential]
 *
 * DEPTH requests of BYTES each are on their way at a time, in the first SIZE bytes,
 * at random places (always the same ones) or one behind the other.  It says a
 * line when it is connected, makes the requests when it reads a line, says how many
 * microseconds they took, and ends when it reads another.  So whoever counts what a
 * server does counts just these requests, while all of its threads still live.
 */

#include <config.h>

#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libnbd.h>

#include "common/clock.h"

static unsigned under_way;
static bool failed;

static void
end (const char *what)
{
  fprintf (stderr, "requests: %s: %s\n", what, nbd_get_error ());
  exit (1);
}

static int
done (void *opaque, int *error)
{
  failed |= *error != 0;
  under_way--;
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

int
main (int argc, char *argv[])
{
  nbd_completion_callback cb = { .callback = done };
  struct nbd_handle *nbd = nbd_create ();
  uint64_t bytes, size, block, begin, random = 1;
  unsigned depth, requests;
  bool writes, sequential;
  char *buf;

  if (argc < 7 || nbd == NULL) {
    fprintf (stderr, "usage: requests URI read|write BYTES DEPTH REQUESTS SIZE "
                     "[sequential]\n");
    return 1;
  }
  writes = strcmp (argv[2], "write") == 0;
  bytes = strtoull (argv[3], NULL, 10);
  depth = strtoul (argv[4], NULL, 10);
  requests = strtoul (argv[5], NULL, 10);
  size = strtoull (argv[6], NULL, 10);
  sequential = argc > 7;
  buf = malloc (depth *
                bytes); /* what the replies of reads are is of no matter */
  if (buf == NULL || bytes == 0 || size < bytes)
    end ("BYTES, DEPTH or SIZE");
  memset (buf, 1, depth * bytes);
  if (nbd_connect_uri (nbd, argv[1]) == -1)
    end (argv[1]);
  puts ("connected");
  await_line ();

  begin = clock_ns ();
  for (unsigned sent = 0; sent < requests || under_way > 0;) {
    while (sent < requests && under_way < depth) {
      char *at = buf + sent % depth * bytes;

      random = random * 6364136223846793005 + 1442695040888963407;
      block = sequential ? sent : random >> 33;
      block = block % (size / bytes) * bytes;
      under_way++;
      sent++;
      if ((writes ? nbd_aio_pwrite (nbd, at, bytes, block, cb, 0)
                  : nbd_aio_pread (nbd, at, bytes, block, cb, 0)) == -1)
        end ("a request");
    }
    if (nbd_poll (nbd, -1) == -1)
      end ("waiting");
  }
  if (failed) {
    fprintf (stderr, "requests: a request failed\n");
    return 1;
  }
  printf ("%" PRIu64 "\n", (clock_ns () - begin) / 1000);
  await_line ();
  nbd_close (nbd);
  free (buf);
  return 0;
}
