/* cluster-candidates.c: which process serves an array that has a service.
 *
 * An array's service is a list of nodes, the candidates.  A process of each asks to
 * serve; one is let in, by an attach as any writer, and the others stand by: their
 * question waits, and is asked again every SERVICE_WAIT_MS.  Who serves is replaced
 * when it has detached, is silent for its TTL, or its own node says that its process
 * has ended.  Then it is the turn of
 *
 * - the node that an administrator has ordered the service to;
 * - a node without a member of the array, for the loss of one that has some would be
 *   two in one;
 * - the one that stands first in the list.
 *
 * A node in maintenance or being drained comes last.  Where nobody serves, a candidate
 * gives better ones SERVICE_SETTLE_MS to come; a better one that comes later does not
 * take the service away from who has it.
 */

#include <config.h>

#include <string.h>

#include "cluster-internal.h"

unsigned
cluster_service_find (const struct cluster_array *a, const char *node)
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

  /* Who serves has asked a moment ago, too. */
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
cluster_service_asked (struct cluster *c, struct cluster_array *a, unsigned i,
                       const char *instance)
{
  uint64_t *asked_ms = &a->stands[i].asked_live_ms;

  /* One that was started since tells nothing of whether weftd was cut off. */
  if (!cluster_text_copy (a->stands[i].instance, sizeof a->stands[i].instance,
                          instance))
    cluster_array_heard (c, a);
  if (*asked_ms == 0 || c->live_ms >= *asked_ms + STANDBY_MS)
    a->stands[i].since_live_ms = c->live_ms;
  *asked_ms = c->live_ms;
}

bool
cluster_service_gone (const struct cluster *c,
                      const struct cluster_session *holder,
                      const struct cluster_attach *attach)
{
  return holder == NULL || cluster_session_missed (c, holder) ||
         (attach->ended == holder->rec.id &&
          strcmp (attach->node, holder->rec.node) == 0 &&
          holder->poll == NULL &&
          cluster_session_silent_ms (c, holder) >= CHALLENGE_MS);
}

/* Is the service ordered to this node? */
static bool
ordered (const struct cluster *c, const struct cluster_array *a,
         const char *node)
{
  return strcmp (a->service_to, node) == 0 &&
         c->live_ms < a->service_to_live_ms;
}

/* The less, the better. */
static unsigned
rank (const struct cluster *c, const struct cluster_array *a, unsigned i)
{
  const char *node = a->rec.service_node[i];
  unsigned r = 1 + i;

  if (ordered (c, a, node))
    return 0;
  if (cluster_service_beside (a, node))
    r += SERVICE_NODES_MAX;
  if (cluster_node_in_maintenance (c, node) ||
      cluster_node_is_draining (c, node))
    r += 2 * SERVICE_NODES_MAX;
  return r;
}

bool
cluster_service_turn (const struct cluster *c, const struct cluster_array *a,
                      const struct cluster_attach *attach)
{
  unsigned i = cluster_service_find (a, attach->node), other;
  const struct cluster_session *s = NULL;
  const struct waiting *w;
  bool best = true;

  if (i == a->rec.service_nodes)
    return false;
  while ((s = cluster_writer_next (a, s)))
    if (!cluster_service_gone (c, s, attach))
      return false;
  TAILQ_FOREACH (w, &c->waitings, link) {
    if (w->array != a)
      continue;
    if (w->kind == WAIT_ATTACH && w->grant->writable)
      return false;
    if (w->kind != WAIT_SERVICE)
      continue;
    other = cluster_service_find (a, w->challenge->attach.node);
    if (other < a->rec.service_nodes && rank (c, a, other) < rank (c, a, i))
      return false;
  }
  for (other = 0; other < a->rec.service_nodes; other++) {
    /* It may be refused at first, and has no question waiting until it asks again. */
    if (other != i && ordered (c, a, a->rec.service_node[other]) &&
        cluster_service_stands_by (c, a, other))
      return false;
    best = best && rank (c, a, other) >= rank (c, a, i);
  }
  return best || c->live_ms >= a->stands[i].since_live_ms + SERVICE_SETTLE_MS;
}

bool
cluster_service_leaves (const struct cluster *c, const struct cluster_array *a,
                        const struct cluster_session *s)
{
  bool here = cluster_service_find (a, s->rec.node) < a->rec.service_nodes;

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
cluster_service_tick (struct cluster *c, struct cluster_array *a)
{
  for (unsigned i = 0; i < a->rec.service_nodes; i++)
    if (a->stands[i].shown != cluster_service_stands_by (c, a, i)) {
      a->stands[i].shown = !a->stands[i].shown;
      cluster_changed_array (c, a);
    }
}
