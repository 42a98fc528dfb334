/* cluster-reach.c: clients that do not reach the serving process of an array,
 * and the move of the service to a node that they reach.
 *
 * A client says with each question whether it reaches the process that serves
 * (core/host/follow.h).  If a client says for SERVICE_UNREACHED_MS that it does not, the
 * service moves as by an administrator's order, to a candidate that fewer clients are
 * known not to reach.  So nothing is lost by the move: the process writes and flushes
 * all before it detaches.
 *
 * A client may lie, and its word costs the others a short pause at most:
 *
 * - what a client has not reached counts for SERVICE_MISSED_MS, so that it drives the
 *   service to each candidate once;
 * - after a move the next one waits for SERVICE_REST_MS_MIN, doubled each time.
 *
 * All this is in memory alone: after its start weftd gets it from new reports.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cluster-inputs.h"

static bool
is_of (const struct cluster_unreached *u, const char *client,
       const char *server)
{
  return strcmp (u->client, client) == 0 && strcmp (u->server, server) == 0;
}

/* Does this still tell of the process that serves now? */
static bool
is_now (const struct cluster *c, const struct cluster_array *a,
        const struct cluster_unreached *u)
{
  const struct cluster_session *s = cluster_array_writer (a);

  return u->client[0] && s && s->rec.id == u->session &&
         c->live_ms < u->heard_live_ms + STANDBY_MS;
}

/* How many clients wait because they do not reach the serving process;
 * *longest: the client that has waited longest, or NULL.
 */
static unsigned
waiting (const struct cluster *c, const struct cluster_array *a,
         const struct cluster_unreached **longest)
{
  unsigned count = 0;

  *longest = NULL;
  for (unsigned i = 0; i < SERVICE_UNREACHED_MAX; i++) {
    const struct cluster_unreached *u = &a->unreached[i];

    if (!is_now (c, a, u) ||
        u->heard_live_ms < u->since_live_ms + SERVICE_UNREACHED_MS)
      continue;
    count++;
    if (*longest == NULL || u->since_live_ms < (*longest)->since_live_ms)
      *longest = u;
  }
  return count;
}

/* The place of this, or a free one, or that of the one that was heard longest ago. */
static struct cluster_unreached *
place (struct cluster_array *a, const char *client, const char *server)
{
  struct cluster_unreached *best = &a->unreached[0];

  for (unsigned i = 0; i < SERVICE_UNREACHED_MAX; i++) {
    struct cluster_unreached *u = &a->unreached[i];

    if (is_of (u, client, server))
      return u;
    if (u->heard_live_ms < best->heard_live_ms)
      best = u;
  }
  return best;
}

static void
note (struct cluster *c, struct cluster_array *a,
      const struct cluster_session *s, const char *client)
{
  struct cluster_unreached *u = place (a, client, s->rec.node);

  if (!is_of (u, client, s->rec.node) || !is_now (c, a, u))
    u->since_live_ms = c->live_ms;
  snprintf (u->client, sizeof u->client, "%s", client);
  snprintf (u->server, sizeof u->server, "%s", s->rec.node);
  u->session = s->rec.id;
  u->heard_live_ms = c->live_ms;
}

static void
forget (struct cluster_array *a, const char *client, const char *server)
{
  for (unsigned i = 0; i < SERVICE_UNREACHED_MAX; i++)
    if (is_of (&a->unreached[i], client, server))
      memset (&a->unreached[i], 0, sizeof a->unreached[i]);
}

void
cluster_service_heard (struct cluster *c, const struct cluster_input *in,
                       const char *array, const char *client, uint64_t session,
                       bool reached)
{
  struct cluster_array *a = cluster_array_find (c, array);
  const struct cluster_session *s = a ? cluster_array_writer (a) : NULL;

  cluster_step_begin (c, in);
  /* The serving process may just have died: then it is the next one's turn
   * anyway.
   */
  if (s && s->rec.service && s->rec.id == session && reached)
    forget (a, client, s->rec.node);
  else if (s && s->rec.service && s->rec.id == session &&
           cluster_session_silent_ms (c, s) < QUIET_MS)
    note (c, a, s, client);
  cluster_pump_end (c);
}

/* Could another process begin to serve at once? */
static bool
ready (const struct cluster *c, const struct cluster_array *a)
{
  if (c->read_only[0] || a->rec.change.epoch ||
      cluster_array_doubted (c, a, NULL, 0))
    return false;
  for (unsigned m = 0; m < a->layout.members; m++)
    if (a->rec.member[m].state != MEMBER_OUT &&
        cluster_copies_disk_away (a->disk[m]))
      return false;
  return true;
}

/* The candidate that the fewest clients have not reached, if these are fewer than this;
 * else a->rec.service_nodes.
 */
static unsigned
better (const struct cluster *c, const struct cluster_array *a, unsigned missed)
{
  unsigned best = a->rec.service_nodes;

  for (unsigned i = 0; i < a->rec.service_nodes; i++) {
    const char *node = a->rec.service_node[i];
    unsigned count = cluster_candidate_missed (c, a, node);

    if (!cluster_service_stands_by (c, a, i) ||
        cluster_node_in_maintenance (c, node) ||
        cluster_node_is_draining (c, node))
      continue;
    if (count < missed || (count == missed && best < a->rec.service_nodes &&
                           cluster_candidate_rank (c, a, i) <
                             cluster_candidate_rank (c, a, best))) {
      missed = count;
      best = i;
    }
  }
  return best;
}

static void
move (struct cluster *c, struct cluster_array *a,
      const struct cluster_unreached *u, const char *to)
{
  uint64_t calm_ms = 2 * a->reach_rest_ms;

  if (a->reach_rest_ms == 0 || c->live_ms >= a->reach_live_ms + calm_ms)
    a->reach_rest_ms = SERVICE_REST_MS_MIN;
  else if (calm_ms < SERVICE_REST_MS_MAX)
    a->reach_rest_ms = calm_ms;
  else
    a->reach_rest_ms = SERVICE_REST_MS_MAX;
  a->reach_live_ms = c->live_ms;
  cluster_candidate_order (c, a, to);
  cluster_step_changed_array (c, a);
  cluster_step_log (
    c, CLUSTER_WARNING, "array", a->rec.name,
    "The service of array %s moves to node %s: node %s does not "
    "reach node %s, which serves it.",
    a->rec.name, to, u->client, u->server);
}

static bool
rests (const struct cluster *c, const struct cluster_array *a)
{
  return a->reach_rest_ms && c->live_ms < a->reach_live_ms + a->reach_rest_ms;
}

void
cluster_reach_tick (struct cluster *c, struct cluster_array *a)
{
  const struct cluster_session *s = cluster_array_writer (a);
  const struct cluster_unreached *u;
  unsigned count = waiting (c, a, &u), to;

  if (a->reach_shown != count) {
    a->reach_shown = count;
    cluster_step_changed_array (c, a);
  }
  if (count == 0 || s->draining || rests (c, a) || !ready (c, a) ||
      c->live_ms < a->service_to_live_ms)
    return;
  to = better (c, a, cluster_candidate_missed (c, a, s->rec.node));
  if (to < a->rec.service_nodes)
    move (c, a, u, a->rec.service_node[to]);
}

/* Why the service does not move, or that it does. */
static void
why (const struct cluster *c, const struct cluster_array *a, char *text,
     size_t size)
{
  unsigned stand_by = 0, last = 0;

  for (unsigned i = 0; i < a->rec.service_nodes; i++)
    if (cluster_service_stands_by (c, a, i)) {
      stand_by++;
      last = i;
    }
  if (a->service_to[0] && c->live_ms < a->service_to_live_ms)
    snprintf (text, size, "The service moves to node %s", a->service_to);
  else if (stand_by == 0)
    snprintf (text, size,
              "No other node stands by to serve it: start its service on one "
              "more of its candidates, or mend the line");
  else if (rests (c, a))
    snprintf (text, size,
              "The service has moved for that %" PRIu64
              " s ago, and moves again in %" PRIu64
              " s if a better node stands by then: mend the line",
              (c->live_ms - a->reach_live_ms) / 1000,
              (a->reach_live_ms + a->reach_rest_ms - c->live_ms + 999) / 1000);
  else if (!ready (c, a))
    snprintf (text, size,
              "The service moves when all members of the array are heard and "
              "no change of it is under way");
  else
    snprintf (text, size,
              "Node %s stands by, and is no better: it is in maintenance or "
              "drained, or a client did not reach it either. Mend the line",
              a->rec.service_node[last]);
}

bool
cluster_reach_words (const struct cluster *c, const struct cluster_array *a,
                     char *text, size_t size)
{
  const struct cluster_unreached *u;
  unsigned count = waiting (c, a, &u);
  char others[40] = "", reason[300];

  if (count == 0)
    return false;
  if (count > 1)
    snprintf (others, sizeof others, " and %u more", count - 1);
  why (c, a, reason, sizeof reason);
  snprintf (
    text, size,
    "Node %s%s %s not reach node %s, which serves array %s, for %" PRIu64
    " s: requests wait there. %s.",
    u->client, others, count > 1 ? "do" : "does", u->server, a->rec.name,
    (c->live_ms - u->since_live_ms) / 1000, reason);
  return true;
}
