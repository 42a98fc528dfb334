/* nbdkit-replies.c: keeps nbdkit alive when a client dies with replies under way.
 *
 * nbdkit gives a socket up when a send or a receive fails on it, and aborts if
 * another thread then still has a reply to send.  So
 *
 *   - a send never fails: the client is gone and needs no reply.  The socket is
 *     shut down, so the next receive
 *     finds its end;
 *   - a receive does not fail, or end, before all other threads of its
 *     connection have sent what they owe.  Only one thread receives at a time,
 *     and a thread owes a reply from its receive on, so nobody is left then.
 *     Likewise before a request after which nbdkit gives the socket up.
 *
 * All of this needs one descriptor for both ways.  With nbdkit -s there are two,
 * and a single client, with which nbdkit ends in any case.
 *
 * nbdkit has no place for this: calls.c makes one.  If it can't, nbdkit is as it
 * always was.
 */

#include <config.h>

#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "calls.h"
#include "nbdkit-replies.h"

#define SOCKETS 16384
/* How long it is waited before it is looked again: more and more. */
#define PAUSE_NS 1000000
#define PAUSE_NS_MAX 50000000

/* A request's header, and what nbdkit skips of a write that is too large. */
#define HEADER_BYTES 28
#define MAGIC 0x25609513
#define TYPE_WRITE 1
#define SKIPPED_BYTES_MAX (128 << 20)

/* The parts of a reply before its payload have 16, or 20 and 8. */
#define HELD_BYTES_MAX 64

/* By descriptor. */
static struct {
  atomic_bool open;
  atomic_uint owed; /* threads that have received and not sent */
} sockets[SOCKETS];

static _Thread_local int received_from = -1, sent_to = -1;
static _Thread_local bool owes;
static _Thread_local uint8_t header[HEADER_BYTES];
static _Thread_local size_t header_got;
/* The begin of the thread's next send. */
static _Thread_local char held[HELD_BYTES_MAX];
static _Thread_local size_t held_bytes;

static bool
is_open (int fd)
{
  return fd >= 0 && fd < SOCKETS && atomic_load (&sockets[fd].open);
}

static void
set_owes (int fd, bool b)
{
  if (owes == b)
    return;
  owes = b;
  if (b)
    atomic_fetch_add (&sockets[fd].owed, 1);
  else
    atomic_fetch_sub (&sockets[fd].owed, 1);
}

static void
wait_for_others (int fd)
{
  struct timespec pause = { .tv_nsec = PAUSE_NS };

  while (atomic_load (&sockets[fd].owed) > owes) {
    nanosleep (&pause, NULL);
    if (pause.tv_nsec < PAUSE_NS_MAX / 2)
      pause.tv_nsec *= 2;
  }
}

/* Has a header come to its end, perhaps in parts, that nbdkit breaks off after?
 * (Data of that length may look so, too: then we wait for nothing, once.)
 */
static bool
breaks_off (const void *buf, size_t count, size_t received)
{
  uint32_t magic, length;
  uint16_t type;

  if (count == HEADER_BYTES)
    header_got = 0;
  if (count == 0 || header_got + count != HEADER_BYTES)
    return false;
  memcpy (header + header_got, buf, received);
  header_got += received;
  if (header_got < HEADER_BYTES)
    return false;
  memcpy (&magic, header, sizeof magic);
  memcpy (&type, header + 6, sizeof type);
  memcpy (&length, header + 24, sizeof length);
  return be32toh (magic) != MAGIC ||
         (be16toh (type) == TYPE_WRITE && be32toh (length) > SKIPPED_BYTES_MAX);
}

static ssize_t
guarded_read (int fd, void *buf, size_t count)
{
  ssize_t r = read (fd, buf, count);
  int saved = errno;

  received_from = fd;
  if (!is_open (fd))
    return r;
  if (r > 0) {
    set_owes (fd, true);
    if (breaks_off (buf, count, r))
      wait_for_others (fd);
  }
  else if (r == 0 || (errno != EINTR && errno != EAGAIN)) {
    wait_for_others (fd);
    errno = saved;
  }
  return r;
}

/* nbdkit sends a reply in up to three parts, of which it says that more will come:
 * they are kept until the last, and go with it in one call.  A reply is sent by one
 * thread.
 */
static ssize_t
gathered_send (int fd, const void *buf, size_t count, int flags)
{
  struct iovec parts[] = { { held, held_bytes }, { (void *) buf, count } };
  struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
  ssize_t r;

  if ((flags & MSG_MORE) && count <= sizeof held - held_bytes) {
    memcpy (held + held_bytes, buf, count);
    held_bytes += count;
    return count;
  }
  if (held_bytes == 0)
    return send (fd, buf, count, flags);
  do {
    r = sendmsg (fd, &message, flags);
    if (r == -1)
      break;
    if ((size_t) r < held_bytes) {
      held_bytes -= r;
      memmove (held, held + r, held_bytes);
      parts[0].iov_len = held_bytes;
      continue;
    }
    r -= held_bytes;
    held_bytes = 0;
  } while (held_bytes > 0);
  return r;
}

static ssize_t
guarded_send (int fd, const void *buf, size_t count, int flags)
{
  bool open = is_open (fd);
  ssize_t r = open ? gathered_send (fd, buf, count, flags)
                   : send (fd, buf, count, flags);

  sent_to = fd;
  if (!open)
    return r;
  if (r == -1) {
    if (errno == EINTR || errno == EAGAIN)
      return r;
    nbdkit_debug ("weft: a client is gone before its reply: %m");
    shutdown (fd, SHUT_RDWR);
    held_bytes = 0;
    r = count;
  }
  if (!(flags & MSG_MORE) && (size_t) r == count)
    set_owes (fd, false);
  return r;
}

/* The other threads of the connection have ended. */
static int
guarded_close (int fd)
{
  if (is_open (fd)) {
    owes = false;
    atomic_store (&sockets[fd].owed, 0);
    atomic_store (&sockets[fd].open, false);
  }
  return close (fd);
}

void
replies_open (void)
{
  if (received_from >= 0 && received_from < SOCKETS && received_from == sent_to)
    atomic_store (&sockets[received_from].open, true);
}

/*----- The table of addresses -----*/

static const struct call guards[] = {
  { "read", guarded_read },
  { "send", guarded_send },
  { "close", guarded_close },
  { NULL },
};

void
replies_guard (void)
{
  /* A package that was built beside an older nbdkit is run by a newer one.  Among
   * stable versions 1.34 brought this function, and the remedy as well.
   */
  if (dlsym (RTLD_DEFAULT, "nbdkit_disconnect"))
    nbdkit_debug ("weft: this nbdkit does without our guards");
  else
    nbdkit_debug (calls_replace ("", guards)
                    ? "weft: our guards stand before nbdkit's calls"
                    : "weft: nbdkit may abort when a client dies");
}
