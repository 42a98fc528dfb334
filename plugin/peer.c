/* peer.c: a host's NBD connections to one member.
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
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/clock.h"
#include "connect.h"
#include "common/descriptors.h"
#include "common/refuse.h"
#include "options.h"
#include "peer.h"
#include "role.h"

#define IO_BYTES_SPEC MiB (32) /* what NBD allows where a server says nothing */

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

/* Open one door and learn what it can do. */
static int
door_open (struct door *d, const struct peer *p, const char *uri,
           uint64_t deadline_ms, char *why, size_t why_size)
{
  enum connect_failure failure = CONNECT_NBD;
  const char *reason, *shortage;
  int64_t max, min;
  uint64_t now;
  int fd;

  d->nbd = nbd_create ();
  if (d->nbd == NULL)
    return refuse (why, why_size, "%s: %s", p->label,
                   connect_reason (CONNECT_NBD));
  now = clock_ms ();
  if (nbd_add_meta_context (d->nbd, LIBNBD_CONTEXT_BASE_ALLOCATION) == 0 &&
      nbd_set_uri_allow_local_file (d->nbd, params.map != NULL) == 0 &&
      /* libnbd need not clear a buffer: after a failed read nobody looks. */
      nbd_set_pread_initialize (d->nbd, false) == 0)
    failure = connect_nbd (d->nbd, uri,
                           now < deadline_ms ? deadline_ms - now : 0, true);
  if (failure == CONNECT_DESCRIPTORS)
    return refuse (why, why_size, "%s: can't connect: %s", p->label,
                   connect_reason (failure));
  if (failure)
    return refuse (
      why, why_size,
      "%s: can't connect: %s; check that it is running and reachable%s",
      p->label, connect_reason (failure),
      connect_is_tls (uri)
        ? ", and that one CA has made the certificates of both ends"
        : "");
  min = nbd_get_block_size (d->nbd, LIBNBD_SIZE_MINIMUM);
  if (min > 1)
    return refuse (
      why, why_size,
      "%s takes requests in multiples of %lld bytes only; put nbdkit's "
      "blocksize filter in front of it",
      p->label, (long long) min);
  max = nbd_get_block_size (d->nbd, LIBNBD_SIZE_MAXIMUM);
  d->io_max = max > 0 ? (uint64_t) max : IO_BYTES_SPEC;
  if (d->io_max > REQUEST_BYTES_MAX)
    d->io_max = REQUEST_BYTES_MAX;
  if (d->io_max < 4096)
    return refuse (
      why, why_size,
      "%s takes requests of at most %lld bytes; Weft needs 4096 or more",
      p->label, (long long) max);
  d->fua = nbd_can_fua (d->nbd) == 1;
  d->zero = nbd_can_zero (d->nbd) == 1;
  d->extents = nbd_can_meta_context (d->nbd, LIBNBD_CONTEXT_BASE_ALLOCATION) ==
               1;
  fd = nbd_aio_get_fd (d->nbd);
  d->fd = fd == -1 ? -1 : fcntl (fd, F_DUPFD_CLOEXEC, 3);
  if (d->fd == -1) {
    reason = strerror (errno);
    shortage = descriptors_short ();
    return refuse (why, why_size, "%s: can't connect: %s", p->label,
                   shortage ? shortage : reason);
  }
  return 0;
}

static int
check_data_door (struct peer *p, char *why, size_t why_size)
{
  struct door *d = &p->data;
  int64_t size = nbd_get_size (d->nbd);

  if (size <= 0)
    return refuse (why, why_size, "%s is empty", p->label);
  p->size = size;
  if (options.readonly)
    return 0;
  if (nbd_is_read_only (d->nbd) != 0)
    return refuse (
      why, why_size,
      "%s is read-only; serve it writable, or start nbdkit with -r", p->label);
  if (nbd_can_flush (d->nbd) != 1)
    return refuse (
      why, why_size,
      "%s can't flush, so nothing on it is ever safe; use a server "
      "that supports NBD_CMD_FLUSH",
      p->label);
  if (!d->zero)
    pthread_once (&zeroes_once, make_zeroes);
  if (!d->zero && zeroes == MAP_FAILED)
    return refuse (why, why_size,
                   "%s can't write zeroes by itself, and there is no memory to "
                   "do it for it",
                   p->label);
  return 0;
}

struct peer *
peer_open (unsigned member, const struct map_member *mm, unsigned wait_ms,
           void (*done) (struct peer_io *), char *why, size_t why_size)
{
  const uint64_t deadline_ms = clock_ms () + wait_ms;
  struct peer *p = calloc (1, sizeof *p);
  char *data = NULL, *batch = NULL;
  bool with_batch, opened = false;

  if (p == NULL ||
      asprintf (&p->label, "member %s (%s)", mm->name, mm->uri) == -1) {
    refuse (why, why_size, "out of memory");
    free (p);
    return NULL;
  }
  p->member = member;
  p->done = done;
  p->data.fd = p->batch.fd = -1;
  with_batch = mm->token_batch && !options.readonly;
  data = mm->token_data ? connect_door_uri (mm->uri, "data", mm->token_data)
                        : strdup (mm->uri);
  if (with_batch)
    batch = connect_door_uri (mm->uri, "batch", mm->token_batch);
  if (data == NULL || (with_batch && batch == NULL)) {
    refuse (why, why_size, "out of memory");
    goto out;
  }
  if (door_open (&p->data, p, data, deadline_ms, why, why_size) == -1 ||
      check_data_door (p, why, why_size) == -1)
    goto out;
  if (batch) {
    if (door_open (&p->batch, p, batch, deadline_ms, why, why_size) == -1)
      goto out;
    if (p->batch.io_max < BATCH_BYTES_MAX) {
      refuse (why, why_size,
              "%s: its batch door takes only %llu bytes at once; is it a weft "
              "member?",
              p->label, (unsigned long long) p->batch.io_max);
      goto out;
    }
  }
  opened = true;
out:
  free (data);
  free (batch);
  if (opened)
    return p;
  peer_close (p);
  return NULL;
}

static void
door_close (struct door *d)
{
  if (d->nbd && !atomic_load (&d->dead) && nbd_aio_is_ready (d->nbd) == 1)
    nbd_aio_disconnect (d->nbd, 0);
  nbd_close (d->nbd);
  if (d->fd >= 0)
    close (d->fd);
}

void
peer_close (struct peer *p)
{
  if (p == NULL)
    return;
  door_close (&p->data);
  door_close (&p->batch);
  free (p->label);
  free (p);
}

bool
peer_same (const struct peer *a, const struct peer *b)
{
  struct sockaddr_storage sa, sb;
  socklen_t na = sizeof sa, nb = sizeof sb;
  struct stat st_a, st_b;
  char *ea, *eb;
  bool same;

  memset (&sa, 0, sizeof sa);
  memset (&sb, 0, sizeof sb);
  if (getpeername (a->data.fd, (struct sockaddr *) &sa, &na) == -1 ||
      getpeername (b->data.fd, (struct sockaddr *) &sb, &nb) == -1 ||
      sa.ss_family != sb.ss_family)
    return false;
  if (sa.ss_family == AF_UNIX) {
    /* The name of an unbound socket (nbd+vsock, a socketpair) is empty. */
    const char *pa = ((struct sockaddr_un *) &sa)->sun_path;
    const char *pb = ((struct sockaddr_un *) &sb)->sun_path;

    if (stat (pa, &st_a) == -1 || stat (pb, &st_b) == -1 ||
        st_a.st_dev != st_b.st_dev || st_a.st_ino != st_b.st_ino)
      return false;
  }
  else if (na != nb || memcmp (&sa, &sb, na) != 0)
    return false;
  ea = nbd_get_export_name (a->data.nbd);
  eb = nbd_get_export_name (b->data.nbd);
  same = ea && eb && strcmp (ea, eb) == 0;
  free (ea);
  free (eb);
  return same;
}

static bool
door_gone (const struct door *d)
{
  return nbd_aio_is_dead (d->nbd) == 1 || nbd_aio_is_closed (d->nbd) == 1;
}

/* Note that a door is dead; `reason` is kept when it is the peer's first. */
static bool
door_check (struct peer *p, struct door *d, const char *reason)
{
  if (!door_gone (d))
    return false;
  atomic_store (&d->dead, true);
  /* Both doors may die at once, in two threads. */
  if (!atomic_flag_test_and_set (&p->reason_taken)) {
    snprintf (p->reason, sizeof p->reason, "its connection broke: %s", reason);
    atomic_store (&p->broken, true);
  }
  return true;
}

static void
put_part (struct peer_io *pio)
{
  if (atomic_fetch_sub (&pio->parts, 1) == 1)
    pio->peer->done (pio);
}

static void
set_error (struct peer_io *pio, int error)
{
  int none = 0;

  atomic_compare_exchange_strong (&pio->error, &none, error);
}

/* What this thread is queueing a command for, and whether a callback of it came
 * meanwhile.
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

static int
got_extents (void *opaque, const char *metacontext, uint64_t offset,
             uint32_t *entries, size_t nr_entries, int *error)
{
  struct peer_io *pio = opaque;
  struct array_io *io = pio->io;
  uint64_t left = io->length;
  size_t i;

  if (strcmp (metacontext, LIBNBD_CONTEXT_BASE_ALLOCATION) != 0 ||
      io->extents != NULL || offset != io->offset)
    return 0;
  io->extents = malloc (nr_entries / 2 * sizeof *io->extents);
  if (io->extents == NULL)
    return 0;
  for (i = 0; i < nr_entries / 2 && left > 0; i++) {
    uint64_t length = entries[2 * i];

    if (length == 0)
      break;
    if (length > left) /* the last one may go on behind the range */
      length = left;
    left -= length;
    io->extents[i] = (struct array_extent) {
      length,
      .hole = entries[2 * i + 1] & LIBNBD_STATE_HOLE,
      .zero = entries[2 * i + 1] & LIBNBD_STATE_ZERO,
    };
  }
  io->extents_count = i;
  return 0;
}

/* That extents can't be told is no reason to lose a member. */
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

static int64_t
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
  return cookie;
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
peer_send (struct peer_io *pio)
{
  struct array_io *io = pio->io;
  struct peer *p = pio->peer;
  struct door *d = io->kind == IO_BATCH ? &p->batch : &p->data;
  enum array_io_kind kind = pio->flush_after ? IO_FLUSH : io->kind;
  uint64_t max = part_max (d, kind);
  uint64_t length = kind == IO_FLUSH ? 0 : io->length;
  uint64_t done = 0, count;
  bool wake;

  atomic_store_explicit (&pio->parts, 1, memory_order_relaxed);
  atomic_store_explicit (&pio->error, 0, memory_order_relaxed);
  if (kind == IO_EXTENTS && !d->extents) {
    all_data (pio);
    put_part (pio);
    return false;
  }
  if (d->nbd == NULL || atomic_load (&d->dead)) {
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
    if (send_part (pio, d, kind, done, count) == -1) {
      set_error (pio, !door_gone (d) && nbd_get_errno () ? nbd_get_errno ()
                                                         : ENOTCONN);
      put_part (pio);
      break;
    }
    done += count;
  } while (done < length);
  put_part (pio);
  wake = nbd_aio_get_direction (d->nbd) & LIBNBD_AIO_DIRECTION_WRITE;
  door_check (p, d, "sending failed");
  return wake;
}

short
peer_door_events (const struct door *d)
{
  unsigned direction;

  if (d->nbd == NULL || atomic_load (&d->dead))
    return 0;
  direction = nbd_aio_get_direction (d->nbd);
  return (direction & LIBNBD_AIO_DIRECTION_READ ? POLLIN : 0) |
         (direction & LIBNBD_AIO_DIRECTION_WRITE ? POLLOUT : 0);
}

bool
peer_door_notify (struct peer *p, struct door *d, short revents)
{
  int r = 0;

  /* A hang-up is read as well: it shows as the end of the stream. */
  if (revents & (POLLIN | POLLHUP | POLLERR))
    r = nbd_aio_notify_read (d->nbd);
  else if (revents & POLLOUT)
    r = nbd_aio_notify_write (d->nbd);
  return door_check (
    p, d, r == -1 ? connect_reason (CONNECT_NBD) : "closed by the member");
}

void
peer_break (struct peer *p)
{
  if (p->data.fd >= 0)
    shutdown (p->data.fd, SHUT_RDWR);
  if (p->batch.fd >= 0)
    shutdown (p->batch.fd, SHUT_RDWR);
}
