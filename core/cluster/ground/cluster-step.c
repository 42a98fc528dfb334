/* cluster-step.c: makes a step: the records to store, and the outputs that may
 * be sent when these are durable.
 */

#include <config.h>

#include <assert.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-ground.h"

void
cluster_step_begin (struct cluster *c, const struct cluster_input *in)
{
  uint64_t passed = in->now_ms > c->now_ms ? in->now_ms - c->now_ms : 0;

  assert (c->started && c->step == NULL);
  /* The clock goes on with each call, so that a disk which is just heard does not
   * seem silent for longer than it was.
   */
  c->live_ms += passed < 2 * CLUSTER_TICK_MS ? passed : 2 * CLUSTER_TICK_MS;
  c->now_ms = in->now_ms;
  c->wall_ms = in->wall_ms;
  c->step = alloc_zeroed (sizeof *c->step);
  c->step->number = ++c->step_number;
  c->records_room = c->outputs_room = 0;
}

bool
cluster_step_unsaid (const struct cluster *c, uint64_t number)
{
  return c->unsaid && number >= c->unsaid;
}

void
cluster_step_end (struct cluster *c)
{
  struct cluster_step *s = c->step;

  c->step = NULL;
  if (s->records_count || s->outputs_count)
    STAILQ_INSERT_TAIL (&c->steps, s, link);
  else
    cluster_step_free (s);
}

struct cluster_step *
cluster_next_step (struct cluster *c)
{
  struct cluster_step *s = STAILQ_FIRST (&c->steps);

  if (s)
    STAILQ_REMOVE_HEAD (&c->steps, link);
  return s;
}

void
cluster_step_free (struct cluster_step *s)
{
  if (s == NULL)
    return;
  for (size_t i = 0; i < s->outputs_count; i++) {
    free (s->outputs[i].problem);
    free (s->outputs[i].granted);
  }
  free (s->outputs);
  for (size_t i = 0; i < s->records_count; i++)
    free (s->records[i]);
  free (s->records);
  free (s);
}

static void *
grow (void *array, size_t count, size_t *room, size_t size)
{
  if (count == *room) {
    *room = *room ? *room * 2 : 1;
    array = realloc (array, *room * size);
    if (array == NULL)
      abort ();
  }
  return array;
}

size_t
cluster_record_bytes (enum cluster_record_kind kind)
{
  static const size_t bytes[CLUSTER_RECORD_KINDS] = {
    [CLUSTER_RECORD_IDENTITY] = sizeof (struct cluster_identity),
    [CLUSTER_RECORD_DISK] = sizeof (struct cluster_disk_record),
    [CLUSTER_RECORD_ARRAY] = sizeof (struct cluster_array_record),
    [CLUSTER_RECORD_SESSION] = sizeof (struct cluster_session_record),
    [CLUSTER_RECORD_NODE] = sizeof (struct cluster_node_record),
    [CLUSTER_RECORD_JOB] = sizeof (struct cluster_job),
    [CLUSTER_RECORD_VOLUME] = sizeof (struct cluster_volume_record),
    [CLUSTER_RECORD_SPACE] = sizeof (struct cluster_space_record),
  };

  return offsetof (struct cluster_record, identity) + bytes[kind];
}

bool
cluster_record_same (const struct cluster_record *a,
                     const struct cluster_record *b)
{
  if (a->kind != b->kind)
    return false;
  switch (a->kind) {
  case CLUSTER_RECORD_DISK:
    return cluster_uuid_equal (a->disk.uuid, b->disk.uuid);
  case CLUSTER_RECORD_ARRAY:
    return cluster_uuid_equal (a->array.uuid, b->array.uuid);
  case CLUSTER_RECORD_SESSION:
    return a->session.id == b->session.id;
  case CLUSTER_RECORD_NODE:
    return strcmp (a->node.name, b->node.name) == 0;
  case CLUSTER_RECORD_JOB:
    return strcmp (a->job.id, b->job.id) == 0;
  case CLUSTER_RECORD_VOLUME:
    return cluster_uuid_equal (a->volume.uuid, b->volume.uuid);
  case CLUSTER_RECORD_SPACE:
    return cluster_uuid_equal (a->space.array, b->space.array) &&
           a->space.page == b->space.page;
  default:
    return true;
  }
}

static void
put (struct cluster *c, enum cluster_record_kind kind, bool deleted,
     const void *what)
{
  struct cluster_step *s = c->step;
  size_t bytes = cluster_record_bytes (kind), i = 0;
  struct cluster_record *r = malloc (bytes);

  if (r == NULL)
    abort ();
  r->kind = kind;
  r->deleted = deleted;
  memcpy ((char *) r + offsetof (struct cluster_record, identity), what,
          bytes - offsetof (struct cluster_record, identity));
  while (i < s->records_count && !cluster_record_same (s->records[i], r))
    i++;
  if (i < s->records_count)
    free (s->records[i]);
  else
    s->records = grow (s->records, s->records_count++, &c->records_room,
                       sizeof r);
  s->records[i] = r;
}

void
cluster_step_put_identity (struct cluster *c)
{
  put (c, CLUSTER_RECORD_IDENTITY, false, &c->identity);
}

void
cluster_step_put_disk (struct cluster *c, const struct cluster_disk *d)
{
  put (c, CLUSTER_RECORD_DISK, false, &d->rec);
}

void
cluster_step_put_array (struct cluster *c, const struct cluster_array *a)
{
  put (c, CLUSTER_RECORD_ARRAY, false, &a->rec);
}

void
cluster_step_put_session (struct cluster *c, const struct cluster_session *s)
{
  put (c, CLUSTER_RECORD_SESSION, false, &s->rec);
}

void
cluster_step_put_node (struct cluster *c, const struct cluster_node *n)
{
  put (c, CLUSTER_RECORD_NODE, false, &n->rec);
}

void
cluster_step_put_job (struct cluster *c, const struct cluster_job *job)
{
  struct cluster_job r = *job;

  memset (&r.link, 0, sizeof r.link);
  put (c, CLUSTER_RECORD_JOB, false, &r);
}

void
cluster_step_put_volume (struct cluster *c, const struct cluster_volume *v)
{
  put (c, CLUSTER_RECORD_VOLUME, false, &v->rec);
}

void
cluster_step_put_space (struct cluster *c, const struct cluster_space_record *r,
                        bool deleted)
{
  put (c, CLUSTER_RECORD_SPACE, deleted, r);
}

/* uuid and name: NULL: the object has none. */
static struct cluster_output *
output (struct cluster *c, enum cluster_output_kind kind,
        enum cluster_object object, const uint8_t *uuid, uint64_t id,
        const char *name)
{
  struct cluster_step *s = c->step;
  struct cluster_output *o;

  assert (s != NULL);
  s->outputs = grow (s->outputs, s->outputs_count, &c->outputs_room, sizeof *o);
  o = &s->outputs[s->outputs_count++];
  memset (o, 0, sizeof *o);
  o->kind = kind;
  o->object = object;
  o->id = id;
  if (uuid)
    memcpy (o->uuid, uuid, 16);
  if (name)
    snprintf (o->name, sizeof o->name, "%s", name);
  return o;
}

/* An object has one event in a step, with its state at the end of the step. */
static struct cluster_output *
changed (struct cluster *c, enum cluster_object object, const uint8_t *uuid,
         uint64_t id, const char *name)
{
  struct cluster_step *s = c->step;
  struct cluster_output *o;

  for (size_t i = 0; i < s->outputs_count; i++) {
    o = &s->outputs[i];
    if (o->kind == CLUSTER_OUTPUT_CHANGED && o->object == object &&
        o->id == id && (!uuid || cluster_uuid_equal (o->uuid, uuid)) &&
        (object != CLUSTER_NODE || strcmp (o->name, name) == 0))
      return o;
  }
  return output (c, CLUSTER_OUTPUT_CHANGED, object, uuid, id, name);
}

void
cluster_step_changed_disk (struct cluster *c, const struct cluster_disk *d)
{
  changed (c, CLUSTER_DISK, d->rec.uuid, 0, NULL)->disk = d;
}

void
cluster_step_changed_array (struct cluster *c, const struct cluster_array *a)
{
  changed (c, CLUSTER_ARRAY, a->rec.uuid, 0, a->rec.name)->array = a;
}

void
cluster_step_member_moved (struct cluster *c, struct cluster_array *a)
{
  cluster_array_due (c, a, DUE_CHANGE | DUE_MEMBERS);
  cluster_step_changed_array (c, a);
}

void
cluster_step_changed_session (struct cluster *c,
                              const struct cluster_session *s)
{
  changed (c, CLUSTER_SESSION, NULL, s->rec.id, s->rec.array_name)->session =
    s->rec.ended ? NULL : s;
}

void
cluster_step_changed_node (struct cluster *c, const struct cluster_node *n)
{
  changed (c, CLUSTER_NODE, NULL, 0, n->rec.name)->node = n;
}

/* No output of this step may point to what is freed. */
static void
forget_pointers (struct cluster *c, const void *object)
{
  for (size_t i = 0; i < c->step->outputs_count; i++) {
    struct cluster_output *o = &c->step->outputs[i];

    if (o->disk == object)
      o->disk = NULL;
    if (o->array == object)
      o->array = NULL;
    if (o->session == object)
      o->session = NULL;
    if (o->node == object)
      o->node = NULL;
    if (o->volume == object)
      o->volume = NULL;
  }
}

void
cluster_step_drop_disk (struct cluster *c, struct cluster_disk *d)
{
  assert (d->array == NULL);
  put (c, CLUSTER_RECORD_DISK, true, &d->rec);
  changed (c, CLUSTER_DISK, d->rec.uuid, 0, NULL)->disk = NULL;
  forget_pointers (c, d);
  cluster_disk_free (c, d);
}

void
cluster_step_drop_array (struct cluster *c, struct cluster_array *a)
{
  put (c, CLUSTER_RECORD_ARRAY, true, &a->rec);
  changed (c, CLUSTER_ARRAY, a->rec.uuid, 0, a->rec.name)->array = NULL;
  forget_pointers (c, a);
  cluster_array_free (c, a);
}

void
cluster_step_drop_session (struct cluster *c, struct cluster_session *s)
{
  put (c, CLUSTER_RECORD_SESSION, true, &s->rec);
  forget_pointers (c, s);
  cluster_session_free (c, s);
}

void
cluster_step_drop_volume (struct cluster *c, struct cluster_volume *v)
{
  put (c, CLUSTER_RECORD_VOLUME, true, &v->rec);
  forget_pointers (c, v);
}

void
cluster_step_drop_job (struct cluster *c, struct cluster_job *job)
{
  put (c, CLUSTER_RECORD_JOB, true, job);
  TAILQ_REMOVE (&c->ended, job, link);
  free (job);
}

void
cluster_step_drop_node (struct cluster *c, struct cluster_node *n,
                        const char *name)
{
  changed (c, CLUSTER_NODE, NULL, 0, name)->node = NULL;
  if (n == NULL)
    return;
  put (c, CLUSTER_RECORD_NODE, true, &n->rec);
  forget_pointers (c, n);
  TAILQ_REMOVE (&c->nodes, n, link);
  free (n);
}

void
cluster_step_log (struct cluster *c, enum cluster_severity severity,
                  const char *what, const char *name, const char *fmt, ...)
{
  struct cluster_output *o = output (c, CLUSTER_OUTPUT_LOG, 0, NULL, 0, NULL);
  va_list ap;

  o->severity = severity;
  snprintf (o->subject, sizeof o->subject, "%s%s%s", what, *name ? " " : "",
            name);
  va_start (ap, fmt);
  vsnprintf (o->text, sizeof o->text, fmt, ap);
  va_end (ap);
}

/* ---- Replies. ---- */

static struct cluster_output *
reply (struct cluster *c, uint64_t op, enum cluster_reply_kind kind,
       enum cluster_object object, const uint8_t *uuid, uint64_t id,
       const char *name)
{
  struct cluster_output *o = output (c, CLUSTER_OUTPUT_REPLY, object, uuid, id,
                                     name);

  o->op = op;
  o->reply = kind;
  return o;
}

void
cluster_step_reply_disk (struct cluster *c, uint64_t op,
                         const struct cluster_disk *d)
{
  struct cluster_output *o = reply (c, op, CLUSTER_REPLY_DISK, CLUSTER_DISK,
                                    NULL, 0, NULL);

  o->disk = d;
  o->array = d->array;
}

void
cluster_step_reply_array (struct cluster *c, uint64_t op,
                          const struct cluster_array *a)
{
  reply (c, op, CLUSTER_REPLY_ARRAY, CLUSTER_ARRAY, NULL, 0, NULL)->array = a;
}

void
cluster_step_reply_session (struct cluster *c, uint64_t op,
                            enum cluster_reply_kind kind,
                            const struct cluster_array *a,
                            const struct cluster_session *s)
{
  struct cluster_output *o = reply (c, op, kind, CLUSTER_SESSION, NULL,
                                    s->rec.id, NULL);

  o->array = a;
  o->session = s;
}

void
cluster_step_reply_leases (struct cluster *c, uint64_t op,
                           const struct cluster_session *s,
                           const struct cluster_part *granted, unsigned count)
{
  struct cluster_output *o = reply (c, op, CLUSTER_REPLY_LEASES,
                                    CLUSTER_SESSION, NULL, s->rec.id, NULL);

  o->session = s;
  o->granted_count = count;
  if (count == 0)
    return;
  o->granted = alloc_zeroed (count * sizeof *granted);
  memcpy (o->granted, granted, count * sizeof *granted);
}

void
cluster_step_reply_volume (struct cluster *c, uint64_t op,
                           enum cluster_reply_kind kind,
                           const struct cluster_array *a,
                           const struct cluster_volume *v)
{
  struct cluster_output *o = reply (c, op, kind, CLUSTER_VOLUME, v->rec.uuid, 0,
                                    v->rec.name);

  o->array = a;
  o->volume = v;
}

void
cluster_step_reply_node (struct cluster *c, uint64_t op,
                         enum cluster_reply_kind kind,
                         const struct cluster_node *n)
{
  reply (c, op, kind, CLUSTER_NODE, NULL, 0, n->rec.name)->node = n;
}

void
cluster_step_reply_done (struct cluster *c, uint64_t op,
                         enum cluster_object object, const uint8_t uuid[16],
                         uint64_t id, const char *name)
{
  reply (c, op, CLUSTER_REPLY_DONE, object, uuid, id, name);
}

static void fill (struct cluster_problem *p, enum cluster_problem_kind kind,
                  const char *code, const char *fmt, va_list ap)
  __attribute__ ((format (printf, 4, 0)));

static void
fill (struct cluster_problem *p, enum cluster_problem_kind kind,
      const char *code, const char *fmt, va_list ap)
{
  memset (p, 0, sizeof *p);
  p->kind = kind;
  p->code = code;
  vsnprintf (p->detail, sizeof p->detail, fmt, ap);
}

struct cluster_problem *
cluster_step_problem_set (struct cluster_problem *p,
                          enum cluster_problem_kind kind, const char *code,
                          const char *fmt, ...)
{
  va_list ap;

  va_start (ap, fmt);
  fill (p, kind, code, fmt, ap);
  va_end (ap);
  return p;
}

/* A reply that is a problem, which the caller fills in. */
static struct cluster_problem *
problem (struct cluster *c, uint64_t op)
{
  struct cluster_output *o = reply (c, op, CLUSTER_REPLY_PROBLEM, 0, NULL, 0,
                                    NULL);

  return o->problem = alloc_zeroed (sizeof *o->problem);
}

void
cluster_step_problem_send (struct cluster *c, uint64_t op,
                           const struct cluster_problem *p)
{
  *problem (c, op) = *p;
}

struct cluster_problem *
cluster_step_refuse (struct cluster *c, uint64_t op,
                     enum cluster_problem_kind kind, const char *code,
                     const char *fmt, ...)
{
  struct cluster_problem *p = problem (c, op);
  va_list ap;

  va_start (ap, fmt);
  fill (p, kind, code, fmt, ap);
  va_end (ap);
  return p;
}

struct cluster_problem *
cluster_step_defer (struct cluster *c, uint64_t op,
                    enum cluster_problem_kind kind, const char *code,
                    uint64_t retry_ms, const char *fmt, ...)
{
  struct cluster_problem *p = problem (c, op);
  va_list ap;

  va_start (ap, fmt);
  fill (p, kind, code, fmt, ap);
  va_end (ap);
  p->retry = true;
  p->retry_after_ms = retry_ms;
  return p;
}

void
cluster_step_problem_holder (struct cluster_problem *p,
                             const struct cluster_session_record *holder,
                             uint64_t silent_ms)
{
  p->holder = holder->id;
  memcpy (p->holder_node, holder->node, sizeof p->holder_node);
  p->holder_pid = holder->pid;
  p->holder_silent_ms = silent_ms;
}

struct cluster_array *
cluster_step_array_or_refuse (struct cluster *c, uint64_t op, const char *name)
{
  struct cluster_array *a = cluster_array_find (c, name);

  if (a == NULL)
    cluster_step_refuse (c, op, CLUSTER_NOT_FOUND, "unknown-array",
                         "there is no array %s: GET /api/v1/arrays lists them",
                         name);
  return a;
}

bool
cluster_step_restoring (const struct cluster *c)
{
  const struct cluster_array *a;

  TAILQ_FOREACH (a, &c->arrays, link)
    if (a->rec.restoring)
      return true;
  return false;
}

bool
cluster_step_refuse_restoring (struct cluster *c, uint64_t op,
                               const struct cluster_array *a)
{
  if (!a->rec.restoring)
    return false;
  cluster_step_defer (
    c, op, CLUSTER_UNAVAILABLE, "restoring", HEARTBEAT_MS,
    "array %s is not restored from the backup yet: %.640s", a->rec.name,
    a->waits[0] ? a->waits : "its members have not spoken yet");
  return true;
}

struct cluster_problem *
cluster_step_refuse_read_only (struct cluster *c, uint64_t op)
{
  return c->read_only[0] ? cluster_step_refuse (c, op, CLUSTER_UNAVAILABLE,
                                                "read-only", "%s", c->read_only)
                         : NULL;
}

void
cluster_step_set_read_only (struct cluster *c, const char *fmt, ...)
{
  char what[256];
  va_list ap;
  struct waiting *w, *next;

  if (c->read_only[0])
    return;
  va_start (ap, fmt);
  vsnprintf (what, sizeof what, fmt, ap);
  va_end (ap);
  snprintf (
    c->read_only, sizeof c->read_only,
    "weftd's database is older than its members (%s), so weftd takes no "
    "changes. If it is a backup that was put back: stop weftd, run "
    "weftd --restore FILE with a file of weftctl backup, and start "
    "weftd again",
    what);
  cluster_step_log (c, CLUSTER_ERROR, "weftd", "", "%s.", c->read_only);
  /* All waiting attaches are refused: an old database grants nothing. */
  TAILQ_FOREACH_SAFE (w, &c->waitings, link, next) {
    cluster_step_refuse_read_only (c, w->op);
    cluster_wait_end (c, w);
  }
}
