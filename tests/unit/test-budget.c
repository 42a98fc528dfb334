/* test-budget.c: how much memory of a process the clients' requests take.
 *
 * A worker is a thread that stands for one of nbdkit's and serves one client.  The test
 * orders it to receive, to send, and to ask for its buffer.  The test plays lobby.c: each
 * client has a share, and the test notes which clients are disconnected.
 */

#include <config.h>

#include <assert.h>
#include <endian.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "plugin/budget.h"
#include "plugin/calls.h"
#include "plugin/lobby.h"

#define REQUEST_BYTES 28
#define WAIT_MS 50     /* for what is not to come */
#define HANGS_MS 20000 /* for what is to come at once */

/* ---- The others' parts. ---- */

struct caller {
  struct share share;
  atomic_bool hung_up;
};

struct share
lobby_share (const struct caller *c)
{
  return c->share;
}

void
lobby_hang_up (const struct caller *c)
{
  atomic_store (&((struct caller *) c)->hung_up, true);
}

void
nbdkit_error (const char *fmt, ...)
{
}

static void *(*reallocs) (void *, size_t);

bool
calls_replace (const char *object, const struct call *calls)
{
  assert (object[0] == '\0' && strcmp (calls[0].name, "realloc") == 0);
  reallocs = (void *(*) (void *, size_t) ) calls[0].function;
  return true;
}

static atomic_uint ahead_s;

int
clock_gettime (clockid_t id, struct timespec *t)
{
  int r = (int) syscall (SYS_clock_gettime, id, t);

  t->tv_sec += ahead_s;
  return r;
}

/* ---- Workers. ---- */

enum what { READS, WRITES, TAKES, SENDS, UNCORKS, ENDS };

struct order {
  enum what what;
  uint32_t bytes;
  bool error; /* SENDS: the header of a reply, with an error */
  uint8_t *data;
};

struct worker {
  struct caller *client;
  int orders[2], done[2];
  pthread_t thread;
  uint8_t *buffer;
  size_t buffer_bytes;
};

static void
receive_header (const struct caller *c, uint16_t type, uint32_t bytes)
{
  uint8_t header[REQUEST_BYTES] = { 0x25, 0x60, 0x95, 0x13 };

  type = htobe16 (type);
  bytes = htobe32 (bytes);
  memcpy (header + 6, &type, sizeof type);
  memcpy (header + 24, &bytes, sizeof bytes);
  /* In two parts, as TLS may hand it over. */
  budget_received (c, header, REQUEST_BYTES, 5);
  budget_received (c, header + 5, REQUEST_BYTES - 5, REQUEST_BYTES - 5);
}

/* bytes 0: the header of a simple reply. */
static void
send_part (const struct order *o)
{
  uint8_t header[16] = { 0x67, 0x44, 0x66, 0x98, 0, 0, 0, o->error };

  budget_sends (o->bytes ? (const void *) o : header, o->bytes ? o->bytes : 16);
  budget_sent (o->bytes ? o->bytes : 16);
}

static void
carry_out (struct worker *w, const struct order *o)
{
  switch (o->what) {
  case READS:
  case WRITES:
    receive_header (w->client, o->what == WRITES, o->bytes);
    if (o->bytes > w->buffer_bytes) { /* as nbdkit does */
      w->buffer = reallocs (w->buffer, o->bytes);
      w->buffer_bytes = o->bytes;
    }
    break;
  case TAKES:
    budget_received (w->client, o->data ? o->data : w->buffer, o->bytes,
                     o->bytes);
    break;
  case SENDS:
    send_part (o);
    break;
  case UNCORKS:
    budget_uncorked ();
    break;
  case ENDS:
    free (w->buffer); /* before our part hears of it */
    break;
  }
}

static void *
serve (void *opaque)
{
  struct worker *w = opaque;
  struct order o;

  do {
    assert (read (w->orders[0], &o, sizeof o) == sizeof o);
    carry_out (w, &o);
    assert (write (w->done[1], "", 1) == 1);
  } while (o.what != ENDS);
  return NULL;
}

static void
begins (struct worker *w, struct caller *c)
{
  memset (w, 0, sizeof *w);
  w->client = c;
  assert (pipe (w->orders) == 0 && pipe (w->done) == 0 &&
          pthread_create (&w->thread, NULL, serve, w) == 0);
}

static void
told (struct worker *w, struct order o)
{
  assert (write (w->orders[1], &o, sizeof o) == sizeof o);
}

/* The worker has carried out its order. */
static void
done (struct worker *w)
{
  struct pollfd p = { .fd = w->done[0], .events = POLLIN };
  char c;

  assert (poll (&p, 1, HANGS_MS) == 1 && read (w->done[0], &c, 1) == 1);
}

static bool
waits (struct worker *w)
{
  struct pollfd p = { .fd = w->done[0], .events = POLLIN };

  return poll (&p, 1, WAIT_MS) == 0;
}

static void
does (struct worker *w, enum what what, uint32_t bytes)
{
  told (w, (struct order) { .what = what, .bytes = bytes });
  done (w);
}

static void
ends (struct worker *w)
{
  does (w, ENDS, 0);
  assert (pthread_join (w->thread, NULL) == 0);
  for (int i = 0; i < 2; i++) {
    close (w->orders[i]);
    close (w->done[i]);
  }
}

/* A reply without payload. */
static void
answers (struct worker *w, bool error)
{
  told (w, (struct order) { .what = SENDS, .error = error });
  done (w);
  does (w, UNCORKS, 0);
}

static struct caller
client (const char *node, bool reads)
{
  struct caller c = { .share = { .reads = reads } };

  strcpy (c.share.name, node);
  return c;
}

/* ---- What fits. ---- */

/* A node has its part, and the next request waits until a reply is sent whole. */
static void
test_node (void)
{
  struct caller c = client ("n1", false), other = client ("n2", false);
  struct worker a, b, d, e;

  begins (&a, &c);
  begins (&b, &c);
  begins (&d, &other);
  does (&a, READS, BUDGET_NODE_BYTES);
  told (&b, (struct order) { READS, BUDGET_SMALL + 1, false, NULL });
  assert (waits (&b));
  does (&d, READS, BUDGET_NODE_BYTES);
  told (&a, (struct order) { .what = SENDS });
  done (&a);
  does (&a, UNCORKS, 0); /* of what is held back, before the payload */
  does (&a, SENDS, BUDGET_NODE_BYTES - 1);
  does (&a, UNCORKS, 0);
  assert (waits (&b));
  does (&a, SENDS, 1);
  assert (waits (&b));
  does (&a, UNCORKS, 0);
  done (&b);
  answers (&b, true); /* an error is a whole reply */
  does (&a, WRITES, BUDGET_NODE_BYTES);
  ends (&a); /* as its connection did */
  does (&b, READS, BUDGET_NODE_BYTES);
  does (&d, READS, BUDGET_SMALL); /* its reply failed, and was not sent */
  begins (&e, &other);
  does (&e, READS, BUDGET_NODE_BYTES);
  ends (&e);
  ends (&b);
  ends (&d);
}

/* Small requests wait for nothing. */
static void
test_small (void)
{
  struct caller c = client ("n1", true);
  struct worker a, b;

  begins (&a, &c);
  begins (&b, &c);
  does (&a, READS, BUDGET_NODE_BYTES);
  does (&b, READS, BUDGET_SMALL);
  does (&b, WRITES, BUDGET_SMALL);
  does (&b, TAKES, BUDGET_SMALL);
  does (&b, READS, REQUEST_BYTES_MAX + 1); /* is refused without a buffer */
  ends (&a);
  ends (&b);
}

/* Readers leave room for writers. */
static void
test_readers (void)
{
  enum { COUNT = BUDGET_READERS_BYTES / BUDGET_NODE_BYTES };
  struct caller c[COUNT], late = client ("late", true),
                          writer = client ("late", false);
  struct worker a[COUNT], b, d;
  char name[8];

  for (int i = 0; i < COUNT; i++) {
    snprintf (name, sizeof name, "r%d", i);
    c[i] = client (name, true);
    begins (&a[i], &c[i]);
    does (&a[i], READS, BUDGET_NODE_BYTES);
  }
  begins (&b, &late);
  begins (&d, &writer);
  told (&b, (struct order) { READS, BUDGET_NODE_BYTES, false, NULL });
  assert (waits (&b));
  does (&d, WRITES, BUDGET_SMALL + 1);
  ends (&d);
  ends (&a[0]);
  done (&b);
  ends (&b);
  for (int i = 1; i < COUNT; i++)
    ends (&a[i]);
}

/* Written data may look like a request. */
static void
test_payload (void)
{
  uint8_t request[REQUEST_BYTES] = { 0x25, 0x60, 0x95, 0x13, [24] = 3 };
  struct caller c = client ("n1", false);
  struct worker a, b;

  begins (&a, &c);
  begins (&b, &c);
  does (&a, WRITES, REQUEST_BYTES);
  told (&a, (struct order) { TAKES, REQUEST_BYTES, false, request });
  done (&a);
  does (&b, READS, BUDGET_NODE_BYTES);
  ends (&a);
  ends (&b);
}

/* ---- Who is hung up on. ---- */

/* A late client is disconnected only while memory is short, if it keeps the server
 * waiting, and if its end frees memory. */
static void
test_late (void)
{
  struct caller stuck = client ("n1", false), slow = client ("n1", false),
                runs = client ("n1", false), other = client ("n2", false),
                next = client ("n1", false);
  struct worker a, b, d, e, f, g;

  begins (&a, &stuck);
  begins (&b, &slow);
  begins (&d, &runs);
  begins (&e, &other);
  begins (&f, &next);
  begins (&g, &next);
  does (&a, READS, MiB (1)); /* it takes no answer */
  told (&a, (struct order) { .what = SENDS });
  done (&a);
  does (&b, WRITES, MiB (1)); /* it does not send the data */
  does (&d, WRITES, MiB (1)); /* it is being carried out */
  does (&d, TAKES, MiB (1));
  does (&e, WRITES, MiB (1));
  ahead_s += BUDGET_LATE_MS / 1000 - 1;
  told (&f, (struct order) { READS, BUDGET_NODE_BYTES, false, NULL });
  assert (waits (&f));
  assert (!stuck.hung_up && !slow.hung_up);
  ahead_s += 3;
  told (&g, (struct order) { READS, BUDGET_NODE_BYTES, false, NULL });
  while (!stuck.hung_up || !slow.hung_up)
    ; /* its thread does that */
  assert (waits (&g));
  assert (!runs.hung_up && !other.hung_up);
  ends (&a);
  ends (&b);
  assert (waits (&f) && waits (&g));
  ends (&d);
  while (waits (&f) && waits (&g))
    ;
  ahead_s += 1000; /* nobody waits who would be helped */
  does (&e, TAKES, MiB (1));
  assert (!other.hung_up);
  ends (&e);
  if (!waits (&f)) {
    done (&f);
    ends (&f);
    done (&g);
    ends (&g);
  }
  else {
    done (&g);
    ends (&g);
    done (&f);
    ends (&f);
  }
}

/* ---- What is kept. ---- */

static bool
is_kept (const struct worker *w)
{
  return w->buffer[w->buffer_bytes / 2] == 1;
}

static void
one_read (struct worker *w, uint32_t bytes)
{
  does (w, READS, bytes);
  memset (w->buffer, 1, bytes);
  told (w, (struct order) { .what = SENDS });
  done (w);
  does (w, SENDS, bytes);
  does (w, UNCORKS, 0);
}

/* Idle threads keep some of their buffers, and nothing is taken but these. */
static void
test_kept (void)
{
  enum { COUNT = BUDGET_KEPT_BYTES / MiB (16) };
  struct caller c = client ("n1", false);
  struct worker a[COUNT], b;

  begins (&b, &c);
  for (int i = 0; i < COUNT; i++) {
    begins (&a[i], &c);
    one_read (&a[i], MiB (16));
    one_read (&a[i], MiB (16));
    assert (is_kept (&a[i]));
  }
  one_read (&b, MiB (1));
  assert (!is_kept (&b));
  for (int i = 0; i < COUNT; i++)
    assert (is_kept (&a[i]));
  ends (&a[0]);
  one_read (&b, MiB (1));
  assert (is_kept (&b));
  for (int i = 1; i < COUNT; i++)
    ends (&a[i]);
  ends (&b);
}

int
main (void)
{
  assert (budget_begin ());
  /* Twice: nothing of the first time is left. */
  for (int i = 0; i < 2; i++) {
    test_node ();
    test_small ();
    test_readers ();
    test_payload ();
    test_late ();
    test_kept ();
  }
  return 0;
}
