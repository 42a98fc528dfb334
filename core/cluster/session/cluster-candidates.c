/* cluster-candidates.c: selects the process that serves an array's service.
 *
 * An array's service is a list of nodes, the candidates.  A process of each
 * asks to serve; one is admitted, by an attach as any writer, and the others
 * stand by: their request waits, and is repeated every SERVICE_WAIT_MS. The
 * serving process is replaced when it has detached, is silent for its TTL, or
 * its own node says that it has ended.  Then it is the turn of
 *
 * - the node that an administrator has ordered the service to;
 * - a node without a member of the array, because the loss of a node with
 *   members would be two losses in one;
 * - the node that stands first in the list.
 *
 * A node that a client could not reach recently comes after those
 * (cluster-reach.c), and a node in maintenance or being drained last.  If no
 * process serves, a candidate gives better ones SERVICE_SETTLE_MS to come; a
 * better one that comes later does not replace the serving process.
 */

#include <config.h>

#include <stdio.h>
#include <string.h>

#include "cluster-session.h"

unsigned
cluster_candidate_find (const struct cluster_array *a, const char *node)
{
  unsigned i = 0;

  while (i < a->rec.service_nodes && strcmp (a->rec.service_node[i], node) != 0)
    i++;
  return i;
}

bool
cluster_service_stands_by (const struct cluster *c,
                           const struct cluster_array *a, unsigned i)
{
  const struct cluster_session *s = cluster_array_writer (a);
  uint64_t asked_ms = a->stands[i].asked_live_ms;

  /* The serving process has asked recently, too. */
  return asked_ms && c->live_ms < asked_ms + STANDBY_MS &&
         !(s && s->rec.service &&
           strcmp (s->rec.node, a->rec.service_node[i]) == 0);
}

bool
cluster_service_beside (const struct cluster_array *a, const char *node)
{
  for (unsigned m = 0; m < a->layout.members; m++)
    if (a->rec.member[m].state == MEMBER_IN_SYNC &&
        strcmp (a->disk[m]->rec.node, node) == 0)
      return true;
  return false;
}

void
cluster_candidate_asked (struct cluster *c, struct cluster_array *a, unsigned i,
                         const char *instance)
{
  uint64_t *asked_ms = &a->stands[i].asked_live_ms;

  /* A process that was started since does not show whether weftd was cut off.
   */
  if (!cluster_object_text_copy (a->stands[i].instance,
                                 sizeof a->stands[i].instance, instance))
    cluster_array_heard (c, a);
  if (*asked_ms == 0 || c->live_ms >= *asked_ms + STANDBY_MS)
    a->stands[i].since_live_ms = c->live_ms;
  *asked_ms = c->live_ms;
}

bool
cluster_candidate_holder_gone (const struct cluster *c,
                               const struct cluster_session *holder,
                               const struct cluster_attach *attach)
{
  return holder == NULL || cluster_session_missed (c, holder) ||
         holder->overdue ||
         (attach->ended == holder->rec.id &&
          strcmp (attach->node, holder->rec.node) == 0 &&
          holder->poll == NULL &&
          cluster_session_silent_ms (c, holder) >= CHALLENGE_MS);
}

unsigned
cluster_candidate_missed (const struct cluster *c,
                          const struct cluster_array *a, const char *server)
{
  unsigned count = 0;

  for (unsigned i = 0; i < SERVICE_UNREACHED_MAX; i++)
    count += a->unreached[i].client[0] &&
             strcmp (a->unreached[i].server, server) == 0 &&
             c->live_ms < a->unreached[i].heard_live_ms + SERVICE_MISSED_MS;
  return count;
}

/* Is the service ordered to this node? */
static bool
ordered (const struct cluster *c, const struct cluster_array *a,
         const char *node)
{
  return strcmp (a->service_to, node) == 0 &&
         c->live_ms < a->service_to_live_ms;
}

unsigned
cluster_candidate_rank (const struct cluster *c, const struct cluster_array *a,
                        unsigned i)
{
  const char *node = a->rec.service_node[i];
  unsigned r = 1 + i;

  if (ordered (c, a, node))
    return 0;
  if (cluster_service_beside (a, node))
    r += SERVICE_NODES_MAX;
  if (cluster_candidate_missed (c, a, node) > 0)
    r += 2 * SERVICE_NODES_MAX;
  if (cluster_node_in_maintenance (c, node) ||
      cluster_node_is_draining (c, node))
    r += 4 * SERVICE_NODES_MAX;
  return r;
}

void
cluster_candidate_order (const struct cluster *c, struct cluster_array *a,
                         const char *node)
{
  snprintf (a->service_to, sizeof a->service_to, "%s", node);
  a->service_to_live_ms = c->live_ms + SERVICE_MOVE_MS;
}

bool
cluster_candidate_turn (const struct cluster *c, const struct cluster_array *a,
                        const struct cluster_attach *attach)
{
  unsigned i = cluster_candidate_find (a, attach->node), other;
  const struct cluster_session *s = NULL;
  const struct waiting *w;
  bool best = true;

  if (i == a->rec.service_nodes)
    return false;
  while ((s = cluster_writer_next (a, s)))
    if (!cluster_candidate_holder_gone (c, s, attach))
      return false;
  TAILQ_FOREACH (w, &c->waitings, link) {
    if (w->array != a)
      continue;
    if (w->kind == WAIT_ATTACH && w->grant->writable)
      return false;
    if (w->kind != WAIT_SERVICE)
      continue;
    other = cluster_candidate_find (a, w->challenge->attach.node);
    if (other < a->rec.service_nodes &&
        cluster_candidate_rank (c, a, other) < cluster_candidate_rank (c, a, i))
      return false;
  }
  for (other = 0; other < a->rec.service_nodes; other++) {
    /* It may be refused at first, and has no question waiting until it asks again. */
    if (other != i && ordered (c, a, a->rec.service_node[other]) &&
        cluster_service_stands_by (c, a, other))
      return false;
    best = best && cluster_candidate_rank (c, a, other) >=
                     cluster_candidate_rank (c, a, i);
  }
  return best || c->live_ms >= a->stands[i].since_live_ms + SERVICE_SETTLE_MS;
}

bool
cluster_candidate_leaves (const struct cluster *c,
                          const struct cluster_array *a,
                          const struct cluster_session *s)
{
  bool here = cluster_candidate_find (a, s->rec.node) < a->rec.service_nodes;

  if (!s->rec.service || s->rec.ended)
    return false;
  if (a->rec.service_nodes == 0)
    return true;
  for (unsigned i = 0; i < a->rec.service_nodes; i++)
    if (cluster_service_stands_by (c, a, i) &&
        (!here || ordered (c, a, a->rec.service_node[i])))
      return true;
  return false;
}

void
cluster_candidate_tick (struct cluster *c, struct cluster_array *a)
{
  for (unsigned i = 0; i < a->rec.service_nodes; i++)
    if (a->stands[i].shown != cluster_service_stands_by (c, a, i)) {
      a->stands[i].shown = !a->stands[i].shown;
      cluster_step_changed_array (c, a);
    }
}
