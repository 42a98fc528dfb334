/* fuzz-wire.c: a member's answers to the array's own NBD client.  For
 * any answers, each command comes back once, and nothing is written outside of its buffer.
 *
 * The input: 1 byte: bit 0, structured replies; bits 1-3, how many commands; 4 bytes for
 * each command; then the bytes from the member, in pieces of a length (2 bytes) each.
 * The n-th command's cookie is n << 32 | n - 1.
 */

#include <config.h>

#include <fcntl.h>
#include <unistd.h>

#include "fuzz.h"

#include "plugin/wire.c"

#define COMMANDS_MAX 8
#define BYTES_MAX 65536

struct mine {
  struct wire_command c;
  unsigned ends;
};

static void
done (void *opaque, int error)
{
  struct mine *m = opaque;

  m->ends++;
  assert (m->ends == 1);
  if (error == 0 && m->c.type == WIRE_READ)
    for (uint32_t i = 0; i < m->c.length;
         i++) /* the sanitizer sees what is not there */
      ((volatile uint8_t *) m->c.buf)[i];
}

static void
status (void *opaque, uint32_t *pairs, size_t count)
{
  struct mine *m = opaque;
  uint64_t sum = 0;

  assert (m->ends == 0 && m->c.type == WIRE_STATUS && count > 0);
  for (size_t i = 0; i < 2 * count; i++)
    sum += pairs[i];
  assert (sum <= 2 * count * UINT32_MAX);
}

static void
begin_command (struct wire *w, struct mine *m, struct fuzz *f)
{
  static const enum wire_type types[] = { WIRE_READ, WIRE_WRITE, WIRE_FLUSH,
                                          WIRE_ZERO, WIRE_STATUS };

  m->c = (struct wire_command) {
    .type = types[fuzz_below (f, 5)],
    .offset = fuzz_number (f, 1) * 512,
    .length = 1 + (uint32_t) fuzz_number (f, 2) % BYTES_MAX,
    .opaque = m,
  };
  if (m->c.type == WIRE_READ || m->c.type == WIRE_WRITE)
    m->c.buf = calloc (1, m->c.length);
  assert (wire_queue (w, &m->c) == 0);
}

static void
drain (int fd)
{
  char some[16384];

  while (recv (fd, some, sizeof some, MSG_DONTWAIT) > 0)
    ;
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  static const struct wire_calls calls = { done, status };
  struct fuzz f = { data, size };
  unsigned how = (unsigned) fuzz_number (&f, 1);
  unsigned count = 1 + (how >> 1) % COMMANDS_MAX;
  struct mine mine[COMMANDS_MAX] = { 0 };
  struct wire *w;
  int fds[2];

  assert (socketpair (AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  w = wire_new (fds[0], how & 1, &calls);
  assert (w);
  for (unsigned i = 0; i < count; i++)
    begin_command (w, &mine[i], &f);
  while (wire_push (w))
    drain (fds[1]);
  while (f.left > 0) {
    size_t n = fuzz_number (&f, 2);

    n = n == 0 || n > f.left ? f.left : n;
    if (send (fds[1], f.at, n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t) n)
      break;
    f.at += n;
    f.left -= n;
    if (wire_receive (w))
      break;
  }
  shutdown (fds[1], SHUT_RDWR);
  while (wire_receive (w) == NULL)
    ;
  for (unsigned i = 0; i < count; i++) {
    assert (mine[i].ends == 1);
    free (mine[i].c.buf);
  }
  wire_free (w);
  close (fds[0]);
  close (fds[1]);
  return 0;
}

/* ---- Seeds: a member's answers, one in a piece. ---- */

static void
put (uint64_t v, unsigned bytes)
{
  while (bytes-- > 0)
    FUZZ_PUT ((uint8_t) (v >> 8 * bytes));
}

static void
piece (size_t bytes)
{
  FUZZ_PUT ((uint8_t) bytes, (uint8_t) (bytes >> 8));
}

static void
command (unsigned type, unsigned offset, unsigned length)
{
  FUZZ_PUT ((uint8_t) type, (uint8_t) offset, (uint8_t) (length - 1),
            (uint8_t) ((length - 1) >> 8));
}

static void
simple (unsigned n, unsigned error, unsigned payload)
{
  piece (SIMPLE_BYTES + payload);
  put (SIMPLE_MAGIC, 4);
  put (error, 4);
  put ((uint64_t) n << 32 | (n - 1), 8);
  while (payload-- > 0)
    put ('x', 1);
}

static void
chunk (unsigned n, unsigned flags, unsigned type, unsigned length)
{
  piece (STRUCTURED_BYTES + length);
  put (STRUCTURED_MAGIC, 4);
  put (flags, 2);
  put (type, 2);
  put ((uint64_t) n << 32 | (n - 1), 8);
  put (length, 4);
}

void
fuzz_seeds (void (*seed) (const void *data, size_t size))
{
  FUZZ_PUT (2 << 1); /* simple: 3 commands */
  command (0, 1, 64);
  command (1, 0, 32);
  command (2, 0, 1);
  simple (2, 0, 0);
  simple (1, 0, 64);
  simple (3, 5, 0);
  fuzz_put_end (seed);

  FUZZ_PUT (4 << 1 | 1); /* structured: 5 commands */
  command (0, 1, 64);
  command (4, 0, 4096);
  command (0, 0, 32);
  command (1, 0, 32);
  command (3, 0, 512);
  chunk (1, 0, CHUNK_DATA, 8 + 32);
  put (512, 8);
  for (unsigned i = 0; i < 32; i++)
    put ('y', 1);
  chunk (1, CHUNK_DONE, CHUNK_HOLE, 12);
  put (512 + 32, 8);
  put (32, 4);
  chunk (2, CHUNK_DONE, CHUNK_STATUS, 4 + 16);
  put (1, 4);
  put (2048, 4);
  put (3, 4);
  put (2048, 4);
  put (0, 4);
  chunk (3, CHUNK_DONE, CHUNK_ERROR | 1, 6 + 2);
  put (5, 4);
  put (2, 2);
  put (0x6f6f, 2);
  chunk (4, CHUNK_DONE, CHUNK_NONE, 0);
  simple (5, 28, 0);
  fuzz_put_end (seed);
}
