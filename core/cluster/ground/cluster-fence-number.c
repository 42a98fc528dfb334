/* cluster-fence-number.c: the numbers of fences.  Each fence of a node, and each
 * change of an array's list of nodes, has a number of its own; numbers only
 * grow.
 */

#include <config.h>

#include "cluster-ground.h"

uint64_t
cluster_fence_number (const struct cluster *c)
{
  return c->identity.fences;
}

uint64_t
cluster_fence_number_next (struct cluster *c)
{
  uint64_t next = c->identity.fences + 1, now = c->wall_ms / 1000;

  c->identity.fences = next > now ? next : now;
  cluster_step_put_identity (c);
  return c->identity.fences;
}

void
cluster_fence_number_begin (struct cluster *c)
{
  const struct cluster_array *a;
  const struct cluster_node *n;
  uint64_t newest = c->wall_ms / 1000;

  TAILQ_FOREACH (n, &c->nodes, link)
    if (n->rec.fence > newest)
      newest = n->rec.fence;
  TAILQ_FOREACH (a, &c->arrays, link)
    if (a->rec.allow_fence > newest)
      newest = a->rec.allow_fence;
  c->identity.fences = newest;
}
