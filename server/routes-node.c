/* routes-node.c: nodes, what an administrator does with them, which disk is on
 * which, and jobs: see routes.h.
 */

#include <config.h>

#include "routes-internal.h"

/* ---- Nodes. ---- */

static void
unknown_node (struct loop *l, struct request *r)
{
  loop_refuse (l, r, 404, NULL, "unknown-node",
               "there is no node %s: GET /api/v1/nodes lists them", r->name);
}

static void
handle_nodes (struct loop *l, struct request *r)
{
  loop_answer (l, r, 200, view_nodes (loop_cluster (l), loop_auth (l)));
}

static void
handle_node (struct loop *l, struct request *r)
{
  json_t *view = view_node (loop_cluster (l), loop_auth (l), r->name);

  if (view)
    loop_answer (l, r, 200, view);
  else
    unknown_node (l, r);
}

static void
handle_ok_to_stop (struct loop *l, struct request *r)
{
  struct cluster_preflight f;

  if (!cluster_node_known (loop_cluster (l), r->name)) {
    unknown_node (l, r);
    return;
  }
  cluster_preflight_ok_to_stop (loop_cluster (l), r->name, &f);
  loop_answer (l, r, 200, view_ok_to_stop (r->name, &f));
}

struct maintain_input {
  bool on, force;
};

static void
parse_maintain (struct fields *f, struct request *r)
{
  struct maintain_input *q = r->input;

  fields_bool (f, "maintenance", &q->on);
  if (fields_has (f, "force"))
    fields_bool (f, "force", &q->force);
  fields_end (f);
}

static const struct maintain_input *
maintain_of (const struct request *r)
{
  return r->input;
}

ROUTE_CALL (handle_maintain, cluster_node_maintain, r->name,
            maintain_of (r)->on, maintain_of (r)->force)
ROUTE_PREFLIGHT (preflight_maintain, cluster_preflight_maintain, r->name,
                 maintain_of (r)->on, maintain_of (r)->force)

ROUTE_CALL (handle_drain, cluster_node_drain, r->name, true)
ROUTE_PREFLIGHT (preflight_drain, cluster_preflight_drain, r->name)
ROUTE_CALL (handle_drain_stop, cluster_node_drain, r->name, false)

static void
fence (struct loop *l, struct request *r, bool on)
{
  char by[AUTH_CALLER_BYTES];

  auth_caller_words (&r->caller, by);
  cluster_node_fence (loop_cluster (l), loop_input (l, r), r->name, on, by);
}

static void
handle_fence (struct loop *l, struct request *r)
{
  fence (l, r, true);
}

static void
handle_fence_end (struct loop *l, struct request *r)
{
  fence (l, r, false);
}

ROUTE_PREFLIGHT (preflight_fence, cluster_preflight_fence, r->name)

ROUTE_CALL (handle_node_remove, cluster_node_remove, r->name)
ROUTE_PREFLIGHT (preflight_remove, cluster_preflight_remove, r->name)

/* ---- A disk that is carried to another node. ---- */

static void
parse_disk_move (struct fields *f, struct request *r)
{
  fields_name (f, "node", r->name, sizeof r->name);
  fields_end (f);
}

ROUTE_CALL (handle_disk_move, cluster_disk_move, r->uuid, r->name)

/* ---- Jobs. ---- */

static void
handle_job (struct loop *l, struct request *r)
{
  json_t *view = view_job_of_id (loop_cluster (l), r->job);

  if (view)
    loop_answer (l, r, 200, view);
  else
    loop_refuse (l, r, 404, NULL, "unknown-job",
                 "there is no job %s (any more): GET /api/v1/jobs lists them",
                 r->job);
}

/* Its certificates go with it. */
static json_t *
reply_remove (struct loop *l, struct request *r, const struct cluster_output *o,
              struct store_txn *t, int *status)
{
  auth_forget_node (loop_auth (l), t, o->name);
  return json_pack ("{ss sb}", "name", o->name, "deleted", 1);
}

const struct route routes_node[] = {
  { "GET", V1 "/nodes", .query = QUERY_PAGE, .list = "nodes", .key = "name",
    .handle = handle_nodes },
  { "GET", V1 "/nodes/{name}", .configuration = etag_node,
    .handle = handle_node },
  { "PATCH", V1 "/nodes/{name}", .configuration = etag_node,
    .input = sizeof (struct maintain_input), .parse = parse_maintain,
    .handle = handle_maintain, .preflight = preflight_maintain },
  { "DELETE", V1 "/nodes/{name}", .configuration = etag_node,
    .handle = handle_node_remove, .preflight = preflight_remove,
    .reply = reply_remove },
  { "GET", V1 "/nodes/{name}/ok-to-stop", .handle = handle_ok_to_stop },
  { "POST", V1 "/nodes/{name}/drain", .configuration = etag_node,
    .handle = handle_drain, .preflight = preflight_drain },
  { "DELETE", V1 "/nodes/{name}/drain", .configuration = etag_node,
    .handle = handle_drain_stop },
  { "POST", V1 "/nodes/{name}/fence", .handle = handle_fence,
    .preflight = preflight_fence },
  { "DELETE", V1 "/nodes/{name}/fence", .handle = handle_fence_end },
  { "PATCH", V1 "/disks/{uuid}", .configuration = etag_disk,
    .parse = parse_disk_move, .handle = handle_disk_move },
  { "GET", V1 "/jobs", .query = QUERY_PAGE, .list = "jobs", .key = "id",
    .show = view_jobs },
  { "GET", V1 "/jobs/{job}", .handle = handle_job },
  { NULL },
};
