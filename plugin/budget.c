/* budget.c: see budget.h.
 *
 * One thread of nbdkit's receives a request, carries it out and sends the reply.  It has
 * one buffer for all of its requests, which grows and is freed with the thread.  So after
 * the reply of a large request the pages are given back to the kernel here, unless there
 * is room for what idle threads keep.  Which memory the buffer is, our realloc sees in
 * place of nbdkit's: a buffer that the plugin is handed may be a filter's.
 */

#include <config.h>

#include <endian.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "base/shares.h"
#include "budget.h"
#include "calls.h"
#include "common/clock.h"
#include "lobby.h"

#define REQUEST_HEADER_BYTES 28
#define REQUEST_MAGIC 0x25609513
#define TYPE_READ 0
#define TYPE_WRITE 1

/* The header of a reply. */
#define SIMPLE_MAGIC 0x67446698
#define SIMPLE_BYTES 16
#define STRUCTURED_BYTES 20

#define LOOK_MS 500

/* A thread that serves a client. */
struct purse {
  struct share
    share; /* amount: of the request under way, in `shares`; 0: it is small */
  const struct caller *caller;
  uint64_t
    since_ms; /* it waits for its client; 0: it does not.  Under the lock */

  uint8_t header[REQUEST_HEADER_BYTES];
  size_t header_got;
  uint64_t payload; /* of a write, still to be received */
  bool reads;
  uint64_t sent, reply; /* bytes of the reply: so far, and in all */

  size_t
    expects; /* the size of the buffer that nbdkit is about to ask for, or 0 */
  void *buffer;   /* NULL: there is none yet */
  size_t touched; /* its first bytes, which may take memory */
  size_t kept;    /* of these, while it is idle; under the lock */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t given_back;
static struct shares shares = {
  .max = { [SHARES_ALL] = BUDGET_ALL_BYTES,
           [SHARES_NAME] = BUDGET_NODE_BYTES,
           [SHARES_READERS] = BUDGET_READERS_BYTES,
           [SHARES_READER] = BUDGET_NODE_BYTES,
           [SHARES_SESSION] = BUDGET_ALL_BYTES },
};
static uint64_t kept;
static unsigned waiting; /* requests */

static pthread_key_t key;
static _Thread_local struct purse mine;

/* ---- Taking and giving back. ---- */

/* With the lock. */
static struct purse *
purse_of (struct share *s)
{
  return (struct purse *) ((char *) s - offsetof (struct purse, share));
}

static bool
is_late (const struct purse *p, uint64_t now_ms)
{
  return p->since_ms != 0 &&
         now_ms >= p->since_ms + BUDGET_LATE_MS +
                     p->share.amount / MiB (1) * BUDGET_LATE_MS_EACH;
}

/* Hang up on those that let us wait, and whose end would help this one.  With the lock. */
static void
end_late (enum shares_bound full, const struct purse *p)
{
  uint64_t now_ms = clock_ms ();
  struct share *s;

  LIST_FOREACH (s, &shares.list, link) {
    struct purse *late = purse_of (s);

    if (!shares_count (full, s, &p->share) || !is_late (late, now_ms))
      continue;
    nbdkit_error ("a client of %s is hung up on: memory for requests is short, "
                  "and it has not read an answer, or sent the rest of a write, "
                  "of %llu bytes for more than %u s",
                  s->name[0] ? s->name : "this host",
                  (unsigned long long) s->amount, BUDGET_LATE_MS / 1000);
    late->since_ms = 0; /* its thread finds the end soon */
    lobby_hang_up (late->caller);
  }
}

static void
take (struct purse *p, uint64_t bytes)
{
  enum shares_bound full;

  p->share = lobby_share (p->caller);
  p->share.session = 0;
  p->share.amount = bytes;
  pthread_setspecific (key, p);
  pthread_mutex_lock (&lock);
  while ((full = shares_check (&shares, &p->share)) != SHARES_FIT) {
    end_late (full, p);
    waiting++;
    clock_wait (&given_back, &lock, clock_ns () + LOOK_MS * NS_PER_MS);
    waiting--;
  }
  p->since_ms = p->payload > 0 ? clock_ms () : 0;
  shares_add (&shares, &p->share);
  pthread_mutex_unlock (&lock);
  if (bytes > p->touched)
    p->touched = bytes;
}

/* The pages of the buffer that nothing else shares. */
static void
drop_pages (struct purse *p)
{
  const uintptr_t page = (uintptr_t) sysconf (_SC_PAGESIZE);
  uintptr_t begin = ((uintptr_t) p->buffer + page - 1) & ~(page - 1);
  uintptr_t end = ((uintptr_t) p->buffer + p->touched) & ~(page - 1);

  if (p->buffer && begin < end)
    madvise ((void *) begin, end - begin, MADV_DONTNEED);
  p->touched = 0;
}

/* The request under way is answered.  Memory is counted before it is taken, and
 * given back before its count is dropped.
 */
static void
give_back (struct purse *p)
{
  bool keep;

  pthread_mutex_lock (&lock);
  keep = kept - p->kept + p->touched <= BUDGET_KEPT_BYTES;
  kept -= p->kept;
  p->kept = keep ? p->touched : 0;
  kept += p->kept;
  if (!keep) {
    pthread_mutex_unlock (&lock);
    drop_pages (p);
    pthread_mutex_lock (&lock);
  }
  shares_remove (&p->share);
  p->share.amount = 0;
  p->since_ms = 0;
  if (waiting > 0)
    pthread_cond_broadcast (&given_back);
  pthread_mutex_unlock (&lock);
}

/* The thread ends; nbdkit may have freed its buffer already. */
static void
gone (void *opaque)
{
  struct purse *p = opaque;

  p->buffer = NULL;
  p->touched = 0;
  if (p->share.amount > 0)
    give_back (p);
  pthread_mutex_lock (&lock);
  kept -= p->kept;
  p->kept = 0;
  pthread_mutex_unlock (&lock);
}

/* ---- What is received and sent. ---- */

static void
take_header (struct purse *p)
{
  uint32_t magic, length;
  uint16_t type;

  memcpy (&magic, p->header, sizeof magic);
  memcpy (&type, p->header + 6, sizeof type);
  memcpy (&length, p->header + 24, sizeof length);
  type = be16toh (type);
  length = be32toh (length);
  if (p->share.amount > 0) /* its reply failed */
    give_back (p);
  if (be32toh (magic) != REQUEST_MAGIC || type > TYPE_WRITE)
    return;
  p->reads = type == TYPE_READ;
  p->payload = p->reads ? 0 : length;
  p->sent = p->reply = 0;
  p->expects = length;
  /* nbdkit refuses what is larger, without a buffer. */
  if (length > BUDGET_SMALL && length <= REQUEST_BYTES_MAX)
    take (p, length);
}

void
budget_received (const struct caller *c, const void *data, size_t asked,
                 size_t got)
{
  struct purse *p = &mine;

  if (c == NULL || got == 0)
    return;
  if (p->caller != c) /* once: others read it later */
    p->caller = c;
  if (p->payload > 0) {
    p->payload -= got < p->payload ? got : p->payload;
    if (p->payload == 0 && p->share.amount > 0) {
      pthread_mutex_lock (&lock);
      p->since_ms = 0;
      pthread_mutex_unlock (&lock);
    }
    return;
  }
  if (asked == REQUEST_HEADER_BYTES)
    p->header_got = 0;
  if (p->header_got + asked != REQUEST_HEADER_BYTES)
    return;
  memcpy (p->header + p->header_got, data, got);
  p->header_got += got;
  if (p->header_got == REQUEST_HEADER_BYTES)
    take_header (p);
}

/* How long is the reply (or the chunk) that begins like this? */
static uint64_t
reply_bytes (const struct purse *p, const uint8_t *data, size_t bytes)
{
  uint32_t magic, word;

  if (bytes < SIMPLE_BYTES)
    return bytes;
  memcpy (&magic, data, sizeof magic);
  if (be32toh (magic) == SIMPLE_MAGIC) {
    memcpy (&word, data + 4, sizeof word);
    return SIMPLE_BYTES + (p->reads && word == 0 ? p->share.amount : 0);
  }
  if (bytes < STRUCTURED_BYTES)
    return bytes;
  memcpy (&word, data + 16, sizeof word);
  return STRUCTURED_BYTES + (uint64_t) be32toh (word);
}

void
budget_sends (const void *data, size_t bytes)
{
  struct purse *p = &mine;

  p->expects = 0;
  if (p->share.amount == 0 || p->sent > 0)
    return;
  p->reply = reply_bytes (p, data, bytes);
  pthread_mutex_lock (&lock);
  p->since_ms = clock_ms ();
  pthread_mutex_unlock (&lock);
}

void
budget_sent (size_t bytes)
{
  mine.sent += bytes;
}

void
budget_uncorked (void)
{
  struct purse *p = &mine;

  if (p->share.amount > 0 && p->sent > 0 && p->sent >= p->reply)
    give_back (p);
}

/* ---- In nbdkit's place. ---- */

static void *
our_realloc (void *old, size_t bytes)
{
  struct purse *p = &mine;
  void *new = realloc (old, bytes);

  if (new && bytes > 0 && bytes == p->expects && old == p->buffer) {
    p->buffer = new;
    p->expects = 0;
  }
  return new;
}

bool
budget_begin (void)
{
  static const struct call calls[] = { { "realloc", our_realloc }, { NULL } };

  clock_condition (&given_back);
  if (pthread_key_create (&key, gone) != 0)
    abort ();
  return calls_replace ("", calls);
}
