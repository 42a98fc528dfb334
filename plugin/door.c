/* door.c: one NBD connection to a member, and I/O as NBD commands.
 *
 * libnbd makes each connection.  Where it speaks TLS libnbd carries the commands, too;
 * where it is plain wire.c does.
 *
 * libnbd's rules that this file lives by: a command that was queued gets its
 * completion callback exactly once, with the handle locked, in whichever
 * thread moves the handle on (which may be the one that sends); a command that
 * was refused (-1) gets none.  The callback returns 1, so libnbd retires the
 * command by itself.  A handle that breaks answers everything with ENOTCONN.
 *
 * One exception: libnbd 1.14 still reads a command after its callback when the
 * connection breaks in the very call that queues it.  So then the callback
 * returns 0, and the command is retired by hand.
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "connect.h"
#include "common/descriptors.h"
#include "common/refuse.h"
#include "door.h"
#include "peer.h"
#include "role.h"
#include "wire.h"

#define IO_BYTES_SPEC MiB (32) /* NBD's size where a server gives none */

/* Source of zeroes for a member that can't write zeroes by itself.  Only ever
 * read, so all of it is the kernel's one zero page.
 */
static void *zeroes;
static pthread_once_t zeroes_once = PTHREAD_ONCE_INIT;

static void
make_zeroes (void)
{
  zeroes = mmap (NULL, IO_BYTES_SPEC, PROT_READ,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

bool
door_zeroes (void)
{
  pthread_once (&zeroes_once, make_zeroes);
  return zeroes != MAP_FAILED;
}

/*----- Answers -----*/

/* Does the member sync its disk for it? */
static bool
is_sync (const struct array_io *io)
{
  return io->kind == IO_FLUSH || (io->flags & ARRAY_FUA);
}

static void
put_part (struct peer_io *pio)
{
  struct door *d = pio->door;

  if (atomic_fetch_sub (&pio->parts, 1) > 1)
    return;
  atomic_store_explicit (
    &d->answered,
    atomic_fetch_add_explicit (&pio->peer->answers, 1, memory_order_relaxed) +
      1,
    memory_order_relaxed);
  atomic_fetch_sub_explicit (&d->busy, 1, memory_order_relaxed);
  if (is_sync (pio->io))
    atomic_fetch_sub_explicit (&d->syncs, 1, memory_order_relaxed);
  pio->peer->done (pio);
}

static void
set_error (struct peer_io *pio, int error)
{
  int none = 0;

  atomic_compare_exchange_strong (&pio->error, &none, error);
}

/* The request for which this thread is queueing a command, and whether a
 * callback of it came meanwhile.
 */
static _Thread_local const struct peer_io *queueing;
static _Thread_local bool came_at_once;

/* The callback's return value: may libnbd retire the command? */
static int
retire (const struct peer_io *pio)
{
  if (pio != queueing)
    return 1;
  came_at_once = true;
  return 0;
}

static int
completed (void *opaque, int *error)
{
  struct peer_io *pio = opaque;
  int r = retire (pio);

  if (*error)
    set_error (pio, *error);
  put_part (pio);
  return r;
}

/* A member that can't tell: all of it is data. */
static void
all_data (struct peer_io *pio)
{
  struct array_io *io = pio->io;

  io->extents = malloc (sizeof *io->extents);
  if (io->extents == NULL) {
    set_error (pio, ENOMEM);
    return;
  }
  io->extents[0] = (struct array_extent) { io->length, .hole = false,
                                           .zero = false };
  io->extents_count = 1;
}

/* Pairs of a length and its flags. */
static void
note_extents (void *opaque, uint32_t *pairs, size_t count)
{
  struct peer_io *pio = opaque;
  struct array_io *io = pio->io;
  uint64_t left = io->length;
  size_t i;

  if (io->extents != NULL)
    return;
  io->extents = malloc (count * sizeof *io->extents);
  if (io->extents == NULL)
    return;
  for (i = 0; i < count && left > 0; i++) {
    uint64_t length = pairs[2 * i];

    if (length == 0)
      break;
    if (length > left) /* the last one may go on behind the range */
      length = left;
    left -= length;
    io->extents[i] = (struct array_extent) {
      length,
      .hole = pairs[2 * i + 1] & LIBNBD_STATE_HOLE,
      .zero = pairs[2 * i + 1] & LIBNBD_STATE_ZERO,
    };
  }
  io->extents_count = i;
}

static int
got_extents (void *opaque, const char *metacontext, uint64_t offset,
             uint32_t *entries, size_t nr_entries, int *error)
{
  const struct peer_io *pio = opaque;

  if (strcmp (metacontext, LIBNBD_CONTEXT_BASE_ALLOCATION) == 0 &&
      offset == pio->io->offset)
    note_extents (opaque, entries, nr_entries / 2);
  return 0;
}

/* A failure to find extents is no reason to lose a member. */
static int
completed_extents (void *opaque, int *error)
{
  struct peer_io *pio = opaque;
  struct array_io *io = pio->io;
  int r = retire (pio);

  if (*error == ENOTCONN || *error == ESHUTDOWN)
    set_error (pio, *error);
  else if (*error || io->extents_count == 0) {
    free (io->extents);
    io->extents = NULL;
    all_data (pio);
  }
  put_part (pio);
  return r;
}

static void
wire_done (void *opaque, int error)
{
  const struct peer_io *pio = opaque;

  if (pio->io->kind == IO_EXTENTS)
    completed_extents (opaque, &error);
  else
    completed (opaque, &error);
}

/*----- Opening, closing -----*/

int
door_open (struct door *d, const char *label, const char *uri,
           uint64_t deadline_ms, char *why, size_t why_size)
{
  static const struct wire_calls calls = { wire_done, note_extents };
  enum connect_failure failure = CONNECT_NBD;
  char said[CONNECT_REASON_BYTES], short_of[DESCRIPTORS_WHY_BYTES];
  const char *reason, *shortage;
  int64_t max, min;
  uint64_t now;
  bool plain;
  int fd;

  d->fd = -1;
  d->nbd = nbd_create ();
  if (d->nbd == NULL)
    return refuse (why, why_size, "%s: %s", label,
                   connect_reason (CONNECT_NBD, said));
  now = clock_ms ();
  if (nbd_add_meta_context (d->nbd, LIBNBD_CONTEXT_BASE_ALLOCATION) == 0 &&
      nbd_set_uri_allow_local_file (d->nbd, params.map != NULL) == 0 &&
#if LIBNBD_HAVE_NBD_SET_REQUEST_EXTENDED_HEADERS
      /* wire.c knows headers of the first kind only. */
      nbd_set_request_extended_headers (d->nbd, false) == 0 &&
#endif
      /* libnbd need not clear a buffer: after a failed read nobody looks. */
      nbd_set_pread_initialize (d->nbd, false) == 0)
    failure = connect_nbd (d->nbd, uri,
                           now < deadline_ms ? deadline_ms - now : 0);
  if (failure == CONNECT_DESCRIPTORS)
    return refuse (why, why_size, "%s: can't connect: %s", label,
                   connect_reason (failure, said));
  if (failure)
    return refuse (
      why, why_size,
      "%s: can't connect: %s; check that it is running and reachable%s", label,
      connect_reason (failure, said),
      connect_is_tls (uri)
        ? ", and that one CA has made the certificates of both ends"
        : "");
  min = nbd_get_block_size (d->nbd, LIBNBD_SIZE_MINIMUM);
  if (min > 1)
    return refuse (
      why, why_size,
      "%s takes requests in multiples of %lld bytes only; put nbdkit's "
      "blocksize filter in front of it",
      label, (long long) min);
  max = nbd_get_block_size (d->nbd, LIBNBD_SIZE_MAXIMUM);
  d->io_max = max > 0 ? (uint64_t) max : IO_BYTES_SPEC;
  if (d->io_max > REQUEST_BYTES_MAX)
    d->io_max = REQUEST_BYTES_MAX;
  if (d->io_max < 4096)
    return refuse (
      why, why_size,
      "%s takes requests of at most %lld bytes; Weft needs 4096 or more", label,
      (long long) max);
  d->fua = nbd_can_fua (d->nbd) == 1;
  d->zero = nbd_can_zero (d->nbd) == 1;
  d->extents = nbd_can_meta_context (d->nbd, LIBNBD_CONTEXT_BASE_ALLOCATION) ==
               1;
  fd = nbd_aio_get_fd (d->nbd);
  plain = nbd_get_tls_negotiated (d->nbd) == 0;
  d->fd = fd == -1 || plain ? fd : fcntl (fd, F_DUPFD_CLOEXEC, 3);
  if (d->fd == -1) {
    reason = strerror (errno);
    shortage = descriptors_short (short_of);
    return refuse (why, why_size, "%s: can't connect: %s", label,
                   shortage ? shortage : reason);
  }
  /* Some connections are silent while all is well, and firewalls forget those.  On a
   * Unix socket that means nothing.
   */
  setsockopt (d->fd, SOL_SOCKET, SO_KEEPALIVE, &(int) { 1 }, sizeof (int));
  setsockopt (d->fd, IPPROTO_TCP, TCP_KEEPIDLE, &(int) { 60 }, sizeof (int));
  if (plain) {
    d->wire = wire_new (
      d->fd, nbd_get_structured_replies_negotiated (d->nbd) == 1, &calls);
    if (d->wire == NULL) {
      d->fd = -1;
      return refuse (why, why_size, "%s: out of memory", label);
    }
  }
  return 0;
}

void
door_close (struct door *d)
{
  if (d->nbd && !atomic_load (&d->dead) && nbd_aio_is_ready (d->nbd) == 1)
    nbd_aio_disconnect (d->nbd, 0);
  nbd_close (d->nbd);
  if (d->fd >= 0 && !d->wire)
    close (d->fd);
  wire_free (d->wire);
}

static bool
door_gone (const struct door *d)
{
  return nbd_aio_is_dead (d->nbd) == 1 || nbd_aio_is_closed (d->nbd) == 1;
}

bool
door_break_peer (struct peer *p, const char *fmt, ...)
{
  enum peer_state connected = PEER_CONNECTED;
  va_list args;

  if (!atomic_compare_exchange_strong (&p->state, &connected, PEER_BREAKING))
    return false;
  va_start (args, fmt);
  vsnprintf (p->reason, sizeof p->reason, fmt, args);
  va_end (args);
  atomic_store (&p->state, PEER_BROKEN);
  return true;
}

/* A door is dead; `reason` is kept when it is the peer's first. */
static void
door_dead (struct peer *p, struct door *d, const char *reason)
{
  atomic_store (&d->dead, true);
  door_break_peer (p, "its connection broke: %s", reason);
}

/*----- Commands -----*/

/* Queue one NBD command of `count` bytes at `done` within the I/O; returns its
 * cookie or -1.
 */
static int64_t
queue_part (struct peer_io *pio, struct door *d, enum array_io_kind kind,
            uint64_t done, uint64_t count)
{
  const struct array_io *io = pio->io;
  uint64_t offset = kind == IO_BATCH ? done : io->offset + done;
  char *buf = io->buf ? (char *) io->buf + done : NULL;
  uint32_t fua = (io->flags & ARRAY_FUA) && d->fua ? LIBNBD_CMD_FLAG_FUA : 0;
  nbd_completion_callback cb = { .callback = completed, .user_data = pio };

  switch (kind) {
  case IO_READ:
  case IO_ROUND:
  case IO_PULSE:
    return nbd_aio_pread (d->nbd, buf, count, offset, cb, 0);
  case IO_WRITE:
  case IO_BATCH:
    return nbd_aio_pwrite (d->nbd, buf, count, offset, cb, fua);
  case IO_ZERO:
  case IO_TRIM:
    if (!d->zero)
      return nbd_aio_pwrite (d->nbd, zeroes, count, offset, cb, fua);
    if (kind == IO_ZERO && !(io->flags & ARRAY_MAY_TRIM))
      fua |= LIBNBD_CMD_FLAG_NO_HOLE;
    return nbd_aio_zero (d->nbd, count, offset, cb, fua);
  case IO_FLUSH:
    return nbd_aio_flush (d->nbd, cb, 0);
  case IO_EXTENTS:
    cb.callback = completed_extents;
    return nbd_aio_block_status (
      d->nbd, count, offset,
      (nbd_extent_callback) { .callback = got_extents, .user_data = pio }, cb,
      0);
  }
  abort ();
}

/* Returns 0 or an errno. */
static int
send_part (struct peer_io *pio, struct door *d, enum array_io_kind kind,
           uint64_t done, uint64_t count)
{
  int64_t cookie;

  queueing = pio;
  came_at_once = false;
  cookie = queue_part (pio, d, kind, done, count);
  queueing = NULL;
  /* An earlier part of this I/O may have come as well; it stays in libnbd's
   * list until the handle, which is dead now, is closed.
   */
  if (cookie != -1 && came_at_once)
    nbd_aio_command_completed (d->nbd, cookie);
  if (cookie != -1)
    return 0;
  return !door_gone (d) && nbd_get_errno () ? nbd_get_errno () : ENOTCONN;
}

/* The same, where the connection is ours; returns 0 or an errno. */
static int
wire_part (struct peer_io *pio, struct door *d, enum array_io_kind kind,
           uint64_t done, uint64_t count)
{
  const struct array_io *io = pio->io;
  struct wire_command c = {
    .type = WIRE_WRITE,
    .flags = (io->flags & ARRAY_FUA) && d->fua ? WIRE_FUA : 0,
    .length = count,
    .offset = kind == IO_BATCH ? done : io->offset + done,
    .buf = io->buf ? (char *) io->buf + done : NULL,
    .opaque = pio,
  };

  switch (kind) {
  case IO_WRITE:
  case IO_BATCH:
    break;
  case IO_READ:
  case IO_ROUND:
  case IO_PULSE:
    c.type = WIRE_READ;
    c.flags = 0;
    break;
  case IO_ZERO:
  case IO_TRIM:
    c.buf = zeroes;
    if (!d->zero)
      break;
    c.type = WIRE_ZERO;
    if (kind == IO_ZERO && !(io->flags & ARRAY_MAY_TRIM))
      c.flags |= WIRE_NO_HOLE;
    break;
  case IO_FLUSH:
    c.type = WIRE_FLUSH;
    c.flags = c.offset = 0;
    break;
  case IO_EXTENTS:
    c.type = WIRE_STATUS;
    c.flags = 0;
    break;
  }
  return wire_queue (d->wire, &c);
}

/* The most bytes that one command may carry. */
static uint64_t
part_max (const struct door *d, enum array_io_kind kind)
{
  switch (kind) {
  case IO_READ:
  case IO_WRITE:
    return d->io_max;
  case IO_ZERO:
  case IO_TRIM:
    if (!d->zero)
      return d->io_max < IO_BYTES_SPEC ? d->io_max : IO_BYTES_SPEC;
    return UINT32_MAX;
  default:
    return UINT64_MAX;
  }
}

bool
door_send (struct door *d, struct peer_io *pio)
{
  struct array_io *io = pio->io;
  struct peer *p = pio->peer;
  enum array_io_kind kind = pio->flush_after ? IO_FLUSH : io->kind;
  uint64_t max = part_max (d, kind);
  uint64_t length = kind == IO_FLUSH ? 0 : io->length;
  uint64_t done = 0, count;
  bool wake;
  int error;

  pio->door = d;
  /* Its comparison with the others begins again. */
  if (atomic_fetch_add_explicit (&d->busy, 1, memory_order_relaxed) == 0)
    atomic_store_explicit (
      &d->answered, atomic_load_explicit (&p->answers, memory_order_relaxed),
      memory_order_relaxed);
  if (is_sync (io))
    atomic_fetch_add_explicit (&d->syncs, 1, memory_order_relaxed);
  atomic_store_explicit (&pio->parts, 1, memory_order_relaxed);
  atomic_store_explicit (&pio->error, 0, memory_order_relaxed);
  if (kind == IO_EXTENTS && !d->extents) {
    all_data (pio);
    put_part (pio);
    return false;
  }
  if (atomic_load (&d->dead)) {
    set_error (pio, ENOTCONN);
    put_part (pio);
    return false;
  }
  /* Where the member has no FUA, the I/O is sent a second time, as a FLUSH. */
  pio->flush_after = kind != IO_FLUSH && (io->flags & ARRAY_FUA) && !d->fua;
  /* From the last put_part on, pio and its I/O are somebody else's. */
  do {
    count = length - done < max ? length - done : max;
    atomic_fetch_add (&pio->parts, 1);
    error = d->wire ? wire_part (pio, d, kind, done, count)
                    : send_part (pio, d, kind, done, count);
    if (error) {
      set_error (pio, error);
      put_part (pio);
      break;
    }
    done += count;
  } while (done < length);
  put_part (pio);
  if (d->wire)
    return wire_push (d->wire);
  wake = nbd_aio_get_direction (d->nbd) & LIBNBD_AIO_DIRECTION_WRITE;
  if (door_gone (d))
    door_dead (p, d, "sending failed");
  return wake;
}

short
door_events (const struct door *d)
{
  unsigned direction;

  if (atomic_load (&d->dead))
    return 0;
  if (d->wire)
    return POLLIN | (wire_full (d->wire) ? POLLOUT : 0);
  direction = nbd_aio_get_direction (d->nbd);
  return (direction & LIBNBD_AIO_DIRECTION_READ ? POLLIN : 0) |
         (direction & LIBNBD_AIO_DIRECTION_WRITE ? POLLOUT : 0);
}

bool
door_notify (struct peer *p, struct door *d, short revents)
{
  char said[CONNECT_REASON_BYTES];
  const char *reason = NULL;
  int r = 0;

  /* A hang-up is read as well: it shows as the end of the stream. */
  if (d->wire) {
    if (revents & POLLOUT)
      wire_push (d->wire);
    if (revents & (POLLIN | POLLHUP | POLLERR))
      reason = wire_receive (d->wire);
  }
  else {
    if (revents & (POLLIN | POLLHUP | POLLERR))
      r = nbd_aio_notify_read (d->nbd);
    else if (revents & POLLOUT)
      r = nbd_aio_notify_write (d->nbd);
    if (door_gone (d))
      reason = r == -1 ? connect_reason (CONNECT_NBD, said)
                       : "closed by the member";
  }
  if (reason)
    door_dead (p, d, reason);
  else if (revents & POLLIN)
    atomic_store_explicit (&p->heard_ns, clock_ns (), memory_order_relaxed);
  return reason;
}
