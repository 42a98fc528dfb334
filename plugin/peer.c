/* peer.c: a host's NBD connections to one member.
 */

#include <config.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "blackhole.h"
#include "common/clock.h"
#include "connect.h"
#include "format/batch.h"
#include "common/refuse.h"
#include "nbdkit-options.h"
#include "peer.h"
#include "role.h"

static int
check_data_door (struct peer *p, char *why, size_t why_size)
{
  struct door *d = &p->doors[0];
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
  if (!d->zero && !door_zeroes ())
    return refuse (why, why_size,
                   "%s can't write zeroes by itself, and there is no memory to "
                   "do it for it",
                   p->label);
  return 0;
}

static bool
open_doors (struct peer *p, const char *uri, unsigned count,
            uint64_t deadline_ms, char *why, size_t why_size)
{
  while (count-- > 0)
    if (door_open (&p->doors[p->doors_count++], p->label, uri, deadline_ms, why,
                   why_size) == -1)
      return false;
  return true;
}

/* Wait for the answer to this command: 0, the errno that it has, ENOTCONN, or EINPROGRESS
 * when there is none by then.
 */
static int
completed_by (struct nbd_handle *nbd, int64_t cookie, uint64_t deadline_ms)
{
  uint64_t now;
  int r;

  if (cookie == -1)
    return ENOTCONN;
  for (;;) {
    r = nbd_aio_command_completed (nbd, cookie);
    if (r == 1)
      return 0;
    if (r == -1)
      return nbd_aio_is_ready (nbd) == 1 && nbd_get_errno () ? nbd_get_errno ()
                                                             : ENOTCONN;
    now = clock_ms ();
    if (now >= deadline_ms)
      return EINPROGRESS;
    if (nbd_poll (nbd, (int) (deadline_ms - now)) == -1)
      return ENOTCONN;
  }
}

/* Where several write, a member says which round its disk has noted.  One of an older
 * Weft does not, and would be taken for lost with the first write.
 */
static bool
check_round (struct peer *p, uint64_t deadline_ms, char *why, size_t why_size)
{
  struct nbd_handle *nbd = p->doors[p->data_count].nbd;
  uint8_t round[ROUND_BYTES];
  int64_t cookie;
  int error;

  if (!params.shared)
    return true;
  cookie = nbd_aio_pread (nbd, round, sizeof round, 0, NBD_NULL_COMPLETION, 0);
  error = completed_by (nbd, cookie, deadline_ms);
  if (error == EINVAL)
    refuse (
      why, why_size,
      "%s does not say how far its disk is, as members must where several "
      "hosts write: it is of an older Weft; upgrade it, or attach the "
      "array alone",
      p->label);
  else if (error == EINPROGRESS)
    refuse (why, why_size, "%s does not answer", p->label);
  else if (error)
    refuse (why, why_size, "%s: %s", p->label, strerror (error));
  return error == 0;
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
  with_batch = mm->token_batch && !options.readonly;
  data = mm->token_data ? connect_door_uri (mm->uri, "data", mm->token_data)
                        : strdup (mm->uri);
  if (with_batch)
    batch = connect_door_uri (mm->uri, "batch", mm->token_batch);
  if (data == NULL || (with_batch && batch == NULL)) {
    refuse (why, why_size, "out of memory");
    goto out;
  }
  /* The serving process knows a client by its newest connection. */
  p->data_count = mm->token_data && !params.service ? PEER_DATA_DOORS : 1;
  opened = open_doors (p, data, p->data_count, deadline_ms, why, why_size) &&
           check_data_door (p, why, why_size) == 0 &&
           (!batch || open_doors (p, batch, PEER_BATCH_DOORS, deadline_ms, why,
                                  why_size));
  if (opened && batch && p->doors[p->data_count].io_max < BATCH_BYTES_MAX) {
    refuse (why, why_size,
            "%s: its batch door takes only %llu bytes at once; is it a weft "
            "member?",
            p->label, (unsigned long long) p->doors[p->data_count].io_max);
    opened = false;
  }
  if (opened && batch)
    opened = check_round (p, deadline_ms, why, why_size);
out:
  free (data);
  free (batch);
  if (opened)
    return p;
  peer_close (p);
  return NULL;
}

int
peer_flush (struct peer *p, unsigned wait_ms)
{
  struct nbd_handle *nbd = p->doors[0].nbd;
  int error;

  if (p->flushing == 0)
    p->flushing = nbd_aio_flush (nbd, NBD_NULL_COMPLETION, 0);
  error = completed_by (nbd, p->flushing, clock_ms () + wait_ms);
  if (error == 0)
    p->flushing = 0;
  return error;
}

void
peer_close (struct peer *p)
{
  if (p == NULL)
    return;
  for (unsigned d = 0; d < p->doors_count; d++)
    door_close (&p->doors[d]);
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
  if (getpeername (a->doors[0].fd, (struct sockaddr *) &sa, &na) == -1 ||
      getpeername (b->doors[0].fd, (struct sockaddr *) &sb, &nb) == -1 ||
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
  ea = nbd_get_export_name (a->doors[0].nbd);
  eb = nbd_get_export_name (b->doors[0].nbd);
  same = ea && eb && strcmp (ea, eb) == 0;
  free (ea);
  free (eb);
  return same;
}

bool
peer_takes_batches (const struct peer *p)
{
  return p->doors_count > p->data_count;
}

/* A batch without records asks a silent member for a sign of life: requests of
 * other doors must not keep the member from that one.  The same holds for its
 * report on its disk.
 */
static struct door *
pick_batch (struct peer *p, const struct array_io *io)
{
  bool sign = io->kind == IO_PULSE ||
              (io->kind == IO_BATCH && io->length == batch_bytes (NULL, 0));

  return &p->doors[p->data_count + (sign ? BATCH_SIGNS : BATCH_REST)];
}

/* Where the member syncs its disk, what comes behind waits for all of that. */
#define SYNC_WAIT (UINT64_C (1) << 48)

/* The one with the least to wait for, as the last answers tell: where a door has not
 * answered while others have, what it does takes long.  Of equals the first: a lone
 * request has always the same.
 */
static struct door *
pick_data (struct peer *p)
{
  unsigned answers = atomic_load_explicit (&p->answers, memory_order_relaxed);
  struct door *best = &p->doors[0];
  uint64_t least = UINT64_MAX;

  for (unsigned i = 0; i < p->data_count && least > 0; i++) {
    struct door *d = &p->doors[i];
    uint64_t busy = atomic_load_explicit (&d->busy, memory_order_relaxed);
    uint64_t syncs = atomic_load_explicit (&d->syncs, memory_order_relaxed);
    unsigned since = answers -
                     atomic_load_explicit (&d->answered, memory_order_relaxed);
    uint64_t wait;

    if (since > UINT_MAX / 2) /* it has answered just now */
      since = 0;
    wait = syncs * SYNC_WAIT + busy * (1 + (uint64_t) since);

    if (wait < least) {
      least = wait;
      best = d;
    }
  }
  return best;
}

bool
peer_send (struct peer_io *pio)
{
  struct peer *p = pio->peer;
  bool batch = pio->io->kind == IO_BATCH || pio->io->kind == IO_ROUND ||
               pio->io->kind == IO_PULSE;

  return door_send (batch ? pick_batch (p, pio->io) : pick_data (p), pio);
}

bool
peer_swallowed (struct peer *p)
{
  bool any = false;

  for (unsigned d = 0; d < p->doors_count && !any; d++)
    any = p->doors[d].fd >= 0 && !atomic_load (&p->doors[d].dead) &&
          blackhole_swallows (p->doors[d].fd);
  return any && door_break_peer (
                  p, "it does not acknowledge packets; if it is alive, "
                     "check whether the network drops large packets (MTU)");
}

void
peer_break (struct peer *p)
{
  for (unsigned d = 0; d < p->doors_count; d++)
    if (p->doors[d].fd >= 0)
      shutdown (p->doors[d].fd, SHUT_RDWR);
}
