/* routes-volumes.c: volumes of a pool, for people; and for the process that has the pool,
 * which serves them: see routes.h.  A run of segments is [first, count].
 */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "quota.h"
#include "replies.h"
#include "routes-internal.h"

/* ---- For people. ---- */

struct volume_input {
  char name[NAME_BYTES_MAX + 1];
  uint64_t size;
};

static void
parse_volume_create (struct fields *f, struct request *r)
{
  struct volume_input *q = r->input;

  fields_name (f, "name", q->name, sizeof q->name);
  fields_u64 (f, "size", 0, INT64_MAX, &q->size);
  fields_end (f);
  snprintf (r->subject, sizeof r->subject, "%s/%s", r->name, q->name);
}

static void
parse_volume_resize (struct fields *f, struct request *r)
{
  struct volume_input *q = r->input;

  fields_u64 (f, "size", 0, INT64_MAX, &q->size);
  fields_end (f);
}

static struct volume_input *
input_of (const struct request *r)
{
  return r->input;
}

ROUTE_CALL (handle_volume_create, cluster_volume_create, r->name,
            input_of (r)->name, input_of (r)->size)
ROUTE_CALL (handle_volume_resize, cluster_volume_resize, r->name, r->volume,
            input_of (r)->size)
ROUTE_CALL (handle_volume_delete, cluster_volume_delete, r->name, r->volume)
ROUTE_PREFLIGHT (preflight_volume_create, cluster_preflight_volume_create,
                 r->name, input_of (r)->name, input_of (r)->size)
ROUTE_PREFLIGHT (preflight_volume_resize, cluster_preflight_volume_resize,
                 r->name, r->volume, input_of (r)->size)
ROUTE_PREFLIGHT (preflight_volume_delete, cluster_preflight_volume_delete,
                 r->name, r->volume)

/* The pool in the path; NULL: refused. */
static const struct cluster_array *
pool_of_path (struct loop *l, struct request *r)
{
  const struct cluster_array *a = route_array_of_path (l, r);

  if (a == NULL || a->pool)
    return a;
  loop_refuse (l, r, 409, NULL, "not-pool",
               "array %s is no pool, and has no volumes: make a pool with "
               "weftctl array create NAME --pool",
               r->name);
  return NULL;
}

static void
handle_volumes (struct loop *l, struct request *r)
{
  const struct cluster_array *a = pool_of_path (l, r);

  if (a)
    loop_answer (l, r, 200, view_volumes (loop_cluster (l), a));
}

static void
handle_volume (struct loop *l, struct request *r)
{
  const struct cluster_array *a = pool_of_path (l, r);
  const struct cluster_volume *v = a ? cluster_volume_find (a, r->volume)
                                     : NULL;

  if (v)
    loop_answer (l, r, 200, view_volume (loop_cluster (l), a, v));
  else if (a)
    loop_refuse (l, r, 404, NULL, "unknown-volume",
                 "pool %s has no volume %s: weftctl volume ls %s lists them",
                 r->name, r->volume, r->name);
}

/* ---- For the process that has the pool.  It need not be of the same version, so there is
 * no fields_end.
 */

struct opening_input {
  char instance[CLUSTER_INSTANCE_BYTES];
};

static void
parse_opening (struct fields *f, struct request *r)
{
  struct opening_input *q = r->input;

  route_disk_parse_instance (f, q->instance);
}

static void
handle_opening (struct loop *l, struct request *r)
{
  const struct opening_input *q = r->input;

  cluster_volume_open (loop_cluster (l), loop_input (l, r), r->id, q->instance,
                       r->name);
}

/* A run's JSON takes so much memory until it is sent. */
#define RUN_BYTES 192

/* A volume may be in very many pieces.  Its answer counts like a body of the caller, but as no
 * more than the node may have: so a node gets one very large answer at a time.
 */
static bool
count_runs (struct request *r, unsigned count)
{
  uint64_t bytes = (uint64_t) count * RUN_BYTES;

  if (bytes > QUOTA_NODE_BYTES - r->body_bytes)
    bytes = QUOTA_NODE_BYTES - r->body_bytes;
  if (bytes <= QUOTA_SMALL_BYTES)
    return true;
  if (!quota_begin (&r->caller, QUOTA_BYTES, (unsigned) bytes))
    return false;
  r->body_bytes += (unsigned) bytes; /* http.c ends it */
  return true;
}

static json_t *
reply_opening (struct loop *l, struct request *r,
               const struct cluster_output *o, struct store_txn *t, int *status)
{
  unsigned count;
  struct cluster_run *list = cluster_volume_runs (o->array, o->volume, &count);
  json_t *body;

  if (count_runs (r, count))
    body = view_opened (o->volume, list, count);
  else {
    *status = 503;
    body = view_error (*status, NULL, "busy",
                       "other large answers to this node are under way: ask "
                       "again");
  }
  free (list);
  return body;
}

struct volumes_input {
  struct cluster_volumes_message message;
  struct cluster_volume_report volume[VOLUMES_TOLD_MAX];
  struct cluster_order_done done[VOLUMES_TOLD_MAX];
  struct cluster_run give[VOLUME_RUNS_MAX]; /* of all */
  unsigned gives;
};

/* The list of that name, of at most so many elements; NULL: there is none. */
static const json_t *
list_of (struct fields *f, const char *name, size_t max)
{
  const json_t *list = fields_has (f, name) ? fields_get (f, name) : NULL;

  if (list && (!json_is_array (list) || json_array_size (list) > max)) {
    fields_fail (f, name, "field %s must be a list of at most %zu elements",
                 name, max);
    return NULL;
  }
  return list;
}

static void
segments (struct fields *f, const char *name, uint32_t *value)
{
  uint64_t n = 0;

  if (fields_has (f, name))
    fields_u64 (f, name, 0, UINT32_MAX, &n);
  *value = (uint32_t) n;
}

static void
parse_give (struct fields *f, struct volumes_input *q,
            struct cluster_volume_report *w)
{
  const json_t *list = list_of (f, "give", VOLUME_RUNS_MAX - q->gives), *run;
  uint64_t first, count;
  size_t i;

  w->give = &q->give[q->gives];
  json_array_foreach (list, i, run) {
    if (!json_is_array (run) || json_array_size (run) != 2 ||
        !fields_whole (json_array_get (run, 0), &first) ||
        !fields_whole (json_array_get (run, 1), &count) || first > UINT32_MAX ||
        count > UINT32_MAX) {
      fields_fail (f, "give",
                   "element %zu of field give must be [first, count]", i);
      return;
    }
    w->give[w->give_count++] = (struct cluster_run) { (uint32_t) first,
                                                      (uint32_t) count };
  }
  q->gives += w->give_count;
}

#define AT(member) FIELD_AT (cluster_volume_said, member)
static const struct field said_fields[] = {
  { "made", FIELD_BOOL, AT (made), .optional = true },
  { "size", FIELD_NUMBER, AT (size) },
  { "mapped", FIELD_NUMBER, AT (mapped), .max = POOL_SEGMENTS_MAX },
  { "log", FIELD_NUMBER, AT (log), .max = POOL_SEGMENTS_MAX },
  { "spare", FIELD_NUMBER, AT (spare), .max = POOL_SEGMENTS_MAX },
  { "blocks", FIELD_NUMBER, AT (blocks), .optional = true,
    .max = (uint64_t) POOL_SEGMENTS_MAX * POOL_BLOCKS },
  { "clients", FIELD_NUMBER, AT (clients), .optional = true },
  { "waiting", FIELD_NUMBER, AT (waiting), .optional = true },
  { NULL },
};
#undef AT

static void
parse_said (struct fields *f, struct cluster_volume_report *w)
{
  struct fields g;

  w->says = fields_has (f, "said");
  if (!w->says || !fields_enter (f, "said", &g))
    return;
  fields_take (&g, said_fields, &w->said);
  if (fields_has (&g, "why"))
    fields_prose (&g, "why", w->said.why, sizeof w->said.why);
  fields_leave (f, "said", &g);
}

static void
parse_entries (struct fields *f, struct volumes_input *q)
{
  const json_t *list = list_of (f, "volumes", VOLUMES_TOLD_MAX);
  struct fields g;

  q->message.volumes = (unsigned) json_array_size (list);
  for (unsigned i = 0; i < q->message.volumes && !f->failed; i++) {
    struct cluster_volume_report *w = &q->volume[i];

    fields_begin (&g, json_array_get (list, i));
    fields_uuid (&g, "volume", w->uuid);
    segments (&g, "want", &w->want);
    segments (&g, "log", &w->log);
    segments (&g, "near", &w->near);
    parse_give (&g, q, w);
    parse_said (&g, w);
    if (g.failed)
      fields_fail (f, "volumes", "volumes[%u]: %.200s", i, g.why);
  }
}

static void
parse_dones (struct fields *f, struct volumes_input *q)
{
  const json_t *list = list_of (f, "done", VOLUMES_TOLD_MAX);
  struct fields g;

  q->message.dones = (unsigned) json_array_size (list);
  for (unsigned i = 0; i < q->message.dones && !f->failed; i++) {
    fields_begin (&g, json_array_get (list, i));
    fields_u64 (&g, "order", 1, INT64_MAX, &q->done[i].number);
    if (fields_has (&g, "error"))
      fields_prose (&g, "error", q->done[i].error, sizeof q->done[i].error);
    if (g.failed)
      fields_fail (f, "done", "done[%u]: %.200s", i, g.why);
  }
}

static void
parse_volumes (struct fields *f, struct request *r)
{
  struct volumes_input *q = r->input;

  q->message.volume = q->volume;
  q->message.done = q->done;
  route_disk_parse_instance (f, q->message.instance);
  fields_u64 (f, "number", 0, INT64_MAX, &q->message.number);
  if (fields_has (f, "formatted"))
    fields_bool (f, "formatted", &q->message.formatted);
  parse_entries (f, q);
  parse_dones (f, q);
}

ROUTE_CALL (handle_session_volumes, cluster_session_volumes, r->id, r->input)

static json_t *
reply_volumes (struct loop *l, struct request *r,
               const struct cluster_output *o, struct store_txn *t, int *status)
{
  return view_granted (o->session);
}

/* ---- A scan of the pool. ---- */

/* Elements of a message; and all runs in it. */
#define SCAN_VOLUMES_MAX 1024
#define SCAN_RUNS_MAX 65536

#define AT(member) FIELD_AT (cluster_found, member)
static const struct field found_fields[] = {
  { "uuid", FIELD_UUID, AT (uuid), .optional = true },
  { "name", FIELD_NAME, AT (name), .optional = true },
  { "size", FIELD_NUMBER, AT (size), .optional = true },
  { "kept", FIELD_NUMBER, AT (kept), .optional = true,
    .max = POOL_SEGMENTS_MAX },
  { "why", FIELD_PROSE, AT (why), .optional = true },
  { NULL },
};
#undef AT

static void
parse_found (struct fields *f, struct cluster_found_volume *w, unsigned *left)
{
  const json_t *list, *run;
  uint64_t root = 0, first, count;
  size_t i;

  fields_u64 (f, "root", 0, POOL_ROOTS_MAX - 1, &root);
  w->root = (unsigned) root;
  fields_take (f, found_fields, &w->found);
  list = list_of (f, "runs", *left);
  *left -= json_array_size (list);
  w->run = alloc_list (NULL, json_array_size (list) + 1, sizeof *w->run);
  json_array_foreach (list, i, run) {
    if (json_array_size (run) != 2 ||
        !fields_whole (json_array_get (run, 0), &first) ||
        !fields_whole (json_array_get (run, 1), &count) || first > UINT32_MAX ||
        count > UINT32_MAX) {
      fields_fail (f, "runs",
                   "element %zu of field runs must be [first, count]", i);
      return;
    }
    w->run[w->runs++] = (struct cluster_run) { (uint32_t) first,
                                               (uint32_t) count };
  }
}

static void
parse_scan (struct fields *f, struct request *r)
{
  struct cluster_scan_message *w = r->input;
  unsigned left = SCAN_RUNS_MAX;
  const json_t *list;
  struct fields g;

  route_disk_parse_instance (f, w->instance);
  if (fields_has (f, "begin"))
    fields_bool (f, "begin", &w->begin);
  if (fields_has (f, "end"))
    fields_bool (f, "end", &w->end);
  if (fields_has (f, "segment_bytes"))
    fields_u64 (f, "segment_bytes", POOL_SEGMENT_BYTES_MIN,
                POOL_SEGMENT_BYTES_MAX, &w->segment_bytes);
  list = list_of (f, "volumes", SCAN_VOLUMES_MAX);
  w->volume = alloc_list (NULL, json_array_size (list) + 1, sizeof *w->volume);
  memset (w->volume, 0, (json_array_size (list) + 1) * sizeof *w->volume);
  for (; w->volumes < json_array_size (list) && !f->failed; w->volumes++) {
    fields_begin (&g, json_array_get (list, w->volumes));
    parse_found (&g, &w->volume[w->volumes], &left);
    if (g.failed)
      fields_fail (f, "volumes", "volumes[%u]: %.200s", w->volumes, g.why);
  }
}

static void
forget_scan (void *input)
{
  struct cluster_scan_message *w = input;

  for (unsigned i = 0; i < w->volumes; i++)
    free (w->volume[i].run);
  free (w->volume);
}

ROUTE_CALL (handle_scan, cluster_session_scan, r->id, r->input)

static json_t *
reply_scan (struct loop *l, struct request *r, const struct cluster_output *o,
            struct store_txn *t, int *status)
{
  return json_pack ("{so}", "pool", reply_pool (o->array, o->session));
}

/* The volumes that it may open, for the list of its exports. */
static void
handle_exports (struct loop *l, struct request *r)
{
  const struct cluster_session *s = cluster_session_find (loop_cluster (l),
                                                          r->id);
  const struct cluster_volume *v;
  json_t *list;

  if (s == NULL || s->rec.ended || s->array == NULL) {
    loop_refuse (l, r, 410, NULL, "over", "there is no such session any more");
    return;
  }
  if (s->array->pool == NULL) {
    loop_refuse (l, r, 409, NULL, "not-pool",
                 "array %s is no pool, and has no volumes", s->rec.array_name);
    return;
  }
  list = json_array ();
  TAILQ_FOREACH (v, &s->array->pool->volumes, link)
    if (v->rec.state != CLUSTER_VOLUME_DELETING)
      json_array_append_new (list, json_pack ("{so so so}", "uuid",
                                              text_uuid (v->rec.uuid), "name",
                                              text_string (v->rec.name), "size",
                                              text_number (v->rec.size)));
  loop_answer (l, r, 200, json_pack ("{so}", "volumes", list));
}

const struct route routes_volumes[] = {
  { "GET", V1 "/arrays/{name}/volumes", .query = QUERY_PAGE, .list = "volumes",
    .key = "name", .handle = handle_volumes },
  { "POST", V1 "/arrays/{name}/volumes", .makes = true,
    .input = sizeof (struct volume_input), .parse = parse_volume_create,
    .handle = handle_volume_create, .preflight = preflight_volume_create },
  { "GET", V1 "/arrays/{name}/volumes/{volume}", .configuration = etag_volume,
    .handle = handle_volume },
  { "PATCH", V1 "/arrays/{name}/volumes/{volume}", .configuration = etag_volume,
    .input = sizeof (struct volume_input), .parse = parse_volume_resize,
    .handle = handle_volume_resize, .preflight = preflight_volume_resize },
  { "DELETE", V1 "/arrays/{name}/volumes/{volume}",
    .configuration = etag_volume, .handle = handle_volume_delete,
    .preflight = preflight_volume_delete },
  { "GET", V1 "/sessions/{id}/volumes", .who = WHO_NODE, .process = "array",
    .query = QUERY_INSTANCE, .handle = handle_exports },
  { "POST", V1 "/sessions/{id}/volumes", .who = WHO_NODE, .process = "array",
    .input = sizeof (struct volumes_input), .parse = parse_volumes,
    .handle = handle_session_volumes, .reply = reply_volumes },
  { "POST", V1 "/sessions/{id}/scan", .who = WHO_NODE, .process = "array",
    .large = true, .input = sizeof (struct cluster_scan_message),
    .parse = parse_scan, .forget = forget_scan, .handle = handle_scan,
    .reply = reply_scan },
  { "POST", V1 "/sessions/{id}/volumes/{name}", .who = WHO_NODE,
    .process = "array", .input = sizeof (struct opening_input),
    .parse = parse_opening, .handle = handle_opening, .reply = reply_opening },
  { NULL },
};
