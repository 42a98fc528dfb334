/* views-node.c: nodes, jobs, and what an action would do: see views.h. */

#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "auth.h"
#include "fields.h"
#include "text.h"
#include "views.h"

/* ---- Nodes: as disks and sessions report them, and an administrator's
 * settings.
 */

/* Its disks, how many are alive, and the one that spoke last of its load. */
static json_t *
node_disks (const struct cluster *c, const char *name, json_int_t *alive,
            const struct cluster_disk **newest)
{
  json_t *list = json_array ();
  const struct cluster_disk *d;

  TAILQ_FOREACH (d, cluster_disks (c), link) {
    if (strcmp (d->rec.node, name) != 0)
      continue;
    json_array_append_new (list, text_uuid (d->rec.uuid));
    *alive += d->alive;
    if (d->alive && d->load_ms && (!*newest || d->load_ms > (*newest)->load_ms))
      *newest = d;
  }
  return list;
}

static json_t *
node_sessions (const struct cluster *c, const char *name, json_int_t *alive)
{
  json_t *list = json_array ();
  const struct cluster_session *s;

  TAILQ_FOREACH (s, cluster_sessions (c), link)
    if (!s->rec.ended && strcmp (s->rec.node, name) == 0) {
      json_array_append_new (list, text_session (s->rec.id));
      *alive += s->alive;
    }
  return list;
}

/* The members that somebody must do something for before they can leave. */
static json_t *
node_stays (const struct cluster *c, const char *name)
{
  json_t *list = json_array ();
  struct cluster_stay *stays;
  size_t count;
  bool moving;

  stays = cluster_node_stays (c, name, &count, &moving);
  for (size_t i = 0; i < count; i++)
    if (!stays[i].passes)
      json_array_append_new (
        list, json_pack ("{ss sI so}", "array", stays[i].array->rec.name,
                         "member", (json_int_t) stays[i].member, "waits",
                         text_string (stays[i].waits)));
  free (stays);
  return list;
}

json_t *
view_node (const struct cluster *c, struct auth *auth, const char *name)
{
  static const struct cluster_node_record none;
  const struct cluster_node *n = cluster_node_find (c, name);
  const struct cluster_node_record *r = n ? &n->rec : &none;
  const struct cluster_disk *newest = NULL;
  json_int_t disks_alive = 0, sessions_alive = 0;
  json_t *disks, *sessions;
  uint64_t expires_ms = 0;
  bool enrolled;
  char waits[CLUSTER_WAITS_BYTES];

  if (!cluster_node_known (c, name))
    return NULL;
  disks = node_disks (c, name, &disks_alive, &newest);
  sessions = node_sessions (c, name, &sessions_alive);
  enrolled = auth_node_certificate (auth, name, &expires_ms);
  return fields_object ((const struct field_value[]) {
    { "name", text_string (name) },
    { "alive", json_boolean (disks_alive + sessions_alive > 0) },
    { "maintenance", json_boolean (r->maintenance) },
    { "maintenance_since",
      text_time (r->maintenance ? r->maintenance_wall_ms : 0) },
    { "draining", json_boolean (r->draining) },
    { "draining_since", text_time (r->draining ? r->draining_wall_ms : 0) },
    { "drained", json_boolean (r->draining && cluster_node_drained (c, name)) },
    { "waits", cluster_node_waits (c, name, waits, sizeof waits, NULL)
                 ? text_string (waits)
                 : json_null () },
    { "stays", r->draining ? node_stays (c, name) : json_array () },
    { "enrolled", json_boolean (enrolled) },
    { "certificate_expires", text_time (enrolled ? expires_ms : 0) },
    { "addresses", auth_node_addresses (auth, name) },
    { "disks", disks },
    { "disks_alive", json_integer (disks_alive) },
    { "sessions", sessions },
    { "sessions_alive", json_integer (sessions_alive) },
    { "load", newest ? view_disk_load (newest) : json_null () },
    { "fenced", json_boolean (r->fenced) },
    { "fenced_since", text_time (r->fenced ? r->fenced_wall_ms : 0) },
    { NULL } });
}

static void
add_node (const struct cluster *c, struct auth *auth, json_t *list,
          json_t *seen, const char *name)
{
  if (json_object_get (seen, name))
    return;
  json_object_set_new (seen, name, json_true ());
  json_array_append_new (list, view_node (c, auth, name));
}

json_t *
view_nodes (const struct cluster *c, struct auth *auth)
{
  json_t *list = json_array (), *seen = json_object ();
  const struct cluster_node *n;
  const struct cluster_disk *d;
  const struct cluster_session *s;

  TAILQ_FOREACH (n, cluster_nodes (c), link)
    if (!n->rec.removed)
      add_node (c, auth, list, seen, n->rec.name);
  TAILQ_FOREACH (d, cluster_disks (c), link)
    add_node (c, auth, list, seen, d->rec.node);
  TAILQ_FOREACH (s, cluster_sessions (c), link)
    if (!s->rec.ended)
      add_node (c, auth, list, seen, s->rec.node);
  json_decref (seen);
  return list;
}

/* ---- Jobs. ---- */

json_t *
view_job (const struct cluster_job *job)
{
  return fields_object ((const struct field_value[]) {
    { "id", text_string (job->id) },
    { "kind", text_string (cluster_job_kind_word (job->kind)) },
    { "subject", text_string (job->subject) },
    { "state", text_string (cluster_job_state_word (job->state)) },
    { "done_bytes", text_number (job->done_bytes) },
    { "total_bytes", text_number (job->total_bytes) },
    { "rate", text_number (job->rate) },
    { "eta_ms", job->eta_ms ? text_number (job->eta_ms) : json_null () },
    { "waits", text_or_null (job->waits) },
    { "since", text_time (job->since_wall_ms) },
    { "ended", text_time (job->ended_wall_ms) },
    { NULL } });
}

json_t *
view_jobs (const struct cluster *c)
{
  json_t *list = json_array ();
  size_t count;
  struct cluster_job *jobs = cluster_jobs (c, &count);

  for (size_t i = 0; i < count; i++)
    json_array_append_new (list, view_job (&jobs[i]));
  free (jobs);
  return list;
}

/* NULL: there is none of this id. */
json_t *
view_job_of_id (const struct cluster *c, const char *id)
{
  json_t *view = NULL;
  size_t count;
  struct cluster_job *jobs = cluster_jobs (c, &count);

  for (size_t i = 0; i < count && view == NULL; i++)
    if (strcmp (jobs[i].id, id) == 0)
      view = view_job (&jobs[i]);
  free (jobs);
  return view;
}

/* ---- What an action would do. ---- */

static json_t *
lines (const struct cluster_preflight *f)
{
  json_t *list = json_array ();

  for (unsigned i = 0; i < f->lines_count; i++)
    json_array_append_new (list, text_string (f->line[i]));
  return list;
}

json_t *
view_preflight (const struct cluster_preflight *f, json_t *plan)
{
  return fields_object ((const struct field_value[]) {
    { "dry_run", json_boolean (1) },
    { "allowed", json_boolean (f->allowed) },
    { "why", f->allowed ? json_null () : text_string (f->why.detail) },
    { "code", f->allowed ? json_null () : json_string (f->why.code) },
    { "confirm", text_string (f->confirm) },
    { "lines", lines (f) },
    { "lost_bytes", text_number (f->lost_bytes) },
    { "unreachable_bytes", text_number (f->unreachable_bytes) },
    { "exposed_bytes", text_number (f->exposed_bytes) },
    { "rebuild_bytes", text_number (f->rebuild_bytes) },
    { "plan", plan ? plan : json_null () },
    { NULL } });
}

json_t *
view_ok_to_stop (const char *node, const struct cluster_preflight *f)
{
  return fields_object ((const struct field_value[]) {
    { "node", text_string (node) },
    { "ok", json_boolean (f->allowed) },
    { "lines", lines (f) },
    { "unavailable_bytes", text_number (f->unreachable_bytes) },
    { "exposed_bytes", text_number (f->exposed_bytes) },
    { NULL } });
}

json_t *
view_losing (const struct cluster_preflight *f)
{
  return json_pack ("{so so so}", "lines", lines (f), "unreachable_bytes",
                    text_number (f->unreachable_bytes), "exposed_bytes",
                    text_number (f->exposed_bytes));
}
