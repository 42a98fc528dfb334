/* routes-preflight.c: ?dry_run=true: what an action would do, found out by its
 * own checks (core/cluster/cluster-preflight.c); and what the loss of members would.
 * Nothing is changed.
 */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "routes-internal.h"
#include "views.h"

static void
answer (struct loop *l, struct request *r, const struct cluster_preflight *f,
        json_t *plan)
{
  loop_answer (l, r, 200, view_preflight (f, plan));
}

void
preflight_create (struct loop *l, struct request *r)
{
  struct cluster *c = loop_cluster (l);
  struct cluster_array *plan = calloc (1, sizeof *plan);
  struct cluster_preflight f;
  struct cluster_input in;
  json_t *view = NULL;

  if (plan == NULL)
    abort ();
  loop_input (l, r, &in);
  cluster_preflight_create (c, &in, r->input, plan, &f);
  if (f.allowed) {
    view = view_array (c, plan, clock_wall_ms ());
    json_object_set_new (view, "waits_for", json_null ());
  }
  answer (l, r, &f, view);
  free (plan);
}

void
preflight_delete (struct loop *l, struct request *r)
{
  struct cluster_preflight f;
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_preflight_delete (loop_cluster (l), &in, r->name, &f);
  answer (l, r, &f, NULL);
}

void
preflight_accept_loss (struct loop *l, struct request *r)
{
  struct cluster_preflight f;
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_preflight_accept_loss (loop_cluster (l), &in, r->name, r->input, &f);
  answer (l, r, &f, NULL);
}

void
preflight_replace (struct loop *l, struct request *r)
{
  struct cluster_preflight f;
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_preflight_replace (loop_cluster (l), &in, r->name, r->member, r->uuid,
                             &f);
  answer (l, r, &f, NULL);
}

void
preflight_cancel (struct loop *l, struct request *r)
{
  struct cluster_preflight f;
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_preflight_cancel (loop_cluster (l), &in, r->name, r->member, &f);
  answer (l, r, &f, NULL);
}

void
preflight_maintain (struct loop *l, struct request *r)
{
  const struct maintain_input *q = r->input;
  struct cluster_preflight f;
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_preflight_maintain (loop_cluster (l), &in, r->name, q->on, q->force,
                              &f);
  answer (l, r, &f, NULL);
}

void
preflight_drain (struct loop *l, struct request *r)
{
  struct cluster_preflight f;
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_preflight_drain (loop_cluster (l), &in, r->name, &f);
  answer (l, r, &f, NULL);
}

void
preflight_remove (struct loop *l, struct request *r)
{
  struct cluster_preflight f;
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_preflight_remove (loop_cluster (l), &in, r->name, &f);
  answer (l, r, &f, NULL);
}

void
preflight_evict (struct loop *l, struct request *r)
{
  struct cluster_preflight f;
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_preflight_evict (loop_cluster (l), &in, r->id, &f);
  answer (l, r, &f, NULL);
}

void
preflight_forget (struct loop *l, struct request *r)
{
  struct cluster_preflight f;
  struct cluster_input in;

  loop_input (l, r, &in);
  cluster_preflight_forget (loop_cluster (l), &in, r->uuid, &f);
  answer (l, r, &f, NULL);
}

/* ---- The array map: what would the loss of this one cost? ---- */

static void
handle_losing (struct loop *l, struct request *r)
{
  struct cluster *c = loop_cluster (l);
  const struct cluster_array *a = cluster_array_find (c, r->name);
  struct cluster_preflight f = { 0 };
  bool which[ARRAY_MEMBERS_MAX] = { false };
  char why[200];

  if (a == NULL) {
    snprintf (why, sizeof why,
              "there is no array %s: GET /api/v1/arrays lists them", r->name);
    loop_answer (l, r, 404, view_error (404, NULL, "unknown-array", why));
    return;
  }
  if (r->query.given & QUERY_NODE)
    cluster_array_on_node (a, r->query.node, which);
  if ((r->query.given & QUERY_MEMBER) && r->query.member < a->layout.members)
    which[r->query.member] = true;
  else if ((r->query.given & QUERY_MEMBER) || !r->query.given) {
    snprintf (why, sizeof why, "give a member of array %s, 0 to %u, or a node",
              r->name, a->layout.members - 1);
    loop_answer (l, r, 400, view_error (400, "member", "parameter", why));
    return;
  }
  cluster_array_losing (c, a, which, &f);
  loop_answer (l, r, 200, view_losing (&f));
}

const struct route routes_preflight[] = {
  { "GET", V1 "/arrays/{name}/losing", .query = QUERY_MEMBER | QUERY_NODE,
    .handle = handle_losing },
  { NULL },
};
