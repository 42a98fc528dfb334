/* cluster-access.c: which nodes may attach which array.
 *
 * Each array has a list of nodes, each to read alone or to write as well, and each
 * with or without the right to take the array from a holder that is heard.  It begins
 * with the nodes whose disks make the array up, if nobody says otherwise.  A member's
 * node serves its disk without any such right.
 *
 * The list binds nodes.  It does not bind an administrator's own attach,
 * because an administrator could change the list, and it binds no attach with
 * weftd --no-login, where every caller is an administrator.
 *
 * An array of a weftd that had no such lists lets any node attach it, and take it
 * over, until its list is begun (cluster-access-order.c).
 */

#include <config.h>

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "cluster-trust.h"

/* list->nodes: it has no line. */
static unsigned
find (const struct cluster_allow_list *list, const char *node)
{
  unsigned i = 0;

  while (i < list->nodes && strcmp (list->node[i].node, node) != 0)
    i++;
  return i;
}

const struct cluster_allow *
cluster_allowed_find (const struct cluster_allow_list *list, const char *node)
{
  unsigned i = find (list, node);

  return i < list->nodes ? &list->node[i] : NULL;
}

bool
cluster_allowed (const struct cluster_array *a, const char *node, bool writable)
{
  const struct cluster_allow *n = cluster_allowed_find (&a->rec.allow, node);

  return !a->rec.allow.listed || (n && (n->writable || !writable));
}

bool
cluster_allowed_failover (const struct cluster_array *a, const char *node)
{
  const struct cluster_allow *n = cluster_allowed_find (&a->rec.allow, node);

  return !a->rec.allow.listed || (n && n->failover);
}

bool
cluster_access_session (const struct cluster_array *a,
                        const struct cluster_session_record *s)
{
  return s->by_admin || cluster_allowed (a, s->node, s->writable);
}

bool
cluster_access_put (struct cluster_allow_list *list,
                    const struct cluster_allow *allow)
{
  unsigned i = find (list, allow->node);

  if (i == ALLOW_NODES_MAX)
    return false;
  list->node[i] = *allow;
  list->nodes += i == list->nodes;
  return true;
}

void
cluster_access_remove (struct cluster_allow_list *list, const char *node)
{
  unsigned i = find (list, node);

  if (i == list->nodes)
    return;
  list->nodes--;
  memmove (&list->node[i], &list->node[i + 1],
           (list->nodes - i) * sizeof list->node[0]);
  memset (&list->node[list->nodes], 0, sizeof list->node[0]);
}

void
cluster_access_begin (const struct cluster_array *a,
                      struct cluster_allow_list *list)
{
  struct cluster_allow allow = { .writable = true };
  bool fits;

  _Static_assert (ALLOW_NODES_MAX >= ARRAY_MEMBERS_MAX + SERVICE_NODES_MAX,
                  "each member may be on a node of its own");
  memset (list, 0, sizeof *list);
  list->listed = true;
  for (unsigned m = 0; m < a->layout.members; m++) {
    /* An import may not have found a member. */
    if (cluster_disk_is_name (a->disk[m]))
      continue;
    snprintf (allow.node, sizeof allow.node, "%s", a->disk[m]->rec.node);
    fits = cluster_access_put (list, &allow);
    assert (fits);
  }
}

void
cluster_allowed_why (const struct cluster_array *a, const char *node,
                     bool writable, char *text, size_t size)
{
  const char *name = a->rec.name;

  if (writable && cluster_allowed (a, node, false))
    snprintf (text, size,
              "node %s may only read array %s: an administrator lets it write "
              "(weftctl array allow %s %s rw)",
              node, name, name, node);
  else
    snprintf (text, size,
              "node %s may not attach array %s: an administrator lets it "
              "(weftctl array allow %s %s%s)",
              node, name, name, node, writable ? "" : " ro");
}

void
cluster_access_refuse (struct cluster *c, uint64_t op,
                       const struct cluster_array *a, const char *node,
                       bool writable)
{
  char text[500];

  cluster_allowed_why (a, node, writable, text, sizeof text);
  cluster_step_refuse (c, op, CLUSTER_FORBIDDEN, "not-allowed", "%s", text);
}
