/* wire.c: NBD commands and their replies on a plain socket.
 *
 * Sending: commands wait in one queue.  A thread that pushes sends all of it,
 * commands that others queue meanwhile as well; so several threads' commands
 * leave in one call, and no thread waits for the socket.
 *
 * Receiving: one call takes in all bytes that have arrived, into a buffer, from
 * where small payloads are copied to their places.  Only the beginning of a
 * large payload comes that way: the rest is received in place, and later bytes
 * into the buffer again.
 *
 * A command ends when it is sent and answered: a reply may be there before the
 * thread that sent the command has noted so, and a server that answers too
 * early must not have the buffer of a write freed while it is being sent.
 *
 * If a server violates the protocol, its connection is closed.  Unanswered
 * commands come back only with wire_receive, because only wire_receive writes
 * to the commands' buffers; other functions that find the violation shut the
 * socket down.
 */

#include <config.h>

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "wire.h"

#define REQUEST_MAGIC 0x25609513
#define SIMPLE_MAGIC 0x67446698
#define STRUCTURED_MAGIC 0x668e33ef

#define REQUEST_BYTES 28
#define SIMPLE_BYTES 16
#define STRUCTURED_BYTES 20

enum chunk {
  CHUNK_NONE = 0,
  CHUNK_DATA = 1,
  CHUNK_HOLE = 2,
  CHUNK_STATUS = 5,
  CHUNK_ERROR = 0x8000, /* and all types with this bit */
};
#define CHUNK_DONE 1 /* a flag: the last of its reply */

#define DATA_HEAD_BYTES (STRUCTURED_BYTES + 8)
#define HOLE_BYTES (STRUCTURED_BYTES + 12)
/* The text of an error has up to 4096. */
#define ERROR_BYTES_MAX 8192
#define STATUS_BYTES_MAX (8 << 20)

#define RECEIVE_BYTES (32 * 1024)
/* In a row, before others have their turn. */
#define RECEIVES_MAX 16
/* Parts of one send: a command has up to two. */
#define PARTS_MAX 64

static const char nonsense[] = "its answer makes no sense";

struct slot {
  struct wire_command c;
  struct slot *next;
  unsigned index;
  bool used;
  unsigned open;   /* 2: not sent, not answered */
  uint64_t cookie; /* index in the lower half */
  uint8_t head[REQUEST_BYTES];
  uint32_t filled; /* of a READ's buffer */
  int error;
};

struct wire {
  int fd;
  bool structured;
  struct wire_calls calls;

  pthread_mutex_t lock; /* held across no call of the kernel, and no callback */
  /* Under the lock: */
  struct slot **slots, *spare;
  unsigned slots_count;
  uint64_t cookies;
  struct slot *queue, **queue_tail; /* not sent */
  size_t head_sent;                 /* bytes of the first of them that are */
  bool sending;                     /* a thread is */
  bool cut;                         /* nothing can be sent any more */
  bool over;                        /* and nothing will come */
  atomic_bool full;

  /* The receiving thread's own: */
  const char *why; /* nothing is received any more */
  uint8_t head[HOLE_BYTES];
  size_t head_got, head_wanted;
  uint8_t *place; /* where `left` bytes go, before the next header */
  size_t left;
  struct slot *slot; /* whose chunk it is */
  bool last;         /* of its reply */
  enum chunk chunk;
  uint8_t *body; /* of a chunk that is looked at as a whole */
  size_t body_bytes;
};

static uint16_t
get16 (const uint8_t *p)
{
  uint16_t v;

  memcpy (&v, p, sizeof v);
  return be16toh (v);
}

static uint32_t
get32 (const uint8_t *p)
{
  uint32_t v;

  memcpy (&v, p, sizeof v);
  return be32toh (v);
}

static uint64_t
get64 (const uint8_t *p)
{
  uint64_t v;

  memcpy (&v, p, sizeof v);
  return be64toh (v);
}

struct wire *
wire_new (int fd, bool structured, const struct wire_calls *calls)
{
  struct wire *w = calloc (1, sizeof *w);

  if (w == NULL)
    return NULL;
  w->fd = fd;
  w->structured = structured;
  w->calls = *calls;
  pthread_mutex_init (&w->lock, NULL);
  w->queue_tail = &w->queue;
  w->head_wanted = SIMPLE_BYTES;
  return w;
}

void
wire_free (struct wire *w)
{
  if (w == NULL)
    return;
  for (unsigned i = 0; i < w->slots_count; i++)
    free (w->slots[i]);
  free (w->slots);
  free (w->body);
  pthread_mutex_destroy (&w->lock);
  free (w);
}

/*----- Slots: with the lock -----*/

static struct slot *
slot_get (struct wire *w)
{
  struct slot *s = w->spare, **slots;

  if (s == NULL) {
    slots = realloc (w->slots, (w->slots_count + 1) * sizeof *slots);
    if (slots == NULL)
      return NULL;
    w->slots = slots;
    s = calloc (1, sizeof *s);
    if (s == NULL)
      return NULL;
    s->index = w->slots_count;
    slots[w->slots_count++] = s;
    w->spare = s;
  }
  w->spare = s->next;
  s->used = true;
  return s;
}

static void
slot_put (struct wire *w, struct slot *s)
{
  s->used = false;
  s->next = w->spare;
  w->spare = s;
}

/* Returns whether both have happened now: then it comes to its end. */
static bool
slot_close (struct slot *s, struct slot **ended)
{
  if (--s->open > 0)
    return false;
  s->next = *ended;
  *ended = s;
  return true;
}

/* Without the lock: give commands back. */
static void
end_all (struct wire *w, struct slot *ended)
{
  struct slot *next;

  for (struct slot *s = ended; s; s = s->next)
    w->calls.done (s->c.opaque, s->error);
  if (ended == NULL)
    return;
  pthread_mutex_lock (&w->lock);
  for (; ended; ended = next) {
    next = ended->next;
    slot_put (w, ended);
  }
  pthread_mutex_unlock (&w->lock);
}

/*----- Sending -----*/

static void
fill_head (struct slot *s)
{
  const struct wire_command *c = &s->c;
  uint32_t magic = htobe32 (REQUEST_MAGIC), length = htobe32 (c->length);
  uint16_t flags = htobe16 (c->flags), type = htobe16 (c->type);
  uint64_t offset = htobe64 (c->offset), cookie = htobe64 (s->cookie);

  memcpy (s->head, &magic, 4);
  memcpy (s->head + 4, &flags, 2);
  memcpy (s->head + 6, &type, 2);
  memcpy (s->head + 8, &cookie, 8);
  memcpy (s->head + 16, &offset, 8);
  memcpy (s->head + 24, &length, 4);
}

int
wire_queue (struct wire *w, const struct wire_command *c)
{
  struct slot *s;
  int error = 0;

  pthread_mutex_lock (&w->lock);
  if (w->over)
    error = ENOTCONN;
  else if ((s = slot_get (w)) == NULL)
    error = ENOMEM;
  else {
    s->c = *c;
    s->cookie = ++w->cookies << 32 | s->index;
    s->open = 2;
    s->filled = 0;
    s->error = 0;
    s->next = NULL;
    fill_head (s);
    *w->queue_tail = s;
    w->queue_tail = &s->next;
  }
  pthread_mutex_unlock (&w->lock);
  return error;
}

static size_t
payload_bytes (const struct slot *s)
{
  return s->c.type == WIRE_WRITE ? s->c.length : 0;
}

/* With the lock: the parts of the next send. */
static size_t
gather (const struct wire *w, struct iovec parts[PARTS_MAX])
{
  size_t n = 0, skip = w->head_sent;

  for (struct slot *s = w->queue; s && n + 2 <= PARTS_MAX; s = s->next) {
    parts[n++] = (struct iovec) { s->head, REQUEST_BYTES };
    if (payload_bytes (s) > 0)
      parts[n++] = (struct iovec) { s->c.buf, payload_bytes (s) };
  }
  for (size_t i = 0; skip > 0; i++) {
    size_t some = skip < parts[i].iov_len ? skip : parts[i].iov_len;

    parts[i].iov_base = (char *) parts[i].iov_base + some;
    parts[i].iov_len -= some;
    skip -= some;
  }
  return n;
}

/* With the lock: so many bytes more have been sent. */
static void
note_sent (struct wire *w, size_t bytes, struct slot **ended)
{
  struct slot *s;

  bytes += w->head_sent;
  while ((s = w->queue) != NULL && bytes >= REQUEST_BYTES + payload_bytes (s)) {
    bytes -= REQUEST_BYTES + payload_bytes (s);
    w->queue = s->next;
    if (w->queue == NULL)
      w->queue_tail = &w->queue;
    slot_close (s, ended);
  }
  w->head_sent = bytes;
}

bool
wire_push (struct wire *w)
{
  struct iovec parts[PARTS_MAX];
  struct msghdr message = { .msg_iov = parts };
  struct slot *ended = NULL;
  bool full = false;
  ssize_t r;
  int error;

  pthread_mutex_lock (&w->lock);
  if (w->sending || w->cut) {
    pthread_mutex_unlock (&w->lock);
    return false;
  }
  w->sending = true;
  while (w->queue && !w->cut && !full) {
    message.msg_iovlen = gather (w, parts);
    pthread_mutex_unlock (&w->lock);
    r = sendmsg (w->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    error = errno;
    pthread_mutex_lock (&w->lock);
    if (r >= 0)
      note_sent (w, r, &ended);
    else if (error == EAGAIN || error == EWOULDBLOCK)
      full = true;
    else if (error != EINTR) {
      w->cut = true;
      shutdown (w->fd, SHUT_RDWR);
    }
  }
  w->sending = false;
  atomic_store (&w->full, full);
  pthread_mutex_unlock (&w->lock);
  end_all (w, ended);
  return full;
}

bool
wire_full (const struct wire *w)
{
  return atomic_load (&w->full);
}

/*----- Receiving -----*/

/* NBD's errors have numbers of their own. */
static int
error_of (uint32_t error)
{
  switch (error) {
  case 0:
    return 0;
  case 1:
    return EPERM;
  case 5:
    return EIO;
  case 12:
    return ENOMEM;
  case 28:
    return ENOSPC;
  case 75:
    return EOVERFLOW;
  case 95:
    return ENOTSUP;
  case 108:
    return ESHUTDOWN;
  default:
    return EINVAL;
  }
}

static struct slot *
find (struct wire *w, uint64_t cookie)
{
  struct slot *s = NULL;
  uint32_t index = cookie;

  pthread_mutex_lock (&w->lock);
  if (index < w->slots_count && w->slots[index]->used &&
      w->slots[index]->cookie == cookie)
    s = w->slots[index];
  pthread_mutex_unlock (&w->lock);
  return s;
}

/* A reply has come to its end.  False: it may not have. */
static bool
answered (struct wire *w, struct slot *s, struct slot **ended)
{
  if (s->c.type == WIRE_READ && s->error == 0 && s->filled != s->c.length)
    return false;
  pthread_mutex_lock (&w->lock);
  s->cookie = UINT64_MAX; /* of no slot, while it is still being sent */
  slot_close (s, ended);
  pthread_mutex_unlock (&w->lock);
  return true;
}

static void
next_head (struct wire *w)
{
  w->head_got = 0;
  w->head_wanted = SIMPLE_BYTES;
}

/* `bytes` of the read's data come next, or are zeroes; from `offset` on. */
static bool
fill (struct wire *w, uint64_t offset, uint64_t bytes, bool zeroes)
{
  struct slot *s = w->slot;
  uint64_t at = offset - s->c.offset;
  uint8_t *to;

  if (s->c.type != WIRE_READ || offset < s->c.offset || at > s->c.length ||
      bytes == 0 || bytes > s->c.length - at || bytes > s->c.length - s->filled)
    return false;
  to = (uint8_t *) s->c.buf + at;
  s->filled += bytes;
  if (zeroes)
    memset (to, 0, bytes);
  else {
    w->place = to;
    w->left = bytes;
  }
  return true;
}

static bool
take_simple (struct wire *w, struct slot **ended)
{
  struct slot *s = w->slot = find (w, get64 (w->head + 8));
  int error = error_of (get32 (w->head + 4));

  if (s == NULL)
    return false;
  s->error = error;
  w->last = true;
  w->chunk = CHUNK_DATA;
  if (error == 0 && s->c.type == WIRE_READ)
    return !w->structured && fill (w, s->c.offset, s->c.length, false);
  if (error == 0 && s->c.type == WIRE_STATUS)
    return false;
  return answered (w, s, ended);
}

static void
set_error (struct slot *s, int error)
{
  if (s->error == 0)
    s->error = error;
}

/* All parts of a chunk except its data are there. */
static bool
take_body (struct wire *w)
{
  const uint8_t *b = w->body;
  size_t pairs = (w->body_bytes - 4) / 8;
  uint32_t *host = (uint32_t *) (w->body + 4);

  if (w->chunk & CHUNK_ERROR) {
    set_error (w->slot, error_of (get32 (b)));
    return w->slot->error != 0 && get16 (b + 4) <= w->body_bytes - 6;
  }
  /* One context was asked for, so it is that one. */
  for (size_t i = 0; i < 2 * pairs; i++)
    host[i] = be32toh (host[i]);
  w->calls.status (w->slot->c.opaque, host, pairs);
  return true;
}

/* The chunk that began is complete. */
static bool
chunk_end (struct wire *w, struct slot **ended)
{
  bool sane = true;

  if (w->body) {
    sane = take_body (w);
    free (w->body);
    w->body = NULL;
  }
  return sane && (!w->last || answered (w, w->slot, ended));
}

/* A structured reply's chunk: the header is there, or part of it. */
static bool
take_chunk (struct wire *w, struct slot **ended)
{
  const uint8_t *h = w->head;
  uint32_t length;

  if (w->head_wanted < STRUCTURED_BYTES) {
    w->head_wanted = STRUCTURED_BYTES;
    return true;
  }
  length = get32 (h + 16);
  if (w->head_wanted == STRUCTURED_BYTES) {
    w->slot = find (w, get64 (h + 8));
    if (w->slot == NULL)
      return false;
    w->last = get16 (h + 4) & CHUNK_DONE;
    w->chunk = get16 (h + 6);
    if (w->chunk & CHUNK_ERROR || w->chunk == CHUNK_STATUS) {
      if (w->chunk & CHUNK_ERROR
            ? length < 6 || length > ERROR_BYTES_MAX
            : w->slot->c.type != WIRE_STATUS || length < 12 ||
                length % 8 != 4 || length > STATUS_BYTES_MAX)
        return false;
      w->body = malloc (length);
      if (w->body == NULL)
        return false;
      w->body_bytes = w->left = length;
      w->place = w->body;
    }
    else if (w->chunk == CHUNK_DATA && length > 8)
      w->head_wanted = DATA_HEAD_BYTES;
    else if (w->chunk == CHUNK_HOLE && length == 12)
      w->head_wanted = HOLE_BYTES;
    else
      return w->chunk == CHUNK_NONE && length == 0 && chunk_end (w, ended);
    return true;
  }
  if (w->chunk == CHUNK_DATA)
    return fill (w, get64 (h + 20), length - 8, false);
  return fill (w, get64 (h + 20), get32 (h + 28), true) && chunk_end (w, ended);
}

/* Take in bytes that were received.  False: they make no sense. */
static bool
take (struct wire *w, const uint8_t *bytes, size_t n, struct slot **ended)
{
  size_t some;

  while (n > 0) {
    if (w->left > 0) {
      some = n < w->left ? n : w->left;
      if (bytes != w->place)
        memcpy (w->place, bytes, some);
      w->place += some;
      w->left -= some;
      if (w->left == 0) {
        next_head (w);
        if (!chunk_end (w, ended))
          return false;
      }
    }
    else {
      size_t wanted = w->head_wanted;

      some = n < wanted - w->head_got ? n : wanted - w->head_got;
      memcpy (w->head + w->head_got, bytes, some);
      w->head_got += some;
      if (w->head_got == wanted) {
        uint32_t magic = get32 (w->head);

        if (magic == SIMPLE_MAGIC ? !take_simple (w, ended)
            : magic == STRUCTURED_MAGIC && w->structured
              ? !take_chunk (w, ended)
              : true)
          return false;
        if (w->left == 0 && w->head_wanted == wanted)
          next_head (w);
      }
    }
    bytes += some;
    n -= some;
  }
  return true;
}

/* Nothing comes any more: give everything back.  False: a thread is sending; it will
 * soon find out.
 */
static bool
give_back (struct wire *w)
{
  struct slot *all = NULL;

  shutdown (w->fd, SHUT_RDWR);
  pthread_mutex_lock (&w->lock);
  w->cut = true;
  if (w->sending) {
    pthread_mutex_unlock (&w->lock);
    return false;
  }
  w->over = true;
  for (unsigned i = 0; i < w->slots_count; i++) {
    struct slot *s = w->slots[i];

    if (!s->used || s->open == 0)
      continue;
    /* A command that was answered, and not sent, has failed as well. */
    s->error = ENOTCONN;
    s->open = 1;
    slot_close (s, &all);
  }
  w->queue = NULL;
  w->queue_tail = &w->queue;
  pthread_mutex_unlock (&w->lock);
  end_all (w, all);
  return true;
}

const char *
wire_receive (struct wire *w)
{
  uint8_t buffer[RECEIVE_BYTES];

  for (unsigned i = 0; w->why == NULL && i < RECEIVES_MAX; i++) {
    struct iovec parts[] = { { w->place, w->left }, { buffer, sizeof buffer } };
    size_t all = w->left + sizeof buffer, direct = w->left;
    struct msghdr message = { .msg_iov = direct ? parts : parts + 1,
                              .msg_iovlen = direct ? 2 : 1 };
    struct slot *ended = NULL;
    bool sane;
    ssize_t r = recvmsg (w->fd, &message, MSG_DONTWAIT);

    if (r == -1 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
      return NULL;
    if (r <= 0) {
      w->why = r == 0 ? "closed by the member" : strerror (errno);
      break;
    }
    if ((size_t) r < direct)
      direct = r;
    sane = take (w, w->place, direct, &ended) &&
           take (w, buffer, r - direct, &ended);
    end_all (w, ended);
    if (!sane)
      w->why = nonsense;
    else if ((size_t) r < all)
      return NULL;
  }
  return w->why == NULL || !give_back (w) ? NULL : w->why;
}
