/* routes-node.c: nodes, what an administrator does with them, which disk is on
 * which, and jobs: see routes.h.
 */

#include <config.h>

#include <stdio.h>
#include <string.h>

#include "routes-internal.h"
#include "views.h"

/* ---- Nodes. ---- */

static void
unknown_node (struct loop *l, struct request *r)
{
  char why[200];

  snprintf (why, sizeof why,
            "there is no node %s: GET /api/v1/nodes lists them", r->name);
  loop_answer (l, r, 404, view_error (404, NULL, "unknown-node", why));
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
  cluster_ok_to_stop (loop_cluster (l), r->name, &f);
  loop_answer (l, r, 200, view_ok_to_stop (r->name, &f));
}

static void
parse_maintain (struct fields *f, struct request *r)
{
  struct maintain_input *q = r->input;

  fields_bool (f, "maintenance", &q->on);
  if (fields_has (f, "force"))
    fields_bool (f, "force", &q->force);
  fields_end (f);
}

static void
handle_maintain (struct loop *l, struct request *r)
{
  const struct maintain_input *q = r->input;
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_node_maintain (loop_cluster (l), &in, r->name, q->on, q->force);
}

static void
handle_drain (struct loop *l, struct request *r)
{
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_node_drain (loop_cluster (l), &in, r->name, true);
}

static void
handle_drain_stop (struct loop *l, struct request *r)
{
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_node_drain (loop_cluster (l), &in, r->name, false);
}

static void
handle_node_remove (struct loop *l, struct request *r)
{
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_node_remove (loop_cluster (l), &in, r->name);
}

/* ---- A disk that is carried to another node. ---- */

static void
parse_disk_move (struct fields *f, struct request *r)
{
  fields_name (f, "node", r->name, sizeof r->name);
  fields_end (f);
}

static void
handle_disk_move (struct loop *l, struct request *r)
{
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_disk_move (loop_cluster (l), &in, r->uuid, r->name);
}

/* ---- Jobs. ---- */

static void
handle_jobs (struct loop *l, struct request *r)
{
  loop_answer (l, r, 200, view_jobs (loop_cluster (l)));
}

static void
handle_job (struct loop *l, struct request *r)
{
  json_t *view = view_job_of_id (loop_cluster (l), r->job);
  char why[300];

  if (view) {
    loop_answer (l, r, 200, view);
    return;
  }
  snprintf (why, sizeof why,
            "there is no job %s (any more): GET /api/v1/jobs "
            "lists them",
            r->job);
  loop_answer (l, r, 404, view_error (404, NULL, "unknown-job", why));
}

const struct route routes_node[] = {
  { "GET", V1 "/nodes", .query = QUERY_PAGE, .list = "nodes", .key = "name",
    .handle = handle_nodes },
  { "GET", V1 "/nodes/{name}", .configuration = etag_node,
    .handle = handle_node },
  { "PATCH", V1 "/nodes/{name}", .has_body = true, .query = QUERY_DRY_RUN,
    .configuration = etag_node, .input = sizeof (struct maintain_input),
    .parse = parse_maintain, .handle = handle_maintain,
    .preflight = preflight_maintain },
  { "DELETE", V1 "/nodes/{name}", .query = QUERY_DRY_RUN,
    .configuration = etag_node, .handle = handle_node_remove,
    .preflight = preflight_remove },
  { "GET", V1 "/nodes/{name}/ok-to-stop", .handle = handle_ok_to_stop },
  { "POST", V1 "/nodes/{name}/drain", .query = QUERY_DRY_RUN,
    .configuration = etag_node, .handle = handle_drain,
    .preflight = preflight_drain },
  { "DELETE", V1 "/nodes/{name}/drain", .configuration = etag_node,
    .handle = handle_drain_stop },
  { "PATCH", V1 "/disks/{uuid}", .has_body = true, .configuration = etag_disk,
    .parse = parse_disk_move, .handle = handle_disk_move },
  { "GET", V1 "/jobs", .query = QUERY_PAGE, .list = "jobs", .key = "id",
    .handle = handle_jobs },
  { "GET", V1 "/jobs/{job}", .handle = handle_job },
  { NULL },
};
