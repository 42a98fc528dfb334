/* hop.c: an nbdkit plugin that has another NBD server do each request, and nothing else.
 *
 *   nbdkit .../hop.so uri=URI [wait=own|lead|read]
 *
 * No engine, no checks, one copy, simple replies: what a request costs here is the
 * least that any array behind nbdkit costs which asks one member by a socket.  Who
 * waits for the reply, and how:
 *
 *   own    each thread of nbdkit has a connection of its own, and sleeps in the receive
 *          of its reply: a send and a receive, in place, and no thread wakes another;
 *   lead   one connection; one of those who wait receives for all, the others sleep
 *          until they have their reply, or the lead (as plugin/engine.c does it);
 *   read   one connection, and a thread that does nothing but receive.
 */

#include <config.h>

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <libnbd.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

#define REQUEST_MAGIC 0x25609513
#define REPLY_MAGIC 0x67446698
#define REPLY_BYTES 16
#define RECEIVE_BYTES (64 * 1024)

enum { READ = 0, WRITE = 1 };

/* Bits of a request's word. */
enum { DONE = 1, LEAD = 2, SLEEPING = 4 };

struct request {
  char *to; /* of a read */
  uint32_t count;
  int error;
  atomic_uint word;
  struct request *older;
};

struct connection {
  struct nbd_handle *nbd;
  int fd;
  struct connection *next;
};

static const char *uri;
static enum { OWN, LEADER, READER } arrangement;
static int64_t size;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Under the lock: */
static struct connection *idle;
static struct request *newest; /* of those that wait and don't lead */
static bool led;

/* What all share, but for OWN. */
static struct connection *shared;
static pthread_mutex_t sending = PTHREAD_MUTEX_INITIALIZER;

static struct connection *
connection_new (void)
{
  struct connection *c = calloc (1, sizeof *c);

  if (c == NULL || (c->nbd = nbd_create ()) == NULL ||
      nbd_set_request_structured_replies (c->nbd, false) == -1 ||
      nbd_connect_uri (c->nbd, uri) == -1) {
    nbdkit_error ("hop: %s: %s", uri, nbd_get_error ());
    return NULL;
  }
  c->fd = nbd_aio_get_fd (c->nbd);
  /* libnbd's socket is non-blocking; here whoever receives sleeps in the receive. */
  if (fcntl (c->fd, F_SETFL, 0) == -1) {
    nbdkit_error ("hop: fcntl: %m");
    return NULL;
  }
  return c;
}

/* All of it.  Returns 0 or an errno. */
static int
send_all (int fd, struct iovec *parts, size_t n)
{
  struct msghdr message = { .msg_iov = parts, .msg_iovlen = n };

  while (message.msg_iovlen > 0) {
    ssize_t r = sendmsg (fd, &message, MSG_NOSIGNAL);

    if (r == -1)
      return errno;
    for (; r > 0 && (size_t) r >= message.msg_iov->iov_len; message.msg_iov++) {
      r -= message.msg_iov->iov_len;
      message.msg_iovlen--;
    }
    if (r > 0) {
      message.msg_iov->iov_base = (char *) message.msg_iov->iov_base + r;
      message.msg_iov->iov_len -= r;
    }
  }
  return 0;
}

static int
send_request (int fd, unsigned type, uint64_t cookie, uint64_t offset,
              const void *from, uint32_t count)
{
  struct {
    uint32_t magic;
    uint16_t flags, type;
    uint64_t cookie, offset;
    uint32_t count;
  } __attribute__ ((packed)) head = {
    htobe32 (REQUEST_MAGIC), 0,
    htobe16 (type),          htobe64 (cookie),
    htobe64 (offset),        htobe32 (count),
  };
  struct iovec parts[] = { { &head, sizeof head }, { (void *) from, count } };

  return send_all (fd, parts, type == WRITE ? 2 : 1);
}

/* What a reply's header says: false when it is none. */
static bool
take_head (const char *head, int *error, uint64_t *cookie)
{
  uint32_t magic, be_error;

  memcpy (&magic, head, 4);
  memcpy (&be_error, head + 4, 4);
  memcpy (cookie, head + 8, 8);
  *cookie = be64toh (*cookie);
  *error = be32toh (be_error) ? EIO : 0;
  return magic == htobe32 (REPLY_MAGIC);
}

/*----- A connection of its own -----*/

static struct connection *
connection_take (void)
{
  struct connection *c;

  pthread_mutex_lock (&lock);
  c = idle;
  if (c)
    idle = c->next;
  pthread_mutex_unlock (&lock);
  return c ? c : connection_new ();
}

static void
connection_give (struct connection *c)
{
  pthread_mutex_lock (&lock);
  c->next = idle;
  idle = c;
  pthread_mutex_unlock (&lock);
}

static int
receive_own (int fd, char *to, uint32_t count)
{
  char head[REPLY_BYTES];
  size_t got = 0;
  uint64_t cookie;
  int error = 0;

  while (got < REPLY_BYTES + count) {
    struct iovec parts[] = { { head + got, REPLY_BYTES - got }, { to, count } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
    ssize_t r;

    if (got >= REPLY_BYTES) {
      parts[1].iov_base = to + got - REPLY_BYTES;
      parts[1].iov_len = count - (got - REPLY_BYTES);
      message = (struct msghdr) { .msg_iov = parts + 1, .msg_iovlen = 1 };
    }
    r = recvmsg (fd, &message, got < REPLY_BYTES ? 0 : MSG_WAITALL);
    if (r <= 0)
      return EIO;
    got += r;
    if (got >= REPLY_BYTES && got - r < REPLY_BYTES &&
        (!take_head (head, &error, &cookie) || error))
      return EIO;
  }
  return 0;
}

static int
run_own (unsigned type, void *to, const void *from, uint32_t count,
         uint64_t offset)
{
  struct connection *c = connection_take ();
  int error;

  if (c == NULL)
    return EIO;
  error = send_request (c->fd, type, 0, offset, from, count);
  if (error == 0)
    error = receive_own (c->fd, to, type == READ ? count : 0);
  connection_give (c);
  return error;
}

/*----- One connection for all -----*/

static void
set (struct request *r, unsigned bit)
{
  if (atomic_fetch_or (&r->word, bit) & SLEEPING)
    syscall (SYS_futex, &r->word, FUTEX_WAKE_PRIVATE, 1);
}

/* Who receives takes in what has come, and ends the requests that it answers. */
static void
receive_shared (void)
{
  static char buffer[RECEIVE_BYTES];
  static size_t have;
  ssize_t n = recv (shared->fd, buffer + have, sizeof buffer - have, 0);
  size_t at = 0;

  if (n <= 0)
    abort (); /* there is nobody to measure any more */
  have += n;
  while (have - at >= REPLY_BYTES) {
    size_t here = have - at - REPLY_BYTES, wanted;
    struct request *r;
    uint64_t cookie;
    int error;

    if (!take_head (buffer + at, &error, &cookie))
      abort ();
    r = (struct request *) (uintptr_t) cookie;
    wanted = r->to && !error ? r->count : 0;
    if (here < wanted && wanted <= 4096)
      break; /* the rest comes with what follows */
    if (here > wanted)
      here = wanted;
    if (here > 0)
      memcpy (r->to, buffer + at + REPLY_BYTES, here);
    at += REPLY_BYTES + here;
    if (here < wanted && recv (shared->fd, r->to + here, wanted - here,
                               MSG_WAITALL) != (ssize_t) (wanted - here))
      abort ();
    r->error = error;
    /* It is the leader's own, or one of those that wait. */
    pthread_mutex_lock (&lock);
    for (struct request **p = &newest; *p; p = &(*p)->older)
      if (*p == r) {
        *p = r->older;
        break;
      }
    pthread_mutex_unlock (&lock);
    set (r, DONE);
  }
  have -= at;
  memmove (buffer, buffer + at, have);
}

static void *
reader (void *unused)
{
  for (;;)
    receive_shared ();
  return NULL;
}

static void
hand_over (void)
{
  struct request *r;

  pthread_mutex_lock (&lock);
  r = newest;
  if (r)
    newest = r->older;
  led = r != NULL;
  if (
    r) /* with the lock: the new leader may be done and gone the moment it knows */
    set (r, LEAD);
  pthread_mutex_unlock (&lock);
}

static int
run_shared (unsigned type, void *to, const void *from, uint32_t count,
            uint64_t offset)
{
  struct request r = { .to = to, .count = count };
  unsigned v;
  bool lead = false;
  int error;

  pthread_mutex_lock (&lock);
  if (arrangement == LEADER && !led)
    lead = led = true;
  else {
    r.older = newest;
    newest = &r;
  }
  pthread_mutex_unlock (&lock);
  pthread_mutex_lock (&sending);
  error = send_request (shared->fd, type, (uintptr_t) &r, offset, from, count);
  pthread_mutex_unlock (&sending);
  if (error)
    abort ();
  while (!((v = atomic_load (&r.word)) & DONE)) {
    if (v & LEAD) {
      lead = true;
      atomic_fetch_and (&r.word, ~SLEEPING);
    }
    if (lead)
      receive_shared ();
    else if ((v & SLEEPING) ||
             atomic_compare_exchange_strong (&r.word, &v, v | SLEEPING))
      syscall (SYS_futex, &r.word, FUTEX_WAIT_PRIVATE, v | SLEEPING, NULL);
  }
  if (lead)
    hand_over ();
  return r.error;
}

static int
run (unsigned type, void *to, const void *from, uint32_t count, uint64_t offset)
{
  int error = (arrangement == OWN ? run_own : run_shared) (type, to, from,
                                                           count, offset);

  if (error)
    nbdkit_set_error (error);
  return error ? -1 : 0;
}

/*----- nbdkit -----*/

static int
hop_config (const char *key, const char *value)
{
  static const char *const names[] = { "own", "lead", "read" };

  if (strcmp (key, "uri") == 0) {
    uri = value;
    return 0;
  }
  for (unsigned i = 0; strcmp (key, "wait") == 0 && i < 3; i++)
    if (strcmp (value, names[i]) == 0) {
      arrangement = i;
      return 0;
    }
  nbdkit_error ("hop: there is no parameter %s=%s", key, value);
  return -1;
}

static int
hop_after_fork (void)
{
  struct connection *c = connection_new ();
  pthread_t thread;

  if (c == NULL)
    return -1;
  size = nbd_get_size (c->nbd);
  shared = c;
  if (arrangement == READER && pthread_create (&thread, NULL, reader, NULL)) {
    nbdkit_error ("hop: no thread");
    return -1;
  }
  return 0;
}

static void *
hop_open (int readonly)
{
  return NBDKIT_HANDLE_NOT_NEEDED;
}

static int64_t
hop_get_size (void *handle)
{
  return size;
}

static int
hop_can_multi_conn (void *handle)
{
  return 1;
}

static int
hop_pread (void *handle, void *buf, uint32_t count, uint64_t offset,
           uint32_t flags)
{
  return run (READ, buf, NULL, count, offset);
}

static int
hop_pwrite (void *handle, const void *buf, uint32_t count, uint64_t offset,
            uint32_t flags)
{
  return run (WRITE, NULL, buf, count, offset);
}

static int
hop_flush (void *handle, uint32_t flags)
{
  return 0;
}

static struct nbdkit_plugin plugin = {
  .name = "hop",
  .config = hop_config,
  .after_fork = hop_after_fork,
  .open = hop_open,
  .get_size = hop_get_size,
  .can_multi_conn = hop_can_multi_conn,
  .pread = hop_pread,
  .pwrite = hop_pwrite,
  .flush = hop_flush,
};

NBDKIT_REGISTER_PLUGIN (plugin)
