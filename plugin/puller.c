/* puller.c: the threads by which a joining member fetches from the others what it
 * lacks.
 *
 * Threads, while there is an order: one director, and the workers, each of whom has
 * connections of its own (fetch.c).  The engine (member/pull.h) decides what each of
 * them is to do next.  server.lock is held for all calls to the engine, and never
 * while what it has said is carried out.
 */

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "data.h"
#include "fetch.h"
#include "member-role.h"
#include "puller.h"

#define WORKERS 4
/* The time-out of a read of a peer's intent map. */
#define INTENTS_SILENT_MS 5000

static struct {
  struct pull *pull;          /* NULL: there was no order yet */
  struct puller_order *order; /* the newest; NULL: none */
  bool stopping, directed;    /* directed: there is a director */
  bool joinable;              /* `director` must be joined */
  bool retiring;              /* the director waits for its workers to end */
  pthread_t director;
} puller;

struct worker {
  pthread_t thread;
  struct pull_worker pull;
  struct fetch fetch;
  uint8_t *buf; /* an extent */
};

/* ---- Orders ---- */

struct puller_order *
puller_order_new (void)
{
  struct puller_order *o = calloc (1, sizeof *o);

  if (o)
    o->users = 1;
  return o;
}

void
puller_order_free (struct puller_order *o)
{
  if (o == NULL || --o->users > 0)
    return;
  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++) {
    free (o->source[m].uri);
    free (o->source[m].data);
    free (o->source[m].intents);
  }
  free (o);
}

static struct puller_order *
order_use (void)
{
  puller.order->users++;
  return puller.order;
}

static const char *
uri_of (unsigned member)
{
  return puller.order ? puller.order->source[member].uri : NULL;
}

/* Pass on what the engine has to say: to people, and to threads that wait.  It comes
 * after each call to the engine.
 */
static void
tell (void)
{
  struct copy_fault f;

  while (pull_news (puller.pull, &f)) {
    const char *uri = uri_of (f.member);

    nbdkit_error ("%s: rebuild waits for member %u%s%s%s: %s",
                  server.disk->path, f.member, uri ? " (" : "", uri ? uri : "",
                  uri ? ")" : "", f.why);
  }
  if (pull_wakes (puller.pull))
    pthread_cond_broadcast (&server.changed);
}

void
puller_progress (struct puller_progress *p)
{
  *p = (struct puller_progress) { .waits = "" };
  if (puller.pull == NULL)
    return;
  pull_progress (puller.pull, &p->pull);
  if (p->pull.waits) {
    const char *uri = uri_of (p->pull.fault.member);

    snprintf (p->waits, sizeof p->waits, "member %u%s%.100s%s: %s",
              p->pull.fault.member, uri ? " (" : "", uri ? uri : "",
              uri ? ")" : "", p->pull.fault.why);
  }
}

/* ---- Workers ---- */

/* [any thread] */
static bool
cancelled (void *run)
{
  return pull_cancelled (puller.pull, *(uint64_t *) run);
}

/* The reading of intent maps is not cancelled: the engine looks afterwards whether it
 * still needs them.
 */
static bool
never (void *opaque)
{
  return false;
}

static void
links_of (const struct fetch *f, bool linked[ARRAY_MEMBERS_MAX])
{
  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++)
    linked[m] = f->link[m].nbd != NULL;
}

/* Without the lock. */
static void
carry_out (struct worker *w, const struct puller_order *o)
{
  struct copying *c = &w->pull.copying;
  struct copy_request *list;
  struct copy_change next;

  while ((list = copy_ask (c))) {
    enum copy_result r;

    for (struct copy_request *q = list; q; q = q->next)
      if (q->kind == COPY_READ)
        q->buf = w->buf + (q->local - c->start);
    r = fetch_run (&w->fetch, list, cancelled, &w->pull.run, &c->fault);
    if (r != COPY_DONE)
      copy_stop (c, r);
  }
  if (c->result == COPY_FAULT)
    fetch_close (&w->fetch, c->fault.member);
  while (copy_write (c, &next))
    if (next.passed)
      nbdkit_error ("%s: rebuild: %" PRIu32 " bytes at %" PRIu64
                    " of the data area of member %u (%s) can't be read; the "
                    "range at %" PRIu64
                    " here is bad until it is written again",
                    server.disk->path, next.length, next.offset, next.member,
                    o->source[next.member].uri, next.local);
    else if (cancelled (&w->pull.run))
      copy_stop (c, COPY_CANCELLED);
    else {
      struct batch_record record = { .kind = next.kind,
                                     .offset = next.local,
                                     .length = next.length,
                                     .payload = w->buf +
                                                (next.local - c->start) };
      enum errors_place place;
      int error = data_change (server.disk, &record, false, &place);

      if (error && server_error (place, error, next.local, next.length)) {
        copy_blame (&c->fault, o->order.member, "its disk has no room: %s",
                    strerror (error));
        copy_stop (c, COPY_FAULT);
      }
      else if (error)
        copy_stop (c, COPY_BROKEN);
    }
}

/* With the lock held; let go of meanwhile. */
static void
copy_one (struct worker *w)
{
  struct copying *c = &w->pull.copying;
  struct puller_order *o = order_use ();
  struct copy_fault fault;
  unsigned m;
  int r;

  pthread_mutex_unlock (&server.lock);
  carry_out (w, o);
  pthread_mutex_lock (&server.lock);
  if (pull_copied (puller.pull, &w->pull, clock_ms ()))
    load_count (&server.counters.write_bytes, c->bytes);
  tell ();
  if (c->result == COPY_CONNECT) {
    m = c->fault.member;
    pthread_mutex_unlock (&server.lock);
    r = fetch_open (&w->fetch, m, o->source[m].uri, o->source[m].data, &fault);
    pthread_mutex_lock (&server.lock);
    if (r == -1)
      pull_unreachable (puller.pull, &w->pull, &fault, clock_ms ());
    tell ();
  }
  puller_order_free (o);
}

static void *
work (void *opaque)
{
  struct worker *w = opaque;
  bool linked[ARRAY_MEMBERS_MAX];
  uint64_t wait_ms;

  pthread_setname_np (pthread_self (), "weft-copy");
  pthread_mutex_lock (&server.lock);
  /* Workers stay when there is no order any more.  The director may be flushing
   * meanwhile; if there is a new order when it looks again, it counts on them.
   */
  while (!puller.retiring) {
    links_of (&w->fetch, linked);
    if (pull_next (puller.pull, &w->pull, linked, clock_ms (), &wait_ms))
      copy_one (w);
    else {
      tell ();
      server_wait (wait_ms);
    }
  }
  pthread_mutex_unlock (&server.lock);
  return NULL;
}

static void
worker_free (struct worker *w)
{
  fetch_close_all (&w->fetch);
  copy_free (&w->pull.copying);
  free (w->buf);
}

/* Returns how many work; an error when none does. */
static unsigned
start_workers (struct worker w[WORKERS])
{
  unsigned n = 0;
  int err = 0;

  for (; n < WORKERS; n++) {
    w[n] = (struct worker) { .fetch = { .door = "data",
                                        .silent_ms = COPY_SILENT_MS },
                             .buf = malloc (EXTENT_BYTES) };
    err = w[n].buf ? pthread_create (&w[n].thread, NULL, work, &w[n]) : ENOMEM;
    if (err) {
      worker_free (&w[n]);
      break;
    }
  }
  if (n == 0)
    nbdkit_error ("%s: rebuild: no thread to copy with: %s; it is tried again",
                  server.disk->path, strerror (err));
  return n;
}

/* Lets go of the lock meanwhile. */
static void
end_workers (struct worker w[], unsigned workers)
{
  puller.retiring = true;
  pthread_cond_broadcast (&server.changed);
  pthread_mutex_unlock (&server.lock);
  for (unsigned i = 0; i < workers; i++) {
    pthread_join (w[i].thread, NULL);
    worker_free (&w[i]);
  }
  pthread_mutex_lock (&server.lock);
  puller.retiring = false;
  pull_rest (puller.pull);
  tell ();
}

/* ---- The director ---- */

/* One source's intent map. */
static enum copy_result
read_intents (struct fetch *f, const struct puller_order *o, unsigned member,
              struct pull_task *t, struct copy_fault *fault)
{
  struct copy_request read = { .kind = COPY_READ, .member = member };
  enum copy_result r;
  uint64_t size;

  if (fetch_open (f, member, o->source[member].uri, o->source[member].intents,
                  fault) == -1)
    return COPY_FAULT;
  size = fetch_size (f, member);
  if (size > 0 && size <= HEADER_BYTES)
    read.buf = malloc (size);
  if (read.buf == NULL) {
    copy_blame (fault, member,
                "there is no room for its intent map, of %" PRIu64 " bytes",
                size);
    return COPY_FAULT;
  }
  read.length = size;
  r = fetch_run (f, &read, never, NULL, fault);
  if (r == COPY_DONE && read.error) {
    copy_blame (fault, member, "its intent map can't be read: %s",
                strerror (read.error));
    r = COPY_FAULT;
  }
  if (r == COPY_DONE)
    pull_task_map (t, member, read.buf, size);
  free (read.buf);
  return r;
}

static enum copy_result
flush_sources (struct fetch *f, struct pull_task *t, struct copy_fault *fault)
{
  struct copy_request flush[ARRAY_MEMBERS_MAX], *list = NULL;
  enum copy_result r;

  for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++)
    if (t->members[m]) {
      flush[m] = (struct copy_request) { .next = list,
                                         .kind = COPY_FLUSH,
                                         .member = m };
      list = &flush[m];
    }
  r = fetch_run (f, list, cancelled, &t->run, fault);
  for (; r == COPY_DONE && list; list = list->next)
    if (list->error) {
      copy_blame (fault, list->member, "flushing failed: %s",
                  strerror (list->error));
      fetch_close (f, list->member);
      r = COPY_FAULT;
    }
  return r;
}

/* Without the lock; f: the director's connections. */
static enum copy_result
do_task (struct fetch *f, const struct puller_order *o, struct pull_task *t,
         struct copy_fault *fault)
{
  struct fetch intents = { .door = "intents", .silent_ms = INTENTS_SILENT_MS };
  enum copy_result r = COPY_DONE;
  int err;

  switch (t->kind) {
  case PULL_CONNECT:
    for (unsigned m = 0; m < ARRAY_MEMBERS_MAX; m++)
      if (t->members[m])
        fetch_open (f, m, o->source[m].uri, o->source[m].data, fault);
    links_of (f, t->linked);
    return COPY_DONE;
  case PULL_INTENTS:
    for (unsigned m = 0; r == COPY_DONE && m < ARRAY_MEMBERS_MAX; m++)
      if (t->members[m])
        r = read_intents (&intents, o, m, t, fault);
    fetch_close_all (&intents);
    return r;
  case PULL_FLUSH:
    return flush_sources (f, t, fault);
  case PULL_SYNC:
    err = data_flush (server.disk);
    if (err)
      server_error (ERRORS_SYNC, err, 0, 0);
    return err ? COPY_BROKEN : COPY_DONE;
  }
  abort ();
}

/* With the lock held; let go of meanwhile.  Returns whether there was a task. */
static bool
next_task (struct fetch *f)
{
  bool linked[ARRAY_MEMBERS_MAX];
  struct copy_fault fault;
  struct puller_order *o;
  struct pull_task t;
  enum copy_result r;

  links_of (f, linked);
  if (!pull_next_task (puller.pull, linked, clock_ms (), &t)) {
    tell ();
    return false;
  }
  o = order_use ();
  pthread_mutex_unlock (&server.lock);
  r = do_task (f, o, &t, &fault);
  pthread_mutex_lock (&server.lock);
  pull_task_done (puller.pull, &t, r, &fault, clock_ms ());
  tell ();
  puller_order_free (o);
  return true;
}

static void *
direct (void *opaque)
{
  struct worker *w = opaque;
  struct fetch f = { .door = "data", .silent_ms = PULL_FLUSH_SILENT_MS };
  unsigned workers = 0;

  pthread_setname_np (pthread_self (), "weft-copy");
  pthread_mutex_lock (&server.lock);
  do {
    while (puller.order)
      if (!next_task (&f)) {
        if (workers == 0 && pull_copies (puller.pull))
          workers = start_workers (w);
        server_wait (PULL_TICK_MS);
      }
    end_workers (w, workers);
    workers = 0;
  } while (puller.order); /* there may be a new one by now */
  puller.directed = false;
  pthread_mutex_unlock (&server.lock);
  fetch_close_all (&f);
  free (w);
  return NULL;
}

int
puller_obey (struct puller_order *o)
{
  struct worker *w;
  int err;

  if (puller.stopping || (o == NULL && puller.order == NULL)) {
    puller_order_free (o);
    return 0;
  }
  if (puller.pull == NULL)
    puller.pull = pull_new (server.member, PULL_STABLE_EXTENTS);
  if (puller.pull == NULL) {
    puller_order_free (o);
    return ENOMEM;
  }
  puller_order_free (puller.order);
  puller.order = o;
  pull_obey (puller.pull, o ? &o->order : NULL);
  tell ();
  if (o == NULL || puller.directed)
    return 0;
  if (puller.joinable)
    pthread_join (puller.director, NULL); /* it has ended */
  puller.joinable = false;
  w = calloc (WORKERS, sizeof *w);
  err = w ? pthread_create (&puller.director, NULL, direct, w) : ENOMEM;
  if (err)
    free (w);
  else
    puller.directed = puller.joinable = true;
  return err;
}

void
puller_stop (void)
{
  bool joinable;

  pthread_mutex_lock (&server.lock);
  puller_obey (NULL);
  puller.stopping = true;
  joinable = puller.joinable;
  puller.joinable = false;
  pthread_mutex_unlock (&server.lock);
  if (joinable)
    pthread_join (puller.director, NULL);
  pthread_mutex_lock (&server.lock); /* a heartbeat may be looking at it */
  pull_free (puller.pull);
  puller.pull = NULL;
  pthread_mutex_unlock (&server.lock);
}
