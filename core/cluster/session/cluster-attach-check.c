/* cluster-attach-check.c: may an array be attached so, and if not, why not.
 *
 * Three checks follow each other: of the caller, of the request, and of the
 * array's present state.  In between (cluster-attach.c) an attach that asks
 * again gets the same answer, and a writer may have to wait for the holder.
 *
 * A node attaches what it is allowed to (cluster-access.c); an administrator who
 * attaches an array in no node's name may attach any.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cluster-session.h"

/* ---- What is in the way. ---- */

bool
cluster_attach_check_conflicts (const struct cluster_session_record *rec,
                                const struct cluster_attach *attach)
{
  return rec->writable && !(rec->leases && attach->leases) &&
         cluster_parts_meet (&rec->part, &attach->part);
}

bool
cluster_attach_check_in_the_way (const struct cluster_session *s,
                                 const struct cluster_attach *attach)
{
  return !s->alive || s->overdue ||
         cluster_attach_check_conflicts (&s->rec, attach);
}

struct cluster_session *
cluster_attach_check_holder (const struct cluster_array *a,
                             const struct cluster_attach *attach)
{
  struct cluster_session *s = NULL, *silent = NULL;

  while ((s = cluster_writer_next (a, s)))
    if (!cluster_attach_check_in_the_way (s, attach))
      continue;
    else if (s->alive)
      return s;
    else
      silent = s;
  return silent;
}

bool
cluster_attach_check_alone (const struct cluster_array *a,
                            const struct cluster_attach *attach)
{
  const struct cluster_session *s = NULL;

  while ((s = cluster_writer_next (a, s)))
    if (!cluster_attach_check_in_the_way (s, attach))
      return false;
  return attach->writable;
}

struct cluster_problem *
cluster_attach_check_refuse_held (struct cluster *c, uint64_t op,
                                  const struct cluster_array *a,
                                  const struct cluster_session_record *holder,
                                  uint64_t silent_ms, bool quiet)
{
  struct cluster_problem *p;
  char part[96] = "";

  if (holder->leases)
    snprintf (part, sizeof part, " (shared by leases)");
  else if (holder->part.length > 0)
    snprintf (part, sizeof part,
              " (%" PRIu64 " bytes from %" PRIu64 " on, as part of it)",
              holder->part.length, holder->part.offset);
  p = cluster_step_refuse (
    c, op, CLUSTER_CONFLICT, "held",
    "array %s is attached for writing%s by node %s, process %" PRIu64
    ", last heard of %" PRIu64 " ms ago: %s",
    a->rec.name, part, holder->node, holder->pid, silent_ms,
    quiet ? "it may be replaced when it has been silent for long enough"
    : holder->leases
      ? "detach it there, take it over, or share it by leases as well"
    : *part ? "detach it there, take it over, or attach another part"
            : "detach it there, take it over, or attach read-only");
  cluster_step_problem_holder (p, holder, silent_ms);
  p->retry = quiet;
  if (quiet && silent_ms < SESSION_TTL_MS)
    p->retry_after_ms = SESSION_TTL_MS - silent_ms;
  return p;
}

/* ---- Who asks. ---- */

static bool
refuse_crowd (struct cluster *c, uint64_t op)
{
  const struct cluster_session *s;
  unsigned count = 0;

  TAILQ_FOREACH (s, &c->sessions, link)
    count += !s->rec.ended;
  if (count < SESSIONS_MAX)
    return false;
  cluster_step_refuse (c, op, CLUSTER_CONFLICT, "too-many",
                       "there are %d sessions already: detach one first",
                       SESSIONS_MAX);
  return true;
}

static bool
refuse_fenced (struct cluster *c, uint64_t op, const struct cluster_array *a,
               const struct cluster_attach *attach)
{
  if (!cluster_node_is_fenced (c, attach->node))
    return false;
  cluster_step_refuse (c, op, CLUSTER_CONFLICT, "fenced",
                       "node %s is fenced, and array %s can't be attached "
                       "there: weftctl node fence off %s admits it again",
                       attach->node, a->rec.name, attach->node);
  return true;
}

/* Is this attach nobody's right?  *takes_over: it may take the array from a holder that
 * is heard.
 */
static bool
refuse_right (struct cluster *c, uint64_t op, const struct cluster_array *a,
              const struct cluster_attach *attach, bool *takes_over)
{
  const struct cluster_session *s = cluster_attach_check_holder (a, attach);
  const char *name = a->rec.name, *node = attach->node;

  *takes_over = attach->takeover &&
                (attach->by_admin || cluster_allowed_failover (a, node));
  if (!attach->by_admin && !cluster_allowed (a, node, attach->writable)) {
    cluster_access_refuse (c, op, a, node, attach->writable);
    return true;
  }
  /* From one that is silent it may, and without being told to. */
  if (!attach->takeover || *takes_over || s == NULL || !s->alive ||
      cluster_session_silent_ms (c, s) >= QUIET_MS)
    return false;
  cluster_step_refuse (
    c, op, CLUSTER_FORBIDDEN, "no-failover",
    "node %s may not take array %s from node %s, process %" PRIu64
    ", which is heard: an administrator evicts that (weftctl "
    "session evict %016" PRIx64 "), or gives the right to do it "
    "(weftctl array allow %s %s rw --failover)",
    node, name, s->rec.node, s->rec.pid, s->rec.id, name, node);
  return true;
}

/* A database that was restored from a backup is known by what members have seen:
 * after weftd's start nothing is granted before all that live have spoken.
 */
static bool
refuse_unheard (struct cluster *c, uint64_t op, const struct cluster_array *a)
{
  char words[320];
  unsigned m = cluster_copies_unheard (a);

  if (m == a->layout.members)
    return false;
  cluster_step_defer (c, op, CLUSTER_CONFLICT, "member-missing", HEARTBEAT_MS,
                      "array %s cannot be attached yet: weftd was just "
                      "started and has not heard of member %u (%s); ask "
                      "again, or start its member process",
                      a->rec.name, m,
                      cluster_words_disk (a->disk[m], words, sizeof words));
  return true;
}

bool
cluster_attach_check_refuse_asker (struct cluster *c, uint64_t op,
                                   const struct cluster_array *a,
                                   const struct cluster_attach *attach,
                                   bool *takes_over)
{
  return refuse_crowd (c, op) || cluster_step_refuse_read_only (c, op) ||
         refuse_fenced (c, op, a, attach) ||
         refuse_right (c, op, a, attach, takes_over) ||
         cluster_doubt_refuse (c, op, a) || refuse_unheard (c, op, a);
}

/* ---- What he asks for. ---- */

/* Is what the attach is to write no part of the array? */
static bool
refuse_part (struct cluster *c, uint64_t op, const struct cluster_array *a,
             const struct cluster_attach *attach)
{
  const struct cluster_part *part = &attach->part;

  if (part->length == 0 || cluster_lease_fits (a, part, a->layout.unit))
    return false;
  cluster_step_refuse (
    c, op, CLUSTER_INVALID, "part",
    "%" PRIu64 " bytes from %" PRIu64 " on are no part of "
    "array %s, which has %" PRIu64 " bytes: a part begins and "
    "ends at a multiple of %u (the stripe unit), or ends where "
    "the array ends",
    part->length, part->offset, a->rec.name, a->layout.size, a->layout.unit)
    ->field = "part";
  return true;
}

/* A pool is attached by one process, which serves its volumes, for writing. */
static bool
refuse_pool (struct cluster *c, uint64_t op, const struct cluster_array *a,
             const struct cluster_attach *attach)
{
  if (a->pool == NULL)
    return false;
  if (!attach->pools)
    cluster_step_refuse (
      c, op, CLUSTER_INVALID, "pool",
      "array %s is a pool, and the process on node %s does not know pools: "
      "upgrade Weft there, then attach a volume of the pool",
      a->rec.name, attach->node)
      ->field = "pools";
  else if (!attach->writable || attach->part.length > 0 || attach->service)
    cluster_step_refuse (
      c, op, CLUSTER_INVALID, "pool",
      "array %s is a pool: one process attaches it for writing (mode rw), and "
      "serves its volumes; so it can't be shared, served or attached read-only",
      a->rec.name)
      ->field = "mode";
  else
    return false;
  return true;
}

/* Would it be one too many that writes beside others? */
static bool
refuse_many (struct cluster *c, uint64_t op, const struct cluster_array *a,
             const struct cluster_attach *attach)
{
  const struct cluster_session *s = NULL;
  const struct waiting *w;
  unsigned count = 0;

  if (attach->part.length == 0)
    return false;
  while ((s = cluster_writer_next (a, s)))
    count += !cluster_attach_check_in_the_way (s, attach);
  TAILQ_FOREACH (w, &c->waitings, link)
    count += w->kind == WAIT_ATTACH && w->array == a && w->grant->writable &&
             !cluster_attach_check_conflicts (w->grant, attach);
  if (count < WRITERS_MAX)
    return false;
  cluster_step_refuse (
    c, op, CLUSTER_CONFLICT, "too-many",
    "%u sessions write array %s already, each a part of it or by "
    "leases, and no more can: detach one",
    count, a->rec.name);
  return true;
}

/* Members get the list of sessions that are over, and the list is bounded.  (A
 * writer fences all members, which empties it.)
 */
static bool
refuse_full (struct cluster *c, uint64_t op, const struct cluster_array *a,
             const struct cluster_attach *attach)
{
  if (!cluster_shut_room_of (c, a, attach->node)) {
    cluster_step_defer (
      c, op, CLUSTER_CONFLICT, "too-many", HEARTBEAT_MS,
      "node %s has too many sessions of array %s, with those that are over and "
      "that members were not told of yet (%d is the most for one node): detach "
      "some there, or ask again",
      attach->node, a->rec.name, OVER_NODE_MAX);
    return true;
  }
  if (cluster_shut_room (c, a, attach->writable))
    return false;
  cluster_step_defer (
    c, op, CLUSTER_CONFLICT, "too-many", HEARTBEAT_MS,
    "array %s has too many sessions, with those that are over and "
    "that members were not told of yet: detach some, or ask again",
    a->rec.name);
  return true;
}

/* An array that has a service is written by way of that, unless an administrator
 * orders otherwise; and only a candidate serves it.
 */
static bool
refuse_service (struct cluster *c, uint64_t op, const struct cluster_array *a,
                const struct cluster_attach *attach)
{
  const char *name = a->rec.name;

  if (attach->service && a->rec.service_nodes == 0)
    cluster_step_refuse (
      c, op, CLUSTER_CONFLICT, "no-service",
      "array %s has no service: name the nodes that may serve it "
      "(weftctl array service %s --on NODE,...)",
      name, name);
  else if (attach->service &&
           cluster_candidate_find (a, attach->node) == a->rec.service_nodes)
    cluster_step_refuse (
      c, op, CLUSTER_CONFLICT, "no-candidate",
      "node %s is no candidate of the service of array %s: name "
      "it among the nodes that may serve it",
      attach->node, name);
  else if (!attach->service && attach->writable && a->rec.service_nodes > 0 &&
           (!attach->takeover || attach->part.length > 0))
    cluster_step_refuse (
      c, op, CLUSTER_CONFLICT, "served",
      "array %s is served to all hosts: attach it by way of its "
      "service (nbdkit weft service=%s, weftctl attach %s "
      "--shared), or end that (weftctl array service %s --off)",
      name, name, name, name);
  else
    return false;
  return true;
}

bool
cluster_attach_check_refuse_wish (struct cluster *c, uint64_t op,
                                  const struct cluster_array *a,
                                  const struct cluster_attach *attach,
                                  bool fences)
{
  return refuse_pool (c, op, a, attach) || refuse_part (c, op, a, attach) ||
         refuse_many (c, op, a, attach) ||
         (!fences && refuse_full (c, op, a, attach)) ||
         refuse_service (c, op, a, attach);
}

/* ---- The array as it is. ---- */

bool
cluster_attach_check_refuse_beside (struct cluster *c, uint64_t op,
                                    const struct cluster_array *a)
{
  const struct cluster_session *s = NULL;
  const struct cluster_change *change = &a->rec.change;
  bool lost[ARRAY_MEMBERS_MAX] = { false };
  char words[320];
  unsigned m = 0;

  while ((s = cluster_writer_next (a, s)))
    for (m = 0; m < a->layout.members && s->alive; m++)
      lost[m] |= s->path[m].lost;
  for (m = 0; m < a->layout.members; m++)
    if (lost[m] || cluster_process_reborn (c, a, m))
      break;
  if (m < a->layout.members) {
    cluster_step_defer (
      c, op, CLUSTER_CONFLICT, "member-missing", HEARTBEAT_MS,
      "array %s cannot be attached just now: member %u (%s) was started again "
      "or lost, and the writer has not connected to it again yet; ask again",
      a->rec.name, m, cluster_words_disk (a->disk[m], words, sizeof words));
    return true;
  }
  if (change->epoch == 0 || change->sessions || !cluster_copies_behind (c, a))
    return false;
  cluster_tell_changing (c, op, a);
  return true;
}

static bool
refuse_creating (struct cluster *c, uint64_t op, const struct cluster_array *a)
{
  char text[1500];

  if (a->rec.ready)
    return false;
  if (!cluster_array_waits_for (c, a, text, sizeof text))
    snprintf (text, sizeof text, "its members");
  cluster_step_defer (c, op, CLUSTER_CONFLICT, "not-ready", HEARTBEAT_MS,
                      "array %s is not ready: it waits for %.500s", a->rec.name,
                      text);
  return true;
}

bool
cluster_attach_check_missing (const struct cluster_array *a, unsigned m,
                              bool late, const char **why)
{
  const struct cluster_disk *d = a->disk[m];

  *why = "does not confirm";
  if (a->rec.member[m].state == MEMBER_OUT)
    return false;
  if (late && cluster_change_waits_for (a, m))
    return true;
  if (a->rec.member[m].state == MEMBER_JOINING)
    return !cluster_disk_heard (d) || !d->alive || cluster_disk_failed (d) ||
           cluster_copies_disk_hangs (d) || !d->took_place;
  return !cluster_member_well (a, m, why);
}

bool
cluster_attach_check_refuse_members (struct cluster *c, uint64_t op,
                                     struct cluster_array *a, bool late,
                                     uint8_t states[])
{
  char words[320];
  const char *why;
  bool starting;

  cluster_copies_states (a, states);
  for (unsigned m = 0; m < a->layout.members; m++)
    if (cluster_attach_check_missing (a, m, late, &why))
      cluster_copies_leave_out (a, m, states);
  for (unsigned m = 0; m < a->layout.members; m++) {
    if (a->rec.member[m].state != MEMBER_IN_SYNC ||
        !cluster_attach_check_missing (a, m, late, &why))
      continue;
    starting = !late && !cluster_disk_failed (a->disk[m]) &&
               !a->disk[m]->old_copy &&
               !cluster_copies_disk_hangs (a->disk[m]) &&
               cluster_disk_silent_ms (c, a->disk[m]) < MISSING_MS;
    if (!starting && !cluster_change_loses (a, states))
      continue;
    cluster_step_defer (
      c, op, CLUSTER_CONFLICT, "member-missing", HEARTBEAT_MS,
      "array %s cannot be attached: member %u (%s) %s, and %s; %s", a->rec.name,
      m, cluster_words_disk (a->disk[m], words, sizeof words), why,
      cluster_change_loses (a, states)
        ? "without it some data has no copy"
        : "unless it comes soon, the array starts without it",
      a->disk[m]->old_copy ? OLD_COPY_WAY
                           : "start its member process and see its log");
    return true;
  }
  return false;
}

bool
cluster_attach_check_refuse_now (struct cluster *c, uint64_t op,
                                 struct cluster_array *a, bool fences,
                                 uint8_t states[])
{
  return (!fences && cluster_attach_check_refuse_beside (c, op, a)) ||
         refuse_creating (c, op, a) ||
         cluster_attach_check_refuse_members (c, op, a, false, states);
}
