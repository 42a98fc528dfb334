/* steps.c: the engine's steps on their way out: see loop.h.
 *
 * A step that is pending holds its answers and events as JSON, made when the
 * engine was in that state.  Events are stored with the records of their step.
 */

#include <config.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "common/clock.h"
#include "etag.h"
#include "fields.h"
#include "idempotency.h"
#include "journal.h"
#include "log.h"
#include "loop-internal.h"
#include "list-page.h"
#include "records.h"
#include "replies.h"
#include "routes.h"
#include "common/refuse.h"
#include "text.h"
#include "views.h"

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
  uint64_t step; /* its number; 0: it is none of the engine's */
  bool durable;
  struct answer *answers;
  struct event *events;
  struct line *lines;
  size_t answers_count, events_count, lines_count;
};

/* A node's last event. */
struct node {
  TAILQ_ENTRY (node) link;
  char name[NAME_BYTES_MAX + 1];
  char *said;
};

#define APPEND(p, list, value)                                                 \
  do {                                                                         \
    (p)->list = alloc_list ((p)->list, (p)->list##_count + 1,                  \
                            sizeof *(p)->list);                                \
    (p)->list[(p)->list##_count++] = (value);                                  \
  } while (0)

static void
pending_free (struct pending *p)
{
  for (size_t i = 0; i < p->events_count; i++)
    free (p->events[i].data);
  for (size_t i = 0; i < p->lines_count; i++)
    free (p->lines[i].text);
  free (p->events);
  free (p->lines);
  free (p->answers);
  free (p);
}

static char *
dump (json_t *json)
{
  char *text = alloc_json (json);

  json_decref (json);
  return text;
}

/* Its record is {"name": ..., "data": ...}: the kind of an event is not in its
 * data.
 */
static void
add_event (struct loop *l, struct pending *p, struct store_txn *t,
           const char *name, json_t *data)
{
  struct event e = { .id = ++l->last_event, .name = name, .data = dump (data) };
  char key[STORE_KEY_BYTES];

  snprintf (key, sizeof key, STORE_NUMBER, e.id);
  store_txn_add (t, "event", key,
                 alloc_print ("{\"name\":\"%s\",\"data\":%s}", e.name, e.data));
  if (e.id > EVENTS_MAX) {
    snprintf (key, sizeof key, STORE_NUMBER, e.id - EVENTS_MAX);
    store_txn_add (t, "event", key, NULL);
  }
  APPEND (p, events, e);
}

/* Send an event for a node when its view, except its load, has changed.  view:
 * the present one.
 */
static void
add_node (struct loop *l, struct pending *p, struct store_txn *t,
          const char *name, json_t *view)
{
  struct node *n;
  json_t *still = json_copy (view);
  char *said;

  json_object_del (still, "load");
  said = dump (still);
  TAILQ_FOREACH (n, &l->nodes, link)
    if (strcmp (n->name, name) == 0)
      break;
  if (n == NULL) {
    n = alloc_zeroed (sizeof *n);
    snprintf (n->name, sizeof n->name, "%s", name);
    TAILQ_INSERT_TAIL (&l->nodes, n, link);
  }
  if (n->said && strcmp (said, n->said) == 0) {
    free (said);
    return;
  }
  free (n->said);
  n->said = said;
  add_event (l, p, t, "node", json_incref (view));
}

static void
forget_node (struct loop *l, struct node *n)
{
  TAILQ_REMOVE (&l->nodes, n, link);
  free (n->said);
  free (n);
}

static void
refresh_nodes (struct loop *l, struct pending *p, struct store_txn *t)
{
  json_t *list = view_nodes (l->cluster, loop_auth (l)), *view;
  struct node *n, *next;
  size_t i;

  json_array_foreach (list, i, view)
    add_node (l, p, t, json_string_value (json_object_get (view, "name")),
              view);
  json_decref (list);
  TAILQ_FOREACH_SAFE (n, &l->nodes, link, next) {
    if (cluster_node_known (l->cluster, n->name))
      continue;
    add_event (l, p, t, "node",
               json_pack ("{ss sb}", "name", n->name, "deleted", 1));
    forget_node (l, n);
  }
}

/* The event for an object that is gone. */
static json_t *
view_gone (const struct cluster_output *o)
{
  switch (o->object) {
  case CLUSTER_DISK:
    return json_pack ("{so sb}", "uuid", text_uuid (o->uuid), "deleted", 1);
  case CLUSTER_ARRAY:
    return json_pack ("{ss so sb}", "name", o->name, "uuid",
                      text_uuid (o->uuid), "deleted", 1);
  case CLUSTER_SESSION:
    return json_pack ("{so ss sb}", "id", text_session (o->id), "array",
                      o->name, "deleted", 1);
  case CLUSTER_NODE:
    return json_pack ("{ss sb}", "name", o->name, "deleted", 1);
  case CLUSTER_VOLUME:
    return json_pack ("{ss so sb}", "name", o->name, "uuid",
                      text_uuid (o->uuid), "deleted", 1);
  }
  abort ();
}

static void
add_changed (struct loop *l, struct pending *p, struct store_txn *t,
             const struct cluster_output *o)
{
  static const char *const names[] = { [CLUSTER_DISK] = "disk",
                                       [CLUSTER_ARRAY] = "array",
                                       [CLUSTER_SESSION] = "session" };
  const struct cluster *c = l->cluster;

  if (o->object != CLUSTER_NODE) /* refresh_nodes tells of it */
    add_event (l, p, t, names[o->object],
               o->disk      ? view_disk (c, o->disk)
               : o->array   ? view_array (c, o->array)
               : o->session ? view_session (c, o->session)
                            : view_gone (o));
}

static void
add_log (struct loop *l, struct pending *p, struct store_txn *t,
         const struct cluster_output *o)
{
  static const char *const severities[] = { "info", "warning", "error" };
  struct line line = { .severity = o->severity };
  json_t *said;

  line.text = alloc_copy (o->text);
  APPEND (p, lines, line);
  said = fields_object ((const struct field_value[]) {
    { "at", text_time (clock_wall_ms ()) },
    { "severity", text_string (severities[o->severity]) },
    { "subject", text_string (o->subject) },
    { "text", text_string (o->text) },
    { NULL } });
  add_event (l, p, t, "log", json_incref (said));
  journal_add (&l->log, l->last_event, said, t);
}

static json_t *
reply_body (struct loop *l, struct store_txn *t, const struct cluster_output *o,
            struct request *r, int *status)
{
  const struct cluster *c = l->cluster;
  struct cluster_job job;

  *status = r->route->makes ? 201 : 200;
  if (r->route->reply && o->reply != CLUSTER_REPLY_PROBLEM)
    return r->route->reply (l, r, o, t, status);
  switch (o->reply) {
  case CLUSTER_REPLY_PROBLEM:
    return view_problem (o->problem, status);
  case CLUSTER_REPLY_DISK:
    return view_disk (c, o->disk);
  case CLUSTER_REPLY_ARRAY:
    return view_array (c, o->array);
  case CLUSTER_REPLY_GRANT:
    return reply_grant (c, o->array, o->session);
  case CLUSTER_REPLY_SESSION:
    return reply_session (c, o->array, o->session, 0, false);
  case CLUSTER_REPLY_NODE:
    return view_node (c, loop_auth (l), o->name);
  case CLUSTER_REPLY_JOB:
    *status = 202;
    cluster_job_drain (c, o->node, &job);
    return view_job (&job);
  case CLUSTER_REPLY_DONE:
    if (o->object == CLUSTER_SESSION)
      return json_pack ("{so sb}", "session", text_session (o->id), "deleted",
                        1);
    return view_gone (o);
  case CLUSTER_REPLY_VOLUME:
    return view_volume (c, o->array, o->volume);
  case CLUSTER_REPLY_LEASES: /* their routes have replies of their own */
  case CLUSTER_REPLY_OPENED:
  case CLUSTER_REPLY_VOLUMES:
  case CLUSTER_REPLY_SCANNED:
    break;
  }
  abort ();
}

/* This goes out instead of the answer. */
static void
replace_answer (struct answer *answer, int status, json_t *body)
{
  json_decref (answer->body);
  free (answer->request->text);
  answer->request->text = NULL;
  answer->request->headers[0] = '\0';
  answer->status = status;
  answer->body = body;
}

/* A node that was revoked while it waited gets nothing more. */
static void
deny_if_revoked (struct loop *l, struct answer *answer)
{
  const struct caller *caller = &answer->request->caller;

  if (caller->via != VIA_CERTIFICATE ||
      auth_still_answered (l->auth, caller, clock_wall_ms ()))
    return;
  replace_answer (answer, 401,
                  view_error (401, NULL, "login-required", AUTH_REVOKED));
}

static void
send_answer (struct loop *l, const struct answer *answer)
{
  TAILQ_REMOVE (&l->held, answer->request, link);
  loop_request_deliver (l, answer->request, answer->status, answer->body);
}

/* Send out what is at the head of the queue and durable. */
void
steps_release (struct loop *l)
{
  struct pending *p;

  while ((p = STAILQ_FIRST (&l->pending)) != NULL && p->durable) {
    STAILQ_REMOVE_HEAD (&l->pending, link);
    for (size_t i = 0; i < p->events_count; i++)
      hub_publish (l->hub, p->events[i].id, p->events[i].name,
                   p->events[i].data);
    for (size_t i = 0; i < p->lines_count; i++)
      log_line (p->lines[i].severity, "%s", p->lines[i].text);
    for (size_t i = 0; i < p->answers_count; i++) {
      deny_if_revoked (l, &p->answers[i]);
      send_answer (l, &p->answers[i]);
    }
    pending_free (p);
  }
}

void
steps_refuse (struct loop *l, int status, const char *code, const char *why)
{
  struct pending *p;

  STAILQ_FOREACH (p, &l->pending, link) {
    for (size_t i = 0; i < p->answers_count; i++) {
      replace_answer (&p->answers[i], status,
                      view_error (status, NULL, code, why));
      send_answer (l, &p->answers[i]);
    }
    p->answers_count = 0;
  }
}

uint64_t
steps_unsaid (const struct loop *l)
{
  const struct pending *p;

  STAILQ_FOREACH (p, &l->pending, link)
    if (p->step)
      return p->step;
  return 0;
}

/* To be sent when what stands in `t` is durable. */
static void
queue (struct loop *l, struct pending *p, struct store_txn *t)
{
  STAILQ_INSERT_TAIL (&l->pending, p, link);
  if (t->count > 0 || t->dumps) {
    t->owner = p;
    store_submit (l->store, t);
  }
  else {
    store_txn_free (t);
    p->durable = true;
  }
}

/* With what goes along with every answer. */
static void
add_answer (struct loop *l, struct pending *p, struct store_txn *t,
            const struct answer *answer)
{
  auth_audit (l->auth, t, answer->request, answer->status, clock_wall_ms ());
  etag_add (l, answer->request, answer->status);
  idempotency_answer (l->idempotency, answer->request, clock_wall_ms (),
                      answer->status, answer->body, t);
  APPEND (p, answers, *answer);
}

void
steps_queue (struct loop *l, struct cluster_step *step)
{
  struct pending *p = alloc_zeroed (sizeof *p);
  struct store_txn *t = store_txn_new ();
  bool changed = false;

  p->step = step->number;
  for (size_t i = 0; i < step->records_count; i++)
    records_add (t, step->records[i]);
  for (size_t i = 0; i < step->outputs_count; i++) {
    const struct cluster_output *o = &step->outputs[i];
    struct answer answer;

    switch (o->kind) {
    case CLUSTER_OUTPUT_REPLY:
      answer.request = (struct request *) (uintptr_t) o->op;
      answer.body = reply_body (l, t, o, answer.request, &answer.status);
      add_answer (l, p, t, &answer);
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
  queue (l, p, t);
}

void
loop_answer_stored (struct loop *l, struct request *r, int status, json_t *body,
                    struct store_txn *t)
{
  struct pending *p = alloc_zeroed (sizeof *p);
  struct answer answer = { .request = r, .status = status, .body = body };

  if (t == NULL)
    t = store_txn_new ();
  add_answer (l, p, t, &answer);
  queue (l, p, t);
}

void
steps_store (struct loop *l, struct store_txn *t)
{
  queue (l, alloc_zeroed (sizeof (struct pending)), t);
}

void
loop_store (struct loop *l, struct store_txn *t)
{
  steps_store (l, t);
}

void
steps_durable (struct store_txn *t)
{
  struct pending *p = t->owner;

  p->durable = true;
  if (t->dump && p->answers_count == 1) {
    p->answers[0].request->text = t->dump;
    t->dump = NULL;
  }
  store_txn_free (t);
}

void
steps_drop (struct loop *l)
{
  struct pending *p;

  while ((p = STAILQ_FIRST (&l->pending)) != NULL) {
    STAILQ_REMOVE_HEAD (&l->pending, link);
    for (size_t i = 0; i < p->answers_count; i++)
      json_decref (p->answers[i].body);
    pending_free (p);
  }
}

void
steps_forget_nodes (struct loop *l)
{
  struct node *n;

  while ((n = TAILQ_FIRST (&l->nodes)) != NULL)
    forget_node (l, n);
}

int
steps_load_event (struct loop *l, const char *key, const char *json, char *why,
                  size_t why_size)
{
  static const char *const names[] = { "node", "disk", "array", "session",
                                       "log" };
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
    return refuse (why, why_size, "it is no event");
  }
  text = alloc_json (data);
  hub_publish (l->hub, id, known, text);
  l->last_event = id;
  if (strcmp (known, "log") == 0)
    journal_load_event (&l->log, id, data);
  free (text);
  json_decref (object);
  return 0;
}

void
loop_answer (struct loop *l, struct request *r, int status, json_t *body)
{
  if (r->route->list && status == 200)
    body = list_page_cut (r->route, &r->query, body);
  loop_answer_stored (l, r, status, body, NULL);
}

void
loop_refuse (struct loop *l, struct request *r, int status, const char *field,
             const char *code, const char *fmt, ...)
{
  char why[512];
  va_list ap;

  va_start (ap, fmt);
  vsnprintf (why, sizeof why, fmt, ap);
  va_end (ap);
  loop_answer_stored (l, r, status, view_error (status, field, code, why),
                      NULL);
}
