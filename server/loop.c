/* loop.c: see loop.h.
 *
 *   HTTP threads ── requests ──► [asked] ── wake ──► handlers ──► engine
 *                                                                   │ steps
 *   HTTP threads ◄── answers ── release ◄── [pending, in order] ◄───┘
 *                                 ▲              │ records and events
 *                                 └── durable ── store's thread
 *
 * A step that is pending holds its answers and events as JSON, made when the
 * engine was in that state.
 */

#include <config.h>

#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <openssl/rand.h>
#include <uv.h>

#include "log.h"
#include "loop.h"
#include "records.h"
#include "routes.h"
#include "text.h"
#include "views.h"

#define LOAD_TICKS (1000 / CLUSTER_TICK_MS)
#define EVENT_KEY "%020" PRIu64

struct answer {
  struct request *request;
  int status;
  json_t *body;
};

struct event {
  uint64_t id;
  const char *name;
  char *data;
};

struct line {
  enum cluster_severity severity;
  char *text;
};

/* A step on its way out. */
struct pending {
  STAILQ_ENTRY (pending) link;
  bool durable;
  struct answer *answers;
  struct event *events;
  struct line *lines;
  size_t answers_count, events_count, lines_count;
};

/* What was last said of a node. */
struct node {
  TAILQ_ENTRY (node) link;
  char name[NAME_BYTES_MAX + 1];
  char *said;
};

struct loop {
  uv_loop_t uv;
  uv_async_t wake;
  uv_timer_t timer;
  uv_signal_t sigterm, sigint;

  struct cluster *cluster;
  struct store *store;
  struct hub *hub;
  uint64_t last_event;
  unsigned ticks;
  STAILQ_HEAD (, pending) pending;
  TAILQ_HEAD (, node) nodes;
  TAILQ_HEAD (requests, request) held; /* with the engine or pending */
  int result;

  pthread_mutex_t lock; /* of what follows */
  struct requests asked;
  bool stopping;
};

/* ---- Requests. ---- */

void
request_init (struct request *r, const struct route *route)
{
  memset (r, 0, sizeof *r);
  r->route = route;
  pthread_mutex_init (&r->lock, NULL);
  pthread_cond_init (&r->answered, NULL);
}

void
request_destroy (struct request *r)
{
  pthread_cond_destroy (&r->answered);
  pthread_mutex_destroy (&r->lock);
  free (r->disk_heartbeat);
  free (r->create);
  json_decref (r->body);
}

static void
deliver (struct request *r, int status, json_t *body)
{
  pthread_mutex_lock (&r->lock);
  r->status = status;
  r->body = body;
  r->done = true;
  pthread_cond_signal (&r->answered);
  pthread_mutex_unlock (&r->lock); /* it may be gone from here on */
}

static json_t *
stopping_body (void)
{
  return view_error (503, NULL, "stopping",
                     "weftd is being stopped: try again when it is back");
}

void
loop_ask (struct loop *l, struct request *r)
{
  pthread_mutex_lock (&l->lock);
  if (l->stopping) {
    pthread_mutex_unlock (&l->lock);
    r->status = 503;
    r->body = stopping_body ();
    return;
  }
  TAILQ_INSERT_TAIL (&l->asked, r, link);
  uv_async_send (&l->wake);
  pthread_mutex_unlock (&l->lock);

  pthread_mutex_lock (&r->lock);
  while (!r->done)
    pthread_cond_wait (&r->answered, &r->lock);
  pthread_mutex_unlock (&r->lock);
}

bool
loop_stopping (struct loop *l)
{
  bool r;

  pthread_mutex_lock (&l->lock);
  r = l->stopping;
  pthread_mutex_unlock (&l->lock);
  return r;
}

struct cluster *
loop_cluster (struct loop *l)
{
  return l->cluster;
}

uint64_t
loop_last_event (const struct loop *l)
{
  return l->last_event;
}

static uint64_t
wall_ms (void)
{
  struct timespec ts;

  clock_gettime (CLOCK_REALTIME, &ts);
  return (uint64_t) ts.tv_sec * 1000 + (uint64_t) ts.tv_nsec / 1000000;
}

uint64_t
loop_wall_ms (const struct loop *l)
{
  return wall_ms ();
}

void
loop_input (struct loop *l, struct request *r, struct cluster_input *in)
{
  struct timespec ts;

  /* Also counts the time for which the machine was suspended. */
  clock_gettime (CLOCK_BOOTTIME, &ts);
  in->op = (uint64_t) (uintptr_t) r;
  in->now_ms = (uint64_t) ts.tv_sec * 1000 + (uint64_t) ts.tv_nsec / 1000000;
  in->wall_ms = wall_ms ();
  if (RAND_bytes (in->random, sizeof in->random) != 1) {
    log_line (CLUSTER_ERROR, "no random numbers from OpenSSL: stopped");
    abort ();
  }
}

/* ---- Steps on their way out. ---- */

#define APPEND(p, list, value)                                               \
  do {                                                                       \
    (p)->list = reallocarray ((p)->list, (p)->list##_count + 1,              \
                              sizeof *(p)->list);                            \
    if ((p)->list == NULL)                                                   \
      abort ();                                                              \
    (p)->list[(p)->list##_count++] = (value);                                \
  } while (0)

static struct pending *
pending_new (void)
{
  struct pending *p = calloc (1, sizeof *p);

  if (p == NULL)
    abort ();
  return p;
}

static char *
dump (json_t *json)
{
  char *text = json_dumps (json, JSON_COMPACT);

  if (text == NULL)
    abort ();
  json_decref (json);
  return text;
}

/* {"name": ..., "data": ...}: the kind of an event is not in its data. */
static void
store_event (struct store_txn *t, const struct event *e)
{
  char key[48], *text;

  snprintf (key, sizeof key, EVENT_KEY, e->id);
  if (asprintf (&text, "{\"name\":\"%s\",\"data\":%s}", e->name, e->data) == -1)
    abort ();
  store_txn_add (t, "event", key, text);
  if (e->id > EVENTS_MAX) {
    snprintf (key, sizeof key, EVENT_KEY, e->id - EVENTS_MAX);
    store_txn_add (t, "event", key, NULL);
  }
}

static void
add_event (struct loop *l, struct pending *p, struct store_txn *t,
           const char *name, json_t *data)
{
  struct event e = { .id = ++l->last_event, .name = name, .data = dump (data) };

  store_event (t, &e);
  APPEND (p, events, e);
}

/* A node is told of when what can be said of it, but its load, has changed. */
static void
add_node (struct loop *l, struct pending *p, struct store_txn *t,
          const char *name)
{
  json_t *view = view_node (l->cluster, name);
  struct node *n;
  char *said = NULL;

  if (view) {
    json_object_del (view, "load");
    said = json_dumps (view, JSON_COMPACT);
    json_decref (view);
  }
  TAILQ_FOREACH (n, &l->nodes, link)
    if (strcmp (n->name, name) == 0)
      break;
  if (said == NULL && n == NULL)
    return;
  if (n == NULL) {
    n = calloc (1, sizeof *n);
    if (n == NULL)
      abort ();
    snprintf (n->name, sizeof n->name, "%s", name);
    TAILQ_INSERT_TAIL (&l->nodes, n, link);
  }
  if (said && n->said && strcmp (said, n->said) == 0) {
    free (said);
    return;
  }
  free (n->said);
  n->said = said;
  if (said) {
    add_event (l, p, t, "node", view_node (l->cluster, name));
    return;
  }
  add_event (l, p, t, "node",
             json_pack ("{ss sb}", "name", n->name, "deleted", 1));
  TAILQ_REMOVE (&l->nodes, n, link);
  free (n);
}

static void
refresh_nodes (struct loop *l, struct pending *p, struct store_txn *t)
{
  const struct cluster_disk *d;
  const struct cluster_session *s;
  struct node *n, *next;

  TAILQ_FOREACH (d, cluster_disks (l->cluster), link)
    add_node (l, p, t, d->rec.node);
  TAILQ_FOREACH (s, cluster_sessions (l->cluster), link)
    if (!s->rec.ended)
      add_node (l, p, t, s->rec.node);
  for (n = TAILQ_FIRST (&l->nodes); n != NULL; n = next) {
    next = TAILQ_NEXT (n, link);
    add_node (l, p, t, n->name);
  }
}

static void
add_changed (struct loop *l, struct pending *p, struct store_txn *t,
             const struct cluster_output *o)
{
  const struct cluster *c = l->cluster;

  switch (o->object) {
  case CLUSTER_DISK:
    add_event (l, p, t, "disk",
               o->disk ? view_disk (c, o->disk)
                       : json_pack ("{so sb}", "uuid", text_uuid (o->uuid),
                                    "deleted", 1));
    return;
  case CLUSTER_ARRAY:
    add_event (l, p, t, "array",
               o->array ? view_array (c, o->array, wall_ms ())
                        : json_pack ("{ss so sb}", "name", o->name, "uuid",
                                     text_uuid (o->uuid), "deleted", 1));
    return;
  case CLUSTER_SESSION:
    add_event (l, p, t, "session",
               o->session ? view_session (c, o->session)
                          : json_pack ("{so ss sb}", "id", text_session (o->id),
                                       "array", o->name, "deleted", 1));
    return;
  }
}

static void
add_log (struct loop *l, struct pending *p, struct store_txn *t,
         const struct cluster_output *o)
{
  static const char *const severities[] = { "info", "warning", "error" };
  struct line line = { .severity = o->severity };

  line.text = strdup (o->text);
  if (line.text == NULL)
    abort ();
  APPEND (p, lines, line);
  add_event (l, p, t, "log",
             json_pack ("{so ss so so}", "at", text_time (wall_ms ()),
                        "severity", severities[o->severity], "subject",
                        text_string (o->subject), "text",
                        text_string (o->text)));
}

static json_t *
reply_body (struct loop *l, const struct cluster_output *o, int *status)
{
  const struct cluster *c = l->cluster;

  *status = 200;
  switch (o->reply) {
  case CLUSTER_REPLY_PROBLEM:
    return view_problem (o->problem, status);
  case CLUSTER_REPLY_DISK:
    return view_desired (c, o->disk);
  case CLUSTER_REPLY_ARRAY:
    *status = 201;
    return view_array (c, o->array, wall_ms ());
  case CLUSTER_REPLY_GRANT:
    *status = 201;
    return view_grant (c, o->array, o->session);
  case CLUSTER_REPLY_SESSION:
    return view_session_state (c, o->array);
  case CLUSTER_REPLY_DONE:
    if (o->object == CLUSTER_SESSION)
      return json_pack ("{so sb}", "session", text_session (o->id), "deleted",
                        1);
    if (o->object == CLUSTER_ARRAY)
      return json_pack ("{ss so sb}", "name", o->name, "uuid",
                        text_uuid (o->uuid), "deleted", 1);
    return json_pack ("{so sb}", "uuid", text_uuid (o->uuid), "deleted", 1);
  }
  abort ();
}

/* Send out what is at the head of the queue and durable. */
static void
release (struct loop *l)
{
  struct pending *p;

  while ((p = STAILQ_FIRST (&l->pending)) != NULL && p->durable) {
    STAILQ_REMOVE_HEAD (&l->pending, link);
    for (size_t i = 0; i < p->events_count; i++) {
      hub_publish (l->hub, p->events[i].id, p->events[i].name,
                   p->events[i].data);
      free (p->events[i].data);
    }
    for (size_t i = 0; i < p->lines_count; i++) {
      log_line (p->lines[i].severity, "%s", p->lines[i].text);
      free (p->lines[i].text);
    }
    for (size_t i = 0; i < p->answers_count; i++) {
      TAILQ_REMOVE (&l->held, p->answers[i].request, link);
      deliver (p->answers[i].request, p->answers[i].status,
               p->answers[i].body);
    }
    free (p->events);
    free (p->lines);
    free (p->answers);
    free (p);
  }
}

static void
queue_step (struct loop *l, struct cluster_step *step)
{
  struct pending *p = pending_new ();
  struct store_txn *t = store_txn_new ();
  bool changed = false;

  for (size_t i = 0; i < step->records_count; i++)
    records_add (t, &step->records[i]);
  for (size_t i = 0; i < step->outputs_count; i++) {
    const struct cluster_output *o = &step->outputs[i];
    struct answer answer;

    switch (o->kind) {
    case CLUSTER_OUTPUT_REPLY:
      answer.request = (struct request *) (uintptr_t) o->op;
      answer.body = reply_body (l, o, &answer.status);
      APPEND (p, answers, answer);
      break;
    case CLUSTER_OUTPUT_CHANGED:
      add_changed (l, p, t, o);
      changed = true;
      break;
    case CLUSTER_OUTPUT_LOG:
      add_log (l, p, t, o);
      break;
    }
  }
  if (changed)
    refresh_nodes (l, p, t);
  STAILQ_INSERT_TAIL (&l->pending, p, link);
  if (t->count > 0) {
    t->owner = p;
    store_submit (l->store, t);
  }
  else {
    store_txn_free (t);
    p->durable = true;
  }
}

/* After every call of the engine. */
static void
pump (struct loop *l)
{
  struct cluster_step *step;

  while ((step = cluster_next_step (l->cluster)) != NULL) {
    queue_step (l, step);
    cluster_step_free (step);
  }
  release (l);
}

void
loop_answer (struct loop *l, struct request *r, int status, json_t *body)
{
  struct pending *p = pending_new ();
  struct answer answer = { .request = r, .status = status, .body = body };

  APPEND (p, answers, answer);
  p->durable = true;
  STAILQ_INSERT_TAIL (&l->pending, p, link);
}

/* ---- The loop. ---- */

static void
take_durable (struct loop *l)
{
  struct store_txn *t;
  const char *error;

  while ((t = store_take (l->store)) != NULL) {
    ((struct pending *) t->owner)->durable = true;
    store_txn_free (t);
  }
  error = store_error (l->store);
  if (error && l->result == 0) {
    log_line (CLUSTER_ERROR, "%s; weftd ends, and nothing that was not stored "
              "was answered: make room or mend the disk, and start it again",
              error);
    l->result = -1;
    uv_stop (&l->uv);
  }
}

static void
take_asked (struct loop *l)
{
  struct request *r;

  for (;;) {
    pthread_mutex_lock (&l->lock);
    r = TAILQ_FIRST (&l->asked);
    if (r)
      TAILQ_REMOVE (&l->asked, r, link);
    pthread_mutex_unlock (&l->lock);
    if (r == NULL)
      return;
    TAILQ_INSERT_TAIL (&l->held, r, link);
    r->route->handle (l, r);
    pump (l);
  }
}

static void
on_wake (uv_async_t *handle)
{
  struct loop *l = handle->data;

  take_durable (l);
  take_asked (l);
  release (l);
}

static void
store_done (void *opaque)
{
  struct loop *l = opaque;

  uv_async_send (&l->wake);
}

static void
on_timer (uv_timer_t *handle)
{
  struct loop *l = handle->data;
  struct cluster_input in;
  char *text;

  /* Input that has come goes first: nobody is found silent whose word is
   * already here.
   */
  take_durable (l);
  take_asked (l);
  if (STAILQ_EMPTY (&l->pending)) { /* else the store is behind */
    loop_input (l, NULL, &in);
    cluster_tick (l->cluster, &in);
    pump (l);
  }
  if (++l->ticks % LOAD_TICKS == 0 && hub_listeners (l->hub) > 0) {
    text = dump (view_load (l->cluster, wall_ms ()));
    hub_load (l->hub, text);
    free (text);
  }
}

static void
on_signal (uv_signal_t *handle, int signum)
{
  struct loop *l = handle->data;

  log_line (CLUSTER_INFO, "%s: weftd ends",
            signum == SIGTERM ? "SIGTERM" : "SIGINT");
  uv_stop (&l->uv);
}

/* Nothing more comes in; what is on its way to the store gets there; whoever
 * waits is told.
 */
void
loop_end (struct loop *l)
{
  struct request *r;
  struct pending *p;

  pthread_mutex_lock (&l->lock);
  l->stopping = true;
  TAILQ_CONCAT (&l->held, &l->asked, link);
  pthread_mutex_unlock (&l->lock);
  hub_close (l->hub);
  store_close (l->store);
  l->store = NULL;
  /* Unanswered is always allowed; answered without being stored is not. */
  while ((p = STAILQ_FIRST (&l->pending)) != NULL) {
    STAILQ_REMOVE_HEAD (&l->pending, link);
    for (size_t i = 0; i < p->answers_count; i++)
      json_decref (p->answers[i].body);
    for (size_t i = 0; i < p->events_count; i++)
      free (p->events[i].data);
    for (size_t i = 0; i < p->lines_count; i++)
      free (p->lines[i].text);
    free (p->answers);
    free (p->events);
    free (p->lines);
    free (p);
  }
  while ((r = TAILQ_FIRST (&l->held)) != NULL) {
    TAILQ_REMOVE (&l->held, r, link);
    deliver (r, 503, stopping_body ());
  }
}

int
loop_run (struct loop *l)
{
  uv_run (&l->uv, UV_RUN_DEFAULT);
  loop_end (l);
  return l->result;
}

/* ---- Making and ending it. ---- */

static int
load_event (struct loop *l, const char *key, const char *json, char *why,
            size_t why_size)
{
  static const char *const names[]
    = { "node", "disk", "array", "session", "log" };
  json_t *object = json_loads (json, JSON_REJECT_DUPLICATES, NULL);
  const char *name = json_string_value (json_object_get (object, "name"));
  json_t *data = json_object_get (object, "data");
  char *end_of_key, *text;
  uint64_t id = strtoull (key, &end_of_key, 10);
  const char *known = NULL;

  for (size_t i = 0; name && i < sizeof names / sizeof names[0]; i++)
    if (strcmp (name, names[i]) == 0)
      known = names[i];
  if (known == NULL || !json_is_object (data) || *end_of_key || id == 0) {
    json_decref (object);
    snprintf (why, why_size, "it is no event");
    return -1;
  }
  text = json_dumps (data, JSON_COMPACT);
  if (text == NULL)
    abort ();
  hub_publish (l->hub, id, known, text);
  l->last_event = id;
  free (text);
  json_decref (object);
  return 0;
}

static int
load_record (void *opaque, const char *kind, const char *key, const char *json,
             char *why, size_t why_size)
{
  struct loop *l = opaque;
  struct cluster_record *r;
  int result = -1;

  if (strcmp (kind, "event") == 0)
    return load_event (l, key, json, why, why_size);
  if (!records_is_kind (kind)) {
    snprintf (why, why_size, "this weftd knows no such kind");
    return -1;
  }
  r = calloc (1, sizeof *r);
  if (r == NULL)
    abort ();
  if (records_parse (kind, key, json, r, why, why_size) == 0 &&
      cluster_load (l->cluster, r, why, why_size) == 0)
    result = 0;
  free (r);
  return result;
}

static int
start (struct loop *l, char *why, size_t why_size)
{
  struct cluster_input in;
  char reason[512];

  if (store_load (l->store, load_record, l, why, why_size) == -1)
    return -1;
  loop_input (l, NULL, &in);
  if (cluster_start (l->cluster, &in, reason, sizeof reason) == -1) {
    snprintf (why, why_size, "the database makes no sense: %s; restore it "
              "from a backup", reason);
    return -1;
  }
  if (store_start (l->store, store_done, l) == -1) {
    snprintf (why, why_size, "cannot start the store's thread");
    return -1;
  }
  pump (l);
  return 0;
}

struct loop *
loop_new (struct store *store, struct hub *hub, char *why, size_t why_size)
{
  struct loop *l = calloc (1, sizeof *l);

  if (l == NULL || (l->cluster = cluster_new ()) == NULL)
    abort ();
  l->store = store;
  l->hub = hub;
  STAILQ_INIT (&l->pending);
  TAILQ_INIT (&l->nodes);
  TAILQ_INIT (&l->held);
  TAILQ_INIT (&l->asked);
  pthread_mutex_init (&l->lock, NULL);
  uv_loop_init (&l->uv);
  uv_async_init (&l->uv, &l->wake, on_wake);
  uv_timer_init (&l->uv, &l->timer);
  uv_signal_init (&l->uv, &l->sigterm);
  uv_signal_init (&l->uv, &l->sigint);
  l->wake.data = l->timer.data = l->sigterm.data = l->sigint.data = l;
  uv_timer_start (&l->timer, on_timer, CLUSTER_TICK_MS, CLUSTER_TICK_MS);
  uv_signal_start (&l->sigterm, on_signal, SIGTERM);
  uv_signal_start (&l->sigint, on_signal, SIGINT);
  if (start (l, why, why_size) == -1) {
    loop_free (l);
    return NULL;
  }
  return l;
}

void
loop_free (struct loop *l)
{
  struct node *n;

  if (l == NULL)
    return;
  loop_end (l);
  uv_close ((uv_handle_t *) &l->wake, NULL);
  uv_close ((uv_handle_t *) &l->timer, NULL);
  uv_close ((uv_handle_t *) &l->sigterm, NULL);
  uv_close ((uv_handle_t *) &l->sigint, NULL);
  uv_run (&l->uv, UV_RUN_DEFAULT);
  uv_loop_close (&l->uv);
  while ((n = TAILQ_FIRST (&l->nodes)) != NULL) {
    TAILQ_REMOVE (&l->nodes, n, link);
    free (n->said);
    free (n);
  }
  cluster_free (l->cluster);
  pthread_mutex_destroy (&l->lock);
  free (l);
}
