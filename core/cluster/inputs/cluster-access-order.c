/* cluster-access-order.c: an administrator changes the list of nodes that may
 * attach an array.
 *
 * When the list gets shorter, sessions and waiting attaches without the right
 * end at once: sessions as if they were evicted, with the members fenced
 * against a writer.  A node that may not write any more is no candidate of the
 * array's service, either.  The serving process gets the list, as it gets
 * fences and by the same numbers, and refuses clients on other nodes.
 *
 * If any node could attach the array before, the first change begins its list,
 * with all nodes that weftd knows to use it: so only sessions that the change
 * names end.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cluster-inputs.h"

/* ---- What the list is to be. ---- */

/* Sessions that use an array that any node may attach.  False: these are too
 * many.
 */
static bool
users (const struct cluster *c, const struct cluster_array *a,
       struct cluster_allow_list *list)
{
  const struct cluster_session *s;
  const struct cluster_allow *has;
  struct cluster_allow allow = { .writable = true };
  bool fits = true;

  cluster_access_begin (a, list);
  for (unsigned i = 0; i < a->rec.service_nodes; i++) {
    snprintf (allow.node, sizeof allow.node, "%s", a->rec.service_node[i]);
    fits = cluster_access_put (list, &allow) && fits;
  }
  TAILQ_FOREACH (s, &a->sessions, array_link) {
    if (s->rec.by_admin)
      continue;
    has = cluster_allowed_find (list, s->rec.node);
    memcpy (allow.node, s->rec.node, sizeof allow.node);
    allow.writable = s->rec.writable || (has && has->writable);
    fits = cluster_access_put (list, &allow) && fits;
  }
  return fits;
}

bool
cluster_access_order_refused (struct cluster *c, uint64_t op, const char *array,
                              const struct cluster_allow *allow, bool drop,
                              struct cluster_allow_list *next)
{
  const struct cluster_array *a = cluster_step_array_or_refuse (c, op, array);
  struct cluster_allow_list list;
  bool fits = true;

  if (a == NULL || cluster_step_refuse_read_only (c, op))
    return true;
  if (!drop && allow->failover && !allow->writable) {
    cluster_step_refuse (
      c, op, CLUSTER_INVALID, "failover",
      "node %s is to read array %s alone, and so has nothing to "
      "take over: leave failover out, or let it write",
      allow->node, array)
      ->field = "failover";
    return true;
  }
  list = a->rec.allow;
  if (!list.listed)
    fits = users (c, a, &list);
  if (drop)
    cluster_access_remove (&list, allow->node);
  else
    fits = cluster_access_put (&list, allow) && fits;
  if (next)
    *next = list;
  if (fits)
    return false;
  cluster_step_refuse (
    c, op, CLUSTER_CONFLICT, "too-many",
    "%d nodes at most may attach array %s: deny it to one first",
    ALLOW_NODES_MAX, array);
  return true;
}

/* ---- What comes of it. ---- */

/* May this attach, which waits for something, not be granted any more? */
static bool
has_lost (const struct waiting *w, const struct cluster_array *a,
          bool *writable)
{
  const struct cluster_attach *attach = w->challenge ? &w->challenge->attach
                                                     : NULL;

  if (w->array != a || (w->grant == NULL && attach == NULL))
    return false;
  *writable = w->grant ? w->grant->writable : attach->writable;
  return !(w->grant ? w->grant->by_admin : attach->by_admin) &&
         !cluster_allowed (a, cluster_wait_node (w), *writable);
}

/* End what has lost its right. */
static void
enforce (struct cluster *c, struct cluster_array *a, const char *by)
{
  struct cluster_session *s, *next_s;
  struct waiting *w, *next;
  char words[CLUSTER_REASON_BYTES];
  bool writable;

  TAILQ_FOREACH_SAFE (w, &c->waitings, link, next)
    if (has_lost (w, a, &writable)) {
      cluster_access_refuse (c, w->op, a, cluster_wait_node (w), writable);
      cluster_wait_end (c, w);
    }
  TAILQ_FOREACH_SAFE (s, &a->sessions, array_link, next_s)
    if (!cluster_access_session (a, &s->rec)) {
      snprintf (words, sizeof words, "%.150s, who took its node's right to it",
                by);
      cluster_session_end_cut (c, s, words);
    }
  cluster_session_end_prune (c); /* not before: it frees sessions */
}

/* Candidates that may not write any more, or are gone (NULL: none is). */
static void
drop_candidates (struct cluster_array *a, const char *gone)
{
  unsigned kept = 0;

  for (unsigned i = 0; i < a->rec.service_nodes; i++)
    if (cluster_allowed (a, a->rec.service_node[i], true) &&
        !(gone && strcmp (a->rec.service_node[i], gone) == 0)) {
      memmove (a->rec.service_node[kept], a->rec.service_node[i],
               sizeof a->rec.service_node[0]);
      a->stands[kept++] = a->stands[i];
    }
  for (unsigned i = kept; i < a->rec.service_nodes; i++) {
    memset (a->rec.service_node[i], 0, sizeof a->rec.service_node[0]);
    memset (&a->stands[i], 0, sizeof a->stands[0]);
  }
  a->rec.service_nodes = kept;
}

static void
change (struct cluster *c, struct cluster_array *a,
        const struct cluster_allow_list *next, const char *gone)
{
  a->rec.allow = *next;
  a->rec.allow_fence = cluster_fence_number_next (c);
  drop_candidates (a, gone);
  cluster_step_put_array (c, a);
  cluster_step_changed_array (c, a);
  cluster_array_due (c, a, DUE_MEMBERS); /* the serving process gets the news */
}

void
cluster_allow_set (struct cluster *c, const struct cluster_input *in,
                   const char *array, const struct cluster_allow *allow,
                   const char *by)
{
  struct cluster_allow_list next;
  struct cluster_array *a;

  cluster_step_begin (c, in);
  if (!cluster_access_order_refused (c, in->op, array, allow, false, &next)) {
    a = cluster_array_find (c, array);
    cluster_step_log (c, CLUSTER_INFO, "array", array,
                      "Node %s may attach array %s %s%s, says %s.", allow->node,
                      array, allow->writable ? "for writing" : "read-only",
                      allow->failover ? ", and take it over" : "", by);
    change (c, a, &next, NULL);
    enforce (c, a, by);
    cluster_step_reply_array (c, in->op, a);
  }
  cluster_pump_end (c);
}

void
cluster_allow_drop (struct cluster *c, const struct cluster_input *in,
                    const char *array, const char *node, const char *by)
{
  struct cluster_allow none = { .writable = false };
  struct cluster_allow_list next;
  struct cluster_array *a;

  cluster_step_begin (c, in);
  snprintf (none.node, sizeof none.node, "%s", node);
  if (!cluster_access_order_refused (c, in->op, array, &none, true, &next)) {
    a = cluster_array_find (c, array);
    cluster_step_log (c, CLUSTER_INFO, "array", array,
                      "Node %s may not attach array %s, says %s.", node, array,
                      by);
    change (c, a, &next, NULL);
    enforce (c, a, by);
    cluster_step_reply_array (c, in->op, a);
  }
  cluster_pump_end (c);
}

void
cluster_access_order_forget (struct cluster *c, const char *node)
{
  struct cluster_allow_list next;
  struct cluster_array *a;

  TAILQ_FOREACH (a, &c->arrays, link)
    if (cluster_allowed_find (&a->rec.allow, node) ||
        cluster_candidate_find (a, node) < a->rec.service_nodes) {
      next = a->rec.allow;
      cluster_access_remove (&next, node);
      change (c, a, &next, node);
    }
}
