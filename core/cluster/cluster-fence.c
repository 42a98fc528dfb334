/* cluster-fence.c: a node is fenced, as a cluster manager wants it before others take
 * over what ran there.
 *
 * When a fence is answered, nothing that the node has asked for is carried out any more,
 * however late it comes:
 *
 * - its sessions have ended, and members have confirmed that they refuse what these
 *   sessions ask.  A member that is gone for MISSING_MS is not waited for: before it is
 *   read or written again, it confirms that, or is out;
 * - whoever lets clients on other hosts in has ended what those on the node have asked,
 *   and refuses what still comes.  A server that is silent does not count: its
 *   session ends, too, and members confirm that.
 *
 * A node that is let in again may run what is started there from then on.  What runs
 * there since before that is refused for ever: it may have requests that it would
 * send once more.  So fences have numbers, a client of a service says the number that
 * was the newest when it was started, and each server knows the number of each node's
 * last fence, or of its end.
 */

#include <config.h>

#include <inttypes.h>
#include <string.h>

#include "cluster-internal.h"

/* A member whose word is doubted can confirm nothing while that lasts, which may be until
 * an administrator looks at it.  Where nobody writes to the array it is not waited for
 * either: the array stands still, so no session begins there.  And the change stays
 * as it is: when the member is believed, it confirms before anybody is let in.
 */
static bool
waits_for (const struct cluster *c, const struct cluster_array *a, unsigned m)
{
  return cluster_change_waits_for (a, m) &&
         (a->disk[m]->doubt.kind != CLUSTER_DOUBT_OPEN ||
          cluster_array_writer (a));
}

/* Has every member confirmed that it refuses what the node's sessions ask, and what
 * servers ask that have ended: they may still ask it for clients on the node?
 */
static bool
members_done (const struct cluster *c, const char *name)
{
  const struct cluster_session *s;
  const struct cluster_array *a;
  bool here;

  TAILQ_FOREACH (s, &c->sessions, link) {
    here = strcmp (s->rec.node, name) == 0;
    if (here && !s->rec.ended)
      return false;
    if (!s->rec.ended || !(here || cluster_session_guarded (s)))
      continue;
    a = s->rec.writable ? s->array : NULL;
    if (cluster_over_runs (c, s))
      return false;
    for (unsigned m = 0; a && m < a->layout.members; m++)
      if (waits_for (c, a, m))
        return false;
  }
  return true;
}

bool
cluster_fence_done (const struct cluster *c, const struct waiting *w)
{
  const char *name = w->challenge->attach.node;
  const struct cluster_node *n = cluster_node_find (c, name);
  const struct cluster_session *s;

  if (n == NULL || !n->rec.fenced)
    return true; /* it was taken back meanwhile */
  TAILQ_FOREACH (s, &c->sessions, link)
    if (cluster_session_guarded (s) && !s->rec.ended &&
        s->fences < n->rec.fence)
      return false;
  return members_done (c, name);
}

void
cluster_fence_end (struct cluster *c, struct waiting *w)
{
  const char *name = w->challenge->attach.node;
  struct cluster_node *n = cluster_node_find (c, name);

  if (n == NULL || !n->rec.fenced)
    cluster_refuse (c, w->op, CLUSTER_CONFLICT, "not-fenced",
                    "node %s was let in again meanwhile", name);
  else if (cluster_fence_done (c, w))
    cluster_reply_node (c, w->op, CLUSTER_REPLY_NODE, n);
  else
    cluster_defer (c, w->op, CLUSTER_CONFLICT, "changing", HEARTBEAT_MS,
                   "node %s is fenced, but not every member, or process that "
                   "serves an array, has confirmed that: ask again",
                   name);
  cluster_wait_end (c, w);
}

/* All that runs on the node now is refused from now on. */
static void
number (struct cluster *c, struct cluster_node *n)
{
  struct cluster_array *a;

  n->rec.fence = cluster_fence_next (c);
  TAILQ_FOREACH (a, &c->arrays, link)
    cluster_due (c, a, DUE_MEMBERS); /* servers are told */
}

static void
fence (struct cluster *c, struct cluster_node *n, const char *by)
{
  struct cluster_session *s;

  n->rec.fenced = true;
  n->rec.fenced_wall_ms = c->wall_ms;
  cluster_log (c, CLUSTER_WARNING, "node", n->rec.name,
               "Node %s was fenced by %s: its sessions end, and clients on it "
               "are refused.",
               n->rec.name, by);
  cluster_wait_refuse (c, n->rec.name, true, "fenced", "fenced just now");
  TAILQ_FOREACH (s, &c->sessions, link)
    if (!s->rec.ended && strcmp (s->rec.node, n->rec.name) == 0)
      cluster_session_cut (c, s, by);
}

void
cluster_node_fence (struct cluster *c, const struct cluster_input *in,
                    const char *name, bool on, const char *by)
{
  struct cluster_session *s;
  struct cluster_node *n;
  struct waiting *w;

  cluster_begin (c, in);
  if (!cluster_node_refused (c, in->op, name)) {
    n = cluster_node_keep (c, name);
    if (n->rec.fenced != on)
      number (c, n);
    if (on && !n->rec.fenced)
      fence (c, n, by);
    else if (!on && n->rec.fenced) {
      n->rec.fenced = false;
      cluster_log (c, CLUSTER_INFO, "node", name,
                   "Node %s is fenced no longer.", name);
    }
    cluster_put_node (c, n);
    cluster_changed_node (c, n);
    if (on) {
      /* Who serves and is silent confirms nothing, and may still serve. */
      TAILQ_FOREACH (s, &c->sessions, link)
        if (cluster_session_guarded (s) && !s->rec.ended && !s->alive)
          cluster_session_cut (c, s, by);
      w = cluster_wait (c, WAIT_FENCE, in->op, FENCE_MS);
      w->challenge = alloc_zeroed (sizeof *w->challenge);
      memcpy (w->challenge->attach.node, n->rec.name, sizeof n->rec.name);
    }
    else
      cluster_reply_node (c, in->op, CLUSTER_REPLY_NODE, n);
    cluster_session_prune (c);
  }
  cluster_end (c);
}
