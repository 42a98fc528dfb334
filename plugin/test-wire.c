/* test-wire.c: wire.c against servers that answer in every way that NBD allows,
 * and in many that it does not.  In each case a command comes back once, and
 * nothing is written beside its buffer (the build with sanitizers sees that).
 */

#include <config.h>

#undef NDEBUG
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "wire.h"

#define COMMANDS_MAX 64
#define HEAD 28
#define DATA_BYTES 4096

/* Our record of a command. */
struct mine {
  struct wire_command c;
  unsigned ends;
  int error;
  uint32_t pairs[8];
  size_t pairs_count;
  uint64_t cookie; /* as the server got it */
};

static int ours, theirs; /* the two ends */
static struct wire *wire;
static struct mine mine[COMMANDS_MAX];
static unsigned count;

static void
done (void *opaque, int error)
{
  struct mine *m = opaque;

  m->ends++;
  m->error = error;
}

static void
status (void *opaque, uint32_t *pairs, size_t n)
{
  struct mine *m = opaque;

  m->pairs_count = n < 4 ? n : 4;
  memcpy (m->pairs, pairs, m->pairs_count * 8);
}

static void
begin (bool structured)
{
  static const struct wire_calls calls = { done, status };
  int fds[2];

  assert (socketpair (AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  ours = fds[0];
  theirs = fds[1];
  assert (fcntl (ours, F_SETFL, O_NONBLOCK) == 0);
  wire = wire_new (ours, structured, &calls);
  assert (wire);
  memset (mine, 0, sizeof mine);
  count = 0;
}

static void
end (void)
{
  for (unsigned i = 0; i < count; i++) {
    assert (mine[i].ends == 1);
    free (mine[i].c.buf);
  }
  wire_free (wire);
  close (ours);
  if (theirs != -1)
    close (theirs);
}

static struct mine *
queue (enum wire_type type, uint64_t offset, uint32_t length)
{
  struct mine *m = &mine[count++];

  m->c = (struct wire_command) {
    .type = type, .offset = offset, .length = length, .opaque = m
  };
  if (type == WIRE_READ || type == WIRE_WRITE) {
    m->c.buf = malloc (length);
    memset (m->c.buf, type == WIRE_WRITE ? 'w' : '-', length);
  }
  assert (wire_queue (wire, &m->c) == 0);
  return m;
}

/*----- The server -----*/

/* Take the next command in. */
static void
serve (struct mine *m)
{
  static char payload[1 << 20];
  uint8_t head[HEAD];
  uint64_t offset;
  uint32_t length;

  assert (recv (theirs, head, HEAD, MSG_WAITALL) == HEAD);
  memcpy (&m->cookie, head + 8, 8);
  memcpy (&offset, head + 16, 8);
  memcpy (&length, head + 24, 4);
  assert (head[7] == m->c.type && be64toh (offset) == m->c.offset &&
          be32toh (length) == m->c.length);
  if (m->c.type != WIRE_WRITE)
    return;
  assert (recv (theirs, payload, m->c.length, MSG_WAITALL) == m->c.length);
  assert (memcmp (payload, m->c.buf, m->c.length) == 0);
}

static struct mine *
ask (enum wire_type type, uint64_t offset, uint32_t length)
{
  struct mine *m = queue (type, offset, length);

  assert (!wire_push (wire));
  serve (m);
  return m;
}

/* The server's next bytes. */
static uint8_t said[1 << 16];
static size_t said_bytes;

static void
put (uint64_t v, unsigned bytes)
{
  while (bytes-- > 0)
    said[said_bytes++] = v >> 8 * bytes;
}

static void
put_cookie (const struct mine *m)
{
  memcpy (said + said_bytes, &m->cookie, 8);
  said_bytes += 8;
}

static void
simple (const struct mine *m, uint32_t error)
{
  put (0x67446698, 4);
  put (error, 4);
  put_cookie (m);
}

static void
chunk (const struct mine *m, bool last, unsigned type, uint32_t length)
{
  put (0x668e33ef, 4);
  put (last, 2);
  put (type, 2);
  put_cookie (m);
  put (length, 4);
}

static void
bytes (char c, size_t n)
{
  memset (said + said_bytes, c, n);
  said_bytes += n;
}

static void
data (const struct mine *m, bool last, uint64_t offset, char c, size_t n)
{
  chunk (m, last, 1, 8 + n);
  put (offset, 8);
  bytes (c, n);
}

static void
hole (const struct mine *m, bool last, uint64_t offset, uint32_t n)
{
  chunk (m, last, 2, 12);
  put (offset, 8);
  put (n, 4);
}

/* Say it, `step` bytes at a time.  Returns why the wire is over. */
static const char *
say (size_t step)
{
  const char *why = NULL;

  for (size_t at = 0; at < said_bytes && !why; at += step) {
    size_t n = said_bytes - at < step ? said_bytes - at : step;

    assert (send (theirs, said + at, n, MSG_NOSIGNAL) == (ssize_t) n);
    why = wire_receive (wire);
  }
  said_bytes = 0;
  return why;
}

static bool
holds (const struct mine *m, size_t at, char c, size_t n)
{
  for (size_t i = at; i < at + n; i++)
    if (((char *) m->c.buf)[i] != c)
      return false;
  return true;
}

/*----- As it should be -----*/

static void
test_reads (bool structured, size_t step)
{
  struct mine *a, *b;

  begin (structured);
  a = ask (WIRE_READ, 8192, DATA_BYTES);
  b = ask (WIRE_READ, 0, 2 * DATA_BYTES);
  if (structured) {
    /* In parts, backwards, and beside another reply. */
    data (b, false, DATA_BYTES, 'c', DATA_BYTES);
    data (a, true, 8192, 'a', DATA_BYTES);
    hole (b, false, 0, 100);
    data (b, false, 100, 'b', DATA_BYTES - 100);
    chunk (b, true, 0, 0);
  }
  else {
    simple (b, 0);
    bytes ('b', 2 * DATA_BYTES);
    simple (a, 0);
    bytes ('a', DATA_BYTES);
  }
  assert (say (step) == NULL);
  assert (a->ends == 1 && a->error == 0 && b->ends == 1 && b->error == 0);
  assert (holds (a, 0, 'a', DATA_BYTES));
  assert (structured ? holds (b, 0, '\0', 100) &&
                         holds (b, 100, 'b', DATA_BYTES - 100) &&
                         holds (b, DATA_BYTES, 'c', DATA_BYTES)
                     : holds (b, 0, 'b', 2 * DATA_BYTES));
  end ();
}

static void
test_large (void)
{
  struct mine *m, *n;

  /* More than one receive takes in: the rest goes straight to its place. */
  begin (true);
  m = ask (WIRE_READ, 0, 60000);
  n = ask (WIRE_FLUSH, 0, 0);
  data (m, true, 0, 'x', 60000);
  simple (n, 0);
  assert (say (20000) == NULL);
  assert (m->ends == 1 && m->error == 0 && holds (m, 0, 'x', 60000));
  assert (n->ends == 1 && n->error == 0);
  end ();
}

static void
test_errors (bool structured)
{
  static const int errors[][2] = {
    { 1, EPERM },    { 5, EIO },         { 12, ENOMEM },
    { 22, EINVAL },  { 28, ENOSPC },     { 75, EOVERFLOW },
    { 95, ENOTSUP }, { 108, ESHUTDOWN }, { 4711, EINVAL },
  };

  for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
    struct mine *m, *w;

    begin (structured);
    m = ask (WIRE_READ, 0, 100);
    w = ask (WIRE_WRITE, 0, 100);
    simple (w, errors[i][0]);
    if (structured) {
      data (m, false, 0, 'x', 50);
      chunk (m, false, 0x8002, 4 + 2 + 3 + 8);
      put (errors[i][0], 4);
      put (3, 2);
      bytes ('e', 3);
      put (50, 8);
      chunk (m, true, 0, 0);
    }
    else
      simple (m, errors[i][0]);
    assert (say (1) == NULL);
    assert (m->error == errors[i][1] && w->error == errors[i][1]);
    end ();
  }
}

static void
test_status (void)
{
  struct mine *m;

  begin (true);
  m = ask (WIRE_STATUS, 0, 1 << 20);
  chunk (m, true, 5, 4 + 16);
  put (1, 4);
  put (65536, 4);
  put (3, 4);
  put (1 << 20, 4);
  put (0, 4);
  assert (say (7) == NULL);
  assert (m->ends == 1 && m->error == 0 && m->pairs_count == 2);
  assert (m->pairs[0] == 65536 && m->pairs[1] == 3 && m->pairs[2] == 1 << 20 &&
          m->pairs[3] == 0);
  end ();
}

/* Queued commands are sent in one go, in order; cookies distinguish them. */
static void
test_sends (void)
{
  begin (true);
  queue (WIRE_WRITE, 4096, 1000);
  queue (WIRE_FLUSH, 0, 0);
  queue (WIRE_WRITE, 0, 10);
  assert (!wire_push (wire));
  for (unsigned i = 0; i < count; i++)
    serve (&mine[i]);
  for (unsigned i = count; i-- > 0;)
    simple (&mine[i], 0);
  assert (say (64) == NULL);
  end ();
}

/* A socket that takes little at a time; and an answer that comes too early. */
static void
test_full (void)
{
  const int little = 8192;
  struct mine *m, *n;

  begin (true);
  setsockopt (ours, SOL_SOCKET, SO_SNDBUF, &little, sizeof little);
  m = queue (WIRE_WRITE, 0, 1 << 20);
  n = queue (WIRE_WRITE, 1 << 20, 300000);
  assert (wire_push (wire) && wire_full (wire));
  {
    uint8_t head[HEAD];

    assert (recv (theirs, head, HEAD, MSG_PEEK) == HEAD);
    memcpy (&m->cookie, head + 8, 8);
  }
  simple (m, 5);
  assert (say (100) == NULL);
  assert (m->ends == 0); /* its buffer is still being sent */
  for (size_t left = 2 * HEAD + (1 << 20) + 300000; left > 0;) {
    char some[10000];
    ssize_t r = recv (theirs, some, sizeof some, MSG_DONTWAIT);

    if (r > 0)
      left -= r;
    else
      wire_push (wire);
  }
  assert (!wire_push (wire) && !wire_full (wire));
  assert (m->ends == 1 && m->error == 5 && n->ends == 0);
  close (theirs);
  theirs = -1;
  assert (wire_receive (wire) && n->ends == 1 && n->error == ENOTCONN);
  end ();
}

/* A write that is answered before all of it is sent is not answered again. */
static void
test_full_twice (void)
{
  const int little = 8192;
  uint8_t head[HEAD];
  struct mine *m;

  begin (false);
  setsockopt (ours, SOL_SOCKET, SO_SNDBUF, &little, sizeof little);
  m = queue (WIRE_WRITE, 0, 1 << 20);
  assert (wire_push (wire));
  assert (recv (theirs, head, HEAD, MSG_PEEK) == HEAD);
  memcpy (&m->cookie, head + 8, 8);
  simple (m, 5);
  assert (say (100) == NULL && m->ends == 0);
  m->cookie = 0;
  simple (m, 0);
  assert (say (100) && m->ends == 1 && m->error == ENOTCONN);
  end ();
}

/*----- As it should not be -----*/

static void
bad_magic (struct mine *r, struct mine *w, struct mine *s)
{
  put (0x12345678, 4);
  bytes (0, 12);
}

static void
bad_cookie (struct mine *r, struct mine *w, struct mine *s)
{
  w->cookie ^= htobe64 (1ull << 40);
  simple (w, 0);
}

static void
bad_index (struct mine *r, struct mine *w, struct mine *s)
{
  w->cookie ^= htobe64 (1 << 20);
  simple (w, 0);
}

static void
twice (struct mine *r, struct mine *w, struct mine *s)
{
  simple (w, 0);
  simple (w, 0);
}

static void
simple_read (struct mine *r, struct mine *w, struct mine *s)
{
  simple (r, 0);
  bytes ('x', DATA_BYTES);
}

static void
simple_status (struct mine *r, struct mine *w, struct mine *s)
{
  simple (s, 0);
}

static void
before (struct mine *r, struct mine *w, struct mine *s)
{
  data (r, true, r->c.offset - 1, 'x', 10);
}

static void
behind (struct mine *r, struct mine *w, struct mine *s)
{
  data (r, true, r->c.offset + DATA_BYTES - 9, 'x', 10);
}

static void
far_behind (struct mine *r, struct mine *w, struct mine *s)
{
  data (r, true, UINT64_MAX - 4, 'x', 10);
}

static void
too_much (struct mine *r, struct mine *w, struct mine *s)
{
  data (r, false, r->c.offset, 'x', DATA_BYTES);
  data (r, true, r->c.offset, 'x', 1);
}

static void
too_little (struct mine *r, struct mine *w, struct mine *s)
{
  data (r, true, r->c.offset, 'x', DATA_BYTES - 1);
}

static void
nothing (struct mine *r, struct mine *w, struct mine *s)
{
  chunk (r, true, 0, 0);
}

static void
long_hole (struct mine *r, struct mine *w, struct mine *s)
{
  hole (r, true, r->c.offset, DATA_BYTES + 1);
}

static void
empty_hole (struct mine *r, struct mine *w, struct mine *s)
{
  hole (r, false, r->c.offset, 0);
}

static void
odd_hole (struct mine *r, struct mine *w, struct mine *s)
{
  chunk (r, true, 2, 13);
  bytes (0, 13);
}

static void
data_for_write (struct mine *r, struct mine *w, struct mine *s)
{
  data (w, true, w->c.offset, 'x', 10);
}

static void
empty_data (struct mine *r, struct mine *w, struct mine *s)
{
  chunk (r, true, 1, 8);
  put (r->c.offset, 8);
}

static void
long_nothing (struct mine *r, struct mine *w, struct mine *s)
{
  chunk (w, true, 0, 4);
  bytes (0, 4);
}

static void
unknown_chunk (struct mine *r, struct mine *w, struct mine *s)
{
  chunk (r, true, 77, 4);
  bytes (0, 4);
}

static void
no_error (struct mine *r, struct mine *w, struct mine *s)
{
  data (r, false, r->c.offset, 'x', DATA_BYTES);
  chunk (r, true, 0x8001, 6);
  bytes (0, 6);
}

static void
short_error (struct mine *r, struct mine *w, struct mine *s)
{
  chunk (r, true, 0x8001, 5);
  bytes (5, 5);
}

static void
long_error (struct mine *r, struct mine *w, struct mine *s)
{
  chunk (r, true, 0x8001, 1 << 20);
  bytes (5, 100);
}

static void
long_text (struct mine *r, struct mine *w, struct mine *s)
{
  chunk (r, true, 0x8001, 8);
  put (5, 4);
  put (3, 2);
  bytes ('e', 2);
}

static void
status_for_read (struct mine *r, struct mine *w, struct mine *s)
{
  chunk (r, false, 5, 12);
  bytes (1, 12);
  data (r, true, r->c.offset, 'x', DATA_BYTES);
}

static void
odd_status (struct mine *r, struct mine *w, struct mine *s)
{
  chunk (s, true, 5, 16);
  bytes (1, 16);
}

static void
long_status (struct mine *r, struct mine *w, struct mine *s)
{
  chunk (s, true, 5, 0xfffffffc);
  bytes (1, 100);
}

static void
test_nonsense (void)
{
  static void (*const all[]) (struct mine *, struct mine *, struct mine *) = {
    bad_magic,      bad_cookie, bad_index,    twice,           simple_read,
    simple_status,  before,     behind,       far_behind,      too_much,
    too_little,     nothing,    long_hole,    empty_hole,      odd_hole,
    data_for_write, empty_data, long_nothing, unknown_chunk,   no_error,
    short_error,    long_error, long_text,    status_for_read, odd_status,
    long_status,
  };

  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
    for (size_t step = 1; step < 100; step += 98) {
      struct mine *r, *w, *s;
      const char *why;

      begin (true);
      r = ask (WIRE_READ, 1 << 20, DATA_BYTES);
      w = ask (WIRE_WRITE, 0, 100);
      s = ask (WIRE_STATUS, 0, 1 << 20);
      queue (WIRE_WRITE, 0, 100); /* not even sent */
      all[i](r, w, s);
      why = say (step);
      if (why == NULL || strcmp (why, "its answer makes no sense") != 0) {
        printf ("nonsense %zu: %s\n", i, why ? why : "not seen");
        abort ();
      }
      assert (r->error == ENOTCONN && mine[3].error == ENOTCONN);
      assert (wire_queue (wire, &r->c) == ENOTCONN && !wire_push (wire));
      end ();
    }
  /* A structured reply that was not agreed on. */
  begin (false);
  data (ask (WIRE_READ, 0, 10), true, 0, 'x', 10);
  assert (say (100) && mine[0].error == ENOTCONN);
  end ();
}

/* At each byte of a reply the server may go. */
static void
test_hang_up (void)
{
  for (size_t n = 0; n < 28 + 100; n++) {
    struct mine *m;

    begin (true);
    m = ask (WIRE_READ, 0, 100);
    data (m, true, 0, 'x', 100);
    said_bytes = n;
    assert (say (1000) == NULL);
    close (theirs);
    theirs = -1;
    queue (WIRE_WRITE, 0, 10);
    wire_push (wire); /* finds out, or not */
    assert (strcmp (wire_receive (wire), "closed by the member") == 0);
    assert (m->error == ENOTCONN && mine[1].error == ENOTCONN);
    end ();
  }
}

/*----- At random -----*/

static unsigned seed;

static unsigned
below (unsigned n)
{
  return rand_r (&seed) % n;
}

/* A good conversation, of which with `bent` one byte is changed. */
static void
talk (bool bent)
{
  const char *why;
  unsigned n = 1 + below (6);
  size_t step = 1 + below (below (2) ? 10 : 8000), at;

  begin (true);
  for (unsigned i = 0; i < n; i++)
    switch (below (4)) {
    case 0:
      simple (ask (WIRE_WRITE, below (5000), 1 + below (5000)), below (9));
      break;
    case 1:
      simple (ask (WIRE_FLUSH, 0, 0), 0);
      break;
    case 2: {
      struct mine *m = ask (WIRE_STATUS, 0, 4096);

      chunk (m, true, 5, 12);
      put (1, 4);
      put (4096, 4);
      put (below (4), 4);
      break;
    }
    default: {
      struct mine *m = ask (WIRE_READ, below (5000), 1 + below (5000));

      for (uint32_t got = 0, some; got < m->c.length; got += some) {
        some = 1 + below (m->c.length - got);
        if (below (4) == 0)
          hole (m, got + some == m->c.length, m->c.offset + got, some);
        else
          data (m, got + some == m->c.length, m->c.offset + got, 'd', some);
      }
    }
    }
  at = below (said_bytes);
  if (bent)
    said[at] ^= 1 << below (8);
  why = say (step);
  assert (bent || why == NULL);
  /* Further requests of waiting commands go now. */
  shutdown (theirs, SHUT_RDWR);
  if (why == NULL)
    assert (wire_receive (wire));
  for (unsigned i = 0; !bent && i < count; i++)
    assert (mine[i].error != ENOTCONN);
  end ();
}

/*----- Threads -----*/

#define THREADS 4
#define EACH 2000

static atomic_uint came;

static void
thread_done (void *opaque, int error)
{
  assert (error == 0);
  atomic_fetch_add (&came, 1);
}

static void *
writer (void *unused)
{
  static char buf[3000];

  for (unsigned i = 0; i < EACH; i++) {
    const struct wire_command c = { .type = WIRE_WRITE,
                                    .length = 1 + i % sizeof buf,
                                    .buf = buf };

    assert (wire_queue (wire, &c) == 0);
    wire_push (wire);
  }
  return NULL;
}

static void *
answer_all (void *unused)
{
  for (unsigned i = 0; i < THREADS * EACH; i++) {
    uint8_t head[HEAD], reply[16] = { 0x67, 0x44, 0x66, 0x98 };
    char payload[3000];
    uint32_t length;

    assert (recv (theirs, head, HEAD, MSG_WAITALL) == HEAD);
    memcpy (&length, head + 24, 4);
    length = be32toh (length);
    assert (recv (theirs, payload, length, MSG_WAITALL) == length);
    memcpy (reply + 8, head + 8, 8);
    assert (send (theirs, reply, sizeof reply, 0) == sizeof reply);
  }
  return NULL;
}

static void
test_threads (void)
{
  const struct wire_calls calls = { thread_done, status };
  pthread_t writers[THREADS], server;

  begin (true);
  wire_free (wire);
  wire = wire_new (ours, true, &calls);
  assert (pthread_create (&server, NULL, answer_all, NULL) == 0);
  for (unsigned i = 0; i < THREADS; i++)
    assert (pthread_create (&writers[i], NULL, writer, NULL) == 0);
  while (atomic_load (&came) < THREADS * EACH) {
    struct pollfd p = { ours, POLLIN | (wire_full (wire) ? POLLOUT : 0), 0 };

    /* In the engine whoever finds the socket full wakes the poller. */
    if (poll (&p, 1, 1) == 1 && (p.revents & POLLOUT))
      wire_push (wire);
    assert (wire_receive (wire) == NULL);
  }
  for (unsigned i = 0; i < THREADS; i++)
    pthread_join (writers[i], NULL);
  pthread_join (server, NULL);
  end ();
}

int
main (void)
{
  const char *given = getenv ("WEFT_SEED");
  unsigned first = given ? strtoul (given, NULL, 10) : (unsigned) clock_ns ();

  for (size_t step = 1; step < 20000; step = step * 3 + 1) {
    test_reads (false, step);
    test_reads (true, step);
  }
  test_large ();
  test_errors (false);
  test_errors (true);
  test_status ();
  test_sends ();
  test_full ();
  test_full_twice ();
  test_nonsense ();
  test_hang_up ();
  test_threads ();
  printf ("run again with WEFT_SEED=%u\n", seed = first);
  fflush (stdout);
  for (unsigned i = 0; i < 3000; i++) {
    talk (false);
    talk (true);
  }
  return 0;
}
