/* loop.c: see loop.h.
 *
 *   HTTP threads ── requests ──► [asked] ── wake ──► handlers ──► engine
 *                                                                   │ steps
 *   HTTP threads ◄── answers ── release ◄── [pending, in order] ◄───┘
 *                                 ▲              │ records and events
 *                                 └── durable ── store's thread
 *
 * The queue of pending steps: steps.c.
 */

#include <config.h>

#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <uv.h>

#include "alloc.h"
#include "audit-log.h"
#include "common/clock.h"
#include "etag.h"
#include "format/format.h"
#include "store/history.h"
#include "idempotency.h"
#include "journal.h"
#include "log.h"
#include "loop-internal.h"
#include "common/notify.h"
#include "records.h"
#include "routes.h"
#include "views.h"
#include "common/refuse.h"
#include "text.h"

#define LOAD_TICKS (1000 / CLUSTER_TICK_MS)
#define AUTH_TICKS (60 * LOAD_TICKS)
#define TRIM_TICKS (10 * LOAD_TICKS)

/* After every call of the engine. */
static void
pump (struct loop *l)
{
  struct cluster_step *step;

  while ((step = cluster_next_step (l->cluster)) != NULL) {
    steps_queue (l, step);
    cluster_step_free (step);
  }
  steps_release (l);
}

/* ---- The loop. ---- */

void
loop_fail (struct loop *l, const char *error)
{
  if (l->result != 0)
    return;
  log_line (CLUSTER_ERROR,
            "%s; weftd ends; all changes that it has acknowledged are stored",
            error);
  l->result = -1;
  uv_stop (&l->uv);
}

/* There is no room for the records, or there is again.  Meanwhile every call
 * gets that answer, and nothing is decided: it is as if weftd were stopped.
 * Calls that came just before get it, too: their answers would wait for room.
 */
static void
take_stall (struct loop *l)
{
  bool was = l->stalled[0] != '\0';
  char text[600];

  if (!store_stalled (l->store, l->stalled, sizeof l->stalled))
    l->stalled[0] = '\0';
  if (was == (l->stalled[0] != '\0'))
    return;
  if (was) {
    log_line (CLUSTER_INFO, "there is room again: weftd goes on");
    return;
  }
  log_line (CLUSTER_ERROR, "weftd %s; until then it answers nobody",
            l->stalled);
  snprintf (text, sizeof text,
            "weftd %s; a change that was asked for may still be made then",
            l->stalled);
  steps_refuse (l, 503, "no-room", text);
}

static void
refuse_stalled (struct loop *l, struct request *r)
{
  char text[560];

  snprintf (text, sizeof text, "weftd %s", l->stalled);
  loop_request_deliver (l, r, 503, view_error (503, NULL, "no-room", text));
}

static void
take_durable (struct loop *l)
{
  struct store_txn *t;
  const char *error;

  while ((t = store_take (l->store)) != NULL) {
    audit_log_durable (auth_audit_log (l->auth), t);
    steps_durable (t);
  }
  steps_release (l);
  loop_audit_write (l);
  take_stall (l);
  error = store_error (l->store);
  if (error)
    loop_fail (l, error);
}

/* A node may speak for itself alone.  (Of disks the engine decides.) */
static bool
speaks_for_itself (const struct loop *l, const struct request *r)
{
  const struct cluster_session *s;
  const char *node = NULL; /* that it speaks for; NULL: none that is known */

  if (r->caller.role != ROLE_NODE || r->route->who != WHO_NODE)
    return true;
  if (r->node[0])
    node = r->node;
  else if (strstr (r->route->pattern, "/nodes/{name}"))
    node = r->name;
  else if ((s = cluster_session_find (l->cluster, r->id)) != NULL)
    node = s->rec.node;
  return node == NULL || strcmp (node, r->caller.name) == 0;
}

/* The same for a process with a certificate of its own: for its disk or its array alone. */
static bool
process_speaks_for_itself (const struct loop *l, const struct request *r)
{
  const struct cluster_session *s;
  char own[sizeof r->caller.process], uuid[FORMAT_UUID_TEXT_BYTES];

  if (r->caller.process[0] == '\0' || r->route->process == NULL)
    return true;
  if (strcmp (r->route->process, "disk") == 0) {
    format_uuid (r->uuid, uuid);
    snprintf (own, sizeof own, "disk:%s", uuid);
  }
  else if (strstr (r->route->pattern, "/sessions/{id}")) {
    /* The name in such a path is that of something in the array. */
    s = cluster_session_find (l->cluster, r->id);
    if (s == NULL || s->array == NULL)
      return true; /* of what is gone */
    snprintf (own, sizeof own, "array:%s", s->array->rec.name);
  }
  else
    snprintf (own, sizeof own, "array:%s", r->name);
  return strcmp (r->caller.process, own) == 0;
}

/* The caller shows a certificate that is not in the backup. */
static void
adopt (struct loop *l, const struct request *r)
{
  struct store_txn *t = store_txn_new ();

  auth_adopt (l->auth, t, &r->caller);
  loop_store (l, t);
}

static void
handle (struct loop *l, struct request *r)
{
  const struct refusal *no = &r->refused;
  json_t *body;
  int status;

  if (r->caller.until)
    adopt (l, r);
  if (no->status)
    loop_refuse (l, r, no->status, NULL, no->code, "%s", no->why);
  else if (!auth_still_answered (l->auth, &r->caller, clock_wall_ms ()))
    loop_refuse (l, r, 401, NULL, "login-required",
                 "the login, token or certificate has just been taken back");
  else if (!speaks_for_itself (l, r))
    loop_refuse (l, r, 403, NULL, "forbidden",
                 "a node may speak for itself alone");
  else if (!process_speaks_for_itself (l, r))
    loop_refuse (l, r, 403, NULL, "forbidden", AUTH_OF_PROCESS);
  else if (idempotency_begin (l->idempotency, r, &status, &body))
    loop_answer (l, r, status, body);
  else if (strcmp (r->route->method, "GET") != 0 && etag_differs (l, r))
    loop_refuse (l, r, 412, "If-Match", "changed",
                 "another request has changed it since this ETag was read: "
                 "read it again, and decide again whether to change it");
  else if (r->query.dry_run)
    r->route->preflight (l, r);
  else if (r->route->show)
    loop_answer (l, r, 200, r->route->show (l->cluster));
  else
    r->route->handle (l, r);
}

static void
take_asked (struct loop *l)
{
  struct request *r;

  loop_request_free_spent (l);
  for (;;) {
    pthread_mutex_lock (&l->lock);
    l->hurry = cluster_hurry (l->cluster);
    r = TAILQ_FIRST (&l->asked);
    if (r)
      TAILQ_REMOVE (&l->asked, r, link);
    pthread_mutex_unlock (&l->lock);
    if (r == NULL)
      return;
    if (l->stalled[0]) {
      refuse_stalled (l, r);
      continue;
    }
    TAILQ_INSERT_TAIL (&l->held, r, link);
    handle (l, r);
    pump (l);
  }
}

static void
on_wake (uv_async_t *handle)
{
  struct loop *l = handle->data;

  take_durable (l);
  take_asked (l);
}

static void
store_done (void *opaque)
{
  struct loop *l = opaque;

  uv_async_send (&l->wake);
}

void
loop_note_doubt (struct loop *l)
{
  char text[CLUSTER_DOUBT_BYTES];

  auth_doubt_words (l->auth, text, sizeof text);
  cluster_note_doubt (l->cluster, text);
}

static void
every_second (struct loop *l)
{
  uint64_t wall_ms = clock_wall_ms ();
  json_t *load;
  char *text, room[256], audit[AUDIT_LOG_WORDS_BYTES];

  notify_watchdog ();
  store_room (l->store, room, sizeof room);
  cluster_note_room (l->cluster, room);
  loop_note_doubt (l);
  audit_log_words (auth_audit_log (l->auth), audit, sizeof audit);
  cluster_note_audit (l->cluster, audit);
  loop_audit_write (l); /* retry failed lines */
  history_sample (l->history, l->cluster, wall_ms);
  if (hub_listeners (l->hub) == 0)
    return;
  load = view_load (l->cluster, wall_ms);
  text = alloc_json (load);
  hub_load (l->hub, text);
  free (text);
  json_decref (load);
}

static void
tick_auth (struct loop *l)
{
  struct store_txn *t = store_txn_new ();

  auth_trust_step (l->auth, t, clock_wall_ms ());
  auth_tick (l->auth, t, clock_wall_ms ());
  steps_store (l, t);
  steps_release (l);
}

static void
start_auth (struct loop *l)
{
  struct store_txn *t = store_txn_new ();
  char file[STORE_IDENTITY_BYTES];

  store_identity (l->store, file);
  auth_audit_start (l->auth, t);
  auth_start (l->auth, t, cluster_identity (l->cluster)->backup_wall_ms > 0,
              file, clock_wall_ms ());
  steps_store (l, t);
  steps_release (l);
  loop_note_doubt (l);
}

static void
on_timer (uv_timer_t *handle)
{
  struct loop *l = handle->data;

  /* Input that has come goes first: nobody is found silent whose word is
   * already here.
   */
  take_durable (l);
  take_asked (l);
  if (l->stalled[0]) {
    if (++l->ticks % LOAD_TICKS == 0)
      notify_watchdog ();
    return;
  }
  loop_input (l, NULL);
  l->input.unsaid = steps_unsaid (l);
  cluster_tick (l->cluster, &l->input);
  pump (l);
  if (++l->ticks % LOAD_TICKS == 0)
    every_second (l);
  if (l->ticks % AUTH_TICKS == 0)
    tick_auth (l);
  /* Holes that a flood has left: glibc gives back the end of its heap alone. */
  if (l->ticks % TRIM_TICKS == 0)
    malloc_trim (0);
}

static void
on_signal (uv_signal_t *handle, int signum)
{
  struct loop *l = handle->data;

  log_line (CLUSTER_INFO, "%s: weftd ends",
            signum == SIGTERM ? "SIGTERM" : "SIGINT");
  tick_auth (l);
  uv_stop (&l->uv);
}

/* No new request comes in; steps on their way to the store get there; waiting
 * callers get an answer.
 */
void
loop_end (struct loop *l)
{
  struct request *r;

  pthread_mutex_lock (&l->lock);
  l->stopping = true;
  TAILQ_CONCAT (&l->held, &l->asked, link);
  pthread_mutex_unlock (&l->lock);
  hub_close (l->hub);
  store_close (l->store);
  l->store = NULL;
  /* Unanswered is always allowed; answered without being stored is not. */
  steps_drop (l);
  while ((r = TAILQ_FIRST (&l->held)) != NULL) {
    TAILQ_REMOVE (&l->held, r, link);
    loop_request_deliver (l, r, 503, loop_request_stopping_body ());
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
load_record (void *opaque, const char *kind, const char *key, const char *json,
             char *why, size_t why_size)
{
  struct loop *l = opaque;
  struct cluster_record *r;
  int result = -1;

  if (strcmp (kind, "event") == 0)
    return steps_load_event (l, key, json, why, why_size);
  if (auth_is_kind (kind))
    return auth_load (l->auth, kind, key, json, why, why_size);
  if (strcmp (kind, JOURNAL_KIND) == 0)
    return journal_load (&l->log, key, json, why, why_size);
  if (strcmp (kind, IDEMPOTENCY_KIND) == 0)
    return idempotency_load (l->idempotency, key, json, why, why_size);
  r = alloc_bytes (sizeof *r);
  if (records_parse (kind, key, json, r, why, why_size) == 0 &&
      cluster_load (l->cluster, r, why, why_size) == 0)
    result = 0;
  free (r);
  return result;
}

static int
start (struct loop *l, char *why, size_t why_size)
{
  char reason[512];

  if (store_load (l->store, load_record, l, why, why_size) == -1)
    return -1;
  if (cluster_start (l->cluster, loop_input (l, NULL), reason, sizeof reason) ==
      -1)
    return refuse (why, why_size, "the database makes no sense: %s; %s", reason,
                   STORE_DAMAGED);
  if (store_start (l->store, store_done, l, why, why_size) == -1)
    return -1;
  start_auth (l);
  tick_auth (l); /* finish a rotation before another begins */
  pump (l);
  return 0;
}

struct loop *
loop_new (struct store *store, struct hub *hub, struct auth *auth, char *why,
          size_t why_size)
{
  struct loop *l = alloc_zeroed (sizeof *l);

  l->cluster = cluster_new ();
  if (l->cluster == NULL)
    abort ();
  l->store = store;
  l->hub = hub;
  l->auth = auth;
  l->history = history_new (store);
  l->idempotency = idempotency_new ();
  STAILQ_INIT (&l->pending);
  STAILQ_INIT (&l->spent);
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
  loop_audit_start (l);
  if (start (l, why, why_size) == -1) {
    loop_free (l);
    return NULL;
  }
  return l;
}

void
loop_free (struct loop *l)
{
  if (l == NULL)
    return;
  loop_end (l);
  uv_close ((uv_handle_t *) &l->wake, NULL);
  uv_close ((uv_handle_t *) &l->timer, NULL);
  uv_close ((uv_handle_t *) &l->sigterm, NULL);
  uv_close ((uv_handle_t *) &l->sigint, NULL);
  loop_audit_end (l);
  uv_run (&l->uv, UV_RUN_DEFAULT);
  uv_loop_close (&l->uv);
  loop_request_free_spent (l);
  steps_forget_nodes (l);
  history_free (l->history);
  ring_clear (&l->log);
  idempotency_free (l->idempotency);
  cluster_free (l->cluster);
  pthread_mutex_destroy (&l->lock);
  free (l);
}
