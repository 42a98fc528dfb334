/* cluster-node.c: an administrator's orders about nodes: maintenance, begin and
 * end of a drain, revocation, moves of a disk, removal.
 *
 * A node is a name that disks and sessions give.  Its orders are a record,
 * durable before it is answered, and all consequences are derived from the
 * record again and again: spares that do not take its places, members that move
 * away (cluster-drain.c). So weftd may die at any time.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cluster-inputs.h"
#include "cluster/cluster-preflight.h"

static unsigned
count_records (const struct cluster *c)
{
  const struct cluster_node *n;
  unsigned count = 0;

  TAILQ_FOREACH (n, &c->nodes, link)
    count += !n->rec.removed;
  return count;
}

/* Has it a session, or had it one recently?  The fence of a node may come after
 * the session's end.
 */
static bool
had_session (const struct cluster *c, const char *name)
{
  const struct cluster_session *s;

  TAILQ_FOREACH (s, &c->sessions, link)
    if (strcmp (s->rec.node, name) == 0)
      return true;
  return false;
}

static bool
refuse_node (struct cluster *c, uint64_t op, const char *name)
{
  if (cluster_node_known (c, name) || had_session (c, name))
    return cluster_step_refuse_read_only (c, op);
  cluster_step_refuse (c, op, CLUSTER_NOT_FOUND, "unknown-node",
                       "there is no node %s: GET /api/v1/nodes lists them",
                       name);
  return true;
}

/* There is no room for a record of it. */
static bool
refuse_record (struct cluster *c, uint64_t op, const char *name)
{
  const struct cluster_node *n = cluster_node_find (c, name);

  if ((n && !n->rec.removed) || count_records (c) < NODES_MAX)
    return false;
  cluster_step_refuse (c, op, CLUSTER_CONFLICT, "too-many",
                       "there are %d nodes already: remove some that are gone",
                       NODES_MAX);
  return true;
}

bool
cluster_node_refused (struct cluster *c, uint64_t op, const char *name)
{
  return refuse_node (c, op, name) || refuse_record (c, op, name);
}

struct cluster_node *
cluster_node_keep (struct cluster *c, const char *name)
{
  struct cluster_node *n = cluster_node_find (c, name);

  if (n) {
    n->rec.removed = false;
    return n;
  }
  n = alloc_zeroed (sizeof *n);
  snprintf (n->rec.name, sizeof n->rec.name, "%s", name);
  TAILQ_INSERT_TAIL (&c->nodes, n, link);
  return n;
}

static void
done (struct cluster *c, uint64_t op, enum cluster_reply_kind kind,
      struct cluster_node *n)
{
  struct cluster_array *a;

  cluster_step_put_node (c, n);
  TAILQ_FOREACH (a, &c->arrays, link)
    cluster_array_due (c, a, DUE_MEMBERS);
  cluster_step_changed_node (c, n);
  cluster_step_reply_node (c, op, kind, n);
}

void
cluster_node_add (struct cluster *c, const struct cluster_input *in,
                  const char *name)
{
  cluster_step_begin (c, in);
  if (!cluster_step_refuse_read_only (c, in->op) &&
      !refuse_record (c, in->op, name)) {
    cluster_node_keep (c, name)->rec.shut_out = false;
    done (c, in->op, CLUSTER_REPLY_NODE, cluster_node_keep (c, name));
  }
  cluster_pump_end (c);
}

void
cluster_node_asks (struct cluster *c, const struct cluster_input *in,
                   const char *name)
{
  struct cluster_node *n;

  if (cluster_node_known (c, name))
    return;
  cluster_step_begin (c, in);
  if (c->read_only[0] == '\0' && count_records (c) < NODES_MAX) {
    n = cluster_node_keep (c, name);
    cluster_step_put_node (c, n);
    cluster_step_changed_node (c, n);
  }
  cluster_pump_end (c);
}

/* ---- Maintenance. ---- */

bool
cluster_node_maintain_refused (struct cluster *c, uint64_t op, const char *name,
                               bool on, bool force)
{
  const struct cluster_array *a;
  bool which[ARRAY_MEMBERS_MAX];
  uint64_t unreachable;
  char bytes[32];

  if (refuse_node (c, op, name) || refuse_record (c, op, name))
    return true;
  if (!on || force || cluster_node_in_maintenance (c, name))
    return false;
  TAILQ_FOREACH (a, &c->arrays, link) {
    cluster_copies_on_node (a, name, which);
    cluster_copies_without (c, a, which, NULL, &unreachable);
    if (unreachable == 0)
      continue;
    cluster_words_bytes (unreachable, bytes, sizeof bytes);
    cluster_step_refuse (
      c, op, CLUSTER_CONFLICT, "unreachable",
      "without node %s array %s could not serve %s of its data: "
      "wait until its other members are in-sync, drain the node, "
      "or detach the array and force the maintenance",
      name, a->rec.name, bytes);
    return true;
  }
  return false;
}

void
cluster_node_maintain (struct cluster *c, const struct cluster_input *in,
                       const char *name, bool on, bool force)
{
  struct cluster_node *n;

  cluster_step_begin (c, in);
  if (!cluster_node_maintain_refused (c, in->op, name, on, force)) {
    n = cluster_node_keep (c, name);
    if (n->rec.maintenance != on) {
      n->rec.maintenance = on;
      n->rec.maintenance_wall_ms = c->wall_ms;
      n->maintenance_live_ms = c->live_ms;
      cluster_step_log (c, CLUSTER_INFO, "node", name,
                        "Node %s is %s maintenance.", name,
                        on ? "in" : "no longer in");
    }
    done (c, in->op, CLUSTER_REPLY_NODE, n);
  }
  cluster_pump_end (c);
}

/* ---- Drain. ---- */

bool
cluster_node_drain_refused (struct cluster *c, uint64_t op, const char *name)
{
  return cluster_node_refused (c, op, name);
}

void
cluster_node_drain (struct cluster *c, const struct cluster_input *in,
                    const char *name, bool on)
{
  struct cluster_node *n;

  cluster_step_begin (c, in);
  if (!cluster_node_drain_refused (c, in->op, name)) {
    n = cluster_node_keep (c, name);
    if (n->rec.draining != on) {
      n->rec.draining = on;
      n->rec.draining_wall_ms = c->wall_ms;
      n->rec.drain_bytes = on ? cluster_drain_bytes (c, name) : 0;
      cluster_step_log (
        c, CLUSTER_INFO, "node", name,
        on ? "Node %s is being drained: its members move elsewhere."
           : "Node %s is no longer being drained.",
        name);
    }
    done (c, in->op, on ? CLUSTER_REPLY_JOB : CLUSTER_REPLY_NODE, n);
  }
  cluster_pump_end (c);
}

/* ---- Shut out. ---- */

void
cluster_node_refuse_waiting (struct cluster *c, const char *node, bool attaches,
                             const char *code, const char *why)
{
  struct waiting *w, *next;

  TAILQ_FOREACH_SAFE (w, &c->waitings, link, next) {
    if ((attaches && w->grant == NULL && w->challenge == NULL) ||
        strcmp (cluster_wait_node (w), node) != 0)
      continue;
    cluster_step_refuse (c, w->op, CLUSTER_CONFLICT, code, "node %s was %s",
                         node, why);
    cluster_wait_end (c, w);
  }
}

/* Its disks are silent from now on, and what they read as joining members is over. */
static void
shut_disks (struct cluster *c, const char *name)
{
  struct cluster_disk *d;

  TAILQ_FOREACH (d, &c->disks, link) {
    if (strcmp (d->rec.node, name) != 0)
      continue;
    d->alive = false;
    d->rec.shut_out = true;
    d->doubt.kind = CLUSTER_DOUBT_NONE; /* its report no longer counts */
    d->rival.since_live_ms = 0;
    cluster_step_put_disk (c, d);
    cluster_step_changed_disk (c, d);
    if (d->array && d->array->rec.member[d->position].state == MEMBER_JOINING)
      cluster_shut_add (
        c, d->array, cluster_shut_source (d->array, d->position), name, true);
  }
}

/* End its sessions.  If weftd takes no changes, it only informs members: the
 * end of a writer needs a change of epoch.
 */
static void
shut_sessions (struct cluster *c, const char *name, const char *by)
{
  struct cluster_session *s;

  TAILQ_FOREACH (s, &c->sessions, link) {
    if (s->rec.ended || strcmp (s->rec.node, name) != 0 ||
        s->array->rec.restoring)
      continue;
    if (c->read_only[0])
      cluster_shut_add (c, s->array, s->rec.id, name, true);
    else
      cluster_session_end_cut (c, s, by);
  }
}

void
cluster_node_shut_out (struct cluster *c, const struct cluster_input *in,
                       const char *name, const char *by)
{
  struct cluster_node *n;
  struct cluster_disk *d;
  struct waiting *w;

  cluster_step_begin (c, in);
  n = cluster_node_keep (c, name);
  n->rec.shut_out = true;
  cluster_step_put_node (c, n);
  cluster_step_log (c, CLUSTER_WARNING, "node", name,
                    "Node %s was shut out by %s: its sessions end, and nothing "
                    "more is heard of its disks.",
                    name, by);
  if (strcmp (c->doubt_node, name) == 0) /* its report no longer counts */
    c->doubt_node[0] = '\0';
  cluster_node_refuse_waiting (c, name, false, "shut-out",
                               "shut out just now: enroll it again");
  shut_disks (c, name);
  shut_sessions (c, name, by);
  if (!c->read_only[0])
    TAILQ_FOREACH (d, &c->disks, link)
      if (d->array && strcmp (d->rec.node, name) == 0)
        cluster_step_member_moved (c, d->array);
  cluster_session_end_prune (c); /* not before: it frees sessions */
  cluster_step_changed_node (c, n);
  w = cluster_wait (c, WAIT_SHUT_OUT, in->op, SHUT_OUT_MS);
  w->challenge = alloc_zeroed (sizeof *w->challenge);
  memcpy (w->challenge->attach.node, n->rec.name, sizeof n->rec.name);
  cluster_pump_settle (c);
  if (cluster_node_shut_out_done (c))
    cluster_node_shut_out_end (c, w);
  cluster_pump_end (c);
}

bool
cluster_node_shut_out_done (const struct cluster *c)
{
  const struct cluster_array *a;

  TAILQ_FOREACH (a, &c->arrays, link)
    for (unsigned m = 0; m < a->layout.members; m++)
      if (cluster_shut_unconfirmed (a, m))
        return false;
  return true;
}

void
cluster_node_shut_out_end (struct cluster *c, struct waiting *w)
{
  cluster_step_reply_done (c, w->op, CLUSTER_NODE, NULL, 0,
                           w->challenge->attach.node);
  cluster_wait_end (c, w);
}

void
cluster_node_tick (struct cluster *c)
{
  struct cluster_session *s;
  struct cluster_node *n;

  if (c->read_only[0])
    return;
  TAILQ_FOREACH (n, &c->nodes, link) {
    if (!n->rec.shut_out)
      continue;
    TAILQ_FOREACH (s, &c->sessions, link)
      /* An old database is known as one when all that live have spoken. */
      if (!s->rec.ended && strcmp (s->rec.node, n->rec.name) == 0 &&
          cluster_copies_unheard (s->array) == s->array->layout.members)
        cluster_session_end_cut (c, s,
                                 "an administrator, who shut the node out");
  }
}

/* ---- Removal. ---- */

/* "member 1 of array a, a spare of array b and 3 more" */
static bool
name_places (const struct cluster *c, const char *name, char *text, size_t size)
{
  const struct cluster_disk *d;
  unsigned said = 0, more = 0;
  size_t used = 0;

  TAILQ_FOREACH (d, &c->disks, link) {
    if (strcmp (d->rec.node, name) != 0 ||
        (d->array == NULL && cluster_uuid_is_zero (d->rec.spare_of)))
      continue;
    if (said == 3 || used + 120 > size) {
      more++;
      continue;
    }
    if (d->array)
      used += (size_t) snprintf (text + used, size - used,
                                 "%smember %u of array %s", said ? ", " : "",
                                 d->position, d->array->rec.name);
    else
      used += (size_t) snprintf (
        text + used, size - used, "%sa spare of array %s", said ? ", " : "",
        cluster_array_by_uuid (c, d->rec.spare_of)->rec.name);
    said++;
  }
  if (more)
    snprintf (text + used, size - used, " and %u more", more);
  return said > 0;
}

bool
cluster_node_remove_refused (struct cluster *c, uint64_t op, const char *name)
{
  const struct cluster_disk *d;
  const struct cluster_session *s;
  char places[480];

  if (refuse_node (c, op, name))
    return true;
  if (cluster_node_is_fenced (c, name)) {
    cluster_step_refuse (
      c, op, CLUSTER_CONFLICT, "fenced",
      "node %s is fenced: end that first (weftctl node fence off "
      "%s)",
      name, name);
    return true;
  }
  if (name_places (c, name, places, sizeof places)) {
    cluster_step_refuse (
      c, op, CLUSTER_CONFLICT, "in-use",
      "node %s has %s: drain it, and take its disks from the "
      "spares, first",
      name, places);
    return true;
  }
  TAILQ_FOREACH (s, &c->sessions, link)
    if (!s->rec.ended && strcmp (s->rec.node, name) == 0) {
      cluster_step_refuse (c, op, CLUSTER_CONFLICT, "held",
                           "node %s has array %s attached (process %" PRIu64
                           "): detach it there, or evict session %016" PRIx64
                           ", first",
                           name, s->rec.array_name, s->rec.pid, s->rec.id);
      return true;
    }
  TAILQ_FOREACH (d, &c->disks, link)
    if (strcmp (d->rec.node, name) == 0 &&
        cluster_disk_order_forget_refused (c, op, d->rec.uuid))
      return true;
  return false;
}

/* The number of a node's fence stays, for processes that may still run there.
 * It is kept for a limited number of nodes: then the oldest is forgotten.
 */
static void
forget (struct cluster *c, const char *name)
{
  struct cluster_node *n = cluster_node_find (c, name), *old, *oldest = NULL;
  unsigned removed = 0;

  if (n && n->rec.fence) {
    n->rec = (struct cluster_node_record) { .fence = n->rec.fence,
                                            .removed = true };
    snprintf (n->rec.name, sizeof n->rec.name, "%s", name);
    cluster_step_put_node (c, n);
    n = NULL;
  }
  cluster_step_drop_node (c, n, name);
  TAILQ_FOREACH (old, &c->nodes, link) {
    removed += old->rec.removed;
    if (old->rec.removed &&
        (oldest == NULL || old->rec.fence < oldest->rec.fence))
      oldest = old;
  }
  if (removed > NODES_MAX)
    cluster_step_drop_node (c, oldest, oldest->rec.name);
}

void
cluster_node_remove (struct cluster *c, const struct cluster_input *in,
                     const char *name)
{
  struct cluster_disk *d, *next;

  cluster_step_begin (c, in);
  if (!cluster_node_remove_refused (c, in->op, name)) {
    cluster_node_refuse_waiting (c, name, false, "shut-out",
                                 "removed just now: enroll it again");
    TAILQ_FOREACH_SAFE (d, &c->disks, link, next)
      if (strcmp (d->rec.node, name) == 0)
        cluster_disk_order_remove (c, d);
    cluster_access_order_forget (c, name);
    cluster_step_log (c, CLUSTER_INFO, "node", name, "Node %s was removed.",
                      name);
    forget (c, name);
    cluster_step_reply_done (c, in->op, CLUSTER_NODE, NULL, 0, name);
  }
  cluster_pump_end (c);
}
