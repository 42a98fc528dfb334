/* routes-array.c: arrays as wholes: see routes.h.  A route's two functions
 * stand together: the first reads the body, the second runs on the loop.
 */

#include <config.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "allow.h"
#include "common/clock.h"
#include "routes-internal.h"

void
route_array_parse_disks (struct fields *f, struct cluster_create *create)
{
  const json_t *list;
  size_t count;

  if (!fields_has (f, "disks")) {
    fields_fail (f, "disks",
                 "field disks is missing: give the UUIDs of the disks, in the "
                 "order of their positions");
    return;
  }
  list = fields_get (f, "disks");
  count = json_array_size (list);
  if (!json_is_array (list) || count == 0 || count > ARRAY_MEMBERS_MAX) {
    fields_fail (f, "disks", "field disks must be a list of 1 to %d UUIDs",
                 ARRAY_MEMBERS_MAX);
    return;
  }
  create->members = (unsigned) count;
  for (size_t i = 0; i < count; i++) {
    const char *text = json_string_value (json_array_get (list, i));

    if (text == NULL || format_uuid_parse (text, create->disk[i]) == -1)
      fields_fail (f, "disks",
                   "element %zu of field disks must be a UUID in lower case",
                   i);
  }
}

#define AT(member) FIELD_AT (cluster_create, member)
static const struct field create_fields[] = {
  { "name", FIELD_NAME, AT (name) },
  { "layout", FIELD_WORD, AT (layout), .parse = layout_parse,
    .words = LAYOUT_NAMES },
  { "unit", FIELD_NUMBER, AT (unit), .optional = true, .min = UNIT_BYTES_MIN,
    .max = UNIT_BYTES_MAX },
  { "groups", FIELD_NUMBER, AT (groups), .optional = true, .min = 1,
    .max = ARRAY_GROUPS_MAX },
  { "dup", FIELD_WORD, AT (dup), .optional = true, .parse = array_dup_parse,
    .words = "async-client, sync-client" },
  { "force", FIELD_BOOL, AT (force), .optional = true },
  { "pool", FIELD_BOOL, AT (pool), .optional = true },
  { "segment_bytes", FIELD_NUMBER, AT (segment_bytes), .optional = true,
    .min = POOL_SEGMENT_BYTES_MIN, .max = POOL_SEGMENT_BYTES_MAX },
  { NULL },
};
#undef AT

static void
parse_create (struct fields *f, struct request *r)
{
  struct cluster_create *create = r->input;

  create->unit = UNIT_BYTES_DEFAULT;
  create->groups = 1;
  create->dup = DUP_ASYNC_CLIENT;
  fields_take (f, create_fields, create);
  snprintf (r->subject, sizeof r->subject, "%s%s", create->name,
            create->force ? ", by force" : "");
  route_array_parse_disks (f, create);
  if (create->segment_bytes && !create->pool)
    fields_fail (f, "segment_bytes",
                 "field segment_bytes belongs to a pool: give pool, too");
  if (fields_has (f, "allow"))
    allow_take_list (f, "allow", &create->allow);
  fields_end (f);
}

ROUTE_CALL (handle_create, cluster_array_create, r->input)

static void
preflight_create (struct loop *l, struct request *r)
{
  struct cluster *c = loop_cluster (l);
  struct cluster_array *plan = alloc_zeroed (sizeof *plan);
  struct cluster_preflight f;
  json_t *view = NULL;

  cluster_preflight_create (c, loop_input (l, r), r->input, plan, &f);
  if (f.allowed) {
    view = view_array (c, plan);
    json_object_set_new (view, "waits_for", json_null ());
  }
  loop_answer (l, r, 200, view_preflight (&f, view));
  free (plan);
}

static void
handle_arrays (struct loop *l, struct request *r)
{
  loop_answer (l, r, 200, view_arrays (loop_cluster (l)));
}

const struct cluster_array *
route_array_of_path (struct loop *l, struct request *r)
{
  const struct cluster_array *a = cluster_array_find (loop_cluster (l),
                                                      r->name);

  if (a == NULL)
    loop_refuse (l, r, 404, NULL, "unknown-array",
                 "there is no array %s: GET /api/v1/arrays lists them",
                 r->name);
  return a;
}

static void
handle_array (struct loop *l, struct request *r)
{
  const struct cluster_array *a = route_array_of_path (l, r);

  if (a)
    loop_answer (l, r, 200, view_array (loop_cluster (l), a));
}

static void
handle_bad_ranges (struct loop *l, struct request *r)
{
  const struct cluster_array *a = route_array_of_path (l, r);

  if (a)
    loop_answer (l, r, 200, view_bad_ranges (a, SIZE_MAX));
}

/* For the page's map of the array: what would the loss of this one cost? */
static void
handle_losing (struct loop *l, struct request *r)
{
  const struct cluster_array *a = route_array_of_path (l, r);
  struct cluster_preflight f = { 0 };
  bool which[ARRAY_MEMBERS_MAX] = { false };

  if (a == NULL)
    return;
  if (r->query.given & QUERY_NODE)
    cluster_copies_on_node (a, r->query.node, which);
  if ((r->query.given & QUERY_MEMBER) && r->query.member < a->layout.members)
    which[r->query.member] = true;
  else if ((r->query.given & QUERY_MEMBER) || !r->query.given) {
    loop_refuse (l, r, 400, "member", "parameter",
                 "give a member of array %s, 0 to %u, or a node", r->name,
                 a->layout.members - 1);
    return;
  }
  cluster_preflight_losing (loop_cluster (l), a, which, &f);
  loop_answer (l, r, 200, view_losing (&f));
}

static void
parse_loss (struct fields *f, struct request *r)
{
  struct cluster_loss *loss = r->input;
  const json_t *list = fields_has (f, "ranges") ? fields_get (f, "ranges")
                                                : NULL;
  struct fields g;

  loss->count = json_array_size (list);
  if (loss->count == 0 || loss->count > LOSS_RANGES_MAX)
    fields_fail (f, "ranges",
                 "field ranges must be a list of 1 to %d ranges of the array's "
                 "bad ranges, each {\"offset\", \"length\"}",
                 LOSS_RANGES_MAX);
  for (unsigned i = 0; i < loss->count && !f->failed; i++) {
    uint64_t *offset = &loss->range[i].offset, *length = &loss->range[i].length;

    fields_begin (&g, json_array_get (list, i));
    fields_u64 (&g, "offset", 0, INT64_MAX, offset);
    fields_u64 (&g, "length", 1, INT64_MAX, length);
    fields_end (&g);
    if (g.failed)
      fields_fail (f, "ranges", "ranges[%u]: %.200s", i, g.why);
    else if (*offset % BAD_BLOCK_BYTES || *length % BAD_BLOCK_BYTES)
      fields_fail (f, "ranges", "ranges[%u] must be whole blocks of %d bytes",
                   i, BAD_BLOCK_BYTES);
  }
  fields_end (f);
}

ROUTE_CALL (handle_accept_loss, cluster_array_accept_loss, r->name, r->input)
ROUTE_PREFLIGHT (preflight_accept_loss, cluster_preflight_accept_loss, r->name,
                 r->input)

ROUTE_CALL (handle_array_delete, cluster_array_delete, r->name)
ROUTE_PREFLIGHT (preflight_delete, cluster_preflight_delete, r->name)

static void
parse_array_tune (struct fields *f, struct request *r)
{
  struct cluster_array_tune *tune = r->input;
  const uint64_t most = SPARE_AFTER_MS_MAX / 1000;
  uint64_t spare = 0, slow = 0;

  tune->has_slow_out = fields_has (f, "slow_out_s");
  tune->has_spare_after = fields_has (f, "spare_after_s");
  if (tune->has_spare_after)
    fields_u64 (f, "spare_after_s", 0, most, &spare);
  if (tune->has_slow_out)
    fields_u64 (f, "slow_out_s", 0, most, &slow);
  if (!tune->has_spare_after && !tune->has_slow_out)
    fields_fail (f, "spare_after_s",
                 "both fields are missing: give spare_after_s or slow_out_s");
  fields_end (f);
  tune->spare_after_ms = spare * 1000;
  tune->slow_out_ms = slow * 1000;
}

ROUTE_CALL (handle_array_tune, cluster_array_tune, r->name, r->input)

static void
parse_allow (struct fields *f, struct request *r)
{
  struct cluster_allow *allow = r->input;

  strcpy (allow->node, r->node);
  if (!fields_has (f, "mode"))
    fields_fail (f, "mode", "field mode is missing: say rw or ro");
  allow_take (f, allow);
  fields_end (f);
  snprintf (r->subject, sizeof r->subject, "%s for %s, %s%s", r->name, r->node,
            allow_mode_word (allow->writable),
            allow->failover ? ", failover" : "");
}

static void
handle_allow (struct loop *l, struct request *r)
{
  char by[AUTH_CALLER_BYTES];

  auth_caller_words (&r->caller, by);
  cluster_allow_set (loop_cluster (l), loop_input (l, r), r->name, r->input,
                     by);
}

static void
handle_deny (struct loop *l, struct request *r)
{
  char by[AUTH_CALLER_BYTES];

  auth_caller_words (&r->caller, by);
  cluster_allow_drop (loop_cluster (l), loop_input (l, r), r->name, r->node,
                      by);
}

ROUTE_PREFLIGHT (preflight_allow, cluster_preflight_allow, r->name, r->input,
                 false)

static void
preflight_deny (struct loop *l, struct request *r)
{
  struct cluster_allow none = { .writable = false };
  struct cluster_preflight f;

  strcpy (none.node, r->node);
  cluster_preflight_allow (loop_cluster (l), loop_input (l, r), r->name, &none,
                           true, &f);
  loop_answer (l, r, 200, view_preflight (&f, NULL));
}

/* A node that wants to use the service says so, and the answer says whether it
 * may.
 */
static bool
refuse_client (struct loop *l, struct request *r, const struct cluster_array *a)
{
  bool writable = r->query.attach_writable;
  char why[500];

  if (!(r->query.given & QUERY_ATTACH) || r->caller.role != ROLE_NODE ||
      cluster_allowed (a, r->caller.name, writable))
    return false;
  cluster_allowed_why (a, r->caller.name, writable, why, sizeof why);
  loop_refuse (l, r, 403, NULL, "not-allowed", "%s", why);
  return true;
}

/* A node that may use the service, and no one else, says whether it reaches it. */
static void
hear_client (struct loop *l, struct request *r)
{
  unsigned needs = QUERY_REACHED | QUERY_ATTACH | QUERY_NODE;
  const char *node = auth_login_required (loop_auth (l)) ? r->caller.name
                                                         : r->query.node;

  if ((r->query.given & needs) == needs &&
      (r->caller.role == ROLE_NODE || !auth_login_required (loop_auth (l))))
    cluster_service_heard (loop_cluster (l), loop_input (l, r), r->name, node,
                           r->query.session, r->query.reached);
}

static void
handle_service (struct loop *l, struct request *r)
{
  const struct cluster_array *a = route_array_of_path (l, r);

  if (a == NULL || refuse_client (l, r, a))
    return;
  /* Nobody has enrolled, but a fence must find it. */
  if (r->query.given & QUERY_NODE && !auth_login_required (loop_auth (l)))
    cluster_node_asks (loop_cluster (l), loop_input (l, r), r->query.node);
  hear_client (l, r);
  loop_answer (l, r, 200, view_service (loop_cluster (l), a));
}

static void
parse_service (struct fields *f, struct request *r)
{
  struct cluster_service *service = r->input;

  fields_names (f, "nodes", 1, SERVICE_NODES_MAX, service->node,
                &service->nodes);
  fields_end (f);
}

ROUTE_CALL (handle_service_set, cluster_service_set, r->name, r->input)
ROUTE_CALL (handle_service_drop, cluster_service_drop, r->name)
ROUTE_PREFLIGHT (preflight_service_drop, cluster_preflight_service_drop,
                 r->name)

static void
parse_service_move (struct fields *f, struct request *r)
{
  fields_name (f, "node", r->input, NAME_BYTES_MAX + 1);
  fields_end (f);
}

ROUTE_CALL (handle_service_move, cluster_service_move, r->name, r->input)

const struct route routes_array[] = {
  { "GET", V1 "/arrays", .query = QUERY_PAGE, .list = "arrays", .key = "name",
    .handle = handle_arrays },
  { "POST", V1 "/arrays", .makes = true,
    .input = sizeof (struct cluster_create), .parse = parse_create,
    .handle = handle_create, .preflight = preflight_create },
  { "GET", V1 "/arrays/{name}", .configuration = etag_array,
    .handle = handle_array },
  { "GET", V1 "/arrays/{name}/bad-ranges", .query = QUERY_PAGE,
    .list = "bad_ranges", .key = "offset", .handle = handle_bad_ranges },
  { "GET", V1 "/arrays/{name}/losing", .query = QUERY_MEMBER | QUERY_NODE,
    .handle = handle_losing },
  { "POST", V1 "/arrays/{name}/accept-loss",
    .input = sizeof (struct cluster_loss), .parse = parse_loss,
    .handle = handle_accept_loss, .preflight = preflight_accept_loss },
  { "PATCH", V1 "/arrays/{name}", .configuration = etag_array,
    .input = sizeof (struct cluster_array_tune), .parse = parse_array_tune,
    .handle = handle_array_tune },
  { "DELETE", V1 "/arrays/{name}", .configuration = etag_array,
    .handle = handle_array_delete, .preflight = preflight_delete },
  { "PUT", V1 "/arrays/{name}/allow/{node}", .configuration = etag_array,
    .input = sizeof (struct cluster_allow), .parse = parse_allow,
    .handle = handle_allow, .preflight = preflight_allow },
  { "DELETE", V1 "/arrays/{name}/allow/{node}", .configuration = etag_array,
    .handle = handle_deny, .preflight = preflight_deny },
  { "GET", V1 "/arrays/{name}/service", .process = "array",
    .query = QUERY_ATTACH | QUERY_NODE | QUERY_REACHED,
    .handle = handle_service },
  { "PUT", V1 "/arrays/{name}/service", .configuration = etag_array,
    .input = sizeof (struct cluster_service), .parse = parse_service,
    .handle = handle_service_set },
  { "DELETE", V1 "/arrays/{name}/service", .configuration = etag_array,
    .handle = handle_service_drop, .preflight = preflight_service_drop },
  { "POST", V1 "/arrays/{name}/service/move", .input = NAME_BYTES_MAX + 1,
    .parse = parse_service_move, .handle = handle_service_move },
  { NULL },
};
