/* fetch.c: one thread's NBD connections to the members that it copies from.
 *
 * A handle is used by its thread alone, so its completions are asked for and
 * need no callback.  nbd_close is what ends a command that gets no answer: only
 * then will nothing be written to its buffer any more.
 */

#include <config.h>

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "connect.h"
#include "fetch.h"

#define CONNECT_MS 5000
/* How soon a cancelled run is noticed. */
#define SLICE_MS 20
#define FLYING_MAX 64

/* ---- Connections ---- */

int
fetch_open (struct fetch *f, unsigned member, const char *uri,
            const char *token, struct copy_fault *fault)
{
  char *door = connect_door_uri (uri, f->door, token);
  struct nbd_handle *nbd = door ? nbd_create () : NULL;
  enum connect_failure failure = CONNECT_NBD;
  char said[CONNECT_REASON_BYTES];

  fetch_close (f, member);
  if (nbd == NULL)
    copy_blame (fault, member, "out of memory for a connection");
  else if (
    nbd_add_meta_context (nbd, LIBNBD_CONTEXT_BASE_ALLOCATION) == -1 ||
    /* libnbd need not clear a buffer: after a failed read nobody looks. */
    nbd_set_pread_initialize (nbd, false) == -1 ||
    (failure = connect_nbd (nbd, door, CONNECT_MS)) != 0)
    copy_blame (fault, member, "its %s door does not open: %s", f->door,
                connect_reason (failure, said));
  free (door);
  if (failure) {
    nbd_close (nbd);
    return -1;
  }
  f->link[member].nbd = nbd;
  return 0;
}

void
fetch_close (struct fetch *f, unsigned member)
{
  struct nbd_handle *nbd = f->link[member].nbd;

  if (nbd && f->link[member].flying == 0 && nbd_aio_is_ready (nbd) == 1)
    nbd_aio_disconnect (nbd, 0);
  nbd_close (nbd);
  f->link[member].nbd = NULL;
  f->link[member].flying = 0;
}

void
fetch_close_all (struct fetch *f)
{
  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++)
    fetch_close (f, m);
}

uint64_t
fetch_size (const struct fetch *f, unsigned member)
{
  int64_t size = nbd_get_size (f->link[member].nbd);

  return size > 0 ? size : 0;
}

/* ---- Commands ---- */

static int
got_spans (void *opaque, const char *context, uint64_t offset,
           uint32_t *entries, size_t entries_count, int *error)
{
  struct copy_request *r = opaque;

  if (strcmp (context, LIBNBD_CONTEXT_BASE_ALLOCATION) != 0 ||
      offset != r->offset || r->map->count > 0)
    return 0;
  for (size_t i = 0; i + 1 < entries_count; i += 2) {
    offset += entries[i];
    if (!copy_map_add (r->map, offset, entries[i + 1] & LIBNBD_STATE_HOLE,
                       entries[i + 1] & LIBNBD_STATE_ZERO))
      return 0;
  }
  return 0;
}

static int
send_command (struct fetch *f, struct copy_request *c, struct copy_fault *fault)
{
  struct nbd_handle *nbd = f->link[c->member].nbd;
  char said[CONNECT_REASON_BYTES];

  assert (nbd);
  switch (c->kind) {
  case COPY_READ:
    c->cookie = nbd_aio_pread (nbd, c->buf, c->length, c->offset,
                               NBD_NULL_COMPLETION, 0);
    break;
  case COPY_STATUS:
    c->cookie = nbd_aio_block_status (
      nbd, c->length, c->offset,
      (nbd_extent_callback) { .callback = got_spans, .user_data = c },
      NBD_NULL_COMPLETION, 0);
    break;
  case COPY_FLUSH:
    c->cookie = nbd_aio_flush (nbd, NBD_NULL_COMPLETION, 0);
    break;
  }
  if (c->cookie == -1) {
    c->cookie = 0;
    copy_blame (fault, c->member, "%s", connect_reason (CONNECT_NBD, said));
    return -1;
  }
  if (f->link[c->member].flying++ == 0)
    f->link[c->member].heard_ms = clock_ms ();
  return 0;
}

/* Take an answer.  Returns -1 when the member has failed. */
static int
take (struct fetch *f, struct copy_request *c, struct copy_fault *fault)
{
  struct nbd_handle *nbd = f->link[c->member].nbd;
  int r = nbd_aio_command_completed (nbd, c->cookie);

  if (r == 0)
    return 0;
  c->error = r == -1 ? nbd_get_errno () : 0;
  if (r == -1 && c->error == 0)
    c->error = EIO;
  c->cookie = 0;
  f->link[c->member].flying--;
  f->link[c->member].heard_ms = clock_ms ();
  if (!copy_refused (c))
    return 0;
  copy_blame (fault, c->member, "it refuses: %s", strerror (c->error));
  return -1;
}

/* Move everything on, for SLICE_MS at most. */
static int
move (struct fetch *f, struct copy_fault *fault)
{
  struct pollfd fds[ARRAY_MEMBERS_MAX];
  unsigned member[ARRAY_MEMBERS_MAX], n = 0;
  char said[CONNECT_REASON_BYTES];

  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++) {
    unsigned direction;

    if (f->link[m].flying == 0)
      continue;
    direction = nbd_aio_get_direction (f->link[m].nbd);
    fds[n].fd = nbd_aio_get_fd (f->link[m].nbd);
    fds[n].events = (direction & LIBNBD_AIO_DIRECTION_READ ? POLLIN : 0) |
                    (direction & LIBNBD_AIO_DIRECTION_WRITE ? POLLOUT : 0);
    fds[n].revents = 0;
    member[n++] = m;
  }
  if (poll (fds, n, SLICE_MS) == -1 && errno != EINTR) {
    copy_blame (fault, member[0], "poll: %s", strerror (errno));
    return -1;
  }
  for (unsigned i = 0; i < n; i++) {
    struct nbd_handle *nbd = f->link[member[i]].nbd;
    int r = 0;

    /* A hang-up is read as well: it shows as the end of the stream. */
    if ((fds[i].events & POLLIN) &&
        (fds[i].revents & (POLLIN | POLLHUP | POLLERR)))
      r = nbd_aio_notify_read (nbd);
    else if (fds[i].revents)
      r = nbd_aio_notify_write (nbd);
    if (r == -1 || nbd_aio_is_dead (nbd) == 1 || nbd_aio_is_closed (nbd) == 1) {
      copy_blame (fault, member[i], "its connection broke: %s",
                  r == -1 ? connect_reason (CONNECT_NBD, said)
                          : "closed by the member");
      return -1;
    }
    if (fds[i].revents == 0 &&
        clock_ms () - f->link[member[i]].heard_ms >= f->silent_ms) {
      copy_blame (fault, member[i], "no answer for %u seconds",
                  f->silent_ms / 1000);
      return -1;
    }
  }
  return 0;
}

enum copy_result
fetch_run (struct fetch *f, struct copy_request *list,
           bool (*cancelled) (void *), void *opaque, struct copy_fault *fault)
{
  /* From `first` to `unsent` some are under way, `flying` of them. */
  struct copy_request *first = list, *unsent = list;
  unsigned flying = 0;
  int r = 0;

  for (struct copy_request *c = list; c; c = c->next) {
    c->error = 0;
    c->cookie = 0;
  }
  while (r == 0 && (flying > 0 || unsent)) {
    for (; r == 0 && unsent && flying < FLYING_MAX; unsent = unsent->next)
      /* A server that can't tell a status is not asked: all is data then. */
      if (unsent->kind != COPY_STATUS ||
          nbd_can_meta_context (f->link[unsent->member].nbd,
                                LIBNBD_CONTEXT_BASE_ALLOCATION) == 1) {
        r = send_command (f, unsent, fault);
        flying += r == 0;
      }
    if (r == 0 && flying > 0)
      r = move (f, fault);
    for (struct copy_request *c = first; r == 0 && c != unsent; c = c->next)
      if (c->cookie) {
        r = take (f, c, fault);
        flying -= c->cookie == 0;
      }
    while (first != unsent && first->cookie == 0)
      first = first->next;
    if (r == 0 && cancelled (opaque))
      r = 1;
  }
  if (r == -1)
    fetch_close (f, fault->member);
  for (unsigned m = 0; r != 0 && m < ARRAY_MEMBERS_MAX; m++)
    if (f->link[m].flying > 0)
      fetch_close (f, m);
  return r == 0 ? COPY_DONE : r == 1 ? COPY_CANCELLED : COPY_FAULT;
}
