/* cluster-fence.c: fences a node, as a cluster manager needs it before other
 * nodes take over its work.
 *
 * When a fence is answered, no request of the node is carried out any more,
 * however late it comes:
 *
 * - its sessions have ended, and members have confirmed that they refuse these
 *   sessions' requests.  A member that is gone for MISSING_MS is not waited
 *   for: before it is read or written again, it confirms that, or is out;
 * - each server with clients on other hosts has ended the requests of clients
 *   on the node, and refuses late ones.  A silent server does not count: its
 *   session ends, too, and members confirm that.
 *
 * A node that is admitted again may run processes that are started there from
 * then on.  Processes from before that are refused for ever: they may have
 * requests that they would send once more.  So fences have numbers, a client of
 * a service says the number that was the newest when it was started, and each
 * server knows the number of each node's last fence, or of its end.
 */

#include <config.h>

#include <inttypes.h>
#include <string.h>

#include "cluster-inputs.h"

/* A member whose reports are doubted can confirm nothing meanwhile, perhaps
 * until an administrator acts.  Without a writer of the array it is not waited
 * for either: the array is frozen, so no session begins there.  And the change
 * stays as it is: when the member is believed, it confirms before any session
 * is admitted.
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
    if (cluster_shut_runs (c, s))
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
    cluster_step_refuse (c, w->op, CLUSTER_CONFLICT, "not-fenced",
                         "the fence of node %s has been ended meanwhile", name);
  else if (cluster_fence_done (c, w))
    cluster_step_reply_node (c, w->op, CLUSTER_REPLY_NODE, n);
  else
    cluster_step_defer (
      c, w->op, CLUSTER_CONFLICT, "changing", HEARTBEAT_MS,
      "node %s is fenced, but not every member, or process that "
      "serves an array, has confirmed that: ask again",
      name);
  cluster_wait_end (c, w);
}

/* All processes on the node now are refused from now on. */
static void
number (struct cluster *c, struct cluster_node *n)
{
  struct cluster_array *a;

  n->rec.fence = cluster_fence_number_next (c);
  TAILQ_FOREACH (a, &c->arrays, link)
    cluster_array_due (c, a, DUE_MEMBERS); /* servers get the news */
}

static void
fence (struct cluster *c, struct cluster_node *n, const char *by)
{
  struct cluster_session *s;

  n->rec.fenced = true;
  n->rec.fenced_wall_ms = c->wall_ms;
  cluster_step_log (
    c, CLUSTER_WARNING, "node", n->rec.name,
    "Node %s was fenced by %s: its sessions end, and clients on it "
    "are refused.",
    n->rec.name, by);
  cluster_node_refuse_waiting (c, n->rec.name, true, "fenced",
                               "fenced just now");
  TAILQ_FOREACH (s, &c->sessions, link)
    if (!s->rec.ended && strcmp (s->rec.node, n->rec.name) == 0)
      cluster_session_end_cut (c, s, by);
}

void
cluster_node_fence (struct cluster *c, const struct cluster_input *in,
                    const char *name, bool on, const char *by)
{
  struct cluster_session *s;
  struct cluster_node *n;
  struct waiting *w;

  cluster_step_begin (c, in);
  if (!cluster_node_refused (c, in->op, name)) {
    n = cluster_node_keep (c, name);
    if (n->rec.fenced != on)
      number (c, n);
    if (on && !n->rec.fenced)
      fence (c, n, by);
    else if (!on && n->rec.fenced) {
      n->rec.fenced = false;
      cluster_step_log (c, CLUSTER_INFO, "node", name,
                        "Node %s is fenced no longer.", name);
    }
    cluster_step_put_node (c, n);
    cluster_step_changed_node (c, n);
    if (on) {
      /* A silent server confirms nothing, and may still serve. */
      TAILQ_FOREACH (s, &c->sessions, link)
        if (cluster_session_guarded (s) && !s->rec.ended && !s->alive)
          cluster_session_end_cut (c, s, by);
      w = cluster_wait (c, WAIT_FENCE, in->op, FENCE_MS);
      w->challenge = alloc_zeroed (sizeof *w->challenge);
      memcpy (w->challenge->attach.node, n->rec.name, sizeof n->rec.name);
    }
    else
      cluster_step_reply_node (c, in->op, CLUSTER_REPLY_NODE, n);
    cluster_session_end_prune (c);
  }
  cluster_pump_end (c);
}
