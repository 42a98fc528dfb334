/* cluster-service.c: an administrator's orders about an array's service.  The
 * choice of the serving process: cluster-candidates.c.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cluster-inputs.h"

/* The array, if weftd takes changes; else NULL, and that is refused. */
static struct cluster_array *
find (struct cluster *c, uint64_t op, const char *name)
{
  struct cluster_array *a = cluster_step_array_or_refuse (c, op, name);

  return a && !cluster_step_refuse_read_only (c, op) ? a : NULL;
}

/* The array, if it has a service; else NULL, and that is refused. */
static struct cluster_array *
find_served (struct cluster *c, uint64_t op, const char *name)
{
  struct cluster_array *a = find (c, op, name);

  if (a && a->rec.service_nodes == 0) {
    cluster_step_refuse (
      c, op, CLUSTER_CONFLICT, "no-service",
      "array %s has no service: name the nodes that may serve it "
      "first (weftctl array service %s --on NODE,...)",
      name, name);
    return NULL;
  }
  return a;
}

static void
done (struct cluster *c, uint64_t op, struct cluster_array *a)
{
  cluster_step_put_array (c, a);
  cluster_step_changed_array (c, a);
  /* the serving process may have to get the news */
  cluster_array_due (c, a, DUE_MEMBERS);
  cluster_step_reply_array (c, op, a);
}

/* "n1, n2" */
static void
name_nodes (const struct cluster_array *a, char *text, size_t size)
{
  size_t used = 0;

  for (unsigned i = 0; i < a->rec.service_nodes && used + 100 < size; i++)
    used += (size_t) snprintf (text + used, size - used, "%s%s", i ? ", " : "",
                               a->rec.service_node[i]);
}

/* A serving process writes the array: so a candidate gets that right.  False:
 * refused, because there is no room in the array's list.
 */
static bool
allow_candidates (struct cluster *c, uint64_t op, struct cluster_array *a,
                  const struct cluster_service *service)
{
  struct cluster_allow_list list = a->rec.allow;
  struct cluster_allow allow = { .writable = true };

  for (unsigned i = 0; i < service->nodes; i++) {
    memcpy (allow.node, service->node[i], sizeof allow.node);
    if (cluster_allowed (a, allow.node, true) ||
        cluster_access_put (&list, &allow))
      continue;
    cluster_step_refuse (c, op, CLUSTER_CONFLICT, "too-many",
                         "%d nodes at most may attach array %s: deny it to one "
                         "before node %s is to serve it",
                         ALLOW_NODES_MAX, a->rec.name, allow.node);
    return false;
  }
  for (unsigned i = 0; i < service->nodes; i++)
    if (!cluster_allowed (a, service->node[i], true)) {
      a->rec.allow_fence = cluster_fence_number_next (c);
      cluster_step_log (c, CLUSTER_INFO, "array", a->rec.name,
                        "Node %s may attach array %s for writing, to serve it.",
                        service->node[i], a->rec.name);
    }
  a->rec.allow = list;
  return true;
}

/* Several write the array, or are about to.  A host of theirs that attaches again would be
 * sent to the service, which waits until all the others have gone.
 */
static bool
refuse_shared (struct cluster *c, uint64_t op, const struct cluster_array *a)
{
  const struct cluster_session_record *by = NULL;
  const struct cluster_session *s = NULL;
  const struct waiting *w;

  while (by == NULL && (s = cluster_writer_next (a, s)))
    by = s->rec.part.length > 0 ? &s->rec : NULL;
  TAILQ_FOREACH (w, &c->waitings, link)
    if (by == NULL && w->kind == WAIT_ATTACH && w->array == a &&
        w->grant->part.length > 0)
      by = w->grant;
  if (by == NULL)
    return false;
  cluster_step_problem_holder (
    cluster_step_refuse (
      c, op, CLUSTER_CONFLICT, "held",
      "array %s is shared %s, by node %s, process %" PRIu64
      ": it can't be served as well; detach it on each host that "
      "shares it first (weftctl session ls says which do)",
      a->rec.name, by->leases ? "by leases" : "in parts", by->node, by->pid),
    by, s ? cluster_session_silent_ms (c, s) : 0);
  return true;
}

/* Its clients are those of its volumes, and are not served by several nodes yet. */
static bool
refuse_pool (struct cluster *c, uint64_t op, const struct cluster_array *a)
{
  if (a->pool == NULL)
    return false;
  cluster_step_refuse (c, op, CLUSTER_CONFLICT, "pool",
                       "array %s is a pool, and a pool has no service: one "
                       "process attaches it, and serves its volumes",
                       a->rec.name);
  return true;
}

void
cluster_service_set (struct cluster *c, const struct cluster_input *in,
                     const char *array, const struct cluster_service *service)
{
  struct cluster_array *a;
  char text[400];

  cluster_step_begin (c, in);
  a = find (c, in->op, array);
  if (a && !refuse_pool (c, in->op, a) && !refuse_shared (c, in->op, a) &&
      allow_candidates (c, in->op, a, service)) {
    a->rec.service_nodes = service->nodes;
    memcpy (a->rec.service_node, service->node, sizeof a->rec.service_node);
    memset (a->stands, 0, sizeof a->stands);
    a->service_to[0] = '\0';
    name_nodes (a, text, sizeof text);
    cluster_step_log (c, CLUSTER_INFO, "array", array,
                      "Array %s is served by one of these nodes: %s.", array,
                      text);
    done (c, in->op, a);
  }
  cluster_pump_end (c);
}

bool
cluster_service_drop_refused (struct cluster *c, uint64_t op, const char *array)
{
  return find_served (c, op, array) == NULL;
}

void
cluster_service_drop (struct cluster *c, const struct cluster_input *in,
                      const char *array)
{
  struct cluster_array *a = cluster_array_find (c, array);

  cluster_step_begin (c, in);
  if (!cluster_service_drop_refused (c, in->op, array)) {
    a->rec.service_nodes = 0;
    memset (a->rec.service_node, 0, sizeof a->rec.service_node);
    memset (a->stands, 0, sizeof a->stands);
    cluster_step_log (c, CLUSTER_INFO, "array", array,
                      "Array %s has no service any more.", array);
    done (c, in->op, a);
  }
  cluster_pump_end (c);
}

void
cluster_service_move (struct cluster *c, const struct cluster_input *in,
                      const char *array, const char *node)
{
  const struct cluster_session *s;
  struct cluster_array *a;
  unsigned i;

  cluster_step_begin (c, in);
  a = find_served (c, in->op, array);
  i = a ? cluster_candidate_find (a, node) : 0;
  s = a ? cluster_array_writer (a) : NULL;
  if (a == NULL)
    ;
  else if (i == a->rec.service_nodes)
    cluster_step_refuse (
      c, in->op, CLUSTER_CONFLICT, "no-candidate",
      "node %s is no candidate of the service of array %s: name "
      "it among the nodes that may serve it",
      node, array);
  else if (s && s->rec.service && strcmp (s->rec.node, node) == 0)
    cluster_step_reply_array (c, in->op, a);
  else if (!cluster_service_stands_by (c, a, i))
    cluster_step_refuse (
      c, in->op, CLUSTER_CONFLICT, "no-standby",
      "no process of node %s stands by to serve array %s: start "
      "one there (systemctl start weft-service@%s)",
      node, array, array);
  else {
    cluster_candidate_order (c, a, node);
    cluster_step_log (c, CLUSTER_INFO, "array", array,
                      "The service of array %s moves to node %s.", array, node);
    done (c, in->op, a);
  }
  cluster_pump_end (c);
}
