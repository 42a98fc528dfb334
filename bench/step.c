/* step.c: how long the array engine's step is, which the plugin takes under its one
 * lock (plugin/engine.c).
 *
 *   step read|write BYTES DEPTH REQUESTS MEMBERS
 *
 * A raid-x whose members answer at once and keep nothing: so all that is left is the
 * engine.  DEPTH requests of BYTES at random places are on their way at a time; what
 * was asked first is answered first.  It makes as many requests again and again for
 * some time, and says how many nanoseconds of its processor each took when it was
 * fastest; with a sixth word, once only.  Under callgrind --toggle-collect=serve gives the
 * instructions of the requests alone.
 */

#include <config.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/array.h"
#include "common/clock.h"

#define TRIES 9
#define TICKS 256 /* requests between two looks at the engine's deadline */
#define REQUEST_NS 10000 /* so much later comes each, by the engine's clock */
#define DEPTH_MAX 1024
#define UNIT KiB (256)

static struct array *array;
static struct array_client *client;
static uint64_t now = 1;
static uint64_t size, bytes, random_state = 1;
static enum array_op op;
static unsigned depth;
static struct array_request request[DEPTH_MAX];
static struct array_request *idle[DEPTH_MAX];
static unsigned idle_count;
/* What members were asked, in a ring: a request's, and what images add to it. */
static struct array_io *asked[4096];
static unsigned asked_first, asked_count;

static void
take (void)
{
  struct array_io *io;
  struct array_request *r;
  struct array_notice n;

  while ((io = array_next_io (array)) != NULL) {
    if (asked_count == sizeof asked / sizeof asked[0])
      abort ();
    asked[(asked_first + asked_count++) % 4096] = io;
  }
  while ((r = array_next_done (array)) != NULL) {
    if (r->error)
      abort ();
    idle[idle_count++] = r;
  }
  if (array_next_notice (array, &n))
    abort (); /* nothing is ever lost here */
}

static void
submit (void)
{
  struct array_request *r = idle[--idle_count];

  random_state = random_state * 6364136223846793005 + 1442695040888963407;
  r->op = op;
  r->client = client;
  r->length = bytes;
  r->offset = (random_state >> 33) % (size / bytes) * bytes;
  now += REQUEST_NS;
  array_submit (array, r, now);
  take ();
}

static void
answer (void)
{
  struct array_io *io = asked[asked_first];

  asked_first = (asked_first + 1) % 4096;
  asked_count--;
  array_io_done (array, io, 0, now);
  take ();
}

__attribute__ ((noinline)) static void
serve (unsigned requests)
{
  while (requests > 0 || idle_count < depth) {
    while (requests > 0 && idle_count > 0) {
      submit ();
      if (--requests % TICKS == 0 && array_deadline (array) <= now) {
        array_tick (array, now);
        take ();
      }
    }
    if (asked_count > 0)
      answer ();
  }
}

static uint64_t
cpu_ns (void)
{
  return clock_of (CLOCK_THREAD_CPUTIME_ID, 1000000000);
}

int
main (int argc, char *argv[])
{
  struct array_config config = {
    .batches = true,
    .rounds = true,
    .round = 1,
    .epoch = 1,
    .image_buffer_bytes = IMAGE_BUFFER_BYTES_DEFAULT,
    .image_age_ms = IMAGE_AGE_MS_DEFAULT,
    .io_timeout_ms = IO_TIMEOUT_MS_DEFAULT,
  };
  unsigned requests, members, tries;
  uint64_t begin, ns, best = UINT64_MAX;
  char why[200];
  void *buf;

  if (argc < 6) {
    fprintf (stderr, "usage: step read|write BYTES DEPTH REQUESTS MEMBERS "
                     "[once]\n");
    return 1;
  }
  op = strcmp (argv[1], "write") == 0 ? ARRAY_WRITE : ARRAY_READ;
  bytes = strtoull (argv[2], NULL, 10);
  depth = strtoul (argv[3], NULL, 10);
  requests = strtoul (argv[4], NULL, 10);
  members = strtoul (argv[5], NULL, 10);
  tries = argc > 6 ? 1 : TRIES;
  if (bytes == 0 || depth == 0 || depth > DEPTH_MAX || requests == 0 ||
      members == 0 || members > ARRAY_MEMBERS_MAX) {
    fprintf (stderr, "step: a number is 0, or too large\n");
    return 1;
  }
  buf = calloc (1, bytes);
  if (buf == NULL || layout_init (&config.layout, LAYOUT_RAIDX, members, 1,
                                  UNIT, MiB (128), why, sizeof why) == -1) {
    fprintf (stderr, "step: %s\n", buf ? why : "no memory");
    return 1;
  }
  for (unsigned m = 0; m < members; m++)
    config.member_round[m] = 1;
  array = array_new (&config, now, why, sizeof why);
  if (array == NULL) {
    fprintf (stderr, "step: %s\n", why);
    return 1;
  }
  client = array_client_open (array);
  size = MiB (256) < config.layout.size ? MiB (256) : config.layout.size;
  for (unsigned i = 0; i < depth; i++) {
    request[i].buf = buf;
    idle[idle_count++] = &request[i];
  }
  for (unsigned i = 0; i < tries; i++) {
    begin = cpu_ns ();
    serve (requests);
    ns = cpu_ns () - begin;
    if (ns < best)
      best = ns;
  }
  printf ("%" PRIu64 "\n", best / requests);
  return 0;
}
