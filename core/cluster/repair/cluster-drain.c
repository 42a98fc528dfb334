/* cluster-drain.c: members move away from a node that is being drained, and to
 * the disks that an administrator has ordered for them.
 *
 *   in-sync ──► out ──► its place is another disk's ──► joining ──► in-sync
 *
 * Nothing is remembered between the steps: each step is derived from the node's
 * or the member's record and the states of the members, whenever weftd looks.
 * If a member was put out, and there is no disk for it any more, it is taken
 * back like any other that is well (cluster-rebuild.c). If a member's new disk
 * is lost before it is in-sync, the member moves on to another.
 *
 * While a place moves, its data has one copy less.  So a member leaves only
 * when all others of its group are in-sync and well, and when a disk stands
 * ready.
 */

#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-repair.h"

/* ---- Where to. ---- */

/* The disk that a drain gave it is lost: it has failed, or been away for as long
 * as the array allows.  Nothing on it is needed.
 */
static bool
astray (const struct cluster *c, const struct cluster_array *a, unsigned member)
{
  const struct cluster_member *r = &a->rec.member[member];
  uint64_t gone_live_ms;

  if (r->state != MEMBER_OUT || !cluster_node_is_draining (c, r->moved_from))
    return false;
  gone_live_ms = cluster_rebuild_gone_live_ms (c, a, member);
  return cluster_disk_failed (a->disk[member]) ||
         (gone_live_ms && c->live_ms >= gone_live_ms);
}

/* The node that it is to leave, if that is drained. */
static const char *
leaves (const struct cluster *c, const struct cluster_array *a, unsigned member)
{
  return astray (c, a, member) ? a->rec.member[member].moved_from
                               : a->disk[member]->rec.node;
}

struct cluster_disk *
cluster_drain_pick (const struct cluster *c, const struct cluster_array *a,
                    unsigned member,
                    const struct cluster_disk *const promised[], char *why,
                    size_t why_size)
{
  struct cluster_disk *d, *best = NULL;
  struct cluster_problem p;
  bool apart = true; /* the group loses nothing with any one host */
  const struct layout_group group = layout_group (&a->layout, member);
  unsigned small = 0, taken = 0, given = 0;
  char bytes[32], others[48] = "";

  for (unsigned m = group.first; m < group.end; m++)
    apart &= cluster_place_harm_now (a, m) == 0;
  TAILQ_FOREACH (d, &c->disks, link) {
    bool promise = false;

    for (unsigned i = 0; promised && promised[i]; i++)
      promise |= promised[i] == d;
    if (d->array ||
        (!cluster_uuid_is_zero (d->rec.spare_of) &&
         !cluster_uuid_equal (d->rec.spare_of, a->rec.uuid)) ||
        strcmp (d->rec.node, leaves (c, a, member)) == 0 ||
        !cluster_place_usable (c, d, &p))
      continue;
    if (d->rec.data_bytes < a->rec.member_bytes)
      small++;
    else if (apart && cluster_place_harm (a, member, d->rec.node) > 0)
      taken++;
    else if (promise)
      given++;
    else if (cluster_place_better (a, member, d, best))
      best = d;
  }
  if (best)
    return best;
  cluster_words_bytes (a->rec.member_bytes, bytes, sizeof bytes);
  if (given)
    snprintf (others, sizeof others, ", %u for other members", given);
  snprintf (
    why, why_size,
    "a spare or blank disk of at least %s for member %u of array %s, on "
    "%s (%u too small, %u on nodes that have a member of its group%s)",
    bytes, member, a->rec.name,
    apart ? "a node without a member of its group" : "another node", small,
    taken, others);
  return NULL;
}

/* ---- When. ---- */

unsigned
cluster_drain_needs (const struct cluster *c, const struct cluster_array *a,
                     unsigned member, const char **why)
{
  const struct layout_group group = layout_group (&a->layout, member);
  bool which[ARRAY_MEMBERS_MAX] = { false };
  uint64_t unreachable;

  for (unsigned m = group.first; m < group.end; m++)
    if (m != member && !cluster_member_well (a, m, why))
      return m;
  /* A node in maintenance may be stopped at any time, with a member that is well. */
  which[member] = true;
  cluster_copies_without (c, a, which, NULL, &unreachable);
  for (unsigned m = group.first; unreachable && m < group.end; m++)
    if (m != member && cluster_node_in_maintenance (c, a->disk[m]->rec.node)) {
      *why = "is on a node in maintenance";
      return m;
    }
  return a->layout.members;
}

/* The reason for which a leaving member stays in its place. */
enum hold {
  HOLD_NONE,
  HOLD_PASSES, /* it goes by: nobody need do anything */
  HOLD_STAYS,
};

/* Is it needed only until it is in-sync, or heard of by a weftd that was just
 * started?
 */
static bool
soon_well (const struct cluster_array *a, unsigned m)
{
  const struct cluster_disk *d = a->disk[m];

  if (!d->alive || cluster_disk_failed (d) || d->old_copy)
    return false;
  return !cluster_disk_heard (d) ||
         (a->rec.member[m].state == MEMBER_JOINING &&
          !a->rec.member[m].paused && !d->join.waits[0]);
}

/* Why it can't leave its place now: the condition that is missing.  (Except a
 * disk.)
 */
static enum hold
hindered (const struct cluster *c, const struct cluster_array *a,
          unsigned member, char *text, size_t size)
{
  const struct cluster_session *writer;
  enum cluster_unequal unequal;
  const char *why = NULL;
  char words[320];
  uint64_t bytes;
  unsigned m;

  if (!a->rec.ready) {
    snprintf (text, size, "array %s to be made", a->rec.name);
    return HOLD_PASSES;
  }
  if (a->rec.member[member].held || a->rec.member[member].slow) {
    snprintf (
      text, size,
      "somebody to take back or replace member %u of array %s, which is "
      "held out",
      member, a->rec.name);
    return HOLD_STAYS;
  }
  if (a->rec.change.epoch && !cluster_copies_stays_out (a, member)) {
    snprintf (text, size, "array %s to end a change of its epoch", a->rec.name);
    return HOLD_PASSES;
  }
  if (a->rec.member[member].state != MEMBER_IN_SYNC)
    return HOLD_NONE;
  if (a->layout.copies == 1) {
    snprintf (text, size,
              "somebody to copy off and delete array %s: it has no redundancy, "
              "so its members cannot move",
              a->rec.name);
    return HOLD_STAYS;
  }
  if ((m = cluster_drain_needs (c, a, member, &why)) < a->layout.members) {
    snprintf (text, size, "member %u of array %s (%s), which %s", m,
              a->rec.name, cluster_words_disk (a->disk[m], words, sizeof words),
              why);
    return soon_well (a, m) ? HOLD_PASSES : HOLD_STAYS;
  }
  unequal = cluster_array_unequal (a, &bytes, &writer);
  if (unequal == UNEQUAL_GIVEN_BACK) {
    snprintf (text, size,
              a->layout.copies > 2
                ? "an administrator to detach array %s everywhere and to "
                  "attach it again, which resynchronizes its copies: a member "
                  "came back without its unflushed writes"
                : "a member of array %s to join again, which came back without "
                  "its unflushed writes",
              a->rec.name);
    return a->layout.copies > 2 ? HOLD_STAYS : HOLD_PASSES;
  }
  if (unequal != UNEQUAL_NONE) {
    snprintf (
      text, size,
      "a host to resynchronize the last writes of an ended session of array %s",
      a->rec.name);
    return cluster_array_writer_alive (a) ? HOLD_PASSES : HOLD_STAYS;
  }
  if (cluster_rebuild_writers_well (c, a, &writer))
    return HOLD_NONE;
  snprintf (text, size, "%s%s, which %s array %s",
            writer ? "node " : "the members", writer ? writer->rec.node : "",
            writer ? "writes to, and has lost its way to weftd or to a member "
                     "of,"
                   : "have not all confirmed the last epoch of",
            a->rec.name);
  return writer && writer->heard ? HOLD_STAYS : HOLD_PASSES;
}

bool
cluster_drain_hinders (const struct cluster *c, const struct cluster_array *a,
                       unsigned member, char *text, size_t size, bool *passes)
{
  enum hold hold = hindered (c, a, member, text, size);

  *passes = hold == HOLD_PASSES;
  return hold != HOLD_NONE;
}

/* The disk that was ordered for the member has become another's, or is forgotten. */
static bool
call_off (struct cluster *c, struct cluster_array *a, unsigned member)
{
  uint8_t *next = a->rec.member[member].next_disk;
  const struct cluster_disk *d = cluster_disk_find (c, next);

  if (cluster_uuid_is_zero (next) ||
      (d && d->array == NULL &&
       (cluster_uuid_is_zero (d->rec.spare_of) ||
        cluster_uuid_equal (d->rec.spare_of, a->rec.uuid))))
    return false;
  memset (next, 0, 16);
  cluster_step_put_array (c, a);
  cluster_step_changed_array (c, a);
  cluster_step_log (
    c, CLUSTER_WARNING, "array", a->rec.name,
    "Member %u of array %s does not move: the disk that was to have "
    "its place is not free any more.",
    member, a->rec.name);
  return true;
}

/* The disk to which the member moves now; NULL: none.  why: the reason in the
 * log if the member goes out for it.
 */
static struct cluster_disk *
moves_to (const struct cluster *c, const struct cluster_array *a,
          unsigned member, char *why, size_t why_size)
{
  const uint8_t *next = a->rec.member[member].next_disk;
  struct cluster_disk *to;
  char text[768];

  if (!cluster_uuid_is_zero (next)) {
    to = cluster_disk_find (c, next);
    if (!cluster_place_fits (c, a, to))
      return NULL;
    snprintf (why, why_size, "another disk replaces its disk");
  }
  else {
    if (!cluster_node_is_draining (c, leaves (c, a, member)))
      return NULL;
    to = cluster_drain_pick (c, a, member, NULL, text, sizeof text);
    snprintf (why, why_size, "node %s is being drained", leaves (c, a, member));
  }
  return hindered (c, a, member, text, sizeof text) == HOLD_NONE ? to : NULL;
}

bool
cluster_drain_move (struct cluster *c, struct cluster_array *a)
{
  char why[128], from[NAME_BYTES_MAX + 1], words[320], old[320];
  struct cluster_member *r;
  struct cluster_node *n;
  struct cluster_disk *to;

  TAILQ_FOREACH (n, &c->nodes, link)
    if (n->rec.draining)
      break;
  for (unsigned m = 0; m < a->layout.members; m++) {
    r = &a->rec.member[m];
    if (n == NULL && cluster_uuid_is_zero (r->next_disk))
      continue;
    if (call_off (c, a, m))
      return true;
    to = moves_to (c, a, m, why, sizeof why);
    if (to == NULL)
      continue;
    if (r->state != MEMBER_OUT) {
      cluster_place_put_out (c, a, m, why);
      return true; /* it is out when the change is COMMITted */
    }
    snprintf (from, sizeof from, "%s", leaves (c, a, m));
    cluster_words_disk (a->disk[m], old, sizeof old);
    cluster_place_give (c, a, m, to);
    /* The member may have been on its way here from another node that is drained.
     * That node counts as drained only when the data is elsewhere.
     */
    if (!cluster_node_is_draining (c, r->moved_from))
      snprintf (r->moved_from, sizeof r->moved_from, "%s",
                cluster_node_is_draining (c, from) ? from : "");
    cluster_step_put_array (c, a);
    cluster_step_log (
      c, CLUSTER_INFO, "array", a->rec.name,
      "Member %u of array %s moves from node %s to %s; it was %s.", m,
      a->rec.name, from, cluster_words_disk (to, words, sizeof words), old);
    return true;
  }
  return false;
}

/* ---- How far. ---- */

/* Is this member still there, or its place on its way from there? */
static bool
counts (const struct cluster_array *a, unsigned m, const char *node)
{
  return strcmp (a->disk[m]->rec.node, node) == 0 ||
         strcmp (a->rec.member[m].moved_from, node) == 0;
}

uint64_t
cluster_drain_bytes (const struct cluster *c, const char *node)
{
  const struct cluster_array *a;
  uint64_t bytes = 0;

  TAILQ_FOREACH (a, &c->arrays, link)
    for (unsigned m = 0; m < a->layout.members; m++) {
      const struct cluster_join *join = &a->disk[m]->join;

      if (!counts (a, m, node))
        continue;
      /* The member counts whole extents, which may be a little more than it has. */
      if (a->rec.member[m].moved_from[0] &&
          join->phase >= CLUSTER_JOIN_COPYING &&
          join->todo_bytes < a->rec.member_bytes)
        bytes += join->todo_bytes;
      else
        bytes += a->rec.member_bytes;
    }
  return bytes;
}

uint64_t
cluster_drain_rate (const struct cluster *c, const char *node, uint64_t *eta_ms)
{
  const struct cluster_array *a;
  double less, sum = 0;
  uint64_t rate = 0;
  bool known = true;

  TAILQ_FOREACH (a, &c->arrays, link)
    for (unsigned m = 0; m < a->layout.members; m++) {
      if (strcmp (a->rec.member[m].moved_from, node) != 0)
        continue;
      if (a->rec.member[m].state == MEMBER_JOINING)
        rate += a->disk[m]->join.rate;
      less = cluster_eta_rate (c, a, m);
      known &= less > 0;
      sum += less;
    }
  *eta_ms = known && sum > 0
              ? (uint64_t) (cluster_drain_bytes (c, node) * 1000 / sum)
              : 0;
  return rate;
}

bool
cluster_node_drained (const struct cluster *c, const char *name)
{
  const struct cluster_array *a;

  TAILQ_FOREACH (a, &c->arrays, link)
    for (unsigned m = 0; m < a->layout.members; m++)
      if (counts (a, m, name))
        return false;
  return true;
}

void
cluster_drain_arrived (struct cluster *c, struct cluster_member *member)
{
  char from[NAME_BYTES_MAX + 1];

  if (!member->moved_from[0])
    return;
  snprintf (from, sizeof from, "%s", member->moved_from);
  member->moved_from[0] = '\0';
  if (cluster_node_is_draining (c, from) && cluster_node_drained (c, from))
    cluster_step_log (c, CLUSTER_INFO, "node", from,
                      "Node %s is drained: it has no member any more.", from);
}

/* The reason for which it stays on the node.  promised: as in
 * cluster_drain_pick; the disk that it moves to is added to it.
 */
static enum hold
stays (const struct cluster *c, const struct cluster_array *a, unsigned member,
       const struct cluster_disk *promised[], char *text, size_t size)
{
  enum hold hold = hindered (c, a, member, text, size);
  const struct cluster_disk *to;
  char why[768];

  if (hold == HOLD_STAYS)
    return hold;
  to = cluster_drain_pick (c, a, member, promised, why, sizeof why);
  if (to == NULL) {
    snprintf (text, size, "%s", why);
    return HOLD_STAYS;
  }
  while (*promised)
    promised++;
  promised[0] = to;
  promised[1] = NULL;
  return hold;
}

/* It has left the node: the reason for which its rebuild elsewhere waits. */
static enum hold
stuck (const struct cluster *c, const struct cluster_array *a, unsigned member,
       const struct cluster_disk *promised[], char *text, size_t size)
{
  const struct cluster_disk *d = a->disk[member];
  char words[320], waits[768];

  if (a->rec.member[member].held || astray (c, a, member))
    return stays (c, a, member, promised, text, size);
  if (cluster_disk_failed (d) || !d->alive) {
    snprintf (
      text, size,
      "member %u of array %s, whose new %s %s: start its member process "
      "again, or replace the member by another disk",
      member, a->rec.name, cluster_words_disk (d, words, sizeof words),
      cluster_disk_failed (d) ? "has failed" : "is silent");
    return HOLD_STAYS;
  }
  if (a->rec.member[member].state != MEMBER_JOINING ||
      !cluster_join_waits (c, a, member, waits, sizeof waits))
    return HOLD_NONE;
  snprintf (text, size, "member %u of array %s, whose rebuild waits for %.600s",
            member, a->rec.name, waits);
  return soon_well (a, member) ? HOLD_PASSES : HOLD_STAYS;
}

struct cluster_stay *
cluster_node_stays (const struct cluster *c, const char *name, size_t *count,
                    bool *moving)
{
  const struct cluster_disk **promised;
  const struct cluster_array *a;
  struct cluster_stay *list;
  size_t room = 1;

  TAILQ_FOREACH (a, &c->arrays, link)
    for (unsigned m = 0; m < a->layout.members; m++)
      room += counts (a, m, name);
  promised = alloc_zeroed (room * sizeof *promised);
  list = alloc_zeroed (room * sizeof *list);
  *count = 0;
  *moving = false;
  TAILQ_FOREACH (a, &c->arrays, link)
    for (unsigned m = 0; m < a->layout.members; m++) {
      struct cluster_stay *s = &list[*count];
      enum hold hold;

      if (!counts (a, m, name))
        continue;
      s->moved = strcmp (a->rec.member[m].moved_from, name) == 0;
      hold = (s->moved ? stuck : stays) (c, a, m, promised, s->waits,
                                         sizeof s->waits);
      *moving |= s->moved && hold == HOLD_NONE;
      s->passes = hold == HOLD_PASSES;
      s->array = a;
      s->member = m;
      *count += hold != HOLD_NONE;
    }
  free (promised);
  return list;
}

bool
cluster_node_waits (const struct cluster *c, const char *name, char *text,
                    size_t size, bool *passes)
{
  const struct cluster_stay *first = NULL;
  struct cluster_stay *list;
  unsigned others = 0;
  size_t count;
  bool moving;

  if (!cluster_node_is_draining (c, name))
    return false;
  list = cluster_node_stays (c, name, &count, &moving);
  for (size_t i = 0; i < count; i++) {
    const struct cluster_stay *s = &list[i];

    /* A member that is on its way is named first, and before others one for which
     * somebody must do something.  While one moves, the rest wait for their turn.
     */
    if (moving && !s->moved)
      continue;
    if (!s->passes)
      others++;
    if (first == NULL || (s->moved && !first->moved) ||
        (s->moved == first->moved && first->passes && !s->passes))
      first = s;
  }
  if (first && !first->passes && others > 1)
    snprintf (text, size, "%s; and %u more member%s (weftctl node show %s)",
              first->waits, others - 1, others == 2 ? " stays" : "s stay",
              name);
  else if (first)
    snprintf (text, size, "%s", first->waits);
  if (first && passes)
    *passes = first->passes;
  free (list);
  return first != NULL;
}
