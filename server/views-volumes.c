/* views-volumes.c: pools and their volumes: see views.h. */

#include <config.h>

#include <stdlib.h>

#include "fields.h"
#include "text.h"
#include "views.h"

/* A figure that its process has reported, or null. */
static json_t *
said (const struct cluster_volume *v, uint64_t value)
{
  return v->heard ? text_number (value) : json_null ();
}

json_t *
view_volume (const struct cluster *c, const struct cluster_array *a,
             const struct cluster_volume *v)
{
  const struct cluster_volume_said *s = &v->said;
  uint64_t segment = a->rec.segment_bytes;

  return fields_object ((const struct field_value[]) {
    { "name", text_string (v->rec.name) },
    { "array", text_string (a->rec.name) },
    { "uuid", text_uuid (v->rec.uuid) },
    { "root", json_integer (v->rec.root) },
    { "size", text_number (v->rec.size) },
    { "state", text_string (cluster_volume_state_word (v->rec.state)) },
    { "created_at", text_time (v->rec.since_wall_ms) },
    { "granted_bytes", text_number (v->segments * segment) },
    { "mapped_bytes", said (v, s->mapped * segment) },
    { "present_bytes", said (v, s->blocks * (segment / POOL_BLOCKS)) },
    { "log_bytes", said (v, s->log * segment) },
    { "spare_bytes", said (v, s->spare * segment) },
    { "clients", said (v, s->clients) },
    { "waiting", said (v, s->waiting) },
    { "problem", v->rec.reason[0] ? text_string (v->rec.reason)
                 : s->why[0]      ? text_string (s->why)
                                  : json_null () },
    { NULL } });
}

json_t *
view_volumes (const struct cluster *c, const struct cluster_array *a)
{
  json_t *list = json_array ();
  const struct cluster_volume *v;

  TAILQ_FOREACH (v, &a->pool->volumes, link)
    json_array_append_new (list, view_volume (c, a, v));
  return list;
}

json_t *
view_pool (const struct cluster_array *a)
{
  struct cluster_pool_figures f;

  if (a->pool == NULL)
    return json_null ();
  cluster_pool_figures (a, &f);
  return fields_object ((const struct field_value[]) {
    { "state", text_string (cluster_pool_state_word (a->rec.pool)) },
    { "segment_bytes", text_number (a->rec.segment_bytes) },
    { "volumes", json_integer (a->pool->volumes_count) },
    { "volumes_max", json_integer (a->pool->geometry.roots) },
    { "total_bytes", text_number (f.total) },
    { "free_bytes", text_number (f.free) },
    { "granted_bytes", text_number (f.granted) },
    { "mapped_bytes", text_number (f.mapped) },
    { "log_bytes", text_number (f.log) },
    { "spare_bytes", text_number (f.spare) },
    { "promised_bytes", text_number (f.promised) },
    { NULL } });
}

/* ---- For the process that has the pool. ---- */

json_t *
view_held_volume (const struct cluster_volume *v)
{
  return fields_object ((const struct field_value[]) {
    { "uuid", text_uuid (v->rec.uuid) },
    { "name", text_string (v->rec.name) },
    { "root", json_integer (v->rec.root) },
    { "size", text_number (v->rec.size) },
    { "new", json_boolean (v->rec.state < CLUSTER_VOLUME_MADE) },
    { NULL } });
}

static json_t *
runs (const struct cluster_run *list, unsigned count)
{
  json_t *array = json_array ();

  for (unsigned i = 0; i < count; i++)
    json_array_append_new (array, json_pack ("[II]", (json_int_t) list[i].first,
                                             (json_int_t) list[i].count));
  return array;
}

json_t *
view_opened (const struct cluster_volume *v, const struct cluster_run *list,
             unsigned count)
{
  return json_pack ("{so so}", "volume", view_held_volume (v), "runs",
                    runs (list, count));
}

json_t *
view_granted (const struct cluster_session *s)
{
  const struct cluster_volume *v = NULL;
  json_t *list = json_array ();

  while ((v = cluster_volume_granted (s, s->rec.volumes, v)))
    json_array_append_new (
      list, json_pack ("{so so}", "volume", text_uuid (v->rec.uuid), "granted",
                       runs (v->rec.grant, v->rec.granted)));
  return json_pack ("{so so}", "number", text_number (s->rec.volumes),
                    "volumes", list);
}

json_t *
view_orders (const struct cluster_array *a)
{
  static const char *const words[] = {
    [CLUSTER_VOLUME_RESIZE] = "resize", [CLUSTER_VOLUME_DELETE] = "delete"
  };
  const struct cluster_volume **ordered;
  json_t *list = json_array ();
  unsigned count;

  ordered = cluster_volume_orders (a, &count);
  for (unsigned i = 0; i < count; i++) {
    const struct cluster_volume *v = ordered[i];
    json_t *order;

    order = json_pack ("{so so ss}", "order", text_number (v->order.number),
                       "volume", view_held_volume (v), "do",
                       words[v->order.what]);
    if (v->order.what == CLUSTER_VOLUME_RESIZE)
      json_object_set_new (order, "size", text_number (v->order.size));
    json_array_append_new (list, order);
  }
  free (ordered);
  return list;
}
